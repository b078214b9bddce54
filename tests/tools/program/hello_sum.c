/* hello_sum.c - a program as users write it: whoever starts it as ranks, weft_init finds the others.
 *
 *     hello_sum [TAG [LATE_S]]
 *
 * All ranks must have been given the same TAG: another job's rank among them is told.  With LATE_S the last
 * rank leaves that much later than the others, and all join once more.  Prints "rank 1 of 4 is in" each time,
 * and ends with 0 if the world is right. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <weft/weft.h>

static _Noreturn void wrong(const char *what)
{
    fprintf(stderr, "hello_sum: %s: %s\n", what, weft_last_error());
    exit(1);
}

static void take_part(int64_t tag, unsigned late_s)
{
    weft_context *ctx;
    int64_t sum[2], lowest, highest;
    if (weft_init(NULL, &ctx) != WEFT_OK) wrong("init");
    weft_group *world = weft_world(ctx);
    int64_t rank = weft_group_rank(world), size = weft_group_size(world), mine[2] = {1, rank};
    if (weft_all_reduce(world, mine, sum, 2, WEFT_INT64, WEFT_SUM, NULL, NULL) != WEFT_OK ||
        weft_all_reduce(world, &tag, &lowest, 1, WEFT_INT64, WEFT_MIN, NULL, NULL) != WEFT_OK ||
        weft_all_reduce(world, &tag, &highest, 1, WEFT_INT64, WEFT_MAX, NULL, NULL) != WEFT_OK)
        wrong("all_reduce");
    if (sum[0] != size || sum[1] != size * (size - 1) / 2) wrong("the sum is wrong");
    if (lowest != tag || highest != tag) wrong("a rank of another job is in this one");
    printf("rank %d of %d is in\n", (int)rank, (int)size);
    fflush(stdout);
    if (rank == size - 1) sleep(late_s);
    if (weft_finalize(ctx, WEFT_FOREVER) != WEFT_OK) wrong("finalize");
}

int main(int argc, char **argv)
{
    int64_t tag = argc > 1 ? atoi(argv[1]) : 0;
    int late_s = argc > 2 ? atoi(argv[2]) : 0;
    take_part(tag, (unsigned)late_s);
    if (late_s) take_part(tag, 0);
    return 0;
}
