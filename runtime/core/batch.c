/* batch.c - batches: what may join, the one request that end makes of them, how it ends.
 *
 * end can only fail before anything has begun: members were checked when they joined.  The whole is not in
 * the engine's list of pending requests: its members are, under its deadline, and the last of them to settle
 * settles it, with the first failure in order of joining. */
#include "batch.h"
#include "engine.h"
#include "executor.h"
#include "submit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOM_AT_FIRST 16 /* members; doubled when full */

weft_status weft_batch_begin(weft_group *group, weft_batch **batch)
{
    weft_batch *made;
    weft_status status;
    if (!group || !batch) return weft__fail(WEFT_ERR_ARGUMENT, "batch_begin: group or batch is NULL");
    if ((status = weft__usable(group->ctx)) != WEFT_OK || (status = weft__group_usable(group)) != WEFT_OK)
        return status;
    made = calloc(1, sizeof *made);
    if (!made) return weft__fail_memory(sizeof *made, "a batch");
    made->group = group;
    weft__group_ref(group);
    weft__lock_take(&group->ctx->groups_lock);
    weft__list_append(&group->ctx->batches, &made->link);
    weft__lock_drop(&group->ctx->groups_lock);
    *batch = made;
    return WEFT_OK;
}

static void leave_list(weft_batch *batch)
{
    weft_context *ctx = batch->group->ctx;
    weft__lock_take(&ctx->groups_lock);
    weft__list_remove(&batch->link);
    weft__lock_drop(&ctx->groups_lock);
}

weft_status weft__batch_refuse(weft_batch *batch, weft_status status)
{
    if (batch->refusal != WEFT_OK) return status;
    batch->refusal = status;
    snprintf(batch->why, sizeof batch->why, "%s", weft_last_error());
    return status;
}

static weft_status may_join(const weft_call *call, const weft_request *req, weft_request **out)
{
    const char *name = weft__kind_name(req->op.kind);
    if (req->group != call->batch->group)
        return weft__fail(WEFT_ERR_ARGUMENT, "%s on group %s: call->batch is a batch of group %s", name,
                          req->group->label, call->batch->group->label);
    if (out)
        return weft__fail(WEFT_ERR_ARGUMENT,
                          "%s joins a batch: req must be NULL, the request is weft_batch_end's", name);
    if (call->done)
        return weft__fail(WEFT_ERR_ARGUMENT,
                          "%s joins a batch: call->done must be NULL, give it to weft_batch_end", name);
    if (call->timeout_ms)
        return weft__fail(WEFT_ERR_ARGUMENT,
                          "%s joins a batch: call->timeout_ms is %lld, expected 0, give it to weft_batch_end",
                          name, (long long)call->timeout_ms);
    return WEFT_OK;
}

static weft_status make_room(weft_batch *batch)
{
    size_t room = batch->room ? batch->room * 2 : ROOM_AT_FIRST;
    weft_request **members;
    if (batch->count < batch->room) return WEFT_OK;
    members = realloc((void *)batch->members, room * sizeof *members);
    if (!members) return weft__fail_memory(room * sizeof *members, "a batch's operations");
    batch->members = members;
    batch->room = room;
    return WEFT_OK;
}

weft_status weft__batch_join(const weft_call *call, weft_request *req, weft_status prepared,
                             weft_request **out)
{
    weft_batch *batch = call->batch;
    weft_status status = prepared;
    if (status != WEFT_OK) return weft__batch_refuse(batch, status);
    if ((status = may_join(call, req, out)) != WEFT_OK || (status = make_room(batch)) != WEFT_OK) {
        weft__request_take_back(req);
        return weft__batch_refuse(batch, status);
    }
    batch->members[batch->count++] = req;
    return WEFT_OK;
}

void weft_batch_discard(weft_batch *batch)
{
    if (!batch || weft__forked()) return;
    leave_list(batch);
    for (size_t i = 0; i < batch->count; i++) weft__request_take_back(batch->members[i]);
    weft__group_unref(batch->group);
    free((void *)batch->members);
    free(batch);
}

void weft__batches_close(weft_context *ctx)
{
    while (!weft__list_empty(&ctx->batches))
        weft_batch_discard(WEFT__LIST_ENTRY(ctx->batches.next, weft_batch, link));
}

/* ---- the whole ---- */

static size_t bytes_of(const weft_batch *batch)
{
    size_t sum = 0;
    for (size_t i = 0; i < batch->count; i++) {
        const weft_request *m = batch->members[i];
        size_t bytes = weft__op_bytes(&m->op, m->group->rank, m->group->size);
        sum = bytes > SIZE_MAX - sum ? SIZE_MAX : sum + bytes;
    }
    return sum;
}

