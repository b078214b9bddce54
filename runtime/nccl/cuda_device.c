/* cuda_device.c - looks for the device, asks where pointers point to, and marks callers' streams.
 *
 * Happy path of a submission: cuPointerGetAttributes, cudaStreamIsCapturing, cudaEventRecord, and nothing
 * else.
 * Fails: no device, with a sentence of one line; a stream that is capturing, is of another device, or is no
 * stream. */
#include "cuda_device.h"

#include "cudart.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CUDA_LEAST 12000

/* A sentence that outlives the call; of this thread. */
static char *sentence(void)
{
    static _Thread_local char text[WEFT__NCCL_SENTENCE];
    return text;
}

static const char *why_no_device(cudaError_t error)
{
    int driver = 0;
    char *text = sentence();
    cudaGetLastError();
    if (cudaDriverGetVersion(&driver) != cudaSuccess || !driver) return "no CUDA driver";
    if (error == cudaErrorNoDevice) return "no CUDA device";
    snprintf(text, WEFT__NCCL_SENTENCE, "no CUDA device: CUDA says \"%s\"", cudaGetErrorString(error));
    return text;
}

int weft__device_choose(const weft_backend_place *place, const char **why)
{
    int devices = 0, version = 0;
    cudaError_t error = cudaGetDeviceCount(&devices);
    if (error != cudaSuccess) {
        *why = why_no_device(error);
        return -1;
    }
    if (devices < 1) {
        *why = "no CUDA device";
        return -1;
    }
    if (cudaRuntimeGetVersion(&version) != cudaSuccess || version < CUDA_LEAST) {
        snprintf(sentence(), WEFT__NCCL_SENTENCE, "CUDA is %d.%d, expected 12.0 or later", version / 1000,
                 version % 1000 / 10);
        *why = sentence();
        return -1;
    }
    if (!place) return 0;
    if (place->device < 0) return place->local_rank % devices;
    if (place->device < devices) return place->device;
    snprintf(sentence(), WEFT__NCCL_SENTENCE, "device is %d, expected 0 to %d: there %s %d CUDA device%s",
             place->device, devices - 1, devices == 1 ? "is" : "are", devices, devices == 1 ? "" : "s");
    *why = sentence();
    return -1;
}

bool weft__device_find_driver(weft__nccl *nccl, const char **why)
{
    const char *name = "cuPointerGetAttributes";
    void *found = NULL;
    cudaError_t error = weft__cudart_driver_function(name, CUDA_LEAST, &found);
    /* ISO C has no cast from an object to a function. */
    memcpy(&nccl->pointer_attributes, &found, sizeof found);
    if (found) return true;
    snprintf(sentence(), WEFT__NCCL_SENTENCE, "the CUDA driver has no %s: CUDA says \"%s\"", name,
             cudaGetErrorString(error));
    *why = sentence();
    return false;
}

