/* run_adopted.c - see run_adopted.h. */
#include "run_adopted.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static FILE *children(void)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
    return fopen(path, "re");
}

static bool has(const pid_t *list, size_t n, pid_t pid)
{
    for (size_t i = 0; i < n; i++)
        if (list[i] == pid) return true;
    return false;
}

/* Without memory it is asked again, or ended with the others. */
static void add(pid_t **list, size_t *n, pid_t pid)
{
    pid_t *longer = realloc(*list, (*n + 1) * sizeof(*longer));
    if (!longer) return;
    *list = longer;
    longer[(*n)++] = pid;
}

void run_adopted_open(struct run_adopted *a)
{
    FILE *f = children();
    int pid;
    *a = (struct run_adopted){.before = NULL};
    while (f && fscanf(f, "%d", &pid) == 1) add(&a->before, &a->before_n, pid);
    if (f) fclose(f);
}

void run_adopted_close(struct run_adopted *a)
{
    free(a->before);
    free(a->asked);
}

bool run_adopted_signal(struct run_adopted *a, int signal, bool (*is_own)(const void *arg, pid_t pid),
                        const void *arg)
{
    FILE *f = children();
    bool left = false;
    int pid;
    while (f && fscanf(f, "%d", &pid) == 1) {
        if (is_own(arg, pid) || has(a->before, a->before_n, pid) || waitpid(pid, NULL, WNOHANG) != 0)
            continue;
        left = true;
        if (signal == SIGTERM && has(a->asked, a->asked_n, pid)) continue;
        if (signal == SIGTERM) add(&a->asked, &a->asked_n, pid);
        if (signal) kill(pid, signal);
    }
    if (f) fclose(f);
    return left;
}
