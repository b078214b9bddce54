/* leave.c - the end of a context: finalize, abort, exit, fork.
 *
 * Order: no new work; what runs settles; goodbyes are taken; threads end; everything is freed. */
#include "leave.h"
#include "alarm.h"
#include "batch.h"
#include "breaks.h"
#include "descriptor.h"
#include "device_comm.h"
#include "device_memory.h"
#include "dumping.h"
#include "engine.h"
#include "executor.h"
#include "group.h"
#include "host.h"
#include "keys.h"
#include "leave_together.h"
#include "log.h"
#include "membership.h"
#include "mesh.h"
#include "modules.h"
#include "peer.h"
#include "progress.h"
#include "recording.h"
#include "region.h"
#include "straggler.h"
#include "watchdog.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXIT_MS        2000 /* what a context that is still open gets at exit */
#define ABORT_FLUSH_NS (100 * WEFT__MS)
#define MODULE_MS      2000 /* what a module gets to let go of requests that were given up */
#define LOOK_NS        (WEFT__MS / 5)
#define LOOK_MOST_NS   (10 * WEFT__MS)
#define NAME_BYTES     32 /* of a backend, as modules.c takes them */
#define KNOWN_BACKENDS 16 /* further ones are watched anew with each context */
#define LOOK_SHARE     8  /* a rest is this part of what has been waited for: so it delays nobody by more */

static pthread_mutex_t contexts_lock = PTHREAD_MUTEX_INITIALIZER;
static weft_context *contexts; /* open ones, the oldest first */

static void take_from_list(weft_context *ctx)
{
    pthread_mutex_lock(&contexts_lock);
    for (weft_context **at = &contexts; *at; at = &(*at)->next)
        if (*at == ctx) {
            *at = ctx->next;
            break;
        }
    pthread_mutex_unlock(&contexts_lock);
}

weft_context *weft_current(void)
{
    weft_context *ctx;
    if (weft__forked()) return NULL;
    pthread_mutex_lock(&contexts_lock);
    ctx = contexts;
    pthread_mutex_unlock(&contexts_lock);
    return ctx;
}

/* Ends the threads, and with them all that this rank tells others. */
static void fall_silent(weft_context *ctx)
{
    weft__progress_stop(ctx);
    weft__watchdog_leave(ctx);
    if (ctx->wire)
        weft__watchdog_wire_close(
            ctx->wire); /* first: what it still has to tell should be ahead of the ends */
    ctx->wire = NULL;
}

/* The longer it has waited, the longer it rests: where all ranks leave, those that look would keep those that are
 * still to come from their processors. */
static void leave_rest(int64_t waited_ns)
{
    int64_t ns = waited_ns / LOOK_SHARE;
    struct timespec t = {0, ns < LOOK_NS ? LOOK_NS : ns > LOOK_MOST_NS ? LOOK_MOST_NS : ns};
    nanosleep(&t, NULL);
}

static void close_bell(int fd)
{
    weft__descriptor_disown(fd);
    close(fd);
}

/* Who has left, or died, waits for no answer there. */
static void close_rendezvous(weft_context *ctx)
{
    for (int r = 0; ctx->rendezvous && ctx->peers && r < ctx->world_size; r++)
        if (weft__is_gone(&ctx->peers[r])) weft__rendezvous_note_gone(ctx->rendezvous, r);
    weft__rendezvous_close(ctx->rendezvous);
}

void weft__context_free(weft_context *ctx)
{
    bool let_go;
    WEFT__ASSERT(!weft__holds_any_engine());
    take_from_list(ctx);
    let_go = weft__modules_await(ctx, weft__now_ns() + MODULE_MS * WEFT__MS);
    fall_silent(ctx);
    weft__log_flush(); /* what is told of this context is told before it is gone */
    if (ctx->rendezvous) weft__dumping_close();
    weft__recording_leave(ctx);
    if (!let_go) { /* a thread may come back to it, so nothing is freed; but the witness is told */
        weft__membership_leave_at_exit(ctx);
        return;
    }
    weft__device_comms_shut(ctx);
    weft__modules_leave_host(ctx);
    for (int i = 0; i < WEFT__TRANSPORTS_COUNT; i++)
        if (ctx->transports[i]) ctx->transports[i]->close(ctx->transports[i]);
    close_rendezvous(ctx);
    weft__peers_close(ctx);
    weft__batches_close(ctx);
    weft__requests_close(ctx);
    weft__meshes_close(ctx);
    weft__groups_close(ctx);
    weft__seats_free(ctx->host_tree);
    weft__device_memory_close(ctx);
    weft__modules_close(ctx);           /* after all that has something of it */
    weft__context_close_protocols(ctx); /* after the threads of modules that answer to them */
    if (ctx->p2p) weft__p2p_close(ctx->p2p);
    if (ctx->poller.epoll_fd >= 0) weft__poller_close(&ctx->poller);
    weft__regions_free(ctx->regions);
    if (ctx->segment)
        weft__segment_free(ctx->segment); /* its bell with it */
    else if (ctx->bell_fd >= 0)
        close_bell(ctx->bell_fd);
    weft__completion_fd_close(&ctx->completion_fd);
    weft__recording_close(ctx);
    weft__slab_destroy(&ctx->requests);
    weft__keys_drop(ctx->keys);
    free(ctx->peers);
    free(ctx);
}

