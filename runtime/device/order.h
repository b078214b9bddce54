/* order.h - the one order in which ranks issue work to their devices.
 *
 * A device may run the kernels of its communicators strictly one after the other, so two ranks that issue two
 * operations in different order can wait for each other for ever.  Here everything that is issued gets a
 * stamp that all who take part agree on, and every rank issues in the order of stamps: whatever groups
 * overlap, whichever thread submits first.  Skeen's total-order multicast (Birman and Joseph 1987): each rank
 * proposes its clock, the largest proposal is the stamp, and what may still get a smaller one is waited for.
 *
 * Only what all ranks have submitted enters, so nothing here waits for a caller.  Engine held throughout. */
#ifndef WEFT_RUNTIME_ORDER_H
#define WEFT_RUNTIME_ORDER_H
#include "context.h"
#include "protocol.h"

typedef enum weft__ticket_kind {
    WEFT__TICKET_COLLECTIVES, /* one, or those of a batch */
    WEFT__TICKET_MESSAGE,
    WEFT__TICKET_EXCHANGE
} weft__ticket_kind;

/* What it is, the same on all ranks that take part. */
typedef struct weft__ticket_key {
    uint64_t group;    /* id */
    uint64_t number;   /* collectives: the first's; messages: the sender's; exchanges: the lower rank's */
    uint32_t kind;     /* weft__ticket_kind */
    int32_t low, high; /* messages: from, to; exchanges: the lower, the higher world rank; else 0 */
    uint32_t memory;   /* whose module carries it out */
} weft__ticket_key;

typedef struct weft__ticket weft__ticket;
struct weft__ticket {
    weft__list link; /* by stamp; or its communicator's, while that is being made */
    weft__ticket_key key;
    const int *world; /* ranks that take part; the first collects the proposals */
    int size;
    uint32_t length; /* operations in it: the same everywhere */
    uint64_t stamp;  /* proposed; when final, agreed */
    bool final;
    bool alone;    /* it needs no order in common with others, only its communicator (line.h) */
    uint64_t most; /* first rank: the largest proposal so far */
    int missing;   /* first rank: proposals yet to come */
    /* Its turn has come; it has left. */
    void (*go)(weft__ticket *ticket);
    /* It cannot go: another rank has another length, or its communicator was not made.  It has left. */
    void (*refuse)(weft__ticket *ticket, weft_status status, const char *why);
};

/* Proposes; go or refuse follows, perhaps before this returns. */
void weft__order_enter(weft_context *ctx, weft__ticket *ticket);
/* It will not go.  Others may wait for it: the caller sees to it that they learn. */
void weft__order_leave(weft_context *ctx, weft__ticket *ticket);

extern const weft__protocol weft__order_protocol;
#endif
