/* deaths.c - see deaths.h. */
#include "deaths.h"
#include "alarm.h"
#include "check.h"
#include "engine.h"
#include "host_tree.h"
#include "peer.h"
#include "telling.h"

#include <stdlib.h>

#define KEPT_NS    (2000 * WEFT__MS) /* what a rank has said has left its process by then, or never does */
#define KEPT_MOST  256
#define KEPT_BYTES ((size_t)4 << 20) /* of all together */

typedef struct told_death {
    weft__telling telling;
    weft__list link; /* ctx->told_deaths */
    int32_t rank;
    uint64_t how;    /* weft__gone */
    int64_t kept_ns; /* nothing is awaited any more, and it is kept until then; 0: it goes on */
} told_death;

static told_death *death_of(weft_context *ctx, const weft__notice *told)
{
    WEFT__LIST_EACH(&ctx->told_deaths, at)
    {
        told_death *death = WEFT__LIST_ENTRY(at, told_death, link);
        if (death->rank == told->subject && death->how == told->number) return death;
    }
    return NULL;
}

static void free_death(told_death *death)
{
    weft__list_remove(&death->link);
    free(death->telling.hosts);
    free(death);
}

/* Many that die at once do not take memory without bounds, which a death takes by the hosts and ranks that there are: of more than that
 * the oldest is let go of, as each time one at most has been added. */
static void keep(weft_context *ctx, told_death *death)
{
    told_death *oldest = NULL;
    int kept = 0;
    death->kept_ns = weft__now_ns() + KEPT_NS;
    weft__alarm_check(ctx, death->kept_ns);
    WEFT__LIST_EACH(&ctx->told_deaths, at)
    {
        told_death *other = WEFT__LIST_ENTRY(at, told_death, link);
        if (!other->kept_ns) continue;
        kept++;
        if (!oldest || other->kept_ns < oldest->kept_ns) oldest = other;
    }
    if (kept > KEPT_MOST || (kept > 1 && (size_t)kept * weft__telling_bytes(&oldest->telling) > KEPT_BYTES))
        free_death(oldest);
}

void weft__death_told(weft__telling *telling)
{
    told_death *death = WEFT__OWNER(telling, told_death, telling);
    if (weft__telling_goes_on(telling))
        death->kept_ns = 0;
    else if (!death->kept_ns)
        keep(telling->ctx, death);
}

static bool is_certain(const weft_context *ctx, const weft__notice *told)
{
    return told->number == WEFT__DIED || (told->number == WEFT__PRESUMED_DEAD && !weft__by_agreement(ctx));
}

/* NULL: each is to be told. */
static told_death *begin(weft_context *ctx, const weft__notice *told)
{
    told_death *death = death_of(ctx, told);
    if (death || ctx->said_bye || !is_certain(ctx, told) || ctx->world_size <= ctx->told_at_once ||
        !weft__host_tree_made_of_all(ctx))
        return death;
    death = calloc(1, sizeof *death);
    if (!death) return NULL;
    death->telling.ctx = ctx;
    death->rank = told->subject;
    death->how = told->number;
    if (!weft__telling_open(&death->telling, told)) {
        free(death);
        return NULL;
    }
    weft__list_init(&death->link);
    weft__list_append(&ctx->told_deaths, &death->link);
    return death;
}

bool weft__deaths_tell(weft_context *ctx, const weft__notice *notice)
{
    told_death *death = begin(ctx, notice);
    weft__notice pass = *notice;
    WEFT__ASSERT(weft__holds_engine(ctx));
    if (!death) return false;
    pass.operation = WEFT__BREAK_PASS;
    weft__telling_along(&death->telling, &pass);
    weft__death_told(&death->telling);
    return true;
}

void weft__deaths_heard(weft_context *ctx, int from, const weft__notice *told)
{
    told_death *death;
    if (told->operation != WEFT__BREAK_PASS) return;
    death = begin(ctx, told);
    if (!death) {
        weft__telling_refuse(ctx, from, told);
        return;
    }
    weft__telling_pass_on(&death->telling, from, told);
    weft__death_told(&death->telling);
}

bool weft__deaths_answered(weft_context *ctx, int from, const weft__notice *told)
{
    told_death *death;
    if (told->operation < WEFT__BREAK_PASSED) return false;
    death = death_of(ctx, told);
    if (!death) return true;
    weft__telling_take_answer(&death->telling, from, told);
    weft__death_told(&death->telling);
    return true;
}

void weft__deaths_lose(weft_context *ctx, int rank)
{
    if (ctx->said_bye) return;
    WEFT__LIST_EACH(&ctx->told_deaths, at)
    {
        told_death *death = WEFT__LIST_ENTRY(at, told_death, link);
        weft__telling_loses(&death->telling, rank);
        if (weft__telling_goes_on(&death->telling)) death->kept_ns = 0;
    }
}

int64_t weft__deaths_check(weft_context *ctx, int64_t now_ns)
{
    int64_t next = WEFT__NEVER;
    WEFT__LIST_EACH(&ctx->told_deaths, at)
    {
        told_death *death = WEFT__LIST_ENTRY(at, told_death, link);
        if (!death->kept_ns) continue;
        if (now_ns >= death->kept_ns)
            free_death(death);
        else if (death->kept_ns < next)
            next = death->kept_ns;
    }
    return next;
}

void weft__deaths_close(weft_context *ctx)
{
    WEFT__LIST_EACH(&ctx->told_deaths, at) free_death(WEFT__LIST_ENTRY(at, told_death, link));
}
