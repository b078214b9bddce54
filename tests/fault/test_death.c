/* test_death.c - kill -9 of one of four: what needs it ends soon and names it, the rest goes on.  DEATH_ROUNDS=n kills one n
 * times amid an all_reduce of the others, and tells how long that took to end. */
#include "job.h"

#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    RANKS = 4,
    VICTIM = 3,
    ALIVE = 3,
    KILLED_AT = 0,
    SETTLED_AT = 1,
    ROUNDS_MOST = 1000,
    UNDER_WAY_MS = 50
};
/* By then all know of an exec: at once, or where they have no segment by the end of a connection, which proves nothing to those
 * that only hear of it.  In one round of a few: what else the machine does makes ranks late, and never early. */
enum { EXEC_MS = 100 * JOB_SLOWER, EXEC_TCP_MS = 500 * JOB_SLOWER, EXEC_ROUNDS = 5 };

static double *took_ms; /* of the round, in memory that the ranks share with their parent */

static double *share_took(void)
{
    double *took = mmap(NULL, sizeof *took, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(took, MAP_FAILED);
    return took;
}

/* By each of those that live, when it knows of the end; behind it they all have come. */
static void note_settled(job_rank *me, int culprit, int living, int64_t settled_ns)
{
    int64_t last = 0;
    job_results(me, me->rank)[SETTLED_AT] = settled_ns;
    job_mark(me, 2);
    job_await(me, 2, living);
    for (int r = 0; r < me->size; r++)
        if (job_results(me, r)[SETTLED_AT] > last) last = job_results(me, r)[SETTLED_AT];
    if (took_ms) *took_ms = (double)(last - job_results(me, culprit)[KILLED_AT]) / 1e6;
}

/* The victim stays in here until it is killed; the others kill it once all of them have marked. */
static void await_death(job_rank *me)
{
    if (me->rank == VICTIM) {
        job_sleep_ms(JOB_LIMIT_MS);
        return;
    }
    job_mark(me, 0);
    if (me->rank == 0) {
        job_await(me, 0, ALIVE);
        job_results(me, VICTIM)[KILLED_AT] = job_now_ns();
        job_kill(me, VICTIM);
        job_mark(me, 1);
    }
    job_await(me, 1, 1);
}

static void check_names_the_dead(job_rank *me, const char *message)
{
    char pid[32];
    snprintf(pid, sizeof pid, "%d", (int)job_pid(me, VICTIM));
    CHECK_NAMES(message, 1U << VICTIM, RANKS);
    CHECK_TEXT(message, pid);
}

static void check_dead(job_rank *me, weft_request *req)
{
    WAIT_STATUS(WEFT_ERR_PEER, req);
    weft_request_info info = job_info(req);
    CHECK_INT(info.peer, VICTIM);
    CHECK_PERIOD(job_results(me, VICTIM)[KILLED_AT], info.settled_ns, 0, JOB_LATE_MS);
    check_names_the_dead(me, weft_request_message(req));
}

/* Whose connections have ended may not have ended itself yet: the group is broken by another rank's word then, before this
 * rank has seen who is dead (weft_group_dead). */
static void check_is_dead(job_rank *me)
{
    int dead[RANKS] = {-1, -1, -1, -1};
    for (int i = 0; i < JOB_LATE_MS && weft_group_dead(me->world, NULL, 0) == 0; i++) job_sleep_ms(1);
    CHECK_INT(weft_group_dead(me->world, dead, RANKS), 1);
    CHECK_INT(dead[0], VICTIM);
    CHECK_INT(weft_group_dead(me->world, NULL, 0), 1);
}

/* What the living can still do, and what not, once the world is broken. */
static void check_afterwards(job_rank *me, weft_group *untouched)
{
    static const int living[] = {0, 1, 2};
    int32_t value = 1;
    weft_group *survivors = NULL;
    CHECK(weft_group_status(me->world) < 0);
    CHECK_STATUS(WEFT_ERR_BROKEN, weft_barrier(me->world, NULL, NULL));
    CHECK(job_names(weft_last_error(), VICTIM));
    check_is_dead(me);
    CHECK_STATUS(WEFT_ERR_PEER, weft_isend(me->world, &value, 1, WEFT_INT32, VICTIM, 0, NULL, NULL));
    CHECK_STATUS(WEFT_ERR_PEER, weft_irecv(me->world, &value, 1, WEFT_INT32, VICTIM, 0, NULL, NULL));
    CHECK_INT(weft_group_dead(untouched, NULL, 0), 0);
    CHECK_OK(weft_group_status(untouched));
    for (int i = 0; i < 3; i++) job_sum_works(untouched);
    job_message_works(me->world, 0, 2, 5); /* among the living, on the broken group */
    job_message_works(me->world, 2, 1, 6);
    CHECK_OK(weft_new_group(me->world, living, ALIVE, NULL, &survivors, NULL));
    for (int i = 0; i < 3; i++) job_sum_works(survivors);
    CHECK_INT(weft_group_rank(survivors), me->rank);
}

static void pending(job_rank *me)
{
    weft_group *untouched = NULL;
    weft_request *reduce = NULL, *barrier = NULL, *receive = NULL;
    int32_t in = 1, out = 0, value = 0;
    if (me->rank != VICTIM) {
        untouched = job_group(me, ALIVE, "untouched", 0);
        CHECK_OK(weft_all_reduce(me->world, &in, &out, 1, WEFT_INT32, WEFT_SUM, NULL, &reduce));
        CHECK_OK(weft_barrier(me->world, NULL, &barrier));
        CHECK_OK(weft_irecv(me->world, &value, 1, WEFT_INT32, VICTIM, 2, NULL, &receive));
    }
    await_death(me);
    check_dead(me, reduce);
    check_dead(me, receive);
    weft_status later = weft_wait(barrier, JOB_WAIT_MS);
    CHECK(later == WEFT_ERR_PEER || later == WEFT_ERR_BROKEN);
    check_afterwards(me, untouched);
    weft_release(reduce);
    weft_release(barrier);
    weft_release(receive);
}

/* Nothing was in flight: the next calls are told. */
static void idle(job_rank *me)
{
    weft_group *untouched = me->rank == VICTIM ? NULL : job_group(me, ALIVE, "untouched", 0);
    job_sum_works(me->world);
    await_death(me);
    CHECK(job_await_break(me->world, JOB_LATE_MS) < 0);
    check_afterwards(me, untouched);
}

static atomic_bool slow_texts;

/* In place of the C library's, for the library too, which keeps by it what it tells of each operation that ends with its group:
 * there is so time to look while a group breaks. */
__attribute__((visibility("default"))) char *strdup(const char *s)
{
    const size_t size = strlen(s) + 1;
    char *copy = malloc(size);
    if (atomic_load(&slow_texts)) job_sleep_ms(10);
    return copy ? memcpy(copy, s, size) : NULL;
}

/* Who sees the world broken finds every other group with the dead in it broken too. */
static void many_groups(job_rank *me)
{
    enum { GROUPS = 8, OPS = 20 };
    weft_group *groups[GROUPS];
    weft_request *reqs[OPS] = {NULL};
    /* A lost connection proves nothing yet of a rank that was never heard from. */
    for (int rank = 0; rank < ALIVE; rank++) job_message_works(me->world, VICTIM, rank, rank);
    for (int i = 0; i < GROUPS; i++) groups[i] = job_group(me, RANKS, "with the victim", 0);
    for (int i = 0; i < OPS && me->rank != VICTIM; i++) /* they make the breaking of the world long */
        CHECK_OK(weft_barrier(me->world, NULL, &reqs[i]));
    atomic_store(&slow_texts, true);
    await_death(me);
    int64_t end = job_now_ns() + JOB_WAIT_MS * INT64_C(1000000);
    while (weft_group_status(me->world) == WEFT_OK && job_now_ns() < end) {
    }
    CHECK_STATUS(WEFT_ERR_PEER, weft_group_status(me->world));
    for (int i = 0; i < GROUPS; i++) {
        CHECK_STATUS(WEFT_ERR_PEER, weft_group_status(groups[i]));
        CHECK_STATUS(WEFT_ERR_BROKEN, weft_barrier(groups[i], NULL, NULL));
    }
    atomic_store(&slow_texts, false);
    for (int i = 0; i < OPS; i++) weft_release(reqs[i]);
}

/* A receive from anyone goes on while there is anyone left who may send. */
static void from_anyone(job_rank *me)
{
    int32_t value = 0;
    weft_request *req = NULL;
    if (me->rank == 0) {
        CHECK_OK(weft_irecv(me->world, &value, 1, WEFT_INT32, WEFT_ANY_RANK, 9, NULL, &req));
    }
    await_death(me);
    CHECK(job_await_break(me->world, JOB_LATE_MS) < 0);
    if (me->rank == 1) {
        value = 41;
        CHECK_OK(weft_isend(me->world, &value, 1, WEFT_INT32, 0, 9, NULL, NULL));
    }
    if (me->rank == 0) {
        weft_status status = weft_wait(req, JOB_WAIT_MS); /* it may also be told of the death */
        CHECK(status == WEFT_OK ? value == 41 : status == WEFT_ERR_PEER);
        weft_release(req);
        if (status != WEFT_OK) {
            CHECK_OK(weft_irecv(me->world, &value, 1, WEFT_INT32, 1, 9, NULL, NULL));
        }
    }
}

/* In the middle of a stream of large operations; some are done, one is cut, the rest is refused. */
static void amid_traffic(job_rank *me)
{
    enum { COUNT = 1 << 20 };
    int32_t *buf = job_alloc(me, COUNT * sizeof *buf);
    weft_group *untouched = me->rank == VICTIM ? NULL : job_group(me, ALIVE, "untouched", 0);
    weft_status status = WEFT_OK;
    for (int i = 0; status == WEFT_OK; i++) {
        if (i == 10 && me->rank == 0) {
            job_results(me, VICTIM)[KILLED_AT] = job_now_ns();
            job_kill(me, VICTIM);
        }
        status = weft_all_reduce(me->world, buf, buf, COUNT, WEFT_INT32, WEFT_MAX, NULL, NULL);
    }
    CHECK(status == WEFT_ERR_PEER || status == WEFT_ERR_BROKEN);
    CHECK_PERIOD(job_results(me, VICTIM)[KILLED_AT], job_now_ns(), 0, JOB_LATE_MS);
    CHECK(job_names(weft_last_error(), VICTIM));
    check_afterwards(me, untouched);
}

/* Large messages to and from the dead end too. */
static void amid_messages(job_rank *me)
{
    enum { BYTES = 8 << 20 };
    unsigned char *out = job_alloc(me, BYTES), *in = job_alloc(me, BYTES);
    weft_group *untouched = me->rank == VICTIM ? NULL : job_group(me, ALIVE, "untouched", 0);
    weft_request *send = NULL, *receive = NULL;
    if (me->rank != VICTIM) {
        CHECK_OK(weft_isend(me->world, out, BYTES, WEFT_UINT8, VICTIM, 1, NULL, &send));
        CHECK_OK(weft_irecv(me->world, in, BYTES, WEFT_UINT8, VICTIM, 1, NULL, &receive));
    }
    await_death(me);
    check_dead(me, send);
    check_dead(me, receive);
    CHECK(job_await_break(me->world, JOB_LATE_MS) < 0);
    weft_release(send);
    weft_release(receive);
    check_afterwards(me, untouched);
}

static void ask_for_all(job_rank *me, weft_group **group, weft_request **req)
{
    static const int all[] = {0, 1, 2, 3};
    if (me->rank != VICTIM) CHECK_OK(weft_new_group(me->world, all, RANKS, NULL, group, req));
}

static void check_not_made(job_rank *me, weft_group *group, weft_request *req)
{
    check_dead(me, req);
    weft_release(req);
    CHECK(weft_group_status(group) < 0);
    CHECK_OK(weft_group_free(group));
}

/* A group that the dead should have joined comes to nothing, well before its time. */
static void new_group_with_the_dead(job_rank *me)
{
    weft_group *group = NULL;
    weft_request *req = NULL;
    ask_for_all(me, &group, &req);
    await_death(me);
    check_not_made(me, group, req);
    job_mark(me, 2); /* the lowest member must not leave before all have heard from it */
    job_await(me, 2, ALIVE);
}

/* Also while the lowest member, which keeps count, has not asked for it: from the others it knows who belongs to it. */
static void new_group_before_its_lead(job_rank *me)
{
    weft_group *group = NULL;
    weft_request *req = NULL;
    if (me->rank != 0) ask_for_all(me, &group, &req);
    await_death(me);
    if (me->rank == 0) {
        job_await(me, 2, ALIVE - 1);
        ask_for_all(me, &group, &req);
    }
    check_not_made(me, group, req);
    job_mark(me, 2);
    job_await(me, 2, ALIVE);
}

/* Rank 1 has no connection to the victim and hears of its end first from rank 0, whose operation on a group
 * of the three it breaks: it has died there too, and not left. */
static void heard_of(job_rank *me)
{
    static const int some[] = {0, 1, VICTIM};
    weft_call call = {.timeout_ms = job_wait_ms()};
    weft_group *group = NULL;
    weft_request *req = NULL;
    if (me->rank != 2)
        CHECK_OK(weft_new_group(me->world, some, sizeof some / sizeof *some, &call, &group, NULL));
    job_meet(me);
    if (me->rank == 0) CHECK_OK(weft_barrier(group, NULL, &req));
    await_death(me);
    if (me->rank == 0) WAIT_STATUS(WEFT_ERR_PEER, req);
    if (me->rank == 1) CHECK_INT(job_await_break(group, JOB_LATE_MS), WEFT_ERR_PEER);
    if (req) weft_release(req);
    check_is_dead(me);
    CHECK_INT(job_await_break(me->world, JOB_LATE_MS), WEFT_ERR_PEER);
    job_mark(me, 2);
    job_await(me, 2, ALIVE);
}

/* ---- exec ---- */

/* The victim is another program from then on, in the same process, which goes on. */
static void become_another(job_rank *me, int others)
{
    job_await(me, 0, others);
    job_results(me, me->rank)[KILLED_AT] = job_now_ns();
    execl("/bin/sleep", "sleep", "600", (char *)NULL);
    CHECK(false);
}

static void executes(job_rank *me)
{
    int32_t in = 1, out = 0;
    weft_request *req = NULL;
    weft_request_info info;
    if (me->rank == VICTIM) become_another(me, ALIVE);
    CHECK_OK(weft_all_reduce(me->world, &in, &out, 1, WEFT_INT32, WEFT_SUM, NULL, &req));
    job_mark(me, 0);
    WAIT_STATUS(WEFT_ERR_PEER, req);
    info = job_info(req);
    CHECK_INT(info.peer, VICTIM);
    CHECK_PERIOD(job_results(me, VICTIM)[KILLED_AT], info.settled_ns, 0, JOB_LATE_MS);
    check_names_the_dead(me, weft_request_message(req));
    note_settled(me, VICTIM, ALIVE, info.settled_ns);
    weft_release(req);
    if (me->rank == 0) job_kill(me, VICTIM);
}

/* One alone waits, for that one; its word is enough for the others. */
static void executes_to_one(job_rank *me)
{
    int32_t in = 1;
    weft_request *req = NULL;
    if (me->rank == VICTIM) become_another(me, ALIVE);
    if (me->rank == 0) CHECK_OK(weft_irecv(me->world, &in, 1, WEFT_INT32, VICTIM, 0, NULL, &req));
    job_mark(me, 0);
    CHECK_STATUS(WEFT_ERR_PEER, job_await_break(me->world, JOB_WAIT_MS)); /* the victim may be late with it */
    const int64_t seen_ns = job_now_ns();
    CHECK_PERIOD(job_results(me, VICTIM)[KILLED_AT], seen_ns, 0, JOB_LATE_MS);
    if (req) check_dead(me, req);
    weft_release(req);
    note_settled(me, VICTIM, ALIVE, seen_ns);
    if (me->rank == 0) job_kill(me, VICTIM);
}

/* Nobody waits for anything, and a child that the victim has left behind lives on. */
static void executes_unasked(job_rank *me)
{
    if (me->rank == VICTIM) {
        job_await(me, 0, ALIVE);
        if (!fork()) {
            setpgid(0, 0); /* nobody may be there who waits for it in the end */
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            pause();
            _exit(1);
        }
        become_another(me, ALIVE);
    }
    job_sum_works(job_group(me, ALIVE, "untouched", 0));
    job_mark(me, 0);
    CHECK_STATUS(WEFT_ERR_PEER, job_await_break(me->world, JOB_WAIT_MS));
    const int64_t seen_ns = job_now_ns();
    CHECK_PERIOD(job_results(me, VICTIM)[KILLED_AT], seen_ns, 0, JOB_LATE_MS);
    check_is_dead(me);
    CHECK_STATUS(WEFT_ERR_BROKEN, weft_barrier(me->world, NULL, NULL));
    check_names_the_dead(me, weft_last_error());
    note_settled(me, VICTIM, ALIVE, seen_ns);
    if (me->rank == 0) job_kill(me, VICTIM);
}

/* Whose children become other programs is the program that it was: after fork, and as posix_spawn does it, which shares the
 * parent's memory till then. */
static void executes_in_children(job_rank *me)
{
    char name[] = "sleep",
         seconds[] = "0.05", *const words[] = {name, seconds, NULL}, *const no_words[] = {NULL};
    pid_t children[2];
    job_sum_works(me->world);
    if (me->rank == VICTIM) {
        if (!(children[0] = fork())) _exit(execv("/bin/sleep", words));
        CHECK_INT(posix_spawn(&children[1], "/bin/sleep", NULL, NULL, words, no_words), 0);
        for (int i = 0; i < 2; i++) {
            int how = -1;
            CHECK_INT(waitpid(children[i], &how, 0), children[i]);
            CHECK_INT(how, 0);
        }
    }
    job_sum_works(me->world);
    job_sleep_ms(50);
    CHECK_OK(weft_group_status(me->world));
    CHECK_INT(weft_group_dead(me->world, NULL, 0), 0);
}

/* The first of two ranks, and the other one waits for it. */
static void first_executes(job_rank *me)
{
    int32_t in = 1;
    weft_request *req = NULL;
    if (me->rank == 0) become_another(me, 1);
    CHECK_OK(weft_irecv(me->world, &in, 1, WEFT_INT32, 0, 0, NULL, &req));
    job_mark(me, 0);
    WAIT_STATUS(WEFT_ERR_PEER, req);
    weft_request_info info = job_info(req);
    CHECK_INT(info.peer, 0);
    CHECK_PERIOD(job_results(me, 0)[KILLED_AT], info.settled_ns, 0, JOB_LATE_MS);
    note_settled(me, 0, 1, info.settled_ns);
    weft_release(req);
    job_kill(me, 0);
}

static void exec_is_seen(void **state)
{
    const char *transport = getenv("WEFT_TRANSPORT");
    const double most = transport && !strcmp(transport, "tcp") ? EXEC_TCP_MS : EXEC_MS;
    double least = 0;
    took_ms = share_took();
    for (int i = 0; i < EXEC_ROUNDS && (i == 0 || least > most); i++) {
        job_run(*state);
        if (i == 0 || *took_ms < least) least = *took_ms;
    }
    munmap(took_ms, sizeof *took_ms);
    took_ms = NULL;
    if (least > most) fail_msg("it took %.0f ms until all knew, %.0f at most", least, most);
}

/* ---- how long it takes until the last one knows ---- */

static void *kill_later(void *arg)
{
    job_rank *me = arg;
    job_await(me, 0, ALIVE);
    job_sleep_ms(UNDER_WAY_MS);
    job_results(me, VICTIM)[KILLED_AT] = job_now_ns();
    job_kill(me, VICTIM);
    return NULL;
}

static void one_dies(job_rank *me)
{
    pthread_t killer = 0;
    int32_t in = 1, out = 0;
    weft_request *req = NULL;
    job_sum_works(me->world);
    if (me->rank != VICTIM)
        CHECK_OK(weft_all_reduce(me->world, &in, &out, 1, WEFT_INT32, WEFT_SUM, NULL, &req));
    if (me->rank == VICTIM) job_sleep_ms(JOB_LIMIT_MS);
    if (me->rank == 0) CHECK_INT(pthread_create(&killer, NULL, kill_later, me), 0);
    job_mark(me, 0);
    CHECK(weft_wait(req, JOB_WAIT_MS) != WEFT_OK);
    if (me->rank == 0) CHECK_INT(pthread_join(killer, NULL), 0);
    check_dead(me, req);
    note_settled(me, VICTIM, ALIVE, job_info(req).settled_ns);
    weft_release(req);
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void it_takes_so_long(void **state)
{
    static double all[ROUNDS_MOST];
    const char *text = getenv("DEATH_ROUNDS");
    const long rounds = text ? strtol(text, NULL, 10) : 1;
    (void)state;
    assert_in_range(rounds, 1, ROUNDS_MOST);
    took_ms = share_took();
    for (long i = 0; i < rounds; i++) {
        job_run(&(job_plan){.ranks = RANKS, .body = one_dies, .killed = 1U << VICTIM, .processes = true});
        all[i] = *took_ms;
    }
    munmap(took_ms, sizeof *took_ms);
    took_ms = NULL;
    qsort(all, (size_t)rounds, sizeof *all, ascending);
    print_message("             %ld kills: %.2f ms (median; %.2f to %.2f)\n", rounds, all[rounds / 2], all[0],
                  all[rounds - 1]);
}

#define DEATH(sentence, function) JOB_TEST(sentence, .ranks = RANKS, .body = function, .killed = 1U << VICTIM)

#define EXEC_BY(sentence, size, function, who)                                            \
    {                                                                                     \
        sentence, exec_is_seen, NULL, NULL, &(job_plan)                                   \
        {                                                                                 \
            .ranks = (size), .body = (function), .killed = 1U << (who), .processes = true \
        }                                                                                 \
    }
#define EXEC(sentence, function) EXEC_BY(sentence, RANKS, function, VICTIM)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        DEATH("pending operations", pending),
        DEATH("nothing in flight", idle),
        DEATH("a receive from anyone", from_anyone),
        DEATH("amid large collectives", amid_traffic),
        DEATH("amid large messages", amid_messages),
        DEATH("amid new_group", new_group_with_the_dead),
        DEATH("amid new_group, before its lead", new_group_before_its_lead),
        DEATH("many groups", many_groups),
        DEATH("heard of from another", heard_of),
        EXEC("a rank that becomes another program", executes),
        EXEC("one that only one rank waits for", executes_to_one),
        EXEC("one that nobody waits for, with a child that lives on", executes_unasked),
        JOB_TEST("no other program, but its children are", .ranks = RANKS, .body = executes_in_children,
                 .processes = true),
        EXEC_BY("the first of two", 2, first_executes, 0),
        cmocka_unit_test(it_takes_so_long),
    };
    return JOB_MAIN(tests, argc, argv);
}
