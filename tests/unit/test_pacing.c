/* test_pacing.c - what pacing.h answers: a caller who waits, the progress thread and its processor, event by
 * event on a clock of the test's own.  The numbers are those that were measured for; one that changes is to
 * be measured again. */
#include "pacing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define SPIN_NS (200 * WEFT__US) /* WEFT_SPIN_US as it is set where nobody sets it */
#define STEP_NS (10 * WEFT__US)  /* between polls at the clock */

static weft__pacing pacing_of(int ranks, int processors)
{
    weft__pacing pacing;
    weft__pacing_open(&pacing, SPIN_NS);
    weft__pacing_meet(&pacing, ranks, processors);
    return pacing;
}

static int64_t spin_of(const weft__pacing *pacing)
{
    return atomic_load(&pacing->spin_ns);
}

/* Polls in vain, reading the clock every `step`, until it is told to sleep; returns how long that was from its
 * first reading of the clock on. */
static int64_t polls_in_vain(const weft__pacing *pacing, weft__polling *polling, int64_t *now, int64_t step,
                             int64_t deadline)
{
    int64_t began = *now;
    while (weft__pacing_after_clock(pacing, polling, *now, deadline) != WEFT__PACE_SLEEP) {
        *now += step;
        assert_true(*now - began < 1000000 * WEFT__MS);
    }
    return *now - began;
}

/* ---- what a context is told at its beginning ---- */

static void is_crowded_where_ranks_outnumber_processors(void **state)
{
    (void)state;
    for (int processors = 1; processors < 5; processors++)
        for (int ranks = 1; ranks < 9; ranks++) {
            weft__pacing pacing = pacing_of(ranks, processors);
            assert_int_equal(weft__pacing_is_crowded(&pacing), ranks > processors);
        }
}

static void begins_with_nothing_learned(void **state)
{
    weft__pacing pacing = pacing_of(2, 2);
    (void)state;
    assert_int_equal(spin_of(&pacing), SPIN_NS);
    assert_int_equal(pacing.home_cpu, -1);
    assert_int_equal(atomic_load(&pacing.caller), -1);
}

static void numbers_are_those_measured(void **state)
{
    (void)state;
    assert_int_equal(WEFT__CLOCK_EVERY, 64);
    assert_int_equal(WEFT__PLACE_POLLS, 8);
    assert_int_equal(WEFT__CROWDED_POLLS_MESSAGE, 16);
    assert_int_equal(WEFT__CROWDED_POLLS, 4);
    assert_int_equal(WEFT__YIELD_LONG_NS, 10000000);
    assert_int_equal(WEFT__CHECKS_FREE, 16);
    assert_int_equal(WEFT__ANSWERS_MANY, 16);
    assert_int_equal(WEFT__SLEEP_SHORT_NS, 1000000);
    assert_int_equal(WEFT__IDLE_PASSES, 16);
    assert_int_equal(WEFT__NAP_SPAN_NS, 8000000);
    assert_int_equal(WEFT__DEVICE_SPIN_NS, 50000);
    assert_int_equal(WEFT__ROOM_EVERY_NS, 2000000);
}

/* ---- a caller who waits ---- */

static void one_poll_in_eight_is_at_everything(void **state)
{
    int everything = 0;
    (void)state;
    for (int polls = 1; polls <= WEFT__CLOCK_EVERY; polls++) everything += !weft__pacing_at_place(polls);
    assert_int_equal(everything, 8);
    assert_true(weft__pacing_at_place(1)); /* the first is at its place */
}

static void the_clock_is_due_after_64_polls(void **state)
{
    (void)state;
    assert_false(weft__pacing_clock_is_due(63));
    assert_true(weft__pacing_clock_is_due(64));
}

static void turns_are_longer_for_messages(void **state)
{
    (void)state;
    for (int polls = 1; polls <= WEFT__CLOCK_EVERY; polls++) {
        assert_int_equal(weft__pacing_gives_way(polls, false), polls % 4 == 0);
        assert_int_equal(weft__pacing_gives_way(polls, true), polls % 16 == 0);
    }
}

