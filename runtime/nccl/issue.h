/* issue.h - works become calls of NCCL in one group call, on their communicator's stream. */
#ifndef WEFT_NCCL_ISSUE_H
#define WEFT_NCCL_ISSUE_H
#include "communicator.h"

/* Slots of the seam; progress thread. */
void weft__issue_start(weft_backend *backend, weft_backend_work *first);
int weft__issue_poll(weft_backend *backend);
#endif
