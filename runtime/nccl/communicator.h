/* communicator.h - a communicator: its life, and who may call NCCL on it.
 *
 *   OPEN      made; its id is perhaps being made                            (comm_create.c)
 *   JOINING   a thread is inside NCCL, joining the others                   (comm_create.c)
 *   READY     works are issued on it                                        (issue.c)
 *   DOOMED    not to be used any more; a thread waits for who is inside     (comm_destroy.c)
 *   ABORTING  that thread lets out who is inside, or aborts                 (comm_destroy.c)
 *   QUIET     it is revoked: nothing of it runs, nobody is inside; NCCL has its memory still, as the abort that
 *             takes it back waits for whatever else the device does
 *   ABORTED   NCCL has nothing of it any more; what it had launched ends
 *   REFUSED   NCCL has not aborted it, and that is not tried again: what had begun may go on, and write its handles
 *
 *   OPEN -> JOINING -> READY, and from each to DOOMED -> ABORTING -> [QUIET ->] ABORTED or REFUSED.
 *
 * Calls on a communicator are made by one thread at a time, in the order of asking: it has the turn.  Who asks
 * for an asynchronous error without a turn does so while nobody is inside, and the next turn waits for it: for
 * NCCL the question is a call like any other.  The abort waits until nobody asks or is inside, but for a call
 * no longer than the grace: then it is the only way out of one that hangs, as a question does not.  Whoever
 * comes back out of such a call sees DOOMED or later, and touches NCCL's handle no more.
 *
 * By callers: a communicator of a group in program order (backend.h) is two of NCCL's.  The root does not block: it is
 * joined, split, and where ranks meet when they end.  The handle, on which works are issued, is a part of all the root's
 * ranks whose calls block: such calls launch on the thread that makes them, where those of the root have a thread made
 * for each.  The root splits it off, so that until it is there the root's abort ends its making.  It is aborted and
 * destroyed before the root; destroyed only once all ranks have met at the root's end, since that call blocks.
 *
 * Who is inside a call that hangs, or what has begun and does not come to its end, is let out by ncclCommRevoke where there
 * is one, which frees nothing and does not wait for the device: README.md says when and why.
 *
 * Lent: the program makes calls on the handle too, of which nobody here knows.  Instead of the abort there is a revoke,
 * and the handle ends when it is buried.
 *
 * Graphs: what is issued on a stream that is being captured is recorded in its graph, by the caller.  The graph holds the
 * communicator by a user object, until it and all that was instantiated from it are gone (graph.c).  NCCL counts those
 * graphs in which it has recorded something, and ends none before they are gone: an abort stops what runs, and then
 * waits.  It is not revoked, for after that the abort would not wait.  While NCCL counts none, an abort would free it
 * under a call that is about to record the first: it is revoked, and the module waits for the graphs before the abort.
 *
 * Who holds the struct: the runtime, from open to drop; graphs; each thread of the module that works on it; the
 * progress thread while it is in nccl->running, and inside start.  The last one to let go sends a thread to
 * bury it, which finalizes and destroys what has not been aborted. */
#ifndef WEFT_NCCL_COMM_H
#define WEFT_NCCL_COMM_H
#include "known.h"
#include "module.h"
#include "turn.h"

#include <stdatomic.h>
#include <weft/cuda.h>

typedef enum weft__comm_state {
    WEFT__COMM_OPEN,
    WEFT__COMM_JOINING,
    WEFT__COMM_READY,
    WEFT__COMM_DOOMED,
    WEFT__COMM_ABORTING,
    WEFT__COMM_QUIET,
    WEFT__COMM_ABORTED,
    WEFT__COMM_REFUSED
} weft__comm_state;

typedef enum weft__turn_state {
    WEFT__TURN_WAITS,
    WEFT__TURN_TAKEN,
    WEFT__TURN_REFUSED /* the communicator is doomed; the turn is given back */
} weft__turn_state;

struct weft_backend_comm {
    weft__nccl *nccl;
    weft__list link; /* nccl->comms; under nccl->lock */
    atomic_uint refs;
    void *owner;
    int rank, size;
    char label[64];
    uint64_t family; /* those that share resources: none of them outlives another's abort */

