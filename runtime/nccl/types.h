/* types.h - Weft's types and reductions as NCCL has them. */
#ifndef WEFT_NCCL_TYPES_H
#define WEFT_NCCL_TYPES_H
#include "module.h"

/* A type as NCCL reduces or moves it: `parts` of `type` make one element. */
typedef struct weft__type {
    ncclDataType_t type;
    size_t parts;
} weft__type;

size_t weft__type_bytes(weft_dtype dtype);
/* As raw bytes: what only moves. */
weft__type weft__type_moved(weft_dtype dtype);
/* Only for what check lets through. */
weft__type weft__type_reduced(weft_dtype dtype);

/* Slot of the seam: the device column of weft.h's table, and what this device and this NCCL can do. */
weft_status weft__types_check(weft_backend *backend, const weft_backend_operation *op);

/* The reduction for one work.  PREMUL_SUM's is made for it; end it after the last call that is given it. */
ncclResult_t weft__reduction_begin(ncclComm_t comm, const weft_backend_operation *op, ncclRedOp_t *reduction);
void weft__reduction_end(ncclComm_t comm, const weft_backend_operation *op, ncclRedOp_t reduction);
#endif
