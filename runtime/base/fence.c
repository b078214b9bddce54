#include "fence.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Atomic bool opened;

static bool ask(int command)
{
    return syscall(SYS_membarrier, command, 0, 0) == 0;
}

bool weft__fence_open(void)
{
    bool done = atomic_load_explicit(&opened, memory_order_relaxed);
    if (!done) {
        done =
            ask(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) && ask(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED);
        atomic_store_explicit(&opened, done, memory_order_relaxed);
    }
    return done;
}

/* Once registered it can only fail for want of memory, in the kernel, for a moment. */
static void heavy(int command)
{
    if (!atomic_load_explicit(&opened, memory_order_relaxed)) {
        weft__fence();
        return;
    }
    while (!ask(command) && errno == ENOMEM) sched_yield();
}

void weft__fence_threads(void)
{
    heavy(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

void weft__fence_ranks(void)
{
    heavy(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
}
