/* shrink_attempt.h - one attempt to shrink a group, as a member that has heard of it knows it (shrink.c). */
#ifndef WEFT_GROUP_SHRINK_ATTEMPT_H
#define WEFT_GROUP_SHRINK_ATTEMPT_H
#include "shrink_message.h"

/* weft__shrink_to alone changes it. */
typedef enum weft__shrink_state {
    WEFT__SHRINK_GATHERING, /* nothing is agreed on */
    WEFT__SHRINK_HELD,      /* the group is known here, and perhaps not everywhere */
    WEFT__SHRINK_SETTLED,   /* all that live knew it: it is made */
    WEFT__SHRINK_FAILED
} weft__shrink_state;

/* At every member that has heard of it; kept until the context ends: another member may have to be told. */
typedef struct weft__shrink_attempt {
    weft__list link;
    uint64_t group;
    uint32_t occurrence;
    weft__shrink_state state;
    int size, *world;       /* its members, the lowest first; what follows by number among them */
    unsigned char *members; /* the same ones (rank_set.h) */
    bool *joined;           /* have told this rank, as the lead, or others for them */
    bool *stored;           /* hold the verdict too */
    weft__group_params *tables;
    bool by_others;                   /* who has joined this rank was told by others too */
    struct weft__shrink_joins *joins; /* who join another one, by this rank (shrink_joins.h); NULL: none */
    weft__shrink_message *verdict;    /* NULL while GATHERING */
    uint32_t
        strays;   /* ctx->strays when the verdict became known: before that nothing of its group was sent */
    bool put_off; /* the verdict is to be handed on, unless all leave */
} weft__shrink_attempt;

weft__list *weft__shrink_attempts(const weft_context *ctx);
weft__shrink_attempt *weft__shrink_find(weft_context *ctx, uint64_t group, uint32_t occurrence);
bool weft__shrink_is_of(const weft_context *ctx, const weft__shrink_attempt *a, const unsigned char *members);
/* That attempt, new if it is not known yet.  NULL: no memory, or it is known with other members. */
weft__shrink_attempt *weft__shrink_attempt_for(weft_context *ctx, uint64_t group, uint32_t occurrence,
                                               const unsigned char *members);
/* The attempt that this rank asks for, found or made likewise. */
weft__shrink_attempt *weft__shrink_attempt_of(weft_request *req);
/* This rank's own request for it, while that waits; else NULL. */
weft_request *weft__shrink_request_of(weft_context *ctx, const weft__shrink_attempt *a);
void weft__shrink_attempt_free(weft__shrink_attempt *a);
void weft__shrink_to(weft__shrink_attempt *a, weft__shrink_state to);
bool weft__shrink_is_over(const weft__shrink_attempt *a);
int weft__shrink_member(const weft__shrink_attempt *a, int world_rank); /* -1: it is none */
/* One that is unreachable from here does: nobody makes a group without it who has no view that leaves it out. */
bool weft__shrink_lives(const weft_context *ctx, const weft__shrink_attempt *a, int member);
/* It has joined this rank.  What others have said of one that is unreachable from here does not count yet: the two have to meet
 * again, or one of them goes. */
bool weft__shrink_has_joined(const weft_context *ctx, const weft__shrink_attempt *a, int member);
/* The lowest one that lives in this rank's view; this rank lives, so there is one. */
int weft__shrink_lead(const weft_context *ctx, const weft__shrink_attempt *a);
/* The others that live, into the set; false: their hosts are few, or there is no memory. */
bool weft__shrink_are_many(const weft_context *ctx, const weft__shrink_attempt *a, unsigned char *set);
/* Words to the lead may: one has, or hosts are many. */
bool weft__shrink_go_by_others(const weft_context *ctx, const weft__shrink_attempt *a);
weft_status weft__shrink_attempts_open(weft_context *ctx);
void weft__shrink_attempts_close(weft_context *ctx);
#endif
