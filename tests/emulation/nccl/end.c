/* end.c - the ends of a communicator.
 *
 *   Finalize   waits for its kernels, then for the ranks of other processes to do the same; nonblocking in a
 *              thread.  The handle remains
 *   Destroy    does the same if that has not been, and takes the handle.  As NCCL warns, ranks of other
 *              processes are waited for: all must call it
 *   Abort      at any time, from any thread: ends its kernels unfinished, waits for no other rank, but for what
 *              its own threads carry out, which a split that is under way is part of, for graphs that hold it, and,
 *              as it frees memory, for all that the device has to do; and takes the handle.
 *              A call that hangs inside (init, a group call's end) ends with an error; one that asks for errors
 *              does not hang, and is in the way.  Peers are not told: their kernels hang until they abort too */
#include "alias.h"
#include "buffer.h"
#include "group.h"
#include "version.h"

#include <stdlib.h>
#include <unistd.h>

enum { NAP_MS = 20 };

/* Ranks of this process are not waited for: one thread may end them one after another. */
static bool is_waited_for(ncclComm_t comm, int rank)
{
    const member *m = &comm->segment->members[rank];

    return m->process != getpid() && !atomic_load(&m->left) && !life_over(comm->lives[rank]);
}

static void leave(ncclComm_t comm)
{
    atomic_store(&comm_self(comm)->left, true);
    comm_strike_all(comm);
}

static ncclResult_t quiesce(ncclComm_t comm)
{
    bell *own = &comm_self(comm)->bell;

    if (!comm_drain(comm) && atomic_load(&comm->state) != COMM_REVOKED)
        return fail(ncclInternalError, "%s: aborted while it was finalized", comm->name);
    leave(comm);
    for (int r = 0; r < comm->ranks; r++) {
        uint32_t seen = bell_strokes(own);
        while (is_waited_for(comm, r)) {
            if (atomic_load(&comm->state) == COMM_ABORTED)
                return fail(ncclInternalError, "%s: aborted while it was finalized", comm->name);
            bell_wait(own, seen, NAP_MS);
            seen = bell_strokes(own);
        }
    }
    return ncclSuccess;
}

/* ---- finalize --------------------------------------------------------------------------------------- */

static ncclResult_t run_finalize(job *j)
{
    ncclResult_t result = quiesce(j->comm);
    comm_state ready = COMM_READY;

    if (!result) atomic_compare_exchange_strong(&j->comm->state, &ready, COMM_FINALIZED);
    return result;
}

static ncclResult_t queue_finalize(ncclComm_t comm)
{
    job *j = calloc(1, sizeof *j);

    if (!j) return fail(ncclSystemError, "no memory");
    comm_hold(comm);
    *j = (job){.run = run_finalize, .function = "ncclCommFinalize", .comm = comm};
    group_add_comm(comm);
    return group_add_job(j);
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    ncclResult_t result, ended;

    if (!comm) return comm_enter(NULL, "ncclCommFinalize"); /* nothing to do, says NCCL */
    result = comm_begin(comm, "ncclCommFinalize");
    if (result) return group_note(result);
    group_begin();
    if (atomic_load(&comm->state) != COMM_READY)
        result = fail(ncclInvalidUsage, "ncclCommFinalize: %s was finalized or revoked before", comm->name);
    else
        result = queue_finalize(comm);
    comm_end(comm);
    group_note(result);
    ended = group_end();
    return result ? result : ended;
}
ALIAS(ncclCommFinalize)

/* ---- destroy ---------------------------------------------------------------------------------------- */

static void *destroy_apart(void *arg)
{
    ncclComm_t comm = arg;

    quiesce(comm);
    comm_cost("ending");
    comm_drop(comm);
    return NULL;
}

/* Ends a nonblocking one that has not been finalized: the handle is gone at once, the rest follows. */
static ncclResult_t destroy_nonblocking(ncclComm_t comm)
{
    pthread_t thread;

    if (comm_is_idle(comm)) leave(comm); /* the program may exit before the thread runs */
    if (pthread_create(&thread, NULL, destroy_apart, comm))
        return fail(ncclSystemError, "ncclCommDestroy: no thread for it");
    pthread_detach(thread);
    return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    comm_state before;
    ncclResult_t result;

    if (!comm) return comm_enter(NULL, "ncclCommDestroy");
    result = comm_begin(comm, "ncclCommDestroy");
    if (result) return group_note(result);
    if (comm->in_group)
        return group_note(fail(ncclInvalidUsage,
                               "ncclCommDestroy: %s has operations in a group "
                               "call under way",
                               comm->name));
    before = atomic_load(&comm->state);
    if (before != COMM_FINALIZED && comm->blocking) result = quiesce(comm);
    comm_unclaim(comm);
    if (atomic_exchange(&comm->state, COMM_DESTROYED) ==
        COMM_ABORTED) { /* while it waited: that has the handle */
        atomic_store(&comm->state, COMM_ABORTED);
        return result;
    }
    if (before != COMM_FINALIZED && !comm->blocking) return destroy_nonblocking(comm);
    comm_cost("ending");
    comm_drop(comm);
    return result;
}
ALIAS(ncclCommDestroy)

/* ---- abort ------------------------------------------------------------------------------------------ */

/* A call that blocks comes out of NCCL while the abort frees what it works on, unless graphs hold that up.  Where there is a
 * revoke it could have been let out before. */
static void check_caller(ncclComm_t comm, comm_state before)
{
    const char *there = comm_other_inside(comm);

    if (before == COMM_READY && comm->blocking && there && version_shown() >= 22800 && !comm_in_graphs(comm))
        emu_misuse("ncclCommAbort: %s, rank %d, is freed under a thread that is inside %s", comm->name,
                   comm->rank, there);
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    ncclResult_t result = comm_enter(NULL, "ncclCommAbort");
    comm_state before;

    if (!comm || result) return result;
    result = comm_check(comm, "ncclCommAbort");
    if (result) return result;
    before = atomic_exchange(&comm->state, COMM_ABORTED);
    check_caller(comm, before);
    if (atomic_load(&comm->askers))
        emu_misuse("ncclCommAbort: %s, rank %d, is aborted while a thread is inside ncclCommGetAsyncError",
                   comm->name, comm->rank);
    comm_abort_part(comm, true);
    comm_stop(comm);
    comm_outwait_background(comm);
    if (before != COMM_REVOKED) /* NCCL's commDestroySync polls until they are gone, in an abort too */
        comm_outwait_graphs(comm);
    else if (comm_in_graphs(comm))
        emu_misuse("ncclCommAbort: %s, rank %d, was revoked, and so does not wait for graphs that hold it",
                   comm->name, comm->rank);
    emu_device_await(comm->device);
    buffer_remove_all(comm);
    comm_cost("ending");
    comm_drop(comm);
    emu_enter("aborted"); /* no call: counted for who wants to know whether one is under way */
    return ncclSuccess;
}
ALIAS(ncclCommAbort)