static void pauses_where_it_has_a_processor(void **state)
{
    weft__pacing pacing = pacing_of(2, 2);
    weft__polling polling = WEFT__POLLING_BEGINS;
    (void)state;
    assert_int_equal(weft__pacing_after_polls(&pacing, &polling, false, true), WEFT__PACE_PAUSE);
    assert_int_equal(polling.polls, 1); /* counted before */
    assert_int_equal(weft__pacing_after_polls(&pacing, &polling, false, false), WEFT__PACE_PAUSE);
    assert_int_equal(polling.polls, 2); /* another had the engine */
    assert_int_equal(weft__pacing_after_polls(&pacing, &polling, true, true), WEFT__PACE_POLL);
    assert_int_equal(polling.polls, 3);
}

static void yields_where_it_shares_one(void **state)
{
    weft__pacing pacing = pacing_of(3, 2);
    weft__polling polling = WEFT__POLLING_BEGINS;
    (void)state;
    assert_int_equal(weft__pacing_after_polls(&pacing, &polling, false, true), WEFT__PACE_YIELD);
    assert_int_equal(weft__pacing_after_polls(&pacing, &polling, true, true), WEFT__PACE_POLL);
    assert_int_equal(weft__pacing_after_yield(0), WEFT__PACE_POLL);
    assert_int_equal(weft__pacing_after_yield(WEFT__YIELD_LONG_NS - 1), WEFT__PACE_POLL);
    assert_int_equal(weft__pacing_after_yield(WEFT__YIELD_LONG_NS), WEFT__PACE_SLEEP);
}

static void sleeps_after_its_time_in_vain(void **state)
{
    weft__pacing pacing = pacing_of(2, 2);
    weft__polling polling = WEFT__POLLING_BEGINS;
    int64_t now = 7 * WEFT__MS;
    (void)state;
    assert_int_equal(polls_in_vain(&pacing, &polling, &now, STEP_NS, WEFT__NEVER), SPIN_NS);
    assert_int_equal(polling.polls, 0);
    weft__pacing_after_polling(&pacing, &polling);
    assert_int_equal(spin_of(&pacing), SPIN_NS);
}

static void stays_while_something_moves(void **state)
{
    weft__pacing pacing = pacing_of(2, 2);
    weft__polling polling = WEFT__POLLING_BEGINS;
    int64_t now = WEFT__MS;
    (void)state;
    for (int i = 0; i < 10000; i++) { /* 100 ms, and nothing of it in vain */
        assert_int_equal(weft__pacing_after_clock(&pacing, &polling, now, WEFT__NEVER), WEFT__PACE_POLL);
        weft__pacing_after_polls(&pacing, &polling, true, true);
        now += STEP_NS;
    }
    assert_int_equal(polling.in_vain_ns, 0);
    assert_int_equal(polls_in_vain(&pacing, &polling, &now, STEP_NS, WEFT__NEVER), SPIN_NS); /* anew */
}

static void stops_at_its_deadline(void **state)
{
    weft__pacing pacing = pacing_of(2, 2);
    weft__polling polling = WEFT__POLLING_BEGINS;
    int64_t now = WEFT__MS;
    (void)state;
    assert_int_equal(polls_in_vain(&pacing, &polling, &now, STEP_NS, now + 5 * STEP_NS), 5 * STEP_NS);
}

/* Something moves just before each end, as from a network: it is not kept polling for ever. */
static void gives_up_what_comes_too_slowly(void **state)
{
    weft__pacing pacing = pacing_of(2, 2);
    weft__polling polling = WEFT__POLLING_BEGINS;
    int64_t now = WEFT__MS, began = now, limit = 4 * 32 * SPIN_NS;
    (void)state;
    while (weft__pacing_after_clock(&pacing, &polling, now, WEFT__NEVER) != WEFT__PACE_SLEEP) {
        if (now - polling.stop_ns > -2 * STEP_NS) weft__pacing_after_polls(&pacing, &polling, true, true);
        now += STEP_NS;
        assert_true(now - began < 2 * limit);
    }
    assert_true(polling.in_vain_ns >= limit && polling.in_vain_ns < limit + STEP_NS);
}

