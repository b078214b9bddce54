/* peer.c - the other ranks of the job: their names in messages, and their end.
 *
 * A death is seen by pidfd on the same host, which proves it, and by the end of a connection elsewhere, from which it is
 * presumed.  Where ranks of one host share no memory the end of a connection is the first that is seen, since what a rank
 * said last has to arrive before its end; then its process is asked for, and watched if it lives.  Every rank keeps a
 * connection to the next living one, so that each death is seen by somebody, who tells the others (where hosts are
 * many along their tree: fault/deaths.h), and which of the two it is.  That one may die before it has told them all: whoever watches
 * over the dead tells of them as well. */
#include "peer.h"
#include "alarm.h"
#include "between.h"
#include "engine.h"
#include "group_break.h"
#include "log.h"
#include "peer_process.h"
#include "protocol.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#define GOODBYE_GRACE_NS (100 * WEFT__MS) /* for the word of a rank whose connection ended unused */
#define RECHECK_EVERY_NS (100 * WEFT__MS)
#define RECHECKED        64                /* ranks each time, in turn */
#define HEARSAY_NS       (1000 * WEFT__MS) /* for that of a rank which is said to have left */

void weft__peer_name(const weft_context *ctx, int rank, char *text, size_t bytes)
{
    const weft__peer *m = &ctx->peers[rank];
    snprintf(text, bytes, "rank %d (host %s, pid %d)", rank, m->host, (int)m->pid);
}

void weft__peer_fate(const weft_context *ctx, int rank, char *text, size_t bytes)
{
    const weft__peer *m = &ctx->peers[rank];
    const char *left_out = atomic_load(&ctx->left_out);
    const weft__gone gone = atomic_load(&m->gone);
    if (left_out && gone != WEFT__LEFT && gone != WEFT__DIED)
        snprintf(text, bytes, "rank %d (host %s, pid %d) is given up: %s", rank, m->host, (int)m->pid,
                 left_out);
    else
        snprintf(text, bytes, "rank %d %s (host %s, pid %d)", rank, m->why[0] ? m->why : "is gone", m->host,
                 (int)m->pid);
}

void weft__peer_refused(weft_context *ctx, int rank, const char *sentence)
{
    char who[192];
    bool told = atomic_exchange(&ctx->peers[rank].refused, true);
    weft__peer_name(ctx, rank, who, sizeof who);
    weft__log(told ? WEFT__INFO : WEFT__WARN, "rank %d: %s told what cannot be, which is dropped: %s",
              ctx->rank, who, sentence);
}

static weft__notice end_of(const weft_context *ctx, int rank)
{
    const weft__peer *m = &ctx->peers[rank];
    weft__notice notice = {.kind = WEFT__NOTICE_GONE, .subject = rank, .number = atomic_load(&m->gone)};
    snprintf(notice.text, sizeof notice.text, "%s", m->why);
    return notice;
}

/* Where hosts are many (fault/deaths.h). */
static bool tell_along_tree(weft_context *ctx, weft__notice *notice)
{
    const int between = weft__between(ctx, notice->subject);
    bool along = false;
    WEFT__EACH_PROTOCOL(ctx, p)
    {
        if (p->tell_death && p->tell_death(ctx, notice)) along = true;
    }
    if (along && between >= 0) {
        notice->knows = 1; /* its host hears nothing from here */
        weft__alarm_tell(ctx, between, notice);
    }
    return along;
}

bool weft__peer_sees_end(const weft_context *ctx, int rank, int dead)
{
    const weft__peer *m = &ctx->peers[dead];
    return m->local >= 0 && ctx->peers[rank].local >= 0 &&
           (!m->is_another || ctx->peers[rank].process.space == m->process.space);
}

static void tell_death(weft_context *ctx, int rank)
{
    const int between = weft__between(ctx, rank);
    weft__notice notice = end_of(ctx, rank);
    if (tell_along_tree(ctx, &notice)) return;
    for (int i = 0; i < ctx->world_size; i++) {
        /* Its host hears nothing from here; or it is not this rank's own goodbye. */
        notice.knows = between == i || notice.number == WEFT__LEFT ? 1 : 0;
        if (i != ctx->rank && !weft__is_gone(&ctx->peers[i]) && !weft__peer_sees_end(ctx, i, rank))
            weft__alarm_tell(ctx, i, &notice);
    }
}

