/* The server at which ranks join: a port of its own choice, the run that it is of, and giving up for another
 * server. */
#include "log.h"
#include "rendezvous_clients.h"
#include "unproved.h"

#include <stdatomic.h>

static const uint8_t other_run[WEFT__RUN_NONCE_BYTES] = "an earlier one", any_run[WEFT__RUN_NONCE_BYTES];

static void the_run_is_the_one_looked_for(void **state)
{
    void *a = client(), *b = client();
    words joined;
    (void)state;
    assert_int_not_equal(weft__address_port(&place), 0);
    say_join(a, 1, other_run, -1, 2);
    assert_int_equal(answer(a), WEFT__RENDEZVOUS_ANOTHER); /* and it does not count */
    say_join(a, 1, run, -1, 2);
    assert_int_equal(no_answer(a), 0);
    say_join(b, 2, any_run, -1, -1);
    assert_int_equal(take(a, JOB_WAIT_MS, &joined), WEFT__RENDEZVOUS_JOINED);
    assert_memory_equal(joined.payload, run, sizeof run);
    assert_int_equal(answer(b), WEFT__RENDEZVOUS_JOINED);
    zmq_close(a);
    zmq_close(b);
}

static void who_resigns_takes_nobody(void **state)
{
    void *a = client(), *b = client();
    (void)state;
    say_join(a, 1, run, -1, 2);
    assert_int_equal(no_answer(a), 0);
    assert_true(weft__rendezvous_resign(server));
    assert_true(weft__rendezvous_resign(server));
    say_join(b, 2, run, -1, 2);
    assert_int_equal(no_answer(b), 0);
    assert_int_equal(no_answer(a), 0);
    zmq_close(a);
    zmq_close(b);
}

static void a_complete_job_keeps_its_server(void **state)
{
    void *a = client(), *late = client();
    (void)state;
    say_join(a, 1, run, -1, 1);
    assert_int_equal(answer(a), WEFT__RENDEZVOUS_JOINED);
    assert_false(weft__rendezvous_resign(server));
    say_join(late, 2, run, -1, 1);
    assert_int_equal(answer(late), WEFT__REGISTRY_BUSY);
    zmq_close(a);
    zmq_close(late);
}

/* Its rank is free again, and it is not counted. */
static void who_has_gone_gives_its_place_back(void **state)
{
    void *a = client(), *gone = client(), *next = client();
    (void)state;
    say_join(a, 1, run, 0, 3);
    say_join(gone, 2, run, 1, 3);
    await_missing(a, "rank 2 is missing");
    zmq_close(gone);
    await_missing(a, "rank 1 and rank 2 are missing");
    say_join(next, 3, run, 1, 3);
    await_missing(a, "rank 2 is missing"); /* not: "rank 1 was given twice" */
    gone = client();
    say_join(gone, 4, run, 2, 3);
    assert_int_equal(answer(a), WEFT__RENDEZVOUS_JOINED);
    assert_int_equal(answer(next), WEFT__RENDEZVOUS_JOINED);
    assert_int_equal(answer(gone), WEFT__RENDEZVOUS_JOINED);
    zmq_close(a);
    zmq_close(gone);
    zmq_close(next);
}

/* What a client said on a connection that it has given up may come after what it said on its next one, where
 * it waits for the answer. */
static void an_overtaken_word_leads_nobody_astray(void **state)
{
    void *first = client(), *second = client(), *other = client();
    int told[3];
    (void)state;
    say_join_on(second, 1, run, 0, 2, 2);
    await_missing(second, "rank 1 is missing");
    say_join_on(first, 1, run, 0, 2, 1);
    await_missing(first, "rank 1 is missing"); /* it has been read */
    say_join(other, 2, run, 1, 2);
    told[0] = answer(other);
    told[1] = answer(second);
    told[2] = no_answer(first);
    zmq_close(first);
    zmq_close(second);
    zmq_close(other);
    assert_int_equal(told[0], WEFT__RENDEZVOUS_JOINED);
    assert_int_equal(told[1], WEFT__RENDEZVOUS_JOINED);
    assert_int_equal(told[2], 0);
}

