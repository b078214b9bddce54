/* test_poller.c - edges arrive once, and one that is removed by another one's handler is not called. */
#include "job.h"
#include "poller.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define N 100 /* more than one poll fetches */

static weft__poller set;
static struct item {
    weft__polled polled;
    int calls;
} items[N];
static int remove_from = N; /* the first handler called removes all others from this one on */
static int removed_by = -1;

static void ready(weft__polled *w, uint32_t events)
{
    struct item *me = (struct item *)(void *)w;
    assert_true(events & EPOLLIN);
    me->calls++;
    if (remove_from == N || removed_by >= 0) return;
    removed_by = (int)(me - items);
    for (int i = remove_from; i < N; i++)
        if (i != removed_by) weft__poller_remove(&set, &items[i].polled);
}

static int open_all(void **state)
{
    (void)state;
    if (weft__poller_open(&set)) return -1;
    remove_from = N;
    removed_by = -1;
    for (int i = 0; i < N; i++) {
        items[i] = (struct item){{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), ready}, 0};
        if (weft__poller_add(&set, &items[i].polled, EPOLLIN)) return -1;
    }
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    for (int i = 0; i < N; i++) close(items[i].polled.fd);
    weft__poller_close(&set);
    return 0;
}

static void signal_all(void)
{
    for (int i = 0; i < N; i++) assert_int_equal(eventfd_write(items[i].polled.fd, 1), 0);
}

static int poll_all(void)
{
    int total = 0, n;
    while ((n = weft__poller_poll(&set))) total += n;
    return total;
}

static void test_edges(void **state)
{
    (void)state;
    assert_int_equal(weft__poller_poll(&set), 0);
    for (int round = 1; round <= 2; round++) {
        signal_all();
        assert_int_equal(poll_all(), N);
        assert_int_equal(weft__poller_poll(&set), 0);
        for (int i = 0; i < N; i++) assert_int_equal(items[i].calls, round);
    }
}

static void test_removed_are_skipped(void **state)
{
    (void)state;
    remove_from = 0;
    signal_all();
    assert_int_equal(poll_all(), 1);
    for (int i = 0; i < N; i++) assert_int_equal(items[i].calls, i == removed_by);
}

static void test_add_again(void **state)
{
    (void)state;
    weft__poller_remove(&set, &items[0].polled);
    signal_all();
    assert_int_equal(poll_all(), N - 1);
    assert_int_equal(items[0].calls, 0);
    assert_int_equal(weft__poller_add(&set, &items[0].polled, EPOLLIN), WEFT_OK);
    assert_int_equal(poll_all(), 1); /* what was ready before is told when added */
}

static void test_bad_descriptor(void **state)
{
    weft__polled bad = {-1, ready};
    (void)state;
    assert_int_equal(weft__poller_add(&set, &bad, EPOLLIN), WEFT_ERR_SYSTEM);
    weft__poller_remove(&set, &bad);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(test_edges, open_all, close_all),
                                       cmocka_unit_test_setup_teardown(test_removed_are_skipped, open_all,
                                                                       close_all),
                                       cmocka_unit_test_setup_teardown(test_add_again, open_all, close_all),
                                       cmocka_unit_test_setup_teardown(test_bad_descriptor, open_all,
                                                                       close_all)};
    alarm(JOB_ALARM_S);
    return cmocka_run_group_tests_name("watch", tests, NULL, NULL);
}
