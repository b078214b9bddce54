/* leave_together.c - see leave_together.h. */
#include "leave_together.h"
#include "clock.h"
#include "engine.h"
#include "peer.h"
#include "reserve.h"

#include <stdlib.h>

/* A connection costs both ends some 2 ms each, and three times that on busy machines; and ranks that have left a
 * barrier are some way apart. */
#define ASK_NS      (200 * WEFT__MS)
#define ASK_RANK_NS (12 * WEFT__MS)
#define ASK_MOST_NS (1000 * WEFT__MS)

typedef struct leaving {
    bool changed;       /* who is below, or has come, since that was counted */
    int told;           /* the parent that has heard LEAVING; -1: none has */
    int64_t until_ns;   /* it asks */
    unsigned char *who; /* a byte for each rank: it has said LEAVING; NULL: none has */
} leaving;

static leaving *leaving_of(const weft_context *ctx)
{
    return ctx->protocol_state[WEFT__PROTOCOL_LEAVE_TOGETHER];
}

/* One that is unreachable from here is: the others have it in their tree too, and nobody is to leave together without it.  No
 * word comes from it, and so all leave alone. */
static bool is_there(const weft_context *ctx, int rank)
{
    return !weft__is_gone(&ctx->peers[rank]);
}

static int lowest_there(const weft_context *ctx)
{
    int rank = 0;
    while (!is_there(ctx, rank)) rank++; /* this one is */
    return rank;
}

/* -1: it stands at the top. */
static int parent_of(const weft_context *ctx, int rank)
{
    int lowest = lowest_there(ctx);
    if (rank == lowest) return -1;
    do rank &= rank - 1;
    while (rank && !is_there(ctx, rank));
    return is_there(ctx, rank) ? rank : lowest;
}

static bool all_below_leave(const weft_context *ctx)
{
    const unsigned char *who = leaving_of(ctx)->who;
    for (int rank = 0; rank < ctx->world_size; rank++)
        if (is_there(ctx, rank) && parent_of(ctx, rank) == ctx->rank && !(who && who[rank])) return false;
    return true;
}

static void leaving_to(weft_context *ctx, weft__leaving now)
{
    WEFT__ASSERT(now > ctx->leaving && ctx->leaving < WEFT__LEAVES_TOGETHER, (int)now, (int)ctx->leaving);
    ctx->leaving = now;
}

void weft__leave_alone(weft_context *ctx)
{
    WEFT__ASSERT(weft__holds_engine(ctx));
    if (ctx->leaving >= WEFT__LEAVES_TOGETHER) return;
    leaving_to(ctx, WEFT__LEAVES_ALONE);
    WEFT__EACH_PROTOCOL(ctx, p)
    {
        if (p->leaves_alone) p->leaves_alone(ctx);
    }
}

static void tell_below(weft_context *ctx)
{
    for (int rank = 0; rank < ctx->world_size; rank++)
        if (is_there(ctx, rank) && parent_of(ctx, rank) == ctx->rank)
            weft__p2p_control(ctx->p2p, rank, WEFT__MESSAGE_ALL_LEAVE, NULL, 0);
}

static void all_leave(weft_context *ctx)
{
    leaving_to(ctx, WEFT__LEAVES_TOGETHER);
    tell_below(ctx);
}

/* Up, once all below have come; and once more to whoever stands there in the place of one that has gone. */
static void pass_on(weft_context *ctx)
{
    leaving *l = leaving_of(ctx);
    int parent = parent_of(ctx, ctx->rank);
    if (!l->changed || !all_below_leave(ctx)) return;
    l->changed = false;
    if (parent < 0)
        all_leave(ctx);
    else if (parent != l->told &&
             weft__p2p_control(ctx->p2p, parent, WEFT__MESSAGE_LEAVING, NULL, 0) == WEFT_OK)
        l->told = parent;
}

/* Is there somebody whom only the watchdog reaches? */
static bool has_other_hosts(const weft_context *ctx)
{
    for (int i = 0; i < ctx->world_size; i++)
        if (ctx->peers[i].local < 0) return true;
    return false;
}

