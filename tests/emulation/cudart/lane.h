/* lane.h - hardware queues that streams share.
 *
 * CUDA_DEVICE_MAX_CONNECTIONS says how many a device has; streams go to them in turn, those of another priority to others,
 * but for a single one, which is that of all (as seen on an H200: tests/gpu/results.md).  A queue takes up what was
 * queued on its streams in the order of queueing: an entry whose stream has not come to it, or that waits, holds up all
 * behind it, also other streams'.  What runs does not.  Where the variable is not set no streams share one, which is more
 * than a device has. */
#ifndef EMULATION_LANE_H
#define EMULATION_LANE_H
#include <stdbool.h>
#include <stdint.h>

typedef struct emu__lane {
    uint64_t queued, taken; /* entries */
} emu__lane;

/* All under the lock. */

/* For a new stream; NULL: it shares none. */
emu__lane *emu__lane_choose(int device, int priority);
bool emu__lane_is_empty(const emu__lane *lane);
uint64_t emu__lane_queue(emu__lane *lane);                   /* the place of an entry */
void emu__lane_await(const emu__lane *lane, uint64_t place); /* lets go of the lock meanwhile */
void emu__lane_take(emu__lane *lane);                        /* the first entry is taken up */
#endif
