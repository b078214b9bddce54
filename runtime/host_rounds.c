/* host_rounds.c - collectives of ranks that share memory: does in the board what ops/rounds.h says.
 *
 * A group has one sequence of rounds; its operations take consecutive stretches of it.  Round k uses slot
 * k % WEFT__SLOTS of each member's row, and a member writes a slot again only when all have told (`consumed`)
 * that they are past its last use: by acknowledgement, not by parity, since an operation may be posted before
 * the one before it is finished.  Publishing runs ahead of taking as far as slots allow.
 * Failing: a member that is gone without having published what is needed breaks the group. */
#include "breaking.h"
#include "group.h"
#include "host.h"
#include "member.h"
#include "reduce.h"

#include <stdlib.h>
#include <string.h>

#define TURN_BYTES (256 * 1024) /* copied or reduced in one turn of a lane, about */

static bool slot_is_free(weft_group *group, uint64_t round)
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

static unsigned char *payload_of(weft_context *ctx, weft__row *row, unsigned slot)
{
    weft__slot *s = &row->slot[slot];
    return s->bytes <= sizeof s->small ? s->small : weft__slot_area(ctx->board, row, slot);
}

static size_t publish(weft_request *req, const weft__round *r, uint64_t round, bool first)
{
    weft_group *group = req->group;
    weft__row *row = group->lane.rows[group->rank];
    unsigned which = (unsigned)(round % WEFT__SLOTS);
    weft__slot *slot = &row->slot[which];
    size_t bytes = (size_t)r->parts * r->part_bytes;
    unsigned char *to;
    const char *from = r->from_out ? req->op.out : req->op.in;

    slot->bytes = bytes;
    to = payload_of(req->ctx, row, which);
    if (first) {
        weft__signature mine = weft__signature_of(req);
        slot->signature[0] = mine.word[0];
        slot->signature[1] = mine.word[1];
    }
    for (int k = 0; bytes && k < r->parts; k++) {
        const char *part = from + r->source_offset + (size_t)k * r->source_stride;
        if (r->scaled)
            weft__scale(to, part, r->part_bytes / weft_dtype_size(req->op.dtype), req->op.dtype,
                        req->op.scale);
        else
            memcpy(to, part, r->part_bytes);
        to += r->part_bytes;
    }
    atomic_exchange_explicit(&slot->sequence, round, memory_order_seq_cst);
    return bytes;
}

/* All rounds of all operations that can be published now.  Returns the bytes moved + rounds. */
static size_t publish_ahead(weft_group *group)
{
    weft__lane *lane = &group->lane;
    size_t moved = 0;
    WEFT__LIST_EACH(&lane->ops, at)
    {
        weft_request *req = WEFT__LIST_ENTRY(at, weft_request, u.rounds.lane);
        while (req->u.rounds.published < req->u.rounds.plan.count) {
            uint64_t round = req->u.rounds.base + req->u.rounds.published + 1;
            weft__round r;
            if (moved >= TURN_BYTES || (round > WEFT__SLOTS && !slot_is_free(group, round - WEFT__SLOTS)))
                return moved;
            weft__rounds_at(&req->u.rounds.plan, &req->op, req->u.rounds.published, &r);
            if (r.after_take && req->u.rounds.taken < req->u.rounds.published) return moved;
            if (r.publishes) moved += publish(req, &r, round, req->u.rounds.published == 0);
            moved++;
            req->u.rounds.published++;
        }
    }
    return moved;
}

static bool has_published(const weft_group *group, int member, uint64_t round)
{
    const weft__slot *slot = &group->lane.rows[member]->slot[round % WEFT__SLOTS];
    return atomic_load_explicit(&slot->sequence, memory_order_acquire) >= round;
}

bool weft__rounds_joined(const weft_request *req, int member)
{
    return has_published(req->group, member, req->u.rounds.base + 1);
}

