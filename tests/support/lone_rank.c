#include "lone_rank.h"
#include "engine.h"
#include "events.h"
#include "executors.h"
#include "group.h"
#include "keys.h"
#include "leave.h"
#include "protocols.h"
#include "region.h"
#include "reserve.h"
#include "segment_ranks.h"
#include "slots.h"
#include "terms.h"
#include "watchdog_wire.h"

#include <stdlib.h>
#include <string.h>

static lone_wires hooks;
static weft__segment *segments[2]; /* LONE_NEAR's, LONE_ME's */

static void send_nowhere(weft__transport *t, int peer, weft__outgoing *out)
{
    (void)t;
    out->peer = peer;
    if (hooks.sent) hooks.sent(out);
    out->sent(out, WEFT_OK);
}

static void retract_nothing(weft__transport *t, weft__outgoing *out)
{
    (void)t;
    (void)out;
}

static void forget_nothing(weft__transport *t, int peer, void *where)
{
    (void)t;
    (void)peer;
    (void)where;
}

static int poll_nothing(weft__transport *t, int budget)
{
    (void)t;
    (void)budget;
    if (hooks.turn) hooks.turn();
    return 0;
}

static bool never_busy(const weft__transport *t)
{
    (void)t;
    return false;
}

static bool always_flushed(const weft__transport *t, int peer)
{
    (void)t;
    (void)peer;
    return true;
}

static void drop_nobody(weft__transport *t, int peer)
{
    (void)t;
    (void)peer;
}

static weft__transport nowhere = {.name = "nowhere",
                                  .eager_bytes = 64,
                                  .send = send_nowhere,
                                  .retract = retract_nothing,
                                  .forget = forget_nothing,
                                  .poll = poll_nothing,
                                  .busy = never_busy,
                                  .flushed = always_flushed,
                                  .drop = drop_nobody,
                                  .begin_anew = drop_nobody};

/* Opens the watchdog's wire, though the other ranks have no watchdogs. */
static weft__watchdog_wire *open_wire(void)
{
    static char endpoints[LONE_WORLD][WEFT__ENDPOINT_BYTES];
    weft__watchdog_wire *wire;
    weft__keys *keys;
    if (weft__keys_make("secret", 6, "lone", &keys) || weft__keys_room(keys, LONE_WORLD) ||
        weft__watchdog_wire_open("127.0.0.1", keys, LONE_ME, &wire, endpoints[0]))
        abort();
    endpoints[0][0] = 0;
    if (weft__watchdog_wire_peers(wire, LONE_WORLD, endpoints[0])) abort();
    return wire;
}

static void set_peers(weft_context *ctx)
{
    ctx->peers = calloc(LONE_WORLD, sizeof *ctx->peers);
    if (!ctx->peers) abort();
    for (int i = 0; i < LONE_WORLD; i++) {
        int local = i == LONE_ME ? 1 : i == LONE_NEAR ? 0 : -1;
        ctx->peers[i] = (weft__peer){.host = "host", .pid = i, .local = local, .ctx = ctx, .rank = i};
        ctx->peers[i].death.fd = ctx->peers[i].tie.fd = -1;
        if (i != LONE_ME) weft__p2p_route(ctx->p2p, i, &nowhere);
    }
}

weft_context *lone_rank_open(lone_wires wires)
{
    static const weft_config config = WEFT_CONFIG_INIT;
    static weft__watchdog_wire *wire;
    weft_context *ctx = weft__context_new(&config, weft__executors, weft__protocols);
    if (!ctx) abort();
    if (!wire) {
        setenv("WEFT_LOG", "0", 1);
        segment_join_with(2, weft__slots_arena(2), segments);
        wire = open_wire();
    }
    hooks = wires;
    weft__events_init(ctx);
    ctx->wire = wire;
    ctx->rank = LONE_ME;
    ctx->world_size = LONE_WORLD;
    ctx->segment = segments[1];
    ctx->slot_bytes = weft__slot_bytes(2);
    if (weft__poller_open(&ctx->poller) ||
        weft__p2p_open(LONE_ME, LONE_WORLD, WEFT__EAGER_BY_ROUTE, &ctx->p2p_events, &ctx->p2p))
        abort();
    set_peers(ctx);
    for (int i = 0; i < LONE_WORLD; i++) {
        const weft__group_params terms = weft__own_params(ctx);
        if (weft__terms_told(ctx, i, &terms) != WEFT_OK) abort();
    }
    return ctx;
}

weft__segment *lone_rank_near(void)
{
    return segments[0];
}

weft_group *lone_rank_group(weft_context *ctx, const int *world, int size, const char *label, uint64_t id)
{
    weft_group *group = weft__group_new(ctx, world, size, label, WEFT_FOREVER);
    weft__group_params params = weft__own_params(ctx);
    if (!group) abort();
    group->owner = WEFT__OF_CONTEXT;
    weft__engine_take(ctx);
    if (weft__group_ready(group, id, &params) != WEFT_OK) abort();
    weft__engine_drop(ctx);
    return group;
}

static void drop_notices(weft_context *ctx)
{
    weft__mpsc_node *node = weft__mpsc_take_all(&ctx->notices);
    while (node) { /* the first member of what was queued */
        weft__mpsc_node *next = node->next;
        free(node);
        node = next;
    }
}

/* Requests and groups give back what they have of the segment first, which is the next context's too. */
int lone_rank_take_queued(weft_context *ctx)
{
    int n = 0;
    for (weft__mpsc_node *node = weft__mpsc_take_all(&ctx->notices), *next; node; node = next, n++) {
        next = node->next;
        weft__reserve_give(node);
    }
    return n;
}

void lone_rank_close(weft_context *ctx)
{
    drop_notices(ctx);
    ctx->wire = NULL;
    weft__engine_take(ctx);
    while (!weft__list_empty(&ctx->pending))
        weft__request_fail(WEFT__LIST_ENTRY(ctx->pending.next, weft_request, pending), WEFT_ERR_CANCELLED,
                           "over");
    weft__engine_progress(ctx);
    weft__engine_drop(ctx);
    weft__requests_close(ctx);
    weft__groups_close(ctx);
    weft__list_init(&ctx->groups);
    weft__list_init(&ctx->retiring);
    if (ctx->regions) weft__regions_free(ctx->regions);
    ctx->regions = NULL;
    hooks = (lone_wires){NULL, NULL};
    ctx->segment = NULL;
    weft__context_free(ctx);
}
