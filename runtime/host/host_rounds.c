/* host_rounds.c - collectives of ranks that share memory: does in the board what ops/rounds.h says.
 *
 * A group has one sequence of rounds; its operations take consecutive stretches of it.  Round k uses slot
 * k % WEFT__SLOTS of each member's row, and a member writes a slot again only when all have told (`consumed`)
 * that they are past its last use: by acknowledgement, not by parity, since an operation may be posted before
 * the one before it is finished.  Publishing runs ahead of taking as far as slots allow.
 *
 * A block that lies in a region all members have mapped (memory.h) is not copied: the slot tells where it is,
 * and takers read it there.  ops/rounds.c says for which operations no take of this rank writes what another
 * may still read; and such an operation does not settle before all members are past its last such round,
 * since then the caller may write.  One that fails settles at once: it marks this rank's row as withdrawn
 * first, and whoever finds a row of the group withdrawn after its last take has perhaps read what was written
 * since, and does not settle with WEFT_OK but waits for the break that is on its way.  Blocks that may be
 * read otherwise than the slots allow are open; where all are, fewer and larger pieces go (ops/rounds.h).
 *
 * In its first round an operation looks whether all members mean the same, and so waits for all.  A small
 * broadcast like one before (`repeats`) leaves that for later: its root goes on when it has published, the
 * others when they have that.  What is left is made up for before the next operation that waits for all, and
 * before this rank tells that it is past that round: nobody gets further ahead than slots allow.
 *
 * Failing: a member that is gone without having published what is needed breaks the group. */
#include "breaking.h"
#include "engine.h"
#include "executor.h"
#include "group.h"
#include "host.h"
#include "host_piece.h"
#include "member.h"
#include "plain.h"
#include "reduce.h"
#include "signatures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEFT_MOST        2            /* rounds taken without all members, before all are to agree */
#define TURN_BYTES       (256 * 1024) /* copied or reduced in one turn of a lane, about */
#define RING_FIRST_BYTES (8 * 1024)   /* so much published: sleepers are told before anything is taken */
/* Of a block: below, a copy costs less than waiting for readers; more where that changes threads. */
#define IN_PLACE_BYTES         (4 * 1024)
#define IN_PLACE_BYTES_CROWDED (64 * 1024)

static bool all_are_past(weft_group *group, uint64_t round)
{
    weft__lane *lane = &group->lane;
    uint64_t least = UINT64_MAX;
    if (lane->consumed >= round) return true;
    for (int i = 0; i < group->size; i++) {
        uint64_t at = atomic_load_explicit(&lane->rows[i]->consumed, memory_order_acquire);
        if (at < least) least = at;
    }
    lane->consumed = least;
    return least >= round;
}

