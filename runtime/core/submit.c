/* submit.c - the one place that makes a request go, in the forms that submit.h names.
 *
 * Nothing may fail once it has begun and has its number, or ranks fall out of step; so all that can is done
 * before. */
#include "submit.h"
#include "alarm.h"
#include "batch.h"
#include "behind.h"
#include "engine.h"
#include "executor.h"
#include "group.h"
#include "group_break.h"
#include "recorded.h"
#include "recording.h"
#include "wait.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define ASK_AHEAD_NS \
    (2000 * WEFT__MS) /* at most: how long before a deadline to ask who is late, for the first time */

weft_status weft__call_check(const weft_call *call)
{
    if (call && call->batch)
        return weft__batch_refuse(call->batch,
                                  weft__fail(WEFT_ERR_ARGUMENT, "call->batch is set: only messages and "
                                                                "collectives that move data can join one"));
    return weft__joining_call_check(call);
}

weft_status weft__joining_call_check(const weft_call *call)
{
    if (!call) return WEFT_OK;
    if (call->timeout_ms < 0 && call->timeout_ms != WEFT_FOREVER)
        return weft__fail(
            WEFT_ERR_ARGUMENT,
            "call->timeout_ms is %lld: expected more than 0, 0 for the group's, or WEFT_FOREVER",
            (long long)call->timeout_ms);
    if ((unsigned)call->memory > WEFT_MEMORY_OTHER)
        return weft__fail(WEFT_ERR_ARGUMENT,
                          "call->memory is %d: expected WEFT_MEMORY_AUTO, _HOST, _CUDA or _OTHER",
                          (int)call->memory);
    if (call->label && strlen(call->label) >= WEFT__LABEL_BYTES)
        return weft__fail(WEFT_ERR_ARGUMENT, "call->label has %zu bytes: at most %d are allowed",
                          strlen(call->label), WEFT__LABEL_BYTES - 1);
    if ((unsigned)call->order > WEFT_ORDER_PROGRAM)
        return weft__fail(WEFT_ERR_ARGUMENT,
                          "call->order is %d: expected WEFT_ORDER_DEFAULT, _AGREED or _PROGRAM",
                          (int)call->order);
    if (call->unused) return weft__fail(WEFT_ERR_ARGUMENT, "call->unused is not 0");
    for (size_t i = 0; i < WEFT__LENGTH(call->reserved); i++)
        if (call->reserved[i]) return weft__fail(WEFT_ERR_ARGUMENT, "call->reserved[%zu] is not 0", i);
    return WEFT_OK;
}

static void set_times(weft_request *req, int64_t now, int64_t timeout_ms)
{
    int64_t span;
    req->submitted_ns = now;
    req->deadline_ns = weft__deadline(now, timeout_ms);
    req->warn_ns = now + req->ctx->warn_after_ns;
    req->ask_ns = req->deadline_ns;
    if (req->deadline_ns == WEFT__NEVER) return;
    span = (req->deadline_ns - now) / 2;
    req->ask_ns -= span < ASK_AHEAD_NS ? span : ASK_AHEAD_NS;
}

static int64_t first_check(const weft_request *req)
{
    return req->ask_ns < req->warn_ns ? req->ask_ns : req->warn_ns;
}

/* Its first step is taken here and now, and nobody else knows it until then.  So it has no times yet: reading
 * the clock first would only delay what the other ranks wait for. */
static void set_first_step(weft_request *req)
{
    req->steps = WEFT__FIRST_STEP;
    req->submitted_ns = 0;
    req->deadline_ns = req->ask_ns = req->warn_ns = WEFT__NEVER;
}

/* Beside the traits of a request's kind: its executor ends messages when their group breaks; and it makes a group for a
 * module, whose work goes on while the context is being finalized. */
#define ENDS_WITH_GROUP (1U << 31)
#define OF_MODULE       (1U << 30)

static unsigned traits_of(const weft_request *req)
{
    const weft__executor *executor = weft__executor_of(req->ctx, &req->op);
    return weft__kind_traits(req->op.kind) | (req->of_module ? OF_MODULE : 0U) |
           (executor->traits & WEFT__ENDS_WITH_GROUP ? ENDS_WITH_GROUP : 0U);
}