/* A death that this rank saw, to be told to those that could not see it: of one on this host the lowest rank
 * alive here tells the other hosts.  The end of a connection is seen by this rank alone: it tells all. */
static bool has_to_tell(const weft_context *ctx, int rank)
{
    for (int i = 0; ctx->peers[rank].local >= 0 && i < ctx->rank; i++)
        if (weft__peer_sees_end(ctx, i, rank) && !weft__is_gone(&ctx->peers[i])) return false;
    return true;
}

static int after(const weft_context *ctx, int rank)
{
    return (rank + 1) % ctx->world_size;
}

/* Whoever saw a death may die before all have been told.  So the rank that watches over the dead one, which
 * is the living one before it, tells of it too, however it has heard; and of the dead ones behind it, which
 * are from now on watched over by this rank.  Where this rank itself leaves, the one before it does that.  told: all
 * have been told of `rank` already. */
static void tell_of_watched(weft_context *ctx, int rank, bool told)
{
    if (ctx->leaving != WEFT__STAYS) return;
    for (int i = after(ctx, ctx->rank); i != rank; i = after(ctx, i))
        if (!weft__is_gone(&ctx->peers[i])) return;
    for (int i = told ? after(ctx, rank) : rank; i != ctx->rank && weft__is_gone(&ctx->peers[i]);
         i = after(ctx, i))
        if (weft__is_dead(&ctx->peers[i])) tell_death(ctx, i);
}

void weft__peer_watch_next(weft_context *ctx)
{
    int next = after(ctx, ctx->rank);
    if (ctx->leaving != WEFT__STAYS) return; /* it may leave too, without a word */
    while (next != ctx->rank && atomic_load(&ctx->peers[next].gone) != WEFT__LIVES) next = after(ctx, next);
    /* A message that says nothing makes the connection whose end will be seen. */
    if (next != ctx->rank && ctx->peers[next].local < 0) weft__p2p_control(ctx->p2p, next, 0, NULL, 0);
}

bool weft__peer_reached(const weft_context *ctx, int rank)
{
    if (atomic_load(&ctx->peers[rank].gone) == WEFT__UNREACHABLE) return false;
    return ctx->peers[rank].local >= 0 || weft__p2p_touched(ctx->p2p, rank);
}

const char *weft__peer_want(const weft_context *ctx, int rank)
{
    const weft__transport *t = weft__p2p_transport(ctx->p2p, rank);
    return t && t->want ? t->want(t, rank) : NULL;
}

static void record_peer(weft_context *ctx, int rank, weft__record_event what, weft__recorded_peer_state state)
{
    int64_t now;
    if (!ctx->recording) return;
    now = weft__now_ns();
    weft__record_peer(&ctx->record, rank, state, ctx->peers[rank].local >= 0, now);
    weft__record_event_now(&ctx->record, what, rank, 0, now);
}

static void gone_to(weft__peer *m, weft__gone to)
{
    static const unsigned ends =
        WEFT__MAY_BECOME(WEFT__LEFT) | WEFT__MAY_BECOME(WEFT__PRESUMED_DEAD) | WEFT__MAY_BECOME(WEFT__DIED);
    static const unsigned may_follow[] = {[WEFT__LIVES] = ends | WEFT__MAY_BECOME(WEFT__UNREACHABLE),
                                          [WEFT__UNREACHABLE] = ends | WEFT__MAY_BECOME(WEFT__LIVES),
                                          [WEFT__LEFT] = 0,
                                          [WEFT__PRESUMED_DEAD] = WEFT__MAY_BECOME(WEFT__DIED),
                                          [WEFT__DIED] = 0};
    weft__gone from = atomic_load(&m->gone);
    WEFT__ASSERT(may_follow[from] & WEFT__MAY_BECOME(to), from, to);
    atomic_store(&m->gone, to);
}

/* It lives: that a connection to it has ended says nothing any more.  That it is said to have left does. */
static void suspect_no_more(weft__peer *m)
{
    if (!m->hearsay) m->suspect_ns = 0;
}

/* What it was is over: groups made from now on are worked on with it. */
static void come_back(weft_context *ctx, int rank)
{
    weft__peer *m = &ctx->peers[rank];
    char name[192];
    weft__peer_name(ctx, rank, name, sizeof name);
    weft__log(WEFT__WARN, "%s is reached from here (rank %d) again: groups of both that broke stay broken",
              name, ctx->rank);
    suspect_no_more(m);
    gone_to(m, WEFT__LIVES);
    WEFT__EACH_PROTOCOL(ctx, p)
    {
        if (p->peer_returns) p->peer_returns(ctx, rank);
    }
    weft__peer_watch_next(ctx);
}

