/* test_limits.c - a job under every limit on descriptors, threads and files: it runs, or weft_init says what
 * is needed and what there is.  Nothing ends a process, and nobody is told that a living rank is missing. */
#include "job.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { FEWEST = 10, STEP_OVER = JOB_SANITIZED ? 7 : 1, ENOUGH = 120 };

/* ---- descriptors -------------------------------------------------------------------------------------- */

static void limit_descriptors(int soft, int hard)
{
    struct rlimit limit = {(rlim_t)soft, (rlim_t)hard};
    CHECK(!setrlimit(RLIMIT_NOFILE, &limit));
}

/* All ranks come to the same end; *status has it. */
static bool joins(job_rank *me)
{
    char url[64];
    weft_config config = job_config(me, url, 0);
    int64_t *result = job_results(me, me->rank);
    result[0] = weft_init(&config, &me->ctx);
    if (result[0] == WEFT_OK) me->world = weft_world(me->ctx);
    job_meet(me);
    for (int r = 0; r < me->size; r++) CHECK_INT(job_results(me, r)[0], result[0]);
    return result[0] == WEFT_OK;
}

static void under_a_limit(job_rank *me)
{
    const int limit = *(const int *)me->arg;
    char number[16];
    snprintf(number, sizeof number, "%d", limit);
    limit_descriptors(limit, limit);
    if (joins(me)) {
        job_sum_works(me->world);
        job_message_works(me->world, 0, 1, 0);
        return;
    }
    CHECK_TEXT(weft_last_error(), "descriptors");
    CHECK_TEXT(weft_last_error(), number);
}

static void test_every_limit(void **state)
{
    (void)state;
    for (int limit = FEWEST; limit < ENOUGH; limit += STEP_OVER)
        job_run(
            &(job_plan){.ranks = 2, .body = under_a_limit, .arg = &limit, .bare = true, .processes = true});
}

/* ---- sizes of files ------------------------------------------------------------------------------------ */

/* The board is a file, and the kernel ends whoever makes one that is too long. */
static void under_a_file_limit(job_rank *me)
{
    const rlim_t bytes = *(const rlim_t *)me->arg;
    struct rlimit limit = {bytes, bytes};
    CHECK(!setrlimit(RLIMIT_FSIZE, &limit));
    if (joins(me))
        job_sum_works(me->world);
    else
        CHECK_TEXT(weft_last_error(), "RLIMIT_FSIZE");
}

static void test_file_limits(void **state)
{
    static const rlim_t limits[] = {4096, 1 << 20, 1 << 24, (rlim_t)1 << 34};
    (void)state;
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        job_run(&(job_plan){
            .ranks = 2, .body = under_a_file_limit, .arg = &limits[i], .bare = true, .processes = true});
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        {"every limit on descriptors", test_every_limit, NULL, NULL, NULL},
        {"limits on the size of files", test_file_limits, NULL, NULL, NULL},
    };
    return JOB_MAIN(tests, argc, argv);
}
