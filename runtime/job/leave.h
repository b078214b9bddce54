/* leave.h - the process's contexts, from joining to leaving: exit, fork, and taking a context apart. */
#ifndef WEFT_RUNTIME_LEAVE_H
#define WEFT_RUNTIME_LEAVE_H
#include "context.h"

void weft__lifetime_begin(void); /* once: what happens in a forked child, and that the library stays */
/* One more that is open, its modules loaded: left at exit unless it has been left before. */
void weft__lifetime_add(weft_context *ctx);
/* One check of a context that is closing: true, all has settled, and all goodbyes, with that word, are taken.
 * moved: how much happened. */
bool weft__leave_check(weft_context *ctx, const char *why, int *moved);
/* Stops the threads and frees everything, however far joining had come. */
void weft__context_free(weft_context *ctx);
#endif