    pthread_mutex_t lock; /* short: never across a call of CUDA or NCCL */
    pthread_cond_t changed;
    _Atomic(weft__comm_state) state; /* written under the lock */
    bool was_ready;                  /* it was, when it was doomed */
    atomic_bool dropped;             /* the owner is not told anything any more */
    bool aborter;                    /* a thread sees to the abort */
    weft__turn *turn, *turn_last;    /* the first has it */
    bool entered;                    /* and uses it */
    unsigned lookers;                /* inside ncclCommGetAsyncError, or what takes no turn either */
    _Atomic(ncclComm_t) handle;      /* an abort takes it, after the grace also from under who has the turn */
    _Atomic(ncclComm_t)
        root;           /* by callers, once handle is its part, likewise; NULL: handle is all there is */
    bool launches;      /* what is called on the handle is launched when the call returns */
    weft__comm *parent; /* while it is being split off: neither can be stopped without the other */
    weft_status status; /* DOOMED and later: why */
    char why[WEFT__NCCL_SENTENCE];
    /* An error that may be another rank's doing was first found then: no call is made from there on, and what the
     * runtime finds out is better than what NCCL said.  0: none was */
    _Atomic int64_t found_ns;
    weft_status found; /* what NCCL said */
    char found_why[WEFT__NCCL_SENTENCE];
    atomic_uint graphs; /* that hold the struct, one a capture, from before NCCL is called; under the lock */
    unsigned recorded;  /* of these, the ones for which NCCL has recorded something */
    weft__list holds;   /* what each graph holds, */
    uint64_t replayed;  /* and how often those that are gone were replayed */
    atomic_bool awaits; /* a thread aborts it, and may have to wait for these; under nccl->lock too */
    bool lent;          /* to the program, which may be inside a call of it at any time */
    weft__list registered;     /* memory of the program's: registered.c */
    weft_nccl_options options; /* what it is made with; from before JOINING on */
    char net_name[64];         /* of these */

    /* Who has the turn: */
    _Atomic(const char *) call; /* the function that it is inside; NULL: none */
    _Atomic int64_t call_since_ns;
    ncclComm_t born;      /* where NCCL writes the handle */
    ncclComm_t none;      /* or, as it splits, that this rank has no part in that */
    ncclComm_t part;      /* and that of the part whose calls block */
    bool unwritten;       /* it was doomed before NCCL had written that */
    bool called;          /* NCCL was asked for something in the group call; whoever looks lowers it before */
    cudaStream_t capture; /* what is called is recorded there; NULL: it goes to stream */
    bool at_root;         /* NCCL is asked how far it is with the root */

    /* From READY on: */
    cudaStream_t stream;
    int priority;  /* of the stream */
    void *scratch; /* WEFT__COMM_SCRATCH bytes of the device, for barriers */
    _Atomic unsigned
        pieces; /* in the stream's queue, of what is issued and of what callers are about to issue */

    /* By callers: */
    bool by_callers; /* from before JOINING on */

    weft__known *known; /* what has been issued */

    /* Progress thread: */
    weft__list listed;         /* nccl->running */
    weft__event *first, *last; /* what is issued, in order */
    int64_t looked_ns;         /* for an asynchronous error */
};

#define WEFT__COMM_SCRATCH 256

weft__comm *weft__comm_make(weft__nccl *nccl, void *owner, int rank, int size, const char *label);
void weft__comm_ref(weft__comm *comm);
bool weft__comm_ref_living(weft__comm *comm); /* false: it is being buried */
void weft__comm_unref(weft__comm *comm);

static inline bool weft__comm_doomed(weft__comm *comm)
{
    return atomic_load_explicit(&comm->state, memory_order_acquire) >= WEFT__COMM_DOOMED;
}

/* Ask for the turn: now, so that it comes before the turns of those who ask later. */
void weft__turn_ask(weft__comm *comm, weft__turn *turn);
/* Only if nobody else has it or has asked: then it is taken, or, while a question is being asked, the next to be. */
bool weft__turn_ask_alone(weft__comm *comm, weft__turn *turn);
/* Take it, if it has come. */
weft__turn_state weft__turn_try(weft__comm *comm, weft__turn *turn);
/* Wait for it, if it is not taken yet.  False: the communicator is doomed or the deadline has passed, and it is given back. */
bool weft__turn_take(weft__comm *comm, weft__turn *turn, int64_t deadline_ns);
/* Likewise, for who does nothing about an error.  False also where one was found: no call is made there any more, until
 * it is stopped. */
bool weft__turn_take_sound(weft__comm *comm, weft__turn *turn, int64_t deadline_ns);
void weft__turn_give(weft__comm *comm, weft__turn *turn);
/* Likewise, and what was issued with it goes to the progress thread: in the order of the turns. */
void weft__turn_give_issued(weft__comm *comm, weft__event *end);

