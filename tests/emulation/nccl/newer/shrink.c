/* shrink.c - going on without some ranks: ncclCommShrink (2.27), ncclCommRevoke (2.28 and later, where the
 * header has it).
 *
 * Revoke, and a shrink that aborts, end the communicator's kernels unfinished; it then takes no operations,
 * but may be split, shrunk and destroyed. */
#include "alias.h"
#include "group.h"
#include "version.h"

#include <stdlib.h>

#ifdef NCCL_SHRINK_DEFAULT
typedef struct shrink_job {
    job base;
    ncclComm_t parent; /* takes part in the group call too, which holds it */
    bool aborts;
} shrink_job;

/* The ranks that are left meet; the excluded are not asked, they may be dead. */
static ncclResult_t run_shrink(job *j)
{
    shrink_job *s = (shrink_job *)j;
    ncclResult_t result = comm_enter(s->parent, j->function);

    if (!result && s->aborts) {
        atomic_store(&s->parent->state, COMM_REVOKED);
        comm_stop(s->parent);
        comm_forgive(s->parent);
    }
    return result ? result : comm_meet(j->comm);
}

/* Counts the ranks that remain, and this one's place among them; -1: it is excluded. */
static int find_place(ncclComm_t comm, const int *excluded, int count, int *ranks, uint64_t *set)
{
    int place = -1;

    *ranks = 0;
    for (int r = 0; r < comm->ranks; r++) {
        bool out = false;
        for (int i = 0; i < count; i++) out |= excluded[i] == r;
        if (out)
            set[r / 64] |= UINT64_C(1) << (r % 64);
        else if (r == comm->rank)
            place = *ranks;
        *ranks += !out;
    }
    return place;
}

static ncclResult_t queue_shrink(ncclComm_t parent, const int *excluded, int count, ncclComm_t *made,
                                 const ncclConfig_t *config, bool aborts)
{
    uint64_t about[2 + SEGMENT_RANKS_MAX / 64] = {2};
    int ranks, rank = find_place(parent, excluded, count, &ranks, about + 2);
    shrink_job *s;
    ncclComm_t child;

    if (rank < 0)
        return fail(ncclInvalidArgument, "ncclCommShrink: called by rank %d, which is excluded",
                    parent->rank);
    if (ranks == parent->ranks) return fail(ncclInvalidArgument, "ncclCommShrink: no rank is excluded");
    if (!aborts && comm_check_idle(parent, "ncclCommShrink")) return ncclInvalidUsage;
    s = calloc(1, sizeof *s);
    child = s ? comm_new(rank, ranks, parent->device, config, parent) : NULL;
    if (!child) {
        free(s);
        return fail(ncclSystemError, "no memory");
    }
    about[1] = ++parent->shrinks[ranks]; /* those that remain shrink in the same order */
    child->id = meeting_id_derive(&parent->id, about, sizeof about);
    *s = (shrink_job){.base = {.run = run_shrink, .function = "ncclCommShrink", .comm = child, .made = made},
                      .parent = parent,
                      .aborts = aborts};
    comm_hold(child);
    *made = child;
    group_add_comm(parent);
    return group_add_job(&s->base);
}

/* The parent may have failed: that is what it is for. */
ncclResult_t ncclCommShrink(ncclComm_t comm, int *excludeRanksList, int excludeRanksCount,
                            ncclComm_t *newcomm, ncclConfig_t *config, int shrinkFlags)
{
    const char *function = "ncclCommShrink";
    ncclResult_t result = version_check(function, 22700), ended;

    if (!result)
        result =
            shrinkFlags == NCCL_SHRINK_ABORT ? comm_check(comm, function) : comm_check_ready(comm, function);
    if (!result) result = comm_claim(comm, function);
    if (result) return group_note(result);
    group_begin();
    if (atomic_load(&comm->state) != COMM_READY && atomic_load(&comm->state) != COMM_REVOKED)
        result = fail(ncclInvalidUsage, "%s: %s is not in use", function, comm->name);
    else if (!newcomm || !excludeRanksList || excludeRanksCount < 1)
        result = fail(ncclInvalidArgument, "%s: no list of ranks, or no place for the result", function);
    else if (shrinkFlags & ~NCCL_SHRINK_ABORT)
        result = fail(ncclInvalidArgument, "%s: flags %d", function, shrinkFlags);
    else if (!config_check(config))
        result = fail(ncclInvalidArgument, "%s: invalid config", function);
    else
        result = queue_shrink(comm, excludeRanksList, excludeRanksCount, newcomm, config,
                              shrinkFlags == NCCL_SHRINK_ABORT);
    comm_end(comm);
    group_note(result);
    ended = group_end();
    return result ? result : ended;
}
ALIAS(ncclCommShrink)
#endif

#ifdef NCCL_REVOKE_DEFAULT
/* From any thread, as abort; it is over when this returns, also for a nonblocking one. */
ncclResult_t ncclCommRevoke(ncclComm_t comm, int revokeFlags)
{
    const char *function = "ncclCommRevoke";
    ncclResult_t result = version_check(function, 22800);
    comm_state ready = COMM_READY;

    if (!result) result = comm_enter(NULL, function);
    if (!result) result = comm_check(comm, function);
    if (result) return result;
    if (revokeFlags != NCCL_REVOKE_DEFAULT)
        return fail(ncclInvalidArgument, "%s: flags %d", function, revokeFlags);
    if (!atomic_compare_exchange_strong(&comm->state, &ready, COMM_REVOKED))
        return fail(ncclInvalidUsage, "%s: %s is not in use", function, comm->name);
    comm_stop(comm);
    comm_forgive(comm);
    return ncclSuccess;
}
ALIAS(ncclCommRevoke)
#endif
