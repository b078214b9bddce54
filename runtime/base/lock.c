#include "lock.h"
#include "clock.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOCK_SPINS 100 /* tries before sleeping: about the length of one progress pass on small messages */

void weft__lock_slow(weft__lock *lock)
{
    for (int i = 0; i < LOCK_SPINS; i++) {
        if (weft__try_lock(lock)) return;
        weft__pause();
    }
    while (atomic_exchange_explicit(&lock->word, 2, memory_order_acquire) != 0)
        weft__sleep_on(&lock->word, 2, WEFT__NEVER);
}

void weft__wake_one(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void weft__sleep_on(_Atomic uint32_t *word, uint32_t value, int64_t deadline_ns)
{
    struct timespec at = {(time_t)(deadline_ns / 1000000000), (long)(deadline_ns % 1000000000)};
    /* BITSET is the form whose time is absolute. */
    syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, value, deadline_ns == WEFT__NEVER ? NULL : &at, NULL,
            FUTEX_BITSET_MATCH_ANY);
}

void weft__wake_all(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}
