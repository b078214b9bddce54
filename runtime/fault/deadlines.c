/* deadlines.c - one check of the requests of a context: who is late is asked for before a deadline, and what
 * has passed its own ends. */
#include "deadlines.h"
#include "accused.h"
#include "behind.h"
#include "dumping.h"
#include "engine.h"
#include "executor.h"
#include "group.h"
#include "group_break.h"
#include "late.h"
#include "membership.h"
#include "peer.h"
#include "protocol.h"
#include "straggler.h"
#include "telling.h"
#include "warn.h"

#define ANSWER_NS       (600 * WEFT__MS) /* for answers, since they were first asked for: a busy host is slow */
#define ANSWER_GRACE_NS (40 * WEFT__MS) /* and in any case so long past the deadline */
#define ASK_AGAIN_NS    (30 * WEFT__MS) /* before a deadline: the first time made the connections */
#define RETRY_NS        (2 * WEFT__MS)

/* Returns when to check this request again; engine held. */
static int64_t expire(weft_request *req, int64_t now)
{
    char text[WEFT__SENTENCE_BYTES];
    int64_t dumped;
    if (now < req->deadline_ns + ANSWER_GRACE_NS
            ? !weft__straggler_answered_again(req) /* or one that has come since the first time is accused */
            : !weft__straggler_answered(req) && now < req->asked_ns + ANSWER_NS)
        return now + RETRY_NS;
    weft__straggler_text(req, now, text, sizeof text);
    if ((dumped = weft__dumping_first(req->ctx, text)) != 0) return dumped;
    if (req->executor->expire) {
        req->executor->expire(req, now);
        return WEFT__NEVER;
    }
    if (weft__kind_traits(req->op.kind) & WEFT__COLLECTIVE)
        weft__group_break(req->group, &(weft__verdict){WEFT_ERR_TIMEOUT, req->sequence, -1, text}, true);
    else
        weft__request_fail(req, WEFT_ERR_TIMEOUT, text);
    return WEFT__NEVER;
}

static int64_t look_at(weft_request *req, int64_t now)
{
    int64_t next, warned;
    WEFT__ASSERT(weft__request_state(req) < WEFT__CALLING && req->executor, weft__request_state(req));
    if (weft__request_state(req) == WEFT__DRAINING) {
        if (now < req->drained_by_ns) return req->drained_by_ns;
        req->buffers_held = true;
        req->executor->abandon(req);
        return WEFT__NEVER;
    }
    /* Before the deadline is checked: this thread may be so late itself. */
    if (req->asks < 2 && now >= req->ask_ns) {
        weft__straggler_ask(req);
        /* The second time, if there is room for one, gives the latest word. */
        req->ask_ns = req->deadline_ns;
        if (req->asks++ == 0 && now < req->deadline_ns - 2 * ASK_AGAIN_NS) req->ask_ns -= ASK_AGAIN_NS;
    }
    if (now >= req->deadline_ns) return expire(req, now);
    warned = weft__warn_check(req, now);
    next = req->ask_ns;
    return next < warned ? next : warned;
}

/* Not weft__alarm_check: nobody has to be woken. */
static void look_again_by(weft_context *ctx, int64_t when_ns)
{
    int64_t at = atomic_load(&ctx->check_ns);
    while (when_ns < at && !atomic_compare_exchange_weak(&ctx->check_ns, &at, when_ns)) {
    }
}

void weft__deadlines_check(weft_context *ctx)
{
    int64_t now, next;
    weft__engine_take(ctx);
    /* First: what comes in from now on asks for its own time again. */
    atomic_store(&ctx->check_ns, WEFT__NEVER);
    weft__engine_progress(ctx); /* the queue may hold what is due */
    weft__engine_recheck(ctx);
    now = weft__now_ns();
    next = weft__accused_check(ctx, now);
    int64_t suspects = weft__peer_suspects_check(ctx, now);
    if (suspects < next) next = suspects;
    int64_t asked = weft__late_check(ctx, now);
    if (asked < next) next = asked;
    int64_t agreed = weft__membership_check(ctx, now);
    if (agreed < next) next = agreed;
    int64_t told = weft__telling_check(ctx, now);
    if (told < next) next = told;
    int64_t begins = weft__behind_due(ctx);
    if (begins < next) next = begins > now ? begins : now + RETRY_NS;
    WEFT__EACH_PROTOCOL(ctx, p)
    {
        int64_t then = p->due ? p->due(ctx, now) : WEFT__NEVER;
        if (then < next) next = then;
    }
    bool again = true;
    while (again) { /* ending one may end others: from the start again */
        again = false;
        WEFT__LIST_EACH(&ctx->pending, at)
        {
            weft_request *req = WEFT__LIST_ENTRY(at, weft_request, pending);
            weft__state before = weft__request_state(req);
            bool due = now >= (before == WEFT__DRAINING ? req->drained_by_ns : req->deadline_ns);
            int64_t then = look_at(req, now);
            if (then < next) next = then;
            if (due && then == WEFT__NEVER) {
                again = true;
                break;
            }
        }
    }
    if (!weft__mpsc_empty(&ctx->retired))
        weft__groups_retire(ctx); /* what was put off may have held them last */
    weft__engine_drop(ctx);
    look_again_by(ctx, next);
}
