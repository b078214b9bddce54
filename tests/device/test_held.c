/* test_held.c - weft_stream_wait on an operation that is not issued yet: the call returns, the stream waits on the device,
 * and goes on when the operation is done, or has failed; what is submitted behind it finds the same order on all ranks. */
#include "sum.h"

#include <stdio.h>
#include <string.h>
#include <weft/cuda.h>

enum { RANKS = 3, LATE = 1, LATE_MS = 100, ROUNDS = 5 };
enum {
    FIRST,
    BEHIND,
    GO_ON
};                   /* marks; GO_ON: the others' calls have returned, one for each of them and round */
enum { BEGINS = 0 }; /* result of the late rank */

/* So that its communicator is there, and NCCL has gone this way. */
static void warm_up(weft_group *group, operands o)
{
    weft_request *req = begin_sum(group, o, NULL);
    WAIT_OK(req);
    weft_release(req);
}

static int32_t sum_of(int i, int ranks)
{
    return i * ranks + ranks * (ranks - 1) / 2;
}

/* A copy to pinned memory behind the wait, on the same stream, which the emulation tells if nothing orders it. */
static void fetch(int32_t *image, const int32_t *from, void *stream)
{
    device_copy(image, from, bytes, stream);
}

static void check_image(const int32_t *image, int ranks)
{
    for (int i = 0; i < COUNT; i++) CHECK_INT(image[i], sum_of(i, ranks));
}

static int64_t timed_wait_us(weft_request *req, void *stream)
{
    int64_t since = job_now_ns();
    CHECK_OK(weft_stream_wait(req, stream));
    return (job_now_ns() - since) / 1000;
}

/* ---- the host goes on ---- */

/* The late rank begins when the calls of the others have returned: if they waited for it they never would. */
static void others_go_on(job_rank *me, int times)
{
    if (me->rank == LATE) {
        job_await(me, GO_ON, times * (RANKS - 1));
        job_sleep_ms(LATE_MS);
    }
}

static void a_late_rank(job_rank *me)
{
    operands o = take_operands(me);
    void *stream = device_stream(1);
    int64_t best = INT64_MAX;
    int32_t *image = device_take(DEVICE_PINNED, bytes);
    warm_up(me->world, o);
    for (int i = 0; i < ROUNDS; i++) {
        job_meet(me);
        others_go_on(me, i + 1);
        weft_request *req = begin_sum(me->world, o, NULL);
        int64_t us = timed_wait_us(req, stream);
        if (us < best) best = us;
        if (me->rank != LATE) {
            CHECK_INT(weft_test(req), WEFT_PENDING);
            job_mark(me, GO_ON);
        }
        fetch(image, o.out, stream);
        DEVICE_OK(device()->cudaStreamSynchronize(stream));
        check_image(image, RANKS);
        WAIT_OK(req);
        weft_release(req);
    }
    if (me->rank == 0) printf("weft_stream_wait, the best of %d: %lld us\n", ROUNDS, (long long)best);
    device_give(image);
}

/* Each takes what the one before it has made, on the device alone; one rank comes later. */
static void a_chain(job_rank *me)
{
    enum { LINKS = 8 };
    void *stream = device_stream(1);
    weft_call behind = {.stream = stream};
    operands o = take_operands(me);
    int32_t *made[LINKS], *image = device_take(DEVICE_PINNED, bytes);
    weft_request *reqs[LINKS];
    warm_up(me->world, o);
    for (int i = 0; i < LINKS; i++) made[i] = job_buffer(me, bytes);
    job_meet(me);
    others_go_on(me, 1);
    for (int i = 0; i < LINKS; i++) {
        CHECK_OK(weft_all_reduce(me->world, i ? made[i - 1] : o.in, made[i], COUNT, WEFT_INT32, WEFT_SUM,
                                 &behind, &reqs[i]));
        CHECK_OK(weft_stream_wait(reqs[i], stream));
    }
    if (me->rank != LATE) job_mark(me, GO_ON);
    fetch(image, made[LINKS - 1], stream);
    DEVICE_OK(device()->cudaStreamSynchronize(stream));
    int32_t times = 1;
    for (int i = 0; i < LINKS; i++) WAIT_OK(reqs[i]);
    for (int i = 1; i < LINKS; i++) times *= RANKS;
    for (int i = 0; i < COUNT; i++) CHECK_INT(image[i], times * sum_of(i, RANKS));
    for (int i = 0; i < LINKS; i++) weft_release(reqs[i]);
    device_give(image);
}

