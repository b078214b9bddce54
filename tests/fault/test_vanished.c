/* test_vanished.c - hosts whose cable is cut: named in about the heartbeat's limit, whether anything was under way or not, and
 * the others go on without them; a short cut, ranks that are stopped, and a way that is lost between two hosts which a third
 * one reaches are no deaths.
 *
 * VANISHED_ROUNDS=n cuts cables n times in each case and tells how long it took; without network namespaces all is skipped. */
#include "cables.h"
#include "job.h"
#include "skip.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    HOSTS = 3,
    RANKS = 6,           /* two on each, in blocks */
    LARGE = 4 << 20,     /* int32: 16 MiB */
    HEARTBEAT_MS = 1000, /* as by default */
    NAMED_MS = HEARTBEAT_MS + JOB_LATE_MS,
    SHRUNK_MS = 1000 * JOB_SLOWER,
    RECONNECT_MS = 800 * JOB_SLOWER,
    ROUNDS_MOST = 100
};
enum {
    LONG_MS = HEARTBEAT_MS * 3 / 4
}; /* a cut of that is none of half a second: others had the processor, or the kernel, busy with other namespaces, lost its
    * first question for the address, which it repeats after a second */
enum {
    CUTTING_NS,
    CUT_NS,
    NAMED_NS,
    SHRUNK_NS,
    LONG
}; /* results of each rank; those of cuts of rank 0 alone */

typedef struct loss {
    bool busy;
    int host;
    uint64_t seed;
} loss;

static bool cables; /* there are some */

static int host_of(int rank)
{
    return rank * HOSTS / RANKS;
}

static int64_t mask_of(weft_group *group)
{
    int64_t mask = 0;
    for (int i = 0; i < weft_group_size(group); i++) mask |= INT64_C(1) << weft_group_to_world(group, i);
    return mask;
}

static int64_t ranks_of(int host)
{
    int64_t mask = 0;
    for (int r = 0; r < RANKS; r++) mask |= host_of(r) == host ? INT64_C(1) << r : 0;
    return mask;
}

static void join(job_rank *me)
{
    CHECK(cables_enter(host_of(me->rank)));
    job_setenv(me, "MASTER_ADDR", cables_address(0));
    job_setenv(me, "WEFT_SOCKET_IFNAME", "cable");
    job_setenv(me, "WEFT_TEST_SECRET", "the secret of hosts with cables");
    job_setenv(me, "WEFT_SECRET", "env:WEFT_TEST_SECRET");
    job_join(me);
    job_acquaint(me);
}

/* ---- what is under way ---- */

typedef struct work {
    job_rank *rank;
    bool busy;
    int32_t *in, *out;
    atomic_bool over;
    weft_status status; /* of what was under way last */
    int64_t done;
    char text[512];
} work;

static void work_on(work *w)
{
    while (w->busy && !atomic_load(&w->over) && w->status == WEFT_OK) {
        weft_request *req = NULL;
        w->status = weft_all_reduce(w->rank->world, w->in, w->out, LARGE, WEFT_INT32, WEFT_SUM, NULL, &req);
        if (w->status != WEFT_OK) return;
        w->status = weft_wait(req, JOB_WAIT_MS);
        snprintf(w->text, sizeof w->text, "%s", weft_request_message(req));
        weft_release(req);
        w->done += w->status == WEFT_OK;
        for (int i = 0; w->status == WEFT_OK && i < LARGE; i += 4099)
            if (w->out[i] != RANKS * (RANKS + 1) / 2 * (i % 1000))
                job_fail(__FILE__, __LINE__, "element %d is %d", i, w->out[i]);
    }
}

static void prepare(work *w, job_rank *me, bool busy)
{
    *w = (work){.rank = me, .busy = busy};
    if (!busy) return;
    w->in = job_alloc(me, LARGE * sizeof *w->in);
    w->out = job_alloc(me, LARGE * sizeof *w->out);
    for (int i = 0; i < LARGE; i++) w->in[i] = (me->rank + 1) * (i % 1000);
}

