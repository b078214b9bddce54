/* test_store_job.c - stores and jobs: the store of a context, and joining a job by a store. */
#include "stores.h"

#include <string.h>

/* ---- the store of a context ---------------------------------------------------------------------------- */

static void the_job_has_a_store(job_rank *me)
{
    weft_store *store;
    const char *const done = "done";
    int64_t n;
    if (me->rank == 0) job_sleep_ms(50); /* the others ask before it does */
    store = weft_context_store(me->ctx);
    CHECK(store);
    CHECK(weft_context_store(me->ctx) == store);
    weft_store_close(store); /* it is the context's */
    CHECK_OK(weft_store_add(store, "n", 1, &n));
    if (n == me->size) CHECK_OK(weft_store_set(store, done, "all are here", 12));
    CHECK_OK(weft_store_wait(store, &done, 1, JOB_WAIT_MS));
    store_holds(store, done, "all are here");
    CHECK(!weft_context_store(NULL));
    job_meet(me);
}

static void ask_for_store(job_rank *me, int thread, void *arg)
{
    weft_store **stores = arg;
    stores[thread] = weft_context_store(me->ctx);
}

static void threads_get_the_same(job_rank *me)
{
    weft_store *stores[4] = {NULL};
    job_threads(me, 4, ask_for_store, stores);
    for (int i = 0; i < 4; i++) CHECK(stores[i] && stores[i] == stores[0]);
    CHECK_OK(weft_store_add(stores[0], "n", 1, NULL));
    job_meet(me);
    store_holds(stores[0], "n", "3");
    job_meet(me);
}

/* Rank 0 leaves; who had the store is told, and so is who asks only then. */
static void rank_0_leaves(job_rank *me)
{
    weft_store *store = me->rank == 1 ? weft_context_store(me->ctx) : NULL;
    size_t bytes = 0;
    job_meet(me);
    if (me->rank == 0) return;
    if (me->rank == 1) {
        CHECK(store);
        CHECK_STATUS(WEFT_ERR_PEER, weft_store_get(store, "never", NULL, &bytes, WEFT_FOREVER));
        return;
    }
    for (int64_t until = job_now_ns() + JOB_WAIT_MS * INT64_C(1000000);;) {
        weft_request *req = NULL;
        weft_status status = weft_isend(me->world, NULL, 0, WEFT_INT8, 0, 0, NULL, &req);
        if (status == WEFT_ERR_PEER || (status == WEFT_OK && weft_wait(req, JOB_WAIT_MS) == WEFT_ERR_PEER)) {
            weft_release(req);
            break;
        }
        weft_release(req);
        CHECK(job_now_ns() < until);
        job_sleep_ms(10);
    }
    CHECK(!weft_context_store(me->ctx));
    CHECK_TEXT(weft_last_error(), "rank 0");
}

static void in_callback(weft_request *req, weft_status status, void *arg)
{
    job_rank *me = arg;
    (void)req;
    (void)status;
    job_results(me, me->rank)[0] = !weft_context_store(me->ctx) && strstr(weft_last_error(), "callback");
}

static void not_in_a_callback(job_rank *me)
{
    weft_call call = {.done = in_callback, .arg = me};
    CHECK_OK(weft_barrier(me->world, &call, NULL));
    CHECK_INT(job_results(me, me->rank)[0], 1);
    CHECK(weft_context_store(me->ctx));
    job_meet(me);
}

/* ---- joining by a store
 * --------------------------------------------------------------------------------- */

static weft_config store_config(const job_rank *me, weft_store *store)
{
    weft_config config = WEFT_CONFIG_INIT;
    config.store = store;
    config.world_size = me->size;
    config.timeout_ms = STORE_MS;
    return config;
}

static void join_by(job_rank *me, const weft_config *config)
{
    CHECK_OK(weft_init(config, &me->ctx));
    me->world = weft_world(me->ctx);
    CHECK_INT(weft_group_size(me->world), config->world_size);
}

