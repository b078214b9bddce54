/* test_graph_messages.c - messages that are recorded in CUDA graphs, in program order (WEFT_DEVICE_ORDER=program, which
 * this program is run with): that replays bring what was sent each time, and what is told while they are recorded. */
#include "chain.h"

#include <string.h>

enum { TIMES = 1000, TAG = 5 };

/* Beside the chain: what goes to the next rank, and what comes from the one before. */
typedef struct ring {
    chain c;
    int32_t *from, *got;
    int next, before;
} ring;

static ring take_ring(job_rank *me)
{
    ring r = {.c = take_chain(me),
              .from = job_buffer(me, bytes),
              .got = device_take(DEVICE_PINNED, bytes),
              .next = (me->rank + 1) % me->size,
              .before = (me->rank + me->size - 1) % me->size};
    warm_up(me, me->world, &r.c);
    return r;
}

static void give_ring(job_rank *me, ring *r)
{
    drop_graph(&r->c);
    give_chain(&r->c);
    device_give(r->got);
    job_meet(me);
}

static void record_ring(job_rank *me, const ring *r)
{
    weft_batch *batch = NULL;
    weft_request *req = NULL;
    CHECK_OK(weft_batch_begin(me->world, &batch));
    const weft_call joins = {.batch = batch, .stream = r->c.stream};
    CHECK_OK(weft_irecv(me->world, r->from, COUNT, WEFT_INT32, r->before, TAG, &joins, NULL));
    CHECK_OK(weft_isend(me->world, r->c.in, COUNT, WEFT_INT32, r->next, TAG, &joins, NULL));
    CHECK_OK(weft_batch_end(batch, NULL, &req));
    WAIT_OK(req);
}

/* The input of the rank before. */
static void check_ring(const ring *r, int time)
{
    device_copy(r->got, r->from, bytes, r->c.stream);
    device_sync(r->c.stream);
    for (int i = 0; i < COUNT; i++) CHECK_INT(r->got[i], i + r->before + time);
}

/* Whoever records the first message to a rank that NCCL has not connected waits for that rank to record its part. */
static void connect_all(job_rank *me, weft_group *group)
{
    const size_t room = (size_t)me->size * bytes;
    int32_t *put = job_buffer(me, room), *got = job_buffer(me, room);
    CHECK_OK(weft_all_to_all(group, put, got, COUNT, WEFT_INT32, NULL, NULL));
    job_meet(me);
}

static void instantiate(ring *r)
{
    end_capture(&r->c);
    DEVICE_OK(device()->cudaGraphInstantiate(&r->c.exec, r->c.graph, 0));
}

/* ---- replays ---- */

/* Three collectives and two messages; others go between the replays, each by itself. */
static void right_each_time(job_rank *me)
{
    ring r = take_ring(me);
    begin_capture(&r.c);
    record_collectives(me->world, &r.c, me->size);
    record_ring(me, &r);
    instantiate(&r);
    for (int time = 0; time < TIMES; time++) {
        replay(me, &r.c, time);
        check_ring(&r, time);
        if (time % 100 == 0) warm_up(me, me->world, &r.c);
    }
    give_ring(me, &r);
}

/* One group call, whatever joins first on a rank. */
static void one_batch(job_rank *me)
{
    ring r = take_ring(me);
    weft_batch *batch = NULL;
    weft_request *req = NULL;
    begin_capture(&r.c);
    uint64_t before = device_is_emulated() ? device()->emu_calls("ncclGroupEnd") : 0;
    CHECK_OK(weft_batch_begin(me->world, &batch));
    const weft_call joins = {.batch = batch, .stream = r.c.stream};
    if (me->rank)
        CHECK_OK(weft_all_reduce(me->world, r.c.in, r.c.last, COUNT, WEFT_INT32, WEFT_SUM, &joins, NULL));
    CHECK_OK(weft_irecv(me->world, r.from, COUNT, WEFT_INT32, r.before, TAG, &joins, NULL));
    CHECK_OK(weft_isend(me->world, r.c.in, COUNT, WEFT_INT32, r.next, TAG, &joins, NULL));
    if (!me->rank)
        CHECK_OK(weft_all_reduce(me->world, r.c.in, r.c.last, COUNT, WEFT_INT32, WEFT_SUM, &joins, NULL));
    CHECK_OK(weft_batch_end(batch, NULL, &req));
    WAIT_OK(req);
    if (device_is_emulated()) CHECK_INT(device()->emu_calls("ncclGroupEnd"), before + 1);
    instantiate(&r);
    for (int time = 0; time < FEW; time++) {
        replay(me, &r.c, time);
        check_ring(&r, time);
    }
    give_ring(me, &r);
}

