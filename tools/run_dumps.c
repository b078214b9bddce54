/* run_dumps.c - see run_dumps.h.  The folder is made by the first rank that writes to it (runtime/record/dump.c). */
#include "run_dumps.h"

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

#define KEPT 16

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

/* Keeps the newest in order of age, so that as many are sorted at once as there is room for. */
static void tidy(int fd, DIR *dir)
{
    struct dump dumps[KEPT + 1];
    struct dirent *entry;
    struct stat about;
    int n = 0;
    while ((entry = readdir(dir))) {
        size_t length = strlen(entry->d_name);
        if (strncmp(entry->d_name, "dump.", 5) != 0 || length >= sizeof(dumps[n].name) ||
            fstatat(fd, entry->d_name, &about, AT_SYMLINK_NOFOLLOW) || !S_ISREG(about.st_mode))
            continue;
        dumps[n].at = about.st_mtim;
        memcpy(dumps[n++].name, entry->d_name, length + 1);
        if (n <= KEPT) continue;
        qsort(dumps, (size_t)n, sizeof(dumps[0]), newest_first);
        unlinkat(fd, dumps[--n].name, 0);
    }
}

void run_dumps_tidy(void)
{
    int fd = *folder ? open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (dir) tidy(fd, dir);
    if (dir)
        closedir(dir);
    else if (fd >= 0)
        close(fd);
    if (*folder) rmdir(folder);
}
