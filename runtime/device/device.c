/* device.c - operations on device memory on their way to the module. */
#include "device.h"
#include "agreement.h"
#include "alarm.h"
#include "device_bundle.h"
#include "device_captured.h"
#include "device_hold.h"
#include "device_lengths.h"
#include "device_replays.h"
#include "engine.h"
#include "executor.h"
#include "gate.h"
#include "group.h"
#include "group_break.h"
#include "line.h"
#include "log.h"
#include "modules.h"
#include "program.h"
#include "progress.h"
#include "ranges.h"
#include "recorded.h"
#include "settings.h"

#include <stdio.h>
#include <string.h>

/* The progress thread is in a call for so long, with the communicator aborted: the device is lost. */
#define STUCK_NS (500 * WEFT__MS)

void weft__device_reach(weft__device *d, weft__phase phase)
{
    uint32_t before = atomic_load_explicit(&d->phase, memory_order_relaxed);
    bool anew = phase == WEFT__PHASE_AGREEING && (before < WEFT__PHASE_ISSUING || before == WEFT__PHASE_OVER);
    /* It only grows, but in a record that is used again, and where a message's other side gave it up. */
    WEFT__ASSERT((uint32_t)phase >= before || anew, phase, before);
    atomic_store_explicit(&d->phase, (uint32_t)phase, memory_order_release);
    weft__recorded_reached(d->req, phase);
}

weft__phase weft__device_phase(const weft_request *req)
{
    return (weft__phase)atomic_load_explicit(&req->device->phase, memory_order_acquire);
}

/* As others are told of it. */
static weft__phase phase_to_tell(const weft_request *req)
{
    const weft__phase phase = weft__device_phase(req);
    return phase == WEFT__PHASE_RUNNING && atomic_load(&req->device->behind_stream) ? WEFT__PHASE_BEHIND
                                                                                    : phase;
}

void weft__device_told(weft__device *d, weft__phase phase)
{
    WEFT__ASSERT_HOT((uint32_t)phase >= atomic_load(&d->phase), phase, atomic_load(&d->phase));
    atomic_store(&d->phase, (uint32_t)phase);
    weft__recorded_reached_outside(d->req, phase);
    if (atomic_load(&d->watchers)) weft__wake_all(&d->phase);
}

void weft__device_settles(weft__device *d)
{
    if (WEFT__UNLIKELY(d->holds)) weft__hold_let_go(d);
    if (WEFT__UNLIKELY(d->range)) weft__range_end(d->range);
    d->range = 0;
}

/* "device 3", or "backend toy" where a number means nothing. */
static const char *device_name(const weft__module *module, char *text, size_t bytes)
{
    if (module->backend->memory == WEFT_MEMORY_CUDA)
        snprintf(text, bytes, "device %d", module->backend->device);
    else
        snprintf(text, bytes, "backend %.40s", module->backend->name);
    return text;
}

/* ---- its place in the order ---- */

static void go(weft__ticket *ticket)
{
    weft__device_hand(WEFT__OWNER(ticket, weft__device, ticket));
}

static void refuse(weft__ticket *ticket, weft_status status, const char *why)
{
    weft_request *req = WEFT__OWNER(ticket, weft__device, ticket)->req;
    char name[256], text[WEFT__SENTENCE_BYTES];
    weft__request_name(req, name, sizeof name);
    snprintf(text, sizeof text, "%s: %.700s", name, why);
    weft__group_break(req->group, &(weft__verdict){status, req->sequence, -1, text}, true);
}

/* Where it may have to wait.  In program order, with its communicator there and nobody before it, it does not. */
static void reach_waiting(weft__device *first)
{
    const bool made = first->dev_comm && first->dev_comm->state == WEFT__DEVICE_COMM_READY;
    if (made && weft__goes_in_program(first->req) && weft__list_empty(&first->req->ctx->program_line)) return;
    for (weft__device *d = first; d; d = d->next)
        weft__device_reach(d, made && !weft__in_line(first) ? WEFT__PHASE_ORDERING : WEFT__PHASE_CONNECTING);
}

/* All members of what is fused agree.  What the gate gives no place finds it once its communicator is there. */
static void find_order(weft__device *first)
{
    weft_request *req = first->req;
    first->dev_comm = weft__device_comm_of_group(req->group, first->module);
    reach_waiting(first);
    weft__gate_ticket(first);
    if (!first->dev_comm)
        refuse(&first->ticket, WEFT_ERR_MEMORY, "no memory for a communicator");
    else if (weft__goes_in_program(req))
        weft__program_enter(first);
    else if (weft__in_line(first))
        weft__line_agreed(first);
    else if (first->dev_comm->state != WEFT__DEVICE_COMM_READY || !weft__gate_gives_place(first))
        weft__device_comm_await(first->dev_comm, &first->ticket);
}

