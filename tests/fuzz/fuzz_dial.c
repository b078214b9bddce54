/* What a rank that dials another hears: the answer to its hello, the verdict on its proof, then frames.
 *
 * Byte 0, bit 0: the rank dials a lower one, whose connection may be kept in place of its own; bits 1 and 2:
 * what answers (enum answers).  Byte 1: where the answer is spoilt, byte 2: how.  Byte 3: the verdict.  Byte
 * 4: sizes of the pieces in which all of that comes.  The rest is the stream behind the verdict.
 *
 * A peer that proves nothing is lost with a sentence, and gets no proof; the stream of one that took the
 * connection is checked against a plain reading of the same bytes. */
#include "clock.h"
#include "fuzz.h"
#include "keys.h"
#include "plain_stream.h"
#include "tcp_link.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HEAD = 5, WAIT_MS = 10000 };

size_t fuzz_reached; /* frames of a peer that had proven itself and taken the connection */

enum answers { KNOWS, SPOILT, CUT, GUESSES };

typedef struct dialler {
    weft__sink sink;
    weft__poller poller;
    weft__transport *t;
    weft__tcp_peer *peer;
    int it;             /* the rank that it dials */
    plain_stream plain; /* what the next frame must be */
    unsigned char *where;
    int lost, sent;
} dialler;

static weft__keys keys_of[2]; /* each rank has a pair of its own */
static int listener = -1;
static weft__tcp_address listens;

static void *on_header(weft__sink *sink, int peer, const weft__frame *frame)
{
    dialler *d = (dialler *)(void *)sink;
    if (peer != d->it || d->where || frame->length > WEFT__FRAME_PAYLOAD_MAX) abort();
    return d->where = malloc(frame->length);
}

static void on_arrived(weft__sink *sink, int peer, const weft__frame *frame, void *where)
{
    weft__frame expected;
    const uint8_t *payload;
    dialler *d = (dialler *)(void *)sink;
    if (peer != d->it || where != d->where || d->lost) abort();
    if (!plain_next(&d->plain, &expected, &payload) || memcmp(&expected, frame, sizeof expected) != 0)
        abort();
    if (where && memcmp(payload, where, frame->length) != 0) abort();
    fuzz_reached++;
    free(d->where);
    d->where = NULL;
}

static void on_lost(weft__sink *sink, int peer, const char *why)
{
    dialler *d = (dialler *)(void *)sink;
    if (peer != d->it || d->lost++ || !*why) abort();
}

static int sent_times;

static void on_sent(weft__outgoing *out, weft_status status)
{
    if (out->frame.length || (status > 0)) abort();
    sent_times++;
}

static void turn(dialler *d)
{
    weft__poller_poll(&d->poller);
    do d->t->poll(d->t, 16);
    while (d->t->busy(d->t));
}

/* Turns until bytes have come, the end (0), or the rank has lost its peer (-1). */
static ssize_t take(dialler *d, int fd, void *bytes, size_t length)
{
    const int64_t until_ns = weft__now_ns() + WAIT_MS * WEFT__MS;
    size_t done = 0;
    while (done < length) {
        ssize_t n;
        turn(d);
        n = recv(fd, (char *)bytes + done, length - done, MSG_DONTWAIT);
        if (n == 0) return 0;
        if (n > 0) done += (size_t)n;
        if (n < 0 && d->lost) return -1;
        if (weft__now_ns() > until_ns) abort();
    }
    return (ssize_t)length;
}

static void put(dialler *d, int fd, const void *bytes, size_t length, size_t piece)
{
    const char *at = bytes;
    while (length) {
        const size_t part = piece < length ? piece : length;
        const ssize_t n = send(fd, at, part, MSG_DONTWAIT | MSG_NOSIGNAL);
        turn(d);
        if (n < 0) return; /* it has closed: it reads at least as fast as this is written */
        at += n;
        length -= (size_t)n;
    }
}

static void listen_once(void)
{
    if (listener >= 0) return;
    setenv("WEFT_RECONNECT_MS", "0", 1); /* test_tcp_mend has connections that come again */
    for (int i = 0; i < 2; i++)
        if (weft__keys_derive("secret", 6, "fuzz", &keys_of[i]) || weft__keys_draw(&keys_of[i]) ||
            weft__keys_room(&keys_of[i], 2))
            abort();
    for (int i = 0; i < 2; i++) keys_of[0].ranks[i] = keys_of[1].ranks[i] = keys_of[i].own_public;
    if (weft__tcp_listen("127.0.0.1", &listener, &listens)) abort();
}

static int take_dial(dialler *d)
{
    const int64_t until_ns = weft__now_ns() + WAIT_MS * WEFT__MS;
    const struct linger at_once = {.l_onoff = 1};
    int fd;
    while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) < 0) {
        turn(d);
        if (weft__now_ns() > until_ns) abort();
    }
    /* Ends with a reset: thousands of connections leave nothing behind. */
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    return fd;
}

