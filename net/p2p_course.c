/* p2p_course.c - peers that were dropped and live: they are gone until there is a connection to them that begins anew, which
 * is another course of frames (transport.h). */
#include "p2p_box.h"

void weft__p2p_goes_astray(weft__sink *sink, int peer, const char *why)
{
    weft__p2p *p2p = WEFT__OWNER(sink, weft__p2p, sink);
    if (p2p->peers[peer].gone) return;
    if (p2p->leaving_all)
        weft__p2p_drop(p2p, peer);
    else if (p2p->events->let_go)
        p2p->events->let_go(p2p->events, peer, why);
    else
        p2p->events->lost(p2p->events, peer, why);
}

/* All that was between the two is over at both ends: both begin with what a new peer has.  What had arrived and nobody has
 * received is of groups that are broken, or will be; it goes, or it would be kept beside all that a new peer may send.  What a
 * probe holds is received. */
static void come_back(weft__p2p *p2p, int peer)
{
    weft__peer_box *box = &p2p->peers[peer];
    for (int i = 0; i < WEFT__P2P_BUCKETS; i++) WEFT__LIST_EACH(&p2p->unexpected[i], at)
        {
            weft__unexpected *unexpected = WEFT__LIST_ENTRY(at, weft__unexpected, link);
            if (unexpected->peer == peer && !unexpected->recv) weft__p2p_drop_unexpected(p2p, unexpected);
        }
    box->gone = box->dropping = box->astray = false;
    box->bye_sent = box->bye_awaited = box->bye_taken = false;
    box->touched = box->heard = true;
    box->credit = WEFT__CREDIT_BYTES;
    box->owed = 0;
    box->unanswered = 0;
}

void weft__p2p_connected(weft__sink *sink, int peer)
{
    weft__p2p *p2p = WEFT__OWNER(sink, weft__p2p, sink);
    const bool returns = p2p->peers[peer].astray;
    if (returns) come_back(p2p, peer);
    if (p2p->events->connected) p2p->events->connected(p2p->events, peer);
    /* It was not there when all others heard that this rank leaves. */
    if (returns && p2p->leaving_all && !p2p->peers[peer].gone) weft__p2p_bye_to(p2p, peer);
}

bool weft__p2p_begin_anew(weft__p2p *p2p, int peer)
{
    weft__peer_box *box = &p2p->peers[peer];
    WEFT__ASSERT(box->gone && !box->said_bye, peer);
    if (!box->route || !box->route->begin_anew) return false;
    box->astray = true;
    box->route->begin_anew(box->route, peer);
    return true;
}

uint32_t weft__p2p_course(const weft__p2p *p2p, int peer)
{
    const weft__transport *route = p2p->peers[peer].route;
    return route && route->course ? route->course(route, peer) : 0;
}
