/* test_order.c - operations on device memory between the other work of streams: what comes before, what
 * after, and what is not held up. */
#include "device.h"

#include <stdlib.h>
#include <string.h>
#include <weft/cuda.h>

enum { COUNT = 1000, PAUSE_US = 50000 };
static const size_t bytes = COUNT * sizeof(int32_t);

static void *const legacy = NULL; /* the default stream, which call->stream means by NULL */

static void fill(int32_t *buffer, int32_t value)
{
    int32_t image[COUNT];
    for (int i = 0; i < COUNT; i++) image[i] = value + i;
    job_put(buffer, image, bytes);
}

static void check_filled(const int32_t *buffer, int32_t value, int32_t times)
{
    int32_t image[COUNT];
    job_get(image, buffer, bytes);
    for (int i = 0; i < COUNT; i++) CHECK_INT(image[i], value + times * i);
}

static int ranks_sum(const job_rank *me)
{
    return me->size * (me->size - 1) / 2;
}

/* ---- before
 * ---------------------------------------------------------------------------------------------- */

/* The stream writes the input after a pause: an operation that does not wait for it reads what was there. */
static int32_t *late_input(job_rank *me, void *stream)
{
    int32_t *in = job_buffer(me, bytes), *fresh = job_buffer(me, bytes);
    fill(fresh, me->rank);
    fill(in, -1000);
    device_delay(stream, PAUSE_US);
    device_copy(in, fresh, bytes, stream);
    return in;
}

static void after_a_stream(job_rank *me)
{
    void *const streams[] = {device_stream(1), legacy};
    int next = (me->rank + 1) % me->size, previous = (me->rank + me->size - 1) % me->size;
    for (int i = 0; i < 2; i++) {
        weft_call call = {.stream = streams[i]};
        int32_t *out = job_buffer(me, bytes);
        weft_request *req = NULL;
        CHECK_OK(weft_all_reduce(me->world, late_input(me, streams[i]), out, COUNT, WEFT_INT32, WEFT_SUM,
                                 &call, NULL));
        check_filled(out, ranks_sum(me), me->size);
        out = late_input(me, streams[i]);
        CHECK_OK(weft_broadcast(me->world, out, COUNT, WEFT_INT32, 1, &call, NULL));
        check_filled(out, 1, 1);
        out = job_buffer(me, bytes);
        CHECK_OK(weft_irecv(me->world, out, COUNT, WEFT_INT32, previous, 0, NULL, &req));
        CHECK_OK(weft_isend(me->world, late_input(me, streams[i]), COUNT, WEFT_INT32, next, 0, &call, NULL));
        WAIT_OK(req);
        check_filled(out, previous, 1);
    }
}

/* Each member of a batch has a stream of its own. */
static void batch_after_streams(job_rank *me)
{
    int32_t *out[2] = {job_buffer(me, bytes), job_buffer(me, bytes)};
    weft_call call = {.batch = NULL};
    CHECK_OK(weft_batch_begin(me->world, &call.batch));
    for (int i = 0; i < 2; i++) {
        call.stream = device_stream(i);
        CHECK_OK(weft_all_reduce(me->world, late_input(me, call.stream), out[i], COUNT, WEFT_INT32,
                                 i ? WEFT_MAX : WEFT_SUM, &call, NULL));
    }
    CHECK_OK(weft_batch_end(call.batch, NULL, NULL));
    check_filled(out[0], ranks_sum(me), me->size);
    check_filled(out[1], me->size - 1, 1);
}

/* What has been read by a stream may be written by an operation that comes after that stream. */
static void overwrites_what_was_read(job_rank *me)
{
    weft_call call = {.stream = device_stream(1)};
    int32_t *buffer = job_buffer(me, bytes), *kept = job_buffer(me, bytes);
    fill(buffer, 500 + me->rank);
    device_delay(call.stream, PAUSE_US);
    device_copy(kept, buffer, bytes, call.stream);
    CHECK_OK(weft_broadcast(me->world, buffer, COUNT, WEFT_INT32, 0, &call, NULL));
    check_filled(buffer, 500, 1);
    check_filled(kept, 500 + me->rank, 1);
}

/* ---- after
 * ----------------------------------------------------------------------------------------------- */

/* Nobody waits on the host before the stream is done with the result. */
static void before_a_stream(job_rank *me)
{
    void *reader = device_stream(1);
    for (int round = 0; round < 3; round++) {
        weft_call call = {.stream = device_stream(0)};
        int32_t *out = job_buffer(me, bytes), *copy = job_buffer(me, bytes), image[COUNT];
        weft_request *req = NULL;
        fill(out, -1);
        CHECK_OK(weft_all_reduce(me->world, late_input(me, call.stream), out, COUNT, WEFT_INT32, WEFT_SUM,
                                 &call, &req));
        CHECK_OK(weft_stream_wait(req, reader));
        device_copy(copy, out, bytes, reader);
        DEVICE_OK(device()->cudaStreamSynchronize(reader));
        device_copy(image, copy, bytes, reader);
        DEVICE_OK(device()->cudaStreamSynchronize(reader));
        for (int i = 0; i < COUNT; i++) CHECK_INT(image[i], ranks_sum(me) + me->size * i);
        WAIT_OK(req);
    }
}

