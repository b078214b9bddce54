/* spreading.c - see spreading.h. */
#include "spreading.h"
#include "alarm.h"
#include "check.h"
#include "host_tree.h"
#include "peer.h"
#include "rank_set.h"
#include "reserve.h"
#include "shrink.h"
#include "spread_tree.h"
#include "spread_word.h"

#include <stdlib.h>
#include <string.h>

/* Then a host is gone past; one that passes on a word that is counted has as long for each level below it. */
#define SILENCE_NS (150 * WEFT__MS)

typedef enum told_state { UNTOLD, TOLD, PASSING, DONE } told_state;

typedef struct told_host {
    told_state state;
    int rank; /* who was told; -1: nobody */
    int64_t until_ns;
} told_host;

/* A word that some have not said that they have, or that is just being sent. */
typedef struct spreading {
    weft__list link;
    weft__spread_word *word; /* with its set */
    int *ranks;              /* to which it goes: the members of the tree */
    weft__seats *tree;       /* of more than one host */
    told_host *hosts;
    unsigned char *lack;    /* ranks of this host and of those below that have not said that they have it */
    unsigned char *askers;  /* ranks that are to hear that all of those have it */
    unsigned char *holders; /* who has said that it holds it, and this rank; NULL: they are not counted */
    int awaited, held;      /* awaited: hosts that may be taken for silent */
    bool again;             /* it is to be told once more, in a pass over all of them */
} spreading;

typedef struct spread_state {
    weft__list list;
    uint64_t number;
    weft__spread_memory memory;
} spread_state;

static const uint8_t told_follows[] = {[UNTOLD] = WEFT__MAY_BECOME(TOLD) | WEFT__MAY_BECOME(DONE),
                                       [TOLD] = WEFT__MAY_BECOME(PASSING) | WEFT__MAY_BECOME(DONE),
                                       [PASSING] = WEFT__MAY_BECOME(DONE),
                                       [DONE] = 0};

static spread_state *state_of(const weft_context *ctx)
{
    return ctx->protocol_state[WEFT__PROTOCOL_SPREADING];
}

/* One that passes on a word that is counted has others below it that are waited for. */
static bool is_awaited(const spreading *s, told_state state)
{
    return state == TOLD || (state == PASSING && s->holders);
}

static void told_to(spreading *s, int host, told_state to)
{
    told_host *told = &s->hosts[host];
    WEFT__ASSERT(WEFT__ALLOWS(told_follows, told->state, to), told->state, to);
    s->awaited += is_awaited(s, to) - is_awaited(s, told->state);
    told->state = to;
}

/* ---- what is spread ---- */

static void spreading_free(spreading *s)
{
    weft__list_remove(&s->link);
    weft__reserve_give(s->word);
    weft__reserve_give(s->lack);
    weft__reserve_give(s->askers);
    weft__reserve_give(s->holders);
    free(s->ranks);
    weft__seats_free(s->tree);
    free(s->hosts);
    free(s);
}

static bool holds(const weft_context *ctx, const spreading *s)
{
    return !s->holders || weft__set_has(s->holders, ctx->rank);
}

/* Saying so may find that others are gone: it has left the list before. */
static void finish(weft_context *ctx, spreading *s)
{
    weft__list_remove(&s->link);
    weft__list_init(&s->link);
    weft__spread_remember(ctx, &state_of(ctx)->memory, s->word, s->holders);
    for (int rank = weft__set_next(s->askers, 0, ctx->world_size); rank >= 0;
         rank = weft__set_next(s->askers, rank + 1, ctx->world_size))
        weft__spread_answer_to(ctx, rank, s->word, WEFT__ALL_HAVE, holds(ctx, s), s->holders);
    spreading_free(s);
}

static bool all_have(const weft_context *ctx, const spreading *s)
{
    return weft__set_is_empty(s->lack, weft__set_bytes(ctx->world_size));
}

static void let_go(weft_context *ctx, spreading *s)
{
    s->held--;
    if (!s->held && all_have(ctx, s)) finish(ctx, s);
}

