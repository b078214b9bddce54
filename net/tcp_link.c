/* tcp_link.c - an established connection: frames in, frames out.
 *
 * Reading goes through a small buffer, so that many small frames cost one system call; what is missing of a
 * long payload is read straight to where it belongs, with the buffer behind it for the next header.  Writing
 * gathers headers and payloads of several frames.  Both stop after a poll's worth of bytes and go on in the
 * next poll.
 *
 * Why no edge is lost, though a link is read and written only when the set tells (poller.c), in a poll that
 * goes on (resume), or when somebody sends:
 *
 * - Reading ends with EAGAIN, with fewer bytes than there was room for, or with the poll's bytes.  After those the
 * link is in `resume`, which counts as busy: whoever lets the engine go then has the progress thread woken. A
 *   short read says, of a TCP socket that does not block, that its queue was empty when the kernel held its
 *   lock; each byte that is queued later makes an edge, also one that comes before the read has returned.  An
 * end of the connection makes one of its own, and is read on to if it had been announced before (hung_up).
 * - SO_RCVLOWAT holds edges back: while fewer bytes lie there than are wanted.  It is set after reading, to
 * no more than is missing of the frame, and to 1 between frames: the bytes wanted are on their way or with
 * the sender, who is not waiting for us.  The kernel checks whether enough are there when it is set, so that
 * those which came between reading and setting count.  If they never can lie there, because the receive
 * buffer is full or its window too small for the next segment, the kernel tells with fewer
 * (tcp_epollin_ready); it caps what is wanted at half the buffer.  Measured with buffers of 4 KiB to 32 MiB,
 * packets of 576 B to 64 KiB: nothing stood.
 * - Writing ends with an empty queue, with the poll's bytes (resume again), or with EAGAIN, after which the kernel
 * owes an edge once there is room: it notes under the socket's lock that somebody wants room, so
 * acknowledgements that come before sendmsg has returned count.  An edge that was fetched before that is for
 * a link that was not `blocked`, and is passed over; the one that is owed is another.
 * - A call from inside the link's own reading or writing does nothing, as the loop around it goes on.
 * - A link enters the set once, when it is up, and entering it makes an edge of what has come already.
 *
 * If one were lost all the same, tcp_recheck.c finds it.
 *
 * Fails by weft__tcp_lose: on the end of the connection, on a header that cannot be, on a socket error.  What
 * had arrived before is delivered first, also when it was writing that found the connection broken. */
#include "tcp_link.h"
#include "reserve.h"
#include "status.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#define BATCH_FRAMES 8 /* gathered into one system call */
/* Whoever sleeps is woken when so much of a long payload has come, and not for each packet. */
#define WAKE_BYTES (256 * 1024)
#define WAKE_WORTH (64 * 1024) /* below, what is missing comes with one or two packets */

static bool is_open(const weft__tcp_link *link)
{
    return link->polled.fd >= 0;
}

static const uint8_t ending_follows[] = {[WEFT__TCP_OPEN] = WEFT__MAY_BECOME(WEFT__TCP_DRAINING) |
                                                            WEFT__MAY_BECOME(WEFT__TCP_DROPPED),
                                         [WEFT__TCP_DRAINING] = WEFT__MAY_BECOME(WEFT__TCP_DROPPED),
                                         [WEFT__TCP_DROPPED] = 0};

/* The one place that stores how a link ends.  The engine is held: no order of memory is needed. */
static void end_as(weft__tcp_link *link, weft__tcp_ending to)
{
    WEFT__ASSERT(WEFT__ALLOWS(ending_follows, link->ending, to), link->peer->rank, link->ending, to);
    link->ending = to;
}

void weft__tcp_link_resume(weft__tcp_link *link)
{
    weft__list_remove(&link->queued);
    weft__list_append(&link->peer->tcp->resume, &link->queued);
}

/* ---- writing ---- */

typedef struct batch {
    struct iovec part[1 + 2 * BATCH_FRAMES];
    size_t parts, frames, bytes;
    weft__outgoing *frame[BATCH_FRAMES];
} batch;

static void add_part(batch *b, const void *bytes, size_t length)
{
    b->part[b->parts].iov_base = (void *)(uintptr_t)bytes;
    b->part[b->parts].iov_len = length;
    b->parts++;
    b->bytes += length;
}

