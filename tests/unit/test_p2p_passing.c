/* test_p2p_passing.c - what passes each other on the way, and payloads that go another way. */
#include "p2p_ends.h"

static void both_sides_meet(void **state)
{
    side out, in;
    (void)state;
    for (int early = 0; early < 2; early++) {
        if (!early) receive_from(&in, 1, WEFT_ANY_RANK, WEFT_ANY_TAG, 200, true);
        send_to(&out, 0, 1, 5, 150, true);
        move_all();
        if (early) receive_from(&in, 1, 0, 5, 200, true);
        move_all();
        assert_int_equal(out.matched, 1);
        assert_int_equal(in.matched, 1);
        assert_false(out.over || in.over);
        assert_int_equal(in.recv_result.peer, 0);
        assert_int_equal(in.recv_result.tag, 5);
        assert_int_equal(in.recv_result.offered, 150);
        assert_int_equal(in.recv_result.number, 77);
        assert_null(out.hook.send);
        assert_non_null(in.hook.recv);
        weft__p2p_cancel_receive(ends[1].p2p, in.hook.recv);
        assert_null(in.hook.recv);
        move_all();
        assert_false(in.unmatched || out.over || in.over);
    }
}

static void meets_itself(void **state)
{
    side out, in;
    (void)state;
    send_to(&out, 0, 0, 5, 150, true);
    assert_int_equal(out.matched, 0);
    receive_from(&in, 0, 0, 5, 150, true);
    assert_int_equal(out.matched, 1);
    assert_int_equal(in.matched, 1);
    assert_ptr_equal(out.hook.other, &in.hook);
    assert_ptr_equal(in.hook.other, &out.hook);
    weft__p2p_cancel_receive(ends[0].p2p, in.hook.recv);
}

static void the_empty_needs_no_meeting(void **state)
{
    side out, in;
    (void)state;
    send_to(&out, 0, 1, 5, 0, true);
    receive_from(&in, 1, 0, 5, 0, true);
    move_all();
    assert_true(out.over && in.over);
    assert_int_equal(out.status, WEFT_OK);
    assert_int_equal(in.status, WEFT_OK);
    assert_int_equal(out.matched + in.matched, 0);
}

/* Who has recorded only half of it must not take it for met. */
static void what_fits_may_be_refused(void **state)
{
    side out, in;
    (void)state;
    receive_from(&in, 1, 0, 5, 150, true);
    in.refuses = true;
    send_to(&out, 0, 1, 5, 100, true);
    move_all();
    assert_int_equal(in.matched, 1);
    assert_null(in.hook.recv);
    assert_false(in.over);
    assert_int_equal(out.matched, 0);
    assert_true(out.over);
    assert_int_equal(out.status, WEFT_OK);
}

/* Sent apart or not, received apart or not, early or late, and what the receive ends in. */
static void the_refused_ends_its_receive_alone(void **state)
{
    static const struct {
        bool out, in;
        size_t bytes, room;
        weft_status status;
    } rows[] = {{true, true, 150, 100, WEFT_ERR_TRUNCATED},
                {true, false, 150, 200, WEFT_ERR_MISMATCH},
                {false, true, 150, 200, WEFT_ERR_MISMATCH},
                {false, true, 10, 200, WEFT_ERR_MISMATCH},
                {true, false, 10, 200, WEFT_ERR_MISMATCH}};
    (void)state;
    for (size_t i = 0; i < 2 * sizeof rows / sizeof *rows; i++) {
        bool early = i & 1;
        side out, in;
        if (!early) receive_from(&in, 1, 0, 5, rows[i / 2].room, rows[i / 2].in);
        send_to(&out, 0, 1, 5, rows[i / 2].bytes, rows[i / 2].out);
        move_all();
        if (early) receive_from(&in, 1, 0, 5, rows[i / 2].room, rows[i / 2].in);
        move_all();
        assert_true(in.over);
        assert_int_equal(in.status, rows[i / 2].status);
        assert_int_equal(in.recv_result.offered, rows[i / 2].bytes);
        assert_int_equal(in.recv_result.apart, rows[i / 2].out);
        assert_true(out.over);
        assert_int_equal(out.status, WEFT_OK);
        assert_int_equal(out.matched + in.matched, 0);
    }
}

/* A transport that has lost its peer gives back what it had: whole, announced, or the piece of one that
 * flows. None of them fails before it is known what became of the peer. */
