/* The server of a store against members that do what no client of ours does: garbage, frames that are too
 * long, calls left waiting; and strangers. */
#include "clock.h"
#include "job.h"
#include "keys.h"
#include "kv.h"
#include "kv_server.h"
#include "kv_wire.h"
#include "slices.h"
#include "unproved.h"
#include "zap.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>
#include <zmq.h>

static weft__keys *keys;
static weft__kv_server *server;
static int port;
static char endpoint[64];
static weft__kv *good; /* a client of ours */
static void *context;

static int setup(void **state)
{
    (void)state;
    port = 0;
    if (weft__keys_make("secret", 6, "test", &keys) || weft__kv_serve("127.0.0.1", &port, keys, &server))
        return -1;
    snprintf(endpoint, sizeof endpoint, "tcp://127.0.0.1:%d", port);
    if (weft__zmq_take(&context)) return -1;
    return weft__kv_connect(endpoint, keys, weft__deadline(weft__now_ns(), JOB_WAIT_MS), &good) ? -1 : 0;
}

static int teardown(void **state)
{
    (void)state;
    good->ops->close(good);
    weft__kv_server_stop(server);
    weft__zmq_give();
    assert_int_equal(keys->users, 1);
    weft__keys_drop(keys);
    return 0;
}

static weft__kv_call call_of(weft__kv_kind kind, const char *key)
{
    return (weft__kv_call){.kind = kind,
                           .n = 1,
                           .keys = key,
                           .key_bytes = strlen(key) + 1,
                           .deadline_ns = weft__deadline(weft__now_ns(), JOB_WAIT_MS)};
}

static void server_works(void)
{
    static int64_t last;
    weft__kv_call call = call_of(WEFT__KV_ADD, "uproof");
    weft__kv_result result;
    call.amount = 1;
    if (good->ops->perform(good, &call, &result)) fail_msg("%s", weft_last_error());
    if (result.number != 1) assert_int_equal(result.number, last + 1);
    last = result.number;
}

/* A member's socket, to say anything with. */
static void *member(void)
{
    void *dealer = weft__zmq_socket(context, ZMQ_DEALER, false, false, keys);
    assert_non_null(dealer);
    assert_int_equal(zmq_connect(dealer, endpoint), 0);
    return dealer;
}

/* Sends a right call behind what came before on the same socket, and takes its answer. */
static void still_answers(void *dealer, uint64_t id)
{
    weft__kv_call call = call_of(WEFT__KV_SET, "uk");
    weft__kv_answer answer = {0};
    char frame[256];
    int wait_ms = JOB_WAIT_MS;
    zmq_setsockopt(dealer, ZMQ_RCVTIMEO, &wait_ms, sizeof wait_ms);
    weft__kv_request_write(&call, id, frame);
    assert_int_equal(zmq_send(dealer, frame, weft__kv_request_bytes(&call), 0),
                     weft__kv_request_bytes(&call));
    assert_int_equal(zmq_recv(dealer, &answer, sizeof answer, 0), sizeof answer);
    assert_int_equal(zmq_recv(dealer, frame, sizeof frame, 0), 0);
    assert_int_equal(answer.id, id);
    assert_int_equal(answer.status, WEFT_OK);
}

static void garbage_is_dropped(void **state)
{
    void *dealer = member();
    unsigned char frame[300];
    weft__kv_call call = call_of(WEFT__KV_SET, "uk");
    (void)state;
    for (size_t i = 0; i < sizeof frame; i++) frame[i] = (unsigned char)(i * 37);
    for (int length = 0; length < 300; length += 7) zmq_send(dealer, frame, (size_t)length, 0);
    weft__kv_request_write(&call, 1, frame);
    for (size_t length = 0; length < weft__kv_request_bytes(&call); length++)
        zmq_send(dealer, frame, length, 0);
    zmq_send(dealer, "two", 3, ZMQ_SNDMORE);
    zmq_send(dealer, frame, weft__kv_request_bytes(&call), 0);
    still_answers(dealer, 77);
    server_works();
    zmq_close(dealer);
}

static void a_frame_too_long_ends_its_connection(void **state)
{
    size_t bytes = WEFT__SLICE_BYTES + 4096;
    void *dealer = member(), *other = member();
    char *frame = calloc(1, bytes), answer[64];
    int wait_ms = 1000;
    (void)state;
    assert_non_null(frame);
    still_answers(dealer, 1);
    zmq_setsockopt(dealer, ZMQ_RCVTIMEO, &wait_ms, sizeof wait_ms);
    zmq_send(dealer, frame, bytes, 0);
    assert_int_equal(zmq_recv(dealer, answer, sizeof answer, 0), -1);
    still_answers(other, 2);
    server_works();
    zmq_close(dealer);
    zmq_close(other);
    free(frame);
}

