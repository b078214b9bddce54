/* wait.c - polling requests and waiting for them.
 *
 * A caller that waits drives the engine itself, so its operation costs no hand-off between
 * threads; mostly just that part where its own end will show.  Where that has been for long enough, which
 * pacing.h decides, it arms the doorbell as the progress thread would and sleeps on the request's state. */
#include "wait.h"
#include "affinity.h"
#include "batch.h"
#include "engine.h"
#include "executor.h"
#include "group.h"
#include "group_break.h"
#include "recorded.h"
#include "recording.h"

#include <sched.h>
#include <stdio.h>

static bool is_probe(const weft_request *req)
{
    return weft__kind_traits(req->op.kind) & WEFT__PROBES;
}

/* One pass over everything, if nobody else is at it. */
static bool settles_on_progress(weft_request *req)
{
    if (weft__engine_try(req->ctx)) {
        if (is_probe(req)) req->ctx->sockets_in = 0; /* sockets too: it may be asked just once */
        weft__engine_drive(req->ctx);
        weft__engine_drop(req->ctx);
    }
    return weft__request_settled(req);
}

bool weft_is_completed(weft_request *req)
{
    if (!req || weft__request_settled(req)) return true;
    if (weft__forked()) return false;
    if (weft__pacing_only_checks(atomic_fetch_add_explicit(&req->polls, 1, memory_order_relaxed),
                                 is_probe(req)))
        return false;
    return settles_on_progress(req);
}

weft_status weft_test(weft_request *req)
{
    if (!req) return WEFT_OK;
    if (!weft__forked())
        weft__completion_fd_clear(&req->ctx->completion_fd);
    else if (!weft__request_settled(req))
        return weft__fail(WEFT_ERR_STATE, "a child of fork has no context");
    if (!weft_is_completed(req)) return WEFT_PENDING;
    if (req->status != WEFT_OK) weft__fail(req->status, "%s", weft_request_message(req));
    return req->status;
}

/* The last one to leave searches for work that it leaves behind, which weft__engine_drop does. */
static void stop_driving(weft_context *ctx, bool holds_engine)
{
    int before = (int)atomic_fetch_sub(&ctx->drivers, 1); /* before it looks for what others left to it */
    WEFT__ASSERT(before > 0, before);
    if (WEFT__UNLIKELY(ctx->callers_serve) && before == 1 && atomic_load(&ctx->device_pending))
        weft__engine_nudge(ctx); /* nobody else serves */
    if (!holds_engine && atomic_load_explicit(&ctx->rest, memory_order_relaxed) == WEFT__SLEEP) {
        weft__engine_take(ctx);
        weft__engine_drop(ctx);
    }
}

static bool is_message(const weft_request *req)
{
    return weft__kind_traits(req->op.kind) & WEFT__PAIR;
}

/* Will its end show at one place that can be polled alone?  Of a message or rounds, in host memory.
 * Engine held. */
static bool has_a_place(const weft_request *req)
{
    return weft__request_state(req) == WEFT__RUNNING && req->executor && req->executor->can_poll &&
           req->executor->can_poll(req);
}

/* At everything, or mostly just at that place: which is soon done.  Engine held. */
static int poll_once(weft_context *ctx, weft_request *placed, int polls)
{
    return placed && weft__pacing_at_place(polls) ? weft__engine_poll_for(placed) : weft__engine_drive(ctx);
}

/* Are there works of modules for who waits to look after? */
static bool serves_works(const weft_context *ctx)
{
    return ctx->callers_serve && atomic_load_explicit(&ctx->device_pending, memory_order_relaxed);
}

/* Polls until something moves, but not past the next reading of the clock, nor long where others need the
 * processor.  req: what is waited for, if just that; or NULL.  Engine held. */
static int poll_on(weft_context *ctx, weft_request *req, int *polls)
{
    weft_request *placed = req && has_a_place(req) ? req : NULL;
    for (;;) {
        int n = poll_once(ctx, placed, *polls);
        if (n || weft__pacing_clock_is_due(++*polls) || weft__biased_wanted(&ctx->engine)) return n;
        if (WEFT__UNLIKELY(serves_works(ctx))) return n; /* the next place to look at is theirs */
        if (weft__pacing_is_crowded(&ctx->pacing) &&
            weft__pacing_gives_way(*polls, placed && is_message(placed)))
            return n;
        if (!placed) weft__pause(); /* those at one place are short, and mostly read the clock */
    }
}

