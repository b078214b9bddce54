/* test_endless.c - a member that begins a message without end is cut off, wherever it may say something, and one that sends
 * a long one slowly, or many while nobody takes them, is not. */
#include "clock.h"
#include "job.h"
#include "keys.h"
#include "kv_server.h"
#include "rendezvous_wire.h"
#include "strangers.h"
#include "unfinished.h"
#include "watchdog_wire.h"
#include "zap.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>
#include <zmq.h>

enum {
    MIB = 1 << 20,
    SLICE = WEFT__SLICE_BYTES,
    STEP_MS = 10,
    SLOW = 128 << 10, /* bytes in a step */
    FAST = 1 << 20,
    SLOW_MOST = 48 * MIB, /* before the test gives up */
    FAST_MOST = 400 * MIB,
    LONG = 128 * MIB,
    LONG_MOST = 3 * LONG,
    WATCH_MS = 200, /* a watchdog is awake */
};

/* ---- a way to a server, on which it is seen how much has come ---- */

typedef struct way {
    int listener, port, to_port, step_bytes;
    size_t most; /* it ends behind that */
    atomic_size_t carried;
    atomic_bool ended; /* by the server, and the member has come again */
    pthread_t thread;
} way;

static struct sockaddr_in loopback(int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return at;
}

typedef enum carried { CARRIED, SENDER_ENDED, RECEIVER_ENDED } carried;

static carried carry(int from, int to, size_t most, atomic_size_t *sum)
{
    static char bytes[FAST]; /* of this thread alone */
    ssize_t n = recv(from, bytes, most, 0);
    if (n <= 0) return SENDER_ENDED;
    *sum += (size_t)n;
    for (ssize_t done = 0, more; done < n; done += more)
        if ((more = send(to, bytes + done, (size_t)(n - done), MSG_NOSIGNAL)) <= 0) return RECEIVER_ENDED;
    return CARRIED;
}

/* ZeroMQ aborts where a socket is closed in the moment in which it loses a connection amid a message; once it connects again
 * that is over. */
static void await_again(const way *w)
{
    const int member = accept(w->listener, NULL, NULL);
    if (member >= 0) close(member);
}

/* One connection, to its end. */
static void *carry_all(void *arg)
{
    way *w = arg;
    const struct sockaddr_in at = loopback(w->to_port);
    atomic_size_t answers = 0;
    const int member = accept(w->listener, NULL, NULL),
              server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    carried there = CARRIED, back = CARRIED;
    if (connect(server, (const struct sockaddr *)&at, sizeof at)) back = SENDER_ENDED;
    while (there == CARRIED && back == CARRIED && w->carried < w->most) {
        struct pollfd fds[] = {{.fd = member, .events = POLLIN}, {.fd = server, .events = POLLIN}};
        poll(fds, 2, -1);
        if (fds[1].revents) back = carry(server, member, FAST, &answers);
        if (!fds[0].revents || back != CARRIED) continue;
        there = carry(member, server, (size_t)w->step_bytes, &w->carried);
        job_sleep_ms(STEP_MS);
    }
    close(member);
    close(server);
    if (there != RECEIVER_ENDED && back != SENDER_ENDED) return NULL;
    await_again(w);
    w->ended = true;
    return NULL;
}

static void begin_way(way *w, int to_port, int step_bytes, size_t most)
{
    struct sockaddr_in at = loopback(0);
    socklen_t bytes = sizeof at;
    *w = (way){.to_port = to_port, .step_bytes = step_bytes, .most = most};
    w->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(w->listener, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(w->listener, 1), 0);
    assert_int_equal(getsockname(w->listener, (struct sockaddr *)&at, &bytes), 0);
    w->port = ntohs(at.sin_port);
    assert_int_equal(pthread_create(&w->thread, NULL, carry_all, w), 0);
}

static void end_way(const way *w)
{
    pthread_join(w->thread, NULL);
    close(w->listener);
}

/* ---- who has no end ---- */

