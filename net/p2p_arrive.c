/* p2p_arrive.c - the receiving half of the point-to-point layer: what arrives meets its receive or waits for
 * it, and what peers tell.
 *
 * A frame from a peer can only name receives that flow from that peer; what does not fit anything is thrown
 * away. */
#include "log.h"
#include "p2p_box.h"
#include "reserve.h"
#include "status.h"

#include <stdlib.h>
#include <string.h>

static const char no_payload[1]; /* where a message of no bytes "lies" */

void weft__p2p_free_recv(weft__p2p *p2p, weft__recv *recv)
{
    weft__recv_to(recv, WEFT__RECV_FREE);
    weft__list_remove(&recv->link);
    recv->completion = NULL;
    if (recv->from.hook) recv->from.hook->recv = NULL;
    weft__slab_put_locked(&p2p->recvs, recv);
}

void weft__p2p_finish_recv(weft__p2p *p2p, weft__recv *recv, weft_status status)
{
    weft__completion *completion = recv->completion;
    bool told = !recv->abandoned;
    weft__p2p_free_recv(p2p, recv);
    if (told) weft__complete(completion, status);
}

static void tell_owed(weft__p2p *p2p, int peer)
{
    weft__peer_box *box = &p2p->peers[peer];
    weft__frame frame = {.kind = WEFT__FRAME_CREDIT, .bytes = box->owed};
    box->owed = 0;
    weft__p2p_note(p2p, peer, &frame, NULL, 0);
}

void weft__p2p_owe(weft__p2p *p2p, int peer, size_t cost)
{
    weft__peer_box *box = &p2p->peers[peer];
    if (peer == p2p->me || box->gone) return;
    WEFT__ASSERT_HOT(box->owed < WEFT__CREDIT_BYTES / 2, box->owed);
    box->owed += cost;
    box->unanswered++;
    if (WEFT__UNLIKELY(box->owed >= WEFT__CREDIT_BYTES / 2)) tell_owed(p2p, peer);
}

/* Tells the sender of an announced message to go on, or (bytes 0) that its message is not wanted. */
static void clear(weft__p2p *p2p, int peer, uint64_t send_id, uint64_t recv_id, size_t bytes)
{
    weft__frame frame = {.kind = WEFT__FRAME_CTS, .id = send_id, .sequence = recv_id, .bytes = bytes};
    if (peer == p2p->me)
        weft__p2p_arrived(&p2p->sink, peer, &frame, NULL);
    else
        weft__p2p_note(p2p, peer, &frame, NULL, 0);
}

/* An announced message has met its receive.  prefix: its first bytes, if they have arrived elsewhere. */
static void start_flow(weft__p2p *p2p, weft__recv *recv, int peer, const weft__frame *frame,
                       const void *prefix)
{
    weft_status status = weft__p2p_judge(recv, peer, frame);
    weft__match_hook *hook = recv->from.hook;
    uint32_t index = recv->item.index;
    size_t bytes = frame->bytes;
    weft__list_remove(&recv->link);
    if (status != WEFT_OK || bytes == 0) {
        clear(p2p, peer, frame->id, 0, 0);
        weft__p2p_finish_recv(p2p, recv, status);
        return;
    }
    weft__recv_to(recv, WEFT__RECV_FLOWING);
    recv->id = frame->id;
    recv->prefix = frame->length;
    if (prefix) {
        if (!recv->abandoned) memcpy(recv->buf, prefix, frame->length);
        recv->got->bytes = frame->length;
    } else if (frame->length) {
        p2p->peers[peer].into = recv;
    }
    weft__list_append(&p2p->peers[peer].recvs, &recv->link);
    if (hook) { /* which may end it */
        weft__send *own = peer == p2p->me ? weft__p2p_find_send(p2p, frame->id) : NULL;
        hook->other = own ? own->hook : NULL;
        if (!hook->matched(hook)) bytes = 0;
    }
    clear(p2p, peer, frame->id, index, bytes);
}

static void take_out(weft__p2p *p2p, weft__unexpected *unexpected)
{
    WEFT__ASSERT(p2p->unexpected_count > 0 && !weft__list_empty(&unexpected->link)); /* it waits somewhere */
    weft__list_remove(&unexpected->link);
    p2p->unexpected_count--;
}