bool weft__wait_inside(weft_request *req)
{
    int polls = 1;                /* those at its place come first */
    req->ctx->record.near = true; /* its first step is just over */
    while (!weft__request_settled(req) && !weft__pacing_clock_is_due(polls) &&
           poll_on(req->ctx, req, &polls) > 0) {
    }
    req->ctx->record.near = false;
    return weft__request_settled(req);
}

/* Gives the processor to others for a moment. */
static weft__pace yield(void)
{
    int64_t before = weft__about_now_ns();
    sched_yield();
    return weft__pacing_after_yield(weft__about_now_ns() - before);
}

/* What pacing.h says after a stay in the engine.  False: to sleep. */
static bool goes_on(weft_context *ctx, weft__polling *polling, bool moved, bool counted, int64_t deadline_ns)
{
    weft__pace pace = weft__pacing_after_polls(&ctx->pacing, polling, moved, counted);
    if (pace == WEFT__PACE_YIELD && yield() == WEFT__PACE_SLEEP) return false;
    if (pace == WEFT__PACE_PAUSE) weft__pause();
    if (!weft__pacing_clock_is_due(polling->polls)) return true;
    return weft__pacing_after_clock(&ctx->pacing, polling, weft__now_ns(), deadline_ns) != WEFT__PACE_SLEEP;
}

/* That, and the record may take the time of the last reading, unless the processor was given away since. */
static int poll_near(weft_context *ctx, weft_request *req, weft__polling *polling)
{
    weft__recorder *r = &ctx->record;
    int n;
    if (polling->now_ns > weft__record_last_ns(r)) weft__record_last_ns_is(r, polling->now_ns);
    r->near = polling->now_ns && !weft__pacing_is_crowded(&ctx->pacing);
    n = poll_on(ctx, req, &polling->polls);
    r->near = false;
    return n;
}

/* A module is told when a caller came in, to find one that stays too long.  The last reading of the clock is near enough,
 * once, where the processor has not been given away since: what the module does may take long. */
static int serve(weft_context *ctx, weft__polling *polling)
{
    const bool near = polling->now_ns && !weft__pacing_is_crowded(&ctx->pacing);
    int n = ctx->executors[WEFT__EXECUTOR_DEVICE]->progress_by_caller(ctx, near ? polling->now_ns
                                                                                : weft__now_ns());
    polling->now_ns = 0;
    return n;
}

/* Drives the engine until done(arg), the deadline, or the time for polling is over (pacing.h).  What is over
 * within its first stay there counts nobody as a driver.  began_ns: now, if the caller has read the clock; or 0. */
static void drive(weft_context *ctx, weft_request *req, bool (*done)(void *arg), void *arg, int64_t began_ns,
                  int64_t deadline_ns)
{
    weft__polling polling = WEFT__POLLING_BEGINS;
    bool counted = ctx->callers_serve;
    polling.now_ns = began_ns;
    if (WEFT__UNLIKELY(counted))
        atomic_fetch_add(&ctx->drivers, 1); /* works are left to it from the first on */
    while (!done(arg)) {
        bool holds = weft__engine_try(ctx);
        int n = holds ? poll_near(ctx, req, &polling) : 0;
        bool over = n && done(arg);
        if (over && counted) {
            counted = false;
            stop_driving(ctx, true);
        }
        if (!over && !counted) {
            counted = true;
            atomic_fetch_add_explicit(&ctx->drivers, 1, memory_order_relaxed);
        }
        if (holds) weft__engine_drop(ctx);
        if (WEFT__UNLIKELY(serves_works(ctx)) && !over) n += serve(ctx, &polling);
        if (over || !goes_on(ctx, &polling, n > 0, holds, deadline_ns)) break;
    }
    if (counted) stop_driving(ctx, false);
    weft__pacing_after_polling(&ctx->pacing, &polling);
}

/* Before sleeping, for that request or for several (NULL): peers are to ring, and work that nobody would ring
 * for is the thread's. */
static void hand_back(weft_context *ctx, weft_request *req)
{
    bool busy;
    weft__engine_take(ctx);
    if (req) weft__recorded_wait(req);
    weft__engine_arm(ctx);
    busy = weft__engine_progress(ctx) > 0;
    busy = weft__engine_busy(ctx) || busy;
    weft__engine_drop(ctx);
    /* In its nap the thread does not poll sockets; somebody now depends on them. */
    if (busy || (ctx->descriptors_wake && atomic_load(&ctx->rest) != WEFT__SLEEP)) weft__engine_ring(ctx);
}

