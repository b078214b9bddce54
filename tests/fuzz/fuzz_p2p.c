/* Frames that arrive at a rank's point-to-point layer from peers that say anything, whole or in halves, mixed
 * with what the rank itself sends, receives and cancels.
 *
 * An input is a list of steps; an input that ends early goes on with zeros.  Buffers are on the heap, of the
 * exact size, and are freed the moment that they are their owner's again: a sanitizer
 * sees who still writes. */
#include "fuzz.h"
#include "list.h"
#include "p2p.h"

#include <stdlib.h>
#include <string.h>

enum { ME, PEERS = 3, SIDES = 12, LENGTH_MOST = 4096 };

size_t fuzz_reached; /* receives that got a message */

enum step { BEGIN, END, RECEIVE, SEND, CANCEL, FLUSH, DROP, FORGET, STEPS };

typedef struct input {
    const uint8_t *at;
    size_t left;
} input;

/* A receive or a message. */
typedef struct side {
    weft__completion completion;
    weft__match_hook hook;
    weft__recv_result recv_result;
    weft__recv *recv;
    weft__send *send;
    char *buffer; /* NULL: it is over */
    size_t bytes;
} side;

static struct {
    weft__transport transport;
    weft__p2p_events events;
    weft__p2p *p2p;
    weft__list out; /* frames that the transport has */
    side sides[SIDES];
    int side_count;
    struct {
        bool begun;
        weft__frame frame;
        void *where;
        bool gone;
    } peers[PEERS];
} rank;

static uint64_t take(input *in, size_t bytes)
{
    uint64_t number = 0;
    for (size_t i = 0; i < bytes && in->left; i++, in->at++, in->left--) number |= (uint64_t)*in->at << 8 * i;
    return number;
}

/* ---- the transport ---- */

static void wire_send(weft__transport *t, int peer, weft__outgoing *out)
{
    (void)t;
    if (peer <= ME || peer >= PEERS || weft__frame_check(&out->frame)) abort();
    weft__list_init(&out->link);
    weft__list_append(&rank.out, &out->link);
}

static void wire_retract(weft__transport *t, weft__outgoing *out)
{
    (void)t;
    weft__list_remove(&out->link);
}

static void wire_forget(weft__transport *t, int peer, void *where)
{
    (void)t;
    if (rank.peers[peer].where == where) rank.peers[peer].where = NULL;
}

static void wire_flush(weft_status status)
{
    weft__outgoing *out;
    if (weft__list_empty(&rank.out)) return;
    out = WEFT__LIST_ENTRY(rank.out.next, weft__outgoing, link);
    weft__list_remove(&out->link);
    out->done = sizeof out->frame + out->frame.length;
    out->sent(out, status);
}

static void wire_drop(weft__transport *t, int peer)
{
    (void)t;
    rank.peers[peer].gone = true;
    rank.peers[peer].begun = false;
    while (!weft__list_empty(&rank.out))
        wire_flush(WEFT_ERR_PEER); /* of all, which the point-to-point layer must bear */
}

static int wire_poll(weft__transport *t, int budget)
{
    (void)t;
    (void)budget;
    return 0;
}

static bool wire_busy(const weft__transport *t)
{
    (void)t;
    return false;
}

static bool wire_flushed(const weft__transport *t, int peer)
{
    (void)t;
    (void)peer;
    return weft__list_empty(&rank.out);
}

/* ---- what the point-to-point layer tells ---- */

static bool on_collective(weft__p2p_events *events, int peer, const weft__frame *frame)
{
    (void)events;
    if (peer < 0 || peer >= PEERS || frame->channel != WEFT__CHANNEL_COLLECTIVE) abort();
    return frame->tag == 7;
}

static void on_control(weft__p2p_events *events, int peer, int type, const void *bytes, size_t length)
{
    unsigned char sum = (unsigned char)type;
    (void)events;
    if (peer <= ME || peer >= PEERS) abort();
    for (size_t i = 0; i < length; i++) sum = (unsigned char)(sum + ((const unsigned char *)bytes)[i]);
    fuzz_reached += sum == 0;
}

