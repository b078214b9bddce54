/* shrink.h - who holds the group that a lead has told of by way of others (spreading.h, shrink.c).  Engine held. */
#ifndef WEFT_GROUP_SHRINK_H
#define WEFT_GROUP_SHRINK_H
#include "context.h"

/* READY or DONE of that lead, which others have passed on, has come: does this rank hold its group now? */
bool weft__shrink_takes(weft_context *ctx, int lead, int type, const void *bytes, size_t length);
/* Those ranks hold the group of that word, which this one, the lead, has spread: it waits for that of READY. */
void weft__shrink_held(weft_context *ctx, const void *word, const unsigned char *ranks);
#endif
