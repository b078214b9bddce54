/* test_slot_tree.c - the tree of a group's members: everybody is in it once, and hangs where both ends say. */
#include "slot_tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { MOST = 1024 };

static int below[MOST];

/* What a branch is must be the same seen from above and from below.  Returns how many steps deep it is. */
static int walk(weft__slot_branch b, int size, int fan_out)
{
    weft__slot_branch own = weft__slot_branch_of(b.first, size, fan_out);
    int deepest = 0, members = 1, parts = weft__slot_branches(b, fan_out);
    assert_memory_equal(&own, &b, sizeof b);
    assert_in_range(parts, 0, fan_out);
    below[b.first]++;
    for (int i = 0; i < parts; i++) {
        weft__slot_branch part = weft__slot_branch_below(b, fan_out, i);
        int deep = walk(part, size, fan_out);
        assert_int_equal(part.above, b.first);
        assert_int_equal(part.first, b.first + members); /* side by side */
        assert_true(part.count > 0);
        members += part.count;
        if (deep > deepest) deepest = deep;
    }
    assert_int_equal(members, b.count);
    return deepest + 1;
}

static void test_everybody_once(void **state)
{
    static const int fans[] = {1, 2, 3, 16};
    (void)state;
    for (int size = 1; size <= 70; size++)
        for (size_t f = 0; f < sizeof fans / sizeof *fans; f++) {
            for (int i = 0; i < size; i++) below[i] = 0;
            walk((weft__slot_branch){0, size, -1}, size, fans[f]);
            for (int i = 0; i < size; i++) assert_int_equal(below[i], 1);
        }
}

static void test_few_steps(void **state)
{
    (void)state;
    assert_int_equal(walk((weft__slot_branch){0, 17, -1}, 17, 16), 2);
    assert_int_equal(walk((weft__slot_branch){0, 18, -1}, 18, 16), 3);
    assert_int_equal(walk((weft__slot_branch){0, MOST, -1}, MOST, 16), 4);
    assert_int_equal(walk((weft__slot_branch){0, 273, -1}, 273, 16), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_everybody_once),
                                       cmocka_unit_test(test_few_steps)};
    return cmocka_run_group_tests_name("slot_tree", tests, NULL, NULL);
}
