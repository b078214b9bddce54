/* per_thread.c - what a program calls that was built with --default-stream per-thread: the same functions,
 * whose stream NULL is the thread's own. */
#include "emulation.h"

static cudaStream_t own(cudaStream_t stream)
{
    return stream ? stream : cudaStreamPerThread;
}

#define PER_THREAD(name, declared, passed) \
    cudaError_t name##_ptsz declared;      \
    cudaError_t name##_ptsz declared       \
    {                                      \
        return name passed;                \
    }

PER_THREAD(cudaMemcpyAsync,
           (void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream),
           (to, from, bytes, kind, own(stream)))
PER_THREAD(cudaMemcpy2DAsync,
           (void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
            enum cudaMemcpyKind kind, cudaStream_t stream),
           (to, to_pitch, from, from_pitch, width, height, kind, own(stream)))
PER_THREAD(cudaMemsetAsync, (void *to, int value, size_t bytes, cudaStream_t stream),
           (to, value, bytes, own(stream)))
PER_THREAD(cudaMemset2DAsync,
           (void *to, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream),
           (to, pitch, value, width, height, own(stream)))
PER_THREAD(cudaMallocAsync, (void **made, size_t bytes, cudaStream_t stream), (made, bytes, own(stream)))
PER_THREAD(cudaFreeAsync, (void *at, cudaStream_t stream), (at, own(stream)))
PER_THREAD(cudaEventRecord, (cudaEvent_t event, cudaStream_t stream), (event, own(stream)))
PER_THREAD(cudaEventRecordWithFlags, (cudaEvent_t event, cudaStream_t stream, unsigned flags),
           (event, own(stream), flags))
PER_THREAD(cudaStreamWaitEvent, (cudaStream_t stream, cudaEvent_t event, unsigned flags),
           (own(stream), event, flags))
PER_THREAD(cudaStreamSynchronize, (cudaStream_t stream), (own(stream)))
PER_THREAD(cudaStreamQuery, (cudaStream_t stream), (own(stream)))
PER_THREAD(cudaStreamGetFlags, (cudaStream_t stream, unsigned *flags), (own(stream), flags))
PER_THREAD(cudaStreamGetPriority, (cudaStream_t stream, int *priority), (own(stream), priority))
PER_THREAD(cudaStreamGetId, (cudaStream_t stream, unsigned long long *id), (own(stream), id))
#if CUDART_VERSION >= 12080
PER_THREAD(cudaStreamGetDevice, (cudaStream_t stream, int *device), (own(stream), device))
#endif
PER_THREAD(cudaStreamAddCallback,
           (cudaStream_t stream, cudaStreamCallback_t callback, void *arg, unsigned flags),
           (own(stream), callback, arg, flags))
PER_THREAD(cudaLaunchHostFunc, (cudaStream_t stream, cudaHostFn_t function, void *arg),
           (own(stream), function, arg))
PER_THREAD(cudaStreamBeginCapture, (cudaStream_t stream, enum cudaStreamCaptureMode mode),
           (own(stream), mode))
PER_THREAD(cudaStreamEndCapture, (cudaStream_t stream, cudaGraph_t *graph), (own(stream), graph))
PER_THREAD(cudaStreamIsCapturing, (cudaStream_t stream, enum cudaStreamCaptureStatus *status),
           (own(stream), status))
PER_THREAD(cudaLaunchKernel,
           (const void *function, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t stream),
           (function, grid, block, args, shared, own(stream)))
PER_THREAD(cudaLaunchKernelExC, (const cudaLaunchConfig_t *config, const void *function, void **args),
           (config, function, args))
