/* cudart.c - finds the CUDA runtime of this process and hands calls on to it.
 *
 * A library that is linked has one major version in its name, and a process has that of torch or cupy, which bring their
 * own.  So nothing of CUDA is linked here: every function that this module calls is looked up in the library that is
 * there.  What it takes and returns is equal in all the versions below.
 * Fails: no library, another major version, or one that lacks a function, each with a sentence. */
#include "cudart.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAJOR_LEAST      12
#define MAJOR_MOST       13
#define PROPERTIES_BYTES 8192 /* more than cudaDeviceProp has in any version */
#define NAME_BYTES       256  /* the name is its first member, in every version */
#define SENTENCE_BYTES   256

/* By the names that the header has for what they take. */
#define FUNCTIONS(X)                                                                                         \
    X(cudaDeviceGetAttribute, (int *value, enum cudaDeviceAttr attr, int device), (value, attr, device))     \
    X(cudaDeviceGetStreamPriorityRange, (int *leastPriority, int *greatestPriority),                         \
      (leastPriority, greatestPriority))                                                                     \
    X(cudaDriverGetVersion, (int *version), (version))                                                       \
    X(cudaEventCreateWithFlags, (cudaEvent_t * event, unsigned flags), (event, flags))                       \
    X(cudaEventDestroy, (cudaEvent_t event), (event))                                                        \
    X(cudaEventQuery, (cudaEvent_t event), (event))                                                          \
    X(cudaEventRecord, (cudaEvent_t event, cudaStream_t stream), (event, stream))                            \
    X(cudaFree, (void *devPtr), (devPtr))                                                                    \
    X(cudaFreeHost, (void *ptr), (ptr))                                                                      \
    X(cudaGetDevice, (int *device), (device))                                                                \
    X(cudaGetDeviceCount, (int *count), (count))                                                             \
    X(cudaGetLastError, (void), ())                                                                          \
    X(cudaGraphAddHostNode,                                                                                  \
      (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies,                \
       size_t numDependencies, const struct cudaHostNodeParams *pNodeParams),                                \
      (pGraphNode, graph, pDependencies, numDependencies, pNodeParams))                                      \
    X(cudaGraphRetainUserObject,                                                                             \
      (cudaGraph_t graph, cudaUserObject_t object, unsigned count, unsigned flags),                          \
      (graph, object, count, flags))                                                                         \
    X(cudaHostAlloc, (void **pHost, size_t size, unsigned flags), (pHost, size, flags))                      \
    X(cudaHostRegister, (void *ptr, size_t size, unsigned flags), (ptr, size, flags))                        \
    X(cudaMalloc, (void **devPtr, size_t size), (devPtr, size))                                              \
    X(cudaMemcpy2DAsync,                                                                                     \
      (void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,                \
       enum cudaMemcpyKind kind, cudaStream_t stream),                                                       \
      (dst, dpitch, src, spitch, width, height, kind, stream))                                               \
    X(cudaMemcpyAsync,                                                                                       \
      (void *dst, const void *src, size_t count, enum cudaMemcpyKind kind, cudaStream_t stream),             \
      (dst, src, count, kind, stream))                                                                       \
    X(cudaMemsetAsync, (void *devPtr, int value, size_t count, cudaStream_t stream),                         \
      (devPtr, value, count, stream))                                                                        \
    X(cudaRuntimeGetVersion, (int *version), (version))                                                      \
    X(cudaSetDevice, (int device), (device))                                                                 \
    X(cudaStreamCreateWithFlags, (cudaStream_t * stream, unsigned flags), (stream, flags))                   \
    X(cudaStreamCreateWithPriority, (cudaStream_t * stream, unsigned flags, int priority),                   \
      (stream, flags, priority))                                                                             \
    X(cudaStreamDestroy, (cudaStream_t stream), (stream))                                                    \
    X(cudaStreamGetPriority, (cudaStream_t stream, int *priority), (stream, priority))                       \
    X(cudaStreamIsCapturing, (cudaStream_t stream, enum cudaStreamCaptureStatus * status), (stream, status)) \
    X(cudaStreamQuery, (cudaStream_t stream), (stream))                                                      \
    X(cudaStreamSynchronize, (cudaStream_t stream), (stream))                                                \
    X(cudaStreamWaitEvent, (cudaStream_t stream, cudaEvent_t event, unsigned flags), (stream, event, flags)) \
    X(cudaThreadExchangeStreamCaptureMode, (enum cudaStreamCaptureMode * mode), (mode))                      \
    X(cudaUserObjectCreate,                                                                                  \
      (cudaUserObject_t * object_out, void *ptr, cudaHostFn_t destroy, unsigned initialRefcount,             \
       unsigned flags),                                                                                      \
      (object_out, ptr, destroy, initialRefcount, flags))                                                    \
    X(cudaUserObjectRelease, (cudaUserObject_t object, unsigned count), (object, count))

