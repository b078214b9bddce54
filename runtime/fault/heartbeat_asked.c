/* heartbeat_asked.c - see heartbeat_asked.h. */
#include "heartbeat_asked.h"
#include "alarm.h"
#include "p2p.h"

#define ANSWER_MOST_NS (10000 * WEFT__MS)

static void answer(weft_context *ctx, int to, int subject, uint64_t question, bool hears)
{
    weft__notice notice = {.kind = WEFT__NOTICE_HEARD,
                           .subject = subject,
                           .number = question,
                           .knows = hears ? 1 : 0};
    weft__alarm_tell(ctx, to, &notice);
}

static void finish(weft__heartbeat_asker *a, bool hears)
{
    weft_context *ctx = a->ctx;
    weft__knock_end(&a->knock);
    a->ctx = NULL;
    answer(ctx, a->rank, a->subject, a->question, hears);
}

static void on_answer(weft__knock *knock)
{
    finish(WEFT__OWNER(knock, weft__heartbeat_asker, knock), true);
}

static weft__heartbeat_asker *free_place(weft__heartbeat_askers *askers)
{
    for (int i = 0; i < WEFT__HEARTBEAT_ASKERS; i++)
        if (!askers->of[i].ctx) return &askers->of[i];
    return NULL;
}

int64_t weft__heartbeat_is_asked(weft__heartbeat_askers *askers, weft_context *ctx, int from,
                                 const weft__notice *question, int64_t now_ns)
{
    const int subject = question->subject;
    const bool here = ctx->peers[subject].first_on_host == ctx->peers[ctx->rank].first_on_host;
    weft__transport *t = subject == ctx->rank ? NULL : weft__p2p_transport(ctx->p2p, subject);
    weft__heartbeat_asker *a = free_place(askers);
    if (here) { /* this very answer shows it */
        answer(ctx, from, subject, question->number, true);
        return WEFT__NEVER;
    }
    if (!a || !t || !t->hearing) return WEFT__NEVER;
    *a = (weft__heartbeat_asker){.ctx = ctx,
                                 .rank = from,
                                 .subject = subject,
                                 .question = question->number,
                                 .until_ns = now_ns + (question->ago_ns < ANSWER_MOST_NS ? question->ago_ns
                                                                                         : ANSWER_MOST_NS),
                                 .knock = {.answered = on_answer}};
    if (!t->hearing->knock(t, subject, &a->knock)) a->ctx = NULL; /* no answer is better than a wrong one */
    return a->ctx ? a->until_ns : WEFT__NEVER;
}

int64_t weft__heartbeat_asked_check(weft__heartbeat_askers *askers, weft_context *ctx, int64_t now_ns)
{
    int64_t next = WEFT__NEVER;
    (void)ctx;
    for (int i = 0; i < WEFT__HEARTBEAT_ASKERS; i++) {
        weft__heartbeat_asker *a = &askers->of[i];
        if (a->ctx && now_ns >= a->until_ns) weft__knock_look(&a->knock);
        if (!a->ctx) continue;
        if (now_ns >= a->until_ns)
            finish(a, false);
        else if (a->until_ns < next)
            next = a->until_ns;
    }
    return next;
}

void weft__heartbeat_asked_close(weft__heartbeat_askers *askers)
{
    for (int i = 0; i < WEFT__HEARTBEAT_ASKERS; i++) weft__knock_end(&askers->of[i].knock);
}
