/* host_rounds.c - collectives of ranks that share memory: does in the segment what ops/rounds.h says.
 *
 * A group has one sequence of rounds; its operations take consecutive stretches of it.  Round k uses slot
 * k % WEFT__SLOTS of each member's slots, and a member writes a slot again only when all have told
 * (`consumed`) that they are past its last use: by acknowledgement, not by parity, since an operation may be
 * posted before the one before it is finished.  Publishing runs ahead of taking as far as slots allow.
 *
 * In its first round an operation checks whether all members mean the same, and so waits for all.  What goes
 * on without that is in host_ahead.h, what is read where it lies and not copied in host_in_place.h, looking
 * at the members' slots in host_coll.h, and moving the data in host_blocks.h.
 *
 * Failing: a member that is gone without having published what is needed breaks the group. */
#include "engine.h"
#include "executor.h"
#include "group.h"
#include "host.h"
#include "host_ahead.h"
#include "host_blocks.h"
#include "host_coll.h"
#include "host_in_place.h"
#include "host_piece.h"

#define PASS_BYTES       (256 * 1024) /* copied or reduced in one pass over a group's collectives, about */
#define RING_FIRST_BYTES (8 * 1024)   /* so much published: sleepers are told before anything is taken */

static size_t rounds_publish(weft_request *req, const weft__round *r, uint64_t round, bool first)
{
    weft_group *group = req->group;
    weft__member_slots *slots = group->shm_coll.slots[group->rank];
    unsigned which = (unsigned)(round % WEFT__SLOTS);
    weft__slot *slot = &slots->slot[which];
    size_t bytes = (size_t)r->parts * r->part_bytes, staged = 0;
    const weft__region *region = r->from_out ? req->u.rounds.out : req->u.rounds.in;
    bool open = weft__rounds_open(&req->u.rounds.plan, req->host_op, req->u.rounds.out != NULL);
    bool in_place = region && !r->scaled && (open || bytes > sizeof slot->u.small);
    uint64_t unread;

    if (first) {
        slot->signature[0] = req->signature.word[0];
        slot->signature[1] = req->signature.word[1];
        slot->number = (uint32_t)req->sequence;
    }
    if (in_place) {
        weft__publish_in_place(req, r, round, region, open);
    } else {
        slot->bytes = (uint32_t)bytes;
        if (bytes) staged = weft__stage(req, r, weft__slot_payload(req->ctx, slots, which));
    }
    unread = round - atomic_load_explicit(&slots->consumed, memory_order_relaxed);
    WEFT__ASSERT(unread <= WEFT__SLOTS, round, unread);
    atomic_store_explicit(&slot->sequence, round << WEFT__UNREAD_BITS | unread, memory_order_release);
    return staged;
}

/* One that waits for others is polled many times: it is worked out once. */
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
    if (!weft__all_open(req->group, round)) return &req->u.rounds.round;
    weft__rounds_opened(&req->u.rounds.plan);
    req->algorithm = weft__rounds_algorithm(&req->u.rounds.plan);
    req->u.rounds.known = 0;
    return round_at(req, 0);
}

static bool rounds_has_joined(const weft_request *req, int member)
{
    return weft__has_published(req->group, member, req->u.rounds.base + 1);
}

/* All rounds of all operations that can be published now.  Returns the bytes moved + rounds.  May
 * break the group. */
static size_t publish_ahead(weft_group *group)
{
    weft__shm_coll *coll = &group->shm_coll;
    size_t moved = 0;
    WEFT__LIST_EACH(&coll->ops, at)
    {
        weft_request *req = WEFT__LIST_ENTRY(at, weft_request, u.rounds.shm_coll);
        while (req->u.rounds.published < req->u.rounds.plan.count) {
            uint64_t round = req->u.rounds.base + req->u.rounds.published + 1;
            const weft__round *r;
            if (round > WEFT__SLOTS && !weft__all_are_past(group, round - WEFT__SLOTS)) {
                moved += weft__make_up(group);
                if (!weft__shm_coll_is_broken(group) && req->u.rounds.taken == req->u.rounds.published)
                    weft__look_for_gone(group, req->sequence, round);
                return moved;
            }
            if (moved >= PASS_BYTES) {
                group->ctx->cut_short = true;
                return moved;
            }
            r = round_at(req, req->u.rounds.published);
            if (r->after_take && req->u.rounds.taken < req->u.rounds.published) return moved;
            if (r->publishes) moved += rounds_publish(req, r, round, req->u.rounds.published == 0);
            moved++;
            req->u.rounds.published++;
        }
    }
    return moved;
}

