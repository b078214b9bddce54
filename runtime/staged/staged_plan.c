/* staged_plan.c - cuts works into pieces.
 *
 * A collective whose blocks all ranks know goes through the same one in host memory, piece by piece: of every block
 * the same window.  So all ranks come to as many pieces.  What only the two ends of a block know (gather_v, scatter_v,
 * all_to_all_v) goes by messages, in rounds: in round r each rank sends to the one r behind it and receives from the
 * one r before it, so no rank waits for one that waits for it.
 * Fails: only copies do, with CUDA's error. */
#include "staged_plan.h"

/* What a kind has at in, and at out, and on which ranks. */
typedef enum plan_shape { NOTHING, BLOCK, BLOCKS } plan_shape;
typedef enum plan_who { ALL, ROOT, OTHERS } plan_who;

static const struct plan_row {
    plan_shape in;
    plan_who in_on;
    plan_shape out;
    plan_who out_on;
    bool messages;
} rows[WEFT_BACKEND_KINDS] = {
    [WEFT_BACKEND_BARRIER] = {NOTHING, ALL, NOTHING, ALL, false},
    [WEFT_BACKEND_BROADCAST] = {BLOCK, ROOT, BLOCK, OTHERS, false},
    [WEFT_BACKEND_REDUCE] = {BLOCK, ALL, BLOCK, ROOT, false},
    [WEFT_BACKEND_ALL_REDUCE] = {BLOCK, ALL, BLOCK, ALL, false},
    [WEFT_BACKEND_REDUCE_SCATTER] = {BLOCKS, ALL, BLOCK, ALL, false},
    [WEFT_BACKEND_REDUCE_SCATTER_V] = {BLOCKS, ALL, BLOCK, ALL, false},
    [WEFT_BACKEND_ALL_GATHER] = {BLOCK, ALL, BLOCKS, ALL, false},
    [WEFT_BACKEND_ALL_GATHER_V] = {BLOCK, ALL, BLOCKS, ALL, false},
    [WEFT_BACKEND_GATHER] = {BLOCK, ALL, BLOCKS, ROOT, false},
    [WEFT_BACKEND_SCATTER] = {BLOCKS, ROOT, BLOCK, ALL, false},
    [WEFT_BACKEND_ALL_TO_ALL] = {BLOCKS, ALL, BLOCKS, ALL, false},
    [WEFT_BACKEND_GATHER_V] = {BLOCK, ALL, BLOCKS, ROOT, true},
    [WEFT_BACKEND_SCATTER_V] = {BLOCKS, ROOT, BLOCK, ALL, true},
    [WEFT_BACKEND_ALL_TO_ALL_V] = {BLOCKS, ALL, BLOCKS, ALL, true},
    [WEFT_BACKEND_ISEND] = {BLOCK, ALL, NOTHING, ALL, true},
    [WEFT_BACKEND_IRECV] = {NOTHING, ALL, BLOCK, ALL, true},
    [WEFT_BACKEND_SEND_RECV] = {BLOCK, ALL, BLOCK, ALL, true},
};

/* Where a rank has blocks of an operation, in elements. */
typedef struct plan_span {
    size_t start, count;
} plan_span;

static size_t element_of(const weft__staged_comm *comm)
{
    return comm->staged->host->dtype_bytes(comm->work->op.dtype);
}

static bool is_on(plan_who who, const weft__staged_comm *comm, int rank)
{
    return who == ALL || (who == ROOT) == (rank == comm->work->op.root);
}

static plan_span block_at(const weft_backend_operation *op, plan_shape shape, const size_t *counts,
                          const size_t *displs, int rank)
{
    if (shape == BLOCK) return (plan_span){0, op->count};
    if (counts) return (plan_span){displs[rank], counts[rank]};
    return (plan_span){(size_t)rank * op->count, op->count};
}

static plan_span in_at(const weft_backend_operation *op, int rank)
{
    return block_at(op, rows[op->kind].in, op->in_counts, op->in_displs, rank);
}

static plan_span out_at(const weft_backend_operation *op, int rank)
{
    return block_at(op, rows[op->kind].out, op->out_counts, op->out_displs, rank);
}

/* How much of a block of so many elements belongs to a piece. */
static size_t window(const weft__staged_way *way, size_t piece, size_t count)
{
    size_t start = piece * way->per;
    if (start >= count) return 0;
    return count - start < way->per ? count - start : way->per;
}

static void idle(weft__staged_way *way)
{
    way->use = WEFT__WAY_IDLE;
    way->peer = -1;
    way->bytes = way->pieces = way->fetched = way->begun = way->moved = way->stored = 0;
}

/* ---- collectives ---- */

static size_t longest(const weft_backend_operation *op, int size)
{
    const size_t *counts = op->in_counts ? op->in_counts : op->out_counts;
    size_t most = counts ? 0 : op->count;
    for (int i = 0; counts && i < size; i++) most = counts[i] > most ? counts[i] : most;
    return most;
}

