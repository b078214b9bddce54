/* born.c - reads field 22 of /proc/PID/stat; the second one may have anything in it, also blanks and brackets. */
#include "born.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define STATE 3 /* the first field behind the name */
#define BORN  22

int64_t weft__born(int64_t pid)
{
    char path[64], text[1024];
    const char *at;
    int64_t born = 0;
    ssize_t n;
    int fd;
    snprintf(path, sizeof path, "/proc/%" PRId64 "/stat", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0) return 0;
    text[n] = 0;
    at = strrchr(text, ')');
    if (!at || at[1] != ' ' || at[2] == 'Z' || at[2] == 'X') return 0;
    for (int field = STATE - 1; at && field < BORN; field++) at = strchr(at + 1, ' ');
    if (!at || sscanf(at, " %" SCNd64, &born) != 1) return 0;
    return born;
}
