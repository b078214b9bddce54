/* Joining: ranks as threads and as processes meet, get their ranks and gather; and everything that can keep
 * them from it is told in a sentence that names it, in time. */
#include "address.h"
#include "clock.h"
#include "rendezvous.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <zmq.h>

#define RANKS_MAX 32
#ifdef __SANITIZE_THREAD__
#define LIMIT_S 240 /* of the whole program */
#else
#define LIMIT_S 60
#endif

static char root[] = "/tmp/weft-test-joining-XXXXXX";

/* What one rank is to do, and what became of it. */
typedef struct part {
    char init_method[128];
    const char *job, *secret;
    int rank, world_size, timeout_ms, delay_ms;
    int stay_ms; /* between joining and gathering */
    int fails;   /* tells the others so instead of gathering */
    int gather_bytes;
    weft_status status, gather_status;
    int got_rank, got_world;
    char sentence[1024], nonce[40], address[WEFT__ADDRESS_BYTES], job_dir[256];
    double seconds;
    bool gathered;
} part;

static part *parts; /* shared with child processes */

static void check_gather(part *p, weft__rendezvous *r)
{
    size_t bytes = (size_t)p->gather_bytes;
    char *in = malloc(bytes + 1), *out = malloc(bytes * (size_t)p->got_world + 1);
    p->gathered = true;
    for (int round = 0; round < 3 && p->gathered; round++) {
        memset(in, 'a' + p->got_rank + round, bytes);
        p->gather_status = weft__rendezvous_all_gather(r, in, out, bytes);
        p->gathered = p->gather_status == WEFT_OK;
        for (size_t i = 0; p->gathered && i < bytes * (size_t)p->got_world; i++)
            p->gathered = out[i] == (char)('a' + (int)(i / bytes) + round);
    }
    if (p->gather_status) snprintf(p->sentence, sizeof p->sentence, "%s", weft_last_error());
    free(in);
    free(out);
}

static void *play(void *arg)
{
    part *p = arg;
    weft__join join = {NULL, p->init_method, p->job, p->secret, p->rank, p->world_size, 0};
    weft__rendezvous *r;
    int64_t start;
    usleep((useconds_t)p->delay_ms * 1000);
    start = weft__now_ns();
    join.deadline_ns = weft__deadline(start, p->timeout_ms);
    p->status = weft__rendezvous_open(&join, &r);
    p->seconds = (double)(weft__now_ns() - start) / 1e9;
    if (p->status) {
        snprintf(p->sentence, sizeof p->sentence, "%s", weft_last_error());
        return NULL;
    }
    p->got_rank = weft__rendezvous_rank(r);
    p->got_world = weft__rendezvous_world(r);
    snprintf(p->nonce, sizeof p->nonce, "%s", weft__rendezvous_nonce(r));
    snprintf(p->address, sizeof p->address, "%s", weft__rendezvous_address(r));
    snprintf(p->job_dir, sizeof p->job_dir, "%s", weft__rendezvous_job_dir(r));
    usleep((useconds_t)p->stay_ms * 1000);
    if (p->fails)
        weft__rendezvous_fail(r, WEFT_ERR_MEMORY, "no room for the board");
    else
        check_gather(p, r);
    weft__rendezvous_close(r);
    return NULL;
}

/* A port of 127.0.0.1 that is free now. */
static int free_port(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &bytes), 0);
    close(fd);
    return ntohs(at.sin_port);
}

/* n ranks that agree: same place, given ranks, 10 s. */
static int cast(int n)
{
    int port = free_port();
    memset(parts, 0, RANKS_MAX * sizeof *parts);
    for (int i = 0; i < n; i++) {
        snprintf(parts[i].init_method, sizeof parts[i].init_method, "tcp://127.0.0.1:%d", port);
        parts[i].job = "test";
        parts[i].rank = i;
        parts[i].world_size = n;
        parts[i].timeout_ms = 10000;
        parts[i].gather_bytes = 100;
        parts[i].got_rank = parts[i].got_world = -1;
    }
    return port;
}

static void play_as_threads(int n)
{
    pthread_t threads[RANKS_MAX];
    for (int i = 0; i < n; i++) assert_int_equal(pthread_create(&threads[i], NULL, play, &parts[i]), 0);
    for (int i = 0; i < n; i++) pthread_join(threads[i], NULL);
}

