/* spreading.c - see spreading.h. */
#include "spreading.h"
#include "alarm.h"
#include "check.h"
#include "host_tree.h"
#include "peer.h"
#include "rank_set.h"
#include "reserve.h"

#include <stdlib.h>
#include <string.h>

#define SILENCE_NS (150 * WEFT__MS) /* then a host is gone past */

/* SPREAD, and TAKEN, which says no more than that. */
typedef struct word {
    uint64_t number; /* of what its origin spreads */
    int32_t origin, type;
    uint32_t length;      /* of the message */
    uint32_t goes_on;     /* SPREAD: the set stands before the message, and it is sent on; TAKEN: it was */
    unsigned char rest[]; /* set and message */
} word;

typedef enum told_state { UNTOLD, TOLD, DONE } told_state;

typedef struct told_host {
    told_state state;
    int rank; /* TOLD: who was */
    int64_t until_ns;
} told_host;

/* A word that hosts have not answered, or that is just being sent. */
typedef struct spreading {
    weft__list link;
    word *word;        /* with its set */
    int *ranks;        /* to which it goes: the members of the tree */
    weft__seats *tree; /* NULL: they are all on one host */
    told_host *hosts;
    int awaited, held;
} spreading;

typedef struct spread_state {
    weft__list list;
    uint64_t number;
} spread_state;

static const uint8_t told_follows[] = {
    [UNTOLD] = WEFT__MAY_BECOME(TOLD) | WEFT__MAY_BECOME(DONE), [TOLD] = WEFT__MAY_BECOME(DONE), [DONE] = 0};

static spread_state *state_of(const weft_context *ctx)
{
    return ctx->protocol_state[WEFT__PROTOCOL_SPREADING];
}

static void told_to(spreading *s, int host, told_state to)
{
    told_host *told = &s->hosts[host];
    WEFT__ASSERT(WEFT__ALLOWS(told_follows, told->state, to), told->state, to);
    s->awaited += (to == TOLD) - (told->state == TOLD);
    told->state = to;
}

/* ---- what is spread ---- */

static void spreading_free(spreading *s)
{
    weft__list_remove(&s->link);
    weft__reserve_give(s->word);
    free(s->ranks);
    weft__seats_free(s->tree);
    free(s->hosts);
    free(s);
}

static void let_go(spreading *s)
{
    s->held--;
    if (!s->held && !s->awaited) spreading_free(s);
}

/* The lead first, then by number. */
static int list_ranks(const weft_context *ctx, const unsigned char *set, int origin, int *ranks)
{
    int n = 0;
    ranks[n++] = origin;
    for (int rank = weft__set_next(set, 0, ctx->world_size); rank >= 0;
         rank = weft__set_next(set, rank + 1, ctx->world_size))
        if (rank != origin) ranks[n++] = rank;
    return n;
}

/* NULL: no memory.  Held by its caller, who gives it back by let_go.  Takes the word over, which stays where it fails. */
static spreading *spreading_new(weft_context *ctx, word *w)
{
    const int ranks = ctx->world_size;
    spreading *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    weft__list_init(&s->link);
    s->held = 1;
    s->ranks = malloc(((size_t)ranks + 1) * sizeof *s->ranks);
    if (s->ranks &&
        weft__host_tree_of(ctx, s->ranks, list_ranks(ctx, w->rest, w->origin, s->ranks), &s->tree))
        s->hosts = calloc(s->tree ? (size_t)s->tree->hosts : 1, sizeof *s->hosts);
    if (s->hosts) {
        s->word = w;
        weft__list_append(&state_of(ctx)->list, &s->link);
        return s;
    }
    spreading_free(s);
    return NULL;
}

static int own_host(const weft_context *ctx, const spreading *s)
{
    int i = 0;
    while (i < s->tree->size && s->ranks[i] != ctx->rank) i++;
    return i < s->tree->size ? weft__host_of(s->tree, i) : -1;
}

/* ---- sending ---- */

