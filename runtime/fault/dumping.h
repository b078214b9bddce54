/* dumping.h - when what all ranks of this host did last is written down (dump.h); the watchdog sees to it. */
#ifndef WEFT_RUNTIME_DUMPING_H
#define WEFT_RUNTIME_DUMPING_H
#include "context.h"

/* An operation is about to fail because its time is over.  0: its failure can be told; or when to ask again: not before the
 * watchdog has been to weft__dumping_attend, which reads the ranks as they are, or for WEFT__DUMP_WAIT_NS as another one
 * does, and then for that long at most as the file is being written.  Watchdog, engine held. */
int64_t weft__dumping_first(weft_context *ctx, const char *why);
/* Reads what has been asked for, has it written, and takes note of what is.  Returns when to come again at the latest.
 * Watchdog, engine not held. */
int64_t weft__dumping_attend(weft_context *ctx);
/* When the watchdog has let go: sees to what has been asked for, and waits WEFT__DUMP_WAIT_NS at most for its file. */
void weft__dumping_finish(weft_context *ctx);
/* WEFT_DUMP_SIGNAL is listened to while there is a context. */
void weft__dumping_open(void);
void weft__dumping_close(void);
#endif
