/* test_graphs.c - operations that are recorded in CUDA graphs, in program order (WEFT_DEVICE_ORDER=program, which this
 * program is run with): that replays are right each time, what is told while they are recorded, and what outlives what. */
#include "device.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/cuda.h>

enum {
    COUNT = 64,
    TIMES = 1000,
    FEW = 10,
    GLOBAL = 0 /* the strictest mode of a capture, which CUDA has by default */
};
static const size_t bytes = COUNT * sizeof(int32_t);

/* A chain, each step's output the next one's input: a sum, everybody's sums, and the last rank's from all of them. */
typedef struct chain {
    void *stream, *graph, *exec;
    int32_t *in, *sum, *all, *last;
    int32_t *put, *got; /* pinned */
} chain;

static chain take_chain(job_rank *me)
{
    const size_t size = (size_t)me->size;
    chain c = {.stream = device_stream(1),
               .in = job_buffer(me, bytes),
               .sum = job_buffer(me, bytes),
               .all = job_buffer(me, size * bytes),
               .last = job_buffer(me, bytes),
               .put = device_take(DEVICE_PINNED, bytes),
               .got = device_take(DEVICE_PINNED, bytes)};
    return c;
}

static void give_chain(chain *c)
{
    device_give(c->put);
    device_give(c->got);
}

static void begin_capture(chain *c)
{
    DEVICE_OK(device()->cudaStreamBeginCapture(c->stream, GLOBAL));
}

static void end_capture(chain *c)
{
    DEVICE_OK(device()->cudaStreamEndCapture(c->stream, &c->graph));
    CHECK(c->graph);
}

static void drop_graph(chain *c)
{
    if (c->exec) DEVICE_OK(device()->cudaGraphExecDestroy(c->exec));
    if (c->graph) DEVICE_OK(device()->cudaGraphDestroy(c->graph));
    c->exec = c->graph = NULL;
}

/* Recorded, which is all that it is to be. */
static void was_recorded(weft_request *req, const chain *c)
{
    weft_request_info info;
    CHECK_OK(weft_stream_wait(req, c->stream));
    WAIT_STATUS(WEFT_OK, req);
    info = job_info(req);
    CHECK_TEXT(info.algorithm, "graph");
    weft_release(req);
}

static void record_collectives(weft_group *group, const chain *c, int size)
{
    const weft_call call = {.stream = c->stream};
    weft_request *req = NULL;
    CHECK_OK(weft_all_reduce(group, c->in, c->sum, COUNT, WEFT_INT32, WEFT_SUM, &call, &req));
    was_recorded(req, c);
    CHECK_OK(weft_all_gather(group, c->sum, c->all, COUNT, WEFT_INT32, &call, &req));
    was_recorded(req, c);
    CHECK_OK(weft_scatter(group, c->all, c->last, COUNT, WEFT_INT32, size - 1, &call, &req));
    was_recorded(req, c);
}

/* NCCL connects outside of a capture; the inputs are all 0. */
static void warm_up(job_rank *me, weft_group *group, const chain *c)
{
    CHECK_OK(weft_all_reduce(group, c->in, c->sum, COUNT, WEFT_INT32, WEFT_SUM, NULL, NULL));
    CHECK_OK(weft_all_gather(group, c->sum, c->all, COUNT, WEFT_INT32, NULL, NULL));
    CHECK_OK(weft_scatter(group, c->all, c->last, COUNT, WEFT_INT32, me->size - 1, NULL, NULL));
    job_meet(me);
}

static void make_graph(job_rank *me, weft_group *group, chain *c)
{
    begin_capture(c);
    record_collectives(group, c, me->size);
    end_capture(c);
    DEVICE_OK(device()->cudaGraphInstantiate(&c->exec, c->graph, 0));
}

/* New input each time, behind the last replay. */
static void replay(job_rank *me, const chain *c, int time)
{
    for (int i = 0; i < COUNT; i++) c->put[i] = i + me->rank + time;
    device_copy(c->in, c->put, bytes, c->stream);
    DEVICE_OK(device()->cudaGraphLaunch(c->exec, c->stream));
    device_copy(c->got, c->last, bytes, c->stream);
    device_sync(c->stream);
    for (int i = 0; i < COUNT; i++)
        CHECK_INT(c->got[i], me->size * (i + time) + me->size * (me->size - 1) / 2);
}