/* Not there yet: will it ever be? */
static bool await(weft_group *group, uint64_t number, int member, uint64_t round)
{
    weft_context *ctx = group->ctx;
    int world = group->world[member];
    char text[WEFT__SENTENCE_BYTES];
    if (has_published(group, member, round)) return true;
    if (WEFT__UNLIKELY(atomic_load_explicit(&ctx->members[world].gone, memory_order_relaxed)) &&
        !has_published(group, member, round)) {
        weft__member_fate(ctx, world, text, sizeof text);
        weft__group_break(group, &(weft__verdict){WEFT_ERR_PEER, number, world, text}, true);
    }
    return false;
}

static size_t piece_bytes(const weft__round *r, int member)
{
    size_t before = (size_t)member * r->take_bytes;
    if (r->total_bytes == 0) return r->take_bytes;
    if (before >= r->total_bytes) return 0;
    return r->total_bytes - before < r->take_bytes ? r->total_bytes - before : r->take_bytes;
}

/* Everything that this round reads is there.  May break the group. */
static bool round_is_there(weft_request *req, const weft__round *r, uint64_t round)
{
    weft_group *group = req->group;
    if (!r->needs_all && r->take == WEFT__TAKE_NOTHING) return true;
    if (!r->needs_all && r->from >= 0) return await(group, req->sequence, r->from, round);
    for (int i = 0; i < group->size; i++) {
        if (!r->needs_all && r->take == WEFT__TAKE_COPY && piece_bytes(r, i) == 0) continue;
        if (!await(group, req->sequence, i, round)) return false;
    }
    return true;
}

/* First round: do all members mean the same?  Breaks the group if not. */
static bool all_agree(weft_request *req, uint64_t round)
{
    weft_group *group = req->group;
    weft__signature mine = weft__signature_of(req);
    for (int i = 0; i < group->size; i++) {
        const weft__slot *slot = &group->lane.rows[i]->slot[round % WEFT__SLOTS];
        weft__signature theirs = {{slot->signature[0], slot->signature[1]}};
        if (WEFT__LIKELY(weft__same_signature(mine, theirs))) continue;
        weft__group_mismatch(group, req->sequence, mine, i, theirs);
        return false;
    }
    return true;
}

static size_t take_copies(weft_request *req, const weft__round *r, unsigned which)
{
    weft_group *group = req->group;
    size_t moved = 0;
    for (int i = 0; i < group->size; i++) {
        size_t bytes = piece_bytes(r, i);
        if ((r->from >= 0 && i != r->from) || (r->skip_self && i == group->rank) || !bytes) continue;
        memcpy((char *)req->op.out + r->target_offset + (size_t)i * r->target_stride,
               payload_of(req->ctx, group->lane.rows[i], which) + r->slot_offset, bytes);
        moved += bytes;
    }
    return moved;
}

static size_t take_reduction(weft_request *req, const weft__round *r, unsigned which)
{
    weft_group *group = req->group;
    const void *sources[WEFT__REDUCE_SOURCES];
    size_t count = r->take_bytes / weft_dtype_size(req->op.dtype);
    weft__reduce_fn *reduce = weft__reduce_kernel(req->op.dtype, req->op.reduction);
    void *out = (char *)req->op.out + r->target_offset;
    int next = 0;
    if (!count) return 0;
    while (next < group->size) {
        int n = 0;
        if (next > 0) sources[n++] = out; /* more members than one call takes */
        while (n < WEFT__REDUCE_SOURCES && next < group->size) {
            sources[n++] = payload_of(req->ctx, group->lane.rows[next], which) + r->slot_offset;
            next++;
        }
        reduce(out, sources, n, count, r->average && next == group->size ? 1.0 / group->size : 1.0);
    }
    return r->take_bytes * (size_t)group->size;
}

static void finish(weft_request *req)
{
    weft__list_remove(&req->u.rounds.lane);
    if (req->sequel)
        req->sequel->finish(req);
    else
        weft__request_settle(req, WEFT_OK, NULL);
}

