/* submit.h - what is checked before a request is made, and the one place that sets it going: nobody else makes
 * a request RUNNING.
 *
 * An operation goes in one of seven forms.  "The engine" is the lock under which a context's requests move.
 *
 *   form       who makes the request      when it is numbered   who holds engine   when its deadline is set
 *   passed     the caller, if wanted      once it has passed    the caller         never: it is over
 *   posted     the caller                 before its first step the caller         after its first step
 *   inline     the caller, holding it     in its first step     the caller         after its first step
 *   queued     the caller                 when it is taken      whoever takes it   before it is queued
 *   joined     the caller, when it joins  with its batch        whoever takes it   as its batch's
 *   continued  a step of another          as its parent         who takes the step then, from its group's limit
 *   held       as inline or queued        as inline or queued   who hears the last as inline or queued
 *
 * passed:    a short message that is over at once: sent, since there is room for it on its way, or received,
 *            since it has come before.  Where the caller wants no handle it has no request at all.
 * posted:    a receive in host memory whose message is not there.
 * inline:    in host memory, without a callback, while the engine is free.  Nobody else knows the request
 *            before its first step is over.  Other ranks may be waiting for what that step tells them, so the
 *            clock is read, and the deadline set, only afterwards.
 * queued:    everything else, and what finds the engine taken.
 * joined:    part of a batch, which is queued as a whole.
 * continued: follows, on every rank, from an operation that has not settled yet.
 * held:      has its number, and begins once all members of its group have told where their slots are. */
#ifndef WEFT_RUNTIME_SUBMIT_H
#define WEFT_RUNTIME_SUBMIT_H
#include "group.h"
#include "recorded.h"

/* Whether what the caller passed as `call` makes sense: for an operation that cannot join a batch, and for one
 * that can. */
weft_status weft__call_check(const weft_call *call);
weft_status weft__joining_call_check(const weft_call *call);
/* For a call without a place for its request, which therefore waits: ERR_STATE in a callback. */
weft_status weft__may_wait_for_it(void);

/* inline or queued: begins or queues it under its deadline; waits for it if out is NULL.  Takes the request
 * over. */
weft_status weft__submit(weft_request *req, const weft_call *call, weft_request **out);
/* inline: makes its request and takes its first step in this call.  False: it cannot be, and its request has
 * to be made and submitted. */
bool weft__submit_inline(weft_group *group, weft__op *op, const weft_call *call, weft_request **out,
                         weft_status *status);
/* inline, of an operation that is known to go so.  The caller holds the engine, and does not afterwards.
 * timed: the caller gets a handle.  Without one it may already have waited here, since what is over soon need
 * not leave the engine in between: *made is NULL if that went well. */
weft_status weft__submit_inside(weft_group *group, const weft__op *op, const weft_call *call, bool timed,
                                weft_request **made);
/* joined: all members of the batch or none. */
weft_status weft__submit_batch(weft_request *whole, const weft_call *call, weft_request **out);
/* continued: the caller takes its first step, which is not its executor's.  Engine held. */
void weft__submit_continued(weft_request *req, weft__executor_kind executor, uint64_t number);
/* held: begins with weft__submit_held.  Both: engine held. */
void weft__submit_hold(weft_request *req);
void weft__submit_held(weft_request *req);
/* Is this thread in a call that submits in program order to a device?  Then what it starts is issued by that call. */
bool weft__submit_issues(void);
/* inline, queued and joined: it gets its number and is started.  It may be over and gone afterwards.  Engine
 * held. */
void weft__submit_begin(weft_context *ctx, weft_request *req);

/* posted, of a request that has its number.  Returns the time at which somebody has to check it, for
 * weft__check_by.  Engine held. */
int64_t weft__submit_post(weft_request *req);
void weft__check_by(weft_context *ctx, int64_t check_ns); /* once the engine is let go */
/* Gives the caller the handle; or, where it wants none, waits until the request is over.  NULL: it is. */
weft_status weft__hand_out(weft_request *req, weft_request **out);

/* The request of a message that passes or is posted.  way: the way of its kind, a constant where this is
 * compiled in.  Engine held, and a free record is there (weft__slab_has_locked). */
static WEFT__MADE_FOR_EACH weft_request *weft__submit_numbered(weft_group *group, const weft__op *op,
                                                               unsigned way)
{
    weft_context *ctx = group->ctx;
    weft_request *req = weft__request_take_held(ctx, group);
    /* Member by member: the caller has just written *op in narrow stores, and a wide load over them, as copying
     * the struct would be, has to wait until all have reached the cache. */
    req->op = (weft__op){.kind = op->kind,
                         .dtype = op->dtype,
                         .memory = op->memory,
                         .peer = op->peer,
                         .tag = op->tag,
                         .count = op->count,
                         .in = op->in,
                         .out = op->out,
                         .scale = op->scale};
    weft__request_fill(req, group, NULL);
    req->sequence = weft__pair_number(group, op->peer, way);
    return req;
}

/* passed: its number, and its request if the caller wants one (out), which has settled.  Engine held. */
static WEFT__MADE_FOR_EACH void weft__submit_passed(weft_group *group, const weft__op *op, unsigned way,
                                                    weft_request **out)
{
    size_t bytes = op->count * weft__op_element(op);
    if (!out) {
        weft__recorded_passed(group, op, weft__pair_number(group, op->peer, way), bytes, true, 0);
        return;
    }
    *out = weft__submit_numbered(group, op, way);
    (*out)->algorithm = weft__p2p_route_name(group->ctx->p2p, group->world[op->peer]);
    weft__request_settle_at_once(*out);
    weft__recorded_passed(group, op, (*out)->sequence, bytes, false, (*out)->settled_ns);
}
#endif
