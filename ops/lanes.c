/* lanes.c - over several hosts: what leaves a host has been put together there, leaves it once, over the links of
 * all its members side by side, and is handed round where it arrives.
 *
 * all_reduce: the members of a host each reduce a part of the host's operands.  The same elements' parts of all
 * hosts are a lane: along it hosts exchange, each reduces a share, and all get the shares of the others.  Then
 * members hand their parts round within the host.  Hosts need not have equally many members: a lane ends wherever
 * a part of any host does.  So a host sends 2 (hosts - 1) / hosts of the buffer, which is the least.
 * all_gather: each block goes to one member of each other host, which hands it on there.  reduce_scatter: the
 * same ways back, with what a host has for a block reduced before it leaves.
 *
 * Source: J. L. Traeff, S. Hunold, "Decomposing MPI Collectives for Exploiting Multi-lane Communication" (2020);
 * what goes between hosts, and within one, is the exchange of pairwise.c. */
#include "algorithms.h"
#include "check.h"

#include <stdlib.h>

/* A longer buffer is cut into pieces.  For each the hosts ask and grant twice, and what answers is a thread that a
 * computing program may keep from its processor for milliseconds: so many pieces are under way that the link has
 * others to carry meanwhile.  They take half as much memory where two ranks on two hosts exchange, as much among more
 * hosts, and up to twice as much where hosts have several members.  There no link carries anything while the first piece is
 * reduced within hosts, nor while the last one is handed round, so pieces are smaller. */
#define SHARE_BYTES     1048576 /* of a piece, for each rank: so much pays for asking; */
#define SHARE_LEAST     131072  /* and where hosts have several members */
#define PIECE_MOST      4194304
#define PIECES_MOST     256
#define UNDER_WAY_BYTES 16777216
#define ROOMS_MOST      16

#define STRIPE_BYTES 262144 /* a block of fewer bytes is handed on as a whole */
#define STRIPES_MOST 4

typedef struct home {
    int number, first, members, own; /* own: this rank's number in it */
} home;

static home own_home(const weft__schedule *s)
{
    int number = weft__host_at(s, s->seat), first = weft__first_of_host(s, number);
    return (home){number, first, weft__members_of_host(s, number), s->seat - first};
}

/* ---- all_reduce ---- */

/* TMP of a piece, which a later one uses again. */
typedef struct workspace {
    weft__place operands; /* a row for each member of the host, of its part */
    weft__place partial;  /* the part, reduced over the host's members, if there are several */
    weft__place shares;   /* rows of this host's shares of the lanes, as many as rows_of says */
    int unused;           /* the step after which nobody uses it */
} workspace;

typedef struct piece {
    weft__schedule *s;
    const weft__op *op;
    home here;
    weft__operand own;
    size_t start, count; /* in the buffer */
    weft__span part;     /* this rank's, in the piece */
    uint32_t tag;        /* the first of this piece's */
    workspace *room;
    int free;            /* the step after which the room is */
    weft__place partial; /* of the part */
    int reduced;         /* the step after which it stands there */
    size_t used;         /* of the shares' rows, in elements */
    int *after;          /* what the end of this piece waits for */
    int after_n;
} piece;

enum { PARTS_TAG, WHOLE_TAG, LANE_TAGS };

static void finishes(piece *p, int step)
{
    p->after[p->after_n++] = step;
}

/* Where elements of the piece lie in OUT. */
static weft__place out_at(const piece *p, size_t element)
{
    return weft__at(p->s, WEFT__OUT, p->start + element);
}

int weft__lane_member(size_t count, int members, size_t element)
{
    size_t each, more, longer;
    WEFT__ASSERT(members > 0, members);
    each = count / (size_t)members;
    more = count % (size_t)members;
    longer = more * (each + 1);
    return (int)(element < longer ? element / (each + 1) : more + (element - longer) / each);
}

size_t weft__lane_end(const weft__schedule *s, size_t count, size_t start)
{
    size_t end = count;
    for (int h = 0; h < weft__hosts(s); h++) {
        int members = weft__members_of_host(s, h);
        weft__span part = weft__share(count, members, weft__lane_member(count, members, start));
        if (part.start + part.length < end) end = part.start + part.length;
    }
    return end;
}

/* Every member sends the others their parts of its operand, and reduces its own of all.  Returns the first of
 * the sends, which go to the other members in turn. */
