/* reduce_kernels.h - the kernels of one processor level; each reduce_LEVEL.c includes it once.
 *
 * The includer defines LEVEL (attributes of every function), VECTOR_BYTES (width of a register) and KERNELS
 * (name of the table).  With OWN_INSTRUCTIONS it also brings what the processor has instructions for, among
 * them stores past the caches; STREAMS is the name of the table of kernels that use these.
 *
 * Vectors are those of GCC and clang (vector_size), so no kernel depends on what the optimiser recognises.
 * A kernel walks the sources for four registers' worth of elements at a time: the sums never leave the
 * registers, every source is read once and the result written once.  The odd rest goes element by element
 * through the same expressions, so a number does not depend on where in a buffer it stands.
 *
 * Those stores want their place at a multiple of their size: such a kernel begins with a plain one, up to the
 * first line, and ends with one.  A fence behind them makes them like any others. */
#include "half.h"
#include "reduce_levels.h"

#include <stdint.h>
#include <string.h>

#define INLINE        LEVEL __attribute__((always_inline)) static inline
#define FLOAT_LANES   (VECTOR_BYTES / 4)
#define STREAM_LINE   64
#define VECTOR(bytes) __attribute__((vector_size(bytes)))

#ifndef OWN_INSTRUCTIONS
INLINE void write_register(char *to, const void *v, bool stream)
{
    (void)stream; /* plain C knows no other stores */
    memcpy(to, v, VECTOR_BYTES);
}
#endif

/* ---- types: T_x as stored, A_x one accumulator, V_x a register of accumulators, M_x its masks ---- */

#define PLAIN_TYPE(x, type, mask)                                    \
    typedef type T_##x;                                              \
    typedef type A_##x;                                              \
    typedef type V_##x VECTOR(VECTOR_BYTES);                         \
    typedef mask M_##x VECTOR(VECTOR_BYTES);                         \
    INLINE V_##x load_##x(const void *from, size_t i)                \
    {                                                                \
        V_##x v;                                                     \
        memcpy(&v, (const char *)from + i * sizeof(type), sizeof v); \
        return v;                                                    \
    }                                                                \
    INLINE void store_##x(void *to, size_t i, V_##x v, bool stream)  \
    {                                                                \
        write_register((char *)to + i * sizeof(type), &v, stream);   \
    }                                                                \
    INLINE type get_##x(const void *from, size_t i)                  \
    {                                                                \
        type v;                                                      \
        memcpy(&v, (const char *)from + i * sizeof v, sizeof v);     \
        return v;                                                    \
    }                                                                \
    INLINE void put_##x(void *to, size_t i, type v)                  \
    {                                                                \
        memcpy((char *)to + i * sizeof v, &v, sizeof v);             \
    }

PLAIN_TYPE(i8, int8_t, uint8_t)
PLAIN_TYPE(u8, uint8_t, uint8_t)
PLAIN_TYPE(i16, int16_t, uint16_t)
PLAIN_TYPE(u16, uint16_t, uint16_t)
PLAIN_TYPE(i32, int32_t, uint32_t)
PLAIN_TYPE(u32, uint32_t, uint32_t)
PLAIN_TYPE(i64, int64_t, uint64_t)
PLAIN_TYPE(u64, uint64_t, uint64_t)
PLAIN_TYPE(f32, float, uint32_t)
PLAIN_TYPE(f64, double, uint64_t)

/* Magnitudes of floats fit in 31 bits: compared as signed, which processors can do. */
#define OVER(a, b) ((V_i32)(a) > (b))

#define PICK(x, mask, a, b) ((V_##x)(((M_##x)(mask) & (M_##x)(a)) | (~(M_##x)(mask) & (M_##x)(b))))

