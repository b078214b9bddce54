/* hung.c - see hung.h. */
#include "hung.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The first line of that file; "" if there is none. */
static void read_line(const char *path, char *line, size_t bytes)
{
    FILE *file = fopen(path, "re");
    line[0] = 0;
    if (!file) return;
    if (!fgets(line, (int)bytes, file)) line[0] = 0;
    line[strcspn(line, "\n")] = 0;
    fclose(file);
}

typedef struct seen {
    char state;
    int group;
    unsigned long long ticks; /* in programs and in the kernel */
} seen;

/* A process or a thread as its stat tells; its name may have blanks and brackets. */
static seen look_at(const char *folder)
{
    char path[340], line[1024];
    unsigned long long in_program = 0, in_kernel = 0;
    seen s = {.state = '?'};
    const char *behind;
    snprintf(path, sizeof path, "%s/stat", folder);
    read_line(path, line, sizeof line);
    behind = strrchr(line, ')');
    if (behind && sscanf(behind, ") %c %*d %d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &s.state, &s.group,
                         &in_program, &in_kernel) == 4)
        s.ticks = in_program + in_kernel;
    return s;
}

static void tell_thread(const char *folder, long pid)
{
    char path[340], name[64], waits[64];
    seen s = look_at(folder);
    snprintf(path, sizeof path, "%s/comm", folder);
    read_line(path, name, sizeof name);
    snprintf(path, sizeof path, "%s/wchan", folder);
    read_line(path, waits, sizeof waits);
    fprintf(stderr, "  pid %ld, thread %s: %c, in %s, %.2f s of a processor\n", pid, name, s.state, waits,
            (double)s.ticks / (double)sysconf(_SC_CLK_TCK));
}

static void tell_process(long pid)
{
    char folder[64], thread[328];
    DIR *threads;
    struct dirent *entry;
    snprintf(folder, sizeof folder, "/proc/%ld/task", pid);
    threads = opendir(folder);
    while (threads && (entry = readdir(threads))) {
        if (entry->d_name[0] == '.') continue;
        snprintf(thread, sizeof thread, "%s/%s", folder, entry->d_name);
        tell_thread(thread, pid);
    }
    if (threads) closedir(threads);
}

void hung_tell(pid_t group)
{
    DIR *processes = opendir("/proc");
    struct dirent *entry;
    char folder[64];
    while (processes && (entry = readdir(processes))) {
        long pid = strtol(entry->d_name, NULL, 10);
        snprintf(folder, sizeof folder, "/proc/%ld", pid);
        if (pid > 0 && look_at(folder).group == group) tell_process(pid);
    }
    if (processes) closedir(processes);
}