void weft__device_enter(weft_request *req)
{
    weft__device *first = req->device->fused;
    if (--first->closed == 0)
        find_order(first);
    else
        weft__device_reach(req->device, WEFT__PHASE_CONNECTING);
}

static void has_agreed(weft_request *req)
{
    req->device->shut = false;
    if (!weft__gate_opened(req->device)) return; /* broken, and this request with it */
    if (!weft__goes_in_program(req))
        weft__device_enter(req);
    else if (req->device->done) {
        weft__device_settles(req->device);
        weft__request_settle(req, WEFT_OK, NULL);
    }
}

bool weft__device_done(weft_request *req)
{
    req->device->done = true;
    return !req->device->shut;
}

void weft__device_stop_agreeing(weft__device *d)
{
    if (!d->shut) return;
    d->shut = false;
    d->agree_by->stop(d->req);
}

static void failed(weft_request *req, const char *why)
{
    weft__device_comm *part = req->device->part.dev_comm;
    if (!part) return;
    weft__device_comm_unmade(part, req->status, why);
    if (weft__device_phase(req) < WEFT__PHASE_ISSUING)
        weft__device_comm_split_over(part); /* no module has it */
}

static void release(weft_request *req)
{
    weft__device *d = req->device;
    /* The group's list, or the point-to-point layer, would keep a record that another operation takes next. */
    WEFT__ASSERT(!d->shut && !d->match.in.hook.recv && !d->match.out.hook.send);
    WEFT__ASSERT(weft__list_empty(&d->ticket.mate));
    weft__device_settles(d);
    weft__device_lengths_free(d);
    weft__module_unmark(d->module, d->work.marker);
    weft__slab_put(&req->ctx->devices, d);
}

bool weft__device_under_way(const weft_group *group, const weft__module *module)
{
    WEFT__ASSERT(weft__holds_engine(group->ctx));
    WEFT__LIST_EACH(&group->ctx->pending, at)
    {
        const weft_request *req = WEFT__LIST_ENTRY(at, weft_request, pending);
        if (req->group == group && req->device && req->device->module == module &&
            weft__request_state(req) < WEFT__SETTLED)
            return true;
    }
    return false;
}

/* ---- graphs ---- */

/* What the calling thread can record by itself, with the engine held: it makes no communicator, and waits for no other
 * thread's calls. */
static weft_status device_may_record(const weft_request *req)
{
    weft_context *ctx = req->ctx;
    bool ready, pair = weft__kind_traits(req->op.kind) & WEFT__PAIR;
    if (atomic_load(&req->group->state) == WEFT__BROKEN) return weft__group_refuse(req->group);
    if (pair && weft__kind_way(req->op.kind) == WEFT__RECEIVES && req->u.pair.held)
        return weft__fail(WEFT_ERR_UNSUPPORTED,
                          "receive_probed: its stream is being captured into a graph: what a probe has "
                          "found is received at once");
    ready = weft__device_comm_is_ready(req->group, weft__module_for(ctx, req->op.memory));
    if (ready && !atomic_load(&ctx->program_ahead) && weft__list_empty(&ctx->program_line) &&
        weft__list_empty(&ctx->behind))
        return pair ? weft__captured_prepare(req) : WEFT_OK;
    return weft__fail(
        WEFT_ERR_STATE,
        ready ? "%s: its stream is being captured into a graph, and operations before it are not "
                "issued yet: wait for them before the capture"
              : "%s: its stream is being captured into a graph, and its group has no communicator "
                "yet: its first collective, outside of a graph, makes it",
        weft__kind_name(req->op.kind));
}

static weft_status may_be_recorded(const weft_request *req)
{
    weft_status status;
    weft__engine_empty_queue(req->ctx);
    weft__engine_take(req->ctx);
    status = device_may_record(req);
    weft__engine_drop(req->ctx);
    return status;
}

static weft_status not_in_callback(const weft_request *req)
{
    if (!weft__in_callback()) return WEFT_OK;
    return weft__fail(WEFT_ERR_STATE,
                      "%s: its stream is being captured into a graph, and in a callback "
                      "nothing is recorded",
                      weft__kind_name(req->op.kind));
}

