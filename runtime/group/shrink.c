/* shrink.c - shrink_group: the living members of a group agree on the group of the living.
 *
 * The lead is the lowest member that lives in one's own view.  Members tell it that they join, and tell the
 * next one when it is gone.  Once every member that lives in its view has joined it, the lead gives the group its number
 * and tells all (READY); each of them holds that and says so (STORED); once all that live hold it the group is made, here
 * and by DONE at all others.  An attempt is known by the group and by how often each member has shrunk it.
 *
 * Why no two groups of one attempt, with WEFT_OK, whoever of them is gone by then: a member holds the first group that it
 * is told of, hands it to a later lead in place of joining, and takes no other.  A lead makes its group only when all that
 * live hold it; so a later lead, which is one of these, has none but that.  Where who is gone is only presumed dead a view
 * has left it out before (views.md), and two views have one inside of the other.  What a rank sent before its end and has
 * come is taken as it is counted as gone, in the middle of whatever this rank does then; nothing of it comes later.
 *
 * Failing: a member whose time is up tells the lead, who ends the attempt for all as long as the group is not made; that
 * verdict is kept like the other one, so a late caller learns of it at once. A rank that left counts as not living. */
#include "accused.h"
#include "engine.h"
#include "group.h"
#include "group_break.h"
#include "group_create_common.h"
#include "membership.h"
#include "peer.h"
#include "protocol.h"
#include "reserve.h"
#include "shrink_message.h"
#include "submit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* attempt_to alone changes it. */
typedef enum attempt_state {
    GATHERING, /* nothing is agreed on */
    HELD,      /* the group is known here, and perhaps not everywhere */
    SETTLED,   /* all that live knew it: it is made */
    FAILED
} attempt_state;

/* At every member that has heard of it; kept until the context ends: another member may have to be told. */
typedef struct attempt {
    weft__list link;
    uint64_t group;
    uint32_t occurrence;
    attempt_state state;
    int size, *world;
    bool *joined; /* have told this rank, as the lead */
    bool *stored; /* hold the verdict too */
    weft__group_params *tables;
    weft__shrink_message *verdict; /* NULL while GATHERING */
    size_t verdict_bytes;
    uint32_t
        strays;   /* ctx->strays when the verdict became known: before that nothing of its group was sent */
    bool put_off; /* the verdict is to be handed on, unless all leave */
} attempt;

/* ---- attempts ---- */

static void attempt_free(attempt *a)
{
    weft__list_remove(&a->link);
    weft__reserve_give(a->world);
    weft__reserve_give(a->joined);
    weft__reserve_give(a->stored);
    weft__reserve_give(a->tables);
    weft__reserve_give(a->verdict);
    weft__reserve_give(a);
}

static weft__list *attempts_of(const weft_context *ctx)
{
    return ctx->protocol_state[WEFT__PROTOCOL_SHRINK];
}

static attempt *find_attempt(weft_context *ctx, uint64_t group, uint32_t occurrence)
{
    WEFT__LIST_EACH(attempts_of(ctx), at)
    {
        attempt *a = WEFT__LIST_ENTRY(at, attempt, link);
        if (a->group == group && a->occurrence == occurrence) return a;
    }
    return NULL;
}

static bool has_members(const attempt *a, const int32_t *world, size_t size)
{
    return (size_t)a->size == size && !memcmp(a->world, world, size * sizeof *world);
}

/* That attempt, new if it is not known yet.  NULL: no memory, or it is known with other members. */
static attempt *attempt_for(weft_context *ctx, uint64_t group, uint32_t occurrence, const int32_t *world,
                            size_t size)
{
    attempt *a = find_attempt(ctx, group, occurrence);
    WEFT__ASSERT(size > 0);
    if (a) return has_members(a, world, size) ? a : NULL;
    a = weft__reserve_zeroed(sizeof *a);
    if (!a) return NULL;
    weft__list_init(&a->link);
    a->group = group;
    a->occurrence = occurrence;
    a->size = (int)size;
    a->world = weft__reserve_get(size * sizeof *a->world);
    a->joined = weft__reserve_zeroed(size * sizeof *a->joined);
    a->stored = weft__reserve_zeroed(size * sizeof *a->stored);
    a->tables = weft__reserve_zeroed(size * sizeof *a->tables);
    if (!a->world || !a->joined || !a->stored || !a->tables) {
        attempt_free(a);
        return NULL;
    }
    memcpy(a->world, world, size * sizeof *world);
    weft__list_append(attempts_of(ctx), &a->link);
    return a;
}

