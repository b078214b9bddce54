/* run_elf.h - what a file's ELF tells of the CUDA in it, without running it. */
#ifndef WEFT_RUN_ELF_H
#define WEFT_RUN_ELF_H
#include <stdbool.h>

enum { RUN_ELF_PATH_BYTES = 4096 };

enum run_elf_kind {
    RUN_ELF_UNREADABLE, /* errno says why */
    RUN_ELF_OTHER,      /* no ELF file for this kind of machine, or a broken one */
    RUN_ELF_READ
};

struct run_elf {
    char loader[RUN_ELF_PATH_BYTES]; /* of a dynamically linked program; "": there is none */
    char rpath[RUN_ELF_PATH_BYTES];  /* DT_RPATH where it counts, which is before LD_LIBRARY_PATH; "": none */
    bool needs_cuda;                 /* libcudart or libnccl, by name */
    bool brings_more;                /* loads libraries or starts programs by itself, and so perhaps these */
    const char *device_code;         /* the section with code for a GPU, or NULL */
    bool static_cuda;                /* holds a CUDA runtime of its own */
};

enum run_elf_kind run_elf_read(const char *path, struct run_elf *elf);
#endif
