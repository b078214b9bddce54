/* late.c - see late.h. */
#include "late.h"
#include "alarm.h"
#include "engine.h"
#include "host_tree.h"
#include "late_rows.h"
#include "peer.h"

#include <string.h>

#define SILENCE_NS  (150 * WEFT__MS)  /* then the next one is asked as well */
#define STILL_NS    (50 * WEFT__MS)   /* who waits for others itself says so this often */
#define PASSED_NS   (2000 * WEFT__MS) /* for so long who was silent is passed over */
#define COLLECT_NS  (700 * WEFT__MS)  /* the root has collected then, whoever has not answered */
#define LEVEL_NS    (75 * WEFT__MS)   /* by which each below has to be done sooner than who asks it */
#define FRESH_NS    (20 * WEFT__MS)   /* a round that closed so lately answers whoever asks, */
#define STALE_NS    (500 * WEFT__MS)  /* and one of before that nobody */
#define ASKED_MOST  3                 /* members of one host that are tried */
#define SILENT_MOST 2 /* of one host: then it is passed over with those who have not been tried */
#define ABOVE_MOST  4 /* hosts that are silent to a rank's question of the whole, in one round */

/* What may follow on each state. */
static const uint8_t late_follows[] = {[WEFT__LATE_CLOSED] = WEFT__MAY_BECOME(WEFT__LATE_ASKED) |
                                                             WEFT__MAY_BECOME(WEFT__LATE_COLLECTING),
                                       [WEFT__LATE_ASKED] = WEFT__MAY_BECOME(WEFT__LATE_ASKED) |
                                                            WEFT__MAY_BECOME(WEFT__LATE_COLLECTING) |
                                                            WEFT__MAY_BECOME(WEFT__LATE_CLOSED),
                                       [WEFT__LATE_COLLECTING] = WEFT__MAY_BECOME(WEFT__LATE_ASKED) |
                                                                 WEFT__MAY_BECOME(WEFT__LATE_COLLECTING) |
                                                                 WEFT__MAY_BECOME(WEFT__LATE_CLOSED)};

static bool is_open(const weft__late_round *round)
{
    return round->state != WEFT__LATE_CLOSED;
}

static bool is_fresh(const weft__late_round *round, int64_t now)
{
    return is_open(round) || now - round->closed_ns < FRESH_NS;
}

/* One of the two machines of a group, which is in its context's list unless both are CLOSED. */
static void late_to(weft_group *group, weft__late_round *late, weft__late_state to)
{
    bool was_open = is_open(&group->late.up) || is_open(&group->late.down), opens;
    WEFT__ASSERT(WEFT__ALLOWS(late_follows, late->state, to), late->state, to);
    late->state = to;
    opens = is_open(&group->late.up) || is_open(&group->late.down);
    if (was_open && !opens) {
        weft__list_remove(&group->late.link);
    } else if (!was_open && opens) {
        weft__list_init(&group->late.link);
        weft__list_append(&group->ctx->late_rounds, &group->late.link);
        group->late.still_ns = weft__now_ns() + STILL_NS;
        weft__alarm_check(group->ctx, group->late.still_ns);
    }
}

unsigned weft__late_total(const weft_group *group)
{
    return group->late.total;
}

/* ---- who is asked ---- */

static bool is_passed_over(const weft_group *group, int member, int64_t now)
{
    return member != group->rank &&
           (weft__late_gone(group, member) || now < group->reports[member].passed_until_ns);
}

/* The lowest member of a host that can be asked; -1: none is left.  Every rank takes itself for one. */
static int speaker_of(const weft_group *group, int host, int64_t now)
{
    const weft__seats *hosts = group->host_tree;
    for (int seat = hosts->first[host]; seat < hosts->first[host + 1]; seat++)
        if (!is_passed_over(group, hosts->rank_at[seat], now)) return hosts->rank_at[seat];
    return -1;
}

/* Members of it that have been silent lately. */
static int silent_on(const weft_group *group, int host, int64_t now)
{
    const weft__seats *hosts = group->host_tree;
    int silent = 0;
    for (int seat = hosts->first[host]; seat < hosts->first[host + 1]; seat++)
        silent += now < group->reports[hosts->rank_at[seat]].passed_until_ns;
    return silent;
}

static int own_host(const weft_group *group)
{
    return weft__host_of(group->host_tree, group->rank);
}

/* Who of that host is asked of the whole group; -1: nobody. */
static int above_on(const weft_group *group, int host, int64_t now)
{
    if (silent_on(group, host, now) < SILENT_MOST) return speaker_of(group, host, now);
    return host == own_host(group) ? group->rank : -1;
}

