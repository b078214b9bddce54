/* fence.h - ordering a store before a load of another word where one side does it often and the other rarely.
 *
 *     often:   store A; light fence; load B          rarely:  store B; heavy fence; load A
 *
 * At least one of the two sees what the other stored.  The light fence is none for the processor: the heavy
 * one makes every thread that runs execute a barrier of its own, wherever it is just then (membarrier(2),
 * expedited).  Where the kernel does not do that, or another rank's does not, light is a whole fence.
 *
 * Which it is, a word tells that both sides see.  The kernel may refuse the barrier later on, where a program
 * has installed a filter of system calls: then the heavy side changes the word, and waits once until light
 * sides that read it before have come to see.  They need not answer, as they may not come again for hours:
 * a light side stores, then reads the word, then loads.  A processor holds such a store back for less than a
 * microsecond, and for no longer than until its next interrupt; after ten thousand times as long it is there
 * to be seen, or had not been made and what it is followed by finds the other side's store. */
#ifndef WEFT_BASE_FENCE_H
#define WEFT_BASE_FENCE_H
#include "check.h"

#include <stdatomic.h>
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

/* What was loaded before it was loaded before what is loaded after it.  The thread sanitizer is none the worse
 * without: there all atomic loads keep their order. */
static inline void weft__fence_loads(void)
{
#if !defined(__SANITIZE_THREAD__)
    atomic_thread_fence(memory_order_acquire);
#endif
}

/* What the rare side's fence is, in a word that the often one reads. */
typedef enum weft__fence_kind {
    WEFT__FENCE_WHOLE,   /* an ordinary one: so must the other side's be */
    WEFT__FENCE_HEAVY,   /* reaches the other side, whose fence may be light */
    WEFT__FENCE_SETTLING /* was heavy until a moment ago */
} weft__fence_kind;

#define WEFT__FENCE_SETTLE_MS 10 /* until what was stored before is there to be seen */

/* For a thread of a process that has opened. */
static inline void weft__fence_light(const _Atomic uint32_t *kind)
{
    atomic_signal_fence(memory_order_seq_cst); /* the word is read behind the store, and before the load */
    if (WEFT__UNLIKELY(atomic_load_explicit(kind, memory_order_relaxed) != WEFT__FENCE_HEAVY)) weft__fence();
    atomic_signal_fence(memory_order_seq_cst);
}

/* Makes this process's threads reachable; WHOLE where the kernel does not do it.  Any number of times. */
weft__fence_kind weft__fence_open(void);
/* Heavy, as far as the word says so; changes that when the kernel refuses. */
void weft__fence_threads(_Atomic uint32_t *kind); /* for this process's threads */
void weft__fence_ranks(_Atomic uint32_t *kind);   /* for all processes that have opened.  0.5 to 3 us */
#endif
