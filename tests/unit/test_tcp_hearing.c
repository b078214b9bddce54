/* Whether the host at the other end lives: by what its kernel acknowledges, whatever the rank there does. */
#include "hearing.h"
#include "tcp_ranks.h"

#include <sys/resource.h>

#define BIG  (256u * 1024)
#define FULL 64 /* frames of BIG: more than two sockets hold */

typedef struct caller {
    weft__knock knock;
    int answers;
} caller;

static void on_knock_answered(weft__knock *knock)
{
    ((caller *)(void *)knock)->answers++;
}

static const weft__hearing *hearing(void)
{
    return ranks[0].t->hearing;
}

static weft__silence silence(int64_t beat_ns)
{
    return hearing()->silence(ranks[0].t, 1, beat_ns, weft__now_ns());
}

static int64_t end_of_wait(void)
{
    return weft__now_ns() + JOB_WAIT_MS * WEFT__MS;
}

static void connect_pair(void)
{
    packet *l;
    open_world(2);
    l = send_packet(0, 1, 1, 1, false);
    UNTIL(ranks[1].arrived[0] == 1 && l->sent_times == 1);
    packet_free(l);
}

/* The other rank does not move, and nobody asks the poller: what is judged by a knock has to look at it. */
static void test_looked_at(void **state)
{
    caller c = {.knock.answered = on_knock_answered};
    int64_t until = end_of_wait();
    (void)state;
    open_world(2);
    assert_true(hearing()->knock(ranks[0].t, 1, &c.knock));
    while (!c.answers && weft__now_ns() < until) weft__knock_look(&c.knock);
    assert_int_equal(c.answers, 1);
    assert_null(c.knock.end);
    weft__knock_look(&c.knock); /* it is over */
    weft__knock_end(&c.knock);
    assert_int_equal(c.answers, 1);
}

static void test_polled(void **state)
{
    caller c = {.knock.answered = on_knock_answered};
    int64_t until = end_of_wait();
    (void)state;
    open_world(2);
    assert_true(hearing()->knock(ranks[0].t, 1, &c.knock));
    while (!c.answers && weft__now_ns() < until) turn(&ranks[0]);
    assert_int_equal(c.answers, 1);
}

/* Who refuses lives too. */
static void test_refused(void **state)
{
    caller c = {.knock.answered = on_knock_answered};
    int64_t until = end_of_wait();
    (void)state;
    open_world(2);
    close_rank(&ranks[1]);
    assert_true(hearing()->knock(ranks[0].t, 1, &c.knock));
    while (!c.answers && weft__now_ns() < until) weft__knock_look(&c.knock);
    assert_int_equal(c.answers, 1);
}

/* One that is ended is answered by nobody any more, and leaves nothing open. */
static void test_ended(void **state)
{
    caller c = {.knock.answered = on_knock_answered};
    int before, after;
    (void)state;
    open_world(2);
    before = dup(0);
    close(before);
    for (int i = 0; i < 10; i++) {
        hearing()->knock(ranks[0].t, 1, &c.knock);
        weft__knock_end(&c.knock);
    }
    turns(3);
    assert_true(c.answers <= 10); /* a kernel may answer inside */
    assert_null(c.knock.end);
    after = dup(0);
    close(after);
    assert_int_equal(after, before);
}

/* That no descriptor is left says nothing of the other host. */
static void test_no_descriptor(void **state)
{
    caller c = {.knock.answered = on_knock_answered};
    struct rlimit was, none;
    int free_fd;
    (void)state;
    open_world(2);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    free_fd = dup(0);
    none = was;
    none.rlim_cur = (rlim_t)free_fd;
    close(free_fd);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    assert_false(hearing()->knock(ranks[0].t, 1, &c.knock));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
    assert_int_equal(c.answers, 0);
    assert_null(c.knock.end);
}

/* Nothing waits: a beat is sent, and acknowledged by a kernel whose rank does not move. */
static void test_beat(void **state)
{
    int64_t until = end_of_wait(), before;
    weft__silence s;
    (void)state;
    connect_pair();
    UNTIL(!silence(0).since_ns); /* a kernel may put an acknowledgement off for a while */
    usleep(30000);
    before = weft__now_ns() - 15 * WEFT__MS; /* kernels count this in steps of up to 10 ms */
    s = silence(0);
    assert_int_equal(s.since_ns, 0);
    assert_true(s.heard_ns > 0 && s.heard_ns < before);
    silence(15 * WEFT__MS); /* sends it */
    do {
        usleep(1000);
        s = silence(0);
    } while ((s.since_ns || s.heard_ns < before) && weft__now_ns() < until);
    assert_int_equal(s.since_ns, 0);
    assert_true(s.heard_ns >= before);
    assert_int_equal(ranks[1].arrived[0], 1); /* it is no frame for anybody */
}

/* A rank that does not read holds its peer's bytes back: they wait, and none of them is on its way. */
static void test_full_receiver(void **state)
{
    packet *packets[FULL];
    int64_t until = end_of_wait();
    weft__silence s;
    (void)state;
    connect_pair();
    for (int i = 0; i < FULL; i++) packets[i] = send_packet(0, 1, (uint64_t)i + 2, BIG, true);
    do {
        turn(&ranks[0]);
        s = silence(0);
    } while ((!s.since_ns || s.sent) && weft__now_ns() < until);
    assert_true(s.since_ns);
    assert_false(s.sent);
    UNTIL(packets[FULL - 1]->sent_times == 1);
    for (int i = 0; i < FULL; i++) packet_free(packets[i]);
}

/* A kernel has answered a dial, and its rank does not: that is neither silence nor news. */
static void test_handshake(void **state)
{
    int64_t until = end_of_wait();
    weft__silence s;
    packet *l;
    (void)state;
    open_world(2);
    l = send_packet(0, 1, 1, 1, false);
    do {
        turn(&ranks[0]);
        s = silence(0);
    } while (s.since_ns && weft__now_ns() < until);
    assert_int_equal(s.since_ns, 0);
    assert_int_equal(s.heard_ns, 0);
    UNTIL(l->sent_times == 1);
    packet_free(l);
}

/* What is under way when a connection is made anew arrives, once. */
static void test_renewed(void **state)
{
    packet *l;
    (void)state;
    connect_pair();
    l = send_packet(0, 1, 2, BIG, true);
    turn(&ranks[0]);
    hearing()->renew(ranks[0].t, 1, "the test wants it");
    UNTIL(ranks[1].arrived[0] == 2 && l->sent_times == 1);
    assert_int_equal(ranks[0].lost_times[1] + ranks[1].lost_times[0], 0);
    packet_free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_looked_at, finish),
        cmocka_unit_test_teardown(test_polled, finish),
        cmocka_unit_test_teardown(test_refused, finish),
        cmocka_unit_test_teardown(test_ended, finish),
        cmocka_unit_test_teardown(test_no_descriptor, finish),
        cmocka_unit_test_teardown(test_beat, finish),
        cmocka_unit_test_teardown(test_full_receiver, finish),
        cmocka_unit_test_teardown(test_handshake, finish),
        cmocka_unit_test_teardown(test_renewed, finish),
    };
    setenv("WEFT_RECONNECT_MS", "5000", 1); /* a connection that is over is made anew */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