static void attempt_to(attempt *a, attempt_state to)
{
    static const unsigned may_follow[] = {[GATHERING] = WEFT__MAY_BECOME(HELD) | WEFT__MAY_BECOME(FAILED),
                                          [HELD] = WEFT__MAY_BECOME(SETTLED) | WEFT__MAY_BECOME(FAILED),
                                          [SETTLED] = 0,
                                          [FAILED] = 0};
    WEFT__ASSERT(may_follow[a->state] & WEFT__MAY_BECOME(to), a->state, to);
    a->state = to;
}

static bool is_over(const attempt *a)
{
    return a->state == SETTLED || a->state == FAILED;
}

static int member_of(const attempt *a, int world_rank)
{
    for (int i = 0; i < a->size; i++)
        if (a->world[i] == world_rank) return i;
    return -1;
}

/* One that is unreachable from here does: nobody makes a group without it who has no view that leaves it out. */
static bool lives(const weft_context *ctx, const attempt *a, int member)
{
    return !weft__is_gone(&ctx->peers[a->world[member]]);
}

/* This rank lives, so there is one. */
static int lead_of(const weft_context *ctx, const attempt *a)
{
    int lead = ctx->rank;
    for (int i = 0; i < a->size; i++)
        if (lives(ctx, a, i) && a->world[i] < lead) lead = a->world[i];
    return lead;
}

/* ---- messages ---- */

static weft__shrink_message *new_message(const attempt *a, size_t more, size_t *bytes)
{
    weft__shrink_message *m;
    *bytes = sizeof *m + ((size_t)a->size + more) * sizeof m->list[0];
    m = weft__reserve_zeroed(*bytes);
    if (!m) return NULL;
    m->group = a->group;
    m->occurrence = a->occurrence;
    m->size = (uint32_t)a->size;
    memcpy(m->list, a->world, (size_t)a->size * sizeof *a->world);
    return m;
}

/* Told to nobody if there is no memory: the deadline will speak. */
static void send_small(weft_context *ctx, const attempt *a, int to, int type, weft_status status,
                       const char *text)
{
    size_t bytes;
    weft__shrink_message *m = new_message(a, 0, &bytes);
    if (!m) return;
    if (a->verdict) m->id = a->verdict->id;
    m->status = status;
    snprintf(m->text, sizeof m->text, "%s", text);
    weft__p2p_control(ctx->p2p, to, type, m, bytes);
    weft__reserve_give(m);
}

/* Whom this rank presumes dead the lead may not: it must not make a group of two that have lost each other. */
static void send_join(weft_context *ctx, const attempt *a, int to, bool program)
{
    size_t bytes;
    weft__shrink_message *m = new_message(a, (size_t)a->size, &bytes);
    int32_t *next;
    if (!m) return;
    m->params = weft__own_params(ctx);
    m->params.program = program;
    next = m->list + m->size;
    m->presumed = weft__shrink_list_gone(ctx, m, WEFT__PRESUMED_DEAD, &next);
    weft__p2p_control(ctx->p2p, to, WEFT__MESSAGE_SHRINK_JOIN, m, bytes);
    weft__reserve_give(m);
}

/* As far as this rank knows it. */
static void send_verdict(weft_context *ctx, const attempt *a, int to)
{
    static const int types[] = {[HELD] = WEFT__MESSAGE_SHRINK_READY,
                                [SETTLED] = WEFT__MESSAGE_SHRINK_DONE,
                                [FAILED] = WEFT__MESSAGE_SHRINK_FAILED};
    WEFT__ASSERT(a->verdict && a->state != GATHERING, a->state);
    weft__p2p_control(ctx->p2p, to, types[a->state], a->verdict, a->verdict_bytes);
}

