/* wall_clock.c - see wall_clock.h. */
#include "wall_clock.h"

#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define IN_FRONT(name) __asm__(#name) __attribute__((visibility("default")))

int jumped_clock_gettime(clockid_t clock, struct timespec *at) IN_FRONT(clock_gettime);
int jumped_gettimeofday(struct timeval *at, void *zone) IN_FRONT(gettimeofday);
time_t jumped_time(time_t *at) IN_FRONT(time);

static _Atomic int64_t ahead_s;

void wall_clock_jump(int64_t seconds)
{
    atomic_store(&ahead_s, seconds);
}

int jumped_clock_gettime(clockid_t clock, struct timespec *at)
{
    const long result = syscall(SYS_clock_gettime, clock, at);
    if (!result && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        at->tv_sec += atomic_load(&ahead_s);
    return (int)result;
}

int jumped_gettimeofday(struct timeval *at, void *zone)
{
    const long result = syscall(SYS_gettimeofday, at, zone);
    if (!result && at) at->tv_sec += atomic_load(&ahead_s);
    return (int)result;
}

time_t jumped_time(time_t *at)
{
    struct timeval now;
    jumped_gettimeofday(&now, NULL);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