static weft_status make_whole(weft_batch *batch, const weft_call *call, weft_request **whole)
{
    weft_status status;
    weft__op op = {.kind = WEFT__OP_BATCH,
                   .dtype = WEFT_UINT8,
                   .memory = WEFT_MEMORY_HOST,
                   .count = bytes_of(batch),
                   .scale = 1};
    if ((status = weft__usable(batch->group->ctx)) != WEFT_OK) return status;
    if (batch->refusal != WEFT_OK) return weft__fail(batch->refusal, "%s", batch->why);
    if ((status = weft__call_check(call)) != WEFT_OK) return status;
    *whole = weft__request_new(batch->group->ctx, batch->group, &op, call);
    if (!*whole) return WEFT_ERR_MEMORY;
    (*whole)->algorithm = "batch";
    (*whole)->u.batch = batch;
    (*whole)->executor = NULL;
    return WEFT_OK;
}

/* Its collectives on memory of one kind that a module moves are one call to that module; its messages as
 * many as the receivers find, or where a graph records both all of it. */
static void issue_together(const weft_batch *batch)
{
    weft_request *firsts[2][WEFT__MEMORY_HOST_BY_MODULE + 1] = {{NULL}};
    for (size_t i = 0; i < batch->count; i++) {
        weft_request *m = batch->members[i], **first;
        const weft__executor *executor = weft__executor_of(m->ctx, &m->op);
        unsigned traits = weft__kind_traits(m->op.kind);
        if (!executor->follow || !(traits & (WEFT__COLLECTIVE | WEFT__PAIR))) continue;
        first = &firsts[traits & WEFT__COLLECTIVE || m->capture ? 0 : 1][m->op.memory];
        if (*first)
            executor->follow(*first, m);
        else
            *first = m;
    }
}

weft_status weft_batch_end(weft_batch *batch, const weft_call *call, weft_request **req)
{
    weft_request *whole = NULL;
    weft_status status;
    if (!batch) return weft__fail(WEFT_ERR_ARGUMENT, "batch_end: batch is NULL");
    status = make_whole(batch, call, &whole);
    if (status != WEFT_OK) {
        weft_batch_discard(batch);
        return status;
    }
    leave_list(batch);
    weft__group_unref(batch->group); /* the whole has its own reference */
    batch->open = batch->count;
    for (size_t i = 0; i < batch->count; i++) {
        batch->members[i]->done = weft__batch_member;
        batch->members[i]->arg = whole;
    }
    issue_together(batch);
    return weft__submit_batch(whole, call, req);
}

void weft__batch_start(weft_request *whole, void (*start)(weft_context *ctx, weft_request *member))
{
    weft_batch *batch = whole->u.batch;
    WEFT__ASSERT(weft__holds_engine(whole->ctx));
    if (!batch->count) {
        weft__request_settle(whole, WEFT_OK, NULL);
        return;
    }
    /* With the last of them the whole may settle and go. */
    for (size_t i = 0, n = batch->count; i < n; i++) {
        weft_request *m = batch->members[i];
        m->started_ns = whole->started_ns;
        atomic_store_explicit(&m->refs, 2, memory_order_relaxed); /* the engine's and the whole's */
        start(whole->ctx, m);
    }
}

static void batch_settle(weft_request *whole)
{
    weft_batch *batch = whole->u.batch;
    char name[256], text[WEFT__SENTENCE_BYTES];
    weft_request *failed = NULL;
    for (size_t i = batch->count; i-- > 0;) {
        weft_request *m = batch->members[i];
        WEFT__ASSERT(weft__request_state(m) == WEFT__SETTLED, i, batch->count);
        whole->buffers_held = whole->buffers_held || m->buffers_held;
        if (m->status != WEFT_OK) failed = m;
    }
    whole->started_ns = batch->members[0]->started_ns;
    if (!failed) {
        weft__request_settle(whole, WEFT_OK, NULL);
        return;
    }
    weft__request_name(whole, name, sizeof name);
    snprintf(text, sizeof text, "%s: %.*s", name, (int)(sizeof text - sizeof name - 3),
             weft_request_message(failed));
    whole->culprit = failed->culprit;
    weft__request_settle(whole, failed->status, text);
}

void weft__batch_member(weft_request *member, weft_status status, void *whole)
{
    weft_request *w = whole;
    (void)status; /* settle() reads it */
    WEFT__ASSERT(weft__holds_engine(w->ctx) && w->u.batch->open > 0);
    weft__request_publish(member);
    if (--w->u.batch->open == 0) batch_settle(w);
}

void weft__batch_cancel(weft_request *whole, void (*cancel)(weft_request *member))
{
    weft_batch *batch = whole->u.batch;
    for (size_t i = 0; i < batch->count; i++) cancel(batch->members[i]);
}

void weft__batch_let_go(weft_request *whole)
{
    weft_batch *batch = whole->u.batch;
    for (size_t i = 0; i < batch->count; i++) weft__request_unref(batch->members[i]);
}

void weft__batch_free(weft_request *whole)
{
    free((void *)whole->u.batch->members);
    free(whole->u.batch);
    whole->u.batch = NULL;
}
