/* doubling.c - exchanges over distances that are powers of two: least messages one after another.
 *
 * all_reduce of small sizes: recursive doubling.  Partners exchange partial results and both compute lower op
 * upper, so every rank evaluates one and the same tree.  reduce_scatter: recursive halving.  Partners, the
 * farthest first, each send what the other's half of the ranks gets, and go on with the rest.  all_gather:
 * the same way back.  all_reduce of middle sizes: the two in turn, known as Rabenseifner's.
 *
 * Where members are on several hosts, all_reduce has its ranks in the order of their seats, and partners the
 * nearest first while much is exchanged.
 *
 * Where size is no power of two, the first ranks pair up before, one of each pair stands for both, and tells
 * the other its result.
 *
 * Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication Operations in
 * MPICH" (2005). */
#include "algorithms.h"

/* Which seats exchange: of the first 2 * pairs the odd ones, each for itself and the even one before it;
 * and all after those. */
typedef struct places {
    int power; /* their number */
    int pairs;
    int own; /* this rank's place, or that of who stands for it */
    bool aside, for_two;
    int reversed_bits; /* where > 0, places are numbered by their bits in reverse: of so many */
} places;

static int reversed(int place, int bits)
{
    int result = 0;
    for (int i = 0; i < bits; i++) result |= (place >> i & 1) << (bits - 1 - i);
    return result;
}

/* Then halving, whose first partner is half of the places away and gets most, meets its neighbour first, and last
 * of all, for few bytes, who is farthest: on another host. */
static void nearest_first(places *p)
{
    while (1 << p->reversed_bits < p->power) p->reversed_bits++;
    p->own = reversed(p->own, p->reversed_bits);
}

static places places_of(const weft__schedule *s)
{
    places p = {.power = 1};
    bool paired;
    while (p.power <= s->size / 2) p.power *= 2;
    p.pairs = s->size - p.power;
    paired = s->seat < 2 * p.pairs;
    p.own = paired ? s->seat / 2 : s->seat - p.pairs;
    p.aside = paired && s->seat % 2 == 0;
    p.for_two = paired && !p.aside;
    return p;
}

static int seat_at(const places *p, int place)
{
    if (p->reversed_bits) place = reversed(place, p->reversed_bits);
    return place < p->pairs ? 2 * place + 1 : place + p->pairs;
}

/* What goes to the partner, and what comes back for it: of a pair, before and after all else. */
#define PAIR_TAG 0U

/* In place the result would overwrite what is being sent. */
static void stand_aside(weft__schedule *s, weft__operand own, size_t in_count, size_t out_count)
{
    int sent = weft__add_send(s, s->seat + 1, PAIR_TAG, own.place, in_count, own.ready, WEFT__NO_STEP);
    weft__add_recv(s, s->seat + 1, PAIR_TAG, weft__at(s, WEFT__OUT, 0), out_count, sent, WEFT__NO_STEP);
}

/* A partner's operand, of the elements that this rank goes on with, comes into TMP and is reduced to there,
 * or to another place. */
static weft__operand doubling_meet(weft__schedule *s, weft__operand own, int peer, uint32_t tag, size_t count,
                                   double scale, const weft__place *to)
{
    weft__place other = weft__add_tmp(s, count), result = to ? *to : other;
    bool lower = peer < s->seat;
    int got = weft__add_recv(s, peer, tag, other, count, WEFT__NO_STEP, WEFT__NO_STEP);
    int done = weft__add_reduce(s, lower ? other : own.place, lower ? own.place : other, result, count, scale,
                                got, own.ready);
    return (weft__operand){result, done};
}

static weft__operand doubling_begin(weft__schedule *s, const places *p, weft__operand own, size_t count)
{
    return p->for_two ? doubling_meet(s, own, s->seat - 1, PAIR_TAG, count, 1, NULL) : own;
}

void weft__build_doubling_all_reduce(weft__schedule *s, const weft__op *op)
{
    places p = places_of(s);
    weft__operand own = weft__own_operand(s, op, op->count);
    weft__place out = weft__at(s, WEFT__OUT, 0);
    int in_sent = WEFT__NO_STEP;
    uint32_t tag = 1;
    if (p.aside) {
        stand_aside(s, own, op->count, op->count);
        return;
    }
    own = doubling_begin(s, &p, own, op->count);
    for (int distance = 1; distance < p.power; distance *= 2, tag++) {
        int peer = seat_at(&p, p.own ^ distance);
        bool last = distance == p.power / 2;
        int sent = weft__add_send(s, peer, tag, own.place, op->count, own.ready, WEFT__NO_STEP);
        if (distance == 1) in_sent = sent;
        own = doubling_meet(s, own, peer, tag, op->count, last ? weft__last_scale(s, op) : 1,
                            last ? &out : NULL);
        if (last) weft__add_order(s, in_sent, own.ready);
    }
    if (p.for_two) weft__add_send(s, s->seat - 1, PAIR_TAG, out, op->count, own.ready, WEFT__NO_STEP);
}

/* ---- halving ---- */

/* A place stands for one rank or for a pair.  Where in the buffer its ranks' part of the result begins: a share
 * for each place, or a block for each rank. */
static size_t start_of(const weft__op *op, const places *p, int place)
{
    if (!(weft__kind_traits(op->kind) & (WEFT__IN_BLOCKS | WEFT__OUT_BLOCKS)))
        return weft__share(op->count, p->power, place).start;
    return (size_t)(place < p->pairs ? 2 * place : place + p->pairs) * op->count;
}

