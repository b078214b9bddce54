/* bootstrap_mpi.c - an MPI program that gives its ranks to Weft: one job over MPI_COMM_WORLD and, in the same
 * processes, one over each half of it.
 *
 *     mpicc -o bootstrap_mpi bootstrap_mpi.c -lweft && mpirun -n 4 ./bootstrap_mpi
 *
 * Any MPI will do: libweft knows none, weft/mpi.h is compiled into the program. */
#include <stdio.h>
#include <stdlib.h>
#include <weft/mpi.h>

static void must(weft_status status, const char *what)
{
    if (status == WEFT_OK) return;
    fprintf(stderr, "%s: %s: %s\n", what, weft_status_name(status), weft_last_error());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* A Weft job of the ranks of a communicator; MPI is needed for the meeting only. */
static weft_context *join(MPI_Comm comm)
{
    weft_config config = WEFT_CONFIG_INIT;
    weft_bootstrap bootstrap;
    weft_context *ctx;
    must(weft_mpi_bootstrap(comm, &bootstrap), "weft_mpi_bootstrap");
    config.bootstrap = &bootstrap;
    must(weft_init(&config, &ctx), "weft_init");
    must(weft_mpi_bootstrap_free(&bootstrap), "weft_mpi_bootstrap_free");
    return ctx;
}

/* The sum of a number of each rank. */
static int64_t sum(weft_context *ctx, int64_t number)
{
    int64_t total;
    must(weft_all_reduce(weft_world(ctx), &number, &total, 1, WEFT_INT64, WEFT_SUM, NULL, NULL),
         "weft_all_reduce");
    return total;
}

int main(int argc, char **argv)
{
    int rank, size, members[2] = {0, 0};
    weft_context *all, *half;
    MPI_Comm comm;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &comm); /* even and odd ranks, in falling order */
    all = join(MPI_COMM_WORLD);
    half = join(comm);
    MPI_Comm_free(&comm);
    for (int r = rank % 2; r < size; r += 2) members[0] += r, members[1]++;
    if (weft_group_rank(weft_world(all)) != rank || sum(all, rank) != size * (size - 1) / 2 ||
        weft_group_size(weft_world(half)) != members[1] || sum(half, rank) != members[0] ||
        weft_group_rank(weft_world(half)) != (size - 1 - rank) / 2) {
        fprintf(stderr, "rank %d: MPI and Weft disagree\n", rank);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    printf("rank %d of %d, and %d of %d: sums %d and %d\n", rank, size, weft_group_rank(weft_world(half)),
           members[1], size * (size - 1) / 2, members[0]);
    must(weft_finalize(half, WEFT_FOREVER), "weft_finalize");
    must(weft_finalize(all, WEFT_FOREVER), "weft_finalize");
    MPI_Finalize();
    return EXIT_SUCCESS;
}
