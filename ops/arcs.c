/* arcs.c - halving and doubling among any number of ranks, without a message more than for a power of two.
 *
 * Members stand on a circle, and a buffer is cut into a part for each.  To reduce, a member with s parts left, its own and
 * those of the s - 1 after it, gives those of the farther half to the member that is the nearer half, h = s / 2 rounded up,
 * further on, hears as many from the one that is as far back, and goes on with h.  So after log2 of the members, rounded up,
 * it has its own part of all, and has sent every other part once.  To gather, the same way back.  What goes at once is an
 * arc of the circle: two messages where it passes the buffer's end.
 *
 * Where members are on several hosts, as many on each, there are two circles.  The members of one host reduce a share for
 * each of them; then those with the same place on all hosts reduce the parts of their share.  So a host sends a byte to other
 * hosts once, over all its members side by side.  Where hosts have unlike numbers of members, an all_reduce has a second circle
 * for each lane (lanes.c): those who have the same elements in their shares.
 *
 * Source: J. L. Traeff, "Optimal, Non-pipelined Reduce-scatter and Allreduce Algorithms" (2024), arXiv:2410.14234. */
#include "arcs.h"

typedef struct circle {
    int size, own;     /* members; this rank's number among them */
    int first, stride; /* their seats */
    uint32_t tag;      /* that tags of its messages begin with */
    /* A lane's: on each host the member that has element `lane` of `count` in its share; NULL: it is none. */
    const weft__schedule *laned;
    size_t lane, count;
} circle;

enum { IN_HOST, OVER_HOSTS, CIRCLES };

typedef struct circles {
    weft__schedule *s;
    circle at[CIRCLES];
} circles;

/* Tags of a phase on a circle: two for each round. */
#define PHASE_TAGS (2U * (WEFT__ROUNDS_MOST + 1))
enum { HALVE, GATHER, ROOT, PHASES };

#define UNLIKE_MOST \
    4 /* numbers of members, of which each cuts its shares into lanes at those of the others */

/* The first so many of them, and how many there are, of UNLIKE_MOST + 1 at most. */
static int find_numbers(const weft__schedule *s, int seen[UNLIKE_MOST])
{
    int n = 0;
    for (int h = 0; h < weft__hosts(s) && n <= UNLIKE_MOST; h++) {
        const int members = weft__members_of_host(s, h);
        int i = 0;
        while (i < n && seen[i] != members) i++;
        if (i < n) continue;
        if (n < UNLIKE_MOST) seen[n] = members;
        n++;
    }
    return n;
}

bool weft__arcs_serve(const weft__schedule *s)
{
    int seen[UNLIKE_MOST];
    return !weft__is_power_of_two(s->size) && find_numbers(s, seen) == 1;
}

#define LANE_LEAST \
    2048 /* bytes: who is alone on its host, beside many on others, has messages for each of their shares */

/* Each number of members cuts what is there at its shares' ends. */
static size_t lanes_most(const weft__schedule *s)
{
    int seen[UNLIKE_MOST];
    const int n = find_numbers(s, seen);
    size_t lanes = 1;
    for (int i = 0; i < n; i++) lanes += (size_t)seen[i] - 1;
    return lanes;
}

bool weft__arcs_serve_all_reduce(const weft__schedule *s, const weft__op *op)
{
    int seen[UNLIKE_MOST];
    if (weft__is_power_of_two(s->size) || find_numbers(s, seen) > UNLIKE_MOST) return false;
    return weft__arcs_serve(s) || op->count * s->element >= LANE_LEAST * lanes_most(s);
}

static circles circles_of(weft__schedule *s)
{
    const int hosts = weft__hosts(s), each = s->size / hosts;
    circles c = {.s = s};
    c.at[IN_HOST] =
        (circle){.size = each, .own = s->seat % each, .first = s->seat - s->seat % each, .stride = 1};
    c.at[OVER_HOSTS] = (circle){.size = hosts,
                                .own = s->seat / each,
                                .first = s->seat % each,
                                .stride = each,
                                .tag = PHASES * PHASE_TAGS};
    return c;
}

