/* Bytes that arrive at a rank's TCP transport, in pieces, through a socket pair.
 *
 * Byte 0: even, from a stranger, who must never become a peer; odd, from a member, whose frames are received.
 * Byte 1: sizes of the pieces.  The member's stream is checked against a plain reading of the same bytes. */
#include "tcp_link.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

typedef struct receiver {
    weft__sink sink;
    const uint8_t *stream;
    size_t bytes, at; /* what the next frame must be */
    unsigned char *where;
    int lost;
} receiver;

static void *on_header(weft__sink *sink, int peer, const weft__frame *frame)
{
    receiver *r = (receiver *)(void *)sink;
    if (peer != 1 || r->where || frame->length > WEFT__FRAME_PAYLOAD_MAX) abort();
    if (frame->tag & 1) return NULL;
    return r->where = malloc(frame->length);
}

static void on_arrived(weft__sink *sink, int peer, const weft__frame *frame, void *where)
{
    receiver *r = (receiver *)(void *)sink;
    if (peer != 1 || where != r->where || r->lost) abort();
    if (r->bytes - r->at < sizeof *frame + frame->length) abort();
    if (memcmp(r->stream + r->at, frame, sizeof *frame) != 0) abort();
    if (where && memcmp(r->stream + r->at + sizeof *frame, where, frame->length) != 0) abort();
    r->at += sizeof *frame + frame->length;
    free(r->where);
    r->where = NULL;
}

static void on_lost(weft__sink *sink, int peer, const char *why)
{
    receiver *r = (receiver *)(void *)sink;
    if (peer != 1 || r->lost++ || !*why) abort();
}

static void turn(weft__watch *watch, weft__transport *t)
{
    weft__watch_poll(watch);
    do t->poll(t, 16);
    while (t->busy(t));
}

/* Where a plain reader of the stream would be after the last whole, correct frame. */
static size_t read_plainly(const uint8_t *stream, size_t bytes)
{
    size_t at = 0;
    weft__frame frame;
    while (bytes - at >= sizeof frame) {
        memcpy(&frame, stream + at, sizeof frame);
        if (weft__frame_check(&frame) || bytes - at - sizeof frame < frame.length) break;
        at += sizeof frame + frame.length;
    }
    return at;
}

static void feed(weft__watch *watch, weft__transport *t, int fd, const uint8_t *stream, size_t bytes,
                 size_t piece)
{
    while (bytes) {
        const size_t part = piece < bytes ? piece : bytes;
        const ssize_t n = send(fd, stream, part, MSG_DONTWAIT | MSG_NOSIGNAL);
        turn(watch, t);
        if (n < 0) return; /* the transport has closed: it reads at least as fast as this is written */
        stream += n;
        bytes -= (size_t)n;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static weft__keys keys;
    static bool ready;
    weft__tcp_address addresses[2] = {{0}};
    weft__watch watch;
    weft__transport *t;
    weft__tcp *tcp;
    receiver r = {.sink = {.header = on_header, .arrived = on_arrived, .lost = on_lost}};
    int pair[2];
    size_t piece;
    if (bytes < 2) return 0;
    if (!ready && weft__keys_derive("secret", 6, "fuzz", &keys)) abort();
    ready = true;
    r.stream = data + 2;
    r.bytes = bytes - 2;
    piece = (size_t)data[1] * data[1] / 8 + 1;

    if (weft__watch_open(&watch) || weft__tcp_open(0, 2, addresses, -1, &keys, &watch, &r.sink, &t)) abort();
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair)) abort();
    tcp = WEFT__OWNER(t, weft__tcp, transport);
    if (data[0] % 2)
        weft__tcp_link_start(weft__tcp_link_new(&tcp->peer[1]), pair[0]);
    else
        weft__tcp_guest_begin(tcp, pair[0], &addresses[0]);
    feed(&watch, t, pair[1], r.stream, r.bytes, piece);
    close(pair[1]);
    turn(&watch, t);

    if (data[0] % 2 && (r.lost != 1 || r.at != read_plainly(r.stream, r.bytes))) abort();
    if (data[0] % 2 == 0 &&
        (r.lost || tcp->peer[1].state != WEFT__TCP_IDLE || !weft__list_empty(&tcp->guests)))
        abort();
    t->close(t);
    weft__watch_close(&watch);
    free(r.where);
    return 0;
}
