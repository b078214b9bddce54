/* create_message.c - see create_message.h. */
#include "create_message.h"

#include "peer.h"
#include "rank_set.h"
#include "reserve.h"

#include <inttypes.h>
#include <string.h>

bool weft__create_same(const weft__create_key *a, const weft__create_key *b)
{
    return a->parent == b->parent && a->hash[0] == b->hash[0] && a->hash[1] == b->hash[1] &&
           a->occurrence == b->occurrence && a->size == b->size;
}

weft__create_message *weft__create_message_new(const weft__create_key *key, size_t length)
{
    weft__create_message *m = weft__reserve_zeroed(sizeof *m + length + 1);
    if (!m) return NULL;
    m->key = *key;
    m->culprit = -1;
    m->length = (uint32_t)length;
    return m;
}

weft_status weft__create_send(weft_context *ctx, int to, int type, const weft__create_message *m)
{
    return weft__p2p_control(ctx->p2p, to, type, m, sizeof *m + m->length);
}

weft__create_message *weft__create_failure(const weft__create_key *key, weft_status status, int culprit,
                                           const char *text)
{
    const size_t length = strnlen(text, WEFT__GROUP_CREATE_TEXT - 1);
    weft__create_message *m = weft__create_message_new(key, length + 1);
    if (!m) return NULL;
    m->status = status;
    m->culprit = culprit;
    memcpy(m->rest, text, length);
    return m;
}

void weft__create_send_failure(weft_context *ctx, int to, int type, const weft__create_key *key,
                               weft_status status, int culprit, const char *text)
{
    weft__create_message *m = weft__create_failure(key, status, culprit, text);
    if (!m) return;
    weft__create_send(ctx, to, type, m);
    weft__reserve_give(m);
}

static weft_status check_members(const weft_context *ctx, int peer, const weft__create_message *m)
{
    const int ranks = ctx->world_size;
    if (m->length != weft__set_bytes(ranks))
        return weft__fail(WEFT_ERR_PEER, "the members of a group in %" PRIu32 " bytes, expected %zu",
                          m->length, weft__set_bytes(ranks));
    for (int bit = ranks; bit < 8 * (int)m->length; bit++)
        if (weft__set_has(m->rest, bit))
            return weft__fail(WEFT_ERR_PEER, "the members of a group are no ranks of the job");
    if (weft__set_count(m->rest, ranks) != (int)m->key.size || !weft__set_has(m->rest, peer) ||
        weft__set_next(m->rest, 0, ranks) != ctx->rank)
        return weft__fail(WEFT_ERR_PEER,
                          "the members of a group are not %" PRIu32
                          ", or it is none, or this rank is not the lowest",
                          m->key.size);
    return WEFT_OK;
}

static weft_status check_failure(const weft_context *ctx, const weft__create_message *m)
{
    if (!weft__is_failure(m->status) || m->culprit < -1 || m->culprit >= ctx->world_size)
        return weft__fail(WEFT_ERR_PEER, "a group that fails with status %" PRId32 " over rank %" PRId32,
                          m->status, m->culprit);
    if (m->length == 0 || m->length > WEFT__GROUP_CREATE_TEXT)
        return weft__fail(WEFT_ERR_PEER, "why a group fails is told in %" PRIu32 " bytes, expected 1 to %d",
                          m->length, WEFT__GROUP_CREATE_TEXT);
    return WEFT_OK;
}

static weft_status check(const weft_context *ctx, int peer, int type, const weft__create_message *m)
{
    if (m->key.size == 0 || m->key.size > (uint32_t)ctx->world_size)
        return weft__fail(WEFT_ERR_PEER, "a group of %" PRIu32 " members: expected 1 to %d", m->key.size,
                          ctx->world_size);
    switch (type) {
    case WEFT__MESSAGE_CREATE_READY:
        if (weft__group_maker(m->id) == peer) return WEFT_OK;
        return weft__fail(WEFT_ERR_PEER, "a group of number %#" PRIx64 ", which is not one of its numbers",
                          m->id);
    case WEFT__MESSAGE_CREATE_JOIN:
        if (m->status != WEFT_OK) return check_failure(ctx, m);
        return m->length ? check_members(ctx, peer, m) : WEFT_OK;
    case WEFT__MESSAGE_CREATE_ASK: return WEFT_OK;
    case WEFT__MESSAGE_CREATE_MEMBERS: return check_members(ctx, peer, m);
    default: return check_failure(ctx, m);
    }
}

weft__create_message *weft__create_message_take(weft_context *ctx, int peer, int type, const void *bytes,
                                                size_t length)
{
    weft__create_message head, *m;
    if (length >= sizeof head) memcpy(&head, bytes, sizeof head);
    if (length < sizeof head || head.length != length - sizeof head) {
        weft__peer_refused(ctx, peer, "a message about a new group is not as long as it says");
        return NULL;
    }
    /* Copied: what is sent in answer may come back through the same buffer. */
    m = weft__create_message_new(&head.key, head.length);
    if (!m) return NULL;
    memcpy(m, bytes, length);
    if (check(ctx, peer, type, m) == WEFT_OK) return m;
    weft__peer_refused(ctx, peer, weft_last_error());
    weft__reserve_give(m);
    return NULL;
}
