/* reduce.h - the arithmetic of NCCL's reductions, element after element, in the type's own precision.
 *
 * The small floats are computed as float and rounded after each step.  AVG multiplies each input by 1/ranks
 * for floating point, and divides the sum for integers, as NCCL does. */
#ifndef EMULATION_NCCL_REDUCE_H
#define EMULATION_NCCL_REDUCE_H
#include <nccl.h>
#include <stddef.h>
#include <stdint.h>

typedef union factor_bits { /* bits of one element; the first bytes count */
    uint64_t bits;
    char bytes[8];
} factor_bits;

typedef struct reduction {
    enum { REDUCE_SUM, REDUCE_PROD, REDUCE_MAX, REDUCE_MIN, REDUCE_AVG, REDUCE_PREMUL } kind;
    int type;
    int ranks;          /* for AVG */
    factor_bits factor; /* for PREMUL, unless: */
    const void *where;  /* device memory that the kernel reads it from */
} reduction;

const char *reduce_name(int kind);
void reduce_begin(reduction *how); /* in the kernel: reads the factor, works out that of AVG */
void reduce_load(const reduction *how, void *out, const void *own,
                 size_t count); /* this rank's contribution */
void reduce_add(const reduction *how, void *sum, const void *own, size_t count); /* sum = own op sum */
void reduce_end(const reduction *how, void *sum, size_t count);
#endif
