/* mpi.c - the driver of every MPI for tools/compare; see measure.h for its arguments.  A label that ends in
 * -async asks for MPI_THREAD_MULTIPLE, which the progress threads of both need.  MPI's errors end the job. */
#include "measure.h"

#include <mpi.h>
#include <string.h>

static MPI_Request started[MEASURE_WINDOW + 1];
static int n, own;

enum { TAG = 1 };

static void *broadcast_data(const struct measure_call *c)
{
    return own == c->peer ? (void *)c->in : c->out;
}

static void run(const struct measure_call *c)
{
    const MPI_Comm world = MPI_COMM_WORLD;
    const MPI_Datatype type = MPI_FLOAT;
    int count = (int)c->count;
    switch (c->action) {
    case MEASURE_SEND: MPI_Send(c->in, count, type, c->peer, TAG, world); break;
    case MEASURE_RECEIVE: MPI_Recv(c->out, count, type, c->peer, TAG, world, MPI_STATUS_IGNORE); break;
    case MEASURE_BROADCAST: MPI_Bcast(broadcast_data(c), count, type, c->peer, world); break;
    case MEASURE_ALL_REDUCE: MPI_Allreduce(c->in, c->out, count, type, MPI_SUM, world); break;
    case MEASURE_REDUCE_SCATTER: MPI_Reduce_scatter_block(c->in, c->out, count, type, MPI_SUM, world); break;
    case MEASURE_ALL_GATHER: MPI_Allgather(c->in, count, type, c->out, count, type, world); break;
    case MEASURE_ALL_TO_ALL: MPI_Alltoall(c->in, count, type, c->out, count, type, world); break;
    default: MPI_Barrier(world);
    }
}

static void start(const struct measure_call *c)
{
    const MPI_Comm world = MPI_COMM_WORLD;
    const MPI_Datatype type = MPI_FLOAT;
    int count = (int)c->count;
    MPI_Request *r = &started[n++];
    switch (c->action) {
    case MEASURE_SEND: MPI_Isend(c->in, count, type, c->peer, TAG, world, r); break;
    case MEASURE_RECEIVE: MPI_Irecv(c->out, count, type, c->peer, TAG, world, r); break;
    case MEASURE_BROADCAST: MPI_Ibcast(broadcast_data(c), count, type, c->peer, world, r); break;
    case MEASURE_ALL_REDUCE: MPI_Iallreduce(c->in, c->out, count, type, MPI_SUM, world, r); break;
    case MEASURE_REDUCE_SCATTER:
        MPI_Ireduce_scatter_block(c->in, c->out, count, type, MPI_SUM, world, r);
        break;
    case MEASURE_ALL_GATHER: MPI_Iallgather(c->in, count, type, c->out, count, type, world, r); break;
    case MEASURE_ALL_TO_ALL: MPI_Ialltoall(c->in, count, type, c->out, count, type, world, r); break;
    default: MPI_Ibarrier(world, r);
    }
}

static void finish(void)
{
    if (n == 1)
        MPI_Wait(started, MPI_STATUS_IGNORE);
    else
        MPI_Waitall(n, started, MPI_STATUSES_IGNORE);
    n = 0;
}

static void maximum(double *values, int count)
{
    MPI_Allreduce(MPI_IN_PLACE, values, count, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    struct peer peer = {.blocking = MEASURE_ALL,
                        .request = MEASURE_ALL,
                        .run = run,
                        .start = start,
                        .finish = finish,
                        .maximum = maximum};
    int given;
    measure_begin(argc, argv);
    if (strstr(measure_label(), "-async"))
        MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &given);
    else
        MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &own);
    MPI_Comm_size(MPI_COMM_WORLD, &peer.size);
    peer.rank = own;
    measure(&peer);
    MPI_Finalize();
    return measure_end();
}
