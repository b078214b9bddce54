/* p2p.c - the sending half of the point-to-point layer, its life and its poll.
 *
 * A send: EAGER (one frame, done when the transport let go of it), or ANNOUNCED -> FLOWING, one piece of
 * at most a frame under way at a time, so that several sends to one peer take turns.  The answer to an
 * announcement may come while its prefix is still going out.  A send to this rank itself goes the same way
 * with a copy in place of the wire.
 *
 * Failing: a peer that is gone ends its sends and receives in ERR_PEER; no memory is told at the call. */
#include "p2p_box.h"
#include "reserve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct part { /* a small frame of the point-to-point layer's own */
    weft__outgoing out;
    char payload[];
} part;

static void part_sent(weft__outgoing *out, weft_status status)
{
    (void)status;
    weft__reserve_give(WEFT__OWNER(out, part, out));
}

/* Told to nobody if there is no memory: the callers can only go on, and the peer's deadline will speak. */
static bool send_part(weft__p2p *p2p, int peer, const weft__frame *frame, const void *payload, bool lazy)
{
    weft__peer_box *box = &p2p->peers[peer];
    part *p;
    WEFT__ASSERT(payload || !frame->length);
    if (!box->route) return false;
    p = weft__reserve_get(sizeof *p + frame->length);
    if (!p) return false;
    memset(&p->out, 0, sizeof p->out);
    p->out.frame = *frame;
    if (frame->length) memcpy(p->payload, payload, frame->length);
    p->out.payload = p->payload;
    p->out.sent = part_sent;
    p->out.lazy = lazy;
    p->out.stays = true;
    weft__list_init(&p->out.link);
    box->touched = true;
    box->route->send(box->route, peer, &p->out);
    return true;
}

bool weft__p2p_note(weft__p2p *p2p, int peer, const weft__frame *frame, const void *payload, size_t length)
{
    weft__frame copy = *frame;
    copy.length = (uint32_t)length;
    return send_part(p2p, peer, &copy, payload, false);
}

weft_status weft__p2p_control(weft__p2p *p2p, int peer, int type, const void *bytes, size_t length)
{
    weft__frame frame = {.kind = WEFT__FRAME_CONTROL, .tag = type, .length = (uint32_t)length};
    WEFT__ASSERT(length <= WEFT__FRAME_PAYLOAD_MAX);
    if (peer == p2p->me) {
        p2p->events->control(p2p->events, peer, type, bytes, length);
        return WEFT_OK;
    }
    if (p2p->peers[peer].gone) return weft__fail(WEFT_ERR_PEER, "rank %d is gone", peer);
    if (!send_part(p2p, peer, &frame, bytes, false)) return weft__fail_memory(length, "a control message");
    return WEFT_OK;
}

weft_status weft__p2p_open(int me, int world, size_t eager_bytes, weft__p2p_events *events, weft__p2p **out)
{
    weft__p2p *p2p = calloc(1, sizeof *p2p);
    if (!p2p) return weft__fail_memory(sizeof *p2p, "the point-to-point layer");
    p2p->me = me;
    p2p->world = world;
    p2p->eager_by_route = eager_bytes == WEFT__EAGER_BY_ROUTE;
    p2p->events = events;
    p2p->sink.header = weft__p2p_header;
    p2p->sink.arrived = weft__p2p_arrived;
    p2p->sink.lost = weft__p2p_lost;
    p2p->sink.left = weft__p2p_left;
    p2p->sink.lacks = weft__p2p_lacks;
    p2p->sink.connected = weft__p2p_connected;
    p2p->sink.let_go = weft__p2p_goes_astray;
    p2p->peers = calloc((size_t)world, sizeof *p2p->peers);
    if (!p2p->peers || !weft__slab_init(&p2p->sends, sizeof(weft__send), WEFT__SENDS_MAX) ||
        !weft__slab_init(&p2p->recvs, sizeof(weft__recv), WEFT__SENDS_MAX)) {
        weft__p2p_close(p2p);
        return weft__fail_memory((size_t)world * sizeof *p2p->peers, "the point-to-point layer");
    }
    weft__list_init(&p2p->ready);
    weft__list_init(&p2p->leaving);
    for (int i = 0; i < WEFT__P2P_BUCKETS; i++) {
        weft__list_init(&p2p->posted[i]);
        weft__list_init(&p2p->unexpected[i]);
    }
    for (int i = 0; i < world; i++) {
        p2p->peers[i].route_name = i == me ? "self" : "none";
        p2p->peers[i].credit = WEFT__CREDIT_BYTES;
        p2p->peers[i].eager_bytes = p2p->eager_by_route ? WEFT__EAGER_TO_SELF : eager_bytes;
        weft__list_init(&p2p->peers[i].leaving);
        weft__list_init(&p2p->peers[i].sends);
        weft__list_init(&p2p->peers[i].recvs);
    }
    *out = p2p;
    return WEFT_OK;
}

