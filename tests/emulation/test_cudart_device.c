/* test_cudart_device.c - devices, errors, counts; and what ends a process, in children of this one. */
#include "cudart_check.h"

#include <cuda.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

static void there_are_as_many_devices_as_asked_for(void **state)
{
    char id[32], short_id[4];
    int count, device = -1;

    (void)state;
    OK(cudaGetDeviceCount(&count));
    assert_int_equal(count, 3);
    OK(cudaSetDevice(2));
    OK(cudaGetDevice(&device));
    assert_int_equal(device, 2);
    assert_int_equal(cudaSetDevice(3), cudaErrorInvalidDevice);
    assert_int_equal(cudaSetDevice(-1), cudaErrorInvalidDevice);
    OK(cudaGetDevice(&device));
    assert_int_equal(device, 2);
    OK(cudaDeviceGetPCIBusId(id, sizeof id, 1));
    OK(cudaDeviceGetByPCIBusId(&device, id));
    assert_int_equal(device, 1);
    assert_int_equal(cudaDeviceGetPCIBusId(short_id, sizeof short_id, 1), cudaErrorInvalidValue);
    assert_int_equal(cudaDeviceGetByPCIBusId(&device, "0000:99:00.0"), cudaErrorInvalidDevice);
    assert_int_equal(cudaDeviceGetByPCIBusId(&device, "nothing"), cudaErrorInvalidValue);
    OK(cudaSetDevice(0));
}

static void devices_are_told_apart(void **state)
{
    struct cudaDeviceProp one, other;
    int bus, major;

    (void)state;
    OK(cudaGetDeviceProperties(&one, 0));
    OK(cudaGetDeviceProperties(&other, 1));
    assert_string_equal(one.name, other.name);
    assert_memory_not_equal(&one.uuid, &other.uuid, sizeof one.uuid);
    OK(cudaDeviceGetAttribute(&bus, cudaDevAttrPciBusId, 1));
    assert_int_equal(bus, other.pciBusID);
    OK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
    assert_int_equal(major, one.major);
    assert_int_equal(cudaGetDeviceProperties(&one, 3), cudaErrorInvalidDevice);
    assert_int_equal(cudaDeviceGetAttribute(&bus, cudaDevAttrMaxTexture3DDepth, 0), cudaErrorInvalidValue);
}

static void *see_first_device(void *arg)
{
    OK(cudaGetDevice(arg));
    OK(cudaPeekAtLastError());
    return NULL;
}

static void each_thread_has_its_device_and_its_error(void **state)
{
    pthread_t thread;
    int device = -1;

    (void)state;
    OK(cudaSetDevice(1));
    assert_int_equal(cudaSetDevice(99), cudaErrorInvalidDevice);
    assert_int_equal(pthread_create(&thread, NULL, see_first_device, &device), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(device, 0);
    assert_int_equal(cudaPeekAtLastError(), cudaErrorInvalidDevice);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidDevice);
    OK(cudaGetLastError());
    OK(cudaSetDevice(0));
}

static void peers_are_enabled_one_by_one(void **state)
{
    int can;

    (void)state;
    OK(cudaDeviceCanAccessPeer(&can, 0, 1));
    assert_int_equal(can, 1);
    OK(cudaDeviceCanAccessPeer(&can, 0, 0));
    assert_int_equal(can, 0);
    assert_int_equal(cudaDeviceDisablePeerAccess(1), cudaErrorPeerAccessNotEnabled);
    OK(cudaDeviceEnablePeerAccess(1, 0));
    assert_int_equal(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessAlreadyEnabled);
    OK(cudaDeviceDisablePeerAccess(1));
    assert_int_equal(cudaDeviceEnablePeerAccess(0, 0), cudaErrorInvalidDevice);
}

static void errors_have_names_and_texts(void **state)
{
    (void)state;
    assert_string_equal(cudaGetErrorName(cudaSuccess), "cudaSuccess");
    assert_string_equal(cudaGetErrorString(cudaSuccess), "no error");
    assert_string_equal(cudaGetErrorName(cudaErrorIllegalAddress), "cudaErrorIllegalAddress");
    assert_string_equal(cudaGetErrorString(cudaErrorNotReady), "device not ready");
    assert_string_equal(cudaGetErrorName((cudaError_t)12345), "unrecognized error code");
}

