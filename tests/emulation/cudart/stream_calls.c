/* stream_calls.c - CUDA's functions on streams. */
#include "capture.h"
#include "device.h"
#include "error.h"
#include "lock.h"
#include "stream.h"

#include <stdlib.h>

enum { LEAST_PRIORITY = 0, GREATEST_PRIORITY = -5 };

static cudaError_t create(cudaStream_t *made, unsigned flags, int priority)
{
    emu__stream *stream;
    cudaError_t error;

    if (!made || (flags & ~(unsigned)cudaStreamNonBlocking)) return cudaErrorInvalidValue;
    if (priority > LEAST_PRIORITY) priority = LEAST_PRIORITY;
    if (priority < GREATEST_PRIORITY) priority = GREATEST_PRIORITY;
    emu__lock();
    error = emu__stream_make(emu__device_current(), flags, priority, &stream);
    emu__unlock();
    if (!error) *made = stream;
    return error;
}

cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
    cudaError_t error = emu__begin("cudaStreamCreate", 0);

    return emu__end(error ? error : create(stream, cudaStreamDefault, LEAST_PRIORITY));
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    cudaError_t error = emu__begin("cudaStreamCreateWithFlags", 0);

    return emu__end(error ? error : create(stream, flags, LEAST_PRIORITY));
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority)
{
    cudaError_t error = emu__begin("cudaStreamCreateWithPriority", 0);

    return emu__end(error ? error : create(stream, flags, priority));
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    cudaError_t error = emu__begin("cudaDeviceGetStreamPriorityRange", 0);

    if (error) return emu__end(error);
    if (least) *least = LEAST_PRIORITY;
    if (greatest) *greatest = GREATEST_PRIORITY;
    return cudaSuccess;
}

static cudaError_t destroy(cudaStream_t handle)
{
    emu__stream *stream;
    cudaError_t error = emu__stream_find(handle, &stream);

    if (error) return error;
    if (stream->legacy || stream->per_thread) return cudaErrorInvalidResourceHandle;
    if (stream->capture && (error = emu__capture_unseen(stream))) return error;
    emu__stream_end(stream);
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    cudaError_t error = emu__begin("cudaStreamDestroy", 0);

    if (error) return emu__end(error);
    emu__lock();
    error = destroy(stream);
    emu__unlock();
    return emu__end(error);
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle)
{
    emu__stream *stream;
    cudaError_t error = emu__begin("cudaStreamSynchronize", EMU__BLOCKS | EMU__UNSAFE);

    if (error) return emu__end(error);
    emu__lock();
    error = emu__stream_find(handle, &stream);
    if (!error) error = emu__capture_unseen(stream);
    if (!error) error = emu__stream_settle(stream);
    emu__unlock();
    return emu__end(error);
}

static cudaError_t query(cudaStream_t handle)
{
    emu__stream *stream;
    cudaError_t error = emu__stream_find(handle, &stream);

    if (!error) error = emu__capture_unseen(stream);
    if (!error) error = emu__stream_prepare(stream);
    if (error) return error;
    if (!emu__stream_reached(emu__slot_of(stream), stream->queued)) return cudaErrorNotReady;
    emu__order_seen(&stream->clock);
    return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    cudaError_t error = emu__begin("cudaStreamQuery", EMU__UNSAFE);

    if (error) return emu__end(error);
    emu__lock();
    error = query(stream);
    emu__unlock();
    return emu__end(error);
}

