/* rounds.c - what each rank publishes and takes in each round of a collective over shared memory.
 *
 * Every kind is cut in chunks of `count`, as long as a slot allows; a chunk is one round, or two when a large
 * all_reduce first reduces slices and then shares them.  Chunks that are joined (rounds.h) count as one: the
 * first does all, the rounds of the others are empty.  Never fails.
 *
 * In place, and publishing ahead: a take of chunk c writes, in the buffer, nothing but positions that this
 * rank published with chunk c or never publishes.  The one exception is a reduced slice, which is published
 * from where a take put it: after_take. */
#include "rounds.h"

#include "check.h"
#include "reduce.h"

#define SLICE_BYTES 64 /* slices start at multiples: a processor's line */

typedef struct span {
    size_t start, length; /* elements of each block */
} span;

/* Pieces that one rank publishes per chunk. */
static int parts_of(const weft__op *op, int size)
{
    return weft__kind_traits(op->kind) & WEFT__IN_BLOCKS ? size : 1;
}

void weft__rounds_plan(weft__rounds *plan, const weft__op *op, int rank, int size, size_t slot_bytes,
                       const weft__rounds_rule *rule)
{
    size_t element = weft__op_element(op);
    size_t chunk = slot_bytes / element / (size_t)parts_of(op, size);
    WEFT__ASSERT(chunk > 0);
    *plan = (weft__rounds){
        .rank = rank, .size = size, .element = element, .chunk = chunk, .count = 1, .joined = 1};
    if (op->count == 0) return;
    plan->two_phase = weft__kind_traits(op->kind) & WEFT__SLICES && !op->agrees &&
                      op->count * element > rule->all_read_bytes;
    plan->count = ((uint64_t)(op->count - 1) / chunk + 1) * (plan->two_phase ? 2 : 1);
    plan->streams = plan->count > 2 && weft__op_bytes(op, rank, size) >= WEFT__STREAM_BYTES;
    plan->asks =
        plan->two_phase &&
        (plan->streams || (size == 2 && rule->all_read_bytes && op->count * element <= WEFT__WHOLE_BYTES));
}

static span chunk_at(const weft__rounds *plan, const weft__op *op, uint64_t chunk)
{
    span s = {(size_t)chunk * plan->chunk, plan->chunk * plan->joined};
    if (s.length > op->count - s.start) s.length = op->count - s.start;
    return s;
}

static void rounds_publish(weft__round *round, const weft__rounds *plan, const weft__op *op, span s,
                           int parts)
{
    round->publishes = true;
    round->parts = parts;
    round->scaled = op->reduction == WEFT_PREMUL_SUM;
    round->part_bytes = s.length * plan->element;
    round->source_offset = s.start * plan->element;
    round->source_stride = op->count * plan->element;
}

/* After publishing and taking have been said.  A reduction of more sources than a kernel takes at once writes
 * its output, which may be where its own source is, before it has read that. */
static void leave_own_piece(weft__round *round, const weft__rounds *plan)
{
    round->own_at_source =
        !round->scaled && (round->take == WEFT__TAKE_COPY || plan->size <= WEFT__REDUCE_SOURCES);
}

/* One piece, from the slot of `root`. */
static void copy_from(weft__round *round, const weft__rounds *plan, span s, int root, size_t slot_offset)
{
    round->take = WEFT__TAKE_COPY;
    round->streams = plan->streams;
    round->from = root;
    round->slot_offset = slot_offset;
    round->take_bytes = s.length * plan->element;
    round->target_offset = s.start * plan->element;
}

/* A piece from every slot, each into its rank's block of `out`. */
static void copy_from_all(weft__round *round, const weft__rounds *plan, const weft__op *op, span s,
                          size_t slot_offset)
{
    copy_from(round, plan, s, -1, slot_offset);
    round->target_stride = op->count * plan->element;
    round->skip_self = weft__op_is_in_place(op, plan->rank);
}

static void reduce_all(weft__round *round, const weft__rounds *plan, const weft__op *op, span s,
                       size_t slot_offset)
{
    round->take = WEFT__TAKE_REDUCE;
    round->streams = plan->streams && plan->size <= WEFT__REDUCE_SOURCES; /* else it is read again */
    round->from = -1;
    round->slot_offset = slot_offset;
    round->take_bytes = s.length * plan->element;
    round->target_offset = s.start * plan->element;
    round->average = op->reduction == WEFT_AVG;
}

/* ---- large all_reduce: rank r owns slice r of the chunk ---- */

static size_t slice_length(const weft__rounds *plan, span s)
{
    size_t line = SLICE_BYTES / plan->element, share = (s.length - 1) / (size_t)plan->size + 1;
    return (share + line - 1) / line * line;
}

static span own_slice(const weft__rounds *plan, span s)
{
    size_t length = slice_length(plan, s), skip = length * (size_t)plan->rank;
    if (skip > s.length) skip = s.length;
    if (length > s.length - skip) length = s.length - skip;
    return (span){s.start + skip, length};
}

static void reduce_slice(weft__round *round, const weft__rounds *plan, const weft__op *op, span s)
{
    span own = own_slice(plan, s);
    rounds_publish(round, plan, op, s, 1);
    if (plan->whole)
        reduce_all(round, plan, op, s, 0);
    else
        reduce_all(round, plan, op, own, (own.start - s.start) * plan->element);
    round->streams_in_place = round->streams;
    round->streams = false; /* it is published next: from the caches to the slot */
    leave_own_piece(round, plan);
}

