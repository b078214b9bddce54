/* select.c - works the table of algorithms out for a group, and chooses from that.  Pure, and never fails:
 * every kind has an algorithm at any size. */
#include "select.h"

#include "check.h"

_Static_assert(WEFT__OP_KINDS <= 32, "weft__selection.by_messages has a bit for each kind");

void weft__group_params_merge(weft__group_params *mine, const weft__group_params *other)
{
    if (other->rounds < mine->rounds) mine->rounds = other->rounds;
    if (other->slot_bytes < mine->slot_bytes) mine->slot_bytes = other->slot_bytes;
    if (other->rank_order > mine->rank_order) mine->rank_order = other->rank_order;
    if (other->program < mine->program) mine->program = other->program;
    if (other->plain > mine->plain) mine->plain = other->plain;
    if (other->lowest < mine->lowest) {
        mine->lowest = other->lowest;
        mine->choices = other->choices;
    }
}

/* ---- working it out ---- */

/* What sends all bytes at once, or a half, has as many messages one after another as the ranks have halvings; a ring as many
 * as there are ranks, so among many it begins to be worth it later. */
static uint64_t by_ranks(uint64_t bytes, uint64_t n)
{
    return n > WEFT__RANKS_OF_A_LIMIT ? bytes / WEFT__RANKS_OF_A_LIMIT * n : bytes;
}

/* The rule of a limit.  False: never. */
static bool by_rule(weft__limit limit, const weft__group_params *params, int size, uint64_t *upto)
{
    uint64_t n = (uint64_t)size;
    bool many = params->hosts > WEFT__FEW_HOSTS;
    switch (limit.reach) {
    case WEFT__REACH_NEVER: return false;
    case WEFT__REACH_UP_TO: *upto = limit.bytes; break;
    case WEFT__REACH_UP_TO_EACH: *upto = limit.bytes * n - 1; break;
    case WEFT__REACH_UP_TO_EACH_OF_8: *upto = limit.bytes * (n < 8 ? n : 8) - 1; break;
    case WEFT__REACH_UP_TO_BY_RANKS: *upto = by_ranks(limit.bytes, n); break;
    case WEFT__REACH_UP_TO_OR_PAIR: *upto = size == 2 ? WEFT__UPTO_ANY : by_ranks(limit.bytes, n); break;
    case WEFT__REACH_UP_TO_OF_FOUR: *upto = limit.bytes; return size >= 4;
    case WEFT__REACH_UP_TO_OR_EACH:
        *upto = many || limit.bytes * n < WEFT__OR_EACH_LEAST ? WEFT__OR_EACH_LEAST : limit.bytes * n;
        break;
    case WEFT__REACH_FEW_HOSTS: *upto = limit.bytes ? limit.bytes : WEFT__UPTO_ANY; return !many;
    case WEFT__REACH_MANY_EACH: *upto = limit.bytes * n - 1; return many;
    case WEFT__REACH_MANY_OR_LONG:
        *upto = n < WEFT__LONG_CHAIN ? limit.bytes * n - 1 : WEFT__UPTO_ANY;
        return many;
    case WEFT__REACH_SMALL_OR_EACH: *upto = many ? limit.bytes * n - 1 : WEFT__SMALL_OR_EACH_LEAST; break;
    case WEFT__REACH_FEW_OR_EACH: *upto = many ? limit.bytes * n - 1 : WEFT__FEW_OR_EACH_LEAST; break;
    case WEFT__REACH_UP_TO_SHARED:
        *upto = limit.bytes / n;
        if (*upto > params->slot_bytes) *upto = params->slot_bytes;
        break;
    default: *upto = WEFT__UPTO_ANY; break;
    }
    return true;
}

/* By rule or by what was measured; what is forced comes afterwards. */
static void make_limits(weft__selection *s, const weft__group_params *params, int size, weft__medium medium)
{
    int class = weft__size_class(size), tunable = 0;
    for (int i = 0; i < WEFT__CANDIDATES; i++) {
        const weft__candidate *c = &weft__candidates[i];
        bool ordered = params->rank_order && weft__kind_traits(c->kind) & WEFT__REDUCES;
        /* What messages do in rank order, and over several hosts, are other algorithms, with limits that are not
         * tuned. */
        bool measured = weft__is_tunable(c) && ((!ordered && params->hosts <= 1) || c->way == WEFT__ROUNDS);
        weft__limit limit = ordered ? c->ordered : params->hosts > 1 ? c->across : c->limit;
        s->serves[i] = by_rule(limit, params, size, &s->upto[i]);
        s->origin[i] = WEFT__BY_RULE;
        if (measured && weft__choices_limit(&params->choices, medium, class, tunable, &s->upto[i])) {
            s->serves[i] = s->upto[i] != WEFT__UPTO_NEVER;
            s->origin[i] = WEFT__BY_FILE;
        }
        tunable += weft__is_tunable(c);
    }
}

