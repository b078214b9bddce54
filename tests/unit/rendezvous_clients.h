/* rendezvous_clients.h - a server at which ranks join, and clients of it that say what the test wants them to. */
#ifndef WEFT_TEST_RENDEZVOUS_CLIENTS_H
#define WEFT_TEST_RENDEZVOUS_CLIENTS_H
#include "clock.h"
#include "job.h"
#include "keys.h"
#include "rendezvous_wire.h"
#include "zap.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

static const uint8_t own[WEFT__RENDEZVOUS_ID_BYTES] = "the serving rank";
static const uint8_t run[WEFT__RUN_NONCE_BYTES] = "this run of job";
static weft__keys *keys;
static void *context;
static weft__address place;
static weft__rendezvous_server *server;
static const weft__tree tree = {1, 2}; /* hosts that speak to it, and to one of these */

static inline int begin(void **state)
{
    (void)state;
    memset(&place, 0, sizeof place);
    place.v4.sin_family = AF_INET;
    place.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return weft__keys_make("secret", 6, "job", &keys) || weft__zmq_take(&context) ||
           weft__rendezvous_serve(context, &place, keys, own, run, -1, &tree, &server);
}

static inline int end(void **state)
{
    (void)state;
    weft__rendezvous_stop(server, weft__now_ns());
    weft__zmq_give();
    assert_int_equal(keys->users, 1);
    weft__keys_drop(keys);
    return 0;
}

static inline void *client_with(const weft__keys *with)
{
    char endpoint[64];
    void *dealer = weft__zmq_socket(context, ZMQ_DEALER, false, false, with);
    assert_non_null(dealer);
    snprintf(endpoint, sizeof endpoint, "tcp://127.0.0.1:%d", weft__address_port(&place));
    assert_int_equal(zmq_connect(dealer, endpoint), 0);
    return dealer;
}

static inline void *client(void)
{
    return client_with(keys);
}

typedef struct joining {
    weft__rendezvous_header header;
    weft__rendezvous_who who;
} joining;

/* attempt: how many connections that client has made. */
static inline joining join_of(int name, const uint8_t *of_run, int rank, int world, uint32_t attempt)
{
    joining join = {{WEFT__RENDEZVOUS_MAGIC,
                     WEFT__RENDEZVOUS_VERSION,
                     WEFT__RENDEZVOUS_JOIN,
                     {0},
                     rank,
                     world,
                     0,
                     attempt,
                     0},
                    {.pid = 7, .host_id = "h", .host = "h"}};
    join.header.client[0] = (uint8_t)name;
    memcpy(join.who.run, of_run, sizeof join.who.run);
    return join;
}

static inline void say_join_on(void *dealer, int name, const uint8_t *of_run, int rank, int world,
                               uint32_t attempt)
{
    const joining join = join_of(name, of_run, rank, world, attempt);
    assert_int_equal(zmq_send(dealer, &join, sizeof join, 0), sizeof join);
}

static inline void say_join(void *dealer, int name, const uint8_t *of_run, int rank, int world)
{
    say_join_on(dealer, name, of_run, rank, world, 1);
}

typedef struct words {
    weft__rendezvous_header header;
    uint8_t payload[512];
} words;

/* The kind of the next answer; 0: none comes in time.  That the server still is there is none, however often it says so. */
static inline int take(void *dealer, int timeout_ms, words *got)
{
    const int64_t until = weft__deadline(weft__now_ns(), timeout_ms);
    memset(got, 0, sizeof *got);
    do {
        const int left_ms = weft__poll_ms(until);
        zmq_setsockopt(dealer, ZMQ_RCVTIMEO, &left_ms, sizeof left_ms);
        if (zmq_recv(dealer, got, sizeof *got - 1, 0) < (int)sizeof got->header) return 0;
    } while (got->header.kind == WEFT__RENDEZVOUS_STILL);
    return got->header.kind;
}

static inline int answer(void *dealer)
{
    words got;
    return take(dealer, JOB_WAIT_MS, &got);
}

static inline int no_answer(void *dealer)
{
    words got;
    return take(dealer, 300, &got);
}

/* Until the server says that these are missing; nobody else has answered on the way. */
static inline void await_missing(void *dealer, const char *missing)
{
    words got = {.payload = ""};
    weft__rendezvous_header ask = {.magic = WEFT__RENDEZVOUS_MAGIC,
                                   .version = WEFT__RENDEZVOUS_VERSION,
                                   .kind = WEFT__RENDEZVOUS_ASK};
    while (strcmp((char *)got.payload, missing) != 0) { /* ended by the alarm */
        assert_int_equal(zmq_send(dealer, &ask, sizeof ask, 0), sizeof ask);
        assert_int_equal(take(dealer, JOB_WAIT_MS, &got), WEFT__RENDEZVOUS_MISSING);
    }
}

static inline void say(void *dealer, int name, uint16_t kind)
{
    weft__rendezvous_header header = {.magic = WEFT__RENDEZVOUS_MAGIC,
                                      .version = WEFT__RENDEZVOUS_VERSION,
                                      .kind = kind};
    header.client[0] = (uint8_t)name;
    assert_int_equal(zmq_send(dealer, &header, sizeof header, 0), sizeof header);
}

enum { FAR = 1000 }; /* the port of a leader's relay is its name, and so much */

/* Where the relay of that leader is sent: to that of the one whose name this is, or to the server: 0. */
static inline int place_with_rank(void *dealer, int name, int rank)
{
    struct {
        weft__rendezvous_header header;
        weft__rendezvous_who who;
        weft__rendezvous_place place;
    } join = {.header = {.magic = WEFT__RENDEZVOUS_MAGIC,
                         .version = WEFT__RENDEZVOUS_VERSION,
                         .kind = WEFT__RENDEZVOUS_JOIN,
                         .rank = rank,
                         .world = 64,
                         .step = 1},
              .who = {.pid = 7, .host_id = "h", .host = "h"},
              .place = {.address = "127.0.0.1", .port = FAR + name}};
    weft__rendezvous_place told;
    words got;
    join.header.client[0] = (uint8_t)name;
    assert_int_equal(zmq_send(dealer, &join, sizeof join, 0), sizeof join);
    assert_int_equal(take(dealer, JOB_WAIT_MS, &got), WEFT__RENDEZVOUS_PLACED);
    memcpy(&told, got.payload, sizeof told);
    return told.port ? told.port - FAR : 0;
}

static inline int place_of(void *dealer, int name)
{
    return place_with_rank(dealer, name, -1);
}

/* A word that client `id` said by its first way comes when the client has gone: it takes rank 0 of two from nobody. */
static inline void expect_overtaken(void *first, int id)
{
    void *heir = client(), *other = client();
    int told[3];
    say_join_on(first, id, run, 0, 2, 1);
    say(first, id, WEFT__RENDEZVOUS_ASK);
    told[0] = answer(first); /* it has been read */
    say_join(heir, id + 1, run, 0, 2);
    say_join(other, id + 2, run, 1, 2);
    told[1] = answer(heir);
    told[2] = answer(other);
    zmq_close(first);
    zmq_close(heir);
    zmq_close(other);
    assert_int_equal(told[0], WEFT__RENDEZVOUS_MISSING);
    assert_int_equal(told[1], WEFT__RENDEZVOUS_JOINED);
    assert_int_equal(told[2], WEFT__RENDEZVOUS_JOINED);
}

#endif
