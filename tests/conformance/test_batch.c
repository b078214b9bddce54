/* test_batch.c - batches: what joins starts together and settles as one request. */
#include "collective.h"
#include "device.h"

#include <stdlib.h>
#include <string.h>

enum { RANKS = 3, PIECES = 40, MANY = 1000, LARGE = 70000 };

static weft_batch *begin(weft_group *group)
{
    weft_batch *batch = NULL;
    CHECK_OK(weft_batch_begin(group, &batch));
    CHECK(batch);
    return batch;
}

/* A buffer of one number. */
static int32_t *number(job_rank *me, int32_t value)
{
    int32_t *at = job_buffer(me, sizeof *at);
    job_put_int(at, value);
    return at;
}

/* An all_reduce of one number that the caller looks at later. */
static void join_sum(job_rank *me, weft_batch *batch, const int32_t *in, int32_t *out)
{
    weft_call call = {.batch = batch};
    CHECK_OK(weft_all_reduce(me->world, in, out, 1, WEFT_INT32, WEFT_SUM, &call, NULL));
}

/* ---- what it does ------------------------------------------------------------------------------------ */

static void every_collective(job_rank *me)
{
    running parts[2 * COLLECTIVE_KINDS];
    weft_call call = {.batch = begin(me->world)}, end = {.label = "all kinds"};
    weft_request *req = NULL;
    size_t bytes = 0;
    for (int i = 0; i < 2 * COLLECTIVE_KINDS; i++) {
        collective what = {.kind = (collective_kind)(i / 2),
                           .dtype = WEFT_INT32,
                           .op = WEFT_SUM,
                           .count = i % 2 ? LARGE : 5,
                           .root = i % RANKS,
                           .seed = (uint64_t)i};
        CHECK_OK(collective_submit(&parts[i], me->world, &what, &call));
        size_t in = parts[i].in_blocks.total, out = parts[i].out_blocks.total;
        if (what.kind == BROADCAST) {
            in = out = what.count;
        }
        bytes += 4 * (in > out ? in : out);
    }
    CHECK_OK(weft_batch_end(call.batch, &end, &req));
    CHECK_TEXT(weft_request_message(req), "batch #1 on group");
    WAIT_STATUS(WEFT_OK, req);
    weft_request_info info = job_info(req);
    CHECK(strcmp(info.operation, "batch") == 0);
    CHECK(strcmp(info.label, "all kinds") == 0);
    CHECK_INT(info.bytes, bytes);
    CHECK_INT(info.sequence, 1);
    CHECK_INT(info.status, WEFT_OK);
    CHECK(info.submitted_ns <= info.started_ns && info.started_ns <= info.settled_ns);
    for (int i = 0; i < 2 * COLLECTIVE_KINDS; i++) collective_finish(&parts[i]);
    weft_release(req);
    job_sum_works(me->world);
}

/* Nothing of a batch has a number before its end: what is submitted meanwhile comes first. */
static void starts_at_end(job_rank *me)
{
    int32_t *in = number(me, me->rank + 1), *out = number(me, 0), *later = number(me, 0);
    weft_request *req = NULL;
    weft_batch *batch = begin(me->world);
    join_sum(me, batch, in, out);
    CHECK_OK(weft_all_reduce(me->world, in, later, 1, WEFT_INT32, WEFT_MAX, NULL, &req));
    WAIT_STATUS(WEFT_OK, req);
    CHECK_INT(job_info(req).sequence, 1);
    weft_release(req);
    CHECK_INT(job_get_int(later), RANKS);
    CHECK_INT(job_get_int(out), 0);
    job_put_int(in, 10);
    CHECK_OK(weft_batch_end(batch, NULL, NULL));
    CHECK_INT(job_get_int(out), 10 * RANKS);
    CHECK_OK(weft_all_reduce(me->world, in, later, 1, WEFT_INT32, WEFT_MAX, NULL, &req));
    CHECK_INT(job_info(req).sequence, 3);
    WAIT_OK(req);
}

/* Each rank sends to all and receives from all, the sends of one rank before and of another after its
 * receives; no order deadlocks. */
