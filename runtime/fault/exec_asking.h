/* exec_asking.h - the watchdog's side of exec_watch.h: whether ranks of this host are still the programs that they were. */
#ifndef WEFT_RUNTIME_EXEC_ASKING_H
#define WEFT_RUNTIME_EXEC_ASKING_H
#include "context.h"

/* Asks for some of them when it is time; returns when it wants to be called again.  The watchdog, without an engine. */
int64_t weft__exec_asking_attend(weft_context *ctx, int64_t now_ns);
#endif