static void a_message(job_rank *me)
{
    operands o = take_operands(me);
    void *stream = device_stream(1);
    weft_request *req = NULL;
    int32_t *image = device_take(DEVICE_PINNED, bytes);
    warm_up(me->world, o);
    for (int i = 0; i < 2; i++) { /* the first makes the connection */
        job_meet(me);
        if (me->rank == 0) {
            CHECK_OK(weft_irecv(me->world, o.out, COUNT, WEFT_INT32, LATE, 5, NULL, &req));
            CHECK_OK(weft_stream_wait(req, stream));
            if (i) job_mark(me, GO_ON);
            fetch(image, o.out, stream);
            DEVICE_OK(device()->cudaStreamSynchronize(stream));
            for (int n = 0; n < COUNT; n++) CHECK_INT(image[n], n + LATE);
        } else if (me->rank == LATE) {
            if (i) job_await(me, GO_ON, 1);
            job_sleep_ms(LATE_MS);
            CHECK_OK(weft_isend(me->world, o.in, COUNT, WEFT_INT32, 0, 5, NULL, &req));
        }
        if (me->rank > LATE) continue;
        WAIT_OK(req);
        weft_release(req);
    }
    device_give(image);
}

/* ---- it fails, and the stream goes on ---- */

/* The others' streams wait for what the late rank never begins. */
static void ends(job_rank *me, weft_status status, void (*end)(job_rank *me, weft_request *req))
{
    weft_group *group = job_group(me, RANKS, "ends", 0);
    operands o = take_operands(me);
    void *stream = device_stream(1);
    int32_t *image = device_take(DEVICE_PINNED, bytes);
    warm_up(group, o);
    CHECK_OK(weft_group_set_timeout(group, job_short_ms()));
    job_meet(me);
    if (me->rank != LATE) {
        weft_request *req = begin_sum(group, o, NULL);
        CHECK_OK(weft_stream_wait(req, stream));
        fetch(image, o.in, stream);
        CHECK_INT(weft_test(req), WEFT_PENDING);
        job_mark(me, FIRST);
        if (end) end(me, req);
        WAIT_STATUS(status, req);
        DEVICE_OK(device()->cudaStreamSynchronize(stream));
        for (int i = 0; i < COUNT; i++) CHECK_INT(image[i], i + me->rank);
        CHECK_STATUS(status, weft_stream_wait(req, stream));
        weft_release(req);
    }
    CHECK(job_await_break(group, job_short_ms() + job_late_ms()) < 0);
    warm_up(me->world, o);
    device_give(image);
}

static void a_deadline(job_rank *me)
{
    ends(me, WEFT_ERR_TIMEOUT, NULL);
}

static void cancels(job_rank *me, weft_request *req)
{
    job_await(me, FIRST, RANKS - 1);
    if (me->rank == 0) weft_cancel(req);
}

static void a_cancel(job_rank *me)
{
    ends(me, WEFT_ERR_CANCELLED, cancels);
}

/* It fails on the device, after it was issued there. */
static void a_hang(job_rank *me)
{
    weft_group *group = job_group(me, RANKS, "hangs", 0);
    operands o = take_operands(me);
    void *stream = device_stream(1);
    int32_t *image = device_take(DEVICE_PINNED, bytes);
    if (!device_is_emulated()) return;
    warm_up(group, o);
    CHECK_OK(weft_group_set_timeout(group, job_short_ms()));
    job_meet(me);
    if (me->rank == LATE) device()->emu_script("dev1:ncclGroupEnd@1=hang");
    job_meet(me);
    weft_request *req = begin_sum(group, o, NULL);
    CHECK_OK(weft_stream_wait(req, stream));
    fetch(image, o.in, stream);
    WAIT_STATUS(WEFT_ERR_TIMEOUT, req);
    DEVICE_OK(device()->cudaStreamSynchronize(stream));
    weft_release(req);
    job_meet(me);
    device()->emu_script(NULL);
    warm_up(me->world, o);
    device_give(image);
}