static struct {
    void *library; /* dlopen's; NULL: not found yet */
#define FIELD(name, parameters, arguments) cudaError_t(*name) parameters;
    FUNCTIONS(FIELD)
#undef FIELD
    const char *(*error_string)(cudaError_t error);
    /* Each of these is in some versions only. */
    cudaError_t (*properties)(void *properties, int device);
    cudaError_t (*capture_12)(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                              unsigned long long *id, cudaGraph_t *graph, const cudaGraphNode_t **after,
                              size_t *count);
    cudaError_t (*capture_13)(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                              unsigned long long *id, cudaGraph_t *graph, const cudaGraphNode_t **after,
                              const void **edges, size_t *count);
    cudaError_t (*driver_function)(const char *name, void **function, unsigned long long flags,
                                   enum cudaDriverEntryPointQueryResult *how);
    cudaError_t (*driver_function_by_version)(const char *name, void **function, unsigned version,
                                              unsigned long long flags,
                                              enum cudaDriverEntryPointQueryResult *how);
    cudaError_t (*stream_device)(cudaStream_t stream, int *device);
} runtime;

#define FORWARD(name, parameters, arguments) \
    cudaError_t name parameters              \
    {                                        \
        return runtime.name arguments;       \
    }
FUNCTIONS(FORWARD)
#undef FORWARD

const char *cudaGetErrorString(cudaError_t error)
{
    return runtime.error_string(error);
}

/* ---- finding ---- */

/* ISO C has no cast from an object to a function. */
static bool look_up(void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol;
}

