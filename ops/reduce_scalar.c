/* reduce_scalar.c - kernels for any processor: what the compiler makes of 16-byte vectors on the plain
 * target. */
#define LEVEL
#define VECTOR_BYTES 16
#define KERNELS      weft__kernels_scalar
#include "reduce_kernels.h"
