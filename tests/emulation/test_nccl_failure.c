/* test_nccl_failure.c - what hangs, who dies, and how abort and revoke get out of it. */
#include "nccl_ranks.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct call { /* of another thread, that may hang */
    ncclComm_t comm;
    int device;
    cudaStream_t stream;
    int *buffer;
    _Atomic bool over;
    ncclResult_t result;
} call;

static void *call_in_group(void *arg)
{
    call *c = arg;

    cudaSetDevice(c->device);
    ncclGroupStart();
    ncclAllReduce(c->buffer, c->buffer, 1, ncclInt32, ncclSum, c->comm, c->stream);
    c->result = ncclGroupEnd();
    atomic_store(&c->over, true);
    return NULL;
}

static bool ends(call *c, int ms)
{
    while (!atomic_load(&c->over) && ms--) job_sleep_ms(1);
    return atomic_load(&c->over);
}

/* Returns when it hangs. */
static pthread_t start(call *c)
{
    pthread_t thread;

    CHECK_INT(pthread_create(&thread, NULL, call_in_group, c), 0);
    while (!emu_hanging()) job_sleep_ms(1);
    return thread;
}

/* A kernel without its peer's hangs until the abort, and the peer's own until its own. */
static void abort_ends_a_kernel(job_rank *me)
{
    ncclComm_t comm = new_comm(me);
    cudaStream_t stream = new_stream(me);
    int *device = to_device(NULL, sizeof *device);

    if (me->rank == 0) {
        NCCL(ncclAllReduce(device, device, 1, ncclInt32, ncclSum, comm, stream));
        CHECK(!stream_ends(stream, 30));
        NCCL(ncclCommAbort(comm));
        CHECK(stream_ends(stream, JOB_WAIT_MS));
        job_meet(me);
        job_meet(me);
    } else {
        job_meet(me);
        NCCL(ncclAllReduce(device, device, 1, ncclInt32, ncclSum, comm, stream));
        CHECK(!stream_ends(stream, 30));
        NCCL(ncclCommAbort(comm));
        CHECK(stream_ends(stream, JOB_WAIT_MS));
        job_meet(me);
    }
    CUDA(cudaFree(device));
    CUDA(cudaStreamDestroy(stream));
}

/* It ends, but over what is freed: that is told, as the revoke would let it out before. */
static void abort_ends_a_group_end(job_rank *me)
{
    job_setenv(me, "CUDA_EMULATION_MISUSE", "report");
    call c = {.comm = new_comm(me), .device = me->rank, .stream = new_stream(me)};

    c.buffer = to_device(NULL, sizeof *c.buffer);
    emu_script("ncclGroupEnd@1=hang");
    pthread_t thread = start(&c);
    CHECK(!atomic_load(&c.over));
    NCCL(ncclCommAbort(c.comm));
    CHECK(ends(&c, JOB_WAIT_MS));
    NCCL_IS(c.result, ncclInternalError);
    CHECK_INT(emu_misuses(), NCCL_VERSION_CODE >= 22800);
    if (emu_misuses()) CHECK_TEXT(emu_last_misuse(), "is freed under a thread that is inside ncclAllReduce");
    pthread_join(thread, NULL);
    CUDA(cudaStreamQuery(c.stream)); /* nothing was launched */
    emu_script(NULL);
    CUDA(cudaFree(c.buffer));
    CUDA(cudaStreamDestroy(c.stream));
}

/* The abort returns; the thread stays inside. */
static void what_is_stuck_stays(job_rank *me)
{
    job_setenv(me, "CUDA_EMULATION_MISUSE", "report");
    call c = {.comm = new_comm(me), .device = me->rank, .stream = new_stream(me)};

    c.buffer = to_device(NULL, sizeof *c.buffer);
    emu_script("ncclGroupEnd@1=stuck");
    pthread_t thread = start(&c);
    NCCL(ncclCommAbort(c.comm));
    CHECK(!ends(&c, 50));
    emu_release();
    CHECK(ends(&c, JOB_WAIT_MS));
    NCCL_IS(c.result, ncclInternalError);
    pthread_join(thread, NULL);
    emu_script(NULL);
    CUDA(cudaFree(c.buffer));
    CUDA(cudaStreamDestroy(c.stream));
}

static ncclComm_t begin_init(const job_rank *me, ncclUniqueId id)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t comm = NULL;

    config.blocking = 0;
    CUDA(cudaSetDevice(me->rank));
    NCCL_IS(ncclCommInitRankConfig(&comm, me->size, id, me->rank, &config), ncclInProgress);
    return comm;
}

