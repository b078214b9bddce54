/* spread_word.c - see spread_word.h. */
#include "spread_word.h"
#include "peer.h"
#include "protocol.h"
#include "rank_set.h"
#include "reserve.h"

#include <string.h>

const unsigned char *weft__spread_message(const weft_context *ctx, const weft__spread_word *w)
{
    return w->rest + (w->goes_on ? weft__set_bytes(ctx->world_size) : 0);
}

weft__spread_word *weft__spread_word_new(weft_context *ctx, const weft__spread_word *head,
                                         const unsigned char *set, const void *message)
{
    const size_t before = set ? weft__set_bytes(ctx->world_size) : 0;
    weft__spread_word *w = weft__reserve_zeroed(sizeof *w + before + head->length);
    if (!w) return NULL;
    *w = *head;
    w->goes_on = set != NULL;
    if (set) memcpy(w->rest, set, before);
    memcpy(w->rest + before, message, head->length);
    return w;
}

size_t weft__spread_word_bytes(const weft_context *ctx, const weft__spread_word *w)
{
    return sizeof *w + (w->goes_on ? weft__set_bytes(ctx->world_size) : 0) + w->length;
}

bool weft__spread_word_is_sound(const weft_context *ctx, const weft__spread_word *w, size_t length)
{
    const int ranks = ctx->world_size;
    const int last = 8 * (int)weft__set_bytes(ranks);
    if (length < sizeof *w || w->origin < 0 || w->origin >= ranks || w->goes_on > 1 || !w->number)
        return false;
    if (length != weft__spread_word_bytes(ctx, w) || w->origin == ctx->rank) return false;
    if (w->type < WEFT__MESSAGE_CREATE_JOIN || w->type > WEFT__MESSAGE_SHRINK_EXPIRED) return false;
    return !w->goes_on || (weft__set_has(w->rest, ctx->rank) && weft__set_next(w->rest, ranks, last) < 0);
}

bool weft__spread_counts(int type)
{
    return type == WEFT__MESSAGE_SHRINK_READY || type == WEFT__MESSAGE_SHRINK_DONE;
}

/* ---- answers ---- */

void weft__spread_answer_to(weft_context *ctx, int peer, const weft__spread_word *w, weft__spread_answer what,
                            bool holds, const unsigned char *holders)
{
    const size_t set = holders ? weft__set_bytes(ctx->world_size) : 0;
    weft__spread_taken *t = weft__reserve_zeroed(sizeof *t + set);
    if (!t) return; /* this rank is gone past */
    t->number = w->number;
    t->origin = w->origin;
    t->answer = (uint32_t)what;
    t->holds = holds;
    t->has_set = holders != NULL;
    if (holders) memcpy(t->holders, holders, set);
    weft__p2p_control(ctx->p2p, peer, WEFT__MESSAGE_SPREAD_TAKEN, t, sizeof *t + set);
    weft__reserve_give(t);
}

static bool is_answer(const weft_context *ctx, const weft__spread_taken *t, size_t length)
{
    const size_t set = weft__set_bytes(ctx->world_size);
    if (t->answer >= WEFT__ANSWERS || t->holds > 1 || t->has_set > 1) return false;
    if (length != sizeof *t + (t->has_set ? set : 0)) return false;
    return !t->has_set ||
           (t->answer == WEFT__ALL_HAVE && weft__set_next(t->holders, ctx->world_size, 8 * (int)set) < 0);
}

weft__spread_taken *weft__spread_taken_take(weft_context *ctx, int peer, const void *bytes, size_t length)
{
    weft__spread_taken *t = length >= sizeof *t ? weft__reserve_get(length) : NULL;
    if (!t && length >= sizeof *t) return NULL;
    if (t) memcpy(t, bytes, length);
    if (t && is_answer(ctx, t, length)) return t;
    weft__reserve_give(t);
    weft__peer_refused(ctx, peer, "an answer to a word that was spread, which is none");
    return NULL;
}

/* ---- memory ---- */

void weft__spread_remember(weft_context *ctx, weft__spread_memory *memory, const weft__spread_word *w,
                           const unsigned char *holders)
{
    const size_t bytes = weft__set_bytes(ctx->world_size);
    unsigned char *copy = holders ? weft__reserve_get(bytes) : NULL;
    if (holders && !copy) return;
    if (holders) memcpy(copy, holders, bytes);
    weft__reserve_give(memory->words[memory->next].holders);
    memory->words[memory->next].number = w->number;
    memory->words[memory->next].origin = w->origin;
    memory->words[memory->next].holders = copy;
    memory->next = (memory->next + 1) % WEFT__SPREAD_REMEMBERED;
}

bool weft__spread_remembers(const weft__spread_memory *memory, const weft__spread_word *w,
                            const unsigned char **holders)
{
    for (int i = 0; i < WEFT__SPREAD_REMEMBERED; i++) {
        if (memory->words[i].number != w->number || memory->words[i].origin != w->origin) continue;
        *holders = memory->words[i].holders;
        return true;
    }
    return false;
}

void weft__spread_forget(weft__spread_memory *memory)
{
    for (int i = 0; i < WEFT__SPREAD_REMEMBERED; i++) weft__reserve_give(memory->words[i].holders);
}
