/* dumping.c - asks for dumps, and has them made.
 *
 * The first failure of a context asks for one, a signal or the program for as many as it likes.  An operation whose time
 * is over waits until the records have been read, so that the ranks are seen before they know of the failure: that is the
 * watchdog's, needs memory alone, and has no other bound for who reads.  What puts the text into its folder is a thread of
 * its own for each (dump_writer.h): for a first dump that is waited for WEFT__DUMP_WAIT_NS, here and by whoever is given the
 * failure in a waiting call (weft__recording_await), for another one not at all.  One rank of a host reads and writes the
 * first dump for all (dump_turn.h), and the others wait WEFT__DUMP_WAIT_NS for each of these; if its process ends
 * meanwhile, or is stopped, the next does.  Whoever has read asks the other hosts to do the same (dump_asking.h), and waits
 * for none of them. */
#include "dumping.h"
#include "alarm.h"
#include "dump_asking.h"
#include "dump_turn.h"
#include "dump_writer.h"
#include "log.h"
#include "recording.h"
#include "settings.h"
#include "status.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define LOOK_NS      (2 * WEFT__MS)  /* at the rank that reads and writes; */
#define LOOK_MOST_NS (25 * WEFT__MS) /* less often the longer that takes, as it needs the processor more */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int contexts; /* open ones; under lock */
static bool listens; /* our handler is installed; under lock */
static _Atomic uint32_t signals;

/* ---- reading and writing ---- */

static weft_status dump_of(const weft_context *ctx, const char *why, bool again, weft__dump *dump)
{
    const weft__recording *rec = ctx->recording;
    if (!rec)
        return weft__fail(WEFT_ERR_STATE, "rank %d keeps no record: WEFT_RECORD is 0, or there was no room",
                          ctx->rank);
    *dump = (weft__dump){.records = rec->folder,
                         .run = rec->run,
                         .folder = rec->dump_dir,
                         .why = why,
                         .by = ctx->rank,
                         .place = atomic_load(&rec->place),
                         .again = again};
    return WEFT_OK;
}

/* Without memory for that, nothing is told of where other ranks are. */
static weft_status read_records(const weft_context *ctx, weft__dump *dump, weft__dump_text *text)
{
    weft__dump_rank *ranks =
        dump->place != WEFT__NO_PLACE ? calloc((size_t)ctx->world_size, sizeof *ranks) : NULL;
    weft_status status;
    for (int i = 0; ranks && i < ctx->world_size; i++)
        ranks[i] = (weft__dump_rank){ctx->peers[i].first_on_host, ctx->peers[i].host};
    dump->ranks = ranks;
    dump->world = ctx->world_size;
    status = weft__dump_read(dump, text);
    dump->ranks = NULL;
    free(ranks);
    return status;
}

/* text: the file's path, or why there is none.  Whoever asked wants to know where it is. */
static void tell(weft_context *ctx, const char *why, bool asked, weft_status status, const char *text)
{
    enum weft__log_level level = asked ? WEFT__WARN : WEFT__INFO;
    if (status != WEFT_OK)
        weft__log(level, "rank %d: nothing is dumped: %s", ctx->rank, text);
    else
        weft__log(level, "rank %d: %s: what the ranks of this host did last is in %s", ctx->rank, why, text);
    weft__record_happened(&ctx->record, WEFT__HAPPENED_DUMPED, -1, 0);
}

/* Another dump than the first.  It asks the other hosts for theirs. */
static weft_status read_again(weft_context *ctx, weft__dump *dump, uint64_t request, weft__dump_text *text)
{
    weft_status status = read_records(ctx, dump, text);
    if (status == WEFT_OK && dump->place != WEFT__NO_PLACE) weft__dump_ask(ctx, dump->why, request);
    return status;
}

/* ---- the first one ---- */

static weft__dumping_state state_of(const weft_context *ctx)
{
    return (weft__dumping_state)atomic_load(&ctx->dumping.state);
}

static bool is_under_way(weft__dumping_state state)
{
    return state >= WEFT__DUMPING_READING && state <= WEFT__DUMPING_LATE;
}

static bool is_waited_for(weft__dumping_state state)
{
    return state == WEFT__DUMPING_READING || state == WEFT__DUMPING_READ;
}

static void first_is_over(weft_context *ctx, weft_status status, const char *text)
{
    tell(ctx, ctx->dumping.why, false, status, text);
    weft__dumping_to(ctx, state_of(ctx), status == WEFT_OK ? WEFT__DUMPING_DONE : WEFT__DUMPING_FAILED);
}

/* turn: this rank's, and it becomes the writer's.  A processor that others want may take its time over this, and all the
 * while they only look at the note. */
