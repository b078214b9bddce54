/* bench_tune.h - --tune: measures the algorithms that share an operation between them, on as many ranks and
 * over the transport of this job, and keeps from how many bytes on each is the faster.
 *
 * A process has its settings once, so every rank measures in children of its own: in each of them the ranks
 * join a job that forces one algorithm of each operation.  Rank 0 keeps the result where the library looks
 * for it (runtime/job/tuning.h). */
#ifndef WEFT_TOOLS_BENCH_TUNE_H
#define WEFT_TOOLS_BENCH_TUNE_H
#include "bench_options.h"

/* Before this process has joined anything.  Returns the exit status of the program. */
int bench_tune(const struct bench_options *options);
#endif
