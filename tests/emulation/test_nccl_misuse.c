/* test_nccl_misuse.c - what NCCL hangs on, crashes on or computes nonsense from is told, with who did it. */
#include "nccl_ranks.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct place { /* a rank on which misuse is told, and the program goes on */
    job_rank *me;
    ncclComm_t comm;
    cudaStream_t stream;
    int *device;
} place;

static place open_place(job_rank *me)
{
    job_setenv(me, "CUDA_EMULATION_MISUSE", "report");
    place p = {me, new_comm(me), new_stream(me), NULL};
    NCCL(ncclMemAlloc((void **)&p.device, 64 * sizeof *p.device));
    return p;
}

static void told(const char *part)
{
    CHECK_TEXT(emu_last_misuse(), part);
}

static void close_place(place *p)
{
    job_meet(p->me); /* all have seen what they had to */
    NCCL(ncclCommAbort(p->comm));
    CHECK(stream_ends(p->stream, JOB_WAIT_MS));
    NCCL(ncclMemFree(p->device));
    CUDA(cudaStreamDestroy(p->stream));
}

static ncclResult_t sum(const place *p, int *at, cudaStream_t stream)
{
    return ncclAllReduce(at, at, 1, ncclInt32, ncclSum, p->comm, stream);
}

static void wrong_buffers(job_rank *me)
{
    place p = open_place(me);
    int host = 0;
    int *gone = to_device(NULL, sizeof *gone);

    NCCL_IS(sum(&p, &host, p.stream), ncclInvalidArgument);
    told("ncclAllReduce: sendbuff");
    told("not live device memory");
    CUDA(cudaFree(gone));
    NCCL_IS(sum(&p, gone, p.stream), ncclInvalidArgument);
    CHECK_INT(emu_misuses(), 2);
    NCCL_IS(ncclAllReduce(p.device, p.device, 65, ncclInt32, ncclSum, p.comm, p.stream), ncclInvalidArgument);
    CHECK_INT(emu_misuses(), 3); /* longer than the buffer */
    CUDA(cudaSetDevice(me->rank + 4));
    int *foreign = to_device(NULL, sizeof *foreign);
    CUDA(cudaSetDevice(me->rank));
    NCCL_IS(sum(&p, foreign, p.stream), ncclInvalidArgument);
    told("is memory of device");
    CUDA(cudaFree(foreign));
    close_place(&p);
}

static void overlapping_buffers(job_rank *me)
{
    place p = open_place(me);

    NCCL_IS(ncclAllReduce(p.device, p.device + 1, 4, ncclInt32, ncclSum, p.comm, p.stream),
            ncclInvalidArgument);
    told("overlap other than in place");
    NCCL_IS(ncclAllGather(p.device, p.device, 4, ncclInt32, p.comm, p.stream),
            me->rank ? ncclInvalidArgument : ncclSuccess); /* in place for rank 0 only */
    CHECK_INT(emu_misuses(), me->rank ? 2 : 1);
    close_place(&p);
}

static void an_id_used_twice(job_rank *me)
{
    place p = open_place(me);
    ncclUniqueId id;
    ncclComm_t comm;

    NCCL(ncclGetUniqueId(&id));
    NCCL(ncclCommInitRank(&comm, 1, id, 0));
    NCCL(ncclCommDestroy(comm));
    NCCL_IS(ncclCommInitRank(&comm, 1, id, 0), ncclInvalidUsage);
    told("used for a second communicator");
    close_place(&p);
}

static void wrong_streams(job_rank *me)
{
    place p = open_place(me);
    cudaStream_t foreign;

    CUDA(cudaSetDevice(me->rank + 4));
    CUDA(cudaStreamCreateWithFlags(&foreign, cudaStreamNonBlocking));
    CUDA(cudaSetDevice(me->rank));
    NCCL_IS(sum(&p, p.device, foreign), ncclInvalidUsage);
    told("the stream is of device");
    CUDA(cudaStreamDestroy(foreign));
    close_place(&p);
}

