/* slot_exchange.c - the slots of groups that share memory and meet only when they are used.
 *
 * They are told along a tree of the members (slot_tree.h), as each comes to its first collective on the group: up
 * it where those of a whole branch are, down it where all are.  So a member has words for FAN_OUT others and one
 * above it, and no ring in shared memory to anybody else.  What is told before this rank has come so far waits
 * (early.h).  There is no verdict: operations are held under their own deadlines, so a member that does not come
 * is named as late by the usual way, and the group breaks as any other does.  A member without slots left tells 0,
 * and all then use messages: every member sees what every other has told, so all decide alike.
 *
 * Failing: a member that is gone, and has not told what is awaited from it, breaks the group for all, and so does one that has
 * left and never came; who has had what it awaits goes on.  Slots that were told are not used again before all members are done with them or gone. */
#include "slot_exchange.h"
#include "engine.h"
#include "executor.h"
#include "group_break.h"
#include "log.h"
#include "peer.h"
#include "protocol.h"
#include "reserve.h"
#include "slot_tree.h"
#include "slots.h"
#include "submit.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where the slots of `count` members are, from `first` on: of a branch, or from above of all. */
typedef struct slots_word {
    uint64_t group;
    int32_t first, count;
    uint64_t slots[WEFT__SEGMENT_RANKS_MAX]; /* count of them travel */
} slots_word;

#define WORD_BYTES(count) (offsetof(slots_word, slots) + (size_t)(count) * sizeof(uint64_t))

/* What may follow on each state. */
static const uint8_t coll_follows[] = {[WEFT__SHM_COLL_NONE] = WEFT__MAY_BECOME(WEFT__SHM_COLL_UNMET),
                                       [WEFT__SHM_COLL_UNMET] = WEFT__MAY_BECOME(WEFT__SHM_COLL_NONE) |
                                                                WEFT__MAY_BECOME(WEFT__SHM_COLL_EXCHANGING) |
                                                                WEFT__MAY_BECOME(WEFT__SHM_COLL_OPEN),
                                       [WEFT__SHM_COLL_EXCHANGING] = WEFT__MAY_BECOME(WEFT__SHM_COLL_NONE) |
                                                                     WEFT__MAY_BECOME(WEFT__SHM_COLL_OPEN),
                                       [WEFT__SHM_COLL_OPEN] = 0};

static void coll_to(weft__shm_coll *coll, weft__shm_coll_state to)
{
    WEFT__ASSERT(WEFT__ALLOWS(coll_follows, coll->state, to));
    coll->state = to;
}

/* Slots for a group to be; 0: there is none. */
uint64_t weft__slots_claim(weft_context *ctx)
{
    if (!ctx->segment) return 0;
    weft__groups_reclaim(ctx);
    return weft__slots_take(ctx->segment);
}

/* For weft__rounds_expect.  Without memory no line is asked for early, which only takes longer. */
static void list_lines(weft__shm_coll *coll, int size)
{
    if (size > WEFT__EXPECTED_MOST) return;
    coll->lines = malloc(WEFT__SLOTS * sizeof *coll->lines);
    for (int s = 0; coll->lines && s < WEFT__SLOTS; s++)
        for (int i = 0; i < size; i++) coll->lines[s].of[i] = &coll->slots[i]->slot[s];
}

static weft_status open_slots(weft_group *group, const uint64_t *slots)
{
    weft_context *ctx = group->ctx;
    weft__shm_coll *coll = &group->shm_coll;
    weft_status status = WEFT_OK;
    weft__member_slots **at = calloc((size_t)group->size, sizeof *at);
    int *locals = calloc((size_t)group->size, sizeof *locals);
    uint64_t *uses = calloc((size_t)group->size, sizeof *uses);
    WEFT__ASSERT(weft__holds_engine(ctx));
    if (!at || !locals || !uses)
        status = weft__fail_memory((size_t)group->size * (sizeof *at + sizeof *locals + sizeof *uses),
                                   "a group's slots");
    for (int i = 0; i < group->size && status == WEFT_OK; i++) {
        at[i] = weft__slots_at(ctx->segment, slots[i]);
        locals[i] = ctx->peers[group->world[i]].local;
        if (at[i] && weft__segment_owns(ctx->segment, locals[i], slots[i]))
            uses[i] = atomic_load_explicit(&at[i]->use, memory_order_acquire);
        else
            status = weft__fail(WEFT_ERR_PEER, "rank %d told of slots at %llu, where none can be",
                                group->world[i], (unsigned long long)slots[i]);
    }
    if (status != WEFT_OK) {
        free((void *)at);
        free(locals);
        free(uses);
        return status;
    }
    coll->slots = at;
    list_lines(coll, group->size);
    coll->locals = locals;
    coll->uses = uses;
    coll->own_slots = slots[group->rank];
    coll_to(coll, WEFT__SHM_COLL_OPEN);
    return WEFT_OK;
}

