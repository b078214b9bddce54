/* test_repeats.c - broadcasts like one before: no rank waits for another that it does not need, none gets far
 * ahead, and the data are right whoever is early, late or gone. */
#include "job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* AHEAD: no transport lets a root further ahead of who has not come. */
enum { MANY = 150, AHEAD = 20, WORDS = 250, HAS_GONE_ON = 1, GROUPS = 40, LENGTHS = 8 };

static int32_t word(int round, int at)
{
    return round * 1000 + at;
}

static void fill(int32_t *data, int round, int count)
{
    for (int i = 0; i < count; i++) data[i] = word(round, i);
}

static void check(const int32_t *data, int round, int count)
{
    for (int i = 0; i < count; i++) CHECK_INT(data[i], word(round, i));
}

/* One, of which the root alone knows the data. */
static void pass(weft_group *group, int root, int round, int count)
{
    int32_t data[WORDS] = {0};
    if (weft_group_rank(group) == root) fill(data, round, count);
    CHECK_OK(weft_broadcast(group, data, (size_t)count, WEFT_INT32, root, NULL, NULL));
    check(data, round, count);
}

/* From each rank in turn, at its own pace, sometimes with others in between. */
static void in_turn(job_rank *me)
{
    uint64_t random = (uint64_t)me->rank + 1;
    for (int i = 0; i < MANY; i++) {
        pass(me->world, i % me->size, i, i % 3 ? 2 : WORDS);
        if (i % 50 == 49) job_sum_works(me->world);
        if (job_random(&random) % 16 == 0) job_sleep_ms(1);
    }
}

/* Requests of several at once, from one root, with other operations among them. */
static void several_at_once(job_rank *me)
{
    int32_t(*data)[WORDS] = job_alloc(me, MANY * sizeof *data);
    weft_request *reqs[MANY] = {0};
    for (int turn = 0; turn < 3; turn++) {
        for (int i = 0; i < MANY; i++) {
            memset(data[i], 0, sizeof data[i]);
            if (me->rank == 1) fill(data[i], i, WORDS);
            if (i % 20 == 19)
                CHECK_OK(weft_barrier(me->world, NULL, &reqs[i]));
            else
                CHECK_OK(weft_broadcast(me->world, data[i], WORDS, WEFT_INT32, 1, NULL, &reqs[i]));
        }
        for (int i = 0; i < MANY; i++) {
            WAIT_OK(reqs[i]);
            if (i % 20 != 19) check(data[i], i, WORDS);
        }
    }
}

/* The others come to the second one when its root is done with it. */
static void a_root_goes_on(job_rank *me)
{
    pass(me->world, 0, 1, WORDS);
    job_meet(me);
    if (me->rank) job_await(me, HAS_GONE_ON, 1);
    pass(me->world, 0, 2, WORDS);
    if (!me->rank) job_mark(me, HAS_GONE_ON);
    job_meet(me);
    job_sum_works(me->world);
}

/* The first one needs all. */
static void not_the_first_time(job_rank *me)
{
    int32_t data[WORDS] = {0};
    weft_request *req = NULL;
    job_acquaint(me);
    if (me->rank) job_await(me, HAS_GONE_ON, 1);
    CHECK_OK(weft_broadcast(me->world, data, WORDS, WEFT_INT32, 0, NULL, &req));
    if (!me->rank) {
        CHECK_STATUS(WEFT_PENDING, weft_wait(req, 100));
        job_mark(me, HAS_GONE_ON);
    }
    WAIT_OK(req);
}

static int settled(weft_request *const *reqs, int n)
{
    int count = 0;
    for (int i = 0; i < n; i++) count += weft_is_completed(reqs[i]);
    return count;
}

/* A root with many to pass on, while nobody comes. */
static void not_far_ahead(job_rank *me)
{
    int32_t(*data)[WORDS] = job_alloc(me, MANY * sizeof *data);
    weft_request *reqs[MANY] = {0};
    pass(me->world, 0, 1, WORDS);
    job_meet(me);
    if (me->rank) job_await(me, HAS_GONE_ON, 1);
    for (int i = 0; i < MANY; i++) {
        memset(data[i], 0, sizeof data[i]);
        if (!me->rank) fill(data[i], i, WORDS);
        CHECK_OK(weft_broadcast(me->world, data[i], WORDS, WEFT_INT32, 0, NULL, &reqs[i]));
    }
    if (!me->rank) {
        CHECK_STATUS(WEFT_PENDING, weft_wait(reqs[MANY - 1], 100));
        while (!settled(reqs, MANY)) job_sleep_ms(1);
        CHECK(settled(reqs, MANY) <= AHEAD);
        job_mark(me, HAS_GONE_ON);
    }
    for (int i = 0; i < MANY; i++) {
        WAIT_OK(reqs[i]);
        check(data[i], i, WORDS);
    }
}

