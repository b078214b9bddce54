/* reduce_avx2.c - kernels for processors with AVX2 and F16C. */
#include "reduce_levels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define LEVEL        __attribute__((target("avx2,f16c")))
#define VECTOR_BYTES 32
#define KERNELS      weft__kernels_avx2
#define STREAMS      weft__streams_avx2
#define OWN_INSTRUCTIONS
#define INSTRUCTION LEVEL __attribute__((always_inline)) static inline

typedef __m256i register_int;
typedef __m256 register_float;

INSTRUCTION void write_register(char *to, const void *v, bool stream)
{
    __m256i value = _mm256_loadu_si256(v);
    if (stream)
        _mm256_stream_si256((__m256i *)(void *)to, value);
    else
        _mm256_storeu_si256((__m256i *)(void *)to, value);
}
INSTRUCTION void write_half(char *to, __m128i value, bool stream)
{
    if (stream)
        _mm_stream_si128((__m128i *)(void *)to, value);
    else
        _mm_storeu_si128((__m128i *)(void *)to, value);
}
INSTRUCTION void write_quarter(char *to, __m128i value, bool stream)
{
    if (stream)
        _mm_stream_si64((long long *)(void *)to, _mm_cvtsi128_si64(value));
    else
        _mm_storel_epi64((__m128i *)(void *)to, value);
}
INSTRUCTION void streams_end(void)
{
    _mm_sfence();
}
INSTRUCTION __m256i load_codes16(const char *from)
{
    return _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)from));
}
INSTRUCTION __m256i load_codes8(const char *from)
{
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)from));
}
INSTRUCTION void store_codes16(char *to, __m256i codes, bool stream)
{
    __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(codes, codes), 0x08);
    write_half(to, _mm256_castsi256_si128(packed), stream);
}
INSTRUCTION void store_codes8(char *to, __m256i codes, bool stream)
{
    __m256i words = _mm256_packus_epi32(codes, codes), bytes = _mm256_packus_epi16(words, words);
    write_quarter(to, _mm_unpacklo_epi32(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1)),
                  stream);
}
INSTRUCTION __m256 load_halves(const char *from)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)from));
}
INSTRUCTION __m256 load_short_halves(const char *from)
{
    __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)from);
    return _mm256_cvtph_ps(_mm_unpacklo_epi8(_mm_setzero_si128(), bytes));
}
INSTRUCTION void store_halves(char *to, __m256 value, bool stream)
{
    write_half(to, _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT), stream);
}
INSTRUCTION __m256 scale_floats(__m256 value, double scale)
{
    __m256d factor = _mm256_set1_pd(scale);
    __m128 low = _mm256_cvtpd_ps(_mm256_mul_pd(_mm256_cvtps_pd(_mm256_castps256_ps128(value)), factor));
    __m128 high = _mm256_cvtpd_ps(_mm256_mul_pd(_mm256_cvtps_pd(_mm256_extractf128_ps(value, 1)), factor));
    return _mm256_insertf128_ps(_mm256_castps128_ps256(low), high, 1);
}

#include "reduce_kernels.h"
#endif
