/* test_graph_replays.c - replays of graphs that have recorded operations, in program order (WEFT_DEVICE_ORDER=program, which
 * this program is run with): that they are counted, and that one which does not end is told, and no other. */
#include "chain.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static struct {
    pthread_mutex_t lock;
    int lines;   /* about replays */
    int without; /* that they are not counted, or not watched */
    char last[1024];
    char what[1024];
} told = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void note(int level, const char *line, void *arg)
{
    const bool stands = strstr(line, "a replay of a graph") != NULL;
    (void)level, (void)arg;
    if (!stands && !strstr(line, "cannot be") && !strstr(line, "only counted")) return;
    pthread_mutex_lock(&told.lock);
    if (stands)
        told.lines++;
    else
        told.without++;
    snprintf(stands ? told.last : told.what, sizeof told.last, "%s", line);
    pthread_mutex_unlock(&told.lock);
}

static int lines(void)
{
    pthread_mutex_lock(&told.lock);
    int n = told.lines;
    pthread_mutex_unlock(&told.lock);
    return n;
}

static uint64_t begun(weft_group *group)
{
    uint64_t count = 99;
    CHECK_OK(weft_graph_replays(group, &count));
    return count;
}

static void launch(const chain *c)
{
    DEVICE_OK(device()->cudaGraphLaunch(c->exec, c->stream));
}

/* ---- counted ---- */

/* Those of two graphs count, also when one is gone; whatever else the group does is none. */
static void counted(job_rank *me)
{
    chain c = take_chain(me), other = take_chain(me);
    weft_group *fresh = job_group(me, me->size, "fresh", 0);
    CHECK_INT(begun(fresh), 0);
    warm_up(me, me->world, &c);
    make_graph(me, me->world, &c);
    make_graph(me, me->world, &other);
    CHECK_INT(begun(me->world), 0);
    for (int time = 0; time < FEW; time++) replay(me, &c, time);
    CHECK_INT(begun(me->world), FEW);
    replay(me, &other, 1);
    CHECK_INT(begun(me->world), FEW + 1);
    drop_graph(&c);
    warm_up(me, me->world, &other);
    CHECK_INT(begun(me->world), FEW + 1);
    replay(me, &other, 2);
    CHECK_INT(begun(me->world), FEW + 2);
    CHECK_INT(begun(fresh), 0);
    drop_graph(&other);
    give_chain(&c);
    give_chain(&other);
    CHECK_OK(weft_group_free(fresh));
    job_meet(me);
}

/* Two captures at once, each with parts of the group's. */
static void two_captures(job_rank *me)
{
    chain c = take_chain(me), other = take_chain(me);
    weft_request *req = NULL;
    other.stream = device_stream(0);
    const weft_call here = {.stream = c.stream}, there = {.stream = other.stream};
    warm_up(me, me->world, &c);
    begin_capture(&c);
    begin_capture(&other);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(weft_all_reduce(me->world, c.in, c.last, COUNT, WEFT_INT32, WEFT_SUM, &here, &req));
        was_recorded(req, &c);
        CHECK_OK(weft_all_reduce(me->world, other.in, other.last, COUNT, WEFT_INT32, WEFT_SUM, &there, &req));
        was_recorded(req, &other);
    }
    end_capture(&c);
    end_capture(&other);
    DEVICE_OK(device()->cudaGraphInstantiate(&c.exec, c.graph, 0));
    DEVICE_OK(device()->cudaGraphInstantiate(&other.exec, other.graph, 0));
    replay(me, &c, 1);
    replay(me, &other, 2);
    CHECK_INT(begun(me->world), 2);
    drop_graph(&c);
    drop_graph(&other);
    give_chain(&c);
    give_chain(&other);
    job_meet(me);
}

/* ---- watched ---- */

static chain begin_watched(job_rank *me, weft_group **group)
{
    chain c = take_chain(me);
    weft_set_log(note, NULL);
    *group = job_group(me, me->size, "watched", 0);
    CHECK_OK(weft_group_set_timeout(*group, job_short_ms()));
    warm_up(me, *group, &c);
    make_graph(me, *group, &c);
    job_meet(me);
    return c;
}

static void end_watched(job_rank *me, weft_group *group, chain *c)
{
    device_sync(c->stream);
    job_meet(me);
    weft_set_log(NULL, NULL);
    drop_graph(c);
    CHECK_OK(weft_group_free(group));
    give_chain(c);
    job_meet(me);
}

static void await_lines(int count)
{
    int64_t limit = job_now_ns() + 1000000LL * (2 * job_short_ms() + job_late_ms());
    while (lines() < count && job_now_ns() < limit) job_sleep_ms(1);
    CHECK_INT(lines(), count);
}

