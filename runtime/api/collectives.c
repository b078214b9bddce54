/* collectives.c - the public operations: each fills in an op and submits it. */
#include "operate.h"

weft_status weft_send_recv(weft_group *group, const void *in, void *out, size_t count, weft_dtype dtype,
                           int peer, const weft_call *call, weft_request **req)
{
    weft__op op = {
        .kind = WEFT__OP_SEND_RECV, .in = in, .out = out, .count = count, .dtype = dtype, .peer = peer};
    return weft__operate(group, &op, call, req);
}

weft_status weft_broadcast(weft_group *group, void *buf, size_t count, weft_dtype dtype, int root,
                           const weft_call *call, weft_request **req)
{
    weft__op op = {
        .kind = WEFT__OP_BROADCAST, .in = buf, .out = buf, .count = count, .dtype = dtype, .root = root};
    return weft__operate(group, &op, call, req);
}

weft_status weft_reduce(weft_group *group, const void *in, void *out, size_t count, weft_dtype dtype,
                        weft_op reduction, int root, const weft_call *call, weft_request **req)
{
    weft__op op = {.kind = WEFT__OP_REDUCE,
                   .in = in,
                   .out = out,
                   .count = count,
                   .dtype = dtype,
                   .reduction = reduction,
                   .root = root};
    return weft__operate(group, &op, call, req);
}

weft_status weft_all_reduce(weft_group *group, const void *in, void *out, size_t count, weft_dtype dtype,
                            weft_op reduction, const weft_call *call, weft_request **req)
{
    weft__op op = {.kind = WEFT__OP_ALL_REDUCE,
                   .in = in,
                   .out = out,
                   .count = count,
                   .dtype = dtype,
                   .reduction = reduction};
    return weft__operate(group, &op, call, req);
}

weft_status weft_reduce_scatter(weft_group *group, const void *in, void *out, size_t count, weft_dtype dtype,
                                weft_op reduction, const weft_call *call, weft_request **req)
{
    weft__op op = {.kind = WEFT__OP_REDUCE_SCATTER,
                   .in = in,
                   .out = out,
                   .count = count,
                   .dtype = dtype,
                   .reduction = reduction};
    return weft__operate(group, &op, call, req);
}

weft_status weft_all_gather(weft_group *group, const void *in, void *out, size_t count, weft_dtype dtype,
                            const weft_call *call, weft_request **req)
{
    weft__op op = {.kind = WEFT__OP_ALL_GATHER, .in = in, .out = out, .count = count, .dtype = dtype};
    return weft__operate(group, &op, call, req);
}

weft_status weft_gather(weft_group *group, const void *in, void *out, size_t count, weft_dtype dtype,
                        int root, const weft_call *call, weft_request **req)
{
    weft__op op = {
        .kind = WEFT__OP_GATHER, .in = in, .out = out, .count = count, .dtype = dtype, .root = root};
    return weft__operate(group, &op, call, req);
}

weft_status weft_scatter(weft_group *group, const void *in, void *out, size_t count, weft_dtype dtype,
                         int root, const weft_call *call, weft_request **req)
{
    weft__op op = {
        .kind = WEFT__OP_SCATTER, .in = in, .out = out, .count = count, .dtype = dtype, .root = root};
    return weft__operate(group, &op, call, req);
}

weft_status weft_all_to_all(weft_group *group, const void *in, void *out, size_t count, weft_dtype dtype,
                            const weft_call *call, weft_request **req)
{
    weft__op op = {.kind = WEFT__OP_ALL_TO_ALL, .in = in, .out = out, .count = count, .dtype = dtype};
    return weft__operate(group, &op, call, req);
}

weft_status weft_barrier(weft_group *group, const weft_call *call, weft_request **req)
{
    weft__op op = {.kind = WEFT__OP_BARRIER};
    return weft__operate(group, &op, call, req);
}
