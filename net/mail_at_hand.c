/* mail_at_hand.c - messages that a receive takes from where they wait: a transport that can tell what comes
 * next from a rank (transport.h: next, take, read) is asked for it by a receive when it is called, and by one
 * that is waited for. */
#include "mail_box.h"

/* Messages for receives posted before, which are let through by one that looks for its own: so those that
 * come faster than they are asked for are caught up with, and no call takes long. */
#define CATCH_UP 3

/* A whole one between two ranks. */
static inline bool is_message(const weft__frame *frame)
{
    return frame->kind == WEFT__FRAME_EAGER && frame->channel != WEFT__CHANNEL_COLLECTIVE;
}

/* Is this what such a receive would get, and would take? */
static inline bool suits(weft__mail *mail, const weft__envelope *from, size_t room, const weft__frame *frame)
{
    return weft__mail_fits(from, from->peer, frame) && !weft__mail_find_early(mail, from) &&
           frame->dtype == from->dtype && !(frame->flags & WEFT__FRAME_APART) && frame->bytes <= room;
}

const weft__frame *weft__mail_at_hand(weft__mail *mail, const weft__envelope *from, size_t room)
{
    weft__peer_box *box = &mail->peers[from->peer];
    weft__transport *route = box->route;
    const weft__frame *next;
    WEFT__ASSERT(from->channel != WEFT__CHANNEL_COLLECTIVE && !from->meeting);
    if (!route || !route->next || box->gone || box->starved) return NULL;
    next = route->next(route, from->peer);
    for (int n = 0; next && is_message(next); n++) {
        if (WEFT__LIKELY(!weft__mail_find_want(mail, from->peer, next)))
            return suits(mail, from, room, next) ? next : NULL;
        if (n == CATCH_UP) break;
        route->read(route, from->peer);
        next = route->next(route, from->peer);
    }
    return NULL;
}

void weft__mail_take(weft__mail *mail, int peer, const weft__frame *frame, void *buf)
{
    weft__peer_box *box = &mail->peers[peer];
    size_t cost = weft__mail_cost(frame);
    box->touched = box->heard = true;
    if (frame->flags & WEFT__FRAME_SMALL) weft__copy_small(buf, frame->small, frame->bytes);
    box->route->take(box->route, peer, buf);
    weft__mail_owe(mail, peer, cost);
}

bool weft__mail_can_look_for(const weft__mail *mail, const weft__want *want)
{
    const weft__peer_box *box;
    if (want->state != WEFT__WANT_POSTED || want->from.peer == WEFT_ANY_RANK) return false;
    box = &mail->peers[want->from.peer];
    return box->route && box->route->next && !box->gone;
}

bool weft__mail_look_for(weft__mail *mail, weft__want *want)
{
    int peer = want->from.peer;
    weft__transport *route = mail->peers[peer].route;
    const weft__frame *next = route->next(route, peer);
    WEFT__ASSERT(want->state == WEFT__WANT_POSTED);
    if (!next) return false;
    if (!is_message(next) || !weft__mail_is_for(mail, peer, next, want) || want->probes ||
        weft__mail_judge(want, peer, next) != WEFT_OK) {
        route->read(route, peer);
        return true;
    }
    want->got->bytes = next->bytes;
    weft__mail_take(mail, peer, next, want->buf);
    weft__mail_finish_want(mail, want, WEFT_OK);
    return true;
}
