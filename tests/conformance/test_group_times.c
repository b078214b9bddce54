/* test_group_times.c - deadlines of groups and of making them, and the report on who has submitted what. */
#include "job.h"

#include <string.h>

enum { MAKING_MS = 3 * JOB_SHORT_MS / 2 }; /* enough to make a group in, and no standard */

/* Rank 0 alone begins a barrier; its time is the one given. */
static void lone_barrier(job_rank *me, weft_group *group, const weft_call *call, int64_t expected_ms)
{
    weft_request *req = NULL;
    if (me->rank == 0) {
        CHECK_OK(weft_barrier(group, call, &req));
        WAIT_STATUS(WEFT_ERR_TIMEOUT, req);
        weft_request_info info = job_info(req);
        CHECK_PERIOD(info.submitted_ns, info.settled_ns, expected_ms, expected_ms + job_late_ms());
        CHECK(job_names(weft_request_message(req), 1));
        weft_release(req);
    }
    job_meet(me);
    job_sum_works(me->world);
}

static void set_timeout(job_rank *me)
{
    weft_group *group = job_group(me, 2, "timed", JOB_SHORT_MS);
    lone_barrier(me, group, NULL, JOB_SHORT_MS);
}

static void of_the_call(job_rank *me)
{
    weft_call call = {.timeout_ms = JOB_SHORT_MS};
    weft_group *group = job_group(me, 2, "timed", 0);
    lone_barrier(me, group, &call, JOB_SHORT_MS);
}

/* The time for making a group becomes the group's own. */
static void of_the_making(job_rank *me)
{
    static const int ranks[] = {0, 1};
    weft_group *group = NULL;
    weft_call call = {.timeout_ms = MAKING_MS};
    CHECK_OK(weft_new_group(me->world, ranks, 2, &call, &group, NULL));
    lone_barrier(me, group, NULL, MAKING_MS);
}

/* The earliest deadline among the ranks counts: the patient one is told when the other gives up. */
static void earliest_counts(job_rank *me)
{
    weft_group *group = job_group(me, 3, "timed", me->rank == 0 ? JOB_SHORT_MS : JOB_WAIT_MS);
    weft_request *req = NULL;
    if (me->rank == 0) job_await(me, 0, 1); /* its time is up first */
    if (me->rank < 2) {
        CHECK_OK(weft_barrier(group, NULL, &req));
        job_mark(me, 0);
        WAIT_STATUS(WEFT_ERR_TIMEOUT, req);
        CHECK_NAMES(weft_request_message(req), 1U << 2, 3);
        job_results(me, me->rank)[0] = job_info(req).submitted_ns;
        job_results(me, me->rank)[1] = job_info(req).settled_ns;
        weft_release(req);
    }
    job_meet(me);
    int64_t deadline = job_results(me, 0)[0] + JOB_SHORT_MS * INT64_C(1000000);
    for (int rank = 0; rank < 2; rank++) {
        CHECK_PERIOD(deadline, job_results(me, rank)[1], 0, job_late_ms());
    }
}

static void forever_is_allowed(job_rank *me)
{
    weft_group *group = job_group(me, me->size, NULL, WEFT_FOREVER);
    job_sum_works(group);
    weft_call call = {.timeout_ms = WEFT_FOREVER};
    CHECK_OK(weft_barrier(group, &call, NULL));
}

/* ---- a member that does not come
 * --------------------------------------------------------------------------- */

static void await_missing(job_rank *me, weft_group **group)
{
    static const int ranks[] = {0, 1, 2};
    weft_request *req = NULL;
    weft_call call = {.timeout_ms = JOB_SHORT_MS, .label = "trio"};
    CHECK_OK(weft_new_group(me->world, ranks, 3, &call, group, &req));
    WAIT_STATUS(WEFT_ERR_TIMEOUT, req);
    CHECK_NAMES(weft_request_message(req), 1U << 2, 3);
    weft_request_info info = job_info(req);
    job_results(me, me->rank)[0] = info.submitted_ns;
    job_results(me, me->rank)[1] = info.settled_ns;
    weft_release(req);
}

