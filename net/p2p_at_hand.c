/* p2p_at_hand.c - messages that a receive takes from where they wait: a transport that can tell what comes
 * next from a rank (transport.h: next, take, read) is asked for it by a receive when it is called, and by one
 * that is waited for. */
#include "p2p_box.h"

/* Messages for receives posted before, which are let through by one that looks for its own: so those that
 * come faster than they are asked for are caught up with, and no call takes long. */
#define CATCH_UP 3

/* A whole one between two ranks. */
static inline bool is_message(const weft__frame *frame)
{
    return frame->kind == WEFT__FRAME_EAGER && frame->channel != WEFT__CHANNEL_COLLECTIVE;
}

/* Is this what such a receive would get, and would take? */
static inline bool suits(weft__p2p *p2p, const weft__envelope *from, size_t room, const weft__frame *frame)
{
    return weft__p2p_fits(from, from->peer, frame) && !weft__p2p_find_unexpected(p2p, from) &&
           frame->dtype == from->dtype && !(frame->flags & WEFT__FRAME_APART) && frame->bytes <= room;
}

const weft__frame *weft__p2p_at_hand(weft__p2p *p2p, const weft__envelope *from, size_t room)
{
    weft__peer_box *box = &p2p->peers[from->peer];
    weft__transport *route = box->route;
    const weft__frame *next;
    WEFT__ASSERT(from->channel != WEFT__CHANNEL_COLLECTIVE && !from->hook);
    if (!route || !route->next || box->gone || box->starved) return NULL;
    next = route->next(route, from->peer);
    for (int n = 0; next && is_message(next); n++) {
        if (WEFT__LIKELY(!weft__p2p_find_recv(p2p, from->peer, next)))
            return suits(p2p, from, room, next) ? next : NULL;
        if (n == CATCH_UP) break;
        route->read(route, from->peer);
        next = route->next(route, from->peer);
    }
    return NULL;
}

void weft__p2p_take(weft__p2p *p2p, int peer, const weft__frame *frame, void *buf)
{
    weft__peer_box *box = &p2p->peers[peer];
    size_t cost = weft__p2p_cost(frame);
    box->touched = box->heard = true;
    if (frame->flags & WEFT__FRAME_SMALL) weft__copy_small(buf, frame->small, frame->bytes);
    box->route->take(box->route, peer, buf);
    weft__p2p_owe(p2p, peer, cost);
}

bool weft__p2p_can_poll_for(const weft__p2p *p2p, const weft__recv *recv)
{
    const weft__peer_box *box;
    if (recv->state != WEFT__RECV_POSTED || recv->from.peer == WEFT_ANY_RANK) return false;
    box = &p2p->peers[recv->from.peer];
    return box->route && box->route->next && !box->gone;
}

bool weft__p2p_poll_for(weft__p2p *p2p, weft__recv *recv)
{
    int peer = recv->from.peer;
    weft__transport *route = p2p->peers[peer].route;
    const weft__frame *next = route->next(route, peer);
    WEFT__ASSERT(recv->state == WEFT__RECV_POSTED);
    if (!next) return false;
    if (!is_message(next) || !weft__p2p_is_for(p2p, peer, next, recv) || recv->probes ||
        weft__p2p_judge(recv, peer, next) != WEFT_OK) {
        route->read(route, peer);
        return true;
    }
    recv->got->bytes = next->bytes;
    weft__p2p_take(p2p, peer, next, recv->buf);
    weft__p2p_finish_recv(p2p, recv, WEFT_OK);
    return true;
}