/* Goodbye over the data plane; ranks that were never connected to hear it from the watchdog, unless all leave.
 * why: with WEFT_OK too, where it is more than that this rank has left. */
static void say_bye(weft_context *ctx, weft_status status, const char *why)
{
    weft__notice notice = {.kind = WEFT__NOTICE_GONE,
                           .subject = ctx->rank,
                           .number = status == WEFT_OK ? WEFT__LEFT : WEFT__DIED};
    bool together = ctx->leaving == WEFT__LEAVES_TOGETHER;
    WEFT__ASSERT(!ctx->said_bye && atomic_load(&ctx->closing) && weft__holds_engine(ctx));
    if (status == WEFT_OK)
        snprintf(notice.text, sizeof notice.text, "%.400s", *why ? why : "has left");
    else
        snprintf(notice.text, sizeof notice.text, "has aborted: %.400s", why);
    weft__breaks_repeat(ctx); /* first, on either way */
    for (int i = 0; i < ctx->world_size && !together; i++)
        if (i != ctx->rank && !weft__is_gone(&ctx->peers[i]) && !weft__peer_reached(ctx, i))
            weft__alarm_tell(ctx, i, &notice);
    weft__record_life(&ctx->record, WEFT__LIFE_STAGE,
                      status == WEFT_OK ? WEFT__STAGE_LEAVING : WEFT__STAGE_ABORTING);
    weft__record_life(&ctx->record, WEFT__LIFE_STATUS, (uint64_t)(int64_t)status);
    weft__record_life(&ctx->record, WEFT__LIFE_LEAVING, (uint64_t)weft__now_ns());
    weft__record_happened(&ctx->record, WEFT__HAPPENED_LEAVING, -1, (uint64_t)(int64_t)status);
    ctx->record.failed = ctx->record.failed || status != WEFT_OK || *why;
    weft__p2p_bye(ctx->p2p, status, why, !together);
    ctx->said_bye = true;
}

/* This rank has begun to leave, so it sends nothing to itself any more. */
static bool can_be_sent(const weft_request *req)
{
    const weft_group *group = req->group;
    if (weft__kind_way(req->op.kind) != WEFT__RECEIVES || req->op.memory != WEFT_MEMORY_HOST ||
        req->executor->has_met(req))
        return true;
    for (int i = 0; i < group->size; i++)
        if ((req->op.peer == WEFT_ANY_RANK || req->op.peer == i) && i != group->rank &&
            atomic_load(&group->ctx->peers[group->world[i]].gone) == WEFT__LIVES)
            return true;
    return false;
}

/* A receive that nobody is left to send to ends, or leaving would have to wait for its deadline. */
static void end_unsendable(weft_context *ctx)
{
    WEFT__LIST_EACH(&ctx->pending, at)
    {
        weft_request *req = WEFT__LIST_ENTRY(at, weft_request, pending);
        char name[256], text[WEFT__SENTENCE_BYTES];
        if (weft__request_state(req) != WEFT__RUNNING || can_be_sent(req)) continue;
        weft__request_name(req, name, sizeof name);
        snprintf(text, sizeof text, "%s: rank %d is leaving, and nobody else is there who could send it",
                 name, ctx->rank);
        weft__request_fail(req, WEFT_ERR_PEER, text);
        return; /* ending one may end others: the next pass finds the next */
    }
}

