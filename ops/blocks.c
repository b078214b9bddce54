/* blocks.c - copying and checking uneven blocks.
 *
 * Fails: with ERR_ARGUMENT and a sentence that names the rank, or both ranks, whose block is wrong; with
 * ERR_MEMORY. */
#include "blocks.h"

#include "check.h"
#include "op.h"
#include "status.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define ARRAYS     4 /* counts and displacements of both buffers */
#define TOTAL_BITS 40

/* ---- copying ---- */

static weft__blocks copy_blocks(const weft__blocks *given, int size, size_t *counts)
{
    size_t *displs = counts + size, total = 0;
    if (!given->counts) return (weft__blocks){0};
    for (int r = 0; r < size; r++) {
        counts[r] = given->counts[r];
        displs[r] = given->displs ? given->displs[r] : total;
        total = counts[r] > SIZE_MAX - total ? SIZE_MAX : total + counts[r];
    }
    return (weft__blocks){counts, displs, total};
}

weft__uneven *weft__uneven_copy(const weft__uneven *given, int size)
{
    size_t bytes = sizeof(weft__uneven) + ARRAYS * (size_t)size * sizeof(size_t);
    weft__uneven *copy = malloc(bytes);
    size_t *numbers = (size_t *)(copy + 1);
    if (!copy) {
        weft__fail_memory(bytes, "the counts of an operation");
        return NULL;
    }
    copy->in = copy_blocks(&given->in, size, numbers);
    copy->out = copy_blocks(&given->out, size, numbers + 2 * size);
    return copy;
}

