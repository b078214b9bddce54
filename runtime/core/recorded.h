/* recorded.h - what the flight recorder gets to know of requests and groups.  Engine held, but where it says so. */
#ifndef WEFT_RUNTIME_RECORDED_H
#define WEFT_RUNTIME_RECORDED_H
#include "group.h"
#include "request.h"

/* What there is to say beside the first line of a record: a label, and a start that came after the submission. */
void weft__recorded_more(weft_request *req);

/* One rank's payload; what rarely happens is left to the exact count. */
static inline size_t weft__recorded_bytes(const weft_request *req, unsigned traits)
{
    const weft__op *op = &req->op;
    if (traits & (WEFT__IN_BLOCKS | WEFT__OUT_BLOCKS))
        return weft__op_bytes(op, req->group->rank, req->group->size);
    return op->kind == WEFT__OP_BATCH ? op->count : op->count * weft__op_element(op);
}

/* It has its number, and begins. */
static inline void weft__recorded_start(weft_request *req, unsigned traits)
{
    weft__recorder *r = &req->ctx->record;
    const weft__op *op = &req->op;
    unsigned flags = (req->timed ? 0u : WEFT__OP_BLOCKS) | (traits & WEFT__ROOTED ? WEFT__OP_ROOTED : 0u) |
                     (traits & WEFT__PAIR ? WEFT__OP_PAIRED : 0u);
    int whom = traits & WEFT__PAIR ? op->peer : traits & WEFT__ROOTED ? op->root : -1;
    if (!r->ops) return;
    req->record = weft__record_start(r, req->group->id, req->sequence,
                                     weft__record_what((unsigned)op->kind, (unsigned)op->dtype,
                                                       WEFT__OP_STARTED, (unsigned)op->memory, flags),
                                     weft__recorded_bytes(req, traits), weft__record_whom(whom, op->tag),
                                     req->submitted_ns);
    if (WEFT__UNLIKELY(req->label[0] || req->started_ns > req->submitted_ns)) weft__recorded_more(req);
}

/* It has times now, and has not settled. */
static inline void weft__recorded_times(weft_request *req)
{
    weft__record_times(&req->ctx->record, req->record, req->submitted_ns);
}

/* now_ns: when it settled. */
static inline void weft__recorded_settle(weft_request *req, weft_status status, int64_t now_ns)
{
    weft__record_settled(&req->ctx->record, req->record, status, req->algorithm,
                         req->submitted_ns ? req->submitted_ns : now_ns, now_ns);
}

bool weft__recorded_look(weft_context *ctx); /* at the clock; false: nothing is recorded */

/* A message that was over in its call; ns: when; 0: whoever records it finds out. */
static WEFT__MADE_FOR_EACH void weft__recorded_passed(weft_group *group, const weft__op *op, uint64_t number,
                                                      size_t bytes, bool blocks, int64_t ns)
{
    weft_context *ctx = group->ctx;
    weft__recorder *r = &ctx->record;
    if (ns) {
        if (!r->ops) return;
    } else if (WEFT__UNLIKELY(!atomic_load_explicit(&r->fresh, memory_order_relaxed))) {
        if (!weft__recorded_look(ctx)) return;
    }
    weft__record_passed(r, group->id, number,
                        weft__record_what((unsigned)op->kind, (unsigned)op->dtype, WEFT__OP_SETTLED,
                                          WEFT_MEMORY_HOST,
                                          WEFT__OP_PASSED | WEFT__OP_PAIRED |
                                              (blocks ? WEFT__OP_BLOCKS : 0u)),
                        bytes, weft__record_whom(op->peer, op->tag), ns ? ns : r->last_ns);
}

/* A caller goes to sleep for it: since when, and a member that has not come yet, if one is known. */
void weft__recorded_wait(weft_request *req);
void weft__recorded_group(const weft_group *group); /* as it is now */
#endif
