/* rounds_sim.c - the executor of rounds in tests: four slots a rank, words `posted` and `consumed`.
 *
 * A rank publishes round k once everybody has consumed round k - SLOTS, even while its own takes are behind,
 * and takes round k when those that it reads have posted it.  Some ranks let others read their blocks where
 * they lie, at the time of the take, where rounds.h allows it. */
#include "rounds_sim.h"

#include "reduce.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SLOTS 4
#define SMALL 28 /* bytes of a block that is in the slot, if it is not open */

typedef struct member {
    uint64_t posted, consumed; /* rounds done with, of all operations */
    unsigned char *slots[SLOTS];
    uint64_t holds[SLOTS];              /* 1 + the round whose block is in the slot; 0: none */
    bool shares;                        /* its buffers are where others can read them */
    const unsigned char *places[SLOTS]; /* of the block's first part in them; NULL: it is in the slot */
    bool open[SLOTS];                   /* and may be read otherwise than slots allow */
    int opened;                         /* 1 + the operation of which all were found so last; 0: none */
    size_t strides[SLOTS], part_bytes[SLOTS];
    weft__signature signatures[SLOTS];
} member;

typedef struct world {
    sim_group *const *groups;
    int n, size;
    size_t slot_bytes;
    weft__rounds_rule rule;
    uint64_t *first; /* round in which each operation begins; the last entry is the end */
    member *members;
} world;

typedef struct where {
    const weft__op *op;
    weft__rounds plan;
    weft__round round;
    bool in_place;
} where;

static where locate(const world *w, int rank, uint64_t k)
{
    where at;
    int g = 0;
    while (w->first[g + 1] <= k) g++;
    at.op = &w->groups[g]->ops[rank];
    weft__rounds_plan(&at.plan, at.op, rank, w->size, w->slot_bytes, &w->rule);
    if (w->members[rank].opened == g + 1) weft__rounds_opened(&at.plan);
    weft__rounds_at(&at.plan, at.op, k - w->first[g], &at.round);
    at.in_place = weft__rounds_in_place(&at.plan, at.op) && !at.round.scaled;
    return at;
}

static bool may_publish(const world *w, int rank)
{
    const member *me = &w->members[rank];
    uint64_t k = me->posted;
    if (k == w->first[w->n]) return false;
    if (locate(w, rank, k).round.after_take && me->consumed < k) return false;
    for (int r = 0; k >= SLOTS && r < w->size; r++)
        if (w->members[r].consumed <= k - SLOTS) return false;
    return true;
}

static void publish(const world *w, int rank)
{
    member *me = &w->members[rank];
    uint64_t k = me->posted++;
    where at = locate(w, rank, k);
    const weft__round *p = &at.round;
    bool open = weft__rounds_open(&at.plan, at.op, me->shares);
    unsigned char *slot = me->slots[k % SLOTS];
    if (!p->publishes) return;
    memset(slot, 0xdd, w->slot_bytes);
    me->holds[k % SLOTS] = k + 1;
    me->signatures[k % SLOTS] = weft__op_sign(at.op);
    me->places[k % SLOTS] = NULL;
    me->open[k % SLOTS] = false;
    if (me->shares && at.in_place && p->part_bytes && (open || (size_t)p->parts * p->part_bytes > SMALL)) {
        const unsigned char *from = p->from_out ? at.op->out : at.op->in;
        me->places[k % SLOTS] = from + p->source_offset;
        me->strides[k % SLOTS] = p->source_stride;
        me->part_bytes[k % SLOTS] = p->parts == 1 ? SIZE_MAX : p->part_bytes;
        me->open[k % SLOTS] = open;
        return;
    }
    assert_true((size_t)p->parts * p->part_bytes <= w->slot_bytes);
    for (int i = 0; i < p->parts && p->part_bytes; i++) {
        const unsigned char *from = p->from_out ? at.op->out : at.op->in;
        unsigned char *to = slot + (size_t)i * p->part_bytes;
        memcpy(to, from + p->source_offset + (size_t)i * p->source_stride, p->part_bytes);
        if (p->scaled)
            weft__scale(to, to, p->part_bytes / weft_dtype_size(at.op->dtype), at.op->dtype, at.op->scale);
    }
    if (p->own_at_source) memset(slot + p->slot_offset, 0xdd, p->take_bytes);
}

static bool may_take(const world *w, int rank)
{
    const member *me = &w->members[rank];
    uint64_t k = me->consumed;
    weft__round p;
    if (k == w->first[w->n] || me->posted <= k) return false;
    p = locate(w, rank, k).round;
    for (int r = 0; r < w->size; r++) {
        bool reads = p.needs_all || (p.take != WEFT__TAKE_NOTHING && (p.from == r || p.from < 0));
        if (reads && w->members[r].posted <= k) return false;
    }
    return true;
}

static size_t piece_bytes(const weft__round *p, int rank)
{
    size_t skip = (size_t)rank * p->take_bytes;
    if (p->total_bytes == 0) return p->take_bytes;
    if (skip >= p->total_bytes) return 0;
    return p->take_bytes < p->total_bytes - skip ? p->take_bytes : p->total_bytes - skip;
}