/* bool: any nonzero byte counts as 1. */
typedef uint8_t T_b8, A_b8;
typedef V_u8 V_b8;
INLINE V_u8 load_b8(const void *from, size_t i)
{
    return (V_u8)(load_u8(from, i) != 0) & 1;
}
INLINE uint8_t get_b8(const void *from, size_t i)
{
    return get_u8(from, i) != 0;
}
#define store_b8 store_u8
#define put_b8   put_u8

/* ---- small floats: accumulated as float ---- */

typedef uint16_t V_code16 VECTOR(FLOAT_LANES * 2);
typedef uint8_t V_code8 VECTOR(FLOAT_LANES);
typedef double V_wide VECTOR(FLOAT_LANES * 8);

/* half.h's weft__narrow_finite on a register. */
INLINE V_u32 narrow_finite(V_u32 bits, int mantissa, int bias)
{
    int drop = 23 - mantissa;
    uint32_t magic = (uint32_t)(127 - bias + drop + 1) << 23, rebias = (uint32_t)(127 - bias) << 23;
    V_u32 magics = magic - (V_u32){0};
    V_u32 tiny = (V_u32)((V_f32)bits + (V_f32)magics) - magics;
    V_u32 normal = (bits + ((1U << (drop - 1)) - 1) + (bits >> drop & 1) - rebias) >> drop;
    return PICK(u32, OVER(bits, ((128 - bias) << 23) - 1), normal, tiny);
}

/* One register of codes from and to memory, float16 and scaling: in plain C where the
 * processor has nothing. */
#ifndef OWN_INSTRUCTIONS
typedef V_u32 register_int;
typedef V_f32 register_float;

INLINE V_u32 load_codes16(const char *from)
{
    V_code16 v;
    memcpy(&v, from, sizeof v);
    return __builtin_convertvector(v, V_u32);
}
INLINE V_u32 load_codes8(const char *from)
{
    V_code8 v;
    memcpy(&v, from, sizeof v);
    return __builtin_convertvector(v, V_u32);
}
INLINE void store_codes16(char *to, V_u32 codes, bool stream)
{
    (void)stream;
    V_code16 v = __builtin_convertvector(codes, V_code16);
    memcpy(to, &v, sizeof v);
}
INLINE void store_codes8(char *to, V_u32 codes, bool stream)
{
    (void)stream;
    V_code8 v = __builtin_convertvector(codes, V_code8);
    memcpy(to, &v, sizeof v);
}
INLINE V_f32 widen_halves(V_u32 code)
{
    V_u32 bits = (code & 0x7fff) << 13;
    V_u32 least = 113U * (1U << 23) - (V_u32){0};
    V_u32 tiny = (V_u32)((V_f32)(bits + least) - (V_f32)least);
    V_u32 endless = bits | 0x7f800000 | ((V_u32)OVER(bits, 31 << 23) & 0x400000);
    V_u32 value = PICK(u32, OVER(bits, (1 << 23) - 1), bits + (112U << 23), tiny);
    value = PICK(u32, OVER(bits, (31 << 23) - 1), endless, value);
    return (V_f32)(value | (code & 0x8000) << 16);
}
INLINE V_f32 load_halves(const char *from)
{
    return widen_halves(load_codes16(from));
}
INLINE V_f32 load_short_halves(const char *from) /* the upper bytes of halves whose lower ones are 0 */
{
    return widen_halves(load_codes8(from) << 8);
}
INLINE void store_halves(char *to, V_f32 value, bool stream)
{
    V_u32 bits = (V_u32)value & 0x7fffffff, sign = (V_u32)value >> 31 << 15;
    V_u32 code = narrow_finite(bits, WEFT__F16_MANTISSA, WEFT__F16_BIAS);
    code = PICK(u32, OVER(code, 0x7c00), 0x7c00 - (V_u32){0}, code);
    code = PICK(u32, OVER(bits, 0x7f800000), 0x7e00 | (bits >> 13 & 0x3ff), code);
    store_codes16(to, code | sign, stream);
}
INLINE V_f32 scale_floats(V_f32 value, double scale)
{
    return __builtin_convertvector(__builtin_convertvector(value, V_wide) * scale, V_f32);
}
#endif

