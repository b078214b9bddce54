/* born.c - reads field 22 of /proc/PID/stat; the second one may have anything in it, also blanks and brackets. */
#include "born.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define STATE 3 /* the first field behind the name */
#define BORN  22

enum { TEXT_BYTES = 1024 };

/* From the bracket behind the name on; NULL: there is no such process. */
static const char *read_stat(int64_t pid, char text[TEXT_BYTES])
{
    char path[64];
    const char *at;
    ssize_t n;
    int fd;
    snprintf(path, sizeof path, "/proc/%" PRId64 "/stat", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return NULL;
    n = read(fd, text, TEXT_BYTES - 1);
    close(fd);
    text[n > 0 ? n : 0] = 0;
    at = strrchr(text, ')');
    return at && at[1] == ' ' ? at : NULL;
}

int64_t weft__born(int64_t pid)
{
    char text[TEXT_BYTES];
    const char *at = read_stat(pid, text);
    int64_t born = 0;
    if (!at || at[2] == 'Z' || at[2] == 'X') return 0;
    for (int field = STATE - 1; at && field < BORN; field++) at = strchr(at + 1, ' ');
    if (!at || sscanf(at, " %" SCNd64, &born) != 1) return 0;
    return born;
}

bool weft__is_stopped(int64_t pid)
{
    char text[TEXT_BYTES];
    const char *at = read_stat(pid, text);
    return at && (at[2] == 'T' || at[2] == 't');
}