/* The root is done with its part of the job, and the others are not. */
static void a_root_leaves(job_rank *me)
{
    job_join(me);
    pass(me->world, 0, 1, WORDS);
    job_meet(me);
    if (me->rank) job_sleep_ms(200);
    pass(me->world, 0, 2, WORDS);
    job_leave(me);
}

/* Each group ends with one that nobody has waited for, and is let go early by one rank or another. */
static void let_go(job_rank *me)
{
    for (int i = 0; i < GROUPS; i++) {
        weft_group *group = job_group(me, me->size, "short", 0);
        for (int k = 0; k <= i % 7; k++) pass(group, i % me->size, i + k, WORDS);
        if (i % me->size != me->rank) job_sleep_ms(1);
        CHECK_OK(weft_group_free(group));
    }
    job_sum_works(me->world);
}

/* A rank that has had everything, and does something else now, holds nobody up. */
static void the_last_ones(job_rank *me)
{
    int32_t(*data)[WORDS] = job_alloc(me, AHEAD * sizeof *data);
    weft_request *reqs[AHEAD] = {0};
    pass(me->world, 0, 1, WORDS);
    if (me->rank == 0) {
        for (int i = 0; i < AHEAD; i++) {
            fill(data[i], i, WORDS);
            CHECK_OK(weft_broadcast(me->world, data[i], WORDS, WEFT_INT32, 0, NULL, &reqs[i]));
        }
        job_mark(me, HAS_GONE_ON);
        for (int i = 0; i < AHEAD; i++) WAIT_OK(reqs[i]);
    } else {
        job_await(me, HAS_GONE_ON, 1);
        job_sleep_ms(50); /* they are there by now, and the progress thread sleeps */
        for (int i = 0; i < AHEAD; i++) pass(me->world, 0, i, WORDS);
    }
    job_meet(me);
    job_sum_works(me->world);
}

/* That a member has left is told when it is needed, not when time is up. */
static void one_has_left(job_rank *me)
{
    weft_status status = WEFT_OK;
    int64_t began;
    job_join(me);
    for (int i = 0; i < 6; i++) pass(me->world, 0, i, WORDS);
    job_meet(me);
    if (me->rank == 2) {
        job_leave(me);
        job_mark(me, HAS_GONE_ON);
        return;
    }
    job_await(me, HAS_GONE_ON, 1);
    began = job_now_ns();
    for (int i = 0; i < 2 * AHEAD && status == WEFT_OK; i++) {
        int32_t data[WORDS] = {0};
        bool barrier = me->arg && i == 1;
        status = barrier ? weft_barrier(me->world, NULL, NULL)
                         : weft_broadcast(me->world, data, WORDS, WEFT_INT32, 0, NULL, NULL);
    }
    CHECK(status == WEFT_ERR_PEER || status == WEFT_ERR_BROKEN);
    CHECK_NAMES(weft_last_error(), 1U << 2, 3);
    CHECK_PERIOD(began, job_now_ns(), 0, job_late_ms());
    job_leave(me);
}

/* A disagreement long before the newest of many that were begun at once. */
static void told_among_many(job_rank *me)
{
    int32_t(*data)[WORDS] = job_alloc(me, MANY * sizeof *data);
    weft_group *group = job_group(me, me->size, "divided", 0);
    weft_request *reqs[MANY] = {0};
    for (int root = 0; root < 2; root++) pass(group, root, root, WORDS);
    job_meet(me);
    for (int i = 0; i < MANY; i++) {
        weft_status status =
            weft_broadcast(group, data[i], WORDS, WEFT_INT32, i == 5 && me->rank == 1, NULL, &reqs[i]);
        if (status == WEFT_OK) continue;
        CHECK_INT(status, WEFT_ERR_BROKEN);
        break;
    }
    CHECK_STATUS(WEFT_ERR_MISMATCH, job_await_break(group, JOB_WAIT_MS));
    CHECK_TEXT(weft_last_error(), "operation #8 on group divided");
    for (int i = 0; i < MANY && reqs[i]; i++) {
        weft_status status = weft_wait(reqs[i], JOB_WAIT_MS);
        CHECK(status == WEFT_OK || status == WEFT_ERR_MISMATCH || status == WEFT_ERR_BROKEN);
        weft_release(reqs[i]);
    }
    CHECK_OK(weft_group_free(group));
    job_meet(me);
    job_sum_works(me->world);
}

