/* test_growth.c - words and connections of the watchdogs, as ranks become more.
 *
 * They are counted where they leave a rank: the linker puts functions of this file around the two that send and
 * connect.  Nothing here looks at a clock but the deadlines that are asked for.  GROWTH_ROUNDS=n [1]: so many times a rank is
 * stopped and named. */
#include "job.h"
#include "notice.h"
#include "watchdog_wire.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { CONNECTED, SENT, LATE_NS }; /* results of a rank */
enum { TIME_MS = 4000 * JOB_SLOWER, WARN_MS = 1000 };

typedef struct growth {
    int hosts; /* 0: one, whose ranks share memory */
} growth;

static _Atomic int connected, sent;
static _Atomic int deaf = -1; /* the rank that is told of no break */

int __real_zmq_connect(void *socket, const char *endpoint);
int __wrap_zmq_connect(void *socket, const char *endpoint);
weft_status __real_weft__watchdog_wire_send(weft__watchdog_wire *wire, int peer, const void *bytes,
                                            size_t length);
weft_status __wrap_weft__watchdog_wire_send(weft__watchdog_wire *wire, int peer, const void *bytes,
                                            size_t length);

int __wrap_zmq_connect(void *socket, const char *endpoint)
{
    atomic_fetch_add(&connected, 1);
    return __real_zmq_connect(socket, endpoint);
}

weft_status __wrap_weft__watchdog_wire_send(weft__watchdog_wire *wire, int peer, const void *bytes,
                                            size_t length)
{
    const weft__notice *notice = bytes;
    atomic_fetch_add(&sent, 1);
    if (peer == atomic_load(&deaf) && length == sizeof *notice && notice->kind == WEFT__NOTICE_BROKEN)
        return WEFT_OK;
    return __real_weft__watchdog_wire_send(wire, peer, bytes, length);
}

static void join_on_hosts(job_rank *me, int hosts)
{
    char host[32];
    snprintf(host, sizeof host, "host%d", hosts ? me->rank * hosts / me->size : 0);
    job_setenv(me, "WEFT_HOSTID", host);
    job_setenv(me, "WEFT_WARN_MS", "1000");
    job_join(me);
    atomic_store(&connected, 0);
    atomic_store(&sent, 0);
}

static void tell_counts(job_rank *me)
{
    job_results(me, me->rank)[CONNECTED] = atomic_load(&connected);
    job_results(me, me->rank)[SENT] = atomic_load(&sent);
    job_meet(me);
}

static int64_t sum_of(job_rank *me, int result)
{
    int64_t sum = 0;
    for (int i = 0; i < me->size; i++) sum += job_results(me, i)[result];
    return sum;
}

/* One rank is late, and a warning is due at all the others. */
static void warned(job_rank *me)
{
    const growth *g = me->arg;
    int hosts = g->hosts, late = me->size / 2;
    join_on_hosts(me, hosts);
    if (me->rank == late) job_sleep_ms(WARN_MS * 3);
    CHECK_OK(weft_barrier(me->world, NULL, NULL));
    tell_counts(me);
    /* Each host's speaker asks the clerk and is answered, the clerk asks it and is answered: and once more where one
     * was so slow that another was asked. */
    CHECK(sum_of(me, SENT) <= (hosts ? 12 * hosts : 0));
    CHECK(sum_of(me, CONNECTED) <= (hosts ? 5 * hosts : 0));
    job_leave(me);
}

/* A sentence comes so soon after its deadline, however many ranks there are. */
enum { SOON_MS = JOB_SANITIZED ? JOB_LATE_MS : 1000 };

static int rounds(void)
{
    const char *text = getenv("GROWTH_ROUNDS");
    return text ? (int)strtol(text, NULL, 10) : 1;
}

/* Rank `stopped` is, and time is up for this one, which names it and nobody else.  Returns how late that is. */
static int64_t time_is_up(job_rank *me, weft_group *group, int stopped)
{
    int64_t from, ends;
    from = job_now_ns();
    CHECK_STATUS(WEFT_ERR_TIMEOUT, weft_barrier(group, NULL, NULL));
    ends = job_now_ns();
    CHECK_PERIOD(from, ends, 0, TIME_MS + SOON_MS);
    for (int i = 0; i < me->size; i++) CHECK_INT(job_names(weft_last_error(), i), i == stopped);
    return ends - from - TIME_MS * INT64_C(1000000);
}

