/* clock.h - the monotonic clock in nanoseconds, and absolute deadlines on it.
 * A deadline is made once, where a duration enters the library, and never turned back into one. */
#ifndef WEFT_BASE_CLOCK_H
#define WEFT_BASE_CLOCK_H
#include <stdint.h>
#include <time.h>

#define WEFT__NEVER INT64_MAX
#define WEFT__MS    INT64_C(1000000)
#define WEFT__US    INT64_C(1000)

static inline int64_t weft__now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* By some milliseconds behind, and cheap: for sentences. */
static inline int64_t weft__about_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* timeout_ms from `now`; WEFT_FOREVER (any negative) and more than 146 years are WEFT__NEVER. */
static inline int64_t weft__deadline(int64_t now_ns, int64_t timeout_ms)
{
    if ((uint64_t)timeout_ms > (uint64_t)(WEFT__NEVER / 2 / WEFT__MS)) return WEFT__NEVER;
    return now_ns + timeout_ms * WEFT__MS;
}

/* Milliseconds until the deadline for poll(2) and friends: rounded up, 0 when past, -1 for never. */
static inline int weft__poll_ms(int64_t deadline_ns)
{
    int64_t left;
    if (deadline_ns == WEFT__NEVER) return -1;
    left = deadline_ns - weft__now_ns();
    if (left <= 0) return 0;
    left = (left + WEFT__MS - 1) / WEFT__MS;
    return left > INT32_MAX ? INT32_MAX : (int)left;
}
#endif
