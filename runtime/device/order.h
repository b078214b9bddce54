/* order.h - the one order in which ranks issue work to their devices.
 *
 * A device may run the kernels of its communicators strictly one after the other, so two ranks that issue two
 * operations in different order can wait for each other for ever.  Here everything that is issued gets a
 * stamp that all who take part agree on, and every rank issues in the order of stamps: whatever groups
 * overlap, whichever thread submits first.  Skeen's total-order multicast (Birman and Joseph 1987): each rank
 * proposes its clock, the largest proposal is the stamp, and what may still get a smaller one is waited for.
 *
 * A ticket's way:
 *
 *   AT_GATE -> OPENED -> FINAL      its proposal went with the agreement of a collective (gate.h), and so does the largest
 *   [WAITS ->] PROPOSED -> FINAL    by messages of its own: of messages between devices, and of collectives that had no place
 *                                   as they began
 *
 * What is PROPOSED all ranks have submitted, so it holds others back for as long as messages take.  What is AT_GATE may
 * have to wait for a caller, who may wait for what it holds back.  So where something final stands behind it, its rank asks
 * the others to let it come later (order.c): either one of them has not begun it, and will propose for it at least what it
 * was asked to; or all have begun it, and its agreement takes as long as messages do.  So nothing here waits for a caller.
 *
 * Members that share memory ask there, which needs no answer: a rank that is stopped before it has begun something, or once
 * it has published that it came, holds nothing up.  Over several hosts the question is a message (RAISE), and so is each step
 * of the agreement: there a rank that is stopped, by SIGSTOP or a debugger, holds up what overlaps with an operation for which
 * no other member is late that could answer, or in which it has to pass something on, until it goes on or that operation's
 * deadline.
 *
 * A rank that has no memory for a word fails what it is about, and its group with that; not so for an answer to RAISE, which
 * another member may give, and this one as it begins the operation.
 *
 * What holds, and tests/protocols/order_game.c plays:
 *   - a rank's clock is not behind any stamp that it has seen, so what it begins later comes later;
 *   - a final stamp is at least what each member has proposed, or was promised by another one that has yet to propose;
 *   - a rank issues in the order of stamps (equal ones: of keys), and nothing behind what may still get a smaller one;
 *   - so of any operations, of whatever groups, also round a circle of these, all ranks find one order;
 *   - collectives of one group, but for splittings of its communicator, have their places in the order of their numbers.  What has
 *     its place by its gate is final once all those before it are, at the largest proposal or one beyond the last of these; what
 *     goes by messages enters once those before it have, or are final.  All have begun them by then: neither waits for a caller.
 * Engine held throughout. */
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

typedef enum weft__ticket_state {
    WEFT__TICKET_OUTSIDE, /* it stands in no order, or only in its group's (line.h) */
    WEFT__TICKET_AT_GATE,
    WEFT__TICKET_OPENED, /* its gate has told `most`, and it is final once those before it in its group are */
    WEFT__TICKET_WAITS,  /* to enter, behind those before it in its group; it stands in no order yet */
    WEFT__TICKET_PROPOSED,
    WEFT__TICKET_FINAL /* also once it has left, and in its group's line once it is agreed on */
} weft__ticket_state;

typedef struct weft__ticket weft__ticket;
struct weft__ticket {
    weft__list link; /* by stamp; or its communicator's, while that is being made */
    weft__list mate; /* collectives: in group->unplaced, in the order of numbers, until it is final or over */
    weft__ticket_key key;
    weft_group *group; /* AT_GATE, or in its list of those without a place: whose operation it is */
    const int *world;  /* ranks that take part; the first collects the proposals */
    int size;
    uint32_t length; /* operations in it: the same everywhere */
    uint64_t stamp;  /* what it gets at least; when final, agreed */
    weft__ticket_state state;
    uint64_t last; /* AT_GATE: number of the last operation in it that this rank has begun */
    uint64_t
        raise; /* AT_GATE: the stamp that others were asked for; 0: they were not, or one has promised it */
    bool counted;  /* among those of the order that are final */
    bool alone;    /* it needs no order in common with others, only its communicator (line.h) */
    uint64_t most; /* the largest proposal: that its gate has told; first rank: so far */
    int missing;   /* first rank: proposals yet to come */
    /* Its turn has come; it has left. */
    void (*go)(weft__ticket *ticket);
    /* It cannot go: another rank has another length, or its communicator was not made.  It has left. */
    void (*refuse)(weft__ticket *ticket, weft_status status, const char *why);
};

/* It stands in no order yet. */
void weft__ticket_begin(weft__ticket *ticket);
/* Only for who has an order of its own (line.h), or begins anew. */
void weft__ticket_to(weft__ticket *ticket, weft__ticket_state to);
/* An operation of the group begins, which is the ticket's only one or its next. */
void weft__order_begin(weft_group *group, weft__ticket *ticket);
/* What this rank proposes in the agreement of that operation, which has begun so. */
uint64_t weft__order_arrive(weft_group *group, weft__ticket *ticket, uint64_t number);
/* All agreements of it have been come to: the largest proposal in them.  go follows, perhaps before this returns. */
void weft__order_opened(weft_context *ctx, weft__ticket *ticket, uint64_t stamp);
/* Another rank issues so many together: refuses it. */
void weft__order_refuse(weft_context *ctx, weft__ticket *ticket, int peer, uint32_t length);
/* What it waits for, if it stands in the order: the first of its group, if its gate has opened; else the first there without a
 * final place; NULL if that is itself. */
const weft__ticket *weft__order_before(const weft_context *ctx, const weft__ticket *ticket);
/* Its agreements have given it no place: it stands in no order before it enters. */
void weft__order_unplaced(weft_context *ctx, weft__ticket *ticket);
/* Proposes by messages, once those of its group before it have; go or refuse follows, perhaps before this returns. */
void weft__order_enter(weft_context *ctx, weft__ticket *ticket);
/* It will not go.  Others may wait for it: the caller sees to it that they learn. */
void weft__order_leave(weft_context *ctx, weft__ticket *ticket);

extern const weft__protocol weft__order_protocol;
#endif
