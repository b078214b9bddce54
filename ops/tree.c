/* tree.c - binomial trees over what is counted from the root: broadcast, reduce, gather, scatter of small sizes,
 * and gather and scatter of middle ones among many hosts.
 *
 * The subtree of node v is the run of nodes from v on that is as long as v's lowest bit; its children stand
 * at distances 1, 2, 4, ... below that.  A reduction has the lower run, counted from the root, at the left.
 *
 * Where members are on several hosts there is a tree of hosts, between one member of each, and a tree within each
 * host, so that data come to a host once, or leave it once.
 *
 * Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication Operations in
 * MPICH" (2005). */
#include "algorithms.h"

/* Nodes in the subtree of node v of so many. */
static int run_of(int v, int size)
{
    int lowest = v & -v, rest = size - v;
    return v > 0 && lowest < rest ? lowest : rest;
}

/* ---- the tree ---- */

/* The member of a host that is in the tree of hosts. */
static int head_of(const weft__schedule *s, int host)
{
    return host == weft__host_at(s, s->root) ? s->root : weft__first_of_host(s, host);
}

/* The seat that many behind the head of a host, and round to it. */
static int seat_behind(const weft__schedule *s, int host, int distance)
{
    int first = weft__first_of_host(s, host), n = weft__members_of_host(s, host);
    return first + weft__modulo(head_of(s, host) - first + distance, n);
}

static int number_in_host(const weft__schedule *s, int seat)
{
    int host = weft__host_at(s, seat);
    return weft__modulo(seat - head_of(s, host), weft__members_of_host(s, host));
}

static int number_of_host(const weft__schedule *s, int host)
{
    return weft__modulo(host - weft__host_at(s, s->root), weft__hosts(s));
}

static int head_of_number(const weft__schedule *s, int number)
{
    return head_of(s, weft__modulo(number + weft__host_at(s, s->root), weft__hosts(s)));
}

/* A seat; the root has none: -1. */
static int parent_of(const weft__schedule *s, int seat)
{
    int host = weft__host_at(s, seat), v = number_in_host(s, seat), h = number_of_host(s, host);
    if (v) return seat_behind(s, host, v - (v & -v));
    return h ? head_of_number(s, h - (h & -h)) : -1;
}

typedef struct children {
    int seats[2 *
              (WEFT__ROUNDS_MOST + 1)]; /* the nearest first, and those on other hosts behind the others */
    int n;
} children;

static children children_of(const weft__schedule *s)
{
    int host = weft__host_at(s, s->seat), v = number_in_host(s, s->seat), h = number_of_host(s, host);
    int run = run_of(v, weft__members_of_host(s, host)), hosts = v ? 0 : run_of(h, weft__hosts(s));
    children c = {.n = 0};
    for (int64_t distance = 1; distance < run; distance *= 2)
        c.seats[c.n++] = seat_behind(s, host, v + (int)distance);
    for (int64_t distance = 1; distance < hosts; distance *= 2)
        c.seats[c.n++] = head_of_number(s, h + (int)distance);
    return c;
}

/* ---- the same data for all, or of all ---- */

static void hand_down(weft__schedule *s, size_t count)
{
    int parent = parent_of(s, s->seat), got = WEFT__NO_STEP;
    children c = children_of(s);
    weft__place data = weft__at(s, parent < 0 ? WEFT__IN : WEFT__OUT, 0);
    if (parent >= 0) got = weft__add_recv(s, parent, 0, data, count, WEFT__NO_STEP, WEFT__NO_STEP);
    while (c.n > 0) weft__add_send(s, c.seats[--c.n], 0, data, count, got, WEFT__NO_STEP);
}

/* In a broadcast that repeats every rank hears from the one before it, data or a token, what that one has begun.  Then
 * some two neighbours differ if not all are alike, and one of them sees it, though perhaps when others are
 * done.  Neighbours are those by rank, from whom a group awaits its tokens (runtime/core/deferred_agree.h). */
static void tell_next(weft__schedule *s)
{
    int next = weft__seat_of(s, weft__modulo(s->rank + 1, s->size));
    int before = weft__seat_of(s, weft__modulo(s->rank - 1, s->size));
    bool to_next = parent_of(s, next) == s->seat, from_last = parent_of(s, s->seat) == before;
    weft__add_token(s, to_next ? -1 : next, from_last ? -1 : before, 0);
}

