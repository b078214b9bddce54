/* small_float.h - 16 and 8 bit floating point, to float and back, rounded to the nearest, ties to even.
 *
 * What is too large becomes infinite in float16 and bfloat16, and the largest finite number in the 8-bit
 * types, as NCCL's kernels convert them (saturating). */
#ifndef EMULATION_NCCL_SMALL_FLOAT_H
#define EMULATION_NCCL_SMALL_FLOAT_H
#include <stdint.h>

typedef struct small_float {
    int mantissa, bias;
    uint32_t max; /* largest code of a number, sign left out */
    uint32_t over;
    uint32_t nan;
} small_float;

extern const small_float small_f16, small_bf16, small_e4m3, small_e5m2;

float small_widen(const small_float *as, uint32_t code);
uint32_t small_narrow(const small_float *as, float value);
#endif
