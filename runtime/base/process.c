/* process.c - see process.h.  From /proc and kill(2): what cannot be read is not known. */
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FIELD_STATE = 3, FIELD_STARTED = 22, FIELD_STACK = 28 }; /* of /proc/PID/stat, by proc(5) */

void weft__boot_id(char id[WEFT__BOOT_ID_BYTES])
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, id, WEFT__BOOT_ID_BYTES - 1) : -1;
    if (fd >= 0) close(fd);
    id[n > 0 ? n : 0] = '\0';
    id[strcspn(id, "\n")] = '\0';
}

/* The first space of each kernel has one number everywhere, hence the kernel's own beside it (hashed by FNV-1a). */
static uint64_t look_at_own_space(void)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    char boot[WEFT__BOOT_ID_BYTES];
    struct stat st, time_ns; /* its clock is what /proc tells starts by */
    weft__boot_id(boot);
    if (!*boot || stat("/proc/self/ns/pid", &st)) return 0;
    for (const char *at = boot; *at; at++) hash = (hash ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
    if (!stat("/proc/self/ns/time", &time_ns))
        hash = (hash ^ (uint64_t)time_ns.st_ino) * UINT64_C(0x100000001b3);
    return hash ^ (uint64_t)st.st_ino;
}

/* It never changes: a process that enters another one has that for its children alone. */
static uint64_t own_space(void)
{
    static _Atomic uint64_t known;
    uint64_t space = atomic_load_explicit(&known, memory_order_relaxed);
    if (space) return space;
    space = look_at_own_space();
    atomic_store_explicit(&known, space, memory_order_relaxed);
    return space;
}

/* What has not been told is 0. */
static weft__process_id look_at(int32_t pid)
{
    weft__process_id found = {.pid = pid};
    char path[48], text[1024], *at;
    ssize_t n;
    int fd;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0) close(fd);
    text[n > 0 ? n : 0] = '\0';
    at = strrchr(text, ')'); /* a program's name may hold anything */
    for (int field = FIELD_STATE; at && field <= FIELD_STACK; field++) {
        at = strchr(at + 1, ' ');
        if (at && field == FIELD_STARTED) found.started = strtoull(at, NULL, 10);
        if (at && field == FIELD_STACK) found.stack = strtoull(at, NULL, 10);
    }
    return found;
}

weft__process_id weft__process_own(void)
{
    weft__process_id own = look_at((int32_t)getpid());
    own.space = own_space();
    return own;
}

bool weft__process_may_be(const weft__process_id *process, int32_t pid)
{
    return !process->space || process->space != own_space() || process->pid == pid;
}

bool weft__process_is_seen(const weft__process_id *process)
{
    return process->started && process->space && process->pid > 0 && process->pid != (int32_t)getpid() &&
           process->space == own_space();
}

/* A process that waits for its parent is not told apart here: its threads may live when the first of them has ended. */
bool weft__process_has_ended(const weft__process_id *process)
{
    if (!weft__process_is_seen(process)) return false;
    return (kill(process->pid, 0) && errno == ESRCH) || weft__process_is_another(process);
}

bool weft__process_is_another(const weft__process_id *process)
{
    weft__process_id found;
    if (!weft__process_is_seen(process)) return false;
    found = look_at(process->pid);
    return (found.started && found.started != process->started) ||
           (found.stack && process->stack && found.stack != process->stack);
}

bool weft__process_is_same(const weft__process_id *process)
{
    weft__process_id found;
    if (!weft__process_is_seen(process)) return false;
    found = look_at(process->pid);
    return found.started == process->started && found.stack && found.stack == process->stack;
}

int weft__process_open(const weft__process_id *process)
{
    int fd = weft__process_is_seen(process) ? (int)syscall(SYS_pidfd_open, process->pid, 0) : -1;
    if (fd < 0 || !weft__process_has_ended(process)) return fd;
    close(fd); /* it may be another process of that number */
    return -1;
}
