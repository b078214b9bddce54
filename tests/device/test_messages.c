/* test_messages.c - messages between devices: on which communicator, and what becomes of them when a rank dies,
 * or a stream stands still in the middle. */
#include "device.h"

#include <string.h>
#include <weft/cuda.h>

enum { SHORT_MS = 300 * JOB_SLOWER };
enum { READY, UNDER_WAY, DYING }; /* marks */

/* More than NCCL takes off a sender's hands before its receiver is there: where ranks share a device their messages go
 * over sockets, with buffers of several MiB on the way. */
static size_t large(void)
{
    return device_is_emulated() ? 4 << 20 : 256 << 20;
}

static void send_to(job_rank *me, const void *buf, int peer, int tag, weft_request **req)
{
    CHECK_OK(weft_isend(me->world, buf, large(), WEFT_UINT8, peer, tag, NULL, req));
}

static void receive_from(job_rank *me, void *buf, int peer, int tag, weft_request **req)
{
    CHECK_OK(weft_irecv(me->world, buf, large(), WEFT_UINT8, peer, tag, NULL, req));
}

/* The group's communicator is there for this rank, and its messages go over it from now on. */
static void make_communicator(job_rank *me, weft_group *group)
{
    int32_t *sum = job_buffer(me, sizeof *sum);
    job_put_int(sum, 1);
    CHECK_OK(weft_all_reduce(group, sum, sum, 1, WEFT_INT32, WEFT_SUM, NULL, NULL));
    CHECK_INT(job_get_int(sum), weft_group_size(group));
}

static uint64_t calls(void)
{
    return device_is_emulated() ? device()->emu_calls("ncclGroupEnd") : 0;
}

/* The first so many ranks have called NCCL: this one so often, all of them so often, which one process counts where they are
 * its threads. */
static void await_calls(job_rank *me, int ranks, uint64_t before, uint64_t own, uint64_t all)
{
    const uint64_t counted = job_pid(me, 0) == job_pid(me, 1) ? all : own;
    if (device_is_emulated())
        while (calls() < before + counted) job_sleep_ms(1);
    else
        job_sleep_ms(SHORT_MS);
    job_mark(me, UNDER_WAY);
    job_await(me, UNDER_WAY, ranks);
}

/* For a message between ranks 0 and 1. */
static void await_both(job_rank *me, uint64_t before)
{
    await_calls(me, 2, before, 1, 2);
}

static uint64_t made(void)
{
    return device_is_emulated() ? device()->emu_calls("ncclCommInitRankConfig") : 0;
}

/* To every other rank and from it, as messages and as an exchange, while sums go over the same communicator. */
static void among_all(job_rank *me, weft_group *group)
{
    weft_request *reqs[4 * JOB_RANKS_MAX] = {NULL};
    int n = 0, ranks = weft_group_size(group), rank = weft_group_rank(group);
    int32_t *out = job_buffer(me, sizeof *out), *in = job_buffer(me, 2 * (size_t)ranks * sizeof *in);
    int32_t *sums = job_buffer(me, (size_t)ranks * sizeof *sums);
    job_put_int(out, rank + 1);
    for (int i = 0; i < ranks; i++) {
        int32_t *sum = &sums[i], *at = &in[2 * i];
        job_put_int(sum, 1);
        CHECK_OK(weft_all_reduce(group, sum, sum, 1, WEFT_INT32, WEFT_SUM, NULL, &reqs[n++]));
        if (i == rank) continue;
        CHECK_OK(weft_irecv(group, at, 1, WEFT_INT32, i, 0, NULL, &reqs[n++]));
        CHECK_OK(weft_isend(group, out, 1, WEFT_INT32, i, 0, NULL, &reqs[n++]));
        CHECK_OK(weft_send_recv(group, out, at + 1, 1, WEFT_INT32, i, NULL, &reqs[n++]));
    }
    for (int i = 0; i < n; i++) {
        WAIT_OK(reqs[i]);
        weft_release(reqs[i]);
    }
    for (int i = 0; i < ranks; i++) {
        CHECK_INT(job_get_int(&sums[i]), ranks);
        if (i != rank) CHECK(job_get_int(&in[2 * i]) == i + 1 && job_get_int(&in[2 * i + 1]) == i + 1);
    }
}

/* Between any two ranks of a group whose communicator is there no other is made. */
static void on_the_groups(job_rank *me)
{
    weft_group *group = job_group(me, me->size, "all", 0);
    make_communicator(me, group);
    job_meet(me);
    uint64_t before = made();
    job_meet(me);
    for (int i = 0; i < 3; i++) among_all(me, group);
    job_meet(me);
    CHECK_INT(made(), before);
}

