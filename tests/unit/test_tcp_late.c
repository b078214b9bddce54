/* A rank that was not run for a while, stopped or without a processor: what came for it meanwhile is taken before anybody is
 * judged late, in whatever order it is told of, and the time in which it could try nothing counts for nobody. */
#include "tcp_link.h"
#include "tcp_ranks.h"

#include <sys/syscall.h>

#define RECONNECT_MS 300
#define HANDSHAKE_MS 50
#define PATIENCE_MS  (WEFT__TCP_PATIENCE * HANDSHAKE_MS)
#define LONG_MS      (PATIENCE_MS + RECONNECT_MS) /* for a rank that is not run: any of its times is over then */

static weft__tcp *tcp_0(void)
{
    return WEFT__OWNER(ranks[0].t, weft__tcp, transport);
}

static weft__tcp_peer *peer_1(void)
{
    return &tcp_0()->peer[1];
}

static void nobody_runs(void)
{
    usleep(LONG_MS * 1000);
}

/* Before anything else is told of, though it came first. */
static void its_times_are_over(void)
{
    weft__tcp_dials_due(tcp_0(), weft__now_ns());
    assert_string_equal(ranks[0].why, "");
}

static void arrives(packet *l, int frames)
{
    UNTIL(l->sent_times || ranks[0].lost_times[1] || ranks[1].lost_times[0]);
    UNTIL(ranks[1].arrived[0] == frames || ranks[0].lost_times[1] || ranks[1].lost_times[0]);
    assert_string_equal(ranks[0].why, "");
    assert_string_equal(ranks[1].why, "");
    assert_int_equal(l->status, WEFT_OK);
    packet_free(l);
}

static void meet(void)
{
    open_world(2);
    arrives(send_packet(0, 1, 1, 1, false), 1);
}

static void test_first_connection_is_taken(void **state)
{
    packet *l;
    (void)state;
    open_world(2);
    l = send_packet(0, 1, 1, 1, false);
    assert_non_null(peer_1()->dial); /* and the kernels have met already */
    nobody_runs();
    its_times_are_over();
    arrives(l, 1);
}

/* The other end's part of the handshake waits to be read. */
static void test_first_handshake_is_answered(void **state)
{
    packet *l;
    (void)state;
    open_world(2);
    l = send_packet(0, 1, 1, 1, false);
    for (int i = 0; i < 20; i++) turn(&ranks[0]);
    for (int i = 0; i < 20; i++) turn(&ranks[1]);
    nobody_runs();
    its_times_are_over();
    arrives(l, 1);
}

static void test_one_that_broke_is_taken(void **state)
{
    (void)state;
    meet();
    shutdown(peer_1()->link->polled.fd, SHUT_RDWR);
    while (peer_1()->state == WEFT__TCP_UP) turn(&ranks[0]);
    assert_non_null(peer_1()->dial);
    nobody_runs();
    its_times_are_over();
    arrives(send_packet(0, 1, 2, 1, false), 2);
}

/* The other one is stopped, or lacks what it would accept a connection with, for longer than any of these times: it is late. */
static void stands_still_for(int64_t ms)
{
    const int64_t until = weft__now_ns() + ms * WEFT__MS;
    while (weft__now_ns() < until) turn(&ranks[0]), usleep(1000);
    assert_string_equal(ranks[0].why, "");
}

static void other_stands_still(void)
{
    stands_still_for(3 * LONG_MS);
}

static void test_first_connection_waits_for_one_that_stands_still(void **state)
{
    packet *l;
    (void)state;
    open_world(2);
    l = send_packet(0, 1, 1, 1, false);
    other_stands_still();
    arrives(l, 1);
}

static void test_one_that_broke_waits_for_one_that_stands_still(void **state)
{
    packet *l;
    (void)state;
    meet();
    shutdown(peer_1()->link->polled.fd, SHUT_RDWR);
    l = send_packet(0, 1, 2, 1, false);
    other_stands_still();
    arrives(l, 2);
}

/* ---- the kernel has no memory for what is sent ---- */

static int64_t takes_nothing_until_ns;
static int sends;

/* In place of libc's.  A socket says meanwhile that it would take something. */
ssize_t send(int fd, const void *buf, size_t n, int flags)
{
    sends++;
    if (!takes_nothing_until_ns || weft__now_ns() >= takes_nothing_until_ns)
        return syscall(SYS_sendto, fd, buf, n, flags, NULL, 0);
    errno = EAGAIN;
    return -1;
}

/* Nobody else waits for that, and it says nothing of the other rank. */
static void test_kernel_takes_nothing(void **state)
{
    packet *l;
    int tried;
    (void)state;
    open_world(2);
    takes_nothing_until_ns = weft__now_ns() + (PATIENCE_MS + 1000) * WEFT__MS;
    l = send_packet(0, 1, 1, 1, false);
    assert_non_null(peer_1()->dial);
    usleep((PATIENCE_MS + 10) * 1000);
    tried = sends;
    its_times_are_over();
    tried = sends - tried;
    arrives(l, 1);
    takes_nothing_until_ns = 0;
    assert_in_range(tried, 1, 2);
}

/* ---- the other rank is played by hand ---- */

/* It would not be heard of any more where its kernel takes no connection. */
static void stands_still_with_a_short_queue(int listener)
{
    assert_int_equal(listen(listener, 1), 0);
    other_stands_still();
}

static void none_is_left(int listener)
{
    assert_int_equal(accept(listener, NULL, NULL), -1);
    assert_int_equal(errno, EAGAIN);
}

