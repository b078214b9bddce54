/* rows.h - how the members of a group come to know each other's rows in shared memory.  Engine held.
 *
 * The groups of joining have their rows told while they are made.  The members of all others tell them when
 * their first collective begins: until all have, that operation and those behind it are held. */
#ifndef WEFT_RUNTIME_ROWS_H
#define WEFT_RUNTIME_ROWS_H
#include "group.h"
#include "protocol.h"

uint64_t weft__row_claim(weft_context *ctx); /* for a group to be; 0: there is none */
/* The row of each member, 0 if it has none left, of a group that is ready and has not been used.  A group in
 * which one has none does without. */
weft_status weft__rows_told(weft_group *group, const uint64_t *rows);
/* A collective on a group whose rows are not all told yet: held until they are.  It fails like one that runs.
 */
void weft__rows_hold(weft_request *req);

extern const weft__protocol weft__rows_protocol;
#endif