/* One that has been taken out. */
static void free_unexpected(weft__p2p *p2p, weft__unexpected *unexpected)
{
    size_t cost = weft__p2p_cost(&unexpected->frame);
    int peer = unexpected->peer;
    weft__reserve_give(unexpected);
    weft__p2p_owe(p2p, peer, cost);
}

void weft__p2p_drop_unexpected(weft__p2p *p2p, weft__unexpected *unexpected)
{
    take_out(p2p, unexpected);
    free_unexpected(p2p, unexpected);
}

/* A message has come that nobody waits for, and not even a note of it can be kept.  So no later receive from
 * that peer can be told whether it is for it. */
static void starve(weft__p2p *p2p, int peer)
{
    weft__peer_box *box = &p2p->peers[peer];
    if (!box->starved)
        weft__log(WEFT__ERROR,
                  "rank %d has no memory to keep a message from rank %d: receives from there fail now",
                  p2p->me, peer);
    box->starved = p2p->starved = true;
}

/* An announced or whole message that nobody waits for yet.  Without memory for its payload its receive is
 * told of that: it is this rank's own want, and no fault of its peer.  NULL: not even for that. */
static weft__unexpected *p2p_arrive_keep(weft__p2p *p2p, int peer, const weft__frame *frame)
{
    weft__unexpected *unexpected = malloc(sizeof *unexpected + frame->length);
    bool lost = !unexpected && frame->length;
    if (!unexpected) unexpected = weft__reserve_get(sizeof *unexpected);
    if (!unexpected) {
        starve(p2p, peer);
        return NULL;
    }
    weft__list_init(&unexpected->link);
    unexpected->peer = peer;
    unexpected->frame = *frame;
    unexpected->whole = false;
    unexpected->lost = lost;
    unexpected->recv = NULL;
    unexpected->ended = WEFT_OK;
    weft__list_append(weft__p2p_bucket(p2p->unexpected, (weft__channel)frame->channel, frame->group,
                                       frame->sequence),
                      &unexpected->link);
    p2p->unexpected_count++;
    return unexpected;
}

/* One that meets no receive, and perhaps a probe (NULL: none).  Returns where its payload goes. */
static void *keep_for(weft__p2p *p2p, int peer, const weft__frame *frame, weft__recv *probe)
{
    weft__unexpected *unexpected = p2p->peers[peer].unexpected = p2p_arrive_keep(p2p, peer, frame);
    if (!unexpected) return NULL;
    if (probe) {
        weft__list_remove(&probe->link);
        weft__p2p_match_unexpected(p2p, probe, unexpected);
    }
    return unexpected->lost ? NULL : unexpected->payload;
}

/* A message of another operation than the receive it would meet, or that meets none yet: the runtime may
 * break the group over it, and with it this receive.  True: it is to be thrown away. */
static bool tell_of_foreign(weft__p2p *p2p, int peer, const weft__frame *frame, const weft__recv *recv)
{
    if (frame->channel != WEFT__CHANNEL_COLLECTIVE ||
        (recv && recv->from.signature[0] == frame->signature[0] &&
         recv->from.signature[1] == frame->signature[1]))
        return false;
    if (p2p->events->collective(p2p->events, peer, frame) && !recv) return true;
    if (recv) weft__p2p_owe(p2p, peer, weft__p2p_cost(frame));
    return recv != NULL;
}

static void *eager_header(weft__p2p *p2p, int peer, const weft__frame *frame)
{
    weft__peer_box *box = &p2p->peers[peer];
    weft__recv *recv = weft__p2p_find_recv(p2p, peer, frame);
    weft_status status;
    if (tell_of_foreign(p2p, peer, frame, recv)) return NULL;
    if (recv && !recv->probes) {
        weft__p2p_owe(p2p, peer, weft__p2p_cost(frame));
        status = weft__p2p_judge(recv, peer, frame);
        weft__list_remove(&recv->link);
        if (status != WEFT_OK) {
            weft__p2p_finish_recv(p2p, recv, status);
            return NULL;
        }
        weft__recv_to(recv, WEFT__RECV_FLOWING);
        recv->id = UINT64_MAX; /* no announcement: nothing can retract it */
        weft__list_append(&box->recvs, &recv->link);
        box->into = recv;
        return frame->length ? recv->buf : NULL;
    }
    return keep_for(p2p, peer, frame, recv);
}

