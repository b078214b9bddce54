/* shrink_message.c - see shrink_message.h. */
#include "shrink_message.h"
#include "peer.h"
#include "protocol.h"
#include "reserve.h"

#include <inttypes.h>
#include <string.h>

size_t weft__shrink_message_bytes(const weft__shrink_message *m)
{
    return sizeof *m + m->length;
}

weft__shrink_message *weft__shrink_message_new(const weft_context *ctx, int sets, const char *text)
{
    const size_t all_sets = (size_t)sets * weft__set_bytes(ctx->world_size);
    const size_t words = text ? strnlen(text, WEFT__GROUP_CREATE_TEXT - 1) : 0;
    const size_t length = all_sets + (text ? words + 1 : 0);
    weft__shrink_message *m = weft__reserve_zeroed(sizeof *m + length);
    if (!m) return NULL;
    m->length = (uint32_t)length;
    if (text) memcpy(m->rest + all_sets, text, words);
    return m;
}

weft__shrink_message *weft__shrink_copy(const weft__shrink_message *m)
{
    weft__shrink_message *copy = weft__reserve_get(weft__shrink_message_bytes(m));
    if (copy) memcpy(copy, m, weft__shrink_message_bytes(m));
    return copy;
}

const unsigned char *weft__shrink_told(const weft_context *ctx, const weft__shrink_message *m,
                                       enum weft__shrink_set set)
{
    return m->rest + (size_t)set * weft__set_bytes(ctx->world_size);
}

unsigned char *weft__shrink_set(const weft_context *ctx, weft__shrink_message *m, enum weft__shrink_set set)
{
    return m->rest + (size_t)set * weft__set_bytes(ctx->world_size);
}

const char *weft__shrink_text(const weft_context *ctx, const weft__shrink_message *m)
{
    return (const char *)m->rest + weft__set_bytes(ctx->world_size);
}

void weft__shrink_mark_gone(const weft_context *ctx, weft__shrink_message *m, weft__gone how,
                            enum weft__shrink_set set)
{
    const unsigned char *members = weft__shrink_told(ctx, m, WEFT__SHRINK_MEMBERS);
    unsigned char *gone = weft__shrink_set(ctx, m, set);
    for (int rank = weft__set_next(members, 0, ctx->world_size); rank >= 0;
         rank = weft__set_next(members, rank + 1, ctx->world_size))
        if (atomic_load(&ctx->peers[rank].gone) == how) weft__set_add(gone, rank);
}

void weft__shrink_believe(weft_context *ctx, const weft__shrink_message *m)
{
    const unsigned char *members = weft__shrink_told(ctx, m, WEFT__SHRINK_MEMBERS);
    for (int rank = weft__set_next(members, 0, ctx->world_size); rank >= 0;
         rank = weft__set_next(members, rank + 1, ctx->world_size)) {
        if (weft__set_has(weft__shrink_told(ctx, m, WEFT__SHRINK_SURVIVORS), rank)) continue;
        if (weft__set_has(weft__shrink_told(ctx, m, WEFT__SHRINK_LEFT), rank))
            weft__peer_gone(ctx, rank, WEFT__LEFT, true, "has left");
        else if (weft__set_has(weft__shrink_told(ctx, m, WEFT__SHRINK_PRESUMED), rank))
            weft__peer_gone(ctx, rank, WEFT__PRESUMED_DEAD, true, "is presumed dead");
        else if (weft__set_has(weft__shrink_told(ctx, m, WEFT__SHRINK_DIED), rank))
            weft__peer_gone(ctx, rank, WEFT__DIED, true, "has died");
    }
}

/* ---- what comes in ---- */

static int sets_of(int type)
{
    switch (type) {
    case WEFT__MESSAGE_SHRINK_JOIN: return WEFT__SHRINK_JOINED + 1;
    case WEFT__MESSAGE_SHRINK_READY:
    case WEFT__MESSAGE_SHRINK_DONE: return WEFT__SHRINK_SETS;
    default: return WEFT__SHRINK_MEMBERS + 1;
    }
}

static bool has_text(int type)
{
    return type == WEFT__MESSAGE_SHRINK_FAILED || type == WEFT__MESSAGE_SHRINK_EXPIRED;
}

static weft_status check_length(const weft_context *ctx, int type, const weft__shrink_message *m)
{
    const size_t sets = (size_t)sets_of(type) * weft__set_bytes(ctx->world_size), length = m->length;
    if (length < sets || (!has_text(type) && length != sets) ||
        (has_text(type) &&
         (length == sets || length > sets + WEFT__GROUP_CREATE_TEXT || m->rest[length - 1] != 0)))
        return weft__fail(WEFT_ERR_PEER, "of a group that shrinks %zu bytes are told, expected %zu%s", length,
                          sets, has_text(type) ? " and a sentence" : "");
    return WEFT_OK;
}

