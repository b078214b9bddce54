/* form.c - new_group: members only, over the parent's connections.
 *
 * Every member tells the lowest one ("lead") that it joins; the lead, when it has heard of all, gives the
 * group its number and tells all.  Attempts pair by (parent, ranks, label) and by how often each member has
 * asked for those.  The lead's engine keeps count whether or not its own caller has come yet. Failing: a
 * member whose time is up tells the lead, who ends the attempt for all that have joined and keeps a
 * tombstone, from which a late member learns of it at once.  Only a lead that does not answer lets members
 * fail by themselves. */
#include "form.h"
#include "events.h"
#include "group.h"
#include "guardian.h"
#include "leave.h"
#include "member.h"
#include "submit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VERDICT_GRACE_NS (500 * WEFT__MS) /* for the lead's word after this rank's time is up */
#define TEXT_BYTES       600

typedef struct form_key {
    uint64_t parent, hash[2];
    uint32_t occurrence, size;
} form_key;

typedef struct form_message {
    form_key key;
    int32_t status, culprit; /* culprit: world rank that is gone, or -1 */
    uint64_t id, row;
    weft__table table;
    char text[TEXT_BYTES];
    uint64_t list[]; /* JOIN: world ranks; READY: rows */
} form_message;

typedef struct attempt { /* at the lead */
    weft__list link;
    form_key key;
    int *world;
    uint64_t *rows;
    bool *joined;
    int present, told;
    weft__table table;
    weft_status failed;
    int culprit;
    char text[TEXT_BYTES];
} attempt;

struct weft__forming {
    form_key key;
    weft_group *group;
    int lead; /* world rank */
    uint64_t row;
    bool gave_up;
    weft_status status;
    char text[TEXT_BYTES];
};

struct weft__occurrence {
    struct weft__occurrence *next;
    uint64_t hash[2];
    uint32_t count;
};

static bool same_key(const form_key *a, const form_key *b)
{
    return a->parent == b->parent && a->hash[0] == b->hash[0] && a->hash[1] == b->hash[1] &&
           a->occurrence == b->occurrence && a->size == b->size;
}

/* FNV-1a, twice from different offsets: members trust each other, so chance is all that has to be kept away.
 */
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
        o = calloc(1, sizeof *o);
        if (!o) return 0;
        o->hash[0] = h[0];
        o->hash[1] = h[1];
        o->next = parent->occurrences;
        parent->occurrences = o;
    }
    return ++o->count;
}

void weft__occurrences_free(weft_group *group)
{
    while (group->occurrences) {
        struct weft__occurrence *o = group->occurrences;
        group->occurrences = o->next;
        free(o);
    }
}

static form_message *new_message(const form_key *key, size_t entries, size_t *bytes)
{
    form_message *m;
    *bytes = sizeof *m + entries * sizeof m->list[0];
    m = calloc(1, *bytes);
    if (m) m->key = *key;
    return m;
}

static void send_small(weft_context *ctx, int to, int type, const form_key *key, weft_status status,
                       int culprit, const char *text)
{
    size_t bytes;
    form_message *m = new_message(key, 0, &bytes);
    if (!m) return;
    m->status = status;
    m->culprit = culprit;
    snprintf(m->text, sizeof m->text, "%s", text);
    weft__mail_control(ctx->mail, to, type, m, bytes);
    free(m);
}

/* ---- at the lead ---- */

static attempt *find_attempt(weft_context *ctx, const form_key *key)
{
    WEFT__LIST_EACH(&ctx->forming, at)
    {
        attempt *a = WEFT__LIST_ENTRY(at, attempt, link);
        if (same_key(&a->key, key)) return a;
    }
    return NULL;
}

static void attempt_free(attempt *a)
{
    weft__list_remove(&a->link);
    free(a->world);
    free(a->rows);
    free(a->joined);
    free(a);
}

