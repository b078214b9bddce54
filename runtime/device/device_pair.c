/* device_pair.c - isend, irecv and send_recv on device memory.
 *
 *   open      matched over the host plane like any message, by the point-to-point layer, which carries no
 * payload of it
 *   met       both sides know of each other; what is refused or empty ends here
 *   launched  each side has entered the ticket of the two on their communicator, for this message or for all
 *             that go together (device_bundle.c), or handed a message to this rank itself straight to the module
 *
 * Which communicator: the group's, where it is there for the sender as it sends (of an exchange: for both) or
 * the group has no other ranks, and else one of the two ranks.  The message says so, and its receiver does as it says.  It may have to wait until
 * the group's is there for itself too, but never for a program: all have begun to join what is there for one.
 * The group's collectives share that communicator, in the one order that all agree on (order.c), which is also
 * the reason why a group that issues as submitted, without such an order, sends nothing over it.
 *
 * What has met nobody holds nothing back and ends alone.  The first of a ticket is a message's receiver: its
 * sender enters only when it has heard that it is wanted, so no rank proposes what the other has given up.
 * Fails: who ends what has met, by its time, a cancel or the other's death, breaks the group, and with it all
 * that goes over its communicator; one of the two is given up, which tells the other. */
#include "device.h"
#include "device_bundle.h"
#include "device_captured.h"
#include "engine.h"
#include "group.h"
#include "group_break.h"
#include "host.h"
#include "peer.h"

#include <stdio.h>

/* What may follow on each state of a direction. */
static const uint8_t half_follows[] = {[WEFT__HALF_NONE] = WEFT__MAY_BECOME(WEFT__HALF_OPEN),
                                       [WEFT__HALF_OPEN] = WEFT__MAY_BECOME(WEFT__HALF_MET) |
                                                           WEFT__MAY_BECOME(WEFT__HALF_NONE),
                                       [WEFT__HALF_MET] = WEFT__MAY_BECOME(WEFT__HALF_OPEN) |
                                                          WEFT__MAY_BECOME(WEFT__HALF_NONE)};

void weft__half_to(weft__half *half, weft__half_state to)
{
    WEFT__ASSERT(WEFT__ALLOWS(half_follows, half->state, to));
    half->state = to;
}

static weft__device *of_out(weft__match_hook *hook)
{
    return WEFT__OWNER(hook, weft__device, match.out.hook);
}

static weft__device *of_in(weft__match_hook *hook)
{
    return WEFT__OWNER(hook, weft__device, match.in.hook);
}

bool weft__device_pair_met(const weft_request *req)
{
    const weft__match *m = &req->device->match;
    return m->out.state == WEFT__HALF_MET || m->in.state == WEFT__HALF_MET;
}

/* The point-to-point layer knows nothing of it any more. */
static void take_from_p2p(weft__device *d)
{
    weft__p2p *p2p = d->req->ctx->p2p;
    if (d->match.in.hook.recv) weft__p2p_cancel_receive(p2p, d->match.in.hook.recv);
    if (d->match.out.hook.send) weft__p2p_cancel_send(p2p, d->match.out.hook.send);
}

/* ---- launching ---- */

static void go(weft__ticket *ticket)
{
    weft__device *first = WEFT__OWNER(ticket, weft__device, ticket);
    for (weft__device *d = first; d; d = d->next) {
        take_from_p2p(d);
        weft__bundle_gone(d);
        d->work.comm = d->dev_comm->comm;
    }
    weft__device_hand(first);
}

bool weft__device_pair_shares(const weft__device *d)
{
    return d->dev_comm && !d->dev_comm->is_pair;
}

/* Over its group's communicator it ends as its group does, which that breaks if nothing has yet. */
static void refuse_one(weft__device *d, weft_status status, const char *why)
{
    weft_request *req = d->req;
    char name[256], text[WEFT__SENTENCE_BYTES];
    weft__request_name(req, name, sizeof name);
    snprintf(text, sizeof text, "%s: %.700s", name, why);
    if (weft__device_pair_shares(d) && atomic_load(&req->group->state) == WEFT__READY) {
        weft__group_break(req->group, &(weft__verdict){status, WEFT__AFTER_ALL, -1, text}, true);
        return;
    }
    if (weft__device_pair_shares(d)) status = weft__broken_text(req, text, sizeof text);
    weft__request_fail(req, status, text);
}

