/* test_select.c - which algorithm is chosen: by rule, by what was measured, by name; what of a group's
 * members counts. */
#include "select.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static float buffer[64];

static weft__op op_of(weft__kind kind, size_t count)
{
    return (weft__op){.kind = kind,
                      .dtype = WEFT_FLOAT32,
                      .memory = WEFT_MEMORY_HOST,
                      .count = count,
                      .in = buffer,
                      .out = buffer + 32,
                      .scale = 1};
}

static weft__selection selection_of(weft__group_params params, const char *algorithms, int size, bool shared)
{
    weft__selection s;
    assert_int_equal(weft__choices_force(&params.choices, "WEFT_ALGORITHM", algorithms), WEFT_OK);
    weft__selection_make(&s, &params, size, shared);
    return s;
}

static const char *name_of(weft__kind kind, size_t count, int size, const weft__selection *s)
{
    weft__op op = op_of(kind, count);
    return weft__select(&op, size, s).name;
}

/* Every row is there, those of a kind that go one way end with one that does any size. */
static void test_table(void **state)
{
    int tunable = 0;
    (void)state;
    for (int i = 0; i < WEFT__CANDIDATES; i++) {
        const weft__candidate *c = &weft__candidates[i];
        int same_name = 0;
        assert_non_null(c->name);
        assert_true((c->way == WEFT__MESSAGES) == (c->build != NULL));
        assert_true((int)c->kind < WEFT__KINDS_CHOSEN);
        for (int k = 0; k < WEFT__CANDIDATES; k++)
            same_name += weft__candidates[k].kind == c->kind && !strcmp(weft__candidates[k].name, c->name);
        assert_int_equal(same_name, 1);
        tunable += weft__is_tunable(c);
    }
    assert_int_equal(tunable, WEFT__TUNABLES);
    for (int kind = 0; kind < WEFT__KINDS_CHOSEN; kind++)
        for (int ordered = 0; ordered < 2; ordered++)
            for (int size = 2; size < 40; size++)
                for (int shared = 0; shared < 2; shared++) {
                    weft__selection s =
                        selection_of((weft__group_params){.rank_order = (uint32_t)ordered}, "", size, shared);
                    weft__range ranges[WEFT__CANDIDATES_MOST];
                    int n = weft__selection_ranges(&s, (weft__kind)kind, shared, ranges);
                    assert_in_range(n, 1, WEFT__CANDIDATES_MOST);
                    assert_true(ranges[n - 1].upto == UINT64_MAX);
                }
}

