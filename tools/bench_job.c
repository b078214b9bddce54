/* bench_job.c - see bench_job.h. */
#include "bench_job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void bench_die(const struct bench_job *job, const char *what, const char *sentence)
{
    char why[512];
    /* Sentences of operations begin with their name. */
    bool named = !strncmp(sentence, what, strlen(what));
    snprintf(why, sizeof(why), "%s%s%s", named ? "" : what, named ? "" : ": ", sentence);
    fprintf(stderr, "weft-bench: rank %d: %s\n", job->rank, why);
    weft_abort(job->ctx, why);
    exit(BENCH_EXIT_FAILED);
}

void bench_must(const struct bench_job *job, const char *what, weft_status status)
{
    if (status) bench_die(job, what, weft_last_error());
}

void bench_barrier(const struct bench_job *job)
{
    bench_must(job, "the barrier between samples", weft_barrier(job->world, NULL, NULL));
}

static void combine(const struct bench_job *job, double *values, size_t n, weft_op op)
{
    bench_must(job, "collecting the figures",
               weft_all_reduce(job->world, values, values, n, WEFT_FLOAT64, op, NULL, NULL));
}

void bench_greatest(const struct bench_job *job, double *values, size_t n)
{
    combine(job, values, n, WEFT_MAX);
}

double bench_greatest_of(const struct bench_job *job, double value)
{
    combine(job, &value, 1, WEFT_MAX);
    return value;
}

double bench_sum_of(const struct bench_job *job, double value)
{
    combine(job, &value, 1, WEFT_SUM);
    return value;
}

double bench_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
