/* schedule.h - collectives among ranks that exchange messages, as data.
 *
 * A schedule is one rank's list of steps with their predecessors.  Builders (ring.c, tree.c, ...) are
 * straight-line code that appends steps; an executor (runtime/host/host_schedule.c, tests/sim) starts a step
 * when all its predecessors are done.  Nothing here waits.  Buffers are named by area and offset, so a
 * schedule can be kept and run again for other buffers: for the same signature, rank, size and selection, the
 * same scale where the reduction is PREMUL_SUM, and either `in == out` both times or neither (all_to_all is
 * built differently in place; every other schedule is right both ways).
 *
 * A builder may rely on this: a SEND may read its place, and a RECV may write its own, at any time from its
 * start until it is done.
 *
 * Blocks.  A schedule whose steps grow with the ranks has megabytes among many, so its builder may say that it can go in
 * blocks (weft__cut).  Then a rank has two blocks of its list at a time, in an array that stays as long as two.  When all of
 * the older one is done, the block after the younger takes its place (weft__schedule_advance): the builder runs again, counts
 * what is not wanted, and appends what is.  So in blocks a step also waits until all that stand before the block before its
 * own are done.  A builder vouches that this makes no circle among ranks, where every message waits for both its sides: there
 * is a moment for each step, which is one for both sides of a message; no step comes after one with a later moment; and of
 * two steps of a rank that are more than a block apart the one before has the earlier moment.  (Then what is not done yet and
 * has the earliest moment waits for nothing but its likes, as in the schedule as a whole.) */
#ifndef WEFT_OPS_SCHEDULE_H
#define WEFT_OPS_SCHEDULE_H
#include "op.h"
#include "seats.h"

#include <stdio.h>

typedef enum weft__step_kind {
    WEFT__STEP_SEND,
    WEFT__STEP_RECV,
    WEFT__STEP_COPY,
    WEFT__STEP_REDUCE,
    WEFT__STEP_FOLD
} weft__step_kind;
typedef enum weft__area { WEFT__IN, WEFT__OUT, WEFT__TMP } weft__area;

typedef struct weft__place {
    weft__area area;
    size_t offset; /* bytes */
} weft__place;

#define WEFT__NO_STEP (-1)

/* Every step moves `count` elements of the operation's type.
 * SEND from `a` to peer, which is a rank; RECV from peer into `out`; the k-th send of a to b with one tag matches the k-th
 * receive from a at b with that tag (the builders here use a tag once for each pair and direction).
 * COPY: out = a, which may be the same place; of rows > 1 each row of count elements, those of `a` and of `out` each so many
 * bytes apart, and not where the others are.  REDUCE: out = a op b, with a left of b; out may be a or b.
 * FOLD: out = row op row op ... from left to right, of `rows` rows of count elements that lie one behind the
 * other from a on; rounds once.  `scale` multiplies what these write (1: nothing).  count 0 is allowed
 * everywhere. */
typedef struct weft__step {
    weft__step_kind kind;
    int peer;
    uint32_t tag;
    int rows; /* FOLD, COPY */
    weft__place a, out;
    union {
        weft__place b; /* REDUCE */
        struct {
            ptrdiff_t a, out;
        } apart; /* COPY of several rows, from where one begins to where the next does */
    };
    size_t count;
    double scale;
    bool token;     /* SEND, RECV: of nothing, and only to see that all mean the same */
    int first_next; /* into schedule->next[]: steps that wait for this one; filled by seal */
    int next_count;
    int waits; /* predecessors; filled by seal */
} weft__step;

/* From where on a schedule that may go in blocks does.  whole: steps, at least two blocks; up to so many it stays whole, as
 * one that is kept and run again is faster than one that is built again.  block: steps of a block, two at least. */
typedef struct weft__cutting {
    int whole, block;
} weft__cutting;
#define WEFT__WHOLE_STEPS 2048
#define WEFT__BLOCK_STEPS 256

