/* oracle.h - what the elements of a test or a measurement are, and what their reduction must be.
 *
 * Element i of rank r under a seed is a pure function of the three, so nobody has to keep or send what is
 * expected.  Operands are chosen so that every intermediate result is exact in the type, in any order and
 * any grouping; only AVG may round (by one unit in the last place).  Integers use their whole range. */
#ifndef WEFT_TOOLS_ORACLE_H
#define WEFT_TOOLS_ORACLE_H

#include "weft/weft.h"

enum { DTYPES = WEFT_BOOL + 1, OPS = WEFT_PREMUL_SUM + 1 };

typedef struct oracle {
    weft_dtype dtype;
    weft_op op; /* bounds the operands; data that is only moved takes WEFT_MAX */
    uint64_t seed;
    int ranks;          /* that take part in a reduction */
    bool divides_first; /* AVG: every operand is divided, and rounded, before it is added (as NCCL does) */
} oracle;

bool oracle_supports(weft_dtype dtype, weft_op op); /* the table above weft_op, host column */
double oracle_scale(int rank);                      /* of PREMUL_SUM */

/* Writes elements first .. first + n - 1 of `rank`. */
void oracle_fill(const oracle *o, int rank, size_t first, size_t n, void *buf);
/* Index of the first element of buf that is not rank's element first + index; n if there is none. */
size_t oracle_differs(const oracle *o, int rank, size_t first, size_t n, const void *buf);
/* Index of the first element that is not the reduction's over all ranks; n if there is none. */
size_t oracle_reduction_differs(const oracle *o, size_t first, size_t n, const void *buf);

/* One floating-point number of any width, for values that the type holds exactly. */
void oracle_encode(weft_dtype dtype, double value, void *element);
double oracle_decode(weft_dtype dtype, const void *element);

#endif
