/* shrink.c - shrink_group: the living members of a group agree on the group of the living.
 *
 * The lead is the lowest member that lives in one's own view.  Members tell it that they join, and tell the next one when
 * it is gone; where hosts are many by way of others (shrink_joins.h).  Once every member that lives in its view has joined
 * it, the lead gives the group its number and tells all (READY); each of them holds that and says so (STORED); once all that
 * live hold it the group is made, here and by DONE at all others.  Where hosts are many READY, DONE and FAILED go by others,
 * which count who holds the group, in place of STORED (spreading.h).  An attempt is known by the group and by how often each
 * member has shrunk it.
 *
 * Why no two groups of one attempt, with WEFT_OK, whoever of them is gone by then: a member holds the first group that it
 * is told of, hands it to a later lead in place of joining, and takes no other.  A lead makes its group only when all that
 * live hold it; so a later lead, which is one of these, has none but that.  Where who is gone is only presumed dead a view
 * has left it out before (views.md), and two views have one inside of the other.  What a rank sent before its end and has
 * come is taken as it is counted as gone, in the middle of whatever this rank does then; nothing of it comes later: what others
 * bring of it is not heard then (spreading.h), which pass on READY and DONE where hosts are many.
 *
 * Failing: a member whose time is up tells the lead, who ends the attempt for all as long as the group is not made; that
 * verdict is kept like the other one, so a late caller learns of it at once. A rank that left counts as not living. */
#include "shrink.h"
#include "accused.h"
#include "engine.h"
#include "group.h"
#include "group_break.h"
#include "membership.h"
#include "peer.h"
#include "protocol.h"
#include "reserve.h"
#include "shrink_joins.h"
#include "spreading.h"
#include "submit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef weft__shrink_attempt attempt;

/* ---- messages ---- */

static weft__shrink_message *new_message(const weft_context *ctx, const attempt *a, int sets,
                                         const char *text)
{
    weft__shrink_message *m = weft__shrink_message_new(ctx, sets, text);
    if (!m) return NULL;
    m->group = a->group;
    m->occurrence = a->occurrence;
    m->size = (uint32_t)a->size;
    memcpy(weft__shrink_set(ctx, m, WEFT__SHRINK_MEMBERS), a->members, weft__set_bytes(ctx->world_size));
    return m;
}

static void send(weft_context *ctx, int to, int type, const weft__shrink_message *m)
{
    weft__p2p_control(ctx->p2p, to, type, m, weft__shrink_message_bytes(m));
}

/* text: why it fails, or NULL. */
static void send_small(weft_context *ctx, const attempt *a, int to, int type, weft_status status,
                       const char *text)
{
    weft__shrink_message *m = new_message(ctx, a, WEFT__SHRINK_MEMBERS + 1, text);
    if (!m) return;
    if (a->verdict) m->id = a->verdict->id;
    m->status = status;
    send(ctx, to, type, m);
    weft__reserve_give(m);
}

static int verdict_type(const attempt *a)
{
    static const int types[] = {[WEFT__SHRINK_HELD] = WEFT__MESSAGE_SHRINK_READY,
                                [WEFT__SHRINK_SETTLED] = WEFT__MESSAGE_SHRINK_DONE,
                                [WEFT__SHRINK_FAILED] = WEFT__MESSAGE_SHRINK_FAILED};
    WEFT__ASSERT(a->verdict && a->state != WEFT__SHRINK_GATHERING, a->state);
    return types[a->state];
}

/* As far as this rank knows it. */
static void send_verdict(weft_context *ctx, const attempt *a, int to)
{
    send(ctx, to, verdict_type(a), a->verdict);
}

/* All that live are told; of a failure who has joined this rank, or holds the group by its word, and so may take it for the
 * lead. */
static bool is_told(const attempt *a, int member)
{
    return a->state != WEFT__SHRINK_FAILED || a->joined[member] || a->stored[member];
}

