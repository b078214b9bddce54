/* test_exit.c - processes that end without weft_finalize while operations on device memory are under way.  CUDA is
 * taken down at exit too, by a handler that it registers when it is first called: here that is in weft_init, so that
 * nothing but the library's own care puts its handler before CUDA's. */
#include "device.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { RANKS = 2, COUNT = 1000, AT_EXIT_MS = 2000, ABORTED = 3 };

static void join_first(job_rank *me)
{
    CHECK_OK(weft_init(NULL, &me->ctx));
    me->world = weft_world(me->ctx);
    CHECK_INT(weft_group_rank(me->world), me->rank);
    device_use(me->rank);
}

static weft_request *begin_sum(job_rank *me, int32_t **sum, const weft_call *call)
{
    int32_t *in = job_buffer(me, COUNT * sizeof *in), image[COUNT];
    weft_request *req = NULL;
    for (int i = 0; i < COUNT; i++) image[i] = i + me->rank;
    job_put(in, image, sizeof image);
    *sum = job_buffer(me, sizeof image);
    CHECK_OK(weft_all_reduce(me->world, in, *sum, COUNT, WEFT_INT32, WEFT_SUM, call, &req));
    return req;
}

static void sum_works(job_rank *me)
{
    int32_t *sum, image[COUNT];
    weft_request *req = begin_sum(me, &sum, NULL);
    WAIT_OK(req);
    weft_release(req);
    job_get(image, sum, sizeof image);
    for (int i = 0; i < COUNT; i++) CHECK_INT(image[i], 2 * i + 1);
}

/* What is begun is finished, before anything of CUDA goes. */
static void exit_with_a_sum(job_rank *me)
{
    int32_t *sum, image[COUNT];
    weft_request *req;
    sum_works(me);
    job_meet(me);
    if (me->rank == 1) {
        begin_sum(me, &sum, NULL);
        job_mark(me, 0);
        exit(0);
    }
    job_await(me, 0, 1);
    job_sleep_ms(200); /* the other one is in its handlers by now */
    req = begin_sum(me, &sum, NULL);
    WAIT_OK(req);
    weft_release(req);
    job_get(image, sum, sizeof image);
    for (int i = 0; i < COUNT; i++) CHECK_INT(image[i], 2 * i + 1);
    job_leave(me);
}

static void exits_with_a_sum(job_rank *me)
{
    join_first(me);
    exit_with_a_sum(me);
}

/* The context that loads the module is not the process' first. */
static void exits_with_two_contexts(job_rank *me)
{
    weft_config config = WEFT_CONFIG_INIT;
    weft_context *host;
    char url[64];
    config.backends = "host";
    CHECK_OK(weft_init(&config, &host));
    config = job_config(me, url, 1);
    CHECK_OK(weft_init(&config, &me->ctx));
    me->world = weft_world(me->ctx);
    device_use(me->rank);
    exit_with_a_sum(me);
    CHECK_OK(weft_finalize(host, job_wait_ms()));
}

/* Registered before the library's handler, so run after it. */
static void look_for_aborts(void)
{
    job_sleep_ms(200); /* for a thread that would do so */
    _exit(device_is_emulated() && device()->emu_calls("ncclCommAbort") ? ABORTED : 0);
}

static void never_return(void *arg)
{
    (void)arg;
    for (;;) pause();
}

/* With a stream that never gets there the handler gives up after 2 s.  It aborts nothing then: CUDA is about to go
 * under that, and whatever runs on the device ends with the process. */
static void exits_while_pending(job_rank *me)
{
    weft_call held = {.stream = WEFT_NO_STREAM};
    int32_t *sum;
    if (me->rank == 1) CHECK_INT(atexit(look_for_aborts), 0);
    join_first(me);
    sum_works(me);
    if (!device_is_emulated()) {
        job_leave(me);
        return;
    }
    if (me->rank == 1) held.stream = device_stream(1); /* buffers are filled by the other one */
    if (me->rank == 1) DEVICE_OK(device()->cudaLaunchHostFunc(held.stream, never_return, NULL));
    weft_request *req = begin_sum(me, &sum, &held);
    if (me->rank == 1) {
        job_mark(me, 0);
        exit(0);
    }
    job_await(me, 0, 1);
    int64_t before = job_now_ns();
    WAIT_STATUS(WEFT_ERR_PEER, req);
    CHECK_PERIOD(before, job_now_ns(), 0, AT_EXIT_MS + job_late_ms());
    weft_release(req);
    job_leave(me);
}

