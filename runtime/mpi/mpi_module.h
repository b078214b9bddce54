/* mpi_module.h - collectives in host memory by an MPI: what the files of the module share.
 *
 *   module.c        the seam: what the runtime calls, one after the other
 *   job.c           MPI itself: which one it is, begun and ended; whose turn it is to call it
 *   communicator.c  a communicator of MPI for each group, made by a short thread of its own
 *   meeting.c       before that: its members are all there, and make no other one
 *   types.c         what MPI reduces as the library does
 *   calls.c         an operation as a call of MPI
 *   running.c       what is under way, polled by MPI_Test
 *
 * It knows mpi.h and weft/backend.h alone, so any mpicc builds it, outside of the tree as well. */
#ifndef WEFT_MPI_MODULE_H
#define WEFT_MPI_MODULE_H
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <weft/backend.h>

enum { WEFT__MPI_SENTENCE = 512 };

typedef struct weft__mpi_running weft__mpi_running;

typedef struct weft__mpi {
    weft_backend seam; /* first: what the runtime holds is a pointer to it */
    const weft_backend_runtime *runtime;
    bool asked;      /* only whether it can run: MPI has not been entered */
    bool rank_order; /* floats are to be added from left to right, which MPI does not promise */
    pthread_mutex_t lock;
    pthread_cond_t changed;     /* lock: a thread has ended, or has something to check */
    bool abandoned;             /* a rank has died */
    int threads;                /* lock */
    weft_backend_comm *dropped; /* lock: to be freed where MPI may be called */
    _Atomic bool untidy;        /* there are such */
    weft__mpi_running *first;   /* for who has the module's turn: in the order in which they are begun */
    weft__mpi_running **end;
    weft__mpi_running *spare; /* for who has the module's turn: to be used again */
    MPI_Request endless;      /* for who has the module's turn: see running.c */
} weft__mpi;

/* What becomes of a communicator. */
typedef enum weft__mpi_comm_state {
    WEFT__MPI_OPEN,    /* waits for its id */
    WEFT__MPI_JOINING, /* a thread makes it */
    WEFT__MPI_READY,   /* MPI has made it */
    WEFT__MPI_FAILED   /* MPI has not, or it was dropped before */
} weft__mpi_comm_state;

struct weft_backend_comm {
    weft__mpi *backend;
    weft_backend_comm *next; /* of those that are dropped */
    void *owner;
    int rank, size;
    bool names;
    uint64_t tag;               /* the id; the lock's, from join on */
    weft__mpi_comm_state state; /* the lock's */
    bool dropped;               /* the lock's */
    int holders;                /* the lock's: the runtime, and its thread */
    _Atomic bool doomed;
    MPI_Comm comm;
    uint64_t addresses[]; /* of its ranks */
};

static inline weft__mpi *weft__mpi_of(weft_backend *backend)
{
    return (weft__mpi *)(void *)backend;
}

/* job.c */
const char *weft__mpi_name(void); /* "Open MPI v4.1.4", of the library that is loaded */
/* The MPI of this process is ready, and this context one of those that use it, until leave.  Else a sentence: why
 * not.  place NULL: only whether it is the right MPI. */
const char *weft__mpi_enter(const weft_backend_place *place, uint64_t *address);
void weft__mpi_leave(
    bool clean);              /* not clean: something of MPI is left over, which ending it would wait for */
bool weft__mpi_is_ours(void); /* begun here, so the program does not call it */
bool weft__mpi_over(void);    /* the program has finalized it: nothing of it can be called */
uint64_t weft__mpi_new_tag(void); /* for a communicator that this rank names */
int weft__mpi_tag_most(void);
int weft__mpi_rank_at(uint64_t address); /* in MPI_COMM_WORLD */
/* Inside MPI. */
void weft__mpi_error_text(int error, const char *call, char text[WEFT__MPI_SENTENCE]);

/* One thread of the module at a time is inside MPI. */
void weft__mpi_calls_take(void);
bool weft__mpi_calls_try(void); /* false: another one is, perhaps in a call that blocks */
void weft__mpi_calls_give(void);

/* communicator.c */
weft_backend_comm *weft__mpi_comm_open(weft_backend *backend, void *owner, int rank, int size,
                                       const char *label, bool names);
void weft__mpi_comm_members(weft_backend_comm *comm, const uint64_t *addresses);
void weft__mpi_comm_join(weft_backend_comm *comm, const void *id);
void weft__mpi_comm_doom(weft_backend_comm *comm, const char *why);
void weft__mpi_comm_drop(weft_backend_comm *comm);
void weft__mpi_comms_tidy(weft__mpi *mpi);    /* frees what is dropped, unless another thread is inside MPI */
bool weft__mpi_comms_outwait(weft__mpi *mpi); /* false: a thread does not come back out of MPI */

/* meeting.c */
/* Its thread.  True, on all members or on none: this process makes no other communicator until weft__mpi_part. */
bool weft__mpi_meet(const weft_backend_comm *comm);
void weft__mpi_part(void);

/* types.c */
/* NULL: MPI reduces that as the library does.  Else why not. */
const char *weft__mpi_reduces(const weft__mpi *mpi, weft_dtype dtype, weft_op reduction);
MPI_Datatype weft__mpi_type(weft_dtype dtype, bool reduced);
MPI_Op weft__mpi_reduction(weft_dtype dtype, weft_op reduction);
void weft__mpi_divide(weft_dtype dtype, void *numbers, size_t n, int by); /* AVG's second step */
size_t weft__mpi_element(weft_dtype dtype);                               /* bytes */
bool weft__mpi_is_reduction(weft_backend_kind kind);
void weft__mpi_types_free(void); /* before MPI ends */

/* calls.c */
/* Gives the work to MPI; OK: running->request is under way.  Else `sentence` says why not. */
weft_status weft__mpi_issue(weft__mpi_running *running, char sentence[WEFT__MPI_SENTENCE]);

/* running.c */
struct weft__mpi_running {
    weft__mpi_running *next;
    weft_backend_work *work;
    bool begun;         /* MPI has it, */
    bool told;          /* and the runtime knows that */
    weft_status status; /* pending, or how it has ended */
    bool counts;        /* it has these */
    MPI_Request request;
    void *input;      /* MPI's copy of the input, where that has gaps or overlaps the output; else NULL */
    void *output;     /* where MPI writes instead of op.out, or NULL */
    size_t out_bytes; /* of it */
    int numbers[];    /* counts and displacements as MPI has them: four of the communicator's size */
};
void weft__mpi_start(weft_backend *backend, weft_backend_work *first);
int weft__mpi_poll(weft_backend *backend);
void weft__mpi_runnings_free(weft__mpi *mpi);
bool weft__mpi_end_endless(weft__mpi *mpi); /* before MPI ends.  False: another thread does not leave MPI */

#endif
