/* test_module_streams.c - what comes before a work on its caller's stream, and after it on another; streams
 * that are refused; and that the hot path makes no blocking call. */
#include "module_ranks.h"

enum { N = SUMMED, SHORT_MS = 30 /* in which what nothing holds up would happen */ };

static void pass_gate(void *gate)
{
    while (!atomic_load((atomic_int *)gate)) job_sleep_ms(1);
}

/* in = rank + 1 for each element, written on the stream once the gate is open. */
static float *write_behind(const job_rank *me, cudaStream_t stream, atomic_int *gate, float *host)
{
    float *device = to_device(NULL, sizeof *host * N);
    for (int i = 0; i < N; i++) host[i] = (float)me->rank + 1;
    CUDA(cudaLaunchHostFunc(stream, pass_gate, gate));
    CUDA(cudaMemcpyAsync(device, host, sizeof *host * N, cudaMemcpyHostToDevice, stream));
    return device;
}

static void check_sum(const job_rank *me, const float *device, cudaStream_t stream)
{
    float host[N];
    to_host(host, device, sizeof host, stream);
    for (int i = 0; i < N; i++) CHECK(host[i] == (float)(me->size * (me->size + 1)) / 2);
}

/* The work waits for what was on the stream; arg: that is the legacy default stream. */
static void comes_after(job_rank *me)
{
    weft_backend *b = module_load(me);
    cudaStream_t own = new_stream(me), stream = me->arg ? NULL : own;
    atomic_int gate = 0;
    float host[N], *device;
    owner o;
    task t;
    join_all(me, b, &o, "after");
    device = write_behind(me, stream, &gate, host);
    t = sum_task(me, &o, device);
    CHECK_OK(b->mark(b, stream, &t.work.marker));
    CHECK(t.work.marker);
    start(b, &t);
    CHECK(atomic_load(&t.issued));
    poll_for(b, SHORT_MS);
    CHECK(!atomic_load(&t.over));
    atomic_store(&gate, 1);
    poll_until_over(b, &t);
    CHECK_OK(t.status);
    check_sum(me, device, own);
    b->drop(o.comm);
    b->close(b);
}

static void comes_after_nothing(job_rank *me)
{
    weft_backend *b = module_load(me);
    cudaStream_t stream = new_stream(me);
    float *device = to_device(NULL, sizeof *device * N), host[N];
    atomic_int gate = 0;
    owner o;
    task t;
    join_all(me, b, &o, "nothing before");
    write_behind(me, stream, &gate, host);
    t = sum_task(me, &o, device);
    CHECK_OK(b->mark(b, WEFT_NO_STREAM, &t.work.marker));
    CHECK(!t.work.marker);
    run_task(b, &t); /* the stream is held up all the while */
    atomic_store(&gate, 1);
    CHECK(stream_ends(stream, JOB_WAIT_MS));
    b->drop(o.comm);
    b->close(b);
}

static void comes_before(job_rank *me)
{
    weft_backend *b = module_load(me);
    cudaStream_t stream = new_stream(me), later = new_stream(me);
    atomic_int gate = 0;
    float host[N], *device;
    owner o;
    task t;
    join_all(me, b, &o, "before");
    device = write_behind(me, stream, &gate, host);
    t = sum_task(me, &o, device);
    CHECK_OK(b->mark(b, stream, &t.work.marker));
    start(b, &t);
    CHECK_OK(b->order(b, &t.work, later));
    CHECK(!stream_ends(later, SHORT_MS));
    atomic_store(&gate, 1);
    check_sum(me, device, later); /* nobody has polled: the device keeps the order by itself */
    poll_until_over(b, &t);
    CHECK_OK(b->order(b, &t.work, later)); /* it is over: nothing to do */
    CHECK(stream_ends(later, JOB_WAIT_MS));
    b->drop(o.comm);
    b->close(b);
}