/* One rank hangs in init: the others wait, until they abort. */
static void a_hang_in_init(job_rank *me)
{
    ncclUniqueId id = shared_id(me);
    ncclComm_t comm;

    if (me->rank == me->size - 1) emu_script("ncclCommInitRankConfig@1=hang");
    job_meet(me); /* threads share the script: it is the first call that hangs */
    comm = begin_init(me, id);
    job_sleep_ms(50);
    NCCL_IS(async_error(comm), ncclInProgress);
    job_meet(me);
    NCCL(ncclCommAbort(comm));
    job_meet(me);
    emu_script(NULL);
}

/* The call has returned; the thread that does its work hangs. */
static void a_hang_in_the_background(job_rank *me)
{
    ncclComm_t comm = new_nonblocking_comm(me);
    cudaStream_t stream = new_stream(me);
    int *device = to_device(NULL, sizeof *device);

    emu_script("background@*=hang");
    NCCL_IS(ncclAllReduce(device, device, 1, ncclInt32, ncclSum, comm, stream), ncclInProgress);
    job_sleep_ms(30);
    NCCL_IS(async_error(comm), ncclInProgress);
    NCCL(ncclCommAbort(comm));
    CUDA(cudaStreamSynchronize(stream));
    job_meet(me);
    emu_script(NULL);
    CUDA(cudaFree(device));
    CUDA(cudaStreamDestroy(stream));
}

/* A split that not all join: the parent's abort ends it, and when that is back nothing is written any more. */
static void a_split_that_not_all_join(job_rank *me)
{
    ncclComm_t parent = new_nonblocking_comm(me), part = NULL;

    if (!me->rank) {
        NCCL(ncclCommSplit(parent, 0, 0, &part, NULL));
        job_sleep_ms(30);
        NCCL_IS(async_error(parent), ncclInProgress);
    }
    job_meet(me);
    NCCL(ncclCommAbort(parent));
    CHECK(!part);
}

/* A rank that gives up is told to those that wait for it. */
static void who_gives_up_in_init_is_missed(job_rank *me)
{
    ncclUniqueId id = shared_id(me);
    ncclComm_t comm = NULL;

    if (me->rank != 1) comm = begin_init(me, id); /* rank 1 never comes */
    job_sleep_ms(50);
    if (comm) NCCL_IS(async_error(comm), ncclInProgress);
    job_meet(me);
    if (me->rank == 0) NCCL(ncclCommAbort(comm));
    if (me->rank == 2) {
        NCCL_IS(settled(comm), ncclRemoteError);
        NCCL(ncclCommAbort(comm));
    }
}

static void errors_by_script(job_rank *me)
{
    ncclComm_t comm = new_comm(me);
    cudaStream_t stream = new_stream(me);
    int *device = to_device(NULL, sizeof *device);

    emu_script("ncclAllReduce@2=error:2; async@3=value:6");
    NCCL(ncclAllReduce(device, device, 1, ncclInt32, ncclSum, comm, stream));
    NCCL_IS(ncclAllReduce(device, device, 1, ncclInt32, ncclSum, comm, stream), ncclSystemError);
    NCCL(async_error(comm));
    NCCL(async_error(comm));
    NCCL_IS(async_error(comm), ncclRemoteError);
    NCCL_IS(async_error(comm), ncclRemoteError); /* it stays */
    NCCL_IS(ncclAllReduce(device, device, 1, ncclInt32, ncclSum, comm, stream), ncclRemoteError);
    CUDA(cudaStreamSynchronize(stream));
    job_meet(me);
    NCCL(ncclCommAbort(comm));
    emu_script(NULL);
    CUDA(cudaFree(device));
    CUDA(cudaStreamDestroy(stream));
}

static int *wait_for_the_dead(ncclComm_t comm, cudaStream_t stream)
{
    int *device = to_device(NULL, sizeof *device);

    NCCL(ncclAllReduce(device, device, 1, ncclInt32, ncclSum, comm, stream));
    for (int ms = 0; async_error(comm) == ncclSuccess && ms < JOB_WAIT_MS; ms++) job_sleep_ms(1);
    NCCL_IS(async_error(comm), ncclRemoteError);
    CHECK(strstr(ncclGetLastError(comm), "rank 1"));
    CHECK_INT(cudaStreamQuery(stream), cudaErrorNotReady); /* an error alone ends no kernel */
    return device;
}

