/* heartbeat.c - see heartbeat.h and heartbeats.md, whose names these are. */
#include "heartbeat.h"
#include "accused.h"
#include "alarm.h"
#include "engine.h"
#include "heard_hosts.h"
#include "heartbeat_asked.h"
#include "log.h"
#include "p2p.h"
#include "peer.h"
#include "settings.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIMIT_LEAST_MS 100
#define BEATS          4 /* in a limit */
#define WIDER          4 /* the limit, by a part of it, where this thread does not go first */
#define ROUNDS_LIMIT   3 /* of the way there: no limit is shorter */
#define ROUNDS_WINDOW  8 /* likewise for answers, whose connection may have to be made */
#define ASKED_MOST     3 /* ranks, each of another host */
#define SPARES_MOST    4 /* so often the time after a host answered otherwise is doubled */
#define RENEW_LIMITS   4 /* of silence of one connection, while its host answers */
#define SUSPEND_NS     (10 * WEFT__MS)

typedef enum host_state {
    HOST_HEARD,
    HOST_SUSPECTED, /* it is knocked at, and others are asked */
    HOST_ELSEWHERE, /* others hear it, and this rank does not: connections to it are made anew */
    HOST_LOST       /* nobody does: its ranks are presumed dead */
} host_state;

typedef enum answer { NO_ANSWER, HEARS_IT, HEARS_NOT } answer;

typedef struct asked {
    int rank;
    answer answer;
} asked;

/* Ranks at one address. */
typedef struct host {
    weft_context *ctx;
    host_state state;
    int first, subject; /* of its ranks; whose silence it is */
    int64_t since_ns;   /* that lasts */
    int64_t suspected_ns;
    int64_t
        unreached_ns; /* suspected first since all its ranks were reached last; of ELSEWHERE, and while any is not yet */
    int64_t window_ns;   /* for answers */
    int64_t knock_ns;    /* is knocked at once more; WEFT__NEVER: it was */
    int64_t decide_ns;   /* no answer is waited for any longer */
    int64_t answered_ns; /* it did, to a knock or to others; 0: not since it was heard */
    int64_t heard_ns;    /* of the last that has come over any connection to it */
    int answers;         /* so often */
    bool is_cut_off;     /* nobody answers this rank, which is why it is suspected */
    bool is_patient;     /* somebody has not answered: they all get more time once */
    bool is_tried;       /* it could be knocked at */
    uint64_t question;
    asked asked[ASKED_MOST];
    int asked_count;
    weft__knock knock;
} host;

typedef struct heartbeat {
    int64_t next_ns, looked_ns, fresh_ns; /* silence of before does not count */
    int64_t limit_ns, beat_ns, suspended_ns;
    uint64_t questions;
    host *hosts;  /* NULL: none is listened to */
    int *host_of; /* by rank; -1: of this host */
    int count;
    weft__heartbeat_askers askers;
} heartbeat;

static heartbeat *heartbeat_of(const weft_context *ctx)
{
    return ctx->protocol_state[WEFT__PROTOCOL_HEARTBEAT];
}

static const weft__hearing *hearing_of(const weft_context *ctx, int rank)
{
    return weft__p2p_transport(ctx->p2p, rank)->hearing;
}

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* One that is unreachable does. */
static bool lives(const weft_context *ctx, int rank)
{
    return !weft__is_gone(&ctx->peers[rank]);
}

static bool is_of(const weft_context *ctx, const host *o, int rank)
{
    const heartbeat *h = heartbeat_of(ctx);
    return h->host_of[rank] >= 0 && &h->hosts[h->host_of[rank]] == o;
}

/* ---- states ---- */

static void host_to(host *o, host_state to)
{
    static const unsigned may_follow[] = {[HOST_HEARD] = WEFT__MAY_BECOME(HOST_SUSPECTED),
                                          [HOST_SUSPECTED] = WEFT__MAY_BECOME(HOST_HEARD) |
                                                             WEFT__MAY_BECOME(HOST_ELSEWHERE) |
                                                             WEFT__MAY_BECOME(HOST_LOST),
                                          [HOST_ELSEWHERE] =
                                              WEFT__MAY_BECOME(HOST_HEARD) | WEFT__MAY_BECOME(HOST_SUSPECTED),
                                          [HOST_LOST] = 0};
    WEFT__ASSERT(may_follow[o->state] & WEFT__MAY_BECOME(to), o->state, to);
    o->state = to;
}

