/* test_store.c - the store that users see: what each call promises, over TCP and in a file. */
#include "stores.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KEY_MAX = 1024, VALUE_MAX = 64 << 20 };

/* ---- single calls -------------------------------------------------------------------------------------- */

static void set_and_get(job_rank *me)
{
    weft_store *store = store_open(me);
    char value[16] = "untouched";
    size_t bytes = sizeof value;
    CHECK_OK(weft_store_set(store, "key", "first", 5));
    store_holds(store, "key", "first");
    CHECK_OK(weft_store_set(store, "key", "other value", 11));
    store_holds(store, "key", "other value");
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
    store_close(me, store);
}

static void add(job_rank *me)
{
    weft_store *store = store_open(me);
    int64_t sum = 77;
    CHECK_OK(weft_store_add(store, "n", 5, &sum));
    CHECK_INT(sum, 5);
    CHECK_OK(weft_store_add(store, "n", -12, &sum));
    CHECK_INT(sum, -7);
    store_holds(store, "n", "-7");
    CHECK_OK(weft_store_add(store, "n", 0, NULL));
    CHECK_OK(weft_store_set(store, "n", "40", 2));
    CHECK_OK(weft_store_add(store, "n", 2, &sum));
    CHECK_INT(sum, 42);
    CHECK_OK(weft_store_set(store, "word", "4x", 2));
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_store_add(store, "word", 1, &sum));
    CHECK_TEXT(weft_last_error(), "word");
    store_holds(store, "word", "4x");
    CHECK_OK(weft_store_add(store, "most", INT64_MAX, &sum));
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_store_add(store, "most", 1, &sum));
    CHECK_INT(sum, INT64_MAX);
    CHECK_OK(weft_store_add(store, "least", INT64_MIN, &sum));
    store_holds(store, "least", "-9223372036854775808");
    CHECK_OK(weft_store_add(store, "least", INT64_MAX, &sum));
    CHECK_INT(sum, -1);
    store_close(me, store);
}

static void compare_set(job_rank *me)
{
    weft_store *store = store_open(me);
    bool swapped = false;
    CHECK_OK(weft_store_compare_set(store, "k", "no", 2, "never", 5, &swapped));
    CHECK(!swapped);
    CHECK_OK(weft_store_compare_set(store, "k", NULL, 0, "one", 3, &swapped));
    CHECK(swapped);
    CHECK_OK(weft_store_compare_set(store, "k", NULL, 0, "two", 3, &swapped));
    CHECK(!swapped);
    CHECK_OK(weft_store_compare_set(store, "k", "on", 2, "two", 3, &swapped));
    CHECK(!swapped);
    store_holds(store, "k", "one");
    CHECK_OK(weft_store_compare_set(store, "k", "one", 3, NULL, 0, &swapped));
    CHECK(swapped);
    store_holds(store, "k", "");
    CHECK_OK(weft_store_compare_set(store, "k", "", 0, "end", 3, &swapped));
    CHECK(swapped);
    store_holds(store, "k", "end");
    store_close(me, store);
}

static void delete_key(job_rank *me)
{
    weft_store *store = store_open(me);
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
    store_close(me, store);
}

static void limits(job_rank *me)
{
    weft_store *store = store_open(me);
    char *key = job_alloc(me, KEY_MAX + 2), *big = job_alloc(me, VALUE_MAX + 1),
         *back = job_alloc(me, VALUE_MAX);
    size_t bytes = VALUE_MAX;
    memset(key, 'k', KEY_MAX);
    for (size_t i = 0; i < VALUE_MAX; i += 997) big[i] = (char)i;
    CHECK_OK(weft_store_set(store, key, big, VALUE_MAX));
    CHECK_OK(weft_store_get(store, key, back, &bytes, STORE_MS));
    CHECK(bytes == VALUE_MAX && !memcmp(big, back, VALUE_MAX));
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_store_set(store, "k", big, VALUE_MAX + 1));
    CHECK_TEXT(weft_last_error(), "67108864");
    key[KEY_MAX] = 'k';
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_store_set(store, key, "v", 1));
    CHECK_TEXT(weft_last_error(), "1024");
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_store_set(store, "", "v", 1));
    store_close(me, store);
}

