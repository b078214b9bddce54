/* program.c - a program that uses an MPI and Weft over the module for it: beside one another, and where the module
 * cannot be had.  What weft_init says is printed.
 * Arguments: beside | serialized | funneled | single | finalized | nothing (calls nothing of MPI). */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>

#define ROUNDS 200
#define TAG    7

#define CHECK(condition)                                                                        \
    do {                                                                                        \
        if (condition) break;                                                                   \
        fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #condition, weft_last_error()); \
        exit(1);                                                                                \
    } while (0)

/* The program's own: sums, and messages with its own tag on MPI_COMM_WORLD, while the module is at work there. */
static void *mpi_alone(void *arg)
{
    int rank = 0, size = 0;
    (void)arg;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < ROUNDS; i++) {
        int own = i + rank, sum = 0, got = -1, before = (rank + size - 1) % size;
        MPI_Allreduce(&own, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        CHECK(sum == size * i + size * (size - 1) / 2);
        MPI_Sendrecv(&own, 1, MPI_INT, (rank + 1) % size, TAG, &got, 1, MPI_INT, before, TAG, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        CHECK(got == i + before);
    }
    return NULL;
}

static void weft_alone(weft_context *ctx)
{
    weft_group *world = weft_world(ctx), *pair = NULL;
    int rank = weft_group_rank(world), size = weft_group_size(world), members[2] = {0, size - 1};
    if (rank == 0 || rank == size - 1) CHECK(weft_new_group(world, members, 2, NULL, &pair, NULL) == WEFT_OK);
    for (int i = 0; i < ROUNDS; i++) {
        weft_request *req = NULL;
        weft_request_info info = {0};
        int32_t in = i + rank, out = 0;
        CHECK(weft_all_reduce(world, &in, &out, 1, WEFT_INT32, WEFT_SUM, NULL, &req) == WEFT_OK);
        CHECK(weft_wait(req, 30000) == WEFT_OK && out == size * i + size * (size - 1) / 2);
        weft_request_get_info(req, &info);
        CHECK(!strcmp(info.algorithm, "mpi"));
        weft_release(req);
        if (pair)
            CHECK(weft_all_reduce(pair, &in, &out, 1, WEFT_INT32, WEFT_MAX, NULL, NULL) == WEFT_OK &&
                  out == i + size - 1);
    }
}

static void beside(const weft_config *config)
{
    int level = 0, over = 0;
    pthread_t thread;
    weft_context *ctx = NULL;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
    CHECK(weft_init(config, &ctx) == WEFT_OK);
    CHECK(!strcmp(weft_backends(ctx), "host,mpi"));
    CHECK(!pthread_create(&thread, NULL, mpi_alone, NULL));
    weft_alone(ctx);
    pthread_join(thread, NULL);
    CHECK(weft_finalize(ctx, WEFT_FOREVER) == WEFT_OK);
    MPI_Finalized(&over); /* it is the program's, and goes on */
    CHECK(!over);
    mpi_alone(NULL);
    MPI_Finalize();
    puts("beside each other");
}

static const struct {
    const char *name;
    int level;
} levels[] = {{"serialized", MPI_THREAD_SERIALIZED},
              {"funneled", MPI_THREAD_FUNNELED},
              {"single", MPI_THREAD_SINGLE}};

int main(int argc, char **argv)
{
    const char *how = argc == 2 ? argv[1] : "";
    int begun = -1;
    weft_context *ctx = NULL;
    weft_config config = WEFT_CONFIG_INIT;
    config.backends = "mpi"; /* host need not be named */
    if (!strcmp(how, "beside")) {
        beside(&config);
        return 0;
    }
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        if (!strcmp(how, levels[i].name)) MPI_Init_thread(NULL, NULL, levels[i].level, &begun);
    if (!strcmp(how, "finalized")) {
        MPI_Init(NULL, NULL);
        MPI_Finalize();
    }
    CHECK(weft_init(&config, &ctx) != WEFT_OK && !ctx);
    puts(weft_last_error());
    /* Without it the same processes make a job.  Under a name of its own: the first one's end is still told at that
     * address to whoever comes again. */
    config.backends = "host";
    config.job = "without";
    CHECK(weft_init(&config, &ctx) == WEFT_OK);
    CHECK(weft_barrier(weft_world(ctx), NULL, NULL) == WEFT_OK);
    CHECK(weft_finalize(ctx, WEFT_FOREVER) == WEFT_OK);
    if (begun >= 0) MPI_Finalize();
    return 0;
}
