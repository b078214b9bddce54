/* progress.c - the progress thread: it drives the engine when nobody who waits does, runs callbacks and
 * modules.
 *
 * It rests in two depths; pacing.h says when, and how long it naps.  Nap: for some milliseconds after the
 * last activity it sleeps by a timer and polls by itself; nobody has to ring it.  Sleep: it arms the
 * doorbell, polls once more, and blocks in libevent on the doorbell and the data plane's descriptors.  No
 * wake-up is lost: it publishes that it sleeps before the last poll, and whoever gives it work publishes that
 * before checking whether it sleeps.
 *
 * It blocks by poll(2), also inside libevent.  The data plane's descriptors are an epoll set already, and to
 * put an epoll set into another, as libevent would by itself, the kernel takes one lock for the whole
 * machine. With some hundred ranks on few processors each of its holders waits for a processor, the threads
 * of all ranks stand behind it, and nobody reads their sockets: for minutes. */
#include "progress.h"
#include "affinity.h"
#include "alarm.h"
#include "engine.h"
#include "executor.h"
#include "linger.h"
#include "log.h"
#include "quota.h"
#include "recording.h"
#include "request.h"
#include "rest.h"

#include <errno.h>
#include <event2/event.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define CALLED_LONG_NS   (10 * WEFT__MS) /* callbacks that took longer are worth a record */
#define LEFT_US          20000           /* between looks at what was given up and modules still have, */
#define LEFT_CLOSING_US  1000            /* and while who leaves waits for that */
#define HELD_US          1000 /* between looks at what streams have reached, while some are held (behind.h) */
#define PASS_NS          (20 * WEFT__US) /* between passes while all that is under way is with devices */
#define BASE_DESCRIPTORS 6               /* of an event base; without a pipe libevent ends the process */

typedef struct weft__sleeper {
    weft_context *ctx;
    struct event_base *base;
    struct event *bell, *sockets, *timer;
    int timer_fd; /* of naps, which are shorter than poll's millisecond */
    weft__affinity affinity;
    bool watching;           /* `sockets` is in the base */
    bool dozes;              /* nothing but its clock has ended the last sleep, and there was nothing to do */
    bool napped;             /* since it last drove the engine */
    int64_t passed_ns;       /* when it last made a pass while all was with devices */
    unsigned woken;          /* weft__woken_by: by what since it was last read */
    uint32_t active, driven; /* the context's, when last read; of its own calls it keeps count */
} sleeper;

/* A callback may take its time, and even wait for what other threads do with this context.  Until it has
 * returned this thread drives nothing: the watchdog does, and callers who wait. */
static int run_callbacks(sleeper *s)
{
    weft_context *ctx = s->ctx;
    int n = 0;
    int64_t since;
    weft__mpsc_node *node = weft__mpsc_take_all(&ctx->callbacks);
    if (!node) return 0;
    WEFT__ASSERT(!atomic_load(&ctx->calling_since) && !weft__holds_any_engine());
    weft__affinity_leave(&s->affinity);
    since = weft__now_ns();
    atomic_store(&ctx->calling_since, since);
    weft__record_life(&ctx->record, WEFT__LIFE_CALLING, (uint64_t)since);
    weft__alarm_tick(ctx);
    while (node) {
        weft_request *req = WEFT__OWNER(node, weft_request, node);
        node = node->next; /* before the callback: the record may be gone after publishing */
        weft__record_life(&ctx->record, WEFT__LIFE_CALLED, req->record >> WEFT__OPERATION_STAMP_BITS);
        weft__request_call_back(req);
        n++;
    }
    atomic_store(&ctx->calling_since, 0);
    weft__record_life(&ctx->record, WEFT__LIFE_CALLING, 0);
    since = weft__now_ns() - since;
    if (since > CALLED_LONG_NS)
        weft__record_happened(&ctx->record, WEFT__HAPPENED_CALLBACK, -1, (uint64_t)since);
    return n;
}

static void on_bell(evutil_socket_t fd, short what, void *arg)
{
    uint64_t count;
    (void)what;
    ((sleeper *)arg)->woken |= WEFT__BY_BELL;
    while (read(fd, &count, sizeof count) < 0 && errno == EINTR) {
    }
}

