/* run_remote.h - a job over hosts, as the weft-run that a user has started sees it. */
#ifndef WEFT_RUN_REMOTE_H
#define WEFT_RUN_REMOTE_H
#include "run_hosts.h"
#include "run_job.h"
#include "run_orders.h"

/* What the user has said besides what a job on one host takes too. */
struct run_remote_options {
    const struct run_options *job; /* ranks and world: of all hosts */
    struct run_hosts hosts;        /* dealt */
    const char *launch, *path;     /* as struct run_launch has them */
    const char *dir;               /* where the ranks work */
    char *const *exports;          /* -x: NAME or NAME=VALUE, NULL at the end */
    enum run_bind bind;
    bool verbose;
};

/* Runs the job to its end.  Returns weft-run's exit code; nothing of the job is left on any host that can be
 * reached, and what cannot be ends by itself. */
int run_remote(const struct run_remote_options *options, const struct run_style *style);
#endif
