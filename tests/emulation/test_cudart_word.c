/* test_cudart_word.c - words that streams write and wait for: cuStreamWriteValue and cuStreamWaitValue, found by name
 * as with the real driver; what they hold up, and what they order. */
#include "cudart_check.h"

#include <cuda.h>
#include <stdlib.h>

enum { BYTES = 4096, SHORT_MS = 30 /* in which what nothing holds up would happen */ };

static CUresult (*wait_32)(CUstream stream, CUdeviceptr at, cuuint32_t value, unsigned flags);
static CUresult (*wait_64)(CUstream stream, CUdeviceptr at, cuuint64_t value, unsigned flags);
static CUresult (*write_32)(CUstream stream, CUdeviceptr at, cuuint32_t value, unsigned flags);
static CUresult (*write_64)(CUstream stream, CUdeviceptr at, cuuint64_t value, unsigned flags);
static cudaStream_t one, other; /* of device 0, without the default stream's waits */
static char *buffer;            /* fresh for every test */
static uint64_t *pinned;        /* two words; likewise */

static void find_entries(void)
{
    assert_true(driver_has("cuStreamWaitValue32", &wait_32) && driver_has("cuStreamWaitValue64", &wait_64));
    assert_true(driver_has("cuStreamWriteValue32", &write_32) &&
                driver_has("cuStreamWriteValue64", &write_64));
}

static int set_up(void **state)
{
    (void)state;
    if (!wait_32) find_entries();
    if (cudaSetDevice(0) || cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking) ||
        cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking) || cudaMalloc((void **)&buffer, BYTES) ||
        cudaHostAlloc((void **)&pinned, 2 * sizeof *pinned, cudaHostAllocPortable))
        return -1;
    memset(pinned, 0, 2 * sizeof *pinned);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    return cudaDeviceSynchronize() || cudaFreeHost(pinned) || cudaFree(buffer) || cudaStreamDestroy(one) ||
           cudaStreamDestroy(other);
}

static CUdeviceptr place(const void *at)
{
    return (CUdeviceptr)(uintptr_t)at;
}

static void is_held(cudaStream_t stream)
{
    nap_ms(SHORT_MS);
    assert_int_equal(cudaStreamQuery(stream), cudaErrorNotReady);
}

static void it_goes_when_another_stream_has_written(void **state)
{
    (void)state;
    FINE(wait_32(one, place(pinned), 1, CU_STREAM_WAIT_VALUE_GEQ));
    is_held(one);
    FINE(write_32(other, place(pinned), 1, CU_STREAM_WRITE_VALUE_DEFAULT));
    OK(cudaStreamSynchronize(one));
    assert_int_equal(*(uint32_t *)pinned, 1);
}

static void it_goes_when_the_host_has_written(void **state)
{
    (void)state;
    FINE(wait_64(one, place(pinned), UINT64_C(1) << 40, CU_STREAM_WAIT_VALUE_GEQ));
    __atomic_store_n(pinned, (UINT64_C(1) << 40) - 1, __ATOMIC_RELEASE);
    is_held(one);
    __atomic_store_n(pinned, UINT64_C(1) << 40, __ATOMIC_RELEASE);
    OK(cudaStreamSynchronize(one));
}

static void words_lie_in_device_memory_too(void **state)
{
    uint64_t seen = 0;

    (void)state;
    OK(cudaMemset(buffer, 0, BYTES));
    OK(cudaDeviceSynchronize()); /* which the host does not wait for by itself, and no stream here is ordered after */
    FINE(wait_64(one, place(buffer + 8), 7, CU_STREAM_WAIT_VALUE_EQ));
    is_held(one);
    FINE(write_64(other, place(buffer + 8), 7, CU_STREAM_WRITE_VALUE_DEFAULT));
    OK(cudaStreamSynchronize(one));
    OK(cudaMemcpy(&seen, buffer + 8, sizeof seen, cudaMemcpyDeviceToHost));
    assert_int_equal(seen, 7);
}

