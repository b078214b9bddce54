/* mail_posted.c - receives and probes as they are posted: what is there for them already, and how they end
 * before their message does. */
#include "mail_box.h"
#include "status.h"

static bool is_starved(const weft__mail *mail, const weft__envelope *from)
{
    return WEFT__UNLIKELY(mail->starved) && (from->peer == WEFT_ANY_RANK || mail->peers[from->peer].starved);
}

void weft__mail_wait_for(weft__mail *mail, weft__want *want, bool in_front)
{
    const weft__envelope *from = &want->from;
    weft__list *bucket = weft__mail_bucket(mail->wanted, from->channel, from->group, from->sequence);
    weft__early *early = weft__mail_find_early(mail, from);
    weft__want_to(want, WEFT__WANT_POSTED);
    *want->got = (weft__receipt){.peer = from->peer,
                                 .tag = from->tag,
                                 .dtype = from->dtype,
                                 .apart = from->meeting != NULL,
                                 .way = from->meeting ? from->meeting->way : 0};
    if (early)
        weft__mail_meet_early(mail, want, early);
    else if (is_starved(mail, from))
        weft__mail_finish_want(mail, want, WEFT_ERR_MEMORY);
    else if (from->peer != WEFT_ANY_RANK && mail->peers[from->peer].gone)
        weft__mail_finish_want(mail, want, WEFT_ERR_PEER);
    else
        weft__list_append(in_front ? bucket->next : bucket, &want->link);
}

weft__envelope *weft__mail_want(weft__mail *mail)
{
    weft__want *want = weft__slab_get_locked(&mail->wants);
    if (WEFT__LIKELY(want)) return &want->from;
    weft__fail(WEFT_ERR_MEMORY, "no memory for a receive, or %u are under way", WEFT__LETTERS_MAX);
    return NULL;
}

weft__want *weft__mail_probe(weft__mail *mail, weft__envelope *from, weft__receipt *receipt,
                             weft__completion *completion)
{
    weft__want *want = WEFT__OWNER(from, weft__want, from);
    WEFT__ASSERT(from->channel != WEFT__CHANNEL_COLLECTIVE && !from->meeting);
    weft__list_init(&want->link);
    want->abandoned = want->only = false;
    want->probes = true;
    want->held = NULL;
    want->got = receipt;
    want->completion = completion;
    weft__mail_wait_for(mail, want, false);
    return want;
}

weft__want *weft__mail_post(weft__mail *mail, weft__envelope *from, void *buf, size_t room,
                            weft__receipt *receipt, weft__completion *completion)
{
    weft__want *want = WEFT__OWNER(from, weft__want, from);
    weft__list_init(&want->link);
    want->abandoned = want->probes = want->only = false;
    want->held = NULL;
    want->buf = buf;
    want->room = room;
    want->got = receipt ? receipt : &want->own;
    want->completion = completion;
    if (from->meeting) from->meeting->want = want;
    weft__mail_wait_for(mail, want, false);
    return want;
}

bool weft__mail_flowing(const weft__want *want)
{
    return want->state == WEFT__WANT_FLOWING;
}

void weft__mail_take_no_other(weft__want *want)
{
    want->only = true;
}

void weft__mail_cancel_receive(weft__mail *mail, weft__want *want)
{
    weft__peer_box *box;
    WEFT__ASSERT_HOT(want->state != WEFT__WANT_FREE && !want->abandoned);
    if (want->probes) {
        weft__mail_let_go(mail, want);
        return;
    }
    if (want->state == WEFT__WANT_POSTED || want->from.meeting) {
        weft__mail_free_want(mail, want);
        return;
    }
    /* The message is on its way: what still comes is thrown away, the record stays until then. */
    want->own = *want->got;
    want->got = &want->own;
    want->abandoned = true;
    box = &mail->peers[want->got->peer];
    if (box->route) box->route->forget(box->route, want->got->peer, want->buf + want->got->bytes);
}
