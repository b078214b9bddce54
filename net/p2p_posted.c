/* p2p_posted.c - receives and probes as they are posted: what is there for them already, and how they end
 * before their message does. */
#include "p2p_box.h"
#include "status.h"

static bool is_starved(const weft__p2p *p2p, const weft__envelope *from)
{
    return WEFT__UNLIKELY(p2p->starved) && (from->peer == WEFT_ANY_RANK || p2p->peers[from->peer].starved);
}

void weft__p2p_wait_for(weft__p2p *p2p, weft__recv *recv, bool in_front)
{
    const weft__envelope *from = &recv->from;
    weft__list *bucket = weft__p2p_bucket(p2p->posted, from->channel, from->group, from->sequence);
    weft__unexpected *unexpected = weft__p2p_find_unexpected(p2p, from);
    weft__recv_to(recv, WEFT__RECV_POSTED);
    *recv->got = (weft__recv_result){.peer = from->peer,
                                     .tag = from->tag,
                                     .dtype = from->dtype,
                                     .apart = from->hook != NULL,
                                     .way = from->hook ? from->hook->way : 0};
    if (unexpected)
        weft__p2p_match_unexpected(p2p, recv, unexpected);
    else if (is_starved(p2p, from))
        weft__p2p_finish_recv(p2p, recv, WEFT_ERR_MEMORY);
    else if (from->peer != WEFT_ANY_RANK && p2p->peers[from->peer].gone)
        weft__p2p_finish_recv(p2p, recv, WEFT_ERR_PEER);
    else
        weft__list_append(in_front ? bucket->next : bucket, &recv->link);
}

weft__envelope *weft__p2p_new_recv(weft__p2p *p2p)
{
    weft__recv *recv = weft__slab_get_locked(&p2p->recvs);
    if (WEFT__LIKELY(recv)) return &recv->from;
    weft__fail(WEFT_ERR_MEMORY, "no memory for a receive, or %u are under way", WEFT__SENDS_MAX);
    return NULL;
}

weft__recv *weft__p2p_probe(weft__p2p *p2p, weft__envelope *from, weft__recv_result *recv_result,
                            weft__completion *completion)
{
    weft__recv *recv = WEFT__OWNER(from, weft__recv, from);
    WEFT__ASSERT(from->channel != WEFT__CHANNEL_COLLECTIVE && !from->hook);
    weft__list_init(&recv->link);
    recv->abandoned = recv->only = false;
    recv->probes = true;
    recv->held = NULL;
    recv->got = recv_result;
    recv->completion = completion;
    weft__p2p_wait_for(p2p, recv, false);
    return recv;
}

weft__recv *weft__p2p_post(weft__p2p *p2p, weft__envelope *from, void *buf, size_t room,
                           weft__recv_result *recv_result, weft__completion *completion)
{
    weft__recv *recv = WEFT__OWNER(from, weft__recv, from);
    weft__list_init(&recv->link);
    recv->abandoned = recv->probes = recv->only = false;
    recv->held = NULL;
    recv->buf = buf;
    recv->room = room;
    recv->got = recv_result ? recv_result : &recv->own;
    recv->completion = completion;
    if (from->hook) from->hook->recv = recv;
    weft__p2p_wait_for(p2p, recv, false);
    return recv;
}

bool weft__p2p_flowing(const weft__recv *recv)
{
    return recv->state == WEFT__RECV_FLOWING;
}

void weft__p2p_take_no_other(weft__recv *recv)
{
    recv->only = true;
}

void weft__p2p_cancel_receive(weft__p2p *p2p, weft__recv *recv)
{
    weft__peer_box *box;
    WEFT__ASSERT_HOT(recv->state != WEFT__RECV_FREE && !recv->abandoned);
    if (recv->probes) {
        weft__p2p_let_go(p2p, recv);
        return;
    }
    if (recv->state == WEFT__RECV_POSTED || recv->from.hook) {
        weft__p2p_free_recv(p2p, recv);
        return;
    }
    /* The message is on its way: what still comes is thrown away, the record stays until then. */
    recv->own = *recv->got;
    recv->got = &recv->own;
    recv->abandoned = true;
    box = &p2p->peers[recv->got->peer];
    if (box->route) box->route->forget(box->route, recv->got->peer, recv->buf + recv->got->bytes);
}
