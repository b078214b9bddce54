/* run_rank.h - one rank's process: a process group of its own, which ends with weft-run. */
#ifndef WEFT_RUN_RANK_H
#define WEFT_RUN_RANK_H
#include "run_job.h"
#include "run_signals.h"
#include "run_watchdog.h"

#include <stdbool.h>
#include <sys/types.h>

struct run_rank {
    pid_t pid;  /* also its process group; 0: not started */
    bool ended; /* and still a zombie, so that the number stays taken */
    bool gone;  /* the whole group is */
    int code, signal;
    bool asked; /* it had been asked to end */
};

/* Starts the r-th rank of this host with these three descriptors, and has its group watched.  0, or errno of what
 * failed, fork to exec. */
int run_rank_start(struct run_rank *rank, const struct run_options *options, int r, const int fds[3],
                   const struct run_signals *signals, const struct run_watchdog *watchdog);
/* Has it ended by now?  Fills in how. */
bool run_rank_look(struct run_rank *rank);
static inline bool run_rank_failed(const struct run_rank *rank)
{
    return rank->ended && (rank->code || rank->signal);
}
/* To all of its group. */
void run_rank_signal(const struct run_rank *rank, int signal);
#endif
