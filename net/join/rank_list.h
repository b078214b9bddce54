/* rank_list.h - ranks as a sentence names them.  Pure. */
#ifndef WEFT_NET_JOIN_RANK_LIST_H
#define WEFT_NET_JOIN_RANK_LIST_H
#include <stdbool.h>
#include <stddef.h>

#define WEFT__RANK_LIST_BYTES 400 /* room that always suffices */

/* "rank 3", "rank 2 and rank 5", "rank 1, rank 2, ... and 40 more": those of the world that are marked.
 * Returns how many they are. */
int weft__rank_list(const bool *marked, int world, char text[WEFT__RANK_LIST_BYTES]);
#endif
