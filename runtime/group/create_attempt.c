/* create_attempt.c - see create_attempt.h. */
#include "create_attempt.h"

#include "peer.h"
#include "protocol.h"
#include "rank_set.h"
#include "reserve.h"
#include "spreading.h"

#include <stdio.h>
#include <string.h>

enum { NOBODY = -1 };

typedef struct attempt {
    weft__list link;
    int owed_to; /* another lead has not heard that this failed here; NOBODY: it is this rank's own, and has all that follows */
    weft__create_key key;
    unsigned char *joined;  /* sets of ranks of the world */
    unsigned char *members; /* NULL: not known yet */
    int present;            /* who have joined while it could succeed */
    int told;               /* who know that it failed */
    bool by_others;         /* some were named by others, and may be once more when it is over */
    weft__group_params params;
    weft_status failed;
    int culprit;
    char text[WEFT__GROUP_CREATE_TEXT];
} attempt;

static weft__list *attempts_of(const weft_context *ctx)
{
    return ctx->protocol_state[WEFT__PROTOCOL_CREATE];
}

static attempt *find_attempt(weft_context *ctx, const weft__create_key *key)
{
    WEFT__LIST_EACH(attempts_of(ctx), at)
    {
        attempt *a = WEFT__LIST_ENTRY(at, attempt, link);
        if (a->owed_to == NOBODY && weft__create_same(&a->key, key)) return a;
    }
    return NULL;
}

static void attempt_free(attempt *a)
{
    weft__list_remove(&a->link);
    weft__reserve_give(a->joined);
    weft__reserve_give(a->members);
    weft__reserve_give(a);
}

static attempt *new_attempt(weft_context *ctx, const weft__create_key *key, int owed_to)
{
    attempt *a = weft__reserve_zeroed(sizeof *a);
    if (!a) return NULL;
    weft__list_init(&a->link);
    a->owed_to = owed_to;
    a->key = *key;
    weft__list_append(attempts_of(ctx), &a->link);
    return a;
}

static attempt *open_attempt(weft_context *ctx, const weft__create_key *key, const weft__group_params *params)
{
    attempt *a = new_attempt(ctx, key, NOBODY);
    if (!a) return NULL;
    a->params = *params;
    a->joined = weft__reserve_zeroed(weft__set_bytes(ctx->world_size));
    if (a->joined) return a;
    attempt_free(a);
    return NULL;
}

/* It is over, and all know. */
static void end_attempt(weft_context *ctx, attempt *a)
{
    if (a->by_others) weft__gathering_over(ctx, &a->key);
    attempt_free(a);
}

static void fail_attempt(weft_context *ctx, attempt *a, weft_status status, int culprit, const char *text)
{
    const weft__create_key key = a->key;
    weft__create_message *m;
    if (a->failed != WEFT_OK) return;
    a->failed = status;
    a->culprit = culprit;
    snprintf(a->text, sizeof a->text, "%s", text);
    WEFT__ASSERT(weft__is_failure(status) && a->present <= (int)key.size, status, a->present);
    m = weft__create_failure(&key, status, culprit, a->text);
    if (m) weft__spread(ctx, WEFT__MESSAGE_CREATE_FAILED, m, sizeof *m + m->length, a->joined);
    weft__reserve_give(m);
    /* Only now: who joins in the middle of that, as telling one finds others gone, must not be the last one to be told. */
    a->told += a->present;
    if (a->told == (int)key.size) end_attempt(ctx, a);
}

static void complete_attempt(weft_context *ctx, attempt *a)
{
    weft__create_message *m = weft__create_message_new(&a->key, 0);
    WEFT__ASSERT(a->failed == WEFT_OK && a->members && a->present == (int)a->key.size, a->failed, a->present,
                 a->key.size);
    if (!m) {
        fail_attempt(ctx, a, WEFT_ERR_MEMORY, -1, "no memory at the lowest member");
        return;
    }
    weft__list_remove(&a->link); /* telling a member may find it gone: that must not end this attempt again */
    m->id = weft__group_ids(ctx, 1);
    m->params = a->params;
    if (a->by_others) weft__gathering_over(ctx, &a->key);
    weft__spread(ctx, WEFT__MESSAGE_CREATE_READY, m, sizeof *m, a->members);
    weft__reserve_give(m);
    attempt_free(a);
}

