/* What weft-inspect makes of records: collectives side by side, and columns that fit. */
#include "inspect_events.h"
#include "inspect_steps.h"
#include "inspect_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { RANKS = 4, OPS = 8, WORLD = 1, OTHER = 2, ALL_REDUCE = 0, BROADCAST = 1, GATHER_V = 2, ISEND = 3 };

static weft__snapshot shots[RANKS];
static weft__recorded_op ops[RANKS][OPS];
static weft__blame blame;
static struct inspect_steps steps;

static int fresh(void **state)
{
    static const char *const kinds[] = {"all_reduce", "broadcast", "gather_v", "isend"};
    weft__witness witnesses[RANKS];
    (void)state;
    memset(shots, 0, sizeof shots);
    memset(ops, 0, sizeof ops);
    for (int r = 0; r < RANKS; r++) {
        shots[r].rank = r;
        shots[r].world = RANKS;
        shots[r].ops = ops[r];
        shots[r].op_room = OPS;
        for (size_t k = 0; k < 4; k++) snprintf(shots[r].names[k], sizeof shots[r].names[k], "%s", kinds[k]);
        witnesses[r] = (weft__witness){&shots[r], WEFT__PROCESS_LIVES};
    }
    return weft__blame_make(witnesses, RANKS, 1000, 0, &blame) != WEFT_OK;
}

static int over(void **state)
{
    (void)state;
    inspect_steps_free(&steps);
    weft__blame_free(&blame);
    return 0;
}

static weft__recorded_op *put(int rank, uint64_t group, int kind, uint64_t number)
{
    weft__recorded_op *op = &ops[rank][shots[rank].op_count++];
    *op = (weft__recorded_op){.record = shots[rank].op_count,
                              .group = group,
                              .number = number,
                              .kind = kind,
                              .bytes = 8,
                              .state = WEFT__RECORDED_OP_SETTLED,
                              .whom = -1,
                              .submitted_ns = (int64_t)(100 * group + number),
                              .over_ns = (int64_t)(100 * group + number)};
    return op;
}

static void make(size_t rows)
{
    assert_true(inspect_steps_make(&blame, WORLD, rows, &steps));
}

static void test_alike(void **state)
{
    (void)state;
    for (int r = 0; r < RANKS; r++)
        for (uint64_t n = 1; n <= 5; n++)
            put(r, WORLD, n == 3 ? GATHER_V : ALL_REDUCE, n)->bytes += n == 3 ? (uint64_t)r : 0;
    put(1, WORLD, ISEND, 77); /* has numbers of its own */
    make(3);
    assert_int_equal(steps.rows, 3);
    assert_int_equal(steps.first, 3);
    assert_int_equal(steps.columns, RANKS);
    for (size_t row = 0; row < 3; row++) assert_false(steps.differs[row]);
    assert_int_equal(inspect_steps_at(&steps, 2, 3)->op->number, 5);
}

static void test_not_begun(void **state)
{
    (void)state;
    for (int r = 0; r < RANKS; r++) {
        put(r, WORLD, ALL_REDUCE, 4);
        if (r != 2) put(r, WORLD, ALL_REDUCE, 5)->state = WEFT__RECORDED_OP_STARTED;
    }
    make(8);
    assert_int_equal(steps.rows, 2);
    assert_false(steps.differs[0]);
    assert_true(steps.differs[1]);
    assert_int_equal(inspect_steps_at(&steps, 1, 2)->kind, INSPECT_NOT_BEGUN);
    assert_int_equal(inspect_steps_at(&steps, 1, 1)->kind, INSPECT_BEGUN);
}

static void test_other_kind(void **state)
{
    (void)state;
    for (int r = 0; r < RANKS; r++) put(r, WORLD, r == 1 ? BROADCAST : ALL_REDUCE, 1);
    for (int r = 0; r < RANKS; r++) put(r, WORLD, ALL_REDUCE, 2)->bytes += r == 3;
    for (int r = 0; r < RANKS; r++) put(r, WORLD, ALL_REDUCE, 3)->status = r ? WEFT_OK : WEFT_ERR_PEER;
    make(8);
    assert_true(steps.differs[0]);
    assert_true(steps.differs[1]);
    assert_true(steps.differs[2]);
    assert_int_equal(inspect_steps_usual(&steps, 0)->op->kind, ALL_REDUCE);
    assert_int_equal(inspect_steps_usual(&steps, 1)->op->bytes, 8);
}

/* A record that has gone round knows nothing of what was before. */
static void test_written_over(void **state)
{
    (void)state;
    put(0, WORLD, ALL_REDUCE, 1);
    for (uint64_t n = 1; n <= OPS; n++) put(1, OTHER, ALL_REDUCE, n);
    put(2, WORLD, ALL_REDUCE, 2);
    put(0, WORLD, ALL_REDUCE, 2);
    make(8);
    assert_int_equal(steps.columns, 2); /* nothing tells that 1 is a member */
    assert_int_equal(inspect_steps_at(&steps, 0, 1)->kind, INSPECT_WRITTEN_OVER);
    assert_false(steps.differs[0]);
}

