/* run_watchdog.h - a small process that outlives weft-run by an instant, to end the ranks' process groups
 * when weft-run itself is killed.  The kernel ends the ranks then (PR_SET_PDEATHSIG), but not what they
 * started. It sleeps in read(2) on a pipe whose other end only weft-run has, and a rank until it is the program.
 * What has made a group of its own, as under timeout(1), is known by a variable that ranks hand on: RUN_MARK, with a
 * value that no other job has. */
#ifndef WEFT_RUN_WATCHDOG_H
#define WEFT_RUN_WATCHDOG_H
#include <stdbool.h>
#include <sys/types.h>

#define RUN_MARK "WEFTRUN_JOB"

struct run_watchdog {
    pid_t pid;
    int fd;
    char mark[33]; /* for the ranks */
};

/* Call with all signals blocked.  groups: how many it can watch. */
bool run_watchdog_start(struct run_watchdog *w, int groups);
void run_watchdog_watch(const struct run_watchdog *w, pid_t group); /* the group itself tells, as it begins */
void run_watchdog_forget(const struct run_watchdog *w, pid_t group); /* before its number can be used again */
void run_watchdog_stop(struct run_watchdog *w);                      /* with no group left to watch */
#endif
