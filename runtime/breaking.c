/* breaking.c - what ends more than one operation: a collective that fails, members that disagree, a rank that
 * is gone. The first cause is kept and is what every later call is told. */
#include "group.h"
#include "guardian.h"
#include "log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EARLY_BREAKS_MAX 256 /* breaks told of groups that this rank does not know yet */

typedef struct weft__early_break {
    struct weft__early_break *next;
    weft__notice notice;
} weft__early_break;

void weft__member_name(const weft_context *ctx, int rank, char *text, size_t bytes)
{
    const weft__member *m = &ctx->members[rank];
    snprintf(text, bytes, "rank %d (host %s, pid %d)", rank, m->host, (int)m->pid);
}

static void tell_members(weft_group *group, weft_status cause, uint64_t number, const char *why)
{
    weft__notice notice = {.kind = WEFT__NOTICE_BROKEN,
                           .subject = cause,
                           .group = group->id,
                           .number = number};
    snprintf(notice.text, sizeof notice.text, "%.*s", (int)sizeof notice.text - 1, why);
    for (int i = 0; i < group->size; i++)
        if (i != group->rank && !atomic_load(&group->ctx->members[group->world[i]].gone))
            weft__guardian_tell(group->ctx, group->world[i], &notice);
}

/* One that is affected and has not been told yet. */
static weft_request *next_to_fail(weft_group *group)
{
    WEFT__LIST_EACH(&group->ctx->pending, at)
    {
        weft_request *req = WEFT__LIST_ENTRY(at, weft_request, pending);
        if (req->group == group && (weft__kind_traits(req->op.kind) & WEFT__COLLECTIVE) &&
            weft__request_state(req) < WEFT__DRAINING)
            return req;
    }
    return NULL;
}

void weft__group_break(weft_group *group, weft_status cause, uint64_t number, const char *why, bool tell)
{
    weft_request *req;
    bool shared = cause == WEFT_ERR_PEER || cause == WEFT_ERR_MISMATCH || number == 0;
    WEFT__ASSERT(weft__holds_engine(group->ctx));
    if (atomic_load(&group->state) != WEFT__READY) return;
    weft__group_ref(group);
    group->cause = cause;
    snprintf(group->why, sizeof group->why, "%s", why);
    atomic_store_explicit(&group->state, WEFT__BROKEN, memory_order_seq_cst);
    if (tell && group->size > 1) tell_members(group, cause, number, why);
    /* Always the first again: ending one may end others. */
    while ((req = next_to_fail(group)) != NULL) {
        char text[WEFT__SENTENCE_BYTES], name[256];
        bool same = req->sequence == number;
        weft__request_name(req, name, sizeof name);
        if (same && !strncmp(why, weft__kind_name(req->op.kind), strlen(weft__kind_name(req->op.kind))))
            snprintf(text, sizeof text, "%s", why);
        else
            snprintf(text, sizeof text, "%s: %s%.*s", name, same || shared ? "" : "broken by: ", 700, why);
        weft__request_fail(req, same || shared ? cause : WEFT_ERR_BROKEN, text);
    }
    weft__group_unref(group);
}

weft__signature weft__signature_of(const weft_request *req)
{
    return weft__op_sign(&req->op);
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
    weft__group_break(group, WEFT_ERR_MISMATCH, number, text, true);
}

void weft__collective_judge(weft_context *ctx, int peer, const weft__frame *frame)
{
    weft_group *group = weft__group_find(ctx, frame->group);
    weft__signature theirs = {{frame->signature[0], frame->signature[1]}}, mine;
    int member;
    if (!group) return; /* not made here yet, or long gone */
    member = weft__group_member(group, peer);
    /* What has not been started here is judged when it is. */
    if (member >= 0 && frame->sequence <= group->started && frame->sequence + WEFT__RECENT > group->started) {
        mine = group->recent[frame->sequence % WEFT__RECENT];
        if (!weft__same_signature(mine, theirs))
            weft__group_mismatch(group, frame->sequence, mine, member, theirs);
    }
    weft__group_unref(group);
}

/* ---- breaks that were told before the group was ready here ---- */

void weft__break_told(weft_context *ctx, const weft__notice *notice)
{
    weft_group *group = weft__group_find(ctx, notice->group);
    weft__early_break *early;
    int n = 0;
    if (group) {
        weft__group_break(group, (weft_status)notice->subject, notice->number, notice->text, false);
        weft__group_unref(group);
        return;
    }
    for (early = ctx->early_breaks; early; early = early->next) n++;
    early = n < EARLY_BREAKS_MAX ? malloc(sizeof *early) : NULL;
    if (!early) return;
    early->notice = *notice;
    early->next = ctx->early_breaks;
    ctx->early_breaks = early;
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
        weft__group_break(group, (weft_status)early->notice.subject, early->notice.number, early->notice.text,
                          false);
        free(early);
    }
    for (int i = 0; i < group->size; i++) {
        const weft__member *m = &ctx->members[group->world[i]];
        char who[192], text[WEFT__SENTENCE_BYTES];
        if (!atomic_load(&m->gone) || m->left) continue;
        weft__member_name(ctx, group->world[i], who, sizeof who);
        snprintf(text, sizeof text, "%s %s", who, m->why);
        weft__group_break(group, WEFT_ERR_PEER, 0, text, false);
    }
}

void weft__early_breaks_free(weft_context *ctx)
{
    while (ctx->early_breaks) {
        weft__early_break *early = ctx->early_breaks;
        ctx->early_breaks = early->next;
        free(early);
    }
}

/* ---- a rank is gone ---- */

static weft_group *next_with(weft_context *ctx, int rank)
{
    weft_group *found = NULL;
    weft__lock_take(&ctx->groups_lock);
    WEFT__LIST_EACH(&ctx->groups, at)
    {
        weft_group *group = WEFT__LIST_ENTRY(at, weft_group, link);
        uint32_t refs = atomic_load(&group->refs);
        if (atomic_load(&group->state) != WEFT__READY || weft__group_member(group, rank) < 0) continue;
        while (refs && !atomic_compare_exchange_weak(&group->refs, &refs, refs + 1)) {
        }
        if (!refs) continue;
        found = group;
        break;
    }
    weft__lock_drop(&ctx->groups_lock);
    return found;
}

void weft__member_gone(weft_context *ctx, int rank, bool left, const char *why)
{
    weft__member *m = &ctx->members[rank];
    char who[192], text[WEFT__SENTENCE_BYTES];
    weft_group *group;
    WEFT__ASSERT(weft__holds_engine(ctx));
    if (atomic_load(&m->gone) || rank == ctx->rank) return;
    m->left = left;
    snprintf(m->why, sizeof m->why, "%s", why);
    weft__member_name(ctx, rank, who, sizeof who);
    snprintf(text, sizeof text, "%s %s", who, why);
    if (!left) weft__log(WEFT__INFO, "%s", text);
    atomic_store(&m->gone, true);
    if (!left)
        while ((group = next_with(ctx, rank)) != NULL) {
            weft__group_break(group, WEFT_ERR_PEER, 0, text, false);
            weft__group_unref(group);
        }
    weft__mail_drop(ctx->mail, rank);
    weft__form_gone(ctx, rank, text);
}
