/* mesh_64.c - a mesh of 64 ranks on one machine: joins, uses every axis and every set of joined axes, leaves.
 * Rank 0 prints how long each part took, and the memory of a rank as the kernel counts it: Rss, all that it
 * has mapped and touched, and Pss, where a page that k processes share counts as 1/k. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <weft/weft.h>

enum { RANKS = 64, COUNT = 1000 };

static weft_context *job;

static void check(weft_status status, const char *what)
{
    if (status == WEFT_OK) return;
    fprintf(stderr, "mesh_64: %s: %s: %s\n", what, weft_status_name(status), weft_last_error());
    exit(1);
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void sum_works(weft_group *group, const char *axes, size_t count)
{
    static int32_t in[COUNT], out[COUNT];
    int n = weft_group_size(group);
    for (size_t i = 0; i < count; i++)
        in[i] = (int32_t)i * 64 + weft_group_to_world(group, weft_group_rank(group));
    check(weft_all_reduce(group, in, out, count, WEFT_INT32, WEFT_SUM, NULL, NULL), axes);
    for (size_t i = 0; i < count; i++) {
        int32_t sum = n * (int32_t)i * 64;
        for (int k = 0; k < n; k++) sum += weft_group_to_world(group, k);
        if (out[i] == sum) continue;
        fprintf(stderr, "mesh_64: %s: element %zu is %d, expected %d\n", axes, i, out[i], sum);
        exit(1);
    }
}

/* KiB of this process: "Rss:" and "Pss:" of its mappings together. */
static int64_t memory_kib(const char *field)
{
    char line[256];
    long kib = -1;
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, field, strlen(field))) kib = strtol(line + strlen(field), NULL, 10);
    if (file) fclose(file);
    return kib;
}

static int by_size(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static void print_memory(const char *when, const char *field)
{
    int64_t mine = memory_kib(field), all[RANKS];
    /* All have looked before anybody goes on. */
    check(weft_all_gather(weft_world(job), &mine, all, 1, WEFT_INT64, NULL, NULL), "all_gather");
    if (weft_group_rank(weft_world(job)) != 0) return;
    qsort(all, RANKS, sizeof *all, by_size);
    int middle = RANKS / 2;
    printf("%-12s %s %7.1f / %7.1f / %7.1f MiB a rank (least, median, greatest)\n", when, field,
           (double)all[0] / 1024, (double)all[middle] / 1024, (double)all[RANKS - 1] / 1024);
}

static void use(weft_mesh *mesh)
{
    static const char *const sets[] = {"pp", "dp", "tp", "pp,dp", "pp,tp", "dp,tp", "pp,dp,tp"};
    static const int sizes[] = {4, 4, 4, 16, 16, 16, 64};
    for (int i = 0; i < 7; i++) {
        weft_group *group = weft_mesh_group(mesh, sets[i]);
        if (!group || weft_group_size(group) != sizes[i]) {
            fprintf(stderr, "mesh_64: the group \"%s\" is wrong: %s\n", sets[i], weft_last_error());
            exit(1);
        }
        sum_works(group, sets[i], 1);
        sum_works(group, sets[i], COUNT);
    }
}

int main(void)
{
    weft_mesh *mesh = NULL;
    double at[5] = {seconds()};
    int rank, size;
    check(weft_init(NULL, &job), "init");
    at[1] = seconds();
    rank = weft_group_rank(weft_world(job));
    size = weft_group_size(weft_world(job));
    if (size != RANKS) {
        fprintf(stderr, "mesh_64: there are %d ranks: expected %d\n", size, RANKS);
        return 1;
    }
    print_memory("joined", "Pss:");
    print_memory("joined", "Rss:");
    at[2] = seconds();
    check(weft_mesh_create(weft_world(job), "pp=4,dp=4,tp=4", NULL, &mesh, NULL), "mesh_create");
    use(mesh);
    at[3] = seconds();
    print_memory("meshes used", "Pss:");
    print_memory("meshes used", "Rss:");
    check(weft_mesh_free(mesh), "mesh_free");
    at[4] = seconds();
    check(weft_finalize(job, 20000), "finalize");
    if (rank == 0)
        printf("rank 0: init %.2f s, mesh and 14 sums %.2f s, finalize %.2f s\n", at[1] - at[0],
               at[3] - at[2], seconds() - at[4]);
    return 0;
}
