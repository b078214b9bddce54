/* test_nccl_shrink.c - going on without some ranks: ncclCommShrink with and without abort, and ncclCommRevoke, as NCCL
 * 2.27 to 2.30 have them: what they wait for, what they forgive, and when there is a handle. */
#include "nccl_ranks.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#if defined NCCL_SHRINK_ABORT && defined NCCL_REVOKE_DEFAULT
typedef struct place {
    ncclComm_t comm;
    cudaStream_t stream;
    int *device;
} place;

static place open_place(job_rank *me, bool blocking)
{
    place p = {blocking ? new_comm(me) : new_nonblocking_comm(me), new_stream(me), NULL};

    p.device = to_device(NULL, sizeof *p.device);
    return p;
}

static ncclResult_t sum_on(const place *p, ncclComm_t comm)
{
    return ncclAllReduce(p->device, p->device, 1, ncclInt32, ncclSum, comm, p->stream);
}

/* The sum of 1 over a communicator. */
static int counted(const place *p, ncclComm_t comm)
{
    int value = 1;
    ncclResult_t result;

    CUDA(cudaMemcpyAsync(p->device, &value, sizeof value, cudaMemcpyHostToDevice, p->stream));
    result = sum_on(p, comm);
    CHECK(result == ncclSuccess || result == ncclInProgress);
    NCCL(settled(comm));
    to_host(&value, p->device, sizeof value, p->stream);
    return value;
}

/* However it stands with the communicator. */
static void close_place(const place *p)
{
    NCCL(ncclCommAbort(p->comm));
    CUDA(cudaStreamSynchronize(p->stream));
    CUDA(cudaFree(p->device));
    CUDA(cudaStreamDestroy(p->stream));
}

static ncclResult_t shrink(ncclComm_t comm, int without, ncclComm_t *rest, int flags)
{
    int list[] = {without};

    return ncclCommShrink(comm, list, 1, rest, NULL, flags);
}

/* ---- whom ------------------------------------------------------------------------------------------- */

static void the_others_go_on(job_rank *me)
{
    place p = open_place(me, true);
    int gone[] = {3, 1}, rank;
    ncclComm_t rest = NULL;

    if (me->rank == 1 || me->rank == 3) {
        NCCL_IS(ncclCommShrink(p.comm, gone, 2, &rest, NULL, NCCL_SHRINK_DEFAULT), ncclInvalidArgument);
        CHECK(!rest);
    } else {
        NCCL(ncclCommShrink(p.comm, gone, 2, &rest, NULL, NCCL_SHRINK_DEFAULT));
        NCCL(ncclCommUserRank(rest, &rank));
        CHECK_INT(rank, me->rank / 2);
        CHECK_INT(counted(&p, rest), me->size - 2);
        NCCL(ncclCommDestroy(rest));
    }
    CHECK_INT(gone[0], 1); /* the list is sorted where it lies */
    CHECK_INT(counted(&p, p.comm), me->size);
    job_meet(me);
    close_place(&p);
}

static void a_list_that_is_wrong(job_rank *me)
{
    int twice[] = {1, 1}, beyond[] = {me->size}, below[] = {-1}, nobody[] = {0};
    ncclComm_t rest = NULL;

    job_setenv(me, "CUDA_EMULATION_MISUSE", "report");
    place p = open_place(me, true);
    if (!me->rank) {
        NCCL_IS(ncclCommShrink(p.comm, nobody, 0, &rest, NULL, NCCL_SHRINK_DEFAULT), ncclInvalidArgument);
        NCCL_IS(ncclCommShrink(p.comm, NULL, 1, &rest, NULL, NCCL_SHRINK_DEFAULT), ncclInvalidArgument);
        NCCL_IS(ncclCommShrink(p.comm, twice, 1, &rest, NULL, 2), ncclInvalidArgument);
        CHECK_INT(emu_misuses(), 0);
        NCCL_IS(ncclCommShrink(p.comm, twice, 2, &rest, NULL, NCCL_SHRINK_DEFAULT), ncclInvalidArgument);
        CHECK_TEXT(emu_last_misuse(), "without rank 1, named twice");
        NCCL_IS(ncclCommShrink(p.comm, beyond, 1, &rest, NULL, NCCL_SHRINK_DEFAULT), ncclInvalidArgument);
        CHECK_TEXT(emu_last_misuse(), "which there is not");
        NCCL_IS(ncclCommShrink(p.comm, below, 1, &rest, NULL, NCCL_SHRINK_DEFAULT), ncclInvalidArgument);
        CHECK_INT(emu_misuses(), 3);
    }
    job_meet(me);
    close_place(&p);
}

