/* communicator.c - one communicator of MPI for each group, made of the group's members alone.
 *
 * MPI_Comm_create_group blocks until all members have called it, so a thread does that, which waits from open on for
 * the id, and then for the members (meeting.c).  A rank alone needs none.  Freeing is left to whoever calls MPI next, since drop may not block.
 * Fails: joining, by runtime->joined; a call that never comes back, because a member is gone, is left behind. */
#include "mpi_module.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NS         INT64_C(1000000000)
#define OUTWAIT_NS (10 * NS) /* for threads to end; 2 s were too few where 25 others wanted each processor */

/* What may follow on each state. */
static const unsigned char follows[] = {[WEFT__MPI_OPEN] = 1 << WEFT__MPI_JOINING | 1 << WEFT__MPI_FAILED,
                                        [WEFT__MPI_JOINING] = 1 << WEFT__MPI_READY | 1 << WEFT__MPI_FAILED,
                                        [WEFT__MPI_READY] = 0,
                                        [WEFT__MPI_FAILED] = 0};

/* The lock is held. */
static void comm_to(weft_backend_comm *comm, weft__mpi_comm_state to)
{
    if (!(follows[comm->state] >> to & 1)) abort();
    comm->state = to;
}

/* The lock is held.  The last holder's goes where MPI may be called. */
static void let_go(weft_backend_comm *comm)
{
    if (--comm->holders) return;
    comm->next = comm->backend->dropped;
    comm->backend->dropped = comm;
    atomic_store(&comm->backend->untidy, true);
}

void weft__mpi_comms_tidy(weft__mpi *mpi)
{
    weft_backend_comm *comm, *next;
    if (!atomic_load_explicit(&mpi->untidy, memory_order_relaxed) || !weft__mpi_calls_try())
        return; /* whoever comes next does it */
    pthread_mutex_lock(&mpi->lock);
    comm = mpi->dropped;
    mpi->dropped = NULL;
    atomic_store(&mpi->untidy, false);
    pthread_mutex_unlock(&mpi->lock);
    for (; comm; comm = next) {
        next = comm->next;
        if (comm->comm != MPI_COMM_NULL && !weft__mpi_over()) MPI_Comm_free(&comm->comm);
        free(comm);
    }
    weft__mpi_calls_give();
}

/* ---- the thread ---- */

/* NULL: it has been made. */
static const char *create(weft_backend_comm *comm, char text[WEFT__MPI_SENTENCE])
{
    MPI_Group all = MPI_GROUP_NULL, members = MPI_GROUP_NULL;
    const char *call = "MPI_Comm_create_group";
    int *ranks = malloc((size_t)comm->size * sizeof *ranks), error;
    if (!ranks) return "no memory";
    for (int i = 0; i < comm->size; i++) ranks[i] = weft__mpi_rank_at(comm->addresses[i]);
    error = MPI_Comm_group(MPI_COMM_WORLD, &all);
    if (error == MPI_SUCCESS) error = MPI_Group_incl(all, comm->size, ranks, &members);
    if (error == MPI_SUCCESS)
        error = MPI_Comm_create_group(MPI_COMM_WORLD, members, (int)comm->tag, &comm->comm);
    if (error == MPI_SUCCESS) {
        call = "MPI_Comm_set_errhandler";
        error = MPI_Comm_set_errhandler(comm->comm, MPI_ERRORS_RETURN);
    }
    if (members != MPI_GROUP_NULL) MPI_Group_free(&members);
    if (all != MPI_GROUP_NULL) MPI_Group_free(&all);
    free(ranks);
    if (error == MPI_SUCCESS) return NULL;
    weft__mpi_error_text(error, call, text);
    return text;
}

/* NULL: they are all in one MPI_COMM_WORLD, each once. */
static const char *members_fit(const weft_backend_comm *comm, char text[WEFT__MPI_SENTENCE])
{
    for (int i = 0; i < comm->size; i++) {
        if (comm->addresses[i] >> 32 != comm->addresses[comm->rank] >> 32) {
            snprintf(text, WEFT__MPI_SENTENCE,
                     "MPI_COMM_WORLD has %d ranks for rank %d of the group, and %d for rank %d: expected all "
                     "to be "
                     "started by one mpirun",
                     (int)(comm->addresses[i] >> 32), i, (int)(comm->addresses[comm->rank] >> 32),
                     comm->rank);
            return text;
        }
        for (int j = 0; j < i; j++)
            if (comm->addresses[i] == comm->addresses[j]) {
                snprintf(text, WEFT__MPI_SENTENCE,
                         "ranks %d and %d of the group are both rank %d of MPI_COMM_WORLD: expected a "
                         "process of one "
                         "mpirun for each rank",
                         j, i, weft__mpi_rank_at(comm->addresses[i]));
                return text;
            }
    }
    return NULL;
}

/* Joined or failed, and nobody tells the owner of one that is dropped. */
static void tell_joined(weft_backend_comm *comm, const char *why)
{
    weft__mpi *mpi = comm->backend;
    bool dropped;
    pthread_mutex_lock(&mpi->lock);
    comm_to(comm, why ? WEFT__MPI_FAILED : WEFT__MPI_READY);
    dropped = comm->dropped;
    pthread_mutex_unlock(&mpi->lock);
    if (!dropped) mpi->runtime->joined(comm->owner, why ? WEFT_ERR_SYSTEM : WEFT_OK, why);
}