static int reduce_in_host(piece *p)
{
    weft__schedule *s = p->s;
    bool one_host = weft__hosts(s) == 1;
    int first_sent = s->n, first_row;
    p->partial = one_host ? out_at(p, p->part.start) : p->room->partial;
    if (p->here.members == 1) {
        p->partial = weft__plus(s, p->own.place, p->start);
        p->reduced = p->own.ready;
        return WEFT__NO_STEP;
    }
    for (int i = 1; i < p->here.members; i++) {
        int member = weft__modulo(p->here.own + i, p->here.members);
        weft__span theirs = weft__share(p->count, p->here.members, member);
        weft__add_send(s, p->here.first + member, p->tag + PARTS_TAG,
                       weft__plus(s, p->own.place, p->start + theirs.start), theirs.length, p->own.ready,
                       WEFT__NO_STEP);
    }
    first_row = s->n;
    for (int member = 0; member < p->here.members; member++) {
        weft__place row = weft__plus(s, p->room->operands, (size_t)member * p->part.length);
        if (member == p->here.own)
            weft__add_copy(s, weft__plus(s, p->own.place, p->start + p->part.start), row, p->part.length, 1,
                           p->own.ready, p->free);
        else
            weft__add_recv(s, p->here.first + member, p->tag + PARTS_TAG, row, p->part.length, p->free,
                           WEFT__NO_STEP);
    }
    p->reduced = weft__add_fold(s, p->room->operands, p->here.members, p->partial, p->part.length,
                                one_host ? weft__last_scale(s, p->op) : 1);
    for (int member = 0; member < p->here.members; member++)
        weft__add_order(s, first_row + member, p->reduced);
    return first_sent;
}

/* The rank of that host which has this lane in its part. */
static int lane_peer(const piece *p, weft__span lane, int host)
{
    int members = weft__members_of_host(p->s, host);
    return weft__first_of_host(p->s, host) + weft__lane_member(p->count, members, lane.start);
}

/* Rows of a share: of each host, or of the other one, whose share is reduced with this one's where it lies. */
static int rows_of(const weft__schedule *s)
{
    return weft__hosts(s) == 2 ? 1 : weft__hosts(s);
}

/* This host's share of a lane comes from all, and is reduced to OUT.  own: where this host has it. */
static int reduce_share(piece *p, weft__span lane, weft__span share, weft__place own, uint32_t tag)
{
    weft__schedule *s = p->s;
    int hosts = weft__hosts(s), first_row = s->n, here = p->here.number, folded;
    weft__place rows = weft__plus(s, p->room->shares, p->used), to = out_at(p, lane.start + share.start);
    p->used += share.length * (size_t)rows_of(s);
    if (hosts == 2) {
        int got =
            weft__add_recv(s, lane_peer(p, lane, !here), tag, rows, share.length, p->free, WEFT__NO_STEP);
        return weft__add_reduce(s, here ? rows : own, here ? own : rows, to, share.length,
                                weft__last_scale(s, p->op), got, p->reduced);
    }
    for (int h = 0; h < hosts; h++) {
        weft__place row = weft__plus(s, rows, (size_t)h * share.length);
        if (h == here)
            weft__add_copy(s, own, row, share.length, 1, p->reduced, p->free);
        else
            weft__add_recv(s, lane_peer(p, lane, h), tag, row, share.length, p->free, WEFT__NO_STEP);
    }
    folded = weft__add_fold(s, rows, hosts, to, share.length, weft__last_scale(s, p->op));
    for (int h = 0; h < hosts; h++) weft__add_order(s, first_row + h, folded);
    return folded;
}