weft__sink *weft__p2p_sink(weft__p2p *p2p)
{
    return &p2p->sink;
}

void weft__p2p_route(weft__p2p *p2p, int peer, weft__transport *transport)
{
    int i = 0;
    p2p->peers[peer].route = transport;
    p2p->peers[peer].route_name = transport->name;
    if (p2p->eager_by_route) p2p->peers[peer].eager_bytes = transport->eager_bytes;
    p2p->peers[peer].prefix_bytes = transport->prefix_bytes < p2p->peers[peer].eager_bytes
                                        ? transport->prefix_bytes
                                        : p2p->peers[peer].eager_bytes;
    while (i < p2p->route_count && p2p->routes[i] != transport) i++;
    if (i < p2p->route_count) return;
    WEFT__ASSERT(i < (int)WEFT__LENGTH(p2p->routes));
    p2p->routes[p2p->route_count++] = transport;
}

const char *weft__p2p_route_name(const weft__p2p *p2p, int peer)
{
    return p2p->peers[peer].route_name;
}

weft__transport *weft__p2p_transport(const weft__p2p *p2p, int peer)
{
    return p2p->peers[peer].route;
}

void weft__p2p_close(weft__p2p *p2p)
{
    for (int i = 0; i < WEFT__P2P_BUCKETS && p2p->unexpected[i].next; i++)
        WEFT__LIST_EACH(&p2p->unexpected[i], at)
    weft__reserve_give(WEFT__LIST_ENTRY(at, weft__unexpected, link));
    for (int i = 0; p2p->peers && i < p2p->world; i++) {
        weft__reserve_give(p2p->peers[i].control);
    }
    weft__slab_destroy(&p2p->sends);
    weft__slab_destroy(&p2p->recvs);
    free(p2p->peers);
    free(p2p);
}

uint64_t weft__p2p_send_id(const weft__send *send)
{
    return (uint64_t)send->serial << 32 | send->item.index;
}

weft__send *weft__p2p_find_send(weft__p2p *p2p, uint64_t id)
{
    weft__send *send = weft__slab_at(&p2p->sends, (uint32_t)id);
    return send && send->completion && send->serial == (uint32_t)(id >> 32) ? send : NULL;
}

/* What may follow on each state.  One that is refused while its announcement still goes out is eager from
 * then on: over when the transport lets go of it. */
static const uint8_t send_follows[] = {[WEFT__SEND_FREE] = WEFT__MAY_BECOME(WEFT__SEND_EAGER) |
                                                           WEFT__MAY_BECOME(WEFT__SEND_ANNOUNCED),
                                       [WEFT__SEND_EAGER] = WEFT__MAY_BECOME(WEFT__SEND_FREE),
                                       [WEFT__SEND_ANNOUNCED] = WEFT__MAY_BECOME(WEFT__SEND_FLOWING) |
                                                                WEFT__MAY_BECOME(WEFT__SEND_COPYING) |
                                                                WEFT__MAY_BECOME(WEFT__SEND_EAGER) |
                                                                WEFT__MAY_BECOME(WEFT__SEND_FREE),
                                       [WEFT__SEND_FLOWING] = WEFT__MAY_BECOME(WEFT__SEND_FREE),
                                       [WEFT__SEND_COPYING] = WEFT__MAY_BECOME(WEFT__SEND_FREE)};

