/* test_views.c - who is in the job, message by message: whom a view leaves out, who may decide, who is told.  What holds
 * in whatever order messages come is played by tests/protocols/views_game.c. */
#include "views_job.h"

static void test_who_is_left_out_is_told(void **state)
{
    (void)state;
    open_job(3, WEFT__QUORUM_MAJORITY);
    cut[2] = true;
    go_on(3);
    wait_long();
    has_view(0, 2, 3);
    has_view(1, 2, 3);
    has_view(2, 1, 7);
    cut[2] = false;
    weft__views_want(views[2], now_ns);
    deliver();
    has_view(2, 2, 3);
    assert_int_equal(weft__views_state_of(views[2]), WEFT__VIEWS_OUT);
    assert_int_equal(decisions[2], 1);
    weft__views_want(views[2], now_ns); /* for ever */
    assert_int_equal(weft__views_state_of(views[2]), WEFT__VIEWS_OUT);
    close_job();
}

/* Rank 3 lives as far as anybody knows, and says nothing: it is waited for a while, and is in the view then. */
static void test_who_does_not_answer_holds_nobody_up(void **state)
{
    (void)state;
    open_job(5, WEFT__QUORUM_MAJORITY);
    cut[3] = cut[4] = true;
    for (int i = 0; i < 3; i++) weft__views_presume_dead(views[i], 4, now_ns);
    weft__views_want(views[0], now_ns);
    deliver();
    now_ns += 149 * WEFT__MS;
    for (int i = 0; i < 3; i++) (void)weft__views_check(views[i], now_ns);
    deliver();
    has_view(0, 1, 31);
    now_ns += WEFT__MS;
    (void)weft__views_check(views[0], now_ns);
    deliver();
    for (int i = 0; i < 3; i++) has_view(i, 2, 15);
    has_view(3, 1, 31);
    cut[3] = false;
    weft__views_want(views[3], now_ns); /* whatever it says now */
    deliver();
    for (int i = 0; i < 4; i++) assert_in_range(weft__views_number(views[i]), 2, 3);
    for (int i = 0; i < 4; i++) assert_int_equal(members(i), 15);
    close_job();
}

/* Two of five answer: that is no quorum, however long it waits. */
static void test_too_few_answer(void **state)
{
    (void)state;
    open_job(5, WEFT__QUORUM_MAJORITY);
    cut[2] = cut[3] = cut[4] = true;
    weft__views_presume_dead(views[0], 4, now_ns);
    weft__views_want(views[0], now_ns);
    wait_long();
    for (int i = 0; i < 2; i++) has_view(i, 1, 31);
    cut[2] = false;
    wait_long();
    for (int i = 0; i < 3; i++) has_view(i, 2, 15);
    close_job();
}

/* It hears of the view that it is not in by the word that decided it, and asks nobody. */
static void test_who_lives_after_all_is_told_at_once(void **state)
{
    (void)state;
    open_job(3, WEFT__QUORUM_MAJORITY);
    weft__views_presume_dead(views[0], 2, now_ns);
    cut[2] = true;
    weft__views_want(views[0], now_ns);
    while (queue_head < queue_tail && !decisions[0]) { /* until it is decided */
        queued q = queue[queue_head++];
        if (q.to != 2) weft__views_take(views[q.to], q.from, (const void *)q.message, q.bytes, now_ns);
    }
    cut[2] = false;
    deliver();
    assert_int_equal(weft__views_state_of(views[2]), WEFT__VIEWS_OUT);
    close_job();
}

