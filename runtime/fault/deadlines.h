/* deadlines.h - the requests of a context whose time is up, or nearly. */
#ifndef WEFT_RUNTIME_DEADLINES_H
#define WEFT_RUNTIME_DEADLINES_H
#include "context.h"

/* Checks every request that runs, and the ranks that are suspected of having died; moves the engine along
 * first.  Afterwards ctx->check_ns tells when the next check is due.  The watchdog's
 * thread, engine not held. */
void weft__deadlines_check(weft_context *ctx);
#endif
