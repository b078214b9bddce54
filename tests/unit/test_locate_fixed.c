/* An address that was given: who may serve there, and who else answers. */
#include "joiners.h"
#include "skip.h"

#include <zmq.h>

static void ipv6_works(void **state)
{
    int port = cast(2), fd = socket(AF_INET6, SOCK_STREAM, 0);
    struct sockaddr_in6 at = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    bool here = fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof at) == 0;
    (void)state;
    if (fd >= 0) close(fd);
    if (!here) SKIP("no IPv6 on loopback here");
    for (int i = 0; i < 2; i++)
        snprintf(parts[i].init_method, sizeof parts[i].init_method, "tcp://[::1]:%d", port);
    play_as_threads(2);
    all_met(2);
    assert_string_equal(parts[1].address, "::1");
}

static void wider_places_need_a_secret(void **state)
{
    char *secret = password_file("wide");
    (void)state;
    cast(2);
    snprintf(parts[0].init_method, sizeof parts[0].init_method, "tcp://192.0.2.1:29500");
    play(&parts[0]);
    told(0, WEFT_ERR_ARGUMENT, "set WEFT_SECRET=file:PATH on every rank, or meet at 127.0.0.1");
    snprintf(parts[0].init_method, sizeof parts[0].init_method, "tcp://0.0.0.0:29500");
    parts[0].secret = secret;
    play(&parts[0]);
    told(0, WEFT_ERR_ARGUMENT, "means every interface");
    snprintf(parts[0].init_method, sizeof parts[0].init_method, "tcp://no-such-host.invalid:29500");
    play(&parts[0]);
    told(0, WEFT_ERR_ARGUMENT, "host \"no-such-host.invalid\" cannot be resolved");
    parts[0].secret = "file:/nowhere";
    snprintf(parts[0].init_method, sizeof parts[0].init_method, "tcp://127.0.0.1:29500");
    play(&parts[0]);
    told(0, WEFT_ERR_SYSTEM, "/nowhere");
    free(secret);
}

static void nobody_listening_is_told(void **state)
{
    (void)state;
    cast(2);
    parts[1].timeout_ms = 150; /* less than a rank other than 0 waits before it serves */
    play(&parts[1]);
    told(1, WEFT_ERR_TIMEOUT, "nobody listens there after ");
    told(1, WEFT_ERR_TIMEOUT, "; 127.0.0.1 is this host only");
    cast(2);
    parts[0].timeout_ms = SHORT_MS; /* it has to have begun to serve by then */
    play(&parts[0]);
    told(0, WEFT_ERR_TIMEOUT, "rank 1 is missing after ");
    told(0, WEFT_ERR_TIMEOUT, "; 127.0.0.1 is this host only");
}

static bool apart; /* in a network of its own */

/* Hosts whose network comes up late.  Here the way to the address is not there before the address itself. */
static void a_missing_route_is_waited_for(void **state)
{
    char *secret = secret_file("route", "a secret of some length");
    pid_t pids[2];
    int port;
    (void)state;
    if (!apart) {
        free(secret);
        SKIP("no network namespaces here");
        return;
    }
    port = cast(2);
    for (int i = 0; i < 2; i++) {
        parts[i].secret = secret;
        snprintf(parts[i].init_method, sizeof parts[i].init_method, "tcp://192.0.2.7:%d", port);
    }
    parts[1].timeout_ms = SHORT_MS;
    waitpid(play_as_process(1), NULL, 0);
    told(1, WEFT_ERR_TIMEOUT, "the host cannot be reached: Network is unreachable after ");
    parts[1].timeout_ms = LONG_MS;
    gather_crowd(2);
    for (int i = 0; i < 2; i++) pids[i] = play_as_process(i);
    await_all(1U << 0 | 1U << 1, BEGUN);
    usleep(300000); /* both have looked for a way by then */
    add_address("192.0.2.7");
    for (int i = 0; i < 2; i++) waitpid(pids[i], NULL, 0);
    all_met(2);
    free(secret);
}

enum manners { SILENT, CHATTY, HANGS_UP };

typedef struct squatter {
    int fd;
    enum manners manners;
    pthread_t thread;
} squatter;

