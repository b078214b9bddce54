/* breaking.c - what ends more than one operation: a collective that fails, members that disagree.  The first
 * cause is kept and is what every later call is told. */
#include "breaking.h"
#include "alarm.h"
#include "device.h"
#include "engine.h"
#include "events.h"
#include "executor.h"
#include "group.h"
#include "member.h"
#include "reserve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EARLY_BREAKS_MAX 256 /* breaks told of groups that this rank does not know yet */
#define PAST_BREAKS_MAX  256 /* broken groups that were freed, of which a goodbye is preceded by a word */

typedef struct weft__early_break {
    struct weft__early_break *next;
    weft__notice notice;
} weft__early_break;

struct weft__past_break {
    struct weft__past_break *next; /* an older one */
    weft__notice notice;
    int size, world[]; /* the members that it is told to */
};

static weft__notice notice_of(const weft_group *group)
{
    weft__notice notice = {.kind = WEFT__NOTICE_BROKEN,
                           .subject = group->cause,
                           .group = group->id,
                           .number = group->broken_number,
                           .culprit = group->culprit};
    snprintf(notice.text, sizeof notice.text, "%.*s", (int)sizeof notice.text - 1, group->why);
    if (group->culprit >= 0 && atomic_load(&group->ctx->members[group->culprit].gone)) {
        const weft__member *m = &group->ctx->members[group->culprit];
        notice.left = m->left;
        snprintf(notice.fate, sizeof notice.fate, "%.150s", m->why);
    }
    return notice;
}

static void tell_members(const weft_group *group)
{
    weft__notice notice = notice_of(group);
    for (int i = 0; i < group->size; i++)
        if (i != group->rank && !atomic_load(&group->ctx->members[group->world[i]].gone))
            weft__alarm_tell(group->ctx, group->world[i], &notice);
}

static weft_group *next_to_repeat(weft_context *ctx)
{
    weft_group *found = NULL;
    weft__lock_take(&ctx->groups_lock);
    WEFT__LIST_EACH(&ctx->groups, at)
    {
        weft_group *group = WEFT__LIST_ENTRY(at, weft_group, link);
        if (atomic_load(&group->state) != WEFT__BROKEN || group->repeated || !weft__group_hold(group))
            continue;
        found = group;
        break;
    }
    weft__lock_drop(&ctx->groups_lock);
    return found;
}

/* Over the data plane, where a goodbye goes too and would overtake what the guardian tells. */
static void repeat_to(weft_context *ctx, const weft__notice *notice, const int *world, int size)
{
    for (int i = 0; i < size; i++)
        if (world[i] != ctx->rank && !atomic_load(&ctx->members[world[i]].gone) &&
            weft__member_reached(ctx, world[i]))
            weft__mail_control(ctx->mail, world[i], WEFT__MESSAGE_BROKEN, notice, sizeof *notice);
}

static void repeat_group(weft_group *group)
{
    weft__notice notice = notice_of(group);
    group->repeated = true;
    repeat_to(group->ctx, &notice, group->world, group->size);
}

/* Takes it out. */
static void repeat_past(weft_context *ctx, struct weft__past_break **at)
{
    struct weft__past_break *past = *at;
    *at = past->next;
    repeat_to(ctx, &past->notice, past->world, past->size);
    free(past);
}

void weft__break_remember(weft_group *group)
{
    weft_context *ctx = group->ctx;
    struct weft__past_break **at = &ctx->past_breaks, *past;
    WEFT__ASSERT(weft__holds_engine(ctx));
    if (atomic_load(&group->state) != WEFT__BROKEN || group->repeated || ctx->said_bye) return;
    past = malloc(sizeof *past + (size_t)group->size * sizeof *past->world);
    if (!past) {
        repeat_group(group);
        return;
    }
    past->notice = notice_of(group);
    past->size = group->size;
    memcpy(past->world, group->world, (size_t)group->size * sizeof *past->world);
    past->next = ctx->past_breaks;
    ctx->past_breaks = past;
    for (int n = 0; *at && n < PAST_BREAKS_MAX; n++) at = &(*at)->next;
    if (*at) repeat_past(ctx, at);
}

