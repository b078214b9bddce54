/* run_emulate.c - see run_emulate.h.
 *
 * The emulated libraries take the place of the real ones by LD_LIBRARY_PATH, and they cannot run code for a
 * GPU.  So a program must be linked dynamically, as must all it needs, have no runtime of CUDA inside, no
 * code for a GPU, and no DT_RPATH that leads to the real ones, because that goes first.  A script is judged
 * by its interpreter.  What a program loads later by itself is not seen here. */
#include "run_emulate.h"
#include "beside.h"
#include "run_elf.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SCRIPT_DEPTH_MAX = 4, EMULATED_MAX = 4 };

/* One question about one program; the first thing that is wrong says so. */
struct inquiry {
    char dir[RUN_ELF_PATH_BYTES]; /* of the emulation */
    char file[EMULATED_MAX][256]; /* what it has: libcudart.so.13 */
    int files;
    char program[RUN_ELF_PATH_BYTES]; /* or the interpreter of a script */
    bool cuda;                        /* some part links CUDA or NCCL, or brings in more by itself */
    char *sentence;
    size_t bytes;
};

static bool __attribute__((format(printf, 2, 3))) refuse(struct inquiry *q, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(q->sentence, q->bytes, format, args);
    va_end(args);
    return false;
}

/* ---- the emulation
 * --------------------------------------------------------------------------------------- */

static bool find_emulation(struct inquiry *q)
{
    char path[RUN_ELF_PATH_BYTES];
    struct dirent *entry;
    DIR *dir;
    beside_lib(path, sizeof(path), "weft/emulation");
    dir = realpath(path, q->dir) ? opendir(q->dir) : NULL;
    while (dir && (entry = readdir(dir)) && q->files < EMULATED_MAX)
        if (strstr(entry->d_name, ".so."))
            snprintf(q->file[q->files++], sizeof(q->file[0]), "%s", entry->d_name);
    if (dir) closedir(dir);
    if (q->files >= 2) return true;
    return refuse(q, "there is no emulation in %s: it is built where CUDA and NCCL are found", path);
}

/* "libcudart.so.13" of "libcudart.so.12": does the emulation stand in for that library,
 * in whatever version? */
static const char *stands_in(const struct inquiry *q, const char *name)
{
    const char *suffix = strstr(name, ".so");
    for (int i = 0; suffix && i < q->files; i++)
        if (!strncmp(q->file[i], name, (size_t)(suffix - name) + strlen(".so"))) return q->file[i];
    return NULL;
}

/* ---- one file
 * ---------------------------------------------------------------------------------------------- */

/* Would one of these folders, which go before LD_LIBRARY_PATH, bring up another library in place of ours? */
static bool judge_rpath(struct inquiry *q, const char *path, const char *rpath)
{
    char folder[RUN_ELF_PATH_BYTES], other[2 * RUN_ELF_PATH_BYTES], own[RUN_ELF_PATH_BYTES];
    static const char *const origin[] = {"$ORIGIN", "${ORIGIN}"};
    for (const char *at = rpath; *at;) {
        size_t n = strcspn(at, ":"), skip = 0;
        folder[0] = '\0';
        for (int i = 0; i < 2; i++)
            if (!strncmp(at, origin[i], strlen(origin[i]))) {
                snprintf(folder, sizeof(folder), "%.*s", (int)(strrchr(path, '/') - path), path);
                skip = strlen(origin[i]);
            }
        snprintf(other, sizeof(other), "%s%.*s", folder, (int)(n - skip), at + skip);
        if (realpath(other, own) && strcmp(own, q->dir))
            for (int i = 0; i < q->files; i++) {
                snprintf(other, sizeof(other), "%s/%s", own, q->file[i]);
                if (!access(other, F_OK))
                    return refuse(
                        q,
                        "%s has the DT_RPATH %s, which goes before LD_LIBRARY_PATH and leads to %s: "
                        "link it with -Wl,--enable-new-dtags",
                        path, rpath, other);
            }
        at += n + (at[n] == ':');
    }
    return true;
}

