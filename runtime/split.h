/* split.h - split_group's second half: the group that follows from the colours. */
#ifndef WEFT_RUNTIME_SPLIT_H
#define WEFT_RUNTIME_SPLIT_H
#include "request.h"

void weft__split_finish(
    weft_request *req);                   /* its all_gather is there: makes the group, settles; engine held */
void weft__split_free(weft_request *req); /* with the request */
#endif