static circle circle_in_host(const weft__schedule *s)
{
    const int host = weft__host_at(s, s->seat), first = weft__first_of_host(s, host);
    return (
        circle){.size = weft__members_of_host(s, host), .own = s->seat - first, .first = first, .stride = 1};
}

static circle circle_of_lane(const weft__schedule *s, int number, size_t lane, size_t count)
{
    return (circle){.size = weft__hosts(s),
                    .own = weft__host_at(s, s->seat),
                    .tag = (uint32_t)(number + 1) * PHASES * PHASE_TAGS,
                    .laned = s,
                    .lane = lane,
                    .count = count};
}

static int seat_of(const circle *c, int number)
{
    const int n = weft__modulo(number, c->size);
    if (!c->laned) return c->first + n * c->stride;
    return weft__first_of_host(c->laned, n) +
           weft__lane_member(c->count, weft__members_of_host(c->laned, n), c->lane);
}

static uint32_t tag_of(const circle *c, int phase, int round, int piece)
{
    return c->tag + (uint32_t)phase * PHASE_TAGS + 2 * (uint32_t)round + (uint32_t)piece;
}

/* ---- arcs ---- */

static weft__span part_of(const circle *c, weft__span whole, int number)
{
    weft__span part = weft__share(whole.length, c->size, number);
    return (weft__span){whole.start + part.start, part.length};
}

/* The parts of `whole` of n members from a number on: in one piece, or two where it passes the last one. */
typedef struct arc {
    weft__span piece[2];
    int pieces;
    size_t length;
} arc;

static void add_piece(arc *a, const circle *c, weft__span whole, int from, int end)
{
    size_t start = part_of(c, whole, from).start;
    weft__span piece = {start, part_of(c, whole, end).start - start};
    a->piece[a->pieces++] = piece;
    a->length += piece.length;
}

static arc arc_of(const circle *c, weft__span whole, int from, int n)
{
    arc a = {.pieces = 0};
    if (n <= 0) return a;
    from = from >= c->size ? from - c->size : from;
    add_piece(&a, c, whole, from, from + n > c->size ? c->size : from + n);
    if (from + n > c->size) add_piece(&a, c, whole, 0, from + n - c->size);
    return a;
}

/* Steps that several messages may be waited for by: two for each round of both circles, and what a rank begins with. */
typedef struct arrived {
    int by[4 * (WEFT__ROUNDS_MOST + 2)], n;
} arrived;

static void arrive(arrived *a, int step)
{
    a->by[a->n++] = step;
}

/* ---- halving ---- */

typedef struct halved {
    weft__operand own; /* this rank's part, reduced */
    int sent[2], n;    /* that read the operand itself */
} halved;

/* The first round: from the operand, where all parts lie in the order of numbers, to `kept`, where they begin with the own
 * one.  result: of the pieces; kept, or where the whole ends. */
static int halve_first(const circles *all, const circle *c, weft__span whole, weft__place kept, double scale,
                       weft__place result, halved *h)
{
    weft__schedule *s = all->s;
    const int half = (c->size + 1) / 2, given = c->size - half;
    const arc leaving = arc_of(c, whole, c->own + half, given), coming = arc_of(c, whole, c->own, given);
    int ready = h->own.ready;
    size_t done = 0;
    for (int i = 0; i < leaving.pieces; i++)
        h->sent[h->n++] = weft__add_send(s, seat_of(c, c->own + half), tag_of(c, HALVE, 0, i),
                                         weft__plus(s, h->own.place, leaving.piece[i].start - whole.start),
                                         leaving.piece[i].length, h->own.ready, WEFT__NO_STEP);
    for (int i = 0; i < coming.pieces; done += coming.piece[i++].length) {
        weft__place other = weft__plus(s, kept, done);
        int got = weft__add_recv(s, seat_of(c, c->own - half), tag_of(c, HALVE, 0, i), other,
                                 coming.piece[i].length, WEFT__NO_STEP, WEFT__NO_STEP);
        ready = weft__add_reduce(s, other, weft__plus(s, h->own.place, coming.piece[i].start - whole.start),
                                 weft__plus(s, result, done), coming.piece[i].length, scale, got, ready);
    }
    if (half > given) {
        weft__span left = arc_of(c, whole, c->own + given, 1).piece[0];
        ready = weft__add_copy(s, weft__plus(s, h->own.place, left.start - whole.start),
                               weft__plus(s, kept, done), left.length, 1, ready, WEFT__NO_STEP);
    }
    return ready;
}

