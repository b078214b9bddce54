/* test_waiting.c - waiting for several requests at once, and the descriptor that tells of settlings. */
#include "device.h"

#include <poll.h>
#include <string.h>
#include <time.h>

enum { TAGS = 6, TIMED_OUT_MS = 100 };

/* Rank 0 holds receives of tags 0 .. n-1; rank 1 sends what rank 0 asks for through the marks. */
static void receives(job_rank *me, int32_t *values, weft_request **reqs, int n)
{
    for (int tag = 0; tag < n; tag++) {
        CHECK_OK(weft_irecv(me->world, &values[tag], 1, WEFT_INT32, 1, tag, NULL, &reqs[tag]));
    }
}

static void serve(job_rank *me, const int *order, int n)
{
    int32_t *value = job_buffer(me, sizeof *value);
    for (int i = 0; i < n; i++) {
        job_put_int(value, 100 + order[i]);
        job_await(me, i, 1);
        CHECK_OK(weft_isend(me->world, value, 1, WEFT_INT32, 0, order[i], NULL, NULL));
    }
}

static void release_all(weft_request **reqs, int n)
{
    for (int i = 0; i < n; i++) weft_release(reqs[i]);
}

static void nothing(job_rank *me)
{
    weft_request *none[3] = {NULL, NULL, NULL};
    size_t index = 99, settled = 99, indices[3] = {99, 99, 99};
    (void)me;
    CHECK_OK(weft_wait_all(NULL, 0, WEFT_FOREVER));
    CHECK_OK(weft_wait_all(none, 3, WEFT_FOREVER));
    CHECK_OK(weft_wait_any(none, 3, WEFT_FOREVER, &index));
    CHECK_INT(index, 3);
    CHECK_OK(weft_wait_any(none, 0, WEFT_FOREVER, &index));
    CHECK_INT(index, 0);
    CHECK_OK(weft_wait_some(none, 3, WEFT_FOREVER, indices, &settled));
    CHECK_INT(settled, 0);
    settled = 99;
    CHECK_OK(weft_wait_some(none, 0, WEFT_FOREVER, indices, &settled));
    CHECK_INT(settled, 0);
}

static void all(job_rank *me)
{
    static const int order[] = {2, 0, 1};
    int32_t *values = job_buffer(me, TAGS * sizeof *values);
    weft_request *reqs[TAGS] = {NULL};
    if (me->rank == 1) {
        serve(me, order, 3);
        return;
    }
    receives(me, values, reqs, 3);
    weft_request *with_holes[5] = {NULL, reqs[0], NULL, reqs[1], reqs[2]};
    int64_t before = job_now_ns();
    CHECK_INT(weft_wait_all(with_holes, 5, 100), WEFT_PENDING);
    CHECK_PERIOD(before, job_now_ns(), 100, 100 + job_late_ms());
    job_mark(me, 0);
    job_mark(me, 1);
    CHECK_INT(weft_wait_all(with_holes, 5, 100), WEFT_PENDING);
    job_mark(me, 2);
    CHECK_OK(weft_wait_all(with_holes, 5, JOB_WAIT_MS));
    for (int i = 0; i < 3; i++) CHECK_INT(job_get_int(&values[i]), 100 + i);
    CHECK_OK(weft_wait_all(with_holes, 5, 0)); /* settled ones go on being told */
    release_all(reqs, 3);
}