static void bad_arguments(job_rank *me)
{
    weft_store *store = store_open(me), *none = NULL;
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
    store_close(me, store);
}

/* ---- waiting ------------------------------------------------------------------------------------------- */

static void waiting_ends_in_time(job_rank *me)
{
    static const char *const keys[] = {"there", "absent one", "absent two"};
    weft_store *store = store_open(me);
    size_t bytes = 0;
    int64_t before = job_now_ns();
    CHECK_OK(weft_store_set(store, "there", "x", 1));
    CHECK_STATUS(WEFT_ERR_TIMEOUT, weft_store_wait(store, keys, 3, 0));
    CHECK_TEXT(weft_last_error(), "\"absent one\", \"absent two\"");
    CHECK(!strstr(weft_last_error(), "there\""));
    CHECK_PERIOD(before, job_now_ns(), 0, job_late_ms());
    before = job_now_ns();
    CHECK_STATUS(WEFT_ERR_TIMEOUT, weft_store_wait(store, keys, 3, 300));
    CHECK_PERIOD(before, job_now_ns(), 300, 300 + job_late_ms());
    CHECK_TEXT(weft_last_error(), "absent two");
    before = job_now_ns();
    CHECK_STATUS(WEFT_ERR_TIMEOUT, weft_store_get(store, "absent one", NULL, &bytes, 300));
    CHECK_PERIOD(before, job_now_ns(), 300, 300 + job_late_ms());
    CHECK_TEXT(weft_last_error(), "absent one");
    store_close(me, store);
}

/* Rank 0 writes late what the others wait for, each in its own way; one key is taken away again meanwhile. */
static void waiting_for_others(job_rank *me)
{
    static const char *const keys[] = {"a", "b", "c"};
    weft_store *store = store_open(me);
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
    store_close(me, store);
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
    weft_store *store = store_open(me);
    thread_part part = {store, me->rank, me->size};
    job_threads(me, 8, wait_or_set, &part);
    store_close(me, store);
}

static void adds_are_exact(job_rank *me)
{
    weft_store *store = store_open(me);
    int64_t sum = 0;
    for (int i = 0; i < 200; i++) CHECK_OK(weft_store_add(store, "sum", me->rank + 1, &sum));
    job_meet(me);
    CHECK_OK(weft_store_add(store, "sum", 0, &sum));
    CHECK_INT(sum, 200 * me->size * (me->size + 1) / 2);
    store_close(me, store);
}

/* ---- opening over TCP ---------------------------------------------------------------------------------- */

static void expect_refused(job_rank *me, const char *url, weft_status status, const char *words)
{
    weft_store *store = NULL;
    int64_t before = job_now_ns();
    CHECK_STATUS(status, weft_store_open(url, NULL, 300, &store));
    CHECK_PERIOD(before, job_now_ns(), 0, 300 + job_late_ms());
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
    expect_refused(me, "tcp://127.0.0.1:80?rank=1", WEFT_ERR_ARGUMENT, "?rank=1");
    expect_refused(me, "tcp://0.0.0.0:2900", WEFT_ERR_ARGUMENT, "0.0.0.0");
    expect_refused(me, "tcp://::1:2900", WEFT_ERR_ARGUMENT, "brackets");
    expect_refused(me, "tcp://192.0.2.1:2900", WEFT_ERR_ARGUMENT, "secret"); /* wider than this host */
}

static void a_wrong_secret_is_told(job_rank *me)
{
    char url[STORE_URL_BYTES];
    weft_store *store = NULL;
    job_setenv(me, "STORE_SECRET", me->rank ? "the wrong secret" : "the right secret");
    if (me->rank == 0) CHECK_OK(weft_store_open(store_url(me, 1, url), "env:STORE_SECRET", STORE_MS, &store));
    job_meet(me);
    if (me->rank) {
        int64_t before = job_now_ns();
        CHECK_STATUS(WEFT_ERR_AUTH,
                     weft_store_open(store_url(me, 1, url), "env:STORE_SECRET", STORE_MS, &store));
        CHECK_PERIOD(before, job_now_ns(), 0, job_late_ms());
        CHECK_TEXT(weft_last_error(), "secret");
        job_setenv(me, "STORE_SECRET", "the right secret");
        CHECK_OK(weft_store_open(store_url(me, 1, url), "env:STORE_SECRET", STORE_MS, &store));
        CHECK_OK(weft_store_set(store, "k", "v", 1));
    }
    store_close(me, store);
}

