/* test_device_pair.c - messages on devices: matching, order against everything else, and failures.
 *
 * The devices are those of module_serial.c, of which each does one thing after the other, so that ranks which
 * issue in different orders hang; ranks are threads then, since these devices are in one process.  With
 * JOB_MEMORY=cuda they are CUDA's. */
#include "device.h"

#include <stdlib.h>
#include <string.h>

enum { SHORT_MS = 100 * JOB_SLOWER, MEETING_MS = JOB_SHORT_MS, MANY = 300, LARGEST = 5000 };

static const weft_call on_device = {.memory = WEFT_MEMORY_CUDA, .stream = WEFT_NO_STREAM};
static const weft_call on_host = {.memory = WEFT_MEMORY_HOST};

static weft_request *send_to(weft_group *group, const int32_t *buf, size_t n, int peer, int tag)
{
    weft_request *req = NULL;
    CHECK_OK(weft_isend(group, buf, n, WEFT_INT32, peer, tag, &on_device, &req));
    return req;
}

static weft_request *receive_from(weft_group *group, int32_t *buf, size_t n, int peer, int tag)
{
    weft_request *req = NULL;
    CHECK_OK(weft_irecv(group, buf, n, WEFT_INT32, peer, tag, &on_device, &req));
    return req;
}

/* A buffer of n that count up from first. */
static int32_t *counting(job_rank *me, size_t n, int32_t first)
{
    int32_t *buffer = job_buffer(me, n * sizeof *buffer), *values = job_alloc(me, n * sizeof *values);
    for (size_t i = 0; i < n; i++) values[i] = first + (int32_t)i;
    job_put(buffer, values, n * sizeof *values);
    return buffer;
}

static bool counts(job_rank *me, const int32_t *buffer, size_t n, int32_t first)
{
    int32_t *values = job_alloc(me, n * sizeof *values + 1);
    job_get(values, buffer, n * sizeof *values);
    for (size_t i = 0; i < n; i++)
        if (values[i] != first + (int32_t)i) return false;
    return true;
}

/* A message each way, on the device. */
static void messages_work(job_rank *me, weft_group *group, int peer)
{
    int32_t *out = counting(me, 3, weft_group_rank(group)), *in = counting(me, 3, -9);
    weft_request *send = send_to(group, out, 3, peer, 99), *receive = receive_from(group, in, 3, peer, 99);
    WAIT_OK(send);
    WAIT_OK(receive);
    CHECK(counts(me, in, 3, peer));
}

/* ---- the two kinds of memory ------------------------------------------------------------------------ */

static void kinds_of_memory(job_rank *me)
{
    static const size_t counts[] = {1, LARGEST};
    for (int i = 0; i < 4; i++) {
        const weft_call *sends = i & 1 ? &on_device : &on_host, *receives = i & 1 ? &on_host : &on_device;
        bool here = (i & 1) == (me->rank == 0); /* this rank's side is on the device */
        int32_t *buf = here ? counting(me, LARGEST, 0) : job_alloc(me, LARGEST * sizeof *buf);
        weft_request *req = NULL;
        if (me->rank == 0) {
            CHECK_OK(weft_isend(me->world, buf, counts[i / 2], WEFT_INT32, 1, i, sends, &req));
            WAIT_OK(req);
            continue;
        }
        CHECK_OK(weft_irecv(me->world, buf, LARGEST, WEFT_INT32, 0, i, receives, &req));
        WAIT_STATUS(WEFT_ERR_MISMATCH, req);
        CHECK_TEXT(weft_request_message(req),
                   i & 1 ? "sent int32 in device memory, this receive is for int32 in host"
                         : "sent int32 in host memory, this receive is for int32 in device");
        weft_release(req);
    }
    messages_work(me, me->world, 1 - me->rank);
}