/* ---- what finalize left behind ---- */

static void wait_for_word(void *word)
{
    while (!atomic_load((atomic_int *)word)) job_sleep_ms(1);
}

/* Registered before the library's handler, and before CUDA's, under which an abort must not be. */
static void look_for_an_abort(void)
{
    _exit(device()->emu_calls("ncclCommAbort") == device()->emu_calls("aborted") ? 0 : ABORTED);
}

/* The abort waits for the program's stream, and finalize does not wait for the abort.  When the stream goes on as the
 * process exits, the abort comes to its end first. */
static void exits_with_an_abort(job_rank *me)
{
    static atomic_int word; /* outlives this */
    weft_call held = {0};
    int32_t *sum;
    weft_request *req;
    if (device_is_emulated()) CHECK_INT(atexit(look_for_an_abort), 0);
    join_first(me);
    sum_works(me);
    held.stream = device_stream(1);
    CHECK_OK(weft_group_set_timeout(me->world, job_short_ms()));
    job_meet(me);
    DEVICE_OK(device()->cudaLaunchHostFunc(held.stream, wait_for_word, &word));
    req = begin_sum(me, &sum, &held);
    CHECK(weft_wait(req, job_wait_ms()) != WEFT_OK);
    CHECK(job_info(req).buffers_held);
    weft_release(req);
    CHECK_OK(weft_finalize(me->ctx, job_wait_ms()));
    me->ctx = NULL;
    me->world = NULL;
    atomic_store(&word, 1);
}

static void linger(void)
{
    job_sleep_ms(200);
}

static void stand_still(int ms)
{
    struct sigevent goes_on = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGCONT};
    const struct itimerspec after = {.it_value = {ms / 1000, ms % 1000 * 1000000}};
    timer_t timer;
    CHECK_INT(timer_create(CLOCK_MONOTONIC, &goes_on, &timer), 0);
    CHECK_INT(timer_settime(timer, 0, &after, NULL), 0);
    raise(SIGSTOP);
    CHECK_INT(timer_delete(timer), 0);
}

/* The communicator of a group that is freed ends in the background, when all ranks have let go of it, which one does not before
 * this process is gone. */
static void exits_as_a_communicator_ends(job_rank *me)
{
    weft_group *group;
    int32_t *sum;
    weft_request *req;
    if (me->rank == 1) CHECK_INT(atexit(linger), 0); /* after CUDA and NCCL are gone */
    join_first(me);
    CHECK_OK(weft_new_group(me->world, (const int[]){0, 1}, RANKS, NULL, &group, NULL));
    CHECK_OK(weft_all_reduce(group, job_buffer(me, COUNT * sizeof *sum), job_buffer(me, COUNT * sizeof *sum),
                             COUNT, WEFT_INT32, WEFT_SUM, NULL, &req));
    WAIT_OK(req);
    weft_release(req);
    job_meet(me);
    if (me->rank == 1) {
        CHECK_OK(weft_group_free(group));
        if (device_is_emulated())
            while (!device()->emu_calls("ncclCommFinalize")) job_sleep_ms(1);
        exit(0);
    }
    stand_still(2 * AT_EXIT_MS); /* its goodbye, which is awaited first, is not to come meanwhile */
    job_leave(me);
}

#define EXIT(sentence, function) \
    JOB_TEST(sentence, .ranks = RANKS, .processes = true, .bare = true, .untouched = true, .body = function)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        EXIT("a sum under way", exits_with_a_sum),
        EXIT("a sum under way, of the second context", exits_with_two_contexts),
        EXIT("while pending", exits_while_pending),
        EXIT("an abort left behind", exits_with_an_abort),
        EXIT("as a communicator ends", exits_as_a_communicator_ends),
    };
    return JOB_MAIN(tests, argc, argv);
}