/* Where what the ranks of `n` places get begins, and how long it is. */
static weft__span span_of(const weft__op *op, const places *p, int place, int n)
{
    size_t start = start_of(op, p, place);
    return (weft__span){start, start_of(op, p, place + n) - start};
}

typedef struct halved {
    weft__operand own; /* reduced: the span of this rank's place */
    int in_sent;       /* the one send that may read the operand itself */
} halved;

/* to: where it ends; NULL: in TMP. */
static halved halve(weft__schedule *s, const weft__op *op, const places *p, weft__operand own,
                    const weft__place *to)
{
    halved h = {own, WEFT__NO_STEP};
    uint32_t tag = PAIR_TAG + 1;
    size_t start = 0; /* of what is left */
    for (int half = p->power / 2; half >= 1; half /= 2, tag++) {
        int kept = p->own & ~(half - 1), peer = seat_at(p, p->own ^ half);
        weft__span keep = span_of(op, p, kept, half), give = span_of(op, p, kept ^ half, half);
        weft__operand rest = {weft__plus(s, h.own.place, keep.start - start), h.own.ready};
        int sent = weft__add_send(s, peer, tag, weft__plus(s, h.own.place, give.start - start), give.length,
                                  h.own.ready, WEFT__NO_STEP);
        if (half == p->power / 2) h.in_sent = sent;
        h.own = doubling_meet(s, rest, peer, tag, keep.length, half == 1 ? weft__last_scale(s, op) : 1,
                              half == 1 ? to : NULL);
        start = keep.start;
    }
    return h;
}

/* Nobody else reads the own block of the operand, so in place it may be written when it is reduced. */
void weft__build_halving_reduce_scatter(weft__schedule *s, const weft__op *op)
{
    weft__count_in_ranks(s, op);
    places p = places_of(s);
    size_t all = weft__op_in_elements(op, s->rank, s->size);
    weft__operand own = weft__own_operand(s, op, all);
    weft__place out = weft__at(s, WEFT__OUT, 0);
    halved h;
    if (p.aside) {
        stand_aside(s, own, all, op->count);
        return;
    }
    h = halve(s, op, &p, doubling_begin(s, &p, own, all), p.for_two ? NULL : &out);
    if (!p.for_two) return;
    weft__add_send(s, s->seat - 1, PAIR_TAG, h.own.place, op->count, h.own.ready, WEFT__NO_STEP);
    weft__add_copy(s, weft__plus(s, h.own.place, op->count), out, op->count, 1, h.own.ready, WEFT__NO_STEP);
}

/* Each has its part in OUT once both steps are done, and others may write the rest then: partners, the
 * nearest first, send each other all that they have. */
static void doubling_gather(weft__schedule *s, const weft__op *op, const places *p, int step1, int step2)
{
    int got[WEFT__ROUNDS_MOST + 2] = {step1, step2}, n = 2;
    uint32_t tag = PAIR_TAG + 1 + WEFT__ROUNDS_MOST;
    for (int half = 1; half < p->power; half *= 2, n++, tag++) {
        int have = p->own & ~(half - 1), peer = seat_at(p, p->own ^ half);
        weft__span leaving = span_of(op, p, have, half), coming = span_of(op, p, have ^ half, half);
        int sent = weft__add_send(s, peer, tag, weft__at(s, WEFT__OUT, leaving.start), leaving.length,
                                  WEFT__NO_STEP, WEFT__NO_STEP);
        weft__add_orders(s, got, n, sent);
        got[n] =
            weft__add_recv(s, peer, tag, weft__at(s, WEFT__OUT, coming.start), coming.length, step1, step2);
    }
    if (p->for_two) {
        int sent = weft__add_send(s, s->seat - 1, PAIR_TAG, weft__at(s, WEFT__OUT, 0),
                                  start_of(op, p, p->power), WEFT__NO_STEP, WEFT__NO_STEP);
        weft__add_orders(s, got, n, sent);
    }
}

void weft__build_halving_all_reduce(weft__schedule *s, const weft__op *op)
{
    places p = places_of(s);
    weft__operand own = weft__own_operand(s, op, op->count);
    weft__place share;
    halved h;
    if (weft__hosts(s) > 1) nearest_first(&p);
    share = weft__at(s, WEFT__OUT, start_of(op, &p, p.own));
    if (p.aside) {
        stand_aside(s, own, op->count, op->count);
        return;
    }
    h = halve(s, op, &p, doubling_begin(s, &p, own, op->count), &share);
    /* In place OUT's other shares are operands until this one is reduced, and those given away are sent. */
    doubling_gather(s, op, &p, h.own.ready, h.in_sent);
}

void weft__build_doubling_all_gather(weft__schedule *s, const weft__op *op)
{
    weft__count_in_ranks(s, op);
    places p = places_of(s);
    weft__place in = weft__at(s, WEFT__IN, 0), block = weft__at(s, WEFT__OUT, (size_t)s->seat * op->count);
    int own, other = WEFT__NO_STEP;
    if (p.aside) {
        stand_aside(s, (weft__operand){in, WEFT__NO_STEP}, op->count, (size_t)s->size * op->count);
        return;
    }
    own = weft__add_copy(s, in, block, op->count, 1, WEFT__NO_STEP, WEFT__NO_STEP);
    if (p.for_two)
        other = weft__add_recv(s, s->seat - 1, PAIR_TAG,
                               weft__at(s, WEFT__OUT, (size_t)(s->seat - 1) * op->count), op->count,
                               WEFT__NO_STEP, WEFT__NO_STEP);
    doubling_gather(s, op, &p, own, other);
}