/* Rank 1 dies: the rest see it, their kernels hang on until the abort. */
static void a_peer_dies(job_rank *me)
{
    ncclComm_t comm = new_comm(me);
    cudaStream_t stream = new_stream(me);

    job_meet(me);
    if (me->rank == 1) kill(getpid(), SIGKILL);
    int *device = wait_for_the_dead(comm, stream);
    NCCL(ncclCommAbort(comm));
    CHECK(stream_ends(stream, JOB_WAIT_MS));
    CUDA(cudaFree(device));
    CUDA(cudaStreamDestroy(stream));
}

/* Whatever still stands on them ends by that. */
static void abort_both(job_rank *me, ncclComm_t comms[2], cudaStream_t streams[2])
{
    job_meet(me);
    for (int i = 0; i < 2; i++) NCCL(ncclCommAbort(comms[i]));
    for (int i = 0; i < 2; i++) {
        CHECK(stream_ends(streams[i], JOB_WAIT_MS));
        CUDA(cudaStreamDestroy(streams[i]));
    }
}

/* Kernels of a device run one after another as they were launched, if NCCL is told so: in another order on
 * another rank, two communicators hang, whatever their streams. */
static void crossed_communicators_hang(job_rank *me)
{
    ncclComm_t comms[2] = {new_comm(me), new_comm(me)};
    cudaStream_t streams[2] = {new_stream(me), new_stream(me)};
    int *device = to_device(NULL, 2 * sizeof *device);

    for (int i = 0; i < 2; i++) {
        int which = (i + me->rank) % 2;
        NCCL(ncclAllReduce(device + which, device + which, 1, ncclInt32, ncclSum, comms[which],
                           streams[which]));
    }
    CHECK(!stream_ends(streams[0], 50));
    CHECK(!stream_ends(streams[1], 1));
    abort_both(me, comms, streams);
    CUDA(cudaFree(device));
}

static void hold(void *arg)
{
    while (!atomic_load((atomic_int *)arg)) job_sleep_ms(1);
}

/* Launched in one order on both ranks, but on one of them the first is held up for a while. */
static void held_communicators(job_rank *me)
{
    job_setenv(me, "NCCL_LAUNCH_ORDER_IMPLICIT", me->arg ? "1" : "0");
    ncclComm_t comms[2] = {new_comm(me), new_comm(me)};
    cudaStream_t streams[2] = {new_stream(me), new_stream(me)};
    int *device = to_device(NULL, 2 * sizeof *device);
    atomic_int go = 0;
    emu_kernel holds = {.name = "hold", .run = hold, .arg = &go};

    if (!me->rank) CUDA(emu_launch(streams[0], &holds));
    for (int i = 0; i < 2; i++) {
        NCCL(ncclAllReduce(device + i, device + i, 1, ncclInt32, ncclSum, comms[i], streams[i]));
        job_sleep_ms(30); /* it runs, where it is not held up */
    }
    job_meet(me);
    atomic_store(&go, 1);
    if (me->arg) {
        for (int i = 0; i < 2; i++) CHECK(stream_ends(streams[i], JOB_WAIT_MS));
    } else {
        CHECK(!stream_ends(streams[0], 50));
        CHECK(!stream_ends(streams[1], 1));
    }
    abort_both(me, comms, streams);
    CUDA(cudaFree(device));
}

/* Two threads, each with a communicator of its own: which one is first nobody knows. */
static void launches_race(job_rank *me)
{
    job_setenv(me, "NCCL_LAUNCH_ORDER_IMPLICIT", "1");
    if (me->arg) job_setenv(me, "NCCL_LAUNCH_RACE_FATAL", "0");
    call calls[2];
    pthread_t threads[2];

    for (int i = 0; i < 2; i++) {
        calls[i] = (call){.comm = new_comm(me), .device = me->rank, .stream = new_stream(me)};
        calls[i].buffer = to_device(NULL, sizeof *calls[i].buffer);
    }
    emu_script("launching@1=hang"); /* the second one comes and goes meanwhile */
    CHECK_INT(pthread_create(&threads[0], NULL, call_in_group, &calls[0]), 0);
    while (!emu_hanging()) job_sleep_ms(1);
    CHECK_INT(pthread_create(&threads[1], NULL, call_in_group, &calls[1]), 0);
    pthread_join(threads[1], NULL);
    emu_release();
    pthread_join(threads[0], NULL);
    NCCL_IS(calls[0].result, me->arg ? ncclSuccess : ncclInvalidUsage);
    NCCL(calls[1].result);
    emu_script(NULL);
    for (int i = 0; i < 2; i++) {
        CHECK(stream_ends(calls[i].stream, JOB_WAIT_MS));
        NCCL(ncclCommAbort(calls[i].comm));
        CUDA(cudaFree(calls[i].buffer));
        CUDA(cudaStreamDestroy(calls[i].stream));
    }
}

