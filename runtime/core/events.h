/* events.h - what the point-to-point layer reports about peers. */
#ifndef WEFT_RUNTIME_EVENTS_H
#define WEFT_RUNTIME_EVENTS_H
#include "context.h"

void weft__events_init(weft_context *ctx);
#endif
