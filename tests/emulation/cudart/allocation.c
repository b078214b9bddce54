/* allocation.c - CUDA's functions that make and free memory, and say what a pointer is. */
#include "access.h"
#include "capture.h"
#include "device.h"
#include "error.h"
#include "lock.h"
#include "memory.h"
#include "stream.h"

#include <stdlib.h>

static cudaError_t allocate(emu__kind kind, void **made, size_t bytes, unsigned flags, const char *by)
{
    emu__block *block;
    cudaError_t error;

    if (!made) return cudaErrorInvalidValue;
    if (!bytes) { /* as CUDA does: no memory, and no error */
        *made = NULL;
        return cudaSuccess;
    }
    emu__lock();
    error = emu__block_make(kind, emu__device_current(), NULL, bytes, by, &block);
    if (!error) {
        block->flags = flags;
        *made = (void *)block->at;
    }
    emu__unlock();
    return error;
}

cudaError_t cudaMalloc(void **made, size_t bytes)
{
    cudaError_t error = emu__begin("cudaMalloc", EMU__BLOCKS | EMU__UNSAFE);

    return emu__end(error ? error : allocate(EMU__DEVICE, made, bytes, 0, "cudaMalloc"));
}

cudaError_t cudaMallocManaged(void **made, size_t bytes, unsigned flags)
{
    cudaError_t error = emu__begin("cudaMallocManaged", EMU__BLOCKS | EMU__UNSAFE);

    if (error) return emu__end(error);
    if (!bytes || (flags != cudaMemAttachGlobal && flags != cudaMemAttachHost))
        return emu__end(cudaErrorInvalidValue);
    return emu__end(allocate(EMU__MANAGED, made, bytes, flags, "cudaMallocManaged"));
}

cudaError_t cudaMallocHost(void **made, size_t bytes)
{
    cudaError_t error = emu__begin("cudaMallocHost", EMU__BLOCKS | EMU__UNSAFE);

    return emu__end(error ? error : allocate(EMU__PINNED, made, bytes, 0, "cudaMallocHost"));
}

cudaError_t cudaHostAlloc(void **made, size_t bytes, unsigned flags)
{
    const unsigned known = cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined;
    cudaError_t error = emu__begin("cudaHostAlloc", EMU__BLOCKS | EMU__UNSAFE);

    if (error) return emu__end(error);
    if (flags & ~known) return emu__end(cudaErrorInvalidValue);
    return emu__end(allocate(EMU__PINNED, made, bytes, flags, "cudaHostAlloc"));
}

/* ---- freeing ---- */

/* The live block that begins here and is of a kind that this function frees. */
static cudaError_t find_to_free(const void *at, const char *by, bool host, emu__block **found)
{
    emu__block *block = emu__block_at(at);

    if (block && block->freed_by) {
        emu_misuse("%s is given 0x%llx, which %s has freed before", by, (unsigned long long)(uintptr_t)at,
                   block->freed_by);
        return cudaErrorInvalidValue;
    }
    if (!block || block->at != (uintptr_t)at || block->kind == EMU__REGISTERED ||
        (block->kind == EMU__PINNED) != host)
        return cudaErrorInvalidValue;
    if (block->registered) {
        emu_misuse("%s is given 0x%llx (%zu bytes), which %s has registered and nobody deregistered", by,
                   (unsigned long long)block->at, block->bytes, block->registered_by);
        return cudaErrorInvalidValue;
    }
    *found = block;
    return cudaSuccess;
}

void emu_register(const void *at, const char *by)
{
    emu__lock();
    emu__block *block = emu__block_at(at);
    if (block) block->registered += by ? 1 : -1;
    if (block && by) block->registered_by = by;
    emu__unlock();
}

/* Waits for the device, as CUDA does, because work that is queued may still use it.  What is only recorded in a capture
 * is not queued: whom none forbids the call (EMU__UNSAFE) spoils none, as NCCL relies on, which frees in relaxed mode. */
