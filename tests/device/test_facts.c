/* test_facts.c - what Weft's module relies on, asked of CUDA and NCCL themselves: Weft plays no part here.  On the
 * emulation this shows that it answers as the real ones do; on a GPU, that these still do.  How long things take is
 * printed and never judged: see gpu/results.md. */
#include "device.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAIR = 2, CALLS = 200, MEDIAN = CALLS / 2, PERCENTILE_99 = CALLS * 99 / 100, HELD_MS = 1000 };

#define CUDA(call) CHECK_INT(call, cudaSuccess)
#define NCCL(call) CHECK_INT(call, ncclSuccess)

/* ---- communicators without Weft ---- */

static ncclResult_t settle(ncclComm_t comm, ncclResult_t result)
{
    for (int ms = 0; result == ncclInProgress && ms < JOB_WAIT_MS; ms++) {
        job_sleep_ms(1);
        NCCL(ncclCommGetAsyncError(comm, &result));
    }
    return result;
}

static ncclComm_t join(job_rank *me, bool blocking)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t comm = NULL;
    ncclResult_t begun;
    ncclUniqueId id;
    device_use(me->rank);
    config.blocking = blocking;
    job_meet(me); /* the last one's id has been read */
    if (me->rank == 0) {
        NCCL(ncclGetUniqueId(&id));
        memcpy(job_results(me, 0), &id, sizeof id);
    }
    job_meet(me);
    memcpy(&id, job_results(me, 0), sizeof id);
    begun = ncclCommInitRankConfig(&comm, me->size, id, me->rank, &config);
    NCCL(settle(comm, begun));
    return comm;
}

/* One that blocks, split off one that does not.  The call says that all is well, and has only begun: NCCL writes the
 * handle later. */
static ncclComm_t split_blocking(ncclComm_t parent)
{
    static ncclComm_t child; /* NCCL has its address */
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 1;
    config.splitShare = 1;
    child = NULL;
    NCCL(ncclCommSplit(parent, 0, 0, &child, &config));
    NCCL(settle(parent, ncclInProgress));
    CHECK(child);
    return child;
}

static float *ones(job_rank *me, cudaStream_t stream)
{
    float *on_device = job_buffer(me, sizeof *on_device), one = 1;
    CUDA(cudaMemcpyAsync(on_device, &one, sizeof one, cudaMemcpyHostToDevice, stream));
    CUDA(cudaStreamSynchronize(stream));
    return on_device;
}

static ncclResult_t sum(ncclComm_t comm, float *at, cudaStream_t stream)
{
    return ncclAllReduce(at, at, 1, ncclFloat, ncclSum, comm, stream);
}

