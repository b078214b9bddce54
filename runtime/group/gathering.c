/* gathering.c - see gathering.h. */
#include "gathering.h"
#include "alarm.h"
#include "create_attempt.h"
#include "join_place.h"
#include "peer.h"
#include "rank_set.h"
#include "reserve.h"
#include "spreading.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOLD_NS     (50 * WEFT__MS)
#define KNOWN_NS    (100 * WEFT__MS) /* then the lead says whom it has heard of */
#define PATIENCE_NS (150 * WEFT__MS) /* for each step to the lead */

enum {
    REMEMBERED = 64,
    HOLD_PART = 16,   /* of the time that is left it holds others for one such part at most, */
    PATIENCE_PART = 2 /* and waits for one such part until it tells the lead */
};

/* Sets of ranks that a record has. */
typedef enum gathering_set {
    COME,    /* by their own call or by JOINS */
    PASSED,  /* who were named in what this rank has sent */
    KNOWN,   /* the lead has heard of them */
    TELLERS, /* who said JOINS to this rank and is to hear KNOWN */
    RELAYS,  /* who said that of others too */
    BELOW,   /* who are to come by this rank, itself among them; empty where its caller has not come */
    SETS
} gathering_set;

typedef enum caller { ABSENT, WAITS, ENDED } caller;

/* At the lead it has no more than who is to hear KNOWN, and when. */
typedef struct gathering {
    weft__list link;
    weft__create_key key;
    weft__group_params params; /* of all that have come */
    int lead, above;           /* above: to whom it names them */
    int beside;                /* by whom the lead hears too that one gives up; the lead: by nobody */
    bool given_up;             /* that one does has been passed on */
    int steps;                 /* from this rank to the lead */
    caller caller;             /* this rank's own */
    int64_t deadline_ns;       /* the caller's */
    int64_t pass_ns; /* then it passes on whom it holds, the lead says KNOWN; NEVER: nothing is put off */
    int64_t
        direct_ns; /* then it tells the lead itself; NEVER: it has heard of all, or is told by this rank */
    unsigned char sets[];
} gathering;

typedef struct gather_state {
    weft__list list;
    weft__create_key over[REMEMBERED]; /* of size 0: none */
    unsigned next;                     /* place there */
} gather_state;

static gather_state *state_of(const weft_context *ctx)
{
    return ctx->protocol_state[WEFT__PROTOCOL_GATHERING];
}

static size_t set_bytes(const weft_context *ctx)
{
    return weft__set_bytes(ctx->world_size);
}

static unsigned char *set_of(const weft_context *ctx, gathering *g, gathering_set which)
{
    return g->sets + (size_t)which * set_bytes(ctx);
}

static bool is_within(const weft_context *ctx, gathering *g, gathering_set which, gathering_set of)
{
    return weft__set_is_within(set_of(ctx, g, which), set_of(ctx, g, of), set_bytes(ctx));
}

/* ---- records ---- */

static gathering *find(const weft_context *ctx, const weft__create_key *key)
{
    WEFT__LIST_EACH(&state_of(ctx)->list, at)
    {
        gathering *g = WEFT__LIST_ENTRY(at, gathering, link);
        if (weft__create_same(&g->key, key)) return g;
    }
    return NULL;
}

static void gathering_free(gathering *g)
{
    weft__list_remove(&g->link);
    weft__reserve_give(g);
}

/* NULL: no memory. */
static gathering *find_or_make(const weft_context *ctx, const weft__create_key *key, int lead)
{
    gathering *g = find(ctx, key);
    if (g) return g;
    g = weft__reserve_zeroed(sizeof *g + SETS * set_bytes(ctx));
    if (!g) return NULL;
    g->key = *key;
    g->lead = g->above = g->beside = lead;
    g->deadline_ns = g->pass_ns = g->direct_ns = WEFT__NEVER;
    weft__list_append(&state_of(ctx)->list, &g->link);
    return g;
}

/* It may come to that later, or is done with it; where nothing is known of the group it has been made from there is nothing that ends the
 * record. */
static bool is_kept(weft_context *ctx, const gathering *g)
{
    weft_group *parent = g->caller == ABSENT ? weft__group_find(ctx, g->key.parent) : NULL;
    const bool kept = g->caller == WAITS || parent;
    if (parent) weft__group_unref(parent);
    return kept;
}