static void add_frame(batch *b, weft__outgoing *out)
{
    const size_t header = sizeof out->frame;
    const size_t paid = out->done > header ? out->done - header : 0;
    if (out->done < header) add_part(b, (const char *)&out->frame + out->done, header - out->done);
    if (paid < out->frame.length) add_part(b, (const char *)out->payload + paid, out->frame.length - paid);
    b->frame[b->frames++] = out;
}

/* Only one of a batch can end half written: one promise does for all. */
bool weft__tcp_link_may_begin(weft__tcp_link *link, const weft__outgoing *out)
{
    if (!out->stays && !link->promised) link->promised = weft__rests_promise(&link->peer->tcp->rests);
    return out->stays || link->promised;
}

/* NULL, or a frame that cannot be begun, for want of memory. */
static weft__outgoing *add_queue(weft__tcp_link *link, batch *b, const weft__list *queue)
{
    for (weft__list *at = queue->next; at != queue; at = at->next) {
        weft__outgoing *out = WEFT__LIST_ENTRY(at, weft__outgoing, link);
        if (b->frames == BATCH_FRAMES || b->bytes >= WEFT__TCP_POLL_BYTES) break;
        if (!weft__tcp_link_may_begin(link, out)) return out;
        add_frame(b, out);
    }
    return NULL;
}

/* What is half written has to be finished; then urgent frames overtake bulk ones.  Returns one that cannot be
 * begun, where it ends; or NULL. */
static weft__outgoing *tcp_link_gather(weft__tcp_link *link, batch *b)
{
    weft__tcp_peer *peer = link->peer;
    weft__outgoing *stuck;
    b->parts = b->frames = b->bytes = 0;
    if (link->rest) add_part(b, link->rest + link->rest_done, link->rest_length - link->rest_done);
    if (peer->current) add_frame(b, peer->current);
    stuck = add_queue(link, b, &peer->urgent);
    return stuck ? stuck : add_queue(link, b, &peer->bulk);
}

void weft__tcp_link_rest_gone(weft__tcp_link *link)
{
    weft__rests_give(&link->peer->tcp->rests, link->rest);
    link->rest = NULL;
}

void weft__tcp_link_settle(weft__tcp *tcp, weft__list *finished)
{
    while (!weft__list_empty(finished)) {
        weft__outgoing *out = WEFT__LIST_ENTRY(finished->next, weft__outgoing, link);
        weft__list_remove(&out->link);
        tcp->moved++;
        out->sent(out, WEFT_OK);
    }
}

/* Accounts for n written bytes completely before the first `sent`, which may change every queue. */
static void account(weft__tcp_link *link, const batch *b, size_t n)
{
    weft__tcp_peer *peer = link->peer;
    weft__list finished;
    weft__list_init(&finished);
    if (link->rest) {
        size_t part = link->rest_length - link->rest_done;
        if (part > n) part = n;
        link->rest_done += part;
        n -= part;
        if (link->rest_done == link->rest_length) weft__tcp_link_rest_gone(link);
    }
    for (size_t i = 0; i < b->frames && n > 0; i++) {
        weft__outgoing *out = b->frame[i];
        const size_t left = sizeof out->frame + out->frame.length - out->done;
        const size_t part = left < n ? left : n;
        WEFT__ASSERT_HOT(out == peer->current || weft__list_has(&peer->urgent, &out->link) ||
                         weft__list_has(&peer->bulk, &out->link));
        weft__list_remove(&out->link);
        out->done += part;
        n -= part;
        peer->current = part < left ? out : NULL;
        if (part == left) weft__list_append(&finished, &out->link);
    }
    weft__tcp_link_settle(peer->tcp, &finished);
}

void weft__tcp_link_fail_unbegun(weft__outgoing *out)
{
    weft__list_remove(&out->link);
    out->sent(out, WEFT_ERR_MEMORY);
}

static void withdraw_promise(weft__tcp_link *link)
{
    if (link->promised) weft__rests_withdraw(&link->peer->tcp->rests);
    link->promised = false;
}

