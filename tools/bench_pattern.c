/* bench_pattern.c - see bench_pattern.h. */
#include "bench_pattern.h"

#include <stdlib.h>
#include <string.h>

static oracle oracle_of(const struct bench_pattern *p, int seed)
{
    return (oracle){.dtype = p->dtype, .op = p->op, .seed = (uint64_t)seed + 1, .ranks = p->ranks};
}

static unsigned char *period_of(const struct bench_pattern *p, int seed, int rank)
{
    size_t row = (size_t)seed * (size_t)p->ranks + (size_t)rank;
    return p->periods + row * BENCH_PERIOD * p->element;
}

static unsigned char *reduced_of(const struct bench_pattern *p, int seed)
{
    return p->reduced + (size_t)seed * BENCH_PERIOD * p->element;
}

bool bench_pattern_make(struct bench_pattern *p, weft_dtype dtype, weft_op op, int ranks)
{
    size_t period;
    *p = (struct bench_pattern){.dtype = dtype, .op = op, .ranks = ranks, .element = weft_dtype_size(dtype)};
    period = BENCH_PERIOD * p->element;
    p->periods = malloc(BENCH_SEEDS * (size_t)ranks * period);
    p->reduced = malloc(BENCH_SEEDS * period);
    if (!p->periods || !p->reduced) {
        bench_pattern_free(p);
        return false;
    }
    for (int seed = 0; seed < BENCH_SEEDS; seed++) {
        oracle o = oracle_of(p, seed);
        for (int rank = 0; rank < ranks; rank++)
            oracle_fill(&o, rank, 0, BENCH_PERIOD, period_of(p, seed, rank));
    }
    return true;
}

void bench_pattern_free(struct bench_pattern *p)
{
    free(p->periods);
    free(p->reduced);
    p->periods = p->reduced = NULL;
}

/* Elements from `at` within a period, at most n. */
static size_t piece(size_t at, size_t n)
{
    return BENCH_PERIOD - at < n ? BENCH_PERIOD - at : n;
}

void bench_pattern_fill(const struct bench_pattern *p, int seed, int rank, size_t first, size_t n, void *buf)
{
    const unsigned char *period = period_of(p, seed, rank);
    unsigned char *to = buf;
    size_t at = first % BENCH_PERIOD;
    while (n > 0) {
        size_t now = piece(at, n);
        memcpy(to, period + at * p->element, now * p->element);
        to += now * p->element;
        n -= now;
        at = 0;
    }
}

/* Within a period, one by one. */
static size_t wrong_elements(const struct bench_pattern *p, int seed, int rank, size_t at, size_t n,
                             const unsigned char *buf)
{
    oracle o = oracle_of(p, seed);
    size_t wrong = 0;
    for (size_t i = 0; i < n; i++, wrong++) {
        const unsigned char *rest = buf + i * p->element;
        i += rank == BENCH_REDUCED ? oracle_reduction_differs(&o, at + i, n - i, rest)
                                   : oracle_differs(&o, rank, at + i, n - i, rest);
        if (i >= n) break;
    }
    return wrong;
}

/* The first whole period that the oracle accepts stands for those that follow.  AVG may round in several
 * ways: what differs from it is put before the oracle again. */
static size_t wrong_in_period(struct bench_pattern *p, int seed, int rank, size_t at, size_t n,
                              const unsigned char *buf)
{
    bool reduced = rank == BENCH_REDUCED, known = !reduced || p->reduced_known[seed];
    const unsigned char *right = reduced ? reduced_of(p, seed) : period_of(p, seed, rank);
    size_t wrong;
    if (known && !memcmp(right + at * p->element, buf, n * p->element)) return 0;
    wrong = wrong_elements(p, seed, rank, at, n, buf);
    if (!known && !wrong && n == BENCH_PERIOD) {
        memcpy(reduced_of(p, seed), buf, n * p->element);
        p->reduced_known[seed] = true;
    }
    return wrong;
}

size_t bench_pattern_wrong(struct bench_pattern *p, int seed, int rank, size_t first, size_t n,
                           const void *buf)
{
    const unsigned char *from = buf;
    size_t at = first % BENCH_PERIOD, wrong = 0;
    while (n > 0) {
        size_t now = piece(at, n);
        wrong += wrong_in_period(p, seed, rank, at, now, from);
        from += now * p->element;
        n -= now;
        at = 0;
    }
    return wrong;
}
