/* ring.c - each rank sends to the next and hears from the one before: least bytes per rank, for large sizes.
 *
 * Ranks stand in the order of their seats, so the ring enters each host once.  A buffer is cut into one block
 * per rank.  reduce_scatter: block b starts at rank b + 1 and collects on its
 * way round, so that b itself adds last; every element is computed by one rank only.  all_gather: each block
 * goes round from its owner.  all_reduce is the two in turn, reduce is the first and a gather, broadcast is
 * a scatter and the second.  Blocks of many bytes are cut again, into stripes that go round independently:
 * one stripe reduces while another travels.
 *
 * In blocks (schedule.h) a message's moment is its phase and its round.
 *
 * Sources: P. Patarasuk, X. Yuan, "Bandwidth Optimal All-reduce Algorithms for Clusters of Workstations"
 * (2009); broadcast: M. Barnett et al., "Building a High-Performance Collective Communication Library"
 * (1994), known as van de Geijn's. */
#include "algorithms.h"

#define STRIPES_MOST 4
#define STRIPE_BYTES 262144 /* shorter stripes would cost more in messages than they overlap */
#define SLOTS        3      /* partial results in TMP at once: received, reduced, being sent */

enum ring_cut {
    SHARES,
    IN_BLOCKS,
    OUT_BLOCKS
}; /* shares of count, or the blocks of a buffer: one of each seat */

typedef struct ring {
    weft__schedule *s;
    const weft__op *op;
    enum ring_cut cut;
    size_t longest; /* piece of any block */
    int stripe, stripes;
    int next, before; /* seats */
} ring;

static weft__span block_at(const ring *g, int block)
{
    int seat = weft__modulo(block, g->s->size);
    if (g->cut == IN_BLOCKS) return weft__op_in_block(g->op, weft__rank_at(g->s, seat));
    if (g->cut == OUT_BLOCKS) return weft__op_out_block(g->op, weft__rank_at(g->s, seat));
    return weft__share(g->op->count, g->s->size, seat);
}

/* This stripe's part of a block. */
static weft__span piece_at(const ring *g, int block)
{
    weft__span whole = block_at(g, block);
    weft__span part = weft__share(whole.length, g->stripes, g->stripe);
    return (weft__span){whole.start + part.start, part.length};
}

/* Where this stripe's part of this rank's block begins, counted from the block. */
static size_t own_skip(const ring *g)
{
    return piece_at(g, g->s->seat).start - block_at(g, g->s->seat).start;
}

static ring make_ring(weft__schedule *s, const weft__op *op, enum ring_cut cut)
{
    ring g = {.s = s, .op = op, .stripes = 1};
    /* Even blocks are of one length, and of shares the first is the longest. */
    const int lengths = op->uneven && cut != SHARES ? s->size : 1;
    size_t stripes;
    g.cut = cut;
    for (int r = 0; r < lengths; r++)
        if (block_at(&g, r).length > g.longest) g.longest = block_at(&g, r).length;
    stripes = g.longest * s->element / STRIPE_BYTES;
    if (stripes > 1) g.stripes = stripes > STRIPES_MOST ? STRIPES_MOST : (int)stripes;
    g.longest = weft__share(g.longest, g.stripes, 0).length;
    g.next = weft__modulo(s->seat + 1, s->size);
    g.before = weft__modulo(s->seat - 1, s->size);
    return g;
}

/* Each round of the ring has so many steps.  Stripes go round beside each other and not one after the other, as they
 * would in blocks: schedules with several stay whole, and are short beside their buffers. */
static void go_in_blocks(const ring *g, int each)
{
    if (g->stripes == 1) weft__cut(g->s, each * (g->s->size - 1));
}

/* Phases 0, 1, 2 of an operation; a phase has at most size steps. */
static uint32_t tag_of(const ring *g, int phase, int step)
{
    return ((uint32_t)phase * (uint32_t)g->s->size + (uint32_t)step) * (uint32_t)g->stripes +
           (uint32_t)g->stripe;
}

typedef struct reduced {
    int done;       /* this rank's piece stands at its place */
    int first_sent; /* the one send that reads the operand itself is done with it */
} reduced;

