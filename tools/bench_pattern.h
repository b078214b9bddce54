/* bench_pattern.h - the elements that weft-bench sends, and whether those that arrive are right.
 *
 * Element i of a rank is the oracle's element i modulo BENCH_PERIOD, a prime, so that a block that lands in a
 * wrong place is seen.  A period is made once; filling and checking are then copies and comparisons of whole
 * periods, as fast as memory.  There are BENCH_SEEDS sets of elements: whoever alternates between them sees a
 * result that is left from before. */
#ifndef WEFT_TOOLS_BENCH_PATTERN_H
#define WEFT_TOOLS_BENCH_PATTERN_H
#include "oracle.h"

#include <stdbool.h>

enum { BENCH_PERIOD = 1021, BENCH_SEEDS = 2, BENCH_REDUCED = -1 };

struct bench_pattern {
    weft_dtype dtype;
    weft_op op;
    int ranks;
    size_t element;         /* bytes */
    unsigned char *periods; /* [seed][rank][element] */
    unsigned char *reduced; /* [seed][element]: what the oracle has found right */
    bool reduced_known[BENCH_SEEDS];
};

/* Elements for `op`; WEFT_MAX for those that are only moved.  False: no memory. */
bool bench_pattern_make(struct bench_pattern *p, weft_dtype dtype, weft_op op, int ranks);
void bench_pattern_free(struct bench_pattern *p);

/* Writes elements first .. first + n - 1 of `rank`. */
void bench_pattern_fill(const struct bench_pattern *p, int seed, int rank, size_t first, size_t n, void *buf);
/* How many elements of buf are not those of `rank`, or of the reduction over all ranks (BENCH_REDUCED). */
size_t bench_pattern_wrong(struct bench_pattern *p, int seed, int rank, size_t first, size_t n,
                           const void *buf);
#endif
