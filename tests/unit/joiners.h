/* joiners.h - what the tests of joining share: parts that ranks play, as threads or processes, and what
 * became of them.
 *
 * Happy path: cast n parts, change what the case is about, play them, look whether all have met.  A part that
 * failed has its status and sentence.  Parts are shared with child processes. */
#ifndef TESTS_UNIT_JOINERS_H
#define TESTS_UNIT_JOINERS_H
#include "address.h"
#include "clock.h"
#include "job.h"
#include "log.h"
#include "port.h"
#include "rendezvous.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define RANKS_MAX 32

enum {
    SHORT_MS = JOB_SANITIZED ? 3000 : 2000, /* ranks that begin together are all there well within it */
    LONG_MS = JOB_WAIT_MS                   /* of what must not end by its time */
};

enum stage { ABSENT, BEGUN, OPENED, ENDED }; /* OPENED: has joined, or failed to */

static char root[] = "/tmp/weft-test-joining-XXXXXX";

/* What one rank is to do, and what became of it. */
typedef struct part {
    char init_method[128];
    const char *job, *secret;
    int rank, world_size, timeout_ms;
    int delay_ms;        /* it comes so much later, */
    unsigned after;      /* when these parts (bit i: part i) have opened, */
    bool after_first;    /* or the first of them, */
    bool (*ready)(void); /* and when this is so */
    int stay_ms;         /* between joining and gathering: so long, */
    unsigned stay;       /* and until these parts have ended */
    int fails;           /* tells the others so instead of gathering */
    int gather_bytes;
    int relay_silent_ms; /* 0: as long as ever */
    weft__tree tree;
    const char *host; /* of a process that is on another one; NULL: it is on this */
    weft_status status, gather_status;
    int got_rank, got_world;
    weft__keys keys;
    char sentence[1024], nonce[40], address[WEFT__ADDRESS_BYTES], job_dir[256];
    double seconds;
    int64_t began_ns, opened_ns, left_ns;
    bool gathered;
    int crowd; /* the parts that begin together: 0 to crowd - 1 */
    _Atomic enum stage stage;
} part;

static part *parts;
static int rendezvous_port; /* of the latest cast */

static inline int connect_to(int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                             .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&at, sizeof at) == 0) return fd;
    close(fd);
    return -1;
}

static inline bool server_is_up(void)
{
    int fd = connect_to(rendezvous_port);
    if (fd >= 0) close(fd);
    return fd >= 0;
}

/* How many of the parts in the mask have come so far. */
static inline int count_parts(unsigned mask, enum stage stage)
{
    int n = 0;
    for (int i = 0; i < RANKS_MAX; i++) n += (mask >> i & 1U) && parts[i].stage >= stage;
    return n;
}

static inline void await_parts(unsigned mask, enum stage stage, int n)
{
    while (count_parts(mask, stage) < n) usleep(1000); /* ended by the alarm */
}

static inline void await_all(unsigned mask, enum stage stage)
{
    await_parts(mask, stage, __builtin_popcount(mask));
}

static inline void check_gather(part *p, weft__rendezvous *r)
{
    size_t bytes = (size_t)p->gather_bytes;
    char *in = malloc(bytes + 1), *out = malloc(bytes * (size_t)p->got_world + 1);
    p->gathered = true;
    for (int round = 0; round < 3 && p->gathered; round++) {
        memset(in, 'a' + p->got_rank + round, bytes);
        p->gather_status = weft__rendezvous_all_gather(r, in, out, bytes, bytes / 2);
        p->gathered = p->gather_status == WEFT_OK;
        for (size_t i = 0; p->gathered && i < bytes * (size_t)p->got_world; i++)
            p->gathered = out[i] == (char)('a' + (int)(i / bytes) + round);
    }
    if (p->gather_status) snprintf(p->sentence, sizeof p->sentence, "%s", weft_last_error());
    free(in);
    free(out);
}

/* Processes take their time to start: none begins before all are there. */
static inline void come(part *p)
{
    p->stage = BEGUN;
    await_all((unsigned)((UINT64_C(1) << p->crowd) - 1), BEGUN);
    await_parts(p->after, OPENED, p->after_first ? 1 : __builtin_popcount(p->after));
    while (p->ready && !p->ready()) usleep(5000);
    usleep((useconds_t)p->delay_ms * 1000);
    p->began_ns = weft__now_ns();
}

static inline void *play(void *arg)
{
    part *p = arg;
    weft__join join = {.init_method = p->init_method,
                       .job = p->job,
                       .secret = p->secret,
                       .rank = p->rank,
                       .world_size = p->world_size,
                       .relay_silent_ms = p->relay_silent_ms,
                       .tree = p->tree};
    weft__rendezvous *r;
    come(p);
    join.deadline_ns = weft__deadline(p->began_ns, p->timeout_ms);
    p->status = weft__rendezvous_open(&join, &r);
    p->opened_ns = weft__now_ns();
    p->seconds = (double)(p->opened_ns - p->began_ns) / 1e9;
    if (p->status) {
        snprintf(p->sentence, sizeof p->sentence, "%s", weft_last_error());
        p->stage = ENDED;
        return NULL;
    }
    p->stage = OPENED;
    p->got_rank = weft__rendezvous_rank(r);
    p->got_world = weft__rendezvous_world(r);
    snprintf(p->nonce, sizeof p->nonce, "%s", weft__rendezvous_nonce(r));
    memcpy(&p->keys, weft__rendezvous_keys(r), sizeof p->keys);
    snprintf(p->address, sizeof p->address, "%s", weft__rendezvous_address(r));
    snprintf(p->job_dir, sizeof p->job_dir, "%s", weft__rendezvous_job_dir(r));
    usleep((useconds_t)p->stay_ms * 1000);
    await_all(p->stay, ENDED);
    if (p->fails)
        weft__rendezvous_fail(r, WEFT_ERR_MEMORY, "no room for the segment");
    else
        check_gather(p, r);
    p->stage = ENDED; /* a serving rank's close waits for the others */
    weft__rendezvous_close(r);
    p->left_ns = weft__now_ns();
    return NULL;
}