/* The one place that stores a send's state.  All of the point-to-point layer is the engine's: no order of
 * memory is needed. */
static void send_to(weft__send *send, enum weft__send_state to)
{
    WEFT__ASSERT(WEFT__ALLOWS(send_follows, send->state, to), send->state, to);
    send->state = to;
}

/* The record goes back; its id is not good any more. */
static void free_send(weft__p2p *p2p, weft__send *send)
{
    send_to(send, WEFT__SEND_FREE);
    weft__list_remove(&send->link);
    weft__list_remove(&send->ready);
    send->serial++;
    send->completion = NULL;
    if (send->hook) send->hook->send = NULL;
    weft__slab_put_locked(&p2p->sends, send);
}

void weft__p2p_finish_send(weft__p2p *p2p, weft__send *send, weft_status status)
{
    weft__completion *completion = send->completion;
    free_send(p2p, send);
    weft__complete(completion, status);
}

void weft__p2p_match_send(weft__p2p *p2p, weft__send *send, weft__recv *own)
{
    weft__match_hook *hook = send->hook;
    hook->other = own ? own->from.hook : NULL;
    free_send(p2p, send);
    hook->matched(hook);
}

/* Given back by a transport that has lost its peer, before it is known what became of that: it may have left,
 * and said goodbye another way.  Then weft__p2p_drop ends it, when what waits for that peer has heard why. */
static bool waits_for_fate(const weft__send *send, weft_status status)
{
    const weft__peer_box *box = &send->p2p->peers[send->peer];
    return status == WEFT_ERR_PEER && !box->gone && !box->dropping;
}

/* Its transport had no memory to begin that frame: what it took of the credit was not used. */
static void take_back_credit(const weft__send *send, weft_status status)
{
    if (status == WEFT_ERR_MEMORY)
        weft__p2p_take_back(&send->p2p->peers[send->peer], weft__p2p_cost(&send->out.frame));
}

static void eager_sent(weft__outgoing *out, weft_status status)
{
    weft__send *send = WEFT__OWNER(out, weft__send, out);
    send->queued = false;
    take_back_credit(send, status);
    if (!waits_for_fate(send, status)) weft__p2p_finish_send(send->p2p, send, status);
}

/* It waits for the answer now, or that has come meanwhile. */
static void announced(weft__outgoing *out, weft_status status)
{
    weft__send *send = WEFT__OWNER(out, weft__send, out);
    send->queued = false;
    take_back_credit(send, status);
    if (waits_for_fate(send, status)) return;
    if (status != WEFT_OK)
        weft__p2p_finish_send(send->p2p, send, status);
    else if (send->state == WEFT__SEND_FLOWING)
        weft__list_append(&send->p2p->ready, &send->ready);
}

/* The receiver waits for the rest of it. */
static void tell_retracted(const weft__send *send)
{
    weft__frame frame = {.kind = WEFT__FRAME_CANCEL, .id = weft__p2p_send_id(send)};
    send_part(send->p2p, send->peer, &frame, NULL, false);
}

/* What has gone of it is its caller's again. */
static void release(weft__send *send)
{
    weft__transport *route = send->p2p->peers[send->peer].route;
    if (send->peer != send->p2p->me && route->release) route->release(route, send->peer, &send->out);
}

static void piece_sent(weft__outgoing *out, weft_status status)
{
    weft__send *send = WEFT__OWNER(out, weft__send, out);
    WEFT__ASSERT(send->queued && send->state == WEFT__SEND_FLOWING, send->queued, send->state);
    send->queued = false;
    if (waits_for_fate(send, status)) return;
    if (status == WEFT_ERR_MEMORY) {
        release(send);
        tell_retracted(send);
    }
    send->offset += out->frame.length;
    WEFT__ASSERT(send->offset <= send->bytes, send->offset, send->bytes);
    if (status != WEFT_OK || send->offset == send->bytes)
        weft__p2p_finish_send(send->p2p, send, status);
    else
        weft__list_append(&send->p2p->ready, &send->ready);
}

