/* toy_run.c - one work: every rank says what the others take of its input, then shows that input a chunk at a time,
 * and takes its share of the others' chunks.  Between two steps all who take part wait for each other: of a message
 * its two ranks, of anything else all of the communicator. */
#include "toy.h"

#include <sched.h>
#include <string.h>
#include <time.h>

/* What a rank takes of another's input. */
typedef struct share {
    size_t start, length; /* bytes */
} share;

/* ---- types ---- */

size_t toy_element(weft_dtype dtype)
{
    static const unsigned char bytes[] = {1, 1, 2, 2, 4, 4, 8, 8, 1, 1, 2, 2, 4, 8, 8, 16, 1};
    return bytes[dtype];
}

static bool reduces(weft_backend_kind kind)
{
    return kind == WEFT_BACKEND_REDUCE || kind == WEFT_BACKEND_ALL_REDUCE ||
           kind == WEFT_BACKEND_REDUCE_SCATTER || kind == WEFT_BACKEND_REDUCE_SCATTER_V;
}

bool toy_supports(const weft_backend_operation *op, const char **why)
{
    bool number = op->dtype <= WEFT_UINT64 || op->dtype == WEFT_FLOAT32 || op->dtype == WEFT_FLOAT64;
    *why = "the toy reduces integers, float32 and float64, by sum, prod, min and max";
    return !reduces(op->kind) || (number && op->reduction <= WEFT_MAX);
}

#define REDUCE(type, arithmetic)                                                        \
    do {                                                                                \
        type *to = out;                                                                 \
        const type *from = in;                                                          \
        for (size_t i = 0; i < n; i++)                                                  \
            to[i] = op == WEFT_SUM    ? (type)((arithmetic)to[i] + (arithmetic)from[i]) \
                    : op == WEFT_PROD ? (type)((arithmetic)to[i] * (arithmetic)from[i]) \
                    : op == WEFT_MIN  ? (from[i] < to[i] ? from[i] : to[i])             \
                                      : (from[i] > to[i] ? from[i] : to[i]);             \
    } while (0)

/* Integers wrap: their arithmetic is unsigned, and wide enough not to be promoted to int. */
static void reduce(weft_dtype dtype, weft_op op, void *out, const void *in, size_t n)
{
    switch (dtype) {
    case WEFT_INT8: REDUCE(int8_t, uint32_t); break;
    case WEFT_UINT8: REDUCE(uint8_t, uint32_t); break;
    case WEFT_INT16: REDUCE(int16_t, uint32_t); break;
    case WEFT_UINT16: REDUCE(uint16_t, uint32_t); break;
    case WEFT_INT32: REDUCE(int32_t, uint32_t); break;
    case WEFT_UINT32: REDUCE(uint32_t, uint32_t); break;
    case WEFT_INT64: REDUCE(int64_t, uint64_t); break;
    case WEFT_UINT64: REDUCE(uint64_t, uint64_t); break;
    case WEFT_FLOAT32: REDUCE(float, float); break;
    default: REDUCE(double, double); break;
    }
}

/* ---- what goes where ---- */

static share block(const weft_backend_operation *op, const size_t *counts, const size_t *displs, int rank)
{
    size_t element = toy_element(op->dtype);
    if (op->uneven) return (share){displs[rank] * element, counts[rank] * element};
    return (share){(size_t)rank * op->count * element, op->count * element};
}

/* What that rank takes of this one's input. */
static share taken_by(const weft_backend_work *work, int rank)
{
    const weft_backend_operation *op = &work->op;
    const share nothing = {0, 0}, all = {0, op->count * toy_element(op->dtype)};
    switch (op->kind) {
    case WEFT_BACKEND_ALL_REDUCE:
    case WEFT_BACKEND_ALL_GATHER:
    case WEFT_BACKEND_ALL_GATHER_V: return all;
    case WEFT_BACKEND_REDUCE:
    case WEFT_BACKEND_GATHER:
    case WEFT_BACKEND_GATHER_V: return rank == op->root ? all : nothing;
    case WEFT_BACKEND_BROADCAST: return work->rank == op->root && rank != op->root ? all : nothing;
    case WEFT_BACKEND_SCATTER:
    case WEFT_BACKEND_SCATTER_V:
        return work->rank == op->root ? block(op, op->in_counts, op->in_displs, rank) : nothing;
    case WEFT_BACKEND_REDUCE_SCATTER:
    case WEFT_BACKEND_REDUCE_SCATTER_V:
    case WEFT_BACKEND_ALL_TO_ALL:
    case WEFT_BACKEND_ALL_TO_ALL_V: return block(op, op->in_counts, op->in_displs, rank);
    case WEFT_BACKEND_ISEND:
    case WEFT_BACKEND_SEND_RECV: return rank == work->peer ? all : nothing;
    default: return nothing;
    }
}