static void wake_up(weft_context *ctx, int64_t began_ns)
{
    weft__affinity_return(weft__pacing_after_sleep(&ctx->pacing, weft__now_ns() - began_ns));
}

#define SERVED_NS (20 * WEFT__MS)

/* How long a sleep that should last until then may be.  While the progress thread runs a callback, which may
 * be one that waits for this very caller, it wakes up now and then and drives the engine itself.  Such a callback may begin
 * once it sleeps: who may have works to look after wakes up for that. */
static int64_t sleep_until(const weft_context *ctx, int64_t deadline_ns, bool several_contexts)
{
    bool calling = atomic_load_explicit(&ctx->calling_since, memory_order_relaxed) != 0;
    if (!weft__pacing_sleeps_short(calling, several_contexts)) {
        const int64_t look_ns = ctx->callers_serve ? weft__now_ns() + SERVED_NS : WEFT__NEVER;
        return look_ns < deadline_ns ? look_ns : deadline_ns;
    }
    return weft__pacing_sleep_short(weft__now_ns(), deadline_ns);
}

/* Back from such a sleep. */
static void drive_in_place(weft_context *ctx)
{
    if (!atomic_load_explicit(&ctx->calling_since, memory_order_relaxed) || !weft__engine_try(ctx)) return;
    ctx->sockets_in = 0; /* sockets too */
    while (weft__engine_drive(ctx) && !weft__biased_wanted(&ctx->engine)) {
    }
    weft__engine_drop(ctx);
    if (serves_works(ctx)) ctx->executors[WEFT__EXECUTOR_DEVICE]->progress_by_caller(ctx, weft__now_ns());
}

static bool one_settled(void *arg)
{
    return weft__request_settled(arg);
}

/* One more sleeps, or one fewer, than that many before. */
static void record_sleepers(weft_context *ctx, int before, int more)
{
    weft__record_life(&ctx->record, WEFT__LIFE_WAITERS, (uint64_t)((int64_t)before + more));
}

static void begin_sleep(weft_context *ctx, int64_t now_ns)
{
    record_sleepers(ctx, atomic_fetch_add_explicit(&ctx->settling_sleepers, 1, memory_order_seq_cst), 1);
    weft__record_life(&ctx->record, WEFT__LIFE_WAITING, (uint64_t)now_ns);
}

static void end_sleep(weft_context *ctx)
{
    record_sleepers(ctx, atomic_fetch_sub_explicit(&ctx->settling_sleepers, 1, memory_order_relaxed), -1);
}

/* The caller's own time is over. */
static void give_up_waiting(weft_request *req)
{
    weft__engine_take(req->ctx);
    weft__record_waiting(&req->ctx->record, req->record, 0);
    weft__engine_drop(req->ctx);
}

static void sleep_for_one(weft_request *req, int64_t deadline_ns)
{
    weft_context *ctx = req->ctx;
    int64_t began = weft__now_ns();
    WEFT__ASSERT(!weft__holds_any_engine());
    begin_sleep(ctx, began);
    atomic_fetch_add_explicit(&req->sleepers, 1, memory_order_seq_cst);
    hand_back(ctx, req);
    for (;;) {
        uint32_t state = atomic_load_explicit(&req->state, memory_order_seq_cst);
        if (state == WEFT__SETTLED || (deadline_ns != WEFT__NEVER && weft__now_ns() >= deadline_ns)) break;
        weft__sleep_on(&req->state, state, sleep_until(ctx, deadline_ns, false));
        drive_in_place(ctx);
    }
    atomic_fetch_sub_explicit(&req->sleepers, 1, memory_order_relaxed);
    end_sleep(ctx);
    if (!weft__request_settled(req)) give_up_waiting(req);
    wake_up(ctx, began);
}

/* began_ns: when the caller did; 0: it has not read the clock, which a wait that is over soon need not. */
static weft_status wait_since(weft_request *req, int64_t began_ns, int64_t deadline_ns)
{
    int64_t began = began_ns;
    if (weft__request_settled(req) || (!req->ctx->callers_serve && settles_on_progress(req)))
        return req->status;
    if (!began && req->timed) began = weft__now_ns();
    drive(req->ctx, req, one_settled, req, began, deadline_ns);
    while (!weft__request_settled(req) && (deadline_ns == WEFT__NEVER || weft__now_ns() < deadline_ns))
        sleep_for_one(req, deadline_ns);
    if (!weft__request_settled(req)) {
        atomic_fetch_add_explicit(&req->waited_ns, weft__now_ns() - began, memory_order_relaxed);
        return WEFT_PENDING;
    }
    if (req->timed && req->settled_ns > began)
        atomic_fetch_add_explicit(&req->waited_ns, req->settled_ns - began, memory_order_relaxed);
    return req->status;
}