/* A broken group takes no more collectives.  Messages in host memory go on: they concern only two ranks. */
static WEFT__NOINLINE weft_status may_begin_all_the_same(const weft_group *group, weft__group_state state,
                                                         bool closing, unsigned traits)
{
    weft_status status;
    if (state != WEFT__READY && traits & (WEFT__COLLECTIVE | WEFT__PAIR)) {
        if ((status = weft__group_usable(group)) != WEFT_OK) return status;
        if (state == WEFT__BROKEN && traits & (WEFT__COLLECTIVE | ENDS_WITH_GROUP))
            return weft__group_refuse(group);
    }
    if (closing && !group->of_module && !(traits & OF_MODULE))
        return weft__fail(WEFT_ERR_STATE, "this context is being finalized");
    return WEFT_OK;
}

static inline weft_status may_begin(const weft_group *group, unsigned traits)
{
    weft__group_state state = (weft__group_state)atomic_load_explicit(&group->state, memory_order_acquire);
    bool closing = atomic_load_explicit(&group->ctx->closing, memory_order_seq_cst);
    return WEFT__LIKELY(state == WEFT__READY && !closing)
               ? WEFT_OK
               : may_begin_all_the_same(group, state, closing, traits);
}

static bool is_broken(const weft_group *group)
{
    return atomic_load_explicit(&group->state, memory_order_relaxed) == WEFT__BROKEN;
}

/* ---- beginning ---- */

/* The order of starting is that of the numbers, and so of submitting. */
static void number(weft_request *req, unsigned traits)
{
    weft_group *group = req->group;
    if (traits & WEFT__COLLECTIVE) {
        req->sequence = ++group->next_number;
        weft__row *row = group->row;
        atomic_store_explicit(&row->kind, (uint16_t)req->op.kind, memory_order_relaxed);
        atomic_store_explicit(&row->at_ns, req->submitted_ns ? req->submitted_ns : weft__about_now_ns(),
                              memory_order_relaxed);
        atomic_store_explicit(&row->submitted, req->sequence, memory_order_release);
    } else if (traits & WEFT__PAIR) {
        req->sequence = weft__pair_number(group, req->op.peer, traits & WEFT__EXCHANGES);
    } else if (traits & WEFT__BATCHES) {
        req->sequence = ++group->batches;
    }
}

/* Has the group begun an operation with this signature before?  All members get the same answer, since it
 * follows from what they began, in order.  A new one whose hash is that of an earlier one counts as a
 * repetition; a rank that differs in it is then told later than it would have been. */
static bool begun_before(weft_group *group, weft__signature s)
{
    uint64_t hash = (s.word[0] ^ s.word[1] * UINT64_C(0xc2b2ae3d27d4eb4f)) * UINT64_C(0x9e3779b97f4a7c15);
    uint32_t *known, word;
    bool before;
    hash = (hash ^ hash >> 32) * UINT64_C(0xbf58476d1ce4e5b9);
    known = &group->known[hash >> 58 & (WEFT__KNOWN - 1)];
    word = (uint32_t)(hash >> 24) | 1;
    before = *known == word;
    *known = word;
    return before;
}

static void remember(weft_request *req, unsigned traits)
{
    weft_group *group = req->group;
    req->signature = weft__op_sign(&req->op);
    group->recent[req->sequence % WEFT__RECENT] = req->signature;
    if (req->sequence <= group->started) return; /* one that was held comes a second time */
    WEFT__ASSERT_HOT(req->sequence == group->started + 1, req->sequence, group->started);
    group->started = req->sequence;
    req->op.repeats = traits & WEFT__REPEATS && !group->params.plain && begun_before(group, req->signature);
}

/* Its group is broken: does it end with that?  A message does if it was submitted before, and its group was aborted.  One
 * on device memory is ended by its executor, which counts it. */
static bool ends_with_group(const weft_request *req, unsigned traits)
{
    if (traits & WEFT__COLLECTIVE) return true;
    return req->steps == WEFT__ANYWHERE && !req->after_break && weft__group_is_aborted(req->group) &&
           !(traits_of(req) & ENDS_WITH_GROUP);
}

/* Its group broke between submitting and now.  Nothing has started that would have to be stopped. */
static WEFT__NOINLINE void end_with_group(weft_request *req)
{
    char text[WEFT__SENTENCE_BYTES];
    weft_status status;
    if (weft__kind_way(req->op.kind) == WEFT__EXCHANGES) {
        free(req->u.pair.copy);
        req->u.pair.copy = NULL;
    }
    status = weft__broken_text(req, text, sizeof text);
    weft__request_settle(req, status, text);
}