/* Another length or type ends the receive alone, the sender's and what follows go on. */
static void refused(job_rank *me)
{
    int32_t *buf = counting(me, 8, 1);
    weft_request *req = NULL;
    if (me->rank == 0) {
        req = send_to(me->world, buf, 8, 1, 1);
        WAIT_OK(req);
        req = send_to(me->world, buf, 8, 1, 2);
        WAIT_OK(req);
    } else {
        req = receive_from(me->world, buf, 7, WEFT_ANY_RANK, 1);
        WAIT_STATUS(WEFT_ERR_TRUNCATED, req);
        CHECK_TEXT(weft_request_message(req), "sent 32 bytes, there is room for 28");
        weft_release(req);
        CHECK_OK(weft_irecv(me->world, buf, 8, WEFT_FLOAT32, 0, 2, &on_device, &req));
        WAIT_STATUS(WEFT_ERR_MISMATCH, req);
        CHECK_TEXT(weft_request_message(req), "sent int32, this receive is for float32");
        weft_release(req);
        CHECK(counts(me, buf, 8, 1));
    }
    messages_work(me, me->world, 1 - me->rank);
    CHECK_OK(weft_group_status(me->world));
}

/* The longer side of an exchange is too long for the other, which still gets its own across. */
static void uneven_exchange(job_rank *me)
{
    int32_t *in = counting(me, 8, me->rank * 100), *out = counting(me, 8, -50);
    size_t mine = me->rank == 0 ? 8 : 5;
    weft_request *req = NULL;
    CHECK_OK(weft_send_recv(me->world, in, out, mine, WEFT_INT32, 1 - me->rank, &on_device, &req));
    WAIT_STATUS(me->rank == 0 ? WEFT_OK : WEFT_ERR_TRUNCATED, req);
    if (me->rank == 1) CHECK_INT(job_info(req).received_bytes, 8 * sizeof *in);
    if (me->rank == 0) {
        CHECK_INT(job_info(req).received_bytes, 5 * sizeof *in);
        CHECK(counts(me, out, 5, 100) && counts(me, out + 5, 3, -45));
    }
    weft_release(req);
    messages_work(me, me->world, 1 - me->rank);
}

/* ---- what has met nobody ------------------------------------------------------------------------------ */

static void unmatched(job_rank *me)
{
    int32_t *buf = counting(me, 4, 1), *got = counting(me, 4, -9);
    weft_call brief = on_device;
    weft_request *late = NULL, *cancelled = NULL, *exchange = NULL;
    brief.timeout_ms = SHORT_MS;
    if (me->rank == 0) {
        CHECK_OK(weft_isend(me->world, buf, 4, WEFT_INT32, 1, 5, &brief, &late));
        CHECK_OK(weft_isend(me->world, buf, 4, WEFT_INT32, 1, 6, &on_device, &cancelled));
    } else {
        CHECK_OK(weft_irecv(me->world, got, 4, WEFT_INT32, 0, 7, &brief, &late));
        CHECK_OK(weft_irecv(me->world, got, 4, WEFT_INT32, WEFT_ANY_RANK, 8, &on_device, &cancelled));
    }
    messages_work(me, me->world, 1 - me->rank);
    weft_cancel(cancelled);
    WAIT_STATUS(WEFT_ERR_CANCELLED, cancelled);
    WAIT_STATUS(WEFT_ERR_TIMEOUT, late);
    CHECK_TEXT(weft_request_message(late),
               me->rank == 0 ? "has not received it" : "has not sent a message that fits");
    if (me->rank == 0) {
        CHECK_OK(weft_send_recv(me->world, buf, got, 4, WEFT_INT32, 1, &brief, &exchange));
        WAIT_STATUS(WEFT_ERR_TIMEOUT, exchange);
        weft_release(exchange);
    }
    weft_release(late);
    weft_release(cancelled);
    job_meet(me);
    CHECK_OK(weft_send_recv(me->world, buf, got, 4, WEFT_INT32, 1 - me->rank, &on_device, NULL));
    CHECK(counts(me, got, 4, 1));
    messages_work(me, me->world, 1 - me->rank);
    CHECK_OK(weft_group_status(me->world));
}

