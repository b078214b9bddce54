/* bench_cuda.c - see bench_cuda.h.  The few functions are declared here as the
 * runtime's headers have them. */
#include "bench_cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAJOR_LEAST = 12, MAJOR_MOST = 19, COPY_BY_ADDRESS = 4, NON_BLOCKING = 1, PROPERTIES_BYTES = 16384 };

#define FUNCTIONS(X)                                                                       \
    X(cudaSetDevice, (int device))                                                         \
    X(cudaMalloc, (void **at, size_t bytes))                                               \
    X(cudaMemcpyAsync, (void *to, const void *from, size_t bytes, int kind, void *stream)) \
    X(cudaStreamCreateWithFlags, (void **stream, unsigned flags))                          \
    X(cudaStreamSynchronize, (void *stream))                                               \
    X(cudaRuntimeGetVersion, (int *version))

static struct {
    const struct bench_job *job;
    void *stream;
    char name[160];
#define DECLARE(name, arguments) int(*name) arguments;
    FUNCTIONS(DECLARE)
#undef DECLARE
    const char *(*cudaGetErrorString)(int error);
} cuda;

bool bench_cuda_library(const char *library, const struct bench_symbol *symbols, size_t n, char *why,
                        size_t bytes)
{
    void *opened = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
    if (!opened) {
        snprintf(why, bytes, "%s is not loaded", library);
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        void **function = symbols[i].function;
        *function = dlsym(opened, symbols[i].name);
        if (*function) continue;
        snprintf(why, bytes, "%s has no %s", library, symbols[i].name);
        return false;
    }
    return true;
}

static void must(const char *what, int error)
{
    if (error) bench_die(cuda.job, what, cuda.cudaGetErrorString(error));
}

static bool load(char *why, size_t bytes, char library[32])
{
    static const struct bench_symbol symbols[] = {
#define SYMBOL(name, arguments) {#name, (void *)&cuda.name},
        FUNCTIONS(SYMBOL)
#undef SYMBOL
            {"cudaGetErrorString", (void *)&cuda.cudaGetErrorString}};
    for (int major = MAJOR_LEAST; major <= MAJOR_MOST; major++) {
        snprintf(library, 32, "libcudart.so.%d", major);
        if (!bench_cuda_library(library, symbols, sizeof(symbols) / sizeof(symbols[0]), why, bytes)) continue;
        return true;
    }
    return false;
}

/* The name is the first thing in cudaDeviceProp, whose other members differ between versions. */
static void name_device(const char *library, int device)
{
    int version = 0, (*properties)(void *properties, int device) = NULL;
    void (*emulated)(void) = NULL;
    char unused[64], *text = NULL;
    const struct bench_symbol mark = {"emu_misuses", (void *)&emulated},
                              ask = {"cudaGetDeviceProperties", (void *)&properties};
    must("asking for the version of CUDA", cuda.cudaRuntimeGetVersion(&version));
    if (bench_cuda_library(library, &mark, 1, unused, sizeof(unused))) {
        snprintf(cuda.name, sizeof(cuda.name), "emulated devices (these figures say nothing about GPUs)");
        return;
    }
    if (bench_cuda_library(library, &ask, 1, unused, sizeof(unused)) && (text = calloc(1, PROPERTIES_BYTES)))
        must("asking for the device's name", properties(text, device));
    snprintf(cuda.name, sizeof(cuda.name), "%.64s, CUDA %d.%d", text ? text : "CUDA device", version / 1000,
             version % 1000 / 10);
    free(text);
}

bool bench_cuda_open(const struct bench_job *job, char *why, size_t bytes)
{
    int device = weft_device(job->ctx);
    char library[32], missing[128];
    cuda.job = job;
    if (device < 0) {
        snprintf(why, bytes, "--device: rank %d has no CUDA device (backends here: %s)", job->rank,
                 weft_backends(job->ctx));
        return false;
    }
    if (!load(missing, sizeof(missing), library)) {
        snprintf(why, bytes, "--device: the CUDA runtime cannot be used: %s", missing);
        return false;
    }
    must("choosing the device", cuda.cudaSetDevice(device));
    must("making a stream", cuda.cudaStreamCreateWithFlags(&cuda.stream, NON_BLOCKING));
    name_device(library, device);
    return true;
}

const char *bench_cuda_name(void)
{
    return cuda.name;
}

void *bench_cuda_memory(size_t bytes)
{
    void *at = NULL;
    must("allocating device memory", cuda.cudaMalloc(&at, bytes));
    return at;
}

void bench_cuda_copy(void *to, const void *from, size_t bytes)
{
    must("copying", cuda.cudaMemcpyAsync(to, from, bytes, COPY_BY_ADDRESS, cuda.stream));
    bench_cuda_synchronize();
}

void *bench_cuda_stream(void)
{
    return cuda.stream;
}

void bench_cuda_synchronize(void)
{
    must("waiting for the stream", cuda.cudaStreamSynchronize(cuda.stream));
}
