/* test_several.c - several backends in one context, chosen by kind of memory: CUDA's on the emulation, the toy's that
 * was built outside of the tree (tests/tools/backend), and in host memory the toy's again beside the library's own. */
#include "device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/cuda.h>

enum { COUNT = 1000, ROUNDS = 20, LARGE = 1 << 18, SHORT_MS = 300 };

/* A buffer of int32 in memory of that kind. */
static int32_t *buffer_of(job_rank *me, weft_memory memory, size_t count)
{
    return memory == WEFT_MEMORY_CUDA    ? job_buffer(me, count * sizeof(int32_t))
           : memory == WEFT_MEMORY_OTHER ? device_toy(count * sizeof(int32_t))
                                         : job_alloc(me, count * sizeof(int32_t));
}

static void put(weft_memory memory, int32_t *to, int32_t value)
{
    if (memory == WEFT_MEMORY_CUDA) {
        job_put_int(to, value);
    } else {
        *to = value;
    }
}

static int32_t get(weft_memory memory, const int32_t *from)
{
    return memory == WEFT_MEMORY_CUDA ? job_get_int(from) : *from;
}

static weft_request *begin_sum(weft_group *group, weft_memory memory, int32_t *at, size_t count)
{
    const weft_call call = {.memory = memory, .stream = WEFT_NO_STREAM};
    weft_request *req = NULL;
    CHECK_OK(weft_all_reduce(group, at, at, count, WEFT_INT32, WEFT_SUM, &call, &req));
    return req;
}

static const weft_memory kinds[] = {WEFT_MEMORY_CUDA, WEFT_MEMORY_OTHER, WEFT_MEMORY_HOST};
static const char *const moved_by[] = {"nccl", "toy", ""};
enum { KINDS = 3 };

static void sums_work(job_rank *me, weft_group *group)
{
    int32_t *at[KINDS];
    weft_request *req[KINDS];
    int size = weft_group_size(group), rank = weft_group_rank(group);
    for (int k = 0; k < KINDS; k++) {
        at[k] = buffer_of(me, kinds[k], COUNT);
        put(kinds[k], &at[k][COUNT - 1], rank + k);
    }
    for (int k = 0; k < KINDS; k++) req[k] = begin_sum(group, kinds[k], at[k], COUNT);
    for (int k = KINDS - 1; k >= 0; k--) {
        WAIT_STATUS(WEFT_OK, req[k]);
        CHECK_INT(job_info(req[k]).memory, kinds[k]);
        CHECK_TEXT(job_info(req[k]).algorithm, moved_by[k]);
        CHECK_INT(get(kinds[k], &at[k][COUNT - 1]), size * (size - 1) / 2 + k * size);
        weft_release(req[k]);
    }
}

/* All are under way at the same time, on two groups whose operations each rank mixes in its own way. */
static void at_the_same_time(job_rank *me)
{
    weft_group *groups[2] = {me->world, job_group(me, me->size, "other", 0)};
    int32_t *at[2][KINDS];
    weft_request *req[ROUNDS][2][KINDS];
    CHECK_TEXT(weft_backends(me->ctx), "host,nccl,toy");
    for (int g = 0; g < 2; g++)
        for (int k = 0; k < KINDS; k++) at[g][k] = buffer_of(me, kinds[k], ROUNDS);
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < 2; i++) {
            int g = (i + me->rank + round) % 2;
            for (int k = 0; k < KINDS; k++) {
                put(kinds[k], &at[g][k][round], me->rank + round);
                req[round][g][k] = begin_sum(groups[g], kinds[k], &at[g][k][round], 1);
            }
        }
    for (int round = 0; round < ROUNDS; round++)
        for (int g = 0; g < 2; g++)
            for (int k = 0; k < KINDS; k++) {
                WAIT_OK(req[round][g][k]);
                CHECK_INT(get(kinds[k], &at[g][k][round]), me->size * (me->size - 1) / 2 + round * me->size);
            }
    CHECK_OK(weft_group_free(groups[1]));
}

