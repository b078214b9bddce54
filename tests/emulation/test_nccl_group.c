/* test_nccl_group.c - group calls: collectives together, messages between pairs that need each other, several
 * communicators and several streams in one. */
#include "nccl_ranks.h"

#include <stdlib.h>

static void close_rank(ncclComm_t comm, cudaStream_t stream)
{
    CUDA(cudaStreamDestroy(stream));
    NCCL(ncclCommDestroy(comm));
}

/* Nothing is queued before the end; then it is one kernel. */
static void collectives_go_together(job_rank *me)
{
    enum { CALLS = 5 };
    ncclComm_t comm = new_comm(me);
    cudaStream_t stream = new_stream(me);
    int values[CALLS];
    int *device;

    for (int i = 0; i < CALLS; i++) values[i] = i + me->rank;
    device = to_device(values, sizeof values);
    NCCL(ncclGroupStart());
    for (int i = 0; i < CALLS; i++)
        NCCL(ncclAllReduce(device + i, device + i, 1, ncclInt32, ncclSum, comm, stream));
    CUDA(cudaStreamQuery(stream));
    NCCL(ncclGroupStart());
    NCCL(ncclBroadcast(device, device, 1, ncclInt32, 0, comm, stream));
    NCCL(ncclGroupEnd());
    CUDA(cudaStreamQuery(stream)); /* the inner end ends nothing */
    NCCL(ncclGroupEnd());
    to_host(values, device, sizeof values, stream);
    for (int i = 0; i < CALLS; i++) CHECK_INT(values[i], i * me->size + me->size * (me->size - 1) / 2);
    CUDA(cudaFree(device));
    close_rank(comm, stream);
}

/* Everybody to everybody, many of them, in the same order on both ends only per pair. */
static void hundreds_of_messages(job_rank *me)
{
    enum { ROUNDS = 60, ITEMS = 700 };
    ncclComm_t comm = new_comm(me);
    cudaStream_t stream = new_stream(me);
    size_t count = (size_t)me->size * ROUNDS * ITEMS;
    int *host = malloc(count * sizeof *host);

    CHECK(host);
    for (size_t i = 0; i < count; i++) host[i] = me->rank * 1000000 + (int)i;
    int *out = to_device(host, count * sizeof *host), *in = to_device(NULL, count * sizeof *host);
    NCCL(ncclGroupStart());
    for (int k = 0; k < ROUNDS; k++)
        for (int p = 0; p < me->size; p++) {
            int peer = (p + me->rank) % me->size;
            size_t at = ((size_t)peer * ROUNDS + (size_t)k) * ITEMS;
            NCCL(ncclSend(out + at, ITEMS, ncclInt32, peer, comm, stream));
            NCCL(ncclRecv(in + at, ITEMS, ncclInt32, peer, comm, stream));
        }
    NCCL(ncclGroupEnd());
    to_host(host, in, count * sizeof *host, stream);
    for (size_t i = 0; i < count; i++) {
        int peer = (int)(i / (ROUNDS * ITEMS));
        CHECK_INT(host[i], peer * 1000000 + me->rank * ROUNDS * ITEMS + (int)(i % (ROUNDS * ITEMS)));
    }
    free(host);
    CUDA(cudaFree(out));
    CUDA(cudaFree(in));
    close_rank(comm, stream);
}

/* Larger than what fits between two ranks: goes only because both directions are in one group. */
static void large_messages_cross(job_rank *me)
{
    enum { BYTES = 1 << 20 };
    ncclComm_t comm = new_comm(me);
    cudaStream_t stream = new_stream(me);
    char *host = malloc(BYTES);
    int next = (me->rank + 1) % me->size, before = (me->rank + me->size - 1) % me->size;

    CHECK(host);
    memset(host, 'a' + me->rank, BYTES);
    char *out = to_device(host, BYTES), *in = to_device(NULL, BYTES);
    NCCL(ncclGroupStart());
    NCCL(ncclSend(out, BYTES, ncclChar, next, comm, stream));
    NCCL(ncclRecv(in, BYTES, ncclChar, before, comm, stream));
    NCCL(ncclGroupEnd());
    to_host(host, in, BYTES, stream);
    for (int i = 0; i < BYTES; i += 997) CHECK_INT(host[i], 'a' + before);
    free(host);
    CUDA(cudaFree(out));
    CUDA(cudaFree(in));
    close_rank(comm, stream);
}