/* Runs follow each other on one store, with given ranks, assigned ones, and some of both. */
static void joining(job_rank *me)
{
    weft_store *store = store_open(me);
    weft_config config = store_config(me, store);
    for (int run = 0; run < 4; run++) {
        config.rank = run == 0 ? me->rank : run == 1 ? -1 : me->rank % 2 ? (me->rank + 1) % me->size : -1;
        join_by(me, &config);
        CHECK(config.rank < 0 || weft_group_rank(me->world) == config.rank);
        CHECK(weft_context_store(me->ctx) == store);
        job_sum_works(me->world);
        job_meet(me);
        job_leave(me);
        me->ctx = NULL;
    }
    CHECK_OK(weft_store_add(store, "mine", 1, NULL)); /* it is still the caller's */
    store_close(me, store);
}

/* Ranks 0 and 1 are one job, 2 and 3 another, at the same time on the same store. */
static void two_jobs(job_rank *me)
{
    weft_store *store = store_open(me);
    weft_config config = store_config(me, store);
    float sum = (float)(me->rank + 1);
    config.world_size = 2;
    config.job = me->rank < 2 ? "a" : "b";
    join_by(me, &config);
    CHECK_OK(weft_all_reduce(me->world, &sum, &sum, 1, WEFT_FLOAT32, WEFT_SUM, NULL, NULL));
    CHECK_INT((int)sum, me->rank < 2 ? 3 : 7);
    job_meet(me);
    job_leave(me);
    me->ctx = NULL;
    store_close(me, store);
}

static void fail_to_join(job_rank *me, const weft_config *config, weft_status status, const char *words)
{
    int64_t before = job_now_ns();
    weft_context *ctx = NULL;
    CHECK_STATUS(status, weft_init(config, &ctx));
    CHECK_TEXT(weft_last_error(), words);
    CHECK_PERIOD(before, job_now_ns(), 0, config->timeout_ms + job_late_ms());
    CHECK(!ctx);
    (void)me;
}

/* A rank does not come; the others say which, and the next run is not hurt. */
static void a_missing_rank_is_named(job_rank *me)
{
    weft_store *store = store_open(me);
    weft_config config = store_config(me, store);
    config.timeout_ms = JOB_SHORT_MS;
    config.rank = me->rank;
    if (me->rank != 1) {
        fail_to_join(me, &config, WEFT_ERR_TIMEOUT, "rank 1 is missing");
        CHECK_NAMES(weft_last_error(), 1U << 1, me->size);
    }
    job_meet(me);
    config.timeout_ms = STORE_MS;
    join_by(me, &config);
    job_sum_works(me->world);
    job_meet(me);
    job_leave(me);
    me->ctx = NULL;
    store_close(me, store);
}

static void contradictions_are_told(job_rank *me)
{
    weft_store *store = store_open(me);
    weft_config config = store_config(me, store);
    config.world_size = -1;
    fail_to_join(me, &config, WEFT_ERR_ARGUMENT, "world_size");
    config.world_size = me->size;
    config.rank = me->size;
    fail_to_join(me, &config, WEFT_ERR_ARGUMENT, "out of range");
    config.init_method = "env://";
    fail_to_join(me, &config, WEFT_ERR_ARGUMENT, "init_method");
    config.init_method = NULL;
    job_meet(me);
    config.rank = 0;
    fail_to_join(me, &config, WEFT_ERR_ARGUMENT, "rank 0 was given twice");
    job_meet(me);
    config.rank = me->rank;
    config.world_size = me->rank ? 3 : 2;
    config.timeout_ms = JOB_SANITIZED ? 3000 : 700;
    weft_status status = weft_init(&config, &me->ctx);
    CHECK(status == WEFT_ERR_MISMATCH || (me->rank && status == WEFT_ERR_TIMEOUT));
    store_close(me, store);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("the job has a store", .ranks = 4, .body = the_job_has_a_store),
        JOB_TEST("a world of one has a store", .ranks = 1, .body = the_job_has_a_store),
        JOB_TEST("threads get the same", .ranks = 3, .body = threads_get_the_same),
        JOB_TEST("rank 0 leaves with the store", .ranks = 3, .body = rank_0_leaves),
        JOB_TEST("not in a callback", .ranks = 2, .body = not_in_a_callback),
        STORE_TEST("joining", 4, joining),
        STORE_TEST("two jobs", 4, two_jobs),
        STORE_TEST_TCP("a missing rank is named", 3, a_missing_rank_is_named),
        STORE_TEST_TCP("contradictions are told", 2, contradictions_are_told),
    };
    return JOB_MAIN(tests, argc, argv);
}
