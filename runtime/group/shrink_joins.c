/* shrink_joins.c - see shrink_joins.h. */
#include "shrink_joins.h"
#include "alarm.h"
#include "join_place.h"
#include "peer.h"
#include "protocol.h"
#include "reserve.h"
#include "spreading.h"

#include <string.h>

#define HOLD_NS     (50 * WEFT__MS)
#define PATIENCE_NS (5000 * WEFT__MS) /* or half of the time that there is */
#define TURN_NS     (2 * WEFT__MS)

typedef enum joins_set { HELD, PASSED, LOST, BELOW, SETS } joins_set;

/* Who have joined the lead, by this rank. */
struct weft__shrink_joins {
    weft__group_params params; /* of all that are held */
    int lead, above;
    int64_t pass_ns;           /* then it names those whom it holds; NEVER: it has */
    weft__shrink_message *own; /* this rank's, if it went by others */
    int64_t own_ns; /* then it says that to the lead itself; NEVER: it has, or has not joined it by others */
    unsigned char sets[];
};

typedef weft__shrink_attempt attempt;
typedef struct weft__shrink_joins joins;

static size_t set_bytes(const weft_context *ctx)
{
    return weft__set_bytes(ctx->world_size);
}

static unsigned char *set_of(const weft_context *ctx, joins *j, joins_set which)
{
    return j->sets + (size_t)which * set_bytes(ctx);
}

void weft__shrink_joins_free(attempt *a)
{
    if (a->joins) weft__reserve_give(a->joins->own);
    weft__reserve_give(a->joins);
    a->joins = NULL;
}

/* Where the living are on few hosts, or there is no memory, there is nobody in between. */
static void take_place(const weft_context *ctx, const attempt *a, joins *j)
{
    int *living = weft__reserve_get((size_t)a->size * sizeof *living), n = 0;
    weft__join_place place = {j->lead, 0};
    if (!living) return;
    for (int i = 0; i < a->size; i++)
        if (a->world[i] == ctx->rank || weft__shrink_lives(ctx, a, i)) living[n++] = a->world[i];
    if (weft__spread_goes_by_others(ctx, living, n))
        (void)weft__join_place_of(ctx, living, n, &place, set_of(ctx, j, BELOW));
    if (atomic_load(&ctx->peers[place.above].gone) == WEFT__LIVES) j->above = place.above;
    weft__reserve_give(living);
}

/* Who have joined the lead in this rank's view; NULL: no memory. */
static joins *joins_of(const weft_context *ctx, attempt *a, int lead)
{
    joins *j = a->joins;
    if (j && j->lead == lead) return j;
    weft__shrink_joins_free(a); /* they say it to the next one themselves */
    j = a->joins = weft__reserve_zeroed(sizeof *j + SETS * set_bytes(ctx));
    if (!j) return NULL;
    j->lead = j->above = lead;
    j->pass_ns = j->own_ns = WEFT__NEVER;
    take_place(ctx, a, j);
    return j;
}

static weft__shrink_message *new_join(const weft_context *ctx, const attempt *a, int lead)
{
    weft__shrink_message *m = weft__shrink_message_new(ctx, WEFT__SHRINK_JOINED + 1, NULL);
    if (!m) return NULL;
    m->group = a->group;
    m->occurrence = a->occurrence;
    m->size = (uint32_t)a->size;
    m->lead = lead;
    memcpy(weft__shrink_set(ctx, m, WEFT__SHRINK_MEMBERS), a->members, set_bytes(ctx));
    return m;
}

static void send(weft_context *ctx, int to, const weft__shrink_message *m)
{
    weft__p2p_control(ctx->p2p, to, WEFT__MESSAGE_SHRINK_JOIN, m, weft__shrink_message_bytes(m));
}

static void pass_by(weft_context *ctx, joins *j, int64_t ns)
{
    j->pass_ns = ns;
    weft__alarm_check(ctx, ns);
}