/* Memory tells by itself whose it is. */
static void found_from_pointers(job_rank *me)
{
    int32_t *at[KINDS];
    for (int k = 0; k < KINDS; k++) {
        weft_request *req = NULL;
        at[k] = buffer_of(me, kinds[k], 2);
        CHECK_OK(weft_broadcast(me->world, at[k], 1, WEFT_INT32, 0, NULL, &req));
        CHECK_INT(job_info(req).memory, kinds[k]);
        WAIT_OK(req);
    }
    CHECK_STATUS(WEFT_ERR_ARGUMENT,
                 weft_all_reduce(me->world, at[0], at[1], 1, WEFT_INT32, WEFT_SUM, NULL, NULL));
    CHECK_TEXT(weft_last_error(), "in is device memory, out other memory");
}

/* A message in one kind of memory is none for a receive in another; a probe tells which it is. */
static void messages(job_rank *me)
{
    for (int i = 0; i < KINDS * KINDS; i++) {
        int sent = i % KINDS, wanted = i / KINDS;
        const weft_call sends = {.memory = kinds[sent], .stream = WEFT_NO_STREAM},
                        receives_in = {.memory = kinds[wanted], .stream = WEFT_NO_STREAM};
        weft_request *req = NULL, *found = NULL;
        if (me->rank == 0) {
            int32_t *at = buffer_of(me, kinds[sent], 1);
            put(kinds[sent], at, 77 + i);
            CHECK_OK(weft_isend(me->world, at, 1, WEFT_INT32, 1, i, &sends, &req));
            WAIT_OK(req);
        } else if (me->rank == 1) {
            int32_t *at = buffer_of(me, kinds[wanted], 1);
            CHECK_OK(weft_probe(me->world, 0, i, NULL, &found));
            WAIT_STATUS(WEFT_OK, found);
            CHECK_INT(job_info(found).memory, kinds[sent]);
            CHECK_OK(i % 2 ? weft_irecv(me->world, at, 1, WEFT_INT32, 0, i, &receives_in, &req)
                           : weft_receive_probed(found, at, 1, WEFT_INT32, &receives_in, &req));
            weft_release(found);
            WAIT_STATUS(sent == wanted ? WEFT_OK : WEFT_ERR_MISMATCH, req);
            if (sent == wanted) {
                CHECK_INT(get(kinds[wanted], at), 77 + i);
            } else if (sent == 0 && wanted == 1) {
                CHECK_TEXT(weft_request_message(req),
                           "sent int32 in device memory, this receive is for int32 in other");
            }
            weft_release(req);
        }
        job_meet(me);
    }
    sums_work(me, me->world);
}

static void batches(job_rank *me)
{
    int32_t *at[KINDS][2];
    weft_batch *batch = NULL;
    weft_request *whole = NULL;
    for (int k = 0; k < KINDS; k++)
        for (int i = 0; i < 2; i++) {
            at[k][i] = buffer_of(me, kinds[k], 1);
            put(kinds[k], at[k][i], me->rank + k + i);
        }
    CHECK_OK(weft_batch_begin(me->world, &batch));
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < KINDS; k++) {
            const weft_call call = {.memory = kinds[k], .stream = WEFT_NO_STREAM, .batch = batch};
            CHECK_OK(weft_all_reduce(me->world, at[k][i], at[k][i], 1, WEFT_INT32, WEFT_SUM, &call, NULL));
        }
    CHECK_OK(weft_batch_end(batch, NULL, &whole));
    WAIT_OK(whole);
    for (int k = 0; k < KINDS; k++)
        for (int i = 0; i < 2; i++)
            CHECK_INT(get(kinds[k], at[k][i]), me->size * (me->size - 1) / 2 + (k + i) * me->size);
}

static void splits_and_memory(job_rank *me)
{
    weft_group *half = NULL;
    sums_work(me, me->world); /* both have a communicator, of which only one can be split */
    CHECK_OK(weft_split_group(me->world, me->rank % 2, 0, NULL, &half, NULL));
    sums_work(me, half);
    for (int k = 0; k < KINDS; k++) {
        void *memory = NULL;
        CHECK_OK(weft_mem_alloc(half, 4096, kinds[k], &memory));
        put(kinds[k], memory, me->rank);
        weft_request *req = begin_sum(half, kinds[k], memory, 16);
        WAIT_OK(req);
        CHECK_OK(weft_mem_free(half, memory));
    }
    CHECK_OK(weft_group_free(half));
}

