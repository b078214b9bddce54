/* deferred_agree.c - tokens that have yet to come: owed, or parked.  Engine held.
 *
 * Each rank hears from the one before it, of every operation that has them: so all members mean the same if
 * every one sees that it does.  Which operation and what it was here is kept until then, however many others
 * have begun meanwhile. */
#include "deferred_agree.h"
#include "check.h"
#include "group.h"
#include "schedule.h"

void weft__deferred_agree_init(weft__deferred_agree *deferred)
{
    weft__list_init(&deferred->parked);
}

static weft__token *parked_at(const weft__deferred_agree *t, uint64_t number)
{
    for (weft__list *at = t->parked.next; at != &t->parked; at = at->next)
        if (WEFT__LIST_ENTRY(at, weft__token, link)->number == number)
            return WEFT__LIST_ENTRY(at, weft__token, link);
    return NULL;
}

static int owed_at(const weft__deferred_agree *t, uint64_t number)
{
    int i = 0;
    while (i < t->count && t->owed[i].number != number) i++;
    return i;
}

static void owe(weft_group *group, const weft__token *token)
{
    weft__deferred_agree *t = &group->deferred;
    WEFT__ASSERT(t->count < WEFT__DEFERRED_MOST && owed_at(t, token->number) == t->count, t->count,
                 token->number);
    if (!t->count) weft__group_ref(group);
    t->owed[t->count].number = token->number;
    t->owed[t->count].signature = token->signature;
    t->count++;
}

bool weft__token_owe(weft_group *group, weft__token *token)
{
    weft__deferred_agree *t = &group->deferred;
    if (t->count < WEFT__DEFERRED_MOST) {
        owe(group, token);
        return true;
    }
    weft__list_append(&t->parked, &token->link);
    return false;
}

const weft__signature *weft__token_awaited(const weft_group *group, int member, uint64_t number)
{
    const weft__deferred_agree *t = &group->deferred;
    const weft__token *parked;
    int i;
    if (!t->count || member != weft__modulo(group->rank - 1, group->size)) return NULL;
    i = owed_at(t, number);
    if (i < t->count) return &t->owed[i].signature;
    parked = parked_at(t, number);
    return parked ? &parked->signature : NULL;
}

static void unpark(weft__token *token)
{
    weft__list_remove(&token->link);
    token->passed(token);
}

void weft__token_came(weft_group *group, uint64_t number)
{
    weft__deferred_agree *t = &group->deferred;
    int i = owed_at(t, number);
    WEFT__ASSERT(i < t->count || parked_at(t, number), number, t->count); /* it is awaited */
    if (i == t->count) {
        unpark(parked_at(t, number));
        return;
    }
    t->owed[i] = t->owed[--t->count];
    if (!weft__list_empty(&t->parked)) {
        weft__token *next = WEFT__LIST_ENTRY(t->parked.next, weft__token, link);
        owe(group, next);
        unpark(next);
    } else if (!t->count)
        weft__group_unref(group);
}

void weft__deferred_agree_drop(weft_group *group)
{
    if (group->deferred.count) weft__group_unref(group);
    group->deferred.count = 0;
}
