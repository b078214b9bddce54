/* group_create.c - new_group: members only, over the parent's connections.
 *
 * Every member tells the lowest one ("lead") that it joins; the lead, when it has heard of all, gives the
 * group its number and tells all.  Attempts pair by (parent, ranks, label) and by how often each member has
 * asked for those.  The lead's engine keeps count whether or not its own caller has come yet.
 *
 * Failing: a member whose time is up tells the lead, who ends the attempt for all that have joined and keeps
 * a tombstone, from which a late member learns of it at once. Only a lead that does not answer lets members
 * fail by themselves.  One that is unreachable from a member (peer.h) fails it there at once, and hears of that when it is
 * reached again, as the others would wait for that member in vain. */
#include "group.h"
#include "group_create_common.h"
#include "peer.h"
#include "protocol.h"
#include "reserve.h"
#include "submit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct create_key {
    uint64_t parent, hash[2];
    uint32_t occurrence, size;
} create_key;

typedef struct create_message {
    create_key key;
    int32_t status,
        culprit; /* culprit: world rank that is gone, or -1; JOIN: WEFT_OK, or the attempt has failed there */
    uint64_t id;
    weft__group_params params;
    char text[WEFT__GROUP_CREATE_TEXT];
    int32_t list[]; /* JOIN: world ranks */
} create_message;

typedef struct attempt { /* at the lead */
    weft__list link;
    int owed_to; /* another lead has not heard that this failed here; -1: it is this rank's own */
    create_key key;
    int *world;
    bool *joined;
    int present, told;
    weft__group_params params;
    weft_status failed;
    int culprit;
    char text[WEFT__GROUP_CREATE_TEXT];
} attempt;

typedef struct joining { /* at every member: its request's */
    weft__group_create creation;
    create_key key;
    bool told; /* the lead: a member is unreachable from here */
} joining;

struct weft__occurrence {
    struct weft__occurrence *next;
    uint64_t hash[2];
    uint32_t count;
};

static bool same_key(const create_key *a, const create_key *b)
{
    return a->parent == b->parent && a->hash[0] == b->hash[0] && a->hash[1] == b->hash[1] &&
           a->occurrence == b->occurrence && a->size == b->size;
}

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

static create_message *new_message(const create_key *key, size_t entries, size_t *bytes)
{
    create_message *m;
    *bytes = sizeof *m + entries * sizeof m->list[0];
    m = weft__reserve_zeroed(*bytes);
    if (m) m->key = *key;
    return m;
}

static void send_small(weft_context *ctx, int to, int type, const create_key *key, weft_status status,
                       int culprit, const char *text)
{
    size_t bytes;
    create_message *m = new_message(key, 0, &bytes);
    if (!m) return;
    m->status = status;
    m->culprit = culprit;
    snprintf(m->text, sizeof m->text, "%s", text);
    weft__p2p_control(ctx->p2p, to, type, m, bytes);
    weft__reserve_give(m);
}

/* ---- at the lead ---- */

/* Attempts to make a group that this rank keeps count of. */
static weft__list *attempts_of(const weft_context *ctx)
{
    return ctx->protocol_state[WEFT__PROTOCOL_CREATE];
}

static attempt *find_attempt(weft_context *ctx, const create_key *key)
{
    WEFT__LIST_EACH(attempts_of(ctx), at)
    {
        attempt *a = WEFT__LIST_ENTRY(at, attempt, link);
        if (a->owed_to < 0 && same_key(&a->key, key)) return a;
    }
    return NULL;
}

static void attempt_free(attempt *a)
{
    weft__list_remove(&a->link);
    weft__reserve_give(a->world);
    weft__reserve_give(a->joined);
    weft__reserve_give(a);
}

static attempt *new_attempt(weft_context *ctx, const create_message *m)
{
    attempt *a = weft__reserve_zeroed(sizeof *a);
    size_t n = m->key.size;
    if (!a) return NULL;
    weft__list_init(&a->link);
    a->owed_to = -1;
    a->key = m->key;
    a->world = weft__reserve_zeroed(n * sizeof *a->world);
    a->joined = weft__reserve_zeroed(n * sizeof *a->joined);
    if (!a->world || !a->joined) {
        attempt_free(a);
        return NULL;
    }
    for (size_t i = 0; i < n; i++) a->world[i] = m->list[i];
    a->params = m->params;
    weft__list_append(attempts_of(ctx), &a->link);
    return a;
}

