/* rows.h - how the members of a group come to know each other's rows in shared memory.  Engine held.
 *
 * The groups of joining have their rows told while they are made.  The members of all others tell them when
 * their first collective begins: until all have, that operation and those behind it are held. */
#ifndef WEFT_RUNTIME_ROWS_H
#define WEFT_RUNTIME_ROWS_H
#include "group.h"

/* One row of a member, 0 if it has none left.  A group in which one has none does without. */
weft_status weft__rows_open(weft_group *group, const uint64_t *rows);
/* A collective on a group whose rows are not all told yet: held until they are.  It fails like one that runs.
 */
void weft__rows_hold(weft_request *req);
void weft__rows_control(weft_context *ctx, int peer, const void *bytes, size_t length);
/* A rank is gone: groups that still need its row break. */
void weft__rows_gone(weft_context *ctx, int rank, const char *why);
void weft__rows_close(weft_context *ctx);
#endif