weft_status weft__wait_until(weft_request *req, int64_t deadline_ns)
{
    return wait_since(req, 0, deadline_ns);
}

/* Polling once is no waiting. */
static weft_status may_wait(int64_t timeout_ms)
{
    if (weft__forked()) return weft__fail(WEFT_ERR_STATE, "a child of fork has no context");
    if (timeout_ms != 0 && weft__in_callback())
        return weft__fail(WEFT_ERR_STATE, "a callback cannot wait: the request has not settled");
    return WEFT_OK;
}

static weft_status wait_tell(weft_request *req, weft_status status, int64_t timeout_ms)
{
    if (status >= 0) return status;
    if (!weft__forked() && !weft__in_callback()) weft__recording_await(req->ctx, timeout_ms);
    return weft__fail(status, "%s", weft_request_message(req));
}

weft_status weft_wait(weft_request *req, int64_t timeout_ms)
{
    weft_status status;
    int64_t now;
    if (!req) return WEFT_OK;
    if (!weft__forked()) weft__completion_fd_clear(&req->ctx->completion_fd);
    if (weft__request_settled(req)) return wait_tell(req, req->status, timeout_ms);
    if ((status = may_wait(timeout_ms)) != WEFT_OK) return status;
    if (timeout_ms == 0) return weft_test(req);
    if (timeout_ms < 0) return wait_tell(req, weft__wait_until(req, WEFT__NEVER), timeout_ms);
    now = weft__now_ns();
    return wait_tell(req, wait_since(req, now, weft__deadline(now, timeout_ms)), timeout_ms);
}

weft_status weft_wait_all(weft_request *const *reqs, size_t n, int64_t timeout_ms)
{
    int64_t deadline = timeout_ms < 0 ? WEFT__NEVER : weft__deadline(weft__now_ns(), timeout_ms);
    weft_status status;
    if (n && !reqs) return weft__fail(WEFT_ERR_ARGUMENT, "wait_all: reqs is NULL, n is %zu", n);
    for (size_t i = 0; i < n; i++) {
        if (!reqs[i]) continue;
        if (!weft__forked()) weft__completion_fd_clear(&reqs[i]->ctx->completion_fd);
        if (weft__request_settled(reqs[i])) continue;
        if ((status = may_wait(timeout_ms)) != WEFT_OK) return status;
        if (timeout_ms == 0 ? !weft_is_completed(reqs[i])
                            : weft__wait_until(reqs[i], deadline) == WEFT_PENDING)
            return WEFT_PENDING;
    }
    for (size_t i = 0; i < n; i++)
        if (reqs[i] && reqs[i]->status != WEFT_OK) return wait_tell(reqs[i], reqs[i]->status, timeout_ms);
    return WEFT_OK;
}

typedef struct several {
    weft_request *const *reqs;
    size_t n, first; /* index of the first settled one */
} several;

static bool any_settled(void *arg)
{
    several *s = arg;
    for (size_t i = 0; i < s->n; i++)
        if (s->reqs[i] && weft__request_settled(s->reqs[i])) {
            s->first = i;
            return true;
        }
    return false;
}

static void sleep_for_any(several *s, weft_context *ctx, int64_t deadline_ns)
{
    int64_t began = weft__now_ns();
    bool mixed = false;
    uint32_t seen;
    for (size_t i = 0; i < s->n; i++) mixed = mixed || (s->reqs[i] && s->reqs[i]->ctx != ctx);
    begin_sleep(ctx, began);
    hand_back(ctx, NULL);
    for (;;) {
        seen = atomic_load_explicit(&ctx->settlings, memory_order_seq_cst);
        if (any_settled(s) || (deadline_ns != WEFT__NEVER && weft__now_ns() >= deadline_ns)) break;
        weft__sleep_on(&ctx->settlings, seen, sleep_until(ctx, deadline_ns, mixed));
        drive_in_place(ctx);
    }
    end_sleep(ctx);
    wake_up(ctx, began);
}

