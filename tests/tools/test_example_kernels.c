/* test_example_kernels.c - train_digits' kernels in the form that nvcc compiles do what they do as C: blocks
 * of 64 threads of this machine stand in for a GPU's, one block after the other. */
#include "random.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

/* ---- as much of CUDA C as the kernels need ------------------------------------------------------------- */

typedef struct dim3 {
    unsigned x, y, z;
} dim3;
typedef void *cudaStream_t;

static _Thread_local dim3 blockIdx, threadIdx;
static dim3 gridDim;
static pthread_barrier_t all_of_block;

static void __syncthreads(void)
{
    pthread_barrier_wait(&all_of_block);
}

static int cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **passed, size_t bytes,
                            cudaStream_t stream);

#define __CUDACC__
#define __device__
#define __global__
#define __shared__ static
#pragma GCC diagnostic ignored "-Wpedantic" /* a function's address as that of data */
#include "kernels.c" // NOLINT(bugprone-suspicious-include): once more, in its other form

#define KERNELS(X) X(product) X(bias) X(unbend) X(judge) X(tally) X(descend)

struct thread {
    pthread_t id;
    const void *kernel, *arguments;
    dim3 block;
    unsigned index;
};

static void *run_thread(void *arg)
{
    const struct thread *t = arg;
    blockIdx = t->block;
    threadIdx = (dim3){t->index, 0, 0};
#define RUN(name) \
    if (t->kernel == (const void *)name##_on_device) name##_on_device(*(const struct name *)t->arguments);
    KERNELS(RUN)
#undef RUN
    return NULL;
}

static int cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **passed, size_t bytes,
                            cudaStream_t stream)
{
    struct thread threads[THREADS];
    assert_int_equal(block.x, THREADS);
    assert_true(bytes == 0 && !stream);
    gridDim = grid;
    for (unsigned b = 0; b < grid.x * grid.y; b++) {
        assert_int_equal(pthread_barrier_init(&all_of_block, NULL, THREADS), 0);
        for (unsigned i = 0; i < THREADS; i++) {
            threads[i] = (struct thread){.kernel = kernel,
                                         .arguments = passed[0],
                                         .block = {b % grid.x, b / grid.x, 0},
                                         .index = i};
            assert_int_equal(pthread_create(&threads[i].id, NULL, run_thread, &threads[i]), 0);
        }
        for (unsigned i = 0; i < THREADS; i++) pthread_join(threads[i].id, NULL);
        pthread_barrier_destroy(&all_of_block);
    }
    return 0;
}

/* ---- both forms on the same numbers -------------------------------------------------------------------- */

/* On the device's copy of what it writes, and on the host's. */
#define BOTH(name, device, host)                             \
    do {                                                     \
        assert_int_equal(name##_launch(&(device), NULL), 0); \
        name##_kernel.on_host(&(host));                      \
    } while (0)

static float *numbers(size_t n)
{
    float *at = malloc((n + 1) * sizeof(*at));
    assert_non_null(at);
    for (size_t i = 0; i < n; i++) at[i] = random_unit_at(n, i) - 0.5F;
    return at;
}

static float *copy_of(const float *from, size_t n)
{
    float *at = numbers(n);
    memcpy(at, from, n * sizeof(*at));
    return at;
}

static void assert_same(const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(a[i] - b[i]) <= 1e-5F))
            fail_msg("element %zu: %g on the device, %g on the host", i, (double)a[i], (double)b[i]);
}

static void check_product(size_t down, size_t across, size_t depth, bool turned)
{
    float *left = numbers(down * depth), *right = numbers(depth * across);
    struct matrix l = {left, turned ? 1 : depth, turned ? down : 1};
    struct matrix r = {right, turned ? 1 : across, turned ? depth : 1};
    struct product device = {down, across, numbers(down * across), l, r, depth}, host = device;
    host.out = numbers(down * across);
    BOTH(product, device, host);
    assert_same(device.out, host.out, down * across);
    free(left);
    free(right);
    free(device.out);
    free(host.out);
}

static void products(void **state)
{
    static const size_t sizes[][3] = {{1, 1, 1}, {33, 65, 31}, {7, 10, 0}, {40, 130, 70}};
    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (int turned = 0; turned < 2; turned++)
            check_product(sizes[i][0], sizes[i][1], sizes[i][2], turned);
}

static void elements(void **state)
{
    enum { DOWN = 3, ACROSS = 70, N = DOWN * ACROSS };
    float *bias = numbers(ACROSS), *other = numbers(N);
    struct bias bend = {DOWN, ACROSS, numbers(N), bias, true}, bend_host = bend;
    struct unbend unbend = {DOWN, ACROSS, numbers(N), other}, unbend_host = unbend;
    struct descend descend = {1, N, numbers(N), numbers(N), other, 0.1F, 0.9F}, descend_host = descend;
    (void)state;
    bend_host.x = copy_of(bend.x, N);
    unbend_host.delta = copy_of(unbend.delta, N);
    descend_host.weights = copy_of(descend.weights, N);
    descend_host.velocity = copy_of(descend.velocity, N);
    BOTH(bias, bend, bend_host);
    assert_same(bend.x, bend_host.x, N);
    BOTH(unbend, unbend, unbend_host);
    assert_same(unbend.delta, unbend_host.delta, N);
    BOTH(descend, descend, descend_host);
    assert_same(descend.weights, descend_host.weights, N);
    assert_same(descend.velocity, descend_host.velocity, N);
    free(bias);
    free(other);
    free(bend.x), free(bend_host.x);
    free(unbend.delta), free(unbend_host.delta);
    free(descend.weights), free(descend_host.weights);
    free(descend.velocity), free(descend_host.velocity);
}

static void rows(void **state)
{
    enum { ROWS = 70, CLASSES = DIGIT_CLASSES, BATCH = 128 };
    static struct digit digits[ROWS];
    static struct verdict verdicts[2][ROWS], sums[2];
    float *scores = numbers((size_t)ROWS * CLASSES), *deltas[2];
    (void)state;
    for (int r = 0; r < ROWS; r++) digits[r].label = r % CLASSES;
    for (int i = 0; i < 2; i++) deltas[i] = numbers((size_t)ROWS * CLASSES);
    BOTH(judge, ((struct judge){1, ROWS, scores, digits, deltas[0], verdicts[0], CLASSES, BATCH}),
         ((struct judge){1, ROWS, scores, digits, deltas[1], verdicts[1], CLASSES, BATCH}));
    assert_same(deltas[0], deltas[1], (size_t)ROWS * CLASSES);
    BOTH(tally, ((struct tally){1, 1, &sums[0], verdicts[0], ROWS}),
         ((struct tally){1, 1, &sums[1], verdicts[1], ROWS}));
    assert_true(fabs(sums[0].loss - sums[1].loss) < 1e-9 && sums[0].loss > 0);
    assert_int_equal(sums[0].right, sums[1].right);
    free(scores);
    for (int i = 0; i < 2; i++) free(deltas[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(products), cmocka_unit_test(elements),
                                       cmocka_unit_test(rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
