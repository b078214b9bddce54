/* test_left_queue.c - what was submitted while the engine was held has begun when its holder has let go of it, by
 * whichever way out. */
#include "engine.h"
#include "group.h"
#include "lone_rank.h"
#include "skip.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { OTHER = 4, OFTEN = 1000 /* uses in a row, after which a thread keeps the engine */ };

static weft_context *ctx;
static weft_group *group;

static int begin(void **state)
{
    const int both[] = {LONE_ME, OTHER};
    (void)state;
    ctx = lone_rank_open((lone_wires){NULL, NULL});
    group = lone_rank_group(ctx, both, 2, "pair", 1);
    return 0;
}

static int end(void **state)
{
    (void)state;
    lone_rank_close(ctx);
    return 0;
}

/* Submits with the engine held, so that it is queued, and lets go. */
static void submit_and_leave(void)
{
    static int32_t data = 1;
    uint64_t before = group->started;
    weft_request *req;
    weft__engine_take(ctx);
    assert_int_equal(weft_broadcast(group, &data, 1, WEFT_INT32, 0, NULL, &req), WEFT_OK);
    assert_false(weft__mpsc_empty(&ctx->submitted));
    weft__engine_drop(ctx);
    assert_true(weft__mpsc_empty(&ctx->submitted));
    assert_int_equal(group->started, before + 1);
    weft_release(req);
}

static void begins_as_the_engine_is_dropped(void **state)
{
    (void)state;
    assert_false(weft__biased_is_kept(&ctx->engine));
    submit_and_leave();
}

/* Somebody waits, so the keeper takes the short way out. */
static void begins_as_its_keeper_leaves(void **state)
{
    (void)state;
    if (!ctx->engine.keeps) SKIP("this system has no heavy fences (membarrier, expedited)");
    for (int i = 0; i < OFTEN; i++) {
        weft__engine_take(ctx);
        weft__engine_drop(ctx);
    }
    assert_true(weft__biased_is_kept(&ctx->engine));
    atomic_fetch_add(&ctx->drivers, 1);
    submit_and_leave();
    atomic_fetch_sub(&ctx->drivers, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(begins_as_the_engine_is_dropped, begin, end),
        cmocka_unit_test_setup_teardown(begins_as_its_keeper_leaves, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