/* The operand's place is that of `whole`.  to: where the own part ends; NULL: in TMP. */
static void halve(const circles *all, const circle *c, weft__span whole, double scale, const weft__place *to,
                  halved *h)
{
    weft__schedule *s = all->s;
    int left = (c->size + 1) / 2, ready;
    weft__place kept;
    if (c->size == 1) return;
    kept = weft__add_tmp(s, arc_of(c, whole, c->own, left).length);
    h->n = 0;
    ready = halve_first(all, c, whole, kept, left == 1 ? scale : 1, left == 1 && to ? *to : kept, h);
    for (int round = 1; left > 1; round++) {
        const int half = (left + 1) / 2, given = left - half;
        const size_t stays = arc_of(c, whole, c->own, half).length,
                     leaving = arc_of(c, whole, c->own, left).length - stays,
                     coming = arc_of(c, whole, c->own, given).length;
        weft__place other = weft__add_tmp(s, coming);
        const bool last = half == 1;
        int got;
        weft__add_send(s, seat_of(c, c->own + half), tag_of(c, HALVE, round, 0), weft__plus(s, kept, stays),
                       leaving, ready, WEFT__NO_STEP);
        got = weft__add_recv(s, seat_of(c, c->own - half), tag_of(c, HALVE, round, 0), other, coming,
                             WEFT__NO_STEP, WEFT__NO_STEP);
        ready =
            weft__add_reduce(s, other, kept, last && to ? *to : kept, coming, last ? scale : 1, got, ready);
        left = half;
    }
    h->own = (weft__operand){to ? *to : kept, ready};
}

/* On both circles.  Of the second one the operand is in TMP, unless there is no first one. */
static halved halve_all(const circles *c, weft__span whole, weft__operand own, double scale,
                        const weft__place *to)
{
    const bool over = c->at[OVER_HOSTS].size > 1;
    halved h = {.own = own}, further;
    halve(c, &c->at[IN_HOST], whole, over ? 1 : scale, over ? NULL : to, &h);
    further = h;
    halve(c, &c->at[OVER_HOSTS], part_of(&c->at[IN_HOST], whole, c->at[IN_HOST].own), scale, to, &further);
    if (c->at[IN_HOST].size == 1) return further;
    h.own = further.own;
    return h;
}

/* ---- a tree on a circle ----
 *
 * Numbers count from the root's.  A node has the parts of its subtree: an arc that begins with its own, as long as its
 * number's lowest bit, or to the end of the circle; the root all. */

static int lowest_bit(int number)
{
    return number & -number;
}

static int number_from(const circle *c, int root, int number)
{
    return weft__modulo(number - root, c->size);
}

/* Parts of the subtree of that node. */
static int parts_below(const circle *c, int root, int number)
{
    int v = number_from(c, root, number), n = lowest_bit(v);
    return v == 0 || n > c->size - v ? c->size - v : n;
}

static int root_of(const circles *all, int which)
{
    const int each = all->at[IN_HOST].size, root = all->s->root;
    return which == IN_HOST ? root % each : root / each;
}

