/* run_watchdog.c - see run_watchdog.h.  If it cannot be told of a group, that group has the kernel's
 * protection alone. */
#include "run_watchdog.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void take(pid_t *groups, int *n, pid_t told)
{
    if (told > 0) {
        groups[(*n)++] = told;
        return;
    }
    for (int i = 0; i < *n; i++)
        if (groups[i] == -told) {
            groups[i] = groups[--*n];
            return;
        }
}

/* Its own session: what is typed at the terminal, or sent to weft-run's group, does not end it. */
static _Noreturn void watch(int from, pid_t *groups, int room)
{
    int n = 0, null = open("/dev/null", O_RDWR);
    pid_t told;
    setsid();
    prctl(PR_SET_NAME, "weft-run-watch");
    for (int fd = 0; fd <= 2; fd++) dup2(null, fd);
    while (read(from, &told, sizeof(told)) == (ssize_t)sizeof(told))
        if (told < 0 || n < room) take(groups, &n, told);
    for (int i = 0; i < n; i++) kill(-groups[i], SIGKILL);
    _exit(0);
}

bool run_watchdog_start(struct run_watchdog *w, int groups)
{
    int ends[2];
    pid_t *known = calloc((size_t)groups, sizeof(*known));
    if (!known) return false;
    if (pipe2(ends, O_CLOEXEC)) {
        free(known);
        return false;
    }
    w->pid = fork();
    if (w->pid == 0) {
        close(ends[1]);
        watch(ends[0], known, groups);
    }
    free(known);
    close(ends[0]);
    w->fd = ends[1];
    if (w->pid > 0) return true;
    close(w->fd);
    return false;
}

static void tell(const struct run_watchdog *w, pid_t word)
{
    /* A pipe takes a word of this size whole or not at all; its reader being gone is no reason to stop. */
    if (write(w->fd, &word, sizeof(word)) < 0) return;
}

void run_watchdog_watch(const struct run_watchdog *w, pid_t group)
{
    tell(w, group);
}

void run_watchdog_forget(const struct run_watchdog *w, pid_t group)
{
    tell(w, -group);
}

void run_watchdog_stop(struct run_watchdog *w)
{
    close(w->fd);
    waitpid(w->pid, NULL, 0);
}