/* What `reader` takes of the block of `rank`. */
static const unsigned char *piece(const world *w, const where *at, int reader, int rank, uint64_t k)
{
    const member *from = &w->members[rank];
    const weft__round *p = &at->round;
    assert_int_equal(from->holds[k % SLOTS], k + 1);
    if (p->own_at_source && reader == rank)
        return (const unsigned char *)at->op->in + weft__round_own_offset(p);
    if (from->places[k % SLOTS])
        return from->places[k % SLOTS] +
               p->slot_offset / from->part_bytes[k % SLOTS] * from->strides[k % SLOTS] +
               p->slot_offset % from->part_bytes[k % SLOTS];
    return from->slots[k % SLOTS] + p->slot_offset;
}

static void copy_pieces(const world *w, const where *at, int rank, uint64_t k)
{
    const weft__round *p = &at->round;
    for (int r = 0; r < w->size; r++) {
        size_t bytes = piece_bytes(p, r);
        if ((p->from >= 0 && p->from != r) || (p->skip_self && r == rank) || bytes == 0) continue;
        memcpy((unsigned char *)at->op->out + p->target_offset +
                   (p->from < 0 ? (size_t)r * p->target_stride : 0),
               piece(w, at, rank, r, k), bytes);
    }
}

/* The blocks of an operation's first round are there. */
static where answer(const world *w, int rank, uint64_t k)
{
    bool all = true;
    int g = 0;
    while (w->first[g + 1] <= k) g++;
    for (int r = 0; r < w->size; r++) all = all && w->members[r].open[k % SLOTS];
    if (all) w->members[rank].opened = g + 1;
    return locate(w, rank, k);
}

static void take(const world *w, int rank)
{
    member *me = &w->members[rank];
    uint64_t k = me->consumed;
    where at = locate(w, rank, k);
    const weft__round *p = &at.round;
    const void *sources[WEFT__REDUCE_SOURCES];
    for (int r = 0; p->needs_all && r < w->size; r++) {
        assert_int_equal(w->members[r].holds[k % SLOTS], k + 1);
        assert_true(weft__same_signature(w->members[r].signatures[k % SLOTS], weft__op_sign(at.op)));
    }
    if (at.round.asks) at = answer(w, rank, k);
    if (p->take == WEFT__TAKE_COPY) copy_pieces(w, &at, rank, k);
    if (p->take == WEFT__TAKE_REDUCE && p->take_bytes) {
        for (int r = 0; r < w->size; r++) sources[r] = piece(w, &at, rank, r, k);
        weft__reduce_kernel(at.op->dtype, at.op->reduction)((unsigned char *)at.op->out + p->target_offset,
                                                            sources, w->size,
                                                            p->take_bytes / weft_dtype_size(at.op->dtype),
                                                            p->average ? 1.0 / w->size : 1);
    }
    me->consumed++;
}

static void run(const world *w, uint64_t seed)
{
    sim_random random = {seed};
    uint64_t end = w->first[w->n];
    int idle = 0, finished = 0;
    while (finished < w->size) {
        int rank = sim_below(&random, w->size);
        bool publishing = sim_below(&random, 2), moved = true;
        if (publishing && may_publish(w, rank))
            publish(w, rank);
        else if (!publishing && may_take(w, rank))
            take(w, rank), finished += w->members[rank].consumed == end;
        else
            moved = false;
        idle = moved ? 0 : idle + 1;
        if (idle > 1000 * w->size) fail_msg("%s: stuck", sim_case_text(w->groups[0]->c));
    }
}

void sim_rounds(sim_group *const *groups, int n, size_t slot_bytes, weft__rounds_rule rule, uint64_t seed,
                uint64_t shares)
{
    world w = {.groups = groups, .n = n, .size = groups[0]->c.size, .slot_bytes = slot_bytes, .rule = rule};
    w.first = calloc((size_t)n + 1, sizeof *w.first);
    w.members = calloc((size_t)w.size, sizeof *w.members);
    assert_true(w.first && w.members);
    for (int g = 0; g < n; g++) {
        uint64_t rounds = 0;
        for (int r = 0; r < w.size; r++) {
            weft__rounds plan;
            weft__rounds_plan(&plan, &groups[g]->ops[r], r, w.size, slot_bytes, &rule);
            if (r) assert_int_equal(plan.count, rounds);
            rounds = plan.count;
        }
        w.first[g + 1] = w.first[g] + rounds;
    }
    for (int r = 0; r < w.size; r++) w.members[r].shares = shares >> r % 64 & 1;
    for (int r = 0; r < w.size; r++)
        for (int i = 0; i < SLOTS; i++) assert_non_null(w.members[r].slots[i] = malloc(slot_bytes));
    run(&w, seed);
    for (int r = 0; r < w.size; r++)
        for (int i = 0; i < SLOTS; i++) free(w.members[r].slots[i]);
    free(w.members);
    free(w.first);
}
