/* test_progress.c - operations move without the caller: while it sleeps, and while it only polls. */
#include "job.h"

#include <time.h>

enum { BYTES = 16 << 20, SLEEP_MS = 500, IDLE_MS = 2000, DELAY_MS = 300 };

/* Asleep most of the time, until it has settled without this rank: what is asked between moves nothing along. */
static weft_request_info sleep_until_settled(weft_request *req)
{
    const int64_t until = job_now_ns() + JOB_WAIT_MS * INT64_C(1000000);
    weft_request_info info;
    do {
        job_sleep_ms(SLEEP_MS);
        info = job_info(req);
    } while (info.status == WEFT_PENDING && job_now_ns() < until);
    CHECK_INT(info.status, WEFT_OK);
    return info;
}

/* Neither side waits, nor looks in a way that would move it along. */
static void asleep(job_rank *me)
{
    unsigned char *buf = job_alloc(me, BYTES);
    weft_request *req = NULL;
    job_sum_works(me->world);
    job_meet(me);
    if (me->rank == 0) {
        CHECK_OK(weft_irecv(me->world, buf, BYTES, WEFT_UINT8, 1, 0, NULL, &req));
    } else {
        for (size_t i = 0; i < BYTES; i++) buf[i] = (unsigned char)(i * 3);
        job_sleep_ms(DELAY_MS);
        CHECK_OK(weft_isend(me->world, buf, BYTES, WEFT_UINT8, 0, 0, NULL, &req));
    }
    int64_t from = job_now_ns();
    weft_request_info info = sleep_until_settled(req);
    CHECK(info.settled_ns <= job_now_ns() && (me->rank == 1 || info.settled_ns >= from));
    WAIT_OK(req);
    for (size_t i = 0; i < BYTES && me->rank == 0; i++) CHECK(buf[i] == (unsigned char)(i * 3));
}

static void asleep_over_a_collective(job_rank *me)
{
    enum { COUNT = BYTES / 4 };
    float *buf = job_alloc(me, BYTES);
    weft_request *req = NULL;
    for (int i = 0; i < COUNT; i++) buf[i] = (float)me->rank;
    job_meet(me);
    CHECK_OK(weft_all_reduce(me->world, buf, buf, COUNT, WEFT_FLOAT32, WEFT_SUM, NULL, &req));
    sleep_until_settled(req);
    WAIT_OK(req);
    CHECK_INT((int)buf[COUNT - 1], me->size * (me->size - 1) / 2);
}

static void poll_until_done(weft_request *req)
{
    while (!weft_is_completed(req)) continue;
    CHECK_OK(weft_test(req));
    weft_release(req);
}

static void only_polls(job_rank *me)
{
    unsigned char *buf = job_alloc(me, BYTES);
    for (int i = 0; i < 100; i++) {
        int32_t in = me->rank, out = 0;
        weft_request *req = NULL;
        CHECK_OK(weft_all_reduce(me->world, &in, &out, 1, WEFT_INT32, WEFT_SUM, NULL, &req));
        poll_until_done(req);
        CHECK_INT(out, me->size * (me->size - 1) / 2);
    }
    weft_request *req = NULL;
    if (me->rank == 0) {
        CHECK_OK(weft_irecv(me->world, buf, BYTES, WEFT_UINT8, 1, 0, NULL, &req));
    } else {
        CHECK_OK(weft_isend(me->world, buf, BYTES, WEFT_UINT8, 0, 0, NULL, &req));
    }
    poll_until_done(req);
}

/* A look now and then takes the engine from under a thread that sleeps: it must not take the waking too. */
static void looks_and_computes(job_rank *me)
{
    enum { ROUNDS = 40, LOOKS = 40 };
    unsigned char *buf = job_alloc(me, BYTES);
    for (int round = 0; round < ROUNDS; round++) {
        weft_request *req = NULL;
        weft_request_info info;
        job_meet(me);
        if (me->rank == 0) {
            CHECK_OK(weft_irecv(me->world, buf, BYTES, WEFT_UINT8, 1, 0, NULL, &req));
            job_mark(me, 0);
            for (int i = 0; i < LOOKS; i++) weft_is_completed(req);
        } else {
            job_await(me, 0, round + 1);
            job_sleep_ms(round % 8); /* at first the receiver naps, then it sleeps */
            CHECK_OK(weft_isend(me->world, buf, BYTES, WEFT_UINT8, 0, 0, NULL, &req));
            for (int i = 0; i < LOOKS / 2; i++) weft_is_completed(req);
        }
        for (int i = 0; i < round; i++) weft_is_completed(req);
        do {
            job_sleep_ms(2);
            info = job_info(req); /* moves nothing along; the group's deadline ends it if nobody does */
        } while (info.status == WEFT_PENDING);
        WAIT_OK(req);
    }
}

/* ---- work that a call leaves behind, and that nothing will announce: a long copy
 * inside this rank ------- */

