/* test_cudart_memory.c - memory of all kinds: what it is, where it may be touched, and when it is gone. */
#include "cudart_check.h"

#include <pthread.h>
#include <stdlib.h>

enum { BYTES = 10000, MEMORY = 64 << 20 /* of a device, here */ };

static void check_kind(const void *at, enum cudaMemoryType type, int device, bool on_host)
{
    struct cudaPointerAttributes attributes;

    OK(cudaPointerGetAttributes(&attributes, at));
    assert_int_equal(attributes.type, type);
    assert_int_equal(attributes.device, device);
    assert_ptr_equal(attributes.hostPointer, on_host ? at : NULL);
    assert_ptr_equal(attributes.devicePointer, type == cudaMemoryTypeUnregistered ? NULL : at);
}

static void a_pointer_is_what_it_was_made_as(void **state)
{
    void *device, *managed, *pinned, *far;
    static char own[64];

    (void)state;
    OK(cudaMalloc(&device, BYTES));
    OK(cudaMallocManaged(&managed, BYTES, cudaMemAttachGlobal));
    OK(cudaHostAlloc(&pinned, BYTES, cudaHostAllocPortable));
    OK(cudaSetDevice(1));
    OK(cudaMalloc(&far, BYTES));
    OK(cudaSetDevice(0));
    check_kind(device, cudaMemoryTypeDevice, 0, false);
    check_kind((char *)device + BYTES - 1, cudaMemoryTypeDevice, 0, false);
    check_kind((char *)device + BYTES, cudaMemoryTypeUnregistered, -2, false);
    check_kind(far, cudaMemoryTypeDevice, 1, false);
    check_kind(managed, cudaMemoryTypeManaged, 0, true);
    check_kind(pinned, cudaMemoryTypeHost, 0, true);
    check_kind(own, cudaMemoryTypeUnregistered, -2, false);
    assert_int_equal(emu_device_of(far, BYTES), 1);
    assert_int_equal(emu_device_of(far, BYTES + 1), -1);
    assert_int_equal(emu_device_of((char *)far + 1, BYTES), -1);
    assert_int_equal(emu_device_of(managed, 1), 0);
    assert_int_equal(emu_device_of(pinned, 1), -1);
    assert_int_equal(emu_device_of(own, 1), -1);
    OK(cudaFree(device));
    check_kind(device, cudaMemoryTypeUnregistered, -2, false);
    assert_int_equal(emu_device_of(device, 1), -1);
    OK(cudaFree(far));
    OK(cudaFree(managed));
    OK(cudaFreeHost(pinned));
}

static void memory_of_the_program_can_be_registered(void **state)
{
    static char own[BYTES];
    unsigned flags = 99;
    void *same;

    (void)state;
    assert_int_equal(cudaHostGetDevicePointer(&same, own, 0), cudaErrorInvalidValue);
    OK(cudaHostRegister(own, sizeof own, cudaHostRegisterPortable));
    check_kind(own + 5, cudaMemoryTypeHost, 0, true);
    OK(cudaHostGetDevicePointer(&same, own + 5, 0));
    assert_ptr_equal(same, own + 5);
    OK(cudaHostGetFlags(&flags, own));
    assert_int_equal(flags, cudaHostRegisterPortable);
    assert_int_equal(cudaHostRegister(own + 9, 1, 0), cudaErrorHostMemoryAlreadyRegistered);
    assert_int_equal(cudaHostUnregister(own + 9), cudaErrorHostMemoryNotRegistered);
    assert_int_equal(cudaFreeHost(own), cudaErrorInvalidValue);
    OK(cudaHostUnregister(own));
    assert_int_equal(cudaHostUnregister(own), cudaErrorHostMemoryNotRegistered);
    check_kind(own, cudaMemoryTypeUnregistered, -2, false);
}

/* ---- touched on the host ---- */

static void a_touch_of_device_memory_is_told(void **state)
{
    volatile char *device, *second;

    (void)state;
    OK(cudaMalloc((void **)&device, BYTES));
    OK(cudaMalloc((void **)&second, 100));
    MISUSE(device[77], "a device buffer is touched on the host", "is 77 bytes into the 10000 bytes",
           "allocated by cudaMalloc at 0x", "on device 0");
    MISUSE(second[100], "touched on the host", "where nothing is allocated");
    MISUSE(device[5000] = 1, "is 5000 bytes into");
    OK(cudaFree((void *)device));
    OK(cudaFree((void *)second));
}