/* wait_all waits for all of them and tells the failure of lowest index, not the first in time. */
static void all_with_failures(job_rank *me)
{
    static const int order[] = {3};
    int32_t *values = job_buffer(me, 4 * sizeof *values);
    weft_request *reqs[4] = {NULL};
    weft_call call = {.timeout_ms = TIMED_OUT_MS};
    if (me->rank == 1) {
        serve(me, order, 1);
        job_meet(me); /* a rank that has left would end the receive that is to time out */
        return;
    }
    receives(me, values, reqs, 4);
    weft_cancel(reqs[2]);
    WAIT_STATUS(WEFT_ERR_CANCELLED, reqs[2]);
    weft_cancel(reqs[1]);
    WAIT_STATUS(WEFT_ERR_CANCELLED, reqs[1]);
    weft_release(reqs[1]);
    reqs[1] = NULL;
    weft_cancel(reqs[0]);
    WAIT_STATUS(WEFT_ERR_CANCELLED, reqs[0]);
    weft_release(reqs[0]);
    CHECK_OK(weft_irecv(me->world, &values[0], 1, WEFT_INT32, 1, 50, &call, &reqs[0]));
    job_mark(me, 0);
    CHECK_STATUS(WEFT_ERR_TIMEOUT, weft_wait_all(reqs, 4, JOB_WAIT_MS));
    CHECK(strlen(weft_last_error()) > 0);
    for (int i = 0; i < 4; i++) CHECK(!reqs[i] || weft_is_completed(reqs[i]));
    CHECK_INT(weft_test(reqs[0]), WEFT_ERR_TIMEOUT);
    CHECK_INT(weft_test(reqs[2]), WEFT_ERR_CANCELLED);
    CHECK_INT(weft_test(reqs[3]), WEFT_OK);
    release_all(reqs, 4);
    job_meet(me);
}

static void any(job_rank *me)
{
    static const int order[] = {3, 1, 4, 0, 5, 2};
    int32_t *values = job_buffer(me, TAGS * sizeof *values);
    weft_request *reqs[TAGS] = {NULL};
    size_t index = 99;
    if (me->rank == 1) {
        serve(me, order, TAGS);
        return;
    }
    receives(me, values, reqs, TAGS);
    CHECK_INT(weft_wait_any(reqs, TAGS, 50, &index), WEFT_PENDING);
    for (int i = 0; i < TAGS; i++) {
        job_mark(me, i);
        CHECK_OK(weft_wait_any(reqs, TAGS, JOB_WAIT_MS, &index));
        CHECK_INT(index, order[i]);
        CHECK_INT(job_get_int(&values[index]), 100 + order[i]);
        CHECK_OK(weft_wait_any(reqs, TAGS, 0, &index)); /* until its entry is NULL */
        CHECK_INT(index, order[i]);
        weft_release(reqs[index]);
        reqs[index] = NULL;
    }
    CHECK_OK(weft_wait_any(reqs, TAGS, 0, &index));
    CHECK_INT(index, TAGS);
}

/* The status of wait_any is that of the request it tells of. */
static void any_failure(job_rank *me)
{
    static const int order[] = {0};
    int32_t *values = job_buffer(me, 2 * sizeof *values);
    weft_request *reqs[2] = {NULL};
    size_t index = 99;
    if (me->rank == 1) {
        serve(me, order, 1);
        return;
    }
    receives(me, values, reqs, 2);
    weft_cancel(reqs[1]);
    CHECK_STATUS(WEFT_ERR_CANCELLED, weft_wait_any(reqs, 2, JOB_WAIT_MS, &index));
    CHECK_INT(index, 1);
    job_mark(me, 0);
    WAIT_OK(reqs[0]);
    weft_release(reqs[1]);
}

static void some(job_rank *me)
{
    static const int order[] = {4, 2, 0, 1, 3}; /* 5 is cancelled */
    int32_t *values = job_buffer(me, TAGS * sizeof *values);
    weft_request *reqs[TAGS] = {NULL};
    size_t indices[TAGS], settled = 0, seen = 0;
    if (me->rank == 1) {
        serve(me, order, TAGS - 1);
        return;
    }
    receives(me, values, reqs, TAGS);
    CHECK_INT(weft_wait_some(reqs, TAGS, 50, indices, &settled), WEFT_PENDING);
    weft_cancel(reqs[5]);
    for (int i = 0; i < TAGS - 1; i++) job_mark(me, i);
    while (seen < TAGS) {
        CHECK_OK(weft_wait_some(reqs, TAGS, JOB_WAIT_MS, indices, &settled));
        CHECK(settled > 0 && settled + seen <= TAGS);
        for (size_t i = 0; i < settled; i++) {
            CHECK(indices[i] < TAGS && reqs[indices[i]]);
            CHECK_INT(weft_test(reqs[indices[i]]), indices[i] == 5 ? WEFT_ERR_CANCELLED : WEFT_OK);
            CHECK(indices[i] == 5 || job_get_int(&values[indices[i]]) == 100 + (int)indices[i]);
            weft_release(reqs[indices[i]]);
            reqs[indices[i]] = NULL;
            seen++;
        }
    }
}

