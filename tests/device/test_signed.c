/* test_signed.c - program order over several hosts (JOB_HOSTS=2:blocks, WEFT_DEVICE_ORDER=program, which this program is run
 * with): what members mean is compared afterwards, by few messages, and whoever means something else is told of. */
#include "device.h"
#include "group_break.h"
#include "p2p.h"
#include "signatures.h"
#include "sum.h"

#include <stdio.h>
#include <string.h>

enum { RANKS = 4, ODD = 2 /* the first of its host */ };

/* ---- what this rank sends (the linker puts these in the place of the library's) ---- */

static atomic_int messages;

#define CONTROL weft__p2p *p2p, int peer, int type, const void *data, size_t length
#define SEND \
    weft__p2p *p2p, const weft__envelope *to, const void *data, size_t length, weft__completion *completion

weft_status __real_weft__p2p_control(CONTROL);
weft_status __wrap_weft__p2p_control(CONTROL);
weft__send *__real_weft__p2p_send(SEND);
weft__send *__wrap_weft__p2p_send(SEND);

weft_status __wrap_weft__p2p_control(CONTROL)
{
    atomic_fetch_add(&messages, 1);
    return __real_weft__p2p_control(p2p, peer, type, data, length);
}

weft__send *__wrap_weft__p2p_send(SEND)
{
    atomic_fetch_add(&messages, 1);
    return __real_weft__p2p_send(p2p, to, data, length, completion);
}

/* ---- a request that is released as its group breaks (likewise) ---- */

static atomic_bool breaks; /* the next one that is compared */

bool __real_weft__early_judge(weft_request *req);
bool __wrap_weft__early_judge(weft_request *req);

/* As by a thread that waited for it: its record is whose comes next, unless somebody still uses it. */
bool __wrap_weft__early_judge(weft_request *req)
{
    weft_group *group = req->group;
    weft_context *ctx = req->ctx;
    weft_request *next;
    if (!atomic_exchange(&breaks, false)) return __real_weft__early_judge(req);
    weft__group_break(group, &(weft__verdict){WEFT_ERR_CANCELLED, 0, -1, "enough of it"}, true);
    weft__request_unref(req);
    next = weft__request_take_held(ctx, group);
    CHECK(next && next != req);
    weft__group_unref_held(group);
    weft__slab_put_locked(&ctx->requests, next);
    return false;
}

/* ---- operations ---- */

static void sum_works(job_rank *me, weft_group *group, operands o)
{
    CHECK_OK(weft_all_reduce(group, o.in, o.out, COUNT, WEFT_INT32, WEFT_SUM, NULL, NULL));
    check_sum(me->size, o.out);
}

/* Back to back: one message for 32 of them, or for 10 ms, and none besides. */
static void by_few_messages(job_rank *me)
{
    enum { SUMS = 320, FOR_ONE = 32, MS = 10 };
    weft_request *reqs[SUMS];
    operands o = take_operands(me);
    sum_works(me, me->world, o);
    job_meet(me);
    job_sleep_ms(5 * MS);
    int before = atomic_load(&messages);
    sum_works(me, me->world, o);
    for (int ms = 0; atomic_load(&messages) == before && ms < job_late_ms(); ms++) job_sleep_ms(1);
    CHECK_INT(atomic_load(&messages), before + 1); /* it is told of alone, and nothing is left */
    job_meet(me);
    before = atomic_load(&messages);
    int64_t began = job_now_ns();
    for (int i = 0; i < SUMS; i++)
        CHECK_OK(weft_all_reduce(me->world, o.in, o.out, COUNT, WEFT_INT32, WEFT_SUM, NULL, &reqs[i]));
    for (int i = 0; i < SUMS; i++) WAIT_OK(reqs[i]);
    CHECK(atomic_load(&messages) - before <= SUMS / FOR_ONE + (int)((job_now_ns() - began) / (MS * 1000000)));
    CHECK(atomic_load(&messages) - before > 0);
    check_sum(me->size, o.out);
    job_meet(me);
}

