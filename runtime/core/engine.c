/* engine.c - the host data plane's one lock, and one progress pass over everything under it.
 *
 * Whoever holds the engine - the progress thread, a caller that waits, the watchdog in the thread's place -
 * takes the submitted requests and moves along all that runs.  Nothing here blocks.  A submission that finds
 * the engine held is picked up by its holder, who checks the queue once more after letting go.  A thread
 * that calls all by itself keeps the engine between its calls (biased.h). */
#include "engine.h"
#include "alarm.h"
#include "behind.h"
#include "executor.h"
#include "group.h"
#include "peer.h"
#include "rest.h"
#include "submit.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#define SOCKETS_EVERY_SHARED \
    4096 /* calls of progress between polls of sockets when only deaths can show there */
#define SOCKETS_EVERY_MIXED  8  /* when some peers are reached by TCP and others by shared memory */
#define SOCKETS_EVERY_SPARED 16 /* when their owner reads them without asking */

static WEFT__NOINLINE bool try_slowly(weft_context *ctx)
{
    if (!weft__biased_try_slow(&ctx->engine)) return false;
    weft__engine_held = ctx;
    return true;
}

bool weft__engine_try(weft_context *ctx)
{
    if (WEFT__UNLIKELY(weft__engine_held != NULL)) return false;
    if (WEFT__UNLIKELY(!weft__biased_enter(&ctx->engine))) return try_slowly(ctx);
    weft__engine_held = ctx;
    return true;
}

bool weft__engine_try_kept(weft_context *ctx)
{
    return weft__biased_is_keeper(&ctx->engine) && weft__engine_try(ctx);
}

void weft__engine_take(weft_context *ctx)
{
    WEFT__ASSERT(!weft__engine_held);
    weft__biased_take(&ctx->engine);
    weft__engine_held = ctx;
}

/* No thread that waits, and the progress thread asleep. */
static inline bool nobody_looks(const weft_context *ctx)
{
    return atomic_load_explicit(&ctx->drivers, memory_order_relaxed) == 0 &&
           atomic_load_explicit(&ctx->rest, memory_order_relaxed) == WEFT__SLEEP;
}

static WEFT__NOINLINE void drop_slowly(weft_context *ctx)
{
    bool left = nobody_looks(ctx) && weft__engine_busy(ctx);
    weft__engine_held = NULL;
    weft__biased_drop(&ctx->engine);
    while (!weft__mpsc_empty(&ctx->submitted) && weft__engine_try(ctx)) {
        weft__engine_progress(ctx);
        left = nobody_looks(ctx) && weft__engine_busy(ctx);
        weft__engine_held = NULL;
        weft__biased_drop(&ctx->engine);
    }
    if (left) weft__engine_nudge(ctx);
}

/* The rest of the keeper's way out, when somebody wanted the engine or left something in the queue. */
static WEFT__NOINLINE void finish_leaving(weft_context *ctx, bool wanted)
{
    if (wanted) weft__biased_leave_slow(&ctx->engine);
    if (weft__mpsc_empty(&ctx->submitted) || !weft__engine_try(ctx)) return;
    weft__engine_progress(ctx);
    drop_slowly(ctx);
}

void weft__engine_drop(weft_context *ctx)
{
    bool wanted;
    WEFT__ASSERT(weft__engine_held == ctx);
    if (WEFT__UNLIKELY(!weft__biased_is_kept(&ctx->engine) || nobody_looks(ctx))) {
        drop_slowly(ctx);
        return;
    }
    weft__engine_held = NULL;
    wanted = !weft__biased_leave(&ctx->engine);
    if (WEFT__UNLIKELY(wanted || !weft__mpsc_empty(&ctx->submitted))) finish_leaving(ctx, wanted);
}

int64_t weft__engine_clock(weft_context *ctx)
{
    int64_t now;
    WEFT__ASSERT(weft__holds_engine(ctx));
    now = weft__ticker_now(&ctx->ticker);
    weft__record_last_ns_is(&ctx->record, now);
    return now;
}

int64_t weft__engine_now(weft_context *ctx, int64_t least_ns)
{
    int64_t now = ctx->progress_ns;
    if (now <= 0) now = weft__engine_clock(ctx);
    if (ctx->progress_ns == 0) ctx->progress_ns = now;
    return now > least_ns ? now : least_ns;
}

void weft__engine_read_anew(weft_context *ctx)
{
    WEFT__ASSERT(weft__holds_engine(ctx));
    if (ctx->progress_ns > 0) ctx->progress_ns = 0;
}

static void start_one(weft_context *ctx, weft_request *req)
{
    if (req->timed) req->started_ns = weft__engine_now(ctx, req->submitted_ns);
    weft__submit_begin(ctx, req);
}

static int start_submitted(weft_context *ctx)
{
    int n = 0;
    weft__mpsc_node *node = weft__mpsc_take_all(&ctx->submitted);
    while (node) {
        weft_request *req = WEFT__OWNER(node, weft_request, node);
        node = node->next;
        n++;
        if (ctx->beyond_host && weft__behind_keeps(req)) continue;
        start_one(ctx, req);
    }
    return n;
}

static WEFT__NOINLINE int start_behind(weft_context *ctx, bool all)
{
    return weft__behind_begin(ctx, all, weft__engine_clock(ctx), start_one);
}