/* One that cannot add in rank order does not count where that is asked for.  One by messages takes the
 * operation out of shared memory; where there is none, one by rounds leaves the messages as they are. */
static void force(weft__selection *s, const weft__group_params *params, weft__kind kind)
{
    const weft__candidate *c = weft__choices_forced(&params->choices, kind);
    bool ordered = params->rank_order && weft__kind_traits(kind) & WEFT__REDUCES;
    if (!c || (ordered && c->ordered.reach == WEFT__REACH_NEVER)) return;
    for (int i = 0; i < WEFT__CANDIDATES; i++) {
        if (weft__candidates[i].kind != kind || weft__candidates[i].way != c->way) continue;
        s->serves[i] = c == &weft__candidates[i];
        s->upto[i] = WEFT__UPTO_ANY;
        s->origin[i] = WEFT__BY_VARIABLE;
    }
    if (c->way == WEFT__MESSAGES) s->by_messages |= 1U << kind;
}

static uint64_t all_read_bytes(const weft__selection *s)
{
    for (int i = 0; i < WEFT__CANDIDATES; i++)
        if (weft__kind_traits(weft__candidates[i].kind) & WEFT__SLICES &&
            weft__candidates[i].way == WEFT__ROUNDS)
            return s->serves[i] ? s->upto[i] : 0; /* all_read is the first of the two */
    return 0;
}

void weft__selection_make(weft__selection *s, const weft__group_params *params, int size, bool shared)
{
    *s = (weft__selection){.cutting = {WEFT__WHOLE_STEPS, WEFT__BLOCK_STEPS}};
    for (int kind = 0; kind < WEFT__OP_KINDS; kind++)
        if (weft__kind_traits((weft__kind)kind) & WEFT__UNEVEN) s->by_messages |= 1U << kind;
    make_limits(s, params, size, shared ? WEFT__MEDIUM_MEMORY : WEFT__MEDIUM_MESSAGES);
    for (int kind = 0; kind < WEFT__KINDS_CHOSEN; kind++) force(s, params, (weft__kind)kind);
    s->rounds.all_read_bytes = all_read_bytes(s);
}

/* ---- choosing ---- */

/* The bytes of the larger of a rank's two buffers. */
static uint64_t bytes_of(const weft__op *op, int size)
{
    bool blocks = weft__kind_traits(op->kind) & (WEFT__IN_BLOCKS | WEFT__OUT_BLOCKS);
    size_t elements =
        op->uneven ? op->uneven->in.total + op->uneven->out.total : op->count * (size_t)(blocks ? size : 1);
    return elements * weft_dtype_size(op->dtype);
}

weft__algorithm weft__select(const weft__op *op, int size, const weft__selection *s)
{
    weft__kind kind = weft__family(op->kind);
    uint64_t bytes = bytes_of(op, size);
    int i = 0;
    if (size == 1) return (weft__algorithm){.name = "local", .build = weft__build_local};
    if (op->agrees)
        return (weft__algorithm){"recursive_doubling", weft__build_doubling_all_reduce, s->cutting};
    while (weft__candidates[i].kind != kind || weft__candidates[i].way != WEFT__MESSAGES || !s->serves[i] ||
           bytes > s->upto[i]) {
        i++;
        WEFT__ASSERT(i < WEFT__CANDIDATES); /* of the last one any size is served */
    }
    return (weft__algorithm){weft__candidates[i].name, weft__candidates[i].build, s->cutting};
}

int weft__selection_ranges(const weft__selection *s, weft__kind kind, bool shared,
                           weft__range ranges[WEFT__CANDIDATES_MOST])
{
    weft__way way = shared && !(s->by_messages >> kind & 1) ? WEFT__ROUNDS : WEFT__MESSAGES;
    int n = 0;
    for (int i = 0; i < WEFT__CANDIDATES; i++) {
        const weft__candidate *c = &weft__candidates[i];
        if (c->kind != kind || c->way != way || !s->serves[i]) continue;
        if (n && s->upto[i] <= ranges[n - 1].upto) continue; /* an earlier one does all of that */
        ranges[n++] = (weft__range){c->name, s->upto[i], (weft__origin)s->origin[i]};
    }
    return n;
}