/* A chain on the device: each operation's output is the next one's input, and the host waits for the last. */
static void chain(job_rank *me)
{
    enum { LINKS = 8 };
    void *stream = device_stream(1);
    int32_t *in[LINKS + 1], *out[LINKS];
    weft_request *reqs[LINKS];
    for (int i = 0; i < LINKS; i++) out[i] = job_buffer(me, bytes), in[i + 1] = job_buffer(me, bytes);
    in[0] = late_input(me, stream);
    for (int i = 0; i < LINKS; i++) {
        weft_call call = {.stream = stream};
        CHECK_OK(weft_all_reduce(me->world, in[i], out[i], COUNT, WEFT_INT32, WEFT_MAX, &call, &reqs[i]));
        CHECK_OK(weft_stream_wait(reqs[i], stream));
        device_copy(in[i + 1], out[i], bytes, stream);
    }
    DEVICE_OK(device()->cudaStreamSynchronize(stream));
    for (int i = 0; i < LINKS; i++) WAIT_OK(reqs[i]);
    check_filled(in[LINKS], me->size - 1, 1);
}

/* ---- beside
 * ---------------------------------------------------------------------------------------------- */

/* A stream that is held up holds up what comes after it, and the making of communicators on a real device: nothing
 * else. */
static void only_its_own_stream(job_rank *me)
{
    weft_call held = {.stream = device_stream(1)}, other = {.stream = device_stream(0)},
              none = {.stream = WEFT_NO_STREAM}, first = {.stream = WEFT_NO_STREAM, .memory = job_memory()};
    int32_t *in = job_buffer(me, bytes), *out = job_buffer(me, bytes), *last = job_buffer(me, bytes);
    weft_group *second = job_group(me, me->size, "second", 0);
    weft_request *req = NULL;
    fill(in, me->rank);
    CHECK_OK(weft_barrier(me->world, &first, NULL));
    CHECK_OK(weft_barrier(second, &first, NULL));
    device_gate *gate = device_shut(held.stream);
    CHECK_OK(weft_all_reduce(me->world, in, out, COUNT, WEFT_INT32, WEFT_SUM, &none, NULL));
    check_filled(out, ranks_sum(me), me->size);
    CHECK_OK(weft_all_reduce(me->world, in, out, COUNT, WEFT_INT32, WEFT_MAX, &other, NULL));
    check_filled(out, me->size - 1, 1);
    CHECK_OK(weft_all_reduce(second, in, last, COUNT, WEFT_INT32, WEFT_SUM, &held, &req));
    CHECK_INT(weft_wait(req, 100), WEFT_PENDING);
    device_open(gate);
    WAIT_OK(req);
    check_filled(last, ranks_sum(me), me->size);
}

/* A barrier with memory CUDA is behind its stream's work on every rank; one without is not. */
static void barriers(job_rank *me)
{
    weft_call call = {.stream = device_stream(1), .memory = WEFT_MEMORY_CUDA};
    weft_request *req = NULL;
    device_gate *gate = me->rank == 0 ? device_shut(call.stream) : NULL;
    CHECK_OK(weft_barrier(me->world, &call, &req));
    CHECK_INT(weft_wait(req, 100), WEFT_PENDING);
    job_meet(me);
    if (gate) device_open(gate);
    WAIT_OK(req);
    CHECK_OK(weft_barrier(me->world, NULL, NULL));
}

