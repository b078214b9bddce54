/* at_exit.h - what must be over before CUDA takes itself down. */
#ifndef WEFT_NCCL_AT_EXIT_H
#define WEFT_NCCL_AT_EXIT_H
#include "module.h"

/* From open on, with CUDA initialised; until it is closed, which one whose device hangs never is. */
void weft__at_exit_add(weft__nccl *nccl);
void weft__at_exit_remove(weft__nccl *nccl);
/* Aborts what has come so late, into being after the abort of its communicator or to its end, that the process may be
 * exiting by now: then it is left to that, for NCCL may have been taken down. */
ncclResult_t weft__at_exit_abort(ncclComm_t late);
#endif
