/* error.h - the sentence that goes with a result, as ncclGetLastError gives it. */
#ifndef EMULATION_NCCL_ERROR_H
#define EMULATION_NCCL_ERROR_H
#include "emulation.h"

#include <nccl.h>

/* Keeps the sentence (and prints it where NCCL_DEBUG asks for warnings) and returns the result. */
ncclResult_t fail(ncclResult_t result, const char *format, ...) __attribute__((format(printf, 2, 3)));
ncclResult_t fail_cuda(cudaError_t error, const char *what); /* ncclUnhandledCudaError */
#endif