/* To all others that live; of a failure to who has joined this rank or holds the group by its word, and so may take it
 * for the lead. */
static void tell_others(weft_context *ctx, const attempt *a)
{
    for (int i = 0; i < a->size; i++)
        if (a->world[i] != ctx->rank && lives(ctx, a, i) &&
            (a->joined[i] || a->stored[i] || a->state != FAILED))
            send_verdict(ctx, a, a->world[i]);
}

/* ---- the verdict ---- */

/* This rank's own, while it waits; else NULL. */
static weft_request *request_of(weft_context *ctx, const attempt *a)
{
    WEFT__LIST_EACH(&ctx->pending, at)
    {
        weft_request *req = WEFT__LIST_ENTRY(at, weft_request, pending);
        if (req->op.kind == WEFT__OP_SHRINK_GROUP && req->group->id == a->group &&
            req->sequence == a->occurrence)
            return req;
    }
    return NULL;
}

/* This rank's request ends as the verdict says. */
static void obey(weft_context *ctx, attempt *a)
{
    weft_request *req = request_of(ctx, a);
    const weft__shrink_message *m = a->verdict;
    WEFT__ASSERT(m && a->state != GATHERING, a->state);
    if (!req) return;
    if (a->state == FAILED) {
        weft__group_create_fail(req, (weft_status)m->status, -1, m->text);
        return;
    }
    weft__group_create_members(req->u.creation->group, m->list + m->size, (int)m->survivors);
    req->u.creation->group->strays = a->strays;
    if (req->u.creation->group->rank >= 0)
        weft__group_create_ready(req, m->id, &m->params);
    else
        weft__group_create_fail(req, WEFT_ERR_PEER, -1, "the others took this rank for dead");
}

/* Takes m over. */
static void know(const weft_context *ctx, attempt *a, attempt_state state, weft__shrink_message *m,
                 size_t bytes)
{
    WEFT__ASSERT(weft__shrink_told(m) <= (size_t)a->size, weft__shrink_told(m), a->size);
    a->strays = atomic_load(&ctx->strays);
    weft__reserve_give(a->verdict);
    a->verdict = m;
    a->verdict_bytes = bytes;
    attempt_to(a, state);
}

/* Who has joined this rank is told: this rank may not know yet that it is the lead, because it has not heard of the end of
 * the one before. */
static void fail_with(weft_context *ctx, attempt *a, weft__shrink_message *m, size_t bytes)
{
    know(ctx, a, FAILED, m, bytes);
    tell_others(ctx, a);
    obey(ctx, a);
}

static void fail_attempt(weft_context *ctx, attempt *a, weft_status status, const char *text)
{
    size_t bytes;
    weft__shrink_message *m = new_message(a, 0, &bytes);
    if (!m) return; /* the members' grace runs out */
    m->status = status;
    snprintf(m->text, sizeof m->text, "%s", text);
    fail_with(ctx, a, m, bytes);
}

static void make(weft_context *ctx, attempt *a)
{
    attempt_to(a, SETTLED);
    obey(ctx, a);
}

/* Has everybody come to this rank, the lead, and is it known which of two that have lost each other is left out? */
static void shrink_decide(weft_context *ctx, attempt *a)
{
    size_t bytes;
    weft__shrink_message *m;
    int32_t *next;
    for (int i = 0; i < a->size; i++) {
        if (lives(ctx, a, i) && (!a->joined[i] || weft__peer_is_accused(ctx, a->world[i]))) return;
    }
    if (!weft__membership_agrees(ctx, a->world, a->size)) return;
    m = new_message(a, (size_t)a->size, &bytes);
    if (!m) {
        fail_attempt(ctx, a, WEFT_ERR_MEMORY, "no memory at the lowest living member");
        return;
    }
    m->id = weft__group_ids(ctx, 1);
    m->params = weft__own_params(ctx);
    m->params.program = true; /* unless one of those who joined, this rank among them, does not ask for it */
    next = m->list + m->size;
    for (int i = 0; i < a->size; i++) {
        if (!lives(ctx, a, i)) continue;
        *next++ = a->world[i];
        m->survivors++;
        weft__group_params_merge(&m->params, &a->tables[i]);
    }
    m->left = weft__shrink_list_gone(ctx, m, WEFT__LEFT, &next);
    m->presumed = weft__shrink_list_gone(ctx, m, WEFT__PRESUMED_DEAD, &next);
    m->died = weft__shrink_list_gone(ctx, m, WEFT__DIED, &next);
    know(ctx, a, HELD, m, bytes);
    tell_others(ctx, a);
}

