/* test_shm_segment.c - joining by threads and by processes, with ranks that never come, strangers and wrong
 * secrets; rows and bells. */
#include "clock.h"
#include "fd_exchange_wire.h"
#include "job.h"
#include "segment_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void free_all(int size, weft__segment *segments[])
{
    for (int i = 0; i < size; i++) weft__segment_free(segments[i]);
}

static int open_descriptors(void)
{
    int n = 0;
    for (int fd = 0; fd < 512; fd++) n += dup2(fd, fd) >= 0;
    return n;
}

static void test_alone(void **state)
{
    weft__segment_config config = segment_config(0, 1, 0);
    weft__segment *segment;
    int before = open_descriptors();
    (void)state;
    assert_int_equal(weft__segment_join(&config, &segment), WEFT_OK);
    assert_int_equal(segment->peers[0].world_rank, BOARD_WORLD(0));
    assert_true(segment->peers[0].same_process);
    weft__segment_free(segment);
    assert_int_equal(open_descriptors(), before);
}

static void test_too_many(void **state)
{
    weft__segment_config config = segment_config(0, WEFT__SEGMENT_RANKS_MAX + 1, 0);
    weft__segment *segment;
    (void)state;
    assert_int_equal(weft__segment_join(&config, &segment), WEFT_ERR_UNSUPPORTED);
}

static void test_threads_share_a_mapping(void **state)
{
    weft__segment *segments[4];
    int before = open_descriptors();
    (void)state;
    segment_join_all(4, segments);
    for (int i = 0; i < 4; i++) {
        assert_ptr_equal(segments[i]->base, segments[0]->base);
        assert_int_equal(segments[i]->rank, i);
        for (int p = 0; p < 4; p++) {
            const weft__segment_peer *peer = &segments[i]->peers[p];
            assert_int_equal(peer->world_rank, BOARD_WORLD(p));
            assert_int_equal(peer->pid, getpid());
            assert_int_equal(peer->pid_fd, -1);
            assert_true(peer->same_process && peer->bell_fd >= 0);
            assert_ptr_equal(peer->control, segments[0]->peers[p].control);
        }
    }
    free_all(4, segments);
    assert_int_equal(open_descriptors(), before);
}

/* No two rings and taken words overlap, all lie inside, and blocks come behind them. */
static void test_layout(void **state)
{
    weft__segment *segments[3];
    (void)state;
    segment_join_all(3, segments);
    for (int r = 0; r < 3; r++)
        for (int s = 0; s < 3; s++) {
            char *ring = weft__segment_ring(segments[0], r, s);
            uint64_t block = weft__segment_take(segments[r]);
            memset(ring, r * 3 + s + 1, segments[0]->ring_bytes);
            atomic_store(weft__segment_taken(segments[0], r, s), 0x100u + (unsigned)(r * 3 + s));
            assert_true(block >= (uint64_t)(ring + segments[0]->ring_bytes - segments[0]->base));
        }
    for (int r = 0; r < 3; r++)
        for (int s = 0; s < 3; s++) {
            const char *ring = weft__segment_ring(segments[2], r, s);
            assert_int_equal(ring[0], r * 3 + s + 1);
            assert_int_equal(ring[segments[0]->ring_bytes - 1], r * 3 + s + 1);
            assert_true(atomic_load(weft__segment_taken(segments[2], r, s)) ==
                        0x100u + (unsigned)(r * 3 + s));
            assert_int_equal(atomic_load(&segments[1]->peers[r].control->armed), 0);
        }
    free_all(3, segments);
}

static void test_blocks(void **state)
{
    weft__segment *segments[2];
    uint64_t taken[BOARD_BLOCKS] = {0}, again;
    (void)state;
    segment_join_all(2, segments);
    assert_true(segments[1]->block_bytes >= BOARD_BLOCK_BYTES && segments[1]->block_bytes % 4096 == 0);
    for (size_t i = 0; i < BOARD_BLOCKS; i++) {
        taken[i] = weft__segment_take(segments[1]);
        assert_true(taken[i] > 0);
        assert_true(weft__segment_owns(segments[0], 1, taken[i]) &&
                    !weft__segment_owns(segments[0], 0, taken[i]));
        memset(weft__segment_block(segments[0], taken[i]), (int)i + 1, segments[0]->block_bytes);
    }
    assert_true(weft__segment_take(segments[1]) == 0);
    for (size_t i = 0; i < BOARD_BLOCKS; i++) { /* none reaches into another */
        const unsigned char *block = weft__segment_block(segments[1], taken[i]);
        assert_int_equal(block[0], (int)i + 1);
        assert_int_equal(block[segments[1]->block_bytes - 1], (int)i + 1);
    }
    weft__segment_give(segments[1], taken[2]);
    again = weft__segment_take(segments[1]);
    assert_true(again == taken[2]);
    assert_true(weft__segment_take(segments[0]) != 0); /* the other rank's arena is its own */
    assert_null(weft__segment_block(segments[0], 0));
    assert_null(weft__segment_block(segments[0], again + 8));
    assert_null(weft__segment_block(segments[0], segments[0]->bytes));
    assert_null(weft__segment_block(segments[0], UINT64_MAX));
    free_all(2, segments);
}

