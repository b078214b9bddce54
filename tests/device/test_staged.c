/* test_staged.c - device memory by way of the host: that nothing of it blocks, what becomes of it when time runs out or
 * it is cancelled, and who gets it. */
#include "collective.h"
#include "device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/cuda.h>

enum { RANKS = 3, LONG = 3 << 20, PIECE = 512 * 1024, HELD_US = 400000 };

static uint64_t calls(const char *function)
{
    return device_is_emulated() ? device()->emu_calls(function) : 0;
}

static void fill(int32_t *at, size_t count, int32_t first)
{
    int32_t *image = malloc(count * sizeof *image);
    CHECK(image);
    for (size_t i = 0; i < count; i++) image[i] = first + (int32_t)i;
    job_put(at, image, count * sizeof *image);
    free(image);
}

/* `times` the number that fill has put there, and `more`. */
static void check_filled(const int32_t *at, size_t count, int32_t times, int32_t more)
{
    int32_t *image = malloc(count * sizeof *image);
    size_t wrong = 0;
    CHECK(image);
    job_get(image, at, count * sizeof *image);
    for (size_t i = 0; i < count; i++) wrong += image[i] != (int32_t)i * times + more;
    free(image);
    CHECK_INT(wrong, 0);
}

/* The host goes on while the caller's stream is held up, and a stream goes on behind the sum. */
static void goes_on(job_rank *me)
{
    int32_t *sum = job_buffer(me, LONG), *copy = job_buffer(me, LONG);
    const weft_call after = {.stream = device_stream(0)};
    weft_request *req = NULL;
    size_t count = LONG / sizeof *sum;
    fill(sum, count, me->rank);
    CHECK_OK(
        weft_all_reduce(me->world, sum, copy, count, WEFT_INT32, WEFT_SUM, NULL, NULL)); /* all is made */
    job_meet(me);
    int64_t before = job_now_ns();
    uint64_t blocking = device_is_emulated() ? device()->emu_blocking_calls() : 0,
             copies = calls("cudaMemcpyAsync");
    device_delay(device_stream(0), HELD_US);
    CHECK_OK(weft_all_reduce(me->world, sum, sum, count, WEFT_INT32, WEFT_SUM, &after, &req));
    CHECK(!weft_is_completed(req));
    CHECK_OK(weft_wait(req, WEFT_FOREVER));
    CHECK_PERIOD(before, job_now_ns(), HELD_US / 1000, INT32_MAX);
    if (device_is_emulated()) { /* a process has several ranks where these are threads */
        CHECK_INT(device()->emu_blocking_calls() - blocking, 0);
        CHECK(calls("cudaMemcpyAsync") - copies >= 2 * LONG / PIECE);
    }
    weft_release(req);
    job_meet(me);
    check_filled(sum, count, RANKS, RANKS * (RANKS - 1) / 2);
    fill(sum, count, me->rank);
    device_sync(NULL);
    CHECK_OK(weft_all_reduce(me->world, sum, sum, count, WEFT_INT32, WEFT_SUM, &after, &req));
    CHECK_OK(weft_stream_wait(req, device_stream(1)));
    device_copy(copy, sum, LONG, device_stream(1)); /* the emulation tells where nothing orders it */
    device_sync(device_stream(1));
    CHECK_OK(weft_wait(req, WEFT_FOREVER));
    weft_release(req);
    check_filled(copy, count, RANKS, RANKS * (RANKS - 1) / 2);
}

/* One rank's stream does not come to its mark: all settle at their deadline, and nothing is queued behind it. */
static void held_up(job_rank *me)
{
    int32_t *sum = job_buffer(me, LONG);
    weft_group *group = job_group(me, RANKS, "held", 0);
    const weft_call call = {.stream = device_stream(0), .timeout_ms = job_short_ms()};
    const weft_call made = {.stream = WEFT_NO_STREAM};
    CHECK_OK(weft_all_reduce(group, sum, sum, LONG / 4, WEFT_INT32, WEFT_SUM, &made, NULL));
    job_meet(me);
    if (me->rank == 1) device_delay(device_stream(0), 1000 * (int)(job_short_ms() + 3000));
    int64_t before = job_results(me, me->rank)[0] = job_now_ns();
    weft_request *req = NULL;
    CHECK_OK(weft_all_reduce(group, sum, sum, LONG / 4, WEFT_INT32, WEFT_SUM, &call, &req));
    weft_status status = weft_wait(req, WEFT_FOREVER);
    CHECK(status == WEFT_ERR_TIMEOUT || status == WEFT_ERR_BROKEN);
    CHECK_PERIOD(job_earliest(me, 0), job_now_ns(), job_short_ms(), INT32_MAX);
    CHECK_PERIOD(before, job_now_ns(), 0, job_short_ms() + job_late_ms());
    weft_request_info info;
    weft_request_get_info(req, &info);
    CHECK(!info.buffers_held);
    weft_release(req);
    job_meet(me);
    job_sum_works(me->world);
}