/* By way of others.  Of a copy: what sending finds out may end the attempt. */
static bool spread_verdict(weft_context *ctx, const attempt *a)
{
    unsigned char *set = weft__reserve_zeroed(weft__set_bytes(ctx->world_size));
    weft__shrink_message *m =
        set && weft__shrink_are_many(ctx, a, set) ? weft__shrink_copy(a->verdict) : NULL;
    const bool spreads = m != NULL;
    for (int i = 0; spreads && i < a->size; i++)
        if (!is_told(a, i)) weft__set_remove(set, a->world[i]);
    if (spreads) weft__spread(ctx, verdict_type(a), m, weft__shrink_message_bytes(m), set);
    weft__reserve_give(set);
    weft__reserve_give(m);
    return spreads;
}

static void tell_others(weft_context *ctx, const attempt *a)
{
    if (spread_verdict(ctx, a)) return;
    for (int i = 0; i < a->size; i++)
        if (a->world[i] != ctx->rank && weft__shrink_lives(ctx, a, i) && is_told(a, i))
            send_verdict(ctx, a, a->world[i]);
}

/* ---- the verdict ---- */

/* In the order of the group that shrinks. */
static void take_survivors(const weft_request *req, const unsigned char *survivors)
{
    weft_group *group = req->u.creation->group;
    int n = 0;
    for (int i = 0; i < req->group->size; i++)
        if (weft__set_has(survivors, req->group->world[i])) group->world[n++] = req->group->world[i];
    weft__group_create_members(group, n);
}

/* This rank's request ends as the verdict says. */
static void obey(weft_context *ctx, attempt *a)
{
    weft_request *req = weft__shrink_request_of(ctx, a);
    const weft__shrink_message *m = a->verdict;
    WEFT__ASSERT(m && a->state != WEFT__SHRINK_GATHERING, a->state);
    if (!req) return;
    if (a->state == WEFT__SHRINK_FAILED) {
        weft__group_create_fail(req, (weft_status)m->status, -1, weft__shrink_text(ctx, m));
        return;
    }
    take_survivors(req, weft__shrink_told(ctx, m, WEFT__SHRINK_SURVIVORS));
    req->u.creation->group->strays = a->strays;
    if (req->u.creation->group->rank >= 0)
        weft__group_create_ready(req, m->id, &m->params);
    else
        weft__group_create_fail(req, WEFT_ERR_PEER, -1, "the others took this rank for dead");
}

/* Takes m over. */
static void know(const weft_context *ctx, attempt *a, weft__shrink_state state, weft__shrink_message *m)
{
    a->strays = atomic_load(&ctx->strays);
    weft__reserve_give(a->verdict);
    a->verdict = m;
    weft__shrink_to(a, state);
}

/* Who has joined this rank is told: this rank may not know yet that it is the lead, because it has not heard of the end of
 * the one before. */
static void fail_with(weft_context *ctx, attempt *a, weft__shrink_message *m)
{
    know(ctx, a, WEFT__SHRINK_FAILED, m);
    tell_others(ctx, a);
    obey(ctx, a);
}

static void fail_attempt(weft_context *ctx, attempt *a, weft_status status, const char *text)
{
    weft__shrink_message *m = new_message(ctx, a, WEFT__SHRINK_MEMBERS + 1, text);
    if (!m) return; /* the members' grace runs out */
    m->status = status;
    fail_with(ctx, a, m);
}

static void make(weft_context *ctx, attempt *a)
{
    weft__shrink_to(a, WEFT__SHRINK_SETTLED);
    obey(ctx, a);
}