/* A message on it that the module has not. */
static weft_request *next_to_refuse(const weft__device_comm *dev_comm)
{
    WEFT__LIST_EACH(&dev_comm->ctx->pending, at)
    {
        weft_request *req = WEFT__LIST_ENTRY(at, weft_request, pending);
        if (req->device && req->device->dev_comm == dev_comm && !req->device->handed &&
            weft__kind_traits(req->op.kind) & WEFT__PAIR)
            return req;
    }
    return NULL;
}

/* A communicator on which one cannot go is used no more. */
static void device_pair_refuse(weft__ticket *ticket, weft_status status, const char *why)
{
    weft__device *d = WEFT__OWNER(ticket, weft__device, ticket);
    const weft__device_comm *dev_comm = d->dev_comm;
    weft_request *req;
    if (d->bundle.state == WEFT__BUNDLE_NAMED) weft__bundle_part(d);
    refuse_one(d, status, why);
    /* Always the first again: ending one may end others. */
    while ((req = next_to_refuse(dev_comm)) != NULL) refuse_one(req->device, status, why);
}

/* What really moves: of an exchange perhaps one direction, and no more than was sent. */
static void fill_work(weft__device *d)
{
    weft_request *req = d->req;
    weft__op op = req->op;
    bool in = d->match.in.state == WEFT__HALF_MET, out = d->match.out.state == WEFT__HALF_MET;
    op.kind = !in ? WEFT__OP_ISEND : !out ? WEFT__OP_IRECV : WEFT__OP_SEND_RECV;
    if (in) op.count = req->recv_result.offered / weft_dtype_size(op.dtype);
    d->work.op = weft__module_operation(&op);
}

/* To this rank itself: both are there when the second meets. */
static void launch_self(weft__device *d)
{
    weft__match *m = &d->match;
    weft__device *send = d, *receive = d;
    if (m->out.state != WEFT__HALF_MET)
        send = of_out(m->in.hook.other);
    else if (m->in.state != WEFT__HALF_MET)
        receive = of_in(m->out.hook.other);
    if (send->match.out.state != WEFT__HALF_MET || receive->match.in.state != WEFT__HALF_MET) return;
    take_from_p2p(receive);
    fill_work(send);
    fill_work(receive);
    send->work.peer = receive->work.peer = -1;
    if (send != receive) {
        send->next = receive;
        receive->fused = send;
    }
    weft__device_hand(send);
}

static weft__ticket_key key_of(const weft__device *d, int other)
{
    const weft_request *req = d->req;
    int me = req->ctx->rank;
    unsigned way = weft__kind_way(req->op.kind);
    bool sends = way == WEFT__SENDS;
    weft__ticket_key key = {.group = req->group->id,
                            .kind = WEFT__TICKET_MESSAGE,
                            .memory = weft__module_memory(req->ctx, d->module)};
    if (way == WEFT__EXCHANGES) {
        key.kind = WEFT__TICKET_EXCHANGE;
        key.low = me < other ? me : other;
        key.high = me < other ? other : me;
        key.number = me < other ? req->sequence : req->recv_result.number;
    } else {
        key.low = sends ? me : other;
        key.high = sends ? other : me;
        key.number = sends ? req->sequence : req->recv_result.number;
    }
    return key;
}

/* Over its group's communicator?  Both sides get the same answer. */
static bool is_shared(const weft__device *d)
{
    unsigned way = weft__kind_way(d->req->op.kind);
    uint32_t says = way & WEFT__SENDS ? d->match.says : WEFT__SAYS_SHARED;
    uint32_t said = way & WEFT__RECEIVES ? d->req->recv_result.said : WEFT__SAYS_SHARED;
    return says & said & WEFT__SAYS_SHARED;
}

