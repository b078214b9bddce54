/* breaks.c - what ranks tell each other of broken groups: when one breaks, as telling.h says; and once more before a
 * goodbye, on the channel that the goodbye takes.
 *
 * A goodbye goes over the data plane where two ranks have talked to each other, else by the watchdogs.  Each of these
 * keeps its order, neither waits for the other; and what a third rank tells of a break comes on yet another
 * connection.  So whoever leaves repeats to everybody, ahead of its goodbye, why groups have broken here, also those
 * of which it has only been told, and those that have been freed; and once more to whoever is met only then, and gets a goodbye
 * behind the others.  So what was told is kept until the context ends.  What holds then: who hears that a rank has left
 * knows of each group of theirs that had broken there.  Nobody takes a third rank's word that one has left (act_on). */
#include "breaks.h"
#include "accused.h"
#include "alarm.h"
#include "deaths.h"
#include "engine.h"
#include "group_break.h"
#include "group_telling.h"
#include "peer.h"
#include "protocol.h"
#include "telling.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Words of broken groups that are kept, the last ones: a goodbye is preceded by them.  Where a group is freed or this rank leaves
 * with more of them, the oldest is repeated at once, and a goodbye that somebody gets behind the others goes without it. */
#define PAST_BREAKS_MAX 256

typedef struct past_break {
    struct past_break *next; /* an older one */
    weft__notice notice;
    bool told;         /* those of other hosts, by this rank's watchdog */
    int size, world[]; /* the members that do not show that they know of it */
} past_break;

struct past {
    past_break *newest;
};

static struct past *past_of(const weft_context *ctx)
{
    return ctx->protocol_state[WEFT__PROTOCOL_BREAKS];
}

/* ---- before a goodbye ---- */

static weft_group *next_to_remember(weft_context *ctx)
{
    weft_group *found = NULL;
    weft__lock_take(&ctx->groups_lock);
    WEFT__LIST_EACH(&ctx->groups, at)
    {
        weft_group *group = WEFT__LIST_ENTRY(at, weft_group, link);
        if (atomic_load(&group->state) != WEFT__BROKEN || group->remembered || !weft__group_hold(group))
            continue;
        found = group;
        break;
    }
    weft__lock_drop(&ctx->groups_lock);
    return found;
}

/* told: this rank's watchdog has told it already, and the goodbye that it tells comes behind that.  Where all leave the
 * watchdog tells no goodbye, and so nothing that must come before one. */
static void repeat_to(weft_context *ctx, const weft__notice *notice, bool told, int rank)
{
    if (rank == ctx->rank || weft__is_gone(&ctx->peers[rank])) return;
    if (ctx->peers[rank].local >= 0 && ctx->leaving == WEFT__LEAVES_TOGETHER) return;
    if (weft__peer_reached(ctx, rank))
        weft__p2p_control(ctx->p2p, rank, WEFT__MESSAGE_BROKEN, notice, sizeof *notice);
    else if (!told && ctx->leaving != WEFT__LEAVES_TOGETHER)
        weft__alarm_tell(ctx, rank, notice);
}

static void repeat(weft_context *ctx, const past_break *past)
{
    for (int i = 0; i < past->size; i++) repeat_to(ctx, &past->notice, past->told, past->world[i]);
}

/* One more than are kept.  After the goodbyes nobody waits for its word. */
static void let_oldest_go(weft_context *ctx)
{
    past_break **at = &past_of(ctx)->newest, *oldest;
    for (int n = 0; *at && n < PAST_BREAKS_MAX; n++) at = &(*at)->next;
    oldest = *at;
    if (!oldest) return;
    *at = oldest->next;
    if (!ctx->said_bye) repeat(ctx, oldest);
    free(oldest);
}

static void keep(const weft_group *group, const weft__notice *notice, bool told, bool to_all)
{
    weft_context *ctx = group->ctx;
    past_break *past = malloc(sizeof *past + (size_t)group->size * sizeof *past->world);
    if (past) *past = (past_break){.notice = *notice, .told = told, .next = past_of(ctx)->newest};
    for (int i = 0; i < group->size; i++) {
        if (i == group->rank || (!to_all && weft__group_shown_broken(group, i))) continue;
        if (past)
            past->world[past->size++] = group->world[i];
        else if (!ctx->said_bye)
            repeat_to(ctx, notice, told, group->world[i]);
    }
    if (!past) return;
    if (!past->size) { /* all of them show that they know of it */
        free(past);
        return;
    }
    past_of(ctx)->newest = past;
    let_oldest_go(ctx);
}

