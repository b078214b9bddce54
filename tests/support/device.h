/* device.h - the memory that operations work on: the host's, or with JOB_MEMORY=cuda that of CUDA devices, or with
 * JOB_MEMORY=toy that of a backend which was built outside of the tree (tests/tools/backend).
 *
 * A test takes its buffers from job_buffer and reaches into them by job_put and job_get, so that one source
 * serves both.  Rank r uses device r modulo the devices there are.  libcudart is opened by name when it is
 * first needed: the programs run where there is none, on a real one and on the emulation.  The toy has no streams: what
 * is asked of them here is done at once.
 *
 * Fails the test, with the function and its error, where a call of CUDA does. */
#ifndef TESTS_SUPPORT_DEVICE_H
#define TESTS_SUPPORT_DEVICE_H

#include "job.h"

/* What tests use of CUDA, without its headers: X(result, name, parameters). */
#define DEVICE_CALLS(X)                                                                         \
    X(int, cudaGetDeviceCount, (int *count))                                                    \
    X(int, cudaGetDevice, (int *device))                                                        \
    X(int, cudaSetDevice, (int device))                                                         \
    X(int, cudaMalloc, (void **memory, size_t bytes))                                           \
    X(int, cudaHostAlloc, (void **memory, size_t bytes, unsigned flags))                        \
    X(int, cudaMemcpyAsync, (void *to, const void *from, size_t bytes, int kind, void *stream)) \
    X(int, cudaStreamCreateWithFlags, (void **stream, unsigned flags))                          \
    X(int, cudaStreamSynchronize, (void *stream))                                               \
    X(int, cudaStreamQuery, (void *stream))                                                     \
    X(int, cudaStreamGetPriority, (void *stream, int *priority))                                \
    X(int, cudaStreamWaitEvent, (void *stream, void *event, unsigned flags))                    \
    X(int, cudaEventCreateWithFlags, (void **event, unsigned flags))                            \
    X(int, cudaEventRecord, (void *event, void *stream))                                        \
    X(int, cudaStreamIsCapturing, (void *stream, int *status))                                  \
    X(int, cudaStreamBeginCapture, (void *stream, int mode))                                    \
    X(int, cudaStreamEndCapture, (void *stream, void **graph))                                  \
    X(int, cudaGraphInstantiate, (void **exec, void *graph, unsigned long long flags))          \
    X(int, cudaGraphLaunch, (void *exec, void *stream))                                         \
    X(int, cudaGraphExecDestroy, (void *exec))                                                  \
    X(int, cudaGraphDestroy, (void *graph))                                                     \
    X(int, cudaLaunchHostFunc, (void *stream, void (*call)(void *), void *arg))                 \
    X(int, cudaPeekAtLastError, (void))                                                         \
    X(int, cudaDeviceReset, (void))                                                             \
    X(const char *, cudaGetErrorString, (int error))

/* Only the emulation has these (emulation.h); NULL on a real device. */
#define DEVICE_EMULATION_CALLS(X)                  \
    X(uint64_t, emu_blocking_calls, (void))        \
    X(uint64_t, emu_calls, (const char *function)) \
    X(uint64_t, emu_ns_inside, (void))             \
    X(uint64_t, emu_misuses, (void))               \
    X(int, emu_hanging, (void))                    \
    X(void, emu_script, (const char *script))      \
    X(int, emu_script_applied, (void))             \
    X(void, emu_release, (void))

typedef struct device_api {
#define DEVICE_MEMBER(result, name, parameters) result(*name) parameters;
    DEVICE_CALLS(DEVICE_MEMBER)
    DEVICE_EMULATION_CALLS(DEVICE_MEMBER)
#undef DEVICE_MEMBER
} device_api;

const device_api *device(void);
bool device_is_emulated(void);
#define DEVICE_OK(call) device_check(__FILE__, __LINE__, #call, call)
void device_check(const char *file, int line, const char *what, int error);
/* From here on a call of CUDA that fails does not fail the test, nor a stream that does not go on any more: the device of this
 * process is lost then, and what was to be copied is not. */
void device_may_be_lost(void);
bool device_is_lost(void);

bool job_on_device(void); /* JOB_MEMORY is set */
bool device_has_streams(void);
bool job_by_host(void);        /* JOB_BY_HOST is set: no NCCL, device memory goes by way of the host */
const char *job_backend(void); /* the backend of that memory: "nccl" */
weft_memory job_memory(void);  /* for weft_call.memory, where pointers may be NULL */
void device_use(int rank);     /* by every thread of a rank before anything else here; job.h does it */
int device_of(int rank);       /* -1: they have no numbers */

/* Zeroed; freed like job_alloc's. */
void *job_buffer(job_rank *me, size_t bytes);
void job_put(void *buffer, const void *from, size_t bytes);
void job_get(void *to, const void *buffer, size_t bytes);
void job_put_int(int32_t *at, int32_t value);
int32_t job_get_int(const int32_t *at);

/* By hand: memory of this thread's device, or pinned memory of the host, kept for the next who takes it. */
typedef enum device_kind { DEVICE_MEMORY, DEVICE_PINNED } device_kind;
void *device_take(device_kind kind, size_t bytes); /* undefined contents */
void device_give(void *memory);                    /* nothing uses it any more */

void *device_stream(int which); /* this thread's streams 0 and 1, nonblocking */
enum { DEVICE_STREAMS = 2 };
void device_reset(
    void); /* the current one, of a rank that is alone in its process; nothing of what it had there is used */
void device_sync(void *stream); /* what was queued is done */
/* Memory of the toy, also beside devices; undefined contents, never given back. */
void *device_toy(size_t bytes);
/* Queues a copy of any direction. */
void device_copy(void *to, const void *from, size_t bytes, void *stream);
/* Later work on the stream begins so much later. */
void device_delay(void *stream, int microseconds);

/* Later work on the stream begins once this thread has opened it, which is then gone.  job.h opens those that a failed
 * check leaves. */
typedef struct device_gate device_gate;
device_gate *device_shut(void *stream);
void device_open(device_gate *gate);
void device_open_all(void); /* of this thread */

#endif