static void begin(weft_context *ctx, const char *why)
{
    leaving *l = leaving_of(ctx);
    int64_t ask_ns = ASK_NS + ctx->world_size * ASK_RANK_NS;
    /* While this rank asks, what that sends goes, and connections that it needs are made. */
    WEFT__EACH_PROTOCOL(ctx, p)
    {
        if (p->due) p->due(ctx, WEFT__NEVER);
    }
    if (*why || ctx->aborting || !has_other_hosts(ctx)) {
        weft__leave_alone(ctx);
        return;
    }
    leaving_to(ctx, WEFT__ASKS);
    l->changed = true;
    l->until_ns = weft__now_ns() + (ask_ns < ASK_MOST_NS ? ask_ns : ASK_MOST_NS);
}

bool weft__leave_together_check(weft_context *ctx, const char *why)
{
    leaving *l = leaving_of(ctx);
    WEFT__ASSERT(weft__holds_engine(ctx) && atomic_load(&ctx->closing));
    if (ctx->leaving == WEFT__STAYS) begin(ctx, why);
    if (ctx->leaving == WEFT__ASKS) pass_on(ctx);
    if (ctx->leaving == WEFT__ASKS && (*why || weft__now_ns() >= l->until_ns)) weft__leave_alone(ctx);
    return ctx->leaving != WEFT__ASKS;
}

static void leaving_arrived(weft_context *ctx, int peer)
{
    leaving *l = leaving_of(ctx);
    if (!l->who) l->who = weft__reserve_zeroed((size_t)ctx->world_size);
    if (l->who) l->who[peer] = 1; /* else all leave alone */
    l->changed = true;
    /* To whoever stood below one that has gone. */
    if (ctx->leaving == WEFT__LEAVES_TOGETHER)
        weft__p2p_control(ctx->p2p, peer, WEFT__MESSAGE_ALL_LEAVE, NULL, 0);
}

static void leave_together_message(weft_context *ctx, int peer, int type, const void *bytes, size_t length)
{
    (void)bytes;
    if (length)
        weft__peer_refused(ctx, peer, "more than that all leave");
    else if (type == WEFT__MESSAGE_LEAVING)
        leaving_arrived(ctx, peer);
    else if (ctx->leaving == WEFT__STAYS)
        weft__peer_refused(ctx, peer, "that all leave, which this rank does not");
    else if (ctx->leaving == WEFT__ASKS)
        all_leave(ctx);
    else if (ctx->leaving == WEFT__LEAVES_ALONE)
        tell_below(ctx);
}

static void leave_together_peer_gone(weft_context *ctx, int rank, const char *why)
{
    (void)rank;
    (void)why;
    leaving_of(ctx)->changed = true;
}

/* It may stay, and counts as gone here soon: asking on, this rank could find that all leave without it.  (In the trees of others,
 * which reach it, it stands, and no word of it comes here.) */
static void leave_together_leaves_without(weft_context *ctx, int rank)
{
    (void)rank;
    weft__leave_alone(ctx);
}

/* It can be told what could not be. */
static void leave_together_peer_returns(weft_context *ctx, int rank)
{
    (void)rank;
    leaving_of(ctx)->changed = true;
}

static weft_status open_leave_together(weft_context *ctx)
{
    leaving *l = calloc(1, sizeof *l);
    ctx->protocol_state[WEFT__PROTOCOL_LEAVE_TOGETHER] = l;
    if (!l) return weft__fail_memory(sizeof *l, "a context");
    l->told = -1;
    return WEFT_OK;
}

static void close_leave_together(weft_context *ctx)
{
    leaving *l = leaving_of(ctx);
    if (l) weft__reserve_give(l->who);
    free(l);
}

const weft__protocol weft__leave_together_protocol = {.name = "leave_together",
                                                      .first = WEFT__MESSAGE_LEAVING,
                                                      .last = WEFT__MESSAGE_ALL_LEAVE,
                                                      .open = open_leave_together,
                                                      .close = close_leave_together,
                                                      .message = leave_together_message,
                                                      .peer_gone = leave_together_peer_gone,
                                                      .leaves_without = leave_together_leaves_without,
                                                      .peer_returns = leave_together_peer_returns};
