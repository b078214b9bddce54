/* test_vanished.c - hosts whose cable is cut: named in about the heartbeat's limit, whether anything was under way or not, and
 * the others go on without them; a short cut, ranks that are stopped, and a way that is lost between two hosts which a third
 * one reaches are no deaths: of these two none goes but by a shrink, and once the way is there they work together again.
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
    cables_enter_job(me, host_of(me->rank));
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
    bool refused;       /* it was not: the group broke between two calls, as on a busy machine it may */
    atomic_int done;
    char text[512];
} work;

static void work_on(work *w)
{
    while (w->busy && !atomic_load(&w->over) && w->status == WEFT_OK) {
        weft_request *req = NULL;
        w->status = weft_all_reduce(w->rank->world, w->in, w->out, LARGE, WEFT_INT32, WEFT_SUM, NULL, &req);
        w->refused = w->status != WEFT_OK;
        if (w->refused) return;
        w->status = weft_wait(req, JOB_WAIT_MS);
        snprintf(w->text, sizeof w->text, "%s", weft_request_message(req));
        weft_release(req);
        atomic_fetch_add(&w->done, w->status == WEFT_OK);
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
    if (plan->busy) CHECK_INT(w.status, w.refused ? WEFT_ERR_BROKEN : WEFT_ERR_PEER);
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
    CABLES_OR_SKIP();
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
    bool
        highest; /* not hosts 0 and 1, but the last one and 0 lose each other: who finds it is higher than who is told */
} disturbance;

/* Ranks next to each other in the ring of watchers, of two hosts that lose each other: the first one watches over the second. */
static int finder_of(const disturbance *plan)
{
    return plan->highest ? RANKS - 1 : RANKS / HOSTS - 1;
}

static int told_of(const disturbance *plan)
{
    return (finder_of(plan) + 1) % RANKS;
}

/* The lowest of the third host, which is asked. */
static int witness_of(const disturbance *plan)
{
    return (told_of(plan) + RANKS / HOSTS) % RANKS;
}

static bool block(const disturbance *plan)
{
    const int a = host_of(finder_of(plan)), b = host_of(told_of(plan));
    return cables_block(a, b) && (plan->one_way || cables_block(b, a));
}

static bool unblock(const disturbance *plan)
{
    const int a = host_of(finder_of(plan)), b = host_of(told_of(plan));
    return cables_unblock(a, b) && (plan->one_way || cables_unblock(b, a));
}

static void check_found_text(const disturbance *plan, const char *text)
{
    char expected[96];
    snprintf(expected, sizeof expected,
             "rank %d is unreachable from here (rank %d), though rank %d reaches its host", told_of(plan),
             finder_of(plan), witness_of(plan));
    CHECK_TEXT(text, expected);
}

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
        CHECK(block(plan));
        job_sleep_ms(plan->block_ms);
        CHECK(unblock(plan));
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
        for (int i = 0; i < JOB_WAIT_MS && !atomic_load(&w.done); i++) job_sleep_ms(1);
        CHECK(atomic_load(&w.done) > 0); /* it has begun, which what is to come does not end */
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
        if (!was_long) CHECK_OK(status);
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

/* Two hosts lose each other, and the third one reaches both: the ranks of one of the two have to go, which are those that were
 * told of it. */
static void unreachable(job_rank *me)
{
    const disturbance *plan = me->arg;
    const int64_t all = (INT64_C(1) << RANKS) - 1, gone = ranks_of(host_of(told_of(plan)));
    weft_call call = {.timeout_ms = JOB_WAIT_MS / 2};
    weft_group *next = NULL;
    weft_request *req = NULL;
    char ms[16];
    snprintf(ms, sizeof ms, "%d", RECONNECT_MS);
    job_setenv(me, "WEFT_RECONNECT_MS", ms);
    join(me);
    job_meet(me);
    if (!me->rank) CHECK(block(plan));
    CHECK_STATUS(WEFT_ERR_PEER, job_await_break(me->world, HEARTBEAT_MS + RECONNECT_MS + JOB_LATE_MS));
    job_meet(me);
    if (me->rank == finder_of(plan)) {
        CHECK_STATUS(WEFT_ERR_BROKEN, weft_barrier(me->world, NULL, &req));
        check_found_text(plan, weft_last_error());
    }
    CHECK_OK(weft_shrink_group(me->world, &call, &next, &req));
    WAIT_STATUS(gone >> me->rank & 1 ? WEFT_ERR_PEER : WEFT_OK, req);
    weft_release(req);
    if (!(gone >> me->rank & 1)) {
        CHECK_INT(mask_of(next), all & ~gone);
        job_sum_works(next);
    }
    job_meet(me);
    if (!me->rank) CHECK(unblock(plan));
    job_leave(me);
}

/* ---- unreachable is not dead ---- */

/* The ranks of two hosts. */
static weft_group *group_of(job_rank *me, int a, int b, const char *label)
{
    int ranks[RANKS], n = 0;
    weft_call call = {.timeout_ms = JOB_WAIT_MS, .label = label};
    weft_group *group = NULL;
    weft_request *req = NULL;
    for (int r = 0; r < RANKS; r++)
        if (host_of(r) == a || host_of(r) == b) ranks[n++] = r;
    CHECK_OK(weft_new_group(me->world, ranks, n, &call, &group, &req));
    WAIT_OK(req);
    return group;
}

/* Who does not reach a member is told so, at once where it knows, and is not told that anybody is dead. */
static void check_apart(job_rank *me, weft_request *received)
{
    const disturbance *plan = me->arg;
    const int finder = finder_of(plan), told = told_of(plan), pair[] = {finder, told};
    weft_call call = {.timeout_ms = JOB_WAIT_MS, .label = "two that do not reach each other"};
    weft_group *group = NULL;
    weft_request *req = NULL;
    int dead[RANKS];
    CHECK_STATUS(WEFT_ERR_PEER, job_await_break(me->world, HEARTBEAT_MS + RECONNECT_MS + JOB_LATE_MS));
    CHECK_INT(weft_group_dead(me->world, dead, RANKS), 0);
    if (me->rank == finder) {
        WAIT_STATUS(WEFT_ERR_PEER, received);
        check_found_text(plan, weft_request_message(received));
    }
    if (me->rank != finder && me->rank != told) return;
    CHECK_OK(weft_new_group(me->world, pair, 2, &call, &group, &req));
    WAIT_STATUS(WEFT_ERR_PEER, req);
    CHECK_TEXT(weft_request_message(req), "unreachable");
    weft_release(req);
    weft_group_free(group);
}

/* Until the two reach each other again. */
static weft_group *make_all(job_rank *me)
{
    const int64_t end = job_now_ns() + JOB_WAIT_MS * INT64_C(1000000);
    int all[RANKS];
    for (int r = 0; r < RANKS; r++) all[r] = r;
    for (int i = 0; job_now_ns() < end; i++) {
        char label[16];
        weft_call call = {.timeout_ms = JOB_WAIT_MS, .label = label};
        weft_group *group = NULL;
        weft_request *req = NULL;
        weft_status status;
        snprintf(label, sizeof label, "all %d", i);
        CHECK_OK(weft_new_group(me->world, all, RANKS, &call, &group, &req));
        status = weft_wait(req, JOB_WAIT_MS);
        weft_release(req);
        if (status == WEFT_OK) return group;
        weft_group_free(group);
        CHECK_STATUS(WEFT_ERR_PEER, status);
        job_sleep_ms(50);
    }
    job_fail(__FILE__, __LINE__, "the two do not find each other again");
    return NULL;
}

static void check_together(job_rank *me, weft_request *received)
{
    const disturbance *plan = me->arg;
    const int finder = finder_of(plan), told = told_of(plan), peer = finder + told - me->rank;
    weft_group *all = make_all(me);
    int32_t value = me->rank, other = -1, dead[RANKS];
    weft_request *req = NULL;
    job_sum_works(all);
    CHECK_INT(weft_group_dead(me->world, dead, RANKS), 0);
    if (me->rank == finder || me->rank == told) {
        CHECK_OK(weft_isend(all, &value, 1, WEFT_INT32, peer, 5, NULL, &req));
        CHECK_OK(weft_irecv(all, &other, 1, WEFT_INT32, peer, 5, NULL, NULL));
        CHECK_INT(other, peer);
        WAIT_OK(req);
        /* What was lost leaves no gap that somebody might not see. */
        CHECK_STATUS(WEFT_ERR_PEER, weft_isend(me->world, &value, 1, WEFT_INT32, peer, 6, NULL, &req));
        CHECK_TEXT(weft_last_error(), "was unreachable from here");
        WAIT_STATUS(WEFT_ERR_PEER, received);
    }
    weft_group_free(all);
}

static void unreachable_lives(job_rank *me)
{
    const disturbance *plan = me->arg;
    const int finder = finder_of(plan), told = told_of(plan), third = host_of(witness_of(plan));
    weft_group *near = NULL, *far = NULL;
    weft_request *received = NULL;
    int32_t value = 0;
    char ms[16];
    snprintf(ms, sizeof ms, "%d", RECONNECT_MS);
    job_setenv(me, "WEFT_RECONNECT_MS", ms);
    join(me);
    if (host_of(me->rank) != host_of(told))
        near = group_of(me, host_of(finder), third, "without who is told");
    if (host_of(me->rank) != host_of(finder))
        far = group_of(me, host_of(told), third, "without who finds it");
    if (me->rank == finder || me->rank == told)
        CHECK_OK(weft_irecv(me->world, &value, 1, WEFT_INT32, finder + told - me->rank, 7, NULL, &received));
    job_meet(me);
    if (!me->rank) CHECK(block(plan));
    check_apart(me, received);
    job_meet(me);
    if (near) job_sum_works(near);
    if (far) job_sum_works(far);
    job_meet(me);
    if (!me->rank) CHECK(unblock(plan));
    check_together(me, received);
    weft_release(received);
    weft_group_free(near);
    weft_group_free(far);
    job_meet(me);
    job_leave(me);
}

/* A first connection has longer than one that is made again. */
static void connect_all(job_rank *me)
{
    int32_t values[2 * RANKS] = {0};
    weft_request *reqs[2 * RANKS] = {NULL};
    for (int r = 0; r < RANKS; r++) {
        if (r == me->rank) continue;
        CHECK_OK(weft_irecv(me->world, &values[r], 1, WEFT_INT32, r, 9, NULL, &reqs[r]));
        CHECK_OK(weft_isend(me->world, &values[RANKS + r], 1, WEFT_INT32, r, 9, NULL, &reqs[RANKS + r]));
    }
    for (int i = 0; i < 2 * RANKS; i++)
        if (reqs[i]) WAIT_OK(reqs[i]);
}

/* The ranks of the one host leave: they do not wait for the other one for long, and do not take it that all leave.  The others
 * go on together. */
static void leave_apart(job_rank *me)
{
    const disturbance *plan = me->arg;
    const int64_t all = (INT64_C(1) << RANKS) - 1, left = ranks_of(host_of(finder_of(plan)));
    weft_call call = {.timeout_ms = JOB_WAIT_MS / 2};
    weft_group *next = NULL;
    weft_request *req = NULL;
    char ms[16];
    snprintf(ms, sizeof ms, "%d", RECONNECT_MS);
    job_setenv(me, "WEFT_RECONNECT_MS", ms);
    join(me);
    connect_all(me);
    job_meet(me);
    if (!me->rank) CHECK(block(plan));
    CHECK_STATUS(WEFT_ERR_PEER, job_await_break(me->world, HEARTBEAT_MS + RECONNECT_MS + JOB_LATE_MS));
    job_meet(me);
    if (left >> me->rank & 1) {
        job_leave(me);
        job_meet(me);
        if (!me->rank) CHECK(unblock(plan));
        return;
    }
    CHECK_OK(weft_shrink_group(me->world, &call, &next, &req));
    WAIT_OK(req);
    CHECK_INT(mask_of(next), all & ~left);
    job_sum_works(next);
    job_meet(me);
    job_leave(me);
}

static void with_cables(void **state)
{
    CABLES_OR_SKIP();
    assert_true(cables_restore());
    job_test(state);
}

#define ON_CABLES(does, sentence, ...)                                                           \
    {                                                                                            \
        sentence, with_cables, NULL, NULL, &(job_plan)                                           \
        {                                                                                        \
            .ranks = RANKS, .body = does, .bare = true, .processes = true, .arg = &(disturbance) \
            {                                                                                    \
                __VA_ARGS__                                                                      \
            }                                                                                    \
        }                                                                                        \
    }

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vanishing_idle),
        cmocka_unit_test(vanishing_busy),
        ON_CABLES(nobody_is_accused, "a cable is cut for half a second", .cut_ms = 500),
        ON_CABLES(nobody_is_accused, "under load too", .busy = true, .cut_ms = 500),
        ON_CABLES(nobody_is_accused, "all ranks of a host are stopped for 3 s", .busy = true,
                  .stop_ms = 3000),
        ON_CABLES(nobody_is_accused, "a way between two hosts is lost for 2.5 s", .block_ms = 2500),
        ON_CABLES(unreachable, "two hosts lose each other", .block_ms = 1),
        ON_CABLES(unreachable, "one way between two hosts is lost", .one_way = true),
        ON_CABLES(unreachable_lives, "two hosts lose each other, and find each other again", .block_ms = 1),
        ON_CABLES(unreachable, "two hosts lose each other, the higher finds it", .highest = true),
        ON_CABLES(unreachable_lives, "one way between two hosts is lost, and is there again",
                  .one_way = true),
        ON_CABLES(unreachable_lives,
                  "two hosts lose each other, the higher finds it, and find each other again",
                  .highest = true),
        ON_CABLES(leave_apart, "a host leaves that another one does not reach", .block_ms = 1),
    };
    return CABLES_MAIN(HOSTS, tests, argc, argv);
}
