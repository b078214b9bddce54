/* test_resets.c - connections between living ranks that are reset under them, at random: nothing ends, every byte is
 * right, nothing comes twice, and nobody counts as gone.  RESETS_ROUNDS=n in the environment goes on for so many rounds
 * of each, RESETS_COUNT=n until so many connections have been reset in each. */
#include "program.h"
#include "resets.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { RANKS = 3, PROGRAMS = 6, LARGE = 4 << 20 /* int32: 16 MiB */, MESSAGES = 133, GROUPS = 20 };
enum { PARTS = 40, PART_MOST = 90000 }; /* what is sent by who leaves then */
enum { QUIET_MS = 20, RESET_MS = 300 }; /* most that one of so many costs */

static int number_of(const char *name, int otherwise)
{
    const char *text = getenv(name);
    return text ? (int)strtol(text, NULL, 10) : otherwise;
}

static int rounds(void)
{
    return number_of("RESETS_ROUNDS", 3);
}

static void begin(const job_rank *me, uint64_t seed, uint32_t one_in)
{
    resets_begin(seed * JOB_RANKS_MAX + (uint64_t)me->rank, one_in);
}

/* By all ranks so far; each has ended that round.  Each of two numbers is written in every second one, so that nobody reads
 * what the next round writes. */
static int64_t count_all(job_rank *me, int round)
{
    int64_t all = 0;
    job_results(me, me->rank)[round % 2] = resets_count();
    job_meet(me);
    for (int i = 0; i < me->size; i++) all += job_results(me, i)[round % 2];
    return all;
}

static bool goes_on(job_rank *me, int round)
{
    return !round || round < rounds() || count_all(me, round) < number_of("RESETS_COUNT", 1);
}

/* At least one rank has seen one, or the test shows nothing; and no message is left that would be the second one. */
static void end(job_rank *me, int round)
{
    const weft_call quiet = {.timeout_ms = QUIET_MS};
    int64_t all;
    resets_end();
    all = count_all(me, round + 1);
    job_sum_works(me->world);
    CHECK_STATUS(WEFT_ERR_TIMEOUT, weft_probe(me->world, WEFT_ANY_RANK, WEFT_ANY_TAG, &quiet, NULL));
    CHECK(all >= number_of("RESETS_COUNT", 1));
    if (me->rank == 0) printf("             %lld connections reset, in %d rounds\n", (long long)all, round);
}

static void sum_large(job_rank *me, int32_t *in, int32_t *out, int round)
{
    weft_request *req = NULL;
    for (int i = 0; i < LARGE; i++) in[i] = i * (me->rank + 1) + round;
    CHECK_OK(weft_all_reduce(me->world, in, out, LARGE, WEFT_INT32, WEFT_SUM, NULL, &req));
    WAIT_OK(req);
    for (int i = 0; i < LARGE; i++)
        if (out[i] != (int32_t)((uint32_t)i * 6u) + 3 * round)
            job_fail(__FILE__, __LINE__, "element %d is %d", i, out[i]);
}

static void large(job_rank *me)
{
    int32_t *in = job_alloc(me, LARGE * sizeof *in), *out = job_alloc(me, LARGE * sizeof *out);
    int round = 0;
    begin(me, 1, 60);
    for (; goes_on(me, round); round++) sum_large(me, in, out, round);
    end(me, round);
}

static void pass_on(job_rank *me, unsigned char *in, unsigned char *out, int i, size_t bytes)
{
    const int next = (me->rank + 1) % RANKS, before = (me->rank + RANKS - 1) % RANKS;
    weft_request *sent = NULL, *got = NULL;
    memset(out, i + me->rank, bytes);
    CHECK_OK(weft_irecv(me->world, in, bytes, WEFT_UINT8, before, i, NULL, &got));
    CHECK_OK(weft_isend(me->world, out, bytes, WEFT_UINT8, next, i, NULL, &sent));
    WAIT_OK(sent);
    memset(out, 0xee, bytes); /* it is the sender's again */
    WAIT_OK(got);
    for (size_t at = 0; at < bytes; at++)
        if (in[at] != (unsigned char)(i + before))
            job_fail(__FILE__, __LINE__, "byte %zu of message %d", at, i);
}

