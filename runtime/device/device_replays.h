/* device_replays.h - replays of graphs that have recorded operations of a group.  Engine held throughout. */
#ifndef WEFT_RUNTIME_DEVICE_REPLAYS_H
#define WEFT_RUNTIME_DEVICE_REPLAYS_H
#include "device_comm.h"

void weft__replays_expect(weft__device_comm *dev_comm);       /* a graph is about to record something of it */
int64_t weft__replays_due(weft_context *ctx, int64_t now_ns); /* weft__protocol.due */
/* How many have begun, of all graphs. */
uint64_t weft__replays_begun(const weft_group *group);
#endif
