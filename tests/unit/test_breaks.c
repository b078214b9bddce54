/* test_breaks.c - what another rank tells of a broken group says what became of its culprit too: a death is
 * believed at once, and a leaving unless who has left will say so itself. */
#include "lone_rank.h"
#include "notice.h"
#include "peer.h"
#include "watchdog.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* FAR has never talked to this rank, which shares memory with LONE_NEAR. */
enum { FAR = 0, TELLER = 4 };

static weft_context *ctx;
static weft_group *world;

/* TELLER says that the world is broken, since that rank has left or died. */
static void tell(int culprit, bool left)
{
    static const int all[] = {0, 1, 2, 3, 4};
    weft__notice notice = {.kind = WEFT__NOTICE_BROKEN,
                           .subject = WEFT_ERR_PEER,
                           .group = 1,
                           .number = 7,
                           .culprit = culprit,
                           .left = left};
    snprintf(notice.text, sizeof notice.text, "barrier #7: rank %d has gone", culprit);
    snprintf(notice.fate, sizeof notice.fate, "%s", left ? "has left" : "has died (killed by SIGKILL)");
    ctx = lone_rank_open((lone_wires){NULL, NULL});
    world = ctx->world = lone_rank_group(ctx, all, LONE_WORLD, "world", 1);
    weft__watchdog_take(ctx, TELLER, &notice, sizeof notice);
    assert_int_equal(weft_group_status(world), WEFT_ERR_PEER);
}

static bool is_gone(int rank)
{
    return atomic_load(&ctx->peers[rank].gone);
}

static void test_a_death_is_believed(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        int culprit = i ? LONE_NEAR : FAR, dead[LONE_WORLD] = {-1};
        tell(culprit, false);
        assert_true(is_gone(culprit));
        assert_int_equal(weft_group_dead(world, dead, LONE_WORLD), 1);
        assert_int_equal(dead[0], culprit);
        lone_rank_close(ctx);
    }
}

/* Who shares memory with it waits for an answer to its goodbye, which who is taken for gone does not get. */
static void test_a_leaving_that_will_be_told(void **state)
{
    (void)state;
    tell(LONE_NEAR, true);
    assert_false(is_gone(LONE_NEAR));
    lone_rank_close(ctx);
}

static void test_a_leaving_that_will_not(void **state)
{
    int dead[LONE_WORLD];
    (void)state;
    tell(FAR, true);
    assert_true(is_gone(FAR));
    assert_int_equal(weft_group_dead(world, dead, LONE_WORLD), 0);
    lone_rank_close(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_death_is_believed),
        cmocka_unit_test(test_a_leaving_that_will_be_told),
        cmocka_unit_test(test_a_leaving_that_will_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
