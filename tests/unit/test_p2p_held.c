/* test_p2p_held.c - messages that a probe holds: found in the order of posting, received by their own
 * receive, or let go to their old place. */
#include "p2p_ends.h"

enum { AT = 1, FROM = 0, EAGER = 10, ANNOUNCED = 150 };

static void probe_at(side *s, int at_rank, int from, int tag)
{
    weft__envelope at = about(s, from, tag, false);
    weft__envelope *own = weft__p2p_new_recv(ends[at_rank].p2p);
    assert_non_null(own);
    *own = at;
    s->recv = weft__p2p_probe(ends[at_rank].p2p, own, &s->recv_result, &s->completion);
}

/* That probe has found a message of so many bytes and that tag, from rank FROM. */
static void has_found(const side *s, int tag, size_t bytes)
{
    assert_true(s->over);
    assert_int_equal(s->status, WEFT_OK);
    assert_int_equal(s->recv_result.peer, FROM);
    assert_int_equal(s->recv_result.tag, tag);
    assert_int_equal(s->recv_result.offered, bytes);
    assert_int_equal(s->recv_result.bytes, 0);
    assert_int_equal(s->recv_result.dtype, WEFT_INT8);
}

static void receive_held(side *in, side *probe, int at_rank, size_t room, bool apart)
{
    weft__envelope at = about(in, FROM, 0, apart);
    weft__p2p_receive_held(ends[at_rank].p2p, probe->recv, at.dtype, at.hook, in->data, room,
                           &in->recv_result, &in->completion);
}

/* It has received what was sent with that tag: send_to fills a message with its tag. */
static void has_received(const side *s, int tag, size_t bytes)
{
    assert_true(s->over);
    assert_int_equal(s->status, WEFT_OK);
    assert_int_equal(s->recv_result.bytes, bytes);
    for (size_t i = 0; i < bytes; i++) assert_int_equal(s->data[i], tag);
    for (size_t i = bytes; i < sizeof s->data; i++) assert_int_equal(s->data[i], 0);
}

static void let_go(side *probe)
{
    weft__p2p_cancel_receive(ends[AT].p2p, probe->recv);
}

/* ---- finding ------------------------------------------------------------------------------------------ */

static void it_is_found_and_received(void **state)
{
    static const size_t sizes[] = {0, 8, EAGER, 40,
                                   ANNOUNCED}; /* of nothing, in its header, whole, announced */
    (void)state;
    for (size_t i = 0; i < 4 * sizeof sizes / sizeof *sizes; i++) {
        bool early = i & 1, any = i & 2;
        side out, probe, in;
        if (!early) probe_at(&probe, AT, any ? WEFT_ANY_RANK : FROM, any ? WEFT_ANY_TAG : 5);
        send_to(&out, FROM, AT, 5, sizes[i / 4], false);
        move_all();
        if (early) probe_at(&probe, AT, any ? WEFT_ANY_RANK : FROM, any ? WEFT_ANY_TAG : 5);
        has_found(&probe, 5, sizes[i / 4]);
        assert_int_equal(out.over, sizes[i / 4] != ANNOUNCED);
        receive_held(&in, &probe, AT, sizeof in.data, false);
        move_all();
        has_received(&in, 5, sizes[i / 4]);
        assert_true(out.over);
        assert_int_equal(out.status, WEFT_OK);
    }
}

static void it_is_found_by_itself(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        bool early = i & 1, apart = i & 2;
        side out, probe, in;
        if (!early) probe_at(&probe, FROM, WEFT_ANY_RANK, 5);
        send_to(&out, FROM, FROM, 5, ANNOUNCED, apart);
        if (early) probe_at(&probe, FROM, FROM, 5);
        has_found(&probe, 5, ANNOUNCED);
        assert_int_equal(probe.recv_result.apart, apart);
        receive_held(&in, &probe, FROM, sizeof in.data, apart);
        while (weft__p2p_poll(ends[FROM].p2p)) {
        }
        if (!apart) {
            has_received(&in, 5, ANNOUNCED);
            continue;
        }
        assert_ptr_equal(in.hook.other, &out.hook);
        assert_int_equal(in.matched + out.matched, 2);
        weft__p2p_cancel_receive(ends[FROM].p2p, in.hook.recv);
    }
}