/* The reader finds the end behind whatever has still arrived, and reports it. */
void weft__tcp_link_broken(weft__tcp_link *link, int error)
{
    if (link->ending != WEFT__TCP_OPEN) return;
    end_as(link, WEFT__TCP_DRAINING);
    link->error = error;
    link->hung_up = true;
    shutdown(link->polled.fd, SHUT_RDWR);
    weft__tcp_link_resume(link);
}

static void write_plain(weft__tcp_link *link)
{
    size_t allowance = WEFT__TCP_POLL_BYTES;
    batch b;
    while (is_open(link) && link->ending == WEFT__TCP_OPEN && !link->blocked) {
        struct msghdr message = {.msg_iov = b.part};
        weft__outgoing *stuck = tcp_link_gather(link, &b);
        ssize_t n;
        if (!b.parts && stuck) {
            weft__tcp_link_fail_unbegun(stuck);
            continue;
        }
        if (!b.parts) break;
        if (!allowance) {
            weft__tcp_link_resume(link);
            break;
        }
        message.msg_iovlen = b.parts;
        link->writes++;
        n = sendmsg(link->polled.fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n >= 0) {
            allowance -= (size_t)n < allowance ? (size_t)n : allowance;
            account(link, &b, (size_t)n);
        } else if (errno == EAGAIN) {
            link->blocked = true;
        } else if (errno != EINTR) {
            weft__tcp_link_broken(link, errno);
        }
    }
}

void weft__tcp_link_write(weft__tcp_link *link)
{
    if (link->writing) return;
    link->writing = true;
    weft__tcp_lazy_no_more(link->peer);
    if (WEFT__UNLIKELY(link->sealed))
        weft__tcp_sealed_write(link);
    else
        write_plain(link);
    link->writing = false;
    if (!link->peer->current || !is_open(link)) withdraw_promise(link);
}

void weft__tcp_link_detach(weft__tcp_link *link, const weft__outgoing *out)
{
    const size_t header = sizeof out->frame, total = header + out->frame.length;
    const size_t paid = out->done > header ? out->done - header : 0;
    unsigned char *rest, *at;
    WEFT__ASSERT(!link->rest && link->promised && total - out->done <= WEFT__REST_BYTES);
    link->promised = false;
    rest = at = weft__rests_take(&link->peer->tcp->rests);
    if (out->done < header) {
        memcpy(at, (const char *)&out->frame + out->done, header - out->done);
        at += header - out->done;
    }
    if (paid < out->frame.length) memcpy(at, (const char *)out->payload + paid, out->frame.length - paid);
    link->rest = rest;
    link->rest_length = total - out->done;
    link->rest_done = 0;
}

/* ---- reading ---- */

void weft__tcp_link_deliver(weft__tcp_link *link)
{
    weft__sink *sink = link->peer->tcp->transport.sink;
    const weft__frame frame = link->frame;
    link->in_frame = false;
    link->peer->tcp->moved++;
    sink->arrived(sink, link->peer->rank, &frame, link->where);
}

bool weft__tcp_link_begin_frame(weft__tcp_link *link, const void *header)
{
    weft__sink *sink = link->peer->tcp->transport.sink;
    memcpy(&link->frame, header, sizeof link->frame);
    if (weft__frame_check(&link->frame)) {
        if (link->ending == WEFT__TCP_DROPPED)
            weft__tcp_link_end(link);
        else
            weft__tcp_lose(link->peer, "rank %d: %s", link->peer->rank, weft_last_error());
        return false;
    }
    link->where = NULL;
    link->got = 0;
    link->in_frame = true;
    if (link->frame.length) link->where = sink->header(sink, link->peer->rank, &link->frame);
    return is_open(link);
}

/* Everything that lies in the buffer.  Afterwards it is empty or holds part of one header. */
static void take_buffer(weft__tcp_link *link)
{
    while (is_open(link)) {
        const size_t here = link->end - link->start;
        if (!link->in_frame) {
            const unsigned char *header = link->buffer + link->start;
            if (here < sizeof link->frame) break;
            link->start += sizeof link->frame;
            if (!weft__tcp_link_begin_frame(link, header)) return;
        } else {
            const size_t left = link->frame.length - link->got;
            const size_t part = left < here ? left : here;
            if (link->where && part) memcpy(link->where + link->got, link->buffer + link->start, part);
            link->got += part;
            link->start += part;
            if (part < left) break;
            weft__tcp_link_deliver(link);
        }
    }
    memmove(link->buffer, link->buffer + link->start, link->end - link->start);
    link->end -= link->start;
    link->start = 0;
}