/* All of it waits in ZeroMQ, which sends nothing of a message before the last frame: one that ends, but not in time. */
static void say_endlessly(void *dealer, size_t bytes)
{
    static char zeros[SLICE];
    for (size_t said = 0; said < bytes; said += SLICE) {
        zmq_msg_t frame;
        assert_int_equal(zmq_msg_init_data(&frame, zeros, SLICE, NULL, NULL), 0);
        assert_int_equal(zmq_msg_send(&frame, dealer,
                                      ZMQ_DONTWAIT | (said + SLICE < bytes ? ZMQ_SNDMORE : 0)),
                         SLICE);
    }
}

static void reach(void *dealer, const way *w)
{
    char endpoint[64];
    assert_non_null(dealer);
    snprintf(endpoint, sizeof endpoint, "tcp://127.0.0.1:%d", w->port);
    assert_int_equal(zmq_connect(dealer, endpoint), 0);
}

/* That much has come of it when it was cut off, at most. */
static void is_cut_off(const way *w, size_t most)
{
    assert_true(w->ended);
    assert_in_range(w->carried, 0, most);
}

/* ---- where it is said ---- */

static weft__keys *keys;
static void *context;

static int begin(void **state)
{
    (void)state;
    return weft__keys_make("secret", 6, "job", &keys) || weft__zmq_take(&context);
}

static int end(void **state)
{
    (void)state;
    weft__zmq_give();
    assert_int_equal(keys->users, 1);
    weft__keys_drop(keys);
    return 0;
}

static void where_ranks_join(void **state)
{
    static const uint8_t own[WEFT__RENDEZVOUS_ID_BYTES] = "the serving rank";
    static const uint8_t run[WEFT__RUN_NONCE_BYTES] = "this run of job";
    static const weft__tree tree = {1, 2};
    void *dealer = weft__zmq_socket(context, ZMQ_DEALER, false, false, keys);
    weft__address place = {.v4 = loopback(0)};
    weft__rendezvous_server *server;
    way w;
    (void)state;
    assert_int_equal(weft__rendezvous_serve(context, &place, keys, own, run, 4, &tree, &server), WEFT_OK);
    begin_way(&w, weft__address_port(&place), SLOW, SLOW_MOST);
    reach(dealer, &w);
    say_endlessly(dealer, 64 * MIB);
    end_way(&w);
    zmq_close(dealer);
    weft__rendezvous_stop(server, weft__now_ns());
    is_cut_off(&w, 32 * MIB);
}

/* A store, and a way from the member to it that ends behind so much. */
static weft__kv_server *begin_store(void *dealer, way *w, size_t most)
{
    weft__kv_server *server;
    int port = 0;
    assert_int_equal(weft__kv_serve("127.0.0.1", &port, keys, &server), WEFT_OK);
    begin_way(w, port, FAST, most);
    reach(dealer, w);
    return server;
}

static void at_a_store(void **state)
{
    void *dealer = weft__zmq_socket(context, ZMQ_DEALER, false, false, keys);
    way w;
    weft__kv_server *server = begin_store(dealer, &w, FAST_MOST);
    (void)state;
    say_endlessly(dealer, (size_t)512 * MIB);
    end_way(&w);
    zmq_close(dealer);
    weft__kv_server_stop(server);
    is_cut_off(&w, (size_t)320 * MIB);
}

/* It takes more than a second, and another one is watched behind it. */
static void a_long_message_may_take_its_time(void **state)
{
    const int64_t until = weft__deadline(weft__now_ns(), JOB_WAIT_MS);
    void *dealer = weft__zmq_socket(context, ZMQ_DEALER, false, false, keys);
    way w;
    weft__kv_server *server = begin_store(dealer, &w, LONG_MOST);
    (void)state;
    say_endlessly(dealer, LONG);
    say_endlessly(dealer, LONG);
    while (w.carried < 2 * LONG && !w.ended && weft__now_ns() < until) job_sleep_ms(STEP_MS);
    zmq_close(dealer);
    end_way(&w);
    weft__kv_server_stop(server);
    assert_true(w.carried >= 2 * LONG);
    assert_false(w.ended);
}