static void test_rules(void **state)
{
    static const struct {
        weft__kind kind;
        size_t count;
        int size;
        const char *name;
    } rows[] = {
        {WEFT__OP_BARRIER, 0, 4, "dissemination"},
        {WEFT__OP_BARRIER, 0, 1, "local"},
        {WEFT__OP_ALL_REDUCE, 16384, 4, "recursive_doubling"},
        {WEFT__OP_ALL_REDUCE, 16385, 4, "recursive_halving"},
        {WEFT__OP_ALL_REDUCE, 524289, 4, "ring"},
        {WEFT__OP_ALL_REDUCE, 524288, 32, "recursive_halving"},
        {WEFT__OP_ALL_REDUCE, 524289, 32, "ring"},
        {WEFT__OP_ALL_REDUCE, 4194304, 256, "recursive_halving"},
        {WEFT__OP_ALL_REDUCE, 4194305, 256, "ring"},
        {WEFT__OP_BROADCAST, 262144, 256, "binomial_tree"},
        {WEFT__OP_BROADCAST, 262145, 256, "scatter_ring"},
        {WEFT__OP_BROADCAST, (1 << 20) - 1, 256, "scatter_ring"},
        {WEFT__OP_BROADCAST, 1 << 20, 256, "chain"},
        {WEFT__OP_BROADCAST, 32768, 4, "binomial_tree"},
        {WEFT__OP_BROADCAST, 32769, 4, "scatter_ring"},
        {WEFT__OP_BROADCAST, (1 << 19) - 1, 4, "scatter_ring"},
        {WEFT__OP_BROADCAST, 1 << 19, 4, "chain"},
        {WEFT__OP_BROADCAST, 1 << 20, 2, "binomial_tree"},
        {WEFT__OP_REDUCE, 8192, 4, "binomial_tree"},
        {WEFT__OP_REDUCE, 8193, 4, "ring_gather"},
        {WEFT__OP_REDUCE, 65536, 256, "binomial_tree"},
        {WEFT__OP_REDUCE, 65537, 256, "ring_gather"},
        {WEFT__OP_ALL_GATHER, 4096, 4, "bruck"},
        {WEFT__OP_ALL_GATHER, 4097, 4, "recursive_doubling"},
        {WEFT__OP_ALL_GATHER, 131073, 4, "ring"},
        {WEFT__OP_SPLIT_GROUP, 1, 4, "bruck"},
        {WEFT__OP_REDUCE_SCATTER, 131072, 4, "recursive_halving"},
        {WEFT__OP_REDUCE_SCATTER, 131073, 4, "ring"},
        {WEFT__OP_GATHER, 2048, 4, "binomial_tree"},
        {WEFT__OP_SCATTER, 2049, 4, "direct"},
        {WEFT__OP_ALL_TO_ALL, 4096, 4, "bruck"},
        {WEFT__OP_ALL_TO_ALL, 4097, 4, "pairwise"},
        {WEFT__OP_ALL_TO_ALL, 1, 3, "pairwise"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        weft__selection s = selection_of((weft__group_params){.rounds = 0}, "", rows[i].size, false);
        assert_string_equal(name_of(rows[i].kind, rows[i].count, rows[i].size, &s), rows[i].name);
    }
}

static void measured(weft__choices *c, weft__medium medium, int size, const char *operation,
                     const char *algorithm, uint64_t upto)
{
    int tunable = weft__tunable_find(operation, algorithm);
    assert_in_range(tunable, 0, WEFT__TUNABLES - 1);
    assert_true(weft__choices_set_limit(c, medium, weft__size_class(size), tunable, upto));
}

/* Over several hosts: few of them, and more than lanes are for; which of the limits count there. */
static void test_rules_over_hosts(void **state)
{
    static const struct {
        weft__kind kind;
        size_t count;
        int size;
        uint32_t hosts;
        const char *name;
    } rows[] = {
        {WEFT__OP_ALL_REDUCE, 1024, 8, 2, "recursive_doubling"},
        {WEFT__OP_ALL_REDUCE, 1025, 8, 2, "lanes"},
        {WEFT__OP_ALL_REDUCE, 1 << 28, 128, 16, "lanes"},
        {WEFT__OP_ALL_REDUCE, 1 << 20, 1024, 128, "recursive_halving"},
        {WEFT__OP_ALL_REDUCE, 1 << 23, 1024, 128, "recursive_halving"},
        {WEFT__OP_ALL_REDUCE, 1 << 24, 1024, 128, "ring"},
        {WEFT__OP_BROADCAST, 16384, 8, 2, "binomial_tree"},
        {WEFT__OP_BROADCAST, 16385, 8, 2, "chain"},
        {WEFT__OP_BROADCAST, 16384, 1024, 128, "binomial_tree"},
        {WEFT__OP_BROADCAST, 16385, 1024, 128, "scatter_doubling"},
        {WEFT__OP_BROADCAST, 1 << 28, 1024, 128, "scatter_doubling"},
        {WEFT__OP_BROADCAST, 1 << 20, 1024, 16, "binomial_tree"},
        {WEFT__OP_BROADCAST, 1 << 18, 64, 64, "chain"},
        {WEFT__OP_REDUCE, 16385, 8, 2, "ring_gather"},
        {WEFT__OP_REDUCE, 16385, 1024, 128, "halving_gather"},
        {WEFT__OP_REDUCE, 1 << 22, 1024, 128, "ring_gather"},
        {WEFT__OP_GATHER, 8, 1024, 2, "binomial_tree"},
        {WEFT__OP_GATHER, 9, 1024, 2, "direct"},
        {WEFT__OP_GATHER, 2047, 1024, 128, "binomial_tree"},
        {WEFT__OP_SCATTER, 2047, 1024, 128, "binomial_tree"},
        {WEFT__OP_SCATTER, 2048, 1024, 128, "direct"},
        {WEFT__OP_ALL_GATHER, 128, 8, 2, "bruck"},
        {WEFT__OP_ALL_GATHER, 129, 8, 2, "lanes"},
        {WEFT__OP_ALL_GATHER, 1024, 1024, 128, "recursive_doubling"},
        {WEFT__OP_ALL_GATHER, 4096, 1024, 128, "ring"},
        {WEFT__OP_REDUCE_SCATTER, 128, 8, 2, "recursive_halving"},
        {WEFT__OP_REDUCE_SCATTER, 129, 8, 2, "lanes"},
        {WEFT__OP_REDUCE_SCATTER, 65537, 8, 2, "ring"},
        {WEFT__OP_REDUCE_SCATTER, 8191, 1024, 128, "recursive_halving"},
        {WEFT__OP_REDUCE_SCATTER, 8192, 1024, 128, "ring"},
        {WEFT__OP_ALL_TO_ALL, 127, 8, 2, "bruck"},
        {WEFT__OP_ALL_TO_ALL, 128, 8, 2, "pairwise"},
    };
    weft__group_params params = {.hosts = 2};
    weft__selection s;
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        s = selection_of((weft__group_params){.hosts = rows[i].hosts}, "", rows[i].size, false);
        assert_string_equal(name_of(rows[i].kind, rows[i].count, rows[i].size, &s), rows[i].name);
    }
    measured(&params.choices, WEFT__MEDIUM_MESSAGES, 8, "all_reduce", "recursive_halving", WEFT__UPTO_ANY);
    s = selection_of(params, "", 8, false); /* measured on one host */
    assert_string_equal(name_of(WEFT__OP_ALL_REDUCE, 1025, 8, &s), "lanes");
    s = selection_of(params, "all_reduce:ring", 8, false);
    assert_string_equal(name_of(WEFT__OP_ALL_REDUCE, 1, 8, &s), "ring");
    params.rank_order = 1;
    s = selection_of(params, "", 8, false);
    assert_string_equal(name_of(WEFT__OP_ALL_REDUCE, 1, 8, &s), "direct");
}

