/* watchdog.h - the process's second thread: deadlines, notices between ranks, and the host engine while the
 * progress thread is inside a call or a callback that blocks.  It owns the ZeroMQ sockets of watchdog_wire.h
 * and takes no part in the fast path: it sleeps until the next deadline or message. */
#ifndef WEFT_RUNTIME_WATCHDOG_H
#define WEFT_RUNTIME_WATCHDOG_H
#include "context.h"

weft_status weft__watchdog_join(weft_context *ctx); /* starts the thread with the first context */
void weft__watchdog_leave(weft_context *ctx);       /* ends it with the last */
/* One that came from that rank.  The watchdog's thread; the engine not held. */
void weft__watchdog_take(void *context, int from, const void *bytes, size_t length);
#endif
