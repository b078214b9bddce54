/* doubling.c - exchanges over distances 1, 2, 4, ...: least messages one after another, for small sizes.
 *
 * all_reduce: recursive doubling.  Partners exchange partial results and both compute lower op upper, so
 * every rank evaluates one and the same tree.  Where size is no power of two, the first ranks pair up before,
 * one of each pair stands for both, and tells the other the result. all_gather: Bruck's.  Each rank collects
 * the blocks of rank, rank + 1, ... and turns them round at the end.
 *
 * Sources: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication Operations in
 * MPICH" (2005); J. Bruck et al., "Efficient Algorithms for All-to-All Communications in Multiport
 * Message-Passing Systems" (1997). */
#include "algorithms.h"

static int largest_power(int size)
{
    int power = 1;
    while (power <= size / 2) power *= 2;
    return power;
}

/* The rank that stands for number `place` among those that double. */
static int standing_for(int place, int pairs)
{
    return place < pairs ? 2 * place + 1 : place + pairs;
}

/* A partner's operand comes into TMP and is reduced there, except at last: then in OUT. */
static weft__operand meet(weft__schedule *s, weft__operand own, int peer, uint32_t tag, size_t count,
                          double scale, bool last, int out_free)
{
    weft__place other = weft__add_tmp(s, count), to = last ? weft__at(s, WEFT__OUT, 0) : other;
    bool lower = peer < s->rank;
    int got = weft__add_recv(s, peer, tag, other, count, WEFT__NO_STEP, WEFT__NO_STEP);
    int done = weft__add_reduce(s, lower ? other : own.place, lower ? own.place : other, to, count, scale,
                                got, own.ready);
    if (last) weft__add_order(s, out_free, done);
    return (weft__operand){to, done};
}

void weft__build_doubling_all_reduce(weft__schedule *s, const weft__op *op)
{
    int power = largest_power(s->size), pairs = s->size - power, in_sent = WEFT__NO_STEP;
    weft__operand own = weft__own_operand(s, op, op->count);
    double last_scale = weft__last_scale(s, op);
    uint32_t tag = 1;
    int place = s->rank < 2 * pairs ? s->rank / 2 : s->rank - pairs;
    if (s->rank < 2 * pairs && s->rank % 2 == 0) {
        int sent = weft__add_send(s, s->rank + 1, 0, own.place, op->count, own.ready, WEFT__NO_STEP);
        /* In place the result would overwrite what is being sent. */
        weft__add_recv(s, s->rank + 1, 0, weft__at(s, WEFT__OUT, 0), op->count, sent, WEFT__NO_STEP);
        return;
    }
    if (s->rank < 2 * pairs) own = meet(s, own, s->rank - 1, 0, op->count, 1, false, WEFT__NO_STEP);
    for (int distance = 1; distance < power; distance *= 2, tag++) {
        int peer = standing_for(place ^ distance, pairs);
        bool last = distance == power / 2;
        int sent = weft__add_send(s, peer, tag, own.place, op->count, own.ready, WEFT__NO_STEP);
        if (distance == 1) in_sent = sent;
        own = meet(s, own, peer, tag, op->count, last ? last_scale : 1, last, in_sent);
    }
    if (s->rank < 2 * pairs)
        weft__add_send(s, s->rank - 1, 0, weft__at(s, WEFT__OUT, 0), op->count, own.ready, WEFT__NO_STEP);
}

/* Receives start at once; what follows waits for all of them so far. */
static void after_all(weft__schedule *s, const int *received, int n, int step)
{
    for (int i = 0; i < n; i++) weft__add_order(s, received[i], step);
}

void weft__build_bruck_all_gather(weft__schedule *s, const weft__op *op)
{
    size_t count = op->count, tail = (size_t)(s->size - s->rank) * count;
    weft__place all = weft__add_tmp(s, count * (size_t)s->size);
    int filled = weft__add_copy(s, weft__at(s, WEFT__IN, 0), all, count, 1, WEFT__NO_STEP, WEFT__NO_STEP);
    int received[WEFT__ROUNDS_MOST], n = 0, turned;
    for (int have = 1, more; have < s->size; have += more) {
        int to = weft__modulo(s->rank - have, s->size), from = weft__modulo(s->rank + have, s->size), sent;
        more = have < s->size - have ? have : s->size - have;
        sent = weft__add_send(s, to, (uint32_t)n, all, (size_t)more * count, filled, WEFT__NO_STEP);
        after_all(s, received, n, sent);
        received[n] = weft__add_recv(s, from, (uint32_t)n, weft__plus(s, all, (size_t)have * count),
                                     (size_t)more * count, WEFT__NO_STEP, WEFT__NO_STEP);
        n++;
    }
    turned = weft__add_copy(s, all, weft__at(s, WEFT__OUT, (size_t)s->rank * count), tail, 1, filled,
                            WEFT__NO_STEP);
    after_all(s, received, n, turned);
    turned = weft__add_copy(s, weft__plus(s, all, tail), weft__at(s, WEFT__OUT, 0), (size_t)s->rank * count,
                            1, filled, WEFT__NO_STEP);
    after_all(s, received, n, turned);
}
