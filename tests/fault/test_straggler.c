/* test_straggler.c - a rank that comes later than the group's time allows: not before the deadline, soon
 * after, named exactly; the late one is refused with that cause; everything outside the group goes on. */
#include "collective.h"
#include "device.h"

#include <signal.h>
#include <string.h>

enum { RESULT_SUBMITTED = 0, RESULT_SETTLED = 1 };

typedef struct lateness {
    collective what;
    unsigned late; /* mask of ranks */
} lateness;

static bool is_late(const job_rank *me)
{
    return ((const lateness *)me->arg)->late >> me->rank & 1U;
}

static void wait_in_vain(job_rank *me, weft_group *group)
{
    const lateness *l = me->arg;
    collective barrier = {.kind = BARRIER};
    running first, later;
    CHECK_OK(collective_submit(&first, group, &l->what, NULL));
    CHECK_OK(collective_submit(&later, group, &barrier, NULL));
    WAIT_STATUS(WEFT_ERR_TIMEOUT, first.req);
    CHECK_NAMES(weft_request_message(first.req), l->late, me->size);
    CHECK_TEXT(weft_request_message(first.req), collective_name(l->what.kind));
    weft_status second = weft_wait(later.req, job_wait_ms());
    CHECK(second == WEFT_ERR_BROKEN || second == WEFT_ERR_TIMEOUT); /* its own time ended with the first's */
    weft_request_info info = job_info(first.req);
    job_results(me, me->rank)[RESULT_SUBMITTED] = info.submitted_ns;
    job_results(me, me->rank)[RESULT_SETTLED] = info.settled_ns;
    collective_drop(&first);
    collective_drop(&later);
}

/* Against the earliest submission: the deadline of one rank ends the operation for all. */
static void check_times(job_rank *me)
{
    int64_t first = job_earliest(me, RESULT_SUBMITTED);
    for (int rank = 0; rank < me->size; rank++) {
        if (job_results(me, rank)[RESULT_SETTLED]) {
            CHECK_PERIOD(first, job_results(me, rank)[RESULT_SETTLED], job_short_ms(),
                         job_short_ms() + job_late_ms());
        }
    }
}

static void check_refused(weft_group *group, const char *cause)
{
    running r;
    collective what = {.kind = ALL_REDUCE, .dtype = WEFT_INT32, .op = WEFT_SUM, .count = 4};
    int64_t before = job_now_ns();
    CHECK_STATUS(WEFT_ERR_BROKEN, collective_submit(&r, group, &what, NULL));
    CHECK_PERIOD(before, job_now_ns(), 0, job_late_ms()); /* at once */
    CHECK_TEXT(weft_last_error(), cause);
}

static void late(job_rank *me)
{
    const lateness *l = me->arg;
    weft_group *group = job_group(me, me->size, "timed", job_short_ms());
    weft_group *other = job_group(me, me->size, "untouched", 0);
    job_acquaint(me);
    job_meet(me);
    if (!is_late(me)) {
        wait_in_vain(me, group);
    }
    job_meet(me); /* the late ones sleep until all others have been told */
    CHECK(job_await_break(group, job_late_ms()) < 0);
    check_refused(group, collective_name(l->what.kind));
    check_times(me);
    job_sum_works(other);
    job_sum_works(me->world);
    job_message_works(group, 0, me->size - 1, 3); /* point to point goes on */
}

/* One that comes when the others have given up finds what they had left for it: if it gets OK, that holds for
 * its own result alone, and the group's end is told by what it asks next. */
static void ok_after_all(job_rank *me)
{
    weft_group *group = job_group(me, me->size, "timed", 0);
    int32_t own = me->rank + 1, sum = 0;
    weft_status status;
    job_acquaint(me);
    job_sum_works(group); /* on devices too, with all the time that takes */
    CHECK_OK(weft_group_set_timeout(group, JOB_SHORT_MS));
    job_meet(me);
    if (me->rank == 0) job_stop(me, 2); /* with its watchdog, which would hear of it */
    if (me->rank != 2) {
        job_mark(me, 0);
        job_await(me, 0, 2);
        CHECK_STATUS(WEFT_ERR_TIMEOUT,
                     weft_all_reduce(group, &own, &sum, 1, WEFT_INT32, WEFT_SUM, NULL, NULL));
        CHECK_NAMES(weft_last_error(), 1U << 2, me->size);
        job_mark(me, 1);
        job_await(me, 1, 2);
        if (me->rank == 0) CHECK_INT(kill(job_pid(me, 2), SIGCONT), 0);
    } else {
        job_await(me, 1, 2);
        status = weft_all_reduce(group, &own, &sum, 1, WEFT_INT32, WEFT_SUM, NULL, NULL);
        CHECK(status == WEFT_OK || status == WEFT_ERR_TIMEOUT || status == WEFT_ERR_BROKEN);
        CHECK(status != WEFT_OK || sum == 6);
    }
    CHECK_INT(job_await_break(group, JOB_LATE_MS), WEFT_ERR_TIMEOUT);
    check_refused(group, "all_reduce");
    CHECK(job_names(weft_last_error(), 2));
}