/* The total in the low bits, the hash above them. */
static uint64_t digest(const weft__blocks *blocks, int size)
{
    uint64_t most = (UINT64_C(1) << TOTAL_BITS) - 1, hash = 1;
    for (int r = 0; r < size; r++) {
        hash = (hash ^ blocks->counts[r]) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    hash *= UINT64_C(0xbf58476d1ce4e5b9);
    return (hash & ~most) | (blocks->total < most ? blocks->total : most);
}

void weft__digest_text(uint64_t digest, const char *type, char *text, size_t bytes)
{
    snprintf(text, bytes, "%" PRIu64 " %s in blocks %06" PRIx64, digest & ((UINT64_C(1) << TOTAL_BITS) - 1),
             type, digest >> TOTAL_BITS);
}

/* ---- checking ---- */

typedef struct side { /* one buffer, as the sentences tell it */
    const weft__op *op;
    const weft__blocks *blocks;
    const char *prefix; /* of its arrays' names */
    const char *buffer;
} side;

static weft_status check_ends(side s, int size)
{
    size_t most = PTRDIFF_MAX / weft_dtype_size(s.op->dtype);
    const char *name = weft__kind_name(s.op->kind);
    for (int r = 0; r < size; r++) {
        size_t count = s.blocks->counts[r], start = s.blocks->displs[r];
        if (count > most || start > most - count)
            return weft__fail(WEFT_ERR_ARGUMENT,
                              "%s: rank %d's block in %s has %zu elements from %zu on, expected its end at "
                              "%zu at most",
                              name, r, s.buffer, count, start, most);
    }
    if (s.blocks->total > most)
        return weft__fail(WEFT_ERR_ARGUMENT, "%s: %scounts add up to more than %zu elements", name, s.prefix,
                          most);
    return WEFT_OK;
}

typedef struct piece {
    size_t start, end;
    int rank;
} piece;

static int by_start(const void *a, const void *b)
{
    const piece *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

static bool is_ascending(const weft__blocks *blocks, int size)
{
    size_t end = 0;
    for (int r = 0; r < size; r++) {
        if (blocks->counts[r] == 0) continue;
        if (blocks->displs[r] < end) return false;
        end = blocks->displs[r] + blocks->counts[r];
    }
    return true;
}

static weft_status check_apart(side s, int size)
{
    piece *pieces;
    int n = 0;
    weft_status status = WEFT_OK;
    if (is_ascending(s.blocks, size)) return WEFT_OK;
    pieces = malloc((size_t)size * sizeof *pieces);
    if (!pieces) return weft__fail_memory((size_t)size * sizeof *pieces, "a check of blocks");
    for (int r = 0; r < size; r++)
        if (s.blocks->counts[r])
            pieces[n++] = (piece){s.blocks->displs[r], s.blocks->displs[r] + s.blocks->counts[r], r};
    qsort(pieces, (size_t)n, sizeof *pieces, by_start);
    for (int i = 1; i < n && status == WEFT_OK; i++)
        if (pieces[i].start < pieces[i - 1].end)
            status = weft__fail(WEFT_ERR_ARGUMENT,
                                "%s: the blocks of rank %d (elements %zu to %zu) and rank %d (%zu to %zu) "
                                "overlap in %s",
                                weft__kind_name(s.op->kind), pieces[i - 1].rank, pieces[i - 1].start,
                                pieces[i - 1].end - 1, pieces[i].rank, pieces[i].start, pieces[i].end - 1,
                                s.buffer);
    free(pieces);
    return status;
}

/* Both buffers have blocks, so no rank knows the lengths of the others'. */
static bool has_two(const weft__op *op)
{
    return !(~weft__kind_traits(op->kind) & (WEFT__IN_BLOCKS | WEFT__OUT_BLOCKS));
}

/* What this rank hands to itself; in a rooted kind only the root does. */
static weft_status check_own(const weft__op *op, int rank)
{
    const char *name = weft__kind_name(op->kind);
    size_t in, out;
    if (weft__kind_traits(op->kind) & WEFT__ROOTED && rank != op->root) return WEFT_OK;
    in = weft__op_in_block(op, rank).length;
    out = weft__op_out_block(op, rank).length;
    if (in == out) return WEFT_OK;
    if (has_two(op))
        return weft__fail(WEFT_ERR_ARGUMENT,
                          "%s: in_counts[%d] is %zu and out_counts[%d] is %zu, expected the same: both are "
                          "of this rank",
                          name, rank, in, rank, out);
    return weft__fail(WEFT_ERR_ARGUMENT,
                      "%s: count is %zu and counts[%d] is %zu, expected the same: both are of this rank",
                      name, op->count, rank, op->uneven->in.counts ? in : out);
}

/* Which of its buffers have blocks on this rank. */
static bool has_blocks(const weft__op *op, int rank, unsigned trait)
{
    unsigned traits = weft__kind_traits(op->kind);
    return (traits & trait) && (!(traits & WEFT__ROOTED) || rank == op->root);
}

weft_status weft__uneven_check(weft__op *op, int rank, int size)
{
    weft__uneven *u = op->uneven;
    unsigned has = weft__kind_traits(op->kind);
    bool two = has_two(op);
    side sides[] = {{op, &u->in, two ? "in_" : "", "in"}, {op, &u->out, two ? "out_" : "", "out"}};
    static const unsigned traits[] = {WEFT__IN_BLOCKS, WEFT__OUT_BLOCKS};
    weft_status status;
    for (int i = 0; i < 2; i++) {
        if (!has_blocks(op, rank, traits[i])) continue;
        if (!sides[i].blocks->counts)
            return weft__fail(WEFT_ERR_ARGUMENT, "%s: %scounts is NULL, expected one for each of %d ranks",
                              weft__kind_name(op->kind), sides[i].prefix, size);
        if ((status = check_ends(sides[i], size)) != WEFT_OK) return status;
        if (i == 1 && (status = check_apart(sides[i], size)) != WEFT_OK) return status;
    }
    if (has & WEFT__REDUCES) op->count = u->in.counts[rank];
    u->agreed = two || has & WEFT__ROOTED ? 0 : digest(has & WEFT__IN_BLOCKS ? &u->in : &u->out, size);
    return check_own(op, rank);
}

/* ---- memory in common ---- */

typedef struct range {
    uintptr_t start;
    size_t bytes;
} range;

static range range_of(const void *buffer, weft__span span, size_t element)
{
    return (range){(uintptr_t)buffer + span.start * element, span.length * element};
}

static bool blocks_meet(range a, range b)
{
    if (!a.bytes || !b.bytes) return false;
    return a.start <= b.start ? b.start - a.start < a.bytes : a.start - b.start < b.bytes;
}

/* From the first element of any block to the last. */
static range extent(const void *buffer, const weft__blocks *blocks, size_t count, int size, size_t element)
{
    size_t end = 0;
    if (!blocks->counts) end = count;
    for (int r = 0; blocks->counts && r < size; r++)
        if (blocks->counts[r] && blocks->displs[r] + blocks->counts[r] > end)
            end = blocks->displs[r] + blocks->counts[r];
    return (range){(uintptr_t)buffer, end * element};
}

bool weft__uneven_overlap(const weft__op *op, int size)
{
    const weft__uneven *u = op->uneven;
    size_t element = weft_dtype_size(op->dtype);
    if (!blocks_meet(extent(op->in, &u->in, op->count, size, element),
                     extent(op->out, &u->out, op->count, size, element)))
        return false;
    for (int i = 0; i < (u->in.counts ? size : 1); i++)
        for (int o = 0; o < (u->out.counts ? size : 1); o++)
            if (blocks_meet(range_of(op->in, weft__op_in_block(op, i), element),
                            range_of(op->out, weft__op_out_block(op, o), element)))
                return true;
    return false;
}