/* Has everybody come to this rank, the lead, and is it known which of two that have lost each other is left out? */
static void shrink_decide(weft_context *ctx, attempt *a)
{
    weft__shrink_message *m;
    for (int i = 0; i < a->size; i++) {
        if (weft__shrink_lives(ctx, a, i) &&
            (!weft__shrink_has_joined(ctx, a, i) || weft__peer_is_accused(ctx, a->world[i])))
            return;
    }
    if (!weft__membership_agrees(ctx, a->world, a->size)) return;
    m = new_message(ctx, a, WEFT__SHRINK_SETS, NULL);
    if (!m) {
        fail_attempt(ctx, a, WEFT_ERR_MEMORY, "no memory at the lowest living member");
        return;
    }
    m->id = weft__group_ids(ctx, 1);
    m->params = weft__own_params(ctx);
    m->params.program = true; /* unless one of those who joined, this rank among them, does not ask for it */
    for (int i = 0; i < a->size; i++) {
        if (!weft__shrink_lives(ctx, a, i)) continue;
        weft__set_add(weft__shrink_set(ctx, m, WEFT__SHRINK_SURVIVORS), a->world[i]);
        weft__group_params_merge(&m->params, &a->tables[i]);
    }
    weft__shrink_mark_gone(ctx, m, WEFT__LEFT, WEFT__SHRINK_LEFT);
    weft__shrink_mark_gone(ctx, m, WEFT__PRESUMED_DEAD, WEFT__SHRINK_PRESUMED);
    weft__shrink_mark_gone(ctx, m, WEFT__DIED, WEFT__SHRINK_DIED);
    know(ctx, a, WEFT__SHRINK_HELD, m);
    tell_others(ctx, a);
}

/* Does everybody hold what this rank, the lead, does? */
static void shrink_settle(weft_context *ctx, attempt *a)
{
    for (int i = 0; i < a->size; i++)
        if (a->world[i] != ctx->rank && weft__shrink_lives(ctx, a, i) && !a->stored[i]) return;
    if (!weft__membership_agrees(ctx, a->world, a->size)) return;
    weft__shrink_to(a, WEFT__SHRINK_SETTLED);
    tell_others(ctx, a);
    obey(ctx, a);
}

static void shrink_go_on(weft_context *ctx, attempt *a)
{
    if (weft__shrink_lead(ctx, a) == ctx->rank && a->state == WEFT__SHRINK_GATHERING) shrink_decide(ctx, a);
    if (weft__shrink_lead(ctx, a) == ctx->rank && a->state == WEFT__SHRINK_HELD) shrink_settle(ctx, a);
}

/* ---- what comes in ---- */

static void take_accusations(weft_context *ctx, int by, const unsigned char *lost)
{
    for (int rank = weft__set_next(lost, 0, ctx->world_size); rank >= 0;
         rank = weft__set_next(lost, rank + 1, ctx->world_size))
        weft__peer_accused_in_join(ctx, rank, by, "is lost to another rank");
}

/* As if that one had said so itself. */
static void joins_this(weft_context *ctx, attempt *a, int rank, const weft__shrink_message *m)
{
    const int member = weft__shrink_member(a, rank);
    a->joined[member] = true;
    a->tables[member] = m->params;
    if (weft__by_agreement(ctx)) take_accusations(ctx, rank, weft__shrink_told(ctx, m, WEFT__SHRINK_LOST));
    if (a->verdict) send_verdict(ctx, a, rank);
}

static void on_join(weft_context *ctx, attempt *a, int peer, const weft__shrink_message *m)
{
    const unsigned char *joined = weft__shrink_told(ctx, m, WEFT__SHRINK_JOINED);
    if (m->lead != ctx->rank) {
        weft__shrink_pass_join(ctx, a, m);
        return;
    }
    for (int rank = weft__set_next(joined, 0, ctx->world_size); rank >= 0;
         rank = weft__set_next(joined, rank + 1, ctx->world_size)) {
        a->by_others = a->by_others || rank != peer;
        joins_this(ctx, a, rank, m);
    }
    if (!a->verdict) shrink_go_on(ctx, a);
}

