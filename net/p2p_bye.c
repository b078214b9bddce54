/* p2p_bye.c - goodbyes: a rank's own as it leaves, and those of its peers.
 *
 * Whoever a frame was exchanged with gets a goodbye as the last of them, and answers once it has read it, and
 * with it all that came before.  For others there is nothing to wait for.  Those of them that would see this
 * process end, and take that for a death, find with their transport that it has left (transport.h, leave): no
 * way to them has to be made for it. */
#include "p2p_box.h"

#include <stdio.h>
#include <string.h>

void weft__p2p_bye_to(weft__p2p *p2p, int peer)
{
    weft__peer_box *box = &p2p->peers[peer];
    const weft__frame frame = {.kind = WEFT__FRAME_BYE, .tag = (int32_t)p2p->bye_status};
    /* Where nothing ever went, nobody can be waiting for something to be taken. */
    bool awaited = box->touched;
    box->bye_sent = true;
    box->bye_awaited = weft__p2p_note(p2p, peer, &frame, p2p->bye_why, strlen(p2p->bye_why)) && awaited;
}

void weft__p2p_bye(weft__p2p *p2p, weft_status status, const char *why, bool at_once)
{
    p2p->leaving_all = true;
    p2p->bye_status = status;
    snprintf(p2p->bye_why, sizeof p2p->bye_why, "%s", why);
    for (int i = 0; i < p2p->route_count; i++)
        if (p2p->routes[i]->leave) p2p->routes[i]->leave(p2p->routes[i], status, p2p->bye_why);
    for (int peer = 0; peer < p2p->world; peer++) {
        const weft__peer_box *box = &p2p->peers[peer];
        if (!box->route || box->gone) continue;
        if (box->touched)
            weft__p2p_bye_to(p2p, peer);
        else if (at_once && box->route->tell_left)
            box->route->tell_left(box->route, peer);
    }
}

/* One that leaves too, and has not read that this rank ever wrote to it, may go without an answer. */
bool weft__p2p_awaits_bye(const weft__p2p *p2p, int peer)
{
    const weft__peer_box *box = &p2p->peers[peer];
    return box->bye_awaited && !box->gone && !box->bye_taken && !box->said_bye &&
           !(box->route->has_left && box->route->has_left(box->route, peer));
}

int weft__p2p_bye_awaited(const weft__p2p *p2p)
{
    for (int peer = 0; peer < p2p->world; peer++)
        if (weft__p2p_awaits_bye(p2p, peer)) return peer;
    return -1;
}

bool weft__p2p_took_bye(const weft__p2p *p2p, int peer)
{
    return p2p->peers[peer].bye_taken;
}

void weft__p2p_heard_too_late(weft__p2p *p2p, int peer)
{
    if (p2p->events->late_bye) p2p->events->late_bye(p2p->events, peer);
    weft__p2p_bye_to(p2p, peer);
    p2p->peers[peer].bye_awaited = false;
}

/* ---- those of peers ---- */

void weft__p2p_left(weft__sink *sink, int peer, weft_status status, const char *why)
{
    weft__p2p *p2p = WEFT__OWNER(sink, weft__p2p, sink);
    weft__peer_box *box = &p2p->peers[peer];
    if (box->gone || box->said_bye || !box->route) return;
    box->said_bye = true;
    if (weft__list_empty(&box->leaving)) weft__list_append(&p2p->leaving, &box->leaving);
    p2p->events->left(p2p->events, peer, status, why);
}

void weft__p2p_bye_arrived(weft__p2p *p2p, int peer, weft_status status, const char *why)
{
    const weft__frame taken = {.kind = WEFT__FRAME_BYE_TAKEN};
    weft__p2p_note(p2p, peer, &taken, NULL, 0);
    weft__p2p_left(&p2p->sink, peer, status, why);
}

/* Nothing more comes from it, and it closes its end of a connection: that is no break, which would be mended.  A ring
 * in shared memory is read on: the other end waits until all that it wrote is taken. */
void weft__p2p_bye_taken(weft__p2p *p2p, int peer)
{
    weft__peer_box *box = &p2p->peers[peer];
    weft__transport *route = box->route;
    if (!route) return; /* in this rank's own name: nobody but a broken peer says so */
    box->bye_taken = true;
    if (!(route->traits & WEFT__TRANSPORT_LOCAL) && route->flushed(route, peer)) route->drop(route, peer);
}

void weft__p2p_drop_routes(weft__p2p *p2p)
{
    WEFT__LIST_EACH(&p2p->leaving, at)
    {
        weft__peer_box *box = WEFT__LIST_ENTRY(at, weft__peer_box, leaving);
        const int peer = (int)(box - p2p->peers);
        if (!box->route->flushed(box->route, peer)) continue;
        weft__list_remove(at);
        box->route->drop(box->route, peer);
    }
}
