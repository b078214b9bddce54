/* test_delays.c - nothing that a rank waits for is lost, however late its threads run.
 *
 * Random programs run while the system calls with which threads wait, wake, read and write are late at random
 * (delays.h).  By default a few of them; DELAYS_SECONDS=600 in the environment goes on for so long, and
 * DELAYS_SEED=n begins with that seed.  Each says its seed before it begins, so that one that was interrupted
 * goes on with that, and one that failed is run again:
 *
 *     WEFT_TRANSPORT=tcp DELAYS_SECONDS=600 fault_delays programs */
#include "delays.h"
#include "program.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    ROUNDS = 4,
    REST_MS = 20,
    EXCHANGES = 20,
    YIELD_MS = 20,
    YIELDS_FEW = 4,
    LATE_MS = 1500,
    DEATH_RANKS = 4,
    DEATH_MS = 500,
    EDGE_RANKS = 4
};

static int64_t wanted(const char *name, int64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoll(text, NULL, 10) : otherwise;
}

/* The progress thread sleeps deep at each exchange, and so does the caller. */
static void exchanges(job_rank *me)
{
    job_acquaint(me);
    delays_nested_sets(true);
    for (int i = 0; i < EXCHANGES; i++) {
        int32_t got = -1;
        weft_request *req = NULL;
        job_sleep_ms(me->rank ? REST_MS : 2 * REST_MS);
        if (me->rank == 0) {
            CHECK_OK(weft_isend(me->world, &i, 1, WEFT_INT32, 1, i, NULL, NULL));
            CHECK_OK(weft_irecv(me->world, &got, 1, WEFT_INT32, 1, i, NULL, &req));
        } else {
            CHECK_OK(weft_irecv(me->world, &got, 1, WEFT_INT32, 0, i, NULL, &req));
            WAIT_OK(req);
            job_sleep_ms(2 * REST_MS);
            CHECK_OK(weft_isend(me->world, &i, 1, WEFT_INT32, 0, i, NULL, NULL));
            req = NULL;
        }
        WAIT_OK(req);
        CHECK_INT(got, i);
    }
    delays_nested_sets(false);
}

/* All callers sleep, so that it is the progress threads that see a death. */
static void hears_of_a_death(job_rank *me)
{
    int32_t word = 0;
    weft_request *req = NULL;
    job_acquaint(me);
    delays_nested_sets(true);
    for (int i = 0; i < 2; i++) { /* they nap, and sleep deep */
        job_meet(me);
        job_sum_works(me->world);
        job_sleep_ms(2 * REST_MS);
    }
    if (me->rank == DEATH_RANKS - 1) {
        job_sleep_ms(DEATH_MS);
        job_results(me, me->rank)[0] = job_now_ns();
        raise(SIGKILL);
    }
    CHECK_OK(weft_irecv(me->world, &word, 1, WEFT_INT32, DEATH_RANKS - 1, 0, NULL, &req));
    WAIT_STATUS(WEFT_ERR_PEER, req);
    /* From its death on: without a processor it may be late for that itself. */
    int64_t died = job_results(me, DEATH_RANKS - 1)[0];
    CHECK(died > 0);
    CHECK_PERIOD(died, job_now_ns(), 0, JOB_LATE_MS);
    weft_release(req);
    delays_nested_sets(false);
}

static void share_one_processor(void)
{
    cpu_set_t given, one;
    size_t at = 0;
    CHECK_INT(sched_getaffinity(0, sizeof given, &given), 0);
    while (!CPU_ISSET(at, &given)) at++;
    CPU_ZERO(&one);
    CPU_SET(at, &one);
    CHECK_INT(sched_setaffinity(0, sizeof one, &one), 0);
}

/* Where ranks share a processor a caller that waits gives it away between its looks.  If it is long in coming
 * back many others want it, perhaps the one that is waited for: no more of them than need be. */
static void waits_without_yielding(job_rank *me)
{
    int32_t word = 7;
    weft_request *req = NULL;
    share_one_processor();
    job_join(me);
    job_acquaint(me);
    if (me->rank == 0) {
        delays_yields(YIELD_MS);
        CHECK_OK(weft_irecv(me->world, &word, 1, WEFT_INT32, 1, 0, NULL, &req));
        WAIT_OK(req);
        unsigned yielded = delays_yielded();
        delays_yields(0);
        CHECK(yielded <= YIELDS_FEW);
    } else {
        job_sleep_ms(LATE_MS);
        CHECK_OK(weft_isend(me->world, &word, 1, WEFT_INT32, 0, 0, NULL, NULL));
    }
    job_meet(me);
    job_leave(me);
}

static atomic_bool edge_told;

static void listen_for_edge(int level, const char *line, void *arg)
{
    (void)level;
    (void)arg;
    if (strstr(line, "and nothing told of th")) atomic_store(&edge_told, true); /* of them, of that */
}

