/* spread_tree.c - see spread_tree.h. */
#include "spread_tree.h"

#include "host_tree.h"
#include "rank_set.h"
#include "spreading.h"

static int list_ranks(const weft_context *ctx, const unsigned char *set, int origin, int *ranks)
{
    int n = 0;
    ranks[n++] = origin;
    for (int rank = weft__set_next(set, 0, ctx->world_size); rank >= 0;
         rank = weft__set_next(set, rank + 1, ctx->world_size))
        if (rank != origin) ranks[n++] = rank;
    return n;
}

bool weft__spread_tree(const weft_context *ctx, const unsigned char *set, int origin, int *ranks,
                       weft__seats **tree)
{
    return weft__host_tree_of(ctx, ranks, list_ranks(ctx, set, origin, ranks), tree);
}

int weft__spread_levels_below(const weft_context *ctx, const weft__seats *tree, int host)
{
    int levels = 0;
    while ((host = weft__host_below(ctx, host)) < tree->hosts) levels++;
    return levels;
}

static bool are_on_one_host(const weft_context *ctx, const int *ranks, int n)
{
    int i = 1;
    while (i < n && ctx->peers[ranks[i]].host_lead == ctx->peers[ranks[0]].host_lead) i++;
    return i >= n;
}

bool weft__spread_goes_by_others(const weft_context *ctx, const int *ranks, int n)
{
    weft__seats *tree = NULL;
    bool many;
    if (n <= ctx->told_at_once || are_on_one_host(ctx, ranks, n)) return false;
    many = !weft__host_tree_of(ctx, ranks, n, &tree) || (tree && tree->hosts > ctx->told_at_once);
    weft__seats_free(tree);
    return many;
}