/* ---- work under way --------------------------------------------------------------------------------- */

/* Without abort it is a misuse; with it the kernel ends undone, the parent takes no operation any more, and what is made
 * has to do with none of that. */
static void work_under_way(job_rank *me)
{
    ncclComm_t rest = NULL;

    job_setenv(me, "CUDA_EMULATION_MISUSE", "report");
    place p = open_place(me, true);
    if (me->rank != 1) {
        NCCL(sum_on(&p, p.comm)); /* rank 1 is not in it */
        NCCL_IS(shrink(p.comm, 1, &rest, NCCL_SHRINK_DEFAULT), ncclInvalidUsage);
        CHECK_TEXT(emu_last_misuse(), "operations that are not over");
        CHECK_INT(cudaStreamQuery(p.stream), cudaErrorNotReady);
        NCCL(shrink(p.comm, 1, &rest, NCCL_SHRINK_ABORT));
        CHECK(stream_ends(p.stream, JOB_WAIT_MS)); /* it was over when the call returned */
        CHECK_INT(counted(&p, rest), me->size - 1);
        NCCL_IS(sum_on(&p, p.comm), ncclInvalidUsage);
        NCCL(ncclCommDestroy(rest));
        CHECK_INT(emu_misuses(), 1);
    }
    job_meet(me);
    close_place(&p);
}

typedef struct apart { /* a call made on a thread of its own */
    const place *p;
    ncclResult_t (*call)(const place *p);
    ncclResult_t result;
    _Atomic bool over;
} apart;

static void *call_apart(void *arg)
{
    apart *a = arg;

    a->result = a->call(a->p);
    atomic_store(&a->over, true);
    return NULL;
}

static ncclResult_t abort_and_shrink(const place *p)
{
    ncclComm_t rest = NULL;
    ncclResult_t result = shrink(p->comm, 1, &rest, NCCL_SHRINK_ABORT);

    if (result) return result;
    return ncclCommDestroy(rest);
}

static ncclResult_t revoke_it(const place *p)
{
    return ncclCommRevoke(p->comm, NCCL_REVOKE_DEFAULT);
}

static void hold(void *arg)
{
    while (!atomic_load((atomic_int *)arg)) job_sleep_ms(1);
}

/* A kernel that has not begun, as its stream has other things to do: both wait for it, in the call. */
static void check_waiting(const place *p, ncclResult_t (*call)(const place *p))
{
    atomic_int go = 0;
    apart a = {.p = p, .call = call};
    pthread_t thread;

    CUDA(cudaLaunchHostFunc(p->stream, hold, &go));
    NCCL(sum_on(p, p->comm));
    CHECK_INT(pthread_create(&thread, NULL, call_apart, &a), 0);
    job_sleep_ms(40);
    CHECK(!atomic_load(&a.over));
    atomic_store(&go, 1);
    CHECK_INT(pthread_join(thread, NULL), 0);
    NCCL(a.result);
    CHECK(stream_ends(p->stream, JOB_WAIT_MS));
}

static void both_wait_for_what_is_launched(job_rank *me)
{
    for (int i = 0; i < 2; i++) {
        place p = open_place(me, true);
        if (!me->rank) check_waiting(&p, i ? revoke_it : abort_and_shrink);
        job_meet(me);
        close_place(&p);
    }
}

/* What is no business of theirs they do not wait for, as an abort does. */
static void neither_waits_for_the_device(job_rank *me)
{
    for (int i = 0; i < 2; i++) {
        place p = open_place(me, true);
        cudaStream_t other = new_stream(me);
        atomic_int go = 0;
        CUDA(cudaLaunchHostFunc(other, hold, &go));
        if (!me->rank) NCCL(sum_on(&p, p.comm));
        if (!me->rank) NCCL(i ? revoke_it(&p) : abort_and_shrink(&p));
        if (!me->rank) CHECK(stream_ends(p.stream, JOB_WAIT_MS));
        CHECK_INT(cudaStreamQuery(other), cudaErrorNotReady);
        atomic_store(&go, 1);
        job_meet(me);
        close_place(&p);
        CUDA(cudaStreamDestroy(other));
    }
}

