/* ring.h - one writer, one reader, records of 64 bytes of header and a payload, in memory both have mapped.
 *
 * Positions count bytes and only grow.  A record begins at a multiple of 64; its first 8 bytes are stored
 * last and are never 0, while the writer has made the first 8 bytes behind it 0 before: that is how the
 * reader knows what is there.  A payload may run over the end of the ring and go on at its start.  The reader
 * tells through `taken`, on a line of its own, how far it is.
 *
 * The other end is not trusted: what it wrote can make records wrong, but nothing here reads or writes
 * outside of the ring, and an impossible `taken` is told as WEFT__RING_BROKEN. */
#ifndef WEFT_NET_RING_H
#define WEFT_NET_RING_H
#include "check.h"
#include "nt_copy.h"
#include "prefetch.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define WEFT__RING_HEADER 64

typedef enum weft__ring_state { WEFT__RING_READY, WEFT__RING_WAIT, WEFT__RING_BROKEN } weft__ring_state;

/* One end of a ring; private to the process that writes or reads. */
typedef struct weft__ring {
    char *base;
    size_t bytes;            /* a power of two, at least 4096; 0: not there as yet (weft__ring_init_silent) */
    _Atomic uint64_t *taken; /* shared; the reader's word */
    uint64_t position;       /* of the next record */
    uint64_t known;          /* *taken, as the writer last saw or the reader last stored it */
    weft__nt_copy nt_copy;   /* writer: of payloads */
} weft__ring;

static inline void weft__ring_init(weft__ring *ring, char *base, size_t bytes, _Atomic uint64_t *taken)
{
    *ring = (weft__ring){.base = base, .bytes = bytes, .taken = taken};
}

/* One that is not there as yet: nothing is in it, and there is no room. */
static inline void weft__ring_init_silent(weft__ring *ring)
{
    static _Atomic uint64_t nothing; /* which nobody writes */
    weft__ring_init(ring, (char *)(uintptr_t)&nothing, 0, &nothing);
}

/* Longest payload of one record: small enough that a ring is written and read at the same time. */
static inline size_t weft__ring_piece_of(size_t ring_bytes)
{
    return ring_bytes / 4;
}
static inline size_t weft__ring_piece_bytes(const weft__ring *ring)
{
    return weft__ring_piece_of(ring->bytes);
}

static inline size_t weft__ring_record_bytes(size_t payload_bytes)
{
    return WEFT__RING_HEADER + ((payload_bytes + 63) & ~(size_t)63);
}

static inline _Atomic uint64_t *weft__ring_word(const weft__ring *ring, uint64_t position)
{
    return (_Atomic uint64_t *)(void *)(ring->base + (position & (ring->bytes - 1)));
}

/* Writer: is there room for a record with this payload?  Its load of `taken` is sequentially consistent. */
weft__ring_state weft__ring_room_slow(weft__ring *ring, uint64_t end);
static inline weft__ring_state weft__ring_room(weft__ring *ring, size_t payload_bytes)
{
    /* 64 more: the word behind the record must be free to be made 0. */
    uint64_t end = ring->position + weft__ring_record_bytes(payload_bytes) + WEFT__RING_HEADER;
    return WEFT__LIKELY(end - ring->known <= ring->bytes) ? WEFT__RING_READY
                                                          : weft__ring_room_slow(ring, end);
}
/* Writer, after READY, in this order: the payload, if there is one, the header but for its first 8 bytes, in
 * its place, and these, which publish it and must not all be 0.  Whether the reader sleeps is to be checked
 * behind a fence of the caller's (weft__bell_ring). */
void weft__ring_put_payload(weft__ring *ring, const void *payload, size_t payload_bytes);
static inline void *weft__ring_place(const weft__ring *ring)
{
    return ring->base + (ring->position & (ring->bytes - 1));
}
void weft__ring_publish(weft__ring *ring, uint64_t first, size_t payload_bytes);
/* All of it, from a header elsewhere. */
void weft__ring_put(weft__ring *ring, const void *header, const void *payload, size_t payload_bytes);

/* Reader: is there a record? */
static inline bool weft__ring_ready(const weft__ring *ring)
{
    return atomic_load_explicit(weft__ring_word(ring, ring->position), memory_order_seq_cst) != 0;
}

/* Reader: what comes a little after the record that is there will be wanted soon, where
 * the writer is ahead. */
static inline void weft__ring_read_ahead(const weft__ring *ring)
{
    weft__prefetch_read(weft__ring_word(ring, ring->position + 2 * WEFT__RING_HEADER));
}

/* Reader: copies the header of the record that is there: false if there is none. */
bool weft__ring_peek(const weft__ring *ring, void *header);
/* Reader: copies the payload (to nowhere if where is NULL) and goes on to the next record.  Its length is the
 * caller's conclusion from the header, at most weft__ring_piece_bytes. */
void weft__ring_take_payload(const weft__ring *ring, void *where, size_t payload_bytes);
static inline void weft__ring_take(weft__ring *ring, void *where, size_t payload_bytes)
{
    if (where && payload_bytes) weft__ring_take_payload(ring, where, payload_bytes);
    ring->position += weft__ring_record_bytes(payload_bytes);
}

/* Reader: what has been taken without telling. */
static inline size_t weft__ring_untold(const weft__ring *ring)
{
    return (size_t)(ring->position - ring->known);
}

/* Reader: gives the room back; then the writer may have to be woken. */
static inline void weft__ring_tell(weft__ring *ring)
{
    ring->known = ring->position;
    atomic_store_explicit(ring->taken, ring->position, memory_order_release);
}
#endif
