/* group_create.c - new_group: members only, over the parent's connections.
 *
 * Every member tells the lowest one ("lead") that it joins, which tells all what becomes of it (create_attempt.h): many of them
 * by way of others (gathering.h, spreading.h).  Attempts
 * pair by (parent, ranks, label) and by how often each member has asked for those; members and label go as a hash.
 *
 * Failing: a member whose time is up tells the lead, who ends the attempt for all that have joined, and late ones learn of it
 * at once.  Only a lead that does not answer lets members fail by themselves.  One that is unreachable from a member (peer.h)
 * fails it there at once, and hears of that when it is reached again, as the others would wait for that member in vain. */
#include "create_attempt.h"
#include "group.h"
#include "peer.h"
#include "protocol.h"
#include "rank_set.h"
#include "reserve.h"
#include "spreading.h"
#include "submit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct joining { /* at every member: its request's */
    weft__group_create creation;
    weft__create_key key;
    bool told; /* the lead: a member is unreachable from here */
} joining;

struct weft__occurrence {
    struct weft__occurrence *next;
    uint64_t hash[2];
    uint32_t count;
};

/* FNV-1a, twice from different offsets: members trust each other, so chance is all that
 * has to be kept away. */
static uint64_t hash(uint64_t h, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    while (n--) h = (h ^ *p++) * UINT64_C(0x100000001b3);
    return h ^ h >> 29;
}

static uint32_t next_occurrence(weft_group *parent, const uint64_t h[2])
{
    struct weft__occurrence *o = parent->occurrences;
    while (o && (o->hash[0] != h[0] || o->hash[1] != h[1])) o = o->next;
    if (!o) {
        o = weft__reserve_zeroed(sizeof *o);
        if (!o) return 0;
        o->hash[0] = h[0];
        o->hash[1] = h[1];
        o->next = parent->occurrences;
        parent->occurrences = o;
    }
    return ++o->count;
}

static void create_group_gone(weft_group *group)
{
    while (group->occurrences) {
        struct weft__occurrence *o = group->occurrences;
        group->occurrences = o->next;
        weft__reserve_give(o);
    }
}

bool weft__create_is_done(weft_context *ctx, const weft__create_key *key)
{
    weft_group *parent = weft__group_find(ctx, key->parent);
    const struct weft__occurrence *o = parent ? parent->occurrences : NULL;
    bool done;
    while (o && (o->hash[0] != key->hash[0] || o->hash[1] != key->hash[1])) o = o->next;
    done = o && o->count >= key->occurrence;
    if (parent) weft__group_unref(parent);
    return done;
}

static joining *joining_of(const weft_request *req)
{
    return WEFT__OWNER(req->u.creation, joining, creation);
}

/* That waits for the word of this lead. */
static weft_request *find_request(weft_context *ctx, int lead, const weft__create_key *key)
{
    WEFT__LIST_EACH(&ctx->pending, at)
    {
        weft_request *req = WEFT__LIST_ENTRY(at, weft_request, pending);
        if (req->op.kind == WEFT__OP_NEW_GROUP && weft__create_same(&joining_of(req)->key, key) &&
            req->u.creation->lead == lead)
            return req;
    }
    return NULL;
}

static void on_ready(weft_context *ctx, int peer, const weft__create_message *m)
{
    weft_request *req = find_request(ctx, peer, &m->key);
    if (req) weft__group_create_ready(req, m->id, &m->params);
}

static void on_failed(weft_context *ctx, int peer, const weft__create_message *m)
{
    weft_request *req = find_request(ctx, peer, &m->key);
    if (req) weft__group_create_fail(req, (weft_status)m->status, m->culprit, (const char *)m->rest);
}

/* With room for the set of members, which is written, or without.  NULL: no memory. */
static weft__create_message *new_message(const weft_request *req, bool with_members)
{
    const joining *j = joining_of(req);
    const weft_group *group = j->creation.group;
    weft__create_message *m =
        weft__create_message_new(&j->key, with_members ? weft__set_bytes(req->ctx->world_size) : 0);
    if (!m) return NULL;
    m->params = weft__own_params(req->ctx);
    m->params.program = group->asks_for_program;
    for (int i = 0; with_members && i < group->size; i++) weft__set_add(m->rest, group->world[i]);
    return m;
}

