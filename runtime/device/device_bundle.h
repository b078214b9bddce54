/* device_bundle.h - which messages are issued in one call: those of one batch to the same rank that have met
 * when the last of them has been sent.  Engine held throughout, but for follow. */
#ifndef WEFT_RUNTIME_DEVICE_BUNDLE_H
#define WEFT_RUNTIME_DEVICE_BUNDLE_H
#include "device.h"

/* What a message says to its receiver (weft__match). */
#define WEFT__SAYS_SHARED 1u /* it goes over its group's communicator */
#define WEFT__SAYS_SET \
    1u /* bits below its set's id, or below its count of those that graphs record, and then also */
#define WEFT__SAYS_RECORDED (1u << 31)

/* The caller's thread: d is one more message of the batch of which that is the first. */
void weft__bundle_follow(weft__device *first, weft__device *d);

/* What follows from a message's beginning, once it has begun. */
typedef struct weft__bundle_start {
    bool ends_batch;  /* it is the last of its batch */
    uint32_t ends_id; /* and of its set, which has that id; else 0 */
    int to;           /* that goes to this rank of the world */
} weft__bundle_start;

/* A message begins: what it says is set, as far as its set goes.  Then all that it sends is sent, and begun
 * is called, with d perhaps settled. */
weft__bundle_start weft__bundle_begin(weft__device *d);
void weft__bundle_begun(weft_context *ctx, const weft__bundle_start *start);

/* It has met another rank.  True: it enters its ticket together with others, perhaps in here. */
bool weft__bundle_met(weft__device *d);
/* It will not: it has ended, or waits to be met again.  Those that it was to go together with gather again. */
void weft__bundle_leave(weft__device *d);
/* So do all of those that were to go together with the first. */
void weft__bundle_part(weft__device *first);
/* The receiver: enters what has gathered and can go. */
void weft__bundle_name(weft_context *ctx);
void weft__bundle_gone(weft__device *d); /* its ticket's turn has come */

extern const weft__protocol weft__bundles_protocol;
#endif
