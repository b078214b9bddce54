/* cuda.c - what weft/cuda.h adds: work on a stream after a request, communicators that are lent, and what they hold.
 *
 * A request is issued by the progress thread.  A stream that is to wait for one that is not issued yet is held
 * (device_hold.h); where it cannot be the caller waits until it is, and drives the host plane meanwhile, on which the
 * other ranks are found. */
#include "batch.h"
#include "clock.h"
#include "device.h"
#include "device_hold.h"
#include "device_replays.h"
#include "engine.h"
#include "group.h"

#include <weft/cuda.h>

#define SLEEP_NS (50 * WEFT__MS) /* before it checks again whether the request has failed */

static bool is_issued(const weft_request *req)
{
    return weft__device_phase(req) >= WEFT__PHASE_RUNNING || weft__request_settled(req);
}

static bool spin_until_issued(weft_request *req)
{
    weft_context *ctx = req->ctx;
    int64_t until = weft__now_ns() + ctx->pacing.spin_least_ns;
    weft__engine_rouse(ctx);
    do {
        if (is_issued(req)) return true;
        if (weft__engine_try(ctx)) {
            weft__engine_progress(ctx);
            weft__engine_drop(ctx);
        }
        weft__pause();
    } while (weft__now_ns() < until);
    return is_issued(req);
}

static void await_issue(weft_request *req)
{
    weft__device *d = req->device;
    if (spin_until_issued(req)) return;
    atomic_fetch_add(&d->watchers, 1);
    while (!is_issued(req)) {
        uint32_t phase = atomic_load(&d->phase);
        if (phase < WEFT__PHASE_RUNNING) weft__sleep_on(&d->phase, phase, weft__now_ns() + SLEEP_NS);
    }
    atomic_fetch_sub(&d->watchers, 1);
}

/* It is part of its own stream; another one of the capture is forked off that by the program. */
static weft_status order_in_graph(weft_request *req, weft_cuda_stream stream)
{
    if (weft__request_settled(req) && req->status != WEFT_OK)
        return weft__fail(req->status, "%s", weft_request_message(req));
    if (stream == req->capture) return WEFT_OK;
    return weft__fail(
        WEFT_ERR_STATE,
        "stream_wait: %s #%llu is recorded in a graph, on stream %p: another stream comes after it "
        "by an event on that one",
        weft__kind_name(req->op.kind), (unsigned long long)req->sequence, req->capture);
}

static weft_status order_after(weft_request *req, weft_cuda_stream stream)
{
    if (req->capture) return order_in_graph(req, stream);
    if (!is_issued(req)) {
        weft_status status = weft__hold_stream(req, stream);
        if (status == WEFT_OK && weft__request_settled(req) && req->status != WEFT_OK)
            return weft__fail(req->status, "%s", weft_request_message(req));
        if (status != WEFT_ERR_UNSUPPORTED) return status;
    }
    if (!is_issued(req)) {
        if (weft__in_callback())
            return weft__fail(WEFT_ERR_STATE,
                              "stream_wait: the operation is not issued yet, and in a callback "
                              "waiting is not possible");
        await_issue(req);
    }
    if (!weft__request_settled(req))
        return weft__module_order(req->device->module, &req->device->work, stream);
    return req->status == WEFT_OK ? WEFT_OK : weft__fail(req->status, "%s", weft_request_message(req));
}

weft_status weft_stream_wait(weft_request *req, weft_cuda_stream stream)
{
    weft_status status;
    bool any = false;
    if (!req) return weft__fail(WEFT_ERR_ARGUMENT, "stream_wait: req is NULL");
    if ((status = weft__usable(req->ctx)) != WEFT_OK) return status;
    if (req->device) return order_after(req, stream);
    if (weft__kind_traits(req->op.kind) & WEFT__BATCHES)
        for (size_t i = 0; i < req->u.batch->count; i++) {
            weft_request *m = req->u.batch->members[i];
            if (!m->device) continue;
            any = true;
            if ((status = order_after(m, stream)) != WEFT_OK) return status;
        }
    if (any) return WEFT_OK;
    if (!req->ctx->module_count)
        return weft__fail(WEFT_ERR_UNSUPPORTED,
                          "stream_wait: no backend of this context has streams (backends: %s)",
                          req->ctx->backend_names);
    return weft__fail(WEFT_ERR_ARGUMENT, "stream_wait: %s #%llu is not an operation on device memory",
                      weft__kind_name(req->op.kind), (unsigned long long)req->sequence);
}

