/* breaking.h - ending a group for good, and the disagreements that do.  Engine held. */
#ifndef WEFT_RUNTIME_BREAKING_H
#define WEFT_RUNTIME_BREAKING_H
#include "group.h"
#include "notice.h"

/* Number of a break that no collective caused: those under way end in ERR_BROKEN, messages go on. */
#define WEFT__AFTER_ALL UINT64_MAX

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
void weft__group_break(weft_group *group, const weft__verdict *verdict, bool tell) WEFT__COLD;
/* A member has died: breaks every group that it is in. */
void weft__groups_lose(weft_context *ctx, int rank) WEFT__COLD;
/* What a broken group's verdict means for one of its requests: final status and sentence. */
weft_status weft__broken_text(weft_request *req, char *text, size_t bytes) WEFT__COLD;
void weft__early_breaks_apply(weft_group *group); /* ready now: what was told, or is dead, before */
/* Collective messages whose signature differs, or that fit nothing so far.  True: a token that was awaited.
 */
bool weft__collective_judge(weft_context *ctx, int peer, const weft__frame *frame);
/* The same for messages that came before this rank started that collective. */
void weft__early_judge(weft_request *req);
/* The sentence for a disagreement between this rank and a member; breaks the group. */
void weft__group_mismatch(weft_group *group, uint64_t number, weft__signature mine, int member,
                          weft__signature theirs) WEFT__COLD;

void weft__breaks_repeat(weft_context *ctx);  /* before a goodbye: of all broken groups, to their members */
void weft__break_remember(weft_group *group); /* for that, when the group is over before */
void weft__breaks_free(weft_context *ctx);
/* A group was told to be broken. */
void weft__break_told(weft_context *ctx, const weft__notice *notice);
#endif