static bool is_at_root(const circles *all) /* on its host */
{
    return all->at[OVER_HOSTS].own == root_of(all, OVER_HOSTS);
}

/* ---- gathering ---- */

#define NO_ROOT (-1)

/* Everybody has its own part in `data`, or, root given, all of its subtree, once what has arrived is there; what comes may
 * be written after the steps `free`. */
static void gather(const circles *all, const circle *c, weft__span whole, weft__place data, int root,
                   const arrived *free_by, arrived *g)
{
    weft__schedule *s = all->s;
    int left[WEFT__ROUNDS_MOST + 2] = {c->size}, rounds = 0;
    for (; left[rounds] > 1; rounds++) left[rounds + 1] = (left[rounds] + 1) / 2;
    for (int round = rounds - 1; round >= 0; round--) {
        const int half = left[round + 1], back = weft__modulo(c->own - half, c->size);
        const int theirs = root == NO_ROOT ? 1 : parts_below(c, root, back),
                  own = root == NO_ROOT ? 1 : parts_below(c, root, c->own);
        const int from = theirs > half ? theirs - half : 0, with = own > half ? own : half;
        const arc leaving = arc_of(c, whole, c->own + from, left[round] - half - from),
                  coming = arc_of(c, whole, c->own + with, left[round] - with);
        for (int i = 0; i < leaving.pieces; i++) {
            int sent = weft__add_send(s, seat_of(c, back), tag_of(c, GATHER, round, i),
                                      weft__plus(s, data, leaving.piece[i].start), leaving.piece[i].length,
                                      WEFT__NO_STEP, WEFT__NO_STEP);
            weft__add_orders(s, g->by, g->n, sent);
        }
        for (int i = 0; i < coming.pieces; i++) {
            int got = weft__add_recv(s, seat_of(c, c->own + half), tag_of(c, GATHER, round, i),
                                     weft__plus(s, data, coming.piece[i].start), coming.piece[i].length,
                                     WEFT__NO_STEP, WEFT__NO_STEP);
            weft__add_orders(s, free_by->by, free_by->n, got);
            arrive(g, got);
        }
    }
}

/* On both circles, what is without a root. */
static void gather_all(const circles *c, weft__span whole, weft__place data, arrived *g)
{
    const arrived free_by = *g;
    gather(c, &c->at[OVER_HOSTS], part_of(&c->at[IN_HOST], whole, c->at[IN_HOST].own), data, NO_ROOT,
           &free_by, g);
    gather(c, &c->at[IN_HOST], whole, data, NO_ROOT, &free_by, g);
}

/* Where of `whole` this rank's own part is. */
static weft__span own_part(const circles *c, weft__span whole)
{
    return part_of(&c->at[OVER_HOSTS], part_of(&c->at[IN_HOST], whole, c->at[IN_HOST].own),
                   c->at[OVER_HOSTS].own);
}

static arrived after_halving(const halved *h)
{
    arrived g = {.n = 0};
    arrive(&g, h->own.ready);
    for (int i = 0; i < h->n; i++) arrive(&g, h->sent[i]);
    return g;
}

/* ---- all_reduce ---- */

/* Hosts reduce a lane and gather it.  reduced: on this one, with its place that of this rank's share.  Returns what the lane's
 * end is known by. */
static arrived exchange_lane(const circles *all, const circle *c, weft__span lane, const halved *reduced,
                             double scale)
{
    weft__schedule *s = all->s;
    const weft__place out = weft__at(s, WEFT__OUT, 0),
                      to = weft__plus(s, out, part_of(c, lane, c->own).start);
    halved h = *reduced;
    arrived g, free_by;
    h.n = 0;
    halve(all, c, lane, scale, &to, &h);
    /* In place OUT's other parts are operands until this one is reduced, and those given away are sent. */
    g = after_halving(&h);
    for (int i = 0; i < reduced->n; i++) arrive(&g, reduced->sent[i]);
    free_by = g;
    gather(all, c, lane, out, NO_ROOT, &free_by, &g);
    return g;
}

