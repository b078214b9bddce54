/* meeting.c - before MPI_Comm_create_group: all members are there and will call it, or none calls it.
 *
 * The call cannot be given up, and one that waits for a member that will not come keeps MPI from making any other
 * communicator.  So each member tells the first one that it is there, and does then what that one says to all: go on,
 * or do not.  The messages are a byte each on MPI_COMM_WORLD, with tags from the upper half.
 * Fails: a member was given up before all had come.  One whose process is gone is left to the runtime, which gives up
 * the others. */
#include "mpi_module.h"

#include <sched.h>
#include <stdlib.h>
#include <time.h>

#define PATIENCE_NS INT64_C(2000000000) /* for the first one's word, by who has been given up */

enum { YIELDS = 200, PAUSE_NS = 100000 };

static void pause_between(int *looks)
{
    const struct timespec pause = {0, PAUSE_NS};
    if (++*looks < YIELDS)
        sched_yield();
    else
        nanosleep(&pause, NULL);
}

static int member_rank(const weft_backend_comm *comm, int member)
{
    return weft__mpi_rank_at(comm->addresses[member]);
}

static bool are_done(int n, MPI_Request *requests)
{
    int all = 1;
    for (int i = 0, done; i < n; i++) {
        MPI_Test(&requests[i], &done, MPI_STATUS_IGNORE);
        all = all && done;
    }
    return all;
}

static void take_back(MPI_Request *request)
{
    if (*request == MPI_REQUEST_NULL) return;
    MPI_Cancel(request);
    MPI_Wait(request, MPI_STATUS_IGNORE);
}

/* The first member: true when all others have told that they are there. */
static bool hear_all(const weft_backend_comm *comm, int tag, MPI_Request *requests, char *words)
{
    int n = comm->size - 1, looks = 0;
    for (int i = 0; i < n; i++)
        MPI_Irecv(&words[i], 1, MPI_BYTE, member_rank(comm, i + 1), tag, MPI_COMM_WORLD, &requests[i]);
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
    char *words = malloc((size_t)n), go;
    if (!requests || !words) {
        free(requests);
        free(words);
        return false;
    }
    go = (char)hear_all(comm, there, requests, words);
    for (int i = 0; i < n; i++)
        MPI_Isend(&go, 1, MPI_BYTE, member_rank(comm, i + 1), verdict, MPI_COMM_WORLD, &requests[i]);
    while (!are_done(n, requests)) pause_between(&looks);
    free(requests);
    free(words);
    return go;
}

static bool follow(const weft_backend_comm *comm, int there, int verdict)
{
    const weft_backend_runtime *runtime = comm->backend->runtime;
    int heard = 0, looks = 0;
    int64_t until = 0;
    char word = 0, go = 0;
    MPI_Request sending, hearing;
    MPI_Irecv(&go, 1, MPI_BYTE, member_rank(comm, 0), verdict, MPI_COMM_WORLD, &hearing);
    MPI_Isend(&word, 1, MPI_BYTE, member_rank(comm, 0), there, MPI_COMM_WORLD, &sending);
    while (!heard) {
        MPI_Test(&hearing, &heard, MPI_STATUS_IGNORE);
        if (heard) break;
        if (!until && atomic_load(&comm->doomed)) until = runtime->now_ns() + PATIENCE_NS;
        if (until && runtime->now_ns() > until) {
            take_back(&hearing);
            break;
        }
        pause_between(&looks);
    }
    MPI_Request_free(&sending); /* a byte has left long since */
    return go;
}

bool weft__mpi_meet(const weft_backend_comm *comm)
{
    int top = weft__mpi_tag_most() - 2 * (int)comm->tag;
    return comm->rank ? follow(comm, top, top - 1) : lead(comm, top, top - 1);
}
