/* known.c - see known.h.  A bit for each logarithm of a size, and for each peer.  Fails: making one, without memory. */
#include "known.h"

#include "dtype.h"
#include "types.h"

#include <stdatomic.h>
#include <stdlib.h>

#define WORD 64 /* bits */

/* The calls of NCCL that choose a way. */
typedef enum known_move { KNOWN_BROADCAST, KNOWN_ALL_GATHER, KNOWN_MOVES } known_move;
typedef enum known_reduction {
    KNOWN_REDUCE,
    KNOWN_ALL_REDUCE,
    KNOWN_REDUCE_SCATTER,
    KNOWN_REDUCTIONS
} known_reduction;

struct weft__known {
    _Atomic uint64_t moved[KNOWN_MOVES]; /* sizes */
    _Atomic uint64_t reduced[KNOWN_REDUCTIONS][WEFT__DTYPE_COUNT][WEFT__REDUCTION_COUNT];
    _Atomic uint64_t *to, *from; /* peers */
};

/* Notes a work, or looks whether it is noted. */
typedef struct seeing {
    weft__known *known;
    const weft_backend_work *work;
    bool notes, has;
} seeing;

static void see(seeing *s, _Atomic uint64_t *word, uint64_t bits)
{
    if (s->notes)
        atomic_fetch_or_explicit(word, bits, memory_order_relaxed);
    else if (bits & ~atomic_load_explicit(word, memory_order_relaxed))
        s->has = false;
}

static void see_peer(seeing *s, _Atomic uint64_t *peers, int peer)
{
    if (peer == s->work->rank) return; /* a copy */
    see(s, &peers[peer / WORD], UINT64_C(1) << (peer % WORD));
}

static void see_peers(seeing *s, _Atomic uint64_t *peers, const size_t *counts)
{
    for (int rank = 0; rank < s->work->size; rank++)
        if (!counts || counts[rank]) see_peer(s, peers, rank);
}

static uint64_t size_bit(const weft_backend_operation *op, size_t count)
{
    size_t bytes = count * weft__type_bytes(op->dtype);
    return UINT64_C(1) << (bytes ? WORD - 1 - __builtin_clzll(bytes) : 0);
}

/* Those of the blocks that are not empty. */
static uint64_t size_bits(const weft_backend_operation *op, const size_t *counts, int size)
{
    uint64_t bits = 0;
    for (int rank = 0; rank < size; rank++)
        if (counts[rank]) bits |= size_bit(op, counts[rank]);
    return bits;
}

static void see_reduced(seeing *s, known_reduction call, uint64_t bits)
{
    const weft_backend_operation *op = &s->work->op;
    see(s, &s->known->reduced[call][op->dtype][op->reduction], bits);
}

/* Blocks of all ranks at root, which go from it or come to it. */
static void see_rooted(seeing *s, bool scatters)
{
    const weft_backend_operation *op = &s->work->op;
    weft__known *known = s->known;
    const size_t *counts = scatters ? op->in_counts : op->out_counts;
    bool root = s->work->rank == op->root;
    if (root)
        see_peers(s, scatters ? known->to : known->from, counts);
    else if (op->count)
        see_peer(s, scatters ? known->from : known->to, op->root);
}

static void see_work(seeing *s)
{
    weft__known *known = s->known;
    const weft_backend_operation *op = &s->work->op;
    uint64_t bit = size_bit(op, op->count);
    if (!op->count && !op->uneven && op->kind != WEFT_BACKEND_BARRIER) return; /* NCCL makes nothing of it */
    switch (op->kind) {
    case WEFT_BACKEND_BARRIER: see(s, &known->reduced[KNOWN_ALL_REDUCE][WEFT_UINT8][WEFT_SUM], 1); return;
    case WEFT_BACKEND_BROADCAST: see(s, &known->moved[KNOWN_BROADCAST], bit); return;
    case WEFT_BACKEND_REDUCE: see_reduced(s, KNOWN_REDUCE, bit); return;
    case WEFT_BACKEND_ALL_REDUCE: see_reduced(s, KNOWN_ALL_REDUCE, bit); return;
    case WEFT_BACKEND_REDUCE_SCATTER: see_reduced(s, KNOWN_REDUCE_SCATTER, bit); return;
    case WEFT_BACKEND_REDUCE_SCATTER_V:
        see_reduced(s, KNOWN_REDUCE, size_bits(op, op->in_counts, s->work->size));
        return;
    case WEFT_BACKEND_ALL_GATHER: see(s, &known->moved[KNOWN_ALL_GATHER], bit); return;
    case WEFT_BACKEND_ALL_GATHER_V:
        see(s, &known->moved[KNOWN_BROADCAST], size_bits(op, op->out_counts, s->work->size));
        return;
    case WEFT_BACKEND_GATHER:
    case WEFT_BACKEND_GATHER_V: see_rooted(s, false); return;
    case WEFT_BACKEND_SCATTER:
    case WEFT_BACKEND_SCATTER_V: see_rooted(s, true); return;
    case WEFT_BACKEND_ALL_TO_ALL:
    case WEFT_BACKEND_ALL_TO_ALL_V:
        see_peers(s, known->to, op->in_counts);
        see_peers(s, known->from, op->out_counts);
        return;
    case WEFT_BACKEND_ISEND: see_peer(s, known->to, s->work->peer); return;
    case WEFT_BACKEND_IRECV: see_peer(s, known->from, s->work->peer); return;
    case WEFT_BACKEND_SEND_RECV:
        see_peer(s, known->to, s->work->peer);
        see_peer(s, known->from, s->work->peer);
        return;
    case WEFT_BACKEND_MEM_ALLOC: s->has = false; return; /* ranks meet for each window */
    }
}

bool weft__known_has(const weft__known *known, const weft_backend_work *work)
{
    seeing s = {.known = (weft__known *)(uintptr_t)known, .has = known != NULL}; /* it is only read */
    for (; work && s.has; work = work->next) {
        s.work = work;
        see_work(&s);
    }
    return s.has;
}

void weft__known_note(weft__known *known, const weft_backend_work *work)
{
    seeing s = {.known = known, .notes = true};
    for (; work && known; work = work->next) {
        s.work = work;
        see_work(&s);
    }
}

weft__known *weft__known_make(int size)
{
    weft__known *known = calloc(1, sizeof *known);
    size_t words = ((size_t)size + WORD - 1) / WORD;
    if (!known) return NULL;
    known->to = calloc(words, sizeof *known->to);
    known->from = calloc(words, sizeof *known->from);
    if (known->to && known->from) return known;
    weft__known_free(known);
    return NULL;
}

void weft__known_free(weft__known *known)
{
    if (!known) return;
    free(known->to);
    free(known->from);
    free(known);
}
