// sticky.cu - a kernel of the program writes where nothing is, and its error stays with the process for good: whatever
// CUDA is asked for from then on fails with it.  That is not for the emulation, which has no kernels of programs: run
// by run.sh, with two ranks.
//
// Rank 1's device goes down.  Its sum on the device is refused or ends with a sentence of CUDA's; rank 0's ends too, by
// its deadline at the latest; host memory goes on on another group; the job ends.
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>

enum { COUNT = 1000, DEADLINE_MS = 5000 };

#define MUST(call)                                                                                      \
    do {                                                                                                \
        weft_status status_ = (call);                                                                   \
        if (status_ != WEFT_OK) fail(__LINE__, #call, weft_status_text(status_), weft_last_error());    \
    } while (0)
#define CUDA(call)                                                                                      \
    do {                                                                                                \
        cudaError_t error_ = (call);                                                                    \
        if (error_ != cudaSuccess) fail(__LINE__, #call, cudaGetErrorString(error_), "");               \
    } while (0)

static int rank = -1;

static void fail(int line, const char *what, const char *why, const char *more)
{
    fprintf(stderr, "sticky: rank %d, line %d: %s: %s %s\n", rank, line, what, why, more);
    exit(1);
}

__global__ static void write_nowhere(int *p)
{
    *p = 1;
}

// The sentence of a sum on the device that must not end well.
static void sum_fails(weft_group *group, int *on_device, char *sentence, size_t bytes)
{
    weft_request *req = nullptr;
    weft_status status = weft_all_reduce(group, on_device, on_device, COUNT, WEFT_INT32, WEFT_SUM, nullptr, &req);
    if (status == WEFT_OK) status = weft_wait(req, 2 * DEADLINE_MS);
    if (status == WEFT_OK || status == WEFT_PENDING)
        fail(__LINE__, "a sum on a device that is down", weft_status_text(status), "");
    snprintf(sentence, bytes, "%s", req ? weft_request_message(req) : weft_last_error());
    weft_release(req);
}

int main(void)
{
    weft_context *ctx = nullptr;
    weft_group *host = nullptr;
    int *on_device, in_host[COUNT];
    char sentence[2000];
    MUST(weft_init(nullptr, &ctx));
    weft_group *world = weft_world(ctx);
    rank = weft_group_rank(world);
    int members[] = {0, 1};
    MUST(weft_new_group(world, members, 2, nullptr, &host, nullptr));
    MUST(weft_group_set_timeout(world, DEADLINE_MS));
    CUDA(cudaSetDevice(0));
    CUDA(cudaMalloc(&on_device, COUNT * sizeof(int)));
    CUDA(cudaMemset(on_device, 0, COUNT * sizeof(int)));
    CUDA(cudaDeviceSynchronize());
    MUST(weft_all_reduce(world, on_device, on_device, COUNT, WEFT_INT32, WEFT_SUM, nullptr, nullptr));
    if (rank == 1) {
        write_nowhere<<<1, 1>>>(reinterpret_cast<int *>(0x700000000000));
        if (cudaDeviceSynchronize() == cudaSuccess) fail(__LINE__, "a write to nowhere", "it went well", "");
    }
    sum_fails(world, on_device, sentence, sizeof sentence);
    printf("rank %d: %s\n", rank, sentence);
    if (rank == 1 && !strstr(sentence, "CUDA says")) fail(__LINE__, "rank 1's sentence", "it has none of CUDA's", "");
    for (int i = 0; i < COUNT; i++) in_host[i] = i;
    MUST(weft_all_reduce(host, in_host, in_host, COUNT, WEFT_INT32, WEFT_SUM, nullptr, nullptr));
    if (in_host[COUNT - 1] != 2 * (COUNT - 1)) fail(__LINE__, "a sum in host memory", "it is wrong", "");
    MUST(weft_finalize(ctx, DEADLINE_MS));
    printf("rank %d: the rest of the job goes on\n", rank);
    return 0;
}
