/* late.c - see late.h. */
#include "late.h"
#include "alarm.h"
#include "engine.h"
#include "peer.h"
#include "protocol.h"

#include <string.h>

#define SILENCE_NS (150 * WEFT__MS)  /* then the next one is asked as well */
#define PASSED_NS  (2000 * WEFT__MS) /* for so long who was silent is passed over */
#define COLLECT_NS (700 * WEFT__MS)  /* a round is over then, whoever has not answered */
#define FRESH_NS   (20 * WEFT__MS)   /* a round that closed so lately answers */
#define LATELY_NS  (1000 * WEFT__MS) /* an answer by word, where the board has no room, holds so long */
#define ASKED_MOST 3                 /* members of one host, in one round */

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

/* A group is in its context's list of rounds unless it is CLOSED. */
static void late_to(weft_group *group, weft__late_state to)
{
    weft__late *late = &group->late;
    WEFT__ASSERT(WEFT__ALLOWS(late_follows, late->state, to), late->state, to);
    if (to == WEFT__LATE_CLOSED) {
        weft__list_remove(&late->link);
    } else if (late->state == WEFT__LATE_CLOSED) {
        weft__list_init(&late->link);
        weft__list_append(&group->ctx->late_rounds, &late->link);
    }
    late->state = to;
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

unsigned weft__late_more(const weft_group *group)
{
    unsigned n = 0;
    for (int i = 0; i < group->size; i++) n += group->reports[i].more;
    return n;
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

/* The lowest member there that can be asked; -1: none is left.  Every rank takes itself for one. */
static int speaker_for(const weft_group *group, int member, int64_t now)
{
    for (int i = 0; i < group->size; i++)
        if (same_host(group, i, member) && !is_passed_over(group, i, now)) return i;
    return -1;
}

/* Whom this rank asks of the whole group; itself: it is the clerk. */
static int above(const weft_group *group, int64_t now)
{
    int speaker = speaker_for(group, group->rank, now);
    if (speaker != group->rank) return speaker;
    for (int i = 0; i < group->rank; i++)
        if (!is_passed_over(group, i, now)) return i;
    return group->rank;
}

static void ask_one(weft_group *group, int member, weft__late_scope scope, int64_t now)
{
    weft__notice who = {.kind = WEFT__NOTICE_WHO,
                        .subject = (int32_t)scope,
                        .group = group->id,
                        .number = group->late.number};
    group->reports[member].awaited_ns = now;
    weft__late_tell(group->ctx, group->world[member], &who);
}

/* ---- answers are made of what is known here, and become that ---- */

static bool is_in(const weft_group *group, weft__late_scope scope, int speaker, int member)
{
    return scope == WEFT__LATE_WHOLE || same_host(group, speaker, member);
}

/* False: it has come to that number, or is not to be told of. */
static bool row_of(weft_group *group, int member, int64_t since, late_row *row)
{
    weft__report *r = &group->reports[member];
    weft__notice who = {.kind = WEFT__NOTICE_WHO, .group = group->id};
    if (member == group->rank) {
        *row =
            (late_row){member, (uint16_t)atomic_load(&group->row->kind), 0,
                       atomic_load(&group->row->submitted), weft__now_ns() - atomic_load(&group->row->at_ns)};
        return row->submitted < group->late.number;
    }
    if (!weft__late_read_board(group, member, 0) && same_host(group, member, group->rank)) {
        since -= LATELY_NS; /* its board is full: it is asked, for the next time */
        weft__late_tell(group->ctx, group->world[member], &who);
    }
    *row = (late_row){member, r->kind, r->answered_ns < since, r->submitted, r->ago_ns};
    return r->submitted < group->late.number && !r->unnamed && !gone(group, member);
}

static void answer(weft_group *group, int to, weft__late_scope scope, int64_t since)
{
    weft__notice here = {.kind = WEFT__NOTICE_HERE,
                         .subject = (int32_t)scope,
                         .group = group->id,
                         .number = group->late.number,
                         .knows = 1};
    late_rows rows = {.more = scope == WEFT__LATE_WHOLE ? weft__late_more(group) : 0};
    late_row row;
    for (int i = 0; i < group->size; i++) {
        if (i == to || !is_in(group, scope, group->rank, i) || !row_of(group, i, since, &row)) continue;
        if (rows.count < WEFT__LATE_ROWS)
            rows.row[rows.count++] = row;
        else
            rows.more++;
    }
    memcpy(here.text, &rows, sizeof rows);
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
    r->more = 0;
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
    for (int i = 0; i < group->size; i++)
        if (i != group->rank && is_in(group, scope, from, i) && !same_host(group, i, group->rank))
            learn_of(group, i, named_in(rows, i), rows, number);
    group->reports[from].more = rows->more;
}

/* ---- rounds ---- */

static void answer_all(weft_group *group)
{
    for (int i = 0; i < group->size; i++) {
        if (!group->reports[i].wants) continue;
        group->reports[i].wants = false;
        answer(group, i, WEFT__LATE_WHOLE, group->late.began_ns);
    }
}

static void close_round(weft_group *group, int64_t now)
{
    late_to(group, WEFT__LATE_CLOSED);
    group->late.closed_ns = now;
    for (int i = 0; i < group->size; i++) group->reports[i].awaited_ns = 0;
    answer_all(group);
}

/* One member of each other host, that is the first to be met of it. */
static void collect(weft_group *group, int64_t now)
{
    late_to(group, WEFT__LATE_COLLECTING);
    for (int i = 0; i < group->size; i++) {
        group->reports[i].more = 0;
        group->reports[i].asked = 0;
    }
    for (int i = 0; i < group->size; i++) {
        int speaker = same_host(group, i, group->rank) ? -1 : speaker_for(group, i, now);
        if (speaker != i) continue;
        group->reports[i].asked = 1;
        ask_one(group, i, WEFT__LATE_HOST, now);
    }
}

static bool awaits_somebody(const weft_group *group)
{
    for (int i = 0; i < group->size; i++)
        if (group->reports[i].awaited_ns) return true;
    return false;
}

static void go_up(weft_group *group, int64_t now)
{
    int upper = above(group, now);
    if (upper == group->rank) {
        collect(group, now);
        if (!awaits_somebody(group)) close_round(group, now);
        return;
    }
    late_to(group, WEFT__LATE_ASKED);
    ask_one(group, upper, WEFT__LATE_WHOLE, now);
}

static void open_round(weft_group *group, uint64_t number, int64_t now)
{
    for (int i = 0; i < group->size; i++) group->reports[i].awaited_ns = 0;
    group->late.number = number;
    group->late.began_ns = now;
    go_up(group, now);
    if (group->late.state != WEFT__LATE_CLOSED) weft__alarm_check(group->ctx, now + SILENCE_NS);
}

void weft__late_ask(weft_group *group, uint64_t number)
{
    bool is_open = group->late.state != WEFT__LATE_CLOSED;
    WEFT__ASSERT(weft__holds_engine(group->ctx));
    if (is_open && group->late.number >= number) return;
    open_round(group, number, weft__now_ns());
}

void weft__late_forget(weft_group *group)
{
    if (group->late.state != WEFT__LATE_CLOSED) late_to(group, WEFT__LATE_CLOSED);
}

/* It said nothing, or does not have the group. */
static void pass_over(weft_group *group, int member, int64_t now)
{
    int next;
    group->reports[member].awaited_ns = 0;
    group->reports[member].passed_until_ns = now + PASSED_NS;
    if (group->late.state == WEFT__LATE_ASKED) {
        go_up(group, now);
        return;
    }
    next = speaker_for(group, member, now);
    if (next < 0 || group->reports[member].asked >= ASKED_MOST) return;
    group->reports[next].asked = (uint8_t)(group->reports[member].asked + 1);
    ask_one(group, next, WEFT__LATE_HOST, now);
}

static void look_at_round(weft_group *group, int64_t now)
{
    for (int i = 0; i < group->size; i++) {
        int64_t since = group->reports[i].awaited_ns;
        if (since && group->late.state != WEFT__LATE_CLOSED && (gone(group, i) || now >= since + SILENCE_NS))
            pass_over(group, i, now);
    }
    if (group->late.state == WEFT__LATE_CLOSED) return;
    if (!awaits_somebody(group) || now >= group->late.began_ns + COLLECT_NS) close_round(group, now);
}

int64_t weft__late_check(weft_context *ctx, int64_t now_ns)
{
    WEFT__LIST_EACH(&ctx->late_rounds, at)
    {
        look_at_round(WEFT__LIST_ENTRY(at, weft_group, late.link), now_ns);
    }
    return weft__list_empty(&ctx->late_rounds) ? WEFT__NEVER : now_ns + SILENCE_NS / 4;
}

/* ---- what comes ---- */

static void take_question(weft_group *group, int member, weft__late_scope scope, uint64_t number)
{
    int64_t now = weft__now_ns();
    bool is_open = group->late.state != WEFT__LATE_CLOSED;
    if (scope == WEFT__LATE_HOST) {
        uint64_t before = group->late.number;
        group->late.number = number;
        answer(group, member, scope, now);
        group->late.number = before;
        return;
    }
    group->reports[member].wants = true;
    if (!is_open && group->late.number >= number && now - group->late.closed_ns < FRESH_NS)
        answer_all(group);
    else if (!is_open || group->late.number < number)
        open_round(group, number, now);
}

static void take_answer(weft_group *group, int member, weft__late_scope scope, const weft__notice *told)
{
    int64_t now = weft__now_ns();
    late_rows rows;
    if (!told->knows) {
        if (group->late.state != WEFT__LATE_CLOSED && group->reports[member].awaited_ns)
            pass_over(group, member, now);
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
    if (group->late.state != (scope == WEFT__LATE_WHOLE ? WEFT__LATE_ASKED : WEFT__LATE_COLLECTING) ||
        told->number < group->late.number)
        return;
    for (int i = 0; i < group->size; i++)
        if (is_in(group, scope, member, i)) group->reports[i].awaited_ns = 0;
    if (!awaits_somebody(group)) close_round(group, now);
}

void weft__late_take(weft_context *ctx, weft_group *group, int from, const weft__notice *told)
{
    weft__late_scope scope = (weft__late_scope)told->subject;
    int member = group ? weft__group_member(group, from) : -1;
    if (member < 0) {
        weft__notice here = {.kind = WEFT__NOTICE_HERE, .subject = told->subject, .group = told->group};
        if (told->kind == WEFT__NOTICE_WHO) weft__late_tell(ctx, from, &here);
        return;
    }
    if (told->kind == WEFT__NOTICE_WHO)
        take_question(group, member, scope, told->number);
    else
        take_answer(group, member, scope, told);
}
