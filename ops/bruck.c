/* bruck.c - all_gather and all_to_all over distances 1, 2, 4, ...: least messages one after another, for
 * small sizes.
 *
 * all_gather: each rank collects the blocks of rank, rank + 1, ... and turns them round at the end.
 * all_to_all: block i of a rank is that for rank + i, and goes there by those distances that add up to i, the least first; all
 * that go the same distance go together.  A block stays where it came until it goes on: by number such blocks lie in
 * runs, which one step copies together, so that a schedule has some log P * log P steps.
 *
 * Source: J. Bruck et al., "Efficient Algorithms for All-to-All Communications in Multiport Message-Passing
 * Systems" (1997). */
#include "algorithms.h"

void weft__build_bruck_all_gather(weft__schedule *s, const weft__op *op)
{
    weft__count_in_ranks(s, op);
    size_t count = op->count, tail = (size_t)(s->size - s->rank) * count;
    weft__place all = weft__add_tmp(s, count * (size_t)s->size);
    int filled = weft__add_copy(s, weft__at(s, WEFT__IN, 0), all, count, 1, WEFT__NO_STEP, WEFT__NO_STEP);
    int received[WEFT__ROUNDS_MOST], n = 0, turned;
    for (int have = 1, more; have < s->size; have += more) {
        int to = weft__modulo(s->rank - have, s->size), from = weft__modulo(s->rank + have, s->size), sent;
        more = have < s->size - have ? have : s->size - have;
        sent = weft__add_send(s, to, (uint32_t)n, all, (size_t)more * count, filled, WEFT__NO_STEP);
        weft__add_orders(s, received, n, sent);
        received[n] = weft__add_recv(s, from, (uint32_t)n, weft__plus(s, all, (size_t)have * count),
                                     (size_t)more * count, WEFT__NO_STEP, WEFT__NO_STEP);
        n++;
    }
    turned = weft__add_copy(s, all, weft__at(s, WEFT__OUT, (size_t)s->rank * count), tail, 1, filled,
                            WEFT__NO_STEP);
    weft__add_orders(s, received, n, turned);
    turned = weft__add_copy(s, weft__plus(s, all, tail), weft__at(s, WEFT__OUT, 0), (size_t)s->rank * count,
                            1, filled, WEFT__NO_STEP);
    weft__add_orders(s, received, n, turned);
}

/* ---- all_to_all ---- */

/* How many numbers below i have that bit. */
static int below_with(int i, int bit)
{
    int over = i % (2 * bit) - bit;
    return i / (2 * bit) * bit + (over > 0 ? over : 0);
}

typedef struct travel {
    size_t count;      /* elements of a block */
    weft__place start; /* of the input, or of a copy of it, */
    int ready;         /* which is there after this step */
    weft__place came[WEFT__ROUNDS_MOST];
    int received[WEFT__ROUNDS_MOST]; /* by round */
} travel;

static weft__place block_at(const weft__schedule *s, const travel *t, weft__place first, int block)
{
    return weft__plus(s, first, (size_t)block * t->count);
}

/* Numbers `first`, first + apart, ... below `end`. */
static int how_many(int first, int apart, int end)
{
    return first < end ? (end - first + apart - 1) / apart : 0;
}

/* A block's number names its distances.  Of those that go this one, the blocks that have gone none before are this rank's own,
 * for the ranks distance, 3 * distance, ... behind it: those before the last rank, and those from the first one on. */
static void copy_own(weft__schedule *s, const travel *t, int distance, weft__place to)
{
    const int apart = 2 * distance, all = how_many(distance, apart, s->size);
    const int before = how_many(s->rank + distance, apart, s->size);
    for (int row = 0, end = before; row < all; row = end, end = all) {
        const int block = weft__modulo(s->rank + distance + row * apart, s->size);
        const weft__rows a = {block_at(s, t, t->start, block), apart * (ptrdiff_t)t->count},
                         b = {block_at(s, t, to, row * distance), distance * (ptrdiff_t)t->count};
        if (row < end) weft__add_copy_rows(s, a, b, end - row, t->count, t->ready, WEFT__NO_STEP);
    }
}