static void on_left(weft__p2p_events *events, int peer, weft_status status, const char *why)
{
    (void)events;
    (void)status;
    if (strlen(why) > LENGTH_MOST) abort();
    rank.peers[peer].begun = false;
    weft__p2p_drop(rank.p2p, peer);
}

static void on_lost(weft__p2p_events *events, int peer, const char *why)
{
    (void)events;
    if (!*why) abort();
    rank.peers[peer].begun = false;
    weft__p2p_drop(rank.p2p, peer);
}

/* ---- steps ---- */

static void let_go(side *s)
{
    if (!s->buffer) abort(); /* told twice */
    free(s->buffer);
    s->buffer = NULL;
    s->recv = NULL;
    s->send = NULL;
}

static void on_over(weft__completion *completion)
{
    side *s = WEFT__OWNER(completion, side, completion);
    if (s->recv && completion->status == WEFT_OK) {
        if (s->recv_result.bytes > s->bytes || s->recv_result.peer < 0 || s->recv_result.peer >= PEERS)
            abort();
        fuzz_reached++;
    }
    let_go(s);
}

static bool on_matched(weft__match_hook *hook)
{
    side *s = WEFT__OWNER(hook, side, hook);
    fuzz_reached++;
    if (!s->recv) let_go(s); /* a receive stays until it is cancelled */
    return true;
}

static bool on_unmatched(weft__match_hook *hook)
{
    (void)hook;
    return true;
}

static side *new_side(input *in)
{
    side *s = rank.side_count < SIDES ? &rank.sides[rank.side_count++] : NULL;
    if (!s) return NULL;
    s->bytes = take(in, 2) % LENGTH_MOST;
    s->buffer = malloc(s->bytes ? s->bytes : 1);
    if (!s->buffer) abort();
    memset(s->buffer, 'b', s->bytes);
    s->completion = (weft__completion){on_over, 1, WEFT_OK};
    s->hook = (weft__match_hook){.matched = on_matched, .unmatched = on_unmatched};
    return s;
}

static weft__envelope envelope(input *in, side *s)
{
    unsigned bits = (unsigned)take(in, 1);
    weft__envelope at = {.channel = (weft__channel)(bits % WEFT__CHANNELS),
                         .group = bits >> 2 & 1,
                         .tag = (int)(bits >> 3 & 3),
                         .dtype = bits >> 5 & 1,
                         .peer = (int)take(in, 1) % PEERS};
    if (bits >> 6 == 3 && at.channel != WEFT__CHANNEL_COLLECTIVE) at.hook = &s->hook;
    if (at.channel == WEFT__CHANNEL_COLLECTIVE) at.sequence = 1;
    return at;
}

static void step_receive(input *in)
{
    side *s = new_side(in);
    weft__envelope at;
    weft__recv *recv;
    if (!s) return;
    at = envelope(in, s);
    if (at.channel == WEFT__CHANNEL_PAIR && take(in, 1) % 4 == 0) {
        at.peer = WEFT_ANY_RANK;
        at.tag = WEFT_ANY_TAG;
    }
    s->recv = (weft__recv *)(void *)s; /* until it is known: it may be over at once */
    recv = weft__p2p_receive(rank.p2p, &at, at.hook ? NULL : s->buffer, s->bytes, &s->recv_result,
                             &s->completion);
    if (!recv) abort();
    if (s->buffer) s->recv = recv;
}

static void step_send(input *in)
{
    side *s = new_side(in);
    weft__envelope to;
    weft__send *send;
    if (!s) return;
    to = envelope(in, s);
    send = weft__p2p_send(rank.p2p, &to, to.hook ? NULL : s->buffer, s->bytes, &s->completion);
    if (!send) abort();
    if (s->buffer) s->send = send;
}

static void cancel(side *s)
{
    if (!s->buffer) return;
    if (s->recv)
        weft__p2p_cancel_receive(rank.p2p, s->recv);
    else if (s->send)
        weft__p2p_cancel_send(rank.p2p, s->send);
    let_go(s);
}