/* What peers of that host show of it to the rest of the runtime. */
static void mark(const host *o, bool unheard)
{
    for (int r = o->first; r < o->ctx->world_size; r++)
        if (is_of(o->ctx, o, r)) o->ctx->peers[r].unheard = unheard;
}

/* -1: nobody hears it. */
static void mark_heard_by(host *o, int rank)
{
    bool unreached = false; /* one of its ranks at least, since before */
    for (int r = o->first; r < o->ctx->world_size; r++) {
        if (!is_of(o->ctx, o, r)) continue;
        unreached = unreached || o->ctx->peers[r].heard_by_another;
        o->ctx->peers[r].heard_by_another = rank >= 0;
        o->ctx->peers[r].heard_by = rank;
    }
    if (!unreached) o->unreached_ns = o->suspected_ns;
}

static weft__silence silence_of(const host *o, int rank)
{
    weft__transport *t = weft__p2p_transport(o->ctx->p2p, rank);
    return t->hearing->silence(t, rank, 0, weft__now_ns());
}

/* Over the connection to rank `by` of it; -1: otherwise.  Those of its ranks whose own one is still being made anew are reached
 * by others as before, or by that rank: where it cannot be made they have not died. */
static void host_heard(host *o, int by)
{
    weft__knock_end(&o->knock);
    if (o->state == HOST_HEARD || o->state == HOST_LOST) return;
    host_to(o, HOST_HEARD);
    mark(o, false);
    for (int r = o->first; r < o->ctx->world_size; r++) {
        weft__peer *m = &o->ctx->peers[r];
        if (!is_of(o->ctx, o, r)) continue;
        m->heard_by_another =
            m->heard_by_another && r != by && weft__p2p_touched(o->ctx->p2p, r) && !silence_of(o, r).stands;
        if (m->heard_by_another && by >= 0) m->heard_by = by;
    }
}

/* ---- others are asked ---- */

static bool can_be_asked(const weft_context *ctx, const host *o, int rank)
{
    const heartbeat *h = heartbeat_of(ctx);
    const host *of = h->host_of[rank] < 0 ? NULL : &h->hosts[h->host_of[rank]];
    if (!of || of == o || of->state != HOST_HEARD || !lives(ctx, rank)) return false;
    for (int i = 0; i < o->asked_count; i++)
        if (is_of(ctx, of, o->asked[i].rank)) return false;
    return true;
}

/* One rank of each of the next few hosts. */
static void choose_asked(host *o)
{
    const weft_context *ctx = o->ctx;
    o->asked_count = 0;
    for (int i = 1; i < ctx->world_size && o->asked_count < ASKED_MOST; i++) {
        int rank = (ctx->rank + i) % ctx->world_size; /* so those that ask the same do not all ask one */
        if (can_be_asked(ctx, o, rank)) o->asked[o->asked_count++] = (asked){.rank = rank};
    }
}

static void ask_others(host *o)
{
    weft__notice question = {.kind = WEFT__NOTICE_IS_HEARD,
                             .subject = o->subject,
                             .number = o->question,
                             .ago_ns = o->window_ns - o->window_ns / 4};
    for (int i = 0; i < o->asked_count; i++) weft__alarm_tell(o->ctx, o->asked[i].rank, &question);
}

/* ---- suspicion ---- */

static void on_answer_to_knock(weft__knock *knock)
{
    host *o = WEFT__OWNER(knock, host, knock);
    o->answered_ns = weft__now_ns();
    o->answers++;
    weft__log(WEFT__INFO, "heartbeat: the host of rank %d answers, though nothing comes over its connection",
              o->subject);
    host_heard(o, -1);
}

static void knock_at(host *o)
{
    const weft__hearing *hearing = hearing_of(o->ctx, o->subject);
    o->knock.answered = on_answer_to_knock;
    if (hearing->knock(weft__p2p_transport(o->ctx->p2p, o->subject), o->subject, &o->knock))
        o->is_tried = true;
}

static void suspect(host *o, int rank, int64_t since_ns, int64_t window_ns, bool is_cut_off, int64_t now_ns)
{
    heartbeat *h = heartbeat_of(o->ctx);
    o->subject = rank;
    o->since_ns = since_ns;
    o->suspected_ns = now_ns;
    o->is_cut_off = is_cut_off;
    o->window_ns = window_ns;
    o->knock_ns = now_ns + window_ns / 2;
    o->decide_ns = now_ns + window_ns;
    o->is_patient = o->is_tried = false;
    o->question = ++h->questions;
    o->asked_count = 0;
    if (!is_cut_off) choose_asked(o);
    host_to(o, HOST_SUSPECTED);
    mark(o, !is_cut_off);
    knock_at(o);
    if (o->state == HOST_SUSPECTED) ask_others(o);
}

