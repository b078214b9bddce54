/* picture.h - the timelines of a host's ranks as one SVG: time to the right; for each rank a lane of what it
 * computed, one of what was in flight, one of what was exposed. */
#ifndef TRAIN_PICTURE_H
#define TRAIN_PICTURE_H
#include "layout.h"
#include "timeline.h"

/* Called by all ranks, with the timelines of some steps.  World rank 0 picks the one that took it a median
 * time, gathers it from its host, whose ranks share a clock, and writes the file. */
void picture_write(const char *path, const struct layout *layout, const struct timeline *own, size_t steps);
#endif
