/* agreement.c - see agreement.h. */
#include "agreement.h"
#include "engine.h"
#include "executor.h"
#include "gate.h"
#include "group.h"
#include "host.h"
#include "interleaving.h"
#include "signatures.h"
#include "signing.h"

/* In program order the members of several hosts compare afterwards what they mean (signing.h). */
static bool is_signed(const weft_request *req)
{
    return req->group->seats && weft__goes_in_program(req);
}

/* And do not wait for that; but for what settles by the agreement alone, or needs more of it than that. */
static bool needs_agreement(const weft_request *req)
{
    return req->group->size > 1 && (!is_signed(req) || req->capture || req->device->lengths ||
                                    weft__kind_traits(req->op.kind) & WEFT__GATHERED);
}

/* Behind others of this rank, in this group and in other ones; what a graph records has its place as that is replayed. */
static bool takes_its_place(const weft_request *req)
{
    return req->capture || !weft__goes_in_program(req) || weft__interleave(req->group, req->sequence);
}

/* Its place among this rank's own, once: an operation that was held starts a second time, and inside of its first start if all
 * the others had come before. */
static bool is_placed(weft_request *req)
{
    if (req->device->placed) return true;
    req->device->placed = true;
    return takes_its_place(req) && (!is_signed(req) || weft__sign(req->group, req->sequence, req->signature));
}

/* ---- put off ---- */

static void stop_put_off(weft_request *req)
{
    weft__list_remove(&req->device->put_off);
}

static const weft__executor put_off_executor = {.name = "put off", .stop = stop_put_off};

static void put_off(weft_request *req)
{
    weft__device *d = req->device;
    d->agree_by = &put_off_executor;
    weft__list_append(&req->ctx->at_work[WEFT__EXECUTOR_DEVICE], &d->put_off);
}

static void go_on(weft_request *req)
{
    weft__gate_enter(req->device, weft__device_comm_is_ready(req->group, req->device->module));
    weft__host_collective_start(req, &req->device->agree_by);
}

int weft__agreements_go_on(weft_context *ctx)
{
    weft__list *at, *list = &ctx->at_work[WEFT__EXECUTOR_DEVICE];
    int n = 0;
    WEFT__ASSERT(weft__holds_engine(ctx));
    for (; (at = list->next) != list; n++) {
        weft_request *req = WEFT__LIST_ENTRY(at, weft__device, put_off)->req;
        WEFT__ASSERT(req->device->shut && req->device->agree_by == &put_off_executor, req->sequence);
        weft__list_remove(at);
        atomic_fetch_add_explicit(&req->refs, 1, memory_order_relaxed); /* it may settle in here */
        go_on(req);
        weft__request_unref(req);
    }
    return n;
}

/* ---- begun ---- */

bool weft__agreement_begin(weft_request *req)
{
    weft__device *d = req->device;
    const bool beside = weft__goes_in_program(req), again = d->shut; /* it was held: others are behind it */
    WEFT__ASSERT(weft__holds_engine(req->ctx));
    if (!is_placed(req)) return false;
    if (!needs_agreement(req)) return !is_signed(req) || weft__early_judge(req);
    if (!again && (!beside || req->capture)) weft__agreements_go_on(req->ctx); /* those before it */
    /* Their group may have broken over one of these. */
    if (weft__request_state(req) >= WEFT__DRAINING) return false;
    d->shut = true;
    if (beside && !req->capture && !again)
        put_off(req);
    else
        go_on(req);
    return beside && !d->entered && weft__request_state(req) < WEFT__DRAINING;
}