static weft_status read_first(weft_context *ctx, weft__dump *dump, weft__dump_turn *turn)
{
    weft__dumping *dumping = &ctx->dumping;
    weft__dump_text text;
    weft_status status = read_records(ctx, dump, &text);
    if (status == WEFT_OK) {
        weft__dump_turn_note(turn, WEFT__DUMP_UNWRITTEN);
        if (dump->place != WEFT__NO_PLACE) weft__dump_ask(ctx, dumping->why, 0);
        dumping->first = weft__dump_writer_start(dump, &text, turn, weft__alarm_wake);
        if (dumping->first) return WEFT_OK;
        status = WEFT_ERR_SYSTEM;
    }
    weft__dump_turn_note(turn, WEFT__DUMP_UNREAD);
    weft__dump_turn_close(turn);
    return status;
}

/* Twice that in all, however many are stopped. */
static void wait_in(weft_context *ctx, weft__dumping_state from, weft__dumping_state to)
{
    weft__dumping *dumping = &ctx->dumping;
    const int64_t by_ns = weft__now_ns() + WEFT__DUMP_WAIT_NS;
    if (!dumping->most_ns) dumping->most_ns = by_ns + WEFT__DUMP_WAIT_NS;
    dumping->late_ns = dumping->first || by_ns < dumping->most_ns ? by_ns : dumping->most_ns;
    weft__dumping_to(ctx, from, to);
}

static void begin_first(weft_context *ctx)
{
    weft__dumping *dumping = &ctx->dumping;
    weft__dump dump;
    weft_status status = dump_of(ctx, dumping->why, false, &dump);
    weft__dump_turn *turn =
        status == WEFT_OK ? weft__dump_turn_open(dump.records, dump.run, dump.place) : NULL;
    if (status == WEFT_OK && weft__dump_turn_take(turn))
        status = read_first(ctx, &dump, turn);
    else
        dumping->turn = turn;
    if (status != WEFT_OK) {
        first_is_over(ctx, status, weft_last_error());
        return;
    }
    wait_in(ctx, WEFT__DUMPING_ASKED, dumping->first ? WEFT__DUMPING_READ : WEFT__DUMPING_READING);
}

static void let_go_of_first(weft_context *ctx)
{
    weft__dumping *dumping = &ctx->dumping;
    if (dumping->first)
        weft__dump_writer_let_go(dumping->first);
    else
        weft__dump_turn_close(dumping->turn);
    dumping->first = NULL;
    dumping->turn = NULL;
}

/* Another rank reads or writes it: has it done so? */
static void look_at_turn(weft_context *ctx)
{
    weft__dump_stage stage = weft__dump_turn_stage(ctx->dumping.turn);
    if (stage == WEFT__DUMP_UNWRITTEN && state_of(ctx) == WEFT__DUMPING_READING)
        wait_in(ctx, WEFT__DUMPING_READING, WEFT__DUMPING_READ);
    if (stage == WEFT__DUMP_READING || stage == WEFT__DUMP_UNWRITTEN) return;
    let_go_of_first(ctx);
    if (stage == WEFT__DUMP_UNREAD)
        weft__dumping_to(ctx, state_of(ctx), WEFT__DUMPING_ASKED);
    else
        weft__dumping_to(ctx, state_of(ctx),
                         stage == WEFT__DUMP_WRITTEN ? WEFT__DUMPING_DONE : WEFT__DUMPING_FAILED);
}

static void look_at_first(weft_context *ctx)
{
    weft__dumping *dumping = &ctx->dumping;
    weft_status status;
    const char *text;
    if (!dumping->first) {
        look_at_turn(ctx);
    } else if (weft__dump_writer_over(dumping->first, &status, &text)) {
        first_is_over(ctx, status, text);
        let_go_of_first(ctx);
    }
    if (is_waited_for(state_of(ctx)) && weft__now_ns() >= dumping->late_ns)
        weft__dumping_to(ctx, state_of(ctx), WEFT__DUMPING_LATE);
}

/* A quarter of the time that it has been waited for. */
static int64_t look_again(const weft_context *ctx)
{
    const int64_t now_ns = weft__now_ns(), waited_ns = now_ns - (ctx->dumping.late_ns - WEFT__DUMP_WAIT_NS);
    const int64_t pause_ns =
        !is_waited_for(state_of(ctx)) || waited_ns / 4 < LOOK_NS ? LOOK_NS : waited_ns / 4;
    return now_ns + (pause_ns < LOOK_MOST_NS ? pause_ns : LOOK_MOST_NS);
}

int64_t weft__dumping_first(weft_context *ctx, const char *why)
{
    if (!ctx->record.ops) return 0;
    weft__alarm_dump(ctx, why);
    return state_of(ctx) >= WEFT__DUMPING_LATE ? 0 : look_again(ctx);
}

/* ---- those that a signal or another host asks for ---- */

static bool is_being_written(weft_context *ctx)
{
    weft__dumping *dumping = &ctx->dumping;
    weft_status status;
    const char *text;
    if (!dumping->again) return false;
    if (!weft__dump_writer_over(dumping->again, &status, &text)) return true;
    tell(ctx, dumping->again_why, true, status, text);
    weft__dump_writer_let_go(dumping->again);
    dumping->again = NULL;
    return false;
}

