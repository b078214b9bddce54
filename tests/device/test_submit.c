/* test_submit.c - what submission on device memory costs: no call of CUDA that blocks, whatever is submitted
 * and while the device is busy; and hundreds of messages in one batch. */
#include "collective.h"
#include "device.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <weft/cuda.h>

enum { COUNT = 300, ROUNDS = 5, MESSAGES = 300 };

static uint64_t blocking_calls(void)
{
    return device_is_emulated() ? device()->emu_blocking_calls() : 0;
}

static weft_request *begin_messages(job_rank *me, int32_t *in, int32_t *out, const weft_call *call,
                                    weft_request **receive)
{
    int next = (me->rank + 1) % me->size, before = (me->rank + me->size - 1) % me->size;
    weft_request *send = NULL;
    CHECK_OK(weft_irecv(me->world, out, COUNT, WEFT_INT32, before, 1, call, receive));
    CHECK_OK(weft_isend(me->world, in, COUNT, WEFT_INT32, next, 1, call, &send));
    return send;
}

static weft_request *begin_batch(job_rank *me, int32_t *in, int32_t *out, const weft_call *call)
{
    weft_call member = *call;
    weft_request *req = NULL;
    CHECK_OK(weft_batch_begin(me->world, &member.batch));
    CHECK_OK(weft_all_reduce(me->world, in, out, COUNT, WEFT_INT32, WEFT_SUM, &member, NULL));
    CHECK_OK(weft_all_reduce(me->world, in, out + COUNT, COUNT, WEFT_INT32, WEFT_MAX, &member, NULL));
    CHECK_OK(weft_batch_end(member.batch, NULL, &req));
    return req;
}

enum { IN_ROUND = 9 };

/* Everything once, each with a part of `out` to itself. */
static void begin_round(job_rank *me, int32_t *in, int32_t *out, const weft_call *call, weft_request **reqs)
{
    const size_t counts[] = {COUNT, COUNT, COUNT};
    weft_group *g = me->world;
    CHECK_OK(weft_all_reduce(g, in, out, COUNT, WEFT_INT32, WEFT_SUM, call, &reqs[0]));
    CHECK_OK(weft_broadcast(g, out + COUNT, COUNT, WEFT_INT32, 0, call, &reqs[1]));
    CHECK_OK(weft_all_gather_v(g, in, COUNT, out + 2 * COUNT, counts, NULL, WEFT_INT32, call, &reqs[2]));
    CHECK_OK(weft_all_to_all(g, in, out + 5 * COUNT, COUNT / 3, WEFT_INT32, call, &reqs[3]));
    CHECK_OK(weft_reduce_scatter(g, in, out + 6 * COUNT, COUNT / 3, WEFT_INT32, WEFT_SUM, call, &reqs[4]));
    reqs[5] = begin_messages(me, in, out + 7 * COUNT, call, &reqs[6]);
    reqs[7] = begin_batch(me, in, out + 8 * COUNT, call);
    weft_call barrier = *call;
    barrier.memory = WEFT_MEMORY_CUDA;
    CHECK_OK(weft_barrier(g, &barrier, &reqs[8]));
}

static void finish_round(weft_request **reqs)
{
    for (int i = 0; i < IN_ROUND; i++) WAIT_OK(reqs[i]);
}

/* The caller's stream is held up, so that whatever waits for the device waits for ever.  Communicators are
 * there from the first round; from then on the library's own threads make no such call either. */
static void nothing_blocks(job_rank *me)
{
    size_t bytes = (size_t)ROUNDS * 10 * COUNT * sizeof(int32_t);
    int32_t *in = job_buffer(me, bytes), *out = job_buffer(me, bytes);
    weft_call call = {.stream = device_stream(1)};
    weft_request *reqs[ROUNDS][IN_ROUND];
    begin_round(me, in, out, &call, reqs[0]);
    finish_round(reqs[0]);
    job_meet(me);
    uint64_t before = blocking_calls();
    job_meet(me);
    device_gate *gate = device_shut(call.stream);
    for (int i = 0; i < ROUNDS; i++) begin_round(me, in, out + (size_t)i * 10 * COUNT, &call, reqs[i]);
    for (int r = 0; r < ROUNDS; r++)
        for (int i = 0; i < IN_ROUND; i++) CHECK_INT(weft_test(reqs[r][i]), WEFT_PENDING);
    device_open(gate);
    for (int i = 0; i < ROUNDS; i++) finish_round(reqs[i]);
    CHECK_INT(blocking_calls(), before);
    job_meet(me);
}

static void count_call(weft_request *req, weft_status status, void *called)
{
    (void)req, (void)status;
    atomic_fetch_add((atomic_int *)called, 1);
}

