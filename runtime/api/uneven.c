/* uneven.c - the public operations whose blocks differ in length.  They copy counts and displacements, and
 * are submitted like all others. */
#include "batch.h"
#include "group.h"
#include "operate.h"
#include "submit.h"

#include <stdlib.h>

/* A copy of what the caller passed; of a rooted kind it is read on the root only. */
static weft_status copy(const weft_group *group, weft__op *op, const weft__uneven *given)
{
    static const weft__uneven nothing;
    bool rooted = weft__kind_traits(op->kind) & WEFT__ROOTED;
    weft_status status;
    /* A group that is being made does not know its size yet. */
    if ((status = weft__usable(group->ctx)) != WEFT_OK || (status = weft__group_usable(group)) != WEFT_OK)
        return status;
    op->uneven = weft__uneven_copy(rooted && group->rank != op->root ? &nothing : given, group->size);
    return op->uneven ? WEFT_OK : WEFT_ERR_MEMORY;
}

static weft_status operate(weft_group *group, weft__op *op, weft__uneven given, const weft_call *call,
                           weft_request **req)
{
    weft_status status = group ? copy(group, op, &given) : WEFT_OK;
    if (status != WEFT_OK) return call && call->batch ? weft__batch_refuse(call->batch, status) : status;
    status = weft__operate(group, op, call, req);
    free(op->uneven); /* NULL if the request has it */
    return status;
}

weft_status weft_all_gather_v(weft_group *group, const void *in, size_t count, void *out,
                              const size_t *counts, const size_t *displs, weft_dtype dtype,
                              const weft_call *call, weft_request **req)
{
    weft__op op = {.kind = WEFT__OP_ALL_GATHER_V, .in = in, .out = out, .count = count, .dtype = dtype};
    return operate(group, &op, (weft__uneven){.out = {counts, displs, 0}}, call, req);
}

weft_status weft_gather_v(weft_group *group, const void *in, size_t count, void *out, const size_t *counts,
                          const size_t *displs, weft_dtype dtype, int root, const weft_call *call,
                          weft_request **req)
{
    weft__op op = {
        .kind = WEFT__OP_GATHER_V, .in = in, .out = out, .count = count, .dtype = dtype, .root = root};
    return operate(group, &op, (weft__uneven){.out = {counts, displs, 0}}, call, req);
}

weft_status weft_scatter_v(weft_group *group, const void *in, const size_t *counts, const size_t *displs,
                           void *out, size_t count, weft_dtype dtype, int root, const weft_call *call,
                           weft_request **req)
{
    weft__op op = {
        .kind = WEFT__OP_SCATTER_V, .in = in, .out = out, .count = count, .dtype = dtype, .root = root};
    return operate(group, &op, (weft__uneven){.in = {counts, displs, 0}}, call, req);
}

weft_status weft_reduce_scatter_v(weft_group *group, const void *in, void *out, const size_t *counts,
                                  weft_dtype dtype, weft_op reduction, const weft_call *call,
                                  weft_request **req)
{
    weft__op op = {
        .kind = WEFT__OP_REDUCE_SCATTER_V, .in = in, .out = out, .dtype = dtype, .reduction = reduction};
    return operate(group, &op, (weft__uneven){.in = {counts, NULL, 0}}, call, req);
}

weft_status weft_all_to_all_v(weft_group *group, const void *in, const size_t *in_counts,
                              const size_t *in_displs, void *out, const size_t *out_counts,
                              const size_t *out_displs, weft_dtype dtype, const weft_call *call,
                              weft_request **req)
{
    weft__op op = {.kind = WEFT__OP_ALL_TO_ALL_V, .in = in, .out = out, .dtype = dtype};
    return operate(group, &op,
                   (weft__uneven){.in = {in_counts, in_displs, 0}, .out = {out_counts, out_displs, 0}}, call,
                   req);
}