/* A signal may have gone to all ranks of the host, and one of them is enough; what another host asks for comes back to
 * who has asked first. */
static void begin_again(weft_context *ctx, bool signalled)
{
    weft__dumping *dumping = &ctx->dumping;
    uint64_t request = signalled ? weft__dump_request(ctx) : dumping->asked_for;
    weft__dump dump;
    weft__dump_text read;
    weft_status status = dump_of(ctx, dumping->again_why, true, &dump);
    if (status == WEFT_OK) {
        weft__dump_turn *turn = weft__dump_turn_open(dump.records, dump.run, dump.place);
        const bool is_ours = weft__dump_turn_take_again(turn, request, signalled);
        weft__dump_turn_close(turn);
        if (!is_ours) return;
        status = read_again(ctx, &dump, request, &read);
    }
    if (status == WEFT_OK) dumping->again = weft__dump_writer_start(&dump, &read, NULL, weft__alarm_wake);
    if (!dumping->again) tell(ctx, dumping->again_why, true, WEFT_ERR_SYSTEM, weft_last_error());
}

static void attend_again(weft_context *ctx)
{
    weft__dumping *dumping = &ctx->dumping;
    uint32_t seen = atomic_load(&signals);
    bool signalled = seen != dumping->signals_seen;
    if (is_being_written(ctx) || (!signalled && !*dumping->asked)) return;
    snprintf(dumping->again_why, sizeof dumping->again_why, "%s",
             signalled ? "a signal asked for it" : dumping->asked);
    dumping->signals_seen = seen;
    *dumping->asked = 0;
    begin_again(ctx, signalled);
}

/* ---- the watchdog's ---- */

int64_t weft__dumping_attend(weft_context *ctx)
{
    if (is_under_way(state_of(ctx))) look_at_first(ctx);
    if (state_of(ctx) == WEFT__DUMPING_ASKED && weft__now_ns() >= ctx->dumping.from_ns) begin_first(ctx);
    attend_again(ctx);
    if (state_of(ctx) == WEFT__DUMPING_ASKED) return ctx->dumping.from_ns;
    if (!is_waited_for(state_of(ctx))) return WEFT__NEVER; /* whoever writes wakes */
    return ctx->dumping.first ? ctx->dumping.late_ns : look_again(ctx);
}

static bool is_to_come(const weft_context *ctx)
{
    return state_of(ctx) == WEFT__DUMPING_ASKED || is_under_way(state_of(ctx)) || ctx->dumping.again;
}

/* This rank may have to stand in for the one that was to write it, and then has as long for that. */
void weft__dumping_finish(weft_context *ctx)
{
    weft__dumping *dumping = &ctx->dumping;
    int64_t until;
    weft__dumping_attend(ctx); /* reads, which has no bound */
    until = weft__now_ns() + WEFT__DUMP_WAIT_NS;
    while (is_to_come(ctx) && weft__now_ns() < until) {
        const bool writes = dumping->first || dumping->again;
        const struct timespec pause = {.tv_nsec = writes ? WEFT__MS : LOOK_MOST_NS};
        nanosleep(&pause, NULL);
        weft__dumping_attend(ctx);
        if (!writes && dumping->first) until = weft__now_ns() + WEFT__DUMP_WAIT_NS;
    }
    if (is_to_come(ctx))
        weft__log(dumping->first || dumping->again ? WEFT__WARN : WEFT__INFO,
                  "rank %d: a dump is not written after %lld ms, and is waited for no longer", ctx->rank,
                  (long long)(WEFT__DUMP_WAIT_NS / WEFT__MS));
    if (is_under_way(state_of(ctx))) let_go_of_first(ctx);
    if (dumping->again) weft__dump_writer_let_go(dumping->again);
    dumping->again = NULL;
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
    weft__dump dump;
    weft__dump_text text;
    weft__dump_turn *turn;
    uint64_t request;
    weft_status status = weft__usable(ctx);
    if (status != WEFT_OK) return status;
    why = why ? why : "the program asked for it";
    status = dump_of(ctx, why, true, &dump);
    if (status != WEFT_OK) return status;
    request = weft__dump_request(ctx);
    turn = weft__dump_turn_open(dump.records, dump.run, dump.place);
    weft__dump_turn_take_anew(turn, request);
    weft__dump_turn_close(turn);
    status = read_again(ctx, &dump, request, &text);
    if (status != WEFT_OK) return status;
    status = weft__dump_write(&dump, &text, path, sizeof path);
    weft__dump_text_free(&text);
    if (status == WEFT_OK)
        weft__log(WEFT__WARN, "rank %d: %s: what the ranks of this host did last is in %s", ctx->rank, why,
                  path);
    return status;
}
