/* Two ranks that were dropped by each other, live, and have another connection: the point-to-point layer begins anew with them
 * (net/p2p_course.c). */
#include "p2p_box.h"
#include "p2p_ends.h"

static int begun;

static void note_begun(weft__transport *t, int peer)
{
    (void)t;
    (void)peer;
    begun++;
}

static void part(void)
{
    begun = 0;
    for (int i = 0; i < 2; i++) {
        ends[i].transport.begin_anew = note_begun;
        weft__p2p_part(ends[i].p2p, 1 - i);
        assert_true(weft__p2p_begin_anew(ends[i].p2p, 1 - i));
    }
    assert_int_equal(begun, 2);
}

static void meet(void)
{
    for (int i = 0; i < 2; i++) {
        weft__sink *sink = weft__p2p_sink(ends[i].p2p);
        sink->connected(sink, 1 - i);
    }
}

static void part_and_meet(void)
{
    part();
    meet();
}

static void test_sends_go_again(void **state)
{
    side lost, sent, got;
    (void)state;
    send_to(&lost, 0, 1, 5, 10, false);
    part_and_meet();
    assert_true(lost.over);
    send_to(&sent, 0, 1, 5, 20, false);
    receive_from(&got, 1, 0, 5, 100, false);
    move_all();
    assert_true(got.over);
    assert_int_equal(got.status, WEFT_OK);
    assert_int_equal(got.recv_result.bytes, 20);
}

/* Its sender has all the credit of a new peer, and would fill as much again. */
static void test_what_nobody_received_is_not_kept(void **state)
{
    side early, sent, got;
    (void)state;
    send_to(&early, 0, 1, 5, 10, false);
    move_all();
    assert_int_equal(ends[1].p2p->unexpected_count, 1);
    part_and_meet();
    assert_int_equal(ends[1].p2p->unexpected_count, 0);
    assert_int_equal(ends[1].p2p->peers[0].owed, 0);
    assert_int_equal(ends[0].p2p->peers[1].credit, WEFT__CREDIT_BYTES);
    send_to(&sent, 0, 1, 5, 20, false);
    receive_from(&got, 1, 0, 5, 100, false);
    move_all();
    assert_true(got.over);
    assert_int_equal(got.recv_result.bytes, 20);
}

/* Where its sender goes for good it can still be received. */
static void test_what_came_from_the_dead_is_kept(void **state)
{
    side early, got;
    (void)state;
    send_to(&early, 0, 1, 5, 10, false);
    move_all();
    weft__p2p_drop(ends[1].p2p, 0);
    receive_from(&got, 1, 0, 5, 100, false);
    assert_true(got.over);
    assert_int_equal(got.status, WEFT_OK);
    assert_int_equal(got.recv_result.bytes, 10);
}

static int left;

static void note_left(weft__p2p_events *events, int peer, weft_status status, const char *why)
{
    (void)events;
    assert_int_equal(peer, 0);
    assert_int_equal(status, WEFT_OK);
    assert_string_equal(why, "has left early");
    left++;
}

/* One of the two says its goodbyes while they do not reach each other: the other hears its own when they meet. */
static void test_who_has_left_says_so_once_it_is_reached(void **state)
{
    (void)state;
    left = 0;
    ends[1].events.left = note_left;
    part();
    weft__p2p_bye(ends[0].p2p, WEFT_OK, "has left early", true);
    assert_int_equal(weft__p2p_bye_awaited(ends[0].p2p), -1);
    meet();
    assert_int_equal(weft__p2p_bye_awaited(ends[0].p2p), 1);
    move_all();
    assert_int_equal(left, 1);
    assert_int_equal(weft__p2p_bye_awaited(ends[0].p2p), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_sends_go_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_nobody_received_is_not_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_came_from_the_dead_is_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_who_has_left_says_so_once_it_is_reached, set_up, tear_down)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