static void polling_grows_after_short_sleeps(void **state)
{
    weft__pacing pacing = pacing_of(2, 2);
    (void)state;
    for (int64_t times = 2; times <= 32; times *= 2) {
        weft__pacing_after_sleep(&pacing, 20 * SPIN_NS - 1);
        assert_int_equal(spin_of(&pacing), times * SPIN_NS);
    }
    weft__pacing_after_sleep(&pacing, 1);
    assert_int_equal(spin_of(&pacing), 32 * SPIN_NS); /* the most */
    weft__pacing_after_sleep(&pacing, 20 * SPIN_NS);
    assert_int_equal(spin_of(&pacing), SPIN_NS); /* one that was worth it */
}

static void polling_grows_less_where_processors_are_shared(void **state)
{
    weft__pacing pacing = pacing_of(3, 2);
    (void)state;
    for (int i = 0; i < 9; i++) weft__pacing_after_sleep(&pacing, 4 * SPIN_NS - 1);
    assert_int_equal(spin_of(&pacing), 8 * SPIN_NS);
    weft__pacing_after_sleep(&pacing, 4 * SPIN_NS);
    assert_int_equal(spin_of(&pacing), SPIN_NS);
}

static void polling_shrinks_after_long_ones_in_vain(void **state)
{
    weft__pacing pacing = pacing_of(2, 2);
    weft__polling polling = {.polls = 1, .began_ns = WEFT__MS, .in_vain_ns = 20 * SPIN_NS};
    (void)state;
    for (int i = 0; i < 9; i++) weft__pacing_after_sleep(&pacing, 1);
    polling.now_ns = polling.began_ns + 2 * polling.in_vain_ns + 1;
    weft__pacing_after_polling(&pacing, &polling); /* more than half of it was not in vain */
    assert_int_equal(spin_of(&pacing), 32 * SPIN_NS);
    polling.now_ns--;
    polling.in_vain_ns--;
    weft__pacing_after_polling(&pacing, &polling); /* a sleep so long would not have been worth it */
    assert_int_equal(spin_of(&pacing), 32 * SPIN_NS);
    polling.in_vain_ns++;
    weft__pacing_after_polling(&pacing, &polling);
    assert_int_equal(spin_of(&pacing), SPIN_NS);
}

/* Others have the processor meanwhile. */
static void nothing_is_in_vain_where_processors_are_shared(void **state)
{
    weft__pacing pacing = pacing_of(3, 2);
    weft__polling polling = {1, WEFT__MS, 2 * WEFT__MS, 2 * WEFT__MS, 0, WEFT__MS};
    (void)state;
    weft__pacing_after_sleep(&pacing, 1);
    weft__pacing_after_polling(&pacing, &polling);
    assert_int_equal(spin_of(&pacing), 2 * SPIN_NS);
}

static void without_polling_it_sleeps_at_once(void **state)
{
    weft__pacing pacing;
    weft__polling polling = WEFT__POLLING_BEGINS;
    (void)state;
    weft__pacing_open(&pacing, 0);
    assert_int_equal(weft__pacing_after_clock(&pacing, &polling, WEFT__MS, WEFT__NEVER), WEFT__PACE_SLEEP);
    weft__pacing_after_sleep(&pacing, 1);
    assert_int_equal(spin_of(&pacing), 0);
}

static void sleeps_shortly_where_nobody_may_wake_it(void **state)
{
    (void)state;
    assert_false(weft__pacing_sleeps_short(false, false));
    assert_true(weft__pacing_sleeps_short(true, false));
    assert_true(weft__pacing_sleeps_short(false, true));
    assert_int_equal(weft__pacing_sleep_short(5, WEFT__NEVER), 5 + WEFT__MS);
    assert_int_equal(weft__pacing_sleep_short(5, 9), 9);
}