/* ---- ranks that do not agree ------------------------------------------------------------------------- */

/* Waits until one of the ranks has told, and checks its sentence. */
static void one_tells(const place *p, const char *part)
{
    int64_t *count = &job_results(p->me, p->me->rank)[FREE_RESULT];

    job_sleep_ms(50);
    for (int ms = 0; ms < JOB_WAIT_MS; ms++) {
        int64_t all = 0;
        __atomic_store_n(count, (int64_t)emu_misuses(), __ATOMIC_SEQ_CST);
        for (int r = 0; r < p->me->size; r++)
            all += __atomic_load_n(&job_results(p->me, r)[FREE_RESULT], __ATOMIC_SEQ_CST);
        if (all) break;
        job_sleep_ms(1);
    }
    job_meet(p->me);
    int64_t all = 0;
    for (int r = 0; r < p->me->size; r++) all += job_results(p->me, r)[FREE_RESULT];
    CHECK(all > 0);
    if (!emu_misuses()) return;
    told("the ranks call different operations");
    told(part);
    CHECK_INT(cudaStreamQuery(p->stream), cudaErrorNotReady); /* as on the real thing: it hangs */
}

static void different_operations(job_rank *me)
{
    place p = open_place(me);

    if (me->rank)
        NCCL(sum(&p, p.device, p.stream));
    else
        NCCL(ncclBroadcast(p.device, p.device, 1, ncclInt32, 0, p.comm, p.stream));
    one_tells(&p, "ncclBroadcast, collective #1");
    close_place(&p);
}

static void different_counts(job_rank *me)
{
    place p = open_place(me);
    size_t count = me->rank ? 3 : 4;

    NCCL(sum(&p, p.device, p.stream));
    NCCL(ncclAllReduce(p.device, p.device, count, ncclInt32, ncclSum, p.comm, p.stream));
    one_tells(&p, "collective #2 (4 int32");
    close_place(&p);
}

static void different_types(job_rank *me)
{
    place p = open_place(me);

    NCCL(ncclAllReduce(p.device, p.device, 1, me->rank ? ncclInt32 : ncclFloat32, ncclSum, p.comm, p.stream));
    one_tells(&p, "float32");
    close_place(&p);
}

static void different_reductions(job_rank *me)
{
    place p = open_place(me);

    NCCL(ncclAllReduce(p.device, p.device, 1, ncclInt32, me->rank ? ncclMin : ncclMax, p.comm, p.stream));
    one_tells(&p, "max");
    close_place(&p);
}

static void different_roots(job_rank *me)
{
    place p = open_place(me);

    NCCL(ncclBroadcast(p.device, p.device, 1, ncclInt32, me->rank, p.comm, p.stream));
    one_tells(&p, "root 1");
    close_place(&p);
}

static void different_groups(job_rank *me)
{
    place p = open_place(me);

    if (me->rank) NCCL(ncclGroupStart());
    NCCL(sum(&p, p.device, p.stream));
    NCCL(sum(&p, p.device + 1, p.stream));
    if (me->rank) NCCL(ncclGroupEnd());
    one_tells(&p, "1 of 2 in its group call");
    close_place(&p);
}

#ifdef NCCL_WIN_DEFAULT
/* Each rank would find the other's buffer by its own offset. */
static void different_offsets(job_rank *me)
{
    place p = open_place(me);
    ncclWindow_t window;

    NCCL(ncclCommWindowRegister(p.comm, p.device, 64 * sizeof *p.device, &window, NCCL_WIN_COLL_SYMMETRIC));
    NCCL(sum(&p, p.device, p.stream));
    NCCL(sum(&p, p.device + me->rank, p.stream));
    one_tells(&p, me->rank ? "offsets in windows 0 and 0" : "offsets in windows 4 and 4");
    close_place(&p);
}