/* The sockets or the timer are ready.  Only one to wake up: the next call of progress polls what there
 * is. */
static void on_reason(evutil_socket_t fd, short what, void *arg)
{
    sleeper *s = arg;
    (void)what;
    s->woken |= fd == s->timer_fd ? WEFT__BY_CLOCK : WEFT__BY_SOCKETS;
}

static void record_rest(weft_context *ctx, weft__rest rest, int64_t now_ns)
{
    weft__record_life(&ctx->record, WEFT__LIFE_REST, rest | (uint64_t)now_ns << 8);
    weft__record_rests(&ctx->record, rest == WEFT__SLEEP, now_ns);
}

/* Back from where it rested.  Returns when. */
static int64_t record_awake(weft_context *ctx)
{
    int64_t now = ctx->recording ? weft__now_ns() : 0;
    record_rest(ctx, WEFT__AWAKE, now);
    return now;
}

static void set_timer(const sleeper *s, int64_t us)
{
    const struct itimerspec after = {.it_value = {us / 1000000, us % 1000000 * 1000}};
    timerfd_settime(s->timer_fd, 0, &after, NULL);
}

static void watch_sockets(sleeper *s, bool on)
{
    if (s->watching == on) return;
    if (on)
        event_add(s->sockets, NULL);
    else
        event_del(s->sockets);
    s->watching = on;
}

static void nap(sleeper *s, int64_t us, int64_t now_ns)
{
    WEFT__ASSERT(!weft__holds_any_engine() && us > 0, us);
    watch_sockets(s, false);
    s->dozes = false;
    weft__rest_to(s->ctx, WEFT__NAP);
    record_rest(s->ctx, WEFT__NAP, now_ns);
    set_timer(s, us);
    event_base_loop(s->base, EVLOOP_ONCE);
    set_timer(s, 0); /* nor will it wake a sleep, if it has rung */
    weft__rest_to(s->ctx, WEFT__AWAKE);
    s->napped = true;
    record_awake(s->ctx);
}

/* How long a sleep may be, for what modules have still; 0: until something happens. */
static int64_t longest_sleep_us(weft_context *ctx)
{
    int64_t us = weft__linger_us(ctx);
    if (atomic_load(&ctx->streams_held) && (!us || us > HELD_US)) us = HELD_US;
    if (!atomic_load(&ctx->device_left)) return us;
    if (atomic_load(&ctx->closing)) return LEFT_CLOSING_US;
    return us && us < LEFT_US ? us : LEFT_US;
}

/* Where the clock alone ends one sleep after the other, the record has them as one. */
static void wait_for_events(sleeper *s, int64_t now_ns)
{
    weft_context *ctx = s->ctx;
    const int64_t us = longest_sleep_us(ctx);
    int64_t awake_ns;
    watch_sockets(s, true);
    s->woken = 0;
    record_rest(ctx, WEFT__SLEEP, now_ns);
    if (!s->dozes) weft__record_event_now(&ctx->record, WEFT__HAPPENED_SLEEPS, -1, 0, now_ns);
    if (us) set_timer(s, us);
    event_base_loop(s->base, EVLOOP_ONCE);
    if (us) set_timer(s, 0);
    awake_ns = record_awake(ctx);
    s->dozes = s->woken == WEFT__BY_CLOCK;
    if (!s->dozes) weft__record_event_now(&ctx->record, WEFT__HAPPENED_WAKES, -1, s->woken, awake_ns);
}

/* Works that no caller who waits looks after; he counts himself out before he looks whether any are left. */
static bool has_works(weft_context *ctx)
{
    if (!atomic_load(&ctx->device_pending)) return false;
    if (!ctx->callers_serve) return true;
    atomic_thread_fence(memory_order_seq_cst);
    return !atomic_load_explicit(&ctx->drivers, memory_order_relaxed);
}

