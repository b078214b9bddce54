/* test_deaths.c - what a rank keeps of deaths that it has told of does not grow with the hosts of the job without bounds. */
#include "deaths.h"
#include "engine.h"
#include "host_tree.h"
#include "lone_rank.h"
#include "notice.h"
#include "peer.h"
#include "telling.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { HOSTS = 8192, DEATHS = 48 };
#define BYTES_MOST ((size_t)4 << 20) /* runtime/fault/deaths.h */

/* A rank on each host, of which this one alone is there: so nothing is awaited of what is told, and all is kept. */
static weft__peer *all_gone_but(const weft_context *ctx)
{
    weft__peer *all = calloc(HOSTS, sizeof *all);
    assert_non_null(all);
    memcpy(all, ctx->peers, LONE_WORLD * sizeof *all);
    for (int i = 0; i < HOSTS; i++) {
        all[i].local = -1;
        all[i].host_lead = all[i].first_on_host = i;
        atomic_store(&all[i].gone, i == LONE_ME ? WEFT__LIVES : WEFT__DIED);
    }
    return all;
}

static int kept(const weft_context *ctx)
{
    int n = 0;
    WEFT__LIST_EACH(&ctx->told_deaths, at) n++;
    return n;
}

static void tell(weft_context *ctx, int rank)
{
    const weft__notice notice = {
        .kind = WEFT__NOTICE_GONE, .subject = rank, .number = WEFT__DIED, .culprit = -1, .text = "has died"};
    assert_true(weft__deaths_tell(ctx, &notice));
}

static void test_memory_is_bounded(void **state)
{
    weft_context *ctx = lone_rank_open((lone_wires){NULL, NULL});
    weft__peer *own = ctx->peers, *all = all_gone_but(ctx);
    weft__telling of_one = {.ctx = ctx};
    size_t bytes;
    (void)state;
    weft__engine_take(ctx);
    ctx->peers = all;
    ctx->world_size = HOSTS;
    tell(ctx, LONE_ME + 1);
    bytes = weft__telling_bytes(&of_one);
    assert_true(DEATHS * bytes > BYTES_MOST);
    for (int i = 2; i <= DEATHS; i++) {
        tell(ctx, LONE_ME + i);
        assert_true((size_t)kept(ctx) * bytes <= BYTES_MOST);
    }
    assert_true((size_t)(kept(ctx) + 1) * bytes > BYTES_MOST); /* and no fewer than have room */
    weft__deaths_close(ctx);
    assert_int_equal(kept(ctx), 0);
    weft__seats_free(ctx->host_tree);
    ctx->host_tree = NULL;
    ctx->peers = own;
    ctx->world_size = LONE_WORLD;
    weft__engine_drop(ctx);
    lone_rank_close(ctx);
    free(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_memory_is_bounded)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
