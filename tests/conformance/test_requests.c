/* test_requests.c - the life of one request: pending, settled, timed out, cancelled, released, described. */
#include "device.h"

#include <stdlib.h>
#include <string.h>

/* Rank 1 sends its number with tag 0 once the mark is there; rank 0 has the receive. */
static void send_when_marked(job_rank *me, int mark)
{
    int32_t *value = job_buffer(me, sizeof *value);
    job_put_int(value, 77);
    job_await(me, mark, 1);
    CHECK_OK(weft_isend(me->world, value, 1, WEFT_INT32, 0, 0, NULL, NULL));
}

static weft_request *pending_receive(job_rank *me, int32_t *value)
{
    weft_request *req = NULL;
    CHECK_OK(weft_irecv(me->world, value, 1, WEFT_INT32, 1, 0, NULL, &req));
    CHECK(req);
    return req;
}

/* A wait that runs out changes nothing: the request goes on. */
static void pending_goes_on(job_rank *me)
{
    if (me->rank == 1) {
        send_when_marked(me, 0);
        return;
    }
    int32_t *value = job_buffer(me, sizeof *value);
    weft_request *req = pending_receive(me, value);
    CHECK(!weft_is_completed(req));
    CHECK_INT(weft_test(req), WEFT_PENDING);
    CHECK_INT(weft_wait(req, 0), WEFT_PENDING);
    int64_t before = job_now_ns();
    CHECK_INT(weft_wait(req, 100), WEFT_PENDING);
    CHECK_PERIOD(before, job_now_ns(), 100, 100 + job_late_ms());
    job_mark(me, 0);
    WAIT_STATUS(WEFT_OK, req);
    CHECK_INT(job_get_int(value), 77);
    CHECK(weft_is_completed(req));
    CHECK_INT(weft_test(req), WEFT_OK);
    CHECK_INT(weft_wait(req, 0), WEFT_OK); /* as often as one likes */
    CHECK_INT(weft_wait(req, WEFT_FOREVER), WEFT_OK);
    weft_release(req);
}

static void nothing(job_rank *me)
{
    (void)me;
    CHECK_OK(weft_wait(NULL, 0));
    CHECK_OK(weft_wait(NULL, WEFT_FOREVER));
    weft_release(NULL);
}

/* req NULL: the call waits by itself and returns the final status, good or bad. */
static void waits_by_itself(job_rank *me)
{
    int32_t *in = job_buffer(me, sizeof *in), *out = job_buffer(me, sizeof *out);
    job_put_int(in, me->rank + 1);
    CHECK_OK(weft_all_reduce(me->world, in, out, 1, WEFT_INT32, WEFT_SUM, NULL, NULL));
    CHECK_INT(job_get_int(out), 3);
    weft_call call = {.timeout_ms = 100};
    int64_t before = job_now_ns();
    CHECK_STATUS(WEFT_ERR_TIMEOUT, weft_irecv(me->world, in, 1, WEFT_INT32, 1 - me->rank, 4, &call, NULL));
    CHECK_PERIOD(before, job_now_ns(), 100, 100 + job_late_ms());
    CHECK_TEXT(weft_last_error(), "irecv");
    CHECK_OK(weft_barrier(me->world, NULL, NULL));
}

/* ---- time and cancelling ------------------------------------------------------------------------------- */

/* A point-to-point request that runs out of time breaks nothing. */
static void timeout(job_rank *me)
{
    int32_t *value = job_buffer(me, sizeof *value);
    weft_request *req = NULL;
    weft_call call = {.timeout_ms = 200};
    CHECK_OK(weft_irecv(me->world, value, 1, WEFT_INT32, 1 - me->rank, 3, &call, &req));
    WAIT_STATUS(WEFT_ERR_TIMEOUT, req);
    weft_request_info info = job_info(req);
    CHECK_INT(info.status, WEFT_ERR_TIMEOUT);
    CHECK_PERIOD(info.submitted_ns, info.settled_ns, 200, 200 + job_late_ms());
    CHECK(!info.buffers_held);
    weft_release(req);
    CHECK_OK(weft_group_status(me->world));
    job_meet(me);
    job_message_works(me->world, 0, 1, 3);
    job_sum_works(me->world);
}