weft_status weft__slots_told(weft_group *group, const uint64_t *slots)
{
    if (!group->params.rounds) return WEFT_OK;
    for (int i = 0; i < group->size; i++) {
        if (slots[i]) continue;
        group->params.rounds = 0;
        coll_to(&group->shm_coll, WEFT__SHM_COLL_NONE);
        return WEFT_OK;
    }
    return open_slots(group, slots);
}

static void break_by(weft_group *group, weft_status cause, int culprit, const char *why)
{
    weft__group_break(group, &(weft__verdict){cause, 0, culprit, why}, true);
}

/* Over what weft_last_error() says of this rank. */
static void break_here(weft_group *group, weft_status cause)
{
    char text[WEFT__SENTENCE_BYTES];
    snprintf(text, sizeof text, "rank %d: %.*s", group->ctx->rank, 900, weft_last_error());
    break_by(group, cause, -1, text);
}

/* All are told: what was held begins, in order. */
static void start_held(weft_group *group)
{
    weft__list todo;
    weft__list_init(&todo);
    while (!weft__list_empty(&group->shm_coll.ops)) {
        weft__list *at = group->shm_coll.ops.next;
        weft__list_remove(at);
        weft__list_append(&todo, at);
    }
    while (!weft__list_empty(&todo)) { /* one that breaks the group takes the others off this list */
        weft_request *req = WEFT__LIST_ENTRY(todo.next, weft_request, u.rounds.shm_coll);
        weft__list_remove(&req->u.rounds.shm_coll);
        weft__submit_held(req);
    }
}

static weft__slot_branch branch_of(const weft_group *group, int member)
{
    return weft__slot_branch_of(member, group->size, group->ctx->fan_out);
}

/* Is there something that this rank has not heard from that member, and has to? */
static bool awaits(const weft_group *group, int member)
{
    const weft__shm_coll *coll = &group->shm_coll;
    if (coll->state != WEFT__SHM_COLL_EXCHANGING || coll->heard[member]) return false;
    return branch_of(group, group->rank).above == member || branch_of(group, member).above == group->rank;
}

/* It has left, and shows that it never began anything in this group: nobody below or above it can have heard from it.  One
 * that had told where its slots are leaves either with the group open, or broken. */
static bool never_comes(const weft_group *group, int member)
{
    const weft__gone gone = atomic_load(&group->ctx->peers[group->world[member]].gone);
    weft__row row;
    return group->shm_coll.state == WEFT__SHM_COLL_EXCHANGING && gone == WEFT__LEFT &&
           weft__group_shown(group, member, &row) && !atomic_load(&row.submitted);
}

/* False: the group is broken. */
static bool tell(weft_group *group, int member, int first, int count)
{
    weft_context *ctx = group->ctx;
    slots_word word = {.group = group->id, .first = first, .count = count};
    memcpy(word.slots, group->shm_coll.told + first, (size_t)count * sizeof *word.slots);
    if (weft__p2p_control(ctx->p2p, group->world[member], WEFT__MESSAGE_SLOTS, &word, WORD_BYTES(count)) ==
        WEFT_OK)
        return true;
    break_here(group, WEFT_ERR_MEMORY);
    return false;
}

/* All are told: the group has slots, or is known to do without. */
static void meet_all(weft_group *group)
{
    weft__shm_coll *coll = &group->shm_coll;
    uint64_t *slots = coll->told;
    bool some_without = false;
    weft_status status;
    for (int i = 0; i < group->size; i++) some_without = some_without || slots[i] == 0;
    coll->told = NULL;
    if (some_without) {
        if (coll->own_slots) weft__segment_give(group->ctx->segment, coll->own_slots);
        coll->own_slots = 0;
        coll_to(coll, WEFT__SHM_COLL_NONE);
        group->params.rounds = 0;
    } else if ((status = open_slots(group, slots)) != WEFT_OK) {
        coll_to(coll, WEFT__SHM_COLL_NONE);
        break_here(group, status);
    }
    free(slots);
    start_held(group);
}