static void what_is_given_back_waits_for_its_peers_fate(void **state)
{
    side whole, announced, flowing, given_up, later, in;
    (void)state;
    receive_from(&in, 1, 0, 3, 150, false);
    send_to(&flowing, 0, 1, 3, 150, false);
    assert_true(move(0));
    assert_true(move(1)); /* it is wanted */
    weft__p2p_poll(ends[0].p2p);
    send_to(&whole, 0, 1, 4, 10, false);
    send_to(&announced, 0, 1, 5, 150, false);
    send_to(&given_up, 0, 1, 6, 150, false);
    lose(0);
    assert_false(flowing.over || whole.over || announced.over || given_up.over);
    weft__p2p_cancel_send(ends[0].p2p, given_up.send);
    send_to(&later, 0, 1, 7, 10, false);
    lose(0);
    assert_false(later.over);
    weft__p2p_drop(ends[0].p2p, 1);
    assert_true(flowing.over && whole.over && announced.over && later.over);
    assert_int_equal(flowing.status, WEFT_ERR_PEER);
    assert_int_equal(whole.status, WEFT_ERR_PEER);
    assert_int_equal(announced.status, WEFT_ERR_PEER);
    assert_int_equal(later.status, WEFT_ERR_PEER);
    assert_false(given_up.over);
}

/* The sender gives it up while the word that it is wanted is on its way: the receive takes the next message,
 * also one that is there already. */
static void what_is_given_up_lets_the_receive_wait_again(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        bool apart = i & 1, next_is_there = i & 2;
        side first, second, in;
        receive_from(&in, 1, 0, 5, 150, apart);
        send_to(&first, 0, 1, 5, 150, apart);
        assert_true(move(0));
        if (next_is_there) send_to(&second, 0, 1, 5, 100, apart);
        weft__p2p_cancel_send(ends[0].p2p, first.send);
        if (!next_is_there) {
            move_all();
            send_to(&second, 0, 1, 5, 100, apart);
        }
        move_all();
        assert_int_equal(in.recv_result.offered, 100);
        assert_int_equal(in.unmatched, apart);
        assert_int_equal(in.matched, apart ? 2 : 0);
        assert_int_equal(second.matched, apart);
        assert_false(first.over || first.matched);
        if (apart) {
            weft__p2p_cancel_receive(ends[1].p2p, in.hook.recv);
        } else {
            assert_true(in.over && second.over);
            assert_int_equal(in.status, WEFT_OK);
            assert_memory_equal(in.data, second.data, 100);
        }
    }
}

/* It has waited longer than those posted after it, and the next message is its own. */
static void what_waits_again_comes_before_what_was_posted_later(void **state)
{
    side given_up, next, first, second;
    (void)state;
    receive_from(&first, 1, 0, 5, 150, false);
    receive_from(&second, 1, 0, 5, 150, false);
    send_to(&given_up, 0, 1, 5, 150, false);
    assert_true(move(0));
    weft__p2p_cancel_send(ends[0].p2p, given_up.send);
    move_all();
    send_to(&next, 0, 1, 5, 100, false);
    move_all();
    assert_true(first.over && next.over);
    assert_int_equal(first.recv_result.bytes, 100);
    assert_false(second.over);
}

static void what_is_given_up_may_end_its_receive(void **state)
{
    side out, in;
    (void)state;
    receive_from(&in, 1, 0, 5, 150, true);
    in.gives_up = true;
    send_to(&out, 0, 1, 5, 150, true);
    assert_true(move(0));
    weft__p2p_cancel_send(ends[0].p2p, out.send);
    move_all();
    assert_int_equal(in.unmatched, 1);
    assert_null(in.hook.recv);
    send_to(&out, 0, 1, 5, 150, true);
    move_all();
    assert_int_equal(in.matched, 1);
}

/* The wire of rank 0 has no memory to begin its next frame. */
static weft__frame_kind refuse_next(void)
{
    weft__outgoing *out = WEFT__OWNER(ends[0].out.next, weft__outgoing, link);
    weft__frame_kind kind = (weft__frame_kind)out->frame.kind;
    assert_false(weft__list_empty(&ends[0].out));
    weft__list_remove(&out->link);
    out->sent(out, WEFT_ERR_MEMORY);
    return kind;
}

/* Its sender's failure alone: the receive gets the next one, and no credit is lost. */
static void what_finds_no_memory_on_its_way_fails_alone(void **state)
{
    side out, in;
    (void)state;
    receive_from(&in, 1, 0, 5, 200, false);
    for (int i = 0; i < 10000; i++) {
        send_to(&out, 0, 1, 5, 50, false);
        assert_int_equal(refuse_next(), WEFT__FRAME_EAGER);
        assert_true(out.over);
        assert_int_equal(out.status, WEFT_ERR_MEMORY);
    }
    send_to(&out, 0, 1, 5, 150, false);
    assert_int_equal(refuse_next(), WEFT__FRAME_RTS);
    assert_int_equal(out.status, WEFT_ERR_MEMORY);
    send_to(&out, 0, 1, 5, 150, false); /* announced, and asked for */
    assert_true(move(0) && move(1));
    weft__p2p_poll(ends[0].p2p);
    assert_int_equal(refuse_next(), WEFT__FRAME_DATA);
    assert_int_equal(out.status, WEFT_ERR_MEMORY);
    move_all(); /* the receive is told, and waits again */
    assert_false(in.over);
    send_to(&out, 0, 1, 5, 120, false);
    move_all();
    assert_true(in.over && out.over);
    assert_int_equal(in.status, WEFT_OK);
    assert_int_equal(in.recv_result.bytes, 120);
}

