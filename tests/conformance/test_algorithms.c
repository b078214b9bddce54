/* test_algorithms.c - WEFT_ALGORITHM: every algorithm of every operation gives what weft.h says, in groups of
 * several sizes; one that cannot serve leaves the choice as it is; of a group's ranks the lowest decides.  Schedules in
 * blocks, as of many ranks. */
#include "collective.h"
#include "cutting.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 5, ALGORITHMS_MOST = 6, LIST_BYTES = 512 };
/* Elements of a block, of which copying two takes more than one pass (runtime/host/host_schedule.c). */
enum { LONG_COUNT = 70001 };

/* What may be asked for.  By rounds needs shared memory. */
static const struct algorithms {
    const char *rounds, *messages[ALGORITHMS_MOST];
} algorithms[COLLECTIVE_KINDS] = {
    [BROADCAST] = {"all_read", {"binomial_tree", "scatter_doubling", "scatter_ring", "chain"}},
    [REDUCE] = {"all_read", {"binomial_tree", "halving_gather", "ring_gather", "direct", "shares_gather"}},
    [ALL_REDUCE] = {"all_read",
                    {"recursive_doubling", "recursive_halving", "lanes", "ring", "direct", "shares"}},
    [REDUCE_SCATTER] = {"all_read", {"recursive_halving", "direct", "lanes", "ring"}},
    [ALL_GATHER] = {"all_read", {"bruck", "recursive_doubling", "lanes", "ring", "pairwise"}},
    [GATHER] = {"all_read", {"binomial_tree", "direct"}},
    [SCATTER] = {"all_read", {"binomial_tree", "direct"}},
    [ALL_TO_ALL] = {"all_read", {"bruck", "pairwise"}},
    [ALL_GATHER_V] = {NULL, {"pairwise", "lanes", "ring"}},
    [GATHER_V] = {NULL, {"direct"}},
    [SCATTER_V] = {NULL, {"direct"}},
    [REDUCE_SCATTER_V] = {NULL, {"direct", "lanes", "ring"}},
    [ALL_TO_ALL_V] = {NULL, {"pairwise"}},
    [BARRIER] = {"all_read", {"dissemination"}},
};

/* A job asks for one algorithm of each operation. */
typedef struct request {
    const char *names[COLLECTIVE_KINDS]; /* NULL: none */
    bool rounds;
} request;

static bool on_shm(void)
{
    const char *transport = getenv("WEFT_TRANSPORT");
    return transport && !strcmp(transport, "shm");
}

static void set_list(const request *r)
{
    char list[LIST_BYTES] = "";
    for (int kind = 0; kind < COLLECTIVE_KINDS; kind++) {
        size_t n = strlen(list);
        if (r->names[kind])
            snprintf(list + n, sizeof list - n, "%s%s:%s", n ? "," : "",
                     collective_name((collective_kind)kind), r->names[kind]);
    }
    setenv("WEFT_ALGORITHM", list, 1);
}

/* Runs it, checked against the oracle, and says what it went by. */
static void run(weft_group *group, const collective *what, char algorithm[32])
{
    running r;
    collective_start(&r, group, what);
    WAIT_STATUS(WEFT_OK, r.req);
    snprintf(algorithm, 32, "%s", job_info(r.req).algorithm);
    collective_finish(&r);
}

static void run_kind(weft_group *group, collective_kind kind, const request *r, uint64_t *seed)
{
    static const size_t counts[] = {67, 20011, LONG_COUNT, 0};
    int size = weft_group_size(group);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        for (int in_place = 0; in_place < 2; in_place++) {
            char algorithm[32];
            collective what = {.kind = kind,
                               .dtype = *seed % 2 ? WEFT_INT32 : WEFT_FLOAT32,
                               .op = WEFT_SUM,
                               .count = counts[i],
                               .root = (int)(*seed % (uint64_t)size),
                               .in_place = in_place,
                               .seed = ++*seed};
            if (kind == BARRIER && (i || in_place)) continue;
            if (counts[i] == LONG_COUNT ? kind != ALL_TO_ALL || size != 4 : counts[i] > 67 && size > 3)
                continue;
            if (counts[i] > 67 && in_place) continue;
            run(group, &what, algorithm);
            if (size == 1)
                CHECK_TEXT(algorithm, "local");
            else if (r->names[kind] && (!r->rounds || (on_shm() && counts[i])))
                CHECK_TEXT(algorithm, r->names[kind]);
            else /* a wish that cannot be met, or for no data at all: something that exists */
                CHECK(*algorithm);
        }
    }
}