/* Passes on what can be: up once this rank's branch is whole, down once all is. */
static void pass_on(weft_group *group)
{
    weft__shm_coll *coll = &group->shm_coll;
    const int fan_out = group->ctx->fan_out;
    const weft__slot_branch own = branch_of(group, group->rank);
    if (coll->missing > 0) return;
    if (own.above >= 0 && !coll->told_up) {
        coll->told_up = true;
        if (!tell(group, own.above, own.first, own.count)) return;
    }
    if (own.above >= 0 && !coll->heard[own.above]) return;
    for (int i = 0; i < weft__slot_branches(own, fan_out); i++)
        if (!tell(group, weft__slot_branch_below(own, fan_out, i).first, 0, group->size)) return;
    meet_all(group);
}

/* From below of that member's branch, from above of all; NULL, or what is wrong. */
static const char *note_slots(weft_group *group, int peer, const slots_word *word)
{
    weft__shm_coll *coll = &group->shm_coll;
    const int member = weft__group_member(group, peer);
    const weft__slot_branch own = branch_of(group, group->rank);
    weft__slot_branch of;
    if (member < 0 || !awaits(group, member)) return "where slots are, which it was not to tell, or has told";
    of = branch_of(group, member);
    if (of.above != group->rank) of = (weft__slot_branch){0, coll->told_up ? group->size : -1, -1};
    if (word->first != of.first || word->count != of.count) return "where the slots of other members are";
    if (of.above < 0 &&
        memcmp(word->slots + own.first, coll->told + own.first, (size_t)own.count * sizeof *coll->told) != 0)
        return "slots of this rank's branch that it has not told";
    memcpy(coll->told + of.first, word->slots, (size_t)of.count * sizeof *coll->told);
    coll->heard[member] = true;
    if (of.above >= 0) coll->missing--;
    return NULL;
}

static void take_word(weft_group *group, int peer, const slots_word *word)
{
    const char *wrong = note_slots(group, peer, word);
    if (wrong) weft__peer_refused(group->ctx, peer, wrong);
}

static bool exchange_take_early(void *group, int peer, const void *bytes)
{
    take_word(group, peer, bytes);
    return true;
}

/* A member that is gone already breaks the group.  Returns whether. */
static bool has_lost_one(weft_group *group)
{
    weft_context *ctx = group->ctx;
    for (int i = 0; i < group->size; i++) {
        int world = group->world[i];
        char text[WEFT__SENTENCE_BYTES];
        if (i == group->rank || atomic_load(&ctx->peers[world].gone) == WEFT__LIVES) continue;
        weft__peer_fate(ctx, world, text, sizeof text);
        break_by(group, WEFT_ERR_PEER, world, text);
        return true;
    }
    return false;
}

/* This rank's first collective on the group: tells where its slots are. */
static void exchange_meet(weft_group *group)
{
    weft_context *ctx = group->ctx;
    weft__shm_coll *coll = &group->shm_coll;
    coll->told = calloc((size_t)group->size, sizeof *coll->told + sizeof *coll->heard);
    if (!coll->told) {
        weft__fail_memory((size_t)group->size * sizeof *coll->told, "a group's slots");
        break_here(group, WEFT_ERR_MEMORY);
        return;
    }
    coll->heard = (bool *)(coll->told + group->size);
    coll_to(coll, WEFT__SHM_COLL_EXCHANGING);
    coll->missing = weft__slot_branches(branch_of(group, group->rank), ctx->fan_out);
    coll->told[group->rank] = coll->own_slots = weft__slots_claim(ctx);
    weft__early_offer(ctx, group->id, WEFT__MESSAGE_SLOTS, exchange_take_early, group);
    if (!has_lost_one(group)) pass_on(group);
}

void weft__slot_exchange_hold(weft_request *req)
{
    weft_group *group = req->group;
    weft__shm_coll *coll = &group->shm_coll;
    WEFT__ASSERT(weft__holds_engine(req->ctx));
    weft__list_init(&req->u.rounds.shm_coll);
    weft__list_append(&coll->ops, &req->u.rounds.shm_coll);
    weft__submit_hold(req);
    if (coll->state != WEFT__SHM_COLL_UNMET) return;
    weft__group_ref(group); /* breaking it may settle its last request */
    exchange_meet(group);
    weft__group_unref(group);
}

