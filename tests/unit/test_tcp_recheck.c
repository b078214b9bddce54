/* test_tcp_recheck.c - an edge of the set that is lost costs until the next recheck, and is told. */
#include "log.h"
#include "tcp_link.h"
#include "tcp_ranks.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>

#define BIG      (256u * 1024)
#define FULL     64 /* frames of BIG: more than two sockets hold */
#define EVENTS   64
#define AGAIN_US 110000 /* between two rechecks, at least */

static char told[4096];

static void collect(int level, const char *line, void *arg)
{
    size_t used = strlen(told);
    (void)level;
    (void)arg;
    snprintf(told + used, sizeof told - used, "%s\n", line);
}

static int begin(void **state)
{
    (void)state;
    told[0] = 0;
    weft_set_log(collect, NULL);
    return 0;
}

static int end(void **state)
{
    weft_set_log(NULL, NULL);
    return finish(state);
}

static weft__tcp_link *link_of(rank *r, int peer)
{
    return ((weft__tcp *)(void *)r->t)->peer[peer].link;
}

static void recheck(rank *r)
{
    usleep(AGAIN_US);
    r->t->recheck(r->t);
    weft__log_flush();
}

/* Somebody takes all that the set tells, and does nothing about it. */
static int lose_edges(rank *r)
{
    struct epoll_event events[EVENTS];
    return epoll_wait(r->poller.epoll_fd, events, EVENTS, 0);
}

static void await_bytes(rank *r, int peer, int least)
{
    int64_t until = weft__now_ns() + JOB_WAIT_MS * WEFT__MS;
    int here = 0;
    while (here < least && weft__now_ns() < until)
        assert_int_equal(ioctl(link_of(r, peer)->polled.fd, FIONREAD, &here), 0);
    assert_true(here >= least);
}

static void connect_pair(void)
{
    packet *l;
    open_world(2);
    l = send_packet(0, 1, 1, 1, false);
    UNTIL(ranks[1].arrived[0] == 1);
    turns(3);
    packet_free(l);
}

static void test_bytes_nobody_told_of(void **state)
{
    const int length = 1000;
    packet *l;
    (void)state;
    connect_pair();
    l = send_packet(0, 1, 2, (size_t)length, false);
    await_bytes(&ranks[1], 0, length);
    assert_int_equal(lose_edges(&ranks[1]), 1);
    for (int i = 0; i < 10; i++) turn(&ranks[1]);
    assert_int_equal(ranks[1].arrived[0], 1); /* nothing else reads it */
    recheck(&ranks[1]);
    assert_int_equal(ranks[1].arrived[0], 2);
    assert_non_null(strstr(told, "1064 B from rank 0 had come, and nothing told of them"));
    packet_free(l);
}

static void test_room_nobody_told_of(void **state)
{
    packet *packets[FULL];
    (void)state;
    connect_pair();
    for (int i = 0; i < FULL; i++) packets[i] = send_packet(0, 1, (uint64_t)i + 2, BIG, true);
    for (int i = 0; i < 200; i++) turn(&ranks[0]);
    assert_true(link_of(&ranks[0], 1)->blocked);
    for (int quiet = 0; quiet < 20; usleep(1000)) quiet = turn(&ranks[1]) ? 0 : quiet + 1;
    assert_true(lose_edges(&ranks[0]) > 0);
    for (int i = 0; i < 10; i++) turn(&ranks[0]);
    assert_int_equal(packets[FULL - 1]->sent_times, 0);
    assert_true(link_of(&ranks[0], 1)->blocked); /* nothing else tries it */
    recheck(&ranks[0]);
    assert_non_null(strstr(told, "rank 1 had taken what was sent to it, and nothing told of that"));
    UNTIL(ranks[1].arrived[0] == FULL + 1);
    for (int i = 0; i < FULL; i++) packet_free(packets[i]);
}

static void await_ready(int fd, short events)
{
    struct pollfd at = {.fd = fd, .events = events};
    assert_int_equal(poll(&at, 1, JOB_WAIT_MS), 1);
}

/* The descriptor that the set would tell of next. */
static int descriptor_told(rank *r)
{
    struct epoll_event event = {0};
    int64_t until = weft__now_ns() + JOB_WAIT_MS * WEFT__MS;
    int n = 0;
    while (n == 0 && weft__now_ns() < until) n = epoll_wait(r->poller.epoll_fd, &event, 1, 0);
    assert_int_equal(n, 1);
    assert_non_null(event.data.ptr);
    return ((weft__polled *)event.data.ptr)->fd;
}