/* By themselves, with a tag that the receiver does not ask for, and both ways at once; the receipt tells of the message,
 * and an empty one is no part of the graph, so it counts for nothing, also where one side alone records it. */
static void by_themselves(job_rank *me)
{
    ring r = take_ring(me);
    const weft_call call = {.stream = r.c.stream};
    const int other = 1 - me->rank;
    weft_request *req = NULL;
    int32_t *passed = job_buffer(me, bytes);
    begin_capture(&r.c);
    CHECK_OK(weft_all_reduce(me->world, r.c.in, r.c.last, COUNT, WEFT_INT32, WEFT_SUM, &call, &req));
    was_recorded(req, &r.c);
    if (me->rank)
        CHECK_OK(weft_irecv(me->world, passed, COUNT, WEFT_INT32, other, WEFT_ANY_TAG, &call, &req));
    else
        CHECK_OK(weft_isend(me->world, r.c.in, COUNT, WEFT_INT32, other, TAG, &call, &req));
    WAIT_STATUS(WEFT_OK, req);
    weft_request_info info = job_info(req);
    CHECK_TEXT(info.algorithm, "graph");
    CHECK_INT(info.bytes, bytes);
    if (me->rank) CHECK_INT(info.tag, TAG);
    weft_release(req);
    if (me->rank) {
        const weft_call apart = {.stream = WEFT_NO_STREAM, .memory = WEFT_MEMORY_CUDA};
        CHECK_OK(weft_irecv(me->world, NULL, 0, WEFT_INT32, other, TAG, &apart, &req));
        WAIT_OK(req);
    } else {
        const weft_call empty = {.stream = r.c.stream, .memory = WEFT_MEMORY_CUDA};
        CHECK_OK(weft_isend(me->world, NULL, 0, WEFT_INT32, other, TAG, &empty, &req));
        was_recorded(req, &r.c);
    }
    CHECK_OK(weft_send_recv(me->world, r.c.in, r.from, COUNT, WEFT_INT32, other, &call, &req));
    was_recorded(req, &r.c);
    if (me->rank)
        CHECK_OK(weft_irecv(me->world, NULL, 0, WEFT_INT32, other, TAG,
                            &(weft_call){.stream = r.c.stream, .memory = WEFT_MEMORY_CUDA}, &req));
    else
        CHECK_OK(weft_isend(me->world, NULL, 0, WEFT_INT32, other, TAG,
                            &(weft_call){.stream = r.c.stream, .memory = WEFT_MEMORY_CUDA}, &req));
    was_recorded(req, &r.c);
    instantiate(&r);
    for (int time = 0; time < FEW; time++) {
        replay(me, &r.c, time);
        check_ring(&r, time);
        if (me->rank) {
            device_copy(r.got, passed, bytes, r.c.stream);
            device_sync(r.c.stream);
            for (int i = 0; i < COUNT; i++) CHECK_INT(r.got[i], i + other + time);
        }
    }
    give_ring(me, &r);
}

/* ---- what is refused ---- */

static void refused(job_rank *me)
{
    const weft_call asks_not = {.order = WEFT_ORDER_AGREED};
    int ranks[JOB_RANKS_MAX];
    weft_group *agreed = NULL;
    weft_request *req = NULL, *found = NULL, *sent = NULL;
    ring r = take_ring(me);
    const weft_call call = {.stream = r.c.stream}, apart = {.stream = WEFT_NO_STREAM};
    for (int i = 0; i < me->size; i++) ranks[i] = i;
    CHECK_OK(weft_new_group(me->world, ranks, me->size, &asks_not, &agreed, NULL));
    warm_up(me, agreed, &r.c);
    CHECK_OK(weft_isend(me->world, r.c.in, COUNT, WEFT_INT32, r.next, TAG, &apart, &sent));
    CHECK_OK(weft_probe(me->world, r.before, TAG, NULL, &found));
    CHECK_OK(weft_wait(found, WEFT_FOREVER));
    begin_capture(&r.c);
    refuses(WEFT_ERR_UNSUPPORTED, "which rank",
            weft_irecv(me->world, r.from, COUNT, WEFT_INT32, WEFT_ANY_RANK, TAG, &call, &req), req);
    refuses(WEFT_ERR_UNSUPPORTED, "to itself",
            weft_isend(me->world, r.c.in, COUNT, WEFT_INT32, me->rank, TAG, &call, &req), req);
    refuses(WEFT_ERR_UNSUPPORTED, "what a probe has found",
            weft_receive_probed(found, r.from, COUNT, WEFT_INT32, &call, &req), req);
    refuses(WEFT_ERR_UNSUPPORTED, "agreed order",
            weft_isend(agreed, r.c.in, COUNT, WEFT_INT32, r.next, TAG, &call, &req), req);
    refuses(WEFT_ERR_STATE, "needs a request",
            weft_isend(me->world, r.c.in, COUNT, WEFT_INT32, r.next, TAG, &call, NULL), NULL);
    record_collectives(me->world, &r.c, me->size);
    record_ring(me, &r); /* none of those has been counted */
    instantiate(&r);
    CHECK_OK(weft_receive_probed(found, r.from, COUNT, WEFT_INT32, &apart, NULL));
    WAIT_OK(sent);
    weft_release(found);
    replay(me, &r.c, 1);
    check_ring(&r, 1);
    CHECK_OK(weft_group_free(agreed));
    give_ring(me, &r);
}

