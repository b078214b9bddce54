/* litmus.h - litmus tests: two sides meet, each does its few instructions at the same moment, and what both
 * saw is judged; millions of times.  A missing fence shows as an outcome that its order forbids.
 *
 * They end by the clock: after LITMUS_MS milliseconds (an environment variable; 1500 if it is not set), so a
 * busy machine makes fewer rounds and no failure.  A fence that is missing shows within some seconds where
 * the two sides have a processor each and the machine is quiet; LITMUS_MS=50000 is for looking longer,
 * without ctest, whose limit of time is for the default.
 * Where there is only one processor to run on they pass whatever is missing. */
#ifndef TESTS_SUPPORT_LITMUS_H
#define TESTS_SUPPORT_LITMUS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define LITMUS_LINE 128

typedef struct litmus {
    struct litmus_arrival {
        _Alignas(LITMUS_LINE) _Atomic uint64_t round;
    } arrival[2];
    _Alignas(LITMUS_LINE) _Atomic uint64_t last; /* the last round; UINT64_MAX while that is open */
    _Atomic uint64_t wrong;                      /* outcomes that must not be */
    int64_t until_ns;
    void *shared; /* litmus_share; between both sides */
} litmus;

typedef void litmus_side(litmus *l, int who);

typedef enum litmus_place { LITMUS_THREADS, LITMUS_PROCESSES } litmus_place;

/* Memory that processes forked from now on share, all 0. */
void *litmus_share(unsigned long bytes);

/* Both sides, each on a processor of its own if it can be: as threads, or as processes forked here.  Returns
 * how many outcomes were wrong; says how many rounds there were.  Asserts that both came to their end. */
uint64_t litmus_run(const char *name, litmus_place place, void *shared, litmus_side *zero, litmus_side *one);

/* Waits until both sides have come to this round (from 1).  False: it is over. */
bool litmus_meet(litmus *l, int who, uint64_t round);

/* A short while, another one each time: so that the two sides meet at every distance. */
void litmus_stagger(unsigned *seed);

static inline void litmus_wrong(litmus *l)
{
    atomic_fetch_add_explicit(&l->wrong, 1, memory_order_relaxed);
}

/* From now on membarrier(2) fails with this error for this thread and what it starts, as under a filter that
 * a program installs.  Ends the process where that cannot be had: litmus_need_filters
 * skips the test there. */
void litmus_refuse_membarrier(int error);
void litmus_need_filters(void);
#endif
