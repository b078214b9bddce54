/* doubling.c - exchanges over distances that are powers of two: least messages one after another.
 *
 * all_reduce of small sizes: recursive doubling.  Partners exchange partial results and both compute lower op
 * upper, so every rank evaluates one and the same tree.  reduce_scatter: recursive halving.  Partners, the
 * farthest first, each send what the other's half of the ranks gets, and go on with the rest.  all_gather:
 * the same way back.  all_reduce of middle sizes: the two in turn, known as Rabenseifner's.
 *
 * Where members are on several hosts, ranks stand in the order of their seats, and partners are the nearest first while
 * much is exchanged: all but little of it stays within hosts.
 *
 * Where size is no power of two, the first ranks pair up before, one of each pair stands for both, and tells the other its
 * result: all bytes once more.  So this is for recursive doubling, and where hosts have unlike numbers of members and it is no
 * all_reduce; else halving and gathering go by arcs (arcs.c).
 *
 * Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication Operations in
 * MPICH" (2005). */
#include "arcs.h"

/* Which seats exchange: of the first 2 * pairs the odd ones, each for itself and the even one before it;
 * and all after those. */
typedef struct places {
    int power; /* their number */
    int pairs;
    int own; /* this rank's place, or that of who stands for it */
    bool aside, for_two;
    int root;          /* a seat that stands for its pair whichever of the two it is; -1: none */
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

static places places_with_root(const weft__schedule *s, int root)
{
    places p = {.power = 1, .root = root};
    bool paired;
    while (p.power <= s->size / 2) p.power *= 2;
    p.pairs = s->size - p.power;
    paired = s->seat < 2 * p.pairs;
    p.own = paired ? s->seat / 2 : s->seat - p.pairs;
    p.aside = paired && (root >= 0 && s->seat / 2 == root / 2 ? s->seat != root : s->seat % 2 == 0);
    p.for_two = paired && !p.aside;
    return p;
}

static places places_of(const weft__schedule *s)
{
    return places_with_root(s, -1);
}

/* Pairs are of seats 2 k and 2 k + 1. */
static int other_of_pair(const weft__schedule *s)
{
    return s->seat ^ 1;
}

/* The second one, or the root, where the place is a pair's. */
static int seat_at(const places *p, int place)
{
    if (p->reversed_bits) place = reversed(place, p->reversed_bits);
    if (place >= p->pairs) return place + p->pairs;
    return p->root >= 0 && p->root / 2 == place ? p->root : 2 * place + 1;
}

static bool is_of_pair(const places *p, int place)
{
    return seat_at(p, place) < 2 * p->pairs;
}

/* What goes to the partner, and what comes back for it: of a pair, before and after all else. */
#define PAIR_TAG 0U

/* In place the result would overwrite what is being sent. */
static void stand_aside(weft__schedule *s, weft__operand own, size_t in_count, size_t out_count)
{
    int sent = weft__add_send(s, other_of_pair(s), PAIR_TAG, own.place, in_count, own.ready, WEFT__NO_STEP);
    weft__add_recv(s, other_of_pair(s), PAIR_TAG, weft__at(s, WEFT__OUT, 0), out_count, sent, WEFT__NO_STEP);
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
    return p->for_two ? doubling_meet(s, own, other_of_pair(s), PAIR_TAG, count, 1, NULL) : own;
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
    if (p.for_two) weft__add_send(s, other_of_pair(s), PAIR_TAG, out, op->count, own.ready, WEFT__NO_STEP);
}

/* ---- halving ---- */

/* Blocks of the places before this one: one each, and one more of those that are of pairs.  In reverse the places before it
 * are runs, a bit of it each, whose numbers, reversed, share what the bits above say and so are counted at once. */
static size_t blocks_before(const places *p, int place)
{
    size_t n = (size_t)place;
    if (!p->reversed_bits) return n + (size_t)(place < p->pairs ? place : p->pairs);
    for (int bit = 0; p->pairs && bit <= p->reversed_bits; bit++) {
        int low;
        if (!(place >> bit & 1)) continue;
        low = reversed(place >> bit >> 1, p->reversed_bits - bit - 1);
        if (p->pairs > low) n += (size_t)((p->pairs - 1 - low) >> (p->reversed_bits - bit)) + 1;
    }
    return n;
}

/* A place stands for one rank or for a pair.  Where in the buffer its ranks' part of the result begins: a share
 * for each place, or a block for each rank, in the order of places. */
static size_t start_of(const weft__op *op, const places *p, int place)
{
    if (!(weft__kind_traits(op->kind) & (WEFT__IN_BLOCKS | WEFT__OUT_BLOCKS)))
        return weft__share(op->count, p->power, place).start;
    return blocks_before(p, place) * op->count;
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

/* ---- blocks ----
 *
 * They lie in the order of ranks, and are exchanged in that of places.  Where a place is one rank's, another rank than the one
 * that a block belongs to is in charge of it: a message more for each.  Where some are pairs' there is a copy of all blocks in
 * the order of places. */

#define LONG_BLOCK 256 /* bytes from which on either is worth what it saves between hosts */
#define SENT_BY_ALL \
    65536 /* a host's ranks may each send all bytes where seats are not in order: so many are worth the message */

static bool goes_by_seats(const weft__schedule *s, const weft__op *op)
{
    const int hosts = weft__hosts(s);
    const size_t block = op->count * s->element, each = (size_t)(s->size / hosts);
    if (hosts == 1 || hosts == s->size) return false;
    if (block >= LONG_BLOCK) return true;
    return block * (size_t)s->size * each >= SENT_BY_ALL &&
           (weft__is_power_of_two(s->size) || weft__arcs_serve(s));
}

/* The block of one seat, between IN or OUT, where ranks' blocks lie, and `ordered`, where they lie in the order of places:
 * of a pair's place, the first seat's and then the second's. */
typedef struct block_copy {
    weft__schedule *s;
    const weft__op *op;
    const places *p;
    weft__place ordered;
    bool into; /* `ordered` */
    double scale;
} block_copy;

static int copy_block(const block_copy *c, int seat, size_t block, int before1, int before2)
{
    size_t start = (size_t)weft__rank_at(c->s, seat) * c->op->count;
    weft__place in_order = weft__plus(c->s, c->ordered, block * c->op->count);
    weft__place by_rank = weft__at(c->s, c->into ? WEFT__IN : WEFT__OUT, start);
    return weft__add_copy(c->s, c->into ? by_rank : in_order, c->into ? in_order : by_rank, c->op->count,
                          c->scale, before1, before2);
}

/* Those of n places, once step `before` is done; the last copy stands for all before it. */
static int copy_blocks(const block_copy *c, int place, int n, int before, int last)
{
    size_t block = blocks_before(c->p, place);
    for (int end = place + n; place < end; place++) {
        int seat = seat_at(c->p, place);
        if (is_of_pair(c->p, place)) last = copy_block(c, seat - 1, block++, before, last);
        last = copy_block(c, seat, block++, before, last);
    }
    return last;
}

/* The whole operand in that order, scaled where it is to be. */
static weft__operand ordered_operand(weft__schedule *s, const weft__op *op, const places *p)
{
    block_copy c = {.s = s, .op = op, .p = p, .into = true, .scale = 1};
    int last;
    if (op->reduction == WEFT_PREMUL_SUM) c.scale = op->scale;
    c.ordered = weft__add_tmp(s, (size_t)s->size * op->count);
    last = copy_blocks(&c, 0, p->power, WEFT__NO_STEP, WEFT__NO_STEP);
    return (weft__operand){c.ordered, last};
}

/* ---- reduce_scatter ---- */

/* Each rank is in charge of the block that has its place's number. */
static void halving_swapped(weft__schedule *s, const weft__op *op, const places *p)
{
    const bool is_own = p->own == s->rank;
    const weft__place out = weft__at(s, WEFT__OUT, 0), to = is_own ? out : weft__add_tmp(s, op->count);
    const size_t all = weft__op_in_elements(op, s->rank, s->size);
    halved h = halve(s, op, p, weft__own_operand(s, op, all), &to);
    if (is_own) return;
    weft__add_send(s, weft__seat_of(s, p->own), PAIR_TAG, to, op->count, h.own.ready, WEFT__NO_STEP);
    /* In place the block is an operand until then; what is given away in the first exchange may be. */
    weft__add_recv(s, seat_at(p, s->rank), PAIR_TAG, out, op->count, h.own.ready, h.in_sent);
}

/* Nobody else reads the own block of the operand, so in place it may be written when it is reduced. */
void weft__build_halving_reduce_scatter(weft__schedule *s, const weft__op *op)
{
    const bool by_seats = goes_by_seats(s, op);
    if (!by_seats) weft__count_in_ranks(s, op);
    if (weft__arcs_serve(s)) {
        weft__build_arcs_reduce_scatter(s, op);
        return;
    }
    places p = places_of(s);
    size_t all = weft__op_in_elements(op, s->rank, s->size);
    weft__place out = weft__at(s, WEFT__OUT, 0);
    weft__operand own;
    halved h;
    if (by_seats) nearest_first(&p);
    if (!p.pairs) {
        halving_swapped(s, op, &p);
        return;
    }
    own = by_seats ? ordered_operand(s, op, &p) : weft__own_operand(s, op, all);
    if (p.aside) {
        stand_aside(s, own, all, op->count);
        return;
    }
    h = halve(s, op, &p, doubling_begin(s, &p, own, all), p.for_two ? NULL : &out);
    if (!p.for_two) return;
    weft__add_send(s, other_of_pair(s), PAIR_TAG, h.own.place, op->count, h.own.ready, WEFT__NO_STEP);
    weft__add_copy(s, weft__plus(s, h.own.place, op->count), out, op->count, 1, h.own.ready, WEFT__NO_STEP);
}

/* ---- gathering ---- */

/* The steps by which all is there: what this rank began with, and what came over each distance. */
typedef struct gathered {
    int by[WEFT__ROUNDS_MOST + 2], n;
} gathered;

enum { BEGAN_WITH = 2 };

/* Each has its part of `all` once both steps are done, and others may write the rest then: partners, the
 * nearest first, send each other all that they have. */
static gathered doubling_gather(weft__schedule *s, const weft__op *op, const places *p, weft__place all,
                                int step1, int step2)
{
    gathered g = {{step1, step2}, BEGAN_WITH};
    uint32_t tag = PAIR_TAG + 1 + WEFT__ROUNDS_MOST;
    for (int half = 1; half < p->power; half *= 2, g.n++, tag++) {
        int have = p->own & ~(half - 1), peer = seat_at(p, p->own ^ half);
        weft__span leaving = span_of(op, p, have, half), coming = span_of(op, p, have ^ half, half);
        int sent = weft__add_send(s, peer, tag, weft__plus(s, all, leaving.start), leaving.length,
                                  WEFT__NO_STEP, WEFT__NO_STEP);
        weft__add_orders(s, g.by, g.n, sent);
        g.by[g.n] =
            weft__add_recv(s, peer, tag, weft__plus(s, all, coming.start), coming.length, step1, step2);
    }
    return g;
}

/* All of OUT, to the other one of the pair. */
static void tell_other(weft__schedule *s, size_t count, const gathered *g)
{
    int sent = weft__add_send(s, other_of_pair(s), PAIR_TAG, weft__at(s, WEFT__OUT, 0), count, WEFT__NO_STEP,
                              WEFT__NO_STEP);
    weft__add_orders(s, g->by, g->n, sent);
}

void weft__build_halving_all_reduce(weft__schedule *s, const weft__op *op)
{
    if (!op->count) { /* else who is alone on its host would hear from nobody, and notice no disagreement */
        weft__build_doubling_all_reduce(s, op);
        return;
    }
    if (weft__arcs_serve_all_reduce(s, op)) {
        weft__build_arcs_all_reduce(s, op);
        return;
    }
    places p = places_of(s);
    weft__operand own = weft__own_operand(s, op, op->count);
    weft__place share;
    halved h;
    gathered g;
    if (weft__hosts(s) > 1) nearest_first(&p);
    share = weft__at(s, WEFT__OUT, start_of(op, &p, p.own));
    if (p.aside) {
        stand_aside(s, own, op->count, op->count);
        return;
    }
    h = halve(s, op, &p, doubling_begin(s, &p, own, op->count), &share);
    /* In place OUT's other shares are operands until this one is reduced, and those given away are sent. */
    g = doubling_gather(s, op, &p, weft__at(s, WEFT__OUT, 0), h.own.ready, h.in_sent);
    if (p.for_two) tell_other(s, op->count, &g);
}

/* Blocks go to OUT as they come: its own, and those that came over each distance. */
static gathered spread_blocks(weft__schedule *s, const weft__op *op, const places *p, weft__place ordered,
                              const gathered *g)
{
    const block_copy c = {.s = s, .op = op, .p = p, .ordered = ordered, .scale = 1};
    int last = copy_blocks(&c, p->own, 1, g->by[1], g->by[0]), by = BEGAN_WITH;
    for (int half = 1; half < p->power; half *= 2, by++)
        last = copy_blocks(&c, (p->own & ~(half - 1)) ^ half, half, g->by[by], last);
    return (gathered){{last}, 1};
}

/* Each rank begins with the block that has its place's number.  In place its own one comes back to where it is sent from. */
static void doubling_swapped(weft__schedule *s, const weft__op *op, const places *p)
{
    const weft__place in = weft__at(s, WEFT__IN, 0), all = weft__at(s, WEFT__OUT, 0),
                      first = weft__plus(s, all, start_of(op, p, p->own));
    int own, sent = WEFT__NO_STEP;
    if (p->own == s->rank) {
        own = weft__add_copy(s, in, first, op->count, 1, WEFT__NO_STEP, WEFT__NO_STEP);
    } else {
        sent = weft__add_send(s, seat_at(p, s->rank), PAIR_TAG, in, op->count, WEFT__NO_STEP, WEFT__NO_STEP);
        own = weft__add_recv(s, weft__seat_of(s, p->own), PAIR_TAG, first, op->count, WEFT__NO_STEP,
                             WEFT__NO_STEP);
    }
    doubling_gather(s, op, p, all, own, sent);
}

void weft__build_doubling_all_gather(weft__schedule *s, const weft__op *op)
{
    const bool by_seats = goes_by_seats(s, op);
    if (!by_seats) weft__count_in_ranks(s, op);
    if (weft__arcs_serve(s)) {
        weft__build_arcs_all_gather(s, op);
        return;
    }
    places p = places_of(s);
    weft__place in = weft__at(s, WEFT__IN, 0), all = weft__at(s, WEFT__OUT, 0), first;
    int own, other = WEFT__NO_STEP;
    gathered g;
    if (by_seats) nearest_first(&p);
    if (!p.pairs) {
        doubling_swapped(s, op, &p);
        return;
    }
    if (p.aside) {
        stand_aside(s, (weft__operand){in, WEFT__NO_STEP}, op->count, (size_t)s->size * op->count);
        return;
    }
    if (by_seats) all = weft__add_tmp(s, (size_t)s->size * op->count);
    first = weft__plus(s, all, start_of(op, &p, p.own));
    own = weft__add_copy(s, in, weft__plus(s, first, p.for_two ? op->count : 0), op->count, 1, WEFT__NO_STEP,
                         WEFT__NO_STEP);
    if (p.for_two)
        other = weft__add_recv(s, other_of_pair(s), PAIR_TAG, first, op->count, WEFT__NO_STEP, WEFT__NO_STEP);
    g = doubling_gather(s, op, &p, all, own, other);
    if (by_seats) g = spread_blocks(s, op, &p, all, &g);
    if (p.for_two) tell_other(s, (size_t)s->size * op->count, &g);
}

/* ---- from one, and to one ----
 *
 * Numbers count places from the root's, by exclusive or.  Whoever has the spans of as many places as its number's
 * lowest bit, the root all, hands half of them to the partner that is half as many places away, and goes on with the
 * rest.  The nearest first, so that the members of the root's host send to other hosts side by side, and nothing twice. */

/* Those places: from `kept` on. */
typedef struct holding {
    int kept, n;
} holding;

static holding holding_of(const places *p, int root)
{
    int number = p->own ^ root, lowest = number & -number;
    int n = number ? lowest : p->power;
    return (holding){p->own & ~(n - 1), n};
}

static int place_of_seat(const places *p, int seat)
{
    int place = seat < 2 * p->pairs ? seat / 2 : seat - p->pairs;
    return p->reversed_bits ? reversed(place, p->reversed_bits) : place;
}

#define BROADCAST_STRIPES_MOST 8
#define BROADCAST_STRIPE_BYTES (1U << 20) /* shorter ones would cost more in messages than they overlap */

/* A part of the data of a broadcast, which is dealt out and gathered on its own. */
typedef struct stripe {
    weft__schedule *s;
    const places *p;
    weft__op op; /* of so many elements */
    weft__place data;
    holding held;
    uint32_t tag; /* and the next one */
} stripe;

static weft__span part_of(const stripe *d, int place, int n)
{
    return span_of(&d->op, d->p, place, n);
}

static int deal_out(const stripe *d)
{
    int got = WEFT__NO_STEP, own = d->p->own;
    if (d->held.n < d->p->power) {
        weft__span coming = part_of(d, d->held.kept, d->held.n);
        got = weft__add_recv(d->s, seat_at(d->p, own ^ d->held.n), d->tag,
                             weft__plus(d->s, d->data, coming.start), coming.length, WEFT__NO_STEP,
                             WEFT__NO_STEP);
    }
    for (int half = d->held.n / 2; half >= 1; half /= 2) {
        weft__span leaving = part_of(d, (own ^ half) & ~(half - 1), half);
        weft__add_send(d->s, seat_at(d->p, own ^ half), d->tag, weft__plus(d->s, d->data, leaving.start),
                       leaving.length, got, WEFT__NO_STEP);
    }
    return got;
}

/* As doubling_gather, but nobody is sent what it has dealt out. */
static gathered gather_dealt(const stripe *d, int got)
{
    gathered g = {{got}, 1};
    for (int half = 1; half < d->p->power; half *= 2) {
        int have = d->p->own & ~(half - 1), peer = seat_at(d->p, d->p->own ^ half);
        weft__span leaving = part_of(d, have, half), coming = part_of(d, have ^ half, half);
        if (half != d->held.n) {
            int sent = weft__add_send(d->s, peer, d->tag + 1, weft__plus(d->s, d->data, leaving.start),
                                      leaving.length, WEFT__NO_STEP, WEFT__NO_STEP);
            weft__add_orders(d->s, g.by, g.n, sent);
        }
        if (half >= d->held.n)
            g.by[g.n++] = weft__add_recv(d->s, peer, d->tag + 1, weft__plus(d->s, d->data, coming.start),
                                         coming.length, WEFT__NO_STEP, WEFT__NO_STEP);
    }
    return g;
}

static void broadcast_stripe(const stripe *d)
{
    int other = other_of_pair(d->s), sent;
    gathered g;
    if (d->p->aside) {
        weft__add_recv(d->s, other, d->tag, d->data, d->op.count, WEFT__NO_STEP, WEFT__NO_STEP);
        return;
    }
    g = gather_dealt(d, deal_out(d));
    if (!d->p->for_two) return;
    sent = weft__add_send(d->s, other, d->tag, d->data, d->op.count, WEFT__NO_STEP, WEFT__NO_STEP);
    weft__add_orders(d->s, g.by, g.n, sent);
}

int weft__broadcast_stripes(const weft__schedule *s, const weft__op *op)
{
    size_t worth = op->count * s->element / BROADCAST_STRIPE_BYTES;
    return worth > BROADCAST_STRIPES_MOST ? BROADCAST_STRIPES_MOST : worth > 1 ? (int)worth : 1;
}

void weft__build_doubling_broadcast(weft__schedule *s, const weft__op *op)
{
    if (weft__arcs_serve(s)) {
        weft__build_arcs_broadcast(s, op);
        return;
    }
    places p = places_with_root(s, s->root);
    int stripes = weft__broadcast_stripes(s, op);
    weft__area area = s->seat == s->root ? WEFT__IN : WEFT__OUT;
    nearest_first(&p);
    for (int i = 0; i < stripes; i++) {
        weft__span part = weft__share(op->count, stripes, i);
        stripe d = {.s = s, .p = &p, .op = *op, .tag = 2 * (uint32_t)i};
        d.op.count = part.length;
        d.data = weft__at(s, area, part.start);
        d.held = holding_of(&p, place_of_seat(&p, s->root));
        broadcast_stripe(&d);
    }
    weft__add_agreement(s);
}

/* What has been halved goes to the root by the way on which a broadcast deals out. */
static void hand_in(weft__schedule *s, const weft__op *op, const places *p, holding held, weft__place all,
                    const halved *h)
{
    const uint32_t tag = PAIR_TAG + 1 + WEFT__ROUNDS_MOST;
    gathered g = {{h->own.ready, h->in_sent}, BEGAN_WITH};
    size_t start = start_of(op, p, held.kept);
    int sent;
    for (int half = 1; half < held.n; half *= 2) {
        weft__span coming = span_of(op, p, (p->own ^ half) & ~(half - 1), half);
        g.by[g.n++] =
            weft__add_recv(s, seat_at(p, p->own ^ half), tag, weft__plus(s, all, coming.start - start),
                           coming.length, h->own.ready, h->in_sent);
    }
    if (held.n == p->power) return;
    sent = weft__add_send(s, seat_at(p, p->own ^ held.n), tag, all, span_of(op, p, held.kept, held.n).length,
                          WEFT__NO_STEP, WEFT__NO_STEP);
    weft__add_orders(s, g.by, g.n, sent);
}

void weft__build_halving_reduce(weft__schedule *s, const weft__op *op)
{
    if (weft__arcs_serve(s)) {
        weft__build_arcs_reduce(s, op);
        return;
    }
    places p = places_with_root(s, s->root);
    weft__operand own = weft__own_operand(s, op, op->count);
    holding held;
    weft__place all, share;
    halved h;
    nearest_first(&p);
    if (p.aside) {
        weft__add_send(s, other_of_pair(s), PAIR_TAG, own.place, op->count, own.ready, WEFT__NO_STEP);
        weft__add_agreement(s);
        return;
    }
    held = holding_of(&p, place_of_seat(&p, s->root));
    all = held.n == p.power ? weft__at(s, WEFT__OUT, 0)
                            : weft__add_tmp(s, span_of(op, &p, held.kept, held.n).length);
    share = weft__plus(s, all, start_of(op, &p, p.own) - start_of(op, &p, held.kept));
    h = halve(s, op, &p, doubling_begin(s, &p, own, op->count), &share);
    hand_in(s, op, &p, held, all, &h);
    weft__add_agreement(s);
}