/* A group that breaks takes with it what has met nobody, and takes no more. */
static void broken_group(job_rank *me)
{
    int32_t *buf = counting(me, 2, 0);
    weft_request *req = NULL;
    weft_group *group;
    group = job_group(me, 2, "frail", 0);
    req = receive_from(group, buf, 2, 1 - me->rank, 0);
    job_meet(me);
    if (me->rank == 0) CHECK_OK(weft_group_abort(group, "enough"));
    WAIT_STATUS(WEFT_ERR_CANCELLED, req);
    weft_release(req);
    CHECK_STATUS(WEFT_ERR_BROKEN, weft_isend(group, buf, 2, WEFT_INT32, 1 - me->rank, 0, &on_device, NULL));
    messages_work(me, me->world, 1 - me->rank);
}

/* ---- order
 * ---------------------------------------------------------------------------------------------- */

/* The nth permutation of its kind, another one on each rank. */
static void shuffle(int *order, int n, uint64_t *random)
{
    for (int i = 0; i < n; i++) order[i] = i;
    for (int i = n - 1; i > 0; i--) {
        int k = (int)(job_random(random) % (uint64_t)(i + 1)), was = order[i];
        order[i] = order[k];
        order[k] = was;
    }
}

typedef struct planned { /* a message of the plan, which is the same on all ranks; the tag is its number */
    int from, to;
    size_t count;
} planned;

static void plan_messages(planned *plan, int n, int ranks, uint64_t *random)
{
    for (int i = 0; i < n; i++) {
        plan[i].from = (int)(job_random(random) % (uint64_t)ranks);
        plan[i].to = (int)(job_random(random) % (uint64_t)ranks);
        plan[i].count = job_random(random) % 4 ? job_random(random) % 40 : job_random(random) % LARGEST;
    }
}

/* Hundreds of messages among all ranks, each rank in an order of its own, some in one batch, between sums
 * over two groups that overlap, also in an order of each rank's own. */
static void crossing(job_rank *me)
{
    enum { ROUNDS = 2, SUMS = 10 };
    uint64_t shared = 7, own = (uint64_t)me->rank + 1;
    planned *plan = job_alloc(me, MANY * sizeof *plan);
    int32_t *out = counting(me, LARGEST, me->rank * LARGEST);
    int32_t *in = job_buffer(me, (size_t)MANY * LARGEST * sizeof *in);
    int32_t *sums[2] = {job_buffer(me, SUMS * sizeof *in), job_buffer(me, SUMS * sizeof *in)};
    weft_group *groups[2] = {me->world,
                             me->rank < me->size - 1 ? job_group(me, me->size - 1, "most", 0) : NULL};
    for (int round = 0; round < ROUNDS; round++) {
        weft_request *reqs[2 * MANY + 2 * SUMS] = {NULL}, *whole = NULL;
        weft_batch *batch = NULL;
        int order[MANY + 2 * SUMS], next[2] = {0, 0}, n = 0;
        weft_call batched = on_device;
        plan_messages(plan, MANY, me->size, &shared);
        shuffle(order, MANY + 2 * SUMS, &own);
        CHECK_OK(weft_batch_begin(me->world, &batch));
        batched.batch = batch;
        for (int k = 0; k < MANY + 2 * SUMS; k++) {
            int i = order[k], g = i & 1;
            bool joins = round > 0 && i % 3;
            const weft_call *call = joins ? &batched : &on_device;
            if (i >= MANY && groups[g]) {
                int32_t *sum = &sums[g][next[g]++];
                job_put_int(sum, next[g]);
                CHECK_OK(
                    weft_all_reduce(groups[g], sum, sum, 1, WEFT_INT32, WEFT_SUM, &on_device, &reqs[n++]));
            } else if (i < MANY) {
                if (plan[i].from == me->rank)
                    CHECK_OK(weft_isend(me->world, out, plan[i].count, WEFT_INT32, plan[i].to, i, call,
                                        joins ? NULL : &reqs[n++]));
                if (plan[i].to == me->rank)
                    CHECK_OK(weft_irecv(me->world, in + (size_t)i * LARGEST, LARGEST, WEFT_INT32,
                                        plan[i].from, i, call, joins ? NULL : &reqs[n++]));
            }
        }
        CHECK_OK(weft_batch_end(batch, NULL, &whole));
        WAIT_OK(whole);
        for (int k = 0; k < n; k++) WAIT_OK(reqs[k]);
        for (int i = 0; i < MANY; i++)
            CHECK(plan[i].to != me->rank ||
                  counts(me, in + (size_t)i * LARGEST, plan[i].count, plan[i].from * LARGEST));
        for (int g = 0; g < 2 && groups[g]; g++)
            for (int k = 0; k < next[g]; k++)
                CHECK_INT(job_get_int(&sums[g][k]), (k + 1) * weft_group_size(groups[g]));
        job_meet(me);
    }
}

