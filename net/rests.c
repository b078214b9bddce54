#include "rests.h"
#include "check.h"

#include <stdlib.h>

void weft__rests_give(weft__rests *rests, void *piece)
{
    WEFT__ASSERT(piece != rests->free); /* it is given back once */
    *(void **)piece = rests->free;
    rests->free = piece;
    rests->held++;
}

static bool add_piece(weft__rests *rests)
{
    void *piece = malloc(WEFT__REST_BYTES);
    if (piece) weft__rests_give(rests, piece);
    return piece != NULL;
}

bool weft__rests_open(weft__rests *rests)
{
    *rests = (weft__rests){.free = NULL};
    return add_piece(rests);
}

static void *pop(weft__rests *rests)
{
    void *piece = rests->free;
    rests->free = *(void **)piece;
    rests->held--;
    return piece;
}

void weft__rests_close(weft__rests *rests)
{
    while (rests->free) free(pop(rests));
}

bool weft__rests_promise(weft__rests *rests)
{
    if (rests->promised == rests->held && !add_piece(rests)) return false;
    rests->promised++;
    WEFT__ASSERT(rests->promised <= rests->held, rests->promised, rests->held);
    return true;
}

void weft__rests_withdraw(weft__rests *rests)
{
    WEFT__ASSERT(rests->promised > 0);
    rests->promised--;
}

void *weft__rests_take(weft__rests *rests)
{
    weft__rests_withdraw(rests);
    WEFT__ASSERT(rests->free);
    return pop(rests);
}