/* The context ends under a stream that waits. */
static void leaves(job_rank *me)
{
    job_join(me);
    operands o = take_operands(me);
    void *stream = device_stream(1);
    int32_t *image = device_take(DEVICE_PINNED, bytes);
    warm_up(me->world, o);
    job_meet(me);
    if (me->rank != LATE) {
        weft_request *req = begin_sum(me->world, o, NULL);
        CHECK_OK(weft_stream_wait(req, stream));
        fetch(image, o.in, stream);
        job_mark(me, FIRST);
        weft_release(req);
    }
    job_await(me, FIRST, RANKS - 1);
    if (me->rank == LATE) warm_up(me->world, o);
    CHECK_OK(weft_finalize(me->ctx, job_wait_ms()));
    me->ctx = NULL;
    DEVICE_OK(device()->cudaStreamSynchronize(stream));
    device_give(image);
}

/* ---- the order that all ranks find ---- */

/* As the ranks do of which the streams say nothing: `second` before `first`. */
static void begin_the_second_first(weft_group *first, weft_group *second, operands a, operands b,
                                   weft_request *reqs[2])
{
    const weft_call other = {.stream = WEFT_NO_STREAM};
    reqs[1] = begin_sum(second, b, &other);
    job_sleep_ms(20);
    reqs[0] = begin_sum(first, a, &other);
}

static void await_all(weft_request **reqs, int n)
{
    for (int i = 0; i < n; i++) WAIT_OK(reqs[i]);
}

/* On the first rank `second` comes after `first` by its stream; on the others it is begun before. */
static void cross(job_rank *me, weft_group *first, weft_group *second, operands a, operands b)
{
    void *stream = device_stream(1);
    weft_call behind = {.stream = stream}, other = {.stream = WEFT_NO_STREAM};
    weft_request *reqs[2];
    job_meet(me);
    if (me->rank == 0) {
        reqs[0] = begin_sum(first, a, &other);
        CHECK_OK(weft_stream_wait(reqs[0], stream));
        reqs[1] = begin_sum(second, b, &behind);
        CHECK_OK(weft_stream_wait(reqs[1], stream));
    } else {
        begin_the_second_first(first, second, a, b, reqs);
    }
    await_all(reqs, 2);
    if (me->rank == 0) DEVICE_OK(device()->cudaStreamSynchronize(stream));
    check_sum(RANKS, a.out);
    check_sum(RANKS, b.out);
}

static void two_groups(job_rank *me)
{
    weft_group *first = job_group(me, RANKS, "first", 0), *second = job_group(me, RANKS, "second", 0);
    operands a = take_operands(me), b = take_operands(me);
    warm_up(first, a);
    warm_up(second, b);
    for (int i = 0; i < ROUNDS; i++) cross(me, first, second, a, b);
}

/* By an event that another stream waits for, of which Weft knows nothing. */
static void another_stream(job_rank *me)
{
    weft_group *first = job_group(me, RANKS, "first", 0), *second = job_group(me, RANKS, "second", 0);
    operands a = take_operands(me), b = take_operands(me);
    void *stream = device_stream(1), *behind_it = device_stream(0), *event = NULL;
    weft_call other = {.stream = WEFT_NO_STREAM}, behind = {.stream = behind_it};
    weft_request *reqs[2];
    DEVICE_OK(device()->cudaEventCreateWithFlags(&event, 2)); /* without times */
    warm_up(first, a);
    warm_up(second, b);
    job_meet(me);
    if (me->rank == 0) {
        reqs[0] = begin_sum(first, a, &other);
        CHECK_OK(weft_stream_wait(reqs[0], stream));
        DEVICE_OK(device()->cudaEventRecord(event, stream));
        DEVICE_OK(device()->cudaStreamWaitEvent(behind_it, event, 0));
        reqs[1] = begin_sum(second, b, &behind);
    } else {
        begin_the_second_first(first, second, a, b, reqs);
    }
    await_all(reqs, 2);
}

