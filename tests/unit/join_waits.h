/* join_waits.h - until when ranks are waited for that join: by what the server says of who is missing, as a rank would be
 * told that asks, and by their ends. */
#ifndef TESTS_UNIT_JOIN_WAITS_H
#define TESTS_UNIT_JOIN_WAITS_H
#include "joiners.h"
#include "keys.h"
#include "rendezvous_wire.h"
#include "secret.h"
#include "zap.h"

#include <zmq.h>

static const char secret_text[] = "of this test, and long enough for anybody", *secret = "env:RELAY_SECRET";

static void derive_keys(weft__keys *keys)
{
    weft__secret read;
    assert_int_equal(weft__secret_take(secret, "test", "", &read), WEFT_OK);
    assert_int_equal(weft__keys_derive(read.bytes, read.length, "test", keys), WEFT_OK);
}

/* Asks the server who is missing until its words begin so.  As a process, so that ranks are forked from one without
 * ZeroMQ's threads. */
static void await_words(const char *words)
{
    const weft__rendezvous_header ask = {.magic = WEFT__RENDEZVOUS_MAGIC,
                                         .version = WEFT__RENDEZVOUS_VERSION,
                                         .kind = WEFT__RENDEZVOUS_ASK,
                                         .client = {0xff}};
    char endpoint[64], frame[1024];
    pid_t pid = fork();
    int status;
    assert_true(pid >= 0);
    if (!pid) {
        weft__keys keys;
        void *context, *dealer;
        int linger = 0;
        alarm(JOB_ALARM_S);
        derive_keys(&keys);
        snprintf(endpoint, sizeof endpoint, "tcp://127.0.0.1:%d", rendezvous_port);
        if (weft__zmq_take(&context)) exit(1);
        dealer = weft__zmq_socket(context, ZMQ_DEALER, false, false, &keys);
        if (!dealer || zmq_setsockopt(dealer, ZMQ_LINGER, &linger, sizeof linger) ||
            zmq_connect(dealer, endpoint))
            exit(1);
        do {
            usleep(5000);
            memset(frame, 0, sizeof frame);
            zmq_send(dealer, &ask, sizeof ask, 0);
            zmq_recv(dealer, frame, sizeof frame - 1, 0);
        } while (strncmp(frame + sizeof ask, words, strlen(words)) != 0);
        zmq_close(dealer);
        weft__zmq_give();
        exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* The first that it names is that one: those before it have joined. */
static void await_all_before(int missing)
{
    char words[32];
    snprintf(words, sizeof words, "rank %d", missing);
    await_words(words);
}

static void reap(const pid_t *pids, unsigned mask)
{
    for (int i = 0; mask >> i; i++)
        if (mask >> i & 1) waitpid(pids[i], NULL, 0);
}

static void end_rank(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}
#endif
