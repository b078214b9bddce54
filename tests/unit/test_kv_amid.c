/* test_kv_amid.c - a client that closes its store amid a long value, which nobody takes any more, as the connection ends.
 *
 * ZeroMQ would abort there without linger: from when its thread knows that the socket is closed until the thread that closes sockets
 * has answered it may not read the rest of the message.  Here that other thread is slow to answer. */
#include "clock.h"
#include "job.h"
#include "keys.h"
#include "kv.h"
#include "kv_server.h"

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    VALUE = 16 << 20,
    CARRIED = 1 << 20,
    CALL_MS = 100,
    REAPER_MS = 1000,
    AMID_MS = 100, /* ZeroMQ's thread has heard of the close, and that other one not of its answer */
};

/* ---- the thread that closes sockets ---- */

static atomic_bool reaper_is_slow;

int slow_epoll_wait(int fd, struct epoll_event *events, int most, int timeout_ms) __asm__("epoll_wait")
    __attribute__((visibility("default")));

int slow_epoll_wait(int fd, struct epoll_event *events, int most, int timeout_ms)
{
    char name[16] = "";
    prctl(PR_GET_NAME, name);
    if (atomic_load(&reaper_is_slow) && strstr(name, "Reaper"))
        job_sleep_ms(REAPER_MS); /* it has begun to close something */
    return (int)syscall(SYS_epoll_pwait, fd, events, most, timeout_ms, NULL, 8);
}

/* ---- a way to the store, which carries the beginning ---- */

typedef struct way {
    int listener, port, to_port;
    atomic_bool still, over;
} way;

static struct sockaddr_in loopback(int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return at;
}

/* How many bytes; 0: that connection has ended. */
static int carry(int from, int to)
{
    static char bytes[1 << 16]; /* of this thread alone */
    const ssize_t n = recv(from, bytes, sizeof bytes, 0);
    return n > 0 && send(to, bytes, (size_t)n, MSG_NOSIGNAL) == n ? (int)n : 0;
}

/* One connection, to its end, or until so much has come that it stands still. */
static bool stands_still(int client, int server)
{
    int carried = 0;
    bool goes_on = true;
    while (goes_on && carried < CARRIED) {
        struct pollfd fds[] = {{.fd = client, .events = POLLIN}, {.fd = server, .events = POLLIN}};
        poll(fds, 2, -1);
        if (fds[1].revents) goes_on = carry(server, client) > 0;
        if (fds[0].revents && goes_on) {
            const int n = carry(client, server);
            carried += n;
            goes_on = n > 0;
        }
    }
    return goes_on;
}

/* Whoever looks whether a store is there, and then the client. */
static void *carry_some(void *arg)
{
    way *w = arg;
    const struct sockaddr_in at = loopback(w->to_port);
    const struct linger at_once = {.l_onoff = 1};
    bool still = false;
    while (!still) {
        const int client = accept(w->listener, NULL, NULL),
                  server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(server, (const struct sockaddr *)&at, sizeof at)) abort();
        still = stands_still(client, server);
        atomic_store(&w->still, still);
        while (still && !atomic_load(&w->over)) job_sleep_ms(1);
        setsockopt(client, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        close(client);
        close(server);
    }
    return NULL;
}

static void begin_way(way *w, pthread_t *thread)
{
    struct sockaddr_in at = loopback(0);
    socklen_t bytes = sizeof at;
    w->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(w->listener, (struct sockaddr *)&at, sizeof at) || listen(w->listener, 4) ||
        getsockname(w->listener, (struct sockaddr *)&at, &bytes))
        abort();
    w->port = ntohs(at.sin_port);
    pthread_create(thread, NULL, carry_some, w);
}

/* ---- the test ---- */

/* Its exit code says what went otherwise than it was to. */
static int close_amid(void)
{
    static char value[VALUE];
    const weft__kv_call set = {.kind = WEFT__KV_SET,
                               .n = 1,
                               .keys = "ulong",
                               .key_bytes = sizeof "ulong",
                               .value = value,
                               .value_bytes = sizeof value,
                               .deadline_ns = weft__deadline(weft__now_ns(), JOB_WAIT_MS)};
    weft__kv_call call = set;
    weft__kv_result result;
    weft__kv_server *server;
    weft__keys *keys;
    weft__kv *kv;
    char endpoint[64];
    pthread_t thread;
    way w = {.listener = -1};
    if (weft__keys_make("secret", 6, "test", &keys)) return 2;
    if (weft__kv_serve("127.0.0.1", &w.to_port, keys, &server)) return 3;
    begin_way(&w, &thread);
    snprintf(endpoint, sizeof endpoint, "tcp://127.0.0.1:%d", w.port);
    if (weft__kv_connect(endpoint, keys, set.deadline_ns, &kv)) return 4;
    while (!atomic_load(&w.still) &&
           weft__now_ns() < set.deadline_ns) { /* one may be given up before it is begun */
        call.deadline_ns = weft__deadline(weft__now_ns(), CALL_MS);
        if (kv->ops->perform(kv, &call, &result) != WEFT_ERR_TIMEOUT) return 5;
    }
    if (!atomic_load(&w.still)) return 6;
    atomic_store(&reaper_is_slow, true);
    kv->ops->close(kv);
    job_sleep_ms(AMID_MS);
    atomic_store(&w.over, true);
    pthread_join(thread, NULL);
    job_sleep_ms(AMID_MS);
    atomic_store(&reaper_is_slow, false);
    weft__kv_server_stop(server);
    weft__keys_drop(keys);
    return 0;
}

static void a_client_may_close_amid_a_long_value(void **state)
{
    const pid_t pid = fork();
    int status;
    (void)state;
    if (!pid) _exit(close_amid());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_false(WIFSIGNALED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_client_may_close_amid_a_long_value)};
    return job_main(__FILE__, tests, sizeof tests / sizeof *tests, argc, argv);
}
