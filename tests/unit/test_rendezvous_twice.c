/* A rank given twice, or started again: whose it is while one of the two is behind a relay. */
#include "relay.h"
#include "rendezvous_clients.h"

static void hand_on_words(void *relay, weft__words *list)
{
    char all[1024];
    const weft__rendezvous_header header = {.magic = WEFT__RENDEZVOUS_MAGIC,
                                            .version = WEFT__RENDEZVOUS_VERSION,
                                            .kind = WEFT__RENDEZVOUS_WORDS};
    assert_in_range(list->bytes, 1, sizeof all - sizeof header);
    memcpy(all, &header, sizeof header);
    memcpy(all + sizeof header, list->list, list->bytes);
    assert_int_equal(zmq_send(relay, all, sizeof header + list->bytes, 0), sizeof header + list->bytes);
    weft__words_drop(list);
}

/* As a relay hands it on. */
static void hand_on(void *relay, const void *frame, size_t bytes)
{
    weft__words list = {.list = NULL};
    assert_true(weft__words_add(&list, frame, bytes));
    hand_on_words(relay, &list);
}

static void hand_join_on(void *relay, int name, int rank, int world)
{
    const joining join = join_of(name, run, rank, world, 1);
    hand_on(relay, &join, sizeof join);
}

/* That one is asked for; the question's number is part of what it says then. */
static weft__rendezvous_header be_asked_for(void *relay, int name)
{
    words got;
    assert_int_equal(take(relay, JOB_WAIT_MS, &got), WEFT__RENDEZVOUS_HERE);
    assert_int_equal(got.header.client[0], name);
    return got.header;
}

static weft__rendezvous_header left_of(int name)
{
    weft__rendezvous_header left = {.magic = WEFT__RENDEZVOUS_MAGIC,
                                    .version = WEFT__RENDEZVOUS_VERSION,
                                    .kind = WEFT__RENDEZVOUS_LEFT};
    left.client[0] = (uint8_t)name;
    return left;
}

static void say_left(void *relay, int name)
{
    const weft__rendezvous_header left = left_of(name);
    hand_on(relay, &left, sizeof left);
}

typedef struct two {
    void *relay, *alone, *other;
    int told[3]; /* the relay's client, the other two */
} two;

static two begin_two(void)
{
    return (two){.relay = client(), .alone = client(), .other = client()};
}

static void end_two(two *t, int relayed, int alone, int other)
{
    zmq_close(t->relay);
    zmq_close(t->alone);
    zmq_close(t->other);
    assert_int_equal(t->told[0], relayed);
    assert_int_equal(t->told[1], alone);
    assert_int_equal(t->told[2], other);
}

/* It died below the relay and is there again by another way, before it is told that it died. */
static void who_is_started_again_comes_before_word_of_its_end(void **state)
{
    two t = begin_two();
    (void)state;
    hand_join_on(t.relay, 1, 0, 2);
    await_missing(t.other, "rank 1 is missing");
    say_join(t.alone, 2, run, 0, 2);
    be_asked_for(t.relay, 1);
    say_join(t.other, 3, run, 1, 2);
    t.told[2] = no_answer(t.other); /* all are there, and who rank 0 is, is not known */
    say_left(t.relay, 1);
    t.told[0] = no_answer(t.relay);
    t.told[1] = answer(t.alone);
    t.told[2] += answer(t.other);
    end_two(&t, 0, WEFT__RENDEZVOUS_JOINED, WEFT__RENDEZVOUS_JOINED);
}

/* What it said last comes after what is said in its place. */
static void who_has_died_comes_after_who_is_started_again(void **state)
{
    two t = begin_two();
    (void)state;
    say_join(t.alone, 2, run, 0, 2);
    await_missing(t.other, "rank 1 is missing");
    hand_join_on(t.relay, 1, 0, 2);
    be_asked_for(t.relay, 1);
    await_missing(t.other, "rank 0 and rank 1 are missing");
    say_join(t.other, 3, run, 1, 2);
    say_left(t.relay, 1);
    t.told[0] = no_answer(t.relay);
    t.told[1] = answer(t.alone);
    t.told[2] = answer(t.other);
    end_two(&t, 0, WEFT__RENDEZVOUS_JOINED, WEFT__RENDEZVOUS_JOINED);
}

