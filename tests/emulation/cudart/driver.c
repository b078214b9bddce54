/* driver.c - functions of CUDA's driver, of which a program that has only the runtime asks by name.
 *
 * They make no context: on a real device a question to the driver costs none, and one to the runtime makes
 * that of the thread's current device.  A name that is not here is answered as by a driver that is too old. */
#include "device.h"
#include "error.h"
#include "inside.h"
#include "lock.h"
#include "memory.h"
#include "stream.h"
#include "word.h"

#include <cuda.h>
#include <stdio.h>
#include <string.h>

static bool write_attribute(CUpointer_attribute what, const emu__block *block, void *to)
{
    bool lives = block && !block->freed_by;
    unsigned type = !lives                                                         ? 0
                    : block->kind == EMU__PINNED || block->kind == EMU__REGISTERED ? CU_MEMORYTYPE_HOST
                                                                                   : CU_MEMORYTYPE_DEVICE;
    unsigned managed = lives && block->kind == EMU__MANAGED;
    int device = lives ? block->device : -2;

    switch (what) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: memcpy(to, &type, sizeof type); return true;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: memcpy(to, &managed, sizeof managed); return true;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: memcpy(to, &device, sizeof device); return true;
    default: return false;
    }
}

/* Where CUDA has no memory it says so by values that mean nothing, and succeeds. */
static CUresult cu_pointer_get_attributes(unsigned count, CUpointer_attribute *what, void **to,
                                          CUdeviceptr at)
{
    cudaError_t error = emu__begin("cuPointerGetAttributes", EMU__NO_CONTEXT);

    if (!error && (!count || !what || !to)) error = cudaErrorInvalidValue;
    if (error) return (CUresult)error; /* their numbers are the runtime's */
    emu__lock();
    for (unsigned i = 0; i < count && !error; i++)
        if (!write_attribute(what[i], emu__block_at((const void *)(uintptr_t)at), to[i]))
            error = cudaErrorNotSupported;
    emu__unlock();
    emu__outside();
    return (CUresult)error; /* which is no thread's last one */
}

/* ---- contexts ---- */

/* What a context is, by its address: the devices', and one of the program's on each. */
static char primary[EMU__DEVICES_MAX], made[EMU__DEVICES_MAX];

void emu_stream_move(cudaStream_t handle, emu_context context)
{
    emu__stream *stream;

    emu__lock();
    if (!emu__stream_find(handle, &stream)) stream->context = context;
    emu__unlock();
}

/* Since CUDA 12.5: green is told where the stream is one of such a context. */
static CUresult cu_stream_get_ctx(CUstream handle, CUcontext *context, void **green)
{
    cudaError_t error = emu__begin("cuStreamGetCtx", EMU__NO_CONTEXT);
    emu__stream *stream;

    if (error) return (CUresult)error;
    emu__lock();
    error = emu__stream_look(handle, &stream);
    if (!error) {
        *context = (CUcontext)(void *)(stream->context == EMU_CONTEXT_OF_DRIVER ? &made[stream->device]
                                                                                : &primary[stream->device]);
        *green = stream->context == EMU_CONTEXT_GREEN ? &made[stream->device] : NULL;
    }
    emu__unlock();
    return (CUresult)error;
}

static CUresult cu_primary_state(CUdevice device, unsigned *flags, int *active)
{
    cudaError_t error = emu__begin("cuDevicePrimaryCtxGetState", EMU__NO_CONTEXT);

    if (error || !emu__device_valid(device)) return error ? (CUresult)error : CUDA_ERROR_INVALID_DEVICE;
    *flags = 0;
    *active = 1;
    return CUDA_SUCCESS;
}

static CUresult cu_primary_retain(CUcontext *context, CUdevice device)
{
    cudaError_t error = emu__begin("cuDevicePrimaryCtxRetain", EMU__NO_CONTEXT);

    if (error || !emu__device_valid(device)) return error ? (CUresult)error : CUDA_ERROR_INVALID_DEVICE;
    *context = (CUcontext)(void *)&primary[device];
    return CUDA_SUCCESS;
}

static CUresult cu_primary_release(CUdevice device)
{
    cudaError_t error = emu__begin("cuDevicePrimaryCtxRelease", EMU__NO_CONTEXT);

    (void)device;
    return (CUresult)error;
}

static const struct {
    const char *name;
    void (*function)(void);
} functions[] = {
    {"cuDevicePrimaryCtxGetState", (void (*)(void))cu_primary_state},
    {"cuDevicePrimaryCtxRelease", (void (*)(void))cu_primary_release},
    {"cuDevicePrimaryCtxRetain", (void (*)(void))cu_primary_retain},
    {"cuPointerGetAttributes", (void (*)(void))cu_pointer_get_attributes},
    {"cuStreamGetCtx", (void (*)(void))cu_stream_get_ctx},
    {"cuStreamWaitValue32", (void (*)(void))emu__word_wait_32},
    {"cuStreamWaitValue64", (void (*)(void))emu__word_wait_64},
    {"cuStreamWriteValue32", (void (*)(void))emu__word_write_32},
    {"cuStreamWriteValue64", (void (*)(void))emu__word_write_64},
};

/* By script a driver may be one that lacks it: "without_cuStreamWaitValue32@*=value:1". */
static bool is_left_out(const char *name)
{
    char word[64];

    snprintf(word, sizeof word, "without_%s", name);
    return emu_event(word) > 0;
}

static cudaError_t find(const char *name, void **function, enum cudaDriverEntryPointQueryResult *how)
{
    enum cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;

    if (!name || !function) return cudaErrorInvalidValue;
    *function = NULL;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (!strcmp(functions[i].name, name) && !is_left_out(name)) {
            memcpy(function, &functions[i].function, sizeof *function);
            found = cudaDriverEntryPointSuccess;
        }
    if (how) *how = found;
    return cudaSuccess;
}

#if CUDART_VERSION >= 12050
cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *how)
{
    cudaError_t error = emu__begin("cudaGetDriverEntryPointByVersion", EMU__NO_CONTEXT);

    (void)version, (void)flags;
    return emu__end(error ? error : find(name, function, how));
}
#endif

cudaError_t cudaGetDriverEntryPoint(const char *name, void **function, unsigned long long flags,
                                    enum cudaDriverEntryPointQueryResult *how)
{
    cudaError_t error = emu__begin("cudaGetDriverEntryPoint", EMU__NO_CONTEXT);

    (void)flags;
    return emu__end(error ? error : find(name, function, how));
}
