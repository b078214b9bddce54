/* heard_hosts.c - see heard_hosts.h. */
#include "heard_hosts.h"
#include "p2p.h"

static const weft__hearing *hearing_of(const weft_context *ctx, int rank)
{
    return weft__p2p_transport(ctx->p2p, rank)->hearing;
}

/* The rank itself: it is the first of its host. */
static int first_beside(const weft_context *ctx, int rank)
{
    weft__transport *t = weft__p2p_transport(ctx->p2p, rank);
    for (int r = ctx->peers[rank].first_on_host; r < rank; r++)
        if (ctx->peers[r].first_on_host == ctx->peers[rank].first_on_host &&
            t->hearing->is_beside(t, rank, r))
            return r;
    return rank;
}

static bool is_elsewhere(const weft_context *ctx, int rank)
{
    return rank != ctx->rank && ctx->peers[rank].first_on_host != ctx->peers[ctx->rank].first_on_host &&
           hearing_of(ctx, rank);
}

int weft__heard_hosts(const weft_context *ctx, int *host_of)
{
    int count = 0;
    for (int r = 0; r < ctx->world_size; r++) {
        int first = is_elsewhere(ctx, r) ? first_beside(ctx, r) : -1;
        host_of[r] = first < 0 ? -1 : first < r ? host_of[first] : count++;
    }
    return count;
}
