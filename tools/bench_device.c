/* bench_device.c - operations on device memory, by themselves and beside plain NCCL calls.
 *
 * A sample has two or three parts, each behind a barrier:
 *
 *   one operation    when the call has returned, when the device has the operation (weft_stream_wait has
 *                    returned), and when this thread has seen it settled; from before the call
 *   a bunch          as many as last 2 ms, submitted one after the other before the first is waited for; the
 *                    time of one is that of all by their number
 *   NCCL's bunch     the same as plain NCCL calls on a stream, and how long these take.  In every other sample
 *                    it comes first; the ratio is that of the two times of a sample
 *
 * In each sample the slowest rank counts; all figures are medians over samples. */
#include "bench_cases.h"
#include "bench_cuda.h"
#include "bench_measure.h"
#include "bench_nccl.h"

#include <math.h>
#include <stdlib.h>
#include <weft/cuda.h>

static const double bunch_seconds = 2e-3;
enum { PAIRS_LEAST = 20 };

enum series { SUBMITTED, ISSUED, SETTLED, BUNCH, NCCL_BUNCH, NCCL_CALLS, RATIO, SERIES };

struct samples {
    size_t n, bunch;
    bool single, compared; /* has the first and the third part */
    double *of[SERIES];    /* seconds */
};

/* ---- one sample ---------------------------------------------------------------------------------------- */

static void single(struct bench_run *run, struct samples *s, size_t i)
{
    double start;
    bench_barrier(run->job);
    start = bench_now();
    bench_must(run->job, "submitting", bench_run_start(run));
    s->of[SUBMITTED][i] = bench_now() - start;
    for (size_t k = 0; k < run->pending; k++)
        bench_must(run->job, "issuing", weft_stream_wait(run->requests[k], bench_cuda_stream()));
    s->of[ISSUED][i] = bench_now() - start;
    bench_must(run->job, "waiting", bench_run_settle(run));
    s->of[SETTLED][i] = bench_now() - start;
}

static void bunch(struct bench_run *run, struct samples *s, size_t i)
{
    double start;
    bench_barrier(run->job);
    start = bench_now();
    for (size_t k = 0; k < s->bunch; k++) {
        if (k) bench_run_next(run);
        if (s->single)
            bench_must(run->job, "submitting", bench_run_start(run));
        else
            bench_measure_once(run);
    }
    bench_must(run->job, "waiting", bench_run_settle(run));
    s->of[BUNCH][i] = bench_now() - start;
}

static void nccl_bunch(struct bench_run *run, struct samples *s, size_t i)
{
    double start;
    bench_barrier(run->job);
    start = bench_now();
    for (size_t k = 0; k < s->bunch; k++) {
        if (k) bench_run_next(run);
        bench_nccl_queue(run);
    }
    s->of[NCCL_CALLS][i] = bench_now() - start;
    bench_cuda_synchronize();
    s->of[NCCL_BUNCH][i] = bench_now() - start;
}

/* On fresh inputs, and with a look at the result.  Several in place work on their own results, which can then
 * not be told. */
static void checked(struct bench_run *run, const struct bench_effort *effort, struct samples *s, size_t i,
                    void (*part)(struct bench_run *run, struct samples *s, size_t i),
                    struct bench_result *result)
{
    int seed = (int)(i % BENCH_SEEDS);
    size_t operations = part == single ? 1 : s->bunch;
    bench_run_fill(run, seed);
    part(run, s, i);
    if (effort->check && (operations == 1 || !run->point.in_place))
        result->wrong += (double)bench_run_wrong(run, seed);
    bench_run_next(run);
}

static void take(struct bench_run *run, const struct bench_effort *effort, struct samples *s,
                 struct bench_result *result)
{
    for (size_t i = 0; i < s->n; i++) {
        if (s->single) checked(run, effort, s, i, single, result);
        if (s->compared && i % 2) checked(run, effort, s, i, nccl_bunch, result);
        checked(run, effort, s, i, bunch, result);
        if (s->compared && i % 2 == 0) checked(run, effort, s, i, nccl_bunch, result);
    }
}

/* ---- a point ------------------------------------------------------------------------------------------- */

static void figures(struct bench_run *run, struct samples *s, struct bench_result *result)
{
    double unit = 1e6 / (double)(s->bunch * (run->point.what->parts ? (size_t)run->point.what->parts : 1));
    for (int series = 0; series < RATIO; series++) bench_greatest(run->job, s->of[series], s->n);
    for (size_t i = 0; i < s->n; i++) s->of[RATIO][i] = s->of[NCCL_BUNCH][i] / s->of[BUNCH][i];
    result->samples = (double)s->n;
    result->bunch = (double)s->bunch;
    result->wrong = bench_sum_of(run->job, result->wrong);
    bench_measure_figures(run, s->of[BUNCH], result);
    result->submitted = s->single ? 1e6 * bench_median(s->of[SUBMITTED], s->n) : NAN;
    result->issued = s->single ? 1e6 * bench_median(s->of[ISSUED], s->n) : NAN;
    result->settled = s->single ? 1e6 * bench_median(s->of[SETTLED], s->n) : NAN;
    result->nccl = s->compared ? unit * bench_median(s->of[NCCL_BUNCH], s->n) : NAN;
    result->nccl_call = s->compared ? unit * bench_median(s->of[NCCL_CALLS], s->n) : NAN;
    result->nccl_ratio = s->compared ? bench_median(s->of[RATIO], s->n) : NAN;
}

static size_t bunch_of(double once)
{
    double n = bunch_seconds / once;
    if (n < 1) return 1;
    return n < BENCH_WINDOW ? (size_t)n : BENCH_WINDOW;
}

bool bench_measure_device(struct bench_run *run, const struct bench_effort *effort, bool compare,
                          struct bench_result *result)
{
    struct samples s = {.single = run->point.what->start};
    double once;
    run->call.stream = bench_cuda_stream();
    run->call.memory = WEFT_MEMORY_CUDA;
    if (!bench_measure_try(run, effort, result)) return false;
    s.compared = compare && bench_nccl_can(run);
    once = bench_measure_warm(run, effort);
    s.bunch = bunch_of(once);
    s.n = bench_measure_fit(effort, once * (double)(1 + s.bunch * (s.compared ? 2 : 1)));
    if (s.compared && s.n < PAIRS_LEAST) s.n = PAIRS_LEAST;
    s.of[0] = calloc(SERIES * s.n, sizeof(double));
    if (!s.of[0]) bench_die(run->job, "keeping the samples", "out of memory");
    for (int series = 1; series < SERIES; series++) s.of[series] = s.of[0] + (size_t)series * s.n;
    take(run, effort, &s, result);
    figures(run, &s, result);
    free(s.of[0]);
    return true;
}