static pid_t play_as_process(int i)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid) return pid;
    alarm(LIMIT_S);
    play(&parts[i]);
    exit(0); /* not _exit: so that a leak checker sees the children too */
}

static void play_as_processes(int n)
{
    pid_t pids[RANKS_MAX];
    for (int i = 0; i < n; i++) pids[i] = play_as_process(i);
    for (int i = 0; i < n; i++) {
        int status;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
}

static void all_met(int n)
{
    bool seen[RANKS_MAX] = {false};
    for (int i = 0; i < n; i++) {
        part *p = &parts[i];
        if (p->status || !p->gathered) fail_msg("part %d: status %d, \"%s\"", i, p->status, p->sentence);
        assert_int_equal(p->got_world, n);
        assert_in_range(p->got_rank, 0, n - 1);
        assert_false(seen[p->got_rank]);
        seen[p->got_rank] = true;
        if (p->rank >= 0) assert_int_equal(p->got_rank, p->rank);
        assert_string_equal(p->nonce, parts[0].nonce);
        assert_int_equal(strlen(p->nonce), 32);
    }
}

static void told(int i, weft_status status, const char *words)
{
    part *p = &parts[i];
    weft_status got = p->status ? p->status : p->gather_status;
    if (got != status || !strstr(p->sentence, words))
        fail_msg("part %d: status %d, \"%s\" instead of %d, \"%s\"", i, got, p->sentence, status, words);
}

/* ---- meeting ---- */

static void given_ranks_meet(void **state)
{
    (void)state;
    for (int n = 1; n <= 8; n++) {
        cast(n);
        play_as_processes(n);
        all_met(n);
        assert_string_equal(parts[n - 1].address, "127.0.0.1");
        assert_non_null(strstr(parts[n - 1].job_dir, "/test-"));
        cast(n);
        play_as_threads(n);
        all_met(n);
    }
}

static void ranks_are_assigned(void **state)
{
    (void)state;
    for (int n = 2; n <= 8; n += 3) {
        cast(n);
        for (int i = 0; i < n; i++) parts[i].rank = -1;
        for (int i = 1; i < n; i++) parts[i].world_size = -1; /* one is enough to say it */
        play_as_processes(n);
        all_met(n);
    }
    cast(6);
    for (int i = 0; i < 6; i++) parts[i].rank = i == 1 ? 4 : i == 3 ? 0 : -1;
    play_as_threads(6);
    all_met(6);
    assert_int_equal(parts[1].got_rank, 4);
    assert_int_equal(parts[3].got_rank, 0);
}

static void many_threads_meet(void **state)
{
    (void)state;
    cast(RANKS_MAX);
    for (int i = 0; i < RANKS_MAX; i++) {
        parts[i].gather_bytes = 20000;
        if (i % 2) parts[i].rank = -1;
    }
    play_as_threads(RANKS_MAX);
    all_met(RANKS_MAX);
}

/* A child's own environment, since settings are read once in a process. */
static void hosts_come_one_after_the_other(void **state)
{
    static const char *const hosts[] = {"a", "b", "a", "c", "b", "a"};
    static const int expected[] = {0, 3, 1, 5, 4, 2};
    pid_t pids[6];
    (void)state;
    cast(6);
    for (int i = 0; i < 6; i++) {
        parts[i].rank = -1;
        parts[i].delay_ms = 250 * i; /* arrival decides */
        setenv("WEFT_HOSTID", hosts[i], 1);
        pids[i] = play_as_process(i);
    }
    unsetenv("WEFT_HOSTID");
    for (int i = 0; i < 6; i++) waitpid(pids[i], NULL, 0);
    all_met(6);
    for (int i = 0; i < 6; i++) assert_int_equal(parts[i].got_rank, expected[i]);
}

static void environment_brings_together(void **state)
{
    char port[16];
    pid_t pids[3];
    (void)state;
    snprintf(port, sizeof port, "%d", cast(3));
    setenv("MASTER_PORT", port, 1);
    setenv("WORLD_SIZE", "3", 1);
    for (int i = 0; i < 3; i++) {
        char rank[16];
        snprintf(rank, sizeof rank, "%d", i);
        setenv("RANK", rank, 1);
        memcpy(parts[i].init_method, "env://", 7);
        parts[i].rank = parts[i].world_size = -1;
        pids[i] = play_as_process(i);
    }
    for (int i = 0; i < 3; i++) waitpid(pids[i], NULL, 0);
    all_met(3);
    for (int i = 0; i < 3; i++) assert_int_equal(parts[i].got_rank, i);
    unsetenv("MASTER_PORT");
    setenv("RANK", "0", 1);
    setenv("WORLD_SIZE", "1", 1);
    play(&parts[0]);
    all_met(1); /* alone, without a port */
    setenv("WORLD_SIZE", "2", 1);
    play(&parts[0]);
    told(0, WEFT_ERR_ARGUMENT, "MASTER_PORT, which is not set");
    unsetenv("WORLD_SIZE");
    unsetenv("RANK");
}

static void a_late_server_is_waited_for(void **state)
{
    (void)state;
    cast(3);
    parts[0].delay_ms = 1000;
    play_as_processes(3);
    all_met(3);
}

/* The port is used again at once; who comes early for the next run finds the end of the last one. */
static void runs_follow_each_other(void **state)
{
    char method[128];
    (void)state;
    cast(2);
    memcpy(method, parts[0].init_method, sizeof method);
    for (int run = 0; run < 30; run++) {
        cast(2);
        memcpy(parts[0].init_method, method, sizeof method);
        memcpy(parts[1].init_method, method, sizeof method);
        play_as_threads(2);
        all_met(2);
    }
}

static void jobs_on_different_ports_do_not_meet(void **state)
{
    int port;
    (void)state;
    cast(4);
    port = free_port();
    for (int i = 2; i < 4; i++) {
        snprintf(parts[i].init_method, sizeof parts[i].init_method, "tcp://127.0.0.1:%d", port);
        parts[i].job = "other";
        parts[i].rank = i - 2;
    }
    for (int i = 0; i < 4; i++) parts[i].world_size = 2;
    play_as_threads(4);
    assert_string_equal(parts[0].nonce, parts[1].nonce);
    assert_string_equal(parts[2].nonce, parts[3].nonce);
    assert_string_not_equal(parts[0].nonce, parts[2].nonce);
}

static void ipv6_works(void **state)
{
    int port = cast(2), fd = socket(AF_INET6, SOCK_STREAM, 0);
    struct sockaddr_in6 at = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    bool here = fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof at) == 0;
    (void)state;
    if (fd >= 0) close(fd);
    if (!here) skip();
    for (int i = 0; i < 2; i++)
        snprintf(parts[i].init_method, sizeof parts[i].init_method, "tcp://[::1]:%d", port);
    play_as_threads(2);
    all_met(2);
    assert_string_equal(parts[1].address, "::1");
}

