/* operation.h - the one way into a group call for all operations. */
#ifndef EMULATION_NCCL_OPERATION_H
#define EMULATION_NCCL_OPERATION_H
#include "task.h"

/* Says that the call was made, carries out its script, checks it and collects it.  op
 * counts for reductions. */
ncclResult_t operation_submit(ncclComm_t comm, task asked, ncclRedOp_t op);
#endif