static void *abort_apart(void *arg)
{
    call *c = arg;

    c->result = ncclCommAbort(c->comm);
    atomic_store(&c->over, true);
    return NULL;
}

/* Also for what is no business of the communicator's. */
static void abort_waits_for_the_device(job_rank *me)
{
    cudaStream_t stream = new_stream(me);
    call c = {.comm = new_comm(me)};
    atomic_int open = 0;
    pthread_t thread;

    CUDA(cudaLaunchHostFunc(stream, hold, &open));
    CHECK_INT(pthread_create(&thread, NULL, abort_apart, &c), 0);
    CHECK(!ends(&c, 30));
    atomic_store(&open, 1);
    CHECK_INT(pthread_join(thread, NULL), 0);
    NCCL(c.result);
}

#ifdef NCCL_REVOKE_DEFAULT
/* A blocking part of a nonblocking one: revoke gets the caller out, frees nothing that it is in, and what is left for
 * the abort takes nobody's memory away. */
static void revoke_ends_a_call(job_rank *me)
{
    ncclComm_t parent = new_nonblocking_comm(me), part = NULL;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

    config.blocking = 1;
    NCCL(ncclCommSplit(parent, 0, 0, &part, &config));
    NCCL(settled(parent));
    call c = {.comm = part, .device = me->rank, .stream = new_stream(me)};
    c.buffer = to_device(NULL, sizeof *c.buffer);
    job_meet(me);
    emu_script("ncclGroupEnd@1=hang");
    pthread_t thread = start(&c);
    CHECK(!ends(&c, 30));
    NCCL(ncclCommRevoke(part, NCCL_REVOKE_DEFAULT));
    CHECK(ends(&c, JOB_WAIT_MS));
    NCCL_IS(c.result, ncclInternalError);
    pthread_join(thread, NULL);
    CUDA(cudaStreamQuery(c.stream)); /* nothing was launched */
    NCCL(ncclCommAbort(part));
    NCCL(ncclCommAbort(parent));
    emu_script(NULL);
    CUDA(cudaFree(c.buffer));
    CUDA(cudaStreamDestroy(c.stream));
}
#endif

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("abort ends a kernel", .ranks = 2, .bare = true, .body = abort_ends_a_kernel),
        JOB_TEST("abort ends a group call's end", .ranks = 2, .bare = true, .processes = true,
                 .body = abort_ends_a_group_end),
        JOB_TEST("abort ends the end of a lone rank", .ranks = 1, .bare = true, .processes = true,
                 .body = abort_ends_a_group_end),
        JOB_TEST("abort waits for the device", .ranks = 1, .bare = true, .body = abort_waits_for_the_device),
        JOB_TEST("what is stuck stays", .ranks = 1, .bare = true, .processes = true,
                 .body = what_is_stuck_stays),
        JOB_TEST("a hang in init", .ranks = 3, .bare = true, .body = a_hang_in_init),
        JOB_TEST("a hang in the background", .ranks = 2, .bare = true, .body = a_hang_in_the_background),
        JOB_TEST("a split that not all join", .ranks = 2, .bare = true, .body = a_split_that_not_all_join),
        JOB_TEST("who gives up in init is missed", .ranks = 3, .bare = true,
                 .body = who_gives_up_in_init_is_missed),
        JOB_TEST("errors by script", .ranks = 1, .bare = true, .body = errors_by_script),
        JOB_TEST("crossed communicators hang", .ranks = 2, .bare = true, .body = crossed_communicators_hang),
        JOB_TEST("communicators whose launches nothing orders hang", .ranks = 2, .bare = true,
                 .processes = true, .body = held_communicators),
        JOB_TEST("unless NCCL is told to order them", .ranks = 2, .bare = true, .processes = true,
                 .arg = "told", .body = held_communicators),
        JOB_TEST("threads that launch at once are told", .ranks = 1, .bare = true, .processes = true,
                 .body = launches_race),
        JOB_TEST("unless NCCL is told not to", .ranks = 1, .bare = true, .processes = true, .arg = "told",
                 .body = launches_race),
        JOB_TEST("a peer dies", .ranks = 3, .bare = true, .killed = 1u << 1, .body = a_peer_dies),
#ifdef NCCL_REVOKE_DEFAULT
        JOB_TEST("revoke ends a call that hangs", .ranks = 2, .bare = true, .processes = true,
                 .body = revoke_ends_a_call),
#endif
    };

    return JOB_MAIN(tests, argc, argv);
}