/* ---- who the members are ---- */

/* Who died before that was known ends it now, and later ones as they die. */
static bool all_live(weft_context *ctx, attempt *a)
{
    char text[WEFT__GROUP_CREATE_TEXT];
    for (int rank = weft__set_next(a->members, 0, ctx->world_size); rank >= 0;
         rank = weft__set_next(a->members, rank + 1, ctx->world_size)) {
        if (weft__set_has(a->joined, rank) || atomic_load(&ctx->peers[rank].gone) == WEFT__LIVES) continue;
        weft__peer_fate(ctx, rank, text, sizeof text);
        fail_attempt(ctx, a, WEFT_ERR_PEER, rank, text);
        return false;
    }
    return true;
}

/* Who has joined and is none of the members is not counted any more. */
static void put_out_others(weft_context *ctx, attempt *a)
{
    for (int rank = weft__set_next(a->joined, 0, ctx->world_size); rank >= 0;
         rank = weft__set_next(a->joined, rank + 1, ctx->world_size)) {
        if (weft__set_has(a->members, rank)) continue;
        weft__set_remove(a->joined, rank);
        a->present--;
        weft__peer_refused(ctx, rank, "it joins a group that it is no member of");
    }
}

/* False: the attempt has failed. */
static bool learn_members(weft_context *ctx, attempt *a, const weft__create_message *m)
{
    if (a->members) return true;
    a->members = weft__reserve_zeroed(m->length);
    if (!a->members) {
        fail_attempt(ctx, a, WEFT_ERR_MEMORY, -1, "no memory at the lowest member");
        return false;
    }
    memcpy(a->members, m->rest, m->length);
    put_out_others(ctx, a);
    return all_live(ctx, a);
}

static void ask_for_members(weft_context *ctx, const attempt *a, int peer)
{
    weft__create_message *m = weft__create_message_new(&a->key, 0);
    if (m) weft__create_send(ctx, peer, WEFT__MESSAGE_CREATE_ASK, m);
    weft__reserve_give(m);
}

void weft__attempt_members(weft_context *ctx, int peer, const weft__create_message *m)
{
    attempt *a = find_attempt(ctx, &m->key);
    if (!a || a->failed != WEFT_OK) return; /* it is over */
    if (!weft__set_has(a->joined, peer)) {
        weft__peer_refused(ctx, peer, "it tells of the members of a group that it has not joined");
        return;
    }
    if (learn_members(ctx, a, m) && a->present == (int)a->key.size) complete_attempt(ctx, a);
}

/* ---- who has come ---- */

static void tell_failed(weft_context *ctx, const attempt *a, int peer)
{
    weft__create_send_failure(ctx, peer, WEFT__MESSAGE_CREATE_FAILED, &a->key, a->failed, a->culprit,
                              a->text);
}

static void join_failed(weft_context *ctx, attempt *a, int peer)
{
    const bool again = weft__set_has(a->joined, peer); /* it was unreachable when all were told */
    weft__set_add(a->joined, peer);
    tell_failed(ctx, a, peer);
    if (!again && ++a->told == (int)a->key.size) end_attempt(ctx, a);
}

/* Somebody has come; is_first: nobody had before. */
static void go_on(weft_context *ctx, attempt *a, int peer, bool is_first)
{
    if (!a->members && is_first)
        ask_for_members(ctx, a, peer);
    else if (a->members && a->present == (int)a->key.size)
        complete_attempt(ctx, a);
}

/* False: it is refused, as all have come without it. */
static bool come_to(weft_context *ctx, attempt *a, int peer)
{
    if (weft__set_has(a->joined, peer)) return true;
    if (a->present == (int)a->key.size) {
        weft__peer_refused(ctx, peer, "it joins a group of which all have come");
        return false;
    }
    weft__set_add(a->joined, peer);
    a->present++;
    return true;
}