/* Breaks the group.  Returns that nothing was moved. */
static WEFT__COLD size_t refuse_piece(weft_request *req, int member)
{
    weft_group *group = req->group;
    char who[192], text[WEFT__SENTENCE_BYTES];
    weft__member_name(group->ctx, group->world[member], who, sizeof who);
    snprintf(text, sizeof text, "%s told of memory that it does not share", who);
    weft__group_break(group, &(weft__verdict){WEFT_ERR_PEER, req->sequence, -1, text}, true);
    return 0;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Copies one part to its place in the slot, `at` bytes from its start, but for what of it only this rank
 * reads.  Returns how many bytes it copied. */
static size_t stage(weft__crossing *crossing, unsigned char *to, const char *part, const weft__round *r,
                    size_t at)
{
    size_t own = r->slot_offset, own_end = own + r->take_bytes;
    size_t before = own > at ? least(own - at, r->part_bytes) : 0;
    size_t behind = own_end > at ? least(own_end - at, r->part_bytes) : 0;
    if (!r->own_at_source) before = behind = r->part_bytes;
    weft__cross(crossing, to, part, before);
    if (behind == r->part_bytes) return before;
    weft__cross(crossing, to + behind, part + behind, r->part_bytes - behind);
    return before + r->part_bytes - behind;
}

static size_t publish(weft_request *req, const weft__round *r, uint64_t round, bool first)
{
    weft_group *group = req->group;
    weft__row *row = group->lane.rows[group->rank];
    unsigned which = (unsigned)(round % WEFT__SLOTS);
    weft__slot *slot = &row->slot[which];
    size_t bytes = (size_t)r->parts * r->part_bytes, staged = 0;
    unsigned char *to;
    const char *from = r->from_out ? req->host_op->out : req->host_op->in;
    const weft__region *region = r->from_out ? req->u.rounds.out : req->u.rounds.in;
    bool open = weft__rounds_open(&req->u.rounds.plan, req->host_op, req->u.rounds.out != NULL);
    bool in_place = region && !r->scaled && (open || bytes > sizeof slot->u.small);
    uint64_t unread;

    slot->bytes = !in_place ? (uint32_t)bytes : open ? WEFT__SLOT_OPEN : WEFT__SLOT_IN_PLACE;
    if (in_place) {
        slot->u.place = (struct weft__slot_place){region->index, region->generation,
                                                  (uint64_t)(from + r->source_offset - region->base),
                                                  r->source_stride, r->parts == 1 ? SIZE_MAX : r->part_bytes};
        req->u.rounds.in_place = round;
    }
    to = weft__slot_payload(req->ctx, row, which);
    if (first) {
        slot->signature[0] = req->signature.word[0];
        slot->signature[1] = req->signature.word[1];
        slot->number = (uint32_t)req->sequence;
    }
    for (int k = 0; bytes && !in_place && k < r->parts; k++) {
        const char *part = from + r->source_offset + (size_t)k * r->source_stride;
        size_t at = (size_t)k * r->part_bytes;
        if (r->scaled)
            weft__scale(to + at, part, r->part_bytes / weft__op_element(req->host_op), req->host_op->dtype,
                        req->host_op->scale);
        staged += r->scaled ? r->part_bytes : stage(&req->ctx->crossing, to + at, part, r, at);
    }
    unread = round - atomic_load_explicit(&row->consumed, memory_order_relaxed);
    WEFT__ASSERT(unread <= WEFT__SLOTS);
    atomic_store_explicit(&slot->sequence, round << WEFT__UNREAD_BITS | unread, memory_order_release);
    return staged;
}

/* One that waits for others is looked at many times: it is worked out once. */
static const weft__round *round_at(weft_request *req, uint64_t index)
{
    if (req->u.rounds.known != index + 1) {
        weft__rounds_at(&req->u.rounds.plan, req->host_op, index, &req->u.rounds.round);
        req->u.rounds.known = index + 1;
    }
    return &req->u.rounds.round;
}

/* All blocks of the first round are there: as it is to be taken.  All members find the same. */
static const weft__round *answer(weft_request *req, uint64_t round)
{
    const weft_group *group = req->group;
    for (int i = 0; i < group->size; i++)
        if (group->lane.rows[i]->slot[round % WEFT__SLOTS].bytes != WEFT__SLOT_OPEN)
            return &req->u.rounds.round;
    weft__rounds_opened(&req->u.rounds.plan);
    if (req->u.rounds.plan.whole) req->algorithm = "all_read";
    req->u.rounds.known = 0;
    return round_at(req, 0);
}

static uint64_t sequence_at(const weft_group *group, int member, uint64_t round)
{
    const weft__slot *slot = &group->lane.rows[member]->slot[round % WEFT__SLOTS];
    return atomic_load_explicit(&slot->sequence, memory_order_acquire);
}

static bool has_published(const weft_group *group, int member, uint64_t round)
{
    return sequence_at(group, member, round) >> WEFT__UNREAD_BITS >= round;
}

/* All members' blocks of a round are there: how far they had read by then is in the same lines.  So members
 * who wait for each other need not look at `consumed` too. */
static void learn_consumed(weft_group *group, uint64_t round)
{
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < group->size; i++) {
        uint64_t sequence = sequence_at(group, i, round);
        uint64_t read = (sequence >> WEFT__UNREAD_BITS) - (sequence & ((1U << WEFT__UNREAD_BITS) - 1));
        if (read < least) least = read;
    }
    if (least > group->lane.consumed) group->lane.consumed = least;
}

