/* capture.c - who captures, and what that forbids. */
#include "capture.h"
#include "device.h"
#include "error.h"
#include "lock.h"
#include "stream.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

typedef enum { CAPTURE_ACTIVE, CAPTURE_INVALID, CAPTURE_ENDED } capture_state;

/* Kept for ever, because events point to them; a program captures seldom. */
struct emu__capture {
    struct emu__capture *next;
    capture_state state;
    emu__stream *origin;
    enum cudaStreamCaptureMode mode;
    pthread_t thread;
    unsigned long long id;
    cudaGraph_t graph; /* what is recorded; NULL: the capture has ended */
};

static emu__capture *captures;
static _Atomic int running; /* begun and not ended */
static _Thread_local enum cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

static void spoil(emu__capture *capture)
{
    if (capture->state == CAPTURE_ACTIVE) capture->state = CAPTURE_INVALID;
}

static cudaError_t spoil_with(emu__capture *capture, cudaError_t error)
{
    if (capture->state == CAPTURE_INVALID) return cudaErrorStreamCaptureInvalidated;
    spoil(capture);
    return error;
}

static bool forbids(const emu__capture *capture)
{
    bool own = pthread_equal(capture->thread, pthread_self());

    if (capture->state == CAPTURE_ENDED) return false;
    if (own) return capture->mode != cudaStreamCaptureModeRelaxed;
    return capture->mode == cudaStreamCaptureModeGlobal && thread_mode == cudaStreamCaptureModeGlobal;
}

cudaError_t emu__capture_forbids(void)
{
    cudaError_t error = cudaSuccess;

    if (!atomic_load_explicit(&running, memory_order_relaxed)) return cudaSuccess;
    if (thread_mode == cudaStreamCaptureModeRelaxed) return cudaSuccess;
    emu__lock();
    for (emu__capture *at = captures; at; at = at->next)
        if (forbids(at)) {
            spoil(at);
            error = cudaErrorStreamCaptureUnsupported;
        }
    emu__unlock();
    return error;
}

/* The default stream would have to wait for a stream that captures. */
static emu__capture *implied(const emu__stream *legacy)
{
    if (!atomic_load_explicit(&running, memory_order_relaxed)) return NULL;
    for (int i = 0; i < emu__slots_used; i++) {
        const emu__stream *other = &emu__streams[i];
        if (other->capture && other->device == legacy->device && !(other->flags & cudaStreamNonBlocking))
            return other->capture;
    }
    return NULL;
}

static cudaError_t legacy_refused(const emu__stream *stream)
{
    emu__capture *capture = stream->legacy ? implied(stream) : NULL;

    if (!capture) return cudaSuccess;
    spoil(capture);
    return cudaErrorStreamCaptureImplicit;
}

cudaError_t emu__capture_refuses(emu__stream *stream)
{
    static bool told;

    if (!stream->capture) return legacy_refused(stream);
    if (!told)
        fprintf(stderr,
                "emulation: work is queued on a stream that captures which cannot be captured here\n");
    told = true;
    return spoil_with(stream->capture, cudaErrorNotSupported);
}

cudaError_t emu__capture_takes(emu__stream *stream, const emu__piece *piece, bool *captured)
{
    emu__capture *capture = stream->capture;

    *captured = false;
    if (!capture) return legacy_refused(stream);
    if (capture->state == CAPTURE_INVALID) return cudaErrorStreamCaptureInvalidated;
    if (stream->device != capture->origin->device) return emu__capture_refuses(stream);
    if (!emu__graph_add(capture->graph, piece)) return spoil_with(capture, cudaErrorMemoryAllocation);
    stream->capture_joined = false; /* what waits for it comes later */
    *captured = true;
    return cudaSuccess;
}

cudaError_t emu__capture_unseen(emu__stream *stream)
{
    if (!stream->capture) return legacy_refused(stream);
    return spoil_with(stream->capture, cudaErrorStreamCaptureUnsupported);
}

