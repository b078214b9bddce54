/* asleep.c - how much of a long sum goes on while the program sleeps, and calls nothing: of an MPI alone, or of Weft over it.
 * Arguments: mpi | weft, BYTES, TIMES.  Rank 0 prints what the medians come to: the time of a sum that is waited for at once;
 * the share of it that is over once the program has slept for so long (0 %: none is, and the wait takes as long again); and
 * what its process takes of a processor meanwhile.  Of the slower rank. */
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <weft/weft.h>

enum { MOST = 100 };

static weft_group *world; /* NULL: MPI alone */
static float *in, *out;
static size_t n;

static void check(weft_status status)
{
    if (status == WEFT_OK) return;
    fprintf(stderr, "%s\n", weft_last_error());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void meet(void)
{
    if (world)
        check(weft_barrier(world, NULL, NULL));
    else
        MPI_Barrier(MPI_COMM_WORLD);
}

/* What this rank tells is its own; what it gets is the greatest. */
static double slower(double own)
{
    double most = own;
    if (world)
        check(weft_all_reduce(world, &own, &most, 1, WEFT_FLOAT64, WEFT_MAX, NULL, NULL));
    else
        MPI_Allreduce(&own, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return most;
}

/* A sum during which it sleeps so long.  Returns how long both took. */
static double sum(double sleeps)
{
    const struct timespec pause = {(time_t)sleeps, (long)((sleeps - (double)(time_t)sleeps) * 1e9)};
    MPI_Request request;
    weft_request *req = NULL;
    double began;
    meet();
    began = seconds(CLOCK_MONOTONIC);
    if (world)
        check(weft_all_reduce(world, in, out, n, WEFT_FLOAT32, WEFT_SUM, NULL, &req));
    else
        MPI_Iallreduce(in, out, (int)n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
    if (sleeps > 0) nanosleep(&pause, NULL);
    if (world) {
        check(weft_wait(req, WEFT_FOREVER));
        weft_release(req);
    } else {
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    if (out[0] != 2 || out[n - 1] != 2) exit(1);
    return slower(seconds(CLOCK_MONOTONIC) - began);
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double median(double *of, int count)
{
    qsort(of, (size_t)count, sizeof *of, compare);
    return of[count / 2];
}

static void measure(bool first, int times)
{
    double alone[MOST], both[MOST], cpu[MOST], long_s;
    for (int i = -2; i < times; i++) alone[i < 0 ? 0 : i] = sum(0);
    long_s = median(alone, times);
    for (int i = 0; i < times; i++) {
        double before = seconds(CLOCK_PROCESS_CPUTIME_ID);
        both[i] = sum(long_s);
        cpu[i] = slower(seconds(CLOCK_PROCESS_CPUTIME_ID) - before) / both[i];
    }
    if (first)
        printf("%.0f ms, %.0f %% over, %.2f of a processor\n", long_s * 1e3,
               100 * (2 - median(both, times) / long_s), median(cpu, times));
}

int main(int argc, char **argv)
{
    weft_config config = WEFT_CONFIG_INIT;
    weft_context *ctx = NULL;
    int times, rank, level;
    if (argc != 4 || (times = atoi(argv[3])) < 1 || times > MOST) return 2;
    n = strtoul(argv[2], NULL, 10) / sizeof *in;
    in = malloc(n * sizeof *in);
    out = malloc(n * sizeof *out);
    if (!n || !in || !out) return 1;
    for (size_t i = 0; i < n; i++) in[i] = 1;
    config.backends = "mpi";
    if (strcmp(argv[1], "mpi")) {
        check(weft_init(&config, &ctx));
        world = weft_world(ctx);
        rank = weft_group_rank(world);
    } else {
        MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    }
    measure(!rank, times);
    if (world)
        check(weft_finalize(ctx, WEFT_FOREVER));
    else
        MPI_Finalize();
    free(in);
    free(out);
    return 0;
}