/* ---- disagreeing ---- */

static void missing_ranks_are_named(void **state)
{
    (void)state;
    cast(6); /* of whom 2 and 5 never come; the serving rank's time is up first, and it tells the others */
    parts[0].timeout_ms = 1000;
    for (int i = 2; i < 4; i++) parts[i].rank = i + 1;
    play_as_processes(4);
    for (int i = 0; i < 4; i++) {
        told(i, WEFT_ERR_TIMEOUT, "rank 2 and rank 5 are missing after 1.");
        assert_true(parts[i].seconds > 0.9 && parts[i].seconds < 2.5);
    }
    cast(3); /* of whom 2 never comes; a client's time is up first */
    parts[1].timeout_ms = 700;
    parts[0].timeout_ms = 1500;
    play_as_threads(2);
    told(1, WEFT_ERR_TIMEOUT, "rank 2 is missing after 0.");
    told(0, WEFT_ERR_TIMEOUT, "rank 1 and rank 2 are missing after 1."); /* 1 has given up */
    cast(4);
    for (int i = 0; i < 2; i++) parts[i].rank = -1, parts[i].timeout_ms = 500;
    play_as_threads(2);
    told(0, WEFT_ERR_TIMEOUT, " of 4 ranks are missing");
}

static void a_rank_that_does_not_gather_is_named(void **state)
{
    (void)state;
    cast(3);
    for (int i = 0; i < 3; i++) parts[i].timeout_ms = 1000;
    parts[2].stay_ms = 1300;
    play_as_threads(3);
    told(0, WEFT_ERR_TIMEOUT, "rank 2 is missing");
    told(1, WEFT_ERR_TIMEOUT, "rank 2 is missing");
    assert_int_not_equal(parts[2].gather_status, WEFT_OK);
}

