/* test_callbacks.c - done functions: once, on the progress thread, in settling order,
 * before anyone is told. */
#include "blocked_callback.h"
#include "device.h"

#include <pthread.h>
#include <string.h>

enum { RECEIVES = 20 };

/* Callbacks run one at a time on one thread, so they need no lock among themselves; `count` publishes. */
typedef struct record {
    atomic_int count;
    atomic_bool inside;
    pthread_t thread[RECEIVES];
    weft_status status[RECEIVES];
    int64_t settled_ns[RECEIVES];
    weft_request *req[RECEIVES];
    bool overlapped;
} record;

static void keep(weft_request *req, weft_status status, void *arg)
{
    record *r = arg;
    int n = atomic_load(&r->count);
    r->overlapped = r->overlapped || atomic_exchange(&r->inside, true);
    if (n < RECEIVES) {
        weft_request_info info;
        weft_request_get_info(req, &info);
        r->thread[n] = pthread_self();
        r->status[n] = status;
        r->settled_ns[n] = info.settled_ns;
        r->req[n] = req;
    }
    atomic_store(&r->inside, false);
    atomic_store(&r->count, n + 1);
}

static void await_count(const atomic_int *count, int n)
{
    for (int i = 0; atomic_load(count) < n && i < JOB_WAIT_MS; i++) job_sleep_ms(1);
    CHECK_INT(atomic_load(count), n);
}

static void thread_and_order(job_rank *me)
{
    record *r = job_alloc(me, sizeof *r);
    int32_t *values = job_buffer(me, RECEIVES * sizeof *values);
    weft_request *reqs[RECEIVES];
    weft_call call = {.done = keep, .arg = r};
    for (int i = 0; i < RECEIVES; i++) {
        job_put_int(&values[i], i);
        if (me->rank == 0) {
            CHECK_OK(weft_irecv(me->world, &values[i], 1, WEFT_INT32, 1, i, &call, &reqs[i]));
        }
    }
    job_meet(me);
    for (int i = RECEIVES; i-- > 0 && me->rank == 1;) {
        CHECK_OK(weft_isend(me->world, &values[i], 1, WEFT_INT32, 0, i, NULL, NULL));
    }
    if (me->rank == 1) {
        return;
    }
    CHECK_OK(weft_wait_all(reqs, RECEIVES, JOB_WAIT_MS));
    CHECK_INT(atomic_load(&r->count), RECEIVES); /* all have returned before wait tells */
    CHECK(!r->overlapped);
    for (int i = 0; i < RECEIVES; i++) {
        CHECK_INT(r->status[i], WEFT_OK);
        CHECK(pthread_equal(r->thread[i], r->thread[0]) && !pthread_equal(r->thread[i], pthread_self()));
        CHECK(i == 0 || r->settled_ns[i] >= r->settled_ns[i - 1]);
    }
    for (int i = 0; i < RECEIVES; i++) weft_release(reqs[i]);
    CHECK_INT(atomic_load(&r->count), RECEIVES);
}

static void slow(weft_request *req, weft_status status, void *arg)
{
    (void)req;
    job_sleep_ms(100);
    atomic_store((atomic_int *)arg, status == WEFT_OK ? 1 : -1);
}

/* is_completed, test and wait tell only after the callback has returned. */
static void returned_before_told(job_rank *me)
{
    for (int way = 0; way < 4; way++) {
        atomic_int returned = 0;
        int32_t *in = job_buffer(me, sizeof *in), *sum = job_buffer(me, sizeof *sum);
        weft_request *req = NULL;
        weft_call call = {.done = slow, .arg = &returned};
        CHECK_OK(weft_all_reduce(me->world, in, sum, 1, WEFT_INT32, WEFT_SUM, &call, way < 3 ? &req : NULL));
        if (way == 0) {
            while (!weft_is_completed(req)) continue;
        } else if (way == 1) {
            while (weft_test(req) == WEFT_PENDING) continue;
        } else if (way == 2) {
            CHECK_OK(weft_wait(req, JOB_WAIT_MS));
        }
        CHECK_INT(atomic_load(&returned), 1);
        weft_release(req);
    }
}

