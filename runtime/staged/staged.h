/* staged.h - the backend that moves device memory by way of the host, where there is a device and no NCCL: what one
 * context has of it.
 *
 * A work is cut into pieces.  Each is copied into pinned memory, goes through an operation in host memory of a group
 * that has the ranks of the communicator, and is copied back; the copies of one piece overlap with the operation of
 * another.  Works of a communicator are carried out one after the other, in the order in which they were given.
 *
 * Nothing is queued on a device before the caller's stream has come to its mark, so what is queued always ends, and a
 * work that is given up lets its buffers go at once.
 *
 * Threads: the caller's (owns, check, mark, order, memory), the context's progress thread (start, poll), and the
 * module's own for what may block.  What it has of the device (streams of callers, events, threads) is the module
 * nccl's, whose files are built into this one; of those no call of NCCL is made. */
#ifndef WEFT_STAGED_H
#define WEFT_STAGED_H
#include "module.h"

#include <stdatomic.h>

#define WEFT__STAGED_SLOTS 4            /* pieces under way on a communicator, each way */
#define WEFT__STAGED_PIECE (512 * 1024) /* bytes of one */

typedef struct weft__staged {
    weft__nccl
        cuda; /* first: the seam, the device, its events and threads; what is NCCL's in it stays empty */
    const weft_backend_host *host;
    weft_context *context;
    int rank; /* in the world */
    pthread_mutex_t naming, host_turn;
    uint32_t named;                  /* communicators that got their id here; under naming */
    bool left;                       /* the host plane: no more call of it is made; under host_turn */
    weft__list running;              /* progress thread: communicators with works */
    struct weft_backend_comm *alone; /* progress thread: messages to oneself; NULL until needed */
} weft__staged;

static inline weft__staged *weft__staged_of(weft_backend *backend)
{
    return (weft__staged *)(void *)backend;
}
#endif