/* A call that has only begun is not ended by a shrink that aborts: that is refused. */
static void a_call_under_way(job_rank *me)
{
    place p = open_place(me, false);
    ncclComm_t rest = NULL;

    if (!me->rank) {
        emu_script("background@1=hang");
        NCCL_IS(sum_on(&p, p.comm), ncclInProgress);
        NCCL_IS(shrink(p.comm, 1, &rest, NCCL_SHRINK_ABORT), ncclInvalidArgument);
        NCCL_IS(async_error(p.comm), ncclInProgress);
        NCCL_IS(revoke_it(&p), ncclInProgress); /* this lets it out */
        NCCL(settled(p.comm));
        emu_script(NULL);
    }
    job_meet(me);
    close_place(&p);
}

/* Nor does anything that waits for other ranks outlast a revoke. */
static void a_split_under_way(job_rank *me)
{
    place p = open_place(me, false);
    ncclComm_t part = NULL;

    if (!me->rank) {
        NCCL(ncclCommSplit(p.comm, 0, 0, &part, NULL));
        job_sleep_ms(20);
        NCCL_IS(async_error(p.comm), ncclInProgress);
        NCCL_IS(revoke_it(&p), ncclInProgress);
        NCCL(settled(p.comm));
        CHECK(!part);
    }
    job_meet(me);
    close_place(&p);
}

/* ---- errors ----------------------------------------------------------------------------------------- */

/* What the network has found stays, whatever is tried: those who live make a communicator anew. */
static void a_peer_dies(job_rank *me)
{
    place p = open_place(me, true);
    ncclComm_t rest = NULL, anew = NULL;
    ncclUniqueId id = shared_id(me);
    ncclResult_t first;

    job_meet(me);
    if (me->rank == 1) kill(getpid(), SIGKILL);
    NCCL(sum_on(&p, p.comm));
    for (int ms = 0; async_error(p.comm) == ncclSuccess && ms < JOB_WAIT_MS; ms++) job_sleep_ms(1);
    first = shrink(p.comm, 1, &rest, NCCL_SHRINK_ABORT);
    NCCL_IS(first, ncclRemoteError);
    CHECK(!rest);
    CHECK(stream_ends(p.stream, JOB_WAIT_MS)); /* the kernel is ended nevertheless */
    NCCL_IS(revoke_it(&p), ncclInvalidArgument);
    NCCL_IS(ncclCommInitRank(&anew, me->size - 1, id, me->rank - (me->rank > 1)), ncclSuccess);
    CHECK_INT(counted(&p, anew), me->size - 1);
    NCCL(ncclCommAbort(anew));
    close_place(&p);
}

static void a_revoke_after_a_death(job_rank *me)
{
    place p = open_place(me, me->arg != NULL);
    ncclComm_t rest = NULL;
    ncclResult_t revoked;

    job_meet(me);
    if (me->rank == 1) kill(getpid(), SIGKILL);
    for (int ms = 0; async_error(p.comm) == ncclSuccess && ms < JOB_WAIT_MS; ms++) job_sleep_ms(1);
    revoked = revoke_it(&p);
    NCCL_IS(revoked, me->arg ? ncclSuccess : ncclInProgress);
    NCCL_IS(settled(p.comm), ncclRemoteError);
    NCCL_IS(shrink(p.comm, 1, &rest, NCCL_SHRINK_DEFAULT), ncclRemoteError);
    CHECK(!rest);
    close_place(&p);
}

