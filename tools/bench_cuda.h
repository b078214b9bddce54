/* bench_cuda.h - the device of this rank, through the CUDA runtime that Weft itself has loaded: weft-bench
 * links no CUDA, and runs where there is none.  What goes wrong on a device ends the
 * program with a sentence. */
#ifndef WEFT_TOOLS_BENCH_CUDA_H
#define WEFT_TOOLS_BENCH_CUDA_H
#include "bench_job.h"

struct bench_symbol {
    const char *name;
    void *function; /* address of the pointer that is to be set */
};

/* Opens `library` if this process has it already, and looks the functions up.  False: why not. */
bool bench_cuda_library(const char *library, const struct bench_symbol *symbols, size_t n, char *why,
                        size_t bytes);

/* False: there is no device for this rank, and why not. */
bool bench_cuda_open(const struct bench_job *job, char *why, size_t bytes);
/* What figures are of: "NVIDIA H200, CUDA 13.0", or emulated devices. */
const char *bench_cuda_name(void);

void *bench_cuda_memory(size_t bytes);
/* From or to the memory of this process; returns when it has happened. */
void bench_cuda_copy(void *to, const void *from, size_t bytes);
/* The stream on which everything is measured; synchronize waits until it has nothing to do. */
void *bench_cuda_stream(void);
void bench_cuda_synchronize(void);
#endif