/* They have every length and go each way at once. */
static void messages(job_rank *me)
{
    unsigned char *out = job_alloc(me, 1 << 20), *in = job_alloc(me, 1 << 20);
    uint64_t words = 5;
    int round = 0;
    begin(me, 2, 40);
    for (; goes_on(me, round); round++)
        for (int i = 0; i < MESSAGES; i++)
            pass_on(me, in, out, round * MESSAGES + i, job_random(&words) % (i % 8 ? 3000 : 1 << 20));
    end(me, round);
}

static void make_groups(job_rank *me)
{
    static const int all[RANKS] = {0, 1, 2};
    for (int i = 0; i < GROUPS; i++) {
        weft_group *made = NULL;
        weft_request *req = NULL;
        CHECK_OK(weft_new_group(me->world, all, RANKS, NULL, &made, &req));
        WAIT_OK(req);
        job_sum_works(made);
        CHECK_OK(weft_group_free(made));
    }
}

static void groups(job_rank *me)
{
    int round = 0;
    begin(me, 3, 20);
    for (; goes_on(me, round); round++) make_groups(me);
    end(me, round);
}

/* ---- who leaves as soon as its messages have settled ---- */

static size_t part_bytes(uint64_t *words, int i)
{
    return job_random(words) % (i % 4 ? 3000 : PART_MOST);
}

static void send_and_leave(job_rank *me)
{
    unsigned char *out = job_alloc(me, PART_MOST);
    uint64_t words = (uint64_t)me->rank;
    for (int i = 0; i < PARTS; i++) {
        const size_t bytes = part_bytes(&words, i);
        weft_request *req = NULL;
        memset(out, i + me->rank, bytes);
        CHECK_OK(weft_isend(me->world, out, bytes, WEFT_UINT8, 0, i, NULL, &req));
        WAIT_OK(req);
    }
}

static void take_part(job_rank *me, unsigned char *in, int from, int i, size_t bytes)
{
    weft_request *req = NULL;
    CHECK_OK(weft_irecv(me->world, in, PART_MOST, WEFT_UINT8, from, i, NULL, &req));
    WAIT_STATUS(WEFT_OK, req);
    CHECK_INT(job_info(req).received_bytes, bytes);
    weft_release(req);
    for (size_t at = 0; at < bytes; at++)
        if (in[at] != (unsigned char)(i + from))
            job_fail(__FILE__, __LINE__, "byte %zu of message %d", at, i);
}

static void take_from_leavers(job_rank *me)
{
    unsigned char *in = job_alloc(me, PART_MOST);
    uint64_t words[RANKS] = {0, 1, 2};
    for (int i = 0; i < PARTS; i++)
        for (int from = 1; from < RANKS; from++) take_part(me, in, from, i, part_bytes(&words[from], i));
}

static atomic_int *leavers_resets; /* of all jobs */

static void leave(job_rank *me)
{
    const uint64_t *seed = me->arg;
    job_join(me);
    begin(me, *seed, 6);
    if (me->rank)
        send_and_leave(me);
    else
        take_from_leavers(me);
    job_leave(me);
    atomic_fetch_add(leavers_resets, (int)resets_end());
}

