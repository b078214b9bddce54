/* meeting.c - before MPI_Comm_create_group: all members are there, none of them makes another, and all will call it; or
 * none calls it.
 *
 * The call cannot be given up, and one that waits for a member that will not come keeps MPI from making any other
 * communicator.  So each member tells the first one that it is there, and does then what that one says to all: go on,
 * or do not.
 *
 * And one process makes one communicator at a time, since nothing else of the module is inside MPI meanwhile (job.c).
 * Members take their processes' turns in the order of their ranks in MPI_COMM_WORLD, which all groups have in common,
 * so no two wait for each other; the last one tells all.
 * The messages are a byte each on MPI_COMM_WORLD, with tags from the upper half.
 * Fails: a member was given up before all had come.  One whose process is gone is left to the runtime, which gives up
 * the others. */
#include "mpi_module.h"

#include <sched.h>
#include <stdlib.h>
#include <time.h>

#define PATIENCE_NS INT64_C(2000000000) /* for the first one's word, by who has been given up */
/* For the last one's, which that one says no more once it has been given up itself: it may learn of that later. */
#define LAST_PATIENCE_NS (2 * PATIENCE_NS)

enum { YIELDS = 200, PAUSE_NS = 100000 };

static const char words[2] = {0, 1};          /* what is told: none begins, or all do */
static atomic_flag making = ATOMIC_FLAG_INIT; /* this process makes a communicator */

static void pause_between(int *looks)
{
    const struct timespec pause = {0, PAUSE_NS};
    if (++*looks < YIELDS)
        sched_yield();
    else
        nanosleep(&pause, NULL);
}

typedef struct waiting {
    const weft_backend_comm *comm;
    int64_t patience_ns;
    int looks;
    int64_t until_ns; /* it has been given up, and waits no longer than that; 0: it has not */
} waiting;

/* A look was in vain.  False: that was the last one. */
static bool goes_on(waiting *w)
{
    const weft_backend_runtime *runtime = w->comm->backend->runtime;
    if (!w->until_ns && atomic_load(&w->comm->doomed)) w->until_ns = runtime->now_ns() + w->patience_ns;
    if (w->until_ns && runtime->now_ns() > w->until_ns) return false;
    pause_between(&w->looks);
    return true;
}

static int member_rank(const weft_backend_comm *comm, int member)
{
    return weft__mpi_rank_at(comm->addresses[member]);
}

/* Does not wait for a turn inside MPI: all members look so, again and again, and works would wait for each. */
static bool are_done(int n, MPI_Request *requests)
{
    int all = 1;
    if (!weft__mpi_calls_try()) return false;
    for (int i = 0, done; i < n; i++) {
        MPI_Test(&requests[i], &done, MPI_STATUS_IGNORE);
        all = all && done;
    }
    weft__mpi_calls_give();
    return all;
}

static void take_back(MPI_Request *request)
{
    if (*request == MPI_REQUEST_NULL) return;
    weft__mpi_calls_take();
    MPI_Cancel(request);
    MPI_Wait(request, MPI_STATUS_IGNORE);
    weft__mpi_calls_give();
}

/* The first member: true when all others have told that they are there. */
static bool hear_all(const weft_backend_comm *comm, int tag, MPI_Request *requests, char *heard)
{
    int n = comm->size - 1, looks = 0;
    weft__mpi_calls_take();
    for (int i = 0; i < n; i++)
        MPI_Irecv(&heard[i], 1, MPI_BYTE, member_rank(comm, i + 1), tag, MPI_COMM_WORLD, &requests[i]);
    weft__mpi_calls_give();
    for (;;) {
        if (are_done(n, requests)) return true;
        if (atomic_load(&comm->doomed)) break;
        pause_between(&looks);
    }
    for (int i = 0; i < n; i++) take_back(&requests[i]);
    return false;
}

