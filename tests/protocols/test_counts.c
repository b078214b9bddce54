/* test_counts.c - messages of what ranks do beside collectives, at 8 to 1,024 ranks.
 *
 * tests/fault/test_slopes.c counts the same of real processes, up to 64.  Here each rank is the library's own context
 * over simulated wires, and a host of its own, where each of them costs most.  No deadline passes while messages are on
 * their way, so nothing is said twice, and the numbers are the same every time.  What ranks send as data is not
 * counted, nor goodbyes and their answers, which go the way of data; how they join is, of processes, in
 * tests/unit/test_relay.c.
 *
 * The bounds hold for every size alike: what a rank has to do does not grow, but that the lead of a group that shrinks hears of each that it
 * has come, and that up to some hosts one tells all the others of a group, a break, an abort, a death or the end; and before goodbyes each rank has words for the 2 log2 P
 * that it has exchanged data with, and those beside it in trees.  COUNTS_TABLE=1 shows what was counted. */
#include "alarm.h"
#include "chance.h"
#include "counts.h"
#include "engine.h"
#include "executors.h"
#include "group.h"
#include "leave.h"
#include "trace.h"
#include "world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

/* ---- what ranks do ---- */

enum { LATE_MS = 5000, STOPPED_TOLD_MS = 500 };

static weft_group *worlds[WIRES_RANKS_MAX], *made[WIRES_RANKS_MAX], *shrunk[WIRES_RANKS_MAX];
static weft_request *reqs[WIRES_RANKS_MAX];
static int everybody[WIRES_RANKS_MAX];

/* What has been begun ends, and is counted for that phase. */
static void end(phase p, weft_status status)
{
    now = p;
    world_settle();
    now = PHASES;
    for (int i = 0; i < world.ranks; i++) {
        if (!reqs[i]) continue;
        if (world_lives(i) && weft_test(reqs[i]) != status)
            fail_msg("%s of %d ranks ends in %s at rank %d (%s); expected %s", phase_names[p], world.ranks,
                     weft_status_name(weft_test(reqs[i])), i, weft_request_message(reqs[i]),
                     weft_status_name(status));
        weft_release(reqs[i]);
        reqs[i] = NULL;
    }
}

static void make_group(void)
{
    now = NEW_GROUP;
    for (int i = 0; i < world.ranks; i++)
        assert_int_equal(weft_new_group(worlds[i], everybody, world.ranks, NULL, &made[i], &reqs[i]),
                         WEFT_OK);
    end(NEW_GROUP, WEFT_OK);
}

/* One of them never begins it. */
static void be_late(void)
{
    const weft_call call = {.timeout_ms = LATE_MS};
    now = LATE;
    for (int i = 0; i < world.ranks; i++)
        if (i != world.ranks / 2) assert_int_equal(weft_barrier(worlds[i], &call, &reqs[i]), WEFT_OK);
    end(LATE, WEFT_ERR_TIMEOUT);
}

/* But those that are away. */
static void check_aborted(weft_group *const *groups)
{
    for (int i = 0; i < world.ranks; i++)
        if (world_lives(i) && !world_is_away(i) && !groups[i]->late_abort)
            fail_msg("rank %d of %d has not been told that its broken group was aborted", i, world.ranks);
}

/* The world is broken, as its time was up. */
static void abort_late(void)
{
    now = ABORT;
    weft_group_abort(worlds[world.ranks / 3], "the data is bad");
    end(ABORT, WEFT_OK);
    check_aborted(worlds);
}

static void break_group(void)
{
    now = BREAK;
    weft_group_abort(made[world.ranks / 3], "the data is bad");
    end(BREAK, WEFT_OK);
    world_check_broken(made, world.ranks, "the group");
}

static void let_one_die(void)
{
    now = DEATH;
    wires_kill(world.ranks / 3);
    end(DEATH, WEFT_OK);
    world_check_broken(worlds, world.ranks, "the world");
}

static void shrink(void)
{
    now = SHRINK;
    for (int i = 0; i < world.ranks; i++)
        if (world_lives(i))
            assert_int_equal(weft_shrink_group(worlds[i], NULL, &shrunk[i], &reqs[i]), WEFT_OK);
    end(SHRINK, WEFT_OK);
}

