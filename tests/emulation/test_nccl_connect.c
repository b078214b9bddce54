/* test_nccl_connect.c - the first call that goes a way waits, in the call, for the others' first; later ones do not. */
#include "nccl_ranks.h"

#include <pthread.h>
#include <stdlib.h>

enum { PAUSE_MS = 100, SMALL = 1, LARGE = 1 << 16 }; /* integers */
enum { OUT };                                        /* marks */
enum { COMES = 8 };                                  /* results */

typedef struct place {
    ncclComm_t comm;
    cudaStream_t stream;
    int *device;
    int outs; /* calls that rank 0 has come out of alone */
} place;

static place open_place(job_rank *me)
{
    place p = {.comm = new_comm(me), .stream = new_stream(me)};
    p.device = to_device(NULL, LARGE * sizeof *p.device);
    return p;
}

static void close_place(place *p)
{
    CUDA(cudaStreamSynchronize(p->stream));
    CUDA(cudaFree(p->device));
    CUDA(cudaStreamDestroy(p->stream));
    NCCL(ncclCommDestroy(p->comm));
}

/* An all_reduce of so many, or a message from rank 0 to rank 1. */
static ncclResult_t go(const job_rank *me, const place *p, size_t count, bool message)
{
    if (!message) return ncclAllReduce(p->device, p->device, count, ncclInt32, ncclSum, p->comm, p->stream);
    if (me->rank) return ncclRecv(p->device, count, ncclInt32, 0, p->comm, p->stream);
    return ncclSend(p->device, count, ncclInt32, 1, p->comm, p->stream);
}

/* Rank 0 comes out of its call only when the other one has begun its own. */
static void waits(job_rank *me, const place *p, size_t count, bool message)
{
    job_meet(me);
    if (me->rank) {
        job_sleep_ms(PAUSE_MS);
        job_results(me, 1)[COMES] = 1;
    }
    NCCL(go(me, p, count, message));
    CHECK_INT(job_results(me, 1)[COMES], 1);
    CUDA(cudaStreamSynchronize(p->stream));
    job_meet(me);
    if (me->rank) job_results(me, 1)[COMES] = 0;
    job_meet(me);
}

/* The other one comes only when rank 0 is out of its call. */
static void waits_not(job_rank *me, place *p, size_t count, bool message)
{
    p->outs++;
    if (me->rank) job_await(me, OUT, p->outs);
    NCCL(go(me, p, count, message));
    if (!me->rank) job_mark(me, OUT);
    CUDA(cudaStreamSynchronize(p->stream));
}

static void check_waits(job_rank *me, place *p, size_t count, bool message)
{
    waits(me, p, count, message);
    waits_not(me, p, count, message);
}

static void each_way_once(job_rank *me)
{
    place p = open_place(me);
    check_waits(me, &p, SMALL, false);
    check_waits(me, &p, LARGE, false);
    check_waits(me, &p, SMALL, true);
    NCCL(ncclBroadcast(p.device, p.device, SMALL, ncclInt32, 0, p.comm, p.stream)); /* goes where one went */
    close_place(&p);
}

/* Messages find their way when they first go it, whatever the variable says. */
static void when_it_is_made(job_rank *me)
{
    job_setenv(me, "NCCL_RUNTIME_CONNECT", "0");
    place p = open_place(me);
    waits_not(me, &p, LARGE, false);
    check_waits(me, &p, SMALL, true);
    close_place(&p);
}

static void when_it_is_made_before_2_22(job_rank *me)
{
    job_setenv(me, "CUDA_EMULATION_NCCL_VERSION", "21903");
    place p = open_place(me);
    waits_not(me, &p, LARGE, false);
    close_place(&p);
}

/* Both ranks are this thread's. */
static void in_one_group_call(job_rank *me)
{
    enum { RANKS = 2 };
    ncclComm_t comms[RANKS];
    cudaStream_t streams[RANKS];
    int *devices[RANKS];
    (void)me;
    NCCL(ncclCommInitAll(comms, RANKS, NULL));
    for (int r = 0; r < RANKS; r++) {
        CUDA(cudaSetDevice(r));
        CUDA(cudaStreamCreateWithFlags(&streams[r], cudaStreamNonBlocking));
        devices[r] = to_device(NULL, sizeof *devices[r]);
    }
    NCCL(ncclGroupStart());
    for (int r = 0; r < RANKS; r++)
        NCCL(ncclAllReduce(devices[r], devices[r], 1, ncclInt32, ncclSum, comms[r], streams[r]));
    NCCL(ncclGroupEnd());
    for (int r = 0; r < RANKS; r++) {
        CUDA(cudaStreamSynchronize(streams[r]));
        CUDA(cudaFree(devices[r]));
        CUDA(cudaStreamDestroy(streams[r]));
        NCCL(ncclCommDestroy(comms[r]));
    }
}

/* What does not block waits in the background, and an abort lets it out. */
static void an_abort(job_rank *me)
{
    ncclComm_t comm = new_nonblocking_comm(me);
    cudaStream_t stream = new_stream(me);
    int *device = to_device(NULL, sizeof *device);
    if (!me->rank) {
        NCCL_IS(ncclAllReduce(device, device, 1, ncclInt32, ncclSum, comm, stream), ncclInProgress);
        job_sleep_ms(PAUSE_MS / 2);
        NCCL_IS(async_error(comm), ncclInProgress);
        CUDA(cudaStreamQuery(stream)); /* nothing was launched */
    }
    NCCL(ncclCommAbort(comm));
    job_meet(me);
    CUDA(cudaFree(device));
    CUDA(cudaStreamDestroy(stream));
}

/* Both hang, and it is told why. */
static void different_ways(job_rank *me)
{
    job_setenv(me, "CUDA_EMULATION_MISUSE", "report");
    ncclComm_t comm = new_nonblocking_comm(me);
    cudaStream_t stream = new_stream(me);
    int *device = to_device(NULL, sizeof *device);
    NCCL_IS(me->rank ? ncclBroadcast(device, device, 1, ncclInt32, 0, comm, stream)
                     : ncclAllReduce(device, device, 1, ncclInt32, ncclSum, comm, stream),
            ncclInProgress);
    for (int ms = 0; !emu_misuses() && ms < JOB_WAIT_MS; ms++) job_sleep_ms(1);
    CHECK_TEXT(emu_last_misuse(), me->rank ? "rank 1 connects the ring first, but rank 0 the tree"
                                           : "rank 0 connects the tree first, but rank 1 the ring");
    job_meet(me);
    NCCL_IS(async_error(comm), ncclInProgress);
    CHECK_INT(emu_misuses(), 1);
    NCCL(ncclCommAbort(comm));
    job_meet(me);
    CUDA(cudaFree(device));
    CUDA(cudaStreamDestroy(stream));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("each way once", .ranks = 2, .bare = true, .processes = true, .body = each_way_once),
        JOB_TEST("threads, each way once", .ranks = 2, .bare = true, .threads = true, .body = each_way_once),
        JOB_TEST("when it is made", .ranks = 2, .bare = true, .processes = true, .body = when_it_is_made),
        JOB_TEST("when it is made, before 2.22", .ranks = 2, .bare = true, .processes = true,
                 .body = when_it_is_made_before_2_22),
        JOB_TEST("in one group call", .ranks = 1, .bare = true, .body = in_one_group_call),
        JOB_TEST("an abort", .ranks = 2, .bare = true, .body = an_abort),
        JOB_TEST("different ways", .ranks = 2, .bare = true, .processes = true, .body = different_ways),
    };
    return JOB_MAIN(tests, argc, argv);
}
