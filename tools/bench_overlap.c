/* bench_overlap.c - how much of an operation is hidden behind computation.
 *
 * The computation is a fixed amount of arithmetic on this thread, as much as lasts as long as the operation
 * alone: a core that somebody else takes away shows, which it would not if the loop watched the clock.
 *
 *   OSU's percentage   max(0, 100 (1 - (both - computation) / communication))
 *   true percentage    100 (2 - both / communication): 100 if both together last as long as one of them
 *   stretch            the computation during communication, by the computation alone
 *   CPU share          time of all cores that this process used beside its computation, per time that passed,
 *                      mean over ranks: what the library needs, waiting included */
#include "bench_measure.h"

#include <stdlib.h>
#include <time.h>

enum { TRIAL = 200000, TRIALS = 30 }; /* short ones: some are not disturbed */

struct samples {
    size_t n;
    double *communication, *computation, *during, *both; /* seconds */
    double cpu;                                          /* seconds in all */
};

static volatile double state = 1; /* volatile: no compiler may compute ahead of the clock */

/* Each step needs the one before: its time depends on the core and nothing else. */
static void compute(long steps)
{
    double x = state;
    for (long i = 0; i < steps; i++) x = x * 0.9999999 + 1e-7;
    state = x;
}

static double cpu_seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double computing_seconds(long steps)
{
    double start = bench_now();
    compute(steps);
    return bench_now() - start;
}

/* Steps per second of an undisturbed core: the most that has been seen. */
static double speed(void)
{
    static double most;
    for (int i = 0; i < TRIALS; i++) {
        double now = TRIAL / computing_seconds(TRIAL);
        if (now > most) most = now;
    }
    return most;
}

static void submit(struct bench_run *run)
{
    bench_must(run->job, "submitting", bench_run_start(run));
}

static void settle(struct bench_run *run)
{
    bench_must(run->job, "waiting", bench_run_settle(run));
}

static double communicating_seconds(struct bench_run *run)
{
    double start;
    bench_barrier(run->job);
    start = bench_now();
    submit(run);
    settle(run);
    return bench_now() - start;
}

static void both(struct bench_run *run, long steps, size_t i, struct samples *s)
{
    double start, before, began, own;
    bench_barrier(run->job);
    before = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
    start = bench_now();
    submit(run);
    own = cpu_seconds(CLOCK_THREAD_CPUTIME_ID);
    began = bench_now();
    compute(steps);
    s->during[i] = bench_now() - began;
    own = cpu_seconds(CLOCK_THREAD_CPUTIME_ID) - own;
    settle(run);
    s->both[i] = bench_now() - start;
    s->cpu += cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) - before - own;
}

static void take(struct bench_run *run, const struct bench_effort *effort, struct samples *s,
                 struct bench_result *result)
{
    const struct bench_job *job = run->job;
    double alone;
    long steps;
    for (size_t i = 0; i < s->n; i++, bench_run_next(run)) s->communication[i] = communicating_seconds(run);
    bench_greatest(job, s->communication, s->n);
    alone = bench_median(s->communication, s->n);
    steps = (long)(speed() * alone);
    for (size_t i = 0; i < s->n; i++) {
        bench_barrier(job);
        s->computation[i] = computing_seconds(steps);
    }
    for (size_t i = 0; i < s->n; i++, bench_run_next(run)) {
        int seed = (int)(i % BENCH_SEEDS);
        bench_run_fill(run, seed);
        both(run, steps, i, s);
        if (effort->check) result->wrong += (double)bench_run_wrong(run, seed);
    }
}

static void figures(const struct bench_job *job, struct samples *s, struct bench_result *result)
{
    double wall = 0, share, communication, computation, together, osu;
    for (size_t i = 0; i < s->n; i++) wall += s->both[i];
    share = bench_sum_of(job, s->cpu / wall) / job->ranks;
    bench_greatest(job, s->computation, s->n);
    bench_greatest(job, s->during, s->n);
    bench_greatest(job, s->both, s->n);
    communication = bench_median(s->communication, s->n);
    computation = bench_median(s->computation, s->n);
    together = bench_median(s->both, s->n);
    osu = 100 * (1 - (together - computation) / communication);
    result->communication = communication * 1e6;
    result->computation = computation * 1e6;
    result->both = together * 1e6;
    result->overlap_osu = osu > 0 ? osu : 0;
    result->overlap_true = 100 * (2 - together / communication);
    result->stretch = bench_median(s->during, s->n) / computation;
    result->cpu_share = share;
    result->samples = (double)s->n;
    result->bunch = 1;
    result->wrong = bench_sum_of(job, result->wrong);
}

bool bench_measure_overlap(struct bench_run *run, const struct bench_effort *effort,
                           struct bench_result *result)
{
    enum { SERIES = 4 };
    struct samples s = {.n = 0};
    double once;
    if (!bench_measure_try(run, effort, result)) return false;
    once = bench_measure_warm(run, effort);
    /* Communication, computation, and both, which may last as long as the two. */
    s.n = bench_measure_fit(effort, SERIES * once);
    s.communication = malloc(SERIES * s.n * sizeof(double));
    if (!s.communication) bench_die(run->job, "keeping the samples", "out of memory");
    s.computation = s.communication + s.n;
    s.during = s.computation + s.n;
    s.both = s.during + s.n;
    take(run, effort, &s, result);
    figures(run->job, &s, result);
    free(s.communication);
    return true;
}