/* True: it has left, or is dead. */
static bool look(int rank)
{
    weft_context *ctx = world_rank(rank);
    int moved;
    if (!world_lives(rank)) return true;
    atomic_store(&ctx->closing, true);
    if (!weft__leave_check(ctx, "", &moved)) return false;
    weft__alarm_send(ctx); /* as its watchdog does at last */
    wires_leave(rank, false);
    return true;
}

static void leave(void)
{
    int left = 0;
    now = FINALIZE;
    for (int rounds = 0; left < world.ranks; rounds++) {
        if (rounds > 100) fail_msg("%d of %d ranks cannot leave", world.ranks - left, world.ranks);
        left = 0;
        for (int i = 0; i < world.ranks; i++) left += look(i);
        while (world_step()) {
        }
        world_sleep(20 * WEFT__MS);
    }
    now = PHASES;
}

static void begin(int ranks)
{
    forget_counts();
    chance_seed((uint64_t)ranks);
    trace_begin("counts", (uint64_t)ranks);
    world_open_all(ranks, weft__executors);
    for (int i = 0; i < ranks; i++) everybody[i] = i;
    for (int i = 0; i < ranks; i++) worlds[i] = world_group(i, world_group_id(0), everybody, ranks);
}

static void finish(phase first, phase last)
{
    for (phase p = first; p <= last && getenv("COUNTS_TABLE"); p++) show(p);
    if (getenv("COUNTS_TABLE")) show(FINALIZE);
    assert_false(trace_blamed());
}

/* ---- how they may grow ---- */

static int log2_of(int n)
{
    int log = 0;
    while (1 << log < n) log++;
    return log;
}

/* It is asked twice, at half of the time and shortly before the deadline.  Each time a rank asks who is above it, asks those
 * below, and answers all of them: 4 words for each edge of the tree, the one above a rank and up to 16 below. */
static void check_late(int ranks)
{
    int below = ranks - 1 < WEFT__FAN_OUT ? ranks - 1 : WEFT__FAN_OUT;
    check(LATE, FIRST_WORDS, 1, below);
    check(LATE, MESSAGES, 8, 2 * 2 * (below + 1));
}

/* Each says once that it has come: to the lead, or where hosts are many to who is above it in the tree, with all that are below.  Then
 * what becomes of it goes down the tree, and is answered: of the root to each below it, of others to those below and once above, and
 * where there are some below once more when all of those have it. */
static void check_new_group(int ranks)
{
    bool few = ranks <= WEFT__TOLD_AT_ONCE;
    check(NEW_GROUP, FIRST_WORDS, 1, 1);
    check(NEW_GROUP, MESSAGES, few ? 2 : 4, few ? ranks + 1 : WEFT__FAN_OUT + 3);
}

/* In few hosts one tells all.  In more a word goes over each edge of the tree, and is answered, on connections that were made
 * as it was asked who is late: in both directions, where time is up for all at once. */
static void check_break(phase p, int ranks, int begin)
{
    bool few = ranks <= WEFT__TOLD_AT_ONCE;
    check(p, FIRST_WORDS, 1, few ? ranks - 1 : 0);
    check(p, MESSAGES, few ? 1 : 2 * begin, few ? ranks - 1 : begin * (1 + WEFT__FAN_OUT));
}

/* Likewise of a group that is broken already, and then each tells one more. */
static void check_late_abort(int ranks)
{
    bool few = ranks <= WEFT__TOLD_AT_ONCE;
    check(ABORT, FIRST_WORDS, few ? 2 : 1, few ? ranks - 1 : 1);
    check(ABORT, MESSAGES, few ? 2 : 3, few ? ranks - 1 : 2 + WEFT__FAN_OUT);
}

/* Two ranks tell it: who has seen it, and who watches over the dead.  In many hosts what the second has to say goes over few
 * edges of the tree that the first has not said it over. */
static void check_death(int ranks)
{
    bool few = ranks <= WEFT__TOLD_AT_ONCE;
    check(DEATH, FIRST_WORDS, 3, few ? ranks : 2 + WEFT__FAN_OUT);
    check(DEATH, MESSAGES, 4, few ? ranks : 2 * (1 + WEFT__FAN_OUT));
}