/* One step that stands for all of them. */
static int join(weft__schedule *s, const arrived *g)
{
    const weft__place nowhere = weft__at(s, WEFT__TMP, 0);
    const int joined = weft__add_copy(s, nowhere, nowhere, 0, 1, WEFT__NO_STEP, WEFT__NO_STEP);
    weft__add_orders(s, g->by, g->n, joined);
    return joined;
}

/* The lanes of this rank's share, one after the other.  Returns what the end of the share is known by. */
static arrived exchange_share(const circles *all, weft__span share, size_t count, const halved *reduced,
                              double scale)
{
    weft__schedule *s = all->s;
    int last = WEFT__NO_STEP, number = 0;
    arrived g = {.n = 0};
    for (size_t at = 0, end; at < share.start + share.length; at = end, number++) {
        end = weft__lane_end(s, count, at);
        if (at < share.start) continue;
        const circle c = circle_of_lane(s, number, at, count);
        halved own = *reduced;
        own.own.place = weft__plus(s, reduced->own.place, at - share.start);
        g = exchange_lane(all, &c, (weft__span){at, end - at}, &own, scale);
        if (last != WEFT__NO_STEP) arrive(&g, last);
        if (end < share.start + share.length) last = join(s, &g);
    }
    return g;
}

void weft__build_arcs_all_reduce(weft__schedule *s, const weft__op *op)
{
    const circle in_host = circle_in_host(s), *host = &in_host;
    const circles c = {.s = s};
    const weft__span whole = {0, op->count}, share = part_of(host, whole, host->own);
    const weft__place out = weft__at(s, WEFT__OUT, 0), to = weft__plus(s, out, share.start);
    const bool over = weft__hosts(s) > 1;
    halved h = {.own = weft__own_operand(s, op, op->count)};
    arrived free_by, g;
    halve(&c, host, whole, over ? 1 : weft__last_scale(s, op), over ? NULL : &to, &h);
    free_by = g = after_halving(&h);
    if (over) g = exchange_share(&c, share, op->count, &h, weft__last_scale(s, op));
    gather(&c, host, whole, out, NO_ROOT, &free_by, &g);
}

/* ---- blocks ----
 *
 * They lie in the order of ranks, and the parts of both circles by place on a host first.  So of a block of ranks on several
 * hosts another rank is in charge than the one that it belongs to: one message more for each rank, of a block, where a copy
 * of all blocks in another order would be a step for each. */

/* Which block this rank's part is; the rank of that number has it. */
static int block_of(const circles *c)
{
    return c->at[IN_HOST].own * c->at[OVER_HOSTS].size + c->at[OVER_HOSTS].own;
}

static int in_charge_of(const circles *c, int block)
{
    const int hosts = c->at[OVER_HOSTS].size;
    return block % hosts * c->at[IN_HOST].size + block / hosts;
}

void weft__build_arcs_reduce_scatter(weft__schedule *s, const weft__op *op)
{
    const circles c = circles_of(s);
    const weft__span whole = {0, (size_t)s->size * op->count};
    const uint32_t tag = tag_of(&c.at[IN_HOST], ROOT, 0, 0);
    const bool is_own = block_of(&c) == s->rank;
    const weft__place out = weft__at(s, WEFT__OUT, 0), to = is_own ? out : weft__add_tmp(s, op->count);
    halved h = halve_all(&c, whole, weft__own_operand(s, op, whole.length), weft__last_scale(s, op), &to);
    int got;
    if (is_own) return;
    weft__add_send(s, weft__seat_of(s, block_of(&c)), tag, to, op->count, h.own.ready, WEFT__NO_STEP);
    /* In place it is an operand until then. */
    got = weft__add_recv(s, in_charge_of(&c, s->rank), tag, out, op->count, h.own.ready, WEFT__NO_STEP);
    weft__add_orders(s, h.sent, h.n, got);
}

