/* biased.h - a lock that one thread keeps between its uses, so that taking it costs that thread no locked
 * instruction; another thread that wants it takes it back with a heavy fence (fence.h) and uses it like any
 * lock.
 *
 *   FREE <-> HELD [<-> HELD_WANTED]     as of a mutex on a futex
 *   HELD -> KEPT                        dropped by its keeper, who has not been disturbed for a while
 *   KEPT -> REVOKED                     somebody else wants it: it lets the keeper's view settle by a heavy
 *                                       fence, and takes it (HELD) if the keeper is not inside
 *   REVOKED -> FREE                     by the keeper as it leaves, if it was
 *
 * The keeper is the first thread that earned it, for good: `inside` has one writer then.  "Biased locking",
 * as in Kawachiya, Koseki and Onodera, "Lock reservation" (OOPSLA 2002), with the kernel's barrier in place
 * of stopping the owner. */
#ifndef WEFT_BASE_BIASED_H
#define WEFT_BASE_BIASED_H
#include "check.h"
#include "fence.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef enum weft__biased_state {
    WEFT__LOCK_FREE,
    WEFT__LOCK_HELD,
    WEFT__LOCK_HELD_WANTED, /* and somebody sleeps */
    WEFT__LOCK_KEPT,
    WEFT__LOCK_REVOKED
} weft__biased_state;

#define WEFT__LOCK_STATE 7u /* the bits of the state; above, how often it was kept: against ABA */

typedef struct weft__biased {
    _Atomic uint32_t word;   /* futex */
    _Atomic uint32_t keeper; /* a thread's number; 0: none has earned it */
    _Atomic uint32_t inside; /* the keeper is, by its keeping.  It alone writes it */
    uint32_t last, streak;   /* holder: who earned last, how often in a row */
    _Atomic uint32_t fence;  /* weft__fence_kind of whoever takes it back */
    bool keeps;              /* it pays: set where that kind is heavy, which it may not stay */
} weft__biased;

/* This thread's number, never given twice; 0: it has none yet. */
extern WEFT__THREAD_WORD uint32_t weft__thread_number;
#define WEFT__KEEPS_NOTHING UINT32_MAX /* the number of threads that must never be keepers */

bool weft__biased_try_slow(weft__biased *lock);
void weft__biased_take_slow(weft__biased *lock);
void weft__biased_drop_slow(weft__biased *lock);
void weft__biased_leave_slow(weft__biased *lock);

static inline weft__biased_state weft__biased_state_of(const weft__biased *lock)
{
    return (weft__biased_state)(atomic_load_explicit(&lock->word, memory_order_acquire) & WEFT__LOCK_STATE);
}

static inline bool weft__biased_is_keeper(const weft__biased *lock)
{
    uint32_t self = weft__thread_number;
    return self && atomic_load_explicit(&lock->keeper, memory_order_relaxed) == self;
}

/* The keeper's way in.  False: weft__biased_try_slow goes on. */
static inline bool weft__biased_enter(weft__biased *lock)
{
    if (WEFT__UNLIKELY(!weft__biased_is_keeper(lock))) return false;
    atomic_store_explicit(&lock->inside, 1, memory_order_relaxed);
    weft__fence_light(&lock->fence);
    return WEFT__LIKELY(weft__biased_state_of(lock) == WEFT__LOCK_KEPT);
}

static inline bool weft__biased_try(weft__biased *lock)
{
    return weft__biased_enter(lock) || weft__biased_try_slow(lock);
}

static inline void weft__biased_take(weft__biased *lock)
{
    if (!weft__biased_try(lock)) weft__biased_take_slow(lock);
}

/* For its holder: by its keeping? */
static inline bool weft__biased_is_inside(const weft__biased *lock)
{
    return weft__biased_is_keeper(lock) && atomic_load_explicit(&lock->inside, memory_order_relaxed);
}

/* For its holder: by its keeping, and not disturbed? */
static inline bool weft__biased_is_kept(const weft__biased *lock)
{
    return weft__biased_state_of(lock) == WEFT__LOCK_KEPT;
}

/* The keeper's drop, from inside.  False: weft__biased_leave_slow has the rest to do. */
static inline bool weft__biased_leave(weft__biased *lock)
{
    atomic_store_explicit(&lock->inside, 0, memory_order_release);
    weft__fence_light(&lock->fence);
    return WEFT__LIKELY(weft__biased_state_of(lock) == WEFT__LOCK_KEPT);
}

/* Whoever asked for it in vain has been here before: what it left to be seen is seen behind this. */
static inline void weft__biased_drop(weft__biased *lock)
{
    if (WEFT__UNLIKELY(!weft__biased_is_inside(lock)))
        weft__biased_drop_slow(lock);
    else if (!weft__biased_leave(lock))
        weft__biased_leave_slow(lock);
}

/* Does somebody sleep until it is dropped?  For its holder. */
static inline bool weft__biased_wanted(const weft__biased *lock)
{
    weft__biased_state state = weft__biased_state_of(lock);
    return state == WEFT__LOCK_HELD_WANTED || state == WEFT__LOCK_REVOKED;
}
#endif