/* Which parts of how many go on. */
static void test_quorums(void **state)
{
    static const struct {
        int ranks;
        unsigned part;
        weft__quorum quorum;
        bool goes_on, no_witness;
    } rows[] = {
        {2, 1, WEFT__QUORUM_MAJORITY, true, false},      {2, 2, WEFT__QUORUM_MAJORITY, false, false},
        {3, 1, WEFT__QUORUM_MAJORITY, false, false},     {3, 6, WEFT__QUORUM_MAJORITY, true, false},
        {4, 3, WEFT__QUORUM_MAJORITY, true, false},      {4, 12, WEFT__QUORUM_MAJORITY, false, false},
        {4, 14, WEFT__QUORUM_MAJORITY, true, false},     {5, 3, WEFT__QUORUM_MAJORITY, false, false},
        {9, 0x1e0, WEFT__QUORUM_MAJORITY, false, false}, {9, 0x1f0, WEFT__QUORUM_MAJORITY, true, false},
        {3, 4, WEFT__QUORUM_ANY, true, false},           {2, 2, WEFT__QUORUM_ANY, true, false},
        {2, 1, WEFT__QUORUM_WITNESS, true, false},       {2, 2, WEFT__QUORUM_WITNESS, true, false},
        {4, 3, WEFT__QUORUM_WITNESS, true, false},       {4, 12, WEFT__QUORUM_WITNESS, true, false},
        {8, 0xf0, WEFT__QUORUM_WITNESS, true, false},    {4, 8, WEFT__QUORUM_WITNESS, false, false},
        {3, 1, WEFT__QUORUM_WITNESS, false, false},      {4, 3, WEFT__QUORUM_WITNESS, false, true},
        {4, 12, WEFT__QUORUM_WITNESS, false, true},      {4, 7, WEFT__QUORUM_WITNESS, true, true}};
    (void)state;
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        open_job(rows[r].ranks, rows[r].quorum);
        for (int i = 0; i < ranks; i++) cut[i] = !(rows[r].part >> i & 1);
        cut[ranks] = rows[r].no_witness;
        go_on(rows[r].part);
        wait_long();
        for (int i = 0; i < ranks; i++) {
            if (cut[i]) continue;
            assert_int_equal(weft__views_can_decide(views[i], !rows[r].no_witness), rows[r].goes_on);
            has_view(i, rows[r].goes_on ? 2 : 1, rows[r].goes_on ? rows[r].part : (1U << ranks) - 1);
        }
        close_job();
    }
}

/* Both halves live, and each of them reaches the witness: one goes on, and the other one is told so by it. */
static void test_halves_with_a_witness(void **state)
{
    int on, off;
    (void)state;
    open_job(4, WEFT__QUORUM_WITNESS);
    side[2] = side[3] = 1;
    go_on(3);
    go_on(12);
    wait_long();
    on = weft__views_state_of(views[0]) == WEFT__VIEWS_OUT ? 2 : 0;
    off = 2 - on;
    for (int i = on; i < on + 2; i++) has_view(i, 2, 3U << on);
    for (int i = off; i < off + 2; i++) assert_int_equal(weft__views_state_of(views[i]), WEFT__VIEWS_OUT);
    cut[on + 1] = true; /* and the half of that half */
    go_on(1U << on);
    wait_long();
    has_view(on, 3, 1U << on);
    close_job();
}

/* A late one is waited for no longer than where there is no witness, and the witness is not asked for what a majority has. */
static void test_the_witness_is_asked_for_a_half_alone(void **state)
{
    (void)state;
    open_job(4, WEFT__QUORUM_WITNESS);
    cut[3] = true;
    go_on(7);
    wait_long();
    for (int i = 0; i < 3; i++) has_view(i, 2, 7);
    assert_int_equal(witness.promised, 0);
    assert_int_equal(witness.view, 2); /* but told what there is */
    close_job();
}

/* One of three is left, and knows for certain that the others have died: it needs nobody's vote. */
static void test_by_proof(void **state)
{
    (void)state;
    open_job(3, WEFT__QUORUM_MAJORITY);
    cut[0] = cut[1] = true;
    weft__views_presume_dead(views[2], 0, now_ns);
    weft__views_died(views[2], 1, now_ns);
    weft__views_want(views[2], now_ns);
    wait_long();
    has_view(2, 1, 7);
    assert_false(weft__views_can_decide(views[2], false));
    weft__views_died(views[2], 0, now_ns);
    has_view(2, 2, 4);
    close_job();
}