/* The reach of all_read: a slot, and a cache that all operands share. */
static void test_rounds(void **state)
{
    const weft__group_params wide = {.slot_bytes = 65536}, narrow = {.slot_bytes = 1024};
    (void)state;
    assert_int_equal(selection_of(wide, "", 2, true).rounds.all_read_bytes, 16384);
    assert_int_equal(selection_of(wide, "", 3, true).rounds.all_read_bytes, 10922);
    assert_int_equal(selection_of(narrow, "", 3, true).rounds.all_read_bytes, 1024);
    assert_int_equal(selection_of(wide, "all_reduce:slice_owner", 2, true).rounds.all_read_bytes, 0);
    assert_true(selection_of(wide, "all_reduce:all_read", 2, true).rounds.all_read_bytes == UINT64_MAX);
    assert_int_equal(selection_of(wide, "all_reduce:ring", 2, true).rounds.all_read_bytes, 16384);
}

/* What a plan of rounds calls itself is the name of a row. */
static void test_rounds_names(void **state)
{
    (void)state;
    for (int kind = 0; kind < WEFT__KINDS_CHOSEN; kind++)
        for (int all = 0; all < 2; all++) {
            const weft__rounds_rule rule = {.all_read_bytes = all ? UINT64_MAX : 0};
            const weft__op op = op_of((weft__kind)kind, 16);
            weft__rounds plan;
            int rows = 0, found = 0;
            weft__rounds_plan(&plan, &op, 0, 2, 4096, &rule);
            for (int i = 0; i < WEFT__CANDIDATES; i++) {
                const weft__candidate *c = &weft__candidates[i];
                if ((int)c->kind != kind || c->way != WEFT__ROUNDS) continue;
                rows++;
                found += !strcmp(c->name, weft__rounds_algorithm(&plan));
            }
            assert_int_equal(found, rows > 0);
        }
}

static void test_rank_order(void **state)
{
    const weft__group_params ordered = {.rank_order = 1};
    weft__selection s = selection_of(ordered, "all_reduce:ring,reduce:shares_gather", 4, false);
    (void)state;
    assert_string_equal(name_of(WEFT__OP_ALL_REDUCE, 1, 4, &s), "direct"); /* a ring cannot do that */
    assert_string_equal(name_of(WEFT__OP_ALL_REDUCE, 8193, 4, &s), "shares");
    assert_string_equal(name_of(WEFT__OP_REDUCE, 1, 4, &s), "shares_gather");
    assert_string_equal(name_of(WEFT__OP_REDUCE_SCATTER, 1 << 20, 4, &s), "direct");
    assert_string_equal(name_of(WEFT__OP_ALL_GATHER, 1 << 20, 4, &s), "ring"); /* reduces nothing */
}

/* A forced algorithm by messages takes the operation out of shared memory, one by
 * rounds only counts there. */
static void test_forced(void **state)
{
    weft__selection s = selection_of((weft__group_params){.slot_bytes = 65536},
                                     "all_reduce:ring,reduce:all_read,broadcast:chain", 2, true);
    (void)state;
    assert_true(s.by_messages >> WEFT__OP_ALL_REDUCE & 1);
    assert_true(s.by_messages >> WEFT__OP_BROADCAST & 1);
    assert_true(s.by_messages >> WEFT__OP_GATHER_V & 1);
    assert_false(s.by_messages >> WEFT__OP_REDUCE & 1);
    assert_false(s.by_messages >> WEFT__OP_BARRIER & 1);
    assert_string_equal(name_of(WEFT__OP_ALL_REDUCE, 1, 2, &s), "ring");
    assert_string_equal(name_of(WEFT__OP_BROADCAST, 1, 2, &s), "chain");
    assert_string_equal(name_of(WEFT__OP_REDUCE, 1, 2, &s), "binomial_tree"); /* had it no shared memory */
    assert_string_equal(name_of(WEFT__OP_ALL_REDUCE, 1, 1, &s), "local");
}

