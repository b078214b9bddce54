/* rendezvous_answer.h - what the server at which ranks meet says to one that joins, read from any bytes.
 * Pure. */
#ifndef WEFT_NET_JOIN_RENDEZVOUS_ANSWER_H
#define WEFT_NET_JOIN_RENDEZVOUS_ANSWER_H
#include "rendezvous_wire.h"

#include <stdbool.h>

/* One frame. */
typedef struct weft__rendezvous_answer {
    weft__rendezvous_header header;
    const void *payload; /* inside the frame */
    size_t bytes;
} weft__rendezvous_answer;

/* False: these bytes are no answer of this version. */
bool weft__rendezvous_answer_read(const void *frame, size_t bytes, weft__rendezvous_answer *answer);

/* FAILED: that failure, with its sentence; never WEFT_OK. */
weft_status weft__rendezvous_answer_failure(const weft__rendezvous_answer *answer);
/* JOINED: whether it can be the welcome of a rank that was given these (-1: was not).  ERR_MISMATCH. */
weft_status weft__rendezvous_answer_welcome(const weft__rendezvous_answer *answer, int rank, int world_size);
/* GATHERED: a block of those bytes from each rank of the world, in rank order; room: weft__bundle_room of them.
 * ERR_MISMATCH. */
weft_status weft__rendezvous_answer_blocks(const weft__rendezvous_answer *answer, size_t world,
                                           size_t bytes_each, void *room, void *blocks);
#endif
