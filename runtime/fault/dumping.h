/* dumping.h - when what all ranks of this host did last is written down (dump.h), and by whom: the watchdog. */
#ifndef WEFT_RUNTIME_DUMPING_H
#define WEFT_RUNTIME_DUMPING_H
#include "context.h"

/* An operation is about to fail because its time is over.  True: its failure can be told, with the words of
 * weft__dumping_where behind it.  False: not before the watchdog has been to weft__dumping_attend.  Engine held. */
bool weft__dumping_first(weft_context *ctx, const char *why);
/* "; recorded in FILE": behind a sentence, if there is room; nothing where nothing was written.  Guardian. */
void weft__dumping_where(const weft_context *ctx, char *text, size_t bytes);
/* What has been asked for.  Guardian, engine not held. */
void weft__dumping_attend(weft_context *ctx);
/* WEFT_DUMP_SIGNAL is listened to while there is a context. */
void weft__dumping_open(void);
void weft__dumping_close(void);
#endif
