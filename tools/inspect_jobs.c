/* inspect_jobs.c - looks through the places where job directories are made, at what belongs to this user alone. */
#include "inspect_jobs.h"
#include "born.h"
#include "layout.h"
#include "number.h"
#include "settings.h"
#include "snapshot.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MEMORY     "/dev/shm"
#define USER_NAMES 16 /* weft-UID, weft-UID-1 and so on: where others have taken a name there is a next one */
#define RUN_LEAST  4  /* digits of a run's number that tell it */

/* What is sought; NULL and 0: anything. */
struct sought {
    const char *what;
    int64_t pid;
};

static int open_own(int at, const char *name)
{
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    if (fd >= 0 && (fstat(fd, &st) || st.st_uid != geteuid())) {
        close(fd);
        fd = -1;
        errno = EPERM;
    }
    return fd;
}

/* ---- one folder ---- */

/* The first words, as far as they are one; the whole is read, and checked, by who shows it. */
static bool read_head(int folder, const char *name, uint64_t head[WEFT__HEAD_FIXED], int64_t *changed_ns)
{
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    const ssize_t bytes = WEFT__HEAD_FIXED * sizeof *head;
    struct stat st;
    bool good;
    if (fd < 0) return false;
    good = !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_uid == geteuid();
    if (good) *changed_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    if (!good || pread(fd, head, (size_t)bytes, 0) != bytes || head[WEFT__HEAD_MAGIC] != WEFT__RECORD_MAGIC)
        head[WEFT__HEAD_PID] = head[WEFT__HEAD_REALTIME] = 0;
    close(fd);
    return good;
}

static struct inspect_run *run_of(struct inspect_runs *found, const char *folder, const char *job,
                                  const char *run)
{
    struct inspect_run *r;
    for (size_t i = 0; i < found->count; i++)
        if (!strcmp(found->runs[i].run, run) && !strcmp(found->runs[i].folder, folder))
            return &found->runs[i];
    if (found->count == found->room) {
        size_t room = found->room ? 2 * found->room : 16;
        struct inspect_run *more = realloc(found->runs, room * sizeof *more);
        if (!more) return NULL;
        found->runs = more;
        found->room = room;
    }
    r = &found->runs[found->count++];
    memset(r, 0, sizeof *r);
    snprintf(r->folder, sizeof r->folder, "%s", folder);
    snprintf(r->job, sizeof r->job, "%s", job);
    snprintf(r->run, sizeof r->run, "%s", run);
    return r;
}

static void take_record(struct inspect_runs *found, int folder, const char *path, const char *job,
                        const char *name)
{
    uint64_t head[WEFT__HEAD_FIXED];
    char run[INSPECT_RUN_BYTES];
    struct inspect_run *r;
    int64_t changed_ns, born;
    int rank;
    if (!weft__record_name_read(name, run, &rank) || !read_head(folder, name, head, &changed_ns)) return;
    if (!(r = run_of(found, path, job, run))) return;
    r->records++;
    born = head[WEFT__HEAD_PID] && head[WEFT__HEAD_PID] <= INT32_MAX
               ? weft__born((int64_t)head[WEFT__HEAD_PID])
               : 0;
    if (born && born == (int64_t)head[WEFT__HEAD_BORN]) r->lives = true;
    if (head[WEFT__HEAD_REALTIME] && head[WEFT__HEAD_REALTIME] < INT64_MAX)
        changed_ns = (int64_t)head[WEFT__HEAD_REALTIME];
    if (!r->begun_ns || changed_ns < r->begun_ns) r->begun_ns = changed_ns;
}

/* Takes fd. */
static void take_folder(struct inspect_runs *found, int fd, const char *path, const char *job)
{
    DIR *dir = fdopendir(fd);
    if (!dir) {
        close(fd);
        return;
    }
    for (struct dirent *entry; (entry = readdir(dir));) take_record(found, fd, path, job, entry->d_name);
    closedir(dir);
}

/* ---- all places ---- */

static void take_jobs(struct inspect_runs *found, int user, const char *path)
{
    DIR *dir = fdopendir(user);
    if (!dir) {
        close(user);
        return;
    }
    for (struct dirent *entry; (entry = readdir(dir));) {
        char job[PATH_MAX];
        int fd;
        if (entry->d_name[0] == '.' || (fd = open_own(user, entry->d_name)) < 0) continue;
        if (snprintf(job, sizeof job, "%s/%s", path, entry->d_name) < (int)sizeof job)
            take_folder(found, fd, job, entry->d_name);
        else
            close(fd);
    }
    closedir(dir);
}

static void take_root(struct inspect_runs *found, const char *root)
{
    int at = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (at < 0) return;
    for (int i = 0; i < USER_NAMES; i++) {
        char name[32], path[PATH_MAX];
        int user;
        snprintf(name, sizeof name, i ? "weft-%u-%d" : "weft-%u", (unsigned)geteuid(), i);
        user = open_own(at, name);
        if (user < 0) continue;
        if (snprintf(path, sizeof path, "%s/%s", root, name) < (int)sizeof path)
            take_jobs(found, user, path);
        else
            close(user);
    }
    close(at);
}