/* n ranks that agree: same place, given ranks. */
static inline int cast(int n)
{
    static int ports[4], casts; /* an earlier one's port may still be wanted */
    int port = port_take(), *oldest = &ports[casts++ % 4];
    port_give(*oldest);
    *oldest = rendezvous_port = port;
    memset(parts, 0, RANKS_MAX * sizeof *parts);
    for (int i = 0; i < n; i++) {
        snprintf(parts[i].init_method, sizeof parts[i].init_method, "tcp://127.0.0.1:%d", port);
        parts[i].job = "test";
        parts[i].rank = i;
        parts[i].world_size = n;
        parts[i].timeout_ms = LONG_MS;
        parts[i].gather_bytes = 100;
        parts[i].got_rank = parts[i].got_world = -1;
    }
    return port;
}

static inline void gather_crowd(int n)
{
    for (int i = 0; i < n; i++) {
        parts[i].crowd = n;
        parts[i].stage = ABSENT;
    }
}

static inline void play_as_threads(int n)
{
    pthread_t threads[RANKS_MAX];
    gather_crowd(n);
    for (int i = 0; i < n; i++) assert_int_equal(pthread_create(&threads[i], NULL, play, &parts[i]), 0);
    for (int i = 0; i < n; i++) pthread_join(threads[i], NULL);
}

static inline pid_t play_as_process(int i)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid) return pid;
    alarm(JOB_ALARM_S);
    if (parts[i].host) setenv("WEFT_HOSTID", parts[i].host, 1);
    play(&parts[i]);
    weft__log_flush(); /* the log's thread may not have had its turn yet, and exit does not wait for it */
    exit(0);           /* not _exit: so that a leak checker sees the children too */
}

static inline void play_as_processes(int n)
{
    pid_t pids[RANKS_MAX];
    gather_crowd(n);
    for (int i = 0; i < n; i++) pids[i] = play_as_process(i);
    for (int i = 0; i < n; i++) {
        int status;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
}

/* Eight that have been cast make two jobs of different names, which do not mix. */
static inline void two_names_meet_apart(void)
{
    for (int i = 0; i < 8; i++) {
        parts[i].job = i % 2 ? "odd" : "even";
        parts[i].rank = -1;
        parts[i].world_size = 4;
    }
    play_as_processes(8);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(parts[i].status, WEFT_OK);
        assert_int_equal(parts[i].got_world, 4);
        assert_string_equal(parts[i].nonce, parts[i % 2].nonce);
    }
    assert_string_not_equal(parts[0].nonce, parts[1].nonce);
}

static inline void all_met(int n)
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

static inline void told(int i, weft_status status, const char *words)
{
    part *p = &parts[i];
    weft_status got = p->status ? p->status : p->gather_status;
    if (got != status || !strstr(p->sentence, words))
        fail_msg("part %d: status %d, \"%s\" instead of %d, \"%s\"", i, got, p->sentence, status, words);
}

static inline char *secret_file(const char *name, const char *text)
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

/* A password of its own for each name. */
static inline char *password_file(const char *name)
{
    char text[64];
    snprintf(text, sizeof text, "%s, of some length", name);
    return secret_file(name, text);
}

static inline bool change_network(const struct ifreq *how, unsigned long what)
{
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    bool done = fd >= 0 && ioctl(fd, what, how) == 0;
    close(fd);
    return done;
}

/* A network namespace of its own, where only loopback is.  False: that cannot be had here. */
static inline bool be_apart(void)
{
    const struct ifreq up = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    if (unshare(CLONE_NEWNET) && unshare(CLONE_NEWUSER | CLONE_NEWNET)) return false;
    if (change_network(&up, SIOCSIFFLAGS)) return true;
    perror("lo");
    return false;
}

/* Gives loopback a second address, which is an interface of its own, "lo:1", to whoever lists them.  Only in
 * a namespace of our own. */
static inline void add_address(const char *number)
{
    struct ifreq alias = {.ifr_name = "lo:1"};
    struct sockaddr_in at = {.sin_family = AF_INET};
    assert_int_equal(inet_pton(AF_INET, number, &at.sin_addr), 1);
    memcpy(&alias.ifr_addr, &at, sizeof at);
    assert_true(change_network(&alias, SIOCSIFADDR));
}

/* Runs a program's tests in a folder of their own, which is also where job directories are made. */
static inline int run_joiners(const struct CMUnitTest *tests, size_t n)
{
    char command[100];
    int failed;
    alarm(JOB_ALARM_S);
    if (!mkdtemp(root)) return 1;
    setenv("WEFT_RUN_DIR", root, 1);
    unsetenv("WEFT_SECRET");
    unsetenv("WEFT_SOCKET_IFNAME");
    unsetenv("MASTER_ADDR");
    parts = mmap(NULL, RANKS_MAX * sizeof *parts, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (parts == MAP_FAILED) return 1;
    failed = _cmocka_run_group_tests("joining", tests, n, NULL, NULL);
    snprintf(command, sizeof command, "rm -rf %s", root);
    return system(command) || failed;
}
#endif