/* Without memory for that the deadline speaks. */
static void on_ask(weft_context *ctx, int peer, const weft__create_message *ask)
{
    const weft_request *req = find_request(ctx, peer, &ask->key);
    weft__create_message *m =
        req ? new_message(req, true) : NULL; /* no such one: the lead hears, or has heard, of its end */
    if (m) weft__create_send(ctx, peer, WEFT__MESSAGE_CREATE_MEMBERS, m);
    weft__reserve_give(m);
}

static void create_take_message(weft_context *ctx, int peer, int type, const void *bytes, size_t length)
{
    weft__create_message *m = weft__create_message_take(ctx, peer, type, bytes, length);
    if (!m) return;
    switch (type) {
    case WEFT__MESSAGE_CREATE_JOIN: weft__attempt_join(ctx, peer, m); break;
    case WEFT__MESSAGE_CREATE_ASK: on_ask(ctx, peer, m); break;
    case WEFT__MESSAGE_CREATE_MEMBERS: weft__attempt_members(ctx, peer, m); break;
    case WEFT__MESSAGE_CREATE_READY: on_ready(ctx, peer, m); break;
    case WEFT__MESSAGE_CREATE_FAILED: on_failed(ctx, peer, m); break;
    default: weft__attempt_expired(ctx, peer, m);
    }
    weft__reserve_give(m);
}

static bool others_name(const weft_request *req)
{
    const weft_group *group = req->u.creation->group;
    return req->u.creation->lead != req->ctx->rank &&
           weft__spread_goes_by_others(req->ctx, group->world, group->size);
}

/* The lead says to itself also who the members are. */
static void send_join(weft_request *req)
{
    weft_context *ctx = req->ctx;
    const int lead = req->u.creation->lead;
    weft__create_message *m = new_message(req, lead == ctx->rank);
    weft_status status = WEFT_ERR_MEMORY;
    if (m && others_name(req) && weft__gathering_join(req, &m->key, &m->params)) {
        weft__reserve_give(m);
        return;
    }
    if (m) status = weft__create_send(ctx, lead, WEFT__MESSAGE_CREATE_JOIN, m);
    weft__reserve_give(m);
    if (status != WEFT_OK && weft__request_state(req) < WEFT__DRAINING)
        weft__group_create_fail(req, status, -1, weft_last_error());
}

/* Behind the word that it has come, which finds out whether the lead is there still; others carry it, too. */
static void tell_expired(weft_request *req, weft_status status, int culprit, const char *why)
{
    weft_context *ctx = req->ctx;
    const weft__create_key key = joining_of(req)->key;
    const int lead = req->u.creation->lead;
    weft__create_message *m = weft__create_failure(&key, status, culprit, why);
    if (!m) return;
    weft__gathering_name(ctx, &key);
    weft__gathering_gives_up(ctx, m);
    weft__create_send(ctx, lead, WEFT__MESSAGE_CREATE_EXPIRED, m);
    weft__reserve_give(m);
}

static void give_up(weft_request *req)
{
    tell_expired(req, req->u.creation->gave_up, -1, req->u.creation->text);
}

static void ended(weft_request *req)
{
    weft__gathering_end(req->ctx, &joining_of(req)->key);
}

/* ---- ranks that are unreachable from here ---- */

/* The lead is: the attempt has failed for all, which others may be able to tell it. */
static void fail_unreachable_lead(weft_request *req, const char *why)
{
    const int lead = req->u.creation->lead;
    weft__create_message *m = weft__create_failure(&joining_of(req)->key, WEFT_ERR_PEER, lead, why);
    if (m) weft__gathering_gives_up(req->ctx, m);
    weft__reserve_give(m);
    weft__attempt_owe(req->ctx, lead, &joining_of(req)->key, why);
    weft__group_create_fail(req, WEFT_ERR_PEER, lead, why);
}

/* Another member is: the lead, which may reach it, ends the attempt for all. */
static void tell_unreachable(weft_request *req, int rank, const char *why)
{
    joining_of(req)->told = true;
    tell_expired(req, WEFT_ERR_PEER, rank, why);
}

static weft__create_key make_key(const weft_request *req, const weft_group *group)
{
    uint64_t h[2] = {UINT64_C(0xcbf29ce484222325), UINT64_C(0x84222325cbf29ce4)};
    for (int k = 0; k < 2; k++) {
        h[k] = hash(h[k], group->world, (size_t)group->size * sizeof *group->world);
        h[k] = hash(h[k], req->label, strlen(req->label));
    }
    return (weft__create_key){req->group->id,
                              {h[0], h[1]},
                              next_occurrence(req->group, h),
                              (uint32_t)group->size};
}

