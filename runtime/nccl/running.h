/* running.h - what is issued, from there to its end. */
#ifndef WEFT_NCCL_RUNNING_H
#define WEFT_NCCL_RUNNING_H
#include "communicator.h"

/* Progress thread: the works of `end`, a chain, are on comm's stream; or, where end->cut, perhaps. */
void weft__running_add(weft__comm *comm, weft__event *end);

int weft__running_poll(weft__nccl *nccl); /* progress thread; how many works, or chains of them, have ended */
/* Slot of the seam; any thread. */
weft_status weft__running_order(weft_backend *backend, weft_backend_work *work, void *stream);
#endif
