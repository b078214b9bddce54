/* context.h - this process's part in a job: what is shared by the files of the runtime.
 *
 * Who may touch what: "engine" fields belong to the holder of ctx->engine (weft__holds_engine); atomics to
 * anybody; the rest is fixed once the context is open. */
#ifndef WEFT_RUNTIME_CONTEXT_H
#define WEFT_RUNTIME_CONTEXT_H
#include "biased.h"
#include "choices.h"
#include "clock.h"
#include "completion_fd.h"
#include "early.h"
#include "list.h"
#include "lock.h"
#include "mpsc.h"
#include "nt_copy.h"
#include "p2p.h"
#include "pacing.h"
#include "poller.h"
#include "process.h"
#include "quorum.h"
#include "record.h"
#include "rendezvous.h"
#include "seam.h"
#include "select.h"
#include "shm_segment.h"
#include "slab.h"
#include "ticker.h"
#include "transports.h"
#include "watchdog_wire.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#define WEFT__HOST_BYTES 64
#define WEFT__FAN_OUT    16 /* hosts below each one in the tree of a group's hosts (fault/host_tree.h) */
/* Hosts of a group up to which one rank tells all others of a break (fault/telling.h). */
#define WEFT__TOLD_AT_ONCE 32
#define WEFT__GROUP_LISTS  256 /* among which groups are spread by their ids */

/* Whether a rank is gone, and how that is known; gone_to (peer.c) alone changes it:
 *     LIVES <-> UNREACHABLE    from each to LEFT, DIED, or PRESUMED_DEAD -> DIED */
typedef enum weft__gone {
    WEFT__LIVES,
    WEFT__UNREACHABLE, /* from here, and others hear its host: it is sent nothing, and not gone (heartbeats.md) */
    WEFT__LEFT,        /* it said goodbye, or is said to have */
    WEFT__PRESUMED_DEAD, /* a connection to it is lost, or its host is not heard: here, or where that was told */
    WEFT__DIED           /* certain: its kernel or its own last word says so, here or where that was told */
} weft__gone;

/* A rank of the job, as it told of itself at joining. */
typedef struct weft__peer {
    char host[WEFT__HOST_BYTES]; /* its name, for messages */
    int32_t pid;
    int first_on_host;    /* the lowest rank on its host, by which hosts are told apart */
    int local;            /* local rank if it is on this host (shares the segment), else -1 */
    int host_lead;        /* lowest rank that shares a segment with it; itself where it shares none */
    _Atomic uint8_t gone; /* weft__gone: engine writes */
    uint8_t modules;      /* a bit for each kind of memory for which it has the module that this rank has */
    _Atomic uint32_t
        strayed;        /* when it was unreachable last, as ctx->strays counts; 0: never.  Engine writes */
    char why[192];      /* what was known of its end when it counted as gone first */
    int64_t suspect_ns; /* a connection to it ended: dead unless it turns out to have left by then; 0: no */
    bool hearsay;       /* another rank says that it has left: so it has by suspect_ns, whatever has come */
    char suspicion[192];
    unsigned char *accusers; /* a bit for each rank that presumes it dead; NULL: none does */
    bool to_answer;          /* it presumes others dead, and has not answered this rank since it said so */
    int64_t asked_ns;        /* that was asked for then */
    bool unheard; /* this rank hears nothing of its host, which it has knocked at: fault/heartbeat.c */
    bool heard_by_another; /* that is so, and rank heard_by does hear it */
    int heard_by;
    bool by_hearsay; /* it is presumed dead as others say so */
    bool passed_on;  /* this rank tells all others, should it believe them */
    bool passes; /* this rank has told another one that the two do not reach each other, and tells its end */
    int64_t accused_ns;     /* they are believed from then on, if nothing speaks against that; 0: not asked */
    _Atomic bool refused;   /* the log has it that it told what cannot be */
    uint32_t sets_sent;     /* engine: number of the last set of messages that began to it: device_bundle.c */
    uint32_t sent_together; /* engine: and of the last one of its own that has come whole */
    weft__polled death;     /* its pidfd */
    bool death_is_own;      /* opened by peer.c, and not the segment's */
    weft__polled tie;       /* the end of a pipe whose other end it holds: shm_segment.h; -1: not watched */
    int64_t look_ns;        /* its pipe has ended: whether it is another program is asked for then; 0: not */
    int64_t look_until_ns;
    bool is_another; /* has become another program */
    weft__process_id process;
    weft_context *ctx;
    int rank;
} weft__peer;

