/* oracle.c - data as a function of (seed, rank, index), and its reduction by plain loops. */
#include "oracle.h"

#include <math.h>
#include <string.h>

typedef enum family { INTEGER, FLOAT, COMPLEX, BOOLEAN } family;

typedef struct traits {
    family family;
    bool is_signed;
    int exponent_bits, mantissa_bits;
} traits;

static const traits traits_of[DTYPES] = {
    [WEFT_INT8] = {INTEGER, true, 0, 0},       [WEFT_UINT8] = {INTEGER, false, 0, 0},
    [WEFT_INT16] = {INTEGER, true, 0, 0},      [WEFT_UINT16] = {INTEGER, false, 0, 0},
    [WEFT_INT32] = {INTEGER, true, 0, 0},      [WEFT_UINT32] = {INTEGER, false, 0, 0},
    [WEFT_INT64] = {INTEGER, true, 0, 0},      [WEFT_UINT64] = {INTEGER, false, 0, 0},
    [WEFT_FLOAT8_E4M3] = {FLOAT, true, 4, 3},  [WEFT_FLOAT8_E5M2] = {FLOAT, true, 5, 2},
    [WEFT_FLOAT16] = {FLOAT, true, 5, 10},     [WEFT_BFLOAT16] = {FLOAT, true, 8, 7},
    [WEFT_FLOAT32] = {FLOAT, true, 8, 23},     [WEFT_FLOAT64] = {FLOAT, true, 11, 52},
    [WEFT_COMPLEX64] = {COMPLEX, true, 8, 23}, [WEFT_COMPLEX128] = {COMPLEX, true, 11, 52},
    [WEFT_BOOL] = {BOOLEAN, false, 0, 0},
};

/* Buffers are compared in pieces: a sanitizer looks once at a piece, and not at each element. */
enum { PIECE_BYTES = 4096 };

static size_t piece_of(size_t left, size_t bytes)
{
    size_t most = PIECE_BYTES / bytes;
    return left < most ? left : most;
}

/* The lower bytes of a word; little endian. */
static void put_word(uint64_t word, void *to, size_t bytes)
{
    switch (bytes) {
    case 1: memcpy(to, &word, 1); break;
    case 2: memcpy(to, &word, 2); break;
    case 4: memcpy(to, &word, 4); break;
    default: memcpy(to, &word, 8);
    }
}

static uint64_t get_word(const void *from, size_t bytes)
{
    uint64_t word = 0;
    switch (bytes) {
    case 1: memcpy(&word, from, 1); break;
    case 2: memcpy(&word, from, 2); break;
    case 4: memcpy(&word, from, 4); break;
    default: memcpy(&word, from, 8);
    }
    return word;
}

bool oracle_supports(weft_dtype dtype, weft_op op)
{
    family f = traits_of[dtype].family;
    switch (op) {
    case WEFT_SUM: return f != BOOLEAN;
    case WEFT_PROD: return f == INTEGER || f == FLOAT;
    case WEFT_MIN:
    case WEFT_MAX: return f != COMPLEX;
    case WEFT_AVG: return f == FLOAT || f == COMPLEX;
    case WEFT_BAND:
    case WEFT_BOR:
    case WEFT_BXOR: return f == INTEGER || f == BOOLEAN;
    case WEFT_PREMUL_SUM: return f == FLOAT;
    }
    return false;
}

double oracle_scale(int rank)
{
    return rank % 2 ? 0.5 : 1.0;
}

