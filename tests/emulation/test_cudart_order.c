/* test_cudart_order.c - the detector of races: what streams, events and the host order is fine, what they do
 * not order is told, every time, however fast the work was. */
#include "cudart_check.h"

#include <stdlib.h>

enum { BYTES = 4096 };

static cudaStream_t one, other; /* of device 0, without the default stream's waits */
static cudaEvent_t event;
static char *buffer; /* fresh for every test */

static int set_up(void **state)
{
    (void)state;
    return cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking) ||
           cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking) ||
           cudaEventCreateWithFlags(&event, cudaEventDisableTiming) || cudaMalloc((void **)&buffer, BYTES);
}

static int tear_down(void **state)
{
    (void)state;
    return cudaFree(buffer) || cudaEventDestroy(event) || cudaStreamDestroy(one) || cudaStreamDestroy(other);
}

/* All on the stream is over, which nobody has been told: copies that are to race in the books alone. */
static void let_finish(cudaStream_t stream)
{
    gate first = {.open = 1};

    launch_at(stream, &first, false);
    while (!atomic_load(&first.passed)) nap_ms(1);
}

static void a_read_without_a_wait_is_told(void **state)
{
    (void)state;
    FINE(use(one, "writer", buffer, BYTES, true));
    MISUSE(use(other, "reader", buffer + 100, 10, false), "reader on stream", "reads bytes 100 to 109",
           "device buffer", "nothing orders it after writer on stream", "which writes them");
}

static void a_write_after_a_read_without_a_wait_is_told(void **state)
{
    (void)state;
    FINE(use(one, "reader", buffer, BYTES, false));
    MISUSE(use(other, "writer", buffer, 1, true), "writer on", "writes bytes 0 to 0", "after reader",
           "which reads them");
}

/* Not one time in a hundred, but a hundred times. */
static void it_is_told_every_time(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++) {
        OK(use(one, "writer", buffer, BYTES, true));
        MISUSE(use(other, "reader", buffer, BYTES, false), "reader on");
        OK(cudaDeviceSynchronize());
    }
}

static void reads_do_not_race(void **state)
{
    (void)state;
    FINE(use(one, "reader", buffer, BYTES, false));
    FINE(use(other, "reader", buffer, BYTES, false));
}

static void bytes_side_by_side_do_not_race(void **state)
{
    (void)state;
    FINE(use(one, "writer", buffer, 100, true));
    FINE(use(other, "writer", buffer + 100, 100, true));
    MISUSE(use(one, "writer", buffer + 199, 2, true), "bytes 199 to 199");
}

static void a_wait_for_the_event_orders(void **state)
{
    (void)state;
    FINE(use(one, "writer", buffer, BYTES, true));
    OK(cudaEventRecord(event, one));
    OK(cudaStreamWaitEvent(other, event, 0));
    FINE(use(other, "reader", buffer, BYTES, false));
}

/* The event was recorded too early. */
static void an_event_says_nothing_of_what_comes_after_it(void **state)
{
    (void)state;
    OK(cudaEventRecord(event, one));
    FINE(use(one, "writer", buffer, BYTES, true));
    OK(cudaStreamWaitEvent(other, event, 0));
    MISUSE(use(other, "reader", buffer, BYTES, false), "reader on");
}

static void a_wait_for_an_unrecorded_event_orders_nothing(void **state)
{
    (void)state;
    FINE(use(one, "writer", buffer, BYTES, true));
    OK(cudaStreamWaitEvent(other, event, 0));
    MISUSE(use(other, "reader", buffer, BYTES, false), "reader on");
}

/* Not even one whose place in memory belonged to an event that would have. */
static void an_event_has_nothing_of_those_before_it(void **state)
{
    enum { EVENTS = 200 };
    cudaEvent_t made[EVENTS];

    (void)state;
    FINE(use(one, "writer", buffer, BYTES, true));
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < EVENTS; i++) {
            OK(cudaEventCreateWithFlags(&made[i], cudaEventDisableTiming));
            if (round == 0)
                OK(cudaEventRecord(made[i], one));
            else
                OK(cudaStreamWaitEvent(other, made[i], 0));
        }
        for (int i = 0; i < EVENTS; i++) OK(cudaEventDestroy(made[i]));
    }
    MISUSE(use(other, "reader", buffer, BYTES, false), "reader on");
}

/* It has finished, but nobody has looked. */
static void having_finished_is_not_enough(void **state)
{
    (void)state;
    FINE(use(one, "writer", buffer, BYTES, true));
    let_finish(one);
    MISUSE(use(other, "reader", buffer, BYTES, false), "reader on");
}