void weft__attempt_join(weft_context *ctx, int peer, const weft__create_message *m)
{
    attempt *a = find_attempt(ctx, &m->key);
    if (!a && weft__gathering_is_over(ctx, &m->key)) return;
    if (!a) a = open_attempt(ctx, &m->key, &m->params);
    if (!a) {
        weft__create_send_failure(ctx, peer, WEFT__MESSAGE_CREATE_FAILED, &m->key, WEFT_ERR_MEMORY, -1,
                                  "no memory at the lowest member");
        return;
    }
    if (a->members && !weft__set_has(a->members, peer)) {
        weft__peer_refused(ctx, peer, "it joins a group that it is no member of");
        return;
    }
    if (a->failed != WEFT_OK) {
        join_failed(ctx, a, peer);
        return;
    }
    if (m->status == WEFT_OK && weft__set_has(a->joined, peer)) {
        weft__peer_refused(ctx, peer, "it joins a group twice");
        return;
    }
    if (!come_to(ctx, a, peer)) return;
    if (m->status != WEFT_OK) {
        fail_attempt(ctx, a, (weft_status)m->status, m->culprit, (const char *)m->rest);
        return;
    }
    weft__group_params_merge(&a->params, &m->params);
    if (m->length && !learn_members(ctx, a, m)) return;
    go_on(ctx, a, peer, a->present == 1);
}

/* ---- who has come by the word of others ---- */

/* That it has failed, and all in the set hear of. */
static void joins_failed(weft_context *ctx, attempt *a, const unsigned char *set, int count)
{
    weft__create_message *m = weft__create_failure(&a->key, a->failed, a->culprit, a->text);
    if (m) weft__spread(ctx, WEFT__MESSAGE_CREATE_FAILED, m, sizeof *m + m->length, set);
    weft__reserve_give(m);
    a->told += count; /* only now, as in fail_attempt */
    if (a->told == (int)a->key.size) end_attempt(ctx, a);
}

/* Who has ended before it was named ends the attempt: false. */
static bool named_live(weft_context *ctx, attempt *a, const unsigned char *set)
{
    char text[WEFT__GROUP_CREATE_TEXT];
    for (int rank = weft__set_next(set, 0, ctx->world_size); rank >= 0;
         rank = weft__set_next(set, rank + 1, ctx->world_size)) {
        if (rank == ctx->rank || atomic_load(&ctx->peers[rank].gone) == WEFT__LIVES) continue;
        weft__peer_fate(ctx, rank, text, sizeof text);
        fail_attempt(ctx, a, WEFT_ERR_PEER, rank, text);
        return false;
    }
    return true;
}

/* Some that were not known to have come. */
static void add_named(weft_context *ctx, attempt *a, int peer, const unsigned char *set,
                      const weft__group_params *params)
{
    const size_t bytes = weft__set_bytes(ctx->world_size);
    const int count = weft__set_count(set, ctx->world_size);
    const bool is_first = a->present == 0;
    if ((a->members && !weft__set_is_within(set, a->members, bytes)) ||
        (a->failed == WEFT_OK && a->present + count > (int)a->key.size)) {
        weft__peer_refused(ctx, peer, "it names ranks that are no members of the group that they join");
        return;
    }
    weft__set_unite(a->joined, set, bytes);
    a->by_others = true;
    if (a->failed != WEFT_OK) {
        joins_failed(ctx, a, set, count);
        return;
    }
    a->present += count;
    weft__group_params_merge(&a->params, params);
    if (named_live(ctx, a, set)) go_on(ctx, a, weft__set_next(set, 0, ctx->world_size), is_first);
}

/* To one that names itself to an attempt that is over, as it does where it waits for a word that others keep. */
static void say_again(weft_context *ctx, int peer, const weft__gather_word *w)
{
    if (weft__set_has(w->set, peer)) weft__spread_again(ctx, peer, &w->key, sizeof w->key);
}

void weft__attempt_joins(weft_context *ctx, int peer, const weft__gather_word *w)
{
    const size_t bytes = weft__set_bytes(ctx->world_size);
    attempt *a = find_attempt(ctx, &w->key);
    unsigned char *fresh;
    if (!a && weft__gathering_is_over(ctx, &w->key)) {
        say_again(ctx, peer, w);
        return;
    }
    fresh = weft__reserve_get(bytes);
    if (!a && fresh) a = open_attempt(ctx, &w->key, &w->params);
    if (a && fresh) {
        for (size_t i = 0; i < bytes; i++) fresh[i] = (unsigned char)(w->set[i] & ~a->joined[i]);
        if (!weft__set_is_empty(fresh, bytes))
            add_named(ctx, a, peer, fresh, &w->params);
        else if (a->failed != WEFT_OK)
            say_again(ctx, peer, w);
    } else if (a) {
        fail_attempt(ctx, a, WEFT_ERR_MEMORY, -1, "no memory at the lowest member");
    } else {
        weft__create_send_failure(ctx, peer, WEFT__MESSAGE_CREATE_FAILED, &w->key, WEFT_ERR_MEMORY, -1,
                                  "no memory at the lowest member");
    }
    weft__reserve_give(fresh);
}

