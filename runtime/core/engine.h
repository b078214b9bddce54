/* engine.h - the host data plane's lock, and moving everything along under it. */
#ifndef WEFT_RUNTIME_ENGINE_H
#define WEFT_RUNTIME_ENGINE_H
#include "context.h"
#include "holder.h"

bool weft__engine_try(weft_context *ctx);
bool weft__engine_try_kept(
    weft_context *ctx); /* only by the thread that mostly keeps it (biased.h): costs it little */
void weft__engine_take(weft_context *ctx);
/* Lets go, and takes again if a submission slipped in between.  Wakes the progress thread where that sleeps,
 * nobody waits, and something is left to do that no bell would tell of. */
void weft__engine_drop(weft_context *ctx);
/* For what may be called from inside a call of progress as well as from outside: the engine is held in
 * between. entered: what weft__engine_enter returned, which is false where this thread had it before. */
static inline bool weft__engine_enter(weft_context *ctx)
{
    if (weft__holds_engine(ctx)) return false;
    weft__engine_take(ctx);
    return true;
}
static inline void weft__engine_leave(weft_context *ctx, bool entered)
{
    if (entered) weft__engine_drop(ctx);
}
/* What was submitted begins, and what can be done for it at once is done; nothing else is polled.
 * last: begins after what is queued, and was not queued itself; or NULL.  now_ns 0: nobody has read
 * the clock yet.  Engine held. */
void weft__engine_begin(weft_context *ctx, weft_request *last, int64_t now_ns);
/* A word that only the holder of the engine writes. */
static inline void weft__count(_Atomic uint32_t *word, int more)
{
    uint32_t so_far = atomic_load_explicit(word, memory_order_relaxed);
    atomic_store_explicit(word, so_far + (uint32_t)more, memory_order_relaxed);
}
/* Requests that have not settled; at rest only for the holder of the engine.  Not counted before what the
 * thread has stored: whoever says that the context closes counts on it (submit.c has the other side). */
static inline int64_t weft__inflight(const weft_context *ctx)
{
    return atomic_load_explicit(&ctx->inflight_queued, memory_order_seq_cst) +
           atomic_load_explicit(&ctx->inflight_inline, memory_order_relaxed);
}
/* All that was submitted before has begun when it returns, unless this thread is inside a pass.  Waits for
 * the engine. */
void weft__engine_empty_queue(weft_context *ctx);
/* What was kept back begins too, whatever it waits for (behind.h).  Engine held. */
void weft__engine_begin_all(weft_context *ctx);
/* Now, cheaply: for the times of requests.  Engine held. */
int64_t weft__engine_clock(weft_context *ctx);
/* About now, and not before least_ns: in one call of progress the clock is read once.  Engine held. */
int64_t weft__engine_now(weft_context *ctx, int64_t least_ns);
/* The next to ask in this call of progress reads the clock again.  Engine held. */
void weft__engine_read_anew(weft_context *ctx);
/* One progress pass over everything; at most about one chunk of copying.  Returns how much was done. */
int weft__engine_progress(weft_context *ctx);
int weft__engine_drive(weft_context *ctx); /* the same by a caller who waits */
/* By a caller who waits for a message, or a collective by rounds, in host memory: a poll of just that. */
int weft__engine_poll_for(weft_request *req);
/* Reads and writes everything, whatever the kernel has told: for who watches deadlines. */
void weft__engine_recheck(weft_context *ctx);
/* Work that will not announce itself by a bell? */
bool weft__engine_busy(const weft_context *ctx);
/* Ask peers to ring from now on; poll once more after it. */
void weft__engine_arm(weft_context *ctx);
void weft__engine_disarm(weft_context *ctx);
/* Ring the progress thread. */
void weft__engine_ring(weft_context *ctx);
/* After a submission: ring it if it sleeps. */
void weft__engine_nudge(weft_context *ctx);
void weft__engine_rouse(weft_context *ctx); /* out of a nap too */
#endif
