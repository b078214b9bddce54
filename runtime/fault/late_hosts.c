/* late_hosts.c - see late_hosts.h. */
#include "late_hosts.h"

bool weft__late_has_hosts(weft_group *group)
{
    const weft_context *ctx = group->ctx;
    weft__seats *hosts = group->late.hosts;
    if (hosts || group->size == 1) return hosts != NULL;
    hosts = weft__seats_new(group->size, ctx->world_size);
    if (!hosts) return false; /* the deadline speaks, and names those that have not answered */
    for (int i = 0; i < group->size; i++) hosts->host[i] = ctx->peers[group->world[i]].host_lead;
    group->late.hosts = weft__seats_deal(hosts, group->size);
    return group->late.hosts != NULL;
}

int weft__late_host(const weft_group *group, int member)
{
    const weft__seats *hosts = group->late.hosts;
    return hosts->host_at[hosts->seat_of[member]];
}

int weft__late_parent(const weft_group *group, int host)
{
    return (host - 1) / group->ctx->late_fan_out;
}

int weft__late_first_child(const weft_group *group, int host)
{
    return host * group->ctx->late_fan_out + 1;
}

bool weft__late_is_below(const weft_group *group, int host, int top)
{
    while (host > top) host = weft__late_parent(group, host);
    return host == top;
}
