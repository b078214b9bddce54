/* Jobs made by hand: who is named, and what the sentence says. */
#include "sentence.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define S INT64_C(1000000000)

enum { RANKS = 8, OPS = 16, GROUPS = 4, EVENTS = 4, NOW = 100 };
enum { ALL_REDUCE = 1, ISEND, IRECV, NEW_GROUP, BROADCAST, BATCH };
enum { WORLD = 1, EVENS = 2, LIST = 3, OTHER = 4 };

static weft__snapshot shots[RANKS];
static weft__witness witnesses[RANKS];
static weft__blame blame;
static int list_members[3] = {1, 4, 6};

static void put(char *text, size_t bytes, const char *what)
{
    snprintf(text, bytes, "%s", what);
}

static weft__group_record *group(weft__snapshot *shot, uint64_t id, int size, int rank, int first, int stride)
{
    weft__group_record *g = &shot->groups[shot->group_count++];
    g->id = id;
    g->size = size;
    g->rank = rank;
    g->first = first;
    g->stride = stride;
    g->state = WEFT__RECORDED_GROUP_READY;
    g->culprit = -1;
    return g;
}

static void label(weft__group_record *g, const char *what)
{
    put(g->label, sizeof g->label, what);
}

static void groups_of(weft__snapshot *shot)
{
    int r = shot->rank;
    group(shot, WORLD, RANKS, r, 0, 1);
    if (r % 2 == 0) label(group(shot, EVENS, RANKS / 2, r / 2, 0, 2), "evens");
    for (int i = 0; i < 3; i++)
        if (list_members[i] == r) label(group(shot, LIST, 3, i, 0, 0), "list");
    if (r < 2) label(group(shot, OTHER, 2, r, 0, 1), "other");
}

/* All in their own code, after four all_reduces of the world. */
static int fresh(void **state)
{
    static const char *const kinds[] = {"barrier",   "all_reduce", "isend", "irecv",
                                        "new_group", "broadcast",  "batch"};
    (void)state;
    memset(shots, 0, sizeof shots);
    for (int r = 0; r < RANKS; r++) {
        weft__snapshot *shot = &shots[r];
        shot->rank = r;
        shot->world = RANKS;
        shot->pid = 1000 + r;
        shot->monotonic_ns = 1;
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
            put(shot->names[k], sizeof shot->names[k], kinds[k]);
        shot->ops = calloc(OPS, sizeof *shot->ops);
        shot->op_room = OPS;
        shot->groups = calloc(GROUPS, sizeof *shot->groups);
        shot->events = calloc(EVENTS, sizeof *shot->events);
        shot->pool = list_members;
        shot->pool_count = 3;
        shot->life[WEFT__LIFE_STAGE] = WEFT__STAGE_IN;
        groups_of(shot);
        witnesses[r] = (weft__witness){shot, WEFT__PROCESS_LIVES};
    }
    return 0;
}

static int over(void **state)
{
    (void)state;
    weft__blame_free(&blame);
    for (int r = 0; r < RANKS; r++) {
        free(shots[r].ops);
        free(shots[r].groups);
        free(shots[r].events);
    }
    return 0;
}

static weft__recorded_op *begin(int rank, uint64_t group_id, int kind, uint64_t number, int64_t at_s)
{
    weft__snapshot *shot = &shots[rank];
    weft__recorded_op *op = &shot->ops[shot->op_count];
    op->record = ++shot->op_count;
    op->group = group_id;
    op->number = number;
    op->kind = kind;
    op->state = WEFT__RECORDED_OP_STARTED;
    op->whom = op->awaited = -1;
    op->submitted_ns = op->started_ns = at_s * S;
    return op;
}

static weft__recorded_op *wait_in(int rank, uint64_t group_id, int kind, uint64_t number, int64_t at_s)
{
    weft__recorded_op *op = begin(rank, group_id, kind, number, at_s);
    op->flags |= WEFT__FLAG_BLOCKS;
    shots[rank].life[WEFT__LIFE_WAITERS] = 1;
    return op;
}

static void settle(weft__recorded_op *op, int64_t at_s)
{
    op->state = WEFT__RECORDED_OP_SETTLED;
    op->over_ns = at_s * S;
}

