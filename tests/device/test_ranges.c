/* test_ranges.c - NVTX ranges of operations on devices, as a profiler sees them. */
#include "device.h"
#include "nvtx_injection.h"
#include "program.h"

#include <dlfcn.h>
#include <stdlib.h>

enum { RANKS = 2, ROUNDS = 5, COUNT = 100 };

static const injection_seen *seen(void)
{
    void *injection = dlopen(getenv("NVTX_INJECTION64_PATH"), RTLD_NOW | RTLD_NOLOAD);
    const injection_seen *table = injection ? dlsym(injection, INJECTION_SEEN) : NULL;
    CHECK(table); /* NVTX has loaded it */
    return table;
}

/* Ranks may be threads of one process, which has one profiler. */
static void check_seen(job_rank *me, const char *name, int expected)
{
    int count = seen()->count(name);
    job_meet(me);
    if (count != expected && count != expected * me->size)
        job_fail(__FILE__, __LINE__, "%d ranges %s, expected %d", count, name, expected);
}

/* What issues goes on for a moment when the operation has settled. */
static void check_all_ended(job_rank *me)
{
    job_meet(me);
    for (int ms = 0; seen()->open() && ms < JOB_WAIT_MS; ms++) job_sleep_ms(1);
    CHECK_INT(seen()->open(), 0);
    job_meet(me);
}

static void of_all_phases(job_rank *me)
{
    const weft_call call = {.stream = WEFT_NO_STREAM};
    float *sum = job_buffer(me, COUNT * sizeof *sum);
    weft_group *group = job_group(me, RANKS, "tp0", 0);
    for (int round = 0; round < ROUNDS; round++)
        CHECK_OK(weft_all_reduce(group, sum, sum, COUNT, WEFT_FLOAT32, WEFT_SUM, &call, NULL));
    CHECK_OK(weft_send_recv(group, sum, sum + COUNT / 2, COUNT / 2, WEFT_FLOAT32, !me->rank, &call, NULL));
    job_meet(me);
    check_seen(me, "submit all_reduce tp0", ROUNDS);
    check_seen(me, "issue all_reduce tp0", ROUNDS);
    check_seen(me, "settle all_reduce tp0", ROUNDS);
    check_seen(me, "submit send_recv tp0", 1);
    check_seen(me, "issue send_recv tp0", 1);
    check_seen(me, "settle send_recv tp0", 1);
    check_all_ended(me);
}

static void of_batches(job_rank *me)
{
    const weft_call plain = {.stream = WEFT_NO_STREAM};
    weft_call call = plain;
    float *sum = job_buffer(me, COUNT * sizeof *sum);
    weft_group *group = job_group(me, RANKS, "fused", 0);
    CHECK_OK(weft_batch_begin(group, &call.batch));
    for (int round = 0; round < ROUNDS; round++)
        CHECK_OK(weft_all_reduce(group, sum + round, sum + round, 1, WEFT_FLOAT32, WEFT_SUM, &call, NULL));
    CHECK_OK(weft_batch_end(call.batch, NULL, NULL));
    job_meet(me);
    check_seen(me, "submit all_reduce fused", ROUNDS);
    check_seen(me, "issue all_reduce fused", 1);
    check_seen(me, "settle all_reduce fused", ROUNDS);
    check_all_ended(me);
}

static void of_failures(job_rank *me)
{
    const weft_call call = {.stream = WEFT_NO_STREAM, .timeout_ms = 50};
    float *sum = job_buffer(me, COUNT * sizeof *sum);
    weft_group *group = job_group(me, RANKS, "late", 0);
    job_meet(me);
    if (me->rank == 0)
        CHECK_INT(weft_all_reduce(group, sum, sum, COUNT, WEFT_FLOAT32, WEFT_SUM, &call, NULL),
                  WEFT_ERR_TIMEOUT);
    CHECK_INT(weft_all_reduce(group, sum, sum, COUNT, WEFT_INT16, WEFT_SUM, &call, NULL) < 0,
              1); /* refused */
    job_meet(me);
    if (me->rank == 0) CHECK(seen()->count("settle all_reduce late") >= 1);
    check_all_ended(me);
}

/* Not of what is in host memory. */
static void of_devices_alone(job_rank *me)
{
    int32_t one = 1;
    weft_group *group = job_group(me, RANKS, "host", 0);
    CHECK_OK(weft_all_reduce(group, &one, &one, 1, WEFT_INT32, WEFT_SUM, NULL, NULL));
    CHECK_INT(one, RANKS);
    CHECK_INT(seen()->count("submit all_reduce host"), 0);
    CHECK_INT(seen()->count("settle all_reduce host"), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("of all phases", .ranks = RANKS, .body = of_all_phases),
        JOB_TEST("of batches", .ranks = RANKS, .body = of_batches),
        JOB_TEST("of failures", .ranks = RANKS, .body = of_failures),
        JOB_TEST("of devices alone", .ranks = RANKS, .body = of_devices_alone),
    };
    return JOB_MAIN(tests, argc, argv);
}
