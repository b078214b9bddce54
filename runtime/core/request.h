/* request.h - one operation in flight.
 *
 * It goes from state to state as weft__request_follows says, and only by the functions behind that table,
 * which also know the memory order: nobody else stores a request's state.
 *
 * Two references: the caller's handle and the runtime's.  The record goes back to its slab when both are
 * gone. */
#ifndef WEFT_RUNTIME_REQUEST_H
#define WEFT_RUNTIME_REQUEST_H
#include "context.h"
#include "region.h"
#include "rounds.h"
#include "status.h"

#define WEFT__LABEL_BYTES 64

typedef enum weft__state {
    WEFT__NEW,      /* being filled in */
    WEFT__QUEUED,   /* handed to the engine */
    WEFT__HELD,     /* numbered; begins once all members have told where their slots are (slot_exchange.c) */
    WEFT__RUNNING,  /* numbered; the engine works on it */
    WEFT__DRAINING, /* has failed; something may still touch its buffers */
    WEFT__CALLING,  /* its outcome is fixed; its callback has not returned */
    WEFT__SETTLED
} weft__state;

/* What may follow on each state.  A short message that has passed in its call settles at once; what begins in
 * its call was never queued; on device memory a request can fail on the device while its agreement is
 * held. */
static const uint8_t weft__request_follows[] = {
    [WEFT__NEW] =
        WEFT__MAY_BECOME(WEFT__QUEUED) | WEFT__MAY_BECOME(WEFT__RUNNING) | WEFT__MAY_BECOME(WEFT__SETTLED),
    [WEFT__QUEUED] = WEFT__MAY_BECOME(WEFT__RUNNING),
    [WEFT__RUNNING] = WEFT__MAY_BECOME(WEFT__HELD) | WEFT__MAY_BECOME(WEFT__DRAINING) |
                      WEFT__MAY_BECOME(WEFT__CALLING) | WEFT__MAY_BECOME(WEFT__SETTLED),
    [WEFT__HELD] = WEFT__MAY_BECOME(WEFT__RUNNING) | WEFT__MAY_BECOME(WEFT__DRAINING) |
                   WEFT__MAY_BECOME(WEFT__CALLING) | WEFT__MAY_BECOME(WEFT__SETTLED),
    [WEFT__DRAINING] = WEFT__MAY_BECOME(WEFT__CALLING) | WEFT__MAY_BECOME(WEFT__SETTLED),
    [WEFT__CALLING] = WEFT__MAY_BECOME(WEFT__SETTLED),
    [WEFT__SETTLED] = 0};

/* Where a request takes its steps, which tells who may know it. */
typedef enum weft__steps {
    WEFT__ANYWHERE,   /* it was queued: whoever holds the engine */
    WEFT__FIRST_STEP, /* its first one, in the call that submits it: that thread alone knows it */
    WEFT__HERE        /* it has taken that one, and counts in ctx->begun */
} weft__steps;

/* What a collective leads to on each rank once its data is there: split_group, mesh_create.  The first member
 * of a struct of the file that makes it. */
typedef struct weft__continuation {
    void (*finish)(weft_request *req); /* in place of settling it: does that too.  Engine held */
    void (*fail)(weft_request *req, const char *why); /* it settles with a failure.  Engine held */
    void (*free)(weft_request *req);                  /* with the request */
} weft__continuation;

/* What an operation that goes well touches comes first, in as few cache lines as it can. */
struct weft_request {
    weft__slab_item item;
    _Atomic uint32_t state; /* weft__state; waiters sleep on it */
    _Atomic uint32_t refs;
    _Atomic int sleepers;
    _Atomic uint32_t polls; /* times is_completed said no */
    weft_context *ctx;
    weft_group *group;
    weft__mpsc_node node; /* submitted, then callbacks */
    weft__list pending;   /* engine */

    weft__op op;
    weft_status status; /* final; valid from CALLING on */
    weft__steps steps;
    bool timed; /* somebody can ask for its times: it has a handle or a callback */
    bool buffers_held, warned;
    bool abandoned;       /* settled while a module still had it */
    bool after_break;     /* a message: its group was broken before it was submitted, and it goes on there */
    bool of_module;       /* a module has submitted it: nothing that the program waits for */
    bool recorded_behind; /* its record is written behind its first step: recorded.h */
    uint64_t sequence;    /* 0: has not begun */
    uint64_t record;      /* engine: number of its record; 0: none */
    int64_t submitted_ns, started_ns, settled_ns;
    const char *algorithm;
    weft_done_fn *done;
    struct weft__device *device; /* of an operation on device memory: device.h; else NULL */
    void *capture; /* the stream that is being captured, into whose graph it is recorded; NULL: it is done */
    weft__continuation *continuation; /* NULL: settles when its data is there */
    _Atomic(char *) told;             /* the final sentence */
    _Atomic(char *) shown;            /* what weft_request_message made of it */
    int64_t deadline_ns, ask_ns, warn_ns;
    weft__recv_result recv_result;
    union {
        struct { /* collectives by rounds: host_rounds.c */
            weft__list shm_coll;
            weft__rounds plan;
            uint64_t base, published, taken; /* rounds before the first; how many of this op's are done */
            const weft__region *in, *out;    /* that others read where they lie; NULL: staged */
            uint64_t in_place;               /* the last round published so; 0: none */
            weft__round round;               /* the one worked out last, and its index + 1; 0: none */
            uint64_t known;
            bool ahead; /* it goes on without all members */
        } rounds;
        struct weft__run *run; /* collectives by messages: host_schedule.c */
        struct {               /* point to point: host_pair.c */
            weft__send *send;  /* NULL: sent, or none */
            weft__recv *recv;  /* NULL: received, or none; of a probe that has settled: the message it
                                     holds, or NULL */
            union {
                void *copy;       /* exchanges: of the input of one in place */
                weft__recv *held; /* receives, until they begin: what a probe held; NULL: whatever comes */
            };
            weft__completion sent, received;
            int open;           /* of these, and 1 while it starts */
            weft_status failed; /* the first failure */
        } pair;
        struct weft__group_create *creation; /* group_create_common.c */
        weft_batch *batch;                   /* batch.c */
    } u;
    void *arg;                      /* of done */
    const weft__executor *executor; /* RUNNING and later; NULL: a batch, whose members have theirs */
    const weft__op *host_op; /* what the host plane carries out: &op, or of an operation on device memory the
                                barrier in which its members find each other */
    weft__signature signature; /* of op, of a collective that has begun */
    _Atomic int64_t waited_ns;
    int64_t warn_by_ns;
    int culprit;      /* ERR_PEER: rank of the group that is gone; else -1 */
    int asks;         /* times the others were asked whether they are late */
    int64_t asked_ns; /* first of these, or when the round began that served it; 0: there was none */
    weft_status draining_status; /* DRAINING: what it will end in */
    int64_t drained_by_ns;
    char label[WEFT__LABEL_BYTES];
};

