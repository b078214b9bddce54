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

/* Elements are made and looked at in pieces: what type and operation alone decide is decided once for a piece.  A
 * caller's memory is touched by memcpy and memcmp alone, which sanitizers look at, whether they watch this file or not. */
enum { PIECE = 512, ELEMENT_MOST = 16 };

static size_t piece_of(size_t left)
{
    return left < PIECE ? left : PIECE;
}

/* The lower bytes of each word; little endian. */
static void put_words(const uint64_t *words, size_t n, void *to, size_t bytes)
{
    unsigned char *at = to;
    switch (bytes) {
    case 1:
        for (size_t i = 0; i < n; i++) at[i] = (unsigned char)words[i];
        break;
    case 2:
        for (size_t i = 0; i < n; i++) memcpy(at + 2 * i, &words[i], 2);
        break;
    case 4:
        for (size_t i = 0; i < n; i++) memcpy(at + 4 * i, &words[i], 4);
        break;
    default: memcpy(at, words, 8 * n);
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

/* What is mixed for seed and rank, once 2 index + part is added. */
static uint64_t stem(const oracle *o, int rank)
{
    return o->seed * UINT64_C(0xd6e8feb86659fd93) + (uint64_t)rank * UINT64_C(0xa0761d6478bd642f) + 1;
}

static inline uint64_t mixed(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Whole numbers from -most to most. */
static inline void draw(uint64_t from, size_t n, unsigned most, double *to)
{
    for (size_t i = 0; i < n; i++) to[i] = (double)(mixed(from + 2 * i) % (2 * most + 1)) - most;
}

static void draw_factors(uint64_t from, size_t n, double *to)
{
    static const double factors[] = {1.0, -1.0, 2.0, 1.0};
    for (size_t i = 0; i < n; i++) to[i] = factors[mixed(from + 2 * i) % 4];
}

enum { EXACT = 8, OPERAND_MOST = 8 };

/* Sums of eight stay exact: -1, 0, 1 for the 8-bit types, -8 .. 8 (and halves of them) for the others.
 * Products of eight stay powers of two below every type's largest.  Of more ranks only eight, other ones for
 * each element, have something to add. */
static void float_operands(const oracle *o, int rank, size_t first, size_t n, unsigned part, double *to)
{
    const uint64_t from = stem(o, rank) + 2 * (uint64_t)first + part;
    const size_t ranks = (size_t)o->ranks;
    bool wide = traits_of[o->dtype].mantissa_bits >= 7, bounded = o->op == WEFT_MIN || o->op == WEFT_MAX;
    if (o->op == WEFT_PROD)
        draw_factors(from, n, to);
    else if (bounded)
        draw(from, n, 4, to);
    else if (wide)
        draw(from, n, OPERAND_MOST, to);
    else if (o->op != WEFT_PREMUL_SUM)
        draw(from, n, 1, to);
    else /* only one rank of each index has something to add */
        for (size_t i = 0; i < n; i++) to[i] = (first + i) % ranks == (size_t)rank ? 2.0 : 0.0;
    if (ranks <= EXACT || bounded) return;
    for (size_t i = 0; i < n; i++)
        if (((size_t)rank + first + i) % ranks >= EXACT) to[i] = o->op == WEFT_PROD ? 1.0 : 0.0;
}

/* ---- floats of any width --------------------------------------------------------------------------- */

static uint64_t small_bits(const traits *t, double value)
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
    return bits;
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
        uint64_t bits = small_bits(t, value);
        put_words(&bits, 1, element, weft_dtype_size(dtype));
    }
}

/* Operands, every `stride` bytes. */
static void encode_operands(weft_dtype dtype, const double *values, size_t n, size_t stride,
                            unsigned char *to)
{
    const traits *t = &traits_of[dtype];
    uint64_t small[2 * OPERAND_MOST + 1]; /* few numbers, which take long to encode */
    size_t bytes = weft_dtype_size(dtype);
    if (t->mantissa_bits == 52) {
        for (size_t i = 0; i < n; i++) memcpy(to + i * stride, &values[i], sizeof *values);
    } else if (t->mantissa_bits == 23) {
        for (size_t i = 0; i < n; i++) {
            float narrow = (float)values[i];
            memcpy(to + i * stride, &narrow, sizeof narrow);
        }
    } else {
        for (int i = -OPERAND_MOST; i <= OPERAND_MOST; i++) small[i + OPERAND_MOST] = small_bits(t, i);
        for (size_t i = 0; i < n; i++)
            put_words(&small[(int)values[i] + OPERAND_MOST], 1, to + i * stride, bytes);
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

/* What integers or booleans are: of narrow ones the lower bytes. */
static void draw_words(const oracle *o, int rank, size_t first, size_t n, uint64_t *to)
{
    const uint64_t from = stem(o, rank) + 2 * (uint64_t)first;
    const uint64_t bits = traits_of[o->dtype].family == BOOLEAN ? 1 : UINT64_MAX;
    for (size_t i = 0; i < n; i++) to[i] = mixed(from + 2 * i) & bits;
}

static void make_piece(const oracle *o, int rank, size_t first, size_t n, size_t bytes, unsigned char *to)
{
    unsigned parts = traits_of[o->dtype].family == COMPLEX ? 2 : 1;
    if (traits_of[o->dtype].mantissa_bits == 0) {
        uint64_t words[PIECE];
        draw_words(o, rank, first, n, words);
        put_words(words, n, to, bytes);
        return;
    }
    for (unsigned part = 0; part < parts; part++) {
        double values[PIECE];
        float_operands(o, rank, first, n, part, values);
        encode_operands(o->dtype, values, n, bytes, to + part * bytes / 2);
    }
}

void oracle_fill(const oracle *o, int rank, size_t first, size_t n, void *buf)
{
    size_t bytes = weft_dtype_size(o->dtype);
    for (size_t done = 0, piece; done < n; done += piece) {
        unsigned char made[PIECE * ELEMENT_MOST];
        piece = piece_of(n - done);
        make_piece(o, rank, first + done, piece, bytes, made);
        memcpy((unsigned char *)buf + done * bytes, made, piece * bytes);
    }
}

size_t oracle_differs(const oracle *o, int rank, size_t first, size_t n, const void *buf)
{
    size_t bytes = weft_dtype_size(o->dtype);
    for (size_t done = 0, piece; done < n; done += piece) {
        unsigned char expected[PIECE * ELEMENT_MOST];
        const unsigned char *got = (const unsigned char *)buf + done * bytes;
        piece = piece_of(n - done);
        make_piece(o, rank, first + done, piece, bytes, expected);
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

static void reduce_words(const oracle *o, uint64_t *to, const uint64_t *by, size_t n, size_t bytes)
{
    const traits *t = &traits_of[o->dtype];
    for (size_t i = 0; i < n; i++) {
        switch (o->op) {
        case WEFT_PROD: to[i] *= by[i]; break;
        case WEFT_MIN: to[i] = less(t, by[i], to[i], bytes) ? by[i] : to[i]; break;
        case WEFT_MAX: to[i] = less(t, to[i], by[i], bytes) ? by[i] : to[i]; break;
        case WEFT_BAND: to[i] &= by[i]; break;
        case WEFT_BOR: to[i] |= by[i]; break;
        case WEFT_BXOR: to[i] ^= by[i]; break;
        default: to[i] += by[i];
        }
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

/* Like oracle_reduction_differs, of at most PIECE elements. */
static size_t words_differ(const oracle *o, size_t first, size_t n, size_t bytes, const unsigned char *got)
{
    uint64_t expected[PIECE], by[PIECE];
    draw_words(o, 0, first, n, expected);
    for (int rank = 1; rank < o->ranks; rank++) {
        draw_words(o, rank, first, n, by);
        reduce_words(o, expected, by, n, bytes);
    }
    for (size_t i = 0; i < n; i++) {
        uint64_t word = o->op == WEFT_AVG ? divide_word(o, expected[i], bytes) : expected[i];
        if ((word ^ get_word(got + i * bytes, bytes)) << (64 - 8 * bytes) != 0) return i;
    }
    return n;
}

static void reduce_doubles(weft_op op, double *to, const double *by, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        switch (op) {
        case WEFT_PROD: to[i] *= by[i]; break;
        case WEFT_MIN: to[i] = by[i] < to[i] ? by[i] : to[i]; break;
        case WEFT_MAX: to[i] = to[i] < by[i] ? by[i] : to[i]; break;
        default: to[i] += by[i];
        }
    }
}

/* How far a value may be from what is expected: rounded, where `added` is the sum of all operands' sizes. */
static double slack_of(const oracle *o, double expected, double added)
{
    /* Full floats may be divided before they are added: what rounds then is as large as they are.
     * Narrow ones are allowed little more than their one rounding, or nothing would be proven. */
    int bits = traits_of[o->dtype].mantissa_bits;
    double slack = ldexp(bits >= 23 ? 16 * (fabs(expected) + 8) : fabs(expected) + 0.125, -bits);
    return o->divides_first ? slack + ldexp(added, -bits) : slack;
}

/* One part of the elements, which lie every `stride` bytes. */
static size_t floats_differ(const oracle *o, size_t first, size_t n, unsigned part, size_t stride,
                            const unsigned char *got)
{
    double expected[PIECE] = {0}, by[PIECE], added[PIECE] = {0};
    for (int rank = 0; rank < o->ranks; rank++) {
        double *to = rank ? by : expected, scale = o->op == WEFT_PREMUL_SUM ? oracle_scale(rank) : 1.0;
        float_operands(o, rank, first, n, part, to);
        for (size_t i = 0; i < n; i++) {
            to[i] *= scale;
            added[i] += fabs(to[i]);
        }
        if (rank) reduce_doubles(o->op, expected, by, n);
    }
    for (size_t i = 0; i < n; i++) {
        double value = oracle_decode(o->dtype, got + i * stride), slack = 0;
        if (o->op == WEFT_AVG) {
            expected[i] /= o->ranks;
            slack = slack_of(o, expected[i], added[i]);
        }
        if (!(fabs(value - expected[i]) <= slack)) return i;
    }
    return n;
}

static size_t piece_differs(const oracle *o, size_t first, size_t n, size_t bytes, const unsigned char *got)
{
    size_t real, imaginary;
    switch (traits_of[o->dtype].family) {
    case FLOAT: return floats_differ(o, first, n, 0, bytes, got);
    case COMPLEX:
        real = floats_differ(o, first, n, 0, bytes, got);
        imaginary = floats_differ(o, first, n, 1, bytes, got + bytes / 2);
        return real < imaginary ? real : imaginary;
    default: return words_differ(o, first, n, bytes, got);
    }
}

size_t oracle_reduction_differs(const oracle *o, size_t first, size_t n, const void *buf)
{
    size_t bytes = weft_dtype_size(o->dtype);
    for (size_t done = 0, piece, at; done < n; done += piece) {
        unsigned char got[PIECE * ELEMENT_MOST];
        piece = piece_of(n - done);
        memcpy(got, (const unsigned char *)buf + done * bytes, piece * bytes);
        at = piece_differs(o, first + done, piece, bytes, got);
        if (at < piece) return done + at;
    }
    return n;
}
