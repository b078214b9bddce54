/* request.c - the life of a request, from the slab to its one finisher and back. */
#include "request.h"
#include "batch.h"
#include "engine.h"
#include "executor.h"
#include "group.h"
#include "log.h"
#include "recorded.h"
#include "recording.h"
#include "settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static WEFT__THREAD_WORD weft_request *calling; /* whose callback runs on this thread */

bool weft__in_callback(void)
{
    return calling || weft__log_inside();
}

bool weft__request_settled(const weft_request *req)
{
    return weft__request_state(req) == WEFT__SETTLED || req == calling;
}

void weft__request_call_back(weft_request *req)
{
    WEFT__ASSERT(!calling && !weft__holds_any_engine() && weft__request_state(req) == WEFT__CALLING);
    calling = req;
    req->done(req, req->status, req->arg);
    calling = NULL;
    weft__request_publish(req);
}

weft_request *weft__request_take_held(weft_context *ctx, weft_group *group)
{
    weft__group_ref_held(group);
    return weft__slab_get_locked(&ctx->requests);
}

/* Records go back to the engine's own mostly: from there come those that the others find no more. */
static WEFT__NOINLINE weft_request *take_of_engine(weft_context *ctx, weft_group *group)
{
    weft_request *req;
    weft__engine_take(ctx);
    req = weft__slab_get_locked(&ctx->requests);
    weft__slab_share(&ctx->requests);
    if (req) weft__group_ref_held(group);
    weft__engine_drop(ctx);
    return req;
}

static weft_request *take_outside(weft_context *ctx, weft_group *group)
{
    weft_request *req = (weft_request *)(void *)weft__slab_pop(&ctx->requests);
    if (!req && !weft__holds_any_engine()) return take_of_engine(ctx, group);
    if (!req) req = weft__slab_get(&ctx->requests);
    if (req) weft__group_ref(group);
    return req;
}

weft_request *weft__request_take(weft_context *ctx, weft_group *group)
{
    weft_request *req;
    if (!weft__holds_engine(ctx))
        req = take_outside(ctx, group);
    else if ((req = weft__slab_get_locked(&ctx->requests)) != NULL)
        weft__group_ref_held(group);
    if (!req)
        weft__fail(WEFT_ERR_MEMORY, "no memory for a request, or WEFT_REQUESTS_MAX (%lld) are in use",
                   (long long)weft__setting_int(WEFT__SET_REQUESTS_MAX));
    return req;
}

static WEFT__NOINLINE void give_record_outside(weft_request *req)
{
    weft__group_unref(req->group);
    weft__slab_put(&req->ctx->requests, req);
}

static void give_record(weft_request *req)
{
    weft_context *ctx = req->ctx;
    bool inside = weft__holds_engine(ctx), entered = !inside && weft__engine_try_kept(ctx);
    if (!inside && !entered) {
        give_record_outside(req);
        return;
    }
    weft__group_unref_held(req->group);
    weft__slab_put_locked(&ctx->requests, req);
    weft__engine_leave(ctx, entered);
}

void weft__request_fill(weft_request *req, weft_group *group, const weft_call *call)
{
    weft__request_is_new(req);
    atomic_store_explicit(&req->refs, 1, memory_order_relaxed);
    atomic_store_explicit(&req->polls, 0, memory_order_relaxed);
    atomic_store_explicit(&req->waited_ns, 0, memory_order_relaxed);
    req->sequence = req->record = 0;
    req->steps = WEFT__ANYWHERE;
    req->ctx = group->ctx;
    req->group = group;
    req->host_op = &req->op;
    req->device = NULL;
    req->capture = NULL;
    req->status = WEFT_PENDING;
    req->done = call ? call->done : NULL;
    req->arg = call ? call->arg : NULL;
    req->label[0] = 0;
    if (call && call->label) snprintf(req->label, sizeof req->label, "%s", call->label);
    req->algorithm = "";
    req->started_ns = req->settled_ns = req->warn_by_ns = 0;
    req->timed = true;
    req->buffers_held = req->warned = req->abandoned = req->after_break = req->recorded_behind = false;
    req->of_module = group->of_module;
    req->draining_status = WEFT_OK;
    req->culprit = -1;
    req->asks = 0;
    req->asked_ns = 0;
    req->recv_result.peer = -1;
    req->recv_result.tag = req->op.tag;
    req->recv_result.bytes = 0;
    req->continuation = NULL;
    weft__list_init(&req->pending);
}

