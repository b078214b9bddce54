/* test_p2p_at_hand.c - a receive that finds its message at the transport and takes it from there, when it is
 * called or while it waits: when it may, and whose turn it is otherwise. */
#include "p2p_ends.h"

enum { EAGER_MOST = 64 };

/* The wire's frames to rank 1 are all there, whole. */
static weft__outgoing *first_to(weft__transport *t)
{
    end *from = &ends[1 - ((end *)(void *)t)->me];
    return weft__list_empty(&from->out) ? NULL : WEFT__OWNER(from->out.next, weft__outgoing, link);
}

static const weft__frame *wire_next(weft__transport *t, int peer)
{
    weft__outgoing *out = first_to(t);
    (void)peer;
    return out ? &out->frame : NULL;
}

static void wire_take(weft__transport *t, int peer, void *where)
{
    weft__outgoing *out = first_to(t);
    (void)peer;
    weft__list_remove(&out->link);
    if (out->frame.length) memcpy(where, out->payload, out->frame.length);
    out->sent(out, WEFT_OK);
}

static void wire_read(weft__transport *t, int peer)
{
    (void)t;
    assert_true(move(peer));
}

static int set_up_hand(void **state)
{
    if (set_up(state)) return -1;
    ends[1].transport.next = wire_next;
    ends[1].transport.take = wire_take;
    ends[1].transport.read = wire_read;
    return 0;
}

/* By rank 1.  False: nothing was there for it. */
static bool take(side *s, int tag, size_t room, uint8_t dtype)
{
    weft__envelope from = about(s, 0, tag, false);
    const weft__frame *frame;
    from.dtype = dtype;
    frame = weft__p2p_at_hand(ends[1].p2p, &from, room);
    if (!frame) return false;
    s->recv_result.bytes = frame->bytes;
    weft__p2p_take(ends[1].p2p, 0, frame, s->data);
    return true;
}

static void is_taken(int tag, size_t bytes)
{
    side in;
    assert_true(take(&in, tag, sizeof in.data, WEFT_INT8));
    assert_int_equal(in.recv_result.bytes, bytes);
    for (size_t i = 0; i < bytes; i++) assert_int_equal(in.data[i], tag);
    assert_int_equal(in.data[bytes], 0);
}

static void takes_what_is_there(void **state)
{
    static const size_t lengths[] = {0, 1, 16, 17, EAGER_MOST};
    side out;
    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        assert_false(take(&out, 5, 200, WEFT_INT8)); /* nothing */
        send_to(&out, 0, 1, 5, lengths[i], false);
        is_taken(5, lengths[i]);
        assert_true(out.over && out.status == WEFT_OK);
    }
    assert_true(weft__p2p_heard(ends[1].p2p, 0));
}

/* And it is still there for those that ask for it. */
static void leaves_what_it_would_not_take(void **state)
{
    side out[2], in;
    (void)state;
    send_to(&out[0], 0, 1, 5, 40, false);
    assert_false(take(&in, 6, 200, WEFT_INT8));
    assert_false(take(&in, 5, 39, WEFT_INT8));
    assert_false(take(&in, 5, 200, WEFT_UINT8));
    assert_false(weft__list_empty(&ends[0].out));
    is_taken(5, 40);
    send_to(&out[1], 0, 1, 5, EAGER_MOST + 1, false); /* announced */
    assert_false(take(&in, 5, 200, WEFT_INT8));
    receive_from(&in, 1, 0, 5, 200, false);
    move_all();
    assert_true(in.over && out[1].over);
    assert_int_equal(in.recv_result.bytes, EAGER_MOST + 1);
}