/* This stripe's pieces of `own` go round; that of block `rank` ends, reduced, at `to`. */
static reduced reduce_pieces(const ring *g, weft__operand own, weft__place to, double scale)
{
    enum { RECEIVED, SENT, REDUCED, EACH }; /* the steps of a round */
    weft__schedule *s = g->s;
    weft__place slots[SLOTS];
    const int rounds = s->size - 1;
    for (int i = 0; i < SLOTS; i++)
        slots[i] = i < rounds ? weft__add_tmp(s, g->longest) : weft__at(s, WEFT__TMP, 0);
    const int first = s->n;
    for (int t = weft__next_round(s, 0, EACH, rounds); t < rounds;
         t = weft__next_round(s, t + 1, EACH, rounds)) {
        weft__span leaving = piece_at(g, s->seat - 1 - t), coming = piece_at(g, s->seat - 2 - t);
        bool last = t == rounds - 1;
        weft__place slot = slots[t % SLOTS],
                    partial = t ? slots[(t - 1) % SLOTS] : weft__plus(s, own.place, leaving.start);
        const int round = first + t * EACH, before = t ? round - EACH + REDUCED : own.ready;
        int got;
        /* A slot filled in round t - SLOTS was sent in the round after it. */
        got = weft__add_recv(s, g->before, tag_of(g, 0, t), slot, coming.length,
                             t < SLOTS ? WEFT__NO_STEP : round - (SLOTS - 1) * EACH + SENT, WEFT__NO_STEP);
        weft__add_send(s, g->next, tag_of(g, 0, t), partial, leaving.length, before, WEFT__NO_STEP);
        /* After the one before it, so that the last stands for all that read the operand. */
        weft__add_reduce(s, slot, weft__plus(s, own.place, coming.start), last ? to : slot, coming.length,
                         last ? scale : 1, got, before);
    }
    return (reduced){first + (rounds - 1) * EACH + REDUCED, first + SENT};
}

/* This stripe's pieces in OUT go round; each rank has that of its own block.  before1, before2: only after
 * them may OUT's other blocks be written. */
static void share_pieces(const ring *g, weft__place own, int ready, int before1, int before2)
{
    enum { SENT, RECEIVED, EACH }; /* the steps of a round */
    weft__schedule *s = g->s;
    const int first = s->n, rounds = s->size - 1;
    for (int t = weft__next_round(s, 0, EACH, rounds); t < rounds;
         t = weft__next_round(s, t + 1, EACH, rounds)) {
        weft__span leaving = piece_at(g, s->seat - t), coming = piece_at(g, s->seat - 1 - t);
        weft__add_send(s, g->next, tag_of(g, 1, t), t ? weft__at(s, WEFT__OUT, leaving.start) : own,
                       leaving.length, t ? first + (t - 1) * EACH + RECEIVED : ready, WEFT__NO_STEP);
        weft__add_recv(s, g->before, tag_of(g, 1, t), weft__at(s, WEFT__OUT, coming.start), coming.length,
                       before1, before2);
    }
}

void weft__build_ring_all_reduce(weft__schedule *s, const weft__op *op)
{
    ring g = make_ring(s, op, SHARES);
    go_in_blocks(&g, 5);
    weft__operand own = weft__own_operand(s, op, op->count);
    for (; g.stripe < g.stripes; g.stripe++) {
        weft__place mine = weft__at(s, WEFT__OUT, piece_at(&g, s->seat).start);
        reduced r = reduce_pieces(&g, own, mine, weft__last_scale(s, op));
        /* In place OUT's blocks are operands until all is reduced, and one is sent as it is. */
        share_pieces(&g, mine, r.done, r.done, r.first_sent);
    }
}

void weft__build_ring_reduce_scatter(weft__schedule *s, const weft__op *op)
{
    ring g = make_ring(s, op, IN_BLOCKS);
    go_in_blocks(&g, 3);
    weft__operand own = weft__own_operand(s, op, weft__op_in_elements(op, s->rank, s->size));
    for (; g.stripe < g.stripes; g.stripe++)
        reduce_pieces(&g, own, weft__at(s, WEFT__OUT, own_skip(&g)), weft__last_scale(s, op));
}