/* Does everybody hold what this rank, the lead, does? */
static void shrink_settle(weft_context *ctx, attempt *a)
{
    for (int i = 0; i < a->size; i++)
        if (a->world[i] != ctx->rank && lives(ctx, a, i) && !a->stored[i]) return;
    if (!weft__membership_agrees(ctx, a->world, a->size)) return;
    attempt_to(a, SETTLED);
    tell_others(ctx, a);
    obey(ctx, a);
}

static void shrink_go_on(weft_context *ctx, attempt *a)
{
    if (lead_of(ctx, a) == ctx->rank && a->state == GATHERING) shrink_decide(ctx, a);
    if (lead_of(ctx, a) == ctx->rank && a->state == HELD) shrink_settle(ctx, a);
}

/* ---- what comes in ---- */

static void on_join(weft_context *ctx, attempt *a, int member, const weft__shrink_message *m)
{
    a->joined[member] = true;
    a->tables[member] = m->params;
    for (uint32_t i = 0; i < m->presumed && weft__by_agreement(ctx); i++)
        weft__peer_accused(ctx, m->list[m->size + i], a->world[member], "is lost to another rank");
    if (a->verdict)
        send_verdict(ctx, a, a->world[member]);
    else
        shrink_go_on(ctx, a);
}

static void on_stored(weft_context *ctx, attempt *a, int member, const weft__shrink_message *m)
{
    if (a->state == FAILED) send_verdict(ctx, a, a->world[member]); /* it holds what there is no more */
    if (a->state != HELD || a->verdict->id != m->id) return;
    a->stored[member] = true;
    shrink_go_on(ctx, a);
}

static void on_expired(weft_context *ctx, attempt *a, int from, const weft__shrink_message *m)
{
    char text[WEFT__GROUP_CREATE_TEXT];
    if (is_over(a)) { /* another lead may have told that, and not this member */
        send_verdict(ctx, a, from);
        return;
    }
    snprintf(text, sizeof text, "%s", m->text);
    for (int i = 0; i < a->size && a->state == GATHERING; i++)
        if (!a->joined[i] && lives(ctx, a, i))
            weft__group_create_missing(ctx, a->world[i], text, sizeof text);
    fail_attempt(ctx, a, (weft_status)m->status, text);
}

static void on_failed(weft_context *ctx, attempt *a, const weft__shrink_message *m, size_t bytes)
{
    weft__shrink_message *copy = is_over(a) ? NULL : weft__shrink_copy(m, bytes);
    if (copy) fail_with(ctx, a, copy, bytes);
}

/* READY or DONE, from the lead or from a member that held it already. */
static void on_verdict(weft_context *ctx, attempt *a, int from, int type, const weft__shrink_message *m,
                       size_t bytes)
{
    weft__shrink_message *copy = a->state == GATHERING ? weft__shrink_copy(m, bytes) : NULL;
    bool is_first = copy != NULL, is_made;
    if (is_first) {
        know(ctx, a, HELD, copy, bytes);
        /* Not of the copy, which goes where what one of the gone had still sent ends the attempt. */
        weft__shrink_believe(ctx, m);
    }
    if (a->state == GATHERING || (a->state != FAILED && a->verdict->id != m->id)) return;
    a->stored[member_of(a, from)] = true;
    is_made = a->state == HELD && type == WEFT__MESSAGE_SHRINK_DONE;
    if (is_made)
        make(ctx, a);
    else if (type == WEFT__MESSAGE_SHRINK_READY && a->state == HELD)
        send_small(ctx, a, from, WEFT__MESSAGE_SHRINK_STORED, WEFT_OK, "");
    else if (type == WEFT__MESSAGE_SHRINK_READY)
        send_verdict(ctx, a, from); /* which is as good, or ends it */
    if ((is_first || is_made) && lead_of(ctx, a) == ctx->rank) tell_others(ctx, a);
    shrink_go_on(ctx, a);
}

