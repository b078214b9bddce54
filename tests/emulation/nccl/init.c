/* init.c - communicators from unique ids.
 *
 * Blocking: returns when all ranks have come.  Nonblocking: ncclInProgress at once, a thread waits for them,
 * and ncclCommGetAsyncError tells; the handle is there from the start, to poll and to abort. */
#include "init.h"
#include "alias.h"

#include <stdlib.h>

static ncclResult_t run_init(job *j)
{
    ncclResult_t result = comm_enter(j->comm, j->function);

    return result ? result : comm_meet(j->comm);
}

ncclResult_t init_queue(ncclComm_t comm, ncclComm_t *made, const char *function)
{
    job *j = comm ? calloc(1, sizeof *j) : NULL;

    if (!j) return fail(ncclSystemError, "no memory");
    comm_hold(comm);
    *j = (job){.run = run_init, .function = function, .comm = comm, .made = made};
    *made = comm;
    return group_add_job(j);
}

static ncclResult_t check(const ncclComm_t *comm, int ranks, int rank, const ncclConfig_t *config,
                          const char *function)
{
    if (!comm) return fail(ncclInvalidArgument, "%s: comm is NULL", function);
    if (ranks < 1 || rank < 0 || rank >= ranks)
        return fail(ncclInvalidArgument, "%s: Invalid rank requested : %d/%d", function, rank, ranks);
    if (ranks > SEGMENT_RANKS_MAX)
        return fail(ncclInvalidArgument, "%s: %d ranks; the emulation has at most %d", function, ranks,
                    SEGMENT_RANKS_MAX);
    if (!config_check(config))
        return fail(ncclInvalidArgument,
                    "%s: config was not made by NCCL_CONFIG_INITIALIZER, or its blocking is "
                    "neither 0 nor 1",
                    function);
    return ncclSuccess;
}

static ncclResult_t init_rank(ncclComm_t *comm, int ranks, const ncclUniqueId *id, int rank, int device,
                              const ncclConfig_t *config, const char *function)
{
    ncclResult_t result = check(comm, ranks, rank, config, function);
    meeting_id place;
    ncclComm_t made;

    if (!result) result = meeting_id_read(id, &place);
    if (result) return result;
    made = comm_new(rank, ranks, device, config, NULL);
    if (made) made->id = place;
    return init_queue(made, comm, function);
}

ncclResult_t init_on_current(ncclComm_t *comm, int ranks, const ncclUniqueId *id, int rank,
                             const ncclConfig_t *config, const char *function)
{
    ncclResult_t result, ended;
    int device;
    cudaError_t error = cudaGetDevice(&device);

    group_begin();
    result = error ? fail_cuda(error, function) : init_rank(comm, ranks, id, rank, device, config, function);
    group_note(result);
    ended = group_end();
    return result ? result : ended;
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank)
{
    return init_on_current(comm, nranks, &commId, rank, NULL, "ncclCommInitRank");
}
ALIAS(ncclCommInitRank)

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank,
                                    ncclConfig_t *config)
{
    return init_on_current(comm, nranks, &commId, rank, config, "ncclCommInitRankConfig");
}
ALIAS(ncclCommInitRankConfig)

static ncclResult_t check_devices(int ndev, const int *devlist)
{
    int count = 0;
    cudaError_t error = cudaGetDeviceCount(&count);

    if (error) return fail_cuda(error, "ncclCommInitAll");
    for (int i = 0; i < ndev; i++) {
        int device = devlist ? devlist[i] : i;
        if (device < 0 || device >= count)
            return fail(ncclInvalidArgument, "ncclCommInitAll: device %d of %d", device, count);
        for (int j = 0; devlist && j < i; j++)
            if (devlist[j] == device)
                return fail(ncclInvalidUsage, "ncclCommInitAll: device %d is listed twice", device);
    }
    return ncclSuccess;
}

ncclResult_t ncclCommInitAll(ncclComm_t *comm, int ndev, const int *devlist)
{
    ncclResult_t result = comm_enter(NULL, "ncclCommInitAll"), ended;
    ncclUniqueId id;

    if (result) return result;
    if (!comm || ndev < 1) return fail(ncclInvalidArgument, "ncclCommInitAll: %d devices", ndev);
    result = check_devices(ndev, devlist);
    if (!result) result = ncclGetUniqueId(&id);
    if (result) return result;
    group_begin();
    for (int i = 0; i < ndev && !result; i++)
        result =
            group_note(init_rank(&comm[i], ndev, &id, i, devlist ? devlist[i] : i, NULL, "ncclCommInitAll"));
    ended = group_end();
    return result ? result : ended;
}
ALIAS(ncclCommInitAll)