/* Whom one has talked to hears from it once that it is about to leave, and once of what it knows to be broken, and of what was
 * aborted when it had been. */
static void check_end(int ranks)
{
    const int log = log2_of(ranks);
    check(FINALIZE, FIRST_WORDS, log, 2 * log);
    check(FINALIZE, MESSAGES, 7 * log, ranks <= WEFT__TOLD_AT_ONCE ? 3 * ranks + log : 13 * log);
}

static void in_order(int ranks)
{
    begin(ranks);
    make_group();
    be_late();
    abort_late();
    break_group();
    leave();
    finish(NEW_GROUP, BREAK);
    world_close();
    check_new_group(ranks);
    check_bytes(NEW_GROUP, 320);
    check_late(ranks);
    check_break(TIME_UP, ranks, 2);
    check_late_abort(ranks);
    check_break(BREAK, ranks, 1);
    check_end(ranks);
}

/* Each says that it has come, and the lead two things to all; in few hosts each says that it holds the group, too.  In more the first goes
 * up a tree and those two down it, where whoever answers, once or twice, says that with it. */
static void check_shrink(int ranks)
{
    const bool few = ranks <= WEFT__TOLD_AT_ONCE;
    check(SHRINK, FIRST_WORDS, 2, few ? 1 : 2);
    check(SHRINK, MESSAGES, few ? 4 : 6, few ? 2 * ranks : 2 * (WEFT__FAN_OUT + 3));
    check_words(SHRINK, few ? 2 * ranks : 6 * WEFT__FAN_OUT);
    check_bytes(SHRINK, few ? 512 : 300 + ranks / 4); /* sets of a bit for each rank */
}

static void with_a_death(int ranks)
{
    begin(ranks);
    let_one_die();
    shrink();
    leave();
    finish(DEATH, SHRINK);
    world_close();
    check_death(ranks);
    check_shrink(ranks);
    check(FINALIZE, FIRST_WORDS, 1, 1);
    check(FINALIZE, MESSAGES, 8, ranks <= WEFT__TOLD_AT_ONCE ? ranks + log2_of(ranks) : 4 * log2_of(ranks));
}

/* One does not come, and the lead's time is up first: all others that have come hear of that by others, too.  Who is late is
 * asked for before. */
static void with_a_shrink_that_fails(int ranks)
{
    begin(ranks);
    now = SHRINK;
    for (int i = 0; i < ranks; i++) {
        const weft_call call = {.timeout_ms = i ? 2 * LATE_MS : LATE_MS / 5};
        if (i != ranks / 2)
            assert_int_equal(weft_shrink_group(worlds[i], &call, &shrunk[i], &reqs[i]), WEFT_OK);
    }
    end(SHRINK, WEFT_ERR_TIMEOUT);
    finish(SHRINK, SHRINK);
    world_close();
    check(SHRINK, FIRST_WORDS, 2, WEFT__FAN_OUT);
    check(SHRINK, MESSAGES, 10, 4 * (WEFT__FAN_OUT + 3));
}

static void test_a_shrink_that_fails(void **state)
{
    (void)state;
    with_a_shrink_that_fails(64);
    if (WIRES_RANKS_MAX > 64) with_a_shrink_that_fails(WIRES_RANKS_MAX);
}

/* The host between the root and some hundred others says nothing.  The root alone goes past it, and has for that a word
 * for each host below it, which answers; whoever waits for the root is told that it still waits.  If the root stops while it
 * waits, who told it goes past both. */
static void with_a_stop(int ranks, bool the_root_too)
{
    begin(ranks);
    now = BREAK;
    world_away(1, 10 * STOPPED_TOLD_MS * WEFT__MS);
    weft_group_abort(worlds[ranks - 1], "the data is bad");
    if (the_root_too) { /* once it has told all that it tells */
        world_settle_for(STOPPED_TOLD_MS / 20 * WEFT__MS);
        world_away(0, 10 * STOPPED_TOLD_MS * WEFT__MS);
    }
    world_settle_for(STOPPED_TOLD_MS * WEFT__MS);
    world_check_told(worlds, ranks, "the world");
    now = PHASES;
    finish(BREAK, BREAK);
    world_close();
    if (!the_root_too) check(BREAK, MESSAGES, 3, 3 * (1 + WEFT__FAN_OUT));
}

