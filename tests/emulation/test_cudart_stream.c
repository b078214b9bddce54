/* test_cudart_stream.c - streams, events and what waits for what. */
#include "emulation.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define OK(call) assert_int_equal(call, cudaSuccess)

enum { BYTES = 4096 };

static void a_copy_goes_there_and_back(void **state)
{
    char there[BYTES], back[BYTES];
    cudaStream_t stream;
    void *device;

    (void)state;
    memset(there, 0x5a, sizeof there);
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    OK(cudaMalloc(&device, BYTES));
    OK(cudaMemcpyAsync(device, there, BYTES, cudaMemcpyHostToDevice, stream));
    OK(cudaMemcpyAsync(back, device, BYTES, cudaMemcpyDeviceToHost, stream));
    assert_memory_equal(there, back, BYTES);
    OK(cudaFree(device));
    OK(cudaStreamDestroy(stream));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_goes_there_and_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
