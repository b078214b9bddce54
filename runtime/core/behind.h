/* behind.h - requests that begin later than they are submitted, since their streams wait on the device for operations that
 * are not on their way there.
 *
 * weft_stream_wait holds a stream by the word of an operation that is not issued yet, and returns.  What the program then
 * submits behind that on the stream begins when a program that had waited there would have submitted it: when the operation
 * has its place in the order of all ranks.  Else the two might get the other order, and wait for each other on the device.
 * Until then the request has no number, and nobody knows of it: so nothing waits for what its own program still has to
 * do.  An operation of which the place on its stream has been reached waits for nothing, and begins.
 *
 * Also what must not overtake such a request waits behind it: in its group collectives behind collectives, and messages
 * behind messages that may match with the same ones.  Engine held throughout. */
#ifndef WEFT_RUNTIME_BEHIND_H
#define WEFT_RUNTIME_BEHIND_H
#include "context.h"
#include "request.h"

/* It has not begun.  True: it will, by weft__behind_begin. */
bool weft__behind_keeps(weft_request *req);
/* Begins, by this function, all that wait for nothing any more, or, with all, whatever they wait for.  Returns how many. */
int weft__behind_begin(weft_context *ctx, bool all, int64_t now_ns,
                       void (*begin)(weft_context *ctx, weft_request *req));
/* The first deadline of those that wait: one of which that is past begins, and has to be looked at then. */
int64_t weft__behind_due(const weft_context *ctx);

/* Any thread: is a stream held, so that operations do not begin in the call that submits them? */
static inline bool weft__streams_are_held(const weft_context *ctx)
{
    return WEFT__UNLIKELY(atomic_load_explicit(&ctx->streams_held, memory_order_relaxed) != 0);
}
#endif
