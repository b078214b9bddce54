/* many_ranks.c - the steps of a job's life with default settings, each checked; rank 0 tells how long each took it.
 * Argument: how many ranks a part has by which they are split, and a row of the mesh [8]. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <weft/weft.h>

enum { LARGE = 16 * 1024 }; /* float: 64 KiB */

static int64_t begun;
static bool first; /* rank 0 */

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

static void check(weft_status status, const char *step)
{
    if (status == WEFT_OK) return;
    fprintf(stderr, "many_ranks: %s: %s\n", step, weft_last_error());
    exit(1);
}

static void check_value(double value, double expected, const char *step)
{
    if (value == expected) return;
    fprintf(stderr, "many_ranks: %s: %g, expected %g\n", step, value, expected);
    exit(1);
}

static void tell(const char *step)
{
    if (first) printf("%-22s %6lld ms\n", step, (long long)(now_ms() - begun));
    fflush(stdout);
    begun = now_ms();
}

static void sum(weft_group *group, size_t count, const char *step)
{
    static float in[LARGE], out[LARGE];
    for (size_t i = 0; i < count; i++) in[i] = (float)weft_group_rank(group);
    check(weft_all_reduce(group, in, out, count, WEFT_FLOAT32, WEFT_SUM, NULL, NULL), step);
    for (size_t i = 0; i < count; i++)
        check_value(out[i], weft_group_size(group) * (weft_group_size(group) - 1.0) / 2, step);
}

static weft_group *everybody(weft_context *ctx)
{
    const int size = weft_group_size(weft_world(ctx));
    int *ranks = calloc((size_t)size, sizeof *ranks);
    weft_group *group = NULL;
    if (!ranks) exit(1);
    for (int i = 0; i < size; i++) ranks[i] = size - 1 - i;
    check(weft_new_group(weft_world(ctx), ranks, size, NULL, &group, NULL), "new_group");
    free(ranks);
    return group;
}

int main(int argc, char **argv)
{
    const int row = argc > 1 ? atoi(argv[1]) : 8;
    char axes[64];
    weft_context *ctx = NULL;
    weft_group *group, *part = NULL;
    weft_mesh *mesh = NULL;
    begun = now_ms();
    check(weft_init(NULL, &ctx), "init");
    first = weft_group_rank(weft_world(ctx)) == 0;
    tell("init");
    sum(weft_world(ctx), 2, "all_reduce of 8 B");
    tell("all_reduce of 8 B");
    sum(weft_world(ctx), LARGE, "all_reduce of 64 KiB");
    tell("all_reduce of 64 KiB");
    group = everybody(ctx);
    tell("new_group");
    sum(group, 2, "sum of the new group");
    tell("its sum");
    check(weft_split_group(weft_world(ctx), weft_group_rank(weft_world(ctx)) / row, 0, NULL, &part, NULL),
          "split");
    tell("split");
    sum(part, 2, "sum of a part");
    snprintf(axes, sizeof axes, "row=%d,column=%d", weft_group_size(weft_world(ctx)) / row, row);
    check(weft_mesh_create(weft_world(ctx), axes, NULL, &mesh, NULL), "mesh");
    tell("mesh");
    sum(weft_mesh_group(mesh, "row"), 2, "sum of a column");
    check(weft_mesh_free(mesh), "mesh_free");
    check(weft_group_free(part), "group_free");
    check(weft_group_free(group), "group_free");
    begun = now_ms();
    check(weft_finalize(ctx, WEFT_FOREVER), "finalize");
    if (first) tell("finalize");
    return 0;
}