/* Collectives, messages and both outcomes in one set. */
static void mixed(job_rank *me)
{
    enum { N = 30 };
    int32_t *in = job_buffer(me, N * sizeof *in), *out = job_buffer(me, N * sizeof *out);
    weft_request *reqs[N] = {NULL};
    for (int i = 0; i < N; i++) job_put_int(&in[i], i + me->rank);
    for (int i = 0; i < N; i++) {
        if (i % 3 == 0) {
            CHECK_OK(weft_all_reduce(me->world, &in[i], &out[i], 1, WEFT_INT32, WEFT_SUM, NULL, &reqs[i]));
        } else if (me->rank == i % 2) {
            CHECK_OK(weft_isend(me->world, &in[i], 1, WEFT_INT32, 1 - me->rank, i, NULL, &reqs[i]));
        } else {
            CHECK_OK(weft_irecv(me->world, &out[i], 1, WEFT_INT32, 1 - me->rank, i, NULL, &reqs[i]));
        }
    }
    CHECK_OK(weft_wait_all(reqs, N, JOB_WAIT_MS));
    for (int i = 0; i < N; i++) {
        if (i % 3 == 0) {
            CHECK_INT(job_get_int(&out[i]), 2 * i + 1);
        } else if (me->rank != i % 2) {
            CHECK_INT(job_get_int(&out[i]), i + 1 - me->rank);
        }
    }
    release_all(reqs, N);
}

typedef struct elsewhere {
    weft_group *there;
    weft_request *reqs[2]; /* one of this rank's context, which stays open; one of the other */
    int32_t in[2];
} elsewhere;

static void wait_for_either(job_rank *me, int thread, void *arg)
{
    static const int32_t out = 7;
    elsewhere *e = arg;
    size_t index = 99;
    int64_t from = job_now_ns();
    (void)me;
    if (thread == 1) {
        job_sleep_ms(300); /* until the other one sleeps */
        CHECK_OK(weft_isend(e->there, &out, 1, WEFT_INT32, 0, 0, NULL, NULL));
        return;
    }
    CHECK_OK(weft_wait_any(e->reqs, 2, JOB_WAIT_MS, &index));
    CHECK_PERIOD(from, job_now_ns(), 0, JOB_WAIT_MS / 2); /* not at the end of its time */
    CHECK_INT(index, 1);
    CHECK_INT(e->in[1], 7);
}

/* Requests of two contexts: the end of either wakes who waits for both. */
static void of_two_contexts(job_rank *me)
{
    elsewhere *e = job_alloc(me, sizeof *e);
    weft_config config = WEFT_CONFIG_INIT;
    weft_context *ctx;
    config.rank = 0;
    config.world_size = 1;
    CHECK_OK(weft_init(&config, &ctx));
    e->there = weft_world(ctx);
    CHECK_OK(weft_irecv(me->world, &e->in[0], 1, WEFT_INT32, 0, 0, NULL, &e->reqs[0]));
    CHECK_OK(weft_irecv(e->there, &e->in[1], 1, WEFT_INT32, 0, 0, NULL, &e->reqs[1]));
    job_threads(me, 2, wait_for_either, e);
    weft_cancel(e->reqs[0]);
    release_all(e->reqs, 2);
    CHECK_OK(weft_finalize(ctx, JOB_WAIT_MS));
}

/* ---- the descriptor
 * --------------------------------------------------------------------------------------- */

static int readable(int fd, int timeout_ms)
{
    struct pollfd what = {.fd = fd, .events = POLLIN};
    return poll(&what, 1, timeout_ms);
}

