/* connect.c - see connect.h.
 *
 * NCCL connects the ranks of a communicator not when it makes it but when a group call first needs it (from 2.22 on, unless
 * NCCL_RUNTIME_CONNECT=0; messages always were like that): inside that call, which so waits until all ranks have made theirs, or
 * those that a message goes between.  By which way a collective goes is NCCL's own choice; here small sums go by the tree and all
 * else by the ring, so that a second size may have to wait as well.
 *
 * Who waits shows in the segment where to, and sees there what the others show.  Nobody tells him that one of them has died, as
 * with NCCL, where he waits to be called by it.  Ranks that first want to go different ways are told as a misuse. */
#include "connect.h"
#include "task.h"
#include "type.h"
#include "version.h"

#include <stdlib.h>

enum { NAP_MS = 5, TREE_BYTES = 64 * 1024, RING = 1, TREE = 2 };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool when_made; /* rings and trees are connected with their communicator */

/* NCCL reads its variables once. */
static void read_environment(void)
{
    const char *text = getenv("NCCL_RUNTIME_CONNECT");

    when_made = version_shown() < 22200 || (text && *text && !atoi(text));
}

/* ---- where tasks go --------------------------------------------------------------------------------- */

static void note_peer(const struct ncclComm *comm, uint64_t *peers, int peer)
{
    if (peer != comm->rank) peers[peer / PEERS_WORD] |= UINT64_C(1) << (peer % PEERS_WORD);
}

static void note_peers(const struct ncclComm *comm, uint64_t *peers)
{
    for (int r = 0; r < comm->ranks; r++) note_peer(comm, peers, r);
}

static void note_rooted(const struct ncclComm *comm, int root, uint64_t *of_root, uint64_t *of_others)
{
    if (comm->rank == root)
        note_peers(comm, of_root);
    else
        note_peer(comm, of_others, root);
}

static void note(ncclComm_t comm, const task *t, comm_ways *w)
{
    switch (t->kind) {
    case TASK_ALL_REDUCE: w->sets |= t->count * type_bytes(t->type) <= TREE_BYTES ? TREE : RING; return;
    case TASK_ALL_TO_ALL:
        note_peers(comm, w->to);
        note_peers(comm, w->from);
        return;
    case TASK_GATHER: note_rooted(comm, t->peer, w->from, w->to); return;
    case TASK_SCATTER: note_rooted(comm, t->peer, w->to, w->from); return;
    case TASK_SEND: note_peer(comm, w->to, t->peer); return;
    case TASK_RECV: note_peer(comm, w->from, t->peer); return;
    default: w->sets |= RING; return;
    }
}

/* ---- meeting ---------------------------------------------------------------------------------------- */

void connect_show(ncclComm_t comm)
{
    comm_ways wanted = {0};
    member *own = comm_self(comm);

    pthread_once(&once, read_environment);
    for (const task *t = comm->tasks; t; t = t->next) note(comm, t, &wanted);
    comm->going = 0;
    if (!when_made) comm->going = wanted.sets & ~comm->ways.sets;
    if (comm->going) atomic_store(&own->went[comm->goings], comm->going);
    comm->ways.sets |= comm->going;
    for (int i = 0; i < PEERS_WORDS; i++) {
        comm->ways.to[i] |= wanted.to[i];
        comm->ways.from[i] |= wanted.from[i];
        atomic_fetch_or(&own->to[i], wanted.to[i]);
        atomic_fetch_or(&own->from[i], wanted.from[i]);
    }
    comm_strike_all(comm);
}

static bool has(const uint64_t *peers, int peer)
{
    return peers[peer / PEERS_WORD] >> (peer % PEERS_WORD) & 1;
}

static bool shows(_Atomic uint64_t *peers, int peer)
{
    return atomic_load(&peers[peer / PEERS_WORD]) >> (peer % PEERS_WORD) & 1;
}

static const char *name_of(uint32_t sets)
{
    return sets == RING ? "the ring" : sets == TREE ? "the tree" : "both";
}

/* What a rank shows is what is needed of it. */
static bool fits(ncclComm_t comm, int rank, bool *differs)
{
    member *other = &comm->segment->members[rank];
    uint32_t went = comm->going ? atomic_load(&other->went[comm->goings]) : 0;

    if (has(comm->ways.to, rank) && !shows(other->from, comm->rank)) return false;
    if (has(comm->ways.from, rank) && !shows(other->to, comm->rank)) return false;
    if (went == comm->going) return true;
    if (went && !*differs)
        emu_misuse("%s: the ranks call different operations: rank %d connects %s first, but rank %d %s",
                   comm->name, comm->rank, name_of(comm->going), rank, name_of(went));
    *differs = *differs || went;
    return false;
}

static bool all_fit(ncclComm_t comm, bool *differs)
{
    for (int r = 0; r < comm->ranks; r++)
        if (r != comm->rank && !fits(comm, r, differs)) return false;
    return true;
}

ncclResult_t connect_await(ncclComm_t comm)
{
    bell *own = &comm_self(comm)->bell;
    bool differs = false;

    while (!atomic_load(&comm->aborted)) {
        uint32_t seen = bell_strokes(own);
        if (all_fit(comm, &differs)) {
            if (comm->going) comm->goings++;
            return ncclSuccess;
        }
        bell_wait(own, seen, NAP_MS);
    }
    return fail(ncclInternalError, "%s: aborted while rank %d connected", comm->name, comm->rank);
}
