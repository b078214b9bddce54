/* join_place.c - see join_place.h. */
#include "join_place.h"

#include "host_tree.h"
#include "rank_set.h"

static int first_of(const weft__seats *tree, const int *ranks, int host)
{
    return ranks[tree->rank_at[tree->first[host]]];
}

static weft__join_place place_in(const weft_context *ctx, const weft__seats *tree, const int *ranks,
                                 unsigned char *below)
{
    weft__join_place place;
    int own, i = 0;
    while (ranks[i] != ctx->rank) i++;
    own = weft__host_of(tree, i);
    if (first_of(tree, ranks, own) == ctx->rank) {
        for (i = 0; i < tree->size; i++)
            if (weft__host_is_below(ctx, weft__host_of(tree, i), own)) weft__set_add(below, ranks[i]);
        place = (weft__join_place){first_of(tree, ranks, weft__host_above(ctx, own)), 0};
    } else {
        weft__set_add(below, ctx->rank);
        place = (weft__join_place){first_of(tree, ranks, own), 1};
    }
    for (int host = own; host > 0; host = weft__host_above(ctx, host)) place.steps++;
    return place;
}

bool weft__join_place_of(const weft_context *ctx, const int *ranks, int n, weft__join_place *place,
                         unsigned char *below)
{
    weft__seats *tree = NULL;
    if (!weft__host_tree_of(ctx, ranks, n, &tree) || !tree) return false;
    *place = place_in(ctx, tree, ranks, below);
    weft__seats_free(tree);
    return true;
}
