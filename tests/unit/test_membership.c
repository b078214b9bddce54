/* test_membership.c - a job with more ranks than a word of the watchdogs has room for has no views, and says so. */
#include "engine.h"
#include "lone_rank.h"
#include "membership.h"
#include "peer.h"
#include "status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ALL = 5000, LOST = 0 };

static bool is_stuck_in_a_job_of(int ranks, char *text, size_t bytes)
{
    static const int lost[] = {LOST};
    weft_context *ctx = lone_rank_open((lone_wires){NULL, NULL});
    weft__peer *own = ctx->peers, *all = calloc((size_t)ranks, sizeof *all);
    bool stuck;
    assert_non_null(all);
    weft__engine_take(ctx);
    ctx->by_majority = true;
    weft__peer_gone(ctx, LOST, WEFT__PRESUMED_DEAD, true, "is lost: it is silent");
    memcpy(all, own, LONE_WORLD * sizeof *all);
    ctx->peers = all;
    ctx->world_size = ranks;
    assert_false(weft__membership_agrees(ctx, lost, 1));
    stuck = weft__membership_is_stuck(ctx, text, bytes);
    ctx->peers = own;
    ctx->world_size = LONE_WORLD;
    weft__engine_drop(ctx);
    lone_rank_close(ctx);
    free(all);
    return stuck;
}

static void test_a_job_that_is_too_large(void **state)
{
    char text[WEFT__SENTENCE_BYTES];
    (void)state;
    assert_true(is_stuck_in_a_job_of(ALL, text, sizeof text));
    assert_non_null(strstr(text, "a job of 5000 ranks is too large"));
    assert_non_null(strstr(text, "WEFT_QUORUM=any"));
}

static void test_a_job_that_is_not(void **state)
{
    char text[WEFT__SENTENCE_BYTES];
    (void)state;
    assert_false(is_stuck_in_a_job_of(LONE_WORLD, text, sizeof text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_job_that_is_too_large),
        cmocka_unit_test(test_a_job_that_is_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