static void any_offsets(job_rank *me)
{
    place p = open_place(me);
    ncclWindow_t window;

    NCCL(ncclCommWindowRegister(p.comm, p.device, 64 * sizeof *p.device, &window, NCCL_WIN_DEFAULT));
    NCCL(sum(&p, p.device + me->rank, p.stream));
    CUDA(cudaStreamSynchronize(p.stream));
    CHECK_INT(emu_misuses(), 0);
    close_place(&p);
}
#endif

static void different_messages(job_rank *me)
{
    place p = open_place(me);

    if (me->rank)
        NCCL(ncclRecv(p.device, 2, ncclInt32, 0, p.comm, p.stream));
    else
        NCCL(ncclSend(p.device, 1, ncclInt32, 1, p.comm, p.stream));
    job_sleep_ms(20);
    if (me->rank) {
        for (int ms = 0; !emu_misuses() && ms < JOB_WAIT_MS; ms++) job_sleep_ms(1);
        told("rank 1 is in ncclRecv #1 between them (2 int32), but rank 0 sends it ncclSend #1");
    }
    close_place(&p);
}

static void different_functions(job_rank *me)
{
    place p = open_place(me);
    ncclComm_t part = NULL;
    ncclResult_t result;

    if (me->size == 1) return;
#ifdef NCCL_WIN_DEFAULT
    ncclWindow_t window;
    if (me->rank)
        result = ncclCommWindowRegister(p.comm, p.device, 64, &window, NCCL_WIN_DEFAULT);
    else
        result = ncclCommSplit(p.comm, 0, 0, &part, NULL);
    NCCL_IS(result, ncclInvalidUsage);
    told("the ranks call different functions");
#else
    (void)part, (void)result;
#endif
    close_place(&p);
}

static void free_what_is_registered(job_rank *me)
{
    place p = open_place(me);
    ncclComm_t other = new_comm(me);
    void *memory, *handle;

    NCCL(ncclMemAlloc(&memory, 4096));
    NCCL(ncclCommRegister(p.comm, memory, 4096, &handle));
    NCCL_IS(ncclMemFree(memory), ncclUnhandledCudaError);
    told("which ncclCommRegister has registered and nobody deregistered");
    NCCL(ncclCommDeregister(p.comm, handle));
#ifdef NCCL_WIN_DEFAULT
    ncclWindow_t window = NULL;
    NCCL(ncclCommWindowRegister(other, memory, 4096, &window, NCCL_WIN_DEFAULT));
    NCCL_IS(ncclMemFree(memory), ncclUnhandledCudaError);
    told("which ncclCommWindowRegister has registered");
    CHECK_INT(emu_misuses(), 2);
#endif
    NCCL(ncclCommAbort(other)); /* registrations end with it */
    NCCL(ncclMemFree(memory));
    close_place(&p);
}

/* Rank 0 has not seen its sum end: the other one's comes late. */
static void split_while_it_works(job_rank *me)
{
    place p = open_place(me);
    ncclComm_t part = NULL;

    if (!me->rank) {
        NCCL(sum(&p, p.device, p.stream));
        NCCL_IS(ncclCommSplit(p.comm, 0, 0, &part, NULL), ncclInvalidUsage);
        told("ncclCommSplit");
        told("rank 0, has operations that are not over");
        CHECK(!part);
    }
    close_place(&p);
}

/* ---- threads and handles ------------------------------------------------------------------------------ */

static void *call_inside(void *arg)
{
    place *p = arg;

    cudaSetDevice(p->me->rank);
    ncclGroupStart();
    sum(p, p->device, p->stream);
    ncclGroupEnd();
    return NULL;
}