static void asking_helps_from_the_17th_time_on(void **state)
{
    (void)state;
    assert_true(weft__pacing_only_checks(15, false));
    assert_false(weft__pacing_only_checks(16, false));
    assert_false(weft__pacing_only_checks(0, true)); /* a probe: it may be asked just once */
}

static void a_send_that_answers_many_yields(void **state)
{
    (void)state;
    assert_false(weft__pacing_yields_after_send(15));
    assert_true(weft__pacing_yields_after_send(16));
}

/* ---- the progress thread ---- */

static void rests_after_16_polls_in_vain(void **state)
{
    weft__pacing alone = pacing_of(1, 2), crowded = pacing_of(3, 2);
    weft__resting resting;
    (void)state;
    weft__resting_open(&resting, WEFT__TAKES_NONE, 0);
    for (int i = 1; i < 16; i++) assert_false(weft__resting_is_due(&resting, &alone, false));
    assert_true(weft__resting_is_due(&resting, &alone, false));
    for (int i = 1; i < 16; i++) assert_false(weft__resting_is_due(&resting, &alone, false));
    weft__resting_found(&resting);
    assert_false(weft__resting_is_due(&resting, &alone, false)); /* from the beginning */
    assert_true(weft__resting_is_due(&resting, &alone, true));
    assert_true(weft__resting_is_due(&resting, &crowded, false));
}

static void expect_next(weft__resting *resting, const weft__pacing *pacing, weft__resting_sight sight,
                        int64_t now, weft__pace pace, int64_t nap_us)
{
    weft__rest_next next = weft__resting_next(resting, pacing, &sight, now);
    assert_int_equal(next.pace, pace);
    assert_int_equal(next.nap_us, nap_us);
}

static void naps_grow_and_then_it_sleeps(void **state)
{
    static const int64_t naps[] = {250, 500, 1000, 2000, 4000, 4000};
    weft__pacing pacing = pacing_of(1, 2);
    weft__resting resting;
    weft__resting_sight quiet = {0};
    int64_t now = WEFT__MS;
    (void)state;
    weft__resting_open(&resting, WEFT__TAKES_NONE, now);
    for (int i = 0; i < 5; i++) {
        expect_next(&resting, &pacing, quiet, now, WEFT__PACE_NAP, naps[i]);
        now += naps[i] * WEFT__US;
    }
    assert_true(now < WEFT__MS + WEFT__NAP_SPAN_NS);
    now = WEFT__MS + WEFT__NAP_SPAN_NS - 1;
    expect_next(&resting, &pacing, quiet, now, WEFT__PACE_NAP, naps[5]);
    expect_next(&resting, &pacing, quiet, now + 1, WEFT__PACE_SLEEP, 0);
    quiet.others_worked = true; /* it was woken, and others have moved something */
    expect_next(&resting, &pacing, quiet, now + 2, WEFT__PACE_NAP, naps[0]);
}

static void naps_stay_shorter_where_works_may_be_left_to_it(void **state)
{
    static const int64_t naps[] = {250, 500, 1000, 1000};
    weft__pacing pacing = pacing_of(1, 2);
    weft__resting resting;
    (void)state;
    weft__resting_open(&resting, WEFT__TAKES_REST, 0);
    for (int i = 0; i < 4; i++)
        expect_next(&resting, &pacing, (weft__resting_sight){0}, i, WEFT__PACE_NAP, naps[i]);
}

static void naps_are_short_again_after_work_of_its_own(void **state)
{
    weft__pacing pacing = pacing_of(1, 2);
    weft__resting resting;
    weft__resting_sight by_callers = {.others_worked = true, .callers_drive = true}, own = {0};
    (void)state;
    weft__resting_open(&resting, WEFT__TAKES_NONE, 0);
    for (int i = 0; i < 9; i++) weft__resting_next(&resting, &pacing, &by_callers, 0);
    expect_next(&resting, &pacing, by_callers, 0, WEFT__PACE_NAP, 4000);
    weft__resting_found(&resting); /* beside callers that drive: half */
    expect_next(&resting, &pacing, by_callers, 0, WEFT__PACE_NAP, 2000);
    weft__resting_found(&resting); /* alone */
    expect_next(&resting, &pacing, own, 0, WEFT__PACE_NAP, 250);
    weft__resting_found(&resting); /* half of the least is the least */
    expect_next(&resting, &pacing, by_callers, 0, WEFT__PACE_NAP, 250);
}