/* Whichever of the two an operation fails on, the group is broken for both, and no other group is. */
static void breaks(job_rank *me)
{
    for (int k = 0; k < 2; k++) {
        weft_group *group = job_group(me, me->size, "breaks", 0);
        int32_t *at[2] = {buffer_of(me, kinds[0], LARGE), buffer_of(me, kinds[1], LARGE)};
        sums_work(me, group);
        weft_request *first = NULL, *second = NULL;
        if (me->rank) { /* rank 0 does not come to these */
            first = begin_sum(group, kinds[k], at[k], LARGE);
            second = begin_sum(group, kinds[1 - k], at[1 - k], LARGE);
        }
        job_meet(me); /* or the group could be broken before rank 2 has called */
        if (me->rank) {
            if (me->rank == 1) weft_cancel(first);
            WAIT_STATUS(WEFT_ERR_CANCELLED, first);
            WAIT_STATUS(WEFT_ERR_BROKEN, second);
            weft_release(first);
            weft_release(second);
        }
        CHECK_STATUS(WEFT_ERR_CANCELLED, job_await_break(group, job_wait_ms()));
        for (int i = 0; i < KINDS; i++) {
            const weft_call call = {.memory = kinds[i], .stream = WEFT_NO_STREAM};
            CHECK_STATUS(WEFT_ERR_BROKEN, weft_barrier(group, &call, NULL));
        }
        sums_work(me, me->world);
        CHECK_OK(weft_group_free(group));
    }
}

static weft_status barrier_in(weft_group *group, weft_memory memory)
{
    const weft_call call = {.memory = memory, .stream = WEFT_NO_STREAM};
    return weft_barrier(group, &call, NULL);
}

/* The toy has no streams. */
static void streams(job_rank *me)
{
    int32_t *at = device_toy(sizeof *at);
    weft_call call = {.stream = device_stream(1)};
    weft_request *req = NULL;
    CHECK_STATUS(WEFT_ERR_UNSUPPORTED,
                 weft_all_reduce(me->world, at, at, 1, WEFT_INT32, WEFT_SUM, &call, &req));
    CHECK_TEXT(weft_last_error(), "backend toy has no streams");
    call.stream = NULL;
    CHECK_OK(weft_all_reduce(me->world, at, at, 1, WEFT_INT32, WEFT_SUM, &call, &req));
    weft_status status = weft_stream_wait(req, device_stream(1)); /* it may be over by now */
    CHECK(status == WEFT_OK || status == WEFT_ERR_UNSUPPORTED);
    if (status != WEFT_OK) CHECK_TEXT(weft_last_error(), "backend toy has no streams");
    WAIT_OK(req);
}

/* One whose call does not return is lost; the other goes on. */
static void lost_alone(job_rank *me)
{
    int32_t *at = device_toy(sizeof *at), blocked = 0;
    weft_call call = {.memory = WEFT_MEMORY_CUDA, .stream = WEFT_NO_STREAM, .timeout_ms = SHORT_MS};
    job_setenv(me, "WEFT_BACKENDS", "host,blocker,toy");
    job_setenv(me, "BLOCKER_MS", "8000");
    job_setenv(me, "WEFT_DRAIN_MS", "700");
    setenv("JOB_MEMORY", "toy", 1);
    job_join(me);
    weft_group *group = job_group(me, me->size, "blocked", 0);
    job_meet(me);
    CHECK(weft_all_reduce(group, &blocked, &blocked, 1, WEFT_INT32, WEFT_SUM, &call, NULL) < 0);
    CHECK(job_await_break(group, job_late_ms()) < 0);
    for (int ms = 0; barrier_in(group, WEFT_MEMORY_CUDA) == WEFT_ERR_BROKEN && ms < job_late_ms(); ms++)
        job_sleep_ms(1); /* it has settled just before that is noted */
    CHECK_STATUS(WEFT_ERR_SYSTEM, barrier_in(me->world, WEFT_MEMORY_CUDA));
    CHECK_TEXT(weft_last_error(), "device 0 is lost");
    for (int round = 0; round < ROUNDS; round++) {
        *at = me->rank + round;
        weft_request *req = begin_sum(me->world, WEFT_MEMORY_OTHER, at, 1);
        WAIT_OK(req);
        CHECK_INT(*at, me->size * (me->size - 1) / 2 + round * me->size);
    }
    job_sum_works(me->world);
}

