/* p2p_held.c - messages that a probe has found and holds until their receive.
 *
 *   POSTED -> [FLOWING, while its frame is still coming in ->] HOLDING -> received, or let go
 *
 * A message that is held stays in its bucket, among those that wait for a receive, in the order of arrival;
 * it names what holds it, and a search passes it over.  So one that is let go is where it was.
 *
 * Failing: the sender of one that was only announced may give it up, or end, meanwhile. The probe's owner has
 * been told of it; so it stays, and its receive ends in what became of it. */
#include "p2p_box.h"

void weft__p2p_hold(weft__p2p *p2p, weft__recv *probe, weft__unexpected *unexpected)
{
    weft__completion *completion = probe->completion;
    const weft__frame *frame = &unexpected->frame;
    WEFT__ASSERT(p2p->unexpected_count && unexpected->whole && frame->channel != WEFT__CHANNEL_COLLECTIVE);
    unexpected->recv = probe;
    probe->held = unexpected;
    weft__recv_to(probe, WEFT__RECV_HOLDING);
    *probe->got = weft__p2p_result(unexpected->peer, frame);
    weft__complete(completion, WEFT_OK);
}

/* Whoever waits for it gets it, who has waited longest first. */
static void offer(weft__p2p *p2p, weft__unexpected *unexpected)
{
    weft__recv *recv;
    unexpected->recv = NULL;
    if (unexpected->ended != WEFT_OK) {
        weft__p2p_drop_unexpected(p2p, unexpected);
        return;
    }
    recv = weft__p2p_find_recv(p2p, unexpected->peer, &unexpected->frame);
    if (!recv) return;
    weft__list_remove(&recv->link);
    weft__p2p_match_unexpected(p2p, recv, unexpected);
}

void weft__p2p_let_go(weft__p2p *p2p, weft__recv *probe)
{
    weft__unexpected *unexpected = probe->held;
    weft__p2p_free_recv(p2p, probe);
    if (unexpected) offer(p2p, unexpected);
}

void weft__p2p_receive_held(weft__p2p *p2p, weft__recv *probe, uint8_t dtype, weft__match_hook *hook,
                            void *buf, size_t room, weft__recv_result *recv_result,
                            weft__completion *completion)
{
    weft__unexpected *unexpected = probe->held;
    weft_status ended = unexpected->ended;
    WEFT__ASSERT(probe->state == WEFT__RECV_HOLDING && unexpected->recv == probe, probe->state);
    probe->probes = false;
    probe->only = true;
    probe->held = NULL;
    probe->from.dtype = dtype;
    probe->from.hook = hook;
    if (hook) hook->recv = probe;
    probe->buf = buf;
    probe->room = room;
    probe->got = recv_result;
    probe->completion = completion;
    unexpected->recv = NULL;
    if (ended == WEFT_OK) {
        weft__p2p_match_unexpected(p2p, probe, unexpected);
        return;
    }
    weft__p2p_judge(probe, unexpected->peer, &unexpected->frame); /* for what it tells of the message */
    weft__p2p_drop_unexpected(p2p, unexpected);
    weft__p2p_finish_recv(p2p, probe, ended);
}

void weft__p2p_withdraw(weft__p2p *p2p, weft__unexpected *unexpected, weft_status status)
{
    if (!unexpected->recv)
        weft__p2p_drop_unexpected(p2p, unexpected);
    else if (unexpected->ended == WEFT_OK)
        unexpected->ended = status;
}

void weft__p2p_withdraw_all(weft__p2p *p2p, int peer)
{
    for (int i = 0; i < WEFT__P2P_BUCKETS; i++) WEFT__LIST_EACH(&p2p->unexpected[i], at)
        {
            weft__unexpected *unexpected = WEFT__LIST_ENTRY(at, weft__unexpected, link);
            if (unexpected->peer == peer && unexpected->frame.kind == WEFT__FRAME_RTS)
                weft__p2p_withdraw(p2p, unexpected, WEFT_ERR_PEER);
        }
}