/* Rings in both directions at once, by exchanges and by messages. */
static void rings(job_rank *me)
{
    int right = (me->rank + 1) % me->size, left = (me->rank + me->size - 1) % me->size;
    int32_t *out = job_buffer(me, sizeof *out), *in = job_buffer(me, 4 * sizeof *in);
    for (int i = 0; i < 50; i++) {
        job_put_int(out, me->rank * 1000 + i);
        int first = (i + me->rank) % 2 ? right : left, second = first == right ? left : right;
        weft_request *reqs[6] = {NULL};
        CHECK_OK(weft_send_recv(me->world, out, &in[0], 1, WEFT_INT32, first, &on_device, &reqs[0]));
        reqs[1] = send_to(me->world, out, 1, left, 0);
        reqs[2] = receive_from(me->world, &in[2], 1, right, 0);
        CHECK_OK(weft_send_recv(me->world, out, &in[1], 1, WEFT_INT32, second, &on_device, &reqs[3]));
        reqs[4] = receive_from(me->world, &in[3], 1, left, 1);
        reqs[5] = send_to(me->world, out, 1, right, 1);
        for (int k = 0; k < 6; k++) WAIT_OK(reqs[k]);
        CHECK_INT(job_get_int(&in[0]), first * 1000 + i);
        CHECK_INT(job_get_int(&in[1]), second * 1000 + i);
        CHECK_INT(job_get_int(&in[2]), right * 1000 + i);
        CHECK_INT(job_get_int(&in[3]), left * 1000 + i);
    }
}

/* ---- failures of what has met ------------------------------------------------------------------------- */

typedef struct hold { /* of a progress thread */
    atomic_bool inside, on;
    _Atomic int64_t until_ns;
} hold;

static void busy(weft_request *req, weft_status status, void *arg)
{
    hold *h = arg;
    (void)req;
    (void)status;
    atomic_store(&h->inside, true);
    while (atomic_load(&h->on) && job_now_ns() < atomic_load(&h->until_ns)) job_sleep_ms(1);
}

static void hold_for(hold *h, int64_t ms)
{
    atomic_store(&h->until_ns, job_now_ns() + ms * 1000000);
}

/* This rank's progress thread gives its device nothing for so long, or until it is let go.  Returns when it
 * does so. */
static hold *keep_busy(job_rank *me, int64_t ms)
{
    hold *h = job_alloc(me, sizeof *h);
    weft_call call = {.memory = WEFT_MEMORY_HOST, .done = busy, .arg = h};
    weft_request *req = NULL;
    int32_t *nothing = job_alloc(me, 2 * sizeof *nothing);
    hold_for(h, ms);
    atomic_store(&h->on, true);
    CHECK_OK(weft_isend(me->world, &nothing[0], 1, WEFT_INT32, me->rank, 1000, &on_host, NULL));
    CHECK_OK(weft_irecv(me->world, &nothing[1], 1, WEFT_INT32, me->rank, 1000, &call, &req));
    weft_release(req);
    while (!atomic_load(&h->inside)) job_sleep_ms(1);
    return h;
}

/* Moves it along in the place of the thread that is held, until it has heard all that there is to hear. */
static void look_until_broken(weft_group *group, weft_request *req)
{
    int64_t until_ns;
    while (weft_group_status(group) == WEFT_OK) weft_is_completed(req);
    until_ns = job_now_ns() + SHORT_MS / 2 * INT64_C(1000000);
    while (job_now_ns() < until_ns) weft_is_completed(req);
}

/* Rank 0 takes what rank 1 sends, whose device does not come to it; it runs out of
 * time, and both sides end. */
