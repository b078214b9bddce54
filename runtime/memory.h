/* memory.h - memory that peers on this host read where it lies: mem_alloc's.  Engine held. */
#ifndef WEFT_RUNTIME_MEMORY_H
#define WEFT_RUNTIME_MEMORY_H
#include "context.h"
#include "region.h"

/* The region that holds these bytes, if all members of the group have mapped it; else NULL. */
const weft__region *weft__memory_shared(const weft_group *group, const void *from, size_t bytes);
#endif
