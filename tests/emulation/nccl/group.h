/* group.h - what one thread has collected between ncclGroupStart and ncclGroupEnd.
 *
 * Every call outside of a group call is one of its own.  Blocking: its end does the work in the calling
 * thread (several jobs: a thread each, joined).  Nonblocking: a thread of its own does it, and the end
 * returns ncclInProgress. */
#ifndef EMULATION_NCCL_GROUP_H
#define EMULATION_NCCL_GROUP_H
#include "comm.h"

/* Host work that waits for other ranks.  Freed by the group; embed it as the first member. */
typedef struct job {
    struct job *next;
    ncclResult_t (*run)(struct job *j);
    const char *function;
    ncclComm_t comm;  /* the one it makes or ends; holds a reference */
    ncclComm_t *made; /* set to NULL when a blocking one fails, and comm is dropped; NULL: it makes none */
    ncclResult_t result;
    bool
        governed; /* by another communicator, which takes part: whether the group call blocks is for that to say */
} job;

void group_begin(void);
ncclResult_t group_end(void);
/* As some of NCCL's functions end their own, from 2.28 to 2.30 at least: what has only begun is ncclSuccess. */
ncclResult_t group_end_silent(void);
ncclResult_t group_drop(void); /* an end that does nothing of what was collected */
/* Passes the result on; an error inside of a group call makes its end fail. */
ncclResult_t group_note(ncclResult_t result);
/* Takes part in this group call, claimed until its end. */
void group_add_comm(ncclComm_t comm);
/* The handle is written now that what it stands for is whole. */
void job_hand_out(job *j, ncclComm_t *to);
ncclResult_t group_add_job(job *j); /* takes it over, and a reference to its comm, also on failure */
#endif