/* WEFT_OK: s->first has settled.  n if there is none to wait for. */
static weft_status wait_several(several *s, int64_t timeout_ms)
{
    int64_t deadline = timeout_ms < 0 ? WEFT__NEVER : weft__deadline(weft__now_ns(), timeout_ms), began;
    weft_context *ctx = NULL;
    weft_status status;
    for (size_t i = 0; i < s->n; i++) {
        if (!s->reqs[i]) continue;
        if (!weft__forked()) weft__completion_fd_clear(&s->reqs[i]->ctx->completion_fd);
        if (!ctx) ctx = s->reqs[i]->ctx;
    }
    s->first = s->n;
    if (!ctx || any_settled(s)) return WEFT_OK;
    if ((status = may_wait(timeout_ms)) != WEFT_OK) return status;
    if (timeout_ms == 0) {
        for (size_t i = 0; i < s->n; i++)
            if (s->reqs[i]) weft_is_completed(s->reqs[i]);
        return any_settled(s) ? WEFT_OK : WEFT_PENDING;
    }
    began = weft__now_ns();
    drive(ctx, NULL, any_settled, s, 0, deadline);
    while (!any_settled(s) && (deadline == WEFT__NEVER || weft__now_ns() < deadline))
        sleep_for_any(s, ctx, deadline);
    if (!any_settled(s)) return WEFT_PENDING;
    atomic_fetch_add_explicit(&s->reqs[s->first]->waited_ns, weft__now_ns() - began, memory_order_relaxed);
    return WEFT_OK;
}

weft_status weft_wait_any(weft_request *const *reqs, size_t n, int64_t timeout_ms, size_t *index)
{
    several s = {reqs, n, n};
    weft_status status;
    if ((n && !reqs) || !index) return weft__fail(WEFT_ERR_ARGUMENT, "wait_any: reqs or index is NULL");
    status = wait_several(&s, timeout_ms);
    if (status != WEFT_OK) return status;
    *index = s.first;
    return s.first < n ? wait_tell(reqs[s.first], reqs[s.first]->status, timeout_ms) : WEFT_OK;
}

weft_status weft_wait_some(weft_request *const *reqs, size_t n, int64_t timeout_ms, size_t *indices,
                           size_t *settled)
{
    several s = {reqs, n, n};
    weft_status status;
    if ((n && (!reqs || !indices)) || !settled)
        return weft__fail(WEFT_ERR_ARGUMENT, "wait_some: reqs, indices or settled is NULL");
    status = wait_several(&s, timeout_ms);
    if (status != WEFT_OK) return status;
    *settled = 0;
    for (size_t i = s.first; i < n; i++)
        if (reqs[i] && weft__request_settled(reqs[i])) indices[(*settled)++] = i;
    return WEFT_OK;
}

int weft_completion_fd(weft_context *ctx)
{
    if (weft__usable(ctx) != WEFT_OK) return -1;
    return weft__completion_fd_get(&ctx->completion_fd);
}

/* Engine held. */
static void cancel(weft_request *req)
{
    char text[WEFT__SENTENCE_BYTES], name[256];
    if (weft__request_state(req) >= WEFT__CALLING) {
        if (is_probe(req)) req->executor->let_go(req);
        return;
    }
    weft__request_name(req, name, sizeof name);
    snprintf(text, sizeof text, "%s: cancelled by rank %d", name, req->group->rank);
    if (weft__kind_traits(req->op.kind) & WEFT__COLLECTIVE)
        weft__group_break(req->group, &(weft__verdict){WEFT_ERR_CANCELLED, req->sequence, -1, text}, true);
    else if (req->executor->cancel)
        req->executor->cancel(req, text);
    else
        weft__request_fail(req, WEFT_ERR_CANCELLED, text);
}

void weft_cancel(weft_request *req)
{
    weft_context *ctx;
    bool entered;
    if (!req || weft__forked()) return;
    if (weft__request_settled(req)) {
        if (is_probe(req)) req->executor->let_go(req);
        return;
    }
    ctx = req->ctx;
    entered = weft__engine_enter(ctx);
    weft__engine_progress(ctx); /* it may still be in the queue, or have earned its result */
    weft__engine_begin_all(ctx);
    if (weft__kind_traits(req->op.kind) & WEFT__BATCHES)
        weft__batch_cancel(req, cancel);
    else
        cancel(req);
    weft__engine_leave(ctx, entered);
}