static int by_time(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* How long the call takes that gives the device a sum, and that the sums are right. */
static void time_calls(job_rank *me, const char *what, ncclComm_t comm)
{
    static int64_t took[CALLS];
    cudaStream_t stream = device_stream(1);
    float *at = ones(me, stream), result = 0;
    for (int i = 0; i < CALLS; i++) {
        int64_t before = job_now_ns();
        ncclResult_t called = sum(comm, at, stream);
        while (called == ncclInProgress) NCCL(ncclCommGetAsyncError(comm, &called));
        took[i] = job_now_ns() - before;
        NCCL(called);
        if (i == 0) CUDA(cudaMemcpyAsync(&result, at, sizeof result, cudaMemcpyDeviceToHost, stream));
        CUDA(cudaStreamSynchronize(stream));
    }
    CHECK(result == (float)me->size);
    qsort(took, CALLS, sizeof *took, by_time);
    if (me->rank == 0)
        printf("ncclAllReduce on a communicator %s: median %.1f us, 99th percentile %.1f us\n", what,
               (double)took[MEDIAN] / 1e3, (double)took[PERCENTILE_99] / 1e3);
}

/* ---- pointers ---- */

typedef CUresult attributes_fn(unsigned n, CUpointer_attribute *what, void **to, CUdeviceptr at);

static attributes_fn *find_attributes(void)
{
    enum cudaDriverEntryPointQueryResult how;
    attributes_fn *function = NULL;
    void *found = NULL;
#if CUDART_VERSION >= 13000
    CUDA(cudaGetDriverEntryPointByVersion("cuPointerGetAttributes", &found, 12000, cudaEnableDefault, &how));
#else
    CUDA(cudaGetDriverEntryPoint("cuPointerGetAttributes", &found, cudaEnableDefault, &how));
#endif
    memcpy(&function, &found, sizeof function); /* ISO C has no cast from an object to a function */
    CHECK(function);
    return function;
}

static void check_pointer(attributes_fn *attributes, const void *pointer, unsigned type, int device)
{
    CUpointer_attribute what[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                  CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    unsigned is_type = 99, managed = 99;
    int is_device = 99;
    void *to[] = {&is_type, &managed, &is_device};
    CHECK_INT(attributes(3, what, to, (CUdeviceptr)(uintptr_t)pointer), CUDA_SUCCESS);
    CHECK_INT(is_type, type);
    CHECK_INT(managed, 0);
    CHECK_INT(is_device, device);
}

/* What CUDA knows nothing of is told without an error, and makes no context. */
static void pointers(job_rank *me)
{
    enum { NO_MEMORY_OF_CUDA = 0, NO_DEVICE = -2 };
    attributes_fn *attributes;
    char *on_device, on_stack = 0;
    void *in_heap = job_alloc(me, 64);
    device_use(me->rank);
    attributes = find_attributes();
    on_device = job_buffer(me, 64);
    check_pointer(attributes, in_heap, NO_MEMORY_OF_CUDA, NO_DEVICE);
    check_pointer(attributes, &on_stack, NO_MEMORY_OF_CUDA, NO_DEVICE);
    check_pointer(attributes, (const void *)(uintptr_t)16, NO_MEMORY_OF_CUDA, NO_DEVICE);
    check_pointer(attributes, on_device, CU_MEMORYTYPE_DEVICE, device_of(me->rank));
    check_pointer(attributes, on_device + 1, CU_MEMORYTYPE_DEVICE, device_of(me->rank));
}

/* ---- calls ---- */

static void calls(job_rank *me)
{
    ncclComm_t blocking = join(me, true), nonblocking = join(me, false), child = split_blocking(nonblocking);
    time_calls(me, "that blocks", blocking);
    time_calls(me, "that does not block", nonblocking);
    time_calls(me, "that blocks, split off one that does not", child);
    NCCL(ncclCommDestroy(child));
    NCCL(settle(nonblocking, ncclCommFinalize(nonblocking)));
    ncclCommDestroy(nonblocking);
    NCCL(ncclCommDestroy(blocking));
}

/* ---- aborts ---- */

static void wait_for_word(void *word)
{
    while (!atomic_load((atomic_int *)word)) job_sleep_ms(1);
}

struct aborting {
    ncclComm_t comm;
    atomic_bool over;
};

static void *run_abort(void *arg)
{
    struct aborting *a = arg;
    ncclCommAbort(a->comm);
    atomic_store(&a->over, true);
    return NULL;
}

/* A stream of the program's that holds back a kernel of NCCL's holds back the abort too. */
static void abort_behind_a_stream(job_rank *me)
{
    static atomic_int word; /* outlives this */
    struct aborting a = {.comm = join(me, false)};
    cudaStream_t stream = device_stream(1);
    float *at = ones(me, stream);
    pthread_t thread;
    int64_t before;
    NCCL(settle(a.comm, sum(a.comm, at, stream)));
    CUDA(cudaStreamSynchronize(stream));
    job_meet(me);
    CUDA(cudaLaunchHostFunc(stream, wait_for_word, &word));
    NCCL(settle(a.comm, sum(a.comm, at, stream)));
    CHECK_INT(pthread_create(&thread, NULL, run_abort, &a), 0);
    job_sleep_ms(HELD_MS);
    CHECK(!atomic_load(&a.over));
    before = job_now_ns();
    atomic_store(&word, 1);
    CHECK_INT(pthread_join(thread, NULL), 0);
    if (me->rank == 0)
        printf("ncclCommAbort returned %.1f ms after the stream had gone on\n",
               (double)(job_now_ns() - before) / 1e6);
}

/* ---- what ends a kernel without the abort ---- */

#if defined NCCL_REVOKE_DEFAULT && defined NCCL_SHRINK_ABORT
/* Rank 0's kernel hangs, as the other never calls, and another stream of the device is held up meanwhile: the revoke ends the
 * one and does not wait for the other, as the abort that frees does. */
static void revoke_beside_a_stream(job_rank *me)
{
    static atomic_int word; /* outlives this */
    ncclComm_t comm = join(me, false);
    cudaStream_t stream = device_stream(1), other = device_stream(0);
    float *at = ones(me, stream);
    int64_t before;
    NCCL(settle(comm, sum(comm, at, stream)));
    CUDA(cudaStreamSynchronize(stream));
    job_meet(me);
    if (me->rank == 0) {
        CUDA(cudaLaunchHostFunc(other, wait_for_word, &word));
        NCCL(settle(comm, sum(comm, at, stream)));
        before = job_now_ns();
        NCCL(settle(comm, ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT)));
        CUDA(cudaStreamSynchronize(stream));
        printf("ncclCommRevoke was through after %.1f ms, beside a stream that is held up\n",
               (double)(job_now_ns() - before) / 1e6);
        CHECK_INT(cudaStreamQuery(other), cudaErrorNotReady);
        CHECK_INT(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT), ncclInvalidArgument);
        atomic_store(&word, 1);
        CUDA(cudaStreamSynchronize(other));
    }
    job_meet(me);
    NCCL(ncclCommAbort(comm));
}

