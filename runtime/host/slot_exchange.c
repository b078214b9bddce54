/* slot_exchange.c - the slots of groups that share memory and meet only when they are used.
 *
 * Each member tells each other one where its slots are, at its first collective on the group; what is told
 * before this rank has come so far waits (early.h).  No member waits for another to be asked, there
 * is no lead and no verdict: operations are held under their own deadlines, so a member that does not come is
 * named as late by the usual way, and the group breaks as any other does. A member without slots left tells
 * 0, and all then use messages: every member sees every word, so all decide alike.
 *
 * Failing: a member that is gone breaks the group; slots that were told are not used again before all members
 * are done with it or gone. */
#include "slot_exchange.h"
#include "engine.h"
#include "executor.h"
#include "group_break.h"
#include "log.h"
#include "peer.h"
#include "protocol.h"
#include "reserve.h"
#include "slots.h"
#include "submit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct slots_word {
    uint64_t group, slots;
} slots_word;

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

static void look_whether_all_told(weft_group *group)
{
    weft__shm_coll *coll = &group->shm_coll;
    uint64_t *slots = coll->told;
    bool some_without = false;
    weft_status status;
    if (coll->missing > 0) return;
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

static void note_slots(weft_group *group, int peer, uint64_t slots)
{
    weft__shm_coll *coll = &group->shm_coll;
    int member = weft__group_member(group, peer);
    if (member < 0 || coll->heard[member]) return;
    WEFT__ASSERT(coll->missing > 0 && coll->state == WEFT__SHM_COLL_EXCHANGING, coll->missing, coll->state);
    coll->heard[member] = true;
    coll->told[member] = slots;
    coll->missing--;
}

static bool exchange_take_early(void *group, int peer, const void *bytes)
{
    slots_word told;
    memcpy(&told, bytes, sizeof told);
    note_slots(group, peer, told.slots);
    return true;
}

/* This rank's first collective on the group: tells where its slots are. */
static void exchange_meet(weft_group *group)
{
    weft_context *ctx = group->ctx;
    weft__shm_coll *coll = &group->shm_coll;
    slots_word mine = {group->id, 0};
    coll->told = calloc((size_t)group->size, sizeof *coll->told + sizeof *coll->heard);
    if (!coll->told) {
        weft__fail_memory((size_t)group->size * sizeof *coll->told, "a group's slots");
        break_here(group, WEFT_ERR_MEMORY);
        return;
    }
    coll->heard = (bool *)(coll->told + group->size);
    coll_to(coll, WEFT__SHM_COLL_EXCHANGING);
    coll->missing = group->size;
    coll->own_slots = mine.slots = weft__slots_claim(ctx);
    note_slots(group, ctx->rank, mine.slots);
    weft__early_offer(ctx, group->id, WEFT__MESSAGE_SLOTS, exchange_take_early, group);
    for (int i = 0; i < group->size; i++) {
        int to = group->world[i];
        char text[WEFT__SENTENCE_BYTES];
        if (i == group->rank) continue;
        if (atomic_load(&ctx->peers[to].gone) != WEFT__LIVES) {
            weft__peer_fate(ctx, to, text, sizeof text);
            break_by(group, WEFT_ERR_PEER, to, text);
            return;
        }
        if (weft__p2p_control(ctx->p2p, to, WEFT__MESSAGE_SLOTS, &mine, sizeof mine) == WEFT_OK) continue;
        break_here(group, WEFT_ERR_MEMORY);
        return;
    }
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
    if (coll->state == WEFT__SHM_COLL_EXCHANGING) look_whether_all_told(group);
    weft__group_unref(group);
}

static void exchange_message(weft_context *ctx, int peer, int type, const void *bytes, size_t length)
{
    slots_word told;
    weft_group *group;
    (void)type;
    if (length != sizeof told) {
        weft__peer_refused(ctx, peer, "where its slots are takes another number of bytes");
        return;
    }
    memcpy(&told, bytes, sizeof told);
    group = weft__group_find(ctx, told.group);
    if (group && group->shm_coll.state == WEFT__SHM_COLL_EXCHANGING) {
        note_slots(group, peer, told.slots);
        look_whether_all_told(group);
    }
    if (group && group->shm_coll.state != WEFT__SHM_COLL_UNMET) {
        weft__group_unref(group);
        return;
    }
    if (group) weft__group_unref(group);
    weft__early_keep(ctx, told.group, WEFT__MESSAGE_SLOTS, peer, &told, sizeof told);
}

static weft_group *next_without(weft_context *ctx, int rank)
{
    weft_group *found = NULL;
    weft__lock_take(&ctx->groups_lock);
    WEFT__LIST_EACH(&ctx->groups, at)
    {
        weft_group *group = WEFT__LIST_ENTRY(at, weft_group, link);
        int member = weft__group_member(group, rank);
        if (member < 0 || group->shm_coll.state != WEFT__SHM_COLL_EXCHANGING ||
            group->shm_coll.heard[member] || atomic_load(&group->state) != WEFT__READY)
            continue;
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