/* What has been through a stream's queue is not in it any more: there is room for more than one. */
static void two_at_a_time(job_rank *me, int32_t *in, int32_t *out)
{
    weft_call held = {.stream = device_stream(1)}, free_call = {.stream = WEFT_NO_STREAM};
    weft_request *first = NULL, *second = NULL;
    device_gate *gate = device_shut(held.stream);
    CHECK_OK(weft_all_reduce(me->world, in, out, 1, WEFT_INT32, WEFT_SUM, &held, &first));
    CHECK_OK(weft_all_reduce(me->world, in, out + 1, 1, WEFT_INT32, WEFT_SUM, &free_call, &second));
    CHECK_OK(weft_stream_wait(second, device_stream(0)));
    CHECK_INT(weft_test(first), WEFT_PENDING);
    device_open(gate);
    WAIT_OK(first);
    WAIT_OK(second);
    weft_release(first);
    weft_release(second);
}

/* An operation on host memory with a callback, which needs the progress thread, and a message to oneself on the device. */
static void others_go_on(job_rank *me, weft_group *host, const int32_t *in, int32_t *own)
{
    int32_t one = 1, sum = 0;
    atomic_int called = 0;
    weft_call calls_back = {.done = count_call, .arg = &called};
    weft_request *req = NULL;
    CHECK_OK(weft_all_reduce(host, &one, &sum, 1, WEFT_INT32, WEFT_SUM, &calls_back, &req));
    WAIT_OK(req);
    weft_release(req);
    CHECK_INT(atomic_load(&called), 1);
    job_put_int(own, -1);
    CHECK_OK(weft_irecv(me->world, own, 1, WEFT_INT32, me->rank, 1, NULL, &req));
    CHECK_OK(weft_isend(me->world, in, 1, WEFT_INT32, me->rank, 1, NULL, NULL));
    WAIT_OK(req);
    weft_release(req);
    CHECK_INT(job_get_int(own), me->rank);
}

/* More than a stream of the device takes: a call that queues more blocks until there is room, and that may be as long as
 * the program likes.  Nothing else of the rank's stands still meanwhile, and the device is not given up. */
static void more_than_a_queue(job_rank *me)
{
    enum { MANY = 1500, HELD_MS = 1500, LOOKS = 10 };
    weft_group *host = job_group(me, me->size, "host", 0);
    int32_t *in = job_buffer(me, sizeof *in), *own = job_buffer(me, sizeof *own);
    int32_t *out = job_buffer(me, MANY * sizeof *out), *image = job_alloc(me, MANY * sizeof *image);
    weft_call held = {.stream = device_stream(1)}, free_call = {.stream = WEFT_NO_STREAM};
    weft_request **reqs = job_alloc(me, MANY * sizeof(weft_request *));
    job_put_int(in, me->rank);
    CHECK_OK(weft_all_reduce(me->world, in, out, 1, WEFT_INT32, WEFT_SUM, NULL, NULL));
    device_gate *gate = device_shut(held.stream);
    for (int i = 0; i < MANY; i++)
        CHECK_OK(weft_all_reduce(me->world, in, out + i, 1, WEFT_INT32, WEFT_SUM, i ? &free_call : &held,
                                 &reqs[i]));
    for (int i = 0; i < LOOKS; i++) {
        job_sleep_ms(HELD_MS / LOOKS);
        others_go_on(me, host, in, own);
    }
    CHECK_INT(weft_test(reqs[0]), WEFT_PENDING);
    device_open(gate);
    for (int i = 0; i < MANY; i++) {
        WAIT_OK(reqs[i]);
        weft_release(reqs[i]);
    }
    job_get(image, out, MANY * sizeof *image);
    for (int i = 0; i < MANY; i++) CHECK_INT(image[i], me->size * (me->size - 1) / 2);
    two_at_a_time(me, in, out);
    job_meet(me);
}

/* Operations that are with the device, and those that wait for room there, end at their deadline, and another group's go on
 * once the device gets on. */
