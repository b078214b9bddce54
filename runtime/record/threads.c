/* threads.c - reads /proc/PID/task.  Where the kernel does not let us read something is left out. */
#include "threads.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXT_BYTES 4096

/* Without the newline at its end; "": cannot be read. */
static void read_text(int64_t pid, int64_t thread, const char *what, char text[TEXT_BYTES])
{
    char path[96];
    ssize_t n;
    int fd;
    snprintf(path, sizeof path, "/proc/%" PRId64 "/task/%" PRId64 "/%s", pid, thread, what);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd >= 0 ? read(fd, text, TEXT_BYTES - 1) : 0;
    if (fd >= 0) close(fd);
    while (n > 0 && text[n - 1] == '\n') n--;
    text[n > 0 ? n : 0] = 0;
}

static bool is_ours(const char *name)
{
    return !strncmp(name, "weft-", 5) || !strncmp(name, "ZMQbg/", 6);
}

static void put(weft__json *json, int64_t pid, int64_t thread, const char *name)
{
    char text[TEXT_BYTES], state[2] = "", *end;
    weft__json_open(json, NULL, '{');
    weft__json_number(json, "thread", thread);
    weft__json_text(json, "name", name);
    read_text(pid, thread, "stat", text);
    end = strrchr(text, ')');
    if (end && end[1] == ' ') state[0] = end[2];
    weft__json_text(json, "state", state);
    read_text(pid, thread, "wchan", text);
    weft__json_text(json, "waits_in", strcmp(text, "0") != 0 ? text : "");
    read_text(pid, thread, "syscall", text);
    text[strcspn(text, " ")] = 0;
    weft__json_text(json, "system_call", text);
    read_text(pid, thread, "stack", text);
    weft__json_text(json, "stack", text);
    weft__json_close(json, '}');
}

void weft__threads_json(weft__json *json, const char *name, int64_t pid)
{
    char path[64], comm[TEXT_BYTES];
    DIR *dir;
    snprintf(path, sizeof path, "/proc/%" PRId64 "/task", pid);
    weft__json_open(json, name, '[');
    dir = opendir(path);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        int64_t thread = atoll(entry->d_name);
        if (thread <= 0) continue;
        read_text(pid, thread, "comm", comm);
        if (thread == pid || is_ours(comm)) put(json, pid, thread, comm);
    }
    if (dir) closedir(dir);
    weft__json_close(json, ']');
}
