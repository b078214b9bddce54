/* shrink.h - shrink_group's protocol: what its messages and the ends of ranks do.  Engine held. */
#ifndef WEFT_RUNTIME_SHRINK_H
#define WEFT_RUNTIME_SHRINK_H
#include "group.h"

void weft__shrink_control(weft_context *ctx, int peer, int type, const void *bytes, size_t length);
void weft__shrink_gone(weft_context *ctx, int rank);
void weft__shrink_close(weft_context *ctx);
#endif