/* Has left, or counts as dead.  (What is not WEFT__LIVES cannot be worked with.) */
static inline bool weft__is_gone(const weft__peer *m)
{
    return atomic_load(&m->gone) > WEFT__UNREACHABLE;
}

static inline bool weft__is_reached(const weft__peer *m)
{
    return atomic_load(&m->gone) == WEFT__LIVES;
}

static inline bool weft__has_left(const weft__peer *m)
{
    return atomic_load(&m->gone) == WEFT__LEFT;
}

/* Counted as dead, certainly or not. */
static inline bool weft__is_dead(const weft__peer *m)
{
    return atomic_load(&m->gone) > WEFT__LEFT;
}

/* What carries a request out (executor.h); the order of the table's rows. */
typedef enum weft__executor_kind {
    WEFT__EXECUTOR_COLLECTIVES,  /* in host memory: chooses between the next two, and holds what cannot begin
                                    yet */
    WEFT__EXECUTOR_ROUNDS,       /* collectives by rounds in shared memory */
    WEFT__EXECUTOR_SCHEDULE,     /* collectives by a schedule of messages */
    WEFT__EXECUTOR_MESSAGES,     /* point to point, in host memory */
    WEFT__EXECUTOR_DEVICE,       /* everything on device memory */
    WEFT__EXECUTOR_GROUP_MAKING, /* groups that their members make between them */
    WEFT__EXECUTOR_KINDS
} weft__executor_kind;
typedef struct weft__executor weft__executor;

/* What ranks tell each other (protocol.h). */
typedef enum weft__protocol_kind {
    WEFT__PROTOCOL_DEVICE_COMMS,   /* communicators of a device: device_comm.c */
    WEFT__PROTOCOL_ORDER,          /* the one order in which devices get work: order.c */
    WEFT__PROTOCOL_BUNDLES,        /* which messages devices get together: device_bundle.c */
    WEFT__PROTOCOL_SLOTS,          /* where members' slots in shared memory are: slot_exchange.c */
    WEFT__PROTOCOL_SIGNATURES,     /* that all members mean the same collective: signatures.c */
    WEFT__PROTOCOL_SIGNING,        /* likewise, compared afterwards: signing.c */
    WEFT__PROTOCOL_INTERLEAVING,   /* and begin those of several groups in one order: interleaving.c */
    WEFT__PROTOCOL_BREAKS,         /* that a group is broken: breaks.c */
    WEFT__PROTOCOL_CREATE,         /* new_group: group_create.c */
    WEFT__PROTOCOL_SHRINK,         /* shrink_group: shrink.c */
    WEFT__PROTOCOL_SPREADING,      /* what leads of those two say to many: spreading.c */
    WEFT__PROTOCOL_GATHERING,      /* who has come to the first of them, from many: gathering.c */
    WEFT__PROTOCOL_MESH,           /* what two ranks asked for that make unlike meshes: mesh.c */
    WEFT__PROTOCOL_STRAGGLER,      /* who is late: straggler.c */
    WEFT__PROTOCOL_LEAVE_TOGETHER, /* that all ranks leave: leave_together.c */
    WEFT__PROTOCOL_STORE,          /* where the job's store is: job_store.c */
    WEFT__PROTOCOL_DUMPS,          /* that hosts write down what their ranks did: dump_asking.c */
    WEFT__PROTOCOL_MEMBERSHIP,     /* who is in the job: membership.c */
    WEFT__PROTOCOL_HEARTBEAT,      /* which hosts are heard: heartbeat.c */
    WEFT__PROTOCOL_KINDS
} weft__protocol_kind;
typedef struct weft__protocol weft__protocol;