static int own_host(const weft_context *ctx, const spreading *s)
{
    int i = 0;
    while (i < s->tree->size && s->ranks[i] != ctx->rank) i++;
    return i < s->tree->size ? weft__host_of(s->tree, i) : -1;
}

/* Who has died or left needs no word. */
static void list_lacking(const weft_context *ctx, spreading *s)
{
    const int own = own_host(ctx, s);
    for (int i = 0; i < s->tree->size; i++) {
        const int rank = s->ranks[i];
        if (rank != ctx->rank && rank != s->word->origin &&
            atomic_load(&ctx->peers[rank].gone) < WEFT__LEFT &&
            weft__host_is_below(ctx, weft__host_of(s->tree, i), own))
            weft__set_add(s->lack, rank);
    }
}

static told_host *hosts_new(const weft__seats *tree)
{
    told_host *hosts = tree ? calloc((size_t)tree->hosts, sizeof *hosts) : NULL;
    for (int host = 0; hosts && host < tree->hosts; host++) hosts[host].rank = -1;
    return hosts;
}

/* NULL: no memory, or they are all on one host.  Held by its caller, who gives it back by let_go.  Takes the word over, which
 * stays where it fails. */
static spreading *spreading_new(weft_context *ctx, weft__spread_word *w)
{
    const size_t bytes = weft__set_bytes(ctx->world_size);
    spreading *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    weft__list_init(&s->link);
    s->held = 1;
    s->lack = weft__reserve_zeroed(bytes);
    s->askers = weft__reserve_zeroed(bytes);
    s->holders = weft__spread_counts(w->type) ? weft__reserve_zeroed(bytes) : NULL;
    s->ranks = malloc(((size_t)ctx->world_size + 1) * sizeof *s->ranks);
    if (s->lack && s->askers && s->ranks && (s->holders || !weft__spread_counts(w->type)) &&
        weft__spread_tree(ctx, w->rest, w->origin, s->ranks, &s->tree))
        s->hosts = hosts_new(s->tree);
    if (s->hosts) {
        s->word = w;
        list_lacking(ctx, s);
        weft__list_append(&state_of(ctx)->list, &s->link);
        return s;
    }
    spreading_free(s);
    return NULL;
}

/* ---- sending ---- */

