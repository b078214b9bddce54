/* operation.c - the functions that put an operation into the group call: what they refuse, and what is
 * misuse.
 *
 * NCCL itself looks at little more than NULL, types and roots; a host buffer or a foreign stream ends in a
 * fault there, and is told here. */
#include "operation.h"
#include "alias.h"
#include "buffer.h"
#include "group.h"
#include "redop.h"
#include "task.h"
#include "type.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static ncclResult_t check_stream(ncclComm_t comm, const task *t)
{
    cudaStream_t stream = t->stream;
    int device;

    if (!stream || stream == cudaStreamLegacy || stream == cudaStreamPerThread) return ncclSuccess;
    device = emu_stream_device(stream);
    if (device != comm->device) {
        if (device < 0)
            emu_misuse("%s: %p is no stream", t->function, (void *)stream);
        else
            emu_misuse("%s: the stream is of device %d, %s, rank %d, of device %d", t->function, device,
                       comm->name, comm->rank, comm->device);
        return fail(ncclInvalidUsage, "%s: stream of another device, or none", t->function);
    }
    return ncclSuccess;
}

static ncclResult_t check_buffer(ncclComm_t comm, const task *t, const void *at, size_t count,
                                 const char *which)
{
    size_t bytes = count * type_bytes(t->type);
    int device;

    if (!bytes) return ncclSuccess;
    if (!at) return fail(ncclInvalidArgument, "%s: %s is NULL", t->function, which);
    device = emu_device_of(at, bytes);
    if (device == comm->device) return ncclSuccess;
    if (device < 0)
        emu_misuse("%s: %s %p (%zu bytes) is not live device memory", t->function, which, at, bytes);
    else
        emu_misuse("%s: %s %p is memory of device %d, %s, rank %d, of device %d", t->function, which, at,
                   device, comm->name, comm->rank, comm->device);
    return fail(ncclInvalidArgument, "%s: %s is not memory of device %d", t->function, which, comm->device);
}

/* Where recvbuff may lie over sendbuff: as bytes from there. */
static bool is_in_place(ncclComm_t comm, const task *t, ptrdiff_t offset)
{
    ptrdiff_t block = (ptrdiff_t)(t->count * type_bytes(t->type));

    switch (t->kind) {
    case TASK_ALL_REDUCE:
    case TASK_REDUCE:
    case TASK_BROADCAST: return offset == 0;
    case TASK_ALL_GATHER: return offset == -block * comm->rank;
    case TASK_REDUCE_SCATTER: return offset == block * comm->rank;
    case TASK_GATHER: return offset == -block * t->peer;
    case TASK_SCATTER: return offset == block * t->peer;
    default: return false;
    }
}

static ncclResult_t check_overlap(ncclComm_t comm, const task *t)
{
    size_t reads = task_reads(t, comm) * type_bytes(t->type),
           writes = task_writes(t, comm) * type_bytes(t->type);
    uintptr_t send = (uintptr_t)t->send, recv = (uintptr_t)t->recv;

    if (!reads || !writes || send >= recv + writes || recv >= send + reads) return ncclSuccess;
    if (is_in_place(comm, t, (ptrdiff_t)(recv - send))) return ncclSuccess;
    emu_misuse("%s: %zu bytes at sendbuff %p and %zu at recvbuff %p overlap other than in place, %s, rank %d",
               t->function, reads, t->send, writes, t->recv, comm->name, comm->rank);
    return fail(ncclInvalidArgument, "%s: the buffers overlap other than in place", t->function);
}

static bool has_peer(task_kind kind)
{
    return kind == TASK_BROADCAST || kind == TASK_REDUCE || kind == TASK_GATHER || kind >= TASK_SCATTER;
}

/* Also as its other name, of 2.29.7 and later: both kinds of that look at pointers. */
static bool checks_pointers(void)
{
    const char *wanted = getenv("NCCL_CHECK_POINTERS"), *mode = getenv("NCCL_CHECK_MODE");

    return (wanted && !strcmp(wanted, "1")) || (mode && !strncmp(mode, "DEBUG_", strlen("DEBUG_")));
}

/* It wants a buffer also of ranks that have no use for it, but of broadcast and reduce. */
static ncclResult_t check_pointers(ncclComm_t comm, const task *t)
{
    bool root = comm->rank == t->peer;

    if (!checks_pointers() || t->kind >= TASK_SEND) return ncclSuccess;
    if (!t->send && (t->kind != TASK_BROADCAST || root))
        return fail(ncclInvalidArgument, "%s : sendbuff (nil) is not a valid pointer", t->function);
    if (!t->recv && (t->kind != TASK_REDUCE || root))
        return fail(ncclInvalidArgument, "%s : recvbuff (nil) is not a valid pointer", t->function);
    return ncclSuccess;
}

static ncclResult_t check(ncclComm_t comm, task *t, ncclRedOp_t op)
{
    ncclResult_t result = ncclSuccess;

    if (atomic_load(&comm->state) != COMM_READY)
        return fail(ncclInvalidUsage, "%s: %s was revoked or finalized", t->function, comm->name);
    if (!type_bytes(t->type)) return fail(ncclInvalidArgument, "%s: invalid type %d", t->function, t->type);
    if (has_peer(t->kind) && (t->peer < 0 || t->peer >= comm->ranks))
        return fail(ncclInvalidArgument, "%s: invalid root or peer %d (there are %d ranks)", t->function,
                    t->peer, comm->ranks);
    if (t->kind == TASK_ALL_REDUCE || t->kind == TASK_REDUCE || t->kind == TASK_REDUCE_SCATTER)
        result = redop_read(comm, t->function, op, t->type, &t->how);
    if (!result) result = check_pointers(comm, t);
    if (!result) result = check_buffer(comm, t, t->send, task_reads(t, comm), "sendbuff");
    if (!result) result = check_buffer(comm, t, t->recv, task_writes(t, comm), "recvbuff");
    if (!result) result = check_overlap(comm, t);
    return result ? result : check_stream(comm, t);
}

