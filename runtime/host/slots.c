/* slots.c - how large slots are, and taking a member's slots.  Only weft__slots_take can fail, and says so
 * with 0. */
#include "slots.h"

#include <string.h>

#define KIB          ((size_t)1024)
#define MIB          (1024 * KIB)
#define MEMBERS_MOST 16 /* of a rank: groups that it can use at once; they have pages once it does */

/* The longer, the less ranks wait for each other: in slots of 64 KiB two take half as long again for 1 MiB as
 * in 256; twice that leaves the second-level cache before it is read.  A round takes one of every rank. */
size_t weft__slot_bytes(int ranks)
{
    size_t n = (size_t)(ranks < WEFT__SEGMENT_RANKS_MAX ? ranks : WEFT__SEGMENT_RANKS_MAX), bytes = 256 * KIB;
    while (bytes > 64 * KIB && bytes * n > MIB) bytes /= 2;
    return bytes < 64 * n ? 64 * n : bytes;
}

weft__segment_arena weft__slots_arena(int ranks)
{
    return (weft__segment_arena){MEMBERS_MOST,
                                 sizeof(weft__member_slots) + WEFT__SLOTS * weft__slot_bytes(ranks)};
}

uint64_t weft__slots_take(weft__segment *segment)
{
    uint64_t offset = weft__segment_take(segment);
    weft__member_slots *slots = offset ? weft__slots_at(segment, offset) : NULL;
    if (!slots) return 0;
    atomic_fetch_add_explicit(&slots->use, 1, memory_order_release);
    atomic_store_explicit(&slots->consumed, 0, memory_order_relaxed);
    atomic_store_explicit(&slots->withdrawn, 0, memory_order_relaxed);
    atomic_store_explicit(&slots->begun, 0, memory_order_relaxed);
    atomic_store_explicit(&slots->floor, 0, memory_order_relaxed);
    memset(slots->slot, 0, sizeof slots->slot);
    return offset;
}