/* How a rank leaves (job/leave_together.h).  Behind STAYS it watches over nobody. */
typedef enum weft__leaving {
    WEFT__STAYS,
    WEFT__ASKS, /* whether all leave */
    WEFT__LEAVES_TOGETHER,
    WEFT__LEAVES_ALONE
} weft__leaving;

/* The dump that the first failure asks for (fault/dumping.h); its state changes by weft__dumping_to alone. */
typedef enum weft__dumping_state {
    WEFT__DUMPING_NOT,
    WEFT__DUMPING_ASKING,
    WEFT__DUMPING_ASKED,
    WEFT__DUMPING_READING, /* another rank of this host reads the records */
    WEFT__DUMPING_READ,    /* they have been, by this rank or another one, and the file is being written */
    /* Nobody waits for it any more: */
    WEFT__DUMPING_LATE, /* they are being read, or it is being written, as before */
    WEFT__DUMPING_DONE, /* its file is there */
    WEFT__DUMPING_FAILED
} weft__dumping_state;

typedef struct weft__dumping {
    _Atomic uint32_t state;    /* futex: weft__dumping_state */
    char why[256];             /* ASKED: of that */
    int64_t from_ns;           /* ASKED: the records are read then, and not before */
    _Atomic uint32_t requests; /* for other ones, of this rank */
    /* watchdog thread: */
    int64_t late_ns; /* READING, READ: when it is LATE */
    int64_t most_ns; /* where another rank reads, at the latest; 0: it has not been waited for yet */
    struct weft__dump_writer *first,
        *again; /* fault/dump_writer.h: at work; again: on one that a signal or a rank asked for */
    struct weft__dump_turn
        *turn; /* READING, READ, LATE, first NULL: of the rank that reads and writes (dump_turn.h) */
    uint32_t signals_seen; /* that asked for a dump */
    char asked[256];       /* for another one, by a rank of another host, and why; "": not */
    uint64_t asked_for;    /* that request */
    char again_why[256];   /* of the one that is written */
} weft__dumping;

/* How the progress thread rests. */
typedef enum weft__rest { WEFT__AWAKE, WEFT__NAP, WEFT__SLEEP } weft__rest;

/* A selection, and all that it follows from; size 0: none yet. */
typedef struct weft__selected {
    int size;
    bool shared;
    weft__group_params params;
    weft__selection selection;
} weft__selected;

/* What ranks bring to groups, each kind of it once (terms.h). */
typedef struct weft__terms {
    weft__group_params *distinct;
    int count, *of; /* by rank of the world: which one; NULL before the ranks have joined */
} weft__terms;

struct weft_context {
    int rank, world_size, device;
    weft__peer *peers;
    weft__rendezvous *rendezvous;                        /* how its ranks met; its directory */
    weft__transport *transports[WEFT__TRANSPORTS_COUNT]; /* by row; NULL: nobody is reached by it */
    bool said_bye;
    weft__leaving leaving; /* engine */
    bool aborting;         /* engine: it leaves at once, and its goodbye tells the others all */
    bool exiting;          /* engine: its process does; communicators of modules are not stopped any more */
    weft__keys *keys;
    int64_t timeout_ms;    /* default of every group */
    int64_t warn_after_ns; /* of an operation that has not settled */
    weft__quorum quorum;
    /* The job goes on without this rank: since when, who tells and why, as a sentence that stays; NULL: it does not.  Engine writes. */
    const char *_Atomic left_out;
    const weft__executor *const *executors; /* a row for each weft__executor_kind */
    const weft__protocol *const
        *protocols; /* NULL behind the last; in the order in which they hear of things */
    void *protocol_state[WEFT__PROTOCOL_KINDS];
    weft__slab requests;
    weft_group *world, *host_group;
    weft__choices choices;              /* what this rank brings to those of a group */
    weft__terms terms;                  /* what all do; no thread changes it once they have joined */
    bool told_of_names, told_of_limits; /* engine: the log has it that a group's are others */
    char backend_names[128];
    weft_context *next;                /* the process's contexts, under init.c's lock */
    struct weft__recording *recording; /* where that lies (recording.h); NULL: nowhere */
    pid_t pid;