/* ---- replays ---- */

static void right_each_time(job_rank *me)
{
    chain c = take_chain(me);
    warm_up(me, me->world, &c);
    make_graph(me, me->world, &c);
    for (int time = 0; time < TIMES; time++) replay(me, &c, time);
    drop_graph(&c);
    warm_up(me, me->world, &c);
    give_chain(&c);
    job_meet(me);
}

/* The capture under way is none the worse for what was refused. */
static void capture_goes_on(job_rank *me, chain *c)
{
    record_collectives(me->world, c, me->size);
    end_capture(c);
    DEVICE_OK(device()->cudaGraphInstantiate(&c->exec, c->graph, 0));
    replay(me, c, 1);
    drop_graph(c);
}

/* The capture has begun, and one sum has joined. */
static weft_batch *begin_captured_batch(job_rank *me, chain *c, int32_t *out)
{
    weft_batch *batch = NULL;
    weft_call joins = {.stream = c->stream};
    warm_up(me, me->world, c);
    begin_capture(c);
    CHECK_OK(weft_batch_begin(me->world, &batch));
    joins.batch = batch;
    CHECK_OK(weft_all_reduce(me->world, c->in, out, COUNT, WEFT_INT32, WEFT_SUM, &joins, NULL));
    return batch;
}

/* A batch is one group call, in a graph as well. */
static void a_batch(job_rank *me)
{
    chain c = take_chain(me);
    weft_request *req = NULL;
    weft_batch *batch = begin_captured_batch(me, &c, c.last);
    const weft_call joins = {.batch = batch, .stream = c.stream};
    CHECK_OK(weft_all_reduce(me->world, c.in, c.sum, COUNT, WEFT_INT32, WEFT_MAX, &joins, NULL));
    CHECK_OK(weft_batch_end(batch, NULL, &req));
    WAIT_OK(req);
    end_capture(&c);
    DEVICE_OK(device()->cudaGraphInstantiate(&c.exec, c.graph, 0));
    for (int time = 0; time < FEW; time++) replay(me, &c, time);
    drop_graph(&c);
    give_chain(&c);
    job_meet(me);
}

/* ---- what is refused ---- */

static void refuses(weft_status status, const char *why, weft_status got, weft_request *req)
{
    CHECK_STATUS(status, got);
    CHECK_TEXT(weft_last_error(), why);
    CHECK(!req);
}

/* Nothing of it is recorded, and the capture goes on. */
static void refused(job_rank *me)
{
    const weft_call asks_not = {.order = WEFT_ORDER_AGREED};
    int ranks[JOB_RANKS_MAX];
    weft_group *agreed = NULL, *fresh = job_group(me, me->size, "fresh", 0);
    weft_batch *batch = NULL;
    weft_request *req = NULL;
    chain c = take_chain(me);
    for (int i = 0; i < me->size; i++) ranks[i] = i;
    CHECK_OK(weft_new_group(me->world, ranks, me->size, &asks_not, &agreed, NULL));
    warm_up(me, me->world, &c);
    warm_up(me, agreed, &c);
    begin_capture(&c);
    const weft_call call = {.stream = c.stream}, apart = {.stream = WEFT_NO_STREAM};
    refuses(WEFT_ERR_STATE, "needs a request",
            weft_all_reduce(me->world, c.in, c.sum, COUNT, WEFT_INT32, WEFT_SUM, &call, NULL), NULL);
    refuses(WEFT_ERR_UNSUPPORTED, "agreed order",
            weft_all_reduce(agreed, c.in, c.sum, COUNT, WEFT_INT32, WEFT_SUM, &call, &req), req);
    refuses(WEFT_ERR_STATE, "no communicator yet",
            weft_all_reduce(fresh, c.in, c.sum, COUNT, WEFT_INT32, WEFT_SUM, &call, &req), req);
    for (int whole = 0; whole < 2; whole++) { /* without a request, and with a member that is not captured */
        CHECK_OK(weft_batch_begin(me->world, &batch));
        const weft_call joins = {.batch = batch, .stream = c.stream},
                        joins_apart = {.batch = batch, .stream = WEFT_NO_STREAM};
        CHECK_OK(weft_all_reduce(me->world, c.in, c.sum, COUNT, WEFT_INT32, WEFT_SUM, &joins, NULL));
        if (whole)
            CHECK_OK(
                weft_all_reduce(me->world, c.in, c.last, COUNT, WEFT_INT32, WEFT_SUM, &joins_apart, NULL));
        refuses(WEFT_ERR_STATE, whole ? "on none" : "needs a request",
                weft_batch_end(batch, NULL, whole ? &req : NULL), req);
    }
    CHECK_OK(weft_all_reduce(me->world, c.in, c.last, COUNT, WEFT_INT32, WEFT_SUM, &apart, &req));
    CHECK_STATUS(WEFT_ERR_UNSUPPORTED, weft_stream_wait(req, c.stream)); /* it is no part of the capture */
    WAIT_OK(req);
    capture_goes_on(me, &c);
    give_chain(&c);
    CHECK_OK(weft_group_free(agreed));
    CHECK_OK(weft_group_free(fresh));
    job_meet(me);
}

