/* test_store.c - the store that users see: what each call promises, over every kind of URL. */
#include "job.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OPEN_MS = 10000 * JOB_SLOWER, KEY_MAX = 1024, VALUE_MAX = 64 << 20, URL_BYTES = 128 };

static char *url_of(const job_rank *me, int port_index, char url[URL_BYTES])
{
    if (!strcmp(me->arg, "file"))
        snprintf(url, URL_BYTES, "file:///tmp/weft-test-store-%d-%d", job_port(me, 0), port_index);
    else
        snprintf(url, URL_BYTES, "tcp://127.0.0.1:%d", job_port(me, port_index));
    return url;
}

/* All ranks of the test open the same store; rank 0 first, so that it serves. */
static weft_store *open_store(job_rank *me)
{
    char url[URL_BYTES];
    weft_store *store = NULL;
    if (me->rank == 0) CHECK_OK(weft_store_open(url_of(me, 1, url), NULL, OPEN_MS, &store));
    job_meet(me);
    if (me->rank != 0) CHECK_OK(weft_store_open(url_of(me, 1, url), NULL, OPEN_MS, &store));
    return store;
}

static void close_store(job_rank *me, weft_store *store)
{
    char url[URL_BYTES];
    job_meet(me);
    weft_store_close(store);
    if (me->rank == 0 && !strcmp(me->arg, "file")) unlink(url_of(me, 1, url) + 7);
}

static void check_value(weft_store *store, const char *key, const char *expected)
{
    char value[128];
    size_t bytes = sizeof value;
    CHECK_OK(weft_store_get(store, key, value, &bytes, 0));
    CHECK_INT(bytes, strlen(expected));
    CHECK(!memcmp(value, expected, bytes));
}

/* ---- single calls -------------------------------------------------------------------------------------- */

static void set_and_get(job_rank *me)
{
    weft_store *store = open_store(me);
    char value[16] = "untouched";
    size_t bytes = sizeof value;
    CHECK_OK(weft_store_set(store, "key", "first", 5));
    check_value(store, "key", "first");
    CHECK_OK(weft_store_set(store, "key", "other value", 11));
    check_value(store, "key", "other value");
    CHECK_OK(weft_store_set(store, "empty", NULL, 0));
    CHECK_OK(weft_store_get(store, "empty", value, &bytes, 0));
    CHECK_INT(bytes, 0);
    CHECK(!strcmp(value, "untouched"));
    bytes = 4;
    CHECK_STATUS(WEFT_ERR_TRUNCATED, weft_store_get(store, "key", value, &bytes, 0));
    CHECK_INT(bytes, 11);
    CHECK(!strcmp(value, "untouched"));
    CHECK_TEXT(weft_last_error(), "11");
    bytes = 0;
    CHECK_STATUS(WEFT_ERR_TRUNCATED, weft_store_get(store, "key", NULL, &bytes, WEFT_FOREVER));
    CHECK_INT(bytes, 11);
    close_store(me, store);
}

static void add(job_rank *me)
{
    weft_store *store = open_store(me);
    int64_t sum = 77;
    CHECK_OK(weft_store_add(store, "n", 5, &sum));
    CHECK_INT(sum, 5);
    CHECK_OK(weft_store_add(store, "n", -12, &sum));
    CHECK_INT(sum, -7);
    check_value(store, "n", "-7");
    CHECK_OK(weft_store_add(store, "n", 0, NULL));
    CHECK_OK(weft_store_set(store, "n", "40", 2));
    CHECK_OK(weft_store_add(store, "n", 2, &sum));
    CHECK_INT(sum, 42);
    CHECK_OK(weft_store_set(store, "word", "4x", 2));
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_store_add(store, "word", 1, &sum));
    CHECK_TEXT(weft_last_error(), "word");
    check_value(store, "word", "4x");
    CHECK_OK(weft_store_add(store, "most", INT64_MAX, &sum));
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_store_add(store, "most", 1, &sum));
    CHECK_INT(sum, INT64_MAX);
    CHECK_OK(weft_store_add(store, "least", INT64_MIN, &sum));
    check_value(store, "least", "-9223372036854775808");
    CHECK_OK(weft_store_add(store, "least", INT64_MAX, &sum));
    CHECK_INT(sum, -1);
    close_store(me, store);
}