/* Rank 1 of three dies once it has voted for {1 2}, and 2 knows that view.  Its vote counts on: 0 cannot go on alone. */
static void test_the_vote_of_the_dead_counts(void **state)
{
    (void)state;
    open_job(3, WEFT__QUORUM_MAJORITY);
    cut[0] = true;
    go_on(6);
    wait_long();
    has_view(2, 2, 6);
    cut[0] = false;
    cut[1] = cut[2] = true;
    weft__views_died(views[0], 1, now_ns);
    go_on(1);
    wait_long();
    has_view(0, 1, 7);
    cut[2] = false;
    wait_long();
    assert_int_equal(weft__views_state_of(views[0]), WEFT__VIEWS_OUT);
    close_job();
}

/* Who owns a ballot that is not the latest gives way, and both come to the same. */
static void test_two_ballots_at_once(void **state)
{
    (void)state;
    for (int n = 2; n <= RANKS_MOST; n++) {
        open_job(n, WEFT__QUORUM_MAJORITY);
        for (int i = 0; i < n; i++) weft__views_want(views[i], now_ns);
        deliver();
        wait_long();
        for (int i = 0; i < n; i++) {
            assert_true(weft__views_number(views[i]) > 1);
            assert_int_equal(weft__views_number(views[i]), weft__views_number(views[0]));
            assert_int_equal(members(i), (1U << n) - 1);
            assert_int_equal(weft__views_state_of(views[i]), WEFT__VIEWS_RESTING);
        }
        close_job();
    }
}

/* All words that tell ranks 3 and 4 of the view are lost: 3 is late, and in it, and 4 is not.  Neither says anything, nor does
 * anybody else want anything more. */
static void decide_unheard(void)
{
    open_job(6, WEFT__QUORUM_MAJORITY);
    cut[3] = cut[4] = true;
    weft__views_presume_dead(views[1], 4, now_ns);
    weft__views_want(views[1], now_ns);
    deliver();
    now_ns += 150 * WEFT__MS;
    (void)weft__views_check(views[1], now_ns);
    deliver();
    for (int i = 0; i < 3; i++) has_view(i, 2, 47);
    for (int i = 3; i < 5; i++) has_view(i, 1, 63);
    cut[3] = cut[4] = false;
}

static void test_who_has_not_heard_of_a_view_is_told_again(void **state)
{
    (void)state;
    decide_unheard();
    wait_long();
    has_view(3, 2, 47);
    assert_int_equal(weft__views_state_of(views[3]), WEFT__VIEWS_RESTING);
    has_view(4, 2, 47);
    assert_int_equal(weft__views_state_of(views[4]), WEFT__VIEWS_OUT);
    for (int i = 0; i < ranks; i++) { /* and then it is quiet */
        assert_int_equal(decisions[i], 1);
        assert_true(weft__views_check(views[i], now_ns) == WEFT__NEVER);
    }
    close_job();
}

/* Rank 2 would have told rank 3, and is gone: to the one before it that is reason enough. */
static void test_behind_one_that_is_gone_they_are_told_too(void **state)
{
    (void)state;
    for (int certain = 0; certain < 2; certain++) {
        decide_unheard();
        cut[2] = true;
        now_ns += 1000 * WEFT__MS;
        (void)weft__views_check(views[1], now_ns);
        assert_int_not_equal(queue_tail, 0); /* nobody has answered it yet */
        deliver();
        has_view(3, 1, 63);
        if (certain)
            weft__views_died(views[1], 2, now_ns);
        else
            weft__views_presume_dead(views[1], 2, now_ns);
        assert_in_range(weft__views_check(views[1], now_ns) - now_ns, 1, 50 * WEFT__MS);
        wait_long();
        has_view(3, 2, 47);
        close_job();
    }
}

/* Nobody counts on it: an answer that does not come is waited for ever longer. */
static void test_who_says_nothing_of_a_view_is_asked_less_and_less(void **state)
{
    int times = 0;
    (void)state;
    decide_unheard();
    while (now_ns < 3600 * 1000 * WEFT__MS) {
        int64_t next = weft__views_check(views[2], now_ns);
        assert_true(next > now_ns && next != WEFT__NEVER);
        now_ns = next;
        times += queue_tail > 0;
        queue_tail = 0;
    }
    assert_in_range(times, 10, 18);
    close_job();
}

/* 2, 3 and 4 of five go on by themselves and die; 1 has proof of that, and asks 0 for its vote, which has none yet.  What 2 has
 * said of their view reaches 0 only behind that: 0 is out, and so is 1.  It comes too late once 0 has proof as well. */
