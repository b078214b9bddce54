/* bench_job.h - this process's part in the job, what its ranks find out together, and
 * how it ends in failure. */
#ifndef WEFT_TOOLS_BENCH_JOB_H
#define WEFT_TOOLS_BENCH_JOB_H
#include <weft/weft.h>

enum { BENCH_EXIT_FAILED = 1, BENCH_EXIT_USAGE = 2 };

struct bench_job {
    weft_context *ctx;
    weft_group *world;
    int rank, ranks;
};

/* Ends the program: what was tried, and the sentence that says why it failed.  The other ranks learn of it
 * from whatever they do next. */
_Noreturn void bench_die(const struct bench_job *job, const char *what, const char *sentence);
/* Ends the program likewise unless status is OK, with this thread's last error. */
void bench_must(const struct bench_job *job, const char *what, weft_status status);

/* Collective; every rank gets the same numbers, so that all decide alike. */
void bench_barrier(const struct bench_job *job);
void bench_greatest(const struct bench_job *job, double *values, size_t n);
double bench_greatest_of(const struct bench_job *job, double value);
double bench_sum_of(const struct bench_job *job, double value);

double bench_now(void); /* seconds */
#endif
