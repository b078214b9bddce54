/* tokens.c - tokens that have yet to come: owed, or parked.  Engine held.
 *
 * Each rank hears from the one before it, of every operation that has them: so all members mean the same if
 * every one sees that it does.  Which operation and what it was here is kept until then, however many others
 * have begun meanwhile. */
#include "tokens.h"
#include "check.h"
#include "group.h"
#include "schedule.h"

void weft__tokens_init(weft__tokens *tokens)
{
    weft__list_init(&tokens->parked);
}

static weft__token *parked_at(const weft__tokens *t, uint64_t number)
{
    for (weft__list *at = t->parked.next; at != &t->parked; at = at->next)
        if (WEFT__LIST_ENTRY(at, weft__token, link)->number == number)
            return WEFT__LIST_ENTRY(at, weft__token, link);
    return NULL;
}

static int owed_at(const weft__tokens *t, uint64_t number)
{
    int i = 0;
    while (i < t->count && t->owed[i].number != number) i++;
    return i;
}

static void owe(weft_group *group, const weft__token *token)
{
    weft__tokens *t = &group->tokens;
    WEFT__ASSERT(t->count < WEFT__TOKENS_MOST && owed_at(t, token->number) == t->count, t->count,
                 token->number);
    if (!t->count) weft__group_ref(group);
    t->owed[t->count].number = token->number;
    t->owed[t->count].signature = token->signature;
    t->count++;
}

bool weft__token_owe(weft_group *group, weft__token *token)
{
    weft__tokens *t = &group->tokens;
    if (t->count < WEFT__TOKENS_MOST) {
        owe(group, token);
        return true;
    }
    weft__list_append(&t->parked, &token->link);
    return false;
}

const weft__signature *weft__token_awaited(const weft_group *group, int member, uint64_t number)
{
    const weft__tokens *t = &group->tokens;
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
    weft__tokens *t = &group->tokens;
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

void weft__tokens_drop(weft_group *group)
{
    if (group->tokens.count) weft__group_unref(group);
    group->tokens.count = 0;
}