/* Its peer launches nothing: the first of three calls does not end.  It is told once, and again of another one. */
static void one_stands(job_rank *me)
{
    weft_group *group;
    chain c = begin_watched(me, &group);
    for (int time = 1; time <= 2; time++) {
        if (!me->rank) {
            int64_t began = job_now_ns();
            launch(&c);
            await_lines(time);
            CHECK_PERIOD(began, job_now_ns(), job_short_ms() - 1, 2 * job_short_ms() + job_late_ms());
            CHECK_TEXT(told.last, "group watched");
            CHECK_TEXT(told.last, "of 3 calls");
            CHECK_TEXT(told.last, " 0 are over");
            CHECK_TEXT(told.last, time == 1 ? "1 replays have begun" : "2 replays have begun");
            job_sleep_ms(job_short_ms() / 2);
            CHECK_INT(lines(), time);
        }
        job_meet(me);
        if (me->rank) launch(&c);
        device_sync(c.stream);
        job_meet(me);
        job_sleep_ms(job_short_ms() / 2); /* that it has ended is seen */
    }
    CHECK_INT(lines(), me->rank ? 0 : 2);
    end_watched(me, group, &c);
}

static _Atomic bool may_go[2];

static void hold_up(void *gate)
{
    while (!*(_Atomic bool *)gate) job_sleep_ms(1);
}

/* A function of the host stands between the fill that says that it has begun, which an operation without elements is enough for,
 * and the one call. */
static void make_held_up(weft_group *group, chain *c, _Atomic bool *gate)
{
    const weft_call call = {.stream = c->stream};
    weft_request *req = NULL;
    begin_capture(c);
    CHECK_OK(weft_all_reduce(group, c->in, c->last, 0, WEFT_INT32, WEFT_SUM, &call, &req));
    was_recorded(req, c);
    DEVICE_OK(device()->cudaLaunchHostFunc(c->stream, hold_up, (void *)gate));
    CHECK_OK(weft_all_reduce(group, c->in, c->last, COUNT, WEFT_INT32, WEFT_SUM, &call, &req));
    was_recorded(req, c);
    end_capture(c);
    DEVICE_OK(device()->cudaGraphInstantiate(&c->exec, c->graph, 0));
}

/* Two graphs on streams of their own: the second is told while the first still stands, and the first no second time. */
static void two_stand(job_rank *me)
{
    chain c[2] = {take_chain(me), take_chain(me)};
    weft_group *group = job_group(me, me->size, "watched", 0);
    weft_set_log(note, NULL);
    c[1].stream = device_stream(0);
    CHECK_OK(weft_group_set_timeout(group, job_short_ms()));
    warm_up(me, group, &c[0]);
    for (int i = 0; i < 2; i++) make_held_up(group, &c[i], &may_go[i]);
    job_meet(me);
    for (int i = 0; i < 2 && !me->rank; i++) {
        launch(&c[i]);
        await_lines(i + 1);
        if (!i || device_is_emulated()) /* a device's host functions may wait for each other */
            CHECK_TEXT(told.last, i ? "2 replays have begun" : "1 replays have begun");
        CHECK_TEXT(told.last, "of 1 calls of its");
    }
    if (!me->rank) job_sleep_ms(job_short_ms() / 2);
    for (int i = 0; i < 2; i++) {
        may_go[i] = true;
        job_meet(me);
        if (me->rank) launch(&c[i]);
        device_sync(c[i].stream);
        job_meet(me);
    }
    CHECK_INT(lines(), me->rank ? 0 : 2);
    weft_set_log(NULL, NULL);
    for (int i = 0; i < 2; i++) drop_graph(&c[i]);
    CHECK_OK(weft_group_free(group));
    for (int i = 0; i < 2; i++) give_chain(&c[i]);
    job_meet(me);
}

/* Each waits for its peer for less than the timeout, and all together for longer: whoever looks now and then sees each time
 * one that has begun and not ended. */
static void one_after_the_other(job_rank *me)
{
    weft_group *group;
    chain c = begin_watched(me, &group);
    int64_t began = job_now_ns();
    while (job_now_ns() - began < 2500000LL * job_short_ms()) {
        launch(&c);
        launch(&c);
        if (me->rank) job_sleep_ms(job_short_ms() / 4);
        device_sync(c.stream);
        int32_t own = job_now_ns() - began < 2500000LL * job_short_ms(), all = 0;
        CHECK_OK(weft_all_reduce(me->world, &own, &all, 1, WEFT_INT32, WEFT_MIN, NULL, NULL));
        if (!all) break;
    }
    CHECK_INT(lines(), 0);
    end_watched(me, group, &c);
}

/* A graph that has ended is not under way, however long it is not launched again. */
static void one_that_rests(job_rank *me)
{
    weft_group *group;
    chain c = begin_watched(me, &group);
    for (int time = 0; time < FEW; time++) replay(me, &c, time);
    job_sleep_ms(3 * job_short_ms() / 2);
    CHECK_INT(lines(), 0);
    end_watched(me, group, &c);
}

