/* late.c - see late.h. */
#include "late.h"
#include "alarm.h"
#include "engine.h"
#include "late_hosts.h"
#include "peer.h"
#include "protocol.h"

#include <string.h>

#define SILENCE_NS (150 * WEFT__MS)  /* then the next one is asked as well */
#define STILL_NS   (50 * WEFT__MS)   /* who waits for others itself says so this often */
#define PASSED_NS  (2000 * WEFT__MS) /* for so long who was silent is passed over */
#define COLLECT_NS (700 * WEFT__MS)  /* the root has collected then, whoever has not answered */
#define LEVEL_NS   (75 * WEFT__MS)   /* by which each below has to be done sooner than who asks it */
#define FRESH_NS   (20 * WEFT__MS)   /* a round that closed so lately answers whoever asks, */
#define STALE_NS   (500 * WEFT__MS)  /* and one of before that nobody */
#define LATELY_NS  (1000 * WEFT__MS) /* an answer by word, where the board has no room, holds so long */
#define ASKED_MOST 3                 /* members of one host, in one round */
#define ABOVE_MOST 4                 /* whom a rank asks of the whole group, in one round */

typedef struct late_row {
    int32_t member;
    uint16_t kind, unanswered;
    uint64_t submitted;
    int64_t ago_ns;
} late_row;

typedef struct late_rows {
    uint32_t count, more;
    late_row row[WEFT__LATE_ROWS];
} late_rows;

_Static_assert(sizeof(late_rows) < sizeof((weft__notice *)NULL)->text, "rows go where a notice has its text");

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

static weft__peer *peer_of(const weft_group *group, int member)
{
    return &group->ctx->peers[group->world[member]];
}

/* Nothing can be asked of it. */
static bool gone(const weft_group *group, int member)
{
    return atomic_load(&peer_of(group, member)->gone) != WEFT__LIVES;
}

bool weft__late_read_board(weft_group *group, int member, uint64_t number)
{
    weft__report *r = &group->reports[member];
    weft__row row;
    int64_t now;
    if (member == group->rank || !weft__group_shown(group, member, &row)) return false;
    if (number && atomic_load(&row.submitted) >= number) return false;
    now = weft__now_ns();
    r->answered_ns = now;
    r->submitted = atomic_load(&row.submitted);
    r->kind = (uint8_t)atomic_load(&row.kind);
    r->ago_ns = now > atomic_load(&row.at_ns) ? now - atomic_load(&row.at_ns) : 0;
    r->phase_of = 0;
    r->unnamed = false;
    return true;
}

void weft__late_tell(weft_context *ctx, int rank, const weft__notice *notice)
{
    bool local = ctx->peers[rank].local >= 0;
    WEFT__ASSERT(weft__holds_engine(ctx));
    if (!local || weft__p2p_control(ctx->p2p, rank, WEFT__MESSAGE_LATE, notice, sizeof *notice) != WEFT_OK)
        weft__alarm_tell(ctx, rank, notice);
}

unsigned weft__late_total(const weft_group *group)
{
    return group->late.total;
}

/* ---- who is asked ---- */

static bool same_host(const weft_group *group, int a, int b)
{
    return peer_of(group, a)->host_lead == peer_of(group, b)->host_lead;
}

static bool is_passed_over(const weft_group *group, int member, int64_t now)
{
    return member != group->rank && (gone(group, member) || now < group->reports[member].passed_until_ns);
}

/* The lowest member of a host that can be asked; -1: none is left.  Every rank takes itself for one. */
static int speaker_of(const weft_group *group, int host, int64_t now)
{
    const weft__seats *hosts = group->late.hosts;
    for (int seat = hosts->first[host]; seat < hosts->first[host + 1]; seat++)
        if (!is_passed_over(group, hosts->rank_at[seat], now)) return hosts->rank_at[seat];
    return -1;
}

static int own_host(const weft_group *group)
{
    return weft__late_host(group, group->rank);
}

/* Whom this rank asks of the whole group: its host's speaker, and as that the nearest host above it, or where nobody
 * there can be asked the first of all hosts; itself: it is the root. */