static void every_kind(job_rank *me)
{
    const request *r = me->arg;
    static const int sizes[] = {RANKS, 2, 3, 4, 1};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint64_t seed = 100 * i;
        weft_group *group = sizes[i] == RANKS     ? me->world
                            : me->rank < sizes[i] ? job_group(me, sizes[i], "fewer", 0)
                                                  : NULL;
        for (int kind = 0; group && kind < COLLECTIVE_KINDS; kind++)
            run_kind(group, (collective_kind)kind, r, &seed);
    }
}

static void run_job(const request *r)
{
    const job_plan plan = {.ranks = RANKS, .body = every_kind, .arg = r};
    set_list(r);
    job_run(&plan);
    unsetenv("WEFT_ALGORITHM");
}

/* The first, second, ... algorithm by messages of each operation. */
static void test_messages(void **state)
{
    (void)state;
    for (int i = 0; i < ALGORITHMS_MOST; i++) {
        request r = {{NULL}, false};
        bool any = false;
        for (int kind = 0; kind < COLLECTIVE_KINDS; kind++) {
            r.names[kind] = algorithms[kind].messages[i];
            any = any || r.names[kind];
        }
        if (any) run_job(&r);
    }
}

static void test_rounds(void **state)
{
    request r = {{NULL}, true};
    (void)state;
    for (int kind = 0; kind < COLLECTIVE_KINDS; kind++) r.names[kind] = algorithms[kind].rounds;
    run_job(&r);
    r.names[ALL_REDUCE] = "slice_owner";
    run_job(&r);
}

/* ---- in blocks ---- */

enum { AT_ONCE = 3, LONG_BLOCK = 30011 };

/* Several at once, of which each has a schedule of its own. */
static void run_at_once(weft_group *group, const collective *what, const char *algorithm)
{
    running r[AT_ONCE];
    for (int i = 0; i < AT_ONCE; i++) collective_start(&r[i], group, what);
    for (int i = 0; i < AT_ONCE; i++) {
        WAIT_STATUS(WEFT_OK, r[i].req);
        CHECK_TEXT(job_info(r[i].req).algorithm, algorithm);
        collective_finish(&r[i]);
    }
}

static void kinds_in_blocks(weft_group *group, const request *r)
{
    static const size_t counts[] = {67, LONG_BLOCK};
    for (int kind = 0; kind < COLLECTIVE_KINDS; kind++)
        for (size_t i = 0; r->names[kind] && i < sizeof counts / sizeof *counts; i++)
            for (int in_place = 0; in_place < 2; in_place++) {
                uint64_t seed = (uint64_t)kind * 4 + 2 * i + (uint64_t)in_place;
                const collective what = {.kind = (collective_kind)kind,
                                         .dtype = seed % 3 ? WEFT_INT32 : WEFT_FLOAT32,
                                         .op = WEFT_SUM,
                                         .count =
                                             counts[i] * (kind == ALL_REDUCE || kind == REDUCE ? RANKS : 1),
                                         .root = (int)(seed % RANKS),
                                         .in_place = in_place,
                                         .seed = seed};
                run_at_once(group, &what, r->names[kind]);
            }
}

/* Rank 1's schedules are whole.  At last one never comes, and what is under way in blocks is taken back. */
static void in_blocks(job_rank *me)
{
    enum { COUNT = RANKS * LONG_BLOCK };
    const weft_call call = {.timeout_ms = JOB_SHORT_MS};
    weft_group *group = job_group(me, RANKS, "in blocks", 0);
    float *sum = calloc(COUNT, sizeof *sum);
    CHECK(sum);
    if (me->rank != 1) cutting_set(group, 2 + me->rank % 2);
    kinds_in_blocks(group, me->arg);
    job_meet(me);
    if (me->rank != RANKS - 1)
        CHECK_STATUS(WEFT_ERR_TIMEOUT,
                     weft_all_reduce(group, sum, sum, COUNT, WEFT_FLOAT32, WEFT_SUM, &call, NULL));
    job_sum_works(me->world);
    free(sum);
}

static void test_blocks(void **state)
{
    request rings = {{[ALL_REDUCE] = "ring",
                      [REDUCE] = "ring_gather",
                      [REDUCE_SCATTER] = "ring",
                      [ALL_GATHER] = "ring",
                      [GATHER] = "direct",
                      [SCATTER] = "direct",
                      [ALL_GATHER_V] = "ring",
                      [GATHER_V] = "direct",
                      [SCATTER_V] = "direct",
                      [REDUCE_SCATTER_V] = "ring"},
                     false},
            pairs = {{[ALL_REDUCE] = "ring",
                      [ALL_GATHER] = "pairwise",
                      [ALL_TO_ALL] = "pairwise",
                      [ALL_GATHER_V] = "pairwise",
                      [ALL_TO_ALL_V] = "pairwise"},
                     false};
    const job_plan ring_plan = {.ranks = RANKS, .body = in_blocks, .arg = &rings},
                   pair_plan = {.ranks = RANKS, .body = in_blocks, .arg = &pairs};
    (void)state;
    set_list(&rings);
    job_run(&ring_plan);
    set_list(&pairs);
    job_run(&pair_plan);
    unsetenv("WEFT_ALGORITHM");
}

