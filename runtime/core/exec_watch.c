/* exec_watch.c - see exec_watch.h. */
#include "exec_watch.h"
#include "engine.h"
#include "peer.h"

#define ASK_MOST 4 /* ranks in a turn: each is some system calls */

static void ask_for(weft_context *ctx, int rank)
{
    weft__peer *m = &ctx->peers[rank];
    if (!weft__process_has_ended(&m->process)) return;
    m->is_another = true;
    weft__peer_gone(ctx, rank, WEFT__DIED, false, "has ended, or is another program");
}

/* From the next one to this rank on: where all wait for one, it is asked for in each turn, by those before it. */
int64_t weft__exec_watch_check(weft_context *ctx, int64_t now_ns)
{
    int asked = 0;
    if (!ctx->segment || !weft__inflight(ctx)) return WEFT__NEVER;
    if (now_ns < ctx->execs_at_ns) return ctx->execs_at_ns;
    for (int i = 1; i < ctx->world_size && asked < ASK_MOST; i++) {
        int rank = (ctx->execs_from + i) % ctx->world_size;
        const weft__peer *m = &ctx->peers[rank];
        if (rank == ctx->rank || m->local < 0 || atomic_load(&m->gone)) continue;
        ask_for(ctx, rank);
        if (++asked == ASK_MOST) ctx->execs_from = rank;
    }
    ctx->execs_at_ns = now_ns + WEFT__EXEC_WATCH_NS;
    return ctx->execs_at_ns;
}