/* Who is told that it is behind, or that the other one dials too, may have dialled once more: that is not for the next
 * input to answer. */
static void refuse_more(void)
{
    int fd;
    while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) close(fd);
}

/* The answer, by its kind.  True: it proves that we know the secret. */
static bool answer(dialler *d, int fd, const weft__tcp_hello *hello, const uint8_t *data, size_t piece,
                   weft__tcp_handshake *h)
{
    weft__tcp_answer told, good;
    if (!weft__tcp_hello_take(h, &keys_of[d->it], hello) || !weft__tcp_answer_make(h, &told)) abort();
    good = told;
    switch ((enum answers)(data[0] >> 1 & 3)) {
    case KNOWS: break;
    case SPOILT: ((uint8_t *)&told)[data[1] % sizeof told] ^= data[2]; break;
    case CUT: put(d, fd, &told, data[1] % sizeof told, piece); return false;
    case GUESSES: memset(&told, data[2], sizeof told); break;
    }
    put(d, fd, &told, sizeof told, piece);
    return !memcmp(&told, &good, sizeof told);
}

/* True: the connection stands. */
static bool greet(dialler *d, int fd, const uint8_t *data, size_t piece)
{
    const bool cut = (data[0] >> 1 & 3) == CUT;
    weft__tcp_handshake h;
    weft__tcp_hello hello;
    weft__tcp_proof proof;
    weft__tcp_judgement judgement;
    weft__tcp_standing standing;
    if (take(d, fd, &hello, sizeof hello) != sizeof hello) abort();
    if (!answer(d, fd, &hello, data, piece, &h)) {
        uint8_t nothing;
        if (!cut && take(d, fd, &nothing, 1) > 0) abort();
        if (!cut && d->lost != 1) abort();
        return false;
    }
    if (take(d, fd, &proof, sizeof proof) != sizeof proof || !weft__tcp_proof_take(&h, &proof, &standing))
        abort();
    weft__tcp_verdict_make(&h, data[3], &(weft__tcp_standing){0}, &judgement);
    put(d, fd, &judgement, sizeof judgement, piece);
    return data[3] == WEFT__TCP_TAKEN;
}

static void open_dialler(dialler *d, int me, const uint8_t *data, size_t bytes)
{
    weft__tcp_address addresses[2] = {{0}};
    d->sink = (weft__sink){.header = on_header, .arrived = on_arrived, .lost = on_lost};
    d->it = !me;
    d->plain = (plain_stream){.bytes = data, .length = bytes, .sent = 1};
    addresses[d->it] = listens;
    addresses[0].wire = addresses[1].wire = WEFT__WIRE_AS_PLAIN;
    if (weft__poller_open(&d->poller) ||
        weft__tcp_open(me, 2, addresses, -1, &keys_of[me], &d->poller, &d->sink, &d->t))
        abort();
    d->peer = &WEFT__OWNER(d->t, weft__tcp, transport)->peer[d->it];
}

/* The last byte may come to be read a turn after it was written. */
static void wait_until_up(dialler *d)
{
    const int64_t until_ns = weft__now_ns() + WAIT_MS * WEFT__MS;
    while (d->peer->state != WEFT__TCP_UP && !d->lost) {
        turn(d);
        if (weft__now_ns() > until_ns) abort();
    }
}

static void wait_for_end(dialler *d)
{
    const int64_t until_ns = weft__now_ns() + WAIT_MS * WEFT__MS;
    while (!d->lost) {
        turn(d);
        if (weft__now_ns() > until_ns) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    weft__outgoing out = {.frame = {.kind = WEFT__FRAME_CONTROL}, .sent = on_sent};
    dialler d = {.where = NULL};
    const uint8_t *payload;
    weft__frame more;
    size_t piece;
    bool up;
    int fd;
    if (bytes < HEAD) return 0;
    listen_once();
    sent_times = 0;
    piece = (size_t)data[4] * data[4] / 8 + 1;
    open_dialler(&d, data[0] & 1, data + HEAD, bytes - HEAD);
    d.t->send(d.t, d.it, &out);
    fd = take_dial(&d);
    up = greet(&d, fd, data, piece);
    if (up) wait_until_up(&d);
    if ((d.peer->state == WEFT__TCP_UP) != up && !d.lost) abort();
    put(&d, fd, d.plain.bytes, d.plain.length, piece);
    shutdown(fd, SHUT_WR);
    if (up) wait_for_end(&d);
    if (up ? plain_next(&d.plain, &more, &payload) : d.plain.at > 0) abort();
    close(fd);
    d.t->close(d.t);
    refuse_more();
    if (sent_times != 1) abort();
    weft__poller_close(&d.poller);
    free(d.where);
    return 0;
}