static void give_up(job_rank *me, weft_group *group)
{
    int32_t *buf = counting(me, 2, 1);
    weft_call brief = on_device;
    weft_request *req = NULL;
    hold *h = me->rank == 1 ? keep_busy(me, JOB_WAIT_MS) : NULL;
    brief.timeout_ms = MEETING_MS;
    job_meet(me);
    if (me->rank == 0) {
        CHECK_OK(weft_irecv(group, buf, 2, WEFT_INT32, 1, 0, &brief, &req));
        WAIT_STATUS(WEFT_ERR_TIMEOUT, req);
        CHECK_TEXT(weft_request_message(req), "both sides are there");
    } else {
        req = send_to(group, buf, 2, 0, 0);
        look_until_broken(group, req);
        atomic_store(&h->on, false);
        WAIT_STATUS(WEFT_ERR_BROKEN, req);
        CHECK_TEXT(weft_request_message(req), "rank 0");
    }
    weft_release(req);
}

static void given_up(job_rank *me)
{
    weft_group *group = job_group(me, 2, "pair", 0);
    messages_work(me, group, 1 - me->rank);
    give_up(me, group);
    CHECK(job_await_break(group, job_late_ms()) != WEFT_OK);
    job_sum_works(me->world);
}

/* What became of messages in one group leaves those in others alone, also between the same two ranks. */
static void other_groups(job_rank *me)
{
    int32_t *buf = counting(me, 2, 1), *got = counting(me, 2, 0);
    weft_request *req = NULL;
    weft_group *group = job_group(me, 2, "ends", 0), *next;
    messages_work(me, me->world, 1 - me->rank);
    messages_work(me, group, 1 - me->rank);
    give_up(me, group);
    messages_work(me, me->world, 1 - me->rank);
    CHECK_OK(weft_group_status(me->world));
    CHECK_OK(weft_group_free(group));
    next = job_group(me, 2, "begins", 0);
    messages_work(me, next, 1 - me->rank);
    job_meet(me);
    if (me->rank == 0) { /* who has sent may free the group, what was sent arrives */
        req = send_to(next, buf, 2, 1, 5);
        WAIT_OK(req);
        CHECK_OK(weft_group_free(next));
        job_meet(me);
    } else {
        keep_busy(me, SHORT_MS);
        req = receive_from(next, got, 2, 0, 5);
        while (!weft_is_completed(req)) continue;
        WAIT_OK(req);
        CHECK(counts(me, got, 2, 1));
        job_meet(me);
        CHECK_OK(weft_group_free(next));
    }
    messages_work(me, me->world, 1 - me->rank);
}

/* Sends that are cancelled at any time, while the receives meet them: everything ends, and what a receive
 * says to have got it has. */
static void cancelled_any_time(job_rank *me)
{
    enum { TRIES = 60 };
    int32_t *out = counting(me, TRIES, 1), *in = job_buffer(me, TRIES * sizeof *in);
    uint64_t random = (uint64_t)me->rank + 11;
    weft_request *reqs[TRIES] = {NULL};
    weft_group *group;
    int n = 0;
    group = job_group(me, 2, "cancels", 0);
    for (int i = 0; i < TRIES; i++) {
        weft_status status;
        status = me->rank == 0
                     ? weft_isend(group, &out[i], 1, WEFT_INT32, 1, 0, &on_device, &reqs[i])
                     : weft_irecv(group, &in[i], 1, WEFT_INT32, WEFT_ANY_RANK, 0, &on_device, &reqs[i]);
        if (status != WEFT_OK) CHECK_STATUS(WEFT_ERR_BROKEN, status);
        for (uint64_t k = job_random(&random) % 2000; k; k--) weft_is_completed(reqs[i]);
        if (reqs[i] && job_random(&random) % 2) weft_cancel(reqs[i]);
    }
    for (int i = 0; i < TRIES; i++) {
        if (!reqs[i]) continue;
        if (weft_wait(reqs[i], SHORT_MS) == WEFT_PENDING) weft_cancel(reqs[i]);
        weft_status status = weft_wait(reqs[i], JOB_WAIT_MS);
        if (status != WEFT_OK && status != WEFT_ERR_CANCELLED) CHECK_STATUS(WEFT_ERR_BROKEN, status);
        if (me->rank == 1 && status == WEFT_OK) {
            CHECK(job_get_int(&in[i]) > n); /* in the order of sending */
            n = job_get_int(&in[i]);
        }
        weft_release(reqs[i]);
    }
    job_meet(me); /* nobody has left meanwhile */
}