/* Takes rounds in order as far as they are there. */
static size_t take_ready(weft_group *group, bool *broken)
{
    weft__lane *lane = &group->lane;
    size_t moved = 0;
    while (!weft__list_empty(&lane->ops) && moved < TURN_BYTES) {
        weft_request *req = WEFT__LIST_ENTRY(lane->ops.next, weft_request, u.rounds.lane);
        uint64_t round = req->u.rounds.base + req->u.rounds.taken + 1;
        weft__round r;
        bool first = req->u.rounds.taken == 0;
        if (req->u.rounds.taken >= req->u.rounds.published) break;
        weft__rounds_at(&req->u.rounds.plan, &req->op, req->u.rounds.taken, &r);
        if (!round_is_there(req, &r, round) || (first && !all_agree(req, round))) {
            *broken = atomic_load_explicit(&group->state, memory_order_relaxed) == WEFT__BROKEN;
            break;
        }
        if (r.take == WEFT__TAKE_COPY)
            moved += take_copies(req, &r, (unsigned)(round % WEFT__SLOTS));
        else if (r.take == WEFT__TAKE_REDUCE)
            moved += take_reduction(req, &r, (unsigned)(round % WEFT__SLOTS));
        moved++;
        atomic_exchange_explicit(&lane->rows[group->rank]->consumed, round, memory_order_seq_cst);
        if (++req->u.rounds.taken == req->u.rounds.plan.count) finish(req);
    }
    return moved;
}

static void ring_members(weft_group *group)
{
    for (int i = 0; i < group->size; i++)
        if (i != group->rank) weft__bell_ring(group->ctx->board, group->lane.locals[i]);
}

static int lane_turn(weft_group *group)
{
    bool broken = false;
    size_t moved;
    weft__group_ref(group); /* its last request may settle here */
    moved = publish_ahead(group);
    if (moved) ring_members(group);
    size_t taken = take_ready(group, &broken);
    if (taken && !broken) { /* what was taken makes room, here and at the others */
        moved += taken + publish_ahead(group);
        ring_members(group);
    }
    if (weft__list_empty(&group->lane.ops)) weft__list_remove(&group->lane.link);
    weft__group_unref(group);
    return moved > 0;
}

int weft__rounds_turn(weft_context *ctx)
{
    int n = 0;
    weft__list todo;
    /* A turn may settle requests, and so end lanes and start others: the round goes over a list of its own.
     */
    weft__list_init(&todo);
    while (!weft__list_empty(&ctx->lanes)) {
        weft__list *at = ctx->lanes.next;
        weft__list_remove(at);
        weft__list_append(&todo, at);
    }
    while (!weft__list_empty(&todo)) {
        weft__list *at = todo.next;
        weft__list_remove(at);
        weft__list_append(&ctx->lanes, at);
        n += lane_turn(WEFT__OWNER(at, weft_group, lane.link));
    }
    return n;
}

void weft__rounds_start(weft_request *req)
{
    weft_group *group = req->group;
    weft__lane *lane = &group->lane;
    weft__rounds_plan(&req->u.rounds.plan, &req->op, group->rank, group->size, group->table.slot_bytes);
    req->algorithm = req->u.rounds.plan.two_phase ? "slice_owner" : "all_read";
    req->u.rounds.base = lane->assigned;
    req->u.rounds.published = req->u.rounds.taken = 0;
    lane->assigned += req->u.rounds.plan.count;
    if (weft__list_empty(&lane->ops)) {
        weft__list_remove(&lane->link);
        weft__list_append(&group->ctx->lanes, &lane->link);
    }
    weft__list_init(&req->u.rounds.lane);
    weft__list_append(&lane->ops, &req->u.rounds.lane);
}

void weft__rounds_stop(weft_request *req)
{
    /* Only ever together with breaking the group: the numbering of rounds is void after this. */
    weft__lane *lane = &req->group->lane;
    weft__list_remove(&req->u.rounds.lane);
    if (weft__list_empty(&lane->ops)) weft__list_remove(&lane->link);
}