static int above(const weft_group *group, int64_t now)
{
    int own = own_host(group), speaker = speaker_of(group, own, now);
    if (speaker != group->rank) return speaker;
    for (int h = own; h > 0;) {
        h = weft__late_parent(group, h);
        if ((speaker = speaker_of(group, h, now)) >= 0) return speaker;
    }
    for (int h = 0; h < own; h++)
        if ((speaker = speaker_of(group, h, now)) >= 0) return speaker;
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

/* That host and all below it; of one where nobody can be asked, and of this rank's own, those below one by one. */
static void ask_host(weft_group *group, int host, int64_t now)
{
    int speaker = host == own_host(group) ? -1 : speaker_of(group, host, now);
    if (speaker >= 0) {
        group->reports[speaker].asked = 1;
        ask_down(group, speaker, WEFT__LATE_BELOW, now);
        return;
    }
    for (int child = weft__late_first_child(group, host), i = 0;
         i < group->ctx->late_fan_out && child + i < group->late.hosts->hosts; i++)
        ask_host(group, child + i, now);
}

/* ---- answers are made of what is known here, and become that ---- */

static bool is_in(const weft_group *group, weft__late_scope scope, int speaker, int member)
{
    switch (scope) {
    case WEFT__LATE_MEMBER: return member == speaker;
    case WEFT__LATE_HOST: return same_host(group, speaker, member);
    case WEFT__LATE_BELOW:
        return weft__late_is_below(group, weft__late_host(group, member), weft__late_host(group, speaker));
    case WEFT__LATE_WHOLE: break;
    }
    return true;
}

/* False: it has come to that number, or is not to be told of. */
static bool row_of(weft_group *group, int member, uint64_t number, int64_t since, late_row *row)
{
    weft__report *r = &group->reports[member];
    weft__notice who = {.kind = WEFT__NOTICE_WHO, .group = group->id};
    if (member == group->rank) {
        *row =
            (late_row){member, (uint16_t)atomic_load(&group->row->kind), 0,
                       atomic_load(&group->row->submitted), weft__now_ns() - atomic_load(&group->row->at_ns)};
        return row->submitted < number;
    }
    if (!weft__late_read_board(group, member, 0) && same_host(group, member, group->rank)) {
        since -= LATELY_NS; /* its board is full: it is asked, for the next time */
        weft__late_tell(group->ctx, group->world[member], &who);
    }
    *row = (late_row){member, r->kind, r->answered_ns < since, r->submitted, r->ago_ns};
    return r->submitted < number && (!r->unnamed || row->unanswered) && !gone(group, member);
}

/* The late ones among those in question, as far as this rank knows: by name, or from those below by their number. */
static late_rows rows_of(weft_group *group, weft__late_scope scope, uint64_t number, int64_t since)
{
    late_rows rows = {0};
    late_row row;
    for (int i = 0; i < group->size; i++) {
        if (!is_in(group, scope, group->rank, i)) continue;
        if (scope == WEFT__LATE_BELOW || group->late.up.state == WEFT__LATE_COLLECTING)
            rows.more += group->reports[i].more;
        if (!row_of(group, i, number, since, &row)) continue;
        if (rows.count < WEFT__LATE_ROWS)
            rows.row[rows.count++] = row;
        else
            rows.more++;
    }
    return rows;
}

static void answer(weft_group *group, int to, weft__late_scope scope, uint64_t number, const late_rows *rows)
{
    weft__notice here = {.kind = WEFT__NOTICE_HERE,
                         .subject = (int32_t)scope,
                         .group = group->id,
                         .number = number,
                         .knows = WEFT__LATE_KNOWS};
    memcpy(here.text, rows, sizeof *rows);
    weft__late_tell(group->ctx, group->world[to], &here);
}

static bool rows_are_sound(const weft_group *group, const late_rows *rows)
{
    bool sound = rows->count <= WEFT__LATE_ROWS && rows->more <= (uint32_t)group->size;
    for (uint32_t i = 0; sound && i < rows->count; i++)
        sound = rows->row[i].member >= 0 && rows->row[i].member < group->size &&
                rows->row[i].kind < WEFT__OP_KINDS && rows->row[i].ago_ns >= 0;
    return sound;
}

static const late_row *named_in(const late_rows *rows, int member)
{
    for (uint32_t i = 0; i < rows->count; i++)
        if (rows->row[i].member == member) return &rows->row[i];
    return NULL;
}

static void learn_of(weft_group *group, int member, const late_row *row, const late_rows *rows,
                     uint64_t number)
{
    weft__report *r = &group->reports[member];
    r->unnamed = false;
    if (row && row->unanswered) return;
    if (row && row->submitted < r->submitted) return; /* it is older than what is known */
    if (row) {
        r->submitted = row->submitted;
        r->kind = (uint8_t)row->kind;
        r->ago_ns = row->ago_ns;
    } else if (rows->more) {
        r->unnamed = r->submitted < number;
    } else if (r->submitted < number) {
        r->submitted = number;
    }
    r->answered_ns = weft__now_ns();
}

/* from: a member.  What it tells of this host the board tells better. */
static void learn(weft_group *group, int from, weft__late_scope scope, uint64_t number, const late_rows *rows)
{
    for (int i = 0; i < group->size; i++) {
        if (!is_in(group, scope, from, i)) continue;
        if (scope != WEFT__LATE_WHOLE) group->reports[i].more = 0;
        if (i != group->rank && !same_host(group, i, group->rank))
            learn_of(group, i, named_in(rows, i), rows, number);
    }
    if (scope == WEFT__LATE_WHOLE)
        group->late.total = rows->count + rows->more;
    else
        group->reports[from].more = rows->more;
}

/* ---- rounds ---- */

/* Those of whom this rank was told only how many they are. */
static void add_unnamed(const weft_group *group, late_rows *rows)
{
    if (group->late.total > rows->count + rows->more) rows->more = group->late.total - rows->count;
}

/* Tells all who asked of the whole group what this rank has collected, or was told, which may leave out names. */
static void answer_up(weft_group *group)
{
    const weft__late_round *up = &group->late.up, *down = &group->late.down;
    bool collected = up->state == WEFT__LATE_COLLECTING;
    int64_t since = collected && down->began_ns < up->began_ns ? down->began_ns : up->began_ns;
    late_rows rows = rows_of(group, WEFT__LATE_WHOLE, up->number, since);
    if (collected)
        group->late.total = rows.count + rows.more;
    else
        add_unnamed(group, &rows);
    for (int i = 0; i < group->size; i++) {
        if (!group->reports[i].wants) continue;
        group->reports[i].wants = false;
        answer(group, i, WEFT__LATE_WHOLE, up->number, &rows);
    }
}

static void close_up(weft_group *group, int64_t now)
{
    answer_up(group);
    late_to(group, &group->late.up, WEFT__LATE_CLOSED);
    group->late.up.closed_ns = now;
}

static void answer_down(weft_group *group)
{
    const weft__late_round *down = &group->late.down;
    late_rows rows;
    bool made = false;
    for (int i = 0; i < group->size; i++) {
        if (!group->reports[i].wants_below) continue;
        if (!made) rows = rows_of(group, WEFT__LATE_BELOW, down->number, down->began_ns);
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
    return down->number >= number && (down->whole || !whole) &&
           (is_open(down) || now - down->closed_ns < FRESH_NS);
}

/* Asks below this rank's host; whole: below the root's. */
static void collect(weft_group *group, uint64_t number, bool whole, int64_t patience, int64_t now)
{
    weft__late_round *down = &group->late.down;
    weft__late_scope scope = whole ? WEFT__LATE_WHOLE : WEFT__LATE_BELOW;
    if (does_for(down, number, whole, now)) return;
    if (is_open(down)) whole = whole || down->whole;
    if (number > down->number) down->number = number;
    down->whole = whole;
    down->began_ns = now;
    down->until_ns = now + patience;
    late_to(group, down, WEFT__LATE_COLLECTING);
    for (int i = 0; i < group->size; i++) {
        group->reports[i].awaited_ns = 0;
        group->reports[i].asked = 0;
        if (is_in(group, scope, group->rank, i)) group->reports[i].more = 0;
    }
    ask_host(group, whole ? 0 : own_host(group), now);
    if (!awaits_somebody(group)) close_down(group, now);
}

static void go_up(weft_group *group, int64_t now)
{
    weft__late_round *up = &group->late.up;
    group->late.above = above(group, now);
    if (group->late.above != group->rank) {
        late_to(group, up, WEFT__LATE_ASKED);
        group->late.above_ns = now;
        group->late.asked_above++;
        ask_one(group, group->late.above, WEFT__LATE_WHOLE, up->number, up->stale_ns);
        return;
    }
    late_to(group, up, WEFT__LATE_COLLECTING);
    collect(group, up->number, true, COLLECT_NS, now);
    if (is_open(up) && !is_open(&group->late.down)) close_up(group, now); /* it has just been collected */
}

static void open_up(weft_group *group, uint64_t number, int64_t stale_ns, int64_t now)
{
    group->late.up.stale_ns = stale_ns;
    group->late.asked_above = 0;
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

static int64_t stale_of(int64_t wanted_ns)
{
    return wanted_ns < FRESH_NS ? FRESH_NS : wanted_ns > STALE_NS ? STALE_NS : wanted_ns;
}

void weft__late_ask(weft_group *group, uint64_t number, int64_t stale_ns)
{
    WEFT__ASSERT(weft__holds_engine(group->ctx));
    if (will_do_for(&group->late.up, number, stale_of(stale_ns)) || !weft__late_has_hosts(group)) return;
    open_up(group, number, stale_of(stale_ns), weft__now_ns());
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
    int host = weft__late_host(group, member), next;
    r->awaited_ns = 0;
    r->passed_until_ns = now + PASSED_NS;
    if (r->awaited_scope == WEFT__LATE_BELOW)
        for (int child = weft__late_first_child(group, host), i = 0;
             i < group->ctx->late_fan_out && child + i < group->late.hosts->hosts; i++)
            ask_host(group, child + i, now);
    next = speaker_of(group, host, now);
    if (next < 0 || r->asked >= ASKED_MOST) return;
    group->reports[next].asked = (uint8_t)(r->asked + 1);
    ask_down(group, next, WEFT__LATE_HOST, now);
}

static void pass_over_above(weft_group *group, int64_t now)
{
    if (group->late.asked_above == ABOVE_MOST)
        return; /* where all seem silent it is the machine that is busy */
    group->reports[group->late.above].passed_until_ns = now + PASSED_NS;
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
        if (since && (gone(group, i) || now >= since + SILENCE_NS)) pass_over(group, i, now);
    }
    if (!awaits_somebody(group) || now >= group->late.down.until_ns) close_down(group, now);
}

static void look_at_round(weft_group *group, int64_t now)
{
    const weft__late *late = &group->late;
    if (is_open(&late->down)) look_down(group, now);
    if (late->up.state == WEFT__LATE_ASKED &&
        (gone(group, late->above) || now >= late->above_ns + SILENCE_NS))
        pass_over_above(group, now);
    if (late->up.state == WEFT__LATE_ASKED && now >= late->up.until_ns) close_up(group, now);
    if ((is_open(&late->up) || is_open(&late->down)) && now >= late->still_ns) tell_still(group, now);
}

int64_t weft__late_check(weft_context *ctx, int64_t now_ns)
{
    WEFT__LIST_EACH(&ctx->late_rounds, at)
    {
        look_at_round(WEFT__LIST_ENTRY(at, weft_group, late.link), now_ns);
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
    late_rows rows = rows_of(group, scope, number, since);
    if (scope == WEFT__LATE_WHOLE) add_unnamed(group, &rows);
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
            answer_up(group);
        else if (!will_do_for(&late->up, told->number, stale_ns))
            open_up(group, told->number, stale_ns, now);
    }
}

/* Those whose answers are not waited for any more, as that member has told of them. */
static void stop_awaiting(weft_group *group, int member, weft__late_scope scope)
{
    for (int i = 0; i < group->size; i++)
        if (is_in(group, scope, member, i) &&
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
    if (is_above) pass_over_above(group, now);
}

static void take_answer(weft_group *group, int member, const weft__notice *told)
{
    weft__late_scope scope = (weft__late_scope)told->subject;
    const weft__late *late = &group->late;
    late_rows rows;
    if (told->knows != WEFT__LATE_KNOWS) {
        take_word(group, member, told);
        return;
    }
    memcpy(&rows, told->text, sizeof rows);
    if (!rows_are_sound(group, &rows)) {
        weft__peer_refused(group->ctx, group->world[member],
                           "ranks that are late, which are none of the group");
        return;
    }
    group->reports[member].passed_until_ns = 0;
    learn(group, member, scope, told->number, &rows);
    if (scope == WEFT__LATE_WHOLE) {
        if (late->up.state == WEFT__LATE_ASKED && told->number >= late->up.number)
            close_up(group, weft__now_ns());
    } else if (is_open(&late->down) && told->number >= late->down.number) {
        stop_awaiting(group, member, scope);
        if (!awaits_somebody(group)) close_down(group, weft__now_ns());
    }
}

void weft__late_take(weft_context *ctx, weft_group *group, int from, const weft__notice *told)
{
    int member = group && weft__late_has_hosts(group) ? weft__group_member(group, from) : -1;
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