/* Some kernels find the other ranks' buffers by this rank's offsets: read their input there, write their output.
 * What counts about the other buffer is only whether it is in a window, for the kernel is chosen by that. */
static void note_offsets(ncclComm_t comm, task *t)
{
    size_t item = type_bytes(t->type);

    if (t->kind != TASK_ALL_REDUCE && t->kind != TASK_ALL_GATHER && t->kind != TASK_REDUCE_SCATTER) return;
    t->send_offset = buffer_offset(comm, t->send, task_reads(t, comm) * item);
    t->recv_offset = buffer_offset(comm, t->recv, task_writes(t, comm) * item);
    if (t->kind == TASK_ALL_GATHER) t->send_offset = t->send_offset != 0;
    if (t->kind == TASK_REDUCE_SCATTER) t->recv_offset = t->recv_offset != 0;
}

/* Collectives of nothing are dropped here, as in NCCL. */
static ncclResult_t put(ncclComm_t comm, const task *asked)
{
    task *t;

    if (!asked->count && asked->kind < TASK_SEND) return ncclSuccess;
    t = malloc(sizeof *t);
    if (!t) return fail(ncclSystemError, "no memory");
    *t = *asked;
    note_offsets(comm, t);
    group_add_comm(comm);
    task_append(comm, t);
    return ncclSuccess;
}

static ncclResult_t submit(ncclComm_t comm, task asked, ncclRedOp_t op)
{
    ncclResult_t result = comm_begin(comm, asked.function);

    if (result) return group_note(result);
    group_begin();
    result = check(comm, &asked, op);
    if (!result) result = put(comm, &asked);
    comm_end(comm);
    group_note(result);
    ncclResult_t ended = group_end();
    return result ? result : ended;
}

ncclResult_t operation_submit(ncclComm_t comm, task asked, ncclRedOp_t op)
{
    ncclResult_t result;

    emu_inside_nccl();
    result = submit(comm, asked, op);
    emu_outside_nccl();
    return result;
}

ncclResult_t ncclAllReduce(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    return operation_submit(comm,
                            (task){.kind = TASK_ALL_REDUCE,
                                   .function = "ncclAllReduce",
                                   .send = sendbuff,
                                   .recv = recvbuff,
                                   .count = count,
                                   .type = (int)datatype,
                                   .stream = stream},
                            op);
}
ALIAS(ncclAllReduce)

ncclResult_t ncclReduce(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream)
{
    return operation_submit(comm,
                            (task){.kind = TASK_REDUCE,
                                   .function = "ncclReduce",
                                   .send = sendbuff,
                                   .recv = recvbuff,
                                   .count = count,
                                   .type = (int)datatype,
                                   .peer = root,
                                   .stream = stream},
                            op);
}
ALIAS(ncclReduce)

ncclResult_t ncclReduceScatter(const void *sendbuff, void *recvbuff, size_t recvcount,
                               ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    return operation_submit(comm,
                            (task){.kind = TASK_REDUCE_SCATTER,
                                   .function = "ncclReduceScatter",
                                   .send = sendbuff,
                                   .recv = recvbuff,
                                   .count = recvcount,
                                   .type = (int)datatype,
                                   .stream = stream},
                            op);
}
ALIAS(ncclReduceScatter)

ncclResult_t ncclBroadcast(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                           int root, ncclComm_t comm, cudaStream_t stream)
{
    return operation_submit(comm,
                            (task){.kind = TASK_BROADCAST,
                                   .function = "ncclBroadcast",
                                   .send = sendbuff,
                                   .recv = recvbuff,
                                   .count = count,
                                   .type = (int)datatype,
                                   .peer = root,
                                   .stream = stream},
                            ncclSum);
}
ALIAS(ncclBroadcast)

ncclResult_t ncclBcast(void *buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                       cudaStream_t stream)
{
    return operation_submit(comm,
                            (task){.kind = TASK_BROADCAST,
                                   .function = "ncclBcast",
                                   .send = buff,
                                   .recv = buff,
                                   .count = count,
                                   .type = (int)datatype,
                                   .peer = root,
                                   .stream = stream},
                            ncclSum);
}
ALIAS(ncclBcast)

ncclResult_t ncclAllGather(const void *sendbuff, void *recvbuff, size_t sendcount, ncclDataType_t datatype,
                           ncclComm_t comm, cudaStream_t stream)
{
    return operation_submit(comm,
                            (task){.kind = TASK_ALL_GATHER,
                                   .function = "ncclAllGather",
                                   .send = sendbuff,
                                   .recv = recvbuff,
                                   .count = sendcount,
                                   .type = (int)datatype,
                                   .stream = stream},
                            ncclSum);
}
ALIAS(ncclAllGather)

ncclResult_t ncclSend(const void *sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    return operation_submit(comm,
                            (task){.kind = TASK_SEND,
                                   .function = "ncclSend",
                                   .send = sendbuff,
                                   .count = count,
                                   .type = (int)datatype,
                                   .peer = peer,
                                   .stream = stream},
                            ncclSum);
}
ALIAS(ncclSend)

ncclResult_t ncclRecv(void *recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    return operation_submit(comm,
                            (task){.kind = TASK_RECV,
                                   .function = "ncclRecv",
                                   .recv = recvbuff,
                                   .count = count,
                                   .type = (int)datatype,
                                   .peer = peer,
                                   .stream = stream},
                            ncclSum);
}
ALIAS(ncclRecv)