/* Blocks unless there turns out to be something to do. */
static void deep_sleep(sleeper *s, int64_t now_ns)
{
    weft_context *ctx = s->ctx;
    bool idle;
    weft__rest_to(ctx, WEFT__SLEEP);
    weft__engine_take(ctx);
    weft__engine_arm(ctx);
    idle = weft__engine_progress(ctx) == 0 && !weft__engine_busy(ctx);
    if (!idle) weft__rest_to(ctx, WEFT__AWAKE);
    weft__record_sleeps(&ctx->record);
    weft__engine_drop(ctx);
    if (idle && weft__mpsc_empty(&ctx->submitted) && weft__mpsc_empty(&ctx->callbacks) && !has_works(ctx) &&
        !atomic_load(&ctx->thread_stop))
        wait_for_events(s, now_ns);
    weft__engine_disarm(ctx);
    weft__rest_to(ctx, WEFT__AWAKE);
    weft__engine_take(ctx);
    ctx->sockets_in = 0;
    weft__engine_drop(ctx);
}

/* All that is under way is with a device, and nobody waits for it: a pass would find nothing mostly, and take the engine
 * from those who submit. */
static bool is_early(sleeper *s)
{
    const weft_context *ctx = s->ctx;
    const int works = atomic_load_explicit(&ctx->device_pending, memory_order_relaxed);
    int64_t now;
    if (!works || weft__inflight(ctx) != works || atomic_load(&ctx->settling_sleepers)) return false;
    now = weft__now_ns();
    if (now - s->passed_ns < PASS_NS) return true;
    s->passed_ns = now;
    return false;
}

/* One pass over everything that is this thread's.  Returns how much was done; -1: it was stuck in a module when
 * another thread took its place, and nothing of the context is its own any more. */
static int progress_poll(sleeper *s)
{
    weft_context *ctx = s->ctx;
    int n = run_callbacks(s);
    if (ctx->module_count) {
        int moved = ctx->executors[WEFT__EXECUTOR_DEVICE]->progress_on_thread(ctx);
        if (moved < 0) return -1;
        n += moved;
    }
    /* Somebody who waits drives the engine already. */
    if (atomic_load_explicit(&ctx->drivers, memory_order_relaxed) == 0 && !is_early(s) &&
        weft__engine_try(ctx)) {
        int moved;
        if (s->napped) ctx->sockets_in = 0;
        s->napped = false;
        moved = weft__engine_progress(ctx);
        weft__p2p_hurry(ctx->p2p); /* nobody may poll again for a while */
        if (moved) s->active++;
        if (moved || weft__engine_busy(ctx)) n++;
        weft__engine_drop(ctx);
    }
    return n;
}

static void sleeper_free(sleeper *s)
{
    if (s->bell) event_free(s->bell);
    if (s->sockets) event_free(s->sockets);
    if (s->timer) event_free(s->timer);
    if (s->base) event_base_free(s->base);
    if (s->timer_fd >= 0) close(s->timer_fd);
    free(s);
}

/* What is under way goes on when a peer's bytes come, and nobody else waits for them: then polling again is
 * in vain, and a timer would only come too early or too late. */
static bool sockets_will_wake(weft_context *ctx)
{
    return ctx->descriptors_wake && !ctx->segment && weft__inflight(ctx) > 0 &&
           atomic_load(&ctx->drivers) == 0;
}

static bool take_change(uint32_t *seen, const _Atomic uint32_t *count)
{
    uint32_t before = *seen;
    *seen = atomic_load_explicit(count, memory_order_relaxed);
    return *seen != before;
}

/* A pass has found nothing. */
static void progress_rest(sleeper *s, weft__resting *resting)
{
    weft_context *ctx = s->ctx;
    weft__resting_sight sight = {.others_worked = take_change(&s->active, &ctx->active),
                                 .callers_drive = take_change(&s->driven, &ctx->driven),
                                 .device_pending = has_works(ctx),
                                 .callers_sleep = atomic_load(&ctx->settling_sleepers) != 0 ||
                                                  atomic_load(&ctx->streams_held) != 0,
                                 .sockets_wake = sockets_will_wake(ctx)};
    int64_t now = weft__now_ns();
    weft__rest_next next = weft__resting_next(resting, &ctx->pacing, &sight, now);
    weft__recording_tend(ctx);
    if (s->dozes && next.pace == WEFT__PACE_NAP && !sight.device_pending)
        next.pace = WEFT__PACE_SLEEP; /* it was awake for a look only; whoever has work for it rings */
    if (next.pace == WEFT__PACE_NAP)
        nap(s, next.nap_us, now);
    else if (next.pace == WEFT__PACE_SLEEP)
        deep_sleep(s, now);
    if (!ctx->module_count) /* which may start threads of its own */
        weft__affinity_go(&s->affinity, atomic_load_explicit(&ctx->pacing.caller, memory_order_relaxed));
}