/* The other side, which it has met: in the world. */
static int other_of(const weft__device *d)
{
    const weft_request *req = d->req;
    return d->match.in.state == WEFT__HALF_MET ? req->recv_result.peer : req->group->world[req->op.peer];
}

void weft__device_pair_enter(weft__device *first)
{
    weft__phase phase =
        first->dev_comm->state == WEFT__DEVICE_COMM_READY ? WEFT__PHASE_ORDERING : WEFT__PHASE_CONNECTING;
    weft__ticket *ticket = &first->ticket;
    ticket->key = key_of(first, other_of(first));
    /* The receiver is first; of an exchange the lower. */
    first->match.world[0] = ticket->key.kind == WEFT__TICKET_MESSAGE ? ticket->key.high : ticket->key.low;
    first->match.world[1] = ticket->key.kind == WEFT__TICKET_MESSAGE ? ticket->key.low : ticket->key.high;
    ticket->world = first->match.world;
    ticket->size = 2;
    ticket->length = 0;
    ticket->go = go;
    ticket->refuse = device_pair_refuse;
    weft__ticket_to(ticket, WEFT__TICKET_OUTSIDE);
    for (weft__device *d = first; d; d = d->next) {
        WEFT__ASSERT(d->dev_comm == first->dev_comm && d->work.peer == first->work.peer);
        ticket->length++;
        weft__device_reach(d, phase);
    }
    weft__device_comm_await(first->dev_comm, ticket);
}

static void launch(weft__device *d)
{
    weft_request *req = d->req;
    int other = other_of(d);
    if (other == req->ctx->rank) {
        launch_self(d);
        return;
    }
    fill_work(d);
    d->dev_comm = is_shared(d) ? weft__device_comm_of_group(req->group, d->module)
                               : weft__device_comm_of_pair(req->group, d->module, other);
    if (!d->dev_comm || d->dev_comm->state == WEFT__DEVICE_COMM_DOOMED) {
        refuse_one(d, d->dev_comm ? d->dev_comm->status : WEFT_ERR_MEMORY,
                   d->dev_comm ? d->dev_comm->why : "no memory for a communicator");
        return;
    }
    d->work.rank = d->dev_comm->rank;
    d->work.size = d->dev_comm->size;
    d->work.peer = weft__device_comm_rank(d->dev_comm, other);
    if (!weft__bundle_met(d)) weft__device_pair_enter(d);
}

/* ---- meeting ---- */

/* Without the module. */
static void device_pair_settle(weft_request *req, weft_status status)
{
    atomic_fetch_add_explicit(&req->refs, 1, memory_order_relaxed);
    weft__bundle_leave(req->device);
    weft__device_settles(req->device);
    weft__pair_settle(req, status);
    weft__device_told(req->device, WEFT__PHASE_OVER);
    weft__request_unref(req);
}

/* Once nothing of it is open any more. */
static void device_pair_advance(weft__device *d)
{
    weft__match *m = &d->match;
    if (m->out.state == WEFT__HALF_OPEN || m->in.state == WEFT__HALF_OPEN) return;
    if (weft__device_pair_met(d->req) && m->outcome != WEFT_ERR_PEER) {
        launch(d);
        return;
    }
    take_from_p2p(d);
    device_pair_settle(d->req, m->outcome);
}

static bool out_matched(weft__match_hook *hook)
{
    weft__half_to(&of_out(hook)->match.out, WEFT__HALF_MET);
    device_pair_advance(of_out(hook));
    return true;
}

static bool in_matched(weft__match_hook *hook)
{
    weft__device *d = of_in(hook);
    const bool recorded = d->req->recv_result.said & WEFT__SAYS_RECORDED;
    weft__half_to(&d->match.in, WEFT__HALF_MET);
    if (recorded)
        weft__captured_differs(d->req);
    else
        device_pair_advance(d); /* what ends or goes on in there has met */
    return !recorded;
}