/* Also when it is the emulation that touches it, because the program has asked for that. */
static void a_result_in_device_memory_is_told(void **state)
{
    void *device;

    (void)state;
    OK(cudaMalloc(&device, BYTES));
    MISUSE(cudaStreamIsCapturing(NULL, device), "touched on the host", "is 0 bytes into");
    OK(cudaFree(device));
}

static void a_touch_after_free_is_told(void **state)
{
    volatile char *device, *managed, *pinned;

    (void)state;
    OK(cudaMalloc((void **)&device, BYTES));
    OK(cudaMallocManaged((void **)&managed, BYTES, cudaMemAttachGlobal));
    OK(cudaMallocHost((void **)&pinned, BYTES));
    managed[3] = pinned[3] = 3;
    OK(cudaFree((void *)device));
    OK(cudaFree((void *)managed));
    OK(cudaFreeHost((void *)pinned));
    MISUSE(device[1], "a buffer is touched on the host after cudaFree", "is 1 bytes into the 10000 bytes");
    MISUSE(managed[2] = 1, "after cudaFree:", "is 2 bytes into", "cudaMallocManaged");
    MISUSE(pinned[4], "after cudaFreeHost", "is 4 bytes into", "cudaMallocHost");
}

/* The other view of the same bytes. */
static void the_emulation_sees_what_the_program_does_not(void **state)
{
    char *device, here[8] = "";

    (void)state;
    OK(cudaMalloc((void **)&device, BYTES));
    OK(cudaMemcpy(device + 50, "content", 8, cudaMemcpyHostToDevice));
    assert_string_equal(emu_host_view(device + 50), "content");
    memcpy(emu_host_view(device + 60), "written", 8);
    OK(cudaMemcpy(here, device + 60, 8, cudaMemcpyDeviceToHost));
    assert_string_equal(here, "written");
    assert_ptr_equal(emu_host_view(here), here);
    OK(cudaFree(device));
}

/* ---- given to work ---- */

static void work_may_use_only_what_is_there(void **state)
{
    char *device, *far, *freed;
    char own[16];

    (void)state;
    OK(cudaMalloc((void **)&device, BYTES));
    OK(cudaMalloc((void **)&freed, BYTES));
    OK(cudaFree(freed));
    OK(cudaSetDevice(1));
    OK(cudaMalloc((void **)&far, BYTES));
    OK(cudaSetDevice(0));
    MISUSE(use(NULL, "reader", freed + 1, 8, false), "reader on the default stream", "is given 8 bytes at 0x",
           "1 bytes into a buffer of 10000 bytes that cudaFree has freed");
    MISUSE(use(NULL, "reader", device + 9999, 2, false), "is given 2 bytes",
           "9999 bytes into the 10000 bytes");
    MISUSE(use(NULL, "reader", own, 8, false), "which is host memory that no device can reach");
    MISUSE(use(NULL, "reader", far, 8, false), "which is memory of device 1");
    assert_int_equal(use(NULL, "reader", own, 8, false), cudaErrorInvalidValue);
    FINE(use(NULL, "reader", NULL, 0, false));
    MISUSE(cudaMemcpyAsync(freed, own, 8, cudaMemcpyHostToDevice, NULL), "cudaMemcpyAsync on", "has freed");
    MISUSE(cudaMemset(device + 1, 0, BYTES), "cudaMemset on");
    MISUSE(cudaMemset(device + BYTES + 64, 0, 1), "where no device memory is allocated");
    OK(cudaFree(device));
    OK(cudaFree(far));
}