/* One piece more.  Returns its length. */
static size_t push(weft__p2p *p2p, weft__send *send)
{
    size_t left = send->bytes - send->offset;
    size_t length = left < WEFT__FRAME_PAYLOAD_MAX ? left : WEFT__FRAME_PAYLOAD_MAX;
    weft__transport *route;

    WEFT__ASSERT(!send->queued && send->offset < send->bytes, send->offset, send->bytes);
    weft__list_remove(&send->ready);
    if (send->state == WEFT__SEND_COPYING) {
        weft__recv *recv = send->recv;
        if (!recv->abandoned) memmove(recv->buf + send->offset, send->buf + send->offset, length);
        recv->got->bytes += length;
        send->offset += length;
        if (send->offset < send->bytes) {
            weft__list_append(&p2p->ready, &send->ready);
            return length;
        }
        weft__p2p_finish_send(p2p, send, WEFT_OK);
        weft__p2p_finish_recv(p2p, recv, WEFT_OK);
        return length;
    }
    send->out.frame.kind = WEFT__FRAME_DATA;
    send->out.frame.id = send->recv_id;
    send->out.frame.bytes = send->offset;
    send->out.frame.length = (uint32_t)length;
    send->out.payload = send->buf + send->offset;
    send->out.more = length < left;
    send->out.last = !send->out.more;
    send->out.bulk = send->out.frame.channel != WEFT__CHANNEL_COLLECTIVE;
    send->out.sent = piece_sent;
    send->queued = true;
    route = p2p->peers[send->peer].route;
    route->send(route, send->peer, &send->out);
    return length;
}

void weft__p2p_flow(weft__p2p *p2p, weft__send *send, uint64_t recv_id, weft__recv *own)
{
    send_to(send, own ? WEFT__SEND_COPYING : WEFT__SEND_FLOWING);
    send->recv_id = recv_id;
    send->recv = own;
    if (!send->queued) weft__list_append(&p2p->ready, &send->ready);
}

void weft__p2p_refuse(weft__p2p *p2p, weft__send *send)
{
    if (!send->queued) {
        weft__p2p_finish_send(p2p, send, WEFT_OK);
        return;
    }
    send_to(send, WEFT__SEND_EAGER);
    send->out.sent = eager_sent;
}

/* To this rank itself: what a transport would do, at once. */
static void send_self(weft__p2p *p2p, weft__send *send)
{
    void *where;
    weft__frame *frame = &send->out.frame;
    if (frame->kind == WEFT__FRAME_EAGER) {
        where = frame->length ? weft__p2p_header(&p2p->sink, p2p->me, frame) : NULL;
        if (where) memmove(where, send->buf, frame->length);
        weft__p2p_arrived(&p2p->sink, p2p->me, frame, where);
        weft__p2p_finish_send(p2p, send, WEFT_OK);
    } else {
        weft__list_append(&p2p->peers[p2p->me].sends, &send->link);
        weft__p2p_arrived(&p2p->sink, p2p->me, frame, NULL);
    }
}

/* Takes the bytes from the credit of their receiver, if there is so much. */
static inline bool take_credit(weft__peer_box *box, size_t bytes)
{
    WEFT__ASSERT_HOT(box->credit <= WEFT__CREDIT_BYTES, box->credit);
    if (box->credit < bytes + sizeof(weft__frame)) return false;
    box->credit -= bytes + sizeof(weft__frame);
    return true;
}

/* Takes of the credit what it costs. */
static inline bool goes_eager(weft__p2p *p2p, const weft__envelope *to, size_t bytes)
{
    weft__peer_box *box = &p2p->peers[to->peer];
    if (bytes > box->eager_bytes || to->hook) return false;
    return to->peer == p2p->me || !weft__p2p_counted(to->channel, bytes) || take_credit(box, bytes);
}

/* How much of it its announcement brings along.  Takes of the credit what that costs. */
static size_t prefix_of(weft__p2p *p2p, const weft__envelope *to, size_t bytes)
{
    weft__peer_box *box = &p2p->peers[to->peer];
    size_t prefix = box->prefix_bytes < bytes ? box->prefix_bytes : 0;
    return prefix && !to->hook && take_credit(box, prefix) ? prefix : 0;
}