/* What comes before the write on its stream, and behind the wait on the other. */
static void a_write_comes_in_its_place(void **state)
{
    gate first = {0}, behind = {.open = 1};

    (void)state;
    launch_at(other, &first, false);
    FINE(write_32(other, place(pinned), 1, CU_STREAM_WRITE_VALUE_DEFAULT));
    FINE(wait_32(one, place(pinned), 1, CU_STREAM_WAIT_VALUE_GEQ));
    launch_at(one, &behind, false);
    is_held(one);
    assert_int_equal(atomic_load(&behind.passed), 0);
    open_gate(&first);
    OK(cudaStreamSynchronize(one));
    assert_int_equal(atomic_load(&behind.passed), 1);
}

static void who_waits_holds_nobody_else_up(void **state)
{
    (void)state;
    FINE(wait_32(one, place(pinned), 1, CU_STREAM_WAIT_VALUE_GEQ));
    FINE(use(other, "writer", buffer, BYTES, true));
    OK(cudaStreamSynchronize(other));
    assert_int_equal(cudaStreamQuery(one), cudaErrorNotReady);
    __atomic_store_n((uint32_t *)pinned, 1, __ATOMIC_RELEASE);
}

static void check_flag(unsigned flags, uint32_t before, uint32_t value, uint32_t after)
{
    __atomic_store_n((uint32_t *)pinned, before, __ATOMIC_RELEASE);
    FINE(wait_32(one, place(pinned), value, flags));
    is_held(one);
    __atomic_store_n((uint32_t *)pinned, after, __ATOMIC_RELEASE);
    OK(cudaStreamSynchronize(one));
}

static void flags_compare_as_they_say(void **state)
{
    (void)state;
    check_flag(CU_STREAM_WAIT_VALUE_GEQ, 4, 5, 6);
    check_flag(CU_STREAM_WAIT_VALUE_GEQ, UINT32_MAX, 2, 2); /* goes round */
    check_flag(CU_STREAM_WAIT_VALUE_EQ, 6, 5, 5);
    check_flag(CU_STREAM_WAIT_VALUE_AND, 2, 5, 4);
    check_flag(CU_STREAM_WAIT_VALUE_NOR, UINT32_MAX - 2, 2, 1);
}

