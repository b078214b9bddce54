/* submit.h - what is checked before a request is made, and the one place that makes it go.
 *
 * An operation goes in one of seven forms.  The request of the first two is made by the caller that holds the
 * engine; where no handle is wanted the first has none.
 *
 *   form       who makes the request      has its number        engine             deadline
 *   passed     the caller, afterwards     once it has passed    the caller's       none: it is over
 *   posted     the caller                 before its first step the caller's       after its first step
 *   inline     the caller, under it       in its first step     the caller's       after its first step
 *   queued     the caller                 when it is taken      whoever has it     before it is queued
 *   joined     the caller, when it joins  with its batch        whoever has it     its batch's
 *   continued  a step of another          its parent's          the step's         its group's, from then on
 *   held       of inline and queued       as those              who hears the last as those
 *
 * passed: a short message that needs nobody.  posted: a receive in host memory whose message is not there.
 * inline: in host memory, without a callback, while the engine is free; nobody else knows the request before
 * its first step is over, and others may be waiting for what that tells them, so its deadline is fixed
 * afterwards.  queued: all else, and what finds the engine taken.  joined: part of a batch, which is queued
 * as a whole.  continued: what follows from an operation on each rank, before that settles.  held: has its
 * number and begins once all members of its group have told where their slots are.  Nobody else makes a
 * request RUNNING. */
#ifndef WEFT_RUNTIME_SUBMIT_H
#define WEFT_RUNTIME_SUBMIT_H
#include "group.h"
#include "recorded.h"

weft_status weft__call_check(const weft_call *call);         /* of what cannot join a batch */
weft_status weft__joining_call_check(const weft_call *call); /* of what can */
weft_status weft__may_wait_for_it(void); /* of a call that is given no place for its request */

/* inline or queued: begins or queues it under its deadline; waits for it if out is NULL.  Takes the request
 * over. */
weft_status weft__submit(weft_request *req, const weft_call *call, weft_request **out);
/* inline: makes its request and takes its first step in this call.  False: it cannot be, and its request has
 * to be made and submitted. */
bool weft__submit_inline(weft_group *group, weft__op *op, const weft_call *call, weft_request **out,
                         weft_status *status);
/* inline, of an operation that is known to go so.  Engine held, and let go.  *made is NULL afterwards if that
 * was a blocking call (not timed) and went well: where it is over soon the caller does not leave in between.
 * */
weft_status weft__submit_inside(weft_group *group, const weft__op *op, const weft_call *call, bool timed,
                                weft_request **made);
/* joined: all members of the batch or none. */
weft_status weft__submit_batch(weft_request *whole, const weft_call *call, weft_request **out);
/* continued: the caller takes its first step, which is not its executor's.  Engine held. */
void weft__submit_continued(weft_request *req, weft__executor_kind executor, uint64_t number);
/* held: begins with weft__submit_held.  Both: engine held. */
void weft__submit_hold(weft_request *req);
void weft__submit_held(weft_request *req);
/* inline, queued and joined: it gets its number and is started.  It may be over and gone afterwards.  Engine
 * held. */
void weft__submit_begin(weft_context *ctx, weft_request *req);

/* posted, of a request that has its number.  Returns when somebody has to look at it, which weft__look_by
 * sees to.  Engine held. */
int64_t weft__submit_post(weft_request *req);
void weft__look_by(weft_context *ctx, int64_t look_ns); /* once the engine is let go */
/* Gives the caller the handle, or waits for what was begun (if it is not over, NULL). */
weft_status weft__hand_out(weft_request *req, weft_request **out);

/* The request of a message that passes or is posted: way, of its kind, is known where this stands.  Engine
 * held, and there is a record (weft__slab_has_locked). */
static WEFT__MADE_FOR_EACH weft_request *weft__submit_numbered(weft_group *group, const weft__op *op,
                                                               unsigned way)
{
    weft_context *ctx = group->ctx;
    weft_request *req = weft__request_take_held(ctx, group);
    /* Member by member: whole, it would be read from where its parts have just been written, and wait for
     * them. */
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