/* A large message waits for its receiver, when the two are connected. */
static void a_send_waits(job_rank *me)
{
    enum { BYTES = 1 << 20 };
    ncclComm_t comm = new_comm(me);
    cudaStream_t stream = new_stream(me);
    char *device = to_device(NULL, BYTES);

    NCCL(me->rank ? ncclRecv(device, 1, ncclChar, 0, comm, stream)
                  : ncclSend(device, 1, ncclChar, 1, comm, stream));
    CUDA(cudaStreamSynchronize(stream));
    if (me->rank == 0) {
        NCCL(ncclSend(device, BYTES, ncclChar, 1, comm, stream));
        CHECK(!stream_ends(stream, 50));
        job_meet(me);
    } else {
        job_meet(me);
        NCCL(ncclRecv(device, BYTES, ncclChar, 0, comm, stream));
    }
    CUDA(cudaStreamSynchronize(stream));
    CUDA(cudaFree(device));
    close_rank(comm, stream);
}

static void to_itself_only_in_a_pair(job_rank *me)
{
    ncclComm_t comm = new_comm(me);
    cudaStream_t stream = new_stream(me);
    int value = 7;
    int *out = to_device(&value, sizeof value), *in = to_device(NULL, sizeof value);

    NCCL_IS(ncclSend(out, 1, ncclInt32, me->rank, comm, stream), ncclInvalidUsage);
    NCCL(ncclGroupStart());
    NCCL(ncclSend(out, 1, ncclInt32, me->rank, comm, stream));
    NCCL(ncclRecv(in, 1, ncclInt32, me->rank, comm, stream));
    NCCL(ncclGroupEnd());
    value = 0;
    to_host(&value, in, sizeof value, stream);
    CHECK_INT(value, 7);
    CUDA(cudaFree(out));
    CUDA(cudaFree(in));
    close_rank(comm, stream);
}

/* Two communicators of one rank, in one group call and in turns. */
static void two_communicators(job_rank *me)
{
    ncclComm_t a = new_comm(me), b = new_comm(me);
    cudaStream_t first = new_stream(me), second = new_stream(me);
    int values[2] = {me->rank, 10};
    int *device = to_device(values, sizeof values);

    NCCL(ncclGroupStart());
    NCCL(ncclAllReduce(device, device, 1, ncclInt32, ncclSum, a, first));
    NCCL(ncclAllReduce(device + 1, device + 1, 1, ncclInt32, ncclSum, b, second));
    NCCL(ncclGroupEnd());
    for (int i = 0; i < 20; i++) {
        NCCL(ncclAllReduce(device, device, 1, ncclInt32, ncclMax, a, first));
        NCCL(ncclAllReduce(device + 1, device + 1, 1, ncclInt32, ncclMax, b, second));
    }
    CUDA(cudaStreamSynchronize(first));
    to_host(values, device, sizeof values, second);
    CHECK_INT(values[0], me->size * (me->size - 1) / 2);
    CHECK_INT(values[1], 10 * me->size);
    CUDA(cudaFree(device));
    CUDA(cudaStreamDestroy(first));
    NCCL(ncclCommDestroy(a));
    close_rank(b, second);
}

/* One kernel, after what both streams hold and before what they hold next. */
static void several_streams_in_one_group(job_rank *me)
{
    ncclComm_t comm = new_comm(me);
    cudaStream_t streams[2] = {new_stream(me), new_stream(me)};
    int values[2] = {me->rank, 5}, results[2] = {0, 0};
    int *device = to_device(NULL, sizeof values);

    for (int i = 0; i < 2; i++)
        CUDA(cudaMemcpyAsync(device + i, values + i, sizeof *values, cudaMemcpyHostToDevice, streams[i]));
    NCCL(ncclGroupStart());
    for (int i = 0; i < 2; i++)
        NCCL(ncclAllReduce(device + i, device + i, 1, ncclInt32, ncclSum, comm, streams[i]));
    NCCL(ncclGroupEnd());
    for (int i = 0; i < 2; i++) to_host(results + i, device + i, sizeof *results, streams[i]);
    CHECK_INT(results[0], me->size * (me->size - 1) / 2);
    CHECK_INT(results[1], 5 * me->size);
    CUDA(cudaFree(device));
    CUDA(cudaStreamDestroy(streams[0]));
    close_rank(comm, streams[1]);
}

