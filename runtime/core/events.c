/* events.c - what the point-to-point layer and the kernel report about peers, handed on to where it is dealt
 * with. */
#include "events.h"
#include "alarm.h"
#include "between.h"
#include "peer.h"
#include "protocol.h"

#include <stdio.h>

static weft_context *context_of(weft__p2p_events *events)
{
    return WEFT__OWNER(events, weft_context, p2p_events);
}

static bool on_collective(weft__p2p_events *events, int peer, const weft__frame *frame)
{
    weft_context *ctx = context_of(events);
    bool awaited = false;
    WEFT__EACH_PROTOCOL(ctx, p) awaited = awaited || (p->collective && p->collective(ctx, peer, frame));
    return awaited;
}

static void on_control(weft__p2p_events *events, int peer, int type, const void *bytes, size_t length)
{
    weft_context *ctx = context_of(events);
    if (type == WEFT__MESSAGE_NONE) return;
    WEFT__EACH_PROTOCOL(ctx, p)
    {
        if (type < p->first || type > p->last) continue;
        p->message(ctx, peer, type, bytes, length);
        return;
    }
    weft__peer_refused(ctx, peer, "a control message of unknown type");
}

static void on_left(weft__p2p_events *events, int peer, weft_status status, const char *why)
{
    char text[192];
    if (status == WEFT_OK) {
        weft__peer_gone(context_of(events), peer, WEFT__LEFT, false, *why ? why : "has left");
        return;
    }
    snprintf(text, sizeof text, "has aborted: %.150s", why);
    weft__peer_gone(context_of(events), peer, WEFT__DIED, false, text);
}

/* Whoever polls next tries again; where nobody does, the watchdog. */
static void on_lacks(weft__p2p_events *events, int64_t until_ns)
{
    weft__alarm_check(context_of(events), until_ns);
}

static void leave_without(weft_context *ctx, int peer)
{
    WEFT__EACH_PROTOCOL(ctx, p)
    {
        if (p->leaves_without) p->leaves_without(ctx, peer);
    }
}

static void on_lost(weft__p2p_events *events, int peer, const char *why)
{
    weft_context *ctx = context_of(events);
    char text[192];
    const weft__peer *m = &ctx->peers[peer];
    const int between = weft__between(ctx, peer);
    if (between >= 0)
        snprintf(text, sizeof text,
                 "is unreachable from here (rank %d), though rank %d reaches its host: %.110s", ctx->rank,
                 between, why);
    else if (m->heard_by_another)
        snprintf(text, sizeof text, "is unreachable from here (rank %d), though its host was heard: %.110s",
                 ctx->rank, why);
    else
        snprintf(text, sizeof text, "is lost: %.150s", why);
    if (m->heard_by_another && weft__peer_unreachable(ctx, peer, false, text)) return;
    if (m->hearsay) {
        weft__peer_gone(ctx, peer, WEFT__LEFT, true, m->suspicion);
        return;
    }
    if (m->heard_by_another && ctx->leaving != WEFT__STAYS) leave_without(ctx, peer);
    /* A rank that leaves says goodbye where it knows of a connection; where nothing has come, it may not
     * know.  Where all leave, it may have answered after its goodbye to the others. */
    if (weft__p2p_heard(ctx->p2p, peer) && ctx->leaving != WEFT__LEAVES_TOGETHER &&
        !(ctx->leaving != WEFT__STAYS && m->heard_by_another))
        weft__peer_gone(ctx, peer, WEFT__PRESUMED_DEAD, false, text);
    else
        weft__peer_suspect(ctx, peer, text);
}

static void on_connected(weft__p2p_events *events, int peer)
{
    weft__peer_connected(context_of(events), peer);
}

static void on_let_go(weft__p2p_events *events, int peer, const char *why)
{
    weft_context *ctx = context_of(events);
    if (weft__peer_unreachable(ctx, peer, true, why)) return;
    if (ctx->leaving == WEFT__STAYS) {
        on_lost(events, peer, why);
        return;
    }
    leave_without(ctx, peer);
    weft__peer_suspect(ctx, peer, why);
}

static void on_late_bye(weft__p2p_events *events, int peer)
{
    weft_context *ctx = context_of(events);
    WEFT__EACH_PROTOCOL(ctx, p)
    {
        if (p->late_goodbye) p->late_goodbye(ctx, peer);
    }
}

void weft__events_init(weft_context *ctx)
{
    ctx->p2p_events = (weft__p2p_events){on_collective, on_control, on_left,  on_lost,
                                         on_connected,  on_let_go,  on_lacks, on_late_bye};
}
