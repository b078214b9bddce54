/* exec_watch.h - ranks of this host that have become another program.  Over TCP their connections end; where memory is
 * shared no descriptor tells of an exec, so whoever waits for something asks the kernel for them. */
#ifndef WEFT_RUNTIME_EXEC_WATCH_H
#define WEFT_RUNTIME_EXEC_WATCH_H
#include "alarm.h"
#include "clock.h"
#include "context.h"

#define WEFT__EXEC_WATCH_NS (40 * WEFT__MS) /* one turn after the other, while something is under way */

/* Something is under way, and a thread is about to sleep: they are asked for soon.  Any thread. */
static inline void weft__exec_watch_await(weft_context *ctx, int64_t now_ns)
{
    const int64_t at = now_ns + WEFT__EXEC_WATCH_NS;
    if (ctx->segment && at < atomic_load_explicit(&ctx->check_ns, memory_order_relaxed))
        weft__alarm_check(ctx, at);
}
/* Asks for some of them, and those are gone; returns when it wants to be called again.  Engine held. */
int64_t weft__exec_watch_check(weft_context *ctx, int64_t now_ns);
#endif
