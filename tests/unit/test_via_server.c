/* Ranks as threads and as processes meet at a server, get their ranks and gather; what keeps them from it is
 * told to all who can know it. */
#include "joiners.h"
#include "rendezvous_wire.h"
#include "secret.h"
#include "zap.h"

#include <zmq.h>

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
        parts[i].gather_bytes = WEFT__RENDEZVOUS_BLOCK_MAX;
        if (i % 2) parts[i].rank = -1;
    }
    play_as_threads(RANKS_MAX);
    all_met(RANKS_MAX);
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
    int port = port_take();
    (void)state;
    cast(4);
    for (int i = 2; i < 4; i++) {
        snprintf(parts[i].init_method, sizeof parts[i].init_method, "tcp://127.0.0.1:%d", port);
        parts[i].job = "other";
        parts[i].rank = i - 2;
    }
    for (int i = 0; i < 4; i++) parts[i].world_size = 2;
    play_as_threads(4);
    port_give(port);
    for (int i = 0; i < 4; i++) assert_true(parts[i].status == WEFT_OK && parts[i].gathered);
    assert_string_equal(parts[0].nonce, parts[1].nonce);
    assert_string_equal(parts[2].nonce, parts[3].nonce);
    assert_string_not_equal(parts[0].nonce, parts[2].nonce);
}

static bool are_alike(const weft__keys *a, const weft__keys *b)
{
    return !memcmp(a, b, offsetof(weft__keys, own_secret));
}

/* None of the one fits where one of the other is wanted. */
static void have_nothing_alike(const weft__keys *a, const weft__keys *b)
{
    assert_memory_not_equal(a->data, b->data, sizeof a->data);
    assert_memory_not_equal(a->wire, b->wire, sizeof a->wire);
    assert_memory_not_equal(a->job, b->job, sizeof a->job);
    assert_string_not_equal(a->curve_server_public, b->curve_server_public);
    assert_string_not_equal(a->curve_client_public, b->curve_client_public);
}

/* A user starts the same job twice, with one secret: what their ranks say after joining is bound to each. */
static void two_launches_have_keys_of_their_own(void **state)
{
    const int port = port_take();
    char *secret = password_file("launches");
    (void)state;
    cast(4);
    for (int i = 2; i < 4; i++) {
        snprintf(parts[i].init_method, sizeof parts[i].init_method, "tcp://127.0.0.1:%d", port);
        parts[i].rank = i - 2;
    }
    for (int i = 0; i < 4; i++) {
        parts[i].secret = secret;
        parts[i].world_size = 2;
    }
    play_as_threads(4);
    port_give(port);
    free(secret);
    for (int i = 0; i < 4; i++) assert_true(parts[i].status == WEFT_OK && parts[i].gathered);
    assert_true(are_alike(&parts[0].keys, &parts[1].keys));
    assert_true(are_alike(&parts[2].keys, &parts[3].keys));
    have_nothing_alike(&parts[0].keys, &parts[2].keys);
    for (int i = 0; i < 4; i++) /* and each rank has a pair that nobody else has */
        for (int k = 0; k < i; k++)
            assert_memory_not_equal(parts[i].keys.own_secret, parts[k].keys.own_secret, WEFT__KEY_BYTES);
}

/* Only rank 0 has little time, and it serves; the others begin when it does. */
static void hurry_the_server(int n, int timeout_ms)
{
    parts[0].timeout_ms = timeout_ms;
    for (int i = 1; i < n; i++) parts[i].ready = server_is_up;
}

