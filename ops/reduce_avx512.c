/* reduce_avx512.c - kernels for processors with AVX-512 (F, BW, DQ, VL). */
#include "reduce_levels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define LEVEL        __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#define VECTOR_BYTES 64
#define KERNELS      weft__kernels_avx512
#define STREAMS      weft__streams_avx512
#define OWN_INSTRUCTIONS
#define INSTRUCTION LEVEL __attribute__((always_inline)) static inline

typedef __m512i register_int;
typedef __m512 register_float;

INSTRUCTION void write_register(char *to, const void *v, bool stream)
{
    __m512i value = _mm512_loadu_si512(v);
    if (stream)
        _mm512_stream_si512((__m512i *)(void *)to, value);
    else
        _mm512_storeu_si512(to, value);
}
INSTRUCTION void write_half(char *to, __m256i value, bool stream)
{
    if (stream)
        _mm256_stream_si256((__m256i *)(void *)to, value);
    else
        _mm256_storeu_si256((__m256i *)(void *)to, value);
}
INSTRUCTION void write_quarter(char *to, __m128i value, bool stream)
{
    if (stream)
        _mm_stream_si128((__m128i *)(void *)to, value);
    else
        _mm_storeu_si128((__m128i *)(void *)to, value);
}
INSTRUCTION void streams_end(void)
{
    _mm_sfence();
}
INSTRUCTION __m512i load_codes16(const char *from)
{
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)from));
}
INSTRUCTION __m512i load_codes8(const char *from)
{
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)from));
}
INSTRUCTION void store_codes16(char *to, __m512i codes, bool stream)
{
    write_half(to, _mm512_cvtepi32_epi16(codes), stream);
}
INSTRUCTION void store_codes8(char *to, __m512i codes, bool stream)
{
    write_quarter(to, _mm512_cvtepi32_epi8(codes), stream);
}
INSTRUCTION __m512 load_halves(const char *from)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)from));
}
INSTRUCTION __m512 load_short_halves(const char *from)
{
    __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)from);
    return _mm512_cvtph_ps(_mm256_slli_epi16(_mm256_cvtepu8_epi16(bytes), 8));
}
INSTRUCTION void store_halves(char *to, __m512 value, bool stream)
{
    write_half(to, _mm512_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT), stream);
}
INSTRUCTION __m512 scale_floats(__m512 value, double scale)
{
    __m512d factor = _mm512_set1_pd(scale);
    __m256 low = _mm512_cvtpd_ps(_mm512_mul_pd(_mm512_cvtps_pd(_mm512_castps512_ps256(value)), factor));
    __m256 high = _mm512_cvtpd_ps(_mm512_mul_pd(_mm512_cvtps_pd(_mm512_extractf32x8_ps(value, 1)), factor));
    return _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1);
}

#include "reduce_kernels.h"
#endif