/* A group of two has one communicator, whether its messages come first or its collectives. */
static void one_for_both(job_rank *me)
{
    weft_group *group = job_group(me, me->size, "both", 0);
    int32_t *buf = job_buffer(me, sizeof *buf);
    uint64_t before;
    job_meet(me);
    before = made();
    for (int i = 0; i < 3; i++) {
        if (me->arg) make_communicator(me, group);
        job_put_int(buf, me->rank ? -1 : i);
        if (me->rank == 0)
            CHECK_OK(weft_isend(group, buf, 1, WEFT_INT32, 1, 0, NULL, NULL));
        else
            CHECK_OK(weft_irecv(group, buf, 1, WEFT_INT32, 0, 0, NULL, NULL));
        CHECK_INT(job_get_int(buf), i);
        among_all(me, group);
    }
    if (device_is_emulated()) CHECK_INT(made() - before, 1);
}

/* Rank 0 has sent over one of the two ranks before the group's is there, and sends over the group's afterwards,
 * in the same order as ever. */
static void before_and_after(job_rank *me)
{
    enum { MANY = 20 };
    weft_group *group = job_group(me, me->size, "all", 0);
    int32_t *values = job_buffer(me, MANY * sizeof *values), *sum = job_buffer(me, sizeof *sum);
    weft_request *reqs[MANY + 1] = {NULL};
    job_put_int(sum, 1);
    for (int i = 0; i < MANY; i++) job_put_int(&values[i], me->rank ? -1 : i);
    for (int i = 0; i < MANY; i++) {
        if (i == MANY / 2)
            CHECK_OK(weft_all_reduce(group, sum, sum, 1, WEFT_INT32, WEFT_SUM, NULL, &reqs[MANY]));
        if (i == MANY / 2 && me->rank == 0) WAIT_OK(reqs[MANY]);
        if (me->rank == 0)
            CHECK_OK(weft_isend(group, &values[i], 1, WEFT_INT32, 1, 0, NULL, &reqs[i]));
        else if (me->rank == 1)
            CHECK_OK(weft_irecv(group, &values[i], 1, WEFT_INT32, 0, 0, NULL, &reqs[i]));
    }
    for (int i = 0; i <= MANY; i++) {
        if (!reqs[i]) continue;
        WAIT_OK(reqs[i]);
        weft_release(reqs[i]);
    }
    for (int i = 0; i < MANY && me->rank < 2; i++) CHECK_INT(job_get_int(&values[i]), i);
}

/* Ends, and within the time that a death may take. */
static void ends_in_death(weft_request *req, int64_t died_ns)
{
    WAIT_STATUS(WEFT_ERR_PEER, req);
    CHECK_TEXT(weft_request_message(req), "rank 1");
    CHECK_INT(job_info(req).peer, 1);
    CHECK_PERIOD(died_ns, job_info(req).settled_ns, 0, job_late_ms());
    weft_release(req);
}

/* Rank 1 is killed while messages go to and from it all the time; rank 2 looks on. */
static void death(job_rank *me)
{
    enum { ROUNDS = JOB_SANITIZED ? 10 : 40 };
    void *out = job_buffer(me, large()), *in = job_buffer(me, large()), *other = job_buffer(me, large());
    weft_request *reqs[4] = {NULL};
    if (me->arg) make_communicator(me, me->world);
    if (me->rank == 1) {
        for (;;) {
            send_to(me, out, 0, 0, &reqs[0]);
            receive_from(me, in, 0, 1, &reqs[1]);
            WAIT_OK(reqs[0]);
            WAIT_OK(reqs[1]);
            job_mark(me, 0);
        }
    }
    for (int i = 0;; i++) {
        weft_status status = WEFT_OK;
        if (me->rank != 0) break;
        receive_from(me, in, 1, 0, &reqs[0]);
        send_to(me, out, 1, 1, &reqs[1]);
        if (i == ROUNDS) {
            int64_t died_ns = job_now_ns();
            receive_from(me, other, 1, 2, &reqs[2]); /* that it would never send */
            send_to(me, out, 1, 3, &reqs[3]);        /* that it would never receive */
            job_mark(me, DYING);
            job_kill(me, 1);
            for (int k = 0; k < 2; k++) {
                status = weft_wait(reqs[k], JOB_WAIT_MS); /* may have been done just before */
                CHECK(status == WEFT_OK || status == WEFT_ERR_PEER);
                weft_release(reqs[k]);
            }
            ends_in_death(reqs[2], died_ns);
            ends_in_death(reqs[3], died_ns);
            break;
        }
        WAIT_OK(reqs[0]);
        WAIT_OK(reqs[1]);
    }
    job_await(me, DYING, 1);
    CHECK_STATUS(WEFT_ERR_PEER, job_await_break(me->world, JOB_WAIT_MS));
}

