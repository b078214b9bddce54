/* group_break.c - what ends more than one operation: a collective that fails, a member that dies.  The first
 * cause is kept and is what every later call is told. */
#include "group_break.h"
#include "alarm.h"
#include "engine.h"
#include "executor.h"
#include "group.h"
#include "peer.h"
#include "protocol.h"
#include "recording.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

weft__notice weft__break_notice(const weft_group *group)
{
    weft__notice notice = {.kind = WEFT__NOTICE_BROKEN,
                           .subject = group->cause,
                           .group = group->id,
                           .number = group->broken_number,
                           .culprit = group->culprit};
    snprintf(notice.text, sizeof notice.text, "%.*s", (int)sizeof notice.text - 1, group->why);
    if (group->culprit >= 0 && atomic_load(&group->ctx->peers[group->culprit].gone) != WEFT__LIVES) {
        const weft__peer *m = &group->ctx->peers[group->culprit];
        notice.gone = atomic_load(&m->gone);
        snprintf(notice.fate, sizeof notice.fate, "%.150s", m->why);
    }
    return notice;
}

/* A message on device memory, but for one that has met its other side on a communicator of the two. */
static bool ends_too(const weft_request *req)
{
    return req->executor->traits & WEFT__ENDS_WITH_GROUP && weft__kind_traits(req->op.kind) & WEFT__PAIR &&
           !req->executor->outlives_group(req);
}

/* One that is affected and has not been told yet. */
static weft_request *next_to_fail(weft_group *group, unsigned traits)
{
    WEFT__LIST_EACH(&group->ctx->pending, at)
    {
        weft_request *req = WEFT__LIST_ENTRY(at, weft_request, pending);
        if (req->group == group && weft__request_state(req) < WEFT__DRAINING &&
            ((weft__kind_traits(req->op.kind) & traits) || ends_too(req)))
            return req;
    }
    return NULL;
}

weft_status weft__broken_text(weft_request *req, char *text, size_t bytes)
{
    weft_group *group = req->group;
    weft_status cause = group->cause;
    char name[256];
    const char *kind = weft__kind_name(req->op.kind);
    bool same = req->sequence == group->broken_number && (weft__kind_traits(req->op.kind) & WEFT__COLLECTIVE);
    bool shared = same || cause == WEFT_ERR_PEER || cause == WEFT_ERR_MISMATCH || group->broken_number == 0;
    weft__request_name(req, name, sizeof name);
    if (same && !strncmp(group->why, kind, strlen(kind)))
        snprintf(text, bytes, "%s", group->why); /* it is about this very operation */
    else
        snprintf(text, bytes, "%s: %s%.700s", name, shared ? "" : "broken by: ", group->why);
    if (group->culprit >= 0) req->culprit = weft__group_member(group, group->culprit);
    return shared ? cause : WEFT_ERR_BROKEN;
}

/* Held for the caller; NULL: none that is newer than that one (NULL: at all) and not broken. */
static weft_group *newest_with(weft_context *ctx, int rank, const weft_group *than)
{
    weft_group *found = NULL;
    weft__lock_take(&ctx->groups_lock);
    WEFT__LIST_EACH(&ctx->groups, at)
    {
        weft_group *group = WEFT__LIST_ENTRY(at, weft_group, link);
        if (group == than) break;
        if (atomic_load(&group->state) != WEFT__READY || weft__group_member(group, rank) < 0 ||
            !weft__group_hold(group))
            continue;
        found = group;
        break;
    }
    weft__lock_drop(&ctx->groups_lock);
    return found;
}

/* The newest first: who sees the world broken finds every group that has the dead in it broken. */
static void break_newer(weft_context *ctx, int rank, const weft_group *than)
{
    weft_group *group;
    char text[WEFT__SENTENCE_BYTES];
    weft__peer_fate(ctx, rank, text, sizeof text);
    while ((group = newest_with(ctx, rank, than)) != NULL) {
        /* A death all see or are told of by itself.  That a rank is unreachable from here is known here alone, and there: of the
         * two the one tells it that has found it. */
        weft__group_break(group, &(weft__verdict){WEFT_ERR_PEER, 0, rank, text},
                          !weft__is_dead(&ctx->peers[rank]) && !ctx->peers[rank].by_hearsay);
        weft__group_unref(group);
    }
}