/* ---- leaving
 * -------------------------------------------------------------------------------------------- */

/* Who leaves when it has sent takes nothing away; who aborts ends what still counts on it. */
static void leaves(job_rank *me)
{
    int32_t *buf = counting(me, 2, 4);
    weft_request *req = NULL;
    job_join(me);
    if (me->rank == 0) {
        for (int i = 0; i < 20; i++) {
            req = send_to(me->world, buf, 2, 1, i);
            WAIT_OK(req);
        }
        job_leave(me);
        return;
    }
    for (int i = 0; i < 20; i++) {
        if (i == 10) keep_busy(me, SHORT_MS);
        job_put_int(buf, 0);
        req = receive_from(me->world, buf, 2, 0, i);
        WAIT_OK(req);
        CHECK(counts(me, buf, 2, 4));
    }
    req = receive_from(me->world, buf, 2, 0, 0);
    WAIT_STATUS(WEFT_ERR_PEER, req);
    CHECK_TEXT(weft_request_message(req), "rank 0 has left");
    weft_release(req);
    job_leave(me);
}

static void aborts(job_rank *me)
{
    int32_t *buf = counting(me, 2, 4);
    weft_request *met = NULL, *unmet = NULL;
    job_join(me);
    messages_work(me, me->world, 1 - me->rank);
    if (me->rank == 0) {
        hold *h = keep_busy(me, JOB_WAIT_MS);
        send_to(me->world, buf, 2, 1, 0);
        job_meet(me);
        job_sleep_ms(SHORT_MS / 2); /* they have met by then, as a rule */
        hold_for(h, SHORT_MS * 3);  /* the abort tells the others first, then it waits for the thread */
        weft_abort(me->ctx, "had enough");
        me->ctx = NULL;
        return;
    }
    met = receive_from(me->world, buf, 2, 0, 0);
    unmet = receive_from(me->world, buf, 2, WEFT_ANY_RANK, 1);
    job_meet(me);
    WAIT_STATUS(WEFT_ERR_PEER, met);
    CHECK_INT(job_info(met).peer, 0);
    CHECK_TEXT(weft_request_message(met), "had enough");
    CHECK(weft_wait(unmet, JOB_WAIT_MS) < 0);
    weft_release(met);
    weft_release(unmet);
    weft_abort(me->ctx, "so has the other");
    me->ctx = NULL;
}

int main(int argc, char **argv)
{
    bool threads = !job_on_device();
    const struct CMUnitTest tests[] = {
        JOB_TEST("kinds of memory", .ranks = 2, .body = kinds_of_memory, .threads = threads),
        JOB_TEST("refused", .ranks = 2, .body = refused, .threads = threads),
        JOB_TEST("an exchange of other lengths", .ranks = 2, .body = uneven_exchange, .threads = threads),
        JOB_TEST("unmatched", .ranks = 2, .body = unmatched, .threads = threads),
        JOB_TEST("a broken group", .ranks = 2, .body = broken_group, .threads = threads),
        JOB_TEST("crossing", .ranks = 4, .body = crossing, .threads = threads),
        JOB_TEST("rings", .ranks = 3, .body = rings, .threads = threads),
        JOB_TEST("given up", .ranks = 2, .body = given_up, .threads = threads),
        JOB_TEST("other groups go on", .ranks = 2, .body = other_groups, .threads = threads),
        JOB_TEST("cancelled at any time", .ranks = 2, .body = cancelled_any_time, .threads = threads),
        JOB_TEST("leaving", .ranks = 2, .body = leaves, .threads = threads, .bare = true),
        JOB_TEST("aborting", .ranks = 2, .body = aborts, .threads = threads, .bare = true),
    };
    if (!job_on_device()) {
        setenv("WEFT_BACKENDS", "host,serial", 1);
        setenv("WEFT_MODULE_DIR", TEST_MODULE_DIR, 1);
    }
    return JOB_MAIN(tests, argc, argv);
}