/* Receives that are posted without a time of their own end in turn: the group's counts
 * from when they were. */
static void timeout_of_the_group(job_rank *me)
{
    enum { RECEIVES = 3, GROUP_MS = 300, APART_MS = 50 };
    int32_t *values = job_buffer(me, RECEIVES * sizeof *values);
    weft_group *group = job_group(me, me->size, "hasty", 0);
    weft_request *reqs[RECEIVES] = {NULL};
    CHECK_OK(weft_group_set_timeout(group, GROUP_MS));
    for (int i = 0; i < RECEIVES; i++) {
        int64_t before = job_now_ns();
        CHECK_OK(weft_irecv(group, &values[i], 1, WEFT_INT32, 1 - me->rank, i, NULL, &reqs[i]));
        CHECK_PERIOD(before, job_info(reqs[i]).submitted_ns, 0, job_late_ms());
        job_sleep_ms(APART_MS);
    }
    for (int i = RECEIVES; i-- > 0;) {
        WAIT_STATUS(WEFT_ERR_TIMEOUT, reqs[i]);
        weft_request_info info = job_info(reqs[i]);
        CHECK_PERIOD(info.submitted_ns, info.settled_ns, GROUP_MS, GROUP_MS + job_late_ms());
        CHECK_INT(info.sequence, i + 1);
        weft_release(reqs[i]);
    }
    CHECK_OK(weft_group_status(group));
    CHECK_OK(weft_group_set_timeout(group, JOB_WAIT_MS));
    job_meet(me);
    job_message_works(group, 0, 1, 0); /* what was given up is not in the way */
}

static void cancel(job_rank *me)
{
    if (me->rank == 1) {
        send_when_marked(me, 0);
        job_sum_works(me->world);
        return;
    }
    int32_t *value = job_buffer(me, sizeof *value);
    weft_request *req = pending_receive(me, value);
    weft_cancel(req);
    WAIT_STATUS(WEFT_ERR_CANCELLED, req);
    CHECK(strlen(weft_last_error()) > 0);
    weft_cancel(req); /* settled: no more to stop */
    CHECK_INT(weft_test(req), WEFT_ERR_CANCELLED);
    weft_release(req);
    CHECK_OK(weft_group_status(me->world));
    req = pending_receive(me, value); /* the message is for the next receive */
    job_mark(me, 0);
    WAIT_STATUS(WEFT_OK, req);
    CHECK_INT(job_get_int(value), 77);
    weft_cancel(req);
    CHECK_INT(weft_test(req), WEFT_OK);
    weft_release(req);
    job_sum_works(me->world);
}

/* Cancel races with the message, a whole one or one that is announced first: settled once, one way or the
 * other, and nothing is lost. */
static void cancel_race(job_rank *me)
{
    enum { ROUNDS = 200 };
    const size_t *count = me->arg;
    if (job_on_device()) {
        return; /* there one that has been launched breaks its communicator */
    }
    int32_t *values = job_buffer(me, *count * sizeof *values);
    for (int round = 0; round < ROUNDS; round++) {
        job_meet(me);
        if (me->rank == 1) {
            job_put_int(&values[0], round);
            job_put_int(&values[*count - 1], round);
            CHECK_OK(weft_isend(me->world, values, *count, WEFT_INT32, 0, 0, NULL, NULL));
            continue;
        }
        weft_request *req;
        CHECK_OK(weft_irecv(me->world, values, *count, WEFT_INT32, 1, 0, NULL, &req));
        for (volatile int spin = 0; spin < round * 50; spin++) continue;
        weft_cancel(req);
        weft_status status = weft_wait(req, JOB_WAIT_MS);
        CHECK(status == WEFT_OK || status == WEFT_ERR_CANCELLED);
        weft_release(req);
        if (status == WEFT_ERR_CANCELLED) {
            CHECK_OK(weft_irecv(me->world, values, *count, WEFT_INT32, 1, 0, NULL, &req));
            WAIT_OK(req);
        }
        CHECK_INT(job_get_int(&values[0]), round);
        CHECK_INT(job_get_int(&values[*count - 1]), round);
    }
    job_sum_works(me->world);
}

