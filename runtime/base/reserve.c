/* reserve.c - blocks in a row, a bit for each that is taken; a piece knows how many it has. */
#include "reserve.h"
#include "lock.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES 4096
#define BLOCKS      64

typedef struct piece {
    _Alignas(16) size_t blocks;
    _Alignas(16) char memory[];
} piece;

static _Alignas(64) char room[BLOCKS][BLOCK_BYTES]; /* no pages until it is used */
static uint64_t taken;                              /* under lock */
static weft__lock lock;

static void *take_blocks(size_t bytes)
{
    size_t n = (sizeof(piece) + bytes + BLOCK_BYTES - 1) / BLOCK_BYTES;
    uint64_t row = n < BLOCKS ? (UINT64_C(1) << n) - 1 : UINT64_MAX;
    piece *p = NULL;
    if (bytes > sizeof room || n > BLOCKS) return NULL;
    weft__lock_take(&lock);
    for (size_t at = 0; at + n <= BLOCKS && !p; at++) {
        if (taken & row << at) continue;
        taken |= row << at;
        p = (piece *)(void *)room[at];
        p->blocks = n;
    }
    weft__lock_drop(&lock);
    return p ? p->memory : NULL;
}

void *weft__reserve_get(size_t bytes)
{
    void *memory = malloc(bytes);
    return memory ? memory : take_blocks(bytes);
}

void *weft__reserve_zeroed(size_t bytes)
{
    void *memory = calloc(1, bytes);
    if (memory) return memory;
    memory = take_blocks(bytes);
    if (memory) memset(memory, 0, bytes);
    return memory;
}

void weft__reserve_give(void *memory)
{
    uintptr_t offset = (uintptr_t)memory - (uintptr_t)room;
    const piece *p;
    if (offset >= sizeof room) {
        free(memory);
        return;
    }
    offset /= BLOCK_BYTES;
    p = (const piece *)(void *)room[offset];
    weft__lock_take(&lock);
    taken &= ~((p->blocks < BLOCKS ? (UINT64_C(1) << p->blocks) - 1 : UINT64_MAX) << offset);
    weft__lock_drop(&lock);
}