/* Its members have joined while the stream was captured; the group is none the worse for it. */
static void a_batch_ends_late(job_rank *me)
{
    chain c = take_chain(me);
    weft_request *req = NULL;
    weft_batch *batch = begin_captured_batch(me, &c, c.sum);
    end_capture(&c);
    refuses(WEFT_ERR_STATE, "is not any more", weft_batch_end(batch, NULL, &req), req);
    drop_graph(&c);
    warm_up(me, me->world, &c);
    give_chain(&c);
    job_meet(me);
}

/* Another capture has begun on the stream: what has joined in the first is no part of it. */
static void a_batch_ends_in_the_next(job_rank *me)
{
    chain c = take_chain(me);
    weft_request *req = NULL;
    weft_batch *batch = begin_captured_batch(me, &c, c.sum);
    end_capture(&c);
    drop_graph(&c);
    begin_capture(&c);
    refuses(WEFT_ERR_STATE, "is not any more", weft_batch_end(batch, NULL, &req), req);
    capture_goes_on(me, &c);
    give_chain(&c);
    job_meet(me);
}

/* ---- beside others ---- */

static void await_flag(void *flag)
{
    while (!atomic_load((atomic_bool *)flag)) job_sleep_ms(1);
}

/* What is recorded needs no event of CUDA's: it is taken however many operations are under way, which have one each, and
 * while CUDA takes its time to make more. */
static void many_under_way(job_rank *me)
{
    enum { MANY = 320 }; /* fewer events are made ahead; more than one communicator's stream takes */
    static atomic_bool goes_on;
    chain c = take_chain(me), eager = take_chain(me);
    void *held = device_stream(0);
    weft_group *other = job_group(me, me->size, "other", 0);
    const weft_call behind = {.stream = held}, next = {.stream = WEFT_NO_STREAM}, call = {.stream = c.stream};
    weft_request *reqs[MANY], *req = NULL;
    if (!device_is_emulated()) return;
    warm_up(me, me->world, &c);
    warm_up(me, other, &c);
    atomic_store(&goes_on, false);
    device()->emu_script("cudaEventCreateWithFlags@*=delay:10");
    DEVICE_OK(device()->cudaLaunchHostFunc(held, await_flag, &goes_on));
    for (int i = 0; i < MANY; i++) {
        CHECK_OK(weft_all_reduce(i % 2 ? other : me->world, eager.in, i % 2 ? eager.last : eager.sum, COUNT,
                                 WEFT_INT32, WEFT_SUM, i > 1 ? &next : &behind, &reqs[i]));
        CHECK_OK(weft_stream_wait(reqs[i], held));
        begin_capture(&c);
        CHECK_OK(weft_all_reduce(me->world, c.in, c.sum, COUNT, WEFT_INT32, WEFT_SUM, &call, &req));
        was_recorded(req, &c);
        end_capture(&c);
        drop_graph(&c);
    }
    device()->emu_script(NULL);
    atomic_store(&goes_on, true);
    for (int i = 0; i < MANY; i++) WAIT_OK(reqs[i]);
    CHECK_OK(weft_group_free(other));
    give_chain(&c);
    give_chain(&eager);
    job_meet(me);
}

