/* pairwise.c - every pair of ranks exchanges directly: all_to_all, all_gather, and large blocks of one root.
 *
 * In step i a rank sends to rank + i and hears from rank - i, so no rank is the target of all at once.
 *
 * Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication Operations in
 * MPICH" (2005), "pairwise exchange". */
#include "algorithms.h"

#define WINDOW 16 /* exchanges under way at once: enough to fill a link, few enough for many ranks */

/* The steps by which exchange i + WINDOW may start. */
typedef struct window {
    int sent[WINDOW], received[WINDOW];
} window;

static window open_window(void)
{
    window w;
    for (int i = 0; i < WINDOW; i++) w.sent[i] = w.received[i] = WEFT__NO_STEP;
    return w;
}

/* all_to_all and all_gather, even or uneven: of an input that is one block everybody gets all. */
void weft__build_pairwise(weft__schedule *s, const weft__op *op)
{
    weft__count_in_ranks(s, op);
    weft__place from = weft__at(s, WEFT__IN, 0);
    weft__span own_in = weft__op_in_block(op, s->rank), own_out = weft__op_out_block(op, s->rank);
    int saved = WEFT__NO_STEP;
    window w = open_window();
    if (weft__kind_traits(op->kind) & WEFT__IN_BLOCKS && weft__op_is_in_place(op, s->rank)) {
        /* A block that comes in takes the place of one still to be sent. */
        size_t all = weft__op_in_elements(op, s->rank, s->size);
        weft__place in = from;
        from = weft__add_tmp(s, all);
        saved = weft__add_copy(s, in, from, all, 1, WEFT__NO_STEP, WEFT__NO_STEP);
    }
    weft__add_copy(s, weft__plus(s, from, own_in.start), weft__at(s, WEFT__OUT, own_out.start), own_in.length,
                   1, saved, WEFT__NO_STEP);
    for (int i = 1; i < s->size; i++) {
        int target = weft__modulo(s->rank + i, s->size), source = weft__modulo(s->rank - i, s->size);
        weft__span leaving = weft__op_in_block(op, target), coming = weft__op_out_block(op, source);
        int *sent = &w.sent[i % WINDOW], *received = &w.received[i % WINDOW];
        *received = weft__add_recv(s, source, 0, weft__at(s, WEFT__OUT, coming.start), coming.length, saved,
                                   *received);
        *sent =
            weft__add_send(s, target, 0, weft__plus(s, from, leaving.start), leaving.length, saved, *sent);
    }
}

/* ---- large blocks of one root ---- */

void weft__build_direct_gather(weft__schedule *s, const weft__op *op)
{
    weft__count_in_ranks(s, op);
    window w = open_window();
    if (s->rank != op->root)
        weft__add_send(s, op->root, 0, weft__at(s, WEFT__IN, 0), op->count, WEFT__NO_STEP, WEFT__NO_STEP);
    else
        weft__add_copy(s, weft__at(s, WEFT__IN, 0),
                       weft__at(s, WEFT__OUT, weft__op_out_block(op, s->rank).start), op->count, 1,
                       WEFT__NO_STEP, WEFT__NO_STEP);
    for (int i = 1; s->rank == op->root && i < s->size; i++) {
        int source = weft__modulo(s->rank + i, s->size), *received = &w.received[i % WINDOW];
        weft__span block = weft__op_out_block(op, source);
        *received = weft__add_recv(s, source, 0, weft__at(s, WEFT__OUT, block.start), block.length, *received,
                                   WEFT__NO_STEP);
    }
    weft__add_agreement(s);
}

void weft__build_direct_scatter(weft__schedule *s, const weft__op *op)
{
    weft__count_in_ranks(s, op);
    window w = open_window();
    if (s->rank != op->root)
        weft__add_recv(s, op->root, 0, weft__at(s, WEFT__OUT, 0), op->count, WEFT__NO_STEP, WEFT__NO_STEP);
    else
        weft__add_copy(s, weft__at(s, WEFT__IN, weft__op_in_block(op, s->rank).start),
                       weft__at(s, WEFT__OUT, 0), op->count, 1, WEFT__NO_STEP, WEFT__NO_STEP);
    for (int i = 1; s->rank == op->root && i < s->size; i++) {
        int target = weft__modulo(s->rank + i, s->size), *sent = &w.sent[i % WINDOW];
        weft__span block = weft__op_in_block(op, target);
        *sent = weft__add_send(s, target, 0, weft__at(s, WEFT__IN, block.start), block.length, *sent,
                               WEFT__NO_STEP);
    }
    weft__add_agreement(s);
}
