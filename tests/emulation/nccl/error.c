/* error.c - results, their names and the last sentence.
 *
 * As in NCCL the last sentence belongs to the process, not to a communicator; a caller gets a copy of its
 * thread's own, which lives until its next call. */
#include "error.h"
#include "alias.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { SENTENCE_MAX = 512 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char last[SENTENCE_MAX]; /* under the lock */
static _Thread_local char copy[SENTENCE_MAX];

static bool wants_warnings(void)
{
    const char *level = getenv("NCCL_DEBUG");

    return level && (!strcasecmp(level, "WARN") || !strcasecmp(level, "INFO") || !strcasecmp(level, "TRACE"));
}

ncclResult_t fail(ncclResult_t result, const char *format, ...)
{
    char text[SENTENCE_MAX];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    pthread_mutex_lock(&mutex);
    memcpy(last, text, sizeof last);
    pthread_mutex_unlock(&mutex);
    if (wants_warnings()) fprintf(stderr, "emulation: NCCL WARN %s\n", text);
    return result;
}

ncclResult_t fail_cuda(cudaError_t error, const char *what)
{
    return fail(ncclUnhandledCudaError, "%s: %s", what, cudaGetErrorString(error));
}

const char *ncclGetErrorString(ncclResult_t result)
{
    emu_enter("ncclGetErrorString");
    switch ((int)result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError: return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError: return "internal error - please report this issue to the NCCL developers";
    case ncclInvalidArgument: return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage: return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "NCCL operation in progress";
    default: return "unknown result code";
    }
}
ALIAS(ncclGetErrorString)

const char *ncclGetLastError(ncclComm_t comm)
{
    (void)comm; /* nor does NCCL look at it */
    emu_enter("ncclGetLastError");
    pthread_mutex_lock(&mutex);
    memcpy(copy, last, sizeof copy);
    pthread_mutex_unlock(&mutex);
    return copy;
}
ALIAS(ncclGetLastError)