/* The newest goes first: that it broke, and then that it was aborted behind that. */
static void remember(weft_group *group)
{
    weft__notice notice;
    WEFT__ASSERT(weft__holds_engine(group->ctx));
    if (atomic_load(&group->state) != WEFT__BROKEN || group->remembered) return;
    group->remembered = true;
    if (group->late_abort) {
        notice = weft__late_abort_notice(group);
        keep(group, &notice, !group->telling_abort.hosts, true);
    }
    notice = weft__break_notice(group);
    keep(group, &notice, group->telling.all, false);
}

void weft__breaks_repeat(weft_context *ctx)
{
    weft_group *group;
    WEFT__ASSERT(weft__holds_engine(ctx));
    (void)weft__telling_check(ctx, WEFT__NEVER); /* what was put off is told now */
    weft__groups_retire(ctx);                    /* that may have held them last */
    while ((group = next_to_remember(ctx)) != NULL) {
        remember(group);
        weft__group_unref(group);
    }
    for (const past_break *past = past_of(ctx)->newest; past; past = past->next) repeat(ctx, past);
}

static bool is_for(const past_break *past, int rank)
{
    for (int i = 0; i < past->size; i++)
        if (past->world[i] == rank) return true;
    return false;
}

/* What went to it by the watchdog is on another way than the goodbye that it gets now. */
static void breaks_late_goodbye(weft_context *ctx, int rank)
{
    for (const past_break *past = past_of(ctx)->newest; past; past = past->next)
        if (is_for(past, rank))
            weft__p2p_control(ctx->p2p, rank, WEFT__MESSAGE_BROKEN, &past->notice, sizeof past->notice);
}

/* ---- what is told ---- */

static void break_as_told(weft_group *group, const weft__notice *notice)
{
    weft__verdict v = {(weft_status)notice->subject, notice->number, notice->culprit, notice->text};
    weft__group_break(group, &v, false);
}

/* A rank that leaves says so itself to whoever it shares memory with or has talked to, and stays until that
 * is answered: taken for gone on another's word before, it would get no answer. */
static bool says_goodbye(const weft_context *ctx, int rank)
{
    return ctx->peers[rank].local >= 0 || weft__p2p_heard(ctx->p2p, rank);
}

/* First, so that whoever sees the group broken can also see who is dead. */
static void act_on_end(weft_context *ctx, const weft__notice *notice, int peer)
{
    if (weft__by_agreement(ctx) && notice->gone == WEFT__PRESUMED_DEAD)
        weft__peer_accused(ctx, notice->culprit, peer, notice->fate);
    else if (notice->gone != WEFT__LEFT)
        weft__peer_gone(ctx, notice->culprit, (weft__gone)notice->gone, true, notice->fate);
    else if (!says_goodbye(ctx, notice->culprit))
        weft__peer_hearsay(ctx, notice->culprit, notice->fate);
}

static bool is_beside(const weft_context *ctx, int rank, int other)
{
    return ctx->peers[rank].first_on_host == ctx->peers[other].first_on_host;
}

int weft__break_passer(const weft_group *group)
{
    const weft_context *ctx = group->ctx;
    int passer = -1;
    if (group->culprit < 0 || atomic_load(&ctx->peers[group->culprit].gone) != WEFT__UNREACHABLE) return -1;
    for (int i = 0; i < group->size; i++) {
        const int rank = group->world[i];
        if (atomic_load(&ctx->peers[rank].gone) != WEFT__LIVES || is_beside(ctx, rank, group->culprit) ||
            is_beside(ctx, rank, ctx->rank))
            continue;
        if (passer < 0 || rank == ctx->peers[group->culprit].heard_by) passer = i;
    }
    return passer;
}

/* Its culprit, and who is on that one's host, cannot be told by who does not reach them: this rank is asked to. */
static void pass_to_culprit(const weft_group *group, const weft__notice *notice)
{
    weft_context *ctx = group->ctx;
    weft__notice passed = *notice;
    passed.knows = 0;
    for (int i = 0; i < group->size; i++)
        if (group->world[i] != ctx->rank && is_beside(ctx, group->world[i], notice->culprit))
            weft__alarm_tell(ctx, group->world[i], &passed);
}