static void exchange_message(weft_context *ctx, int peer, int type, const void *bytes, size_t length)
{
    slots_word word;
    weft_group *group;
    bool met;
    (void)type;
    if (length < WORD_BYTES(0) || length > sizeof word) {
        weft__peer_refused(ctx, peer, "where slots are takes another number of bytes");
        return;
    }
    memcpy(&word, bytes, length);
    if (word.count < 0 || length != WORD_BYTES(word.count)) {
        weft__peer_refused(ctx, peer, "where slots are takes another number of bytes");
        return;
    }
    group = weft__group_find(ctx, word.group);
    met = group && group->shm_coll.state != WEFT__SHM_COLL_UNMET;
    if (!met) weft__early_keep(ctx, word.group, WEFT__MESSAGE_SLOTS, peer, &word, length);
    if (met && group->shm_coll.state == WEFT__SHM_COLL_EXCHANGING) {
        take_word(group, peer, &word);
        if (group->shm_coll.state == WEFT__SHM_COLL_EXCHANGING) pass_on(group);
    }
    if (group) weft__group_unref(group);
}

static weft_group *next_without(weft_context *ctx, int rank)
{
    weft_group *found = NULL;
    weft__lock_take(&ctx->groups_lock);
    WEFT__LIST_EACH(&ctx->groups, at)
    {
        weft_group *group = WEFT__LIST_ENTRY(at, weft_group, link);
        int member = weft__group_member(group, rank);
        if (member < 0 || atomic_load(&group->state) != WEFT__READY) continue;
        if (!awaits(group, member) && !never_comes(group, member)) continue;
        found = group;
        break;
    }
    if (found) weft__group_ref(found); /* its held operations have one */
    weft__lock_drop(&ctx->groups_lock);
    return found;
}

static void exchange_peer_gone(weft_context *ctx, int rank, const char *why)
{
    weft_group *group;
    while ((group = next_without(ctx, rank)) != NULL) {
        break_by(group, WEFT_ERR_PEER, rank, why);
        weft__group_unref(group);
    }
}

/* ---- the life of a group ---- */

/* The groups of joining have their slots told while they are made, and are open before they are used. */
static void exchange_group_ready(weft_group *group)
{
    if (group->params.rounds) coll_to(&group->shm_coll, WEFT__SHM_COLL_UNMET);
}

/* Past everything: no member need wait for this one any more. */
static void exchange_group_retired(weft_group *group)
{
    if (group->shm_coll.slots)
        atomic_store_explicit(&group->shm_coll.slots[group->rank]->consumed, UINT64_MAX,
                              memory_order_release);
}

/* Has this member read all that this rank published?  One whose slots serve another group has let go of this
 * one before; one that did not come to the group may still. */
static bool has_read_all(const weft_group *group, int member)
{
    const weft__shm_coll *coll = &group->shm_coll;
    const weft__member_slots *slots;
    if (member == group->rank || weft__is_gone(&group->ctx->peers[group->world[member]])) return true;
    if (!coll->slots) return false;
    slots = coll->slots[member];
    return atomic_load_explicit(&slots->consumed, memory_order_acquire) >= coll->assigned ||
           atomic_load_explicit(&slots->use, memory_order_acquire) != coll->uses[member];
}

static bool exchange_keeps_group(const weft_group *group)
{
    if (!group->shm_coll.own_slots) return false;
    for (int i = 0; i < group->size; i++)
        if (!has_read_all(group, i)) return true;
    return false;
}

static void exchange_group_gone(weft_group *group)
{
    weft__shm_coll *coll = &group->shm_coll;
    if (coll->own_slots) weft__segment_give(group->ctx->segment, coll->own_slots);
    free((void *)coll->slots);
    free(coll->lines);
    free(coll->told);
    free(coll->locals);
    free(coll->uses);
}

const weft__protocol weft__slot_exchange_protocol = {.name = "slots",
                                                     .first = WEFT__MESSAGE_SLOTS,
                                                     .last = WEFT__MESSAGE_SLOTS,
                                                     .message = exchange_message,
                                                     .peer_gone = exchange_peer_gone,
                                                     .group_ready = exchange_group_ready,
                                                     .group_retired = exchange_group_retired,
                                                     .keeps_group = exchange_keeps_group,
                                                     .group_gone = exchange_group_gone};
