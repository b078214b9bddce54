/* modules.h - backends outside the library: loaded, fed by the progress thread or by who waits. */
#ifndef WEFT_RUNTIME_MODULES_H
#define WEFT_RUNTIME_MODULES_H
#include "request.h"

extern const weft_backend_runtime weft__modules_table; /* what modules call */

/* module_load.c.  wanted: "host,NAME"; empty: what can run here.  device: -1, or the one to use.  host: what modules are given. */
weft_status weft__modules_load(weft_context *ctx, const char *wanted, int device,
                               const weft_backend_host *host);
/* The ranks have told what they have; cards: of each rank of the world. */
void weft__modules_met(weft_context *ctx, const weft__module_card *cards);
/* Requests that were given up may still be with modules.  False: they are then too, and a thread may come
 * back to the context. */
bool weft__modules_await(weft_context *ctx, int64_t until_ns);
void weft__modules_leave_host(weft_context *ctx); /* groups and requests go next */
void weft__modules_close(weft_context *ctx);
void weft__module_recorded(weft_context *ctx, const weft__module *module,
                           weft__record_event what); /* engine */
void weft__module_abandon(weft_request *req); /* engine: its grace is over, settle though the module has it */
/* Progress thread, engine not held.  -1: the thread was given up meanwhile, and another has its place. */
int weft__module_progress(weft_context *ctx);
int weft__module_progress_by_caller(weft_context *ctx, int64_t now_ns);
#endif
