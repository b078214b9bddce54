/* The watchdogs' wire: messages arrive in order and whole, strangers are not heard, nothing is too large, and
 * a sleeper sleeps. */
#include "clock.h"
#include "job.h"
#include "keys.h"
#include "skip.h"
#include "watchdog_wire.h"
#include "zap.h"

#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>
#include <zmq.h>

#define WORLD 3

typedef struct fixture {
    weft__keys *keys[WORLD];
    weft__watchdog_wire *wires[WORLD];
    char endpoints[WORLD][WEFT__ENDPOINT_BYTES];
    int wake_fd;
} fixture;

/* A set of keys of the same job, whose own pair is no rank's of the others. */
static weft__keys *keys_of(const char *secret, const weft__rank_key *ranks, int world)
{
    weft__keys *keys;
    assert_int_equal(weft__keys_make(secret, strlen(secret), "job", &keys), WEFT_OK);
    assert_int_equal(weft__keys_draw(keys), WEFT_OK);
    assert_int_equal(weft__keys_room(keys, world), WEFT_OK);
    if (ranks) memcpy(keys->ranks, ranks, (size_t)world * sizeof *ranks);
    return keys;
}

static int open_wires(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    for (int i = 0; i < WORLD; i++) f->keys[i] = keys_of("secret", NULL, WORLD);
    for (int i = 0; i < WORLD; i++)
        for (int k = 0; k < WORLD; k++) f->keys[i]->ranks[k] = f->keys[k]->own_public;
    for (int i = 0; i < WORLD; i++)
        assert_int_equal(weft__watchdog_wire_open("127.0.0.1", f->keys[i], i, &f->wires[i], f->endpoints[i]),
                         WEFT_OK);
    for (int i = 0; i < WORLD; i++)
        assert_int_equal(weft__watchdog_wire_peers(f->wires[i], WORLD, f->endpoints[0]), WEFT_OK);
    f->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    *state = f;
    return 0;
}

static int close_wires(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < WORLD; i++) weft__watchdog_wire_close(f->wires[i]);
    for (int i = 0; i < WORLD; i++) {
        assert_int_equal(f->keys[i]->users, 1);
        weft__keys_drop(f->keys[i]);
    }
    close(f->wake_fd);
    free(f);
    return 0;
}

typedef struct inbox {
    int count[WORLD]; /* messages from each, which number themselves */
    size_t last_bytes;
    bool out_of_order;
} inbox;

static void count_message(void *arg, int from, const void *bytes, size_t length)
{
    inbox *box = arg;
    int number;
    assert_in_range(from, 0, WORLD - 1);
    assert_true(length >= sizeof number);
    memcpy(&number, bytes, sizeof number);
    if (number != box->count[from]++) box->out_of_order = true;
    box->last_bytes = length;
}

static bool receive(fixture *f, int rank, inbox *box, int from, int count, int within_ms)
{
    int64_t deadline_ns = weft__deadline(weft__now_ns(), within_ms);
    while (box->count[from] < count && weft__now_ns() < deadline_ns)
        if (!weft__watchdog_wire_take(f->wires[rank], count_message, box))
            weft__watchdog_wire_sleep(f->wires, WORLD, f->wake_fd, deadline_ns);
    return box->count[from] == count;
}

static void all_hear_all_in_order(void **state)
{
    fixture *f = *state;
    inbox boxes[WORLD] = {0};
    for (int number = 0; number < 50; number++)
        for (int from = 0; from < WORLD; from++)
            for (int to = 0; to < WORLD; to++)
                assert_int_equal(weft__watchdog_wire_send(f->wires[from], to, &number, sizeof number),
                                 WEFT_OK);
    for (int to = 0; to < WORLD; to++)
        for (int from = 0; from < WORLD; from++) {
            int64_t deadline_ns = weft__deadline(weft__now_ns(), JOB_WAIT_MS);
            /* Not receive(): messages for the others lie ready and would keep the sleep from sleeping. */
            while (boxes[to].count[from] < 50 && weft__now_ns() < deadline_ns)
                if (!weft__watchdog_wire_take(f->wires[to], count_message, &boxes[to]))
                    weft__watchdog_wire_sleep(&f->wires[to], 1, f->wake_fd, deadline_ns);
            assert_int_equal(boxes[to].count[from], 50);
            assert_false(boxes[to].out_of_order);
        }
}