/* The receiver's stream stands still: the message is with both devices, and does not move. */
static void death_in_the_middle(job_rank *me)
{
    void *buf = job_buffer(me, large());
    weft_request *req = NULL;
    if (me->arg) make_communicator(me, me->world);
    if (me->rank == 2) {
        CHECK_STATUS(WEFT_ERR_PEER, job_await_break(me->world, JOB_WAIT_MS));
        return;
    }
    if (me->rank == 1) {
        weft_call call = {.stream = device_stream(1)};
        send_to(me, buf, 0, 0, &req); /* the communicator is there */
        WAIT_OK(req);
        const uint64_t before = calls();
        job_mark(me, READY);
        job_await(me, READY, 2);
        device_shut(device_stream(1));
        CHECK_OK(weft_irecv(me->world, buf, large(), WEFT_UINT8, 0, 1, &call, &req));
        await_both(me, before);
        WAIT_OK(req);
        return;
    }
    receive_from(me, buf, 1, 0, &req);
    WAIT_OK(req);
    job_mark(me, READY);
    job_await(me, READY, 2);
    const uint64_t before = calls();
    send_to(me, buf, 1, 1, &req);
    await_both(me, before);
    CHECK_INT(weft_test(req), WEFT_PENDING);
    int64_t died_ns = job_now_ns();
    job_kill(me, 1);
    ends_in_death(req, died_ns);
    CHECK_STATUS(WEFT_ERR_PEER, job_await_break(me->world, JOB_WAIT_MS));
}

/* What ends is waited for until its stream lets go of it, however busy the machine is. */
static void join_patiently(job_rank *me)
{
    job_setenv(me, "WEFT_DRAIN_MS", "30000");
    job_join(me);
}

typedef struct ending {
    bool cancels; /* else its time runs out */
    bool shared;  /* over the group's communicator */
} ending;

/* In the middle of a message, who waits runs out of time or cancels: both sides end, buffers are free. */
static void ended_in_the_middle(job_rank *me)
{
    const ending *e = me->arg;
    bool cancels = e->cancels;
    weft_request *req = NULL;
    join_patiently(me);
    void *buf = job_buffer(me, large());
    weft_group *group = job_group(me, me->size, "all", 0);
    if (e->shared) make_communicator(me, group);
    const uint64_t before = calls();
    job_meet(me);
    if (me->rank == 2) {
        CHECK(job_await_break(group, JOB_WAIT_MS) != WEFT_OK);
        job_sum_works(me->world);
        return;
    }
    if (me->rank == 1) {
        weft_call call = {.stream = device_stream(1)};
        device_gate *gate = device_shut(device_stream(1));
        CHECK_OK(weft_irecv(group, buf, large(), WEFT_UINT8, 0, 1, &call, &req));
        if (cancels) await_both(me, before);
        CHECK(job_await_break(group, JOB_WAIT_MS) != WEFT_OK);
        device_open(gate);
        WAIT_STATUS(WEFT_ERR_BROKEN, req);
        CHECK_TEXT(weft_request_message(req), "rank 0");
    } else {
        weft_call call = {.timeout_ms = cancels ? 0 : job_short_ms()};
        CHECK_OK(weft_isend(group, buf, large(), WEFT_UINT8, 1, 1, &call, &req));
        if (cancels) {
            await_both(me, before);
            weft_cancel(req);
        }
        WAIT_STATUS(cancels ? WEFT_ERR_CANCELLED : WEFT_ERR_TIMEOUT, req);
    }
    CHECK(!job_info(req).buffers_held);
    weft_release(req);
    CHECK(job_await_break(group, job_late_ms()) != WEFT_OK);
    job_sum_works(me->world);
}

/* Rank 0 cancels its message to rank 1 in the middle: the one between ranks 1 and 2, which had nothing to do with
 * it, ends too, since it went over the same communicator. */