/* Late, but within the time: nothing happens. */
static void within_time(job_rank *me)
{
    weft_group *group = job_group(me, me->size, "timed", job_wait_ms());
    if (me->rank == me->size - 1) {
        job_sleep_ms(700);
    }
    job_sum_works(group);
    CHECK_OK(weft_group_status(group));
}

/* The others are asked twice, first when half of the time is over: one that has come since then is not accused.
 * What it has left of the time must do for it to be seen as there on a busy machine too. */
static void comes_between(job_rank *me)
{
    const int time_ms = (job_on_device() ? 6000 : 1600) * JOB_SLOWER;
    weft_group *group = job_group(me, me->size, "timed", time_ms);
    weft_request *req = NULL;
    job_acquaint(me);
    job_meet(me);
    if (me->rank == 2) job_sleep_ms(time_ms * 3 / 4);
    if (me->rank != 1) {
        CHECK_OK(weft_barrier(group, NULL, &req));
        WAIT_STATUS(WEFT_ERR_TIMEOUT, req);
        CHECK_NAMES(weft_request_message(req), 1U << 1, me->size);
        weft_release(req);
    }
    job_meet(me);
}

/* The deadline is the library's work: it comes although nobody waits or asks. */
static void nobody_waits(job_rank *me)
{
    weft_group *group = job_group(me, me->size, "timed", job_short_ms());
    weft_request *req = NULL;
    job_meet(me);
    if (me->rank == 0) {
        CHECK_OK(weft_barrier(group, NULL, &req));
        job_sleep_ms(job_short_ms() + job_late_ms());
        weft_request_info info = job_info(req);
        CHECK_INT(info.status, WEFT_ERR_TIMEOUT);
        CHECK_PERIOD(info.submitted_ns, info.settled_ns, job_short_ms(), job_short_ms() + job_late_ms());
        weft_release(req);
    }
    job_meet(me);
}

/* A large transfer in flight when another collective's time is up: buffers are let go before it settles. */
static void large(job_rank *me)
{
    enum { BYTES = 16 << 20 };
    weft_group *group = job_group(me, me->size, "timed", job_short_ms());
    unsigned char *buf = job_alloc(me, BYTES);
    job_meet(me);
    if (me->rank != me->size - 1) {
        weft_request *req = NULL;
        CHECK_OK(weft_all_reduce(group, buf, buf, BYTES, WEFT_UINT8, WEFT_SUM, NULL, &req));
        WAIT_STATUS(WEFT_ERR_TIMEOUT, req);
        if (!job_info(req).buffers_held) {
            memset(buf, 0x3c, BYTES); /* ours again: nobody may write it any more */
            job_sleep_ms(100);
            for (size_t i = 0; i < BYTES; i += 61) CHECK(buf[i] == 0x3c);
        }
        weft_release(req);
    }
    job_meet(me);
    job_sum_works(me->world);
}

#define LATE(which, mask, ...)                                                    \
    &(lateness)                                                                   \
    {                                                                             \
        {.kind = (which), .dtype = WEFT_INT32, .op = WEFT_SUM, __VA_ARGS__}, mask \
    }

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("all_reduce", .ranks = 3, .body = late, .arg = LATE(ALL_REDUCE, 4, .count = 5)),
        JOB_TEST("barrier", .ranks = 3, .body = late, .arg = LATE(BARRIER, 2, .count = 0)),
        JOB_TEST("all_gather_v", .ranks = 3, .body = late, .arg = LATE(ALL_GATHER_V, 2, .count = 50)),
        JOB_TEST("large all_reduce", .ranks = 3, .body = late, .arg = LATE(ALL_REDUCE, 1, .count = 200000)),
        JOB_TEST("all_to_all, two late", .ranks = 4, .body = late, .arg = LATE(ALL_TO_ALL, 12, .count = 50)),
        JOB_TEST("broadcast without its root", .ranks = 3, .body = late,
                 .arg = LATE(BROADCAST, 2, .count = 50, .root = 1)),
        JOB_TEST("after the others gave up", .ranks = 3, .body = ok_after_all, .processes = true),
        JOB_TEST("late within the time", .ranks = 3, .body = within_time),
        JOB_TEST("comes between two questions", .ranks = 3, .body = comes_between),
        JOB_TEST("nobody waits", .ranks = 2, .body = nobody_waits),
        JOB_TEST("buffers are free again", .ranks = 3, .body = large),
    };
    return JOB_MAIN(tests, argc, argv);
}