/* Where its prefix goes, if it has one. */
static void *rts_header(weft__p2p *p2p, int peer, const weft__frame *frame)
{
    weft__peer_box *box = &p2p->peers[peer];
    weft__recv *recv = weft__p2p_find_recv(p2p, peer, frame);
    void *where;
    if (tell_of_foreign(p2p, peer, frame, recv)) return NULL;
    if (recv && !recv->probes) {
        weft__p2p_owe(p2p, peer, weft__p2p_cost(frame));
        start_flow(p2p, recv, peer, frame, NULL);
        return box->into && !box->into->abandoned ? box->into->buf : NULL;
    }
    where = keep_for(p2p, peer, frame, recv);
    if (!box->unexpected) clear(p2p, peer, frame->id, 0, 0); /* its sender is not to wait for nothing */
    return where;
}

static void *data_header(weft__p2p *p2p, int peer, const weft__frame *frame)
{
    weft__recv *recv = frame->id <= UINT32_MAX ? weft__slab_at(&p2p->recvs, (uint32_t)frame->id) : NULL;
    if (!recv || !recv->completion || recv->state != WEFT__RECV_FLOWING || recv->got->peer != peer ||
        recv->from.hook || recv->probes || frame->bytes != recv->got->bytes ||
        frame->length > recv->got->offered - recv->got->bytes)
        return NULL;
    p2p->peers[peer].into = recv;
    return recv->abandoned ? NULL : recv->buf + frame->bytes;
}

static void *control_room(weft__peer_box *box, size_t bytes)
{
    void *more = box->control_room < bytes ? weft__reserve_get(bytes) : box->control;
    if (!more || more == box->control) return more;
    weft__reserve_give(box->control);
    box->control = more;
    box->control_room = bytes;
    return more;
}

void *weft__p2p_header(weft__sink *sink, int peer, const weft__frame *frame)
{
    weft__p2p *p2p = WEFT__OWNER(sink, weft__p2p, sink);
    weft__peer_box *box = &p2p->peers[peer];
    box->touched = box->heard = true;
    box->into = NULL;
    box->unexpected = NULL;
    if (box->gone) return NULL;
    switch (frame->kind) {
    case WEFT__FRAME_EAGER: return eager_header(p2p, peer, frame);
    case WEFT__FRAME_RTS: return rts_header(p2p, peer, frame);
    case WEFT__FRAME_DATA: return data_header(p2p, peer, frame);
    case WEFT__FRAME_CONTROL:
    case WEFT__FRAME_BYE: return control_room(box, (size_t)frame->length + 1);
    default: return NULL;
    }
}

/* The whole message is there. */
static void p2p_arrive_fill(weft__recv *recv, const weft__frame *frame, const void *payload)
{
    if (frame->flags & WEFT__FRAME_SMALL)
        weft__copy_small(recv->buf, frame->small, frame->bytes);
    else if (payload && frame->bytes)
        memcpy(recv->buf, payload, frame->bytes);
    recv->got->bytes = frame->bytes;
}

/* Its payload was thrown away: the receive that meets its note is told so. */
static void meet_lost(weft__p2p *p2p, weft__recv *recv, weft__unexpected *unexpected)
{
    weft_status status = weft__p2p_judge(recv, unexpected->peer, &unexpected->frame);
    if (unexpected->frame.kind == WEFT__FRAME_RTS) clear(p2p, unexpected->peer, unexpected->frame.id, 0, 0);
    free_unexpected(p2p, unexpected);
    weft__p2p_finish_recv(p2p, recv, status == WEFT_OK ? WEFT_ERR_MEMORY : status);
}

/* What ends by it may free other unexpected ones. */
static void receive_unexpected(weft__p2p *p2p, weft__recv *recv, weft__unexpected *unexpected)
{
    const weft__frame *frame = &unexpected->frame;
    weft_status status;
    take_out(p2p, unexpected);
    if (unexpected->lost) {
        meet_lost(p2p, recv, unexpected);
        return;
    }
    if (frame->kind == WEFT__FRAME_RTS) {
        start_flow(p2p, recv, unexpected->peer, frame, frame->length ? unexpected->payload : NULL);
        free_unexpected(p2p, unexpected);
        return;
    }
    status = weft__p2p_judge(recv, unexpected->peer, frame);
    if (status == WEFT_OK && !recv->abandoned) p2p_arrive_fill(recv, frame, unexpected->payload);
    free_unexpected(p2p, unexpected);
    weft__p2p_finish_recv(p2p, recv, status);
}

