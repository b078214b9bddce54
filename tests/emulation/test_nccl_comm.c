/* test_nccl_comm.c - how communicators come to be, are split, and end. */
#include "nccl_ranks.h"

#include <stdio.h>
#include <stdlib.h>

/* Sum of 1 over the communicator, by its own stream. */
static int counted(ncclComm_t comm, const job_rank *me)
{
    cudaStream_t stream = new_stream(me);
    int value = 1;
    int *device = to_device(&value, sizeof value);
    ncclResult_t result = ncclAllReduce(device, device, 1, ncclInt32, ncclSum, comm, stream);

    CHECK(result == ncclSuccess || result == ncclInProgress);
    NCCL(settled(comm));
    to_host(&value, device, sizeof value, stream);
    CUDA(cudaFree(device));
    CUDA(cudaStreamDestroy(stream));
    return value;
}

static void check_place(ncclComm_t comm, int ranks, int rank)
{
    int got;

    NCCL(ncclCommCount(comm, &got));
    CHECK_INT(got, ranks);
    NCCL(ncclCommUserRank(comm, &got));
    CHECK_INT(got, rank);
}

static void ranks_meet(job_rank *me)
{
    ncclComm_t comm = new_comm(me);
    int version, device;

    check_place(comm, me->size, me->rank);
    NCCL(ncclCommCuDevice(comm, &device));
    CHECK_INT(device, me->rank);
    NCCL(ncclGetVersion(&version));
    CHECK_INT(version, NCCL_VERSION_CODE);
    CHECK_INT(counted(comm, me), me->size);
    NCCL(ncclCommDestroy(comm));
    NCCL(ncclCommDestroy(NULL));
}

static void bad_calls_are_refused(job_rank *me)
{
    ncclUniqueId id = shared_id(me), wrong;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t comm = NULL;

    memset(&wrong, 1, sizeof wrong);
    NCCL_IS(ncclCommInitRank(&comm, me->size, wrong, me->rank), ncclInvalidArgument);
    NCCL_IS(ncclCommInitRank(&comm, me->size, id, me->size), ncclInvalidArgument);
    NCCL_IS(ncclCommInitRank(&comm, 0, id, 0), ncclInvalidArgument);
    NCCL_IS(ncclCommInitRank(NULL, me->size, id, me->rank), ncclInvalidArgument);
    config.magic++;
    NCCL_IS(ncclCommInitRankConfig(&comm, me->size, id, me->rank, &config), ncclInvalidArgument);
    CHECK(!comm);
    NCCL_IS(ncclGetUniqueId(NULL), ncclInvalidArgument);
    NCCL_IS(ncclCommCount(NULL, &me->meets), ncclInvalidArgument);
    CHECK(!strcmp(ncclGetErrorString(ncclSuccess), "no error"));
}

static void nonblocking_init(job_rank *me)
{
    ncclUniqueId id = shared_id(me);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t comm = NULL;
    int count;

    config.blocking = 0;
    CUDA(cudaSetDevice(me->rank));
    if (me->rank == 0) {
        NCCL_IS(ncclCommInitRankConfig(&comm, me->size, id, 0, &config), ncclInProgress);
        CHECK(comm);
        NCCL_IS(async_error(comm), ncclInProgress);
        NCCL_IS(ncclCommCount(comm, &count), ncclInvalidArgument); /* not before it is done */
        job_meet(me);
    } else {
        job_meet(me);
        NCCL_IS(ncclCommInitRankConfig(&comm, me->size, id, me->rank, &config), ncclInProgress);
    }
    NCCL(settled(comm));
    check_place(comm, me->size, me->rank);
    CHECK_INT(counted(comm, me), me->size);
    NCCL_IS(ncclCommFinalize(comm), ncclInProgress);
    NCCL(settled(comm));
    NCCL(ncclCommDestroy(comm));
}

static void blocking_and_nonblocking_do_not_mix(job_rank *me)
{
    ncclComm_t a = new_comm(me), b = new_nonblocking_comm(me);
    cudaStream_t stream = new_stream(me);
    int *device = to_device(NULL, 2 * sizeof *device);

    NCCL(ncclGroupStart());
    NCCL(ncclAllReduce(device, device, 1, ncclInt32, ncclSum, a, stream));
    NCCL(ncclAllReduce(device + 1, device + 1, 1, ncclInt32, ncclSum, b, stream));
    NCCL_IS(ncclGroupEnd(), ncclInvalidArgument);
    CHECK_INT(counted(a, me), me->size);
    CHECK_INT(counted(b, me), me->size);
    CUDA(cudaFree(device));
    CUDA(cudaStreamDestroy(stream));
    NCCL(ncclCommDestroy(a));
    NCCL_IS(ncclCommDestroy(b), ncclInProgress);
}

/* A GPU serves one rank of a communicator. */
static void one_rank_per_gpu(job_rank *me)
{
    ncclUniqueId id = shared_id(me);
    ncclComm_t comm = NULL;

    CUDA(cudaSetDevice(0));
    NCCL_IS(ncclCommInitRank(&comm, me->size, id, me->rank), ncclInvalidUsage);
    CHECK(!comm);
    CHECK(strstr(ncclGetLastError(NULL), "Duplicate GPU"));
}