/* ---- when it runs
 * ------------------------------------------------------------------------------------------ */

static void count_only(weft_request *req, weft_status status, void *arg)
{
    (void)req;
    (void)status;
    atomic_fetch_add((atomic_int *)arg, 1);
}

static void failures_and_refusals(job_rank *me)
{
    record *r = job_alloc(me, sizeof *r);
    atomic_int refused = 0;
    int32_t *value = job_buffer(me, sizeof *value);
    weft_request *req = NULL;
    weft_call call = {.done = keep, .arg = r, .timeout_ms = 50};
    CHECK_OK(weft_irecv(me->world, value, 1, WEFT_INT32, 0, 1, &call, &req));
    WAIT_STATUS(WEFT_ERR_TIMEOUT, req);
    weft_release(req);
    CHECK_INT(atomic_load(&r->count), 1);
    CHECK_INT(r->status[0], WEFT_ERR_TIMEOUT);
    weft_call never = {.done = count_only, .arg = &refused};
    CHECK(weft_irecv(me->world, value, 1, WEFT_INT32, me->size, 1, &never, &req) < 0);
    CHECK(weft_broadcast(me->world, value, 1, WEFT_INT32, -1, &never, NULL) < 0);
    job_sum_works(me->world);
    job_sleep_ms(20);
    CHECK_INT(atomic_load(&refused), 0);
}

/* ---- what it may do
 * ------------------------------------------------------------------------------------------ */

typedef struct chain {
    weft_group *group;
    atomic_int left; /* -1: a status was wrong */
    int32_t *value;  /* in place */
} chain;

/* Each link submits the next operation and gives its own handle back. */
static void next_link(weft_request *req, weft_status status, void *arg)
{
    chain *c = arg;
    int left = atomic_load(&c->left) - 1;
    weft_call call = {.done = next_link, .arg = c};
    if (status == WEFT_OK && left > 0) {
        weft_request *next = NULL;
        status = weft_all_reduce(c->group, c->value, c->value, 1, WEFT_INT32, WEFT_MAX, &call, &next);
    }
    weft_release(req);
    atomic_store(&c->left, status == WEFT_OK ? left : -1);
}

static void submits(job_rank *me)
{
    enum { LINKS = 50 };
    chain *c = job_alloc(me, sizeof *c);
    weft_request *req = NULL;
    weft_call call = {.done = next_link, .arg = c};
    *c = (chain){.group = me->world, .left = LINKS, .value = job_buffer(me, sizeof(int32_t))};
    job_put_int(c->value, me->rank + 5);
    CHECK_OK(weft_all_reduce(me->world, c->value, c->value, 1, WEFT_INT32, WEFT_MAX, &call, &req));
    for (int i = 0; atomic_load(&c->left) > 0 && i < JOB_WAIT_MS; i++) job_sleep_ms(1);
    CHECK_INT(atomic_load(&c->left), 0);
    CHECK_INT(job_get_int(c->value), me->size + 4);
}

typedef struct tries {
    job_rank *me;
    weft_request *pending;
    atomic_int done;
    weft_status wait, wait_all, barrier, finalize;
    bool message;
} tries;

static void try_to_wait(weft_request *req, weft_status status, void *arg)
{
    tries *t = arg;
    (void)status;
    t->wait = weft_wait(t->pending, JOB_WAIT_MS);
    t->wait_all = weft_wait_all(&t->pending, 1, WEFT_FOREVER);
    t->barrier = weft_barrier(t->me->world, NULL, NULL);
    t->finalize = weft_finalize(t->me->ctx, 1000);
    t->message = strlen(weft_request_message(req)) > 0;
    atomic_store(&t->done, 1);
}