static void refused(job_rank *me)
{
    int32_t *in = job_buffer(me, bytes), *out = job_buffer(me, bytes);
    void *graph = NULL, *foreign = NULL;
    weft_request *req = NULL;
    weft_call call = {.stream = device_stream(1)};
    DEVICE_OK(device()->cudaStreamBeginCapture(call.stream, 1)); /* of this thread alone */
    /* In program order (test_graphs.c) it is refused because there is no communicator yet. */
    CHECK_STATUS(getenv("WEFT_DEVICE_ORDER") ? WEFT_ERR_STATE : WEFT_ERR_UNSUPPORTED,
                 weft_all_reduce(me->world, in, out, COUNT, WEFT_INT32, WEFT_SUM, &call, &req));
    CHECK_TEXT(weft_last_error(), "captur");
    CHECK(!req);
    DEVICE_OK(device()->cudaStreamEndCapture(call.stream, &graph));
    if (graph) {
        DEVICE_OK(device()->cudaGraphDestroy(graph));
    }
    if (device_of(me->rank + 1) != device_of(me->rank)) {
        DEVICE_OK(device()->cudaSetDevice(device_of(me->rank + 1)));
        DEVICE_OK(device()->cudaStreamCreateWithFlags(&foreign, 1));
        DEVICE_OK(device()->cudaSetDevice(device_of(me->rank)));
        call.stream = foreign;
        weft_status status = weft_all_reduce(me->world, in, out, COUNT, WEFT_INT32, WEFT_SUM, &call, &req);
        CHECK(status == WEFT_ERR_ARGUMENT || status == WEFT_ERR_UNSUPPORTED);
        CHECK_TEXT(weft_last_error(), "device");
        CHECK(!req);
    }
    job_meet(me);
    CHECK_OK(weft_all_reduce(me->world, in, out, COUNT, WEFT_INT32, WEFT_SUM, NULL, NULL));
}

/* While a thread captures in the global mode, which is the usual one, some calls of any thread would spoil that: not the
 * library's. */
static void beside_a_capture(job_rank *me)
{
    int32_t *in = job_buffer(me, bytes), *out = job_buffer(me, bytes);
    void *graph = NULL, *captured = device_stream(1);
    weft_call call = {.stream = WEFT_NO_STREAM};
    fill(in, me->rank);
    CHECK_OK(weft_all_reduce(me->world, in, out, COUNT, WEFT_INT32, WEFT_SUM, &call, NULL));
    job_meet(me);
    DEVICE_OK(device()->cudaStreamBeginCapture(captured, 0));
    CHECK_OK(weft_all_reduce(me->world, in, out, COUNT, WEFT_INT32, WEFT_SUM, &call, NULL));
    DEVICE_OK(device()->cudaStreamEndCapture(captured, &graph));
    if (graph) {
        DEVICE_OK(device()->cudaGraphDestroy(graph));
    }
    check_filled(out, ranks_sum(me), me->size);
}

/* Two communicators that are made at once have all that they need of each other's: what was got twice would have to be given
 * back, and that waits for the device, where an operation may wait for a rank whose communicator waits like that. */
static void two_made_at_once(job_rank *me)
{
    weft_request *reqs[2] = {NULL};
    weft_group *groups[2];
    uint64_t got;
    if (!device_is_emulated() || job_by_host()) return;
    for (int i = 0; i < 2; i++) groups[i] = job_group(me, me->size, "at once", 0);
    got = device()->emu_calls("cudaHostAlloc");
    device()->emu_script("cudaHostAlloc@*=delay:300");
    for (int i = 0; i < 2; i++)
        CHECK_OK(weft_barrier(groups[i], &(weft_call){.memory = WEFT_MEMORY_CUDA}, &reqs[i]));
    for (int i = 0; i < 2; i++) WAIT_OK(reqs[i]);
    device()->emu_script(NULL);
    CHECK_INT(device()->emu_calls("cudaHostAlloc"), got + 1);
    for (int i = 0; i < 2; i++) CHECK_OK(weft_group_free(groups[i]));
}

/* The first is needed; the second is NCCL's own check of programs that launch from several threads at once. */
static void variables_of_nccl(job_rank *me)
{
    const char *order = getenv("NCCL_LAUNCH_ORDER_IMPLICIT");
    CHECK_OK(weft_barrier(me->world, &(weft_call){.memory = WEFT_MEMORY_CUDA}, NULL));
    if (!job_by_host()) CHECK(order && !strcmp(order, "1"));
    CHECK(!getenv("NCCL_LAUNCH_RACE_FATAL"));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("after a stream", .ranks = 3, .body = after_a_stream),
        JOB_TEST("a batch after streams", .ranks = 2, .body = batch_after_streams),
        JOB_TEST("what was read is written", .ranks = 3, .body = overwrites_what_was_read),
        JOB_TEST("before a stream", .ranks = 3, .body = before_a_stream),
        JOB_TEST("a chain on the device", .ranks = 2, .body = chain),
        JOB_TEST("only its own stream", .ranks = 2, .body = only_its_own_stream),
        JOB_TEST("barriers", .ranks = 3, .body = barriers),
        JOB_TEST("capturing and foreign streams", .ranks = 2, .body = refused),
        JOB_TEST("beside a capture", .ranks = 2, .processes = true, .body = beside_a_capture),
        JOB_TEST("two communicators made at once", .ranks = 2, .processes = true, .body = two_made_at_once),
        JOB_TEST("variables of NCCL", .ranks = 2, .body = variables_of_nccl),
    };
    return JOB_MAIN(tests, argc, argv);
}