/* False: it has ended. */
static inline bool joins(weft_request *req, unsigned traits)
{
    if (WEFT__UNLIKELY(is_broken(req->group)) && ends_with_group(req, traits)) {
        end_with_group(req);
        return false;
    }
    if (traits & WEFT__COLLECTIVE) remember(req, traits);
    return true;
}

void weft__submit_begin(weft_context *ctx, weft_request *req)
{
    unsigned traits = weft__kind_traits(req->op.kind);
    WEFT__ASSERT_HOT(weft__holds_engine(ctx));
    WEFT__ASSERT_HOT(!req->sequence && atomic_load(&req->refs) > 0, req->sequence); /* it begins once */
    if (traits & WEFT__COLLECTIVE && req->op.memory == WEFT_MEMORY_HOST)
        weft__executor_advance(ctx, WEFT__EXECUTOR_DEVICE); /* what was put off before it */
    number(req, traits);
    weft__recorded_begin(req, traits);
    if (traits & WEFT__BATCHES) {
        weft__request_to(req, WEFT__RUNNING);
        weft__batch_start(req, weft__submit_begin);
        return;
    }
    weft__list_append(&ctx->pending, &req->pending);
    weft__request_to(req, WEFT__RUNNING);
    if (traits & (WEFT__COLLECTIVE | WEFT__PAIR) && !joins(req, traits)) return;
    req->executor = weft__executor_of(ctx, &req->op);
    req->executor->start(req);
}

void weft__submit_hold(weft_request *req)
{
    WEFT__ASSERT(weft__holds_engine(req->ctx) && req->sequence > 0, req->sequence); /* held in order */
    weft__request_to(req, WEFT__HELD);
    weft__recorded_state(req);
}

void weft__submit_held(weft_request *req)
{
    WEFT__ASSERT(weft__holds_engine(req->ctx));
    weft__request_to(req, WEFT__RUNNING);
    weft__recorded_state(req);
    req->executor->start(req);
}

void weft__submit_continued(weft_request *req, weft__executor_kind executor, uint64_t number)
{
    weft_context *ctx = req->ctx;
    WEFT__ASSERT(weft__holds_engine(ctx));
    req->sequence = number;
    req->signature = weft__op_sign(&req->op);
    req->submitted_ns = req->started_ns = weft__now_ns();
    req->deadline_ns = weft__deadline(req->submitted_ns, atomic_load(&req->group->timeout_ms));
    req->ask_ns = req->warn_ns = req->deadline_ns; /* nobody called it, so nobody is asked or warned */
    atomic_fetch_add(&ctx->inflight_queued, 1);
    req->executor = ctx->executors[executor];
    weft__recorded_start(req, weft__kind_traits(req->op.kind));
    weft__request_to(req, WEFT__RUNNING);
    weft__list_append(&ctx->pending, &req->pending);
    weft__alarm_check(ctx, req->deadline_ns);
}

/* ---- inline and queued ---- */

void weft__check_by(weft_context *ctx, int64_t check_ns)
{
    if (check_ns < atomic_load_explicit(&ctx->check_ns, memory_order_relaxed))
        weft__alarm_check(ctx, check_ns);
}

/* Whether its first step may be taken inside the call.  Not with a callback, which could run, and release the
 * request, before this thread is done with it; and not inside one. */
static bool begins_itself(const weft__op *op, bool has_callback)
{
    return weft__kind_traits(op->kind) & (WEFT__COLLECTIVE | WEFT__PAIR) && !has_callback &&
           !weft__in_callback();
}

/* It goes on while the caller does something else.  From which processor it was left matters only where sockets
 * wake the progress thread: anywhere else it is where its callers are. */
static void leave_work(weft_context *ctx)
{
    if (ctx->descriptors_wake) weft__pacing_left_work(&ctx->pacing, sched_getcpu());
}

/* It is not over in its first step, and gets its times. */
static WEFT__NOINLINE int64_t stay(weft_request *req, int64_t timeout_ms)
{
    weft_context *ctx = req->ctx;
    set_times(req, weft__engine_clock(ctx), timeout_ms);
    req->started_ns = req->submitted_ns;
    weft__recorded_stays(req);
    req->steps = WEFT__HERE;
    weft__count(&ctx->inflight_inline, 1);
    if (req->timed) leave_work(ctx);
    return first_check(req);
}

