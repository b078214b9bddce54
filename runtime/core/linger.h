/* linger.h - modules that are polled without works, since other ranks may need them to go on (`lingers` in
 * weft/backend.h).
 *
 * The progress thread does it, which wakes up for that: soon after works were finished, then more and more seldom.  While
 * callers look after the modules that is seldom too. */
#ifndef WEFT_RUNTIME_LINGER_H
#define WEFT_RUNTIME_LINGER_H
#include "context.h"

/* Engine held.  The module has a communicator, or has finished a work. */
void weft__linger(weft_context *ctx, weft__module *module);
int64_t weft__linger_us(weft_context *ctx); /* between two polls; 0: there are none */
/* The progress thread: is a poll due?  The next one is later then. */
bool weft__linger_is_due(weft_context *ctx);

#endif