static bool names_others(const weft_context *ctx, int peer, const unsigned char *set)
{
    return !weft__set_has(set, peer) || weft__set_count(set, ctx->world_size) > 1;
}

static void add_teller(const weft_context *ctx, gathering *g, int peer, const unsigned char *set)
{
    weft__set_add(set_of(ctx, g, TELLERS), peer);
    if (names_others(ctx, peer, set)) weft__set_add(set_of(ctx, g, RELAYS), peer);
}

static void add_come(const weft_context *ctx, gathering *g, const unsigned char *set,
                     const weft__group_params *params)
{
    if (weft__set_is_empty(set_of(ctx, g, COME), set_bytes(ctx)))
        g->params = *params;
    else
        weft__group_params_merge(&g->params, params);
    weft__set_unite(set_of(ctx, g, COME), set, set_bytes(ctx));
}

/* ---- sending: behind it a record may be there no more ---- */

static weft__gather_word *new_word(const weft_context *ctx, const gathering *g, const unsigned char *set)
{
    weft__gather_word *w = weft__reserve_zeroed(sizeof *w + set_bytes(ctx));
    if (!w) return NULL;
    w->key = g->key;
    w->params = g->params;
    w->lead = g->lead;
    memcpy(w->set, set, set_bytes(ctx));
    return w;
}

static void send(weft_context *ctx, int to, int type, const weft__gather_word *w)
{
    weft__p2p_control(ctx->p2p, to, type, w, sizeof *w + set_bytes(ctx));
}

static int64_t part_of_time(const gathering *g, int64_t now_ns, int64_t ns, int part)
{
    const int64_t left = g->deadline_ns > now_ns ? g->deadline_ns - now_ns : 0;
    return now_ns + (left / part < ns ? left / part : ns);
}

static void be_patient(weft_context *ctx, gathering *g)
{
    g->direct_ns = part_of_time(g, weft__now_ns(), g->steps * PATIENCE_NS, PATIENCE_PART);
    weft__alarm_check(ctx, g->direct_ns);
}

/* Without memory for the word patience ends, or deadlines speak. */
static void pass(weft_context *ctx, gathering *g)
{
    const int to = g->above;
    weft__gather_word *w = new_word(ctx, g, set_of(ctx, g, COME));
    g->pass_ns = WEFT__NEVER;
    memcpy(set_of(ctx, g, PASSED), set_of(ctx, g, COME), set_bytes(ctx));
    if (g->caller == WAITS && to != g->lead && g->direct_ns == WEFT__NEVER) be_patient(ctx, g);
    if (!is_kept(ctx, g)) gathering_free(g);
    if (w) send(ctx, to, WEFT__MESSAGE_GATHER_JOINS, w);
    weft__reserve_give(w);
}

static void tell_lead(weft_context *ctx, gathering *g)
{
    g->above = g->lead;
    g->direct_ns = WEFT__NEVER;
    pass(ctx, g);
}

static void put_off(weft_context *ctx, gathering *g, int64_t ns)
{
    if (g->pass_ns != WEFT__NEVER) return;
    g->pass_ns = part_of_time(g, weft__now_ns(), ns, HOLD_PART);
    weft__alarm_check(ctx, g->pass_ns);
}

/* Somebody has come, who may have been passed on before. */
static void look(weft_context *ctx, gathering *g)
{
    if (is_within(ctx, g, COME, PASSED)) return;
    if (g->caller == ENDED || (g->caller == WAITS && is_within(ctx, g, BELOW, COME)))
        pass(ctx, g);
    else
        put_off(ctx, g, HOLD_NS);
}

/* ---- this rank's own call ---- */

