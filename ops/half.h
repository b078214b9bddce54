/* half.h - 16-bit and 8-bit floats to float and back, in plain C, one element at a time.
 *
 * A format is given by the width of its mantissa and its bias.  Rounds to nearest, ties to even.  float16,
 * bfloat16 and float8_e5m2 overflow to infinity; float8_e4m3 is the OCP "fn" variant, which has none and
 * overflows to its NaN (0x7f).  A NaN keeps its sign and, where there is room, the top of its payload, as
 * the F16C instructions do.  Never fails; no denormal float is ever an operand, so flush-to-zero modes
 * change nothing.
 *
 * After F. Giesen, "Half-to-float conversion" (2012): denormals are made by adding a power of two. */
#ifndef WEFT_OPS_HALF_H
#define WEFT_OPS_HALF_H
#include <stdint.h>
#include <string.h>

enum weft__small_float {
    WEFT__F16_MANTISSA = 10,
    WEFT__F16_BIAS = 15,
    WEFT__E5M2_MANTISSA = 2,
    WEFT__E5M2_BIAS = 15,
    WEFT__E4M3_MANTISSA = 3,
    WEFT__E4M3_BIAS = 7
};

static inline uint32_t weft__float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float weft__bits_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* A format with infinities: magnitude without its sign to float. */
static inline float weft__widen_ieee(uint32_t magnitude, int mantissa, int bias)
{
    uint32_t bits = magnitude << (23 - mantissa), least = (uint32_t)(128 - bias) << 23;
    uint32_t infinity = (uint32_t)(2 * bias + 1) << 23;
    if (bits >= infinity) return weft__bits_float(bits | 0x7f800000 | (bits > infinity ? 0x400000 : 0));
    if (bits < 1U << 23) return weft__bits_float(bits + least) - weft__bits_float(least);
    return weft__bits_float(bits + ((uint32_t)(127 - bias) << 23));
}

/* Magnitude bits of a float that is no NaN to those of the format; past its largest number the result is
 * just larger than all of its codes. */
static inline uint32_t weft__narrow_finite(uint32_t bits, int mantissa, int bias)
{
    int drop = 23 - mantissa;
    uint32_t magic = (uint32_t)(127 - bias + drop + 1) << 23;
    if (bits < (uint32_t)(128 - bias) << 23)
        return weft__float_bits(weft__bits_float(bits) + weft__bits_float(magic)) - magic;
    bits += (1U << (drop - 1)) - 1 + (bits >> drop & 1);
    return (bits - ((uint32_t)(127 - bias) << 23)) >> drop;
}

static inline float weft__widen_f16(uint16_t code)
{
    float magnitude = weft__widen_ieee(code & 0x7fff, WEFT__F16_MANTISSA, WEFT__F16_BIAS);
    return weft__bits_float(weft__float_bits(magnitude) | (uint32_t)(code >> 15) << 31);
}

static inline uint16_t weft__narrow_f16(float value)
{
    uint32_t bits = weft__float_bits(value), sign = bits >> 31 << 15, code;
    bits &= 0x7fffffff;
    if (bits > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (bits >> 13 & 0x3ff));
    code = weft__narrow_finite(bits, WEFT__F16_MANTISSA, WEFT__F16_BIAS);
    return (uint16_t)(sign | (code > 0x7c00 ? 0x7c00 : code));
}

static inline float weft__widen_bf16(uint16_t code)
{
    return weft__bits_float((uint32_t)code << 16);
}

static inline uint16_t weft__narrow_bf16(float value)
{
    uint32_t bits = weft__float_bits(value);
    if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline float weft__widen_e5m2(uint8_t code)
{
    return weft__widen_f16((uint16_t)(code << 8));
}

static inline uint8_t weft__narrow_e5m2(float value)
{
    uint32_t bits = weft__float_bits(value), sign = bits >> 31 << 7, code;
    bits &= 0x7fffffff;
    if (bits > 0x7f800000) return (uint8_t)(sign | 0x7e | (bits >> 21 & 3));
    code = weft__narrow_finite(bits, WEFT__E5M2_MANTISSA, WEFT__E5M2_BIAS);
    return (uint8_t)(sign | (code > 0x7c ? 0x7c : code));
}

static inline float weft__widen_e4m3(uint8_t code)
{
    uint32_t magnitude = code & 0x7f, bits = magnitude << 20, least = 121U << 23;
    float value;
    if (magnitude == 0x7f)
        bits = 0x7fc00000;
    else if (bits < 1U << 23)
        value = weft__bits_float(bits + least) - weft__bits_float(least), bits = weft__float_bits(value);
    else
        bits += 120U << 23;
    return weft__bits_float(bits | (uint32_t)(code >> 7) << 31);
}

static inline uint8_t weft__narrow_e4m3(float value)
{
    uint32_t bits = weft__float_bits(value), sign = bits >> 31 << 7, code = 0x7f;
    bits &= 0x7fffffff;
    if (bits <= 0x7f800000) code = weft__narrow_finite(bits, WEFT__E4M3_MANTISSA, WEFT__E4M3_BIAS);
    return (uint8_t)(sign | (code > 0x7f ? 0x7f : code));
}
#endif