static void what_cannot_be_is_refused(void **state)
{
    static uint64_t mine;
    int devices;

    (void)state;
    assert_int_equal(wait_32(one, place(pinned) + 2, 1, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(wait_64(one, place(pinned) + 4, 1, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(wait_32(one, place(pinned), 1, 4), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(write_32(one, place(pinned), 1, 2), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(wait_32(one, place(pinned), 1, CU_STREAM_WAIT_VALUE_FLUSH), CUDA_ERROR_NOT_SUPPORTED);
    MISUSE(wait_64(one, place(&mine), 1, 0), "cuStreamWaitValue64 on",
           "host memory that no device can reach");
    OK(cudaGetDeviceCount(&devices));
    if (devices < 2) return;
    OK(cudaSetDevice(1)); /* the driver goes by the context that is current */
    assert_int_equal(wait_32(one, place(pinned), 1, 0), CUDA_ERROR_INVALID_CONTEXT);
    OK(cudaSetDevice(0));
}

static void a_driver_may_lack_them(void **state)
{
    void *found;

    (void)state;
    emu_script("without_cuStreamWaitValue32@*=value:1");
    assert_false(driver_has("cuStreamWaitValue32", &found));
    assert_true(driver_has("cuStreamWaitValue64", &found));
    emu_script(NULL);
    assert_true(driver_has("cuStreamWaitValue32", &found));
}

/* ---- what is ordered ---- */

static void what_was_written_before_it_is_ordered(void **state)
{
    (void)state;
    FINE(use(other, "writer", buffer, BYTES, true));
    FINE(write_32(other, place(pinned), 1, CU_STREAM_WRITE_VALUE_DEFAULT));
    FINE(wait_32(one, place(pinned), 1, CU_STREAM_WAIT_VALUE_GEQ));
    FINE(use(one, "reader", buffer, BYTES, false));
    FINE(cudaStreamSynchronize(one));
}

/* As where a library makes the program's stream wait for what it has not begun yet. */
static void so_is_what_is_queued_after_the_wait(void **state)
{
    cudaEvent_t event;
    cudaStream_t third;

    (void)state;
    OK(cudaStreamCreateWithFlags(&third, cudaStreamNonBlocking));
    OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    FINE(wait_32(one, place(pinned), 1, CU_STREAM_WAIT_VALUE_GEQ));
    FINE(use(one, "reader", buffer, BYTES, false));
    OK(cudaEventRecord(event, one));
    OK(cudaStreamWaitEvent(third, event, 0));
    FINE(use(third, "reader", buffer, BYTES, false));
    FINE(use(other, "writer", buffer, BYTES, true));
    FINE(use(third, "reader", buffer, 8, false));
    FINE(write_32(other, place(pinned), 1, CU_STREAM_WRITE_VALUE_DEFAULT));
    FINE(use(third, "reader", buffer + 8, 8, false));
    FINE(cudaStreamSynchronize(third));
    FINE(use(other, "writer", buffer, BYTES, true)); /* the host has seen all of it */
    OK(cudaStreamDestroy(third));
    OK(cudaEventDestroy(event));
}

static void await_misuse(uint64_t before)
{
    while (emu_misuses() == before) nap_ms(1);
    assert_int_equal(emu_misuses(), before + 1);
}

static void a_write_that_comes_too_early_is_told(void **state)
{
    uint64_t before;

    (void)state;
    FINE(wait_32(one, place(pinned), 1, CU_STREAM_WAIT_VALUE_GEQ));
    FINE(use(one, "reader", buffer, BYTES, false));
    before = emu_misuses();
    OK(write_32(other, place(pinned), 1, CU_STREAM_WRITE_VALUE_DEFAULT));
    OK(use(other, "writer", buffer, BYTES, true)); /* which the write above does not wait for */
    await_misuse(before);
    check_words((const char *const[]){"writer on", "nothing orders it after reader on", NULL});
}

static void what_the_host_writes_orders_only_what_it_has_seen(void **state)
{
    uint64_t before;

    (void)state;
    FINE(use(other, "first writer", buffer, 8, true));
    OK(cudaStreamSynchronize(other));
    FINE(use(other, "second writer", buffer + 8, 8, true));
    FINE(wait_32(one, place(pinned), 1, CU_STREAM_WAIT_VALUE_GEQ));
    FINE(use(one, "reader", buffer, 8, false));
    FINE(use(one, "reader", buffer + 8, 8, false));
    before = emu_misuses();
    __atomic_store_n((uint32_t *)pinned, 1, __ATOMIC_RELEASE);
    await_misuse(before);
    check_words((const char *const[]){"reader on", "bytes 8 to 15", "after second writer on", NULL});
}

/* Another word, or another value. */
static void a_wait_orders_after_its_own_word(void **state)
{
    uint64_t before = emu_misuses();

    (void)state;
    OK(wait_32(one, place(pinned + 1), 1, CU_STREAM_WAIT_VALUE_GEQ));
    OK(use(one, "reader", buffer, BYTES, false));
    OK(use(other, "writer", buffer, BYTES, true));
    OK(write_32(other, place(pinned), 1, CU_STREAM_WRITE_VALUE_DEFAULT));
    is_held(one);
    assert_int_equal(emu_misuses(), before);
    __atomic_store_n((uint32_t *)(pinned + 1), 1, __ATOMIC_RELEASE);
    await_misuse(before);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(it_goes_when_another_stream_has_written),
        TEST(it_goes_when_the_host_has_written),
        TEST(words_lie_in_device_memory_too),
        TEST(a_write_comes_in_its_place),
        TEST(who_waits_holds_nobody_else_up),
        TEST(flags_compare_as_they_say),
        TEST(what_cannot_be_is_refused),
        TEST(a_driver_may_lack_them),
        TEST(what_was_written_before_it_is_ordered),
        TEST(so_is_what_is_queued_after_the_wait),
        TEST(a_write_that_comes_too_early_is_told),
        TEST(what_the_host_writes_orders_only_what_it_has_seen),
        TEST(a_wait_orders_after_its_own_word),
    };

    setenv("CUDA_EMULATION_MISUSE", "report", 1);
    setenv("CUDA_EMULATION_DEVICES", "2", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
