/* late_rows.c - see late_rows.h. */
#include "late_rows.h"
#include "alarm.h"
#include "engine.h"
#include "host_tree.h"
#include "protocol.h"

#define LATELY_NS (1000 * WEFT__MS) /* an answer by word, where the board has no room, holds so long */

_Static_assert(sizeof(weft__late_rows) < sizeof((weft__notice *)NULL)->text,
               "rows go where a notice has its text");

static weft__peer *peer_of(const weft_group *group, int member)
{
    return &group->ctx->peers[group->world[member]];
}

bool weft__late_gone(const weft_group *group, int member)
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

static bool same_host(const weft_group *group, int a, int b)
{
    return peer_of(group, a)->host_lead == peer_of(group, b)->host_lead;
}

bool weft__late_is_in(const weft_group *group, weft__late_scope scope, int speaker, int member)
{
    switch (scope) {
    case WEFT__LATE_MEMBER: return member == speaker;
    case WEFT__LATE_HOST: return same_host(group, speaker, member);
    case WEFT__LATE_BELOW:
        return weft__host_is_below(group->ctx, weft__host_of(group->host_tree, member),
                                   weft__host_of(group->host_tree, speaker));
    case WEFT__LATE_WHOLE: break;
    }
    return true;
}

/* False: it has come to that number, or is not to be told of. */
static bool row_of(weft_group *group, int member, uint64_t number, int64_t since, weft__late_row *row)
{
    weft__report *r = &group->reports[member];
    weft__notice who = {.kind = WEFT__NOTICE_WHO, .group = group->id};
    if (member == group->rank) {
        *row = (weft__late_row){member, (uint16_t)atomic_load(&group->row->kind), 0,
                                atomic_load(&group->row->submitted),
                                weft__now_ns() - atomic_load(&group->row->at_ns)};
        return row->submitted < number;
    }
    if (!weft__late_read_board(group, member, 0) && same_host(group, member, group->rank)) {
        since -= LATELY_NS; /* its board is full: it is asked, for the next time */
        weft__late_tell(group->ctx, group->world[member], &who);
    }
    *row =
        (weft__late_row){member, r->kind, !r->answered_ns || r->answered_ns < since, r->submitted, r->ago_ns};
    return r->submitted < number && (!r->unnamed || row->unanswered) && !weft__late_gone(group, member);
}

weft__late_rows weft__late_rows_of(weft_group *group, weft__late_scope scope, bool collected, uint64_t number,
                                   int64_t since)
{
    weft__late_rows rows = {0};
    weft__late_row row;
    for (int i = 0; i < group->size; i++) {
        if (!weft__late_is_in(group, scope, group->rank, i)) continue;
        if (collected) rows.more += group->reports[i].more;
        if (!row_of(group, i, number, since, &row)) continue;
        if (rows.count < WEFT__LATE_ROWS)
            rows.row[rows.count++] = row;
        else
            rows.more++;
    }
    return rows;
}

void weft__late_add_unnamed(const weft_group *group, weft__late_rows *rows)
{
    if (group->late.total > rows->count + rows->more) rows->more = group->late.total - rows->count;
}

bool weft__late_are_sound(const weft_group *group, const weft__late_rows *rows)
{
    bool sound = rows->count <= WEFT__LATE_ROWS && rows->more <= (uint32_t)group->size;
    for (uint32_t i = 0; sound && i < rows->count; i++)
        sound = rows->row[i].member >= 0 && rows->row[i].member < group->size &&
                rows->row[i].kind < WEFT__OP_KINDS && rows->row[i].ago_ns >= 0;
    return sound;
}

/* ---- what answers tell becomes what is known here ---- */

static const weft__late_row *named_in(const weft__late_rows *rows, int member)
{
    for (uint32_t i = 0; i < rows->count; i++)
        if (rows->row[i].member == member) return &rows->row[i];
    return NULL;
}

/* keeps: what was told of it by name stays so where this answer has no room for it. */
static void learn_of(weft_group *group, int member, const weft__late_rows *rows, uint64_t number, bool keeps)
{
    weft__report *r = &group->reports[member];
    const weft__late_row *row = named_in(rows, member);
    if (row && row->unanswered) return; /* what was told of it before stays */
    if (!row && rows->more)
        r->unnamed = r->submitted < number && !(keeps && !r->unnamed);
    else
        r->unnamed = false;
    if (row && row->submitted < r->submitted) return; /* it is older than what is known */
    if (row) {
        r->submitted = row->submitted;
        r->kind = (uint8_t)row->kind;
        r->ago_ns = row->ago_ns;
    } else if (!rows->more && r->submitted < number) {
        r->submitted = number;
    }
    r->answered_ns = weft__now_ns();
}

/* A host below has just told of it, or that it is not late.  Its name is not forgotten over an answer of the whole that
 * has no room for it: others may ask this rank for the same. */
static bool was_told_below(const weft_group *group, int member, int64_t below_ns)
{
    return group->reports[member].answered_ns >= below_ns &&
           weft__late_is_in(group, WEFT__LATE_BELOW, group->rank, member);
}

void weft__late_learn_whole(weft_group *group, uint64_t number, const weft__late_rows *rows, int64_t below_ns)
{
    for (int i = 0; i < group->size; i++)
        if (i != group->rank && !same_host(group, i, group->rank))
            learn_of(group, i, rows, number, was_told_below(group, i, below_ns));
    group->late.total = rows->count + rows->more;
}

/* Who answers after it was passed over tells of those below too, who may have answered in its place. */
static bool stands_for_awaited(const weft_group *group, int from, weft__late_scope scope)
{
    for (int i = 0; i < group->size; i++)
        if (group->reports[i].awaited_ns && weft__late_is_in(group, scope, from, i)) return true;
    return group->late.down.state == WEFT__LATE_CLOSED;
}

void weft__late_learn_below(weft_group *group, int from, weft__late_scope scope, uint64_t number,
                            const weft__late_rows *rows)
{
    bool counts = stands_for_awaited(group, from, scope);
    for (int i = 0; i < group->size; i++) {
        weft__report *r = &group->reports[i];
        if (!weft__late_is_in(group, scope, from, i)) continue;
        if (counts) r->more = 0;
        if (!counts && (r->unnamed || (rows->more && !named_in(rows, i)))) continue; /* in another's number */
        if (i != group->rank && !same_host(group, i, group->rank)) learn_of(group, i, rows, number, false);
    }
    if (counts) group->reports[from].more = rows->more;
}
