/* operate.c - what every public operation comes to: checked for this rank, made into a request, submitted. */
#include "operate.h"
#include "batch.h"
#include "executor.h"
#include "peer.h"
#include "ranges.h"
#include "submit.h"

static weft_status find_memory_of(weft_context *ctx, const weft__op *op, const char *name, const void *buffer,
                                  weft_memory *memory)
{
    weft_status status = weft__memory_at(ctx, buffer, memory);
    if (status == WEFT_OK) return WEFT_OK;
    return weft__fail(status, "%s: %s: %.700s", weft__kind_name(op->kind), name, weft_last_error());
}

/* Where the buffers live, found from the pointers. */
static weft_status find_memory(weft_context *ctx, weft__op *op)
{
    weft_memory in, out;
    weft_status status = find_memory_of(ctx, op, "in", op->in, &in);
    out = in;
    if (status == WEFT_OK && op->in != op->out) status = find_memory_of(ctx, op, "out", op->out, &out);
    if (status != WEFT_OK) return status;
    if (op->in && op->out && in != out)
        return weft__fail(WEFT_ERR_ARGUMENT, "%s: in is %s memory, out %s memory: expected both of one kind",
                          weft__kind_name(op->kind), weft__memory_name(in), weft__memory_name(out));
    op->memory = op->in ? in : out;
    return WEFT_OK;
}

/* The caller says where the buffers live; whether this rank can use them there is asked all the same. */
static weft_status check_memory(weft_context *ctx, const weft__op *op)
{
    weft_memory found;
    weft_status status = find_memory_of(ctx, op, "in", op->in, &found);
    if (status == WEFT_OK && op->in != op->out) status = find_memory_of(ctx, op, "out", op->out, &found);
    return status;
}

/* Where there is more than the host's memory, or the caller says which.  A kind that nothing here moves is refused. */
static WEFT__NOINLINE weft_status place_among(weft_context *ctx, weft__op *op)
{
    const bool said = op->memory != WEFT_MEMORY_AUTO && op->memory != WEFT_MEMORY_HOST;
    weft_status status;
    if (weft__kind_traits(op->kind) & WEFT__PROBES) op->memory = WEFT_MEMORY_HOST; /* whatever it finds */
    if (op->memory == WEFT_MEMORY_AUTO) {
        op->memory = WEFT_MEMORY_HOST;
        if ((status = find_memory(ctx, op)) != WEFT_OK) return status;
    }
    if (op->memory != WEFT_MEMORY_HOST && !weft__module_for(ctx, op->memory))
        return weft__fail(WEFT_ERR_UNSUPPORTED, "no backend of this context moves %s memory (backends: %s)",
                          weft__memory_name(op->memory), ctx->backend_names);
    return said ? check_memory(ctx, op) : WEFT_OK;
}

static inline weft_status place(weft_context *ctx, weft__op *op, const weft_call *call)
{
    op->memory = call ? call->memory : WEFT_MEMORY_AUTO;
    if (WEFT__UNLIKELY(op->memory != WEFT_MEMORY_AUTO || ctx->beyond_host)) return place_among(ctx, op);
    op->memory = WEFT_MEMORY_HOST;
    return WEFT_OK;
}

static WEFT__NOINLINE weft_status refuse_strayed(const weft_group *group, const weft__op *op)
{
    const weft_context *ctx = group->ctx;
    char name[192];
    weft__peer_name(ctx, group->world[op->peer], name, sizeof name);
    return weft__fail(
        WEFT_ERR_PEER,
        "%s: %s was unreachable from here (rank %d) after group %s was made, and what went between "
        "the two then is lost: a group that is made now has it",
        weft__kind_name(op->kind), name, ctx->rank, group->label);
}

static inline weft_status operate_check(weft_group *group, weft__op *op, const weft_call *call)
{
    weft_context *ctx;
    weft_status status;
    if (!group) return weft__fail(WEFT_ERR_ARGUMENT, "%s: group is NULL", weft__kind_name(op->kind));
    ctx = group->ctx;
    if ((status = weft__usable(ctx)) != WEFT_OK || (status = weft__group_usable(group)) != WEFT_OK)
        return status;
    if (call && (status = weft__joining_call_check(call)) != WEFT_OK) return status;
    op->scale = call && op->reduction == WEFT_PREMUL_SUM ? call->scale
                : op->reduction == WEFT_PREMUL_SUM       ? 0
                                                         : 1;
    if ((status = place(ctx, op, call)) != WEFT_OK) return status;
    if ((status = weft__op_check(op, group->rank, group->size)) != WEFT_OK) return status;
    if (weft__kind_traits(op->kind) & WEFT__PAIR && weft__group_refuses_member(group, op->peer))
        return refuse_strayed(group, op);
    /* What a module asks of the host goes to no module: it has to end when it is given up. */
    if (WEFT__UNLIKELY(ctx->module_count) && op->memory == WEFT_MEMORY_HOST && !group->of_module &&
        weft__module_takes(group, op))
        op->memory = WEFT__MEMORY_HOST_BY_MODULE;
    return WEFT_OK;
}

/* Everything else that can fail, up to a request that only has to begin. */
static weft_status operate_prepare(weft_group *group, weft__op *op, const weft_call *call,
                                   weft_request **made)
{
    const weft__executor *executor = weft__executor_of(group->ctx, op);
    weft_request *req = weft__request_new(group->ctx, group, op, call);
    weft_status status;
    if (!req) return WEFT_ERR_MEMORY;
    op->uneven = NULL; /* the request's now */
    status = executor->prepare ? executor->prepare(req, call) : WEFT_OK;
    if (status == WEFT_OK)
        *made = req;
    else
        weft__request_unref(req);
    return status;
}

weft_status weft__make_operation(weft_group *group, weft__op *op, const weft_call *call, weft_request **made)
{
    weft_status status = operate_check(group, op, call);
    return status == WEFT_OK ? operate_prepare(group, op, call, made) : status;
}

/* What is not carried out in the call itself; status: of what was checked. */
static WEFT__NOINLINE weft_status operate_queued(weft_group *group, weft__op *op, const weft_call *call,
                                                 weft_request **out, weft_status status)
{
    weft_request *req = NULL;
    bool shows = WEFT__UNLIKELY(weft__ranges_on()) && status == WEFT_OK && op->memory != WEFT_MEMORY_HOST;
    if (WEFT__UNLIKELY(shows)) weft__range_push("submit", op, group);
    if (status == WEFT_OK) status = operate_prepare(group, op, call, &req);
    if (WEFT__UNLIKELY(call && call->batch))
        status = weft__batch_join(call, req, status, out);
    else if (status == WEFT_OK)
        status = weft__submit(req, call, out);
    if (WEFT__UNLIKELY(shows)) weft__range_pop();
    return status;
}

weft_status weft__operate(weft_group *group, weft__op *op, const weft_call *call, weft_request **out)
{
    weft_status status = operate_check(group, op, call);
    if (status == WEFT_OK && !(call && call->batch) && weft__submit_inline(group, op, call, out, &status))
        return status;
    return operate_queued(group, op, call, out, status);
}