/* Behind a frame of the greatest length comes mostly another piece of the same message: then its header alone
 * is read along, and all of its payload goes where it belongs. */
static size_t room_behind(const weft__tcp_link *link)
{
    bool piece = link->in_frame && link->where && link->frame.length == WEFT__FRAME_PAYLOAD_MAX;
    return (piece ? sizeof link->frame : sizeof link->buffer) - link->end;
}

/* One system call.  What of it belongs to the payload under way is accounted for, the rest lies in the
 * buffer. */
static ssize_t tcp_link_receive(weft__tcp_link *link, size_t *room)
{
    struct iovec part[2];
    size_t direct = 0, behind = room_behind(link);
    int parts = 0;
    ssize_t n;
    if (link->in_frame && link->where) {
        direct = link->frame.length - link->got;
        part[parts].iov_base = link->where + link->got;
        part[parts++].iov_len = direct;
    }
    part[parts].iov_base = link->buffer + link->end;
    part[parts++].iov_len = behind;
    *room = direct + behind;
    link->reads++;
    n = readv(link->polled.fd, part, parts);
    if (n > 0) {
        const size_t mine = (size_t)n < direct ? (size_t)n : direct;
        link->got += mine;
        link->end += (size_t)n - mine;
    }
    return n;
}

static void ended(weft__tcp_link *link, int error)
{
    weft__tcp_peer *peer = link->peer;
    const bool begun = link->in_frame || link->end || (link->sealed && weft__tcp_sealed_here(link->sealed));
    const char *cut = begun ? " in the middle of a frame" : "";
    char why[128];
    if (link->ending == WEFT__TCP_DROPPED) {
        weft__tcp_link_end(link);
        return;
    }
    if (link->error) error = link->error;
    if (error)
        weft__tcp_lose(peer, "rank %d: connection broken%s: %s", peer->rank, cut,
                       strerror_r(error, why, sizeof why));
    else
        weft__tcp_lose(peer, "rank %d: connection closed by its end%s", peer->rank, cut);
}

/* Nothing is there for now: how much has to come before the set tells.  Never more than what is missing of
 * the frame, which its sender owes; a refusal costs only wake-ups. */
static void set_wake(weft__tcp_link *link)
{
    size_t left = link->in_frame ? link->frame.length - link->got : 0;
    if (WEFT__UNLIKELY(link->sealed)) { /* some of it may lie there to be opened */
        const size_t here = weft__tcp_sealed_here(link->sealed);
        left -= here < left ? here : left;
    }
    int wanted = left < WAKE_WORTH ? 1 : left < WAKE_BYTES ? (int)left : WAKE_BYTES;
    if (link->wake_bytes == wanted) return;
    link->wake_bytes = wanted;
    setsockopt(link->polled.fd, SOL_SOCKET, SO_RCVLOWAT, &wanted, sizeof wanted);
}

/* False: nothing more to be read now. */
static bool read_on(weft__tcp_link *link)
{
    size_t room;
    ssize_t n;
    if (!link->allowance) {
        if (link->ending != WEFT__TCP_DROPPED) weft__tcp_link_resume(link);
        return false;
    }
    n = WEFT__UNLIKELY(link->sealed) ? weft__tcp_sealed_receive(link, &room) : tcp_link_receive(link, &room);
    if (n > 0) {
        link->allowance -= (size_t)n < link->allowance ? (size_t)n : link->allowance;
        if (WEFT__UNLIKELY(link->sealed))
            weft__tcp_sealed_take(link);
        else
            take_buffer(link);
        /* A short read has emptied the socket: the next byte makes an edge.  An end that was already
         * announced would not. */
        return is_open(link) && ((size_t)n == room || link->hung_up || link->ending == WEFT__TCP_DROPPED);
    }
    if (n < 0 && errno == EINTR) return true;
    if (n == 0 || errno != EAGAIN) ended(link, n == 0 ? 0 : errno);
    return false;
}

