/* test_limits.c - a job under every limit on descriptors, threads and files: it runs, or weft_init says what
 * is needed and what there is.  Nothing ends a process, and nobody is told that a living rank is missing. */
#include "job.h"
#include "litmus.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
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

enum {
    FOUR = 4,
    POOR = 0,
    FAR = 2 /* no rank watches over the other one of the two: they have no connection yet */
};
enum { USED_UP = 10 /* a rank has more; and poll takes no more than the limit */ };
enum { LASTS_MS = 4000 /* longer than ten attempts to connect */, TAG = 7 };

/* The rank that has no descriptor ends at its deadline, with the reason; nobody is lost, and it goes on when there are some. */
static void poor_for_long(job_rank *me)
{
    const weft_call call = {.timeout_ms = LASTS_MS};
    int32_t word = 5;
    CHECK(joins(me));
    job_meet(me);
    if (me->rank == POOR) {
        struct rlimit before;
        CHECK(!getrlimit(RLIMIT_NOFILE, &before));
        limit_descriptors(USED_UP, (int)before.rlim_max);
        CHECK_INT(weft_isend(me->world, &word, 1, WEFT_INT32, FAR, TAG, &call, NULL), WEFT_ERR_TIMEOUT);
        CHECK_TEXT(weft_last_error(), "this rank (rank 0) has no connection to rank 2: Too many open files");
        CHECK(!setrlimit(RLIMIT_NOFILE, &before));
    }
    job_meet(me);
    job_message_works(me->world, POOR, FAR, TAG);
    job_sum_works(me->world);
}

/* Over shared memory nobody connects. */
static void test_poor_for_long(void **state)
{
    const char *transport = getenv("WEFT_TRANSPORT");
    (void)state;
    if (transport && strcmp(transport, "tcp") == 0)
        job_run(&(job_plan){.ranks = FOUR, .body = poor_for_long, .bare = true, .processes = true});
}

/* ---- sizes of files ------------------------------------------------------------------------------------ */

/* The segment is a file, and the kernel ends whoever makes one that is too long. */
static void under_a_file_limit(job_rank *me)
{
    const rlim_t bytes = *(const rlim_t *)me->arg;
    struct rlimit limit = {bytes, bytes};
    CHECK(!setrlimit(RLIMIT_FSIZE, &limit));
    if (joins(me))
        job_sum_works(me->world);
    else if (!strstr(weft_last_error(), "File too large"))
        CHECK_TEXT(weft_last_error(), "RLIMIT_FSIZE");
}

static void test_file_limits(void **state)
{
    static const rlim_t limits[] = {16, 4096, 1 << 20, 1 << 24, (rlim_t)1 << 34};
    (void)state;
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        job_run(&(job_plan){
            .ranks = 2, .body = under_a_file_limit, .arg = &limits[i], .bare = true, .processes = true});
}

/* ---- mappings ------------------------------------------------------------------------------------------ */

enum { SHARERS = 3, APART = 2 /* the rank that maps nothing */ };

/* From now on this process can map no file to share it, as where its memory is limited. */
static void refuse_shared_files(void)
{
    struct sock_filter refuse[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                 offsetof(struct seccomp_data, args[3])), /* flags, on these machines */
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MAP_SHARED, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOMEM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof refuse / sizeof *refuse, refuse};
    CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    CHECK(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
}

/* Where one rank of the host has no segment nobody uses it: what two of three wrote there the third would
 * wait for in vain. */
static void one_maps_nothing(job_rank *me)
{
    weft_group *two;
    job_setenv(me, "WEFT_TRANSPORT", "shm,tcp");
    if (me->rank == APART) refuse_shared_files();
    CHECK(joins(me));
    job_sum_works(me->world);
    for (int r = 0; r < me->size; r++) job_message_works(me->world, r, (r + 1) % me->size, 0);
    if (me->rank != APART) {
        two = job_group(me, APART, "the others", 0);
        job_sum_works(two);
        CHECK_OK(weft_group_free(two));
    }
    job_meet(me);
}

static void test_one_maps_nothing(void **state)
{
    (void)state;
    litmus_need_filters();
    job_run(&(job_plan){.ranks = SHARERS, .body = one_maps_nothing, .bare = true, .processes = true});
}

/* ---- strangers ----------------------------------------------------------------------------------------- */

enum {
    LIMIT = 256,
    OWN_FILES = 32,
    FLOOD_MS = 15000, /* before its descriptors are used up */
    WORK_MOST_MS = 2 * JOB_WAIT_MS,
    WORK_MS = 2000,
    PER_S = 100, /* so that each has the server's descriptors for longer than a handshake takes */
    STARTED = 0,
    DONE = 0,
    PORTS_AT = 1
};

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

/* 100 connections a second to where the ranks meet, and then to every port that they have, until both have
 * joined and worked among them for a while. */