static void a_failure_is_told_to_all(void **state)
{
    (void)state;
    for (int who = 0; who < 3; who += 2) {
        cast(3);
        parts[who].fails = 1;
        play_as_processes(3);
        for (int i = 0; i < 3; i++)
            if (i != who) told(i, WEFT_ERR_MEMORY, ": no room for the board");
        assert_non_null(strstr(parts[1].sentence, who ? "rank 2 (host " : "rank 0 (host "));
    }
}

static void different_gathers_are_told(void **state)
{
    (void)state;
    cast(3);
    parts[1].gather_bytes = 99;
    play_as_threads(3);
    for (int i = 0; i < 3; i++) told(i, WEFT_ERR_MISMATCH, "gathers");
    assert_false(parts[0].gathered);
}

static void contradictions_are_told_to_all(void **state)
{
    (void)state;
    cast(3);
    parts[1].world_size = 4;
    parts[2].delay_ms = 800; /* comes when it has long been decided */
    play_as_processes(3);
    for (int i = 0; i < 3; i++) {
        told(i, WEFT_ERR_MISMATCH, "different world sizes: ");
        told(i, WEFT_ERR_MISMATCH, ", pid ");
    }
    cast(3);
    parts[1].rank = 0;
    play_as_threads(3);
    for (int i = 0; i < 3; i++) told(i, WEFT_ERR_ARGUMENT, "rank 0 was given twice: on host ");
    cast(3);
    parts[2].rank = 7;
    parts[2].world_size = -1;
    play_as_threads(3);
    for (int i = 0; i < 3; i++) told(i, WEFT_ERR_ARGUMENT, "is out of range: the world has 3 ranks, 0 to 2");
    cast(1);
    parts[0].rank = 1;
    play(&parts[0]);
    told(0, WEFT_ERR_ARGUMENT, "rank 1 is out of range");
}

static void a_full_job_takes_nobody(void **state)
{
    (void)state;
    cast(3);
    for (int i = 0; i < 2; i++) parts[i].world_size = 2, parts[i].stay_ms = 1500;
    parts[2].rank = -1;
    parts[2].world_size = 2;
    parts[2].delay_ms = 500;
    parts[2].timeout_ms = 600;
    play_as_processes(3);
    assert_true(parts[0].gathered && parts[1].gathered);
    told(2, WEFT_ERR_TIMEOUT, "no rank is free after 0.6 s");
}

static void a_vanished_server_is_told(void **state)
{
    pid_t pids[2];
    (void)state;
    cast(2);
    parts[0].stay_ms = 20000;
    parts[1].stay_ms = 600;
    for (int i = 0; i < 2; i++) pids[i] = play_as_process(i);
    usleep(400000);
    kill(pids[0], SIGKILL);
    for (int i = 0; i < 2; i++) waitpid(pids[i], NULL, 0);
    told(1, WEFT_ERR_PEER, "has gone while the job was starting");
    cast(2); /* before all were there: another one serves */
    pids[0] = play_as_process(0);
    usleep(300000);
    kill(pids[0], SIGKILL);
    pids[1] = play_as_process(1);
    waitpid(pids[0], NULL, 0);
    pids[0] = play_as_process(0);
    for (int i = 0; i < 2; i++) waitpid(pids[i], NULL, 0);
    all_met(2);
}

/* ---- secrets and places ---- */

static char *secret_file(const char *name, const char *text)
{
    char path[256];
    char *source = malloc(300);
    FILE *file;
    snprintf(path, sizeof path, "%s/%s", root, name);
    snprintf(source, 300, "file:%s", path);
    file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    chmod(path, 0600);
    return source;
}

static void a_wrong_secret_is_refused(void **state)
{
    char *right = secret_file("right", "right"), *wrong = secret_file("wrong", "wrong");
    (void)state;
    cast(3);
    for (int i = 0; i < 3; i++) parts[i].secret = right;
    play_as_processes(3);
    all_met(3);
    cast(3);
    for (int i = 0; i < 3; i++) parts[i].secret = i == 2 ? wrong : right, parts[i].timeout_ms = 1500;
    parts[2].delay_ms = 200;
    play_as_processes(3);
    told(2, WEFT_ERR_AUTH, "the job's secret or the job's name differs");
    assert_true(parts[2].seconds < 1.3);
    told(0, WEFT_ERR_TIMEOUT, "rank 2 is missing");
    told(1, WEFT_ERR_TIMEOUT, "rank 2 is missing");
    cast(2);
    for (int i = 0; i < 2; i++) parts[i].secret = right, parts[i].timeout_ms = 1500;
    parts[1].job = "another";
    parts[1].delay_ms = 200;
    play_as_processes(2);
    told(1, WEFT_ERR_AUTH, "the job's name differs");
    free(right);
    free(wrong);
}

