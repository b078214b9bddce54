/* tcp_recheck.c - the links checked without being told of, and what may become one.
 *
 * Nothing else reads a link without an edge of the set (poller.h), and why none is lost is written in
 * tcp_link.c.  If one were all the same, by the kernel or by us, the rank would stand for good, though all it
 * waits for lies in its sockets.  So whoever watches deadlines has every link read and written as well,
 * every handshake taken a step further, and connections accepted; and the log tells when that was needed.
 *
 * Whether it was is known for certain: what lies in a socket before the set is asked, and has not been tried
 * when all that the set told of has been attended to, was not told of. */
#include "clock.h"
#include "log.h"
#include "tcp_link.h"

#include <poll.h>
#include <sys/ioctl.h>

#define EVERY_NS    (100 * WEFT__MS)
#define POLL_EVENTS 64 /* attended to by one poll of the set, if there are so many */

uint32_t weft__tcp_ready(int fd, short wanted)
{
    struct pollfd at = {.fd = fd, .events = wanted};
    return poll(&at, 1, 0) == 1 ? (uint32_t)at.revents : 0;
}

void weft__tcp_looks_note(weft__tcp_looks *looks, uint32_t ready)
{
    looks->noted = looks->made;
    looks->ready = ready != 0;
}

bool weft__tcp_looks_missed(const weft__tcp_looks *looks)
{
    return looks->ready && looks->made == looks->noted;
}

/* A link that goes on in the next poll needs no edge, nor does one of whose frame little has come. */
static void note(weft__tcp_link *link)
{
    int bytes = 0;
    link->noted = (weft__tcp_noted){.reads = link->reads, .writes = link->writes};
    if (!weft__list_empty(&link->queued)) return;
    if (!ioctl(link->polled.fd, FIONREAD, &bytes) && bytes >= link->wake_bytes) link->noted.bytes = bytes;
    link->noted.room = link->blocked && weft__tcp_ready(link->polled.fd, POLLOUT) & POLLOUT;
}

static void tcp_recheck_tell(const weft__tcp_link *link)
{
    const weft__tcp_noted *noted = &link->noted;
    if (noted->bytes && link->reads == noted->reads)
        weft__log(WEFT__WARN, "tcp: %d B from rank %d had come, and nothing told of them: they are read now",
                  noted->bytes, link->peer->rank);
    if (noted->room && link->writes == noted->writes)
        weft__log(WEFT__WARN,
                  "tcp: rank %d had taken what was sent to it, and nothing told of that: more is sent now",
                  link->peer->rank);
}

/* All that it tells of now: links, connections being made, the processes of other ranks. */
static void tcp_recheck_attend(weft__tcp *tcp)
{
    int most = (2 * tcp->world + WEFT__TCP_GUESTS) / POLL_EVENTS + 2;
    while (most-- > 0 && weft__poller_poll(tcp->poller) > 0) continue;
}

/* A peer's link comes once and goes for good, at any call that reads or writes. */
void weft__tcp_recheck(weft__tcp *tcp)
{
    int64_t now = weft__now_ns();
    if (now < tcp->recheck_at_ns) return;
    tcp->recheck_at_ns = now + EVERY_NS;
    weft__tcp_accept_note(tcp);
    for (int r = 0; r < tcp->world; r++) {
        weft__tcp_dial_note(&tcp->peer[r]);
        if (tcp->peer[r].link) note(tcp->peer[r].link);
    }
    tcp_recheck_attend(tcp);
    tcp->alarm.ready(&tcp->alarm, 0); /* has nothing to do, or what a lost edge has left */
    weft__tcp_accept_recheck(tcp);
    for (int r = 0; r < tcp->world; r++) {
        weft__tcp_dial_recheck(&tcp->peer[r]);
        if (!tcp->peer[r].link) continue;
        tcp_recheck_tell(tcp->peer[r].link);
        tcp->peer[r].link->blocked = false;
        weft__tcp_link_write(tcp->peer[r].link);
        if (tcp->peer[r].link) weft__tcp_link_read(tcp->peer[r].link);
    }
}
