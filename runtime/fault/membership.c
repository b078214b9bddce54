/* membership.c - see membership.h. */
#include "membership.h"
#include "alarm.h"
#include "engine.h"
#include "log.h"
#include "peer.h"
#include "views.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Made when the first rank is presumed dead that somebody wants to leave out, or the first word of another comes. */
typedef struct membership {
    weft__views *views;
    bool changed;   /* a view has been decided, and nothing has followed yet */
    bool too_large; /* is the job for the words that would decide one */
    int told_by;    /* the rank whose word came last before this one was out */
} membership;

static membership *membership_of(const weft_context *ctx)
{
    return ctx->protocol_state[WEFT__PROTOCOL_MEMBERSHIP];
}

static void send_word(void *arg, int to, const weft__view_message *message, size_t bytes)
{
    weft__notice notice = {.kind = WEFT__NOTICE_VIEW, .subject = to, .number = bytes};
    if (bytes >= sizeof notice.text) { /* a job of thousands of ranks: its deadlines speak */
        membership_of(arg)->too_large = true;
        return;
    }
    memcpy(notice.text, message, bytes);
    weft__alarm_tell(arg, to, &notice);
}

static void note_decided(void *arg)
{
    membership_of(arg)->changed = true;
}

/* What is known of all ranks. */
static void tell_deaths(weft_context *ctx, int64_t now_ns)
{
    weft__views *views = membership_of(ctx)->views;
    for (int i = 0; i < ctx->world_size; i++) {
        weft__gone gone = atomic_load(&ctx->peers[i].gone);
        if (gone == WEFT__PRESUMED_DEAD)
            weft__views_presume_dead(views, i, now_ns);
        else if (gone != WEFT__LIVES)
            weft__views_died(views, i, now_ns);
    }
}

/* NULL: not by agreement, or no memory. */
static weft__views *views_for(weft_context *ctx)
{
    membership *m = membership_of(ctx);
    weft__views_events events = {send_word, note_decided, ctx};
    if (!ctx->by_majority || m->views) return m->views;
    m->views = weft__views_new(ctx->rank, ctx->world_size, WEFT__QUORUM_MAJORITY,
                               (uint64_t)weft__now_ns() * (uint64_t)(ctx->rank + 1), events);
    if (m->views) tell_deaths(ctx, weft__now_ns());
    return m->views;
}

/* ---- what follows from a view ---- */

bool weft__membership_is_out(const weft_context *ctx, char *text, size_t bytes)
{
    const membership *m = membership_of(ctx);
    if (!m->views || weft__views_state_of(m->views) != WEFT__VIEWS_OUT) return false;
    snprintf(
        text, bytes,
        "the job goes on without this rank (rank %d) since view %u: the others presumed it dead, because a "
        "connection to it had ended; rank %d has told that",
        ctx->rank, (unsigned)weft__views_number(m->views), m->told_by);
    return true;
}

/* A view is asked for that leaves one of them out. */
static bool is_wanted_without(const weft_context *ctx, const int *ranks, int n)
{
    const weft__views *views = membership_of(ctx)->views;
    for (int i = 0; views && i < n; i++)
        if (atomic_load(&ctx->peers[ranks[i]].gone) == WEFT__PRESUMED_DEAD &&
            weft__views_has(views, ranks[i]))
            return true;
    return false;
}

bool weft__membership_is_stuck(const weft_context *ctx, const int *ranks, int n, char *text, size_t bytes)
{
    const membership *m = membership_of(ctx);
    int members = 0, here = 0;
    if (!is_wanted_without(ctx, ranks, n)) return false;
    if (m->too_large) {
        snprintf(
            text, bytes,
            "a job of %d ranks is too large to agree on who goes on without ranks that are only presumed "
            "dead: WEFT_QUORUM=majority is for some 4,000 ranks at most, WEFT_QUORUM=any lets each rank "
            "believe what it sees",
            ctx->world_size);
        return true;
    }
    if (weft__views_state_of(m->views) == WEFT__VIEWS_OUT || weft__views_can_decide(m->views)) return false;
    for (int i = 0; i < ctx->world_size; i++) {
        members += weft__views_has(m->views, i);
        here += weft__views_has(m->views, i) && !atomic_load(&ctx->peers[i].gone);
    }
    snprintf(text, bytes,
             "rank %d reaches %d of the %d ranks of view %u, itself included, which are too few to go on "
             "without the others, "
             "who may do so themselves (WEFT_QUORUM=majority)",
             ctx->rank, here, members, (unsigned)weft__views_number(m->views));
    return true;
}

