/* test_cycles.c - joining and leaving again and again leaves nothing behind: memory, descriptors, threads. */
#include "job.h"

#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

enum { WARM = JOB_SANITIZED ? 10 : 100, CYCLES = 3 * WARM, RSS_MORE = 1 << 20 };

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

/* A joined thread may be listed for a moment longer. */
static bool comes_to(const char *path, int n)
{
    for (int i = 0; i < 1000 && entries(path) > n; i++) job_sleep_ms(1);
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

static void cycles(job_rank *me)
{
    int threads_at_first = 0, descriptors = 0;
    int64_t rss = 0;
    for (int i = 0; i < CYCLES; i++) {
        cycle(me);
        if (i == 0) { /* a sanitizer has a thread of its own by now */
            threads_at_first = entries("/proc/self/task");
        }
        if (i == WARM - 1) {
            CHECK(comes_to("/proc/self/task", threads_at_first));
            descriptors = entries("/proc/self/fd");
            rss = rss_bytes();
        }
    }
    CHECK(comes_to("/proc/self/task", threads_at_first));
    CHECK(comes_to("/proc/self/fd", descriptors));
    CHECK(JOB_SANITIZED || rss_bytes() <= rss + RSS_MORE);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("cycles", .ranks = 2, .body = cycles, .bare = true, .processes = true),
    };
    return JOB_MAIN(tests, argc, argv);
}
