/* slot_exchange.h - how the members of a group come to know each other's slots in shared memory.  Engine
 * held.
 *
 * The groups of joining have their slots told while they are made.  The members of all others tell them when
 * their first collective begins: until all have, that operation and those behind it are held. */
#ifndef WEFT_RUNTIME_SLOT_EXCHANGE_H
#define WEFT_RUNTIME_SLOT_EXCHANGE_H
#include "group.h"
#include "protocol.h"

uint64_t weft__slots_claim(weft_context *ctx); /* for a group to be; 0: there is none */
/* The slots of each member, 0 if it has none left, of a group that is ready and has not been used.  A group
 * in which one has none does without. */
weft_status weft__slots_told(weft_group *group, const uint64_t *slots);
/* A collective on a group whose slots are not all told yet: held until they are.  It fails like one that
 * runs. */
void weft__slot_exchange_hold(weft_request *req);

extern const weft__protocol weft__slot_exchange_protocol;
#endif
