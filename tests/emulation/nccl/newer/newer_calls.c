/* newer_calls.c - operations and forms of calls that came after NCCL 2.19.  A library that says it is 2.19 is
 * built without this folder, so that who looks them up at run time finds none. */
#include "alias.h"
#include "init.h"
#include "operation.h"
#include "version.h"

/* ---- 2.22, 2.23 --------------------------------------------------------------------------------------- */

#if NCCL_VERSION_CODE >= 22200
/* What is collected is not carried out; the time is that of a launch, a guess as NCCL's is. */
ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t *simInfo)
{
    ncclResult_t result = comm_enter(NULL, "ncclGroupSimulateEnd");

    if (!result) result = version_check("ncclGroupSimulateEnd", 22200);
    if (result) return group_note(result);
    if (!simInfo || simInfo->magic != 0x74685283)
        return group_note(fail(ncclInvalidArgument, "ncclGroupSimulateEnd: simInfo was not made by its "
                                                    "initializer"));
    result = group_drop();
    if (!result) simInfo->estimatedTime = 1.0f;
    return result;
}
ALIAS(ncclGroupSimulateEnd)
#endif

#if NCCL_VERSION_CODE >= 22300
ncclResult_t ncclCommInitRankScalable(ncclComm_t *newcomm, int nranks, int myrank, int nId,
                                      ncclUniqueId *commIds, ncclConfig_t *config)
{
    ncclResult_t result = version_check("ncclCommInitRankScalable", 22300);

    if (result) return group_note(result);
    if (nId < 1 || nId > nranks || !commIds)
        return group_note(
            fail(ncclInvalidArgument, "ncclCommInitRankScalable: %d unique ids for %d ranks", nId, nranks));
    return init_on_current(newcomm, nranks, &commIds[0], myrank, config, "ncclCommInitRankScalable");
}
ALIAS(ncclCommInitRankScalable)
#endif

/* ---- 2.28 and later ------------------------------------------------------------------------------------ */

#if NCCL_VERSION_CODE >= 22800
ncclResult_t ncclAlltoAll(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                          ncclComm_t comm, cudaStream_t stream)
{
    ncclResult_t result = version_check("ncclAlltoAll", 22800);

    return result ? group_note(result)
                  : operation_submit(comm,
                                     (task){.kind = TASK_ALL_TO_ALL,
                                            .function = "ncclAlltoAll",
                                            .send = sendbuff,
                                            .recv = recvbuff,
                                            .count = count,
                                            .type = (int)datatype,
                                            .stream = stream},
                                     ncclSum);
}
ALIAS(ncclAlltoAll)

ncclResult_t ncclGather(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root,
                        ncclComm_t comm, cudaStream_t stream)
{
    ncclResult_t result = version_check("ncclGather", 22800);

    return result ? group_note(result)
                  : operation_submit(comm,
                                     (task){.kind = TASK_GATHER,
                                            .function = "ncclGather",
                                            .send = sendbuff,
                                            .recv = recvbuff,
                                            .count = count,
                                            .type = (int)datatype,
                                            .peer = root,
                                            .stream = stream},
                                     ncclSum);
}
ALIAS(ncclGather)

ncclResult_t ncclScatter(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                         int root, ncclComm_t comm, cudaStream_t stream)
{
    ncclResult_t result = version_check("ncclScatter", 22800);

    return result ? group_note(result)
                  : operation_submit(comm,
                                     (task){.kind = TASK_SCATTER,
                                            .function = "ncclScatter",
                                            .send = sendbuff,
                                            .recv = recvbuff,
                                            .count = count,
                                            .type = (int)datatype,
                                            .peer = root,
                                            .stream = stream},
                                     ncclSum);
}
ALIAS(ncclScatter)
#endif
