/* host_pair.c - isend, irecv and send_recv in host memory: one or two messages of the point-to-point layer;
 * and probe, of one in any memory. */
#include "engine.h"
#include "executor.h"
#include "group.h"
#include "host.h"
#include "peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "float32", or where the kinds of memory differ "float32 in device memory" */
static void type_text(uint8_t dtype, weft_memory memory, bool places, char *text, size_t bytes)
{
    const char *name = weft__dtype_name((weft_dtype)dtype);
    if (places)
        snprintf(text, bytes, "%s in %s memory", name, weft__memory_name(memory));
    else
        snprintf(text, bytes, "%s", name);
}

static void settle_mismatch(weft_request *req, const char *who)
{
    const weft__recv_result *got = &req->recv_result;
    weft_memory there = got->apart ? (weft_memory)got->way : WEFT_MEMORY_HOST;
    bool places = there != req->op.memory;
    char sent[64], wanted[64];
    type_text(got->dtype, there, places, sent, sizeof sent);
    type_text((uint8_t)req->op.dtype, req->op.memory, places, wanted, sizeof wanted);
    weft__request_settlef(req, WEFT_ERR_MISMATCH, "%s sent %s, this receive is for %s", who, sent, wanted);
}

static void settle_failed(weft_request *req, weft_status status)
{
    weft_context *ctx = req->ctx;
    const weft__recv_result *got = &req->recv_result;
    char who[192], fate[WEFT__SENTENCE_BYTES];
    int world = req->op.peer >= 0 ? req->group->world[req->op.peer] : got->peer;
    weft__peer_name(ctx, world >= 0 ? world : ctx->rank, who, sizeof who);
    switch (status) {
    case WEFT_ERR_TRUNCATED:
        weft__request_settlef(req, status, "%s sent %zu bytes, there is room for %zu", who, got->offered,
                              req->op.count * weft__op_element(&req->op));
        break;
    case WEFT_ERR_MISMATCH: settle_mismatch(req, who); break;
    case WEFT_ERR_CANCELLED:
        weft__request_settlef(req, status, "%s gave the message up after %zu of %zu bytes", who, got->bytes,
                              got->offered);
        break;
    case WEFT_ERR_MEMORY:
        weft__request_settlef(req, status, "rank %d has no memory for it", ctx->rank);
        break;
    case WEFT_ERR_PEER:
        req->culprit = req->op.peer;
        weft__peer_fate(ctx, world, fate, sizeof fate);
        weft__request_settlef(req, status, "%s", fate);
        break;
    default: weft__request_settlef(req, status, "%s: %s", who, weft_status_text(status)); break;
    }
}

void weft__pair_settle(weft_request *req, weft_status status)
{
    if (WEFT__LIKELY(status == WEFT_OK))
        weft__request_settle(req, WEFT_OK, NULL);
    else
        settle_failed(req, status);
}

/* One way, or starting, is over.  With the last the request settles, and may be gone. */
static void part_done(weft_request *req, weft_status status)
{
    if (req->u.pair.failed == WEFT_OK) req->u.pair.failed = status;
    WEFT__ASSERT_HOT(req->u.pair.open > 0);
    if (--req->u.pair.open) return;
    if (req->u.pair.copy) {
        free(req->u.pair.copy);
        req->u.pair.copy = NULL;
    }
    weft__pair_settle(req, req->u.pair.failed);
}

static void sent(weft__completion *completion)
{
    weft_request *req = WEFT__OWNER(completion, weft_request, u.pair.sent);
    req->u.pair.send = NULL;
    part_done(req, completion->status);
}

static void received(weft__completion *completion)
{
    weft_request *req = WEFT__OWNER(completion, weft_request, u.pair.received);
    req->u.pair.recv = NULL;
    part_done(req, completion->status);
}

/* A probe keeps what it has found. */
static void found(weft__completion *completion)
{
    weft_request *req = WEFT__OWNER(completion, weft_request, u.pair.received);
    if (completion->status != WEFT_OK) req->u.pair.recv = NULL;
    part_done(req, completion->status);
}

static void start_send(weft_request *req, unsigned way, size_t bytes)
{
    weft__envelope to = weft__pair_envelope(req->group, &req->op, way);
    const void *from = req->u.pair.copy ? req->u.pair.copy : req->op.in;
    weft__send *send;
    req->u.pair.sent = (weft__completion){sent, 1, WEFT_OK};
    send = weft__p2p_send(req->ctx->p2p, &to, from, bytes, &req->u.pair.sent);
    if (!send)
        weft__complete(&req->u.pair.sent, WEFT_ERR_MEMORY);
    else if (req->u.pair.sent.count) /* else that is over, and the handle too */
        req->u.pair.send = send;
}

static void start_receive_held(weft_request *req, size_t room)
{
    weft__recv *held = req->u.pair.held;
    req->u.pair.held = NULL;
    req->u.pair.recv = held; /* unless it ends in here */
    req->u.pair.received = (weft__completion){received, 1, WEFT_OK};
    weft__p2p_receive_held(req->ctx->p2p, held, (uint8_t)req->op.dtype, NULL, req->op.out, room,
                           &req->recv_result, &req->u.pair.received);
}

static void start_probe(weft_request *req)
{
    weft__p2p *p2p = req->ctx->p2p;
    weft__envelope *from = weft__p2p_new_recv(p2p);
    weft__recv *recv;
    req->u.pair.received = (weft__completion){found, 1, WEFT_OK};
    if (!from) {
        weft__complete(&req->u.pair.received, WEFT_ERR_MEMORY);
        return;
    }
    weft__pair_address(from, req->group, &req->op, 0);
    recv = weft__p2p_probe(p2p, from, &req->recv_result, &req->u.pair.received);
    if (req->u.pair.received.status == WEFT_OK) req->u.pair.recv = recv; /* else it is gone */
}

