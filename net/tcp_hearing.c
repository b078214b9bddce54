/* tcp_hearing.c - whether the host at the other end lives (hearing.h): what its kernel has acknowledged.
 *
 * A kernel acknowledges whatever its program does: also what a receive buffer that is full cannot take, which is why bytes
 * that are held back (and not sent) say less than those on their way.  What waits for an acknowledgement is asked for only now
 * and then, so that its beginning is known to one such look; the time of the last acknowledgement is the kernel's own.
 *
 * A beat is a frame without anything (ACK), where nothing else is on its way. */
#include "clock.h"
#include "tcp_link.h"

#include <errno.h>
#include <linux/tcp.h> /* and not netinet/tcp.h, whose tcp_info is older */
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

static weft__tcp_peer *peer_of(const weft__transport *t, int rank)
{
    weft__tcp *tcp = WEFT__OWNER(t, weft__tcp, transport);
    WEFT__ASSERT(rank >= 0 && rank < tcp->world, rank);
    return &tcp->peer[rank];
}

/* ---- silence ---- */

static void beat(weft__tcp_link *link)
{
    if (!link->tells) {
        link->tells = true;
        weft__list_append(&link->peer->tcp->telling, &link->telling);
    }
    weft__tcp_link_write(link);
}

static weft__silence link_silence(weft__tcp_link *link, int64_t beat_ns, int64_t now_ns)
{
    struct tcp_info info = {0};
    socklen_t length = sizeof info;
    weft__silence silence = {.stands = true};
    if (getsockopt(link->polled.fd, IPPROTO_TCP, TCP_INFO, &info, &length)) return silence; /* no TCP */
    silence.heard_ns =
        now_ns - WEFT__MS * (info.tcpi_last_ack_recv < info.tcpi_last_data_recv ? info.tcpi_last_ack_recv
                                                                                : info.tcpi_last_data_recv);
    silence.round_ns = ((int64_t)info.tcpi_rtt + 4 * (int64_t)info.tcpi_rttvar) * WEFT__US;
    silence.sent = info.tcpi_unacked > 0;
    if (!info.tcpi_unacked && !info.tcpi_notsent_bytes) {
        link->waits_ns = 0;
        if (!beat_ns || now_ns - silence.heard_ns < beat_ns / 2) return silence;
        link->waits_ns = now_ns;
        beat(link);
        return silence;
    }
    if (!link->waits_ns) link->waits_ns = now_ns;
    silence.since_ns = link->waits_ns > silence.heard_ns ? link->waits_ns : silence.heard_ns;
    return silence;
}

static weft__silence tcp_silence(weft__transport *t, int rank, int64_t beat_ns, int64_t now_ns)
{
    weft__tcp_peer *peer = peer_of(t, rank);
    weft__silence dialled = {.sent = true}; /* keepalive looks after what follows its SYN's answer */
    if (peer->link) return link_silence(peer->link, beat_ns, now_ns);
    if (peer->dial) dialled.since_ns = weft__tcp_dial_unheard(peer);
    return dialled;
}

static void tcp_renew(weft__transport *t, int rank, const char *why)
{
    weft__tcp_peer *peer = peer_of(t, rank);
    if (peer->link && peer->state == WEFT__TCP_UP) weft__tcp_mend(peer, "rank %d: %s", rank, why);
}

/* ---- knocks ---- */

static void tcp_end_knock(weft__knock *knock)
{
    weft__poller_remove(knock->poller, &knock->polled);
    close(knock->polled.fd);
    knock->end = NULL;
}

static bool is_answer(int error)
{
    return !error || error == ECONNREFUSED || error == ECONNRESET || error == EPIPE;
}

static void knock_ready(weft__polled *w, uint32_t events)
{
    weft__knock *knock = WEFT__OWNER(w, weft__knock, polled);
    int error = 0;
    socklen_t length = sizeof error;
    (void)events;
    getsockopt(w->fd, SOL_SOCKET, SO_ERROR, &error, &length);
    weft__knock_end(knock);
    if (is_answer(error)) knock->answered(knock);
}

static void tcp_look_at_knock(weft__knock *knock)
{
    struct pollfd look = {.fd = knock->polled.fd, .events = POLLOUT};
    if (poll(&look, 1, 0) > 0) knock_ready(&knock->polled, 0);
}

static bool tcp_knock(weft__transport *t, int rank, weft__knock *knock)
{
    weft__tcp_peer *peer = peer_of(t, rank);
    const struct linger reset = {.l_onoff = 1}; /* nothing of it is to stay, in no kernel */
    struct sockaddr_storage name;
    socklen_t length;
    int fd;
    weft__knock_end(knock);
    if (peer->address.family != 4 && peer->address.family != 6) return false;
    length = weft__tcp_name(&peer->address, &name);
    fd = socket(name.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return false;
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    if (connect(fd, (struct sockaddr *)&name, length) && errno != EINPROGRESS) {
        const int error = errno;
        close(fd);
        if (is_answer(error)) knock->answered(knock);
        return !weft__tcp_is_own_want(error);
    }
    knock->poller = peer->tcp->poller;
    knock->polled = (weft__polled){.fd = fd, .ready = knock_ready};
    if (weft__poller_add(knock->poller, &knock->polled, EPOLLOUT)) {
        close(fd);
        return false;
    }
    knock->look = tcp_look_at_knock;
    knock->end = tcp_end_knock;
    return true;
}

static bool tcp_is_beside(const weft__transport *t, int rank, int other)
{
    const weft__tcp_address *a = &peer_of(t, rank)->address, *b = &peer_of(t, other)->address;
    return a->family == b->family && !memcmp(a->bytes, b->bytes, sizeof a->bytes);
}

const weft__hearing weft__tcp_hearing = {.silence = tcp_silence,
                                         .knock = tcp_knock,
                                         .renew = tcp_renew,
                                         .is_beside = tcp_is_beside};
