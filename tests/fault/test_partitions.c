/* test_partitions.c - hosts that lose each other as networks lose them, without a word: some ways, all between two parts, one
 * direction of them, for a while or for good.  All who get a group have the same one, at most one part goes on, and
 * everybody else has an end in time, with a sentence that is so.
 *
 * PARTITIONS_RUNS=n plays each case n times, from PARTITIONS_SEED on, which draws who is where, when it begins and
 * whether it ends. */
#include "cables.h"
#include "job.h"
#include "skip.h"
#include "survival.h"

#include <glob.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    HOSTS = 5,
    RECONNECT_MS = 800 * JOB_SLOWER,
    BEGINS_MOST_MS = 60,
    LASTS_MOST_MS = 3000,
    TRIES = 3,
    CALM_MS = 4500 * JOB_SLOWER /* by then who is lost is named everywhere; the heartbeat is as by default */
};

typedef enum way_lost { BOTH_WAYS, ONE_WAY, CABLE } way_lost; /* CABLE: of the host of the second part */

typedef struct partition {
    const char *parts; /* how many hosts each has */
    int ranks_on_each;
    way_lost lost;
    const char *quorum; /* NULL: by default */
    uint64_t seed;
} partition;

typedef struct course {
    survival_parts hosts, ranks;
    int64_t begins_ms, lasts_ms; /* lasts_ms 0: for good */
} course;

static int host_of(const partition *plan, int rank)
{
    return rank / plan->ranks_on_each;
}

static int hosts_of(const partition *plan)
{
    int hosts = 0;
    for (const char *part = plan->parts; *part; part++) hosts += *part - '0';
    return hosts;
}

/* On all ranks alike. */
static course draw(const partition *plan)
{
    uint64_t words = plan->seed;
    course c = {.hosts = survival_draw(plan->parts, hosts_of(plan), &words)};
    c.ranks.heard = plan->lost == ONE_WAY;
    c.ranks.size = c.hosts.size * plan->ranks_on_each;
    for (int r = 0; r < c.ranks.size; r++) c.ranks.of[r] = c.hosts.of[host_of(plan, r)];
    c.begins_ms = (int64_t)(job_random(&words) % BEGINS_MOST_MS);
    c.lasts_ms = job_random(&words) % 2 ? 1 + (int64_t)(job_random(&words) % LASTS_MOST_MS) : 0;
    return c;
}

/* ---- the ways ---- */

static bool set_way(int from, int to, bool lost)
{
    return lost ? cables_block(from, to) : cables_unblock(from, to);
}

static bool set_ways(const partition *plan, const course *c, bool lost)
{
    bool all = true;
    for (int i = 0; i < c->hosts.size; i++)
        for (int k = 0; k < c->hosts.size; k++) {
            const bool apart = c->hosts.of[i] != c->hosts.of[k];
            if (plan->lost == CABLE && c->hosts.of[i] == 1 && i == k)
                all = (lost ? cables_cut(i) : cables_mend(i)) && all;
            else if (plan->lost == ONE_WAY && c->hosts.of[i] < c->hosts.of[k])
                all = set_way(i, k, lost) && all;
            else if (plan->lost == BOTH_WAYS && apart)
                all = set_way(i, k, lost) && all;
        }
    return all;
}

typedef struct cutter {
    const partition *plan;
    course course;
} cutter;

static void *cut(void *arg)
{
    const cutter *cuts = arg;
    job_sleep_ms(cuts->course.begins_ms);
    if (!set_ways(cuts->plan, &cuts->course, true))
        job_fail(__FILE__, __LINE__, "a way cannot be lost: %s", cables_why());
    job_sleep_ms(cuts->course.lasts_ms);
    if (cuts->course.lasts_ms && !set_ways(cuts->plan, &cuts->course, false))
        job_fail(__FILE__, __LINE__, "a way cannot be found again: %s", cables_why());
    return NULL;
}

/* ---- the ranks ---- */

static void witness_path(pid_t parent, const char *suffix, char path[64])
{
    snprintf(path, 64, "/tmp/weft-partitions-%d%s", (int)parent, suffix);
}

