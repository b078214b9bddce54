/* Bytes that arrive at a rank's TCP transport, in pieces, through a socket pair.
 *
 * Byte 0: who sends them.  Byte 1: sizes of the pieces; or, of a member whose greeting is spoilt, where.
 *
 *   0  a stranger, who must never become a peer
 *   1  a peer whose connection stands: its frames are received
 *   2  a member, who greets as the library itself does, and then is such a peer
 *   3  the same with one byte of its hello or proof changed: what must not be taken ends there
 *
 * A peer's stream is checked against a plain reading of the same bytes. */
#include "fuzz.h"
#include "keys.h"
#include "plain_stream.h"
#include "tcp_link.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

size_t fuzz_reached; /* frames of members that had greeted */

enum sender { STRANGER, PEER, MEMBER, SPOILT };

typedef struct receiver {
    weft__sink sink;
    plain_stream plain; /* what the next frame must be */
    unsigned char *where;
    int lost;
    bool greeted;
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
    weft__frame expected;
    const uint8_t *payload;
    receiver *r = (receiver *)(void *)sink;
    if (peer != 1 || where != r->where || r->lost) abort();
    if (!plain_next(&r->plain, &expected, &payload) || memcmp(&expected, frame, sizeof expected) != 0)
        abort();
    if (where && memcmp(payload, where, frame->length) != 0) abort();
    fuzz_reached += r->greeted;
    free(r->where);
    r->where = NULL;
}

static void on_lost(weft__sink *sink, int peer, const char *why)
{
    receiver *r = (receiver *)(void *)sink;
    if (peer != 1 || r->lost++ || !*why) abort();
}

static void turn(weft__poller *poller, weft__transport *t)
{
    weft__poller_poll(poller);
    do t->poll(t, 16);
    while (t->busy(t));
}

static void feed(weft__poller *poller, weft__transport *t, int fd, const uint8_t *stream, size_t bytes,
                 size_t piece)
{
    while (bytes) {
        const size_t part = piece < bytes ? piece : bytes;
        const ssize_t n = send(fd, stream, part, MSG_DONTWAIT | MSG_NOSIGNAL);
        turn(poller, t);
        if (n < 0) return; /* the transport has closed: it reads at least as fast as this is written */
        stream += n;
        bytes -= (size_t)n;
    }
}

/* One message of a greeting, whole: it fits any socket's buffer. */
static void put(int fd, const void *bytes, size_t length)
{
    if (send(fd, bytes, length, MSG_NOSIGNAL) != (ssize_t)length) abort();
}

/* False: it has not come, because the other end has closed. */
static bool get(int fd, void *bytes, size_t length)
{
    return recv(fd, bytes, length, MSG_DONTWAIT) == (ssize_t)length;
}

static weft__keys keys_of[2]; /* each rank has a pair of its own */

static void draw_keys(void)
{
    if (keys_of[0].ranks) return;
    for (int i = 0; i < 2; i++)
        if (weft__keys_derive("secret", 6, "fuzz", &keys_of[i]) || weft__keys_draw(&keys_of[i]) ||
            weft__keys_room(&keys_of[i], 2))
            abort();
    for (int i = 0; i < 2; i++) keys_of[0].ranks[i] = keys_of[1].ranks[i] = keys_of[i].own_public;
}

/* Rank 1 greets rank 0.  spoil: changes this byte of its hello, or behind that of its proof; the others are
 * as they should be.  True: it was taken. */
static bool greet(weft__tcp *tcp, int fd, size_t spoil, uint8_t by)
{
    weft__tcp_handshake h;
    weft__tcp_hello hello;
    weft__tcp_answer answer;
    weft__tcp_proof proof;
    weft__tcp_judgement judgement;
    weft__tcp_standing standing;
    uint8_t verdict;
    bool good = spoil >= sizeof hello || !by;
    if (!weft__tcp_hello_make(&h, &keys_of[1], 1, tcp->me, WEFT__TCP_WIRE_PLAIN, &hello)) abort();
    if (spoil < sizeof hello) ((uint8_t *)&hello)[spoil] ^= by;
    put(fd, &hello, sizeof hello);
    turn(tcp->poller, &tcp->transport);
    if (get(fd, &answer, sizeof answer) != good) abort();
    if (!good) return false;
    if (!weft__tcp_answer_take(&h, &answer)) abort();
    weft__tcp_proof_make(&h, &(weft__tcp_standing){0}, &proof);
    if (spoil >= sizeof hello) ((uint8_t *)&proof)[(spoil - sizeof hello) % sizeof proof] ^= by;
    good = spoil < sizeof hello || !by;
    put(fd, &proof, sizeof proof);
    turn(tcp->poller, &tcp->transport);
    if (get(fd, &judgement, sizeof judgement) != good) abort();
    if (good && (!weft__tcp_verdict_take(&h, &judgement, &verdict, &standing) || verdict != WEFT__TCP_TAKEN))
        abort();
    return good;
}

/* Without a handshake. */
static void start_link(weft__tcp_link *link, int fd)
{
    link->polled.fd = fd;
    if (weft__poller_add(link->peer->tcp->poller, &link->polled, EPOLLIN | EPOLLOUT | EPOLLRDHUP)) abort();
    weft__tcp_link_start(link, &(weft__tcp_standing){0});
}

/* The sender's connection.  True: it is a peer's. */
static bool connect_as(enum sender sender, weft__tcp *tcp, int ends[2], const uint8_t *data,
                       const weft__tcp_address *address)
{
    if (sender == PEER) {
        start_link(weft__tcp_link_new(&tcp->peer[1]), ends[0]);
        return true;
    }
    weft__tcp_guest_begin(tcp, ends[0], address);
    if (sender == STRANGER) return false;
    return greet(tcp, ends[1], sender == SPOILT ? data[1] : 0, sender == SPOILT ? data[2] : 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    weft__tcp_address addresses[2] = {{.wire = WEFT__WIRE_AS_PLAIN}, {.wire = WEFT__WIRE_AS_PLAIN}};
    weft__poller poller;
    weft__transport *t;
    weft__tcp *tcp;
    receiver r = {.sink = {.header = on_header, .arrived = on_arrived, .lost = on_lost}};
    const uint8_t *payload;
    weft__frame more;
    enum sender sender;
    int pair[2];
    bool peer;
    if (bytes < 3) return 0;
    setenv("WEFT_RECONNECT_MS", "0", 1); /* test_tcp_mend has connections that come again */
    draw_keys();
    sender = (enum sender)(data[0] % 4);
    r.plain = (plain_stream){.bytes = data + 3, .length = bytes - 3};

    if (weft__poller_open(&poller) || weft__tcp_open(0, 2, addresses, -1, &keys_of[0], &poller, &r.sink, &t))
        abort();
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair)) abort();
    tcp = WEFT__OWNER(t, weft__tcp, transport);
    peer = connect_as(sender, tcp, pair, data, &addresses[0]);
    if ((tcp->peer[1].state == WEFT__TCP_UP) != peer) abort();
    r.greeted = peer && sender != PEER;
    feed(&poller, t, pair[1], r.plain.bytes, r.plain.length, (size_t)data[1] * data[1] / 8 + 1);
    close(pair[1]);
    turn(&poller, t);

    if (peer && (r.lost != 1 || plain_next(&r.plain, &more, &payload))) abort();
    if (!peer && (r.lost || tcp->peer[1].state != WEFT__TCP_IDLE || !weft__list_empty(&tcp->guests))) abort();
    t->close(t);
    weft__poller_close(&poller);
    free(r.where);
    return 0;
}