static int some_rank_of(const host *o)
{
    for (int r = o->first; r < o->ctx->world_size; r++)
        if (is_of(o->ctx, o, r) && lives(o->ctx, r)) return r;
    return -1;
}

/* Nobody answers this rank: is it the one that is cut off?  Each host is knocked at, as nobody can be asked. */
static void suspect_all(weft_context *ctx, int64_t now_ns)
{
    heartbeat *h = heartbeat_of(ctx);
    for (int i = 0; i < h->count; i++) {
        host *o = &h->hosts[i];
        int rank = some_rank_of(o);
        if (o->state == HOST_HEARD && rank >= 0) suspect(o, rank, now_ns, h->limit_ns / 2, true, now_ns);
    }
}

static int count_of(const host *o, answer what)
{
    int n = 0;
    for (int i = 0; i < o->asked_count; i++) n += o->asked[i].answer == what;
    return n;
}

static void say_who(const host *o, char *text, size_t bytes)
{
    const answer what = count_of(o, HEARS_NOT) ? HEARS_NOT : NO_ANSWER;
    const bool one = count_of(o, what) == 1;
    const char *before = one ? "rank" : "ranks";
    size_t at = 0;
    if (!o->asked_count) {
        snprintf(text, bytes, o->is_cut_off ? "no other host answers it" : "there is no other host to ask");
        return;
    }
    for (int i = 0; i < o->asked_count && at < bytes; i++) {
        if (o->asked[i].answer != what) continue;
        at += (size_t)snprintf(text + at, bytes - at, "%s %d", before, o->asked[i].rank);
        before = ",";
    }
    if (at >= bytes) return;
    if (what == HEARS_NOT)
        snprintf(text + at, bytes - at, one ? " does not hear it either" : " do not hear it either");
    else
        snprintf(text + at, bytes - at,
                 one ? " was asked and has not answered" : " were asked and have not answered");
}

/* All of its ranks at once. */
static void presume(host *o, int64_t now_ns)
{
    weft_context *ctx = o->ctx;
    char who[96], why[192];
    say_who(o, who, sizeof who);
    snprintf(why, sizeof why, "is presumed dead: rank %d has heard nothing of its host for %.1f s, and %s",
             ctx->rank, (double)(now_ns - o->since_ns) / (1000.0 * (double)WEFT__MS), who);
    weft__knock_end(&o->knock);
    host_to(o, HOST_LOST);
    mark(o, true);
    mark_heard_by(o, -1);
    for (int r = o->first; r < ctx->world_size; r++)
        if (is_of(ctx, o, r) && lives(ctx, r)) weft__peer_gone(ctx, r, WEFT__PRESUMED_DEAD, false, why);
}

/* It has been made anew since its host was not reached. */
static bool is_mended(const host *o, int rank)
{
    const weft__silence silence = silence_of(o, rank);
    return silence.stands && silence.heard_ns > o->unreached_ns;
}

/* One of its ranks is not reached from here, so are the others, but those that are reached again: one break is enough.  Who has only been told of the one knows
 * no more of the others.  (The host is asked for again in each limit, and so may be suspected just now.) */
static void heartbeat_peer_unreachable(weft_context *ctx, int rank, const char *why)
{
    const heartbeat *h = heartbeat_of(ctx);
    const weft__peer *m = &ctx->peers[rank];
    host *o = h->hosts && h->host_of[rank] >= 0 ? &h->hosts[h->host_of[rank]] : NULL;
    (void)why;
    if (!o || !m->heard_by_another) return;
    for (int r = o->first; r < ctx->world_size; r++)
        if (r != rank && is_of(ctx, o, r) && ctx->peers[r].heard_by_another && !is_mended(o, r))
            weft__peer_unreachable(ctx, r, m->by_hearsay, m->why);
}

/* Its end is known otherwise, from its own host. */
static bool has_spoken(const host *o)
{
    weft__gone gone = atomic_load(&o->ctx->peers[o->subject].gone);
    return gone == WEFT__LEFT || gone == WEFT__DIED;
}

/* Some other host answers this rank, which so is not cut off. */
static bool hears_another(const host *o)
{
    const heartbeat *h = heartbeat_of(o->ctx);
    for (int i = 0; i < h->count; i++)
        if (h->hosts[i].state == HOST_HEARD && some_rank_of(&h->hosts[i]) >= 0) return true;
    return false;
}

