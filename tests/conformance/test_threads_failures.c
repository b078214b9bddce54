/* test_threads_failures.c - the ways an operation ends badly, with ranks as threads, for tsan. */
#include "job.h"

#include <string.h>

static void await_broken(weft_group *group)
{
    CHECK(job_await_break(group, JOB_WAIT_MS) < 0);
    CHECK_STATUS(WEFT_ERR_BROKEN, weft_barrier(group, NULL, NULL));
}

/* Rank 2 does not come; the deadline ends what the others began. */
static void late(job_rank *me)
{
    weft_group *group = job_group(me, me->size, "timed", JOB_SHORT_MS);
    job_meet(me);
    if (me->rank != 2) {
        CHECK_STATUS(WEFT_ERR_TIMEOUT, weft_barrier(group, NULL, NULL));
        CHECK_NAMES(weft_last_error(), 1U << 2, me->size);
    }
    await_broken(group);
    job_sum_works(me->world);
}

static void cancelled(job_rank *me)
{
    weft_group *group = job_group(me, me->size, "cancelled", 0);
    weft_request *req = NULL;
    if (me->rank != 2) {
        CHECK_OK(weft_barrier(group, NULL, &req));
        job_mark(me, 0);
        if (me->rank == 0) {
            job_await(me, 0, 2);
            weft_cancel(req);
        }
        WAIT_STATUS(WEFT_ERR_CANCELLED, req);
        weft_release(req);
    }
    await_broken(group);
    job_sum_works(me->world);
}

static void cancel_in_thread(job_rank *me, int thread, void *arg)
{
    weft_request *req = arg;
    (void)me;
    if (thread) {
        weft_cancel(req);
    }
    CHECK_INT(weft_wait(req, JOB_WAIT_MS), WEFT_ERR_CANCELLED);
    CHECK(strlen(weft_request_message(req)) > 0);
}

/* Several threads cancel, wait for and read one request. */
static void cancelled_by_many(job_rank *me)
{
    for (int i = 0; i < 20; i++) {
        int32_t value = 0;
        weft_request *req = NULL;
        CHECK_OK(weft_irecv(me->world, &value, 1, WEFT_INT32, WEFT_ANY_RANK, 8, NULL, &req));
        job_threads(me, 4, cancel_in_thread, req);
        weft_release(req);
    }
    job_sum_works(me->world);
}

/* The one that disagrees is the last, so that nobody begins after the group has broken. */
static void mismatch(job_rank *me)
{
    int32_t in = 1, out = 0;
    weft_group *group = job_group(me, me->size, "divided", 0);
    weft_request *req = NULL;
    if (me->rank == 1) {
        job_await(me, 0, me->size - 1);
    }
    CHECK_OK(
        weft_all_reduce(group, &in, &out, 1, WEFT_INT32, me->rank == 1 ? WEFT_MAX : WEFT_SUM, NULL, &req));
    job_mark(me, 0);
    WAIT_STATUS(WEFT_ERR_MISMATCH, req);
    weft_release(req);
    await_broken(group);
    job_sum_works(me->world);
}

/* One rank leaves at once while the others still wait for it. */
static void left(job_rank *me)
{
    weft_request *req = NULL;
    int32_t value = 0;
    job_join(me);
    if (me->rank != 1) {
        CHECK_OK(weft_irecv(me->world, &value, 1, WEFT_INT32, 1, 0, NULL, &req));
    }
    job_meet(me);
    if (me->rank != 1) {
        WAIT_STATUS(WEFT_ERR_PEER, req);
        CHECK_TEXT(weft_request_message(req), "rank 1 has left");
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("late", .ranks = 3, .body = late, .threads = true),
        JOB_TEST("cancelled", .ranks = 3, .body = cancelled, .threads = true),
        JOB_TEST("cancelled by many", .ranks = 2, .body = cancelled_by_many, .threads = true),
        JOB_TEST("mismatch", .ranks = 3, .body = mismatch, .threads = true),
        JOB_TEST("left", .ranks = 3, .body = left, .threads = true, .bare = true),
    };
    return JOB_MAIN(tests, argc, argv);
}