static void flood(job_rank *me)
{
    int64_t begin = job_now_ns(), made = 0, now = 0;
    limit_descriptors(8192, 8192);
    while (!job_results(me, 0)[DONE] || !job_results(me, 1)[DONE]) {
        now = (job_now_ns() - begin) / 1000000;
        if (now > WORK_MOST_MS)
            job_fail(__FILE__, __LINE__, "the ranks have not managed in %d ms", WORK_MOST_MS);
        for (; made < (now < FLOOD_MS ? now : FLOOD_MS) * PER_S / 1000; made++) {
            const int64_t *ports = job_results(me, (int)(made / 4 % 2)) + PORTS_AT;
            come_silently(made % 4 && ports[made % 4 - 1] ? ports[made % 4 - 1] : job_port(me, 0));
        }
        if (now > WORK_MS / 2) job_mark(me, STARTED);
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

/* On a busy machine a handshake may take longer all the same than a silent connection is left alone: a rank that is shut down with
 * those each time takes that for a refusal, and comes again. */
static void join_in_a_flood(job_rank *me, const weft_config *config)
{
    const int64_t until = job_now_ns() + JOB_WAIT_MS * INT64_C(1000000);
    weft_status status;
    do status = weft_init(config, &me->ctx);
    while (status == WEFT_ERR_AUTH && job_now_ns() < until);
    CHECK_OK(status);
    me->world = weft_world(me->ctx);
}

static void in_a_flood(job_rank *me)
{
    char url[64];
    weft_config config = job_config(me, url, 0);
    int64_t begin, count;
    weft_store *store;
    if (me->rank == me->size - 1) {
        flood(me);
        return;
    }
    limit_descriptors(LIMIT, LIMIT);
    config.world_size = me->size - 1;
    if (me->rank) job_await(me, STARTED, 1); /* rank 0 has been among strangers for a while */
    join_in_a_flood(me, &config);
    snprintf(url, sizeof url, "tcp://127.0.0.1:%d", job_port(me, 1));
    CHECK_OK(weft_store_open(url, NULL, JOB_WAIT_MS, &store));
    tell_ports(me);
    for (begin = job_now_ns(); (job_now_ns() - begin) / 1000000 < WORK_MS;) {
        open_own_files();
        CHECK_OK(weft_store_add(store, "count", 1, &count));
        job_sleep_ms(5);
    }
    job_sum_works(me->world);
    weft_store_close(store);
    job_results(me, me->rank)[DONE] = 1;
}

/* ---- requests ------------------------------------------------------------------------------------------ */

enum { REQUESTS = 64 };

/* Receives until no request is left; returns how many there are. */
static int receive_until_full(job_rank *me, weft_request **reqs, int32_t *values)
{
    weft_status status = WEFT_OK;
    int n = 0;
    while (n <= REQUESTS) {
        status = weft_irecv(me->world, &values[n], 1, WEFT_INT32, 1, n, NULL, &reqs[n]);
        if (status != WEFT_OK) break;
        n++;
    }
    CHECK_INT(status, WEFT_ERR_MEMORY);
    CHECK_TEXT(weft_last_error(), "WEFT_REQUESTS_MAX (64) are in use");
    CHECK(n > 0 && n <= REQUESTS);
    return n;
}

/* A full table refuses, and hurts nothing: what there is goes on, and as many are possible again. */
static void all_requests(job_rank *me)
{
    weft_request *reqs[REQUESTS + 1] = {NULL};
    int32_t values[REQUESTS + 1] = {0};
    job_setenv(me, "WEFT_REQUESTS_MAX", "64");
    job_join(me);
    for (int round = 0; round < 2; round++) {
        int64_t *n = job_results(me, 0);
        if (me->rank == 0) n[0] = receive_until_full(me, reqs, values);
        job_meet(me);
        for (int i = 0; i < n[0]; i++) {
            weft_request *send = NULL;
            int32_t value = i + round;
            if (me->rank == 0) {
                WAIT_OK(reqs[i]);
                CHECK_INT(values[i], i + round);
            } else {
                CHECK_OK(weft_isend(me->world, &value, 1, WEFT_INT32, 0, i, NULL, &send));
                WAIT_OK(send);
            }
        }
        job_sum_works(me->world);
        job_meet(me);
    }
    job_leave(me);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        {"every limit on descriptors", test_every_limit, NULL, NULL, NULL},
        {"no descriptor for long", test_poor_for_long, NULL, NULL, NULL},
        {"limits on the size of files", test_file_limits, NULL, NULL, NULL},
        {"one rank maps nothing", test_one_maps_nothing, NULL, NULL, NULL},
        JOB_TEST("all requests in use", .ranks = 2, .body = all_requests, .bare = true, .processes = true),
        JOB_TEST("strangers", .ranks = 3, .body = in_a_flood, .bare = true, .processes = true),
    };
    return JOB_MAIN(tests, argc, argv);
}
