/* board.h - host work in which all ranks of a communicator take part: each shows a notice to all. */
#ifndef EMULATION_NCCL_BOARD_H
#define EMULATION_NCCL_BOARD_H
#include "comm.h"

typedef struct board_note { /* fits a notice of the segment */
    char function[32];
    int values[2];
    uint64_t bytes;
} board_note;

/* Shows mine and waits for those of all ranks, in all[rank], or until the communicator is aborted or given_up
 * (which may be NULL) is set.  A rank that calls another function is misuse. */
ncclResult_t board_exchange(ncclComm_t comm, const board_note *mine, board_note *all,
                            const atomic_bool *given_up);
#endif