/* A rank's share stays small however many there are. */
static void test_sizes(void **state)
{
    enum { KIB = 1024, MIB = 1024 * KIB };
    static const int sizes[] = {2, 4, 5, 9, 16};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        weft__segment *segments[16];
        segment_join_all(sizes[i], segments);
        assert_true((size_t)sizes[i] * segments[0]->ring_bytes <= 2 * MIB);
        free_all(sizes[i], segments);
    }
}

static void test_bell(void **state)
{
    weft__segment *segments[2];
    uint64_t rung = 0;
    (void)state;
    segment_join_all(2, segments);
    weft__bell_ring(segments[0], 1);
    assert_int_equal(read(segments[1]->peers[1].bell_fd, &rung, 8), -1);
    weft__bell_arm(segments[1]);
    weft__bell_ring(segments[0], 1);
    weft__bell_ring(segments[0], 1);
    assert_int_equal(read(segments[1]->peers[1].bell_fd, &rung, 8), 8);
    assert_int_equal(rung, 1);
    assert_int_equal(atomic_load(&segments[1]->peers[1].control->armed), 0);
    segments[0]->light = false; /* as where the kernel has no heavy fences */
    weft__bell_arm(segments[1]);
    weft__bell_ring(segments[0], 1);
    assert_int_equal(read(segments[1]->peers[1].bell_fd, &rung, 8), 8);
    weft__bell_arm(segments[1]);
    weft__bell_disarm(segments[1]);
    weft__bell_ring(segments[0], 1);
    assert_int_equal(read(segments[1]->peers[1].bell_fd, &rung, 8), -1);
    free_all(2, segments);
}

/* ---- joining that goes wrong -------------------------------------------------------------------- */

typedef struct attempt {
    weft__segment_config config;
    weft__segment *segment;
    weft_status status;
    char why[512];
    pthread_t thread;
} attempt;

enum { SHORT_MS = JOB_SANITIZED ? 4000 : 2000 }; /* members that begin with the leader join within it */

static void *try_join(void *arg)
{
    attempt *a = arg;
    a->status = weft__segment_join(&a->config, &a->segment);
    strncpy(a->why, weft_last_error(), sizeof a->why - 1);
    return NULL;
}

static void start(attempt *a, int rank, int size, int64_t timeout_ms, const weft__keys *keys)
{
    memset(a, 0, sizeof *a);
    a->config = segment_config(rank, size, timeout_ms);
    if (keys) a->config.keys = keys;
    assert_int_equal(pthread_create(&a->thread, NULL, try_join, a), 0);
}

static void start_in(attempt *a, int rank, int size, int64_t timeout_ms, const weft__process_id *processes)
{
    memset(a, 0, sizeof *a);
    a->config = segment_config(rank, size, timeout_ms);
    a->config.processes = processes;
    assert_int_equal(pthread_create(&a->thread, NULL, try_join, a), 0);
}

static void test_missing_are_named(void **state)
{
    attempt a[3];
    int before = open_descriptors();
    (void)state;
    start(&a[0], 0, 4, SHORT_MS, NULL); /* who leads; it tells the others */
    start(&a[1], 2, 4, JOB_WAIT_MS, NULL);
    for (int i = 0; i < 2; i++) {
        pthread_join(a[i].thread, NULL);
        assert_int_equal(a[i].status, WEFT_ERR_TIMEOUT);
        assert_non_null(strstr(a[i].why, "2 of 4 ranks missing: 3 7"));
    }
    start(&a[2], 1, 4, 200, NULL);
    pthread_join(a[2].thread, NULL);
    assert_int_equal(a[2].status, WEFT_ERR_TIMEOUT);
    assert_non_null(strstr(a[2].why, "rank 1,"));
    assert_int_equal(open_descriptors(), before);
}

static void test_wrong_secret(void **state)
{
    weft__keys same_job = *segment_config(0, 2, 0).keys;
    attempt leader, member;
    (void)state;
    same_job.data[0] ^= 1;
    start(&leader, 0, 2, SHORT_MS, NULL);
    start(&member, 1, 2, JOB_WAIT_MS, &same_job);
    pthread_join(member.thread, NULL);
    pthread_join(leader.thread, NULL);
    assert_int_equal(member.status, WEFT_ERR_AUTH);
    assert_int_equal(leader.status, WEFT_ERR_TIMEOUT);
    assert_non_null(strstr(leader.why, "missing: 3"));
}