static void missing_ranks_are_named(void **state)
{
    enum { FIRST_MS = 2 * SHORT_MS };
    (void)state;
    cast(6); /* of whom 2 and 5 never come; the serving rank's time is up first, and it tells the others */
    hurry_the_server(4, FIRST_MS);
    for (int i = 2; i < 4; i++) parts[i].rank = i + 1;
    play_as_processes(4);
    for (int i = 0; i < 4; i++) {
        double seconds = (double)(parts[i].opened_ns - parts[0].began_ns) / 1e9;
        told(i, WEFT_ERR_TIMEOUT, "rank 2 and rank 5 are missing after ");
        assert_true(seconds >= FIRST_MS / 1e3 && seconds < (FIRST_MS + JOB_LATE_MS) / 1e3);
    }
    cast(3); /* of whom 2 never comes; a client's time is up first, and long before the server's */
    hurry_the_server(2, 4 * SHORT_MS);
    parts[1].timeout_ms = SHORT_MS;
    play_as_threads(2);
    told(1, WEFT_ERR_TIMEOUT, "rank 2 is missing after ");
    told(0, WEFT_ERR_TIMEOUT, "rank 1 and rank 2 are missing after "); /* 1 has given up */
    cast(4);
    for (int i = 0; i < 2; i++) parts[i].rank = -1, parts[i].timeout_ms = SHORT_MS;
    play_as_threads(2);
    told(0, WEFT_ERR_TIMEOUT, " of 4 ranks are missing");
}