static int take(int listener)
{
    const int64_t until = weft__now_ns() + JOB_WAIT_MS * WEFT__MS;
    int fd;
    while ((fd = accept(listener, NULL, NULL)) < 0 && weft__now_ns() < until) turns(1);
    assert_true(fd >= 0);
    return fd;
}

static int take_and_judge(int listener, int as, int verdict)
{
    weft__tcp_handshake h;
    const int fd = take(listener);
    assert_true(raw_answer(fd, &keys_of[as], &h));
    raw_judge(fd, &h, verdict);
    return fd;
}

static void close_with_a_reset(int fd)
{
    const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(fd);
}

/* Its kernel took the connection in time, and its program, which had too many at that moment, did not: that is tried again. */
static void test_reset_after_it_stood(void **state)
{
    const int listener = open_beside_one_by_hand(0);
    packet *l = send_packet(0, 1, 1, 1, false);
    int fd = take_and_judge(listener, 1, WEFT__TCP_TAKEN);
    (void)state;
    UNTIL(peer_1()->state == WEFT__TCP_UP);
    close(fd);
    UNTIL(peer_1()->state == WEFT__TCP_MENDING);
    nobody_runs();
    while ((fd = accept(listener, NULL, NULL)) < 0) continue;
    close_with_a_reset(fd);
    fd = take_and_judge(listener, 1, WEFT__TCP_TAKEN);
    UNTIL(peer_1()->state == WEFT__TCP_UP);
    assert_string_equal(ranks[0].why, "");
    close(fd);
    close(listener);
    packet_free(l);
}

static void test_queue_of_one_that_stands_still_does_not_fill(void **state)
{
    const int listener = open_beside_one_by_hand(0);
    packet *l = send_packet(0, 1, 1, 1, false);
    int fd;
    (void)state;
    stands_still_with_a_short_queue(listener);
    fd = take_and_judge(listener, 1, WEFT__TCP_TAKEN);
    UNTIL(peer_1()->state == WEFT__TCP_UP);
    none_is_left(listener);
    close(fd);
    UNTIL(peer_1()->state == WEFT__TCP_MENDING);
    stands_still_with_a_short_queue(listener);
    fd = take_and_judge(listener, 1, WEFT__TCP_TAKEN);
    UNTIL(peer_1()->state == WEFT__TCP_UP);
    none_is_left(listener);
    close(fd);
    close(listener);
    packet_free(l);
}

/* It was late, and then its connections end some times for other reasons, each a while after it stood. */
static void test_time_of_one_that_was_late_begins_anew(void **state)
{
    const int listener = open_beside_one_by_hand(0);
    packet *l = send_packet(0, 1, 1, 1, false);
    int fd = take_and_judge(listener, 1, WEFT__TCP_TAKEN);
    (void)state;
    UNTIL(peer_1()->state == WEFT__TCP_UP);
    close(fd);
    UNTIL(peer_1()->state == WEFT__TCP_MENDING);
    for (int i = 0; i < 2; i++) {
        stands_still_for(PATIENCE_MS + PATIENCE_MS * 3 / 4);
        close_with_a_reset(take(listener));
    }
    fd = take_and_judge(listener, 1, WEFT__TCP_TAKEN);
    UNTIL(peer_1()->state == WEFT__TCP_UP);
    close(fd);
    close(listener);
    packet_free(l);
}

/* It keeps its own connection, which has come by then. */
static void test_crossed(void **state)
{
    weft__tcp_address addresses[2];
    int fd[2], crossed, own;
    packet *l;
    weft__frame frame;
    (void)state;
    memset(ranks, 0, sizeof ranks);
    draw_keys_of_job();
    for (int i = 0; i < 2; i++)
        assert_int_equal(weft__tcp_listen("127.0.0.1", &fd[i], &addresses[i]), WEFT_OK);
    open_rank(1, 2, addresses, fd[1]);
    l = send_packet(1, 0, 1, 10, false);
    crossed = take_and_judge(fd[0], 0, WEFT__TCP_CROSSED);
    assert_true(raw_closed(crossed));
    close(crossed);
    own = raw_connect(&ranks[1].address);
    nobody_runs();
    turns(5);
    assert_string_equal(ranks[1].why, "");
    assert_int_equal(raw_join(own, 0, 1, &keys_of[0]), WEFT__TCP_TAKEN);
    assert_true(raw_receive(own, &frame, sizeof frame));
    assert_int_equal(frame.id, 1);
    close(own);
    close(fd[0]);
    packet_free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_first_connection_is_taken, finish),
        cmocka_unit_test_teardown(test_first_handshake_is_answered, finish),
        cmocka_unit_test_teardown(test_one_that_broke_is_taken, finish),
        cmocka_unit_test_teardown(test_first_connection_waits_for_one_that_stands_still, finish),
        cmocka_unit_test_teardown(test_one_that_broke_waits_for_one_that_stands_still, finish),
        cmocka_unit_test_teardown(test_kernel_takes_nothing, finish),
        cmocka_unit_test_teardown(test_reset_after_it_stood, finish),
        cmocka_unit_test_teardown(test_queue_of_one_that_stands_still_does_not_fill, finish),
        cmocka_unit_test_teardown(test_time_of_one_that_was_late_begins_anew, finish),
        cmocka_unit_test_teardown(test_crossed, finish),
    };
    char ms[16];
    snprintf(ms, sizeof ms, "%d", RECONNECT_MS);
    setenv("WEFT_RECONNECT_MS", ms, 1);
    snprintf(ms, sizeof ms, "%d", HANDSHAKE_MS);
    setenv("WEFT_HANDSHAKE_MS", ms, 1);
    setenv("WEFT_LOG", "0", 1); /* each connection that stands again is told */
    alarm(JOB_ALARM_S);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
