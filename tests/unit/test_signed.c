/* test_signed.c - signatures that are compared afterwards: how many messages they take, when these go, and that whoever
 * means something else is told of, whichever of the two is ahead and by how much. */
#include "engine.h"
#include "group_break.h"
#include "leave_together.h"
#include "lone_rank.h"
#include "op.h"
#include "signing.h"

#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { OTHER = 4, USUAL = 5, ODD = 6, BATCH = 64, ID = 1, REST = 0 };

typedef struct signed_op {
    uint64_t number;
    weft__signature signature;
} signed_op;

static struct {
    uint64_t group, count;
    signed_op of[BATCH];
} last; /* message that this rank has sent */
static int messages;
static size_t told;
static bool leaves; /* this rank has said so */

static weft_context *ctx;
static weft_group *group;

static void note_sent(const weft__outgoing *out)
{
    if (out->frame.kind != WEFT__FRAME_CONTROL) return;
    if (out->frame.tag == WEFT__MESSAGE_LEAVING) leaves = true;
    if (out->frame.tag != WEFT__MESSAGE_SIGNED) return;
    assert_false(leaves);
    assert_true(out->frame.length <= sizeof last);
    memcpy(&last, out->payload, out->frame.length);
    assert_int_equal(out->frame.length, 16 + last.count * sizeof(signed_op));
    messages++;
    told += last.count;
}

static weft_group *make_group(void)
{
    const int both[] = {LONE_ME, OTHER};
    weft_group *made = weft__group_new(ctx, both, 2, "apart", WEFT_FOREVER);
    weft__group_params params = weft__own_params(ctx);
    assert_non_null(made);
    made->owner = WEFT__OF_CONTEXT;
    params.program = true;
    weft__engine_take(ctx);
    assert_int_equal(weft__group_ready(made, ID, &params), WEFT_OK);
    weft__engine_drop(ctx);
    assert_non_null(made->seats);
    return made;
}

static void open_rank(void)
{
    messages = 0;
    told = 0;
    leaves = false;
    ctx = lone_rank_open((lone_wires){note_sent, NULL});
    ctx->peers[OTHER].first_on_host = OTHER; /* the others are on the host of rank 0 */
}

static int begin(void **state)
{
    (void)state;
    open_rank();
    group = make_group();
    return 0;
}

static int end(void **state)
{
    (void)state;
    lone_rank_close(ctx);
    return 0;
}

static weft__signature sum_of(size_t count)
{
    const weft__op op = {.kind = WEFT__OP_ALL_REDUCE,
                         .dtype = WEFT_INT32,
                         .memory = WEFT_MEMORY_CUDA,
                         .count = count};
    return weft__op_sign(&op);
}

/* This rank begins its next one: with a signature that goes there afterwards, or in host memory. */
static void begin_number(uint64_t number, size_t count, bool is_signed)
{
    bool stays;
    weft__engine_take(ctx);
    group->started = number;
    group->recent[number % WEFT__RECENT] = sum_of(count);
    if (is_signed)
        stays = weft__sign(group, number, sum_of(count));
    else
        stays = !group->signing || weft__begun_untold(group, number);
    weft__engine_drop(ctx);
    assert_int_equal(stays, weft_group_status(group) == WEFT_OK);
}

/* The other one tells of n, from a number on, of which that of `odd` is another operation. */
static void hear_of(uint64_t first, uint64_t n, uint64_t odd)
{
    struct {
        uint64_t group, count;
        signed_op of[WEFT__SIGNED_MOST];
    } word = {ID, n, {{0}}};
    for (uint64_t i = 0; i < n; i++)
        word.of[i] = (signed_op){first + i, sum_of(first + i == odd ? ODD : USUAL)};
    weft__engine_take(ctx);
    ctx->p2p_events.control(&ctx->p2p_events, OTHER, WEFT__MESSAGE_SIGNED, &word, 16 + n * sizeof word.of[0]);
    weft__engine_drop(ctx);
}

