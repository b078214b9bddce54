/* test_board.c - what a rank shows of its groups to the others of its host. */
#include "board.h"
#include "segment_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { MOST = 1000 };

static weft__segment *segments[2];
static const weft__row nothing;

static int set_up(void **state)
{
    (void)state;
    segment_join_all(2, segments);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) weft__segment_free(segments[i]);
    return 0;
}

static bool is_broken(uint64_t group)
{
    weft__row row;
    return weft__board_read(segments[1], 0, group, &row) && atomic_load(&row.broken);
}

/* That a group broke is shown for longer than it lives, until the row is needed. */
static void test_a_broken_one_is_left_standing(void **state)
{
    weft__row *row[MOST] = {NULL}, *broken = weft__board_take(segments[0], 7, &nothing);
    int n = 0;
    (void)state;
    assert_non_null(broken);
    assert_false(is_broken(7));
    atomic_store(&broken->broken, 1);
    weft__board_leave(broken);
    assert_true(is_broken(7));
    while (n < MOST && (row[n] = weft__board_take(segments[0], (uint64_t)n + 100, &nothing))) n++;
    assert_in_range(n, 2, MOST - 1);
    assert_ptr_equal(row[n - 1], broken); /* the last that could be had */
    assert_false(is_broken(7));
    assert_false(is_broken((uint64_t)n - 1 + 100));
    for (int i = 0; i < n; i++) weft__board_give(segments[0], row[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_broken_one_is_left_standing, set_up, tear_down)};
    return cmocka_run_group_tests_name("board", tests, NULL, NULL);
}
