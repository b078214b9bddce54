/* board.c - see board.h.  Rows are looked for from the place that a group's id gives them on, so that mostly
 * the first is the right one. */
#include "board.h"

#include <string.h>

enum { ROWS = WEFT__SEGMENT_BOARD_BYTES / sizeof(weft__row) - 1 };

typedef struct board {
    _Alignas(sizeof(weft__row)) _Atomic uint32_t full; /* groups found no row: who has none may exist */
    weft__row rows[ROWS];
} board;

_Static_assert(sizeof(board) <= WEFT__SEGMENT_BOARD_BYTES, "a board is what the segment has room for");

static board *board_of(const weft__segment *segment, int local)
{
    return segment ? weft__segment_board(segment, local) : NULL;
}

static unsigned place_of(uint64_t group)
{
    return (unsigned)((group ^ group >> 40) % ROWS);
}

static weft__row *find(board *b, uint64_t group, uint64_t shows)
{
    for (unsigned i = 0; i < ROWS; i++) {
        weft__row *row = &b->rows[(place_of(group) + i) % ROWS];
        if (atomic_load_explicit(&row->group, memory_order_acquire) == shows) return row;
    }
    return NULL;
}

static void row_copy(weft__row *to, const weft__row *from)
{
    atomic_store_explicit(&to->submitted, atomic_load(&from->submitted), memory_order_relaxed);
    atomic_store_explicit(&to->at_ns, atomic_load(&from->at_ns), memory_order_relaxed);
    atomic_store_explicit(&to->warned, atomic_load(&from->warned), memory_order_relaxed);
    atomic_store_explicit(&to->kind, atomic_load(&from->kind), memory_order_relaxed);
    atomic_store_explicit(&to->broken, atomic_load(&from->broken), memory_order_relaxed);
}

/* The row of a group that is over: nobody loses anything but the knowledge that it was broken. */
static weft__row *stone_of(board *b)
{
    for (unsigned i = 0; i < ROWS; i++)
        if (atomic_load_explicit(&b->rows[i].broken, memory_order_relaxed) == WEFT__ROW_STONE)
            return &b->rows[i];
    return NULL;
}

weft__row *weft__board_take(const weft__segment *segment, uint64_t group, const weft__row *from)
{
    board *b = segment ? board_of(segment, segment->rank) : NULL;
    weft__row *row = b ? find(b, group, 0) : NULL;
    if (b && !row && (row = stone_of(b))) atomic_store(&row->group, 0);
    if (b && !row) atomic_store(&b->full, 1);
    if (!row) return NULL;
    row_copy(row, from);
    atomic_store_explicit(&row->group, group, memory_order_release);
    return row;
}

void weft__board_give(const weft__segment *segment, weft__row *row)
{
    const board *b = board_of(segment, segment->rank);
    WEFT__ASSERT(row >= b->rows && row < b->rows + ROWS && atomic_load(&row->group));
    atomic_store(&row->group, 0);
}

void weft__board_leave(weft__row *row)
{
    WEFT__ASSERT(atomic_load(&row->group) && atomic_load(&row->broken));
    atomic_store(&row->broken, WEFT__ROW_STONE);
}

bool weft__board_read(const weft__segment *segment, int local, uint64_t group, weft__row *row)
{
    board *b = board_of(segment, local);
    const weft__row *shown;
    if (!b) return false;
    memset(row, 0, sizeof *row);
    shown = find(b, group, group);
    if (!shown) return !atomic_load(&b->full);
    row_copy(row, shown);
    /* Else it was given up, and perhaps taken for another group, in between: that one is over here. */
    if (atomic_load(&shown->group) != group) memset(row, 0, sizeof *row);
    return true;
}
