/* moved_clock.h - a clock of its own for a program of tests: its deadlines and silences are not waited for, time goes
 * ahead when the test says so, on all of its processes.
 *
 * What the library and ZeroMQ call in its place stands here, so one file of a program includes it. */
#ifndef TESTS_UNIT_MOVED_CLOCK_H
#define TESTS_UNIT_MOVED_CLOCK_H
#include "clock.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { NAP_MS = 5 };

/* Where ZeroMQ finds them, too. */
#define IN_FRONT(name) __asm__(#name) __attribute__((visibility("default")))

int moved_clock_gettime(clockid_t clock, struct timespec *at) IN_FRONT(clock_gettime);
int napping_poll(struct pollfd *fds, nfds_t n, int timeout) IN_FRONT(poll);

static _Atomic int64_t *ahead_ns; /* shared: of the machine's; NULL: it is the machine's */

int moved_clock_gettime(clockid_t clock, struct timespec *at)
{
    const long result = syscall(SYS_clock_gettime, clock, at);
    int64_t ns;
    if (result || clock != CLOCK_MONOTONIC || !ahead_ns) return (int)result;
    ns = (int64_t)at->tv_sec * 1000000000 + at->tv_nsec + atomic_load(ahead_ns);
    at->tv_sec = (time_t)(ns / 1000000000);
    at->tv_nsec = (long)(ns % 1000000000);
    return 0;
}

/* Naps, so that a wait ends when its time has passed on that clock. */
int napping_poll(struct pollfd *fds, nfds_t n, int timeout)
{
    const int64_t until_ns = weft__deadline(weft__now_ns(), timeout);
    for (;;) {
        const int left_ms = weft__poll_ms(until_ns);
        const struct timespec nap = {.tv_nsec =
                                         (left_ms < 0 || left_ms > NAP_MS ? NAP_MS : left_ms) * WEFT__MS};
        int ready = (int)syscall(SYS_ppoll, fds, n, &nap, NULL, 0);
        if (ready || !left_ms) return ready;
    }
}

static void pass_time(int ms)
{
    atomic_fetch_add(ahead_ns, ms * WEFT__MS);
}

/* Before there is any other process.  False: that is not possible. */
static bool clock_begin(void)
{
    void *shared = mmap(NULL, sizeof *ahead_ns, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) return false;
    ahead_ns = shared;
    return true;
}
#endif
