/* shrink.h - who holds the group that a lead has told of by way of others (spreading.h, shrink.c).  Engine held. */
#ifndef WEFT_GROUP_SHRINK_H
#define WEFT_GROUP_SHRINK_H
#include "context.h"

/* READY of that lead, which others have passed on, has come: does this rank hold its group now? */
bool weft__shrink_takes(weft_context *ctx, int lead, const void *bytes, size_t length);
/* Those ranks hold the group of that READY, which this one, the lead, has spread. */
void weft__shrink_held(weft_context *ctx, const void *ready, const unsigned char *ranks);
#endif
