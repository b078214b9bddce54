/* shrink_message.c - see shrink_message.h. */
#include "shrink_message.h"
#include "peer.h"
#include "protocol.h"
#include "reserve.h"

#include <inttypes.h>
#include <string.h>

bool weft__shrink_is_among(const int32_t *ranks, uint32_t n, int rank)
{
    for (uint32_t i = 0; i < n; i++)
        if (ranks[i] == rank) return true;
    return false;
}

size_t weft__shrink_told(const weft__shrink_message *m)
{
    return (size_t)m->survivors + m->left + m->presumed + m->died;
}

weft__shrink_message *weft__shrink_copy(const weft__shrink_message *m, size_t bytes)
{
    weft__shrink_message *copy = weft__reserve_get(bytes);
    if (copy) memcpy(copy, m, bytes);
    return copy;
}

uint32_t weft__shrink_list_gone(const weft_context *ctx, const weft__shrink_message *m, weft__gone how,
                                int32_t **next)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->size; i++) {
        if (atomic_load(&ctx->peers[m->list[i]].gone) != how) continue;
        *(*next)++ = m->list[i];
        n++;
    }
    return n;
}

void weft__shrink_believe(weft_context *ctx, const weft__shrink_message *m)
{
    const int32_t *survivors = m->list + m->size, *left = survivors + m->survivors,
                  *presumed = left + m->left, *died = presumed + m->presumed;
    for (uint32_t i = 0; i < m->size; i++) {
        if (weft__shrink_is_among(survivors, m->survivors, m->list[i])) continue;
        if (weft__shrink_is_among(left, m->left, m->list[i]))
            weft__peer_gone(ctx, m->list[i], WEFT__LEFT, true, "has left");
        else if (weft__shrink_is_among(presumed, m->presumed, m->list[i]))
            weft__peer_gone(ctx, m->list[i], WEFT__PRESUMED_DEAD, true, "is presumed dead");
        else if (weft__shrink_is_among(died, m->died, m->list[i]))
            weft__peer_gone(ctx, m->list[i], WEFT__DIED, true, "has died");
    }
}

static bool tells_of_members(const weft__shrink_message *m)
{
    const int32_t *told = m->list + m->size;
    size_t n = weft__shrink_told(m);
    for (size_t i = 0; i < n; i++)
        if (!weft__shrink_is_among(m->list, m->size, told[i])) return false;
    return true;
}

/* A verdict is sound where it tells of all members, each once. */
static bool verdict_sound(const weft_context *ctx, const weft__shrink_message *m)
{
    const int32_t *told = m->list + m->size;
    return m->survivors && weft__shrink_told(m) == m->size &&
           weft__shrink_is_among(m->list, m->size, weft__group_maker(m->id)) &&
           weft__group_create_sound(ctx, told, weft__shrink_told(m), told[0]);
}

weft_status weft__shrink_check(const weft_context *ctx, int peer, int type, const weft__shrink_message *m,
                               size_t length)
{
    size_t world = (size_t)ctx->world_size, entries = (length - sizeof *m) / sizeof m->list[0];
    size_t told = (size_t)m->size + weft__shrink_told(m);
    if (m->size == 0 || m->size > world || told > 2 * (size_t)m->size || entries < told)
        return weft__fail(WEFT_ERR_PEER,
                          "a group that shrinks from %" PRIu32 " members to %" PRIu32 ", %" PRIu32
                          " having left, %" PRIu32 " presumed dead, %" PRIu32 " dead, in %zu entries",
                          m->size, m->survivors, m->left, m->presumed, m->died, entries);
    if (!weft__group_create_sound(ctx, m->list, m->size, peer) ||
        !weft__shrink_is_among(m->list, m->size, ctx->rank))
        return weft__fail(WEFT_ERR_PEER,
                          "the members of a group that shrinks are no ranks, or some twice, or it is none");
    if (!tells_of_members(m) ||
        ((type == WEFT__MESSAGE_SHRINK_READY || type == WEFT__MESSAGE_SHRINK_DONE) && !verdict_sound(ctx, m)))
        return weft__fail(WEFT_ERR_PEER, "those told of are not all members of the group, each once");
    if ((type == WEFT__MESSAGE_SHRINK_FAILED || type == WEFT__MESSAGE_SHRINK_EXPIRED) &&
        !weft__is_failure(m->status))
        return weft__fail(WEFT_ERR_PEER, "a group that shrinks fails with status %" PRId32, m->status);
    return WEFT_OK;
}
