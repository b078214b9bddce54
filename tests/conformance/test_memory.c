/* test_memory.c - memory of weft_mem_alloc: what it is, what it may be used for, how it fails. */
#include "collective.h"
#include "program.h"

#include <stdlib.h>
#include <string.h>

enum { RANKS = 3, BYTES = 1 << 20, COUNT = BYTES / 4, REGIONS = 256, TRIES = 20 };

static void *allocate(weft_group *group, size_t bytes)
{
    void *memory = NULL;
    CHECK_OK(weft_mem_alloc(group, bytes, WEFT_MEMORY_HOST, &memory));
    CHECK(memory && (uintptr_t)memory % 64 == 0);
    return memory;
}

static bool is_zero(const unsigned char *bytes, size_t n)
{
    return n == 0 || (bytes[0] == 0 && !memcmp(bytes, bytes + 1, n - 1));
}

/* COUNT numbers: i * step + first. */
static void check_counts(const int32_t *numbers, int step, int first)
{
    for (int i = 0; i < COUNT; i++) {
        if (numbers[i] != i * step + first) {
            job_fail(__FILE__, __LINE__, "%d at %d, expected %d", numbers[i], i, i * step + first);
        }
    }
}

/* ---- what it is --------------------------------------------------------------------------------------- */

static void zeroed(job_rank *me)
{
    static const size_t sizes[] = {1, 63, 4096, 5000, 3 << 20};
    unsigned char *memory[5];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 5; i++) {
            memory[i] = allocate(me->world, sizes[i]);
            CHECK(is_zero(memory[i], sizes[i]));
            memset(memory[i], me->rank + 1 + i, sizes[i]);
        }
        for (int i = 0; i < 5; i++)
            for (size_t at = 0; at < sizes[i]; at += 61)
                if (memory[i][at] != me->rank + 1 + i) CHECK_INT(memory[i][at], me->rank + 1 + i);
        for (int i = 5; i-- > 0;) CHECK_OK(weft_mem_free(me->world, memory[i]));
    }
    job_sum_works(me->world);
}

static void as_many_as_there_are(job_rank *me)
{
    void *memory[REGIONS], *more = NULL;
    for (int i = 0; i < REGIONS; i++) memory[i] = allocate(me->world, 100);
    CHECK_STATUS(WEFT_ERR_MEMORY, weft_mem_alloc(me->world, 100, WEFT_MEMORY_HOST, &more));
    CHECK_TEXT(weft_last_error(), "256");
    CHECK(!more);
    for (int i = 0; i < REGIONS; i++) CHECK_OK(weft_mem_free(me->world, memory[i]));
}

/* Left to the context on purpose: it ends with it. */
static void left(job_rank *me)
{
    memset(allocate(me->world, BYTES), 1, BYTES);
    allocate(me->world, 1);
}

/* ---- what it may be used for
 * -------------------------------------------------------------------------------- */

static void all_kinds(weft_group *group, collective_pool *pool, uint64_t seed)
{
    static const struct {
        size_t count;
        bool in_place;
    } forms[] = {{1, false}, {5000, true}, {12000, false}, {40000, true}};
    collective_draw_from(pool);
    for (int kind = 0; kind < COLLECTIVE_KINDS; kind++)
        for (int i = 0; i < 4; i++) {
            collective what = {.kind = (collective_kind)kind,
                               .dtype = WEFT_FLOAT32,
                               .op = i % 2 ? WEFT_SUM : WEFT_PREMUL_SUM,
                               .count = forms[i].count,
                               .root = i % weft_group_size(group),
                               .in_place = forms[i].in_place,
                               .seed = seed + (uint64_t)i};
            collective_run(group, &what);
        }
    collective_draw_from(NULL);
}

/* In its own group, in one within it, in another order, and in one that has more ranks. */
static void collectives(job_rank *me)
{
    static const int backwards[] = {2, 1, 0};
    weft_group *pair = NULL, *other = NULL;
    if (me->rank < 2) {
        pair = job_group(me, 2, "pair", 0);
    }
    CHECK_OK(weft_new_group(me->world, backwards, RANKS, NULL, &other, NULL));
    collective_pool all = {.base = allocate(me->world, POOL_BYTES), .random = (uint64_t)me->rank};
    all_kinds(me->world, &all, 1);
    all_kinds(other, &all, 2);
    if (pair) {
        collective_pool two = {.base = allocate(pair, POOL_BYTES)};
        all_kinds(pair, &all, 4);
        all_kinds(me->world, &two, 5);
        CHECK_OK(weft_mem_free(pair, two.base));
    } else {
        all_kinds(me->world, NULL, 5);
    }
    CHECK_OK(weft_mem_free(me->world, all.base));
    job_sum_works(me->world);
}

