/* test_reduce.c - every kernel of every processor level at hand against arithmetic written here again. */
#include "reduce.h"
#include "reduce_levels.h"
#include "skip.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SOURCES  8
#define ELEMENTS 1100
#define ROOM     (ELEMENTS * 16 + 64)

static uint64_t seed = 88172645463325252U;

static uint64_t random64(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed * 0x2545f4914f6cdd1dU;
}

/* ---- small floats by definition: sign, exponent, mantissa; rounding by search for the nearest ---- */

typedef struct format {
    int mantissa, bias, codes; /* codes: magnitudes from 0, the last of which is the largest number */
    bool infinite;
} format;

static format format_of(weft_dtype dtype)
{
    switch (dtype) {
    case WEFT_FLOAT16: return (format){10, 15, 0x7c00, true};
    case WEFT_BFLOAT16: return (format){7, 127, 0x7f80, true};
    case WEFT_FLOAT8_E5M2: return (format){2, 15, 0x7c, true};
    default: return (format){3, 7, 0x7f, false};
    }
}

static double magnitude(format f, int code)
{
    int exponent = code >> f.mantissa, fraction = code & ((1 << f.mantissa) - 1);
    if (exponent == 0) return ldexp(fraction, 1 - f.bias - f.mantissa);
    return ldexp(fraction + (1 << f.mantissa), exponent - f.bias - f.mantissa);
}

static double decode(weft_dtype dtype, unsigned code)
{
    format f = format_of(dtype);
    unsigned sign_bit = weft_dtype_size(dtype) == 1 ? 0x80 : 0x8000;
    int rest = (int)(code & (sign_bit - 1));
    double value = rest < f.codes ? magnitude(f, rest) : f.infinite && rest == f.codes ? INFINITY : NAN;
    return code & sign_bit ? -value : value;
}

/* The code of a number that is no NaN; e4m3's NaN code where it overflows. */
static unsigned encode(weft_dtype dtype, double value)
{
    format f = format_of(dtype);
    unsigned sign = !signbit(value) ? 0 : weft_dtype_size(dtype) == 1 ? 0x80 : 0x8000;
    int low = 0, high = f.codes; /* the code past the largest stands where its number would be */
    value = fabs(value);
    if (value >= magnitude(f, high)) return sign | (unsigned)high;
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (magnitude(f, middle) <= value)
            low = middle;
        else
            high = middle;
    }
    double below = value - magnitude(f, low), above = magnitude(f, high) - value;
    return sign | (unsigned)(above < below || (above == below && low % 2) ? high : low);
}

/* ---- one element of the expected result ---- */

static bool is_small(weft_dtype d)
{
    return d >= WEFT_FLOAT8_E4M3 && d <= WEFT_BFLOAT16;
}

static float float_step(float a, float b, weft_op op)
{
    switch (op) {
    case WEFT_PROD: return a * b;
    case WEFT_MIN: return isnan(a) || a < b ? a : b;
    case WEFT_MAX: return isnan(a) || a > b ? a : b;
    default: return a + b;
    }
}

static double double_step(double a, double b, weft_op op)
{
    switch (op) {
    case WEFT_PROD: return a * b;
    case WEFT_MIN: return isnan(a) || a < b ? a : b;
    case WEFT_MAX: return isnan(a) || a > b ? a : b;
    default: return a + b;
    }
}

static uint64_t integer_step(uint64_t a, uint64_t b, weft_op op, bool is_signed)
{
    bool less = is_signed ? (int64_t)a < (int64_t)b : a < b;
    switch (op) {
    case WEFT_SUM: return a + b;
    case WEFT_PROD: return a * b;
    case WEFT_MIN: return less ? a : b;
    case WEFT_MAX: return less ? b : a;
    case WEFT_BAND: return a & b;
    case WEFT_BOR: return a | b;
    default: return a ^ b;
    }
}

static float load_float(weft_dtype dtype, const unsigned char *at)
{
    uint16_t code = at[0];
    float value;
    if (dtype == WEFT_FLOAT32 || dtype == WEFT_COMPLEX64) {
        memcpy(&value, at, sizeof value);
        return value;
    }
    if (weft_dtype_size(dtype) == 2) memcpy(&code, at, sizeof code);
    return (float)decode(dtype, code);
}

