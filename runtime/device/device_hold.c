/* device_hold.c - see device_hold.h.
 *
 * No stream is held where that would hold up the making of a communicator or of connections, for which NCCL may wait until
 * a device has done all that it was given: the group's communicator is there, and the module has gone that way before.  Nor
 * in a context that has groups in program order: their operations begin in the call that submits them, whatever their
 * streams wait for, and a capture needs all of them issued. */
#include "device_hold.h"
#include "engine.h"
#include "group.h"

static bool has_a_way(const weft_request *req, const weft__device *d)
{
    const weft__device_comm *comm = req->group->device_comms[weft__module_memory(req->ctx, d->module)];
    const bool pair = weft__kind_traits(req->op.kind) & WEFT__PAIR;
    if (!comm || comm->state != WEFT__DEVICE_COMM_READY || d->part.splits) return false;
    return !pair || (req->op.peer >= 0 && req->op.peer != req->group->rank);
}

/* What the module goes by. */
static void describe(const weft_request *req, const weft__device *d, weft_backend_work *w)
{
    const weft__device_comm *comm = req->group->device_comms[weft__module_memory(req->ctx, d->module)];
    w->op = weft__module_operation(&req->op);
    w->comm = comm->comm;
    w->rank = comm->rank;
    w->size = comm->size;
    w->peer =
        weft__kind_traits(req->op.kind) & WEFT__PAIR ? req->op.peer : -1; /* the group's ranks are its own */
}

/* Engine held.  False: it cannot be; or it is over. */
static bool name(weft_request *req, weft_backend_work *like)
{
    weft_context *ctx = req->ctx;
    weft__device *d = req->device;
    if (ctx->by_callers || weft__request_state(req) >= WEFT__DRAINING) return false;
    if (!d->handed) {
        if (!has_a_way(req, d)) return false;
        describe(req, d, like);
    } else if (!d->work.comm || (d->dev_comm && d->dev_comm->is_pair)) {
        return false; /* a message to this rank itself, or on a communicator that may go before its group does */
    } else {
        *like = (weft_backend_work){.op = d->work.op,
                                    .comm = d->work.comm,
                                    .rank = d->work.rank,
                                    .size = d->work.size,
                                    .peer = d->work.peer};
    }
    d->holds = true;
    if (d->holders++ || d->handed) return true;
    d->hold = atomic_fetch_add(&ctx->holds, 1) + 1;
    weft__list_append(&ctx->holding, &d->holding);
    atomic_fetch_add(&ctx->streams_held, 1);
    return true;
}

/* The module cannot, for that stream: what is submitted meanwhile need not wait, unless it does so for another one. */
static void refused(weft_request *req)
{
    const bool entered = weft__engine_enter(req->ctx);
    if (--req->device->holders == 0) weft__hold_on_its_way(req->device);
    weft__engine_leave(req->ctx, entered);
}

weft_status weft__hold_stream(weft_request *req, void *stream)
{
    weft_context *ctx = req->ctx;
    weft__device *d = req->device;
    weft_backend_work like = {.peer = -1};
    weft_status status;
    bool entered, named;
    if (!d->module->backend->hold) return WEFT_ERR_UNSUPPORTED;
    entered = weft__engine_enter(ctx);
    weft__engine_progress(ctx); /* it may be on its way, and need not be held */
    named = name(req, &like);
    weft__engine_leave(ctx, entered);
    if (!named) return WEFT_ERR_UNSUPPORTED;
    status = d->module->backend->hold(d->module->backend, &d->work, &like, stream);
    if (status != WEFT_OK) refused(req);
    weft__engine_rouse(ctx); /* no time for naps: the stream waits */
    return status;
}

uint64_t weft__hold_before(const weft_request *req)
{
    const weft__device *d = req->device;
    const bool pair = weft__kind_traits(req->op.kind) & WEFT__PAIR;
    if (!d->work.marker || req->capture) return 0;
    if (!pair && weft__device_in_program(req->group, d->module))
        return 0; /* it has its place by the program's order */
    return atomic_load(&req->ctx->streams_held) ? atomic_load(&req->ctx->holds) : 0;
}

bool weft__hold_holds(const weft_request *req)
{
    const weft__list *holding = &req->ctx->holding;
    weft__device *d = req->device;
    weft_backend *backend;
    WEFT__ASSERT(weft__holds_engine(req->ctx));
    if (!d || !d->behind) return false;
    backend = d->module->backend;
    if (!weft__list_empty(holding) &&
        WEFT__LIST_ENTRY(holding->next, weft__device, holding)->hold <= d->behind &&
        !(backend->reached && backend->reached(backend, d->work.marker)))
        return true;
    d->behind = 0;
    return false;
}

void weft__hold_on_its_way(weft__device *d)
{
    if (!d->hold) return;
    WEFT__ASSERT(weft__holds_engine(d->req->ctx));
    d->hold = 0;
    weft__list_remove(&d->holding);
    atomic_fetch_sub(&d->req->ctx->streams_held, 1);
    d->req->ctx->behind_look_ns = 0;
}

void weft__hold_let_go(weft__device *d)
{
    weft__hold_on_its_way(d);
    if (!d->holds) return;
    d->holds = false;
    d->module->backend->let_go(d->module->backend, &d->work);
}