static void message(weft__recorded_op *op, int whom, int tag)
{
    op->whom = whom;
    op->tag = tag;
    op->flags |= WEFT__FLAG_PAIRED;
}

static void four_all_reduces(void)
{
    for (int r = 0; r < RANKS; r++)
        for (uint64_t n = 1; n <= 4; n++) settle(begin(r, WORLD, ALL_REDUCE, n, (int64_t)n), (int64_t)n);
}

static void judge(void)
{
    assert_int_equal(weft__blame_make(witnesses, RANKS, NOW * S, S / 10, &blame), WEFT_OK);
}

static const weft__finding *says(size_t which, const char *sentence)
{
    char text[WEFT__FINDING_BYTES];
    assert_true(which < blame.verdict_count);
    weft__finding_text(&blame, &blame.verdicts[which], text, sizeof text);
    assert_string_equal(text, sentence);
    return &blame.verdicts[which];
}

static void test_all_is_well(void **state)
{
    (void)state;
    four_all_reduces();
    judge();
    assert_int_equal(blame.verdict_count, 0);
    assert_int_equal(blame.nodes[3].is.conduct, WEFT__CONDUCT_OWN);
    assert_int_equal(blame.nodes[3].is.since_ns, 4 * S);
    assert_int_equal(blame.nodes[3].is.was->number, 4);
    assert_null(weft__blame_node(&blame, RANKS));
}

static void fifth_without_3(void)
{
    four_all_reduces();
    for (int r = 0; r < RANKS; r++)
        if (r != 3) wait_in(r, WORLD, ALL_REDUCE, 5, 90 + r);
}

static void test_stopped(void **state)
{
    (void)state;
    fifth_without_3();
    witnesses[3].process = WEFT__PROCESS_STOPPED;
    judge();
    assert_int_equal(blame.verdict_count, 1);
    says(0,
         "rank 3 (pid 1003) is stopped by a signal, last heard of 96.0 s ago, after all_reduce 4 of world; "
         "ranks 0-2, 4-7 wait for it in all_reduce 5 of world, for 10.0 s");
    assert_int_equal(blame.nodes[7].root, 3);
    assert_int_equal(blame.nodes[7].count, 1);
    assert_int_equal(blame.waits.ranks[blame.nodes[7].first], 3);
}

static void test_stopped_within(void **state)
{
    (void)state;
    fifth_without_3();
    wait_in(3, WORLD, ALL_REDUCE, 5, 99);
    witnesses[3].process = WEFT__PROCESS_STOPPED;
    judge();
    assert_int_equal(blame.verdict_count, 1);
    says(0, "rank 3 (pid 1003) is stopped by a signal, last heard of 1.0 s ago, with all_reduce 5 of world "
            "in flight; "
            "ranks 0-2, 4-7 wait for it in all_reduce 5 of world, for 10.0 s");
}

/* Nobody stopped, and all have come. */
static void test_all_have_come(void **state)
{
    (void)state;
    fifth_without_3();
    wait_in(3, WORLD, ALL_REDUCE, 5, 99);
    judge();
    assert_int_equal(blame.verdict_count, 1);
    says(0, "ranks 0-7 wait in all_reduce 5 of world, for 10.0 s: all that it needs have come");
}

/* The others have it behind them, and are in the next. */
static void test_held_up(void **state)
{
    (void)state;
    four_all_reduces();
    wait_in(3, WORLD, ALL_REDUCE, 5, 80);
    for (int r = 0; r < RANKS; r++)
        if (r != 3) settle(begin(r, WORLD, ALL_REDUCE, 5, 80), 80);
    for (int r = 0; r < RANKS; r++)
        if (r != 3) wait_in(r, WORLD, ALL_REDUCE, 6, 81);
    judge();
    assert_int_equal(blame.verdict_count, 1);
    says(0, "rank 3 (pid 1003) does not go on, though all have come to what it is in, for 20.0 s, with "
            "all_reduce 5 of "
            "world in flight; ranks 0-2, 4-7 wait for it in all_reduce 6 of world, for 19.0 s");
}