static void who_is_there_has_its_rank_and_another_one_not(void **state)
{
    two t = begin_two();
    weft__rendezvous_header here;
    (void)state;
    hand_join_on(t.relay, 1, 0, 2);
    await_missing(t.other, "rank 1 is missing");
    say_join(t.alone, 2, run, 0, 2);
    here = be_asked_for(t.relay, 1);
    here.step--; /* the answer to another question */
    assert_int_equal(zmq_send(t.relay, &here, sizeof here, 0), sizeof here);
    t.told[1] = no_answer(t.alone);
    here.step++;
    assert_int_equal(zmq_send(t.relay, &here, sizeof here, 0), sizeof here);
    t.told[0] = answer(t.relay);
    t.told[1] += answer(t.alone);
    say_join(t.other, 3, run, 1, 2);
    t.told[2] = answer(t.other);
    end_two(&t, WEFT__RENDEZVOUS_FAILED, WEFT__RENDEZVOUS_FAILED, WEFT__RENDEZVOUS_FAILED);
}

/* The relay does not answer: it is left, and its client says itself that it is there. */
static void who_comes_by_another_way_meanwhile_is_there(void **state)
{
    two t = begin_two();
    (void)state;
    hand_join_on(t.relay, 1, 0, 2);
    await_missing(t.other, "rank 1 is missing");
    say_join(t.alone, 2, run, 0, 2);
    be_asked_for(t.relay, 1);
    say_join_on(t.other, 1, run, 0, 2, 2);
    t.told[0] = no_answer(t.relay);
    t.told[1] = answer(t.alone);
    t.told[2] = answer(t.other);
    end_two(&t, 0, WEFT__RENDEZVOUS_FAILED, WEFT__RENDEZVOUS_FAILED);
}

/* The relay says in one message that its client 1 has hung up, and that client 2 joins as rank 0. */
static void hand_on_that_1_left_and_2_joins(void *relay, uint32_t attempt)
{
    const joining join = join_of(2, run, 0, 2, attempt);
    const weft__rendezvous_header left = left_of(1);
    weft__words list = {.list = NULL};
    assert_true(weft__words_add(&list, &left, sizeof left));
    assert_true(weft__words_add(&list, &join, sizeof join));
    hand_on_words(relay, &list);
}

/* Rank 0 is the relay's client 1, and client 2, by a connection of its own, says to be it. */
static void begin_claim(const two *t, uint32_t attempt)
{
    hand_join_on(t->relay, 1, 0, 2);
    await_missing(t->other, "rank 1 is missing");
    say_join_on(t->alone, 2, run, 0, 2, attempt);
    be_asked_for(t->relay, 1);
    say_join(t->other, 3, run, 1, 2);
}

/* When the rank is free it is taken at once: what it claims by its older way is over. */
static void who_claims_and_comes_by_a_newer_way_is_there_once(void **state)
{
    two t = begin_two();
    (void)state;
    begin_claim(&t, 1);
    hand_on_that_1_left_and_2_joins(t.relay, 2);
    t.told[0] = answer(t.relay);
    t.told[1] = no_answer(t.alone);
    t.told[2] = answer(t.other);
    end_two(&t, WEFT__RENDEZVOUS_JOINED, 0, WEFT__RENDEZVOUS_JOINED);
}

static void an_older_word_of_one_who_claims_does_not_count(void **state)
{
    two t = begin_two();
    (void)state;
    begin_claim(&t, 2);
    hand_on_that_1_left_and_2_joins(t.relay, 1);
    t.told[0] = no_answer(t.relay);
    t.told[1] = answer(t.alone);
    t.told[2] = answer(t.other);
    end_two(&t, 0, WEFT__RENDEZVOUS_JOINED, WEFT__RENDEZVOUS_JOINED);
}

/* It leaves its relay, and says itself that it is a rank whose holder speaks for itself too: that one was given twice.  Both have
 * heard so and are done, and nobody else is waited for. */
