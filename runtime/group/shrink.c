/* shrink.c - shrink_group: the living members of a group agree on the group of the living.
 *
 * The lead is the lowest member that lives in one's own view.  Members tell it that they join, and tell the
 * next one when it is gone.  The lead completes when every member that lives in its view has joined it, gives
 * the group its number and tells all.  An attempt is known by the group and by how often each member has
 * shrunk it.
 *
 * Why no two results: a member keeps the verdict of every attempt, and answers a later lead with it in place
 * of joining.  A later lead completes only with the word of all that live, so a verdict that any of them has
 * got reaches it first, and it hands that one on.  What a dead rank sent and nobody living took is gone: its
 * messages are dropped when it is.
 *
 * Failing: a member whose time is up tells the lead, who ends the attempt for all; that verdict is kept like
 * the other one, so a late caller learns of it at once. A rank that left counts as not living. */
#include "engine.h"
#include "group.h"
#include "group_break.h"
#include "group_create_common.h"
#include "peer.h"
#include "protocol.h"
#include "reserve.h"
#include "submit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct shrink_message {
    uint64_t group, id; /* READY: number of the new group */
    uint32_t occurrence, size, survivors, left, presumed;
    int32_t status;
    weft__group_params params;
    char text[WEFT__GROUP_CREATE_TEXT];
    int32_t list[]; /* world ranks: `size` members of the group; READY: `survivors` of the new one, then
                       those that `left`, then those `presumed` dead; the others have died */
} shrink_message;

/* At every member that has heard of it; kept until the context ends: another member may have to be told. */
typedef struct attempt {
    weft__list link;
    uint64_t group;
    uint32_t occurrence;
    int size, *world;
    bool *joined; /* have told this rank, as the lead */
    weft__group_params *tables;
    shrink_message *verdict;
    int verdict_type; /* READY or FAILED; 0: none yet */
    size_t verdict_bytes;
    bool put_off; /* the verdict is to be handed on, unless all leave */
} attempt;

/* ---- attempts ---- */

static void attempt_free(attempt *a)
{
    weft__list_remove(&a->link);
    weft__reserve_give(a->world);
    weft__reserve_give(a->joined);
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
    a->tables = weft__reserve_zeroed(size * sizeof *a->tables);
    if (!a->world || !a->joined || !a->tables) {
        attempt_free(a);
        return NULL;
    }
    memcpy(a->world, world, size * sizeof *world);
    weft__list_append(attempts_of(ctx), &a->link);
    return a;
}

static int member_of(const attempt *a, int world_rank)
{
    for (int i = 0; i < a->size; i++)
        if (a->world[i] == world_rank) return i;
    return -1;
}