/* ---- what differs ---- */

typedef enum how { AT_ONCE, RECORDED, ON_HOST /* at once, and received in host memory */ } how;

/* What a rank submits of a message from rank 0 to rank 1. */
typedef struct part {
    how how;
    size_t count;
    weft_dtype dtype;
    int tag;
} part;

/* What the sender says of what is not taken, where it hears that before the group breaks over it. */
static const char *const refusal = "does not take what is recorded here";

static weft_request *submit_part(weft_group *group, const ring *r, int rank, part p)
{
    static int32_t host[COUNT];
    const weft_call call = {.stream = p.how == RECORDED ? r->c.stream : WEFT_NO_STREAM};
    weft_request *req = NULL;
    weft_status status =
        rank ? weft_irecv(group, p.how == ON_HOST ? host : r->from, p.count, p.dtype, 0, p.tag, &call, &req)
             : weft_isend(group, r->c.in, p.count, p.dtype, 1, p.tag, &call, &req);
    CHECK(status == WEFT_OK || status == WEFT_ERR_BROKEN);
    return req;
}

/* The receiver is told, and the group breaks over it on both; what a rank records is as whole as its peer then, and nothing of
 * it ends well. */
static void differ(job_rank *me, const part parts[2][2], int count, const char *why)
{
    ring r = take_ring(me);
    weft_group *group = job_group(me, me->size, "divided", 0);
    weft_request *reqs[2] = {NULL};
    warm_up(me, group, &r.c);
    if (parts[me->rank][0].how == RECORDED) begin_capture(&r.c);
    for (int i = 0; i < count; i++) reqs[i] = submit_part(group, &r, me->rank, parts[me->rank][i]);
    CHECK_INT(job_await_break(group, job_late_ms()), WEFT_ERR_MISMATCH);
    if (me->rank || !strstr(weft_last_error(), refusal)) CHECK_TEXT(weft_last_error(), why);
    for (int i = 0; i < count; i++) {
        weft_status status = reqs[i] ? weft_wait(reqs[i], job_late_ms()) : WEFT_ERR_BROKEN;
        CHECK(parts[me->rank][i].how == RECORDED ? status < 0 : status != WEFT_PENDING);
        weft_release(reqs[i]);
    }
    if (parts[me->rank][0].how == RECORDED) end_capture(&r.c);
    CHECK_OK(weft_group_free(group));
    warm_up(me, me->world, &r.c);
    give_ring(me, &r);
}

static void lengths_differ(job_rank *me)
{
    const part parts[2][2] = {{{RECORDED, COUNT / 2, WEFT_INT32, TAG}}, {{RECORDED, COUNT, WEFT_INT32, TAG}}};
    differ(me, parts, 1, "sends 128 bytes, and here 256 are received");
}

static void too_much_comes(job_rank *me)
{
    const part parts[2][2] = {{{RECORDED, COUNT, WEFT_INT32, TAG}}, {{RECORDED, COUNT / 2, WEFT_INT32, TAG}}};
    differ(me, parts, 1, "sends 256 bytes, and here 128 are received");
}

static void types_differ(job_rank *me)
{
    const part parts[2][2] = {{{RECORDED, COUNT, WEFT_FLOAT32, TAG}}, {{RECORDED, COUNT, WEFT_INT32, TAG}}};
    differ(me, parts, 1, "sends float32 in device memory");
}