static cudaError_t free_block(void *at, const char *by, bool host)
{
    emu__block *block;
    cudaError_t error = find_to_free(at, by, host, &block);

    if (error) return error;
    emu__block_retire(block, by); /* while this waits, nobody else frees or uses it */
    error = emu__device_settle(block->device);
    emu__block_release(block);
    return error;
}

cudaError_t cudaFree(void *at)
{
    cudaError_t error = emu__begin("cudaFree", EMU__BLOCKS | EMU__UNSAFE);

    if (error || !at) return emu__end(error);
    emu__lock();
    error = free_block(at, "cudaFree", false);
    emu__unlock();
    return emu__end(error);
}

cudaError_t cudaFreeHost(void *at)
{
    cudaError_t error = emu__begin("cudaFreeHost", EMU__BLOCKS | EMU__UNSAFE);

    if (error || !at) return emu__end(error);
    emu__lock();
    error = free_block(at, "cudaFreeHost", true);
    emu__unlock();
    return emu__end(error);
}

/* ---- in the order of a stream ---- */

static cudaError_t allocate_on(cudaStream_t handle, void **made, size_t bytes)
{
    emu__stream *stream;
    emu__block *block;
    cudaError_t error = emu__stream_find(handle, &stream);

    if (!error) error = emu__capture_refuses(stream);
    if (!error) error = emu__stream_add(stream, &(emu__item){.kind = EMU__ITEM_MARK});
    if (!error) error = emu__block_make(EMU__DEVICE, stream->device, NULL, bytes, "cudaMallocAsync", &block);
    if (error) return error;
    /* Others must come after this stream's order to use it. */
    emu__access_order(stream, "cudaMallocAsync", block, (void *)block->at, bytes, true);
    *made = (void *)block->at;
    return cudaSuccess;
}

cudaError_t cudaMallocAsync(void **made, size_t bytes, cudaStream_t stream)
{
    cudaError_t error = emu__begin("cudaMallocAsync", 0);

    if (error) return emu__end(error);
    if (!made) return emu__end(cudaErrorInvalidValue);
    if (!bytes) {
        *made = NULL;
        return cudaSuccess;
    }
    emu__lock();
    error = allocate_on(stream, made, bytes);
    emu__unlock();
    return emu__end(error);
}

static void release_block(void *arg)
{
    emu__lock();
    emu__block_release(arg);
    emu__unlock();
}

static cudaError_t free_on(cudaStream_t handle, void *at)
{
    emu__stream *stream;
    emu__block *block;
    cudaError_t error = find_to_free(at, "cudaFreeAsync", false, &block);

    if (!error) error = emu__stream_find(handle, &stream);
    if (!error) error = emu__capture_refuses(stream);
    if (!error) error = emu__stream_add(stream, &(emu__item){.run = release_block, .arg = block});
    if (error) return error;
    emu__access_order(stream, "cudaFreeAsync", block, at, block->bytes, true);
    emu__block_retire(block, "cudaFreeAsync");
    return cudaSuccess;
}

cudaError_t cudaFreeAsync(void *at, cudaStream_t stream)
{
    cudaError_t error = emu__begin("cudaFreeAsync", 0);

    if (error || !at) return emu__end(error);
    emu__lock();
    error = free_on(stream, at);
    emu__unlock();
    return emu__end(error);
}

/* ---- registered host memory ---- */

static cudaError_t add_registered(void *at, size_t bytes, unsigned flags)
{
    emu__block *block;
    cudaError_t error;

    if (emu__memory_is_window(at)) return cudaErrorInvalidValue;
    if (emu__block_at(at) || emu__block_at((char *)at + bytes - 1))
        return cudaErrorHostMemoryAlreadyRegistered;
    error = emu__block_make(EMU__REGISTERED, emu__device_current(), at, bytes, "cudaHostRegister", &block);
    if (!error) block->flags = flags;
    return error;
}

