/* test_p2p_prefix.c - the first bytes of a long message, that come with its announcement: what happens while
 * they are on their way. */
#include "p2p_ends.h"

enum { HEAD = 32, LONG = 150 };

static int set_up_heads(void **state)
{
    if (set_up(state)) return -1;
    for (int i = 0; i < 2; i++) {
        ends[i].transport.prefix_bytes = HEAD;
        weft__p2p_route(ends[i].p2p, 1 - i, &ends[i].transport);
    }
    return 0;
}

/* What rank 0 sends next; NULL: nothing. */
static const weft__frame *next_frame(void)
{
    return weft__list_empty(&ends[0].out) ? NULL
                                          : &WEFT__OWNER(ends[0].out.next, weft__outgoing, link)->frame;
}

static void is_announced_with(uint32_t head)
{
    assert_non_null(next_frame());
    assert_int_equal(next_frame()->kind, WEFT__FRAME_RTS);
    assert_int_equal(next_frame()->length, head);
}

static void is_received(const side *in, const side *out, size_t bytes)
{
    assert_true(in->over && out->over);
    assert_int_equal(in->status, WEFT_OK);
    assert_int_equal(out->status, WEFT_OK);
    assert_int_equal(in->recv_result.bytes, bytes);
    assert_memory_equal(in->data, out->data, bytes);
}

/* The receive is there before, between header and head, or after; and what was taken of the credit comes back
 * each time, or soon no head would go any more. */
static void a_head_comes_along(void **state)
{
    side out, in;
    (void)state;
    for (int i = 0; i < 3 * WEFT__CREDIT_BYTES / HEAD; i++) {
        if (i % 3 == 0) receive_from(&in, 1, 0, 5, LONG, false);
        send_to(&out, 0, 1, 5, LONG, false);
        is_announced_with(HEAD);
        assert_true(begin_move(0));
        if (i % 3 == 1) receive_from(&in, 1, 0, 5, LONG, false);
        end_move(0);
        assert_false(out.over);
        if (i % 3 == 2) receive_from(&in, 1, 0, 5, LONG, false);
        move_all();
        is_received(&in, &out, LONG);
    }
}

static void without_credit_it_is_announced_alone(void **state)
{
    static side out[WEFT__CREDIT_BYTES / HEAD];
    int heads = WEFT__CREDIT_BYTES / (HEAD + (int)sizeof(weft__frame)), n = heads + 3;
    side in;
    (void)state;
    for (int i = 0; i < n; i++) {
        send_to(&out[i], 0, 1, 5, LONG, false);
        is_announced_with(i < heads ? HEAD : 0);
        assert_true(move(0));
    }
    for (int i = 0; i < n; i++) {
        receive_from(&in, 1, 0, 5, LONG, false);
        move_all();
        is_received(&in, &out[i], LONG);
    }
}

/* The answer overtakes the head: nothing more of the message goes before all of that has gone. */
static void the_answer_may_come_before_its_head_has_gone(void **state)
{
    static const size_t rooms[] = {LONG, LONG - 1};
    (void)state;
    for (int i = 0; i < 2; i++) {
        side out, in;
        receive_from(&in, 1, 0, 5, rooms[i], false);
        send_to(&out, 0, 1, 5, LONG, false);
        assert_true(begin_move(0));
        assert_true(move(1));
        weft__p2p_poll(ends[0].p2p);
        assert_null(next_frame());
        assert_false(out.over);
        end_move(0);
        assert_int_equal(out.over, i == 1);
        move_all();
        assert_true(out.over && in.over);
        assert_int_equal(out.status, WEFT_OK);
        assert_int_equal(in.status, i ? WEFT_ERR_TRUNCATED : WEFT_OK);
        if (!i) is_received(&in, &out, LONG);
    }
}

/* Before anything of it has gone, half gone, or gone; the receive takes what comes next. */
static void given_up_with_its_head(void **state)
{
    (void)state;
    for (int i = 0; i < 3 * WEFT__CREDIT_BYTES / HEAD; i++) {
        side first, second, in;
        receive_from(&in, 1, 0, 5, LONG, false);
        send_to(&first, 0, 1, 5, LONG, false);
        is_announced_with(HEAD);
        if (i % 3) assert_true(begin_move(0));
        if (i % 3 == 2) end_move(0);
        weft__p2p_cancel_send(ends[0].p2p, first.send);
        if (i % 3 == 1) end_move(0);
        send_to(&second, 0, 1, 5, LONG - 1, false);
        move_all();
        assert_false(first.over);
        is_received(&in, &second, LONG - 1);
    }
}

/* A receive that was cancelled too late, since it had met its message: it does not wait for another one when
 * its sender takes that back. */
static void cancelled_on_both_sides(void **state)
{
    side first, second, in, last;
    (void)state;
    receive_from(&in, 1, 0, 5, LONG, false);
    send_to(&first, 0, 1, 5, LONG, false);
    assert_true(begin_move(0));
    end_move(0);
    assert_true(weft__p2p_flowing(in.recv));
    weft__p2p_take_no_other(in.recv);
    weft__p2p_cancel_send(ends[0].p2p, first.send);
    move_all();
    assert_true(in.over);
    assert_int_equal(in.status, WEFT_ERR_CANCELLED);
    receive_from(&last, 1, 0, 5, LONG, false);
    send_to(&second, 0, 1, 5, LONG, false);
    move_all();
    is_received(&last, &second, LONG);
}

