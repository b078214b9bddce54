/* spread_word.c - see spread_word.h. */
#include "spread_word.h"
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

void weft__spread_remember(weft__spread_memory *memory, const weft__spread_word *w)
{
    memory->words[memory->next].number = w->number;
    memory->words[memory->next].origin = w->origin;
    memory->next = (memory->next + 1) % WEFT__SPREAD_REMEMBERED;
}

bool weft__spread_remembers(const weft__spread_memory *memory, const weft__spread_word *w)
{
    for (int i = 0; i < WEFT__SPREAD_REMEMBERED; i++)
        if (memory->words[i].number == w->number && memory->words[i].origin == w->origin) return true;
    return false;
}