static void lengths_up_to_the_limit(void **state)
{
    fixture *f = *state;
    inbox box = {0};
    char *bytes = calloc(1, WEFT__WATCHDOG_WORD_MAX + 1);
    int one = 1;
    assert_int_equal(weft__watchdog_wire_send(f->wires[0], 1, bytes, WEFT__WATCHDOG_WORD_MAX), WEFT_OK);
    assert_true(receive(f, 1, &box, 0, 1, JOB_WAIT_MS));
    assert_int_equal(box.last_bytes, WEFT__WATCHDOG_WORD_MAX);
    memcpy(bytes, &one, sizeof one);
    assert_int_equal(weft__watchdog_wire_send(f->wires[0], 1, bytes, WEFT__WATCHDOG_WORD_MAX + 1),
                     WEFT_ERR_ARGUMENT);
    assert_false(receive(f, 1, &box, 0, 2, 200));
    assert_int_equal(weft__watchdog_wire_send(f->wires[0], 1, &one, sizeof one), WEFT_OK);
    assert_true(receive(f, 1, &box, 0, 2, JOB_WAIT_MS));
    assert_int_equal(box.last_bytes, sizeof one);
    free(bytes);
}

/* A member of the job whose software is broken: its connection is closed, the others go on. */
static void huge_messages_are_dropped(void **state)
{
    fixture *f = *state;
    inbox box = {0};
    void *context, *dealer;
    char *bytes = calloc(1, 1 << 20);
    int32_t rank = 2;
    int zero = 0;
    assert_int_equal(weft__zmq_take(&context), WEFT_OK);
    dealer = weft__zmq_rank_socket(context, ZMQ_DEALER, 0, false, f->keys[2]);
    assert_int_equal(zmq_connect(dealer, f->endpoints[0]), 0);
    zmq_send(dealer, &rank, sizeof rank, ZMQ_SNDMORE);
    zmq_send(dealer, bytes, 1 << 20, 0);
    assert_false(receive(f, 0, &box, 2, 1, 300));
    zmq_send(dealer, "alone", 5, 0); /* and malformed ones: no rank, a bad rank, too many frames */
    rank = WORLD;
    zmq_send(dealer, &rank, sizeof rank, ZMQ_SNDMORE);
    zmq_send(dealer, &zero, sizeof zero, 0);
    rank = 2;
    zmq_send(dealer, &rank, sizeof rank, ZMQ_SNDMORE);
    zmq_send(dealer, &zero, sizeof zero, ZMQ_SNDMORE);
    zmq_send(dealer, &zero, sizeof zero, 0);
    assert_false(receive(f, 0, &box, 2, 1, 300));
    assert_int_equal(weft__watchdog_wire_send(f->wires[2], 0, &zero, sizeof zero), WEFT_OK);
    assert_true(receive(f, 0, &box, 2, 1, JOB_WAIT_MS));
    zmq_close(dealer);
    weft__zmq_give();
    free(bytes);
}

/* Rank 0 hears nothing that this one says, and hears of none what it has not said. */
static void is_not_heard(fixture *f, weft__keys *keys, int says)
{
    inbox box = {0};
    char endpoint[WEFT__ENDPOINT_BYTES];
    weft__watchdog_wire *wire;
    int zero = 0;
    assert_int_equal(weft__watchdog_wire_open("127.0.0.1", keys, says, &wire, endpoint), WEFT_OK);
    assert_int_equal(weft__watchdog_wire_peers(wire, WORLD, f->endpoints[0]), WEFT_OK);
    assert_int_equal(weft__watchdog_wire_send(wire, 0, &zero, sizeof zero), WEFT_OK);
    assert_false(receive(f, 0, &box, says % WORLD, 1, 400));
    for (int i = 0; i < WORLD; i++) assert_int_equal(box.count[i], 0);
    weft__watchdog_wire_close(wire);
}