/* Its sender gave it up before it heard.  A group that broke meanwhile has spared what had met. */
static bool in_unmatched(weft__match_hook *hook)
{
    weft__device *d = of_in(hook);
    weft_request *req = d->req;
    weft_context *ctx = req->ctx;
    char text[WEFT__SENTENCE_BYTES];
    bool over;
    weft__half_to(&d->match.in, WEFT__HALF_OPEN);
    d->dev_comm = NULL;
    weft__device_reach(d, WEFT__PHASE_AGREEING);
    atomic_fetch_add_explicit(&req->refs, 1, memory_order_relaxed); /* it may settle in here */
    weft__bundle_leave(d);
    weft__order_leave(ctx, &d->ticket);
    if (atomic_load(&req->group->state) == WEFT__BROKEN)
        weft__request_fail(req, weft__broken_text(req, text, sizeof text), text);
    weft__bundle_name(ctx); /* those that it was to go together with */
    over = weft__request_state(req) >= WEFT__DRAINING;
    weft__request_unref(req);
    return !over;
}

/* The other side is gone, and this one has met it.  A rank that leaves has seen its part through: then all
 * have agreed on its turn, and what it sent is on its way. */
static void lose(weft__device *d)
{
    weft_request *req = d->req;
    weft_context *ctx = req->ctx;
    char name[256], who[WEFT__SENTENCE_BYTES], text[WEFT__SENTENCE_BYTES];
    if (weft__has_left(&ctx->peers[req->recv_result.peer]) && d->fused->ticket.state == WEFT__TICKET_FINAL)
        return;
    weft__request_name(req, name, sizeof name);
    weft__peer_fate(ctx, req->recv_result.peer, who, sizeof who);
    snprintf(text, sizeof text, "%.240s: %.*s", name, WEFT__SENTENCE_BYTES - 256, who);
    req->culprit = weft__group_member(req->group, req->recv_result.peer);
    weft__request_fail(req, WEFT_ERR_PEER, text);
}

/* Nothing is to be moved this way: it was refused, or is empty; or the other side is gone. */
static void end_half(weft__device *d, weft__half *half)
{
    weft__match *m = &d->match;
    if (half->state == WEFT__HALF_MET && m->out.state != WEFT__HALF_OPEN) {
        lose(d);
        return;
    }
    if (m->outcome == WEFT_OK) m->outcome = half->completion.status;
    weft__half_to(half, WEFT__HALF_NONE);
    device_pair_advance(d);
}

static void out_over(weft__completion *completion)
{
    weft__device *d = WEFT__OWNER(completion, weft__device, match.out.completion);
    end_half(d, &d->match.out);
}

static void in_over(weft__completion *completion)
{
    weft__device *d = WEFT__OWNER(completion, weft__device, match.in.completion);
    end_half(d, &d->match.in);
}

/* ---- beginning and ending ---- */

/* False: no memory. */
static bool open_receive(weft__device *d, const weft__envelope *from, size_t room)
{
    weft_request *req = d->req;
    weft__recv *held = weft__kind_way(req->op.kind) == WEFT__RECEIVES ? req->u.pair.held : NULL;
    weft__half *in = &d->match.in;
    if (!held)
        return weft__p2p_receive(req->ctx->p2p, from, NULL, room, &req->recv_result, &in->completion) != NULL;
    req->u.pair.held = NULL;
    weft__p2p_receive_held(req->ctx->p2p, held, from->dtype, from->hook, NULL, room, &req->recv_result,
                           &in->completion);
    return true;
}

/* Over its group's communicator: that is there, or there is nobody else without whom it would not be made. */
static bool may_share(const weft__device *d)
{
    const weft_group *group = d->req->group;
    if (weft__device_in_program(group, d->module)) return false;
    return group->size == 2 || weft__device_comm_is_ready(group, d->module);
}

/* Its group has broken since it was submitted, and has ended what had begun by then.  On a communicator of two
 * ranks' own the other side counts on it where they have met; the group's is not made any more. */
