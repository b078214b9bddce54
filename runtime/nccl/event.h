/* event.h - pooled CUDA events.  One marks the place on a caller's stream after which a work may begin, or
 * the end of what was issued in one group call.
 *
 * Taken and given back under a short lock.  Made in chunks ahead of need, off the hot path, and destroyed
 * only when the module is closed: destroying one can block while a kernel hangs. */
#ifndef WEFT_NCCL_EVENT_H
#define WEFT_NCCL_EVENT_H
#include "turn.h"

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <weft/backend.h>

struct weft__nccl;
typedef struct weft_backend_comm weft__comm; /* communicator.h */

typedef struct weft__event {
    cudaEvent_t cuda;
    struct weft__event *next; /* in the pool; or to be issued, or issued on the same communicator, after it */
    cudaStream_t capture; /* not recorded: a place on this stream, which is being captured; NULL: it is not */
    unsigned long long capture_id; /* by this capture: another one may have begun there since */
    /* The end of a group call: */
    weft_backend_work *works; /* what it consists of, by ->next */
    weft__comm *comm;         /* on which it is called, */
    weft__turn turn;          /* with this turn */
    unsigned pieces;          /* that its stream's queue has to take */
    bool recorded;
    bool known; /* NCCL has gone all its ways before (known.h) */
    bool cut;   /* the group call did not come to its end, and its communicator is doomed */
} weft__event;

typedef struct weft__events {
    pthread_mutex_t lock;
    weft__event *spare;
    unsigned spares, made;
    bool growing; /* a thread makes more */
    struct weft__event_chunk *chunks;
} weft__events;

void weft__event_pool_init(weft__events *events);
/* Makes events until so many are spare, on this thread.  What CUDA says where it has no more. */
cudaError_t weft__event_pool_grow(struct weft__nccl *nccl, unsigned spares);
/* NULL: there is none and none can be made; *error says why. */
weft__event *weft__event_take(struct weft__nccl *nccl, cudaError_t *error);
/* NULL: few are left, or none.  Makes none, and no thread. */
weft__event *weft__event_take_spare(struct weft__nccl *nccl);
void weft__event_give(struct weft__nccl *nccl, weft__event *event);
/* Nobody uses one any more.  intact: no communicator hangs, so they can be destroyed. */
void weft__event_pool_close(weft__events *events, bool intact);
#endif