static void shrink_take_message(weft_context *ctx, int peer, int type, const void *bytes, size_t length)
{
    /* Copied: what is sent in answer may come back through the same buffer. */
    weft__shrink_message *m = length >= sizeof *m ? weft__reserve_get(length) : NULL;
    attempt *a;
    if (length < sizeof *m)
        weft__peer_refused(ctx, peer, "a message about a group that shrinks is too short");
    if (!m) return;
    memcpy(m, bytes, length);
    m->text[sizeof m->text - 1] = 0;
    if (weft__shrink_check(ctx, peer, type, m, length) != WEFT_OK)
        weft__peer_refused(ctx, peer, weft_last_error());
    else if (!(a = attempt_for(ctx, m->group, m->occurrence, m->list, m->size)))
        weft__peer_refused(ctx, peer, "a group that shrinks has other members for others, or no memory here");
    else if (type == WEFT__MESSAGE_SHRINK_JOIN)
        on_join(ctx, a, member_of(a, peer), m);
    else if (type == WEFT__MESSAGE_SHRINK_STORED)
        on_stored(ctx, a, member_of(a, peer), m);
    else if (type == WEFT__MESSAGE_SHRINK_EXPIRED)
        on_expired(ctx, a, peer, m);
    else if (type == WEFT__MESSAGE_SHRINK_FAILED)
        on_failed(ctx, a, m, length);
    else
        on_verdict(ctx, a, peer, type, m, length);
    weft__reserve_give(m);
}

/* ---- this rank's request ---- */

static attempt *attempt_of(weft_request *req)
{
    const weft_group *group = req->group;
    attempt *known = find_attempt(req->ctx, group->id, (uint32_t)req->sequence);
    /* One told of before this rank's caller came, with members that the group has not. */
    if (known && !has_members(known, group->world, (size_t)group->size)) attempt_free(known);
    return attempt_for(req->ctx, group->id, (uint32_t)req->sequence, group->world, (size_t)group->size);
}

static void give_up(weft_request *req)
{
    attempt *a = attempt_of(req);
    weft__group_create *f = req->u.creation;
    char text[WEFT__SENTENCE_BYTES];
    if (f->gave_up == WEFT_ERR_TIMEOUT &&
        weft__membership_is_stuck(req->ctx, req->group->world, req->group->size, text, sizeof text)) {
        f->gave_up = WEFT_ERR_PEER;
        snprintf(f->text, sizeof f->text, "%.*s", (int)sizeof f->text - 1, text);
    }
    if (a) send_small(req->ctx, a, f->lead, WEFT__MESSAGE_SHRINK_EXPIRED, f->gave_up, f->text);
}

/* May end the request. */
static void shrink_join(weft_request *req, attempt *a)
{
    weft_context *ctx = req->ctx;
    bool late = req->u.creation->gave_up != WEFT_OK;
    req->u.creation->lead = lead_of(ctx, a);
    if (a->state == GATHERING)
        send_join(ctx, a, req->u.creation->lead, req->u.creation->group->asks_for_program);
    if (late && request_of(ctx, a)) give_up(req); /* what the lead before was told */
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
    a = attempt_of(req);
    if (!a) {
        weft__group_create_fail(req, WEFT_ERR_MEMORY, -1, "no memory for an attempt");
        return;
    }
    if (weft__membership_is_out(ctx, why, sizeof why)) {
        weft__group_create_fail(req, WEFT_ERR_PEER, -1, why);
        return;
    }
    if (is_over(a))
        obey(ctx, a);
    else
        shrink_join(req, a);
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
    WEFT__LIST_EACH(attempts_of(ctx), at)
    {
        attempt *a = WEFT__LIST_ENTRY(at, attempt, link);
        if (a->put_off) hand_on(ctx, a, lead_of(ctx, a));
    }
}

