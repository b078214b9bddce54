/* messages.c - isend and irecv.
 *
 * A short message passes in the call that asks for it, before anything else is made of it: a send whose way
 * is free is written to where its receiver polls, and a receive whose message is there takes it.  Its
 * request, if one is wanted, is made afterwards, and settled then.  A receive whose message is not there is
 * posted as shortly.  What else does not pass begins like any other operation; and what is not plainly right
 * goes the long way (submit.h), which has the words for it. */
#include "behind.h"
#include "engine.h"
#include "group.h"
#include "host.h"
#include "operate.h"
#include "plain.h"
#include "submit.h"

#include <sched.h>

/* Is it a message of a group that works, in this process, from a thread that may wait? */
static WEFT__MADE_FOR_EACH bool is_plain(const weft_group *group, const weft__op *op, bool sends)
{
    weft_memory memory;
    if (WEFT__UNLIKELY(!group || weft__forked() || weft__in_callback() ||
                       atomic_load_explicit(&group->state, memory_order_acquire) != WEFT__READY ||
                       !weft__message_plainly_right(op, group->size, sends)))
        return false;
    if (WEFT__LIKELY(!group->ctx->beyond_host)) return true;
    if (weft__streams_are_held(group->ctx)) return false;
    return weft__memory_at(group->ctx, sends ? op->in : op->out, &memory) == WEFT_OK &&
           memory == WEFT_MEMORY_HOST;
}

/* Nothing waits before it, and its request could be made.  Engine held. */
static WEFT__MADE_FOR_EACH bool may_pass(weft_context *ctx)
{
    return WEFT__LIKELY(weft__mpsc_empty(&ctx->submitted) && weft__slab_has_locked(&ctx->requests) &&
                        !atomic_load_explicit(&ctx->closing, memory_order_seq_cst));
}

/* Both: engine held.  False: nothing has been done. */
static WEFT__MADE_FOR_EACH bool send_now(weft_group *group, const weft__op *op, weft_request **out)
{
    weft__envelope to = weft__pair_envelope(group, op, WEFT__SENDS);
    WEFT__ASSERT_HOT(weft__holds_engine(group->ctx) && op->peer >= 0, op->peer);
    if (!weft__p2p_send_now(group->ctx->p2p, &to, op->in, op->count * weft__op_element(op))) return false;
    weft__submit_passed(group, op, WEFT__SENDS, out);
    return true;
}

static WEFT__MADE_FOR_EACH bool receive_now(weft_group *group, const weft__op *op, weft_request **out)
{
    weft__p2p *p2p = group->ctx->p2p;
    weft__envelope from = weft__pair_envelope(group, op, WEFT__RECEIVES);
    const weft__frame *frame = weft__p2p_at_hand(p2p, &from, op->count * weft__op_element(op));
    WEFT__ASSERT_HOT(weft__holds_engine(group->ctx));
    if (!frame) return false;
    WEFT__ASSERT_HOT(frame->bytes <= op->count * weft__op_element(op), frame->bytes, op->count);
    weft__submit_passed(group, op, WEFT__RECEIVES, out);
    if (out) {
        (*out)->recv_result.peer = from.peer;
        (*out)->recv_result.bytes = frame->bytes;
    }
    weft__p2p_take(p2p, from.peer, frame, op->out);
    return true;
}

static WEFT__MADE_FOR_EACH weft__op op_of(unsigned way, const void *buf, size_t count, weft_dtype dtype,
                                          int peer, int tag)
{
    bool sends = way == WEFT__SENDS;
    return (weft__op){.kind = sends ? WEFT__OP_ISEND : WEFT__OP_IRECV,
                      .dtype = dtype,
                      .memory = WEFT_MEMORY_HOST,
                      .peer = peer,
                      .tag = tag,
                      .count = count,
                      .in = sends ? buf : NULL,
                      .out = sends ? NULL : (void *)(uintptr_t)buf,
                      .scale = 1};
}

/* Is the other side of a blocking send to have this processor now? */
static WEFT__MADE_FOR_EACH bool gives_way(const weft_context *ctx, const weft_group *group, int peer)
{
    return WEFT__UNLIKELY(weft__pacing_is_crowded(&ctx->pacing)) &&
           weft__pacing_yields_after_send(weft__p2p_unanswered(ctx->p2p, group->world[peer]));
}

/* One that does not pass begins while the engine is held.  Both get the operation in parts, so that those
 * that pass never have it in memory. */
static WEFT__NOINLINE weft_status messages_begin(weft_group *group, unsigned way, const void *buf,
                                                 size_t count, weft_dtype dtype, int peer, int tag,
                                                 weft_request **out)
{
    weft__op op = op_of(way, buf, count, dtype, peer, tag);
    weft_request *req;
    weft_status status = weft__submit_inside(group, &op, NULL, out != NULL, &req);
    return status == WEFT_OK ? weft__hand_out(req, out) : status;
}

static WEFT__NOINLINE weft_status operate(weft_group *group, unsigned way, const void *buf, size_t count,
                                          weft_dtype dtype, int peer, int tag, const weft_call *call,
                                          weft_request **out)
{
    weft__op op = op_of(way, buf, count, dtype, peer, tag);
    return weft__operate(group, &op, call, out);
}

static WEFT__MADE_FOR_EACH weft_status message(weft_group *group, unsigned way, const void *buf, size_t count,
                                               weft_dtype dtype, int peer, int tag, const weft_call *call,
                                               weft_request **out)
{
    const weft__op op = op_of(way, buf, count, dtype, peer, tag);
    bool sends, yields;
    int64_t check_ns = WEFT__NEVER;
    weft_context *ctx;
    if (WEFT__PLAIN || WEFT__UNLIKELY(call || !is_plain(group, &op, way == WEFT__SENDS)) ||
        !weft__engine_try(group->ctx))
        return operate(group, way, buf, count, dtype, peer, tag, call, out);
    ctx = group->ctx;
    sends = way == WEFT__SENDS;
    yields = sends && !out && gives_way(ctx, group, peer);
    if (!may_pass(ctx)) return messages_begin(group, way, buf, count, dtype, peer, tag, out);
    if (!(sends ? send_now(group, &op, out) : receive_now(group, &op, out))) {
        if (sends || !out) return messages_begin(group, way, buf, count, dtype, peer, tag, out);
        *out = weft__submit_numbered(group, &op, WEFT__RECEIVES);
        check_ns = weft__submit_post(*out);
    }
    weft__count(&ctx->active, 1);
    weft__engine_drop(ctx);
    if (!sends) weft__check_by(ctx, check_ns);
    if (yields) sched_yield();
    return WEFT_OK;
}

weft_status weft_isend(weft_group *group, const void *buf, size_t count, weft_dtype dtype, int peer, int tag,
                       const weft_call *call, weft_request **req)
{
    return message(group, WEFT__SENDS, buf, count, dtype, peer, tag, call, req);
}

weft_status weft_irecv(weft_group *group, void *buf, size_t count, weft_dtype dtype, int peer, int tag,
                       const weft_call *call, weft_request **req)
{
    return message(group, WEFT__RECEIVES, buf, count, dtype, peer, tag, call, req);
}