static void fail_attempt(weft_context *ctx, attempt *a, weft_status status, int culprit, const char *text)
{
    create_key key = a->key;
    if (a->failed != WEFT_OK) return;
    a->failed = status;
    a->culprit = culprit;
    snprintf(a->text, sizeof a->text, "%s", text);
    WEFT__ASSERT(weft__is_failure(status) && a->present <= (int)key.size, status, a->present);
    a->told = a->present;
    for (uint32_t i = 0; i < key.size; i++)
        if (a->joined[i])
            send_small(ctx, a->world[i], WEFT__MESSAGE_CREATE_FAILED, &key, status, culprit, a->text);
    if (a->told == (int)key.size) attempt_free(a);
}

static void complete_attempt(weft_context *ctx, attempt *a)
{
    size_t bytes;
    create_message *m = new_message(&a->key, 0, &bytes);
    WEFT__ASSERT(a->failed == WEFT_OK && a->present == (int)a->key.size, a->failed, a->present, a->key.size);
    if (!m) {
        fail_attempt(ctx, a, WEFT_ERR_MEMORY, -1, "no memory at the lowest member");
        return;
    }
    weft__list_remove(&a->link); /* telling a member may find it gone: that must not end this attempt again */
    m->id = weft__group_ids(ctx, 1);
    m->params = a->params;
    for (uint32_t i = 0; i < a->key.size; i++)
        weft__p2p_control(ctx->p2p, a->world[i], WEFT__MESSAGE_CREATE_READY, m, bytes);
    weft__reserve_give(m);
    attempt_free(a);
}

static int member_of(const attempt *a, int world_rank)
{
    for (uint32_t i = 0; i < a->key.size; i++)
        if (a->world[i] == world_rank) return (int)i;
    return -1;
}

static void on_join(weft_context *ctx, int peer, const create_message *m)
{
    attempt *a = find_attempt(ctx, &m->key);
    int member;
    if (!a) a = new_attempt(ctx, m);
    if (!a) {
        send_small(ctx, peer, WEFT__MESSAGE_CREATE_FAILED, &m->key, WEFT_ERR_MEMORY, -1,
                   "no memory at the lowest member");
        return;
    }
    member = member_of(a, peer);
    if (member >= 0 && a->joined[member] &&
        a->failed != WEFT_OK) { /* it was unreachable when all were told */
        send_small(ctx, peer, WEFT__MESSAGE_CREATE_FAILED, &m->key, a->failed, a->culprit, a->text);
        return;
    }
    if (member < 0 || a->joined[member]) {
        weft__peer_refused(ctx, peer, "it joins a group twice, or one that it is no member of");
        return;
    }
    a->joined[member] = true;
    if (a->failed != WEFT_OK) {
        send_small(ctx, peer, WEFT__MESSAGE_CREATE_FAILED, &m->key, a->failed, a->culprit, a->text);
        if (++a->told == (int)a->key.size) attempt_free(a);
        return;
    }
    a->present++;
    if (m->status != WEFT_OK) {
        fail_attempt(ctx, a, (weft_status)m->status, m->culprit, m->text);
        return;
    }
    weft__group_params_merge(&a->params, &m->params);
    for (uint32_t i = 0; i < a->key.size; i++) {
        char text[WEFT__GROUP_CREATE_TEXT];
        if (a->joined[i] || atomic_load(&ctx->peers[a->world[i]].gone) == WEFT__LIVES) continue;
        weft__peer_fate(ctx, a->world[i], text, sizeof text);
        fail_attempt(ctx, a, WEFT_ERR_PEER, a->world[i], text);
        return;
    }
    if (a->present == (int)a->key.size) complete_attempt(ctx, a);
}