void weft__peer_connected(weft_context *ctx, int rank)
{
    if (atomic_load(&ctx->peers[rank].gone) == WEFT__UNREACHABLE) come_back(ctx, rank);
    if (atomic_load(&ctx->peers[rank].gone) == WEFT__LIVES)
        record_peer(ctx, rank, WEFT__HAPPENED_LINK_OPEN, WEFT__RECORDED_PEER_UP);
}

/* What was presumed is certain now.  All that follows from a death has followed; the others are told what it is. */
static void make_sure(weft_context *ctx, int rank, bool told, const char *why)
{
    char name[192];
    bool tells = (!told || ctx->peers[rank].passes) && has_to_tell(ctx, rank);
    weft__peer_name(ctx, rank, name, sizeof name);
    weft__log(WEFT__INFO, "%s was presumed dead, and is: it %s", name, why);
    gone_to(&ctx->peers[rank], WEFT__DIED);
    record_peer(ctx, rank, WEFT__HAPPENED_RANK_DIED, WEFT__RECORDED_PEER_DEAD);
    if (tells) tell_death(ctx, rank);
    tell_of_watched(ctx, rank, tells);
    WEFT__EACH_PROTOCOL(ctx, p)
    {
        if (p->peer_certain) p->peer_certain(ctx, rank, why);
    }
    if (weft__by_agreement(ctx)) weft__alarm_tell(ctx, rank, NULL);
}

/* ---- processes of this host ---- */

/* A goodbye may be the last that it wrote, and not be read yet; and whoever has taken this rank's goodbye leaves without
 * one for it.  Where the kernel does not tell of signals, who is killed after that counts as one that has left. */
static void end_of_process(weft_context *ctx, weft__peer *m, bool killed, const char *why)
{
    weft__p2p_ended(ctx->p2p, m->rank);
    if (!killed && atomic_load(&m->gone) == WEFT__LIVES && weft__p2p_took_bye(ctx->p2p, m->rank))
        weft__peer_gone(ctx, m->rank, WEFT__LEFT, false, "has left");
    else
        weft__peer_gone(ctx, m->rank, WEFT__DIED, false, why);
}

static void on_death(weft__polled *w, uint32_t events)
{
    weft__peer *m = WEFT__OWNER(w, weft__peer, death);
    char why[160];
    bool killed = weft__peer_death_text(w->fd, why, sizeof why);
    (void)events;
    weft__peer_let_go_of_death(m->ctx, m);
    end_of_process(m->ctx, m, killed, why);
}

weft_status weft__peer_watch_death(weft_context *ctx, int rank, int pid_fd, bool own)
{
    weft__peer *m = &ctx->peers[rank];
    m->death.fd = pid_fd;
    m->death.ready = on_death;
    m->death_is_own = own;
    return weft__poller_add(&ctx->poller, &m->death, EPOLLIN);
}

/* Has it become another program?  If that cannot be known yet it is asked again. */
static void exec_check(weft_context *ctx, weft__peer *m, int64_t now_ns)
{
    if (weft__peer_is_another_program(m, now_ns))
        end_of_process(ctx, m, false, "is another program");
    else if (m->look_ns)
        weft__peer_doubt(ctx, m->look_ns);
}

static void on_tie(weft__polled *w, uint32_t events)
{
    weft__peer *m = WEFT__OWNER(w, weft__peer, tie);
    (void)events;
    weft__peer_look_for_exec(m->ctx, m, weft__now_ns());
    if (m->look_ns) weft__peer_doubt(m->ctx, m->look_ns);
}

weft_status weft__peer_watch_exec(weft_context *ctx, int rank, int tie_fd)
{
    weft__peer *m = &ctx->peers[rank];
    m->tie.fd = tie_fd;
    m->tie.ready = on_tie;
    return weft__poller_add(&ctx->poller, &m->tie, EPOLLIN);
}