/* The server's store is closed: whoever waits is told at once, and so is every later call. */
static void a_closed_server_is_told(job_rank *me)
{
    weft_store *store = store_open(me);
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
    CHECK_PERIOD(before, job_now_ns(), 0, 200 + job_late_ms());
    CHECK_TEXT(weft_last_error(), "127.0.0.1");
    CHECK_STATUS(WEFT_ERR_PEER, weft_store_set(store, "k", "v", 1));
    weft_store_close(store);
}

/* All do the same and nobody waits for the others at the end: the one that serves lets them finish. */
static void a_symmetric_meeting(job_rank *me)
{
    char url[STORE_URL_BYTES];
    const char *const all = "all";
    int64_t n;
    weft_store *store;
    if (me->rank == 0) store_remove(me, 2);
    job_meet(me);
    CHECK_OK(weft_store_open(store_url(me, 2, url), NULL, STORE_MS, &store));
    CHECK_OK(weft_store_add(store, "n", 1, &n));
    if (n == me->size) CHECK_OK(weft_store_set(store, all, NULL, 0));
    CHECK_OK(weft_store_wait(store, &all, 1, JOB_WAIT_MS));
    weft_store_close(store);
    job_meet(me);
    if (me->rank == 0) store_remove(me, 2);
}

static void over_ipv6(job_rank *me)
{
    char url[STORE_URL_BYTES];
    weft_store *store;
    if (access("/proc/net/if_inet6", R_OK)) return;
    snprintf(url, sizeof url, "tcp://[::1]:%d", job_port(me, 1));
    CHECK_OK(weft_store_open(url, NULL, STORE_MS, &store));
    CHECK_OK(weft_store_add(store, "n", 1, NULL));
    job_meet(me);
    store_holds(store, "n", me->size == 2 ? "2" : "?");
    store_close(me, store);
}

static void a_child_of_fork(job_rank *me)
{
    weft_store *store = store_open(me), *other = NULL;
    char url[STORE_URL_BYTES];
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        size_t bytes = 0;
        bool right = weft_store_set(store, "k", "v", 1) == WEFT_ERR_STATE &&
                     weft_store_get(store, "k", NULL, &bytes, 0) == WEFT_ERR_STATE &&
                     weft_store_open(store_url(me, 1, url), NULL, 0, &other) == WEFT_ERR_STATE;
        weft_store_close(store);
        _exit(right ? 0 : 1);
    }
    CHECK_INT(waitpid(child, &status, 0), child);
    CHECK_INT(status, 0);
    CHECK_OK(weft_store_set(store, "k", "v", 1));
    store_close(me, store);
}

/* Somebody holds the file's lock and does not let go: calls end in time, and say why. */
static void a_locked_file_is_told(job_rank *me)
{
    char url[STORE_URL_BYTES];
    weft_store *store, *other = NULL;
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    size_t bytes = 0;
    int64_t before;
    int fd;
    store_remove(me, 1);
    CHECK_OK(weft_store_open(store_url(me, 1, url), NULL, 300, &store));
    fd = open(url + 7, O_RDWR | O_CLOEXEC);
    CHECK_INT(fcntl(fd, F_OFD_SETLK, &whole), 0);
    before = job_now_ns();
    CHECK_STATUS(WEFT_ERR_TIMEOUT, weft_store_set(store, "k", "v", 1));
    CHECK_PERIOD(before, job_now_ns(), 300, 300 + job_late_ms());
    CHECK_TEXT(weft_last_error(), url + 7);
    CHECK_STATUS(WEFT_ERR_TIMEOUT, weft_store_get(store, "k", NULL, &bytes, 100));
    CHECK_STATUS(WEFT_ERR_TIMEOUT, weft_store_open(url, NULL, 100, &other));
    close(fd);
    CHECK_OK(weft_store_set(store, "k", "v", 1));
    weft_store_close(store);
    store_remove(me, 1);
}