void weft__build_tree_broadcast(weft__schedule *s, const weft__op *op)
{
    if (op->repeats) {
        hand_down(s, op->count);
        tell_next(s);
    } else if (weft__hosts(s) > 1) {
        hand_down(s, op->count);
        weft__add_agreement(s);
    } else {
        weft__build_first_broadcast(s, op);
    }
}

void weft__build_tree_reduce(weft__schedule *s, const weft__op *op)
{
    int parent = parent_of(s, s->seat);
    children c = children_of(s);
    weft__operand own = weft__own_operand(s, op, op->count);
    for (int i = 0; i < c.n; i++) {
        weft__place other = weft__add_tmp(s, op->count), to = parent < 0 ? weft__at(s, WEFT__OUT, 0) : other;
        bool last = parent < 0 && i == c.n - 1;
        int got = weft__add_recv(s, c.seats[i], 0, other, op->count, WEFT__NO_STEP, WEFT__NO_STEP);
        own.ready = weft__add_reduce(s, own.place, other, to, op->count, last ? weft__last_scale(s, op) : 1,
                                     got, own.ready);
        own.place = to;
    }
    if (parent >= 0) weft__add_send(s, parent, 0, own.place, op->count, own.ready, WEFT__NO_STEP);
    weft__add_agreement(s);
}

/* ---- runs of blocks ----
 *
 * Positions are seats in the order of the tree: host by host from the root's on, each with its head first.  So a
 * subtree is a run of positions, and its blocks travel side by side in that order. */

typedef struct run {
    int first, n; /* positions */
} run;

/* Seats of the first hosts, so many of them, counted from the root's. */
static int seats_of_hosts(const weft__schedule *s, int hosts)
{
    int root = weft__host_at(s, s->root), end = root + hosts - weft__hosts(s);
    int before = weft__first_of_host(s, root);
    if (end <= 0) return weft__first_of_host(s, root + hosts) - before;
    return s->size - before + weft__first_of_host(s, end);
}

static int rank_at_position(const weft__schedule *s, int position)
{
    int from = weft__first_of_host(s, weft__host_at(s, s->root));
    int seat = weft__modulo(from + position, s->size), host = weft__host_at(s, seat);
    return weft__rank_at(s, seat_behind(s, host, seat - weft__first_of_host(s, host)));
}

static run subtree_of(const weft__schedule *s, int seat)
{
    int host = weft__host_at(s, seat), v = number_in_host(s, seat), h = number_of_host(s, host);
    int before = seats_of_hosts(s, h);
    if (v) return (run){before + v, run_of(v, weft__members_of_host(s, host))};
    return (run){before, seats_of_hosts(s, h + run_of(h, weft__hosts(s))) - before};
}

/* Positions from `first` on, up to `end` at most, whose ranks' blocks lie one behind the other. */
static int side_by_side(const weft__schedule *s, int first, int end)
{
    int rank = rank_at_position(s, first), n = 1;
    while (first + n < end && rank_at_position(s, first + n) == rank + n) n++;
    return n;
}

/* Between a buffer of blocks by rank and a place where those of a run lie in the order of positions: a copy for
 * what is side by side in both.  The last one stands for all before it. */
static int copy_run(weft__schedule *s, run r, size_t count, weft__area blocks, weft__place ordered,
                    int before)
{
    int last = WEFT__NO_STEP, end = r.first + r.n;
    for (int at = r.first, n; at < end; at += n) {
        weft__place by_rank = weft__at(s, blocks, (size_t)rank_at_position(s, at) * count);
        weft__place in_order = weft__plus(s, ordered, (size_t)(at - r.first) * count);
        n = side_by_side(s, at, end);
        last = weft__add_copy(s, blocks == WEFT__IN ? by_rank : in_order,
                              blocks == WEFT__IN ? in_order : by_rank, (size_t)n * count, 1, before, last);
    }
    return last;
}