/* Whom this rank asks of the whole group: its host's speaker, and as that the nearest host above it, or where nobody
 * there can be asked the first of all hosts; itself: it is the root. */
static int above(const weft_group *group, int64_t now)
{
    int own = own_host(group), speaker = above_on(group, own, now);
    if (speaker != group->rank) return speaker;
    for (int h = own; h > 0;) {
        h = weft__host_above(group->ctx, h);
        if ((speaker = above_on(group, h, now)) >= 0) return speaker;
    }
    for (int h = 0; h < own; h++)
        if ((speaker = above_on(group, h, now)) >= 0) return speaker;
    return group->rank;
}

static void ask_one(weft_group *group, int member, weft__late_scope scope, uint64_t number, int64_t patience)
{
    weft__notice who = {.kind = WEFT__NOTICE_WHO,
                        .subject = (int32_t)scope,
                        .group = group->id,
                        .number = number,
                        .ago_ns = patience};
    weft__late_tell(group->ctx, group->world[member], &who);
}

/* One whose answer the round that goes down waits for. */
static void ask_down(weft_group *group, int member, weft__late_scope scope, int64_t now)
{
    const weft__late_round *down = &group->late.down;
    group->reports[member].awaited_ns = now;
    group->reports[member].awaited_scope = (uint8_t)scope;
    ask_one(group, member, scope, down->number, down->until_ns > now ? down->until_ns - now : 0);
}

static void ask_children(weft_group *group, int host, int64_t now);

/* That host and all below it; of one where nobody can be asked, and of this rank's own, those below one by one; of
 * one that seems silent both, not to wait for it once more. */
static void ask_host(weft_group *group, int host, int64_t now)
{
    int speaker = host == own_host(group) ? -1 : speaker_of(group, host, now);
    int silent = silent_on(group, host, now);
    if (speaker >= 0 && silent < ASKED_MOST) {
        group->reports[speaker].asked = (uint8_t)(silent + 1);
        ask_down(group, speaker, silent < SILENT_MOST ? WEFT__LATE_BELOW : WEFT__LATE_HOST, now);
    }
    if (speaker < 0 || silent >= SILENT_MOST) ask_children(group, host, now);
}

static void ask_children(weft_group *group, int host, int64_t now)
{
    int child = weft__host_below(group->ctx, host);
    for (int i = 0; i < group->ctx->fan_out && child + i < group->host_tree->hosts; i++)
        ask_host(group, child + i, now);
}

static void answer(weft_group *group, int to, weft__late_scope scope, uint64_t number,
                   const weft__late_rows *rows)
{
    weft__notice here = {.kind = WEFT__NOTICE_HERE,
                         .subject = (int32_t)scope,
                         .group = group->id,
                         .number = number,
                         .knows = WEFT__LATE_KNOWS};
    if (scope == WEFT__LATE_WHOLE && group->late.up.closed_ns)
        here.ago_ns = weft__now_ns() - group->late.up.closed_ns;
    memcpy(here.text, rows, sizeof *rows);
    weft__late_tell(group->ctx, group->world[to], &here);
}

/* ---- rounds ---- */

/* Tells all who asked of the whole group what this rank has collected, or was told, which may leave out names. */
static void answer_up(weft_group *group, bool collected)
{
    const weft__late_round *up = &group->late.up;
    weft__late_rows rows = weft__late_rows_of(group, WEFT__LATE_WHOLE, collected, up->number, up->began_ns);
    if (collected)
        group->late.total = rows.count + rows.more;
    else
        weft__late_add_unnamed(group, &rows);
    for (int i = 0; i < group->size; i++) {
        if (!group->reports[i].wants) continue;
        group->reports[i].wants = false;
        answer(group, i, WEFT__LATE_WHOLE, up->number, &rows);
    }
}

/* as_of_ns: when what is told was found out.  It is closed before anybody is told: a local rank may be found to have
 * died over that, and what that breaks ends rounds. */
static void close_up(weft_group *group, int64_t as_of_ns)
{
    bool collected = group->late.up.state == WEFT__LATE_COLLECTING;
    late_to(group, &group->late.up, WEFT__LATE_CLOSED);
    group->late.up.closed_ns = as_of_ns;
    answer_up(group, collected);
}