weft_request *weft__request_new(weft_context *ctx, weft_group *group, const weft__op *op,
                                const weft_call *call)
{
    weft_request *req = weft__request_take(ctx, group);
    if (!req) return NULL;
    req->op = *op;
    weft__request_fill(req, group, call);
    return req;
}

static void drop_text(_Atomic(char *) *text)
{
    free(atomic_load_explicit(text, memory_order_relaxed));
    atomic_store_explicit(text, NULL, memory_order_relaxed);
}

/* Most have none, which all pointers taken together tell. */
static bool has_parts(const weft_request *req)
{
    uintptr_t parts = (uintptr_t)atomic_load_explicit(&req->told, memory_order_relaxed) |
                      (uintptr_t)atomic_load_explicit(&req->shown, memory_order_relaxed) |
                      (uintptr_t)req->op.uneven | (uintptr_t)req->continuation;
    return parts || weft__kind_traits(req->op.kind) & (WEFT__BATCHES | WEFT__PROBES);
}

static WEFT__NOINLINE void free_parts(weft_request *req)
{
    drop_text(&req->told);
    drop_text(&req->shown);
    free(req->op.uneven);
    if (req->continuation) req->continuation->free(req);
    if (weft__kind_traits(req->op.kind) & WEFT__BATCHES) weft__batch_free(req);
}

void weft__request_ref(weft_request *req)
{
    atomic_fetch_add(&req->refs, 1);
}