static void its_payload_may_go_another_way(void **state)
{
    side out, probe, in;
    (void)state;
    probe_at(&probe, AT, FROM, 5);
    send_to(&out, FROM, AT, 5, ANNOUNCED, true);
    move_all();
    has_found(&probe, 5, ANNOUNCED);
    assert_true(probe.recv_result.apart);
    assert_int_equal(probe.recv_result.number, 77);
    assert_int_equal(out.matched, 0);
    receive_held(&in, &probe, AT, ANNOUNCED, true);
    move_all();
    assert_int_equal(in.matched, 1);
    assert_int_equal(out.matched, 1);
    assert_int_equal(in.recv_result.number, 77);
    weft__p2p_cancel_receive(ends[AT].p2p, in.hook.recv);
}

/* A probe stands among the receives, in the order of posting. */
static void it_has_its_place_among_receives(void **state)
{
    side before, probe, after, first, second, third;
    (void)state;
    receive_from(&before, AT, FROM, 5, 200, false);
    probe_at(&probe, AT, FROM, 5);
    receive_from(&after, AT, FROM, 5, 200, false);
    send_to(&first, FROM, AT, 5, 11, false);
    move_all();
    assert_true(before.over && !probe.over && !after.over);
    send_to(&second, FROM, AT, 5, ANNOUNCED, false);
    move_all();
    has_found(&probe, 5, ANNOUNCED);
    assert_false(after.over);
    send_to(&third, FROM, AT, 5, 13, false);
    move_all();
    has_received(&after, 5, 13);
    let_go(&probe);
    receive_from(&after, AT, FROM, 5, 200, false);
    move_all();
    has_received(&after, 5, ANNOUNCED);
}

static void what_is_refused_is_its_receives_matter(void **state)
{
    side out, probe, in;
    (void)state;
    for (int apart = 0; apart < 2; apart++) { /* sent so, and received the other way: a mismatch */
        send_to(&out, FROM, AT, 5, ANNOUNCED, apart);
        move_all();
        probe_at(&probe, AT, FROM, 5);
        has_found(&probe, 5, ANNOUNCED);
        receive_held(&in, &probe, AT, sizeof in.data, !apart);
        move_all();
        assert_true(in.over && out.over);
        assert_int_equal(in.status, WEFT_ERR_MISMATCH);
        assert_int_equal(out.status, WEFT_OK);
    }
    send_to(&out, FROM, AT, 5, 20, false);
    move_all();
    probe_at(&probe, AT, FROM, 5);
    receive_held(&in, &probe, AT, 19, false);
    assert_int_equal(in.status, WEFT_ERR_TRUNCATED);
    assert_int_equal(in.recv_result.offered, 20);
}

/* ---- letting go --------------------------------------------------------------------------------------- */

/* Three are there, the first is held and let go: receives get them in their order, whole or not. */
static void it_goes_back_to_its_place(void **state)
{
    static const size_t sizes[] = {21, ANNOUNCED, 23};
    (void)state;
    for (int held = 0; held < 3; held++) {
        side out[3], probe[3], in;
        for (int i = 0; i < 3; i++) send_to(&out[i], FROM, AT, 5, sizes[i], false);
        move_all();
        for (int i = 0; i <= held; i++) probe_at(&probe[i], AT, FROM, 5);
        for (int i = 0; i <= held; i++) has_found(&probe[i], 5, sizes[i]);
        for (int i = 0; i <= held; i++) let_go(&probe[i]);
        for (int i = 0; i < 3; i++) {
            receive_from(&in, AT, WEFT_ANY_RANK, 5, 200, false);
            move_all();
            has_received(&in, 5, sizes[i]);
        }
    }
}