static void on_expired(weft_context *ctx, int peer, const create_message *m)
{
    char text[WEFT__GROUP_CREATE_TEXT];
    attempt *a = find_attempt(ctx, &m->key);
    if (!a || a->failed != WEFT_OK || member_of(a, peer) < 0) return;
    snprintf(text, sizeof text, "%s", m->text);
    for (uint32_t i = 0; i < a->key.size && m->culprit < 0; i++)
        if (!a->joined[i]) weft__group_create_missing(ctx, a->world[i], text, sizeof text);
    fail_attempt(ctx, a, (weft_status)m->status, m->culprit, text);
}

/* ---- at every member ---- */

static joining *joining_of(const weft_request *req)
{
    return WEFT__OWNER(req->u.creation, joining, creation);
}

/* That waits for the word of this lead. */
static weft_request *find_request(weft_context *ctx, int lead, const create_key *key)
{
    WEFT__LIST_EACH(&ctx->pending, at)
    {
        weft_request *req = WEFT__LIST_ENTRY(at, weft_request, pending);
        if (req->op.kind == WEFT__OP_NEW_GROUP && same_key(&joining_of(req)->key, key) &&
            req->u.creation->lead == lead)
            return req;
    }
    return NULL;
}

static void on_ready(weft_context *ctx, int peer, const create_message *m)
{
    weft_request *req = find_request(ctx, peer, &m->key);
    if (req) weft__group_create_ready(req, m->id, &m->params);
}

static void on_failed(weft_context *ctx, int peer, const create_message *m)
{
    weft_request *req = find_request(ctx, peer, &m->key);
    if (req) weft__group_create_fail(req, (weft_status)m->status, m->culprit, m->text);
}

static weft_status check_members(const weft_context *ctx, int peer, const create_message *m, size_t entries)
{
    if (m->key.size > entries)
        return weft__fail(WEFT_ERR_PEER, "a group of %" PRIu32 " members names %zu", m->key.size, entries);
    if (!weft__group_create_sound(ctx, m->list, m->key.size, peer))
        return weft__fail(WEFT_ERR_PEER, "the members of a group are no ranks, or some twice, or it is none");
    return WEFT_OK;
}

static weft_status create_check(const weft_context *ctx, int peer, int type, const create_message *m,
                                size_t entries)
{
    if (m->key.size == 0 || m->key.size > (uint32_t)ctx->world_size)
        return weft__fail(WEFT_ERR_PEER, "a group of %" PRIu32 " members: expected 1 to %d", m->key.size,
                          ctx->world_size);
    if (type == WEFT__MESSAGE_CREATE_JOIN && m->status == WEFT_OK)
        return check_members(ctx, peer, m, entries);
    if (type == WEFT__MESSAGE_CREATE_READY) {
        if (weft__group_maker(m->id) == peer) return WEFT_OK;
        return weft__fail(WEFT_ERR_PEER, "a group of number %#" PRIx64 ", which is not one of its numbers",
                          m->id);
    }
    if (!weft__is_failure(m->status) || m->culprit < -1 || m->culprit >= ctx->world_size)
        return weft__fail(WEFT_ERR_PEER, "a group that fails with status %" PRId32 " over rank %" PRId32,
                          m->status, m->culprit);
    return type == WEFT__MESSAGE_CREATE_JOIN ? check_members(ctx, peer, m, entries) : WEFT_OK;
}

static void create_take_message(weft_context *ctx, int peer, int type, const void *bytes, size_t length)
{
    size_t entries, copy_bytes;
    create_message *m;
    if (length < sizeof *m) {
        weft__peer_refused(ctx, peer, "a message about a new group is too short");
        return;
    }
    entries = (length - sizeof *m) / sizeof m->list[0];
    /* Copied: what is sent in answer may come back through the same buffer. */
    m = new_message(&((const create_message *)bytes)->key, entries, &copy_bytes);
    if (!m) return;
    memcpy(m, bytes, copy_bytes);
    m->text[sizeof m->text - 1] = 0;
    if (create_check(ctx, peer, type, m, entries) != WEFT_OK)
        weft__peer_refused(ctx, peer, weft_last_error());
    else if (type == WEFT__MESSAGE_CREATE_JOIN)
        on_join(ctx, peer, m);
    else if (type == WEFT__MESSAGE_CREATE_READY)
        on_ready(ctx, peer, m);
    else if (type == WEFT__MESSAGE_CREATE_FAILED)
        on_failed(ctx, peer, m);
    else
        on_expired(ctx, peer, m);
    weft__reserve_give(m);
}

