/* test_parted.c - who goes on where ranks lose each other, or a host is lost: all who get a group have the same one, at most
 * one part goes on, and a rank that does not is told why.
 *
 * PARTED_SEED=N plays other partitions, moments and ends of them. */
#include "job.h"
#include "parting.h"
#include "survival.h"

#include <fcntl.h>
#include <glob.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    RANKS = 5,
    RECONNECT_MS = 200 * JOB_SLOWER,
    PARTED_MS = 1500 * JOB_SLOWER /* by then connections that are not mended are given up everywhere */
};
enum { LISTENERS = SURVIVAL_RESULTS, PORTS, PORTS_MOST = 8 }; /* results of each rank */
_Static_assert(PORTS + PORTS_MOST <= JOB_RESULTS, "results");

/* ---- the witness ---- */

enum { WITNESS_BYTES = 1120 }; /* of a file */

/* One for all tests, so each of them finds that the one before has left nothing. */
static void witness_path(pid_t parent, const char *suffix, char path[64])
{
    snprintf(path, 64, "/tmp/weft-parted-%d%s", (int)parent, suffix);
}

static void set_quorum(job_rank *me, const char *quorum)
{
    char path[64], setting[80];
    witness_path(getppid(), "", path);
    snprintf(setting, sizeof setting, "file:%s", path);
    job_setenv(me, "WEFT_QUORUM", quorum);
    if (quorum && !strcmp(quorum, "witness")) job_setenv(me, "WEFT_WITNESS", setting);
}

/* All files that belong to it; returns how many there are. */
static size_t witness_files(glob_t *found)
{
    char path[64];
    witness_path(getpid(), "*", path);
    return glob(path, 0, NULL, found) ? 0 : found->gl_pathc;
}

static void nothing_is_left(void **state)
{
    glob_t found = {0};
    (void)state;
    assert_int_equal(witness_files(&found), 0);
    globfree(&found);
}

/* By which a job that could not end its witness leaves it. */
static int remove_witness(void **state)
{
    glob_t found = {0};
    size_t n = witness_files(&found);
    (void)state;
    for (size_t i = 0; i < n; i++) unlink(found.gl_pathv[i]);
    globfree(&found);
    return 0;
}

static void meet_all(job_rank *me)
{
    for (int i = 0; i < me->size; i++)
        for (int k = 0; k < i; k++)
            if (me->rank == i || me->rank == k) job_message_works(me->world, k, i, 0);
    job_meet(me);
}

/* ---- partitions ---- */

typedef struct shape {
    const char *parts; /* how many ranks each has; NULL: pairs lose each other by chance */
    uint64_t seed;
    const char *quorum;
} shape;

typedef struct parting {
    job_rank *rank;
    survival_parts parts;
    bool lost[RANKS][RANKS];
    int64_t begins_ms, ends_ms; /* ends_ms 0: it does not */
    atomic_bool over;
} parting;

/* On all ranks alike. */
static void draw(const shape *plan, parting *p)
{
    const char *given = getenv("PARTED_SEED");
    uint64_t words = plan->seed + (given ? strtoull(given, NULL, 10) * 1000 : 0);
    p->parts = survival_draw(plan->parts, p->rank->size, &words);
    for (int i = 0; i < p->rank->size; i++)
        for (int k = 0; k < i; k++)
            p->lost[i][k] = p->lost[k][i] =
                plan->parts ? p->parts.of[i] != p->parts.of[k] : job_random(&words) % 3 == 0;
    p->begins_ms = (int64_t)(job_random(&words) % 60);
    p->ends_ms = job_random(&words) % 2 ? 1 + (int64_t)(job_random(&words) % PARTED_MS) : 0;
}

static void *part(void *arg)
{
    parting *p = arg;
    job_rank *me = p->rank;
    int64_t from = job_now_ns(), now;
    bool begun = false;
    while (!atomic_load(&p->over)) {
        now = (job_now_ns() - from) / 1000000;
        if (p->ends_ms && now >= p->begins_ms + p->ends_ms) break;
        if (!begun && now >= p->begins_ms) {
            begun = true;
            for (int i = 0; i < me->size; i++)
                if (p->lost[me->rank][i])
                    parting_begin(job_results(me, i) + PORTS, (int)job_results(me, i)[LISTENERS]);
        }
        if (begun) parting_again();
        job_sleep_ms(1);
    }
    if (p->ends_ms) parting_end();
    return NULL;
}