static void messages(job_rank *me)
{
    size_t bytes = LARGE * sizeof(int32_t);
    int32_t *in = job_buffer(me, bytes), *out = job_buffer(me, RANKS * bytes);
    int32_t *image = job_alloc(me, RANKS * bytes);
    weft_call call = {.batch = begin(me->world)};
    weft_request *req = NULL;
    for (int i = 0; i < LARGE; i++) image[i] = me->rank * LARGE + i;
    job_put(in, image, bytes);
    for (int half = 0; half < 2; half++)
        for (int r = 0; r < RANKS; r++) {
            if ((me->rank + half) % 2) {
                CHECK_OK(
                    weft_irecv(me->world, out + (size_t)r * LARGE, LARGE, WEFT_INT32, r, 1, &call, NULL));
            } else {
                CHECK_OK(weft_isend(me->world, in, LARGE, WEFT_INT32, r, 1, &call, NULL));
            }
        }
    CHECK_OK(weft_batch_end(call.batch, NULL, &req));
    WAIT_OK(req);
    job_get(image, out, RANKS * bytes);
    for (int i = 0; i < RANKS * LARGE; i++) CHECK_INT(image[i], i);
}

static void many_messages(job_rank *me)
{
    size_t bytes = MANY * sizeof(int32_t);
    int32_t *in = job_buffer(me, bytes), *out = job_buffer(me, bytes), *image = job_alloc(me, bytes);
    weft_call call = {.batch = begin(me->world)};
    int next = (me->rank + 1) % RANKS, before = (me->rank + RANKS - 1) % RANKS;
    for (int i = 0; i < MANY; i++) image[i] = me->rank * MANY + i;
    job_put(in, image, bytes);
    for (int i = 0; i < MANY / 2; i++) {
        CHECK_OK(weft_isend(me->world, &in[2 * i], 2, WEFT_INT32, next, i, &call, NULL));
        CHECK_OK(weft_irecv(me->world, &out[2 * i], 2, WEFT_INT32, before, i, &call, NULL));
    }
    CHECK_OK(weft_batch_end(call.batch, NULL, NULL));
    job_get(image, out, bytes);
    for (int i = 0; i < MANY; i++) CHECK_INT(image[i], before * MANY + i);
}

/* What is sent in place is what the buffer holds at end. */
static void exchange_in_place(job_rank *me)
{
    int32_t value = -1;
    weft_call call = {.batch = begin(me->world)};
    CHECK_OK(weft_send_recv(me->world, &value, &value, 1, WEFT_INT32, 1 - me->rank, &call, NULL));
    value = 50 + me->rank;
    CHECK_OK(weft_batch_end(call.batch, NULL, NULL));
    CHECK_INT(value, 50 + 1 - me->rank);
    call.batch = begin(me->world);
    CHECK_OK(weft_send_recv(me->world, &value, &value, 1, WEFT_INT32, 1 - me->rank, &call, NULL));
    weft_batch_discard(call.batch);
}

static void empty(job_rank *me)
{
    weft_request *req = NULL;
    CHECK_OK(weft_batch_end(begin(me->world), NULL, NULL));
    CHECK_OK(weft_batch_end(begin(me->world), NULL, &req));
    CHECK(weft_is_completed(req));
    CHECK_INT(job_info(req).bytes, 0);
    CHECK_INT(job_info(req).sequence, 2);
    weft_release(req);
    weft_batch_discard(begin(me->world));
    weft_batch_discard(NULL);
    job_sum_works(me->world);
}

static void in_flight_at_once(job_rank *me)
{
    int32_t *in = number(me, me->rank), *out = job_buffer(me, 2 * PIECES * sizeof *out);
    weft_request *reqs[PIECES];
    for (int i = 0; i < PIECES; i++) {
        weft_batch *batch = begin(me->world);
        join_sum(me, batch, in, &out[2 * i]);
        join_sum(me, batch, in, &out[2 * i + 1]);
        CHECK_OK(weft_batch_end(batch, NULL, &reqs[i]));
    }
    weft_release(reqs[0]); /* a pending one goes on without its handle */
    reqs[0] = NULL;
    CHECK_OK(weft_wait_all(reqs, PIECES, JOB_WAIT_MS));
    for (int i = 1; i < PIECES; i++) {
        CHECK_INT(job_get_int(&out[2 * i]) + job_get_int(&out[2 * i + 1]), RANKS * (RANKS - 1));
        weft_release(reqs[i]);
    }
    CHECK_OK(weft_barrier(me->world, NULL, NULL));
    CHECK_INT(job_get_int(&out[0]) + job_get_int(&out[1]), RANKS * (RANKS - 1));
}

typedef struct own_group {
    weft_group *groups[4];
} own_group;

