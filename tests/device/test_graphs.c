/* test_graphs.c - operations that are recorded in CUDA graphs, in program order (WEFT_DEVICE_ORDER=program, which this
 * program is run with): that replays are right each time, what is refused, and what is under way beside it. */
#include "chain.h"

enum { TIMES = 1000 };
enum { ASKED }; /* marks */

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

/* A capture cannot wait for an operation that is no part of it: each rank asks once while its operation is surely under way,
 * as the others begin theirs only then. */
static void awaits_no_other(job_rank *me, const chain *c)
{
    const weft_call apart = {.stream = WEFT_NO_STREAM};
    weft_request *req = NULL;
    for (int asks = 0; asks < me->size; asks++) {
        if (me->rank != asks) job_await(me, ASKED, asks + 1);
        CHECK_OK(weft_all_reduce(me->world, c->in, c->last, COUNT, WEFT_INT32, WEFT_SUM, &apart, &req));
        if (me->rank == asks) {
            CHECK_STATUS(WEFT_ERR_UNSUPPORTED, weft_stream_wait(req, c->stream));
            job_mark(me, ASKED);
        }
        WAIT_OK(req);
    }
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
    const weft_call call = {.stream = c.stream};
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
    awaits_no_other(me, &c);
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
    };
    return JOB_MAIN(tests, argc, argv);
}