static void a_call_too_long_is_dropped(void **state)
{
    void *dealer = member();
    zmq_msg_t call;
    (void)state;
    assert_int_equal(zmq_msg_init_size(&call, WEFT__KV_REQUEST_MAX + 1), 0);
    memset(zmq_msg_data(&call), 1, WEFT__KV_REQUEST_MAX + 1);
    assert_true(weft__slices_send(dealer, &call));
    still_answers(dealer, 3);
    zmq_close(dealer);
}

/* The longest value there is, and one of just a slice, between which nobody else's are mixed up. */
static void long_values_come_back_whole(void **state)
{
    static const size_t lengths[] = {WEFT__KV_VALUE_MAX, WEFT__SLICE_BYTES, 3 * WEFT__SLICE_BYTES + 5};
    char *value = malloc(WEFT__KV_VALUE_MAX), *room = malloc(WEFT__KV_VALUE_MAX);
    (void)state;
    assert_non_null(value);
    assert_non_null(room);
    for (size_t i = 0; i < WEFT__KV_VALUE_MAX; i++) value[i] = (char)(i % 251 + i / WEFT__SLICE_BYTES);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        weft__kv_call set = call_of(WEFT__KV_SET, "ulong"), get = call_of(WEFT__KV_GET, "ulong");
        weft__kv_result result;
        set.value = value;
        set.value_bytes = lengths[i];
        get.room = room;
        get.room_bytes = WEFT__KV_VALUE_MAX;
        assert_int_equal(good->ops->perform(good, &set, &result), WEFT_OK);
        assert_int_equal(good->ops->perform(good, &get, &result), WEFT_OK);
        assert_int_equal(result.bytes, lengths[i]);
        assert_memory_equal(room, value, lengths[i]);
    }
    free(value);
    free(room);
    server_works();
}

/* Members that ask for a key that never comes, and go. */
static void calls_left_waiting_go(void **state)
{
    weft__kv_call call = call_of(WEFT__KV_GET, "unever");
    char frame[256];
    (void)state;
    call.patient = true;
    weft__kv_request_write(&call, 5, frame);
    for (int i = 0; i < 50; i++) {
        void *dealer = member();
        for (int n = 0; n < 20; n++) zmq_send(dealer, frame, weft__kv_request_bytes(&call), 0);
        if (i % 2) still_answers(dealer, 6); /* the others go in the middle of it */
        zmq_close(dealer);
    }
    server_works();
    call = call_of(WEFT__KV_SET, "unever");
    weft__kv_result result;
    assert_int_equal(good->ops->perform(good, &call, &result), WEFT_OK);
    server_works();
}

static void strangers_do_not_hurt(void **state)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                             .sin_port = htons((uint16_t)port)};
    int fds[40];
    (void)state;
    for (int i = 0; i < 40; i++) {
        unsigned char noise[2048];
        fds[i] = socket(AF_INET, SOCK_STREAM, 0);
        assert_int_equal(connect(fds[i], (struct sockaddr *)&at, sizeof at), 0);
        for (size_t b = 0; b < sizeof noise; b++) noise[b] = (unsigned char)(b * 31 + (size_t)i);
        if (i % 3) (void)!send(fds[i], noise, i % 3 == 1 ? 3 : sizeof noise, MSG_NOSIGNAL);
        if (i % 2) shutdown(fds[i], SHUT_WR);
    }
    server_works();
    for (int i = 0; i < 40; i++) close(fds[i]);
    server_works();
}

static void who_has_proved_nothing_is_not_listened_to_for_long(void **state)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                             .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)state;
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    is_not_listened_to_for_long(fd, false);
}

/* Two servers cannot be at one place, and the second is told so at once. */
static void its_place_is_taken(void **state)
{
    weft__kv_server *second = NULL;
    int same = port;
    (void)state;
    assert_int_equal(weft__kv_serve("127.0.0.1", &same, keys, &second), WEFT_PENDING);
    assert_null(second);
    server_works();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(garbage_is_dropped),
        cmocka_unit_test(a_frame_too_long_ends_its_connection),
        cmocka_unit_test(a_call_too_long_is_dropped),
        cmocka_unit_test(long_values_come_back_whole),
        cmocka_unit_test(calls_left_waiting_go),
        cmocka_unit_test(strangers_do_not_hurt),
        cmocka_unit_test(who_has_proved_nothing_is_not_listened_to_for_long),
        cmocka_unit_test(its_place_is_taken),
    };
    alarm(JOB_ALARM_S);
    return cmocka_run_group_tests(tests, setup, teardown);
}