/* ---- other lists of backends ---- */

/* Rank 1 has not the toy: nobody uses it where rank 1 is, and all say so at once. */
static void unlike(job_rank *me)
{
    void *memory = NULL;
    if (me->rank == 1) {
        job_setenv(me, "WEFT_BACKENDS", "host,nccl");
    }
    job_join(me);
    CHECK_STATUS(WEFT_ERR_UNSUPPORTED, barrier_in(me->world, WEFT_MEMORY_OTHER));
    CHECK_TEXT(weft_last_error(), me->rank == 1 ? "no backend of this context moves other memory" : "rank 1");
    if (me->rank != 1) {
        CHECK_TEXT(weft_last_error(), "has no backend toy like this rank's");
        CHECK_STATUS(WEFT_ERR_UNSUPPORTED, weft_mem_alloc(me->world, 64, WEFT_MEMORY_OTHER, &memory));
    }
    CHECK_OK(barrier_in(me->world, WEFT_MEMORY_CUDA));
    job_sum_works(me->world);
    if (me->rank != 1) {
        weft_group *group = NULL;
        CHECK_OK(weft_new_group(me->world, (int[]){0, 2}, 2, NULL, &group, NULL));
        sums_work(me, group);
        CHECK_OK(weft_group_free(group));
    }
}

/* In host memory a backend takes what its `check` accepts, and the library the rest. */
static void host_memory(job_rank *me)
{
    int32_t *in = job_alloc(me, COUNT * sizeof *in), *out = job_alloc(me, COUNT * 4 * sizeof *out);
    double *real = job_alloc(me, COUNT * sizeof *real);
    weft_request *req = NULL;
    job_setenv(me, "WEFT_BACKENDS", "host,nccl,toyhost");
    job_join(me);
    CHECK_TEXT(weft_backends(me->ctx), "host,nccl,toyhost");
    for (int round = 0; round < ROUNDS; round++) {
        in[0] = me->rank + round;
        CHECK_OK(weft_all_reduce(me->world, in, out, COUNT, WEFT_INT32, WEFT_SUM, NULL, &req));
        WAIT_STATUS(WEFT_OK, req);
        CHECK_TEXT(job_info(req).algorithm, "toyhost");
        CHECK_INT(job_info(req).memory, WEFT_MEMORY_HOST);
        CHECK_INT(out[0], me->size * (me->size - 1) / 2 + round * me->size);
        weft_release(req);
        real[0] = me->rank;
        CHECK_OK(weft_all_reduce(me->world, real, real, COUNT, WEFT_FLOAT64, WEFT_AVG, NULL, &req));
        WAIT_STATUS(WEFT_OK, req);
        CHECK(!strstr(job_info(req).algorithm, "toyhost"));
        CHECK(real[0] * 2 == me->size - 1);
        weft_release(req);
    }
    CHECK_OK(weft_all_gather(me->world, in, out, 1, WEFT_INT32, NULL, NULL));
    CHECK_INT(out[me->size - 1], me->size - 1 + ROUNDS - 1);
    job_message_works(me->world, 0, 1, 3);
    CHECK_OK(weft_barrier(me->world, NULL, NULL));
    job_sum_works(me->world); /* on the device too */
}

/* Where not all have it the library does it, and nobody is told: the result is the same. */
static void host_memory_unlike(job_rank *me)
{
    int32_t value = me->rank;
    weft_request *req = NULL;
    job_setenv(me, "WEFT_BACKENDS", me->rank ? "host,nccl,toyhost" : "host,nccl");
    job_join(me);
    CHECK_OK(weft_all_reduce(me->world, &value, &value, 1, WEFT_INT32, WEFT_SUM, NULL, &req));
    WAIT_STATUS(WEFT_OK, req);
    CHECK(!strstr(job_info(req).algorithm, "toyhost"));
    CHECK_INT(value, me->size * (me->size - 1) / 2);
    weft_release(req);
}

