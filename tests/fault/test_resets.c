/* test_resets.c - connections between living ranks that are reset under them, at random: nothing ends, every byte is
 * right, and nobody counts as gone.  RESETS_ROUNDS=n in the environment goes on for so many rounds of each. */
#include "program.h"
#include "resets.h"

#include <stdlib.h>
#include <string.h>

enum { RANKS = 3, PROGRAMS = 6, LARGE = 4 << 20 /* int32: 16 MiB */, MESSAGES = 400, GROUPS = 60 };

static int rounds(void)
{
    const char *text = getenv("RESETS_ROUNDS");
    return text ? (int)strtol(text, NULL, 10) : 3;
}

static void begin(const job_rank *me, uint64_t seed, uint32_t one_in)
{
    resets_begin(seed * JOB_RANKS_MAX + (uint64_t)me->rank, one_in);
}

/* At least one rank has seen one, or the test shows nothing. */
static void end(job_rank *me)
{
    const int32_t mine = (int32_t)resets_end();
    int32_t all = 0;
    weft_request *req = NULL;
    CHECK_OK(weft_all_reduce(me->world, &mine, &all, 1, WEFT_INT32, WEFT_SUM, NULL, &req));
    WAIT_OK(req);
    CHECK(all > 0);
}

static void large(job_rank *me)
{
    int32_t *in = job_alloc(me, LARGE * sizeof *in), *out = job_alloc(me, LARGE * sizeof *out);
    begin(me, 1, 60);
    for (int round = 0; round < rounds(); round++) {
        weft_request *req = NULL;
        for (int i = 0; i < LARGE; i++) in[i] = i * (me->rank + 1) + round;
        CHECK_OK(weft_all_reduce(me->world, in, out, LARGE, WEFT_INT32, WEFT_SUM, NULL, &req));
        WAIT_OK(req);
        for (int i = 0; i < LARGE; i++)
            if (out[i] != (int32_t)((uint32_t)i * 6u) + 3 * round)
                job_fail(__FILE__, __LINE__, "element %d is %d", i, out[i]);
    }
    end(me);
}

/* They have every length and go each way at once. */
static void messages(job_rank *me)
{
    const int next = (me->rank + 1) % RANKS, before = (me->rank + RANKS - 1) % RANKS;
    unsigned char *out = job_alloc(me, 1 << 20), *in = job_alloc(me, 1 << 20);
    uint64_t words = 5;
    begin(me, 2, 40);
    for (int i = 0; i < MESSAGES * rounds() / 3; i++) {
        const size_t bytes = job_random(&words) % (i % 8 ? 3000 : 1 << 20);
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
    end(me);
}

static void groups(job_rank *me)
{
    static const int all[RANKS] = {0, 1, 2};
    begin(me, 3, 20);
    for (int i = 0; i < GROUPS * rounds() / 3; i++) {
        weft_group *made = NULL;
        weft_request *req = NULL;
        CHECK_OK(weft_new_group(me->world, all, RANKS, NULL, &made, &req));
        WAIT_OK(req);
        job_sum_works(made);
        CHECK_OK(weft_group_free(made));
    }
    end(me);
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

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("in the middle of all_reduce of 16 MiB", .ranks = RANKS, .body = large, .processes = true),
        JOB_TEST("of messages", .ranks = RANKS, .body = messages, .processes = true),
        JOB_TEST("of group making", .ranks = RANKS, .body = groups, .processes = true),
        cmocka_unit_test(programs),
    };
    setenv("WEFT_LOG", "0", 0); /* each connection that stands again is told */
    return JOB_MAIN(tests, argc, argv);
}