static attempt *new_attempt(weft_context *ctx, const form_message *m)
{
    attempt *a = calloc(1, sizeof *a);
    size_t n = m->key.size;
    if (!a) return NULL;
    weft__list_init(&a->link);
    a->key = m->key;
    a->world = calloc(n, sizeof *a->world);
    a->rows = calloc(n, sizeof *a->rows);
    a->joined = calloc(n, sizeof *a->joined);
    if (!a->world || !a->rows || !a->joined) {
        attempt_free(a);
        return NULL;
    }
    for (size_t i = 0; i < n; i++) a->world[i] = (int)m->list[i];
    a->table = m->table;
    weft__list_append(&ctx->forming, &a->link);
    return a;
}

/* Who is missing, behind "...: 1.5 s passed". */
static void missing_text(weft_context *ctx, const attempt *a, const char *start, char *text, size_t bytes)
{
    char who[192];
    size_t at = (size_t)snprintf(text, bytes, "%s", start);
    for (uint32_t i = 0; i < a->key.size && at < bytes; i++) {
        if (a->joined[i]) continue;
        weft__member_name(ctx, a->world[i], who, sizeof who);
        at += (size_t)snprintf(text + at, bytes - at, "; %s has not joined", who);
    }
}

static void fail_attempt(weft_context *ctx, attempt *a, weft_status status, int culprit, const char *text)
{
    form_key key = a->key;
    if (a->failed != WEFT_OK) return;
    a->failed = status;
    a->culprit = culprit;
    snprintf(a->text, sizeof a->text, "%s", text);
    a->told = a->present;
    for (uint32_t i = 0; i < key.size; i++)
        if (a->joined[i])
            send_small(ctx, a->world[i], WEFT__MESSAGE_FORM_FAILED, &key, status, culprit, a->text);
    if (a->told == (int)key.size) attempt_free(a);
}

static void complete_attempt(weft_context *ctx, attempt *a)
{
    size_t bytes;
    form_message *m = new_message(&a->key, a->key.size, &bytes);
    if (!m) {
        fail_attempt(ctx, a, WEFT_ERR_MEMORY, -1, "no memory at the lowest member");
        return;
    }
    weft__list_remove(&a->link); /* telling a member may find it gone: that must not end this attempt again */
    m->id = weft__group_ids(ctx, 1);
    m->table = a->table;
    for (uint32_t i = 0; i < a->key.size; i++) {
        m->list[i] = a->rows[i];
        if (a->rows[i] == 0) m->table.rounds = 0;
    }
    for (uint32_t i = 0; i < a->key.size; i++)
        weft__mail_control(ctx->mail, a->world[i], WEFT__MESSAGE_FORM_READY, m, bytes);
    free(m);
    attempt_free(a);
}

static void on_join(weft_context *ctx, int peer, const form_message *m)
{
    attempt *a = find_attempt(ctx, &m->key);
    if (!a) a = new_attempt(ctx, m);
    if (!a) {
        send_small(ctx, peer, WEFT__MESSAGE_FORM_FAILED, &m->key, WEFT_ERR_MEMORY, -1,
                   "no memory at the lowest member");
        return;
    }
    if (a->failed != WEFT_OK) {
        send_small(ctx, peer, WEFT__MESSAGE_FORM_FAILED, &m->key, a->failed, a->culprit, a->text);
        if (++a->told == (int)a->key.size) attempt_free(a);
        return;
    }
    for (uint32_t i = 0; i < a->key.size; i++) {
        if (a->world[i] != peer || a->joined[i]) continue;
        a->joined[i] = true;
        a->rows[i] = m->row;
        a->present++;
        weft__table_merge(&a->table, &m->table);
    }
    for (uint32_t i = 0; i < a->key.size; i++) {
        const weft__member *member = &ctx->members[a->world[i]];
        char text[TEXT_BYTES];
        if (a->joined[i] || !atomic_load(&member->gone)) continue;
        weft__member_fate(ctx, a->world[i], text, sizeof text);
        fail_attempt(ctx, a, WEFT_ERR_PEER, a->world[i], text);
        return;
    }
    if (a->present == (int)a->key.size) complete_attempt(ctx, a);
}

