/* test_cycles.c - joining and leaving, and making groups, again and again leaves nothing behind: memory, descriptors,
 * threads, and where MPI carries out what groups do, its communicators. */
#include "job.h"

#include <dirent.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { WARM = JOB_SANITIZED ? 10 : 100, CYCLES = 3 * WARM };
enum { GROUP_CYCLES = JOB_SANITIZED ? 200 : 1000 };

static int entries(const char *path)
{
    int n = 0;
    DIR *dir = opendir(path);
    CHECK(dir);
    while (readdir(dir)) n++;
    closedir(dir);
    return n;
}

static int64_t rss_bytes(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file);
    CHECK_INT(fscanf(file, "%*s %ld", &pages), 1);
    fclose(file);
    return (int64_t)pages * sysconf(_SC_PAGESIZE);
}

/* Open MPI's own grew by more than 1 MiB once; 500 communicators left behind take 4.6. */
static int64_t rss_more(void)
{
    return getenv("JOB_MPIRUN") ? 2 << 20 : 1 << 20;
}

/* A joined thread may be listed for a moment longer. */
static bool comes_to(const char *path, int n)
{
    for (int i = 0; i < JOB_WAIT_MS && entries(path) > n; i++) job_sleep_ms(1);
    return entries(path) <= n;
}

static void cycle(job_rank *me)
{
    job_join(me);
    job_sum_works(me->world);
    job_message_works(me->world, 0, 1, 1);
    job_leave(me);
    job_meet(me); /* the address is free again before anyone joins anew */
}

enum { HEAP_MORE = 32 << 10 }; /* an MPI's own was seen to differ by 10 KiB */

/* What there is of this process, told once it has warmed up. */
typedef struct belongings {
    int threads, descriptors;
    int64_t rss;
    size_t heap; /* in use; 0 where a sanitizer allocates */
} belongings;

static belongings count_belongings(int threads)
{
    CHECK(comes_to("/proc/self/task", threads));
    return (belongings){threads, entries("/proc/self/fd"), rss_bytes(), mallinfo2().uordblks};
}

static void has_no_more_than(const belongings *before)
{
    CHECK(comes_to("/proc/self/task", before->threads));
    CHECK(comes_to("/proc/self/fd", before->descriptors));
    CHECK(JOB_SANITIZED || rss_bytes() <= before->rss + rss_more());
    CHECK(mallinfo2().uordblks <= before->heap + HEAP_MORE);
}

static void cycles(job_rank *me)
{
    int threads_at_first = 0;
    belongings warm = {0};
    for (int i = 0; i < CYCLES; i++) {
        cycle(me);
        if (i == 0)
            threads_at_first = entries("/proc/self/task"); /* a sanitizer has a thread of its own by now */
        if (i == WARM - 1) warm = count_belongings(threads_at_first);
    }
    has_no_more_than(&warm);
}

/* Each is used, so that whatever it needs is there. */
static void groups(job_rank *me)
{
    belongings warm = {0};
    for (int i = 0; i < GROUP_CYCLES; i++) {
        weft_group *group = job_group(me, me->size, "cycle", 0);
        job_sum_works(group);
        CHECK_OK(weft_group_free(group));
        if (i == GROUP_CYCLES / 2) {
            job_meet(me);
            warm = count_belongings(entries("/proc/self/task"));
        }
    }
    job_meet(me);
    has_no_more_than(&warm);
}

/* Operations of many lengths: each has room of its own beside the program's buffers, half as long as what it moves. */
static void lengths(job_rank *me)
{
    enum { LENGTHS = 12, BYTES = 32 << 20, KEPT = 96 << 20 };
    int32_t *sums = malloc(BYTES);
    int64_t before;
    CHECK(sums);
    for (size_t i = 0; i < BYTES / 4; i++) sums[i] = me->rank;
    before = rss_bytes();
    for (int i = 0; i < LENGTHS; i++)
        CHECK_OK(weft_all_reduce(me->world, sums, sums, BYTES / 4 - (size_t)i * 1000, WEFT_INT32, WEFT_SUM,
                                 NULL, NULL));
    CHECK_INT(sums[0], 3 * 177147);
    CHECK(JOB_SANITIZED || getenv("JOB_MPIRUN") || rss_bytes() <= before + KEPT);
    free(sums);
}

/* Two that take turns keep the room of both, however much that is, and whatever small one comes between them. */
static void in_turn(job_rank *me)
{
    enum { ROUNDS = 3 };
    const size_t count = (size_t)24 << 20;
    size_t before, first = 0, both = 0;
    int32_t *sums;
    if (getenv("JOB_MPIRUN")) return; /* what an MPI keeps is its own affair */
    sums = calloc(count, sizeof *sums);
    CHECK(sums);
    before = mallinfo2().hblkhd;
    for (int i = 0; i < ROUNDS; i++) {
        CHECK_OK(weft_all_reduce(me->world, sums, sums, count, WEFT_INT32, WEFT_SUM, NULL, NULL));
        if (i == 0) first = mallinfo2().hblkhd - before;
        CHECK_OK(weft_all_reduce(me->world, sums, sums, count - 1000, WEFT_INT32, WEFT_SUM, NULL, NULL));
        CHECK_OK(weft_all_reduce(me->world, sums, sums, 1000, WEFT_INT32, WEFT_SUM, NULL, NULL));
        both = mallinfo2().hblkhd - before;
    }
    CHECK(both >= first + first / 2); /* both are 0 where a sanitizer allocates */
    free(sums);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("cycles", .ranks = 2, .body = cycles, .bare = true, .processes = true),
        JOB_TEST("groups", .ranks = 3, .body = groups, .processes = true),
        JOB_TEST("lengths", .ranks = 3, .body = lengths, .processes = true),
        JOB_TEST("in turn", .ranks = 3, .body = in_turn, .processes = true),
    };
    /* MPICH 5 over UCX notes each munmap of its process, in 144 B, until something long is next sent: a program of MPI
     * alone that maps and unmaps 20,000 times keeps 2.8 MiB.  Here that is every thread's stack. */
    if (getenv("JOB_MPIRUN")) setenv("UCX_MEM_EVENTS", "n", 0);
    return JOB_MAIN(tests, argc, argv);
}
