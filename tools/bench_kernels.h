/* bench_kernels.h - --kernels: how fast the reductions themselves are, on this processor, without a job.
 *
 * Every kernel goes over its sources and its result again and again, which together are as large as the size
 * says; by turns with it a copy (memcpy) and a plain read go over the same memory.  The faster of those two
 * is what a kernel could reach at most if it did nothing but load and store, and its
 * share of that is told. */
#ifndef WEFT_TOOLS_BENCH_KERNELS_H
#define WEFT_TOOLS_BENCH_KERNELS_H
#include "bench_options.h"

/* In place of a job.  Returns the exit status of the program. */
int bench_kernels(const struct bench_options *options);
#endif