static void *let_go_late(void *arg)
{
    const int *fd = arg;
    job_sleep_ms(300);
    close(*fd);
    return NULL;
}

/* A store that is opened without a time of its own has those 30 s of the calls, for the opening too. */
static void opening_has_its_time(job_rank *me)
{
    char url[STORE_URL_BYTES];
    weft_store *store, *other = NULL;
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    pthread_t thread;
    int fd;
    store_remove(me, 1);
    CHECK_OK(weft_store_open(store_url(me, 1, url), NULL, STORE_MS, &store));
    fd = open(url + 7, O_RDWR | O_CLOEXEC);
    CHECK_INT(fcntl(fd, F_OFD_SETLK, &whole), 0);
    CHECK_INT(pthread_create(&thread, NULL, let_go_late, &fd), 0);
    CHECK_OK(weft_store_open(url, NULL, 0, &other));
    pthread_join(thread, NULL);
    weft_store_close(other);
    weft_store_close(store);
    store_remove(me, 1);
}

/* ---- a crowd ------------------------------------------------------------------------------------------- */

enum { CROWD_RANKS = 10, CROWD_THREADS = JOB_SANITIZED ? 10 : 100 };

static void one_of_a_crowd(job_rank *me, int thread, void *arg)
{
    const char *const all = "all";
    char url[STORE_URL_BYTES];
    weft_store *store;
    int64_t n;
    (void)thread;
    (void)arg;
    CHECK_OK(weft_store_open(store_url(me, 1, url), NULL, STORE_MS, &store));
    CHECK_OK(weft_store_add(store, "n", 1, &n));
    if (n == CROWD_RANKS * CROWD_THREADS) CHECK_OK(weft_store_set(store, all, NULL, 0));
    CHECK_OK(weft_store_wait(store, &all, 1, JOB_WAIT_MS));
    weft_store_close(store);
}

/* A thousand clients in ten processes open the store, and each waits until all have been counted. */
static void a_crowd_meets(job_rank *me)
{
    int64_t before, after;
    job_meet(me);
    before = job_now_ns();
    job_threads(me, CROWD_THREADS, one_of_a_crowd, NULL);
    job_meet(me);
    after = job_now_ns();
    if (me->rank == 0)
        printf("%d clients in %d processes met in %.0f ms\n", CROWD_RANKS * CROWD_THREADS, CROWD_RANKS,
               (double)(after - before) / 1e6);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST("set and get", 1, set_and_get),
        STORE_TEST("add", 1, add),
        STORE_TEST("compare_set", 1, compare_set),
        STORE_TEST("delete", 1, delete_key),
        STORE_TEST("limits", 1, limits),
        STORE_TEST("bad arguments", 1, bad_arguments),
        STORE_TEST("waiting ends in time", 2, waiting_ends_in_time),
        STORE_TEST("waiting for others", 4, waiting_for_others),
        STORE_TEST("threads share a store", 2, threads_share_a_store),
        STORE_TEST("adds are exact", 4, adds_are_exact),
        STORE_TEST("a symmetric meeting", 8, a_symmetric_meeting),
        JOB_TEST("a locked file is told", .ranks = 1, .body = a_locked_file_is_told, .bare = true,
                 .arg = "file"),
        JOB_TEST("opening has its time", .ranks = 1, .body = opening_has_its_time, .bare = true,
                 .arg = "file"),
        STORE_TEST_TCP("a crowd meets", CROWD_RANKS, a_crowd_meets),
        STORE_TEST_TCP("bad urls", 1, bad_urls),
        STORE_TEST_TCP("a closed server is told", 3, a_closed_server_is_told),
        STORE_TEST_TCP("over ipv6", 2, over_ipv6),
        JOB_TEST("a wrong secret is told", .ranks = 2, .body = a_wrong_secret_is_told, .bare = true,
                 .arg = "tcp", .processes = true),
        JOB_TEST("a child of fork", .ranks = 1, .body = a_child_of_fork, .bare = true, .arg = "tcp",
                 .processes = true),
    };
    return JOB_MAIN(tests, argc, argv);
}
