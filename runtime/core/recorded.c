/* recorded.c - what is seldom to be recorded. */
#include "recorded.h"
#include "engine.h"
#include "executor.h"

void weft__recorded_more(weft_request *req)
{
    weft__recorder *r = &req->ctx->record;
    if (req->started_ns > req->submitted_ns) weft__record_started_at(r, req->record, req->started_ns);
    if (req->label[0]) weft__record_label(r, req->record, req->label);
}

/* A member that is not known to have begun it; -1: all have, or it cannot be told. */
static int awaited(const weft_request *req)
{
    if (!(weft__kind_traits(req->op.kind) & WEFT__COLLECTIVE) || !req->executor ||
        !req->executor->has_joined || weft__request_state(req) != WEFT__RUNNING)
        return -1;
    for (int i = 0; i < req->group->size; i++)
        if (i != req->group->rank && !req->executor->has_joined(req, i)) return i;
    return -1;
}

void weft__recorded_wait(weft_request *req)
{
    weft__recorder *r = &req->ctx->record;
    int member;
    if (!r->ops || !req->record || weft__request_state(req) == WEFT__SETTLED) return;
    member = awaited(req);
    weft__record_waiting(r, req->record, weft__now_ns());
    if (member >= 0) weft__record_awaited(r, req->record, member);
}

/* When this call of progress began, if somebody has asked for that; else about now.  Engine held. */
static int64_t engine_time(weft_context *ctx)
{
    return ctx->progress_ns > 0 ? ctx->progress_ns : weft__ticker_now(&ctx->ticker);
}

/* What there is to say of one whose record would be written behind its first step. */
static void write_before(weft_request *req)
{
    if (!req->recorded_behind) return;
    req->recorded_behind = false;
    weft__recorded_start(req, weft__kind_traits(req->op.kind));
}

void weft__recorded_state(weft_request *req)
{
    weft__state state = weft__request_state(req);
    write_before(req);
    weft__record_state(&req->ctx->record, req->record,
                       state == WEFT__HELD       ? WEFT__RECORDED_OP_HELD
                       : state == WEFT__DRAINING ? WEFT__RECORDED_OP_DRAINING
                                                 : WEFT__RECORDED_OP_STARTED);
}

void weft__recorded_reached(weft_request *req, weft__phase phase)
{
    write_before(req);
    if (req->record)
        weft__record_phase(&req->ctx->record, req->record, (weft__recorded_phase)(phase + 1),
                           engine_time(req->ctx));
}

void weft__recorded_reached_outside(const weft_request *req, weft__phase phase)
{
    if (req->record)
        weft__record_phase_outside(&req->ctx->record, req->record, (weft__recorded_phase)(phase + 1),
                                   weft__holds_engine(req->ctx) ? engine_time(req->ctx) : weft__now_ns());
}

void weft__recorded_group(weft_group *group)
{
    static const weft__recorded_group_state states[] = {[WEFT__FORMING] = WEFT__RECORDED_GROUP_FORMING,
                                                        [WEFT__READY] = WEFT__RECORDED_GROUP_READY,
                                                        [WEFT__BROKEN] = WEFT__RECORDED_GROUP_BROKEN,
                                                        [WEFT__FAILED] = WEFT__RECORDED_GROUP_FAILED};
    weft__recorder *r = &group->ctx->record;
    weft__group_state state = (weft__group_state)atomic_load_explicit(&group->state, memory_order_relaxed);
    weft__recorded_group_state now = states[state];
    weft__record_group what = {.id = group->id,
                               .place = group->record,
                               .size = group->size,
                               .rank = group->rank,
                               .world = group->world,
                               .becomes = now,
                               .status = state == WEFT__READY ? WEFT_OK : group->cause,
                               .culprit = state == WEFT__BROKEN ? group->culprit : -1,
                               .at = state == WEFT__BROKEN ? group->broken_number : 0,
                               .label = group->label,
                               .why = state == WEFT__READY ? "" : group->why};
    if (r->ops) group->record = weft__record_group_is(r, &what, engine_time(group->ctx));
}