static void on_expired(weft_context *ctx, const form_message *m)
{
    char text[TEXT_BYTES];
    attempt *a = find_attempt(ctx, &m->key);
    if (!a || a->failed != WEFT_OK) return;
    missing_text(ctx, a, m->text, text, sizeof text);
    fail_attempt(ctx, a, (weft_status)m->status, m->culprit, text);
}

/* ---- at every member ---- */

static weft_request *find_request(weft_context *ctx, const form_key *key)
{
    WEFT__LIST_EACH(&ctx->pending, at)
    {
        weft_request *req = WEFT__LIST_ENTRY(at, weft_request, pending);
        if (req->op.kind == WEFT__OP_NEW_GROUP && same_key(&req->u.forming->key, key)) return req;
    }
    return NULL;
}

static void fail_request(weft_request *req, weft_status status, int culprit, const char *text)
{
    if (culprit >= 0) req->culprit = weft__group_member(req->group, culprit);
    struct weft__forming *f = req->u.forming;
    if (f->row) weft__row_give(req->ctx->board, f->row);
    f->row = 0;
    weft__group_fail(f->group, status, text);
    weft__request_settle(req, status, text);
}

static void on_ready(weft_context *ctx, const form_message *m)
{
    weft_request *req = find_request(ctx, &m->key);
    weft_status status;
    if (!req) return;
    req->u.forming->row = 0; /* the group's now, or given back below */
    status = weft__group_ready(req->u.forming->group, m->id, &m->table, m->list);
    if (!m->table.rounds && m->list[req->u.forming->group->rank])
        weft__row_give(ctx->board, m->list[req->u.forming->group->rank]);
    if (status == WEFT_OK)
        weft__request_settle(req, WEFT_OK, NULL);
    else
        fail_request(req, status, -1, weft_last_error());
}

static void on_failed(weft_context *ctx, const form_message *m)
{
    weft_request *req = find_request(ctx, &m->key);
    char name[256], text[WEFT__SENTENCE_BYTES];
    if (!req) return;
    weft__request_name(req, name, sizeof name);
    snprintf(text, sizeof text, "%s: %s", name, m->text);
    fail_request(req, (weft_status)m->status, m->culprit, text);
}

static bool is_sound(const weft_context *ctx, int type, const form_message *m, size_t entries)
{
    if (m->key.size == 0 || m->key.size > (uint32_t)ctx->world_size) return false;
    if ((type == WEFT__MESSAGE_FORM_JOIN || type == WEFT__MESSAGE_FORM_READY) && m->key.size > entries)
        return false;
    for (uint32_t i = 0; type == WEFT__MESSAGE_FORM_JOIN && i < m->key.size; i++)
        if (m->list[i] >= (uint64_t)ctx->world_size) return false;
    return true;
}

void weft__form_control(weft_context *ctx, int peer, int type, const void *bytes, size_t length)
{
    size_t entries, copy_bytes;
    form_message *m;
    if (length < sizeof *m) return;
    entries = (length - sizeof *m) / sizeof m->list[0];
    /* Copied: what is sent in answer may come back through the same buffer. */
    m = new_message(&((const form_message *)bytes)->key, entries, &copy_bytes);
    if (!m) return;
    memcpy(m, bytes, copy_bytes);
    m->text[sizeof m->text - 1] = 0;
    switch (is_sound(ctx, type, m, entries) ? type : 0) {
    case WEFT__MESSAGE_FORM_JOIN: on_join(ctx, peer, m); break;
    case WEFT__MESSAGE_FORM_READY: on_ready(ctx, m); break;
    case WEFT__MESSAGE_FORM_FAILED: on_failed(ctx, m); break;
    case WEFT__MESSAGE_FORM_EXPIRED: on_expired(ctx, m); break;
    default: break;
    }
    free(m);
}