static void read_turn(weft__tcp_link *link)
{
    link->reading = true;
    while (is_open(link) && read_on(link)) continue;
    link->reading = false;
    if (is_open(link)) set_wake(link);
    if (is_open(link) && link->ending == WEFT__TCP_DROPPED) weft__tcp_link_end(link);
}

void weft__tcp_link_read(weft__tcp_link *link)
{
    if (link->reading || !is_open(link)) return;
    link->allowance = WEFT__TCP_POLL_BYTES;
    read_turn(link);
}

/* Bounded by what is here now: a peer wrongly given up may send for ever.  If a callback of this link's
 * reader drops it, the reader finishes. */
void weft__tcp_link_drop(weft__tcp_link *link)
{
    int waiting = 0;
    if (!is_open(link)) return;
    if (ioctl(link->polled.fd, FIONREAD, &waiting) || waiting < 0) waiting = 0;
    end_as(link, WEFT__TCP_DROPPED);
    link->allowance = (size_t)waiting;
    if (!link->reading) read_turn(link);
}

/* ---- life ---- */

static void link_ready(weft__polled *w, uint32_t events)
{
    weft__tcp_link *link = WEFT__OWNER(w, weft__tcp_link, polled);
    if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) link->hung_up = true;
    if (events & EPOLLOUT && link->blocked) {
        link->blocked = false;
        weft__tcp_link_write(link);
    }
    if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) weft__tcp_link_read(link);
}

weft__tcp_link *weft__tcp_link_new(weft__tcp_peer *peer, const weft__tcp_handshake *handshake)
{
    weft__tcp_link *link = weft__reserve_get(sizeof *link); /* without, a living peer would be lost */
    if (!link) return NULL;
    memset(link, 0, offsetof(weft__tcp_link, buffer));
    link->polled = (weft__polled){.fd = -1, .ready = link_ready};
    link->peer = peer;
    weft__list_init(&link->queued);
    if (peer->wire == WEFT__TCP_WIRE_PLAIN) return link;
    link->sealed = weft__tcp_sealed_new(handshake);
    if (link->sealed) return link;
    weft__reserve_give(link);
    return NULL;
}

void weft__tcp_link_start(weft__tcp_link *link, int fd)
{
    weft__tcp_peer *peer = link->peer;
    weft__sink *sink = peer->tcp->transport.sink;
    WEFT__ASSERT(fd >= 0 && !peer->link, peer->rank, fd);
    weft__tcp_dial_end(peer);
    link->polled.fd = fd;
    peer->link = link;
    peer->tcp->links++;
    weft__tcp_peer_to(peer, WEFT__TCP_UP);
    if (sink->connected) sink->connected(sink, peer->rank);
    if (weft__poller_add(peer->tcp->poller, &link->polled, EPOLLIN | EPOLLOUT | EPOLLRDHUP)) {
        weft__tcp_lose(peer, "rank %d: %s", peer->rank, weft_last_error());
        return;
    }
    weft__tcp_link_write(link);
}

void weft__tcp_link_end(weft__tcp_link *link)
{
    if (!is_open(link)) return;
    weft__poller_remove(link->peer->tcp->poller, &link->polled);
    close(link->polled.fd);
    link->polled.fd = -1;
    WEFT__ASSERT(link->peer->link == link && link->peer->tcp->links > 0, link->peer->rank);
    link->peer->link = NULL;
    link->peer->tcp->links--;
    if (link->rest) weft__rests_give(&link->peer->tcp->rests, link->rest);
    link->rest = NULL;
    if (!link->writing) withdraw_promise(link);
    weft__list_remove(&link->queued);
    weft__list_append(&link->peer->tcp->closed, &link->queued);
}

void weft__tcp_links_sweep(weft__tcp *tcp)
{
    WEFT__LIST_EACH(&tcp->closed, at)
    {
        weft__tcp_link *link = WEFT__LIST_ENTRY(at, weft__tcp_link, queued);
        if (link->reading || link->writing) continue;
        weft__list_remove(at);
        weft__tcp_sealed_free(link->sealed);
        weft__reserve_give(link);
    }
}