/* All that are held and not named yet.  Behind it the record may be another one, or none.  False: there is no memory for it yet. */
static bool pass(weft_context *ctx, attempt *a)
{
    joins *j = a->joins;
    const int to = j->above;
    weft__shrink_message *m = new_join(ctx, a, j->lead);
    unsigned char *joined;
    if (!m) {
        pass_by(ctx, j, weft__now_ns() + HOLD_NS);
        return false;
    }
    m->params = j->params;
    joined = weft__shrink_set(ctx, m, WEFT__SHRINK_JOINED);
    memcpy(weft__shrink_set(ctx, m, WEFT__SHRINK_LOST), set_of(ctx, j, LOST), set_bytes(ctx));
    for (int rank = weft__set_next(set_of(ctx, j, HELD), 0, ctx->world_size); rank >= 0;
         rank = weft__set_next(set_of(ctx, j, HELD), rank + 1, ctx->world_size))
        if (!weft__set_has(set_of(ctx, j, PASSED), rank)) weft__set_add(joined, rank);
    j->pass_ns = WEFT__NEVER;
    memcpy(set_of(ctx, j, PASSED), set_of(ctx, j, HELD), set_bytes(ctx));
    send(ctx, to, m);
    weft__reserve_give(m);
    return true;
}

static void tell_lead(weft_context *ctx, attempt *a)
{
    a->joins->above = a->joins->lead;
    memset(set_of(ctx, a->joins, PASSED), 0, set_bytes(ctx));
    if (!weft__set_is_empty(set_of(ctx, a->joins, HELD), set_bytes(ctx))) pass(ctx, a);
}

/* All that live of those that are to come by this rank. */
static bool have_all_joined(const weft_context *ctx, joins *j)
{
    const unsigned char *below = set_of(ctx, j, BELOW);
    for (int rank = weft__set_next(below, 0, ctx->world_size); rank >= 0;
         rank = weft__set_next(below, rank + 1, ctx->world_size))
        if (!weft__is_gone(&ctx->peers[rank]) && !weft__set_has(set_of(ctx, j, HELD), rank)) return false;
    return true;
}

static void look(weft_context *ctx, attempt *a)
{
    joins *j = a->joins;
    if (weft__set_is_within(set_of(ctx, j, HELD), set_of(ctx, j, PASSED), set_bytes(ctx))) return;
    if (have_all_joined(ctx, j)) {
        pass(ctx, a);
    } else if (j->pass_ns == WEFT__NEVER) {
        pass_by(ctx, j, weft__now_ns() + HOLD_NS);
    }
}

/* False: it goes on as it is. */
static bool holds(const weft_context *ctx, joins *j, const weft__shrink_message *m)
{
    const unsigned char *lost = weft__shrink_told(ctx, m, WEFT__SHRINK_LOST);
    if (weft__set_is_empty(set_of(ctx, j, HELD), set_bytes(ctx))) {
        memcpy(set_of(ctx, j, LOST), lost, set_bytes(ctx));
        j->params = m->params;
    } else if (memcmp(set_of(ctx, j, LOST), lost, set_bytes(ctx)) != 0) {
        return false;
    }
    weft__group_params_merge(&j->params, &m->params);
    weft__set_unite(set_of(ctx, j, HELD), weft__shrink_told(ctx, m, WEFT__SHRINK_JOINED), set_bytes(ctx));
    return true;
}

void weft__shrink_pass_join(weft_context *ctx, attempt *a, const weft__shrink_message *m)
{
    joins *j = !a->verdict && m->lead == weft__shrink_lead(ctx, a) ? joins_of(ctx, a, m->lead) : NULL;
    if (j && holds(ctx, j, m))
        look(ctx, a);
    else
        send(ctx, m->lead, m);
}

/* What others keep, or have passed on to a lead that they did not reach, is said once more, to the lead itself, well before
 * the time is up. */