static void on_stored(weft_context *ctx, attempt *a, int member, const weft__shrink_message *m)
{
    if (a->state == WEFT__SHRINK_FAILED)
        send_verdict(ctx, a, a->world[member]); /* it holds what there is no more */
    if (a->state != WEFT__SHRINK_HELD || a->verdict->id != m->id) return;
    a->stored[member] = true;
    shrink_go_on(ctx, a);
}

static void on_expired(weft_context *ctx, attempt *a, int from, const weft__shrink_message *m)
{
    char text[WEFT__GROUP_CREATE_TEXT];
    bool by_others;
    if (weft__shrink_is_over(a)) { /* another lead may have told that, and not this member */
        send_verdict(ctx, a, from);
        return;
    }
    snprintf(text, sizeof text, "%s", weft__shrink_text(ctx, m));
    by_others = weft__shrink_go_by_others(ctx, a); /* then one of these may keep the words of the rest */
    for (int i = 0; i < a->size && a->state == WEFT__SHRINK_GATHERING; i++)
        if (!weft__shrink_has_joined(ctx, a, i) && weft__shrink_lives(ctx, a, i))
            weft__group_create_missing(ctx, a->world[i], by_others, text, sizeof text);
    fail_attempt(ctx, a, (weft_status)m->status, text);
}

static void on_failed(weft_context *ctx, attempt *a, const weft__shrink_message *m)
{
    weft__shrink_message *copy = weft__shrink_is_over(a) ? NULL : weft__shrink_copy(m);
    if (copy) fail_with(ctx, a, copy);
}

/* Where others have passed it on they say who holds it (spreading.h), and not who holds what is as good. */
static void answer_ready(weft_context *ctx, const attempt *a, int from, bool by_others)
{
    if (a->state == WEFT__SHRINK_FAILED || (a->state == WEFT__SHRINK_SETTLED && !by_others))
        send_verdict(ctx, a, from);
    else if (!by_others)
        send_small(ctx, a, from, WEFT__MESSAGE_SHRINK_STORED, WEFT_OK, NULL);
}

/* READY or DONE, from the lead or from a member that held it already. */
static void on_verdict(weft_context *ctx, attempt *a, int from, int type, const weft__shrink_message *m,
                       bool by_others)
{
    weft__shrink_message *copy = a->state == WEFT__SHRINK_GATHERING ? weft__shrink_copy(m) : NULL;
    bool is_first = copy != NULL, is_made;
    if (is_first) {
        know(ctx, a, WEFT__SHRINK_HELD, copy);
        /* Not of the copy, which goes where what one of the gone had still sent ends the attempt. */
        weft__shrink_believe(ctx, m);
    }
    if (a->state == WEFT__SHRINK_GATHERING || (a->state != WEFT__SHRINK_FAILED && a->verdict->id != m->id))
        return;
    a->stored[weft__shrink_member(a, from)] = true;
    is_made = a->state == WEFT__SHRINK_HELD && type == WEFT__MESSAGE_SHRINK_DONE;
    if (is_made)
        make(ctx, a);
    else if (type == WEFT__MESSAGE_SHRINK_READY)
        answer_ready(ctx, a, from, by_others);
    if ((is_first || is_made) && weft__shrink_lead(ctx, a) == ctx->rank) tell_others(ctx, a);
    shrink_go_on(ctx, a);
}

static void hear(weft_context *ctx, attempt *a, int peer, int type, const weft__shrink_message *m,
                 bool by_others)
{
    switch (type) {
    case WEFT__MESSAGE_SHRINK_JOIN: on_join(ctx, a, peer, m); break;
    case WEFT__MESSAGE_SHRINK_STORED: on_stored(ctx, a, weft__shrink_member(a, peer), m); break;
    case WEFT__MESSAGE_SHRINK_EXPIRED: on_expired(ctx, a, peer, m); break;
    case WEFT__MESSAGE_SHRINK_FAILED: on_failed(ctx, a, m); break;
    default: on_verdict(ctx, a, peer, type, m, by_others);
    }
}

