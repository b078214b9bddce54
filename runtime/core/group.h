/* group.h - an ordered set of ranks, its numbers, and what its members agreed on.
 *
 * FORMING -> READY -> BROKEN, or FORMING -> FAILED: weft__group_to alone stores it.  References: the handle,
 * and one per request.  Freed by the context at the latest. */
#ifndef WEFT_RUNTIME_GROUP_H
#define WEFT_RUNTIME_GROUP_H
#include "board.h"
#include "deferred_agree.h"
#include "members.h"
#include "prefetch.h"
#include "request.h"
#include "rounds.h"
#include "select.h"

#define WEFT__RECENT        64 /* operations whose signature a group remembers, to judge late messages by */
#define WEFT__PLANS         16 /* schedules a group keeps */
#define WEFT__EXPECTED_MOST 8  /* members whose lines are asked for early */
#define WEFT__SLOTS         4  /* rounds of a group that a rank may have published and not all have read */
#define WEFT__KNOWN         32 /* broadcasts that a group remembers as begun before; a power of 2 */

/* Who frees it. */
typedef enum weft__owner { WEFT__OF_CALLER, WEFT__OF_CONTEXT, WEFT__OF_MESH } weft__owner;

typedef enum weft__group_state { WEFT__FORMING, WEFT__READY, WEFT__BROKEN, WEFT__FAILED } weft__group_state;

/* What is known of how far another member is: the who-is-late exchange's answers. */
typedef struct weft__report {
    int64_t asked_ns, answered_ns; /* on this rank's clock; 0: never */
    uint64_t submitted;            /* its last number; 0: none yet */
    uint8_t kind;                  /* of that operation */
    int64_t ago_ns;                /* when it submitted that, before it answered */
    bool knows;                    /* it has this group */
    uint64_t phase_of;             /* operation on device memory it was asked for; 0: none */
    uint8_t phase;                 /* weft__phase of that */
    int64_t quiet_until_ns;        /* no warning about messages with it before (warn.c) */
    int64_t awaited_ns;            /* late.c: its answer is, since it was last heard; 0: it is not */
    uint8_t awaited_scope;         /* late.c: about whom (weft__late_scope) */
    int64_t passed_until_ns;       /* late.c: it was silent, and others are asked in its place until then */
    uint32_t more;                 /* late.c: late members that it told of without naming them */
    uint8_t asked; /* late.c: how many of its host have been asked in this round, it included */
    bool wants,
        wants_below; /* late.c: it has asked, of the whole group or of hosts below, and is to be answered */
    bool unnamed;    /* late.c: it may be one of those that were not named */
    char *messages;  /* what it said of its pending messages when that was asked; NULL: of none */
} weft__report;

/* Finding out who is late (fault/late.h). */
typedef enum weft__late_state { WEFT__LATE_CLOSED, WEFT__LATE_ASKED, WEFT__LATE_COLLECTING } weft__late_state;
typedef struct weft__late_round {
    weft__late_state state;
    bool whole;        /* down: of all hosts, as the root collects; else of those below this rank's */
    uint64_t number;   /* that they should have come to */
    int64_t began_ns;  /* who has answered since then has in this round */
    int64_t closed_ns; /* up: when what was told last was found out */
    int64_t until_ns;
    int64_t stale_ns; /* up, ASKED: so old may be what is told */
} weft__late_round;
typedef struct weft__late {
    weft__late_round up, down;
    weft__list link;  /* ctx->late_rounds, unless both are CLOSED */
    uint32_t total;   /* late members of the whole group, when that was last told or collected */
    int above;        /* up, ASKED: who is asked; */
    int silent_above; /* hosts that were asked in this round, and said nothing; */
    int64_t above_ns; /* when the one that is asked was last heard */
    int64_t still_ns; /* who waits for this rank is told then that it waits too */
} weft__late;

