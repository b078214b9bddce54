/* hello_sum.c - a program as users write it: whoever starts it as ranks, weft_init finds the others.
 * With a number as argument all ranks must have been given the same one: another job's rank among them is
 * told. Prints "rank 1 of 4 is in" and ends with 0 if the world is right. */
#include <stdio.h>
#include <stdlib.h>
#include <weft/weft.h>

static int wrong(const char *what)
{
    fprintf(stderr, "hello_sum: %s: %s\n", what, weft_last_error());
    return 1;
}

int main(int argc, char **argv)
{
    int64_t tag = argc > 1 ? atoi(argv[1]) : 0, sum[2], lowest, highest;
    weft_context *ctx;
    if (weft_init(NULL, &ctx) != WEFT_OK) return wrong("init");
    weft_group *world = weft_world(ctx);
    int64_t rank = weft_group_rank(world), size = weft_group_size(world), mine[2] = {1, rank};
    if (weft_all_reduce(world, mine, sum, 2, WEFT_INT64, WEFT_SUM, NULL, NULL) != WEFT_OK ||
        weft_all_reduce(world, &tag, &lowest, 1, WEFT_INT64, WEFT_MIN, NULL, NULL) != WEFT_OK ||
        weft_all_reduce(world, &tag, &highest, 1, WEFT_INT64, WEFT_MAX, NULL, NULL) != WEFT_OK)
        return wrong("all_reduce");
    if (sum[0] != size || sum[1] != size * (size - 1) / 2) return wrong("the sum is wrong");
    if (lowest != tag || highest != tag) return wrong("a rank of another job is in this one");
    printf("rank %d of %d is in\n", (int)rank, (int)size);
    fflush(stdout);
    return weft_finalize(ctx, WEFT_FOREVER) == WEFT_OK ? 0 : wrong("finalize");
}