/* With the turn: which function is being called, for messages; NULL: out of it again. */
static inline void weft__comm_inside(weft__comm *comm, const char *call)
{
    if (call) atomic_store_explicit(&comm->call_since_ns, weft__nccl_now(comm->nccl), memory_order_relaxed);
    atomic_store_explicit(&comm->call, call, memory_order_release);
}
/* Likewise, right behind another call: it counts as called when that was. */
static inline void weft__comm_inside_next(weft__comm *comm, const char *call)
{
    atomic_store_explicit(&comm->call, call, memory_order_release);
}

/* With the turn: `result` is what a call has returned; waits while that is ncclInProgress.  What became of
 * it, or ncclInProgress: the communicator was doomed meanwhile. */
ncclResult_t weft__comm_await(weft__comm *comm, ncclResult_t result);
/* Likewise for ncclCommSplit and ncclCommWindowRegister, which from NCCL 2.28 to 2.30 at least return ncclSuccess
 * where a communicator that does not block has only begun: group calls of their own take ncclInProgress for no
 * failure, and return the result that they had before. */
static inline ncclResult_t weft__comm_await_begun(weft__comm *comm, ncclResult_t result)
{
    return weft__comm_await(comm, result == ncclSuccess ? ncclInProgress : result);
}
/* Without: asks for an asynchronous error; ncclSuccess also where it is no time to ask. */
ncclResult_t weft__comm_look(weft__comm *comm);

/* It is doomed: until NCCL has nothing of it any more.  False: NCCL has refused to end it. */
bool weft__comm_outwait_abort(weft__comm *comm);
/* An error was found: until it is doomed, when it is known whose doing that is, or was not found out (running.c). */
void weft__comm_outwait_cause(weft__comm *comm);
/* False: the deadline has passed. */
bool weft__comm_outwait_abort_until(weft__comm *comm, int64_t deadline_ns);

/* NCCL has told an error.  True: it may be another rank's doing, which the runtime hears of on the host plane and knows
 * who it is, so that is waited for (running.c). */
bool weft__comm_suspect(weft__comm *comm, ncclResult_t result, weft_status status, const char *why);

static inline bool weft__comm_suspects(const weft__comm *comm)
{
    return atomic_load_explicit(&comm->found_ns, memory_order_relaxed) != 0;
}

/* "ncclAllReduce: unhandled system error (...)", and the status it stands for. */
weft_status weft__comm_error(const char *call, ncclResult_t result, char *text, size_t bytes);

/* Pieces in the queues of streams: of a communicator's, and of all of them. */
typedef struct weft__pieces {
    unsigned of_comm, of_device;
} weft__pieces;

static inline weft__pieces weft__pieces_now(weft__comm *comm)
{
    return (weft__pieces){atomic_load_explicit(&comm->pieces, memory_order_relaxed),
                          atomic_load_explicit(&comm->nccl->pieces, memory_order_relaxed)};
}

/* What there was before. */
static inline weft__pieces weft__pieces_add(weft__comm *comm, unsigned more)
{
    return (weft__pieces){atomic_fetch_add_explicit(&comm->pieces, more, memory_order_relaxed),
                          atomic_fetch_add_explicit(&comm->nccl->pieces, more, memory_order_relaxed)};
}

static inline void weft__pieces_taken(weft__comm *comm, unsigned fewer)
{
    atomic_fetch_sub_explicit(&comm->pieces, fewer, memory_order_relaxed);
    atomic_fetch_sub_explicit(&comm->nccl->pieces, fewer, memory_order_relaxed);
}

/* comm_create.c: slots of the seam. */
weft__comm *weft__comm_open(weft_backend *backend, void *owner, int rank, int size, const char *label,
                            bool names);
void weft__comm_by_callers(weft__comm *comm);
void weft__comm_join(weft__comm *comm, const void *id);
void weft__comm_split(weft__comm *parent, weft__comm *comm, int color, int key);

/* communicator.c: a slot of the seam. */
weft_status weft__comm_lend(weft__comm *comm, void **handle, void **stream);

/* comm_destroy.c */
void weft__comm_stop(weft__comm *comm, weft_status status, const char *why); /* the first reason stays */
void weft__comm_doom(weft__comm *comm, const char *why);                     /* slots of the seam */
void weft__comm_drop(weft__comm *comm);
void weft__comm_bury(weft__comm *comm); /* refs are 0: this thread of the module ends it */
#endif
