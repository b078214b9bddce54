/* test_views_words.c - what one rank makes of the words of others, as these come: which it refuses, which of two votes it takes,
 * how long it waits for more. */
#include "views_job.h"

#define DISTANT ((UINT64_C(1) << 60) + 1) /* a ballot of rank 1 of three */

static void test_refuses_what_no_rank_says(void **state)
{
    static const size_t whole = sizeof(weft__view_message) + 2;
    static const said sound[] = {{WEFT__VIEW_PREPARE, 1, 2, 0, 7, 0},
                                 {WEFT__VIEW_PROMISE, 1, 9, 0, 7, 0},
                                 {WEFT__VIEW_PROMISE, 1, 9, 4, 7, 3},
                                 {WEFT__VIEW_ACCEPT, 1, 5, 0, 7, 3},
                                 {WEFT__VIEW_ACCEPTED, 1, 5, 0, 7, 0}};
    static const said unsound[] = {{0, 1, 2, 0, 7, 0},
                                   {WEFT__VIEW_WHICH + 1, 1, 2, 0, 7, 0},
                                   {WEFT__VIEW_PREPARE, 0, 2, 0, 7, 0},
                                   {WEFT__VIEW_PREPARE, 1, 0, 0, 7, 0},
                                   {WEFT__VIEW_PREPARE, 1, DISTANT, 0, 7, 0}, /* no rank comes so far */
                                   {WEFT__VIEW_PROMISE, 1, DISTANT, 0, 7, 0},
                                   {WEFT__VIEW_IS, UINT32_MAX, 0, 0, 7, 0},
                                   {WEFT__VIEW_IS, UINT32_MAX / 4, 0, 0, 7, 0},
                                   {WEFT__VIEW_PREPARE, 1, 3, 0, 7, 0}, /* a ballot of rank 2 */
                                   {WEFT__VIEW_PREPARE, 1, 2, 0, 0, 0},
                                   {WEFT__VIEW_PREPARE, 1, 2, 0, 5, 0},  /* it is not in its own view */
                                   {WEFT__VIEW_PREPARE, 1, 2, 0, 15, 0}, /* there is no rank 3 */
                                   {WEFT__VIEW_PROMISE, 1, 4, 9, 7, 3},
                                   {WEFT__VIEW_PROMISE, 1, UINT64_MAX, 0, 7, 0},
                                   {WEFT__VIEW_ACCEPT, 1, 5, 0, 7, 0},
                                   {WEFT__VIEW_ACCEPT, 1, 5, 0, 7, 8},
                                   {WEFT__VIEW_ACCEPT, 1, 5, 0, 3, 5},
                                   {WEFT__VIEW_IS, 2, 0, 0, 0, 0}};
    (void)state;
    open_job(3, WEFT__QUORUM_MAJORITY);
    for (size_t i = 0; i < sizeof unsound / sizeof *unsound; i++) assert_false(is_taken(unsound[i], whole));
    assert_int_equal(queue_tail, 0);
    for (size_t i = 0; i < sizeof sound / sizeof *sound; i++) {
        assert_true(is_taken(sound[i], whole));
        assert_false(is_taken(sound[i], whole - 1));
        assert_false(is_taken(sound[i], whole + 1));
    }
    assert_false(
        is_taken((said){WEFT__VIEW_ACCEPT, 1, 5, 0, 7, 1}, whole)); /* it has proposed another one in that */
    has_view(0, 1, 7);
    assert_true(is_taken((said){WEFT__VIEW_IS, 4, 0, 0, 5, 0}, whole));
    has_view(0, 4, 5);
    assert_true(is_taken((said){WEFT__VIEW_IS, 5, 0, 0, 7, 0}, whole)); /* nobody comes back: it is dropped */
    has_view(0, 4, 5);
    close_job();
}

/* Whichever order they come in. */
static void test_the_newest_vote_is_proposed(void **state)
{
    static const said votes[] = {{WEFT__VIEW_PROMISE, 1, 11, 2, 31, 7},
                                 {WEFT__VIEW_PROMISE, 1, 11, 3, 31, 13}};
    (void)state;
    for (int first = 0; first < 2; first++) {
        open_job(5, WEFT__QUORUM_MAJORITY);
        for (int of = 3; of < 5; of++) weft__views_presume_dead(views[0], of, now_ns);
        assert_true(is_taken_from(4, (said){WEFT__VIEW_PREPARE, 1, 10, 0, 31, 0}, WHOLE));
        weft__views_want(views[0], now_ns);
        now_ns += 1000 * WEFT__MS;
        (void)weft__views_check(views[0], now_ns);
        (void)next_said(WEFT__VIEW_PREPARE, 11);
        assert_true(is_taken_from(1 + first, votes[first], WHOLE));
        assert_true(is_taken_from(2 - first, votes[!first], WHOLE));
        assert_int_equal(next_said(WEFT__VIEW_ACCEPT, 11)->sets[1], 13);
        close_job();
    }
}

