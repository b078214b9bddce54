/* dumping.c - asks for dumps, and makes them.
 *
 * The first failure of a context asks for one, a signal or the program for as many as it likes.  An operation whose
 * time is over waits for its dump, so that the ranks are seen before they know of the failure; what else breaks a
 * group does not wait.  The watchdog writes, without the engine. */
#include "dumping.h"
#include "alarm.h"
#include "dump.h"
#include "log.h"
#include "recording.h"
#include "settings.h"
#include "status.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int contexts; /* open ones; under lock */
static bool listens; /* our handler is installed; under lock */
static _Atomic uint32_t signals;

/* ---- writing ---- */

static weft_status write_now(weft_context *ctx, const char *why, bool again, char *path, size_t bytes)
{
    weft__dump dump = {.why = why, .by = ctx->rank, .again = again};
    *path = 0;
    if (!ctx->recording)
        return weft__fail(WEFT_ERR_STATE, "rank %d keeps no record: WEFT_RECORD is 0, or there was no room",
                          ctx->rank);
    dump.records = ctx->recording->folder;
    dump.run = ctx->recording->run;
    dump.folder = ctx->recording->dump_dir;
    return weft__dump_write(&dump, path, bytes);
}

/* Is the dump there? */
static bool write_and_tell(weft_context *ctx, const char *why, bool asked)
{
    char path[WEFT__DUMP_PATH_BYTES];
    enum weft__log_level level = asked ? WEFT__WARN : WEFT__INFO;
    bool written = write_now(ctx, why, asked, path, sizeof path) == WEFT_OK;
    if (!written)
        weft__log(level, "rank %d: nothing is dumped: %s", ctx->rank, weft_last_error());
    else
        weft__log(level, "rank %d: %s: what the ranks of this host did last is in %s", ctx->rank, why, path);
    weft__record_happened(&ctx->record, WEFT__HAPPENED_DUMPED, -1, 0);
    return written;
}

void weft__dumping_attend(weft_context *ctx)
{
    uint32_t seen = atomic_load(&signals);
    if (atomic_load(&ctx->dump_state) == WEFT__DUMP_ASKED) {
        bool written = write_and_tell(ctx, ctx->dump_why, false);
        atomic_store(&ctx->dump_state, written ? WEFT__DUMP_DONE : WEFT__DUMP_FAILED);
    }
    if (seen == ctx->signals_seen) return;
    ctx->signals_seen = seen;
    write_and_tell(ctx, "a signal asked for it", true);
}

bool weft__dumping_first(weft_context *ctx, const char *why)
{
    if (!ctx->record.ops) return true;
    weft__alarm_dump(ctx, why);
    return atomic_load(&ctx->dump_state) >= WEFT__DUMP_DONE;
}

/* ---- the signal ---- */

static void on_signal(int number)
{
    int before = errno;
    (void)number;
    atomic_fetch_add(&signals, 1);
    weft__alarm_wake();
    errno = before;
}

/* A program that has a handler of its own for it, or ignores it, keeps that. */
static void listen(bool on)
{
    int number = (int)weft__setting_int(WEFT__SET_DUMP_SIGNAL);
    struct sigaction is, wanted = {.sa_flags = SA_RESTART};
    void (*from)(int) = on ? SIG_DFL : on_signal;
    if (!number || on == listens || sigaction(number, NULL, &is)) return;
    wanted.sa_handler = on ? on_signal : SIG_DFL;
    if (!(is.sa_flags & SA_SIGINFO) && is.sa_handler == from && !sigaction(number, &wanted, NULL))
        listens = on;
    if (!on) listens = false;
}

void weft__dumping_open(void)
{
    pthread_mutex_lock(&lock);
    if (contexts++ == 0) listen(true);
    pthread_mutex_unlock(&lock);
}

void weft__dumping_close(void)
{
    pthread_mutex_lock(&lock);
    if (--contexts == 0) listen(false);
    pthread_mutex_unlock(&lock);
}

/* ---- public ---- */

weft_status weft_dump(weft_context *ctx, const char *why)
{
    char path[WEFT__DUMP_PATH_BYTES];
    weft_status status = weft__usable(ctx);
    if (status != WEFT_OK) return status;
    why = why ? why : "the program asked for it";
    status = write_now(ctx, why, true, path, sizeof path);
    if (status == WEFT_OK)
        weft__log(WEFT__WARN, "rank %d: %s: what the ranks of this host did last is in %s", ctx->rank, why,
                  path);
    return status;
}
