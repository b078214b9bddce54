/* comm.h - one rank's end of a communicator.
 *
 * The handle that a program has is one of the references; kernels, and threads that work in the background,
 * hold others, so that an abort never pulls the ground from under them.  What the last one leaves is the bare
 * structure, kept for ever, by which a use after destroy is recognised. */
#ifndef EMULATION_NCCL_COMM_H
#define EMULATION_NCCL_COMM_H
#include "life.h"
#include "meet.h"
#include "reduce.h"

#include <pthread.h>

struct task;

typedef enum {
    COMM_MAKING, /* init, split or shrink is under way, or has failed: result says */
    COMM_READY,
    COMM_REVOKED,   /* takes no operations, but may be split, shrunk and destroyed */
    COMM_FINALIZED, /* waits for ncclCommDestroy */
    COMM_DESTROYED,
    COMM_ABORTED
} comm_state;

typedef struct comm_op { /* made by ncclRedOpCreatePreMulSum */
    bool used;
    reduction how;
} comm_op;

typedef struct comm_buffer { /* registered, or a window */
    struct comm_buffer *next;
    void *at;
    size_t bytes;
    bool window;
    bool symmetric; /* all ranks reach into it, each by its own offset */
} comm_buffer;

typedef struct comm_ways { /* as connect.c has them */
    uint32_t sets;
    uint64_t to[PEERS_WORDS], from[PEERS_WORDS];
} comm_ways;

struct ncclComm {
    uint64_t magic;
    struct ncclComm *next; /* of all that there ever were */
    _Atomic int references;
    _Atomic comm_state state;
    atomic_bool aborted; /* kernels, and what waits in the background, end without being done */
    _Atomic int result;  /* what ncclCommGetAsyncError says */
    _Atomic int holder;  /* the thread inside of it; 0: none */
    const char *_Atomic held_for;
    _Atomic int network_result; /* what the network's threads have found; the result stays at that */
    _Atomic int askers;         /* inside ncclCommGetAsyncError */
    _Atomic int64_t looked_ns;  /* when its peers' lives were last looked at */

    meeting_id id;
    char name[64];
    bool named; /* by its config */
    int rank, ranks, device;
    bool blocking;
    segment *segment;
    life **lives; /* per rank */

    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int pending, running;  /* kernels launched and not over; those that have begun; under the lock */
    int graphs;            /* kernels that graphs hold; under the lock */
    int background;        /* threads that carry out what was asked of it; under the lock */
    struct ncclComm *part; /* being split off it; under the lock */
    atomic_bool stopping;  /* what waits for other ranks ends, also if it comes now; written under the lock */
    uint64_t *sent, *received; /* messages per peer; only by kernels, which run one at a time */

    _Atomic uint64_t collectives; /* launched so far; launches by graphs are no calls of it */

    /* Only by the holder. */
    uint64_t notices;                    /* shown on the board */
    uint64_t shrinks[SEGMENT_RANKS_MAX]; /* by how many were excluded */
    comm_op *ops;
    int op_count;
    comm_buffer *buffers;
    _Atomic bool in_group;
    struct ncclComm *group_next;
    struct task *tasks, **last_task;
    comm_ways ways;    /* it has gone, or is about to */
    uint32_t going;    /* those of this group call that it goes first, */
    int goings;        /* and how many times there were such */
    cudaEvent_t event; /* for operations of one group call on several streams */
};

/* A new one in COMM_MAKING with one reference; NULL: no memory. */
ncclComm_t comm_new(int rank, int ranks, int device, const ncclConfig_t *config, ncclComm_t parent);
void comm_hold(ncclComm_t comm);
void comm_drop(ncclComm_t comm);
ncclResult_t comm_meet(ncclComm_t comm); /* blocks until its ranks have met; then it is ready */
/* What it costs to make or end one (the script's words "making" and "ending"): of one process one at a time, as they
 * all want the driver. */
void comm_cost(const char *what);

/* Whether the handle is alive; a misuse where it is not. */
ncclResult_t comm_check(ncclComm_t comm, const char *function);
/* As comm_check, and no operation of it is in progress or has failed. */
ncclResult_t comm_check_ready(ncclComm_t comm, const char *function);
/* Begins a call that works on it: says that it was made, claims it, and carries out its script (a hang ends
 * with its abort).  This thread is inside from the claim on, and another one there already is a misuse.  A
 * thread may claim again. */
ncclResult_t comm_begin(ncclComm_t comm, const char *function);
ncclResult_t comm_claim(ncclComm_t comm, const char *function); /* that part alone */
void comm_end(ncclComm_t comm); /* gives it back, unless a group call has it: that gives it back at its end */
void comm_unclaim(ncclComm_t comm);
const char *comm_other_inside(ncclComm_t comm); /* the call that another thread is in; NULL: none is */
ncclResult_t comm_enter(ncclComm_t comm, const char *function); /* only the script; comm may be NULL */

void comm_failed(ncclComm_t comm, ncclResult_t result, const char *why); /* asynchronously; the first stays */
void comm_look(ncclComm_t comm);                /* for such failures, as the question for them does */
bool comm_peer_dead(ncclComm_t comm, int *who); /* one that has not left before */
member *comm_self(ncclComm_t comm);
void comm_strike_all(ncclComm_t comm);

bool comm_is_idle(ncclComm_t comm); /* all kernels launched are over */
/* Misuse where it is not, which NCCL may hang on. */
ncclResult_t comm_check_idle(ncclComm_t comm, const char *function);
/* Until then; false: aborted before. */
bool comm_drain(ncclComm_t comm);
bool comm_in_graphs(ncclComm_t comm);
/* Until no graph holds it. */
void comm_outwait_graphs(ncclComm_t comm);
/* Ends its kernels, and waits for those that run. */
void comm_stop(ncclComm_t comm);
/* Likewise, and waits for those that are launched and have not begun, which may be behind anything on their streams. */
void comm_interrupt(ncclComm_t comm);
/* What is made of a part of its ranks, from where it can be aborted with it until it is NULL again. */
void comm_set_part(ncclComm_t comm, ncclComm_t part);
void comm_abort_part(ncclComm_t comm, bool stops); /* false: what comes from now on is not */
/* Threads that carry out what was asked of it: one more, or less; and until there is none. */
void comm_background(ncclComm_t comm, int more);
void comm_outwait_background(ncclComm_t comm);
void comm_forgive(
    ncclComm_t comm); /* calls that have failed no longer stand against it; the network's failures do */

bool config_check(const ncclConfig_t *config); /* made by NCCL_CONFIG_INITIALIZER */
#endif
