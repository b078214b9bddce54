/* test_rendezvous_answer.c - what the server at which ranks meet says to one that joins, and what it cannot
 * say. */
#include "bundle.h"
#include "rendezvous_answer.h"
#include "status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char nonce[WEFT__RUN_NONCE_BYTES];

static weft__rendezvous_answer welcome(int rank, int world)
{
    return (
        weft__rendezvous_answer){.header = {.kind = WEFT__RENDEZVOUS_JOINED, .rank = rank, .world = world},
                                 .payload = nonce,
                                 .bytes = sizeof nonce};
}

static void expect_refused(weft__rendezvous_answer answer, int rank, int world, const char *sentence)
{
    assert_int_equal(weft__rendezvous_answer_welcome(&answer, rank, world), WEFT_ERR_MISMATCH);
    assert_non_null(strstr(weft_last_error(), sentence));
}

static void test_welcome(void **state)
{
    weft__rendezvous_answer good = welcome(2, 3), short_one = good;
    (void)state;
    assert_int_equal(weft__rendezvous_answer_welcome(&good, -1, -1), WEFT_OK);
    assert_int_equal(weft__rendezvous_answer_welcome(&good, 2, 3), WEFT_OK);
    expect_refused(welcome(3, 3), -1, -1, "gives rank 3 in a world of 3: expected a world of 1 to 1048576");
    expect_refused(welcome(-1, 3), -1, -1, "gives rank -1 in a world of 3: expected");
    expect_refused(welcome(0, 0), -1, -1, "gives rank 0 in a world of 0: expected");
    expect_refused(welcome(1, 3), 2, 3, "gives rank 1 in a world of 3: expected 2 and 3");
    expect_refused(welcome(2, 4), 2, 3, "gives rank 2 in a world of 4: expected 2 and 3");
    expect_refused(welcome(2, 4), -1, 3, "gives rank 2 in a world of 4: expected -1 and 3");
    short_one.bytes--;
    expect_refused(short_one, -1, -1, "has 15 bytes instead of 16");
}

static void test_failure(void **state)
{
    weft__rendezvous_answer a = {.header = {.kind = WEFT__RENDEZVOUS_FAILED, .status = WEFT_ERR_AUTH},
                                 .payload = "no reason",
                                 .bytes = 2};
    (void)state;
    assert_int_equal(weft__rendezvous_answer_failure(&a), WEFT_ERR_AUTH);
    assert_string_equal(weft_last_error(), "no");
    a.header.status = 7;
    a.bytes = 0;
    assert_int_equal(weft__rendezvous_answer_failure(&a), WEFT_ERR_SYSTEM);
    assert_non_null(strstr(weft_last_error(), "failed with status 7"));
}

static void test_read(void **state)
{
    weft__rendezvous_header h = {.magic = WEFT__RENDEZVOUS_MAGIC, .version = WEFT__RENDEZVOUS_VERSION};
    weft__rendezvous_answer a;
    (void)state;
    assert_true(weft__rendezvous_answer_read(&h, sizeof h, &a));
    assert_int_equal(a.bytes, 0);
    assert_false(weft__rendezvous_answer_read(&h, sizeof h - 1, &a));
    h.version++;
    assert_false(weft__rendezvous_answer_read(&h, sizeof h, &a));
}

static void test_blocks(void **state)
{
    static const char *const blocks[] = {"same one", "same two", "other on"};
    weft__rendezvous_answer a = {.bytes = 0};
    char got[3][8], room[4 * 20 + 8];
    char *bundle = weft__bundle_make((const void *const *)blocks, 3, 8, 5, &a.bytes);
    (void)state;
    a.payload = bundle;
    assert_int_equal(weft__rendezvous_answer_blocks(&a, 3, 8, room, got), WEFT_OK);
    for (int i = 0; i < 3; i++) assert_memory_equal(got[i], blocks[i], 8);
    assert_int_equal(weft__rendezvous_answer_blocks(&a, 4, 8, room, got), WEFT_ERR_MISMATCH);
    assert_string_equal(weft_last_error(), "the server sent 3 blocks of 8 bytes instead of 4 of 8");
    assert_int_equal(weft__rendezvous_answer_blocks(&a, 3, 16, room, got), WEFT_ERR_MISMATCH);
    a.bytes--;
    assert_int_equal(weft__rendezvous_answer_blocks(&a, 3, 8, room, got), WEFT_ERR_MISMATCH);
    assert_non_null(strstr(weft_last_error(), "that is damaged"));
    a.bytes = 3;
    assert_int_equal(weft__rendezvous_answer_blocks(&a, 3, 8, room, got), WEFT_ERR_MISMATCH);
    assert_string_equal(weft_last_error(), "the server sent 3 bytes that are no bundle");
    free(bundle);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_welcome),
        cmocka_unit_test(test_failure),
        cmocka_unit_test(test_read),
        cmocka_unit_test(test_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