static void test_own_code(void **state)
{
    (void)state;
    fifth_without_3();
    judge();
    assert_int_equal(blame.verdict_count, 1);
    says(0, "rank 3 (pid 1003) is in its own code for 96.0 s, after all_reduce 4 of world; "
            "ranks 0-2, 4-7 wait for it in all_reduce 5 of world, for 10.0 s");
}

static void test_callback(void **state)
{
    (void)state;
    fifth_without_3();
    shots[3].life[WEFT__LIFE_CALLING] = 50 * S;
    judge();
    assert_int_equal(blame.verdict_count, 1);
    says(
        0,
        "rank 3 (pid 1003) is in a callback, which has not returned for 50.0 s, after all_reduce 4 of world; "
        "ranks 0-2, 4-7 wait for it in all_reduce 5 of world, for 10.0 s");
    weft__blame_free(&blame);
    shots[3].life[WEFT__LIFE_CALLED] = 2;
    judge();
    says(0,
         "rank 3 (pid 1003) is in a callback, which has not returned for 50.0 s, of all_reduce 2 of world; "
         "ranks 0-2, 4-7 wait for it in all_reduce 5 of world, for 10.0 s");
}

static void test_dead(void **state)
{
    (void)state;
    four_all_reduces();
    wait_in(0, WORLD, ALL_REDUCE, 5, 99);
    witnesses[3].process = WEFT__PROCESS_GONE;
    judge();
    assert_int_equal(blame.nodes[3].is.conduct, WEFT__CONDUCT_DEAD);
    says(0, "rank 3 (pid 1003) is dead, last heard of 96.0 s ago, after all_reduce 4 of world; "
            "rank 0 waits for it in all_reduce 5 of world, for 1.0 s");
    assert_int_equal(blame.verdicts[1].conduct, WEFT__CONDUCT_OWN); /* those that have not come either */
}

static void test_deadlock(void **state)
{
    (void)state;
    settle(begin(0, WORLD, ALL_REDUCE, 1, 1), 1);
    wait_in(0, OTHER, ALL_REDUCE, 1, 98);
    wait_in(1, WORLD, BROADCAST, 1, 97);
    shots[1].ops[0].number = 2;
    for (int r = 2; r < RANKS; r++) wait_in(r, WORLD, BROADCAST, 2, 99);
    judge();
    assert_int_equal(blame.verdict_count, 1);
    says(0, "deadlock: rank 0 (pid 1000) waits for rank 1 in all_reduce 1 of other, for 2.0 s; "
            "rank 1 (pid 1001) waits for rank 0 in broadcast 2 of world, for 3.0 s; for these in turn ranks "
            "2-7 wait");
    assert_true(blame.nodes[0].circles);
    assert_false(blame.nodes[2].circles);
    assert_int_equal(blame.nodes[2].root, 0);
}

/* What is seen on one side only, for a moment, is no deadlock. */
static void test_young(void **state)
{
    (void)state;
    wait_in(0, OTHER, ALL_REDUCE, 1, 98)->submitted_ns = NOW * S - S / 20;
    wait_in(1, WORLD, BROADCAST, 2, 97);
    judge();
    for (size_t i = 0; i < blame.verdict_count; i++) assert_false(blame.verdicts[i].deadlock);
}

static void test_nobody_sends(void **state)
{
    (void)state;
    message(wait_in(0, EVENS, IRECV, 1, 90), 2, 9); /* of evens: rank 4 */
    message(begin(4, EVENS, ISEND, 1, 90), 0, 8);   /* another tag */
    judge();
    assert_int_equal(blame.verdict_count, 1);
    says(0,
         "rank 4 (pid 1004) is in its own code for 10.0 s, with isend to rank 0, tag 8 of evens in flight; "
         "rank 0 waits for it in irecv from rank 4, tag 9 of evens, for 10.0 s");
    weft__blame_free(&blame);
    message(begin(4, EVENS, ISEND, 2, 90), 0, 9);
    judge();
    says(0, "rank 0 waits in irecv from rank 4, tag 9 of evens, for 10.0 s: all that it needs have come");
}

