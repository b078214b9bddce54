/* watchdog.c - the watchdog thread: one per process, for all its contexts.
 *
 * It takes the engine only to watch deadlines and notices, and in place of a progress thread that is
 * inside a module's call or a callback.  A context leaves by asking; the watchdog answers at the top of its
 * loop, after which it touches nothing of that context any more.  Whether it ends is its own decision there,
 * with the registry's lock: a context that comes while the last one leaves finds it going on, or ended. */
#include "watchdog.h"
#include "accused.h"
#include "alarm.h"
#include "deadlines.h"
#include "deaths.h"
#include "dumping.h"
#include "engine.h"
#include "heartbeat.h"
#include "log.h"
#include "peer.h"
#include "protocol.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#define TICKING_NS   (50 * WEFT__MS) /* it checks often for so long after a module had work */
#define CALLED_NS    (5 * WEFT__MS)  /* and after a callback */
#define BLOCKED_NS   (1 * WEFT__MS)  /* in a module's call for so long: the watchdog drives the host plane */
#define CALLING_NS   (2 * WEFT__MS)  /* in a callback for so long: likewise.  Most are shorter */
#define LEFT_NS      (20 * WEFT__MS) /* between checks where modules have only what was given up */
#define STAND_IN_NS  (WEFT__MS / 4)  /* between its passes then */
#define CONTEXTS_MAX 1024            /* in one process */

static pthread_mutex_t registry = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static weft_context *contexts[CONTEXTS_MAX];
static int context_count;
static uint64_t generation, seen_generation;  /* of the registry; as the watchdog knows it */
static enum { NO_THREAD, RUNS, ENDED } state; /* ENDED: it takes the lock no more, and is to be joined */
static pthread_t thread;

void weft__watchdog_take(void *context, int from, const void *bytes, size_t length)
{
    weft_context *ctx = context;
    weft__notice notice;
    if (from < 0 || from >= ctx->world_size || !weft__notice_read(ctx, from, bytes, length, &notice)) return;
    WEFT__EACH_PROTOCOL(ctx, p)
    {
        if (notice.kind >= p->first_notice && notice.kind <= p->last_notice) p->notice(ctx, from, &notice);
    }
    if (notice.kind != WEFT__NOTICE_GONE) return;
    weft__engine_take(ctx);
    if (weft__deaths_answered(ctx, from, &notice)) {
        weft__engine_drop(ctx);
        return;
    }
    if (notice.number == WEFT__UNREACHABLE)
        weft__peer_told_unreachable(ctx, from, &notice);
    else if (notice.number == WEFT__LEFT && notice.subject != from)
        weft__peer_left_elsewhere(ctx, notice.subject, notice.text);
    else if (weft__by_agreement(ctx) && notice.number == WEFT__PRESUMED_DEAD)
        weft__peer_told_presumed(ctx, from, &notice);
    else
        weft__peer_gone(ctx, notice.subject, (weft__gone)notice.number, true, notice.text);
    weft__deaths_heard(ctx, from, &notice);
    weft__engine_drop(ctx);
}

/* ---- the loop ---- */

/* Until when the progress thread may not come back soon from what it does now.  It goes on for a while, so
 * that not every operation, or callback, has to wake it. */
static int64_t tick_until(const weft_context *ctx, int64_t now)
{
    if (atomic_load(&ctx->device_pending)) return now + TICKING_NS;
    return atomic_load(&ctx->calling_since) ? now + CALLED_NS : 0;
}

static bool ticks(weft_context *ctx, int64_t now)
{
    int64_t until = tick_until(ctx, now);
    if (until > ctx->tick_until_ns) ctx->tick_until_ns = until;
    atomic_store(&ctx->ticking, now < ctx->tick_until_ns);
    if (now < ctx->tick_until_ns) return true;
    until = tick_until(ctx, now);
    if (!until) return false; /* whoever begins something now sees that it rests */
    ctx->tick_until_ns = until;
    atomic_store(&ctx->ticking, true);
    return true;
}

/* A caller who waits, and to whom the progress thread leaves all work meanwhile, is inside a module. */
static bool is_served_for_long(weft_context *ctx, int64_t now)
{
    for (weft__module *m = weft__module_next(ctx, NULL); m && ctx->callers_serve;
         m = weft__module_next(ctx, m)) {
        int64_t since = atomic_load_explicit(&m->served_since, memory_order_relaxed);
        if (since && now - since > BLOCKED_NS) return true;
    }
    return false;
}

/* The progress thread enters modules without works, where a call may block. */
static bool lingers_in_calls(const weft_context *ctx)
{
    return atomic_load_explicit(&ctx->linger_us, memory_order_relaxed) && !ctx->callers_serve;
}

/* Where the progress thread, or who does its work, has been for so long that this one drives the host plane in its
 * place.  NULL: nowhere. */
static const char *find_away(weft_context *ctx, int64_t now)
{
    int64_t blocked = atomic_load(&ctx->blocked_since), calling = atomic_load(&ctx->calling_since);
    if (blocked && now - blocked > BLOCKED_NS) return "the progress thread is inside a module";
    if (calling && now - calling > CALLING_NS) return "the progress thread is in a callback";
    return is_served_for_long(ctx, now) ? "a caller is inside a module" : NULL;
}

