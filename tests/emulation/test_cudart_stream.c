/* test_cudart_stream.c - streams, events and what waits for what. */
#include "cudart_check.h"

#include <pthread.h>
#include <stdlib.h>

enum { BYTES = 4096, SHORT_MS = 30 /* in which what nothing holds up would happen */ };

static cudaStream_t new_stream(unsigned flags)
{
    cudaStream_t stream;

    OK(cudaStreamCreateWithFlags(&stream, flags));
    return stream;
}

static cudaEvent_t new_event(void)
{
    cudaEvent_t event;

    OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    return event;
}

/* It stays held up; then the gate is opened, and it comes. */
static void held_until_open(cudaStream_t held, gate *by)
{
    nap_ms(SHORT_MS);
    assert_int_equal(cudaStreamQuery(held), cudaErrorNotReady);
    open_gate(by);
    await_query(held);
}

static void a_copy_goes_there_and_back(void **state)
{
    cudaStream_t stream = new_stream(cudaStreamNonBlocking);
    char there[BYTES], back[BYTES];
    void *device;

    (void)state;
    memset(there, 0x5a, sizeof there);
    OK(cudaMalloc(&device, BYTES));
    OK(cudaMemcpyAsync(device, there, BYTES, cudaMemcpyHostToDevice, stream));
    OK(cudaMemcpyAsync(back, device, BYTES, cudaMemcpyDeviceToHost, stream));
    assert_memory_equal(there, back, BYTES);
    OK(cudaFree(device));
    OK(cudaStreamDestroy(stream));
}

static void work_on_a_stream_keeps_its_order(void **state)
{
    cudaStream_t stream = new_stream(cudaStreamNonBlocking);
    gate first = {0}, second = {.open = 1};

    (void)state;
    launch_at(stream, &first, false);
    launch_at(stream, &second, false);
    nap_ms(SHORT_MS);
    assert_int_equal(atomic_load(&second.passed), 0);
    open_gate(&first);
    OK(cudaStreamSynchronize(stream));
    assert_int_equal(atomic_load(&second.passed), 1);
    OK(cudaStreamDestroy(stream));
}

static void streams_do_not_wait_for_each_other(void **state)
{
    cudaStream_t held = new_stream(cudaStreamNonBlocking), loose = new_stream(cudaStreamNonBlocking);
    gate first = {0}, second = {.open = 1};

    (void)state;
    launch_at(held, &first, false);
    launch_at(loose, &second, false);
    OK(cudaStreamSynchronize(loose));
    assert_int_equal(cudaStreamQuery(held), cudaErrorNotReady);
    open_gate(&first);
    OK(cudaDeviceSynchronize());
    assert_int_equal(atomic_load(&first.passed), 1);
    OK(cudaStreamDestroy(held));
    OK(cudaStreamDestroy(loose));
}

static void the_default_stream_waits_for_blocking_ones(void **state)
{
    cudaStream_t blocking = new_stream(cudaStreamDefault);
    gate first = {0}, second = {.open = 1};

    (void)state;
    launch_at(blocking, &first, false);
    launch_at(NULL, &second, false);
    held_until_open(NULL, &first);
    assert_int_equal(atomic_load(&second.passed), 1);
    OK(cudaStreamDestroy(blocking));
}

static void blocking_streams_wait_for_the_default_one(void **state)
{
    cudaStream_t blocking = new_stream(cudaStreamDefault);
    gate first = {0}, second = {.open = 1};

    (void)state;
    launch_at(cudaStreamLegacy, &first, false);
    launch_at(blocking, &second, false);
    held_until_open(blocking, &first);
    OK(cudaStreamDestroy(blocking));
}

static void nonblocking_streams_and_the_default_one_are_strangers(void **state)
{
    cudaStream_t loose = new_stream(cudaStreamNonBlocking);
    gate first = {0}, second = {.open = 1}, third = {0};

    (void)state;
    launch_at(NULL, &first, false);
    launch_at(loose, &second, false);
    OK(cudaStreamSynchronize(loose));
    assert_int_equal(cudaStreamQuery(NULL), cudaErrorNotReady);
    open_gate(&first);
    launch_at(loose, &third, false);
    OK(cudaStreamSynchronize(NULL));
    open_gate(&third);
    OK(cudaStreamSynchronize(loose));
    OK(cudaStreamDestroy(loose));
}

