/* exec_watch.h - ranks of this host that have become another program.  Over TCP their connections end; where memory is
 * shared no descriptor tells of an exec, so while somebody waits for something the watchdog asks the kernel for them
 * (exec_asking.h). */
#ifndef WEFT_RUNTIME_EXEC_WATCH_H
#define WEFT_RUNTIME_EXEC_WATCH_H
#include "alarm.h"
#include "clock.h"
#include "context.h"

#define WEFT__EXEC_WATCH_NS (40 * WEFT__MS) /* one turn after the other, while something is under way */

/* Something is under way, and a thread is about to sleep: they are asked for soon.  Any thread. */
static inline void weft__exec_watch_await(weft_context *ctx, int64_t now_ns)
{
    int64_t none = 0;
    if (!ctx->segment || atomic_load_explicit(&ctx->execs_at_ns, memory_order_relaxed)) return;
    if (atomic_compare_exchange_strong(&ctx->execs_at_ns, &none, now_ns + WEFT__EXEC_WATCH_NS))
        weft__alarm_wake();
}
#endif
