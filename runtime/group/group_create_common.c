/* group_create_common.c - the caller's side of a group that its members make between them. */
#include "group_create_common.h"
#include "alarm.h"
#include "engine.h"
#include "executor.h"
#include "group_break.h"
#include "peer.h"
#include "reserve.h"
#include "submit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VERDICT_GRACE_NS (500 * WEFT__MS) /* for the lead's word after this rank has given up */

static void fail_group(weft_request *req, const char *why)
{
    weft__group_fail(req->u.creation->group, req->status, why);
    if (req->u.creation->ended) req->u.creation->ended(req);
}

static void free_creation(weft_request *req)
{
    weft__group_unref(req->u.creation->group);
    free(req->u.creation);
}

weft_status weft__submit_making(weft_request *r, const weft_call *call, weft_group *made, weft_group **group,
                                weft_request **req)
{
    weft_group *before = *group;
    weft_status status;
    if (req) *group = made; /* first: its callback may use it before this function returns */
    status = weft__submit(r, call, req);
    if (status == WEFT_OK && !req) *group = made;
    if (status != WEFT_OK && req) *group = before;
    if (status != WEFT_OK && made) weft__group_unref(made);
    return status;
}

weft_status weft__group_create_submit(weft_group *parent, weft__kind kind, weft__group_create *f,
                                      weft_group *made, const weft_call *call, weft_group **group,
                                      weft_request **req)
{
    weft__op op = {.kind = kind, .memory = WEFT_MEMORY_HOST, .scale = 1};
    weft_request *r = weft__request_new(parent->ctx, parent, &op, call);
    if (!r) {
        free(f);
        weft__group_unref(made);
        return WEFT_ERR_MEMORY;
    }
    f->continuation = (weft__continuation){NULL, fail_group, free_creation};
    f->group = made;
    weft__group_ref(made);
    r->u.creation = f;
    r->continuation = &f->continuation;
    r->of_module = made->of_module;
    return weft__submit_making(r, call, made, group, req);
}

void weft__group_create_members(weft_group *group, int n)
{
    WEFT__ASSERT(n > 0 && n <= group->size && atomic_load(&group->state) == WEFT__FORMING, n, group->size);
    group->size = n;
    group->rank = weft__group_member(group, group->ctx->rank);
}

void weft__group_create_ready(weft_request *req, uint64_t id, const weft__group_params *params)
{
    weft_status status = weft__group_ready(req->u.creation->group, id, params);
    if (status == WEFT_OK && req->u.creation->ended) req->u.creation->ended(req);
    weft__request_settle(req, status, status == WEFT_OK ? NULL : weft_last_error());
}

void weft__group_create_fail(weft_request *req, weft_status status, int culprit, const char *text)
{
    if (culprit >= 0) req->culprit = weft__group_member(req->group, culprit);
    weft__request_settlef(req, status, "%s", text);
}

static void await_verdict(weft_request *req)
{
    req->deadline_ns = req->ask_ns = weft__now_ns() + VERDICT_GRACE_NS; /* nobody else is asked any more */
    weft__alarm_check(req->ctx, req->deadline_ns);
}

void weft__group_create_give_up(weft_request *req, weft_status status, const char *why)
{
    weft__group_create *f = req->u.creation;
    if (f->gave_up != WEFT_OK || weft__request_state(req) >= WEFT__DRAINING) return;
    WEFT__ASSERT(weft__is_failure(status) && f->lead >= 0, status, f->lead);
    f->gave_up = status;
    snprintf(f->text, sizeof f->text, "%.*s", (int)sizeof f->text - 1, why);
    await_verdict(req);
    f->give_up(req);
}

void weft__group_create_doubt(weft_request *req, int culprit, const char *why)
{
    weft__group_create *f = req->u.creation;
    if (f->gave_up != WEFT_OK || weft__request_state(req) >= WEFT__DRAINING) return;
    f->gave_up = WEFT_ERR_PEER;
    f->doubts = true;
    f->culprit = culprit;
    snprintf(f->text, sizeof f->text, "%s", why);
    await_verdict(req);
}

static void making_expire(weft_request *req, int64_t now_ns)
{
    weft__group_create *f = req->u.creation;
    char text[WEFT__SENTENCE_BYTES], who[192];
    const char *want = weft__peer_want(req->ctx, f->lead);
    if (f->gave_up == WEFT_OK) {
        snprintf(text, sizeof text, "%.1f s passed", (double)(now_ns - req->submitted_ns) / 1e9);
        weft__group_create_give_up(req, WEFT_ERR_TIMEOUT, text);
        return;
    }
    /* The lead, which has heard of that death too, has ended it, or has said before what it is to say again. */
    if (f->doubts && !f->asked) {
        f->asked = true;
        await_verdict(req);
        f->give_up(req);
        return;
    }
    if (f->doubts) {
        snprintf(text, sizeof text, "%s", f->text);
        weft__group_create_fail(req, f->gave_up, f->culprit, text);
        return;
    }
    weft__peer_name(req->ctx, f->lead, who, sizeof who);
    snprintf(text, sizeof text, "%.400s; %s does not answer%s%.200s", f->text, who,
             want ? "; this rank has no connection to it: " : "", want ? want : "");
    weft__group_create_fail(req, f->gave_up, -1, text);
}

/* A group that is being made. */
static void abort_making(weft_group *group, const char *why)
{
    WEFT__LIST_EACH(&group->ctx->pending, at)
    {
        weft_request *req = WEFT__LIST_ENTRY(at, weft_request, pending);
        if (!(weft__kind_traits(req->op.kind) & WEFT__FORMS) || req->u.creation->group != group) continue;
        weft__group_create_give_up(req, WEFT_ERR_CANCELLED, why);
        return;
    }
}

void weft__group_create_missing(const weft_context *ctx, int world_rank, bool by_others, char *text,
                                size_t bytes)
{
    size_t at = strlen(text);
    char who[192];
    weft__peer_name(ctx, world_rank, who, sizeof who);
    snprintf(text + at, bytes - at, "; %s has not %s", who, by_others ? "been heard of" : "joined");
}

static void making_start(weft_request *req)
{
    req->u.creation->start(req);
}

/* It has no buffers; the lead's word will find nobody waiting. */
static void making_stop(weft_request *req)
{
    (void)req;
}

static void making_cancel(weft_request *req, const char *text)
{
    weft__group_create_give_up(req, WEFT_ERR_CANCELLED, text);
}

const weft__executor weft__making_executor = {.name = "group making",
                                              .start = making_start,
                                              .stop = making_stop,
                                              .cancel = making_cancel,
                                              .expire = making_expire};

weft_status weft_group_abort(weft_group *group, const char *why)
{
    char text[WEFT__SENTENCE_BYTES];
    weft_context *ctx;
    weft_status status;
    bool entered;
    if (!group) return weft__fail(WEFT_ERR_ARGUMENT, "group is NULL");
    ctx = group->ctx;
    if ((status = weft__usable(ctx)) != WEFT_OK) return status;
    if (atomic_load(&group->state) == WEFT__FAILED) return WEFT_OK;
    snprintf(text, sizeof text, "rank %d aborted the group: %s", group->rank, why ? why : "");
    entered = weft__engine_enter(ctx);
    weft__engine_progress(ctx);
    abort_making(group, text);
    weft__group_break(group, &(weft__verdict){WEFT_ERR_CANCELLED, 0, -1, text}, true);
    weft__engine_leave(ctx, entered);
    return WEFT_OK;
}