static void order_and_poll(job_rank *me, int thread, void *arg)
{
    weft_backend *b = arg;
    static _Thread_local task dummy;
    (void)thread;
    dummy = new_task(me, NULL, WEFT_BACKEND_BARRIER);
    CUDA(cudaSetDevice(me->rank));
    for (int i = 0; i < 200; i++) {
        void *marker;
        CHECK_OK(b->mark(b, NULL, &marker));
        b->unmark(b, marker);
        CHECK_OK(b->order(b, &dummy.work, NULL));
    }
}

/* Marks from many threads at once, more than are made ahead. */
static void many_marks(job_rank *me)
{
    enum { MARKS = 1000 };
    weft_backend *b = module_load(me);
    void *markers[MARKS];
    for (int i = 0; i < MARKS; i++) CHECK_OK(b->mark(b, NULL, &markers[i]));
    for (int i = 0; i < MARKS; i++) b->unmark(b, markers[i]);
    job_threads(me, 4, order_and_poll, b);
    b->close(b);
}

/* Events of the device's own context cannot be recorded there, and who made the stream is told why. */
static void of_another_context(job_rank *me)
{
    weft_backend *b = module_load(me);
    cudaStream_t stream = new_stream(me);
    void *marker = NULL;
    emu_stream_move(stream, EMU_CONTEXT_GREEN);
    CHECK_STATUS(WEFT_ERR_ARGUMENT, b->mark(b, stream, &marker));
    CHECK_TEXT(last_failure, "it belongs to a green context, expected the device's own (primary) context");
    emu_stream_move(stream, EMU_CONTEXT_OF_DRIVER);
    CHECK_STATUS(WEFT_ERR_ARGUMENT, b->mark(b, stream, &marker));
    CHECK_TEXT(
        last_failure,
        "it belongs to a context that was made by the driver, expected the device's own (primary) context");
    emu_stream_move(stream, EMU_CONTEXT_PRIMARY);
    CHECK_OK(b->mark(b, stream, &marker));
    b->unmark(b, marker);
    b->close(b);
}

static void refused(job_rank *me)
{
    weft_backend *b = module_load(me);
    cudaStream_t stream = new_stream(me), elsewhere;
    task t = new_task(me, NULL, WEFT_BACKEND_BARRIER);
    cudaGraph_t graph;
    void *marker = &t;
    CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CHECK_OK(b->mark(b, stream, &marker)); /* it is told apart, and nothing is recorded */
    CHECK(b->captures(b, marker));
    b->unmark(b, marker);
    CHECK_STATUS(WEFT_ERR_UNSUPPORTED, b->order(b, &t.work, stream));
    CUDA(cudaStreamEndCapture(stream, &graph)); /* not spoilt */
    CUDA(cudaGraphDestroy(graph));
    CUDA(cudaSetDevice(me->rank + 1));
    CUDA(cudaStreamCreateWithFlags(&elsewhere, cudaStreamNonBlocking));
    CUDA(cudaSetDevice(me->rank));
    CHECK_STATUS(WEFT_ERR_ARGUMENT, b->mark(b, elsewhere, &marker));
    CHECK_TEXT(last_failure, "expected one of device 0");
    CUDA(cudaStreamBeginCapture(elsewhere, cudaStreamCaptureModeGlobal));
    CHECK_STATUS(WEFT_ERR_ARGUMENT, b->mark(b, elsewhere, &marker)); /* before anything is recorded there */
    CHECK_TEXT(last_failure, "expected one of device 0");
    CUDA(cudaStreamEndCapture(elsewhere, &graph));
    CUDA(cudaGraphDestroy(graph));
    CHECK_INT(cudaPeekAtLastError(), cudaSuccess);
    CHECK_STATUS(WEFT_ERR_ARGUMENT, b->order(b, &t.work, WEFT_NO_STREAM));
    CHECK_OK(b->mark(b, stream, &marker));
    CHECK(!b->captures(b, marker));
    b->unmark(b, marker);
    b->close(b);
}