/* ---- a host that vanishes ---- */

static void await_named(job_rank *me, int64_t lost)
{
    int64_t end = job_now_ns() + JOB_WAIT_MS * INT64_C(1000000), dead = 0;
    while (dead != lost && job_now_ns() < end) {
        int ranks[RANKS], n = weft_group_dead(me->world, ranks, RANKS);
        dead = 0;
        for (int i = 0; i < n; i++) dead |= INT64_C(1) << ranks[i];
        if (dead != lost) job_sleep_ms(1);
    }
    CHECK_INT(dead, lost);
    job_results(me, me->rank)[NAMED_NS] = job_now_ns();
}

static void *cut(void *arg)
{
    job_rank *me = arg;
    const loss *plan = me->arg;
    uint64_t words = plan->seed;
    job_sleep_ms(300 + (int64_t)(job_random(&words) % 300));
    job_results(me, 0)[CUTTING_NS] = job_now_ns();
    if (!cables_cut(plan->host)) job_fail(__FILE__, __LINE__, "the cable cannot be cut: %s", cables_why());
    job_results(me, 0)[CUT_NS] = job_now_ns();
    return NULL;
}

/* In the kernel's ticks an acknowledgement may be some milliseconds older than it is. */
static void check_named(job_rank *me)
{
    const int64_t *at = job_results(me, 0);
    CHECK_PERIOD(at[CUTTING_NS], job_results(me, me->rank)[NAMED_NS], HEARTBEAT_MS * 9 / 10, JOB_WAIT_MS);
    CHECK_PERIOD(at[CUT_NS], job_results(me, me->rank)[NAMED_NS], 0, NAMED_MS);
}

static void check_survivor(job_rank *me, const loss *plan)
{
    weft_call call = {.timeout_ms = JOB_WAIT_MS / 2};
    weft_group *survivors = NULL;
    weft_request *req = NULL;
    int64_t *told = job_results(me, me->rank), lost = ranks_of(plan->host);
    CHECK_OK(weft_shrink_group(me->world, &call, &survivors, &req));
    WAIT_OK(req);
    told[SHRUNK_NS] = job_now_ns();
    CHECK_INT(mask_of(survivors), ((INT64_C(1) << RANKS) - 1) & ~lost);
    job_sum_works(survivors);
    check_named(me);
    CHECK_PERIOD(told[NAMED_NS], told[SHRUNK_NS], 0, SHRUNK_MS + JOB_LATE_MS);
}

/* Whoever is cut off has lost all the others. */
static void check_cut_off(job_rank *me)
{
    weft_call call = {.timeout_ms = SHRUNK_MS + JOB_LATE_MS};
    weft_group *survivors = NULL;
    weft_request *req = NULL;
    CHECK_OK(weft_shrink_group(me->world, &call, &survivors, &req));
    WAIT_STATUS(WEFT_ERR_PEER, req);
    CHECK_TEXT(weft_request_message(req), "WEFT_QUORUM=majority");
    weft_release(req);
    check_named(me);
}

static void vanish(job_rank *me)
{
    const loss *plan = me->arg;
    const bool is_lost = host_of(me->rank) == plan->host;
    const int64_t all = (INT64_C(1) << RANKS) - 1, lost = ranks_of(plan->host);
    const int cutter = plan->host ? 0 : RANKS - 1;
    pthread_t thread = pthread_self();
    work w;
    prepare(&w, me, plan->busy);
    join(me);
    job_meet(me);
    if (me->rank == cutter) CHECK(!pthread_create(&thread, NULL, cut, me));
    work_on(&w);
    await_named(me, is_lost ? all & ~lost : lost);
    if (me->rank == cutter) pthread_join(thread, NULL);
    if (plan->busy) CHECK_INT(w.status, WEFT_ERR_PEER);
    if (is_lost)
        check_cut_off(me);
    else
        check_survivor(me, plan);
    job_meet(me);
    if (me->rank == cutter) CHECK(cables_mend(plan->host));
    job_leave(me);
    job_meet(me);
    if (me->rank || !getenv("VANISHED_ROUNDS")) return;
    for (int r = 0; r < RANKS; r++)
        printf("vanished %s host %d rank %d: named %.0f ms, shrunk %.0f ms\n", plan->busy ? "busy" : "idle",
               plan->host, r, (double)(job_results(me, r)[NAMED_NS] - job_results(me, 0)[CUT_NS]) / 1e6,
               job_results(me, r)[SHRUNK_NS]
                   ? (double)(job_results(me, r)[SHRUNK_NS] - job_results(me, r)[NAMED_NS]) / 1e6
                   : -1);
    fflush(stdout);
}

