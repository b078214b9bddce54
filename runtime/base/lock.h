/* lock.h - a small futex mutex whose try is one compare-and-swap, and sleeping on a word.
 * Unfair on purpose: whoever is running should get it, a sleeper costs a wake-up. */
#ifndef WEFT_BASE_LOCK_H
#define WEFT_BASE_LOCK_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct weft__lock {
    _Atomic uint32_t word; /* 0 free, 1 held, 2 held and somebody sleeps */
} weft__lock;

static inline bool weft__try_lock(weft__lock *lock)
{
    uint32_t free = 0;
    return atomic_load_explicit(&lock->word, memory_order_relaxed) == 0 &&
           atomic_compare_exchange_strong_explicit(&lock->word, &free, 1, memory_order_acquire,
                                                   memory_order_relaxed);
}
void weft__lock_slow(weft__lock *lock);
void weft__wake_one(_Atomic uint32_t *word);
void weft__wake_all(_Atomic uint32_t *word);

static inline void weft__lock_take(weft__lock *lock)
{
    if (!weft__try_lock(lock)) weft__lock_slow(lock);
}

static inline void weft__lock_drop(weft__lock *lock)
{
    if (atomic_exchange_explicit(&lock->word, 0, memory_order_seq_cst) == 2) weft__wake_one(&lock->word);
}

/* Sleep while *word == value, at most until the deadline.  Returns on any wake-up: check again. */
void weft__sleep_on(_Atomic uint32_t *word, uint32_t value, int64_t deadline_ns);

static inline void weft__pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}
#endif