static void *cut_short(void *arg)
{
    int fd = *(int *)arg;
    usleep(150000);
    close(fd);
    return NULL;
}

/* A member that sat and has gone is told at once, not at the deadline. */
static void test_left_while_joining(void **state)
{
    weft__segment_config config = segment_config(1, 3, JOB_WAIT_MS);
    struct sockaddr_un address;
    socklen_t length = weft__fd_exchange_name(config.name, &address);
    weft__hello hello;
    weft__answer answer;
    weft__credentials shown = {.fd_hello = {.pid = 1}};
    weft__fd_message in = {.bytes = &answer, .length = sizeof answer};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    pthread_t thread;
    attempt leader, member;
    int64_t begun = weft__now_ns();
    (void)state;

    start(&leader, 0, 3, JOB_WAIT_MS, NULL);
    while (connect(fd, (struct sockaddr *)&address, length)) usleep(1000);
    weft__hello_make(config.keys, WEFT__PURPOSE_FD_EXCHANGE, BOARD_WORLD(1), BOARD_WORLD(0), &hello);
    assert_int_equal(weft__fd_message_send(fd, &hello, sizeof hello, NULL, 0, config.deadline_ns), WEFT_OK);
    assert_int_equal(weft__fd_message_receive(fd, &in, config.deadline_ns), WEFT_OK);
    weft__proof_make(config.keys, &hello, &answer, &shown.proof);
    assert_int_equal(weft__fd_message_send(fd, &shown, sizeof shown, (int[]){2, 2}, 2, config.deadline_ns),
                     WEFT_OK);
    assert_int_equal(pthread_create(&thread, NULL, cut_short, &fd), 0);
    pthread_join(leader.thread, NULL);
    pthread_join(thread, NULL);
    assert_int_equal(leader.status, WEFT_ERR_PEER);
    assert_non_null(strstr(leader.why, "rank 3 left"));
    assert_true(weft__now_ns() - begun < JOB_WAIT_MS / 2 * WEFT__MS);
    start(&member, 2, 3, 50, NULL);
    pthread_join(member.thread, NULL);
    assert_int_equal(member.status, WEFT_ERR_TIMEOUT);
}

/* The parent's rank, by the child's process: with all keys, as of the same user. */
static void greet_as_rank_1(void)
{
    weft__segment_config config = segment_config(1, 2, JOB_WAIT_MS);
    struct sockaddr_un address;
    socklen_t length = weft__fd_exchange_name(config.name, &address);
    weft__hello hello;
    weft__answer answer;
    weft__fd_message in = {.bytes = &answer, .length = sizeof answer};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    alarm(JOB_ALARM_S);
    while (connect(fd, (struct sockaddr *)&address, length)) usleep(1000);
    weft__hello_make(config.keys, WEFT__PURPOSE_FD_EXCHANGE, BOARD_WORLD(1), BOARD_WORLD(0), &hello);
    if (weft__fd_message_send(fd, &hello, sizeof hello, NULL, 0, config.deadline_ns)) _exit(2);
    _exit(weft__fd_message_receive(fd, &in, config.deadline_ns) == WEFT_ERR_PEER ? 0 : 3);
}

/* Who holds the name of the segment's leader, or comes as one of the others, is the process that rank's card has told. */
static void test_another_process(void **state)
{
    weft__process_id processes[2] = {weft__process_own(), weft__process_own()};
    attempt leader, member;
    pid_t pid;
    int status;
    (void)state;
    segment_config(0, 2, 0); /* names the job before the fork */
    pid = fork();
    assert_true(pid >= 0);
    if (!pid) greet_as_rank_1();
    start_in(&leader, 0, 2, SHORT_MS, processes);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    pthread_join(leader.thread, NULL);
    assert_int_equal(leader.status, WEFT_ERR_TIMEOUT);
    assert_non_null(strstr(leader.why, "another process than that of the rank"));

    processes[0].pid++;
    start_in(&leader, 0, 2, SHORT_MS, NULL);
    start_in(&member, 1, 2, SHORT_MS, processes);
    pthread_join(member.thread, NULL);
    assert_int_equal(member.status, WEFT_ERR_AUTH);
    assert_non_null(strstr(member.why, "another process than that of rank"));
    pthread_join(leader.thread, NULL);

    processes[0].space++; /* what is a number elsewhere says nothing here */
    start_in(&leader, 0, 2, JOB_WAIT_MS, processes);
    start_in(&member, 1, 2, JOB_WAIT_MS, processes);
    pthread_join(member.thread, NULL);
    pthread_join(leader.thread, NULL);
    assert_int_equal(member.status, WEFT_OK);
    assert_int_equal(leader.status, WEFT_OK);
    weft__segment_free(member.segment);
    weft__segment_free(leader.segment);
}

#define STRANGERS 60

