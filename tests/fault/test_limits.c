/* test_limits.c - a job under every limit on descriptors, threads and files: it runs, or weft_init says what
 * is needed and what there is.  Nothing ends a process, and nobody is told that a living rank is missing. */
#include "job.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FEWEST = 10, STEP_OVER = JOB_SANITIZED ? 7 : 1, ENOUGH = 120 };

/* ---- descriptors -------------------------------------------------------------------------------------- */

static void limit_descriptors(int soft, int hard)
{
    struct rlimit limit = {(rlim_t)soft, (rlim_t)hard};
    CHECK(!setrlimit(RLIMIT_NOFILE, &limit));
}

/* All ranks come to the same end; *status has it. */
static bool joins(job_rank *me)
{
    char url[64];
    weft_config config = job_config(me, url, 0);
    int64_t *result = job_results(me, me->rank);
    result[0] = weft_init(&config, &me->ctx);
    if (result[0] == WEFT_OK) me->world = weft_world(me->ctx);
    job_meet(me);
    for (int r = 0; r < me->size; r++) CHECK_INT(job_results(me, r)[0], result[0]);
    return result[0] == WEFT_OK;
}

static void under_a_limit(job_rank *me)
{
    const int limit = *(const int *)me->arg;
    char number[16];
    snprintf(number, sizeof number, "%d", limit);
    limit_descriptors(limit, limit);
    if (joins(me)) {
        job_sum_works(me->world);
        job_message_works(me->world, 0, 1, 0);
        return;
    }
    CHECK_TEXT(weft_last_error(), "descriptors");
    CHECK_TEXT(weft_last_error(), number);
}

static void test_every_limit(void **state)
{
    (void)state;
    for (int limit = FEWEST; limit < ENOUGH; limit += STEP_OVER)
        job_run(
            &(job_plan){.ranks = 2, .body = under_a_limit, .arg = &limit, .bare = true, .processes = true});
}

/* ---- sizes of files ------------------------------------------------------------------------------------ */

/* The board is a file, and the kernel ends whoever makes one that is too long. */
static void under_a_file_limit(job_rank *me)
{
    const rlim_t bytes = *(const rlim_t *)me->arg;
    struct rlimit limit = {bytes, bytes};
    CHECK(!setrlimit(RLIMIT_FSIZE, &limit));
    if (joins(me))
        job_sum_works(me->world);
    else
        CHECK_TEXT(weft_last_error(), "RLIMIT_FSIZE");
}

static void test_file_limits(void **state)
{
    static const rlim_t limits[] = {4096, 1 << 20, 1 << 24, (rlim_t)1 << 34};
    (void)state;
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        job_run(&(job_plan){
            .ranks = 2, .body = under_a_file_limit, .arg = &limits[i], .bare = true, .processes = true});
}

/* ---- strangers ----------------------------------------------------------------------------------------- */

enum { LIMIT = 256, OWN_FILES = 32, FLOOD_MS = 4000, PER_MS = 400, STARTED = 0, PORTS_AT = 1 };

/* Ports at which this process listens, for who floods them. */
static void tell_ports(job_rank *me)
{
    int64_t *told = job_results(me, me->rank) + PORTS_AT;
    for (int fd = 0; fd < LIMIT; fd++) {
        struct sockaddr_in at = {0};
        int listens = 0;
        socklen_t bytes = sizeof listens, at_bytes = sizeof at;
        if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) || !listens) continue;
        if (getsockname(fd, (struct sockaddr *)&at, &at_bytes) || at.sin_family != AF_INET) continue;
        *told++ = ntohs(at.sin_port);
    }
}

/* Silent, and never closed. */
static void come_silently(int64_t port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK(fd >= 0);
    (void)connect(fd, (struct sockaddr *)&at, sizeof at); /* it may be refused before there is a server */
}

/* 400 connections a second to where the ranks meet, and then to every port that they have. */
static void flood(job_rank *me)
{
    int64_t begin = job_now_ns(), made = 0, now;
    limit_descriptors(8192, 8192);
    while ((now = (job_now_ns() - begin) / 1000000) < FLOOD_MS) {
        for (; made < now * PER_MS / 1000; made++) {
            const int64_t *ports = job_results(me, (int)(made / 4 % 2)) + PORTS_AT;
            come_silently(made % 4 && ports[made % 4 - 1] ? ports[made % 4 - 1] : job_port(me, 0));
        }
        if (now > FLOOD_MS / 4) job_mark(me, STARTED);
        job_sleep_ms(5);
    }
}

static void open_own_files(void)
{
    int files[OWN_FILES];
    for (int i = 0; i < OWN_FILES; i++) {
        files[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (files[i] < 0) job_fail(__FILE__, __LINE__, "open: %s", strerror(errno));
    }
    for (int i = 0; i < OWN_FILES; i++) close(files[i]);
}

static void in_a_flood(job_rank *me)
{
    char url[64];
    weft_config config = job_config(me, url, 0);
    int64_t begin = job_now_ns(), count;
    weft_store *store;
    if (me->rank == me->size - 1) {
        flood(me);
        return;
    }
    limit_descriptors(LIMIT, LIMIT);
    config.world_size = me->size - 1;
    if (me->rank) job_await(me, STARTED, 1); /* rank 0 has been waited for by strangers for a while */
    CHECK_OK(weft_init(&config, &me->ctx));
    me->world = weft_world(me->ctx);
    snprintf(url, sizeof url, "tcp://127.0.0.1:%d", job_port(me, 1));
    CHECK_OK(weft_store_open(url, NULL, JOB_WAIT_MS, &store));
    tell_ports(me);
    while ((job_now_ns() - begin) / 1000000 < FLOOD_MS + 500) {
        open_own_files();
        CHECK_OK(weft_store_add(store, "count", 1, &count));
        job_sleep_ms(5);
    }
    job_sum_works(me->world);
    weft_store_close(store);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        {"every limit on descriptors", test_every_limit, NULL, NULL, NULL},
        {"limits on the size of files", test_file_limits, NULL, NULL, NULL},
        JOB_TEST("strangers", .ranks = 3, .body = in_a_flood, .bare = true, .processes = true),
    };
    return JOB_MAIN(tests, argc, argv);
}
