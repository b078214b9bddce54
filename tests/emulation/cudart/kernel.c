/* kernel.c - what runs on streams as kernels do: the work of the emulated NCCL, through emulation.h. */
#include "access.h"
#include "capture.h"
#include "device.h"
#include "exit.h"
#include "lock.h"
#include "stream.h"

#include <stdlib.h>
#include <string.h>

enum { KERNEL_ACCESSES = 64 }; /* with which no memory is allocated */

/* ---- in a graph ---- */

static void drop_recorded(void *arg)
{
    emu_kernel *kernel = arg;

    kernel->drop(kernel->arg);
    free(kernel);
}

static cudaError_t launch_recorded(const void *arg, cudaStream_t stream)
{
    emu_kernel kernel = *(const emu_kernel *)arg;
    cudaError_t error;

    kernel.arg = kernel.again(kernel.arg);
    if (!kernel.arg) return cudaErrorMemoryAllocation;
    error = emu_launch(stream, &kernel);
    if (error) kernel.drop(kernel.arg);
    return error;
}

/* A copy, with its accesses behind it. */
static emu_kernel *copy_of(const emu_kernel *kernel)
{
    size_t bytes = kernel->access_count * sizeof *kernel->accesses;
    emu_kernel *copy = malloc(sizeof *copy + bytes);

    if (!copy) return NULL;
    *copy = *kernel;
    copy->accesses = memcpy(copy + 1, kernel->accesses, bytes);
    return copy;
}

static cudaError_t capture(emu__stream *stream, const emu_kernel *kernel, bool *captured)
{
    cudaError_t error;

    if (!stream->capture || !kernel->again || !kernel->drop) return emu__capture_refuses(stream);
    emu__piece piece = {launch_recorded, drop_recorded, copy_of(kernel)};
    if (!piece.arg) return cudaErrorMemoryAllocation;
    error = emu__capture_takes(stream, &piece, captured);
    if (!*captured) free(piece.arg);
    return error;
}

/* ---- launches ---- */

static cudaError_t launch(emu__stream *stream, const emu_kernel *kernel, emu__block **blocks)
{
    cudaError_t error = emu__devices[stream->device].error;
    bool captured = false;

    if (!error) error = capture(stream, kernel, &captured);
    if (error || captured) return error;
    for (size_t i = 0; i < kernel->access_count; i++) {
        const emu_access *access = &kernel->accesses[i];
        error = emu__access_device(stream, kernel->name, access->at, access->bytes, &blocks[i]);
        if (error) return error;
    }
    emu__item item = {.kind = kernel->unordered   ? EMU__ITEM_UNORDERED
                              : kernel->exclusive ? EMU__ITEM_EXCLUSIVE
                                                  : EMU__ITEM_RUN,
                      .run = kernel->run,
                      .arg = kernel->arg};
    error = emu__stream_add(stream, &item);
    for (size_t i = 0; !error && i < kernel->access_count; i++) {
        const emu_access *access = &kernel->accesses[i];
        emu__access_order(stream, kernel->name, blocks[i], access->at, access->bytes, access->writes);
    }
    return error;
}

cudaError_t emu_launch(cudaStream_t handle, const emu_kernel *kernel)
{
    emu__block *few[KERNEL_ACCESSES];
    emu__block **blocks = few;
    emu__stream *stream;
    cudaError_t error;

    if (emu__exit_begun()) return cudaErrorCudartUnloading;
    if (!emu__device_count()) return cudaErrorNoDevice;
    if (kernel->access_count > KERNEL_ACCESSES) {
        blocks = calloc(kernel->access_count, sizeof(emu__block *));
        if (!blocks) return cudaErrorMemoryAllocation;
    }
    emu__lock();
    error = emu__stream_for_work(handle, &stream);
    if (!error) error = launch(stream, kernel, blocks);
    emu__unlock();
    if (blocks != few) free(blocks);
    return error;
}

int emu_stream_device(cudaStream_t handle)
{
    emu__stream *stream;
    int device = -1;

    emu__lock();
    if (emu__device_count() && !emu__stream_look(handle, &stream)) device = stream->device;
    emu__unlock();
    return device;
}

bool emu_stream_capturing(cudaStream_t handle)
{
    emu__stream *stream;
    bool capturing = false;

    emu__lock();
    if (emu__device_count() && !emu__stream_look(handle, &stream)) capturing = stream->capture != NULL;
    emu__unlock();
    return capturing;
}

int emu_device_of(const void *at, size_t bytes)
{
    int device = -1;

    emu__lock();
    const emu__block *block = emu__block_at(at);
    if (block && !block->freed_by && (block->kind == EMU__DEVICE || block->kind == EMU__MANAGED) &&
        bytes <= block->bytes - ((uintptr_t)at - block->at))
        device = block->device;
    emu__unlock();
    return device;
}
