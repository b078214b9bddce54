/* test_disagreement.c - a member that means another collective is told of, however many others have begun
 * here since, and whether its message meets a receive or none. */
#include "engine.h"
#include "group_break.h"
#include "lone_rank.h"
#include "op.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum {
    MANY = 3 * WEFT__RECENT,
    OTHER = 4,
    TAGS = 4 /* what a broadcast's messages have, and one that none has */
};

static weft_context *ctx;
static weft_group *group;
static weft_request *reqs[MANY];
static int32_t data[MANY + 1];

/* All begun, none over: nobody else is there.  Each is new to the group, so its root waits too. */
static void begin(void)
{
    const int both[] = {LONE_ME, OTHER};
    ctx = lone_rank_open((lone_wires){NULL, NULL});
    group = lone_rank_group(ctx, both, 2, "divided", 1);
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(weft_broadcast(group, data, i + 1, WEFT_INT32, 0, NULL, &reqs[i]), WEFT_OK);
    assert_int_equal(group->started, MANY);
}

static void end(void)
{
    for (int i = 0; i < MANY; i++) weft_release(reqs[i]);
    lone_rank_close(ctx);
}

/* The other member says that its operation of that number is a broadcast from that root, of as many. */
static void tell(uint64_t number, int root, int tag)
{
    const weft__op op = {.kind = WEFT__OP_BROADCAST,
                         .dtype = WEFT_INT32,
                         .memory = WEFT_MEMORY_HOST,
                         .root = root,
                         .count = number};
    const weft__signature theirs = weft__op_sign(&op);
    const weft__frame frame = {.kind = WEFT__FRAME_EAGER,
                               .channel = WEFT__CHANNEL_COLLECTIVE,
                               .dtype = WEFT_INT32,
                               .tag = tag,
                               .group = group->id,
                               .sequence = number,
                               .signature = {theirs.word[0], theirs.word[1]}};
    weft__sink *sink = weft__p2p_sink(ctx->p2p);
    weft__engine_take(ctx);
    sink->arrived(sink, OTHER, &frame, NULL);
    weft__engine_drop(ctx);
}

static void test_differs(void **state)
{
    static const uint64_t numbers[] = {1, 2, MANY - WEFT__RECENT, MANY - WEFT__RECENT + 1, MANY};
    (void)state;
    for (size_t i = 0; i < WEFT__LENGTH(numbers); i++)
        for (int tag = 0; tag < TAGS; tag++) {
            char expected[64];
            begin();
            snprintf(expected, sizeof expected, "operation #%d on group divided", (int)numbers[i]);
            tell(numbers[i], 1, tag);
            assert_int_equal(weft_group_status(group), WEFT_ERR_MISMATCH);
            assert_non_null(strstr(weft_last_error(), expected));
            assert_int_equal(weft_test(reqs[numbers[i] - 1]), WEFT_ERR_MISMATCH);
            end();
        }
}

static void test_agrees(void **state)
{
    (void)state;
    begin();
    for (uint64_t number = 1; number <= MANY; number++) tell(number, 0, TAGS - 1);
    assert_int_equal(weft_group_status(group), WEFT_OK);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_differs), cmocka_unit_test(test_agrees)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