static void test_from_any(void **state)
{
    (void)state;
    message(wait_in(1, LIST, IRECV, 1, 90), -1, -1);
    wait_in(4, EVENS, ALL_REDUCE, 1, 95);
    judge();
    assert_true(blame.nodes[1].some);
    assert_int_equal(blame.nodes[1].count, 2);
    assert_int_equal(blame.waits.ranks[blame.nodes[1].first], 4);
    assert_int_equal(blame.waits.ranks[blame.nodes[1].first + 1], 6);
    assert_int_equal(blame.nodes[1].root, 6); /* in its own code, and both wait for it */
}

/* A chain over three groups, one of them a row with gaps, another a list. */
static void test_chain(void **state)
{
    (void)state;
    wait_in(1, LIST, ALL_REDUCE, 3, 80);
    wait_in(6, LIST, ALL_REDUCE, 3, 81);
    wait_in(4, EVENS, ALL_REDUCE, 7, 70);
    wait_in(0, EVENS, ALL_REDUCE, 7, 71);
    begin(6, EVENS, ALL_REDUCE, 7, 72);
    wait_in(5, WORLD, BATCH, 0, 98);
    message(begin(5, WORLD, IRECV, 1, 98), 1, 0);
    judge();
    assert_int_equal(blame.verdict_count, 1);
    says(0,
         "rank 2 (pid 1002) is in its own code; ranks 0, 4 wait for it in all_reduce 7 of evens, for 30.0 s; "
         "for those in turn ranks 1, 5, 6 wait");
}

static void test_unseen(void **state)
{
    (void)state;
    wait_in(0, WORLD, ALL_REDUCE, 1, 90);
    for (int r = 1; r < RANKS - 1; r++) begin(r, WORLD, ALL_REDUCE, 1, 90);
    assert_int_equal(weft__blame_make(witnesses, RANKS - 1, NOW * S, 0, &blame), WEFT_OK);
    assert_int_equal(blame.verdict_count, 1);
    says(0, "rank 7 has no record here: it runs on another host, or keeps none; "
            "rank 0 waits for it, among others, in all_reduce 1 of world, for 10.0 s");
}

static void test_forming(void **state)
{
    (void)state;
    wait_in(0, WORLD, NEW_GROUP, 0, 90);
    wait_in(1, WORLD, NEW_GROUP, 0, 90);
    witnesses[2].process = WEFT__PROCESS_STOPPED;
    judge();
    assert_true(blame.nodes[0].some);
    assert_int_equal(blame.nodes[0].root, 2);
    assert_int_equal(blame.nodes[0].count, RANKS - 2);
}

static void test_to_itself(void **state)
{
    (void)state;
    message(wait_in(0, WORLD, IRECV, 1, 90), 0, 9);
    judge();
    says(0, "deadlock: rank 0 (pid 1000) waits for itself in irecv from rank 0, tag 9 of world, for 10.0 s");
}

static void event(int rank, weft__record_event what, int about, int64_t at_s)
{
    shots[rank].events[shots[rank].event_count++] =
        (weft__recorded_event){.record = 1, .what = what, .at_ns = at_s * S, .rank = about};
}

/* All killed, one after another: what there was before is told, and which was the first. */
static void test_all_dead(void **state)
{
    char text[WEFT__FINDING_BYTES];
    (void)state;
    fifth_without_3();
    for (int r = 0; r < RANKS; r++) witnesses[r].process = WEFT__PROCESS_GONE;
    for (int r = 1; r < RANKS; r++) {
        if (r == 3) continue;
        settle(&shots[r].ops[4], 99);
        shots[r].ops[4].status = WEFT_ERR_PEER;
        event(r, WEFT__HAPPENED_RANK_DIED, 0, 99 + (r > 1));
        shots[r].groups[0].state = WEFT__RECORDED_GROUP_BROKEN;
        shots[r].groups[0].ended_ns = 99 * S;
        shots[r].groups[0].culprit = 0;
        put(shots[r].groups[0].why, sizeof shots[r].groups[0].why, "killed by SIGKILL");
    }
    judge();
    assert_true(blame.frozen);
    assert_int_equal(blame.now_ns, 99 * S - 1);
    assert_int_equal(blame.verdict_count, 1);
    says(0, "rank 3 (pid 1003) was in its own code for 95.0 s, after all_reduce 4 of world; "
            "ranks 0-2, 4-7 waited for it in all_reduce 5 of world, for 9.0 s");
    assert_int_equal(weft__first_to_go(blame.endings, blame.count), 0);
    weft__ending_text(&blame, &blame.nodes[0], text, sizeof text);
    assert_string_equal(text, "rank 0 (pid 1000) died: rank 1 saw it first (killed by SIGKILL)");
    weft__ending_text(&blame, &blame.nodes[4], text, sizeof text);
    assert_string_equal(text, "rank 4 (pid 1004) was gone, and no other rank has told of it");
}