/* A relay that it came by first may bring it when its process has died and another one is to take its place. */
static void an_overtaken_word_of_one_who_has_gone_takes_no_place(void **state)
{
    void *first = client(), *second = client(), *other = client();
    (void)state;
    say_join_on(second, 1, run, 0, 2, 2);
    await_missing(second, "rank 1 is missing");
    zmq_close(second);
    await_missing(other, "rank 0 and rank 1 are missing");
    expect_overtaken(first, 1);
    zmq_close(other);
}

/* By a connection that ZeroMQ has made again by itself, which is none of its own making: nothing newer is under way. */
static void who_was_dropped_may_come_again(void **state)
{
    void *first = client(), *other = client(), *again;
    int told[2];
    (void)state;
    say_join_on(first, 1, run, 0, 2, 2);
    await_missing(other, "rank 1 is missing");
    zmq_close(first);
    await_missing(other, "rank 0 and rank 1 are missing");
    again = client();
    say_join_on(again, 1, run, 0, 2, 2);
    say_join(other, 2, run, 1, 2);
    told[0] = answer(again);
    told[1] = answer(other);
    zmq_close(again);
    zmq_close(other);
    assert_int_equal(told[0], WEFT__RENDEZVOUS_JOINED);
    assert_int_equal(told[1], WEFT__RENDEZVOUS_JOINED);
}

/* Its word may arrive with the end of its connection, and be read after another's question. */
static void who_says_that_its_time_is_up_is_not_missing(void **state)
{
    for (int i = 0; i < 40; i++) {
        void *stays, *leaves;
        words got;
        assert_int_equal(begin(state), 0);
        stays = client();
        leaves = client();
        say_join(stays, 1, run, 1, 3);
        say_join(leaves, 2, run, 0, 3);
        await_missing(stays, "rank 2 is missing");
        say(leaves, 2, WEFT__RENDEZVOUS_DONE);
        zmq_close(leaves);
        usleep(50 * (unsigned)(i % 10));
        say(stays, 1, WEFT__RENDEZVOUS_ASK);
        assert_int_equal(take(stays, JOB_WAIT_MS, &got), WEFT__RENDEZVOUS_MISSING);
        assert_string_equal(got.payload, "rank 2 is missing");
        zmq_close(stays);
        end(state);
    }
}

/* It died with its last word on its way, which the job knows. */
static void who_has_gone_is_not_waited_for(void **state)
{
    const bool gone[2] = {false, true};
    void *a, *b;
    int64_t begun;
    assert_int_equal(begin(state), 0);
    a = client();
    b = client();
    say_join(a, 1, run, 0, 2);
    say_join(b, 2, run, 1, 2);
    assert_int_equal(answer(a), WEFT__RENDEZVOUS_JOINED);
    assert_int_equal(answer(b), WEFT__RENDEZVOUS_JOINED);
    say(a, 1, WEFT__RENDEZVOUS_DONE);
    zmq_close(a);
    begun = weft__now_ns();
    weft__rendezvous_spare(server, gone, 2);
    weft__rendezvous_stop(server, begun + JOB_WAIT_MS * WEFT__MS);
    assert_true(weft__now_ns() - begun < JOB_WAIT_MS / 2 * WEFT__MS);
    zmq_close(b);
    weft__zmq_give();
    weft__keys_drop(keys);
}

static void say_gather(void *dealer, int name)
{
    weft__rendezvous_header header = {.magic = WEFT__RENDEZVOUS_MAGIC,
                                      .version = WEFT__RENDEZVOUS_VERSION,
                                      .kind = WEFT__RENDEZVOUS_GATHER,
                                      .step = 1};
    header.client[0] = (uint8_t)name;
    assert_int_equal(zmq_send(dealer, &header, sizeof header, 0), sizeof header);
}