/* Telling the other members that it is broken, or all that a rank has died (fault/telling.h). */
typedef struct weft__told_hosts weft__told_hosts;
typedef struct weft__telling {
    weft_context *ctx;
    weft_group *group;       /* that is broken; NULL: a rank has died */
    weft__list link;         /* ctx->to_tell while it is put off, or an answer is awaited */
    weft__told_hosts *hosts; /* along the tree; NULL: nothing has been told that way */
    int awaited;             /* of them, whose words are */
    int64_t put_off_ns;      /* other hosts are told then, unless they are by others; 0: it is not put off */
    int owed; /* answers, to those that have told this rank and want to know when that was passed on */
    int64_t still_ns; /* they are told then that this rank waits too */
    bool all;         /* members of other hosts have been told by this rank's watchdog, each */
    bool late;        /* it tells that the group was aborted when it had been broken */
} weft__telling;

/* Whether a group has slots in shared memory. */
typedef enum weft__shm_coll_state {
    WEFT__SHM_COLL_NONE,       /* no: its members do not share memory, or have no slots left */
    WEFT__SHM_COLL_UNMET,      /* when it is used: this rank has told nobody yet */
    WEFT__SHM_COLL_EXCHANGING, /* this rank has told; operations are held until all have (slot_exchange.c) */
    WEFT__SHM_COLL_OPEN        /* all are known */
} weft__shm_coll_state;

/* A member's part of that, which only the floor above reads: host/slots.h. */
typedef struct weft__member_slots weft__member_slots;
typedef struct weft__signing weft__signing; /* likewise: host/signing.c */
typedef struct weft__course weft__course;   /* likewise: host/interleaving.c */

/* Where each member publishes, by its number in the group. */
typedef struct weft__shm_coll_lines {
    const void *of[WEFT__EXPECTED_MOST];
} weft__shm_coll_lines;

/* Rounds of one group in the shared memory of its host. */
typedef struct weft__shm_coll {
    weft__shm_coll_state state;
    weft__list link;             /* ctx->shm_colls while there are ops */
    weft__list ops;              /* requests, in order */
    weft__list read;             /* those done but for others that still read their buffers, in order */
    uint64_t *told;              /* EXCHANGING: slots told so far */
    bool *heard;                 /* EXCHANGING: from whom what this rank awaits has come */
    int missing;                 /* EXCHANGING: members below that have not told */
    bool told_up;                /* EXCHANGING: this rank has, for its branch (slot_tree.h) */
    weft__member_slots **slots;  /* OPEN: of all members; else NULL */
    weft__shm_coll_lines *lines; /* OPEN, few members: for each slot; may be NULL even so */
    int *locals;                 /* their local ranks */
    uint64_t *uses;              /* of their slots, when they were told */
    uint64_t own_slots;          /* offset, to be given back */
    uint64_t assigned;           /* rounds of all ops so far */
    uint64_t of_program;         /* the last of these that belongs to an operation in host memory */
    uint64_t consumed;           /* every member has read all rounds up to here, when last checked */
    uint64_t taken;              /* this rank has, up to here, */
    uint64_t agreed; /* and of those up to here has seen that all members mean the same, and told so */
    struct {         /* the operation before: the next is often like it, and then cut alike */
        weft__signature signature;
        uintptr_t apart;   /* out from in */
        weft__rounds plan; /* count 0: there was none */
        weft__round first;
    } last;
} weft__shm_coll;

enum { WEFT__PAIR_WAYS = WEFT__EXCHANGES + 1 }; /* weft__kind_way, of probes too */

