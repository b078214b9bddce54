/* there_and_back.c - a program as users have them: linked with the real libcudart, run
 * with the emulated one. */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>

#define CHECK(call)                                                        \
    do {                                                                   \
        cudaError_t error = call;                                          \
        if (error) {                                                       \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error)); \
            return 1;                                                      \
        }                                                                  \
    } while (0)

int main(void)
{
    struct cudaDeviceProp prop;
    struct cudaPointerAttributes attributes;
    cudaStream_t stream;
    cudaEvent_t event;
    char text[] = "there", back[sizeof text];
    void *memory;

    CHECK(cudaGetDeviceProperties(&prop, 0));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    CHECK(cudaMalloc(&memory, sizeof text));
    CHECK(cudaPointerGetAttributes(&attributes, memory));
    CHECK(cudaMemcpyAsync(memory, text, sizeof text, cudaMemcpyHostToDevice, stream));
    CHECK(cudaEventRecord(event, stream));
    CHECK(cudaStreamWaitEvent(NULL, event, 0));
    CHECK(cudaMemcpy(back, memory, sizeof back, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(memory));
    CHECK(cudaEventDestroy(event));
    CHECK(cudaStreamDestroy(stream));
    printf("%s: %s\n", prop.name, back);
    return attributes.type == cudaMemoryTypeDevice && !strcmp(text, back) ? 0 : 1;
}
