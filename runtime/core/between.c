/* between.c - see between.h. */
#include "between.h"

static bool on_one_host(const weft_context *ctx, int rank, int other)
{
    return ctx->peers[rank].first_on_host == ctx->peers[other].first_on_host;
}

int weft__between(const weft_context *ctx, int rank)
{
    const weft__peer *m = &ctx->peers[rank];
    int third = -1;
    if (!m->heard_by_another) return -1;
    if (weft__is_reached(&ctx->peers[m->heard_by])) return m->heard_by;
    for (int i = 0; i < ctx->world_size; i++) {
        if (i == rank || !weft__is_reached(&ctx->peers[i]) || ctx->peers[i].heard_by_another ||
            on_one_host(ctx, i, ctx->rank))
            continue;
        if (on_one_host(ctx, i, rank) && weft__p2p_touched(ctx->p2p, i)) return i;
        if (!on_one_host(ctx, i, rank) && third < 0) third = i;
    }
    return third;
}