static void wider_places_need_a_secret(void **state)
{
    char *secret = secret_file("wide", "wide");
    (void)state;
    cast(2);
    snprintf(parts[0].init_method, sizeof parts[0].init_method, "tcp://192.0.2.1:29500");
    play(&parts[0]);
    told(0, WEFT_ERR_ARGUMENT, "set WEFT_SECRET=file:PATH on every rank, or meet at 127.0.0.1");
    snprintf(parts[0].init_method, sizeof parts[0].init_method, "tcp://0.0.0.0:29500");
    parts[0].secret = secret;
    play(&parts[0]);
    told(0, WEFT_ERR_ARGUMENT, "means every interface");
    snprintf(parts[0].init_method, sizeof parts[0].init_method, "tcp://no-such-host.invalid:29500");
    play(&parts[0]);
    told(0, WEFT_ERR_ARGUMENT, "host \"no-such-host.invalid\" cannot be resolved");
    parts[0].secret = "file:/nowhere";
    snprintf(parts[0].init_method, sizeof parts[0].init_method, "tcp://127.0.0.1:29500");
    play(&parts[0]);
    told(0, WEFT_ERR_SYSTEM, "/nowhere");
    free(secret);
}

static void an_interface_is_named(void **state)
{
    pid_t pid;
    (void)state;
    cast(1);
    setenv("WEFT_SOCKET_IFNAME", "lo", 1);
    pid = play_as_process(0);
    waitpid(pid, NULL, 0);
    all_met(1);
    assert_string_equal(parts[0].address, "127.0.0.1");
    setenv("WEFT_SOCKET_IFNAME", "nosuch0", 1);
    pid = play_as_process(0);
    waitpid(pid, NULL, 0);
    told(0, WEFT_ERR_ARGUMENT, "WEFT_SOCKET_IFNAME is \"nosuch0\"");
    told(0, WEFT_ERR_ARGUMENT, "lo");
    unsetenv("WEFT_SOCKET_IFNAME");
}

static void nobody_listening_is_told(void **state)
{
    (void)state;
    cast(2);
    parts[1].timeout_ms = 150; /* less than a rank other than 0 waits before it serves */
    play(&parts[1]);
    told(1, WEFT_ERR_TIMEOUT, "nobody listens there after 0.");
}

/* ---- something else on the port ---- */

enum manners { SILENT, CHATTY, HANGS_UP };

typedef struct squatter {
    int fd;
    enum manners manners;
    pthread_t thread;
} squatter;

static void *squat(void *arg)
{
    squatter *s = arg;
    int kept[64], n = 0, fd;
    while (n < 64 && (fd = accept(s->fd, NULL, NULL)) >= 0) {
        if (s->manners == CHATTY) (void)!write(fd, "SSH-2.0-OpenSSH_9.2\r\n", 21);
        if (s->manners == HANGS_UP)
            close(fd);
        else
            kept[n++] = fd;
    }
    while (n > 0) close(kept[--n]);
    return NULL;
}

static void start_squatter(squatter *s, int port, enum manners manners)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                             .sin_port = htons((uint16_t)port)};
    s->fd = socket(AF_INET, SOCK_STREAM, 0);
    s->manners = manners;
    assert_int_equal(bind(s->fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(s->fd, 16), 0);
    assert_int_equal(pthread_create(&s->thread, NULL, squat, s), 0);
}

static void end_squatter(squatter *s)
{
    shutdown(s->fd, SHUT_RDWR);
    pthread_join(s->thread, NULL);
    close(s->fd);
}

static void something_else_on_the_port_is_told(void **state)
{
    static const char *const words[] = {"in use by something else: it accepts connections but does not greet",
                                        "in use by something else: its first bytes",
                                        "closed before a greeting"};
    squatter s;
    (void)state;
    for (int manners = SILENT; manners <= HANGS_UP; manners++) {
        start_squatter(&s, cast(2), (enum manners)manners);
        parts[0].timeout_ms = manners == SILENT ? 5000 : 700;
        play(&parts[0]);
        end_squatter(&s);
        told(0, manners == HANGS_UP ? WEFT_ERR_TIMEOUT : WEFT_ERR_PEER, words[manners]);
        assert_true(parts[0].seconds < 3.5);
    }
}