static void compare_set(job_rank *me)
{
    weft_store *store = open_store(me);
    bool swapped = false;
    CHECK_OK(weft_store_compare_set(store, "k", "no", 2, "never", 5, &swapped));
    CHECK(!swapped);
    CHECK_OK(weft_store_compare_set(store, "k", NULL, 0, "one", 3, &swapped));
    CHECK(swapped);
    CHECK_OK(weft_store_compare_set(store, "k", NULL, 0, "two", 3, &swapped));
    CHECK(!swapped);
    CHECK_OK(weft_store_compare_set(store, "k", "on", 2, "two", 3, &swapped));
    CHECK(!swapped);
    check_value(store, "k", "one");
    CHECK_OK(weft_store_compare_set(store, "k", "one", 3, NULL, 0, &swapped));
    CHECK(swapped);
    check_value(store, "k", "");
    CHECK_OK(weft_store_compare_set(store, "k", "", 0, "end", 3, &swapped));
    CHECK(swapped);
    check_value(store, "k", "end");
    close_store(me, store);
}

static void delete_key(job_rank *me)
{
    weft_store *store = open_store(me);
    bool existed = true;
    size_t bytes = 0;
    CHECK_OK(weft_store_delete(store, "k", &existed));
    CHECK(!existed);
    CHECK_OK(weft_store_set(store, "k", "v", 1));
    CHECK_OK(weft_store_delete(store, "k", &existed));
    CHECK(existed);
    CHECK_STATUS(WEFT_ERR_TIMEOUT, weft_store_get(store, "k", NULL, &bytes, 0));
    CHECK_OK(weft_store_set(store, "k", NULL, 0));
    CHECK_OK(weft_store_delete(store, "k", NULL));
    close_store(me, store);
}

static void limits(job_rank *me)
{
    weft_store *store = open_store(me);
    char *key = job_alloc(me, KEY_MAX + 2), *big = job_alloc(me, VALUE_MAX + 1),
         *back = job_alloc(me, VALUE_MAX);
    size_t bytes = VALUE_MAX;
    memset(key, 'k', KEY_MAX);
    for (size_t i = 0; i < VALUE_MAX; i += 997) big[i] = (char)i;
    CHECK_OK(weft_store_set(store, key, big, VALUE_MAX));
    CHECK_OK(weft_store_get(store, key, back, &bytes, OPEN_MS));
    CHECK(bytes == VALUE_MAX && !memcmp(big, back, VALUE_MAX));
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_store_set(store, "k", big, VALUE_MAX + 1));
    CHECK_TEXT(weft_last_error(), "67108864");
    key[KEY_MAX] = 'k';
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_store_set(store, key, "v", 1));
    CHECK_TEXT(weft_last_error(), "1024");
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_store_set(store, "", "v", 1));
    close_store(me, store);
}

static void bad_arguments(job_rank *me)
{
    weft_store *store = open_store(me), *none = NULL;
    const char *keys[] = {"a", NULL};
    char value[8];
    size_t bytes = sizeof value;
    int64_t sum;
    bool flag;
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_store_set(NULL, "k", "v", 1));
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_store_set(store, NULL, "v", 1));
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_store_set(store, "k", NULL, 1));
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_store_get(NULL, "k", value, &bytes, 0));
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_store_get(store, "k", NULL, &bytes, 0));
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_store_get(store, "k", value, NULL, 0));
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_store_add(NULL, "k", 1, &sum));
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_store_compare_set(store, "k", NULL, 1, "v", 1, &flag));
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_store_compare_set(NULL, "k", NULL, 0, "v", 1, &flag));
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_store_wait(store, keys, 2, 0));
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_store_wait(store, NULL, 1, 0));
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_store_wait(NULL, keys, 1, 0));
    CHECK_OK(weft_store_wait(store, NULL, 0, 0));
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_store_delete(NULL, "k", &flag));
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_store_open(NULL, NULL, 0, &none));
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_store_open("tcp://127.0.0.1:1", NULL, 0, NULL));
    CHECK(!none);
    weft_store_close(NULL);
    close_store(me, store);
}

/* ---- waiting ------------------------------------------------------------------------------------------- */

static void waiting_ends_in_time(job_rank *me)
{
    static const char *const keys[] = {"there", "absent one", "absent two"};
    weft_store *store = open_store(me);
    size_t bytes = 0;
    int64_t before = job_now_ns();
    CHECK_OK(weft_store_set(store, "there", "x", 1));
    CHECK_STATUS(WEFT_ERR_TIMEOUT, weft_store_wait(store, keys, 3, 0));
    CHECK_TEXT(weft_last_error(), "\"absent one\", \"absent two\"");
    CHECK(!strstr(weft_last_error(), "there\""));
    CHECK_PERIOD(before, job_now_ns(), 0, JOB_LATE_MS);
    before = job_now_ns();
    CHECK_STATUS(WEFT_ERR_TIMEOUT, weft_store_wait(store, keys, 3, 300));
    CHECK_PERIOD(before, job_now_ns(), 300, 300 + JOB_LATE_MS);
    CHECK_TEXT(weft_last_error(), "absent two");
    before = job_now_ns();
    CHECK_STATUS(WEFT_ERR_TIMEOUT, weft_store_get(store, "absent one", NULL, &bytes, 300));
    CHECK_PERIOD(before, job_now_ns(), 300, 300 + JOB_LATE_MS);
    CHECK_TEXT(weft_last_error(), "absent one");
    close_store(me, store);
}