static const unsigned char *message_of(const weft_context *ctx, const word *w)
{
    return w->rest + (w->goes_on ? weft__set_bytes(ctx->world_size) : 0);
}

static word *word_new(weft_context *ctx, const word *head, const unsigned char *set, const void *message)
{
    const size_t before = set ? weft__set_bytes(ctx->world_size) : 0;
    word *w = weft__reserve_zeroed(sizeof *w + before + head->length);
    if (!w) return NULL;
    *w = *head;
    w->goes_on = set != NULL;
    if (set) memcpy(w->rest, set, before);
    memcpy(w->rest + before, message, head->length);
    return w;
}

static size_t word_bytes(const weft_context *ctx, const word *w)
{
    return sizeof *w + (w->goes_on ? weft__set_bytes(ctx->world_size) : 0) + w->length;
}

/* Without memory for that its deadline speaks. */
static void tell(weft_context *ctx, const spreading *s, int rank)
{
    const word *w = s->word;
    word *alone;
    if (w->origin == ctx->rank) {
        weft__p2p_control(ctx->p2p, rank, w->type, message_of(ctx, w), w->length);
        return;
    }
    alone = word_new(ctx, w, NULL, message_of(ctx, w));
    if (alone) weft__p2p_control(ctx->p2p, rank, WEFT__MESSAGE_SPREAD, alone, word_bytes(ctx, alone));
    weft__reserve_give(alone);
}

/* Each of them but this one and that one. */
static void tell_ranks(weft_context *ctx, const spreading *s, int host, int but)
{
    for (int seat = s->tree->first[host]; seat < s->tree->first[host + 1]; seat++) {
        const int rank = s->ranks[s->tree->rank_at[seat]];
        if (rank != ctx->rank && rank != but && !weft__is_gone(&ctx->peers[rank])) tell(ctx, s, rank);
    }
}

static int speaker_of(const weft_context *ctx, const spreading *s, int host)
{
    for (int seat = s->tree->first[host]; seat < s->tree->first[host + 1]; seat++) {
        const int rank = s->ranks[s->tree->rank_at[seat]];
        if (atomic_load(&ctx->peers[rank].gone) == WEFT__LIVES) return rank;
    }
    return -1;
}

static void tell_below(weft_context *ctx, spreading *s, int host);

static void go_past(weft_context *ctx, spreading *s, int host)
{
    const int rank = s->hosts[host].state == TOLD ? s->hosts[host].rank : -1;
    told_to(s, host, DONE);
    tell_ranks(ctx, s, host, rank);
    tell_below(ctx, s, host);
}

/* Sending may find that it is gone, and go past it then. */
static void tell_host(weft_context *ctx, spreading *s, int host)
{
    const int speaker = speaker_of(ctx, s, host);
    if (s->hosts[host].state != UNTOLD) return;
    if (speaker < 0) {
        go_past(ctx, s, host);
        return;
    }
    s->hosts[host].rank = speaker;
    s->hosts[host].until_ns = weft__now_ns() + SILENCE_NS;
    told_to(s, host, TOLD);
    weft__alarm_check(ctx, s->hosts[host].until_ns);
    weft__p2p_control(ctx->p2p, speaker, WEFT__MESSAGE_SPREAD, s->word, word_bytes(ctx, s->word));
}

static void tell_below(weft_context *ctx, spreading *s, int host)
{
    const int below = weft__host_below(ctx, host);
    for (int i = 0; i < ctx->fan_out && below + i < s->tree->hosts; i++) tell_host(ctx, s, below + i);
}

/* This rank's host, and those below. */
static void pass_on(weft_context *ctx, spreading *s)
{
    const int host = own_host(ctx, s);
    tell_below(ctx, s, host);
    tell_ranks(ctx, s, host, s->word->origin);
}

static void tell_each(weft_context *ctx, const word *head, const unsigned char *set, const void *message)
{
    for (int rank = weft__set_next(set, 0, ctx->world_size); rank >= 0;
         rank = weft__set_next(set, rank + 1, ctx->world_size))
        if (rank != ctx->rank) weft__p2p_control(ctx->p2p, rank, head->type, message, head->length);
}

