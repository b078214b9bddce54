/* test_graphs_end.c - how operations that are recorded in CUDA graphs end badly, in program order (WEFT_DEVICE_ORDER=program,
 * which this program is run with), and what outlives what. */
#include "chain.h"

#include <string.h>

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
    enum { ODD = 1, BEGAN = 0 };
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
        job_results(me, me->rank)[BEGAN] = job_now_ns();
        CHECK_OK(weft_all_reduce(group, c.in, c.sum, COUNT, WEFT_INT32, WEFT_SUM, &call, &req));
        WAIT_STATUS(WEFT_ERR_TIMEOUT, req);
        weft_request_info info = job_info(req);
        CHECK_PERIOD(job_earliest(me, BEGAN), info.settled_ns, job_short_ms(), INT32_MAX);
        CHECK_PERIOD(info.submitted_ns, info.settled_ns, 0, job_short_ms() + job_late_ms());
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

static atomic_int outlives; /* lines of the log that say so */

static void note(int level, const char *line, void *arg)
{
    (void)level, (void)arg;
    if (strstr(line, "communicator freed outlives its group: 1 graphs hold it"))
        atomic_fetch_add(&outlives, 1);
}

/* Its communicator stays with the graph, and ends with it. */
static void group_first(job_rank *me)
{
    job_setenv(me, "WEFT_LOG", "2");
    job_join(me);
    weft_set_log(note, NULL);
    chain c = take_chain(me);
    weft_group *group = job_group(me, me->size, "freed", 0);
    uint64_t before;
    warm_up(me, group, &c);
    make_graph(me, group, &c);
    before = device_is_emulated() ? ended() : 0;
    CHECK_OK(weft_group_free(group));
    for (int i = 0; i < FEW && device_is_emulated(); i++)
        await_ends(me, before); /* all but what the graph holds is gone */
    weft_set_log(NULL, NULL);   /* which hands over what there is */
    CHECK_INT(atomic_load(&outlives), 1);
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
    for (int ms = 0; !calls("ncclCommAbort") && ms < job_late_ms(); ms++) job_sleep_ms(1);
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
        JOB_TEST("a mismatch", .ranks = 3, .processes = true, .body = a_mismatch),
        JOB_TEST("one records", .ranks = 3, .processes = true, .body = one_records),
        JOB_TEST("a late rank", .ranks = 3, .processes = true, .body = a_late_rank),
        JOB_TEST("a call that hangs", .ranks = 2, .processes = true, .body = a_call_that_hangs),
        JOB_TEST("the first one hangs", .ranks = 2, .processes = true, .body = the_first_hangs),
        JOB_TEST("one hangs beside what is empty", .ranks = 2, .processes = true,
                 .body = beside_nothing_that_hangs),
        JOB_TEST("the group ends first", .ranks = 2, .processes = true, .bare = true, .body = group_first),
        JOB_TEST("the context ends first", .ranks = 2, .processes = true, .bare = true,
                 .body = context_first),
        JOB_TEST("beside one that broke", .ranks = 2, .processes = true, .bare = true,
                 .body = beside_one_that_broke),
    };
    return JOB_MAIN(tests, argc, argv);
}