static int by_number(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* Who is above, and who below.  False: no memory. */
static bool find_place(const weft_context *ctx, gathering *g, const weft_group *group)
{
    int *ranks = malloc((size_t)group->size * sizeof *ranks);
    weft__join_place place;
    bool found;
    if (!ranks) return false;
    memcpy(ranks, group->world, (size_t)group->size * sizeof *ranks);
    qsort(ranks, (size_t)group->size, sizeof *ranks, by_number);
    found = weft__join_place_of(ctx, ranks, group->size, &place, set_of(ctx, g, BELOW));
    free(ranks);
    if (!found) return false;
    g->steps = place.steps;
    g->above = atomic_load(&ctx->peers[place.above].gone) == WEFT__LIVES ? place.above : g->lead;
    g->beside = g->above;
    return true;
}

bool weft__gathering_join(weft_request *req, const weft__create_key *key, const weft__group_params *params)
{
    weft_context *ctx = req->ctx;
    gathering *g = find_or_make(ctx, key, req->u.creation->lead);
    unsigned char *own = weft__reserve_zeroed(set_bytes(ctx));
    const bool has_place = g && own && find_place(ctx, g, req->u.creation->group);
    if (has_place) {
        weft__set_add(own, ctx->rank);
        add_come(ctx, g, own, params);
        g->lead = req->u.creation->lead; /* whatever others have said */
        g->caller = WAITS;
        g->deadline_ns = req->deadline_ns;
        look(ctx, g);
    }
    weft__reserve_give(own);
    return has_place;
}

void weft__gathering_name(weft_context *ctx, const weft__create_key *key)
{
    gathering *g = find(ctx, key);
    if (g && g->caller == WAITS && !weft__set_has(set_of(ctx, g, KNOWN), ctx->rank)) tell_lead(ctx, g);
}

static void pass_end(weft_context *ctx, gathering *g, const weft__gather_end *end)
{
    const int to = g ? g->beside : end->lead;
    if (g && g->given_up) return;
    if (g) g->given_up = true;
    weft__p2p_control(ctx->p2p, to, WEFT__MESSAGE_GATHER_GIVES_UP, end, sizeof *end);
}

void weft__gathering_gives_up(weft_context *ctx, const weft__create_message *failure)
{
    gathering *g = find(ctx, &failure->key);
    weft__gather_end end = {.key = failure->key,
                            .rank = ctx->rank,
                            .status = failure->status,
                            .culprit = failure->culprit};
    if (!g || g->caller != WAITS || g->beside == g->lead) return;
    end.params = g->params;
    end.lead = g->lead;
    snprintf(end.why, sizeof end.why, "%s", (const char *)failure->rest);
    pass_end(ctx, g, &end);
}

/* Whom it still holds is passed on as this rank looks after what is due. */
void weft__gathering_end(weft_context *ctx, const weft__create_key *key)
{
    gathering *g = find(ctx, key);
    if (!g || g->caller != WAITS) return;
    g->caller = ENDED;
    g->above = g->lead;
    g->direct_ns = WEFT__NEVER;
    if (is_within(ctx, g, COME, PASSED)) {
        gathering_free(g);
        return;
    }
    g->pass_ns = weft__now_ns();
    weft__alarm_check(ctx, g->pass_ns);
}

/* ---- at the lead ---- */

void weft__gathering_over(weft_context *ctx, const weft__create_key *key)
{
    gather_state *state = state_of(ctx);
    state->over[state->next] = *key;
    state->next = (state->next + 1) % REMEMBERED;
}

bool weft__gathering_is_over(weft_context *ctx, const weft__create_key *key)
{
    for (int i = 0; i < REMEMBERED && state_of(ctx)->over[i].size; i++)
        if (weft__create_same(&state_of(ctx)->over[i], key)) return true;
    return false;
}

/* As the attempt may end soon, who named them is told only after a while; and not at all who has named itself alone, which waits
 * for nobody else. */
static void lead_takes(weft_context *ctx, int peer, const weft__gather_word *w)
{
    gathering *g;
    weft__attempt_joins(ctx, peer, w);
    if (!names_others(ctx, peer, w->set) || !weft__attempt_joined(ctx, &w->key)) return;
    g = find_or_make(ctx, &w->key, ctx->rank);
    if (!g) return;
    add_teller(ctx, g, peer, w->set);
    put_off(ctx, g, KNOWN_NS);
}

static void say_known(weft_context *ctx, const weft__gather_word *w, const unsigned char *tellers)
{
    for (int rank = weft__set_next(tellers, 0, ctx->world_size); rank >= 0;
         rank = weft__set_next(tellers, rank + 1, ctx->world_size))
        send(ctx, rank, WEFT__MESSAGE_GATHER_KNOWN, w);
}

static void lead_says_known(weft_context *ctx, gathering *g)
{
    const unsigned char *joined = weft__attempt_joined(ctx, &g->key);
    weft__gather_word *w = joined ? new_word(ctx, g, joined) : NULL;
    weft__list_remove(&g->link);
    if (w) say_known(ctx, w, set_of(ctx, g, TELLERS));
    weft__reserve_give(w);
    weft__reserve_give(g);
}

/* ---- what comes ---- */

/* Who has told this rank and is known now; of these who has told of others too is told again where more is to become known. */
static void take_tellers(const weft_context *ctx, gathering *g, unsigned char *tellers)
{
    unsigned char *all = set_of(ctx, g, TELLERS), *relays = set_of(ctx, g, RELAYS);
    const bool is_all = is_within(ctx, g, COME, KNOWN);
    for (size_t i = 0; i < set_bytes(ctx); i++) {
        tellers[i] = all[i] & (set_of(ctx, g, KNOWN)[i] | relays[i]);
        all[i] = (unsigned char)(all[i] & ~(is_all ? tellers[i] : tellers[i] & ~relays[i]));
    }
}

/* The lead has heard of some. */
static void take_known(weft_context *ctx, const weft__gather_word *w)
{
    gathering *g = find(ctx, &w->key);
    unsigned char *tellers;
    weft__gather_word *known;
    if (!g || g->lead == ctx->rank) return;
    weft__set_unite(set_of(ctx, g, KNOWN), w->set, set_bytes(ctx));
    if (is_within(ctx, g, PASSED, KNOWN))
        g->direct_ns = WEFT__NEVER;
    else if (g->direct_ns != WEFT__NEVER)
        be_patient(ctx, g);
    tellers = weft__reserve_get(set_bytes(ctx));
    known = new_word(ctx, g, set_of(ctx, g, KNOWN));
    if (tellers && known) {
        take_tellers(ctx, g, tellers);
        say_known(ctx, known, tellers);
    }
    weft__reserve_give(tellers);
    weft__reserve_give(known);
}

/* To be passed on by this rank. */
static void take_joins(weft_context *ctx, int peer, const weft__gather_word *w)
{
    gathering *g = find(ctx, &w->key);
    if (!g && !weft__create_is_done(ctx, &w->key)) g = find_or_make(ctx, &w->key, w->lead);
    if (!g) {
        send(ctx, w->lead, WEFT__MESSAGE_GATHER_JOINS, w);
        return;
    }
    if (g->lead != w->lead) {
        weft__peer_refused(ctx, peer, "a group has another lead for others");
        return;
    }
    add_teller(ctx, g, peer, w->set);
    add_come(ctx, g, w->set, &w->params);
    look(ctx, g);
}

/* The lead hears of who gives up as if it had said both itself. */
static void take_end(weft_context *ctx, const weft__gather_end *end)
{
    weft__create_message *m;
    weft__gather_word *w;
    if (end->lead != ctx->rank) {
        pass_end(ctx, find(ctx, &end->key), end);
        return;
    }
    w = weft__reserve_zeroed(sizeof *w + set_bytes(ctx));
    m = weft__create_failure(&end->key, (weft_status)end->status, end->culprit, end->why);
    if (w && m) {
        w->key = end->key;
        w->params = end->params;
        w->lead = end->lead;
        weft__set_add(w->set, end->rank);
        weft__attempt_joins(ctx, end->rank, w);
        weft__attempt_expired(ctx, end->rank, m);
    }
    weft__reserve_give(w);
    weft__reserve_give(m);
}

static void take(weft_context *ctx, int peer, int type, const void *bytes)
{
    const weft__gather_word *w = bytes;
    if (type == WEFT__MESSAGE_GATHER_GIVES_UP)
        take_end(ctx, bytes);
    else if (type == WEFT__MESSAGE_GATHER_KNOWN)
        take_known(ctx, w);
    else if (w->lead == ctx->rank)
        lead_takes(ctx, peer, w);
    else
        take_joins(ctx, peer, w);
}

static void gather_take_message(weft_context *ctx, int peer, int type, const void *bytes, size_t length)
{
    /* Copied: what is sent in answer may come back through the same buffer. */
    void *copy = weft__reserve_get(length);
    if (!copy) return;
    memcpy(copy, bytes, length);
    if (weft__gather_is_sound(ctx, type, copy, length))
        take(ctx, peer, type, copy);
    else
        weft__peer_refused(ctx, peer, "who has come to a new group, or gives it up, is told in no sound way");
    weft__reserve_give(copy);
}

/* ---- what becomes of others, and time ---- */

/* Whom it names to that rank it names to the lead from now on. */
static void go_past(const weft_context *ctx, int rank)
{
    WEFT__LIST_EACH(&state_of(ctx)->list, at)
    {
        gathering *g = WEFT__LIST_ENTRY(at, gathering, link);
        if (g->beside == rank) g->beside = g->lead;
    }
}

static gathering *below_of(const weft_context *ctx, int rank)
{
    WEFT__LIST_EACH(&state_of(ctx)->list, at)
    {
        gathering *g = WEFT__LIST_ENTRY(at, gathering, link);
        if (g->caller == WAITS && g->above == rank && g->lead != rank) return g;
    }
    return NULL;
}

static void gather_peer_unreachable(weft_context *ctx, int rank, const char *why)
{
    gathering *g;
    (void)why;
    go_past(ctx, rank);
    while ((g = below_of(ctx, rank)) != NULL) tell_lead(ctx, g);
}

static void gather_peer_gone(weft_context *ctx, int rank, const char *why)
{
    gather_peer_unreachable(ctx, rank, why);
    WEFT__LIST_EACH(&state_of(ctx)->list, at)
    {
        gathering *g = WEFT__LIST_ENTRY(at, gathering, link);
        if (g->caller == ABSENT && g->lead == rank) gathering_free(g);
    }
}

/* Whose callers cannot come any more. */
static void gather_group_gone(weft_group *group)
{
    WEFT__LIST_EACH(&state_of(group->ctx)->list, at)
    {
        gathering *g = WEFT__LIST_ENTRY(at, gathering, link);
        if (g->caller == ABSENT && g->lead != group->ctx->rank && g->key.parent == group->id)
            gathering_free(g);
    }
}

static bool is_due(int64_t then_ns, int64_t now_ns)
{
    return then_ns != WEFT__NEVER && then_ns <= now_ns;
}

static gathering *next_due(const weft_context *ctx, int64_t now_ns)
{
    /* What was freed has left the list.  NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
    WEFT__LIST_EACH(&state_of(ctx)->list, at)
    {
        gathering *g = WEFT__LIST_ENTRY(at, gathering, link);
        if (is_due(g->pass_ns, now_ns) || is_due(g->direct_ns, now_ns)) return g;
    }
    return NULL;
}

static int64_t gather_due(weft_context *ctx, int64_t now_ns)
{
    int64_t next = WEFT__NEVER;
    gathering *g;
    while ((g = next_due(ctx, now_ns)) != NULL) {
        if (g->lead == ctx->rank)
            lead_says_known(ctx, g);
        else if (is_due(g->direct_ns, now_ns))
            tell_lead(ctx, g);
        else
            pass(ctx, g);
    }
    WEFT__LIST_EACH(&state_of(ctx)->list, at)
    {
        g = WEFT__LIST_ENTRY(at, gathering, link);
        if (g->pass_ns < next) next = g->pass_ns;
        if (g->direct_ns < next) next = g->direct_ns;
    }
    return next;
}

static weft_status gather_open(weft_context *ctx)
{
    gather_state *state = calloc(1, sizeof *state);
    ctx->protocol_state[WEFT__PROTOCOL_GATHERING] = state;
    if (!state) return weft__fail_memory(sizeof *state, "a context");
    weft__list_init(&state->list);
    return WEFT_OK;
}

static void gather_close(weft_context *ctx)
{
    gather_state *state = state_of(ctx);
    if (!state) return;
    WEFT__LIST_EACH(&state->list, at) gathering_free(WEFT__LIST_ENTRY(at, gathering, link));
    free(state);
    ctx->protocol_state[WEFT__PROTOCOL_GATHERING] = NULL;
}

const weft__protocol weft__gathering_protocol = {.name = "gathering",
                                                 .first = WEFT__MESSAGE_GATHER_JOINS,
                                                 .last = WEFT__MESSAGE_GATHER_GIVES_UP,
                                                 .open = gather_open,
                                                 .close = gather_close,
                                                 .message = gather_take_message,
                                                 .peer_gone = gather_peer_gone,
                                                 .peer_unreachable = gather_peer_unreachable,
                                                 .due = gather_due,
                                                 .group_gone = gather_group_gone};
