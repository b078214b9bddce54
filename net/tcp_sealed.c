/* tcp_sealed.c - a connection that is encrypted: what goes over it in place of frames.
 *
 *   header    80 bytes: the 64 of a frame, sealed
 *   payload   in pieces of 16 KiB, the last one shorter, each with a tag of 16 bytes
 *
 * Each is the next text of its direction (cipher.h): none can be left out, repeated, exchanged or come from
 * elsewhere. No length stands in the clear, and none is believed before it has opened.
 *
 * Writing seals as many frames as there is room for, from where they lie, and writes that; a frame counts as
 * sent when all of it is sealed, as it does without encryption when the kernel has it.  A frame taken back
 * half sealed leaves a copy (tcp_kept.c).  Reading opens each piece straight to where it belongs.  One that does
 * not open ends the connection: what stands in the receive's buffer then is nothing, and the receive is told OK
 * only when another connection has brought that piece whole. */
#include "check.h"
#include "reserve.h"
#include "tcp_link.h"

#include <errno.h>
#include <string.h>

#define TAG          WEFT__CIPHER_TAG_BYTES
#define HEADER_BYTES sizeof(weft__frame)
#define PIECE_BYTES  ((size_t)16 * 1024)
/* Four pieces: what is sealed or read is still in the processor's cache when it is written or opened. */
#define ROOM_BYTES (4 * (PIECE_BYTES + TAG) + HEADER_BYTES + TAG)

typedef struct row { /* of what is sealed; start..end of it is there */
    size_t start, end;
    unsigned char bytes[ROOM_BYTES];
} row;

struct weft__tcp_sealed {
    weft__cipher sends, receives;
    row out, in;
};

weft__tcp_sealed *weft__tcp_sealed_new(void)
{
    weft__tcp_sealed *sealed = weft__reserve_get(sizeof *sealed);
    if (sealed) sealed->out.start = sealed->out.end = sealed->in.start = sealed->in.end = 0;
    return sealed;
}

void weft__tcp_sealed_take_keys(weft__tcp_sealed *sealed, const weft__tcp_handshake *handshake)
{
    sealed->sends = handshake->sends;
    sealed->receives = handshake->receives;
}

void weft__tcp_sealed_free(weft__tcp_sealed *sealed)
{
    if (!sealed) return;
    sodium_memzero(&sealed->sends, sizeof sealed->sends);
    sodium_memzero(&sealed->receives, sizeof sealed->receives);
    weft__reserve_give(sealed);
}

bool weft__tcp_sealed_waits(const weft__tcp_sealed *sealed)
{
    return sealed && sealed->out.start < sealed->out.end;
}

size_t weft__tcp_sealed_here(const weft__tcp_sealed *sealed)
{
    return sealed->in.end - sealed->in.start;
}

static bool is_open(const weft__tcp_link *link)
{
    return link->polled.fd >= 0;
}

static size_t piece_of(size_t left)
{
    return left < PIECE_BYTES ? left : PIECE_BYTES;
}

/* ---- writing ---- */

/* False: there is no room for it now. */
static bool seal(weft__tcp_sealed *sealed, const void *text, size_t bytes)
{
    row *out = &sealed->out;
    if (sizeof out->bytes - out->end < bytes + TAG) return false;
    weft__cipher_seal(&sealed->sends, NULL, 0, text, bytes, out->bytes + out->end);
    out->end += bytes + TAG;
    return true;
}

/* The header, or the next piece, of the frame that is half sealed. */
static bool seal_current(weft__tcp_link *link, weft__list *finished)
{
    weft__tcp_peer *peer = link->peer;
    weft__outgoing *out = peer->current;
    const size_t paid = out->done - HEADER_BYTES, bytes = piece_of(out->frame.length - paid);
    if (!seal(link->sealed, (const char *)out->payload + paid, bytes)) return false;
    out->done += bytes;
    if (out->done < HEADER_BYTES + out->frame.length) return true;
    peer->current = NULL;
    weft__tcp_link_written(link, out, finished);
    return true;
}

static bool seal_header(weft__tcp_link *link, weft__outgoing *out, weft__list *finished)
{
    if (sizeof link->sealed->out.bytes - link->sealed->out.end < HEADER_BYTES + TAG) return false;
    weft__tcp_link_stamp(link, out);
    (void)seal(link->sealed, &out->frame, HEADER_BYTES);
    weft__tcp_link_stamp_gone(link); /* what is sealed goes as it is, before all else */
    weft__list_remove(&out->link);
    out->done = HEADER_BYTES;
    if (out->frame.length)
        link->peer->current = out;
    else
        weft__tcp_link_written(link, out, finished);
    return true;
}

