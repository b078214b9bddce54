/* test_watchdog_woken.c - when the watchdog is woken: at once by who asks it for something outside a call of progress, and within one
 * once behind it, for all that was asked of it there. */
#include "alarm.h"
#include "engine.h"
#include "lone_rank.h"

#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

static weft_context *ctx;
static int64_t due_ns;
static bool asks;          /* in each turn of the engine */
static uint64_t meanwhile; /* how often it had been woken when that had been asked */

/* How often since the last time. */
static uint64_t woken(void)
{
    uint64_t times = 0;
    return read(weft__alarm_fd(), &times, sizeof times) == (ssize_t)sizeof times ? times : 0;
}

static void turn(void)
{
    if (!asks) return;
    weft__alarm_check(ctx, --due_ns);
    weft__alarm_check(ctx, --due_ns);
    meanwhile = woken();
}

static int begin(void **state)
{
    (void)state;
    ctx = lone_rank_open((lone_wires){NULL, turn});
    assert_true(weft__alarm_fd() >= 0);
    due_ns = weft__now_ns();
    asks = false;
    woken();
    return 0;
}

static int end(void **state)
{
    (void)state;
    asks = false;
    lone_rank_close(ctx);
    return 0;
}

static void test_at_once(void **state)
{
    (void)state;
    weft__alarm_check(ctx, --due_ns);
    assert_int_equal(woken(), 1);
    weft__alarm_check(ctx, due_ns + 1); /* it looks sooner than that */
    assert_int_equal(woken(), 0);
    weft__engine_take(ctx);
    weft__alarm_check(ctx, --due_ns);
    assert_int_equal(woken(), 1);
    weft__engine_drop(ctx);
}

static void test_behind_a_call_of_progress(void **state)
{
    (void)state;
    asks = true;
    weft__engine_take(ctx);
    weft__engine_progress(ctx);
    assert_int_equal(meanwhile, 0);
    assert_int_equal(woken(), 1);
    asks = false;
    weft__engine_progress(ctx);
    assert_int_equal(woken(), 0);
    weft__engine_drop(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(test_at_once, begin, end),
                                       cmocka_unit_test_setup_teardown(test_behind_a_call_of_progress, begin,
                                                                       end)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