const unsigned char *weft__attempt_joined(weft_context *ctx, const weft__create_key *key)
{
    const attempt *a = find_attempt(ctx, key);
    return a && a->failed == WEFT_OK ? a->joined : NULL;
}

/* ---- what ends it ---- */

/* Who has not joined: this rank itself is one of those as long as it does not know the others. */
static void name_missing(const weft_context *ctx, const attempt *a, char *text, size_t bytes)
{
    if (!a->members) {
        weft__group_create_missing(ctx, ctx->rank, false, text, bytes);
        return;
    }
    for (int rank = weft__set_next(a->members, 0, ctx->world_size); rank >= 0;
         rank = weft__set_next(a->members, rank + 1, ctx->world_size))
        if (!weft__set_has(a->joined, rank)) weft__group_create_missing(ctx, rank, a->by_others, text, bytes);
}

void weft__attempt_expired(weft_context *ctx, int peer, const weft__create_message *m)
{
    char text[WEFT__GROUP_CREATE_TEXT];
    attempt *a = find_attempt(ctx, &m->key);
    if (!a || a->failed != WEFT_OK) { /* it is over, which others may still have to tell that member */
        weft__spread_again(ctx, peer, &m->key, sizeof m->key);
        return;
    }
    if (!weft__set_has(a->joined, peer)) return;
    snprintf(text, sizeof text, "%s", (const char *)m->rest);
    if (m->culprit < 0) name_missing(ctx, a, text, sizeof text);
    fail_attempt(ctx, a, (weft_status)m->status, m->culprit, text);
}

static attempt *waiting_for(weft_context *ctx, int rank)
{
    /* What was freed has left the list.  NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
    WEFT__LIST_EACH(attempts_of(ctx), at)
    {
        attempt *a = WEFT__LIST_ENTRY(at, attempt, link);
        if (a->owed_to == NOBODY && a->failed == WEFT_OK &&
            weft__set_has(a->members ? a->members : a->joined, rank))
            return a;
    }
    return NULL;
}

void weft__attempts_end(weft_context *ctx, int rank, const char *why)
{
    attempt *a;
    while ((a = waiting_for(ctx, rank)) != NULL) fail_attempt(ctx, a, WEFT_ERR_PEER, rank, why);
}

/* ---- what other leads have not heard ---- */

static attempt *owed_to(weft_context *ctx, int lead)
{
    WEFT__LIST_EACH(attempts_of(ctx), at)
    {
        attempt *a = WEFT__LIST_ENTRY(at, attempt, link);
        if (a->owed_to == lead) return a;
    }
    return NULL;
}

void weft__attempt_owe(weft_context *ctx, int lead, const weft__create_key *key, const char *why)
{
    attempt *a = new_attempt(ctx, key, lead);
    if (!a) return;
    a->failed = WEFT_ERR_PEER;
    a->culprit = lead;
    snprintf(a->text, sizeof a->text, "%s", why);
}

void weft__attempts_pay(weft_context *ctx, int lead)
{
    attempt *a;
    while ((a = owed_to(ctx, lead)) != NULL) {
        weft__list_remove(&a->link); /* telling may find it gone, and then it is owed nothing */
        weft__create_send_failure(ctx, lead, WEFT__MESSAGE_CREATE_JOIN, &a->key, a->failed, a->culprit,
                                  a->text);
        attempt_free(a);
    }
}

void weft__attempts_forget(weft_context *ctx, int lead)
{
    attempt *a;
    while ((a = owed_to(ctx, lead)) != NULL) attempt_free(a);
}

weft_status weft__attempts_open(weft_context *ctx)
{
    return weft__protocol_open_list(ctx, WEFT__PROTOCOL_CREATE);
}

static void free_entry(weft__list *link)
{
    attempt_free(WEFT__LIST_ENTRY(link, attempt, link));
}

void weft__attempts_close(weft_context *ctx)
{
    weft__protocol_close_list(ctx, WEFT__PROTOCOL_CREATE, free_entry);
}
