#include "biased.h"
#include "clock.h"
#include "lock.h"

#define SPINS      100 /* tries before sleeping: about the length of one progress pass on small messages */
#define KEEP_AFTER 128 /* times in a row: what taking it back costs is saved in as many */

WEFT__THREAD_WORD uint32_t weft__thread_number;

static bool change(weft__biased *lock, uint32_t word, weft__biased_state to)
{
    return atomic_compare_exchange_strong_explicit(&lock->word, &word,
                                                   (word & ~WEFT__LOCK_STATE) | (uint32_t)to,
                                                   memory_order_seq_cst, memory_order_seq_cst);
}

/* Whoever asks has left something to be seen, and goes away if this finds a holder, who will check: so it must
 * not come before what was left is there.  A relaxed load might, on processors that let loads pass stores. */
static uint32_t biased_look(const weft__biased *lock)
{
    return atomic_load_explicit(&lock->word, memory_order_seq_cst);
}

/* Only one of those that want it gets so far.  False: the keeper is inside, or leaves just now, and will see
 * that somebody was here. */
static bool revoke(weft__biased *lock, uint32_t word)
{
    if (!change(lock, word, WEFT__LOCK_REVOKED)) return false;
    weft__fence_threads(&lock->fence);
    if (atomic_load_explicit(&lock->inside, memory_order_acquire)) return false;
    /* As if somebody slept: others may, on the word as it was. */
    return change(lock, (word & ~WEFT__LOCK_STATE) | WEFT__LOCK_REVOKED, WEFT__LOCK_HELD_WANTED);
}

/* A keeper that comes in vain goes on like anybody: whoever has asked in vain while it came counts on it. */
bool weft__biased_try_slow(weft__biased *lock)
{
    uint32_t word;
    if (weft__biased_is_keeper(lock)) weft__biased_leave_slow(lock);
    word = biased_look(lock);
    switch ((weft__biased_state)(word & WEFT__LOCK_STATE)) {
    case WEFT__LOCK_FREE: return change(lock, word, WEFT__LOCK_HELD);
    case WEFT__LOCK_KEPT: return revoke(lock, word);
    case WEFT__LOCK_HELD:
    case WEFT__LOCK_HELD_WANTED:
    case WEFT__LOCK_REVOKED: break;
    }
    return false;
}

/* Returns true with the lock, or false to try again. */
static bool take_or_sleep(weft__biased *lock)
{
    uint32_t word = biased_look(lock);
    switch ((weft__biased_state)(word & WEFT__LOCK_STATE)) {
    case WEFT__LOCK_FREE: return change(lock, word, WEFT__LOCK_HELD_WANTED); /* others may sleep */
    case WEFT__LOCK_HELD: change(lock, word, WEFT__LOCK_HELD_WANTED); return false;
    case WEFT__LOCK_KEPT: return revoke(lock, word);
    case WEFT__LOCK_HELD_WANTED:
    case WEFT__LOCK_REVOKED: weft__sleep_on(&lock->word, word, WEFT__NEVER); break;
    }
    return false;
}

void weft__biased_take_slow(weft__biased *lock)
{
    for (int i = 0; i < SPINS; i++) {
        if (weft__biased_try(lock)) return;
        weft__pause();
    }
    while (!take_or_sleep(lock)) {
    }
}

/* The keeper is not inside any more, or has not come in, because somebody wants it. */
void weft__biased_leave_slow(weft__biased *lock)
{
    uint32_t word;
    atomic_store_explicit(&lock->inside, 0, memory_order_release);
    word = biased_look(lock);
    if ((word & WEFT__LOCK_STATE) == WEFT__LOCK_REVOKED && change(lock, word, WEFT__LOCK_FREE))
        weft__wake_one(&lock->word);
}

/* Counts this time; true: the thread may keep the lock.  Held. */
static bool earns(weft__biased *lock)
{
    static _Atomic uint32_t numbers;
    uint32_t keeper = atomic_load_explicit(&lock->keeper, memory_order_relaxed);
    if (!lock->keeps) return false;
    if (!weft__thread_number)
        weft__thread_number = 1 + atomic_fetch_add_explicit(&numbers, 1, memory_order_relaxed);
    if (lock->last != weft__thread_number) {
        lock->last = weft__thread_number;
        lock->streak = 0;
    }
    if (lock->streak < KEEP_AFTER) lock->streak++;
    if (lock->streak < KEEP_AFTER || weft__thread_number == WEFT__KEEPS_NOTHING) return false;
    if (!keeper) atomic_store_explicit(&lock->keeper, weft__thread_number, memory_order_relaxed);
    return !keeper || keeper == weft__thread_number;
}

void weft__biased_drop_slow(weft__biased *lock)
{
    bool keeps = earns(lock);
    uint32_t word = biased_look(lock), version = word & ~WEFT__LOCK_STATE;
    if (keeps && word == (version | WEFT__LOCK_HELD)) {
        uint32_t kept = (version + WEFT__LOCK_STATE + 1) | WEFT__LOCK_KEPT;
        lock->streak = 0;
        if (atomic_compare_exchange_strong_explicit(&lock->word, &word, kept, memory_order_seq_cst,
                                                    memory_order_relaxed))
            return;
    }
    word = atomic_exchange_explicit(&lock->word, version | WEFT__LOCK_FREE, memory_order_seq_cst);
    if ((word & WEFT__LOCK_STATE) == WEFT__LOCK_HELD_WANTED) weft__wake_one(&lock->word);
}
