/* heartbeat.h - which hosts live, as their kernels' acknowledgements and those of other hosts' ranks tell (heartbeats.md).
 * WEFT_HEARTBEAT_MS; nothing at all between ranks of one host. */
#ifndef WEFT_FAULT_HEARTBEAT_H
#define WEFT_FAULT_HEARTBEAT_H
#include "protocol.h"

#define WEFT__WATCHDOG_NICE (-10) /* of its thread, where that is allowed */

/* Listens, where it is time to; returns when it is again.  goes_first: this thread has a priority above others; else its limit is
 * wider.  The watchdog's thread, engine not held. */
int64_t weft__heartbeat_attend(weft_context *ctx, bool goes_first, int64_t now_ns);

extern const weft__protocol weft__heartbeat_protocol;
#endif