static void check_differs(uint64_t number)
{
    char expected[80];
    assert_int_equal(weft_group_status(group), WEFT_ERR_MISMATCH);
    snprintf(expected, sizeof expected, "operation #%d on group apart: rank 3 passed ", (int)number);
    assert_non_null(strstr(weft_last_error(), expected));
    assert_non_null(strstr(weft_last_error(), ", rank 4 passed "));
    assert_non_null(strstr(weft_last_error(), "all_reduce of 5 int32"));
    assert_non_null(strstr(weft_last_error(), "all_reduce of 6 int32"));
}

/* ---- how many, and when ---- */

static void takes_a_message_for_32(void **state)
{
    enum { SUMS = 320 };
    (void)state;
    for (uint64_t n = 1; n <= SUMS; n++) begin_number(n, USUAL, true);
    assert_int_equal(messages, SUMS / 32);
    assert_int_equal(told, SUMS);
    assert_int_equal(last.of[0].number, SUMS - 31);
    assert_int_equal(last.of[31].number, SUMS);
    for (uint64_t n = 1; n <= SUMS; n += 32) hear_of(n, 32, REST);
    assert_int_equal(weft_group_status(group), WEFT_OK);
}

static void tells_one_alone_in_time(void **state)
{
    int64_t before = weft__now_ns(), due;
    (void)state;
    begin_number(1, USUAL, true);
    begin_number(2, USUAL, true);
    weft__engine_take(ctx);
    due = weft__signing_protocol.due(ctx, before);
    assert_true(due >= before + WEFT__SIGNED_AFTER_NS && due <= weft__now_ns() + WEFT__SIGNED_AFTER_NS);
    assert_true(atomic_load(&ctx->check_ns) <= due); /* the watchdog comes then */
    assert_int_equal(weft__signing_protocol.due(ctx, due - 1), due);
    assert_int_equal(messages, 0);
    assert_true(weft__signing_protocol.due(ctx, due) == WEFT__NEVER);
    weft__engine_drop(ctx);
    assert_int_equal(messages, 1);
    assert_int_equal(told, 2);
}

/* ---- who differs ---- */

static const uint64_t numbers[] = {1, 31, 32, 33, 64};

static void compares_what_comes_later(void **state)
{
    for (size_t i = 0; i < WEFT__LENGTH(numbers); i++) {
        if (i) begin(state);
        for (uint64_t n = 1; n <= BATCH; n++) begin_number(n, USUAL, true);
        hear_of(1, 32, numbers[i]);
        if (numbers[i] > 32) {
            assert_int_equal(weft_group_status(group), WEFT_OK);
            hear_of(33, 32, numbers[i]);
        }
        check_differs(numbers[i]);
        if (i + 1 < WEFT__LENGTH(numbers)) end(state);
    }
}

static void compares_what_came_before(void **state)
{
    for (size_t i = 0; i < WEFT__LENGTH(numbers); i++) {
        if (i) begin(state);
        hear_of(1, 32, numbers[i]);
        hear_of(33, 32, numbers[i]);
        for (uint64_t n = 1; n < numbers[i]; n++) begin_number(n, USUAL, true);
        assert_int_equal(weft_group_status(group), WEFT_OK);
        begin_number(numbers[i], USUAL, true);
        check_differs(numbers[i]);
        if (i + 1 < WEFT__LENGTH(numbers)) end(state);
    }
}

/* More than any table of a group's remembers, on either side. */
static void keeps_what_is_far_ahead(void **state)
{
    enum { FAR = 1024, AT = 777 };
    (void)state;
    for (uint64_t n = 1; n <= FAR; n++) begin_number(n, USUAL, true);
    for (uint64_t n = 1; n <= FAR; n += 32) hear_of(n, 32, REST);
    assert_int_equal(weft_group_status(group), WEFT_OK);
    for (uint64_t n = FAR + 1; n <= 2 * FAR; n += 32) hear_of(n, 32, FAR + AT);
    for (uint64_t n = FAR + 1; n < FAR + AT; n++) begin_number(n, USUAL, true);
    assert_int_equal(weft_group_status(group), WEFT_OK);
    begin_number(FAR + AT, USUAL, true);
    check_differs(FAR + AT);
}

