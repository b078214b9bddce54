/* task.h - one operation as it was asked for: what a group call collects and a kernel carries out. */
#ifndef EMULATION_NCCL_TASK_H
#define EMULATION_NCCL_TASK_H
#include "comm.h"

typedef enum {
    TASK_ALL_REDUCE,
    TASK_BROADCAST,
    TASK_REDUCE,
    TASK_ALL_GATHER,
    TASK_REDUCE_SCATTER,
    TASK_ALL_TO_ALL, /* from here on: messages between pairs */
    TASK_GATHER,
    TASK_SCATTER,
    TASK_SEND, /* from here on: not for all ranks */
    TASK_RECV
} task_kind;

typedef struct task {
    struct task *next;
    task_kind kind;
    const char *function;
    const void *send;
    void *recv;
    size_t count;
    int type;
    int peer; /* or root */
    reduction how;
    cudaStream_t stream;
    uint64_t number;                   /* collectives: the how manieth of its communicator, */
    uint32_t index, of;                /* and of its group call */
    uint64_t send_offset, recv_offset; /* in a symmetric window, as buffer_offset counts them */
} task;

/* Elements that this rank reads at send and writes at recv. */
size_t task_reads(const task *t, const struct ncclComm *comm);
size_t task_writes(const task *t, const struct ncclComm *comm);

void task_append(ncclComm_t comm, task *t);
void task_drop_all(ncclComm_t comm);

/* One kernel for all tasks of the communicator, which it takes. */
ncclResult_t launch(ncclComm_t comm);

/* In the kernel; false: aborted. */
bool collective_run(ncclComm_t comm, task *t);
bool pairs_run(ncclComm_t comm, task *tasks); /* all that are between pairs, at once */
#endif
