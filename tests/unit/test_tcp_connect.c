/* Dialling a rank that is not there, does not answer, or is not who it should be: one sentence, once. */
#include "tcp_link.h"
#include "tcp_ranks.h"

#define HANDSHAKE_MS 300

static int open_against(void)
{
    return open_beside_one_by_hand(0);
}

static int take(int listener)
{
    int fd;
    while ((fd = accept(listener, NULL, NULL)) < 0) turns(1);
    return fd;
}

static void check_lost(packet *l, const char *word)
{
    UNTIL(ranks[0].lost_times[1]);
    turns(3);
    assert_int_equal(ranks[0].lost_times[1], 1);
    assert_int_equal(l->sent_times, 1);
    assert_int_equal(l->status, WEFT_ERR_PEER);
    if (!strstr(ranks[0].why, word) || !strstr(ranks[0].why, "rank 1"))
        fail_msg("\"%s\" does not say \"%s\"", ranks[0].why, word);
    assert_true(ranks[0].t->flushed(ranks[0].t, 1));
    packet_free(l);
    l = send_packet(0, 1, 9, 10, false);
    assert_int_equal(l->status, WEFT_ERR_PEER);
    assert_int_equal(ranks[0].lost_times[1], 1);
    packet_free(l);
}

static void test_refused(void **state)
{
    (void)state;
    close(open_against());
    check_lost(send_packet(0, 1, 1, 10, false), "127.0.0.1");
}

static void test_no_address(void **state)
{
    weft__tcp_address addresses[2];
    int fd;
    (void)state;
    memset(ranks, 0, sizeof ranks);
    memset(addresses, 0, sizeof addresses);
    assert_int_equal(weft__tcp_listen("127.0.0.1", &fd, &addresses[0]), WEFT_OK);
    open_rank(0, 2, addresses, fd);
    check_lost(send_packet(0, 1, 1, 10, false), "no TCP address");
}

/* The kernel takes the connection, and nobody behind it speaks: who is stopped is late.  It is dialled again and again, and has
 * gone where it refuses that. */
static void test_silent(void **state)
{
    int listener = open_against();
    packet *l = send_packet(0, 1, 1, 10, false);
    const int64_t until = weft__now_ns() + 2 * WEFT__TCP_PATIENCE * HANDSHAKE_MS * WEFT__MS;
    (void)state;
    while (weft__now_ns() < until) turns(10);
    assert_int_equal(ranks[0].lost_times[1], 0);
    assert_int_equal(l->sent_times, 0);
    close(listener);
    check_lost(l, "Connection refused");
}

static void test_closing(void **state)
{
    int listener = open_against(), dials = 0;
    packet *l = send_packet(0, 1, 1, 10, false);
    (void)state;
    while (!ranks[0].lost_times[1]) {
        int fd = accept(listener, NULL, NULL);
        if (fd >= 0) close(fd), dials++;
        turns(1);
    }
    assert_int_equal(dials, 10);
    check_lost(
        l, "closes every connection before the handshake is done, where this rank says that it is rank 0");
    close(listener);
}

/* Once or twice closed too early is no loss. */
static void test_tried_again(void **state)
{
    int listener = open_against();
    packet *l = send_packet(0, 1, 1, 10, false);
    weft__tcp_handshake h;
    weft__tcp_hello hello;
    weft__frame frame;
    int fd;
    (void)state;
    close(take(listener));
    fd = take(listener);
    assert_true(raw_receive(fd, &hello, sizeof hello));
    close(fd);
    fd = take(listener);
    assert_true(raw_answer(fd, &keys_of[1], &h));
    turns(5);
    assert_int_equal(l->sent_times, 0); /* nothing flows before the verdict */
    raw_judge(fd, &h, WEFT__TCP_TAKEN);
    assert_true(raw_receive(fd, &frame, sizeof frame));
    assert_int_equal(frame.id, 1);
    assert_int_equal(l->sent_times, 1);
    close(fd);
    close(listener);
    packet_free(l);
}

