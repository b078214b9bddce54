/* emulation.h - what the emulated NCCL, and the tests, ask of the emulated CUDA runtime beside CUDA's own
 * functions.  Exported by the emulated libcudart under its own symbol version, WEFT_EMULATION.
 *
 * Environment:
 *   CUDA_EMULATION_DEVICES=N    devices there are [1]
 *   CUDA_EMULATION_MEMORY=BYTES what each has [1 GiB]
 *   CUDA_EMULATION_QUEUE=N      pieces of work that a stream takes before a call that queues more blocks [1024]
 *   CUDA_EMULATION_SCRIPT=...   what goes wrong and when: script.h has the grammar
 *   CUDA_EMULATION_MISUSE=stop  a misuse ends the process with status 86 after its sentence [stop];
 *                               report: it is told and counted, and the program goes on
 *   CUDA_EMULATION_COUNTS=PATH  at exit: one line per function of how often it was called, appended */
#ifndef WEFT_EMULATION_H
#define WEFT_EMULATION_H
#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EMU_MISUSE_STATUS 86

/* A range of device memory that a piece of work reads or writes. */
typedef struct emu_access {
    const void *at;
    size_t bytes;
    bool writes;
} emu_access;

/* Work on a stream, as a kernel is: run is called once, on the thread of that stream, when all before it on
 * the stream is done, and may take as long as it likes.  arg is its own to free. */
typedef struct emu_kernel {
    const char *name; /* for messages; static */
    void (*run)(void *arg);
    void *arg;
    const emu_access *accesses; /* copied by the launch */
    size_t access_count;
    bool exclusive; /* kernels of communicators: of all exclusive ones on a device one runs at a time,
                       strictly in the order of their launches, whatever their streams */
    bool unordered; /* an exclusive one that comes when its stream does, whatever was launched before */
    /* A stream that captures records it, where both are there: then run never gets arg, but what again(arg) makes at
     * each launch of the graph (NULL: no memory); drop ends what run does not get. */
    void *(*again)(const void *arg);
    void (*drop)(void *arg);
} emu_kernel;

/* Queues it.  The accesses are checked here: each must lie in live memory of the stream's device, and be
 * ordered after what other streams do with the same bytes (a misuse otherwise). */
cudaError_t emu_launch(cudaStream_t stream, const emu_kernel *kernel);

/* The device of live device or managed memory that holds all these bytes; -1: it is not that. */
int emu_device_of(const void *at, size_t bytes);
/* Memory is registered by this function, or not any more (NULL): to free it while it is is a misuse. */
void emu_register(const void *at, const char *by);

/* Where the emulation itself, inside emu_kernel.run, reads and writes what a program calls `at`.  (A program
 * that touches device memory on the host is caught in a fault.) */
void *emu_host_view(const void *at);
int emu_stream_device(cudaStream_t stream); /* -1: no such stream */
/* Waits, as freeing memory does, for all that is queued on the device now; what the host sees of it stays as it was. */
void emu_device_await(int device);
bool emu_stream_capturing(cudaStream_t stream);
/* The stream is from now on one of a context that the program has made by the driver, as cuCtxCreate or
 * cuGreenCtxCreate does: events of the device's own context cannot be recorded there. */
typedef enum emu_context { EMU_CONTEXT_PRIMARY, EMU_CONTEXT_OF_DRIVER, EMU_CONTEXT_GREEN } emu_context;
void emu_stream_move(cudaStream_t stream, emu_context context);

/* Tells of a misuse: "emulation: misuse: ..." on stderr, and ends the process unless
 * CUDA_EMULATION_MISUSE=report. */
void emu_misuse(const char *format, ...) __attribute__((format(printf, 1, 2)));
uint64_t emu_misuses(void);
const char *emu_last_misuse(void); /* its sentence; "": none yet */

/* Called by every emulated function of both libraries when it begins: counts the call, and carries out what
 * the script has for it (a delay, or to hang until emu_release or for ever).  Returns the error that the
 * script wants the function to return, as a number of its library; 0: none. */
int emu_enter(const char *function);
/* As emu_enter, also for what is no call: the thread in which NCCL does the work of a nonblocking call says
 * "background".  A hang (but not `stuck`) ends also when is_over(arg) says so, which is asked every few
 * milliseconds. */
int emu_enter_until(const char *function, bool (*is_over)(void *), void *arg);
uint64_t emu_calls(const char *function);
/* How long this thread was inside of calls of both libraries since it asked for the first time: all of NCCL's that make an
 * operation, and CUDA's of a submission. */
uint64_t emu_ns_inside(void);
/* One of NCCL's begins, and ends. */
void emu_inside_nccl(void);
void emu_outside_nccl(void);
uint64_t
emu_blocking_calls(void); /* cudaMalloc, cudaFree, cudaMemcpy, *Synchronize, cudaHostAlloc, ... so far */
/* The script's word for something that is no call ("async", "die"): its argument; -1: it has none for this
 * time. */
int emu_event(const char *what);
void emu_script(const char *script); /* in place of the environment's, from now on; NULL: none */
void emu_release(void);              /* what hangs by script goes on */
int emu_hanging(void);               /* how many calls that would release */
int emu_script_applied(void);        /* how many of its rules have been carried out */

#ifdef __cplusplus
}
#endif
#endif
