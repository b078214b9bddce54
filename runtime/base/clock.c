/* clock.c - where the processor's counter and the kernel's clock meet.
 *
 * The kernel's own way from the counter to CLOCK_MONOTONIC waits for all that the processor has under way,
 * which costs 30 ns where the counter alone costs 10; a request is timed three times.  So each thread keeps a
 * reading of both and adds the ticks since, for 100 us: a rate that is wrong by 1/10000 is wrong by 10 ns
 * then.  Only where the kernel itself goes by that counter, for then it runs alike on all processors. */
#include "clock.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#define REACH_NS    (100 * WEFT__US)
#define PROMPT_PART 200 /* of the reach: between two readings; in more, something came between them */
#define BASELINE_NS (2 * WEFT__MS) /* from the first reading on: for the rate */
#define RATE_PART   10000          /* of the baseline: by so much it may be wrong */
#define FIRST_TRIES 8

WEFT__THREAD_WORD weft__clock_anchor weft__anchor;
_Atomic uint64_t weft__clock_scale;
_Atomic uint64_t weft__clock_reach;

static int64_t ask(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

#ifdef __x86_64__
static pthread_once_t once = PTHREAD_ONCE_INIT;
static weft__clock_anchor first;
static uint64_t first_blur;
static _Atomic bool counts; /* the kernel goes by the counter, and `first` is there */

/* Returns within how many ticks. */
static uint64_t read_both(weft__clock_anchor *anchor)
{
    uint64_t before = __rdtsc(), after;
    anchor->ns = ask();
    after = __rdtsc();
    anchor->ticks = before + (after - before) / 2;
    return after - before;
}

static void look_at_kernel(void)
{
    char name[8] = "";
    int fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    if (read(fd, name, sizeof name - 1) > 0 && !strcmp(name, "tsc\n")) {
        first_blur = UINT64_MAX;
        for (int i = 0; i < FIRST_TRIES; i++) {
            weft__clock_anchor anchor;
            uint64_t blur = read_both(&anchor);
            if (blur >= first_blur) continue;
            first = anchor;
            first_blur = blur;
        }
        atomic_store_explicit(&counts, true, memory_order_release);
    }
    close(fd);
}

void weft__clock_start(void)
{
    pthread_once(&once, look_at_kernel);
}

/* Several threads may find it at a time, nearly the same. */
static void find_rate(const weft__clock_anchor *now, uint64_t blur)
{
    uint64_t passed = now->ticks - first.ticks;
    double tick_ns = (double)(now->ns - first.ns) / (double)passed;
    if (now->ns - first.ns < BASELINE_NS || first_blur + blur > passed / RATE_PART) return;
    atomic_store_explicit(&weft__clock_scale, (uint64_t)(tick_ns * 4294967296.0), memory_order_relaxed);
    atomic_store_explicit(&weft__clock_reach, (uint64_t)((double)REACH_NS / tick_ns), memory_order_release);
}

int64_t weft__now_asked(void)
{
    uint64_t blur;
    if (!atomic_load_explicit(&counts, memory_order_acquire)) return ask();
    blur = read_both(&weft__anchor);
    if (!atomic_load_explicit(&weft__clock_reach, memory_order_relaxed)) find_rate(&weft__anchor, blur);
    if (blur > atomic_load_explicit(&weft__clock_reach, memory_order_relaxed) / PROMPT_PART)
        weft__anchor.ticks = 0;
    return weft__anchor.ns;
}
#else
void weft__clock_start(void)
{
}

int64_t weft__now_asked(void)
{
    return ask();
}
#endif