/* While its head comes straight in, or comes in elsewhere for it, or the rest comes. */
static void a_receive_given_up_on_the_way(void **state)
{
    static const char untouched[LONG];
    (void)state;
    for (int i = 0; i < 3; i++) {
        side out, in, after, last;
        if (i != 1) receive_from(&in, 1, 0, 5, LONG, false);
        send_to(&out, 0, 1, 5, LONG, false);
        assert_true(begin_move(0));
        if (i == 1) receive_from(&in, 1, 0, 5, LONG, false);
        if (i == 2) end_move(0);
        weft__p2p_cancel_receive(ends[1].p2p, in.recv);
        if (i == 2) memset(in.data, 0, sizeof in.data);
        if (i != 2) end_move(0);
        move_all();
        assert_true(out.over && !in.over);
        assert_int_equal(out.status, WEFT_OK);
        assert_memory_equal(in.data, untouched, LONG);
        receive_from(&last, 1, 0, 5, LONG, false);
        send_to(&after, 0, 1, 5, LONG, false);
        move_all();
        is_received(&last, &after, LONG);
    }
}

static weft__envelope of_operation(int peer, uint64_t signature)
{
    return (weft__envelope){.peer = peer,
                            .channel = WEFT__CHANNEL_COLLECTIVE,
                            .group = 1,
                            .sequence = 1,
                            .dtype = WEFT_INT8,
                            .signature = {signature, 0}};
}

/* Its announcement is thrown away with its head, and what that took of the credit comes back: or soon no head
 * would go any more. */
static void a_head_of_another_operation_costs_nothing(void **state)
{
    weft__envelope from = of_operation(0, 1), to = of_operation(1, 2);
    side in, out;
    (void)state;
    about(&in, 0, 0, false);
    assert_non_null(weft__p2p_receive(ends[1].p2p, &from, in.data, LONG, &in.recv_result, &in.completion));
    for (int i = 0; i < 3 * WEFT__CREDIT_BYTES / HEAD; i++) {
        about(&out, 1, 0, false);
        out.send = weft__p2p_send(ends[0].p2p, &to, out.data, LONG, &out.completion);
        assert_non_null(out.send);
        is_announced_with(HEAD);
        move_all();
        weft__p2p_cancel_send(ends[0].p2p, out.send);
        move_all();
    }
    assert_false(in.over);
}

static void its_sender_goes_in_the_middle_of_a_head(void **state)
{
    side out, in;
    bool early = *state != NULL;
    if (!early) receive_from(&in, 1, 0, 5, LONG, false);
    send_to(&out, 0, 1, 5, LONG, false);
    assert_true(begin_move(0));
    if (early) receive_from(&in, 1, 0, 5, LONG, false);
    weft__p2p_drop(ends[1].p2p, 0);
    assert_true(in.over);
    assert_int_equal(in.status, WEFT_ERR_PEER);
    under_way[0].where = NULL;
    end_move(0);
    weft__p2p_drop(ends[0].p2p, 1);
    assert_true(out.over);
}

/* What does not fit is told when all of it is there: until then it lies where it is being written. */
static void a_receive_of_another_sort_in_the_middle_of_one(void **state)
{
    static const size_t lengths[] = {40, LONG};
    (void)state;
    for (int i = 0; i < 2; i++) {
        side out, in;
        send_to(&out, 0, 1, 5, lengths[i], false);
        assert_true(begin_move(0));
        receive_from(&in, 1, 0, 5, LONG, true);
        end_move(0);
        move_all();
        assert_true(in.over && out.over);
        assert_int_equal(in.status, WEFT_ERR_MISMATCH);
        assert_int_equal(out.status, WEFT_OK);
    }
}

int main(void)
{
    static int early;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_head_comes_along, set_up_heads, tear_down),
        cmocka_unit_test_setup_teardown(without_credit_it_is_announced_alone, set_up_heads, tear_down),
        cmocka_unit_test_setup_teardown(the_answer_may_come_before_its_head_has_gone, set_up_heads,
                                        tear_down),
        cmocka_unit_test_setup_teardown(given_up_with_its_head, set_up_heads, tear_down),
        cmocka_unit_test_setup_teardown(cancelled_on_both_sides, set_up_heads, tear_down),
        cmocka_unit_test_setup_teardown(a_receive_given_up_on_the_way, set_up_heads, tear_down),
        cmocka_unit_test_setup_teardown(a_head_of_another_operation_costs_nothing, set_up_heads, tear_down),
        cmocka_unit_test_setup_teardown(its_sender_goes_in_the_middle_of_a_head, set_up_heads, tear_down),
        cmocka_unit_test_prestate_setup_teardown(its_sender_goes_in_the_middle_of_a_head, set_up_heads,
                                                 tear_down, &early),
        cmocka_unit_test_setup_teardown(a_receive_of_another_sort_in_the_middle_of_one, set_up_heads,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
