/* collective.c - collectives along the ring 0 -> 1 -> ... -> 0, in the order of NCCL's ring algorithm.
 *
 *   AllReduce       the elements are cut into `ranks` chunks; chunk c is summed along the ring from rank c + 1 to
 *                   rank c, each rank adding its own to what comes; then the sums go around
 *   ReduceScatter   the first half of that: block c ends at rank c
 *   AllGather       the second half
 *   Reduce          along the chain from rank root + 1 to root
 *   Broadcast       along the chain from root
 *
 * Each begins with a frame to the next rank, and one from the rank before: see transfer.h.  NCCL cuts chunks
 * further, over channels; which elements form a chunk is no promise of NCCL's and none of this file's. */
#include "transfer.h"
#include "type.h"

#include <stdlib.h>
#include <string.h>

typedef struct walk { /* one collective of one rank */
    ncclComm_t comm;
    const task *task;
    size_t item; /* bytes of an element */
    const char *send;
    char *recv;
    bool framed; /* the first step is still to come */
} walk;

/* To the next rank and from the one before, at the same time. */
static bool step(walk *w, const void *send, size_t send_bytes, void *recv, size_t recv_bytes)
{
    int ranks = w->comm->ranks, rank = w->comm->rank;
    frame head = frame_of(w->task, w->task->number);
    transfer out = {.peer = (rank + 1) % ranks, .sends = true, .framed = w->framed, .head = head};
    transfer in = {.peer = (rank + ranks - 1) % ranks, .framed = w->framed, .head = head};
    transfer *lanes[2] = {&out, &in};

    out.at = (char *)(uintptr_t)send;
    out.bytes = send_bytes;
    in.at = recv;
    in.bytes = recv_bytes;
    w->framed = false;
    return transfers_run(w->comm, lanes, 2);
}

/* Elements of a chunk: the last ones may be smaller or empty. */
typedef struct cut {
    size_t count, chunk;
} cut;

static size_t cut_at(const cut *c, int chunk)
{
    size_t at = (size_t)chunk * c->chunk;

    return at < c->count ? at : c->count;
}

static size_t cut_size(const cut *c, int chunk)
{
    return cut_at(c, chunk + 1) - cut_at(c, chunk);
}

static int around(const walk *w, int chunk)
{
    int ranks = w->comm->ranks;

    return ((chunk % ranks) + ranks) % ranks;
}

/* The first half of a ring: the sum of chunk `rank` comes to lie at result. */
static bool reduce_chunks(walk *w, const cut *c, char *result)
{
    int rank = w->comm->rank, ranks = w->comm->ranks;
    const reduction *how = &w->task->how;
    char *room = malloc(2 * c->chunk * w->item);
    char *sum = room, *next = room ? room + c->chunk * w->item : NULL;
    int chunk = around(w, rank - 1);
    bool whole = room != NULL;

    if (whole) reduce_load(how, sum, w->send + cut_at(c, chunk) * w->item, cut_size(c, chunk));
    for (int i = 1; whole && i < ranks; i++) {
        int coming = around(w, rank - i - 1);
        char *sent = sum;
        whole = step(w, sum, cut_size(c, chunk) * w->item, next, cut_size(c, coming) * w->item);
        if (!whole) break;
        chunk = coming;
        reduce_add(how, next, w->send + cut_at(c, chunk) * w->item, cut_size(c, chunk));
        sum = next;
        next = sent;
    }
    if (whole) {
        reduce_end(how, sum, cut_size(c, chunk));
        if (cut_size(c, chunk)) memcpy(result, sum, cut_size(c, chunk) * w->item);
    }
    free(room);
    return whole;
}

/* The second half: chunk `rank` lies at its place in recv; the others' come there. */
static bool gather_chunks(walk *w, const cut *c)
{
    int rank = w->comm->rank;

    for (int i = 0; i < w->comm->ranks - 1; i++) {
        int going = around(w, rank - i), coming = around(w, rank - i - 1);
        if (!step(w, w->recv + cut_at(c, going) * w->item, cut_size(c, going) * w->item,
                  w->recv + cut_at(c, coming) * w->item, cut_size(c, coming) * w->item))
            return false;
    }
    return true;
}

