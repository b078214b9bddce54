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
 * Fails by weft__tcp_mend on the end of the connection and on a socket error, by weft__tcp_lose on a header that
 * cannot be.  What had arrived before is delivered first, also when it was writing that found the connection
 * broken. */
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
    bool tells; /* a header of it begins, with word of what has arrived */
    weft__outgoing *frame[BATCH_FRAMES];
} batch;

static void add_part(batch *b, const void *bytes, size_t length)
{
    b->part[b->parts].iov_base = (void *)(uintptr_t)bytes;
    b->part[b->parts].iov_len = length;
    b->parts++;
    b->bytes += length;
}

static void tells_no_more(weft__tcp_link *link)
{
    if (!link->tells) return;
    weft__list_remove(&link->telling);
    link->tells = false;
}

void weft__tcp_link_stamp(weft__tcp_link *link, weft__outgoing *out)
{
    weft__tcp_peer *peer = link->peer;
    out->frame.reserved = ((uint32_t)peer->taken & WEFT__TCP_COUNT_MASK) |
                          (weft__tcp_wants_word(peer, out) ? WEFT__TCP_WANTS_WORD : 0);
}

void weft__tcp_link_stamp_gone(weft__tcp_link *link)
{
    link->peer->untold = link->peer->untold_bytes = 0;
    tells_no_more(link);
}

static void add_frame(weft__tcp_link *link, batch *b, weft__outgoing *out)
{
    const size_t header = sizeof out->frame;
    const size_t paid = out->done > header ? out->done - header : 0;
    if (!out->done) weft__tcp_link_stamp(link, out);
    b->tells = b->tells || !out->done;
    if (out->done < header) add_part(b, (const char *)&out->frame + out->done, header - out->done);
    if (paid < out->frame.length) add_part(b, (const char *)out->payload + paid, out->frame.length - paid);
    b->frame[b->frames++] = out;
}

/* Only one of a batch can end half written: one promise does for all.  One that may have arrived has to be
 * written, with or without it. */
bool weft__tcp_link_may_begin(weft__tcp_link *link, const weft__outgoing *out)
{
    if (!out->stays && !link->promised) link->promised = weft__rests_promise(&link->peer->tcp->rests);
    return out->stays || out->numbered || link->promised;
}

/* NULL, or a frame that cannot be begun, for want of memory. */
static weft__outgoing *add_queue(weft__tcp_link *link, batch *b, const weft__list *queue)
{
    for (weft__list *at = queue->next; at != queue; at = at->next) {
        weft__outgoing *out = WEFT__LIST_ENTRY(at, weft__outgoing, link);
        if (b->frames == BATCH_FRAMES || b->bytes >= WEFT__TCP_POLL_BYTES) break;
        if (!weft__tcp_link_may_begin(link, out)) return out;
        add_frame(link, b, out);
    }
    return NULL;
}

bool weft__tcp_link_has_to_tell(weft__tcp_link *link)
{
    if (!link->tells || link->peer->current == &link->ack) return false;
    link->ack.done = 0;
    return true;
}

/* What is half written has to be finished; then what a broken connection has left; then urgent frames overtake
 * bulk ones.  Returns one that cannot be begun, where it ends; or NULL. */
static weft__outgoing *tcp_link_gather(weft__tcp_link *link, batch *b)
{
    weft__tcp_peer *peer = link->peer;
    weft__outgoing *stuck;
    b->parts = b->frames = b->bytes = 0;
    b->tells = false;
    if (peer->current) add_frame(link, b, peer->current);
    stuck = add_queue(link, b, weft__tcp_again(peer));
    if (!stuck) stuck = add_queue(link, b, &peer->urgent);
    if (!stuck) stuck = add_queue(link, b, &peer->bulk);
    if (!b->tells && weft__tcp_link_has_to_tell(link)) add_frame(link, b, &link->ack);
    return stuck;
}

void weft__tcp_link_written(weft__tcp_link *link, weft__outgoing *out, weft__list *finished)
{
    if (out == &link->ack) return;
    link->peer->tcp->moved++;
    if (weft__tcp_keep(link->peer, out)) weft__list_append(finished, &out->link);
}