static void end_together(job_rank *me)
{
    join_patiently(me);
    void *buf = job_buffer(me, large()), *other = job_buffer(me, large());
    weft_group *group = job_group(me, me->size, "all", 0);
    weft_call call = {.stream = device_stream(1)};
    device_gate *gate = NULL;
    weft_request *reqs[2] = {NULL};
    make_communicator(me, group);
    const uint64_t before = calls();
    job_meet(me);
    if (me->rank == 1) {
        gate = device_shut(call.stream);
        CHECK_OK(weft_irecv(group, buf, large(), WEFT_UINT8, 0, 1, &call, &reqs[0]));
        CHECK_OK(weft_irecv(group, other, large(), WEFT_UINT8, 2, 1, &call, &reqs[1]));
    } else {
        CHECK_OK(weft_isend(group, buf, large(), WEFT_UINT8, 1, 1, NULL, &reqs[0]));
    }
    await_calls(me, 3, before, me->rank == 1 ? 2 : 1, 4);
    if (me->rank == 0) weft_cancel(reqs[0]);
    if (gate) {
        CHECK(job_await_break(group, JOB_WAIT_MS) != WEFT_OK);
        device_open(gate);
    }
    for (int i = 0; i < 2; i++) {
        if (!reqs[i]) continue;
        WAIT_STATUS(me->rank == 0 ? WEFT_ERR_CANCELLED : WEFT_ERR_BROKEN, reqs[i]);
        if (me->rank) CHECK_TEXT(weft_request_message(reqs[i]), "cancelled");
        CHECK(!job_info(reqs[i]).buffers_held);
        weft_release(reqs[i]);
    }
    CHECK(job_await_break(group, job_late_ms()) != WEFT_OK);
    job_sum_works(me->world);
}

/* A rank that has no part in them leaves; those of the others go on where they went before. */
static void one_leaves(job_rank *me)
{
    int32_t *buf = job_buffer(me, sizeof *buf);
    weft_request *req = NULL;
    make_communicator(me, me->world);
    job_meet(me);
    if (me->rank == me->size - 1) {
        CHECK_OK(weft_finalize(me->ctx, JOB_WAIT_MS));
        me->ctx = NULL;
        me->world = NULL;
        job_mark(me, 0);
        return;
    }
    job_await(me, 0, 1);
    for (int i = 0; i < 10; i++) {
        job_put_int(buf, me->rank ? -1 : i);
        if (me->rank == 0)
            CHECK_OK(weft_isend(me->world, buf, 1, WEFT_INT32, 1, 0, NULL, &req));
        else
            CHECK_OK(weft_irecv(me->world, buf, 1, WEFT_INT32, 0, 0, NULL, &req));
        WAIT_OK(req);
        weft_release(req);
        CHECK_INT(job_get_int(buf), i);
    }
}

int main(int argc, char **argv)
{
#define ENDED(...) \
    .bare = true, .processes = true, .body = ended_in_the_middle, .arg = &(const ending)__VA_ARGS__
    const struct CMUnitTest tests[] = {
        JOB_TEST("on the group's communicator", .ranks = 4, .body = on_the_groups),
        JOB_TEST("of a group of two, messages first", .ranks = 2, .body = one_for_both, .processes = true),
        JOB_TEST("of a group of two, sums first", .ranks = 2, .body = one_for_both, .processes = true,
                 .arg = "sums"),
        JOB_TEST("before and after it is there", .ranks = 3, .body = before_and_after),
        JOB_TEST("a death among messages", .ranks = 3, .body = death, .processes = true, .killed = 2),
        JOB_TEST("a death among those on the group's", .ranks = 3, .body = death, .processes = true,
                 .killed = 2, .arg = "shared"),
        JOB_TEST("a death in the middle of one", .ranks = 3, .body = death_in_the_middle, .processes = true,
                 .killed = 2),
        JOB_TEST("a death in the middle of one on the group's", .ranks = 3, .body = death_in_the_middle,
                 .processes = true, .killed = 2, .arg = "shared"),
        JOB_TEST("time runs out in the middle", .ranks = 3, ENDED({false, false})),
        JOB_TEST("cancelled in the middle", .ranks = 3, ENDED({true, false})),
        JOB_TEST("time runs out in the middle of one on the group's", .ranks = 3, ENDED({false, true})),
        JOB_TEST("cancelled in the middle of one on the group's", .ranks = 3, ENDED({true, true})),
        JOB_TEST("those on the group's end together", .ranks = 3, .bare = true, .processes = true,
                 .body = end_together),
        JOB_TEST("a third rank leaves", .ranks = 3, .body = one_leaves),
    };
    return JOB_MAIN(tests, argc, argv);
}