static bool rounds_has_joined(const weft_request *req, int member)
{
    return has_published(req->group, member, req->u.rounds.base + 1);
}

static bool is_broken(const weft_group *group)
{
    return atomic_load_explicit(&group->state, memory_order_relaxed) == WEFT__BROKEN;
}

/* A round that has not come from a member: will it ever?  Breaks the group if not. */
static bool will_come(weft_group *group, uint64_t number, int member, uint64_t round)
{
    weft_context *ctx = group->ctx;
    int world = group->world[member];
    char text[WEFT__SENTENCE_BYTES];
    if (WEFT__LIKELY(!atomic_load_explicit(&ctx->members[world].gone, memory_order_relaxed)) ||
        has_published(group, member, round))
        return true;
    weft__member_fate(ctx, world, text, sizeof text);
    weft__group_break(group, &(weft__verdict){WEFT_ERR_PEER, number, world, text}, true);
    return false;
}

static bool await(weft_group *group, uint64_t number, int member, uint64_t round)
{
    if (has_published(group, member, round)) return true;
    will_come(group, number, member, round);
    return false;
}

static weft__signature signature_at(const weft_group *group, int member, uint64_t round)
{
    const weft__slot *slot = &group->lane.rows[member]->slot[round % WEFT__SLOTS];
    return (weft__signature){{slot->signature[0], slot->signature[1]}};
}

static uint32_t number_at(const weft_group *group, int member, uint64_t round)
{
    return group->lane.rows[member]->slot[round % WEFT__SLOTS].number;
}

/* Of an operation's first round: does a member mean the same by it?  Breaks the group if not.  Where a
 * member's rounds belong to another number, somebody did by messages what others did in rounds: whom those
 * reach tells (and breaks). */
static inline bool agrees(weft_group *group, uint64_t number, weft__signature mine, int member,
                          uint64_t round)
{
    weft__signature theirs = signature_at(group, member, round);
    if (WEFT__UNLIKELY(number_at(group, member, round) != (uint32_t)number)) return false;
    if (WEFT__LIKELY(weft__same_signature(mine, theirs))) return true;
    weft__group_mismatch(group, number, mine, member, theirs);
    return false;
}

static inline bool all_agree(weft_group *group, uint64_t number, weft__signature mine, uint64_t round)
{
    bool all = true;
    for (int i = 0; i < group->size; i++) all = agrees(group, number, mine, i, round) && all;
    return all;
}

/* It is read, and known to mean the same to all. */
static void pass(weft_group *group, uint64_t round)
{
    group->lane.agreed = round;
    atomic_store_explicit(&group->lane.rows[group->rank]->consumed, round, memory_order_release);
}

/* Those that were taken without waiting for all, as far as all have come.  Returns how many.  May break the
 * group. */
static size_t make_up(weft_group *group)
{
    weft__lane *lane = &group->lane;
    size_t n = 0;
    while (lane->agreed < lane->taken) {
        uint64_t round = lane->agreed + 1;
        uint64_t number = group->started - ((uint32_t)group->started - number_at(group, group->rank, round));
        for (int i = 0; i < group->size; i++)
            if (!await(group, number, i, round)) return n;
        if (!all_agree(group, number, signature_at(group, group->rank, round), round)) return n;
        learn_consumed(group, round);
        pass(group, round);
        n++;
    }
    return n;
}

/* Not all members are past the round whose slot is needed: one that is gone without this one never will be.
 * May break the group. */