/* Wrong keys altogether; and the job's, with a pair that is no rank's, which only ZAP keeps out. */
static void strangers_are_not_heard(void **state)
{
    fixture *f = *state;
    weft__keys *keys = keys_of("other", NULL, WORLD);
    is_not_heard(f, keys, 2);
    weft__keys_drop(keys);
    keys = keys_of("secret", f->keys[0]->ranks, WORLD);
    is_not_heard(f, keys, 2);
    weft__keys_drop(keys);
}

/* With the key of rank 1, which so says of somebody that it has died; and then in its own name. */
static void a_member_is_not_heard_as_another(void **state)
{
    fixture *f = *state;
    inbox box = {0};
    int zero = 0;
    is_not_heard(f, f->keys[1], 2);
    is_not_heard(f, f->keys[1], WORLD);
    assert_int_equal(weft__watchdog_wire_send(f->wires[1], 0, &zero, sizeof zero), WEFT_OK);
    assert_true(receive(f, 0, &box, 1, 1, JOB_WAIT_MS));
}

/* Somebody else listens where rank 0 is said to be: a member, with the secret and a key of its own.  It hears nothing. */
static void nobody_else_hears(void **state)
{
    fixture *f = *state;
    inbox box = {0};
    char told[WORLD][WEFT__ENDPOINT_BYTES];
    weft__watchdog_wire *wire;
    int64_t until_ns;
    int zero = 0;
    memcpy(told, f->endpoints, sizeof told);
    memcpy(told[0], f->endpoints[1], sizeof told[0]);
    assert_int_equal(weft__watchdog_wire_open("127.0.0.1", f->keys[2], 2, &wire, told[2]), WEFT_OK);
    assert_int_equal(weft__watchdog_wire_peers(wire, WORLD, told[0]), WEFT_OK);
    assert_int_equal(weft__watchdog_wire_send(wire, 0, &zero, sizeof zero), WEFT_OK);
    until_ns = weft__deadline(weft__now_ns(), 400);
    while (weft__now_ns() < until_ns) {
        assert_int_equal(weft__watchdog_wire_take(f->wires[1], count_message, &box), 0);
        usleep(10000);
    }
    weft__watchdog_wire_close(wire);
}

/* Who comes before this rank has been told of the others is not sent away for good. */
static void who_comes_early_comes_again(void **state)
{
    fixture *f = *state;
    inbox box = {0};
    char told[WORLD][WEFT__ENDPOINT_BYTES];
    weft__watchdog_wire *late, *wire;
    weft__keys *keys = keys_of("secret", f->keys[0]->ranks, WORLD);
    int64_t until_ns;
    int zero = 0;
    keys->ranks[0] = keys->own_public;
    memcpy(told, f->endpoints, sizeof told);
    assert_int_equal(weft__watchdog_wire_open("127.0.0.1", keys, 0, &late, told[0]), WEFT_OK);
    f->keys[2]->ranks[0] = keys->own_public;
    assert_int_equal(weft__watchdog_wire_open("127.0.0.1", f->keys[2], 2, &wire, told[2]), WEFT_OK);
    assert_int_equal(weft__watchdog_wire_peers(wire, WORLD, told[0]), WEFT_OK);
    assert_int_equal(weft__watchdog_wire_send(wire, 0, &zero, sizeof zero), WEFT_OK);
    usleep(200000);
    assert_int_equal(weft__watchdog_wire_take(late, count_message, &box), 0);
    assert_int_equal(weft__watchdog_wire_peers(late, WORLD, told[0]), WEFT_OK);
    until_ns = weft__deadline(weft__now_ns(), JOB_WAIT_MS);
    while (!box.count[2] && weft__now_ns() < until_ns)
        if (!weft__watchdog_wire_take(late, count_message, &box)) usleep(10000);
    assert_int_equal(box.count[2], 1);
    weft__watchdog_wire_close(wire);
    weft__watchdog_wire_close(late);
    weft__keys_drop(keys);
}