static uint64_t hash(const oracle *o, int rank, size_t index, unsigned part)
{
    uint64_t z = o->seed * UINT64_C(0xd6e8feb86659fd93) + (uint64_t)rank * UINT64_C(0xa0761d6478bd642f) +
                 (uint64_t)index * 2 + part + 1;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Sums of eight stay exact: -1, 0, 1 for the 8-bit types, -8 .. 8 (and halves of them) for the others.
 * Products of eight stay powers of two below every type's largest.  Of more ranks only eight, other ones for
 * each element, have something to add. */
static double float_operand(const oracle *o, int rank, size_t index, unsigned part)
{
    enum { EXACT = 8 };
    static const double factors[] = {1.0, -1.0, 2.0, 1.0};
    uint64_t h = hash(o, rank, index, part);
    bool wide = traits_of[o->dtype].mantissa_bits >= 7, bounded = o->op == WEFT_MIN || o->op == WEFT_MAX;
    if (o->ranks > EXACT && !bounded && ((size_t)rank + index) % (size_t)o->ranks >= EXACT)
        return o->op == WEFT_PROD ? 1.0 : 0.0;
    switch (o->op) {
    case WEFT_PROD: return factors[h % 4];
    case WEFT_PREMUL_SUM:
        /* Narrow types: only one rank of each index has something to add. */
        return wide ? (double)(h % 17) - 8.0 : (index % (size_t)o->ranks == (size_t)rank ? 2.0 : 0.0);
    case WEFT_MIN:
    case WEFT_MAX: return (double)(h % 9) - 4.0;
    default: return wide ? (double)(h % 17) - 8.0 : (double)(h % 3) - 1.0;
    }
}

/* ---- floats of any width --------------------------------------------------------------------------- */

static void encode_small(const traits *t, double value, void *element, size_t bytes)
{
    int bias = (1 << (t->exponent_bits - 1)) - 1, exponent = 0;
    uint64_t bits = 0;
    if (isnan(value)) {
        bits = (1ULL << (t->exponent_bits + t->mantissa_bits)) - 1;
    } else if (value != 0.0) {
        double fraction = frexp(fabs(value), &exponent) * 2.0 - 1.0; /* 0 <= fraction < 1 */
        bits = (uint64_t)(exponent - 1 + bias) << t->mantissa_bits;
        bits |= (uint64_t)ldexp(fraction, t->mantissa_bits);
    }
    if (signbit(value)) {
        bits |= 1ULL << (t->exponent_bits + t->mantissa_bits);
    }
    put_word(bits, element, bytes);
}

static double decode_small(const traits *t, const void *element, size_t bytes)
{
    uint32_t bits = (uint32_t)get_word(element, bytes), exponents = (1U << t->exponent_bits) - 1;
    int bias = (1 << (t->exponent_bits - 1)) - 1;
    uint32_t mantissa = bits & ((1U << t->mantissa_bits) - 1),
             exponent = bits >> t->mantissa_bits & exponents;
    double value;
    if (t->mantissa_bits == 3) {
        /* E4M3 has no infinity: only all ones is not a number. */
        value = exponent == exponents && mantissa == 7
                    ? (double)NAN
                    : ldexp(mantissa + (exponent ? 8.0 : 0.0), (int)(exponent ? exponent : 1) - bias - 3);
    } else if (exponent == exponents) {
        value = mantissa ? (double)NAN : (double)INFINITY;
    } else {
        value = ldexp(mantissa + (exponent ? ldexp(1.0, t->mantissa_bits) : 0.0),
                      (int)(exponent ? exponent : 1) - bias - t->mantissa_bits);
    }
    return bits >> (t->exponent_bits + t->mantissa_bits) & 1U ? -value : value;
}

void oracle_encode(weft_dtype dtype, double value, void *element)
{
    const traits *t = &traits_of[dtype];
    if (t->mantissa_bits == 52) {
        memcpy(element, &value, sizeof value);
    } else if (t->mantissa_bits == 23) {
        float narrow = (float)value;
        memcpy(element, &narrow, sizeof narrow);
    } else {
        encode_small(t, value, element, weft_dtype_size(dtype));
    }
}

double oracle_decode(weft_dtype dtype, const void *element)
{
    const traits *t = &traits_of[dtype];
    if (t->mantissa_bits == 52) {
        double value;
        memcpy(&value, element, sizeof value);
        return value;
    }
    if (t->mantissa_bits == 23) {
        float value;
        memcpy(&value, element, sizeof value);
        return (double)value;
    }
    return decode_small(t, element, weft_dtype_size(dtype));
}

/* ---- elements ---------------------------------------------------------------------------------------- */

/* What an integer or a boolean is: of a narrow one the lower bytes. */
static uint64_t word_of(const oracle *o, int rank, size_t index)
{
    uint64_t h = hash(o, rank, index, 0);
    return traits_of[o->dtype].family == BOOLEAN ? h & 1U : h;
}

static void make_element(const oracle *o, int rank, size_t index, size_t bytes, unsigned char *to)
{
    switch (traits_of[o->dtype].family) {
    case INTEGER:
    case BOOLEAN: put_word(word_of(o, rank, index), to, bytes); return;
    case FLOAT: oracle_encode(o->dtype, float_operand(o, rank, index, 0), to); return;
    case COMPLEX:
        oracle_encode(o->dtype, float_operand(o, rank, index, 0), to);
        oracle_encode(o->dtype, float_operand(o, rank, index, 1), to + bytes / 2);
    }
}

void oracle_fill(const oracle *o, int rank, size_t first, size_t n, void *buf)
{
    size_t bytes = weft_dtype_size(o->dtype);
    for (size_t i = 0; i < n; i++) make_element(o, rank, first + i, bytes, (unsigned char *)buf + i * bytes);
}

size_t oracle_differs(const oracle *o, int rank, size_t first, size_t n, const void *buf)
{
    size_t bytes = weft_dtype_size(o->dtype);
    for (size_t done = 0, piece; done < n; done += piece) {
        unsigned char expected[PIECE_BYTES];
        const unsigned char *got = (const unsigned char *)buf + done * bytes;
        piece = piece_of(n - done, bytes);
        oracle_fill(o, rank, first + done, piece, expected);
        if (memcmp(expected, got, piece * bytes) == 0) continue;
        for (size_t i = 0; i < piece; i++)
            if (memcmp(expected + i * bytes, got + i * bytes, bytes) != 0) return done + i;
    }
    return n;
}

/* ---- reductions ---------------------------------------------------------------------------------------- */

static bool less(const traits *t, uint64_t a, uint64_t b, size_t bytes)
{
    unsigned shift = (unsigned)(64 - 8 * bytes); /* a signed comparison at the top of the word */
    return t->is_signed ? (int64_t)(a << shift) < (int64_t)(b << shift) : a << shift < b << shift;
}

static uint64_t reduce_words(const oracle *o, uint64_t a, uint64_t b, size_t bytes)
{
    const traits *t = &traits_of[o->dtype];
    switch (o->op) {
    case WEFT_PROD: return a * b;
    case WEFT_MIN: return less(t, b, a, bytes) ? b : a;
    case WEFT_MAX: return less(t, a, b, bytes) ? b : a;
    case WEFT_BAND: return a & b;
    case WEFT_BOR: return a | b;
    case WEFT_BXOR: return a ^ b;
    default: return a + b;
    }
}

/* Cut off, of the sum as it wraps: what devices make of avg on integers. */
static uint64_t divide_word(const oracle *o, uint64_t sum, size_t bytes)
{
    unsigned shift = (unsigned)(64 - 8 * bytes);
    if (bytes == 0 || bytes > sizeof sum) return 0; /* no integer */
    if (traits_of[o->dtype].is_signed) return (uint64_t)((int64_t)(sum << shift) / (1LL << shift) / o->ranks);
    return (sum << shift >> shift) / (uint64_t)o->ranks;
}

static bool words_match(const oracle *o, size_t index, size_t bytes, const unsigned char *got)
{
    uint64_t expected = word_of(o, 0, index);
    for (int rank = 1; rank < o->ranks; rank++)
        expected = reduce_words(o, expected, word_of(o, rank, index), bytes);
    if (o->op == WEFT_AVG) expected = divide_word(o, expected, bytes);
    return (expected ^ get_word(got, bytes)) << (64 - 8 * bytes) == 0;
}

static double reduce_doubles(weft_op op, double a, double b)
{
    switch (op) {
    case WEFT_PROD: return a * b;
    case WEFT_MIN: return b < a ? b : a;
    case WEFT_MAX: return a < b ? b : a;
    default: return a + b;
    }
}

static bool float_matches(const oracle *o, size_t index, unsigned part, const unsigned char *got)
{
    double expected = 0, value = oracle_decode(o->dtype, got), slack = 0, added = 0;
    for (int rank = 0; rank < o->ranks; rank++) {
        double operand = float_operand(o, rank, index, part);
        if (o->op == WEFT_PREMUL_SUM) {
            operand *= oracle_scale(rank);
        }
        added += fabs(operand);
        expected = rank ? reduce_doubles(o->op, expected, operand) : operand;
    }
    if (o->op == WEFT_AVG) {
        /* Full floats may be divided before they are added: what rounds then is as large as they are.
         * Narrow ones are allowed little more than their one rounding, or nothing would be proven. */
        int bits = traits_of[o->dtype].mantissa_bits;
        expected /= o->ranks;
        slack = ldexp(bits >= 23 ? 16 * (fabs(expected) + 8) : fabs(expected) + 0.125, -bits);
        if (o->divides_first) {
            slack += ldexp(added, -bits);
        }
    }
    return fabs(value - expected) <= slack;
}

static bool reduction_matches(const oracle *o, size_t index, size_t bytes, const unsigned char *got)
{
    switch (traits_of[o->dtype].family) {
    case FLOAT: return float_matches(o, index, 0, got);
    case COMPLEX: return float_matches(o, index, 0, got) && float_matches(o, index, 1, got + bytes / 2);
    default: return words_match(o, index, bytes, got);
    }
}

size_t oracle_reduction_differs(const oracle *o, size_t first, size_t n, const void *buf)
{
    size_t bytes = weft_dtype_size(o->dtype);
    for (size_t done = 0, piece; done < n; done += piece) {
        unsigned char got[PIECE_BYTES];
        piece = piece_of(n - done, bytes);
        memcpy(got, (const unsigned char *)buf + done * bytes, piece * bytes);
        for (size_t i = 0; i < piece; i++)
            if (!reduction_matches(o, first + done + i, bytes, got + i * bytes)) return done + i;
    }
    return n;
}
