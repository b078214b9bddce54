/* test_slots.c - rows of slots in the blocks of a segment: where they lie, and what is left in one from
 * before. */
#include "segment_ranks.h"
#include "slots.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static void test_rows(void **state)
{
    weft__segment *segments[2];
    uint64_t taken[64] = {0}, again;
    size_t n = 0, slot_bytes = weft__slot_bytes(2);
    (void)state;
    segment_join_with(2, weft__slots_arena(2), segments);
    while (n < 64 && (taken[n] = weft__slots_take(segments[1]))) {
        weft__member_slots *slots = weft__slots_at(segments[0], taken[n]);
        assert_non_null(slots);
        assert_true(atomic_load(&slots->use) == 1 && atomic_load(&slots->consumed) == 0);
        assert_int_equal((uintptr_t)slots % WEFT__LINE, 0);
        for (unsigned s = 0; s < WEFT__SLOTS; s++)
            memset(weft__slot_area(slots, s, slot_bytes), (int)n, slot_bytes);
        atomic_store(&slots->slot[3].sequence, 99);
        atomic_store(&slots->consumed, ++n);
    }
    assert_in_range(n, 8, 63);
    for (size_t i = 0; i < n; i++) {
        weft__member_slots *slots = weft__slots_at(segments[1], taken[i]);
        assert_true(atomic_load(&slots->consumed) == i + 1); /* no area reaches into another row */
        assert_int_equal(*weft__slot_area(slots, 3, slot_bytes), (int)i);
    }
    atomic_store(&weft__slots_at(segments[1], taken[2])->begun, 99);
    atomic_store(&weft__slots_at(segments[1], taken[2])->floor, 99);
    weft__segment_give(segments[1], taken[2]);
    again = weft__slots_take(segments[1]);
    assert_true(again == taken[2]);
    assert_int_equal(atomic_load(&weft__slots_at(segments[0], again)->slot[3].sequence), 0);
    assert_int_equal(atomic_load(&weft__slots_at(segments[0], again)->consumed), 0);
    assert_int_equal(atomic_load(&weft__slots_at(segments[0], again)->begun), 0);
    assert_int_equal(atomic_load(&weft__slots_at(segments[0], again)->floor), 0);
    assert_int_equal(atomic_load(&weft__slots_at(segments[0], again)->use), 2);
    assert_null(weft__slots_at(segments[0], again + 8));
    for (int i = 0; i < 2; i++) weft__segment_free(segments[i]);
}

/* A rank's rows stay small however many ranks there are, and so does what a round takes of all. */
static void test_sizes(void **state)
{
    enum { KIB = 1024, MIB = 1024 * KIB, GROUPS = 8 };
    (void)state;
    for (int n = 2; n <= 16; n++) {
        size_t slots = GROUPS * weft__slots_arena(n).block_bytes;
        assert_in_range(weft__slot_bytes(n), 64 * KIB, 256 * KIB);
        assert_true(weft__slot_bytes(n) * (size_t)n <= MIB);
        assert_true(slots <= (size_t)(n <= 4 ? 9 : n <= 8 ? 5 : 3) * MIB);
    }
    assert_true(weft__slot_bytes(1000000) == weft__slot_bytes(WEFT__SEGMENT_RANKS_MAX));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows), cmocka_unit_test(test_sizes)};
    return cmocka_run_group_tests_name("slots", tests, NULL, NULL);
}
