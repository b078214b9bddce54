/* job_shared.h - what job.c (the parent) and rank.c (the ranks) share; tests include job.h only. */
#ifndef TESTS_SUPPORT_JOB_SHARED_H
#define TESTS_SUPPORT_JOB_SHARED_H

#include "job.h"

typedef struct job_rank_shared {
    atomic_int pid;
    atomic_bool finished;
    _Atomic(const char *) file; /* of the last check; ranks are forked, so the parent can read it */
    atomic_int line;
    atomic_flag told; /* only the first failure of a rank is kept */
    char failure[2048];
} job_rank_shared;

struct job_shared {
    int ports[JOB_PORTS];
    atomic_bool failed;
    atomic_int arrivals;
    atomic_int marks[JOB_MARKS];
    job_rank_shared rank[JOB_RANKS_MAX];
    int64_t results[JOB_RANKS_MAX][JOB_RESULTS];
};

void job__run_process(const job_plan *plan, job_shared *shared, int rank);
bool job__all_finished(const job_plan *plan, job_shared *shared); /* their bodies, and well */
/* other_library.c: ranks that run the library's other build. */
const char *job__other_library(void); /* the folder where it lies; NULL: no rank does */
bool job__runs_other(int rank);
void job__other_begin(char **argv);   /* the program's arguments */
job_shared *job__shared_new(int *fd); /* zeroed; NULL: no memory.  fd: -1, or what a rank gets that does */
bool job__other_job(const job_plan *plan); /* one more job.  True: this process is a rank of another one */
_Noreturn void job__become_other(int rank, int fd);
bool job__by_mpirun(void); /* all ranks of a job that are processes, by JOB_MPIRUN */
_Noreturn void job__become_mpirun(int ranks, int fd);

int job__run_threads(const job_plan *plan, job_shared *shared); /* exit code */

#endif