/* ---- ranks that want different things ---- */

static pthread_mutex_t lines_lock = PTHREAD_MUTEX_INITIALIZER;
static int lines;
static char last_line[1024];

static void note_line(int level, const char *line, void *arg)
{
    (void)level;
    (void)arg;
    if (!strstr(line, "WEFT_ALGORITHM")) return;
    pthread_mutex_lock(&lines_lock);
    lines++;
    snprintf(last_line, sizeof last_line, "%s", line);
    pthread_mutex_unlock(&lines_lock);
}

static void expect(weft_group *group, collective_kind kind, const char *algorithm)
{
    char ran[32];
    const collective what = {.kind = kind, .dtype = WEFT_FLOAT32, .op = WEFT_SUM, .count = 77, .seed = 3};
    run(group, &what, ran);
    CHECK_TEXT(ran, algorithm);
}

static const char *const wishes[] = {"broadcast:chain,all_reduce:ring", "all_reduce:recursive_doubling",
                                     "all_gather:bruck", ""};

static void different(job_rank *me)
{
    const int upper[] = {2, 1}; /* ranks of the world: the lowest is not rank 0 of the group */
    weft_group *split = NULL, *pair = NULL;
    weft_mesh *mesh = NULL;
    job_setenv(me, "WEFT_ALGORITHM", wishes[me->rank]);
    weft_set_log(note_line, NULL);
    job_join(me);
    expect(me->world, ALL_REDUCE, "ring");
    expect(me->world, BROADCAST, "chain");
    if (me->rank > 0) {
        CHECK_TEXT(last_line, "goes by that of its lowest rank 0");
        CHECK_TEXT(last_line, wishes[0]);
        CHECK_TEXT(last_line, wishes[me->rank]);
    }
    CHECK_OK(weft_split_group(me->world, me->rank > 0, -me->rank, NULL, &split, NULL));
    expect(split, ALL_REDUCE, me->rank ? "recursive_doubling" : "local");
    if (me->rank == 1 || me->rank == 2) {
        CHECK_OK(weft_new_group(me->world, upper, 2, NULL, &pair, NULL));
        expect(pair, ALL_REDUCE, "recursive_doubling");
        CHECK_OK(weft_group_free(pair));
    }
    CHECK_OK(weft_mesh_create(me->world, "a=2,b=2", NULL, &mesh, NULL));
    expect(weft_mesh_group(mesh, "a"), ALL_REDUCE, me->rank % 2 ? "recursive_doubling" : "ring");
    if (me->rank < 2) expect(weft_mesh_group(mesh, "b"), BROADCAST, "chain");
    if (me->rank >= 2) expect(weft_mesh_group(mesh, "b"), ALL_GATHER, "bruck");
    CHECK_INT(lines, me->rank > 0); /* once, whatever else it is a member of */
    CHECK_OK(weft_mesh_free(mesh));
    CHECK_OK(weft_group_free(split));
    job_leave(me);
}

/* The survivors' lowest rank decides. */
static void after_a_death(job_rank *me)
{
    weft_group *rest = NULL;
    job_setenv(me, "WEFT_ALGORITHM", wishes[me->rank]);
    weft_set_log(note_line, NULL);
    job_join(me);
    expect(me->world, ALL_REDUCE, "ring");
    job_meet(me);
    if (me->rank == 0) job_kill(me, 0);
    CHECK_OK(weft_shrink_group(me->world, NULL, &rest, NULL));
    CHECK_INT(weft_group_size(rest), me->size - 1);
    expect(rest, ALL_REDUCE, "recursive_doubling");
    job_leave(me);
}

static void refused(job_rank *me)
{
    weft_context *ctx = NULL;
    weft_config config = {.rank = me->rank, .world_size = me->size};
    job_setenv(me, "WEFT_ALGORITHM", "broadcast:chain,all_reduce:rings");
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_init(&config, &ctx));
    CHECK_TEXT(weft_last_error(), "WEFT_ALGORITHM is \"broadcast:chain,all_reduce:rings\"");
    CHECK_TEXT(weft_last_error(), "all_reduce has no algorithm \"rings\"; it has all_read, slice_owner, ");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_rounds),
        cmocka_unit_test(test_blocks),
        JOB_TEST("different", .ranks = 4, .body = different, .bare = true, .processes = true),
        JOB_TEST("after a death", .ranks = 4, .body = after_a_death, .bare = true, .processes = true,
                 .killed = 1),
        JOB_TEST("refused", .ranks = 1, .body = refused, .bare = true, .processes = true),
    };
    return JOB_MAIN(tests, argc, argv);
}