struct weft_group {
    weft_context *ctx;
    weft__list link;  /* ctx->groups, then ctx->retiring */
    weft__list by_id; /* ctx->groups_by_id, once it has one */
    weft__mpsc_node retired;
    uint64_t id;
    int rank, size;
    int *world;            /* world rank of each member */
    uint32_t strays;       /* as ctx->strays was when this group was asked for */
    weft__members members; /* the other way round, from READY on */
    char label[WEFT__LABEL_BYTES];
    weft__owner owner;
    _Atomic uint32_t refs;
    uint32_t spare_refs;    /* engine: of these, those that it has and nobody uses */
    bool let_go;            /* engine: its handle is gone */
    bool of_module;         /* a module has made it, and the program knows nothing of it */
    unsigned record;        /* engine: its place in the flight recorder; 0: none */
    _Atomic uint32_t state; /* weft__group_state; engine writes after READY */
    weft_status cause;      /* BROKEN, FAILED: why; written before state */
    int culprit;            /* BROKEN: world rank that is gone, or -1 */
    uint64_t broken_number; /* BROKEN: of the collective that failed; 0: none in particular */
    char *late_abort; /* BROKEN: why it was aborted after that, which has ended messages too; NULL; engine */
    bool remembered;  /* BROKEN: what is told once more before a goodbye is kept; engine */
    weft__telling telling, telling_abort; /* BROKEN: of that, and of late_abort; engine */
    char why[WEFT__SENTENCE_BYTES];
    _Atomic int64_t timeout_ms;
    uint8_t modules; /* a bit for each kind of memory for which all members have the same module */
    weft__group_params params;
    bool asks_for_program; /* this rank did, when it called for it */
    struct weft_nccl_options
        *options;              /* engine: what its communicators are made with; NULL: nothing is said */
    weft__selection selection; /* what follows from it */
    weft__seats *seats;        /* in the order of hosts; NULL: members are on one host */

    uint64_t next_number;                      /* engine: of collectives; the first is 1 */
    uint64_t batches;                          /* engine: last number of a batch */
    uint64_t (*pair_numbers)[WEFT__PAIR_WAYS]; /* engine: per member, and of any rank */
    weft__row *row;                            /* engine: how far this rank is, for others to see; */
    weft__row own_row;                         /* this one where there is none on the board */

    weft__shm_coll shm_coll;              /* engine */
    weft__signature recent[WEFT__RECENT]; /* engine: by number; of operations started */
    uint64_t started;                     /* engine: highest number started */
    uint32_t known[WEFT__KNOWN];          /* engine: hashes of broadcasts begun before, never 0 */
    weft__report *reports;                /* engine */
    weft__late late;                      /* engine */
    weft__seats *host_tree; /* engine: members in the order of hosts (fault/host_tree.h), when needed */
    int64_t quiet_until_ns; /* engine: no warning about its collectives before (warn.c) */
    weft__signing *signing; /* engine: what is compared afterwards; NULL: nothing yet */
    weft__course *course;   /* engine: what began when, where others are told; NULL: they are not */
    weft__deferred_agree deferred; /* engine: that may come after their operation */
    struct weft__plan *plans;      /* engine */
    int plan_count;
    size_t idle_tmp; /* engine: bytes beside the program's buffers that what is kept of plans has */
    struct weft__device_comm
        *device_comms[WEFT__MEMORIES]; /* engine: its communicators, once they are needed (device_comm.c) */
    /* Its place in the order on devices (device/order.h); engine: */
    uint64_t order_floor;    /* what is begun in it proposes no less, */
    uint64_t order_promised; /* and gets no less than that, as another member will not propose less */
    uint64_t order_met;      /* number of the last operation that all are known to have begun */
    uint64_t order_last;     /* the last final place of one of its collectives */
    bool asks_order;         /* others are asked for that, and have not answered */
    weft__list unplaced;     /* tickets of its collectives that are not final, in the order of numbers */
    weft__list line; /* engine: tickets that wait for those before them in the group (device/line.h) */
    struct weft__occurrence *occurrences; /* engine: how often each new_group was asked for */
    uint32_t shrinks;                     /* engine: how often this rank has shrunk it */
};

/* A collective is about to begin: asks for the lines that its first round will write and read, together and
 * while the request is made.  Where ranks share no cache each takes 200 ns. */
