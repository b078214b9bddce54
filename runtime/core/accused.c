/* accused.c - ranks that others presume dead, where a majority decides (runtime/fault/views.md): each keeps who has told it that,
 * and judges a rank by it once all have heard of it. */
#include "accused.h"
#include "alarm.h"
#include "engine.h"
#include "peer.h"
#include "settings.h"

#include <stdio.h>
#include <stdlib.h>

#define ACCUSED_NS   (200 * WEFT__MS) /* until a rank is believed that presumes another one dead */
#define ASK_AGAIN_NS (1000 * WEFT__MS)

static bool accuses(const weft_context *ctx, int by, int rank)
{
    const unsigned char *accusers = ctx->peers[rank].accusers;
    return accusers && accusers[by / 8] >> by % 8 & 1;
}

/* `by`, as far as this rank knows. */
static bool lives_and_accuses(const weft_context *ctx, int by, int rank)
{
    return accuses(ctx, by, rank) && !weft__is_gone(&ctx->peers[by]);
}

/* Who only is heard, and hears nothing from here, cannot be worked with, and has no say in who goes. */
static bool counts(const weft_context *ctx, int by, int rank)
{
    const weft__peer *m = &ctx->peers[by];
    return lives_and_accuses(ctx, by, rank) && (m->local >= 0 || !m->to_answer);
}

static int accusers_of(const weft_context *ctx, int rank)
{
    int n = 0;
    for (int by = 0; ctx->peers[rank].accusers && by < ctx->world_size; by++) n += counts(ctx, by, rank);
    return n;
}

/* Something has to go to it and come back since it has said that another one is presumed dead.  Its watchdog answers. */
static void ask_for_answer(weft_context *ctx, int by, int64_t now_ns)
{
    const weft__notice question = {.kind = WEFT__NOTICE_IS_HEARD, .subject = by};
    ctx->peers[by].to_answer = true;
    ctx->peers[by].asked_ns = now_ns;
    weft__alarm_tell(ctx, by, &question);
}

/* Where this rank does not hear that host either nobody has to be waited for. */
static bool is_judged_at_once(const weft__peer *m)
{
    return m->unheard && !m->heard_by_another;
}

void weft__accuser_answers(weft_context *ctx, int by)
{
    const int64_t now_ns = weft__now_ns();
    WEFT__ASSERT(weft__holds_engine(ctx));
    if (!ctx->peers[by].to_answer) return;
    ctx->peers[by].to_answer = false;
    for (int i = 0; i < ctx->world_size; i++)
        if (ctx->peers[i].accused_ns && accuses(ctx, by, i) && is_judged_at_once(&ctx->peers[i]))
            ctx->peers[i].accused_ns = now_ns;
    weft__alarm_check(ctx, now_ns);
}

void weft__peer_accused(weft_context *ctx, int rank, int by, const char *why)
{
    weft__peer *m = &ctx->peers[rank];
    WEFT__ASSERT(weft__holds_engine(ctx) && weft__by_agreement(ctx));
    if (weft__is_gone(m) || accuses(ctx, by, rank) || rank == ctx->rank || rank == by ||
        weft__is_gone(&ctx->peers[by]))
        return;
    if (weft__peer_process_has_ended(ctx, rank)) {
        weft__peer_gone(ctx, rank, WEFT__DIED, false, why);
        return;
    }
    if (!m->accusers) m->accusers = calloc(1, ((size_t)ctx->world_size + 7) / 8);
    if (!m->accusers) return; /* no memory: deadlines speak */
    m->accusers[by / 8] = (unsigned char)(m->accusers[by / 8] | 1u << by % 8);
    if (ctx->peers[by].local < 0 && !ctx->peers[by].to_answer) ask_for_answer(ctx, by, weft__now_ns());
    if (m->accused_ns) return;
    snprintf(m->suspicion, sizeof m->suspicion, "%.*s", (int)sizeof m->suspicion - 1, why);
    m->accused_ns = weft__now_ns() + (is_judged_at_once(m) ? 0 : ACCUSED_NS);
    weft__peer_doubt(ctx, m->accused_ns);
}

void weft__peer_accused_in_join(weft_context *ctx, int rank, int by, const char *why)
{
    const bool is_news = !accuses(ctx, by, rank);
    weft__peer_accused(ctx, rank, by, why);
    if (is_news && accuses(ctx, by, rank)) ctx->peers[rank].passed_on = true;
}

static bool on_one_host(const weft_context *ctx, int rank, int other)
{
    return ctx->peers[rank].first_on_host == ctx->peers[other].first_on_host;
}

static int living_beside(const weft_context *ctx, int rank)
{
    int n = 0;
    for (int i = 0; i < ctx->world_size; i++)
        n += on_one_host(ctx, rank, i) && !weft__is_gone(&ctx->peers[i]);
    return n;
}

/* It may be reached at another address of the same machine, or over a connection that has been made anew.  One that is idle says
 * nothing where its way is that to `by`, which is lost. */
