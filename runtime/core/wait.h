/* wait.h - waiting for one request, driving the engine meanwhile. */
#ifndef WEFT_RUNTIME_WAIT_H
#define WEFT_RUNTIME_WAIT_H
#include "request.h"

/* The final status, or WEFT_PENDING when the deadline has passed. */
weft_status weft__wait_until(weft_request *req, int64_t deadline_ns);
/* Some passes over everything, for one request, by the holder of the engine: has it settled? */
bool weft__wait_inside(weft_request *req);
#endif
