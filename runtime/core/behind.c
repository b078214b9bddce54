/* behind.c - see behind.h.
 *
 * Fails: nothing here.  A request whose group breaks, or whose time is up, begins, and ends then as any other. */
#include "behind.h"
#include "batch.h"
#include "engine.h"
#include "executor.h"
#include "group.h"

#define LOOK_NS (20 * WEFT__US) /* between looks at what streams have reached */

static bool one_is_held(const weft_request *req)
{
    const weft__executor *executor = weft__executor_of(req->ctx, &req->op);
    return executor->is_held && executor->is_held(req);
}

static bool is_held(const weft_request *req)
{
    if (!(weft__kind_traits(req->op.kind) & WEFT__BATCHES)) return one_is_held(req);
    for (size_t i = 0; i < req->u.batch->count; i++)
        if (one_is_held(req->u.batch->members[i])) return true;
    return false;
}

static bool may_match_the_same(const weft__op *a, const weft__op *b)
{
    return a->tag == b->tag && (a->peer == b->peer || a->peer < 0 || b->peer < 0);
}

/* May the later one not overtake the other? */
static bool comes_after(const weft_request *later, const weft_request *other)
{
    const unsigned a = weft__kind_traits(later->op.kind), b = weft__kind_traits(other->op.kind);
    if (later->group != other->group) return false;
    if ((a | b) & WEFT__BATCHES || a & b & WEFT__COLLECTIVE) return true;
    return a & b & WEFT__PAIR && may_match_the_same(&later->op, &other->op);
}

/* last: looks no further than there.  NULL: at all of them. */
static bool is_behind_another(const weft_request *req, const weft__list *last)
{
    WEFT__LIST_EACH(&req->ctx->behind, at)
    {
        if (at == last) break;
        if (comes_after(req, WEFT__LIST_ENTRY(at, weft_request, pending))) return true;
    }
    return false;
}

bool weft__behind_keeps(weft_request *req)
{
    WEFT__ASSERT(weft__holds_engine(req->ctx) && !req->sequence);
    if (!is_held(req) && !is_behind_another(req, NULL)) return false;
    weft__list_append(&req->ctx->behind, &req->pending);
    return true;
}

/* Nothing is waited for in a group that is broken, or a context that ends. */
static bool waits_in_vain(const weft_request *req, int64_t now)
{
    return now >= req->deadline_ns || atomic_load(&req->group->state) == WEFT__BROKEN ||
           atomic_load_explicit(&req->ctx->closing, memory_order_relaxed);
}

static weft_request *next_to_begin(weft_context *ctx, bool all, int64_t now)
{
    WEFT__LIST_EACH(&ctx->behind, at)
    {
        weft_request *req = WEFT__LIST_ENTRY(at, weft_request, pending);
        if (all || ((waits_in_vain(req, now) || !is_held(req)) && !is_behind_another(req, at))) return req;
    }
    return NULL;
}

int weft__behind_begin(weft_context *ctx, bool all, int64_t now_ns,
                       void (*begin)(weft_context *ctx, weft_request *req))
{
    weft_request *req;
    int n = 0;
    WEFT__ASSERT(weft__holds_engine(ctx));
    if (!all && now_ns < ctx->behind_look_ns) return 0;
    while ((req = next_to_begin(ctx, all, now_ns)) != NULL) {
        weft__list_remove(&req->pending);
        begin(ctx, req);
        n++;
    }
    ctx->behind_look_ns = now_ns + LOOK_NS;
    return n;
}

int64_t weft__behind_due(const weft_context *ctx)
{
    int64_t due = WEFT__NEVER;
    WEFT__LIST_EACH(&ctx->behind, at)
    {
        const weft_request *req = WEFT__LIST_ENTRY(at, weft_request, pending);
        if (req->deadline_ns < due) due = req->deadline_ns;
    }
    return due;
}