/* Accounts for n written bytes completely before the first `sent`, which may change every queue. */
static void account(weft__tcp_link *link, const batch *b, size_t n)
{
    weft__tcp_peer *peer = link->peer;
    weft__list finished;
    weft__list_init(&finished);
    for (size_t i = 0; i < b->frames && n > 0; i++) {
        weft__outgoing *out = b->frame[i];
        const size_t left = sizeof out->frame + out->frame.length - out->done;
        const size_t part = left < n ? left : n;
        WEFT__ASSERT_HOT(
            out == peer->current || out == &link->ack || weft__list_has(&peer->urgent, &out->link) ||
            weft__list_has(&peer->bulk, &out->link) || weft__list_has(weft__tcp_again(peer), &out->link));
        weft__list_remove(&out->link);
        if (!out->done) weft__tcp_link_stamp_gone(link);
        out->done += part;
        n -= part;
        peer->current = part < left ? out : NULL;
        if (part == left) weft__tcp_link_written(link, out, &finished);
    }
    weft__tcp_kept_tell(&finished, WEFT_OK);
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

void weft__tcp_link_detach(weft__tcp_link *link, weft__outgoing *out)
{
    weft__tcp_peer *peer = link->peer;
    const bool promised = link->promised;
    WEFT__ASSERT(out == peer->current, peer->rank);
    link->promised = false;
    peer->current = weft__tcp_kept_detach(peer, out, promised);
    if (!peer->current) weft__tcp_link_broken(link, ENOMEM);
}

/* ---- reading ---- */

/* So much may wait for word of its arrival, before a frame goes for nothing else. */
#define TELL_FRAMES 64
#define TELL_BYTES  (128 * 1024)
#define TELL_COUNTS (64 * 1024) /* of one frame: longer ones are not copied where they are kept */

/* Most of what arrives is answered: the word of it goes with the answer, if that comes soon, or if nobody waits
 * for it. */
static void tell_soon(weft__tcp_link *link)
{
    weft__tcp *tcp = link->peer->tcp;
    if (!link->tells) {
        link->tells = true;
        weft__list_append(&tcp->telling, &link->telling);
        tcp->tell_polls = WEFT__TCP_TELL_POLLS;
    }
    if (link->peer->in.wanted) tcp->tell_polls = 0;
}

void weft__tcp_link_deliver(weft__tcp_link *link)
{
    weft__tcp_peer *peer = link->peer;
    weft__sink *sink = peer->tcp->transport.sink;
    const weft__frame frame = peer->in.frame;
    peer->in.begun = false;
    peer->taken++;
    peer->untold++;
    peer->untold_bytes += frame.length < TELL_COUNTS ? frame.length : TELL_COUNTS;
    if (peer->in.wanted || peer->untold >= TELL_FRAMES || peer->untold_bytes >= TELL_BYTES) tell_soon(link);
    peer->tcp->moved++;
    sink->arrived(sink, peer->rank, &frame, peer->in.where);
}

/* The frame that begins cannot be. */
static void refuse(weft__tcp_link *link, const char *why)
{
    if (link->ending == WEFT__TCP_DROPPED)
        weft__tcp_link_end(link);
    else
        weft__tcp_lose(link->peer, "rank %d: %s", link->peer->rank, why);
}

bool weft__tcp_link_begin_frame(weft__tcp_link *link, const void *header)
{
    weft__tcp_peer *peer = link->peer;
    weft__tcp_arriving *in = &peer->in;
    weft__sink *sink = peer->tcp->transport.sink;
    uint32_t word;
    memcpy(&in->frame, header, sizeof in->frame);
    word = in->frame.reserved;
    peer->known = peer->links;
    in->frame.reserved = 0;
    if (!weft__tcp_acknowledged(peer, word & WEFT__TCP_COUNT_MASK)) {
        refuse(link, "tells that more has arrived there than was sent");
        return false;
    }
    if (!is_open(link)) return false;
    if (in->frame.kind == WEFT__FRAME_ACK && !in->frame.length) return true;
    if (weft__frame_check(&in->frame)) {
        refuse(link, weft_last_error());
        return false;
    }
    in->where = NULL;
    in->got = 0;
    in->wanted = word & WEFT__TCP_WANTS_WORD;
    in->begun = true;
    if (in->frame.length) in->where = sink->header(sink, peer->rank, &in->frame);
    return is_open(link);
}

/* Everything that lies in the buffer.  Afterwards it is empty or holds part of one header. */
static void take_buffer(weft__tcp_link *link)
{
    while (is_open(link)) {
        const size_t here = link->end - link->start;
        if (!link->peer->in.begun) {
            const unsigned char *header = link->buffer + link->start;
            if (here < sizeof link->peer->in.frame) break;
            link->start += sizeof link->peer->in.frame;
            if (!weft__tcp_link_begin_frame(link, header)) return;
        } else {
            const size_t left = link->peer->in.frame.length - link->peer->in.got;
            const size_t part = left < here ? left : here;
            if (link->peer->in.where && part)
                memcpy(link->peer->in.where + link->peer->in.got, link->buffer + link->start, part);
            link->peer->in.got += part;
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
    bool piece = link->peer->in.begun && link->peer->in.where &&
                 link->peer->in.frame.length == WEFT__FRAME_PAYLOAD_MAX;
    return (piece ? sizeof link->peer->in.frame : sizeof link->buffer) - link->end;
}

/* One system call.  What of it belongs to the payload under way is accounted for, the rest lies in the
 * buffer. */
static ssize_t tcp_link_receive(weft__tcp_link *link, size_t *room)
{
    struct iovec part[2];
    size_t direct = 0, behind = room_behind(link);
    int parts = 0;
    ssize_t n;
    if (link->peer->in.begun && link->peer->in.where) {
        direct = link->peer->in.frame.length - link->peer->in.got;
        part[parts].iov_base = link->peer->in.where + link->peer->in.got;
        part[parts++].iov_len = direct;
    }
    part[parts].iov_base = link->buffer + link->end;
    part[parts++].iov_len = behind;
    *room = direct + behind;
    link->reads++;
    n = readv(link->polled.fd, part, parts);
    if (n > 0) {
        const size_t mine = (size_t)n < direct ? (size_t)n : direct;
        link->peer->in.got += mine;
        link->end += (size_t)n - mine;
    }
    return n;
}

static void ended(weft__tcp_link *link, int error)
{
    weft__tcp_peer *peer = link->peer;
    const bool begun =
        link->peer->in.begun || link->end || (link->sealed && weft__tcp_sealed_here(link->sealed));
    const char *cut = begun ? " in the middle of a frame" : "";
    char why[128];
    if (link->ending == WEFT__TCP_DROPPED) {
        weft__tcp_link_end(link);
        return;
    }
    if (link->error) error = link->error;
    if (error)
        weft__tcp_mend(peer, "rank %d: connection broken%s: %s", peer->rank, cut,
                       strerror_r(error, why, sizeof why));
    else
        weft__tcp_mend(peer, "rank %d: connection closed by its end%s", peer->rank, cut);
}

/* Nothing is there for now: how much has to come before the set tells.  Never more than what is missing of
 * the frame, which its sender owes; a refusal costs only wake-ups. */
static void set_wake(weft__tcp_link *link)
{
    size_t left = link->peer->in.begun ? link->peer->in.frame.length - link->peer->in.got : 0;
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

weft__tcp_link *weft__tcp_link_new(weft__tcp_peer *peer)
{
    weft__tcp_link *link;
    if (!peer->kept) peer->kept = weft__tcp_kept_new();
    link = peer->kept ? weft__reserve_get(sizeof *link) : NULL; /* without, a living peer would be lost */
    if (!link) return NULL;
    memset(link, 0, offsetof(weft__tcp_link, buffer));
    link->polled = (weft__polled){.fd = -1, .ready = link_ready};
    link->peer = peer;
    weft__list_init(&link->queued);
    weft__list_init(&link->up);
    weft__list_init(&link->telling);
    link->ack = (weft__outgoing){.frame.kind = WEFT__FRAME_ACK, .stays = true};
    weft__list_init(&link->ack.link);
    if (peer->wire == WEFT__TCP_WIRE_PLAIN) return link;
    link->sealed = weft__tcp_sealed_new();
    if (link->sealed) return link;
    weft__reserve_give(link);
    return NULL;
}

void weft__tcp_link_take_keys(weft__tcp_link *link, const weft__tcp_handshake *handshake)
{
    if (link->sealed) weft__tcp_sealed_take_keys(link->sealed, handshake);
}

void weft__tcp_link_take_over(weft__tcp_link *link, weft__polled *from)
{
    weft__poller_hand_on(link->peer->tcp->poller, from, &link->polled, EPOLLIN | EPOLLOUT | EPOLLRDHUP);
}

void weft__tcp_link_start(weft__tcp_link *link, const weft__tcp_standing *theirs)
{
    weft__tcp_peer *peer = link->peer;
    weft__sink *sink = peer->tcp->transport.sink;
    const bool first = !peer->met;
    WEFT__ASSERT(link->polled.fd >= 0 && !peer->link, peer->rank, link->polled.fd);
    weft__tcp_dial_end(peer);
    peer->link = link;
    weft__list_append(&peer->tcp->up, &link->up);
    peer->tcp->links++;
    if (theirs->links > peer->links) peer->links = theirs->links; /* both ends go on from the higher number */
    peer->links++;
    peer->known = link->dialled ? peer->links : theirs->links; /* else the verdict may not reach it */
    weft__tcp_peer_to(peer, WEFT__TCP_UP);
    if (!weft__tcp_go_on(peer, theirs)) return;
    peer->met = true;
    if (sink->connected && first) sink->connected(sink, peer->rank); /* which may send, and end it */
    if (peer->link == link) weft__tcp_link_write(link);
}

void weft__tcp_link_end(weft__tcp_link *link)
{
    if (!is_open(link)) return;
    weft__poller_remove(link->peer->tcp->poller, &link->polled);
    close(link->polled.fd);
    link->polled.fd = -1;
    WEFT__ASSERT(link->peer->link == link && link->peer->tcp->links > 0, link->peer->rank);
    link->peer->link = NULL;
    weft__list_remove(&link->up);
    link->peer->tcp->links--;
    if (link->peer->current == &link->ack) link->peer->current = NULL;
    tells_no_more(link);
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