/* Tags would say one thing, and a replay does another. */
static void orders_differ(job_rank *me)
{
    const part parts[2][2] = {{{RECORDED, COUNT, WEFT_INT32, TAG}, {RECORDED, COUNT, WEFT_INT32, TAG + 1}},
                              {{RECORDED, COUNT, WEFT_INT32, TAG + 1}, {RECORDED, COUNT, WEFT_INT32, TAG}}};
    differ(me, parts, 2, "replays match by order alone");
}

static void one_sends_at_once(job_rank *me)
{
    const part parts[2][2] = {{{AT_ONCE, COUNT, WEFT_INT32, TAG}}, {{RECORDED, COUNT, WEFT_INT32, TAG}}};
    differ(me, parts, 1, "has sent it at once, and here it is recorded");
}

static void one_receives_at_once(job_rank *me)
{
    const part parts[2][2] = {{{RECORDED, COUNT, WEFT_INT32, TAG}}, {{AT_ONCE, COUNT, WEFT_INT32, TAG}}};
    differ(me, parts, 1, "has recorded it in a graph, and here it is received at once");
}

/* Its receive ends by itself, where nothing is known of a graph. */
static void one_refuses_at_once(job_rank *me)
{
    const part refuses_it[] = {{AT_ONCE, COUNT / 2, WEFT_INT32, TAG},
                               {AT_ONCE, 0, WEFT_INT32, TAG},
                               {AT_ONCE, COUNT, WEFT_FLOAT32, TAG},
                               {ON_HOST, COUNT, WEFT_INT32, TAG}};
    for (size_t i = 0; i < sizeof refuses_it / sizeof *refuses_it; i++) {
        const part parts[2][2] = {{{RECORDED, COUNT, WEFT_INT32, TAG}}, {refuses_it[i]}};
        differ(me, parts, 1, refusal);
    }
}

/* Whom it has met is named, which the call did not say. */
static void one_receives_from_any_rank(job_rank *me)
{
    enum { FROM = 1, TO = 2 };
    ring r = take_ring(me);
    const weft_call records = {.stream = r.c.stream}, apart = {.stream = WEFT_NO_STREAM};
    weft_group *group = job_group(me, me->size, "divided", 0);
    weft_request *req = NULL;
    warm_up(me, group, &r.c);
    connect_all(me, group);
    if (me->rank == FROM) {
        begin_capture(&r.c);
        CHECK_OK(weft_isend(group, r.c.in, COUNT, WEFT_INT32, TO, TAG, &records, &req));
    } else if (me->rank == TO) {
        CHECK_OK(weft_irecv(group, r.from, COUNT, WEFT_INT32, WEFT_ANY_RANK, TAG, &apart, &req));
    }
    CHECK_INT(job_await_break(group, job_late_ms()), WEFT_ERR_MISMATCH);
    if (req) WAIT_STATUS(WEFT_ERR_MISMATCH, req);
    if (me->rank == TO) {
        CHECK_TEXT(weft_request_message(req), "has recorded it in a graph, and here it is received at once");
        CHECK_NAMES(weft_request_message(req), 1U << FROM, me->size);
    }
    weft_release(req);
    if (me->rank == FROM) end_capture(&r.c);
    job_meet(me);
    CHECK_OK(weft_group_free(group));
    warm_up(me, me->world, &r.c);
    give_ring(me, &r);
}

/* ---- whose recording fails ---- */

/* Its record is the next message's, which the lost one's other side must not touch. */
static void next_message(job_rank *me, const ring *r)
{
    const weft_call apart = {.stream = WEFT_NO_STREAM};
    weft_request *req = NULL;
    if (me->rank) CHECK_OK(weft_irecv(me->world, r->from, COUNT, WEFT_INT32, 0, TAG, &apart, &req));
    job_meet(me);
    if (!me->rank) CHECK_OK(weft_isend(me->world, r->c.in, COUNT, WEFT_INT32, 1, TAG, &apart, &req));
    WAIT_OK(req);
}

