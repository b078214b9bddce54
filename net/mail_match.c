/* mail_match.c - which receive gets a message, which message a receive gets, and whether it may.
 *
 * Receives stand in buckets in the order of posting, early messages in the order of arrival; both sides look
 * for the first that fits, so messages of a pair match in order per tag. */
#include "mail_box.h"

weft__list *weft__mail_bucket(weft__list *table, weft__channel channel, uint64_t group, uint64_t sequence)
{
    uint64_t h = (group * 4 + (uint64_t)channel) * UINT64_C(0x9e3779b97f4a7c15) +
                 sequence * UINT64_C(0xc2b2ae3d27d4eb4f);
    return &table[(h >> 40) % WEFT__MAIL_BUCKETS];
}

bool weft__mail_fits(const weft__envelope *from, int peer, const weft__frame *frame)
{
    return from->channel == frame->channel && from->group == frame->group &&
           from->sequence == frame->sequence && (from->peer == peer || from->peer == WEFT_ANY_RANK) &&
           (from->tag == frame->tag || from->tag == WEFT_ANY_TAG);
}

weft__want *weft__mail_find_want(weft__mail *mail, int peer, const weft__frame *frame)
{
    weft__list *bucket =
        weft__mail_bucket(mail->wanted, (weft__channel)frame->channel, frame->group, frame->sequence);
    WEFT__LIST_EACH(bucket, at)
    {
        weft__want *want = WEFT__LIST_ENTRY(at, weft__want, link);
        if (weft__mail_fits(&want->from, peer, frame)) return want;
    }
    return NULL;
}

bool weft__mail_is_for(weft__mail *mail, int peer, const weft__frame *frame, const weft__want *want)
{
    bool first = (uintptr_t)want->link.prev - (uintptr_t)mail->wanted < sizeof mail->wanted;
    return weft__mail_fits(&want->from, peer, frame) &&
           (WEFT__LIKELY(first) || weft__mail_find_want(mail, peer, frame) == want);
}

weft__early *weft__mail_find_early(weft__mail *mail, const weft__envelope *from)
{
    weft__list *bucket;
    if (WEFT__LIKELY(!mail->early_count)) return NULL;
    bucket = weft__mail_bucket(mail->early, from->channel, from->group, from->sequence);
    WEFT__LIST_EACH(bucket, at)
    {
        weft__early *early = WEFT__LIST_ENTRY(at, weft__early, link);
        if (!early->want && weft__mail_fits(from, early->peer, &early->frame)) return early;
    }
    return NULL;
}

weft_status weft__mail_judge(weft__want *want, int peer, const weft__frame *frame)
{
    bool apart = frame->flags & WEFT__FRAME_APART;
    *want->got = (weft__receipt){.peer = peer,
                                 .tag = frame->tag,
                                 .offered = frame->bytes,
                                 .dtype = frame->dtype,
                                 .apart = apart,
                                 .way = apart ? (uint8_t)frame->signature[1] : 0,
                                 .number = apart ? frame->signature[0] : 0};
    if (frame->dtype != want->from.dtype || apart != (want->from.meeting != NULL)) return WEFT_ERR_MISMATCH;
    if (apart && frame->signature[1] != want->from.meeting->way) return WEFT_ERR_MISMATCH;
    /* In a collective both sides know what the other should do. */
    if (frame->channel == WEFT__CHANNEL_COLLECTIVE && frame->bytes != want->room) return WEFT_ERR_MISMATCH;
    return frame->bytes > want->room ? WEFT_ERR_TRUNCATED : WEFT_OK;
}