static void a_peer_that_goes_ends_what_waits(void **state)
{
    side out, in, matched_in, matched_out;
    (void)state;
    send_to(&matched_out, 1, 0, 6, 100, true);
    receive_from(&matched_in, 0, 1, 6, 100, true);
    move_all();
    send_to(&out, 0, 1, 5, 150, true);
    receive_from(&in, 0, 1, 7, 150, true);
    move_all();
    weft__p2p_drop(ends[0].p2p, 1);
    assert_true(out.over && in.over && matched_in.over);
    assert_int_equal(out.status, WEFT_ERR_PEER);
    assert_int_equal(in.status, WEFT_ERR_PEER);
    assert_int_equal(matched_in.status, WEFT_ERR_PEER);
    assert_null(out.hook.send);
    assert_null(in.hook.recv);
    assert_null(matched_in.hook.recv);
    send_to(&out, 0, 1, 5, 150, true);
    assert_int_equal(out.status, WEFT_ERR_PEER);
}

/* What it had only announced will never come; what had arrived whole still counts. */
static void what_the_gone_announced_is_not_received(void **state)
{
    side announced, whole, in, next;
    (void)state;
    for (int apart = 0; apart < 2; apart++) {
        send_to(&announced, 0, 1, 5, 150, apart);
        move_all();
    }
    send_to(&whole, 0, 1, 5, 10, false);
    move_all();
    weft__p2p_drop(ends[1].p2p, 0);
    receive_from(&in, 1, WEFT_ANY_RANK, 5, 200, false);
    assert_true(in.over);
    assert_int_equal(in.status, WEFT_OK);
    assert_int_equal(in.recv_result.bytes, 10);
    receive_from(&next, 1, 0, 5, 200, false);
    assert_true(next.over);
    assert_int_equal(next.status, WEFT_ERR_PEER);
}

static bool way_is_free;

static struct {
    weft__frame frame;
    char payload[64];
    bool reserved;
} at_once;

static weft__frame *wire_reserve(weft__transport *t, int peer, const void *payload, size_t length)
{
    (void)t;
    (void)peer;
    assert_false(at_once.reserved);
    assert_in_range(length, 0, sizeof at_once.payload);
    if (!way_is_free) return NULL;
    at_once.reserved = true;
    memset(&at_once.frame, 0x55, sizeof at_once.frame); /* what the ring held before */
    if (length) memcpy(at_once.payload, payload, length);
    return &at_once.frame;
}

/* What is written at once is there at once. */
static void wire_commit(weft__transport *t, int peer, uint64_t first, size_t length)
{
    weft__sink *sink = weft__p2p_sink(ends[peer].p2p);
    const weft__frame *frame = &at_once.frame;
    int from = ((end *)(void *)t)->me;
    void *where = NULL;
    assert_true(at_once.reserved);
    at_once.reserved = false;
    memcpy(&at_once.frame, &first, sizeof first);
    assert_int_equal(weft__frame_check(frame), WEFT_OK);
    assert_int_equal(frame->length, length);
    if (length) where = sink->header(sink, from, frame);
    if (where) memcpy(where, at_once.payload, length);
    sink->arrived(sink, from, frame, where);
}

static void write_at_once(weft__transport *transport)
{
    transport->reserve = wire_reserve;
    transport->commit = wire_commit;
}

static bool send_now(int tag, size_t bytes, bool apart)
{
    side out;
    weft__envelope at = about(&out, 1, tag, apart);
    memset(out.data, tag, sizeof out.data);
    return weft__p2p_send_now(ends[0].p2p, &at, out.data, bytes);
}

static void a_short_one_goes_at_once(void **state)
{
    static const size_t lengths[] = {0, 1, 16, 17, 64};
    side in;
    (void)state;
    assert_false(send_now(5, 10, false)); /* a transport that never does */
    write_at_once(&ends[0].transport);
    way_is_free = true;
    for (size_t i = 0; i < 2 * sizeof lengths / sizeof *lengths; i++) {
        size_t bytes = lengths[i / 2];
        bool early = i % 2;
        if (!early) receive_from(&in, 1, 0, 5, 200, false);
        assert_true(send_now(5, bytes, false));
        if (early) receive_from(&in, 1, WEFT_ANY_RANK, WEFT_ANY_TAG, 200, false);
        assert_true(in.over && in.status == WEFT_OK);
        assert_int_equal(in.recv_result.bytes, bytes);
        for (size_t k = 0; k < bytes; k++) assert_int_equal(in.data[k], 5);
        assert_int_equal(in.data[bytes], 0);
    }
    assert_false(send_now(5, 65, false)); /* more than goes unasked */
    assert_false(send_now(5, 10, true));
}