/* Many in flight, each at its own place of one piece, some in place. */
static void in_flight(job_rank *me)
{
    enum { N = 16, EACH = 20000 };
    int32_t *memory = allocate(me->world, (size_t)2 * N * EACH * sizeof *memory + 64);
    weft_request *reqs[N];
    memory += 3; /* any range inside */
    for (int i = 0; i < N; i++) {
        int32_t *in = memory + (size_t)2 * (size_t)i * EACH, *out = i % 2 ? in : in + EACH;
        for (int k = 0; k < EACH; k++) in[k] = k + me->rank * i;
        CHECK_OK(weft_all_reduce(me->world, in, out, EACH, WEFT_INT32, WEFT_SUM, NULL, &reqs[i]));
    }
    for (int i = 0; i < N; i++) {
        int32_t *in = memory + (size_t)2 * (size_t)i * EACH, *out = i % 2 ? in : in + EACH;
        WAIT_OK(reqs[i]);
        for (int k = 0; k < EACH; k++) {
            if (out[k] != RANKS * k + i * RANKS * (RANKS - 1) / 2) {
                job_fail(__FILE__, __LINE__, "all_reduce %d: %d at %d", i, out[k], k);
            }
            in[k] = -1; /* settled: the input is the caller's again, while others may still be at work */
        }
    }
}

/* Where the buffers of an all_reduce lie: its inputs for others to read, or one rank's not, or in place. */
typedef enum lay { OPEN, OPEN_IN, OUT_AT_IN, PRIVATE_ON_1, LAYOUTS } lay;

static bool shares_memory(void)
{
    const char *transport = getenv("WEFT_TRANSPORT");
    return !transport || strcmp(transport, "shm") == 0;
}

static void all_reduce_at(job_rank *me, weft_group *pair, int32_t *memory, int32_t *own, lay where,
                          size_t count, int round)
{
    int32_t *own_in = own, *own_out = own + COUNT;
    int32_t *in = where == PRIVATE_ON_1 && me->rank == 1 ? own_in : memory;
    int32_t *out = where == OUT_AT_IN ? in : where == OPEN_IN ? own_out : memory + count;
    weft_request *req = NULL;
    for (size_t i = 0; i < count; i++) in[i] = (int32_t)i * (me->rank + 1) + round;
    memset(out == in ? own_out : out, 0, count * sizeof *out);
    CHECK_OK(weft_all_reduce(pair, in, out, count, WEFT_INT32, WEFT_SUM, NULL, &req));
    CHECK_OK(weft_wait(req, JOB_WAIT_MS));
    if (shares_memory() && count * sizeof *in == (size_t)128 * 1024)
        CHECK_TEXT(job_info(req).algorithm,
                   job_all_fast() && (where == OPEN || where == OPEN_IN) ? "all_read" : "slice_owner");
    weft_release(req);
    for (size_t i = 0; i < count; i++)
        if (out[i] != (int32_t)i * 3 + 2 * round) CHECK_INT(out[i], (int32_t)i * 3 + 2 * round);
}

/* By the first two ranks.  What is read where it lies is written again as soon as the operation is over.  The
 * more ranks, the smaller slots are: of 16 they take 64 KiB, and one element more is a chunk of its own. */
static void all_reduce_of_two(job_rank *me)
{
    static const size_t counts[] = {2000, 4097, 16384, 16385, 32768, 32769, COUNT / 2};
    if (me->rank > 1) return;
    weft_group *pair = job_group(me, 2, "pair", 0);
    int32_t *memory = allocate(pair, BYTES), *own = job_alloc(me, (size_t)2 * BYTES);
    for (int round = 0; round < TRIES; round++)
        for (size_t k = 0; k < sizeof counts / sizeof *counts; k++)
            for (int where = OPEN; where < LAYOUTS; where++)
                all_reduce_at(me, pair, memory, own, (lay)where, counts[k], round);
}