static void start_receive(weft_request *req, unsigned way, size_t room)
{
    weft__p2p *p2p = req->ctx->p2p;
    weft__envelope *from = weft__p2p_new_recv(p2p);
    weft__recv *recv;
    req->u.pair.received = (weft__completion){received, 1, WEFT_OK};
    if (!from) {
        weft__complete(&req->u.pair.received, WEFT_ERR_MEMORY);
        return;
    }
    weft__pair_address(from, req->group, &req->op, way);
    recv = weft__p2p_post(p2p, from, req->op.out, room, &req->recv_result, &req->u.pair.received);
    if (req->u.pair.received.count) req->u.pair.recv = recv; /* else it is over, and gone */
}

/* Before any way has begun. */
static void refuse(weft_request *req)
{
    weft__recv *held = req->u.pair.held;
    if (weft__kind_way(req->op.kind) == WEFT__RECEIVES && held) {
        req->u.pair.held = NULL;
        weft__p2p_cancel_receive(req->ctx->p2p, held);
    }
    req->u.pair.open = 1;
    part_done(req, WEFT_ERR_PEER);
}

static void pair_start(weft_request *req)
{
    unsigned traits = weft__kind_traits(req->op.kind), way = traits & WEFT__EXCHANGES;
    size_t bytes = req->op.count * weft__op_element(&req->op);
    int peer = req->op.peer;
    req->algorithm = peer >= 0 ? weft__p2p_route_name(req->ctx->p2p, req->group->world[peer]) : "any";
    req->u.pair.send = NULL;
    req->u.pair.recv = NULL;
    req->u.pair.failed = WEFT_OK;
    if (weft__group_refuses_member(req->group, peer)) { /* it was unreachable as this was submitted */
        refuse(req);
        return;
    }
    req->u.pair.open = way == WEFT__EXCHANGES ? 3 : 2; /* each way, and starting */
    if (traits & WEFT__PROBES)
        start_probe(req);
    else if (way == WEFT__RECEIVES && req->u.pair.held)
        start_receive_held(req, bytes);
    else if (way & WEFT__RECEIVES)
        start_receive(req, way, bytes);
    if (way & WEFT__SENDS) start_send(req, way, bytes);
    part_done(req, WEFT_OK);
}

static bool pair_can_poll(const weft_request *req)
{
    return weft__request_state(req) == WEFT__RUNNING && req->u.pair.recv &&
           weft__p2p_can_poll_for(req->ctx->p2p, req->u.pair.recv);
}

static int pair_poll(weft_request *req)
{
    /* A progress pass may have ended it. */
    return pair_can_poll(req) && weft__p2p_poll_for(req->ctx->p2p, req->u.pair.recv);
}

static bool pair_has_met(const weft_request *req)
{
    return req->u.pair.recv && weft__p2p_flowing(req->u.pair.recv);
}

static void pair_stop(weft_request *req)
{
    if (req->u.pair.recv) weft__p2p_cancel_receive(req->ctx->p2p, req->u.pair.recv);
    if (req->u.pair.send) weft__p2p_cancel_send(req->ctx->p2p, req->u.pair.send);
    req->u.pair.recv = NULL;
    req->u.pair.send = NULL;
    free(req->u.pair.copy);
    req->u.pair.copy = NULL;
}

/* A receive whose message is coming in goes on with that one, and no other: it has earned it. */
static void pair_cancel(weft_request *req, const char *text)
{
    if (weft__kind_traits(req->op.kind) & WEFT__PROBES || !pair_has_met(req))
        weft__request_fail(req, WEFT_ERR_CANCELLED, text);
    else
        weft__p2p_take_no_other(req->u.pair.recv);
}

/* What a probe holds, if it still does, is free again. */
static void pair_let_go(weft_request *probe)
{
    weft_context *ctx = probe->ctx;
    bool entered;
    weft__recv *recv;
    WEFT__ASSERT(weft__kind_traits(probe->op.kind) & WEFT__PROBES);
    entered = weft__engine_enter(ctx);
    recv = probe->u.pair.recv;
    probe->u.pair.recv = NULL;
    if (recv) weft__p2p_cancel_receive(ctx->p2p, recv);
    weft__engine_leave(ctx, entered);
}

/* What is sent in place must stay as it is while what comes is written over it. */
static weft_status pair_prepare(weft_request *req, const weft_call *call)
{
    const weft__op *op = &req->op;
    size_t bytes = op->count * weft__op_element(op);
    (void)call;
    req->u.pair.copy = NULL;
    req->u.pair.recv = NULL;
    if (weft__kind_way(op->kind) != WEFT__EXCHANGES || op->in != op->out || !bytes) return WEFT_OK;
    req->u.pair.copy = malloc(bytes);
    if (!req->u.pair.copy) return weft__fail_memory(bytes, "an exchange in place");
    memcpy(req->u.pair.copy, op->in, bytes);
    return WEFT_OK;
}

const weft__executor weft__messages_executor = {.name = "messages",
                                                .traits = WEFT__BEGINS_IN_CALL,
                                                .prepare = pair_prepare,
                                                .start = pair_start,
                                                .stop = pair_stop,
                                                .cancel = pair_cancel,
                                                .let_go = pair_let_go,
                                                .can_poll = pair_can_poll,
                                                .poll = pair_poll,
                                                .has_met = pair_has_met};