/* After its first step.  Returns the time at which somebody has to check at it.  Engine held. */
static inline int64_t first_step_done(weft_request *req, int64_t timeout_ms)
{
    WEFT__ASSERT_HOT(weft__holds_engine(req->ctx) && req->steps == WEFT__FIRST_STEP, req->steps);
    if (!weft__request_settled(req)) return stay(req, timeout_ms);
    atomic_store_explicit(&req->refs, 1, memory_order_relaxed);
    return WEFT__NEVER;
}

static int64_t begin_here(weft_request *req, int64_t timeout_ms)
{
    atomic_store_explicit(&req->refs, 2, memory_order_relaxed);
    weft__engine_begin(req->ctx, req, 0);
    return first_step_done(req, timeout_ms);
}

int64_t weft__submit_post(weft_request *req)
{
    WEFT__ASSERT_HOT(weft__holds_engine(req->ctx) && req->sequence > 0, req->sequence);
    set_first_step(req);
    req->u.pair.copy = NULL;
    atomic_store_explicit(&req->refs, 2, memory_order_relaxed);
    weft__list_append(&req->ctx->pending, &req->pending);
    weft__request_to_alone(req, WEFT__RUNNING);
    req->executor = req->ctx->executors[WEFT__EXECUTOR_MESSAGES];
    weft__recorded_begin(req, WEFT__PAIR);
    req->executor->start(req);
    return first_step_done(req, atomic_load_explicit(&req->group->timeout_ms, memory_order_relaxed));
}

static WEFT__THREAD_WORD bool issues;

bool weft__submit_issues(void)
{
    return issues;
}

/* In program order the caller issues to the device, so it is also the one who begins.  Not in a callback, which has the
 * progress thread. */
static bool issues_itself(const weft_group *group, unsigned traits)
{
    return traits & ENDS_WITH_GROUP && group->params.program && !weft__in_callback();
}

/* What of it is to be recorded in a graph, if anything: of a batch, one for all that are. */
static const weft_request *captured(const weft_request *req)
{
    if (!(weft__kind_traits(req->op.kind) & WEFT__BATCHES)) return req->capture ? req : NULL;
    for (size_t i = 0; i < req->u.batch->count; i++)
        if (req->u.batch->members[i]->capture) return req->u.batch->members[i];
    return NULL;
}

/* Engine held, before it has its number: what cannot be recorded is refused, and breaks nothing. */
static weft_status may_record(const weft_request *req)
{
    const weft_request *first = captured(req);
    if (WEFT__LIKELY(!first)) return WEFT_OK;
    weft__engine_begin(req->ctx, NULL, 0); /* what was submitted before */
    return weft__executor_of(first->ctx, &first->op)->may_record(first);
}

/* The engine is held: from before it was queued, or another thread that has it would begin it. */
static void begin_and_issue(weft_context *ctx, int64_t submitted_ns, int64_t check_ns)
{
    issues = true;
    weft__engine_begin(ctx, NULL, submitted_ns);
    weft__engine_drop(ctx);
    issues = false;
    /* The call may hang until its deadline; once it is back the request may be over and gone. */
    weft__check_by(ctx, check_ns);
    ctx->executors[WEFT__EXECUTOR_DEVICE]->issue(ctx);
}

/* Whoever holds the engine next takes it: this thread, if it is free.  Once in the queue the request may be
 * over and gone. */
static weft_status enqueue(weft_request *req, unsigned traits, int64_t unsettled, weft_request **out)
{
    weft_context *ctx = req->ctx;
    int64_t submitted_ns = req->submitted_ns, check_ns = first_check(req);
    weft_status status;
    bool here;
    atomic_fetch_add_explicit(&ctx->inflight_queued, unsettled, memory_order_seq_cst);
    status = may_begin(req->group, traits);
    if (status != WEFT_OK) {
        atomic_fetch_sub_explicit(&ctx->inflight_queued, unsettled, memory_order_release);
        return status;
    }
    here = issues_itself(req->group, traits);
    if (here) weft__engine_take(ctx);
    if (here && (status = may_record(req)) != WEFT_OK) {
        weft__engine_drop(ctx);
        atomic_fetch_sub_explicit(&ctx->inflight_queued, unsettled, memory_order_release);
        return status;
    }
    req->steps = WEFT__ANYWHERE;
    req->after_break = is_broken(req->group);
    atomic_store_explicit(&req->refs, 2, memory_order_relaxed);
    weft__request_to_alone(req, WEFT__QUEUED);
    leave_work(ctx);
    if (out) *out = req; /* first: its callback may run, and release it, before this function returns */
    weft__mpsc_push(&ctx->submitted, &req->node);
    if (here) {
        begin_and_issue(ctx, submitted_ns, check_ns);
        return WEFT_OK;
    }
    if (weft__engine_try(ctx)) {
        weft__engine_begin(ctx, NULL, submitted_ns);
        weft__engine_drop(ctx);
    }
    weft__check_by(ctx, check_ns);
    return WEFT_OK;
}

