/* modules.c - backends outside the library: fed, and closed.
 *
 * Work for a module goes to a queue that the progress thread takes, or where the module allows it (any_thread) a caller
 * who waits; its calls run with the engine let go, because they may block.  The module's reference keeps a request's
 * record alive until it has finished it, also when the watchdog has settled the request meanwhile. */
#include "modules.h"
#include "device.h"
#include "engine.h"
#include "group.h"
#include "group_break.h"
#include "linger.h"
#include "log.h"
#include "peer.h"
#include "program.h"
#include "ranges.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define AWAIT_PAUSE_NS WEFT__MS
#define LEAVES_NS      (2000 * WEFT__MS) /* for who is on the way out of a module, before it is closed; */
#define LOST_LEAVES_NS (100 * WEFT__MS)  /* and for who has not come back out of it for long */
/* Who waits polls a module so often before it looks at all else again, which costs more than a poll. */
#define SERVED_POLLS 8
#define LOOK_NS      (20 * WEFT__US) /* between looks while nobody waits */

/* What the runtime knows of the communicator's end is better than what a call on it says. */
static void explain(const weft_request *req, weft_status *status, const char *sentence, char *text,
                    size_t bytes)
{
    /* Messages that go together are no one's but their own: the first may be over and gone. */
    const weft__device *d = req->device;
    const weft__device_comm *dev_comm =
        weft__kind_traits(req->op.kind) & WEFT__PAIR ? d->dev_comm : d->fused->dev_comm;
    char name[256], who[192];
    weft__request_name(req, name, sizeof name);
    if (dev_comm && dev_comm->state == WEFT__DEVICE_COMM_DOOMED) {
        *status = dev_comm->status;
        snprintf(text, bytes, "%s: %.700s", name, dev_comm->why);
        return;
    }
    weft__peer_name(req->ctx, req->ctx->rank, who, sizeof who);
    snprintf(text, bytes, "%s: %s: %.500s", name, who, sentence ? sentence : weft_status_text(*status));
}

static void end(weft_request *req, weft_status status, const char *sentence)
{
    char text[WEFT__SENTENCE_BYTES];
    bool pair = weft__kind_traits(req->op.kind) & WEFT__PAIR;
    if (weft__request_state(req) == WEFT__DRAINING) {
        weft__device_settles(req->device);
        weft__request_settle(req, req->draining_status, NULL);
        return;
    }
    if (weft__request_state(req) > WEFT__DRAINING) return; /* abandoned */
    if (status == WEFT_OK) {
        if (pair)
            weft__device_pair_done(req);
        else if (weft__device_done(req)) {
            weft__device_settles(req->device);
            weft__request_settle(req, WEFT_OK, NULL);
        }
        return;
    }
    explain(req, &status, sentence, text, sizeof text);
    weft__device_stop_agreeing(req->device); /* in program order it may fail before all have come */
    if (pair && req->capture) weft__device_pair_stop(req); /* which may not have met yet */
    weft__device_settles(req->device);
    weft__request_settle(req, status, text);
    if (pair)
        weft__device_pair_give_up(req, status, text);
    else
        weft__group_break(req->group, &(weft__verdict){status, req->sequence, -1, text}, true);
}

/* From one call of a module to the next, `to` 0: to none.  False: while it was inside, this thread was given up
 * (device.c), and nothing of the context is its own any more. */
static bool is_back(weft_context *ctx, int64_t *since, int64_t to)
{
    bool back = atomic_compare_exchange_strong(&ctx->blocked_since, since, to);
    *since = to;
    if (back) weft__record_life(&ctx->record, WEFT__LIFE_MODULE, (uint64_t)to);
    return back;
}

static WEFT__THREAD_WORD weft_context *inside; /* the progress thread's, while it is inside a module */

/* One call of a module may begin or end thousands of works: as long as it tells of them it is not stuck (device.c). */
static void tells(int64_t ns)
{
    if (inside) atomic_store(&inside->told_ns, ns);
}

static void module_waits(void)
{
    tells(weft__now_ns());
}

static void stands_behind(weft_backend_work *work, bool behind)
{
    weft__device *d = work->owner;
    if (atomic_exchange(&d->behind_stream, behind) != behind)
        atomic_fetch_add(&d->module->behind, behind ? 1 : -1);
}

