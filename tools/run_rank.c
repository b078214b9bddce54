/* run_rank.c - see run_rank.h. */
#include "run_rank.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void set_number(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof(text), "%d", value);
    setenv(name, text, 1);
}

static void set_environment(const struct run_options *options, int r)
{
    set_number("RANK", options->first + r);
    set_number("WORLD_SIZE", options->world);
    set_number("LOCAL_RANK", r);
    set_number("LOCAL_WORLD_SIZE", options->ranks);
    setenv("MASTER_ADDR", options->address, 1);
    set_number("MASTER_PORT", options->port);
    if (options->secret >= 0) {
        char source[32];
        snprintf(source, sizeof(source), "fd:%d", options->secret);
        setenv("WEFT_SECRET", source, 1);
    }
    unsetenv("TORCHELASTIC_RUN_ID"); /* these ranks are not torchrun's, even where we are one */
}

/* In the child; tells errno through `report`, which a successful exec closes. */
static _Noreturn void become(const struct run_options *options, int r, const int fds[3], pid_t parent,
                             int report, const struct run_signals *signals,
                             const struct run_watchdog *watchdog)
{
    const struct run_spot *spot = options->spots ? run_spots_of(options->spots, r, options->ranks) : NULL;
    int error = 0;
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(RUN_EXIT_CANNOT); /* it died before the line above */
    run_watchdog_watch(watchdog, getpid());          /* before the program can start anything of its own */
    for (int fd = 0; fd <= 2 && !error; fd++)
        if (fds[fd] != fd && dup2(fds[fd], fd) < 0) error = errno;
    if (!error && spot && !run_spot_bind(spot)) error = errno;
    if (!error && options->secret >= 0 && fcntl(options->secret, F_SETFD, 0)) error = errno;
    if (!error) {
        set_environment(options, r);
        setenv(RUN_MARK, watchdog->mark, 1);
        run_signals_restore(signals);
        execvp(options->program[0], options->program);
        error = errno;
    }
    if (write(report, &error, sizeof(error)) < 0) _exit(RUN_EXIT_CANNOT);
    _exit(RUN_EXIT_CANNOT);
}

int run_rank_start(struct run_rank *rank, const struct run_options *options, int r, const int fds[3],
                   const struct run_signals *signals, const struct run_watchdog *watchdog)
{
    pid_t parent = getpid(), pid;
    int report[2], error = 0;
    if (pipe2(report, O_CLOEXEC)) return errno;
    pid = fork();
    if (pid == 0) become(options, r, fds, parent, report[1], signals, watchdog);
    if (pid < 0) error = errno;
    close(report[1]);
    if (pid > 0) {
        setpgid(pid, pid); /* the child does it too: whoever comes first */
        while (read(report[0], &error, sizeof(error)) < 0 && errno == EINTR) continue;
        if (error) {
            run_watchdog_forget(watchdog, pid);
            waitpid(pid, NULL, 0);
        } else {
            *rank = (struct run_rank){.pid = pid};
        }
    }
    close(report[0]);
    return error;
}

bool run_rank_look(struct run_rank *rank)
{
    siginfo_t how = {.si_pid = 0};
    if (!rank->pid || rank->ended) return false;
    if (waitid(P_PID, (id_t)rank->pid, &how, WEXITED | WNOHANG | WNOWAIT) || !how.si_pid) return false;
    rank->ended = true;
    if (how.si_code == CLD_EXITED)
        rank->code = how.si_status;
    else
        rank->signal = how.si_status;
    return true;
}

void run_rank_signal(const struct run_rank *rank, int signal)
{
    if (rank->pid && !rank->gone) kill(-rank->pid, signal);
}