static void test_what_the_dead_have_said_comes_late(void **state)
{
    const said view = {WEFT__VIEW_IS, 2, 0, 0, 28, 0};
    (void)state;
    for (int too_late = 0; too_late < 2; too_late++) {
        open_job(5, WEFT__QUORUM_MAJORITY);
        cut[0] = cut[1] = true;
        go_on(28);
        wait_long();
        has_view(2, 2, 28);
        cut[0] = cut[1] = false;
        cut[2] = cut[3] = cut[4] = true;
        for (int of = 2; of < 5; of++) weft__views_died(views[1], of, now_ns);
        weft__views_want(views[1], now_ns);
        deliver();
        wait_long();
        has_view(1, 1, 31);
        for (int of = 2; of < 5 && too_late; of++) weft__views_died(views[0], of, now_ns);
        assert_true(is_taken_from(2, view, WHOLE)); /* its vote, which counts now, is still on its way */
        deliver();
        wait_long();
        for (int i = 0; i < 2; i++) {
            has_view(i, 2, too_late ? 3 : 28);
            assert_int_equal(weft__views_state_of(views[i]),
                             too_late ? WEFT__VIEWS_RESTING : WEFT__VIEWS_OUT);
        }
        close_job();
    }
}

/* Who has asked for votes hears of the last death only behind them: they are given once more. */
static void test_votes_are_renewed_by_proof(void **state)
{
    (void)state;
    open_job(4, WEFT__QUORUM_MAJORITY);
    cut[0] = cut[1] = true;
    weft__views_died(views[3], 0, now_ns);
    weft__views_presume_dead(views[3], 1, now_ns);
    for (int of = 0; of < 2; of++) weft__views_died(views[2], of, now_ns);
    weft__views_want(views[3], now_ns);
    wait_long();
    has_view(3, 1, 15);
    weft__views_died(views[3], 1, now_ns);
    wait_long();
    for (int i = 2; i < 4; i++) has_view(i, 2, 12);
    close_job();
}

/* Rank 1 has prepared by proof, without the witness.  0, which has not heard of the deaths, votes, and makes half of them with 1: the
 * witness, which has promised nothing for that ballot, is not asked for its vote. */
static void test_by_proof_the_witness_has_no_part(void **state)
{
    (void)state;
    open_job(4, WEFT__QUORUM_WITNESS);
    cut[2] = cut[3] = true;
    for (int of = 2; of < 4; of++) weft__views_died(views[1], of, now_ns);
    weft__views_want(views[1], now_ns);
    for (int i = 0; i < 3; i++) {
        deliver();
        now_ns += 50 * WEFT__MS;
        (void)weft__views_check(views[1], now_ns);
    }
    assert_int_equal(weft__views_state_of(views[1]), WEFT__VIEWS_PROPOSING);
    assert_int_equal(witness.promised, 0);
    for (int of = 2; of < 4; of++) weft__views_died(views[0], of, now_ns);
    deliver();
    for (int i = 0; i < 2; i++) has_view(i, 2, 3);
    close_job();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_is_left_out_is_told),
        cmocka_unit_test(test_who_does_not_answer_holds_nobody_up),
        cmocka_unit_test(test_too_few_answer),
        cmocka_unit_test(test_who_lives_after_all_is_told_at_once),
        cmocka_unit_test(test_who_has_not_heard_of_a_view_is_told_again),
        cmocka_unit_test(test_behind_one_that_is_gone_they_are_told_too),
        cmocka_unit_test(test_who_says_nothing_of_a_view_is_asked_less_and_less),
        cmocka_unit_test(test_quorums),
        cmocka_unit_test(test_halves_with_a_witness),
        cmocka_unit_test(test_the_witness_is_asked_for_a_half_alone),
        cmocka_unit_test(test_by_proof),
        cmocka_unit_test(test_the_vote_of_the_dead_counts),
        cmocka_unit_test(test_two_ballots_at_once),
        cmocka_unit_test(test_what_the_dead_have_said_comes_late),
        cmocka_unit_test(test_votes_are_renewed_by_proof),
        cmocka_unit_test(test_by_proof_the_witness_has_no_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