static void modules_finish(weft_backend_work *work, weft_status status, const char *sentence)
{
    weft__device *d = work->owner;
    weft__module *module = d->module;
    weft_request *req = d->req;
    weft_context *ctx = req->ctx;
    bool entered;
    _Atomic int *count;
    tells(WEFT__NEVER); /* who has the engine may be giving up a thousand works */
    entered = weft__engine_enter(ctx);
    count = req->abandoned ? &ctx->device_left : &ctx->device_pending;
    weft__program_went(d);
    if (WEFT__UNLIKELY(atomic_load_explicit(&d->behind_stream, memory_order_relaxed)))
        stands_behind(work, false);
    work->marker = NULL;
    end(req, status, sentence);
    if (d->part.dev_comm) weft__device_comm_split_over(d->part.dev_comm);
    weft__linger(ctx, module);
    weft__device_told(d, WEFT__PHASE_OVER); /* whoever sees this sees how it ended */
    weft__engine_leave(ctx, entered);
    weft__request_unref(req);
    tells(weft__now_ns());
    atomic_fetch_sub(count, 1);
    atomic_fetch_sub(&module->pending, 1); /* last: whoever ends the context waits for this alone */
}

static void issued(weft_backend_work *work)
{
    tells(weft__now_ns());
    weft__program_went(work->owner);
    weft__device_told(work->owner, WEFT__PHASE_RUNNING);
}

static void module_log(int level, const char *line)
{
    weft__log((enum weft__log_level)(level < WEFT__ERROR   ? WEFT__ERROR
                                     : level > WEFT__DEBUG ? WEFT__DEBUG
                                                           : level),
              "%s", line);
}

static int64_t module_now(void)
{
    return weft__now_ns();
}

const weft_backend_runtime weft__modules_table = {
    WEFT_BACKEND_VERSION,     modules_finish,    issued,     stands_behind, weft__device_comm_named,
    weft__device_comm_joined, weft__module_fail, module_log, module_now,    module_waits,
};

void weft__module_recorded(weft_context *ctx, const weft__module *module, weft__record_event what)
{
    if (ctx->recording)
        weft__record_happened(&ctx->record, what, -1, weft__record_way(&ctx->record, module->backend->name));
}

void weft__modules_met(weft_context *ctx, const weft__module_card *cards)
{
    for (int i = 0; i < ctx->world_size; i++) ctx->peers[i].modules = weft__modules_alike(ctx, &cards[i]);
    for (weft__module *m = weft__module_next(ctx, NULL); m; m = weft__module_next(ctx, m))
        for (int i = 0; i < ctx->world_size && m->addresses; i++)
            m->addresses[i] = cards[i].address[weft__module_memory(ctx, m)];
    ctx->world->modules = weft__group_modules(ctx->world);
    ctx->host_group->modules = weft__group_modules(ctx->host_group);
}

static bool anybody_died(const weft_context *ctx)
{
    for (int rank = 0; rank < ctx->world_size; rank++)
        if (weft__is_dead(&ctx->peers[rank])) return true;
    return false;
}

/* It may touch its memory, and the program's, at any time to come. */
static void tell_left(weft_context *ctx, const weft__module *m)
{
    const int pending = atomic_load(&m->pending), behind = atomic_load(&m->behind);
    char streams[120] = "";
    if (behind)
        snprintf(streams, sizeof streams,
                 ", of which %d wait for a stream of the program's that has not reached them", behind);
    weft__log(WEFT__WARN,
              "leaving: backend %s of rank %d has not finished %d operations%s: what it has is left behind",
              m->backend->name, ctx->rank, pending, streams);
}

bool weft__modules_await(weft_context *ctx, int64_t until_ns)
{
    const struct timespec pause = {0, AWAIT_PAUSE_NS};
    bool all = true;
    for (weft__module *m = weft__module_next(ctx, NULL); m; m = weft__module_next(ctx, m)) {
        const bool never = m->backend->unstoppable && anybody_died(ctx);
        while (atomic_load(&m->pending) && !atomic_load(&m->lost) && !never && weft__now_ns() < until_ns)
            nanosleep(&pause, NULL);
        if (atomic_load(&m->pending) && !atomic_exchange(&m->lost, true)) tell_left(ctx, m);
        all = all && !atomic_load(&m->lost);
    }
    return all;
}