static void create_start(weft_request *req)
{
    weft_context *ctx = req->ctx;
    joining *j = joining_of(req);
    weft_group *group = j->creation.group;
    weft__create_key key;
    char text[WEFT__GROUP_CREATE_TEXT];
    int lead, unreachable = -1;
    req->algorithm = "lead";
    j->key = make_key(req, group);
    req->sequence = j->key.occurrence;
    j->creation.lead = group->world[0];
    for (int i = 0; i < group->size; i++)
        if (group->world[i] < j->creation.lead) j->creation.lead = group->world[i];
    for (int i = 0; i < group->size; i++) {
        const weft__gone gone = atomic_load(&ctx->peers[group->world[i]].gone);
        if (gone == WEFT__LIVES) continue;
        weft__peer_fate(ctx, group->world[i], text, sizeof text);
        if (gone == WEFT__UNREACHABLE && group->world[i] == j->creation.lead) {
            fail_unreachable_lead(req, text);
            return;
        }
        if (gone == WEFT__UNREACHABLE) {
            unreachable = group->world[i];
            continue;
        }
        /* Not before the lead knows that this rank has come: its count is what late members are told by. */
        if (group->world[i] == j->creation.lead || j->creation.lead == ctx->rank) {
            weft__group_create_fail(req, WEFT_ERR_PEER, group->world[i], text);
            return;
        }
    }
    if (group->size == 1) {
        weft__group_params params = weft__own_params(ctx);
        params.program = group->asks_for_program;
        weft__group_create_ready(req, weft__group_ids(ctx, 1), &params);
        return;
    }
    if (unreachable >= 0) weft__peer_fate(ctx, unreachable, text, sizeof text);
    key = j->key;
    lead = j->creation.lead;
    send_join(
        req); /* to itself, or to a lead that is gone by now, that ends the request: nothing of it is read any more */
    if (unreachable < 0 || lead == ctx->rank) return;
    req = find_request(ctx, lead, &key);
    if (req) tell_unreachable(req, unreachable, text);
}

static weft_request *waiting_for_lead(weft_context *ctx, int lead)
{
    WEFT__LIST_EACH(&ctx->pending, at)
    {
        weft_request *req = WEFT__LIST_ENTRY(at, weft_request, pending);
        if (req->op.kind == WEFT__OP_NEW_GROUP && req->u.creation->lead == lead) return req;
    }
    return NULL;
}

static weft_request *waiting_with(weft_context *ctx, int rank)
{
    WEFT__LIST_EACH(&ctx->pending, at)
    {
        weft_request *req = WEFT__LIST_ENTRY(at, weft_request, pending);
        if (req->op.kind == WEFT__OP_NEW_GROUP && !joining_of(req)->told &&
            weft__group_member(req->u.creation->group, rank) >= 0)
            return req;
    }
    return NULL;
}

/* For a word that others pass on, one of whom has died, that rank.  (Who leaves has sent on what it had, and a lead that leaves tells
 * each that lacks its word itself, before its goodbye.) */
static weft_request *waiting_for_others(weft_context *ctx, int rank)
{
    WEFT__LIST_EACH(&ctx->pending, at)
    {
        weft_request *req = WEFT__LIST_ENTRY(at, weft_request, pending);
        const weft_group *group = req->op.kind == WEFT__OP_NEW_GROUP ? req->u.creation->group : NULL;
        if (group && req->u.creation->gave_up == WEFT_OK && weft__request_state(req) < WEFT__DRAINING &&
            weft__group_member(group, rank) >= 0 &&
            weft__spread_goes_by_others(ctx, group->world, group->size))
            return req;
    }
    return NULL;
}

static void create_peer_gone(weft_context *ctx, int rank, const char *why)
{
    weft_request *req;
    weft__attempts_end(ctx, rank, why);
    while ((req = waiting_for_lead(ctx, rank)) != NULL)
        weft__group_create_fail(req, WEFT_ERR_PEER, rank, why);
    while (!weft__has_left(&ctx->peers[rank]) && (req = waiting_for_others(ctx, rank)) != NULL)
        weft__group_create_doubt(req, rank, why);
    weft__attempts_forget(ctx, rank);
}

static void create_peer_unreachable(weft_context *ctx, int rank, const char *why)
{
    weft_request *req;
    weft__attempts_end(ctx, rank, why);
    while ((req = waiting_for_lead(ctx, rank)) != NULL) fail_unreachable_lead(req, why);
    while ((req = waiting_with(ctx, rank)) != NULL) tell_unreachable(req, rank, why);
}

