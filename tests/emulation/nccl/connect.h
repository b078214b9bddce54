/* connect.h - the connections that ranks make when they first go a way, in the call that goes there. */
#ifndef EMULATION_NCCL_CONNECT_H
#define EMULATION_NCCL_CONNECT_H
#include "comm.h"

/* Shows the others where the tasks of this group call want to go that none went before. */
void connect_show(ncclComm_t comm);
/* After that: until those who are needed want the same; ncclInternalError: aborted before. */
ncclResult_t connect_await(ncclComm_t comm);
#endif