void weft__p2p_match_unexpected(weft__p2p *p2p, weft__recv *recv, weft__unexpected *unexpected)
{
    if (unexpected->whole && recv->probes) {
        weft__p2p_hold(p2p, recv, unexpected);
        return;
    }
    if (unexpected->whole) {
        receive_unexpected(p2p, recv, unexpected);
        return;
    }
    unexpected->recv = recv; /* they meet when the rest of it is there */
    recv->held = unexpected;
    weft__recv_to(recv, WEFT__RECV_FLOWING);
    recv->id = UINT64_MAX;
    recv->got->peer = unexpected->peer;
    weft__list_append(&p2p->peers[unexpected->peer].recvs, &recv->link);
}

/* All of its frame is there.  Without a receive it waits in its bucket. */
static void unexpected_arrived(weft__p2p *p2p, weft__unexpected *unexpected)
{
    unexpected->whole = true;
    if (!unexpected->recv) return;
    weft__list_remove(&unexpected->recv->link);
    weft__p2p_match_unexpected(p2p, unexpected->recv, unexpected);
}

/* One whose payload, if it has any, is in its header: does it meet a receive? */
static bool small_meets(weft__p2p *p2p, int peer, const weft__frame *frame)
{
    weft__recv *recv = weft__p2p_find_recv(p2p, peer, frame);
    weft_status status;
    if (!recv || recv->probes) return false;
    weft__p2p_owe(p2p, peer, weft__p2p_cost(frame));
    status = weft__p2p_judge(recv, peer, frame);
    if (status == WEFT_OK) p2p_arrive_fill(recv, frame, NULL);
    weft__p2p_finish_recv(p2p, recv, status);
    return true;
}

static void eager_arrived(weft__p2p *p2p, int peer, const weft__frame *frame)
{
    weft__peer_box *box = &p2p->peers[peer];
    weft__unexpected *unexpected;
    weft__recv *recv;
    if (frame->length == 0) {
        if (frame->channel != WEFT__CHANNEL_COLLECTIVE && small_meets(p2p, peer, frame)) return;
        eager_header(p2p, peer, frame);
    }
    recv = box->into;
    unexpected = box->unexpected;
    box->into = NULL;
    box->unexpected = NULL;
    if (recv) {
        p2p_arrive_fill(recv, frame, NULL); /* but for a small one it lies where it should */
        weft__p2p_finish_recv(p2p, recv, WEFT_OK);
    } else if (unexpected) {
        unexpected_arrived(p2p, unexpected);
    }
}

static void data_arrived(weft__p2p *p2p, int peer, const weft__frame *frame)
{
    weft__recv *recv = p2p->peers[peer].into;
    p2p->peers[peer].into = NULL;
    if (!recv) return;
    recv->got->bytes += frame->length;
    WEFT__ASSERT(recv->got->bytes <= recv->got->offered, recv->got->bytes, recv->got->offered);
    if (recv->got->bytes == recv->got->offered) weft__p2p_finish_recv(p2p, recv, WEFT_OK);
}

static void request_arrived(weft__p2p *p2p, int peer, const weft__frame *frame)
{
    weft__peer_box *box = &p2p->peers[peer];
    weft__unexpected *unexpected;
    weft__recv *recv;
    if (frame->length == 0) rts_header(p2p, peer, frame);
    recv = box->into;
    unexpected = box->unexpected;
    box->into = NULL;
    box->unexpected = NULL;
    if (recv)
        recv->got->bytes += frame->length;
    else if (unexpected)
        unexpected_arrived(p2p, unexpected);
}