cudaError_t emu__capture_device_unseen(int device)
{
    cudaError_t error = cudaSuccess;

    if (!atomic_load_explicit(&running, memory_order_relaxed)) return cudaSuccess;
    for (int i = 0; i < emu__slots_used; i++)
        if (emu__streams[i].capture && emu__streams[i].device == device) {
            spoil(emu__streams[i].capture);
            error = cudaErrorStreamCaptureUnsupported;
        }
    return error;
}

cudaError_t emu__capture_records(emu__stream *stream, emu__capture **in)
{
    *in = NULL;
    if (!stream->capture) return legacy_refused(stream);
    if (stream->capture->state == CAPTURE_INVALID) return cudaErrorStreamCaptureInvalidated;
    *in = stream->capture;
    return cudaSuccess;
}

cudaError_t emu__capture_waits(emu__stream *stream, emu__capture *of, int from, bool *captured)
{
    emu__capture *own = stream->capture;

    *captured = own || of;
    if (!own && !of) return legacy_refused(stream);
    if (own && !of) return spoil_with(own, cudaErrorStreamCaptureIsolation);
    if (of->state == CAPTURE_ENDED) return cudaErrorCapturedEvent;
    if (of->state == CAPTURE_INVALID) return cudaErrorStreamCaptureInvalidated;
    if (own && own != of) {
        spoil(of);
        return spoil_with(own, cudaErrorStreamCaptureMerge);
    }
    if (stream->legacy) {
        spoil(of);
        return cudaErrorStreamCaptureImplicit;
    }
    stream->capture = of;
    stream->capture_joined = false;
    emu__streams[from].capture_joined = true;
    return cudaSuccess;
}

/* ---- begin and end ---- */

static cudaError_t begin_capture(cudaStream_t handle, enum cudaStreamCaptureMode mode)
{
    emu__stream *stream;
    emu__capture *capture;
    cudaError_t error = emu__stream_find(handle, &stream);

    if (error) return error;
    if (stream->legacy) return cudaErrorStreamCaptureUnsupported;
    if (stream->capture) return cudaErrorIllegalState;
    capture = calloc(1, sizeof *capture);
    if (capture) capture->graph = emu__graph_make(stream->device);
    if (!capture || !capture->graph) {
        free(capture);
        return cudaErrorMemoryAllocation;
    }
    capture->id = captures ? captures->id + 1 : 1;
    capture->next = captures;
    capture->origin = stream;
    capture->mode = mode;
    capture->thread = pthread_self();
    captures = capture;
    stream->capture = capture;
    stream->capture_joined = true;
    atomic_fetch_add(&running, 1);
    return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    cudaError_t error = emu__begin("cudaStreamBeginCapture", 0);

    if (error) return emu__end(error);
    if ((int)mode < cudaStreamCaptureModeGlobal || mode > cudaStreamCaptureModeRelaxed)
        return emu__end(cudaErrorInvalidValue);
    emu__lock();
    error = begin_capture(stream, mode);
    emu__unlock();
    return emu__end(error);
}

/* All its streams capture no more; true: all had come back to its origin. */
static bool let_go(emu__capture *capture)
{
    bool joined = true;

    for (int i = 0; i < emu__slots_used; i++) {
        emu__stream *stream = &emu__streams[i];
        if (stream->capture != capture) continue;
        if (stream != capture->origin && !stream->capture_joined) joined = false;
        stream->capture = NULL;
    }
    capture->state = CAPTURE_ENDED;
    atomic_fetch_sub(&running, 1);
    return joined;
}

