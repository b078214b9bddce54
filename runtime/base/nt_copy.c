/* nt_copy.c - see nt_copy.h.
 *
 * Measured on a virtual machine of two processors (AMD Zen 3), 64 KiB from one to the other and 1 MiB,
 * ordinary against past the caches: 4 and 7 us, 50 and 72 us while they share a cache; 20 and 8 us, 250 and
 * 72 us while they do not. */
#include "nt_copy.h"
#include "clock.h"

#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#define SLOW_BYTES_PER_US 12000 /* an ordinary copy below this: about 25000 near, 7000 far */
#define SLOW_IN_A_ROW     4     /* one alone may have been interrupted */
#define FAR_COPIES        128   /* between two tries: then they cost little */
#define LINE              64

#if defined(__x86_64__)
static void stream_lines(char *to, const char *from, size_t lines)
{
    for (; lines; lines--, to += LINE, from += LINE) {
        __m128i a = _mm_loadu_si128((const __m128i *)(const void *)from);
        __m128i b = _mm_loadu_si128((const __m128i *)(const void *)(from + 16));
        __m128i c = _mm_loadu_si128((const __m128i *)(const void *)(from + 32));
        __m128i d = _mm_loadu_si128((const __m128i *)(const void *)(from + 48));
        _mm_stream_si128((__m128i *)(void *)to, a);
        _mm_stream_si128((__m128i *)(void *)(to + 16), b);
        _mm_stream_si128((__m128i *)(void *)(to + 32), c);
        _mm_stream_si128((__m128i *)(void *)(to + 48), d);
    }
    _mm_sfence(); /* before what tells of it */
}
#else
static void stream_lines(char *to, const char *from, size_t lines)
{
    memcpy(to, from, lines * LINE);
}
#endif

void weft__stream_copy(void *to, const void *from, size_t bytes)
{
    char *t = to;
    const char *f = from;
    size_t before = (size_t)(-(uintptr_t)to % LINE), lines; /* lines are only written whole */
    if (before > bytes) before = bytes;
    lines = (bytes - before) / LINE;
    memcpy(t, f, before);
    stream_lines(t + before, f + before, lines);
    before += lines * LINE;
    memcpy(t + before, f + before, bytes - before);
}

static bool is_slow(size_t bytes, int64_t ns)
{
    return ns > 0 && (int64_t)bytes * WEFT__US / ns < SLOW_BYTES_PER_US;
}

/* An ordinary one, and what is learned from it. */
static void try_near(weft__nt_copy *nt_copy, void *to, const void *from, size_t bytes)
{
    int64_t began = weft__now_ns();
    bool slow;
    memcpy(to, from, bytes);
    slow = is_slow(bytes, weft__now_ns() - began);
    nt_copy->slow = slow ? nt_copy->slow + 1 : 0;
    nt_copy->far = nt_copy->slow >= SLOW_IN_A_ROW;
    nt_copy->left = FAR_COPIES;
}

void weft__nt_copy_bytes(weft__nt_copy *nt_copy, void *to, const void *from, size_t bytes)
{
    if (bytes < WEFT__NT_COPY_BYTES) {
        memcpy(to, from, bytes);
    } else if (nt_copy->far && nt_copy->left) {
        nt_copy->left--;
        weft__stream_copy(to, from, bytes);
    } else {
        try_near(nt_copy, to, from, bytes);
    }
}
