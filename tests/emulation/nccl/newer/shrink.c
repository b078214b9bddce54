/* shrink.c - going on without some ranks: ncclCommShrink (2.27), ncclCommRevoke (2.28.7 and later, where the
 * header has it).
 *
 * Revoke, and a shrink that aborts, end the communicator's kernels unfinished, and wait until those that were launched are
 * over; it then takes no operations, but may be split, shrunk and destroyed.  A shrink that aborts does so in the calling
 * thread.  It ends no call that is under way, and forgives nothing: of a communicator that has failed it refuses to make
 * another one, as NCCL does from 2.27.3 to 2.30.7 at least.  What calls have left there a revoke takes back; what the
 * network's threads have found it does not. */
#include "alias.h"
#include "group.h"
#include "version.h"

#include <stdlib.h>

#ifdef NCCL_SHRINK_DEFAULT
typedef struct shrink_job {
    job base;
    ncclComm_t parent; /* takes part in the group call too, which holds it */
    ncclComm_t *to;
} shrink_job;

/* The ranks that are left meet; the excluded are not asked, they may be dead.  Until they have met only the parent's abort
 * reaches what they make. */
static ncclResult_t run_shrink(job *j)
{
    shrink_job *s = (shrink_job *)j;
    ncclResult_t result = comm_enter(s->parent, j->function);

    if (result) return result;
    comm_set_part(s->parent, j->comm);
    result = comm_meet(j->comm);
    comm_set_part(s->parent, NULL);
    if (!result) job_hand_out(j, s->to);
    return result;
}

static int compare_ranks(const void *one, const void *other)
{
    int a = *(const int *)one, b = *(const int *)other;

    return (a > b) - (a < b);
}

/* NCCL believes the list: what it counts twice, or as a rank that there is not, are ranks that it waits for. */
static ncclResult_t check_excluded(ncclComm_t comm, const int *sorted, int count)
{
    for (int i = 0; i < count; i++) {
        if (sorted[i] == comm->rank)
            return fail(ncclInvalidArgument, "ncclCommShrink: called by rank %d, which is excluded",
                        comm->rank);
        if (sorted[i] >= 0 && sorted[i] < comm->ranks && (!i || sorted[i] != sorted[i - 1])) continue;
        emu_misuse("ncclCommShrink: %s, of %d ranks, is to go on without rank %d%s", comm->name, comm->ranks,
                   sorted[i],
                   sorted[i] < 0 || sorted[i] >= comm->ranks ? ", which there is not" : ", named twice");
        return fail(ncclInvalidArgument, "ncclCommShrink: rank %d in the list", sorted[i]);
    }
    return ncclSuccess;
}

static ncclResult_t queue_shrink(ncclComm_t parent, const int *excluded, int count, ncclComm_t *made,
                                 const ncclConfig_t *config)
{
    uint64_t about[2 + SEGMENT_RANKS_MAX / 64] = {2};
    int ranks = parent->ranks - count, rank = parent->rank;
    shrink_job *s = calloc(1, sizeof *s);
    ncclComm_t child;

    for (int i = 0; i < count; i++) {
        about[2 + excluded[i] / 64] |= UINT64_C(1) << (excluded[i] % 64);
        rank -= excluded[i] < parent->rank;
    }
    child = s ? comm_new(rank, ranks, parent->device, config, parent) : NULL;
    if (!child) {
        free(s);
        return fail(ncclSystemError, "no memory");
    }
    about[1] = ++parent->shrinks[ranks]; /* those that remain shrink in the same order */
    child->id = meeting_id_derive(&parent->id, about, sizeof about);
    *s = (shrink_job){
        .base = {.run = run_shrink, .function = "ncclCommShrink", .comm = child, .governed = true},
        .parent = parent,
        .to = made};
    *made = NULL;
    group_add_comm(parent);
    return group_add_job(&s->base);
}

/* What the parent had launched ends; nobody who is inside a call is let out. */
static void interrupt(ncclComm_t parent)
{
    comm_state ready = COMM_READY;

    if (atomic_load(&parent->result) == ncclInProgress) return;
    atomic_compare_exchange_strong(&parent->state, &ready, COMM_REVOKED);
    comm_interrupt(parent);
    if (ready == COMM_READY) atomic_store(&parent->aborted, false);
}

