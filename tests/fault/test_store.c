/* test_store.c - whoever keeps or uses a store is killed: the others are told at once, or not hurt. */
#include "stores.h"

#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Rank 0 serves and is killed; who waits and who calls later are told. */
static void the_server_is_killed(job_rank *me)
{
    weft_store *store = store_open(me);
    size_t bytes = 0;
    int64_t before;
    job_mark(me, 0);
    if (me->rank == 0) {
        job_await(me, 0, me->size);
        job_sleep_ms(100); /* they wait by then, as a rule */
        raise(SIGKILL);
    }
    before = job_now_ns();
    CHECK_STATUS(WEFT_ERR_PEER, weft_store_get(store, "never", NULL, &bytes, WEFT_FOREVER));
    CHECK_PERIOD(before, job_now_ns(), 0, 100 + JOB_LATE_MS);
    CHECK_TEXT(weft_last_error(), "no longer served");
    CHECK_STATUS(WEFT_ERR_PEER, weft_store_set(store, "k", "v", 1));
    weft_store_close(store);
}

/* Its place can be taken by the next one that opens the store: an empty one. */
static void a_killed_server_is_followed(job_rank *me)
{
    weft_store *store = store_open(me);
    char url[STORE_URL_BYTES];
    size_t bytes = 0;
    CHECK_OK(weft_store_set(store, me->rank ? "b" : "a", "old", 3));
    job_mark(me, 0);
    if (me->rank == 0) {
        job_await(me, 0, me->size);
        raise(SIGKILL);
    }
    CHECK_STATUS(WEFT_ERR_PEER, weft_store_get(store, "never", NULL, &bytes, WEFT_FOREVER));
    weft_store_close(store);
    CHECK_OK(weft_store_open(store_url(me, 1, url), NULL, STORE_MS, &store));
    CHECK_OK(weft_store_set(store, "k", "new", 3));
    store_holds(store, "k", "new");
    CHECK_STATUS(WEFT_ERR_TIMEOUT, weft_store_get(store, "a", NULL, &bytes, 0));
    weft_store_close(store);
}

/* Rank 0 listens there, and says nothing until the other one has met that. */
static int listen_silently(job_rank *me)
{
    char url[STORE_URL_BYTES];
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    at.sin_port = htons((uint16_t)atoi(strrchr(store_url(me, 0, url), ':') + 1));
    CHECK(fd >= 0 && !bind(fd, (struct sockaddr *)&at, sizeof at) && !listen(fd, 16));
    return fd;
}

/* It may be a server that a busy machine keeps from greeting: it is waited for, until the deadline. */
static void a_silent_port_is_waited_for(job_rank *me)
{
    enum { SILENT_MS = 2500 /* more than one try takes */ };
    weft_store *store = NULL;
    char url[STORE_URL_BYTES];
    int fd = me->rank == 0 ? listen_silently(me) : -1;
    job_meet(me);
    if (me->rank == 0) {
        job_await(me, 0, 1);
        job_sleep_ms(SILENT_MS);
        close(fd);
        return;
    }
    CHECK_STATUS(WEFT_ERR_TIMEOUT, weft_store_open(store_url(me, 0, url), NULL, SILENT_MS / 2, &store));
    CHECK_TEXT(weft_last_error(), "it accepts connections but does not greet");
    job_mark(me, 0);
    CHECK_OK(weft_store_open(url, NULL, STORE_MS, &store));
    weft_store_close(store);
}

/* Ranks 1 and 2 are killed while they wait; what they wait for comes later, and others get it. */
static void waiting_clients_are_killed(job_rank *me)
{
    weft_store *store = store_open(me);
    const char *const keys[] = {"late", "later"};
    if (me->rank == 1 || me->rank == 2) {
        job_mark(me, 0);
        weft_store_wait(store, keys, 2, WEFT_FOREVER);
        job_fail(__FILE__, __LINE__, "it was to be killed");
    }
    if (me->rank == 0) {
        job_await(me, 0, 2);
        job_sleep_ms(100);
        job_kill(me, 1);
        job_kill(me, 2);
        job_sleep_ms(100);
        CHECK_OK(weft_store_set(store, "late", "x", 1));
        CHECK_OK(weft_store_set(store, "later", "y", 1));
        job_mark(me, 1);
        job_await(me, 2, 1);
    } else {
        CHECK_OK(weft_store_wait(store, keys, 2, JOB_WAIT_MS));
        store_holds(store, "later", "y");
        job_mark(me, 2);
    }
    weft_store_close(store);
    if (me->rank == 0) store_remove(me, 1);
}

