/* slots_memory.c - see slots_memory.h.  The linker puts these functions in the place of
 * net/shm_segment.c's. */
#include "slots_memory.h"
#include "chance.h"
#include "slots.h"
#include "wires.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS = 8 };

static weft__segment segments[WIRES_RANKS_MAX];
static weft__member_slots slots[WIRES_RANKS_MAX][ROWS];
static bool taken[WIRES_RANKS_MAX][ROWS];
static int rows_of_each;
static _Alignas(64) unsigned char boards[WIRES_RANKS_MAX][WEFT__SEGMENT_BOARD_BYTES];

uint64_t __wrap_weft__segment_take(weft__segment *segment);
void __wrap_weft__segment_give(weft__segment *segment, uint64_t offset);
void *__wrap_weft__segment_block(const weft__segment *segment, uint64_t offset);
bool __wrap_weft__segment_owns(const weft__segment *segment, int local, uint64_t offset);
void *__wrap_weft__segment_board(const weft__segment *segment, int rank);

void slots_memory_open(int ranks)
{
    memset(slots, 0, (size_t)ranks * sizeof slots[0]);
    memset(taken, 0, sizeof taken);
    memset(boards, 0, sizeof boards);
    rows_of_each = chance_one_in(4) ? 1 + chance_below(2) : ROWS;
}

bool slots_memory_scarce(void)
{
    return rows_of_each < ROWS;
}

weft__segment *slots_memory_segment(int rank, int ranks)
{
    segments[rank] = (weft__segment){.rank = rank, .size = ranks};
    return &segments[rank];
}

uint64_t __wrap_weft__segment_take(weft__segment *segment)
{
    for (int i = 0; i < rows_of_each; i++) {
        if (taken[segment->rank][i]) continue;
        taken[segment->rank][i] = true;
        return 1 + (uint64_t)segment->rank * ROWS + (uint64_t)i;
    }
    return 0;
}

void __wrap_weft__segment_give(weft__segment *segment, uint64_t offset)
{
    uint64_t index = offset - 1 - (uint64_t)segment->rank * ROWS;
    if (index >= ROWS || !taken[segment->rank][index]) abort();
    taken[segment->rank][index] = false;
}

void *__wrap_weft__segment_block(const weft__segment *segment, uint64_t offset)
{
    if (!offset || offset > (uint64_t)segment->size * ROWS) return NULL;
    return &slots[(offset - 1) / ROWS][(offset - 1) % ROWS];
}

bool __wrap_weft__segment_owns(const weft__segment *segment, int local, uint64_t offset)
{
    (void)segment;
    return offset && (offset - 1) / ROWS == (uint64_t)local;
}

void *__wrap_weft__segment_board(const weft__segment *segment, int rank)
{
    (void)segment;
    return boards[rank];
}