/* What is submitted while a stream is held, and waits for nothing, is waited for by no held one: the others begin the
 * first only when the second is over. */
static void nothing_else_waits(job_rank *me)
{
    weft_group *first = job_group(me, RANKS, "first", 0), *second = job_group(me, RANKS, "second", 0);
    operands a = take_operands(me), b = take_operands(me);
    weft_call free_call = {.stream = device_stream(0)};
    weft_request *held = NULL, *req;
    warm_up(first, a);
    warm_up(second, b);
    job_meet(me);
    if (me->rank == 0) {
        held = begin_sum(first, a, NULL);
        CHECK_OK(weft_stream_wait(held, device_stream(1)));
    }
    req = begin_sum(second, b, &free_call);
    WAIT_OK(req);
    weft_release(req);
    job_host_sum_works(second); /* nor does what is in host memory */
    if (me->rank != 0) held = begin_sum(first, a, NULL);
    WAIT_OK(held);
    weft_release(held);
    check_sum(RANKS, a.out);
    check_sum(RANKS, b.out);
}

/* Host memory in the same group comes after what waits, on every rank. */
static void behind_in_its_group(job_rank *me)
{
    weft_group *first = job_group(me, RANKS, "first", 0), *second = job_group(me, RANKS, "second", 0);
    operands a = take_operands(me), b = take_operands(me);
    void *stream = device_stream(1);
    weft_call behind = {.stream = stream};
    weft_request *reqs[4];
    int32_t one = 1, sum = 0, sent = me->rank, got = -1;
    warm_up(first, a);
    warm_up(second, b);
    job_meet(me);
    if (me->rank == LATE) job_sleep_ms(LATE_MS);
    reqs[0] = begin_sum(first, a, NULL);
    CHECK_OK(weft_stream_wait(reqs[0], stream));
    reqs[1] = begin_sum(second, b, &behind);
    CHECK_OK(weft_all_reduce(second, &one, &sum, 1, WEFT_INT32, WEFT_SUM, NULL, &reqs[2]));
    CHECK_OK(weft_irecv(second, &got, 1, WEFT_INT32, (me->rank + 1) % RANKS, 1, NULL, &reqs[3]));
    CHECK_OK(weft_isend(second, &sent, 1, WEFT_INT32, (me->rank + RANKS - 1) % RANKS, 1, NULL, NULL));
    await_all(reqs, 4);
    CHECK_INT(sum, RANKS);
    CHECK_INT(got, (me->rank + 1) % RANKS);
    check_sum(RANKS, b.out);
    DEVICE_OK(device()->cudaStreamSynchronize(stream));
}

/* What waits for a held stream ends by its own time, and by a cancel. */
static void what_waits_ends(job_rank *me)
{
    weft_group *first = job_group(me, RANKS, "first", 0), *second = job_group(me, RANKS, "second", 0);
    operands a = take_operands(me), b = take_operands(me);
    void *stream = device_stream(1);
    const weft_call behind = {.stream = stream, .timeout_ms = me->rank == 0 ? 500 : 0};
    const weft_call sooner = {.timeout_ms = 200, .memory = WEFT_MEMORY_HOST};
    weft_request *held, *req, *message;
    int32_t nothing;
    warm_up(first, a);
    warm_up(second, b);
    job_meet(me);
    if (me->rank != LATE) {
        /* As its time is up what is due next is looked for anew. */
        CHECK_OK(weft_irecv(me->world, &nothing, 1, WEFT_INT32, LATE, 9, &sooner, &message));
        held = begin_sum(first, a, NULL);
        CHECK_OK(weft_stream_wait(held, stream));
        if (me->rank == 0) job_await(me, BEHIND, 1); /* the group would be broken for who comes later */
        int64_t since = job_now_ns();
        req = begin_sum(second, b, &behind);
        if (me->rank != 0) job_mark(me, BEHIND);
        WAIT_STATUS(WEFT_ERR_TIMEOUT, req);
        /* Less than the 10 s after which somebody looks anyway. */
        if (me->rank == 0)
            CHECK_PERIOD(since, job_now_ns(), behind.timeout_ms, behind.timeout_ms + job_late_ms() / 2);
        weft_release(req);
        WAIT_STATUS(WEFT_ERR_TIMEOUT, message);
        weft_release(message);
        CHECK_INT(weft_test(held), WEFT_PENDING);
        job_mark(me, FIRST);
    } else {
        job_await(me, FIRST, RANKS - 1);
        held = begin_sum(first, a, NULL);
    }
    WAIT_OK(held);
    weft_release(held);
    DEVICE_OK(device()->cudaStreamSynchronize(stream));
    check_sum(RANKS, a.out);
}