#define SMALL_TYPE(x, type)                                               \
    typedef type T_##x;                                                   \
    typedef float A_##x;                                                  \
    typedef V_f32 V_##x;                                                  \
    typedef M_f32 M_##x;                                                  \
    INLINE float get_##x(const void *from, size_t i)                      \
    {                                                                     \
        type code;                                                        \
        memcpy(&code, (const char *)from + i * sizeof code, sizeof code); \
        return weft__widen_##x(code);                                     \
    }                                                                     \
    INLINE void put_##x(void *to, size_t i, float v)                      \
    {                                                                     \
        type code = weft__narrow_##x(v);                                  \
        memcpy((char *)to + i * sizeof code, &code, sizeof code);         \
    }

SMALL_TYPE(f16, uint16_t)
SMALL_TYPE(bf16, uint16_t)
SMALL_TYPE(e5m2, uint8_t)
SMALL_TYPE(e4m3, uint8_t)

INLINE V_f32 load_f16(const void *from, size_t i)
{
    return (V_f32)load_halves((const char *)from + 2 * i);
}
INLINE void store_f16(void *to, size_t i, V_f32 value, bool stream)
{
    store_halves((char *)to + 2 * i, (register_float)value, stream);
}

INLINE V_f32 load_bf16(const void *from, size_t i)
{
    return (V_f32)((V_u32)load_codes16((const char *)from + 2 * i) << 16);
}
INLINE void store_bf16(void *to, size_t i, V_f32 value, bool stream)
{
    V_u32 bits = (V_u32)value, rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    V_u32 code = PICK(u32, OVER(bits & 0x7fffffff, 0x7f800000), bits >> 16 | 0x40, rounded);
    store_codes16((char *)to + 2 * i, (register_int)code, stream);
}

INLINE V_f32 load_e5m2(const void *from, size_t i)
{
    return (V_f32)load_short_halves((const char *)from + i);
}
INLINE void store_e5m2(void *to, size_t i, V_f32 value, bool stream)
{
    V_u32 bits = (V_u32)value & 0x7fffffff, sign = (V_u32)value >> 31 << 7;
    V_u32 code = narrow_finite(bits, WEFT__E5M2_MANTISSA, WEFT__E5M2_BIAS);
    code = PICK(u32, OVER(code, 0x7c), 0x7c - (V_u32){0}, code);
    code = PICK(u32, OVER(bits, 0x7f800000), 0x7e | (bits >> 21 & 3), code) | sign;
    store_codes8((char *)to + i, (register_int)code, stream);
}

INLINE V_f32 load_e4m3(const void *from, size_t i)
{
    V_u32 code = (V_u32)load_codes8((const char *)from + i), bits = (code & 0x7f) << 20;
    V_u32 least = 121U * (1U << 23) - (V_u32){0};
    V_u32 tiny = (V_u32)((V_f32)(bits + least) - (V_f32)least);
    V_u32 value = PICK(u32, OVER(bits, (1 << 23) - 1), bits + (120U << 23), tiny);
    value = PICK(u32, bits == 0x7fU << 20, 0x7fc00000 - (V_u32){0}, value);
    return (V_f32)(value | (code & 0x80) << 24);
}
INLINE void store_e4m3(void *to, size_t i, V_f32 value, bool stream)
{
    V_u32 bits = (V_u32)value & 0x7fffffff, sign = (V_u32)value >> 31 << 7;
    V_u32 code = narrow_finite(bits, WEFT__E4M3_MANTISSA, WEFT__E4M3_BIAS);
    V_u32 not_a_number = (V_u32)OVER(code, 0x7f) | (V_u32)OVER(bits, 0x7f800000);
    store_codes8((char *)to + i, (register_int)(PICK(u32, not_a_number, 0x7f - (V_u32){0}, code) | sign),
                 stream);
}