typedef struct weft__schedule weft__schedule;
/* An algorithm by messages: appends its steps, each time the same ones. */
typedef void weft__build_fn(weft__schedule *s, const weft__op *op);

struct weft__schedule {
    int rank, size;
    const weft__seats *seats; /* while building, where members are on several hosts; else NULL */
    int seat, root;           /* this rank's; the root's */
    const char *algorithm;    /* "ring", "recursive_doubling", ...: static */
    size_t element;           /* bytes */
    size_t tmp_bytes;         /* of the area TMP that an executor provides, 64-byte aligned */
    weft__step *steps;
    int n, room;     /* steps there are; while building, those appended so far */
    int (*edges)[2]; /* (before, after) pairs while building */
    int edge_count, edge_room;
    int *next;
    bool failed; /* memory ran out while building */

    int total; /* steps of the whole list */
    /* In blocks step i of the list is at i modulo 2 * block in steps[], and has that number for next[] and for who runs it. */
    weft__cutting cutting;
    int block;  /* steps of a block; 0: it is whole, and the rest of this is unused */
    int from;   /* where the older of the two blocks begins in the list */
    int passed; /* up to here, in steps[], the older one is known to be done */
    weft__build_fn *build;
    const weft__seats *members; /* `seats`, for building again */
};

/* Builders count in seats (seats.h): this rank is at s->seat, and peers are named by theirs.  Blocks of buffers
 * are those of ranks.  One that needs both to be the same begins with this: its seats are ranks. */
void weft__count_in_ranks(weft__schedule *s, const weft__op *op);
static inline int weft__rank_at(const weft__schedule *s, int seat)
{
    return s->seats ? s->seats->rank_at[seat] : seat;
}
static inline int weft__seat_of(const weft__schedule *s, int rank)
{
    return s->seats ? s->seats->seat_of[rank] : rank;
}
/* The seats of a host are a run; where there are no seats there is one host. */
static inline int weft__hosts(const weft__schedule *s)
{
    return s->seats ? s->seats->hosts : 1;
}
static inline int weft__host_at(const weft__schedule *s, int seat)
{
    return s->seats ? s->seats->host_at[seat] : 0;
}
static inline int weft__first_of_host(const weft__schedule *s, int host)
{
    return s->seats ? s->seats->first[host] : host ? s->size : 0;
}
static inline int weft__members_of_host(const weft__schedule *s, int host)
{
    return weft__first_of_host(s, host + 1) - weft__first_of_host(s, host);
}

/* Builders append with these; peer is a seat; before1, before2 are step ids or WEFT__NO_STEP. They return the
 * new id. */
int weft__add_send(weft__schedule *s, int peer, uint32_t tag, weft__place from, size_t count, int before1,
                   int before2);
int weft__add_recv(weft__schedule *s, int peer, uint32_t tag, weft__place to, size_t count, int before1,
                   int before2);
int weft__add_copy(weft__schedule *s, weft__place from, weft__place to, size_t count, double scale,
                   int before1, int before2);
/* The first of several rows, and how many elements later the next one begins. */
typedef struct weft__rows {
    weft__place first;
    ptrdiff_t apart;
} weft__rows;
int weft__add_copy_rows(weft__schedule *s, weft__rows from, weft__rows to, int rows, size_t count,
                        int before1, int before2);
int weft__add_reduce(weft__schedule *s, weft__place a, weft__place b, weft__place to, size_t count,
                     double scale, int before1, int before2);
int weft__add_fold(weft__schedule *s, weft__place rows, int n, weft__place to, size_t count, double scale);
void weft__add_order(weft__schedule *s, int before, int after); /* one more predecessor */
/* n more: of several that may be done in any order the last does not stand for all. */
void weft__add_orders(weft__schedule *s, const int *before, int n, int after);
weft__place weft__add_tmp(weft__schedule *s, size_t count); /* room for count elements in TMP */

