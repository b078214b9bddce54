/* ordered.c - reductions by direct exchange: whoever owns a part of the result hears the operands of all
 * ranks, lays them side by side and reduces them in one step, left to right in rank order.
 *
 * So every element is that of one sum over ranks 0 .. n-1, rounded once, however the parts are cut.  The
 * forms for reduce and all_reduce are those of WEFT_REDUCE=rank_order; reduce_scatter uses its own for short
 * blocks anyhow.
 *
 * Source: the exchange is that of pairwise.c. */
#include "algorithms.h"

typedef weft__span part_fn(const weft__schedule *s, const weft__op *op, int owner);

static weft__span block_of(const weft__schedule *s, const weft__op *op, int owner)
{
    (void)s;
    return weft__op_in_block(op, owner);
}

static weft__span share_of(const weft__schedule *s, const weft__op *op, int owner)
{
    return weft__share(op->count, s->size, owner);
}

static weft__span whole(const weft__schedule *s, const weft__op *op, int owner)
{
    (void)s;
    (void)owner;
    return (weft__span){0, op->count};
}

static weft__span whole_at_root(const weft__schedule *s, const weft__op *op, int owner)
{
    (void)s;
    return (weft__span){0, owner == op->root ? op->count : 0};
}

typedef struct exchange {
    int first_sent; /* the sends are the steps from here on, to rank + 1, rank + 2, ... */
    int reduced;
} exchange;

/* Each rank sends each owner its operand's part, and reduces its own part of all operands into `to`.  As all
 * hear from all, if only that there is nothing, they also know that all agree. */
static exchange reduce_parts(weft__schedule *s, const weft__op *op, part_fn *part, weft__place to)
{
    weft__operand own = weft__own_operand(s, op, weft__op_in_elements(op, s->rank, s->size));
    weft__span mine = part(s, op, s->rank);
    weft__place rows = weft__add_tmp(s, mine.length * (size_t)s->size);
    exchange x = {.first_sent = s->n};
    int first_row;
    for (int i = 1; i < s->size; i++) {
        int owner = weft__modulo(s->rank + i, s->size);
        weft__span theirs = part(s, op, owner);
        weft__add_send(s, owner, 0, weft__plus(s, own.place, theirs.start), theirs.length, own.ready,
                       WEFT__NO_STEP);
    }
    first_row = s->n;
    for (int r = 0; r < s->size; r++) {
        weft__place row = weft__plus(s, rows, (size_t)r * mine.length);
        if (r == s->rank)
            weft__add_copy(s, weft__plus(s, own.place, mine.start), row, mine.length, 1, own.ready,
                           WEFT__NO_STEP);
        else
            weft__add_recv(s, r, 0, row, mine.length, WEFT__NO_STEP, WEFT__NO_STEP);
    }
    x.reduced = weft__add_fold(s, rows, s->size, to, mine.length, weft__last_scale(s, op));
    for (int r = 0; r < s->size; r++) weft__add_order(s, first_row + r, x.reduced);
    return x;
}

/* The result may take the operand's place once that has been sent to all. */
static void after_sends(weft__schedule *s, exchange x, int step)
{
    for (int i = 0; i < s->size - 1; i++) weft__add_order(s, x.first_sent + i, step);
}

void weft__build_ordered_reduce_scatter(weft__schedule *s, const weft__op *op)
{
    weft__count_in_ranks(s, op);
    reduce_parts(s, op, block_of, weft__at(s, WEFT__OUT, 0));
}

void weft__build_ordered_all_reduce(weft__schedule *s, const weft__op *op)
{
    weft__count_in_ranks(s, op);
    exchange x = reduce_parts(s, op, whole, weft__at(s, WEFT__OUT, 0));
    after_sends(s, x, x.reduced);
}

void weft__build_ordered_reduce(weft__schedule *s, const weft__op *op)
{
    weft__count_in_ranks(s, op);
    reduce_parts(s, op, whole_at_root, weft__at(s, WEFT__OUT, 0));
}

/* Long operands: each rank reduces a share, and tells it to all, or to the root. */
void weft__build_ordered_shares(weft__schedule *s, const weft__op *op)
{
    weft__count_in_ranks(s, op);
    bool rooted = weft__kind_traits(op->kind) & WEFT__ROOTED, writes = !rooted || s->rank == op->root;
    weft__span mine = share_of(s, op, s->rank);
    weft__place to = writes ? weft__at(s, WEFT__OUT, mine.start) : weft__add_tmp(s, mine.length);
    exchange x = reduce_parts(s, op, share_of, to);
    for (int i = 1; i < s->size; i++) {
        int target = weft__modulo(s->rank + i, s->size), source = weft__modulo(s->rank - i, s->size);
        weft__span theirs = share_of(s, op, source);
        if (!rooted || target == op->root)
            weft__add_send(s, target, 1, to, mine.length, x.reduced, WEFT__NO_STEP);
        if (!writes) continue;
        /* In place the sender's part of the operand was here, on its way to it. */
        weft__add_recv(s, source, 1, weft__at(s, WEFT__OUT, theirs.start), theirs.length,
                       x.first_sent + s->size - 1 - i, WEFT__NO_STEP);
    }
}