/* ---- expressions: on registers (V) and on single accumulators (A) ---- */

#define V_SUM(x, a, b)  ((a) + (b))
#define A_SUM(x, a, b)  ((A_##x)((a) + (b)))
#define V_PROD(x, a, b) ((a) * (b))
#define A_PROD(x, a, b) ((A_##x)(1U * (a) * (b))) /* 1U: two uint16_t would multiply as int and overflow */
#define V_BAND(x, a, b) ((a) & (b))
#define A_BAND(x, a, b) ((A_##x)((a) & (b)))
#define V_BOR(x, a, b)  ((a) | (b))
#define A_BOR(x, a, b)  ((A_##x)((a) | (b)))
#define V_BXOR(x, a, b) ((a) ^ (b))
#define A_BXOR(x, a, b) ((A_##x)((a) ^ (b)))
#define V_MIN(x, a, b)  PICK(x, (a) < (b), a, b)
#define A_MIN(x, a, b)  ((a) < (b) ? (a) : (b))
#define V_MAX(x, a, b)  PICK(x, (a) > (b), a, b)
#define A_MAX(x, a, b)  ((a) > (b) ? (a) : (b))
/* Floats: a NaN at the left stays because it differs from itself, one at the right because it is not more. */
#define V_FPROD(x, a, b) ((a) * (b))
#define A_FPROD(x, a, b) ((a) * (b))
#define V_FMIN(x, a, b)  PICK(x, ((a) < (b)) | ((a) != (a)), a, b)
#define A_FMIN(x, a, b)  ((a) < (b) || (a) != (a) ? (a) : (b))
#define V_FMAX(x, a, b)  PICK(x, ((a) > (b)) | ((a) != (a)), a, b)
#define A_FMAX(x, a, b)  ((a) > (b) || (a) != (a) ? (a) : (b))

/* Averages of float go through double, so that the average of equal numbers is that number. */
#define V_SCALE_NONE(a, scale)   (a)
#define A_SCALE_NONE(a, scale)   (a)
#define V_SCALE_FLOAT(a, scale)  ((V_f32)scale_floats((register_float)(a), scale))
#define A_SCALE_FLOAT(a, scale)  ((float)((double)(a) * (scale)))
#define V_SCALE_DOUBLE(a, scale) ((a) * (scale))
#define A_SCALE_DOUBLE(a, scale) ((a) * (scale))