static void *progress_main(void *arg)
{
    sleeper *s = arg;
    weft_context *ctx = s->ctx;
    weft__resting resting;
    int n = 0;
    weft__thread_number = WEFT__KEEPS_NOTHING; /* the engine is for those who call */
    pthread_setname_np(pthread_self(), "weft-progress");
    weft__affinity_open(&s->affinity, WEFT__AFFINITY_LOAD);
    weft__resting_open(&resting,
                       !ctx->module_count   ? WEFT__TAKES_NONE
                       : ctx->callers_serve ? WEFT__TAKES_REST
                                            : WEFT__TAKES_ALONE,
                       weft__now_ns());
    s->active = atomic_load(&ctx->active);
    s->driven = atomic_load(&ctx->driven);

    while (n >= 0 && !atomic_load_explicit(&ctx->thread_stop, memory_order_acquire)) {
        n = progress_poll(s);
        s->dozes = s->dozes && n == 0;
        if (n > 0)
            weft__resting_found(&resting);
        else if (n == 0 && weft__resting_is_due(&resting, &ctx->pacing, sockets_will_wake(ctx)))
            progress_rest(s, &resting);
    }
    if (n >= 0) run_callbacks(s);
    weft__affinity_close(&s->affinity);
    sleeper_free(s);
    return NULL;
}

static weft_status make_base(sleeper *s)
{
    weft_status status = weft__quota_descriptors(BASE_DESCRIPTORS, "the progress thread");
    struct event_config *config;
    if (status != WEFT_OK) return status;
    s->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (s->timer_fd < 0) return weft__fail_errno("no timer for the progress thread");
    config = event_config_new();
    if (config) {
        event_config_avoid_method(config, "epoll");
        event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK); /* only this thread calls into the base */
        s->base = event_base_new_with_config(config);
        event_config_free(config);
    }
    if (!s->base) return weft__fail(WEFT_ERR_SYSTEM, "libevent makes no event base");
    s->bell = event_new(s->base, s->ctx->bell_fd, EV_READ | EV_PERSIST, on_bell, s);
    s->sockets = event_new(s->base, s->ctx->poller.epoll_fd, EV_READ | EV_PERSIST, on_reason, s);
    s->timer = event_new(s->base, s->timer_fd, EV_READ | EV_PERSIST, on_reason, s);
    if (!s->bell || !s->sockets || !s->timer || event_add(s->bell, NULL) || event_add(s->timer, NULL))
        return weft__fail(WEFT_ERR_SYSTEM, "libevent makes no event");
    return WEFT_OK;
}

static weft_status start_thread(sleeper *s)
{
    weft_context *ctx = s->ctx;
    sigset_t all, before;
    int error;
    sigfillset(&all); /* signals are the program's business */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&ctx->thread, NULL, progress_main, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!error) return WEFT_OK;
    errno = error;
    return weft__fail_errno("the progress thread cannot be started");
}

weft_status weft__progress_start(weft_context *ctx)
{
    sleeper *s = calloc(1, sizeof *s);
    weft_status status;
    if (!s) return weft__fail_memory(sizeof *s, "the progress thread");
    s->ctx = ctx;
    status = make_base(s);
    if (status == WEFT_OK) status = start_thread(s);
    ctx->thread_runs = status == WEFT_OK;
    if (!ctx->thread_runs) sleeper_free(s);
    return status;
}

void weft__progress_replace(weft_context *ctx)
{
    pthread_t stuck = ctx->thread;
    if (weft__progress_start(ctx) == WEFT_OK)
        pthread_detach(stuck);
    else
        weft__log(WEFT__ERROR, "callbacks cannot run any more: %s", weft_last_error());
}

void weft__progress_stop(weft_context *ctx)
{
    if (!ctx->thread_runs) return;
    atomic_store(&ctx->thread_stop, true);
    weft__engine_ring(ctx);
    pthread_join(ctx->thread, NULL);
    ctx->thread_runs = false;
}
