/* pairwise.c - every pair of ranks exchanges directly: all_to_all, all_gather, and large blocks of one root.
 *
 * In step i a rank sends to rank + i and hears from rank - i, so no rank is the target of all at once.  In blocks
 * (schedule.h) a message's moment is i.
 *
 * Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication Operations in
 * MPICH" (2005), "pairwise exchange". */
#include "algorithms.h"

#define WINDOW 16 /* exchanges under way at once: enough to fill a link, few enough for many ranks */

/* The step by which exchange i, of 0, 1, ..., may start: its like of the exchange that left the window.  each: steps of
 * an exchange, of which that of exchange 0 is `first`. */
static int let_in_by(int i, int first, int each)
{
    return i < WINDOW ? WEFT__NO_STEP : first + (i - WINDOW) * each;
}

/* all_to_all and all_gather, even or uneven: of an input that is one block everybody gets all. */
void weft__build_pairwise(weft__schedule *s, const weft__op *op)
{
    enum { RECEIVED, SENT, EACH }; /* the steps of an exchange */
    const int others = s->size - 1;
    weft__count_in_ranks(s, op);
    weft__cut(s, EACH * others);
    weft__place from = weft__at(s, WEFT__IN, 0);
    weft__span own_in = weft__op_in_block(op, s->rank), own_out = weft__op_out_block(op, s->rank);
    int saved = WEFT__NO_STEP;
    if (weft__kind_traits(op->kind) & WEFT__IN_BLOCKS && weft__op_is_in_place(op, s->rank)) {
        /* A block that comes in takes the place of one still to be sent. */
        size_t all = weft__op_in_elements(op, s->rank, s->size);
        weft__place in = from;
        from = weft__add_tmp(s, all);
        saved = weft__add_copy(s, in, from, all, 1, WEFT__NO_STEP, WEFT__NO_STEP);
    }
    weft__add_copy(s, weft__plus(s, from, own_in.start), weft__at(s, WEFT__OUT, own_out.start), own_in.length,
                   1, saved, WEFT__NO_STEP);
    const int first = s->n;
    for (int i = weft__next_round(s, 0, EACH, others); i < others;
         i = weft__next_round(s, i + 1, EACH, others)) {
        int target = weft__modulo(s->rank + i + 1, s->size), source = weft__modulo(s->rank - i - 1, s->size);
        weft__span leaving = weft__op_in_block(op, target), coming = weft__op_out_block(op, source);
        weft__add_recv(s, source, 0, weft__at(s, WEFT__OUT, coming.start), coming.length, saved,
                       let_in_by(i, first + RECEIVED, EACH));
        weft__add_send(s, target, 0, weft__plus(s, from, leaving.start), leaving.length, saved,
                       let_in_by(i, first + SENT, EACH));
    }
}

/* ---- large blocks of one root ---- */

/* Only the root's list may go in blocks: it has a step for each rank.  Then what tells that all mean the same comes first, so
 * that it does not wait for all of these. */
static void begin_direct(weft__schedule *s, const weft__op *op)
{
    weft__count_in_ranks(s, op);
    if (s->rank == op->root) weft__cut(s, s->size);
    if (s->block) weft__add_agreement(s);
}

static void end_direct(weft__schedule *s)
{
    if (!s->block) weft__add_agreement(s);
}

void weft__build_direct_gather(weft__schedule *s, const weft__op *op)
{
    const int others = s->rank == op->root ? s->size - 1 : 0;
    begin_direct(s, op);
    if (s->rank != op->root)
        weft__add_send(s, op->root, 0, weft__at(s, WEFT__IN, 0), op->count, WEFT__NO_STEP, WEFT__NO_STEP);
    else
        weft__add_copy(s, weft__at(s, WEFT__IN, 0),
                       weft__at(s, WEFT__OUT, weft__op_out_block(op, s->rank).start), op->count, 1,
                       WEFT__NO_STEP, WEFT__NO_STEP);
    const int first = s->n;
    for (int i = weft__next_round(s, 0, 1, others); i < others; i = weft__next_round(s, i + 1, 1, others)) {
        int source = weft__modulo(s->rank + i + 1, s->size);
        weft__span block = weft__op_out_block(op, source);
        weft__add_recv(s, source, 0, weft__at(s, WEFT__OUT, block.start), block.length,
                       let_in_by(i, first, 1), WEFT__NO_STEP);
    }
    end_direct(s);
}

void weft__build_direct_scatter(weft__schedule *s, const weft__op *op)
{
    const int others = s->rank == op->root ? s->size - 1 : 0;
    begin_direct(s, op);
    if (s->rank != op->root)
        weft__add_recv(s, op->root, 0, weft__at(s, WEFT__OUT, 0), op->count, WEFT__NO_STEP, WEFT__NO_STEP);
    else
        weft__add_copy(s, weft__at(s, WEFT__IN, weft__op_in_block(op, s->rank).start),
                       weft__at(s, WEFT__OUT, 0), op->count, 1, WEFT__NO_STEP, WEFT__NO_STEP);
    const int first = s->n;
    for (int i = weft__next_round(s, 0, 1, others); i < others; i = weft__next_round(s, i + 1, 1, others)) {
        int target = weft__modulo(s->rank + i + 1, s->size);
        weft__span block = weft__op_in_block(op, target);
        weft__add_send(s, target, 0, weft__at(s, WEFT__IN, block.start), block.length, let_in_by(i, first, 1),
                       WEFT__NO_STEP);
    }
    end_direct(s);
}