static void *squat(void *arg)
{
    squatter *s = arg;
    int kept[64], n = 0, fd;
    while (n < 64 && (fd = accept(s->fd, NULL, NULL)) >= 0) {
        if (s->manners == CHATTY) (void)!write(fd, "SSH-2.0-OpenSSH_9.2\r\n", 21);
        if (s->manners == HANGS_UP)
            close(fd);
        else
            kept[n++] = fd;
    }
    while (n > 0) close(kept[--n]);
    return NULL;
}

static void start_squatter(squatter *s, int port, enum manners manners)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                             .sin_port = htons((uint16_t)port)};
    s->fd = socket(AF_INET, SOCK_STREAM, 0);
    s->manners = manners;
    assert_int_equal(bind(s->fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(s->fd, 16), 0);
    assert_int_equal(pthread_create(&s->thread, NULL, squat, s), 0);
}

static void end_squatter(squatter *s)
{
    shutdown(s->fd, SHUT_RDWR);
    pthread_join(s->thread, NULL);
    close(s->fd);
}

static void something_else_on_the_port_is_told(void **state)
{
    static const char *const words[] = {"it accepts connections but does not greet: something else is there",
                                        "in use by something else: its first bytes",
                                        "closed before a greeting"};
    squatter s;
    (void)state;
    for (int manners = SILENT; manners <= HANGS_UP; manners++) {
        start_squatter(&s, cast(2), (enum manners)manners);
        if (manners != CHATTY) parts[0].timeout_ms = 3 * SHORT_MS; /* may be a serving rank: time tells */
        play(&parts[0]);
        end_squatter(&s);
        told(0, manners == CHATTY ? WEFT_ERR_PEER : WEFT_ERR_TIMEOUT, words[manners]);
    }
}

static void another_zeromq_program_is_told(void **state)
{
    void *context = zmq_ctx_new(), *socket = zmq_socket(context, ZMQ_ROUTER);
    char endpoint[64];
    (void)state;
    snprintf(endpoint, sizeof endpoint, "tcp://127.0.0.1:%d", cast(2));
    assert_int_equal(zmq_bind(socket, endpoint), 0);
    play(&parts[0]);
    zmq_close(socket); /* before anything can fail: the tests after this one fork */
    zmq_ctx_term(context);
    if (parts[0].status == WEFT_ERR_AUTH)
        told(0, WEFT_ERR_AUTH, "does not accept this rank"); /* it hung up before it had said all of itself */
    else
        told(0, WEFT_ERR_PEER, "it speaks ZeroMQ, but without the job's kind of authentication");
}

/* Noise at a serving rank's port: garbage, half greetings, connections that do nothing. */
static void noise_does_not_hurt(void **state)
{
    int port, noisy[40];
    pid_t pids[2];
    (void)state;
    port = cast(2);
    pids[0] = play_as_process(0);
    for (int i = 0; i < 40; i++) {
        unsigned char garbage[4096];
        while ((noisy[i] = connect_to(port)) < 0) usleep(5000);
        for (size_t b = 0; b < sizeof garbage; b++) garbage[b] = (unsigned char)(b * 31 + (size_t)i);
        if (i % 4 == 1)
            memcpy(garbage,
                   "\xff\0\0\0\0\0\0\0\x01\x7f\x03\x01"
                   "CURVE",
                   17);
        if (i % 4) (void)!send(noisy[i], garbage, i % 4 == 2 ? 5 : sizeof garbage, MSG_NOSIGNAL);
        if (i % 4 == 3) close(noisy[i]), noisy[i] = -1;
    }
    pids[1] = play_as_process(1);
    for (int i = 0; i < 2; i++) waitpid(pids[i], NULL, 0);
    all_met(2);
    for (int i = 0; i < 40; i++)
        if (noisy[i] >= 0) close(noisy[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ipv6_works),
        cmocka_unit_test(wider_places_need_a_secret),
        cmocka_unit_test(nobody_listening_is_told),
        cmocka_unit_test(a_missing_route_is_waited_for),
        cmocka_unit_test(something_else_on_the_port_is_told),
        cmocka_unit_test(another_zeromq_program_is_told),
        cmocka_unit_test(noise_does_not_hurt),
    };
    apart = be_apart();
    return run_joiners(tests, sizeof tests / sizeof *tests);
}
