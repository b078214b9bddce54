/* test_p2p_bye.c - goodbyes of the point-to-point layer (net/p2p_bye.c): to whom they go, and who is waited for. */
#include "p2p_box.h"
#include "p2p_ends.h"

static int told, left, has_gone;

static void wire_leave(weft__transport *t, weft_status status, const char *why)
{
    (void)t;
    assert_int_equal(status, WEFT_OK);
    assert_string_equal(why, "has done its work");
}

static void wire_tell_left(weft__transport *t, int peer)
{
    (void)t;
    (void)peer;
    told++;
}

static bool wire_has_left(const weft__transport *t, int peer)
{
    (void)t;
    return has_gone & 1 << peer;
}

static void note_left(weft__p2p_events *events, int peer, weft_status status, const char *why)
{
    (void)events;
    (void)peer;
    (void)why;
    assert_int_equal(status, WEFT_OK);
    left++;
}

static void note_control(weft__p2p_events *events, int peer, int type, const void *bytes, size_t length)
{
    (void)events;
    (void)peer;
    (void)type;
    (void)bytes;
    assert_int_equal(length, 4);
}

static int set_up_both(void **state)
{
    told = left = has_gone = 0;
    if (set_up(state)) return -1;
    for (int i = 0; i < 2; i++) {
        ends[i].transport.leave = wire_leave;
        ends[i].transport.tell_left = wire_tell_left;
        ends[i].transport.has_left = wire_has_left;
        ends[i].events.left = note_left;
        ends[i].events.control = note_control;
    }
    return 0;
}

static void leave(int me, bool at_once)
{
    weft__p2p_bye(ends[me].p2p, WEFT_OK, "has done its work", at_once);
}

static void test_who_was_never_written_to_gets_no_frame(void **state)
{
    (void)state;
    leave(0, true);
    assert_int_equal(told, 1);
    assert_true(weft__list_empty(&ends[0].out));
    assert_int_equal(weft__p2p_bye_awaited(ends[0].p2p), -1);
    leave(1, false); /* where all leave nobody has to be told */
    assert_int_equal(told, 1);
    assert_true(weft__list_empty(&ends[1].out));
}

static void test_the_others_answer(void **state)
{
    side sent, got;
    (void)state;
    receive_from(&got, 1, 0, 5, 100, false);
    send_to(&sent, 0, 1, 5, 10, false);
    move_all();
    leave(0, true);
    assert_int_equal(told, 0);
    assert_int_equal(weft__p2p_bye_awaited(ends[0].p2p), 1);
    move_all();
    assert_int_equal(left, 1);
    assert_true(weft__p2p_took_bye(ends[0].p2p, 1));
    assert_int_equal(weft__p2p_bye_awaited(ends[0].p2p), -1);
}

/* Rank 1 leaves too, and has not read what rank 0 wrote: it may go like that. */
static void test_who_has_gone_is_not_waited_for(void **state)
{
    (void)state;
    assert_int_equal(weft__p2p_control(ends[0].p2p, 1, 1, "word", 4), WEFT_OK);
    leave(1, false);
    leave(0, false);
    assert_int_equal(weft__p2p_bye_awaited(ends[0].p2p), 1);
    has_gone = 1 << 1;
    assert_int_equal(weft__p2p_bye_awaited(ends[0].p2p), -1);
    move_all();
}

/* Or reads it after its goodbyes, and says one more: then the end of its process is no death. */
static void test_whose_first_word_comes_late_hears_a_goodbye(void **state)
{
    (void)state;
    assert_int_equal(weft__p2p_control(ends[0].p2p, 1, 1, "word", 4), WEFT_OK);
    leave(1, false);
    assert_true(weft__list_empty(&ends[1].out));
    assert_true(move(0));
    assert_int_equal(weft__p2p_bye_awaited(ends[1].p2p), -1); /* nobody is waited for */
    move_all();
    assert_int_equal(left, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_who_was_never_written_to_gets_no_frame, set_up_both, tear_down),
        cmocka_unit_test_setup_teardown(test_the_others_answer, set_up_both, tear_down),
        cmocka_unit_test_setup_teardown(test_who_has_gone_is_not_waited_for, set_up_both, tear_down),
        cmocka_unit_test_setup_teardown(test_whose_first_word_comes_late_hears_a_goodbye, set_up_both,
                                        tear_down)};
    return cmocka_run_group_tests_name("goodbyes", tests, NULL, NULL);
}