static void look_for_gone(weft_group *group, uint64_t number, uint64_t round)
{
    for (int i = 0; i < group->size; i++) {
        uint64_t past = atomic_load_explicit(&group->lane.rows[i]->consumed, memory_order_acquire);
        if (past < round - WEFT__SLOTS && !will_come(group, number, i, round)) return;
    }
}

/* All rounds of all operations that can be published now.  Returns the bytes moved + rounds.  May
 * break the group. */
static size_t publish_ahead(weft_group *group)
{
    weft__lane *lane = &group->lane;
    size_t moved = 0;
    WEFT__LIST_EACH(&lane->ops, at)
    {
        weft_request *req = WEFT__LIST_ENTRY(at, weft_request, u.rounds.lane);
        while (req->u.rounds.published < req->u.rounds.plan.count) {
            uint64_t round = req->u.rounds.base + req->u.rounds.published + 1;
            const weft__round *r;
            if (round > WEFT__SLOTS && !all_are_past(group, round - WEFT__SLOTS)) {
                moved += make_up(group);
                if (!is_broken(group) && req->u.rounds.taken == req->u.rounds.published)
                    look_for_gone(group, req->sequence, round);
                return moved;
            }
            if (moved >= TURN_BYTES) {
                group->ctx->cut_short = true;
                return moved;
            }
            r = round_at(req, req->u.rounds.published);
            if (r->after_take && req->u.rounds.taken < req->u.rounds.published) return moved;
            if (r->publishes) moved += publish(req, r, round, req->u.rounds.published == 0);
            moved++;
            req->u.rounds.published++;
        }
    }
    return moved;
}

static size_t piece_bytes(const weft__round *r, int member)
{
    size_t before = (size_t)member * r->take_bytes;
    if (r->total_bytes == 0) return r->take_bytes;
    if (before >= r->total_bytes) return 0;
    return r->total_bytes - before < r->take_bytes ? r->total_bytes - before : r->take_bytes;
}

/* Everything that this round reads is there.  May break the group. */
static bool round_is_there(weft_request *req, const weft__round *r, uint64_t round, bool needs_all)
{
    weft_group *group = req->group;
    bool all = true;
    if (!needs_all && r->take == WEFT__TAKE_NOTHING) return true;
    if (!needs_all && r->from >= 0) return await(group, req->sequence, r->from, round);
    for (int i = 0; i < group->size; i++) {
        if (!needs_all && r->take == WEFT__TAKE_COPY && piece_bytes(r, i) == 0) {
            all = false;
            continue;
        }
        if (!await(group, req->sequence, i, round)) return false;
    }
    if (all) learn_consumed(group, round);
    return true;
}

static size_t take_copies(weft_request *req, const weft__round *r, unsigned which)
{
    weft_group *group = req->group;
    size_t moved = 0;
    for (int i = 0; i < group->size; i++) {
        size_t bytes = piece_bytes(r, i);
        const void *from;
        char *to;
        if ((r->from >= 0 && i != r->from) || (r->skip_self && i == group->rank) || !bytes) continue;
        to = (char *)req->host_op->out + r->target_offset + (size_t)i * r->target_stride;
        from = weft__piece_of(req, r, i, which, bytes);
        if (WEFT__UNLIKELY(!from)) return refuse_piece(req, i);
        if (r->streams)
            weft__stream_copy(to, from, bytes);
        else
            memcpy(to, from, bytes);
        moved += bytes;
    }
    return moved;
}

static size_t take_reduction(weft_request *req, const weft__round *r, unsigned which)
{
    weft_group *group = req->group;
    const void *sources[WEFT__REDUCE_SOURCES];
    size_t count = r->take_bytes / weft__op_element(req->host_op);
    bool streams = r->streams || (r->streams_in_place && req->u.rounds.out);
    weft__reduce_fn *reduce =
        (streams ? weft__stream_kernel : weft__reduce_kernel)(req->host_op->dtype, req->host_op->reduction);
    void *out = (char *)req->host_op->out + r->target_offset;
    int next = 0;
    if (!count) return 0;
    while (next < group->size) {
        int n = 0;
        if (next > 0) sources[n++] = out; /* more members than one call takes */
        while (n < WEFT__REDUCE_SOURCES && next < group->size) {
            sources[n] = weft__piece_of(req, r, next, which, r->take_bytes);
            if (WEFT__UNLIKELY(!sources[n])) return refuse_piece(req, next);
            n++;
            next++;
        }
        reduce(out, sources, n, count, r->average && next == group->size ? 1.0 / group->size : 1.0);
    }
    return r->take_bytes * (size_t)group->size;
}