void weft__device_describe(weft__nccl *nccl)
{
    int runtime = 0, device = nccl->seam.device;
    char name[201];
    cudaRuntimeGetVersion(&runtime);
    weft__cudart_name_device(device, name, sizeof name);
    if (cudaDeviceGetAttribute(&nccl->arch, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess)
        cudaGetLastError();
    snprintf(nccl->describes, sizeof nccl->describes, "CUDA %d.%d, NCCL %d.%d.%d, device %d: %s",
             runtime / 1000, runtime % 1000 / 10, nccl->version / 10000, nccl->version / 100 % 100,
             nccl->version % 100, device, name);
}

/* Can the host read there?  The system call looks at the signals first and finds then that it does not know
 * what to do with them. */
static bool host_reads(const void *pointer)
{
    enum { NO_SUCH_THING = -1, SIGNALS_BYTES = 8 };
    const void *word = (const void *)((uintptr_t)pointer & ~(uintptr_t)(SIGNALS_BYTES - 1));
    return syscall(SYS_rt_sigprocmask, NO_SUCH_THING, word, NULL, SIGNALS_BYTES) == 0 || errno != EFAULT;
}

/* Memory of another device is no argument for this one's kernels, and the host cannot read it either.  A device
 * that an error has destroyed may answer every question with that error; but what the host can read is no memory
 * of the device alone. */
static weft_status not_told(const weft__nccl *nccl, const void *pointer, CUresult result)
{
    if (result == CUDA_ERROR_NOT_INITIALIZED || result == CUDA_ERROR_INVALID_VALUE || host_reads(pointer))
        return WEFT_OK; /* CUDA has nothing there */
    return weft__nccl_fail(
        nccl, WEFT_ERR_SYSTEM,
        "cuPointerGetAttributes cannot tell what %p points to: CUDA says \"%s\" of device %d", pointer,
        cudaGetErrorString((cudaError_t)result), nccl->seam.device);
}

weft_status weft__device_owns(weft_backend *backend, const void *pointer, bool *owned)
{
    const weft__nccl *nccl = weft__nccl_of(backend);
    CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    unsigned type = 0, managed = 0;
    int device = -1;
    void *values[] = {&type, &managed, &device};
    CUresult result =
        nccl->pointer_attributes(WEFT__LENGTH(asked), asked, values, (CUdeviceptr)(uintptr_t)pointer);
    *owned = false;
    if (WEFT__UNLIKELY(result != CUDA_SUCCESS)) return not_told(nccl, pointer, result);
    *owned = managed || type == CU_MEMORYTYPE_DEVICE;
    if (!*owned || managed || device == backend->device) return WEFT_OK;
    return weft__nccl_fail(
        nccl, WEFT_ERR_ARGUMENT,
        "%p is memory of device %d, expected memory of device %d, on which this rank works", pointer, device,
        backend->device);
}

/* ---- streams ---- */

/* ISO C has no cast from an object to a function.  False: the driver has none of that name. */
static bool find(const char *name, unsigned version, void *function)
{
    void *found = NULL;
    weft__cudart_driver_function(name, version, &found);
    memcpy(function, &found, sizeof found);
    return found != NULL;
}

/* Does CUDA speak of the handle, or of the context that it belongs to? */
static bool is_about_handle(cudaError_t error)
{
    return error == cudaErrorInvalidValue || error == cudaErrorInvalidResourceHandle ||
           error == cudaErrorDeviceUninitialized || error == cudaErrorIncompatibleDriverContext;
}

/* Contexts are made by who uses a device first; only those that are there are asked for. */
static bool is_primary(CUcontext context)
{
    CUresult (*state)(CUdevice device, unsigned *flags, int *active);
    CUresult (*retain)(CUcontext * context, CUdevice device);
    CUresult (*release)(CUdevice device);
    int devices = 0, active = 0;
    bool found = false;
    unsigned flags;
    if (!find("cuDevicePrimaryCtxGetState", 7000, &state) ||
        !find("cuDevicePrimaryCtxRetain", 7000, &retain) ||
        !find("cuDevicePrimaryCtxRelease", 11000, &release) || cudaGetDeviceCount(&devices) != cudaSuccess)
        return true;
    for (int i = 0; i < devices && !found; i++) {
        CUcontext its = NULL;
        if (state(i, &flags, &active) != CUDA_SUCCESS || !active || retain(&its, i) != CUDA_SUCCESS) continue;
        found = its == context;
        release(i);
    }
    return found;
}

/* Why CUDA does not take it, where that is the context that it was made in; else NULL. */
static const char *why_context(cudaStream_t stream)
{
    CUresult (*ask)(CUstream stream, CUcontext * context, void **green);
    CUcontext context = NULL;
    void *green = NULL;
    if (!stream || stream == cudaStreamLegacy || stream == cudaStreamPerThread) return NULL;
    if (!find("cuStreamGetCtx", 12050, &ask) || ask(stream, &context, &green) != CUDA_SUCCESS) return NULL;
    if (green) return "a green context";
    return is_primary(context) ? NULL : "a context that was made by the driver";
}

static weft_status not_this_stream(const weft__nccl *nccl, void *stream, const char *call, cudaError_t error)
{
    const char *context = is_about_handle(error) && stream != WEFT_NO_STREAM ? why_context(stream) : NULL;
    cudaGetLastError();
    if (context)
        return weft__nccl_fail(nccl, WEFT_ERR_ARGUMENT,
                               "stream is %p: it belongs to %s, expected the device's own (primary) context, "
                               "that of CUDA's runtime: %s says \"%s\"",
                               stream, context, call, cudaGetErrorString(error));
    if (!is_about_handle(error))
        return weft__nccl_fail(nccl, WEFT_ERR_SYSTEM, "%s on stream %p of device %d: CUDA says \"%s\"", call,
                               stream, nccl->seam.device, cudaGetErrorString(error));
    return weft__nccl_fail(nccl, WEFT_ERR_ARGUMENT,
                           "stream is %p, expected one of device %d, NULL while that device is current, or "
                           "WEFT_NO_STREAM: %s says \"%s\"",
                           stream, nccl->seam.device, call, cudaGetErrorString(error));
}

/* *capture: what it is in, or what its use would make of a capture that goes on beside it. */
static weft_status look_at_stream(const weft__nccl *nccl, void *stream, enum cudaStreamCaptureStatus *capture)
{
    cudaError_t error = cudaErrorInvalidValue;
    *capture = cudaStreamCaptureStatusNone;
    if (stream != WEFT_NO_STREAM) error = cudaStreamIsCapturing(stream, capture);
    /* Whether the legacy stream captures cannot be asked while another stream does. */
    if (error == cudaErrorStreamCaptureImplicit) {
        cudaGetLastError();
        *capture = cudaStreamCaptureStatusInvalidated;
    } else if (error != cudaSuccess) {
        return not_this_stream(nccl, stream, "cudaStreamIsCapturing", error);
    }
    return WEFT_OK;
}

weft_status weft__device_check_stream(const weft__nccl *nccl, void *stream)
{
    enum cudaStreamCaptureStatus capture;
    weft_status status = look_at_stream(nccl, stream, &capture);
    if (WEFT__LIKELY(status != WEFT_OK || capture == cudaStreamCaptureStatusNone)) return status;
    return weft__nccl_fail(nccl, WEFT_ERR_UNSUPPORTED,
                           "stream %p is being captured into a graph, of which the operation is no part",
                           stream);
}

bool weft__device_captures(weft_backend *backend, const void *marker)
{
    const weft__event *mark = marker;
    unsigned long long id;
    cudaGraph_t graph;
    (void)backend;
    if (!mark || !mark->capture) return false;
    if (weft__cudart_capture(mark->capture, &id, &graph) == cudaSuccess) return id == mark->capture_id;
    cudaGetLastError();
    return false;
}

/* One that captures records no event, which is how others are found to be of another device. */
static weft_status may_be_captured(const weft__nccl *nccl, void *stream, enum cudaStreamCaptureStatus capture)
{
    const bool active = capture == cudaStreamCaptureStatusActive;
    const int device = active ? weft__cudart_stream_device(stream) : -1;
    if (device >= 0 && device != nccl->seam.device)
        return weft__nccl_fail(
            nccl, WEFT_ERR_ARGUMENT,
            "stream %p, which is being captured, is of device %d, expected one of device %d", stream, device,
            nccl->seam.device);
    if (active && nccl->seam.captures) return WEFT_OK;
    return weft__nccl_fail(nccl, WEFT_ERR_UNSUPPORTED, "stream %p is being captured into a graph, and %s",
                           stream,
                           nccl->seam.captures
                               ? "that has failed, or it is the legacy stream beside one that is"
                               : "operations by way of the host cannot be recorded");
}

weft_status weft__device_mark(weft_backend *backend, void *stream, void **marker)
{
    weft__nccl *nccl = weft__nccl_of(backend);
    enum cudaStreamCaptureStatus capture;
    weft_status status;
    weft__event *event;
    cudaGraph_t graph;
    const char *call = "cudaEventRecord";
    cudaError_t error = cudaSuccess;
    *marker = NULL;
    if (stream == WEFT_NO_STREAM) return WEFT_OK;
    if ((status = look_at_stream(nccl, stream, &capture)) != WEFT_OK) return status;
    if (WEFT__UNLIKELY(capture != cudaStreamCaptureStatusNone) &&
        (status = may_be_captured(nccl, stream, capture)) != WEFT_OK)
        return status;
    event = weft__event_take(nccl, &error);
    if (!event) {
        cudaGetLastError();
        return weft__nccl_fail(nccl, WEFT_ERR_MEMORY, "no event to mark stream %p: CUDA says \"%s\"", stream,
                               cudaGetErrorString(error));
    }
    if (WEFT__UNLIKELY(capture == cudaStreamCaptureStatusActive)) {
        call = "cudaStreamGetCaptureInfo";
        event->capture = stream;
        error = weft__cudart_capture(stream, &event->capture_id, &graph);
    } else {
        error = cudaEventRecord(event->cuda, stream);
    }
    if (error != cudaSuccess) {
        weft__event_give(nccl, event);
        return not_this_stream(nccl, stream, call, error);
    }
    *marker = event;
    return WEFT_OK;
}

void weft__device_unmark(weft_backend *backend, void *marker)
{
    weft__event_give(weft__nccl_of(backend), marker);
}