/* What has joined a batch may have been left by its capture since. */
static weft_status device_goes_on(const weft_request *req)
{
    const weft__device *d = req->device;
    if (!d->module->backend->captures(d->module->backend, d->work.marker))
        return weft__fail(WEFT_ERR_STATE,
                          "batch_end: %s has joined while its stream was being captured into a graph, and it "
                          "is not any more: a batch ends within the capture that it is to be recorded in",
                          weft__kind_name(req->op.kind));
    return not_in_callback(req);
}

/* A replay has no tags and no ranks but those that were recorded. */
static weft_status may_capture_message(const weft_request *req)
{
    const char *name = weft__kind_name(req->op.kind), *why = NULL;
    if (req->op.peer == WEFT_ANY_RANK)
        why = "which rank a message is from has to be said";
    else if (req->op.peer == req->group->rank)
        why = "a message of a rank to itself is a copy, which cudaMemcpyAsync records";
    if (!why) return WEFT_OK;
    return weft__fail(WEFT_ERR_UNSUPPORTED, "%s: its stream is being captured into a graph: %s", name, why);
}

static weft_status may_capture(const weft_request *req, const weft__module *module)
{
    const char *name = weft__kind_name(req->op.kind);
    weft_status status = (weft__kind_traits(req->op.kind) & WEFT__PAIR) ? may_capture_message(req) : WEFT_OK;
    if (status != WEFT_OK) return status;
    if (!weft__device_in_program(req->group, module))
        return weft__fail(
            WEFT_ERR_UNSUPPORTED,
            "%s: its stream is being captured into a graph, and group %s is in the agreed order: "
            "only in program order are operations recorded",
            name, req->group->label);
    if (not_in_callback(req) != WEFT_OK) return WEFT_ERR_STATE;
    return may_be_recorded(req);
}

/* What collectives have no use for. */
static void prepare_message(weft__device *d)
{
    memset(&d->match, 0, sizeof d->match);
    memset(&d->bundle, 0, sizeof d->bundle);
    weft__list_init(&d->bundle.link);
}

weft_status weft__device_prepare(weft_request *req, void *stream)
{
    weft_context *ctx = req->ctx;
    weft__module *module = weft__module_for(ctx, req->op.memory);
    weft__device *d;
    void *marker = NULL;
    char name[64];
    weft_status status;
    bool captured;
    if (atomic_load_explicit(&module->lost, memory_order_relaxed))
        return weft__fail(WEFT_ERR_SYSTEM, "%s: %s is lost: a call on it has not returned",
                          weft__kind_name(req->op.kind), device_name(module, name, sizeof name));
    if (req->op.memory != WEFT__MEMORY_HOST_BY_MODULE && /* else it has taken it */
        (status = weft__module_check(req->group, module, &req->op)) != WEFT_OK)
        return status;
    if ((status = weft__module_mark(module, stream, &marker)) != WEFT_OK) return status;
    if (weft__kind_traits(req->op.kind) & WEFT__PAIR) req->u.pair.copy = NULL; /* nor is anything held */
    captured = module->backend->captures && module->backend->captures(module->backend, marker);
    if (WEFT__UNLIKELY(captured) && (status = may_capture(req, module)) != WEFT_OK) {
        weft__module_unmark(module, marker);
        return status;
    }
    d = weft__slab_get(&ctx->devices);
    if (!d) {
        weft__module_unmark(module, marker);
        return weft__fail(WEFT_ERR_MEMORY, "no memory for an operation on device memory");
    }
    if (weft__kind_traits(req->op.kind) & WEFT__PAIR) prepare_message(d);
    d->req = req;
    d->continuation = (weft__continuation){has_agreed, failed, release};
    d->dev_comm = NULL;
    d->fused = d;
    d->last = d;
    d->next = NULL;
    atomic_store_explicit(&d->watchers, 0, memory_order_relaxed);
    d->closed = 1;
    d->handed = d->shut = d->done = d->placed = d->entered = d->holds = false;
    d->holders = 0;
    d->hold = 0;
    weft__list_init(&d->holding);
    atomic_store_explicit(&d->ahead, false, memory_order_relaxed);
    atomic_store_explicit(&d->behind_stream, false, memory_order_relaxed);
    weft__ticket_begin(&d->ticket);
    d->ticket.go = go;
    d->ticket.refuse = refuse;
    memset(&d->part, 0, sizeof d->part);
    d->module = module;
    req->capture = captured ? stream : NULL;
    req->op.recorded = captured;
    d->range = 0;
    d->work.owner = d;
    d->work.comm = NULL;
    d->work.marker = marker;
    d->work.next = NULL;
    d->work.state = d->work.hold = NULL;
    weft__device_reach(d, WEFT__PHASE_AGREEING);
    weft__gate_make(d);
    status = weft__device_lengths_make(d);
    if (status != WEFT_OK) {
        weft__module_unmark(module, marker);
        weft__slab_put(&ctx->devices, d);
        return status;
    }
    req->device = d;
    d->behind = weft__hold_before(req);
    req->continuation = &d->continuation;
    if (!(weft__kind_traits(req->op.kind) & WEFT__PAIR)) req->host_op = &d->agree;
    return WEFT_OK;
}