void weft__build_arcs_all_gather(weft__schedule *s, const weft__op *op)
{
    const circles c = circles_of(s);
    const weft__span whole = {0, (size_t)s->size * op->count}, own = own_part(&c, whole);
    const weft__place in = weft__at(s, WEFT__IN, 0), out = weft__at(s, WEFT__OUT, 0);
    const uint32_t tag = tag_of(&c.at[IN_HOST], ROOT, 0, 0);
    const int owner = block_of(&c);
    arrived g = {.n = 0};
    if (owner == s->rank) {
        arrive(&g, weft__add_copy(s, in, weft__plus(s, out, own.start), own.length, 1, WEFT__NO_STEP,
                                  WEFT__NO_STEP));
    } else {
        /* In place it is where this rank's own block comes back to. */
        arrive(&g, weft__add_send(s, in_charge_of(&c, s->rank), tag, in, op->count, WEFT__NO_STEP,
                                  WEFT__NO_STEP));
        arrive(&g, weft__add_recv(s, weft__seat_of(s, owner), tag, weft__plus(s, out, own.start), own.length,
                                  WEFT__NO_STEP, WEFT__NO_STEP));
    }
    gather_all(&c, whole, out, &g);
}

/* ---- from one, and to one ---- */

/* The root's parts go down its tree: `data` is all there where a rank has them by what has arrived. */
static void deal_out(const circles *all, int which, weft__span whole, weft__place data, arrived *g)
{
    weft__schedule *s = all->s;
    const circle *c = &all->at[which];
    const int root = root_of(all, which), v = number_from(c, root, c->own), n = parts_below(c, root, c->own);
    const arc coming = arc_of(c, whole, c->own, n);
    int half = 1;
    for (int i = 0; v && i < coming.pieces; i++) {
        int got = weft__add_recv(s, seat_of(c, c->own - lowest_bit(v)), tag_of(c, ROOT, 0, i),
                                 weft__plus(s, data, coming.piece[i].start), coming.piece[i].length,
                                 WEFT__NO_STEP, WEFT__NO_STEP);
        arrive(g, got);
    }
    while (half < n) half *= 2;
    for (half /= 2; half >= 1; half /= 2) {
        const int number = weft__modulo(c->own + half, c->size);
        const arc leaving = arc_of(c, whole, number, parts_below(c, root, number));
        for (int i = 0; i < leaving.pieces; i++) {
            int sent = weft__add_send(s, seat_of(c, number), tag_of(c, ROOT, 0, i),
                                      weft__plus(s, data, leaving.piece[i].start), leaving.piece[i].length,
                                      WEFT__NO_STEP, WEFT__NO_STEP);
            weft__add_orders(s, g->by, g->n, sent);
        }
    }
}

static void broadcast_stripe(const circles *c, weft__span whole, weft__place data)
{
    const weft__span share = part_of(&c->at[IN_HOST], whole, c->at[IN_HOST].own);
    const arrived nothing = {.n = 0};
    arrived g = nothing;
    if (is_at_root(c)) deal_out(c, IN_HOST, whole, data, &g);
    deal_out(c, OVER_HOSTS, share, data, &g);
    gather(c, &c->at[OVER_HOSTS], share, data, root_of(c, OVER_HOSTS), &nothing, &g);
    gather(c, &c->at[IN_HOST], whole, data, is_at_root(c) ? root_of(c, IN_HOST) : NO_ROOT, &nothing, &g);
}

void weft__build_arcs_broadcast(weft__schedule *s, const weft__op *op)
{
    const int stripes = weft__broadcast_stripes(s, op);
    const weft__place data = weft__at(s, s->seat == s->root ? WEFT__IN : WEFT__OUT, 0);
    circles c = circles_of(s);
    for (int i = 0; i < stripes; i++) {
        broadcast_stripe(&c, weft__share(op->count, stripes, i), data);
        for (int which = 0; which < CIRCLES; which++) c.at[which].tag += CIRCLES * PHASES * PHASE_TAGS;
    }
    weft__add_agreement(s);
}