static void check_float(weft_dtype dtype, float expected, const unsigned char *got, const char *where)
{
    unsigned code = 0, want;
    float value = load_float(dtype, got);
    if (isnan(expected) || isnan(value)) {
        bool overflows =
            dtype == WEFT_FLOAT8_E4M3 && !isnan(expected) && (encode(dtype, expected) & 0x7f) == 0x7f;
        if (!(isnan(expected) || overflows) || !isnan(value))
            fail_msg("%s: %a, expected %a", where, value, expected);
    } else if (is_small(dtype)) {
        memcpy(&code, got, weft_dtype_size(dtype));
        want = encode(dtype, expected);
        if (code != want) fail_msg("%s: code %#x, expected %#x (%a)", where, code, want, expected);
    } else if (memcmp(&value, &expected, sizeof value) != 0) {
        fail_msg("%s: %a, expected %a", where, value, expected);
    }
}

static int64_t load_integer(weft_dtype dtype, const unsigned char *at)
{
    size_t bytes = weft_dtype_size(dtype);
    uint64_t value = 0;
    memcpy(&value, at, bytes);
    if (dtype == WEFT_BOOL) return value != 0;
    if (dtype % 2 == 0 && bytes < 8 && value >> (8 * bytes - 1)) value |= ~UINT64_C(0) << (8 * bytes);
    return (int64_t)value;
}

static void check_element(weft_dtype dtype, weft_op op, const unsigned char *const *in, int n, size_t at,
                          double scale, const unsigned char *got, const char *where)
{
    if (dtype <= WEFT_UINT64 || dtype == WEFT_BOOL) {
        uint64_t a = (uint64_t)load_integer(dtype, in[0] + at);
        for (int s = 1; s < n; s++)
            a = integer_step(a, (uint64_t)load_integer(dtype, in[s] + at), op, dtype % 2 == 0);
        if (memcmp(&a, got, weft_dtype_size(dtype)) != 0) fail_msg("%s: integers differ", where);
    } else if (dtype == WEFT_FLOAT64 || dtype == WEFT_COMPLEX128) {
        double a, b, value;
        memcpy(&a, in[0] + at, sizeof a);
        for (int s = 1; s < n; s++) {
            memcpy(&b, in[s] + at, sizeof b);
            a = double_step(a, b, op);
        }
        if (scale != 1) a *= scale;
        memcpy(&value, got, sizeof value);
        if (isnan(a) ? !isnan(value) : memcmp(&a, &value, sizeof a) != 0)
            fail_msg("%s: %a, expected %a", where, value, a);
    } else {
        float a = load_float(dtype, in[0] + at);
        for (int s = 1; s < n; s++) a = float_step(a, load_float(dtype, in[s] + at), op);
        if (scale != 1) a = (float)(a * scale);
        check_float(dtype, a, got, where);
    }
}

/* ---- driving ---- */

static unsigned char sources[SOURCES][ROOM], result[ROOM];

/* Half of the floats are any bits at all, half are ordinary numbers. */
static void fill(weft_dtype dtype, unsigned char *at, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) at[i] = (unsigned char)(random64() >> 32);
    if (dtype == WEFT_BOOL)
        for (size_t i = 0; i < bytes; i++) at[i] &= random64() >> 40 & 1 ? 0xff : 0;
    if (dtype == WEFT_FLOAT32 || dtype == WEFT_COMPLEX64)
        for (size_t i = 0; i < bytes; i += 8) {
            float value = (float)((double)random64() * 0x1p-64 - 0.5);
            memcpy(at + i, &value, sizeof value);
        }
    if (dtype == WEFT_FLOAT64)
        for (size_t i = 0; i + 16 <= bytes; i += 16) {
            double value = (double)random64() * 0x1p-64 - 0.5;
            memcpy(at + i, &value, sizeof value);
        }
}

