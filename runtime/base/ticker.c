#include "ticker.h"
#include "clock.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define SOURCE_PATH "/sys/devices/system/clocksource/clocksource0/current_clocksource"
#define SPAN_NS     (100 * WEFT__US)  /* the clock's pace may change by a two thousandth: 50 ns then */
#define BASE_LEAST  (10 * WEFT__MS)   /* a rate measured over less is not exact enough */
#define BASE_MOST   (2000 * WEFT__MS) /* over more is of no use: paces change, and numbers have an end */
#define BASE_NS     (1000 * WEFT__MS)
#define NEAR_TICKS  256 /* between the readings of the counter before and after the clock's, undisturbed */
#define TRIES       3
#define JUMP_PART   1000 /* a rate that differs by such a part of the last is no change of pace */

/* Does the kernel count time by the counter?  Then it has found it good on all processors. */
static bool is_the_kernels(void)
{
    char name[16] = "";
    int fd = open(SOURCE_PATH, O_RDONLY | O_CLOEXEC);
    ssize_t n;
    if (fd < 0) return false;
    n = read(fd, name, sizeof name - 1);
    close(fd);
    return n > 0 && !strcmp(name, "tsc\n");
}

void weft__ticker_open(weft__ticker *ticker)
{
    memset(ticker, 0, sizeof *ticker);
    ticker->usable = is_the_kernels();
}

/* A moment on both; false: something came in between, three times over. */
static bool read_both(uint64_t *ticks, int64_t *ns)
{
    for (int i = 0; i < TRIES; i++) {
        uint64_t before = weft__ticks(), between;
        *ns = weft__now_ns();
        between = weft__ticks() - before;
        *ticks = before + between / 2;
        if (between <= NEAR_TICKS) return true;
    }
    return false;
}

static void set_base(weft__ticker *ticker)
{
    ticker->base_ticks = ticker->ticks;
    ticker->base_ns = ticker->ns;
}

static bool jumped(uint64_t rate, uint64_t last)
{
    uint64_t apart = rate > last ? rate - last : last - rate;
    return last && apart > last / JUMP_PART;
}

/* From the base to the last reading.  Where that cannot be, as after a sleep of the
 * machine, it begins anew. */
static void measure_rate(weft__ticker *ticker)
{
    int64_t passed = ticker->ns - ticker->base_ns;
    uint64_t ticks = ticker->ticks - ticker->base_ticks, rate;
    if (!ticker->base_ns || passed > BASE_MOST) {
        set_base(ticker);
        return;
    }
    if (passed < BASE_LEAST) return;
    rate = ticks ? ((uint64_t)passed << WEFT__TICKER_FRACTION) / ticks : 0;
    if (!rate || jumped(rate, ticker->rate)) {
        ticker->rate = 0;
        set_base(ticker);
        return;
    }
    ticker->rate = rate;
    if (passed >= BASE_NS) set_base(ticker);
}

int64_t weft__ticker_read(weft__ticker *ticker)
{
    uint64_t ticks;
    int64_t now;
    if (!ticker->usable) return weft__now_ns();
    if (!read_both(&ticks, &now)) return now;
    ticker->ticks = ticks;
    ticker->ns = now;
    measure_rate(ticker);
    ticker->span = ticker->rate ? ((uint64_t)SPAN_NS << WEFT__TICKER_FRACTION) / ticker->rate : 0;
    return now;
}