static void parted(job_rank *me)
{
    const shape *plan = me->arg;
    parting p = {.rank = me};
    int64_t *told = job_results(me, me->rank);
    char text[1024] = "", ms[16];
    pthread_t cutter;
    snprintf(ms, sizeof ms, "%d", RECONNECT_MS);
    set_quorum(me, plan->quorum);
    job_setenv(me, "WEFT_RECONNECT_MS", ms);
    job_setenv(me, "WEFT_TRANSPORT", "tcp");
    job_join(me);
    meet_all(me);
    draw(plan, &p);
    told[LISTENERS] = parting_listeners(told + PORTS, PORTS_MOST);
    job_meet(me);
    CHECK(!pthread_create(&cutter, NULL, part, &p));
    told[SURVIVAL_STATUS] =
        survival_go_on(me, job_now_ns() + PARTED_MS * INT64_C(1000000), text, sizeof text);
    job_meet(me);
    survival_check_groups(me);
    if (plan->parts && !p.ends_ms)
        (plan->quorum ? survival_check_halves : survival_check_parts)(me, &p.parts, text);
    job_meet(me);
    atomic_store(&p.over, true);
    pthread_join(cutter, NULL);
    parting_end();
    job_leave(me);
}

/* ---- a rank that is late ---- */

enum { LATE_RANK = 3, DYING_RANK = 4 };
enum { STANDING, HEARD, SHRUNK }; /* marks */

/* It is stopped while the others go on without the dead one, and in the job all the while. */
static weft_group *stand_still(job_rank *me)
{
    job_mark(me, STANDING);
    job_await(me, SHRUNK, me->size - 2);
    return me->world;
}

static weft_group *go_on_without(job_rank *me, weft_group *group)
{
    weft_group *survivors = NULL;
    char text[1024];
    int64_t from;
    job_await(me, STANDING, 1);
    if (me->rank == 0) job_stop(me, LATE_RANK);
    if (me->rank == 0) job_kill(me, DYING_RANK);
    CHECK_STATUS(WEFT_ERR_PEER, job_await_break(group, JOB_WAIT_MS)); /* rank 0 may be late with it */
    job_mark(me, HEARD);
    job_await(me, HEARD, me->size - 2); /* none of these holds it up */
    from = job_now_ns();
    CHECK_INT(survival_shrink(group, &survivors, text, sizeof text), WEFT_OK);
    CHECK_PERIOD(from, job_now_ns(), 0, JOB_LATE_MS);
    CHECK_INT(survival_members(survivors), 7);
    job_sum_works(survivors);
    job_mark(me, SHRUNK);
    if (me->rank == 0) job_await(me, SHRUNK, me->size - 2);
    if (me->rank == 0) CHECK_INT(kill(job_pid(me, LATE_RANK), SIGCONT), 0);
    return me->world;
}

static void with_a_late_one(job_rank *me)
{
    static const int others[] = {0, 1, 2, DYING_RANK};
    char host[] = {(char)('a' + me->rank), 0}, text[1024];
    weft_group *group = NULL, *survivors = NULL;
    job_setenv(me, "WEFT_TRANSPORT", "tcp");
    job_setenv(me, "WEFT_HOSTID", host);
    job_join(me);
    meet_all(me);
    if (me->rank != LATE_RANK) CHECK_OK(weft_new_group(me->world, others, 4, NULL, &group, NULL));
    job_meet(me);
    if (me->rank == DYING_RANK) job_sleep_ms(JOB_WAIT_MS);
    group = me->rank == LATE_RANK ? stand_still(me) : go_on_without(me, group);
    CHECK_STATUS(WEFT_ERR_PEER, job_await_break(group, JOB_WAIT_MS));
    CHECK_INT(survival_shrink(group, &survivors, text, sizeof text), WEFT_OK);
    CHECK_INT(survival_members(survivors), 15);
    job_sum_works(survivors);
    job_leave(me);
}

/* ---- hosts that are lost ---- */

typedef enum spoiling { SPOILED_NOT, REMOVED, DAMAGED, HANGS } spoiling; /* the witness, before the loss */

typedef struct loss {
    const char *transport, *hosts[4];
    unsigned dying;
    bool goes_on;
    const char *quorum;
    spoiling spoiled;
} loss;

/* By the last rank, which is alone then, so that it asks itself.  What hangs is a pipe that nobody writes to, which whoever opens it waits for. */
static const char *spoil(spoiling how)
{
    static const char *const told[] = {"WEFT_QUORUM=witness", "cannot be opened: No such file", "is damaged",
                                       "and not the witness: WEFT_WITNESS=file:/tmp/weft-parted"};
    char pattern[64];
    const char *path;
    glob_t found = {0};
    int fd;
    witness_path(getppid(), ".????????????????.0", pattern);
    CHECK_INT(glob(pattern, 0, NULL, &found), 0);
    CHECK_INT(found.gl_pathc, 1);
    path = found.gl_pathv[0];
    fd = open(path, O_RDWR);
    if (how == DAMAGED) CHECK_INT(pwrite(fd, "!", 1, 100), 1);
    if (how != DAMAGED) CHECK_INT(unlink(path), 0);
    if (how == HANGS) CHECK_INT(mkfifo(path, 0600), 0);
    close(fd);
    globfree(&found);
    return told[how];
}

