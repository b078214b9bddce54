/* test_slices.c - messages of any length arrive whole, each as itself; what is too long becomes an empty one. */
#include "job.h"
#include "slices.h"
#include "zap.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { MOST = 20 * WEFT__SLICE_BYTES };

static void *context, *router, *dealer;
static char route[16];
static size_t route_bytes;

static int begin(void **state)
{
    (void)state;
    context = zmq_ctx_new();
    router = zmq_socket(context, ZMQ_ROUTER);
    dealer = zmq_socket(context, ZMQ_DEALER);
    return !router || !dealer || zmq_bind(router, "inproc://slices") ||
           zmq_connect(dealer, "inproc://slices");
}

static int end(void **state)
{
    (void)state;
    zmq_close(dealer);
    zmq_close(router);
    zmq_ctx_term(context);
    return 0;
}

/* No two bytes that lie as far from the beginnings of their slices are the same in slices beside each other. */
static char byte_at(size_t i, size_t bytes)
{
    return (char)(i + 7 * (i / WEFT__SLICE_BYTES) + bytes);
}

static void send_of(void *socket, size_t bytes)
{
    zmq_msg_t msg;
    assert_int_equal(zmq_msg_init_size(&msg, bytes), 0);
    for (size_t i = 0; i < bytes; i++) ((char *)zmq_msg_data(&msg))[i] = byte_at(i, bytes);
    assert_true(weft__slices_send(socket, &msg));
}

static void is_of(zmq_msg_t *msg, size_t bytes)
{
    const char *got = zmq_msg_data(msg);
    assert_int_equal(zmq_msg_size(msg), bytes);
    assert_false(zmq_msg_more(msg));
    for (size_t i = 0; i < bytes; i++)
        if (got[i] != byte_at(i, bytes)) fail_msg("byte %zu of %zu is another one", i, bytes);
}

/* At the router: behind its first frame, which says whose it is. */
static void take_from_dealer(zmq_msg_t *msg)
{
    int bytes;
    zmq_pollitem_t item = {.socket = router, .events = ZMQ_POLLIN};
    assert_int_equal(zmq_poll(&item, 1, JOB_WAIT_MS), 1);
    assert_true((bytes = zmq_recv(router, route, sizeof route, 0)) > 0);
    route_bytes = (size_t)bytes;
    assert_true(weft__slices_take(router, msg, MOST, NULL));
}

static const size_t lengths[] = {0,
                                 1,
                                 WEFT__SLICE_BYTES - 1,
                                 WEFT__SLICE_BYTES,
                                 WEFT__SLICE_BYTES + 1,
                                 2 * WEFT__SLICE_BYTES,
                                 2 * WEFT__SLICE_BYTES + 1,
                                 MOST};

static void any_length_arrives_whole(void **state)
{
    const size_t n = sizeof lengths / sizeof *lengths;
    zmq_msg_t msg;
    (void)state;
    zmq_msg_init(&msg);
    for (size_t i = 0; i < n; i++) send_of(dealer, lengths[i]); /* all are under way together */
    for (size_t i = 0; i < n; i++) {
        take_from_dealer(&msg);
        is_of(&msg, lengths[i]);
    }
    assert_false(weft__slices_take(dealer, &msg, MOST, NULL)); /* nothing is there */
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(zmq_send(router, route, route_bytes, ZMQ_SNDMORE), route_bytes);
        send_of(router, lengths[i]);
        assert_true(weft__slices_take(dealer, &msg, MOST, NULL));
        is_of(&msg, lengths[i]);
    }
    zmq_msg_close(&msg);
}

static void no_frame_is_longer_than_a_slice(void **state)
{
    zmq_msg_t frame;
    size_t left = 2 * WEFT__SLICE_BYTES + 1;
    (void)state;
    zmq_msg_init(&frame);
    send_of(dealer, left);
    assert_true(zmq_recv(router, route, sizeof route, 0) > 0);
    do {
        assert_true(zmq_msg_recv(&frame, router, 0) > 0);
        assert_true(zmq_msg_size(&frame) <= WEFT__SLICE_BYTES);
        left -= zmq_msg_size(&frame);
    } while (zmq_msg_more(&frame));
    assert_int_equal(left, 0);
    zmq_msg_close(&frame);
}

/* In one frame as in many, and the next one is taken. */
static void what_is_too_long_is_empty(void **state)
{
    zmq_msg_t msg;
    (void)state;
    zmq_msg_init(&msg);
    send_of(dealer, MOST + 1);
    send_of(dealer, 3);
    take_from_dealer(&msg);
    assert_int_equal(zmq_msg_size(&msg), 0);
    take_from_dealer(&msg);
    is_of(&msg, 3);
    assert_int_equal(zmq_send(router, route, route_bytes, ZMQ_SNDMORE), route_bytes);
    send_of(router, 11);
    assert_true(weft__slices_take(dealer, &msg, 10, NULL));
    assert_int_equal(zmq_msg_size(&msg), 0);
    zmq_msg_close(&msg);
}

/* One that cannot be sent is used up, and what comes after it is not taken for what is left of it. */
static void one_that_has_nowhere_to_go_leaves_nothing_behind(void **state)
{
    void *lonely = zmq_socket(context, ZMQ_DEALER);
    zmq_msg_t msg;
    (void)state;
    assert_int_equal(zmq_msg_init_size(&msg, 3 * WEFT__SLICE_BYTES), 0);
    memset(zmq_msg_data(&msg), 0, 3 * WEFT__SLICE_BYTES);
    assert_false(weft__slices_send(lonely, &msg));
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(zmq_connect(lonely, "inproc://slices"), 0);
    send_of(lonely, 5);
    zmq_msg_init(&msg);
    take_from_dealer(&msg);
    is_of(&msg, 5);
    zmq_msg_close(&msg);
    zmq_close(lonely);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(any_length_arrives_whole, begin, end),
        cmocka_unit_test_setup_teardown(no_frame_is_longer_than_a_slice, begin, end),
        cmocka_unit_test_setup_teardown(what_is_too_long_is_empty, begin, end),
        cmocka_unit_test_setup_teardown(one_that_has_nowhere_to_go_leaves_nothing_behind, begin, end),
    };
    alarm(JOB_ALARM_S);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