/* One lane: hosts send each other their shares of it, reduce their own, and send that to all. */
static void exchange_lane(piece *p, weft__span lane, uint32_t tag)
{
    weft__schedule *s = p->s;
    int hosts = weft__hosts(s), folded;
    weft__span own_share = weft__share(lane.length, hosts, p->here.number);
    weft__place partial = weft__plus(s, p->partial, lane.start - p->part.start);
    weft__place mine = out_at(p, lane.start + own_share.start);
    folded = reduce_share(p, lane, own_share, weft__plus(s, partial, own_share.start), tag);
    finishes(p, folded);
    for (int i = 1; i < hosts; i++) {
        int h = weft__modulo(p->here.number + i, hosts), peer = lane_peer(p, lane, h);
        weft__span theirs = weft__share(lane.length, hosts, h);
        int sent = weft__add_send(s, peer, tag, weft__plus(s, partial, theirs.start), theirs.length,
                                  p->reduced, WEFT__NO_STEP);
        weft__add_send(s, peer, tag + 1, mine, own_share.length, folded, WEFT__NO_STEP);
        /* In place the operand was here until it was reduced or, of a host's only member, sent. */
        finishes(p, weft__add_recv(s, peer, tag + 1, out_at(p, lane.start + theirs.start), theirs.length,
                                   p->reduced, sent));
    }
}

/* All of the part stands in OUT: every member sends its own to the others. */
static void share_in_host(piece *p, int first_sent)
{
    weft__schedule *s = p->s;
    for (int i = 1; i < p->here.members; i++) {
        int member = weft__modulo(p->here.own + i, p->here.members);
        weft__span theirs = weft__share(p->count, p->here.members, member);
        weft__add_send(s, p->here.first + member, p->tag + WHOLE_TAG, out_at(p, p->part.start),
                       p->part.length, p->room->unused, WEFT__NO_STEP);
        /* In place that member's part of the operand was here, on its way to it. */
        weft__add_recv(s, p->here.first + member, p->tag + WHOLE_TAG, out_at(p, theirs.start), theirs.length,
                       first_sent + i - 1, WEFT__NO_STEP);
    }
}

static void add_piece(piece *p)
{
    weft__schedule *s = p->s;
    uint32_t tag = p->tag + LANE_TAGS;
    int first_sent = reduce_in_host(p);
    p->after_n = 0;
    finishes(p, p->reduced);
    for (size_t at = 0, end; weft__hosts(s) > 1 && at < p->count; at = end, tag += 2) {
        end = weft__lane_end(s, p->count, at);
        if (at >= p->part.start && at < p->part.start + p->part.length)
            exchange_lane(p, (weft__span){at, end - at}, tag);
    }
    /* One step that stands for the end of all of them. */
    p->room->unused = weft__add_copy(s, weft__at(s, WEFT__TMP, 0), weft__at(s, WEFT__TMP, 0), 0, 1,
                                     WEFT__NO_STEP, WEFT__NO_STEP);
    weft__add_orders(s, p->after, p->after_n, p->room->unused);
    share_in_host(p, first_sent);
}

/* A lane begins where some member's part does. */
static int lanes_most(const weft__schedule *s)
{
    return s->size;
}

static void make_room(const piece *p, workspace *room)
{
    weft__schedule *s = p->s;
    size_t hosts = (size_t)weft__hosts(s);
    room->operands = weft__add_tmp(s, p->here.members > 1 ? p->part.length * (size_t)p->here.members : 0);
    room->partial = weft__add_tmp(s, p->here.members > 1 && hosts > 1 ? p->part.length : 0);
    /* A share of a lane may be one longer than the others. */
    room->shares =
        weft__add_tmp(s, hosts > 1 ? (p->part.length / hosts + 1 + (size_t)lanes_most(s)) * (size_t)rows_of(s)
                                   : 0);
    room->unused = WEFT__NO_STEP;
}

static size_t piece_bytes(const weft__schedule *s)
{
    size_t ranks = (size_t)s->size, share = s->size > weft__hosts(s) ? SHARE_LEAST : SHARE_BYTES;
    return weft__hosts(s) == 1 || ranks > PIECE_MOST / share ? PIECE_MOST : ranks * share;
}

static int pieces_of(const weft__schedule *s, const weft__op *op)
{
    size_t pieces = op->count * s->element / piece_bytes(s) + 1;
    return pieces > PIECES_MOST ? PIECES_MOST : (int)pieces;
}

/* Within a host nothing is waited for so long. */
static int rooms_of(const weft__schedule *s, size_t longest)
{
    size_t rooms = UNDER_WAY_BYTES / (longest * s->element);
    if (weft__hosts(s) == 1 || rooms < 2) return 2;
    return rooms > ROOMS_MOST ? ROOMS_MOST : (int)rooms;
}

