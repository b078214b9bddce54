/* calls.c - an operation as one nonblocking call of MPI.
 *
 * The forms in place that both know are MPI_IN_PLACE; where MPI wants other ones (a scattered reduction, whose input
 * must stay), or one form on all ranks (all_to_all), it reads or writes memory of this module.  Counts of uneven blocks become int.
 * Fails: no memory, a block that int does not reach, or MPI, with what it says. */
#include "mpi_module.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct call {
    const weft_backend_work *work;
    const weft_backend_operation *op;
    weft__mpi_running *running;
    MPI_Comm comm;
    MPI_Datatype type;
    MPI_Op reduction;
    size_t element;
    int count;
    bool is_root;
    const void *in; /* as MPI is to have them */
    void *out;
    const int *in_counts, *in_displs, *out_counts, *out_displs; /* of uneven blocks */
    char *sentence;
} call;

/* ---- uneven blocks ---- */

static const int *as_ints(const call *c, const size_t *numbers, int *to, const char *what)
{
    if (!numbers) return NULL;
    for (int i = 0; i < c->work->size; i++) {
        if (numbers[i] > INT_MAX) {
            snprintf(c->sentence, WEFT__MPI_SENTENCE,
                     "%s: the %s of rank %d is %zu elements: MPI counts up to %d", c->op->name, what, i,
                     numbers[i], INT_MAX);
            return NULL;
        }
        to[i] = (int)numbers[i];
    }
    return to;
}

static weft_status find_blocks(call *c)
{
    const weft_backend_operation *op = c->op;
    int *numbers = c->running->numbers, n = c->work->size;
    if (!op->uneven) return WEFT_OK;
    c->in_counts = as_ints(c, op->in_counts, numbers, "block");
    c->in_displs = as_ints(c, op->in_displs, numbers + n, "displacement of the block");
    c->out_counts = as_ints(c, op->out_counts, numbers + 2 * n, "block");
    c->out_displs = as_ints(c, op->out_displs, numbers + 3 * n, "displacement of the block");
    if (!*c->sentence && op->count > INT_MAX)
        snprintf(c->sentence, WEFT__MPI_SENTENCE, "%s: a block of %zu elements: MPI counts up to %d",
                 op->name, op->count, INT_MAX);
    return *c->sentence ? WEFT_ERR_UNSUPPORTED : WEFT_OK;
}

/* ---- in place, and not quite ---- */

/* This rank's block among those that lie one after the other, or as the displacements say. */
static const char *block_at(const call *c, const void *blocks, const int *displs)
{
    size_t first = c->op->uneven ? (size_t)displs[c->work->rank] : c->op->count * (size_t)c->work->rank;
    return (const char *)blocks + first * c->element;
}

static weft_status no_memory(const call *c)
{
    snprintf(c->sentence, WEFT__MPI_SENTENCE, "%s: no memory for a copy of a buffer", c->op->name);
    return WEFT_ERR_MEMORY;
}

static weft_status use_output(call *c, size_t blocks)
{
    weft__mpi_running *r = c->running;
    r->out_bytes = blocks * (size_t)c->count * c->element;
    r->output = malloc(r->out_bytes ? r->out_bytes : 1);
    c->out = r->output;
    return r->output ? WEFT_OK : no_memory(c);
}

/* MPI wants the blocks that it scatters one after the other. */
static weft_status pack_input(call *c)
{
    size_t at = 0, total = 0;
    bool packed = true;
    for (int i = 0; i < c->work->size; i++) {
        packed = packed && (!c->in_counts[i] || (size_t)c->in_displs[i] == total);
        total += (size_t)c->in_counts[i];
    }
    if (packed) return WEFT_OK;
    c->running->input = malloc(total * c->element);
    if (!c->running->input) return no_memory(c);
    for (int i = 0; i < c->work->size; i++) {
        size_t bytes = (size_t)c->in_counts[i] * c->element;
        if (bytes)
            memcpy((char *)c->running->input + at,
                   (const char *)c->op->in + (size_t)c->in_displs[i] * c->element, bytes);
        at += bytes;
    }
    c->in = c->running->input;
    return WEFT_OK;
}

static weft_status find_buffers(call *c)
{
    const weft_backend_operation *op = c->op;
    weft_status status;
    if (!c->count && !op->uneven) return WEFT_OK;
    switch (op->kind) {
    case WEFT_BACKEND_ALL_REDUCE:
        if (op->in == op->out) c->in = MPI_IN_PLACE;
        break;
    case WEFT_BACKEND_ALL_TO_ALL: /* where some ranks say MPI_IN_PLACE and others do not, MPI's algorithms differ */
        return op->in == op->out ? use_output(c, (size_t)c->work->size) : WEFT_OK;
    case WEFT_BACKEND_REDUCE:
        if (c->is_root && op->in == op->out) c->in = MPI_IN_PLACE;
        break;
    case WEFT_BACKEND_ALL_GATHER:
    case WEFT_BACKEND_ALL_GATHER_V:
        if (c->count && op->in == block_at(c, op->out, c->out_displs)) c->in = MPI_IN_PLACE;
        break;
    case WEFT_BACKEND_GATHER:
    case WEFT_BACKEND_GATHER_V:
        if (c->is_root && c->count && op->in == block_at(c, op->out, c->out_displs)) c->in = MPI_IN_PLACE;
        break;
    case WEFT_BACKEND_SCATTER:
    case WEFT_BACKEND_SCATTER_V:
        if (c->is_root && c->count && op->out == block_at(c, op->in, c->in_displs)) c->out = MPI_IN_PLACE;
        break;
    case WEFT_BACKEND_REDUCE_SCATTER:
    case WEFT_BACKEND_REDUCE_SCATTER_V:
        if (c->count && op->out == block_at(c, op->in, c->in_displs) &&
            (status = use_output(c, 1)) != WEFT_OK)
            return status;
        return op->uneven ? pack_input(c) : WEFT_OK;
    default: break;
    }
    return WEFT_OK;
}