static void vanishing(bool busy)
{
    const char *text = getenv("VANISHED_ROUNDS");
    int rounds = text ? (int)strtol(text, NULL, 10) : 1;
    if (!cables) SKIP("no network namespaces here: %s", cables_why());
    for (int i = 0; i < rounds && i < ROUNDS_MOST; i++) {
        assert_true(cables_restore());
        loss plan = {.busy = busy, .host = (HOSTS - 1 + i) % HOSTS, .seed = (uint64_t)i + 1};
        job_run(&(job_plan){.ranks = RANKS, .body = vanish, .bare = true, .processes = true, .arg = &plan});
    }
}

static void vanishing_idle(void **state)
{
    (void)state;
    vanishing(false);
}

static void vanishing_busy(void **state)
{
    (void)state;
    vanishing(true);
}

/* ---- what is no death ---- */

typedef struct disturbance {
    bool busy;
    int cut_ms, stop_ms, block_ms; /* one of these; both ways between hosts 0 and 1, or one */
    bool one_way;
} disturbance;

static void disturb(job_rank *me)
{
    const disturbance *plan = me->arg;
    const int64_t last = ranks_of(HOSTS - 1);
    job_sleep_ms(300);
    if (plan->cut_ms) {
        int64_t begun = job_now_ns();
        CHECK(cables_cut(HOSTS - 1));
        job_sleep_ms(plan->cut_ms);
        CHECK(cables_mend(HOSTS - 1) && cables_await(HOSTS - 1));
        job_results(me, 0)[LONG] = job_now_ns() - begun > LONG_MS * INT64_C(1000000);
    } else if (plan->stop_ms) {
        for (int r = 0; r < RANKS; r++)
            if (last >> r & 1) job_stop(me, r);
        job_sleep_ms(plan->stop_ms);
        for (int r = 0; r < RANKS; r++)
            if (last >> r & 1) CHECK_INT(kill(job_pid(me, r), SIGCONT), 0);
    } else {
        CHECK(cables_block(0, 1) && (plan->one_way || cables_block(1, 0)));
        job_sleep_ms(plan->block_ms);
        CHECK(cables_unblock(0, 1) && (plan->one_way || cables_unblock(1, 0)));
    }
    job_sleep_ms(2 * HEARTBEAT_MS); /* whoever is suspected is so by then */
}

static void *work_thread(void *arg)
{
    work_on(arg);
    return NULL;
}

/* Ends once rank 0 has disturbed and waited: all have to end on the same operation. */
static void nobody_is_accused(job_rank *me)
{
    const disturbance *plan = me->arg;
    pthread_t thread;
    work w;
    int dead[RANKS];
    join(me);
    prepare(&w, me, plan->busy);
    job_meet(me);
    if (plan->busy) {
        CHECK(!pthread_create(&thread, NULL, work_thread, &w));
    }
    if (!me->rank) disturb(me);
    job_meet(me);
    const bool was_long = job_results(me, 0)[LONG]; /* so somebody may be */
    if (!was_long) {
        CHECK_STATUS(WEFT_OK, weft_group_status(me->world));
        CHECK_INT(weft_group_dead(me->world, dead, RANKS), 0);
    }
    atomic_store(&w.over, true);
    job_meet(me);
    if (plan->busy) {
        weft_status status = weft_group_abort(me->world, "the test is over");
        pthread_join(thread, NULL);
        if (!was_long) {
            CHECK(w.done > 0);
            CHECK_OK(status);
        }
    } else if (!was_long) {
        job_sum_works(me->world);
    }
    job_meet(me);
    if (was_long) weft_abort(me->ctx, "the machine was busy elsewhere");
    if (was_long)
        me->ctx = NULL;
    else
        job_leave(me);
}