/* Unless they believe that they are on different hosts. */
static void hosts_by_name(job_rank *me)
{
    char name[16];
    ncclUniqueId id = shared_id(me);
    ncclComm_t comm = NULL;

    snprintf(name, sizeof name, "host%d", me->rank);
    job_setenv(me, "NCCL_HOSTID", name);
    CUDA(cudaSetDevice(0));
    NCCL(ncclCommInitRank(&comm, me->size, id, me->rank));
    check_place(comm, me->size, me->rank);
    NCCL(ncclCommDestroy(comm));
}

/* ---- split ------------------------------------------------------------------------------------------ */

/* Odd and even ranks, in reverse order; and again, while the first ones live. */
static void split_by_color(job_rank *me)
{
    ncclComm_t parent = new_comm(me), parts[3];
    int odd = me->rank % 2, ranks = (me->size + 1 - odd) / 2;

    for (int i = 0; i < 3; i++) {
        NCCL(ncclCommSplit(parent, odd, i % 2 ? 0 : -me->rank, &parts[i], NULL));
        check_place(parts[i], ranks, i % 2 ? me->rank / 2 : ranks - 1 - me->rank / 2);
        CHECK_INT(counted(parts[i], me), ranks);
    }
    CHECK_INT(counted(parent, me), me->size);
    NCCL(ncclCommDestroy(parent)); /* children outlive it */
    for (int i = 0; i < 3; i++) {
        CHECK_INT(counted(parts[i], me), ranks);
        NCCL(ncclCommDestroy(parts[i]));
    }
}

static void some_without_color(job_rank *me)
{
    ncclComm_t parent = new_comm(me), part = parent;
    bool in = me->rank != 1;

    NCCL_IS(ncclCommSplit(parent, -7, 0, &part, NULL), ncclInvalidArgument);
    NCCL(ncclCommSplit(parent, in ? 3 : NCCL_SPLIT_NOCOLOR, 0, &part, NULL));
    if (in) {
        CHECK_INT(counted(part, me), me->size - 1);
        NCCL(ncclCommDestroy(part));
    } else {
        CHECK(!part);
    }
    NCCL(ncclCommDestroy(parent));
}

/* The parent cannot be used until all have called. */
static void split_nonblocking(job_rank *me)
{
    ncclComm_t parent = new_nonblocking_comm(me), part = NULL;

    if (me->rank) job_meet(me);
    NCCL(ncclCommSplit(parent, 0, 0, &part, NULL)); /* it has only begun, and does not say so */
    if (!me->rank) {
        job_sleep_ms(20);
        NCCL_IS(async_error(parent), ncclInProgress);
        NCCL_IS(ncclCommFinalize(parent), ncclInvalidArgument);
        CHECK(!part); /* it comes when it is whole */
        job_meet(me);
    }
    NCCL(settled(parent));
    NCCL(settled(part));
    CHECK_INT(counted(part, me), me->size);
    CHECK_INT(counted(parent, me), me->size);
    NCCL_IS(ncclCommDestroy(part), ncclInProgress);
    NCCL_IS(ncclCommDestroy(parent), ncclInProgress);
}

/* Split off a nonblocking parent with blocking set: made by the parent's thread, under the parent's abort, and its
 * calls launch on the thread that makes them. */
static void a_blocking_part(job_rank *me)
{
    ncclComm_t parent = new_nonblocking_comm(me), part = NULL;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    cudaStream_t stream = new_stream(me);
    int *device = to_device(NULL, sizeof *device);

    config.blocking = 1;
    if (me->rank) job_meet(me);
    NCCL(ncclCommSplit(parent, 0, 0, &part, &config));
    if (!me->rank) {
        job_sleep_ms(20);
        NCCL_IS(async_error(parent), ncclInProgress);
        CHECK(!part);
        job_meet(me);
    }
    NCCL(settled(parent));
    NCCL(async_error(part));
    job_meet(me);
    uint64_t apart = emu_calls("background");
    for (int i = 0; i < 3; i++) NCCL(ncclAllReduce(device, device, 1, ncclInt32, ncclSum, part, stream));
    NCCL(ncclGroupStart());
    NCCL(ncclAllReduce(device, device, 1, ncclInt32, ncclSum, part, stream));
    NCCL(ncclGroupEnd());
    CHECK_INT(emu_calls("background"), apart);
    CHECK_INT(counted(part, me), me->size);
    NCCL_IS(ncclCommFinalize(parent), ncclInProgress); /* where the ranks meet that are about to end both */
    NCCL(settled(parent));
    NCCL(ncclCommDestroy(part));
    NCCL(ncclCommDestroy(parent));
    CUDA(cudaFree(device));
    CUDA(cudaStreamDestroy(stream));
}

/* ---- scalable, windows ------------------------------------------------------------------------------ */

