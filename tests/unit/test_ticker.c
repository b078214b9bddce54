/* test_ticker.c - the clock by the processor's counter stays at the kernel's, also where the counter is not
 * what it was. */
#include "clock.h"
#include "skip.h"
#include "ticker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define LOOKS    20000
#define LEARN_NS (30 * WEFT__MS) /* enough to know the rate */
#define TRIES    30
#define OFF_NS   (2 * WEFT__US) /* at most: a hundred times what it mostly is, a fiftieth of a span */

static weft__ticker ticker;

static int fresh(void **state)
{
    (void)state;
    weft__ticker_open(&ticker);
    return 0;
}

static void look_for(int64_t ns)
{
    for (int64_t until = weft__now_ns() + ns; weft__now_ns() < until;) weft__ticker_now(&ticker);
}

/* Where looking at the counter leaves the virtual machine the two are never read near enough: then it is the
 * clock for good. */
static void need_the_counter(void)
{
    for (int i = 0; ticker.usable && i < TRIES; i++) {
        look_for(LEARN_NS);
        if (ticker.rate) break;
    }
    if (!ticker.rate) SKIP("the counter and the clock cannot be read near enough on this machine");
    assert_true(ticker.span);
}

/* Something may come in between of the two, on a busy machine many times over. */
static void read_surely(void)
{
    const uint64_t before = ticker.ticks;
    while (ticker.ticks == before) weft__ticker_read(&ticker);
}

static void is_right(void)
{
    for (int i = 0; i < LOOKS; i++) {
        int64_t before = weft__now_ns(), now = weft__ticker_now(&ticker), after = weft__now_ns();
        assert_true(now >= before - OFF_NS);
        assert_true(now <= after + OFF_NS);
    }
}

static void test_right(void **state)
{
    (void)state;
    is_right(); /* before the rate is known, too */
    need_the_counter();
    is_right();
}

static void test_not_usable(void **state)
{
    (void)state;
    ticker.usable = false;
    for (int i = 0; i < LOOKS; i++) {
        int64_t before = weft__now_ns(), now = weft__ticker_now(&ticker);
        assert_true(before <= now && now <= weft__now_ns());
    }
    assert_int_equal(ticker.span, 0);
}

/* As after a sleep of the machine. */
static void test_counter_jumps(void **state)
{
    (void)state;
    need_the_counter();
    ticker.ticks += UINT64_C(1) << 40;
    is_right();
    need_the_counter();
    ticker.ticks -= UINT64_C(1) << 40;
    ticker.base_ticks -= UINT64_C(1) << 40;
    is_right();
    need_the_counter();
    is_right();
}

/* What was taken for the rate is found out and not used any more. */
static void test_rate_changes(void **state)
{
    (void)state;
    need_the_counter();
    ticker.rate *= 2;
    read_surely();
    assert_int_equal(ticker.rate, 0);
    is_right();
    need_the_counter();
    is_right();
}

/* A long time without a look leaves the rate as it was. */
static void test_long_ago(void **state)
{
    uint64_t rate;
    (void)state;
    need_the_counter();
    rate = ticker.rate;
    ticker.base_ns -= 3600 * 1000 * WEFT__MS;
    read_surely();
    assert_int_equal(ticker.rate, rate);
    assert_int_equal(ticker.base_ns, ticker.ns);
    is_right();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_right, fresh),         cmocka_unit_test_setup(test_not_usable, fresh),
        cmocka_unit_test_setup(test_counter_jumps, fresh), cmocka_unit_test_setup(test_rate_changes, fresh),
        cmocka_unit_test_setup(test_long_ago, fresh),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
