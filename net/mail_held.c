/* mail_held.c - messages that a probe has found and holds until their receive.
 *
 *   POSTED -> [FLOWING, while its frame is still coming in ->] HOLDING -> received, or let go
 *
 * A message that is held stays in its bucket, among those that wait for a receive, in the order of arrival;
 * it names what holds it, and a search passes it over.  So one that is let go is where it was.
 * Failing: the sender of one that was only announced may give it up, or end, meanwhile. The probe's owner has
 * been told of it; so it stays, and its receive ends in what became of it. */
#include "mail_box.h"

void weft__mail_hold(weft__mail *mail, weft__want *probe, weft__early *early)
{
    weft__completion *completion = probe->completion;
    const weft__frame *frame = &early->frame;
    bool apart = frame->flags & WEFT__FRAME_APART;
    WEFT__ASSERT(mail->early_count && early->whole && frame->channel != WEFT__CHANNEL_COLLECTIVE);
    early->want = probe;
    probe->held = early;
    weft__want_to(probe, WEFT__WANT_HOLDING);
    *probe->got = (weft__receipt){.peer = early->peer,
                                  .tag = frame->tag,
                                  .offered = frame->bytes,
                                  .dtype = frame->dtype,
                                  .apart = apart,
                                  .way = apart ? (uint8_t)frame->signature[1] : 0,
                                  .number = apart ? frame->signature[0] : 0};
    weft__complete(completion, WEFT_OK);
}

/* Whoever waits for it gets it, who has waited longest first. */
static void offer(weft__mail *mail, weft__early *early)
{
    weft__want *want;
    early->want = NULL;
    if (early->ended != WEFT_OK) {
        weft__mail_drop_early(mail, early);
        return;
    }
    want = weft__mail_find_want(mail, early->peer, &early->frame);
    if (!want) return;
    weft__list_remove(&want->link);
    weft__mail_meet_early(mail, want, early);
}

void weft__mail_let_go(weft__mail *mail, weft__want *probe)
{
    weft__early *early = probe->held;
    weft__mail_free_want(mail, probe);
    if (early) offer(mail, early);
}

void weft__mail_receive_held(weft__mail *mail, weft__want *probe, uint8_t dtype, weft__meeting *meeting,
                             void *buf, size_t room, weft__receipt *receipt, weft__completion *completion)
{
    weft__early *early = probe->held;
    weft_status ended = early->ended;
    WEFT__ASSERT(probe->state == WEFT__WANT_HOLDING && early->want == probe, probe->state);
    probe->probes = false;
    probe->only = true;
    probe->held = NULL;
    probe->from.dtype = dtype;
    probe->from.meeting = meeting;
    if (meeting) meeting->want = probe;
    probe->buf = buf;
    probe->room = room;
    probe->got = receipt;
    probe->completion = completion;
    early->want = NULL;
    if (ended == WEFT_OK) {
        weft__mail_meet_early(mail, probe, early);
        return;
    }
    weft__mail_judge(probe, early->peer, &early->frame); /* for what it tells of the message */
    weft__mail_drop_early(mail, early);
    weft__mail_finish_want(mail, probe, ended);
}

void weft__mail_withdraw(weft__mail *mail, weft__early *early, weft_status status)
{
    if (!early->want)
        weft__mail_drop_early(mail, early);
    else if (early->ended == WEFT_OK)
        early->ended = status;
}

void weft__mail_withdraw_all(weft__mail *mail, int peer)
{
    for (int i = 0; i < WEFT__MAIL_BUCKETS; i++) WEFT__LIST_EACH(&mail->early[i], at)
        {
            weft__early *early = WEFT__LIST_ENTRY(at, weft__early, link);
            if (early->peer == peer && early->frame.kind == WEFT__FRAME_REQUEST)
                weft__mail_withdraw(mail, early, WEFT_ERR_PEER);
        }
}