static void keep_own(weft_context *ctx, attempt *a, const weft__shrink_message *m, int64_t deadline_ns)
{
    const int64_t now_ns = weft__now_ns(), half_ns = (deadline_ns - now_ns) / 2;
    const int64_t patience_ns = half_ns < PATIENCE_NS ? half_ns : PATIENCE_NS;
    const int64_t turn_ns = ctx->rank * TURN_NS; /* not all at once */
    joins *j = joins_of(ctx, a, m->lead);
    if (!j || j->above == j->lead) return;
    weft__reserve_give(j->own);
    j->own = weft__shrink_copy(m);
    j->own_ns = now_ns + patience_ns + (turn_ns < patience_ns / 2 ? turn_ns : patience_ns / 2);
    weft__alarm_check(ctx, j->own_ns);
}

static void say_own(weft_context *ctx, attempt *a)
{
    weft__shrink_message *m = a->joins->own;
    a->joins->own = NULL;
    a->joins->own_ns = WEFT__NEVER;
    if (m && !a->verdict) send(ctx, m->lead, m);
    weft__reserve_give(m);
}

/* Whom this rank presumes dead the lead may not: it must not make a group of two that have lost each other.  By WEFT_QUORUM=any
 * nobody asks for that. */
void weft__shrink_join(weft_context *ctx, attempt *a, int lead, bool program, int64_t deadline_ns)
{
    weft__shrink_message *m = new_join(ctx, a, lead);
    if (!m) return;
    m->params = weft__own_params(ctx);
    m->params.program = program;
    if (weft__by_agreement(ctx)) weft__shrink_mark_gone(ctx, m, WEFT__PRESUMED_DEAD, WEFT__SHRINK_LOST);
    weft__set_add(weft__shrink_set(ctx, m, WEFT__SHRINK_JOINED), ctx->rank);
    if (lead == ctx->rank) {
        send(ctx, lead, m);
    } else {
        keep_own(ctx, a, m, deadline_ns);
        weft__shrink_pass_join(ctx, a, m);
    }
    weft__reserve_give(m);
}

void weft__shrink_name(weft_context *ctx, attempt *a)
{
    joins *j = a->joins;
    if (j && (j->above != j->lead || j->pass_ns != WEFT__NEVER)) tell_lead(ctx, a);
}

/* The lead has its group, and so has counted all that live.  Where it has failed it answers whoever joins it yet. */
static bool is_needless(const attempt *a)
{
    return (a->state == WEFT__SHRINK_HELD || a->state == WEFT__SHRINK_SETTLED) &&
           a->joins->pass_ns == WEFT__NEVER;
}

void weft__shrink_go_past(weft_context *ctx, attempt *a, int rank)
{
    joins *j = a->joins;
    if (!j) return;
    if (is_needless(a) || (j->lead == rank && weft__is_gone(&ctx->peers[rank])))
        weft__shrink_joins_free(a);
    else if (j->above == rank && j->lead != rank)
        tell_lead(ctx, a);
    else
        look(ctx, a); /* all others of those below may have joined */
}

void weft__shrink_name_again(weft_context *ctx, attempt *a, int rank)
{
    if (a->joins && a->joins->lead == rank) tell_lead(ctx, a);
}

static int64_t due_of(const attempt *a)
{
    if (!a->joins) return WEFT__NEVER;
    return a->joins->own_ns < a->joins->pass_ns ? a->joins->own_ns : a->joins->pass_ns;
}

static attempt *next_due(const weft_context *ctx, int64_t now_ns)
{
    WEFT__LIST_EACH(weft__shrink_attempts(ctx), at)
    {
        attempt *a = WEFT__LIST_ENTRY(at, attempt, link);
        if (due_of(a) != WEFT__NEVER && due_of(a) <= now_ns) return a;
    }
    return NULL;
}

int64_t weft__shrink_joins_due(weft_context *ctx, int64_t now_ns)
{
    int64_t next = WEFT__NEVER;
    attempt *a;
    while ((a = next_due(ctx, now_ns)) != NULL) {
        if (a->joins->own_ns <= a->joins->pass_ns)
            say_own(ctx, a);
        else if (!pass(ctx, a))
            break;
    }
    WEFT__LIST_EACH(weft__shrink_attempts(ctx), at)
    {
        a = WEFT__LIST_ENTRY(at, attempt, link);
        if (due_of(a) < next) next = due_of(a);
    }
    return next;
}
