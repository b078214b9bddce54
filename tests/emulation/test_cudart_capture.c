/* test_cudart_capture.c - streams that capture: who is told so, what is forbidden
 * meanwhile, what spoils it. */
#include "cudart_check.h"

#include <pthread.h>
#include <stdlib.h>

static cudaStream_t stream, second;
static cudaEvent_t event;

static int set_up(void **state)
{
    (void)state;
    return cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) ||
           cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking) || cudaEventCreate(&event);
}

static int tear_down(void **state)
{
    (void)state;
    (void)cudaGetLastError();
    return cudaStreamDestroy(stream) || cudaStreamDestroy(second) || cudaEventDestroy(event);
}

static enum cudaStreamCaptureStatus status_of(cudaStream_t of)
{
    enum cudaStreamCaptureStatus status;

    OK(cudaStreamIsCapturing(of, &status));
    return status;
}

static void begin(enum cudaStreamCaptureMode mode)
{
    OK(cudaStreamBeginCapture(stream, mode));
    assert_int_equal(status_of(stream), cudaStreamCaptureStatusActive);
}

static cudaError_t end(void)
{
    cudaGraph_t graph;
    cudaError_t error = cudaStreamEndCapture(stream, &graph);

    if (error)
        assert_null(graph);
    else
        OK(cudaGraphDestroy(graph));
    assert_int_equal(status_of(stream), cudaStreamCaptureStatusNone);
    return error;
}

static void a_capture_begins_and_ends(void **state)
{
    cudaGraph_t graph;

    (void)state;
    assert_int_equal(status_of(stream), cudaStreamCaptureStatusNone);
    assert_int_equal(cudaStreamEndCapture(stream, &graph), cudaErrorIllegalState);
    assert_int_equal(cudaStreamBeginCapture(NULL, cudaStreamCaptureModeGlobal),
                     cudaErrorStreamCaptureUnsupported);
    begin(cudaStreamCaptureModeGlobal);
    assert_true(emu_stream_capturing(stream));
    assert_false(emu_stream_capturing(second));
    assert_int_equal(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaErrorIllegalState);
    OK(end());
}

/* No graph is made, and nothing is done as if. */
static void what_would_be_captured_is_refused(void **state)
{
    gate first = {.open = 1};
    emu_kernel kernel = {.name = "gate", .run = pass_gate, .arg = &first};

    (void)state;
    begin(cudaStreamCaptureModeRelaxed);
    assert_int_equal(emu_launch(stream, &kernel), cudaErrorNotSupported);
    assert_int_equal(status_of(stream), cudaStreamCaptureStatusInvalidated);
    assert_int_equal(emu_launch(stream, &kernel), cudaErrorStreamCaptureInvalidated);
    assert_int_equal(end(), cudaErrorStreamCaptureInvalidated);
    OK(emu_launch(stream, &kernel));
    OK(cudaStreamSynchronize(stream));
    assert_int_equal(atomic_load(&first.passed), 1);
}

static void waiting_for_it_spoils_it(void **state)
{
    (void)state;
    begin(cudaStreamCaptureModeRelaxed);
    assert_int_equal(cudaStreamSynchronize(stream), cudaErrorStreamCaptureUnsupported);
    assert_int_equal(end(), cudaErrorStreamCaptureInvalidated);
    begin(cudaStreamCaptureModeRelaxed);
    assert_int_equal(cudaStreamQuery(stream), cudaErrorStreamCaptureUnsupported);
    assert_int_equal(end(), cudaErrorStreamCaptureInvalidated);
    begin(cudaStreamCaptureModeRelaxed);
    assert_int_equal(cudaDeviceSynchronize(), cudaErrorStreamCaptureUnsupported);
    assert_int_equal(end(), cudaErrorStreamCaptureInvalidated);
}

/* Two of the calls that a capture forbids; where it does not they spoil nothing. */
static void check_forbidden(bool forbidden)
{
    void *memory = NULL;
    cudaError_t error = cudaMalloc(&memory, 64);

    assert_int_equal(error, forbidden ? cudaErrorStreamCaptureUnsupported : cudaSuccess);
    assert_int_equal(memory == NULL, forbidden);
    if (memory) OK(cudaFree(memory));
}

typedef struct {
    enum cudaStreamCaptureMode mode; /* of the thread */
    bool forbidden;
} other_thread;

static void *call_elsewhere(void *arg)
{
    const other_thread *what = arg;
    enum cudaStreamCaptureMode mode = what->mode;

    OK(cudaThreadExchangeStreamCaptureMode(&mode));
    assert_int_equal(mode, cudaStreamCaptureModeGlobal); /* what every thread begins with */
    check_forbidden(what->forbidden);
    return NULL;
}

static void elsewhere(enum cudaStreamCaptureMode mode, bool forbidden)
{
    other_thread what = {mode, forbidden};
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, call_elsewhere, &what), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void global_forbids_all_threads(void **state)
{
    (void)state;
    begin(cudaStreamCaptureModeGlobal);
    check_forbidden(true);
    assert_int_equal(end(), cudaErrorStreamCaptureInvalidated);
    begin(cudaStreamCaptureModeGlobal);
    elsewhere(cudaStreamCaptureModeGlobal, true);
    assert_int_equal(end(), cudaErrorStreamCaptureInvalidated);
    begin(cudaStreamCaptureModeGlobal);
    elsewhere(cudaStreamCaptureModeThreadLocal, false);
    elsewhere(cudaStreamCaptureModeRelaxed, false); /* as threads of a library are, to do no harm */
    OK(end());
}