/* False: its hosts are few, or there is no memory, and each is to be told. */
static bool spread_along(weft_context *ctx, const word *head, const unsigned char *set, const void *message)
{
    spreading *s;
    word *w;
    bool many;
    if (weft__set_count(set, ctx->world_size) <= ctx->told_at_once) return false;
    w = word_new(ctx, head, set, message);
    s = w ? spreading_new(ctx, w) : NULL;
    if (!s) {
        weft__reserve_give(w);
        return false;
    }
    many = s->tree && s->tree->hosts > ctx->told_at_once;
    if (many) pass_on(ctx, s);
    let_go(s);
    return many;
}

void weft__spread(weft_context *ctx, int type, const void *bytes, size_t length, const unsigned char *set)
{
    const word head = {++state_of(ctx)->number, ctx->rank, type, (uint32_t)length, 0};
    if (weft__set_has(set, ctx->rank)) weft__p2p_control(ctx->p2p, ctx->rank, type, bytes, length);
    if (!spread_along(ctx, &head, set, bytes)) tell_each(ctx, &head, set, bytes);
}

bool weft__spread_goes_by_others(const weft_context *ctx, const int *ranks, int n)
{
    weft__seats *tree = NULL;
    bool many;
    if (n <= ctx->told_at_once) return false;
    many = !weft__host_tree_of(ctx, ranks, n, &tree) || (tree && tree->hosts > ctx->told_at_once);
    weft__seats_free(tree);
    return many;
}

/* ---- what comes ---- */

/* As if its origin had sent it. */
static void hear(weft_context *ctx, const word *w)
{
    const weft__peer *origin = &ctx->peers[w->origin];
    if (weft__is_gone(origin) && !weft__has_left(origin)) return; /* what was expected of it has ended */
    WEFT__EACH_PROTOCOL(ctx, p)
    {
        if (w->type >= p->first && w->type <= p->last)
            p->message(ctx, w->origin, w->type, message_of(ctx, w), w->length);
    }
}

static void answer(weft_context *ctx, int peer, const word *w, bool went_on)
{
    const word taken = {w->number, w->origin, w->type, 0, went_on};
    weft__p2p_control(ctx->p2p, peer, WEFT__MESSAGE_SPREAD_TAKEN, &taken, sizeof taken);
}

static bool send_on(weft_context *ctx, const word *w)
{
    word *copy = word_new(ctx, w, w->rest, message_of(ctx, w));
    spreading *s = copy ? spreading_new(ctx, copy) : NULL;
    if (!s) {
        weft__reserve_give(copy);
        return false;
    }
    if (s->tree) pass_on(ctx, s);
    let_go(s);
    return true;
}

static bool is_sound(const weft_context *ctx, const word *w, size_t length)
{
    const int ranks = ctx->world_size;
    const int last = 8 * (int)weft__set_bytes(ranks);
    if (length < sizeof *w || w->origin < 0 || w->origin >= ranks || w->goes_on > 1) return false;
    if (length != word_bytes(ctx, w) || w->origin == ctx->rank) return false;
    if (w->type < WEFT__MESSAGE_CREATE_JOIN || w->type > WEFT__MESSAGE_SHRINK_EXPIRED) return false;
    return !w->goes_on || (weft__set_has(w->rest, ctx->rank) && weft__set_next(w->rest, ranks, last) < 0);
}

static void take_spread(weft_context *ctx, int peer, const void *bytes, size_t length)
{
    /* Copied: what is sent in answer may come back through the same buffer. */
    word *w = length >= sizeof *w ? weft__reserve_get(length) : NULL;
    if (!w && length >= sizeof *w) return;
    if (w) memcpy(w, bytes, length);
    if (!w || !is_sound(ctx, w, length)) {
        weft__peer_refused(ctx, peer, "a word that is to be spread, which is none");
    } else {
        if (w->goes_on) answer(ctx, peer, w, send_on(ctx, w));
        hear(ctx, w);
    }
    weft__reserve_give(w);
}