static bool holds(weft_context *ctx, const weft__shrink_message *m)
{
    const attempt *a = weft__shrink_find(ctx, m->group, m->occurrence);
    return a && (a->state == WEFT__SHRINK_HELD || a->state == WEFT__SHRINK_SETTLED) &&
           a->verdict->id == m->id;
}

/* Does this rank hold the group that it says, if it says one? */
static bool take(weft_context *ctx, int peer, int type, const void *bytes, size_t length, bool by_others)
{
    weft__shrink_message *m = weft__shrink_message_take(ctx, peer, type, bytes, length);
    attempt *a = NULL;
    bool is_held;
    if (m)
        a = weft__shrink_attempt_for(ctx, m->group, m->occurrence,
                                     weft__shrink_told(ctx, m, WEFT__SHRINK_MEMBERS));
    if (a)
        hear(ctx, a, peer, type, m, by_others);
    else if (m)
        weft__peer_refused(ctx, peer, "a group that shrinks has other members for others, or no memory here");
    is_held = m && holds(ctx, m);
    weft__reserve_give(m);
    return is_held;
}

static void shrink_take_message(weft_context *ctx, int peer, int type, const void *bytes, size_t length)
{
    (void)take(ctx, peer, type, bytes, length, false);
}

bool weft__shrink_takes(weft_context *ctx, int lead, int type, const void *bytes, size_t length)
{
    return take(ctx, lead, type, bytes, length, true);
}

void weft__shrink_held(weft_context *ctx, const void *word, const unsigned char *ranks)
{
    weft__shrink_message m; /* what stands in a word is not aligned */
    attempt *a;
    memcpy(&m, word, sizeof m);
    a = weft__shrink_find(ctx, m.group, m.occurrence);
    if (!a || a->state != WEFT__SHRINK_HELD || a->verdict->id != m.id) return;
    for (int i = 0; i < a->size; i++)
        if (weft__set_has(ranks, a->world[i])) a->stored[i] = true;
    shrink_go_on(ctx, a);
}

/* ---- this rank's request ---- */

static void give_up(weft_request *req)
{
    attempt *a = weft__shrink_attempt_of(req);
    weft__group_create *f = req->u.creation;
    weft_context *ctx = req->ctx;
    char text[WEFT__SENTENCE_BYTES];
    if (f->gave_up == WEFT_ERR_TIMEOUT &&
        weft__membership_is_stuck(ctx, req->group->world, req->group->size, text, sizeof text)) {
        f->gave_up = WEFT_ERR_PEER;
        snprintf(f->text, sizeof f->text, "%.*s", (int)sizeof f->text - 1, text);
    }
    if (!a) return;
    weft__shrink_name(ctx, a);
    if (weft__shrink_request_of(ctx, a) == req) /* or it has ended, as sending found somebody gone */
        send_small(ctx, a, f->lead, WEFT__MESSAGE_SHRINK_EXPIRED, f->gave_up, f->text);
}

/* May end the request. */
static void join(weft_request *req, attempt *a)
{
    weft_context *ctx = req->ctx;
    bool late = req->u.creation->gave_up != WEFT_OK;
    req->u.creation->lead = weft__shrink_lead(ctx, a);
    if (a->state == WEFT__SHRINK_GATHERING)
        weft__shrink_join(ctx, a, req->u.creation->lead, req->u.creation->group->asks_for_program,
                          req->deadline_ns);
    if (late && weft__shrink_request_of(ctx, a)) give_up(req); /* what the lead before was told */
}

/* Two ranks that do not reach each other cannot be in one group: such a member is presumed dead here, and what follows says
 * which of the two goes (views.md).  Not by a rank that has only been told of it, before the other one does that
 * (weft__peer_told_presumed): the two may meet again.  Where there are no views nothing else would end that. */
