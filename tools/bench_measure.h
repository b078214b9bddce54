/* bench_measure.h - measuring one point.
 *
 * A sample: fill the buffers, a barrier, the clock, a bunch of operations one after the other, the clock,
 * check the result.  A bunch is one operation, or as many as last 10 us, because reading the clock would show
 * in less.  Of each sample the slowest rank counts; median, least and 99th percentile are over samples. */
#ifndef WEFT_TOOLS_BENCH_MEASURE_H
#define WEFT_TOOLS_BENCH_MEASURE_H
#include "bench_run.h"

/* How long, and whether to look at the results. */
struct bench_effort {
    double seconds;    /* about, for a point */
    size_t iterations; /* operations instead; 0: by time */
    size_t warmup;     /* operations before, at least */
    bool check;
};

/* Times are microseconds, bandwidths 10^9 bytes per second. */
struct bench_result {
    const char *operation, *dtype, *reduction, *memory, *call;
    char algorithm[24];
    double in_place, ranks; /* numbers are kept as doubles: the columns of a report are alike then */
    double bytes, count, samples, bunch, wrong;
    double median, least, p99, algorithm_bandwidth, bus_bandwidth;
    double messages; /* 10^6 per second, all pairs together */
    double communication, computation, both;
    double overlap_osu, overlap_true; /* percent */
    double stretch, cpu_share;
    double submitted, issued, settled; /* on a device */
    double nccl, nccl_call,
        nccl_ratio;             /* NCCL's time, how long its call takes, and Weft's bandwidth by NCCL's */
    const char *level, *stores; /* of a kernel: the processor's, and how the result is stored */
    double sources;
    double moved, copied, read; /* bandwidths: its own, and of a copy and a read of the same memory */
    double share;               /* of the faster of those two, percent */
};

/* False: the library does not do this; weft_last_error says so, and nothing has been measured. */
bool bench_measure_time(struct bench_run *run, const struct bench_effort *effort,
                        struct bench_result *result);
/* Submit, compute for as long as the communication lasts alone, wait. */
bool bench_measure_overlap(struct bench_run *run, const struct bench_effort *effort,
                           struct bench_result *result);

/* On device memory; compare: with NCCL too. */
bool bench_measure_device(struct bench_run *run, const struct bench_effort *effort, bool compare,
                          struct bench_result *result);

/* ---- shared by them ------------------------------------------------------------------------------------ */

enum { BENCH_SAMPLES_LEAST = 5, BENCH_SAMPLES_MOST = 50000 };

/* One operation, which must go well. */
void bench_measure_once(struct bench_run *run);
/* A first operation, whose result is checked: whether this can be done at all. */
bool bench_measure_try(struct bench_run *run, const struct bench_effort *effort, struct bench_result *result);
/* Repeats it until it is warm; seconds that one takes. */
double bench_measure_warm(struct bench_run *run, const struct bench_effort *effort);
/* Samples of so many seconds that the effort allows. */
size_t bench_measure_fit(const struct bench_effort *effort, double seconds);
/* Times and bandwidths, from result->samples samples of result->bunch operations in seconds. */
void bench_measure_figures(const struct bench_run *run, double *samples, struct bench_result *result);
/* The median of n samples, which this sorts. */
double bench_median(double *samples, size_t n);
#endif
