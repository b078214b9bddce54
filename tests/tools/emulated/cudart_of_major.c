/* cudart_of_major.c - as much of a libcudart as tells which one was asked: of CUDA MAJOR.4, with one device that is
 * named for it.  A function that a major version has not is left out. */
#include <stdio.h>
#include <string.h>

#if MAJOR > 12
#define PROPERTIES   cudaGetDeviceProperties
#define DRIVER_ENTRY cudaGetDriverEntryPointByVersion
#else
#define PROPERTIES   cudaGetDeviceProperties_v2
#define DRIVER_ENTRY cudaGetDriverEntryPoint
#endif
#ifndef DRIVER
#define DRIVER MAJOR
#endif

#ifdef LIBCUDA /* the driver instead */
int cuDriverGetVersion(int *version);
int cuDriverGetVersion(int *version)
{
    *version = DRIVER * 1000 + 40;
    return 0;
}
#else

__attribute__((constructor)) static void tell_loaded(void)
{
    fprintf(stderr, "CUDA %d is loaded\n", MAJOR);
}

#define TEXT(number)   TEXT_OF(number)
#define TEXT_OF(token) #token

#define UNUSED(name) \
    int name(void);  \
    int name(void)   \
    {                \
        return 0;    \
    }
UNUSED(cudaDeviceGetStreamPriorityRange)
UNUSED(cudaEventCreateWithFlags)
UNUSED(cudaEventDestroy)
UNUSED(cudaEventQuery)
UNUSED(cudaEventRecord)
UNUSED(cudaFree)
UNUSED(cudaFreeHost)
UNUSED(cudaGetDevice)
UNUSED(cudaGetLastError)
UNUSED(cudaGraphAddHostNode)
UNUSED(cudaGraphRetainUserObject)
UNUSED(cudaHostAlloc)
UNUSED(cudaHostRegister)
UNUSED(cudaMalloc)
UNUSED(cudaMemcpy2DAsync)
UNUSED(cudaMemcpyAsync)
UNUSED(cudaMemsetAsync)
UNUSED(cudaSetDevice)
UNUSED(cudaStreamCreateWithFlags)
UNUSED(cudaStreamCreateWithPriority)
UNUSED(cudaStreamDestroy)
UNUSED(cudaStreamGetPriority)
UNUSED(cudaStreamIsCapturing)
UNUSED(cudaStreamQuery)
UNUSED(cudaStreamSynchronize)
UNUSED(cudaStreamWaitEvent)
#ifndef WITHOUT_ONE
UNUSED(cudaThreadExchangeStreamCaptureMode)
#endif
UNUSED(cudaUserObjectCreate)
UNUSED(cudaUserObjectRelease)

const char *cudaGetErrorString(int error);
const char *cudaGetErrorString(int error)
{
    (void)error;
    return "an error";
}

int cudaGetDeviceCount(int *devices);
int cudaGetDeviceCount(int *devices)
{
    *devices = 1;
    return DRIVER < MAJOR ? 35 : 0; /* cudaErrorInsufficientDriver */
}

int cudaDeviceGetAttribute(int *value, int what, int device);
int cudaDeviceGetAttribute(int *value, int what, int device)
{
    (void)what, (void)device;
    *value = 9;
    return 0;
}

int cudaRuntimeGetVersion(int *version);
int cudaRuntimeGetVersion(int *version)
{
    *version = MAJOR * 1000 + 40;
    return 0;
}

int cudaDriverGetVersion(int *version);
int cudaDriverGetVersion(int *version)
{
    *version = DRIVER * 1000 + 40;
    return 0;
}

int PROPERTIES(void *properties, int device);
int PROPERTIES(void *properties, int device)
{
    (void)device;
    strcpy(properties, "made of libcudart.so." TEXT(MAJOR));
    return 0;
}

#if MAJOR > 12
int DRIVER_ENTRY(const char *name, void **function, unsigned version, unsigned long long flags, int *how);
int DRIVER_ENTRY(const char *name, void **function, unsigned version, unsigned long long flags, int *how)
{
    (void)name, (void)version, (void)flags;
    *function = how;
    *how = 0;
    return 0;
}
#else
int DRIVER_ENTRY(const char *name, void **function, unsigned long long flags, int *how);
int DRIVER_ENTRY(const char *name, void **function, unsigned long long flags, int *how)
{
    (void)name, (void)flags;
    *function = how;
    *how = 0;
    return 0;
}
#endif
#endif