/* Where a node keeps the parts of its subtree: the root by number, so that they are one buffer; others from their own on. */
typedef struct store {
    weft__place place;
    bool by_number;
} store;

static weft__place own_in_store(const circles *all, int which, weft__span whole, store kept)
{
    const circle *c = &all->at[which];
    size_t skip = kept.by_number ? part_of(c, whole, c->own).start - whole.start : 0;
    return weft__plus(all->s, kept.place, skip);
}

/* The other way round than deal_out. */
static void hand_in(const circles *all, int which, weft__span whole, store kept, const arrived *free_by,
                    arrived *g)
{
    weft__schedule *s = all->s;
    const circle *c = &all->at[which];
    const int root = root_of(all, which), v = number_from(c, root, c->own), n = parts_below(c, root, c->own);
    const arc leaving = arc_of(c, whole, c->own, n);
    size_t done = 0;
    for (int half = 1; half < n; half *= 2) {
        const int number = weft__modulo(c->own + half, c->size);
        const arc coming = arc_of(c, whole, number, parts_below(c, root, number));
        size_t at = arc_of(c, whole, c->own, half).length;
        for (int i = 0; i < coming.pieces; at += coming.piece[i++].length) {
            size_t skip = kept.by_number ? coming.piece[i].start - whole.start : at;
            int got =
                weft__add_recv(s, seat_of(c, number), tag_of(c, ROOT, 0, i), weft__plus(s, kept.place, skip),
                               coming.piece[i].length, WEFT__NO_STEP, WEFT__NO_STEP);
            weft__add_orders(s, free_by->by, free_by->n, got);
            arrive(g, got);
        }
    }
    for (int i = 0; v && i < leaving.pieces; done += leaving.piece[i++].length) {
        int sent = weft__add_send(s, seat_of(c, c->own - lowest_bit(v)), tag_of(c, ROOT, 0, i),
                                  weft__plus(s, kept.place, done), leaving.piece[i].length, WEFT__NO_STEP,
                                  WEFT__NO_STEP);
        weft__add_orders(s, g->by, g->n, sent);
    }
}

/* Room for this rank's subtree, where `place` is not given. */
static store store_of(const circles *all, int which, weft__span whole, const weft__place *place)
{
    const circle *c = &all->at[which];
    const int root = root_of(all, which);
    store kept = {.by_number = c->own == root};
    kept.place =
        place ? *place : weft__add_tmp(all->s, arc_of(c, whole, c->own, parts_below(c, root, c->own)).length);
    return kept;
}

void weft__build_arcs_reduce(weft__schedule *s, const weft__op *op)
{
    const circles c = circles_of(s);
    const weft__span whole = {0, op->count}, share = part_of(&c.at[IN_HOST], whole, c.at[IN_HOST].own);
    const weft__place out = weft__at(s, WEFT__OUT, 0);
    store shares = {out, false}, parts;
    weft__place own;
    halved h;
    arrived g, free_by;
    if (is_at_root(&c)) {
        shares = store_of(&c, IN_HOST, whole, s->seat == s->root ? &out : NULL);
        own = own_in_store(&c, IN_HOST, whole, shares);
    }
    parts = store_of(&c, OVER_HOSTS, share, is_at_root(&c) ? &own : NULL);
    own = own_in_store(&c, OVER_HOSTS, share, parts);
    h = halve_all(&c, whole, weft__own_operand(s, op, op->count), weft__last_scale(s, op), &own);
    g = free_by = after_halving(&h);
    hand_in(&c, OVER_HOSTS, share, parts, &free_by, &g);
    if (is_at_root(&c)) hand_in(&c, IN_HOST, whole, shares, &free_by, &g);
    weft__add_agreement(s);
}