/* Two hosts lose each other, and the third one reaches both: the ranks of one of the two have to go, which are the higher ones. */
static void unreachable(job_rank *me)
{
    const disturbance *plan = me->arg;
    const int64_t all = (INT64_C(1) << RANKS) - 1, gone = ranks_of(1);
    weft_call call = {.timeout_ms = 3000 * JOB_SLOWER};
    weft_group *next = NULL;
    weft_request *req = NULL;
    char ms[16];
    snprintf(ms, sizeof ms, "%d", RECONNECT_MS);
    job_setenv(me, "WEFT_RECONNECT_MS", ms);
    join(me);
    job_meet(me);
    if (!me->rank) CHECK(cables_block(0, 1) && (plan->one_way || cables_block(1, 0)));
    CHECK_STATUS(WEFT_ERR_PEER, job_await_break(me->world, HEARTBEAT_MS + RECONNECT_MS + JOB_LATE_MS));
    job_meet(me);
    if (me->rank == 1) { /* from which the watch ring goes on to rank 2 */
        CHECK_STATUS(WEFT_ERR_BROKEN, weft_barrier(me->world, NULL, &req));
        CHECK_TEXT(weft_last_error(),
                   "rank 2 is unreachable from here (rank 1), though rank 4 reaches its host");
    }
    CHECK_OK(weft_shrink_group(me->world, &call, &next, &req));
    WAIT_STATUS(gone >> me->rank & 1 ? WEFT_ERR_PEER : WEFT_OK, req);
    weft_release(req);
    if (!(gone >> me->rank & 1)) {
        CHECK_INT(mask_of(next), all & ~gone);
        job_sum_works(next);
    }
    job_meet(me);
    if (!me->rank) CHECK(cables_unblock(0, 1) && (plan->one_way || cables_unblock(1, 0)));
    job_leave(me);
}

static void with_cables(void **state)
{
    if (!cables) SKIP("no network namespaces here: %s", cables_why());
    assert_true(cables_restore());
    job_test(state);
}

#define UNDISTURBED(sentence, ...)                                                      \
    {                                                                                   \
        sentence, with_cables, NULL, NULL, &(job_plan)                                  \
        {                                                                               \
            .ranks = RANKS, .body = nobody_is_accused, .bare = true, .processes = true, \
            .arg = &(disturbance)                                                       \
            {                                                                           \
                __VA_ARGS__                                                             \
            }                                                                           \
        }                                                                               \
    }
#define UNREACHABLE(sentence, ...)                                                                      \
    {                                                                                                   \
        sentence, with_cables, NULL, NULL, &(job_plan)                                                  \
        {                                                                                               \
            .ranks = RANKS, .body = unreachable, .bare = true, .processes = true, .arg = &(disturbance) \
            {                                                                                           \
                __VA_ARGS__                                                                             \
            }                                                                                           \
        }                                                                                               \
    }

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vanishing_idle),
        cmocka_unit_test(vanishing_busy),
        UNDISTURBED("a cable is cut for half a second", .cut_ms = 500),
        UNDISTURBED("under load too", .busy = true, .cut_ms = 500),
        UNDISTURBED("all ranks of a host are stopped for 3 s", .busy = true, .stop_ms = 3000),
        UNDISTURBED("a way between two hosts is lost for 2.5 s", .block_ms = 2500),
        UNREACHABLE("two hosts lose each other", .block_ms = 1),
        UNREACHABLE("one way between two hosts is lost", .one_way = true),
    };
    int failed;
    setenv("WEFT_LOG", "0", 0);
    cables = cables_make(HOSTS);
    failed = JOB_MAIN(tests, argc, argv);
    cables_remove();
    return failed;
}