static void decide(host *o, int64_t now_ns)
{
    if (!o->is_tried) { /* this rank has no descriptor for it, or no port */
        o->decide_ns = now_ns + o->window_ns;
        knock_at(o);
    } else if (o->is_cut_off && hears_another(o)) {
        host_heard(o, -1); /* it goes the ordinary way, if it is silent */
    } else if (count_of(o, NO_ANSWER) && !o->is_patient) {
        o->is_patient = true;
        o->decide_ns = now_ns + heartbeat_of(o->ctx)->limit_ns / 2;
        if (count_of(o, NO_ANSWER) == o->asked_count) suspect_all(o->ctx, now_ns);
    } else {
        presume(o, now_ns);
    }
}

static void attend_to(host *o, int64_t now_ns)
{
    if (o->state == HOST_SUSPECTED && has_spoken(o)) host_heard(o, -1);
    if (o->state == HOST_SUSPECTED && now_ns >= sooner(o->knock_ns, o->decide_ns))
        weft__knock_look(&o->knock);
    if (o->state == HOST_SUSPECTED && now_ns >= o->knock_ns) {
        o->knock_ns = WEFT__NEVER;
        knock_at(o);
    }
    if (o->state == HOST_SUSPECTED && now_ns >= o->decide_ns) decide(o, now_ns);
}

static int64_t next_time_of(const host *o)
{
    if (o->state != HOST_SUSPECTED) return WEFT__NEVER;
    return sooner(o->knock_ns, o->decide_ns);
}

/* ---- what others answer ---- */

/* Connections over which nothing is heard; the one to that rank may have been given up by the one before. */
static void renew_silent(host *o, int hearer, int64_t now_ns)
{
    weft_context *ctx = o->ctx;
    const heartbeat *h = heartbeat_of(ctx);
    char why[96];
    snprintf(why, sizeof why, "nothing of its host is heard here, though rank %d hears it", hearer);
    for (int r = o->first; r < ctx->world_size; r++) {
        weft__silence silence;
        if (!is_of(ctx, o, r) || !lives(ctx, r)) continue;
        silence = silence_of(o, r);
        if (silence.sent && silence.since_ns && now_ns - silence.since_ns >= h->limit_ns / 2)
            hearing_of(ctx, r)->renew(weft__p2p_transport(ctx->p2p, r), r, why);
    }
}

static void heard_by(host *o, int rank, int64_t now_ns)
{
    if (!o->ctx->peers[o->subject].heard_by_another)
        weft__log(WEFT__WARN,
                  "heartbeat: the host of rank %d is not heard here (rank %d), and rank %d hears it",
                  o->subject, o->ctx->rank, rank);
    weft__knock_end(&o->knock);
    host_to(o, HOST_ELSEWHERE);
    mark(o, true);
    mark_heard_by(o, rank);
    o->answered_ns = now_ns;
    renew_silent(o, rank, now_ns);
}

static void take_answer(weft_context *ctx, int from, const weft__notice *notice)
{
    heartbeat *h = heartbeat_of(ctx);
    host *o = h->hosts && h->host_of[notice->subject] >= 0 ? &h->hosts[h->host_of[notice->subject]] : NULL;
    if (!o || o->state != HOST_SUSPECTED || o->question != notice->number) return;
    for (int i = 0; i < o->asked_count; i++)
        if (o->asked[i].rank == from) o->asked[i].answer = notice->knows ? HEARS_IT : HEARS_NOT;
    if (count_of(o, HEARS_IT)) weft__knock_look(&o->knock); /* it may have answered here, too */
    if (count_of(o, HEARS_IT) && o->state == HOST_SUSPECTED) heard_by(o, from, weft__now_ns());
}

static void heartbeat_notice(weft_context *ctx, int from, const weft__notice *notice)
{
    heartbeat *h = heartbeat_of(ctx);
    int64_t until;
    weft__engine_take(ctx);
    if (notice->kind == WEFT__NOTICE_HEARD && notice->subject == from) {
        weft__accuser_answers(ctx, from);
    } else if (notice->kind == WEFT__NOTICE_HEARD) {
        take_answer(ctx, from, notice);
    } else {
        until = weft__heartbeat_is_asked(&h->askers, ctx, from, notice, weft__now_ns());
        if (until < h->next_ns) h->next_ns = until;
    }
    weft__engine_drop(ctx);
}

