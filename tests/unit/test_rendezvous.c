/* Joining as the environment says: the variables of env://, of hosts and of interfaces. */
#include "joiners.h"
#include "rendezvous_wire.h"
#include "secret.h"
#include "skip.h"
#include "status.h"
#include "zap.h"

#include <zmq.h>

static bool apart; /* in a network of its own */

/* Asks the server once who is missing; "": it does not answer. */
static void ask(void *context, const weft__keys *keys, char words[WEFT__SENTENCE_BYTES])
{
    const weft__rendezvous_header question = {.magic = WEFT__RENDEZVOUS_MAGIC,
                                              .version = WEFT__RENDEZVOUS_VERSION,
                                              .kind = WEFT__RENDEZVOUS_ASK};
    struct {
        weft__rendezvous_header header;
        char words[WEFT__SENTENCE_BYTES];
    } answer;
    char endpoint[64];
    int patience_ms = 500, bytes;
    void *dealer = weft__zmq_socket(context, ZMQ_DEALER, false, false, keys);
    assert_non_null(dealer);
    zmq_setsockopt(dealer, ZMQ_RCVTIMEO, &patience_ms, sizeof patience_ms);
    snprintf(endpoint, sizeof endpoint, "tcp://127.0.0.1:%d", rendezvous_port);
    assert_int_equal(zmq_connect(dealer, endpoint), 0);
    zmq_send(dealer, &question, sizeof question, 0);
    bytes = zmq_recv(dealer, &answer, sizeof answer, 0) - (int)sizeof answer.header;
    snprintf(words, WEFT__SENTENCE_BYTES, "%.*s", bytes > 0 ? bytes : 0, answer.words);
    zmq_close(dealer);
}