/* What was on its way when a connection broke is said again over the next one: a part, or the answer to all of them. */
static void what_a_connection_lost_is_said_again(void **state)
{
    void *a = client(), *b = client(), *next;
    (void)state;
    say_join(a, 1, run, 0, 2);
    say_join(b, 2, run, 1, 2);
    assert_int_equal(answer(a), WEFT__RENDEZVOUS_JOINED);
    assert_int_equal(answer(b), WEFT__RENDEZVOUS_JOINED);
    say_gather(a, 1);
    assert_int_equal(no_answer(a), 0);
    zmq_close(a);
    next = client();
    say_join_on(next, 1, run, 0, 2, 1);
    say_gather(next, 1);
    assert_int_equal(answer(next), WEFT__RENDEZVOUS_JOINED);
    assert_int_equal(no_answer(next), 0); /* it counts once */
    say_gather(b, 2);
    assert_int_equal(answer(next), WEFT__RENDEZVOUS_GATHERED);
    assert_int_equal(answer(b), WEFT__RENDEZVOUS_GATHERED);
    zmq_close(b);
    b = client();
    say_gather(b, 2);
    assert_int_equal(answer(b), WEFT__RENDEZVOUS_GATHERED);
    assert_int_equal(no_answer(next), 0);
    zmq_close(b);
    zmq_close(next);
}

static void is_told(void *dealer, int name, const char *expected)
{
    words got;
    say(dealer, name, WEFT__RENDEZVOUS_ASK);
    assert_int_equal(take(dealer, JOB_WAIT_MS, &got), WEFT__RENDEZVOUS_MISSING);
    assert_string_equal(got.payload, expected);
}

/* Nobody is missing whose time runs out between two gathers, or who asks. */
static void all_came_but_too_late_to_connect(void **state)
{
    void *clients[3];
    (void)state;
    for (int i = 0; i < 3; i++) {
        clients[i] = client();
        say_join(clients[i], i + 1, run, i, 3);
        if (i < 2) assert_int_equal(no_answer(clients[i]), 0); /* in this order */
    }
    for (int i = 0; i < 3; i++) assert_int_equal(answer(clients[i]), WEFT__RENDEZVOUS_JOINED);
    is_told(clients[1], 2, "all 3 ranks came, too late to connect them");
    say_gather(clients[0], 1);
    is_told(clients[0], 1, "rank 1 and rank 2 are missing");
    is_told(clients[1], 2, "rank 2 is missing"); /* not: the one that reads this */
    say_gather(clients[1], 2);
    is_told(clients[1], 2, "rank 2 is missing");
    is_told(clients[2], 3, "all 3 ranks came, too late to connect them");
    for (int i = 0; i < 3; i++) zmq_close(clients[i]);
}

/* ---- where relays go ---- */

/* Who was sent elsewhere joins by that. */
static void comes_by_another(void *dealer, int name)
{
    say_join_on(dealer, name, run, -1, 64, 2);
}

/* What they were told, once no socket is open any more that would keep a test that fails from its end. */
static void check_places(const int *told, const int *expected, int n)
{
    for (int i = 0; i < n; i++) assert_int_equal(told[i], expected[i]);
}

static void relays_are_sent_to_the_first_that_have_room(void **state)
{
    static const int expected[] = {0, 1, 1, 1,
                                   2, 2, 3}; /* the last is sent to one that is still on its way */
    void *d = client();
    int told[7];
    (void)state;
    told[0] = place_of(d, 1);
    told[1] = place_of(d, 2);
    told[2] = place_of(d, 2); /* it has asked before */
    comes_by_another(d, 2);
    for (int i = 3; i < 7; i++) told[i] = place_of(d, i);
    zmq_close(d);
    check_places(told, expected, 7);
}

/* Its host does not count any more, either. */
static void nobody_is_sent_to_one_that_has_gone(void **state)
{
    static const int expected[] = {0, 1, 0, 2};
    void *gone = client(), *d = client();
    int told[4];
    (void)state;
    told[0] = place_of(gone, 1);
    told[1] = place_of(d, 2);
    say_join(d, 9, run, -1, 64);
    comes_by_another(d, 2);
    zmq_close(gone);
    await_missing(d, "62 of 64 ranks are missing");
    told[2] = place_of(d, 3);
    told[3] = place_of(d, 4);
    zmq_close(d);
    check_places(told, expected, 4);
}

static void nobody_is_sent_where_one_has_come_back_from(void **state)
{
    static const int expected[] = {0, 1, 2};
    void *d = client();
    int told[3];
    (void)state;
    told[0] = place_of(d, 1);
    told[1] = place_of(d, 2);
    say_join_on(d, 2, run, -1, 64, 3);
    told[2] = place_of(d, 3);
    zmq_close(d);
    check_places(told, expected, 3);
}