static void descriptor(job_rank *me)
{
    static const int order[] = {1, 0, 2};
    int32_t *values = job_buffer(me, 3 * sizeof *values);
    weft_request *reqs[3] = {NULL};
    if (me->rank == 1) {
        serve(me, order, 3);
        return;
    }
    int fd = weft_completion_fd(me->ctx);
    CHECK(fd >= 0);
    CHECK_INT(weft_completion_fd(me->ctx), fd);
    receives(me, values, reqs, 3);
    CHECK_INT(weft_test(reqs[0]), WEFT_PENDING); /* clears what earlier settlings left */
    CHECK_INT(readable(fd, 0), 0);
    for (int i = 0; i < 3; i++) {
        job_mark(me, i);
        CHECK_INT(readable(fd, JOB_WAIT_MS), 1);
        CHECK_INT(readable(fd, 0), 1); /* until the next test or wait */
        CHECK_INT(weft_test(reqs[order[i]]), WEFT_OK);
        CHECK_INT(readable(fd, 0), 0);
        CHECK_INT(job_get_int(&values[order[i]]), 100 + order[i]);
    }
    release_all(reqs, 3);
}

/* A failure is a settling too. */
static void descriptor_tells_failures(job_rank *me)
{
    int32_t *value = job_buffer(me, sizeof *value);
    weft_request *req = NULL;
    weft_call call = {.timeout_ms = JOB_SHORT_MS}; /* it is looked at before */
    int fd = weft_completion_fd(me->ctx);
    CHECK_OK(weft_irecv(me->world, value, 1, WEFT_INT32, 0, 0, &call, &req));
    CHECK_INT(weft_test(req), WEFT_PENDING);
    CHECK_INT(readable(fd, JOB_WAIT_MS), 1);
    CHECK_INT(weft_test(req), WEFT_ERR_TIMEOUT);
    weft_release(req);
}

static double thread_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

enum { SHORT_SLEEPS = 12, SLEEP_MS = 2, LITTLE = 200 };

/* The last of many messages, of which one comes each ms. */
static void wait_for_the_last(job_rank *me)
{
    int32_t in[LITTLE];
    weft_request *reqs[LITTLE];
    int64_t began;
    double ms;
    for (int i = 0; i < LITTLE; i++)
        CHECK_OK(weft_irecv(me->world, &in[i], 1, WEFT_INT32, 1, i, NULL, &reqs[i]));
    CHECK_OK(weft_barrier(me->world, NULL, NULL));
    began = job_now_ns();
    ms = thread_ms();
    CHECK_OK(weft_wait(reqs[LITTLE - 1], WEFT_FOREVER));
    ms = thread_ms() - ms;
    CHECK(ms < (double)(job_now_ns() - began) / 1e6 / 2);
    for (int i = 0; i < LITTLE; i++) WAIT_OK(reqs[i]);
}

/* A wait looks longer after short sleeps; where little comes in all the time, it sleeps all the same. */
static void little_by_little(job_rank *me)
{
    const int32_t out = 1;
    for (int i = 0; i < SHORT_SLEEPS; i++) {
        if (me->rank == 1) job_sleep_ms(SLEEP_MS);
        CHECK_OK(weft_barrier(me->world, NULL, NULL));
    }
    if (me->rank == 0) {
        wait_for_the_last(me);
        return;
    }
    CHECK_OK(weft_barrier(me->world, NULL, NULL));
    for (int i = 0; i < LITTLE; i++) {
        job_sleep_ms(1);
        CHECK_OK(weft_isend(me->world, &out, 1, WEFT_INT32, 0, i, NULL, NULL));
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("nothing to wait for", .ranks = 1, .body = nothing),
        JOB_TEST("wait_all", .ranks = 2, .body = all),
        JOB_TEST("wait_all with failures", .ranks = 2, .body = all_with_failures),
        JOB_TEST("wait_any", .ranks = 2, .body = any),
        JOB_TEST("wait_any with a failure", .ranks = 2, .body = any_failure),
        JOB_TEST("wait_some", .ranks = 2, .body = some),
        JOB_TEST("collectives and messages in one set", .ranks = 2, .body = mixed),
        JOB_TEST("requests of two contexts", .ranks = 1, .body = of_two_contexts),
        JOB_TEST("little by little", .ranks = 2, .body = little_by_little),
        JOB_TEST("completion descriptor", .ranks = 2, .body = descriptor),
        JOB_TEST("the descriptor tells failures", .ranks = 1, .body = descriptor_tells_failures),
    };
    return JOB_MAIN(tests, argc, argv);
}