static void give_up_unreachable(const weft_group *group)
{
    weft_context *ctx = group->ctx;
    for (int i = 0; i < group->size; i++) {
        const weft__peer *m = &ctx->peers[group->world[i]];
        char why[sizeof m->why];
        if (atomic_load(&m->gone) != WEFT__UNREACHABLE || (m->by_hearsay && weft__by_agreement(ctx)))
            continue;
        snprintf(why, sizeof why, "%s", m->why);
        weft__peer_gone(ctx, group->world[i], WEFT__PRESUMED_DEAD, false, why);
    }
}

static void shrink_start(weft_request *req)
{
    weft_context *ctx = req->ctx;
    weft_group *group = req->group;
    attempt *a;
    char text[128], why[WEFT__SENTENCE_BYTES];
    give_up_unreachable(group); /* before this request is known to any attempt */
    req->algorithm = "lead";
    req->sequence = ++group->shrinks;
    snprintf(text, sizeof text, "rank %d shrinks the group", ctx->rank);
    weft__group_break(group, &(weft__verdict){WEFT_ERR_CANCELLED, WEFT__AFTER_ALL, -1, text}, true);
    a = weft__shrink_attempt_of(req);
    if (!a) {
        weft__group_create_fail(req, WEFT_ERR_MEMORY, -1, "no memory for an attempt");
        return;
    }
    if (weft__membership_is_out(ctx, why, sizeof why)) {
        weft__group_create_fail(req, WEFT_ERR_PEER, -1, why);
        return;
    }
    if (weft__shrink_is_over(a))
        obey(ctx, a);
    else
        join(req, a);
}

/* ---- ranks that end ---- */

/* To the lead after the one that has gone, which may not know it; or to the others, where this rank is that.  Where all
 * leave nobody waits for it any more; and then one lead after the other goes, so that each rank would connect to each. */
static void hand_on(weft_context *ctx, attempt *a, int lead)
{
    a->put_off = ctx->leaving == WEFT__ASKS;
    if (ctx->leaving == WEFT__ASKS || ctx->leaving == WEFT__LEAVES_TOGETHER) return;
    if (lead == ctx->rank)
        tell_others(ctx, a);
    else
        send_verdict(ctx, a, lead);
}

static void shrink_leaves_alone(weft_context *ctx)
{
    WEFT__LIST_EACH(weft__shrink_attempts(ctx), at)
    {
        attempt *a = WEFT__LIST_ENTRY(at, attempt, link);
        if (a->put_off) hand_on(ctx, a, weft__shrink_lead(ctx, a));
    }
}

/* There is another lead: it is told what this rank knows of the attempt, as the last one may have told this rank alone. */
static void turn_to(weft_context *ctx, attempt *a, int lead)
{
    weft_request *req;
    if (a->verdict) hand_on(ctx, a, lead);
    req =
        weft__shrink_request_of(ctx,
                                a); /* not before: sending may find that lead gone too, and end the attempt */
    if (req) join(req, a);
}

static void shrink_peer_gone(weft_context *ctx, int rank, const char *why)
{
    (void)why; /* whoever is gone is not in the group, however it went */
    WEFT__LIST_EACH(weft__shrink_attempts(ctx), at)
    {
        attempt *a = WEFT__LIST_ENTRY(at, attempt, link);
        int lead = weft__shrink_lead(ctx, a);
        if (rank < lead && weft__shrink_member(a, rank) >= 0) turn_to(ctx, a, lead);
        weft__shrink_go_past(ctx, a, rank);
        shrink_go_on(ctx, a); /* also of no member: it may have been the one that presumed a member dead */
    }
}

static void shrink_peer_unreachable(weft_context *ctx, int rank, const char *why)
{
    (void)why;
    WEFT__LIST_EACH(weft__shrink_attempts(ctx), at)
    {
        attempt *a = WEFT__LIST_ENTRY(at, attempt, link);
        const weft_request *req = weft__shrink_is_over(a) ? NULL : weft__shrink_request_of(ctx, a);
        if (req && weft__shrink_member(a, rank) >= 0) give_up_unreachable(req->group);
        weft__shrink_go_past(ctx, a, rank);
    }
}