static void hear_nothing(void *arg, int from, const void *bytes, size_t length)
{
    (void)arg;
    (void)bytes;
    fail_msg("%zu bytes from rank %d", length, from);
}

/* To rank 0 from rank 1, by its own key. */
static void at_a_watchdog(void **state)
{
    const int wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    const int64_t until = weft__deadline(weft__now_ns(), JOB_WAIT_MS);
    char endpoints[2][WEFT__ENDPOINT_BYTES];
    weft__keys *ranks[2];
    weft__watchdog_wire *wire;
    void *dealer;
    way w;
    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(weft__keys_make("secret", 6, "job", &ranks[i]), WEFT_OK);
        assert_int_equal(weft__keys_draw(ranks[i]), WEFT_OK);
        assert_int_equal(weft__keys_room(ranks[i], 2), WEFT_OK);
    }
    for (int i = 0; i < 4; i++) ranks[i / 2]->ranks[i % 2] = ranks[i % 2]->own_public;
    assert_int_equal(weft__watchdog_wire_open("127.0.0.1", ranks[0], 0, &wire, endpoints[0]), WEFT_OK);
    memcpy(endpoints[1], endpoints[0], sizeof endpoints[1]);
    assert_int_equal(weft__watchdog_wire_peers(wire, 2, endpoints[0]), WEFT_OK);
    begin_way(&w, atoi(strrchr(endpoints[0], ':') + 1), SLOW, SLOW_MOST);
    dealer = weft__zmq_rank_socket(context, ZMQ_DEALER, 0, false, ranks[1]);
    reach(dealer, &w);
    say_endlessly(dealer, 64 * MIB);
    while (!w.ended && w.carried < SLOW_MOST && weft__now_ns() < until) {
        weft__watchdog_wire_sleep(&wire, 1, wake_fd, weft__now_ns() + WATCH_MS * WEFT__MS);
        weft__watchdog_wire_take(wire, hear_nothing, NULL);
    }
    zmq_close(dealer);
    end_way(&w);
    weft__watchdog_wire_close(wire);
    for (int i = 0; i < 2; i++) weft__keys_drop(ranks[i]);
    close(wake_fd);
    is_cut_off(&w, 32 * MIB);
}

/* ---- who is not cut off ---- */

/* The descriptor that a connection to it has there. */
static int fd_of(weft__strangers *s)
{
    const int64_t until = weft__deadline(weft__now_ns(), JOB_WAIT_MS);
    while (weft__now_ns() < until) {
        weft__strangers_bound(s);
        for (int fd = 0; fd < s->room; fd++)
            if (s->by_fd[fd].where.any.sa_family != AF_UNSPEC) return fd;
        job_sleep_ms(STEP_MS);
    }
    fail_msg("nobody comes");
    return -1;
}

static void say(void *dealer, int times)
{
    static const char zeros[SLICE];
    for (int i = 0; i < times; i++) assert_int_equal(zmq_send(dealer, zeros, SLICE, 0), SLICE);
}

/* So many messages, of which each has come by a connection that stands. */
static bool take(void *router, weft__strangers *s, int times)
{
    int wait_ms = JOB_WAIT_MS;
    bool well = true;
    zmq_msg_t frame;
    zmq_msg_init(&frame);
    zmq_setsockopt(router, ZMQ_RCVTIMEO, &wait_ms, sizeof wait_ms);
    for (int i = 0; i < 2 * times && well; i++) {
        well = zmq_msg_recv(&frame, router, 0) >= 0 &&
               (zmq_msg_more(&frame) || weft__strangers_spoke(s, zmq_msg_get(&frame, ZMQ_SRCFD)));
    }
    zmq_msg_close(&frame);
    return well;
}