static void leaving(void **state)
{
    const int wanted = number_of("RESETS_COUNT", 1);
    uint64_t seed = 4;
    (void)state;
    leavers_resets =
        mmap(NULL, sizeof *leavers_resets, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(leavers_resets != MAP_FAILED);
    for (int jobs = 0; jobs < 2 * rounds() || atomic_load(leavers_resets) < wanted; jobs++, seed++)
        job_run(&(job_plan){.ranks = RANKS, .body = leave, .bare = true, .processes = true, .arg = &seed});
    printf("             %d connections reset, in %d jobs\n", atomic_load(leavers_resets), (int)seed - 4);
    munmap(leavers_resets, sizeof *leavers_resets);
}

/* ---- who leaves while what it sent lies in its kernel, which loses it ---- */

enum { UNTAKEN = 48, UNTAKEN_BYTES = 8000, STANDS_MS = 600 };

static void *goes_on_later(void *arg)
{
    job_rank *me = arg;
    job_sleep_ms(STANDS_MS);
    CHECK_INT(kill(job_pid(me, 0), SIGCONT), 0);
    return NULL;
}

/* More than a receiver's window that does not take it, and all of it settled. */
static void send_untaken(job_rank *me)
{
    unsigned char out[UNTAKEN_BYTES];
    pthread_t later;
    int64_t from;
    job_stop(me, 0);
    for (int i = 0; i < UNTAKEN; i++) {
        weft_request *req = NULL;
        memset(out, i, sizeof out);
        CHECK_OK(weft_isend(me->world, out, sizeof out, WEFT_UINT8, 0, i, NULL, &req));
        WAIT_OK(req);
    }
    resets_next();
    from = job_now_ns();
    CHECK(!pthread_create(&later, NULL, goes_on_later, me));
    job_leave(me);
    CHECK_PERIOD(from, job_now_ns(), STANDS_MS, STANDS_MS + JOB_LATE_MS);
    CHECK_INT(resets_count(), 1);
    pthread_join(later, NULL);
}

static void take_late(job_rank *me)
{
    unsigned char in[UNTAKEN_BYTES];
    for (int i = 0; i < UNTAKEN; i++) {
        CHECK_OK(weft_irecv(me->world, in, sizeof in, WEFT_UINT8, 1, i, NULL, NULL));
        for (size_t at = 0; at < sizeof in; at++)
            if (in[at] != i) job_fail(__FILE__, __LINE__, "byte %zu of message %d", at, i);
    }
    job_leave(me);
}

static void leave_untaken(job_rank *me)
{
    job_join(me);
    job_message_works(me->world, 1, 0, UNTAKEN);
    job_meet(me);
    if (me->rank)
        send_untaken(me);
    else
        take_late(me);
}

static void run_program(job_rank *me)
{
    begin(me, ((const program *)me->arg)->seed, 150);
    program_run(me);
    resets_end();
    job_meet(me);
}

static void programs(void **state)
{
    (void)state;
    for (int seed = 1; seed <= PROGRAMS * rounds() / 3; seed++) {
        program p = {.seed = (uint64_t)seed, .threads = 1 + seed % 2, .steps = 60};
        job_run(&(job_plan){.ranks = 2 + seed % 4, .body = run_program, .arg = &p});
    }
}

/* ---- what the log has of it ---- */

/* What this process says goes there from now on. */
static void log_into(const char *path)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    CHECK(fd >= 0 && dup2(fd, STDERR_FILENO) == STDERR_FILENO && !close(fd));
}

static void log_has_one_line(const char *path)
{
    char line[512] = "", more[512];
    FILE *log = fopen(path, "r");
    CHECK(log);
    CHECK(fgets(line, sizeof line, log));
    CHECK_TEXT(line, "the connection of ranks 0 and 1 broke, and stands again after");
    CHECK_TEXT(line, "nothing is lost");
    if (fgets(more, sizeof more, log)) job_fail(__FILE__, __LINE__, "one line more: %s", more);
    fclose(log);
    unlink(path);
}

/* One of both ends tells. */
static void one_line(job_rank *me)
{
    char path[64];
    snprintf(path, sizeof path, "/tmp/weft-resets-%d.log", (int)getppid());
    job_setenv(me, "WEFT_LOG", NULL);
    log_into(path);
    job_join(me);
    job_message_works(me->world, 0, 1, 1);
    job_meet(me);
    resets_begin(1, 0);
    if (!me->rank) resets_next();
    job_message_works(me->world, 0, 1, 2);
    job_message_works(me->world, 1, 0, 3);
    if (!me->rank) CHECK_INT(resets_end(), 1);
    job_meet(me);
    job_leave(me);
    job_meet(me);
    if (!me->rank) log_has_one_line(path);
}

static void in_one_job(void **state)
{
    job_plan plan = *(const job_plan *)*state;
    plan.limit_ms = JOB_LIMIT_MS + RESET_MS * JOB_SLOWER * number_of("RESETS_COUNT", 0);
    job_run(&plan);
}

#define IN_ONE_JOB(sentence, what)                            \
    {                                                         \
        sentence, in_one_job, NULL, NULL, &(job_plan)         \
        {                                                     \
            .ranks = RANKS, .body = (what), .processes = true \
        }                                                     \
    }

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        IN_ONE_JOB("in the middle of all_reduce of 16 MiB", large),
        IN_ONE_JOB("of messages", messages),
        IN_ONE_JOB("of group making", groups),
        {"of ranks that leave as soon as their messages have settled", leaving, NULL, NULL, NULL},
        JOB_TEST("of a rank that leaves, with all that it sent untaken", .ranks = 2, .body = leave_untaken,
                 .bare = true, .processes = true),
        JOB_TEST("of which the log has one line", .ranks = 2, .body = one_line, .bare = true,
                 .processes = true),
        cmocka_unit_test(programs),
    };
    setenv("WEFT_LOG", "0", 0); /* each connection that stands again is told */
    return JOB_MAIN(tests, argc, argv);
}