static void sleeps_where_somebody_sleeps_or_sockets_wake(void **state)
{
    weft__pacing pacing = pacing_of(1, 2);
    weft__resting resting;
    weft__resting_sight sight = {.callers_sleep = true};
    (void)state;
    weft__resting_open(&resting, WEFT__TAKES_NONE, 0);
    expect_next(&resting, &pacing, sight, 0, WEFT__PACE_SLEEP, 0);
    sight = (weft__resting_sight){.sockets_wake = true};
    expect_next(&resting, &pacing, sight, 0, WEFT__PACE_SLEEP, 0);
    sight.others_worked = true; /* it might soon be this thread's */
    expect_next(&resting, &pacing, sight, 0, WEFT__PACE_NAP, 250);
}

static void polls_at_a_device_the_less_the_longer_it_runs(void **state)
{
    weft__pacing alone = pacing_of(1, 2), crowded = pacing_of(3, 2);
    weft__resting resting;
    weft__resting_sight sight = {.device_pending = true};
    (void)state;
    weft__resting_open(&resting, WEFT__TAKES_ALONE, 0);
    expect_next(&resting, &alone, sight, 49999, WEFT__PACE_POLL, 0);
    expect_next(&resting, &crowded, sight, 49999, WEFT__PACE_NAP, 20);
    expect_next(&resting, &alone, sight, 50000, WEFT__PACE_NAP, 20);
    expect_next(&resting, &alone, sight, 1600 * WEFT__US, WEFT__PACE_NAP, 100);
    expect_next(&resting, &alone, sight, 100 * WEFT__MS, WEFT__PACE_NAP, 250);
    sight.device_pending = false;
    weft__resting_found(&resting); /* with a module naps are as short */
    expect_next(&resting, &alone, sight, 100 * WEFT__MS, WEFT__PACE_NAP, 20);
}

/* ---- processors ---- */

static void room_is_counted_by_threads(void **state)
{
    (void)state;
    assert_int_equal(weft__pacing_room(2, 2), WEFT__ROOM_FREE);
    assert_int_equal(weft__pacing_room(3, 2), WEFT__ROOM_TAKEN);
    assert_int_equal(weft__pacing_room(6, 2), WEFT__ROOM_TAKEN);
    assert_int_equal(weft__pacing_room(7, 2), WEFT__ROOM_CROWDED);
}

static void moves_when_it_is_sure(void **state)
{
    static const struct {
        weft__room room;
        int next;
    } seen[] = {{WEFT__ROOM_TAKEN, WEFT__ANY_PROCESSOR},
                {WEFT__ROOM_TAKEN, WEFT__STAY},
                {WEFT__ROOM_TAKEN, 5},
                {WEFT__ROOM_TAKEN, 5},
                {WEFT__ROOM_TAKEN, 5},
                {WEFT__ROOM_FREE, 5},
                {WEFT__ROOM_FREE, WEFT__STAY},
                {WEFT__ROOM_FREE, WEFT__ANY_PROCESSOR},
                {WEFT__ROOM_TAKEN, WEFT__STAY},
                {WEFT__ROOM_TAKEN, 5},
                {WEFT__ROOM_CROWDED, WEFT__ANY_PROCESSOR},
                {WEFT__ROOM_TAKEN, WEFT__ANY_PROCESSOR}};
    weft__staying staying = {0};
    (void)state;
    for (size_t i = 0; i < sizeof seen / sizeof *seen; i++)
        assert_int_equal(weft__staying_next(&staying, seen[i].room, 5), seen[i].next);
}