static void name_stopped(job_rank *me, int round)
{
    enum { BEGINS, HAS_ENDED };
    const int stopped = me->size / 2, all = (me->size - 1) * (round + 1);
    int64_t late_ns = 0;
    weft_group *group = job_group(me, me->size, "timed", TIME_MS);
    CHECK_OK(weft_barrier(group, NULL, NULL));
    job_meet(me);
    if (me->rank == 0) job_stop(me, stopped);
    if (me->rank != stopped) {
        job_mark(me, BEGINS);
        job_await(me, BEGINS, all);
        late_ns = time_is_up(me, group, stopped);
        job_mark(me, HAS_ENDED);
        job_await(me, HAS_ENDED, all);
    }
    if (me->rank == 0) CHECK_INT(kill(job_pid(me, stopped), SIGCONT), 0);
    if (late_ns > job_results(me, me->rank)[LATE_NS]) job_results(me, me->rank)[LATE_NS] = late_ns;
    weft_group_free(group);
    job_meet(me);
    if (me->rank == 0 && round == rounds() - 1) {
        for (int i = 0; i < me->size; i++)
            if (job_results(me, i)[LATE_NS] > late_ns) late_ns = job_results(me, i)[LATE_NS];
        printf("             %d times, told %.0f ms after the deadline at the latest\n", rounds(),
               (double)late_ns / 1e6);
        fflush(stdout);
    }
}

/* One rank is stopped, and time is up for all the others: it is named, and nobody else. */
static void named(job_rank *me)
{
    const growth *g = me->arg;
    join_on_hosts(me, g->hosts);
    for (int round = 0; round < rounds(); round++) name_stopped(me, round);
    tell_counts(me);
    CHECK(sum_of(me, SENT) <= (g->hosts ? 40 * me->size * rounds() : 0));
    CHECK(sum_of(me, CONNECTED) <= (g->hosts ? 10 * me->size * rounds() : 0));
    job_leave(me);
}

/* What rank 2 tells rank 3 of the break takes forever; and rank 1, which has never talked to rank 3, leaves as soon as
 * it has been told. */
static void cause_first(job_rank *me)
{
    enum { WAITS, SEEN };
    int32_t value = 0;
    weft_request *req = NULL;
    join_on_hosts(me, me->size);
    if (me->rank == 2) {
        job_await(me, WAITS, 2);
        atomic_store(&deaf, 3);
        weft_group_abort(me->world, "the data is bad");
    } else if (me->rank != 0) {
        CHECK_OK(weft_irecv(me->world, &value, 1, WEFT_INT32, me->rank == 1 ? 2 : 1, 0, NULL, &req));
        job_mark(me, WAITS);
        WAIT_STATUS(WEFT_ERR_CANCELLED, req);
        CHECK_TEXT(weft_request_message(req), "the data is bad");
        weft_release(req);
    }
    if (me->rank == 3) job_mark(me, SEEN);
    if (me->rank != 1) job_await(me, SEEN, 1);
    job_leave(me);
}

#define ON_HOSTS(n) (&(growth){n})

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("8 ranks of one host are warned about without a word", .ranks = 8, .body = warned,
                 .arg = ON_HOSTS(0), .bare = true, .processes = true),
        JOB_TEST("32 ranks of one host", .ranks = 32, .body = warned, .arg = ON_HOSTS(0), .bare = true,
                 .processes = true),
        JOB_TEST("8 ranks on 8 hosts: words for each host", .ranks = 8, .body = warned, .arg = ON_HOSTS(8),
                 .bare = true, .processes = true),
        JOB_TEST("16 ranks on 16 hosts", .ranks = 16, .body = warned, .arg = ON_HOSTS(16), .bare = true,
                 .processes = true),
#if !JOB_SANITIZED /* which these tell nothing that the others do not, and take most of the time */
        JOB_TEST("32 ranks on 32 hosts", .ranks = 32, .body = warned, .arg = ON_HOSTS(32), .bare = true,
                 .processes = true),
        JOB_TEST("32 ranks on 4 hosts", .ranks = 32, .body = warned, .arg = ON_HOSTS(4), .bare = true,
                 .processes = true),
        JOB_TEST("one of 64 on one host is stopped, and named alone", .ranks = 64, .body = named,
                 .arg = ON_HOSTS(0), .bare = true, .processes = true, .limit_ms = JOB_ALARM_S * 1000),
        JOB_TEST("one of 64 on 8 hosts", .ranks = 64, .body = named, .arg = ON_HOSTS(8), .bare = true,
                 .processes = true, .limit_ms = JOB_ALARM_S * 1000),
#endif
        JOB_TEST("one of 16 on 4 hosts", .ranks = 16, .body = named, .arg = ON_HOSTS(4), .bare = true,
                 .processes = true),
        JOB_TEST("one of 16 on 16 hosts", .ranks = 16, .body = named, .arg = ON_HOSTS(16), .bare = true,
                 .processes = true),
        JOB_TEST("why a group broke is heard before who left", .ranks = 4, .body = cause_first, .bare = true,
                 .processes = true),
    };
    return JOB_MAIN(tests, argc, argv);
}