/* Somebody has failed and settled, and its caller may have written what was read from it since.  The fence:
 * all that was taken was read before this looks, also where loads may pass each other. */
static bool some_withdrawn(const weft_group *group)
{
    weft__fence_loads();
    for (int i = 0; i < group->size; i++)
        if (atomic_load_explicit(&group->lane.rows[i]->withdrawn, memory_order_seq_cst)) return true;
    return false;
}

static void end(weft_request *req)
{
    weft__list_remove(&req->u.rounds.lane);
    if (req->sequel)
        req->sequel->finish(req);
    else
        weft__request_settle(req, WEFT_OK, NULL);
}

/* All rounds are taken. */
static void finish(weft_request *req)
{
    weft_group *group = req->group;
    bool void_data =
        req->host_op->count * weft__op_element(req->host_op) >= IN_PLACE_BYTES && some_withdrawn(group);
    if (void_data) req->u.rounds.in_place = UINT64_MAX; /* until the group breaks */
    if (!req->u.rounds.in_place || all_are_past(group, req->u.rounds.in_place)) {
        end(req);
        return;
    }
    weft__list_remove(&req->u.rounds.lane);
    weft__list_append(&group->lane.read, &req->u.rounds.lane);
}

/* Those that all others have read by now. */
static size_t end_read(weft_group *group)
{
    size_t n = 0;
    while (!weft__list_empty(&group->lane.read)) {
        weft_request *req = WEFT__LIST_ENTRY(group->lane.read.next, weft_request, u.rounds.lane);
        if (!all_are_past(group, req->u.rounds.in_place)) break;
        end(req);
        n++;
    }
    return n;
}

/* Before it, all members have to have agreed on those before, or there are many of them. */
static bool must_make_up(const weft_request *req)
{
    const weft__lane *lane = &req->group->lane;
    return !req->u.rounds.ahead || lane->taken - lane->agreed >= LEFT_MOST;
}

/* Can this round be taken now?  May break the group. */
static bool is_ready(weft_request *req, const weft__round *r, uint64_t round)
{
    weft_group *group = req->group;
    bool needs_all = r->needs_all && !req->u.rounds.ahead;
    if (needs_all && group->lane.agreed < group->lane.taken) return false;
    if (!round_is_there(req, r, round, needs_all)) return false;
    if (needs_all) return all_agree(group, req->sequence, req->signature, round);
    return !r->needs_all || r->from < 0 || agrees(group, req->sequence, req->signature, r->from, round);
}

/* Takes rounds in order as far as they are there. */
static size_t take_ready(weft_group *group, bool *broken)
{
    weft__lane *lane = &group->lane;
    size_t moved = 0;
    while (!weft__list_empty(&lane->ops) && moved < TURN_BYTES) {
        weft_request *req = WEFT__LIST_ENTRY(lane->ops.next, weft_request, u.rounds.lane);
        uint64_t round = req->u.rounds.base + req->u.rounds.taken + 1;
        const weft__round *r;
        if (req->u.rounds.taken >= req->u.rounds.published) break;
        r = round_at(req, req->u.rounds.taken);
        if (WEFT__UNLIKELY(lane->agreed < lane->taken) && must_make_up(req)) moved += make_up(group);
        if (is_broken(group) || !is_ready(req, r, round)) {
            *broken = is_broken(group);
            break;
        }
        if (r->asks) r = answer(req, round);
        if (r->take == WEFT__TAKE_COPY)
            moved += take_copies(req, r, (unsigned)(round % WEFT__SLOTS));
        else if (r->take == WEFT__TAKE_REDUCE)
            moved += take_reduction(req, r, (unsigned)(round % WEFT__SLOTS));
        if (WEFT__UNLIKELY(is_broken(group))) {
            *broken = true;
            break;
        }
        moved++;
        lane->taken = round;
        if (!req->u.rounds.ahead) pass(group, round);
        if (++req->u.rounds.taken == req->u.rounds.plan.count) finish(req);
    }
    if (moved >= TURN_BYTES) group->ctx->cut_short = true; /* perhaps: the next turn knows */
    return moved;
}