enum { COPY_BYTES = 64 << 20, ASLEEP_MS = 100 /* after which the progress thread sleeps */ };

static weft_request *begin_copy(job_rank *me, const unsigned char *from, unsigned char *to)
{
    weft_request *req = NULL;
    CHECK_OK(weft_all_gather(me->world, from, to, COPY_BYTES, WEFT_UINT8, NULL, &req));
    return req;
}

static void copied_meanwhile(weft_request *req)
{
    sleep_until_settled(req);
    WAIT_OK(req);
}

static void begins_and_computes(job_rank *me)
{
    enum { LOOKS = 400 }; /* so many in a row, and the engine is kept (biased.h) */
    unsigned char *from = job_alloc(me, COPY_BYTES), *to = job_alloc(me, COPY_BYTES);
    weft_request *never = NULL;
    int32_t word = 0;
    CHECK_OK(weft_irecv(me->world, &word, 1, WEFT_INT32, 0, 0, NULL, &never));
    for (int i = 0; i < 3; i++) {
        job_sleep_ms(ASLEEP_MS);
        for (int n = 0; n < LOOKS; n++) CHECK(!weft_is_completed(never));
        copied_meanwhile(begin_copy(me, from, to));
    }
    weft_cancel(never);
    WAIT_STATUS(WEFT_ERR_CANCELLED, never);
    weft_release(never);
}

typedef struct last_driver {
    unsigned char *from, *to;
    weft_request *never, *copy;
    int round;
} last_driver;

/* Thread 0 waits for something that does not come, and drives all; shortly before its time is over thread 1
 * begins the copy, and has no reason to wake anybody. */
static void wait_or_begin(job_rank *me, int thread, void *arg)
{
    enum { WAIT_MS = 60, BEFORE_MS = 3 };
    last_driver *l = arg;
    if (thread == 0) {
        job_mark(me, 0);
        CHECK_STATUS(WEFT_PENDING, weft_wait(l->never, WAIT_MS));
    } else {
        job_await(me, 0, l->round);
        job_sleep_ms(WAIT_MS - BEFORE_MS);
        l->copy = begin_copy(me, l->from, l->to);
    }
}

static void last_driver_leaves(job_rank *me)
{
    last_driver l = {0};
    int32_t word = 0;
    job_setenv(me, "WEFT_SPIN_US", "1000000"); /* who waits does not go to sleep */
    job_join(me);
    l.from = job_alloc(me, COPY_BYTES);
    l.to = job_alloc(me, COPY_BYTES);
    CHECK_OK(weft_irecv(me->world, &word, 1, WEFT_INT32, 0, 0, NULL, &l.never));
    for (l.round = 1; l.round <= 5; l.round++) {
        job_sleep_ms(ASLEEP_MS);
        job_threads(me, 2, wait_or_begin, &l);
        copied_meanwhile(l.copy);
    }
    weft_cancel(l.never);
    WAIT_STATUS(WEFT_ERR_CANCELLED, l.never);
    weft_release(l.never);
    job_leave(me);
}

/* One rank sleeps outside the library; the others' work with each other goes on. */
static void others_asleep(job_rank *me)
{
    weft_group *pair = me->rank < 2 ? job_group(me, 2, "awake", 0) : NULL;
    if (me->rank == 2) {
        job_await(me, 0, 2);
    } else {
        for (int i = 0; i < 50; i++) job_sum_works(pair);
        job_mark(me, 0);
    }
    job_sum_works(me->world);
}

static double process_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* Woken a few times for work that then is over, the library's threads sleep again, and for good. */
static void costs_nothing_while_idle(job_rank *me)
{
    enum { MOST_MS = 40 * JOB_SLOWER };
    double before;
    for (int i = 0; i < 6; i++) {
        job_meet(me);
        job_sleep_ms(me->rank == i % 2 ? 200 : 50); /* one waits until it sleeps; all threads do */
        job_sum_works(me->world);
    }
    job_meet(me);
    job_sleep_ms(100);
    before = process_ms();
    job_sleep_ms(IDLE_MS);
    CHECK(process_ms() - before < MOST_MS);
    job_meet(me);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("a receive while asleep", .ranks = 2, .body = asleep),
        JOB_TEST("a collective while asleep", .ranks = 3, .body = asleep_over_a_collective),
        JOB_TEST("only polls", .ranks = 2, .body = only_polls),
        JOB_TEST("looks and computes", .ranks = 2, .body = looks_and_computes),
        JOB_TEST("begins and computes", .ranks = 1, .body = begins_and_computes),
        JOB_TEST("the last who waits leaves", .ranks = 1, .body = last_driver_leaves, .bare = true,
                 .processes = true),
        JOB_TEST("costs nothing while idle", .ranks = 2, .body = costs_nothing_while_idle),
        JOB_TEST("others asleep", .ranks = 3, .body = others_asleep),
    };
    return JOB_MAIN(tests, argc, argv);
}