static void retract_arrived(weft__p2p *p2p, int peer, const weft__frame *frame)
{
    for (int i = 0; i < WEFT__P2P_BUCKETS; i++) WEFT__LIST_EACH(&p2p->unexpected[i], at)
        {
            weft__unexpected *unexpected = WEFT__LIST_ENTRY(at, weft__unexpected, link);
            if (unexpected->peer != peer || unexpected->frame.kind != WEFT__FRAME_RTS ||
                unexpected->frame.id != frame->id)
                continue;
            weft__p2p_withdraw(p2p, unexpected, WEFT_ERR_CANCELLED);
            return;
        }
    WEFT__LIST_EACH(&p2p->peers[peer].recvs, at)
    {
        weft__recv *recv = WEFT__LIST_ENTRY(at, weft__recv, link);
        if (recv->id != frame->id) continue;
        if (recv->got->bytes > recv->prefix || recv->abandoned) {
            weft__p2p_finish_recv(p2p, recv, WEFT_ERR_CANCELLED);
            return;
        }
        weft__list_remove(&recv->link); /* no more than its prefix came */
        if (recv->from.hook && !recv->from.hook->unmatched(recv->from.hook)) return;
        if (recv->only)
            weft__p2p_finish_recv(p2p, recv, WEFT_ERR_CANCELLED);
        else
            weft__p2p_wait_for(p2p, recv, true);
        return;
    }
}

static void clear_arrived(weft__p2p *p2p, int peer, const weft__frame *frame)
{
    weft__send *send = weft__p2p_find_send(p2p, frame->id);
    weft__recv *own = peer == p2p->me ? weft__slab_at(&p2p->recvs, (uint32_t)frame->sequence) : NULL;
    if (!send || send->peer != peer || send->state != WEFT__SEND_ANNOUNCED) return;
    if (frame->bytes == 0)
        weft__p2p_refuse(p2p, send);
    else if (send->hook)
        weft__p2p_match_send(p2p, send, own);
    else
        weft__p2p_flow(p2p, send, frame->sequence, own);
}

void weft__p2p_arrived(weft__sink *sink, int peer, const weft__frame *frame, void *where)
{
    weft__p2p *p2p = WEFT__OWNER(sink, weft__p2p, sink);
    weft__peer_box *box = &p2p->peers[peer];
    if (WEFT__UNLIKELY(p2p->leaving_all) && !box->bye_sent && !box->gone) weft__p2p_heard_too_late(p2p, peer);
    box->touched = box->heard = true;
    if (box->gone && frame->kind != WEFT__FRAME_BYE_TAKEN) return;
    switch (frame->kind) {
    case WEFT__FRAME_EAGER: eager_arrived(p2p, peer, frame); break;
    case WEFT__FRAME_RTS: request_arrived(p2p, peer, frame); break;
    case WEFT__FRAME_CTS: clear_arrived(p2p, peer, frame); break;
    case WEFT__FRAME_DATA: data_arrived(p2p, peer, frame); break;
    case WEFT__FRAME_CANCEL: retract_arrived(p2p, peer, frame); break;
    case WEFT__FRAME_CREDIT: weft__p2p_take_back(box, frame->bytes); break;
    case WEFT__FRAME_CONTROL:
        if (where || !frame->length)
            p2p->events->control(p2p->events, peer, frame->tag, where ? where : no_payload, frame->length);
        break;
    case WEFT__FRAME_BYE:
        if (where) ((char *)where)[frame->length] = 0;
        weft__p2p_bye_arrived(p2p, peer, (weft_status)frame->tag, where ? where : "");
        break;
    case WEFT__FRAME_BYE_TAKEN: weft__p2p_bye_taken(p2p, peer); break;
    default: break;
    }
}

void weft__p2p_lacks(weft__sink *sink, int64_t until_ns)
{
    weft__p2p *p2p = WEFT__OWNER(sink, weft__p2p, sink);
    if (p2p->events->lacks) p2p->events->lacks(p2p->events, until_ns);
}

void weft__p2p_lost(weft__sink *sink, int peer, const char *why)
{
    weft__p2p *p2p = WEFT__OWNER(sink, weft__p2p, sink);
    weft__peer_box *box = &p2p->peers[peer];
    if (box->gone && !box->astray) return;
    box->astray = false;
    if (p2p->leaving_all)
        weft__p2p_drop(p2p, peer);
    else
        p2p->events->lost(p2p->events, peer, why);
}

void weft__p2p_peek(weft__p2p *p2p, uint64_t group, uint64_t sequence,
                    void (*fn)(void *arg, int peer, const weft__frame *frame), void *arg)
{
    weft__list *bucket;
    if (WEFT__LIKELY(!p2p->unexpected_count)) return;
    bucket = weft__p2p_bucket(p2p->unexpected, WEFT__CHANNEL_COLLECTIVE, group, sequence);
    WEFT__LIST_EACH(bucket, at)
    {
        weft__unexpected *unexpected = WEFT__LIST_ENTRY(at, weft__unexpected, link);
        if (unexpected->frame.channel == WEFT__CHANNEL_COLLECTIVE && unexpected->frame.group == group &&
            unexpected->frame.sequence == sequence)
            fn(arg, unexpected->peer, &unexpected->frame);
    }
}