/* ---- a stream that cannot be held ---- */

typedef struct refused {
    weft_group *second;
    operands o;
    weft_request *first;
} refused;

/* The host waits for the first one; the other thread's stream has not come to its operation, which begins all the same. */
static void beside_one_that_waits(job_rank *me, int thread, void *arg)
{
    enum { WAITS_MS = 200 }; /* for the other thread to be in its call */
    refused *r = arg;
    if (thread == 0) {
        CHECK_OK(weft_stream_wait(r->first, device_stream(1)));
        return;
    }
    job_sleep_ms(WAITS_MS);
    const weft_call behind = {.stream = device_stream(0)};
    device_gate *gate = device_shut(behind.stream);
    weft_request *req = begin_sum(r->second, r->o, &behind);
    WAIT_STATUS(WEFT_ERR_TIMEOUT, req);
    CHECK_TEXT(weft_request_message(req), "has issued it, but the caller's stream has not reached it");
    device_open(gate);
    weft_release(req);
    job_mark(me, FIRST);
}

/* Its stream has the priority of the communicator's, so it is not held, and nothing has to begin behind it. */
static void one_that_is_refused(job_rank *me)
{
    weft_group *first = job_group(me, RANKS, "first", 0), *second = job_group(me, RANKS, "second", 0);
    operands a = take_operands(me), b = take_operands(me);
    weft_request *req;
    CHECK_OK(weft_nccl_configure(first, &(weft_nccl_options){.stream_priority = 1000}));
    warm_up(first, a);
    warm_up(second, b);
    CHECK_OK(weft_group_set_timeout(second, job_short_ms()));
    job_meet(me);
    if (me->rank == 0) {
        refused r = {second, b, begin_sum(first, a, NULL)};
        job_threads(me, 2, beside_one_that_waits, &r);
        req = r.first;
    } else {
        req = begin_sum(second, b, NULL);
        WAIT_STATUS(WEFT_ERR_TIMEOUT, req);
        CHECK_TEXT(weft_request_message(req), "has not reached it");
        weft_release(req);
        job_await(me, FIRST, 1);
        req = begin_sum(first, a, NULL);
    }
    WAIT_OK(req);
    check_sum(RANKS, a.out);
}

/* Others' calls wait on the host for what the late rank begins after this, and return no sooner. */
static void late_one_begins(job_rank *me)
{
    if (me->rank != LATE) return;
    job_sleep_ms(LATE_MS);
    job_results(me, LATE)[BEGINS] = 1;
}

static void has_begun(job_rank *me)
{
    CHECK_INT(job_results(me, LATE)[BEGINS], 1);
}

/* In program order nothing is held, though the stream's operation is not issued yet: a first one of its kind is before it, for
 * which NCCL connects, and so waits for the rank that is late. */
static void in_program_order(job_rank *me)
{
    job_setenv(me, "WEFT_DEVICE_ORDER", "program");
    job_setenv(me, "NCCL_RUNTIME_CONNECT", "1");
    job_join(me);
    enum { LARGE = 1 << 16 }; /* by a ring */
    operands o = take_operands(me);
    int32_t *large = job_buffer(me, LARGE * sizeof *large);
    weft_request *first, *req;
    warm_up(me->world, o);
    job_meet(me);
    late_one_begins(me);
    CHECK_OK(weft_all_reduce(me->world, large, large, LARGE, WEFT_INT32, WEFT_SUM, NULL, &first));
    req = begin_sum(me->world, o, NULL);
    CHECK_OK(weft_stream_wait(req, device_stream(1)));
    has_begun(me);
    if (device_is_emulated()) CHECK_INT(device()->emu_calls("cuStreamWaitValue32"), 0);
    WAIT_OK(first);
    WAIT_OK(req);
    check_sum(RANKS, o.out);
    job_leave(me);
}