static bool lead(const weft_backend_comm *comm, int there, int verdict)
{
    int n = comm->size - 1, looks = 0;
    MPI_Request *requests = malloc((size_t)n * sizeof *requests);
    char *heard = malloc((size_t)n);
    bool go;
    if (!requests || !heard) {
        free(requests);
        free(heard);
        return false;
    }
    go = hear_all(comm, there, requests, heard);
    weft__mpi_calls_take();
    for (int i = 0; i < n; i++)
        MPI_Isend(&words[go], 1, MPI_BYTE, member_rank(comm, i + 1), verdict, MPI_COMM_WORLD, &requests[i]);
    weft__mpi_calls_give();
    while (!are_done(n, requests)) pause_between(&looks);
    free(requests);
    free(heard);
    return go;
}

/* The word of that rank of MPI_COMM_WORLD; false as well if it has been waited for in vain. */
static bool hear(const weft_backend_comm *comm, int from, int tag, int64_t patience_ns)
{
    waiting w = {.comm = comm, .patience_ns = patience_ns};
    char word = 0;
    MPI_Request request;
    weft__mpi_calls_take();
    MPI_Irecv(&word, 1, MPI_BYTE, from, tag, MPI_COMM_WORLD, &request);
    weft__mpi_calls_give();
    while (!are_done(1, &request))
        if (!goes_on(&w)) break;
    take_back(&request);
    return word;
}

static void tell(int to, int tag)
{
    MPI_Request request;
    weft__mpi_calls_take();
    MPI_Isend(&words[1], 1, MPI_BYTE, to, tag, MPI_COMM_WORLD, &request);
    MPI_Request_free(&request); /* MPI may read the word for as long as it likes */
    weft__mpi_calls_give();
}

static bool follow(const weft_backend_comm *comm, int there, int verdict)
{
    tell(member_rank(comm, 0), there);
    return hear(comm, member_rank(comm, 0), verdict, PATIENCE_NS);
}

/* ---- turns ---- */

typedef struct neighbours {
    int before, after, last; /* ranks in MPI_COMM_WORLD; -1: none */
} neighbours;

static neighbours find_neighbours(const weft_backend_comm *comm)
{
    int own = member_rank(comm, comm->rank);
    neighbours found = {-1, -1, own};
    for (int i = 0; i < comm->size; i++) {
        int rank = member_rank(comm, i);
        if (rank < own && rank > found.before) found.before = rank;
        if (rank > own && (found.after < 0 || rank < found.after)) found.after = rank;
        if (rank > found.last) found.last = rank;
    }
    return found;
}

static bool take_turn(const weft_backend_comm *comm)
{
    waiting w = {.comm = comm, .patience_ns = PATIENCE_NS};
    while (atomic_flag_test_and_set(&making))
        if (!goes_on(&w)) return false;
    return true;
}

/* The first one's messages have all been heard, so their tags are free again. */
static bool take_turns(const weft_backend_comm *comm, int turn, int all_have)
{
    neighbours at = find_neighbours(comm);
    if (at.before >= 0 && !hear(comm, at.before, turn, PATIENCE_NS)) return false;
    if (!take_turn(comm)) return false;
    if (at.after >= 0) {
        tell(at.after, turn);
        if (hear(comm, at.last, all_have, LAST_PATIENCE_NS)) return true;
        weft__mpi_part();
        return false;
    }
    if (atomic_load(&comm->doomed)) { /* the others may have stopped listening */
        weft__mpi_part();
        return false;
    }
    for (int i = 0; i < comm->size; i++)
        if (i != comm->rank) tell(member_rank(comm, i), all_have);
    return true;
}

void weft__mpi_part(void)
{
    atomic_flag_clear(&making);
}

bool weft__mpi_meet(const weft_backend_comm *comm)
{
    int there = weft__mpi_tag_most() - 2 * (int)comm->tag, verdict = there - 1;
    bool go = comm->rank ? follow(comm, there, verdict) : lead(comm, there, verdict);
    return go && take_turns(comm, there, verdict);
}
