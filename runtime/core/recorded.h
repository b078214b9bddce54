/* recorded.h - what the flight recorder gets to know of requests and groups.  Engine held, but where it says so. */
#ifndef WEFT_RUNTIME_RECORDED_H
#define WEFT_RUNTIME_RECORDED_H
#include "group.h"
#include "request.h"

_Static_assert((int)WEFT__FLAG_ROOTED == (int)WEFT__ROOTED && (int)WEFT__FLAG_PAIRED == (int)WEFT__PAIR,
               "a record has these traits as its flags");

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

/* Up to so many bytes an operation's first step is so short that its record may be written behind it: what other ranks
 * wait for then comes sooner, and what is over in that step is written once.  A process that dies inside it, as of a buffer
 * that is not there, leaves no record of it. */
#define WEFT__RECORDED_BEHIND_BYTES 4096u

static inline bool weft__recorded_can_wait(const weft_request *req, unsigned traits)
{
    const weft__op *op = &req->op;
    return req->steps == WEFT__FIRST_STEP && op->memory == WEFT_MEMORY_HOST && !req->label[0] &&
           !(traits & (WEFT__IN_BLOCKS | WEFT__OUT_BLOCKS)) &&
           op->count * weft__op_element(op) <= WEFT__RECORDED_BEHIND_BYTES;
}

static inline uint64_t weft__recorded_what(const weft_request *req, unsigned traits,
                                           weft__recorded_op_state state)
{
    unsigned flags = (traits & (WEFT__ROOTED | WEFT__PAIR)) | (req->timed ? 0u : WEFT__FLAG_BLOCKS);
    return weft__record_what((unsigned)req->op.kind, (unsigned)req->op.dtype, state, (unsigned)req->op.memory,
                             flags);
}

static inline uint64_t weft__recorded_whom(const weft__op *op, unsigned traits)
{
    return weft__record_whom(traits & WEFT__PAIR ? op->peer : traits & WEFT__ROOTED ? op->root : -1, op->tag);
}

/* It has its number, and goes on beyond its first step. */
static inline void weft__recorded_start(weft_request *req, unsigned traits)
{
    weft__recorder *r = &req->ctx->record;
    if (!weft__record_has_room(r)) return;
    req->record = weft__record_start(r, req->group->id, req->sequence,
                                     weft__recorded_what(req, traits, WEFT__RECORDED_OP_STARTED),
                                     weft__recorded_bytes(req, traits), weft__recorded_whom(&req->op, traits),
                                     req->submitted_ns);
    if (WEFT__UNLIKELY(req->label[0] || req->started_ns > req->submitted_ns)) weft__recorded_more(req);
}

/* It has its number, and begins. */
static inline void weft__recorded_begin(weft_request *req, unsigned traits)
{
    req->recorded_behind = req->ctx->record.ops && weft__recorded_can_wait(req, traits);
    if (!req->recorded_behind) weft__recorded_start(req, traits);
}

/* Its first step is over: it has times now, and has not settled. */
static inline void weft__recorded_stays(weft_request *req)
{
    req->recorded_behind = false;
    if (req->record)
        weft__record_times(&req->ctx->record, req->record, req->submitted_ns);
    else
        weft__recorded_start(req, weft__kind_traits(req->op.kind));
}

/* It has settled, at that time, in its first step and before its record was written. */
static inline void weft__recorded_whole(weft_request *req, weft_status status, int64_t ns)
{
    weft__recorder *r = &req->ctx->record;
    unsigned traits = weft__kind_traits(req->op.kind);
    if (!weft__record_has_room(r)) return;
    weft__record_whole(r, req->group->id, req->sequence,
                       weft__recorded_what(req, traits, WEFT__RECORDED_OP_SETTLED), status, req->algorithm,
                       weft__recorded_bytes(req, traits), weft__recorded_whom(&req->op, traits), ns);
}

/* A message that was over in its call; ns: when; 0: when the clock was read last. */
static WEFT__MADE_FOR_EACH void weft__recorded_passed(weft_group *group, const weft__op *op, uint64_t number,
                                                      size_t bytes, bool blocks, int64_t ns)
{
    weft__recorder *r = &group->ctx->record;
    if (!weft__record_has_room(r)) return;
    weft__record_passed(r, group->id, number,
                        weft__record_what((unsigned)op->kind, (unsigned)op->dtype, WEFT__RECORDED_OP_SETTLED,
                                          WEFT_MEMORY_HOST,
                                          WEFT__FLAG_PASSED | WEFT__FLAG_PAIRED |
                                              (blocks ? WEFT__FLAG_BLOCKS : 0u)),
                        bytes, weft__record_whom(op->peer, op->tag), ns ? ns : weft__record_last_ns(r));
}

/* A caller goes to sleep for it: since when, and a member that has not come yet, if one is known. */
void weft__recorded_wait(weft_request *req);
void weft__recorded_group(weft_group *group); /* as it is now */
_Static_assert((int)WEFT__RECORDED_AGREEING == (int)WEFT__PHASE_AGREEING + 1 &&
                   (int)WEFT__RECORDED_OVER == (int)WEFT__PHASE_OVER + 1,
               "a record has the phases of the seam, and none before them");
void weft__recorded_state(weft_request *req); /* as it is now: held, draining or on its way */
void weft__recorded_reached(weft_request *req, weft__phase phase);
void weft__recorded_reached_outside(const weft_request *req,
                                    weft__phase phase); /* any thread; not the first */
#endif
