/* handover.c - see handover.h. */
#include "handover.h"
#include "engine.h"
#include "peer.h"
#include "reserve.h"

#include <stdlib.h>
#include <string.h>

typedef struct run {
    int32_t first, count; /* ranks, around the job */
} run;

/* A byte for each rank: it is said to have left, and its own word is still on the way; NULL: none is. */
static unsigned char *hearsay(const weft_context *ctx)
{
    return ctx->protocol_state[WEFT__PROTOCOL_HANDOVER];
}

static void note_hearsay(weft_context *ctx, int rank)
{
    if (!hearsay(ctx))
        ctx->protocol_state[WEFT__PROTOCOL_HANDOVER] = weft__reserve_zeroed((size_t)ctx->world_size);
    if (hearsay(ctx)) hearsay(ctx)[rank] = 1;
}

static void close_handover(weft_context *ctx)
{
    weft__reserve_give(hearsay(ctx));
}

static bool has_left(const weft_context *ctx, int rank)
{
    return (atomic_load(&ctx->peers[rank].gone) && ctx->peers[rank].left) ||
           (hearsay(ctx) && hearsay(ctx)[rank]);
}

/* Does anybody connect to watch? */
static bool has_other_hosts(const weft_context *ctx)
{
    for (int i = 0; i < ctx->world_size; i++)
        if (ctx->peers[i].local < 0) return true;
    return false;
}

static int following(const weft_context *ctx, int rank)
{
    return (rank + 1) % ctx->world_size;
}

/* Runs of ranks that have left, from the one behind this rank on.  The caller's; NULL: there is none, or no memory. */
static run *all_behind(const weft_context *ctx, size_t *count)
{
    run *runs = NULL;
    size_t n = 0;
    bool goes_on = false;
    for (int rank = following(ctx, ctx->rank); rank != ctx->rank; rank = following(ctx, rank)) {
        bool left = has_left(ctx, rank);
        if (left && !goes_on && !runs && !(runs = malloc((size_t)ctx->world_size * sizeof *runs))) break;
        if (left && !goes_on) runs[n++] = (run){rank, 0};
        if (left) runs[n - 1].count++;
        goes_on = left;
    }
    *count = n;
    return runs;
}

static void tell(weft_context *ctx, int to, const run *runs, size_t count)
{
    weft__p2p_control(ctx->p2p, to, WEFT__MESSAGE_BEHIND, runs, count * sizeof *runs);
}

void weft__handover_begin(weft_context *ctx)
{
    size_t count;
    run *runs;
    WEFT__ASSERT(weft__holds_engine(ctx) && !ctx->said_bye);
    ctx->handed_to = -1;
    if (!has_other_hosts(ctx)) return;
    ctx->handed_to = weft__peer_watcher(ctx);
    runs = all_behind(ctx, &count);
    for (int i = 0; i < ctx->world_size; i++)
        if (i != ctx->rank && !atomic_load(&ctx->peers[i].gone) &&
            (i == ctx->handed_to || (count && weft__p2p_touched(ctx->p2p, i))))
            tell(ctx, i, runs, count);
    free(runs);
}

/* The watcher refused, or leaves too: there is another.  One that had our goodbye already had the rest with it. */
void weft__handover_go_on(weft_context *ctx)
{
    int watcher = ctx->handed_to < 0 ? -1 : weft__peer_watcher(ctx);
    size_t count;
    run *runs;
    WEFT__ASSERT(weft__holds_engine(ctx) && ctx->said_bye);
    if (watcher < 0 || watcher == ctx->handed_to) return;
    ctx->handed_to = watcher;
    runs = all_behind(ctx, &count);
    tell(ctx, watcher, runs, count);
    free(runs);
    weft__p2p_bye_to(ctx->p2p, watcher);
}

/* A rank that has talked to this one, or shares memory with it, says so itself, and waits until that is taken. */
static bool says_so_itself(const weft_context *ctx, int rank)
{
    return ctx->peers[rank].local >= 0 || weft__p2p_heard(ctx->p2p, rank);
}

static void take_run(weft_context *ctx, int peer, const run *told)
{
    for (int n = 0, rank = told->first; n < told->count; n++, rank = following(ctx, rank))
        if (rank == peer || rank == ctx->rank)
            continue;
        else if (says_so_itself(ctx, rank))
            note_hearsay(ctx, rank);
        else
            weft__peer_gone(ctx, rank, WEFT__LEFT, "has left");
}

static void handover_message(weft_context *ctx, int peer, int type, const void *bytes, size_t length)
{
    (void)type;
    for (size_t at = 0; at < length; at += sizeof(run)) {
        run told = {-1, 0};
        if (length - at >= sizeof told) memcpy(&told, (const char *)bytes + at, sizeof told);
        if (told.first < 0 || told.first >= ctx->world_size || told.count < 1 ||
            told.count >= ctx->world_size) {
            weft__peer_refused(ctx, peer, "ranks that have left, which are none of the job");
            return;
        }
        take_run(ctx, peer, &told);
    }
}

const weft__protocol weft__handover_protocol = {.name = "handover",
                                                .first = WEFT__MESSAGE_BEHIND,
                                                .last = WEFT__MESSAGE_BEHIND,
                                                .close = close_handover,
                                                .message = handover_message};