static void versions_are_those_of_the_headers(void **state)
{
    int runtime, driver;

    (void)state;
    OK(cudaRuntimeGetVersion(&runtime));
    OK(cudaDriverGetVersion(&driver));
    assert_int_equal(runtime, CUDART_VERSION);
    assert_true(driver >= runtime);
}

/* What asks about a device needs no context on it; what works with the current one makes it there. */
static void contexts_are_counted_where_they_are_made(void **state)
{
    struct cudaDeviceProp properties;
    struct cudaPointerAttributes attributes;
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                   CU_POINTER_ATTRIBUTE_IS_MANAGED};
    unsigned type = 99, managed = 99;
    int device = 99, value;
    void *to[] = {&type, &device, &managed}, *memory;
    CUresult (*ask)(unsigned, CUpointer_attribute *, void **, CUdeviceptr);

    (void)state;
    OK(cudaDeviceReset());
    uint64_t before = emu_calls("context0");
    OK(cudaGetDeviceProperties(&properties, 0));
    OK(cudaDeviceGetAttribute(&value, cudaDevAttrComputeCapabilityMajor, 0));
    OK(cudaThreadExchangeStreamCaptureMode(&mode));
    OK(cudaThreadExchangeStreamCaptureMode(&mode));
    assert_false(driver_has("cuNothing", &ask));
    assert_true(driver_has("cuPointerGetAttributes", &ask));
    assert_int_equal(ask(3, asked, to, (CUdeviceptr)(uintptr_t)&type), CUDA_SUCCESS);
    assert_true(type == 0 && managed == 0);
    assert_int_equal(emu_calls("context0"), before);
    OK(cudaPointerGetAttributes(&attributes, &value));
    OK(cudaPointerGetAttributes(&attributes, &value));
    assert_int_equal(emu_calls("context0"), before + 1);
    OK(cudaMalloc(&memory, 64));
    assert_int_equal(ask(3, asked, to, (CUdeviceptr)(uintptr_t)memory + 63), CUDA_SUCCESS);
    assert_true(type == CU_MEMORYTYPE_DEVICE && device == 0 && managed == 0);
    OK(cudaFree(memory));
    OK(cudaSetDevice(1));
    OK(cudaDeviceReset());
    before = emu_calls("context1");
    OK(cudaSetDevice(1));
    OK(cudaSetDevice(1));
    assert_int_equal(emu_calls("context1"), before + 1);
    OK(cudaSetDevice(0));
}

static void what_is_not_emulated_says_so(void **state)
{
    cudaIpcMemHandle_t handle;
    void *memory;

    (void)state;
    OK(cudaMalloc(&memory, 64));
    assert_int_equal(cudaIpcGetMemHandle(&handle, memory), cudaErrorNotSupported);
    OK(cudaFree(memory));
}

static void a_reset_takes_everything_of_the_device(void **state)
{
    cudaStream_t stream;
    cudaEvent_t event;
    void *memory, *other;
    size_t left, total;

    (void)state;
    OK(cudaMalloc(&other, 64));
    OK(cudaSetDevice(2));
    OK(cudaMalloc(&memory, 64));
    OK(cudaStreamCreate(&stream));
    OK(cudaEventCreate(&event));
    OK(cudaMemsetAsync(memory, 0, 64, stream));
    OK(cudaDeviceReset());
    OK(cudaMemGetInfo(&left, &total));
    assert_int_equal(left, total);
    assert_int_equal(emu_device_of(memory, 1), -1);
    assert_int_equal(emu_stream_device(stream), -1);
    OK(cudaMalloc(&memory, 64)); /* it goes on */
    OK(cudaFree(memory));
    OK(cudaSetDevice(0));
    assert_int_equal(emu_device_of(other, 64), 0);
    OK(cudaFree(other));
}

static void calls_are_counted(void **state)
{
    uint64_t before = emu_calls("cudaGetDevice"), waits = emu_blocking_calls();
    cudaEvent_t event;
    void *memory;
    int device;

    (void)state;
    for (int i = 0; i < 5; i++) OK(cudaGetDevice(&device));
    assert_int_equal(emu_calls("cudaGetDevice"), before + 5);
    OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    OK(cudaEventRecord(event, NULL));
    OK(cudaStreamWaitEvent(NULL, event, 0));
    OK(cudaEventQuery(event));
    assert_int_equal(emu_blocking_calls(), waits);
    OK(cudaMalloc(&memory, 64));
    assert_int_equal(emu_blocking_calls(), waits + 1);
    OK(cudaMemcpy(memory, "abc", 4, cudaMemcpyHostToDevice));
    OK(cudaStreamSynchronize(NULL));
    OK(cudaEventSynchronize(event));
    OK(cudaDeviceSynchronize());
    OK(cudaEventDestroy(event));
    OK(cudaFree(memory));
    assert_int_equal(emu_blocking_calls(), waits + 7);
}

