/* run_job.h - the processes of one job: starting, watching and ending them, in one loop on one thread. */
#ifndef WEFT_RUN_JOB_H
#define WEFT_RUN_JOB_H
#include "run_bind.h"

#include <stdbool.h>
#include <stdint.h>

#define RUN_RANKS_MAX 4096

enum run_exit { RUN_EXIT_USAGE = 2, RUN_EXIT_TIMEOUT = 124, RUN_EXIT_CANNOT = 126, RUN_EXIT_NOT_FOUND = 127 };

struct run_agent;
struct run_style;

struct run_options {
    int ranks;        /* on this host */
    int first, world; /* the first of them, and how many there are on all hosts */
    bool prefix, timestamps, verbose;
    const char *output_dir; /* NULL: to stdout and stderr */
    int64_t timeout_ms;     /* 0: none */
    int devices;            /* emulated; 0: none, the ranks see what is here */
    char *const *program;
    const char *address; /* where the ranks meet */
    int port;
    int secret;                    /* a descriptor that ranks get, to read the job's secret from; -1: none */
    const struct run_spots *spots; /* NULL: the ranks run where they may */
    struct run_agent *agent;       /* what another weft-run says to this one; NULL: nobody has sent for it */
};

/* Runs the job to its end.  Returns weft-run's exit code; nothing of the job is left running. */
int run_job(const struct run_options *options, const struct run_style *style);
#endif
