/* mismatch.c - what this rank means by its collectives, and the end of a group whose members mean different ones. */
#include "mismatch.h"
#include "group_break.h"

#include <stdio.h>

void weft__group_mismatch(weft_group *group, uint64_t number, weft__signature mine, int member,
                          weft__signature theirs)
{
    char a[128], b[128], text[WEFT__SENTENCE_BYTES];
    int low = group->rank < member ? group->rank : member, high = group->rank < member ? member : group->rank;
    weft__signature_text(group->rank < member ? mine : theirs, a, sizeof a);
    weft__signature_text(group->rank < member ? theirs : mine, b, sizeof b);
    snprintf(text, sizeof text, "operation #%llu on group %s: rank %d passed %s, rank %d passed %s",
             (unsigned long long)number, group->label, group->world[low], a, group->world[high], b);
    weft__group_break(group, &(weft__verdict){WEFT_ERR_MISMATCH, number, -1, text}, true);
}

/* The operations that began last are remembered; an older one is looked for among all that run, which takes a while, and is
 * seldom needed: most messages meet a receive. */
const weft__signature *weft__signature_meant(const weft_group *group, uint64_t number)
{
    if (number > group->started) return NULL;
    if (number + WEFT__RECENT > group->started) return &group->recent[number % WEFT__RECENT];
    WEFT__LIST_EACH(&group->ctx->pending, at)
    {
        const weft_request *req = WEFT__LIST_ENTRY(at, weft_request, pending);
        if (req->group != group || !(weft__kind_traits(req->op.kind) & WEFT__COLLECTIVE)) continue;
        if (req->sequence == number) return &req->signature;
        if (req->sequence > number) break; /* they stand in the order of their numbers */
    }
    return NULL;
}
