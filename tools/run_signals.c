/* run_signals.c - see run_signals.h. */
#include "run_signals.h"

#include <stdio.h>
#include <sys/resource.h>
#include <sys/signalfd.h>

int run_signals_open(struct run_signals *before)
{
    static const int wanted[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGUSR1, SIGUSR2, SIGCHLD};
    struct sigaction now, ignore = {.sa_handler = SIG_IGN}, standard = {.sa_handler = SIG_DFL};
    sigset_t set;
    sigemptyset(&set);
    sigaction(SIGCHLD, &standard, NULL); /* ignored, it would make ranks vanish unseen */
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
        if (!sigaction(wanted[i], NULL, &now) && now.sa_handler != SIG_IGN) sigaddset(&set, wanted[i]);
    sigprocmask(SIG_SETMASK, &set, NULL);
    sigaction(SIGPIPE, &ignore, &before->pipe);
    sigaction(SIGXFSZ, &ignore, &before->file_size); /* a write says so as well */
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

void run_signals_restore(const struct run_signals *before)
{
    sigset_t none;
    sigaction(SIGPIPE, &before->pipe, NULL);
    sigaction(SIGXFSZ, &before->file_size, NULL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

bool run_signals_descriptors(size_t need)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= need) return true;
    limit.rlim_cur = need < limit.rlim_max ? need : limit.rlim_max;
    return !setrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur >= need;
}

const char *run_signal_name(int signal)
{
    static const char *const names[] = {
        [SIGHUP] = "SIGHUP",   [SIGINT] = "SIGINT",   [SIGQUIT] = "SIGQUIT",     [SIGILL] = "SIGILL",
        [SIGTRAP] = "SIGTRAP", [SIGABRT] = "SIGABRT", [SIGBUS] = "SIGBUS",       [SIGFPE] = "SIGFPE",
        [SIGKILL] = "SIGKILL", [SIGUSR1] = "SIGUSR1", [SIGSEGV] = "SIGSEGV",     [SIGUSR2] = "SIGUSR2",
        [SIGPIPE] = "SIGPIPE", [SIGALRM] = "SIGALRM", [SIGTERM] = "SIGTERM",     [SIGXCPU] = "SIGXCPU",
        [SIGXFSZ] = "SIGXFSZ", [SIGSYS] = "SIGSYS",   [SIGVTALRM] = "SIGVTALRM", [SIGPROF] = "SIGPROF",
        [SIGIO] = "SIGIO",     [SIGPWR] = "SIGPWR",
    };
    static char other[32];
    if (signal > 0 && (size_t)signal < sizeof(names) / sizeof(names[0]) && names[signal])
        return names[signal];
    snprintf(other, sizeof(other), "signal %d", signal);
    return other;
}