static void test_groups(void **state)
{
    uint64_t groups[INSPECT_GROUPS];
    (void)state;
    assert_int_equal(inspect_steps_groups(&blame, groups), 0);
    for (uint64_t g = 1; g <= INSPECT_GROUPS + 2; g++) put((int)g % RANKS, g, ALL_REDUCE, g);
    put(0, 1, ALL_REDUCE, 9)->submitted_ns = 900;
    assert_int_equal(inspect_steps_groups(&blame, groups), INSPECT_GROUPS);
    assert_int_equal(groups[0], 1);
    assert_int_equal(groups[1], INSPECT_GROUPS + 2);
    assert_int_equal(groups[INSPECT_GROUPS - 1], 4);
    assert_true(inspect_steps_make(&blame, 99, 8, &steps));
    assert_int_equal(steps.rows, 0);
}

static char printed[1024];

static void print(const struct inspect_table *table, int width, size_t rows)
{
    FILE *to = fmemopen(printed, sizeof printed, "w");
    inspect_table_print(table, to, width, rows);
    fclose(to);
}

static void test_table(void **state)
{
    static const struct inspect_column columns[] = {{"n", true, 0}, {"what", false, 4}, {"more", false, 4}};
    struct inspect_table table;
    char(*row)[INSPECT_CELL_BYTES];
    (void)state;
    inspect_table_open(&table, columns, 3);
    for (int i = 0; i < 2; i++) {
        row = inspect_table_row(&table);
        snprintf(row[0], sizeof *row, "%d", i ? 10 : 9);
        snprintf(row[1], sizeof *row, "%s", i ? "short" : "rather long");
        snprintf(row[2], sizeof *row, "%s", i ? "a\033[Hb" : "");
    }
    print(&table, 80, 9);
    assert_string_equal(printed, " n what        more\n 9 rather long\n10 short       a?[Hb\n");
    print(&table, 16, 9);
    assert_string_equal(printed, " n what    more\n 9 rathe..\n10 short   a?[Hb\n");
    print(&table, 3, 1);
    assert_string_equal(printed, "n what more\n9 ra..\n");
    inspect_table_close(&table);
}

static void test_wrapped(void **state)
{
    FILE *to = fmemopen(printed, sizeof printed, "w");
    (void)state;
    inspect_print_wrapped(to, "one two three four\tten", 10, 2);
    inspect_print_wrapped(to, "onewordthatislong", 10, 0);
    fclose(to);
    assert_string_equal(printed, "one two\n  three\n  four?ten\nonewordtha\ntislong\n");
}

/* Sleeps and wakes in a row are one line. */
static void test_events(void **state)
{
    weft__recorded_event none[] = {
        {.what = WEFT__HAPPENED_LINK_OPEN, .at_ns = 1000, .rank = 2},
        {.what = WEFT__HAPPENED_GROUP_BROKEN, .at_ns = 2000, .rank = 2, .number = 7}};
    weft__recorded_event many[19];
    FILE *to = fmemopen(printed, sizeof printed, "w");
    (void)state;
    for (size_t i = 0; i < 19; i++)
        many[i] = (weft__recorded_event){.what = i == 5  ? WEFT__HAPPENED_ASKED
                                                 : i % 2 ? WEFT__HAPPENED_SLEEPS
                                                         : WEFT__HAPPENED_WAKES,
                                         .at_ns = 1000 + (int64_t)i * 1000000,
                                         .rank = -1,
                                         .number = i == 5 ? 9 : WEFT__BY_SOCKETS};
    many[2] = (weft__recorded_event){.what = WEFT__HAPPENED_LINK_LOST, .at_ns = 2001000, .rank = 3};
    shots[0].events = none;
    shots[0].event_count = 2;
    shots[1].events = many;
    shots[1].event_count = 19;
    inspect_events_print(&blame, to, 100);
    fclose(to);
    assert_string_equal(printed,
                        "\nwhat happened last to each rank's engine\n"
                        "  rank 0    +0.000 s  link opened to rank 2\n"
                        "            +0.000 s  group broken: a group that is not kept, by the end of rank 2\n"
                        "  rank 1    +0.001 s  sleeps\n"
                        "            +0.002 s  link lost to rank 3\n"
                        "            +0.004 s  wakes, by its sockets\n"
                        "            +0.005 s  asked who is late: operation 9\n"
                        "            +0.018 s  wakes, by its sockets; 6 sleeps since +0.006 s\n");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fresh, over)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(test_alike),
                                       TEST(test_not_begun),
                                       TEST(test_other_kind),
                                       TEST(test_written_over),
                                       TEST(test_groups),
                                       TEST(test_events),
                                       cmocka_unit_test(test_table),
                                       cmocka_unit_test(test_wrapped)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