static void a_full_queue_is_told(void **state)
{
    fixture *f = *state;
    char endpoints[WORLD][WEFT__ENDPOINT_BYTES];
    char endpoint[WEFT__ENDPOINT_BYTES];
    weft__watchdog_wire *wire;
    weft_status status = WEFT_OK;
    int sent = 0;
    memcpy(endpoints, f->endpoints, sizeof endpoints);
    snprintf(endpoints[1], sizeof endpoints[1], "tcp://127.0.0.1:1"); /* nobody listens there */
    snprintf(endpoints[2], sizeof endpoints[2], "nonsense");
    assert_int_equal(weft__watchdog_wire_open("127.0.0.1", f->keys[0], 0, &wire, endpoint), WEFT_OK);
    assert_int_equal(weft__watchdog_wire_peers(wire, WORLD, endpoints[0]), WEFT_ERR_PEER);
    assert_non_null(strstr(weft_last_error(), "nonsense"));
    snprintf(endpoints[2], sizeof endpoints[2], "tcp://nonsense"); /* an address, but no port */
    assert_int_equal(weft__watchdog_wire_peers(wire, WORLD, endpoints[0]), WEFT_OK);
    while (!status && sent < 10000) {
        status = weft__watchdog_wire_send(wire, 1, &sent, sizeof sent);
        sent += !status;
    }
    assert_int_equal(status, WEFT_ERR_MEMORY);
    assert_int_equal(sent, 256);
    assert_non_null(strstr(weft_last_error(), "rank 1"));
    weft__watchdog_wire_forget(wire, 1);
    assert_int_equal(weft__watchdog_wire_send(wire, 1, &sent, sizeof sent),
                     WEFT_ERR_PEER); /* not dialled again */
    assert_int_equal(weft__watchdog_wire_send(wire, 2, &sent, sizeof sent), WEFT_ERR_PEER);
    assert_int_equal(weft__watchdog_wire_send(wire, 7, &sent, sizeof sent), WEFT_ERR_PEER);
    weft__watchdog_wire_close(wire);
}

static long switches(int who)
{
    struct rusage usage;
    getrusage(who, &usage);
    return usage.ru_nvcsw;
}

static void sleeping_costs_nothing(void **state)
{
    fixture *f = *state;
    inbox box = {0};
    int zero = 0;
    long woken = LONG_MAX;
#ifdef __SANITIZE_THREAD__
    SKIP("the thread sanitizer has a thread of its own that wakes up");
#endif
    assert_int_equal(weft__watchdog_wire_send(f->wires[0], 1, &zero, sizeof zero), WEFT_OK);
    assert_true(receive(f, 1, &box, 0, 1, JOB_WAIT_MS));
    for (int i = 0; i < 10 && woken > 4; i++) { /* until what was sent before has been seen to */
        long before = switches(RUSAGE_SELF);
        weft__watchdog_wire_sleep(f->wires, WORLD, f->wake_fd, weft__deadline(weft__now_ns(), 1500));
        woken = switches(RUSAGE_SELF) - before; /* all threads of the process together */
    }
    assert_in_range(woken, 0, 4);
}

static void *ring_later(void *arg)
{
    uint64_t one = 1;
    usleep(50000);
    assert_int_equal(write(*(int *)arg, &one, sizeof one), sizeof one);
    return NULL;
}

static void sleeping_ends_in_time(void **state)
{
    fixture *f = *state;
    pthread_t thread;
    uint64_t left;
    int64_t start = weft__now_ns(), slept;
    weft__watchdog_wire_sleep(NULL, 0, f->wake_fd, start + 300 * WEFT__US);
    slept = weft__now_ns() - start;
    assert_in_range(slept, 300 * WEFT__US, JOB_LATE_MS * WEFT__MS);
    start = weft__now_ns();
    assert_int_equal(pthread_create(&thread, NULL, ring_later, &f->wake_fd), 0);
    weft__watchdog_wire_sleep(f->wires, WORLD, f->wake_fd, WEFT__NEVER);
    assert_in_range(weft__now_ns() - start, 50 * WEFT__MS, JOB_WAIT_MS * WEFT__MS);
    assert_int_equal(read(f->wake_fd, &left, sizeof left), -1); /* drained */
    pthread_join(thread, NULL);
    weft__watchdog_wire_sleep(f->wires, WORLD, f->wake_fd, 0);
}