/* And those that have gone the distance of that round before, and none since.  In what came then they lie in runs of as many,
 * and in what goes; the last run may end with the last block. */
static void copy_on(weft__schedule *s, const travel *t, int round, int distance, weft__place to)
{
    const int last = 1 << round, left = s->size - distance - last, over = left % (2 * distance);
    const int whole = left / (2 * distance) + (over >= last);
    const ptrdiff_t apart = distance * (ptrdiff_t)t->count;
    const weft__rows a = {block_at(s, t, t->came[round], distance / 2), apart},
                     b = {block_at(s, t, to, last), apart};
    if (left <= 0) return;
    if (whole) weft__add_copy_rows(s, a, b, whole, (size_t)last * t->count, t->received[round], t->ready);
    if (over == 0 || over >= last) return;
    weft__add_copy(s, block_at(s, t, a.first, whole * distance), block_at(s, t, b.first, whole * distance),
                   (size_t)over * t->count, 1, t->received[round], t->ready);
}

static void travel_on(weft__schedule *s, travel *t, int round)
{
    const int distance = 1 << round, first = s->n;
    const size_t sent = (size_t)below_with(s->size, distance) * t->count;
    weft__place packed = weft__add_tmp(s, sent);
    int sending;
    copy_own(s, t, distance, packed);
    for (int before = 0; before < round; before++) copy_on(s, t, before, distance, packed);
    sending = weft__add_send(s, weft__modulo(s->rank + distance, s->size), (uint32_t)round, packed, sent,
                             WEFT__NO_STEP, WEFT__NO_STEP);
    for (int step = first; step < sending; step++) weft__add_order(s, step, sending);
    t->came[round] = weft__add_tmp(s, sent);
    t->received[round] = weft__add_recv(s, weft__modulo(s->rank - distance, s->size), (uint32_t)round,
                                        t->came[round], sent, WEFT__NO_STEP, WEFT__NO_STEP);
}

/* Blocks whose last distance that was are where they belong, each from a rank one farther back, and go to the places of these:
 * those down to the first rank, and those from the last one on. */
static void arrive(weft__schedule *s, const travel *t, int round)
{
    const int distance = 1 << round, all = (2 * distance < s->size ? 2 * distance : s->size) - distance;
    const int before = s->rank - distance + 1 < all ? s->rank - distance + 1 : all;
    for (int row = 0, end = before > 0 ? before : 0; row < all; row = end, end = all) {
        const int rank = weft__modulo(s->rank - distance - row, s->size);
        const weft__rows a = {block_at(s, t, t->came[round], row), (ptrdiff_t)t->count},
                         b = {block_at(s, t, weft__at(s, WEFT__OUT, 0), rank), -(ptrdiff_t)t->count};
        if (row < end) weft__add_copy_rows(s, a, b, end - row, t->count, t->received[round], t->ready);
    }
}

void weft__build_bruck_all_to_all(weft__schedule *s, const weft__op *op)
{
    weft__count_in_ranks(s, op);
    travel t = {.count = op->count, .start = weft__at(s, WEFT__IN, 0), .ready = WEFT__NO_STEP};
    int round = 0;
    if (op->in == op->out) {
        size_t all = weft__op_in_elements(op, s->rank, s->size);
        weft__place saved = weft__add_tmp(s, all);
        t.ready = weft__add_copy(s, t.start, saved, all, 1, WEFT__NO_STEP, WEFT__NO_STEP);
        t.start = saved;
    }
    for (; 1 << round < s->size; round++) travel_on(s, &t, round);
    weft__add_copy(s, block_at(s, &t, t.start, s->rank), block_at(s, &t, weft__at(s, WEFT__OUT, 0), s->rank),
                   op->count, 1, t.ready, WEFT__NO_STEP);
    for (int i = 0; i < round; i++) arrive(s, &t, i);
}
