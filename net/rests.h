/* rests.h - memory for the rest of a frame that its owner takes back half written: the stream needs all of
 * it.
 *
 * There is no way back from the first byte of a frame, so a piece is promised before that is written; whoever
 * gets no promise does not begin the frame, and that want of memory is the frame's own failure, not the end
 * of a peer that lives.  A transport has one pool, of as many pieces as it ever had frames half written at
 * once; nobody touches their pages unless such a frame is taken back.  Engine held. */
#ifndef WEFT_NET_RESTS_H
#define WEFT_NET_RESTS_H
#include "frame.h"

#include <stdbool.h>

#define WEFT__REST_BYTES \
    (WEFT__FRAME_PAYLOAD_MAX + 4096) /* of a piece: a whole frame and what is noted of it */

typedef struct weft__rests {
    void *free; /* the pool: each piece begins with the next one's address */
    int held, promised;
} weft__rests;

bool weft__rests_open(weft__rests *rests); /* with one piece; false: no memory */
void weft__rests_close(weft__rests *rests);

/* False: no memory. */
bool weft__rests_promise(weft__rests *rests);
void weft__rests_withdraw(
    weft__rests *rests); /* it is not needed: that frame has gone, or its peer is gone */
/* In place of the promise: never fails; to be given back. */
void *weft__rests_take(weft__rests *rests);
void weft__rests_give(weft__rests *rests, void *piece);
#endif