/* A receive, or a probe, that came meanwhile gets it; of several the first. */
static void who_waits_gets_it(void **state)
{
    side out, probe, other, next, in, last;
    (void)state;
    probe_at(&probe, AT, FROM, 5);
    probe_at(&next, AT, WEFT_ANY_RANK, WEFT_ANY_TAG);
    receive_from(&other, AT, FROM, 6, 200, false);
    receive_from(&in, AT, FROM, 5, 200, false);
    receive_from(&last, AT, FROM, 5, 200, false);
    send_to(&out, FROM, AT, 5, ANNOUNCED, false);
    move_all();
    has_found(&probe, 5, ANNOUNCED);
    assert_false(next.over || in.over);
    let_go(&probe);
    has_found(&next, 5, ANNOUNCED);
    let_go(&next);
    move_all();
    has_received(&in, 5, ANNOUNCED);
    assert_false(other.over || last.over);
}

static void one_that_has_found_nothing_is_gone(void **state)
{
    side out, probe, in;
    (void)state;
    probe_at(&probe, AT, FROM, 5);
    let_go(&probe);
    send_to(&out, FROM, AT, 5, EAGER, false);
    move_all();
    receive_from(&in, AT, FROM, 5, 200, false);
    has_received(&in, 5, EAGER);
    assert_false(probe.over);
}

/* While its frame is still coming in: nobody else finds it, and it can be let go. */
static void half_a_frame_is_held_too(void **state)
{
    (void)state;
    for (int lets_go = 0; lets_go < 2; lets_go++) {
        side out, probe, in;
        probe_at(&probe, AT, FROM, 5);
        send_to(&out, FROM, AT, 5, 40, false);
        assert_true(begin_move(FROM));
        assert_false(probe.over);
        receive_from(&in, AT, FROM, 5, 200, false);
        if (lets_go) let_go(&probe);
        end_move(FROM);
        if (!lets_go) {
            has_found(&probe, 5, 40);
            assert_false(in.over);
            let_go(&probe);
        }
        has_received(&in, 5, 40);
    }
}

/* ---- senders that give up or go ------------------------------------------------------------------------ */

static void its_sender_may_give_it_up(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        bool received = i & 1, apart = i & 2;
        side out, probe, in, second, next;
        probe_at(&probe, AT, FROM, 5);
        send_to(&out, FROM, AT, 5, ANNOUNCED, apart);
        move_all();
        has_found(&probe, 5, ANNOUNCED);
        weft__p2p_cancel_send(ends[FROM].p2p, out.send);
        move_all();
        send_to(&second, FROM, AT, 5, EAGER, false);
        move_all();
        if (received) {
            receive_held(&in, &probe, AT, sizeof in.data, apart);
            assert_true(in.over);
            assert_int_equal(in.status, WEFT_ERR_CANCELLED);
            assert_int_equal(in.recv_result.offered, ANNOUNCED);
            assert_null(in.hook.recv);
        } else {
            let_go(&probe);
        }
        receive_from(&next, AT, FROM, 5, 200, false);
        has_received(&next, 5, EAGER);
    }
}

/* It gives it up while the word that it is wanted is on its way: a receive of that message takes no other. */
static void its_receive_takes_no_other(void **state)
{
    (void)state;
    for (int apart = 0; apart < 2; apart++) {
        side out, probe, in, second, next;
        send_to(&out, FROM, AT, 5, ANNOUNCED, apart);
        move_all();
        probe_at(&probe, AT, FROM, 5);
        receive_held(&in, &probe, AT, sizeof in.data, apart);
        assert_false(in.over);
        weft__p2p_cancel_send(ends[FROM].p2p, out.send);
        send_to(&second, FROM, AT, 5, EAGER, false);
        move_all();
        assert_true(in.over);
        assert_int_equal(in.status, WEFT_ERR_CANCELLED);
        assert_int_equal(in.unmatched, apart);
        receive_from(&next, AT, FROM, 5, 200, false);
        has_received(&next, 5, EAGER);
    }
}

/* What had arrived whole is received from the dead, what was only announced is not; a
 * probe that waits ends. */
