/* job_dir.c - the directory of one job of this user, and the cleaning away of those of dead jobs.
 * Each open of a job holds a shared flock on the directory itself; a cleaner takes the exclusive lock without
 * waiting, so it never removes one that is in use.
 *
 * What can be left when all ranks are killed: the directory, its secret and, of ranks that one launcher
 * started on one host, the file at which they met.  That has to have a name, by which ranks that come later
 * find it, and the kernel takes no name away when a process ends; all else has none (memory, sockets, what is
 * not yet whole).  weft-run removes the directory when its ranks have ended.  After other launchers the next
 * start of this user does: at once the meeting, which is of no use to anybody then, and the rest when it is a
 * day old or there are KEPT_DEAD newer ones, so that a rank that starts late or again finds the job's secret.
 *
 * Fails when a part of the path is a link of ours, may be
 * entered by others or, below this user's own directory, belongs to somebody else; never because cleaning did
 * not work. */
#include "log.h"
#include "secret.h"
#include "settings.h"
#include "status.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#define KEPT_DEAD       16
#define KEPT_SECONDS    (24 * 60 * 60)
#define OPEN_ATTEMPTS   16 /* a cleaner can take the directory away between our mkdir and our lock */
#define ID_BYTES        128
#define USER_NAMES      16 /* that are tried where other users have made what goes by them */
#define USER_BYTES      32
#define USER_PATH_BYTES (PATH_MAX - ID_BYTES)

/* Makes and opens one directory level that is ours alone; -1 and the sentence are set when it is not. */
static int open_private(int parent, const char *name, const char *path)
{
    struct stat st;
    int fd;
    if (mkdirat(parent, name, 0700) && errno != EEXIST) {
        weft__fail_errno("cannot make the directory %s", path);
        return -1;
    }
    fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        if (errno == ELOOP || errno == ENOTDIR)
            weft__fail(WEFT_ERR_SYSTEM, "%s is a link or not a directory; remove it or set WEFT_RUN_DIR",
                       path);
        else
            weft__fail_errno("cannot open the directory %s", path);
        return -1;
    }
    if (fstat(fd, &st))
        weft__fail_errno("cannot examine the directory %s", path);
    else if (st.st_uid != geteuid())
        weft__fail(WEFT_ERR_SYSTEM, "the directory %s belongs to user %u, not to us; set WEFT_RUN_DIR", path,
                   (unsigned)st.st_uid);
    else if (st.st_mode & 077)
        weft__fail(WEFT_ERR_SYSTEM, "the directory %s has mode %04o: others may enter it; chmod 700 it", path,
                   (unsigned)(st.st_mode & 07777));
    else
        return fd;
    close(fd);
    return -1;
}