/* ---- without it ---- */

static void on_the_host(job_rank *me)
{
    job_setenv(me, "WEFT_NCCL_HOLD_STREAMS", "0");
    job_join(me);
    operands o = take_operands(me);
    warm_up(me->world, o);
    job_meet(me);
    late_one_begins(me);
    weft_request *req = begin_sum(me->world, o, NULL);
    CHECK_OK(weft_stream_wait(req, device_stream(1)));
    has_begun(me);
    WAIT_OK(req);
    weft_release(req);
    job_leave(me);
}

/* ---- where its queue is another's ---- */

typedef struct queues {
    const char *connections;
    int steps; /* below the highest priority */
} queues;

/* A stream that waits would stand in front of the operation that it waits for, in the hardware queue that both share: the
 * host waits instead, and all end. */
static void shared_queues(job_rank *me)
{
    enum { STREAMS = 10 };
    const queues *q = me->arg;
    job_setenv(me, "CUDA_DEVICE_MAX_CONNECTIONS", q->connections);
    job_join(me);
    weft_group *group = job_group(me, RANKS, "shared queues", 0);
    CHECK_OK(weft_nccl_configure(group, &(weft_nccl_options){.stream_priority = q->steps}));
    operands o[STREAMS];
    void *streams[STREAMS];
    weft_request *reqs[STREAMS];
    for (int i = 0; i < STREAMS; i++) {
        o[i] = take_operands(me);
        DEVICE_OK(device()->cudaStreamCreateWithFlags(&streams[i], 1)); /* nonblocking */
    }
    warm_up(group, o[0]);
    CHECK_OK(weft_group_set_timeout(group, job_short_ms()));
    job_meet(me);
    if (me->rank == LATE) job_sleep_ms(LATE_MS);
    for (int i = 0; i < STREAMS; i++) {
        reqs[i] = begin_sum(group, o[i], NULL);
        CHECK_OK(weft_stream_wait(reqs[i], streams[i]));
    }
    await_all(reqs, STREAMS);
    for (int i = 0; i < STREAMS; i++) {
        DEVICE_OK(device()->cudaStreamSynchronize(streams[i]));
        check_sum(RANKS, o[i].out);
        weft_release(reqs[i]);
    }
    job_leave(me);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("a rank that is late", .ranks = RANKS, .body = a_late_rank),
        JOB_TEST("a chain", .ranks = RANKS, .body = a_chain),
        JOB_TEST("a message", .ranks = RANKS, .body = a_message),
        JOB_TEST("a deadline", .ranks = RANKS, .body = a_deadline),
        JOB_TEST("a cancel", .ranks = RANKS, .body = a_cancel),
        JOB_TEST("a hang", .ranks = RANKS, .processes = true, .body = a_hang),
        JOB_TEST("the context ends", .ranks = RANKS, .processes = true, .bare = true, .body = leaves),
        JOB_TEST("two groups", .ranks = RANKS, .body = two_groups),
        JOB_TEST("another stream", .ranks = RANKS, .body = another_stream),
        JOB_TEST("nothing else waits", .ranks = RANKS, .body = nothing_else_waits),
        JOB_TEST("behind in its group", .ranks = RANKS, .body = behind_in_its_group),
        JOB_TEST("what waits ends", .ranks = RANKS, .body = what_waits_ends),
        JOB_TEST("one hardware queue", .ranks = RANKS, .processes = true, .bare = true, .body = shared_queues,
                 .arg = &(const queues){"1", 0}),
        JOB_TEST("hardware queues of a priority", .ranks = RANKS, .processes = true, .bare = true,
                 .body = shared_queues, .arg = &(const queues){"2", 1000}),
        JOB_TEST("one that is refused", .ranks = RANKS, .processes = true, .body = one_that_is_refused),
        JOB_TEST("in program order", .ranks = RANKS, .processes = true, .bare = true,
                 .body = in_program_order),
        JOB_TEST("on the host", .ranks = RANKS, .processes = true, .bare = true, .body = on_the_host),
    };
    return JOB_MAIN(tests, argc, argv);
}