static void collective(weft__staged_comm *comm)
{
    const weft_backend_operation *op = &comm->work->op;
    const struct plan_row *row = &rows[op->kind];
    size_t blocks = row->in == BLOCKS || row->out == BLOCKS ? (size_t)comm->size : 1;
    size_t most = longest(op, comm->size), per = WEFT__STAGED_PIECE / (element_of(comm) * blocks);
    weft__staged_way *way = &comm->out;
    way->use = WEFT__WAY_COLLECTIVE;
    way->per = per ? per : 1;
    way->pieces = row->in == NOTHING ? 1 : (most + way->per - 1) / way->per;
}

/* ---- messages ---- */

static void message(weft__staged_way *way, weft__way_use use, int peer, const void *buffer, size_t start,
                    size_t count, size_t element)
{
    if (!count) return;
    way->use = use;
    way->peer = peer;
    way->at = (unsigned char *)(uintptr_t)buffer + start * element;
    way->bytes = count * element;
    way->per = WEFT__STAGED_PIECE;
    way->pieces = (way->bytes + way->per - 1) / way->per;
}

static bool is_pair(const weft_backend_operation *op)
{
    return op->kind == WEFT_BACKEND_ISEND || op->kind == WEFT_BACKEND_IRECV ||
           op->kind == WEFT_BACKEND_SEND_RECV;
}

static void pair(weft__staged_comm *comm)
{
    const weft_backend_operation *op = &comm->work->op;
    size_t element = element_of(comm);
    int peer = comm->work->peer;
    if (rows[op->kind].in == BLOCK) message(&comm->out, WEFT__WAY_SENDS, peer, op->in, 0, op->count, element);
    if (rows[op->kind].out == BLOCK)
        message(&comm->in, WEFT__WAY_RECEIVES, peer, op->out, 0, op->count, element);
}

/* Does a rank have something for another one?  What it has is the window at `to` of its input. */
static bool gives(const weft__staged_comm *comm, int rank, int to)
{
    const struct plan_row *row = &rows[comm->work->op.kind];
    return is_on(row->in_on, comm, rank) && is_on(row->out_on, comm, to);
}

static void exchange(weft__staged_comm *comm, int round)
{
    const weft_backend_operation *op = &comm->work->op;
    size_t element = element_of(comm);
    int to = (comm->rank + round) % comm->size, from = (comm->rank - round + comm->size) % comm->size;
    if (gives(comm, comm->rank, to)) {
        plan_span span = in_at(op, to);
        message(&comm->out, WEFT__WAY_SENDS, to, op->in, span.start, span.count, element);
    }
    if (gives(comm, from, comm->rank)) {
        plan_span span = out_at(op, from);
        message(&comm->in, WEFT__WAY_RECEIVES, from, op->out, span.start, span.count, element);
    }
}

int weft__plan_rounds(const weft__staged_comm *comm)
{
    const weft_backend_operation *op = &comm->work->op;
    return rows[op->kind].messages && !is_pair(op) ? comm->size : 1;
}

void weft__plan_round(weft__staged_comm *comm, int round)
{
    const weft_backend_operation *op = &comm->work->op;
    idle(&comm->out);
    idle(&comm->in);
    if (op->kind == WEFT_BACKEND_MEM_ALLOC || !comm->group) return;
    if (!rows[op->kind].messages)
        collective(comm);
    else if (is_pair(op))
        pair(comm);
    else if (round > 0) /* what a rank keeps goes beside all rounds: plan_own */
        exchange(comm, round);
}

/* ---- copies ---- */

/* The windows of all blocks, which lie in the slot one behind the other. */
static cudaError_t fetch_blocks(weft__staged_comm *comm, const weft_backend_operation *op, size_t piece)
{
    size_t element = element_of(comm), offset = piece * comm->out.per * element;
    unsigned char *slot = comm->out.slots[piece % WEFT__STAGED_SLOTS];
    const unsigned char *in = op->in;
    cudaError_t error = cudaSuccess;
    size_t width = window(&comm->out, piece, op->count) * element;
    if (!op->in_counts)
        return cudaMemcpy2DAsync(slot, width, in + offset, op->count * element, width, (size_t)comm->size,
                                 cudaMemcpyDeviceToHost, comm->outwards);
    for (int rank = 0; rank < comm->size && error == cudaSuccess; rank++) {
        plan_span span = in_at(op, rank);
        width = window(&comm->out, piece, span.count) * element;
        if (width)
            error = cudaMemcpyAsync(slot, in + span.start * element + offset, width, cudaMemcpyDeviceToHost,
                                    comm->outwards);
        slot += width;
    }
    return error;
}