static void test_measured(void **state)
{
    weft__group_params params = {.slot_bytes = 65536};
    weft__selection s;
    weft__range ranges[WEFT__CANDIDATES_MOST];
    (void)state;
    measured(&params.choices, WEFT__MEDIUM_MESSAGES, 4, "all_reduce", "recursive_doubling", 1024);
    measured(&params.choices, WEFT__MEDIUM_MESSAGES, 4, "all_reduce", "recursive_halving", WEFT__UPTO_NEVER);
    measured(&params.choices, WEFT__MEDIUM_MESSAGES, 4, "broadcast", "scatter_ring", WEFT__UPTO_NEVER);
    measured(&params.choices, WEFT__MEDIUM_MEMORY, 4, "all_reduce", "all_read", 131072);
    s = selection_of(params, "", 3, false);
    assert_string_equal(name_of(WEFT__OP_ALL_REDUCE, 256, 3, &s), "recursive_doubling");
    assert_string_equal(name_of(WEFT__OP_ALL_REDUCE, 257, 3, &s), "ring");
    assert_string_equal(name_of(WEFT__OP_BROADCAST, 32769, 3, &s), "chain");
    assert_int_equal(weft__selection_ranges(&s, WEFT__OP_ALL_REDUCE, false, ranges), 2);
    assert_string_equal(ranges[0].algorithm, "recursive_doubling");
    assert_int_equal(ranges[0].upto, 1024);
    assert_int_equal(ranges[0].origin, WEFT__BY_FILE);
    assert_string_equal(ranges[1].algorithm, "ring");
    assert_int_equal(ranges[1].origin, WEFT__BY_RULE);
    assert_int_equal(selection_of(params, "", 4, true).rounds.all_read_bytes, 131072);
    assert_int_equal(selection_of(params, "", 5, true).rounds.all_read_bytes, 32768 / 5); /* another class */
    s = selection_of(params, "", 5, false);
    assert_string_equal(name_of(WEFT__OP_ALL_REDUCE, 257, 5, &s), "recursive_doubling");
    params.rank_order = 1; /* which has other algorithms */
    s = selection_of(params, "", 4, false);
    assert_string_equal(name_of(WEFT__OP_ALL_REDUCE, 257, 4, &s), "direct");
    params.rank_order = 0;
    s = selection_of(params, "all_reduce:ring", 4, false);
    assert_int_equal(weft__selection_ranges(&s, WEFT__OP_ALL_REDUCE, false, ranges), 1);
    assert_string_equal(ranges[0].algorithm, "ring");
    assert_int_equal(ranges[0].origin, WEFT__BY_VARIABLE);
}

/* However the members' tables are merged, all of it comes out the same. */
static void test_merge(void **state)
{
    weft__group_params low = {.rounds = 1, .slot_bytes = 4096, .lowest = 3, .program = 1};
    weft__group_params high = {.slot_bytes = 8192, .lowest = 7, .rank_order = 1, .plain = 1}, one, other;
    (void)state;
    assert_int_equal(weft__choices_force(&low.choices, "X", "all_reduce:ring"), WEFT_OK);
    measured(&high.choices, WEFT__MEDIUM_MESSAGES, 4, "broadcast", "scatter_ring", WEFT__UPTO_NEVER);
    one = low;
    weft__group_params_merge(&one, &high);
    other = high;
    weft__group_params_merge(&other, &low);
    assert_int_equal(one.rounds, 0);
    assert_int_equal(one.slot_bytes, 4096);
    assert_int_equal(one.lowest, 3);
    assert_int_equal(one.rank_order, 1);
    assert_int_equal(one.program, 0);
    assert_int_equal(one.plain, 1);
    assert_memory_equal(&one.choices, &low.choices, sizeof low.choices);
    assert_memory_equal(&one, &other, sizeof one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_rules_over_hosts),
        cmocka_unit_test(test_rounds),
        cmocka_unit_test(test_rounds_names),
        cmocka_unit_test(test_rank_order),
        cmocka_unit_test(test_forced),
        cmocka_unit_test(test_measured),
        cmocka_unit_test(test_merge),
    };
    return cmocka_run_group_tests_name("select", tests, NULL, NULL);
}
