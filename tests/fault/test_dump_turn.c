/* test_dump_turn.c - one rank of a host reads its records for all: also where that takes long, and unless it stops there. */
#include "dump_folder.h"
#include "job.h"

#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { READERS, STOPPED }; /* results of rank 0: how many have read; which process has stopped */
enum { VICTIM = 1, HAS_ENDED = 0 };
enum { WAITS_MS = 1000 }; /* half a second for another rank to read, and another one for its file */

static job_rank *_Atomic self; /* while what this reads is watched */
static int64_t takes_ms;
static bool first_stops;

/* The run's own, in that of the user, in which rank 0 looks for what runs before have left behind. */
static bool is_folder_of_records(const char *file)
{
    const char *of_user = strstr(file, "/weft-");
    return of_user && strchr(of_user + 1, '/') && strncmp(file, dump_folder, strlen(dump_folder)) != 0;
}

/* Whoever reads opens the folder of the records. */
static void note_reader(void)
{
    _Atomic int64_t *readers = (_Atomic int64_t *)&job_results(atomic_load(&self), 0)[READERS];
    const bool first = atomic_fetch_add(readers, 1) == 0;
    job_sleep_ms(takes_ms);
    if (!first || !first_stops) return;
    job_results(atomic_load(&self), 0)[STOPPED] = getpid();
    raise(SIGSTOP);
}

/* In place of the C library's, for the library too. */
__attribute__((visibility("default"))) int open(const char *file, int oflag, ...)
{
    mode_t mode = 0;
    if (oflag & O_CREAT) {
        va_list more;
        va_start(more, oflag);
        mode = va_arg(more, mode_t);
        va_end(more);
    }
    if (atomic_load(&self) && (oflag & O_DIRECTORY) && is_folder_of_records(file)) note_reader();
    return (int)syscall(SYS_openat, AT_FDCWD, file, oflag, mode);
}

static void begin(job_rank *me, int64_t ms, bool stops)
{
    job_setenv(me, "WEFT_RECORD", "64");
    job_setenv(me, "WEFT_DUMP_DIR", dump_folder);
    job_join(me);
    job_sum_works(me->world);
    job_meet(me);
    takes_ms = ms;
    first_stops = stops;
    atomic_store(&self, me);
}

static void time_is_up(job_rank *me)
{
    const weft_call soon = {.timeout_ms = JOB_SHORT_MS};
    int64_t from = job_now_ns();
    int32_t sum = 1;
    if (me->rank == VICTIM) return;
    CHECK_STATUS(WEFT_ERR_TIMEOUT,
                 weft_all_reduce(me->world, &sum, &sum, 1, WEFT_INT32, WEFT_SUM, &soon, NULL));
    CHECK_TEXT(weft_last_error(), "; recorded in ");
    CHECK_PERIOD(from, job_now_ns(), JOB_SHORT_MS, JOB_SHORT_MS + WAITS_MS + JOB_LATE_MS);
}

static void check_files(int wanted)
{
    char pattern[96];
    glob_t found;
    int64_t end = job_now_ns() + JOB_WAIT_MS * INT64_C(1000000);
    snprintf(pattern, sizeof pattern, "%s/dump.*.json", dump_folder);
    while (glob(pattern, 0, NULL, &found) && job_now_ns() < end) job_sleep_ms(1);
    CHECK_INT(found.gl_pathc, wanted);
    globfree(&found);
}

/* The others wait, but not for ever, and none of them reads as well, which would make it slower for all. */
static void slow(job_rank *me)
{
    enum { SLOW_MS = 800 };
    begin(me, SLOW_MS, false);
    time_is_up(me);
    job_meet(me);
    check_files(1);
    CHECK_INT(job_results(me, 0)[READERS], 1);
    job_meet(me); /* whoever leaves opens that folder too */
    job_leave(me);
}

/* One other reads in its place.  Six have ended then, and the one that has not goes on. */
static void stopped(job_rank *me)
{
    begin(me, 0, true);
    time_is_up(me);
    if (me->rank != VICTIM) {
        job_mark(me, HAS_ENDED);
    } else {
        job_await(me, HAS_ENDED, me->size - 2);
        check_files(1);
        CHECK_INT(job_results(me, 0)[READERS], 2);
        CHECK_INT(kill((pid_t)job_results(me, 0)[STOPPED], SIGCONT), 0);
    }
    job_meet(me);
    check_files(1);
    job_leave(me);
}

#define CASE(sentence, test_body)                                             \
    {                                                                         \
        sentence, job_test, dump_folder_make, dump_folder_remove, &(job_plan) \
        {                                                                     \
            .bare = true, .processes = true, .ranks = 8, .body = test_body    \
        }                                                                     \
    }

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        CASE("one rank reads for its host, however long that takes", slow),
        CASE("one that does not come back from reading is stood in for", stopped),
    };
    return JOB_MAIN(tests, argc, argv);
}