/* A copy to memory of the program waits, though its name says async. */
static void a_copy_that_waits_is_counted_as_such(void **state)
{
    uint64_t waits;
    void *memory, *pinned;
    char own[64];

    (void)state;
    OK(cudaMalloc(&memory, 64));
    OK(cudaMallocHost(&pinned, 64));
    waits = emu_blocking_calls();
    OK(cudaMemcpyAsync(pinned, memory, 64, cudaMemcpyDeviceToHost, NULL));
    OK(cudaMemcpyAsync(memory, pinned, 64, cudaMemcpyHostToDevice, NULL));
    OK(cudaMemcpyAsync(memory, own, 64, cudaMemcpyHostToDevice, NULL));
    assert_int_equal(emu_blocking_calls(), waits);
    OK(cudaMemcpyAsync(own, memory, 64, cudaMemcpyDeviceToHost, NULL));
    assert_int_equal(emu_blocking_calls(), waits + 1);
    OK(cudaFree(memory));
    OK(cudaFreeHost(pinned));
}

/* ---- in processes of their own ---- */

typedef struct {
    int status; /* of its exit */
    char told[2000];
} child_end;

static child_end run_child(void (*body)(void))
{
    child_end end = {-1, ""};
    size_t length = 0;
    ssize_t got;
    int told[2], status;
    pid_t child;

    assert_int_equal(pipe(told), 0);
    child = fork();
    if (!child) {
        dup2(told[1], STDERR_FILENO);
        close(told[0]);
        close(told[1]);
        signal(SIGSEGV, SIG_DFL); /* not cmocka's */
        body();
        exit(0);
    }
    close(told[1]);
    while ((got = read(told[0], end.told + length, sizeof end.told - 1 - length)) > 0) length += (size_t)got;
    end.told[length] = 0;
    close(told[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    end.status = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
    return end;
}

static void check_end(void (*body)(void), int status, const char *told)
{
    child_end end = run_child(body);

    if (end.status != status || !strstr(end.told, told))
        fail_msg("status %d, not %d; no \"%s\" in: %s", end.status, status, told, end.told);
}

static void touch_device_memory(void)
{
    volatile char *memory;

    if (!cudaMalloc((void **)&memory, 64)) memory[3] = 1;
}

static void touch_nothing_at_all(void)
{
    volatile char *volatile nowhere = (volatile char *)8;

    *nowhere = 1;
}

static void touch_nothing_after_malloc(void)
{
    void *memory;

    if (!cudaMalloc(&memory, 64)) touch_nothing_at_all();
}

static void leave(int number)
{
    _exit(number == SIGSEGV ? 42 : 43);
}

static void touch_nothing_with_a_handler(void)
{
    signal(SIGSEGV, leave);
    touch_nothing_after_malloc();
}

static void launch_a_kernel(void)
{
    dim3 one = {1, 1, 1};

    (void)cudaLaunchKernel(&one, one, one, NULL, 0, NULL);
}

static void make_a_graph(void)
{
    cudaGraph_t graph;

    (void)cudaGraphCreate(&graph, 0);
}

static void misread_devices(void)
{
    int count;

    setenv("CUDA_EMULATION_DEVICES", "four", 1);
    (void)cudaGetDeviceCount(&count);
}

static void have_no_devices(void)
{
    void *memory;
    int count = 7;

    setenv("CUDA_EMULATION_DEVICES", "0", 1);
    if (cudaGetDeviceCount(&count) != cudaErrorNoDevice || count) exit(1);
    if (cudaGetDevice(&count) != cudaErrorNoDevice || cudaMalloc(&memory, 1) != cudaErrorNoDevice) exit(2);
    if (emu_stream_device(NULL) != -1 || emu_stream_capturing(NULL)) exit(3);
}

/* A child of a process that has used CUDA cannot. */
static void fork_and_use(void)
{
    void *memory;
    int status;

    if (cudaMalloc(&memory, 64)) exit(1);
    pid_t child = fork();
    if (!child) exit(cudaMalloc(&memory, 64) == cudaErrorInitializationError ? 5 : 6);
    if (waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 5) exit(2);
    exit(cudaFree(memory) ? 3 : 0);
}

static void call_after_the_end(void)
{
    void *memory;
    gate opened = {.open = 1};
    emu_kernel kernel = {.name = "gate", .run = pass_gate, .arg = &opened};

    if (cudaMalloc(&memory, 64) != cudaErrorCudartUnloading) _exit(1);
    if (emu_launch(NULL, &kernel) != cudaErrorCudartUnloading) _exit(2);
    _exit(0);
}

/* Handlers at exit run in the reverse order, and CUDA's is there from its first call on. */
static void exit_before_a_handler(void)
{
    int count;

    if (atexit(call_after_the_end) || cudaGetDeviceCount(&count)) exit(3);
    exit(4);
}

static void *memory_at_exit;

static void call_before_the_end(void)
{
    _exit(cudaFree(memory_at_exit) ? 5 : 0);
}

static void exit_after_a_handler(void)
{
    if (cudaMalloc(&memory_at_exit, 64) || atexit(call_before_the_end)) exit(3);
    exit(4);
}

static char counts_path[64];

static void count_calls(void)
{
    int count;

    setenv("CUDA_EMULATION_COUNTS", counts_path, 1);
    for (int i = 0; i < 3; i++) (void)cudaGetDeviceCount(&count);
    (void)cudaDeviceSynchronize();
}

static void what_cannot_go_on_ends_the_process(void **state)
{
    (void)state;
    check_end(touch_device_memory, EMU_MISUSE_STATUS,
              "emulation: misuse: a device buffer is touched on the host: 0x");
    check_end(launch_a_kernel, EMU_MISUSE_STATUS, "the emulation runs no CUDA kernels");
    check_end(make_a_graph, EMU_MISUSE_STATUS, "cudaGraphCreate is not emulated; this program needs a GPU");
    check_end(misread_devices, EMU_MISUSE_STATUS, "CUDA_EMULATION_DEVICES: \"four\": expected 0 to");
    check_end(have_no_devices, 0, "");
    check_end(fork_and_use, 0, "");
    check_end(exit_before_a_handler, 0, "");
    check_end(exit_after_a_handler, 0, "");
}

/* A fault that is not about device memory is what it would have been. */
static void other_faults_are_left_alone(void **state)
{
    (void)state;
    check_end(touch_nothing_after_malloc, 1000 + SIGSEGV, "");
    check_end(touch_nothing_with_a_handler, 42, "");
}

static void counts_are_written_at_the_end(void **state)
{
    char text[2000] = "";
    FILE *file;
    int made;

    (void)state;
    strcpy(counts_path, "/tmp/emulation_counts_XXXXXX");
    made = mkstemp(counts_path);
    assert_true(made >= 0);
    check_end(count_calls, 0, "");
    file = fdopen(made, "r");
    assert_non_null(file);
    assert_true(fread(text, 1, sizeof text - 1, file) > 0);
    fclose(file);
    remove(counts_path);
    assert_non_null(strstr(text, "cudaGetDeviceCount 3\n"));
    assert_non_null(strstr(text, "cudaDeviceSynchronize 1\n"));
    assert_non_null(strstr(text, "blocking 1\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_cannot_go_on_ends_the_process), /* these first: nothing is used here yet */
        cmocka_unit_test(other_faults_are_left_alone),
        cmocka_unit_test(counts_are_written_at_the_end),
        cmocka_unit_test(there_are_as_many_devices_as_asked_for),
        cmocka_unit_test(devices_are_told_apart),
        cmocka_unit_test(each_thread_has_its_device_and_its_error),
        cmocka_unit_test(peers_are_enabled_one_by_one),
        cmocka_unit_test(errors_have_names_and_texts),
        cmocka_unit_test(versions_are_those_of_the_headers),
        cmocka_unit_test(contexts_are_counted_where_they_are_made),
        cmocka_unit_test(what_is_not_emulated_says_so),
        cmocka_unit_test(a_reset_takes_everything_of_the_device),
        cmocka_unit_test(calls_are_counted),
        cmocka_unit_test(a_copy_that_waits_is_counted_as_such),
    };

    setenv("CUDA_EMULATION_DEVICES", "3", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