bool weft__peer_process_has_ended(weft_context *ctx, int rank)
{
    weft__peer *m = &ctx->peers[rank];
    if (m->death.fd < 0 && m->first_on_host == ctx->peers[ctx->rank].first_on_host) {
        int fd = weft__process_open(&m->process);
        if (fd < 0) return weft__process_has_ended(&m->process);
        if (weft__peer_watch_death(ctx, rank, fd, true) != WEFT_OK) weft__peer_let_go_of_death(ctx, m);
    }
    if (m->death_is_own) weft__peer_doubt(ctx, weft__now_ns() + RECHECK_EVERY_NS); /* may_become_another */
    return weft__peer_has_ended(m);
}

void weft__peers_close(weft_context *ctx)
{
    for (int i = 0; ctx->peers && i < ctx->world_size; i++) {
        weft__peer_forget_process(ctx, i);
        free(ctx->peers[i].accusers);
        ctx->peers[i].accusers = NULL;
    }
}

void weft__peer_doubt(weft_context *ctx, int64_t check_ns)
{
    WEFT__ASSERT(weft__holds_engine(ctx));
    ctx->doubts = true;
    weft__alarm_check(ctx, check_ns);
}

/* ---- the end of a rank ---- */

static void record_gone(weft_context *ctx, int rank, weft__gone how)
{
    if (how == WEFT__LEFT)
        record_peer(ctx, rank, WEFT__HAPPENED_RANK_LEFT, WEFT__RECORDED_PEER_LEFT);
    else if (how == WEFT__DIED)
        record_peer(ctx, rank, WEFT__HAPPENED_RANK_DIED, WEFT__RECORDED_PEER_DEAD);
    else
        record_peer(ctx, rank, WEFT__HAPPENED_RANK_PRESUMED_DEAD, WEFT__RECORDED_PEER_PRESUMED_DEAD);
}

void weft__peer_gone(weft_context *ctx, int rank, weft__gone how, bool told, const char *why)
{
    weft__peer *m = &ctx->peers[rank];
    weft__gone before = atomic_load(&m->gone);
    char text[WEFT__SENTENCE_BYTES];
    bool tells = false;
    WEFT__ASSERT(weft__holds_engine(ctx));
    WEFT__ASSERT(how >= WEFT__LEFT && how <= WEFT__DIED && rank >= 0 && rank < ctx->world_size, how, rank);
    if (before == WEFT__PRESUMED_DEAD && how == WEFT__DIED) make_sure(ctx, rank, told, why);
    if (before >= WEFT__LEFT || rank == ctx->rank) return;
    if (how == WEFT__PRESUMED_DEAD && weft__peer_process_has_ended(ctx, rank)) {
        how = WEFT__DIED;
        told = false; /* that it is certain is not */
    }
    if (told) m->by_hearsay = true;
    snprintf(m->why, sizeof m->why, "%s", why);
    weft__peer_fate(ctx, rank, text, sizeof text);
    gone_to(m, how);
    if (how != WEFT__PRESUMED_DEAD) weft__peer_look_no_more(ctx, m);
    record_gone(ctx, rank, how);
    weft__p2p_drop(ctx->p2p, rank); /* first: what had arrived before the end may still complete something */
    if (how != WEFT__LEFT) {
        weft__log(WEFT__INFO, "%s", text);
        tells = (!told || (m->passes && how == WEFT__DIED)) && has_to_tell(ctx, rank);
        if (tells) tell_death(ctx, rank);
        weft__groups_lose(ctx, rank);
    } else if (m->passes && ctx->leaving == WEFT__STAYS) {
        tell_death(ctx, rank); /* its goodbye may not come to whom it does not reach */
    }
    tell_of_watched(ctx, rank, tells);
    WEFT__EACH_PROTOCOL(ctx, p)
    {
        if (p->peer_gone) p->peer_gone(ctx, rank, text);
    }
    /* Who may live is told if the others go on without it. */
    if (how != WEFT__PRESUMED_DEAD || !weft__by_agreement(ctx)) weft__alarm_tell(ctx, rank, NULL);
    weft__peer_watch_next(ctx);
}

/* By a rank that hears both.  Of two one at least has to have found it, or a shrink of both would wait for them to meet: so whom
 * this rank tells only what it was told about another one takes it for found. */
static void tell_unreachable(weft_context *ctx, int rank)
{
    const int between = weft__between(ctx, rank);
    weft__notice notice = {.kind = WEFT__NOTICE_GONE,
                           .subject = rank,
                           .number = WEFT__UNREACHABLE,
                           .group = weft__p2p_course(ctx->p2p, rank),
                           .culprit = ctx->rank,
                           .knows = ctx->peers[rank].by_hearsay ? 1 : 0};
    if (between >= 0) weft__alarm_tell(ctx, between, &notice);
}

