/* rows_memory.c - see rows_memory.h.  The linker puts these functions in the place of net/board.c's. */
#include "rows_memory.h"
#include "chance.h"
#include "slots.h"
#include "wires.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS = 8 };

static weft__board boards[WIRES_RANKS_MAX];
static weft__row rows[WIRES_RANKS_MAX][ROWS];
static bool taken[WIRES_RANKS_MAX][ROWS];
static int rows_of_each;

uint64_t __wrap_weft__board_take(weft__board *board);
void __wrap_weft__board_give(weft__board *board, uint64_t offset);
void *__wrap_weft__board_block(const weft__board *board, uint64_t offset);
bool __wrap_weft__board_owns(const weft__board *board, int local, uint64_t offset);

void rows_memory_open(int ranks)
{
    memset(rows, 0, (size_t)ranks * sizeof rows[0]);
    memset(taken, 0, sizeof taken);
    rows_of_each = chance_one_in(4) ? 1 + chance_below(2) : ROWS;
}

bool rows_memory_scarce(void)
{
    return rows_of_each < ROWS;
}

weft__board *rows_memory_board(int rank, int ranks)
{
    boards[rank] = (weft__board){.rank = rank, .size = ranks};
    return &boards[rank];
}

uint64_t __wrap_weft__board_take(weft__board *board)
{
    for (int i = 0; i < rows_of_each; i++) {
        if (taken[board->rank][i]) continue;
        taken[board->rank][i] = true;
        return 1 + (uint64_t)board->rank * ROWS + (uint64_t)i;
    }
    return 0;
}

void __wrap_weft__board_give(weft__board *board, uint64_t offset)
{
    uint64_t index = offset - 1 - (uint64_t)board->rank * ROWS;
    if (index >= ROWS || !taken[board->rank][index]) abort();
    taken[board->rank][index] = false;
}

void *__wrap_weft__board_block(const weft__board *board, uint64_t offset)
{
    if (!offset || offset > (uint64_t)board->size * ROWS) return NULL;
    return &rows[(offset - 1) / ROWS][(offset - 1) % ROWS];
}

bool __wrap_weft__board_owns(const weft__board *board, int local, uint64_t offset)
{
    (void)board;
    return offset && (offset - 1) / ROWS == (uint64_t)local;
}
