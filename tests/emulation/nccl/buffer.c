/* buffer.c - memory for NCCL, and buffers registered with a communicator.
 *
 * ncclMemAlloc gives ordinary device memory, and remembers it: windows are made on such memory alone, as of what
 * cudaMalloc gives the driver has no handle.  Registration changes nothing in how data moves here; what it
 * returns is checked as NCCL does: a handle belongs to its communicator.  It ends before its memory does, or
 * with the communicator. */
#include "buffer.h"
#include "alias.h"

#include <pthread.h>
#include <stdlib.h>

typedef struct allocated {
    struct allocated *next;
    char *at;
    size_t bytes;
} allocated;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static allocated *all;

static ncclResult_t note(void *at, size_t bytes)
{
    allocated *made = malloc(sizeof *made);

    if (!made) return fail(ncclSystemError, "no memory");
    *made = (allocated){.at = at, .bytes = bytes};
    pthread_mutex_lock(&lock);
    made->next = all;
    all = made;
    pthread_mutex_unlock(&lock);
    return ncclSuccess;
}

static void forget(const void *at)
{
    allocated *found = NULL;

    pthread_mutex_lock(&lock);
    for (allocated **link = &all; *link && !found; link = &(*link)->next)
        if ((*link)->at == at) {
            found = *link;
            *link = found->next;
            break;
        }
    pthread_mutex_unlock(&lock);
    free(found);
}

bool buffer_from_nccl(const void *at)
{
    bool found = false;

    pthread_mutex_lock(&lock);
    for (const allocated *a = all; a && !found; a = a->next)
        found = (const char *)at >= a->at && (const char *)at < a->at + a->bytes;
    pthread_mutex_unlock(&lock);
    return found;
}

ncclResult_t ncclMemAlloc(void **ptr, size_t size)
{
    ncclResult_t result = comm_enter(NULL, "ncclMemAlloc");
    cudaError_t error;

    if (result) return result;
    if (!ptr || !size) return fail(ncclInvalidArgument, "ncclMemAlloc: ptr is NULL or size is 0");
    error = cudaMalloc(ptr, size);
    return error ? fail_cuda(error, "ncclMemAlloc") : note(*ptr, size);
}
ALIAS(ncclMemAlloc)

ncclResult_t ncclMemFree(void *ptr)
{
    ncclResult_t result = comm_enter(NULL, "ncclMemFree");
    cudaError_t error;

    if (result || !ptr) return result;
    error = cudaFree(ptr);
    if (error) return fail_cuda(error, "ncclMemFree");
    forget(ptr);
    return ncclSuccess;
}
ALIAS(ncclMemFree)

comm_buffer *buffer_add(ncclComm_t comm, void *at, size_t bytes, bool window, const char *function)
{
    comm_buffer *made = calloc(1, sizeof *made);

    if (!made) return NULL;
    *made = (comm_buffer){.next = comm->buffers, .at = at, .bytes = bytes, .window = window};
    comm->buffers = made;
    emu_register(at, function);
    return made;
}

uint64_t buffer_offset(ncclComm_t comm, const void *at, size_t bytes)
{
    for (const comm_buffer *b = comm->buffers; b; b = b->next) {
        uintptr_t offset = (uintptr_t)at - (uintptr_t)b->at;
        if (b->symmetric && (uintptr_t)at >= (uintptr_t)b->at && offset + bytes <= b->bytes)
            return offset + 1;
    }
    return 0;
}

static void unlink_buffer(comm_buffer **at)
{
    comm_buffer *found = *at;

    *at = found->next;
    emu_register(found->at, NULL);
    free(found);
}

void buffer_remove_all(ncclComm_t comm)
{
    while (comm->buffers) unlink_buffer(&comm->buffers);
}

ncclResult_t buffer_remove(ncclComm_t comm, const void *handle, bool window, const char *function)
{
    for (comm_buffer **at = &comm->buffers; *at; at = &(*at)->next) {
        comm_buffer *found = *at;
        if (found != handle || found->window != window) continue;
        unlink_buffer(at);
        return ncclSuccess;
    }
    return fail(ncclInvalidUsage, "%s: %p is not registered with %s", function, handle, comm->name);
}

ncclResult_t buffer_check(ncclComm_t comm, const void *at, size_t bytes, const char *function)
{
    if (!at || !bytes) return fail(ncclInvalidArgument, "%s: no buffer", function);
    if (emu_device_of(at, bytes) == comm->device) return ncclSuccess;
    return fail(ncclInvalidArgument, "%s: %p (%zu bytes) is not live memory of device %d", function, at,
                bytes, comm->device);
}

static ncclResult_t enter_buffer(ncclComm_t comm, void *at, size_t bytes, void **handle)
{
    ncclResult_t result = buffer_check(comm, at, bytes, "ncclCommRegister");
    comm_buffer *made;

    if (result) return result;
    if (!handle) return fail(ncclInvalidArgument, "ncclCommRegister: handle is NULL");
    made = buffer_add(comm, at, bytes, false, "ncclCommRegister");
    if (!made) return fail(ncclSystemError, "no memory");
    *handle = made;
    return ncclSuccess;
}

ncclResult_t ncclCommRegister(ncclComm_t comm, void *buff, size_t size, void **handle)
{
    ncclResult_t result = comm_begin(comm, "ncclCommRegister");

    if (result) return result;
    result = enter_buffer(comm, buff, size, handle);
    comm_end(comm);
    return result;
}
ALIAS(ncclCommRegister)

ncclResult_t ncclCommDeregister(ncclComm_t comm, void *handle)
{
    ncclResult_t result = comm_begin(comm, "ncclCommDeregister");

    if (result) return result;
    if (handle) result = buffer_remove(comm, handle, false, "ncclCommDeregister");
    comm_end(comm);
    return result;
}
ALIAS(ncclCommDeregister)