/* What goes before the close arrives. */
static void closing_lets_messages_out(void **state)
{
    fixture *f = *state;
    char endpoint[WEFT__ENDPOINT_BYTES];
    weft__watchdog_wire *wire;
    inbox box = {0};
    assert_int_equal(weft__watchdog_wire_open("127.0.0.1", f->keys[2], 2, &wire, endpoint), WEFT_OK);
    assert_int_equal(weft__watchdog_wire_peers(wire, WORLD, f->endpoints[0]), WEFT_OK);
    for (int number = 0; number < 10; number++)
        assert_int_equal(weft__watchdog_wire_send(wire, 0, &number, sizeof number), WEFT_OK);
    weft__watchdog_wire_close(wire);
    assert_true(receive(f, 0, &box, 2, 10, JOB_WAIT_MS));
}

static void bad_addresses_are_refused(void **state)
{
    fixture *f = *state;
    char endpoint[WEFT__ENDPOINT_BYTES];
    weft__watchdog_wire *wire;
    assert_int_equal(weft__watchdog_wire_open("192.0.2.1", f->keys[0], 0, &wire, endpoint), WEFT_ERR_SYSTEM);
    assert_non_null(strstr(weft_last_error(), "192.0.2.1"));
    if (weft__watchdog_wire_open("::1", f->keys[0], 0, &wire, endpoint)) return; /* a host without IPv6 */
    assert_non_null(strstr(endpoint, "tcp://[::1]:"));
    weft__watchdog_wire_close(wire);
}

#define IN_FIXTURE(test) cmocka_unit_test_setup_teardown(test, open_wires, close_wires)

/* An endpoint that another rank told would have ZeroMQ open a file, or something in this process. */
static void test_endpoints_of_others(void **state)
{
    char own[WEFT__ENDPOINT_BYTES],
        told[WORLD][WEFT__ENDPOINT_BYTES] = {"", "tcp://127.0.0.1:5", "ipc:///tmp/x"};
    weft__watchdog_wire *wire;
    weft__keys *keys;
    (void)state;
    keys = keys_of("secret", NULL, WORLD);
    assert_int_equal(weft__watchdog_wire_open("127.0.0.1", keys, 0, &wire, own), WEFT_OK);
    assert_int_equal(weft__watchdog_wire_peers(wire, WORLD, told[0]), WEFT_ERR_PEER);
    assert_string_equal(
        weft_last_error(),
        "the watchdog of rank 2 is said to be at \"ipc:///tmp/x\": expected tcp://ADDRESS:PORT");
    memcpy(told[2], "tcp://", 7);
    assert_int_equal(weft__watchdog_wire_peers(wire, WORLD, told[0]), WEFT_OK);
    weft__watchdog_wire_close(wire);
    weft__keys_drop(keys);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_endpoints_of_others),
        IN_FIXTURE(all_hear_all_in_order),
        IN_FIXTURE(lengths_up_to_the_limit),
        IN_FIXTURE(huge_messages_are_dropped),
        IN_FIXTURE(strangers_are_not_heard),
        IN_FIXTURE(a_member_is_not_heard_as_another),
        IN_FIXTURE(nobody_else_hears),
        IN_FIXTURE(who_comes_early_comes_again),
        IN_FIXTURE(a_full_queue_is_told),
        IN_FIXTURE(sleeping_costs_nothing),
        IN_FIXTURE(sleeping_ends_in_time),
        IN_FIXTURE(closing_lets_messages_out),
        IN_FIXTURE(bad_addresses_are_refused),
    };
    alarm(JOB_ALARM_S);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
