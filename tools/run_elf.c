/* run_elf.c - see run_elf.h.  Every offset of the file is checked against its size: a
 * broken file is no ELF. */
#include "run_elf.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct image {
    const unsigned char *at;
    size_t bytes;
    const Elf64_Ehdr *head;
    const Elf64_Shdr *sections;
};

static const void *part(const struct image *image, size_t offset, size_t bytes)
{
    if (offset > image->bytes || bytes > image->bytes - offset) return NULL;
    return image->at + offset;
}

/* Finds a part that is a table, whose rows are as this machine keeps them. */
static const void *table(const struct image *image, size_t offset, size_t bytes)
{
    return offset % _Alignof(Elf64_Shdr) ? NULL : part(image, offset, bytes);
}

/* In a section of strings; "" where there is none. */
static const char *string_in(const struct image *image, size_t section, size_t offset)
{
    const Elf64_Shdr *s = section < image->head->e_shnum ? &image->sections[section] : NULL;
    const char *text = s && s->sh_type == SHT_STRTAB ? part(image, s->sh_offset, s->sh_size) : NULL;
    if (!text || offset >= s->sh_size || !memchr(text + offset, '\0', s->sh_size - offset)) return "";
    return text + offset;
}

static bool starts(const char *text, const char *with)
{
    return !strncmp(text, with, strlen(with));
}

/* ---- sections ------------------------------------------------------------------------------------------ */

static void read_dynamic(const struct image *image, const Elf64_Shdr *s, struct run_elf *elf)
{
    const Elf64_Dyn *entry = table(image, s->sh_offset, s->sh_size);
    bool runpath = false;
    for (size_t i = 0; entry && i < s->sh_size / sizeof(*entry) && entry[i].d_tag != DT_NULL; i++) {
        const char *text = string_in(image, s->sh_link, entry[i].d_un.d_val);
        if (entry[i].d_tag == DT_NEEDED && (starts(text, "libcudart.so") || starts(text, "libnccl.so")))
            elf->needs_cuda = true;
        if (entry[i].d_tag == DT_RPATH) snprintf(elf->rpath, sizeof(elf->rpath), "%s", text);
        if (entry[i].d_tag == DT_RUNPATH) runpath = true;
    }
    if (runpath) elf->rpath[0] = '\0'; /* then the loader passes over the other one */
}

/* dlopen, the functions of the exec family and those that use them. */
static bool brings_more(const char *name)
{
    return !strcmp(name, "dlopen") || starts(name, "exec") || starts(name, "posix_spawn") ||
           !strcmp(name, "system");
}

static void read_symbols(const struct image *image, const Elf64_Shdr *s, struct run_elf *elf)
{
    const Elf64_Sym *symbol = table(image, s->sh_offset, s->sh_size);
    for (size_t i = 0; symbol && i < s->sh_size / sizeof(*symbol); i++) {
        const char *name = string_in(image, s->sh_link, symbol[i].st_name);
        bool defined = symbol[i].st_shndx != SHN_UNDEF;
        if (!defined && brings_more(name)) elf->brings_more = true;
        if (defined && !strcmp(name, "cudaGetDeviceCount")) elf->static_cuda = true;
    }
}

static void read_section(const struct image *image, const Elf64_Shdr *s, struct run_elf *elf)
{
    /* A name of shared memory which only the CUDA runtime uses: it is there when the symbols are not. */
    static const char own[] = "/cudart.shm.";
    const char *name = string_in(image, image->head->e_shstrndx, s->sh_name);
    const void *data;
    if (!strcmp(name, ".nv_fatbin")) elf->device_code = ".nv_fatbin";
    if (!strcmp(name, "__nv_relfatbin")) elf->device_code = "__nv_relfatbin";
    if (s->sh_type == SHT_DYNAMIC) read_dynamic(image, s, elf);
    if (s->sh_type == SHT_SYMTAB || s->sh_type == SHT_DYNSYM) read_symbols(image, s, elf);
    if (s->sh_type != SHT_PROGBITS || !(s->sh_flags & SHF_ALLOC)) return;
    data = part(image, s->sh_offset, s->sh_size);
    if (data && memmem(data, s->sh_size, own, strlen(own))) elf->static_cuda = true;
}

static bool read_image(struct image *image, struct run_elf *elf)
{
    const Elf64_Ehdr *head = image->head = table(image, 0, sizeof(*head));
    const Elf64_Phdr *segment;
    if (!head || memcmp(head->e_ident, ELFMAG, SELFMAG) || head->e_ident[EI_CLASS] != ELFCLASS64 ||
        head->e_ident[EI_DATA] != ELFDATA2LSB || head->e_shentsize != sizeof(Elf64_Shdr) || !head->e_shnum ||
        (head->e_phnum && head->e_phentsize != sizeof(Elf64_Phdr)))
        return false;
    image->sections = table(image, head->e_shoff, (size_t)head->e_shnum * sizeof(Elf64_Shdr));
    segment = table(image, head->e_phoff, (size_t)head->e_phnum * sizeof(*segment));
    if (!image->sections || !segment) return false;
    for (int i = 0; i < head->e_phnum; i++) {
        const char *loader =
            segment[i].p_type == PT_INTERP ? part(image, segment[i].p_offset, segment[i].p_filesz) : NULL;
        if (loader)
            snprintf(elf->loader, sizeof(elf->loader), "%.*s", (int)strnlen(loader, segment[i].p_filesz),
                     loader);
    }
    for (int i = 0; i < head->e_shnum; i++) read_section(image, &image->sections[i], elf);
    return true;
}

enum run_elf_kind run_elf_read(const char *path, struct run_elf *elf)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC), error;
    struct image image = {0};
    struct stat st;
    void *map = MAP_FAILED;
    bool read;
    memset(elf, 0, sizeof(*elf));
    if (fd < 0) return RUN_ELF_UNREADABLE;
    if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size > 0) {
        image.bytes = (size_t)st.st_size;
        map = mmap(NULL, image.bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    }
    error = errno;
    close(fd);
    errno = error;
    if (map == MAP_FAILED) return RUN_ELF_OTHER;
    image.at = map;
    read = read_image(&image, elf);
    munmap(map, image.bytes);
    return read ? RUN_ELF_READ : RUN_ELF_OTHER;
}