static void check_lone(int number, int lone, int other)
{
    char expected[64], another[64];
    assert_int_equal(weft_group_status(group), WEFT_ERR_MISMATCH);
    snprintf(expected, sizeof expected, "operation #%d on group apart: rank %d passed ", number, lone);
    snprintf(another, sizeof another, "and rank %d passed what is in host memory", other);
    assert_non_null(strstr(weft_last_error(), expected));
    assert_non_null(strstr(weft_last_error(), another));
}

/* One of the two has under a number what it tells nothing of. */
static void finds_what_only_one_tells(void **state)
{
    begin_number(1, USUAL, true);
    begin_number(2, USUAL, false);
    begin_number(3, USUAL, true);
    hear_of(1, 1, REST);
    assert_int_equal(weft_group_status(group), WEFT_OK);
    hear_of(2, 2, REST);
    check_lone(2, OTHER, LONE_ME);
    end(state);
    begin(state);
    begin_number(1, USUAL, true);
    begin_number(2, USUAL, true);
    begin_number(3, USUAL, true);
    hear_of(1, 1, REST);
    hear_of(3, 1, REST);
    check_lone(2, LONE_ME, OTHER);
    end(state);
    begin(state);
    hear_of(1, 3, REST);
    begin_number(1, USUAL, true);
    begin_number(2, USUAL, false);
    begin_number(3, USUAL, true);
    check_lone(2, OTHER, LONE_ME);
    end(state);
    begin(state);
    begin_number(1, ODD, false);
    hear_of(1, 1, REST);
    check_differs(1);
}

/* It waits for the other one, which waits for it: nothing follows that could tell. */
static void finds_it_as_it_begins(void **state)
{
    hear_of(1, 2, REST);
    begin_number(1, USUAL, true);
    begin_number(2, ODD, false);
    check_differs(2);
    end(state);
    begin(state);
    hear_of(2, 1, REST); /* the first is not told of there either */
    begin_number(1, USUAL, false);
    begin_number(2, USUAL, true);
    assert_int_equal(weft_group_status(group), WEFT_OK);
}

/* ---- of a graph ---- */

static void tells_what_a_graph_records(void **state)
{
    weft__op op = {.kind = WEFT__OP_ALL_REDUCE,
                   .dtype = WEFT_INT32,
                   .memory = WEFT_MEMORY_CUDA,
                   .count = USUAL};
    char text[128];
    (void)state;
    op.recorded = true;
    assert_false(weft__same_signature(weft__op_sign(&op), sum_of(USUAL)));
    weft__signature_text(weft__op_sign(&op), text, sizeof text);
    assert_string_equal(text, "all_reduce of 5 int32 (sum) in device memory, recorded in a graph");
    weft__engine_take(ctx);
    group->started = 1;
    weft__sign(group, 1, weft__op_sign(&op));
    weft__engine_drop(ctx);
    hear_of(1, 1, REST);
    assert_int_equal(weft_group_status(group), WEFT_ERR_MISMATCH);
    assert_non_null(
        strstr(weft_last_error(), "device memory, recorded in a graph, rank 4 passed all_reduce"));
}

/* ---- of a member that tells without end ---- */

static void keeps_no_more_than_a_limit(void **state)
{
    enum { MOST = WEFT__SIGNED_APART_MOST, BEYOND = MOST + 320, END = MOST + 640 };
    struct mallinfo2 before = mallinfo2(), after;
    (void)state;
    for (uint64_t n = 1; n < BEYOND; n += 32) hear_of(n, 32, REST);
    after = mallinfo2();
    for (uint64_t n = BEYOND + 1; n < END; n += 32) hear_of(n, 32, REST);
    for (uint64_t n = END + 1; n < 4 * END; n += 32) hear_of(n, 32, REST);
    assert_true(mallinfo2().hblkhd + mallinfo2().uordblks <= after.hblkhd + after.uordblks);
    assert_true(after.hblkhd + after.uordblks - before.hblkhd - before.uordblks < 2 * 24 * MOST);
    for (uint64_t n = 1; n < 4 * END; n++) begin_number(n, n > MOST && n % 2 ? ODD : USUAL, true);
    assert_int_equal(weft_group_status(group), WEFT_OK); /* those beyond it are not compared */
}