/* What a call has left is in the way of a shrink, until a revoke. */
static void what_a_call_has_left(job_rank *me)
{
    place p = open_place(me, false);
    ncclComm_t rest = NULL;

    if (me->rank != 1) {
        emu_script("background@1=error:3");
        NCCL_IS(sum_on(&p, p.comm), ncclInProgress);
        NCCL_IS(settled(p.comm), ncclInternalError);
        emu_script(NULL);
        NCCL_IS(shrink(p.comm, 1, &rest, NCCL_SHRINK_DEFAULT), ncclInternalError);
    }
    job_meet(me);
    if (me->rank != 1) {
        NCCL_IS(revoke_it(&p), ncclInProgress);
        NCCL(settled(p.comm));
        NCCL(shrink(p.comm, 1, &rest, NCCL_SHRINK_DEFAULT));
        NCCL(settled(p.comm));
        CHECK_INT(counted(&p, rest), me->size - 1);
        NCCL(ncclCommAbort(rest));
    }
    job_meet(me);
    close_place(&p);
}

/* ---- the handle, and the config --------------------------------------------------------------------- */

/* It has only begun and does not say so; the handle comes when all have; and the parent's abort ends it. */
static void the_child_comes_late(job_rank *me)
{
    place p = open_place(me, false);
    ncclComm_t rest = NULL, never = NULL;

    if (me->rank == 2) job_meet(me);
    if (me->rank != 1) NCCL(shrink(p.comm, 1, &rest, NCCL_SHRINK_DEFAULT));
    if (!me->rank) {
        job_sleep_ms(20);
        NCCL_IS(async_error(p.comm), ncclInProgress);
        CHECK(!rest);
    }
    if (me->rank != 2) job_meet(me);
    if (me->rank != 1) {
        NCCL(settled(p.comm));
        CHECK_INT(counted(&p, rest), me->size - 1);
        NCCL(ncclCommAbort(rest));
    }
    if (!me->rank) NCCL(shrink(p.comm, 1, &never, NCCL_SHRINK_DEFAULT));
    close_place(&p);
    CHECK(!never);
}

static void the_config(job_rank *me)
{
    ncclConfig_t named = NCCL_CONFIG_INITIALIZER, open = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId id = shared_id(me);
    ncclComm_t parent = NULL, same = NULL, other = NULL;
    int list[] = {1};

    named.blocking = 0;
    named.commName = "a name of its own";
    CUDA(cudaSetDevice(me->rank));
    NCCL_IS(ncclCommInitRankConfig(&parent, me->size, id, me->rank, &named), ncclInProgress);
    NCCL(settled(parent));
    if (me->rank != 1) {
        NCCL(ncclCommShrink(parent, list, 1, &same, NULL, NCCL_SHRINK_DEFAULT));
        NCCL(settled(parent));
        NCCL(ncclCommShrink(parent, list, 1, &other, &open, NCCL_SHRINK_DEFAULT));
        NCCL(settled(parent));
        NCCL_IS(ncclCommFinalize(same), ncclInProgress); /* it does not block either */
        NCCL(settled(same));
        NCCL(ncclCommFinalize(other)); /* what its config leaves open is no matter of the parent's */
        NCCL_IS(ncclCommFinalize(same), ncclInvalidUsage);
        CHECK(strstr(ncclGetLastError(same), named.commName));
        NCCL_IS(ncclCommFinalize(other), ncclInvalidUsage);
        CHECK(!strstr(ncclGetLastError(other), named.commName));
        NCCL(ncclCommAbort(same));
        NCCL(ncclCommAbort(other));
    }
    job_meet(me);
    NCCL(ncclCommAbort(parent));
}

/* ---- revoke ----------------------------------------------------------------------------------------- */

static void a_revoked_one(job_rank *me)
{
    place p = open_place(me, true);
    ncclComm_t again = NULL;

    if (!me->rank) NCCL(sum_on(&p, p.comm));
    NCCL_IS(ncclCommRevoke(p.comm, 1), ncclInvalidArgument);
    NCCL(revoke_it(&p));
    CHECK(stream_ends(p.stream, JOB_WAIT_MS));
    NCCL(async_error(p.comm));
    NCCL_IS(revoke_it(&p), ncclInvalidArgument);
    NCCL_IS(sum_on(&p, p.comm), ncclInvalidUsage);
    NCCL_IS(ncclCommFinalize(p.comm), ncclInvalidUsage);
    NCCL(ncclCommSplit(p.comm, 0, me->rank, &again, NULL));
    CHECK_INT(counted(&p, again), me->size);
    NCCL(ncclCommFinalize(again));
    NCCL_IS(ncclCommRevoke(again, NCCL_REVOKE_DEFAULT), ncclInvalidArgument);
    NCCL(ncclCommDestroy(again));
    close_place(&p);
}