/* Who lives goes on, or is told why it does not. */
static void after_a_loss(job_rank *me)
{
    const loss *plan = me->arg;
    weft_group *survivors = NULL;
    char text[1024];
    const char *why = "";
    weft_status status;
    set_quorum(me, plan->quorum);
    job_setenv(me, "WEFT_TRANSPORT", plan->transport);
    if (plan->hosts[me->rank]) job_setenv(me, "WEFT_HOSTID", plan->hosts[me->rank]);
    job_join(me);
    meet_all(me);
    if (plan->spoiled && me->rank == me->size - 1) why = spoil(plan->spoiled);
    job_meet(me);
    if (plan->dying >> me->rank & 1U) raise(SIGKILL);
    CHECK_STATUS(WEFT_ERR_PEER, job_await_break(me->world, JOB_WAIT_MS)); /* who dies may be late with it */
    status = survival_shrink(me->world, &survivors, text, sizeof text);
    if (plan->goes_on) {
        CHECK_INT(status, WEFT_OK);
        CHECK_INT(survival_members(survivors), ((1U << me->size) - 1) & ~plan->dying);
        job_sum_works(survivors);
    } else {
        CHECK_INT(status, WEFT_ERR_PEER);
        CHECK_TEXT(text, why);
        CHECK_TEXT(text, plan->quorum ? "(WEFT_QUORUM=witness)" : "(WEFT_QUORUM=majority)");
    }
    job_leave(me);
}

/* Without weft_finalize, all of them. */
static void exit_all(job_rank *me)
{
    set_quorum(me, "witness");
    job_join(me);
    meet_all(me);
    exit(0);
}

static void refusals(job_rank *me)
{
    char url[64];
    weft_config config = job_config(me, url, 0);
    weft_context *ctx = NULL;
    job_setenv(me, "WEFT_QUORUM", "nobody");
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_init(&config, &ctx));
    CHECK_TEXT(weft_last_error(), "expected majority, witness or any");
}

/* It is said by all as they join, and nobody is in. */
static void without_a_witness(job_rank *me)
{
    const char *setting = me->arg;
    char url[64];
    weft_config config = job_config(me, url, 0);
    weft_context *ctx = NULL;
    weft_status status;
    job_setenv(me, "WEFT_QUORUM", "witness");
    job_setenv(me, "WEFT_WITNESS", setting);
    status = weft_init(&config, &ctx);
    CHECK(status == WEFT_ERR_SYSTEM || status == WEFT_ERR_ARGUMENT);
    CHECK_TEXT(weft_last_error(), "WEFT_WITNESS");
}

/* What a run before has left, which did not end well, stays and is in nobody's way. */
static void with_anothers(job_rank *me)
{
    static const char *const left[] = {"", ".ffffffffffffffff.0", ".ffffffffffffffff.7"};
    char path[64];
    set_quorum(me, "witness");
    for (int i = 0; me->rank == 0 && i < (int)(sizeof left / sizeof *left); i++) {
        FILE *file;
        witness_path(getppid(), left[i], path);
        file = fopen(path, "w");
        CHECK(file && fputs("weft witness 1\n", file) >= 0 && !ftruncate(fileno(file), WITNESS_BYTES) &&
              !fclose(file));
    }
    job_meet(me);
    job_join(me);
    job_sum_works(me->world);
    job_leave(me);
    job_meet(me);
    for (int i = 0; i < (int)(sizeof left / sizeof *left); i++) {
        witness_path(getppid(), left[i], path);
        CHECK_INT(access(path, F_OK), 0);
    }
}

#define PARTED_BY(sentence, size, sizes, begin, by)                                    \
    JOB_TEST(sentence, .ranks = size, .body = parted, .bare = true, .processes = true, \
             .limit_ms = 2 * SURVIVAL_END_MS,                                          \
             .arg = &(shape){.parts = (sizes), .seed = (begin), .quorum = (by)})
#define PARTED(sentence, sizes, begin) PARTED_BY(sentence, RANKS, sizes, begin, NULL)
#define LOSS(sentence, size, ...)                                                            \
    JOB_TEST(sentence, .ranks = size, .body = after_a_loss, .bare = true, .processes = true, \
             .arg = &(loss){__VA_ARGS__}, .killed = ((loss){__VA_ARGS__}).dying)
/* What such a job leaves goes behind it. */
#define SPOILED(sentence, size, ...)                                                \
    {                                                                               \
        sentence, job_test, NULL, remove_witness, &(job_plan)                       \
        {                                                                           \
            .ranks = (size), .body = after_a_loss, .bare = true, .processes = true, \
            .arg = &(loss){__VA_ARGS__}, .killed = ((loss){__VA_ARGS__}).dying      \
        }                                                                           \
    }