/* None of whom runs into its time limit meanwhile. */
static void test_strangers(void **state)
{
    weft__segment_config config = segment_config(0, 3, 0);
    struct sockaddr_un address;
    socklen_t length = weft__fd_exchange_name(config.name, &address);
    int strangers[STRANGERS], n = 0;
    char garbage[4096];
    attempt a[3];
    (void)state;

    for (size_t i = 0; i < sizeof garbage; i++) garbage[i] = (char)(i * 37);
    start(&a[0], 0, 3, JOB_WAIT_MS, NULL);
    while (n < STRANGERS) {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (connect(fd, (struct sockaddr *)&address, length)) {
            close(fd);
            usleep(1000);
            continue;
        }
        if (n % 3 == 1) send(fd, garbage, sizeof garbage, MSG_NOSIGNAL);
        if (n % 3 == 2) send(fd, "WEFT", 4, MSG_NOSIGNAL);
        strangers[n++] = fd;
    }
    start(&a[1], 1, 3, JOB_WAIT_MS, NULL);
    start(&a[2], 2, 3, JOB_WAIT_MS, NULL);
    for (int i = 0; i < 3; i++) {
        pthread_join(a[i].thread, NULL);
        assert_int_equal(a[i].status, WEFT_OK);
    }
    for (int i = 0; i < STRANGERS; i++) close(strangers[i]);
    for (int i = 0; i < 3; i++) weft__segment_free(a[i].segment);
}

/* ---- processes ---------------------------------------------------------------------------------- */

static void child(int rank, int size, int joined_fd)
{
    weft__segment_config config = segment_config(rank, size, JOB_WAIT_MS);
    struct pollfd dead = {.events = POLLIN};
    weft__segment *segment;

    alarm(JOB_ALARM_S);
    if (weft__segment_join(&config, &segment)) _exit(2);
    for (int i = 0; i < size; i++)
        if (i != rank && (segment->peers[i].same_process || segment->peers[i].pid_fd < 0)) _exit(3);
    /* Everybody writes where everybody reads. */
    atomic_store(weft__segment_taken(segment, rank, rank), 1000u + (unsigned)rank);
    for (int i = 0; i < size; i++)
        while (atomic_load(weft__segment_taken(segment, i, i)) != 1000u + (unsigned)i) usleep(100);
    if (rank == size - 1) {
        if (write(joined_fd, "", 1) != 1) _exit(5);
        pause();
    }
    dead.fd = segment->peers[size - 1].pid_fd;
    if (poll(&dead, 1, JOB_WAIT_MS) != 1) _exit(4);
    dead.fd = segment->peers[size - 1].tie_fd;
    if (poll(&dead, 1, JOB_WAIT_MS) != 1 || !(dead.revents & POLLHUP)) _exit(6);
    weft__segment_free(segment);
    _exit(0);
}

/* kill -9 of one: the others see it on its pidfd, and the name is free again at once. */
static void test_processes(void **state)
{
    enum { SIZE = 3 };
    pid_t pids[SIZE];
    int status, joined[2];
    char byte;
    (void)state;
    for (int round = 0; round < 2; round++) {
        assert_int_equal(pipe(joined), 0);
        segment_config(0, SIZE, 0); /* names the job before the fork */
        for (int i = 0; i < SIZE; i++) {
            pids[i] = fork();
            if (!pids[i]) child(i, SIZE, joined[1]);
        }
        assert_int_equal(read(joined[0], &byte, 1), 1);
        kill(pids[SIZE - 1], SIGKILL);
        assert_int_equal(waitpid(pids[SIZE - 1], &status, 0), pids[SIZE - 1]);
        assert_true(WIFSIGNALED(status));
        for (int i = 0; i < SIZE - 1; i++) {
            assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
            assert_true(WIFEXITED(status));
            assert_int_equal(WEXITSTATUS(status), 0);
        }
        close(joined[0]);
        close(joined[1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(
                                           test_processes), /* first: forks before there are threads */
                                       cmocka_unit_test(test_alone),
                                       cmocka_unit_test(test_too_many),
                                       cmocka_unit_test(test_threads_share_a_mapping),
                                       cmocka_unit_test(test_layout),
                                       cmocka_unit_test(test_blocks),
                                       cmocka_unit_test(test_sizes),
                                       cmocka_unit_test(test_bell),
                                       cmocka_unit_test(test_missing_are_named),
                                       cmocka_unit_test(test_wrong_secret),
                                       cmocka_unit_test(test_left_while_joining),
                                       cmocka_unit_test(test_another_process),
                                       cmocka_unit_test(test_strangers)};
    setenv("WEFT_HANDSHAKE_MS", "600000", 1); /* longer than all of this */
    alarm(JOB_ALARM_S);
    return cmocka_run_group_tests_name("segment", tests, NULL, NULL);
}