/* When the call returns for one that does not block, it has only begun. */
static void a_revoke_that_does_not_block(job_rank *me)
{
    place p = open_place(me, false);
    atomic_int go = 0;

    if (!me->rank) {
        CUDA(cudaLaunchHostFunc(p.stream, hold, &go));
        NCCL_IS(sum_on(&p, p.comm), ncclInProgress);
        NCCL(settled(p.comm));
        NCCL_IS(revoke_it(&p), ncclInProgress);
        job_sleep_ms(20);
        NCCL_IS(async_error(p.comm), ncclInProgress);
        atomic_store(&go, 1);
        NCCL(settled(p.comm));
        CHECK(stream_ends(p.stream, JOB_WAIT_MS));
    }
    job_meet(me);
    close_place(&p);
}

static void before_they_came(job_rank *me)
{
    ncclComm_t rest = NULL;

    job_setenv(me, "CUDA_EMULATION_NCCL_VERSION", me->arg);
    place p = open_place(me, true);
    NCCL_IS(revoke_it(&p), ncclInvalidUsage);
    CHECK(strstr(ncclGetLastError(p.comm), "ncclCommRevoke: came with NCCL 22807"));
    if (atoi(me->arg) < 22700) {
        NCCL_IS(shrink(p.comm, 1, &rest, NCCL_SHRINK_ABORT), ncclInvalidUsage);
        CHECK(strstr(ncclGetLastError(p.comm), "ncclCommShrink: came with NCCL 22700"));
    }
    close_place(&p);
}
#endif

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
#if defined NCCL_SHRINK_ABORT && defined NCCL_REVOKE_DEFAULT
        JOB_TEST("the others go on", .ranks = 4, .bare = true, .body = the_others_go_on),
        JOB_TEST("a list that is wrong", .ranks = 2, .bare = true, .processes = true,
                 .body = a_list_that_is_wrong),
        JOB_TEST("work under way", .ranks = 3, .bare = true, .processes = true, .body = work_under_way),
        JOB_TEST("both wait for what is launched", .ranks = 2, .bare = true,
                 .body = both_wait_for_what_is_launched),
        JOB_TEST("neither waits for the device", .ranks = 2, .bare = true,
                 .body = neither_waits_for_the_device),
        JOB_TEST("a call under way", .ranks = 2, .bare = true, .processes = true, .body = a_call_under_way),
        JOB_TEST("a split under way", .ranks = 2, .bare = true, .body = a_split_under_way),
        JOB_TEST("a peer dies", .ranks = 3, .bare = true, .killed = 1u << 1, .body = a_peer_dies),
        JOB_TEST("a revoke after a death", .ranks = 3, .bare = true, .killed = 1u << 1,
                 .body = a_revoke_after_a_death),
        JOB_TEST("a revoke after a death that blocks", .ranks = 3, .bare = true, .killed = 1u << 1,
                 .arg = "blocks", .body = a_revoke_after_a_death),
        JOB_TEST("what a call has left", .ranks = 3, .bare = true, .processes = true,
                 .body = what_a_call_has_left),
        JOB_TEST("the child comes late", .ranks = 3, .bare = true, .body = the_child_comes_late),
        JOB_TEST("the config", .ranks = 3, .bare = true, .processes = true,
                 .body = the_config), /* last errors */
        JOB_TEST("revoke", .ranks = 2, .bare = true, .body = a_revoked_one),
        JOB_TEST("a revoke that does not block", .ranks = 2, .bare = true,
                 .body = a_revoke_that_does_not_block),
        JOB_TEST("before revoke came", .ranks = 2, .bare = true, .processes = true, .arg = "22803",
                 .body = before_they_came),
        JOB_TEST("before shrink came", .ranks = 2, .bare = true, .processes = true, .arg = "22606",
                 .body = before_they_came),
#endif
    };

    return JOB_MAIN(tests, argc, argv);
}
