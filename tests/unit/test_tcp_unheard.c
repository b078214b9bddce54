/* A rank whose kernel answers nothing for a while, as where the way to it is lost: it is asked anew before the kernel's own questions
 * become rare, and a connection that it makes itself is not turned away for one that nobody answers. */
#include "tcp_link.h"
#include "tcp_ranks.h"

#include <sys/syscall.h>

/* In place of libc's, whose own declaration has a union for the name. */
int counted_connect(int fd, const struct sockaddr *name, socklen_t length) __asm__("connect");

static int connects;

int counted_connect(int fd, const struct sockaddr *name, socklen_t length)
{
    connects++;
    return (int)syscall(SYS_connect, fd, name, length);
}

/* A kernel throws questions away where the queue is full. */
static int lose_the_way(int listener)
{
    assert_int_equal(listen(listener, 0), 0);
    return raw_connect(&ranks[1].address);
}

static void way_is_back(int listener, int filler)
{
    close(accept(listener, NULL, NULL));
    close(filler);
}

static int take_as_1(int listener)
{
    const int64_t until = weft__now_ns() + JOB_WAIT_MS * WEFT__MS;
    weft__tcp_handshake h;
    int fd;
    while ((fd = accept(listener, NULL, NULL)) < 0 && weft__now_ns() < until) turns(1);
    assert_true(raw_answer(fd, &keys_of[1], &h));
    raw_judge(fd, &h, WEFT__TCP_TAKEN);
    return fd;
}

static void test_is_asked_anew(void **state)
{
    const int listener = open_beside_one_by_hand(0);
    packet *l = send_packet(0, 1, 1, 10, false);
    int fd = take_as_1(listener), filler;
    (void)state;
    UNTIL(l->sent_times);
    filler = lose_the_way(listener);
    connects = 0;
    close(fd);
    UNTIL(connects == 2 || ranks[0].lost_times[1]);
    assert_string_equal(ranks[0].why, "");
    way_is_back(listener, filler);
    fd = take_as_1(listener);
    packet_free(l);
    l = send_packet(0, 1, 2, 10, false);
    UNTIL(l->sent_times || ranks[0].lost_times[1]);
    assert_string_equal(ranks[0].why, "");
    close(fd);
    close(listener);
    packet_free(l);
}

static void test_other_is_taken(void **state)
{
    const int listener = open_beside_one_by_hand(0), filler = lose_the_way(listener);
    packet *l = send_packet(0, 1, 1, 10, false);
    const int64_t until = weft__now_ns() + 1100 * WEFT__MS;
    int fd;
    (void)state;
    while (weft__now_ns() < until) turns(10);
    fd = raw_connect(&ranks[0].address);
    assert_int_equal(raw_join(fd, 1, 0, &keys_of[1]), WEFT__TCP_TAKEN);
    UNTIL(l->sent_times);
    assert_int_equal(l->status, WEFT_OK);
    close(filler);
    close(fd);
    close(listener);
    packet_free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_is_asked_anew, finish),
        cmocka_unit_test_teardown(test_other_is_taken, finish),
    };
    setenv("WEFT_LOG", "0", 1); /* each connection that stands again is told */
    alarm(JOB_ALARM_S);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