/* The one at the other end is told.  This rank has a connection to either from now on: where it is their place to watch over each
 * other, and one of them ends, that is seen here, and the other is told of it. */
static void pass_unreachable(weft_context *ctx, const weft__notice *notice)
{
    ctx->peers[notice->subject].passes = ctx->peers[notice->culprit].passes = true;
    weft__alarm_tell(ctx, notice->subject, notice);
    weft__p2p_control(ctx->p2p, notice->subject, WEFT__MESSAGE_NONE, NULL, 0);
    weft__p2p_control(ctx->p2p, notice->culprit, WEFT__MESSAGE_NONE, NULL, 0);
}

/* Who asks this rank to pass a word on does not reach that one, and hears of its end, if that is certain, from nobody. */
static void tell_end_to(weft_context *ctx, int rank, int to)
{
    weft__notice notice = end_of(ctx, rank);
    notice.knows = notice.number == WEFT__LEFT ? 1 : 0;
    if (notice.number == WEFT__LEFT || notice.number == WEFT__DIED) weft__alarm_tell(ctx, to, &notice);
}

void weft__peer_told_unreachable(weft_context *ctx, int from, const weft__notice *notice)
{
    char why[192];
    WEFT__ASSERT(weft__holds_engine(ctx));
    if (notice->subject != ctx->rank) {
        if (from != notice->culprit) return;
        if (weft__is_gone(&ctx->peers[notice->subject]))
            tell_end_to(ctx, notice->subject, from);
        else
            pass_unreachable(ctx, notice);
    } else if (weft__p2p_course(ctx->p2p, notice->culprit) < notice->group) { /* else it is known, or over */
        snprintf(why, sizeof why,
                 "is unreachable: it does not reach this rank (rank %d), though rank %d hears both",
                 ctx->rank, from);
        weft__peer_unreachable(ctx, notice->culprit, !notice->knows, why);
    } else if (notice->knows && weft__p2p_course(ctx->p2p, notice->culprit) == notice->group) {
        ctx->peers[notice->culprit].by_hearsay =
            false; /* words that cross: both have been told by one that was told */
    }
}

bool weft__peer_unreachable(weft_context *ctx, int rank, bool told, const char *why)
{
    weft__peer *m = &ctx->peers[rank];
    char text[WEFT__SENTENCE_BYTES];
    WEFT__ASSERT(weft__holds_engine(ctx));
    if (atomic_load(&m->gone) != WEFT__LIVES || rank == ctx->rank || m->local >= 0 ||
        ctx->leaving != WEFT__STAYS)
        return false;
    snprintf(m->why, sizeof m->why, "%s", why);
    weft__peer_fate(ctx, rank, text, sizeof text);
    weft__log(WEFT__WARN, "%s", text);
    m->by_hearsay = told;
    suspect_no_more(m);
    gone_to(m, WEFT__UNREACHABLE);
    atomic_store(&m->strayed, atomic_fetch_add(&ctx->strays, 1) + 1);
    record_peer(ctx, rank, WEFT__HAPPENED_LINK_LOST, WEFT__RECORDED_PEER_LOST);
    weft__p2p_part(ctx->p2p, rank);
    if (atomic_load(&m->gone) != WEFT__UNREACHABLE) return true; /* what had arrived told of its end */
    weft__groups_lose(ctx, rank);
    WEFT__EACH_PROTOCOL(ctx, p)
    {
        if (p->peer_unreachable) p->peer_unreachable(ctx, rank, text);
    }
    weft__peer_watch_next(ctx);
    if (atomic_load(&m->gone) != WEFT__UNREACHABLE) return true; /* any of these may have found its end */
    if (!weft__p2p_begin_anew(ctx->p2p, rank)) {
        snprintf(text, sizeof text, "%s", m->why); /* which is written anew in there */
        weft__peer_gone(ctx, rank, WEFT__PRESUMED_DEAD, false, text);
    } else if (atomic_load(&m->gone) == WEFT__UNREACHABLE) {
        tell_unreachable(ctx, rank);
    }
    return true;
}