/* Where there are so many bytes, results go past the caches, and others read a reduced slice from memory. */
static void large_all_reduce(job_rank *me)
{
    enum { LARGE = (4 << 20) + 1001, STEP = 997 };
    int wrong = 0;
    int32_t *in = allocate(me->world, LARGE * sizeof *in), *out = allocate(me->world, LARGE * sizeof *out);
    for (int i = 0; i < LARGE; i++) in[i] = i % STEP + me->rank;
    CHECK_OK(weft_all_reduce(me->world, in, out, LARGE, WEFT_INT32, WEFT_SUM, NULL, NULL));
    CHECK_OK(weft_all_reduce(me->world, in, in, LARGE, WEFT_INT32, WEFT_SUM, NULL, NULL));
    for (int i = 0; i < LARGE; i++) {
        int32_t expected = me->size * (i % STEP) + me->size * (me->size - 1) / 2;
        wrong += out[i] != expected || in[i] != expected;
    }
    CHECK(wrong == 0);
    CHECK_OK(weft_mem_free(me->world, in));
    CHECK_OK(weft_mem_free(me->world, out));
}

static void messages(job_rank *me)
{
    int32_t *memory = allocate(me->world, (size_t)2 * BYTES), *out = memory + COUNT;
    int next = (me->rank + 1) % RANKS, before = (me->rank + RANKS - 1) % RANKS;
    weft_request *req = NULL;
    for (int i = 0; i < COUNT; i++) memory[i] = i + me->rank;
    CHECK_OK(weft_irecv(me->world, out, COUNT, WEFT_INT32, before, 1, NULL, &req));
    CHECK_OK(weft_isend(me->world, memory, COUNT, WEFT_INT32, next, 1, NULL, NULL));
    WAIT_OK(req);
    check_counts(out, 1, before);
    CHECK_OK(weft_mem_free(me->world, memory));
}

static void one_rank(job_rank *me)
{
    int32_t *memory = allocate(me->world, BYTES);
    CHECK(is_zero((unsigned char *)memory, BYTES));
    memory[0] = 7;
    CHECK_OK(
        weft_all_reduce(me->world, memory, memory + COUNT / 2, COUNT / 2, WEFT_INT32, WEFT_SUM, NULL, NULL));
    CHECK_INT(memory[COUNT / 2], 7);
    CHECK_OK(weft_mem_free(me->world, memory));
}

/* ---- how it fails
 * ---------------------------------------------------------------------------------------------- */

static void ask_in_callback(weft_request *req, weft_status status, void *arg)
{
    job_rank *me = arg;
    void *memory = NULL;
    (void)req;
    (void)status;
    job_results(me, me->rank)[0] = weft_mem_alloc(me->world, 64, WEFT_MEMORY_HOST, &memory);
    job_mark(me, me->rank);
}

static void refused(job_rank *me)
{
    void *memory = NULL;
    weft_call call = {.done = ask_in_callback, .arg = me};
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_mem_alloc(NULL, 64, WEFT_MEMORY_HOST, &memory));
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_mem_alloc(me->world, 64, WEFT_MEMORY_HOST, NULL));
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_mem_alloc(me->world, 0, WEFT_MEMORY_HOST, &memory));
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_mem_alloc(me->world, 64, (weft_memory)9, &memory));
    CHECK_STATUS(WEFT_ERR_UNSUPPORTED, weft_mem_alloc(me->world, 64, WEFT_MEMORY_CUDA, &memory));
    CHECK_TEXT(weft_last_error(), "device memory");
    CHECK_OK(weft_barrier(me->world, &call, NULL));
    job_await(me, me->rank, 1);
    CHECK_INT(job_results(me, me->rank)[0], WEFT_ERR_STATE);
    CHECK(!memory);
    job_sum_works(me->world);
}

static void freeing(job_rank *me)
{
    unsigned char *memory = allocate(me->world, BYTES);
    weft_request *req = NULL;
    int32_t other = 5;
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_mem_free(NULL, memory));
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_mem_free(me->world, NULL));
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_mem_free(me->world, &other));
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_mem_free(me->world, memory + 4096));
    CHECK_OK(weft_irecv(me->world, memory + 1000, 1, WEFT_INT32, 1 - me->rank, 3, NULL, &req));
    CHECK_STATUS(WEFT_ERR_STATE, weft_mem_free(me->world, memory));
    CHECK_TEXT(weft_last_error(), "irecv #1");
    CHECK_INT(weft_test(req), WEFT_PENDING);
    job_meet(me);
    CHECK_OK(weft_isend(me->world, &other, 1, WEFT_INT32, 1 - me->rank, 3, NULL, NULL));
    WAIT_OK(req);
    CHECK_OK(weft_mem_free(me->world, memory));
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_mem_free(me->world, memory));
    job_sum_works(me->world);
}

