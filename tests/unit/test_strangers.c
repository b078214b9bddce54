/* test_strangers.c - who comes with another secret is told of, by address where that can be known. */
#include "clock.h"
#include "job.h"
#include "keys.h"
#include "log.h"
#include "strangers.h"
#include "zap.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>
#include <zmq.h>

enum { TRIES = 20 };

static _Atomic int named[3], unnamed; /* lines in the log: of 127.0.0.N, and without an address */

static void note(int level, const char *text, void *arg)
{
    (void)arg;
    if (level != WEFT__WARN || !strstr(text, "its secret, or its job's name, differs")) return;
    if (strstr(text, "from 127.0.0.1 to tcp://127.0.0.1:")) atomic_fetch_add(&named[1], 1);
    if (strstr(text, "from 127.0.0.2 to tcp://127.0.0.1:")) atomic_fetch_add(&named[2], 1);
    if (strstr(text, "from an address that is not known")) atomic_fetch_add(&unnamed, 1);
}

/* Comes with another secret until it has been turned away so often, while nobody looks. */
static void come(void *context, const weft__keys *keys, const char *from, const char *to, int times)
{
    static int made;
    const int64_t until = weft__deadline(weft__now_ns(), JOB_WAIT_MS);
    void *dealer = weft__zmq_socket(context, ZMQ_DEALER, false, false, keys);
    void *monitor = zmq_socket(context, ZMQ_PAIR);
    int a_moment = 10;
    char events[64], rest[256], endpoint[512];
    uint16_t event;
    snprintf(events, sizeof events, "inproc://come-%d", made++);
    snprintf(endpoint, sizeof endpoint, "tcp://%s:0;%s", from, to + strlen("tcp://"));
    zmq_setsockopt(monitor, ZMQ_RCVTIMEO, &a_moment, sizeof a_moment);
    assert_int_equal(zmq_socket_monitor(dealer, events, ZMQ_EVENT_DISCONNECTED), 0);
    assert_int_equal(zmq_connect(monitor, events), 0);
    assert_int_equal(zmq_connect(dealer, endpoint), 0);
    while (times > 0 && weft__now_ns() < until) {
        if (zmq_recv(monitor, &event, sizeof event, 0) < 0) continue;
        zmq_recv(monitor, rest, sizeof rest, 0);
        times--;
    }
    assert_int_equal(times, 0);
    zmq_socket_monitor(dealer, NULL, 0);
    zmq_close(monitor);
    zmq_close(dealer);
    usleep(200000); /* the last of its connections has been given up by ZeroMQ's thread as well */
}

/* A connection that is turned away is gone within a millisecond, mostly before anybody hears of it. */
static void who_is_gone_is_named(void **state)
{
    weft__keys *ours, *other;
    weft__strangers s = {.count = 0};
    char endpoint[256];
    size_t bytes = sizeof endpoint;
    void *context, *router;
    (void)state;
    assert_int_equal(weft__keys_make("secret", 6, "job", &ours), WEFT_OK);
    assert_int_equal(weft__keys_make("another", 7, "job", &other), WEFT_OK);
    assert_int_equal(weft__zmq_take(&context), WEFT_OK);
    assert_non_null(router = weft__zmq_socket(context, ZMQ_ROUTER, true, false, ours));
    assert_int_equal(zmq_bind(router, "tcp://127.0.0.1:*"), 0);
    assert_int_equal(zmq_getsockopt(router, ZMQ_LAST_ENDPOINT, endpoint, &bytes), 0);
    assert_int_equal(weft__strangers_open(&s, context, router), WEFT_OK);
    weft_set_log(note, NULL);
    for (int i = 1; i <= 3; i++) { /* the last one is the first again */
        const int who = i == 2 ? 2 : 1;
        for (int tries = 0; tries < TRIES && (!tries || !named[who]); tries++) { /* it looks now and then */
            come(context, other, who == 2 ? "127.0.0.2" : "127.0.0.1", endpoint, 1);
            weft__strangers_bound(&s);
            weft__log_flush();
        }
        assert_int_equal(named[1], 1);
        assert_int_equal(named[2], i >= 2);
        assert_int_equal(unnamed, 0);
    }
    weft_set_log(NULL, NULL);
    weft__strangers_close(&s);
    zmq_close(router);
    weft__zmq_give();
    weft__keys_drop(ours);
    weft__keys_drop(other);
}

/* Whether the other end has hung up, within that time; its greeting is read. */
static bool is_shut(int fd, int wait_ms)
{
    char greeting[256];
    const struct timeval wait = {.tv_sec = wait_ms / 1000, .tv_usec = wait_ms % 1000 * 1000};
    ssize_t got;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    do got = recv(fd, greeting, sizeof greeting, 0);
    while (got > 0);
    return got == 0;
}

/* On the abstract Unix socket of a relay as on the port that it may have beside that; other Unix sockets of the process
 * stay. */
static void the_silent_ones_are_shut_down(void **state)
{
    enum { SILENT = 5, MOST = 2 };
    const int64_t until = weft__deadline(weft__now_ns(), JOB_WAIT_MS);
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    weft__keys *keys;
    weft__strangers s = {.count = 0};
    void *context, *router;
    char endpoint[64];
    int fds[SILENT], length;
    (void)state;
    length = snprintf(endpoint, sizeof endpoint, "ipc://@weft-test-strangers-%d", (int)getpid());
    memcpy(at.sun_path + 1, endpoint + 7, (size_t)length - 7);
    assert_int_equal(weft__keys_make("secret", 6, "job", &keys), WEFT_OK);
    assert_int_equal(weft__zmq_take(&context), WEFT_OK);
    assert_non_null(router = weft__zmq_socket(context, ZMQ_ROUTER, true, false, keys));
    assert_int_equal(weft__strangers_open(&s, context, router), WEFT_OK);
    assert_int_equal(zmq_bind(router, endpoint), 0);
    snprintf(s.name, sizeof s.name, "%s", endpoint + 7);
    assert_int_equal(zmq_bind(router, "tcp://127.0.0.1:*"), 0);
    s.most = MOST;
    for (int i = 0; i < SILENT; i++) {
        fds[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(connect(fds[i], (struct sockaddr *)&at,
                                 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length -
                                             7)),
                         0);
    }
    while (s.arrivals < SILENT && weft__now_ns() < until) weft__strangers_bound(&s);
    for (int i = 0; i < SILENT; i++)
        assert_int_equal(is_shut(fds[i], i < SILENT - MOST ? JOB_WAIT_MS : 100), i < SILENT - MOST);
    for (int i = 0; i < SILENT; i++) close(fds[i]);
    weft__strangers_close(&s);
    zmq_close(router);
    weft__zmq_give();
    weft__keys_drop(keys);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(who_is_gone_is_named),
                                       cmocka_unit_test(the_silent_ones_are_shut_down)};
    alarm(JOB_ALARM_S);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
