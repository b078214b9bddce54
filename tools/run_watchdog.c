/* run_watchdog.c - see run_watchdog.h.  If it cannot be told of a group, that group has the kernel's
 * protection alone. */
#include "run_watchdog.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NAME    "weft-run-watch"
#define LOOKS   100 /* most, if there are always some that cannot be killed */
#define LOOK_NS 10000000

enum { ENVIRONMENT_MOST = 1 << 20, PATH_BYTES = 320 };

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

static size_t read_file(const char *process, const char *name, char *bytes, size_t room)
{
    char path[PATH_BYTES];
    size_t n;
    FILE *f;
    snprintf(path, sizeof(path), "/proc/%s/%s", process, name);
    f = fopen(path, "re");
    n = f ? fread(bytes, 1, room, f) : 0;
    if (f) fclose(f);
    return n;
}

/* The watchdog of a weft-run that was itself started by a rank has the rank's variables, and its own ranks to end. */
static bool is_watchdog(const char *process)
{
    char name[32];
    size_t n = read_file(process, "comm", name, sizeof(name));
    return n >= strlen(NAME) && !memcmp(name, NAME, strlen(NAME));
}

/* Whoever has the mark; returns whether there were some. */
static bool kill_marked(const char *mark, char *environment)
{
    struct dirent *entry;
    bool found = false;
    DIR *all = opendir("/proc");
    while (all && (entry = readdir(all))) {
        int pid = atoi(entry->d_name);
        size_t n = pid > 0 ? read_file(entry->d_name, "environ", environment, ENVIRONMENT_MOST) : 0;
        if (!memmem(environment, n, mark, strlen(mark)) || is_watchdog(entry->d_name)) continue;
        found = kill(pid, SIGKILL) == 0 || found;
    }
    if (all) closedir(all);
    return found;
}

/* What one of them starts while it is looked at is found the next time. */
static void kill_all_marked(const char *mark)
{
    char *environment = malloc(ENVIRONMENT_MOST), text[sizeof(RUN_MARK) + 64];
    snprintf(text, sizeof(text), RUN_MARK "=%s", mark);
    for (int i = 0; environment && i < LOOKS && kill_marked(text, environment); i++)
        nanosleep(&(struct timespec){0, LOOK_NS}, NULL);
    free(environment);
}

/* Its own session: what is typed at the terminal, or sent to weft-run's group, does not end it. */
static _Noreturn void watch(int from, pid_t *groups, int room, const char *mark)
{
    int n = 0, null = open("/dev/null", O_RDWR);
    pid_t told;
    setsid();
    prctl(PR_SET_NAME, NAME);
    for (int fd = 0; fd <= 2; fd++) dup2(null, fd);
    while (read(from, &told, sizeof(told)) == (ssize_t)sizeof(told)) {
        if (!told) _exit(0); /* nothing is left */
        if (told < 0 || n < room) take(groups, &n, told);
    }
    for (int i = 0; i < n; i++) kill(-groups[i], SIGKILL);
    kill_all_marked(mark);
    _exit(0);
}

static void make_mark(char mark[33])
{
    unsigned char bytes[16] = {0};
    if (getrandom(bytes, sizeof(bytes), 0) < 0) memcpy(bytes, &(pid_t){getpid()}, sizeof(pid_t));
    for (size_t i = 0; i < sizeof(bytes); i++) snprintf(mark + 2 * i, 3, "%02x", bytes[i]);
}

bool run_watchdog_start(struct run_watchdog *w, int groups)
{
    int ends[2];
    pid_t *known = calloc((size_t)groups, sizeof(*known));
    if (!known) return false;
    make_mark(w->mark);
    if (pipe2(ends, O_CLOEXEC)) {
        free(known);
        return false;
    }
    w->pid = fork();
    if (w->pid == 0) {
        close(ends[1]);
        watch(ends[0], known, groups, w->mark);
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
    tell(w, 0);
    close(w->fd);
    waitpid(w->pid, NULL, 0);
}