static void note_done(weft_request *req, weft_status status, void *arg)
{
    (void)req;
    atomic_store((atomic_int *)arg, status == WEFT_OK ? 1 : -1);
}

static void await_done(const atomic_int *done)
{
    for (int i = 0; !atomic_load(done) && i < JOB_WAIT_MS; i++) job_sleep_ms(1);
    CHECK_INT(atomic_load(done), 1);
}

/* A released request goes on: its callback tells when it is done. */
static void release_pending(job_rank *me)
{
    atomic_int received = 0, reduced = 0;
    int32_t *value = job_buffer(me, 3 * sizeof *value), *in = value + 1, *sum = value + 2;
    weft_request *req = NULL;
    weft_call receive_call = {.done = note_done, .arg = &received};
    weft_call reduce_call = {.done = note_done, .arg = &reduced};
    job_put_int(in, 1);
    if (me->rank == 0) {
        CHECK_OK(weft_irecv(me->world, value, 1, WEFT_INT32, 1, 0, &receive_call, &req));
        weft_release(req);
    }
    CHECK_OK(weft_all_reduce(me->world, in, sum, 1, WEFT_INT32, WEFT_SUM, &reduce_call, &req));
    weft_release(req);
    await_done(&reduced);
    CHECK_INT(job_get_int(sum), 2);
    if (me->rank == 1) {
        send_when_marked(me, 0);
    } else {
        job_mark(me, 0);
        await_done(&received);
        CHECK_INT(job_get_int(value), 77);
    }
}

/* ---- what a request tells ------------------------------------------------------------------------------ */

static void message(job_rank *me)
{
    if (me->rank == 1) {
        send_when_marked(me, 0);
        return;
    }
    int32_t *value = job_buffer(me, sizeof *value);
    weft_request *req = pending_receive(me, value);
    CHECK_TEXT(weft_request_message(req), "irecv");
    CHECK(!strchr(weft_request_message(req), '\n'));
    job_mark(me, 0);
    WAIT_STATUS(WEFT_OK, req);
    char *settled = strdup(weft_request_message(req));
    CHECK_TEXT(settled, "irecv");
    CHECK(!strchr(settled, '\n'));
    job_sleep_ms(20);
    CHECK_INT(strcmp(settled, weft_request_message(req)), 0);
    free(settled);
    weft_release(req);
}

static void info_of_collectives(job_rank *me)
{
    enum { COUNT = 1000 };
    int32_t *in = job_buffer(me, COUNT * sizeof *in), *out = job_buffer(me, COUNT * sizeof *out);
    weft_group *group = job_group(me, me->size, "told", 0);
    weft_call call = {.label = "gradients of layer 3"};
    uint64_t sequence = 0;
    for (int i = 0; i < 5; i++) {
        weft_request *req = NULL;
        int64_t before = job_now_ns();
        CHECK_OK(weft_all_reduce(group, in, out, COUNT, WEFT_INT32, WEFT_SUM, &call, &req));
        int64_t after = job_now_ns();
        WAIT_STATUS(WEFT_OK, req);
        weft_request_info info = job_info(req);
        CHECK_INT(info.status, WEFT_OK);
        CHECK(info.submitted_ns >= before && info.submitted_ns <= after);
        CHECK(info.started_ns >= info.submitted_ns && info.settled_ns >= info.started_ns);
        CHECK(info.settled_ns <= job_now_ns() && info.waited_ns >= 0);
        CHECK_INT(info.bytes, COUNT * sizeof *in);
        CHECK_INT(strcmp(info.operation, "all_reduce"), 0);
        CHECK_INT(strcmp(info.label, call.label), 0);
        CHECK(info.algorithm && strlen(info.algorithm) > 0);
        CHECK(!info.buffers_held);
        CHECK(i == 0 || info.sequence == sequence + 1);
        CHECK_TEXT(weft_request_message(req), call.label);
        sequence = info.sequence;
        weft_release(req);
    }
}