cudaError_t cudaHostRegister(void *at, size_t bytes, unsigned flags)
{
    const unsigned known = cudaHostRegisterPortable | cudaHostRegisterMapped;
    cudaError_t error = emu__begin("cudaHostRegister", EMU__BLOCKS | EMU__UNSAFE);

    if (error) return emu__end(error);
    if (!at || !bytes || (uintptr_t)at > UINTPTR_MAX - bytes) return emu__end(cudaErrorInvalidValue);
    if (flags & ~known) return emu__end(cudaErrorNotSupported);
    emu__lock();
    error = add_registered(at, bytes, flags);
    emu__unlock();
    return emu__end(error);
}

static cudaError_t remove_registered(const void *at)
{
    emu__block *block = emu__block_at(at);

    if (!block || block->kind != EMU__REGISTERED || block->at != (uintptr_t)at)
        return cudaErrorHostMemoryNotRegistered;
    cudaError_t error = emu__device_settle(block->device);
    if (emu__block_at(at) != block) return cudaErrorHostMemoryNotRegistered; /* another thread was faster */
    emu__block_release(block);
    return error;
}

cudaError_t cudaHostUnregister(void *at)
{
    cudaError_t error = emu__begin("cudaHostUnregister", EMU__BLOCKS | EMU__UNSAFE);

    if (error) return emu__end(error);
    emu__lock();
    error = remove_registered(at);
    emu__unlock();
    return emu__end(error);
}

/* ---- what a pointer is ---- */

static const emu__block *live_block(const void *at)
{
    const emu__block *block = emu__block_at(at);

    return block && !block->freed_by ? block : NULL;
}

static bool is_pinned(const emu__block *block)
{
    return block && (block->kind == EMU__PINNED || block->kind == EMU__REGISTERED);
}

cudaError_t cudaHostGetDevicePointer(void **device_pointer, void *at, unsigned flags)
{
    cudaError_t error = emu__begin("cudaHostGetDevicePointer", 0);

    if (error) return emu__end(error);
    if (!device_pointer || flags) return emu__end(cudaErrorInvalidValue);
    emu__lock();
    if (is_pinned(live_block(at)))
        *device_pointer = at;
    else
        error = cudaErrorInvalidValue;
    emu__unlock();
    return emu__end(error);
}

cudaError_t cudaHostGetFlags(unsigned *flags, void *at)
{
    cudaError_t error = emu__begin("cudaHostGetFlags", 0);

    if (error) return emu__end(error);
    if (!flags) return emu__end(cudaErrorInvalidValue);
    emu__lock();
    const emu__block *block = live_block(at);
    if (is_pinned(block))
        *flags = block->flags;
    else
        error = cudaErrorInvalidValue;
    emu__unlock();
    return emu__end(error);
}

static void describe(struct cudaPointerAttributes *attributes, const void *at)
{
    const emu__block *block = live_block(at);

    *attributes = (struct cudaPointerAttributes){.type = cudaMemoryTypeUnregistered, .device = -2};
    if (!block) return;
    attributes->device = block->device;
    attributes->devicePointer = (void *)at;
    attributes->hostPointer = block->kind == EMU__DEVICE ? NULL : (void *)at;
    switch (block->kind) {
    case EMU__DEVICE: attributes->type = cudaMemoryTypeDevice; break;
    case EMU__MANAGED: attributes->type = cudaMemoryTypeManaged; break;
    case EMU__PINNED:
    case EMU__REGISTERED: attributes->type = cudaMemoryTypeHost; break;
    }
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *at)
{
    cudaError_t error = emu__begin("cudaPointerGetAttributes", 0);

    if (error) return emu__end(error);
    if (!attributes) return emu__end(cudaErrorInvalidValue);
    emu__lock();
    describe(attributes, at);
    emu__unlock();
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
    cudaError_t error = emu__begin("cudaMemGetInfo", 0);

    if (error) return emu__end(error);
    if (!free_bytes || !total) return emu__end(cudaErrorInvalidValue);
    emu__lock();
    *total = emu__memory_total();
    *free_bytes = *total - emu__memory_used(emu__device_current());
    emu__unlock();
    return cudaSuccess;
}
