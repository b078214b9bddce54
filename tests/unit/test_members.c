/* test_members.c - every member is found, nobody else is, and no search is long, however members lie apart. */
#include "members.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum { WORLD = 1 << 20 };

static int *world_of(int size, int first, int stride)
{
    int *world = malloc((size_t)size * sizeof *world);
    for (int i = 0; i < size; i++) world[i] = first + i * stride;
    return world;
}

static void check_all(const weft__members *members, const int *world, int size)
{
    unsigned char *in = calloc(WORLD, 1);
    for (int i = 0; i < size; i++) {
        assert_int_equal(weft__members_find(members, world, size, world[i]), i);
        in[world[i]] = 1;
    }
    for (int r = 0; r < WORLD; r += 1 + r / 4096)
        if (!in[r]) assert_int_equal(weft__members_find(members, world, size, r), -1);
    assert_int_equal(weft__members_find(members, world, size, -1), -1);
    assert_int_equal(weft__members_find(members, world, size, WORLD), -1);
    free(in);
}

/* How many slots are looked at for all members together. */
static long looks(const weft__members *members, const int *world, int size)
{
    const uint32_t mask = (UINT32_C(1) << members->bits) - 1;
    long n = 0;
    for (int i = 0; i < size; i++)
        for (uint32_t at = weft__members_home(members, world[i]);; at = (at + 1) & mask) {
            n++;
            if (members->slots[at] == i) break;
        }
    return n;
}

/* A member of 4,096 costs what one of 16 does. */
static void test_short_searches(void **state)
{
    (void)state;
    for (int size = 16; size <= 4096; size *= 4)
        for (int stride = 1; stride < 256; stride++) {
            int *world = world_of(size, 1, stride);
            weft__members members;
            assert_true(weft__members_reserve(&members, size));
            weft__members_fill(&members, world, size);
            assert_non_null(members.slots);
            assert_true(1 << members.bits <= 4 * size);
            assert_true(looks(&members, world, size) <= 3L * size);
            if (stride % 16 == 0) check_all(&members, world, size);
            weft__members_free(&members);
            free(world);
        }
}

/* In any order: a group may be given so. */
static void test_shuffled(void **state)
{
    enum { SIZE = 1000 };
    int *world = world_of(SIZE, 0, 17);
    uint32_t word = 1;
    weft__members members;
    (void)state;
    for (int i = SIZE - 1; i > 0; i--) {
        word = word * 1664525u + 1013904223u;
        const int j = (int)((word >> 8) % (uint32_t)(i + 1)), was = world[i];
        world[i] = world[j];
        world[j] = was;
    }
    assert_true(weft__members_reserve(&members, SIZE));
    weft__members_fill(&members, world, SIZE);
    check_all(&members, world, SIZE);
    weft__members_free(&members);
    free(world);
}

/* Few, all of the job, and those that are not known yet, need no slots. */
static void test_without_slots(void **state)
{
    int *all = world_of(4096, 0, 1), *few = world_of(WEFT__MEMBERS_FEW, 5, 3), *later = world_of(64, 3, 2);
    weft__members members;
    (void)state;
    assert_true(weft__members_reserve(&members, 4096));
    weft__members_fill(&members, all, 4096);
    assert_null(members.slots);
    check_all(&members, all, 4096);
    assert_true(weft__members_reserve(&members, WEFT__MEMBERS_FEW));
    assert_null(members.slots);
    weft__members_fill(&members, few, WEFT__MEMBERS_FEW);
    check_all(&members, few, WEFT__MEMBERS_FEW);
    assert_true(weft__members_reserve(&members, 64));
    check_all(&members, later, 64);
    weft__members_free(&members);
    free(all), free(few), free(later);
}

/* As where many might come, and few do. */
static void test_fewer(void **state)
{
    int *world = world_of(20, 1000, 3);
    weft__members members;
    (void)state;
    assert_true(weft__members_reserve(&members, 4096));
    weft__members_fill(&members, world, 20);
    assert_true(1 << members.bits <= 80);
    check_all(&members, world, 20);
    weft__members_free(&members);
    free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_short_searches), cmocka_unit_test(test_shuffled),
                                       cmocka_unit_test(test_without_slots), cmocka_unit_test(test_fewer)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
