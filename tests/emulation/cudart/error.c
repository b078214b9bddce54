/* error.c - the last error of each thread, what destroys a device, and the texts of all errors. */
#include "error.h"
#include "capture.h"
#include "count.h"
#include "device.h"
#include "exit.h"
#include "inside.h"
#include "lock.h"
#include "script.h"

#include <stdatomic.h>
#include <stddef.h>

static _Thread_local cudaError_t last_error;
static _Thread_local bool in_host_function;
static atomic_bool started; /* streams or memory were made */
static atomic_bool forked;  /* this process is a child of one that had */

static void note_fork(void)
{
    if (atomic_load(&started)) atomic_store(&forked, true);
}

void emu__error_started(void)
{
    if (!atomic_exchange(&started, true)) pthread_atfork(NULL, NULL, note_fork);
}

void emu__error_in_host_function(bool is)
{
    in_host_function = is;
}

/* Errors after which CUDA says that the process must be ended. */
static bool destroys_device(cudaError_t error)
{
    switch (error) {
    case cudaErrorECCUncorrectable:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert: return true;
    default: return false;
    }
}

static cudaError_t device_error(void)
{
    cudaError_t error;

    emu__lock();
    error = emu__devices[emu__device_current()].error;
    emu__unlock();
    return error;
}

cudaError_t emu__begin(const char *function, unsigned what)
{
    cudaError_t error;

    emu__inside();
    emu__count(function);
    emu__exit_watch();
    if (emu__exit_begun()) return cudaErrorCudartUnloading;
    if (what & EMU__BLOCKS) emu__count_blocking();
    error = (cudaError_t)emu__script_call(function);
    if (error || (what & EMU__HARMLESS)) return error;
    if (atomic_load_explicit(&forked, memory_order_relaxed)) return cudaErrorInitializationError;
    if (in_host_function) return cudaErrorNotPermitted;
    if (!emu__device_count()) return cudaErrorNoDevice;
    error = device_error();
    if (!error && (what & EMU__UNSAFE)) error = emu__capture_forbids();
    if (!error && !(what & EMU__NO_CONTEXT)) emu__device_enter();
    return error;
}

cudaError_t emu__end(cudaError_t error)
{
    emu__outside();
    if (!error) return error;
    last_error = error;
    if (destroys_device(error)) emu__device_die(error);
    return error;
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t error = emu__begin("cudaGetLastError", EMU__HARMLESS);

    if (error) return error;
    error = last_error;
    if (!error || error != device_error()) last_error = cudaSuccess;
    return error;
}

cudaError_t cudaPeekAtLastError(void)
{
    cudaError_t error = emu__begin("cudaPeekAtLastError", EMU__HARMLESS);

    return error ? error : last_error;
}

typedef struct {
    cudaError_t error;
    const char *name, *text;
} description;

#define DESCRIBED(error, text) \
    {                          \
        error, #error, text    \
    }

static const description descriptions[] = {
    DESCRIBED(cudaSuccess, "no error"),
    DESCRIBED(cudaErrorInvalidValue, "invalid argument"),
    DESCRIBED(cudaErrorMemoryAllocation, "out of memory"),
    DESCRIBED(cudaErrorInitializationError, "initialization error"),
    DESCRIBED(cudaErrorCudartUnloading, "driver shutting down"),
    DESCRIBED(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    DESCRIBED(cudaErrorInvalidPitchValue, "invalid pitch argument"),
    DESCRIBED(cudaErrorInvalidSymbol, "invalid device symbol"),
    DESCRIBED(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    DESCRIBED(cudaErrorInsufficientDriver, "CUDA driver version is insufficient for CUDA runtime version"),
    DESCRIBED(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    DESCRIBED(cudaErrorInvalidDevice, "invalid device ordinal"),
    DESCRIBED(cudaErrorDevicesUnavailable, "CUDA-capable device(s) is/are busy or unavailable"),
    DESCRIBED(cudaErrorInvalidKernelImage, "device kernel image is invalid"),
    DESCRIBED(cudaErrorECCUncorrectable, "uncorrectable ECC error encountered"),
    DESCRIBED(cudaErrorPeerAccessUnsupported, "peer access is not supported between these two devices"),
    DESCRIBED(cudaErrorOperatingSystem, "OS call failed or operation not supported on this OS"),
    DESCRIBED(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    DESCRIBED(cudaErrorIllegalState, "the operation cannot be performed in the present state"),
    DESCRIBED(cudaErrorNotReady, "device not ready"),
    DESCRIBED(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    DESCRIBED(cudaErrorLaunchTimeout, "the launch timed out and was terminated"),
    DESCRIBED(cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled"),
    DESCRIBED(cudaErrorPeerAccessNotEnabled, "peer access has not been enabled"),
    DESCRIBED(cudaErrorAssert, "device-side assert triggered"),
    DESCRIBED(cudaErrorHostMemoryAlreadyRegistered,
              "part or all of the requested memory range is already mapped"),
    DESCRIBED(cudaErrorHostMemoryNotRegistered, "pointer does not correspond to a registered memory region"),
    DESCRIBED(cudaErrorHardwareStackError, "hardware stack error"),
    DESCRIBED(cudaErrorIllegalInstruction, "an illegal instruction was encountered"),
    DESCRIBED(cudaErrorMisalignedAddress, "misaligned address"),
    DESCRIBED(cudaErrorInvalidAddressSpace, "operation not supported on global/shared address space"),
    DESCRIBED(cudaErrorInvalidPc, "invalid program counter"),
    DESCRIBED(cudaErrorLaunchFailure, "unspecified launch failure"),
    DESCRIBED(cudaErrorNotPermitted, "operation not permitted"),
    DESCRIBED(cudaErrorNotSupported, "operation not supported"),
    DESCRIBED(cudaErrorSystemNotReady, "system not yet initialized"),
    DESCRIBED(cudaErrorSystemDriverMismatch,
              "system has unsupported display driver / cuda driver combination"),
    DESCRIBED(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"),
    DESCRIBED(cudaErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture"),
    DESCRIBED(cudaErrorStreamCaptureMerge, "operation would result in a merge of separate capture sequences"),
    DESCRIBED(cudaErrorStreamCaptureUnmatched, "capture was not ended in the same stream as it began"),
    DESCRIBED(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
    DESCRIBED(cudaErrorStreamCaptureIsolation, "dependency created on uncaptured work in another stream"),
    DESCRIBED(cudaErrorStreamCaptureImplicit,
              "operation would make the legacy stream depend on a capturing blocking stream"),
    DESCRIBED(cudaErrorCapturedEvent,
              "operation not permitted on an event last recorded in a capturing stream"),
    DESCRIBED(cudaErrorStreamCaptureWrongThread,
              "attempt to terminate a thread-local capture sequence from another thread"),
    DESCRIBED(cudaErrorTimeout, "wait operation timed out"),
    DESCRIBED(cudaErrorUnknown, "unknown error"),
};

static const description *describe(cudaError_t error)
{
    for (size_t i = 0; i < sizeof descriptions / sizeof *descriptions; i++)
        if (descriptions[i].error == error) return &descriptions[i];
    return NULL;
}

const char *cudaGetErrorName(cudaError_t error)
{
    const description *found = describe(error);

    return found ? found->name : "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t error)
{
    const description *found = describe(error);

    return found ? found->text : "unrecognized error code";
}