/* Rank 0 writes late what the others wait for, each in its own way; one key is taken away again meanwhile. */
static void waiting_for_others(job_rank *me)
{
    static const char *const keys[] = {"a", "b", "c"};
    weft_store *store = open_store(me);
    char value[8];
    size_t bytes = sizeof value;
    if (me->rank == 0) {
        CHECK_OK(weft_store_set(store, "a", "1", 1));
        job_meet(me);
        job_sleep_ms(100);
        CHECK_OK(weft_store_delete(store, "a", NULL));
        CHECK_OK(weft_store_set(store, "b", "2", 1));
        CHECK_OK(weft_store_add(store, "c", 3, NULL));
        job_sleep_ms(100);
        job_mark(me, 0);
        CHECK_OK(weft_store_compare_set(store, "a", NULL, 0, "1", 1, NULL));
    } else {
        job_meet(me);
        if (me->rank == 1) {
            CHECK_OK(weft_store_get(store, "b", value, &bytes, JOB_WAIT_MS));
            CHECK(bytes == 1 && value[0] == '2');
            CHECK_OK(weft_store_wait(store, keys, 3, WEFT_FOREVER));
        } else if (me->rank == 2) {
            job_sleep_ms(150); /* after a is gone */
            CHECK_OK(weft_store_wait(store, keys, 3, WEFT_FOREVER));
            job_await(me, 0, 1);
        } else {
            CHECK_OK(weft_store_wait(store, keys + 1, 2, JOB_WAIT_MS));
        }
    }
    close_store(me, store);
}

typedef struct thread_part {
    weft_store *store;
    int rank, ranks;
} thread_part;

static void wait_or_set(job_rank *me, int thread, void *arg)
{
    thread_part *part = arg;
    char key[32], value[8];
    size_t bytes = sizeof value;
    (void)me;
    for (int round = 0; round < 20; round++) {
        snprintf(key, sizeof key, "%d/%d/%d", part->rank, thread / 2, round);
        if (thread % 2) {
            CHECK_OK(weft_store_set(part->store, key, "x", 1));
        } else {
            bytes = sizeof value;
            CHECK_OK(weft_store_get(part->store, key, value, &bytes, JOB_WAIT_MS));
        }
    }
}

/* Threads that wait do not hold threads that set, on one handle. */
static void threads_share_a_store(job_rank *me)
{
    weft_store *store = open_store(me);
    thread_part part = {store, me->rank, me->size};
    job_threads(me, 8, wait_or_set, &part);
    close_store(me, store);
}

static void adds_are_exact(job_rank *me)
{
    weft_store *store = open_store(me);
    int64_t sum = 0;
    for (int i = 0; i < 200; i++) CHECK_OK(weft_store_add(store, "sum", me->rank + 1, &sum));
    job_meet(me);
    CHECK_OK(weft_store_add(store, "sum", 0, &sum));
    CHECK_INT(sum, 200 * me->size * (me->size + 1) / 2);
    close_store(me, store);
}

/* ---- opening over TCP ---------------------------------------------------------------------------------- */

static void expect_refused(job_rank *me, const char *url, weft_status status, const char *words)
{
    weft_store *store = NULL;
    int64_t before = job_now_ns();
    CHECK_STATUS(status, weft_store_open(url, NULL, 300, &store));
    CHECK_PERIOD(before, job_now_ns(), 0, 300 + JOB_LATE_MS);
    CHECK(!store);
    CHECK_TEXT(weft_last_error(), words);
    (void)me;
}