static void take_answer(weft_context *ctx, int peer, const void *bytes, size_t length)
{
    word taken;
    if (length != sizeof taken) {
        weft__peer_refused(ctx, peer, "an answer to a word that was spread, which is none");
        return;
    }
    memcpy(&taken, bytes, sizeof taken);
    WEFT__LIST_EACH(&state_of(ctx)->list, at)
    {
        spreading *s = WEFT__LIST_ENTRY(at, spreading, link);
        if (s->word->origin != taken.origin || s->word->number != taken.number) continue;
        s->held++;
        for (int h = 0; h < s->tree->hosts; h++) {
            if (s->hosts[h].state != TOLD || s->hosts[h].rank != peer) continue;
            if (taken.goes_on)
                told_to(s, h, DONE);
            else
                go_past(ctx, s, h);
        }
        let_go(s);
        return;
    }
}

static void spread_take_message(weft_context *ctx, int peer, int type, const void *bytes, size_t length)
{
    if (type == WEFT__MESSAGE_SPREAD)
        take_spread(ctx, peer, bytes, length);
    else
        take_answer(ctx, peer, bytes, length);
}

/* ---- who does not answer ---- */

/* One whose speaker is that rank, or where that is -1 one that has said nothing until now.  False: there is none. */
static bool find_silent(const weft_context *ctx, int rank, int64_t now_ns, spreading **which, int *host)
{
    /* What was freed has left the list.  NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
    WEFT__LIST_EACH(&state_of(ctx)->list, at)
    {
        *which = WEFT__LIST_ENTRY(at, spreading, link);
        for (*host = 0; (*which)->awaited && *host < (*which)->tree->hosts; ++*host) {
            const told_host *told = &(*which)->hosts[*host];
            if (told->state == TOLD && (rank < 0 ? now_ns >= told->until_ns : told->rank == rank))
                return true;
        }
    }
    return false;
}

/* Telling others may find more of them gone: from the start again. */
static void go_past_silent(weft_context *ctx, int rank, int64_t now_ns)
{
    spreading *s;
    int host;
    while (find_silent(ctx, rank, now_ns, &s, &host)) {
        s->held++;
        go_past(ctx, s, host);
        let_go(s);
    }
}

static void spread_peer_gone(weft_context *ctx, int rank, const char *why)
{
    (void)why;
    go_past_silent(ctx, rank, 0);
}

static int64_t spread_due(weft_context *ctx, int64_t now_ns)
{
    int64_t next = WEFT__NEVER;
    go_past_silent(ctx, -1, now_ns);
    WEFT__LIST_EACH(&state_of(ctx)->list, at)
    {
        const spreading *s = WEFT__LIST_ENTRY(at, spreading, link);
        for (int h = 0; s->awaited && h < s->tree->hosts; h++)
            if (s->hosts[h].state == TOLD && s->hosts[h].until_ns < next) next = s->hosts[h].until_ns;
    }
    return next;
}

static weft_status spread_open(weft_context *ctx)
{
    spread_state *state = calloc(1, sizeof *state);
    ctx->protocol_state[WEFT__PROTOCOL_SPREADING] = state;
    if (!state) return weft__fail_memory(sizeof *state, "a context");
    weft__list_init(&state->list);
    return WEFT_OK;
}

static void spread_close(weft_context *ctx)
{
    spread_state *state = state_of(ctx);
    if (!state) return;
    WEFT__LIST_EACH(&state->list, at) spreading_free(WEFT__LIST_ENTRY(at, spreading, link));
    free(state);
}

const weft__protocol weft__spreading_protocol = {.name = "spreading",
                                                 .first = WEFT__MESSAGE_SPREAD,
                                                 .last = WEFT__MESSAGE_SPREAD_TAKEN,
                                                 .open = spread_open,
                                                 .close = spread_close,
                                                 .message = spread_take_message,
                                                 .peer_gone = spread_peer_gone,
                                                 .peer_unreachable = spread_peer_gone,
                                                 .due = spread_due};