/* Between a batch's beginning and its end more was submitted than its stream takes, which is issued in its turn by another
 * thread. */
static void a_batch_behind_others(job_rank *me)
{
    enum { MANY = 300 };
    static atomic_bool goes_on;
    chain c = take_chain(me), eager = take_chain(me);
    void *held = device_stream(0);
    const weft_call behind = {.stream = held}, next = {.stream = WEFT_NO_STREAM};
    weft_group *other = job_group(me, me->size, "other", 0);
    weft_request *reqs[MANY], *req = NULL;
    weft_batch *batch = NULL;
    if (!device_is_emulated()) return;
    warm_up(me, me->world, &c);
    warm_up(me, other, &c);
    atomic_store(&goes_on, false);
    DEVICE_OK(device()->cudaLaunchHostFunc(held, await_flag, &goes_on));
    begin_capture(&c);
    CHECK_OK(weft_batch_begin(me->world, &batch));
    const weft_call joins = {.batch = batch, .stream = c.stream};
    CHECK_OK(weft_all_reduce(me->world, c.in, c.sum, COUNT, WEFT_INT32, WEFT_SUM, &joins, NULL));
    for (int i = 0; i < MANY; i++)
        CHECK_OK(weft_all_reduce(other, eager.in, eager.sum, COUNT, WEFT_INT32, WEFT_SUM, i ? &next : &behind,
                                 &reqs[i]));
    refuses(WEFT_ERR_STATE, "not issued yet", weft_batch_end(batch, NULL, &req), req);
    end_capture(&c);
    drop_graph(&c);
    atomic_store(&goes_on, true);
    for (int i = 0; i < MANY; i++) WAIT_OK(reqs[i]);
    warm_up(me, me->world, &c);
    CHECK_OK(weft_group_free(other));
    give_chain(&c);
    give_chain(&eager);
    job_meet(me);
}

/* ---- how it ends badly ---- */

static uint64_t calls(const char *function)
{
    return device()->emu_calls(function);
}

/* Whoever comes to it once others have seen that they differ is refused. */
static void differ(weft_group *group, const chain *c, size_t count)
{
    const weft_call call = {.stream = c->stream};
    weft_request *req = NULL;
    weft_status status = weft_all_reduce(group, c->in, c->sum, count, WEFT_INT32, WEFT_SUM, &call, &req);
    CHECK(status == WEFT_OK || status == WEFT_ERR_BROKEN);
    if (status == WEFT_OK) WAIT_STATUS(WEFT_ERR_MISMATCH, req);
    if (status == WEFT_OK) weft_release(req);
    CHECK_INT(job_await_break(group, job_late_ms()), WEFT_ERR_MISMATCH);
    CHECK_TEXT(weft_last_error(), "recorded in a graph");
}

/* Compared when it is recorded, before anything of it has run. */
static void a_mismatch(job_rank *me)
{
    chain c = take_chain(me);
    const weft_call call = {.stream = c.stream};
    weft_group *group = job_group(me, me->size, "divided", 0);
    weft_request *req = NULL;
    warm_up(me, me->world, &c);
    warm_up(me, group, &c);
    begin_capture(&c);
    differ(group, &c, me->rank ? COUNT : COUNT / 2);
    CHECK_STATUS(WEFT_ERR_BROKEN,
                 weft_all_reduce(group, c.in, c.sum, COUNT, WEFT_INT32, WEFT_SUM, &call, &req));
    end_capture(&c);
    drop_graph(&c);                   /* never launched */
    CHECK_OK(weft_group_free(group)); /* its communicator ends beside the next captures, and frees memory */
    for (int graph = 0; graph < FEW; graph++) {
        make_graph(me, me->world, &c);
        replay(me, &c, graph);
        drop_graph(&c);
    }
    give_chain(&c);
    job_meet(me);
}

