/* test_growth.c - words and connections of the watchdogs, as ranks become more.
 *
 * They are counted where they leave a rank: the linker puts functions of this file around the two that send and
 * connect.  Nothing here looks at a clock but the deadlines that are asked for.  GROWTH_ROUNDS=n [1]: so many times a rank is
 * stopped and named. */
#include "job.h"
#include "notice.h"
#include "watchdog_wire.h"

#include <dirent.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CONNECTED, SENT, LATE_NS, OTHERS }; /* results of a rank */
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

static void count_anew(void)
{
    atomic_store(&connected, 0);
    atomic_store(&sent, 0);
}

static void join_on_hosts(job_rank *me, int hosts)
{
    char host[32];
    snprintf(host, sizeof host, "host%d", hosts ? me->rank * hosts / me->size : 0);
    job_setenv(me, "WEFT_HOSTID", host);
    job_setenv(me, "WEFT_WARN_MS", "1000");
    job_join(me);
    count_anew();
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

/* One of so many times must go well: who gets no processor for as long as an answer is waited for has others asked as well,
 * and is named, and may be told late. */
enum { TRIES = 5 };

/* Each host's speaker asks the clerk and is answered, the clerk asks it and is answered: and once more where one was so slow
 * that another was asked. */
static bool few_words(job_rank *me, int hosts)
{
    return sum_of(me, SENT) <= (hosts ? 12 * hosts : 0) && sum_of(me, CONNECTED) <= (hosts ? 5 * hosts : 0);
}

/* One rank is late, and a warning is due at all the others. */
static void warned(job_rank *me)
{
    const growth *g = me->arg;
    const int late = me->size / 2;
    bool few = false;
    join_on_hosts(me, g->hosts);
    for (int n = 0; n < TRIES && !few; n++) {
        count_anew();
        job_meet(me);
        if (me->rank == late) job_sleep_ms(WARN_MS * 3);
        CHECK_OK(weft_barrier(me->world, NULL, NULL));
        tell_counts(me);
        few = few_words(me, g->hosts);
        job_meet(me);
    }
    if (!few)
        job_fail(__FILE__, __LINE__, "%lld words, %lld connections", (long long)sum_of(me, SENT),
                 (long long)sum_of(me, CONNECTED));
    job_leave(me);
}

static int rounds(void)
{
    const char *text = getenv("GROWTH_ROUNDS");
    return text ? (int)strtol(text, NULL, 10) : 1;
}

/* Rank `stopped` is, and time is up for this one, which names it, and how many others. */
static void time_is_up(job_rank *me, weft_group *group, int stopped)
{
    int64_t *told = job_results(me, me->rank);
    int64_t from = job_now_ns(), late_ns;
    CHECK_STATUS(WEFT_ERR_TIMEOUT, weft_barrier(group, NULL, NULL));
    late_ns = job_now_ns() - from - TIME_MS * INT64_C(1000000);
    told[LATE_NS] = late_ns;
    CHECK(job_names(weft_last_error(), stopped));
    for (int i = 0; i < me->size; i++) told[OTHERS] += i != stopped && job_names(weft_last_error(), i);
}

/* The last of them to be told. */
static int64_t latest_ns(job_rank *me)
{
    int64_t latest = 0;
    for (int i = 0; i < me->size; i++)
        if (job_results(me, i)[LATE_NS] > latest) latest = job_results(me, i)[LATE_NS];
    return latest;
}

/* True: in time, and nobody has named anybody else. */
static bool name_stopped(job_rank *me, int n)
{
    enum { BEGINS, HAS_ENDED };
    const int stopped = me->size / 2, all = (me->size - 1) * n;
    bool well;
    weft_group *group = job_group(me, me->size, "timed", TIME_MS);
    CHECK_OK(weft_barrier(group, NULL, NULL));
    job_results(me, me->rank)[OTHERS] = 0;
    job_meet(me);
    if (me->rank == 0) job_stop(me, stopped);
    if (me->rank != stopped) {
        job_mark(me, BEGINS);
        job_await(me, BEGINS, all);
        time_is_up(me, group, stopped);
        job_mark(me, HAS_ENDED);
        job_await(me, HAS_ENDED, all);
    }
    if (me->rank == 0) CHECK_INT(kill(job_pid(me, stopped), SIGCONT), 0);
    weft_group_free(group);
    job_meet(me);
    well = !sum_of(me, OTHERS) && latest_ns(me) <= JOB_LATE_MS * INT64_C(1000000);
    job_meet(me);
    return well;
}

/* One rank is stopped, and time is up for all the others: it is named, and nobody else. */
static void named(job_rank *me)
{
    const growth *g = me->arg;
    int n = 0;
    join_on_hosts(me, g->hosts);
    for (int round = 0; round < rounds(); round++) {
        bool well = false;
        for (int tries = 0; tries < TRIES && !well; tries++) well = name_stopped(me, ++n);
        if (!well)
            job_fail(__FILE__, __LINE__, "%lld others named, told %lld ms late",
                     (long long)sum_of(me, OTHERS), (long long)(latest_ns(me) / 1000000));
    }
    tell_counts(me);
    CHECK(sum_of(me, SENT) <= (g->hosts ? 40 * me->size * n : 0));
    CHECK(sum_of(me, CONNECTED) <= (g->hosts ? 10 * me->size * n : 0));
    if (!me->rank)
        printf("             %d times, told %.0f ms after the deadline at the latest; %lld words\n", n,
               (double)latest_ns(me) / 1e6, (long long)sum_of(me, SENT));
    fflush(stdout);
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

/* ---- memory that the ranks of a host share ---- */

/* Another descriptor of their segment, which outlives this rank's context. */
static int segment_of_this_rank(void)
{
    DIR *all = opendir("/proc/self/fd");
    int found = -1;
    struct dirent *each;
    CHECK(all);
    while (found < 0 && (each = readdir(all))) {
        char path[300], target[64] = "";
        snprintf(path, sizeof path, "/proc/self/fd/%s", each->d_name);
        if (readlink(path, target, sizeof target - 1) > 0 && strstr(target, "weft-segment"))
            found = dup(atoi(each->d_name));
    }
    closedir(all);
    CHECK(found >= 0);
    return found;
}

/* What has been taken since `before`, with all ranks at the same place; in rings of one rank to another. */
static int rings_since(job_rank *me, int segment, int64_t *before, const char *what)
{
    enum {
        RING = 64 * 1024 + 4096,
        BLOCK = 512
    }; /* of 17 to 32 ranks, and the page that tells what was read of it */
    struct stat file;
    int rings;
    job_meet(me);
    CHECK(!fstat(segment, &file));
    rings = (int)((file.st_blocks * BLOCK - *before) / RING);
    *before = file.st_blocks * BLOCK;
    if (!me->rank) printf("%d ranks: %s takes %d rings\n", me->size, what, rings);
    fflush(stdout);
    job_meet(me);
    return rings;
}

static void send_to_next(job_rank *me)
{
    int32_t value = -1;
    weft_request *send = NULL, *receive = NULL;
    const int last = (me->rank + me->size - 1) % me->size;
    CHECK_OK(weft_irecv(me->world, &value, 1, WEFT_INT32, last, 0, NULL, &receive));
    CHECK_OK(weft_isend(me->world, &me->rank, 1, WEFT_INT32, (me->rank + 1) % me->size, 0, NULL, &send));
    WAIT_STATUS(WEFT_OK, receive);
    WAIT_STATUS(WEFT_OK, send);
    CHECK_INT(value, last);
    weft_release(receive);
    weft_release(send);
}

/* One aborts a group, and all hear of it. */
static void break_group(job_rank *me, const int *all)
{
    weft_group *group = NULL;
    weft_request *req = NULL;
    CHECK_OK(weft_new_group(me->world, all, me->size, NULL, &group, NULL));
    if (!me->rank) CHECK_OK(weft_group_abort(group, "no more of it"));
    if (weft_barrier(group, NULL, &req) == WEFT_OK) WAIT_STATUS(WEFT_ERR_CANCELLED, req);
    weft_release(req);
    job_meet(me);
    if (me->rank % 2) CHECK_OK(weft_group_free(group)); /* the others leave it to the end */
}

/* The last one leaves, and all hear of it, though few have ever heard of it before. */
static void leave_alone(job_rank *me)
{
    weft_request *receive = NULL;
    int32_t value;
    if (me->rank == me->size - 1) {
        job_leave(me);
        return;
    }
    if (weft_irecv(me->world, &value, 1, WEFT_INT32, me->size - 1, 1, NULL, &receive) == WEFT_OK) {
        WAIT_STATUS(WEFT_ERR_PEER, receive);
        CHECK_TEXT(weft_request_message(receive), "has left");
    }
    weft_release(receive);
}

/* A rank has rings with those that it talks to, of which there are few: also as groups are made, as one breaks, as one
 * rank leaves, and at last all. */
static void rings_for_few(job_rank *me)
{
    enum {
        FEW = 8
    }; /* for each rank, in any of that, with the slots of a group, which take as much as four; all are 31 */
    const int few = FEW * me->size;
    int64_t before = 0;
    weft_group *most = NULL;
    int segment, all[32];
    job_setenv(me, "WEFT_TRANSPORT", "shm");
    join_on_hosts(me, 0);
    segment = segment_of_this_rank();
    for (int i = 0; i < me->size; i++) all[i] = i;
    job_sum_works(me->world);
    rings_since(me, segment, &before, "joining, with the slots of its groups,");
    send_to_next(me);
    CHECK(rings_since(me, segment, &before, "a message to the next") <= me->size);
    if (me->rank) {
        CHECK_OK(weft_new_group(me->world, all + 1, me->size - 1, NULL, &most, NULL));
        job_sum_works(most);
    }
    CHECK(rings_since(me, segment, &before, "a group") <= few);
    break_group(me, all);
    CHECK(rings_since(me, segment, &before, "the break of one") <= few);
    leave_alone(me);
    CHECK(rings_since(me, segment, &before, "one who leaves") <= few);
    if (me->rank < me->size - 1) job_leave(me);
    CHECK(rings_since(me, segment, &before, "the end") <= few);
    close(segment);
}

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
        JOB_TEST("32 ranks of one host share memory with few", .ranks = 32, .body = rings_for_few,
                 .bare = true, .processes = true),
        JOB_TEST("why a group broke is heard before who left", .ranks = 4, .body = cause_first, .bare = true,
                 .processes = true),
    };
    return JOB_MAIN(tests, argc, argv);
}