/* The header of a frame; one under way of that peer has ended before. */
static void end_frame(int peer, uint8_t fill)
{
    weft__sink *sink = weft__p2p_sink(rank.p2p);
    if (!rank.peers[peer].begun) return;
    rank.peers[peer].begun = false;
    if (rank.peers[peer].where) memset(rank.peers[peer].where, fill, rank.peers[peer].frame.length);
    sink->arrived(sink, peer, &rank.peers[peer].frame, rank.peers[peer].where);
}

static void step_begin(input *in)
{
    weft__sink *sink = weft__p2p_sink(rank.p2p);
    weft__frame frame = {0};
    int peer = 1 + (int)take(in, 1) % (PEERS - 1);
    size_t given = take(in, 1) % (sizeof frame + 1);
    if (given > in->left) given = in->left;
    if (given) memcpy(&frame, in->at, given);
    in->at += given;
    in->left -= given;
    frame.length %= LENGTH_MOST;
    if (frame.kind == WEFT__FRAME_EAGER && !(frame.flags & WEFT__FRAME_SMALL)) frame.bytes = frame.length;
    end_frame(peer, 'e');
    if (rank.peers[peer].gone || weft__frame_check(&frame)) return;
    rank.peers[peer].frame = frame;
    rank.peers[peer].begun = true;
    rank.peers[peer].where = NULL;
    if (frame.length) {
        void *where = sink->header(sink, peer, &frame);
        if (rank.peers[peer].begun) rank.peers[peer].where = where;
    }
}

static void take_step(input *in)
{
    weft__envelope token;
    switch ((enum step)(take(in, 1) % STEPS)) {
    case BEGIN: step_begin(in); break;
    case END: end_frame(1 + (int)take(in, 1) % (PEERS - 1), 'f'); break;
    case RECEIVE: step_receive(in); break;
    case SEND: step_send(in); break;
    case CANCEL: cancel(&rank.sides[take(in, 1) % SIDES]); break;
    case FLUSH: wire_flush(WEFT_OK); break;
    case DROP: weft__p2p_drop(rank.p2p, 1 + (int)take(in, 1) % (PEERS - 1)); break;
    case FORGET:
        token = envelope(in, &rank.sides[0]);
        token.hook = NULL;
        if (take(in, 1) % 2)
            weft__p2p_forget_group(rank.p2p, token.group);
        else if (token.channel == WEFT__CHANNEL_COLLECTIVE)
            weft__p2p_drop_token(rank.p2p, &token);
        break;
    case STEPS: break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    input in = {data, bytes};
    memset(&rank, 0, sizeof rank);
    weft__list_init(&rank.out);
    rank.events = (weft__p2p_events){.collective = on_collective,
                                     .control = on_control,
                                     .left = on_left,
                                     .lost = on_lost};
    rank.transport = (weft__transport){.name = "fuzz",
                                       .eager_bytes = 256,
                                       .prefix_bytes = 64,
                                       .send = wire_send,
                                       .retract = wire_retract,
                                       .forget = wire_forget,
                                       .poll = wire_poll,
                                       .busy = wire_busy,
                                       .flushed = wire_flushed,
                                       .drop = wire_drop};
    if (weft__p2p_open(ME, PEERS, WEFT__EAGER_BY_ROUTE, &rank.events, &rank.p2p)) abort();
    for (int peer = 1; peer < PEERS; peer++) weft__p2p_route(rank.p2p, peer, &rank.transport);
    for (int steps = 0; in.left && steps < 128; steps++) {
        take_step(&in);
        weft__p2p_poll(rank.p2p);
    }
    for (int i = 0; i < rank.side_count; i++) cancel(&rank.sides[i]);
    for (int peer = 1; peer < PEERS; peer++) {
        rank.peers[peer].begun = false;
        weft__p2p_drop(rank.p2p, peer);
    }
    while (!weft__list_empty(&rank.out)) wire_flush(WEFT_ERR_CANCELLED);
    weft__p2p_close(rank.p2p);
    return 0;
}
