/* warn.h - the log line about operations that have waited long for others.  Engine held. */
#ifndef WEFT_RUNTIME_WARN_H
#define WEFT_RUNTIME_WARN_H
#include "request.h"

/* Tells of this request if it is time to.  Returns when to check it again; WEFT__NEVER: it is told of. */
int64_t weft__warn_check(weft_request *req, int64_t now_ns);
#endif
