/* algorithms.h - algorithms as values: the rows of candidates.h, their number, and their builders.
 *
 * Among an operation's candidates that go the same way the first one counts whose limit the bytes do not
 * exceed.  Bytes are those of the larger of a rank's two buffers. */
#ifndef WEFT_OPS_ALGORITHMS_H
#define WEFT_OPS_ALGORITHMS_H
#include "candidates.h"
#include "schedule.h"

/* How ranks hear from each other. */
typedef enum weft__way {
    WEFT__ROUNDS,  /* in memory that all members share (rounds.h) */
    WEFT__MESSAGES /* as a schedule */
} weft__way;

/* Up to how many bytes, with `bytes` the number beside it. */
typedef enum weft__reach {
    WEFT__REACH_NEVER,           /* only when asked for by name */
    WEFT__REACH_ANY,             /* however many */
    WEFT__REACH_UP_TO,           /* bytes */
    WEFT__REACH_UP_TO_EACH,      /* fewer than that for each rank */
    WEFT__REACH_UP_TO_EACH_OF_8, /* likewise, of eight at most */
    WEFT__REACH_UP_TO_SHARED,    /* bytes by the number of ranks, and no more than a slot holds */
    WEFT__REACH_UP_TO_BY_RANKS, /* bytes, and among more than WEFT__RANKS_OF_A_LIMIT as many for each so many */
    WEFT__REACH_UP_TO_OR_PAIR, /* likewise, and any number between two ranks */
    WEFT__REACH_UP_TO_OF_FOUR, /* bytes, among four ranks and more */
    WEFT__REACH_UP_TO_OR_EACH, /* bytes for each rank among few hosts, or WEFT__OR_EACH_LEAST */
    WEFT__REACH_FEW_HOSTS,     /* bytes, or any number where it says 0, among few hosts */
    WEFT__REACH_MANY_EACH,     /* fewer than that for each rank, among many hosts */
    WEFT__REACH_MANY_OR_LONG,  /* likewise, and any number from WEFT__LONG_CHAIN ranks on */
    WEFT__REACH_FEW_OR_EACH, /* WEFT__FEW_OR_EACH_LEAST among few hosts, among many fewer than bytes for each */
    WEFT__REACH_SMALL_OR_EACH /* WEFT__SMALL_OR_EACH_LEAST, among many hosts fewer than bytes for each */
} weft__reach;

#define WEFT__FEW_HOSTS           16
#define WEFT__RANKS_OF_A_LIMIT    32
#define WEFT__LONG_CHAIN          512
#define WEFT__OR_EACH_LEAST       65536
#define WEFT__FEW_OR_EACH_LEAST   4096
#define WEFT__SMALL_OR_EACH_LEAST 32768

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
    weft__limit across;    /* where members are on several hosts: MESSAGES */
    weft__limit ordered;   /* with WEFT_REDUCE=rank_order, of kinds that reduce; NEVER: it cannot do that */
} weft__candidate;

/* A limit's number in WEFT__LIMITS, its reach and its bytes. */
enum {
#define LIMIT_NUMBER(id, reach, bytes) WEFT__LIMIT_##id,
    WEFT__LIMITS(LIMIT_NUMBER)
#undef LIMIT_NUMBER
};
enum {
#define LIMIT_PARTS(id, reach, bytes) \
    WEFT__REACH_OF_##id = WEFT__REACH_##reach, WEFT__BYTES_OF_##id = (bytes),
    WEFT__LIMITS(LIMIT_PARTS)
#undef LIMIT_PARTS
};

enum {
#define ROUNDS_ROW(arg, kind, name, limit, ordered)                  +1
#define MESSAGES_ROW(arg, kind, name, build, limit, across, ordered) +1
    WEFT__CANDIDATES = 0 WEFT__CANDIDATE_LIST(ROUNDS_ROW, MESSAGES_ROW, ),
#undef ROUNDS_ROW
#undef MESSAGES_ROW
/* Candidates whose limit is a number of bytes: those can be tuned. */
#define ROUNDS_ROW(arg, kind, name, limit, ordered)                  +(WEFT__LIMIT_##limit > WEFT__LIMIT_ANY)
#define MESSAGES_ROW(arg, kind, name, build, limit, across, ordered) +(WEFT__LIMIT_##limit > WEFT__LIMIT_ANY)
    WEFT__TUNABLES = 0 WEFT__CANDIDATE_LIST(ROUNDS_ROW, MESSAGES_ROW, )
#undef ROUNDS_ROW
#undef MESSAGES_ROW
};