    /* the engine */
    _Alignas(WEFT__LINE) weft__biased engine;
    weft__mpsc submitted;                     /* requests, any thread */
    _Alignas(WEFT__LINE) _Atomic int drivers; /* threads that spin in wait and drive the engine */
    _Atomic uint32_t rest;                    /* weft__rest of the progress thread */
    _Atomic uint32_t active;             /* engine writes: calls of progress in which something happened */
    _Atomic uint32_t driven;             /* engine writes: of these, those of callers who wait */
    _Atomic int64_t inflight_queued;     /* requests that were queued and have not settled */
    _Atomic uint32_t inflight_inline;    /* engine writes: the others that have not */
    _Atomic bool closing;                /* no new work */
    _Alignas(WEFT__LINE) weft__p2p *p2p; /* engine */
    weft__p2p_events p2p_events;
    weft__segment *segment;        /* NULL: no shared memory with anybody */
    size_t slot_bytes;             /* of a slot on the segment (host/slots.h); 0: no segment */
    struct weft__regions *regions; /* engine: mem_alloc's memory; NULL: there has been none */
    weft__poller poller;           /* engine */
    unsigned sockets_in;           /* engine: until sockets are polled again */
    int64_t
        progress_ns; /* engine: the time of this call of progress, once somebody has asked; 0: not yet; -1: outside of one */
    bool wake_watchdog;         /* engine: once this call of progress is over */
    weft__ticker ticker;        /* engine */
    bool descriptors_wake;      /* some peer is reached by a transport that wakes by a descriptor */
    weft__recorder record;      /* engine; its words of life and events: any thread */
    weft__list pending;         /* engine: requests that run */
    weft__early_messages early; /* engine */
    weft__list at_work[WEFT__EXECUTOR_KINDS]; /* engine: what goes on by steps of that executor's */
    weft__nt_copy nt_copy;                    /* engine: into this rank's slots */
    int64_t deaths_at_ns; /* engine: the local ranks' processes are checked again, not before */
    int deaths_from;      /* engine: and then from this one on */
    bool
        doubts; /* engine: some rank may have to be looked at again (weft__peer_suspects_check); else none has */
    bool cut_short;    /* engine: rounds could have gone on, but this call was long enough */
    weft__list groups; /* under groups_lock; the newest first */
    weft__list groups_by_id[WEFT__GROUP_LISTS]; /* under groups_lock: those that have one, by its hash */
    weft__list batches;                         /* under groups_lock: begun, not ended */
    weft__list meshes;                          /* under groups_lock */
    weft__lock groups_lock;
    weft__mpsc retired;           /* groups without references */
    weft__list retiring;          /* engine: of these, those whose slots somebody may still read */
    weft__selected selected;      /* engine: for the group made last */
    _Atomic uint64_t groups_made; /* for ids */
    _Atomic uint32_t strays;      /* engine writes: how often a rank has become unreachable */
    int processors;               /* this process may use */
    weft__pacing pacing;

