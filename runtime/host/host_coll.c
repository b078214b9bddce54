/* host_coll.c - rounds of a group that will never come, because a member is gone.
 *
 * A member that has published what is needed and then ended is no failure: its slots stay mapped. */
#include "host_coll.h"
#include "group_break.h"
#include "peer.h"

bool weft__round_will_come(weft_group *group, uint64_t number, int member, uint64_t round)
{
    weft_context *ctx = group->ctx;
    int world = group->world[member];
    char text[WEFT__SENTENCE_BYTES];
    if (WEFT__LIKELY(atomic_load_explicit(&ctx->peers[world].gone, memory_order_relaxed) == WEFT__LIVES) ||
        weft__has_published(group, member, round))
        return true;
    weft__peer_fate(ctx, world, text, sizeof text);
    weft__group_break(group, &(weft__verdict){WEFT_ERR_PEER, number, world, text}, true);
    return false;
}

void weft__look_for_gone(weft_group *group, uint64_t number, uint64_t round)
{
    for (int i = 0; i < group->size; i++) {
        uint64_t past = atomic_load_explicit(&group->shm_coll.slots[i]->consumed, memory_order_acquire);
        if (past < round - WEFT__SLOTS && !weft__round_will_come(group, number, i, round)) return;
    }
}
