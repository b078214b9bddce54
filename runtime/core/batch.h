/* batch.h - operations that start together and settle as one request.
 *
 * A member is checked and made into a request (NEW) when it joins.  The request that weft_batch_end returns
 * ("the whole") owns the list from then on; it is queued, and starting it starts them. */
#ifndef WEFT_RUNTIME_BATCH_H
#define WEFT_RUNTIME_BATCH_H
#include "group.h"

struct weft_batch {
    weft__list link; /* ctx->batches, until it ends */
    weft_group *group;
    weft_request **members; /* in order of joining */
    size_t count, room;
    size_t open;         /* engine: members that have not settled */
    weft_status refusal; /* of the first joining call that was refused; else OK */
    char why[WEFT__SENTENCE_BYTES];
};

/* Adds req, which is over when this fails.  prepared: a failure before there was a request, remembered like
 * any other refusal. */
weft_status weft__batch_join(const weft_call *call, weft_request *req, weft_status prepared,
                             weft_request **out);
/* Remembers this thread's latest failure if it is the first; returns status. */
weft_status weft__batch_refuse(weft_batch *batch, weft_status status);
/* The whole has its number and runs: starts its members, which have their times; without any it
 * settles.  Engine held. */
void weft__batch_start(weft_request *whole, void (*start)(weft_context *ctx, weft_request *member));
/* `done` of every member, with the whole as its arg; runs where the member settles, the engine held. */
void weft__batch_member(weft_request *member, weft_status status, void *whole);
void weft__batch_cancel(weft_request *whole, void (*cancel)(weft_request *member)); /* engine held */
void weft__batches_close(weft_context *ctx); /* at the end: those that nobody ended */
/* With the whole: gives its members back (let_go), frees the list. */
void weft__batch_let_go(weft_request *whole);
void weft__batch_free(weft_request *whole);
#endif
