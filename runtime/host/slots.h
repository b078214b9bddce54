/* slots.h - where collectives in shared memory are published: each member's slots, in the segment's blocks.
 *
 * A rank has slots for each group that uses rounds; other members find it by the offset that its owner tells
 * (slot_exchange.h).  Round k of a group is published in slot k % WEFT__SLOTS of each member's slots
 * (host_rounds.c). */
#ifndef WEFT_RUNTIME_SLOTS_H
#define WEFT_RUNTIME_SLOTS_H
#include "group.h"
#include "shm_segment.h"

/* One published piece.  Written before `sequence` is stored.  That holds the round's number, from 1, and
 * below it how many rounds its writer had not read by then, this one included. */
#define WEFT__UNREAD_BITS 3
typedef struct weft__slot {
    _Alignas(WEFT__LINE) _Atomic uint64_t sequence;
    uint64_t signature[2];
    uint32_t bytes;  /* of payload; or where that lies: WEFT__SLOT_IN_PLACE, WEFT__SLOT_OPEN */
    uint32_t number; /* of the collective whose first round this is, its low bits */
    union {
        unsigned char small[WEFT__LINE - 32]; /* payload that fits here lies here, else in the slot's area */
        struct weft__slot_place {             /* IN_PLACE: it lies in a region of the rank */
            uint32_t region, generation;
            uint64_t offset, stride, part_bytes; /* of its first part; between parts; one part has no end */
        } place;
    } u;
} weft__slot;
#define WEFT__SLOT_IN_PLACE UINT32_MAX
#define WEFT__SLOT_OPEN     (UINT32_MAX - 1)

/* One rank's slots of one group; group.h has its name alone. */
struct weft__member_slots {
    _Alignas(
        WEFT__LINE) _Atomic uint64_t consumed; /* every round up to this one has been read by this rank */
    _Atomic uint64_t use;       /* how often it has been taken: a group's slots are not its slots any more */
    _Atomic uint32_t withdrawn; /* 1: what this rank announced in place may be written by now */
    /* For the places of its group's operations on devices (device/order.c), which all members read as they begin one: apart from
     * what changes with each round. */
    _Alignas(WEFT__LINE) _Atomic uint64_t
        begun;              /* number of the last whose place this rank proposes in its agreement */
    _Atomic uint64_t floor; /* who begins one later proposes no less */
    weft__slot slot[WEFT__SLOTS];
    /* WEFT__SLOTS areas of ctx->slot_bytes follow */
};

/* What a slot's area holds where so many ranks share a segment; and what that takes of the segment. */
size_t weft__slot_bytes(int ranks);
weft__segment_arena weft__slots_arena(int ranks);

/* Slots in this rank's arena, their header zeroed (not its areas).  0: none is left.  Engine held. */
uint64_t weft__slots_take(weft__segment *segment);
/* Any rank's slots, from the offset it told; NULL if none can be there. */
static inline weft__member_slots *weft__slots_at(const weft__segment *segment, uint64_t offset)
{
    return weft__segment_block(segment, offset);
}
static inline unsigned char *weft__slot_area(weft__member_slots *slots, unsigned slot, size_t slot_bytes)
{
    return (unsigned char *)(slots + 1) + (size_t)slot * slot_bytes;
}
#endif
