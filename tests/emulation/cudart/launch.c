/* launch.c - what nvcc puts into programs.  No kernel runs here: a launch ends the process with a sentence.
 * That a program brings kernels along is not enough for that: libraries do whose
 * kernels are never launched. */
#include "emulation.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

_Noreturn static void no_kernels(const char *function)
{
    fprintf(stderr, "emulation: %s: the emulation runs no CUDA kernels; this program needs a GPU\n",
            function);
    fflush(NULL);
    _exit(EMU_MISUSE_STATUS);
}

cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **args, size_t shared,
                             cudaStream_t stream)
{
    (void)function, (void)grid, (void)block, (void)args, (void)shared, (void)stream;
    no_kernels("cudaLaunchKernel");
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *function, void **args)
{
    (void)config, (void)function, (void)args;
    no_kernels("cudaLaunchKernelExC");
}

cudaError_t cudaLaunchCooperativeKernel(const void *function, dim3 grid, dim3 block, void **args,
                                        size_t shared, cudaStream_t stream)
{
    (void)function, (void)grid, (void)block, (void)args, (void)shared, (void)stream;
    no_kernels("cudaLaunchCooperativeKernel");
}

/* ---- functions that only nvcc's output calls; no header declares them ---- */

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream)
{
    (void)grid, (void)block, (void)shared, (void)stream;
    no_kernels("a kernel<<<>>>");
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream)
{
    (void)grid, (void)block, (void)shared, (void)stream;
    no_kernels("a kernel<<<>>>");
}

cudaError_t __cudaGetKernel(void **kernel, const void *function);
cudaError_t __cudaGetKernel(void **kernel, const void *function)
{
    (void)kernel, (void)function;
    no_kernels("a kernel<<<>>>");
}

cudaError_t __cudaLaunchKernel(void *kernel, dim3 grid, dim3 block, void **args, size_t shared,
                               cudaStream_t stream);
cudaError_t __cudaLaunchKernel(void *kernel, dim3 grid, dim3 block, void **args, size_t shared,
                               cudaStream_t stream)
{
    (void)kernel, (void)grid, (void)block, (void)args, (void)shared, (void)stream;
    no_kernels("a kernel<<<>>>");
}

/* Called before main; the handle is only given back to the others. */
void **__cudaRegisterFatBinary(void *binary);
void **__cudaRegisterFatBinary(void *binary)
{
    static void *handle;

    handle = binary;
    return &handle;
}

void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaRegisterFatBinaryEnd(void **handle)
{
    (void)handle;
}

void __cudaUnregisterFatBinary(void **handle);
void __cudaUnregisterFatBinary(void **handle)
{
    (void)handle;
}

char __cudaInitModule(void **handle);
char __cudaInitModule(void **handle)
{
    (void)handle;
    return 1;
}

void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int limit,
                            void *thread, void *block, void *block_dim, void *grid_dim, int *warp);
void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int limit,
                            void *thread, void *block, void *block_dim, void *grid_dim, int *warp)
{
    (void)handle, (void)host, (void)device, (void)name, (void)limit;
    (void)thread, (void)block, (void)block_dim, (void)grid_dim, (void)warp;
}

void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int external, size_t bytes,
                       int constant, int global);
void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int external, size_t bytes,
                       int constant, int global)
{
    (void)handle, (void)host, (void)device, (void)name, (void)external, (void)bytes, (void)constant,
        (void)global;
}