/* After stores that members may sleep for. */
static void ring_members(weft_group *group)
{
    for (int i = 0; i < group->size; i++)
        if (i != group->rank) weft__bell_ring(group->ctx->board, group->lane.locals[i]);
}

static void leave_if_idle(weft__lane *lane)
{
    if (weft__list_empty(&lane->ops) && weft__list_empty(&lane->read)) weft__list_remove(&lane->link);
}

static int lane_turn(weft_group *group)
{
    bool broken = false;
    size_t moved, taken;
    moved = publish_ahead(group);
    if (WEFT__UNLIKELY(is_broken(group))) return 1;
    if (moved >= RING_FIRST_BYTES) ring_members(group);
    taken = take_ready(group, &broken);
    if (taken && !broken)
        taken += publish_ahead(group); /* what was taken makes room, here and at the others */
    if ((moved && moved < RING_FIRST_BYTES) || (taken && !broken)) ring_members(group);
    moved += taken;
    if (!weft__list_empty(&group->lane.read)) moved += end_read(group);
    leave_if_idle(&group->lane); /* its last request may have settled: groups retire at the end of a turn */
    return moved > 0;
}

static int rounds_advance(weft_context *ctx)
{
    int n = 0;
    weft__list todo, *only = ctx->at_work[WEFT__EXECUTOR_ROUNDS].next;
    WEFT__ASSERT(!weft__list_empty(&ctx->at_work[WEFT__EXECUTOR_ROUNDS]));
    ctx->cut_short = false;
    if (WEFT__LIKELY(only == ctx->at_work[WEFT__EXECUTOR_ROUNDS].prev))
        return lane_turn(WEFT__OWNER(only, weft_group, lane.link));
    /* A turn may settle requests, and so end lanes and start others: it goes over a list of its own. */
    weft__list_init(&todo);
    while (!weft__list_empty(&ctx->at_work[WEFT__EXECUTOR_ROUNDS])) {
        weft__list *at = ctx->at_work[WEFT__EXECUTOR_ROUNDS].next;
        weft__list_remove(at);
        weft__list_append(&todo, at);
    }
    while (!weft__list_empty(&todo)) {
        weft__list *at = todo.next;
        weft__list_remove(at);
        weft__list_append(&ctx->at_work[WEFT__EXECUTOR_ROUNDS], at);
        n += lane_turn(WEFT__OWNER(at, weft_group, lane.link));
    }
    return n;
}

/* Of memory that all members share: where it lies.  NULL: it is none. */
static const weft__region *shared_region(const weft_group *group, const void *from, size_t bytes)
{
    weft__regions *regions = group->ctx->regions;
    const weft__region *region = from ? weft__region_find(regions, from, bytes) : NULL;
    WEFT__ASSERT(weft__holds_engine(group->ctx));
    if (!region || !weft__region_shared(regions, region, group->lane.locals, group->size)) return NULL;
    return region;
}