/* A connection, and each step of its handshake on both sides: of what each waits for it is not told. */
static void test_handshake_nobody_told_of(void **state)
{
    weft__tcp *zero, *one;
    packet *l;
    (void)state;
    open_world(2);
    zero = (weft__tcp *)(void *)ranks[0].t;
    one = (weft__tcp *)(void *)ranks[1].t;
    recheck(&ranks[0]);
    recheck(&ranks[1]);
    l = send_packet(0, 1, 1, 1, false); /* dials */
    await_ready(one->listener.fd, POLLIN);
    assert_int_equal(descriptor_told(&ranks[1]), one->listener.fd);
    for (int i = 0; i < 10; i++) turn(&ranks[1]);
    assert_true(weft__list_empty(&one->guests)); /* nothing else accepts it */
    recheck(&ranks[1]);
    assert_false(weft__list_empty(&one->guests));
    assert_non_null(strstr(told, "a connection had come, and nothing told of that"));

    told[0] = 0;
    while (descriptor_told(&ranks[0]) == zero->alarm.fd) continue; /* it is connected, and may say hello */
    for (int i = 0; i < 10; i++) turn(&ranks[0]);
    recheck(&ranks[0]);
    assert_non_null(strstr(told, "the handshake with rank 1 could go on, and nothing told of that"));

    told[0] = 0;
    await_ready(WEFT__LIST_ENTRY(one->guests.next, weft__tcp_guest, link)->polled.fd, POLLIN);
    assert_true(lose_edges(&ranks[1]) > 0);
    for (int i = 0; i < 10; i++) turn(&ranks[1]);
    recheck(&ranks[1]);
    assert_non_null(strstr(told, "the handshake of 127.0.0.1"));
    assert_non_null(strstr(told, "could go on, and nothing told of that"));

    told[0] = 0;
    UNTIL(ranks[1].arrived[0] == 1); /* the rest is told of */
    recheck(&ranks[0]);
    recheck(&ranks[1]);
    assert_string_equal(told, "");
    packet_free(l);
}

/* A stranger that says nothing has its time, also where that nobody is told that it is over. */
static void test_time_nobody_told_of(void **state)
{
    weft__tcp *one;
    int fd;
    (void)state;
    open_world(2);
    one = (weft__tcp *)(void *)ranks[1].t;
    fd = raw_connect(&ranks[1].address);
    UNTIL(!weft__list_empty(&one->guests));
    await_ready(one->alarm.fd, POLLIN);
    lose_edges(&ranks[1]);
    for (int i = 0; i < 10; i++) turn(&ranks[1]);
    assert_false(weft__list_empty(&one->guests));
    recheck(&ranks[1]);
    assert_true(weft__list_empty(&one->guests));
    close(fd);
}

/* What the set tells of, and what comes slowly, is no reason to say anything. */
static void test_nothing_to_tell(void **state)
{
    packet *packets[FULL];
    (void)state;
    connect_pair();
    for (int i = 0; i < FULL; i++) {
        packets[i] = send_packet(0, 1, (uint64_t)i + 2, random32() % (BIG + 1), random32() % 2);
        for (uint32_t n = random32() % 3; n; n--) turn(&ranks[random32() % 2]);
        if (i % 8 == 0) {
            recheck(&ranks[0]);
            recheck(&ranks[1]);
        }
    }
    UNTIL(ranks[1].arrived[0] == FULL + 1);
    recheck(&ranks[0]);
    recheck(&ranks[1]);
    assert_string_equal(told, "");
    for (int i = 0; i < FULL; i++) packet_free(packets[i]);
}

/* It may be asked at each deadline of many. */
static void test_not_at_each_call(void **state)
{
    packet *l;
    (void)state;
    connect_pair();
    recheck(&ranks[1]);
    l = send_packet(0, 1, 2, 10, false);
    await_bytes(&ranks[1], 0, 10);
    lose_edges(&ranks[1]);
    ranks[1].t->recheck(ranks[1].t);
    assert_int_equal(ranks[1].arrived[0], 1);
    recheck(&ranks[1]);
    assert_int_equal(ranks[1].arrived[0], 2);
    packet_free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_bytes_nobody_told_of, begin, end),
        cmocka_unit_test_setup_teardown(test_room_nobody_told_of, begin, end),
        cmocka_unit_test_setup_teardown(test_handshake_nobody_told_of, begin, end),
        cmocka_unit_test_setup_teardown(test_time_nobody_told_of, begin, end),
        cmocka_unit_test_setup_teardown(test_nothing_to_tell, begin, end),
        cmocka_unit_test_setup_teardown(test_not_at_each_call, begin, end),
    };
    alarm(JOB_ALARM_S);
    setenv("WEFT_HANDSHAKE_MS", "1000", 1); /* a handshake that is looked at every 110 ms has time enough */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