static void info_of_pending(job_rank *me)
{
    if (me->rank == 1) {
        send_when_marked(me, 0);
        return;
    }
    int32_t *value = job_buffer(me, sizeof *value);
    weft_request *req = pending_receive(me, value);
    weft_request_info info = job_info(req);
    CHECK_INT(info.status, WEFT_PENDING);
    CHECK_INT(info.settled_ns, 0);
    CHECK(info.submitted_ns > 0 && info.submitted_ns <= job_now_ns());
    CHECK_INT(weft_wait(req, 100), WEFT_PENDING);
    job_mark(me, 0);
    WAIT_STATUS(WEFT_OK, req);
    info = job_info(req);
    CHECK_INT(info.status, WEFT_OK);
    CHECK_INT(info.peer, 1);
    CHECK_INT(info.tag, 0);
    CHECK_INT(info.bytes, sizeof *value);
    CHECK_INT(info.received_bytes, sizeof *value);
    CHECK(info.waited_ns >= 100 * INT64_C(1000000)); /* blocked that long at least */
    CHECK_INT(strcmp(info.operation, "irecv"), 0);
    weft_release(req);
}

/* ---- threads ------------------------------------------------------------------------------------------- */

static void wait_thread(job_rank *me, int thread, void *arg)
{
    weft_request *req = arg;
    (void)me;
    if (thread % 2) {
        while (!weft_is_completed(req)) job_sleep_ms(1);
    }
    CHECK_INT(weft_wait(req, JOB_WAIT_MS), WEFT_OK);
}

static void mark_or_wait(job_rank *me, int thread, void *arg)
{
    if (thread == 0) {
        job_sleep_ms(50);
        job_mark(me, 0);
    } else {
        wait_thread(me, thread, arg);
    }
}

static void many_waiters(job_rank *me)
{
    if (me->rank == 1) {
        send_when_marked(me, 0);
        return;
    }
    int32_t *value = job_buffer(me, sizeof *value);
    weft_request *req = pending_receive(me, value);
    job_threads(me, 7, mark_or_wait, req);
    CHECK_INT(job_get_int(value), 77);
    weft_release(req);
}

static void other_failure(job_rank *me, int thread, void *arg)
{
    (void)thread;
    (void)arg;
    CHECK(weft_barrier(NULL, NULL, NULL) < 0);
    CHECK(weft_group_set_timeout(me->world, -55) < 0);
    CHECK_TEXT(weft_last_error(), "-55");
}

static void last_error_is_of_the_thread(job_rank *me)
{
    CHECK(weft_group_set_timeout(me->world, -44) < 0);
    CHECK_TEXT(weft_last_error(), "-44");
    job_threads(me, 1, other_failure, NULL);
    CHECK_TEXT(weft_last_error(), "-44");
}

static void names(job_rank *me)
{
    (void)me;
    CHECK_INT(strcmp(weft_status_name(WEFT_ERR_TIMEOUT), "WEFT_ERR_TIMEOUT"), 0);
    CHECK_INT(strcmp(weft_status_text(WEFT_ERR_TIMEOUT), "the operation's time ran out"), 0);
    CHECK_INT(strcmp(weft_status_name(WEFT_OK), "WEFT_OK"), 0);
    CHECK_INT(weft_version(), WEFT_VERSION);
    CHECK_INT(weft_dtype_size(WEFT_BOOL), 1);
    CHECK_INT(weft_dtype_size(WEFT_FLOAT8_E5M2), 1);
    CHECK_INT(weft_dtype_size(WEFT_BFLOAT16), 2);
    CHECK_INT(weft_dtype_size(WEFT_COMPLEX128), 16);
    CHECK_TEXT(weft_backends(me->ctx), "host");
    CHECK(weft_current() == me->ctx);
}