/* Everything that this round reads is there.  May break the group. */
static bool round_is_there(weft_request *req, const weft__round *r, uint64_t round, bool needs_all)
{
    weft_group *group = req->group;
    bool all = true;
    if (!needs_all && r->take == WEFT__TAKE_NOTHING) return true;
    if (!needs_all && r->from >= 0) return weft__round_await(group, req->sequence, r->from, round);
    for (int i = 0; i < group->size; i++) {
        if (!needs_all && r->take == WEFT__TAKE_COPY && weft__piece_bytes(r, i) == 0) {
            all = false;
            continue;
        }
        if (!weft__round_await(group, req->sequence, i, round)) return false;
    }
    if (all) weft__learn_consumed(group, round);
    return true;
}

/* All rounds are taken. */
static void rounds_finish(weft_request *req)
{
    if (weft__is_done_with(req)) {
        weft__rounds_end(req);
        return;
    }
    weft__list_remove(&req->u.rounds.shm_coll);
    weft__list_append(&req->group->shm_coll.read, &req->u.rounds.shm_coll);
}

/* Can this round be taken now?  May break the group. */
static bool is_ready(weft_request *req, const weft__round *r, uint64_t round)
{
    weft_group *group = req->group;
    bool needs_all = r->needs_all && !req->u.rounds.ahead;
    if (needs_all && group->shm_coll.agreed < group->shm_coll.taken) return false;
    if (!round_is_there(req, r, round, needs_all)) return false;
    if (needs_all) return weft__members_agree(group, req->sequence, req->signature, round);
    return !r->needs_all || r->from < 0 ||
           weft__member_agrees(group, req->sequence, req->signature, r->from, round);
}

/* Takes rounds in order as far as they are there. */
static size_t take_ready(weft_group *group, bool *broken)
{
    weft__shm_coll *coll = &group->shm_coll;
    size_t moved = 0;
    while (!weft__list_empty(&coll->ops) && moved < PASS_BYTES) {
        weft_request *req = WEFT__LIST_ENTRY(coll->ops.next, weft_request, u.rounds.shm_coll);
        uint64_t round = req->u.rounds.base + req->u.rounds.taken + 1;
        const weft__round *r;
        if (req->u.rounds.taken >= req->u.rounds.published) break;
        WEFT__ASSERT_HOT(round == coll->taken + 1 && req->u.rounds.published <= req->u.rounds.plan.count,
                         round, coll->taken, req->u.rounds.published);
        WEFT__ASSERT_HOT(req->u.rounds.taken < req->u.rounds.published, req->u.rounds.taken);
        WEFT__ASSERT_HOT(coll->agreed <= coll->taken, coll->agreed, coll->taken);
        r = round_at(req, req->u.rounds.taken);
        if (WEFT__UNLIKELY(coll->agreed < coll->taken) && weft__must_make_up(req))
            moved += weft__make_up(group);
        if (weft__shm_coll_is_broken(group) || !is_ready(req, r, round)) {
            *broken = weft__shm_coll_is_broken(group);
            break;
        }
        if (r->asks) r = answer(req, round);
        if (r->take == WEFT__TAKE_COPY)
            moved += weft__take_copies(req, r, (unsigned)(round % WEFT__SLOTS));
        else if (r->take == WEFT__TAKE_REDUCE)
            moved += weft__take_reduction(req, r, (unsigned)(round % WEFT__SLOTS));
        if (WEFT__UNLIKELY(weft__shm_coll_is_broken(group))) {
            *broken = true;
            break;
        }
        moved++;
        coll->taken = round;
        if (!req->u.rounds.ahead) weft__round_pass(group, round);
        if (++req->u.rounds.taken == req->u.rounds.plan.count) rounds_finish(req);
    }
    if (moved >= PASS_BYTES) group->ctx->cut_short = true; /* perhaps: the next pass knows */
    return moved;
}

/* After stores that members may sleep for. */
static void ring_members(weft_group *group)
{
    for (int i = 0; i < group->size; i++)
        if (i != group->rank) weft__bell_ring(group->ctx->segment, group->shm_coll.locals[i]);
}

static void leave_if_idle(weft__shm_coll *coll)
{
    if (weft__list_empty(&coll->ops) && weft__list_empty(&coll->read)) weft__list_remove(&coll->link);
}

