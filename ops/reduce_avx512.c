/* reduce_avx512.c - kernels for processors with AVX-512 (F, BW, DQ, VL). */
#include "reduce_levels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define LEVEL        __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#define VECTOR_BYTES 64
#define KERNELS      weft__kernels_avx512
#define OWN_CONVERSIONS
#define CONVERSION LEVEL __attribute__((always_inline)) static inline

typedef __m512i register_int;
typedef __m512 register_float;

CONVERSION __m512i load_codes16(const char *from)
{
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)from));
}
CONVERSION __m512i load_codes8(const char *from)
{
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)from));
}
CONVERSION void store_codes16(char *to, __m512i codes)
{
    _mm256_storeu_si256((__m256i *)(void *)to, _mm512_cvtepi32_epi16(codes));
}
CONVERSION void store_codes8(char *to, __m512i codes)
{
    _mm_storeu_si128((__m128i *)(void *)to, _mm512_cvtepi32_epi8(codes));
}
CONVERSION __m512 load_halves(const char *from)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)from));
}
CONVERSION __m512 load_short_halves(const char *from)
{
    __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)from);
    return _mm512_cvtph_ps(_mm256_slli_epi16(_mm256_cvtepu8_epi16(bytes), 8));
}
CONVERSION void store_halves(char *to, __m512 value)
{
    _mm256_storeu_si256((__m256i *)(void *)to, _mm512_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT));
}
CONVERSION __m512 scale_floats(__m512 value, double scale)
{
    __m512d factor = _mm512_set1_pd(scale);
    __m256 low = _mm512_cvtpd_ps(_mm512_mul_pd(_mm512_cvtps_pd(_mm512_castps512_ps256(value)), factor));
    __m256 high = _mm512_cvtpd_ps(_mm512_mul_pd(_mm512_cvtps_pd(_mm512_extractf32x8_ps(value, 1)), factor));
    return _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1);
}

#include "reduce_kernels.h"
#endif
