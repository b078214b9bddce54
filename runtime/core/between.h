/* between.h - of two ranks that do not hear each other: who hears both.  Under the engine. */
#ifndef WEFT_CORE_BETWEEN_H
#define WEFT_CORE_BETWEEN_H
#include "context.h"

/* This rank does not hear `rank`, and another one does: that one, as far as is known here; where it is not reached any more, one beside
 * `rank` to which this rank has a connection, or the first of a third host.  -1: none, or this rank hears it. */
int weft__between(const weft_context *ctx, int rank);
#endif