/* With the parent claimed.  The list is sorted even where it is refused, as NCCL does. */
static ncclResult_t shrink(ncclComm_t parent, int *excluded, int count, ncclComm_t *made,
                           const ncclConfig_t *config, bool aborts)
{
    comm_state state;
    ncclResult_t result;

    comm_look(parent);
    if (aborts) interrupt(parent);
    state = atomic_load(&parent->state);
    qsort(excluded, (size_t)count, sizeof *excluded, compare_ranks);
    result = check_excluded(parent, excluded, count);
    if (result) return result;
    result = comm_check_ready(parent, "ncclCommShrink");
    if (!result && state != COMM_READY && state != COMM_REVOKED)
        result = fail(ncclInvalidUsage, "ncclCommShrink: %s is not in use", parent->name);
    if (!result && !aborts) result = comm_check_idle(parent, "ncclCommShrink");
    return result ? result : queue_shrink(parent, excluded, count, made, config);
}

ncclResult_t ncclCommShrink(ncclComm_t comm, int *excludeRanksList, int excludeRanksCount,
                            ncclComm_t *newcomm, ncclConfig_t *config, int shrinkFlags)
{
    const char *function = "ncclCommShrink";
    ncclResult_t result = version_check(function, 22700), ended;

    if (!result) result = comm_check(comm, function);
    if (!result) result = comm_claim(comm, function);
    if (result) return group_note(result);
    group_begin();
    if (!newcomm || !excludeRanksList || excludeRanksCount < 1)
        result = fail(ncclInvalidArgument, "%s: no list of ranks, or no place for the result", function);
    else if (shrinkFlags & ~NCCL_SHRINK_ABORT)
        result = fail(ncclInvalidArgument, "%s: flags %d", function, shrinkFlags);
    else if (!config_check(config))
        result = fail(ncclInvalidArgument, "%s: invalid config", function);
    else
        result = shrink(comm, excludeRanksList, excludeRanksCount, newcomm, config,
                        shrinkFlags == NCCL_SHRINK_ABORT);
    comm_end(comm);
    group_note(result);
    ended = group_end_silent();
    return result ? result : ended;
}
ALIAS(ncclCommShrink)
#endif

#ifdef NCCL_REVOKE_DEFAULT
static void *revoke_apart(void *arg)
{
    ncclComm_t comm = arg;

    comm_interrupt(comm);
    comm_abort_part(comm, false);
    atomic_store(&comm->result, atomic_load(&comm->network_result));
    comm_background(comm, -1);
    comm_drop(comm);
    return NULL;
}

/* It has only begun, and ncclCommGetAsyncError tells when it is over. */
static ncclResult_t revoke_nonblocking(ncclComm_t comm)
{
    pthread_t thread;

    comm_stop(comm);
    comm_outwait_background(comm); /* which ends, now that it is aborted */
    atomic_store(&comm->result, ncclInProgress);
    comm_background(comm, 1);
    comm_hold(comm);
    if (!pthread_create(&thread, NULL, revoke_apart, comm)) {
        pthread_detach(thread);
        return ncclInProgress;
    }
    comm_background(comm, -1);
    comm_drop(comm);
    return fail(ncclSystemError, "ncclCommRevoke: no thread for it");
}

/* From any thread, as abort.  Not of one that is being made: NCCL reads there what is not there yet. */
ncclResult_t ncclCommRevoke(ncclComm_t comm, int revokeFlags)
{
    const char *function = "ncclCommRevoke";
    ncclResult_t result = version_check(function, 22807);
    comm_state was = COMM_READY;

    if (!result) result = comm_enter(NULL, function);
    if (!result) result = comm_check(comm, function);
    if (result) return result;
    if (revokeFlags != NCCL_REVOKE_DEFAULT)
        return fail(ncclInvalidArgument, "%s: flags %d", function, revokeFlags);
    if (!atomic_compare_exchange_strong(&comm->state, &was, COMM_REVOKED)) {
        if (was == COMM_MAKING)
            emu_misuse("%s: %s, rank %d, is not made yet", function, comm->name, comm->rank);
        return fail(ncclInvalidArgument, "%s: %s is not in use", function, comm->name);
    }
    comm_abort_part(comm, true); /* what is being split off goes with it; what comes later may be */
    if (!comm->blocking) return revoke_nonblocking(comm);
    comm_interrupt(comm);
    comm_abort_part(comm, false);
    comm_forgive(comm);
    return ncclSuccess;
}
ALIAS(ncclCommRevoke)
#endif