/* ---- what CUDA refuses ---- */

/* It is recorded all the same, and replayed; the log says once what is missing. */
static void without(job_rank *me, const char *script, bool from_start, const char *what, uint64_t counts,
                    bool rests)
{
    chain c, other;
    if (!device_is_emulated()) return;
    job_setenv(me, "WEFT_LOG", "2");
    job_join(me);
    weft_set_log(note, NULL);
    c = take_chain(me);
    other = take_chain(me);
    CHECK_OK(weft_group_set_timeout(me->world, job_short_ms()));
    if (from_start) device()->emu_script(script);
    warm_up(me, me->world, &c);
    device()->emu_script(script);
    make_graph(me, me->world, &c);
    make_graph(me, me->world, &other);
    DEVICE_OK(device()->cudaPeekAtLastError());
    device()->emu_script(NULL);
    for (int time = 0; time < FEW; time++) replay(me, &c, time);
    replay(me, &other, 0);
    CHECK_INT(begun(me->world), counts);
    if (rests) job_sleep_ms(3 * job_short_ms() / 2);
    warm_up(me, me->world, &c);
    weft_set_log(NULL, NULL);
    CHECK_INT(lines(), 0);
    CHECK_INT(told.without, 1);
    CHECK_TEXT(told.what, what);
    drop_graph(&c);
    drop_graph(&other);
    give_chain(&c);
    give_chain(&other);
    job_meet(me);
}

static void not_counted(job_rank *me)
{
    without(me, "cudaGraphAddHostNode@*=error:801", false, "cannot be counted", 0, false);
}

/* It would seem to stand where it was last seen. */
static void not_watched(job_rank *me)
{
    without(me, "cudaMemsetAsync@3+=error:1", false, "cannot be watched", FEW + 1, true);
}

static void nowhere_to_watch(job_rank *me)
{
    without(me, "cudaHostRegister@*=error:2", true, "only counted", FEW + 1, false);
}

/* ---- what else may be ---- */

/* Nothing tells of replays, and nothing is in a graph for it. */
static void switched_off(job_rank *me)
{
    uint64_t count = 99, functions = 0, fills = 0;
    chain c;
    job_setenv(me, "WEFT_NCCL_WATCH_GRAPHS", "0");
    job_join(me);
    c = take_chain(me);
    warm_up(me, me->world, &c);
    if (device_is_emulated()) fills = device()->emu_calls("cudaMemsetAsync");
    make_graph(me, me->world, &c);
    if (device_is_emulated()) {
        functions = device()->emu_calls("cudaGraphAddHostNode");
        fills = device()->emu_calls("cudaMemsetAsync") - fills;
    }
    CHECK_INT(functions, 0);
    CHECK_INT(fills, 0);
    for (int time = 0; time < FEW; time++) replay(me, &c, time);
    CHECK_STATUS(WEFT_ERR_UNSUPPORTED, weft_graph_replays(me->world, &count));
    CHECK_TEXT(weft_last_error(), "WEFT_NCCL_WATCH_GRAPHS=0");
    drop_graph(&c);
    give_chain(&c);
    job_meet(me);
}

/* What was pinned for one job is gone by the next. */
static void reset_between_jobs(job_rank *me)
{
    for (int job = 0; job < 2; job++) {
        job_join(me);
        chain c = take_chain(me);
        warm_up(me, me->world, &c);
        make_graph(me, me->world, &c);
        for (int time = 0; time < FEW; time++) replay(me, &c, time);
        CHECK_INT(begun(me->world), FEW);
        drop_graph(&c);
        give_chain(&c);
        job_leave(me);
        device_reset();
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("counted", .ranks = 2, .processes = true, .body = counted),
        JOB_TEST("two captures", .ranks = 2, .processes = true, .body = two_captures),
        JOB_TEST("one stands", .ranks = 2, .processes = true, .body = one_stands),
        JOB_TEST("two stand", .ranks = 2, .processes = true, .body = two_stand),
        JOB_TEST("one after the other", .ranks = 2, .processes = true, .body = one_after_the_other),
        JOB_TEST("one that rests", .ranks = 2, .processes = true, .body = one_that_rests),
        JOB_TEST("not counted", .ranks = 2, .processes = true, .bare = true, .body = not_counted),
        JOB_TEST("not watched", .ranks = 2, .processes = true, .bare = true, .body = not_watched),
        JOB_TEST("nowhere to watch", .ranks = 2, .processes = true, .bare = true, .body = nowhere_to_watch),
        JOB_TEST("switched off", .ranks = 2, .processes = true, .bare = true, .body = switched_off),
        JOB_TEST("reset between jobs", .ranks = 2, .processes = true, .bare = true,
                 .body = reset_between_jobs),
    };
    return JOB_MAIN(tests, argc, argv);
}