static bool take_turn(weft__module *module)
{
    return !module->backend->any_thread || !atomic_exchange(&module->turn, true);
}

static void give_turn(weft__module *module)
{
    if (module->backend->any_thread) atomic_store_explicit(&module->turn, false, memory_order_release);
}

void weft__modules_leave_host(weft_context *ctx)
{
    for (weft__module *m = weft__module_next(ctx, NULL); m; m = weft__module_next(ctx, m))
        if (m->backend->leave_host) m->backend->leave_host(m->backend);
}

/* Whoever finished the last work is on its way out, however long others keep the processor. */
static void await_turn(weft__module *module)
{
    const int64_t until = weft__now_ns() + (atomic_load(&module->lost) ? LOST_LEAVES_NS : LEAVES_NS);
    while (!take_turn(module) && weft__now_ns() < until) sched_yield();
}

void weft__modules_close(weft_context *ctx)
{
    bool death = ctx->module_count && anybody_died(ctx);
    for (weft__module *m = weft__module_next(ctx, NULL); m; m = weft__module_next(ctx, m)) {
        weft__module_recorded(ctx, m, WEFT__HAPPENED_MODULE_UNLOADED);
        await_turn(m);
        if (death && m->backend->abandon) m->backend->abandon(m->backend);
        m->backend->close(m->backend);
        m->backend = NULL;
        dlclose(m->handle);
        m->handle = NULL;
        free(m->addresses);
        m->addresses = NULL;
    }
    if (ctx->module_count) weft__slab_destroy(&ctx->devices);
    ctx->module_count = 0;
}

/* Nobody waits for it any more, so nobody hurries: the progress thread sees to its end now and then. */
void weft__module_abandon(weft_request *req)
{
    WEFT__ASSERT(weft__holds_engine(req->ctx) && !req->abandoned);
    req->abandoned = true;
    atomic_fetch_add(&req->ctx->device_left, 1);
    atomic_fetch_sub(&req->ctx->device_pending, 1);
    weft__engine_nudge(req->ctx); /* who waits leaves it alone from now on */
    weft__device_settles(req->device);
    weft__request_settle(req, req->draining_status, NULL);
}

static void modules_split(weft__module *module, weft_backend_work *work)
{
    const weft__device *d = work->owner;
    const weft__part *part = &d->part;
    weft_backend_comm *made = part->dev_comm ? part->dev_comm->comm : NULL;
    module->backend->split(work->comm, made, made ? part->color : -1, part->key);
    modules_finish(work, WEFT_OK, NULL);
}

static void modules_start(weft__module *module, weft__device *first)
{
    if (weft__request_state(first->req) < WEFT__DRAINING) {
        const bool shows = WEFT__UNLIKELY(weft__ranges_on());
        if (shows) weft__range_push("issue", &first->req->op, first->req->group);
        if (first->part.splits)
            modules_split(module, &first->work);
        else
            module->backend->start(module->backend, &first->work);
        if (shows) weft__range_pop();
        return;
    }
    for (weft_backend_work *work = &first->work; work;) { /* ended before it began */
        weft_backend_work *next = work->next;
        void *marker = work->marker;
        modules_finish(work, WEFT_ERR_CANCELLED, NULL);
        weft__module_unmark(module, marker);
        work = next;
    }
}

/* A lost module begins nothing more. */
static void modules_refuse(weft__mpsc_node *node)
{
    while (node) {
        weft_backend_work *work = &WEFT__OWNER(node, weft_request, node)->device->work;
        node = node->next;
        while (work) {
            weft_backend_work *next = work->next;
            modules_finish(work, WEFT_ERR_SYSTEM, "its device is lost: a call on it has not returned");
            work = next;
        }
    }
}

/* Where a caller is inside, so that the rest of the library goes on without it (watchdog.c). */
static void served_since(weft_context *ctx, weft__module *module, int64_t ns)
{
    atomic_store_explicit(&module->served_since, ns, memory_order_relaxed);
    weft__record_life(&ctx->record, WEFT__LIFE_MODULE, (uint64_t)ns);
}