void weft__build_lanes_all_reduce(weft__schedule *s, const weft__op *op)
{
    int pieces = pieces_of(s, op), room_count, *after;
    workspace rooms[ROOMS_MOST];
    piece p = {.s = s, .op = op, .here = own_home(s)};
    /* So few that a lane would be empty, and its ranks would hear from nobody: whole operands are exchanged. */
    if (op->count < (size_t)s->size) {
        weft__build_doubling_all_reduce(s, op);
        return;
    }
    room_count = rooms_of(s, weft__share(op->count, pieces, 0).length);
    p.own = weft__own_operand(s, op, op->count);
    p.after = after = malloc(sizeof *after * 2 * (size_t)weft__hosts(s) * (size_t)(lanes_most(s) + 1));
    if (!after) s->failed = true;
    for (int i = 0; i < pieces && !s->failed; i++) {
        weft__span span = weft__share(op->count, pieces, i);
        p.start = span.start;
        p.count = span.length;
        p.part = weft__share(p.count, p.here.members, p.here.own);
        p.tag = (uint32_t)i * (uint32_t)(LANE_TAGS + 2 * lanes_most(s));
        p.room = &rooms[i % room_count];
        if (i < room_count) make_room(&p, p.room); /* no later piece is longer */
        p.free = p.room->unused;
        p.used = 0;
        add_piece(&p);
    }
    free(after);
}

/* ---- blocks of ranks ---- */

/* The member of a host through whom a block of another host's rank goes, given that rank's number on its own. */
static int carrier_on(const weft__schedule *s, int host, int number)
{
    int members = weft__members_of_host(s, host);
    WEFT__ASSERT(members > 0, members);
    return weft__first_of_host(s, host) + number % members;
}

static int number_at(const weft__schedule *s, int seat)
{
    return seat - weft__first_of_host(s, weft__host_at(s, seat));
}

/* A part of each block, so that one is handed on while the next one comes. */
typedef struct stripe {
    int number, of;
} stripe;

static uint32_t stripe_tag(const weft__schedule *s, stripe t, int seat)
{
    return (uint32_t)(t.number * s->size + seat);
}

static weft__span striped(weft__span block, stripe t)
{
    weft__span part = weft__share(block.length, t.of, t.number);
    return (weft__span){block.start + part.start, part.length};
}

static int stripes_of(const weft__schedule *s, size_t longest)
{
    size_t stripes = longest * s->element / STRIPE_BYTES;
    return stripes < 1 ? 1 : stripes > STRIPES_MOST ? STRIPES_MOST : (int)stripes;
}

/* To this host's other members. */
static void hand_round(weft__schedule *s, home here, uint32_t tag, weft__place data, size_t count, int ready)
{
    for (int i = 1; i < here.members; i++)
        weft__add_send(s, here.first + weft__modulo(here.own + i, here.members), tag, data, count, ready,
                       WEFT__NO_STEP);
}

static void gather_stripe(weft__schedule *s, const weft__op *op, home here, stripe t)
{
    weft__span own_block = weft__op_out_block(op, s->rank), own = striped(own_block, t);
    weft__place from = weft__at(s, WEFT__IN, own.start - own_block.start);
    uint32_t tag = stripe_tag(s, t, s->seat);
    int hosts = weft__hosts(s);
    for (int i = 1; i < hosts; i++)
        weft__add_send(s, carrier_on(s, weft__modulo(here.number + i, hosts), here.own), tag, from,
                       own.length, WEFT__NO_STEP, WEFT__NO_STEP);
    hand_round(s, here, tag, from, own.length, WEFT__NO_STEP);
    for (int seat = 0; seat < s->size; seat++) {
        weft__span block = striped(weft__op_out_block(op, weft__rank_at(s, seat)), t);
        weft__place to = weft__at(s, WEFT__OUT, block.start);
        bool foreign = weft__host_at(s, seat) != here.number;
        int carrier = foreign ? carrier_on(s, here.number, number_at(s, seat)) : seat;
        int got;
        if (seat == s->seat) continue;
        tag = stripe_tag(s, t, seat);
        got = weft__add_recv(s, carrier == s->seat ? seat : carrier, tag, to, block.length, WEFT__NO_STEP,
                             WEFT__NO_STEP);
        if (carrier == s->seat) hand_round(s, here, tag, to, block.length, got);
    }
}