/* Ranks at odds about an operation are told by whichever way each of them would have gone. */
static void host_memory_mismatch(job_rank *me)
{
    int32_t value[2] = {1, 2};
    job_setenv(me, "WEFT_BACKENDS", "host,nccl,toyhost");
    job_join(me);
    weft_status status = me->rank
                             ? weft_all_reduce(me->world, value, value, 2, WEFT_INT32, WEFT_SUM, NULL, NULL)
                             : weft_all_reduce(me->world, value, value, 2, WEFT_INT32, WEFT_BXOR, NULL, NULL);
    CHECK_STATUS(WEFT_ERR_MISMATCH, status);
    CHECK_TEXT(weft_last_error(), "by a module");
}

/* Program order is one of devices: what a backend does in host memory it does when all ranks have agreed. */
static void host_memory_in_program_order(job_rank *me)
{
    int32_t value = me->rank;
    weft_request *req = NULL;
    job_setenv(me, "WEFT_BACKENDS", "host,nccl,toyhost");
    job_setenv(me, "WEFT_DEVICE_ORDER", "program");
    job_join(me);
    CHECK_OK(
        weft_all_reduce(me->world, &value, &value, 1, WEFT_INT32, WEFT_SUM, NULL, NULL)); /* all is made */
    CHECK_INT(value, me->size * (me->size - 1) / 2);
    value = me->rank;
    job_meet(me);
    if (me->rank == 1) job_await(me, 0, 1);
    CHECK_OK(weft_all_reduce(me->world, &value, &value, 1, WEFT_INT32, WEFT_SUM, NULL, &req));
    if (me->rank == 0) {
        weft_request_info info;
        CHECK_STATUS(WEFT_PENDING, weft_wait(req, 50));
        weft_request_get_info(req, &info);
        CHECK(!info.algorithm || !strstr(info.algorithm, "toyhost"));
        job_mark(me, 0);
    }
    WAIT_STATUS(WEFT_OK, req);
    CHECK_TEXT(job_info(req).algorithm, "toyhost");
    weft_release(req);
    CHECK_INT(value, me->size * (me->size - 1) / 2);
}

static void two_of_a_kind(job_rank *me)
{
    char url[64];
    weft_config config = job_config(me, url, 0);
    job_setenv(me, "WEFT_MODULE_DIR", TEST_MODULE_DIR);
    config.backends = "host,blocker,serial";
    CHECK_STATUS(WEFT_ERR_UNSUPPORTED, weft_init(&config, &me->ctx));
    CHECK_TEXT(weft_last_error(),
               "backends blocker and serial both move device memory: expected one of them");
    me->ctx = NULL;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("at the same time", .ranks = 3, .body = at_the_same_time),
        JOB_TEST("found from pointers", .ranks = 2, .body = found_from_pointers),
        JOB_TEST("messages", .ranks = 2, .body = messages),
        JOB_TEST("batches", .ranks = 3, .body = batches),
        JOB_TEST("splits and memory", .ranks = 4, .body = splits_and_memory),
        JOB_TEST("breaks", .ranks = 3, .body = breaks),
        JOB_TEST("streams", .ranks = 2, .body = streams),
        JOB_TEST("lost alone", .ranks = 2, .body = lost_alone, .bare = true, .processes = true),
        JOB_TEST("not all ranks have both", .ranks = 3, .body = unlike, .bare = true, .processes = true),
        JOB_TEST("host memory", .ranks = 3, .body = host_memory, .bare = true, .processes = true),
        JOB_TEST("host memory, not all have it", .ranks = 3, .body = host_memory_unlike, .bare = true,
                 .processes = true),
        JOB_TEST("host memory, at odds", .ranks = 2, .body = host_memory_mismatch, .bare = true,
                 .processes = true),
        JOB_TEST("host memory, in program order", .ranks = 2, .body = host_memory_in_program_order,
                 .bare = true, .processes = true),
        JOB_TEST("two of a kind", .ranks = 1, .body = two_of_a_kind, .bare = true, .processes = true),
    };
    return JOB_MAIN(tests, argc, argv);
}