static void what_came_is_counted_until_something_goes_back(void **state)
{
    side in;
    (void)state;
    for (int i = 0; i < 3; i++) {
        side out;
        receive_from(&in, 0, 1, 5, 200, false);
        assert_int_equal(weft__p2p_unanswered(ends[0].p2p, 1), i); /* asked for, not come */
        send_to(&out, 1, 0, 5, 10, false);
        move_all();
        assert_int_equal(weft__p2p_unanswered(ends[0].p2p, 1), i + 1);
    }
    write_at_once(&ends[0].transport);
    way_is_free = false;
    assert_false(send_now(5, 10, false));
    assert_int_equal(weft__p2p_unanswered(ends[0].p2p, 1), 3);
    way_is_free = true;
    assert_true(send_now(5, 10, false));
    assert_int_equal(weft__p2p_unanswered(ends[0].p2p, 1), 0);
}

static int asked;  /* about tokens */
static bool begun; /* what they are of */

static bool judge(weft__p2p_events *events, int peer, const weft__frame *frame)
{
    (void)events;
    assert_int_equal(peer, 0);
    asked += (frame->flags & WEFT__FRAME_TOKEN) != 0;
    return begun;
}

static weft__envelope of_operation(uint64_t number, int peer)
{
    return (weft__envelope){.peer = peer,
                            .channel = WEFT__CHANNEL_COLLECTIVE,
                            .group = 1,
                            .sequence = number,
                            .dtype = WEFT_INT8,
                            .signature = {3, 4}};
}

static void send_token(uint64_t number)
{
    weft__envelope to = of_operation(number, 1);
    weft__p2p_send_token(ends[0].p2p, &to);
    move_all();
}

/* Nobody need receive it; who has not begun yet finds it there, and who wants it gets it. */
static void a_token_needs_no_receive(void **state)
{
    weft__envelope from[4];
    side in;
    (void)state;
    for (uint64_t i = 0; i < 4; i++) from[i] = of_operation(i, 0);
    ends[1].events.collective = judge;
    asked = 0;
    begun = true;
    send_token(0);
    assert_int_equal(asked, 1);
    assert_false(weft__p2p_drop_token(ends[1].p2p, &from[0])); /* it is not kept */

    begun = false;
    send_token(1);
    assert_int_equal(asked, 2);
    assert_false(weft__p2p_drop_token(ends[1].p2p, &from[2]));
    assert_true(weft__p2p_drop_token(ends[1].p2p, &from[1]));
    assert_false(weft__p2p_drop_token(ends[1].p2p, &from[1]));

    begun = true;
    about(&in, 0, 0, false);
    assert_non_null(weft__p2p_receive(ends[1].p2p, &from[3], in.data, 0, &in.recv_result, &in.completion));
    send_token(3);
    assert_int_equal(asked, 2); /* it is what is expected */
    assert_true(in.over && in.status == WEFT_OK);

    weft__p2p_drop(ends[0].p2p, 1);
    send_token(4); /* nobody is told */
}

static void what_waits_for_room_costs_no_credit(void **state)
{
    int sent = 0, most = WEFT__CREDIT_BYTES / (int)(64 + sizeof(weft__frame));
    (void)state;
    write_at_once(&ends[0].transport);
    way_is_free = false;
    for (int i = 0; i < most + 10; i++) assert_false(send_now(5, 64, false));
    way_is_free = true;
    while (sent <= most && send_now(5, 64, false)) sent++; /* nobody receives: none comes back */
    assert_int_equal(sent, most);
    weft__p2p_drop(ends[0].p2p, 1);
    assert_false(send_now(5, 0, false));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(both_sides_meet, set_up, tear_down),
        cmocka_unit_test_setup_teardown(meets_itself, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_empty_needs_no_meeting, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_fits_may_be_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_refused_ends_its_receive_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_given_back_waits_for_its_peers_fate, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_given_up_lets_the_receive_wait_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_waits_again_comes_before_what_was_posted_later, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_is_given_up_may_end_its_receive, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_finds_no_memory_on_its_way_fails_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_peer_that_goes_ends_what_waits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_the_gone_announced_is_not_received, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_short_one_goes_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_waits_for_room_costs_no_credit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_came_is_counted_until_something_goes_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_token_needs_no_receive, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