/* A job directory holds plain files only, so one level of unlinking empties it. */
static void remove_job(int user_fd, const char *name)
{
    int fd = openat(user_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir;
    if (fd < 0) return;
    if (flock(fd, LOCK_EX | LOCK_NB) || !(dir = fdopendir(fd))) {
        close(fd);
        return;
    }
    for (struct dirent *entry; (entry = readdir(dir));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            unlinkat(fd, entry->d_name, 0);
    unlinkat(user_fd, name, AT_REMOVEDIR);
    closedir(dir); /* and with it the lock */
}

/* Whether somebody holds it; a name that is gone counts as used: there is nothing to remove.  Where nobody
 * does, the file at which its ranks met goes. */
static bool in_use(int user_fd, const char *name)
{
    int fd = openat(user_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    bool used = fd < 0 || flock(fd, LOCK_EX | LOCK_NB);
    struct stat st;
    if (!used && !fstat(fd, &st) && !unlinkat(fd, WEFT__JOB_DIR_REGISTRY, 0))
        futimens(fd, (struct timespec[]){st.st_atim, st.st_mtim}); /* that was no use of it */
    if (fd >= 0) close(fd);
    return used;
}

typedef struct kept {
    char name[NAME_MAX + 1];
    struct timespec used;
} kept;

static bool earlier(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec != b->tv_sec ? a->tv_sec < b->tv_sec : a->tv_nsec < b->tv_nsec;
}

/* One pass: too old ones go at once; of the others the newest KEPT_DEAD stay, in a table ordered by age. */
static void clean(int user_fd, const char *own)
{
    kept *table = calloc(KEPT_DEAD + 1, sizeof *table);
    int fd = openat(user_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    time_t now = time(NULL);
    size_t n = 0;
    if (!dir || !table) goto done;
    for (struct dirent *entry; (entry = readdir(dir));) {
        struct stat st;
        size_t at;
        if (entry->d_name[0] == '.' || !strcmp(entry->d_name, own)) continue;
        if (fstatat(user_fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISDIR(st.st_mode)) continue;
        if (in_use(user_fd, entry->d_name)) continue;
        if (st.st_mtime < now - KEPT_SECONDS) {
            remove_job(user_fd, entry->d_name);
            continue;
        }
        for (at = n; at > 0 && earlier(&table[at - 1].used, &st.st_mtim); at--) table[at] = table[at - 1];
        table[at].used = st.st_mtim;
        memcpy(table[at].name, entry->d_name, strlen(entry->d_name) + 1);
        if (n < KEPT_DEAD)
            n++;
        else
            remove_job(user_fd, table[KEPT_DEAD].name);
    }
done:
    if (dir)
        closedir(dir);
    else if (fd >= 0)
        close(fd);
    free(table);
}

/* The lock is worth something only on the directory that the name still leads to. */
static bool lock_shared(int user_fd, const char *name, int fd)
{
    struct stat held, named;
    if (flock(fd, LOCK_SH | LOCK_NB)) {
        usleep(1000); /* a cleaner examines it just now */
        return false;
    }
    if (fstat(fd, &held) || fstatat(user_fd, name, &named, AT_SYMLINK_NOFOLLOW)) return false;
    return held.st_ino == named.st_ino && held.st_dev == named.st_dev;
}

static int open_job(int user_fd, const char *name, const char *path)
{
    for (int attempt = 0; attempt < OPEN_ATTEMPTS; attempt++) {
        int fd = open_private(user_fd, name, path);
        if (fd < 0) return -1;
        if (lock_shared(user_fd, name, fd)) {
            futimens(fd, NULL); /* counts as used now */
            return fd;
        }
        close(fd);
    }
    weft__fail(WEFT_ERR_SYSTEM, "the directory %s cannot be locked: something else holds or removes it",
               path);
    return -1;
}

static weft_status clean_id(const char *id, char name[ID_BYTES])
{
    size_t n = strlen(id);
    if (n == 0 || n >= ID_BYTES)
        return weft__fail(WEFT_ERR_ARGUMENT, "a job's name must have 1 to %d characters", ID_BYTES - 17);
    for (size_t i = 0; i <= n; i++)
        name[i] = isalnum((unsigned char)id[i]) || strchr("-_.", id[i]) ? id[i] : '_';
    if (name[0] == '.') name[0] = '_'; /* "..", and what a cleaner would pass over */
    return WEFT_OK;
}

/* Where job directories are made.  A runtime directory that su, cron or a container has left behind in the
 * environment is passed over. */
static weft_status open_root(const char **root, int *fd)
{
    const char *given = weft__setting_text(WEFT__SET_RUN_DIR), *runtime = getenv("XDG_RUNTIME_DIR");
    struct stat st;
    *root = *given ? given : "/tmp";
    if (!*given && runtime && *runtime) {
        *fd = open(runtime, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        *root = runtime;
        if (*fd >= 0 && !fstat(*fd, &st) && st.st_uid == geteuid()) return WEFT_OK;
        *root = "/tmp";
        if (*fd >= 0)
            weft__log(
                WEFT__INFO,
                "XDG_RUNTIME_DIR is \"%s\", which belongs to user %u, not to us: job directories are made "
                "in %s; WEFT_RUN_DIR chooses another place",
                runtime, (unsigned)st.st_uid, *root);
        else
            weft__log(
                WEFT__INFO,
                "XDG_RUNTIME_DIR is \"%s\", which cannot be opened (%s): job directories are made in %s; "
                "WEFT_RUN_DIR chooses another place",
                runtime, strerror(errno), *root);
        if (*fd >= 0) close(*fd);
    }
    *fd = open(*root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return *fd >= 0 ? WEFT_OK : weft__fail_errno("cannot open %s, where job directories are made", *root);
}

/* The directory of this user's jobs.  Where another user has taken its name there is a next one: whoever may
 * write in /tmp could keep all others from running.  All ranks pass over the same names: nobody can take
 * away, or make, what is another user's there. */
static int open_user(int root_fd, const char *root, char path[USER_PATH_BYTES])
{
    char name[USER_BYTES];
    unsigned us = (unsigned)geteuid();
    struct stat st;
    for (int i = 0; i < USER_NAMES; i++) {
        snprintf(name, sizeof name, i ? "weft-%u-%d" : "weft-%u", us, i);
        if (i)
            weft__log(WEFT__INFO, "%s belongs to user %u: %s/%s is used in its place", path,
                      (unsigned)st.st_uid, root, name);
        if (snprintf(path, USER_PATH_BYTES, "%s/%s", root, name) >= USER_PATH_BYTES) {
            weft__fail(WEFT_ERR_ARGUMENT, "the path of the job directory under %s is too long", root);
            return -1;
        }
        if (fstatat(root_fd, name, &st, AT_SYMLINK_NOFOLLOW) || st.st_uid == us)
            return open_private(root_fd, name, path);
    }
    weft__fail(WEFT_ERR_SYSTEM, "%s and the names before it belong to other users; set WEFT_RUN_DIR", path);
    return -1;
}

/* name: clean.  Closes root_fd. */
static weft_status open_below(int root_fd, const char *root, const char *name, bool cleans, char *path,
                              size_t bytes, int *fd)
{
    char user[USER_PATH_BYTES];
    weft_status status = WEFT_OK;
    int user_fd = open_user(root_fd, root, user), length;
    close(root_fd);
    if (user_fd < 0) return WEFT_ERR_SYSTEM;
    length = snprintf(path, bytes, "%s/%s", user, name);
    if (length < 0 || (size_t)length >= bytes)
        status = weft__fail(WEFT_ERR_ARGUMENT, "the path of the job directory under %s is too long", root);
    else if ((*fd = open_job(user_fd, name, path)) < 0)
        status = WEFT_ERR_SYSTEM;
    else if (cleans)
        clean(user_fd, name);
    close(user_fd);
    return status;
}

weft_status weft__job_dir_open(const char *id, char *path, size_t bytes, int *fd)
{
    const char *root;
    char name[ID_BYTES];
    int root_fd;
    weft_status status = clean_id(id, name);
    if (status) return status;
    if ((status = open_root(&root, &root_fd))) return status;
    return open_below(root_fd, root, name, true, path, bytes, fd);
}

weft_status weft__job_dir_in_memory(const char *job_dir, char *path, size_t bytes, int *fd)
{
    const char *name = strrchr(job_dir, '/');
    struct statfs where;
    int root_fd;
    *fd = -1;
    if (!statfs(job_dir, &where) &&
        ((uint32_t)where.f_type == TMPFS_MAGIC || (uint32_t)where.f_type == RAMFS_MAGIC)) {
        snprintf(path, bytes, "%s", job_dir);
        return WEFT_OK;
    }
    root_fd = open(WEFT__JOB_DIR_MEMORY, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root_fd < 0) return weft__fail_errno("cannot open " WEFT__JOB_DIR_MEMORY);
    return open_below(root_fd, WEFT__JOB_DIR_MEMORY, name ? name + 1 : job_dir, false, path, bytes, fd);
}

void weft__job_dir_clean_beside(const char *path)
{
    const char *name = strrchr(path, '/');
    char user[USER_PATH_BYTES];
    int user_fd;
    if (!name || snprintf(user, sizeof user, "%.*s", (int)(name - path), path) >= (int)sizeof user) return;
    user_fd = open(user, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (user_fd < 0) return;
    clean(user_fd, name + 1);
    close(user_fd);
}

void weft__job_dir_leave(const char *path, int fd)
{
    int again;
    close(fd);
    again = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (again < 0) return;
    if (!flock(again, LOCK_EX | LOCK_NB)) rmdir(path); /* stays if there is something in it */
    close(again);
}
