/* rest.h - how the progress thread rests.
 *
 *   AWAKE -> NAP -> AWAKE     by the thread itself, and a timer
 *   AWAKE -> SLEEP -> AWAKE   it goes to sleep itself, and whoever leaves it work wakes it
 *
 * Only the functions here store it. */
#ifndef WEFT_RUNTIME_REST_H
#define WEFT_RUNTIME_REST_H
#include "check.h"
#include "context.h"

/* From AWAKE to AWAKE: somebody has woken it, and now it wakes up. */
static const uint8_t weft__rest_follows[] = {[WEFT__AWAKE] = WEFT__MAY_BECOME(WEFT__NAP) |
                                                             WEFT__MAY_BECOME(WEFT__SLEEP) |
                                                             WEFT__MAY_BECOME(WEFT__AWAKE),
                                             [WEFT__NAP] = WEFT__MAY_BECOME(WEFT__AWAKE),
                                             [WEFT__SLEEP] = WEFT__MAY_BECOME(WEFT__AWAKE)};

/* By the progress thread.  That it sleeps is seen by others before it looks for work the last time; anybody who
 * sees another state too late only rings in vain. */
static inline void weft__rest_to(weft_context *ctx, weft__rest to)
{
    uint32_t from = atomic_load_explicit(&ctx->rest, memory_order_relaxed);
    WEFT__ASSERT(WEFT__ALLOWS(weft__rest_follows, from, to), from, to);
    if (to == WEFT__SLEEP)
        atomic_exchange_explicit(&ctx->rest, WEFT__SLEEP, memory_order_seq_cst);
    else
        atomic_store_explicit(&ctx->rest, to, memory_order_relaxed);
}

/* By any thread, when the work is there to be seen.  True, of all who try once: it slept, and is to be rung. */
static inline bool weft__rest_wake(weft_context *ctx)
{
    uint32_t sleeping = WEFT__SLEEP;
    return atomic_load_explicit(&ctx->rest, memory_order_seq_cst) == WEFT__SLEEP &&
           atomic_compare_exchange_strong(&ctx->rest, &sleeping, WEFT__AWAKE);
}
#endif