/* Threads have batches of their own, each on a group of its own. */
static void thread_batches(job_rank *me, int thread, void *arg)
{
    weft_group *group = ((own_group *)arg)->groups[thread];
    for (int round = 0; round < PIECES; round++) {
        int32_t in = me->rank + thread + round, out[3] = {0};
        weft_call call = {.batch = begin(group)};
        for (int i = 0; i < 3; i++)
            CHECK_OK(weft_all_reduce(group, &in, &out[i], 1, WEFT_INT32, WEFT_SUM, &call, NULL));
        CHECK_OK(weft_batch_end(call.batch, NULL, NULL));
        for (int i = 0; i < 3; i++) CHECK_INT(out[i], RANKS * (thread + round) + RANKS * (RANKS - 1) / 2);
    }
}

static void of_threads(job_rank *me)
{
    own_group own;
    for (int t = 0; t < 4; t++) own.groups[t] = job_group(me, RANKS, "own", 0);
    job_threads(me, 4, thread_batches, &own);
}

/* ---- callbacks --------------------------------------------------------------------------------------- */

typedef struct called {
    _Atomic int calls, status;
    _Atomic bool settled;
} called;

static void note(weft_request *req, weft_status status, void *arg)
{
    called *c = arg;
    c->status = status;
    c->settled = weft_is_completed(req);
    c->calls++;
}

static void callbacks(job_rank *me)
{
    called c = {0};
    int32_t *in = number(me, 1), *out[2] = {number(me, 0), number(me, 0)};
    weft_call end = {.done = note, .arg = &c};
    weft_batch *batch = begin(me->world);
    join_sum(me, batch, in, out[0]);
    join_sum(me, batch, in, out[1]);
    CHECK_OK(weft_batch_end(batch, &end, NULL));
    CHECK_INT(c.calls, 1);
    CHECK_INT(c.status, WEFT_OK);
    CHECK(c.settled);
    CHECK_INT(job_get_int(out[0]) + job_get_int(out[1]), 2 * RANKS);
    c.calls = 0;
    CHECK_OK(weft_batch_end(begin(me->world), &end, NULL)); /* of an empty one too */
    CHECK_INT(c.calls, 1);
}

/* ---- what is refused
 * ------------------------------------------------------------------------------------ */

/* Ends a batch that has refused something: the same status and sentence, and nothing was submitted. */
static void check_refused(job_rank *me, weft_batch *batch, weft_status status, const char *part)
{
    weft_request *req = NULL;
    CHECK_INT(weft_group_status(me->world), WEFT_OK);
    CHECK_STATUS(status, weft_batch_end(batch, NULL, &req));
    CHECK_TEXT(weft_last_error(), part);
    CHECK(!req);
}

static void refused(job_rank *me)
{
    weft_group *other = job_group(me, me->size, "other", 0), *made = NULL;
    weft_mesh *mesh = NULL;
    weft_request *req = NULL;
    int32_t in = 1, out = 7;
    called c = {0};
    const int all[RANKS] = {0, 1, 2};
    weft_call call = {.batch = begin(me->world)};
    join_sum(me, call.batch, &in, &out);
    CHECK_STATUS(WEFT_ERR_ARGUMENT,
                 weft_all_reduce(me->world, &in, &out, 1, WEFT_INT32, WEFT_SUM, &call, &req));
    CHECK_TEXT(weft_last_error(), "req must be NULL");
    CHECK(!req);
    join_sum(me, call.batch, &in, &out); /* checked by itself, as ever */
    check_refused(me, call.batch, WEFT_ERR_ARGUMENT, "req must be NULL");

    call = (weft_call){.batch = begin(me->world), .done = note, .arg = &c};
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_barrier(me->world, &call, NULL));
    check_refused(me, call.batch, WEFT_ERR_ARGUMENT, "call->done");
    call = (weft_call){.batch = begin(me->world), .timeout_ms = 5};
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_barrier(me->world, &call, NULL));
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_barrier(NULL, &call, NULL));
    check_refused(me, call.batch, WEFT_ERR_ARGUMENT, "call->timeout_ms is 5"); /* the first counts */
    call = (weft_call){.batch = begin(me->world)};
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_barrier(other, &call, NULL));
    check_refused(me, call.batch, WEFT_ERR_ARGUMENT, "other");
    call = (weft_call){.batch = begin(me->world)};
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_isend(me->world, &in, 1, WEFT_INT32, RANKS, 0, &call, NULL));
    check_refused(me, call.batch, WEFT_ERR_ARGUMENT, "peer is 3");
    call = (weft_call){.batch = begin(me->world)};
    CHECK_STATUS(WEFT_ERR_UNSUPPORTED,
                 weft_all_reduce(me->world, &in, &out, 1, WEFT_INT32, WEFT_AVG, &call, NULL));
    check_refused(me, call.batch, WEFT_ERR_UNSUPPORTED, "avg");
    call = (weft_call){.batch = begin(me->world)};
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_new_group(me->world, all, RANKS, &call, &made, NULL));
    check_refused(me, call.batch, WEFT_ERR_ARGUMENT, "call->batch");
    call = (weft_call){.batch = begin(me->world)};
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_split_group(me->world, 0, 0, &call, &made, NULL));
    check_refused(me, call.batch, WEFT_ERR_ARGUMENT, "call->batch");
    call = (weft_call){.batch = begin(me->world)};
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_mesh_create(me->world, "a=3", &call, &mesh, NULL));
    check_refused(me, call.batch, WEFT_ERR_ARGUMENT, "call->batch");
    CHECK(!made && !mesh);
    CHECK_INT(out, 7);
    CHECK_INT(c.calls, 0);
    job_sum_works(me->world);
    job_sum_works(other);
}