static void end_with_group(weft_request *req)
{
    char text[WEFT__SENTENCE_BYTES];
    if (atomic_load(&req->group->state) != WEFT__BROKEN) return;
    if (weft__device_pair_met(req) && !weft__device_pair_shares(req->device)) return;
    weft__request_fail(req, weft__broken_text(req, text, sizeof text), text);
}

void weft__device_pair_start(weft_request *req)
{
    weft__device *d = req->device;
    weft__match *m = &d->match;
    weft__p2p *p2p = req->ctx->p2p;
    unsigned way = weft__kind_way(req->op.kind);
    weft__envelope at = weft__pair_envelope(req->group, &req->op, way);
    size_t bytes = req->op.count * weft_dtype_size(req->op.dtype);
    bool sends = way & WEFT__SENDS, receives = way & WEFT__RECEIVES;
    uint8_t by = (uint8_t)weft__module_memory(req->ctx, d->module);
    weft__bundle_start bundle = weft__bundle_begin(d);
    m->out = (weft__half){.hook = {.matched = out_matched, .way = by}, .completion = {out_over, 1, WEFT_OK}};
    m->in = (weft__half){.hook = {.matched = in_matched, .unmatched = in_unmatched, .way = by},
                         .completion = {in_over, 1, WEFT_OK}};
    if (sends) weft__half_to(&m->out, WEFT__HALF_OPEN);
    if (receives) weft__half_to(&m->in, WEFT__HALF_OPEN);
    m->outcome = WEFT_OK;
    at.signature[0] = req->sequence;
    if (may_share(d)) m->says |= WEFT__SAYS_SHARED;
    at.signature[1] = by | (uint64_t)m->says << 8;
    atomic_fetch_add_explicit(&req->refs, 1, memory_order_relaxed); /* it may settle in here */
    at.hook = &m->in.hook;
    if (receives && !open_receive(d, &at, bytes)) {
        weft__half_to(&m->in, WEFT__HALF_NONE);
        if (sends) weft__half_to(&m->out, WEFT__HALF_NONE);
        sends = false;
        device_pair_settle(req, WEFT_ERR_MEMORY);
    }
    at.hook = &m->out.hook;
    if (sends && !weft__p2p_send(p2p, &at, NULL, bytes, &m->out.completion))
        weft__complete(&m->out.completion, WEFT_ERR_MEMORY);
    end_with_group(req);
    weft__bundle_begun(req->ctx, &bundle);
    weft__request_unref(req);
}

void weft__device_pair_stop(weft_request *req)
{
    take_from_p2p(req->device);
    if (req->capture) return; /* it is in no line */
    weft__bundle_leave(req->device);
    weft__order_leave(req->ctx, &req->device->ticket);
}

void weft__device_pair_done(weft_request *req)
{
    if (req->capture) {
        weft__captured_done(req);
        return;
    }
    if (req->device->match.in.state == WEFT__HALF_MET) req->recv_result.bytes = req->recv_result.offered;
    weft__device_settles(req->device);
    weft__pair_settle(req, req->device->match.outcome);
}

void weft__device_pair_give_up(weft_request *req, weft_status status, const char *why)
{
    weft__device *d = req->device;
    int other = req->recv_result.peer >= 0 ? req->recv_result.peer : req->group->world[req->op.peer];
    if (other == req->ctx->rank) return; /* nobody waits for it */
    /* An exchange of which the other half has not met yet has none.  The group's is given up as that breaks. */
    if (!d->dev_comm) d->dev_comm = weft__device_comm_of_pair(req->group, d->module, other);
    if (d->dev_comm && d->dev_comm->is_pair) weft__device_comm_doom(d->dev_comm, status, why);
    weft__group_break(req->group, &(weft__verdict){status, WEFT__AFTER_ALL, -1, why}, !req->ctx->aborting);
}

void weft__device_pairs_refuse(weft__device_comm *dev_comm)
{
    weft_request *req;
    WEFT__ASSERT(dev_comm->is_pair && weft__holds_engine(dev_comm->ctx));
    /* Always the first again: ending one may end others. */
    while ((req = next_to_refuse(dev_comm)) != NULL) refuse_one(req->device, dev_comm->status, dev_comm->why);
}
