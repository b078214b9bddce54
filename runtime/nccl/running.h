/* running.h - what is issued, from there to its end. */
#ifndef WEFT_NCCL_RUNNING_H
#define WEFT_NCCL_RUNNING_H
#include "communicator.h"

/* Progress thread: what has been issued, by whomever, is looked after from now on. */
void weft__running_take_in(weft__nccl *nccl);

int weft__running_poll(weft__nccl *nccl); /* progress thread; how many works, or chains of them, have ended */
/* Slot of the seam; any thread. */
weft_status weft__running_order(weft_backend *backend, weft_backend_work *work, void *stream);
#endif
