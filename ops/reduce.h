/* reduce.h - arithmetic on elements: n-ary reductions in one pass, in the order of the sources. */
#ifndef WEFT_OPS_REDUCE_H
#define WEFT_OPS_REDUCE_H
#include <stdbool.h>
#include <weft/weft.h>

#define WEFT__REDUCE_SOURCES \
    64 /* sources one call takes at most; callers with more go on with out as source 0 */

/* out[i] = (in[0][i] op in[1][i] op ... op in[n-1][i]) * scale, left to right.
 * 16-bit and 8-bit floats accumulate in float and round once, after scaling.  `out` may be one of the
 * sources, not overlap one partly.  scale is 1 except where the reduction is to be an average. */
typedef void weft__reduce_fn(void *out, const void *const *in, int n, size_t count, double scale);

/* NULL: this reduction does not exist on this type (host column of weft.h's table).  AVG and PREMUL_SUM
 * are the kernel of SUM. */
weft__reduce_fn *weft__reduce_kernel(weft_dtype dtype, weft_op op);
/* A kernel that writes past the caches where the processor can: for a large result that nobody reads soon.
 * Whoever is told that it is there sees it, as with any other. */
weft__reduce_fn *weft__stream_kernel(weft_dtype dtype, weft_op op);
/* Reduces n rows of one buffer, each stride bytes behind the one before; any n. */
void weft__reduce_rows(void *out, const void *rows, size_t stride, int n, size_t count, weft_dtype dtype,
                       weft_op op, double scale);
/* out[i] = in[i] * scale (floats and complex): PREMUL_SUM's factor. in == out is allowed. */
void weft__scale(void *out, const void *in, size_t count, weft_dtype dtype, double scale);
/* "avx512", "avx2" or "scalar": what the kernels use on this processor. */
const char *weft__reduce_level(void);
#endif