/* One that was on its way while its ballot gave way to another. */
static void test_a_vote_counts_in_its_ballot(void **state)
{
    (void)state;
    open_job(5, WEFT__QUORUM_MAJORITY);
    for (int of = 3; of < 5; of++) weft__views_presume_dead(views[0], of, now_ns);
    weft__views_want(views[0], now_ns);
    for (int from = 1; from < 3; from++)
        assert_true(is_taken_from(from, (said){WEFT__VIEW_PROMISE, 1, 1, 0, 31, 0}, WHOLE));
    (void)next_said(WEFT__VIEW_ACCEPT, 1);
    assert_true(is_taken_from(1, (said){WEFT__VIEW_PREPARE, 1, 2, 0, 31, 0}, WHOLE));
    assert_int_equal(weft__views_state_of(views[0]), WEFT__VIEWS_PAUSING);
    now_ns += 1000 * WEFT__MS;
    (void)weft__views_check(views[0], now_ns);
    for (int from = 1; from < 3; from++)
        assert_true(is_taken_from(from, (said){WEFT__VIEW_PROMISE, 1, 6, from == 1 ? 2 : 0, 31, 6}, WHOLE));
    assert_int_equal(next_said(WEFT__VIEW_ACCEPT, 6)->sets[1], 6);
    for (int from = 1; from < 3; from++)
        assert_true(is_taken_from(from, (said){WEFT__VIEW_ACCEPTED, 1, 1, 0, 31, 0}, WHOLE));
    has_view(0, 1, 31);
    for (int from = 1; from < 3; from++)
        assert_true(is_taken_from(from, (said){WEFT__VIEW_ACCEPTED, 1, 6, 0, 31, 0}, WHOLE));
    has_view(0, 2, 6); /* it has decided that it is not in it */
    close_job();
}

/* Rank 0, whose own has given way to one, hears of the next: that may have to wait for somebody too. */
static void test_each_later_ballot_has_its_time(void **state)
{
    int64_t next;
    (void)state;
    open_job(5, WEFT__QUORUM_MAJORITY);
    weft__views_want(views[0], now_ns);
    for (unsigned rank = 1; rank < 4; rank++) {
        assert_true(is_taken_from((int)rank, (said){WEFT__VIEW_PREPARE, 1, rank + 1, 0, 31, 0}, WHOLE));
        assert_int_equal(weft__views_state_of(views[0]), WEFT__VIEWS_PAUSING);
        next = weft__views_check(views[0], now_ns);
        assert_in_range(next - now_ns, 150 * WEFT__MS, 1000 * WEFT__MS);
        now_ns = next - 1;
    }
    (void)weft__views_check(views[0], next);
    assert_int_equal(weft__views_state_of(views[0]), WEFT__VIEWS_PREPARING);
    close_job();
}

/* Rank 0, which wants nothing itself, goes on where rank 4 falls silent: no later for each ballot that rank 4 has begun. */
static void test_who_wants_nothing_waits_alike(void **state)
{
    (void)state;
    open_job(5, WEFT__QUORUM_MAJORITY);
    for (unsigned ballot = 5; ballot <= 40; ballot += 5) {
        now_ns += 10 * WEFT__MS;
        assert_true(is_taken_from(4, (said){WEFT__VIEW_PREPARE, 1, ballot, 0, 31, 0}, WHOLE));
        assert_in_range(weft__views_check(views[0], now_ns) - now_ns, 300 * WEFT__MS, 340 * WEFT__MS);
    }
    close_job();
}

/* And where its own has given way, to one that it hears of by the way, that one has as long. */
static void test_who_wants_nothing_leaves_time(void **state)
{
    (void)state;
    open_job(5, WEFT__QUORUM_MAJORITY);
    assert_true(is_taken_from(4, (said){WEFT__VIEW_PREPARE, 1, 5, 0, 31, 0}, WHOLE));
    now_ns = weft__views_check(views[0], now_ns);
    (void)weft__views_check(views[0], now_ns);
    assert_int_equal(weft__views_state_of(views[0]), WEFT__VIEWS_PREPARING);
    assert_true(is_taken_from(1, (said){WEFT__VIEW_PROMISE, 1, 9, 0, 31, 0}, WHOLE));
    assert_int_equal(weft__views_state_of(views[0]), WEFT__VIEWS_PAUSING);
    assert_in_range(weft__views_check(views[0], now_ns) - now_ns, 400 * WEFT__MS, 440 * WEFT__MS);
    close_job();
}

/* Cut off from all others it says less and less; until one answers. */
static void test_what_nobody_answers_is_said_less_and_less(void **state)
{
    int times = 0;
    (void)state;
    open_job(5, WEFT__QUORUM_MAJORITY);
    weft__views_want(views[0], now_ns);
    while (now_ns < 20000 * WEFT__MS) {
        int64_t next = weft__views_check(views[0], now_ns);
        assert_in_range(next - now_ns, 1, 2000 * WEFT__MS);
        now_ns = next;
        times += queue_tail > 0;
        queue_tail = 0;
    }
    assert_in_range(times, 10, 16);
    assert_true(is_taken_from(1, (said){WEFT__VIEW_PROMISE, 1, 1, 0, 31, 0}, WHOLE)); /* one is not enough */
    assert_in_range(weft__views_check(views[0], now_ns) - now_ns, 1, 50 * WEFT__MS);
    close_job();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refuses_what_no_rank_says),
        cmocka_unit_test(test_the_newest_vote_is_proposed),
        cmocka_unit_test(test_a_vote_counts_in_its_ballot),
        cmocka_unit_test(test_each_later_ballot_has_its_time),
        cmocka_unit_test(test_who_wants_nothing_waits_alike),
        cmocka_unit_test(test_who_wants_nothing_leaves_time),
        cmocka_unit_test(test_what_nobody_answers_is_said_less_and_less),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
