/* calls.h - which calls of NCCL make one operation. */
#ifndef WEFT_NCCL_CALLS_H
#define WEFT_NCCL_CALLS_H
#include "communicator.h"

/* Inside a group call, with the turn: those of one work.  What the first call to fail returned. */
const char *weft__calls_name(weft_backend_kind kind); /* "ncclAllReduce": for messages */
ncclResult_t weft__calls_make(weft__comm *comm, const weft_backend_work *work);
#endif