static void end_refused(job_rank *me)
{
    weft_call call = {.timeout_ms = -7};
    int32_t in = 1, out = 7;
    weft_batch *batch = begin(me->world);
    join_sum(me, batch, &in, &out);
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_batch_end(batch, &call, NULL));
    call = (weft_call){.batch = begin(me->world)};
    batch = begin(me->world);
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_batch_end(batch, &call, NULL)); /* no batch in a batch */
    check_refused(me, call.batch, WEFT_ERR_ARGUMENT, "call->batch");
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_batch_end(NULL, NULL, NULL));
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_batch_begin(NULL, &batch));
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_batch_begin(me->world, NULL));
    batch = begin(me->world);
    join_sum(me, batch, &in, &out);
    weft_batch_discard(batch);
    CHECK_INT(out, 7);
    job_sum_works(me->world);
}

static void end_in_callback(weft_request *req, weft_status status, void *arg)
{
    job_rank *me = (job_rank *)(uintptr_t)arg;
    weft_request *mine = NULL;
    weft_batch *batch = NULL;
    (void)req;
    (void)status;
    int64_t *told = job_results(me, me->rank);
    told[0] = weft_batch_begin(me->world, &batch) == WEFT_OK;
    told[1] = weft_batch_end(batch, NULL, NULL);
    told[2] = weft_batch_begin(me->world, &batch) == WEFT_OK;
    weft_call call = {.batch = batch};
    told[3] = weft_barrier(me->world, &call, NULL);
    told[4] = weft_batch_end(batch, NULL, &mine);
    weft_release(mine);
    job_mark(me, me->rank);
}

static void in_callback(job_rank *me)
{
    weft_call call = {.done = end_in_callback, .arg = me};
    CHECK_OK(weft_barrier(me->world, &call, NULL));
    job_await(me, me->rank, 1);
    int64_t *told = job_results(me, me->rank);
    CHECK(told[0] && told[2]);
    CHECK_INT(told[1], WEFT_ERR_STATE);
    CHECK_INT(told[3], WEFT_OK);
    CHECK_INT(told[4], WEFT_OK);
}

/* What nobody ended goes with the context; a leak is told by the address sanitizer. */
static void left_open(job_rank *me)
{
    int32_t value = 1, out;
    weft_call call = {.batch = begin(me->world)};
    join_sum(me, call.batch, &value, &out);
    CHECK_OK(weft_send_recv(me->world, &value, &value, 1, WEFT_INT32, 1 - me->rank, &call, NULL));
    begin(me->world);
    job_sum_works(me->world);
}

/* ---- failures
 * --------------------------------------------------------------------------------------------- */

