/* breaks.h - what ranks tell each other of broken groups. */
#ifndef WEFT_RUNTIME_BREAKS_H
#define WEFT_RUNTIME_BREAKS_H
#include "context.h"
#include "protocol.h"

/* Before a goodbye: tells the members of all groups that have broken here.  Engine held. */
void weft__breaks_repeat(weft_context *ctx);

extern const weft__protocol weft__breaks_protocol;
#endif
