/* reduce_avx2.c - kernels for processors with AVX2 and F16C. */
#include "reduce_levels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define LEVEL              __attribute__((target("avx2,f16c")))
#define VECTOR_BYTES       32
#define KERNELS            weft__kernels_avx2
#define WIDEN_F16(codes)   ((V_f32)_mm256_cvtph_ps((__m128i)(codes)))
#define NARROW_F16(floats) ((V_code16)_mm256_cvtps_ph((__m256)(floats), _MM_FROUND_TO_NEAREST_INT))
#include "reduce_kernels.h"
#endif