static void the_kind_of_a_copy_must_be_true(void **state)
{
    char *device, own[64];
    void *managed;

    (void)state;
    OK(cudaMalloc((void **)&device, BYTES));
    OK(cudaMallocManaged(&managed, BYTES, cudaMemAttachGlobal));
    assert_int_equal(cudaMemcpy(device, own, 8, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
    assert_int_equal(cudaMemcpy(own, device, 8, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    assert_int_equal(cudaMemcpy(own, device, 8, cudaMemcpyHostToHost), cudaErrorInvalidValue);
    assert_int_equal(cudaMemcpy(device, own, 8, (enum cudaMemcpyKind)77), cudaErrorInvalidMemcpyDirection);
    OK(cudaMemcpy(device, own, 8, cudaMemcpyDefault));
    OK(cudaMemcpy(own, device, 8, cudaMemcpyDefault));
    OK(cudaMemcpy(managed, own, 8, cudaMemcpyHostToDevice));
    OK(cudaMemcpy(managed, own, 8, cudaMemcpyHostToHost));
    OK(cudaFree(device));
    OK(cudaFree(managed));
}

static void rows_are_copied_one_by_one(void **state)
{
    char there[4 * 8], back[4 * 6];
    char *device;

    (void)state;
    for (int i = 0; i < 32; i++) there[i] = (char)('a' + i % 26);
    OK(cudaMalloc((void **)&device, BYTES));
    OK(cudaMemset2D(device, 16, '.', 16, 4));
    OK(cudaMemcpy2D(device, 16, there, 8, 6, 4, cudaMemcpyHostToDevice));
    OK(cudaMemcpy2D(back, 6, device, 16, 6, 4, cudaMemcpyDeviceToHost));
    for (int row = 0; row < 4; row++) assert_memory_equal(back + 6 * row, there + 8 * row, 6);
    OK(cudaMemcpy(back, device + 4, 4, cudaMemcpyDeviceToHost));
    assert_memory_equal(back, "ef..", 4);
    OK(cudaFree(device));
}

/* Memory of the program: its bytes are taken before the call returns, even when the stream is held up. */
static void a_copy_from_the_program_has_taken_its_bytes(void **state)
{
    cudaStream_t stream;
    gate first = {0};
    char own[8] = "before", back[8];
    char *device;

    (void)state;
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    OK(cudaMalloc((void **)&device, BYTES));
    launch_at(stream, &first, false);
    OK(cudaMemcpyAsync(device, own, 8, cudaMemcpyHostToDevice, stream));
    memcpy(own, "after", 6);
    open_gate(&first);
    OK(cudaMemcpyAsync(back, device, 8, cudaMemcpyDeviceToHost, stream)); /* returns when it is there */
    assert_string_equal(back, "before");
    OK(cudaFree(device));
    OK(cudaStreamDestroy(stream));
}

/* From pinned memory it goes when its turn has come. */
static void a_copy_from_pinned_memory_comes_later(void **state)
{
    cudaStream_t stream;
    gate first = {0};
    char *device, *pinned;

    (void)state;
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    OK(cudaMalloc((void **)&device, BYTES));
    OK(cudaMallocHost((void **)&pinned, BYTES));
    memcpy(pinned, "before", 7);
    launch_at(stream, &first, false);
    OK(cudaMemcpyAsync(device, pinned, 8, cudaMemcpyHostToDevice, stream));
    OK(cudaMemcpyAsync(pinned + 8, device, 8, cudaMemcpyDeviceToHost, stream));
    assert_int_equal(cudaStreamQuery(stream), cudaErrorNotReady);
    memcpy(pinned, "after", 6);
    open_gate(&first);
    OK(cudaStreamSynchronize(stream));
    assert_string_equal(pinned + 8, "after");
    OK(cudaFree(device));
    OK(cudaFreeHost(pinned));
    OK(cudaStreamDestroy(stream));
}

/* ---- freeing ---- */

static void free_wants_what_was_made(void **state)
{
    char *device;
    void *pinned;
    int own;

    (void)state;
    OK(cudaMalloc((void **)&device, BYTES));
    OK(cudaMallocHost(&pinned, BYTES));
    OK(cudaFree(NULL));
    OK(cudaFreeHost(NULL));
    assert_int_equal(cudaFree(device + 8), cudaErrorInvalidValue);
    assert_int_equal(cudaFree(pinned), cudaErrorInvalidValue);
    assert_int_equal(cudaFree(&own), cudaErrorInvalidValue);
    assert_int_equal(cudaFreeHost(device), cudaErrorInvalidValue);
    OK(cudaFree(device));
    MISUSE(cudaFree(device), "cudaFree is given 0x", "which cudaFree has freed before");
    OK(cudaFreeHost(pinned));
}

static void *open_later(void *arg)
{
    nap_ms(30);
    open_gate(arg);
    return NULL;
}

static void free_waits_for_the_device(void **state)
{
    cudaStream_t stream;
    pthread_t thread;
    gate first = {0};
    void *device;

    (void)state;
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    OK(cudaMalloc(&device, BYTES));
    launch_at(stream, &first, false);
    assert_int_equal(pthread_create(&thread, NULL, open_later, &first), 0);
    OK(cudaFree(device));
    assert_int_equal(atomic_load(&first.passed), 1);
    assert_int_equal(pthread_join(thread, NULL), 0);
    OK(cudaStreamDestroy(stream));
}

/* The bytes stay until the stream has come there. */
static void free_async_is_work_of_its_stream(void **state)
{
    cudaStream_t stream;
    gate first = {0};
    void *device;
    size_t before, during, after, total;

    (void)state;
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    OK(cudaMemGetInfo(&before, &total));
    OK(cudaMallocAsync(&device, BYTES, stream));
    launch_at(stream, &first, false);
    OK(cudaFreeAsync(device, stream));
    OK(cudaMemGetInfo(&during, &total));
    assert_true(during < before);
    MISUSE(use(stream, "reader", device, 1, false), "that cudaFreeAsync has freed");
    MISUSE(cudaFree(device), "which cudaFreeAsync has freed before");
    open_gate(&first);
    OK(cudaStreamSynchronize(stream));
    OK(cudaMemGetInfo(&after, &total));
    assert_int_equal(after, before);
    OK(cudaStreamDestroy(stream));
}

/* ---- limits ---- */

static void memory_ends(void **state)
{
    void *first, *second, *far;
    size_t left, total;

    (void)state;
    OK(cudaMemGetInfo(&left, &total));
    assert_int_equal(total, MEMORY);
    assert_int_equal(left, MEMORY);
    assert_int_equal(cudaMalloc(&first, MEMORY + 1), cudaErrorMemoryAllocation);
    assert_int_equal(cudaMalloc(&first, SIZE_MAX), cudaErrorMemoryAllocation);
    OK(cudaMalloc(&first, MEMORY / 2));
    OK(cudaMalloc(&second, MEMORY / 2));
    OK(cudaMemGetInfo(&left, &total));
    assert_int_equal(left, 0);
    assert_int_equal(cudaMalloc(&far, 1), cudaErrorMemoryAllocation);
    assert_int_equal(cudaGetLastError(), cudaErrorMemoryAllocation);
    OK(cudaSetDevice(1)); /* which has memory of its own */
    OK(cudaMalloc(&far, MEMORY));
    OK(cudaFree(far));
    OK(cudaSetDevice(0));
    OK(cudaFree(first));
    OK(cudaMalloc(&first, MEMORY / 2));
    OK(cudaFree(first));
    OK(cudaFree(second));
    OK(cudaMalloc(&first, 0));
    assert_null(first);
}

/* Addresses come round again at some time; sizes that do not fit each other must still find a place. */
static void addresses_are_used_again(void **state)
{
    enum { KEPT = 7 };
    void *kept[KEPT] = {0};

    (void)state;
    for (int i = 0; i < 1500; i++) {
        int slot = i % KEPT;
        size_t bytes = (size_t)(i * 7919 % 97 + 1) << 16;
        OK(cudaFree(kept[slot]));
        OK(cudaMalloc(&kept[slot], bytes));
        OK(cudaMemcpy(kept[slot], &i, sizeof i, cudaMemcpyHostToDevice));
    }
    for (int i = 0; i < KEPT; i++) {
        int number;
        OK(cudaMemcpy(&number, kept[i], sizeof number, cudaMemcpyDeviceToHost));
        assert_int_equal(number % KEPT, i);
        OK(cudaFree(kept[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_ends),
        cmocka_unit_test(a_pointer_is_what_it_was_made_as),
        cmocka_unit_test(memory_of_the_program_can_be_registered),
        cmocka_unit_test(a_touch_of_device_memory_is_told),
        cmocka_unit_test(a_result_in_device_memory_is_told),
        cmocka_unit_test(a_touch_after_free_is_told),
        cmocka_unit_test(the_emulation_sees_what_the_program_does_not),
        cmocka_unit_test(work_may_use_only_what_is_there),
        cmocka_unit_test(the_kind_of_a_copy_must_be_true),
        cmocka_unit_test(rows_are_copied_one_by_one),
        cmocka_unit_test(a_copy_from_the_program_has_taken_its_bytes),
        cmocka_unit_test(a_copy_from_pinned_memory_comes_later),
        cmocka_unit_test(free_wants_what_was_made),
        cmocka_unit_test(free_waits_for_the_device),
        cmocka_unit_test(free_async_is_work_of_its_stream),
        cmocka_unit_test(addresses_are_used_again),
    };
    char memory[32];

    snprintf(memory, sizeof memory, "%d", MEMORY);
    setenv("CUDA_EMULATION_MISUSE", "report", 1);
    setenv("CUDA_EMULATION_DEVICES", "2", 1);
    setenv("CUDA_EMULATION_MEMORY", memory, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
