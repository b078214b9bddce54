/* recording.h - the flight recorder of a context: where its file lies, and what becomes of it. */
#ifndef WEFT_RUNTIME_RECORDING_H
#define WEFT_RUNTIME_RECORDING_H
#include "context.h"

/* Once rank, world and directory are known.  Where there can be none the context goes without, and the log says why. */
void weft__recording_open(weft_context *ctx, const char *job);
/* The rank has left the job: its file stays if something has failed, else it goes; its memory stays. */
void weft__recording_leave(weft_context *ctx);
void weft__recording_close(weft_context *ctx); /* nobody writes any more */
#endif