static bool owns(weft_backend *b, const void *pointer)
{
    bool owned = false;
    CHECK_OK(b->owns(b, pointer, &owned));
    return owned;
}

static void ownership(job_rank *me)
{
    weft_backend *b = module_load(me);
    void *device = to_device(NULL, 4096), *pinned, *managed, *elsewhere;
    bool owned = true;
    int here;
    CUDA(cudaMallocHost(&pinned, 4096));
    CUDA(cudaSetDevice(me->rank + 1));
    elsewhere = to_device(NULL, 4096);
    CUDA(cudaMallocManaged(&managed, 4096, cudaMemAttachGlobal)); /* of all devices */
    CUDA(cudaSetDevice(me->rank));
    CHECK_STATUS(WEFT_ERR_ARGUMENT, b->owns(b, elsewhere, &owned));
    CHECK_TEXT(last_failure, "is memory of device 1, expected memory of device 0");
    CHECK(owns(b, device) && owns(b, (char *)device + 4095) && owns(b, managed));
    CHECK(!owns(b, pinned) && !owns(b, &here) && !owns(b, NULL));
    CHECK_INT(cudaPeekAtLastError(), cudaSuccess);
    b->close(b);
}

/* What the host can read is none of a device's that has died, and what it cannot read is not to be told. */
static void ownership_unknown(job_rank *me)
{
    static const char constant[4096] = "never written to";
    weft_backend *b = module_load(me);
    char *device = to_device(NULL, 4096);
    void *pinned, *marker;
    bool owned = true;
    CUDA(cudaMallocHost(&pinned, 4096));
    emu_script("cuPointerGetAttributes@1=error:700!");
    for (int i = 0; i < 4096; i += 4095) {
        CHECK_STATUS(WEFT_ERR_SYSTEM, b->owns(b, device + i, &owned));
        CHECK_TEXT(last_failure, "an illegal memory access was encountered");
        CHECK(!owned);
    }
    CHECK(!owns(b, pinned) && !owns(b, &owned) && !owns(b, constant) && !owns(b, constant + 4095));
    CHECK_STATUS(WEFT_ERR_SYSTEM, b->mark(b, NULL, &marker));
    CHECK_TEXT(last_failure, "an illegal memory access was encountered");
    emu_script(NULL);
    b->close(b);
}

/* A program that only has host memory does not pay for a device: not with a context there, and least of all with
 * one on the device that its threads happen to be at. */
static void no_context(job_rank *me)
{
    const weft_backend_place place = {.device = 1, .grace_ns = GRACE_MS * INT64_C(1000000)};
    const char *why = "";
    weft_backend *b = module_open_function()(&test_table, &place, &why);
    (void)me;
    if (!b) job_fail(__FILE__, __LINE__, "%s", why);
    for (int i = 0; i < 1000; i++) CHECK(!owns(b, &place));
    CHECK_INT(emu_calls("cudaPointerGetAttributes"), 0);
    CHECK_INT(emu_calls("context0"), 0);
    CHECK_INT(emu_calls("context1"), 0);
    b->close(b);
}

static void driver_too_old(job_rank *me)
{
    const weft_backend_place place = {.device = me->rank};
    const char *why = "";
    emu_script("cudaGetDriverEntryPointByVersion@1=error:36;cudaGetDriverEntryPoint@1=error:36");
    CHECK(!module_open_function()(&test_table, &place, &why));
    CHECK_TEXT(why, "the CUDA driver has no cuPointerGetAttributes");
    emu_script(NULL);
}

