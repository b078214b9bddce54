/* record_file.c - making a record's file, and removing old ones.  A limit on the length of files or a full file
 * system is an error here, and not a signal later on.
 *
 * Pages cost more than anything that is written to them, and who maps or populates many holds up the other threads of
 * its process.  So a record begins with the few that every rank needs, and grows by a factor where it is used. */
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
#define FIRST_OPS 128 /* operations that a record begins with */
#define GROWTH    4

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

/* 0, or what stands in the way; EINVAL: the kernel cannot be asked. */
static int populate(const void *memory, weft__record_part part)
{
#ifdef MADV_POPULATE_WRITE
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = ((uintptr_t)memory + part.from) & ~(page - 1);
    return madvise((void *)from, (uintptr_t)memory + part.to - from, MADV_POPULATE_WRITE) ? errno : 0;
#else
    (void)memory;
    (void)part;
    return EINVAL;
#endif
}

static int make_room(int fd, void *memory, size_t ops, int world, size_t *room)
{
    weft__record_part lines, more;
    int cause;
    *room = ops < FIRST_OPS ? ops : FIRST_OPS;
    weft__record_parts(ops, world, *room, &lines, &more);
    cause = populate(memory, (weft__record_part){0, lines.to});
    if (!cause) cause = populate(memory, more);
    if (cause != EINVAL) return cause;
    *room = ops;
    return reserve(fd, weft__record_bytes(ops, world));
}

static int open_new(int folder, const char *name)
{
    const int how = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    int fd = openat(folder, name, how, 0600);
    if (fd >= 0 || errno != EEXIST || unlinkat(folder, name, 0)) return fd;
    return openat(folder, name, how, 0600);
}

weft_status weft__record_file_make(int folder, const char *name, size_t ops, int world, void **memory,
                                   size_t *room)
{
    const size_t bytes = weft__record_bytes(ops, world);
    weft_status status = check_limit(bytes);
    void *map = MAP_FAILED;
    int fd, cause = 0;
    if (status != WEFT_OK) return status;
    fd = open_new(folder, name);
    if (fd < 0) return weft__fail_errno("cannot make %s", name);
    if (ftruncate(fd, (off_t)bytes) ||
        (map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) == MAP_FAILED)
        cause = errno;
    else
        cause = make_room(fd, map, ops, world, room);
    close(fd);
    if (!cause) {
        *memory = map;
        return WEFT_OK;
    }
    if (map != MAP_FAILED) munmap(map, bytes);
    unlinkat(folder, name, 0);
    errno = cause == EFAULT ? ENOSPC : cause; /* as a write there would be told */
    return weft__fail_errno("no memory for %s, which has %zu bytes", name, bytes);
}

void weft__record_file_grow(weft__recorder *r)
{
    const size_t ops = (r->mask >> WEFT__OPERATION_LINE_BITS) + 1,
                 room = atomic_load_explicit(&r->room, memory_order_relaxed),
                 wanted = room * GROWTH < ops ? room * GROWTH : ops;
    weft__record_part lines, more;
    const int world = (int)weft__got(&r->file[WEFT__HEAD_WORLD]);
    weft__record_parts(ops, world, wanted, &lines, &more);
    lines.from += room * WEFT__OPERATION_LINE_WORDS * sizeof(weft__word);
    more.from += room * WEFT__OPERATION_MORE_WORDS * sizeof(weft__word);
    weft__record_room_is(r, populate((const void *)r->file, lines) || populate((const void *)r->file, more)
                                ? room
                                : wanted);
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
    static const char *const beside[] = {WEFT__RECORD_EXITS, WEFT__RECORD_DUMPS};
    const newest *n = arg;
    char other[WEFT__RECORD_NAME_BYTES];
    (void)last;
    if (strcmp(n->run, run) == 0) return;
    unlinkat(dirfd(dir), name, 0);
    for (size_t i = 0; i < WEFT__LENGTH(beside); i++) {
        snprintf(other, sizeof other, WEFT__RECORD_NAME "%s%s", run, beside[i]);
        unlinkat(dirfd(dir), other, 0);
    }
    snprintf(other, sizeof other, "%.*s" WEFT__RECORD_DUMPS, (int)(sizeof other - sizeof WEFT__RECORD_DUMPS),
             name); /* where it was the lowest rank of one host of several */
    unlinkat(dirfd(dir), other, 0);
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
