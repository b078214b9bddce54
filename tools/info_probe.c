/* info_probe.c - see info_probe.h.  Children made here have ended when a function returns. */
#include "info_probe.h"
#include "module_folder.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weft/backend.h>

/* ---- backends ------------------------------------------------------------------------------------ */

static void try_module(const char *path, char *text, size_t bytes)
{
    static const weft_backend_runtime table = {.version = WEFT_BACKEND_VERSION}; /* all that asking needs */
    const char *why = "it does not say why";
    weft_backend_open_fn *open;
    weft_backend *backend;
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!module) {
        snprintf(text, bytes, "%s", dlerror());
        return;
    }
    *(void **)&open = dlsym(module, WEFT_BACKEND_OPEN);
    backend = open ? open(&table, NULL, &why) : NULL;
    if (!open)
        snprintf(text, bytes, "%s has no %s", path, WEFT_BACKEND_OPEN);
    else if (!backend)
        snprintf(text, bytes, "%s", why);
    else if (backend->version != WEFT_BACKEND_VERSION)
        snprintf(text, bytes, "%s is made for another version of Weft", path);
    else
        snprintf(text, bytes, "yes: %s (%s)", backend->describe ? backend->describe(backend) : "", path);
    if (backend && backend->version == WEFT_BACKEND_VERSION) backend->close(backend);
    dlclose(module);
}

/* "libweft_NAME.so" -> NAME; false for anything else. */
static bool module_name(const char *file, char *name, size_t bytes)
{
    static const char head[] = "libweft_", tail[] = ".so";
    size_t n = strlen(file), fixed = strlen(head) + strlen(tail);
    if (n <= fixed || n - fixed >= bytes || strncmp(file, head, strlen(head)) ||
        strcmp(file + n - strlen(tail), tail))
        return false;
    snprintf(name, bytes, "%.*s", (int)(n - fixed), file + strlen(head));
    return true;
}

void info_backends(void (*tell)(const char *name, const char *text))
{
    char at[WEFT__FOLDER_BYTES], path[sizeof(at) + 300], name[64], text[sizeof(path) + 300];
    bool nccl = false;
    struct dirent *entry;
    DIR *dir;
    if (weft__module_folder(at)) {
        tell("nccl", weft_last_error());
        return;
    }
    dir = opendir(at);
    while (dir && (entry = readdir(dir))) {
        if (!module_name(entry->d_name, name, sizeof(name))) continue;
        snprintf(path, sizeof(path), "%s/%s", at, entry->d_name);
        try_module(path, text, sizeof(text));
        tell(name, text);
        nccl = nccl || !strcmp(name, "nccl");
    }
    if (dir) closedir(dir);
    if (nccl) return;
    snprintf(text, sizeof(text), "there is no libweft_nccl.so in %s", at);
    tell("nccl", text);
}

/* ---- memory ---------------------------------------------------------------------------------------- */

bool info_shared_memory(char *why, size_t bytes)
{
    int fd = memfd_create("weft-info", MFD_CLOEXEC);
    bool works = fd >= 0 && !posix_fallocate(fd, 0, 4096);
    if (!works) snprintf(why, bytes, "memfd: %s", strerror(errno));
    if (fd >= 0) close(fd);
    return works;
}

/* In a child: 0, or errno of reading `word` in another process, where it has the same address. */
static int read_peer(pid_t peer, const long *word)
{
    long there = 0;
    struct iovec to = {&there, sizeof(there)}, from = {(void *)(uintptr_t)word, sizeof(there)};
    if (process_vm_readv(peer, &to, 1, &from, 1, 0) != (ssize_t)sizeof(there)) return errno ? errno : EIO;
    return there == *word ? 0 : EIO;
}

void info_peer_reads(char *text, size_t bytes)
{
    static long word = 0x57454654;
    int how = 0;
    pid_t reader, peer = fork();
    if (peer == 0) {
        pause();
        _exit(0);
    }
    reader = fork();
    if (reader == 0) _exit(peer > 0 ? read_peer(peer, &word) : ECHILD);
    if (reader < 0 || waitpid(reader, &how, 0) < 0 || !WIFEXITED(how))
        snprintf(text, bytes, "no: could not be tried");
    else if (WEXITSTATUS(how))
        snprintf(text, bytes, "no: %s", strerror(WEXITSTATUS(how)));
    else
        snprintf(text, bytes, "yes");
    if (peer > 0) {
        kill(peer, SIGKILL);
        waitpid(peer, NULL, 0);
    }
}