/* ---- listening ---- */

/* Is the silence of this rank's own making: stopped, in a debugger, suspended with its machine? */
static bool was_away(heartbeat *h, int64_t now_ns)
{
    struct timespec boot;
    int64_t suspended, before = h->suspended_ns, looked = h->looked_ns, begun = weft__now_ns();
    clock_gettime(CLOCK_BOOTTIME, &boot);
    suspended = (int64_t)boot.tv_sec * 1000000000 + boot.tv_nsec - begun;
    h->looked_ns = now_ns;
    if (weft__now_ns() - begun < SUSPEND_NS) h->suspended_ns = suspended; /* else it is not known that well */
    return !looked || now_ns - looked > h->beat_ns + h->limit_ns / 2 || h->suspended_ns - before > SUSPEND_NS;
}

static int next_living(const weft_context *ctx)
{
    int next = (ctx->rank + 1) % ctx->world_size;
    while (next != ctx->rank && !lives(ctx, next)) next = (next + 1) % ctx->world_size;
    return next;
}

/* Who leaves watches over nobody, and has only to know whether it waits in vain for its goodbye to be taken. */
static bool is_watched(const weft_context *ctx, int rank)
{
    return ctx->leaving > WEFT__ASKS ? weft__p2p_awaits_bye(ctx->p2p, rank) : rank == next_living(ctx);
}

static int64_t limit_for(const heartbeat *h, const weft__silence *silence)
{
    const int64_t rounds = ROUNDS_LIMIT * silence->round_ns;
    return rounds > h->limit_ns ? rounds : h->limit_ns;
}

/* Its silence counts from the last answer on, which it gave otherwise, and each time for longer: it is no news that this
 * connection is silent, or its receiver full. */
static int64_t due_after(const host *o, int64_t since_ns, int64_t limit_ns)
{
    const int64_t wait_ns = limit_ns - limit_ns / 4;
    const int more = o->answers < SPARES_MOST ? o->answers : SPARES_MOST;
    return o->answered_ns > since_ns ? o->answered_ns + (wait_ns << more) : since_ns + wait_ns;
}

/* Something has come over the connection to that rank of it. */
static void note_heard(host *o, int rank, int64_t heard_ns)
{
    if (heard_ns > o->heard_ns) o->heard_ns = heard_ns;
    if (heard_ns > o->answered_ns) o->answers = 0;
    if (heard_ns <= o->suspected_ns) return;
    host_heard(o, rank);
    if (o->state == HOST_HEARD) o->ctx->peers[rank].heard_by_another = false;
}

/* To a knock, or over another connection: so it is this one alone that is silent. */
static bool has_shown_itself(const host *o, int64_t since_ns)
{
    return o->answered_ns > since_ns || o->heard_ns > since_ns;
}

/* Returns when it is to be listened to again. */
static int64_t listen_to(host *o, int rank, bool watched, int64_t now_ns)
{
    const heartbeat *h = heartbeat_of(o->ctx);
    weft__transport *t = weft__p2p_transport(o->ctx->p2p, rank);
    weft__silence silence = t->hearing->silence(t, rank, watched ? h->beat_ns : 0, now_ns);
    const int64_t limit = limit_for(h, &silence), rounds = ROUNDS_WINDOW * silence.round_ns;
    int64_t since = silence.since_ns > h->fresh_ns ? silence.since_ns : h->fresh_ns, due;
    note_heard(o, rank, silence.heard_ns);
    if (!silence.stands && o->heard_ns > since) since = o->heard_ns; /* another rank of that host speaks */
    if (!silence.since_ns || o->state == HOST_SUSPECTED || o->state == HOST_LOST) return WEFT__NEVER;
    if (o->state == HOST_HEARD && has_shown_itself(o, since) && silence.sent && silence.stands &&
        now_ns - since >= RENEW_LIMITS * limit) {
        t->hearing->renew(t, rank, "nothing that was sent is acknowledged, though its host answers");
        return WEFT__NEVER;
    }
    due = due_after(o, since, limit);
    if (now_ns < due) return due;
    suspect(o, rank, since, limit / 4 > rounds ? limit / 4 : rounds, false, now_ns);
    return WEFT__NEVER;
}

static void begin_anew(heartbeat *h, int64_t now_ns)
{
    h->fresh_ns = now_ns;
    for (int i = 0; i < h->count; i++)
        if (h->hosts[i].state == HOST_SUSPECTED) host_heard(&h->hosts[i], -1);
}

