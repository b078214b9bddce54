/* breaks.h - what ranks tell each other of broken groups. */
#ifndef WEFT_RUNTIME_BREAKS_H
#define WEFT_RUNTIME_BREAKS_H
#include "context.h"
#include "group.h"
#include "protocol.h"

/* Before a goodbye: tells the members of all groups that have broken here.  Engine held. */
void weft__breaks_repeat(weft_context *ctx);
/* Whom this rank does not reach it cannot tell either: of the members that reach both one is asked to pass it on, that which
 * has heard the culprit's host if it is one of them.  -1: it is no such break, or there is none. */
int weft__break_passer(const weft_group *group);

extern const weft__protocol weft__breaks_protocol;
#endif