static weft_status wait_for_it(weft_request *req)
{
    weft_status status;
    WEFT__ASSERT_HOT(!weft__holds_any_engine()); /* what it waits for needs it */
    status = weft__wait_until(req, WEFT__NEVER);
    if (status != WEFT_OK) {
        weft__recording_await(req->ctx, WEFT_FOREVER);
        weft__fail(status, "%s", weft_request_message(req));
    }
    weft__request_unref(req);
    return status;
}

weft_status weft__may_wait_for_it(void)
{
    if (!weft__in_callback()) return WEFT_OK;
    return weft__fail(WEFT_ERR_STATE,
                      "in a callback an operation needs a request: waiting is not possible there");
}

static int64_t timeout_of(const weft_request *req, const weft_call *call)
{
    return call && call->timeout_ms ? call->timeout_ms
                                    : atomic_load_explicit(&req->group->timeout_ms, memory_order_relaxed);
}

weft_status weft__submit_inside(weft_group *group, const weft__op *op, const weft_call *call, bool timed,
                                weft_request **made)
{
    weft_context *ctx = group->ctx;
    int64_t check_ns = WEFT__NEVER;
    unsigned traits = weft__kind_traits(op->kind);
    weft_status status = may_begin(group, traits);
    weft_request *req;
    WEFT__ASSERT_HOT(weft__holds_engine(ctx));
    if (traits & WEFT__COLLECTIVE) weft__rounds_expect(group);
    req = status == WEFT_OK ? weft__request_take(ctx, group) : NULL;
    if (req) {
        req->op = *op;
        weft__request_fill(req, group, call);
        set_first_step(req);
        req->timed = timed;
        if (traits & WEFT__PAIR) req->u.pair.copy = NULL;
        check_ns = begin_here(req, timeout_of(req, call));
    } else if (status == WEFT_OK) {
        status = WEFT_ERR_MEMORY;
    }
    *made = req;
    if (req && !timed && weft__wait_inside(req) && req->status == WEFT_OK) {
        weft__request_unref(req);
        *made = NULL;
    }
    weft__engine_drop(ctx);
    weft__check_by(ctx, check_ns);
    return status;
}

weft_status weft__hand_out(weft_request *req, weft_request **out)
{
    if (out) *out = req;
    return out || !req ? WEFT_OK : wait_for_it(req);
}

/* What is captured is not carried out in the call, so no call waits for that. */
static weft_status may_wait_for_capture(const weft_request *req)
{
    if (!req->capture) return WEFT_OK;
    return weft__fail(WEFT_ERR_STATE, "%s: its stream is being captured into a graph: it needs a request",
                      weft__kind_name(req->op.kind));
}

/* Those on memory of one kind are one call of its module's. */
static weft_status may_capture_together(const weft_batch *batch)
{
    const weft_request *firsts[WEFT__MEMORY_HOST_BY_MODULE + 1] = {NULL};
    for (size_t i = 0; i < batch->count; i++) {
        const weft_request *m = batch->members[i], **first = &firsts[m->op.memory];
        if (!m->device) continue;
        if (!*first) *first = m;
        if ((*first)->capture == m->capture) continue;
        return weft__fail(
            WEFT_ERR_STATE,
            "batch_end: %s is recorded in a graph and %s is not, or on another stream: those of one "
            "batch go on one stream that is being captured, or on none",
            weft__kind_name((m->capture ? m : *first)->op.kind),
            weft__kind_name((m->capture ? *first : m)->op.kind));
    }
    return WEFT_OK;
}