static void polls_for_room_every_two_milliseconds(void **state)
{
    weft__staying staying = {0};
    (void)state;
    assert_true(weft__staying_checks(&staying, 10 * WEFT__MS));
    assert_false(weft__staying_checks(&staying, 12 * WEFT__MS - 1));
    assert_true(weft__staying_checks(&staying, 12 * WEFT__MS));
}

static void callers_have_a_home_where_they_share_memory_and_processors(void **state)
{
    weft__pacing alone = pacing_of(2, 2), crowded = pacing_of(4, 2);
    (void)state;
    assert_false(weft__pacing_has_home(&alone, true, false));
    assert_true(weft__pacing_has_home(&crowded, true, false));
    assert_false(weft__pacing_has_home(&crowded, false, false));
    assert_false(weft__pacing_has_home(&crowded, true, true)); /* sockets wake them */
    for (int i = 0; i < 4; i++) assert_int_equal(weft__pacing_home_cpu(i, 4, 2), i / 2);
    crowded.home_cpu = 1;
    assert_int_equal(weft__pacing_after_sleep(&crowded, 1), 1);
    assert_int_equal(weft__pacing_after_sleep(&alone, 1), -1);
}

static void tells_from_where_work_was_left(void **state)
{
    weft__pacing pacing = pacing_of(2, 2);
    (void)state;
    assert_int_equal(atomic_load(&pacing.caller), -1);
    weft__pacing_left_work(&pacing, 1);
    assert_int_equal(atomic_load(&pacing.caller), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(is_crowded_where_ranks_outnumber_processors),
                                       cmocka_unit_test(begins_with_nothing_learned),
                                       cmocka_unit_test(numbers_are_those_measured),
                                       cmocka_unit_test(one_poll_in_eight_is_at_everything),
                                       cmocka_unit_test(the_clock_is_due_after_64_polls),
                                       cmocka_unit_test(turns_are_longer_for_messages),
                                       cmocka_unit_test(pauses_where_it_has_a_processor),
                                       cmocka_unit_test(yields_where_it_shares_one),
                                       cmocka_unit_test(sleeps_after_its_time_in_vain),
                                       cmocka_unit_test(stays_while_something_moves),
                                       cmocka_unit_test(stops_at_its_deadline),
                                       cmocka_unit_test(gives_up_what_comes_too_slowly),
                                       cmocka_unit_test(polling_grows_after_short_sleeps),
                                       cmocka_unit_test(polling_grows_less_where_processors_are_shared),
                                       cmocka_unit_test(polling_shrinks_after_long_ones_in_vain),
                                       cmocka_unit_test(nothing_is_in_vain_where_processors_are_shared),
                                       cmocka_unit_test(without_polling_it_sleeps_at_once),
                                       cmocka_unit_test(sleeps_shortly_where_nobody_may_wake_it),
                                       cmocka_unit_test(asking_helps_from_the_17th_time_on),
                                       cmocka_unit_test(a_send_that_answers_many_yields),
                                       cmocka_unit_test(rests_after_16_polls_in_vain),
                                       cmocka_unit_test(naps_grow_and_then_it_sleeps),
                                       cmocka_unit_test(naps_stay_shorter_where_works_may_be_left_to_it),
                                       cmocka_unit_test(naps_are_short_again_after_work_of_its_own),
                                       cmocka_unit_test(sleeps_where_somebody_sleeps_or_sockets_wake),
                                       cmocka_unit_test(polls_at_a_device_the_less_the_longer_it_runs),
                                       cmocka_unit_test(room_is_counted_by_threads),
                                       cmocka_unit_test(moves_when_it_is_sure),
                                       cmocka_unit_test(polls_for_room_every_two_milliseconds),
                                       cmocka_unit_test(
                                           callers_have_a_home_where_they_share_memory_and_processors),
                                       cmocka_unit_test(tells_from_where_work_was_left)};
    return cmocka_run_group_tests_name("pacing", tests, NULL, NULL);
}