static void answer_down(weft_group *group)
{
    const weft__late_round *down = &group->late.down;
    weft__late_rows rows;
    bool made = false;
    for (int i = 0; i < group->size; i++) {
        if (!group->reports[i].wants_below) continue;
        if (!made) rows = weft__late_rows_of(group, WEFT__LATE_BELOW, true, down->number, down->began_ns);
        made = true;
        group->reports[i].wants_below = false;
        answer(group, i, WEFT__LATE_BELOW, down->number, &rows);
    }
}

static void close_down(weft_group *group, int64_t now)
{
    late_to(group, &group->late.down, WEFT__LATE_CLOSED);
    group->late.down.closed_ns = now;
    for (int i = 0; i < group->size; i++) group->reports[i].awaited_ns = 0;
    answer_down(group);
    if (group->late.up.state == WEFT__LATE_COLLECTING) close_up(group, now);
}

static bool awaits_somebody(const weft_group *group)
{
    for (int i = 0; i < group->size; i++)
        if (group->reports[i].awaited_ns) return true;
    return false;
}

/* One that is open, or has just closed, and covers as much. */
static bool does_for(const weft__late_round *down, uint64_t number, bool whole, int64_t now)
{
    return down->number >= number && (down->whole || !whole) && is_fresh(down, now);
}

/* Asks below this rank's host; whole: below the root's. */
static void collect(weft_group *group, uint64_t number, bool whole, int64_t patience, int64_t now)
{
    weft__late_round *down = &group->late.down;
    weft__late_scope scope = whole ? WEFT__LATE_WHOLE : WEFT__LATE_BELOW;
    if (does_for(down, number, whole, now)) return;
    if (is_open(down)) whole = whole || down->whole;
    if (!is_open(down) || number > down->number) down->number = number;
    down->whole = whole;
    down->began_ns = now;
    down->until_ns = now + patience;
    late_to(group, down, WEFT__LATE_COLLECTING);
    for (int i = 0; i < group->size; i++) {
        group->reports[i].awaited_ns = 0;
        group->reports[i].asked = 0;
        if (weft__late_is_in(group, scope, group->rank, i)) group->reports[i].more = 0;
    }
    ask_host(group, whole ? 0 : own_host(group), now);
    if (!awaits_somebody(group)) close_down(group, now);
}

static void go_up(weft_group *group, int64_t now)
{
    weft__late_round *up = &group->late.up, *down = &group->late.down;
    group->late.above = above(group, now);
    if (group->late.above != group->rank) {
        late_to(group, up, WEFT__LATE_ASKED);
        group->late.above_ns = now;
        ask_one(group, group->late.above, WEFT__LATE_WHOLE, up->number, up->stale_ns);
        return;
    }
    late_to(group, up, WEFT__LATE_COLLECTING);
    collect(group, up->number, true, COLLECT_NS, now);
    if (down->began_ns < up->began_ns) up->began_ns = down->began_ns;
    if (is_open(up) && !is_open(down)) close_up(group, down->closed_ns); /* it has just been collected */
}

static void open_up(weft_group *group, uint64_t number, int64_t stale_ns, int64_t now)
{
    group->late.up.stale_ns = stale_ns;
    group->late.silent_above = 0;
    if (number != group->late.up.number) group->late.total = 0;
    group->late.up.number = number;
    group->late.up.began_ns = now;
    group->late.up.until_ns = now + 2 * COLLECT_NS;
    go_up(group, now);
}

/* A round that is open answers that question too.  What the root collects is new. */
static bool will_do_for(const weft__late_round *up, uint64_t number, int64_t stale_ns)
{
    return up->number >= number && (up->state == WEFT__LATE_COLLECTING ||
                                    (up->state == WEFT__LATE_ASKED && up->stale_ns <= stale_ns));
}

/* In steps: ranks that wait for one operation want nearly the same, and one that wants a little less than the one
 * before would begin a round anew. */
static int64_t stale_of(int64_t wanted_ns)
{
    int64_t stale_ns = FRESH_NS;
    if (wanted_ns >= STALE_NS) return STALE_NS;
    while (2 * stale_ns <= wanted_ns) stale_ns *= 2;
    return stale_ns;
}

int64_t weft__late_ask(weft_group *group, uint64_t number, int64_t stale_ns)
{
    const weft__late_round *up = &group->late.up;
    int64_t now = weft__now_ns();
    WEFT__ASSERT(weft__holds_engine(group->ctx));
    if (!weft__host_tree_made(group)) return now;
    if (!will_do_for(up, number, stale_of(stale_ns))) open_up(group, number, stale_of(stale_ns), now);
    return up->state == WEFT__LATE_ASKED ? now : up->began_ns;
}