static void thread_local_forbids_its_own_thread(void **state)
{
    (void)state;
    begin(cudaStreamCaptureModeThreadLocal);
    elsewhere(cudaStreamCaptureModeGlobal, false);
    check_forbidden(true);
    assert_int_equal(end(), cudaErrorStreamCaptureInvalidated);
}

static void relaxed_forbids_nobody(void **state)
{
    (void)state;
    begin(cudaStreamCaptureModeRelaxed);
    check_forbidden(false);
    elsewhere(cudaStreamCaptureModeGlobal, false);
    OK(end());
}

/* A poll is forbidden too: this is what breaks programs that capture beside a library that polls. */
static void a_query_of_an_event_is_forbidden(void **state)
{
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;

    (void)state;
    OK(cudaEventRecord(event, second));
    begin(cudaStreamCaptureModeGlobal);
    assert_int_equal(cudaEventQuery(event), cudaErrorStreamCaptureUnsupported);
    assert_int_equal(end(), cudaErrorStreamCaptureInvalidated);
    begin(cudaStreamCaptureModeGlobal);
    OK(cudaThreadExchangeStreamCaptureMode(&mode));
    OK(cudaEventQuery(event));
    OK(cudaThreadExchangeStreamCaptureMode(&mode));
    assert_int_equal(mode, cudaStreamCaptureModeRelaxed);
    OK(end());
}

static void a_stream_joins_by_an_event(void **state)
{
    cudaEvent_t back;

    (void)state;
    OK(cudaEventCreate(&back));
    begin(cudaStreamCaptureModeRelaxed);
    OK(cudaEventRecord(event, stream));
    assert_int_equal(cudaEventQuery(event), cudaErrorCapturedEvent);
    OK(cudaStreamWaitEvent(second, event, 0));
    assert_int_equal(status_of(second), cudaStreamCaptureStatusActive);
    OK(cudaEventRecord(back, second));
    OK(cudaStreamWaitEvent(stream, back, 0));
    OK(end());
    assert_int_equal(status_of(second), cudaStreamCaptureStatusNone);
    OK(cudaEventRecord(event, stream)); /* an event like others again */
    OK(cudaEventSynchronize(event));
    OK(cudaEventDestroy(back));
}

static void who_joins_must_come_back(void **state)
{
    cudaGraph_t graph;

    (void)state;
    begin(cudaStreamCaptureModeRelaxed);
    OK(cudaEventRecord(event, stream));
    OK(cudaStreamWaitEvent(second, event, 0));
    assert_int_equal(cudaStreamEndCapture(second, &graph), cudaErrorStreamCaptureUnmatched);
    assert_int_equal(end(), cudaErrorStreamCaptureInvalidated);
    begin(cudaStreamCaptureModeRelaxed);
    OK(cudaEventRecord(event, stream));
    OK(cudaStreamWaitEvent(second, event, 0));
    assert_int_equal(end(), cudaErrorStreamCaptureUnjoined);
}

static void an_event_from_outside_spoils_it(void **state)
{
    (void)state;
    OK(cudaEventRecord(event, second));
    begin(cudaStreamCaptureModeRelaxed);
    assert_int_equal(cudaStreamWaitEvent(stream, event, 0), cudaErrorStreamCaptureIsolation);
    assert_int_equal(end(), cudaErrorStreamCaptureInvalidated);
}

static void the_default_stream_spoils_a_blocking_one(void **state)
{
    enum cudaStreamCaptureStatus status;
    cudaStream_t blocking;
    cudaGraph_t graph;

    (void)state;
    OK(cudaStreamCreate(&blocking));
    OK(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeRelaxed));
    assert_int_equal(cudaStreamIsCapturing(NULL, &status), cudaErrorStreamCaptureImplicit);
    assert_int_equal(status_of(blocking), cudaStreamCaptureStatusActive);
    assert_int_equal(cudaEventRecord(event, NULL), cudaErrorStreamCaptureImplicit);
    assert_int_equal(cudaStreamEndCapture(blocking, &graph), cudaErrorStreamCaptureInvalidated);
    OK(cudaEventRecord(event, NULL));
    OK(cudaStreamDestroy(blocking));
}

static void *end_elsewhere(void *arg)
{
    cudaGraph_t graph;

    (void)arg;
    assert_int_equal(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureWrongThread);
    return NULL;
}

static void another_thread_cannot_end_it(void **state)
{
    pthread_t thread;

    (void)state;
    begin(cudaStreamCaptureModeThreadLocal);
    assert_int_equal(pthread_create(&thread, NULL, end_elsewhere, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(end(), cudaErrorStreamCaptureInvalidated);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_capture_begins_and_ends),
        TEST(what_would_be_captured_is_refused),
        TEST(waiting_for_it_spoils_it),
        TEST(global_forbids_all_threads),
        TEST(thread_local_forbids_its_own_thread),
        TEST(relaxed_forbids_nobody),
        TEST(a_query_of_an_event_is_forbidden),
        TEST(a_stream_joins_by_an_event),
        TEST(who_joins_must_come_back),
        TEST(an_event_from_outside_spoils_it),
        TEST(the_default_stream_spoils_a_blocking_one),
        TEST(another_thread_cannot_end_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