static bool lives(const weft_context *ctx, const attempt *a, int member)
{
    return !atomic_load(&ctx->peers[a->world[member]].gone);
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

static shrink_message *new_message(const attempt *a, size_t more, size_t *bytes)
{
    shrink_message *m;
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
    shrink_message *m = new_message(a, 0, &bytes);
    if (!m) return;
    m->params = weft__own_params(ctx);
    m->status = status;
    snprintf(m->text, sizeof m->text, "%s", text);
    weft__p2p_control(ctx->p2p, to, type, m, bytes);
    weft__reserve_give(m);
}

static void send_verdict(weft_context *ctx, const attempt *a, int to)
{
    weft__p2p_control(ctx->p2p, to, a->verdict_type, a->verdict, a->verdict_bytes);
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
    const shrink_message *m = a->verdict;
    if (!req) return;
    if (a->verdict_type == WEFT__MESSAGE_SHRINK_FAILED) {
        weft__group_create_fail(req, (weft_status)m->status, -1, m->text);
        return;
    }
    weft__group_create_members(req->u.creation->group, m->list + m->size, (int)m->survivors);
    if (req->u.creation->group->rank >= 0)
        weft__group_create_ready(req, m->id, &m->params);
    else
        weft__group_create_fail(req, WEFT_ERR_PEER, -1, "the others took this rank for dead");
}

static bool is_among(const int32_t *ranks, uint32_t n, int rank)
{
    for (uint32_t i = 0; i < n; i++)
        if (ranks[i] == rank) return true;
    return false;
}

/* Ranks that a verdict tells of. */
static size_t told_of(const shrink_message *m)
{
    return (size_t)m->survivors + m->left + m->presumed;
}

/* Who is not among the survivors is gone for this rank too, before it is told of them. */
static void believe(weft_context *ctx, const shrink_message *m)
{
    const int32_t *survivors = m->list + m->size, *left = survivors + m->survivors,
                  *presumed = left + m->left;
    for (uint32_t i = 0; i < m->size; i++) {
        if (is_among(survivors, m->survivors, m->list[i])) continue;
        if (is_among(left, m->left, m->list[i]))
            weft__peer_gone(ctx, m->list[i], WEFT__LEFT, true, "has left");
        else if (is_among(presumed, m->presumed, m->list[i]))
            weft__peer_gone(ctx, m->list[i], WEFT__PRESUMED_DEAD, true, "is presumed dead");
        else
            weft__peer_gone(ctx, m->list[i], WEFT__DIED, true, "has died");
    }
}

/* The first one counts.  Takes m over.  Who has joined this rank takes it for the lead, and is told: this
 * rank may not know yet that it is, because it has not heard of the end of the lead before. */
static void decide(weft_context *ctx, attempt *a, int type, shrink_message *m, size_t bytes)
{
    WEFT__ASSERT(!a->verdict && told_of(m) <= (size_t)a->size, told_of(m), a->size);
    a->verdict = m;
    a->verdict_type = type;
    a->verdict_bytes = bytes;
    for (int i = 0; i < a->size; i++)
        if (a->joined[i] && a->world[i] != ctx->rank && lives(ctx, a, i)) send_verdict(ctx, a, a->world[i]);
    if (type == WEFT__MESSAGE_SHRINK_READY) believe(ctx, m);
    obey(ctx, a);
}

static void fail_attempt(weft_context *ctx, attempt *a, weft_status status, const char *text)
{
    size_t bytes;
    shrink_message *m = new_message(a, 0, &bytes);
    if (!m) return; /* the members' grace runs out */
    m->status = status;
    snprintf(m->text, sizeof m->text, "%s", text);
    decide(ctx, a, WEFT__MESSAGE_SHRINK_FAILED, m, bytes);
}

/* Writes down who is gone that way; how many. */
static uint32_t list_gone(const weft_context *ctx, const attempt *a, weft__gone how, int32_t **next)
{
    uint32_t n = 0;
    for (int i = 0; i < a->size; i++) {
        if (atomic_load(&ctx->peers[a->world[i]].gone) != how) continue;
        *(*next)++ = a->world[i];
        n++;
    }
    return n;
}

/* Is this rank the lead, and has everybody come? */
static void shrink_decide(weft_context *ctx, attempt *a)
{
    size_t bytes;
    shrink_message *m;
    int32_t *next;
    if (a->verdict || lead_of(ctx, a) != ctx->rank) return;
    for (int i = 0; i < a->size; i++) {
        if (lives(ctx, a, i) && !a->joined[i]) return;
    }
    m = new_message(a, (size_t)a->size, &bytes);
    if (!m) {
        fail_attempt(ctx, a, WEFT_ERR_MEMORY, "no memory at the lowest living member");
        return;
    }
    m->id = weft__group_ids(ctx, 1);
    m->params = weft__own_params(ctx);
    next = m->list + m->size;
    for (int i = 0; i < a->size; i++) {
        if (!lives(ctx, a, i)) continue;
        *next++ = a->world[i];
        m->survivors++;
        weft__group_params_merge(&m->params, &a->tables[i]);
    }
    m->left = list_gone(ctx, a, WEFT__LEFT, &next);
    m->presumed = list_gone(ctx, a, WEFT__PRESUMED_DEAD, &next);
    decide(ctx, a, WEFT__MESSAGE_SHRINK_READY, m, bytes);
}

/* ---- what comes in ---- */

static void on_join(weft_context *ctx, attempt *a, int member, const shrink_message *m)
{
    a->joined[member] = true;
    a->tables[member] = m->params;
    if (a->verdict)
        send_verdict(ctx, a, a->world[member]);
    else
        shrink_decide(ctx, a);
}

static void on_expired(weft_context *ctx, attempt *a, const shrink_message *m)
{
    char text[WEFT__GROUP_CREATE_TEXT];
    if (a->verdict) return; /* that member has been told, or will be when it joins */
    snprintf(text, sizeof text, "%s", m->text);
    for (int i = 0; i < a->size; i++)
        if (!a->joined[i] && lives(ctx, a, i))
            weft__group_create_missing(ctx, a->world[i], text, sizeof text);
    fail_attempt(ctx, a, (weft_status)m->status, text);
}

static void on_verdict(weft_context *ctx, attempt *a, int type, const shrink_message *m, size_t bytes)
{
    shrink_message *copy = a->verdict ? NULL : weft__reserve_get(bytes);
    if (!copy) return;
    memcpy(copy, m, bytes);
    decide(ctx, a, type, copy, bytes);
}

/* A verdict is sound where all whom it tells of are members, each once. */
static bool verdict_sound(const weft_context *ctx, const shrink_message *m)
{
    const int32_t *told = m->list + m->size;
    size_t n = told_of(m);
    if (!m->survivors || !is_among(m->list, m->size, weft__group_maker(m->id))) return false;
    for (size_t i = 0; i < n; i++)
        if (!is_among(m->list, m->size, told[i])) return false;
    return weft__group_create_sound(ctx, told, n, told[0]);
}

static weft_status shrink_check(const weft_context *ctx, int peer, int type, const shrink_message *m,
                                size_t length)
{
    size_t world = (size_t)ctx->world_size, entries = (length - sizeof *m) / sizeof m->list[0];
    size_t told = (size_t)m->size + told_of(m);
    if (m->size == 0 || m->size > world || told > 2 * (size_t)m->size || entries < told)
        return weft__fail(WEFT_ERR_PEER,
                          "a group that shrinks from %" PRIu32 " members to %" PRIu32 ", %" PRIu32
                          " having left, %" PRIu32 " presumed dead, in %zu entries",
                          m->size, m->survivors, m->left, m->presumed, entries);
    if (!weft__group_create_sound(ctx, m->list, m->size, peer) || !is_among(m->list, m->size, ctx->rank))
        return weft__fail(WEFT_ERR_PEER,
                          "the members of a group that shrinks are no ranks, or some twice, or it is none");
    if (type == WEFT__MESSAGE_SHRINK_READY && !verdict_sound(ctx, m))
        return weft__fail(WEFT_ERR_PEER, "those told of are not members of the group, or some twice");
    if ((type == WEFT__MESSAGE_SHRINK_FAILED || type == WEFT__MESSAGE_SHRINK_EXPIRED) &&
        !weft__is_failure(m->status))
        return weft__fail(WEFT_ERR_PEER, "a group that shrinks fails with status %" PRId32, m->status);
    return WEFT_OK;
}

static void shrink_take_message(weft_context *ctx, int peer, int type, const void *bytes, size_t length)
{
    /* Copied: what is sent in answer may come back through the same buffer. */
    shrink_message *m = length >= sizeof *m ? weft__reserve_get(length) : NULL;
    attempt *a;
    if (length < sizeof *m)
        weft__peer_refused(ctx, peer, "a message about a group that shrinks is too short");
    if (!m) return;
    memcpy(m, bytes, length);
    m->text[sizeof m->text - 1] = 0;
    if (shrink_check(ctx, peer, type, m, length) != WEFT_OK)
        weft__peer_refused(ctx, peer, weft_last_error());
    else if (!(a = attempt_for(ctx, m->group, m->occurrence, m->list, m->size)))
        weft__peer_refused(ctx, peer, "a group that shrinks has other members for others, or no memory here");
    else if (type == WEFT__MESSAGE_SHRINK_JOIN)
        on_join(ctx, a, member_of(a, peer), m);
    else if (type == WEFT__MESSAGE_SHRINK_EXPIRED)
        on_expired(ctx, a, m);
    else
        on_verdict(ctx, a, type, m, length);
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
    const weft__group_create *f = req->u.creation;
    if (a) send_small(req->ctx, a, f->lead, WEFT__MESSAGE_SHRINK_EXPIRED, f->gave_up, f->text);
}

/* May end the request. */
static void shrink_join(weft_request *req, attempt *a)
{
    weft_context *ctx = req->ctx;
    bool late = req->u.creation->gave_up != WEFT_OK;
    req->u.creation->lead = lead_of(ctx, a);
    send_small(ctx, a, req->u.creation->lead, WEFT__MESSAGE_SHRINK_JOIN, WEFT_OK, "");
    if (late && request_of(ctx, a)) give_up(req); /* what the lead before was told */
}

static void shrink_start(weft_request *req)
{
    weft_context *ctx = req->ctx;
    weft_group *group = req->group;
    attempt *a;
    char text[128];
    req->algorithm = "lead";
    req->sequence = ++group->shrinks;
    snprintf(text, sizeof text, "rank %d shrinks the group", ctx->rank);
    weft__group_break(group, &(weft__verdict){WEFT_ERR_CANCELLED, WEFT__AFTER_ALL, -1, text}, true);
    a = attempt_of(req);
    if (!a) {
        weft__group_create_fail(req, WEFT_ERR_MEMORY, -1, "no memory for an attempt");
        return;
    }
    if (a->verdict)
        obey(ctx, a);
    else
        shrink_join(req, a);
}

/* ---- ranks that end ---- */

/* To the lead after the one that has gone, which may not know it.  Where all leave nobody waits for it any more; and
 * then one lead after the other goes, so that each rank would connect to each. */
static void hand_on(weft_context *ctx, attempt *a, int lead)
{
    a->put_off = ctx->leaving == WEFT__ASKS;
    if (ctx->leaving != WEFT__ASKS && ctx->leaving != WEFT__LEAVES_TOGETHER && lead != ctx->rank)
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

static void shrink_peer_gone(weft_context *ctx, int rank, const char *why)
{
    (void)why; /* whoever is gone is not in the group, however it went */
    WEFT__LIST_EACH(attempts_of(ctx), at)
    {
        attempt *a = WEFT__LIST_ENTRY(at, attempt, link);
        int lead = lead_of(ctx, a);
        weft_request *req = request_of(ctx, a);
        if (member_of(a, rank) < 0) continue;
        if (rank < lead && a->verdict)
            hand_on(ctx, a, lead);
        else if (rank < lead && req)
            shrink_join(req, a);
        shrink_decide(ctx, a);
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
                                              .leaves_alone = shrink_leaves_alone};

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
    f = calloc(1, sizeof *f);
    if (!f) {
        weft__group_unref(made);
        return weft__fail_memory(sizeof *f, "a group's request");
    }
    f->start = shrink_start;
    f->give_up = give_up;
    return weft__group_create_submit(group, WEFT__OP_SHRINK_GROUP, f, made, call, survivors, req);
}