void weft__late_end(weft_group *group)
{
    if (is_open(&group->late.down)) close_down(group, weft__now_ns());
    if (is_open(&group->late.up)) close_up(group, weft__now_ns());
}

void weft__late_forget(weft_group *group)
{
    if (is_open(&group->late.up)) late_to(group, &group->late.up, WEFT__LATE_CLOSED);
    if (is_open(&group->late.down)) late_to(group, &group->late.down, WEFT__LATE_CLOSED);
}

/* It said nothing, or does not have the group: the next one of its host is asked of that, and the hosts below it are
 * asked here, not to wait for one silence after the other. */
static void pass_over(weft_group *group, int member, int64_t now)
{
    weft__report *r = &group->reports[member];
    int host = weft__host_of(group->host_tree, member), next;
    r->awaited_ns = 0;
    r->passed_until_ns = now + PASSED_NS;
    if (r->awaited_scope == WEFT__LATE_BELOW) ask_children(group, host, now);
    next = speaker_of(group, host, now);
    if (next < 0 || r->asked >= ASKED_MOST) return;
    group->reports[next].asked = (uint8_t)(r->asked + 1);
    ask_down(group, next, WEFT__LATE_HOST, now);
}

/* silent: it said nothing; else it is gone, or does not have the group, which has taken no time. */
static void pass_over_above(weft_group *group, bool silent, int64_t now)
{
    weft__late *late = &group->late;
    if (late->silent_above == ABOVE_MOST) return;
    group->reports[late->above].passed_until_ns = now + PASSED_NS;
    if (silent && above_on(group, weft__host_of(group->host_tree, late->above), now) < 0)
        late->silent_above++;
    if (late->silent_above == ABOVE_MOST) return; /* where all seem silent it is the machine that is busy */
    go_up(group, now);
}

/* To those who wait for an answer that waits for others. */
static void tell_still(weft_group *group, int64_t now)
{
    weft__notice here = {.kind = WEFT__NOTICE_HERE, .group = group->id, .knows = WEFT__LATE_STILL};
    group->late.still_ns = now + STILL_NS;
    for (int i = 0; i < group->size; i++) {
        if (!group->reports[i].wants && !group->reports[i].wants_below) continue;
        here.subject = group->reports[i].wants ? WEFT__LATE_WHOLE : WEFT__LATE_BELOW;
        weft__late_tell(group->ctx, group->world[i], &here);
    }
}

static void look_down(weft_group *group, int64_t now)
{
    for (int i = 0; i < group->size; i++) {
        int64_t since = group->reports[i].awaited_ns;
        if (since && (weft__late_gone(group, i) || now >= since + SILENCE_NS)) pass_over(group, i, now);
    }
    if (!awaits_somebody(group) || now >= group->late.down.until_ns) close_down(group, now);
}

static void look_at_round(weft_group *group, int64_t now)
{
    const weft__late *late = &group->late;
    if (is_open(&late->down)) look_down(group, now);
    if (late->up.state == WEFT__LATE_ASKED &&
        (weft__late_gone(group, late->above) || now >= late->above_ns + SILENCE_NS))
        pass_over_above(group, !weft__late_gone(group, late->above), now);
    if (late->up.state == WEFT__LATE_ASKED && now >= late->up.until_ns) close_up(group, now);
    if ((is_open(&late->up) || is_open(&late->down)) && now >= late->still_ns) tell_still(group, now);
}

/* A look at one may end the rounds of others: each comes to the end of the list before. */
int64_t weft__late_check(weft_context *ctx, int64_t now_ns)
{
    int open = 0;
    WEFT__LIST_EACH(&ctx->late_rounds, at) open++;
    for (; open > 0 && !weft__list_empty(&ctx->late_rounds); open--) {
        weft__list *first = ctx->late_rounds.next;
        weft__list_remove(first);
        weft__list_append(&ctx->late_rounds, first);
        look_at_round(WEFT__LIST_ENTRY(first, weft_group, late.link), now_ns);
    }
    return weft__list_empty(&ctx->late_rounds) ? WEFT__NEVER : now_ns + STILL_NS / 2;
}

/* ---- what comes ---- */

/* What is left for this rank of the time that the one who asks has. */
static int64_t patience_of(const weft__notice *told)
{
    int64_t left = told->ago_ns < COLLECT_NS ? told->ago_ns : COLLECT_NS;
    return left > 2 * LEVEL_NS ? left - LEVEL_NS : LEVEL_NS;
}

