/* bench_measure.c - see bench_measure.h. */
#include "bench_measure.h"
#include "bench_cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double bunch_seconds = 10e-6, warm_seconds = 2e-3;
enum { WARM_MOST = 4096, BUNCH_MOST = 1000 };

/* ---- one operation ------------------------------------------------------------------------------------- */

void bench_measure_once(struct bench_run *run)
{
    weft_status status = bench_run_once(run);
    if (status) bench_die(run->job, run->point.what->name, weft_last_error());
}

static void count_wrong(struct bench_run *run, const struct bench_effort *effort, int seed,
                        struct bench_result *result)
{
    if (effort->check) result->wrong += (double)bench_run_wrong(run, seed);
}

bool bench_measure_try(struct bench_run *run, const struct bench_effort *effort, struct bench_result *result)
{
    weft_status status;
    bench_run_fill(run, 0);
    run->noting = true;
    status = bench_run_once(run);
    run->noting = false;
    if (status && status != WEFT_ERR_UNSUPPORTED)
        bench_die(run->job, run->point.what->name, weft_last_error());
    /* Asked of all: a rank without a peer has had nothing to submit. */
    if (bench_sum_of(run->job, status == WEFT_ERR_UNSUPPORTED) > 0) return false;
    snprintf(result->algorithm, sizeof(result->algorithm), "%s", run->algorithm);
    count_wrong(run, effort, 0, result);
    bench_run_next(run);
    return true;
}

static double seconds_of(struct bench_run *run, size_t operations)
{
    double start;
    bench_barrier(run->job);
    start = bench_now();
    for (size_t i = 0; i < operations; i++) {
        if (i) bench_run_next(run);
        bench_measure_once(run);
    }
    return bench_now() - start;
}

double bench_measure_warm(struct bench_run *run, const struct bench_effort *effort)
{
    size_t n = effort->warmup ? effort->warmup : 1;
    double seconds = bench_greatest_of(run->job, seconds_of(run, n));
    while (effort->warmup && seconds < warm_seconds && n < WARM_MOST) {
        n *= 2;
        seconds = bench_greatest_of(run->job, seconds_of(run, n));
    }
    return seconds / (double)n;
}

/* ---- samples ------------------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(double *samples, size_t n)
{
    qsort(samples, n, sizeof(*samples), ascending);
    return n % 2 ? samples[n / 2] : (samples[n / 2 - 1] + samples[n / 2]) / 2;
}

/* Sorted samples; the least that 99 of 100 do not exceed. */
static double percentile_99(const double *samples, size_t n)
{
    return samples[(n * 99 + 99) / 100 - 1];
}

/* After n samples of so many operations each, which took so long together; 0: enough. */
static size_t more_samples(const struct bench_effort *effort, size_t n, double seconds, size_t operations)
{
    enum { GROWTH = 3 };
    double rest = effort->seconds - seconds;
    size_t wanted = (effort->iterations + operations - 1) / operations, more;
    if (effort->iterations) return wanted > n ? wanted - n : 0;
    if (n < BENCH_SAMPLES_LEAST) return BENCH_SAMPLES_LEAST - n;
    if (rest <= 0 || n >= BENCH_SAMPLES_MOST) return 0;
    /* What fits at the pace so far, and not far beyond what that is known from. */
    more = rest / seconds > GROWTH ? GROWTH * n : (size_t)(rest / seconds * (double)n);
    return more < BENCH_SAMPLES_MOST - n ? more : BENCH_SAMPLES_MOST - n;
}

size_t bench_measure_fit(const struct bench_effort *effort, double seconds)
{
    double n = effort->seconds / seconds;
    if (effort->iterations) return effort->iterations;
    if (n < BENCH_SAMPLES_LEAST) return BENCH_SAMPLES_LEAST;
    return n > BENCH_SAMPLES_MOST ? BENCH_SAMPLES_MOST : (size_t)n;
}

static size_t bunch_of(double seconds)
{
    double n = bunch_seconds / seconds;
    if (n <= 1) return 1;
    return n > BUNCH_MOST ? BUNCH_MOST : (size_t)n + 1;
}

/* A bunch in place works on its own results: then only the first result could be told, and bench_measure_try
 * has looked at one. */
static double sample(struct bench_run *run, const struct bench_effort *effort, size_t bunch, int seed,
                     struct bench_result *result)
{
    double seconds;
    bench_run_fill(run, seed);
    seconds = seconds_of(run, bunch);
    if (bunch == 1 || !run->point.in_place) count_wrong(run, effort, seed, result);
    bench_run_next(run);
    return seconds;
}

void bench_measure_figures(const struct bench_run *run, double *samples, struct bench_result *result)
{
    const struct bench_case *what = run->point.what;
    int ranks = run->job->ranks, pairs = ranks / 2, parts = what->parts ? what->parts : 1;
    size_t n = (size_t)result->samples;
    double scale = 1e6 / (result->bunch * parts);
    result->median = bench_median(samples, n) * scale;
    result->least = samples[0] * scale;
    result->p99 = percentile_99(samples, n) * scale;
    result->messages = pairs / result->median;
    if (what->layout == BENCH_NO_DATA) return;
    result->algorithm_bandwidth = result->bytes / result->median / 1e3;
    result->bus_bandwidth = result->algorithm_bandwidth * bench_case_factor(what, ranks);
}

/* Allocated; of every rank the slowest. */
static double *take_samples(struct bench_run *run, const struct bench_effort *effort, size_t bunch,
                            struct bench_result *result)
{
    const struct bench_job *job = run->job;
    double *samples = NULL, seconds = 0, start = bench_now();
    size_t n = 0, more;
    while ((more = more_samples(effort, n, seconds, bunch)) > 0) {
        double *grown = realloc(samples, (n + more) * sizeof(*samples));
        if (!grown) bench_die(job, "keeping the samples", "out of memory");
        samples = grown;
        for (size_t end = n + more; n < end; n++)
            samples[n] = sample(run, effort, bunch, (int)(n % BENCH_SEEDS), result);
        seconds = bench_greatest_of(job, bench_now() - start);
    }
    bench_greatest(job, samples, n);
    result->samples = (double)n;
    return samples;
}

bool bench_measure_time(struct bench_run *run, const struct bench_effort *effort, struct bench_result *result)
{
    double *samples;
    size_t bunch;
    if (!bench_measure_try(run, effort, result)) return false;
    bunch = bunch_of(bench_measure_warm(run, effort));
    if (effort->iterations && bunch > effort->iterations) bunch = effort->iterations;
    samples = take_samples(run, effort, bunch, result);
    result->bunch = (double)bunch;
    result->wrong = bench_sum_of(run->job, result->wrong);
    bench_measure_figures(run, samples, result);
    free(samples);
    return true;
}