/* NULL is the default stream of the communicator's device, whatever device the thread is on. */
static void the_default_stream(job_rank *me)
{
    ncclComm_t comm = new_comm(me);
    int value = me->rank + 1;
    int *device = to_device(&value, sizeof value);

    CUDA(cudaSetDevice((me->rank + 1) % me->size));
    NCCL(ncclAllReduce(device, device, 1, ncclInt32, ncclSum, comm, NULL));
    CUDA(cudaSetDevice(me->rank));
    CUDA(cudaMemcpy(&value, device, sizeof value, cudaMemcpyDeviceToHost));
    CHECK_INT(value, me->size * (me->size + 1) / 2);
    CUDA(cudaFree(device));
    NCCL(ncclCommDestroy(comm));
}

/* A refused call makes the end fail, and nothing of the group call is started. */
static void an_error_inside_fails_the_end(job_rank *me)
{
    ncclComm_t comm = new_comm(me);
    cudaStream_t stream = new_stream(me);
    int value = 1;
    int *device = to_device(&value, sizeof value);

    NCCL_IS(ncclGroupEnd(), ncclInvalidUsage);
    NCCL(ncclGroupStart());
    NCCL(ncclAllReduce(device, device, 1, ncclInt32, ncclSum, comm, stream));
    NCCL_IS(ncclBroadcast(device, device, 1, ncclInt32, me->size, comm, stream), ncclInvalidArgument);
    NCCL_IS(ncclGroupEnd(), ncclInvalidArgument);
    CHECK(strstr(ncclGetLastError(comm), "root")); /* of the process, not of the thread */
    CUDA(cudaStreamQuery(stream));
    NCCL_IS(ncclAllReduce(device, device, 1, (ncclDataType_t)77, ncclSum, comm, stream), ncclInvalidArgument);
    NCCL_IS(ncclAllReduce(device, device, 1, ncclInt32, (ncclRedOp_t)77, comm, stream), ncclInvalidArgument);
    NCCL_IS(ncclAllReduce(NULL, device, 1, ncclInt32, ncclSum, comm, stream), ncclInvalidArgument);
    NCCL_IS(ncclAllReduce(device, device, 1, ncclInt32, ncclSum, NULL, stream), ncclInvalidArgument);
    NCCL(ncclAllReduce(device, device, 1, ncclInt32, ncclSum, comm, stream));
    to_host(&value, device, sizeof value, stream);
    CHECK_INT(value, me->size);
    CUDA(cudaFree(device));
    close_rank(comm, stream);
}

/* Nonblocking: the end returns at once, the communicator says when it is done. */
static void nonblocking_groups(job_rank *me)
{
    ncclComm_t comm = new_nonblocking_comm(me);
    cudaStream_t stream = new_stream(me);
    int value = 1, want = 1;
    int *device = to_device(&value, sizeof value);

    for (int i = 0; i < 20; i++) {
        ncclResult_t result;
        NCCL(ncclGroupStart());
        NCCL(ncclAllReduce(device, device, 1, ncclInt32, ncclMax, comm, stream));
        result = ncclGroupEnd();
        CHECK(result == ncclInProgress || result == ncclSuccess);
        NCCL(settled(comm));
    }
    NCCL_IS(ncclAllReduce(device, device, 1, ncclInt32, ncclSum, comm, stream), ncclInProgress);
    NCCL(settled(comm));
    for (int r = 1; r < me->size; r++) want++;
    to_host(&value, device, sizeof value, stream);
    CHECK_INT(value, want);
    NCCL_IS(ncclCommFinalize(comm), ncclInProgress);
    NCCL(settled(comm));
    CUDA(cudaFree(device));
    close_rank(comm, stream);
}