    /* the progress thread */
    pthread_t thread;
    bool thread_runs;
    _Atomic bool thread_stop;
    int bell_fd;                          /* eventfd: wakes it */
    weft__mpsc callbacks;                 /* settled requests whose function has to run */
    weft__module modules[WEFT__MEMORIES]; /* by kind of memory */
    int module_count;                     /* of these, those that are loaded */
    bool beyond_host;                     /* some of these move other memory than the host's */
    bool callers_serve;                   /* all of these can be called by a caller that waits */
    weft__slab devices;                   /* of requests that modules carry out: device.h */
    _Atomic int64_t blocked_since;        /* the thread is inside a call of a module since, or 0 */
    _Atomic int blocked_in;               /* that module's kind of memory */
    _Atomic int64_t told_ns;              /* it told something there last; WEFT__NEVER: it is about to */
    _Atomic int64_t calling_since;        /* it runs callbacks since; 0: it does not */
    _Atomic int device_pending;           /* works given to all modules; but */
    _Atomic int device_left;              /* those whose requests were given up, which modules still have */
    _Atomic int
        linger_us; /* between polls without works of modules that linger; 0: there are none (linger.h) */
    int64_t lingered_ns;       /* progress thread: the last one */
    bool hides;                /* what goes between hosts is encrypted, as a secret was given for it */
    _Atomic int program_ahead; /* of these in program order, the progress thread's that are not issued */
    weft__list program_line;   /* engine: operations in program order whose turn has not come (program.c) */
    bool by_callers;           /* engine: a communicator in program order has been begun */
    weft__list holding; /* engine: operations that hold streams and are not on their way (device_hold.c) */
    _Atomic int streams_held; /* how many these are */
    _Atomic uint64_t holds;   /* operations that have held streams so far */
    weft__list behind;        /* engine: requests that wait for those (behind.c) */
    int64_t behind_look_ns;   /* engine: not before that */
    weft__list device_memory; /* engine: mem_alloc's (device_memory.c) */

    /* the watchdog */
    weft__watchdog_wire *wire; /* watchdog thread */
    weft__mpsc notices;        /* to be sent by it */
    weft__list to_tell; /* engine: broken groups and deaths that others are still told of (fault/telling.h) */
    weft__list told_deaths; /* engine: deaths that are */
    struct weft__seats
        *host_tree;            /* engine: all ranks in the order of hosts (fault/host_tree.h), when needed */
    weft__list late_rounds;    /* engine: groups that are being asked who is late (fault/late.h) */
    int fan_out, told_at_once; /* WEFT__FAN_OUT, WEFT__TOLD_AT_ONCE, but in tests of trees of few ranks */
    _Atomic int64_t check_ns;  /* when it must check this context next */
    bool guarded;
    uint64_t watched_passes; /* watchdog thread: how often it has checked this context */
    const char *away;        /* watchdog thread: why it drives the host plane; NULL: it does not */
    weft__dumping dumping;
    _Atomic bool ticking;  /* it checks often, because a module has work, or had lately */
    int64_t tick_until_ns; /* watchdog thread */

    /* completion descriptor and waiting for several */
    weft__completion_fd completion_fd;
    _Atomic uint32_t settlings; /* futex: counts while somebody sleeps on it */
    _Atomic int settling_sleepers;
};

/* In no world yet, without threads and transports (init.c); weft__context_free takes it apart, however far it
 * has come.  NULL: no memory. */
weft_context *weft__context_new(const weft_config *config, const weft__executor *const *executors,
                                const weft__protocol *const *protocols);
/* Who is presumed dead is left out by agreement (fault/membership.h): else each rank believes what it sees. */
static inline bool weft__by_agreement(const weft_context *ctx)
{
    return ctx->quorum != WEFT__QUORUM_ANY;
}

weft_status weft__usable(const weft_context *ctx);     /* it is there, and this is no child of fork */
bool weft__forked(void);                               /* in a child of fork: nothing works */
void weft__context_close_protocols(weft_context *ctx); /* and what waits for them */
void weft__fork_watch(void);                           /* once: lets a forked child know that it is one */

#endif
