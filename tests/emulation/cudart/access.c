/* access.c - the checks of a range of memory that queued work is to use. */
#include "access.h"

static cudaError_t refuse_freed(const emu__stream *stream, const char *name, const void *at, size_t bytes,
                                const emu__block *block)
{
    emu_misuse(
        "%s on %s is given %zu bytes at 0x%llx, %llu bytes into a buffer of %zu bytes that %s has freed",
        name, emu__stream_name(stream), bytes, (unsigned long long)(uintptr_t)at,
        (unsigned long long)((uintptr_t)at - block->at), block->bytes, block->freed_by);
    return cudaErrorInvalidValue;
}

cudaError_t emu__access_any(const emu__stream *stream, const char *name, const void *at, size_t bytes,
                            emu__block **found)
{
    emu__block *block = bytes ? emu__block_at(at) : NULL;

    *found = NULL;
    if (!block) {
        if (!bytes || !emu__memory_is_window(at)) return cudaSuccess;
        emu_misuse("%s on %s is given %zu bytes at 0x%llx, where no device memory is allocated", name,
                   emu__stream_name(stream), bytes, (unsigned long long)(uintptr_t)at);
        return cudaErrorInvalidValue;
    }
    if (block->freed_by) return refuse_freed(stream, name, at, bytes, block);
    size_t offset = (uintptr_t)at - block->at;
    if (bytes > block->bytes - offset) {
        emu_misuse("%s on %s is given %zu bytes at 0x%llx, %zu bytes into the %zu bytes allocated by %s",
                   name, emu__stream_name(stream), bytes, (unsigned long long)(uintptr_t)at, offset,
                   block->bytes, block->made_by);
        return cudaErrorInvalidValue;
    }
    *found = block;
    return cudaSuccess;
}

cudaError_t emu__access_device(const emu__stream *stream, const char *name, const void *at, size_t bytes,
                               emu__block **found)
{
    cudaError_t error = emu__access_any(stream, name, at, bytes, found);

    if (error || !bytes) return error;
    if (!*found) {
        emu_misuse("%s on %s is given %zu bytes at 0x%llx, which is host memory that no device can reach",
                   name, emu__stream_name(stream), bytes, (unsigned long long)(uintptr_t)at);
        return cudaErrorInvalidValue;
    }
    if ((*found)->kind == EMU__DEVICE && (*found)->device != stream->device) {
        emu_misuse("%s on %s is given %zu bytes at 0x%llx, which is memory of device %d", name,
                   emu__stream_name(stream), bytes, (unsigned long long)(uintptr_t)at, (*found)->device);
        return cudaErrorInvalidValue;
    }
    return cudaSuccess;
}

void emu__access_order(emu__stream *stream, const char *name, emu__block *block, const void *at, size_t bytes,
                       bool writes)
{
    if (!block) return;
    size_t from = (uintptr_t)at - block->at;
    emu__order_access(stream, name, block, from, from + bytes, writes);
}
