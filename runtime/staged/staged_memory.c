/* staged_memory.c - see staged_memory.h.  On a thread of the module, so that the caller's current device is left
 * alone.  Fails: with what CUDA said. */
#include "staged_memory.h"

#include "thread.h"

typedef struct memory_task {
    void *at;
    size_t bytes;
    cudaError_t error;
} memory_task;

static void memory_make(void *arg)
{
    memory_task *task = arg;
    cudaStream_t stream = NULL;
    task->error = cudaMalloc(&task->at, task->bytes);
    if (task->error != cudaSuccess) return;
    task->error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    if (task->error == cudaSuccess) task->error = cudaMemsetAsync(task->at, 0, task->bytes, stream);
    if (task->error == cudaSuccess) task->error = cudaStreamSynchronize(stream);
    if (stream) cudaStreamDestroy(stream);
    if (task->error != cudaSuccess) cudaFree(task->at);
}

static void memory_end(void *arg)
{
    memory_task *task = arg;
    task->error = cudaFree(task->at);
}

weft_status weft__staged_alloc(weft_backend *backend, size_t bytes, void **ptr)
{
    weft__nccl *cuda = &weft__staged_of(backend)->cuda;
    memory_task task = {NULL, bytes ? bytes : 1, cudaErrorMemoryAllocation};
    if (weft__thread_call(cuda, memory_make, &task) && task.error == cudaSuccess) {
        *ptr = task.at;
        return WEFT_OK;
    }
    cudaGetLastError();
    return weft__nccl_fail(cuda, task.error == cudaErrorMemoryAllocation ? WEFT_ERR_MEMORY : WEFT_ERR_SYSTEM,
                           "mem_alloc: device %d gives no %zu bytes: CUDA says \"%s\"", backend->device,
                           bytes, cudaGetErrorString(task.error));
}

weft_status weft__staged_free(weft_backend *backend, void *ptr)
{
    weft__nccl *cuda = &weft__staged_of(backend)->cuda;
    memory_task task = {ptr, 0, cudaErrorMemoryAllocation};
    if (weft__thread_call(cuda, memory_end, &task) && task.error == cudaSuccess) return WEFT_OK;
    cudaGetLastError();
    return weft__nccl_fail(cuda, WEFT_ERR_SYSTEM, "mem_free: %p: CUDA says \"%s\"", ptr,
                           cudaGetErrorString(task.error));
}