bool weft__p2p_drop_token(weft__p2p *p2p, const weft__envelope *from)
{
    weft__unexpected *unexpected = weft__p2p_find_unexpected(p2p, from);
    bool here = unexpected && unexpected->frame.flags & WEFT__FRAME_TOKEN;
    if (here) weft__p2p_drop_unexpected(p2p, unexpected);
    return here;
}

void weft__p2p_forget_group(weft__p2p *p2p, uint64_t group)
{
    weft__list ended;
    if (p2p->unexpected_count == 0)
        return; /* nearly always: a walk over the buckets costs as much as the group */
    weft__list_init(&ended);
    for (int i = 0; i < WEFT__P2P_BUCKETS; i++) WEFT__LIST_EACH(&p2p->unexpected[i], at)
        {
            weft__unexpected *unexpected = WEFT__LIST_ENTRY(at, weft__unexpected, link);
            if (unexpected->frame.channel != WEFT__CHANNEL_COLLECTIVE || unexpected->frame.group != group ||
                !unexpected->whole)
                continue;
            weft__list_remove(at);
            weft__list_append(&ended, at);
        }
    /* What their sender is told may end others: always take the first. */
    while (!weft__list_empty(&ended))
        weft__p2p_drop_unexpected(p2p, WEFT__LIST_ENTRY(ended.next, weft__unexpected, link));
}

void weft__p2p_ended(weft__p2p *p2p, int peer)
{
    const weft__peer_box *box = &p2p->peers[peer];
    /* Also of one that has left: what waits to go there, for want of memory, waits no longer. */
    if (box->route && box->route->traits & WEFT__TRANSPORT_LOCAL) box->route->drop(box->route, peer);
}

static void drop_route(const weft__peer_box *box, int peer, bool lives)
{
    if (!box->route) return;
    if (lives && box->route->drop_living)
        box->route->drop_living(box->route, peer);
    else
        box->route->drop(box->route, peer);
}

static void drop_peer(weft__p2p *p2p, int peer, bool lives)
{
    weft__peer_box *box = &p2p->peers[peer];
    weft__list ended;
    if (box->astray) drop_route(box, peer, lives);
    box->astray = false;
    if (box->gone || box->dropping) return;
    box->dropping = true;
    /* What had arrived before the end still counts; the transport hands it over now. */
    if (!box->said_bye) drop_route(box, peer, lives);
    box->gone = true;
    box->into = NULL;
    if (box->unexpected) { /* its payload will not be complete any more */
        if (box->unexpected->recv) box->unexpected->recv->held = NULL;
        weft__p2p_drop_unexpected(p2p, box->unexpected);
        box->unexpected = NULL;
    }
    weft__p2p_withdraw_all(p2p, peer);
    while (!weft__list_empty(&box->sends))
        weft__p2p_end_send(p2p, WEFT__LIST_ENTRY(box->sends.next, weft__send, link));
    while (!weft__list_empty(&box->recvs))
        weft__p2p_finish_recv(p2p, WEFT__LIST_ENTRY(box->recvs.next, weft__recv, link), WEFT_ERR_PEER);
    weft__list_init(&ended);
    for (int i = 0; i < WEFT__P2P_BUCKETS; i++) WEFT__LIST_EACH(&p2p->posted[i], at)
        {
            if (WEFT__LIST_ENTRY(at, weft__recv, link)->from.peer != peer) continue;
            weft__list_remove(at);
            weft__list_append(&ended, at);
        }
    /* A completion may cancel other receives, also of this list: always take the first. */
    while (!weft__list_empty(&ended))
        weft__p2p_finish_recv(p2p, WEFT__LIST_ENTRY(ended.next, weft__recv, link), WEFT_ERR_PEER);
}

void weft__p2p_drop(weft__p2p *p2p, int peer)
{
    drop_peer(p2p, peer, false);
}

void weft__p2p_part(weft__p2p *p2p, int peer)
{
    drop_peer(p2p, peer, true);
}