/* One rank records what the others carry out: neither would end before its time. */
static void one_records(job_rank *me)
{
    enum { ODD = 1 };
    chain c = take_chain(me);
    weft_group *group = job_group(me, me->size, "divided", 0);
    warm_up(me, me->world, &c);
    warm_up(me, group, &c);
    if (me->rank == ODD) begin_capture(&c);
    differ(group, &c, COUNT);
    if (me->rank == ODD) end_capture(&c);
    drop_graph(&c);
    CHECK_OK(weft_group_free(group));
    give_chain(&c);
    job_meet(me);
}

/* One rank does not come to record its part. */
static void a_late_rank(job_rank *me)
{
    enum { ODD = 1 };
    chain c = take_chain(me);
    const weft_call call = {.stream = c.stream};
    weft_group *group = job_group(me, me->size, "timed", 0);
    weft_request *req = NULL;
    warm_up(me, me->world, &c);
    warm_up(me, group, &c);
    CHECK_OK(weft_group_set_timeout(group, job_short_ms()));
    job_meet(me);
    if (me->rank != ODD) {
        begin_capture(&c);
        CHECK_OK(weft_all_reduce(group, c.in, c.sum, COUNT, WEFT_INT32, WEFT_SUM, &call, &req));
        WAIT_STATUS(WEFT_ERR_TIMEOUT, req);
        weft_request_info info = job_info(req);
        CHECK_PERIOD(info.submitted_ns, info.settled_ns, job_short_ms() - 1, job_short_ms() + job_late_ms());
        CHECK_NAMES(weft_request_message(req), 1U << ODD, me->size);
        weft_release(req);
        end_capture(&c);
        drop_graph(&c);
    }
    job_meet(me);
    CHECK(job_await_break(group, job_late_ms()) < 0);
    warm_up(me, me->world, &c);
    CHECK_OK(weft_group_free(group));
    give_chain(&c);
    job_meet(me);
}

/* With its graph gone the broken group's abort ends, and other groups go on. */
static void its_abort_ends(job_rank *me, weft_group *group, chain *c)
{
    drop_graph(c);
    for (int ms = 0; calls("aborted") < 2 && ms < job_late_ms(); ms++) job_sleep_ms(1);
    CHECK_INT(calls("aborted"), 2); /* both of its parts */
    CHECK_OK(weft_group_free(group));
    job_meet(me);
    warm_up(me, me->world, c);
    give_chain(c);
    job_meet(me);
}

/* A call outside of the graph hangs on a communicator that the graph holds, which is stopped and not revoked: its abort
 * comes back once the graph is gone. */
static void a_call_that_hangs(job_rank *me)
{
    enum { ODD = 1 };
    chain c = take_chain(me);
    weft_group *group = job_group(me, me->size, "hung", 0);
    weft_call call = {.timeout_ms = job_short_ms()};
    if (!device_is_emulated()) return;
    warm_up(me, me->world, &c);
    warm_up(me, group, &c);
    make_graph(me, group, &c);
    job_meet(me);
    if (me->rank == ODD) device()->emu_script("ncclGroupEnd@1=hang");
    CHECK_STATUS(WEFT_ERR_TIMEOUT,
                 weft_all_reduce(group, c.in, c.sum, COUNT, WEFT_INT32, WEFT_SUM, &call, NULL));
    CHECK(job_await_break(group, job_late_ms()) < 0);
    if (me->rank == ODD) device()->emu_script(NULL);
    for (int ms = 0; !calls("ncclCommAbort") && ms < job_late_ms(); ms++) job_sleep_ms(1);
    job_sleep_ms(job_short_ms());
    CHECK_INT(calls("ncclCommRevoke"), 0);
    CHECK(calls("ncclCommAbort"));
    CHECK_INT(calls("aborted"), 0);
    its_abort_ends(me, group, &c);
}

/* One rank's call comes to no end, and the group breaks.  What is captured has agreed before the call, and is over on the
 * other rank. */
