/* linger.c - see linger.h.
 *
 * Fails: nothing. */
#include "linger.h"
#include "clock.h"
#include "engine.h"

#define LEAST_US 1000
#define MOST_US  20000 /* a wake-up costs some 10 us: less than a thousandth of a processor */

void weft__linger(weft_context *ctx, weft__module *module)
{
    if (!module->backend->lingers) return;
    atomic_store_explicit(&module->lingers, true, memory_order_relaxed);
    if (atomic_load_explicit(&ctx->linger_us, memory_order_relaxed) == LEAST_US)
        return; /* as after the last one */
    if (atomic_exchange_explicit(&ctx->linger_us, LEAST_US, memory_order_relaxed) == 0)
        weft__engine_nudge(ctx); /* it sleeps without a clock */
}

int64_t weft__linger_us(weft_context *ctx)
{
    int us = atomic_load_explicit(&ctx->linger_us, memory_order_relaxed);
    bool served = ctx->callers_serve && atomic_load_explicit(&ctx->drivers, memory_order_relaxed);
    return us && served ? MOST_US : us;
}

bool weft__linger_is_due(weft_context *ctx)
{
    int64_t us = weft__linger_us(ctx), now;
    if (!us) return false;
    now = weft__now_ns();
    if (now - ctx->lingered_ns < us * 1000) return false;
    ctx->lingered_ns = now;
    /* If a work is finished right now, the next poll is later than it might be, which MOST_US bounds. */
    atomic_store_explicit(&ctx->linger_us, us * 2 < MOST_US ? (int)us * 2 : MOST_US, memory_order_relaxed);
    return true;
}
