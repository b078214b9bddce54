/* host_pair.c - isend, irecv and send_recv in host memory: one or two messages of the mail. */
#include "group.h"
#include "host.h"
#include "member.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void explain(weft_request *req, weft_status status)
{
    weft_context *ctx = req->ctx;
    const weft__receipt *got = &req->receipt;
    char who[192];
    int world = req->op.peer >= 0 ? req->group->world[req->op.peer] : got->peer;
    weft__member_name(ctx, world >= 0 ? world : ctx->rank, who, sizeof who);
    switch (status) {
    case WEFT_OK: weft__request_settle(req, WEFT_OK, NULL); break;
    case WEFT_ERR_TRUNCATED:
        weft__request_settlef(req, status, "%s sent %zu bytes, there is room for %zu", who, got->offered,
                              req->op.count * weft_dtype_size(req->op.dtype));
        break;
    case WEFT_ERR_MISMATCH:
        weft__request_settlef(req, status, "%s sent %s, this receive is for %s", who,
                              weft__dtype_name((weft_dtype)got->dtype), weft__dtype_name(req->op.dtype));
        break;
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
    explain(req, status);
}

static void start_send(weft_request *req, const weft__envelope *to)
{
    const void *from = req->u.pair.copy ? req->u.pair.copy : req->op.in;
    size_t bytes = req->op.count * weft_dtype_size(req->op.dtype);
    int before = req->completion.count;
    weft__letter *letter = weft__mail_send(req->ctx->mail, to, from, bytes, &req->completion);
    if (!letter)
        weft__complete(&req->completion, WEFT_ERR_MEMORY);
    else if (req->completion.count == before)
        req->u.pair.letter = letter;
}

void weft__pair_start(weft_request *req)
{
    weft_group *group = req->group;
    bool exchange = req->op.kind == WEFT__OP_SEND_RECV;
    size_t room = req->op.count * weft_dtype_size(req->op.dtype);
    weft__envelope at = {.peer = req->op.peer >= 0 ? group->world[req->op.peer] : WEFT_ANY_RANK,
                         .channel = exchange ? WEFT__CHANNEL_EXCHANGE : WEFT__CHANNEL_PAIR,
                         .group = group->id,
                         .tag = exchange ? 0 : req->op.tag,
                         .dtype = (uint8_t)req->op.dtype};
    req->algorithm = at.peer >= 0 ? weft__mail_route_name(req->ctx->mail, at.peer) : "any";
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
