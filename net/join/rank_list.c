/* rank_list.c - see rank_list.h. */
#include "rank_list.h"

#include <stdio.h>

#define NAMED 16 /* listed by number: 16 times ", rank 1048575", and " and 1048576 more", fit the room */

int weft__rank_list(const bool *marked, int world, char text[WEFT__RANK_LIST_BYTES])
{
    int total = 0, listed = 0;
    size_t used = 0;
    text[0] = '\0';
    for (int r = 0; r < world; r++) total += marked[r];
    for (int r = 0; r < world && listed < NAMED; r++) {
        const char *between = listed == 0 ? "" : listed == total - 1 ? " and " : ", ";
        if (!marked[r]) continue;
        used += (size_t)snprintf(text + used, WEFT__RANK_LIST_BYTES - used, "%srank %d", between, r);
        listed++;
    }
    if (listed < total) snprintf(text + used, WEFT__RANK_LIST_BYTES - used, " and %d more", total - listed);
    return total;
}