static bool is_reached(const weft_context *ctx, int rank, int by)
{
    weft__transport *t = weft__p2p_transport(ctx->p2p, rank);
    const int64_t now_ns = weft__now_ns(), limit_ns = weft__setting_int(WEFT__SET_HEARTBEAT_MS) * WEFT__MS;
    weft__silence silence;
    if (atomic_load(&ctx->peers[rank].gone) != WEFT__LIVES || rank == by || !t || !t->hearing) return false;
    silence = t->hearing->silence(t, rank, 0, now_ns);
    if (!silence.heard_ns) return false; /* it has no connection */
    if (now_ns - silence.heard_ns < limit_ns) return true;
    if (t->hearing->is_beside(t, rank, by)) return false;
    return !silence.since_ns || now_ns - silence.since_ns < limit_ns;
}

/* This rank, which has only been told that it does not reach `by`, is presumed dead by that one, which cannot be taken back: one
 * of the two hosts goes.  If that is to be the other one, as more ranks are on this one, it says the same of `by` and of all on
 * that host that it does not reach: else one that stands alone would stand against nobody, and all of this host went for it.  They hear of it from
 * `via`, which reaches both. */
static void presume_in_turn(weft_context *ctx, int by, int via)
{
    char why[sizeof ctx->peers->why];
    if (atomic_load(&ctx->peers[by].gone) != WEFT__UNREACHABLE ||
        living_beside(ctx, ctx->rank) <= living_beside(ctx, by))
        return;
    snprintf(why, sizeof why, "%s", ctx->peers[by].why);
    for (int i = 0; i < ctx->world_size; i++) {
        weft__peer *m = &ctx->peers[i];
        if (!on_one_host(ctx, i, by) || weft__is_gone(m) || is_reached(ctx, i, by)) continue;
        m->by_hearsay = false;
        m->heard_by_another = true;
        m->heard_by = via;
        weft__peer_gone(ctx, i, WEFT__PRESUMED_DEAD, false, why);
    }
}

void weft__peer_told_presumed(weft_context *ctx, int from, const weft__notice *notice)
{
    weft__notice passed = *notice;
    WEFT__ASSERT(weft__holds_engine(ctx) && weft__by_agreement(ctx));
    if (notice->subject == ctx->rank) {
        presume_in_turn(ctx, notice->culprit, from);
        return;
    }
    if (notice->knows) {
        ctx->peers[notice->subject].passed_on = true;
        passed.knows = 0;
        passed.culprit = from;
        if (!weft__is_gone(&ctx->peers[notice->subject]) && !weft__is_gone(&ctx->peers[from]))
            weft__alarm_tell(ctx, notice->subject, &passed);
    }
    weft__peer_accused(ctx, notice->subject, from, notice->text);
}

/* Whether the one who says so is reached too is not asked: the group would have both. */
bool weft__peer_is_accused(const weft_context *ctx, int rank)
{
    for (int by = 0; ctx->peers[rank].accusers && by < ctx->world_size; by++)
        if (lives_and_accuses(ctx, by, rank)) return true;
    return false;
}

/* Where the two presume each other dead, the one goes that more others presume so; of as many the higher. */
static bool has_to_go(const weft_context *ctx, int rank, int by)
{
    int here = accusers_of(ctx, rank), there = accusers_of(ctx, by);
    if (!accuses(ctx, rank, by)) return true;
    return here != there ? here > there : rank > by;
}

/* So of two living ranks, one of which presumes the other dead, one goes, whenever that was said and by whom before.  It
 * is asked again as long as one that lives says so: who has to go may change with what others say. */
static void judge(weft_context *ctx, int rank, int64_t now_ns)
{
    weft__peer *m = &ctx->peers[rank];
    bool goes = false, tells = m->passed_on;
    for (int by = 0; by < ctx->world_size && !goes; by++)
        goes = counts(ctx, by, rank) && has_to_go(ctx, rank, by);
    /* Who has found that it does not reach it would say the same once it shrinks, and has a say in who goes. */
    if (atomic_load(&m->gone) == WEFT__UNREACHABLE && !m->by_hearsay) tells = true;
    if (goes) m->by_hearsay = true; /* one that was told to be unreachable, and is spared, stays so */
    if (goes) weft__peer_gone(ctx, rank, WEFT__PRESUMED_DEAD, !tells, m->suspicion);
    m->accused_ns = !goes && weft__peer_is_accused(ctx, rank) ? now_ns + ACCUSED_NS : 0;
}

/* The question may have been lost with a connection. */
static void ask_again(weft_context *ctx, int rank, int64_t now_ns)
{
    for (int by = 0; by < ctx->world_size; by++)
        if (lives_and_accuses(ctx, by, rank) && ctx->peers[by].to_answer &&
            now_ns - ctx->peers[by].asked_ns >= ASK_AGAIN_NS)
            ask_for_answer(ctx, by, now_ns);
}

int64_t weft__accused_check(weft_context *ctx, int64_t now_ns)
{
    int64_t next = WEFT__NEVER;
    for (int i = ctx->doubts ? ctx->world_size - 1 : -1; i >= 0; i--) { /* the higher of two first */
        const weft__peer *m = &ctx->peers[i];
        if (!m->accused_ns || weft__is_gone(m)) continue;
        if (now_ns >= m->accused_ns) judge(ctx, i, now_ns);
        if (m->accused_ns) ask_again(ctx, i, now_ns);
        if (m->accused_ns && !weft__is_gone(m) && m->accused_ns < next) next = m->accused_ns;
    }
    return next;
}
