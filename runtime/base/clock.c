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
#define BASELINE_NS (2 * WEFT__MS) /* from the first reading on: for the rate */
#define PROMPT_NS   (WEFT__US / 2) /* longer between two readings: something came between them */

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
static _Atomic bool counts; /* the kernel goes by the counter, and `first` is there */

static void look_at_kernel(void)
{
    char name[8] = "";
    int fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    if (read(fd, name, sizeof name - 1) > 0 && !strcmp(name, "tsc\n")) {
        first = (weft__clock_anchor){__rdtsc(), ask()};
        atomic_store_explicit(&counts, true, memory_order_release);
    }
    close(fd);
}

void weft__clock_start(void)
{
    pthread_once(&once, look_at_kernel);
}

/* Whoever finds the baseline long enough; several would find the same. */
static void find_rate(uint64_t ticks, int64_t ns)
{
    uint64_t passed = ticks - first.ticks, scale;
    if (ns - first.ns < BASELINE_NS || !passed) return;
    scale = (uint64_t)((double)(ns - first.ns) / (double)passed * 4294967296.0);
    if (!scale) return;
    atomic_store_explicit(&weft__clock_scale, scale, memory_order_relaxed);
    atomic_store_explicit(&weft__clock_reach, (uint64_t)REACH_NS * passed / (uint64_t)(ns - first.ns),
                          memory_order_release);
}

int64_t weft__now_asked(void)
{
    uint64_t before, after;
    int64_t ns;
    if (!atomic_load_explicit(&counts, memory_order_acquire)) return ask();
    before = __rdtsc();
    ns = ask();
    after = __rdtsc();
    if (!atomic_load_explicit(&weft__clock_reach, memory_order_relaxed)) find_rate(before, ns);
    weft__anchor = (weft__clock_anchor){before + (after - before) / 2, ns};
    if ((after - before) * atomic_load_explicit(&weft__clock_scale, memory_order_relaxed) >> 32 > PROMPT_NS)
        weft__anchor.ticks = 0;
    return ns;
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