static void compares_again_behind_that(void **state)
{
    enum { MOST = WEFT__SIGNED_APART_MOST, FAR = MOST + 320 };
    (void)state;
    for (uint64_t n = 1; n < FAR; n += 32) hear_of(n, 32, REST);
    begin_number(1, USUAL, true);
    hear_of(FAR + 1, 1, REST); /* there is room, and those between are not kept */
    for (uint64_t n = 2; n <= FAR + 1; n++) begin_number(n, USUAL, true);
    hear_of(FAR + 2, 1, REST);
    begin_number(FAR + 2, USUAL, true);
    assert_int_equal(weft_group_status(group), WEFT_OK);
    hear_of(FAR + 3, 1, FAR + 3);
    begin_number(FAR + 3, USUAL, true);
    check_differs(FAR + 3);
}

/* ---- at the ends of a group ---- */

static void takes_what_came_before_the_group(void **state)
{
    (void)state;
    lone_rank_close(ctx);
    open_rank();
    hear_of(1, 2, 2);
    group = make_group();
    begin_number(1, USUAL, true);
    assert_int_equal(weft_group_status(group), WEFT_OK);
    begin_number(2, USUAL, true);
    check_differs(2);
}

static void tells_nothing_of_a_broken_group(void **state)
{
    (void)state;
    begin_number(1, USUAL, true);
    weft_group_abort(group, "enough");
    weft__engine_take(ctx);
    assert_true(weft__signing_protocol.due(ctx, WEFT__NEVER) == WEFT__NEVER);
    weft__engine_drop(ctx);
    assert_int_equal(messages, 0);
}

static void tells_before_the_goodbye(void **state)
{
    (void)state;
    begin_number(1, USUAL, true);
    weft__engine_take(ctx);
    assert_true(weft__signing_protocol.due(ctx, WEFT__NEVER) == WEFT__NEVER);
    weft__engine_drop(ctx);
    assert_int_equal(messages, 1);
}

/* Before it says so: the connection that it needs is made while this rank asks whether all leave. */
static void tells_as_it_begins_to_leave(void **state)
{
    (void)state;
    begin_number(1, USUAL, true);
    weft__engine_take(ctx);
    atomic_store(&ctx->closing, true);
    assert_false(weft__leave_together_check(ctx, "")); /* it waits for rank 2's word */
    weft__engine_drop(ctx);
    assert_int_equal(messages, 1);
    assert_true(leaves);
}

static void refuses_what_cannot_be(void **state)
{
    (void)state;
    hear_of(2, 2, REST);
    assert_false(ctx->peers[OTHER].refused);
    hear_of(3, 1, REST); /* told already */
    assert_true(ctx->peers[OTHER].refused);
    end(state);
    begin(state);
    hear_of(1, 0, REST);
    assert_true(ctx->peers[OTHER].refused);
}

#define SIGNED_TEST(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SIGNED_TEST(takes_a_message_for_32),
        SIGNED_TEST(tells_one_alone_in_time),
        SIGNED_TEST(compares_what_comes_later),
        SIGNED_TEST(compares_what_came_before),
        SIGNED_TEST(keeps_what_is_far_ahead),
        SIGNED_TEST(finds_what_only_one_tells),
        SIGNED_TEST(takes_what_came_before_the_group),
        SIGNED_TEST(tells_nothing_of_a_broken_group),
        SIGNED_TEST(tells_before_the_goodbye),
        SIGNED_TEST(refuses_what_cannot_be),
        SIGNED_TEST(finds_it_as_it_begins),
        SIGNED_TEST(tells_what_a_graph_records),
        SIGNED_TEST(keeps_no_more_than_a_limit),
        SIGNED_TEST(compares_again_behind_that),
        SIGNED_TEST(tells_as_it_begins_to_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