static void deadline_of_more_than_a_queue(job_rank *me)
{
    enum { MANY = 1500 };
    weft_group *group = job_group(me, me->size, "timed", 0);
    int32_t *in = job_buffer(me, sizeof *in), *out = job_buffer(me, MANY * sizeof *out);
    weft_call held = {.stream = device_stream(1)}, free_call = {.stream = WEFT_NO_STREAM};
    weft_request **reqs = job_alloc(me, MANY * sizeof(weft_request *));
    int made = 0;
    job_put_int(in, me->rank);
    CHECK_OK(weft_all_reduce(me->world, in, out, 1, WEFT_INT32, WEFT_SUM, NULL, NULL));
    CHECK_OK(weft_all_reduce(group, in, out, 1, WEFT_INT32, WEFT_SUM, NULL, NULL));
    CHECK_OK(weft_group_set_timeout(group, job_short_ms()));
    job_meet(me);
    device_gate *gate = device_shut(held.stream);
    for (weft_status status = WEFT_OK; made < MANY && status == WEFT_OK; made += status == WEFT_OK)
        status = weft_all_reduce(group, in, out + made, 1, WEFT_INT32, WEFT_SUM, made ? &free_call : &held,
                                 &reqs[made]);
    CHECK(made > 0);
    for (int i = 0; i < made; i++) {
        weft_status status = weft_wait(reqs[i], job_wait_ms());
        CHECK(status == WEFT_ERR_TIMEOUT || status == WEFT_ERR_BROKEN);
        CHECK_PERIOD(job_info(reqs[i]).submitted_ns, job_info(reqs[i]).settled_ns, 0,
                     job_short_ms() + job_late_ms());
        weft_release(reqs[i]);
    }
    job_host_sum_works(me->world);
    device_open(gate);
    CHECK_OK(weft_all_reduce(me->world, in, out, 1, WEFT_INT32, WEFT_SUM, NULL, NULL));
    CHECK_INT(job_get_int(out), me->size * (me->size - 1) / 2);
    job_meet(me);
}

/* The first operation of a group makes its communicator, which takes its time: not the caller's. */
static void nor_the_first_one(job_rank *me)
{
    weft_group *group = job_group(me, me->size, "new", 0);
    int32_t *in = job_buffer(me, COUNT * sizeof *in), *out = job_buffer(me, COUNT * sizeof *out);
    weft_request *req = NULL;
    job_meet(me);
    if (me->rank == 0) { /* the others have not submitted it: nothing can be under way */
        uint64_t before = blocking_calls();
        CHECK_OK(weft_all_reduce(group, in, out, COUNT, WEFT_INT32, WEFT_SUM, NULL, &req));
        CHECK_INT(blocking_calls(), before);
    }
    job_meet(me);
    if (me->rank) {
        CHECK_OK(weft_all_reduce(group, in, out, COUNT, WEFT_INT32, WEFT_SUM, NULL, &req));
    }
    WAIT_OK(req);
    job_meet(me);
}

/* Where kernels of this rank's device would find nothing. */
static void another_device(job_rank *me)
{
    int32_t *own = job_buffer(me, COUNT * sizeof *own), *other;
    char words[64];
    if (device_of(me->rank) == device_of(me->rank + 1)) {
        return;
    }
    device_use(me->rank + 1);
    other = job_buffer(me, COUNT * sizeof *other);
    device_use(me->rank);
    snprintf(words, sizeof words, "is memory of device %d, expected memory of device %d",
             device_of(me->rank + 1), device_of(me->rank));
    for (int i = 0; i < 3; i++) {
        const char *name = i ? "all_reduce: in: " : "all_reduce: out: ";
        CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_all_reduce(me->world, i ? other : own, i == 1 ? own : other,
                                                        COUNT, WEFT_INT32, WEFT_SUM, NULL, NULL));
        CHECK_TEXT(weft_last_error(), name);
        CHECK_TEXT(weft_last_error(), words);
    }
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_isend(me->world, other, COUNT, WEFT_INT32, 0, 1, NULL, NULL));
    CHECK_TEXT(weft_last_error(), words);
    CHECK_STATUS(WEFT_ERR_ARGUMENT, /* also where the caller says what it is */
                 weft_broadcast(me->world, other, COUNT, WEFT_INT32, 0,
                                &(weft_call){.memory = WEFT_MEMORY_CUDA, .stream = WEFT_NO_STREAM}, NULL));
    CHECK_TEXT(weft_last_error(), words);
    CHECK_OK(weft_all_reduce(me->world, own, own, COUNT, WEFT_INT32, WEFT_SUM, NULL, NULL));
}

/* From a thread that has never said which device it works with, and so stands at the first. */
static void *sum_host_memory(void *arg)
{
    int32_t one = 1, sum = 0;
    weft_status status = weft_all_reduce(arg, &one, &sum, 1, WEFT_INT32, WEFT_SUM, NULL, NULL);
    return status == WEFT_OK && sum == weft_group_size(arg) ? arg : NULL;
}