/* ---- for programs that call NCCL themselves ---- */

/* Engine held: the group's communicator with NCCL, which has been joined, or in a broken group was. */
static weft_status find_comm(weft_group *group, const char *name, bool broken_too, weft_backend **backend,
                             weft_backend_comm **comm)
{
    const weft__module *module = weft__module_for(group->ctx, WEFT_MEMORY_CUDA);
    const weft__device_comm *dev_comm = module ? group->device_comms[WEFT_MEMORY_CUDA] : NULL;
    const bool broken = atomic_load(&group->state) == WEFT__BROKEN;
    if (!module || !module->backend->lend)
        return weft__fail(WEFT_ERR_UNSUPPORTED, "%s: no backend of this context is NCCL (backends: %s)", name,
                          group->ctx->backend_names);
    if (broken && !(broken_too && dev_comm && dev_comm->comm)) {
        char why[WEFT__SENTENCE_BYTES];
        const bool left_out = weft__group_refuse(group) == WEFT_ERR_PEER;
        snprintf(why, sizeof why, "%s", weft_last_error());
        return weft__fail(left_out ? WEFT_ERR_PEER : WEFT_ERR_BROKEN, "%s: %.900s", name, why);
    }
    if (weft__device_under_way(group, module))
        return weft__fail(WEFT_ERR_STATE, "%s: an operation on device memory is under way in group %s", name,
                          group->label);
    if (!broken && (!dev_comm || dev_comm->state != WEFT__DEVICE_COMM_READY))
        return weft__fail(
            WEFT_ERR_STATE,
            "%s: group %s has no communicator yet: its first collective on device memory makes it", name,
            group->label);
    *backend = module->backend;
    *comm = dev_comm->comm;
    return WEFT_OK;
}

/* It stays there until the group is freed. */
static weft_status comm_of(weft_group *group, const char *name, bool broken_too, weft_backend **backend,
                           weft_backend_comm **comm)
{
    weft_status status;
    if (!group) return weft__fail(WEFT_ERR_ARGUMENT, "%s: group is NULL", name);
    if ((status = weft__usable(group->ctx)) != WEFT_OK) return status;
    weft__engine_empty_queue(group->ctx); /* what was submitted before is among the pending ones then */
    weft__engine_take(group->ctx);
    status = find_comm(group, name, broken_too, backend, comm);
    weft__engine_drop(group->ctx);
    return status;
}

static weft_status cuda_borrow(weft_group *group, const char *name, void **handle, void **stream)
{
    weft_backend *backend = NULL;
    weft_backend_comm *comm = NULL;
    weft_status status = comm_of(group, name, false, &backend, &comm);
    return status == WEFT_OK ? backend->lend(comm, handle, stream) : status;
}

weft_nccl_comm weft_nccl_communicator(weft_group *group)
{
    void *handle = NULL, *stream = NULL;
    return cuda_borrow(group, "nccl_communicator", &handle, &stream) == WEFT_OK ? handle : NULL;
}

weft_cuda_stream weft_nccl_stream(weft_group *group)
{
    void *handle = NULL, *stream = NULL;
    return cuda_borrow(group, "nccl_stream", &handle, &stream) == WEFT_OK ? stream : NULL;
}

