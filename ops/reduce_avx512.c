/* reduce_avx512.c - kernels for processors with AVX-512 (F, BW, DQ, VL). */
#include "reduce_levels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define LEVEL              __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#define VECTOR_BYTES       64
#define KERNELS            weft__kernels_avx512
#define WIDEN_F16(codes)   ((V_f32)_mm512_cvtph_ps((__m256i)(codes)))
#define NARROW_F16(floats) ((V_code16)_mm512_cvtps_ph((__m512)(floats), _MM_FROUND_TO_NEAREST_INT))
#include "reduce_kernels.h"
#endif
