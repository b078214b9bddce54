/* submit.h - what is checked before a request is made, and its way to the engine. */
#ifndef WEFT_RUNTIME_SUBMIT_H
#define WEFT_RUNTIME_SUBMIT_H
#include "group.h"

weft_status weft__call_check(const weft_call *call);         /* of what cannot join a batch */
weft_status weft__joining_call_check(const weft_call *call); /* of what can */
weft_status weft__group_usable(const weft_group *group);     /* READY or BROKEN */
/* What every public operation comes to: checks op for this rank of group (NULL: refused), makes the request
 * and submits it.  In collectives.c.  op->uneven goes into the request and is NULL then; where there is none
 * it stays the caller's. */
weft_status weft__operate(weft_group *group, weft__op *op, const weft_call *call, weft_request **out);
/* Before its request is made: takes the engine for an operation in host memory, if that is free and the
 * operation can begin in the call itself. */
bool weft__submit_enter(weft_group *group, const weft__op *op, const weft_call *call);
/* Begins or queues it under its deadline; waits for it if out is NULL.  Takes the request over.  holds: the
 * engine is held for it, and let go in here. */
weft_status weft__submit(weft_request *req, const weft_call *call, bool holds, weft_request **out);
weft_status weft__submit_timed(weft_request *req, const weft_call *call, weft_request **out); /* not held */
/* The same for a batch: all members or none.  They share one deadline. */
weft_status weft__submit_batch(weft_request *whole, const weft_call *call, weft_request **out);
#endif
