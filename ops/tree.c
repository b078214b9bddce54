/* tree.c - binomial trees over the ranks counted from the root: broadcast, reduce, gather, scatter of small
 * sizes.
 *
 * The subtree of node v is the run of nodes from v on that is as long as v's lowest bit; its children stand
 * at distances 1, 2, 4, ... below that.  A reduction has the lower run, counted from the root, at the left.
 *
 * Where members are on several hosts, broadcast and reduce have a tree of hosts, between one member of each, and
 * a tree within each host, so that data come to a host once.
 *
 * Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication Operations in
 * MPICH" (2005). */
#include "algorithms.h"

typedef struct node {
    int number; /* counted from the root */
    int parent; /* rank; of the root, no meaning */
    int run;    /* nodes in its subtree */
} node;

/* Nodes in the subtree of node v of so many. */
static int run_of(int v, int size)
{
    int lowest = v & -v, rest = size - v;
    return v > 0 && lowest < rest ? lowest : rest;
}

static node node_of(const weft__schedule *s, int root)
{
    int v = weft__modulo(s->rank - root, s->size);
    return (node){v, weft__modulo(v - (v & -v) + root, s->size), run_of(v, s->size)};
}

static int child_rank(const weft__schedule *s, int distance)
{
    return weft__modulo(s->rank + distance, s->size);
}

/* Nodes in the subtree of the child at this distance. */
static int child_run(node n, int distance)
{
    return distance < n.run - distance ? distance : n.run - distance;
}

/* The distance of the farthest child; 0: none. */
static int farthest(node n)
{
    int distance = 1;
    if (n.run < 2) return 0;
    while (distance < n.run - distance) distance *= 2;
    return distance;
}

/* ---- the same data for all, or of all: a tree of hosts, and one in each ---- */

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

/* ---- runs of blocks: nodes count from the root, buffers from rank 0, so one run may wrap around ---- */

/* Blocks that lie before the end of the buffer: the rest of the run is at its beginning. */
static int before_wrap(const weft__schedule *s, int first, int run)
{
    return run < s->size - first ? run : s->size - first;
}

static void gather_at_root(weft__schedule *s, const weft__op *op, node n)
{
    size_t count = op->count;
    weft__add_copy(s, weft__at(s, WEFT__IN, 0), weft__at(s, WEFT__OUT, (size_t)s->rank * count), count, 1,
                   WEFT__NO_STEP, WEFT__NO_STEP);
    for (int distance = farthest(n); distance > 0; distance /= 2) {
        int child = child_rank(s, distance), run = child_run(n, distance), got;
        int front = before_wrap(s, child, run);
        weft__place block = weft__at(s, WEFT__OUT, (size_t)child * count);
        weft__place to = front == run ? block : weft__add_tmp(s, (size_t)run * count);
        got = weft__add_recv(s, child, 0, to, (size_t)run * count, WEFT__NO_STEP, WEFT__NO_STEP);
        if (front == run) continue;
        weft__add_copy(s, to, block, (size_t)front * count, 1, got, WEFT__NO_STEP);
        weft__add_copy(s, weft__plus(s, to, (size_t)front * count), weft__at(s, WEFT__OUT, 0),
                       (size_t)(run - front) * count, 1, got, WEFT__NO_STEP);
    }
}

static void gather_below(weft__schedule *s, const weft__op *op, node n)
{
    size_t count = op->count, all = (size_t)n.run * count;
    weft__place run = weft__at(s, WEFT__IN, 0);
    int own = WEFT__NO_STEP, first = s->n;
    if (n.run > 1) {
        run = weft__add_tmp(s, all);
        own = weft__add_copy(s, weft__at(s, WEFT__IN, 0), run, count, 1, WEFT__NO_STEP, WEFT__NO_STEP);
        first = s->n;
    }
    for (int distance = farthest(n); distance > 0; distance /= 2)
        weft__add_recv(s, child_rank(s, distance), 0, weft__plus(s, run, (size_t)distance * count),
                       (size_t)child_run(n, distance) * count, WEFT__NO_STEP, WEFT__NO_STEP);
    int sent = weft__add_send(s, n.parent, 0, run, all, own, WEFT__NO_STEP);
    for (int step = first; step < sent; step++) weft__add_order(s, step, sent);
}

void weft__build_tree_gather(weft__schedule *s, const weft__op *op)
{
    weft__count_in_ranks(s, op);
    node n = node_of(s, op->root);
    if (n.number)
        gather_below(s, op, n);
    else
        gather_at_root(s, op, n);
    weft__add_agreement(s);
}

static void scatter_at_root(weft__schedule *s, const weft__op *op, node n)
{
    size_t count = op->count;
    for (int distance = farthest(n); distance > 0; distance /= 2) {
        int child = child_rank(s, distance), run = child_run(n, distance);
        int front = before_wrap(s, child, run), packed1 = WEFT__NO_STEP, packed2 = WEFT__NO_STEP;
        weft__place from = weft__at(s, WEFT__IN, (size_t)child * count);
        if (front < run) {
            weft__place block = from;
            from = weft__add_tmp(s, (size_t)run * count);
            packed1 = weft__add_copy(s, block, from, (size_t)front * count, 1, WEFT__NO_STEP, WEFT__NO_STEP);
            packed2 = weft__add_copy(s, weft__at(s, WEFT__IN, 0), weft__plus(s, from, (size_t)front * count),
                                     (size_t)(run - front) * count, 1, WEFT__NO_STEP, WEFT__NO_STEP);
        }
        weft__add_send(s, child, 0, from, (size_t)run * count, packed1, packed2);
    }
    weft__add_copy(s, weft__at(s, WEFT__IN, (size_t)s->rank * count), weft__at(s, WEFT__OUT, 0), count, 1,
                   WEFT__NO_STEP, WEFT__NO_STEP);
}

static void scatter_below(weft__schedule *s, const weft__op *op, node n)
{
    size_t count = op->count, all = (size_t)n.run * count;
    weft__place run = n.run > 1 ? weft__add_tmp(s, all) : weft__at(s, WEFT__OUT, 0);
    int got = weft__add_recv(s, n.parent, 0, run, all, WEFT__NO_STEP, WEFT__NO_STEP);
    for (int distance = farthest(n); distance > 0; distance /= 2)
        weft__add_send(s, child_rank(s, distance), 0, weft__plus(s, run, (size_t)distance * count),
                       (size_t)child_run(n, distance) * count, got, WEFT__NO_STEP);
    if (n.run > 1) weft__add_copy(s, run, weft__at(s, WEFT__OUT, 0), count, 1, got, WEFT__NO_STEP);
}

void weft__build_tree_scatter(weft__schedule *s, const weft__op *op)
{
    weft__count_in_ranks(s, op);
    node n = node_of(s, op->root);
    if (n.number)
        scatter_below(s, op, n);
    else
        scatter_at_root(s, op, n);
    weft__add_agreement(s);
}