/* One deadline for all members: the first failure in order of joining is told, and who is late. */
static void timeout(job_rank *me)
{
    int32_t *value[3] = {number(me, 0), number(me, 0), number(me, 0)}, *in = number(me, 1);
    weft_request *req = NULL;
    weft_call end = {.timeout_ms = JOB_SHORT_MS}, call = {.batch = NULL};
    job_meet(me);
    if (me->rank != 1) {
        weft_batch *batch = call.batch = begin(me->world);
        CHECK_OK(weft_isend(me->world, in, 1, WEFT_INT32, me->rank, 1, &call, NULL));
        CHECK_OK(weft_irecv(me->world, value[0], 1, WEFT_INT32, me->rank, 1, &call, NULL));
        join_sum(me, batch, in, value[1]);
        CHECK_OK(weft_irecv(me->world, value[2], 1, WEFT_INT32, 1, 4, &call, NULL));
        CHECK_OK(weft_batch_end(batch, &end, &req));
        job_results(me, me->rank)[0] = job_info(req).submitted_ns;
        WAIT_STATUS(WEFT_ERR_TIMEOUT, req);
        weft_request_info info = job_info(req);
        CHECK_PERIOD(job_earliest(me, 0), info.settled_ns, JOB_SHORT_MS, INT32_MAX);
        CHECK_PERIOD(info.submitted_ns, info.settled_ns, 0, JOB_SHORT_MS + job_late_ms());
        CHECK_TEXT(weft_request_message(req), "batch #1");
        CHECK_TEXT(weft_request_message(req), "all_reduce #1");
        CHECK_NAMES(weft_request_message(req), 1U << 1, RANKS);
        CHECK_TEXT(weft_last_error(), "all_reduce #1");
        weft_release(req);
        CHECK_INT(job_get_int(value[0]), 1);
    }
    job_meet(me);
    if (me->rank == 1) {
        job_await_break(me->world, JOB_WAIT_MS);
    }
    CHECK_STATUS(WEFT_ERR_TIMEOUT, weft_group_status(me->world));
}

static void timeout_of_messages(job_rank *me)
{
    int32_t *value[2] = {number(me, 0), number(me, 0)};
    weft_request *req = NULL;
    weft_call end = {.timeout_ms = 200}, call = {.batch = begin(me->world)};
    CHECK_OK(weft_irecv(me->world, value[0], 1, WEFT_INT32, 1 - me->rank, 8, &call, NULL));
    CHECK_OK(weft_irecv(me->world, value[1], 1, WEFT_INT32, 1 - me->rank, 9, &call, NULL));
    CHECK_OK(weft_batch_end(call.batch, &end, &req));
    WAIT_STATUS(WEFT_ERR_TIMEOUT, req);
    CHECK_TEXT(weft_request_message(req), "irecv #1");
    weft_release(req);
    job_meet(me);
    CHECK_OK(weft_group_status(me->world)); /* messages that time out break nothing */
    job_sum_works(me->world);
}

/* The one that disagrees is the last, so that nobody begins after the group has broken. */
static void mismatch(job_rank *me)
{
    int32_t in[2] = {1, 2}, out[3][2];
    weft_request *req = NULL;
    weft_call call = {.batch = begin(me->world)};
    size_t count = me->rank == 1 ? 2 : 1;
    if (me->rank == 1) job_await(me, 0, me->size - 1);
    CHECK_OK(weft_all_reduce(me->world, in, out[0], 1, WEFT_INT32, WEFT_SUM, &call, NULL));
    CHECK_OK(weft_all_reduce(me->world, in, out[1], count, WEFT_INT32, WEFT_SUM, &call, NULL));
    CHECK_OK(weft_all_reduce(me->world, in, out[2], 1, WEFT_INT32, WEFT_SUM, &call, NULL));
    CHECK_OK(weft_batch_end(call.batch, NULL, &req));
    job_mark(me, 0);
    WAIT_STATUS(WEFT_ERR_MISMATCH, req);
    CHECK_TEXT(weft_request_message(req), "batch");
    CHECK_TEXT(weft_request_message(req), "all_reduce of 1 int32");
    CHECK_TEXT(weft_request_message(req), "all_reduce of 2 int32");
    weft_release(req);
    job_meet(me);
    CHECK_STATUS(WEFT_ERR_MISMATCH, weft_group_status(me->world));
}

static void cancelled(job_rank *me)
{
    int32_t in = 1, out[2], late;
    weft_request *req = NULL;
    if (me->rank == 0) {
        weft_call call = {.batch = begin(me->world)};
        CHECK_OK(weft_irecv(me->world, &late, 1, WEFT_INT32, 1, 2, &call, NULL));
        join_sum(me, call.batch, &in, &out[0]);
        join_sum(me, call.batch, &in, &out[1]);
        CHECK_OK(weft_batch_end(call.batch, NULL, &req));
        CHECK_INT(weft_wait(req, 50), WEFT_PENDING);
        weft_cancel(req);
        WAIT_STATUS(WEFT_ERR_CANCELLED, req);
        CHECK_TEXT(weft_request_message(req), "irecv #1");
        CHECK_TEXT(weft_request_message(req), "cancelled by rank 0");
        weft_cancel(req);
        weft_release(req);
    }
    CHECK_INT(job_await_break(me->world, JOB_WAIT_MS), WEFT_ERR_CANCELLED);
}

