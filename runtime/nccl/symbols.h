/* symbols.h - functions of NCCL that came after 2.19, looked up when the module is opened; NULL: the NCCL
 * that runs has it not.  Everything else is linked. */
#ifndef WEFT_NCCL_SYMBOLS_H
#define WEFT_NCCL_SYMBOLS_H
#include <nccl.h>
#include <stddef.h>
#include <stdint.h>

typedef struct weft__symbols {
    /* 2.27 */
    ncclResult_t (*window_register)(ncclComm_t comm, void *at, size_t bytes, void **window, int flags);
    ncclResult_t (*window_deregister)(ncclComm_t comm, void *window);
    /* 2.28 */
    ncclResult_t (*all_to_all)(const void *in, void *out, size_t count, ncclDataType_t type, ncclComm_t comm,
                               cudaStream_t stream);
    ncclResult_t (*gather)(const void *in, void *out, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream);
    ncclResult_t (*scatter)(const void *in, void *out, size_t count, ncclDataType_t type, int root,
                            ncclComm_t comm, cudaStream_t stream);
    ncclResult_t (*revoke)(ncclComm_t comm, int flags); /* flags: WEFT__NCCL_REVOKE */
    /* 2.29; statistic: WEFT__NCCL_MEMORY_TOTAL */
    ncclResult_t (*memory)(ncclComm_t comm, int statistic, uint64_t *value);
    /* of the host's, where peer's memory can be reached; else *there is NULL */
    ncclResult_t (*peer_pointer)(void *window, size_t offset, int peer, void **there);
} weft__symbols;

/* NCCL_WIN_DEFAULT.  With NCCL_WIN_COLL_SYMMETRIC each rank would find its peers' buffers by its own offset, and
 * choose its kernel by what it alone knows to lie in a window: wrong sums, or a hang, where ranks differ in
 * that, which weft_mem_alloc allows. */
#define WEFT__NCCL_WINDOW_ANY   0
#define WEFT__NCCL_REVOKE       0 /* NCCL_REVOKE_DEFAULT */
#define WEFT__NCCL_MEMORY_TOTAL 3 /* ncclStatGpuMemTotal */

void weft__symbols_find(weft__symbols *symbols);
#endif