static void a_rank_that_does_not_gather_is_named(void **state)
{
    (void)state;
    cast(3);
    for (int i = 0; i < 3; i++) parts[i].timeout_ms = SHORT_MS;
    parts[2].stay = 1U << 0 | 1U << 1;
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
            if (i != who) told(i, WEFT_ERR_MEMORY, ": no room for the segment");
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
    parts[2].after = 1U << 0 | 1U << 1; /* comes when it has been decided, */
    parts[2].after_first = true;        /* while the server waits for it */
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

/* Its limit is shorter than what a server whose job goes well stays for the others. */
static void a_refusal_does_not_outlast_the_limit(void **state)
{
    (void)state;
    cast(2); /* of the five that one of them speaks of */
    parts[1].world_size = 5;
    for (int i = 0; i < 2; i++) parts[i].timeout_ms = SHORT_MS / 2;
    play_as_processes(2);
    for (int i = 0; i < 2; i++) {
        told(i, WEFT_ERR_MISMATCH, "different world sizes: ");
        assert_true(parts[i].seconds < (JOB_SLOWER * 500 + JOB_LATE_MS - 600) / 1e3);
    }
}

/* The last one comes just before the end, and says nothing any more. */
static void the_end_comes_soon_after_the_deadline(void **state)
{
    (void)state;
    cast(2);
    for (int i = 0; i < 2; i++) parts[i].timeout_ms = 2 * SHORT_MS;
    parts[1].stay_ms = 2 * SHORT_MS + JOB_LATE_MS + 3000; /* longer than rank 0 may wait for it */
    play_as_processes(2);
    assert_int_equal(parts[0].gather_status, WEFT_ERR_TIMEOUT);
    assert_true(parts[0].left_ns - parts[0].began_ns >= 2 * SHORT_MS * WEFT__MS);
    assert_true(parts[0].left_ns - parts[0].began_ns < (2 * SHORT_MS + JOB_LATE_MS) * WEFT__MS);
}

static void a_full_job_takes_nobody(void **state)
{
    (void)state;
    cast(3);
    for (int i = 0; i < 3; i++) parts[i].world_size = 2;
    for (int i = 0; i < 2; i++) parts[i].stay = 1U << 2;
    parts[2].after = 1U << 0 | 1U << 1;
    parts[2].rank = -1;
    parts[2].timeout_ms = SHORT_MS;
    play_as_processes(3);
    assert_true(parts[0].gathered && parts[1].gathered);
    told(2, WEFT_ERR_TIMEOUT, "no rank is free after ");
}

static void a_vanished_server_is_told(void **state)
{
    pid_t pids[2];
    (void)state;
    cast(2);
    parts[1].ready = server_is_up;
    for (int i = 0; i < 2; i++) parts[i].stay = 1U << 0; /* rank 0 for ever */
    for (int i = 0; i < 2; i++) pids[i] = play_as_process(i);
    await_all(1U << 0 | 1U << 1, OPENED);
    kill(pids[0], SIGKILL);
    waitpid(pids[0], NULL, 0);
    parts[0].stage = ENDED;
    waitpid(pids[1], NULL, 0);
    told(1, WEFT_ERR_PEER, "has gone while the job was starting");
    cast(2); /* before all were there: another one serves */
    pids[0] = play_as_process(0);
    while (!server_is_up()) usleep(1000);
    kill(pids[0], SIGKILL);
    pids[1] = play_as_process(1);
    waitpid(pids[0], NULL, 0);
    pids[0] = play_as_process(0);
    for (int i = 0; i < 2; i++) waitpid(pids[i], NULL, 0);
    all_met(2);
}

static void a_wrong_secret_is_refused(void **state)
{
    char *right = password_file("right"), *wrong = password_file("wrong");
    (void)state;
    cast(3);
    for (int i = 0; i < 3; i++) parts[i].secret = right;
    play_as_processes(3);
    all_met(3);
    cast(3);
    hurry_the_server(3, 2 * SHORT_MS);
    for (int i = 0; i < 3; i++) parts[i].secret = i == 2 ? wrong : right;
    play_as_processes(3);
    told(2, WEFT_ERR_AUTH, "the job's secret or the job's name differs"); /* not at its deadline */
    told(0, WEFT_ERR_TIMEOUT, "rank 2 is missing");
    told(1, WEFT_ERR_TIMEOUT, "rank 2 is missing");
    cast(2);
    hurry_the_server(2, 2 * SHORT_MS);
    for (int i = 0; i < 2; i++) parts[i].secret = right;
    parts[1].job = "another";
    play_as_processes(2);
    told(1, WEFT_ERR_AUTH, "the job's name differs");
    free(right);
    free(wrong);
}

/* A server of the job that lets nobody in and ends: what one that is closing does to who comes just then. */
static void refuse_once(const char *source, int port)
{
    weft__secret secret;
    weft__keys keys;
    void *context, *router, *monitor;
    char endpoint[64];
    uint16_t event = 0;
    assert_int_equal(weft__secret_take(source, "test", "", &secret), WEFT_OK);
    assert_int_equal(weft__keys_derive(secret.bytes, secret.length, "test", &keys), WEFT_OK);
    assert_int_equal(weft__zmq_take(&context), WEFT_OK);
    router = weft__zmq_socket(context, ZMQ_ROUTER, true, false, &keys);
    monitor = zmq_socket(context, ZMQ_PAIR);
    assert_int_equal(zmq_socket_monitor(router, "inproc://refusals", ZMQ_EVENT_HANDSHAKE_FAILED_AUTH), 0);
    assert_int_equal(zmq_connect(monitor, "inproc://refusals"), 0);
    snprintf(endpoint, sizeof endpoint, "tcp://127.0.0.1:%d", port);
    assert_int_equal(zmq_bind(router, endpoint), 0);
    while (event != ZMQ_EVENT_HANDSHAKE_FAILED_AUTH)
        assert_true(zmq_recv(monitor, &event, sizeof event, 0) > 0);
    usleep(10000);     /* its answer leaves */
    zmq_close(router); /* here: under the thread sanitizer a process takes a second to end */
    _exit(0);
}

static void who_refuses_once_may_be_closing(void **state)
{
    char *secret = password_file("once");
    int port = cast(2);
    pid_t server, pids[2];
    (void)state;
    for (int i = 0; i < 2; i++) parts[i].secret = secret;
    server = fork();
    assert_true(server >= 0);
    if (!server) refuse_once(secret, port);
    while (!server_is_up()) usleep(1000);
    gather_crowd(2);
    pids[0] = play_as_process(0);
    pids[1] = play_as_process(1);
    for (int i = 0; i < 2; i++) waitpid(pids[i], NULL, 0);
    waitpid(server, NULL, 0);
    all_met(2);
    free(secret);
}

/* A server of the job whose welcome gives that rank and world, to the first who joins. */
static void welcome_to(const char *source, int port, int rank, int world)
{
    struct {
        weft__rendezvous_header header;
        uint8_t nonce[WEFT__RUN_NONCE_BYTES];
    } joined = {{WEFT__RENDEZVOUS_MAGIC,
                 WEFT__RENDEZVOUS_VERSION,
                 WEFT__RENDEZVOUS_JOINED,
                 {0},
                 rank,
                 world,
                 0,
                 1,
                 0},
                {1}};
    uint8_t route[16], frame[512];
    char endpoint[64];
    weft__secret secret;
    weft__keys keys;
    void *context, *router;
    int n;
    assert_int_equal(weft__secret_take(source, "test", "", &secret), WEFT_OK);
    assert_int_equal(weft__keys_derive(secret.bytes, secret.length, "test", &keys), WEFT_OK);
    assert_int_equal(weft__zmq_take(&context), WEFT_OK);
    assert_int_equal(weft__zap_admit(&keys), WEFT_OK);
    router = weft__zmq_socket(context, ZMQ_ROUTER, true, false, &keys);
    snprintf(endpoint, sizeof endpoint, "tcp://127.0.0.1:%d", port);
    assert_int_equal(zmq_bind(router, endpoint), 0);
    for (;;) { /* until it is killed */
        n = zmq_recv(router, route, sizeof route, 0);
        if (zmq_recv(router, frame, sizeof frame, 0) < (int)sizeof joined.header || n < 0) continue;
        if (((weft__rendezvous_header *)(void *)frame)->kind != WEFT__RENDEZVOUS_JOIN) continue;
        zmq_send(router, route, (size_t)n, ZMQ_SNDMORE);
        zmq_send(router, &joined, sizeof joined, 0);
    }
}

static void a_welcome_that_cannot_be_is_refused(void **state)
{
    static const int welcomes[][2] = {{-5, 3}, {3, 3}, {0, 0}, {0, -1}, {INT32_MIN, INT32_MAX}, {7, 1 << 21}};
    char *secret = password_file("welcome");
    (void)state;
    for (size_t i = 0; i < sizeof welcomes / sizeof *welcomes; i++) {
        int port = cast(2), status;
        pid_t server = fork(), pid;
        assert_true(server >= 0);
        if (!server) welcome_to(secret, port, welcomes[i][0], welcomes[i][1]);
        while (!server_is_up()) usleep(1000);
        parts[1].secret = secret;
        parts[1].rank = parts[1].world_size = -1;
        parts[1].crowd = 0; /* it comes alone */
        pid = play_as_process(1);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        kill(server, SIGKILL);
        waitpid(server, NULL, 0);
        told(1, WEFT_ERR_MISMATCH, "the server's welcome gives rank");
    }
    free(secret);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(given_ranks_meet),
        cmocka_unit_test(ranks_are_assigned),
        cmocka_unit_test(many_threads_meet),
        cmocka_unit_test(a_late_server_is_waited_for),
        cmocka_unit_test(runs_follow_each_other),
        cmocka_unit_test(jobs_on_different_ports_do_not_meet),
        cmocka_unit_test(two_launches_have_keys_of_their_own),
        cmocka_unit_test(missing_ranks_are_named),
        cmocka_unit_test(a_rank_that_does_not_gather_is_named),
        cmocka_unit_test(a_failure_is_told_to_all),
        cmocka_unit_test(different_gathers_are_told),
        cmocka_unit_test(contradictions_are_told_to_all),
        cmocka_unit_test(a_refusal_does_not_outlast_the_limit),
        cmocka_unit_test(the_end_comes_soon_after_the_deadline),
        cmocka_unit_test(a_full_job_takes_nobody),
        cmocka_unit_test(a_vanished_server_is_told),
        cmocka_unit_test(a_wrong_secret_is_refused),
        cmocka_unit_test(who_refuses_once_may_be_closing),
        cmocka_unit_test(a_welcome_that_cannot_be_is_refused),
    };
    return run_joiners(tests, sizeof tests / sizeof *tests);
}