/* A call that would have to wait is refused at once, and nothing was submitted by it. */
static void cannot_wait(job_rank *me)
{
    tries *t = job_alloc(me, sizeof *t);
    int32_t *value = job_buffer(me, 3 * sizeof *value), *in = value + 1, *sum = value + 2;
    int peer = 1 - me->rank;
    weft_call call = {.done = try_to_wait, .arg = t};
    t->me = me;
    CHECK_OK(weft_irecv(me->world, value, 1, WEFT_INT32, peer, 2, NULL, &t->pending));
    int64_t before = job_now_ns();
    CHECK_OK(weft_all_reduce(me->world, in, sum, 1, WEFT_INT32, WEFT_SUM, &call, NULL));
    await_count(&t->done, 1);
    CHECK_PERIOD(before, job_now_ns(), 0, JOB_WAIT_MS / 2);
    CHECK_INT(t->wait, WEFT_ERR_STATE);
    CHECK_INT(t->wait_all, WEFT_ERR_STATE);
    CHECK_INT(t->barrier, WEFT_ERR_STATE);
    CHECK_INT(t->finalize, WEFT_ERR_STATE);
    CHECK(t->message);
    CHECK_INT(weft_test(t->pending), WEFT_PENDING);
    job_meet(me);
    CHECK_OK(weft_isend(me->world, in, 1, WEFT_INT32, peer, 2, NULL, NULL));
    WAIT_OK(t->pending);
    job_sum_works(me->world);
}

/* ---- one that blocks
 * ------------------------------------------------------------------------------------------ */

enum { BLOCKED, ARRIVED }; /* marks */

/* The caller waits for another rank, which is late, while its own callback waits for the caller. */
static void blocks_no_wait(job_rank *me)
{
    blocked_callback *w = job_alloc(me, sizeof *w);
    weft_request *reqs[2], *barrier = NULL;
    if (me->rank == 1) {
        job_await(me, BLOCKED, 1);
        job_sleep_ms(300); /* its wait has looked in vain, and sleeps */
        CHECK_OK(weft_barrier(me->world, NULL, NULL));
        return;
    }
    block_a_callback(me, w, reqs);
    job_mark(me, BLOCKED);
    CHECK_OK(weft_barrier(me->world, NULL, &barrier));
    WAIT_OK(barrier);
    atomic_store(&w->there, 1);
    for (int i = 0; i < 2; i++) WAIT_OK(reqs[i]);
    CHECK_INT(atomic_load(&w->missed), 0);
}

/* The wait began first. */
static void wait_for_the_barrier(job_rank *me, int thread, void *arg)
{
    blocked_callback *w = arg;
    weft_request *barrier = NULL, *reqs[2];
    if (thread == 0) {
        CHECK_OK(weft_barrier(me->world, NULL, &barrier));
        WAIT_OK(barrier);
        atomic_store(&w->there, 1);
        return;
    }
    job_sleep_ms(200);
    block_a_callback(me, w, reqs);
    job_mark(me, BLOCKED);
    for (int i = 0; !atomic_load(&w->there) && i < JOB_WAIT_MS; i++) job_sleep_ms(1);
    for (int i = 0; i < 2; i++) WAIT_OK(reqs[i]);
    CHECK_INT(atomic_load(&w->missed), 0);
}

static void blocks_no_sleeper(job_rank *me)
{
    blocked_callback *w = job_alloc(me, sizeof *w);
    if (me->rank == 0) {
        job_threads(me, 2, wait_for_the_barrier, w);
        return;
    }
    job_await(me, BLOCKED, 1);
    job_sleep_ms(200);
    CHECK_OK(weft_barrier(me->world, NULL, NULL));
}

/* Nobody of this rank is inside a call: a long message to it, and one from it, go on all the same. */
static void blocks_no_transfer(job_rank *me)
{
    enum { LONG = 1 << 20 };
    blocked_callback *w = job_alloc(me, sizeof *w);
    int32_t *in = job_alloc(me, LONG * sizeof *in), *out = job_alloc(me, LONG * sizeof *out);
    weft_request *reqs[2], *long_ones[2];
    if (me->rank == 0) {
        CHECK_OK(weft_irecv(me->world, in, LONG, WEFT_INT32, 1, 1, NULL, &long_ones[0]));
        CHECK_OK(weft_isend(me->world, out, LONG, WEFT_INT32, 1, 2, NULL, &long_ones[1]));
        block_a_callback(me, w, reqs);
        job_mark(me, BLOCKED);
        job_await(me, ARRIVED, 1);
        atomic_store(&w->there, 1);
        for (int i = 0; i < 2; i++) WAIT_OK(reqs[i]);
        CHECK_INT(atomic_load(&w->missed), 0);
    } else {
        job_await(me, BLOCKED, 1);
        CHECK_OK(weft_isend(me->world, out, LONG, WEFT_INT32, 0, 1, NULL, &long_ones[1]));
        CHECK_OK(weft_irecv(me->world, in, LONG, WEFT_INT32, 0, 2, NULL, &long_ones[0]));
    }
    if (me->rank == 1) {
        WAIT_OK(long_ones[0]);
        WAIT_OK(long_ones[1]);
        job_mark(me, ARRIVED);
        return;
    }
    for (int i = 0; i < 2; i++) WAIT_OK(long_ones[i]);
}

