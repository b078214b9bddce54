/* tcp_mend.c - a connection that broke, and the one that takes its place.
 *
 * That a connection is over says little of the rank at its other end: a reset, a link that was down, somebody in
 * between.  So both ends dial again, as they did at first (tcp_connect.c: the lower rank's connection stays), for
 * WEFT_RECONNECT_MS.  A rank that has died refuses, or rather its host does, at once.  What is sent meanwhile
 * waits in the queues, as before the first connection.
 *
 * In the handshake each end tells where it stands (weft__tcp_standing): how many frames have arrived over all
 * connections so far, and how much of the next one.  The other end goes on from there, so nothing is lost and
 * nothing comes twice:
 *
 *   1. an end tells where it stands only when it reads from no other connection any more
 *   2. all that was written and not acknowledged is still there (tcp_kept.c), in order
 *   3. frames are numbered by the order in which they are first written, and written again in that order
 *
 * A sequence of frames is a course.  Where one end gives up a peer that lives (unreachable from here: hearing.h), what
 * it had sent is over, and its next connection begins another course, whose number is one more.  The higher number counts:
 * an end that is told of one lets go too, before anything of it is read.  Numbers never fall, and frames of a course
 * go only where both ends are at it: so of the one before nothing arrives in the next.
 *
 * One end may find out first.  Where the other one still reads from the old connection, the proof that comes over
 * the new one says that it is over.  A dial that lost against another one and is heard late is told apart by the number
 * of connections that its end knew of then: where that stood is over.  An acceptor cannot be sure that its own verdict
 * has arrived before it hears something over that connection. */
#include "clock.h"
#include "log.h"
#include "settings.h"
#include "status.h"
#include "tcp_link.h"

#include <stdio.h>

#define FRUITLESS_MOST 8 /* connections one after the other over which nothing arrived */

weft__tcp_standing weft__tcp_stand(const weft__tcp_peer *peer)
{
    const weft__tcp_arriving *in = &peer->in;
    WEFT__ASSERT(!peer->link && (!in->begun || in->got < in->frame.length), peer->rank, in->got);
    return (weft__tcp_standing){.taken = peer->taken,
                                .offset = in->begun ? (uint32_t)(sizeof in->frame + in->got) : 0,
                                .links = peer->links,
                                .course = peer->course};
}

bool weft__tcp_is_newer(const weft__tcp_peer *peer, const weft__tcp_standing *theirs)
{
    return weft__setting_int(WEFT__SET_RECONNECT_MS) && theirs->course == peer->course &&
           theirs->links >= peer->known;
}

bool weft__tcp_is_overtaken(const weft__tcp_peer *peer, const weft__tcp_standing *theirs)
{
    return peer->state == WEFT__TCP_MENDING && theirs->course == peer->course && theirs->links < peer->known;
}

void weft__tcp_unlink(weft__tcp_peer *peer)
{
    weft__tcp_lazy_no_more(peer);
    weft__tcp_link_end(peer->link);
    weft__tcp_kept_unwrite(peer);
    peer->untold = peer->untold_bytes = 0;
    peer->broken_ns = weft__now_ns();
    weft__tcp_peer_to(peer, WEFT__TCP_MENDING);
}

/* Whoever changes or cuts every connection is not to keep two ranks busy for ever.  One that ended for want of memory here is
 * nobody's doing. */
static bool is_worth_it(weft__tcp_peer *peer)
{
    if (weft__tcp_is_own_want(peer->link->error)) return peer->address.port;
    const uint64_t moved = peer->taken + weft__tcp_acknowledged_count(peer);
    peer->fruitless = moved == peer->moved_then ? peer->fruitless + 1 : 0;
    peer->moved_then = moved;
    return peer->fruitless < FRUITLESS_MOST && peer->address.port;
}

void weft__tcp_mend(weft__tcp_peer *peer, const char *format, ...)
{
    const int error = peer->link->error;
    char why[WEFT__TCP_WHY];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    if (!weft__setting_int(WEFT__SET_RECONNECT_MS) || !is_worth_it(peer)) {
        weft__tcp_lose(peer, "%s", why);
        return;
    }
    weft__tcp_unlink(peer);
    if (weft__tcp_is_own_want(error))
        weft__tcp_dial_begin_in_want(peer, why, error);
    else
        weft__tcp_dial_begin(peer, why);
}

/* What has arrived in part goes on where it stopped.  Its header, which does not come again, may say that its sender
 * has no need to hear of it; but what is written over a second connection is kept until then (tcp_kept.c). */
static void go_on_with_half(weft__tcp_peer *peer)
{
    weft__list *again = weft__tcp_again(peer);
    weft__outgoing *half = WEFT__LIST_ENTRY(again->next, weft__outgoing, link);
    if (peer->in.begun) peer->in.wanted = true;
    if (weft__list_empty(again) || !half->done) return;
    weft__list_remove(&half->link);
    peer->current = half;
}

static void tell_mended(weft__tcp_peer *peer)
{
    if (!peer->broken_ns || peer->tcp->me > peer->rank) return; /* one of both tells */
    weft__log(WEFT__WARN,
              "tcp: the connection of ranks %d and %d broke, and stands again after %.1f ms: nothing is lost",
              peer->tcp->me, peer->rank, (double)(weft__now_ns() - peer->broken_ns) / (double)WEFT__MS);
}

bool weft__tcp_go_on(weft__tcp_peer *peer, const weft__tcp_standing *theirs)
{
    const weft__tcp_link *link = peer->link;
    weft__list owners;
    const char *cannot;
    weft__list_init(&owners);
    cannot = weft__tcp_kept_resume(peer, theirs, &owners);
    if (cannot) {
        weft__tcp_kept_tell(&owners, WEFT_OK);
        weft__tcp_lose(peer, "rank %d: %s", peer->rank, cannot);
        return false;
    }
    go_on_with_half(peer);
    tell_mended(peer);
    weft__tcp_kept_tell(&owners, WEFT_OK);
    return peer->link == link;
}
