/* test_tcp_recheck.c - an edge of the set that is lost costs until the next recheck, and is told. */
#include "log.h"
#include "tcp_link.h"
#include "tcp_ranks.h"

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
    return epoll_wait(r->watch.epoll_fd, events, EVENTS, 0);
}

static void await_bytes(rank *r, int peer, int least)
{
    int64_t until = weft__now_ns() + JOB_WAIT_MS * WEFT__MS;
    int here = 0;
    while (here < least && weft__now_ns() < until)
        assert_int_equal(ioctl(link_of(r, peer)->watched.fd, FIONREAD, &here), 0);
    assert_true(here >= least);
}

static void connect_pair(void)
{
    letter *l;
    open_world(2);
    l = send_letter(0, 1, 1, 1, false);
    UNTIL(ranks[1].arrived[0] == 1);
    turns(3);
    letter_free(l);
}

static void test_bytes_nobody_told_of(void **state)
{
    const int length = 1000;
    letter *l;
    (void)state;
    connect_pair();
    l = send_letter(0, 1, 2, (size_t)length, false);
    await_bytes(&ranks[1], 0, length);
    assert_int_equal(lose_edges(&ranks[1]), 1);
    for (int i = 0; i < 10; i++) turn(&ranks[1]);
    assert_int_equal(ranks[1].arrived[0], 1); /* nothing else reads it */
    recheck(&ranks[1]);
    assert_int_equal(ranks[1].arrived[0], 2);
    assert_non_null(strstr(told, "1064 B from rank 0 had come, and nothing told of them"));
    letter_free(l);
}

static void test_room_nobody_told_of(void **state)
{
    letter *letters[FULL];
    (void)state;
    connect_pair();
    for (int i = 0; i < FULL; i++) letters[i] = send_letter(0, 1, (uint64_t)i + 2, BIG, true);
    for (int i = 0; i < 200; i++) turn(&ranks[0]);
    assert_true(link_of(&ranks[0], 1)->blocked);
    for (int quiet = 0; quiet < 20; usleep(1000)) quiet = turn(&ranks[1]) ? 0 : quiet + 1;
    assert_true(lose_edges(&ranks[0]) > 0);
    for (int i = 0; i < 10; i++) turn(&ranks[0]);
    assert_int_equal(letters[FULL - 1]->sent_times, 0);
    assert_true(link_of(&ranks[0], 1)->blocked); /* nothing else tries it */
    recheck(&ranks[0]);
    assert_non_null(strstr(told, "rank 1 had taken what was sent to it, and nothing told of that"));
    UNTIL(ranks[1].arrived[0] == FULL + 1);
    for (int i = 0; i < FULL; i++) letter_free(letters[i]);
}

/* What the set tells of, and what comes slowly, is no reason to say anything. */
static void test_nothing_to_tell(void **state)
{
    letter *letters[FULL];
    (void)state;
    connect_pair();
    for (int i = 0; i < FULL; i++) {
        letters[i] = send_letter(0, 1, (uint64_t)i + 2, random32() % (BIG + 1), random32() % 2);
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
    for (int i = 0; i < FULL; i++) letter_free(letters[i]);
}

/* It may be asked at each deadline of many. */
static void test_not_at_each_call(void **state)
{
    letter *l;
    (void)state;
    connect_pair();
    recheck(&ranks[1]);
    l = send_letter(0, 1, 2, 10, false);
    await_bytes(&ranks[1], 0, 10);
    lose_edges(&ranks[1]);
    ranks[1].t->recheck(ranks[1].t);
    assert_int_equal(ranks[1].arrived[0], 1);
    recheck(&ranks[1]);
    assert_int_equal(ranks[1].arrived[0], 2);
    letter_free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_bytes_nobody_told_of, begin, end),
        cmocka_unit_test_setup_teardown(test_room_nobody_told_of, begin, end),
        cmocka_unit_test_setup_teardown(test_nothing_to_tell, begin, end),
        cmocka_unit_test_setup_teardown(test_not_at_each_call, begin, end),
    };
    alarm(JOB_ALARM_S);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