static void device_follow(weft_request *first, weft_request *req)
{
    weft__device *f = first->device;
    if (weft__kind_traits(req->op.kind) & WEFT__PAIR && !req->capture) {
        weft__bundle_follow(f, req->device);
        return;
    }
    f->last->next = req->device;
    f->last = req->device;
    req->device->fused = f;
    f->closed++;
}

static void start_collective(weft_request *req)
{
    atomic_fetch_add_explicit(&req->refs, 1, memory_order_relaxed); /* it may settle in here */
    if (req->device->fused == req->device && weft__in_line(req->device) && !weft__goes_in_program(req))
        weft__line_join(req->device);
    if (weft__agreement_begin(req)) {
        req->device->entered = true;
        weft__device_enter(req);
    }
    weft__request_unref(req);
}

static void device_start(weft_request *req)
{
    weft__recorded_reached(req, weft__device_phase(req)); /* as it was prepared it had no record */
    if (WEFT__UNLIKELY(weft__ranges_on()) && !req->device->range)
        req->device->range = weft__range_start("settle", req);
    if (!(weft__kind_traits(req->op.kind) & WEFT__PAIR))
        start_collective(req);
    else if (req->capture)
        weft__captured_start(req);
    else
        weft__device_pair_start(req);
}

/* ---- the module ---- */

void weft__device_hand(weft__device *first)
{
    weft_context *ctx = first->req->ctx;
    weft__module *module = first->module;
    weft_backend_work **at = NULL;
    WEFT__ASSERT(weft__holds_engine(ctx));
    for (weft__device *d = first; d; d = d->next) {
        weft_request *req = d->req;
        weft_backend_work *w = &d->work;
        bool pair = weft__kind_traits(req->op.kind) & WEFT__PAIR;
        if (!pair) { /* device_pair.c has filled in the others */
            if (!d->part.splits) w->op = weft__module_operation(&req->op);
            w->comm = first->dev_comm->comm;
            w->rank = first->dev_comm->rank;
            w->size = first->dev_comm->size;
            w->peer = -1;
        } else if (req->capture) {
            w->comm = d->dev_comm->comm;
        }
        req->algorithm = req->capture ? "graph" : module->backend->name;
        w->next = NULL;
        if (at) *at = w;
        at = &w->next;
        d->handed = true;
        weft__hold_on_its_way(d);
        weft__device_reach(d, WEFT__PHASE_ISSUING);
        atomic_fetch_add_explicit(&req->refs, 1, memory_order_relaxed); /* the module's */
        atomic_fetch_add(&module->pending, 1);
        atomic_fetch_add(&ctx->device_pending, 1);
    }
    weft__alarm_tick(ctx);
    if (first->req->capture) weft__replays_expect(first->dev_comm);
    if (weft__goes_in_program(first->req)) {
        if (weft__program_by_caller(first)) return;
        weft__program_handed(first);
    }
    weft__mpsc_push(&module->work, &first->req->node);
    if (atomic_load(
            &ctx->drivers)) { /* who stops waiting counts itself out, then looks for works, which were counted */
        if (!ctx->callers_serve) weft__engine_rouse(ctx); /* somebody waits: no time for naps */
    } else
        weft__engine_nudge(ctx);
}

/* ---- failing ---- */

/* One that the module has not: nothing touches its buffers. */
static void take_back(weft_request *req)
{
    if (weft__kind_traits(req->op.kind) & WEFT__PAIR)
        weft__device_pair_stop(req);
    else if (weft__goes_in_program(req))
        weft__program_leave(req->device->fused);
    else if (weft__in_line(req->device->fused))
        weft__line_leave(req->device->fused);
    else
        weft__order_leave(req->ctx, &req->device->fused->ticket);
}

/* Settles when the module lets go, or after the grace. */
static void drain(weft_request *req, weft_status status, const char *text)
{
    req->draining_status = status;
    req->drained_by_ns = weft__now_ns() + weft__device_drain_ns(req);
    weft__request_tell(req, status, text);
    weft__request_to(req, WEFT__DRAINING);
    weft__recorded_state(req);
    weft__alarm_check(req->ctx, req->drained_by_ns);
}

