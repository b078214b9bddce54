/* test_refused.c - a rank that is stopped while its host is cut off wakes up when the others have gone on without it: who it
 * dials refuses it, also before anybody has told it, and all that it asks for ends, by shared memory too.
 *
 * What watchdogs tell it comes late: the linker puts a function of this file around the one that takes their words. */
#include "cables.h"
#include "job.h"
#include "skip.h"
#include "survival.h"
#include "watchdog_wire.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static atomic_bool deaf; /* this process' watchdog takes no words */

int __real_weft__watchdog_wire_take(weft__watchdog_wire *wire, weft__watchdog_wire_fn *fn, void *arg);
int __wrap_weft__watchdog_wire_take(weft__watchdog_wire *wire, weft__watchdog_wire_fn *fn, void *arg);

static void take_nothing(void *arg, int from, const void *bytes, size_t length)
{
    (void)arg;
    (void)from;
    (void)bytes;
    (void)length;
}

int __wrap_weft__watchdog_wire_take(weft__watchdog_wire *wire, weft__watchdog_wire_fn *fn, void *arg)
{
    return __real_weft__watchdog_wire_take(wire, atomic_load(&deaf) ? take_nothing : fn, arg);
}

/* Hosts of two ranks, one, and two: the last is the one that is cut off, whose ranks are stopped meanwhile. */
enum { SLEEPERS = 5, DIALS = 3, SHARES = 4, SLEEPERS_HOST = 2, LIVING = 0x07 };
enum { READY, GONE_ON, IS_OUT }; /* marks */
static const int sleepers_host[SLEEPERS] = {0, 0, 1, SLEEPERS_HOST, SLEEPERS_HOST};

static void sleepers_log(char path[64])
{
    snprintf(path, 64, "/tmp/weft-refused-%d.log", (int)getppid());
}

/* What this process says from now on. */
static void log_into(const char *path)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && dup2(fd, STDERR_FILENO) == STDERR_FILENO && !close(fd));
}

static bool log_has(const char *path, const char *words)
{
    char line[2048];
    bool has = false;
    FILE *log = fopen(path, "re");
    while (log && fgets(line, sizeof line, log)) has = has || strstr(line, words);
    if (log) fclose(log);
    return has;
}

static void go_on_without(job_rank *me)
{
    const int64_t until = job_now_ns() + JOB_WAIT_MS * INT64_C(1000000);
    weft_group *group = me->world, *next;
    char text[1024] = "";
    CHECK(job_await_break(group, JOB_WAIT_MS) != WEFT_OK);
    while (survival_members(group) != LIVING) {
        if (job_now_ns() >= until) job_fail(__FILE__, __LINE__, "no group without them: %s", text);
        if (survival_shrink(group, &next, text, sizeof text) == WEFT_OK) group = next;
    }
    job_sum_works(group);
    job_mark(me, GONE_ON);
    job_await(me, GONE_ON, __builtin_popcount(LIVING));
    if (me->rank) return;
    CHECK(cables_mend(SLEEPERS_HOST) && cables_await(SLEEPERS_HOST));
    CHECK(!kill(job_pid(me, DIALS), SIGCONT));
    job_await(me, IS_OUT, 1);
    CHECK(!kill(job_pid(me, SHARES), SIGCONT));
}

static void await_refusal(const job_rank *me)
{
    const int64_t until = job_now_ns() + JOB_WAIT_MS * INT64_C(1000000);
    char path[64];
    if (me->rank != DIALS) return;
    sleepers_log(path);
    while (!log_has(path, "refuses the connection: it counts this rank as gone") && job_now_ns() < until)
        job_sleep_ms(5);
    CHECK(log_has(path, "refuses the connection: it counts this rank as gone"));
    CHECK(!log_has(path, "the job goes on without this rank"));
}

/* Its own word is not OK, and before it is told says that it reaches too few. */
static void hear_why(job_rank *me)
{
    const int64_t until = job_now_ns() + JOB_WAIT_MS * INT64_C(1000000);
    char text[1024] = "";
    weft_group *next;
    while (!strstr(text, "the job goes on without this rank")) {
        CHECK(survival_shrink(me->world, &next, text, sizeof text) != WEFT_OK);
        if (job_now_ns() >= until) job_fail(__FILE__, __LINE__, "it is not told: %s", text);
    }
    CHECK_INT(survival_go_on(me, until, text, sizeof text),
              WEFT_ERR_PEER); /* which looks at each operation */
    CHECK_TEXT(text, "the job goes on without this rank");
    CHECK_INT(weft_group_dead(me->world, NULL, 0), me->size - 1);
}

/* Its receives have been under way all the time: from a host that goes on, and from its own, by shared memory. */
static void wake_up(job_rank *me)
{
    const int beside = me->rank == DIALS ? SHARES : DIALS;
    int32_t got[2] = {0};
    weft_request *reqs[2];
    CHECK_OK(weft_irecv(me->world, &got[0], 1, WEFT_INT32, 0, 5, NULL, &reqs[0]));
    CHECK_OK(weft_irecv(me->world, &got[1], 1, WEFT_INT32, beside, 5, NULL, &reqs[1]));
    atomic_store(&deaf, true);
    job_mark(me, READY);
    job_await(me, GONE_ON, __builtin_popcount(LIVING)); /* it is stopped in here */
    await_refusal(me);
    atomic_store(&deaf, false);
    hear_why(me);
    WAIT_STATUS(WEFT_ERR_PEER, reqs[0]);
    WAIT_STATUS(WEFT_ERR_PEER, reqs[1]); /* though that one lives, and is in no view either */
    weft_release(reqs[0]);
    weft_release(reqs[1]);
    job_mark(me, IS_OUT);
}

static void sleep_through(job_rank *me)
{
    char path[64];
    cables_enter_job(me, sleepers_host[me->rank]);
    sleepers_log(path);
    job_setenv(me, "WEFT_LOG", "3");
    if (me->rank == DIALS) log_into(path);
    job_join(me);
    job_acquaint(me);
    job_meet(me);
    if (!me->rank) {
        job_await(me, READY, 2);
        job_stop(me, DIALS);
        job_stop(me, SHARES);
        CHECK(cables_cut(SLEEPERS_HOST));
    }
    if (sleepers_host[me->rank] == SLEEPERS_HOST)
        wake_up(me);
    else
        go_on_without(me);
    job_meet(me);
    job_leave(me);
    job_meet(me);
    if (!me->rank) unlink(path);
}

static void refused(void **state)
{
    (void)state;
    CABLES_OR_SKIP();
    assert_true(cables_restore());
    job_run(&(job_plan){.ranks = SLEEPERS,
                        .body = sleep_through,
                        .bare = true,
                        .processes = true,
                        .limit_ms = 2 * SURVIVAL_END_MS});
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(refused)};
    return CABLES_MAIN(SLEEPERS_HOST + 1, tests, argc, argv);
}