/* There is another lead: it is told what this rank knows of the attempt, as the last one may have told this rank alone. */
static void turn_to(weft_context *ctx, attempt *a, int lead)
{
    weft_request *req;
    if (a->verdict) hand_on(ctx, a, lead);
    req = request_of(ctx, a); /* not before: sending may find that lead gone too, and end the attempt */
    if (req) shrink_join(req, a);
}

static void shrink_peer_gone(weft_context *ctx, int rank, const char *why)
{
    (void)why; /* whoever is gone is not in the group, however it went */
    WEFT__LIST_EACH(attempts_of(ctx), at)
    {
        attempt *a = WEFT__LIST_ENTRY(at, attempt, link);
        int lead = lead_of(ctx, a);
        if (rank < lead && member_of(a, rank) >= 0) turn_to(ctx, a, lead);
        shrink_go_on(ctx, a); /* also of no member: it may have been the one that presumed a member dead */
    }
}

static void shrink_peer_unreachable(weft_context *ctx, int rank, const char *why)
{
    (void)why;
    WEFT__LIST_EACH(attempts_of(ctx), at)
    {
        const attempt *a = WEFT__LIST_ENTRY(at, attempt, link);
        const weft_request *req = is_over(a) ? NULL : request_of(ctx, a);
        if (req && member_of(a, rank) >= 0) give_up_unreachable(req->group);
    }
}

/* What went between the two may be lost: this rank's word to its lead, or the lead's to a member. */
static void shrink_peer_returns(weft_context *ctx, int rank)
{
    WEFT__LIST_EACH(attempts_of(ctx), at)
    {
        attempt *a = WEFT__LIST_ENTRY(at, attempt, link);
        const int lead = lead_of(ctx, a);
        if (member_of(a, rank) < 0) continue;
        if (lead == rank && !is_over(a))
            turn_to(ctx, a, rank);
        else if (lead == ctx->rank && a->verdict)
            send_verdict(ctx, a, rank);
    }
}

/* No view is needed for it any more. */
static void shrink_peer_certain(weft_context *ctx, int rank, const char *why)
{
    (void)rank;
    (void)why;
    WEFT__LIST_EACH(attempts_of(ctx), at) shrink_go_on(ctx, WEFT__LIST_ENTRY(at, attempt, link));
}

/* What waited for a view goes on, or ends where that has left this rank out. */
static void shrink_view_changed(weft_context *ctx)
{
    char text[WEFT__GROUP_CREATE_TEXT];
    bool out = weft__membership_is_out(ctx, text, sizeof text);
    WEFT__LIST_EACH(attempts_of(ctx), at)
    {
        attempt *a = WEFT__LIST_ENTRY(at, attempt, link);
        if (out && !is_over(a))
            fail_attempt(ctx, a, WEFT_ERR_PEER, text);
        else if (!out)
            shrink_go_on(ctx, a);
    }
}

static weft_status open_attempts(weft_context *ctx)
{
    return weft__protocol_open_list(ctx, WEFT__PROTOCOL_SHRINK);
}

static void close_attempts(weft_context *ctx)
{
    weft__list *attempts = attempts_of(ctx);
    if (!attempts) return;
    WEFT__LIST_EACH(attempts, at) attempt_free(WEFT__LIST_ENTRY(at, attempt, link));
    free(attempts);
}

const weft__protocol weft__shrink_protocol = {.name = "shrink_group",
                                              .first = WEFT__MESSAGE_SHRINK_JOIN,
                                              .last = WEFT__MESSAGE_SHRINK_EXPIRED,
                                              .open = open_attempts,
                                              .close = close_attempts,
                                              .message = shrink_take_message,
                                              .peer_gone = shrink_peer_gone,
                                              .peer_unreachable = shrink_peer_unreachable,
                                              .peer_returns = shrink_peer_returns,
                                              .leaves_alone = shrink_leaves_alone,
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
