/* transfer.h - bytes between this rank and another, several at a time, and the frame by which both ends see
 * that they mean the same operation. */
#ifndef EMULATION_NCCL_TRANSFER_H
#define EMULATION_NCCL_TRANSFER_H
#include "task.h"

typedef struct frame { /* compared as bytes: no padding */
    uint32_t kind, type;
    uint64_t number; /* of the collective on its communicator, or of the message between these two */
    uint64_t count;
    uint32_t reduction;
    int32_t root;
    uint32_t index, of;
    uint64_t send_offset, recv_offset;
} frame;

typedef struct transfer {
    struct transfer *next; /* of the same peer and direction */
    int peer;
    bool sends;
    bool framed;  /* the frame goes first */
    bool differs; /* what came is something else: no more comes */
    frame head;
    char *at;
    size_t bytes, moved;
} transfer;

frame frame_of(const task *t, uint64_t number);
/* Several lanes at once, each in its order; empties them.  False: aborted. */
bool transfers_run(ncclComm_t comm, transfer **lanes, int count);
#endif