static void two_threads_at_once(job_rank *me)
{
    place p = open_place(me);
    ncclResult_t error;
    pthread_t thread;

    emu_script("ncclGroupEnd@1=hang");
    CHECK_INT(pthread_create(&thread, NULL, call_inside, &p), 0);
    while (!emu_hanging()) job_sleep_ms(1);
    NCCL_IS(ncclCommGetAsyncError(p.comm, &error), ncclInvalidUsage);
    told("is used by two threads at once");
    told("in ncclCommGetAsyncError");
    NCCL_IS(sum(&p, p.device, p.stream), ncclInvalidUsage);
    CHECK_INT(emu_misuses(), 2);
    emu_release();
    CHECK_INT(pthread_join(thread, NULL), 0);
    emu_script(NULL);
    CUDA(cudaStreamSynchronize(p.stream));
    close_place(&p);
}

static void *ask(void *arg)
{
    ncclResult_t error;

    ncclCommGetAsyncError(((place *)arg)->comm, &error);
    return NULL;
}

static void abort_beside_a_question(job_rank *me)
{
    place p = open_place(me);
    pthread_t thread;

    emu_script("ncclCommGetAsyncError@1=hang");
    CHECK_INT(pthread_create(&thread, NULL, ask, &p), 0);
    while (!emu_hanging()) job_sleep_ms(1);
    NCCL(ncclCommAbort(p.comm));
    told("is aborted while a thread is inside ncclCommGetAsyncError");
    emu_release();
    CHECK_INT(pthread_join(thread, NULL), 0);
    told("is used after it was aborted");
    emu_script(NULL);
    p.comm = new_comm(me);
    close_place(&p);
}

static void after_the_end(job_rank *me)
{
    place p = open_place(me);
    ncclResult_t error;

    NCCL(ncclCommDestroy(p.comm));
    NCCL_IS(sum(&p, p.device, p.stream), ncclInvalidArgument);
    told("is used after it was destroyed");
    p.comm = new_comm(me);
    NCCL(ncclCommAbort(p.comm));
    NCCL_IS(ncclCommGetAsyncError(p.comm, &error), ncclInvalidArgument);
    told("ncclCommGetAsyncError");
    told("is used after it was aborted");
    p.comm = new_comm(me);
    close_place(&p);
}

/* Without asking for reports. */
static void misuse_ends_the_process(void **state)
{
    int status;
    pid_t child = fork();

    (void)state;
    assert_true(child >= 0);
    if (!child) {
        ncclUniqueId id;
        ncclComm_t comm;
        int host = 0;
        unsetenv("CUDA_EMULATION_MISUSE");
        if (ncclGetUniqueId(&id) || ncclCommInitRank(&comm, 1, id, 0)) _exit(1);
        ncclAllReduce(&host, &host, 1, ncclInt32, ncclSum, comm, NULL);
        _exit(2);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), EMU_MISUSE_STATUS);
}

#define MISUSE(sentence, function) \
    JOB_TEST(sentence, .ranks = 2, .bare = true, .processes = true, .body = function)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(misuse_ends_the_process),
        MISUSE("wrong buffers", wrong_buffers),
        MISUSE("overlapping buffers", overlapping_buffers),
        MISUSE("an id used twice", an_id_used_twice),
        MISUSE("wrong streams", wrong_streams),
        MISUSE("different operations", different_operations),
        MISUSE("different counts", different_counts),
        MISUSE("different types", different_types),
        MISUSE("different reductions", different_reductions),
        MISUSE("different roots", different_roots),
        MISUSE("different groups", different_groups),
#ifdef NCCL_WIN_DEFAULT
        MISUSE("different offsets in a symmetric window", different_offsets),
        MISUSE("any offsets in another window", any_offsets),
#endif
        MISUSE("different messages", different_messages),
        MISUSE("different functions", different_functions),
        MISUSE("memory that is registered is freed", free_what_is_registered),
        MISUSE("a split while it works", split_while_it_works),
        MISUSE("two threads at once", two_threads_at_once),
        MISUSE("an abort beside a question", abort_beside_a_question),
        MISUSE("after the end", after_the_end),
    };

    return JOB_MAIN(tests, argc, argv);
}