/* ---- looking once, which is no waiting
 * ------------------------------------------------------------------------------------------ */

typedef struct looks {
    weft_request *reqs[2]; /* settled, pending */
    weft_status wait_settled, wait_pending, all, any, some, none_of_some;
    size_t index, settled, none, indices[2];
    atomic_int done;
} looks;

static void look_once(weft_request *req, weft_status status, void *arg)
{
    looks *l = arg;
    (void)req;
    (void)status;
    l->wait_settled = weft_wait(l->reqs[0], 0);
    l->wait_pending = weft_wait(l->reqs[1], 0);
    l->all = weft_wait_all(l->reqs, 2, 0);
    l->any = weft_wait_any(l->reqs, 2, 0, &l->index);
    l->some = weft_wait_some(l->reqs, 2, 0, l->indices, &l->settled);
    l->none_of_some = weft_wait_some(&l->reqs[1], 1, 0, l->indices, &l->none);
    atomic_store(&l->done, 1);
}

static void may_look_once(job_rank *me)
{
    looks *l = job_alloc(me, sizeof *l);
    int32_t *in = job_buffer(me, 3 * sizeof *in), *out = job_buffer(me, sizeof *out);
    weft_request *own = NULL;
    weft_call call = {.done = look_once, .arg = l};
    for (int i = 0; i < 2; i++)
        CHECK_OK(weft_irecv(me->world, &in[i], 1, WEFT_INT32, 0, i, NULL, &l->reqs[i]));
    CHECK_OK(weft_isend(me->world, out, 1, WEFT_INT32, 0, 0, NULL, NULL));
    WAIT_STATUS(WEFT_OK, l->reqs[0]);
    CHECK_OK(weft_irecv(me->world, &in[2], 1, WEFT_INT32, 0, 2, &call, &own));
    CHECK_OK(weft_isend(me->world, out, 1, WEFT_INT32, 0, 2, NULL, NULL));
    WAIT_OK(own);
    CHECK_INT(atomic_load(&l->done), 1);
    CHECK_OK(l->wait_settled);
    CHECK_INT(l->wait_pending, WEFT_PENDING);
    CHECK_INT(l->all, WEFT_PENDING);
    CHECK_OK(l->any);
    CHECK_INT(l->index, 0);
    CHECK_OK(l->some);
    CHECK_INT(l->settled, 1);
    CHECK_INT(l->none_of_some, WEFT_PENDING);
    CHECK_OK(weft_isend(me->world, out, 1, WEFT_INT32, 0, 1, NULL, NULL));
    WAIT_OK(l->reqs[1]);
    weft_release(l->reqs[0]);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("thread and order", .ranks = 2, .body = thread_and_order),
        JOB_TEST("returned before anyone is told", .ranks = 2, .body = returned_before_told),
        JOB_TEST("failures, not refusals", .ranks = 1, .body = failures_and_refusals),
        JOB_TEST("may submit and release", .ranks = 2, .body = submits),
        JOB_TEST("cannot wait", .ranks = 2, .body = cannot_wait),
        JOB_TEST("may look once", .ranks = 1, .body = may_look_once),
        JOB_TEST("one that blocks holds up no wait", .ranks = 2, .body = blocks_no_wait),
        JOB_TEST("one that blocks holds up nobody who sleeps", .ranks = 2, .body = blocks_no_sleeper),
        JOB_TEST("one that blocks holds up no transfer", .ranks = 2, .body = blocks_no_transfer),
    };
    return JOB_MAIN(tests, argc, argv);
}
