/* descriptor.c - a bit per descriptor, which any thread may set and the child of fork reads: what it finds is
 * whole at any moment that another thread was caught in. */
#include "descriptor.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <unistd.h>

#define LOOKED_AFTER 65536 /* descriptors below; a process that has more keeps the rest in its children */

static _Atomic uint64_t owned[LOOKED_AFTER / 64];

static void close_in_child(void)
{
    for (int i = 0; i < LOOKED_AFTER / 64; i++) {
        uint64_t bits = atomic_load_explicit(&owned[i], memory_order_relaxed);
        atomic_store_explicit(&owned[i], 0, memory_order_relaxed);
        for (; bits; bits &= bits - 1) close(i * 64 + __builtin_ctzll(bits));
    }
}

static void watch_fork(void)
{
    pthread_atfork(NULL, NULL, close_in_child);
}

void weft__descriptor_own(int fd)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_fork);
    if (fd < 0 || fd >= LOOKED_AFTER) return;
    atomic_fetch_or_explicit(&owned[fd / 64], UINT64_C(1) << fd % 64, memory_order_relaxed);
}

void weft__descriptor_disown(int fd)
{
    if (fd < 0 || fd >= LOOKED_AFTER) return;
    atomic_fetch_and_explicit(&owned[fd / 64], ~(UINT64_C(1) << fd % 64), memory_order_relaxed);
}