/* Cancelled at any point of its way: it is over soon, on all ranks, and other groups go on. */
static void cancelled(job_rank *me)
{
    int32_t *sum = job_buffer(me, LONG);
    const weft_call call = {.stream = WEFT_NO_STREAM};
    for (int round = 0; round < 8; round++) {
        weft_group *group = job_group(me, RANKS, "cancelled", 0);
        weft_request *reqs[4];
        for (int i = 0; i < 4; i++) { /* another rank may have cancelled by now */
            weft_status status =
                weft_all_reduce(group, sum, sum, LONG / 4, WEFT_INT32, WEFT_SUM, &call, &reqs[i]);
            CHECK(status == WEFT_OK || status == WEFT_ERR_BROKEN);
            if (status != WEFT_OK) reqs[i] = NULL;
        }
        if (me->rank == round % RANKS) {
            job_sleep_ms(round);
            weft_cancel(reqs[round % 4] ? reqs[round % 4] : reqs[0]);
        }
        int64_t before = job_now_ns();
        weft_wait_all(reqs, 4, WEFT_FOREVER);
        CHECK_PERIOD(before, job_now_ns(), 0, job_late_ms());
        for (int i = 0; i < 4; i++) weft_release(reqs[i]);
        CHECK_OK(weft_group_free(group));
    }
    job_sum_works(me->world);
}

static void note(weft_request *req, weft_status status, void *arg)
{
    weft_status *settled = arg;
    if (status != WEFT_OK) fprintf(stderr, "%s\n", weft_request_message(req));
    *settled = status;
}

/* Nothing has been made yet, and no piece has begun, when the context is finalized: it waits for all of it. */
static void finalized_amid(job_rank *me)
{
    weft_status settled = WEFT_PENDING;
    weft_request *req = NULL;
    job_join(me);
    int32_t *sum = job_buffer(me, LONG);
    const weft_call call = {.stream = device_stream(0), .done = note, .arg = &settled};
    fill(sum, LONG / sizeof *sum, me->rank);
    device_delay(device_stream(0), HELD_US);
    CHECK_OK(weft_all_reduce(me->world, sum, sum, LONG / 4, WEFT_INT32, WEFT_SUM, &call, &req));
    weft_release(req);
    CHECK_OK(weft_finalize(me->ctx, job_wait_ms()));
    me->ctx = NULL;
    me->world = NULL;
    CHECK_INT(settled, WEFT_OK);
    check_filled(sum, LONG / sizeof *sum, RANKS, RANKS * (RANKS - 1) / 2);
}

/* Nobody has asked for it, and NCCL cannot run. */
static void instead(job_rank *me)
{
    job_setenv(me, "WEFT_BACKENDS", "");
    if (!device_is_emulated()) return;
    device()->emu_script("ncclGetVersion@*=error:3");
    job_join(me);
    CHECK_TEXT(weft_backends(me->ctx), "host,staged");
    CHECK(weft_device(me->ctx) >= 0);
    CHECK(!weft_nccl_communicator(me->world));
    CHECK_TEXT(weft_last_error(), "no backend of this context is NCCL");
    job_sum_works(me->world);
}

/* What NCCL has not: 16-bit integers, bool, bits. */
static void types(job_rank *me)
{
    int16_t *numbers = job_buffer(me, 3 * sizeof *numbers), image[3] = {1, -2, (int16_t)(1 << me->rank)};
    bool *flag = job_buffer(me, 1), any = me->rank == 1;
    job_put(numbers, image, sizeof image);
    job_put(flag, &any, 1);
    CHECK_OK(weft_all_reduce(me->world, numbers, numbers, 2, WEFT_INT16, WEFT_SUM, NULL, NULL));
    CHECK_OK(weft_all_reduce(me->world, numbers + 2, numbers + 2, 1, WEFT_INT16, WEFT_BOR, NULL, NULL));
    CHECK_OK(weft_all_reduce(me->world, flag, flag, 1, WEFT_BOOL, WEFT_BOR, NULL, NULL));
    job_get(image, numbers, sizeof image);
    job_get(&any, flag, 1);
    CHECK_INT(image[0], RANKS);
    CHECK_INT(image[1], -2 * RANKS);
    CHECK_INT(image[2], (1 << RANKS) - 1);
    CHECK(any);
    CHECK_STATUS(WEFT_ERR_UNSUPPORTED,
                 weft_all_reduce(me->world, flag, flag, 1, WEFT_BOOL, WEFT_SUM, NULL, NULL));
    CHECK_TEXT(weft_last_error(), "all_reduce: sum does not exist on bool");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("goes on", .ranks = RANKS, .body = goes_on),
        JOB_TEST("held up", .ranks = RANKS, .body = held_up),
        JOB_TEST("cancelled", .ranks = RANKS, .body = cancelled),
        JOB_TEST("finalized amid", .ranks = RANKS, .body = finalized_amid, .bare = true, .processes = true),
        JOB_TEST("instead of NCCL", .ranks = RANKS, .body = instead, .bare = true, .processes = true),
        JOB_TEST("types", .ranks = RANKS, .body = types),
    };
    return JOB_MAIN(tests, argc, argv);
}