/* Where in this rank's output what comes from that rank begins. */
static size_t place_of(const weft_backend_operation *op, int rank)
{
    switch (op->kind) {
    case WEFT_BACKEND_ALL_GATHER:
    case WEFT_BACKEND_ALL_GATHER_V:
    case WEFT_BACKEND_GATHER:
    case WEFT_BACKEND_GATHER_V:
    case WEFT_BACKEND_ALL_TO_ALL:
    case WEFT_BACKEND_ALL_TO_ALL_V: return block(op, op->out_counts, op->out_displs, rank).start;
    default: return 0;
    }
}

/* ---- together ---- */

bool toy_wait(weft_backend_comm *comm, int *tries)
{
    const struct timespec pause = {0, 50000};
    if (atomic_load(&comm->doomed)) return false;
    if (++*tries < 100)
        sched_yield();
    else
        nanosleep(&pause, NULL);
    return true;
}

static bool takes_part(const weft_backend_work *work, int rank)
{
    return work->peer < 0 || rank == work->peer;
}

static bool meet(weft_backend_comm *comm, const weft_backend_work *work)
{
    toy_rank *of = comm->segment->of;
    int tries = 0;
    for (int i = 0; i < comm->size; i++)
        if (takes_part(work, i))
            atomic_store_explicit(&of[comm->rank].steps[i], ++comm->steps[i], memory_order_release);
    for (int i = 0; i < comm->size; i++) {
        if (!takes_part(work, i)) continue;
        while (atomic_load_explicit(&of[i].steps[comm->rank], memory_order_acquire) < comm->steps[i])
            if (!toy_wait(comm, &tries)) return false;
    }
    return true;
}

/* Tells what the others take, and hears what this rank does; most: bytes of the longest input. */
static bool agree(weft_backend_comm *comm, const weft_backend_work *work, share *taken, size_t *most)
{
    toy_rank *own = &comm->segment->of[comm->rank];
    own->bytes = 0;
    for (int i = 0; i < comm->size; i++) {
        share s = taken_by(work, i);
        own->start[i] = s.start;
        own->length[i] = s.length;
        if (s.length && s.start + s.length > own->bytes) own->bytes = s.start + s.length;
    }
    if (!meet(comm, work)) return false;
    *most = own->bytes;
    for (int i = 0; i < comm->size; i++) {
        const toy_rank *other = &comm->segment->of[i];
        if (!takes_part(work, i)) continue;
        taken[i] = (share){other->start[comm->rank], other->length[comm->rank]};
        if (other->bytes > *most) *most = other->bytes;
    }
    return meet(comm, work);
}

/* The part of a share that lies in the chunk at `at`. */
static share overlap(share s, size_t at)
{
    size_t from = s.start > at ? s.start : at, end = s.start + s.length;
    if (end > at + TOY_CHUNK) end = at + TOY_CHUNK;
    return end > from ? (share){from, end - from} : (share){0, 0};
}

static void take(weft_backend_comm *comm, const weft_backend_work *work, const share *taken, size_t at)
{
    const weft_backend_operation *op = &work->op;
    size_t element = toy_element(op->dtype);
    bool first = true;
    for (int i = 0; i < comm->size; i++) {
        share s = overlap(taken[i], at);
        const unsigned char *from = comm->segment->of[i].chunk + (s.start - at);
        unsigned char *to =
            s.length ? (unsigned char *)op->out + place_of(op, i) + (s.start - taken[i].start) : NULL;
        if (!s.length) continue;
        if (first || !reduces(op->kind))
            memcpy(to, from, s.length);
        else
            reduce(op->dtype, op->reduction, to, from, s.length / element);
        first = false;
    }
}

bool toy_run(weft_backend_comm *comm, const weft_backend_work *work)
{
    toy_rank *own = &comm->segment->of[comm->rank];
    share taken[TOY_RANKS] = {{0, 0}};
    size_t most;
    if (!agree(comm, work, taken, &most)) return false;
    for (size_t at = 0; at < most; at += TOY_CHUNK) {
        size_t left = own->bytes > at ? own->bytes - at : 0;
        if (left)
            memcpy(own->chunk, (const unsigned char *)work->op.in + at, left < TOY_CHUNK ? left : TOY_CHUNK);
        if (!meet(comm, work)) return false;
        take(comm, work, taken, at);
        if (!meet(comm, work)) return false;
    }
    return true;
}