static void another_zeromq_program_is_told(void **state)
{
    void *context = zmq_ctx_new(), *socket = zmq_socket(context, ZMQ_ROUTER);
    char endpoint[64];
    (void)state;
    snprintf(endpoint, sizeof endpoint, "tcp://127.0.0.1:%d", cast(2));
    assert_int_equal(zmq_bind(socket, endpoint), 0);
    parts[0].timeout_ms = 3000;
    play(&parts[0]);
    zmq_close(socket); /* before anything can fail: the tests after this one fork */
    zmq_ctx_term(context);
    if (parts[0].status == WEFT_ERR_AUTH)
        told(0, WEFT_ERR_AUTH, "does not accept this rank"); /* it hung up before it had said all of itself */
    else
        told(0, WEFT_ERR_PEER, "it speaks ZeroMQ, but without the job's kind of authentication");
}

static int connect_once_served(int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                             .sin_port = htons((uint16_t)port)};
    for (int tries = 0; tries < 1000; tries++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(fd, (struct sockaddr *)&at, sizeof at) == 0) return fd;
        close(fd);
        usleep(5000);
    }
    fail_msg("nobody serves at port %d", port);
    return -1;
}

/* Noise at a serving rank's port: garbage, half greetings, connections that do nothing. */
static void noise_does_not_hurt(void **state)
{
    int port, noisy[40];
    pid_t pids[2];
    (void)state;
    port = cast(2);
    pids[0] = play_as_process(0);
    for (int i = 0; i < 40; i++) {
        unsigned char garbage[4096];
        noisy[i] = connect_once_served(port);
        for (size_t b = 0; b < sizeof garbage; b++) garbage[b] = (unsigned char)(b * 31 + (size_t)i);
        if (i % 4 == 1)
            memcpy(garbage,
                   "\xff\0\0\0\0\0\0\0\x01\x7f\x03\x01"
                   "CURVE",
                   17);
        if (i % 4) (void)!send(noisy[i], garbage, i % 4 == 2 ? 5 : sizeof garbage, MSG_NOSIGNAL);
        if (i % 4 == 3) close(noisy[i]), noisy[i] = -1;
    }
    pids[1] = play_as_process(1);
    for (int i = 0; i < 2; i++) waitpid(pids[i], NULL, 0);
    all_met(2);
    for (int i = 0; i < 40; i++)
        if (noisy[i] >= 0) close(noisy[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            hosts_come_one_after_the_other), /* first: this process has not read its settings yet */
        cmocka_unit_test(an_interface_is_named),
        cmocka_unit_test(given_ranks_meet),
        cmocka_unit_test(ranks_are_assigned),
        cmocka_unit_test(many_threads_meet),
        cmocka_unit_test(environment_brings_together),
        cmocka_unit_test(a_late_server_is_waited_for),
        cmocka_unit_test(runs_follow_each_other),
        cmocka_unit_test(jobs_on_different_ports_do_not_meet),
        cmocka_unit_test(ipv6_works),
        cmocka_unit_test(missing_ranks_are_named),
        cmocka_unit_test(a_rank_that_does_not_gather_is_named),
        cmocka_unit_test(a_failure_is_told_to_all),
        cmocka_unit_test(different_gathers_are_told),
        cmocka_unit_test(contradictions_are_told_to_all),
        cmocka_unit_test(a_full_job_takes_nobody),
        cmocka_unit_test(a_vanished_server_is_told),
        cmocka_unit_test(a_wrong_secret_is_refused),
        cmocka_unit_test(wider_places_need_a_secret),
        cmocka_unit_test(nobody_listening_is_told),
        cmocka_unit_test(something_else_on_the_port_is_told),
        cmocka_unit_test(another_zeromq_program_is_told),
        cmocka_unit_test(noise_does_not_hurt),
    };
    char command[100];
    int failed;
    alarm(LIMIT_S);
    if (!mkdtemp(root)) return 1;
    setenv("WEFT_RUN_DIR", root, 1);
    unsetenv("WEFT_SECRET");
    unsetenv("MASTER_ADDR");
    parts = mmap(NULL, RANKS_MAX * sizeof *parts, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (parts == MAP_FAILED) return 1;
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    snprintf(command, sizeof command, "rm -rf %s", root);
    return system(command) || failed;
}
