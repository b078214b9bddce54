/* p2p_match.c - which receive gets a message, which message a receive gets, and whether it may.
 *
 * Receives stand in buckets in the order of posting, unexpected messages in the order of arrival; both sides
 * look for the first that fits, so messages of a pair match in order per tag. */
#include "p2p_box.h"

weft__list *weft__p2p_bucket(weft__list *table, weft__channel channel, uint64_t group, uint64_t sequence)
{
    uint64_t h = (group * 4 + (uint64_t)channel) * UINT64_C(0x9e3779b97f4a7c15) +
                 sequence * UINT64_C(0xc2b2ae3d27d4eb4f);
    return &table[(h >> 40) % WEFT__P2P_BUCKETS];
}

bool weft__p2p_fits(const weft__envelope *from, int peer, const weft__frame *frame)
{
    return from->channel == frame->channel && from->group == frame->group &&
           from->sequence == frame->sequence && (from->peer == peer || from->peer == WEFT_ANY_RANK) &&
           (from->tag == frame->tag || from->tag == WEFT_ANY_TAG);
}

weft__recv *weft__p2p_find_recv(weft__p2p *p2p, int peer, const weft__frame *frame)
{
    weft__list *bucket =
        weft__p2p_bucket(p2p->posted, (weft__channel)frame->channel, frame->group, frame->sequence);
    WEFT__LIST_EACH(bucket, at)
    {
        weft__recv *recv = WEFT__LIST_ENTRY(at, weft__recv, link);
        if (weft__p2p_fits(&recv->from, peer, frame)) return recv;
    }
    return NULL;
}

bool weft__p2p_is_for(weft__p2p *p2p, int peer, const weft__frame *frame, const weft__recv *recv)
{
    bool first = (uintptr_t)recv->link.prev - (uintptr_t)p2p->posted < sizeof p2p->posted;
    return weft__p2p_fits(&recv->from, peer, frame) &&
           (WEFT__LIKELY(first) || weft__p2p_find_recv(p2p, peer, frame) == recv);
}

weft__unexpected *weft__p2p_find_unexpected(weft__p2p *p2p, const weft__envelope *from)
{
    weft__list *bucket;
    if (WEFT__LIKELY(!p2p->unexpected_count)) return NULL;
    bucket = weft__p2p_bucket(p2p->unexpected, from->channel, from->group, from->sequence);
    WEFT__LIST_EACH(bucket, at)
    {
        weft__unexpected *unexpected = WEFT__LIST_ENTRY(at, weft__unexpected, link);
        if (!unexpected->recv && weft__p2p_fits(from, unexpected->peer, &unexpected->frame))
            return unexpected;
    }
    return NULL;
}

weft_status weft__p2p_judge(weft__recv *recv, int peer, const weft__frame *frame)
{
    bool apart = frame->flags & WEFT__FRAME_APART;
    *recv->got = weft__p2p_result(peer, frame);
    if (frame->dtype != recv->from.dtype || apart != (recv->from.hook != NULL)) return WEFT_ERR_MISMATCH;
    if (apart && recv->got->way != recv->from.hook->way) return WEFT_ERR_MISMATCH;
    /* In a collective both sides know what the other should do. */
    if (frame->channel == WEFT__CHANNEL_COLLECTIVE && frame->bytes != recv->room) return WEFT_ERR_MISMATCH;
    return frame->bytes > recv->room ? WEFT_ERR_TRUNCATED : WEFT_OK;
}