static void check_case(weft__reduce_fn *kernel, weft_dtype dtype, weft_op op, int n, size_t count,
                       double scale, int in_place, const char *level)
{
    size_t element = weft_dtype_size(dtype),
           part = element > 8 || dtype == WEFT_COMPLEX64 ? element / 2 : element;
    /* Elements need not start at a vector's boundary, nor at one of their own. */
    size_t shift = count % 3 * element + (count % 5 == 0);
    const unsigned char *in[SOURCES];
    static unsigned char before[ROOM];
    char where[128];
    unsigned char *out = in_place < 0 ? result + shift : sources[in_place] + shift;
    for (int s = 0; s < n; s++) in[s] = sources[s] + shift;
    if (in_place >= 0) memcpy(before, sources[in_place], ROOM);
    memset(result, 0xa5, ROOM);
    kernel(out, (const void *const *)in, n, count, scale);
    if (in_place >= 0) {
        memcpy(result, sources[in_place], ROOM);
        memcpy(sources[in_place], before, ROOM);
        out = result + shift;
    }
    snprintf(where, sizeof where, "%s dtype %d op %d n %d count %zu in_place %d", level, (int)dtype, (int)op,
             n, count, in_place);
    for (size_t at = 0; at < count * element; at += part)
        check_element(dtype, op, in, n, at, scale, out + at, where);
    for (size_t i = 0; in_place < 0 && i < 32; i++)
        if (out[count * element + i] != 0xa5) fail_msg("%s: wrote past its end", where);
    for (size_t i = 0; in_place < 0 && i < shift; i++)
        if (result[i] != 0xa5) fail_msg("%s: wrote before its beginning", where);
}

static void check_kernel(weft__reduce_fn *kernel, weft_dtype dtype, weft_op op, const char *level)
{
    static const int ns[] = {1, 2, 3, SOURCES};
    static const size_t counts[] = {0, 1, 2, 3, 5, 7, 17, 31, 63, 65, 127, 255, 321, 1027};
    bool scaled = dtype >= WEFT_FLOAT8_E4M3 && dtype <= WEFT_COMPLEX128;
    for (int s = 0; s < SOURCES; s++) fill(dtype, sources[s], ROOM);
    for (size_t i = 0; i < sizeof ns / sizeof ns[0]; i++)
        for (size_t j = 0; j < sizeof counts / sizeof counts[0]; j++) {
            check_case(kernel, dtype, op, ns[i], counts[j], 1, -1, level);
            check_case(kernel, dtype, op, ns[i], counts[j], 1, ns[i] - 1, level);
            if (scaled) check_case(kernel, dtype, op, ns[i], counts[j], 1.0 / ns[i] / 3, -1, level);
        }
}

static bool exists(weft_dtype dtype, weft_op op)
{
    bool integer = dtype <= WEFT_UINT64, boolean = dtype == WEFT_BOOL;
    bool complex = dtype == WEFT_COMPLEX64 || dtype == WEFT_COMPLEX128;
    switch (op) {
    case WEFT_SUM: return !boolean;
    case WEFT_PROD: return !boolean && !complex;
    case WEFT_MIN:
    case WEFT_MAX: return !complex;
    case WEFT_AVG: return !boolean && !integer;
    case WEFT_PREMUL_SUM: return !boolean && !integer && !complex;
    default: return integer || boolean;
    }
}

static void check_table(const weft__kernel_table *kernels, const char *name)
{
    for (int d = 0; d < WEFT__DTYPE_COUNT; d++)
        for (int op = 0; op < WEFT__REDUCTION_COUNT; op++) {
            weft__reduce_fn *kernel = (*kernels)[d][op];
            bool expected = exists((weft_dtype)d, (weft_op)op) && op != WEFT_AVG && op != WEFT_PREMUL_SUM;
            if ((kernel != NULL) != expected) fail_msg("%s: dtype %d op %d: wrong table", name, d, op);
            if (expected) check_kernel(kernel, (weft_dtype)d, (weft_op)op, name);
        }
}

static void check_level(const weft__level *level)
{
    char name[32];
    check_table(level->kernels, level->name);
    snprintf(name, sizeof name, "%s, streamed", level->name);
    if (level->streams) check_table(level->streams, name);
}

/* A row for each, so that a run tells which of them it has seen. */
static void test_level(const char *name)
{
    const weft__level *levels[WEFT__LEVELS_MOST];
    int n = weft__reduce_levels(levels);
    assert_string_equal(levels[0]->name, "scalar");
    assert_string_equal(levels[n - 1]->name, weft__reduce_level());
    for (int i = 0; i < n; i++)
        if (!strcmp(levels[i]->name, name)) {
            check_level(levels[i]);
            return;
        }
    SKIP("this processor has no %s", name);
}

static void test_scalar(void **state)
{
    (void)state;
    test_level("scalar");
}

