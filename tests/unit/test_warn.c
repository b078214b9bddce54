/* test_warn.c - a line about an operation that waits for a peer tells of the others that wait for that peer, and have
 * waited long enough; the rest is told of in its own time.  The clock is the test's. */
#include "engine.h"
#include "lone_rank.h"
#include "warn.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { PEER = 4, OTHER = 0 };
enum { OLDEST, AS_OLD, YOUNG, ELSEWHERE, SENDS }; /* one each */

static weft_context *ctx;
static weft_request *reqs[SENDS];

/* All of them under way: they are too large to go before somebody receives them, and nobody does. */
static void begin(int64_t now_ns)
{
    static const int all[] = {0, 1, 2, 3, 4};
    static char large[300000];
    weft_group *world;
    ctx = lone_rank_open((lone_wires){NULL, NULL});
    world = ctx->world = lone_rank_group(ctx, all, LONE_WORLD, "world", 1);
    for (int i = 0; i < SENDS; i++) {
        int peer = i == ELSEWHERE ? OTHER : PEER;
        assert_int_equal(weft_isend(world, large, sizeof large, WEFT_INT8, peer, 0, NULL, &reqs[i]), WEFT_OK);
        reqs[i]->warn_ns = i == YOUNG ? now_ns + ctx->warn_after_ns / 2 : now_ns;
    }
}

static void end(void)
{
    for (int i = 0; i < SENDS; i++) weft_release(reqs[i]);
    lone_rank_close(ctx);
}

static int64_t tell(int which, int64_t now_ns)
{
    int64_t next;
    weft__engine_take(ctx);
    next = weft__warn_check(reqs[which], now_ns);
    weft__engine_drop(ctx);
    return next;
}

static void test_tells_of_those_that_are_due(void **state)
{
    int64_t now = weft__now_ns(), later;
    (void)state;
    begin(now);
    assert_true(tell(OLDEST, now) == WEFT__NEVER);
    assert_true(reqs[OLDEST]->warned && reqs[AS_OLD]->warned);
    assert_false(reqs[YOUNG]->warned || reqs[ELSEWHERE]->warned);
    later = tell(YOUNG, now + ctx->warn_after_ns / 2); /* it is due, but the peer was told of not long ago */
    assert_true(later == now + ctx->warn_after_ns);
    assert_false(reqs[YOUNG]->warned);
    assert_true(tell(YOUNG, later) == WEFT__NEVER);
    assert_true(reqs[YOUNG]->warned && !reqs[ELSEWHERE]->warned);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_tells_of_those_that_are_due)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