/* Candidates of each kind. */
enum {
#define ROUNDS_ROW(of, kind, name, limit, ordered)                  +(WEFT__OP_##kind == WEFT__OP_##of)
#define MESSAGES_ROW(of, kind, name, build, limit, across, ordered) +(WEFT__OP_##kind == WEFT__OP_##of)
#define ROWS_OF(id)                                                 WEFT__CANDIDATE_LIST(ROUNDS_ROW, MESSAGES_ROW, id)
#define KIND_COUNT(id, ...)                                         WEFT__CANDIDATES_OF_##id = 0 ROWS_OF(id),
    WEFT__KINDS(KIND_COUNT)
#undef KIND_COUNT
#undef ROWS_OF
#undef ROUNDS_ROW
#undef MESSAGES_ROW
};
/* Its size is one more than the largest number of candidates that a kind has: the only way to have the compiler
 * find a maximum over the rows of a table. */
union weft__longest_kind {
#define KIND_LENGTH(id, ...) char of_##id[WEFT__CANDIDATES_OF_##id + 1];
    WEFT__KINDS(KIND_LENGTH)
#undef KIND_LENGTH
};
enum {
    WEFT__CANDIDATES_MOST = sizeof(union weft__longest_kind) - 1, /* of one kind */
/* The kinds from the first to this number have candidates. */
#define KIND_CHOSEN(id, ...) +(WEFT__CANDIDATES_OF_##id > 0)
    WEFT__KINDS_CHOSEN = 0 WEFT__KINDS(KIND_CHOSEN)
#undef KIND_CHOSEN
};
extern const weft__candidate weft__candidates[WEFT__CANDIDATES];

static inline bool weft__is_tunable(const weft__candidate *c)
{
    return c->limit.reach > WEFT__REACH_ANY;
}

/* The kind whose candidates do this one: groups and memory are made by an all_gather. */
weft__kind weft__family(weft__kind kind);

/* The builders that the table names: file by file, in ring.c, doubling.c, lanes.c, tree.c, bruck.c, chain.c,
 * pairwise.c, ordered.c and dissemination.c. */
#define ROUNDS_BUILDER(arg, kind, name, limit, ordered)
#define MESSAGES_BUILDER(arg, kind, name, build, limit, across, ordered) weft__build_fn weft__build_##build;
WEFT__CANDIDATE_LIST(ROUNDS_BUILDER, MESSAGES_BUILDER, )
#undef ROUNDS_BUILDER
#undef MESSAGES_BUILDER
weft__build_fn weft__build_local;           /* local.c: a group of one; no candidate: there is no other */
weft__build_fn weft__build_first_broadcast; /* dissemination.c: agrees in the same messages */
/* dissemination.c: after the others, steps beside them, of a rooted kind: once they are done, this rank knows,
 * directly or through others, that everybody has started this operation.  A rank whose signature differs
 * passes nothing on. */
void weft__add_agreement(weft__schedule *s);

static inline bool weft__is_power_of_two(int n)
{
    return !(n & (n - 1));
}

/* lanes.c: members of a host have a part each of `count` elements.  A lane is those elements that go together on all hosts: it ends
 * wherever a part of any host does. */
size_t weft__lane_end(const weft__schedule *s, size_t count, size_t start);
/* Which member of a host of so many has that element in its part. */
int weft__lane_member(size_t count, int members, size_t element);

/* Tags of one schedule: those of its data count from 0, those of the agreement from here. */
#define WEFT__AGREEMENT_TAGS 0x40000000U
#define WEFT__ROUNDS_MOST    31 /* of distances 1, 2, 4, ... below the largest size */
#endif