/* Who is not in the view is dead to this rank; whoever is left out counts all others as that. */
static void follow(weft_context *ctx)
{
    membership *m = membership_of(ctx);
    char text[WEFT__SENTENCE_BYTES];
    unsigned number = (unsigned)weft__views_number(m->views);
    bool out = weft__membership_is_out(ctx, text, sizeof text);
    if (out) weft__log(WEFT__WARN, "%s", text);
    for (int i = 0; i < ctx->world_size; i++) {
        if (i == ctx->rank || (!out && weft__views_has(m->views, i))) continue;
        if (out)
            snprintf(text, sizeof text, "goes on without rank %d since view %u", ctx->rank, number);
        else
            snprintf(text, sizeof text, "is presumed dead and not in view %u", number);
        weft__peer_gone(ctx, i, WEFT__PRESUMED_DEAD, true, text);
    }
    WEFT__EACH_PROTOCOL(ctx, p)
    {
        if (p->view_changed) p->view_changed(ctx);
    }
}

/* After each word to the views: what has been decided, and when they want to be called again. */
static void settle(weft_context *ctx, int64_t now_ns)
{
    membership *m = membership_of(ctx);
    int64_t next = weft__views_check(m->views, now_ns);
    WEFT__ASSERT(weft__holds_engine(ctx));
    while (m->changed) {
        m->changed = false;
        follow(ctx);
    }
    if (next != WEFT__NEVER) weft__alarm_check(ctx, next);
}

/* ---- what asks for one ---- */

bool weft__membership_agrees(weft_context *ctx, const int *ranks, int n)
{
    const weft__views *views = membership_of(ctx)->views;
    int64_t now = weft__now_ns();
    bool agrees = !views || weft__views_state_of(views) != WEFT__VIEWS_OUT;
    if (!ctx->by_majority) return true;
    for (int i = 0; i < n && agrees; i++)
        if (atomic_load(&ctx->peers[ranks[i]].gone) == WEFT__PRESUMED_DEAD)
            agrees = views && !weft__views_has(views, ranks[i]);
    if (!agrees && views_for(ctx)) {
        weft__views_want(membership_of(ctx)->views, now);
        settle(ctx, now);
    }
    return agrees;
}

int64_t weft__membership_check(weft_context *ctx, int64_t now_ns)
{
    membership *m = membership_of(ctx);
    if (!m->views) return WEFT__NEVER;
    settle(ctx, now_ns);
    return weft__views_check(m->views, now_ns);
}

/* ---- the protocol ---- */

/* From a rank that is dead to this one, only what tells of a view, or asks for one that is over. */
static bool is_heard(const weft_context *ctx, int from, const weft__view_message *word)
{
    const weft__views *views = membership_of(ctx)->views;
    return !atomic_load(&ctx->peers[from].gone) || word->word == WEFT__VIEW_IS ||
           word->view != weft__views_number(views);
}

static void take_word(weft_context *ctx, int from, const weft__notice *notice)
{
    _Alignas(weft__view_message) unsigned char word[sizeof notice->text];
    membership *m = membership_of(ctx);
    int64_t now = weft__now_ns();
    if (from == ctx->rank || !views_for(ctx)) return;
    memcpy(word, notice->text, sizeof word);
    if (!is_heard(ctx, from, (const void *)word)) return;
    if (weft__views_state_of(m->views) != WEFT__VIEWS_OUT) m->told_by = from;
    if (!weft__views_take(m->views, from, (const void *)word, notice->number, now))
        weft__peer_refused(ctx, from, "a word about views that no rank says");
    settle(ctx, now);
}

static void membership_notice(weft_context *ctx, int from, const weft__notice *notice)
{
    weft__engine_take(ctx);
    take_word(ctx, from, notice);
    weft__engine_drop(ctx);
}

static void membership_peer_gone(weft_context *ctx, int rank, const char *why)
{
    int64_t now = weft__now_ns();
    (void)rank;
    (void)why;
    if (!membership_of(ctx)->views) return;
    tell_deaths(ctx, now);
    settle(ctx, now);
}

static weft_status open_membership(weft_context *ctx)
{
    ctx->protocol_state[WEFT__PROTOCOL_MEMBERSHIP] = calloc(1, sizeof(membership));
    return membership_of(ctx) ? WEFT_OK : weft__fail_memory(sizeof(membership), "who is in the job");
}

static void close_membership(weft_context *ctx)
{
    membership *m = membership_of(ctx);
    if (!m) return;
    weft__views_free(m->views);
    free(m);
}

const weft__protocol weft__membership_protocol = {.name = "who is in the job",
                                                  .first_notice = WEFT__NOTICE_VIEW,
                                                  .last_notice = WEFT__NOTICE_VIEW,
                                                  .open = open_membership,
                                                  .close = close_membership,
                                                  .notice = membership_notice,
                                                  .peer_gone = membership_peer_gone,
                                                  .peer_certain = membership_peer_gone};