/* ---- the calls ---- */

/* What MPI's rows of the table below have alike. */
#define TYPED  c->count, c->type
#define LAST   c->comm, &c->running->request
#define ROOTED c->op->root, LAST

static int call_broadcast(const call *c)
{
    return MPI_Ibcast(c->out, TYPED, ROOTED);
}

static int call_reduce(const call *c)
{
    return MPI_Ireduce(c->in, c->out, TYPED, c->reduction, ROOTED);
}

static int call_all_reduce(const call *c)
{
    return MPI_Iallreduce(c->in, c->out, TYPED, c->reduction, LAST);
}

static int call_reduce_scatter(const call *c)
{
    return MPI_Ireduce_scatter_block(c->in, c->out, TYPED, c->reduction, LAST);
}

static int call_all_gather(const call *c)
{
    return MPI_Iallgather(c->in, TYPED, c->out, TYPED, LAST);
}

static int call_gather(const call *c)
{
    return MPI_Igather(c->in, TYPED, c->out, TYPED, ROOTED);
}

static int call_scatter(const call *c)
{
    return MPI_Iscatter(c->in, TYPED, c->out, TYPED, ROOTED);
}

static int call_all_to_all(const call *c)
{
    return MPI_Ialltoall(c->in, TYPED, c->out, TYPED, LAST);
}

static int call_all_gather_v(const call *c)
{
    return MPI_Iallgatherv(c->in, TYPED, c->out, c->out_counts, c->out_displs, c->type, LAST);
}

static int call_gather_v(const call *c)
{
    return MPI_Igatherv(c->in, TYPED, c->out, c->out_counts, c->out_displs, c->type, ROOTED);
}

static int call_scatter_v(const call *c)
{
    return MPI_Iscatterv(c->in, c->in_counts, c->in_displs, c->type, c->out, TYPED, ROOTED);
}

static int call_reduce_scatter_v(const call *c)
{
    return MPI_Ireduce_scatter(c->in, c->out, c->in_counts, c->type, c->reduction, LAST);
}

static int call_all_to_all_v(const call *c)
{
    return MPI_Ialltoallv(c->in, c->in_counts, c->in_displs, c->type, c->out, c->out_counts, c->out_displs,
                          c->type, LAST);
}

static const struct {
    int (*call)(const call *c);
    const char *name;
} calls[WEFT_BACKEND_KINDS] = {
    [WEFT_BACKEND_BROADCAST] = {call_broadcast, "MPI_Ibcast"},
    [WEFT_BACKEND_REDUCE] = {call_reduce, "MPI_Ireduce"},
    [WEFT_BACKEND_ALL_REDUCE] = {call_all_reduce, "MPI_Iallreduce"},
    [WEFT_BACKEND_REDUCE_SCATTER] = {call_reduce_scatter, "MPI_Ireduce_scatter_block"},
    [WEFT_BACKEND_ALL_GATHER] = {call_all_gather, "MPI_Iallgather"},
    [WEFT_BACKEND_GATHER] = {call_gather, "MPI_Igather"},
    [WEFT_BACKEND_SCATTER] = {call_scatter, "MPI_Iscatter"},
    [WEFT_BACKEND_ALL_TO_ALL] = {call_all_to_all, "MPI_Ialltoall"},
    [WEFT_BACKEND_ALL_GATHER_V] = {call_all_gather_v, "MPI_Iallgatherv"},
    [WEFT_BACKEND_GATHER_V] = {call_gather_v, "MPI_Igatherv"},
    [WEFT_BACKEND_SCATTER_V] = {call_scatter_v, "MPI_Iscatterv"},
    [WEFT_BACKEND_REDUCE_SCATTER_V] = {call_reduce_scatter_v, "MPI_Ireduce_scatter"},
    [WEFT_BACKEND_ALL_TO_ALL_V] = {call_all_to_all_v, "MPI_Ialltoallv"},
};

weft_status weft__mpi_issue(weft__mpi_running *running, char sentence[WEFT__MPI_SENTENCE])
{
    const weft_backend_work *work = running->work;
    const weft_backend_operation *op = &work->op;
    bool reduced = weft__mpi_is_reduction(op->kind);
    call c = {.work = work,
              .op = op,
              .running = running,
              .comm = work->comm->comm,
              .type = weft__mpi_type(op->dtype, reduced),
              .reduction = reduced ? weft__mpi_reduction(op->dtype, op->reduction) : MPI_OP_NULL,
              .element = weft__mpi_element(op->dtype),
              .count = (int)op->count,
              .is_root = work->rank == op->root,
              .in = op->in,
              .out = op->out,
              .sentence = sentence};
    weft_status status;
    int error;
    *sentence = '\0';
    status = find_blocks(&c);
    if (status == WEFT_OK) status = find_buffers(&c);
    if (status != WEFT_OK) return status;
    error = calls[op->kind].call(&c);
    if (error == MPI_SUCCESS) return WEFT_OK;
    weft__mpi_error_text(error, calls[op->kind].name, sentence);
    return WEFT_ERR_SYSTEM;
}