static bool judge_elf(struct inquiry *q, const char *path, const struct run_elf *elf)
{
    if (elf->device_code)
        return refuse(q, "%s holds code for a GPU (section %s), which only a GPU can run", path,
                      elf->device_code);
    if (elf->static_cuda)
        return refuse(q,
                      "%s holds a CUDA runtime of its own: link libcudart dynamically (nvcc: -cudart shared)",
                      path);
    if (elf->needs_cuda || elf->brings_more) q->cuda = true;
    return judge_rpath(q, path, elf->rpath);
}

/* A library of the program: "  NAME => PATH (0x...)", or "  NAME => not found". */
static bool judge_library(struct inquiry *q, char *line)
{
    struct run_elf elf;
    char *name = line + strspn(line, " \t"), *path = strstr(line, " => "), own[RUN_ELF_PATH_BYTES], *end;
    const char *ours;
    if (!path) return true; /* the kernel's own, and the loader */
    *path = '\0';
    path += strlen(" => ");
    ours = stands_in(q, name);
    if (!strncmp(path, "not found", strlen("not found"))) {
        if (ours)
            return refuse(q, "%s needs %s, and the emulation is one of %s: build both with the same CUDA",
                          q->program, name, ours);
        return refuse(q, "%s needs %s, which is not found", q->program, name);
    }
    if ((end = strstr(path, " (0x"))) *end = '\0';
    if (!realpath(path, own)) return refuse(q, "%s needs %s, which is not found", q->program, path);
    if (!strncmp(own, q->dir, strlen(q->dir)) && own[strlen(q->dir)] == '/') return true;
    if (!strncmp(name, "libc.so.", strlen("libc.so."))) return true; /* defines dlopen; no use to look at */
    if (run_elf_read(own, &elf) != RUN_ELF_READ) return refuse(q, "%s cannot be read as a library", own);
    if (!judge_elf(q, own, &elf)) return false;
    if (!ours) return true;
    return refuse(q, "%s gets %s from %s, not from the emulation, which has %s", q->program, name, own, ours);
}

/* "undefined symbol: cudaNAME, version libcudart.so.13\t(FILE)" */
static bool judge_symbol(struct inquiry *q, const char *name)
{
    if (strncmp(name, "cuda", 4) && strncmp(name, "__cuda", 6) && strncmp(name, "nccl", 4)) return true;
    return refuse(q, "%s calls %.*s, which the emulation does not have", q->program,
                  (int)strcspn(name, ", \t"), name);
}

/* ---- what a program needs
 * ---------------------------------------------------------------------------------- */

/* glibc's loader itself tells what it would load, and which symbols would be missing; nothing of the program
 * runs.  What ldd -r does. */
static FILE *list_libraries(const char *loader, const char *program, pid_t *pid)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC)) return NULL;
    *pid = fork();
    if (*pid == 0) {
        if (dup2(fds[1], STDOUT_FILENO) < 0 || dup2(fds[1], STDERR_FILENO) < 0) _exit(1);
        setenv("LD_TRACE_LOADED_OBJECTS", "1", 1);
        setenv("LD_WARN", "yes", 1);
        setenv("LD_BIND_NOW", "yes", 1);
        execl(loader, loader, program, (char *)NULL);
        _exit(1);
    }
    close(fds[1]);
    if (*pid > 0) return fdopen(fds[0], "r");
    close(fds[0]);
    return NULL;
}

static bool judge_libraries(struct inquiry *q, const char *loader)
{
    static const char undefined[] = "undefined symbol: ";
    char line[2 * RUN_ELF_PATH_BYTES];
    bool fine = true;
    pid_t pid = -1;
    int how = 0;
    FILE *list;
    if (!strstr(loader, "/ld-linux"))
        return refuse(q, "%s is not linked with glibc, as the emulation is, but for %s", q->program, loader);
    list = list_libraries(loader, q->program, &pid);
    while (list && fgets(line, sizeof(line), list)) {
        line[strcspn(line, "\n")] = '\0';
        if (!fine) continue; /* to its end, so that the loader is not cut off */
        fine = !strncmp(line, undefined, strlen(undefined)) ? judge_symbol(q, line + strlen(undefined))
                                                            : judge_library(q, line);
    }
    if (list) fclose(list);
    if (pid > 0) waitpid(pid, &how, 0);
    if (!fine) return false;
    if (!list || how) return refuse(q, "%s cannot tell which libraries %s needs", loader, q->program);
    return true;
}

