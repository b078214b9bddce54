/* ticker.h - CLOCK_MONOTONIC by the processor's counter, for less than half of what asking costs.
 *
 * Every 100 us both are read together, and in between the ticks since then are added at the rate of the last
 * second.  So it follows the clock, whatever is done to its pace, and is some ten nanoseconds off: less than
 * a call takes, so that who reads the clock before and after one finds its times in between. Where the kernel
 * does not keep its own time by that counter, each reading asks the clock. */
#ifndef WEFT_BASE_TICKER_H
#define WEFT_BASE_TICKER_H
#include "check.h"

#include <stdbool.h>
#include <stdint.h>

#define WEFT__TICKER_FRACTION 32 /* bits of `rate` behind the point */

/* One thread at a time. */
typedef struct weft__ticker {
    uint64_t ticks; /* when both were read, */
    int64_t ns;     /* and what the clock said */
    uint64_t span;  /* ticks for which that is good; 0: not at all */
    uint64_t rate;  /* nanoseconds a tick, as a fixed point number; 0: not known yet */
    uint64_t base_ticks;
    int64_t base_ns; /* an earlier reading, that the rate is measured from; 0: none yet */
    bool usable;
} weft__ticker;

void weft__ticker_open(weft__ticker *ticker);
int64_t weft__ticker_read(weft__ticker *ticker); /* both */

/* Reads the counter of the thread's processor; they all agree where the kernel counts by them. */
static inline uint64_t weft__ticks(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc(); /* x86intrin.h, which has it as __rdtsc, is 70,000 lines for each file to read */
#else
    return 0;
#endif
}

/* Now.  A counter that went back is as far away as one that ran too long. */
static inline int64_t weft__ticker_now(weft__ticker *ticker)
{
    uint64_t since = weft__ticks() - ticker->ticks;
    if (WEFT__UNLIKELY(since >= ticker->span)) return weft__ticker_read(ticker);
    return ticker->ns + (int64_t)(since * ticker->rate >> WEFT__TICKER_FRACTION);
}
#endif