void weft__request_unref(weft_request *req)
{
    WEFT__ASSERT_HOT(atomic_load(&req->refs) > 0);
    if (atomic_load_explicit(&req->refs, memory_order_acquire) == 1)
        atomic_store_explicit(&req->refs, 0, memory_order_relaxed); /* nobody else can want the word */
    else if (atomic_fetch_sub_explicit(&req->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (WEFT__UNLIKELY(has_parts(req))) {
        unsigned traits = weft__kind_traits(req->op.kind);
        if (traits & WEFT__BATCHES) weft__batch_let_go(req);
        if (traits & WEFT__PROBES && req->u.pair.recv) req->executor->let_go(req);
        free_parts(req);
    }
    give_record(req);
}

void weft__request_take_back(weft_request *req)
{
    if (weft__kind_way(req->op.kind) == WEFT__EXCHANGES) free(req->u.pair.copy);
    weft__request_unref(req);
}

void weft__requests_close(weft_context *ctx)
{
    weft_request *req;
    for (uint32_t i = 0; (req = weft__slab_at(&ctx->requests, i)) != NULL; i++)
        if (atomic_load_explicit(&req->refs, memory_order_acquire)) free_parts(req);
}

void weft__request_name(const weft_request *req, char *text, size_t bytes)
{
    char what[128];
    const weft_group *group = req->group;
    int n;
    weft__op_text(&req->op, group->rank, group->size, what, sizeof what);
    n = (int)strcspn(what, " ");
    snprintf(text, bytes, "%.*s #%llu on group %s%s%s%s%s", n, what, (unsigned long long)req->sequence,
             group->label, what + n, req->label[0] ? " \"" : "", req->label, req->label[0] ? "\"" : "");
}

/* Those who wait for this request, and those who wait for several. */
static WEFT__NOINLINE void wake_sleepers(weft_request *req)
{
    weft_context *ctx = req->ctx;
    if (atomic_load_explicit(&req->sleepers, memory_order_seq_cst)) weft__wake_all(&req->state);
    atomic_fetch_add_explicit(&ctx->settlings, 1, memory_order_seq_cst);
    weft__wake_all(&ctx->settlings);
}

static void tell_descriptor(const weft_request *req)
{
    if (WEFT__LIKELY(!req->of_module)) weft__completion_fd_tell(&req->ctx->completion_fd);
}

void weft__request_publish(weft_request *req)
{
    weft_context *ctx = req->ctx;
    weft__steps steps = req->steps;
    if (steps == WEFT__FIRST_STEP) {
        weft__request_to_alone(req, WEFT__SETTLED);
        tell_descriptor(req);
        return; /* the runtime's reference is the submitting call's to give back */
    }
    WEFT__ASSERT(steps == WEFT__ANYWHERE || weft__holds_engine(ctx));
    WEFT__ASSERT_HOT(req->status != WEFT_PENDING);
    if (steps == WEFT__HERE)
        weft__count(&ctx->inflight_inline, -1); /* the engine is held until all here is done */
    /* Before the state: once it is seen, the caller may finalize and free the context with everything in it,
     * but not while this request still counts. */
    if (weft__holds_engine(ctx))
        weft__request_to(req, WEFT__SETTLED);
    else
        weft__request_to_outside(req, WEFT__SETTLED);
    if (WEFT__UNLIKELY(atomic_load_explicit(&ctx->settling_sleepers, memory_order_seq_cst)))
        wake_sleepers(req);
    tell_descriptor(req);
    weft__request_unref(req);
    if (steps == WEFT__ANYWHERE) atomic_fetch_sub_explicit(&ctx->inflight_queued, 1, memory_order_release);
}

void weft__request_settle_at_once(weft_request *req)
{
    req->submitted_ns = req->started_ns = req->settled_ns = weft__engine_clock(req->ctx);
    req->status = WEFT_OK;
    weft__request_to_alone(req, WEFT__SETTLED);
    tell_descriptor(req);
}

/* Keeps the first text made for a place; texts live as long as the request. */
static const char *request_keep(_Atomic(char *) *place, const char *text)
{
    char *copy = strdup(text), *none = NULL;
    if (!copy) return "(no memory for this message)";
    if (atomic_compare_exchange_strong(place, &none, copy)) return copy;
    free(copy);
    return none;
}

/* Between ranks, and not of the caller's own making. */
static bool is_trouble(weft_status status)
{
    return status == WEFT_ERR_TIMEOUT || status == WEFT_ERR_PEER || status == WEFT_ERR_BROKEN ||
           status == WEFT_ERR_MISMATCH;
}

void weft__request_tell(weft_request *req, weft_status status, const char *text)
{
    char whole[WEFT__SENTENCE_BYTES];
    snprintf(whole, sizeof whole, "%s", text);
    if (is_trouble(status)) weft__recording_where(req->ctx, whole, sizeof whole);
    request_keep(&req->told, whole);
}

/* Only where its caller sees it end, in its first step or in a wait that reads the clock every few moments, is the
 * last reading good enough for one that nobody asks for its times: else that may be long ago. */
static inline void record_end(weft_request *req, weft_status status)
{
    weft_context *ctx = req->ctx;
    int64_t now;
    if (!req->record && !req->recorded_behind) return;
    now = req->timed                                           ? req->settled_ns
          : req->steps == WEFT__FIRST_STEP || ctx->record.near ? weft__record_last_ns(&ctx->record)
                                                               : weft__engine_now(ctx, 0);
    if (req->record)
        weft__record_settled(&ctx->record, req->record, status, req->algorithm,
                             req->submitted_ns ? req->submitted_ns : now, now);
    else
        weft__recorded_whole(req, status, now);
}

void weft__request_settle(weft_request *req, weft_status status, const char *text)
{
    weft_context *ctx = req->ctx;
    WEFT__ASSERT(weft__holds_engine(ctx));
    if (weft__request_state(req) >= WEFT__CALLING) return;
    WEFT__ASSERT_HOT(status != WEFT_PENDING);
    weft__list_remove(&req->pending);
    req->status = status;
    /* What ended it may have happened since this call of progress began, and its end is not before that. */
    if (WEFT__UNLIKELY(status != WEFT_OK)) weft__engine_read_anew(ctx);
    if (req->timed) {
        req->settled_ns =
            weft__engine_now(ctx, req->started_ns > req->submitted_ns ? req->started_ns : req->submitted_ns);
        if (!req->submitted_ns) req->submitted_ns = req->started_ns = req->settled_ns; /* all in one step */
    }
    record_end(req, status);
    if (WEFT__UNLIKELY(status != WEFT_OK)) {
        ctx->record.failed = ctx->record.failed || is_trouble(status);
        if (text) weft__request_tell(req, status, text);
        if (req->continuation) req->continuation->fail(req, text ? text : weft_status_text(status));
    }
    if (!req->done) {
        weft__request_publish(req);
        return;
    }
    if (req->done == weft__batch_member) {
        req->done(req, status, req->arg);
        return;
    }
    weft__request_to(req, WEFT__CALLING);
    weft__mpsc_push(&ctx->callbacks, &req->node);
    weft__engine_ring(ctx);
}

void weft__request_settlef(weft_request *req, weft_status status, const char *format, ...)
{
    char name[256], why[WEFT__SENTENCE_BYTES], text[WEFT__SENTENCE_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    weft__request_name(req, name, sizeof name);
    snprintf(text, sizeof text, "%s: %.*s", name, (int)(sizeof text - sizeof name - 3), why);
    weft__request_settle(req, status, text);
}

void weft__request_fail(weft_request *req, weft_status status, const char *text)
{
    WEFT__ASSERT(weft__holds_engine(req->ctx));
    if (weft__request_state(req) >= WEFT__DRAINING) return;
    if (req->executor->fail) {
        req->executor->fail(req, status, text);
        return;
    }
    req->executor->stop(req);
    weft__request_settle(req, status, text);
}

const char *weft_request_message(weft_request *req)
{
    char name[256], text[512];
    bool settled;
    const char *told;
    if (!req) return "no request";
    settled = weft__request_settled(req);
    told = atomic_load_explicit(settled ? &req->told : &req->shown, memory_order_acquire);
    if (told) return told;
    if (weft__request_state(req) == WEFT__QUEUED) weft__engine_empty_queue(req->ctx); /* it has no number */
    weft__request_name(req, name, sizeof name);
    snprintf(text, sizeof text, "%s: %s", name, settled ? weft_status_text(req->status) : "pending");
    return request_keep(settled ? &req->told : &req->shown, text);
}

/* Where the message that a probe has found lies; the way is what its sender says. */
static weft_memory memory_of(const weft__recv_result *found)
{
    if (!found->apart) return WEFT_MEMORY_HOST;
    return found->way == WEFT_MEMORY_OTHER ? WEFT_MEMORY_OTHER : WEFT_MEMORY_CUDA;
}

void weft_request_get_info(weft_request *req, weft_request_info *info)
{
    unsigned traits;
    bool settled;
    if (!req || !info) return;
    traits = weft__kind_traits(req->op.kind);
    memset(info, 0, sizeof *info);
    settled = weft__request_settled(req);
    if (weft__request_state(req) == WEFT__QUEUED) weft__engine_empty_queue(req->ctx); /* it has no number */
    info->status = settled ? req->status : WEFT_PENDING;
    info->peer = req->op.peer;
    info->tag = req->op.tag;
    info->sequence = req->sequence;
    info->bytes = weft__op_bytes(&req->op, req->group->rank, req->group->size);
    info->dtype = req->op.dtype;
    info->memory = weft__memory_told(req->op.memory);
    info->submitted_ns = req->submitted_ns;
    info->waited_ns = atomic_load_explicit(&req->waited_ns, memory_order_relaxed);
    info->operation = weft__kind_name(req->op.kind);
    info->label = req->label;
    info->algorithm = "";
    if (!settled) return;
    info->started_ns = req->started_ns;
    info->settled_ns = req->settled_ns;
    info->algorithm = req->algorithm;
    info->buffers_held = req->buffers_held;
    if (traits & WEFT__PROBES && req->status == WEFT_OK) {
        info->bytes = req->recv_result.offered;
        info->dtype = (weft_dtype)req->recv_result.dtype;
        info->memory = memory_of(&req->recv_result);
    }
    if (traits & (WEFT__RECEIVES | WEFT__PROBES)) {
        info->received_bytes =
            req->status == WEFT_ERR_TRUNCATED ? req->recv_result.offered : req->recv_result.bytes;
        info->tag = req->recv_result.tag;
        if (req->recv_result.peer >= 0) info->peer = weft__group_member(req->group, req->recv_result.peer);
    }
    if (req->status == WEFT_ERR_PEER && req->culprit >= 0) info->peer = req->culprit;
}

void weft_release(weft_request *req)
{
    if (!req || weft__forked()) return;
    weft__request_unref(req);
}
