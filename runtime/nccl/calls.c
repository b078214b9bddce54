/* calls.c - operations as calls of NCCL.
 *
 * Happy path: an operation that NCCL has is one call; gather, scatter and all_to_all are one where NCCL is
 * new enough, else, like the uneven forms, a send and a receive for each block.  What only moves goes as
 * bytes.
 * Fails: with what NCCL returned.
 *
 * Every rank decides alike which calls an operation is, from what all have agreed on; a block of no elements
 * makes no call on either side. */
#include "calls.h"

#include "blocks.h"
#include "types.h"

struct operation {
    const weft__symbols *newer;
    ncclComm_t comm;
    bool *called; /* set where a call is made of it */
    cudaStream_t stream;
    void *scratch;
    const weft_backend_operation *op;
    int rank, size, peer;
    weft__type type; /* reduced or moved */
    size_t bytes;    /* of an element */
};

typedef ncclResult_t calls_fn(const struct operation *o);

/* The communicator, for a call that moves something. */
static ncclComm_t called(const struct operation *o)
{
    *o->called = true;
    return o->comm;
}

/* NCCL's elements in so many of ours. */
static size_t parts(const struct operation *o, size_t elements)
{
    return elements * o->type.parts;
}

/* Where so many elements from the beginning lie.  Not for a buffer that is NULL, as one of no elements may
 * be. */
static void *at(const struct operation *o, const void *buffer, size_t elements)
{
    return (char *)(uintptr_t)buffer + elements * o->bytes;
}

static weft__span block(const struct operation *o, const size_t *counts, const size_t *displs, int rank)
{
    if (!o->op->uneven) return (weft__span){(size_t)rank * o->op->count, o->op->count};
    return (weft__span){displs[rank], counts[rank]};
}

static weft__span in_block(const struct operation *o, int rank)
{
    return block(o, o->op->in_counts, o->op->in_displs, rank);
}

static weft__span out_block(const struct operation *o, int rank)
{
    return block(o, o->op->out_counts, o->op->out_displs, rank);
}

static weft__span whole(const struct operation *o)
{
    return (weft__span){0, o->op->count};
}

/* ---- messages ---- */

static ncclResult_t send(const struct operation *o, weft__span of, int peer)
{
    if (!of.length) return ncclSuccess;
    return ncclSend(at(o, o->op->in, of.start), parts(o, of.length), o->type.type, peer, called(o),
                    o->stream);
}

static ncclResult_t calls_receive(const struct operation *o, weft__span to, int peer)
{
    if (!to.length) return ncclSuccess;
    return ncclRecv(at(o, o->op->out, to.start), parts(o, to.length), o->type.type, peer, called(o),
                    o->stream);
}

static ncclResult_t isend(const struct operation *o)
{
    return send(o, whole(o), o->peer);
}

static ncclResult_t irecv(const struct operation *o)
{
    return calls_receive(o, whole(o), o->peer);
}

static ncclResult_t send_recv(const struct operation *o)
{
    ncclResult_t result = isend(o);
    return result == ncclSuccess ? irecv(o) : result;
}

/* ---- one call each ---- */

static ncclResult_t barrier(const struct operation *o)
{
    return ncclAllReduce(o->scratch, o->scratch, 1, ncclUint8, ncclSum, called(o), o->stream);
}

static ncclResult_t broadcast(const struct operation *o)
{
    return ncclBroadcast(o->op->out, o->op->out, parts(o, o->op->count), o->type.type, o->op->root, called(o),
                         o->stream);
}

static ncclResult_t all_gather(const struct operation *o)
{
    return ncclAllGather(o->op->in, o->op->out, parts(o, o->op->count), o->type.type, called(o), o->stream);
}

static ncclResult_t reduce_calls(const struct operation *o, ncclRedOp_t reduction)
{
    const weft_backend_operation *op = o->op;
    size_t count = parts(o, op->count);
    ncclResult_t result = ncclSuccess;
    switch (op->kind) {
    case WEFT_BACKEND_REDUCE:
        return ncclReduce(op->in, op->out, count, o->type.type, reduction, op->root, called(o), o->stream);
    case WEFT_BACKEND_ALL_REDUCE:
        return ncclAllReduce(op->in, op->out, count, o->type.type, reduction, called(o), o->stream);
    case WEFT_BACKEND_REDUCE_SCATTER:
        return ncclReduceScatter(op->in, op->out, count, o->type.type, reduction, called(o), o->stream);
    default: break;
    }
    for (int rank = 0; rank < o->size && result == ncclSuccess; rank++) {
        weft__span of = in_block(o, rank);
        if (of.length)
            result = ncclReduce(at(o, op->in, of.start), op->out, parts(o, of.length), o->type.type,
                                reduction, rank, called(o), o->stream);
    }
    return result;
}

static ncclResult_t reduce(const struct operation *o)
{
    struct operation reduced = *o;
    ncclRedOp_t reduction;
    ncclResult_t result = weft__reduction_begin(o->comm, o->op, &reduction);
    if (result != ncclSuccess) return result;
    reduced.type = weft__type_reduced(o->op->dtype);
    result = reduce_calls(&reduced, reduction);
    weft__reduction_end(o->comm, o->op, reduction);
    return result;
}

/* ---- blocks ---- */

static ncclResult_t all_gather_v(const struct operation *o)
{
    ncclResult_t result = ncclSuccess;
    for (int rank = 0; rank < o->size && result == ncclSuccess; rank++) {
        weft__span to = out_block(o, rank);
        void *out = to.length ? at(o, o->op->out, to.start) : NULL;
        if (to.length)
            result = ncclBroadcast(rank == o->rank ? o->op->in : out, out, parts(o, to.length), o->type.type,
                                   rank, called(o), o->stream);
    }
    return result;
}

