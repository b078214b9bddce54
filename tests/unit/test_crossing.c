/* test_crossing.c - copies to where another processor reads: every byte, and no other. */
#include "crossing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROOM (4 * WEFT__CROSSING_BYTES)

static unsigned char from[ROOM], to[ROOM];
static unsigned seed = 1;

static int setup(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof from; i++) from[i] = (unsigned char)rand_r(&seed);
    return 0;
}

static void only_these_written(size_t start, size_t bytes)
{
    assert_memory_equal(to + start, from + 1, bytes);
    for (size_t i = 0; i < sizeof to; i++)
        if (i < start || i >= start + bytes) assert_int_equal(to[i], 0xa5);
}

static void test_stream_copy(void **state)
{
    (void)state;
    for (size_t start = 0; start < 130; start += 13)
        for (size_t bytes = 0; bytes <= 1000; bytes += 83) {
            memset(to, 0xa5, sizeof to);
            weft__stream_copy(to + start, from + 1, bytes);
            only_these_written(start, bytes);
        }
}

/* Whatever it holds the way for, and through the changes from one to the other. */
static void test_cross(void **state)
{
    weft__crossing near = {0}, far = {.far = true, .left = 3};
    (void)state;
    for (int i = 0; i < 200; i++) {
        weft__crossing *crossing = i % 2 ? &near : &far;
        size_t bytes = WEFT__CROSSING_BYTES / 2 + (size_t)rand_r(&seed) % (2 * WEFT__CROSSING_BYTES);
        size_t start = (size_t)rand_r(&seed) % 100;
        memset(to, 0xa5, sizeof to);
        weft__cross(crossing, to + start, from + 1, bytes);
        only_these_written(start, bytes);
    }
}

/* A way that is held for far is tried again after a while, and short copies tell nothing. */
static void test_tried_again(void **state)
{
    weft__crossing crossing = {.far = true, .left = 5};
    (void)state;
    weft__cross(&crossing, to, from, WEFT__CROSSING_BYTES - 1);
    assert_int_equal(crossing.left, 5);
    for (unsigned i = 5; i-- > 0;) {
        weft__cross(&crossing, to, from, WEFT__CROSSING_BYTES);
        assert_true(crossing.far);
        assert_int_equal(crossing.left, i);
    }
    weft__cross(&crossing, to, from, WEFT__CROSSING_BYTES);
    assert_true(crossing.left > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_stream_copy), cmocka_unit_test(test_cross),
                                       cmocka_unit_test(test_tried_again)};
    alarm(60);
    return cmocka_run_group_tests_name("crossing", tests, setup, NULL);
}