/* Likewise where the group was broken before. */
static void with_a_late_abort_and_a_stop(int ranks)
{
    begin(ranks);
    be_late();
    now = ABORT;
    world_away(1, 10 * STOPPED_TOLD_MS * WEFT__MS);
    weft_group_abort(worlds[ranks - 1], "the data is bad");
    world_settle_for(STOPPED_TOLD_MS * WEFT__MS);
    check_aborted(worlds);
    now = PHASES;
    finish(ABORT, ABORT);
    world_close();
    check(ABORT, MESSAGES, 4, 3 * (1 + WEFT__FAN_OUT));
}

/* The root's first neighbour does not reach the first host below it; who breaks the group, elsewhere, reaches both. */
static void with_a_cut(int ranks)
{
    begin(ranks);
    now = BREAK;
    wires_part(1, 1 + WEFT__FAN_OUT);
    weft_group_abort(worlds[ranks - 1], "the data is bad");
    world_settle_for(STOPPED_TOLD_MS * WEFT__MS);
    world_check_told(worlds, ranks, "the world");
    now = PHASES;
    finish(BREAK, BREAK);
    world_close();
    check(BREAK, MESSAGES, 3, 3 * (1 + WEFT__FAN_OUT));
}

/* Likewise where it is a death that is told; who has seen it is none of those that are stopped. */
static void with_a_death_and_a_stop(int ranks)
{
    begin(ranks);
    now = DEATH;
    world_away(1, 10 * STOPPED_TOLD_MS * WEFT__MS);
    wires_kill(ranks / 2);
    world_settle_for(STOPPED_TOLD_MS * WEFT__MS);
    world_check_told(worlds, ranks, "the world");
    now = PHASES;
    finish(DEATH, DEATH);
    world_close();
    check(DEATH, MESSAGES, 6, 4 * (1 + WEFT__FAN_OUT));
}

/* The others have come by then; which of these asks is left to others. */
static void ask_the_lead_last(void)
{
    for (int i = world.ranks - 1; i >= 0; i--) {
        if (!i) world_settle_for(1 * WEFT__MS);
        assert_int_equal(weft_new_group(worlds[i], everybody, world.ranks, NULL, &made[i], &reqs[i]),
                         WEFT_OK);
    }
}

/* Likewise where it is a new group that is told: by the first host below the root once that has joined. */
static void with_a_group_and_a_stop(int ranks)
{
    begin(ranks);
    now = NEW_GROUP;
    ask_the_lead_last();
    world_away(1, 10 * STOPPED_TOLD_MS * WEFT__MS);
    world_settle_for(STOPPED_TOLD_MS * WEFT__MS);
    for (int i = 0; i < ranks; i++)
        if (i != 1 && weft_test(reqs[i]) != WEFT_OK)
            fail_msg("rank %d of %d waits for its group, which is made", i, ranks);
    world_settle_for(10 * STOPPED_TOLD_MS * WEFT__MS);
    end(NEW_GROUP, WEFT_OK);
    finish(NEW_GROUP, NEW_GROUP);
    world_close();
    check(NEW_GROUP, MESSAGES, 4, 2 * (1 + WEFT__FAN_OUT) + 1);
}

/* One comes late: the others hear that the lead knows of them, and do not tell it themselves. */
static void with_a_late_one(int ranks, int late)
{
    begin(ranks);
    now = NEW_GROUP;
    for (int waits = 1; waits >= 0; waits--) {
        for (int i = 0; i < ranks; i++)
            if (waits != (i == late))
                assert_int_equal(weft_new_group(worlds[i], everybody, ranks, NULL, &made[i], &reqs[i]),
                                 WEFT_OK);
        if (waits) world_settle_for(10 * STOPPED_TOLD_MS * WEFT__MS);
    }
    end(NEW_GROUP, WEFT_OK);
    finish(NEW_GROUP, NEW_GROUP);
    world_close();
    check(NEW_GROUP, FIRST_WORDS, 1, 1);
    check(NEW_GROUP, MESSAGES, 5, 4 * (WEFT__FAN_OUT + 1));
}

