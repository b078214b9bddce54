/* test_mixing.c - programs that call NCCL themselves, on the communicator and the stream of a group of Weft's. */
#include "device.h"
#include "program.h"

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <stdlib.h>
#include <weft/cuda.h>

enum { RANKS = 3, ROUNDS = 20, COUNT = 1000 };

#define NCCL(call) CHECK_INT(call, ncclSuccess)

static void await(ncclComm_t comm, ncclResult_t result)
{
    for (int ms = 0; result == ncclInProgress && ms < JOB_WAIT_MS; ms++) {
        job_sleep_ms(1);
        NCCL(ncclCommGetAsyncError(comm, &result));
    }
    NCCL(result);
}

static void fill(float *at, float value)
{
    float image[COUNT];
    for (int i = 0; i < COUNT; i++) image[i] = value;
    job_put(at, image, sizeof image);
}

static void check_filled(const float *at, float value)
{
    float image[COUNT];
    int wrong = 0;
    job_get(image, at, sizeof image);
    for (int i = 0; i < COUNT; i++) wrong += image[i] != value;
    CHECK_INT(wrong, 0);
}

static void make(weft_group *group)
{
    const weft_call device = {.stream = WEFT_NO_STREAM, .memory = WEFT_MEMORY_CUDA};
    CHECK_OK(weft_barrier(group, &device, NULL));
}

/* A sum of the program's between two of Weft's, on the stream of the communicator or on one of the program's. */
static void take_turns(job_rank *me)
{
    float *sum = job_buffer(me, COUNT * sizeof *sum), expected = 1;
    fill(sum, 1);
    make(me->world);
    for (int round = 0; round < ROUNDS; round++) {
        const weft_call call = {.stream = WEFT_NO_STREAM};
        ncclComm_t comm = (ncclComm_t)weft_nccl_communicator(me->world);
        cudaStream_t own = round % 2 ? device_stream(0) : (cudaStream_t)weft_nccl_stream(me->world);
        int size = 0;
        CHECK(comm && own);
        NCCL(ncclCommCount(comm, &size));
        CHECK_INT(size, me->size);
        await(comm, ncclAllReduce(sum, sum, COUNT, ncclFloat, ncclSum, comm, own));
        device_sync(own);
        CHECK_OK(weft_all_reduce(me->world, sum, sum, COUNT, WEFT_FLOAT32, WEFT_MAX, &call, NULL));
        CHECK_OK(weft_all_reduce(me->world, sum, sum, COUNT, WEFT_FLOAT32, WEFT_AVG, &call, NULL));
        expected *= (float)me->size;
        check_filled(sum, expected);
        fill(sum, expected = 1);
    }
}

/* The program's own runs on, while Weft's next one is submitted behind it: ordered by the communicator. */
static void queue_behind(job_rank *me)
{
    float *sum = job_buffer(me, COUNT * sizeof *sum);
    fill(sum, 1);
    make(me->world);
    for (int round = 0; round < ROUNDS; round++) {
        ncclComm_t comm = (ncclComm_t)weft_nccl_communicator(me->world);
        cudaStream_t stream = (cudaStream_t)weft_nccl_stream(me->world);
        const weft_call call = {.stream = stream};
        CHECK(comm && stream);
        device_delay(stream, 2000);
        await(comm, ncclAllReduce(sum, sum, COUNT, ncclFloat, ncclSum, comm, stream));
        CHECK_OK(weft_all_reduce(me->world, sum, sum, COUNT, WEFT_FLOAT32, WEFT_AVG, &call, NULL));
        check_filled(sum, (float)me->size);
        fill(sum, 1);
    }
}

static void refusals(job_rank *me)
{
    const weft_call held = {.stream = device_stream(0)};
    weft_request *req = NULL;
    float *sum = job_buffer(me, COUNT * sizeof *sum);
    weft_group *group = job_group(me, RANKS, "mixed", 0);
    CHECK(!weft_nccl_communicator(NULL) && !weft_nccl_stream(NULL));
    CHECK_TEXT(weft_last_error(), "group is NULL");
    CHECK(!weft_nccl_communicator(group) && !weft_nccl_stream(group));
    CHECK_TEXT(weft_last_error(), "nccl_stream: group mixed has no communicator yet");
    make(group);
    CHECK(weft_nccl_communicator(group) && weft_nccl_stream(group));
    job_meet(me);
    if (me->rank == 1) job_sleep_ms(100);
    device_delay(device_stream(0), 100000);
    CHECK_OK(weft_all_reduce(group, sum, sum, COUNT, WEFT_FLOAT32, WEFT_SUM, &held, &req));
    CHECK(!weft_nccl_communicator(group)); /* submitted, and not agreed on where rank 1 is late */
    CHECK_OK(weft_stream_wait(req, device_stream(0)));
    CHECK(!weft_nccl_communicator(group)); /* issued, and held up by the stream */
    CHECK_TEXT(weft_last_error(), "an operation on device memory is under way in group mixed");
    CHECK_OK(weft_wait(req, WEFT_FOREVER));
    weft_release(req);
    CHECK(weft_nccl_communicator(group));
    job_meet(me);
    CHECK_OK(weft_group_abort(group, "enough"));
    CHECK(!weft_nccl_communicator(group));
    CHECK_TEXT(weft_last_error(), "enough");
    job_sum_works(me->world);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("turns", .ranks = RANKS, .body = take_turns),
        JOB_TEST("behind the program's own", .ranks = RANKS, .body = queue_behind),
        JOB_TEST("refusals", .ranks = RANKS, .body = refusals),
    };
    return JOB_MAIN(tests, argc, argv);
}
