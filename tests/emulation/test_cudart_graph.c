/* test_cudart_graph.c - graphs: what a stream captures, launches of it, and what it holds meanwhile. */
#include "cudart_check.h"

#include <stdlib.h>

enum { WORDS = 256, BYTES = WORDS * sizeof(int) };

static cudaStream_t stream, second;
static int *device, *other, *pinned;

static int set_up(void **state)
{
    (void)state;
    return cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) ||
           cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking) || cudaMalloc((void **)&device, BYTES) ||
           cudaMalloc((void **)&other, BYTES) || cudaMallocHost((void **)&pinned, BYTES) ||
           cudaMemset(device, 0, BYTES) || cudaMemset(other, 0, BYTES) || cudaDeviceSynchronize();
}

static int tear_down(void **state)
{
    (void)state;
    (void)cudaGetLastError();
    return cudaDeviceSynchronize() || cudaStreamDestroy(stream) || cudaStreamDestroy(second) ||
           cudaFree(device) || cudaFree(other) || cudaFreeHost(pinned);
}

static atomic_int kernels_left; /* args that somebody still has */

typedef struct adder {
    int *at;
    int by;
} adder;

static void add(void *arg)
{
    adder *what = arg;
    int *at = emu_host_view(what->at);

    for (int i = 0; i < WORDS; i++) at[i] += what->by;
    free(what);
    atomic_fetch_sub(&kernels_left, 1);
}

static void *again(const void *arg)
{
    adder *copy = malloc(sizeof *copy);

    if (!copy) return NULL;
    *copy = *(const adder *)arg;
    atomic_fetch_add(&kernels_left, 1);
    return copy;
}

static void drop(void *arg)
{
    free(arg);
    atomic_fetch_sub(&kernels_left, 1);
}

static cudaError_t add_on(cudaStream_t on, int *at, int by)
{
    emu_access access = {at, BYTES, true};
    adder first = {at, by};
    emu_kernel kernel = {.name = "add",
                         .run = add,
                         .arg = again(&first),
                         .accesses = &access,
                         .access_count = 1,
                         .again = again,
                         .drop = drop};
    cudaError_t error = emu_launch(on, &kernel);

    if (error) drop(kernel.arg);
    return error;
}

static cudaGraphExec_t instance_of(cudaGraph_t graph)
{
    cudaGraphExec_t exec;

    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaGraphDestroy(graph)); /* what was made of it stays */
    return exec;
}

static cudaGraphExec_t captured(void)
{
    cudaGraph_t graph;

    OK(cudaStreamEndCapture(stream, &graph));
    return instance_of(graph);
}

static void check_device(const int *at, int value)
{
    int host[WORDS];

    OK(cudaMemcpy(host, at, BYTES, cudaMemcpyDeviceToHost));
    for (int i = 0; i < WORDS; i++) assert_int_equal(host[i], value);
}

static void count_call(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
    assert_int_equal(cudaStreamSynchronize(second), cudaErrorNotPermitted);
}

/* A kernel, a fill, copies and a function, in their order each time, and nothing of it at the capture. */
static void what_is_captured_runs_at_each_launch(void **state)
{
    enum { LAUNCHES = 1000 };
    atomic_int calls = 0;
    cudaGraphExec_t exec;

    (void)state;
    pinned[0] = 0;
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    OK(add_on(stream, device, 1));
    OK(cudaMemcpyAsync(other, device, BYTES, cudaMemcpyDeviceToDevice, stream));
    OK(add_on(stream, other, 100));
    OK(cudaMemcpyAsync(pinned, other, BYTES, cudaMemcpyDeviceToHost, stream));
    OK(cudaMemsetAsync(other, 0, BYTES, stream));
    OK(cudaLaunchHostFunc(stream, count_call, &calls));
    exec = captured();
    OK(cudaStreamSynchronize(stream));
    check_device(device, 0);
    assert_int_equal(atomic_load(&calls), 0);
    for (int i = 1; i <= LAUNCHES; i++) {
        OK(cudaGraphLaunch(exec, stream));
        if (i % 100) continue;
        OK(cudaStreamSynchronize(stream));
        for (int k = 0; k < WORDS; k++) assert_int_equal(pinned[k], 100 + i);
        assert_int_equal(atomic_load(&calls), i);
    }
    check_device(device, LAUNCHES);
    check_device(other, 0);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaDeviceSynchronize());
    assert_int_equal(atomic_load(&kernels_left), 0);
}

/* Beside what was captured, and waiting for none of it. */
static void a_function_is_added(void **state)
{
    enum { LAUNCHES = 3 };
    atomic_int calls = 0;
    const struct cudaHostNodeParams what = {.fn = count_call, .userData = &calls},
                                    none = {.userData = &calls};
    cudaGraphNode_t node;
    cudaGraph_t graph;
    cudaGraphExec_t exec;

    (void)state;
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    OK(cudaMemsetAsync(other, 0, BYTES, stream));
    OK(cudaStreamEndCapture(stream, &graph));
    assert_int_equal(cudaGraphAddHostNode(&node, NULL, NULL, 0, &what), cudaErrorInvalidValue);
    assert_int_equal(cudaGraphAddHostNode(&node, graph, NULL, 1, &what), cudaErrorInvalidValue);
    assert_int_equal(cudaGraphAddHostNode(&node, graph, NULL, 0, &none), cudaErrorInvalidValue);
    OK(cudaGraphAddHostNode(&node, graph, NULL, 0, &what));
    exec = instance_of(graph);
    assert_int_equal(atomic_load(&calls), 0);
    for (int i = 0; i < LAUNCHES; i++) OK(cudaGraphLaunch(exec, stream));
    OK(cudaStreamSynchronize(stream));
    assert_int_equal(atomic_load(&calls), LAUNCHES);
    OK(cudaGraphExecDestroy(exec));
}