/* Each rank has a context on its own device, and none on the others'. */
static void contexts_elsewhere(job_rank *me)
{
    int32_t *buffer = job_buffer(me, COUNT * sizeof *buffer);
    pthread_t thread;
    void *right;
    if (!device_is_emulated()) {
        return;
    }
    CHECK_OK(weft_all_reduce(me->world, buffer, buffer, COUNT, WEFT_INT32, WEFT_SUM, NULL, NULL));
    CHECK(!pthread_create(&thread, NULL, sum_host_memory, me->world));
    CHECK(!pthread_join(thread, &right));
    CHECK(right);
    job_message_works(me->world, 0, 1, 2);
    for (int i = 0; i < me->size; i++) {
        char name[32];
        snprintf(name, sizeof name, "context%d", i);
        CHECK_INT(device()->emu_calls(name), i == me->rank);
    }
    CHECK_INT(device()->emu_calls("cudaPointerGetAttributes"), 0);
}

/* A program that has no device memory: where a pointer points is asked of the driver, once for each, since nothing else
 * knows; and not where the program says it. */
static void host_memory_alone(job_rank *me)
{
    enum { SUMS = 1000 };
    static const char *const asked[] = {"cudaPointerGetAttributes", "cudaGetDevice", "cudaSetDevice",
                                        "cudaEventQuery",           "context0",      "context1"};
    int32_t *in = job_alloc(me, COUNT * sizeof *in), *out = job_alloc(me, COUNT * sizeof *out);
    const weft_call says = {.memory = WEFT_MEMORY_HOST};
    uint64_t before[sizeof asked / sizeof *asked];
    if (!device_is_emulated()) return;
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) before[i] = device()->emu_calls(asked[i]);
    for (int told = 0; told < 2; told++) {
        uint64_t driver = device()->emu_calls("cuPointerGetAttributes");
        for (int i = 0; i < SUMS; i++)
            CHECK_OK(
                weft_all_reduce(me->world, in, out, COUNT, WEFT_INT32, WEFT_SUM, told ? &says : NULL, NULL));
        CHECK_INT(device()->emu_calls("cuPointerGetAttributes") - driver, told ? 0 : 2 * SUMS);
    }
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++)
        CHECK_INT(device()->emu_calls(asked[i]), before[i]);
}

/* Everyone to everyone, the receives of one rank before and of another behind its sends. */
static void many_messages(job_rank *me)
{
    enum { EACH = 5 };
    size_t n = (size_t)me->size * MESSAGES * EACH, bytes = n * sizeof(int32_t);
    int32_t *in = job_buffer(me, bytes), *out = job_buffer(me, bytes), *image = job_alloc(me, bytes);
    weft_call call = {.batch = NULL};
    weft_request *req = NULL;
    for (size_t i = 0; i < n; i++) image[i] = (int32_t)i + me->rank * 1000000;
    job_put(in, image, bytes);
    CHECK_OK(weft_batch_begin(me->world, &call.batch));
    for (int half = 0; half < 2; half++) {
        for (int m = 0; m < MESSAGES; m++) {
            for (int peer = 0; peer < me->size; peer++) {
                size_t at = ((size_t)peer * MESSAGES + (size_t)m) * EACH;
                if ((me->rank + half) % 2) {
                    CHECK_OK(weft_irecv(me->world, out + at, EACH, WEFT_INT32, peer, m, &call, NULL));
                } else {
                    CHECK_OK(weft_isend(me->world, in + at, EACH, WEFT_INT32, peer, m, &call, NULL));
                }
            }
        }
    }
    CHECK_OK(weft_batch_end(call.batch, NULL, &req));
    WAIT_OK(req);
    job_get(image, out, bytes);
    for (int peer = 0; peer < me->size; peer++) {
        for (int i = 0; i < MESSAGES * EACH; i++) {
            int32_t sent = me->rank * MESSAGES * EACH + i + peer * 1000000;
            CHECK_INT(image[peer * MESSAGES * EACH + i], sent);
        }
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("submission makes no blocking call", .ranks = 3, .body = nothing_blocks),
        JOB_TEST("more than a stream takes", .ranks = 2, .body = more_than_a_queue),
        JOB_TEST("a deadline of more than a stream takes", .ranks = 2, .body = deadline_of_more_than_a_queue),
        JOB_TEST("nor does a group's first", .ranks = 3, .body = nor_the_first_one),
        JOB_TEST("memory of another device is refused", .ranks = 3, .body = another_device),
        JOB_TEST("no context on another device", .ranks = 3, .processes = true, .body = contexts_elsewhere),
        JOB_TEST("host memory alone", .ranks = 2, .processes = true, .body = host_memory_alone),
        JOB_TEST("hundreds of messages in one batch", .ranks = 3, .body = many_messages),
    };
    return JOB_MAIN(tests, argc, argv);
}
