/* fence.h - ordering a store before a load of another word where one side does it often and the other rarely.
 *
 *     often:   store A; light fence; load B          rarely:  store B; heavy fence; load A
 *
 * At least one of the two sees what the other stored.  The light fence is none for the processor: the heavy
 * one makes every thread that runs execute a barrier of its own, wherever it is just then (membarrier(2),
 * expedited).  Where the kernel does not do that, or another rank's does not, light is a whole fence. */
#ifndef WEFT_BASE_FENCE_H
#define WEFT_BASE_FENCE_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* A whole one.  Thread sanitizer understands no fences: there it is an exchange. */
static inline void weft__fence(void)
{
#if defined(__SANITIZE_THREAD__)
    static _Atomic uint32_t all;
    atomic_fetch_add_explicit(&all, 1, memory_order_seq_cst);
#else
    atomic_thread_fence(memory_order_seq_cst);
#endif
}

/* cheap: the other side's fence is a heavy one, and reaches this thread. */
static inline void weft__fence_light(bool cheap)
{
    if (cheap)
        atomic_signal_fence(memory_order_seq_cst);
    else
        weft__fence();
}

/* Makes this process's threads reachable; false: light fences must be whole ones.  Any number of times. */
bool weft__fence_open(void);
void weft__fence_threads(void); /* heavy: for this process's threads */
void weft__fence_ranks(void);   /* heavy: for all processes that have opened.  0.5 to 3 us */
#endif
