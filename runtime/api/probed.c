/* probed.c - messages of unknown size: probe, and the receive of what it has found.
 *
 * A probe is a request on the host plane, whatever memory its message is for: the point-to-point layer
 * matches all messages there, and holds the one it finds (net/p2p_held.c).  The settled request owns that
 * hold until one of these: a receive is submitted with it, which takes the hold over; it is cancelled; its
 * last reference goes.
 *
 * Fails: a receive that is refused leaves the message with its probe. */
#include "batch.h"
#include "engine.h"
#include "group.h"
#include "host.h"
#include "operate.h"
#include "submit.h"

/* One more of the kinds that cannot join. */
static weft_status check_call(const weft_call *call, const char *what)
{
    if (!call || !call->batch) return WEFT_OK;
    return weft__batch_refuse(call->batch,
                              weft__fail(WEFT_ERR_ARGUMENT,
                                         "%s: call->batch is set: probes and their receives join no batch",
                                         what));
}

weft_status weft_probe(weft_group *group, int peer, int tag, const weft_call *call, weft_request **req)
{
    weft__op op = {.kind = WEFT__OP_PROBE, .peer = peer, .tag = tag};
    weft_status status = check_call(call, "probe");
    return status == WEFT_OK ? weft__operate(group, &op, call, req) : status;
}

static weft_status check_probe(weft_request *probe)
{
    weft_status status;
    if (!probe) return weft__fail(WEFT_ERR_ARGUMENT, "receive_probed: probe is NULL");
    if ((status = weft__usable(probe->ctx)) != WEFT_OK) return status;
    if (!(weft__kind_traits(probe->op.kind) & WEFT__PROBES))
        return weft__fail(WEFT_ERR_ARGUMENT,
                          "receive_probed: probe is the request of %s: expected weft_probe's",
                          weft__kind_name(probe->op.kind));
    if (!weft__request_settled(probe))
        return weft__fail(WEFT_ERR_STATE, "receive_probed: the probe has found no message yet");
    if (probe->status != WEFT_OK)
        return weft__fail(WEFT_ERR_STATE, "receive_probed: the probe has found no message: %.800s",
                          weft_request_message(probe));
    return WEFT_OK;
}

/* The hold goes from the probe to the receive, or back.  False: there is none to go. */
static bool hand_over(weft__recv **from, weft__recv **to, weft_context *ctx)
{
    bool entered = weft__engine_enter(ctx), has = *from != NULL;
    if (has) *to = *from;
    *from = NULL;
    weft__engine_leave(ctx, entered);
    return has;
}

weft_status weft_receive_probed(weft_request *probe, void *buf, size_t count, weft_dtype dtype,
                                const weft_call *call, weft_request **req)
{
    weft__op op = {.kind = WEFT__OP_IRECV, .out = buf, .count = count, .dtype = dtype};
    weft_request *made = NULL, *own = NULL;
    weft__recv *held = NULL;
    weft_status status = check_call(call, "receive_probed");
    if (status != WEFT_OK || (status = check_probe(probe)) != WEFT_OK ||
        (status = req ? WEFT_OK : weft__may_wait_for_it()) != WEFT_OK)
        return status;
    op.peer = weft__group_member(probe->group, probe->recv_result.peer);
    op.tag = probe->recv_result.tag;
    status = weft__make_operation(probe->group, &op, call, &made);
    if (status != WEFT_OK) return status;
    if (!hand_over(&probe->u.pair.recv, &held, probe->ctx)) {
        weft__request_take_back(made);
        return weft__fail(WEFT_ERR_STATE,
                          "receive_probed: the probe's message has been received, or let go by a cancel");
    }
    made->u.pair.held = held;
    status = weft__submit(made, call, req ? req : &own);
    if (status != WEFT_OK) {
        hand_over(&held, &probe->u.pair.recv, probe->ctx);
        return status;
    }
    return req ? WEFT_OK : weft__hand_out(own, NULL);
}