static void bad_urls(job_rank *me)
{
    expect_refused(me, "", WEFT_ERR_ARGUMENT, "tcp://HOST:PORT or file:///PATH");
    expect_refused(me, "http://127.0.0.1:80", WEFT_ERR_ARGUMENT, "http://127.0.0.1:80");
    expect_refused(me, "env://", WEFT_ERR_ARGUMENT, "env://");
    expect_refused(me, "tcp://127.0.0.1", WEFT_ERR_ARGUMENT, "port");
    expect_refused(me, "tcp://127.0.0.1:0", WEFT_ERR_ARGUMENT, "port");
    expect_refused(me, "tcp://127.0.0.1:70000", WEFT_ERR_ARGUMENT, "65535");
    expect_refused(me, "tcp://127.0.0.1:80?rank=1", WEFT_ERR_ARGUMENT, "?");
    expect_refused(me, "tcp://0.0.0.0:2900", WEFT_ERR_ARGUMENT, "0.0.0.0");
    expect_refused(me, "tcp://::1:2900", WEFT_ERR_ARGUMENT, "brackets");
    expect_refused(me, "tcp://192.0.2.1:2900", WEFT_ERR_ARGUMENT, "secret"); /* wider than this host */
}

static void a_wrong_secret_is_told(job_rank *me)
{
    char url[URL_BYTES];
    weft_store *store = NULL;
    setenv("STORE_SECRET", me->rank ? "wrong" : "right", 1);
    if (me->rank == 0) CHECK_OK(weft_store_open(url_of(me, 1, url), "env:STORE_SECRET", OPEN_MS, &store));
    job_meet(me);
    if (me->rank) {
        int64_t before = job_now_ns();
        CHECK_STATUS(WEFT_ERR_AUTH, weft_store_open(url_of(me, 1, url), "env:STORE_SECRET", OPEN_MS, &store));
        CHECK_PERIOD(before, job_now_ns(), 0, JOB_LATE_MS);
        CHECK_TEXT(weft_last_error(), "secret");
        setenv("STORE_SECRET", "right", 1);
        CHECK_OK(weft_store_open(url_of(me, 1, url), "env:STORE_SECRET", OPEN_MS, &store));
        CHECK_OK(weft_store_set(store, "k", "v", 1));
    }
    close_store(me, store);
}

/* The server's store is closed: whoever waits is told at once, and so is every later call. */
static void a_closed_server_is_told(job_rank *me)
{
    weft_store *store = open_store(me);
    size_t bytes = 0;
    int64_t before;
    if (me->rank == 0) {
        job_await(me, 0, me->size - 1);
        job_sleep_ms(200);
        weft_store_close(store);
        return;
    }
    job_mark(me, 0);
    before = job_now_ns();
    CHECK_STATUS(WEFT_ERR_PEER, weft_store_get(store, "never", NULL, &bytes, WEFT_FOREVER));
    CHECK_PERIOD(before, job_now_ns(), 0, 200 + JOB_LATE_MS);
    CHECK_TEXT(weft_last_error(), "127.0.0.1");
    CHECK_STATUS(WEFT_ERR_PEER, weft_store_set(store, "k", "v", 1));
    weft_store_close(store);
}

/* All do the same and nobody waits for the others at the end: the one that serves lets them finish. */
static void a_symmetric_meeting(job_rank *me)
{
    char url[URL_BYTES];
    const char *const all = "all";
    int64_t n;
    weft_store *store;
    job_meet(me);
    CHECK_OK(weft_store_open(url_of(me, 2, url), NULL, OPEN_MS, &store));
    CHECK_OK(weft_store_add(store, "n", 1, &n));
    if (n == me->size) CHECK_OK(weft_store_set(store, all, NULL, 0));
    CHECK_OK(weft_store_wait(store, &all, 1, JOB_WAIT_MS));
    weft_store_close(store);
    if (!strcmp(me->arg, "file")) {
        job_meet(me);
        unlink(url_of(me, 2, url) + 7);
    }
}

static void over_ipv6(job_rank *me)
{
    char url[URL_BYTES];
    weft_store *store;
    if (access("/proc/net/if_inet6", R_OK)) return;
    snprintf(url, sizeof url, "tcp://[::1]:%d", job_port(me, 1));
    CHECK_OK(weft_store_open(url, NULL, OPEN_MS, &store));
    CHECK_OK(weft_store_add(store, "n", 1, NULL));
    job_meet(me);
    check_value(store, "n", me->size == 2 ? "2" : "?");
    close_store(me, store);
}

static void a_child_of_fork(job_rank *me)
{
    weft_store *store = open_store(me), *other = NULL;
    char url[URL_BYTES];
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        size_t bytes = 0;
        bool right = weft_store_set(store, "k", "v", 1) == WEFT_ERR_STATE &&
                     weft_store_get(store, "k", NULL, &bytes, 0) == WEFT_ERR_STATE &&
                     weft_store_open(url_of(me, 1, url), NULL, 0, &other) == WEFT_ERR_STATE;
        weft_store_close(store);
        _exit(right ? 0 : 1);
    }
    CHECK_INT(waitpid(child, &status, 0), child);
    CHECK_INT(status, 0);
    CHECK_OK(weft_store_set(store, "k", "v", 1));
    close_store(me, store);
}

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
    check_value(store, done, "all are here");
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
    check_value(stores[0], "n", "3");
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