/* The builder's word, before it appends anything, that its list of `steps` steps or more may go in blocks. */
void weft__cut(weft__schedule *s, int steps);
/* In rounds of `each` steps, before each of which a builder keeps nothing but numbers of steps that it can work out, it need
 * not go through all: from round t of n on, the next of which steps are wanted, or n. What is passed over is counted. */
int weft__pass_rounds(weft__schedule *s, int t, int each, int n);
static inline int weft__next_round(weft__schedule *s, int t, int each, int n)
{
    return s->block ? weft__pass_rounds(s, t, each, n) : t;
}

/* A message of nothing that tells which operation its sender has begun.  Whoever runs the schedule may hear
 * it after the schedule is done, and nobody need get it who has left. */
void weft__add_token(weft__schedule *s, int to, int from, uint32_t tag); /* to, from: -1: none */

/* How `count` elements are divided among `size` ranks: the first count % size of them have one more. */
static inline weft__span weft__share(size_t count, int size, int rank)
{
    size_t each = count / (size_t)size, more = count % (size_t)size, r = (size_t)rank;
    weft__span share = {r * each + (r < more ? r : more), each + (r < more)};
    return share;
}

static inline weft__place weft__at(const weft__schedule *s, weft__area area, size_t elements)
{
    weft__place place = {area, elements * s->element};
    return place;
}
static inline weft__place weft__plus(const weft__schedule *s, weft__place place, size_t elements)
{
    place.offset += elements * s->element;
    return place;
}
static inline int weft__modulo(int rank, int size) /* for -size <= rank < 2 * size */
{
    return rank < 0 ? rank + size : rank >= size ? rank - size : rank;
}

/* What this rank contributes to a reduction: IN, or for PREMUL_SUM a scaled copy of it. */
typedef struct weft__operand {
    weft__place place;
    int ready; /* the step to wait for */
} weft__operand;
weft__operand weft__own_operand(weft__schedule *s, const weft__op *op, size_t count);
/* Factor of the last step of a reduction: 1 / size for AVG. */
double weft__last_scale(const weft__schedule *s, const weft__op *op);

typedef struct weft__algorithm {
    const char *name;
    weft__build_fn *build;
    weft__cutting cutting; /* zeros: whole, however long */
} weft__algorithm;

/* Builds and seals the schedule of op for this rank by that algorithm (ops/select.h chooses one).  seats: of the
 * group, and the same on all members; NULL where all are on one host.  Rooted
 * kinds also carry a dissemination, mostly of empty messages, so that no rank finishes before it knows,
 * directly or through others, that all agree on the operation; a small broadcast that repeats has tokens
 * instead.  NULL: no memory (weft_last_error is set). */
weft__schedule *weft__schedule_make(const weft__op *op, int rank, int size, const weft__seats *seats,
                                    weft__algorithm algorithm);
void weft__schedule_free(weft__schedule *s);

/* In blocks, whoever runs it counts in waits[], by number in steps[], how many a step still waits for (at first
 * steps[].waits), and sets it to this where the step is done. */
#define WEFT__STEP_DONE (-1)
/* Is the older block done, and is there one to take its place? */
bool weft__block_is_done(weft__schedule *s, const int *waits);
typedef struct weft__opened {
    int first, count; /* in steps[] */
} weft__opened;
/* Then: that block, with its waits; what is under way in the other one is where it was.  op: as it was made for.  Of such a
 * schedule there is one run.  count -1: no memory (weft_last_error is set). */
weft__opened weft__schedule_advance(weft__schedule *s, const weft__op *op, int *waits);
/* Rows `first` to before `end` of a COPY of several, by where its own first ones are. */
void weft__copy_rows(const weft__schedule *s, const weft__step *step, char *out, const char *a, size_t first,
                     size_t end);
/* One step a line, for golden traces: "3: recv 128 from 2 tag 1 -> tmp+0 (after 1)". */
void weft__schedule_print(const weft__schedule *s, FILE *to);
#endif
