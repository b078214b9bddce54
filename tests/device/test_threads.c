/* test_threads.c - one process with several devices: a context for each, worked with by a thread of its own. */
#include "collective.h"
#include "device.h"

#include <stdlib.h>
#include <weft/cuda.h>

enum { RANKS = 4, COUNT = 64, ROUNDS = 10, ODD = 1 };
static const size_t bytes = COUNT * sizeof(int32_t);

static int32_t *numbers(job_rank *me)
{
    int32_t image[COUNT], *at = job_buffer(me, bytes);
    for (int i = 0; i < COUNT; i++) image[i] = i + me->rank;
    job_put(at, image, bytes);
    return at;
}

/* In a group of those ranks of the world. */
static void sum_in(weft_group *group, const int *ranks, int n, int32_t *in, int32_t *out)
{
    int32_t image[COUNT];
    int all = 0;
    CHECK_OK(weft_all_reduce(group, in, out, COUNT, WEFT_INT32, WEFT_SUM, NULL, NULL));
    for (int i = 0; i < n; i++) all += ranks[i];
    job_get(image, out, bytes);
    for (int i = 0; i < COUNT; i++) CHECK_INT(image[i], i * n + all);
}

static void sum_works(job_rank *me, weft_group *group, const int *ranks, int n)
{
    sum_in(group, ranks, n, numbers(me), job_buffer(me, bytes));
}

static const int everybody[RANKS] = {0, 1, 2, 3}, but_odd[RANKS - 1] = {0, 2, 3},
                 halves[2][2] = {{0, 1}, {2, 3}};

/* NULL: not of this rank. */
static weft_group *group_of(job_rank *me, const int *ranks, int n, const char *label)
{
    const weft_call call = {.label = label};
    weft_group *group = NULL;
    for (int i = 0; i < n; i++)
        if (ranks[i] == me->rank) CHECK_OK(weft_new_group(me->world, ranks, n, &call, &group, NULL));
    return group;
}

/* ---- all of it ---- */

static void every_collective(job_rank *me)
{
    CHECK_INT(weft_device(me->ctx), device_of(me->rank));
    for (int kind = 0; kind < BARRIER; kind++)
        for (int round = 0; round < 3; round++) {
            const collective what = {.kind = (collective_kind)kind,
                                     .dtype = WEFT_FLOAT32,
                                     .op = WEFT_MAX,
                                     .count = COUNT,
                                     .root = (kind + round) % RANKS,
                                     .seed = (uint64_t)(kind * 10 + round)};
            collective_run(me->world, &what);
        }
}

/* Everyone to everyone, alone and as a batch. */
static void every_message(job_rank *me)
{
    for (int batched = 0; batched < 2; batched++) {
        int32_t image[RANKS * COUNT], *in = numbers(me), *out = job_buffer(me, RANKS * bytes);
        weft_request *reqs[2 * RANKS] = {NULL}, *whole = NULL;
        weft_call call = {.stream = WEFT_NO_STREAM};
        if (batched) CHECK_OK(weft_batch_begin(me->world, &call.batch));
        for (int peer = 0; peer < RANKS; peer++) {
            CHECK_OK(weft_irecv(me->world, out + peer * COUNT, COUNT, WEFT_INT32, peer, 7, &call,
                                batched ? NULL : &reqs[peer]));
            CHECK_OK(weft_isend(me->world, in, COUNT, WEFT_INT32, peer, 7, &call,
                                batched ? NULL : &reqs[RANKS + peer]));
        }
        if (batched) {
            CHECK_OK(weft_batch_end(call.batch, NULL, &whole));
            WAIT_OK(whole);
            weft_release(whole);
        }
        for (int i = 0; i < 2 * RANKS && !batched; i++) {
            WAIT_OK(reqs[i]);
            weft_release(reqs[i]);
        }
        job_get(image, out, RANKS * bytes);
        for (int i = 0; i < RANKS * COUNT; i++) CHECK_INT(image[i], i % COUNT + i / COUNT);
    }
}

/* What is one group call of each rank, with its own stream before and after it. */
static void a_batch(job_rank *me)
{
    int32_t image[2 * COUNT], *in = numbers(me), *out = job_buffer(me, 2 * bytes);
    weft_call call = {.stream = device_stream(1)};
    weft_request *req = NULL;
    device_delay(call.stream, 1000 * me->rank);
    CHECK_OK(weft_batch_begin(me->world, &call.batch));
    CHECK_OK(weft_all_reduce(me->world, in, out, COUNT, WEFT_INT32, WEFT_MIN, &call, NULL));
    CHECK_OK(weft_all_reduce(me->world, in, out + COUNT, COUNT, WEFT_INT32, WEFT_MAX, &call, NULL));
    CHECK_OK(weft_batch_end(call.batch, NULL, &req));
    WAIT_OK(req);
    weft_release(req);
    job_get(image, out, 2 * bytes);
    for (int i = 0; i < 2 * COUNT; i++) CHECK_INT(image[i], i < COUNT ? i : i % COUNT + RANKS - 1);
}

/* The halves at the same time, and all of them in between. */
static void in_groups(job_rank *me)
{
    const int *ranks = halves[me->rank / 2];
    weft_group *half = group_of(me, ranks, 2, "half");
    for (int round = 0; round < ROUNDS; round++) {
        sum_works(me, half, ranks, 2);
        if (round % 3 == 0) sum_works(me, me->world, everybody, RANKS);
    }
    CHECK_OK(weft_group_free(half));
}

