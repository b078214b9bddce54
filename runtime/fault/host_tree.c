/* host_tree.c - see host_tree.h. */
#include "host_tree.h"

bool weft__host_tree_of(const weft_context *ctx, const int *world, int size, weft__seats **tree)
{
    weft__seats *hosts = weft__seats_new(size, ctx->world_size);
    *tree = NULL;
    if (!hosts) return false;
    for (int i = 0; i < size; i++) hosts->host[i] = ctx->peers[world ? world[i] : i].host_lead;
    *tree = weft__seats_deal(hosts, size);
    return true;
}

/* Without memory for it the deadline speaks, and names those that have not answered. */
static weft__seats *tree_of(const weft_context *ctx, const int *world, int size)
{
    weft__seats *tree;
    (void)weft__host_tree_of(ctx, world, size, &tree);
    return tree;
}

bool weft__host_tree_made(weft_group *group)
{
    if (!group->host_tree && group->size > 1)
        group->host_tree = tree_of(group->ctx, group->world, group->size);
    return group->host_tree != NULL;
}

bool weft__host_tree_made_of_all(weft_context *ctx)
{
    if (!ctx->host_tree && ctx->world_size > 1) ctx->host_tree = tree_of(ctx, NULL, ctx->world_size);
    return ctx->host_tree != NULL;
}

int weft__host_of(const weft__seats *tree, int member)
{
    return tree->host_at[tree->seat_of[member]];
}

int weft__host_above(const weft_context *ctx, int host)
{
    return (host - 1) / ctx->fan_out;
}

int weft__host_below(const weft_context *ctx, int host)
{
    return host * ctx->fan_out + 1;
}

bool weft__host_is_below(const weft_context *ctx, int host, int top)
{
    while (host > top) host = weft__host_above(ctx, host);
    return host == top;
}

int weft__host_toward(const weft_context *ctx, int from, int to)
{
    if (from == to) return to;
    if (!weft__host_is_below(ctx, to, from)) return weft__host_above(ctx, from);
    while (weft__host_above(ctx, to) != from) to = weft__host_above(ctx, to);
    return to;
}