/* Does its frame hold its payload? */
static inline bool goes_in_frame(const weft__envelope *to, size_t bytes, bool eager)
{
    return eager && bytes && bytes <= WEFT__FRAME_SMALL_BYTES && to->channel != WEFT__CHANNEL_COLLECTIVE;
}

/* The frame of a whole message, or that announces one: its first 8 bytes are returned.  The rest is written
 * part by part and not read again: whoever read it now, in wider words, would wait for the parts. */
static inline uint64_t write_frame(weft__frame *frame, const weft__envelope *to, const void *buf,
                                   size_t bytes, bool eager, size_t prefix, uint64_t id)
{
    bool small = goes_in_frame(to, bytes, eager);
    uint32_t length = (uint32_t)(!eager ? prefix : small ? 0 : bytes);
    frame->tag = to->tag;
    frame->reserved = 0;
    frame->group = to->group;
    frame->sequence = to->sequence;
    frame->bytes = bytes;
    frame->id = id;
    frame->signature[0] = small ? 0 : to->signature[0];
    frame->signature[1] = small ? 0 : to->signature[1];
    if (small) weft__copy_small(frame->small, buf, bytes);
    return weft__frame_first(eager ? WEFT__FRAME_EAGER : WEFT__FRAME_RTS, to->channel, to->dtype,
                             to->hook ? WEFT__FRAME_APART
                             : small  ? WEFT__FRAME_SMALL
                                      : 0,
                             length);
}

static weft__frame frame_of(const weft__envelope *to, const void *buf, size_t bytes, bool eager,
                            size_t prefix, uint64_t id)
{
    weft__frame frame;
    uint64_t first = write_frame(&frame, to, buf, bytes, eager, prefix, id);
    memcpy(&frame, &first, sizeof first);
    return frame;
}

bool weft__p2p_send_now(weft__p2p *p2p, const weft__envelope *to, const void *buf, size_t bytes)
{
    weft__peer_box *box = &p2p->peers[to->peer];
    size_t credit = box->credit, length = goes_in_frame(to, bytes, true) ? 0 : bytes;
    weft__frame *frame;
    if (!box->route || !box->route->reserve || box->gone || !goes_eager(p2p, to, bytes)) return false;
    box->touched = true;
    frame = box->route->reserve(box->route, to->peer, buf, length);
    if (!frame) {
        box->credit = credit;
        return false;
    }
    box->route->commit(box->route, to->peer, write_frame(frame, to, buf, bytes, true, 0, 0), length);
    box->unanswered = 0;
    return true;
}

uint32_t weft__p2p_unanswered(const weft__p2p *p2p, int peer)
{
    return p2p->peers[peer].unanswered;
}

weft__send *weft__p2p_send(weft__p2p *p2p, const weft__envelope *to, const void *buf, size_t bytes,
                           weft__completion *completion)
{
    weft__peer_box *box = &p2p->peers[to->peer];
    weft__send *send = weft__slab_get_locked(&p2p->sends);
    bool eager;
    if (!send) {
        weft__fail(WEFT_ERR_MEMORY, "no memory for a message, or %u are under way", WEFT__SENDS_MAX);
        return NULL;
    }
    send->p2p = p2p;
    send->buf = buf;
    send->bytes = bytes;
    send->peer = to->peer;
    send->queued = false;
    send->completion = completion;
    send->hook = to->hook;
    if (send->hook) send->hook->send = send;
    weft__list_init(&send->link);
    weft__list_init(&send->ready);
    eager = !box->gone && goes_eager(p2p, to, bytes);
    send_to(send, eager || box->gone ? WEFT__SEND_EAGER : WEFT__SEND_ANNOUNCED);
    if (box->gone) {
        weft__p2p_finish_send(p2p, send, WEFT_ERR_PEER);
        return send;
    }
    send->offset = eager ? 0 : prefix_of(p2p, to, bytes);
    send->out =
        (weft__outgoing){.frame = frame_of(to, buf, bytes, eager, send->offset, weft__p2p_send_id(send)),
                         .payload = buf,
                         .more = send->offset > 0,
                         .sent = eager ? eager_sent : announced};
    weft__list_init(&send->out.link);
    if (to->peer == p2p->me) {
        send_self(p2p, send);
        return send;
    }
    box->touched = true;
    send->queued = true;
    weft__list_append(&box->sends, &send->link);
    box->route->send(box->route, to->peer, &send->out);
    return send;
}

