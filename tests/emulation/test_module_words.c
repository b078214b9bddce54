/* test_module_words.c - libweft_nccl.so makes streams wait for works that are not issued yet: by words of pinned memory,
 * which are used again and again, and outlive the module where a stream still waits. */
#include "module_ranks.h"

enum { HELD_MS = 30, WORDS = 256 /* that the module has */ };

static bool goes_on(cudaStream_t stream, int ms)
{
    cudaError_t error;
    for (; (error = cudaStreamQuery(stream)) == cudaErrorNotReady && ms > 0; ms--) job_sleep_ms(1);
    return error == cudaSuccess;
}

static cudaStream_t nonblocking(void)
{
    cudaStream_t stream;
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

static void close_all(weft_backend *b, const owner *o)
{
    b->drop(o->comm);
    b->close(b);
}

/* On the device alone: nobody polls until both streams have gone on. */
static void waits_for_a_work(job_rank *me)
{
    weft_backend *b = module_load(me);
    cudaStream_t streams[] = {nonblocking(), nonblocking()};
    float *device = to_device(NULL, SUMMED * sizeof(float));
    owner o;
    task t;
    join_all(me, b, &o, "held");
    sum_works(me, b, &o, 2);
    t = sum_task(me, &o, device);
    for (int i = 0; i < 2; i++) CHECK_OK(b->hold(b, &t.work, &t.work, streams[i]));
    for (int i = 0; i < 2; i++) CHECK(!goes_on(streams[i], HELD_MS));
    CHECK_INT(emu_calls("cuStreamWaitValue32"), 2);
    start(b, &t);
    for (int i = 0; i < 2; i++) CHECK(goes_on(streams[i], JOB_WAIT_MS));
    CHECK_INT(emu_calls("cuStreamWriteValue32"), 1);
    poll_until_over(b, &t);
    b->let_go(b, &t.work);
    CHECK_OK(b->hold(b, &t.work, &t.work, streams[0])); /* it is over: nothing to do */
    CHECK(goes_on(streams[0], JOB_WAIT_MS));
    close_all(b, &o);
}

/* What NCCL has to connect for waits perhaps until the device has nothing else to do. */
static void not_before_it_is_known(job_rank *me)
{
    weft_backend *b = module_load(me);
    cudaStream_t stream = nonblocking();
    float *device = to_device(NULL, SUMMED * sizeof(float));
    owner o;
    task t;
    join_all(me, b, &o, "unknown");
    t = sum_task(me, &o, device);
    CHECK_STATUS(WEFT_ERR_UNSUPPORTED, b->hold(b, &t.work, &t.work, stream));
    CHECK(goes_on(stream, JOB_WAIT_MS));
    run_task(b, &t);
    close_all(b, &o);
}

static void a_driver_without(job_rank *me)
{
    weft_backend *b;
    cudaStream_t stream;
    float *device;
    owner o;
    task t;
    emu_script(me->arg);
    b = module_load(me);
    stream = nonblocking();
    device = to_device(NULL, SUMMED * sizeof(float));
    join_all(me, b, &o, "old");
    sum_works(me, b, &o, 2);
    t = sum_task(me, &o, device);
    CHECK_STATUS(WEFT_ERR_UNSUPPORTED, b->hold(b, &t.work, &t.work, stream));
    b->let_go(b, &t.work);
    CHECK(goes_on(stream, JOB_WAIT_MS));
    t = sum_task(me, &o, device);
    run_task(b, &t);
    close_all(b, &o);
}

/* The stream goes on by the host's word, when the request settles. */
static void a_write_that_fails(job_rank *me)
{
    weft_backend *b = module_load(me);
    cudaStream_t stream = nonblocking();
    float *device = to_device(NULL, SUMMED * sizeof(float));
    owner o;
    task t;
    join_all(me, b, &o, "unwritten");
    sum_works(me, b, &o, 2);
    t = sum_task(me, &o, device);
    emu_script("cuStreamWriteValue32@1=error:1");
    CHECK_OK(b->hold(b, &t.work, &t.work, stream));
    run_task(b, &t);
    CHECK(!goes_on(stream, HELD_MS));
    b->let_go(b, &t.work);
    CHECK(goes_on(stream, JOB_WAIT_MS));
    close_all(b, &o);
}

/* More works than there are words, one after the other. */
static void used_again(job_rank *me)
{
    weft_backend *b = module_load(me);
    cudaStream_t stream = nonblocking();
    float *device = to_device(NULL, SUMMED * sizeof(float));
    owner o;
    join_all(me, b, &o, "again");
    sum_works(me, b, &o, 2);
    for (int i = 0; i < 2 * WORDS + 10; i++) {
        task t = sum_task(me, &o, device);
        CHECK_OK(b->hold(b, &t.work, &t.work, stream));
        if (i % 100 == 0) CHECK(!goes_on(stream, 2));
        run_task(b, &t);
        b->let_go(b, &t.work);
    }
    CHECK(goes_on(stream, JOB_WAIT_MS));
    close_all(b, &o);
}

/* So many are there, and no more: their works never run. */
static void take_all_words(job_rank *me, weft_backend *b, owner *o, cudaStream_t stream, float *device,
                           int words)
{
    static task held[WORDS + 1];
    for (int i = 0; i <= words; i++) held[i] = sum_task(me, o, device);
    for (int i = 0; i < words; i++) CHECK_OK(b->hold(b, &held[i].work, &held[i].work, stream));
    CHECK_STATUS(WEFT_ERR_UNSUPPORTED, b->hold(b, &held[words].work, &held[words].work, stream));
    for (int i = 0; i <= words; i++) {
        CHECK(!goes_on(stream, i % 64 ? 0 : 2) || i == words);
        b->let_go(b, &held[i].work);
    }
    CHECK(goes_on(stream, JOB_WAIT_MS));
}

static void at_one_time(job_rank *me)
{
    weft_backend *b = module_load(me);
    cudaStream_t stream = nonblocking();
    float *device = to_device(NULL, SUMMED * sizeof(float));
    owner o;
    join_all(me, b, &o, "many");
    sum_works(me, b, &o, 1);
    take_all_words(me, b, &o, stream, device, WORDS);
    close_all(b, &o);
}

/* What is aborted on the device may still write its word, which no other work gets. */
static void after_an_abort(job_rank *me)
{
    weft_backend *b = module_load(me);
    cudaStream_t stream = nonblocking();
    float *device = to_device(NULL, SUMMED * sizeof(float));
    owner o, other;
    task t;
    join_all(me, b, &o, "aborted");
    sum_works(me, b, &o, 2);
    if (!me->rank) {
        t = sum_task(me, &o, device);
        CHECK_OK(b->hold(b, &t.work, &t.work, stream));
        start(b, &t);
        await_word(&t.issued);
        CHECK(!goes_on(stream, HELD_MS));
        b->doom(o.comm, "it is to end");
        poll_until_over(b, &t);
        CHECK_STATUS(WEFT_ERR_BROKEN, t.status);
        b->let_go(b, &t.work);
        CHECK(goes_on(stream, JOB_WAIT_MS));
    }
    job_meet(me);
    if (me->rank) b->doom(o.comm, "it is to end");
    join_all(me, b, &other, "another");
    sum_works(me, b, &other, 2);
    if (!me->rank) take_all_words(me, b, &other, stream, device, WORDS - 1);
    CHECK(goes_on(stream, JOB_WAIT_MS));
    b->drop(o.comm);
    close_all(b, &other);
}

static void wait_for_opening(void *arg)
{
    while (!atomic_load((atomic_int *)arg)) job_sleep_ms(1);
}

/* A stream comes to its wait when the module is long gone. */
static void outlives_the_module(job_rank *me)
{
    static atomic_int opened[2];
    atomic_int *open = &opened[me->rank];
    weft_backend *b = module_load(me);
    cudaStream_t stream = nonblocking();
    float *device = to_device(NULL, SUMMED * sizeof(float));
    owner o;
    task t;
    join_all(me, b, &o, "closed");
    sum_works(me, b, &o, 2);
    atomic_store(open, 0);
    job_meet(me);
    CUDA(cudaLaunchHostFunc(stream, wait_for_opening, open));
    t = sum_task(me, &o, device);
    CHECK_OK(b->hold(b, &t.work, &t.work, stream));
    run_task(b, &t);
    b->let_go(b, &t.work);
    close_all(b, &o);
    CHECK(!goes_on(stream, HELD_MS));
    atomic_store(open, 1);
    CHECK(goes_on(stream, JOB_WAIT_MS));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("streams wait for a work", .ranks = 2, .bare = true, .processes = true,
                 .body = waits_for_a_work),
        JOB_TEST("not before NCCL has gone that way", .ranks = 2, .bare = true,
                 .body = not_before_it_is_known),
        JOB_TEST("a driver that cannot wait", .ranks = 2, .bare = true, .processes = true,
                 .body = a_driver_without, .arg = "without_cuStreamWaitValue32@*=value:1"),
        JOB_TEST("a driver that cannot write", .ranks = 2, .bare = true, .processes = true,
                 .body = a_driver_without, .arg = "without_cuStreamWriteValue32@*=value:1"),
        JOB_TEST("a wait that fails", .ranks = 2, .bare = true, .processes = true, .body = a_driver_without,
                 .arg = "cuStreamWaitValue32@1=error:801"),
        JOB_TEST("a write that fails", .ranks = 2, .bare = true, .processes = true,
                 .body = a_write_that_fails),
        JOB_TEST("words are used again", .ranks = 2, .bare = true, .body = used_again),
        JOB_TEST("no more than there are", .ranks = 1, .bare = true, .body = at_one_time),
        JOB_TEST("after an abort", .ranks = 2, .bare = true, .processes = true, .body = after_an_abort),
        JOB_TEST("they outlive the module", .ranks = 2, .bare = true, .body = outlives_the_module),
    };
    return JOB_MAIN(tests, argc, argv);
}