static weft_status check_members(const weft_context *ctx, int peer, const weft__shrink_message *m)
{
    const unsigned char *members = weft__shrink_told(ctx, m, WEFT__SHRINK_MEMBERS);
    bool sound = m->size > 0 && weft__set_count(members, ctx->world_size) == (int)m->size;
    for (int bit = ctx->world_size; bit < 8 * (int)weft__set_bytes(ctx->world_size); bit++)
        sound = sound && !weft__set_has(members, bit);
    if (sound && weft__set_has(members, peer) && weft__set_has(members, ctx->rank)) return WEFT_OK;
    return weft__fail(WEFT_ERR_PEER,
                      "the members of a group that shrinks are not %" PRIu32 " ranks, or it is none",
                      m->size);
}

/* Each is a member, and told of once; of survivors and the gone all are told. */
static bool are_told_once(const weft_context *ctx, int type, const weft__shrink_message *m)
{
    const size_t bytes = weft__set_bytes(ctx->world_size);
    for (size_t i = 0; i < bytes; i++) {
        unsigned left = weft__shrink_told(ctx, m, WEFT__SHRINK_MEMBERS)[i];
        for (int set = WEFT__SHRINK_MEMBERS + 1; set < sets_of(type); set++) {
            const unsigned told = weft__shrink_told(ctx, m, (enum weft__shrink_set)set)[i];
            if (told & ~left) return false;
            left &= ~told;
        }
        if (left && sets_of(type) == WEFT__SHRINK_SETS) return false;
    }
    return true;
}

static bool makes_a_group(const weft_context *ctx, const weft__shrink_message *m)
{
    const int maker = weft__group_maker(m->id);
    return maker >= 0 && maker < ctx->world_size &&
           weft__set_has(weft__shrink_told(ctx, m, WEFT__SHRINK_MEMBERS), maker) &&
           !weft__set_is_empty(weft__shrink_told(ctx, m, WEFT__SHRINK_SURVIVORS),
                               weft__set_bytes(ctx->world_size));
}

/* The lead, which is the lowest of them, by itself alone: else a group could be made before its program has come. */
static bool joins_a_member(const weft_context *ctx, int peer, const weft__shrink_message *m)
{
    const unsigned char *joined = weft__shrink_told(ctx, m, WEFT__SHRINK_JOINED);
    const int first = weft__set_next(joined, 0, ctx->world_size);
    return m->lead >= 0 && m->lead < ctx->world_size &&
           weft__set_has(weft__shrink_told(ctx, m, WEFT__SHRINK_MEMBERS), m->lead) &&
           (peer == m->lead ? first >= m->lead : first > m->lead);
}

static weft_status check(const weft_context *ctx, int peer, int type, const weft__shrink_message *m)
{
    const bool tells_survivors = type == WEFT__MESSAGE_SHRINK_READY || type == WEFT__MESSAGE_SHRINK_DONE;
    weft_status status = check_length(ctx, type, m);
    if (status == WEFT_OK) status = check_members(ctx, peer, m);
    if (status != WEFT_OK) return status;
    if (!are_told_once(ctx, type, m))
        return weft__fail(WEFT_ERR_PEER,
                          "those told of are not all members of the group that shrinks, each once");
    if (tells_survivors && !makes_a_group(ctx, m))
        return weft__fail(WEFT_ERR_PEER,
                          "a group of no members, or of number %#" PRIx64 ", which is none of theirs", m->id);
    if (type == WEFT__MESSAGE_SHRINK_JOIN && !joins_a_member(ctx, peer, m))
        return weft__fail(WEFT_ERR_PEER,
                          "nobody joins, or rank %" PRId32
                          " is joined, which is no member, or by itself or a rank below it",
                          m->lead);
    if (has_text(type) && !weft__is_failure(m->status))
        return weft__fail(WEFT_ERR_PEER, "a group that shrinks fails with status %" PRId32, m->status);
    return WEFT_OK;
}

weft__shrink_message *weft__shrink_message_take(weft_context *ctx, int peer, int type, const void *bytes,
                                                size_t length)
{
    /* Copied: what is sent in answer may come back through the same buffer. */
    weft__shrink_message *m = length >= sizeof *m ? weft__reserve_get(length) : NULL;
    if (length < sizeof *m)
        weft__peer_refused(ctx, peer, "a message about a group that shrinks is too short");
    if (!m) return NULL;
    memcpy(m, bytes, length);
    if (weft__shrink_message_bytes(m) != length)
        weft__peer_refused(ctx, peer, "a message about a group that shrinks is not as long as it says");
    else if (check(ctx, peer, type, m) != WEFT_OK)
        weft__peer_refused(ctx, peer, weft_last_error());
    else
        return m;
    weft__reserve_give(m);
    return NULL;
}
