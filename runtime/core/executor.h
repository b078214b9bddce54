/* executor.h - what carries a request out, once it has its number.
 *
 * The engine, waiting, deadlines and breaking know executors by this table alone.  Adding one is a row in
 * executors.c and the file that it points to.  Every slot is called with the engine held unless it says
 * otherwise; none blocks.  A slot that may be NULL says what NULL means. */
#ifndef WEFT_RUNTIME_EXECUTOR_H
#define WEFT_RUNTIME_EXECUTOR_H
#include "context.h"
#include "request.h"

enum weft__executor_traits {
    WEFT__BEGINS_IN_CALL = 1,  /* its first step may be taken in the call that submits it */
    WEFT__ENDS_WITH_GROUP = 2, /* once its group is broken no message begins either */
    WEFT__HAS_PHASES = 4       /* it tells how far it is (phase) */
};

struct weft__executor {
    const char *name;
    unsigned traits;
    /* The caller's thread, engine not held, before the request has its number: everything that can fail. */
    weft_status (*prepare)(weft_request *req, const weft_call *call); /* NULL: nothing can */
    /* Both requests are prepared and of one batch, where `first` is the first in that memory.  Collectives are
     * issued in one call; of messages those that go together.  The caller's thread.  NULL: it is issued by itself. */
    void (*follow)(weft_request *first, weft_request *req);
    /* A request that is to be recorded in a graph (req->capture), which may have joined a batch before, is about to be
     * queued: is its capture still there?  The caller's thread, engine not held.  NULL: nothing is recorded. */
    weft_status (*goes_on)(const weft_request *req);
    /* And can this thread record it?  The engine is held until it has begun.  NULL: only together with goes_on. */
    weft_status (*may_record)(const weft_request *req);
    /* Not begun yet: does its stream wait, on the device, for an operation that is not on its way there (behind.h)?  NULL:
     * never. */
    bool (*is_held)(const weft_request *req);
    /* Begins.  It may settle the request, and it may hand it to another executor: req->executor says to
     * whom.  Called once more for a request that was held (request.h). */
    void (*start)(weft_request *req);
    /* Nothing touches the request's buffers afterwards. */
    void (*stop)(weft_request *req);
    /* Stops it and settles it, at once or after draining; NULL: stop, then settle. */
    void (*fail)(weft_request *req, weft_status status, const char *text);
    /* The caller cancels it.  NULL: a collective breaks its group, anything else fails. */
    void (*cancel)(weft_request *req, const char *text);
    /* Its deadline has passed; NULL: as for cancel. */
    void (*expire)(weft_request *req, int64_t now_ns);
    /* It has drained for too long: it settles, and what still holds its buffers keeps them. */
    void (*abandon)(weft_request *req); /* NULL: it never drains */
    /* It has settled, and still holds something until it is received, cancelled or released.  Engine not
     * needed. */
    void (*let_go)(weft_request *req); /* NULL: it never holds anything */

    /* The caller's thread, engine not held, right after start: what it left to the caller (weft__submit_issues).  NULL:
     * it never does. */
    void (*issue)(weft_context *ctx);

    /* One step of all that is on ctx->at_work of this executor; returns how much was done. */
    int (*progress)(weft_context *ctx);
    /* The progress thread's own share, engine not held; -1: the thread was given up meanwhile, and has to end.
     * NULL: none. */
    int (*progress_on_thread)(weft_context *ctx);
    /* The share of a caller who waits, engine not held.  now_ns: about.  NULL: none. */
    int (*progress_by_caller)(weft_context *ctx, int64_t now_ns);
    /* Will this request's end show at one place that can be polled alone?  NULL: no. */
    bool (*can_poll)(const weft_request *req);
    /* Polls there; returns how much was done. */
    int (*poll)(weft_request *req);

    /* Is it certain that this member has begun it too?  NULL: it cannot be told. */
    bool (*has_joined)(const weft_request *req, int member);
    /* The other side of a message is there, and counts on this one.  NULL: never. */
    bool (*has_met)(const weft_request *req);
    /* With WEFT__ENDS_WITH_GROUP: a message that goes on although its group breaks. */
    bool (*outlives_group)(const weft_request *req);
    weft__phase (*phase)(const weft_request *req); /* with WEFT__HAS_PHASES */
    /* Which other one it waits for in the order of operations; NULL, or none such: for no other. */
    weft_request *(*behind)(const weft_request *req);
};

/* The executor of an operation of that kind in that memory. */
static inline const weft__executor *weft__executor_of(const weft_context *ctx, const weft__op *op)
{
    unsigned traits = weft__kind_traits(op->kind);
    return ctx->executors[op->memory != WEFT_MEMORY_HOST ? WEFT__EXECUTOR_DEVICE
                          : traits & WEFT__PAIR          ? WEFT__EXECUTOR_MESSAGES
                          : traits & WEFT__FORMS         ? WEFT__EXECUTOR_GROUP_MAKING
                                                         : WEFT__EXECUTOR_COLLECTIVES];
}

static inline int weft__executor_advance(weft_context *ctx, weft__executor_kind which)
{
    return weft__list_empty(&ctx->at_work[which]) ? 0 : ctx->executors[which]->progress(ctx);
}
#endif
