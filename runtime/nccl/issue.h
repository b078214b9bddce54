/* issue.h - works become calls of NCCL in one group call, on their communicator's stream: by the progress thread, or
 * by the caller's where they are in program order. */
#ifndef WEFT_NCCL_ISSUE_H
#define WEFT_NCCL_ISSUE_H
#include "communicator.h"

/* Slots of the seam; progress thread. */
void weft__issue_start(weft_backend *backend, weft_backend_work *first);
int weft__issue_poll(weft_backend *backend);
/* The caller's thread. */
bool weft__issue_enter(weft_backend *backend, weft_backend_work *first);
void weft__issue_entered(weft_backend *backend, weft_backend_work *first);
#endif