/* What went between the two may be lost: this rank's word to its lead, or the lead's to a member. */
static void shrink_peer_returns(weft_context *ctx, int rank)
{
    WEFT__LIST_EACH(weft__shrink_attempts(ctx), at)
    {
        attempt *a = WEFT__LIST_ENTRY(at, attempt, link);
        const int lead = weft__shrink_lead(ctx, a);
        if (weft__shrink_member(a, rank) < 0) continue;
        if (lead == rank && !weft__shrink_is_over(a))
            turn_to(ctx, a, rank);
        else if (lead == ctx->rank && a->verdict)
            send_verdict(ctx, a, rank);
        else
            shrink_go_on(ctx, a);
        weft__shrink_name_again(ctx, a, rank); /* behind the group that this rank may hold */
    }
}

/* No view is needed for it any more. */
static void shrink_peer_certain(weft_context *ctx, int rank, const char *why)
{
    (void)rank;
    (void)why;
    WEFT__LIST_EACH(weft__shrink_attempts(ctx), at) shrink_go_on(ctx, WEFT__LIST_ENTRY(at, attempt, link));
}

/* What waited for a view goes on, or ends where that has left this rank out. */
static void shrink_view_changed(weft_context *ctx)
{
    char text[WEFT__GROUP_CREATE_TEXT];
    bool out = weft__membership_is_out(ctx, text, sizeof text);
    WEFT__LIST_EACH(weft__shrink_attempts(ctx), at)
    {
        attempt *a = WEFT__LIST_ENTRY(at, attempt, link);
        if (out && !weft__shrink_is_over(a))
            fail_attempt(ctx, a, WEFT_ERR_PEER, text);
        else if (!out)
            shrink_go_on(ctx, a);
    }
}

const weft__protocol weft__shrink_protocol = {.name = "shrink_group",
                                              .first = WEFT__MESSAGE_SHRINK_JOIN,
                                              .last = WEFT__MESSAGE_SHRINK_EXPIRED,
                                              .open = weft__shrink_attempts_open,
                                              .close = weft__shrink_attempts_close,
                                              .message = shrink_take_message,
                                              .peer_gone = shrink_peer_gone,
                                              .peer_unreachable = shrink_peer_unreachable,
                                              .peer_returns = shrink_peer_returns,
                                              .leaves_alone = shrink_leaves_alone,
                                              .due = weft__shrink_joins_due,
                                              .peer_certain = shrink_peer_certain,
                                              .view_changed = shrink_view_changed};

/* ---- public ---- */

weft_status weft_shrink_group(weft_group *group, const weft_call *call, weft_group **survivors,
                              weft_request **req)
{
    weft_group *made;
    weft__group_create *f;
    weft_status status;
    if (!group || !survivors)
        return weft__fail(WEFT_ERR_ARGUMENT, "shrink_group: %s is NULL", !group ? "group" : "survivors");
    if ((status = weft__usable(group->ctx)) != WEFT_OK || (status = weft__call_check(call)) != WEFT_OK ||
        (status = weft__group_usable(group)) != WEFT_OK)
        return status;
    made = weft__group_new(group->ctx, group->world, group->size,
                           call && call->label ? call->label : group->label,
                           call && call->timeout_ms ? call->timeout_ms : atomic_load(&group->timeout_ms));
    if (!made) return WEFT_ERR_MEMORY;
    made->asks_for_program =
        call && call->order != WEFT_ORDER_DEFAULT ? weft__asks_for_program(call) : group->params.program;
    f = calloc(1, sizeof *f);
    if (!f) {
        weft__group_unref(made);
        return weft__fail_memory(sizeof *f, "a group's request");
    }
    f->start = shrink_start;
    f->give_up = give_up;
    return weft__group_create_submit(group, WEFT__OP_SHRINK_GROUP, f, made, call, survivors, req);
}
