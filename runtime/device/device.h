/* device.h - operations that a module carries out, from submission to the module and back: those on device
 * memory, on other memory, and of those in host memory what a module there takes.
 *
 *   agree     every member has submitted it and means the same: a maximum on the host plane, in the agreed order, else a
 *             barrier, under the operation's own number and signature (messages: matched like any message, device_pair.c)
 *   comm      its communicator is there (device_comm.c)
 *   order     all agree on its place (order.c), mostly by the agreement itself (gate.c); independent modules need only
 *             the group's own (line.c)
 *   module    issues it, sees it done (modules.c)
 *
 * A group in program order issues without waiting for the agreement and without agreeing on an order (program.h): there
 * the agreement only has to come before the operation settles.  Where its members are on several hosts there is none: they
 * tell each other afterwards what they have begun (host/signing.h), and only what a graph records and what has lengths to
 * compare is agreed on still.
 *
 * Until the module has it nothing touches its buffers, so a failure settles it at once; afterwards its
 * communicator is stopped first. */
#ifndef WEFT_RUNTIME_DEVICE_H
#define WEFT_RUNTIME_DEVICE_H
#include "device_comm.h"
#include "executor.h"
#include "group.h"
#include "request.h"

/* What its agreement carries: gate.h. */
enum { WEFT__GATE_WORDS = 3 };
typedef struct weft__gate {
    uint64_t says[WEFT__GATE_WORDS], told[WEFT__GATE_WORDS];
} weft__gate;

/* What a split of a communicator gives this rank. */
typedef struct weft__part {
    bool splits;                 /* it is one */
    weft__device_comm *dev_comm; /* NULL: nothing */
    int color, key;
} weft__part;

/* One direction of a message: device_pair.c. */
typedef enum weft__half_state {
    WEFT__HALF_NONE, /* nothing goes this way: never, or it was refused, is empty, or its peer is gone */
    WEFT__HALF_OPEN, /* has met nobody */
    WEFT__HALF_MET   /* the other side counts on it */
} weft__half_state;

typedef struct weft__half {
    weft__half_state state;
    weft__match_hook hook;
    weft__completion completion;
} weft__half;

typedef struct weft__match {
    weft__half out, in;
    weft_status outcome; /* what it ends in once all that moves has moved: of a receive that was refused */
    uint32_t
        says; /* sends: what it tells its receiver: WEFT__SAYS_SHARED or 0, above it its set's id (device_bundle.h) */
    uint32_t expects; /* receives that a graph records: what its sender is to tell (device_captured.c) */
    int world[2];     /* the ticket's */
} weft__match;

/* A message of a batch, which may be issued together with others: device_bundle.c. */
typedef enum weft__bundle_state {
    WEFT__BUNDLE_NONE,    /* goes by itself, as soon as it has met; or has gone */
    WEFT__BUNDLE_GATHERS, /* its receiver has not named yet what it goes together with */
    WEFT__BUNDLE_NAMED    /* what it is fused with; once one of these is taken back the others gather again */
} weft__bundle_state;

typedef struct weft__bundle {
    weft__bundle_state state;
    weft__list link;            /* GATHERS */
    struct weft__device *first; /* of the messages of its batch; NULL: it is in none */
    unsigned unstarted;         /* first: messages of the batch that have not begun */
    struct weft__device *sets;  /* first: the firsts of its sets */
    struct weft__device *set;   /* sends: the first of the batch that goes to the same rank */
    struct weft__device *next;  /* such a one: that of the next set */
    unsigned sends, unsent;     /* such a one: its set's, and of these those that have not begun; */
    uint32_t id;                /* by which the receiver knows the set */
} weft__bundle;