static void come_late(job_rank *me, weft_group **group)
{
    static const int ranks[] = {0, 1, 2};
    weft_request *req = NULL;
    weft_call call = {.timeout_ms = JOB_WAIT_MS, .label = "trio"};
    job_await(me, 0, 2);
    int64_t before = job_now_ns();
    weft_status status = weft_new_group(me->world, ranks, 3, &call, group, &req);
    if (status == WEFT_OK) {
        status = weft_wait(req, JOB_WAIT_MS);
        weft_release(req);
    }
    CHECK(status < 0);
    CHECK_PERIOD(before, job_now_ns(), 0, job_late_ms()); /* told at once, not after its own time */
}

static void missing_member(job_rank *me)
{
    static const int ranks[] = {0, 1, 2};
    weft_group *failed = NULL, *group = NULL;
    job_meet(me);
    if (me->rank < 2) {
        await_missing(me, &failed);
        job_mark(me, 0);
    } else {
        come_late(me, &failed);
    }
    if (failed) {
        CHECK(weft_group_status(failed) < 0);
        CHECK_OK(weft_group_free(failed)); /* failed: freed all the same */
    }
    job_meet(me);
    int64_t first = job_earliest(me, 0);
    for (int rank = 0; rank < 2; rank++) {
        CHECK_PERIOD(first, job_results(me, rank)[1], JOB_SHORT_MS, JOB_SHORT_MS + job_late_ms());
    }
    weft_call call = {.timeout_ms = JOB_WAIT_MS, .label = "trio"};
    CHECK_OK(weft_new_group(me->world, ranks, 3, &call, &group, NULL)); /* the next attempt is another one */
    job_sum_works(group);
    job_sum_works(me->world);
}

/* Members that wait for different parents' groups do not hold each other up. */
static void others_go_on(job_rank *me)
{
    static const int trio[] = {0, 1, 2}, pair[] = {0, 1};
    weft_group *never = NULL, *group = NULL;
    weft_request *req = NULL;
    if (me->rank < 2) {
        CHECK_OK(weft_new_group(me->world, trio, 3, NULL, &never, &req));
        CHECK_OK(weft_new_group(me->world, pair, 2, NULL, &group, NULL));
        job_sum_works(group);
        CHECK_INT(weft_test(req), WEFT_PENDING);
        job_mark(me, 0);
        job_await(me, 0, 2);
        if (me->rank == 0) weft_cancel(req);
        WAIT_STATUS(WEFT_ERR_CANCELLED, req);
        weft_release(req);
        job_sum_works(group);
    }
    job_meet(me);
    job_sum_works(me->world);
}

/* ---- the report
 * ---------------------------------------------------------------------------------------------- */

static int lines(const char *text)
{
    int n = 0;
    for (const char *at = text; *at; n++) {
        const char *end = strchr(at, '\n');
        at = end ? end + 1 : at + strlen(at);
    }
    return n;
}

static void report(job_rank *me)
{
    char text[4096] = "";
    weft_group *group = job_group(me, me->size, "reported", 0);
    job_sum_works(group);
    CHECK_OK(weft_barrier(group, NULL, NULL));
    job_meet(me);
    job_report(group, text, sizeof text);
    CHECK_NAMES(text, (1U << me->size) - 1, me->size);
    CHECK_INT(lines(text), me->size);
    CHECK_TEXT(text, "barrier");
    job_meet(me);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("the group's time", .ranks = 2, .body = set_timeout),
        JOB_TEST("the call's time", .ranks = 2, .body = of_the_call),
        JOB_TEST("the time of making it", .ranks = 2, .body = of_the_making),
        JOB_TEST("the earliest deadline counts", .ranks = 3, .body = earliest_counts),
        JOB_TEST("forever", .ranks = 2, .body = forever_is_allowed),
        JOB_TEST("a missing member is named", .ranks = 3, .body = missing_member),
        JOB_TEST("other groups are made meanwhile", .ranks = 3, .body = others_go_on),
        JOB_TEST("report", .ranks = 3, .body = report),
    };
    return JOB_MAIN(tests, argc, argv);
}
