/* dumping.h - when what all ranks of this host did last is written down (dump.h), and by whom: the watchdog. */
#ifndef WEFT_RUNTIME_DUMPING_H
#define WEFT_RUNTIME_DUMPING_H
#include "context.h"

/* An operation is about to fail because its time is over.  True: its failure can be told.  False: not before the watchdog
 * has been to weft__dumping_attend, so that the ranks are seen as they were.  Engine held. */
bool weft__dumping_first(weft_context *ctx, const char *why);
/* Writes what has been asked for.  Watchdog, engine not held. */
void weft__dumping_attend(weft_context *ctx);
/* WEFT_DUMP_SIGNAL is listened to while there is a context. */
void weft__dumping_open(void);
void weft__dumping_close(void);
#endif