static void what_the_host_has_seen_is_ordered(void **state)
{
    (void)state;
    FINE(use(one, "writer", buffer, BYTES, true));
    OK(cudaStreamSynchronize(one));
    FINE(use(other, "writer", buffer, BYTES, true));
    OK(cudaEventRecord(event, other));
    OK(cudaEventSynchronize(event));
    FINE(use(one, "writer", buffer, BYTES, true));
    OK(cudaEventRecord(event, one));
    while (cudaEventQuery(event) == cudaErrorNotReady) nap_ms(1);
    FINE(use(other, "writer", buffer, BYTES, true));
    await_query(other);
    FINE(use(one, "writer", buffer, BYTES, true));
    OK(cudaDeviceSynchronize());
    FINE(use(other, "writer", buffer, BYTES, true));
}

/* A query that says "not yet" has seen nothing. */
static void an_unfinished_query_orders_nothing(void **state)
{
    gate first = {0};

    (void)state;
    FINE(use(one, "writer", buffer, BYTES, true));
    launch_at(one, &first, false);
    assert_int_equal(cudaStreamQuery(one), cudaErrorNotReady);
    MISUSE(use(other, "reader", buffer, BYTES, false), "reader on");
    open_gate(&first);
    OK(cudaStreamSynchronize(one));
}

/* To wait for one stream says nothing of another, unless that one came before it. */
static void the_host_sees_what_came_before_what_it_waits_for(void **state)
{
    char *second;

    (void)state;
    OK(cudaMalloc((void **)&second, BYTES));
    FINE(use(one, "writer", buffer, BYTES, true));
    OK(cudaEventRecord(event, one));
    FINE(use(one, "late writer", second, BYTES, true));
    OK(cudaStreamWaitEvent(other, event, 0));
    OK(cudaStreamSynchronize(other));
    FINE(use(NULL, "reader", buffer, BYTES, false));
    MISUSE(use(NULL, "reader", second, BYTES, false), "late writer");
    OK(cudaFree(second));
}

static void the_default_stream_orders_blocking_ones(void **state)
{
    cudaStream_t blocking, second;

    (void)state;
    OK(cudaStreamCreate(&blocking));
    OK(cudaStreamCreate(&second));
    FINE(use(blocking, "writer", buffer, BYTES, true));
    FINE(use(NULL, "reader", buffer, BYTES, false));
    FINE(use(NULL, "writer", buffer, BYTES, true));
    FINE(use(second, "writer", buffer, BYTES, true));
    MISUSE(use(blocking, "reader", buffer, BYTES, false), "reader on"); /* one with the other: not ordered */
    OK(cudaStreamDestroy(blocking));
    OK(cudaStreamDestroy(second));
}

static void the_default_stream_orders_no_nonblocking_one(void **state)
{
    (void)state;
    FINE(use(NULL, "writer", buffer, BYTES, true));
    MISUSE(use(one, "reader", buffer, BYTES, false), "reader on",
           "after writer on the default stream of device 0");
}

/* Races are found with the functions that a program calls, too. */
static void copies_and_fills_are_accesses(void **state)
{
    char here[BYTES];
    void *pinned;

    (void)state;
    OK(cudaMallocHost(&pinned, BYTES));
    FINE(cudaMemsetAsync(buffer, 1, BYTES, one));
    let_finish(one);
    MISUSE(cudaMemcpyAsync(pinned, buffer, 8, cudaMemcpyDeviceToHost, other), "cudaMemcpyAsync on",
           "reads bytes 0 to 7", "after cudaMemsetAsync on");
    OK(cudaDeviceSynchronize());
    FINE(cudaMemcpyAsync(buffer, pinned, BYTES, cudaMemcpyHostToDevice, one));
    let_finish(one);
    MISUSE(cudaMemcpyAsync(pinned, here, BYTES, cudaMemcpyHostToHost, other), "writes", "pinned host buffer");
    OK(cudaDeviceSynchronize());
    FINE(use(one, "writer", buffer, BYTES, true));
    MISUSE(cudaMemcpy(here, buffer, BYTES, cudaMemcpyDeviceToHost), "cudaMemcpy on the default stream");
    OK(cudaDeviceSynchronize());
    FINE(cudaMemcpy(here, buffer, BYTES, cudaMemcpyDeviceToHost));
    OK(cudaFreeHost(pinned));
}

/* Rows that do not touch the bytes between them. */
static void rows_are_accesses_by_themselves(void **state)
{
    (void)state;
    FINE(cudaMemset2DAsync(buffer, 64, 0, 16, 8, one));
    FINE(use(other, "between", buffer + 16, 48, true));
    MISUSE(use(other, "row", buffer + 64, 1, false), "row on", "bytes 64 to 64");
}