/* NULL and a sentence: the limit is reached.  NEW, one reference (the runtime's; the caller's is added when
 * given). */
weft_request *weft__request_new(weft_context *ctx, weft_group *group, const weft__op *op,
                                const weft_call *call);
/* In steps: a record with a reference to the group, NULL as above; its op is put in; and all else. */
weft_request *weft__request_take(weft_context *ctx, weft_group *group);
weft_request *weft__request_take_held(weft_context *ctx,
                                      weft_group *group); /* if weft__slab_has_locked.  Engine held */
void weft__request_fill(weft_request *req, weft_group *group, const weft_call *call);
/* One that was filled in and is over before anybody has heard of it: nothing of what weft__request_settle
 * ends has begun.  It is the caller's.  Engine held. */
void weft__request_settle_at_once(weft_request *req);
/* By who has a reference already, or holds the engine while it is not settled. */
void weft__request_ref(weft_request *req);
void weft__request_unref(weft_request *req);
void weft__request_take_back(weft_request *req); /* one that was made and never queued */
void weft__requests_close(weft_context *ctx);    /* at the end: what those hold that were never released */
static inline weft__state weft__request_state(const weft_request *req)
{
    return (weft__state)atomic_load_explicit(&req->state, memory_order_acquire);
}
/* The four that store the state.  A record that is filled in anew: */
static inline void weft__request_is_new(weft_request *req)
{
    atomic_store_explicit(&req->state, WEFT__NEW, memory_order_relaxed);
}
/* As long as this thread alone knows of the request; what makes it known to others orders the state too. */
static inline void weft__request_to_alone(weft_request *req, weft__state to)
{
    WEFT__ASSERT(
        WEFT__ALLOWS(weft__request_follows, atomic_load_explicit(&req->state, memory_order_relaxed), to));
    atomic_store_explicit(&req->state, to, memory_order_relaxed);
}
/* Engine held: whoever goes to sleep on the request takes the engine between saying so and its last check.
 * What was stored before is there for those who see the state. */
static inline void weft__request_to(weft_request *req, weft__state to)
{
    WEFT__ASSERT(
        WEFT__ALLOWS(weft__request_follows, atomic_load_explicit(&req->state, memory_order_relaxed), to));
    atomic_store_explicit(&req->state, to, memory_order_release);
}
/* Without the engine: before this thread checks whether somebody sleeps. */
static inline void weft__request_to_outside(weft_request *req, weft__state to)
{
    weft__state from = (weft__state)atomic_exchange_explicit(&req->state, to, memory_order_seq_cst);
    WEFT__ASSERT(WEFT__ALLOWS(weft__request_follows, from, to));
}
/* Settled for the thread that asks: in a callback its own request is. */
bool weft__request_settled(const weft_request *req);

/* The one finisher of all that has begun.  Engine held.  The first call wins, later ones do nothing.  text:
 * the sentence, or NULL: the one that fits the status.  Afterwards nothing touches the request's buffers (or
 * buffers_held is set). */
void weft__request_settle(weft_request *req, weft_status status, const char *text);
void weft__request_settlef(weft_request *req, weft_status status, const char *format, ...) WEFT__COLD
    WEFT__PRINTF(3, 4);
/* The final sentence, before its time, and with what status; it names the dump.  The first counts. */
void weft__request_tell(weft_request *req, weft_status status, const char *text);
/* After CALLING: the callback has returned. */
void weft__request_publish(weft_request *req);
void weft__request_call_back(weft_request *req); /* runs its callback, and publishes it */
bool weft__in_callback(void);                    /* is this thread inside a caller's function? */
/* Stop what runs and settle, at once or after draining.  Engine held. */
void weft__request_fail(weft_request *req, weft_status status, const char *text);
/* "all_reduce #41 on group tp0 (4 MiB float32)" */
void weft__request_name(const weft_request *req, char *text, size_t bytes);

#endif
