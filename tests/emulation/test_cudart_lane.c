/* test_cudart_lane.c - hardware queues that streams share, as CUDA_DEVICE_MAX_CONNECTIONS says: two of each priority
 * here, to which streams go in turn. */
#include "cudart_check.h"

#include <cuda.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { BYTES = 256, SHORT_MS = 30 /* in which what nothing holds up would happen */ };

static CUresult (*wait_32)(CUstream stream, CUdeviceptr at, cuuint32_t value, unsigned flags);
static cudaStream_t first, beside, shares, urgent; /* the third is in the first one's lane */
static char *buffer;
static uint32_t *word; /* pinned */

static int set_up(void **state)
{
    int least, greatest;
    (void)state;
    if (!driver_has("cuStreamWaitValue32", &wait_32) || cudaSetDevice(0) ||
        cudaDeviceGetStreamPriorityRange(&least, &greatest) ||
        cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking) ||
        cudaStreamCreateWithFlags(&beside, cudaStreamNonBlocking) ||
        cudaStreamCreateWithFlags(&shares, cudaStreamNonBlocking) ||
        cudaStreamCreateWithPriority(&urgent, cudaStreamNonBlocking, greatest) ||
        cudaMalloc((void **)&buffer, 4 * BYTES) ||
        cudaHostAlloc((void **)&word, sizeof *word, cudaHostAllocPortable))
        return -1;
    *word = 0;
    return 0;
}

static int tear_down(void **state)
{
    cudaStream_t fourth; /* so that the next test's streams begin with the first lane */
    (void)state;
    __atomic_store_n(word, 1, __ATOMIC_RELEASE); /* where a test has failed before */
    return cudaStreamCreateWithFlags(&fourth, cudaStreamNonBlocking) || cudaStreamDestroy(fourth) ||
           cudaDeviceSynchronize() || cudaFreeHost(word) || cudaFree(buffer) || cudaStreamDestroy(first) ||
           cudaStreamDestroy(beside) || cudaStreamDestroy(shares) || cudaStreamDestroy(urgent);
}

static void fill(cudaStream_t stream, int part)
{
    FINE(cudaMemsetAsync(buffer + part * BYTES, 1, BYTES, stream));
}

static void is_held(cudaStream_t stream)
{
    nap_ms(SHORT_MS);
    assert_int_equal(cudaStreamQuery(stream), cudaErrorNotReady);
}

static void what_waits_holds_up_who_shares(void **state)
{
    cudaEvent_t event;
    (void)state;
    FINE(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    FINE(wait_32(first, (CUdeviceptr)(uintptr_t)word, 1, CU_STREAM_WAIT_VALUE_GEQ));
    fill(beside, 1);
    FINE(cudaStreamSynchronize(beside));
    FINE(cudaEventRecord(event, shares)); /* its stream has nothing else */
    fill(shares, 2);
    is_held(shares);
    assert_int_equal(cudaEventQuery(event), cudaErrorNotReady);
    __atomic_store_n(word, 1, __ATOMIC_RELEASE);
    FINE(cudaStreamSynchronize(shares));
    FINE(cudaStreamSynchronize(first));
    FINE(cudaEventDestroy(event));
}

static void another_priority_has_its_own(void **state)
{
    (void)state;
    FINE(wait_32(first, (CUdeviceptr)(uintptr_t)word, 1, CU_STREAM_WAIT_VALUE_GEQ));
    fill(urgent, 1);
    FINE(cudaStreamSynchronize(urgent));
    __atomic_store_n(word, 1, __ATOMIC_RELEASE);
    FINE(cudaStreamSynchronize(first));
}

static void stand(void *arg)
{
    while (!atomic_load((atomic_int *)arg)) nap_ms(1);
}

/* What has begun holds nobody up; what comes after it on its stream does. */
static void what_runs_does_not(void **state)
{
    static atomic_int go;
    (void)state;
    FINE(cudaLaunchHostFunc(first, stand, &go));
    fill(shares, 1);
    FINE(cudaStreamSynchronize(shares));
    fill(first, 2);
    fill(shares, 3);
    is_held(shares);
    atomic_store(&go, 1);
    FINE(cudaStreamSynchronize(shares));
    FINE(cudaStreamSynchronize(first));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_waits_holds_up_who_shares, set_up, tear_down),
        cmocka_unit_test_setup_teardown(another_priority_has_its_own, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_runs_does_not, set_up, tear_down),
    };
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "2", 1); /* read when the first stream is made */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