static void join(job_rank *me, const partition *plan)
{
    char path[64], setting[80], ms[16];
    cables_enter_job(me, host_of(plan, me->rank));
    snprintf(ms, sizeof ms, "%d", RECONNECT_MS);
    witness_path(getppid(), "", path);
    snprintf(setting, sizeof setting, "file:%s", path);
    job_setenv(me, "WEFT_RECONNECT_MS", ms);
    if (plan->quorum) job_setenv(me, "WEFT_QUORUM", plan->quorum);
    if (plan->quorum) job_setenv(me, "WEFT_WITNESS", setting);
    job_join(me);
    job_acquaint(me);
}

/* A half whose witness has not answered within a shrink, as its disk is slow, asks once more: it has the answer then. */
static weft_status go_on(job_rank *me, const partition *plan, char *text, size_t bytes)
{
    weft_status status;
    int tries = 0;
    do status = survival_go_on(me, job_now_ns() + CALM_MS * INT64_C(1000000), text, bytes);
    while (status == WEFT_ERR_PEER && plan->quorum && strstr(text, "and not the witness") && ++tries < TRIES);
    return status;
}

static void parted(job_rank *me)
{
    const partition *plan = me->arg;
    cutter cuts = {.plan = plan, .course = draw(plan)};
    int64_t *told = job_results(me, me->rank);
    char text[1024] = "";
    pthread_t thread = pthread_self();
    join(me, plan);
    job_meet(me);
    if (!me->rank) CHECK(!pthread_create(&thread, NULL, cut, &cuts));
    told[SURVIVAL_STATUS] = go_on(me, plan, text, sizeof text);
    job_meet(me);
    survival_check_groups(me);
    if (!cuts.course.lasts_ms)
        (plan->quorum ? survival_check_halves : survival_check_parts)(me, &cuts.course.ranks, text);
    if (!me->rank) pthread_join(thread, NULL);
    job_meet(me);
    if (!me->rank && !cuts.course.lasts_ms) CHECK(set_ways(plan, &cuts.course, false));
    job_meet(me);
    job_leave(me);
}

/* What a job leaves that could not end its witness. */
static void remove_witness(void)
{
    char path[64];
    glob_t found = {0};
    witness_path(getpid(), "*", path);
    for (size_t i = 0; !glob(path, 0, NULL, &found) && i < found.gl_pathc; i++) unlink(found.gl_pathv[i]);
    globfree(&found);
}

static int number_of(const char *name, int otherwise)
{
    const char *text = getenv(name);
    return text ? (int)strtol(text, NULL, 10) : otherwise;
}

static void play(void **state)
{
    partition plan = *(const partition *)*state;
    const int first = number_of("PARTITIONS_SEED", 1), runs = number_of("PARTITIONS_RUNS", 1);
    CABLES_OR_SKIP();
    for (int i = 0; i < runs; i++) {
        plan.seed = (uint64_t)first + (uint64_t)i;
        assert_true(cables_restore());
        job_run(&(job_plan){.ranks = hosts_of(&plan) * plan.ranks_on_each,
                            .body = parted,
                            .bare = true,
                            .processes = true,
                            .limit_ms = 2 * SURVIVAL_END_MS,
                            .arg = &plan});
        remove_witness();
    }
    print_message("             %d runs, from seed %d\n", runs, first);
}

#define CASE(sentence, ...)                      \
    {                                            \
        sentence, play, NULL, NULL, &(partition) \
        {                                        \
            __VA_ARGS__                          \
        }                                        \
    }

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        CASE("two hosts lose three", .parts = "23", .ranks_on_each = 1),
        CASE("one host loses four", .parts = "14", .ranks_on_each = 1),
        CASE("two, two and one", .parts = "221", .ranks_on_each = 1),
        CASE("three hosts do not hear two, which hear them", .parts = "23", .ranks_on_each = 1,
             .lost = ONE_WAY),
        CASE("two hosts do not hear three, which hear them", .parts = "32", .ranks_on_each = 1,
             .lost = ONE_WAY),
        CASE("four hosts do not hear one, which hears them", .parts = "14", .ranks_on_each = 1,
             .lost = ONE_WAY),
        CASE("one host does not hear four, which hear it", .parts = "41", .ranks_on_each = 1,
             .lost = ONE_WAY),
        CASE("of two hosts with two ranks each one is cut off", .parts = "11", .ranks_on_each = 2,
             .lost = CABLE),
        CASE("of two hosts one is cut off, with a witness", .parts = "11", .ranks_on_each = 2, .lost = CABLE,
             .quorum = "witness"),
    };
    return CABLES_MAIN(HOSTS, tests, argc, argv);
}
