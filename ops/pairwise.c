/* pairwise.c - every pair of ranks exchanges directly: all_to_all, and what is gathered, scattered or reduced
 * by its one owner.
 *
 * In step i a rank sends to rank + i and hears from rank - i, so no rank is the target of all at once.
 * reduce_scatter's owner reduces left to right in rank order.
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

void weft__build_pairwise_all_to_all(weft__schedule *s, const weft__op *op)
{
    size_t count = op->count, rank = (size_t)s->rank;
    weft__place from = weft__at(s, WEFT__IN, 0), to = weft__at(s, WEFT__OUT, 0);
    int saved = WEFT__NO_STEP;
    window w = open_window();
    if (op->in == op->out) {
        /* A block that comes in takes the place of one still to be sent. */
        weft__place in = from;
        from = weft__add_tmp(s, count * (size_t)s->size);
        saved = weft__add_copy(s, in, from, count * (size_t)s->size, 1, WEFT__NO_STEP, WEFT__NO_STEP);
    }
    weft__add_copy(s, weft__plus(s, from, rank * count), weft__plus(s, to, rank * count), count, 1, saved,
                   WEFT__NO_STEP);
    for (int i = 1; i < s->size; i++) {
        int target = weft__modulo(s->rank + i, s->size), source = weft__modulo(s->rank - i, s->size);
        int *sent = &w.sent[i % WINDOW], *received = &w.received[i % WINDOW];
        *received =
            weft__add_recv(s, source, 0, weft__plus(s, to, (size_t)source * count), count, saved, *received);
        *sent =
            weft__add_send(s, target, 0, weft__plus(s, from, (size_t)target * count), count, saved, *sent);
    }
}

/* ---- reduce_scatter by direct exchange ---- */

/* Left to right over ranks; the receives, by rank, are the steps from first_receive on. */
static void reduce_in_order(weft__schedule *s, const weft__op *op, weft__operand own, weft__place others,
                            int first_receive)
{
    size_t count = op->count;
    weft__place sum = weft__add_tmp(s, count), left = {WEFT__TMP, 0};
    int left_ready = WEFT__NO_STEP, receive = first_receive;
    for (int r = 0; r < s->size; r++) {
        bool mine = r == s->rank, last = r == s->size - 1;
        weft__place right =
            mine ? weft__plus(s, own.place, (size_t)r * count) : weft__plus(s, others, (size_t)r * count);
        int right_ready = mine ? own.ready : receive++;
        if (r == 0) {
            left = right;
            left_ready = right_ready;
            continue;
        }
        left_ready = weft__add_reduce(s, left, right, last ? weft__at(s, WEFT__OUT, 0) : sum, count,
                                      last ? weft__last_scale(s, op) : 1, left_ready, right_ready);
        left = sum;
    }
}

void weft__build_direct_reduce_scatter(weft__schedule *s, const weft__op *op)
{
    size_t count = op->count;
    weft__operand own = weft__own_operand(s, op, count * (size_t)s->size);
    weft__place others = weft__add_tmp(s, count * (size_t)s->size);
    int first_receive = s->n;
    for (int r = 0; r < s->size; r++)
        if (r != s->rank)
            weft__add_recv(s, r, 0, weft__plus(s, others, (size_t)r * count), count, WEFT__NO_STEP,
                           WEFT__NO_STEP);
    for (int i = 1; i < s->size; i++) {
        int target = weft__modulo(s->rank + i, s->size);
        weft__add_send(s, target, 0, weft__plus(s, own.place, (size_t)target * count), count, own.ready,
                       WEFT__NO_STEP);
    }
    reduce_in_order(s, op, own, others, first_receive);
}

/* ---- large blocks of one root ---- */

void weft__build_direct_gather(weft__schedule *s, const weft__op *op)
{
    size_t count = op->count;
    window w = open_window();
    if (s->rank != op->root)
        weft__add_send(s, op->root, 0, weft__at(s, WEFT__IN, 0), count, WEFT__NO_STEP, WEFT__NO_STEP);
    else
        weft__add_copy(s, weft__at(s, WEFT__IN, 0), weft__at(s, WEFT__OUT, (size_t)s->rank * count), count, 1,
                       WEFT__NO_STEP, WEFT__NO_STEP);
    for (int i = 1; s->rank == op->root && i < s->size; i++) {
        int source = weft__modulo(s->rank + i, s->size), *received = &w.received[i % WINDOW];
        *received = weft__add_recv(s, source, 0, weft__at(s, WEFT__OUT, (size_t)source * count), count,
                                   *received, WEFT__NO_STEP);
    }
    weft__add_agreement(s);
}

void weft__build_direct_scatter(weft__schedule *s, const weft__op *op)
{
    size_t count = op->count;
    window w = open_window();
    if (s->rank != op->root)
        weft__add_recv(s, op->root, 0, weft__at(s, WEFT__OUT, 0), count, WEFT__NO_STEP, WEFT__NO_STEP);
    else
        weft__add_copy(s, weft__at(s, WEFT__IN, (size_t)s->rank * count), weft__at(s, WEFT__OUT, 0), count, 1,
                       WEFT__NO_STEP, WEFT__NO_STEP);
    for (int i = 1; s->rank == op->root && i < s->size; i++) {
        int target = weft__modulo(s->rank + i, s->size), *sent = &w.sent[i % WINDOW];
        *sent = weft__add_send(s, target, 0, weft__at(s, WEFT__IN, (size_t)target * count), count, *sent,
                               WEFT__NO_STEP);
    }
    weft__add_agreement(s);
}