#ifdef STREAMS
/* Elements until out lies at a line; all, where no element ever begins one. */
INLINE size_t before_line(const void *out, size_t element, size_t count)
{
    size_t bytes = -(uintptr_t)out % STREAM_LINE;
    return bytes % element == 0 && bytes / element < count ? bytes / element : count;
}
INLINE void *skip(void *out, const void **rest, const void *const *in, int n, size_t bytes)
{
    for (int s = 0; s < n; s++) rest[s] = (const char *)in[s] + bytes;
    return (char *)out + bytes;
}
#define STREAMED(NAME, x)                                                                        \
    LEVEL static void stream_##NAME##_##x(void *out, const void *const *in, int n, size_t count, \
                                          double scale)                                          \
    {                                                                                            \
        const void *rest[WEFT__REDUCE_SOURCES];                                                  \
        size_t before = before_line(out, sizeof(T_##x), count), blocks;                          \
        plain_##NAME##_##x(out, in, n, before, scale);                                           \
        out = skip(out, rest, in, n, before * sizeof(T_##x));                                    \
        blocks = blocks_##NAME##_##x(out, rest, n, count - before, scale, true);                 \
        streams_end();                                                                           \
        out = skip(out, rest, rest, n, blocks * sizeof(T_##x));                                  \
        plain_##NAME##_##x(out, rest, n, count - before - blocks, scale);                        \
    }
#else
#define STREAMED(NAME, x)
#endif

#define KERNEL(NAME, OP, x, SCALE)                                                                         \
    INLINE size_t blocks_##NAME##_##x(void *out, const void *const *in, int n, size_t count, double scale, \
                                      bool stream)                                                         \
    {                                                                                                      \
        const size_t lanes = sizeof(V_##x) / sizeof(A_##x), block = 4 * lanes;                             \
        size_t i = 0;                                                                                      \
        (void)scale;                                                                                       \
        for (; count - i >= block; i += block) {                                                           \
            V_##x a = load_##x(in[0], i), b = load_##x(in[0], i + lanes);                                  \
            V_##x c = load_##x(in[0], i + 2 * lanes), d = load_##x(in[0], i + 3 * lanes);                  \
            for (int s = 1; s < n; s++) {                                                                  \
                a = V_##OP(x, a, load_##x(in[s], i));                                                      \
                b = V_##OP(x, b, load_##x(in[s], i + lanes));                                              \
                c = V_##OP(x, c, load_##x(in[s], i + 2 * lanes));                                          \
                d = V_##OP(x, d, load_##x(in[s], i + 3 * lanes));                                          \
            }                                                                                              \
            if (scale != 1) {                                                                              \
                a = V_##SCALE(a, scale), b = V_##SCALE(b, scale);                                          \
                c = V_##SCALE(c, scale), d = V_##SCALE(d, scale);                                          \
            }                                                                                              \
            store_##x(out, i, a, stream), store_##x(out, i + lanes, b, stream);                            \
            store_##x(out, i + 2 * lanes, c, stream), store_##x(out, i + 3 * lanes, d, stream);            \
        }                                                                                                  \
        return i;                                                                                          \
    }                                                                                                      \
    LEVEL static void plain_##NAME##_##x(void *out, const void *const *in, int n, size_t count,            \
                                         double scale)                                                     \
    {                                                                                                      \
        const size_t lanes = sizeof(V_##x) / sizeof(A_##x);                                                \
        size_t i = blocks_##NAME##_##x(out, in, n, count, scale, false);                                   \
        for (; count - i >= lanes; i += lanes) {                                                           \
            V_##x a = load_##x(in[0], i);                                                                  \
            for (int s = 1; s < n; s++) a = V_##OP(x, a, load_##x(in[s], i));                              \
            if (scale != 1) a = V_##SCALE(a, scale);                                                       \
            store_##x(out, i, a, false);                                                                   \
        }                                                                                                  \
        for (; i < count; i++) {                                                                           \
            A_##x a = get_##x(in[0], i);                                                                   \
            for (int s = 1; s < n; s++) a = A_##OP(x, a, get_##x(in[s], i));                               \
            if (scale != 1) a = A_##SCALE(a, scale);                                                       \
            put_##x(out, i, a);                                                                            \
        }                                                                                                  \
    }                                                                                                      \
    STREAMED(NAME, x)

#define BITWISE(x)                    \
    KERNEL(BAND, BAND, x, SCALE_NONE) \
    KERNEL(BOR, BOR, x, SCALE_NONE)   \
    KERNEL(BXOR, BXOR, x, SCALE_NONE)

/* Sums, products and bits are those of the unsigned type for both; only order tells the two apart. */
#define INTEGER(bits)                       \
    KERNEL(SUM, SUM, u##bits, SCALE_NONE)   \
    KERNEL(PROD, PROD, u##bits, SCALE_NONE) \
    BITWISE(u##bits)                        \
    KERNEL(MIN, MIN, u##bits, SCALE_NONE)   \
    KERNEL(MAX, MAX, u##bits, SCALE_NONE)   \
    KERNEL(MIN, MIN, i##bits, SCALE_NONE)   \
    KERNEL(MAX, MAX, i##bits, SCALE_NONE)

#define FLOATING(x, SCALE)        \
    KERNEL(SUM, SUM, x, SCALE)    \
    KERNEL(PROD, FPROD, x, SCALE) \
    KERNEL(MIN, FMIN, x, SCALE)   \
    KERNEL(MAX, FMAX, x, SCALE)

INTEGER(8)
INTEGER(16)
INTEGER(32)
INTEGER(64)
FLOATING(e4m3, SCALE_FLOAT)
FLOATING(e5m2, SCALE_FLOAT)
FLOATING(f16, SCALE_FLOAT)
FLOATING(bf16, SCALE_FLOAT)
FLOATING(f32, SCALE_FLOAT)
FLOATING(f64, SCALE_DOUBLE)
BITWISE(b8)

/* A sum of complex numbers is that of twice as many parts. */
#define COMPLEX(how)                                                                                \
    static void how##_SUM_c64(void *out, const void *const *in, int n, size_t count, double scale)  \
    {                                                                                               \
        how##_SUM_f32(out, in, n, 2 * count, scale);                                                \
    }                                                                                               \
    static void how##_SUM_c128(void *out, const void *const *in, int n, size_t count, double scale) \
    {                                                                                               \
        how##_SUM_f64(out, in, n, 2 * count, scale);                                                \
    }

#define ROW_INTEGER(how, sign, bits)                                                                       \
    {                                                                                                      \
        [WEFT_SUM] = how##_SUM_u##bits, [WEFT_PROD] = how##_PROD_u##bits,                                  \
        [WEFT_MIN] = how##_MIN_##sign##bits, [WEFT_MAX] = how##_MAX_##sign##bits,                          \
        [WEFT_BAND] = how##_BAND_u##bits, [WEFT_BOR] = how##_BOR_u##bits, [WEFT_BXOR] = how##_BXOR_u##bits \
    }
#define ROW_FLOAT(how, x)                                                                     \
    {                                                                                         \
        [WEFT_SUM] = how##_SUM_##x, [WEFT_PROD] = how##_PROD_##x, [WEFT_MIN] = how##_MIN_##x, \
        [WEFT_MAX] = how##_MAX_##x                                                            \
    }
#define TABLE(how)                                                                                          \
    {                                                                                                       \
        [WEFT_INT8] = ROW_INTEGER(how, i, 8), [WEFT_UINT8] = ROW_INTEGER(how, u, 8),                        \
        [WEFT_INT16] = ROW_INTEGER(how, i, 16), [WEFT_UINT16] = ROW_INTEGER(how, u, 16),                    \
        [WEFT_INT32] = ROW_INTEGER(how, i, 32), [WEFT_UINT32] = ROW_INTEGER(how, u, 32),                    \
        [WEFT_INT64] = ROW_INTEGER(how, i, 64), [WEFT_UINT64] = ROW_INTEGER(how, u, 64),                    \
        [WEFT_FLOAT8_E4M3] = ROW_FLOAT(how, e4m3), [WEFT_FLOAT8_E5M2] = ROW_FLOAT(how, e5m2),               \
        [WEFT_FLOAT16] = ROW_FLOAT(how, f16), [WEFT_BFLOAT16] = ROW_FLOAT(how, bf16),                       \
        [WEFT_FLOAT32] = ROW_FLOAT(how, f32), [WEFT_FLOAT64] = ROW_FLOAT(how, f64),                         \
        [WEFT_COMPLEX64] = {[WEFT_SUM] = how##_SUM_c64}, [WEFT_COMPLEX128] = {[WEFT_SUM] = how##_SUM_c128}, \
        [WEFT_BOOL] = {[WEFT_MIN] = how##_BAND_b8,                                                          \
                       [WEFT_MAX] = how##_BOR_b8,                                                           \
                       [WEFT_BAND] = how##_BAND_b8,                                                         \
                       [WEFT_BOR] = how##_BOR_b8,                                                           \
                       [WEFT_BXOR] = how##_BXOR_b8},                                                        \
    }

COMPLEX(plain)
const weft__kernel_table KERNELS = TABLE(plain);
#ifdef STREAMS
COMPLEX(stream)
const weft__kernel_table STREAMS = TABLE(stream);
#endif