static void device_fail(weft_request *req, weft_status status, const char *text)
{
    weft__device *d = req->device;
    bool pair = weft__kind_traits(req->op.kind) & WEFT__PAIR;
    WEFT__ASSERT(weft__holds_engine(req->ctx));
    atomic_fetch_add_explicit(&req->refs, 1, memory_order_relaxed); /* it settles in here */
    weft__device_stop_agreeing(d);
    if (pair && req->capture) weft__device_pair_stop(req);
    if (d->handed && !d->done) {
        drain(req, status, text);
    } else {
        if (!d->handed) take_back(req);
        weft__device_settles(d);
        weft__request_settle(req, status, text);
        weft__device_told(d, WEFT__PHASE_OVER);
    }
    text = text ? text : weft_status_text(status);
    if (pair && (req->capture || weft__device_pair_met(req)))
        weft__device_pair_give_up(req, status, text);
    else if (d->handed && d->fused->dev_comm)
        weft__device_comm_doom(d->fused->dev_comm, status, text);
    weft__request_unref(req);
}

static void lose_device(weft_context *ctx, weft__module *module, const char *why)
{
    weft_group *group;
    char name[64], text[WEFT__SENTENCE_BYTES];
    WEFT__ASSERT(weft__holds_engine(ctx));
    if (atomic_exchange(&module->lost, true)) return;
    snprintf(text, sizeof text, "%s is lost: %.700s", device_name(module, name, sizeof name), why);
    weft__log(WEFT__ERROR, "%s", text);
    weft__module_recorded(ctx, module, WEFT__HAPPENED_MODULE_LOST);
    while ((group = weft__device_comm_next_used(ctx, module)) != NULL)
        weft__group_break(group, &(weft__verdict){WEFT_ERR_SYSTEM, 0, -1, text}, true);
}

/* A request is given up: is it because the progress thread does not come back?  That may be in another module
 * than the request's.  Not stuck is who has told of a work since, or waits with one for the engine, which this thread
 * has.  Either it has come back or it is given up, never both. */
static void look_after_thread(weft_context *ctx)
{
    int64_t since = atomic_load(&ctx->blocked_since), told = atomic_load(&ctx->told_ns), now = weft__now_ns();
    char text[128];
    if (!since || now - (told > since ? told : since) < STUCK_NS) return;
    if (!atomic_compare_exchange_strong(&ctx->blocked_since, &since, 0)) return;
    snprintf(text, sizeof text, "a call on it has not returned for %.1f s", (double)(now - since) / 1e9);
    lose_device(ctx, &ctx->modules[atomic_load(&ctx->blocked_in)], text);
    weft__progress_replace(ctx);
}

static void device_abandon(weft_request *req)
{
    weft_context *ctx = req->ctx;
    weft__module_abandon(req);
    look_after_thread(ctx);
}

static weft_status device_prepare(weft_request *req, const weft_call *call)
{
    return weft__device_prepare(req, call ? call->stream : NULL);
}

/* Until it is agreed on its end shows where that does. */
static bool device_can_poll(const weft_request *req)
{
    const weft__device *d = req->device;
    return d->shut && d->agree_by->can_poll && d->agree_by->can_poll(req);
}

static int device_poll(weft_request *req)
{
    return req->device->shut ? req->device->agree_by->poll(req) : 0;
}

static bool device_has_met(const weft_request *req)
{
    return weft__kind_traits(req->op.kind) & WEFT__PAIR && weft__device_pair_met(req);
}

static bool device_outlives_group(const weft_request *req)
{
    return device_has_met(req) && !weft__device_pair_shares(req->device);
}

const weft__executor weft__device_executor = {.name = "device",
                                              .traits = WEFT__ENDS_WITH_GROUP | WEFT__HAS_PHASES,
                                              .prepare = device_prepare,
                                              .follow = device_follow,
                                              .goes_on = device_goes_on,
                                              .may_record = device_may_record,
                                              .is_held = weft__hold_holds,
                                              .start = device_start,
                                              .fail = device_fail,
                                              .abandon = device_abandon,
                                              .issue = weft__program_issue,
                                              .progress = weft__agreements_go_on,
                                              .progress_on_thread = weft__module_progress,
                                              .progress_by_caller = weft__module_progress_by_caller,
                                              .can_poll = device_can_poll,
                                              .poll = device_poll,
                                              .has_met = device_has_met,
                                              .outlives_group = device_outlives_group,
                                              .phase = phase_to_tell,
                                              .behind = weft__gate_behind};
