/* host_in_place.h - blocks that others read where they lie.
 *
 * A block that lies in a region all members have mapped (region.h) is not copied: the slot tells where it is,
 * and takers read it there.  ops/rounds.c says for which operations no take of this rank writes what another
 * may still read; and such an operation does not settle before all members are past its last such round,
 * since then the caller may write.  One that fails settles at once: it marks this rank's slots as withdrawn
 * first, and whoever finds slots of the group withdrawn after its last take has perhaps read what was written
 * since, and does not settle with WEFT_OK but waits for the break that is on its way.  Blocks that may be
 * read otherwise than the slots allow are open; where all are, fewer and larger pieces go (ops/rounds.h).
 *
 * Each rank decides for its own blocks alone, and says so in the slot: one that never publishes in place, as
 * in the plain build, reads what others publish so, and no round is open with it. */
#ifndef WEFT_RUNTIME_HOST_IN_PLACE_H
#define WEFT_RUNTIME_HOST_IN_PLACE_H
#include "host_coll.h"

/* Blocks are read in place from this size on: below, a copy costs less than waiting for readers. */
#define WEFT__IN_PLACE_BYTES (4 * 1024)

/* Which of its buffers others can read where they lie.  Where there are regions. */
void weft__look_for_regions(weft_request *req);
/* What this round publishes lies in that region: its slot tells where. */
void weft__publish_in_place(weft_request *req, const weft__round *r, uint64_t round,
                            const weft__region *region, bool open);
/* Are the blocks of all members of this round open? */
bool weft__all_open(const weft_group *group, uint64_t round);
/* Somebody has failed and settled, and its caller may have written what was read from it since. */
bool weft__some_withdrawn(const weft_group *group);
/* All rounds of the request are taken.  May it settle?  Not while others still read its blocks, and not if
 * what it has read itself may have been void. */
static inline bool weft__is_done_with(weft_request *req)
{
    weft_group *group = req->group;
    bool void_data = req->host_op->count * weft__op_element(req->host_op) >= WEFT__IN_PLACE_BYTES &&
                     weft__some_withdrawn(group);
    if (void_data) req->u.rounds.in_place = UINT64_MAX; /* until the group breaks */
    return !req->u.rounds.in_place || weft__all_are_past(group, req->u.rounds.in_place);
}
/* Ends those that all others have read by now.  Returns how many. */
size_t weft__end_read(weft_group *group);
/* It fails: what others may be reading is to be written from now on. */
void weft__withdraw(const weft_request *req);
#endif
