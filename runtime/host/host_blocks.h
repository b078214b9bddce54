/* host_blocks.h - the data of rounds: copied into this rank's slot, and taken from the members' blocks.
 *
 * Failing: a member that tells of memory it does not share breaks the group; nothing is moved then. */
#ifndef WEFT_RUNTIME_HOST_BLOCKS_H
#define WEFT_RUNTIME_HOST_BLOCKS_H
#include "group.h"

/* What this rank publishes goes to its slot.  Returns how many bytes were written. */
size_t weft__stage(weft_request *req, const weft__round *r, unsigned char *to);
/* Takes what a round that is there has for this rank.  Returns the bytes read.  May break the group. */
size_t weft__take_copies(weft_request *req, const weft__round *r, unsigned which);
size_t weft__take_reduction(weft_request *req, const weft__round *r, unsigned which);
/* The bytes of a member's piece. */
static inline size_t weft__piece_bytes(const weft__round *r, int member)
{
    size_t before = (size_t)member * r->take_bytes;
    if (r->total_bytes == 0) return r->take_bytes;
    if (before >= r->total_bytes) return 0;
    return r->total_bytes - before < r->take_bytes ? r->total_bytes - before : r->take_bytes;
}
#endif