static void send_join(weft_request *req)
{
    weft_context *ctx = req->ctx;
    struct weft__forming *f = req->u.forming;
    size_t bytes;
    form_message *m = new_message(&f->key, f->key.size, &bytes);
    weft_status status = WEFT_ERR_MEMORY;
    if (m) {
        m->row = f->row;
        m->table = weft__own_table(ctx);
        m->table.rounds = f->row != 0;
        for (uint32_t i = 0; i < f->key.size; i++) m->list[i] = (uint64_t)f->group->world[i];
        status = weft__mail_control(ctx->mail, f->lead, WEFT__MESSAGE_FORM_JOIN, m, bytes);
    }
    free(m);
    if (status != WEFT_OK && weft__request_state(req) < WEFT__DRAINING)
        fail_request(req, status, -1, weft_last_error());
}

void weft__form_start(weft_request *req)
{
    weft_context *ctx = req->ctx;
    struct weft__forming *f = req->u.forming;
    weft_group *group = f->group;
    char text[TEXT_BYTES];
    uint64_t h[2] = {UINT64_C(0xcbf29ce484222325), UINT64_C(0x84222325cbf29ce4)};
    req->algorithm = "lead";
    for (int k = 0; k < 2; k++) {
        h[k] = hash(h[k], group->world, (size_t)group->size * sizeof *group->world);
        h[k] = hash(h[k], req->label, strlen(req->label));
    }
    f->key = (form_key){req->group->id, {h[0], h[1]}, next_occurrence(req->group, h), (uint32_t)group->size};
    req->sequence = f->key.occurrence;
    f->lead = group->world[0];
    for (int i = 0; i < group->size; i++) {
        if (group->world[i] < f->lead) f->lead = group->world[i];
        if (!atomic_load(&ctx->members[group->world[i]].gone)) continue;
        weft__member_fate(ctx, group->world[i], text, sizeof text);
        /* Not before the lead knows that this rank has come: its count is what late members are told by. */
        if (group->world[i] == f->lead || f->lead == ctx->rank) {
            fail_request(req, WEFT_ERR_PEER, group->world[i], text);
            return;
        }
    }
    if (group->size == 1) {
        weft__table table = weft__own_table(ctx);
        weft__group_ready(group, weft__group_ids(ctx, 1), &table, NULL);
        weft__request_settle(req, WEFT_OK, NULL);
        return;
    }
    f->row = weft__on_board(ctx, group->world, group->size) ? weft__group_row(ctx) : 0;
    send_join(req);
}

void weft__form_give_up(weft_request *req, weft_status status, const char *why)
{
    struct weft__forming *f = req->u.forming;
    if (f->gave_up || weft__request_state(req) >= WEFT__DRAINING) return;
    f->gave_up = true;
    f->status = status;
    snprintf(f->text, sizeof f->text, "%s", why);
    req->deadline_ns = weft__now_ns() + VERDICT_GRACE_NS;
    weft__guardian_look(req->ctx, req->deadline_ns);
    send_small(req->ctx, f->lead, WEFT__MESSAGE_FORM_EXPIRED, &f->key, status, -1, why);
}

void weft__form_expire(weft_request *req, int64_t now_ns)
{
    struct weft__forming *f = req->u.forming;
    char text[WEFT__SENTENCE_BYTES], name[256], who[192];
    if (!f->gave_up) {
        snprintf(text, sizeof text, "%.1f s passed", (double)(now_ns - req->submitted_ns) / 1e9);
        weft__form_give_up(req, WEFT_ERR_TIMEOUT, text);
        return;
    }
    weft__request_name(req, name, sizeof name);
    weft__member_name(req->ctx, f->lead, who, sizeof who);
    snprintf(text, sizeof text, "%s: %.400s; %s does not answer", name, f->text, who);
    fail_request(req, f->status, -1, text);
}

