/* registered.h - memory of the program's that NCCL reaches directly, as it is registered with a communicator. */
#ifndef WEFT_NCCL_REGISTERED_H
#define WEFT_NCCL_REGISTERED_H
#include "communicator.h"

/* Slots of the seam. */
weft_status weft__registered_add(weft__comm *comm, void *at, size_t bytes);
weft_status weft__registered_remove(weft__comm *comm, void *at);

/* The communicator is about to end; what an abort has not taken back is taken back here. */
void weft__registered_leave(weft__comm *comm);
bool weft__registered_any(weft__comm *comm);
#endif