/* ---- the wrong secret ---- */

static _Atomic int named; /* lines that say whose secret is wrong */

static void note(int level, const char *text, void *arg)
{
    (void)arg;
    if (level == WEFT__WARN && strstr(text, "from 127.0.0.1 to tcp://127.0.0.1:") &&
        strstr(text, "its secret, or its job's name, differs"))
        atomic_fetch_add(&named, 1);
}

/* Connects again and again, until it has been told of and has been cut off some times after that. */
static void be_turned_away(const weft__keys *with, const char *events)
{
    const int64_t until = weft__deadline(weft__now_ns(), JOB_WAIT_MS);
    void *dealer = client_with(with), *monitor = zmq_socket(context, ZMQ_PAIR);
    int a_while = 1000;
    uint16_t event;
    char rest[256];
    zmq_setsockopt(monitor, ZMQ_RCVTIMEO, &a_while, sizeof a_while);
    zmq_socket_monitor(dealer, events, ZMQ_EVENT_DISCONNECTED);
    zmq_connect(monitor, events);
    for (int i = 0; i < 3 && weft__now_ns() < until;) {
        if (zmq_recv(monitor, &event, sizeof event, 0) < 0) continue;
        zmq_recv(monitor, rest, sizeof rest, 0);
        i += named > 0;
    }
    zmq_socket_monitor(dealer, NULL, 0);
    zmq_close(monitor);
    zmq_close(dealer);
}

/* That fails before it is asked who may enter: only the connection's end tells of it. */
static void who_has_another_secret_is_named_once(void **state)
{
    weft__keys *other;
    (void)state;
    assert_int_equal(weft__keys_make("another", 7, "job", &other), WEFT_OK);
    weft_set_log(note, NULL);
    for (int i = 0; i < 2; i++) be_turned_away(other, i ? "inproc://again" : "inproc://first");
    for (int i = 0; i < 2; i++)
        weft__rendezvous_resign(server); /* it has taken all that came before the second */
    weft__log_flush();
    weft_set_log(NULL, NULL);
    assert_int_equal(named, 1);
    weft__keys_drop(other);
}

/* Whatever the size of the world is: here it is not known. */
static void who_has_proved_nothing_is_not_listened_to_for_long(void **state)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)state;
    assert_int_equal(connect(fd, &place.any, sizeof place.v4), 0);
    is_not_listened_to_for_long(fd, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_run_is_the_one_looked_for, begin, end),
        cmocka_unit_test_setup_teardown(who_resigns_takes_nobody, begin, end),
        cmocka_unit_test_setup_teardown(a_complete_job_keeps_its_server, begin, end),
        cmocka_unit_test_setup_teardown(relays_are_sent_to_the_first_that_have_room, begin, end),
        cmocka_unit_test_setup_teardown(nobody_is_sent_to_one_that_has_gone, begin, end),
        cmocka_unit_test_setup_teardown(nobody_is_sent_where_one_has_come_back_from, begin, end),
        cmocka_unit_test_setup_teardown(who_has_gone_gives_its_place_back, begin, end),
        cmocka_unit_test_setup_teardown(all_came_but_too_late_to_connect, begin, end),
        cmocka_unit_test_setup_teardown(an_overtaken_word_leads_nobody_astray, begin, end),
        cmocka_unit_test_setup_teardown(an_overtaken_word_of_one_who_has_gone_takes_no_place, begin, end),
        cmocka_unit_test_setup_teardown(who_was_dropped_may_come_again, begin, end),
        cmocka_unit_test_setup_teardown(what_a_connection_lost_is_said_again, begin, end),
        cmocka_unit_test_setup_teardown(who_has_another_secret_is_named_once, begin, end),
        cmocka_unit_test_setup_teardown(who_has_proved_nothing_is_not_listened_to_for_long, begin, end),
        cmocka_unit_test(who_says_that_its_time_is_up_is_not_missing),
        cmocka_unit_test(who_has_gone_is_not_waited_for),
    };
    alarm(JOB_ALARM_S);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