/* Those posted before get theirs first; a call lets only a few of them through. */
static void comes_after_receives_posted_before(void **state)
{
    enum { BEFORE = 5 };
    side out[BEFORE + 1], in[BEFORE], other;
    int over = 0;
    (void)state;
    receive_from(&other, 1, 0, 9, 200, false);
    for (int i = 0; i < BEFORE; i++) receive_from(&in[i], 1, i % 2 ? 0 : WEFT_ANY_RANK, 5, 200, false);
    for (int i = 0; i <= BEFORE; i++) send_to(&out[i], 0, 1, 5, 20 + (size_t)i, false);
    {
        side late;
        assert_false(take(&late, 5, 200, WEFT_INT8));
    }
    for (int i = 0; i < BEFORE; i++) over += in[i].over;
    assert_in_range(over, 1, BEFORE - 1);
    is_taken(5, 20 + BEFORE);
    for (int i = 0; i < BEFORE; i++) {
        assert_true(in[i].over);
        assert_int_equal(in[i].recv_result.bytes, 20 + i);
    }
    assert_false(other.over);
}

/* What has been read and met no receive comes first, if it is for the same. */
static void comes_after_early_messages(void **state)
{
    side out[3], in;
    (void)state;
    send_to(&out[0], 0, 1, 5, 1, false);
    assert_true(move(0));
    send_to(&out[1], 0, 1, 5, 2, false);
    assert_false(take(&in, 5, 200, WEFT_INT8));
    receive_from(&in, 1, 0, 5, 200, false);
    assert_true(in.over && in.recv_result.bytes == 1);
    send_to(&out[2], 0, 1, 6, 3, false);
    assert_false(take(&in, 6, 200, WEFT_INT8)); /* the second is before it */
    assert_true(move(0));
    is_taken(6, 3);
    assert_false(take(&in, 5, 200, WEFT_INT8));
    receive_from(&in, 1, 0, 5, 200, false);
    assert_true(in.over && in.recv_result.bytes == 2);
}

/* A sender that got none back would have to ask before the end. */
static void gives_credit_back(void **state)
{
    int most = WEFT__CREDIT_BYTES / (int)(EAGER_MOST + sizeof(weft__frame));
    (void)state;
    for (int i = 0; i < 3 * most; i++) {
        side out;
        send_to(&out, 0, 1, 5, EAGER_MOST, false);
        is_taken(5, EAGER_MOST);
        assert_true(out.over);
        while (move(1)) {
        }
    }
}

static void nothing_is_at_hand_of_who_is_gone(void **state)
{
    side out, in;
    (void)state;
    send_to(&out, 0, 1, 5, 10, false);
    weft__p2p_drop(ends[1].p2p, 0);
    assert_false(take(&in, 5, 200, WEFT_INT8));
}

/* Looks on rank 1 whether something is there for what the side waits for. */
static bool look_for(side *s)
{
    return weft__p2p_poll_for(ends[1].p2p, s->recv);
}

static void one_that_waits_gets_its_message(void **state)
{
    static const size_t lengths[] = {0, 1, 16, 17, EAGER_MOST};
    side out, in;
    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        receive_from(&in, 1, 0, i % 2 ? WEFT_ANY_TAG : 5, 200, false);
        assert_false(look_for(&in));
        send_to(&out, 0, 1, 5, lengths[i], false);
        assert_true(look_for(&in));
        assert_true(in.over && in.status == WEFT_OK && out.over);
        assert_int_equal(in.recv_result.bytes, lengths[i]);
        assert_int_equal(in.recv_result.tag, 5);
        assert_int_equal(in.recv_result.peer, 0);
        for (size_t k = 0; k < lengths[i]; k++) assert_int_equal(in.data[k], 5);
        assert_int_equal(in.data[lengths[i]], 0);
        assert_true(weft__list_empty(&ends[0].out));
    }
    assert_true(weft__p2p_heard(ends[1].p2p, 0));
}