/* This rank's block to itself, which in place is there already. */
static ncclResult_t calls_keep(const struct operation *o, weft__span of, weft__span to)
{
    ncclResult_t result;
    if (!of.length || at(o, o->op->in, of.start) == at(o, o->op->out, to.start)) return ncclSuccess;
    result = send(o, of, o->rank);
    return result == ncclSuccess ? calls_receive(o, to, o->rank) : result;
}

/* NCCL's own check of pointers (NCCL_CHECK_POINTERS) wants a buffer also of ranks that have no use for it. */
static ncclResult_t calls_gather(const struct operation *o)
{
    const weft_backend_operation *op = o->op;
    ncclResult_t result = ncclSuccess;
    bool root = o->rank == op->root;
    if (o->newer->gather && !op->uneven)
        return o->newer->gather(op->in, root ? op->out : at(o, op->in, 0), parts(o, op->count), o->type.type,
                                op->root, called(o), o->stream);
    if (!root) return send(o, whole(o), op->root);
    for (int rank = 0; rank < o->size && result == ncclSuccess; rank++)
        result = rank == o->rank ? calls_keep(o, whole(o), out_block(o, rank))
                                 : calls_receive(o, out_block(o, rank), rank);
    return result;
}

static ncclResult_t scatter(const struct operation *o)
{
    const weft_backend_operation *op = o->op;
    ncclResult_t result = ncclSuccess;
    bool root = o->rank == op->root;
    if (o->newer->scatter && !op->uneven)
        return o->newer->scatter(root ? op->in : op->out, op->out, parts(o, op->count), o->type.type,
                                 op->root, called(o), o->stream);
    if (!root) return calls_receive(o, whole(o), op->root);
    for (int rank = 0; rank < o->size && result == ncclSuccess; rank++)
        result =
            rank == o->rank ? calls_keep(o, in_block(o, rank), whole(o)) : send(o, in_block(o, rank), rank);
    return result;
}

static ncclResult_t all_to_all(const struct operation *o)
{
    const weft_backend_operation *op = o->op;
    ncclResult_t result = ncclSuccess;
    if (o->newer->all_to_all && !op->uneven)
        return o->newer->all_to_all(op->in, op->out, parts(o, op->count), o->type.type, called(o), o->stream);
    for (int rank = 0; rank < o->size && result == ncclSuccess; rank++) {
        result = send(o, in_block(o, rank), rank);
        if (result == ncclSuccess) result = calls_receive(o, out_block(o, rank), rank);
    }
    return result;
}

static const struct {
    calls_fn *make;
    const char *name;
} rows[WEFT_BACKEND_KINDS] = {
    [WEFT_BACKEND_BARRIER] = {barrier, "ncclAllReduce"},
    [WEFT_BACKEND_BROADCAST] = {broadcast, "ncclBroadcast"},
    [WEFT_BACKEND_REDUCE] = {reduce, "ncclReduce"},
    [WEFT_BACKEND_ALL_REDUCE] = {reduce, "ncclAllReduce"},
    [WEFT_BACKEND_REDUCE_SCATTER] = {reduce, "ncclReduceScatter"},
    [WEFT_BACKEND_REDUCE_SCATTER_V] = {reduce, "ncclReduce"},
    [WEFT_BACKEND_ALL_GATHER] = {all_gather, "ncclAllGather"},
    [WEFT_BACKEND_ALL_GATHER_V] = {all_gather_v, "ncclBroadcast"},
    [WEFT_BACKEND_GATHER] = {calls_gather, "ncclGather"},
    [WEFT_BACKEND_GATHER_V] = {calls_gather, "ncclSend or ncclRecv"},
    [WEFT_BACKEND_SCATTER] = {scatter, "ncclScatter"},
    [WEFT_BACKEND_SCATTER_V] = {scatter, "ncclSend or ncclRecv"},
    [WEFT_BACKEND_ALL_TO_ALL] = {all_to_all, "ncclAlltoAll"},
    [WEFT_BACKEND_ALL_TO_ALL_V] = {all_to_all, "ncclSend or ncclRecv"},
    [WEFT_BACKEND_ISEND] = {isend, "ncclSend"},
    [WEFT_BACKEND_IRECV] = {irecv, "ncclRecv"},
    [WEFT_BACKEND_SEND_RECV] = {send_recv, "ncclSend or ncclRecv"},
};

const char *weft__calls_name(weft_backend_kind kind)
{
    return rows[kind].name ? rows[kind].name : "no call of NCCL";
}

ncclResult_t weft__calls_make(weft__comm *comm, const weft_backend_work *work)
{
    const weft_backend_operation *op = &work->op;
    struct operation o = {.newer = &comm->nccl->newer,
                          .comm = comm->handle,
                          .called = &comm->called,
                          .stream = comm->capture ? comm->capture : comm->stream,
                          .scratch = comm->scratch,
                          .op = op,
                          .rank = work->rank,
                          .size = work->size,
                          .peer = work->peer,
                          .type = weft__type_moved(op->dtype),
                          .bytes = weft__type_bytes(op->dtype)};
    if (!rows[op->kind].make) return ncclInvalidUsage;
    if (!op->count && !op->uneven && op->kind != WEFT_BACKEND_BARRIER) return ncclSuccess;
    return rows[op->kind].make(&o);
}
