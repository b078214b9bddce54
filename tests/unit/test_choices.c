/* test_choices.c - WEFT_ALGORITHM read and refused; limits kept; words from elsewhere that mean nothing. */
#include "choices.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void test_forced(void **state)
{
    weft__choices c = {{0}, {{{0}}}};
    char text[256];
    (void)state;
    assert_int_equal(weft__choices_force(&c, "V", "broadcast:chain,all_reduce:ring"), WEFT_OK);
    assert_string_equal(weft__choices_forced(&c, WEFT__OP_BROADCAST)->name, "chain");
    assert_string_equal(weft__choices_forced(&c, WEFT__OP_ALL_REDUCE)->name, "ring");
    assert_null(weft__choices_forced(&c, WEFT__OP_REDUCE));
    assert_null(weft__choices_forced(&c, WEFT__OP_SPLIT_GROUP));
    weft__choices_forced_text(&c, text, sizeof text);
    assert_string_equal(text, "broadcast:chain,all_reduce:ring");
    assert_int_equal(weft__choices_force(&c, "V", ""), WEFT_OK);
    weft__choices_forced_text(&c, text, sizeof text);
    assert_string_equal(text, "");
}

/* What is wrong is named, with what there is; and nothing has changed. */
static void test_refused(void **state)
{
    static const struct {
        const char *list, *sentence;
    } rows[] = {
        {"ring", "expected OPERATION:ALGORITHM"},
        {":ring", "expected OPERATION:ALGORITHM"},
        {",", "expected OPERATION:ALGORITHM"},
        {"all_reduce:ring,", "another pair behind the comma"},
        {"all_reduce:ring,,reduce:direct", "expected OPERATION:ALGORITHM"},
        {"all_reduce:ring, reduce:direct", "there is no operation \" reduce\""},
        {"allreduce:ring", "there is no operation \"allreduce\"; there are barrier, broadcast, reduce,"},
        {"isend:tcp", "there is no operation \"isend\""},
        {"split_group:ring", "there is no operation \"split_group\""},
        {"all_reduce:", "has no algorithm \"\""},
        {"all_reduce:Ring", "all_reduce has no algorithm \"Ring\"; it has all_read, "},
        {"all_reduce:ring:2", "has no algorithm \"ring:2\""},
        {"all_reduce:ring,all_reduce:ring", "all_reduce is there twice"},
        {"all_reduce:ringringringringringringringringringringringringringringringringringring",
         "has no algorithm"},
    };
    weft__choices c = {{0}, {{{0}}}}, before;
    (void)state;
    assert_int_equal(weft__choices_force(&c, "V", "broadcast:chain"), WEFT_OK);
    before = c;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(weft__choices_force(&c, "WEFT_ALGORITHM", rows[i].list), WEFT_ERR_ARGUMENT);
        if (!strstr(weft_last_error(), rows[i].sentence)) fail_msg("%s: %s", rows[i].list, weft_last_error());
        assert_non_null(strstr(weft_last_error(), "WEFT_ALGORITHM is \""));
        assert_memory_equal(&c, &before, sizeof c);
    }
}

static void test_limits(void **state)
{
    weft__choices c = {{0}, {{{0}}}};
    uint64_t upto = 77;
    (void)state;
    assert_false(weft__choices_limit(&c, WEFT__MEDIUM_MESSAGES, 1, 3, &upto));
    assert_int_equal(upto, 77);
    for (int power = WEFT__UPTO_LEAST_LOG2; power <= WEFT__UPTO_MOST_LOG2; power++) {
        assert_true(weft__choices_set_limit(&c, WEFT__MEDIUM_MESSAGES, 1, 3, UINT64_C(1) << power));
        assert_true(weft__choices_limit(&c, WEFT__MEDIUM_MESSAGES, 1, 3, &upto));
        assert_true(upto == UINT64_C(1) << power);
    }
    assert_true(weft__choices_set_limit(&c, WEFT__MEDIUM_MESSAGES, 1, 3, WEFT__UPTO_ANY));
    assert_true(weft__choices_limit(&c, WEFT__MEDIUM_MESSAGES, 1, 3, &upto) && upto == WEFT__UPTO_ANY);
    assert_true(weft__choices_set_limit(&c, WEFT__MEDIUM_MESSAGES, 1, 3, WEFT__UPTO_NEVER));
    assert_true(weft__choices_limit(&c, WEFT__MEDIUM_MESSAGES, 1, 3, &upto) && upto == WEFT__UPTO_NEVER);
    assert_false(weft__choices_set_limit(&c, WEFT__MEDIUM_MESSAGES, 1, 3, 1000));
    assert_false(weft__choices_set_limit(&c, WEFT__MEDIUM_MESSAGES, 1, 3, 1));
    assert_false(weft__choices_set_limit(&c, WEFT__MEDIUM_MESSAGES, 1, 3, UINT64_C(1) << 40));
    assert_false(weft__choices_limit(&c, WEFT__MEDIUM_MEMORY, 1, 3, &upto));
}

static void test_classes(void **state)
{
    (void)state;
    assert_int_equal(weft__size_class(2), 0);
    assert_int_equal(weft__size_class(3), 1);
    assert_int_equal(weft__size_class(4), 1);
    assert_int_equal(weft__size_class(5), 2);
    assert_int_equal(weft__size_class(16), 3);
    assert_int_equal(weft__size_class(17), 4);
    assert_int_equal(weft__size_class(100000), 4);
    assert_int_equal(weft__class_most(0), 2);
    assert_int_equal(weft__class_most(3), 16);
    assert_int_equal(weft__class_most(4), 0);
}

/* From a peer of another build: as if nothing had been said. */
static void test_meaningless(void **state)
{
    weft__choices c;
    uint64_t upto = 77;
    char text[256];
    (void)state;
    memset(&c, 250, sizeof c);
    for (int kind = 0; kind < WEFT__OP_KINDS; kind++) assert_null(weft__choices_forced(&c, (weft__kind)kind));
    weft__choices_forced_text(&c, text, sizeof text);
    assert_string_equal(text, "");
    assert_false(weft__choices_limit(&c, WEFT__MEDIUM_MESSAGES, 1, 3, &upto));
    assert_int_equal(upto, 77);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forced),  cmocka_unit_test(test_refused),     cmocka_unit_test(test_limits),
        cmocka_unit_test(test_classes), cmocka_unit_test(test_meaningless),
    };
    return cmocka_run_group_tests_name("choices", tests, NULL, NULL);
}