static void all_of_it(job_rank *me)
{
    every_collective(me);
    every_message(me);
    a_batch(me);
    in_groups(me);
    job_meet(me);
}

/* Two threads of each rank, each with a group of its own: they submit in no order, which only the agreed one allows. */
typedef struct beside {
    weft_group *groups[2];
    int32_t *in, *out[2];
} beside;

static void sum_beside(job_rank *me, int thread, void *arg)
{
    const beside *b = arg;
    (void)me;
    for (int round = 0; round < ROUNDS; round++)
        sum_in(b->groups[thread], everybody, RANKS, b->in, b->out[thread]);
}

static void threads_of_each(job_rank *me)
{
    const weft_call agreed = {.order = WEFT_ORDER_AGREED};
    beside b = {.in = numbers(me), .out = {job_buffer(me, bytes), job_buffer(me, bytes)}};
    for (int i = 0; i < 2; i++)
        CHECK_OK(weft_new_group(me->world, everybody, RANKS, &agreed, &b.groups[i], NULL));
    job_threads(me, 2, sum_beside, &b);
    for (int i = 0; i < 2; i++) CHECK_OK(weft_group_free(b.groups[i]));
    job_meet(me);
}

/* ---- one that is in trouble, beside others ---- */

static void set_script(job_rank *me, const char *script)
{
    job_meet(me);
    if (me->rank == ODD) device()->emu_script(script);
    job_meet(me);
}

/* Its half ends by the deadline; the other one goes on meanwhile, and everybody after it. */
static void one_hangs(job_rank *me)
{
    const int *ranks = halves[me->rank / 2];
    weft_group *half = group_of(me, ranks, 2, "half");
    int32_t *in = numbers(me), *out = job_buffer(me, bytes);
    weft_request *req = NULL;
    if (!device_is_emulated()) return;
    sum_works(me, half, ranks, 2);
    sum_works(me, me->world, everybody, RANKS);
    if (me->rank / 2 == ODD / 2) CHECK_OK(weft_group_set_timeout(half, job_short_ms()));
    set_script(me, "dev1:ncclGroupEnd@1=hang");
    if (me->rank / 2 == ODD / 2) {
        weft_status status = weft_all_reduce(half, in, out, COUNT, WEFT_INT32, WEFT_SUM, NULL, &req);
        CHECK_OK(status);
        WAIT_STATUS(WEFT_ERR_TIMEOUT, req);
        CHECK_NAMES(weft_request_message(req), 1U << ODD, RANKS);
        weft_release(req);
        job_mark(me, 0);
    } else {
        for (int round = 0; round < ROUNDS; round++) sum_works(me, half, ranks, 2);
    }
    job_await(me, 0, 2);
    set_script(me, NULL);
    CHECK_STATUS(me->rank / 2 == ODD / 2 ? WEFT_ERR_TIMEOUT : WEFT_OK, weft_group_status(half));
    sum_works(me, me->world, everybody, RANKS);
    CHECK_OK(weft_group_free(half));
    job_meet(me);
}

/* A kernel of the program's has destroyed one device's context; the process's other devices are none the worse. */
static void one_dies(job_rank *me)
{
    weft_group *others = group_of(me, but_odd, RANKS - 1, "others");
    int32_t *in = numbers(me), *out = job_buffer(me, bytes);
    if (!device_is_emulated()) return;
    sum_works(me, me->world, everybody, RANKS);
    set_script(me, "dev1:cuPointerGetAttributes@1=error:700!");
    if (me->rank == ODD) {
        CHECK_STATUS(WEFT_ERR_SYSTEM,
                     weft_all_reduce(me->world, in, out, COUNT, WEFT_INT32, WEFT_SUM, NULL, NULL));
        CHECK_TEXT(weft_last_error(), "an illegal memory access was encountered");
    } else {
        for (int round = 0; round < ROUNDS; round++) sum_works(me, others, but_odd, RANKS - 1);
        CHECK_OK(weft_group_free(others));
    }
    job_host_sum_works(me->world);
    set_script(me, NULL);
}

/* A context of the process ends amid the others' work. */
static void one_leaves(job_rank *me)
{
    weft_group *others = group_of(me, but_odd, RANKS - 1, "others");
    sum_works(me, me->world, everybody, RANKS);
    job_meet(me);
    if (me->rank == ODD) {
        weft_abort(me->ctx, "it has done enough");
        me->ctx = NULL;
    } else {
        for (int round = 0; round < ROUNDS; round++) sum_works(me, others, but_odd, RANKS - 1);
        CHECK_OK(weft_group_free(others));
    }
    job_meet(me);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("all of it", .ranks = RANKS, .threads = true, .body = all_of_it),
        JOB_TEST("two threads of each rank", .ranks = RANKS, .threads = true, .body = threads_of_each),
        JOB_TEST("one device hangs", .ranks = RANKS, .threads = true, .body = one_hangs),
        JOB_TEST("one device dies", .ranks = RANKS, .threads = true, .body = one_dies),
        JOB_TEST("one context leaves", .ranks = RANKS, .threads = true, .body = one_leaves),
    };
    return JOB_MAIN(tests, argc, argv);
}