/* Also one that was destroyed before it had finished. */
static void the_default_stream_waits_for_a_destroyed_one(void **state)
{
    cudaStream_t blocking = new_stream(cudaStreamDefault);
    gate first = {0}, second = {.open = 1};

    (void)state;
    launch_at(blocking, &first, false);
    OK(cudaStreamDestroy(blocking));
    launch_at(NULL, &second, false);
    held_until_open(NULL, &first);
}

/* An event of the default stream comes after what blocking streams had. */
static void an_event_of_the_default_stream_waits_too(void **state)
{
    cudaStream_t blocking = new_stream(cudaStreamDefault);
    cudaEvent_t event = new_event();
    gate first = {0};

    (void)state;
    launch_at(blocking, &first, false);
    OK(cudaEventRecord(event, NULL));
    nap_ms(SHORT_MS);
    assert_int_equal(cudaEventQuery(event), cudaErrorNotReady);
    open_gate(&first);
    OK(cudaEventSynchronize(event));
    assert_int_equal(atomic_load(&first.passed), 1);
    OK(cudaEventDestroy(event));
    OK(cudaStreamDestroy(blocking));
}

static void devices_do_not_wait_for_each_other(void **state)
{
    gate first = {0}, second = {.open = 1};

    (void)state;
    launch_at(NULL, &first, false);
    OK(cudaSetDevice(1));
    launch_at(NULL, &second, false);
    OK(cudaDeviceSynchronize());
    OK(cudaSetDevice(0));
    assert_int_equal(cudaStreamQuery(NULL), cudaErrorNotReady);
    open_gate(&first);
    OK(cudaDeviceSynchronize());
}

static void *use_own_stream(void *arg)
{
    launch_at(cudaStreamPerThread, arg, false);
    OK(cudaStreamSynchronize(cudaStreamPerThread));
    return NULL;
}

