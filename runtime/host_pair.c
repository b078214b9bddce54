/* host_pair.c - isend, irecv and send_recv in host memory: one or two messages of the mail. */
#include "group.h"
#include "host.h"
#include "member.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "float32", or where the kinds of memory differ "float32 in device memory" */
static void type_text(uint8_t dtype, bool on_device, bool places, char *text, size_t bytes)
{
    snprintf(text, bytes, "%s%s", weft__dtype_name((weft_dtype)dtype),
             !places     ? ""
             : on_device ? " in device memory"
                         : " in host memory");
}

static void settle_mismatch(weft_request *req, const char *who)
{
    const weft__receipt *got = &req->receipt;
    bool on_device = req->op.memory != WEFT_MEMORY_HOST, places = got->apart != on_device;
    char sent[64], wanted[64];
    type_text(got->dtype, got->apart, places, sent, sizeof sent);
    type_text((uint8_t)req->op.dtype, on_device, places, wanted, sizeof wanted);
    weft__request_settlef(req, WEFT_ERR_MISMATCH, "%s sent %s, this receive is for %s", who, sent, wanted);
}

void weft__pair_settle(weft_request *req, weft_status status)
{
    weft_context *ctx = req->ctx;
    const weft__receipt *got = &req->receipt;
    char who[192];
    int world = req->op.peer >= 0 ? req->group->world[req->op.peer] : got->peer;
    if (WEFT__LIKELY(status == WEFT_OK)) {
        weft__request_settle(req, WEFT_OK, NULL);
        return;
    }
    weft__member_name(ctx, world >= 0 ? world : ctx->rank, who, sizeof who);
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
    case WEFT_ERR_PEER:
        req->culprit = req->op.peer;
        weft__member_fate(ctx, world, who, sizeof who);
        weft__request_settlef(req, status, "%s", who);
        break;
    default: weft__request_settlef(req, status, "%s: %s", who, weft_status_text(status)); break;
    }
}

static void pair_done(weft__completion *completion)
{
    weft_request *req = WEFT__OWNER(completion, weft_request, completion);
    weft_status status = completion->status;
    req->u.pair.letter = NULL;
    req->u.pair.want = NULL;
    free(req->u.pair.copy);
    req->u.pair.copy = NULL;
    weft__pair_settle(req, status);
}

static void start_send(weft_request *req, const weft__envelope *to)
{
    const void *from = req->u.pair.copy ? req->u.pair.copy : req->op.in;
    size_t bytes = req->op.count * weft__op_element(&req->op);
    int before = req->completion.count;
    weft__letter *letter = weft__mail_send(req->ctx->mail, to, from, bytes, &req->completion);
    if (!letter)
        weft__complete(&req->completion, WEFT_ERR_MEMORY);
    else if (req->completion.count == before)
        req->u.pair.letter = letter;
}

weft__envelope weft__pair_envelope(const weft_request *req)
{
    bool exchange = req->op.kind == WEFT__OP_SEND_RECV;
    return (weft__envelope){.peer = req->op.peer >= 0 ? req->group->world[req->op.peer] : WEFT_ANY_RANK,
                            .channel = exchange ? WEFT__CHANNEL_EXCHANGE : WEFT__CHANNEL_PAIR,
                            .group = req->group->id,
                            .tag = exchange ? 0 : req->op.tag,
                            .dtype = (uint8_t)req->op.dtype};
}

void weft__pair_start(weft_request *req)
{
    bool exchange = req->op.kind == WEFT__OP_SEND_RECV;
    size_t room = req->op.count * weft__op_element(&req->op);
    weft__envelope at = weft__pair_envelope(req);
    req->algorithm = at.peer >= 0 ? weft__mail_route_name(req->ctx->mail, at.peer) : "any";
    if (req->op.kind == WEFT__OP_ISEND && weft__mail_send_now(req->ctx->mail, &at, req->op.in, room)) {
        weft__request_settle(req, WEFT_OK, NULL);
        return;
    }
    req->completion = (weft__completion){pair_done, exchange ? 2 : 1, WEFT_OK};
    req->u.pair.letter = NULL;
    req->u.pair.want = NULL;
    atomic_fetch_add_explicit(&req->refs, 1, memory_order_relaxed); /* it may settle in here */
    /* u.pair.copy was made at submission: an exchange in place needs what it sends to stay as it is. */
    if (exchange || req->op.kind == WEFT__OP_IRECV) {
        weft__want *want =
            weft__mail_receive(req->ctx->mail, &at, req->op.out, room, &req->receipt, &req->completion);
        if (!want)
            weft__complete(&req->completion, WEFT_ERR_MEMORY);
        else if (req->completion.count == (exchange ? 2 : 1))
            req->u.pair.want = want;
    }
    if (exchange || req->op.kind == WEFT__OP_ISEND) start_send(req, &at);
    weft__request_unref(req);
}

bool weft__pair_met(const weft_request *req)
{
    return req->u.pair.want && weft__mail_flowing(req->u.pair.want);
}

void weft__pair_stop(weft_request *req)
{
    if (req->u.pair.want) weft__mail_cancel_receive(req->ctx->mail, req->u.pair.want);
    if (req->u.pair.letter) weft__mail_cancel_send(req->ctx->mail, req->u.pair.letter);
    req->u.pair.want = NULL;
    req->u.pair.letter = NULL;
    free(req->u.pair.copy);
    req->u.pair.copy = NULL;
}