static void test_avx2(void **state)
{
    (void)state;
    test_level("avx2");
}

static void test_avx512(void **state)
{
    (void)state;
    test_level("avx512");
}

static void test_table(void **state)
{
    (void)state;
    for (int d = -1; d <= WEFT__DTYPE_COUNT; d++)
        for (int op = -1; op <= WEFT__REDUCTION_COUNT; op++) {
            bool known = d >= 0 && d < WEFT__DTYPE_COUNT && op >= 0 && op < WEFT__REDUCTION_COUNT;
            bool expected = known && exists((weft_dtype)d, (weft_op)op);
            assert_int_equal(weft__reduce_kernel((weft_dtype)d, (weft_op)op) != NULL, expected);
            assert_int_equal(weft__stream_kernel((weft_dtype)d, (weft_op)op) != NULL, expected);
        }
    assert_ptr_equal(weft__reduce_kernel(WEFT_FLOAT32, WEFT_AVG),
                     weft__reduce_kernel(WEFT_FLOAT32, WEFT_SUM));
}

/* Every code of the small types goes through and comes back; every half-way case rounds to even. */
static void test_small_codes(void **state)
{
    (void)state;
    for (int d = WEFT_FLOAT8_E4M3; d <= WEFT_BFLOAT16; d++) {
        size_t bytes = weft_dtype_size((weft_dtype)d);
        unsigned codes = 1U << 8 * bytes;
        unsigned char *in = malloc(codes * bytes), *out = malloc(codes * bytes);
        assert_non_null(in);
        assert_non_null(out);
        for (unsigned c = 0; c < codes; c++) memcpy(in + c * bytes, &c, bytes);
        weft__reduce_kernel((weft_dtype)d, WEFT_SUM)(out, (const void *const[]){in}, 1, codes, 1);
        for (unsigned c = 0; c < codes; c++) {
            if (isnan(decode((weft_dtype)d, c)))
                assert_true(isnan(load_float((weft_dtype)d, out + c * bytes)));
            else
                assert_memory_equal(in + c * bytes, out + c * bytes, bytes);
        }
        /* (x + next(x)) / 2 lies half-way: float holds it, the small type rounds it. */
        unsigned char *next = malloc(codes * bytes);
        assert_non_null(next);
        for (unsigned c = 0; c < codes; c++) memcpy(next + c * bytes, &(unsigned){(c + 1) % codes}, bytes);
        weft__reduce_kernel((weft_dtype)d, WEFT_AVG)(out, (const void *const[]){in, next}, 2, codes, 0.5);
        for (unsigned c = 0; c < codes; c++) {
            float sum =
                load_float((weft_dtype)d, in + c * bytes) + load_float((weft_dtype)d, next + c * bytes);
            check_float((weft_dtype)d, (float)((double)sum * 0.5), out + c * bytes, "half-way");
        }
        free(next);
        free(in);
        free(out);
    }
}

static void test_scale(void **state)
{
    (void)state;
    float values[5] = {1, -2, 3, 0.5F, 7}, scaled[5];
    weft__scale(scaled, values, 5, WEFT_FLOAT32, 3);
    for (int i = 0; i < 5; i++) assert_true(scaled[i] == 3 * values[i]);
    weft__scale(values, values, 2, WEFT_COMPLEX64, 0.5);
    assert_true(values[0] == 0.5F && values[3] == 0.25F && values[4] == 7);
}

/* 1/n as a float would not do: 49 * (1/49) is not 1. */
static void test_average_is_exact(void **state)
{
    (void)state;
    float value = 3, out;
    const void *in[WEFT__REDUCE_SOURCES];
    for (int n = 1; n <= WEFT__REDUCE_SOURCES; n++) {
        for (int s = 0; s < n; s++) in[s] = &value;
        weft__reduce_kernel(WEFT_FLOAT32, WEFT_AVG)(&out, in, n, 1, 1.0 / n);
        assert_true(out == value);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scalar),           cmocka_unit_test(test_avx2),
        cmocka_unit_test(test_avx512),           cmocka_unit_test(test_table),
        cmocka_unit_test(test_small_codes),      cmocka_unit_test(test_scale),
        cmocka_unit_test(test_average_is_exact),
    };
    return cmocka_run_group_tests_name("reduce", tests, NULL, NULL);
}
