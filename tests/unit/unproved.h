/* unproved.h - somebody at a port of ZeroMQ who has proved nothing, and begins a command of many MiB there: ZeroMQ would hold it
 * as it comes, until the handshake's time is over. */
#ifndef WEFT_TESTS_UNIT_UNPROVED_H
#define WEFT_TESTS_UNIT_UNPROVED_H
#include "job.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    UNPROVED_SAYS = 64 << 20,
    UNPROVED_SOCKETS = 32 << 20, /* more than two of them hold */
    UNPROVED_HELD = 8 << 20      /* what a process may grow by meanwhile */
};

static inline size_t resident_bytes(void)
{
    unsigned long all, resident;
    FILE *file = fopen("/proc/self/statm", "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu %lu", &all, &resident), 2);
    fclose(file);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

/* Over that connection to, or from, a socket of this process.  It ends soon, and the process has not grown. */
static inline void is_not_listened_to_for_long(int fd, bool as_server)
{
    const unsigned char greeting[64] = {0xff, [9] = 0x7f, 3, 0, 'C', 'U', 'R', 'V', 'E', [32] = as_server};
    static const unsigned char command[9] = {6, [5] = UNPROVED_SAYS >> 24};
    static const char zeros[64 * 1024];
    const struct timeval patience = {.tv_sec = JOB_WAIT_MS / 1000};
    unsigned char theirs[sizeof greeting];
    size_t taken = 0, before, most = 0;
    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience), 0);
    assert_int_equal(send(fd, greeting, sizeof greeting, MSG_NOSIGNAL), sizeof greeting);
    assert_int_equal(recv(fd, theirs, sizeof theirs, MSG_WAITALL), sizeof theirs);
    before = resident_bytes();
    assert_int_equal(send(fd, command, sizeof command, MSG_NOSIGNAL), sizeof command);
    while (taken < UNPROVED_SAYS) {
        const ssize_t n = send(fd, zeros, sizeof zeros, MSG_NOSIGNAL);
        const size_t now = resident_bytes();
        if (n < 0) break;
        taken += (size_t)n;
        if (now > most) most = now;
    }
    assert_true(taken < UNPROVED_SOCKETS);
    assert_true(most < before + UNPROVED_HELD);
    close(fd);
}
#endif
