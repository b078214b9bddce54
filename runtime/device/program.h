/* program.h - program order: operations of groups whose ranks all submit in the same order (weft.h, "Order").
 *
 * A context has one line of them, over all of its groups: one goes when all before it have gone and its communicator is
 * there.  So no rank launches what follows before what it follows, however long each takes to make a communicator.
 * Whose turn comes in the call that submits it is issued by that call, on the caller's thread and with the engine let go:
 * the module gives it its place among what is issued while the engine is held (enter), so that operations are issued in
 * the order of their numbers.  What the module does not want so, and all that comes until that is issued, goes to the
 * progress thread.
 *
 *   line -> entered -> issued      by the caller
 *   line -> handed  -> issued      by the progress thread; ctx->program_ahead counts these until they are issued
 *
 * The line is the engine's; what has entered belongs to its caller's thread until that has issued it. */
#ifndef WEFT_RUNTIME_PROGRAM_H
#define WEFT_RUNTIME_PROGRAM_H
#include "device.h"

/* Engine held: */
void weft__program_enter(weft__device *first); /* into the line; dev_comm is set */
void weft__program_turns(
    weft_context *ctx); /* a communicator is there, or will not be; or one has left the line */
void weft__program_leave(weft__device *first);     /* it will not go; also one that is in no line */
bool weft__program_by_caller(weft__device *first); /* its turn has come: does the caller issue it? */
void weft__program_handed(weft__device *first);    /* no: the progress thread gets it */

/* Any thread: the module has issued it, or it is over. */
void weft__program_went(weft__device *d);
/* The caller's thread, engine not held: issues what has entered. */
void weft__program_issue(weft_context *ctx);
#endif
