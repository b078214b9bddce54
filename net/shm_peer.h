/* shm_peer.h - what the transport in shared memory has of each peer; shared by the files shm*.c.  For the
 * holder of the engine. */
#ifndef WEFT_NET_SHM_PEER_H
#define WEFT_NET_SHM_PEER_H
#include "rests.h"
#include "ring.h"
#include "shm.h"

typedef enum weft__shm_peer_state {
    WEFT__SHM_OPEN,
    WEFT__SHM_DRAINING, /* the peer is gone; what it had written is still read */
    WEFT__SHM_GONE
} weft__shm_peer_state;

/* Both directions between this rank and one other. */
typedef struct weft__shm_peer {
    weft__ring in;
    weft__shm_peer_state state;
    int peer, local;   /* the other's world and local rank */
    bool reading;      /* inside a call of the sink for this peer */
    bool writing;      /* inside write_queue */
    bool seen;         /* `frame` has been read, and nothing else of its record */
    bool begun;        /* `frame` is the sink's, its payload has not been read to the end */
    bool awaited;      /* the last poll found nothing */
    bool left;         /* it has told, otherwise than by a frame, that it left */
    size_t read_bytes; /* of its payload */
    char *where;       /* where its payload goes, or NULL */
    weft__frame frame;

    weft__ring out;
    bool spoken;             /* in the list of those to whom this rank has had a frame */
    bool lacks;              /* frames wait, and there is no memory for `out` */
    weft__outgoing *half;    /* begun, and waiting for room; in no queue */
    bool promised;           /* memory for its rest, or for that of the next one */
    weft__list urgent, bulk; /* of weft__outgoing, not begun */
} weft__shm_peer;

typedef struct weft__shm {
    weft__transport transport;
    weft__segment *segment;
    int *local_of;
    int world;
    int first_in, first_out; /* of `heard`, `spoken`: with whom the next poll begins */
    size_t waiting;          /* frames in queues or half written, all peers */
    weft__rests rests;
    bool polling;
    uint32_t calls;        /* so many have been looked at */
    int n_heard, n_spoken; /* peers that have called this rank, and for whom it has had a frame */
    int64_t try_ns;        /* not before it memory for rings is asked for */
    int64_t warned_ns;     /* when the log was told last that there was none */
    size_t granted;        /* bytes for further rings, which were there when it was looked */
    weft__shm_peer **heard, **spoken;
    weft__shm_peer *peers;
} weft__shm;

static inline weft__shm *weft__shm_of(const weft__transport *t)
{
    return (weft__shm *)(void *)((char *)(uintptr_t)t - offsetof(weft__shm, transport));
}

static inline weft__shm_peer *weft__shm_peer_of(const weft__transport *t, int peer)
{
    weft__shm *s = weft__shm_of(t);
    WEFT__ASSERT((unsigned)peer < (unsigned)s->world && s->local_of[peer] >= 0);
    return &s->peers[s->local_of[peer]];
}

/* The next frame to write, or NULL. */
static inline weft__outgoing *weft__shm_head(const weft__shm_peer *l)
{
    if (l->half) return l->half;
    if (!weft__list_empty(&l->urgent)) return WEFT__LIST_ENTRY(l->urgent.next, weft__outgoing, link);
    if (!weft__list_empty(&l->bulk)) return WEFT__LIST_ENTRY(l->bulk.next, weft__outgoing, link);
    return NULL;
}

/* ---- calls (shm_calls.c) ---- */

void weft__shm_hear_calls(weft__shm *s, uint32_t calls);
/* Who has called since this was asked last. */
static inline void weft__shm_hear(weft__shm *s)
{
    uint32_t calls = weft__segment_calls(s->segment);
    if (WEFT__UNLIKELY(calls != s->calls)) weft__shm_hear_calls(s, calls);
}
/* Frames for a peer that has no ring from here: makes it.  False: there is no memory, and they wait for it. */
bool weft__shm_call(weft__shm *s, weft__shm_peer *l);
/* Has it left, without a frame that says so?  Then the sink hears it, once. */
void weft__shm_hear_left(weft__shm *s, weft__shm_peer *l);
void weft__shm_leave(weft__transport *t, weft_status status, const char *why);
void weft__shm_tell_left(weft__transport *t, int peer);
bool weft__shm_has_left(const weft__transport *t, int peer);
const char *weft__shm_want(const weft__transport *t, int peer);
#endif