static create_message *new_join(const weft_request *req, size_t *bytes)
{
    const joining *j = joining_of(req);
    create_message *m = new_message(&j->key, j->key.size, bytes);
    if (!m) return NULL;
    m->params = weft__own_params(req->ctx);
    m->params.program = j->creation.group->asks_for_program;
    for (uint32_t i = 0; i < j->key.size; i++) m->list[i] = j->creation.group->world[i];
    return m;
}

static void send_join(weft_request *req)
{
    weft_context *ctx = req->ctx;
    joining *j = joining_of(req);
    size_t bytes;
    create_message *m = new_join(req, &bytes);
    weft_status status = WEFT_ERR_MEMORY;
    if (m) {
        status = weft__p2p_control(ctx->p2p, j->creation.lead, WEFT__MESSAGE_CREATE_JOIN, m, bytes);
    }
    weft__reserve_give(m);
    if (status != WEFT_OK && weft__request_state(req) < WEFT__DRAINING)
        weft__group_create_fail(req, status, -1, weft_last_error());
}

static void give_up(weft_request *req)
{
    joining *j = joining_of(req);
    send_small(req->ctx, j->creation.lead, WEFT__MESSAGE_CREATE_EXPIRED, &j->key, j->creation.gave_up, -1,
               j->creation.text);
}

/* ---- ranks that are unreachable from here ---- */

/* The lead is: the attempt has failed for all, and where there is no memory for the word of that their deadlines say so. */
static void fail_unreachable_lead(weft_request *req, const char *why)
{
    weft_context *ctx = req->ctx;
    const int lead = req->u.creation->lead;
    size_t bytes;
    create_message *m = new_join(req, &bytes);
    attempt *a = m ? new_attempt(ctx, m) : NULL;
    if (a) {
        a->owed_to = lead;
        a->failed = WEFT_ERR_PEER;
        a->culprit = lead;
        snprintf(a->text, sizeof a->text, "%s", why);
    }
    weft__reserve_give(m);
    weft__group_create_fail(req, WEFT_ERR_PEER, lead, why);
}

/* Another member is: the lead, which may reach it, ends the attempt for all. */
static void tell_unreachable(weft_request *req, int rank, const char *why)
{
    joining_of(req)->told = true;
    send_small(req->ctx, req->u.creation->lead, WEFT__MESSAGE_CREATE_EXPIRED, &joining_of(req)->key,
               WEFT_ERR_PEER, rank, why);
}

static void pay(weft_context *ctx, attempt *a)
{
    size_t bytes;
    create_message *m = new_message(&a->key, a->key.size, &bytes);
    if (m) {
        for (uint32_t i = 0; i < a->key.size; i++) m->list[i] = a->world[i];
        m->params = a->params;
        m->status = a->failed;
        m->culprit = a->culprit;
        snprintf(m->text, sizeof m->text, "%s", a->text);
        weft__p2p_control(ctx->p2p, a->owed_to, WEFT__MESSAGE_CREATE_JOIN, m, bytes);
    }
    weft__reserve_give(m);
    attempt_free(a);
}

static attempt *owed_to(weft_context *ctx, int rank)
{
    WEFT__LIST_EACH(attempts_of(ctx), at)
    {
        attempt *a = WEFT__LIST_ENTRY(at, attempt, link);
        if (a->owed_to == rank) return a;
    }
    return NULL;
}

static void create_peer_returns(weft_context *ctx, int rank)
{
    attempt *a;
    while ((a = owed_to(ctx, rank)) != NULL) pay(ctx, a);
}

static create_key make_key(const weft_request *req, const weft_group *group)
{
    uint64_t h[2] = {UINT64_C(0xcbf29ce484222325), UINT64_C(0x84222325cbf29ce4)};
    for (int k = 0; k < 2; k++) {
        h[k] = hash(h[k], group->world, (size_t)group->size * sizeof *group->world);
        h[k] = hash(h[k], req->label, strlen(req->label));
    }
    return (create_key){req->group->id, {h[0], h[1]}, next_occurrence(req->group, h), (uint32_t)group->size};
}