static cudaError_t store_blocks(weft__staged_comm *comm, const weft_backend_operation *op, size_t piece)
{
    size_t element = element_of(comm), offset = piece * comm->out.per * element;
    const unsigned char *slot = comm->in.slots[piece % WEFT__STAGED_SLOTS];
    unsigned char *out = op->out;
    cudaError_t error = cudaSuccess;
    size_t width = window(&comm->out, piece, op->count) * element;
    if (!op->out_counts)
        return cudaMemcpy2DAsync(out + offset, op->count * element, slot, width, width, (size_t)comm->size,
                                 cudaMemcpyHostToDevice, comm->inwards);
    for (int rank = 0; rank < comm->size && error == cudaSuccess; rank++) {
        plan_span span = out_at(op, rank);
        width = window(&comm->out, piece, span.count) * element;
        if (width)
            error = cudaMemcpyAsync(out + span.start * element + offset, slot, width, cudaMemcpyHostToDevice,
                                    comm->inwards);
        slot += width;
    }
    return error;
}

cudaError_t weft__plan_fetch(weft__staged_comm *comm, size_t piece, bool *any)
{
    const weft__staged_way *way = &comm->out;
    const weft_backend_operation *op = &comm->work->op;
    unsigned char *slot = way->slots[piece % WEFT__STAGED_SLOTS];
    const unsigned char *from = op->in;
    size_t element = 1, bytes = window(way, piece, way->bytes);
    *any = true;
    if (way->use == WEFT__WAY_SENDS) {
        from = way->at;
    } else {
        const struct plan_row *row = &rows[op->kind];
        element = element_of(comm);
        *any = row->in != NOTHING && is_on(row->in_on, comm, comm->rank);
        if (*any && row->in == BLOCKS) return fetch_blocks(comm, op, piece);
        bytes = *any ? window(way, piece, op->count) * element : 0;
    }
    *any = bytes != 0;
    if (!*any) return cudaSuccess;
    return cudaMemcpyAsync(slot, from + piece * way->per * element, bytes, cudaMemcpyDeviceToHost,
                           comm->outwards);
}

cudaError_t weft__plan_store(weft__staged_comm *comm, const weft__staged_way *way, size_t piece, bool *any)
{
    const weft_backend_operation *op = &comm->work->op;
    const unsigned char *slot = comm->in.slots[piece % WEFT__STAGED_SLOTS];
    unsigned char *to = op->out;
    size_t element = 1, bytes = window(way, piece, way->bytes);
    *any = way->use != WEFT__WAY_SENDS;
    if (way->use == WEFT__WAY_RECEIVES) {
        to = way->at;
    } else if (*any) {
        const struct plan_row *row = &rows[op->kind];
        element = element_of(comm);
        *any = row->out != NOTHING && is_on(row->out_on, comm, comm->rank);
        if (*any && row->out == BLOCKS) return store_blocks(comm, op, piece);
        bytes = window(way, piece, out_at(op, comm->rank).count) * element;
    }
    *any = *any && bytes;
    if (!*any) return cudaSuccess;
    return cudaMemcpyAsync(to + piece * way->per * element, slot, bytes, cudaMemcpyHostToDevice,
                           comm->inwards);
}

cudaError_t weft__plan_own(weft__staged_comm *comm)
{
    const weft_backend_operation *op = &comm->work->op;
    size_t element = element_of(comm);
    plan_span from, to;
    unsigned char *out = op->out;
    const unsigned char *in = op->in;
    if (!rows[op->kind].messages || is_pair(op) || !gives(comm, comm->rank, comm->rank)) return cudaSuccess;
    from = in_at(op, comm->rank);
    to = out_at(op, comm->rank);
    if (!from.count || in + from.start * element == out + to.start * element) return cudaSuccess;
    return cudaMemcpyAsync(out + to.start * element, in + from.start * element, from.count * element,
                           cudaMemcpyDeviceToDevice, comm->inwards);
}

/* ---- in host memory ---- */

static void count_windows(weft__staged_comm *comm, const size_t *counts, size_t piece)
{
    for (int rank = 0; rank < comm->size; rank++)
        comm->counts[rank] = window(&comm->out, piece, counts[rank]);
}

weft_backend_operation weft__plan_operation(weft__staged_comm *comm, const weft__staged_way *way,
                                            size_t piece)
{
    weft_backend_operation op = comm->work->op;
    size_t slot = piece % WEFT__STAGED_SLOTS;
    op.memory = WEFT_MEMORY_HOST;
    op.in = comm->out.slots[slot];
    op.out = comm->in.slots[slot];
    if (way->use != WEFT__WAY_COLLECTIVE) {
        op.kind = way->use == WEFT__WAY_SENDS ? WEFT_BACKEND_ISEND : WEFT_BACKEND_IRECV;
        op.dtype = WEFT_UINT8;
        op.count = window(way, piece, way->bytes);
        op.uneven = false;
        op.in_counts = op.out_counts = NULL;
        return op;
    }
    if (op.uneven) count_windows(comm, op.in_counts ? op.in_counts : op.out_counts, piece);
    op.count = window(way, piece, op.count);
    if (op.in_counts) op.in_counts = comm->counts;
    if (op.out_counts) op.out_counts = comm->counts;
    op.in_displs = op.out_displs = NULL; /* packed */
    if (op.kind == WEFT_BACKEND_BROADCAST && comm->rank == op.root) op.out = comm->out.slots[slot];
    if (op.kind == WEFT_BACKEND_BROADCAST) op.in = op.out;
    return op;
}