static const char *meet_and_create(weft_backend_comm *comm, char text[WEFT__MPI_SENTENCE])
{
    const char *why;
    if (!weft__mpi_meet(comm)) return "a member has given it up";
    weft__mpi_calls_take();
    why = create(comm, text);
    weft__mpi_calls_give();
    weft__mpi_part();
    return why;
}

static void make(weft_backend_comm *comm)
{
    weft__mpi *mpi = comm->backend;
    char text[WEFT__MPI_SENTENCE];
    const char *why;
    bool joins;
    if (comm->names) { /* which mostly comes back in through join */
        uint64_t tag = weft__mpi_new_tag();
        mpi->runtime->named(comm->owner, &tag);
    }
    pthread_mutex_lock(&mpi->lock);
    while (comm->state == WEFT__MPI_OPEN && !comm->dropped && !atomic_load(&comm->doomed))
        pthread_cond_wait(&mpi->changed, &mpi->lock);
    joins = comm->state == WEFT__MPI_JOINING;
    if (!joins) comm_to(comm, WEFT__MPI_FAILED);
    pthread_mutex_unlock(&mpi->lock);
    if (!joins) return;
    weft__mpi_comms_tidy(mpi);
    why = weft__mpi_over() ? "MPI has been finalized" : members_fit(comm, text);
    if (!why && comm->size > 1) why = meet_and_create(comm, text);
    tell_joined(comm, why);
}

static void *comm_main(void *arg)
{
    weft_backend_comm *comm = arg;
    weft__mpi *mpi = comm->backend;
    pthread_setname_np(pthread_self(), "weft-mpi");
    make(comm);
    pthread_mutex_lock(&mpi->lock);
    let_go(comm);
    mpi->threads--;
    pthread_cond_broadcast(&mpi->changed);
    pthread_mutex_unlock(&mpi->lock);
    return NULL;
}

static bool start_thread(weft_backend_comm *comm)
{
    weft__mpi *mpi = comm->backend;
    pthread_attr_t detached;
    sigset_t all, before;
    pthread_t thread;
    int error;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    sigfillset(&all); /* signals are the program's */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_mutex_lock(&mpi->lock);
    error = pthread_create(&thread, &detached, comm_main, comm);
    if (!error) {
        mpi->threads++;
        comm->holders++;
    }
    pthread_mutex_unlock(&mpi->lock);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&detached);
    return !error;
}

bool weft__mpi_comms_outwait(weft__mpi *mpi)
{
    struct timespec until;
    int64_t ns = mpi->runtime->now_ns() + OUTWAIT_NS;
    bool ended;
    until = (struct timespec){(time_t)(ns / NS), (long)(ns % NS)};
    pthread_mutex_lock(&mpi->lock);
    while (mpi->threads && !pthread_cond_timedwait(&mpi->changed, &mpi->lock, &until)) {
    }
    ended = !mpi->threads;
    pthread_mutex_unlock(&mpi->lock);
    return ended;
}

/* ---- the seam ---- */

weft_backend_comm *weft__mpi_comm_open(weft_backend *backend, void *owner, int rank, int size,
                                       const char *label, bool names)
{
    weft__mpi *mpi = weft__mpi_of(backend);
    weft_backend_comm *comm = calloc(1, sizeof *comm + (size_t)size * sizeof comm->addresses[0]);
    (void)label;
    if (comm) {
        comm->backend = mpi;
        comm->owner = owner;
        comm->rank = rank;
        comm->size = size;
        comm->names = names;
        comm->holders = 1;
        comm->comm = MPI_COMM_NULL;
        if (start_thread(comm)) return comm;
    }
    free(comm);
    mpi->runtime->fail(WEFT_ERR_MEMORY, "no memory, or no thread, for a communicator of MPI");
    return NULL;
}

void weft__mpi_comm_members(weft_backend_comm *comm, const uint64_t *addresses)
{
    memcpy(comm->addresses, addresses, (size_t)comm->size * sizeof *addresses);
}

void weft__mpi_comm_join(weft_backend_comm *comm, const void *id)
{
    weft__mpi *mpi = comm->backend;
    pthread_mutex_lock(&mpi->lock);
    memcpy(&comm->tag, id, sizeof comm->tag);
    if (comm->state == WEFT__MPI_OPEN) comm_to(comm, WEFT__MPI_JOINING); /* else it was given up before */
    pthread_cond_broadcast(&mpi->changed);
    pthread_mutex_unlock(&mpi->lock);
}

/* What MPI has begun it cannot undo: such works stay until their ranks come, or the runtime gives them up. */
void weft__mpi_comm_doom(weft_backend_comm *comm, const char *why)
{
    weft__mpi *mpi = comm->backend;
    (void)why;
    atomic_store(&comm->doomed, true);
    pthread_mutex_lock(&mpi->lock);
    pthread_cond_broadcast(&mpi->changed);
    pthread_mutex_unlock(&mpi->lock);
}

void weft__mpi_comm_drop(weft_backend_comm *comm)
{
    weft__mpi *mpi = comm->backend;
    atomic_store(&comm->doomed, true);
    pthread_mutex_lock(&mpi->lock);
    comm->dropped = true;
    pthread_cond_broadcast(&mpi->changed);
    let_go(comm);
    pthread_mutex_unlock(&mpi->lock);
}