/* What comes before its own goes where it belongs: to others that wait, or aside. */
static void one_that_waits_lets_others_pass(void **state)
{
    side out[4], in, first, other;
    (void)state;
    receive_from(&other, 1, WEFT_ANY_RANK, 6, 200, false);
    receive_from(&first, 1, 0, 5, 200, false);
    receive_from(&in, 1, 0, 5, 200, false);
    send_to(&out[0], 0, 1, 7, 30, false);
    send_to(&out[1], 0, 1, 6, 31, false);
    send_to(&out[2], 0, 1, 5, 32, false);
    send_to(&out[3], 0, 1, 5, 33, false);
    assert_true(look_for(&in));
    assert_true(look_for(&in));
    assert_true(other.over && other.recv_result.bytes == 31);
    assert_true(look_for(&in));
    assert_true(first.over && first.recv_result.bytes == 32);
    assert_false(in.over);
    assert_true(look_for(&in));
    assert_true(in.over && in.recv_result.bytes == 33);
    receive_from(&in, 1, 0, 7, 200, false);
    assert_true(in.over && in.recv_result.bytes == 30);
}

static void one_that_waits_hears_what_does_not_fit(void **state)
{
    side out, in;
    (void)state;
    receive_from(&in, 1, 0, 5, 39, false);
    send_to(&out, 0, 1, 5, 40, false);
    assert_true(look_for(&in));
    assert_true(in.over && in.status == WEFT_ERR_TRUNCATED);
    assert_int_equal(in.recv_result.offered, 40);

    receive_from(&in, 1, 0, 5, 200, true);
    send_to(&out, 0, 1, 5, 10, false);
    assert_true(look_for(&in));
    assert_true(in.over && in.status == WEFT_ERR_MISMATCH);

    receive_from(&in, 1, 0, 5, 200, false);
    send_to(&out, 0, 1, 5, EAGER_MOST + 1, false); /* announced */
    assert_true(look_for(&in));
    assert_false(in.over);
    assert_true(weft__p2p_flowing(in.recv));
    move_all();
    assert_true(in.over && in.status == WEFT_OK);
    assert_int_equal(in.recv_result.bytes, EAGER_MOST + 1);
}

static bool can_look_for(const side *s)
{
    return weft__p2p_can_poll_for(ends[1].p2p, s->recv);
}

static void one_that_waits_can_not_be_looked_for(void **state)
{
    side out, in, any;
    (void)state;
    receive_from(&any, 1, WEFT_ANY_RANK, 6, 200, false);
    assert_false(can_look_for(&any)); /* it may come from anywhere */
    receive_from(&in, 1, 0, 5, 200, false);
    assert_true(can_look_for(&in));
    ends[1].transport.next = NULL; /* as a transport that cannot tell */
    assert_false(can_look_for(&in));
    ends[1].transport.next = wire_next;
    send_to(&out, 0, 1, 5, EAGER_MOST + 1, false);
    assert_true(look_for(&in));
    assert_false(can_look_for(&in)); /* it flows, and ends by itself */
    weft__p2p_drop(ends[1].p2p, 0);
    assert_true(in.over && in.status == WEFT_ERR_PEER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_that_waits_gets_its_message, set_up_hand, tear_down),
        cmocka_unit_test_setup_teardown(one_that_waits_lets_others_pass, set_up_hand, tear_down),
        cmocka_unit_test_setup_teardown(one_that_waits_hears_what_does_not_fit, set_up_hand, tear_down),
        cmocka_unit_test_setup_teardown(one_that_waits_can_not_be_looked_for, set_up_hand, tear_down),
        cmocka_unit_test_setup_teardown(takes_what_is_there, set_up_hand, tear_down),
        cmocka_unit_test_setup_teardown(leaves_what_it_would_not_take, set_up_hand, tear_down),
        cmocka_unit_test_setup_teardown(comes_after_receives_posted_before, set_up_hand, tear_down),
        cmocka_unit_test_setup_teardown(comes_after_early_messages, set_up_hand, tear_down),
        cmocka_unit_test_setup_teardown(gives_credit_back, set_up_hand, tear_down),
        cmocka_unit_test_setup_teardown(nothing_is_at_hand_of_who_is_gone, set_up_hand, tear_down)};
    return cmocka_run_group_tests_name("p2p at hand", tests, NULL, NULL);
}