static void answer_with(int listener, const weft__keys *with, int verdict, packet *l, const char *word)
{
    weft__tcp_handshake h;
    int fd = take(listener);
    assert_int_equal(raw_answer(fd, with, &h), verdict != 0);
    if (verdict) raw_judge(fd, &h, verdict);
    check_lost(l, word);
    close(fd);
    close(listener);
    close_world();
}

static void answer_wrongly(int listener, const weft__keys *with)
{
    weft__tcp_handshake h;
    int fd = take(listener);
    assert_false(raw_answer(fd, with, &h));
    close(fd);
}

/* Somebody at another rank's address has the secret, and another key pair, or that of a third rank: nothing is sent to it, and
 * the sentence has which rank it was to be. */
static void not_that_rank(const weft__keys *of)
{
    int listener = open_against();
    weft__keys other = of ? *of : keys;
    other.own_public = keys_of[1].own_public; /* which every member knows */
    packet *l = send_packet(0, 1, 1, 10, false);
    answer_wrongly(listener, &other);
    answer_wrongly(listener, &other);
    answer_with(listener, &other, 0, l, "does not prove that it is that rank");
}

static void test_not_that_rank(void **state)
{
    (void)state;
    not_that_rank(NULL);
    not_that_rank(&keys_of[2]);
}

/* It is tried again, as its bytes may have been changed on their way. */
static void test_impostor(void **state)
{
    int listener = open_against();
    weft__keys other;
    (void)state;
    assert_int_equal(weft__keys_derive("wrong", 5, "job", &other), WEFT_OK);
    packet *l = send_packet(0, 1, 1, 10, false);
    answer_wrongly(listener, &other);
    answer_wrongly(listener, &other);
    answer_with(listener, &other, 0, l, "does not prove");
}

static void test_verdicts(void **state)
{
    int listener;
    (void)state;
    listener = open_against();
    answer_with(listener, &keys_of[1], 3, send_packet(0, 1, 1, 10, false), "counts this rank as gone");
    /* Only the higher rank can be told that the other one's connection is kept. */
    listener = open_against();
    answer_with(listener, &keys_of[1], 2, send_packet(0, 1, 1, 10, false), "handshake");
    listener = open_against();
    answer_with(listener, &keys_of[1], 99, send_packet(0, 1, 1, 10, false), "handshake");
}

/* Rank 1 is told that rank 0 keeps its own connection, and waits for that one. */
static packet *be_crossed(int listener)
{
    packet *l = send_packet(1, 0, 1, 10, false);
    weft__tcp_handshake h;
    int fd = take(listener);
    assert_true(raw_answer(fd, &keys_of[0], &h));
    raw_judge(fd, &h, WEFT__TCP_CROSSED);
    assert_true(raw_closed(fd));
    close(fd);
    return l;
}

static void test_crossed(void **state)
{
    int listener = open_beside_one_by_hand(1), fd;
    packet *l = be_crossed(listener);
    weft__frame frame;
    (void)state;
    fd = raw_connect(&ranks[1].address);
    assert_int_equal(raw_join(fd, 0, 1, &keys_of[0]), 1);
    assert_true(raw_receive(fd, &frame, sizeof frame));
    assert_int_equal(frame.id, 1);
    assert_int_equal(l->sent_times, 1);
    assert_int_equal(l->status, WEFT_OK);
    close(fd);
    close(listener);
    packet_free(l);
}

/* Rank 0's own connection comes to nothing, as rank 1 closes it, or somebody at rank 1's address says nothing; and rank 1 comes itself.
 * Rank 0 takes that one, which is to stay: rank 1 would wait in vain for another. */