bool weft__submit_inline(weft_group *group, weft__op *op, const weft_call *call, weft_request **out,
                         weft_status *status)
{
    weft_request *req;
    /* send_recv in place copies its input first, which is not done while holding the engine. */
    bool copies = weft__kind_way(op->kind) == WEFT__EXCHANGES && op->in == op->out;
    if (op->memory != WEFT_MEMORY_HOST || copies || !begins_itself(op, call && call->done) ||
        weft__streams_are_held(group->ctx) || !weft__engine_try(group->ctx))
        return false;
    *status = weft__submit_inside(group, op, call, out != NULL, &req);
    if (*status != WEFT_OK) return true;
    op->uneven = NULL; /* the request's now */
    *status = weft__hand_out(req, out);
    return true;
}

/* Its first step may be the module's, or be in its caller's hands. */
static bool is_for_device(const weft_request *req, unsigned traits)
{
    return traits & ENDS_WITH_GROUP &&
           (req->op.memory != WEFT__MEMORY_HOST_BY_MODULE || req->group->params.program);
}

weft_status weft__submit(weft_request *req, const weft_call *call, weft_request **out)
{
    weft_context *ctx = req->ctx;
    unsigned traits = traits_of(req);
    weft_status status = out ? WEFT_OK : weft__may_wait_for_it();
    int64_t timeout_ms = timeout_of(req, call), check_ns = WEFT__NEVER;
    req->timed = out || req->done;
    if (status == WEFT_OK && !out) status = may_wait_for_capture(req);
    if (status == WEFT_OK && !is_for_device(req, traits) && begins_itself(&req->op, req->done) &&
        !weft__streams_are_held(ctx) && weft__engine_try(ctx)) {
        status = may_begin(req->group, traits);
        if (status == WEFT_OK) {
            set_first_step(req);
            check_ns = begin_here(req, timeout_ms);
            if (out) *out = req;
        }
        weft__engine_drop(ctx);
        weft__check_by(ctx, check_ns);
    } else if (status == WEFT_OK) {
        set_times(req, weft__now_ns(), timeout_ms);
        status = enqueue(req, traits, 1, out);
    }
    if (status != WEFT_OK) {
        weft__request_take_back(req);
        return status;
    }
    return out ? WEFT_OK : wait_for_it(req);
}

/* ---- batches ---- */

/* Nothing of it was queued. */
static weft_status take_batch_back(weft_request *whole, weft_status status)
{
    weft_batch *batch = whole->u.batch;
    for (size_t i = 0; i < batch->count; i++) weft__request_take_back(batch->members[i]);
    batch->count = 0;
    weft__request_unref(whole);
    return status;
}

/* What a member gets from the whole; returns the members' traits together. */
static unsigned ready_members(const weft_request *whole)
{
    const weft_batch *batch = whole->u.batch;
    unsigned traits = 0;
    for (size_t i = 0; i < batch->count; i++) {
        weft_request *m = batch->members[i];
        m->submitted_ns = whole->submitted_ns;
        m->deadline_ns = whole->deadline_ns;
        m->ask_ns = whole->ask_ns;
        m->warn_ns = whole->warn_ns;
        m->after_break = is_broken(m->group);
        /* It may have been written since it joined. */
        if (weft__kind_way(m->op.kind) == WEFT__EXCHANGES && m->u.pair.copy)
            memcpy(m->u.pair.copy, m->op.in, m->op.count * weft__op_element(&m->op));
        traits |= traits_of(m);
    }
    return traits;
}

weft_status weft__submit_batch(weft_request *whole, const weft_call *call, weft_request **out)
{
    weft_context *ctx = whole->ctx;
    size_t count = whole->u.batch->count;
    const weft_request *first;
    weft_status status = out ? WEFT_OK : weft__may_wait_for_it();
    for (size_t i = 0; i < count && status == WEFT_OK && !out; i++)
        status = may_wait_for_capture(whole->u.batch->members[i]);
    if (status == WEFT_OK) status = may_capture_together(whole->u.batch);
    if (status == WEFT_OK && (first = captured(whole)) != NULL)
        status = weft__executor_of(ctx, &first->op)->goes_on(first);
    if (status == WEFT_OK) {
        set_times(whole, weft__now_ns(), timeout_of(whole, call));
        status = enqueue(whole, ready_members(whole), (int64_t)count + 1, out);
        if (status == WEFT_OK && !count) weft__engine_empty_queue(ctx); /* it settles at once */
    }
    if (status != WEFT_OK) return take_batch_back(whole, status);
    return out ? WEFT_OK : wait_for_it(whole);
}
