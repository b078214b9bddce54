/* reduce_levels.h - the same kernels compiled for several processors; reduce.c picks
 * one table at run time. */
#ifndef WEFT_OPS_REDUCE_LEVELS_H
#define WEFT_OPS_REDUCE_LEVELS_H
#include "dtype.h"
#include "reduce.h"

/* [dtype][reduction]; NULL: does not exist.  AVG and PREMUL_SUM are left out: they use SUM's. */
typedef weft__reduce_fn *weft__kernel_table[WEFT__DTYPE_COUNT][WEFT__REDUCTION_COUNT];

typedef struct weft__level {
    const char *name;
    const weft__kernel_table *kernels;
    const weft__kernel_table *streams; /* NULL: has no stores past the caches */
} weft__level;

enum { WEFT__LEVELS_MOST = 3 };
/* Gives the levels that this processor has, the one that is used last.  Returns how many. */
int weft__reduce_levels(const weft__level *levels[WEFT__LEVELS_MOST]);

extern const weft__kernel_table weft__kernels_scalar;
#if defined(__x86_64__)
extern const weft__kernel_table weft__kernels_avx2, weft__kernels_avx512;
extern const weft__kernel_table weft__streams_avx2, weft__streams_avx512;
#endif
#endif