void weft__p2p_send_token(weft__p2p *p2p, const weft__envelope *to)
{
    weft__frame frame = frame_of(to, NULL, 0, true, 0, 0);
    frame.flags = WEFT__FRAME_TOKEN;
    WEFT__ASSERT(to->channel == WEFT__CHANNEL_COLLECTIVE && to->peer != p2p->me);
    if (!p2p->peers[to->peer].gone) send_part(p2p, to->peer, &frame, NULL, true);
}

void weft__p2p_cancel_send(weft__p2p *p2p, weft__send *send)
{
    weft__peer_box *box = &p2p->peers[send->peer];
    /* Will the peer hear of it, or has it? */
    bool known = !send->queued || send->state == WEFT__SEND_FLOWING || send->out.done || send->out.numbered;
    WEFT__ASSERT(send->state != WEFT__SEND_FREE);
    if (!known) weft__p2p_take_back(box, weft__p2p_cost(&send->out.frame));
    if (send->queued) box->route->retract(box->route, &send->out);
    if (known) release(send);
    if (send->state == WEFT__SEND_COPYING) {
        weft__p2p_finish_recv(p2p, send->recv, WEFT_ERR_CANCELLED);
    } else if (known && send->state != WEFT__SEND_EAGER) {
        weft__frame frame = {.kind = WEFT__FRAME_CANCEL, .id = weft__p2p_send_id(send)};
        if (send->peer == p2p->me)
            weft__p2p_arrived(&p2p->sink, p2p->me, &frame, NULL);
        else
            tell_retracted(send);
    }
    free_send(p2p, send);
}

void weft__p2p_end_send(weft__p2p *p2p, weft__send *send)
{
    /* One the transport still has will be told through `sent`; its drop has done so, or a leaver's queue runs
     * out. */
    if (send->queued)
        weft__list_remove(&send->link);
    else
        weft__p2p_finish_send(p2p, send, WEFT_ERR_PEER);
}

bool weft__p2p_touched(const weft__p2p *p2p, int peer)
{
    return p2p->peers[peer].touched;
}

bool weft__p2p_heard(const weft__p2p *p2p, int peer)
{
    return p2p->peers[peer].heard;
}

int weft__p2p_poll(weft__p2p *p2p)
{
    int done = 0;
    size_t moved = 0;
    for (int i = 0; i < p2p->route_count; i++) done += p2p->routes[i]->poll(p2p->routes[i], 64);
    while (!weft__list_empty(&p2p->ready) && moved < WEFT__P2P_POLL_BYTES) {
        moved += push(p2p, WEFT__LIST_ENTRY(p2p->ready.next, weft__send, ready));
        done++;
    }
    if (WEFT__UNLIKELY(!weft__list_empty(&p2p->leaving))) weft__p2p_drop_routes(p2p);
    return done;
}

void weft__p2p_hurry(weft__p2p *p2p)
{
    for (int i = 0; i < p2p->route_count; i++)
        if (p2p->routes[i]->hurry) p2p->routes[i]->hurry(p2p->routes[i]);
}

void weft__p2p_recheck(weft__p2p *p2p)
{
    for (int i = 0; i < p2p->route_count; i++)
        if (p2p->routes[i]->recheck) p2p->routes[i]->recheck(p2p->routes[i]);
}

bool weft__p2p_busy(const weft__p2p *p2p)
{
    if (!weft__list_empty(&p2p->ready)) return true;
    for (int i = 0; i < p2p->route_count; i++)
        if (p2p->routes[i]->busy(p2p->routes[i])) return true;
    return false;
}
