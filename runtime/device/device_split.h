/* device_split.h - communicators of the groups that a split makes, split off that of the parent while all its
 * ranks are at it anyway: they share its resources, and need no meeting of their own. */
#ifndef WEFT_RUNTIME_DEVICE_SPLIT_H
#define WEFT_RUNTIME_DEVICE_SPLIT_H
#include "context.h"

/* Has the group a communicator that works?  What this rank tells the others before. */
bool weft__device_split_can(weft_group *parent);
/* Every rank of the parent could, when it was asked, and calls this after split number `number` on it.  made:
 * this rank's group, or NULL.  Engine held; goes on by itself, as an operation on the parent with the
 * parent's deadline: failing breaks the parent, and `made`. */
void weft__device_split(weft_group *parent, uint64_t number, weft_group *made, int color, int key);
#endif