/* What a stream says of itself: one of four numbers. */
#define STREAM_TELLS(function, type, member)                \
    cudaError_t function(cudaStream_t handle, type *value)  \
    {                                                       \
        emu__stream *stream;                                \
        cudaError_t error = emu__begin(#function, 0);       \
                                                            \
        if (error) return emu__end(error);                  \
        if (!value) return emu__end(cudaErrorInvalidValue); \
        emu__lock();                                        \
        error = emu__stream_find(handle, &stream);          \
        if (!error) *value = stream->member;                \
        emu__unlock();                                      \
        return emu__end(error);                             \
    }

STREAM_TELLS(cudaStreamGetPriority, int, priority)
STREAM_TELLS(cudaStreamGetFlags, unsigned, flags)
STREAM_TELLS(cudaStreamGetId, unsigned long long, id)
#if CUDART_VERSION >= 12080
STREAM_TELLS(cudaStreamGetDevice, int, device)
#endif

/* ---- functions of the host ---- */

typedef struct {
    emu__stream *stream;
    emu__clock before; /* what is finished when it is called */
    cudaHostFn_t function;
    cudaStreamCallback_t callback;
    cudaStream_t handle;
    void *arg;
} host_call;

/* What the function tells the rest of the program, that knows: all before it is finished. */
static void call_host(void *arg)
{
    host_call *call = arg;

    emu__lock();
    emu__order_seen(&call->before);
    emu__unlock();
    emu__error_in_host_function(true);
    if (call->function)
        call->function(call->arg);
    else
        call->callback(call->handle, cudaSuccess, call->arg);
    emu__error_in_host_function(false);
    free(call);
}

static cudaError_t queue_call(cudaStream_t handle, const host_call *what);

static cudaError_t queue_recorded(const void *arg, cudaStream_t stream)
{
    return queue_call(stream, arg);
}

static cudaError_t queue_call(cudaStream_t handle, const host_call *what)
{
    emu__stream *stream;
    host_call *call = malloc(sizeof *call);
    emu__piece piece = {queue_recorded, free, call};
    bool captured = false;
    cudaError_t error;

    if (!call) return cudaErrorMemoryAllocation;
    *call = *what;
    call->handle = handle;
    emu__lock();
    error = emu__stream_for_work(handle, &stream);
    if (!error && what->function)
        error = emu__capture_takes(stream, &piece, &captured);
    else if (!error) /* a callback is told of its stream, and is for no graph */
        error = emu__capture_refuses(stream);
    if (!error && !captured) error = emu__stream_add(stream, &(emu__item){.run = call_host, .arg = call});
    if (!error && !captured) {
        call->before = stream->clock;
        call->before.at[emu__slot_of(stream)]--; /* the call itself is not over */
    }
    emu__unlock();
    if (error) free(call);
    return error;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *arg)
{
    cudaError_t error = emu__begin("cudaLaunchHostFunc", 0);

    if (error) return emu__end(error);
    if (!function) return emu__end(cudaErrorInvalidValue);
    return emu__end(queue_call(stream, &(host_call){.function = function, .arg = arg}));
}

/* Where pieces are kept in their order alone, one that waits for nothing comes at its place all the same. */
static cudaError_t add_host_node(cudaGraph_t graph, const struct cudaHostNodeParams *what)
{
    host_call *call = malloc(sizeof *call);
    bool added;

    if (!call) return cudaErrorMemoryAllocation;
    *call = (host_call){.function = what->fn, .arg = what->userData};
    emu__lock();
    added = emu__graph_add(graph, &(emu__piece){queue_recorded, free, call});
    emu__unlock();
    if (!added) free(call);
    return added ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaGraphAddHostNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                 const cudaGraphNode_t *pDependencies, size_t numDependencies,
                                 const struct cudaHostNodeParams *pNodeParams)
{
    cudaError_t error = emu__begin("cudaGraphAddHostNode", 0);

    if (error) return emu__end(error);
    if (!pGraphNode || !graph || !pNodeParams || !pNodeParams->fn || (numDependencies && !pDependencies))
        return emu__end(cudaErrorInvalidValue);
    if (numDependencies) return emu__end(cudaErrorNotSupported);
    *pGraphNode = NULL; /* nothing takes one */
    return emu__end(add_host_node(graph, pNodeParams));
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void *arg,
                                  unsigned flags)
{
    cudaError_t error = emu__begin("cudaStreamAddCallback", 0);

    if (error) return emu__end(error);
    if (!callback || flags) return emu__end(cudaErrorInvalidValue);
    return emu__end(queue_call(stream, &(host_call){.callback = callback, .arg = arg}));
}