static void mismatch(job_rank *me)
{
    void *memory = NULL;
    weft_group *group = job_group(me, RANKS, "sizes", 0);
    CHECK_STATUS(WEFT_ERR_MISMATCH,
                 weft_mem_alloc(group, me->rank == 1 ? 2000 : 1000, WEFT_MEMORY_HOST, &memory));
    CHECK_TEXT(weft_last_error(), "rank 0 passed 1000 bytes, rank 1 passed 2000 bytes");
    CHECK(!memory);
    CHECK_STATUS(WEFT_ERR_MISMATCH, weft_group_status(group));
    job_meet(me);
    /* Two call it: of three, two may find out and break the group before the third calls. */
    if (me->rank > 1) {
        job_sum_works(me->world);
        return;
    }
    group = job_group(me, 2, "operations", 0);
    if (me->rank == 1) {
        CHECK_STATUS(WEFT_ERR_MISMATCH, weft_barrier(group, NULL, NULL));
    } else {
        CHECK_STATUS(WEFT_ERR_MISMATCH, weft_mem_alloc(group, 1000, WEFT_MEMORY_HOST, &memory));
    }
    CHECK_TEXT(weft_last_error(), "mem_alloc");
    CHECK_TEXT(weft_last_error(), "barrier");
    job_sum_works(me->world);
}

/* More than any machine has: an error on all ranks, of a failed collective. */
static void too_much(job_rank *me)
{
    static const size_t sizes[] = {(size_t)1 << 45, (size_t)1 << 50, SIZE_MAX};
    for (int i = 0; i < 3; i++) {
        void *memory = NULL;
        weft_group *group = job_group(me, RANKS, "much", 0);
        CHECK_STATUS(WEFT_ERR_MEMORY, weft_mem_alloc(group, sizes[i], WEFT_MEMORY_HOST, &memory));
        CHECK_TEXT(weft_last_error(), "mem_alloc #1");
        CHECK_TEXT(weft_last_error(), "rank 0");
        CHECK(!memory);
        CHECK_STATUS(WEFT_ERR_MEMORY, weft_group_status(group));
        CHECK_OK(weft_group_free(group));
    }
    memset(allocate(me->world, BYTES), 1, BYTES);
    job_sum_works(me->world);
}

static void late(job_rank *me)
{
    void *memory = NULL;
    weft_group *group = job_group(me, RANKS, "late", JOB_SHORT_MS);
    job_acquaint(me);
    if (me->rank != 1) {
        int64_t before = job_results(me, me->rank)[0] = job_now_ns();
        CHECK_STATUS(WEFT_ERR_TIMEOUT, weft_mem_alloc(group, BYTES, WEFT_MEMORY_HOST, &memory));
        CHECK_PERIOD(job_earliest(me, 0), job_now_ns(), JOB_SHORT_MS, INT32_MAX);
        CHECK_PERIOD(before, job_now_ns(), 0, JOB_SHORT_MS + job_late_ms());
        CHECK_TEXT(weft_last_error(), "mem_alloc #1");
        CHECK_NAMES(weft_last_error(), 1U << 1, RANKS);
        CHECK(!memory);
    }
    job_meet(me);
    job_sum_works(me->world);
}

