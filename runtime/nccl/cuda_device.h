/* cuda_device.h - the device: which one, what lives on it, and marks on the streams of callers. */
#ifndef WEFT_NCCL_DEVICE_H
#define WEFT_NCCL_DEVICE_H
#include "module.h"

/* Which device a context works on, without any call of NCCL.  -1 and *why: there is none for it.  place NULL:
 * the first. */
int weft__device_choose(const weft_backend_place *place, const char **why);
/* "CUDA 13.0, NCCL 2.28.9, device 0: NVIDIA H100"; and its compute capability. */
void weft__device_describe(weft__nccl *nccl);

/* What of the driver is needed.  False and *why: it has not got it. */
bool weft__device_find_driver(weft__nccl *nccl, const char **why);

/* Slots of the seam. */
weft_status weft__device_owns(weft_backend *backend, const void *pointer, bool *owned);
weft_status weft__device_mark(weft_backend *backend, void *stream, void **marker);
void weft__device_unmark(weft_backend *backend, void *marker);

/* What is capturing takes no marks and no waits; NULL is the legacy stream. */
bool weft__device_captures(weft_backend *backend, const void *marker);
weft_status weft__device_check_stream(const weft__nccl *nccl, void *stream);
#endif