void weft__form_abort(weft_group *group, const char *why)
{
    WEFT__LIST_EACH(&group->ctx->pending, at)
    {
        weft_request *req = WEFT__LIST_ENTRY(at, weft_request, pending);
        if (req->op.kind != WEFT__OP_NEW_GROUP || req->u.forming->group != group) continue;
        weft__form_give_up(req, WEFT_ERR_CANCELLED, why);
        return;
    }
}

void weft__form_stop(weft_request *req)
{
    struct weft__forming *f = req->u.forming;
    if (f->row) weft__row_give(req->ctx->board, f->row);
    f->row = 0;
    weft__group_fail(f->group, WEFT_ERR_CANCELLED, "its context is ending");
}

void weft__forming_free(weft_request *req)
{
    if (!req->u.forming) return;
    weft__group_unref(req->u.forming->group);
    free(req->u.forming);
    req->u.forming = NULL;
}

static weft_request *waiting_for_lead(weft_context *ctx, int lead)
{
    WEFT__LIST_EACH(&ctx->pending, at)
    {
        weft_request *req = WEFT__LIST_ENTRY(at, weft_request, pending);
        if (req->op.kind == WEFT__OP_NEW_GROUP && req->u.forming->lead == lead) return req;
    }
    return NULL;
}

static attempt *waiting_for_member(weft_context *ctx, int rank)
{
    /* What was freed has left the list.  NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
    WEFT__LIST_EACH(&ctx->forming, at)
    {
        attempt *a = WEFT__LIST_ENTRY(at, attempt, link);
        for (uint32_t i = 0; a->failed == WEFT_OK && i < a->key.size; i++)
            if (a->world[i] == rank) return a;
    }
    return NULL;
}

void weft__form_gone(weft_context *ctx, int rank, const char *why)
{
    weft_request *req;
    attempt *a;
    char name[256], text[WEFT__SENTENCE_BYTES];
    while ((a = waiting_for_member(ctx, rank)) != NULL) fail_attempt(ctx, a, WEFT_ERR_PEER, rank, why);
    while ((req = waiting_for_lead(ctx, rank)) != NULL) {
        weft__request_name(req, name, sizeof name);
        snprintf(text, sizeof text, "%s: %.600s", name, why);
        fail_request(req, WEFT_ERR_PEER, rank, text);
    }
}

void weft__form_close(weft_context *ctx)
{
    WEFT__LIST_EACH(&ctx->forming, at) attempt_free(WEFT__LIST_ENTRY(at, attempt, link));
}

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

weft_status weft__submit_making(weft_request *r, const weft_call *call, weft_group *made, weft_group **group,
                                weft_request **req)
{
    weft_group *before = *group;
    weft_status status;
    if (req) *group = made; /* first: its callback may use it before this function returns */
    status = weft__submit_timed(r, call, req);
    if (status == WEFT_OK && !req) *group = made;
    if (status != WEFT_OK && req) *group = before;
    if (status != WEFT_OK && made) weft__group_unref(made);
    return status;
}

weft_status weft_new_group(weft_group *parent, const int *ranks, int n, const weft_call *call,
                           weft_group **group, weft_request **req)
{
    weft_context *ctx;
    weft_group *made;
    weft_request *r;
    weft__op op = {.kind = WEFT__OP_NEW_GROUP, .memory = WEFT_MEMORY_HOST, .scale = 1};
    weft_status status;
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
    r = weft__request_new(ctx, parent, &op, call);
    if (r) r->u.forming = calloc(1, sizeof *r->u.forming);
    if (!r || !r->u.forming) {
        if (r) weft__request_unref(r);
        weft__group_unref(made);
        return r ? weft__fail_memory(sizeof *r->u.forming, "a group's request") : WEFT_ERR_MEMORY;
    }
    r->u.forming->group = made;
    weft__group_ref(made);
    return weft__submit_making(r, call, made, group, req);
}