static int coll_progress(weft_group *group)
{
    bool broken = false;
    size_t moved, taken;
    moved = publish_ahead(group);
    if (WEFT__UNLIKELY(weft__shm_coll_is_broken(group))) return 1;
    if (moved >= RING_FIRST_BYTES) ring_members(group);
    taken = take_ready(group, &broken);
    if (taken && !broken)
        taken += publish_ahead(group); /* what was taken makes room, here and at the others */
    if ((moved && moved < RING_FIRST_BYTES) || (taken && !broken)) ring_members(group);
    moved += taken;
    if (!weft__list_empty(&group->shm_coll.read)) moved += weft__end_read(group);
    leave_if_idle(
        &group->shm_coll); /* its last request may have settled: groups retire at the end of a pass */
    return moved > 0;
}

static int rounds_advance(weft_context *ctx)
{
    int n = 0;
    weft__list todo, *only = ctx->at_work[WEFT__EXECUTOR_ROUNDS].next;
    WEFT__ASSERT(!weft__list_empty(&ctx->at_work[WEFT__EXECUTOR_ROUNDS]));
    ctx->cut_short = false;
    if (WEFT__LIKELY(only == ctx->at_work[WEFT__EXECUTOR_ROUNDS].prev))
        return coll_progress(WEFT__OWNER(only, weft_group, shm_coll.link));
    /* A pass may settle requests, and so end collectives in shared memory and start others: it goes over a
     * list of its own. */
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
        n += coll_progress(WEFT__OWNER(at, weft_group, shm_coll.link));
    }
    return n;
}

/* How it is cut, and its first round. */
static void plan_rounds(weft_request *req)
{
    weft_group *group = req->group;
    const weft__op *op = req->host_op;
    uintptr_t apart = (uintptr_t)op->out - (uintptr_t)op->in;
    weft__signature signature = op == &req->op ? req->signature : weft__op_sign(op);
    bool alike = group->shm_coll.last.plan.count && group->shm_coll.last.apart == apart &&
                 weft__same_signature(group->shm_coll.last.signature, signature);
    if (!alike) {
        group->shm_coll.last.apart = apart;
        group->shm_coll.last.signature = signature;
        weft__rounds_plan(&group->shm_coll.last.plan, op, group->rank, group->size, group->params.slot_bytes,
                          &group->selection.rounds);
        weft__rounds_at(&group->shm_coll.last.plan, op, 0, &group->shm_coll.last.first);
    }
    req->u.rounds.plan = group->shm_coll.last.plan;
    req->u.rounds.round = group->shm_coll.last.first;
    req->u.rounds.known = 1;
}

void weft__rounds_start(weft_request *req)
{
    weft_group *group = req->group;
    weft__shm_coll *coll = &group->shm_coll;
    plan_rounds(req);
    req->algorithm = weft__rounds_algorithm(&req->u.rounds.plan);
    WEFT__ASSERT_HOT(coll->state == WEFT__SHM_COLL_OPEN && coll->taken <= coll->assigned, coll->state,
                     coll->taken, coll->assigned);
    req->u.rounds.base = coll->assigned;
    req->u.rounds.published = req->u.rounds.taken = req->u.rounds.in_place = 0;
    req->u.rounds.in = req->u.rounds.out = NULL;
    req->u.rounds.ahead = weft__goes_ahead(req);
    if (WEFT__UNLIKELY(req->ctx->regions != NULL)) weft__look_for_regions(req);
    coll->assigned += req->u.rounds.plan.count;
    if (req->host_op == &req->op) coll->of_program = coll->assigned;
    if (weft__list_empty(&coll->ops)) {
        weft__list_remove(&coll->link);
        weft__list_append(&group->ctx->at_work[WEFT__EXECUTOR_ROUNDS], &coll->link);
    }
    weft__list_append(&coll->ops, &req->u.rounds.shm_coll);
}

static void rounds_stop(weft_request *req)
{
    /* Only ever together with breaking the group: the numbering of rounds is void after this. */
    weft__withdraw(req);
    weft__list_remove(&req->u.rounds.shm_coll);
    leave_if_idle(&req->group->shm_coll);
}

static bool rounds_can_poll(const weft_request *req)
{
    (void)req;
    return true;
}

static int rounds_poll(weft_request *req)
{
    weft_context *ctx = req->ctx;
    return weft__list_empty(&ctx->at_work[WEFT__EXECUTOR_ROUNDS]) ? 0 : rounds_advance(ctx);
}

const weft__executor weft__rounds_executor = {.name = "rounds",
                                              .traits = WEFT__BEGINS_IN_CALL,
                                              .start = weft__rounds_start,
                                              .stop = rounds_stop,
                                              .progress = rounds_advance,
                                              .can_poll = rounds_can_poll,
                                              .poll = rounds_poll,
                                              .has_joined = rounds_has_joined};
