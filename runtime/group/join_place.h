/* join_place.h - where a rank stands in the tree of hosts (fault/host_tree.h) by which the lead of a group hears who has come to
 * it (gathering.h, shrink_joins.h). */
#ifndef WEFT_GROUP_JOIN_PLACE_H
#define WEFT_GROUP_JOIN_PLACE_H
#include "context.h"

typedef struct weft__join_place {
    int above; /* to whom it names those that have come: the lowest rank of its host, that of the host above */
    int steps; /* from it to the lead */
} weft__join_place;

/* This rank's among those, in ascending order, the lead first; who comes by it, itself among them, goes into `below`.  False: no
 * memory, or all are on one host. */
bool weft__join_place_of(const weft_context *ctx, const int *ranks, int n, weft__join_place *place,
                         unsigned char *below);
#endif
