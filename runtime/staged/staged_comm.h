/* staged_comm.h - a communicator of the backend `staged`: a group in host memory, two streams, pinned memory.
 *
 *   OPEN      made                                                   (staged_comm.c)
 *   JOINING   a thread makes what it needs, and its group            (staged_comm.c)
 *   READY     works are carried out on it                            (staged_run.c)
 *   DOOMED    not to be used any more: what runs in host memory is cancelled
 *
 *   OPEN -> JOINING -> READY, and from each to DOOMED.
 *
 * Held by the runtime from open to drop, by a thread of the module that works on it, and by the progress thread while
 * it has works.  The last one to let go sends a thread to free it, since that may block. */
#ifndef WEFT_STAGED_COMM_H
#define WEFT_STAGED_COMM_H
#include "staged.h"

#include <stdatomic.h>

typedef enum weft__staged_state {
    WEFT__STAGED_OPEN,
    WEFT__STAGED_JOINING,
    WEFT__STAGED_READY,
    WEFT__STAGED_DOOMED
} weft__staged_state;

/* What a way is used for by the step of a work that is under way. */
typedef enum weft__way_use {
    WEFT__WAY_IDLE,
    WEFT__WAY_COLLECTIVE, /* the way out: through an operation, and back by the memory of the way in */
    WEFT__WAY_SENDS,
    WEFT__WAY_RECEIVES
} weft__way_use;

/* Pieces on their way from the device to other ranks, or from there to it.  A piece goes through its slot, its number
 * modulo the slots; the counts tell how many have come past each point.  stored <= moved <= begun <= fetched. */
typedef struct weft__staged_way {
    weft__way_use use;
    int peer;            /* of messages */
    unsigned char *at;   /* of messages: the buffer on the device */
    size_t bytes;        /* likewise */
    size_t per, pieces;  /* elements of a piece (of messages: bytes), and how many pieces */
    size_t fetched;      /* their copies out of the device are queued */
    size_t begun, moved; /* their operations in host memory are begun, done */
    size_t stored;       /* their copies into the device are done */
    unsigned char *slots[WEFT__STAGED_SLOTS]; /* pinned */
    cudaEvent_t copied[WEFT__STAGED_SLOTS];   /* the last copy between this slot and the device */
    weft_request *requests[WEFT__STAGED_SLOTS];
} weft__staged_way;

typedef struct weft_backend_comm {
    weft__staged *staged;
    void *owner;
    weft__list link; /* staged->cuda.comms; under staged->cuda.lock */
    atomic_uint refs;
    int rank, size;
    int *world;
    char label[64];
    char name[64]; /* of its group */

    pthread_mutex_t lock;              /* short: never across a call of CUDA or of the runtime */
    _Atomic(weft__staged_state) state; /* written under the lock */
    bool dropped;                      /* the owner is not told anything any more */
    weft_status status;                /* DOOMED: why */
    char why[WEFT__NCCL_SENTENCE];
    weft_group *group;

    /* From READY on: */
    cudaStream_t outwards, inwards; /* copies out of the device, and into it */
    size_t slot_bytes;
    size_t *counts; /* of the blocks of one piece, by rank */

    /* Progress thread: */
    weft__list listed;         /* staged->running */
    weft__event *first, *last; /* chains of works, in order; the first is under way */
    weft_backend_work *work;   /* of the first chain, the one under way; NULL: none has begun */
    int round;                 /* of its rounds of messages; the one under way */
    bool passed;               /* the caller's stream has come to the mark */
    bool queued;               /* all of the work is queued, and `first` recorded behind it */
    bool quiet;                /* DOOMED: an event behind all that is queued is recorded */
    int64_t failed_ns;         /* an operation in host memory has failed then; 0: none */
    weft_status failed;
    char failure[WEFT__NCCL_SENTENCE];
    weft__staged_way out, in;
} weft__staged_comm;

static inline bool weft__staged_doomed(weft__staged_comm *comm)
{
    return atomic_load_explicit(&comm->state, memory_order_acquire) == WEFT__STAGED_DOOMED;
}

void weft__staged_ref(weft__staged_comm *comm);
void weft__staged_unref(weft__staged_comm *comm);
/* The first reason stays. */
void weft__staged_stop(weft__staged_comm *comm, weft_status status, const char *why);
/* One for messages to oneself: no group, streams alone.  Progress thread; NULL: it cannot be had. */
weft__staged_comm *weft__staged_alone(weft__staged *staged);

/* Slots of the seam. */
weft__staged_comm *weft__staged_open(weft_backend *backend, void *owner, int rank, int size,
                                     const char *label, bool names);
void weft__staged_members(weft__staged_comm *comm, const uint64_t *addresses);
void weft__staged_join(weft__staged_comm *comm, const void *id);
void weft__staged_doom(weft__staged_comm *comm, const char *why);
void weft__staged_drop(weft__staged_comm *comm);
#endif
