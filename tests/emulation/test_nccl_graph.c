/* test_nccl_graph.c - operations of communicators in graphs: launched many times, between others, and what a
 * communicator waits for. */
#include "nccl_ranks.h"

#include <pthread.h>
#include <stdatomic.h>

/* All stand for one order of the ranks' kernels; each rank's launches are its own calls. */
typedef struct work {
    int *sum, *all, *root, *out, *in; /* one word each, all: one a rank */
} work;

static cudaGraphExec_t capture(job_rank *me, ncclComm_t comm, cudaStream_t stream, const work *w,
                               size_t count)
{
    int next = (me->rank + 1) % me->size, before = (me->rank + me->size - 1) % me->size;
    cudaGraph_t graph;
    cudaGraphExec_t exec;

    CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    NCCL(ncclAllReduce(w->out, w->sum, count, ncclInt32, ncclSum, comm, stream));
    NCCL(ncclAllGather(w->out, w->all, 1, ncclInt32, comm, stream));
    NCCL(ncclBroadcast(w->sum, w->root, 1, ncclInt32, 1, comm, stream));
    NCCL(ncclGroupStart());
    NCCL(ncclSend(w->out, 1, ncclInt32, next, comm, stream));
    NCCL(ncclRecv(w->in, 1, ncclInt32, before, comm, stream));
    NCCL(ncclGroupEnd());
    CUDA(cudaStreamEndCapture(stream, &graph));
    CUDA(cudaGraphInstantiate(&exec, graph, 0));
    CUDA(cudaGraphDestroy(graph));
    return exec;
}

static work new_work(const job_rank *me)
{
    size_t word = sizeof(int);
    return (work){to_device(NULL, 2 * word), to_device(NULL, word * (size_t)me->size), to_device(NULL, word),
                  to_device(NULL, 2 * word), to_device(NULL, word)};
}

static void free_work(const work *w)
{
    CUDA(cudaFree(w->sum));
    CUDA(cudaFree(w->all));
    CUDA(cudaFree(w->root));
    CUDA(cudaFree(w->out));
    CUDA(cudaFree(w->in));
}

static int value(int rank, int round)
{
    return 1000 * round + rank;
}

static void check_round(const job_rank *me, const work *w, int round, cudaStream_t stream)
{
    int before = (me->rank + me->size - 1) % me->size, sum = 0, all[JOB_RANKS_MAX], one;

    to_host(all, w->all, sizeof *all * (size_t)me->size, stream);
    for (int r = 0; r < me->size; r++) {
        CHECK_INT(all[r], value(r, round));
        sum += all[r];
    }
    to_host(&one, w->sum, sizeof one, stream);
    CHECK_INT(one, sum);
    to_host(&one, w->root, sizeof one, stream);
    CHECK_INT(one, sum);
    to_host(&one, w->in, sizeof one, stream);
    CHECK_INT(one, value(before, round));
}

/* Three collectives and two messages, a thousand times, beside collectives that are in no graph. */
static void a_graph_is_launched_many_times(job_rank *me)
{
    enum { ROUNDS = 1000 };
    ncclComm_t comm = new_comm(me);
    cudaStream_t stream = new_stream(me);
    work w = new_work(me);
    cudaGraphExec_t exec = capture(me, comm, stream, &w, 1);
    int *pinned, beside = 0;

    CUDA(cudaMallocHost((void **)&pinned, sizeof *pinned));
    for (int round = 1; round <= ROUNDS; round++) {
        *pinned = value(me->rank, round);
        CUDA(cudaMemcpyAsync(w.out, pinned, sizeof *pinned, cudaMemcpyHostToDevice, stream));
        if (round % 10 == 0) NCCL(ncclAllReduce(w.out, w.sum, 1, ncclInt32, ncclMax, comm, stream));
        if (round % 10 == 0) to_host(&beside, w.sum, sizeof beside, stream);
        if (round % 10 == 0) CHECK_INT(beside, value(me->size - 1, round));
        CUDA(cudaGraphLaunch(exec, stream));
        check_round(me, &w, round, stream);
    }
    CUDA(cudaGraphExecDestroy(exec));
    CUDA(cudaStreamSynchronize(stream));
    free_work(&w);
    CUDA(cudaFreeHost(pinned));
    CUDA(cudaStreamDestroy(stream));
    NCCL(ncclCommDestroy(comm));
}