/* ZeroMQ has read them, and whoever takes them stood still behind the last that it took. */
static void what_waits_to_be_taken_is_whole(void **state)
{
    enum { TIMES = 100, PAUSE_MS = 250 };
    const int64_t until = weft__deadline(weft__now_ns(), JOB_WAIT_MS);
    void *dealer = weft__zmq_socket(context, ZMQ_DEALER, false, false, keys);
    void *router = weft__zmq_socket(context, ZMQ_ROUTER, true, false, keys);
    weft__strangers s = {.count = 0};
    weft__unfinished seen = {.bytes = 0};
    char endpoint[256];
    size_t bytes = sizeof endpoint;
    bool stands;
    int fd;
    (void)state;
    assert_int_equal(weft__zap_admit(keys), WEFT_OK);
    weft__strangers_limit(&s, SLICE, STEP_MS);
    assert_int_equal(weft__strangers_open(&s, context, router), WEFT_OK);
    assert_int_equal(zmq_bind(router, "tcp://127.0.0.1:*"), 0);
    assert_int_equal(zmq_getsockopt(router, ZMQ_LAST_ENDPOINT, endpoint, &bytes), 0);
    assert_int_equal(zmq_connect(dealer, endpoint), 0);
    fd = fd_of(&s);
    say(dealer, TIMES);
    while (seen.bytes < (size_t)TIMES * SLICE && weft__now_ns() < until) {
        (void)weft__unfinished_is_too_long(&seen, fd, SLICE);
        job_sleep_ms(STEP_MS);
    }
    assert_true(seen.bytes >= (size_t)TIMES * SLICE);
    job_sleep_ms(PAUSE_MS); /* so that it is looked at */
    weft__strangers_bound(&s);
    stands = take(router, &s, TIMES);
    job_sleep_ms(PAUSE_MS);
    weft__strangers_bound(&s);
    say(dealer, 1);
    stands = take(router, &s, 1) && stands && !s.by_fd[fd].ended;
    weft__strangers_close(&s);
    zmq_close(dealer);
    zmq_close(router);
    weft__zap_dismiss(keys);
    assert_true(stands);
}

typedef struct trickle {
    int fd;
    atomic_bool over;
} trickle;

static void *trickle_bytes(void *arg)
{
    trickle *t = arg;
    while (!t->over && send(t->fd, "", 1, MSG_NOSIGNAL) == 1) continue;
    return NULL;
}

static int drain(int fd)
{
    char bytes[4096];
    int sum = 0;
    for (ssize_t n; (n = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT)) > 0;) sum += (int)n;
    return sum;
}

/* However many come between two looks at the kernel's counts. */
static void what_nobody_has_read_is_not_counted(void **state)
{
    enum { ROUNDS = 2000, LOOKS = 10 };
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    trickle from = {.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    struct sockaddr_in at = loopback(0);
    socklen_t bytes = sizeof at;
    weft__unfinished counted = {.bytes = 0}, whole = {.bytes = 0};
    uint64_t sum = 0;
    pthread_t sender;
    int fd;
    (void)state;
    assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &bytes), 0);
    assert_int_equal(connect(from.fd, (struct sockaddr *)&at, sizeof at), 0);
    setsockopt(from.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    fd = accept(listener, NULL, NULL);
    assert_int_equal(pthread_create(&sender, NULL, trickle_bytes, &from), 0);
    for (int i = 0; i < ROUNDS * LOOKS; i++) {
        if (i % LOOKS == 0) sum += (uint64_t)drain(fd);
        whole.spoke = true;
        assert_false(weft__unfinished_is_too_long(&counted, fd, MIB));
        assert_false(weft__unfinished_is_too_long(&whole, fd, MIB));
        assert_true(counted.bytes <= sum);
        assert_true(whole.whole >= sum);
    }
    from.over = true;
    shutdown(fd, SHUT_RDWR);
    pthread_join(sender, NULL);
    assert_true(sum > 0);
    close(from.fd);
    close(fd);
    close(listener);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(where_ranks_join, begin, end),
        cmocka_unit_test_setup_teardown(at_a_store, begin, end),
        cmocka_unit_test_setup_teardown(a_long_message_may_take_its_time, begin, end),
        cmocka_unit_test_setup_teardown(at_a_watchdog, begin, end),
        cmocka_unit_test_setup_teardown(what_waits_to_be_taken_is_whole, begin, end),
        cmocka_unit_test(what_nobody_has_read_is_not_counted),
    };
    return job_main(__FILE__, tests, sizeof tests / sizeof *tests, argc, argv);
}