static bool judge_program(struct inquiry *q, const struct run_elf *elf, bool script)
{
    const char *path = q->program;
    if (!*elf->loader)
        return refuse(q, "%s is linked statically: emulated libraries cannot be put under it", path);
    if (!judge_elf(q, path, elf) || !judge_libraries(q, elf->loader)) return false;
    if (q->cuda || script) return true;
    return refuse(
        q, "%s uses no GPU: no part of it links libcudart or libnccl, loads libraries or starts programs",
        path);
}

/* ---- finding it
 * ---------------------------------------------------------------------------------------------- */

/* As execvp does.  False: there is no such program. */
static bool find_program(const char *name, char *path)
{
    char folder[RUN_ELF_PATH_BYTES], both[2 * RUN_ELF_PATH_BYTES];
    const char *at = getenv("PATH");
    if (strchr(name, '/')) return realpath(name, path) && !access(path, X_OK);
    for (at = at ? at : "/bin:/usr/bin"; *at;) {
        size_t n = strcspn(at, ":");
        snprintf(folder, sizeof(folder), "%.*s", (int)n, at);
        snprintf(both, sizeof(both), "%s/%s", n ? folder : ".", name);
        if (realpath(both, path) && !access(path, X_OK)) return true;
        at += n + (at[n] == ':');
    }
    return false;
}

/* The program that a script names in its first line, found; of "#!/usr/bin/env python3" python3. */
static bool find_interpreter(const char *script, char *path)
{
    char line[512] = "", *word, *rest;
    FILE *f = fopen(script, "re");
    if (f && !fgets(line, sizeof(line), f)) line[0] = '\0';
    if (f) fclose(f);
    if (strncmp(line, "#!", 2)) return false;
    word = strtok_r(line + 2, " \t\n", &rest);
    if (word && !strcmp(strrchr(word, '/') ? strrchr(word, '/') + 1 : word, "env")) do {
            word = strtok_r(NULL, " \t\n", &rest);
        } while (word && (*word == '-' || strchr(word, '=')));
    return word && find_program(word, path);
}

static bool judge(struct inquiry *q, const char *program)
{
    char *path = q->program, script[RUN_ELF_PATH_BYTES];
    struct run_elf elf;
    enum run_elf_kind kind;
    if (!find_program(program, path)) return true; /* starting it says so, as without emulation */
    for (int depth = 0; depth <= SCRIPT_DEPTH_MAX; depth++) {
        kind = run_elf_read(path, &elf);
        if (kind == RUN_ELF_READ) return judge_program(q, &elf, depth > 0);
        if (kind == RUN_ELF_UNREADABLE)
            return refuse(q, "%s cannot be read, so it cannot be seen whether it would run there: %s", path,
                          strerror(errno));
        memcpy(script, q->program, sizeof(script));
        if (!find_interpreter(script, path)) break;
    }
    return refuse(q, "%s is neither a program for this machine nor a script whose interpreter is one", path);
}

bool run_emulate(int devices, const char *program, char *sentence, size_t bytes)
{
    const char *now = getenv("LD_LIBRARY_PATH");
    char number[16], folders[2 * RUN_ELF_PATH_BYTES];
    struct inquiry q = {.sentence = sentence, .bytes = bytes};
    if (!find_emulation(&q)) return false;
    snprintf(number, sizeof(number), "%d", devices);
    snprintf(folders, sizeof(folders), "%s%s%s", q.dir, now && *now ? ":" : "", now ? now : "");
    setenv("CUDA_EMULATION_DEVICES", number, 1);
    setenv("LD_LIBRARY_PATH", folders, 1);
    return judge(&q, program);
}