static void hang(job_rank *me, weft_group *group, const chain *c, void *stream)
{
    enum { ODD = 1 };
    weft_status expected = stream && me->rank != ODD ? WEFT_OK : WEFT_ERR_TIMEOUT;
    const weft_call call = {.stream = stream, .timeout_ms = job_short_ms()};
    weft_request *req = NULL;
    job_meet(me);
    if (me->rank == ODD) device()->emu_script("ncclGroupEnd@1=hang");
    CHECK_OK(weft_all_reduce(group, c->in, c->sum, COUNT, WEFT_INT32, WEFT_SUM, &call, &req));
    WAIT_STATUS(expected, req);
    weft_release(req);
    CHECK(job_await_break(group, job_short_ms() + job_late_ms()) < 0);
    if (me->rank == ODD) device()->emu_script(NULL);
}

/* The first that a graph is to hold of a communicator, or all that it holds are operations without elements: so far NCCL
 * knows of no graph, and its abort would not wait.  It may not free anything under the caller, who is let out before, nor
 * before the graph is gone, for nobody knows how far the call has come. */
static void hangs_before_it_is_held(job_rank *me, bool while_captured)
{
    chain c = take_chain(me);
    weft_group *group = job_group(me, me->size, "connecting", 0);
    const weft_call call = {.stream = c.stream};
    weft_request *req = NULL;
    if (!device_is_emulated()) return;
    warm_up(me, me->world, &c);
    warm_up(me, group, &c);
    begin_capture(&c);
    if (while_captured) {
        hang(me, group, &c, c.stream);
    } else {
        CHECK_OK(weft_all_reduce(group, c.in, c.sum, 0, WEFT_INT32, WEFT_SUM, &call, &req));
        was_recorded(req, &c);
    }
    end_capture(&c);
    if (!while_captured) hang(me, group, &c, NULL);
    for (int ms = 0; me->rank == 1 && !calls("ncclCommRevoke") && ms < job_late_ms(); ms++) job_sleep_ms(1);
    job_meet(me);
    job_sleep_ms(job_short_ms());
    CHECK_INT(calls("ncclCommRevoke"), me->rank == 1);
    if (me->rank == 1) CHECK_INT(calls("aborted"), 0);
    its_abort_ends(me, group, &c);
}

static void the_first_hangs(job_rank *me)
{
    hangs_before_it_is_held(me, true);
}

static void beside_nothing_that_hangs(job_rank *me)
{
    hangs_before_it_is_held(me, false);
}

/* ---- what outlives what ---- */

static uint64_t ended(void)
{
    return calls("ncclCommDestroy") + calls("ncclCommAbort");
}

/* On every rank.  A group that was freed goes with the next one that is made or freed once no other rank reads in it. */
static void await_ends(job_rank *me, uint64_t count)
{
    int32_t own = 0, all = 0;
    for (int ms = 0; !all && ms < job_wait_ms(); ms += 5) {
        weft_group *next = job_group(me, me->size, "next", 0);
        own = ended() >= count;
        CHECK_OK(weft_all_reduce(next, &own, &all, 1, WEFT_INT32, WEFT_MIN, NULL, NULL));
        CHECK_OK(weft_group_free(next));
        if (!all) job_sleep_ms(5);
    }
    CHECK_INT(ended(), count);
}

/* Its communicator stays with the graph, and ends with it. */
static void group_first(job_rank *me)
{
    chain c = take_chain(me);
    weft_group *group = job_group(me, me->size, "freed", 0);
    uint64_t before;
    warm_up(me, group, &c);
    make_graph(me, group, &c);
    before = device_is_emulated() ? ended() : 0;
    CHECK_OK(weft_group_free(group));
    for (int i = 0; i < FEW && device_is_emulated(); i++)
        await_ends(me, before); /* all but what the graph holds is gone */
    for (int time = 0; time < FEW; time++) replay(me, &c, time);
    if (device_is_emulated()) CHECK_INT(ended(), before);
    DEVICE_OK(device()->cudaGraphDestroy(c.graph)); /* what was instantiated holds it as well */
    c.graph = NULL;
    replay(me, &c, 0);
    if (device_is_emulated()) CHECK_INT(ended(), before);
    job_meet(me);
    drop_graph(&c);
    if (device_is_emulated()) await_ends(me, before + 2); /* both of its parts */
    warm_up(me, me->world, &c);
    give_chain(&c);
    job_meet(me);
}