static weft__outgoing *next_of(weft__tcp_peer *peer)
{
    const weft__list *queue = weft__tcp_again(peer);
    if (weft__list_empty(queue)) queue = weft__list_empty(&peer->urgent) ? &peer->bulk : &peer->urgent;
    return weft__list_empty(queue) ? NULL : WEFT__LIST_ENTRY(queue->next, weft__outgoing, link);
}

/* Until the room or the queues are at their end: what is half sealed, what a broken connection has left, then
 * urgent frames before bulk ones.
 * Returns one that cannot be begun, for want of memory; or NULL. */
static weft__outgoing *seal_queues(weft__tcp_link *link, weft__list *finished)
{
    weft__outgoing *out;
    bool room = true;
    while (room) {
        if (link->peer->current) {
            room = seal_current(link, finished);
        } else {
            out = next_of(link->peer);
            if (!out && weft__tcp_link_has_to_tell(link)) out = &link->ack;
            if (!out) return NULL;
            if (!weft__tcp_link_may_begin(link, out)) return out;
            room = seal_header(link, out, finished);
        }
    }
    return NULL;
}

static void write_row(weft__tcp_link *link, size_t *allowance)
{
    row *out = &link->sealed->out;
    ssize_t n;
    link->writes++;
    n = send(link->polled.fd, out->bytes + out->start, out->end - out->start, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) {
        *allowance -= (size_t)n < *allowance ? (size_t)n : *allowance;
        out->start += (size_t)n;
        if (out->start == out->end) out->start = out->end = 0;
    } else if (errno == EAGAIN) {
        link->blocked = true;
    } else if (errno != EINTR) {
        weft__tcp_link_broken(link, errno);
    }
}

void weft__tcp_sealed_write(weft__tcp_link *link)
{
    size_t allowance = WEFT__TCP_POLL_BYTES;
    weft__list finished;
    weft__list_init(&finished);
    while (is_open(link) && link->ending == WEFT__TCP_OPEN && !link->blocked) {
        weft__outgoing *stuck = seal_queues(link, &finished);
        if (!weft__tcp_sealed_waits(link->sealed)) {
            if (!stuck) break;
            weft__tcp_link_fail_unbegun(stuck);
            continue;
        }
        if (!allowance) {
            weft__tcp_link_resume(link);
            break;
        }
        write_row(link, &allowance);
        weft__tcp_kept_tell(&finished, WEFT_OK);
    }
    weft__tcp_kept_tell(&finished, WEFT_OK); /* those sealed behind the turn's end */
}

/* ---- reading ---- */

ssize_t weft__tcp_sealed_receive(weft__tcp_link *link, size_t *room)
{
    row *in = &link->sealed->in;
    ssize_t n;
    *room = sizeof in->bytes - in->end;
    link->reads++;
    n = recv(link->polled.fd, in->bytes + in->end, *room, MSG_DONTWAIT);
    if (n > 0) in->end += (size_t)n;
    return n;
}

static void forged(weft__tcp_link *link)
{
    if (link->ending == WEFT__TCP_DROPPED)
        weft__tcp_link_end(link);
    else
        weft__tcp_mend(
            link->peer,
            "rank %d: what came over its connection is not what it sent, in its order: it was changed on "
            "its way, and the connection is given up",
            link->peer->rank);
}

/* False: nothing more of what is here. */
static bool take_header(weft__tcp_link *link, row *in)
{
    unsigned char header[HEADER_BYTES];
    if (in->end - in->start < sizeof header + TAG) return false;
    if (!weft__cipher_open(&link->sealed->receives, NULL, 0, in->bytes + in->start, sizeof header, header)) {
        forged(link);
        return false;
    }
    in->start += sizeof header + TAG;
    return weft__tcp_link_begin_frame(link, header);
}

/* What nobody wants is opened where it lies. */
static bool take_piece(weft__tcp_link *link, row *in)
{
    const size_t bytes = piece_of(link->peer->in.frame.length - link->peer->in.got);
    unsigned char *sealed = in->bytes + in->start;
    if (in->end - in->start < bytes + TAG) return false;
    if (!weft__cipher_open(&link->sealed->receives, NULL, 0, sealed, bytes,
                           link->peer->in.where ? link->peer->in.where + link->peer->in.got : sealed)) {
        forged(link);
        return false;
    }
    in->start += bytes + TAG;
    link->peer->in.got += bytes;
    return true;
}

void weft__tcp_sealed_take(weft__tcp_link *link)
{
    row *in = &link->sealed->in;
    bool more = true;
    while (more && is_open(link)) {
        if (!link->peer->in.begun)
            more = take_header(link, in);
        else if (link->peer->in.got < link->peer->in.frame.length)
            more = take_piece(link, in);
        else
            weft__tcp_link_deliver(link);
    }
    memmove(in->bytes, in->bytes + in->start, in->end - in->start);
    in->end -= in->start;
    in->start = 0;
}