static void its_sender_may_go(void **state)
{
    side whole, announced, apart, half, held[2], dropped, waits, coming, in;
    (void)state;
    send_to(&whole, FROM, AT, 5, EAGER, false);
    send_to(&announced, FROM, AT, 5, ANNOUNCED, false);
    send_to(&apart, FROM, AT, 5, ANNOUNCED, true);
    move_all();
    for (int i = 0; i < 2; i++) probe_at(&held[i], AT, FROM, 5);
    probe_at(&dropped, AT, FROM, 5);
    probe_at(&coming, AT, FROM, 5);
    probe_at(&waits, AT, FROM, 6);
    send_to(&half, FROM, AT, 5, 40, false);
    assert_true(begin_move(FROM));
    weft__p2p_drop(ends[AT].p2p, FROM);
    assert_true(coming.over && waits.over);
    assert_int_equal(coming.status, WEFT_ERR_PEER);
    assert_int_equal(waits.status, WEFT_ERR_PEER);
    receive_held(&in, &held[0], AT, sizeof in.data, false);
    has_received(&in, 5, EAGER);
    receive_held(&in, &held[1], AT, sizeof in.data, false);
    assert_true(in.over);
    assert_int_equal(in.status, WEFT_ERR_PEER);
    let_go(&dropped);
    probe_at(&waits, AT, FROM, 5);
    assert_true(waits.over);
    assert_int_equal(waits.status, WEFT_ERR_PEER);
}

/* What is held when the point-to-point layer is closed goes with it. */
static void it_may_never_be_received(void **state)
{
    side out, probe;
    (void)state;
    send_to(&out, FROM, AT, 5, 40, false);
    move_all();
    probe_at(&probe, AT, FROM, 5);
    has_found(&probe, 5, 40);
}

/* It takes of its sender's credit until it is received. */
static void it_costs_credit_meanwhile(void **state)
{
    enum { LONGEST = 64, COST = LONGEST + sizeof(weft__frame), ALL = WEFT__CREDIT_BYTES / COST };
    side *out = calloc(ALL + 1, sizeof *out), *probe = calloc(ALL, sizeof *probe), in;
    (void)state;
    assert_non_null(out);
    assert_non_null(probe);
    for (int i = 0; i < ALL; i++) {
        send_to(&out[i], FROM, AT, 5, LONGEST, false);
        move_all();
        probe_at(&probe[i], AT, FROM, 5);
        assert_true(out[i].over);
    }
    send_to(&out[ALL], FROM, AT, 5, LONGEST, false);
    move_all();
    assert_false(out[ALL].over); /* announced: there is no room for it */
    for (int i = 0; i < ALL; i++) {
        receive_held(&in, &probe[i], AT, LONGEST, false);
        has_received(&in, 5, LONGEST);
    }
    receive_from(&in, AT, FROM, 5, LONGEST, false);
    move_all();
    assert_true(out[ALL].over && in.over);
    send_to(&out[0], FROM, AT, 5, LONGEST, false);
    move_all();
    assert_true(out[0].over);
    free(out);
    free(probe);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(it_is_found_and_received, set_up, tear_down),
        cmocka_unit_test_setup_teardown(it_is_found_by_itself, set_up, tear_down),
        cmocka_unit_test_setup_teardown(its_payload_may_go_another_way, set_up, tear_down),
        cmocka_unit_test_setup_teardown(it_has_its_place_among_receives, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_refused_is_its_receives_matter, set_up, tear_down),
        cmocka_unit_test_setup_teardown(it_goes_back_to_its_place, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_waits_gets_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_that_has_found_nothing_is_gone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(half_a_frame_is_held_too, set_up, tear_down),
        cmocka_unit_test_setup_teardown(its_sender_may_give_it_up, set_up, tear_down),
        cmocka_unit_test_setup_teardown(its_receive_takes_no_other, set_up, tear_down),
        cmocka_unit_test_setup_teardown(its_sender_may_go, set_up, tear_down),
        cmocka_unit_test_setup_teardown(it_may_never_be_received, set_up, tear_down),
        cmocka_unit_test_setup_teardown(it_costs_credit_meanwhile, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