/* After the first ones nothing on the way of a work blocks or makes anything. */
static void hot_path(job_rank *me)
{
    static const char *const makers[] = {"cudaEventCreateWithFlags", "cudaStreamCreateWithPriority",
                                         "cudaStreamCreateWithFlags"};
    weft_backend *b = module_load(me);
    cudaStream_t stream = new_stream(me);
    float *device = to_device(NULL, sizeof *device * N);
    uint64_t blocking = 0, made = 0, marks = 0, waits = 0;
    owner o;
    join_all(me, b, &o, "hot");
    for (int i = 0; i < 100; i++) {
        task t = sum_task(me, &o, device);
        if (i == 10) {
            blocking = emu_blocking_calls();
            for (size_t k = 0; k < sizeof makers / sizeof *makers; k++) made += emu_calls(makers[k]);
            marks = emu_calls("cudaStreamIsCapturing");
            waits = emu_calls("cudaStreamWaitEvent");
        }
        CHECK_OK(b->mark(b, stream, &t.work.marker));
        run_task(b, &t);
    }
    CHECK_INT(emu_blocking_calls(), blocking);
    for (size_t k = 0; k < sizeof makers / sizeof *makers; k++) made -= emu_calls(makers[k]);
    CHECK_INT(made, 0);
    CHECK_INT(emu_calls("cudaStreamIsCapturing") - marks, 90);
    CHECK(emu_calls("cudaStreamWaitEvent") - waits >= 90);
    b->drop(o.comm);
    b->close(b);
}

/* The device is alive all the same, and the kernel may still write: the work is over when it does not any more, and who has its
 * buffer then needs no order. */
static void question_fails(job_rank *me)
{
    weft_backend *b = module_load(me);
    cudaStream_t stream = new_stream(me);
    float host[N] = {0}, *device = to_device(NULL, sizeof host);
    owner o;
    task t;
    join_all(me, b, &o, "asked");
    sum_works(me, b, &o, 2);
    job_meet(me);
    if (me->rank == 0) {
        emu_script("cudaEventQuery@1=error:2");
        t = sum_task(me, &o, device);
        start(b, &t);
        poll_until_over(b, &t);
        CHECK_STATUS(WEFT_ERR_SYSTEM, t.status);
        CHECK_TEXT(t.sentence, "cudaEventQuery");
        CUDA(cudaMemcpyAsync(device, host, sizeof host, cudaMemcpyHostToDevice, stream));
        CUDA(cudaStreamSynchronize(stream));
    }
    job_meet(me);
    b->drop(o.comm);
    b->close(b);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("a work comes after what was on its stream", .ranks = 2, .bare = true, .body = comes_after),
        JOB_TEST("NULL is the legacy stream", .ranks = 2, .bare = true, .body = comes_after, .arg = "legacy"),
        JOB_TEST("WEFT_NO_STREAM: nothing comes first", .ranks = 2, .bare = true,
                 .body = comes_after_nothing),
        JOB_TEST("a stream that is ordered after a work waits for it, on the device", .ranks = 2,
                 .bare = true, .body = comes_before),
        JOB_TEST("marks are never short", .ranks = 1, .bare = true, .body = many_marks),
        JOB_TEST("streams that are captured, or of another device, are refused", .ranks = 1, .bare = true,
                 .body = refused),
        JOB_TEST("streams of another context are refused", .ranks = 1, .bare = true,
                 .body = of_another_context),
        JOB_TEST("it knows its memory", .ranks = 1, .bare = true, .body = ownership),
        JOB_TEST("of a device that has died it tells what the host cannot read", .ranks = 1, .bare = true,
                 .processes = true, .body = ownership_unknown),
        JOB_TEST("host memory makes no context", .ranks = 1, .bare = true, .processes = true,
                 .body = no_context),
        JOB_TEST("a driver that cannot be asked is no driver", .ranks = 1, .bare = true, .processes = true,
                 .body = driver_too_old),
        JOB_TEST("a question for an end that fails", .ranks = 2, .bare = true, .processes = true,
                 .body = question_fails),
        JOB_TEST("the hot path makes no blocking call, and makes nothing", .ranks = 2, .bare = true,
                 .processes = true, .body = hot_path),
    };
    return JOB_MAIN(tests, argc, argv);
}
