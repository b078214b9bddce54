/* run_dumps.c - see run_dumps.h.  The folder is made by the first rank that writes to it (runtime/record/dump.c). */
#include "run_dumps.h"
#include "run_place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* As the library names them (runtime/record/dump_file.h): dump.RUN.json, dump.RUN.2.json, or of one host of several
 * dump.RUN.rank4.json, dump.RUN.rank4.2.json. */
#define DUMP      "dump."
#define PART      ".part"
#define RUN_CHARS (RUN_DUMPS_RUN_BYTES - 1)
#define KEPT      16

static char folder[PATH_MAX]; /* "": the user has named one, or there is none */

void run_dumps_choose(void)
{
    const char *named = getenv("WEFT_DUMP_DIR"), *top = getenv("WEFT_RUN_DIR");
    struct stat about;
    if (named && *named) return;
    if (snprintf(folder, sizeof(folder), "%s/weft-dumps-%u", top && *top ? top : "/tmp",
                 (unsigned)geteuid()) >= (int)sizeof(folder) ||
        (lstat(folder, &about) ? errno != ENOENT : !S_ISDIR(about.st_mode) || about.st_uid != geteuid()) ||
        setenv("WEFT_DUMP_DIR", folder, 1))
        *folder = '\0';
}

struct dump {
    struct timespec at;
    char name[64];
};

static int newest_first(const void *a, const void *b)
{
    const struct dump *left = a, *right = b;
    if (left->at.tv_sec != right->at.tv_sec) return left->at.tv_sec > right->at.tv_sec ? -1 : 1;
    if (left->at.tv_nsec != right->at.tv_nsec) return left->at.tv_nsec > right->at.tv_nsec ? -1 : 1;
    return strcmp(left->name, right->name);
}

static bool next_dump(int fd, DIR *dir, struct dump *dump)
{
    struct dirent *entry;
    struct stat about;
    while ((entry = readdir(dir))) {
        size_t length = strlen(entry->d_name);
        if (strncmp(entry->d_name, DUMP, strlen(DUMP)) != 0 || length >= sizeof(dump->name) ||
            fstatat(fd, entry->d_name, &about, AT_SYMLINK_NOFOLLOW) || !S_ISREG(about.st_mode))
            continue;
        dump->at = about.st_mtim;
        memcpy(dump->name, entry->d_name, length + 1);
        return true;
    }
    return false;
}

static DIR *open_dumps(const char *path)
{
    int fd = *path ? open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir && fd >= 0) close(fd);
    return dir;
}

/* Whole, and written by that job: the ranks of others may write to the same folder. */
static bool is_of(const struct dump *dump, int port, time_t since)
{
    char run[RUN_CHARS + 1], job[128];
    size_t length = strlen(dump->name);
    if (dump->at.tv_sec < since || length < strlen(DUMP) + RUN_CHARS + strlen(".json") ||
        strcmp(dump->name + length - strlen(".json"), ".json") != 0)
        return false;
    snprintf(run, sizeof(run), "%s", dump->name + strlen(DUMP));
    return run_job_recorded(port, since, run, job, sizeof(job));
}

static bool is_better(const struct dump *dump, const struct dump *than, const char *own)
{
    bool is = strstr(dump->name, own), was = strstr(than->name, own);
    return !*than->name || (is == was ? newest_first(dump, than) < 0 : is);
}

static const char *where(void)
{
    return *folder ? folder : getenv("WEFT_DUMP_DIR");
}

bool run_dumps_find(int port, time_t since, int lowest, char *path, size_t bytes)
{
    const char *in = where();
    DIR *dir = in ? open_dumps(in) : NULL;
    struct dump dump, best = {.name = ""};
    char own[24];
    snprintf(own, sizeof(own), ".rank%d.", lowest);
    while (dir && next_dump(dirfd(dir), dir, &dump))
        if (is_of(&dump, port, since) && is_better(&dump, &best, own)) best = dump;
    if (dir) closedir(dir);
    return *best.name && snprintf(path, bytes, "%s/%s", in, best.name) < (int)bytes;
}

/* ---- one file for all hosts ---- */

void run_dumps_run_of(const char *path, char run[RUN_DUMPS_RUN_BYTES])
{
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    *run = '\0';
    if (strncmp(name, DUMP, strlen(DUMP)) != 0) return;
    name += strlen(DUMP);
    if (strspn(name, digits) == RUN_CHARS) snprintf(run, RUN_DUMPS_RUN_BYTES, "%s", name);
}

FILE *run_dumps_create(const char *run, char *path, size_t bytes)
{
    const char *in = where();
    char part[PATH_MAX];
    FILE *file;
    int fd;
    if (!in || snprintf(path, bytes, "%s/" DUMP "%s.json", in, run) >= (int)bytes ||
        snprintf(part, sizeof(part), "%s" PART, path) >= (int)sizeof(part)) {
        errno = in ? ENAMETOOLONG : ENOENT;
        return NULL;
    }
    mkdir(in, 0700); /* if it is not there */
    fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!file && fd >= 0) close(fd);
    return file;
}

bool run_dumps_finish(FILE *file, const char *path)
{
    char part[PATH_MAX];
    bool good = !ferror(file);
    good = !fclose(file) && good;
    snprintf(part, sizeof(part), "%s" PART, path);
    if (good && !rename(part, path)) return true;
    unlink(part);
    return false;
}

/* ---- what is kept ---- */

/* Keeps the newest in order of age, so that as many are sorted at once as there is room for. */
static void tidy(DIR *dir)
{
    struct dump dumps[KEPT + 1];
    int n = 0;
    while (next_dump(dirfd(dir), dir, &dumps[n])) {
        if (++n <= KEPT) continue;
        qsort(dumps, (size_t)n, sizeof(dumps[0]), newest_first);
        unlinkat(dirfd(dir), dumps[--n].name, 0);
    }
}

void run_dumps_tidy(void)
{
    DIR *dir = open_dumps(folder);
    if (dir) tidy(dir);
    if (dir) closedir(dir);
    if (*folder) rmdir(folder);
}