bool weft__leave_check(weft_context *ctx, const char *why, int *moved)
{
    bool done;
    weft__engine_take(ctx);
    done = weft__inflight(ctx) == 0;
    ctx->sockets_in = 0;
    *moved = weft__engine_progress(ctx);
    if (done && !ctx->said_bye && weft__leave_together_check(ctx, why)) say_bye(ctx, WEFT_OK, why);
    if (!done) end_unsendable(ctx);
    done = done && ctx->said_bye && weft__p2p_bye_awaited(ctx->p2p) < 0 && !weft__p2p_busy(ctx->p2p);
    weft__engine_drop(ctx);
    return done;
}

/* True when all has settled and all goodbyes (with that word) are taken; drives the engine meanwhile. */
static bool drained(weft_context *ctx, int64_t deadline_ns, const char *why)
{
    int64_t now = weft__now_ns(), moved_ns = now;
    for (int looks = 0;; looks++) {
        int n;
        if (weft__leave_check(ctx, why, &n)) return true;
        now = weft__now_ns();
        if (deadline_ns != WEFT__NEVER && now >= deadline_ns) return false;
        if (n)
            moved_ns = now;
        else if (looks < 100)
            sched_yield();
        else
            leave_rest(now - moved_ns);
    }
}

static weft_request *oldest_pending(weft_context *ctx)
{
    return weft__list_empty(&ctx->pending) ? NULL
                                           : WEFT__LIST_ENTRY(ctx->pending.next, weft_request, pending);
}

/* Who has not joined a collective that leaving may have to wait for?  Asked early: the
 * answers take a while. */
static void ask_for_oldest(weft_context *ctx)
{
    weft_request *req;
    weft__engine_take(ctx);
    weft__engine_progress(ctx);
    req = oldest_pending(ctx);
    if (req) weft__straggler_ask(req);
    weft__engine_drop(ctx);
}

/* What leaving waits for, and whom. */
static weft_status still_pending(weft_context *ctx)
{
    char what[WEFT__SENTENCE_BYTES] = "", who[192], why[160] = "";
    long long unsettled = (long long)weft__inflight(ctx);
    weft_request *req;
    bool asks;
    int peer;
    weft__engine_take(ctx);
    asks = ctx->leaving == WEFT__ASKS;
    req = oldest_pending(ctx);
    peer = weft__p2p_bye_awaited(ctx->p2p);
    if (req) {
        weft__straggler_text(req, weft__now_ns(), what, sizeof what);
    } else if (!unsettled && peer >= 0) {
        const char *want = weft__peer_want(ctx, peer);
        weft__peer_name(ctx, peer, who, sizeof who);
        if (want) snprintf(why, sizeof why, ", as this rank has no connection to it: %.100s", want);
    }
    weft__engine_drop(ctx);
    if (req)
        return weft__fail(WEFT_PENDING, "finalize: %lld request%s not settled; %s%.800s", unsettled,
                          unsettled == 1 ? " has" : "s have", unsettled == 1 ? "" : "the oldest is ", what);
    if (unsettled)
        return weft__fail(WEFT_PENDING, "finalize: the callbacks of %lld requests have not returned",
                          unsettled);
    if (asks)
        return weft__fail(WEFT_PENDING, "finalize: this rank waits a moment for the others to leave too");
    return peer >= 0 ? weft__fail(WEFT_PENDING, "finalize: %s has not taken what was sent to it%s", who, why)
                     : weft__fail(WEFT_PENDING, "finalize: the last messages have not left this process");
}

weft_status weft_finalize(weft_context *ctx, int64_t timeout_ms)
{
    int64_t deadline = timeout_ms < 0 ? WEFT__NEVER : weft__deadline(weft__now_ns(), timeout_ms);
    weft_status status = weft__usable(ctx);
    if (status != WEFT_OK) return status;
    if (weft__in_callback()) return weft__fail(WEFT_ERR_STATE, "finalize waits: not in a callback");
    atomic_store(&ctx->closing, true);
    ask_for_oldest(ctx);
    if (!drained(ctx, deadline, "")) return still_pending(ctx);
    weft__context_free(ctx);
    return WEFT_OK;
}

static void cancel_all(weft_context *ctx, const char *text)
{
    while (!weft__list_empty(&ctx->pending)) {
        weft_request *req = WEFT__LIST_ENTRY(ctx->pending.next, weft_request, pending);
        if (weft__request_state(req) == WEFT__DRAINING) {
            req->buffers_held = true;
            req->executor->abandon(req);
        } else {
            weft__request_fail(req, WEFT_ERR_CANCELLED, text);
        }
    }
}

