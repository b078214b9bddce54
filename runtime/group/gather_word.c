/* gather_word.c - see gather_word.h. */
#include "gather_word.h"

#include "protocol.h"
#include "rank_set.h"

#include <string.h>

static bool is_rank(const weft_context *ctx, int32_t rank)
{
    return rank >= 0 && rank < ctx->world_size;
}

static bool is_key(const weft_context *ctx, const weft__create_key *key)
{
    return key->size > 1 && key->size <= (uint32_t)ctx->world_size;
}

/* The lead is named by nobody, and told of nobody. */
static bool is_sound_word(const weft_context *ctx, int type, const weft__gather_word *w)
{
    const int ranks = ctx->world_size, count = weft__set_count(w->set, ranks);
    return is_key(ctx, &w->key) && is_rank(ctx, w->lead) && count > 0 && count <= (int)w->key.size &&
           weft__set_next(w->set, ranks, 8 * (int)weft__set_bytes(ranks)) < 0 &&
           (type == WEFT__MESSAGE_GATHER_KNOWN ? w->lead != ctx->rank : !weft__set_has(w->set, w->lead));
}

static bool is_sound_end(const weft_context *ctx, const weft__gather_end *end)
{
    return is_key(ctx, &end->key) && is_rank(ctx, end->lead) && is_rank(ctx, end->rank) &&
           end->rank != end->lead && weft__is_failure(end->status) &&
           (end->culprit == -1 || is_rank(ctx, end->culprit)) && memchr(end->why, '\0', sizeof end->why);
}

bool weft__gather_is_sound(const weft_context *ctx, int type, const void *bytes, size_t length)
{
    if (type == WEFT__MESSAGE_GATHER_GIVES_UP)
        return length == sizeof(weft__gather_end) && is_sound_end(ctx, bytes);
    return length == sizeof(weft__gather_word) + weft__set_bytes(ctx->world_size) &&
           is_sound_word(ctx, type, bytes);
}