/* In a child, since it reads the settings. */
static void await_joined(const char *source, int n, int world)
{
    pid_t pid = fork();
    int status;
    if (pid == 0) {
        char words[WEFT__SENTENCE_BYTES], expected[64];
        weft__secret secret;
        weft__keys keys;
        void *context;
        alarm(JOB_ALARM_S);
        assert_int_equal(weft__secret_take(source, "test", "", &secret), WEFT_OK);
        assert_int_equal(weft__keys_derive(secret.bytes, secret.length, "test", &keys), WEFT_OK);
        assert_int_equal(weft__zmq_take(&context), WEFT_OK);
        snprintf(expected, sizeof expected, "%d of %d ranks", world - n, world);
        do {
            ask(context, &keys, words);
        } while (strncmp(words, expected, strlen(expected)) != 0);
        weft__zmq_give();
        exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* A child's own environment, since settings are read once in a process. */
static void hosts_come_one_after_the_other(void **state)
{
    static const char *const hosts[] = {"a", "b", "a", "c", "b", "a"};
    static const int expected[] = {0, 3, 1, 5, 4, 2};
    char *secret = password_file("hosts");
    pid_t pids[6];
    (void)state;
    cast(6);
    for (int i = 0; i < 6; i++) {
        parts[i].rank = -1;
        parts[i].secret = secret;
        setenv("WEFT_HOSTID", hosts[i], 1);
        pids[i] = play_as_process(i);
        if (i < 5) await_joined(secret, i + 1, 6); /* arrival decides */
    }
    unsetenv("WEFT_HOSTID");
    for (int i = 0; i < 6; i++) waitpid(pids[i], NULL, 0);
    all_met(6);
    for (int i = 0; i < 6; i++) assert_int_equal(parts[i].got_rank, expected[i]);
    free(secret);
}

static void an_interface_is_named(void **state)
{
    pid_t pid;
    (void)state;
    cast(1);
    setenv("WEFT_SOCKET_IFNAME", "lo", 1);
    pid = play_as_process(0);
    waitpid(pid, NULL, 0);
    all_met(1);
    assert_string_equal(parts[0].address, "127.0.0.1");
    setenv("WEFT_SOCKET_IFNAME", "nosuch0", 1);
    pid = play_as_process(0);
    waitpid(pid, NULL, 0);
    told(0, WEFT_ERR_ARGUMENT, "WEFT_SOCKET_IFNAME is \"nosuch0\"");
    told(0, WEFT_ERR_ARGUMENT, "lo");
    unsetenv("WEFT_SOCKET_IFNAME");
}

static void environment_brings_together(void **state)
{
    char port[16];
    pid_t pids[3];
    (void)state;
    snprintf(port, sizeof port, "%d", cast(3));
    setenv("MASTER_PORT", port, 1);
    setenv("WORLD_SIZE", "3", 1);
    for (int i = 0; i < 3; i++) {
        char rank[16];
        snprintf(rank, sizeof rank, "%d", i);
        setenv("RANK", rank, 1);
        memcpy(parts[i].init_method, "env://", 7);
        parts[i].rank = parts[i].world_size = -1;
        pids[i] = play_as_process(i);
    }
    for (int i = 0; i < 3; i++) waitpid(pids[i], NULL, 0);
    all_met(3);
    for (int i = 0; i < 3; i++) assert_int_equal(parts[i].got_rank, i);
    unsetenv("MASTER_PORT");
    setenv("RANK", "0", 1);
    setenv("WORLD_SIZE", "1", 1);
    play(&parts[0]);
    all_met(1); /* alone, without a port */
    setenv("WORLD_SIZE", "2", 1);
    setenv("MASTER_ADDR", "192.0.2.7", 1);
    play(&parts[0]);
    told(0, WEFT_ERR_ARGUMENT, "192.0.2.7) can be reached from other hosts, and the job has no secret");
    unsetenv("MASTER_ADDR");
    unsetenv("WORLD_SIZE");
    unsetenv("RANK");
}

/* Rank 0 need not be told its own address: with a secret it serves where other hosts can come. */
static void rank_0_serves_where_others_can_come(void **state)
{
    char *secret = secret_file("served", "a secret of some length"), port[16];
    pid_t pids[2];
    (void)state;
    if (!apart) {
        free(secret);
        SKIP("no network namespaces here");
        return;
    }
    add_address("192.0.2.7");
    snprintf(port, sizeof port, "%d", cast(2));
    setenv("MASTER_PORT", port, 1);
    setenv("WORLD_SIZE", "2", 1);
    for (int i = 0; i < 2; i++) {
        memcpy(parts[i].init_method, "env://", 7);
        parts[i].secret = secret;
        parts[i].world_size = -1;
        parts[i].timeout_ms = 5 * SHORT_MS;
    }
    setenv("WEFT_SOCKET_IFNAME", "lo:1", 1);
    pids[0] = play_as_process(0);
    unsetenv("WEFT_SOCKET_IFNAME");
    setenv("MASTER_ADDR", "192.0.2.7", 1);
    pids[1] = play_as_process(1);
    for (int i = 0; i < 2; i++) waitpid(pids[i], NULL, 0);
    unsetenv("MASTER_ADDR");
    all_met(2);
    assert_string_equal(parts[0].address, "192.0.2.7");
    unsetenv("MASTER_PORT");
    unsetenv("WORLD_SIZE");
    free(secret);
}

/* In a namespace of its own nobody else has that port. */
static void with_a_secret_the_usual_port_does(void **state)
{
    char *secret = secret_file("usual", "a secret of some length");
    (void)state;
    if (!apart) {
        free(secret);
        SKIP("no network namespaces here");
        return;
    }
    add_address("192.0.2.8");
    cast(2);
    setenv("CUPYX_DISTRIBUTED_HOST", "192.0.2.8", 1);
    setenv("WEFT_SOCKET_IFNAME", "lo:1", 1);
    for (int i = 0; i < 2; i++) {
        memcpy(parts[i].init_method, "env://", 7);
        parts[i].secret = secret;
    }
    play_as_processes(2);
    all_met(2);
    unsetenv("WEFT_SOCKET_IFNAME");
    unsetenv("CUPYX_DISTRIBUTED_HOST");
    free(secret);
}

/* Where there is neither an interface to use nor a default route, the ranks are on one host. */
static void ranks_without_a_way_out_meet_on_loopback(void **state)
{
    char *secret = secret_file("alone", "a secret of some length"), port[16];
    (void)state;
    if (!apart) {
        free(secret);
        SKIP("no network namespaces here");
        return;
    }
    snprintf(port, sizeof port, "%d", cast(2));
    setenv("MASTER_PORT", port, 1);
    for (int i = 0; i < 2; i++) {
        memcpy(parts[i].init_method, "env://", 7);
        parts[i].secret = secret;
    }
    play_as_processes(2);
    all_met(2);
    unsetenv("MASTER_PORT");
    free(secret);
}

static void keep_warning(int level, const char *line, void *arg)
{
    (void)arg;
    if (level == 1) snprintf(parts[0].sentence, sizeof parts[0].sentence, "%s", line);
}

static void a_short_secret_is_refused(void **state)
{
    char *secret = secret_file("short", "fifteen letters");
    (void)state;
    cast(1);
    parts[0].secret = secret;
    waitpid(play_as_process(0), NULL, 0);
    told(0, WEFT_ERR_ARGUMENT, "has 15 characters: expected at least 16");
    assert_null(strstr(parts[0].sentence, "fifteen"));
    free(secret);
}

static void a_poor_secret_is_warned_about(void **state)
{
    static const char *const texts[] = {"01010101010101010", "Dvl4WkJ0t1m7uJZ8kq0b"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        char *secret = secret_file("poor", texts[i]);
        cast(1);
        parts[0].secret = secret;
        weft_set_log(keep_warning, NULL);
        waitpid(play_as_process(0), NULL, 0);
        weft_set_log(NULL, NULL);
        all_met(1);
        if (i)
            assert_string_equal(parts[0].sentence, "");
        else
            assert_non_null(strstr(parts[0].sentence, "is weak: it has fewer than 8 different characters"));
        assert_null(strstr(parts[0].sentence, texts[i]));
        free(secret);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts_come_one_after_the_other),
        cmocka_unit_test(an_interface_is_named),
        cmocka_unit_test(a_short_secret_is_refused),
        cmocka_unit_test(a_poor_secret_is_warned_about),
        cmocka_unit_test(ranks_without_a_way_out_meet_on_loopback),
        cmocka_unit_test(rank_0_serves_where_others_can_come),
        cmocka_unit_test(with_a_secret_the_usual_port_does),
        cmocka_unit_test(environment_brings_together), /* last: this process reads its settings there */
    };
    apart = be_apart();
    return run_joiners(tests, sizeof tests / sizeof *tests);
}
