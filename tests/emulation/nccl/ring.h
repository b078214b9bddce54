/* ring.h - bytes from one rank to another through shared memory, and the bell that tells a rank of them.
 *
 * One writer, one reader, no locks.  Who waits looks a few times, then sleeps on its bell. */
#ifndef EMULATION_NCCL_RING_H
#define EMULATION_NCCL_RING_H
#include <stddef.h>
#include <stdint.h>

typedef struct ring {
    _Alignas(64) _Atomic uint64_t written;
    _Alignas(64) _Atomic uint64_t read;
    uint32_t bytes; /* how much data it holds */
    _Alignas(64) char data[];
} ring;

size_t ring_write(ring *r, const void *from, size_t bytes); /* as many as there is room for */
size_t ring_read(ring *r, void *to, size_t bytes);          /* as many as there are */
size_t ring_filled(ring *r);                                /* to be read */
size_t ring_room(ring *r);

typedef struct bell {
    _Atomic uint32_t strokes;
    _Atomic uint32_t sleepers;
} bell;

void bell_strike(bell *b);
uint32_t bell_strokes(bell *b);
/* Until a stroke beyond those seen before, at most so long. */
void bell_wait(bell *b, uint32_t seen, int ms);
#endif