/* NULL: it has every function that there must be; else the name of one that it lacks. */
static const char *fill(void *library, int major)
{
#define LOOK_UP(name, parameters, arguments) \
    if (!look_up(library, #name, (void *)&runtime.name)) return #name;
    FUNCTIONS(LOOK_UP)
#undef LOOK_UP
    if (!look_up(library, "cudaGetErrorString", (void *)&runtime.error_string)) return "cudaGetErrorString";
    look_up(library, "cudaGetDriverEntryPoint", (void *)&runtime.driver_function);
    look_up(library, "cudaGetDriverEntryPointByVersion", (void *)&runtime.driver_function_by_version);
    if (major == MAJOR_MOST)
        look_up(library, "cudaStreamGetCaptureInfo", (void *)&runtime.capture_13);
    else
        look_up(library, "cudaStreamGetCaptureInfo_v2", (void *)&runtime.capture_12);
    look_up(library, "cudaStreamGetDevice", (void *)&runtime.stream_device);          /* since 12.8 */
    if (!look_up(library, "cudaGetDeviceProperties_v2", (void *)&runtime.properties)) /* CUDA 12 */
        look_up(library, "cudaGetDeviceProperties", (void *)&runtime.properties);
    return NULL;
}

/* The major version of a libcudart that is loaded, whichever. */
static int major_of(struct dl_phdr_info *info, size_t bytes, void *major)
{
    const char *slash = strrchr(info->dlpi_name, '/'), *name = slash ? slash + 1 : info->dlpi_name;
    (void)bytes;
    return sscanf(name, "libcudart.so.%d", (int *)major) == 1;
}

/* A driver runs the majors up to its own, and tells which that is before any runtime is loaded: one that is too new would
 * stay in the process where it does not let itself be unloaded, and whoever looks for a runtime later would take it.
 * 0: there is no driver, or it does not say; or the runtime is the emulation's, which has none. */
static int major_of_driver(void)
{
    void *driver = getenv("CUDA_EMULATION_DEVICES") ? NULL : dlopen("libcuda.so.1", RTLD_NOW);
    int (*ask)(int *version) = NULL;
    int version = 0;
    if (driver && look_up(driver, "cuDriverGetVersion", (void *)&ask) && ask(&version)) version = 0;
    if (driver) dlclose(driver);
    return version / 1000;
}

/* The newest of those that can be loaded and are not newer than the driver; else the oldest of those, which says itself what
 * is wrong with its driver when it is used. */
static void *load_library(char name[32])
{
    int driver = major_of_driver(), most = driver && driver < MAJOR_MOST ? driver : MAJOR_MOST;
    void *library = NULL;
    for (int major = most; major >= MAJOR_LEAST && !library; major--) {
        snprintf(name, 32, "libcudart.so.%d", major);
        library = dlopen(name, RTLD_NOW);
    }
    for (int major = most < MAJOR_LEAST ? MAJOR_LEAST : most + 1; major <= MAJOR_MOST && !library; major++) {
        snprintf(name, 32, "libcudart.so.%d", major);
        library = dlopen(name, RTLD_NOW);
    }
    return library;
}

/* The one that is loaded, else one that can be. */
static void *open_library(char name[32])
{
    int other = 0;
    void *library;
    for (int major = MAJOR_MOST; major >= MAJOR_LEAST; major--) {
        snprintf(name, 32, "libcudart.so.%d", major);
        library = dlopen(name, RTLD_NOW | RTLD_NOLOAD);
        if (library) return library;
    }
    if (dl_iterate_phdr(major_of, &other)) {
        snprintf(name, 32, "CUDA %d", other);
        return NULL;
    }
    library = load_library(name);
    if (!library) snprintf(name, 32, "no CUDA runtime");
    return library;
}

bool weft__cudart_find(const char **why)
{
    static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
    static _Thread_local char sentence[SENTENCE_BYTES];
    char name[32];
    const char *lacks = NULL;
    pthread_mutex_lock(&turn);
    if (!runtime.library) {
        void *library = open_library(name);
        if (!library)
            snprintf(sentence, sizeof sentence,
                     "this process has %s, expected CUDA %d or %d (libcudart.so.%d or .%d)", name,
                     MAJOR_LEAST, MAJOR_MOST, MAJOR_LEAST, MAJOR_MOST);
        else if ((lacks = fill(library, atoi(name + sizeof "libcudart.so." - 1))))
            snprintf(sentence, sizeof sentence, "%s has no %s", name, lacks);
        else
            runtime.library = library;
    }
    bool found = runtime.library;
    pthread_mutex_unlock(&turn);
    if (!found) *why = sentence;
    return found;
}

/* ---- what differs between versions ---- */

void weft__cudart_name_device(int device, char *name, size_t bytes)
{
    char *properties = runtime.properties ? calloc(1, PROPERTIES_BYTES) : NULL;
    snprintf(name, bytes, "(no name)");
    if (properties && runtime.properties(properties, device) == cudaSuccess)
        snprintf(name, bytes, "%.*s", NAME_BYTES, properties);
    else
        cudaGetLastError();
    free(properties);
}

cudaError_t weft__cudart_driver_function(const char *name, unsigned version, void **function)
{
    enum cudaDriverEntryPointQueryResult how;
    cudaError_t error = cudaErrorSymbolNotFound;
    *function = NULL;
    if (runtime.driver_function_by_version)
        error = runtime.driver_function_by_version(name, function, version, cudaEnableDefault, &how);
    else if (runtime.driver_function)
        error = runtime.driver_function(name, function, cudaEnableDefault, &how);
    if (error != cudaSuccess) cudaGetLastError();
    return error != cudaSuccess || *function ? error : cudaErrorSymbolNotFound;
}

int weft__cudart_stream_device(cudaStream_t stream)
{
    int device = -1;
    if (!runtime.stream_device) return -1;
    if (runtime.stream_device(stream, &device) == cudaSuccess) return device;
    cudaGetLastError();
    return -1;
}

cudaError_t weft__cudart_capture(cudaStream_t stream, unsigned long long *id, cudaGraph_t *graph)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    cudaError_t error = cudaErrorNotSupported;
    if (runtime.capture_13)
        error = runtime.capture_13(stream, &status, id, graph, NULL, NULL, NULL);
    else if (runtime.capture_12)
        error = runtime.capture_12(stream, &status, id, graph, NULL, NULL);
    if (error != cudaSuccess) return error;
    return status == cudaStreamCaptureStatusActive ? error : cudaErrorStreamCaptureInvalidated;
}