/* One rank's means something else, and nothing follows, or more than one message's. */
static void one_differs(job_rank *me, int of, int at)
{
    char expected[48];
    weft_request *reqs[64] = {NULL};
    operands o = take_operands(me);
    weft_group *group = job_group(me, RANKS, "divided", 0);
    sum_works(me, group, o);
    job_meet(me);
    int64_t began = job_now_ns();
    for (int i = 1; i <= of; i++) {
        weft_op reduction = me->rank == ODD && i == at ? WEFT_MAX : WEFT_SUM;
        if (weft_all_reduce(group, o.in, o.out, COUNT, WEFT_INT32, reduction, NULL, &reqs[i - 1]) != WEFT_OK)
            break;
    }
    CHECK_INT(job_await_break(group, job_late_ms()), WEFT_ERR_MISMATCH);
    CHECK_PERIOD(began, job_now_ns(), 0, job_late_ms());
    snprintf(expected, sizeof expected, "operation #%d on group divided", at + 1);
    CHECK_TEXT(weft_last_error(), expected);
    CHECK_TEXT(weft_last_error(), "(sum)");
    CHECK_TEXT(weft_last_error(), "(max)");
    CHECK(me->rank == ODD ? strstr(weft_last_error(), "rank ") != NULL : job_names(weft_last_error(), ODD));
    for (int i = 0; i < of && reqs[i]; i++) {
        weft_status status = weft_wait(reqs[i], job_wait_ms());
        CHECK(status == WEFT_OK || status == WEFT_ERR_MISMATCH);
        weft_release(reqs[i]);
    }
    CHECK_OK(weft_group_free(group));
    job_meet(me);
    sum_works(me, me->world, o);
    job_meet(me);
}

static void differs(job_rank *me)
{
    static const int at[] = {1, 31, 32, 33};
    job_setenv(me, "CUDA_EMULATION_MISUSE", "report");
    job_join(me);
    operands o = take_operands(me);
    sum_works(me, me->world, o);
    one_differs(me, 1, 1); /* alone */
    for (int i = 0; i < 4; i++) one_differs(me, 64, at[i]);
    job_leave(me);
}

/* One rank's stream is being captured, the others carry the same sum out: each waits for the other, and no message says so. */
static void one_records(job_rank *me)
{
    operands o = take_operands(me);
    for (int before = 0; before < 3; before++) {
        weft_call call = {.stream = device_stream(1)};
        weft_request *req = NULL;
        weft_group *group = job_group(me, RANKS, "divided", 0);
        void *graph = NULL;
        sum_works(me, group, o);
        for (int i = 0; i < before; i++) sum_works(me, group, o);
        job_meet(me);
        int64_t began = job_now_ns();
        if (me->rank == ODD) DEVICE_OK(device()->cudaStreamBeginCapture(call.stream, 0));
        weft_status status = weft_all_reduce(group, o.in, o.out, COUNT, WEFT_INT32, WEFT_SUM, &call, &req);
        CHECK(status == WEFT_OK || status == WEFT_ERR_BROKEN); /* or it comes after they have differed */
        if (status == WEFT_OK) WAIT_STATUS(WEFT_ERR_MISMATCH, req);
        if (status == WEFT_OK) weft_release(req);
        CHECK_INT(job_await_break(group, job_late_ms()), WEFT_ERR_MISMATCH);
        CHECK_PERIOD(began, job_now_ns(), 0, job_late_ms());
        CHECK_TEXT(weft_last_error(), "recorded in a graph");
        CHECK(job_names(weft_last_error(), ODD));
        if (me->rank == ODD) {
            DEVICE_OK(device()->cudaStreamEndCapture(call.stream, &graph));
            DEVICE_OK(device()->cudaGraphDestroy(graph));
        }
        CHECK_OK(weft_group_free(group));
        job_meet(me);
    }
    sum_works(me, me->world, o);
    job_meet(me);
}

/* In the call: the others have not come to it. */
static void end_as_it_begins(weft_group *group, operands o)
{
    const weft_call call = {.stream = device_stream(1)};
    weft_request *released = NULL;
    void *graph = NULL;
    DEVICE_OK(device()->cudaStreamBeginCapture(call.stream, 0));
    atomic_store(&breaks, true);
    CHECK_OK(weft_all_reduce(group, o.in, o.out, COUNT, WEFT_INT32, WEFT_SUM, &call, &released));
    DEVICE_OK(device()->cudaStreamEndCapture(call.stream, &graph));
    DEVICE_OK(device()->cudaGraphDestroy(graph));
}

/* What is agreed on besides ends as that begins. */
static void one_is_released(job_rank *me)
{
    operands o = take_operands(me);
    weft_group *group = job_group(me, RANKS, "ends", 0);
    sum_works(me, group, o);
    job_meet(me);
    if (me->rank == ODD) end_as_it_begins(group, o);
    CHECK_INT(job_await_break(group, job_late_ms()), WEFT_ERR_CANCELLED);
    CHECK_OK(weft_group_free(group));
    job_meet(me);
    sum_works(me, me->world, o);
    job_meet(me);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("by few messages", .ranks = RANKS, .processes = true, .body = by_few_messages),
        JOB_TEST("one differs", .ranks = RANKS, .processes = true, .bare = true, .body = differs),
        JOB_TEST("one records", .ranks = RANKS, .processes = true, .body = one_records),
        JOB_TEST("one is released", .ranks = RANKS, .processes = true, .body = one_is_released),
    };
    return JOB_MAIN(tests, argc, argv);
}