static void act_on(weft_context *ctx, const weft__notice *notice, int peer)
{
    weft_group *group = weft__group_find(ctx, notice->group);
    if (weft__group_answered(group, peer, notice)) {
        if (group) weft__group_unref(group);
        return;
    }
    if (notice->culprit >= 0 && notice->gone > WEFT__UNREACHABLE) act_on_end(ctx, notice, peer);
    if (group) {
        if (notice->gone == WEFT__UNREACHABLE && notice->knows) pass_to_culprit(group, notice);
        break_as_told(group, notice);
        weft__group_told(group, peer, notice);
        weft__group_unref(group);
    } else {
        weft__early_keep(ctx, notice->group, WEFT__MESSAGE_BROKEN, peer, notice, sizeof *notice);
        weft__telling_refuse(ctx, peer, notice);
    }
}

/* Over the data plane, from a rank that is leaving. */
static void breaks_message(weft_context *ctx, int peer, int type, const void *bytes, size_t length)
{
    weft__notice told;
    (void)type;
    if (!weft__notice_read(ctx, peer, bytes, length, &told)) return;
    if (told.kind == WEFT__NOTICE_BROKEN)
        act_on(ctx, &told, peer);
    else
        weft__peer_refused(ctx, peer, "another notice in the place of a broken group");
}

static void breaks_notice(weft_context *ctx, int from, const weft__notice *told)
{
    weft__engine_take(ctx);
    act_on(ctx, told, from);
    weft__engine_drop(ctx);
}

/* ---- a group that has become ready: what was told of it, or is dead, before ---- */

static bool breaks_take_early(void *arg, int peer, const void *bytes)
{
    weft__notice told;
    (void)peer;
    memcpy(&told, bytes, sizeof told);
    break_as_told(arg, &told);
    return true;
}

static void break_by_dead(weft_group *group)
{
    weft_context *ctx = group->ctx;
    for (int i = 0; i < group->size; i++) {
        const weft__peer *m = &ctx->peers[group->world[i]];
        char text[WEFT__SENTENCE_BYTES];
        if (!weft__is_dead(m) && !weft__group_has_strayed(group, i)) continue;
        weft__peer_fate(ctx, group->world[i], text, sizeof text);
        weft__group_break(group, &(weft__verdict){WEFT_ERR_PEER, 0, group->world[i], text},
                          !weft__is_dead(m));
    }
}

static void breaks_group_ready(weft_group *group)
{
    weft_context *ctx = group->ctx;
    char text[WEFT__SENTENCE_BYTES];
    weft__early_offer(ctx, group->id, WEFT__MESSAGE_BROKEN, breaks_take_early, group);
    break_by_dead(group);
    if (!weft__early_has_lost(ctx, group->id)) return;
    snprintf(
        text, sizeof text,
        "group %s: rank %d had no room for what was told of it before it was ready there: %u bytes of such "
        "messages are kept at most",
        group->label, ctx->rank, WEFT__EARLY_BYTES_MOST);
    weft__group_break(group, &(weft__verdict){WEFT_ERR_MEMORY, 0, -1, text}, true);
}

static void breaks_peer_gone(weft_context *ctx, int rank, const char *why)
{
    (void)why;
    weft__deaths_lose(ctx, rank);
}

static weft_status open_breaks(weft_context *ctx)
{
    struct past *past = calloc(1, sizeof *past);
    ctx->protocol_state[WEFT__PROTOCOL_BREAKS] = past;
    return past ? WEFT_OK : weft__fail_memory(sizeof *past, "a context");
}

static void close_breaks(weft_context *ctx)
{
    struct past *past = past_of(ctx);
    while (past && past->newest) {
        past_break *first = past->newest;
        past->newest = first->next;
        free(first);
    }
    free(past);
    weft__deaths_close(ctx);
}

const weft__protocol weft__breaks_protocol = {.name = "breaks",
                                              .first = WEFT__MESSAGE_BROKEN,
                                              .last = WEFT__MESSAGE_BROKEN,
                                              .first_notice = WEFT__NOTICE_BROKEN,
                                              .last_notice = WEFT__NOTICE_BROKEN,
                                              .open = open_breaks,
                                              .close = close_breaks,
                                              .message = breaks_message,
                                              .notice = breaks_notice,
                                              .tell_broken = weft__group_tell_broken,
                                              .tell_abort = weft__group_tell_abort,
                                              .tell_death = weft__deaths_tell,
                                              .peer_gone = breaks_peer_gone,
                                              .late_goodbye = breaks_late_goodbye,
                                              .group_ready = breaks_group_ready,
                                              .group_retired = remember};