#if NCCL_VERSION_CODE >= 22200
/* What was collected is not carried out. */
static void a_simulated_end(job_rank *me)
{
    ncclComm_t comm = new_comm(me);
    cudaStream_t stream = new_stream(me);
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    int value = 1;
    int *device = to_device(&value, sizeof value);

    NCCL(ncclGroupStart());
    if (!me->rank) NCCL(ncclAllReduce(device, device, 1, ncclInt32, ncclSum, comm, stream));
    NCCL(ncclGroupSimulateEnd(&info));
    CHECK(info.estimatedTime > 0);
    CUDA(cudaStreamQuery(stream));
    NCCL(ncclAllReduce(device, device, 1, ncclInt32, ncclSum, comm, stream));
    to_host(&value, device, sizeof value, stream);
    CHECK_INT(value, me->size);
    CUDA(cudaFree(device));
    close_rank(comm, stream);
}
#endif

/* The form of NCCL's documentation: one thread, all devices. */
static void one_thread_many_devices(job_rank *me)
{
    enum { DEVICES = 4 };
    ncclComm_t comms[DEVICES];
    cudaStream_t streams[DEVICES];
    int *buffers[DEVICES];
    int count, device, rank;

    (void)me;
    NCCL(ncclCommInitAll(comms, DEVICES, NULL));
    for (int i = 0; i < DEVICES; i++) {
        CUDA(cudaSetDevice(i));
        CUDA(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
        buffers[i] = to_device(&i, sizeof i);
        NCCL(ncclCommCount(comms[i], &count));
        NCCL(ncclCommCuDevice(comms[i], &device));
        NCCL(ncclCommUserRank(comms[i], &rank));
        CHECK(count == DEVICES && device == i && rank == i);
    }
    NCCL(ncclGroupStart());
    for (int i = 0; i < DEVICES; i++)
        NCCL(ncclAllReduce(buffers[i], buffers[i], 1, ncclInt32, ncclSum, comms[i], streams[i]));
    NCCL(ncclGroupEnd());
    for (int i = 0; i < DEVICES; i++) {
        CUDA(cudaSetDevice(i));
        to_host(&rank, buffers[i], sizeof rank, streams[i]);
        CHECK_INT(rank, DEVICES * (DEVICES - 1) / 2);
        CUDA(cudaFree(buffers[i]));
        CUDA(cudaStreamDestroy(streams[i]));
    }
    for (int i = 0; i < DEVICES; i++) NCCL(ncclCommDestroy(comms[i]));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("collectives go together", .ranks = 3, .bare = true, .body = collectives_go_together),
        JOB_TEST("hundreds of messages", .ranks = 4, .bare = true, .body = hundreds_of_messages),
        JOB_TEST("hundreds between threads", .ranks = 3, .bare = true, .threads = true,
                 .body = hundreds_of_messages),
        JOB_TEST("large messages cross", .ranks = 3, .bare = true, .body = large_messages_cross),
        JOB_TEST("a send waits", .ranks = 2, .bare = true, .body = a_send_waits),
        JOB_TEST("to itself only in a pair", .ranks = 2, .bare = true, .body = to_itself_only_in_a_pair),
        JOB_TEST("two communicators", .ranks = 4, .bare = true, .body = two_communicators),
        JOB_TEST("several streams in one group", .ranks = 2, .bare = true,
                 .body = several_streams_in_one_group),
        JOB_TEST("the default stream", .ranks = 2, .bare = true, .body = the_default_stream),
        JOB_TEST("an error inside fails the end", .ranks = 2, .bare = true, .processes = true,
                 .body = an_error_inside_fails_the_end),
        JOB_TEST("nonblocking groups", .ranks = 3, .bare = true, .body = nonblocking_groups),
#if NCCL_VERSION_CODE >= 22200
        JOB_TEST("a simulated end", .ranks = 2, .bare = true, .body = a_simulated_end),
#endif
        JOB_TEST("one thread, many devices", .ranks = 1, .bare = true, .body = one_thread_many_devices),
    };

    return JOB_MAIN(tests, argc, argv);
}
