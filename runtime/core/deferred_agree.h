/* deferred_agree.h - what a group still has to hear from the member before this rank (ops/schedule.h:
 * tokens).
 *
 * Nobody waits for a token: an operation goes on, and whether it fits is seen when it comes.  But only so
 * many may be owed; who would owe one more is parked until one has come. */
#ifndef WEFT_RUNTIME_DEFERRED_AGREE_H
#define WEFT_RUNTIME_DEFERRED_AGREE_H
#include "context.h"
#include "op.h"

#define WEFT__DEFERRED_MOST 16 /* so many operations is a rank ahead of the one before it; > WEFT__TCP_LAZY */

/* One that is parked; of the schedule. */
typedef struct weft__token {
    weft__list link;
    uint64_t number;
    weft__signature signature;
    void (*passed)(struct weft__token *token);
} weft__token;

typedef struct weft__deferred_agree {
    struct {
        uint64_t number; /* of the operation */
        weft__signature signature;
    } owed[WEFT__DEFERRED_MOST];
    int count; /* of these; the group is held while there are any */
    weft__list parked;
} weft__deferred_agree;

void weft__deferred_agree_init(weft__deferred_agree *deferred);
/* The token of this operation has not come.  False: it is parked, and `passed` will be called. */
bool weft__token_owe(weft_group *group, weft__token *token);
/* What this rank means by that operation, if it has yet to hear from that member about it; else NULL. */
const weft__signature *weft__token_awaited(const weft_group *group, int member, uint64_t number);
void weft__token_came(weft_group *group, uint64_t number); /* which was awaited */
void weft__deferred_agree_drop(weft_group *group);         /* the group is broken */
#endif
