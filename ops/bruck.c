/* bruck.c - all_gather and all_to_all over distances 1, 2, 4, ...: least messages one after another, for
 * small sizes.
 *
 * all_gather: each rank collects the blocks of rank, rank + 1, ... and turns them round at the end.
 * all_to_all: block i of a rank is that for rank + i, and goes there by those distances that add up to i; all
 * that go the same distance go together.
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
    weft__place start; /* of the input, or of a copy of it, */
    int ready;         /* which is there after this step */
    weft__place came[WEFT__ROUNDS_MOST];
    int received[WEFT__ROUNDS_MOST]; /* by round */
} travel;

/* Copies block i from where it lies once the distances below `distance` are done. */
static int copy_block(weft__schedule *s, const travel *t, int i, int distance, size_t count, weft__place to)
{
    int done = i & (distance - 1), last = 0;
    weft__place from = weft__plus(s, t->start, (size_t)weft__modulo(s->rank + i, s->size) * count);
    if (!done) return weft__add_copy(s, from, to, count, 1, t->ready, WEFT__NO_STEP);
    while (done >> last > 1) last++;
    from = weft__plus(s, t->came[last], (size_t)below_with(i, 1 << last) * count);
    return weft__add_copy(s, from, to, count, 1, t->received[last], t->ready);
}

static void travel_on(weft__schedule *s, travel *t, int round, size_t count)
{
    int distance = 1 << round, blocks = below_with(s->size, distance), first = s->n, sent;
    weft__place packed = weft__add_tmp(s, (size_t)blocks * count);
    for (int i = distance; i < s->size; i++)
        if (i & distance)
            copy_block(s, t, i, distance, count,
                       weft__plus(s, packed, (size_t)below_with(i, distance) * count));
    sent = weft__add_send(s, weft__modulo(s->rank + distance, s->size), (uint32_t)round, packed,
                          (size_t)blocks * count, WEFT__NO_STEP, WEFT__NO_STEP);
    for (int step = first; step < sent; step++) weft__add_order(s, step, sent);
    t->came[round] = weft__add_tmp(s, (size_t)blocks * count);
    t->received[round] = weft__add_recv(s, weft__modulo(s->rank - distance, s->size), (uint32_t)round,
                                        t->came[round], (size_t)blocks * count, WEFT__NO_STEP, WEFT__NO_STEP);
}

void weft__build_bruck_all_to_all(weft__schedule *s, const weft__op *op)
{
    weft__count_in_ranks(s, op);
    travel t = {.start = weft__at(s, WEFT__IN, 0), .ready = WEFT__NO_STEP};
    int round = 0;
    if (op->in == op->out) {
        size_t all = weft__op_in_elements(op, s->rank, s->size);
        weft__place saved = weft__add_tmp(s, all);
        t.ready = weft__add_copy(s, t.start, saved, all, 1, WEFT__NO_STEP, WEFT__NO_STEP);
        t.start = saved;
    }
    for (; 1 << round < s->size; round++) travel_on(s, &t, round, op->count);
    for (int i = 0; i < s->size; i++)
        copy_block(s, &t, i, 1 << round, op->count,
                   weft__at(s, WEFT__OUT, (size_t)weft__modulo(s->rank - i, s->size) * op->count));
}