static void create_start(weft_request *req)
{
    weft_context *ctx = req->ctx;
    joining *j = joining_of(req);
    weft_group *group = j->creation.group;
    create_key key;
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

static attempt *waiting_for_member(weft_context *ctx, int rank)
{
    /* What was freed has left the list.  NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
    WEFT__LIST_EACH(attempts_of(ctx), at)
    {
        attempt *a = WEFT__LIST_ENTRY(at, attempt, link);
        for (uint32_t i = 0; a->failed == WEFT_OK && i < a->key.size; i++)
            if (a->world[i] == rank) return a;
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

static void create_peer_gone(weft_context *ctx, int rank, const char *why)
{
    weft_request *req;
    attempt *a;
    while ((a = waiting_for_member(ctx, rank)) != NULL) fail_attempt(ctx, a, WEFT_ERR_PEER, rank, why);
    while ((req = waiting_for_lead(ctx, rank)) != NULL)
        weft__group_create_fail(req, WEFT_ERR_PEER, rank, why);
    while ((a = owed_to(ctx, rank)) != NULL) attempt_free(a);
}

static void create_peer_unreachable(weft_context *ctx, int rank, const char *why)
{
    weft_request *req;
    attempt *a;
    while ((a = waiting_for_member(ctx, rank)) != NULL) fail_attempt(ctx, a, WEFT_ERR_PEER, rank, why);
    while ((req = waiting_for_lead(ctx, rank)) != NULL) fail_unreachable_lead(req, why);
    while ((req = waiting_with(ctx, rank)) != NULL) tell_unreachable(req, rank, why);
}

static weft_status open_attempts(weft_context *ctx)
{
    return weft__protocol_open_list(ctx, WEFT__PROTOCOL_CREATE);
}

static void close_attempts(weft_context *ctx)
{
    weft__list *attempts = attempts_of(ctx);
    if (!attempts) return;
    WEFT__LIST_EACH(attempts, at) attempt_free(WEFT__LIST_ENTRY(at, attempt, link));
    free(attempts);
}

const weft__protocol weft__group_create_protocol = {.name = "new_group",
                                                    .first = WEFT__MESSAGE_CREATE_JOIN,
                                                    .last = WEFT__MESSAGE_CREATE_EXPIRED,
                                                    .open = open_attempts,
                                                    .close = close_attempts,
                                                    .message = create_take_message,
                                                    .peer_gone = create_peer_gone,
                                                    .peer_unreachable = create_peer_unreachable,
                                                    .peer_returns = create_peer_returns,
                                                    .group_gone = create_group_gone};

/* ---- public ---- */

static weft_status check_ranks(const weft_group *parent, const int *ranks, int n)
{
    bool here = false;
    if (n < 1 || n > parent->size)
        return weft__fail(WEFT_ERR_ARGUMENT, "new_group: n is %d: expected 1 to %d, the parent's size", n,
                          parent->size);
    if (!ranks) return weft__fail(WEFT_ERR_ARGUMENT, "new_group: ranks is NULL");
    for (int i = 0; i < n; i++) {
        if (ranks[i] < 0 || ranks[i] >= parent->size)
            return weft__fail(WEFT_ERR_ARGUMENT, "new_group: ranks[%d] is %d: expected 0 to %d", i, ranks[i],
                              parent->size - 1);
        for (int k = 0; k < i; k++)
            if (ranks[k] == ranks[i])
                return weft__fail(WEFT_ERR_ARGUMENT,
                                  "new_group: rank %d is there twice: ranks[%d] and ranks[%d]", ranks[i], k,
                                  i);
        here = here || ranks[i] == parent->rank;
    }
    if (!here)
        return weft__fail(WEFT_ERR_ARGUMENT,
                          "new_group: rank %d calls but is not among the ranks: only members do",
                          parent->rank);
    return WEFT_OK;
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
    return weft__group_create_submit(parent, WEFT__OP_NEW_GROUP, &j->creation, made, call, group, req);
}