/* As NCCL's, it is finalized once all graphs that hold it are gone. */
static void a_communicator_waits_for_its_graphs(job_rank *me)
{
    ncclComm_t comm = new_nonblocking_comm(me);
    cudaStream_t stream = new_stream(me);
    work w = new_work(me);
    cudaGraph_t graph;

    CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    NCCL_IS(ncclAllReduce(w.out, w.sum, 1, ncclInt32, ncclSum, comm, stream), ncclInProgress);
    NCCL(settled(comm));
    CUDA(cudaStreamEndCapture(stream, &graph));
    NCCL_IS(ncclCommFinalize(comm), ncclInProgress);
    job_sleep_ms(50);
    NCCL_IS(async_error(comm), ncclInProgress);
    CUDA(cudaGraphDestroy(graph));
    NCCL(settled(comm));
    NCCL(ncclCommDestroy(comm));
    free_work(&w);
    CUDA(cudaStreamDestroy(stream));
}

static void *abort_it(void *comm)
{
    NCCL(ncclCommAbort(comm));
    return comm;
}

/* An abort ends what runs, and returns no earlier than a destroy would: NCCL frees nothing that graphs may launch. */
static void an_abort_waits_for_them_too(job_rank *me)
{
    ncclComm_t comm = new_comm(me);
    cudaStream_t stream = new_stream(me);
    work w = new_work(me);
    cudaGraphExec_t exec = capture(me, comm, stream, &w, 1);
    void *aborted = NULL;
    pthread_t thread;

    CHECK_INT(pthread_create(&thread, NULL, abort_it, comm), 0);
    job_sleep_ms(50);
    CHECK(pthread_tryjoin_np(thread, &aborted));
    CUDA(cudaGraphExecDestroy(exec));
    CHECK_INT(pthread_join(thread, &aborted), 0);
    free_work(&w);
    CUDA(cudaStreamDestroy(stream));
}

/* Ranks whose graphs differ are told at the first launch, as in calls. */
static void different_graphs(job_rank *me)
{
    job_setenv(me, "CUDA_EMULATION_MISUSE", "report");
    ncclComm_t comm = new_comm(me);
    cudaStream_t stream = new_stream(me);
    work w = new_work(me);
    cudaGraphExec_t exec = capture(me, comm, stream, &w, me->rank ? 2 : 1);
    int64_t *told = &job_results(me, me->rank)[FREE_RESULT];
    const int64_t *other = &job_results(me, 1 - me->rank)[FREE_RESULT];

    CHECK_INT(emu_misuses(), 0); /* a capture tells nobody anything */
    CUDA(cudaGraphLaunch(exec, stream));
    for (int ms = 0; ms < JOB_WAIT_MS && !*told && !__atomic_load_n(other, __ATOMIC_SEQ_CST); ms++) {
        job_sleep_ms(1);
        if (emu_misuses()) __atomic_store_n(told, 1, __ATOMIC_SEQ_CST);
    }
    job_meet(me);
    CHECK(*told || *other);
    if (*told) CHECK_TEXT(emu_last_misuse(), "the ranks call different operations");
    CUDA(cudaGraphExecDestroy(exec)); /* once what runs of it is over */
    NCCL(ncclCommAbort(comm));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("a graph is launched many times", .ranks = 2, .bare = true,
                 .body = a_graph_is_launched_many_times),
        JOB_TEST("launched many times by threads", .ranks = 3, .bare = true, .threads = true,
                 .body = a_graph_is_launched_many_times),
        JOB_TEST("a communicator waits for its graphs", .ranks = 2, .bare = true,
                 .body = a_communicator_waits_for_its_graphs),
        JOB_TEST("an abort waits for them too", .ranks = 2, .bare = true,
                 .body = an_abort_waits_for_them_too),
        JOB_TEST("different graphs", .ranks = 2, .bare = true, .processes = true, .body = different_graphs),
    };

    return JOB_MAIN(tests, argc, argv);
}