#define REFUSED(sentence, does, text)                                                  \
    {                                                                                  \
        sentence, job_test, NULL, remove_witness, &(job_plan)                          \
        {                                                                              \
            .ranks = 3, .body = (does), .bare = true, .processes = true, .arg = (text) \
        }                                                                              \
    }

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        PARTED("two lose three", "23", 1),
        PARTED("one loses four", "14", 2),
        PARTED("two, two and one", "221", 3),
        PARTED("some lose each other", NULL, 4),
        JOB_TEST("a rank that is stopped, outside of the group, holds no shrink up", .ranks = 5,
                 .body = with_a_late_one, .bare = true, .processes = true, .killed = 1U << DYING_RANK),
        LOSS("of two hosts that of rank 0 is lost", 4, .transport = "shm,tcp", .hosts = {"a", "a", "b", "b"},
             .dying = 3, .goes_on = false),
        LOSS("of two hosts that of rank 0 is lost, and any goes on", 4, .transport = "shm,tcp",
             .hosts = {"a", "a", "b", "b"}, .dying = 3, .goes_on = true, .quorum = "any"),
        LOSS("of two hosts the other one is lost", 4, .transport = "shm,tcp", .hosts = {"a", "a", "b", "b"},
             .dying = 12, .goes_on = true),
        LOSS("of two ranks on two hosts 0 is lost", 2, .transport = "tcp", .hosts = {"a", "b"}, .dying = 1,
             .goes_on = false),
        LOSS("of two ranks on two hosts 1 is lost", 2, .transport = "tcp", .hosts = {"a", "b"}, .dying = 2,
             .goes_on = true),
        LOSS("on one host one is left", 4, .transport = "shm", .dying = 7, .goes_on = true),
        LOSS("on one host one is left over TCP", 4, .transport = "tcp", .dying = 7, .goes_on = true),
        PARTED_BY("two lose two, with a witness", 4, "22", 7, "witness"),
        PARTED_BY("two lose two and find them again, with a witness", 4, "22", 9, "witness"),
        PARTED_BY("some lose each other, with a witness", 4, NULL, 11, "witness"),
        LOSS("of two hosts that of rank 0 is lost, with a witness", 4, .transport = "shm,tcp",
             .hosts = {"a", "a", "b", "b"}, .dying = 3, .goes_on = true, .quorum = "witness"),
        LOSS("of two hosts the other one is lost, with a witness", 4, .transport = "shm,tcp",
             .hosts = {"a", "a", "b", "b"}, .dying = 12, .goes_on = true, .quorum = "witness"),
        LOSS("of two ranks on two hosts 0 is lost, with a witness", 2, .transport = "tcp",
             .hosts = {"a", "b"}, .dying = 1, .goes_on = true, .quorum = "witness"),
        LOSS("of two ranks on two hosts 1 is lost, with a witness", 2, .transport = "tcp",
             .hosts = {"a", "b"}, .dying = 2, .goes_on = true, .quorum = "witness"),
        LOSS("on one host one is left, with a witness", 4, .transport = "tcp", .dying = 7, .goes_on = true,
             .quorum = "witness"),
        JOB_TEST("all exit without having left, with a witness", .ranks = 3, .body = exit_all, .bare = true,
                 .processes = true),
        {"nothing is left of it", nothing_is_left, NULL, NULL, NULL},
        SPOILED("three hosts of four are lost, which is more than a witness makes up for", 4,
                .transport = "tcp", .hosts = {"a", "b", "c", "d"}, .dying = 7, .goes_on = false,
                .quorum = "witness"),
        SPOILED("a host is lost, and a witness that has been removed", 2, .transport = "tcp",
                .hosts = {"a", "b"}, .dying = 1, .quorum = "witness", .spoiled = REMOVED),
        SPOILED("a host is lost, and a witness that is damaged", 2, .transport = "tcp", .hosts = {"a", "b"},
                .dying = 1, .quorum = "witness", .spoiled = DAMAGED),
        SPOILED("a host is lost, and a witness whose disk does not answer", 2, .transport = "tcp",
                .hosts = {"a", "b"}, .dying = 1, .quorum = "witness", .spoiled = HANGS),
        REFUSED("a witness that is not said where", without_a_witness, ""),
        REFUSED("a witness in a folder that there is not", without_a_witness,
                "file:/tmp/there is none/witness"),
        REFUSED("what another run has left of its witness refuses nobody", with_anothers, NULL),
        JOB_TEST("what is refused", .ranks = 1, .body = refusals, .bare = true, .processes = true),
    };
    return JOB_MAIN(tests, argc, argv);
}
