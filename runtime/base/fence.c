#include "fence.h"
#include "clock.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TRIES 1000 /* as long as the kernel has no memory for it, which passes */

static bool fence_ask(int command)
{
    return syscall(SYS_membarrier, command, 0, 0) == 0;
}

weft__fence_kind weft__fence_open(void)
{
    static _Atomic bool opened;
    bool done = atomic_load_explicit(&opened, memory_order_relaxed);
    if (!done) {
        done = fence_ask(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) &&
               fence_ask(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED);
        atomic_store_explicit(&opened, done, memory_order_relaxed);
    }
    return done ? WEFT__FENCE_HEAVY : WEFT__FENCE_WHOLE;
}

static bool reach(int command)
{
    for (int i = 0; i < TRIES; i++) {
        if (fence_ask(command)) return true;
        if (errno != ENOMEM) break;
        sched_yield();
    }
    return false;
}

/* By the clock, as a filter may refuse sleeping too. */
static void fence_settle(void)
{
    int64_t until_ns = weft__now_ns() + WEFT__FENCE_SETTLE_MS * WEFT__MS;
    while (weft__now_ns() < until_ns) sched_yield();
}

/* Also where another thread is at it: that one may have just begun. */
static void give_up(_Atomic uint32_t *kind)
{
    atomic_store_explicit(kind, WEFT__FENCE_SETTLING, memory_order_seq_cst);
    fence_settle();
    weft__fence();
    atomic_store_explicit(kind, WEFT__FENCE_WHOLE, memory_order_release);
}

static void heavy(int command, _Atomic uint32_t *kind)
{
    uint32_t now = atomic_load_explicit(kind, memory_order_acquire);
    if (now == WEFT__FENCE_WHOLE)
        weft__fence();
    else if (now == WEFT__FENCE_SETTLING || !reach(command))
        give_up(kind);
}

void weft__fence_threads(_Atomic uint32_t *kind)
{
    heavy(MEMBARRIER_CMD_PRIVATE_EXPEDITED, kind);
}

void weft__fence_ranks(_Atomic uint32_t *kind)
{
    heavy(MEMBARRIER_CMD_GLOBAL_EXPEDITED, kind);
}
