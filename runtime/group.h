/* group.h - an ordered set of ranks, its numbers, and what its members agreed on.
 *
 * FORMING -> READY -> BROKEN.  References: the handle, and one per request.  Freed by the context at the
 * latest. */
#ifndef WEFT_RUNTIME_GROUP_H
#define WEFT_RUNTIME_GROUP_H
#include "request.h"
#include "rounds.h"
#include "select.h"

#define WEFT__RECENT 64 /* operations whose signature a group remembers, to judge late messages by */
#define WEFT__PLANS  16 /* schedules a group keeps */

typedef enum weft__group_state { WEFT__FORMING, WEFT__READY, WEFT__BROKEN, WEFT__FAILED } weft__group_state;

/* What is known of how far another member is: the who-is-late exchange's answers. */
typedef struct weft__report {
    int64_t asked_ns, answered_ns; /* on this rank's clock; 0: never */
    uint64_t submitted;            /* its last number; 0: none yet */
    uint8_t kind;                  /* of that operation */
    int64_t ago_ns;                /* when it submitted that, before it answered */
    bool knows;                    /* it has this group */
} weft__report;

/* Rounds of one group in the shared memory of its host. */
typedef struct weft__lane {
    weft__list link;   /* ctx->lanes while there are ops */
    weft__list ops;    /* requests, in order */
    weft__row **rows;  /* of all members; NULL: this group does not use rounds */
    int *locals;       /* their local ranks */
    uint64_t own_row;  /* offset, to be given back */
    uint64_t assigned; /* rounds of all ops so far */
    uint64_t consumed; /* every member has read all rounds up to here, when last looked */
} weft__lane;

struct weft_group {
    weft_context *ctx;
    weft__list link; /* ctx->groups, then ctx->retiring */
    weft__mpsc_node retired;
    uint64_t id;
    int rank, size;
    int *world; /* world rank of each member */
    char label[WEFT__LABEL_BYTES];
    bool permanent; /* the world, the host group: not to be freed by the caller */
    _Atomic uint32_t refs;
    _Atomic uint32_t state; /* weft__group_state; engine writes after READY */
    weft_status cause;      /* BROKEN, FAILED: why; written before state */
    int culprit;            /* BROKEN: world rank that is gone, or -1 */
    char why[WEFT__SENTENCE_BYTES];
    _Atomic int64_t timeout_ms;
    weft__table table;

    weft__lock submit;
    uint64_t next_number;        /* submit: of collectives; the first is 1 */
    uint64_t (*pair_numbers)[3]; /* submit: per member: sends, receives, exchanges; made when needed */
    _Atomic uint64_t submitted;  /* last number; for others to ask */
    _Atomic uint32_t submitted_kind;
    _Atomic int64_t submitted_at_ns;

    weft__lane lane;                      /* engine */
    weft__signature recent[WEFT__RECENT]; /* engine: by number; of operations started */
    uint64_t started;                     /* engine: highest number started */
    weft__report *reports;                /* engine */
    struct weft__plan *plans;             /* engine */
    int plan_count;
    struct weft__occurrence *occurrences; /* engine: how often each new_group was asked for */
};

/* FORMING, one reference (the handle's).  world: copied.  NULL: no memory, with a sentence. */
weft_group *weft__group_new(weft_context *ctx, const int *world, int size, const char *label,
                            int64_t timeout_ms);
/* Members agreed: id, table, and the offset of each member's row (NULL: none).  Engine held. */
weft_status weft__group_ready(weft_group *group, uint64_t id, const weft__table *table, const uint64_t *rows);
void weft__group_fail(weft_group *group, weft_status status, const char *why);
void weft__group_ref(weft_group *group);
void weft__group_unref(weft_group *group);   /* engine not needed; the last one retires it */
void weft__groups_retire(weft_context *ctx); /* engine held */
void weft__groups_close(weft_context *ctx);  /* all of them, at the end */
/* A row for a group to be; 0: there is none.  Engine held. */
uint64_t weft__group_row(weft_context *ctx);
weft_group *weft__group_find(weft_context *ctx, uint64_t id);    /* with a reference; NULL: unknown */
int weft__group_member(const weft_group *group, int world_rank); /* -1: none */
uint64_t weft__group_id(weft_context *ctx);                      /* never used before; engine held */
/* Would all these ranks share this host's board? */
bool weft__on_board(const weft_context *ctx, const int *world, int size);

/* ---- breaking.c; engine held ---- */
/* Why a group is broken. */
typedef struct weft__verdict {
    weft_status cause;
    uint64_t number; /* of the collective that failed; 0: none in particular, all end in the cause */
    int culprit;     /* world rank that is gone; -1: none */
    const char *why;
} weft__verdict;
/* Breaks a group for good: the collective of that number ends in the cause, and so do all others if the cause
 * is a death or a disagreement, else they end in ERR_BROKEN.  Cancelling without a number ends messages too.
 * tell: let the other members know. */
void weft__group_break(weft_group *group, const weft__verdict *verdict, bool tell);
void weft__early_breaks_apply(weft_group *group); /* ready now: what was told, or is dead, before */
void weft__early_breaks_free(weft_context *ctx);
typedef enum weft__ending {
    WEFT__LEFT,    /* it said goodbye */
    WEFT__DIED,    /* seen by this rank itself */
    WEFT__REPORTED /* death that another rank told of */
} weft__ending;
/* A rank is gone. */
void weft__member_gone(weft_context *ctx, int rank, weft__ending how, const char *why);
/* Every rank keeps an eye on the next living one: where that is not on this host, by a connection to it. */
void weft__watch_next(weft_context *ctx);
/* "rank 3 (host b, pid 77)" */
void weft__member_name(const weft_context *ctx, int rank, char *text, size_t bytes);
/* The same with what became of it: "rank 3 has left (host b, pid 77)" */
void weft__member_fate(const weft_context *ctx, int rank, char *text, size_t bytes);
/* Collective messages whose signature differs, or that fit nothing so far. */
void weft__collective_judge(weft_context *ctx, int peer, const weft__frame *frame);
/* The sentence for a disagreement between this rank and a member; breaks the group. */
void weft__group_mismatch(weft_group *group, uint64_t number, weft__signature mine, int member,
                          weft__signature theirs);
weft__signature weft__signature_of(const weft_request *req);

/* ---- collectives.c ---- */
weft_status weft__call_check(const weft_call *call);
weft_status weft__group_usable(const weft_group *group); /* READY or BROKEN */
/* form.c: what weft_new_group and its like return */
weft_status weft__group_settled(weft_status status, weft_group *made, weft_group **group, weft_request **req);
/* ---- late.c; engine held ---- */
void weft__late_ask(weft_request *req);            /* who has submitted this? */
bool weft__late_answered(const weft_request *req); /* by everybody who might be missing */
void weft__late_text(const weft_request *req, int64_t now_ns, char *text, size_t bytes);
weft__table weft__own_table(const weft_context *ctx); /* what this rank brings to an agreement */
/* ---- form.c ---- */
void weft__form_control(weft_context *ctx, int peer, int type, const void *bytes, size_t length);
void weft__form_gone(weft_context *ctx, int rank, const char *why);
void weft__form_expire(weft_request *req, int64_t now_ns);
void weft__form_ask(weft_request *req);
/* Stop trying: the attempt fails for all.  Settles when the lowest member has said so. */
void weft__form_give_up(weft_request *req, weft_status status, const char *why);
void weft__form_abort(weft_group *group, const char *why);
void weft__form_close(weft_context *ctx);
void weft__occurrences_free(weft_group *group);
#endif