/* A rank that gives up writes over its buffers at once; whoever still gets OK has what was sent. */
static void given_up(job_rank *me)
{
    int32_t *memory = allocate(me->world, BYTES);
    uint64_t random = (uint64_t)me->rank + 77;
    for (int t = 0; t < TRIES; t++) {
        weft_group *group = job_group(me, RANKS, "given up", 0);
        weft_request *req = NULL;
        memset(memory, 0, BYTES);
        for (int i = 0; me->rank == 0 && i < COUNT; i++) memory[i] = t + i;
        job_meet(me);
        for (volatile uint64_t spin = job_random(&random) % 200000; spin > 0; spin--) continue;
        weft_status status = weft_broadcast(group, memory, COUNT, WEFT_INT32, 0, NULL, &req);
        CHECK(status == WEFT_OK || status == WEFT_ERR_BROKEN); /* the news may be faster */
        if (me->rank == 0) {
            for (volatile uint64_t spin = job_random(&random) % 400000; spin > 0; spin--) continue;
            weft_cancel(req);
        }
        if (req) {
            status = weft_wait(req, JOB_WAIT_MS);
        }
        if (me->rank == 0 && status != WEFT_OK) {
            memset(memory, -1, BYTES);
        }
        CHECK(status == WEFT_OK || status == WEFT_ERR_CANCELLED || !req);
        if (me->rank && status == WEFT_OK) {
            check_counts(memory, 1, t);
        }
        weft_release(req);
        job_meet(me);
        CHECK_OK(weft_group_free(group));
    }
    CHECK_OK(weft_mem_free(me->world, memory));
}

static void death(job_rank *me)
{
    int32_t *memory = allocate(me->world, BYTES);
    weft_group *pair = me->rank < 2 ? job_group(me, 2, "pair", 0) : NULL;
    weft_request *req = NULL;
    weft_status status = WEFT_OK;
    for (int i = 0; i < 1000 && status == WEFT_OK; i++) {
        status = weft_all_reduce(me->world, memory, memory, COUNT, WEFT_INT32, WEFT_MAX, NULL, &req);
        if (me->rank == 2 && i == 5) {
            job_kill(me, 2);
        }
        if (status == WEFT_OK) {
            status = weft_wait(req, JOB_WAIT_MS);
        }
        weft_release(req);
        req = NULL;
    }
    if (status != WEFT_ERR_BROKEN) CHECK_STATUS(WEFT_ERR_PEER, status); /* which tells what it was */
    CHECK_NAMES(weft_last_error(), 1U << 2, RANKS);
    for (int i = 0; i < COUNT; i++) memory[i] = i;
    CHECK_OK(weft_all_reduce(pair, memory, memory, COUNT, WEFT_INT32, WEFT_SUM, NULL, NULL));
    check_counts(memory, 2, 0);
    CHECK_OK(weft_mem_free(me->world, memory));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("aligned and zeroed", .ranks = RANKS, .body = zeroed),
        JOB_TEST("a limit is told", .ranks = 2, .body = as_many_as_there_are),
        JOB_TEST("ends with the context", .ranks = RANKS, .body = left),
        JOB_TEST("ends with the context of one thread", .ranks = RANKS, .body = left, .threads = true),
        JOB_TEST("collectives", .ranks = RANKS, .body = collectives),
        JOB_TEST("collectives of threads", .ranks = RANKS, .body = collectives, .threads = true),
        JOB_TEST("many in flight", .ranks = RANKS, .body = in_flight),
        JOB_TEST("all_reduce of two", .ranks = 2, .body = all_reduce_of_two),
        JOB_TEST("all_reduce of two of many", .ranks = 16, .body = all_reduce_of_two),
        JOB_TEST("large all_reduce", .ranks = RANKS, .body = large_all_reduce),
        JOB_TEST("large all_reduce of threads", .ranks = 2, .body = large_all_reduce, .threads = true),
        JOB_TEST("messages", .ranks = RANKS, .body = messages),
        JOB_TEST("one rank", .ranks = 1, .body = one_rank),
        JOB_TEST("random, one thread", .ranks = 2, .body = program_run, .arg = &(program){11, 1, 200, true}),
        JOB_TEST("random, two threads", .ranks = 4, .body = program_run, .arg = &(program){12, 2, 100, true}),
        JOB_TEST("random, many ranks", .ranks = 8, .body = program_run, .arg = &(program){13, 1, 60, true}),
        JOB_TEST("refused", .ranks = 2, .body = refused),
        JOB_TEST("freeing", .ranks = 2, .body = freeing),
        JOB_TEST("mismatch", .ranks = RANKS, .body = mismatch),
        JOB_TEST("too much", .ranks = RANKS, .body = too_much),
        JOB_TEST("late", .ranks = RANKS, .body = late),
        JOB_TEST("given up", .ranks = RANKS, .body = given_up, .processes = true),
        JOB_TEST("death", .ranks = RANKS, .body = death, .processes = true, .killed = 1U << 2),
    };
    return JOB_MAIN(tests, argc, argv);
}
