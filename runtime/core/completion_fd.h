/* completion_fd.h - the descriptor that becomes readable when a request of a context settles. */
#ifndef WEFT_RUNTIME_COMPLETION_FD_H
#define WEFT_RUNTIME_COMPLETION_FD_H
#include "check.h"

#include <stdatomic.h>
#include <stdint.h>

typedef struct weft__completion_fd {
    _Atomic int fd;        /* an eventfd; -1: nobody has asked for it */
    _Atomic uint32_t word; /* bits of completion_fd.c: what it should be, and what it is */
} weft__completion_fd;

void weft__completion_fd_init(weft__completion_fd *c);
void weft__completion_fd_close(weft__completion_fd *c);
/* Makes it at the first call; -1 and a sentence if that fails.  Any thread. */
int weft__completion_fd_get(weft__completion_fd *c);
void weft__completion_fd_write(weft__completion_fd *c);
void weft__completion_fd_read(weft__completion_fd *c);

/* After a settling: readable from now on.  Any thread. */
static inline void weft__completion_fd_tell(weft__completion_fd *c)
{
    if (WEFT__UNLIKELY(atomic_load_explicit(&c->fd, memory_order_acquire) >= 0)) weft__completion_fd_write(c);
}

/* Before a check of requests: what settles after this call is told again.  Any thread. */
static inline void weft__completion_fd_clear(weft__completion_fd *c)
{
    if (WEFT__UNLIKELY(atomic_load_explicit(&c->fd, memory_order_acquire) >= 0)) weft__completion_fd_read(c);
}
#endif