/* What is released can be used again: a program that releases all it has made never meets the limit. */
static void released_again(job_rank *me)
{
    enum { MOST = 64, TIMES = 20 * MOST };
    int32_t *in, *out;
    job_setenv(me, "WEFT_REQUESTS_MAX", "64");
    job_join(me);
    in = job_buffer(me, sizeof *in);
    out = job_buffer(me, sizeof *out);
    for (int i = 0; i < TIMES; i++) {
        weft_request *send = NULL, *receive = NULL, *sum = NULL;
        CHECK_OK(weft_irecv(me->world, out, 1, WEFT_INT32, 1 - me->rank, 0, NULL, &receive));
        CHECK_OK(weft_isend(me->world, in, 1, WEFT_INT32, 1 - me->rank, 0, NULL, &send));
        WAIT_OK(send);
        WAIT_OK(receive);
        CHECK_OK(weft_all_reduce(me->world, in, out, 1, WEFT_INT32, WEFT_SUM, NULL, &sum));
        WAIT_OK(sum);
    }
}

/* One rank cancels while its messages are half way: the others are told so, not that a
 * message was given up. */
static void cancel_half_way(job_rank *me)
{
    enum { COUNT = 1 << 22, TIMES = 12 };
    int32_t *in = job_buffer(me, COUNT * sizeof *in), *out = job_buffer(me, COUNT * sizeof *out);
    for (int i = 0; i < (job_on_device() ? 2 : TIMES); i++) {
        weft_group *group = job_group(me, me->size, "one operation", 0);
        weft_request *req = NULL;
        weft_status status = weft_all_reduce(group, in, out, COUNT, WEFT_INT32, WEFT_SUM, NULL, &req);
        if (me->rank == 0) {
            for (int64_t until = job_now_ns() + i * 300000LL; job_now_ns() < until;) weft_test(req);
            weft_cancel(req);
        }
        if (status == WEFT_OK) status = weft_wait(req, job_wait_ms());
        if (status != WEFT_OK) { /* or broken before this rank began */
            CHECK(status == WEFT_ERR_CANCELLED || (status == WEFT_ERR_BROKEN && !req));
            CHECK_TEXT(req ? weft_request_message(req) : weft_last_error(), "cancelled by rank 0");
        }
        weft_release(req);
        job_meet(me);
        CHECK_OK(weft_group_free(group));
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("a wait that runs out changes nothing", .ranks = 2, .body = pending_goes_on),
        JOB_TEST("NULL", .ranks = 1, .body = nothing),
        JOB_TEST("req NULL waits", .ranks = 2, .body = waits_by_itself),
        JOB_TEST("timeout", .ranks = 2, .body = timeout),
        JOB_TEST("out of the group's time", .ranks = 2, .body = timeout_of_the_group),
        JOB_TEST("cancel", .ranks = 2, .body = cancel),
        JOB_TEST("cancel half way", .ranks = 3, .body = cancel_half_way),
        JOB_TEST("cancel races with a whole message", .ranks = 2, .body = cancel_race, .arg = &(size_t){1}),
        JOB_TEST("cancel races with an announced message", .ranks = 2, .body = cancel_race,
                 .arg = &(size_t){100000}),
        JOB_TEST("release while pending", .ranks = 2, .body = release_pending),
        JOB_TEST("release gives back", .ranks = 2, .processes = true, .body = released_again, .bare = true),
        JOB_TEST("message", .ranks = 2, .body = message),
        JOB_TEST("info of collectives", .ranks = 2, .body = info_of_collectives),
        JOB_TEST("info of a pending receive", .ranks = 2, .body = info_of_pending),
        JOB_TEST("many waiters", .ranks = 2, .body = many_waiters),
        JOB_TEST("last_error is of the thread", .ranks = 1, .body = last_error_is_of_the_thread),
        JOB_TEST("names", .ranks = 1, .body = names),
    };
    return JOB_MAIN(tests, argc, argv);
}