static void test_a_group_and_one_that_comes_late(void **state)
{
    (void)state;
    for (int ranks = 64; ranks <= WIRES_RANKS_MAX; ranks *= 4) {
        with_a_late_one(ranks, 1);
        with_a_late_one(ranks, ranks - 1);
    }
}

/* Two in a row, in a high tree, that go on later: those below the second hear of it from three, and those below them of one. */
static void test_a_group_is_told_on_once(void **state)
{
    (void)state;
    begin(64);
    for (int i = 0; i < world.ranks; i++) world_rank(i)->fan_out = 2;
    now = NEW_GROUP;
    ask_the_lead_last();
    world_away(1, 600 * WEFT__MS);
    world_away(3, 600 * WEFT__MS);
    world_settle_for(2000 * WEFT__MS);
    end(NEW_GROUP, WEFT_OK);
    finish(NEW_GROUP, NEW_GROUP);
    world_close();
    /* One that names itself when it is over, as it lacks the word, is told it at once, and answers. */
    assert_in_range(counts[NEW_GROUP][MESSAGES][0], 1, 10);
    for (int i = 1; i < 64;
         i++) /* that it has come; to two below; PASSES and ALL_HAVE to each that told it */
        assert_in_range(counts[NEW_GROUP][MESSAGES][i], 1, i == 7 || i == 8 ? 9 : i <= 4 ? 8 : 5);
}

static void test_a_group_and_a_host_that_says_nothing(void **state)
{
    (void)state;
    with_a_group_and_a_stop(64);
    if (WIRES_RANKS_MAX > 64) with_a_group_and_a_stop(WIRES_RANKS_MAX);
}

static void test_few(void **state)
{
    (void)state;
    for (int ranks = 8; ranks <= 64; ranks *= 2) {
        in_order(ranks);
        with_a_death(ranks);
    }
}

static void test_a_host_that_says_nothing(void **state)
{
    (void)state;
    for (int the_root_too = 0; the_root_too < 2; the_root_too++) {
        with_a_stop(64, the_root_too);
        if (WIRES_RANKS_MAX > 64) with_a_stop(WIRES_RANKS_MAX, the_root_too);
    }
}

static void test_a_late_abort_and_a_host_that_says_nothing(void **state)
{
    (void)state;
    with_a_late_abort_and_a_stop(64);
    if (WIRES_RANKS_MAX > 64) with_a_late_abort_and_a_stop(WIRES_RANKS_MAX);
}

static void test_a_death_and_a_host_that_says_nothing(void **state)
{
    (void)state;
    with_a_death_and_a_stop(64);
    if (WIRES_RANKS_MAX > 64) with_a_death_and_a_stop(WIRES_RANKS_MAX);
}

static void test_a_host_that_one_does_not_reach(void **state)
{
    (void)state;
    with_a_cut(64);
    if (WIRES_RANKS_MAX > 64) with_a_cut(WIRES_RANKS_MAX);
}

static void test_many_in_order(void **state)
{
    (void)state;
    in_order(WIRES_RANKS_MAX);
}

static void test_many_with_a_death(void **state)
{
    (void)state;
    with_a_death(WIRES_RANKS_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_few),
        cmocka_unit_test(test_a_shrink_that_fails),
        cmocka_unit_test(test_a_host_that_says_nothing),
        cmocka_unit_test(test_a_host_that_one_does_not_reach),
        cmocka_unit_test(test_a_late_abort_and_a_host_that_says_nothing),
        cmocka_unit_test(test_a_death_and_a_host_that_says_nothing),
        cmocka_unit_test(test_a_group_and_a_host_that_says_nothing),
        cmocka_unit_test(test_a_group_and_one_that_comes_late),
        cmocka_unit_test(test_a_group_is_told_on_once),
        cmocka_unit_test(test_many_in_order),
        cmocka_unit_test(test_many_with_a_death),
    };
    setenv("WEFT_LOG", "0", 1);
    setenv("WEFT_REQUESTS_MAX", "64", 1);
    return cmocka_run_group_tests_name("counts", tests, NULL, NULL);
}