/* CUDA refuses the graph's hold on the communicator, before anything is recorded. */
static void one_fails_to_record(job_rank *me, bool sends, const char *script)
{
    ring r = take_ring(me);
    const weft_call records = {.stream = r.c.stream}, apart = {.stream = WEFT_NO_STREAM};
    weft_group *group = job_group(me, me->size, "failed", 0);
    weft_request *req = NULL;
    weft_status status = WEFT_OK;
    warm_up(me, group, &r.c);
    if (me->rank) {
        begin_capture(&r.c);
        device()->emu_script(script);
        CHECK_OK(sends ? weft_isend(group, r.c.in, COUNT, WEFT_INT32, 0, TAG, &records, &req)
                       : weft_irecv(group, r.from, COUNT, WEFT_INT32, 0, TAG, &records, &req));
        device()->emu_script(NULL);
        status = weft_wait(req, job_late_ms());
        /* The other side may have heard of the message by then, and have broken the group itself, see below. */
        CHECK(status == WEFT_ERR_SYSTEM || (sends && status == WEFT_ERR_MISMATCH));
        end_capture(&r.c);
    } else if (sends) { /* it may have heard of the message, and take it for one that is recorded */
        status = weft_irecv(group, r.from, COUNT, WEFT_INT32, 1, TAG, &apart, &req);
        CHECK(status == WEFT_OK || status == WEFT_ERR_BROKEN);
        if (req) CHECK(weft_wait(req, job_late_ms()) < 0);
    }
    weft_release(req);
    next_message(me, &r);
    CHECK(job_await_break(group, job_late_ms()) < 0);
    CHECK_OK(weft_group_free(group));
    warm_up(me, me->world, &r.c);
    give_ring(me, &r);
}

static void it_is_not_recorded(job_rank *me)
{
    for (int sends = 0; sends < 2 && device_is_emulated(); sends++)
        one_fails_to_record(me, sends, "cudaUserObjectCreate@1=error:2");
}

/* Nor does CUDA take the hold back: the communicator stays behind with it. */
static void it_stays_behind(job_rank *me)
{
    if (device_is_emulated())
        one_fails_to_record(me, false, "cudaGraphRetainUserObject@1=error:2;cudaUserObjectRelease@1=error:2");
}

/* ---- who does not come, or takes it back ---- */

static void nobody_receives(job_rank *me, bool cancels)
{
    ring r = take_ring(me);
    const weft_call call = {.stream = r.c.stream, .timeout_ms = cancels ? WEFT_FOREVER : job_short_ms()};
    weft_group *group = job_group(me, me->size, "timed", 0);
    weft_request *req = NULL;
    warm_up(me, group, &r.c);
    connect_all(me, group);
    if (!me->rank) {
        begin_capture(&r.c);
        CHECK_OK(weft_isend(group, r.c.in, COUNT, WEFT_INT32, 1, TAG, &call, &req));
        if (cancels) weft_cancel(req);
        WAIT_STATUS(cancels ? WEFT_ERR_CANCELLED : WEFT_ERR_TIMEOUT, req);
        if (!cancels) CHECK_NAMES(weft_request_message(req), 1U << 1, me->size);
        weft_release(req);
        end_capture(&r.c);
    }
    CHECK(job_await_break(group, job_short_ms() + job_late_ms()) < 0);
    job_meet(me);
    CHECK_OK(weft_group_free(group));
    warm_up(me, me->world, &r.c);
    give_ring(me, &r);
}

static void a_late_receiver(job_rank *me)
{
    nobody_receives(me, false);
}

static void one_is_cancelled(job_rank *me)
{
    nobody_receives(me, true);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("right each time", .ranks = 3, .processes = true, .body = right_each_time),
        JOB_TEST("one batch", .ranks = 2, .processes = true, .body = one_batch),
        JOB_TEST("by themselves", .ranks = 2, .processes = true, .body = by_themselves),
        JOB_TEST("refused", .ranks = 2, .processes = true, .body = refused),
        JOB_TEST("lengths differ", .ranks = 2, .processes = true, .body = lengths_differ),
        JOB_TEST("too much comes", .ranks = 2, .processes = true, .body = too_much_comes),
        JOB_TEST("types differ", .ranks = 2, .processes = true, .body = types_differ),
        JOB_TEST("orders differ", .ranks = 2, .processes = true, .body = orders_differ),
        JOB_TEST("one sends at once", .ranks = 2, .processes = true, .body = one_sends_at_once),
        JOB_TEST("one receives at once", .ranks = 2, .processes = true, .body = one_receives_at_once),
        JOB_TEST("one refuses at once", .ranks = 2, .processes = true, .body = one_refuses_at_once),
        JOB_TEST("one receives from any rank", .ranks = 3, .processes = true,
                 .body = one_receives_from_any_rank),
        JOB_TEST("it is not recorded", .ranks = 2, .processes = true, .body = it_is_not_recorded),
        JOB_TEST("it stays behind", .ranks = 2, .processes = true, .body = it_stays_behind),
        JOB_TEST("a late receiver", .ranks = 2, .processes = true, .body = a_late_receiver),
        JOB_TEST("one is cancelled", .ranks = 2, .processes = true, .body = one_is_cancelled),
    };
    return JOB_MAIN(tests, argc, argv);
}
