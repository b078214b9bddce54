/* group_telling.c - see group_telling.h. */
#include "group_telling.h"
#include "alarm.h"
#include "breaks.h"
#include "check.h"
#include "engine.h"
#include "group_break.h"
#include "host_tree.h"
#include "peer.h"
#include "telling.h"

#include <string.h>

#define TELL_PERIOD_NS (150 * WEFT__MS)

static const weft__peer *peer_of(const weft_group *group, int member)
{
    return &group->ctx->peers[group->world[member]];
}

/* ---- few hosts ---- */

static void tell_each(weft_group *group, bool elsewhere)
{
    weft__telling *t = &group->telling;
    weft__notice notice = weft__break_notice(group);
    const int passer = weft__break_passer(group);
    t->all = t->all || elsewhere;
    for (int i = 0; i < group->size; i++) {
        const weft__peer *m = peer_of(group, i);
        if (i == group->rank || weft__is_gone(m) || weft__group_shown_broken(group, i)) continue;
        if (elsewhere != (m->local < 0)) continue;
        notice.knows = i == passer ? 1 : 0;
        weft__telling_word(t, i, &notice);
    }
}

/* ---- many ---- */

/* Each of its two tellings. */
static bool has_many_hosts(weft_group *group, weft__telling *t, const weft__notice *notice)
{
    t->ctx = group->ctx;
    t->group = group;
    t->late = t == &group->telling_abort;
    if (t->hosts || group->size <= group->ctx->told_at_once) return t->hosts != NULL;
    return weft__host_tree_made(group) && weft__telling_open(t, notice);
}

static bool break_has_many_hosts(weft_group *group)
{
    const weft__notice notice = weft__break_notice(group);
    return has_many_hosts(group, &group->telling, &notice);
}

/* A member of another host would not hear it by itself of a rank that left, and the rank's own word may be lost.  That
 * others presume somebody dead is theirs to say. */
static weft__notice notice_to_pass(const weft_group *group, const weft__notice *told)
{
    weft__notice notice = weft__break_notice(group);
    if (told && notice.gone == WEFT__PRESUMED_DEAD && weft__by_agreement(group->ctx)) {
        notice.gone = WEFT__LIVES;
        notice.fate[0] = '\0';
    }
    if (told && told->gone == WEFT__LEFT && told->culprit == notice.culprit && notice.gone == WEFT__LIVES) {
        notice.gone = WEFT__LEFT;
        memcpy(notice.fate, told->fate, sizeof notice.fate);
    }
    notice.operation = WEFT__BREAK_PASS;
    return notice;
}

static void tell_passer(weft_group *group)
{
    weft__notice notice = weft__break_notice(group);
    const int passer = weft__break_passer(group);
    if (passer < 0) return;
    notice.operation = WEFT__BREAK_TOLD;
    notice.knows = 1;
    weft__telling_word(&group->telling, passer, &notice);
}

/* ---- when ---- */

/* How long the other hosts are not told yet, as other ranks have the same to tell them (telling.h).  If the one that tells
 * first has died in the middle, that breaks the group everywhere. */
static int64_t tells_after_ns(const weft_group *group, bool many)
{
    int before = 0, periods = 0;
    if (group->cause != WEFT_ERR_TIMEOUT || group->broken_number == 0 ||
        group->broken_number == WEFT__AFTER_ALL)
        return 0;
    for (int i = 0; i < group->rank; i++)
        before += group->reports[i].submitted >= group->broken_number && !weft__is_gone(peer_of(group, i)) &&
                  (!many || peer_of(group, i)->host_lead == peer_of(group, group->rank)->host_lead);
    for (; before; before /= 2) periods++;
    return periods * TELL_PERIOD_NS;
}

static void tell_elsewhere(weft_group *group, bool many)
{
    weft__notice notice;
    if (!many) {
        tell_each(group, true);
        return;
    }
    notice = notice_to_pass(group, NULL);
    weft__telling_along(&group->telling, &notice);
    tell_passer(group);
}

void weft__group_tell_due(weft_group *group)
{
    tell_elsewhere(group, break_has_many_hosts(group));
}

void weft__group_tell_broken(weft_group *group)
{
    const bool many = break_has_many_hosts(group);
    const int64_t after_ns = tells_after_ns(group, many);
    WEFT__ASSERT(weft__holds_engine(group->ctx));
    if (!many)
        tell_each(group, false);
    else if (after_ns)
        weft__telling_mates(&group->telling, weft__break_notice(group), WEFT__BREAK_TOLD);
    if (after_ns)
        weft__telling_put_off(&group->telling, after_ns);
    else
        tell_elsewhere(group, many);
}

/* ---- aborted when it had been broken ---- */

void weft__group_tell_abort(weft_group *group, bool here)
{
    weft_context *ctx = group->ctx;
    weft__notice notice = weft__late_abort_notice(group);
    WEFT__ASSERT(weft__holds_engine(ctx));
    if (here && has_many_hosts(group, &group->telling_abort, &notice)) {
        notice.operation = WEFT__BREAK_PASS;
        weft__telling_along(&group->telling_abort, &notice);
        return;
    }
    for (int i = 1; i < group->size; i++) {
        const int rank = group->world[(group->rank + i) % group->size];
        if (weft__is_gone(&ctx->peers[rank])) continue;
        weft__alarm_tell(ctx, rank, &notice);
        if (!here) return;
    }
}

/* ---- what comes ---- */

/* An abort as it was told, for all are to end alike, the break with what is known of it here. */
static void pass_on(weft_group *group, int from, const weft__notice *told)
{
    const int member = weft__group_member(group, from);
    const bool late = weft__is_late_abort(told);
    const weft__notice notice = late ? *told : notice_to_pass(group, told);
    weft__telling *t = late ? &group->telling_abort : &group->telling;
    if (member < 0 || !has_many_hosts(group, t, &notice)) {
        weft__telling_refuse(group->ctx, from, told);
        return;
    }
    weft__telling_pass_on(t, member, &notice);
    if (!late && group->cause == WEFT_ERR_TIMEOUT)
        weft__telling_sees_to_none(t); /* time is up elsewhere too */
}

void weft__group_told(weft_group *group, int from, const weft__notice *told)
{
    const weft_context *ctx = group->ctx;
    const bool elsewhere =
        ctx->peers[from].local < 0 && ctx->peers[from].host_lead != ctx->peers[ctx->rank].host_lead;
    WEFT__ASSERT(weft__holds_engine(ctx));
    if (!weft__is_late_abort(told) && group->telling.put_off_ns &&
        (elsewhere || told->operation == WEFT__BREAK_COVERS))
        weft__telling_put_off_no_more(&group->telling);
    if (told->operation == WEFT__BREAK_PASS) pass_on(group, from, told);
}

bool weft__group_answered(weft_group *group, int from, const weft__notice *told)
{
    if (told->operation < WEFT__BREAK_PASSED) return false;
    if (group)
        weft__telling_take_answer(weft__is_late_abort(told) ? &group->telling_abort : &group->telling, from,
                                  told);
    return true;
}