/* What a request on device memory has beside the request. */
typedef struct weft__device {
    weft__slab_item item;
    weft_request *req;
    weft__continuation continuation; /* of the agreement */
    uint64_t *lengths;               /* of blocks, to and from each rank: device_lengths.c; else NULL */
    weft__op agree;                  /* what the host plane does in place of the operation */
    const weft__executor *agree_by;  /* carries that out, while it is shut */
    weft__gate gate;
    weft__device_comm *dev_comm;       /* once it is needed; NULL: a message to itself */
    weft__ticket ticket;               /* of the first in one fused */
    struct weft__device *fused;        /* the first of those issued together; or itself */
    struct weft__device *next;         /* in what is fused */
    struct weft__device *last;         /* first: the end of what is fused */
    struct weft__device *next_entered; /* first: what the caller issues after it */
    _Atomic bool ahead;                /* first: counted in ctx->program_ahead */
    uint32_t closed;                   /* first: members of the fused one that is not agreed on */
    _Atomic int watchers;              /* threads that sleep until it is issued */
    bool shut;                         /* its agreement is under way, or put off: */
    weft__list put_off;                /* in ctx->at_work[WEFT__EXECUTOR_DEVICE] (agreement.h) */
    bool placed;                       /* behind others of this rank, which are told of it */
    bool entered;                      /* in program order: it has gone on beside its agreement */
    bool done;                         /* the device has done it before its members agreed */
    bool holds;                        /* streams wait for it, which it has to let go: device_hold.h */
    uint32_t holders;                  /* calls that have named it so, and were not refused by the module */
    uint64_t hold;      /* its number among those that do and are not on their way; 0: it is none */
    weft__list holding; /* hold: in ctx->holding */
    uint64_t behind;    /* what its stream waits for are holds up to that number; 0: none */
    bool handed;        /* the module has it, or will be given it by the progress thread */
    weft__module *module;
    weft__match match; /* messages */
    weft__bundle bundle;
    weft__part part;        /* device_split.c */
    _Atomic uint32_t phase; /* weft__phase */
    _Atomic bool
        behind_stream; /* issued, but the caller's stream has not reached it, as the module saw last */
    uint64_t range;    /* that a profiler shows (ranges.h) until it settles; 0: none */
    weft_backend_work work;
} weft__device;

/* The caller's thread, before anything is numbered: may the module do it, and where on the caller's stream
 * does it begin? */
weft_status weft__device_prepare(weft_request *req, void *stream);

/* Are its collectives on that module's memory in program order?  A module whose works callers do not begin relies on what all
 * ranks have agreed on before, also in such a group. */
static inline bool weft__device_in_program(const weft_group *group, const weft__module *module)
{
    return group->params.program && module->backend->by_callers;
}

/* Is it in program order?  Messages go when they have met, but for those that graphs record. */
static inline bool weft__goes_in_program(const weft_request *req)
{
    return weft__device_in_program(req->group, req->device->module) &&
           (req->capture || !(weft__kind_traits(req->op.kind) & WEFT__PAIR));
}

/* All under the engine. */
/* Is an operation by that module not over yet, also one that it has not got? */
bool weft__device_under_way(const weft_group *group, const weft__module *module);
/* Past the agreement, which a split has passed as a split of the group. */
void weft__device_enter(weft_request *req);
/* It fails, or has failed, before all members have come: they are not awaited any more. */
void weft__device_stop_agreeing(weft__device *d);
/* The module is through with it, successfully.  False: it settles when its members agree. */
bool weft__device_done(weft_request *req);
/* Its ticket's turn: the progress thread gives it, and all that is fused with it, to the module. */
void weft__device_hand(weft__device *first);
weft__phase weft__device_phase(const weft_request *req);
void weft__device_reach(weft__device *d, weft__phase phase); /* on its way to the module */
/* It is issued, or over: wakes who waits for that.  Any thread. */
void weft__device_told(weft__device *d, weft__phase phase);
/* It is about to settle. */
void weft__device_settles(weft__device *d);

/* device_pair.c: messages and exchanges */
void weft__half_to(weft__half *half, weft__half_state to);
void weft__device_pair_start(weft_request *req);
void weft__device_pair_stop(weft_request *req); /* one that the module has not */
void weft__device_pair_done(weft_request *req); /* the module has done its part: settles it */
/* The other side counts on it: it cannot end alone. */
bool weft__device_pair_met(const weft_request *req);
/* It goes over its group's communicator, and ends with it. */
bool weft__device_pair_shares(const weft__device *d);
/* One that had met has failed, and drains or has settled: the group breaks, which tells the other side and
 * gives its communicator up; so is that of the two given up, if it went over one. */
void weft__device_pair_give_up(weft_request *req, weft_status status, const char *why);
/* All that the module has not yet, of a communicator of two ranks that is doomed. */
void weft__device_pairs_refuse(weft__device_comm *dev_comm);
/* It has met, and all that is fused with it: their one ticket. */
void weft__device_pair_enter(weft__device *first);

extern const weft__executor weft__device_executor;
#endif