static bool is_away(weft_context *ctx, int64_t now)
{
    const char *where = find_away(ctx, now);
    if (where && where != ctx->away) weft__log(WEFT__DEBUG, "the watchdog drives the host plane: %s", where);
    ctx->away = where;
    return where;
}

/* True: there is more to do at once. */
static bool stand_in(weft_context *ctx)
{
    bool more;
    if (!weft__engine_try(ctx)) return false;
    ctx->sockets_in = 0; /* the thread would see sockets and deaths at once */
    more = weft__engine_progress(ctx) > 0 || weft__engine_busy(ctx);
    weft__engine_drop(ctx);
    return more;
}

static int64_t watchdog_attend(weft_context *ctx, bool goes_first)
{
    int64_t now = weft__now_ns(), next, again, dumped, heard;
    bool often;
    weft__record_life(&ctx->record, WEFT__LIFE_PASSES, ++ctx->watched_passes);
    weft__record_life(&ctx->record, WEFT__LIFE_WATCHED, (uint64_t)now);
    weft__record_life(&ctx->record, WEFT__LIFE_UNSETTLED, (uint64_t)weft__inflight(ctx));
    weft__alarm_send(ctx);
    weft__watchdog_wire_take(ctx->wire, weft__watchdog_take, ctx);
    weft__alarm_send(ctx);
    if (now >= atomic_load(&ctx->check_ns)) weft__deadlines_check(ctx);
    heard = weft__heartbeat_attend(ctx, goes_first, now);
    dumped = weft__dumping_attend(ctx);
    next = atomic_load(&ctx->check_ns);
    if (heard < next) next = heard;
    if (dumped < next) next = dumped;
    often = ticks(ctx, now);
    if (!often && !atomic_load(&ctx->device_left) && !lingers_in_calls(ctx)) return next;
    again = now + (!often ? LEFT_NS : atomic_load(&ctx->device_pending) ? BLOCKED_NS : CALLING_NS);
    if (is_away(ctx, now)) again = stand_in(ctx) ? now : now + STAND_IN_NS;
    return again < next ? again : next;
}

static void *watchdog_main(void *arg)
{
    weft_context *mine[CONTEXTS_MAX];
    weft__watchdog_wire *wires[CONTEXTS_MAX];
    /* It sleeps nearly always; of this thread alone, as Linux has it. */
    const bool goes_first = setpriority(PRIO_PROCESS, (id_t)gettid(), WEFT__WATCHDOG_NICE) == 0;
    int n;
    (void)arg;
    pthread_setname_np(pthread_self(), "weft-watchdog");
    weft__thread_number = WEFT__KEEPS_NOTHING;
    for (;;) {
        int64_t next = WEFT__NEVER;
        pthread_mutex_lock(&registry);
        n = context_count;
        memcpy(mine, contexts, (size_t)n * sizeof *mine);
        seen_generation = generation;
        if (n == 0) state = ENDED;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&registry);
        if (n == 0) return NULL;
        for (int i = 0; i < n; i++) {
            int64_t then = watchdog_attend(mine[i], goes_first);
            wires[i] = mine[i]->wire;
            if (then < next) next = then;
        }
        weft__watchdog_wire_sleep(wires, n, weft__alarm_fd(), next);
    }
}

static void join_ended(void)
{
    if (state != ENDED) return;
    pthread_join(thread, NULL);
    state = NO_THREAD;
}

static weft_status start_thread(void)
{
    sigset_t all, before;
    int error;
    if (weft__alarm_fd() < 0) return weft__fail_errno("no descriptor for the watchdog");
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&thread, NULL, watchdog_main, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = error;
    if (error) return weft__fail_errno("the watchdog thread cannot be started");
    state = RUNS;
    return WEFT_OK;
}

weft_status weft__watchdog_join(weft_context *ctx)
{
    weft_status status = WEFT_OK;
    pthread_mutex_lock(&registry);
    join_ended();
    if (context_count == CONTEXTS_MAX)
        status = weft__fail(WEFT_ERR_MEMORY, "%d contexts are open in this process: no more are possible",
                            CONTEXTS_MAX);
    else if (state == NO_THREAD)
        status = start_thread(); /* it waits for the lock */
    if (status == WEFT_OK) {
        contexts[context_count++] = ctx;
        generation++;
        ctx->guarded = true;
    }
    pthread_mutex_unlock(&registry);
    if (status == WEFT_OK) weft__alarm_wake();
    return status;
}

void weft__watchdog_leave(weft_context *ctx)
{
    uint64_t left;
    int found = -1;
    if (!ctx->guarded) return;
    pthread_mutex_lock(&registry);
    for (int i = 0; i < context_count; i++)
        if (contexts[i] == ctx) contexts[found = i] = contexts[--context_count];
    WEFT__ASSERT(found >= 0, context_count);
    WEFT__ASSERT(state == RUNS && seen_generation <= generation, state, seen_generation, generation);
    left = ++generation;
    weft__alarm_wake();
    while (seen_generation < left) pthread_cond_wait(&changed, &registry);
    join_ended();
    pthread_mutex_unlock(&registry);
    ctx->guarded = false;
    weft__alarm_send(ctx); /* the sockets are this thread's now */
    weft__dumping_finish(ctx);
    weft__alarm_send(ctx); /* a dump that began only now asks the other hosts for theirs */
}
