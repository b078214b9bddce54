/* host_tree.c - see host_tree.h. */
#include "host_tree.h"

bool weft__host_tree_made(weft_group *group)
{
    const weft_context *ctx = group->ctx;
    weft__seats *hosts = group->host_tree;
    if (hosts || group->size == 1) return hosts != NULL;
    hosts = weft__seats_new(group->size, ctx->world_size);
    if (!hosts) return false; /* the deadline speaks, and names those that have not answered */
    for (int i = 0; i < group->size; i++) hosts->host[i] = ctx->peers[group->world[i]].host_lead;
    group->host_tree = weft__seats_deal(hosts, group->size);
    return group->host_tree != NULL;
}

int weft__host_of(const weft_group *group, int member)
{
    const weft__seats *hosts = group->host_tree;
    return hosts->host_at[hosts->seat_of[member]];
}

int weft__host_above(const weft_group *group, int host)
{
    return (host - 1) / group->ctx->fan_out;
}

int weft__host_below(const weft_group *group, int host)
{
    return host * group->ctx->fan_out + 1;
}

bool weft__host_is_below(const weft_group *group, int host, int top)
{
    while (host > top) host = weft__host_above(group, host);
    return host == top;
}

int weft__host_toward(const weft_group *group, int from, int to)
{
    if (from == to) return to;
    if (!weft__host_is_below(group, to, from)) return weft__host_above(group, from);
    while (weft__host_above(group, to) != from) to = weft__host_above(group, to);
    return to;
}