/* On a broken group messages go on, and collectives are refused as a whole: nothing is half done. */
static void broken(job_rank *me)
{
    int32_t in = 5 + me->rank, out = 0, sum = 7;
    int other = 1 - me->rank;
    weft_request *req = NULL;
    job_meet(me);
    CHECK_OK(weft_group_abort(me->world, "to see a broken group"));
    weft_call call = {.batch = begin(me->world)};
    CHECK_OK(weft_isend(me->world, &in, 1, WEFT_INT32, other, 3, &call, NULL));
    join_sum(me, call.batch, &in, &sum);
    CHECK_STATUS(WEFT_ERR_BROKEN, weft_batch_end(call.batch, NULL, &req));
    CHECK_TEXT(weft_last_error(), "to see a broken group");
    CHECK(!req);
    call.batch = begin(me->world);
    in += 10;
    CHECK_OK(weft_isend(me->world, &in, 1, WEFT_INT32, other, 3, &call, NULL));
    CHECK_OK(weft_irecv(me->world, &out, 1, WEFT_INT32, other, 3, &call, NULL));
    CHECK_OK(weft_batch_end(call.batch, NULL, NULL));
    CHECK_INT(out, 15 + other);
    CHECK_INT(sum, 7);
    job_meet(me);
}

static void death(job_rank *me)
{
    int32_t in = 1, out[2], value;
    weft_request *req = NULL;
    if (me->rank == 2) {
        job_await(me, 0, 2);
        job_kill(me, 2);
    }
    weft_call call = {.batch = begin(me->world)};
    CHECK_OK(weft_isend(me->world, &in, 1, WEFT_INT32, 1 - me->rank, 3, &call, NULL));
    CHECK_OK(weft_irecv(me->world, &value, 1, WEFT_INT32, 1 - me->rank, 3, &call, NULL));
    join_sum(me, call.batch, &in, &out[0]);
    CHECK_OK(weft_irecv(me->world, &out[1], 1, WEFT_INT32, 2, 3, &call, NULL));
    CHECK_OK(weft_batch_end(call.batch, NULL, &req));
    job_mark(me, 0);
    WAIT_STATUS(WEFT_ERR_PEER, req);
    CHECK_INT(job_info(req).peer, 2);
    CHECK_NAMES(weft_request_message(req), 1U << 2, RANKS);
    CHECK_INT(value, 1);
    weft_release(req);
    job_mark(me, 1);
    job_await(me, 1, 2); /* who leaves earlier would be the one that is gone */
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("every collective joins", .ranks = RANKS, .body = every_collective),
        JOB_TEST("nothing starts before end", .ranks = RANKS, .body = starts_at_end),
        JOB_TEST("messages in any order", .ranks = RANKS, .body = messages),
        JOB_TEST("a thousand messages", .ranks = RANKS, .body = many_messages),
        JOB_TEST("exchange in place", .ranks = 2, .body = exchange_in_place),
        JOB_TEST("an empty batch settles at once", .ranks = 2, .body = empty),
        JOB_TEST("a group of one", .ranks = 1, .body = empty),
        JOB_TEST("many batches in flight", .ranks = RANKS, .body = in_flight_at_once),
        JOB_TEST("batches of several threads", .ranks = RANKS, .body = of_threads),
        JOB_TEST("one callback", .ranks = RANKS, .body = callbacks),
        JOB_TEST("refused joins are end's answer", .ranks = RANKS, .body = refused),
        JOB_TEST("end may be refused", .ranks = RANKS, .body = end_refused),
        JOB_TEST("in a callback", .ranks = 2, .body = in_callback),
        JOB_TEST("left to the context", .ranks = 2, .body = left_open),
        JOB_TEST("one deadline for all", .ranks = RANKS, .body = timeout),
        JOB_TEST("messages that time out break nothing", .ranks = 2, .body = timeout_of_messages),
        JOB_TEST("mismatch inside", .ranks = RANKS, .body = mismatch),
        JOB_TEST("cancel stops all", .ranks = 2, .body = cancelled),
        JOB_TEST("on a broken group", .ranks = 2, .body = broken),
        JOB_TEST("death of a member", .ranks = RANKS, .body = death, .processes = true, .killed = 1U << 2),
    };
    return JOB_MAIN(tests, argc, argv);
}