void weft__build_ring_all_gather(weft__schedule *s, const weft__op *op)
{
    ring g = make_ring(s, op, OUT_BLOCKS);
    go_in_blocks(&g, 2);
    weft__add_copy(s, weft__at(s, WEFT__IN, 0), weft__at(s, WEFT__OUT, block_at(&g, s->seat).start),
                   op->count, 1, WEFT__NO_STEP, WEFT__NO_STEP);
    for (; g.stripe < g.stripes; g.stripe++)
        share_pieces(&g, weft__at(s, WEFT__IN, own_skip(&g)), WEFT__NO_STEP, WEFT__NO_STEP, WEFT__NO_STEP);
}

/* The root hears the others' pieces; these go where they were reduced. */
static void gather_pieces(const ring *g, weft__place mine, reduced r)
{
    weft__schedule *s = g->s;
    const int others = s->size - 1;
    if (s->seat != s->root) {
        weft__add_send(s, s->root, tag_of(g, 2, 0), mine, piece_at(g, s->seat).length, r.done, WEFT__NO_STEP);
        return;
    }
    for (int i = weft__next_round(s, 0, 1, others); i < others; i = weft__next_round(s, i + 1, 1, others)) {
        int other = i < s->seat ? i : i + 1;
        weft__span theirs = piece_at(g, other);
        weft__add_recv(s, other, tag_of(g, 2, 0), weft__at(s, WEFT__OUT, theirs.start), theirs.length, r.done,
                       r.first_sent);
    }
}

void weft__build_ring_reduce(weft__schedule *s, const weft__op *op)
{
    ring g = make_ring(s, op, SHARES);
    go_in_blocks(&g, 3);
    if (s->block) weft__add_agreement(s);
    weft__operand own = weft__own_operand(s, op, op->count);
    for (; g.stripe < g.stripes; g.stripe++) {
        weft__span mine = piece_at(&g, s->seat);
        weft__place to =
            s->seat == s->root ? weft__at(s, WEFT__OUT, mine.start) : weft__add_tmp(s, mine.length);
        gather_pieces(&g, to, reduce_pieces(&g, own, to, weft__last_scale(s, op)));
    }
    if (!s->block) weft__add_agreement(s);
}

/* Blocks are counted from the root.  The root has them all: it hands each other rank its own, and then plays
 * its part in the ring without hearing from it. */
void weft__build_ring_broadcast(weft__schedule *s, const weft__op *op)
{
    ring g = make_ring(s, op, SHARES);
    int number = weft__modulo(s->seat - s->root, s->size), ready = WEFT__NO_STEP;
    weft__area buffer = number ? WEFT__OUT : WEFT__IN;
    g.stripes = 1;
    for (int other = 1; number == 0 && other < s->size; other++) {
        weft__span theirs = piece_at(&g, other);
        weft__add_send(s, weft__modulo(s->seat + other, s->size), 0, weft__at(s, buffer, theirs.start),
                       theirs.length, WEFT__NO_STEP, WEFT__NO_STEP);
    }
    if (number) {
        weft__span mine = piece_at(&g, number);
        ready = weft__add_recv(s, s->root, 0, weft__at(s, buffer, mine.start), mine.length, WEFT__NO_STEP,
                               WEFT__NO_STEP);
    }
    for (int t = 0; t < s->size - 1; t++) {
        weft__span leaving = piece_at(&g, number - t);
        weft__span coming = piece_at(&g, number - 1 - t);
        if (number < s->size - 1)
            weft__add_send(s, g.next, tag_of(&g, 1, t), weft__at(s, buffer, leaving.start), leaving.length,
                           ready, WEFT__NO_STEP);
        if (number)
            ready = weft__add_recv(s, g.before, tag_of(&g, 1, t), weft__at(s, buffer, coming.start),
                                   coming.length, WEFT__NO_STEP, WEFT__NO_STEP);
    }
    weft__add_agreement(s);
}
