/* in_turn.c - how much longer an operation of Weft's takes than MPI's own: both in one process, a bunch of one and a bunch
 * of the other, again and again, so that both have the same processors at the same speed.  Sums go over Weft's module for
 * that MPI; messages are the library's.
 * Arguments: BUNCHES.  Rank 0 prints a line for each size: medians, and the least and greatest quarter's bounds; us. */
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <weft/weft.h>

enum { MPI_BLOCKS, MPI_REQUEST, WEFT_REQUEST, WAYS }; /* a call that blocks; or a request and a wait for it */
enum { COLUMNS = WAYS + 1, MOST = 2000, BYTES_MOST = 1 << 20 };

static const char *const names[COLUMNS] = {"MPI", "MPI as a request", "Weft",
                                           "Weft more than MPI as a request"};
static weft_group *world;
static MPI_Comm comm;
static float *in, *out;

static void check(weft_status status)
{
    if (status == WEFT_OK) return;
    fprintf(stderr, "%s\n", weft_last_error());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void sum_once(int way, int n)
{
    MPI_Request request;
    weft_request *sum;
    if (way == MPI_BLOCKS) {
        MPI_Allreduce(in, out, n, MPI_FLOAT, MPI_SUM, comm);
    } else if (way == MPI_REQUEST) {
        MPI_Iallreduce(in, out, n, MPI_FLOAT, MPI_SUM, comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        check(weft_all_reduce(world, in, out, (size_t)n, WEFT_FLOAT32, WEFT_SUM, NULL, &sum));
        check(weft_wait(sum, WEFT_FOREVER));
        weft_release(sum);
    }
}

static void pass(int way, bool sends, int n)
{
    int other = 1 - weft_group_rank(world);
    MPI_Request request;
    weft_request *message;
    if (way == WEFT_REQUEST) {
        check(sends ? weft_isend(world, out, (size_t)n, WEFT_FLOAT32, other, 1, NULL, &message)
                    : weft_irecv(world, in, (size_t)n, WEFT_FLOAT32, other, 1, NULL, &message));
        check(weft_wait(message, WEFT_FOREVER));
        weft_release(message);
    } else if (way == MPI_BLOCKS) {
        if (sends)
            MPI_Send(out, n, MPI_FLOAT, other, 1, comm);
        else
            MPI_Recv(in, n, MPI_FLOAT, other, 1, comm, MPI_STATUS_IGNORE);
    } else {
        if (sends)
            MPI_Isend(out, n, MPI_FLOAT, other, 1, comm, &request);
        else
            MPI_Irecv(in, n, MPI_FLOAT, other, 1, comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

static void ping_pong_once(int way, int n)
{
    bool first = weft_group_rank(world) == 0;
    pass(way, first, n);
    pass(way, !first, n);
}

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double quantile(const double *sorted, int n, int of_four)
{
    return sorted[(n - 1) * of_four / 4];
}

static void measure(const char *what, void (*once)(int way, int n), int bytes, int times, int bunches)
{
    static double us[COLUMNS][MOST];
    int n = bytes / (int)sizeof *in;
    for (int i = -1; i < bunches; i++) { /* the first one is not counted */
        double each[COLUMNS] = {0};
        for (int way = 0; way < WAYS; way++) {
            double began;
            MPI_Barrier(comm);
            for (int k = 0; k < 1 + times / 10; k++) once(way, n);
            began = now_us();
            for (int k = 0; k < times; k++) once(way, n);
            each[way] = (now_us() - began) / times;
        }
        each[WAYS] = each[WEFT_REQUEST] - each[MPI_REQUEST];
        for (int column = 0; column < COLUMNS && i >= 0; column++) us[column][i] = each[column];
    }
    if (weft_group_rank(world)) return;
    printf("%s of %d B:", what, bytes);
    for (int column = 0; column < COLUMNS; column++) {
        qsort(us[column], (size_t)bunches, sizeof us[column][0], compare);
        printf("  %s %.2f (%.2f .. %.2f)", names[column], quantile(us[column], bunches, 2),
               quantile(us[column], bunches, 1), quantile(us[column], bunches, 3));
    }
    puts("");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    weft_config config = WEFT_CONFIG_INIT;
    weft_context *ctx = NULL;
    int bunches = argc > 1 ? atoi(argv[1]) : 101;
    if (bunches < 1 || bunches > MOST) return 2;
    config.backends = "mpi";
    check(weft_init(&config, &ctx)); /* which begins MPI, at MPI_THREAD_MULTIPLE */
    world = weft_world(ctx);
    if (weft_group_size(world) != 2) return 2;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    in = calloc(1, BYTES_MOST);
    out = calloc(1, BYTES_MOST);
    if (!in || !out) return 1;
    measure("all_reduce", sum_once, 8, 1000, bunches);
    measure("all_reduce", sum_once, 65536, 100, bunches);
    measure("all_reduce", sum_once, 1 << 20, 10, bunches);
    measure("ping-pong", ping_pong_once, 8, 1000, bunches);
    measure("ping-pong", ping_pong_once, 65536, 100, bunches);
    MPI_Comm_free(&comm);
    check(weft_finalize(ctx, WEFT_FOREVER));
    free(in);
    free(out);
    return 0;
}
