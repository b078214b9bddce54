/* redop.h - reductions that a communicator knows: NCCL's own and those that a program makes. */
#ifndef EMULATION_NCCL_REDOP_H
#define EMULATION_NCCL_REDOP_H
#include "comm.h"

ncclResult_t redop_read(ncclComm_t comm, const char *function, ncclRedOp_t op, int type, reduction *how);
#endif