/* Until something is done.  Where ranks share processors, another may wait for this one. */
static int poll_while_idle(const weft_context *ctx, const weft__module *module)
{
    int most = weft__pacing_is_crowded(&ctx->pacing) ? 1 : SERVED_POLLS, n = 0;
    for (int i = 0; i < most && n == 0; i++) n = module->backend->poll(module->backend);
    return n;
}

/* A call that does not come back keeps its caller, and with it all works of that module, until their deadlines. */
int weft__module_progress_by_caller(weft_context *ctx, int64_t now_ns)
{
    int n = 0;
    if (atomic_load_explicit(&ctx->device_pending, memory_order_relaxed) == 0) return 0;
    WEFT__ASSERT(!weft__holds_engine(ctx));
    for (weft__module *m = weft__module_next(ctx, NULL); m; m = weft__module_next(ctx, m)) {
        weft__mpsc_node *node;
        if (!m->backend->any_thread || atomic_load(&m->lost) || !take_turn(m)) continue;
        served_since(ctx, m, now_ns);
        for (node = weft__mpsc_take_all(&m->work); node; n++) {
            weft_request *req = WEFT__OWNER(node, weft_request, node);
            node = node->next;
            modules_start(m, req->device);
        }
        n += poll_while_idle(ctx, m);
        served_since(ctx, m, 0);
        give_turn(m);
    }
    return n;
}

/* Each look takes locks of the driver's that callers need to begin works: as long as nobody waits, not at every pass. */
static bool is_early(const weft_context *ctx, weft__module *module, int64_t now)
{
    if (module->backend->by_callers && now - module->looked_ns < LOOK_NS &&
        !atomic_load_explicit(&ctx->drivers, memory_order_relaxed) &&
        !atomic_load_explicit(&ctx->settling_sleepers, memory_order_relaxed))
        return true;
    module->looked_ns = now;
    return false;
}

static int serve(weft_context *ctx, weft__module *module, weft__mpsc_node *node, int64_t *since)
{
    int n = 0;
    while (node) {
        weft_request *req = WEFT__OWNER(node, weft_request, node);
        node = node->next;
        modules_start(module, req->device);
        if (!is_back(ctx, since, weft__now_ns())) {
            modules_refuse(node);
            return -1;
        }
        n++;
    }
    n += module->backend->poll(module->backend);
    return is_back(ctx, since, 0) ? n : -1;
}

/* idle: poll it without works too.  -1: this thread was given up. */
static int progress(weft_context *ctx, weft__module *module, bool idle)
{
    weft__mpsc_node *node = weft__mpsc_take_all(&module->work);
    int64_t since = weft__now_ns();
    int n;
    if (!node && !idle && atomic_load(&module->pending) == 0) return 0;
    if (!node && is_early(ctx, module, since)) return 0;
    atomic_store(&ctx->blocked_in, (int)weft__module_memory(ctx, module));
    atomic_store(&ctx->blocked_since, since);
    weft__record_life(&ctx->record, WEFT__LIFE_MODULE, (uint64_t)since);
    inside = ctx;
    n = serve(ctx, module, node, &since);
    inside = NULL;
    return n;
}

int weft__module_progress(weft_context *ctx)
{
    const bool lingers = weft__linger_is_due(ctx);
    int n = 0;
    if (!lingers && atomic_load_explicit(&ctx->device_pending, memory_order_relaxed) == 0 &&
        atomic_load_explicit(&ctx->device_left, memory_order_relaxed) == 0)
        return 0;
    WEFT__ASSERT(!weft__holds_engine(ctx));
    for (weft__module *m = weft__module_next(ctx, NULL); m; m = weft__module_next(ctx, m)) {
        int moved;
        if (atomic_load_explicit(&m->lost, memory_order_relaxed)) {
            modules_refuse(weft__mpsc_take_all(&m->work));
            continue;
        }
        if (!take_turn(m)) continue;
        moved = progress(ctx, m, lingers && atomic_load_explicit(&m->lingers, memory_order_relaxed));
        if (moved < 0) return -1;
        give_turn(m);
        n += moved;
    }
    return n;
}
