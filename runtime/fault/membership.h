/* membership.h - who is in the job, as its ranks agree (views.md): what carries the words of views.c, the deaths and the time,
 * and what follows from a view.  Not with WEFT_QUORUM=any, where each rank believes what it sees.
 *
 * Words go by the watchdogs, which reach a rank that a connection was lost to.  One that this rank counts as dead is not
 * voted with, as it could not be worked with either; but it is told of the views that there are.  Engine held. */
#ifndef WEFT_FAULT_MEMBERSHIP_H
#define WEFT_FAULT_MEMBERSHIP_H
#include "protocol.h"

/* With WEFT_QUORUM=witness, as the job joins: whoever finds it cannot be used fails, with a sentence.  First rank 0 makes it,
 * then a rank of each host tries whether it is reached there; in the end it may be asked.  The engine is not held. */
weft_status weft__membership_make_witness(weft_context *ctx);
weft_status weft__membership_try_witness(weft_context *ctx);
weft_status weft__membership_join(weft_context *ctx);
/* This process exits without weft_finalize, or a module keeps what it had: the witness is told, and nothing freed that others may
 * use. */
void weft__membership_leave_at_exit(weft_context *ctx);
/* May those of these ranks that count as dead be left out?  Where that rests on a presumption: only once a view has left
 * them out, which is asked for; weft__protocol.view_changed tells of it. */
bool weft__membership_agrees(weft_context *ctx, const int *ranks, int n);
/* The others go on without this rank: with a sentence. */
bool weft__membership_is_out(const weft_context *ctx, char *text, size_t bytes);
/* A view that leaves out one of these ranks is asked for, and none can be decided with those that are left: with a
 * sentence. */
bool weft__membership_is_stuck(const weft_context *ctx, const int *ranks, int n, char *text, size_t bytes);
/* Says again what may be lost; returns when it is to be called again. */
int64_t weft__membership_check(weft_context *ctx, int64_t now_ns);

extern const weft__protocol weft__membership_protocol;
#endif
