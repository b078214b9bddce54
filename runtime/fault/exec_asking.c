/* exec_asking.c - asks the kernel for some ranks of this host in each turn, as long as something is under way. */
#include "exec_asking.h"
#include "engine.h"
#include "exec_watch.h"
#include "group.h"
#include "peer.h"

#define ASK_MOST 4 /* ranks in a turn: each is some system calls */

/* Whose end a descriptor tells is left to that. */
static void ask_for(weft_context *ctx, int rank)
{
    weft__peer *m = &ctx->peers[rank];
    if (rank == ctx->rank || weft__is_gone(m) || !weft__process_is_another(&m->process)) return;
    weft__engine_take(ctx);
    m->is_another = true;
    weft__peer_gone(ctx, rank, WEFT__DIED, false, "is another program");
    weft__engine_drop(ctx);
}

/* Each rank begins with those behind it: where all wait for one, some ask for it in each turn. */
static void ask_for_some(weft_context *ctx)
{
    const weft_group *host = ctx->host_group;
    for (int i = 0; host && i < ASK_MOST && i < host->size - 1; i++) {
        ctx->execs_from = (ctx->execs_from + 1) % host->size;
        if (!ctx->execs_from) ctx->execs_from = 1; /* 0 is this rank */
        ask_for(ctx, host->world[(host->rank + ctx->execs_from) % host->size]);
    }
}

int64_t weft__exec_asking_attend(weft_context *ctx, int64_t now_ns)
{
    int64_t at = atomic_load(&ctx->execs_at_ns);
    WEFT__ASSERT(!weft__holds_any_engine()); /* the kernel is asked without it */
    if (!at) return WEFT__NEVER;
    if (now_ns < at) return at;
    if (!weft__inflight(ctx)) {
        atomic_store(&ctx->execs_at_ns, 0);
        if (!weft__inflight(ctx)) return WEFT__NEVER; /* whoever sleeps from now on begins anew */
    }
    ask_for_some(ctx);
    at = now_ns + WEFT__EXEC_WATCH_NS;
    atomic_store(&ctx->execs_at_ns, at);
    return at;
}
