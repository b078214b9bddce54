/* test_dumped.c - what failed is told with the file in which it is written what all ranks did last, and that file names
 * who is to blame; where nothing is recorded, nothing is named. */
#include "job.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { VICTIM = 1 };

static char folder[64];

/* The text of the file that a sentence names, once it is there. */
static const char *dump_of(const char *sentence)
{
    static char text[8 << 20];
    char path[512];
    const char *at = strstr(sentence, "; recorded in ");
    FILE *file = NULL;
    CHECK_TEXT(sentence, "; recorded in ");
    snprintf(path, sizeof path, "%s", at + strlen("; recorded in "));
    for (int64_t end = job_now_ns() + JOB_LATE_MS * INT64_C(1000000); !file && job_now_ns() < end;
         job_sleep_ms(1))
        file = fopen(path, "re");
    if (!file) CHECK_TEXT("no file", path);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    return text;
}

static void join(job_rank *me, const char *records)
{
    job_setenv(me, "WEFT_RECORD", records);
    job_setenv(me, "WEFT_DUMP_DIR", folder);
    job_join(me);
    job_sum_works(me->world);
    job_meet(me);
}

static void death(job_rank *me)
{
    int32_t sum = 1;
    char name[64];
    weft_request *req = NULL;
    join(me, "64");
    if (me->rank != VICTIM) /* before the death: whoever has heard of that is refused */
        CHECK_OK(weft_all_reduce(me->world, &sum, &sum, 1, WEFT_INT32, WEFT_SUM, NULL, &req));
    job_meet(me);
    if (me->rank == VICTIM) job_kill(me, VICTIM);
    CHECK_STATUS(WEFT_ERR_PEER, weft_wait(req, WEFT_FOREVER));
    snprintf(name, sizeof name, "\"ended\":\"rank %d (pid %d) died", VICTIM, (int)job_pid(me, VICTIM));
    CHECK_TEXT(dump_of(weft_last_error()), name);
    CHECK_STATUS(WEFT_ERR_BROKEN, weft_barrier(me->world, NULL, NULL)); /* refused, with where to look */
    CHECK_TEXT(dump_of(weft_last_error()), name);
    CHECK_STATUS(WEFT_ERR_PEER, weft_group_status(me->world));
    CHECK_TEXT(dump_of(weft_last_error()), name);
    job_leave(me);
}

static void lateness(job_rank *me)
{
    const weft_call soon = {.timeout_ms = JOB_SHORT_MS};
    int32_t sum = 1;
    join(me, "64");
    if (me->rank != VICTIM) {
        CHECK_STATUS(WEFT_ERR_TIMEOUT,
                     weft_all_reduce(me->world, &sum, &sum, 1, WEFT_INT32, WEFT_SUM, &soon, NULL));
        CHECK_TEXT(dump_of(weft_last_error()), "\"found\":[\"rank 1 (pid ");
    }
    job_meet(me);
    job_leave(me);
}

static int files(void)
{
    char command[128];
    FILE *count;
    int n = -1;
    snprintf(command, sizeof command, "ls %s 2>/dev/null | wc -l", folder);
    count = popen(command, "re");
    CHECK(count && fscanf(count, "%d", &n) == 1);
    pclose(count);
    return n;
}

static void asked(job_rank *me)
{
    join(me, "64");
    if (me->rank == 0) {
        CHECK_OK(weft_dump(me->ctx, "to see"));
        CHECK_INT(files(), 1);
        CHECK_OK(weft_dump(me->ctx, NULL));
        CHECK_INT(files(), 2);
        CHECK_INT(raise(SIGUSR2), 0);
        for (int64_t end = job_now_ns() + JOB_LATE_MS * INT64_C(1000000); files() < 3 && job_now_ns() < end;)
            job_sleep_ms(10);
        CHECK_INT(files(), 3);
    }
    job_meet(me);
    job_sum_works(me->world);
    job_leave(me);
}

static void nothing_recorded(job_rank *me)
{
    const weft_call soon = {.timeout_ms = JOB_SHORT_MS};
    int32_t sum = 1;
    join(me, "0");
    CHECK_STATUS(WEFT_ERR_STATE, weft_dump(me->ctx, "in vain"));
    CHECK_TEXT(weft_last_error(), "WEFT_RECORD is 0");
    CHECK_INT(raise(SIGUSR2), 0); /* and it lives on */
    if (me->rank != VICTIM) {
        CHECK_STATUS(WEFT_ERR_TIMEOUT,
                     weft_all_reduce(me->world, &sum, &sum, 1, WEFT_INT32, WEFT_SUM, &soon, NULL));
        CHECK(!strstr(weft_last_error(), "recorded"));
    }
    job_meet(me);
    CHECK_INT(files(), 0);
    job_leave(me);
}

static int make_folder(void **state)
{
    char outer[] = "/tmp/weft-test-dumped-XXXXXX";
    (void)state;
    if (!mkdtemp(outer)) return 1;
    snprintf(folder, sizeof folder, "%s/in", outer); /* the first that writes makes it */
    return 0;
}

static int remove_folder(void **state)
{
    char command[128];
    (void)state;
    *strrchr(folder, '/') = 0;
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

#define CASE(sentence, ...)                                          \
    {                                                                \
        sentence, job_test, make_folder, remove_folder, &(job_plan)  \
        {                                                            \
            .ranks = 3, .bare = true, .processes = true, __VA_ARGS__ \
        }                                                            \
    }

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        CASE("a death is told with the file that names it", .body = death, .killed = 1U << VICTIM),
        CASE("a deadline is told with the file that names who is late", .body = lateness),
        CASE("a call and a signal leave one each", .body = asked),
        CASE("WEFT_RECORD=0: nothing is written, nothing is named", .body = nothing_recorded),
    };
    return JOB_MAIN(tests, argc, argv);
}