static void share_slice(weft__round *round, const weft__rounds *plan, const weft__op *op, span s)
{
    size_t slice = slice_length(plan, s) * plan->element;
    if (plan->whole) return;
    rounds_publish(round, plan, op, own_slice(plan, s), 1);
    round->scaled = false;
    round->from_out = round->after_take = true;
    copy_from(round, plan, s, -1, 0);
    round->skip_self = true;
    round->take_bytes = round->target_stride = slice;
    round->total_bytes = s.length * plan->element;
}

/* ---- one round ---- */

/* Where the pieces of this rank's own part of a slot with one for each rank begin; else 0. */
static size_t part_at(const weft__rounds *plan, unsigned traits, span s)
{
    return traits & WEFT__IN_BLOCKS ? (size_t)plan->rank * s.length * plan->element : 0;
}

/* One to the others: they take their part, and the root its own unless that is where it belongs. */
static void from_root(weft__round *round, const weft__rounds *plan, const weft__op *op, span s)
{
    unsigned traits = weft__kind_traits(op->kind);
    bool is_root = plan->rank == op->root;
    bool has = is_root && (traits & WEFT__ONE_BUFFER || weft__op_is_in_place(op, plan->rank));
    if (is_root) rounds_publish(round, plan, op, s, parts_of(op, plan->size));
    if (!has) copy_from(round, plan, s, op->root, part_at(plan, traits, s));
}

/* All to one, or to all. */
static void from_all(weft__round *round, const weft__rounds *plan, const weft__op *op, span s)
{
    unsigned traits = weft__kind_traits(op->kind);
    rounds_publish(round, plan, op, s, parts_of(op, plan->size));
    if (traits & WEFT__ROOTED && plan->rank != op->root) return;
    if (traits & WEFT__REDUCES)
        reduce_all(round, plan, op, s, part_at(plan, traits, s));
    else
        copy_from_all(round, plan, op, s, part_at(plan, traits, s));
}

/* What only this rank takes of what it publishes stays where it is: a part of its own, or all that the root
 * of a rooted kind has. */
static void move(weft__round *round, const weft__rounds *plan, const weft__op *op, span s)
{
    unsigned traits = weft__kind_traits(op->kind);
    weft__shape in = weft__in_shape(traits);
    bool is_root = traits & WEFT__ROOTED && plan->rank == op->root;
    if (in == WEFT__ROOT_COUNT || in == WEFT__ROOT_BLOCKS)
        from_root(round, plan, op, s);
    else
        from_all(round, plan, op, s);
    if (is_root ? round->take != WEFT__TAKE_NOTHING : parts_of(op, plan->size) > 1 && round->publishes)
        leave_own_piece(round, plan);
}

void weft__rounds_at(const weft__rounds *plan, const weft__op *op, uint64_t index, weft__round *round)
{
    uint64_t chunk = plan->two_phase ? index / 2 : index;
    WEFT__ASSERT(index < plan->count);
    *round = (weft__round){.take = WEFT__TAKE_NOTHING, .from = -1};
    if (op->count > 0 && chunk % plan->joined == 0) {
        span s = chunk_at(plan, op, chunk);
        if (plan->two_phase && index % 2)
            share_slice(round, plan, op, s);
        else if (plan->two_phase)
            reduce_slice(round, plan, op, s);
        else
            move(round, plan, op, s);
    }
    round->needs_all = index == 0;
    round->asks = index == 0 && plan->asks;
    if (index == 0) round->publishes = true; /* of those that have nothing to tell, the signature */
}

/* With separate buffers nothing published is ever written: inputs never are, and a reduced slice is published
 * after it was written for the last time.  In place:
 *   all_reduce in two phases  rank r alone reads slice r of the others' inputs, and publishes what it made of
 *                             them before anybody writes over those slices; this rank's own slice is written
 *                             by itself, which nobody else reads before
 *   all_gather, gather        own block: never written
 *   reduce_scatter, reduce    only what this rank alone reads is written
 *   scatter, broadcast        the root writes nothing
 *   all_reduce in one, all_to_all  takes write what others read: not allowed
 * A rank that reduces more sources than a kernel takes at once writes its output before it has read its own
 * source, so in place that is left out too. */
bool weft__rounds_in_place(const weft__rounds *plan, const weft__op *op)
{
    unsigned traits = weft__kind_traits(op->kind);
    weft__in_place place = weft__place_shape(traits);
    bool writes_there = (place == WEFT__SAME || place == WEFT__SAME_ON_HOST) && !(traits & WEFT__ROOTED);
    if (writes_there && !plan->two_phase) return op->in != op->out;
    return !(traits & WEFT__REDUCES) || plan->size <= WEFT__REDUCE_SOURCES;
}

bool weft__rounds_open(const weft__rounds *plan, const weft__op *op, bool out_in_place)
{
    return plan->asks && (plan->streams ? out_in_place : op->in != op->out);
}

void weft__rounds_opened(weft__rounds *plan)
{
    WEFT__ASSERT(plan->asks);
    plan->whole = !plan->streams;
    if (plan->streams) plan->joined = WEFT__JOINED_CHUNKS;
}