void weft__build_lanes_all_gather(weft__schedule *s, const weft__op *op)
{
    home here = own_home(s);
    weft__span own = weft__op_out_block(op, s->rank);
    size_t longest = 0;
    stripe t = {.number = 0};
    for (int r = 0; r < s->size; r++)
        if (weft__op_out_block(op, r).length > longest) longest = weft__op_out_block(op, r).length;
    weft__add_copy(s, weft__at(s, WEFT__IN, 0), weft__at(s, WEFT__OUT, own.start), own.length, 1,
                   WEFT__NO_STEP, WEFT__NO_STEP);
    for (t.of = stripes_of(s, longest); t.number < t.of; t.number++) gather_stripe(s, op, here, t);
}

typedef struct scattering {
    weft__schedule *s;
    const weft__op *op;
    home here;
    weft__operand own;
} scattering;

/* A row of the operand's block from each member of this host, into `rows`: this rank reduces them. */
static void rows_of_host(const scattering *g, uint32_t tag, weft__span block, weft__place rows)
{
    weft__schedule *s = g->s;
    for (int member = 0; member < g->here.members; member++) {
        weft__place row = weft__plus(s, rows, (size_t)member * block.length);
        if (member == g->here.own)
            weft__add_copy(s, weft__plus(s, g->own.place, block.start), row, block.length, 1, g->own.ready,
                           WEFT__NO_STEP);
        else
            weft__add_recv(s, g->here.first + member, tag, row, block.length, WEFT__NO_STEP, WEFT__NO_STEP);
    }
}

/* This host's part of the reduction of a block that goes to another one: from the carrier. */
static void carry_block(const scattering *g, int seat, weft__span block)
{
    weft__schedule *s = g->s;
    weft__place rows = weft__plus(s, g->own.place, block.start), sum = rows;
    int ready = g->own.ready, first;
    if (g->here.members > 1) {
        rows = weft__add_tmp(s, block.length * (size_t)g->here.members);
        sum = weft__add_tmp(s, block.length);
        first = s->n;
        rows_of_host(g, (uint32_t)seat, block, rows);
        ready = weft__add_fold(s, rows, g->here.members, sum, block.length, 1);
        for (int step = first; step < ready; step++) weft__add_order(s, step, ready);
    }
    weft__add_send(s, seat, (uint32_t)seat, sum, block.length, ready, WEFT__NO_STEP);
}

/* This rank's block: of each other host its sum, of this one the members' operands. */
static void reduce_own_block(const scattering *g)
{
    weft__schedule *s = g->s;
    weft__span block = weft__op_in_block(g->op, s->rank);
    int hosts = weft__hosts(s), n = 0, first, reduced;
    weft__place rows = weft__add_tmp(s, block.length * (size_t)(g->here.members + hosts - 1));
    first = s->n;
    for (int h = 0; h < hosts; h++) {
        weft__place row = weft__plus(s, rows, (size_t)n * block.length);
        if (h == g->here.number)
            rows_of_host(g, (uint32_t)s->seat, block, row);
        else
            weft__add_recv(s, carrier_on(s, h, g->here.own), (uint32_t)s->seat, row, block.length,
                           WEFT__NO_STEP, WEFT__NO_STEP);
        n += h == g->here.number ? g->here.members : 1;
    }
    reduced = weft__add_fold(s, rows, n, weft__at(s, WEFT__OUT, 0), block.length, weft__last_scale(s, g->op));
    for (int step = first; step < reduced; step++) weft__add_order(s, step, reduced);
}

void weft__build_lanes_reduce_scatter(weft__schedule *s, const weft__op *op)
{
    size_t all = weft__op_in_elements(op, s->rank, s->size);
    scattering g = {s, op, own_home(s), weft__own_operand(s, op, all)};
    for (int i = 1; i < s->size; i++) {
        int seat = weft__modulo(s->seat + i, s->size), host = weft__host_at(s, seat);
        weft__span block = weft__op_in_block(op, weft__rank_at(s, seat));
        int to = host == g.here.number ? seat : carrier_on(s, g.here.number, number_at(s, seat));
        if (to == s->seat)
            carry_block(&g, seat, block);
        else
            weft__add_send(s, to, (uint32_t)seat, weft__plus(s, g.own.place, block.start), block.length,
                           g.own.ready, WEFT__NO_STEP);
    }
    reduce_own_block(&g);
}
