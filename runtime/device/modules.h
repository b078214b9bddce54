/* modules.h - backends outside the library: loaded, fed by the progress thread. */
#ifndef WEFT_RUNTIME_MODULES_H
#define WEFT_RUNTIME_MODULES_H
#include "request.h"

/* wanted: "host,NAME"; empty: what can run here.  device: -1, or the one to use. */
weft_status weft__modules_load(weft_context *ctx, const char *wanted, int device);
void weft__modules_close(weft_context *ctx);
void weft__module_abandon(weft_request *req); /* engine: its grace is over, settle though the module has it */
int weft__module_turn(weft_context *ctx);     /* progress thread, engine not held */
#endif