static inline void weft__rounds_expect(const weft_group *group)
{
    const void *const *lines;
    if (!group->shm_coll.lines) return;
    lines = group->shm_coll.lines[(group->shm_coll.assigned + 1) % WEFT__SLOTS].of;
    weft__prefetch_write(lines[group->rank]);
    for (int i = 0; i < group->size; i++)
        if (i != group->rank) weft__prefetch_read(lines[i]);
}

/* FORMING, one reference (the handle's).  world: copied.  NULL: no memory, with a sentence. */
weft_group *weft__group_new(weft_context *ctx, const int *world, int size, const char *label,
                            int64_t timeout_ms);
/* Members agreed on id and parameters; whether they use rounds follows from who they are.  Engine held. */
weft_status weft__group_ready(weft_group *group, uint64_t id, const weft__group_params *params);
void weft__group_fail(weft_group *group, weft_status status, const char *why);
/* What is told of the state (why, cause) was stored before.  Engine held, once others know the group. */
void weft__group_to(weft_group *group, weft__group_state to);
weft_status weft__group_usable(const weft_group *group); /* READY or BROKEN */
/* That member is unreachable from here, or was since this group was asked for: what went between the two may be lost. */
bool weft__group_has_strayed(const weft_group *group, int member);
/* It was, and is reached now.  member may be -1. */
bool weft__group_has_met_again(const weft_group *group, int member);
/* A message between this rank and that member: it was unreachable, and another message of before may be missing. */
static inline bool weft__group_refuses_member(const weft_group *group, int member)
{
    return WEFT__UNLIKELY(atomic_load(&group->state) == WEFT__BROKEN) &&
           weft__group_has_met_again(group, member);
}
weft_status weft__group_refuse(
    const weft_group *group); /* BROKEN, and why; PEER where the job goes on without this rank */
void weft__group_ref(weft_group *group);
/* A reference, unless nobody holds the group any more and it is on its way out.  Under groups_lock, or the engine held. */
bool weft__group_hold(weft_group *group);
void weft__group_unref(weft_group *group); /* engine not needed; the last one retires it */
/* Take and give back a reference of the engine's stock, without an atomic operation.  Engine held. */
void weft__group_ref_held(weft_group *group);
void weft__group_unref_held(weft_group *group);
/* The number of its next message.  Receives from any rank have a count of their own.  Engine held. */
static inline uint64_t weft__pair_number(weft_group *group, int peer, unsigned way)
{
    return ++group->pair_numbers[peer >= 0 ? peer : group->size][way];
}
void weft__group_let_go(weft_group *group);  /* the handle's, and the stock */
void weft__groups_retire(weft_context *ctx); /* engine held */
void weft__groups_reclaim(
    weft_context *ctx);                     /* frees those retired that nobody keeps any more; engine held */
void weft__groups_close(weft_context *ctx); /* all of them, at the end */
weft_group *weft__group_find(weft_context *ctx, uint64_t id);    /* with a reference; NULL: unknown */
int weft__group_member(const weft_group *group, int world_rank); /* -1: none */
/* The first of n never used before.  Any thread. */
uint64_t weft__group_ids(weft_context *ctx, unsigned n);
/* The world rank that gave that number; -1: it is none of those. */
static inline int weft__group_maker(uint64_t id)
{
    return id >> 40 <= INT32_MAX && id << 24 ? (int)(id >> 40) - 1 : -1;
}
/* A bit for each kind of memory for which all members have the same module (seam.h). */
uint8_t weft__group_modules(const weft_group *group);
/* How far that member is, by what it shows on the board of this host.  False: that is not known here. */
bool weft__group_shown(const weft_group *group, int member, weft__row *row);
/* And that the group is broken there: it needs not be told. */
bool weft__group_shown_broken(const weft_group *group, int member);
/* Would all these ranks share this host's segment? */
bool weft__on_one_segment(const weft_context *ctx, const int *world, int size);

weft__group_params weft__own_params(const weft_context *ctx); /* what this rank brings to an agreement */
bool weft__asks_for_program(const weft_call *call);           /* or the variable does */
#endif