const weft__protocol weft__group_create_protocol = {.name = "new_group",
                                                    .first = WEFT__MESSAGE_CREATE_JOIN,
                                                    .last = WEFT__MESSAGE_CREATE_EXPIRED,
                                                    .open = weft__attempts_open,
                                                    .close = weft__attempts_close,
                                                    .message = create_take_message,
                                                    .peer_gone = create_peer_gone,
                                                    .peer_unreachable = create_peer_unreachable,
                                                    .peer_returns = weft__attempts_pay,
                                                    .group_gone = create_group_gone};

/* ---- public ---- */

/* Ranks of the parent, none of them twice. */
static weft_status check_each(const weft_group *parent, const int *ranks, int n, unsigned char *there)
{
    for (int i = 0; i < n; i++) {
        int k = 0;
        if (ranks[i] < 0 || ranks[i] >= parent->size)
            return weft__fail(WEFT_ERR_ARGUMENT, "new_group: ranks[%d] is %d: expected 0 to %d", i, ranks[i],
                              parent->size - 1);
        if (!weft__set_has(there, ranks[i])) {
            weft__set_add(there, ranks[i]);
            continue;
        }
        while (ranks[k] != ranks[i]) k++;
        return weft__fail(WEFT_ERR_ARGUMENT, "new_group: rank %d is there twice: ranks[%d] and ranks[%d]",
                          ranks[i], k, i);
    }
    if (!weft__set_has(there, parent->rank))
        return weft__fail(WEFT_ERR_ARGUMENT,
                          "new_group: rank %d calls but is not among the ranks: only members do",
                          parent->rank);
    return WEFT_OK;
}

static weft_status check_ranks(const weft_group *parent, const int *ranks, int n)
{
    unsigned char *there;
    weft_status status;
    if (n < 1 || n > parent->size)
        return weft__fail(WEFT_ERR_ARGUMENT, "new_group: n is %d: expected 1 to %d, the parent's size", n,
                          parent->size);
    if (!ranks) return weft__fail(WEFT_ERR_ARGUMENT, "new_group: ranks is NULL");
    there = calloc(1, weft__set_bytes(parent->size));
    if (!there) return weft__fail_memory(weft__set_bytes(parent->size), "the ranks of a group");
    status = check_each(parent, ranks, n, there);
    free(there);
    return status;
}

weft_status weft_new_group(weft_group *parent, const int *ranks, int n, const weft_call *call,
                           weft_group **group, weft_request **req)
{
    return weft__new_group(parent, ranks, n, call, false, group, req);
}

weft_status weft__new_group(weft_group *parent, const int *ranks, int n, const weft_call *call,
                            bool of_module, weft_group **group, weft_request **req)
{
    weft_context *ctx;
    weft_group *made;
    weft_status status;
    joining *j;
    int *world;

    if (!parent || !group) return weft__fail(WEFT_ERR_ARGUMENT, "new_group: parent or group is NULL");
    ctx = parent->ctx;
    if ((status = weft__usable(ctx)) != WEFT_OK) return status;
    if (weft_group_status(parent) == WEFT_PENDING || atomic_load(&parent->state) == WEFT__FAILED)
        return weft__fail(WEFT_ERR_STATE, "new_group: the parent %s is not there (yet)", parent->label);
    if ((status = check_ranks(parent, ranks, n)) != WEFT_OK) return status;
    if ((status = weft__call_check(call)) != WEFT_OK) return status;
    world = malloc((size_t)n * sizeof *world);
    if (!world) return weft__fail_memory((size_t)n * sizeof *world, "a group");
    for (int i = 0; i < n; i++) world[i] = parent->world[ranks[i]];
    made = weft__group_new(ctx, world, n, call ? call->label : NULL,
                           call && call->timeout_ms ? call->timeout_ms : atomic_load(&parent->timeout_ms));
    free(world);
    if (!made) return WEFT_ERR_MEMORY;
    made->asks_for_program = weft__asks_for_program(call);
    made->of_module = of_module;
    j = calloc(1, sizeof *j);
    if (!j) {
        weft__group_unref(made);
        return weft__fail_memory(sizeof *j, "a group's request");
    }
    j->creation.start = create_start;
    j->creation.give_up = give_up;
    j->creation.ended = ended;
    return weft__group_create_submit(parent, WEFT__OP_NEW_GROUP, &j->creation, made, call, group, req);
}
