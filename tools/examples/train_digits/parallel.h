/* parallel.h - one source for two kinds of machine.  As C a kernel is a function that loops; compiled by nvcc
 * the same text is what a thread of a GPU does, and its loops are shared out:
 *
 *   EACH_DOWN, EACH_ACROSS               the rows and columns of the result, over all threads
 *   EACH_BLOCK_DOWN, EACH_BLOCK_ACROSS   blocks of it, over blocks of threads
 *   EACH_GROUP, EACH_LANE                the two loops inside such a block, over its threads
 *   NEAR                                 memory of the block: the GPU's shared memory, a core's cache
 *   TOGETHER                             what one thread of the block has left NEAR, the others find
 *
 * A loop whose number of turns is not shared out runs alike in all threads. */
#ifndef TRAIN_PARALLEL_H
#define TRAIN_PARALLEL_H
#include "kernels.h"

#ifdef __CUDACC__

enum { THREADS = 64, LANES = 8, GRID_DOWN_MOST = 65535 };

#define PART                          static __device__
#define NEAR                          __shared__
#define TOGETHER()                    __syncthreads()
#define SHARED_OUT(i, n, first, step) for (size_t i = (first); i < (n); i += (step))
#define EACH_DOWN(i, n)               SHARED_OUT(i, n, blockIdx.y, gridDim.y)
#define EACH_ACROSS(i, n) \
    SHARED_OUT(i, n, (size_t)blockIdx.x *THREADS + threadIdx.x, (size_t)gridDim.x * THREADS)
#define EACH_BLOCK_DOWN(i, n, block) SHARED_OUT(i, n, (size_t)blockIdx.y *(block), (size_t)gridDim.y *(block))
#define EACH_BLOCK_ACROSS(i, n, block) \
    SHARED_OUT(i, n, (size_t)blockIdx.x *(block), (size_t)gridDim.x *(block))
#define EACH_GROUP(i, n, step) SHARED_OUT(i, n, threadIdx.x / LANES * (step), THREADS / LANES * (step))
#define EACH_LANE(i, n, step)  SHARED_OUT(i, n, threadIdx.x % LANES * (step), LANES * (step))

static inline dim3 grid_of(size_t down, size_t across)
{
    dim3 grid;
    grid.x = (unsigned)(across ? across : 1);
    grid.y = (unsigned)(down < GRID_DOWN_MOST ? down : GRID_DOWN_MOST);
    grid.y = grid.y ? grid.y : 1;
    grid.z = 1;
    return grid;
}

/* A block of threads makes `high` x `wide` of the result at a time. */
#define KERNEL_OF_BLOCKS(name, high, wide)                                                         \
    static __device__ void name##_body(const struct name *a);                                      \
    static __global__ void name##_on_device(const struct name a)                                   \
    {                                                                                              \
        name##_body(&a);                                                                           \
    }                                                                                              \
    int name##_launch(const void *arguments, void *stream)                                         \
    {                                                                                              \
        struct name a = *(const struct name *)arguments;                                           \
        void *passed[] = {&a};                                                                     \
        return cudaLaunchKernel((const void *)name##_on_device,                                    \
                                grid_of((a.down + high - 1) / high, (a.across + wide - 1) / wide), \
                                grid_of(1, THREADS), passed, 0, (cudaStream_t)stream);             \
    }                                                                                              \
    static __device__ void name##_body(const struct name *a)

#else

enum { THREADS = 1 };

#define PART static
#define NEAR static _Thread_local
#define TOGETHER()
#define EACH_DOWN(i, n)                for (size_t i = 0; i < (n); i++)
#define EACH_ACROSS(i, n)              for (size_t i = 0; i < (n); i++)
#define EACH_BLOCK_DOWN(i, n, block)   for (size_t i = 0; i < (n); i += (block))
#define EACH_BLOCK_ACROSS(i, n, block) for (size_t i = 0; i < (n); i += (block))
#define EACH_GROUP(i, n, step)         for (size_t i = 0; i < (n); i += (step))
#define EACH_LANE(i, n, step)          for (size_t i = 0; i < (n); i += (step))

#ifdef TRAIN_DIGITS_NVCC
#define LAUNCHED_BY(name) name##_launch
#else
#define LAUNCHED_BY(name) NULL
#endif

#define KERNEL_OF_BLOCKS(name, high, wide)                                                               \
    static void name##_body(const struct name *a);                                                       \
    static void name##_on_host(const void *arguments)                                                    \
    {                                                                                                    \
        name##_body(arguments);                                                                          \
    }                                                                                                    \
    const struct kernel name##_kernel = {#name, sizeof(struct name), name##_on_host, LAUNCHED_BY(name)}; \
    static void name##_body(const struct name *a)

#endif

/* The usual kernel: an element of the result is a thread's. */
#define KERNEL(name) KERNEL_OF_BLOCKS(name, 1, THREADS)
#endif