static void recheck_death(weft_context *ctx, weft__peer *m)
{
    char name[192];
    if (!weft__peer_is_watched(m) || !weft__peer_has_ended(m)) return;
    for (int most = ctx->world_size; most > 0 && weft__poller_poll(&ctx->poller) > 0; most--) continue;
    if (!weft__peer_is_watched(m)) return;
    weft__peer_name(ctx, m->rank, name, sizeof name);
    weft__log(WEFT__WARN, "%s had ended, and nothing told of that: it counts as gone now", name);
    m->death.ready(&m->death, EPOLLIN);
}

/* As net/tcp_recheck.c for what comes over sockets.  What the set has still to tell is no reason to say
 * anything. */
void weft__peer_deaths_recheck(weft_context *ctx)
{
    int64_t now = weft__now_ns();
    if (now < ctx->deaths_at_ns) return;
    ctx->deaths_at_ns = now + RECHECK_EVERY_NS;
    for (int i = 0; i < ctx->world_size && ctx->doubts; i++)
        if (weft__peer_may_become_another(&ctx->peers[i]) && weft__process_has_ended(&ctx->peers[i].process))
            weft__peer_gone(ctx, i, WEFT__DIED, false, "has ended, or is another program");
    for (int n = 0; n < RECHECKED && n < ctx->world_size; n++) {
        recheck_death(ctx, &ctx->peers[ctx->deaths_from]);
        ctx->deaths_from = (ctx->deaths_from + 1) % ctx->world_size;
    }
}

static void await_word(weft_context *ctx, weft__peer *m, const char *why, int64_t grace_ns)
{
    snprintf(m->suspicion, sizeof m->suspicion, "%s", why);
    m->suspect_ns = weft__now_ns() + grace_ns;
    weft__peer_doubt(ctx, m->suspect_ns);
}

void weft__peer_suspect(weft_context *ctx, int rank, const char *why)
{
    weft__peer *m = &ctx->peers[rank];
    if (m->suspect_ns) return;
    record_peer(ctx, rank, WEFT__HAPPENED_LINK_LOST, WEFT__RECORDED_PEER_LOST);
    await_word(ctx, m, why, GOODBYE_GRACE_NS);
}

void weft__peer_hearsay(weft_context *ctx, int rank, const char *why)
{
    weft__peer *m = &ctx->peers[rank];
    WEFT__ASSERT(weft__holds_engine(ctx));
    if (weft__is_gone(m) || m->hearsay || rank == ctx->rank) return;
    m->hearsay = true;
    await_word(ctx, m, why, HEARSAY_NS);
}

/* Who reaches it hears it itself, behind all that it has sent. */
void weft__peer_left_elsewhere(weft_context *ctx, int rank, const char *why)
{
    if (atomic_load(&ctx->peers[rank].gone) == WEFT__UNREACHABLE) weft__peer_hearsay(ctx, rank, why);
}

/* ---- time ---- */

/* One that is suspected, may be on its way to another program, or is accused (accused.c). */
static int64_t suspect_check(weft_context *ctx, int rank, int64_t now_ns)
{
    weft__peer *m = &ctx->peers[rank];
    int64_t next = WEFT__NEVER;
    if (weft__peer_may_become_another(m)) ctx->doubts = true;
    if (weft__peer_may_become_another(m) && weft__by_agreement(ctx)) next = ctx->deaths_at_ns;
    if (m->look_ns && now_ns >= m->look_ns) exec_check(ctx, m, now_ns);
    if (m->look_ns && m->look_ns < next) next = m->look_ns;
    if (weft__is_gone(m)) return next;
    if (m->accused_ns) ctx->doubts = true;
    if (!m->suspect_ns) return next;
    if (now_ns >= m->suspect_ns)
        weft__peer_gone(ctx, rank,
                        m->hearsay || ctx->leaving != WEFT__STAYS ? WEFT__LEFT : WEFT__PRESUMED_DEAD, false,
                        m->suspicion);
    else if (m->suspect_ns < next)
        next = m->suspect_ns;
    return next;
}

int64_t weft__peer_suspects_check(weft_context *ctx, int64_t now_ns)
{
    int64_t next = WEFT__NEVER;
    if (!ctx->doubts) return next;
    ctx->doubts = false; /* until one is found, or comes up meanwhile */
    for (int i = 0; i < ctx->world_size; i++) {
        int64_t at = suspect_check(ctx, i, now_ns);
        if (at == WEFT__NEVER) continue;
        ctx->doubts = true;
        if (at < next) next = at;
    }
    return next;
}
