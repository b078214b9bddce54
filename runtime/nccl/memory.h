/* memory.h - device memory that weft_mem_alloc gives, and its windows. */
#ifndef WEFT_NCCL_MEMORY_H
#define WEFT_NCCL_MEMORY_H
#include "communicator.h"

/* Slots of the seam. */
weft_status weft__memory_alloc(weft_backend *backend, size_t bytes, void **ptr);
bool weft__memory_is_shareable(weft_backend *backend, const void *ptr);
weft_status weft__memory_free(weft_backend *backend, void *ptr);
weft_status weft__memory_held(weft_backend *backend, size_t *bytes);
weft_status weft__memory_find_window(weft__comm *comm, const void *at, void **window, size_t *offset);
weft_status weft__memory_find_peer(weft__comm *comm, const void *at, int rank, void **there);

/* With the turn: makes what op->out points to a window of the communicator that NCCL's kernels reach
 * directly. Where NCCL or the device cannot, the memory is as good as any other, and that is no failure. */
ncclResult_t weft__memory_window(weft__comm *comm, const weft_backend_operation *op, const char **call);
/* The communicator is about to end, if it has not been aborted: it takes back its windows. */
void weft__memory_leave(weft__comm *comm);
bool weft__memory_has_window(weft__comm *comm);
void weft__memory_close(weft__nccl *nccl);
#endif
