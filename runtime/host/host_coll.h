/* host_coll.h - what the members of a group have published and read of its rounds, as their slots tell it.
 *
 * Round k uses slot k % WEFT__SLOTS of each member's slots.  Whatever a member says it says in its own slots,
 * so reading here costs no message; all of this is for the holder of the engine. */
#ifndef WEFT_RUNTIME_HOST_COLL_H
#define WEFT_RUNTIME_HOST_COLL_H
#include "executor.h"
#include "group.h"
#include "mismatch.h"
#include "slots.h"

/* host_coll.c */
/* A round that has not come from a member: will it ever?  Breaks the group if not. */
bool weft__round_will_come(weft_group *group, uint64_t number, int member, uint64_t round);
/* Not all members are past the round whose slot is needed: one that is gone without this one never will be.
 * May break the group. */
void weft__look_for_gone(weft_group *group, uint64_t number, uint64_t round);

/* Have all members read this round, and so all before it? */
static inline bool weft__all_are_past(weft_group *group, uint64_t round)
{
    weft__shm_coll *coll = &group->shm_coll;
    uint64_t least = UINT64_MAX;
    if (coll->consumed >= round) return true;
    for (int i = 0; i < group->size; i++) {
        uint64_t at = atomic_load_explicit(&coll->slots[i]->consumed, memory_order_acquire);
        if (at < least) least = at;
    }
    coll->consumed = least;
    return least >= round;
}

static inline uint64_t weft__sequence_at(const weft_group *group, int member, uint64_t round)
{
    const weft__slot *slot = &group->shm_coll.slots[member]->slot[round % WEFT__SLOTS];
    return atomic_load_explicit(&slot->sequence, memory_order_acquire);
}

static inline bool weft__has_published(const weft_group *group, int member, uint64_t round)
{
    return weft__sequence_at(group, member, round) >> WEFT__UNREAD_BITS >= round;
}

/* All members' blocks of a round are there: how far they had read by then is in the same lines.  So members
 * who wait for each other need not read `consumed` too. */
static inline void weft__learn_consumed(weft_group *group, uint64_t round)
{
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < group->size; i++) {
        uint64_t sequence = weft__sequence_at(group, i, round);
        uint64_t read = (sequence >> WEFT__UNREAD_BITS) - (sequence & ((1U << WEFT__UNREAD_BITS) - 1));
        if (read < least) least = read;
    }
    if (least > group->shm_coll.consumed) group->shm_coll.consumed = least;
}

static inline bool weft__shm_coll_is_broken(const weft_group *group)
{
    return atomic_load_explicit(&group->state, memory_order_relaxed) == WEFT__BROKEN;
}

/* Is it there?  May break the group. */
static inline bool weft__round_await(weft_group *group, uint64_t number, int member, uint64_t round)
{
    if (weft__has_published(group, member, round)) return true;
    weft__round_will_come(group, number, member, round);
    return false;
}

static inline weft__signature weft__signature_at(const weft_group *group, int member, uint64_t round)
{
    const weft__slot *slot = &group->shm_coll.slots[member]->slot[round % WEFT__SLOTS];
    return (weft__signature){{slot->signature[0], slot->signature[1]}};
}

static inline uint32_t weft__number_at(const weft_group *group, int member, uint64_t round)
{
    return group->shm_coll.slots[member]->slot[round % WEFT__SLOTS].number;
}

/* Asked in an operation's first round: does a member mean the same by it?  Breaks the group if not.  Where a
 * member's rounds belong to another number, somebody did by messages what others did in rounds: whom those
 * reach tells (and breaks). */
static inline bool weft__member_agrees(weft_group *group, uint64_t number, weft__signature mine, int member,
                                       uint64_t round)
{
    weft__signature theirs = weft__signature_at(group, member, round);
    if (WEFT__UNLIKELY(weft__number_at(group, member, round) != (uint32_t)number)) return false;
    if (WEFT__LIKELY(weft__same_signature(mine, theirs))) return true;
    weft__group_mismatch(group, number, mine, member, theirs);
    return false;
}

static inline bool weft__members_agree(weft_group *group, uint64_t number, weft__signature mine,
                                       uint64_t round)
{
    bool all = true;
    for (int i = 0; i < group->size; i++) all = weft__member_agrees(group, number, mine, i, round) && all;
    return all;
}

/* It is read, and known to mean the same to all. */
static inline void weft__round_pass(weft_group *group, uint64_t round)
{
    WEFT__ASSERT_HOT(round == group->shm_coll.agreed + 1 && round <= group->shm_coll.taken, round,
                     group->shm_coll.agreed, group->shm_coll.taken);
    group->shm_coll.agreed = round;
    atomic_store_explicit(&group->shm_coll.slots[group->rank]->consumed, round, memory_order_release);
}

/* Nothing of it is left to do in these slots. */
static inline void weft__rounds_end(weft_request *req)
{
    WEFT__ASSERT_HOT(req->u.rounds.taken == req->u.rounds.plan.count &&
                         req->u.rounds.taken == req->u.rounds.published,
                     req->u.rounds.taken, req->u.rounds.published, req->u.rounds.plan.count);
    weft__list_remove(&req->u.rounds.shm_coll);
    if (req->continuation)
        req->continuation->finish(req);
    else
        weft__request_settle(req, WEFT_OK, NULL);
}
#endif