/* Each passes its own on, then all wait for each other. */
static void divide(job_rank *me, int count)
{
    weft_group *group = job_group(me, me->size, "divided", 0);
    weft_status status = WEFT_OK;
    int32_t data[WORDS] = {0};
    char text[64];
    for (int root = 0; root < me->size; root++) pass(group, root, root, count);
    job_meet(me);
    for (int i = 0; i < AHEAD && status == WEFT_OK; i++)
        status = weft_broadcast(group, data, (size_t)count, WEFT_INT32, me->rank, NULL, NULL);
    if (status == WEFT_OK) status = weft_barrier(group, NULL, NULL);
    CHECK(status == WEFT_ERR_MISMATCH || status == WEFT_ERR_BROKEN);
    snprintf(text, sizeof text, "broadcast of %d int32 from root", count);
    CHECK_TEXT(weft_last_error(), text);
    CHECK_STATUS(WEFT_ERR_MISMATCH, job_await_break(group, job_late_ms()));
    CHECK_OK(weft_group_free(group));
    job_meet(me);
}

/* What was settled too early to hear of it is told by what comes after.  A group remembers few of the broadcasts that
 * it has begun, by hashes: whose was pushed out waits for all and hears of it at once.  Of several lengths some are
 * remembered by all ranks. */
static void told_later(job_rank *me)
{
    for (int count = WORDS; count > WORDS - LENGTHS; count--) divide(me, count);
    job_sum_works(me->world);
}

/* Each waits for the data of another; who comes late may find the group broken. */
static void nobodys_root(job_rank *me)
{
    weft_group *group = job_group(me, me->size, "divided", 0);
    weft_status status;
    int32_t data[WORDS] = {0};
    for (int root = 0; root < me->size; root++) pass(group, root, root, WORDS);
    job_meet(me);
    status = weft_broadcast(group, data, WORDS, WEFT_INT32, (me->rank + 1) % me->size, NULL, NULL);
    CHECK(status == WEFT_ERR_MISMATCH || status == WEFT_ERR_BROKEN);
    CHECK_TEXT(weft_last_error(), "broadcast of 250 int32 from root");
    CHECK_STATUS(WEFT_ERR_MISMATCH, weft_group_status(group));
    CHECK_OK(weft_group_free(group));
    job_meet(me);
    job_sum_works(me->world);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("from each in turn, 2 ranks", .ranks = 2, .body = in_turn),
        JOB_TEST("from each in turn, 3 ranks", .ranks = 3, .body = in_turn),
        JOB_TEST("from each in turn, 8 ranks", .ranks = 8, .body = in_turn),
        JOB_TEST("several at once, 2 ranks", .ranks = 2, .body = several_at_once),
        JOB_TEST("several at once, 5 ranks", .ranks = 5, .body = several_at_once),
        JOB_TEST("a root goes on, 2 ranks", .ranks = 2, .body = a_root_goes_on, .ahead = true),
        JOB_TEST("a root goes on, 4 ranks", .ranks = 4, .body = a_root_goes_on, .ahead = true),
        JOB_TEST("not the first time", .ranks = 3, .body = not_the_first_time),
        JOB_TEST("not far ahead, 2 ranks", .ranks = 2, .body = not_far_ahead, .ahead = true),
        JOB_TEST("not far ahead, 4 ranks", .ranks = 4, .body = not_far_ahead, .ahead = true),
        JOB_TEST("a root leaves", .ranks = 3, .body = a_root_leaves, .ahead = true, .bare = true),
        JOB_TEST("groups are let go", .ranks = 3, .body = let_go),
        JOB_TEST("the last ones, 2 ranks", .ranks = 2, .body = the_last_ones, .ahead = true),
        JOB_TEST("the last ones, 4 ranks", .ranks = 4, .body = the_last_ones, .ahead = true),
        JOB_TEST("one has left", .ranks = 3, .body = one_has_left, .bare = true),
        JOB_TEST("one has left, and then a barrier", .ranks = 3, .body = one_has_left, .arg = "",
                 .bare = true),
        JOB_TEST("told among many, 2 ranks", .ranks = 2, .body = told_among_many),
        JOB_TEST("told among many, 4 ranks", .ranks = 4, .body = told_among_many),
        JOB_TEST("told later, 2 ranks", .ranks = 2, .body = told_later),
        JOB_TEST("told later, 4 ranks", .ranks = 4, .body = told_later),
        JOB_TEST("nobody's root, 2 ranks", .ranks = 2, .body = nobodys_root),
        JOB_TEST("nobody's root, 4 ranks", .ranks = 4, .body = nobodys_root),
    };
    return JOB_MAIN(tests, argc, argv);
}
