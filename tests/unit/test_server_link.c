/* The connection by which a rank meets the others, to somebody who is not who it should be. */
#include "job.h"
#include "keys.h"
#include "server_link.h"
#include "zap.h"

#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static int listener;
static weft__address place;
static weft__link rank;

static int begin(void **state)
{
    socklen_t bytes = sizeof place.v4;
    (void)state;
    rank = (weft__link){.world = 64, .silent_ms = 1000};
    place = (weft__address){.v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}};
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return weft__keys_make("secret", 6, "job", &rank.keys) || weft__zmq_take(&rank.context) ||
           bind(listener, &place.any, bytes) || listen(listener, 1) ||
           getsockname(listener, &place.any, &bytes);
}

static int end(void **state)
{
    (void)state;
    weft__link_close(&rank);
    weft__zmq_give();
    weft__keys_drop(rank.keys);
    close(listener);
    return 0;
}

/* Whoever is at that address has proved nothing yet and begins a command of many MiB, which ZeroMQ would hold as it comes: it is no
 * longer than what may be answered in a world of that size. */
static void who_has_proved_nothing_is_not_listened_to_for_long(void **state)
{
    enum { SAID = 64 << 20, SOCKETS = 32 << 20 /* more than two of them hold */ };
    static const unsigned char greeting[64] = {0xff, [9] = 0x7f, 3, 0, 'C', 'U', 'R', 'V', 'E', [32] = 1};
    static const unsigned char command[9] = {6, [5] = SAID >> 24};
    static const char zeros[64 * 1024];
    const struct timeval patience = {.tv_sec = JOB_WAIT_MS / 1000};
    unsigned char theirs[sizeof greeting];
    size_t taken = 0;
    int fd;
    (void)state;
    assert_int_equal(weft__link_connect(&rank, &place), WEFT_OK);
    fd = accept(listener, NULL, NULL);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience), 0);
    assert_int_equal(send(fd, greeting, sizeof greeting, MSG_NOSIGNAL), sizeof greeting);
    assert_int_equal(recv(fd, theirs, sizeof theirs, MSG_WAITALL), sizeof theirs);
    assert_int_equal(send(fd, command, sizeof command, MSG_NOSIGNAL), sizeof command);
    while (taken < SAID) {
        ssize_t n = send(fd, zeros, sizeof zeros, MSG_NOSIGNAL);
        if (n < 0) break;
        taken += (size_t)n;
    }
    assert_true(taken < SOCKETS);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(who_has_proved_nothing_is_not_listened_to_for_long, begin, end),
    };
    alarm(JOB_ALARM_S);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
