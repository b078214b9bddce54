/* test_presumed.c - what others presume of a rank, where a majority decides (runtime/fault/views.md): it is believed after a
 * while, if one that lives says so; of two that presume each other dead one goes. */
#include "engine.h"
#include "lone_rank.h"
#include "peer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static weft_context *ctx;

static void begin(void)
{
    ctx = lone_rank_open((lone_wires){NULL, NULL});
    ctx->by_majority = true;
    weft__engine_take(ctx);
}

static void end(void)
{
    weft__engine_drop(ctx);
    lone_rank_close(ctx);
}

static bool is_gone(int rank)
{
    return atomic_load(&ctx->peers[rank].gone);
}

static void accuse(int rank, int by)
{
    weft__peer_accused(ctx, rank, by, "is lost: it is silent");
}

/* The clock says that it is so late that all are judged. */
static void judge_all(void)
{
    int64_t last = 0;
    for (int i = 0; i < LONE_WORLD; i++)
        if (ctx->peers[i].accused_ns > last) last = ctx->peers[i].accused_ns;
    (void)weft__peer_suspects_check(ctx, last);
}

static void test_it_is_believed_later(void **state)
{
    (void)state;
    begin();
    accuse(0, 4);
    assert_false(is_gone(0));
    assert_true(weft__peer_is_accused(ctx, 0));
    (void)weft__peer_suspects_check(ctx, ctx->peers[0].accused_ns - 1);
    assert_false(is_gone(0));
    judge_all();
    assert_true(is_gone(0));
    end();
}

static void test_who_is_presumed_dead_itself_is_not_believed(void **state)
{
    (void)state;
    begin();
    accuse(0, 4);
    weft__peer_gone(ctx, 4, WEFT__PRESUMED_DEAD, true, "is lost: it is silent");
    assert_false(weft__peer_is_accused(ctx, 0));
    judge_all();
    assert_false(is_gone(0));
    accuse(0, 2); /* somebody else says so too */
    judge_all();
    assert_true(is_gone(0));
    end();
}

/* Both words came while the first one was still waiting. */
static void test_the_second_who_says_so_is_heard_too(void **state)
{
    (void)state;
    begin();
    accuse(0, 4);
    accuse(0, 2);
    weft__peer_gone(ctx, 4, WEFT__PRESUMED_DEAD, true, "is lost: it is silent");
    judge_all();
    assert_true(is_gone(0));
    end();
}

static void test_of_two_the_higher_goes(void **state)
{
    (void)state;
    begin();
    accuse(0, 2);
    accuse(2, 0);
    judge_all();
    assert_false(is_gone(0));
    assert_true(is_gone(2));
    end();
}

static void test_of_two_that_one_goes_that_more_have_lost(void **state)
{
    (void)state;
    begin();
    accuse(0, 2);
    accuse(2, 0);
    accuse(4, 0);
    accuse(0, 4);
    judge_all();
    assert_true(is_gone(0));
    assert_false(is_gone(2));
    assert_false(is_gone(4));
    end();
}

/* 4 was spared since more had lost 0; one of those has gone since, and so has to go itself. */
static void test_who_was_spared_is_judged_again(void **state)
{
    (void)state;
    begin();
    accuse(4, 0);
    accuse(0, 4);
    accuse(0, 2);
    ctx->peers[0].accused_ns += 1000 * WEFT__MS;
    (void)weft__peer_suspects_check(ctx, ctx->peers[4].accused_ns);
    assert_false(is_gone(4));
    weft__peer_gone(ctx, 2, WEFT__PRESUMED_DEAD, true, "is lost: it is silent");
    (void)weft__peer_suspects_check(ctx, ctx->peers[4].accused_ns);
    assert_true(is_gone(4));
    assert_false(is_gone(0));
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_is_believed_later),
        cmocka_unit_test(test_who_is_presumed_dead_itself_is_not_believed),
        cmocka_unit_test(test_the_second_who_says_so_is_heard_too),
        cmocka_unit_test(test_of_two_the_higher_goes),
        cmocka_unit_test(test_of_two_that_one_goes_that_more_have_lost),
        cmocka_unit_test(test_who_was_spared_is_judged_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