/* The context does not wait for graphs; what they hold is left to them. */
static void context_first(job_rank *me)
{
    enum { SOON_MS = 900 };
    job_join(me);
    chain c = take_chain(me);
    warm_up(me, me->world, &c);
    make_graph(me, me->world, &c);
    replay(me, &c, 0);
    job_meet(me);
    int64_t began = job_now_ns();
    CHECK_OK(weft_finalize(me->ctx, job_wait_ms()));
    CHECK_PERIOD(began, job_now_ns(), 0, SOON_MS + job_late_ms());
    me->ctx = NULL;
    job_meet(me);
    replay(me, &c, 1);
    job_meet(me);
    drop_graph(&c);
    if (device_is_emulated())
        for (int ms = 0; ended() < 2 && ms < job_wait_ms(); ms++) job_sleep_ms(1);
    if (device_is_emulated()) CHECK_INT(ended(), 2);
}

/* Nor for the abort of a group that has broken, which its graph holds up; what is whole and in a graph stays so. */
static void beside_one_that_broke(job_rank *me)
{
    enum { SOON_MS = 900 };
    job_join(me);
    chain c = take_chain(me), hung = {0};
    weft_group *group = job_group(me, me->size, "broken", 0);
    if (!device_is_emulated()) return;
    hung = take_chain(me);
    warm_up(me, me->world, &c);
    warm_up(me, group, &hung);
    make_graph(me, me->world, &c);
    make_graph(me, group, &hung);
    hang(me, group, &hung, NULL);
    CHECK_OK(weft_group_free(group));
    job_meet(me);
    int64_t began = job_now_ns();
    CHECK_OK(weft_finalize(me->ctx, job_wait_ms()));
    CHECK_PERIOD(began, job_now_ns(), 0, SOON_MS + job_late_ms());
    me->ctx = NULL;
    job_meet(me);
    CHECK_INT(calls("ncclCommAbort"), 1); /* of the part that graphs hold, before its root */
    for (int time = 0; time < FEW; time++) replay(me, &c, time);
    job_meet(me);
    drop_graph(&c);
    drop_graph(&hung);
    for (int ms = 0; ended() < 4 && ms < job_wait_ms(); ms++) job_sleep_ms(1);
    CHECK_INT(ended(), 4); /* each with its root */
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("right each time", .ranks = 2, .processes = true, .body = right_each_time),
        JOB_TEST("a batch", .ranks = 2, .processes = true, .body = a_batch),
        JOB_TEST("refused", .ranks = 2, .processes = true, .body = refused),
        JOB_TEST("a batch that ends late", .ranks = 2, .processes = true, .body = a_batch_ends_late),
        JOB_TEST("a batch that ends in the next capture", .ranks = 2, .processes = true,
                 .body = a_batch_ends_in_the_next),
        JOB_TEST("a batch behind others", .ranks = 2, .processes = true, .body = a_batch_behind_others),
        JOB_TEST("many under way", .ranks = 2, .processes = true, .body = many_under_way),
        JOB_TEST("a mismatch", .ranks = 3, .processes = true, .body = a_mismatch),
        JOB_TEST("one records", .ranks = 3, .processes = true, .body = one_records),
        JOB_TEST("a late rank", .ranks = 3, .processes = true, .body = a_late_rank),
        JOB_TEST("a call that hangs", .ranks = 2, .processes = true, .body = a_call_that_hangs),
        JOB_TEST("the first one hangs", .ranks = 2, .processes = true, .body = the_first_hangs),
        JOB_TEST("one hangs beside what is empty", .ranks = 2, .processes = true,
                 .body = beside_nothing_that_hangs),
        JOB_TEST("the group ends first", .ranks = 2, .processes = true, .body = group_first),
        JOB_TEST("the context ends first", .ranks = 2, .processes = true, .bare = true,
                 .body = context_first),
        JOB_TEST("beside one that broke", .ranks = 2, .processes = true, .bare = true,
                 .body = beside_one_that_broke),
    };
    return JOB_MAIN(tests, argc, argv);
}