/* Nobody needs to be asked for a group that is over: who asks will be told of that. */
static void answer_once(weft_group *group, int member, weft__late_scope scope, uint64_t number)
{
    const weft__late *late = &group->late;
    int64_t since = scope == WEFT__LATE_WHOLE   ? late->up.began_ns
                    : scope == WEFT__LATE_BELOW ? late->down.began_ns
                                                : weft__now_ns();
    weft__late_rows rows = weft__late_rows_of(group, scope, scope == WEFT__LATE_BELOW, number, since);
    if (scope == WEFT__LATE_WHOLE) weft__late_add_unnamed(group, &rows);
    answer(group, member, scope, number, &rows);
}

static void take_question(weft_group *group, int member, const weft__notice *told)
{
    const weft__late *late = &group->late;
    weft__late_scope scope = (weft__late_scope)told->subject;
    int64_t now = weft__now_ns();
    if (scope == WEFT__LATE_HOST || atomic_load(&group->state) == WEFT__BROKEN) {
        answer_once(group, member, scope, told->number);
    } else if (scope == WEFT__LATE_BELOW) {
        group->reports[member].wants_below = true;
        collect(group, told->number, false, patience_of(told), now);
        if (!is_open(&late->down)) answer_down(group);
    } else {
        int64_t stale_ns = stale_of(told->ago_ns);
        group->reports[member].wants = true;
        if (!is_open(&late->up) && late->up.number >= told->number && now - late->up.closed_ns < stale_ns)
            answer_up(group, false);
        else if (!will_do_for(&late->up, told->number, stale_ns))
            open_up(group, told->number, stale_ns, now);
    }
}

/* Those whose answers are not waited for any more, as that member has told of them. */
static void stop_awaiting(weft_group *group, int member, weft__late_scope scope)
{
    for (int i = 0; i < group->size; i++)
        if (weft__late_is_in(group, scope, member, i) &&
            (scope == WEFT__LATE_BELOW || group->reports[i].awaited_scope == WEFT__LATE_HOST))
            group->reports[i].awaited_ns = 0;
}

/* No answer, but whether there will be one. */
static void take_word(weft_group *group, int member, const weft__notice *told)
{
    weft__report *r = &group->reports[member];
    bool is_above = group->late.up.state == WEFT__LATE_ASKED && group->late.above == member;
    int64_t now = weft__now_ns();
    if (told->knows == WEFT__LATE_STILL) {
        r->passed_until_ns = 0;
        if (r->awaited_ns) r->awaited_ns = now;
        if (is_above) group->late.above_ns = now;
        return;
    }
    if (r->awaited_ns) {
        pass_over(group, member, now);
        if (!awaits_somebody(group)) close_down(group, now);
    }
    if (is_above) pass_over_above(group, false, now);
}

static void take_answer(weft_group *group, int member, const weft__notice *told)
{
    weft__late_scope scope = (weft__late_scope)told->subject;
    const weft__late *late = &group->late;
    int64_t now = weft__now_ns();
    weft__late_rows rows;
    if (told->knows != WEFT__LATE_KNOWS) {
        take_word(group, member, told);
        return;
    }
    memcpy(&rows, told->text, sizeof rows);
    if (!weft__late_are_sound(group, &rows)) {
        weft__peer_refused(group->ctx, group->world[member],
                           "ranks that are late, which are none of the group");
        return;
    }
    group->reports[member].passed_until_ns = 0;
    if (scope == WEFT__LATE_WHOLE) {
        weft__late_learn_whole(group, told->number, &rows,
                               is_fresh(&late->down, now) ? late->down.began_ns : WEFT__NEVER);
        if (late->up.state == WEFT__LATE_ASKED && told->number >= late->up.number)
            close_up(group, told->ago_ns > 0 ? now - told->ago_ns : now);
        return;
    }
    weft__late_learn_below(group, member, scope, told->number, &rows);
    if (!is_open(&late->down) || told->number < late->down.number) return;
    stop_awaiting(group, member, scope);
    if (!awaits_somebody(group)) close_down(group, now);
}

void weft__late_take(weft_context *ctx, weft_group *group, int from, const weft__notice *told)
{
    int member = group && weft__host_tree_made(group) ? weft__group_member(group, from) : -1;
    if (member < 0) {
        weft__notice here = {.kind = WEFT__NOTICE_HERE, .subject = told->subject, .group = told->group};
        if (told->kind == WEFT__NOTICE_WHO) weft__late_tell(ctx, from, &here);
        return;
    }
    if (told->kind == WEFT__NOTICE_WHO)
        take_question(group, member, told);
    else
        take_answer(group, member, told);
}