weft_status weft_graph_replays(weft_group *group, uint64_t *begun)
{
    weft_status status;
    if (!group || !begun) return weft__fail(WEFT_ERR_ARGUMENT, "graph_replays: group or begun is NULL");
    if ((status = weft__usable(group->ctx)) != WEFT_OK) return status;
    if (!group->ctx->modules[WEFT_MEMORY_CUDA].backend ||
        !group->ctx->modules[WEFT_MEMORY_CUDA].backend->replays)
        return weft__fail(
            WEFT_ERR_UNSUPPORTED,
            "graph_replays: no backend of this context counts replays of graphs (backends: %s), as "
            "with WEFT_NCCL_WATCH_GRAPHS=0",
            group->ctx->backend_names);
    weft__engine_take(group->ctx);
    *begun = weft__replays_begun(group);
    weft__engine_drop(group->ctx);
    return WEFT_OK;
}

/* ---- memory for NCCL and for kernels ---- */

weft_status weft_mem_window(weft_group *group, const void *ptr, weft_nccl_window *window, size_t *offset)
{
    weft_backend *backend = NULL;
    weft_backend_comm *comm = NULL;
    void *found = NULL;
    weft_status status;
    if (!window || !offset) return weft__fail(WEFT_ERR_ARGUMENT, "mem_window: window or offset is NULL");
    status = comm_of(group, "mem_window", false, &backend, &comm);
    if (status == WEFT_OK) status = backend->mem_window(comm, ptr, &found, offset);
    if (status == WEFT_OK) *window = found;
    return status;
}

weft_status weft_mem_peer(weft_group *group, const void *ptr, int rank, void **there)
{
    weft_backend *backend = NULL;
    weft_backend_comm *comm = NULL;
    void *found = NULL;
    weft_status status;
    if (!there) return weft__fail(WEFT_ERR_ARGUMENT, "mem_peer: there is NULL");
    status = comm_of(group, "mem_peer", false, &backend, &comm);
    if (status != WEFT_OK) return status;
    if (rank < 0 || rank >= group->size)
        return weft__fail(WEFT_ERR_ARGUMENT, "mem_peer: rank is %d, expected 0 to %d", rank, group->size - 1);
    status = backend->mem_peer(comm, ptr, rank, &found);
    if (status == WEFT_OK) *there = found;
    return status;
}

weft_status weft_mem_register(weft_group *group, void *ptr, size_t bytes)
{
    weft_backend *backend = NULL;
    weft_backend_comm *comm = NULL;
    weft_status status;
    if (!ptr || !bytes) return weft__fail(WEFT_ERR_ARGUMENT, "mem_register: ptr is NULL or bytes is 0");
    if (weft__in_callback())
        return weft__fail(WEFT_ERR_STATE, "mem_register: in a callback waiting is not possible");
    status = comm_of(group, "mem_register", false, &backend, &comm);
    return status == WEFT_OK ? backend->mem_register(comm, ptr, bytes) : status;
}

weft_status weft_mem_deregister(weft_group *group, void *ptr)
{
    weft_backend *backend = NULL;
    weft_backend_comm *comm = NULL;
    weft_status status;
    if (weft__in_callback())
        return weft__fail(WEFT_ERR_STATE, "mem_deregister: in a callback waiting is not possible");
    status = comm_of(group, "mem_deregister", true, &backend, &comm);
    return status == WEFT_OK ? backend->mem_deregister(comm, ptr) : status;
}

weft_status weft_device_memory(weft_context *ctx, size_t *bytes)
{
    weft_backend *backend;
    weft_status status;
    if (!ctx || !bytes) return weft__fail(WEFT_ERR_ARGUMENT, "device_memory: ctx or bytes is NULL");
    if ((status = weft__usable(ctx)) != WEFT_OK) return status;
    backend = ctx->modules[WEFT_MEMORY_CUDA].backend;
    if (!backend)
        return weft__fail(WEFT_ERR_UNSUPPORTED,
                          "device_memory: no backend of this context has device memory (backends: %s)",
                          ctx->backend_names);
    if (backend->memory_held) return backend->memory_held(backend, bytes);
    return weft__fail(WEFT_ERR_UNSUPPORTED, "device_memory: backend %s does not tell it", backend->name);
}