void weft__breaks_repeat(weft_context *ctx)
{
    weft_group *group;
    WEFT__ASSERT(weft__holds_engine(ctx));
    while (ctx->past_breaks) repeat_past(ctx, &ctx->past_breaks);
    while ((group = next_to_repeat(ctx)) != NULL) {
        repeat_group(group);
        weft__group_unref(group);
    }
}

/* A message on device memory that has met nobody.  One that has goes on, on a communicator of its own. */
static bool ends_alone(const weft_request *req)
{
    return req->executor->traits & WEFT__ENDS_WITH_GROUP && weft__kind_traits(req->op.kind) & WEFT__PAIR &&
           !req->executor->has_met(req);
}

/* One that is affected and has not been told yet. */
static weft_request *next_to_fail(weft_group *group, unsigned traits)
{
    WEFT__LIST_EACH(&group->ctx->pending, at)
    {
        weft_request *req = WEFT__LIST_ENTRY(at, weft_request, pending);
        if (req->group == group && weft__request_state(req) < WEFT__DRAINING &&
            ((weft__kind_traits(req->op.kind) & traits) || ends_alone(req)))
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
    weft__member_fate(ctx, rank, text, sizeof text);
    while ((group = newest_with(ctx, rank, than)) != NULL) {
        weft__group_break(group, &(weft__verdict){WEFT_ERR_PEER, 0, rank, text}, false);
        weft__group_unref(group);
    }
}

void weft__groups_lose(weft_context *ctx, int rank)
{
    break_newer(ctx, rank, NULL);
}

static bool is_dead(const weft_context *ctx, int rank)
{
    return rank >= 0 && atomic_load(&ctx->members[rank].gone) && !ctx->members[rank].left;
}

void weft__group_break(weft_group *group, const weft__verdict *v, bool tell)
{
    weft_request *req;
    bool aborted = v->cause == WEFT_ERR_CANCELLED && v->number == 0; /* messages end too */
    WEFT__ASSERT(weft__holds_engine(group->ctx));
    if (v->cause == WEFT_ERR_PEER && is_dead(group->ctx, v->culprit))
        break_newer(group->ctx, v->culprit, group);
    if (atomic_load(&group->state) != WEFT__READY) return;
    weft__group_ref(group);
    group->cause = v->cause;
    group->broken_number = v->number;
    group->culprit = v->culprit;
    snprintf(group->why, sizeof group->why, "%s", v->why);
    atomic_store_explicit(&group->state, WEFT__BROKEN, memory_order_seq_cst);
    if (tell && group->size > 1) tell_members(group);
    weft__tokens_drop(group);
    if (group->link_on_device) weft__link_doom(group->link_on_device, v->cause, v->why);
    /* Always the first again: ending one may end others. */
    while ((req = next_to_fail(group, WEFT__COLLECTIVE | (aborted ? WEFT__PAIR : 0u))) != NULL) {
        char text[WEFT__SENTENCE_BYTES];
        weft_status status = weft__broken_text(req, text, sizeof text);
        weft__request_fail(req, status, text);
    }
    weft__group_unref(group);
}

void weft__group_mismatch(weft_group *group, uint64_t number, weft__signature mine, int member,
                          weft__signature theirs)
{
    char a[128], b[128], text[WEFT__SENTENCE_BYTES];
    int low = group->rank < member ? group->rank : member, high = group->rank < member ? member : group->rank;
    weft__signature_text(group->rank < member ? mine : theirs, a, sizeof a);
    weft__signature_text(group->rank < member ? theirs : mine, b, sizeof b);
    snprintf(text, sizeof text, "operation #%llu on group %s: rank %d passed %s, rank %d passed %s",
             (unsigned long long)number, group->label, group->world[low], a, group->world[high], b);
    weft__group_break(group, &(weft__verdict){WEFT_ERR_MISMATCH, number, -1, text}, true);
}

bool weft__collective_judge(weft_context *ctx, int peer, const weft__frame *frame)
{
    weft_group *group = weft__group_find(ctx, frame->group);
    weft__signature theirs = {{frame->signature[0], frame->signature[1]}};
    const weft__signature *mine;
    bool awaited, same;
    int member;
    if (!group) return false; /* not made here yet, or long gone */
    member = weft__group_member(group, peer);
    mine = weft__token_awaited(group, member, frame->sequence);
    awaited = mine != NULL;
    /* What has not been started here is judged when it is. */
    if (!mine && member >= 0 && frame->sequence <= group->started &&
        frame->sequence + WEFT__RECENT > group->started)
        mine = &group->recent[frame->sequence % WEFT__RECENT];
    same = !mine || weft__same_signature(*mine, theirs);
    awaited = awaited && same && frame->flags & WEFT__FRAME_TOKEN;
    if (!same)
        weft__group_mismatch(group, frame->sequence, *mine, member, theirs);
    else if (awaited)
        weft__token_came(group, frame->sequence);
    weft__group_unref(group);
    return awaited;
}

/* A message that was here first means something else? */
static void judge_early(void *arg, int peer, const weft__frame *frame)
{
    weft_request *req = arg;
    weft__signature mine = req->signature, theirs = {{frame->signature[0], frame->signature[1]}};
    int member = weft__group_member(req->group, peer);
    if (weft__request_state(req) >= WEFT__DRAINING || member < 0) return;
    if (!weft__same_signature(mine, theirs))
        weft__group_mismatch(req->group, req->sequence, mine, member, theirs);
}

void weft__early_judge(weft_request *req)
{
    weft__mail_peek(req->ctx->mail, req->group->id, req->sequence, judge_early, req);
}

/* ---- breaks that were told before the group was ready here ---- */

static void break_as_told(weft_group *group, const weft__notice *notice)
{
    weft__verdict v = {(weft_status)notice->subject, notice->number, notice->culprit, notice->text};
    weft__group_break(group, &v, false);
}

/* A rank that leaves says so itself to whoever it shares memory with or has talked to, and stays until that
 * is answered: taken for gone on another's word before, it would get no answer. */
static bool says_goodbye(const weft_context *ctx, int rank)
{
    return ctx->members[rank].local >= 0 || weft__mail_heard(ctx->mail, rank);
}

void weft__break_told(weft_context *ctx, const weft__notice *notice)
{
    weft_group *group = weft__group_find(ctx, notice->group);
    weft__early_break **at = &ctx->early_breaks, *early;
    /* First, so that whoever sees the group broken can also see who is dead. */
    if (notice->culprit >= 0 && notice->culprit < ctx->world_size && *notice->fate &&
        !(notice->left && says_goodbye(ctx, notice->culprit)))
        weft__member_gone(ctx, notice->culprit, notice->left ? WEFT__LEFT : WEFT__REPORTED, notice->fate);
    if (group) {
        break_as_told(group, notice);
        weft__group_unref(group);
        return;
    }
    early = weft__reserve_get(sizeof *early);
    if (!early) return;
    early->notice = *notice;
    early->next = ctx->early_breaks;
    ctx->early_breaks = early;
    /* Also told of groups that are long gone here: the oldest make room. */
    for (int n = 0; *at && n < EARLY_BREAKS_MAX; n++) at = &(*at)->next;
    weft__reserve_give(*at);
    *at = NULL;
}

void weft__early_breaks_apply(weft_group *group)
{
    weft_context *ctx = group->ctx;
    weft__early_break **at = &ctx->early_breaks;
    while (*at) {
        weft__early_break *early = *at;
        if (early->notice.group != group->id) {
            at = &early->next;
            continue;
        }
        *at = early->next;
        break_as_told(group, &early->notice);
        weft__reserve_give(early);
    }
    for (int i = 0; i < group->size; i++) {
        const weft__member *m = &ctx->members[group->world[i]];
        char text[WEFT__SENTENCE_BYTES];
        if (!atomic_load(&m->gone) || m->left) continue;
        weft__member_fate(ctx, group->world[i], text, sizeof text);
        weft__group_break(group, &(weft__verdict){WEFT_ERR_PEER, 0, group->world[i], text}, false);
    }
}

void weft__breaks_free(weft_context *ctx)
{
    while (ctx->early_breaks) {
        weft__early_break *early = ctx->early_breaks;
        ctx->early_breaks = early->next;
        weft__reserve_give(early);
    }
    while (ctx->past_breaks) {
        struct weft__past_break *past = ctx->past_breaks;
        ctx->past_breaks = past->next;
        free(past);
    }
}
