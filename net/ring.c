/* ring.c - writing and reading records. */
#include "ring.h"
#include "prefetch.h"

#include <string.h>

/* Behind the record being written: of short records a few. */
#define AHEAD_BYTES 192

weft__ring_state weft__ring_room_slow(weft__ring *ring, uint64_t end)
{
    uint64_t taken;

    taken = atomic_load_explicit(ring->taken, memory_order_seq_cst);
    if (taken < ring->known || taken > ring->position) return WEFT__RING_BROKEN;
    ring->known = taken;
    return end - taken <= ring->bytes ? WEFT__RING_READY : WEFT__RING_WAIT;
}

/* Most have none, and those that write these need no frame for it. */
WEFT__NOINLINE void weft__ring_put_payload(weft__ring *ring, const void *payload, size_t payload_bytes)
{
    size_t at = (size_t)((ring->position + WEFT__RING_HEADER) & (ring->bytes - 1)),
           before_end = ring->bytes - at;

    WEFT__ASSERT(payload_bytes <= weft__ring_piece_bytes(ring));
    if (payload_bytes <= before_end) {
        weft__nt_copy_bytes(&ring->nt_copy, ring->base + at, payload, payload_bytes);
    } else {
        weft__nt_copy_bytes(&ring->nt_copy, ring->base + at, payload, before_end);
        weft__nt_copy_bytes(&ring->nt_copy, ring->base, (const char *)payload + before_end,
                            payload_bytes - before_end);
    }
}

void weft__ring_publish(weft__ring *ring, uint64_t first, size_t payload_bytes)
{
    uint64_t next = ring->position + weft__ring_record_bytes(payload_bytes);

    /* There is room for it and for the word behind it, and it does not begin with what means "nothing
     * here". */
    WEFT__ASSERT_HOT(first && next + WEFT__RING_HEADER - ring->known <= ring->bytes, next, ring->known);
    weft__prefetch_write(ring->base + ((next + AHEAD_BYTES) & (ring->bytes - 1)));
    atomic_store_explicit(weft__ring_word(ring, next), 0, memory_order_relaxed);
    atomic_store_explicit(weft__ring_word(ring, ring->position), first, memory_order_release);
    ring->position = next;
}

void weft__ring_put(weft__ring *ring, const void *header, const void *payload, size_t payload_bytes)
{
    uint64_t first;

    if (payload_bytes) weft__ring_put_payload(ring, payload, payload_bytes);
    memcpy(&first, header, sizeof first);
    memcpy((char *)weft__ring_place(ring) + sizeof first, (const char *)header + sizeof first,
           WEFT__RING_HEADER - sizeof first);
    weft__ring_publish(ring, first, payload_bytes);
}

bool weft__ring_peek(const weft__ring *ring, void *header)
{
    const char *record = ring->base + (ring->position & (ring->bytes - 1));
    uint64_t first = atomic_load_explicit(weft__ring_word(ring, ring->position), memory_order_seq_cst);

    if (!first) return false;
    memcpy(header, &first, sizeof first);
    memcpy((char *)header + sizeof first, record + sizeof first, WEFT__RING_HEADER - sizeof first);
    return true;
}

void weft__ring_take_payload(const weft__ring *ring, void *where, size_t payload_bytes)
{
    size_t at = (size_t)((ring->position + WEFT__RING_HEADER) & (ring->bytes - 1)),
           before_end = ring->bytes - at;

    WEFT__ASSERT(payload_bytes <= weft__ring_piece_bytes(ring));
    if (payload_bytes <= before_end) {
        memcpy(where, ring->base + at, payload_bytes);
    } else {
        memcpy(where, ring->base + at, before_end);
        memcpy((char *)where + before_end, ring->base, payload_bytes - before_end);
    }
}
