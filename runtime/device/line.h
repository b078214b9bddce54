/* line.h - operations of a module whose communicators are independent: they need no order in common with other groups,
 * only their group's own, which is that of their numbers.
 *
 * They stand in line from their beginning, since they may be agreed on in another order, where one agrees by messages and
 * the next in shared memory.  Engine held throughout. */
#ifndef WEFT_RUNTIME_LINE_H
#define WEFT_RUNTIME_LINE_H
#include "device.h"

/* Its module is for host memory, and has no messages between these. */
static inline bool weft__in_line(const weft__device *d)
{
    const weft_backend *backend = d->module->backend;
    return backend->independent && backend->memory == WEFT_MEMORY_HOST && !d->part.splits;
}

void weft__line_join(weft__device *first); /* it begins; a second time does nothing */
/* All of it is agreed on, and it has a communicator: goes on to that once those before it have. */
void weft__line_agreed(weft__device *first);
void weft__line_leave(weft__device *first);
#endif