static void who_claimed_is_told_once_that_joining_has_failed(void **state)
{
    void *holder, *relay, *alone;
    int64_t begun;
    assert_int_equal(begin(state), 0);
    holder = client();
    relay = client();
    alone = client();
    say_join(holder, 1, run, 0, 2);
    await_missing(holder, "rank 1 is missing");
    hand_join_on(relay, 2, 0, 2);
    be_asked_for(relay, 2);
    say_join_on(alone, 2, run, 0, 2, 2);
    assert_int_equal(answer(holder), WEFT__RENDEZVOUS_FAILED);
    assert_int_equal(answer(alone), WEFT__RENDEZVOUS_FAILED);
    say(holder, 1, WEFT__RENDEZVOUS_DONE);
    say(alone, 2, WEFT__RENDEZVOUS_DONE);
    begun = weft__now_ns();
    weft__rendezvous_stop(server, begun + JOB_WAIT_MS * WEFT__MS);
    assert_true(weft__now_ns() - begun < JOB_WAIT_MS / 2 * WEFT__MS);
    zmq_close(holder);
    zmq_close(relay);
    zmq_close(alone);
    weft__zmq_give();
    weft__keys_drop(keys);
}

/* The relay goes without a word, and everybody else has said all that there is to say. */
static void a_claim_is_settled_though_nobody_says_anything(void **state)
{
    two t = begin_two();
    (void)state;
    begin_claim(&t, 1);
    t.told[2] = no_answer(t.other);
    zmq_close(t.relay);
    t.relay = client();
    t.told[0] = 0;
    t.told[1] = answer(t.alone);
    t.told[2] += answer(t.other);
    end_two(&t, 0, WEFT__RENDEZVOUS_JOINED, WEFT__RENDEZVOUS_JOINED);
}

/* It came by a second way, where its rank was another's still, and died; its first way stands still meanwhile. */
static void an_overtaken_word_of_one_who_claimed_takes_no_place(void **state)
{
    void *relay = client(), *first = client(), *second = client(), *other = client();
    (void)state;
    hand_join_on(relay, 1, 0, 2);
    await_missing(other, "rank 1 is missing");
    say_join_on(second, 2, run, 0, 2, 2);
    be_asked_for(relay, 1);
    await_missing(other, "rank 0 and rank 1 are missing");
    zmq_close(second);
    await_missing(other, "rank 1 is missing");
    say_left(relay, 1);
    await_missing(other, "rank 0 and rank 1 are missing");
    expect_overtaken(first, 2);
    zmq_close(relay);
    zmq_close(other);
}

/* Its host does not count any more, either. */
static void nobody_is_sent_to_one_who_claimed_and_has_gone(void **state)
{
    void *relay = client(), *leader = client(), *other = client();
    int told[2];
    (void)state;
    hand_join_on(relay, 1, 0, 64);
    say_join(other, 9, run, -1, 64);
    await_missing(other, "62 of 64 ranks are missing");
    told[0] = place_with_rank(leader, 2, 0);
    be_asked_for(relay, 1);
    zmq_close(leader);
    await_missing(other, "62 of 64 ranks are missing");
    told[1] = place_of(other, 3);
    zmq_close(relay);
    zmq_close(other);
    assert_int_equal(told[0], 0);
    assert_int_equal(told[1], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(who_is_started_again_comes_before_word_of_its_end, begin, end),
        cmocka_unit_test_setup_teardown(who_has_died_comes_after_who_is_started_again, begin, end),
        cmocka_unit_test_setup_teardown(who_is_there_has_its_rank_and_another_one_not, begin, end),
        cmocka_unit_test_setup_teardown(who_comes_by_another_way_meanwhile_is_there, begin, end),
        cmocka_unit_test_setup_teardown(who_claims_and_comes_by_a_newer_way_is_there_once, begin, end),
        cmocka_unit_test_setup_teardown(an_older_word_of_one_who_claims_does_not_count, begin, end),
        cmocka_unit_test(who_claimed_is_told_once_that_joining_has_failed),
        cmocka_unit_test_setup_teardown(a_claim_is_settled_though_nobody_says_anything, begin, end),
        cmocka_unit_test_setup_teardown(an_overtaken_word_of_one_who_claimed_takes_no_place, begin, end),
        cmocka_unit_test_setup_teardown(nobody_is_sent_to_one_who_claimed_and_has_gone, begin, end),
    };
    alarm(JOB_ALARM_S);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
