/* group_break.h - ending a group for good, and the disagreements that do.  Engine held. */
#ifndef WEFT_RUNTIME_GROUP_BREAK_H
#define WEFT_RUNTIME_GROUP_BREAK_H
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
 * is a death or a disagreement, else they end in ERR_BROKEN.  Cancelling without a number ends messages too, also of one that
 * is broken already.
 * tell: let the other members know. */
void weft__group_break(weft_group *group, const weft__verdict *verdict, bool tell) WEFT__COLD;
bool weft__group_is_aborted(const weft_group *group); /* that is how it broke */
/* A member has died: breaks every group that it is in. */
void weft__groups_lose(weft_context *ctx, int rank) WEFT__COLD;
/* What a broken group's verdict means for one of its requests: final status and sentence. */
weft_status weft__broken_text(weft_request *req, char *text, size_t bytes) WEFT__COLD;
weft__notice weft__break_notice(const weft_group *group); /* of a broken one, for its members */
/* What is told of a group that was aborted when it had been broken (its late_abort). */
weft__notice weft__late_abort_notice(const weft_group *group);
static inline bool weft__is_late_abort(const weft__notice *broken)
{
    return broken->knows && broken->gone == WEFT__LIVES;
}
#endif
