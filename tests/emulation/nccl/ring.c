/* ring.c - the two counters only grow; what lies between them is on its way. */
#include "ring.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { LOOKS = 8 }; /* at a bell, giving up the core between them, before sleeping */

size_t ring_filled(ring *r)
{
    return (size_t)(atomic_load_explicit(&r->written, memory_order_acquire) -
                    atomic_load_explicit(&r->read, memory_order_relaxed));
}

size_t ring_room(ring *r)
{
    return r->bytes - (size_t)(atomic_load_explicit(&r->written, memory_order_relaxed) -
                               atomic_load_explicit(&r->read, memory_order_acquire));
}

size_t ring_write(ring *r, const void *from, size_t bytes)
{
    uint64_t written = atomic_load_explicit(&r->written, memory_order_relaxed);
    size_t room = ring_room(r);
    size_t n = bytes < room ? bytes : room;
    size_t at = (size_t)(written % r->bytes);
    size_t first = n < r->bytes - at ? n : r->bytes - at;

    if (!n) return 0;
    memcpy(r->data + at, from, first);
    memcpy(r->data, (const char *)from + first, n - first);
    atomic_store_explicit(&r->written, written + n, memory_order_release);
    return n;
}

size_t ring_read(ring *r, void *to, size_t bytes)
{
    uint64_t read = atomic_load_explicit(&r->read, memory_order_relaxed);
    size_t filled = ring_filled(r);
    size_t n = bytes < filled ? bytes : filled;
    size_t at = (size_t)(read % r->bytes);
    size_t first = n < r->bytes - at ? n : r->bytes - at;

    if (!n) return 0;
    memcpy(to, r->data + at, first);
    memcpy((char *)to + first, r->data, n - first);
    atomic_store_explicit(&r->read, read + n, memory_order_release);
    return n;
}

static long futex(_Atomic uint32_t *word, int what, uint32_t value, const struct timespec *limit)
{
    return syscall(SYS_futex, word, what, value, limit, NULL, 0);
}

/* The stroke comes before the look at who sleeps, and a sleeper counts itself before it looks for strokes:
 * one of them sees the other. */
void bell_strike(bell *b)
{
    atomic_fetch_add(&b->strokes, 1);
    if (atomic_load(&b->sleepers)) futex(&b->strokes, FUTEX_WAKE, INT_MAX, NULL);
}

uint32_t bell_strokes(bell *b)
{
    return atomic_load(&b->strokes);
}

void bell_wait(bell *b, uint32_t seen, int ms)
{
    struct timespec limit = {ms / 1000, (long)(ms % 1000) * 1000000};

    for (int i = 0; i < LOOKS; i++) {
        if (bell_strokes(b) != seen) return;
        sched_yield();
    }
    atomic_fetch_add(&b->sleepers, 1);
    if (bell_strokes(b) == seen) futex(&b->strokes, FUTEX_WAIT, seen, &limit);
    atomic_fetch_sub(&b->sleepers, 1);
}