/* Rank 0, which keeps the job's store, dies: users of the store are told, and who asks for it only then. */
static void rank_0_is_killed(job_rank *me)
{
    weft_store *store = me->rank == 1 ? weft_context_store(me->ctx) : NULL;
    size_t bytes = 0;
    job_mark(me, 0);
    if (me->rank == 0) {
        job_await(me, 0, me->size);
        raise(SIGKILL);
    }
    job_await_break(me->world, JOB_WAIT_MS);
    if (me->rank == 1) {
        CHECK(store);
        CHECK_STATUS(WEFT_ERR_PEER, weft_store_get(store, "never", NULL, &bytes, WEFT_FOREVER));
    } else {
        CHECK(!weft_context_store(me->ctx));
        CHECK_NAMES(weft_last_error(), 1U, me->size);
    }
}

/* Rank 2 dies while the job starts; the others are told before their time is up, and the next run works. */
static void a_joining_rank_is_killed(job_rank *me)
{
    weft_store *store = store_open(me);
    weft_config config = WEFT_CONFIG_INIT;
    weft_context *ctx = NULL;
    config.store = store;
    config.world_size = 4;
    config.timeout_ms = 1500 * JOB_SLOWER;
    if (me->rank == 2) {
        job_mark(me, 0);
        (void)weft_init(&config, &ctx); /* never complete: there are three */
        job_fail(__FILE__, __LINE__, "it was to be killed");
    }
    job_await(me, 0, 1);
    if (me->rank == 0) {
        job_sleep_ms(200);
        job_kill(me, 2);
        job_mark(me, 1);
    }
    job_await(me, 1, 1);
    weft_status status = weft_init(&config, &ctx);
    CHECK(status == WEFT_ERR_TIMEOUT || status == WEFT_ERR_PEER);
    job_mark(me, 2);
    job_await(me, 2, 2);
    config.world_size = 2;
    config.timeout_ms = STORE_MS;
    CHECK_OK(weft_init(&config, &ctx));
    CHECK_INT(weft_group_size(weft_world(ctx)), 2);
    CHECK_OK(weft_finalize(ctx, STORE_MS));
    job_mark(me, 3);
    job_await(me, 3, 2);
    weft_store_close(store);
    if (me->rank == 0) store_remove(me, 1);
}

#define KILLS(sentence, n, function, mask, where)                                                     \
    JOB_TEST(sentence, .ranks = n, .body = function, .bare = true, .processes = true, .killed = mask, \
             .arg = where)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        KILLS("the server is killed", 3, the_server_is_killed, 1U << 0, "tcp"),
        KILLS("a killed server is followed", 3, a_killed_server_is_followed, 1U << 0, "tcp"),
        JOB_TEST("a silent port is waited for", .ranks = 2, .body = a_silent_port_is_waited_for, .bare = true,
                 .processes = true, .arg = "tcp"),
        KILLS("waiting clients are killed", 4, waiting_clients_are_killed, 3U << 1, "tcp"),
        KILLS("waiting clients are killed, in a file", 4, waiting_clients_are_killed, 3U << 1, "file"),
        KILLS("a joining rank is killed", 3, a_joining_rank_is_killed, 1U << 2, "tcp"),
        KILLS("a joining rank is killed, in a file", 3, a_joining_rank_is_killed, 1U << 2, "file"),
        JOB_TEST("rank 0 is killed", .ranks = 3, .body = rank_0_is_killed, .processes = true,
                 .killed = 1U << 0),
    };
    return JOB_MAIN(tests, argc, argv);
}