/* ---- joining by a store ---------------------------------------------------------------------------------
 */

static weft_config store_config(const job_rank *me, weft_store *store)
{
    weft_config config = WEFT_CONFIG_INIT;
    config.store = store;
    config.world_size = me->size;
    config.timeout_ms = OPEN_MS;
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
    weft_store *store = open_store(me);
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
    close_store(me, store);
}

/* Ranks 0 and 1 are one job, 2 and 3 another, at the same time on the same store. */
static void two_jobs(job_rank *me)
{
    weft_store *store = open_store(me);
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
    close_store(me, store);
}

static void fail_to_join(job_rank *me, const weft_config *config, weft_status status, const char *words)
{
    int64_t before = job_now_ns();
    weft_context *ctx = NULL;
    CHECK_STATUS(status, weft_init(config, &ctx));
    CHECK_TEXT(weft_last_error(), words);
    CHECK_PERIOD(before, job_now_ns(), 0, config->timeout_ms + JOB_LATE_MS);
    CHECK(!ctx);
    (void)me;
}

/* A rank does not come; the others say which, and the next run is not hurt. */
static void a_missing_rank_is_named(job_rank *me)
{
    enum { SHORT_MS = JOB_SANITIZED ? 3000 : 700 };
    weft_store *store = open_store(me);
    weft_config config = store_config(me, store);
    config.timeout_ms = SHORT_MS;
    config.rank = me->rank;
    if (me->rank != 1) {
        fail_to_join(me, &config, WEFT_ERR_TIMEOUT, "rank 1 is missing");
        CHECK_NAMES(weft_last_error(), 1U << 1, me->size);
    }
    job_meet(me);
    config.timeout_ms = OPEN_MS;
    join_by(me, &config);
    job_sum_works(me->world);
    job_meet(me);
    job_leave(me);
    me->ctx = NULL;
    close_store(me, store);
}

static void contradictions_are_told(job_rank *me)
{
    weft_store *store = open_store(me);
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
    close_store(me, store);
}

#define OVER_TCP(sentence, n, function) \
    JOB_TEST(sentence, .ranks = n, .body = function, .bare = true, .arg = "tcp")
#define OVER_BOTH(sentence, n, function) \
    OVER_TCP(sentence, n, function),     \
        JOB_TEST(sentence ", in a file", .ranks = n, .body = function, .bare = true, .arg = "file")

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        OVER_BOTH("set and get", 1, set_and_get),
        OVER_BOTH("add", 1, add),
        OVER_BOTH("compare_set", 1, compare_set),
        OVER_BOTH("delete", 1, delete_key),
        OVER_BOTH("limits", 1, limits),
        OVER_BOTH("bad arguments", 1, bad_arguments),
        OVER_BOTH("waiting ends in time", 2, waiting_ends_in_time),
        OVER_BOTH("waiting for others", 4, waiting_for_others),
        OVER_BOTH("threads share a store", 2, threads_share_a_store),
        OVER_BOTH("adds are exact", 4, adds_are_exact),
        OVER_BOTH("a symmetric meeting", 8, a_symmetric_meeting),
        JOB_TEST("the job has a store", .ranks = 4, .body = the_job_has_a_store),
        JOB_TEST("a world of one has a store", .ranks = 1, .body = the_job_has_a_store),
        JOB_TEST("threads get the same", .ranks = 3, .body = threads_get_the_same),
        JOB_TEST("rank 0 leaves with the store", .ranks = 3, .body = rank_0_leaves),
        JOB_TEST("not in a callback", .ranks = 2, .body = not_in_a_callback),
        OVER_BOTH("joining", 4, joining),
        OVER_BOTH("two jobs", 4, two_jobs),
        OVER_TCP("a missing rank is named", 3, a_missing_rank_is_named),
        OVER_TCP("contradictions are told", 2, contradictions_are_told),
        OVER_TCP("bad urls", 1, bad_urls),
        OVER_TCP("a closed server is told", 3, a_closed_server_is_told),
        OVER_TCP("over ipv6", 2, over_ipv6),
        JOB_TEST("a wrong secret is told", .ranks = 2, .body = a_wrong_secret_is_told, .bare = true,
                 .arg = "tcp", .processes = true),
        JOB_TEST("a child of fork", .ranks = 1, .body = a_child_of_fork, .bare = true, .arg = "tcp",
                 .processes = true),
    };
    return JOB_MAIN(tests, argc, argv);
}