/* Nobody but the watchdog, when it looks after deadlines, reads what nothing has told of. */
static void loses_an_edge(job_rank *me)
{
    int32_t word = me->rank, got[EDGE_RANKS] = {0}, all[EDGE_RANKS] = {0};
    weft_request *req = NULL;
    job_setenv(me, "WEFT_TRANSPORT", "tcp");
    job_setenv(me, "WEFT_WARN_MS", "500"); /* it looks then */
    job_join(me);
    CHECK_OK(weft_all_to_all(me->world, all, got, 1, WEFT_INT32, NULL, NULL)); /* all are connected */
    job_meet(me);
    if (me->rank == 1) {
        weft_set_log(listen_for_edge, NULL);
        delays_lose_edges(true);
        job_mark(me, 0);
        job_await(me, 1, 1); /* the word is in the socket */
        CHECK_OK(weft_irecv(me->world, &word, 1, WEFT_INT32, 0, 0, NULL, &req));
        WAIT_OK(req);
        delays_lose_edges(false);
        CHECK_INT(word, 0);
        for (int i = 0; i < JOB_WAIT_MS && !atomic_load(&edge_told); i++) job_sleep_ms(1);
        CHECK(atomic_load(&edge_told));
        weft_set_log(NULL, NULL);
    } else if (me->rank == 0) {
        job_await(me, 0, 1);
        CHECK_OK(weft_isend(me->world, &word, 1, WEFT_INT32, 1, 0, NULL, &req));
        WAIT_OK(req);
        job_mark(me, 1);
    }
    job_meet(me);
    job_leave(me);
}

static void await_end(pid_t pid)
{
    struct pollfd end = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};
    CHECK(end.fd >= 0);
    CHECK_INT(poll(&end, 1, JOB_WAIT_MS), 1);
    close(end.fd);
}

/* Nor does anything else look whether another rank's process has ended. */
static void loses_a_death(job_rank *me)
{
    int32_t word = 0;
    weft_request *req = NULL;
    job_setenv(me, "WEFT_TRANSPORT", "shm");
    job_setenv(me, "WEFT_WARN_MS", "500");
    job_join(me);
    job_sum_works(me->world);
    job_meet(me);
    if (me->rank == 0) {
        weft_set_log(listen_for_edge, NULL);
        delays_lose_edges(true);
        job_kill(me, 1);
        await_end(job_pid(me, 1));
        CHECK_OK(weft_irecv(me->world, &word, 1, WEFT_INT32, 1, 0, NULL, &req));
        WAIT_STATUS(WEFT_ERR_PEER, req);
        delays_lose_edges(false);
        CHECK_NAMES(weft_request_message(req), 1U << 1, me->size);
        for (int i = 0; i < JOB_WAIT_MS && !atomic_load(&edge_told); i++) job_sleep_ms(1);
        CHECK(atomic_load(&edge_told));
        weft_set_log(NULL, NULL);
        weft_release(req);
    } else {
        job_sleep_ms(JOB_LIMIT_MS);
    }
    job_leave(me);
}

typedef struct late_program {
    program program;
    delays delays;
} late_program;

static void run_late(job_rank *me)
{
    const late_program *late = me->arg;
    delays own = late->delays;
    own.seed = own.seed * JOB_RANKS_MAX + (uint64_t)me->rank;
    weft_set_log(listen_for_edge, NULL);
    if (!me->plan->threads || me->rank == 0) delays_begin(&own);
    job_meet(me);
    me->arg = &late->program;
    program_run(me);
    job_meet(me);
    if (!me->plan->threads || me->rank == 0) delays_end();
    weft_set_log(NULL, NULL);
    CHECK(!atomic_load(&edge_told)); /* the watchdog would have hidden that one was lost */
}

static void run_seed(uint64_t seed)
{
    static const int one_in[] = {4, 16, 64, 256}, long_one_in[] = {0, 300, 1000};
    uint64_t words = seed;
    late_program late = {
        .program = {.seed = seed, .threads = 1 << job_random(&words) % 3, .steps = 40},
        .delays = {.seed = seed,
                   .one_in = (uint32_t)one_in[job_random(&words) % 4],
                   .long_one_in = (uint32_t)long_one_in[job_random(&words) % 3]},
    };
    job_run(&(job_plan){.ranks = 2 + (int)(job_random(&words) % 4), .body = run_late, .arg = &late});
}

static void programs(void **state)
{
    int64_t seconds = wanted("DELAYS_SECONDS", 0), end = job_now_ns() + seconds * INT64_C(1000000000);
    uint64_t seed = (uint64_t)wanted("DELAYS_SEED", 1);
    (void)state;
    for (int round = 0; round < ROUNDS || job_now_ns() < end; round++) run_seed(seed++);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("asleep, while nobody gets an epoll set into another", .ranks = 2, .body = exchanges),
        JOB_TEST("a death is heard of then too", .ranks = DEATH_RANKS, .body = hears_of_a_death,
                 .killed = 1U << (DEATH_RANKS - 1)),
        JOB_TEST("a caller whose yields take long goes to sleep", .ranks = 2, .body = waits_without_yielding,
                 .bare = true),
        JOB_TEST("an edge that is lost is found by the watchdog", .ranks = EDGE_RANKS, .body = loses_an_edge,
                 .bare = true, .processes = true),
        JOB_TEST("a death that nothing tells of too", .ranks = 2, .body = loses_a_death, .bare = true,
                 .processes = true, .killed = 1U << 1),
        cmocka_unit_test(programs),
    };
    return JOB_MAIN(tests, argc, argv);
}
