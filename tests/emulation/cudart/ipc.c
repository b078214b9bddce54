/* ipc.c - device memory and events of other processes, which the emulation does not have. */
#include "error.h"

static cudaError_t refuse(const char *function)
{
    cudaError_t error = emu__begin(function, 0);

    return emu__end(error ? error : cudaErrorNotSupported);
}

cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t *handle, cudaEvent_t event)
{
    (void)handle, (void)event;
    return refuse("cudaIpcGetEventHandle");
}

cudaError_t cudaIpcOpenEventHandle(cudaEvent_t *event, cudaIpcEventHandle_t handle)
{
    (void)event, (void)handle;
    return refuse("cudaIpcOpenEventHandle");
}

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *at)
{
    (void)handle, (void)at;
    return refuse("cudaIpcGetMemHandle");
}

cudaError_t cudaIpcOpenMemHandle(void **at, cudaIpcMemHandle_t handle, unsigned flags)
{
    (void)at, (void)handle, (void)flags;
    return refuse("cudaIpcOpenMemHandle");
}

cudaError_t cudaIpcCloseMemHandle(void *at)
{
    (void)at;
    return refuse("cudaIpcCloseMemHandle");
}