/* It is to send nothing on.  Without memory for that its deadline speaks. */
static void tell(weft_context *ctx, const spreading *s, int rank)
{
    weft__spread_word *alone = weft__spread_word_new(ctx, s->word, NULL, weft__spread_message(ctx, s->word));
    if (alone)
        weft__p2p_control(ctx->p2p, rank, WEFT__MESSAGE_SPREAD, alone, weft__spread_word_bytes(ctx, alone));
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
    told_to(s, host, DONE);
    tell_ranks(ctx, s, host, s->hosts[host].rank);
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
    weft__p2p_control(ctx->p2p, speaker, WEFT__MESSAGE_SPREAD, s->word,
                      weft__spread_word_bytes(ctx, s->word));
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

static void tell_each(weft_context *ctx, const weft__spread_word *head, const unsigned char *set,
                      const void *message)
{
    for (int rank = weft__set_next(set, 0, ctx->world_size); rank >= 0;
         rank = weft__set_next(set, rank + 1, ctx->world_size))
        if (rank != ctx->rank) weft__p2p_control(ctx->p2p, rank, head->type, message, head->length);
}

/* False: its hosts are few, or there is no memory, and each is to be told. */
static bool spread_along(weft_context *ctx, const weft__spread_word *head, const unsigned char *set,
                         const void *message)
{
    spreading *s;
    weft__spread_word *w;
    if (weft__set_count(set, ctx->world_size) <= ctx->told_at_once) return false;
    w = weft__spread_word_new(ctx, head, set, message);
    s = w ? spreading_new(ctx, w) : NULL;
    if (!s) weft__reserve_give(w);
    if (s && s->tree->hosts <= ctx->told_at_once) {
        spreading_free(s);
        s = NULL;
    }
    if (!s) return false;
    pass_on(ctx, s);
    let_go(ctx, s);
    return true;
}

void weft__spread(weft_context *ctx, int type, const void *bytes, size_t length, const unsigned char *set)
{
    const weft__spread_word head = {++state_of(ctx)->number, ctx->rank, type, (uint32_t)length, 0};
    if (weft__set_has(set, ctx->rank)) weft__p2p_control(ctx->p2p, ctx->rank, type, bytes, length);
    if (!spread_along(ctx, &head, set, bytes)) tell_each(ctx, &head, set, bytes);
}

void weft__spread_again(weft_context *ctx, int rank, const void *begins, size_t length)
{
    WEFT__LIST_EACH(&state_of(ctx)->list, at)
    {
        spreading *s = WEFT__LIST_ENTRY(at, spreading, link);
        if (s->word->origin != ctx->rank || !weft__set_has(s->lack, rank) || s->word->length < length ||
            memcmp(weft__spread_message(ctx, s->word), begins, length) != 0)
            continue;
        s->held++;
        tell(ctx, s, rank);
        let_go(ctx, s);
        return;
    }
}

/* ---- what comes ---- */

/* As if its origin had sent it.  Does this rank hold it? */
static bool hear(weft_context *ctx, const weft__spread_word *w)
{
    const weft__peer *origin = &ctx->peers[w->origin];
    const void *message = weft__spread_message(ctx, w);
    /* What was expected of it has ended.  To who shrinks a group it is no member any more from its goodbye on, ahead of which it has
     * said what this rank lacked. */
    const bool is_of_shrink = w->type >= WEFT__MESSAGE_SHRINK_JOIN && w->type <= WEFT__MESSAGE_SHRINK_EXPIRED;
    if (weft__is_gone(origin) && (!weft__has_left(origin) || is_of_shrink)) return false;
    if (weft__spread_counts(w->type))
        return weft__shrink_takes(ctx, w->origin, (int)w->type, message, w->length);
    WEFT__EACH_PROTOCOL(ctx, p)
    {
        if (w->type >= p->first && w->type <= p->last)
            p->message(ctx, w->origin, w->type, message, w->length);
    }
    return true;
}

static spreading *find_spreading(const weft_context *ctx, int origin, uint64_t number)
{
    WEFT__LIST_EACH(&state_of(ctx)->list, at)
    {
        spreading *s = WEFT__LIST_ENTRY(at, spreading, link);
        if (s->word->origin == origin && s->word->number == number) return s;
    }
    return NULL;
}

static spreading *begin_to_pass(weft_context *ctx, const weft__spread_word *w)
{
    weft__spread_word *copy = weft__spread_word_new(ctx, w, w->rest, weft__spread_message(ctx, w));
    spreading *s = copy ? spreading_new(ctx, copy) : NULL;
    if (s)
        pass_on(ctx, s);
    else
        weft__reserve_give(copy);
    return s;
}

/* Once, however many ask for it: who has been gone past asks for it as well as who has gone past it. */
static void send_on(weft_context *ctx, int peer, const weft__spread_word *w)
{
    const unsigned char *holders;
    const bool is_over = weft__spread_remembers(&state_of(ctx)->memory, w, &holders);
    spreading *s = is_over ? NULL : find_spreading(ctx, w->origin, w->number);
    bool has;
    if (s)
        s->held++;
    else if (!is_over)
        s = begin_to_pass(ctx, w);
    has = hear(ctx, w);
    if (!s) {
        const bool is_known = weft__spread_remembers(&state_of(ctx)->memory, w, &holders);
        weft__spread_answer_to(ctx, peer, w, is_known ? WEFT__ALL_HAVE : WEFT__CANNOT, has,
                               is_known ? holders : NULL);
        return;
    }
    if (has && s->holders) weft__set_add(s->holders, ctx->rank);
    weft__set_add(s->askers, peer);
    if (!all_have(ctx, s)) weft__spread_answer_to(ctx, peer, w, WEFT__PASSES, has, NULL);
    let_go(ctx, s);
}

static void take_spread(weft_context *ctx, int peer, const void *bytes, size_t length)
{
    /* Copied: what is sent in answer may come back through the same buffer. */
    weft__spread_word *w = length >= sizeof *w ? weft__reserve_get(length) : NULL;
    if (!w && length >= sizeof *w) return;
    if (w) memcpy(w, bytes, length);
    if (!w || !weft__spread_word_is_sound(ctx, w, length)) {
        weft__peer_refused(ctx, peer, "a word that is to be spread, which is none");
    } else {
        if (w->goes_on)
            send_on(ctx, peer, w);
        else
            weft__spread_answer_to(ctx, peer, w, WEFT__HAS, hear(ctx, w), NULL);
    }
    weft__reserve_give(w);
}

/* Whom the speaker of that host has not counted, as it takes it for gone, is told by this rank, which may not. */
static void all_below_have(weft_context *ctx, spreading *s, int top, const weft__spread_taken *t)
{
    for (int i = 0; i < s->tree->size; i++) {
        const int rank = s->ranks[i];
        if (!weft__set_has(s->lack, rank) || !weft__host_is_below(ctx, weft__host_of(s->tree, i), top))
            continue;
        if (!t->has_set || weft__set_has(t->holders, rank))
            weft__set_remove(s->lack, rank);
        else if (!weft__is_gone(&ctx->peers[rank]))
            tell(ctx, s, rank);
    }
}

static void host_passes(weft_context *ctx, spreading *s, int host)
{
    told_to(s, host, PASSING);
    if (!s->holders) return;
    s->hosts[host].until_ns =
        weft__now_ns() + (1 + weft__spread_levels_below(ctx, s->tree, host)) * SILENCE_NS;
    weft__alarm_check(ctx, s->hosts[host].until_ns);
}

/* Who was told at that host. */
static void speaker_answers(weft_context *ctx, spreading *s, int host, const weft__spread_taken *t)
{
    const weft__spread_answer what = (weft__spread_answer)t->answer;
    const told_state state = s->hosts[host].state;
    if (what == WEFT__ALL_HAVE) all_below_have(ctx, s, host, t);
    if (what == WEFT__ALL_HAVE && s->hosts[host].state != DONE) told_to(s, host, DONE);
    if (what == WEFT__PASSES && state == TOLD) host_passes(ctx, s, host);
    if (what == WEFT__CANNOT && state == TOLD) go_past(ctx, s, host);
}

static void count_holders(weft_context *ctx, const spreading *s, int peer, const weft__spread_taken *t)
{
    if (!s->holders) return;
    if (t->holds) weft__set_add(s->holders, peer);
    if (t->has_set) weft__set_unite(s->holders, t->holders, weft__set_bytes(ctx->world_size));
    if (s->word->origin == ctx->rank) weft__shrink_held(ctx, weft__spread_message(ctx, s->word), s->holders);
}

static void take_answer(weft_context *ctx, int peer, const void *bytes, size_t length)
{
    /* Copied: what is sent in answer may come back through the same buffer. */
    weft__spread_taken *t = weft__spread_taken_take(ctx, peer, bytes, length);
    spreading *s = t ? find_spreading(ctx, t->origin, t->number) : NULL;
    if (s) {
        s->held++;
        weft__set_remove(s->lack, peer);
        for (int host = 0; host < s->tree->hosts; host++)
            if (s->hosts[host].rank == peer) speaker_answers(ctx, s, host, t);
        count_holders(ctx, s, peer, t);
        let_go(ctx, s);
    }
    weft__reserve_give(t);
}

static void spread_take_message(weft_context *ctx, int peer, int type, const void *bytes, size_t length)
{
    if (type == WEFT__MESSAGE_SPREAD)
        take_spread(ctx, peer, bytes, length);
    else
        take_answer(ctx, peer, bytes, length);
}

/* ---- who does not answer ---- */

static bool is_silent(const spreading *s, int host, int rank, int64_t now_ns)
{
    const told_host *told = &s->hosts[host];
    if (rank < 0) return is_awaited(s, told->state) && now_ns >= told->until_ns;
    return (told->state == TOLD || told->state == PASSING) && told->rank == rank;
}

/* One whose speaker is that rank, or where that is -1 one that has said nothing until now.  False: there is none. */
static bool find_silent(const weft_context *ctx, int rank, int64_t now_ns, spreading **which, int *host)
{
    /* What was freed has left the list.  NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
    WEFT__LIST_EACH(&state_of(ctx)->list, at)
    {
        *which = WEFT__LIST_ENTRY(at, spreading, link);
        if (rank < 0 && !(*which)->awaited) continue;
        for (*host = 0; *host < (*which)->tree->hosts; ++*host)
            if (is_silent(*which, *host, rank, now_ns)) return true;
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
        let_go(ctx, s);
    }
}

static spreading *find_lacking(const weft_context *ctx, int rank)
{
    WEFT__LIST_EACH(&state_of(ctx)->list, at)
    {
        spreading *s = WEFT__LIST_ENTRY(at, spreading, link);
        if (weft__set_has(s->lack, rank)) return s;
    }
    return NULL;
}

/* Also one that passes it on: what it had in its hands may be lost. */
static void spread_peer_gone(weft_context *ctx, int rank, const char *why)
{
    spreading *s;
    (void)why;
    go_past_silent(ctx, rank, 0);
    while ((s = find_lacking(ctx, rank)) != NULL) {
        s->held++;
        weft__set_remove(s->lack, rank);
        let_go(ctx, s);
    }
}

/* It lacks the word still. */
static void spread_peer_unreachable(weft_context *ctx, int rank, const char *why)
{
    (void)why;
    go_past_silent(ctx, rank, 0);
}

/* One that is marked, and is no more; telling may end others. */
static spreading *next_again(const weft_context *ctx)
{
    WEFT__LIST_EACH(&state_of(ctx)->list, at)
    {
        spreading *s = WEFT__LIST_ENTRY(at, spreading, link);
        if (!s->again) continue;
        s->again = false;
        s->held++;
        return s;
    }
    return NULL;
}

static void spread_peer_returns(weft_context *ctx, int rank)
{
    spreading *s;
    WEFT__LIST_EACH(&state_of(ctx)->list, at) WEFT__LIST_ENTRY(at, spreading, link)->again = true;
    while ((s = next_again(ctx)) != NULL) {
        if (weft__set_has(s->lack, rank)) tell(ctx, s, rank);
        let_go(ctx, s);
    }
}

/* This rank leaves, and can be asked by nobody any more. */
static void tell_all_that_lack(weft_context *ctx)
{
    spreading *s;
    WEFT__LIST_EACH(&state_of(ctx)->list, at)
    {
        s = WEFT__LIST_ENTRY(at, spreading, link);
        s->again = s->word->origin == ctx->rank;
    }
    while ((s = next_again(ctx)) != NULL) {
        for (int rank = weft__set_next(s->lack, 0, ctx->world_size); rank >= 0;
             rank = weft__set_next(s->lack, rank + 1, ctx->world_size))
            tell(ctx, s, rank);
        let_go(ctx, s);
    }
}

static int64_t spread_due(weft_context *ctx, int64_t now_ns)
{
    int64_t next = WEFT__NEVER;
    if (now_ns == WEFT__NEVER) tell_all_that_lack(ctx);
    go_past_silent(ctx, -1, now_ns);
    WEFT__LIST_EACH(&state_of(ctx)->list, at)
    {
        const spreading *s = WEFT__LIST_ENTRY(at, spreading, link);
        for (int h = 0; s->awaited && h < s->tree->hosts; h++)
            if (is_awaited(s, s->hosts[h].state) && s->hosts[h].until_ns < next) next = s->hosts[h].until_ns;
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
    weft__spread_forget(&state->memory);
    free(state);
}

const weft__protocol weft__spreading_protocol = {.name = "spreading",
                                                 .first = WEFT__MESSAGE_SPREAD,
                                                 .last = WEFT__MESSAGE_SPREAD_TAKEN,
                                                 .open = spread_open,
                                                 .close = spread_close,
                                                 .message = spread_take_message,
                                                 .peer_gone = spread_peer_gone,
                                                 .peer_unreachable = spread_peer_unreachable,
                                                 .peer_returns = spread_peer_returns,
                                                 .due = spread_due};