/* The one that is left goes on with a communicator of its own; its call has only begun, and does not say so. */
static void shrink_with_abort(job_rank *me)
{
    static ncclComm_t rest; /* NCCL has its address */
    int without[] = {1};
    ncclComm_t comm = join(me, false);
    cudaStream_t stream = device_stream(1);
    float *at = ones(me, stream);
    int64_t before;
    NCCL(settle(comm, sum(comm, at, stream)));
    CUDA(cudaStreamSynchronize(stream));
    job_meet(me);
    if (me->rank == 0) {
        NCCL(settle(comm, sum(comm, at, stream)));
        before = job_now_ns();
        NCCL(ncclCommShrink(comm, without, 1, &rest, NULL, NCCL_SHRINK_ABORT));
        printf("ncclCommShrink held the caller for %.1f ms\n", (double)(job_now_ns() - before) / 1e6);
        NCCL(settle(comm, ncclInProgress));
        CHECK(rest);
        CUDA(cudaStreamSynchronize(stream));
        NCCL(settle(rest, sum(rest, at, stream)));
        CUDA(cudaStreamSynchronize(stream));
        NCCL(ncclCommAbort(rest));
    }
    job_meet(me);
    NCCL(ncclCommAbort(comm));
}
#endif

#define FACT(sentence, n, function) \
    JOB_TEST(sentence, .ranks = n, .processes = true, .bare = true, .body = function)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        FACT("what pointers point to", 1, pointers),
        FACT("calls on communicators that block, and that do not", PAIR, calls),
        FACT("an abort behind a stream", PAIR, abort_behind_a_stream),
#if defined NCCL_REVOKE_DEFAULT && defined NCCL_SHRINK_ABORT
        FACT("a revoke beside a stream", PAIR, revoke_beside_a_stream),
        FACT("a shrink with abort", PAIR, shrink_with_abort),
#endif
    };
    return JOB_MAIN(tests, argc, argv);
}