/* A fork of the capture, and a stream of its own for each launch: they come one after the other all the same. */
static void launches_of_one_come_in_order(void **state)
{
    cudaEvent_t there, back;
    cudaGraphExec_t exec;

    (void)state;
    OK(cudaEventCreate(&there));
    OK(cudaEventCreate(&back));
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    OK(cudaEventRecord(there, stream));
    OK(cudaStreamWaitEvent(second, there, 0));
    OK(add_on(second, device, 2));
    OK(cudaEventRecord(back, second));
    OK(cudaStreamWaitEvent(stream, back, 0));
    exec = captured();
    for (int i = 0; i < 50; i++) FINE(cudaGraphLaunch(exec, i % 2 ? stream : second));
    OK(cudaDeviceSynchronize());
    check_device(device, 100);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaEventDestroy(there));
    OK(cudaEventDestroy(back));
}

static void work_after_the_join_is_missed(void **state)
{
    cudaEvent_t there, back;
    cudaGraph_t graph;

    (void)state;
    OK(cudaEventCreate(&there));
    OK(cudaEventCreate(&back));
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    OK(cudaEventRecord(there, stream));
    OK(cudaStreamWaitEvent(second, there, 0));
    OK(cudaEventRecord(back, second));
    OK(cudaStreamWaitEvent(stream, back, 0));
    OK(add_on(second, device, 2));
    assert_int_equal(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureUnjoined);
    assert_null(graph);
    assert_int_equal(atomic_load(&kernels_left), 0);
    OK(cudaEventDestroy(there));
    OK(cudaEventDestroy(back));
}

/* What a program could not know: the launch races with other work, or what it used is gone. */
static void a_launch_is_checked_as_work_is(void **state)
{
    cudaGraphExec_t exec;
    int *gone;

    (void)state;
    OK(cudaMalloc((void **)&gone, BYTES));
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    OK(add_on(stream, device, 1));
    OK(cudaMemsetAsync(gone, 1, BYTES, stream));
    exec = captured();
    OK(cudaGraphLaunch(exec, stream));
    MISUSE(use(second, "reader", device, BYTES, false), "reader", "nothing orders it after add");
    OK(cudaDeviceSynchronize());
    OK(cudaFree(gone));
    MISUSE(cudaGraphLaunch(exec, stream), "cudaMemsetAsync", "freed");
    OK(cudaGraphExecDestroy(exec));
}

static void let_go(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
}

/* An object lives as long as anything that could still use it. */
static void a_graph_holds_objects(void **state)
{
    atomic_int gone = 0;
    gate busy = {.open = 0};
    cudaUserObject_t object;
    cudaGraph_t graph, seen = NULL;
    cudaGraphExec_t exec;
    enum cudaStreamCaptureStatus status;
    unsigned long long id = 0;

    (void)state;
    assert_int_equal(cudaUserObjectCreate(&object, &gone, let_go, 1, 0), cudaErrorInvalidValue);
    OK(cudaUserObjectCreate(&object, &gone, let_go, 1, cudaUserObjectNoDestructorSync));
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    OK(add_on(stream, device, 1));
#if CUDART_VERSION >= 13000
    OK(cudaStreamGetCaptureInfo(stream, &status, &id, &seen, NULL, NULL, NULL));
#else
    OK(cudaStreamGetCaptureInfo_v2(stream, &status, &id, &seen, NULL, NULL));
#endif
    assert_int_equal(status, cudaStreamCaptureStatusActive);
    assert_int_not_equal(id, 0);
    OK(cudaGraphRetainUserObject(seen, object, 1, cudaGraphUserObjectMove));
    OK(cudaStreamEndCapture(stream, &graph));
    assert_ptr_equal(graph, seen);
    exec = instance_of(graph);
    launch_at(stream, &busy, false);
    OK(cudaGraphLaunch(exec, stream));
    OK(cudaGraphExecDestroy(exec));
    nap_ms(20);
    assert_int_equal(atomic_load(&gone), 0); /* a launch is under way */
    open_gate(&busy);
    OK(cudaStreamSynchronize(stream));
    assert_int_equal(atomic_load(&gone), 1);
}

static void a_spoilt_capture_drops_what_it_recorded(void **state)
{
    cudaGraph_t graph;

    (void)state;
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    OK(add_on(stream, device, 1));
    assert_int_equal(cudaStreamSynchronize(stream), cudaErrorStreamCaptureUnsupported);
    assert_int_equal(add_on(stream, device, 1), cudaErrorStreamCaptureInvalidated);
    assert_int_equal(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
    assert_int_equal(atomic_load(&kernels_left), 0);
    check_device(device, 0);
}

/* Neither a callback nor the program's own memory, whose bytes a copy takes at the call. */
static void what_no_graph_can_hold_is_refused(void **state)
{
    int plain[WORDS] = {0};
    cudaGraph_t graph;

    (void)state;
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    assert_int_equal(cudaMemcpyAsync(device, plain, BYTES, cudaMemcpyHostToDevice, stream),
                     cudaErrorNotSupported);
    assert_int_equal(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    setenv("CUDA_EMULATION_MISUSE", "report", 1);
    const struct CMUnitTest tests[] = {
        TEST(what_is_captured_runs_at_each_launch),    TEST(a_function_is_added),
        TEST(launches_of_one_come_in_order),           TEST(work_after_the_join_is_missed),
        TEST(a_launch_is_checked_as_work_is),          TEST(a_graph_holds_objects),
        TEST(a_spoilt_capture_drops_what_it_recorded), TEST(what_no_graph_can_hold_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
