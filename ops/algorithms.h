/* algorithms.h - the one table of algorithms: which operations each can do, and from how many bytes on
 * another takes over.  Then the builders that it names, by file.
 *
 * Of an operation's candidates that go the same way the first one counts whose limit the bytes do not exceed.
 * Bytes are those of the larger of a rank's two buffers. */
#ifndef WEFT_OPS_ALGORITHMS_H
#define WEFT_OPS_ALGORITHMS_H
#include "schedule.h"

/* How ranks hear from each other. */
typedef enum weft__way {
    WEFT__ROUNDS,  /* in memory that all members share (rounds.h) */
    WEFT__MESSAGES /* as a schedule */
} weft__way;

/* Up to how many bytes, with `bytes` the number beside it. */
typedef enum weft__reach {
    WEFT__REACH_NEVER,         /* only when asked for by name */
    WEFT__REACH_ANY,           /* however many */
    WEFT__REACH_UP_TO,         /* bytes */
    WEFT__REACH_UP_TO_EACH,    /* fewer than that for each rank */
    WEFT__REACH_UP_TO_SHARED,  /* bytes by the number of ranks, and no more than a slot holds */
    WEFT__REACH_UP_TO_OR_PAIR, /* bytes, and any number between two ranks */
    WEFT__REACH_UP_TO_OF_FOUR  /* bytes, among four ranks and more */
} weft__reach;

typedef struct weft__limit {
    weft__reach reach;
    uint64_t bytes;
} weft__limit;

typedef struct weft__candidate {
    weft__kind kind;
    weft__way way;
    const char *name;      /* as weft_request_info.algorithm tells it */
    weft__build_fn *build; /* MESSAGES */
    weft__limit limit;     /* as a rule */
    weft__limit ordered;   /* with WEFT_REDUCE=rank_order, of kinds that reduce; NEVER: it cannot do that */
} weft__candidate;

enum {
    WEFT__CANDIDATES = 43,
    WEFT__TUNABLES = 14,      /* candidates whose limit is a number of bytes: those can be tuned */
    WEFT__CANDIDATES_MOST = 7 /* of one kind */
};
/* The kinds from the first to this number have candidates. */
#define WEFT__KINDS_CHOSEN ((int)WEFT__OP_ALL_TO_ALL_V + 1)
extern const weft__candidate weft__candidates[WEFT__CANDIDATES];

static inline bool weft__is_tunable(const weft__candidate *c)
{
    return c->limit.reach > WEFT__REACH_ANY;
}

/* The kind whose candidates do this one: groups and memory are made by an all_gather. */
weft__kind weft__family(weft__kind kind);

/* local.c: a group of one; no candidate: there is no other. */
weft__build_fn weft__build_local;
/* dissemination.c */
weft__build_fn weft__build_dissemination_barrier;
weft__build_fn weft__build_first_broadcast; /* agrees in the same messages */
/* After the others, steps beside them, of a rooted kind: once they are done, this rank knows, directly or
 * through others, that everybody has started this operation.  A rank whose signature differs passes nothing
 * on. */
void weft__add_agreement(weft__schedule *s);
/* doubling.c */
weft__build_fn weft__build_doubling_all_reduce;
weft__build_fn weft__build_halving_reduce_scatter;
weft__build_fn weft__build_halving_all_reduce;
weft__build_fn weft__build_doubling_all_gather;
/* bruck.c */
weft__build_fn weft__build_bruck_all_gather;
weft__build_fn weft__build_bruck_all_to_all;
/* tree.c */
weft__build_fn weft__build_tree_broadcast;
weft__build_fn weft__build_tree_reduce;
weft__build_fn weft__build_tree_gather;
weft__build_fn weft__build_tree_scatter;
/* ring.c */
weft__build_fn weft__build_ring_all_reduce;
weft__build_fn weft__build_ring_reduce_scatter;
weft__build_fn weft__build_ring_all_gather;
weft__build_fn weft__build_ring_reduce;
weft__build_fn weft__build_ring_broadcast;
/* chain.c */
weft__build_fn weft__build_chain_broadcast;
/* pairwise.c */
weft__build_fn weft__build_pairwise;
weft__build_fn weft__build_direct_gather;
weft__build_fn weft__build_direct_scatter;
/* ordered.c */
weft__build_fn weft__build_ordered_reduce_scatter;
weft__build_fn weft__build_ordered_all_reduce;
weft__build_fn weft__build_ordered_reduce;
weft__build_fn weft__build_ordered_shares;

/* Tags of one schedule: those of its data count from 0, those of the agreement from here. */
#define WEFT__AGREEMENT_TAGS 0x40000000U
#define WEFT__ROUNDS_MOST    31 /* of distances 1, 2, 4, ... below the largest size */
#endif
