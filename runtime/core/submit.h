/* submit.h - what is checked before a request is made, and its way to the engine. */
#ifndef WEFT_RUNTIME_SUBMIT_H
#define WEFT_RUNTIME_SUBMIT_H
#include "group.h"

weft_status weft__call_check(const weft_call *call);         /* of what cannot join a batch */
weft_status weft__joining_call_check(const weft_call *call); /* of what can */
/* Makes its request and takes its first step in this call, under the engine: of an operation in host memory
 * without a callback, while the engine is free.  False: its request has to be made and submitted. */
bool weft__submit_at_once(weft_group *group, weft__op *op, const weft_call *call, weft_request **out,
                          weft_status *status);
/* Does so for an operation that is known to be such.  Engine held, and let go.  *made is NULL afterwards if
 * that was a blocking call (not timed) and went well: where it is over soon the caller does not leave in
 * between. */
weft_status weft__begin_at_once(weft_group *group, const weft__op *op, const weft_call *call, bool timed,
                                weft_request **made);
/* Posts a receive in host memory that has its number and nothing else began before, for a caller who gets a
 * handle.  Returns when somebody has to look at it, which weft__look_by sees to.  Engine held. */
int64_t weft__begin_receive(weft_request *req);
void weft__look_by(weft_context *ctx, int64_t look_ns); /* once the engine is let go */
/* Gives the caller the handle, or waits for what was begun (if it is not over, NULL). */
weft_status weft__hand_out(weft_request *req, weft_request **out);
weft_status weft__may_wait_for_it(void); /* of a call that is given no place for its request */
/* Begins or queues it under its deadline; waits for it if out is NULL.  Takes the request over. */
weft_status weft__submit_timed(weft_request *req, const weft_call *call, weft_request **out);
/* Begins or queues a batch: all members or none.  They share one deadline. */
weft_status weft__submit_batch(weft_request *whole, const weft_call *call, weft_request **out);
#endif