void weft__groups_lose(weft_context *ctx, int rank)
{
    break_newer(ctx, rank, NULL);
}

static bool is_dead(const weft_context *ctx, int rank)
{
    return rank >= 0 && weft__is_dead(&ctx->peers[rank]);
}

bool weft__group_is_aborted(const weft_group *group)
{
    return group->cause == WEFT_ERR_CANCELLED && group->broken_number == 0;
}

weft__notice weft__late_abort_notice(const weft_group *group)
{
    weft__notice notice = {.kind = WEFT__NOTICE_BROKEN,
                           .subject = WEFT_ERR_CANCELLED,
                           .group = group->id,
                           .culprit = -1,
                           .knows = 1};
    snprintf(notice.text, sizeof notice.text, "%.*s", (int)sizeof notice.text - 1, group->late_abort);
    return notice;
}

/* The first cause stays, as every later call is told it. */
static void abort_late(weft_group *group, const weft__verdict *v, bool tell)
{
    weft_request *req;
    if (group->late_abort || weft__group_is_aborted(group)) return;
    group->late_abort = strdup(v->why);
    if (!group->late_abort) return; /* no memory: deadlines end them */
    weft__group_ref(group);
    WEFT__EACH_PROTOCOL(group->ctx, p)
    {
        if (p->tell_abort) p->tell_abort(group, tell);
    }
    while ((req = next_to_fail(group, WEFT__COLLECTIVE | WEFT__PAIR)) != NULL) {
        char text[WEFT__SENTENCE_BYTES], name[256];
        weft__request_name(req, name, sizeof name);
        snprintf(text, sizeof text, "%s: %.700s", name, v->why);
        weft__request_fail(req, v->cause, text);
    }
    weft__group_unref(group);
}

static bool is_abort(const weft__verdict *v)
{
    return v->cause == WEFT_ERR_CANCELLED && v->number == 0;
}

void weft__group_break(weft_group *group, const weft__verdict *v, bool tell)
{
    weft_request *req;
    bool first;
    WEFT__ASSERT(weft__holds_engine(group->ctx));
    WEFT__ASSERT(weft__is_failure(v->cause) && v->culprit >= -1 && v->culprit < group->ctx->world_size,
                 v->cause, v->culprit);
    if (v->cause == WEFT_ERR_PEER && is_dead(group->ctx, v->culprit))
        break_newer(group->ctx, v->culprit, group);
    if (atomic_load(&group->state) == WEFT__BROKEN && is_abort(v)) abort_late(group, v, tell);
    if (atomic_load(&group->state) != WEFT__READY) return;
    weft__group_ref(group);
    group->cause = v->cause;
    group->broken_number = v->number;
    group->culprit = v->culprit;
    snprintf(group->why, sizeof group->why, "%s", v->why);
    /* Before anybody sees it broken: who asks why is told where it is recorded; and there it is broken too. */
    first = v->cause != WEFT_ERR_CANCELLED && weft__alarm_dump_soon(group->ctx, v->why);
    weft__group_to(group, WEFT__BROKEN);
    if (first) weft__alarm_dump_now(group->ctx, v->cause == WEFT_ERR_PEER ? WEFT__DUMP_PAUSE_NS : 0);
    group->remembered = group->ctx->aborting; /* the goodbye says it, and who */
    WEFT__EACH_PROTOCOL(group->ctx, p)
    {
        if (tell && group->size > 1 && p->tell_broken) p->tell_broken(group);
    }
    WEFT__EACH_PROTOCOL(group->ctx, p)
    {
        if (p->group_broken) p->group_broken(group);
    }
    /* Always the first again: ending one may end others. */
    while ((req = next_to_fail(group, WEFT__COLLECTIVE |
                                          (weft__group_is_aborted(group) ? WEFT__PAIR : 0u))) != NULL) {
        char text[WEFT__SENTENCE_BYTES];
        weft_status status = weft__broken_text(req, text, sizeof text);
        weft__request_fail(req, status, text);
    }
    weft__group_unref(group);
}
