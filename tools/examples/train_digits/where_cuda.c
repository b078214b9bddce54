/* where_cuda.c - see where.h: a CUDA device.  Kernels are nvcc's where this program was built with it.  Else
 * they are those of the host, queued on the stream like a GPU's, on memory that both can touch: slow, but the
 * order of things, and all of Weft's part, are the same. */
#include "check.h"
#include "where.h"

#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>
#include <weft/cuda.h>

enum { MARKS_MAX = 2048 };

static struct {
    cudaStream_t stream;
    cudaEvent_t marks[MARKS_MAX]; /* made when first used */
    int64_t made, marked;
    cudaEvent_t settled; /* the last thing before all was done .. */
    int64_t settled_ns;  /* .. and when that was seen */
    bool is_settled;     /* nothing has been marked since */
    bool moved;          /* the stream has got something to do since the last mark */
} cuda;

static void must(cudaError_t error, const char *what)
{
    if (error != cudaSuccess) fail("%s: %s", what, cudaGetErrorString(error));
}

/* ---- memory -------------------------------------------------------------------------------------------- */

static void *take(size_t bytes)
{
    void *at = NULL;
#ifdef TRAIN_DIGITS_NVCC
    must(cudaMalloc(&at, bytes ? bytes : 1), "allocating device memory");
#else
    must(cudaMallocManaged(&at, bytes ? bytes : 1, cudaMemAttachGlobal), "allocating managed memory");
#endif
    must(cudaMemsetAsync(at, 0, bytes, cuda.stream), "clearing device memory");
    return at;
}

static void give_back(void *at)
{
    must(cudaFree(at), "freeing device memory");
}

static void copy(void *to, const void *from, size_t bytes)
{
    cuda.moved = true;
    must(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, cuda.stream), "copying to or from the device");
    must(cudaStreamSynchronize(cuda.stream), "copying to or from the device");
}

/* ---- kernels ------------------------------------------------------------------------------------------- */

#ifdef TRAIN_DIGITS_NVCC

static void run(const struct kernel *kernel, const void *arguments)
{
    cuda.moved = true;
    must((cudaError_t)kernel->on_device(arguments, cuda.stream), kernel->name);
}

#else

struct queued {
    const struct kernel *kernel;
    max_align_t arguments[];
};

static void run_queued(void *arg)
{
    struct queued *queued = arg;
    queued->kernel->on_host(queued->arguments);
    free(queued);
}

static void run(const struct kernel *kernel, const void *arguments)
{
    struct queued *queued = malloc(sizeof(*queued) + kernel->bytes);
    if (!queued) fail("no memory to queue a kernel");
    cuda.moved = true;
    queued->kernel = kernel;
    memcpy(queued->arguments, arguments, kernel->bytes);
    must(cudaLaunchHostFunc(cuda.stream, run_queued, queued), kernel->name);
}

#endif

/* ---- order and time ------------------------------------------------------------------------------------ */

static void *stream(void)
{
    return cuda.stream;
}

static weft_status await(weft_request *req)
{
    cuda.moved = true;
    return weft_stream_wait(req, cuda.stream);
}

static void settle(void)
{
    must(cudaEventRecord(cuda.settled, cuda.stream), "recording an event");
    must(cudaEventSynchronize(cuda.settled), "waiting for the device");
    cuda.settled_ns = now_ns();
    cuda.is_settled = true;
}

static int64_t mark(void)
{
    if (cuda.is_settled) cuda.marked = 0;
    if (cuda.marked && !cuda.moved) return cuda.marked;
    cuda.is_settled = cuda.moved = false;
    if (cuda.marked == MARKS_MAX) fail("more than %d marks between two settlings", MARKS_MAX);
    if (cuda.marked == cuda.made) must(cudaEventCreate(&cuda.marks[cuda.made++]), "making an event");
    must(cudaEventRecord(cuda.marks[cuda.marked++], cuda.stream), "recording an event");
    return cuda.marked;
}

static int64_t time_of(int64_t mark)
{
    float ms = 0;
    if (mark == 0) return 0;
    must(cudaEventElapsedTime(&ms, cuda.marks[mark - 1], cuda.settled), "reading an event's time");
    return cuda.settled_ns - (int64_t)((double)ms * 1e6);
}

void where_choose_device(const weft_context *job)
{
    static const struct where device = {
#ifdef TRAIN_DIGITS_NVCC
        "CUDA devices",
#else
        "CUDA devices, whose kernels are functions of the host",
#endif
        take,           give_back, copy, run, stream, await, settle, mark, time_of};
    if (weft_device(job) < 0)
        fail("--device: this rank has no CUDA device (backends here: %s)", weft_backends(job));
    must(cudaSetDevice(weft_device(job)), "choosing the device");
    must(cudaStreamCreateWithFlags(&cuda.stream, cudaStreamNonBlocking), "making a stream");
    must(cudaEventCreate(&cuda.settled), "making an event");
    where = &device;
}
