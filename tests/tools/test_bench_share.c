/* test_bench_share.c - sizes shared among algorithms by their times. */
#include "bench_share.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void expect(const struct share *s, int first, int second)
{
    int ends[SHARE_RIVALS_MOST];
    double sum = share_best(s, ends);
    assert_int_equal(ends[0], first);
    assert_int_equal(ends[1], second);
    assert_int_equal(ends[s->rivals - 1], s->sizes);
    assert_true(fabs(sum - share_cost(s, ends)) < 1e-9);
}

static void test_two(void **state)
{
    struct share s = {2, 5, {{1, 2, 4, 8, 16}, {3, 3, 3, 3, 3}}};
    (void)state;
    expect(&s, 2, 5);
    for (int i = 0; i < 5; i++) s.times[1][i] = 100;
    expect(&s, 5, 5); /* the second one is never worth it */
    for (int i = 0; i < 5; i++) s.times[1][i] = 0.5;
    expect(&s, 0, 5);
    s.times[1][1] = 2.5; /* one that is out of line does not split the sizes */
    expect(&s, 0, 5);
}

static void test_three(void **state)
{
    struct share s = {3, 6, {{1, 2, 4, 8, 16, 32}, {4, 4, 3, 3, 9, 9}, {9, 9, 9, 9, 4, 4}}};
    int ends[SHARE_RIVALS_MOST];
    (void)state;
    expect(&s, 2, 4);
    for (int i = 0; i < 6; i++) s.times[1][i] = 50; /* the one in the middle is left out */
    share_best(&s, ends);
    assert_int_equal(ends[0], ends[1]);
    assert_int_equal(ends[1], 4);
}

/* Against every way there is. */
static void test_least(void **state)
{
    struct share s = {3, 7, {{0}}};
    (void)state;
    for (uint64_t seed = 1, word = 1; seed < 200; seed++) {
        int best[SHARE_RIVALS_MOST], ends[SHARE_RIVALS_MOST] = {0, 0, 7};
        double sum;
        for (int i = 0; i < 3; i++) {
            for (int k = 0; k < 7; k++) {
                word = word * UINT64_C(6364136223846793005) + seed; /* Knuth's generator */
                s.times[i][k] = 1 + (double)(word >> 54);
            }
        }
        sum = share_best(&s, best);
        for (ends[0] = 0; ends[0] <= 7; ends[0]++)
            for (ends[1] = ends[0]; ends[1] <= 7; ends[1]++) assert_true(sum < share_cost(&s, ends) + 1e-9);
    }
}

static void test_pays(void **state)
{
    const struct share s = {2, 10, {{0}}};
    (void)state;
    assert_false(share_pays(&s, 5, 5));
    assert_false(share_pays(&s, 4.95, 5));
    assert_true(share_pays(&s, 4.8, 5));
    assert_false(share_pays(&s, 5.2, 5));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two),
        cmocka_unit_test(test_three),
        cmocka_unit_test(test_least),
        cmocka_unit_test(test_pays),
    };
    return cmocka_run_group_tests_name("bench_share", tests, NULL, NULL);
}