static void other_is_taken(int listener, bool silent)
{
    packet *l = send_packet(0, 1, 1, 10, false);
    weft__frame frame;
    int own = take(listener);
    for (int closed = 0; !silent && closed < 6; closed++) { /* the pause is 640 ms then */
        close(own);
        own = take(listener);
    }
    if (!silent) {
        close(own);
        turns(3);
    } else { /* for longer than a guest may be */
        const int64_t until = weft__now_ns() + 2 * HANDSHAKE_MS * WEFT__MS;
        while (weft__now_ns() < until) turns(10);
    }
    const int other = raw_connect(&ranks[0].address);
    assert_int_equal(raw_join(other, 1, 0, &keys_of[1]), WEFT__TCP_TAKEN);
    assert_true(raw_receive(other, &frame, sizeof frame));
    assert_int_equal(frame.id, 1);
    assert_int_equal(l->status, WEFT_OK);
    assert_int_equal(ranks[0].lost_times[1], 0);
    if (silent) close(own);
    close(other);
    close(listener);
    packet_free(l);
}

static void test_other_is_taken_while_pausing(void **state)
{
    (void)state;
    other_is_taken(open_against(), false);
}

static void test_other_is_taken_while_nobody_answers(void **state)
{
    (void)state;
    other_is_taken(open_against(), true);
}

/* It says so each time, for longer than a handshake may be waited for: who answers lives, and its own connection may come yet. */
static void test_crossed_for_long(void **state)
{
    const int64_t until = weft__now_ns() + WEFT__TCP_PATIENCE * HANDSHAKE_MS * WEFT__MS * 5 / 4;
    int listener = open_beside_one_by_hand(1), own;
    packet *l = be_crossed(listener);
    weft__frame frame;
    (void)state;
    while (weft__now_ns() < until && !ranks[1].lost_times[0]) {
        const int fd = accept(listener, NULL, NULL);
        weft__tcp_handshake h;
        if (fd >= 0 && raw_answer(fd, &keys_of[0], &h)) raw_judge(fd, &h, WEFT__TCP_CROSSED);
        if (fd >= 0) close(fd);
        turns(1);
    }
    assert_string_equal(ranks[1].why, "");
    own = raw_connect(&ranks[1].address);
    assert_int_equal(raw_join(own, 0, 1, &keys_of[0]), WEFT__TCP_TAKEN);
    assert_true(raw_receive(own, &frame, sizeof frame));
    assert_int_equal(l->status, WEFT_OK);
    close(own);
    close(listener);
    packet_free(l);
}

/* It keeps its own connection and dies before that is made: nobody listens there any more. */
static void test_crossed_with_the_dead(void **state)
{
    int listener = open_beside_one_by_hand(1);
    packet *l = be_crossed(listener);
    (void)state;
    close(listener);
    UNTIL(ranks[1].lost_times[0]);
    assert_int_equal(l->status, WEFT_ERR_PEER);
    assert_non_null(strstr(ranks[1].why, "cannot be connected to"));
    packet_free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_refused, finish),
        cmocka_unit_test_teardown(test_no_address, finish),
        cmocka_unit_test_teardown(test_silent, finish),
        cmocka_unit_test_teardown(test_closing, finish),
        cmocka_unit_test_teardown(test_tried_again, finish),
        cmocka_unit_test_teardown(test_impostor, finish),
        cmocka_unit_test_teardown(test_not_that_rank, finish),
        cmocka_unit_test_teardown(test_verdicts, finish),
        cmocka_unit_test_teardown(test_crossed, finish),
        cmocka_unit_test_teardown(test_other_is_taken_while_pausing, finish),
        cmocka_unit_test_teardown(test_other_is_taken_while_nobody_answers, finish),
        cmocka_unit_test_teardown(test_crossed_for_long, finish),
        cmocka_unit_test_teardown(test_crossed_with_the_dead, finish),
    };
    char ms[16];
    snprintf(ms, sizeof ms, "%d",
             HANDSHAKE_MS); /* this thread plays the other rank, and may have to wait for a processor */
    setenv("WEFT_HANDSHAKE_MS", ms, 1);
    alarm(JOB_ALARM_S);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
