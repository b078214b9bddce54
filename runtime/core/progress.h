/* progress.h - the thread that drives the engine when no caller does, and runs callbacks and modules. */
#ifndef WEFT_RUNTIME_PROGRESS_H
#define WEFT_RUNTIME_PROGRESS_H
#include "context.h"

weft_status weft__progress_start(weft_context *ctx);
/* Its thread does not come back out of a module: another one takes its place. */
void weft__progress_replace(weft_context *ctx);
void weft__progress_stop(weft_context *ctx);
#endif