static void gather_at_root(weft__schedule *s, const weft__op *op)
{
    children c = children_of(s);
    size_t count = op->count;
    weft__add_copy(s, weft__at(s, WEFT__IN, 0), weft__at(s, WEFT__OUT, (size_t)s->rank * count), count, 1,
                   WEFT__NO_STEP, WEFT__NO_STEP);
    while (c.n > 0) {
        int child = c.seats[--c.n], got;
        run r = subtree_of(s, child);
        bool apart = side_by_side(s, r.first, r.first + r.n) < r.n;
        size_t all = (size_t)r.n * count;
        weft__place to = apart ? weft__add_tmp(s, all)
                               : weft__at(s, WEFT__OUT, (size_t)rank_at_position(s, r.first) * count);
        got = weft__add_recv(s, child, 0, to, all, WEFT__NO_STEP, WEFT__NO_STEP);
        if (apart) copy_run(s, r, count, WEFT__OUT, to, got);
    }
}

static void gather_below(weft__schedule *s, const weft__op *op)
{
    run own = subtree_of(s, s->seat);
    size_t count = op->count, all = (size_t)own.n * count;
    children c = children_of(s);
    weft__place blocks = weft__at(s, WEFT__IN, 0);
    int copied = WEFT__NO_STEP, first = s->n, sent;
    if (own.n > 1) {
        blocks = weft__add_tmp(s, all);
        copied = weft__add_copy(s, weft__at(s, WEFT__IN, 0), blocks, count, 1, WEFT__NO_STEP, WEFT__NO_STEP);
        first = s->n;
    }
    while (c.n > 0) {
        run r = subtree_of(s, c.seats[--c.n]);
        weft__add_recv(s, c.seats[c.n], 0, weft__plus(s, blocks, (size_t)(r.first - own.first) * count),
                       (size_t)r.n * count, WEFT__NO_STEP, WEFT__NO_STEP);
    }
    sent = weft__add_send(s, parent_of(s, s->seat), 0, blocks, all, copied, WEFT__NO_STEP);
    for (int step = first; step < sent; step++) weft__add_order(s, step, sent);
}

void weft__build_tree_gather(weft__schedule *s, const weft__op *op)
{
    if (s->seat == s->root)
        gather_at_root(s, op);
    else
        gather_below(s, op);
    weft__add_agreement(s);
}

static void scatter_at_root(weft__schedule *s, const weft__op *op)
{
    children c = children_of(s);
    size_t count = op->count;
    while (c.n > 0) {
        int child = c.seats[--c.n], packed = WEFT__NO_STEP;
        run r = subtree_of(s, child);
        weft__place from = weft__at(s, WEFT__IN, (size_t)rank_at_position(s, r.first) * count);
        if (side_by_side(s, r.first, r.first + r.n) < r.n) {
            from = weft__add_tmp(s, (size_t)r.n * count);
            packed = copy_run(s, r, count, WEFT__IN, from, WEFT__NO_STEP);
        }
        weft__add_send(s, child, 0, from, (size_t)r.n * count, packed, WEFT__NO_STEP);
    }
    weft__add_copy(s, weft__at(s, WEFT__IN, (size_t)s->rank * count), weft__at(s, WEFT__OUT, 0), count, 1,
                   WEFT__NO_STEP, WEFT__NO_STEP);
}

static void scatter_below(weft__schedule *s, const weft__op *op)
{
    run own = subtree_of(s, s->seat);
    size_t count = op->count, all = (size_t)own.n * count;
    children c = children_of(s);
    weft__place blocks = own.n > 1 ? weft__add_tmp(s, all) : weft__at(s, WEFT__OUT, 0);
    int got = weft__add_recv(s, parent_of(s, s->seat), 0, blocks, all, WEFT__NO_STEP, WEFT__NO_STEP);
    while (c.n > 0) {
        run r = subtree_of(s, c.seats[--c.n]);
        weft__add_send(s, c.seats[c.n], 0, weft__plus(s, blocks, (size_t)(r.first - own.first) * count),
                       (size_t)r.n * count, got, WEFT__NO_STEP);
    }
    if (own.n > 1) weft__add_copy(s, blocks, weft__at(s, WEFT__OUT, 0), count, 1, got, WEFT__NO_STEP);
}

void weft__build_tree_scatter(weft__schedule *s, const weft__op *op)
{
    if (s->seat == s->root)
        scatter_at_root(s, op);
    else
        scatter_below(s, op);
    weft__add_agreement(s);
}
