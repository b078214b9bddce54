/* reduce.c - which kernel: by type, reduction and processor.  Never fails; what does not exist is NULL. */
#include "reduce.h"

#include "check.h"
#include "reduce_levels.h"

#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <stdatomic.h>

/* Asked once, as cpuid traps in a virtual machine; not every compiler's __builtin_cpu_supports knows it. */
static bool has_f16c(void)
{
    static atomic_int known; /* 0: not asked yet, 1: no, 2: yes */
    int answer = atomic_load_explicit(&known, memory_order_relaxed);
    if (answer == 0) {
        unsigned a, b, c, d;
        answer = __get_cpuid(1, &a, &b, &c, &d) && c & bit_F16C ? 2 : 1;
        atomic_store_explicit(&known, answer, memory_order_relaxed);
    }
    return answer == 2;
}

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && has_f16c();
}

static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

static const weft__level avx2 = {"avx2", &weft__kernels_avx2, &weft__streams_avx2},
                         avx512 = {"avx512", &weft__kernels_avx512, &weft__streams_avx512};
#endif

static const weft__level scalar = {"scalar", &weft__kernels_scalar, NULL};

/* Cheap enough for every call: the processor was asked once, when the program started. */
static const weft__level *best_level(void)
{
#if defined(__x86_64__)
    if (has_avx512()) return &avx512;
    if (has_avx2()) return &avx2;
#endif
    return &scalar;
}

int weft__reduce_levels(const weft__level *levels[WEFT__LEVELS_MOST])
{
    int n = 0;
    levels[n++] = &scalar;
#if defined(__x86_64__)
    if (has_avx2()) levels[n++] = &avx2;
    if (has_avx512()) levels[n++] = &avx512;
#endif
    return n;
}

static bool scales(weft_dtype dtype)
{
    return dtype >= WEFT_FLOAT8_E4M3 && dtype <= WEFT_COMPLEX128;
}

static weft__reduce_fn *kernel_in(const weft__kernel_table *kernels, weft_dtype dtype, weft_op op)
{
    if ((unsigned)dtype >= WEFT__DTYPE_COUNT || (unsigned)op >= WEFT__REDUCTION_COUNT) return NULL;
    if (op == WEFT_AVG || op == WEFT_PREMUL_SUM) {
        bool complex = dtype == WEFT_COMPLEX64 || dtype == WEFT_COMPLEX128;
        if (!scales(dtype) || (complex && op == WEFT_PREMUL_SUM)) return NULL;
        op = WEFT_SUM;
    }
    return (*kernels)[dtype][op];
}

weft__reduce_fn *weft__reduce_kernel(weft_dtype dtype, weft_op op)
{
    return kernel_in(best_level()->kernels, dtype, op);
}

weft__reduce_fn *weft__stream_kernel(weft_dtype dtype, weft_op op)
{
    const weft__level *level = best_level();
    return kernel_in(level->streams ? level->streams : level->kernels, dtype, op);
}

void weft__scale(void *out, const void *in, size_t count, weft_dtype dtype, double scale)
{
    WEFT__ASSERT(scales(dtype));
    weft__reduce_kernel(dtype, WEFT_SUM)(out, &in, 1, count, scale);
}

void weft__reduce_rows(void *out, const void *rows, size_t stride, int n, size_t count, weft_dtype dtype,
                       weft_op op, double scale)
{
    const void *sources[WEFT__REDUCE_SOURCES];
    weft__reduce_fn *reduce = weft__reduce_kernel(dtype, op);
    int next = 0;
    while (next < n) {
        int used = 0;
        if (next > 0) sources[used++] = out; /* more rows than one call takes */
        while (used < WEFT__REDUCE_SOURCES && next < n)
            sources[used++] = (const char *)rows + (size_t)next++ * stride;
        reduce(out, sources, used, count, next == n ? scale : 1);
    }
}

const char *weft__reduce_level(void)
{
    return best_level()->name;
}
