/* What calls do to a store's values, wherever it keeps them: decided first, then
 * applied; who waits is woken. */
#include "kv_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static weft__kv_table *table;
static weft__kv_result result;
static weft__kv_value *found;

static int setup(void **state)
{
    (void)state;
    table = weft__kv_table_new(4096);
    return table ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    weft__kv_table_free(table);
    return 0;
}

static weft_status run(const weft__kv_call *call)
{
    weft__kv_change change;
    weft_status status = weft__kv_decide(table, call, &change, &result, &found);
    return status ? status : weft__kv_apply(table, &change);
}

static weft__kv_call call_of(weft__kv_kind kind, const char *key)
{
    return (weft__kv_call){.kind = kind, .n = 1, .keys = key, .key_bytes = strlen(key) + 1};
}

static weft_status set(const char *key, const char *value)
{
    weft__kv_call call = call_of(WEFT__KV_SET, key);
    call.value = value;
    call.value_bytes = strlen(value);
    return run(&call);
}

static weft_status add(const char *key, int64_t amount)
{
    weft__kv_call call = call_of(WEFT__KV_ADD, key);
    call.amount = amount;
    return run(&call);
}

static bool holds(const char *key, const char *value)
{
    weft__kv_call call = call_of(WEFT__KV_GET, key);
    weft_status status = run(&call);
    if (!value) return status == WEFT_PENDING && result.missing == 1;
    return status == WEFT_OK && result.bytes == strlen(value) && !memcmp(found->data, value, result.bytes);
}

static void deciding_changes_nothing(void **state)
{
    weft__kv_call call = call_of(WEFT__KV_ADD, "un");
    weft__kv_change change;
    (void)state;
    call.amount = 3;
    assert_int_equal(weft__kv_decide(table, &call, &change, &result, &found), WEFT_OK);
    assert_true(holds("un", NULL));
    assert_int_equal(weft__kv_apply(table, &change), WEFT_OK);
    assert_true(holds("un", "3"));
}

static void numbers_are_read_exactly(void **state)
{
    static const char *const good[] = {"0", "-0", "007", "-9223372036854775808", "9223372036854775807"};
    static const char *const bad[] = {"",
                                      "-",
                                      "+1",
                                      " 1",
                                      "1 ",
                                      "1.0",
                                      "0x1",
                                      "9223372036854775808",
                                      "--1",
                                      "1e3",
                                      "nine",
                                      "-9223372036854775809",
                                      "111111111111111111111111"};
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        set("uk", good[i]);
        assert_int_equal(add("uk", 0), WEFT_OK);
        assert_int_equal(result.number, strtoll(good[i], NULL, 10));
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        set("uk", bad[i]);
        assert_int_equal(add("uk", 1), WEFT_ERR_ARGUMENT);
        assert_true(holds("uk", bad[i]));
    }
    set("uk", "9223372036854775800");
    assert_int_equal(add("uk", 8), WEFT_ERR_ARGUMENT);
    assert_int_equal(add("uk", 7), WEFT_OK);
}

static void the_limit_is_kept(void **state)
{
    char value[4096];
    size_t before;
    (void)state;
    memset(value, 'v', sizeof value);
    value[sizeof value - 1] = '\0';
    assert_int_equal(set("uk", value), WEFT_ERR_MEMORY);
    assert_true(holds("uk", NULL));
    value[3000] = '\0';
    assert_int_equal(set("uk", value), WEFT_OK);
    assert_int_equal(set("uk", value), WEFT_OK); /* in its own place */
    before = weft__kv_used(table);
    assert_int_equal(set("uother", value), WEFT_ERR_MEMORY);
    assert_true(holds("uk", value));
    assert_int_equal(weft__kv_used(table), before);
    weft__kv_call call = call_of(WEFT__KV_DELETE, "uk");
    assert_int_equal(run(&call), WEFT_OK);
    assert_int_equal(weft__kv_used(table), 0);
    assert_int_equal(set("uother", value), WEFT_OK);
}

static void spaces_are_apart(void **state)
{
    (void)state;
    set("uk", "user's");
    set("wk", "own");
    assert_true(holds("uk", "user's") && holds("wk", "own"));
}

static void many_keys(void **state)
{
    char key[32], value[32];
    (void)state;
    weft__kv_table_free(table);
    table = weft__kv_table_new(1 << 20);
    for (int i = 0; i < 5000; i++) {
        snprintf(key, sizeof key, "ukey%d", i);
        snprintf(value, sizeof value, "value %d", i);
        assert_int_equal(set(key, value), WEFT_OK);
    }
    for (int i = 0; i < 5000; i++) {
        snprintf(key, sizeof key, "ukey%d", i);
        snprintf(value, sizeof value, "value %d", i);
        assert_true(holds(key, value));
        weft__kv_call call = call_of(WEFT__KV_DELETE, key);
        if (i % 2) run(&call);
    }
    for (int i = 0; i < 5000; i++) {
        snprintf(key, sizeof key, "ukey%d", i);
        snprintf(value, sizeof value, "value %d", i);
        assert_true(holds(key, i % 2 ? NULL : value));
    }
}

static void waiters_are_woken_in_order(void **state)
{
    weft__kv_waiter first, second, third;
    weft__kv_call one = call_of(WEFT__KV_GET, "ua"),
                  two = {.kind = WEFT__KV_WAIT, .n = 2, .keys = "ub\0ua", .key_bytes = 6};
    (void)state;
    assert_int_equal(run(&one), WEFT_PENDING);
    assert_int_equal(weft__kv_hang(table, &one, &first), WEFT_OK);
    assert_int_equal(weft__kv_hang(table, &one, &second), WEFT_OK);
    assert_int_equal(run(&two), WEFT_PENDING);
    assert_int_equal(result.missing, 2);
    assert_int_equal(weft__kv_hang(table, &two, &third), WEFT_OK);
    assert_null(weft__kv_woken(table));
    set("ua", "x");
    assert_ptr_equal(weft__kv_woken(table), &first);
    assert_ptr_equal(weft__kv_woken(table), &second);
    assert_null(weft__kv_woken(table)); /* the third hangs on ub */
    assert_int_equal(run(&two), WEFT_PENDING);
    assert_int_equal(result.missing, 1);
    assert_int_equal(result.which[0], 0);
    set("ub", "x");
    assert_ptr_equal(weft__kv_woken(table), &third);
    assert_int_equal(run(&two), WEFT_OK);
    one.keys = "uc";
    assert_int_equal(weft__kv_hang(table, &one, &first), WEFT_OK);
    weft__kv_unhang(table, &first);
    set("uc", "x");
    assert_null(weft__kv_woken(table));
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(deciding_changes_nothing),
        TEST(numbers_are_read_exactly),
        TEST(the_limit_is_kept),
        TEST(spaces_are_apart),
        TEST(many_keys),
        TEST(waiters_are_woken_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
