/* alarm.h - asking the watchdog: when it must check, and what it shall tell other ranks.  Any thread; never
 * blocks. */
#ifndef WEFT_RUNTIME_ALARM_H
#define WEFT_RUNTIME_ALARM_H
#include "notice.h"

/* Queue a notice for one rank; NULL: it is gone, and its connection goes too */
void weft__alarm_tell(weft_context *ctx, int rank, const weft__notice *notice);
/* Check this context at that time at the latest. */
void weft__alarm_check(weft_context *ctx, int64_t when_ns);
/* The progress thread begins what it may not come back from soon, a module's call or a callback: check often,
 * to drive the host plane in its place.  Any thread; mostly two loads. */
void weft__alarm_tick(weft_context *ctx);
void weft__alarm_wake(void);
/* Something has failed: what the ranks of this host did last is to be written down; the first one counts. */
void weft__alarm_dump(weft_context *ctx, const char *why);
/* The first half of that, from which on sentences say where it is written; true: the other half has to follow at once, when
 * the records say what has failed, as the watchdog reads them then, or after a pause. */
bool weft__alarm_dump_soon(weft_context *ctx, const char *why);
void weft__alarm_dump_now(weft_context *ctx, int64_t pause_ns);
/* The watchdog's side: the descriptor by which it is woken (-1: none can be made), and sending what has been
 * queued. */
int weft__alarm_fd(void);
void weft__alarm_send(weft_context *ctx);
#endif