/* Which of its buffers others can read where they lie. */
static void look_for_regions(weft_request *req)
{
    const weft_group *group = req->group;
    const weft__op *op = req->host_op;
    size_t element = weft__op_element(op);
    size_t least = req->ctx->crowded ? IN_PLACE_BYTES_CROWDED : IN_PLACE_BYTES;
    if (WEFT__PLAIN || op->count * element < least || !weft__rounds_in_place(&req->u.rounds.plan, op)) return;
    req->u.rounds.in =
        shared_region(group, op->in, weft__op_in_elements(op, group->rank, group->size) * element);
    if (req->u.rounds.plan.two_phase)
        req->u.rounds.out =
            shared_region(group, op->out, weft__op_out_elements(op, group->rank, group->size) * element);
}

/* Does it go on without all members?  One that reads in place what lies in another's buffer tells that it
 * has, and so does not. */
static bool goes_ahead(const weft_request *req)
{
    const weft__op *op = req->host_op;
    size_t bytes = op->count * weft__op_element(op);
    return op->repeats && bytes && bytes < IN_PLACE_BYTES && req->u.rounds.plan.count == 1;
}

/* How it is cut, and its first round. */
static void plan_rounds(weft_request *req)
{
    weft_group *group = req->group;
    const weft__op *op = req->host_op;
    uintptr_t apart = (uintptr_t)op->out - (uintptr_t)op->in;
    bool alike = op == &req->op && group->lane.last.plan.count && group->lane.last.apart == apart &&
                 weft__same_signature(group->lane.last.signature, req->signature);
    if (!alike) {
        group->lane.last.apart = apart;
        group->lane.last.signature = op == &req->op ? req->signature : weft__op_sign(op);
        weft__rounds_plan(&group->lane.last.plan, op, group->rank, group->size, group->table.slot_bytes,
                          group->selection.all_read_bytes);
        weft__rounds_at(&group->lane.last.plan, op, 0, &group->lane.last.first);
    }
    req->u.rounds.plan = group->lane.last.plan;
    req->u.rounds.round = group->lane.last.first;
    req->u.rounds.known = 1;
}

void weft__rounds_start(weft_request *req)
{
    weft_group *group = req->group;
    weft__lane *lane = &group->lane;
    plan_rounds(req);
    req->algorithm = req->u.rounds.plan.two_phase ? "slice_owner" : "all_read";
    req->u.rounds.base = lane->assigned;
    req->u.rounds.published = req->u.rounds.taken = req->u.rounds.in_place = 0;
    req->u.rounds.in = req->u.rounds.out = NULL;
    req->u.rounds.ahead = goes_ahead(req);
    if (WEFT__UNLIKELY(req->ctx->regions != NULL)) look_for_regions(req);
    lane->assigned += req->u.rounds.plan.count;
    if (weft__list_empty(&lane->ops)) {
        weft__list_remove(&lane->link);
        weft__list_append(&group->ctx->at_work[WEFT__EXECUTOR_ROUNDS], &lane->link);
    }
    weft__list_append(&lane->ops, &req->u.rounds.lane);
}

static void rounds_stop(weft_request *req)
{
    /* Only ever together with breaking the group: the numbering of rounds is void after this. */
    weft__lane *lane = &req->group->lane;
    if (req->u.rounds.in_place) {
        atomic_exchange_explicit(&lane->rows[req->group->rank]->withdrawn, 1, memory_order_seq_cst);
        atomic_thread_fence(memory_order_release); /* before all that the caller writes from now on */
    }
    weft__list_remove(&req->u.rounds.lane);
    leave_if_idle(lane);
}

static bool rounds_can_look(const weft_request *req)
{
    (void)req;
    return true;
}

static int rounds_look(weft_request *req)
{
    weft_context *ctx = req->ctx;
    return weft__list_empty(&ctx->at_work[WEFT__EXECUTOR_ROUNDS]) ? 0 : rounds_advance(ctx);
}

const weft__executor weft__rounds_executor = {.name = "rounds",
                                              .traits = WEFT__BEGINS_IN_CALL,
                                              .start = weft__rounds_start,
                                              .stop = rounds_stop,
                                              .advance = rounds_advance,
                                              .can_look = rounds_can_look,
                                              .look = rounds_look,
                                              .has_joined = rounds_has_joined};
