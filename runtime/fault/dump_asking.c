/* dump_asking.c - the hosts of a job ask each other to write down what their ranks did last.
 *
 * Hosts, counted from 0 in the order of their lowest ranks, are the corners of a hypercube.  Whoever reads the records of
 * its host asks the hosts whose number differs from its own in one bit, and each does so once: log2 of the hosts is how
 * many each asks, and how many steps it is to the last.  Without some of its corners, as where hosts are no power of
 * two, or are gone, what is left of a hypercube mostly hangs together still.  Nobody waits for anybody: what has failed
 * may be the way there.
 *
 * A host reads once for a first dump, and once for each other request (dump_turn.h): by that the asking ends. */
#include "dump_asking.h"
#include "alarm.h"
#include "notice.h"
#include "status.h"

#include <stdio.h>

enum { ASKED_MOST = 2 }; /* ranks of one host, of which the first may be stopped */

static bool is_place(const weft_context *ctx, int rank)
{
    return ctx->peers[rank].first_on_host == rank;
}

static int corner_of(const weft_context *ctx, int place)
{
    int corner = 0;
    for (int rank = 0; rank < place; rank++) corner += is_place(ctx, rank);
    return corner;
}

static void ask_host(weft_context *ctx, int place, const weft__notice *notice)
{
    int asked = 0;
    for (int rank = place; rank < ctx->world_size && asked < ASKED_MOST; rank++) {
        if (ctx->peers[rank].first_on_host != place || atomic_load(&ctx->peers[rank].gone)) continue;
        weft__alarm_tell(ctx, rank, notice);
        asked++;
    }
}

uint64_t weft__dump_request(weft_context *ctx)
{
    return ((uint64_t)ctx->rank + 1) << 32 | atomic_fetch_add(&ctx->dumping.requests, 1);
}

void weft__dump_ask(weft_context *ctx, const char *why, uint64_t request)
{
    weft__notice notice = {.kind = WEFT__NOTICE_DUMP, .number = request};
    const int own_place = ctx->peers[ctx->rank].first_on_host, own = corner_of(ctx, own_place);
    snprintf(notice.text, sizeof notice.text, "%s", why);
    for (int place = 0, corner = 0; place < ctx->world_size; place++) {
        unsigned apart;
        if (!is_place(ctx, place)) continue;
        apart = (unsigned)(corner++ ^ own);
        if (apart && !(apart & (apart - 1))) ask_host(ctx, place, &notice);
    }
}

static void take_notice(weft_context *ctx, int from, const weft__notice *notice)
{
    weft__dumping *dumping = &ctx->dumping;
    char why[sizeof dumping->asked];
    snprintf(why, sizeof why, "rank %d asked for it: %.200s", from, notice->text);
    if (!notice->number) {
        weft__alarm_dump(ctx, why);
    } else if (ctx->record.ops) {
        snprintf(dumping->asked, sizeof dumping->asked, "%s", why);
        dumping->asked_for = notice->number;
        weft__alarm_wake();
    }
}

const weft__protocol weft__dumps_protocol = {.name = "dumps",
                                             .first_notice = WEFT__NOTICE_DUMP,
                                             .last_notice = WEFT__NOTICE_DUMP,
                                             .notice = take_notice};