static bool all_reduce(walk *w)
{
    size_t ranks = (size_t)w->comm->ranks;
    cut c = {w->task->count, (w->task->count + ranks - 1) / ranks};

    return reduce_chunks(w, &c, w->recv + cut_at(&c, w->comm->rank) * w->item) && gather_chunks(w, &c);
}

static bool reduce_scatter(walk *w)
{
    cut c = {w->task->count * (size_t)w->comm->ranks, w->task->count};

    return reduce_chunks(w, &c, w->recv);
}

static bool all_gather(walk *w)
{
    cut c = {w->task->count * (size_t)w->comm->ranks, w->task->count};
    char *own = w->recv + cut_at(&c, w->comm->rank) * w->item;

    if (own != w->send) memmove(own, w->send, c.chunk * w->item);
    return gather_chunks(w, &c);
}

/* One way along the chain: only to the next, or only from the one before. */
static bool pass(walk *w, const void *at, size_t bytes)
{
    return step(w, at, bytes, NULL, 0);
}

static bool take(walk *w, void *at, size_t bytes)
{
    return step(w, NULL, 0, at, bytes);
}

static size_t piece_of(const walk *w, size_t done)
{
    size_t most = w->comm->segment->ring_bytes / 2 / w->item;
    size_t left = w->task->count - done;

    return left < most ? left : most;
}

static bool broadcast(walk *w)
{
    int rank = w->comm->rank, root = w->task->peer;
    bool last = (rank + 1) % w->comm->ranks == root;

    if (rank == root && w->recv != w->send) memmove(w->recv, w->send, w->task->count * w->item);
    if (!step(w, NULL, 0, NULL, 0)) return false; /* all call the same: said before anything moves */
    for (size_t done = 0, n; done < w->task->count; done += n) {
        char *at = w->recv + done * w->item;
        n = piece_of(w, done);
        if (rank != root && !take(w, at, n * w->item)) return false;
        if (!last && !pass(w, at, n * w->item)) return false;
    }
    return true;
}

/* A piece on its way to root: what comes plus this rank's own, in sum. */
static bool reduce_piece(walk *w, size_t done, size_t n, char *sum)
{
    int rank = w->comm->rank, root = w->task->peer;
    const char *own = w->send + done * w->item;

    if (rank == (root + 1) % w->comm->ranks) {
        reduce_load(&w->task->how, sum, own, n);
    } else {
        if (!take(w, sum, n * w->item)) return false;
        reduce_add(&w->task->how, sum, own, n);
    }
    if (rank != root) return pass(w, sum, n * w->item);
    reduce_end(&w->task->how, sum, n);
    memcpy(w->recv + done * w->item, sum, n * w->item);
    return true;
}

static bool reduce(walk *w)
{
    char *sum = malloc(w->comm->segment->ring_bytes / 2);
    bool whole = sum && step(w, NULL, 0, NULL, 0);

    for (size_t done = 0, n; whole && done < w->task->count; done += n) {
        n = piece_of(w, done);
        whole = reduce_piece(w, done, n, sum);
    }
    free(sum);
    return whole;
}

/* A communicator of one rank. */
static bool alone(walk *w)
{
    size_t count = w->task->count;
    char *room;

    if (w->task->kind == TASK_BROADCAST || w->task->kind == TASK_ALL_GATHER) {
        if (w->recv != w->send) memmove(w->recv, w->send, count * w->item);
        return true;
    }
    room = malloc(count * w->item);
    if (!room) return false;
    reduce_load(&w->task->how, room, w->send, count);
    reduce_end(&w->task->how, room, count);
    memcpy(w->recv, room, count * w->item);
    free(room);
    return true;
}

bool collective_run(ncclComm_t comm, task *t)
{
    walk w = {comm, t, type_bytes(t->type), emu_host_view(t->send), emu_host_view(t->recv), true};

    reduce_begin(&t->how);
    if (comm->ranks == 1) return alone(&w);
    switch (t->kind) {
    case TASK_ALL_REDUCE: return all_reduce(&w);
    case TASK_REDUCE_SCATTER: return reduce_scatter(&w);
    case TASK_ALL_GATHER: return all_gather(&w);
    case TASK_BROADCAST: return broadcast(&w);
    case TASK_REDUCE: return reduce(&w);
    default: return false; /* between pairs: pairs_run */
    }
}
