/* board.h - what each rank of a host shows the others of how far it has come in each of its groups.
 *
 * A page of the segment for each local rank, which that rank alone writes, and everybody reads without asking:
 * a rank that is stopped, or whose threads get no processor, is read like any other.  So who is late is known
 * on a host without a word, and nobody there is accused of not answering.  A group has a row from the time it
 * is ready until it is retired, and one that is broken for longer, as others may have to know whether it knows; where there is no segment, or the page is full, its row is its own. */
#ifndef WEFT_RUNTIME_BOARD_H
#define WEFT_RUNTIME_BOARD_H
#include "shm_segment.h"

typedef struct weft__row {
    _Atomic uint64_t group;     /* its id; 0: the row is free */
    _Atomic uint64_t submitted; /* last number; 0: none yet */
    _Atomic int64_t at_ns;      /* when */
    _Atomic uint32_t warned;    /* the low bits of the last number that the log was warned about */
    _Atomic uint16_t kind;      /* of the operation of the last number */
    _Atomic uint16_t broken;    /* 0: not, else the group is broken here; WEFT__ROW_STONE: and over */
} weft__row;

#define WEFT__ROW_STONE 2

/* A row of this rank for that group, which says what `from` says; NULL: there is none.  Engine held. */
weft__row *weft__board_take(const weft__segment *segment, uint64_t group, const weft__row *from);
void weft__board_give(const weft__segment *segment, weft__row *row);
/* As give, of a broken group: it is shown as that until another one needs the row. */
void weft__board_leave(weft__row *row);

/* What that local rank shows of that group.  False: it shows nothing of it, and may have it nevertheless. */
bool weft__board_read(const weft__segment *segment, int local, uint64_t group, weft__row *row);
#endif
