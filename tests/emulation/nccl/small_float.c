/* small_float.c - conversions by the definition of the formats, one at a time. */
#include "small_float.h"

#include <math.h>
#include <string.h>

const small_float small_f16 = {10, 15, 0x7bff, 0x7c00, 0x7e00};
const small_float small_bf16 = {7, 127, 0x7f7f, 0x7f80, 0x7fc0};
const small_float small_e4m3 = {3, 7, 0x7e, 0x7e, 0x7f};
const small_float small_e5m2 = {2, 15, 0x7b, 0x7b, 0x7e};

/* Bit of the sign: all formats fill 8 or 16 bits. */
static uint32_t sign_of(const small_float *as)
{
    return as->nan > 0xff ? 0x8000 : 0x80;
}

float small_widen(const small_float *as, uint32_t code)
{
    uint32_t sign = sign_of(as);
    uint32_t size = code & (sign - 1);
    float value;

    if (size > as->max)
        value = size == as->max + 1 && as->nan != size ? INFINITY : NAN;
    else if (size >> as->mantissa) { /* a normal number: the same digits, another bias */
        uint32_t bits = (size << (23 - as->mantissa)) + ((uint32_t)(127 - as->bias) << 23);
        memcpy(&value, &bits, sizeof value);
    } else {
        value = ldexpf((float)size, 1 - as->bias - as->mantissa);
    }
    return code & sign ? -value : value;
}

uint32_t small_narrow(const small_float *as, float value)
{
    uint32_t bits, size;
    int drop = 23 - as->mantissa;

    memcpy(&bits, &value, sizeof bits);
    uint32_t sign = bits >> 31 ? sign_of(as) : 0;
    bits &= 0x7fffffff;
    if (bits > 0x7f800000) return sign | as->nan;
    int exponent = (int)(bits >> 23) - 127 + as->bias;
    if (exponent >= 1) {
        size = bits - ((uint32_t)(127 - as->bias) << 23);
    } else { /* a subnormal one: its digits are moved to the right */
        drop += 1 - exponent;
        size = (bits & 0x7fffff) | (bits >> 23 ? 0x800000u : 0);
        if (!(bits >> 23)) drop--; /* was subnormal as a float: only bfloat16 comes here with a number left */
        if (drop > 25) return sign;
    }
    size += ((1u << (drop - 1)) - 1) + ((size >> drop) & 1);
    size >>= drop;
    return sign | (size > as->max ? as->over : size);
}
