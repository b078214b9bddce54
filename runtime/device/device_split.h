/* device_split.h - communicators of the groups that a split makes, split off that of the parent while all its
 * ranks are at it anyway: they share its resources, and need no meeting of their own. */
#ifndef WEFT_RUNTIME_DEVICE_SPLIT_H
#define WEFT_RUNTIME_DEVICE_SPLIT_H
#include "context.h"

/* The modules of which the group has a communicator that works and can be split?  A bit for each kind of memory: what
 * this rank tells the others before. */
uint32_t weft__device_split_can(weft_group *parent);
/* Every rank of the parent could, when it was asked, that of the module of memory, and calls this after split number
 * `number` on it.  made:
 * this rank's group, or NULL.  Engine held; goes on by itself, as an operation on the parent with the
 * parent's deadline: failing breaks the parent, and `made`. */
void weft__device_split(weft_group *parent, weft_memory memory, uint64_t number, weft_group *made, int color,
                        int key);
#endif
