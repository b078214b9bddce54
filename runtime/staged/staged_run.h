/* staged_run.h - carries works out: slots of the seam. */
#ifndef WEFT_STAGED_RUN_H
#define WEFT_STAGED_RUN_H
#include "staged_comm.h"

void weft__staged_start(weft_backend *backend, weft_backend_work *first);
int weft__staged_poll(weft_backend *backend);
weft_status weft__staged_order(weft_backend *backend, weft_backend_work *work, void *stream);
#endif