/* What the job has outlived is not what ended it. */
static void test_outlived(void **state)
{
    (void)state;
    four_all_reduces();
    for (int r = 0; r < RANKS; r++) witnesses[r].process = WEFT__PROCESS_GONE;
    event(0, WEFT__HAPPENED_RANK_DIED, 7, 3);
    event(0, WEFT__HAPPENED_RANK_DIED, 5, 98);
    judge();
    assert_int_equal(blame.now_ns, 98 * S - 1);
    assert_int_equal(weft__blame_node(&blame, 7)->is.conduct, WEFT__CONDUCT_DEAD);
    assert_int_equal(weft__blame_node(&blame, 5)->is.conduct, WEFT__CONDUCT_OWN);
}

static void test_left(void **state)
{
    (void)state;
    fifth_without_3();
    shots[3].life[WEFT__LIFE_STAGE] = WEFT__STAGE_LEFT;
    shots[3].life[WEFT__LIFE_LEAVING] = 20 * S;
    witnesses[3].process = WEFT__PROCESS_GONE;
    judge();
    assert_int_equal(blame.endings[3].end, WEFT__END_LEFT);
    says(0, "rank 3 (pid 1003) has left the job, 80.0 s ago, after all_reduce 4 of world; "
            "ranks 0-2, 4-7 wait for it in all_reduce 5 of world, for 10.0 s");
}

static void test_finalizing(void **state)
{
    (void)state;
    begin(0, OTHER, ALL_REDUCE, 1, 90);
    shots[0].life[WEFT__LIFE_STAGE] = WEFT__STAGE_LEAVING;
    shots[0].life[WEFT__LIFE_LEAVING] = 95 * S;
    shots[2].life[WEFT__LIFE_STAGE] = WEFT__STAGE_LEAVING;
    judge();
    assert_int_equal(blame.nodes[2].is.conduct, WEFT__CONDUCT_LEAVING);
    says(0, "rank 1 (pid 1001) is in its own code; rank 0 waits for it in all_reduce 1 of other, for 10.0 s");
}

static void test_texts(void **state)
{
    static const int ranks[] = {0, 1, 2, 4, 5, 9};
    char text[64];
    (void)state;
    weft__ranks_text(ranks, 6, text, sizeof text);
    assert_string_equal(text, "0-2, 4, 5, 9");
    weft__ranks_text(ranks, 6, text, 11);
    assert_string_equal(text, "0-2, ...");
    weft__ranks_text(ranks, 0, text, sizeof text);
    assert_string_equal(text, "");
    weft__time_text(999, text, sizeof text);
    assert_string_equal(text, "999 ns");
    weft__time_text(S / 4, text, sizeof text);
    assert_string_equal(text, "250 ms");
    weft__time_text(150 * S, text, sizeof text);
    assert_string_equal(text, "2 min 30 s");
    weft__time_text(INT64_MAX, text, sizeof text);
    assert_string_equal(text, "2562047 h 47 min");
    weft__recorded_group_text(&shots[0], EVENS, text, sizeof text);
    assert_string_equal(text, "evens");
    weft__recorded_group_text(&shots[0], 99, text, sizeof text);
    assert_string_equal(text, "a group that is not kept");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fresh, over)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_all_is_well), TEST(test_stopped),  TEST(test_stopped_within), TEST(test_all_have_come),
        TEST(test_held_up),     TEST(test_own_code), TEST(test_callback),       TEST(test_dead),
        TEST(test_deadlock),    TEST(test_young),    TEST(test_nobody_sends),   TEST(test_from_any),
        TEST(test_chain),       TEST(test_unseen),   TEST(test_forming),        TEST(test_to_itself),
        TEST(test_all_dead),    TEST(test_outlived), TEST(test_left),           TEST(test_finalizing),
        TEST(test_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