#if NCCL_VERSION_CODE >= 22300
static void several_ids(job_rank *me)
{
    ncclUniqueId ids[2] = {shared_id(me), shared_id(me)};
    ncclComm_t comm;

    CUDA(cudaSetDevice(me->rank));
    NCCL(ncclCommInitRankScalable(&comm, me->size, me->rank, 2, ids, NULL));
    CHECK_INT(counted(comm, me), me->size);
    NCCL(ncclCommDestroy(comm));
}
#endif

#if NCCL_VERSION_CODE >= 22800
static void an_older_version_on_request(job_rank *me)
{
    int version;

    job_setenv(me, "CUDA_EMULATION_NCCL_VERSION", "21903");
    NCCL(ncclGetVersion(&version));
    CHECK_INT(version, 21903);
    ncclComm_t comm = new_comm(me);
    void *device = to_device(NULL, 64);
    NCCL_IS(ncclAlltoAll(device, device, 1, ncclInt32, comm, NULL), ncclInvalidUsage);
    CHECK(strstr(ncclGetLastError(comm), "ncclAlltoAll: came with NCCL 22800"));
    CUDA(cudaFree(device));
    NCCL(ncclCommDestroy(comm));
}
#endif

static void registered_memory(job_rank *me)
{
    enum { BYTES = 8192 };
    ncclComm_t comm = new_comm(me);
    void *buffer, *handle;

    NCCL(ncclMemAlloc(&buffer, BYTES));
    NCCL(ncclCommRegister(comm, buffer, BYTES, &handle));
    NCCL(ncclCommDeregister(comm, handle));
    NCCL_IS(ncclCommDeregister(comm, handle), ncclInvalidUsage);
    NCCL_IS(ncclCommRegister(comm, &handle, 8, &handle), ncclInvalidArgument);
#ifdef NCCL_WIN_DEFAULT
    ncclWindow_t window = NULL;
    NCCL(ncclCommWindowRegister(comm, buffer, BYTES, &window, NCCL_WIN_COLL_SYMMETRIC));
    CHECK(window);
    NCCL(ncclCommWindowDeregister(comm, window));
    NCCL_IS(ncclCommWindowDeregister(comm, window), ncclInvalidUsage);
#endif
    NCCL(ncclMemFree(buffer));
    NCCL(ncclCommDestroy(comm));
}

/* ---- end -------------------------------------------------------------------------------------------- */

/* Destroy is for all, as NCCL says: ranks of other processes are waited for. */
static void destroy_waits_for_all(job_rank *me)
{
    ncclComm_t comm = new_nonblocking_comm(me);

    if (me->rank) {
        job_meet(me);
        NCCL_IS(ncclCommFinalize(comm), ncclInProgress);
    } else {
        NCCL_IS(ncclCommFinalize(comm), ncclInProgress);
        job_sleep_ms(30);
        NCCL_IS(async_error(comm), ncclInProgress);
        job_meet(me);
    }
    NCCL(settled(comm));
    NCCL(ncclCommDestroy(comm));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("ranks meet", .ranks = 8, .bare = true, .body = ranks_meet),
        JOB_TEST("threads meet", .ranks = 5, .bare = true, .threads = true, .body = ranks_meet),
        JOB_TEST("bad calls are refused", .ranks = 2, .bare = true, .body = bad_calls_are_refused),
        JOB_TEST("nonblocking init", .ranks = 3, .bare = true, .body = nonblocking_init),
        JOB_TEST("blocking and nonblocking do not mix", .ranks = 2, .bare = true,
                 .body = blocking_and_nonblocking_do_not_mix),
        JOB_TEST("one rank per GPU", .ranks = 2, .bare = true, .body = one_rank_per_gpu),
        JOB_TEST("hosts by name", .ranks = 2, .bare = true, .processes = true, .body = hosts_by_name),
        JOB_TEST("split by color", .ranks = 5, .bare = true, .body = split_by_color),
        JOB_TEST("threads split by color", .ranks = 4, .bare = true, .threads = true, .body = split_by_color),
        JOB_TEST("some without color", .ranks = 4, .bare = true, .body = some_without_color),
        JOB_TEST("split nonblocking", .ranks = 3, .bare = true, .body = split_nonblocking),
        JOB_TEST("a blocking part of a nonblocking one", .ranks = 3, .bare = true, .body = a_blocking_part),
#if NCCL_VERSION_CODE >= 22300
        JOB_TEST("several ids", .ranks = 3, .bare = true, .body = several_ids),
#endif
#if NCCL_VERSION_CODE >= 22800
        JOB_TEST("an older version on request", .ranks = 1, .bare = true, .processes = true,
                 .body = an_older_version_on_request),
#endif
        JOB_TEST("registered memory", .ranks = 2, .bare = true, .body = registered_memory),
        JOB_TEST("finalize waits for all", .ranks = 2, .bare = true, .processes = true,
                 .body = destroy_waits_for_all),
    };

    return JOB_MAIN(tests, argc, argv);
}
