/* host_plane.c - see host_plane.h: the public calls, as a module that links no part of the library calls them.
 *
 * Fails: as these do. */
#include "host_plane.h"
#include "context.h"
#include "group_create_common.h"

#define TAG 0 /* of messages: a module's groups are its own */

static weft_status plane_group(weft_context *ctx, const int *world, int size, const char *label,
                               weft_group **group, weft_request **req)
{
    const weft_call call = {.timeout_ms = WEFT_FOREVER, .label = label};
    return weft__new_group(weft_world(ctx), world, size, &call, true, group, req);
}

static void plane_group_free(weft_group *group)
{
    weft_group_free(group);
}

/* weft_test would take from the program what its descriptor for an event loop has to tell. */
static weft_status plane_test(weft_request *req)
{
    return weft__request_settled(req) ? req->status : WEFT_PENDING;
}

static weft_status plane_begin(weft_group *group, const weft_backend_operation *o, int peer,
                               weft_request **req)
{
    const weft_call call = {.memory = WEFT_MEMORY_HOST, .scale = o->scale};
    switch (o->kind) {
    case WEFT_BACKEND_BARRIER: return weft_barrier(group, &call, req);
    case WEFT_BACKEND_BROADCAST:
        return weft_broadcast(group, o->out, o->count, o->dtype, o->root, &call, req);
    case WEFT_BACKEND_REDUCE:
        return weft_reduce(group, o->in, o->out, o->count, o->dtype, o->reduction, o->root, &call, req);
    case WEFT_BACKEND_ALL_REDUCE:
        return weft_all_reduce(group, o->in, o->out, o->count, o->dtype, o->reduction, &call, req);
    case WEFT_BACKEND_REDUCE_SCATTER:
        return weft_reduce_scatter(group, o->in, o->out, o->count, o->dtype, o->reduction, &call, req);
    case WEFT_BACKEND_ALL_GATHER:
        return weft_all_gather(group, o->in, o->out, o->count, o->dtype, &call, req);
    case WEFT_BACKEND_GATHER:
        return weft_gather(group, o->in, o->out, o->count, o->dtype, o->root, &call, req);
    case WEFT_BACKEND_SCATTER:
        return weft_scatter(group, o->in, o->out, o->count, o->dtype, o->root, &call, req);
    case WEFT_BACKEND_ALL_TO_ALL:
        return weft_all_to_all(group, o->in, o->out, o->count, o->dtype, &call, req);
    case WEFT_BACKEND_ALL_GATHER_V:
        return weft_all_gather_v(group, o->in, o->count, o->out, o->out_counts, o->out_displs, o->dtype,
                                 &call, req);
    case WEFT_BACKEND_GATHER_V:
        return weft_gather_v(group, o->in, o->count, o->out, o->out_counts, o->out_displs, o->dtype, o->root,
                             &call, req);
    case WEFT_BACKEND_SCATTER_V:
        return weft_scatter_v(group, o->in, o->in_counts, o->in_displs, o->out, o->count, o->dtype, o->root,
                              &call, req);
    case WEFT_BACKEND_REDUCE_SCATTER_V:
        return weft_reduce_scatter_v(group, o->in, o->out, o->in_counts, o->dtype, o->reduction, &call, req);
    case WEFT_BACKEND_ALL_TO_ALL_V:
        return weft_all_to_all_v(group, o->in, o->in_counts, o->in_displs, o->out, o->out_counts,
                                 o->out_displs, o->dtype, &call, req);
    case WEFT_BACKEND_ISEND: return weft_isend(group, o->in, o->count, o->dtype, peer, TAG, &call, req);
    case WEFT_BACKEND_IRECV: return weft_irecv(group, o->out, o->count, o->dtype, peer, TAG, &call, req);
    case WEFT_BACKEND_SEND_RECV:
        return weft_send_recv(group, o->in, o->out, o->count, o->dtype, peer, &call, req);
    case WEFT_BACKEND_MEM_ALLOC: break;
    }
    return weft__fail(WEFT_ERR_UNSUPPORTED, "%s: no operation that a module begins in host memory", o->name);
}

/* Only reductions are not there for all types. */
static weft_status plane_check(const weft_backend_operation *o)
{
    weft__op op = {.memory = WEFT_MEMORY_HOST,
                   .dtype = o->dtype,
                   .reduction = o->reduction,
                   .scale = o->scale};
    switch (o->kind) {
    case WEFT_BACKEND_REDUCE: op.kind = WEFT__OP_REDUCE; break;
    case WEFT_BACKEND_ALL_REDUCE: op.kind = WEFT__OP_ALL_REDUCE; break;
    case WEFT_BACKEND_REDUCE_SCATTER: op.kind = WEFT__OP_REDUCE_SCATTER; break;
    case WEFT_BACKEND_REDUCE_SCATTER_V: op.kind = WEFT__OP_REDUCE_SCATTER_V; break;
    default: return WEFT_OK;
    }
    return weft__op_check_reduction(&op);
}

const weft_backend_host weft__host_plane = {.group = plane_group,
                                            .group_free = plane_group_free,
                                            .begin = plane_begin,
                                            .check = plane_check,
                                            .test = plane_test,
                                            .cancel = weft_cancel,
                                            .message = weft_request_message,
                                            .release = weft_release,
                                            .last_error = weft_last_error,
                                            .dtype_bytes = weft_dtype_size};
