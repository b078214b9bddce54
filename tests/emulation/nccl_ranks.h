/* nccl_ranks.h - what the tests of the emulated NCCL share: a rank with a device, a stream and a
 * communicator. Ranks are processes or threads, by job.h; Weft itself plays no part. */
#ifndef TESTS_EMULATION_NCCL_RANKS_H
#define TESTS_EMULATION_NCCL_RANKS_H
#include "emulation.h"
#include "job.h"

#include <nccl.h>
#include <string.h>

#define NCCL(call)           CHECK_INT(call, ncclSuccess)
#define NCCL_IS(call, error) CHECK_INT(call, error)
#define CUDA(call)           CHECK_INT(call, cudaSuccess)

enum { ID_WORDS = sizeof(ncclUniqueId) / sizeof(int64_t), FREE_RESULT = ID_WORDS };

/* Gives all ranks one id, made by rank 0. */
static inline ncclUniqueId shared_id(job_rank *me)
{
    ncclUniqueId id;

    job_meet(me); /* the last one has been read */
    if (!me->rank) {
        NCCL(ncclGetUniqueId(&id));
        memcpy(job_results(me, 0), &id, sizeof id);
    }
    job_meet(me);
    memcpy(&id, job_results(me, 0), sizeof id);
    return id;
}

static inline cudaStream_t new_stream(const job_rank *me)
{
    cudaStream_t stream;

    CUDA(cudaSetDevice(me->rank));
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

static inline ncclComm_t new_comm(job_rank *me)
{
    ncclUniqueId id = shared_id(me);
    ncclComm_t comm = NULL;

    CUDA(cudaSetDevice(me->rank));
    NCCL(ncclCommInitRank(&comm, me->size, id, me->rank));
    return comm;
}

static inline ncclResult_t async_error(ncclComm_t comm)
{
    ncclResult_t error = ncclInternalError;

    NCCL(ncclCommGetAsyncError(comm, &error));
    return error;
}

/* Until it is no longer in progress. */
static inline ncclResult_t settled(ncclComm_t comm)
{
    ncclResult_t error;

    for (int ms = 0; (error = async_error(comm)) == ncclInProgress && ms < JOB_WAIT_MS; ms++) job_sleep_ms(1);
    return error;
}

static inline ncclComm_t new_nonblocking_comm(job_rank *me)
{
    ncclUniqueId id = shared_id(me);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t comm = NULL;

    config.blocking = 0;
    CUDA(cudaSetDevice(me->rank));
    NCCL_IS(ncclCommInitRankConfig(&comm, me->size, id, me->rank, &config), ncclInProgress);
    NCCL(settled(comm));
    return comm;
}

/* Device memory with what lies at from; NULL: zeros. */
static inline void *to_device(const void *from, size_t bytes)
{
    void *made = NULL;

    CUDA(cudaMalloc(&made, bytes));
    CUDA(from ? cudaMemcpy(made, from, bytes, cudaMemcpyHostToDevice) : cudaMemset(made, 0, bytes));
    CUDA(cudaStreamSynchronize(NULL)); /* other streams do not wait for it */
    return made;
}

static inline void to_host(void *to, const void *from, size_t bytes, cudaStream_t stream)
{
    CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream));
    CUDA(cudaStreamSynchronize(stream));
}

static inline bool stream_ends(cudaStream_t stream, int ms)
{
    while (cudaStreamQuery(stream) == cudaErrorNotReady) {
        if (ms-- <= 0) return false;
        job_sleep_ms(1);
    }
    return true;
}
#endif