static void memory_has_the_order_of_the_stream_that_makes_it(void **state)
{
    void *made;

    (void)state;
    OK(cudaMallocAsync(&made, BYTES, one));
    FINE(use(one, "writer", made, BYTES, true));
    MISUSE(use(other, "reader", made, BYTES, false), "reader on");
    OK(cudaDeviceSynchronize());
    OK(cudaMallocAsync(&made, BYTES, one));
    MISUSE(use(other, "reader", made, BYTES, false), "after cudaMallocAsync");
    MISUSE(cudaFreeAsync(made, one), "cudaFreeAsync on", "after reader");
    OK(cudaDeviceSynchronize());
}

static void forget(void *arg)
{
    atomic_store((atomic_int *)arg, 1);
}

/* What a function on a stream tells the program, that the program knows. */
static void a_host_function_has_seen_its_stream(void **state)
{
    atomic_int called = 0;

    (void)state;
    FINE(use(one, "writer", buffer, BYTES, true));
    OK(cudaLaunchHostFunc(one, forget, &called));
    while (!atomic_load(&called)) nap_ms(1);
    FINE(use(other, "reader", buffer, BYTES, false));
}

/* Many readers: the writer after them waits for all but one. */
static void one_reader_of_many_is_found(void **state)
{
    enum { READERS = 40 };
    cudaStream_t readers[READERS];

    (void)state;
    for (int i = 0; i < READERS; i++) {
        OK(cudaStreamCreateWithFlags(&readers[i], cudaStreamNonBlocking));
        FINE(use(readers[i], i == 7 ? "seventh" : "reader", buffer, BYTES, false));
        if (i == 7) continue;
        OK(cudaEventRecord(event, readers[i]));
        OK(cudaStreamWaitEvent(one, event, 0));
    }
    MISUSE(use(one, "writer", buffer, BYTES, true), "after seventh on");
    for (int i = 0; i < READERS; i++) OK(cudaStreamDestroy(readers[i]));
}

/* A long run over small pieces keeps no more than it needs. */
static void a_long_run_forgets_nothing_that_matters(void **state)
{
    (void)state;
    for (int i = 0; i < 20000; i++) FINE(use(one, "writer", buffer + i % BYTES, 1, true));
    MISUSE(use(other, "reader", buffer + 20000 % BYTES - 1, 1, false), "after writer");
}

static void streams_of_two_devices_are_ordered_by_events(void **state)
{
    cudaStream_t far;
    void *there;

    (void)state;
    OK(cudaSetDevice(1));
    OK(cudaStreamCreateWithFlags(&far, cudaStreamNonBlocking));
    OK(cudaMalloc(&there, BYTES));
    OK(cudaSetDevice(0));
    FINE(use(one, "writer", buffer, BYTES, true));
    MISUSE(cudaMemcpyPeerAsync(there, 1, buffer, 0, BYTES, far), "of device 1", "after writer");
    OK(cudaEventRecord(event, one));
    OK(cudaStreamWaitEvent(far, event, 0));
    FINE(cudaMemcpyPeerAsync(there, 1, buffer, 0, BYTES, far));
    OK(cudaStreamSynchronize(far));
    OK(cudaFree(there));
    OK(cudaStreamDestroy(far));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_read_without_a_wait_is_told),
        TEST(a_write_after_a_read_without_a_wait_is_told),
        TEST(it_is_told_every_time),
        TEST(reads_do_not_race),
        TEST(bytes_side_by_side_do_not_race),
        TEST(a_wait_for_the_event_orders),
        TEST(an_event_says_nothing_of_what_comes_after_it),
        TEST(a_wait_for_an_unrecorded_event_orders_nothing),
        TEST(an_event_has_nothing_of_those_before_it),
        TEST(having_finished_is_not_enough),
        TEST(what_the_host_has_seen_is_ordered),
        TEST(an_unfinished_query_orders_nothing),
        TEST(the_host_sees_what_came_before_what_it_waits_for),
        TEST(the_default_stream_orders_blocking_ones),
        TEST(the_default_stream_orders_no_nonblocking_one),
        TEST(copies_and_fills_are_accesses),
        TEST(rows_are_accesses_by_themselves),
        TEST(memory_has_the_order_of_the_stream_that_makes_it),
        TEST(a_host_function_has_seen_its_stream),
        TEST(one_reader_of_many_is_found),
        TEST(a_long_run_forgets_nothing_that_matters),
        TEST(streams_of_two_devices_are_ordered_by_events),
    };

    setenv("CUDA_EMULATION_MISUSE", "report", 1);
    setenv("CUDA_EMULATION_DEVICES", "2", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
