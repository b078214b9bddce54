/* record_file.c - making a record's file, and removing old ones.  A limit on the length of files or a full file
 * system is an error here, and not a signal later on. */
#include "record_file.h"
#include "born.h"
#include "snapshot.h"
#include "status.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define RUN_BYTES 17

void weft__record_name_make(const char *run, int rank, char name[WEFT__RECORD_NAME_BYTES])
{
    snprintf(name, WEFT__RECORD_NAME_BYTES, WEFT__RECORD_NAME "%.16s.%d", run, rank);
}

static weft_status check_limit(size_t bytes)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit)) return weft__fail_errno("asking for the limit on the size of files");
    if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= bytes) return WEFT_OK;
    return weft__fail(
        WEFT_ERR_SYSTEM,
        "a record is a file of %zu bytes, and the limit on the size of files (RLIMIT_FSIZE, ulimit -f) is "
        "%llu bytes",
        bytes, (unsigned long long)limit.rlim_cur);
}

static int reserve(int fd, size_t bytes)
{
    int cause;
    do {
        cause = posix_fallocate(fd, 0, (off_t)bytes);
    } while (cause == EINTR);
    return cause;
}

weft_status weft__record_file_make(int folder, const char *name, size_t bytes, void **memory)
{
    weft_status status = check_limit(bytes);
    int fd;
    if (status != WEFT_OK) return status;
    if (unlinkat(folder, name, 0) && errno != ENOENT)
        return weft__fail_errno("cannot remove an old %s", name);
    fd = openat(folder, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) return weft__fail_errno("cannot make %s", name);
    errno = reserve(fd, bytes);
    *memory = errno ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (*memory == MAP_FAILED) {
        status = weft__fail_errno("no memory for %s, which has %zu bytes", name, bytes);
        unlinkat(folder, name, 0);
    }
    close(fd);
    return status;
}

void weft__record_file_touch(const weft__recorder *r)
{
#ifdef MADV_POPULATE_WRITE
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)r->ops & ~(page - 1);
    if (r->ops) madvise((void *)from, (uintptr_t)r->more - from, MADV_POPULATE_WRITE);
#else
    (void)r;
#endif
}

/* Its writer has ended, or never came far; what cannot be read stays. */
static bool is_dead(int folder, const char *name, struct timespec *last)
{
    uint64_t head[WEFT__HEAD_FIXED];
    struct stat file;
    bool dead = false;
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return false;
    if (!fstat(fd, &file) && S_ISREG(file.st_mode) &&
        pread(fd, head, sizeof head, 0) == (ssize_t)sizeof head) {
        int64_t born = weft__born((int64_t)head[WEFT__HEAD_PID]);
        dead = !born || born != (int64_t)head[WEFT__HEAD_BORN];
        *last = file.st_ctim;
    }
    close(fd);
    return dead;
}

static bool earlier(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec != b->tv_sec ? a->tv_sec < b->tv_sec : a->tv_nsec < b->tv_nsec;
}

/* Calls for each record of a dead writer of another run. */
static void each_dead(DIR *dir, const char *run,
                      void (*then)(DIR *, const char *, const char *, struct timespec, void *), void *arg)
{
    char of[RUN_BYTES];
    struct timespec last;
    int rank;
    rewinddir(dir);
    for (struct dirent *entry; (entry = readdir(dir));)
        if (weft__record_name_read(entry->d_name, of, &rank) && strncmp(of, run, RUN_BYTES - 1) != 0 &&
            is_dead(dirfd(dir), entry->d_name, &last))
            then(dir, entry->d_name, of, last, arg);
}

typedef struct newest {
    char run[RUN_BYTES];
    struct timespec last;
} newest;

static void find_newest(DIR *dir, const char *name, const char *run, struct timespec last, void *arg)
{
    newest *n = arg;
    (void)dir;
    (void)name;
    if (*n->run && !earlier(&n->last, &last)) return;
    memcpy(n->run, run, sizeof n->run);
    n->last = last;
}

static void remove_older(DIR *dir, const char *name, const char *run, struct timespec last, void *arg)
{
    const newest *n = arg;
    (void)last;
    if (strcmp(n->run, run) != 0) unlinkat(dirfd(dir), name, 0);
}

void weft__record_files_clean(int folder, const char *run)
{
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    newest kept = {.run = ""};
    if (dir) {
        each_dead(dir, run, find_newest, &kept);
        if (*kept.run) each_dead(dir, run, remove_older, &kept);
        closedir(dir);
    } else if (fd >= 0) {
        close(fd);
    }
}