static void take_all(struct inspect_runs *found)
{
    const char *given = weft__setting_text(WEFT__SET_RUN_DIR), *runtime = getenv("XDG_RUNTIME_DIR");
    if (*given) {
        take_root(found, given);
    } else {
        if (runtime && *runtime && strcmp(runtime, "/tmp") != 0) take_root(found, runtime);
        take_root(found, "/tmp");
    }
    if (strcmp(given, MEMORY) != 0) take_root(found, MEMORY);
}

/* ---- what was asked for ---- */

static int younger(const void *a, const void *b)
{
    const struct inspect_run *left = a, *right = b;
    if (left->lives != right->lives) return left->lives ? -1 : 1;
    if (left->begun_ns != right->begun_ns) return left->begun_ns > right->begun_ns ? -1 : 1;
    return strcmp(left->run, right->run);
}

/* Has it a rank of that number? */
static bool has_process(const struct inspect_run *run, int64_t pid)
{
    int fd = open(run->folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    bool found = false;
    if (!dir) {
        if (fd >= 0) close(fd);
        return false;
    }
    for (struct dirent *entry; !found && (entry = readdir(dir));) {
        uint64_t head[WEFT__HEAD_FIXED];
        char number[INSPECT_RUN_BYTES];
        int64_t changed_ns;
        int rank;
        found = weft__record_name_read(entry->d_name, number, &rank) && !strcmp(number, run->run) &&
                read_head(fd, entry->d_name, head, &changed_ns) && head[WEFT__HEAD_PID] == (uint64_t)pid;
    }
    closedir(dir);
    return found;
}

static bool is_meant(const struct inspect_run *run, const char *what, int pass)
{
    int64_t pid;
    switch (pass) {
    case 0: return !strcmp(run->job, what);
    case 1: return weft__number_read(what, 1, INT32_MAX, &pid) && has_process(run, pid);
    default: return strlen(what) >= RUN_LEAST && !strncmp(run->run, what, strlen(what));
    }
}

/* A name goes before a process, and that before what may be the beginning of many runs' numbers. */
static void choose(struct inspect_runs *found, const char *what)
{
    for (int pass = 0; pass < 3; pass++) {
        size_t n = 0;
        for (size_t i = 0; i < found->count; i++)
            if (is_meant(&found->runs[i], what, pass)) n++;
        if (!n && pass < 2) continue;
        n = 0;
        for (size_t i = 0; i < found->count; i++)
            if (is_meant(&found->runs[i], what, pass)) found->runs[n++] = found->runs[i];
        found->count = n;
        return;
    }
}

/* The last part of a path, without what slashes end it. */
static void last_part(const char *path, char *name, size_t bytes)
{
    size_t end = strlen(path), begin;
    while (end > 1 && path[end - 1] == '/') end--;
    for (begin = end; begin && path[begin - 1] != '/';) begin--;
    snprintf(name, bytes, "%.*s", (int)(end - begin), path + begin);
}

static bool take_path(struct inspect_runs *found, const char *path, char why[INSPECT_WHY_BYTES])
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char name[INSPECT_JOB_BYTES];
    struct stat st;
    if (fd < 0 || fstat(fd, &st)) {
        snprintf(why, INSPECT_WHY_BYTES, "cannot open %s: %s", path, strerror(errno));
    } else if (st.st_uid != geteuid()) {
        snprintf(why, INSPECT_WHY_BYTES, "%s belongs to user %u, not to us", path, (unsigned)st.st_uid);
    } else {
        last_part(path, name, sizeof name);
        take_folder(found, fd, path, name);
        return true;
    }
    if (fd >= 0) close(fd);
    return false;
}

bool inspect_jobs_find(const char *what, struct inspect_runs *found, char why[INSPECT_WHY_BYTES])
{
    bool path = what && strchr(what, '/');
    *found = (struct inspect_runs){0};
    if (path && !take_path(found, what, why)) return false;
    if (path && !found->count) { /* its records may lie in memory, under the same name */
        char name[INSPECT_JOB_BYTES];
        last_part(what, name, sizeof name);
        take_all(found);
        choose(found, name);
    } else if (!path) {
        take_all(found);
        if (what) choose(found, what);
    }
    if (found->count) qsort(found->runs, found->count, sizeof *found->runs, younger);
    if (found->count || !what) return true;
    snprintf(why, INSPECT_WHY_BYTES,
             "there is no record of %s: no job of this user on this host has that name, number or process, "
             "or it was "
             "started with WEFT_RECORD=0",
             what);
    return false;
}

void inspect_jobs_free(struct inspect_runs *found)
{
    free(found->runs);
    *found = (struct inspect_runs){0};
}
