/* test_per_thread.c - a program whose default stream is each thread's own, as nvcc's --default-stream per-thread makes it. */
#define CUDA_API_PER_THREAD_DEFAULT_STREAM 1
#include "sum.h"

#include <string.h>
#include <weft/cuda.h>

enum { PAUSE_US = 50000, BLOCKING = 0, WAIT_MS = 100 };

/* What the program's own 0 means writes the input after a pause. */
static operands late_operands(job_rank *me)
{
    operands fresh = take_operands(me), o = {job_buffer(me, bytes), job_buffer(me, bytes)};
    device_delay(WEFT_DEFAULT_STREAM, PAUSE_US);
    device_copy(o.in, fresh.in, bytes, WEFT_DEFAULT_STREAM);
    return o;
}

/* After that stream and before it, as either: NULL is the legacy stream, which waits for the threads' and they for it. */
static void in_order(job_rank *me)
{
    void *const streams[] = {WEFT_DEFAULT_STREAM, NULL};
    CHECK((uintptr_t)WEFT_DEFAULT_STREAM == 2); /* cudaStreamPerThread */
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++) {
        operands o = late_operands(me);
        int32_t *copy = job_buffer(me, bytes);
        weft_call call = {.stream = streams[i]};
        weft_request *req = begin_sum(me->world, o, &call);
        CHECK_OK(weft_stream_wait(req, streams[i]));
        device_copy(copy, o.out, bytes, WEFT_DEFAULT_STREAM);
        DEVICE_OK(device()->cudaStreamSynchronize(WEFT_DEFAULT_STREAM));
        WAIT_OK(req);
        weft_release(req);
        check_sum(me->size, copy);
    }
}

/* Another stream of the program's that holds up the legacy one. */
static void alone(job_rank *me)
{
    void *other = NULL;
    operands o = take_operands(me);
    DEVICE_OK(device()->cudaStreamCreateWithFlags(&other, BLOCKING));
    CHECK_OK(
        weft_all_reduce(me->world, o.in, o.out, COUNT, WEFT_INT32, WEFT_SUM, NULL, NULL)); /* NCCL connects */
    device_gate *gate = device_shut(other);
    weft_call call = {.stream = WEFT_DEFAULT_STREAM};
    weft_request *req = begin_sum(me->world, o, &call);
    WAIT_OK(req);
    weft_release(req);
    call.stream = NULL;
    req = begin_sum(me->world, o, &call);
    CHECK_INT(weft_wait(req, WAIT_MS), WEFT_PENDING);
    job_meet(me);
    device_open(gate);
    WAIT_OK(req);
    weft_release(req);
    check_sum(me->size, o.out);
    job_meet(me);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("in order", .ranks = 2, .body = in_order),
        JOB_TEST("alone", .ranks = 2, .processes = true, .body = alone),
    };
    return JOB_MAIN(tests, argc, argv);
}