static void give_up(weft_context *ctx, const char *why)
{
    char text[WEFT__SENTENCE_BYTES];
    int64_t until;
    atomic_store(&ctx->closing, true);
    snprintf(text, sizeof text, "rank %d aborted: %.400s", ctx->rank, why ? why : "");
    weft__engine_take(ctx);
    weft__engine_progress(ctx);
    ctx->aborting = true;
    cancel_all(ctx, text);
    weft__leave_alone(ctx);
    if (!ctx->said_bye) say_bye(ctx, WEFT_ERR_CANCELLED, why ? why : "");
    weft__engine_drop(ctx);
    until = weft__now_ns() + ABORT_FLUSH_NS;
    while (weft__now_ns() < until) {
        bool busy;
        weft__engine_take(ctx);
        weft__engine_progress(ctx);
        busy = weft__p2p_busy(ctx->p2p) || weft__p2p_bye_awaited(ctx->p2p) >= 0;
        weft__engine_drop(ctx);
        if (!busy && weft__inflight(ctx) == 0) break;
        leave_rest(0);
    }
}

void weft_abort(weft_context *ctx, const char *why)
{
    if (weft__usable(ctx) != WEFT_OK || weft__in_callback()) return;
    give_up(ctx, why);
    weft__context_free(ctx);
}

/* What a module works with may be on its way out, and an abort amid that hangs. */
static void stop_no_communicators(weft_context *ctx)
{
    weft__engine_take(ctx);
    ctx->exiting = true;
    weft__engine_drop(ctx);
}

/* Everything that others must see, and nothing freed: other threads may still be inside calls, and the
 * process is about to go anyway. */
static void leave_at_exit(weft_context *ctx, int code)
{
    char why[64] = "";
    if (code) snprintf(why, sizeof why, "has exited with code %d without leaving the job", code);
    atomic_store(&ctx->closing, true);
    stop_no_communicators(ctx);
    if (!drained(ctx, weft__now_ns() + EXIT_MS * WEFT__MS, why))
        give_up(ctx, "its process exits with work under way");
    fall_silent(ctx);
    weft__membership_leave_at_exit(ctx);
    weft__log_flush();
    weft__recording_leave(ctx);
    close_rendezvous(ctx);
    ctx->rendezvous = NULL;
}

static void at_exit(int code, void *arg)
{
    static bool left; /* one thread exits, however often this is registered */
    (void)arg;
    if (left || weft__forked() || weft__in_callback()) return;
    left = true;
    for (weft_context *ctx = weft_current(); ctx; ctx = ctx->next) leave_at_exit(ctx, code & 0xff);
}

/* Has a module of that name been here before?  Lock held. */
static bool is_known(const char *name)
{
    static struct {
        char name[NAME_BYTES];
    } known[KNOWN_BACKENDS];
    size_t i = 0;
    while (i < WEFT__LENGTH(known) && *known[i].name && strcmp(known[i].name, name) != 0) i++;
    if (i == WEFT__LENGTH(known)) return false;
    if (*known[i].name) return true;
    snprintf(known[i].name, sizeof known[i].name, "%s", name);
    return false;
}

/* Handlers run in the reverse order.  What a module works with has registered its own when it was loaded, or first
 * called, and must not be gone before the contexts have left: so this comes after the first loading of each module,
 * also of one for a kind of memory that another was for before.  Lock held. */
static void watch_exit(weft_context *ctx)
{
    bool anew = !is_known("host");
    for (weft__module *m = weft__module_next(ctx, NULL); m; m = weft__module_next(ctx, m))
        if (!is_known(m->backend->name)) anew = true;
    if (anew) on_exit(at_exit, NULL);
}

void weft__lifetime_add(weft_context *ctx)
{
    weft_context **at = &contexts;
    pthread_mutex_lock(&contexts_lock);
    watch_exit(ctx);
    while (*at) at = &(*at)->next;
    *at = ctx;
    pthread_mutex_unlock(&contexts_lock);
}

/* on_exit, which tells the code, knows nothing of a library that is unloaded before the end. */
static void stay_loaded(void)
{
    Dl_info self;
    if (dladdr(&contexts, &self) && self.dli_fname)
        (void)dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

static void leave_begin(void)
{
    weft__fork_watch();
    stay_loaded();
}

void weft__lifetime_begin(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, leave_begin);
}