/* *graph: what it has recorded, of no use where the capture fails. */
static cudaError_t end_capture(cudaStream_t handle, cudaGraph_t *graph)
{
    emu__stream *stream;
    cudaError_t error = emu__stream_find(handle, &stream);

    if (error) return error;
    emu__capture *capture = stream->capture;
    if (!capture) return cudaErrorIllegalState;
    if (capture->origin != stream) return spoil_with(capture, cudaErrorStreamCaptureUnmatched);
    if (capture->mode != cudaStreamCaptureModeRelaxed && !pthread_equal(capture->thread, pthread_self()))
        return spoil_with(capture, cudaErrorStreamCaptureWrongThread);
    bool spoilt = capture->state == CAPTURE_INVALID;
    bool joined = let_go(capture);
    *graph = capture->graph;
    capture->graph = NULL;
    if (spoilt) return cudaErrorStreamCaptureInvalidated;
    return joined ? cudaSuccess : cudaErrorStreamCaptureUnjoined;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    cudaError_t error = emu__begin("cudaStreamEndCapture", 0);

    if (error) return emu__end(error);
    if (!graph) return emu__end(cudaErrorInvalidValue);
    *graph = NULL;
    emu__lock();
    error = end_capture(stream, graph);
    emu__unlock();
    if (error && *graph) {
        emu__graph_drop(*graph);
        *graph = NULL;
    }
    return emu__end(error);
}

/* ---- asking ---- */

static cudaError_t status_of(cudaStream_t handle, enum cudaStreamCaptureStatus *status,
                             unsigned long long *id, cudaGraph_t *graph)
{
    emu__stream *stream;
    cudaError_t error = emu__stream_find(handle, &stream);

    if (error) return error;
    if (stream->legacy && implied(stream)) return cudaErrorStreamCaptureImplicit;
    *status = cudaStreamCaptureStatusNone;
    if (!stream->capture) return cudaSuccess;
    *status = stream->capture->state == CAPTURE_ACTIVE ? cudaStreamCaptureStatusActive
                                                       : cudaStreamCaptureStatusInvalidated;
    if (id) *id = stream->capture->id;
    if (graph) *graph = stream->capture->graph;
    return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
    cudaError_t error = emu__begin("cudaStreamIsCapturing", 0);

    if (error) return emu__end(error);
    if (!status) return emu__end(cudaErrorInvalidValue);
    emu__lock();
    error = status_of(stream, status, NULL, NULL);
    emu__unlock();
    return emu__end(error);
}

static cudaError_t capture_info(const char *name, cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                unsigned long long *id, cudaGraph_t *graph)
{
    cudaError_t error = emu__begin(name, 0);

    if (error) return emu__end(error);
    if (!status) return emu__end(cudaErrorInvalidValue);
    emu__lock();
    error = status_of(stream, status, id, graph);
    emu__unlock();
    return emu__end(error);
}

/* Pieces are kept in their order alone, so there is nothing to tell of what depends on what. */
#if CUDART_VERSION >= 13000
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                     unsigned long long *id, cudaGraph_t *graph,
                                     const cudaGraphNode_t **after, const cudaGraphEdgeData **edges,
                                     size_t *count)
{
    if (after || edges || count) return emu__end(cudaErrorNotSupported);
    return capture_info("cudaStreamGetCaptureInfo", stream, status, id, graph);
}
#else
cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                        unsigned long long *id, cudaGraph_t *graph,
                                        const cudaGraphNode_t **after, size_t *count)
{
    if (after || count) return emu__end(cudaErrorNotSupported);
    return capture_info("cudaStreamGetCaptureInfo_v2", stream, status, id, graph);
}
#endif

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
    cudaError_t error = emu__begin("cudaThreadExchangeStreamCaptureMode", EMU__NO_CONTEXT);

    if (error) return emu__end(error);
    if (!mode || (int)*mode < cudaStreamCaptureModeGlobal || *mode > cudaStreamCaptureModeRelaxed)
        return emu__end(cudaErrorInvalidValue);
    enum cudaStreamCaptureMode old = thread_mode;
    thread_mode = *mode;
    *mode = old;
    return cudaSuccess;
}