static void each_thread_has_a_stream_of_its_own(void **state)
{
    gate first = {0}, second = {.open = 1};
    pthread_t thread;

    (void)state;
    launch_at(cudaStreamPerThread, &first, false);
    assert_int_equal(pthread_create(&thread, NULL, use_own_stream, &second), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(atomic_load(&second.passed), 1);
    assert_int_equal(atomic_load(&first.passed), 0);
    held_until_open(cudaStreamPerThread, &first);
}

/* ---- events ---- */

static void a_stream_waits_for_an_event(void **state)
{
    cudaStream_t before = new_stream(cudaStreamNonBlocking), after = new_stream(cudaStreamNonBlocking);
    cudaEvent_t event = new_event();
    gate first = {0}, second = {.open = 1};

    (void)state;
    launch_at(before, &first, false);
    OK(cudaEventRecord(event, before));
    OK(cudaStreamWaitEvent(after, event, 0));
    launch_at(after, &second, false);
    assert_int_equal(cudaEventQuery(event), cudaErrorNotReady);
    held_until_open(after, &first);
    OK(cudaEventQuery(event));
    OK(cudaEventDestroy(event));
    OK(cudaStreamDestroy(before));
    OK(cudaStreamDestroy(after));
}

static void a_wait_for_an_unrecorded_event_holds_nothing_up(void **state)
{
    cudaStream_t stream = new_stream(cudaStreamNonBlocking);
    cudaEvent_t event = new_event();
    gate first = {.open = 1};

    (void)state;
    OK(cudaEventQuery(event));
    OK(cudaEventSynchronize(event));
    OK(cudaStreamWaitEvent(stream, event, 0));
    launch_at(stream, &first, false);
    OK(cudaStreamSynchronize(stream));
    OK(cudaEventDestroy(event));
    OK(cudaStreamDestroy(stream));
}

/* What is waited for is the record there was at the call. */
static void a_later_record_is_not_waited_for(void **state)
{
    cudaStream_t one = new_stream(cudaStreamNonBlocking), other = new_stream(cudaStreamNonBlocking);
    cudaStream_t waiting = new_stream(cudaStreamNonBlocking);
    cudaEvent_t event = new_event();
    gate first = {.open = 1}, second = {0}, third = {.open = 1};

    (void)state;
    launch_at(one, &first, false);
    OK(cudaEventRecord(event, one));
    OK(cudaStreamWaitEvent(waiting, event, 0));
    launch_at(other, &second, false);
    OK(cudaEventRecord(event, other));
    launch_at(waiting, &third, false);
    OK(cudaStreamSynchronize(waiting));
    assert_int_equal(cudaEventQuery(event), cudaErrorNotReady);
    open_gate(&second);
    OK(cudaEventSynchronize(event));
    OK(cudaEventDestroy(event));
    OK(cudaStreamDestroy(one));
    OK(cudaStreamDestroy(other));
    OK(cudaStreamDestroy(waiting));
}

/* A destroyed event still holds up who waited for it. */
static void a_destroyed_event_is_still_waited_for(void **state)
{
    cudaStream_t before = new_stream(cudaStreamNonBlocking), after = new_stream(cudaStreamNonBlocking);
    cudaEvent_t event = new_event();
    gate first = {0};

    (void)state;
    launch_at(before, &first, false);
    OK(cudaEventRecord(event, before));
    OK(cudaStreamWaitEvent(after, event, 0));
    OK(cudaEventDestroy(event));
    held_until_open(after, &first);
    OK(cudaStreamDestroy(before));
    OK(cudaStreamDestroy(after));
}

static void events_tell_the_time_between_them(void **state)
{
    cudaStream_t stream = new_stream(cudaStreamNonBlocking);
    cudaEvent_t start, end, untimed = new_event();
    gate first = {0};
    float ms = -1;

    (void)state;
    OK(cudaEventCreate(&start));
    OK(cudaEventCreate(&end));
    assert_int_equal(cudaEventElapsedTime(&ms, start, end), cudaErrorInvalidResourceHandle);
    OK(cudaEventRecord(start, stream));
    OK(cudaEventSynchronize(start)); /* it has its time, from which the nap counts */
    launch_at(stream, &first, false);
    OK(cudaEventRecord(end, stream));
    assert_int_equal(cudaEventElapsedTime(&ms, start, end), cudaErrorNotReady);
    nap_ms(SHORT_MS);
    open_gate(&first);
    OK(cudaEventSynchronize(end));
    OK(cudaEventElapsedTime(&ms, start, end));
    assert_true(ms >= SHORT_MS - 1);
    OK(cudaEventRecord(untimed, stream));
    assert_int_equal(cudaEventElapsedTime(&ms, start, untimed), cudaErrorInvalidResourceHandle);
    OK(cudaEventDestroy(start));
    OK(cudaEventDestroy(end));
    OK(cudaEventDestroy(untimed));
    OK(cudaStreamDestroy(stream));
}

static void an_event_belongs_to_its_device(void **state)
{
    cudaEvent_t event = new_event();
    cudaStream_t other;

    (void)state;
    OK(cudaSetDevice(1));
    other = new_stream(cudaStreamNonBlocking);
    assert_int_equal(cudaEventRecord(event, other), cudaErrorInvalidResourceHandle);
    OK(cudaStreamWaitEvent(other, event, 0)); /* that is allowed */
    OK(cudaStreamDestroy(other));
    OK(cudaSetDevice(0));
    OK(cudaEventDestroy(event));
}

/* ---- a queue has an end ---- */

enum { QUEUE = 1024 };

typedef struct launcher {
    cudaStream_t stream;
    gate *gate;
    atomic_int back;
} launcher;

static void *launch_one_more(void *arg)
{
    launcher *l = arg;

    launch_at(l->stream, l->gate, false);
    atomic_store(&l->back, 1);
    return NULL;
}

static void a_full_queue_holds_up_who_launches(void **state)
{
    gate hold = {0};
    launcher more = {.stream = new_stream(cudaStreamNonBlocking), .gate = &hold};
    cudaStream_t other = new_stream(cudaStreamNonBlocking);
    pthread_t thread;

    (void)state;
    for (int i = 0; i < QUEUE; i++) launch_at(more.stream, &hold, false);
    assert_int_equal(pthread_create(&thread, NULL, launch_one_more, &more), 0);
    nap_ms(SHORT_MS);
    assert_int_equal(atomic_load(&more.back), 0);
    OK(use(other, "another stream's", NULL, 0, false));
    OK(cudaStreamSynchronize(other));
    open_gate(&hold);
    assert_int_equal(pthread_join(thread, NULL), 0);
    OK(cudaStreamSynchronize(more.stream));
    assert_int_equal(atomic_load(&hold.passed), QUEUE + 1);
    OK(cudaStreamDestroy(more.stream));
    OK(cudaStreamDestroy(other));
}

/* ---- exclusive kernels, as those of communicators are ---- */

static void exclusive_kernels_run_in_the_order_of_their_launch(void **state)
{
    cudaStream_t one = new_stream(cudaStreamNonBlocking), other = new_stream(cudaStreamNonBlocking);
    cudaStream_t source = new_stream(cudaStreamNonBlocking);
    cudaEvent_t event = new_event();
    gate hold = {0}, first = {.open = 1}, second = {.open = 1}, plain = {.open = 1};

    (void)state;
    launch_at(source, &hold, false);
    OK(cudaEventRecord(event, source));
    OK(cudaStreamWaitEvent(one, event, 0));
    launch_at(one, &first, true);
    launch_at(other, &second, true); /* waits, though nothing on its stream holds it up */
    nap_ms(SHORT_MS);
    assert_int_equal(cudaStreamQuery(other), cudaErrorNotReady);
    launch_at(NULL, &plain, false);
    OK(cudaStreamSynchronize(NULL)); /* what is not exclusive does not wait */
    held_until_open(other, &hold);
    assert_int_equal(atomic_load(&first.passed), 1);
    OK(cudaStreamSynchronize(one));
    OK(cudaEventDestroy(event));
    OK(cudaStreamDestroy(one));
    OK(cudaStreamDestroy(other));
    OK(cudaStreamDestroy(source));
}

static void devices_have_an_order_each(void **state)
{
    gate first = {0}, second = {.open = 1};

    (void)state;
    launch_at(NULL, &first, true);
    OK(cudaSetDevice(1));
    launch_at(NULL, &second, true);
    OK(cudaDeviceSynchronize());
    OK(cudaSetDevice(0));
    open_gate(&first);
    OK(cudaDeviceSynchronize());
}

/* ---- functions of the host ---- */

static void note_call(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
}

static void CUDART_CB note_callback(cudaStream_t stream, cudaError_t error, void *arg)
{
    (void)stream;
    atomic_fetch_add((atomic_int *)arg, error == cudaSuccess ? 10 : 1000);
}

static void host_functions_are_called_in_order(void **state)
{
    cudaStream_t stream = new_stream(cudaStreamNonBlocking);
    atomic_int calls = 0;
    gate first = {0};

    (void)state;
    launch_at(stream, &first, false);
    OK(cudaLaunchHostFunc(stream, note_call, &calls));
    OK(cudaStreamAddCallback(stream, note_callback, &calls, 0));
    nap_ms(SHORT_MS);
    assert_int_equal(atomic_load(&calls), 0);
    held_until_open(stream, &first);
    assert_int_equal(atomic_load(&calls), 11);
    assert_int_equal(cudaLaunchHostFunc(stream, NULL, NULL), cudaErrorInvalidValue);
    OK(cudaStreamDestroy(stream));
}

static void query_default_stream(void *arg)
{
    atomic_store((atomic_int *)arg, cudaStreamQuery(NULL));
}

static void host_functions_must_not_call_cuda(void **state)
{
    cudaStream_t stream = new_stream(cudaStreamNonBlocking);
    atomic_int said = 0;

    (void)state;
    OK(cudaLaunchHostFunc(stream, query_default_stream, &said));
    OK(cudaStreamSynchronize(stream));
    assert_int_equal(atomic_load(&said), cudaErrorNotPermitted);
    OK(cudaStreamDestroy(stream));
}

/* ---- handles ---- */

static void a_stream_says_what_it_is(void **state)
{
    int least, greatest, priority, device;
    unsigned long long first_id, second_id;
    cudaStream_t one, other;
    unsigned flags;

    (void)state;
    OK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    assert_true(greatest < least);
    OK(cudaSetDevice(1));
    OK(cudaStreamCreateWithPriority(&one, cudaStreamNonBlocking, greatest));
    OK(cudaStreamCreate(&other));
    OK(cudaSetDevice(0));
    OK(cudaStreamGetPriority(one, &priority));
    assert_int_equal(priority, greatest);
    OK(cudaStreamGetFlags(one, &flags));
    assert_int_equal(flags, cudaStreamNonBlocking);
    OK(cudaStreamGetId(one, &first_id));
    OK(cudaStreamGetId(other, &second_id));
    assert_int_not_equal(first_id, second_id);
#if CUDART_VERSION >= 12080
    OK(cudaStreamGetDevice(one, &device));
    assert_int_equal(device, 1);
#endif
    device = emu_stream_device(other);
    assert_int_equal(device, 1);
    assert_int_equal(cudaStreamCreateWithFlags(&one, 64), cudaErrorInvalidValue);
    OK(cudaStreamDestroy(one));
    OK(cudaStreamDestroy(other));
}

static void what_is_destroyed_is_known_as_such(void **state)
{
    cudaStream_t stream = new_stream(cudaStreamNonBlocking);
    cudaEvent_t event = new_event();
    gate first = {0};
    int something;

    (void)state;
    launch_at(stream, &first, false);
    OK(cudaStreamDestroy(stream)); /* what is queued still runs */
    MISUSE(cudaStreamSynchronize(stream), "stream 0x", "after cudaStreamDestroy");
    open_gate(&first);
    OK(cudaDeviceSynchronize());
    assert_int_equal(atomic_load(&first.passed), 1);
    OK(cudaEventDestroy(event));
    MISUSE(cudaEventRecord(event, NULL), "event 0x", "after cudaEventDestroy");
    MISUSE(cudaEventDestroy(event), "after cudaEventDestroy");
    MISUSE(cudaStreamSynchronize((cudaStream_t)&something), "given as a stream and is none");
    MISUSE(cudaEventQuery((cudaEvent_t)&something), "given as an event and is none");
    assert_int_equal(cudaStreamDestroy(NULL), cudaErrorInvalidResourceHandle);
}

/* More streams and events than there are places at one time. */
static void many_come_and_go(void **state)
{
    gate open = {.open = 1};

    (void)state;
    for (int i = 0; i < 600; i++) {
        cudaStream_t stream = new_stream(i % 2 ? cudaStreamNonBlocking : cudaStreamDefault);
        cudaEvent_t event = new_event();
        if (i % 8 == 0) launch_at(stream, &open, false);
        OK(cudaEventRecord(event, stream));
        OK(cudaStreamWaitEvent(NULL, event, 0));
        OK(cudaEventDestroy(event));
        OK(cudaStreamDestroy(stream));
    }
    OK(cudaDeviceSynchronize());
    assert_int_equal(atomic_load(&open.passed), 75);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_goes_there_and_back),
        cmocka_unit_test(work_on_a_stream_keeps_its_order),
        cmocka_unit_test(streams_do_not_wait_for_each_other),
        cmocka_unit_test(the_default_stream_waits_for_blocking_ones),
        cmocka_unit_test(blocking_streams_wait_for_the_default_one),
        cmocka_unit_test(nonblocking_streams_and_the_default_one_are_strangers),
        cmocka_unit_test(the_default_stream_waits_for_a_destroyed_one),
        cmocka_unit_test(an_event_of_the_default_stream_waits_too),
        cmocka_unit_test(devices_do_not_wait_for_each_other),
        cmocka_unit_test(each_thread_has_a_stream_of_its_own),
        cmocka_unit_test(a_stream_waits_for_an_event),
        cmocka_unit_test(a_wait_for_an_unrecorded_event_holds_nothing_up),
        cmocka_unit_test(a_later_record_is_not_waited_for),
        cmocka_unit_test(a_destroyed_event_is_still_waited_for),
        cmocka_unit_test(events_tell_the_time_between_them),
        cmocka_unit_test(an_event_belongs_to_its_device),
        cmocka_unit_test(a_full_queue_holds_up_who_launches),
        cmocka_unit_test(exclusive_kernels_run_in_the_order_of_their_launch),
        cmocka_unit_test(devices_have_an_order_each),
        cmocka_unit_test(host_functions_are_called_in_order),
        cmocka_unit_test(host_functions_must_not_call_cuda),
        cmocka_unit_test(a_stream_says_what_it_is),
        cmocka_unit_test(what_is_destroyed_is_known_as_such),
        cmocka_unit_test(many_come_and_go),
    };

    setenv("CUDA_EMULATION_MISUSE", "report", 1);
    setenv("CUDA_EMULATION_DEVICES", "2", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
