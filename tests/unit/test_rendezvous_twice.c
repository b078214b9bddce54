/* A rank given twice, or started again: whose it is while one of the two is behind a relay. */
#include "relay.h"
#include "rendezvous_clients.h"

/* As a relay hands it on. */
static void hand_on(void *relay, const void *frame, size_t bytes)
{
    char all[1024];
    const weft__rendezvous_header header = {.magic = WEFT__RENDEZVOUS_MAGIC,
                                            .version = WEFT__RENDEZVOUS_VERSION,
                                            .kind = WEFT__RENDEZVOUS_WORDS};
    weft__words list = {.list = NULL};
    assert_true(weft__words_add(&list, frame, bytes));
    memcpy(all, &header, sizeof header);
    memcpy(all + sizeof header, list.list, list.bytes);
    assert_int_equal(zmq_send(relay, all, sizeof header + list.bytes, 0), sizeof header + list.bytes);
    weft__words_drop(&list);
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

static void say_left(void *relay, int name)
{
    weft__rendezvous_header left = {.magic = WEFT__RENDEZVOUS_MAGIC,
                                    .version = WEFT__RENDEZVOUS_VERSION,
                                    .kind = WEFT__RENDEZVOUS_LEFT};
    left.client[0] = (uint8_t)name;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(who_is_started_again_comes_before_word_of_its_end, begin, end),
        cmocka_unit_test_setup_teardown(who_has_died_comes_after_who_is_started_again, begin, end),
        cmocka_unit_test_setup_teardown(who_is_there_has_its_rank_and_another_one_not, begin, end),
        cmocka_unit_test_setup_teardown(who_comes_by_another_way_meanwhile_is_there, begin, end),
    };
    alarm(JOB_ALARM_S);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
