/* cudart.h - the CUDA runtime of this process, of either major version that this module can use: the one that is loaded,
 * or else the one that the loader finds.  Its functions have their own names and places in cuda_runtime_api.h; here are
 * those that differ between the versions. */
#ifndef WEFT_NCCL_CUDART_H
#define WEFT_NCCL_CUDART_H
#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>

/* Before any other call of CUDA.  False, and a sentence: there is none that can be used; asked again, it looks again. */
bool weft__cudart_find(const char **why);

/* The device's name, or "(no name)". */
void weft__cudart_name_device(int device, char *name, size_t bytes);

/* A function of the driver: NULL and an error where there is none of that name. */
cudaError_t weft__cudart_driver_function(const char *name, unsigned version, void **function);
/* Which device the stream is on; -1: this version of CUDA cannot tell. */
int weft__cudart_stream_device(cudaStream_t stream);
/* The capture that the stream is in, which is active, and its graph, which is the capture's. */
cudaError_t weft__cudart_capture(cudaStream_t stream, unsigned long long *id, cudaGraph_t *graph);
#endif