static int64_t look(weft_context *ctx, int64_t now_ns)
{
    heartbeat *h = heartbeat_of(ctx);
    int64_t next = now_ns + h->beat_ns;
    if (was_away(h, now_ns)) begin_anew(h, now_ns);
    for (int r = 0; r < ctx->world_size; r++)
        if (h->host_of[r] >= 0 && lives(ctx, r))
            next = sooner(next, listen_to(&h->hosts[h->host_of[r]], r, is_watched(ctx, r), now_ns));
    for (int i = 0; i < h->count; i++) attend_to(&h->hosts[i], now_ns);
    for (int i = 0; i < h->count; i++) next = sooner(next, next_time_of(&h->hosts[i]));
    return next;
}

/* ---- its life ---- */

/* One rank of each host tells. */
static void widen(const weft_context *ctx, heartbeat *h)
{
    h->limit_ns += h->limit_ns / WIDER;
    if (ctx->peers[ctx->rank].first_on_host == ctx->rank)
        weft__log(WEFT__INFO,
                  "the watchdog may not go before other threads here (expected nice %d to be allowed): a "
                  "host counts as "
                  "silent after %.2f s in place of %.2f s",
                  WEFT__WATCHDOG_NICE, (double)h->limit_ns / 1e9,
                  (double)weft__setting_int(WEFT__SET_HEARTBEAT_MS) / 1e3);
}

static bool begin(weft_context *ctx, bool goes_first)
{
    heartbeat *h = heartbeat_of(ctx);
    int64_t limit_ms = weft__setting_int(WEFT__SET_HEARTBEAT_MS);
    if (!limit_ms) return false;
    if (limit_ms < LIMIT_LEAST_MS) limit_ms = LIMIT_LEAST_MS;
    h->limit_ns = limit_ms * WEFT__MS;
    h->host_of = calloc((size_t)ctx->world_size, sizeof *h->host_of);
    if (h->host_of) h->count = weft__heard_hosts(ctx, h->host_of);
    if (h->host_of && !h->count) return false;
    if (!goes_first) widen(ctx, h);
    h->beat_ns = h->limit_ns / BEATS;
    h->hosts = h->host_of ? calloc((size_t)h->count, sizeof *h->hosts) : NULL;
    if (!h->hosts) {
        weft__log(WEFT__WARN, "rank %d listens to no other host: no memory", ctx->rank);
        return false;
    }
    for (int r = ctx->world_size - 1; r >= 0; r--)
        if (h->host_of[r] >= 0) h->hosts[h->host_of[r]].first = h->hosts[h->host_of[r]].subject = r;
    for (int i = 0; i < h->count; i++) h->hosts[i].ctx = ctx;
    return true;
}

int64_t weft__heartbeat_attend(weft_context *ctx, bool goes_first, int64_t now_ns)
{
    heartbeat *h = heartbeat_of(ctx);
    int64_t next = WEFT__NEVER;
    if (now_ns < h->next_ns) return h->next_ns;
    weft__engine_take(ctx);
    if (h->hosts || (!h->host_of && begin(ctx, goes_first))) next = look(ctx, now_ns);
    h->next_ns = sooner(next, weft__heartbeat_asked_check(&h->askers, ctx, now_ns));
    weft__engine_drop(ctx);
    return h->next_ns;
}

static weft_status open_heartbeat(weft_context *ctx)
{
    ctx->protocol_state[WEFT__PROTOCOL_HEARTBEAT] = calloc(1, sizeof(heartbeat));
    return heartbeat_of(ctx) ? WEFT_OK : weft__fail_memory(sizeof(heartbeat), "which hosts are heard");
}

static void close_heartbeat(weft_context *ctx)
{
    heartbeat *h = heartbeat_of(ctx);
    if (!h) return;
    for (int i = 0; h->hosts && i < h->count; i++) weft__knock_end(&h->hosts[i].knock);
    weft__heartbeat_asked_close(&h->askers);
    free(h->hosts);
    free(h->host_of);
    free(h);
}

const weft__protocol weft__heartbeat_protocol = {.name = "which hosts are heard",
                                                 .first_notice = WEFT__NOTICE_IS_HEARD,
                                                 .last_notice = WEFT__NOTICE_HEARD,
                                                 .open = open_heartbeat,
                                                 .close = close_heartbeat,
                                                 .notice = heartbeat_notice,
                                                 .peer_unreachable = heartbeat_peer_unreachable};