void weft__engine_begin_all(weft_context *ctx)
{
    WEFT__ASSERT(weft__holds_engine(ctx));
    if (!weft__list_empty(&ctx->behind)) start_behind(ctx, true);
}

static inline int take_submitted(weft_context *ctx)
{
    int n = WEFT__LIKELY(weft__list_empty(&ctx->behind)) ? 0 : start_behind(ctx, false);
    return WEFT__LIKELY(weft__mpsc_empty(&ctx->submitted)) ? n : n + start_submitted(ctx);
}

static inline void end_progress(weft_context *ctx)
{
    ctx->progress_ns = -1;
    if (WEFT__LIKELY(!ctx->wake_watchdog)) return;
    ctx->wake_watchdog = false;
    weft__alarm_wake();
}

void weft__engine_begin(weft_context *ctx, weft_request *last, int64_t now_ns)
{
    int n;
    WEFT__ASSERT(weft__holds_engine(ctx));
    ctx->progress_ns = now_ns;
    n = take_submitted(ctx);
    if (last) weft__submit_begin(ctx, last);
    if (n || last) weft__executor_advance(ctx, WEFT__EXECUTOR_ROUNDS);
    end_progress(ctx);
    weft__count(&ctx->active, 1);
}

void weft__engine_empty_queue(weft_context *ctx)
{
    if (weft__forked() || weft__engine_held) return;
    weft__engine_take(ctx);
    weft__engine_begin(ctx, NULL, 0);
    weft__engine_drop(ctx);
}

/* And how many calls of progress go by until the next time. */
static int look_at_sockets(weft_context *ctx)
{
    ctx->sockets_in = (ctx->poller.spared      ? SOCKETS_EVERY_SPARED
                       : !ctx->segment         ? 1
                       : ctx->descriptors_wake ? SOCKETS_EVERY_MIXED
                                               : SOCKETS_EVERY_SHARED) -
                      1;
    return weft__poller_poll(&ctx->poller);
}

int weft__engine_progress(weft_context *ctx)
{
    int n;
    WEFT__ASSERT(weft__holds_engine(ctx));
    ctx->progress_ns = 0;
    n = take_submitted(ctx);
    n += weft__executor_advance(ctx, WEFT__EXECUTOR_DEVICE); /* what it puts off begins on the host plane */
    n += weft__executor_advance(ctx, WEFT__EXECUTOR_ROUNDS);
    n += weft__p2p_poll(ctx->p2p);
    n += weft__executor_advance(
        ctx,
        WEFT__EXECUTOR_SCHEDULE); /* after the point-to-point layer: what has just come in may be what it waits for */
    if (ctx->sockets_in)
        ctx->sockets_in--;
    else
        n += look_at_sockets(ctx);
    if (WEFT__UNLIKELY(!weft__mpsc_empty(&ctx->retired))) weft__groups_retire(ctx);
    end_progress(ctx);
    if (n) weft__count(&ctx->active, 1);
    return n;
}

int weft__engine_drive(weft_context *ctx)
{
    int n = weft__engine_progress(ctx);
    if (n) weft__count(&ctx->driven, 1);
    return n;
}

int weft__engine_poll_for(weft_request *req)
{
    weft_context *ctx = req->ctx;
    int n;
    WEFT__ASSERT(weft__holds_engine(ctx));
    /* Before the pass: then what is found need not wait for the clock. */
    ctx->progress_ns = req->timed ? weft__engine_clock(ctx) : 0;
    n = req->executor->poll(req);
    end_progress(ctx);
    if (!n) return 0;
    weft__count(&ctx->active, 1);
    weft__count(&ctx->driven, 1);
    return n;
}

void weft__engine_recheck(weft_context *ctx)
{
    WEFT__ASSERT(weft__holds_engine(ctx));
    ctx->progress_ns = 0;
    weft__p2p_recheck(ctx->p2p);
    weft__peer_deaths_recheck(ctx);
    end_progress(ctx);
    weft__count(&ctx->active, 1);
}

bool weft__engine_busy(const weft_context *ctx)
{
    return (ctx->cut_short && !weft__list_empty(&ctx->at_work[WEFT__EXECUTOR_ROUNDS])) ||
           !weft__list_empty(&ctx->at_work[WEFT__EXECUTOR_SCHEDULE]) ||
           !weft__list_empty(&ctx->at_work[WEFT__EXECUTOR_DEVICE]) || weft__p2p_busy(ctx->p2p);
}

void weft__engine_arm(weft_context *ctx)
{
    if (ctx->segment) weft__bell_arm(ctx->segment);
    weft__p2p_hurry(ctx->p2p);
    ctx->sockets_in = 0; /* the pass that follows must include the sockets */
}

void weft__engine_disarm(weft_context *ctx)
{
    if (ctx->segment) weft__bell_disarm(ctx->segment);
}

void weft__engine_ring(weft_context *ctx)
{
    uint64_t one = 1;
    while (write(ctx->bell_fd, &one, sizeof one) < 0 && errno == EINTR) {
    }
}

void weft__engine_rouse(weft_context *ctx)
{
    if (atomic_load_explicit(&ctx->rest, memory_order_seq_cst) != WEFT__AWAKE) weft__engine_ring(ctx);
}

void weft__engine_nudge(weft_context *ctx)
{
    if (weft__rest_wake(ctx)) weft__engine_ring(ctx);
}
