/* test_faults.c - operations on device memory that end badly: a call of NCCL that hangs, in the making of a
 * communicator and in a group call, an error that NCCL finds later, a rank that is late or killed.  Every
 * rank's request ends in time and says why, host memory goes on meanwhile, and the process lives.
 *
 * The scripts are the emulation's; a rule for "dev1" hits rank 1, also where ranks are threads.  What needs
 * one is left out on real devices. */
#include "sum.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { RANKS = 3, ODD = 1, BEGAN = 0 };

static void device_sum_works(job_rank *me, weft_group *group)
{
    operands o = take_operands(me);
    weft_request *req = begin_sum(group, o, NULL);
    WAIT_OK(req);
    check_sum(weft_group_size(group), o.out);
}

/* Only one rank has a script to set: where ranks are threads, they share it. */
static void set_script(job_rank *me, const char *script)
{
    job_meet(me);
    if (me->rank == ODD) {
        device()->emu_script(script);
    }
    job_meet(me);
}

/* In every process; of ranks that are threads of one the first sets it. */
static void set_script_everywhere(job_rank *me, const char *script)
{
    int32_t pid = (int32_t)getpid(), pids[RANKS];
    bool first = true;
    CHECK_OK(weft_all_gather(me->world, &pid, pids, 1, WEFT_INT32, NULL, NULL));
    for (int r = 0; r < me->rank; r++) first = first && pids[r] != pid;
    if (first) device()->emu_script(script);
    job_meet(me);
}

/* Host memory on another group of the same ranks, and on the same one where that still lives. */
static void host_works(weft_group *group)
{
    for (int i = 0; i < 20; i++) job_host_sum_works(group);
}

/* Not before the first rank's time is up, and not much later. */
static void check_told(job_rank *me, weft_request *req, weft_status status, const char *words)
{
    WAIT_STATUS(status, req);
    weft_request_info info = job_info(req);
    CHECK_PERIOD(job_earliest(me, BEGAN), info.settled_ns, job_short_ms(), INT32_MAX);
    CHECK_PERIOD(info.submitted_ns, info.settled_ns, 0, job_short_ms() + job_late_ms());
    CHECK_TEXT(weft_request_message(req), words);
}

static void note_beginning(job_rank *me, weft_request *req)
{
    job_results(me, me->rank)[BEGAN] = job_info(req).submitted_ns;
}

/* ---- calls that hang
 * ------------------------------------------------------------------------------------- */

typedef struct hang {
    const char *script, *words; /* the words tell the phase */
    unsigned named;             /* in the making of a communicator every rank waits for the one that hangs */
    bool first;                 /* the operation is the group's first on a device */
} hang;

static void hangs(job_rank *me)
{
    const hang *h = me->arg;
    if (!device_is_emulated()) {
        return;
    }
    weft_group *group = job_group(me, RANKS, "doomed", 0), *host = job_group(me, RANKS, "host", 0);
    operands o = take_operands(me);
    if (!h->first) {
        device_sum_works(me, group);
    }
    CHECK_OK(weft_group_set_timeout(group, job_short_ms()));
    set_script(me, h->script);
    weft_request *req = begin_sum(group, o, NULL);
    note_beginning(me, req);
    host_works(host);
    check_told(me, req, WEFT_ERR_TIMEOUT, h->words);
    CHECK_NAMES(weft_request_message(req), h->named, RANKS);
    weft_release(req);
    CHECK(job_await_break(group, job_late_ms()) < 0);
    CHECK_STATUS(WEFT_ERR_BROKEN,
                 weft_all_reduce(group, o.in, o.out, COUNT, WEFT_INT32, WEFT_SUM, NULL, NULL));
    host_works(host);
    host_works(me->world);
    job_message_works(group, 0, ODD, 3);
    job_meet(me);
}

enum { RESTS_MS = 300 }; /* for a progress thread to go to rest, where two would get in each other's way */

/* The group has broken, and says so until its thread is given up. */
static void await_loss(job_rank *me, weft_group *group)
{
    const weft_call call = {.memory = WEFT_MEMORY_CUDA, .stream = WEFT_NO_STREAM};
    int64_t end = job_now_ns() + job_wait_ms() * INT64_C(1000000);
    weft_status status;
    while ((status = weft_barrier(group, &call, NULL)) == WEFT_ERR_BROKEN && job_now_ns() < end)
        job_sleep_ms(1);
    CHECK_STATUS(WEFT_ERR_SYSTEM, status);
    CHECK_TEXT(weft_last_error(), "is lost");
    job_mark(me, 0);
}

/* The device is lost, and with it the thread; what another has taken over must not notice that it returns. */
static void returns_late(job_rank *me)
{
    if (!device_is_emulated()) {
        return;
    }
    weft_group *group = job_group(me, RANKS, "doomed", 0), *host = job_group(me, RANKS, "host", 0);
    operands o = take_operands(me);
    device_sum_works(me, group);
    CHECK_OK(weft_group_set_timeout(group, job_short_ms()));
    set_script(me, "dev1:ncclGroupEnd@1=stuck");
    weft_request *req = begin_sum(group, o, NULL);
    CHECK(weft_wait(req, job_wait_ms()) != WEFT_OK);
    weft_release(req);
    CHECK(job_await_break(group, job_late_ms()) < 0);
    host_works(host);
    if (me->rank == ODD) {
        await_loss(me, group);
        device()->emu_release();
    }
    job_await(me, 0, 1);
    job_sleep_ms(RESTS_MS);
    host_works(host);
    if (me->rank == ODD) {
        CHECK_STATUS(WEFT_ERR_SYSTEM,
                     weft_all_reduce(group, o.in, o.out, COUNT, WEFT_INT32, WEFT_SUM, NULL, NULL));
        CHECK_TEXT(weft_last_error(), "is lost");
    }
    job_meet(me);
}

/* ---- what NCCL finds later
 * --------------------------------------------------------------------------------- */

static void asynchronous(job_rank *me)
{
    if (!device_is_emulated()) {
        return;
    }
    weft_group *group = job_group(me, RANKS, "doomed", job_wait_ms()),
               *host = job_group(me, RANKS, "host", 0);
    operands o = take_operands(me);
    device_sum_works(me, group);
    /* The first rank does not come before it is let out, so what the odd one finds it finds before its own is done. */
    set_script_everywhere(me, "dev1:async@1=value:2;dev1:ncclGroupEnd@1=delay:500;dev0:ncclGroupEnd@1=hang");
    int64_t before = job_now_ns();
    weft_request *req = begin_sum(group, o, NULL);
    weft_status status = weft_wait(req, job_wait_ms());
    CHECK(status == WEFT_ERR_SYSTEM || status == WEFT_ERR_BROKEN || status == WEFT_ERR_PEER ||
          (status == WEFT_OK && me->rank != ODD));
    CHECK_PERIOD(before, job_now_ns(), 0, 500 + job_late_ms());
    weft_release(req);
    CHECK(job_await_break(group, job_late_ms()) < 0);
    host_works(host);
    job_meet(me);
}

/* ---- ranks that do not come, or die
 * -------------------------------------------------------------------------- */

static void late(job_rank *me)
{
    weft_group *group = job_group(me, RANKS, "timed", job_short_ms()),
               *other = job_group(me, RANKS, "other", 0);
    operands o = take_operands(me);
    device_sum_works(me, other);
    job_meet(me);
    if (me->rank != ODD) {
        weft_request *req = begin_sum(group, o, NULL);
        note_beginning(me, req);
        check_told(me, req, WEFT_ERR_TIMEOUT, "all_reduce #1");
        CHECK_NAMES(weft_request_message(req), 1U << ODD, RANKS);
        weft_release(req);
    }
    job_meet(me);
    CHECK(job_await_break(group, job_late_ms()) < 0);
    CHECK_STATUS(WEFT_ERR_BROKEN,
                 weft_all_reduce(group, o.in, o.out, COUNT, WEFT_INT32, WEFT_SUM, NULL, NULL));
    device_sum_works(me, other); /* nothing was torn down */
    device_sum_works(me, me->world);
    host_works(other);
}

/* In the middle of a stream of operations: some are done, one is cut, the rest is refused. */
static void killed(job_rank *me)
{
    weft_group *pair = me->rank == 2 ? NULL : job_group(me, 2, "pair", 0);
    weft_status status = WEFT_OK;
    operands o = take_operands(me);
    for (int i = 0; status == WEFT_OK; i++) {
        if (i == 10 && me->rank == 0) {
            job_results(me, 2)[BEGAN] = job_now_ns();
            job_kill(me, 2);
        }
        status = weft_all_reduce(me->world, o.in, o.out, COUNT, WEFT_INT32, WEFT_SUM, NULL, NULL);
    }
    CHECK(status == WEFT_ERR_PEER || status == WEFT_ERR_BROKEN);
    CHECK_PERIOD(job_results(me, 2)[BEGAN], job_now_ns(), 0, job_late_ms());
    CHECK(job_names(weft_last_error(), 2));
    CHECK_STATUS(WEFT_ERR_BROKEN,
                 weft_all_reduce(me->world, o.in, o.out, COUNT, WEFT_INT32, WEFT_SUM, NULL, NULL));
    host_works(pair);
    device_sum_works(me, pair);
}

/* While the others' kernels wait for its own. */
static void killed_in_a_call(job_rank *me)
{
    weft_group *pair = me->rank == 2 ? NULL : job_group(me, 2, "pair", 0);
    operands o = take_operands(me);
    device_sum_works(me, me->world);
    job_meet(me);
    if (me->rank == 2 && device_is_emulated()) {
        device()->emu_script("ncclGroupEnd@1=hang");
    }
    job_meet(me);
    weft_request *req = me->rank == 2 && !device_is_emulated() ? NULL : begin_sum(me->world, o, NULL);
    job_mark(me, 0);
    job_await(me, 0, RANKS);
    if (me->rank == 2) {
        job_sleep_ms(JOB_LIMIT_MS);
    }
    if (me->rank == 0) {
        job_sleep_ms(200); /* as a rule they are all inside by then */
        job_results(me, 2)[BEGAN] = job_now_ns();
        job_kill(me, 2);
        job_mark(me, 1);
    }
    job_await(me, 1, 1);
    WAIT_STATUS(WEFT_ERR_PEER, req);
    CHECK_PERIOD(job_results(me, 2)[BEGAN], job_info(req).settled_ns, 0, job_late_ms());
    CHECK(job_names(weft_request_message(req), 2));
    weft_release(req);
    host_works(pair);
    device_sum_works(me, pair);
}

/* ---- a device that has died
 * --------------------------------------------------------------------------------- */

static double ms_since(int64_t ns)
{
    return (double)(job_now_ns() - ns) / 1e6;
}

/* As after an illegal address in a kernel of the program's own: every call of CUDA says so from then on, also
 * the question where a buffer lies. */
static void dies(job_rank *me)
{
    if (!device_is_emulated()) {
        return;
    }
    weft_group *group = job_group(me, RANKS, "doomed", 0), *host = job_group(me, RANKS, "host", 0);
    const weft_call told = {.memory = WEFT_MEMORY_CUDA};
    operands o = take_operands(me);
    device_sum_works(me, group);
    set_script(me, "dev1:cuPointerGetAttributes@1=error:700!");
    for (int i = 0; me->rank == ODD && i < 4; i++) {
        int64_t began = job_now_ns();
        weft_status status = i == 3 ? weft_isend(group, o.in, COUNT, WEFT_INT32, 0, 5, NULL, NULL)
                                    : weft_all_reduce(group, o.in, o.out, COUNT, WEFT_INT32, WEFT_SUM,
                                                      i == 2 ? &told : NULL, NULL);
        CHECK_STATUS(WEFT_ERR_SYSTEM, status);
        CHECK_TEXT(weft_last_error(), "an illegal memory access was encountered");
        CHECK_PERIOD(began, job_now_ns(), 0, job_late_ms());
        if (i == 0) printf("a device that has died: told after %.3f ms, in the call\n", ms_since(began));
    }
    host_works(host);
    job_message_works(host, 0, ODD, 3);
    if (me->rank != ODD) {
        CHECK_OK(weft_group_set_timeout(group, job_short_ms()));
        weft_request *req = begin_sum(group, o, NULL);
        note_beginning(me, req);
        WAIT_STATUS(WEFT_ERR_TIMEOUT, req);
        CHECK_NAMES(weft_request_message(req), 1U << ODD, RANKS);
        weft_request_info info = job_info(req);
        CHECK_PERIOD(info.submitted_ns, info.settled_ns, 0, job_short_ms() + job_late_ms());
        printf("a device that has died: settled %.1f ms after the deadline of %d ms on another rank\n",
               (double)(info.settled_ns - info.submitted_ns) / 1e6 - job_short_ms(), (int)job_short_ms());
        weft_release(req);
    }
    job_meet(me);
    host_works(me->world);
}

/* ---- a stream that has stopped
 * ------------------------------------------------------------------------- */

static void wait_for_word(void *word)
{
    while (!atomic_load((atomic_int *)word)) job_sleep_ms(1);
}

static atomic_int left_behind; /* lines of the log that say why */

static void note(int level, const char *line, void *arg)
{
    (void)level, (void)arg;
    if (strstr(line,
               "1 wait for a stream of the program's that has not reached them: what it has is left behind"))
        atomic_fetch_add(&left_behind, 1);
}

#define NOT_REACHED "has issued it, but the caller's stream has not reached it"

/* The abort waits for the program's stream, as it waits for all that the device has to do: the request does not, it says
 * whose stream it is and that its buffers may still be used, and leaving does not either. */
static void never_gets_there(job_rank *me)
{
    static atomic_int word; /* outlives this */
    const bool stands = me->rank == ODD;
    weft_group *group = job_group(me, RANKS, "doomed", 0), *host = job_group(me, RANKS, "host", 0);
    const weft_call held = {.stream = device_stream(1)};
    operands o = take_operands(me);
    weft_request *req = NULL;
    weft_set_log(note, NULL);
    device_sum_works(me, group);
    CHECK_OK(weft_group_set_timeout(group, job_short_ms()));
    job_meet(me);
    if (stands) DEVICE_OK(device()->cudaLaunchHostFunc(held.stream, wait_for_word, &word));
    req = begin_sum(group, o, &held);
    note_beginning(me, req);
    check_told(me, req, WEFT_ERR_TIMEOUT, "all_reduce #2");
    CHECK_TEXT(weft_request_message(req), NOT_REACHED);
    CHECK_NAMES(weft_request_message(req), 1U << ODD, RANKS);
    CHECK_INT(job_info(req).buffers_held, stands);
    weft_release(req);
    host_works(host);
    job_meet(me);
    int64_t before = job_now_ns();
    CHECK_OK(weft_finalize(me->ctx, job_wait_ms()));
    CHECK_PERIOD(before, job_now_ns(), 0, 2000 + job_late_ms()); /* for the module to let go of the request */
    weft_set_log(NULL, NULL);                                    /* which hands over what there is */
    CHECK_INT(atomic_load(&left_behind), stands);
    me->ctx = NULL;
    me->world = NULL;
    atomic_store(&word, 1);
}

/* ---- other ends
 * --------------------------------------------------------------------------------------------- */

/* Nobody waits, nobody asks: the library alone moves it. */
static void only_polls(job_rank *me)
{
    operands o = take_operands(me);
    for (int i = 0; i < 20; i++) {
        weft_request *req = begin_sum(me->world, o, NULL);
        while (!weft_is_completed(req)) continue;
        CHECK_OK(weft_test(req));
        weft_release(req);
    }
    weft_request *req = begin_sum(me->world, o, NULL);
    for (int ms = 0; job_info(req).status == WEFT_PENDING && ms < job_wait_ms(); ms += 10) job_sleep_ms(10);
    CHECK_INT(job_info(req).status, WEFT_OK); /* a pure query */
    weft_release(req);
}

static void cancelled(job_rank *me)
{
    weft_group *group = job_group(me, RANKS, "cancelled", 0);
    operands o = take_operands(me);
    device_sum_works(me, group);
    job_meet(me);
    if (me->rank != ODD) {
        weft_request *req = begin_sum(group, o, NULL);
        job_mark(me, 0);
        job_await(me, 0, RANKS - 1);
        if (me->rank == 0) {
            weft_cancel(req);
        }
        WAIT_STATUS(WEFT_ERR_CANCELLED, req);
        weft_release(req);
    }
    CHECK(job_await_break(group, job_late_ms()) < 0);
    device_sum_works(me, me->world);
}

#define HANG(sentence, ...) \
    JOB_TEST(sentence, .ranks = RANKS, .body = hangs, .arg = &(const hang){__VA_ARGS__})

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        HANG("a hang inside ncclGroupEnd", "dev1:ncclGroupEnd@1=hang", "has not come back from issuing it",
             1U << ODD, false),
        HANG("a hang in init", "dev1:ncclCommInitRankConfig@1=hang", "has not made its communicator",
             (1U << RANKS) - 1, true),
        JOB_TEST("a call that returns when its thread has been given up", .ranks = RANKS,
                 .body = returns_late),
        JOB_TEST("an asynchronous error", .ranks = RANKS, .body = asynchronous),
        JOB_TEST("a rank that is late", .ranks = RANKS, .body = late),
        JOB_TEST("killed amid operations", .ranks = RANKS, .body = killed, .killed = 1U << 2),
        JOB_TEST("killed inside a call", .ranks = RANKS, .body = killed_in_a_call, .killed = 1U << 2),
        JOB_TEST("a device that has died", .ranks = RANKS, .processes = true, .body = dies),
        JOB_TEST("a stream that has stopped", .ranks = RANKS, .processes = true, .body = never_gets_there),
        JOB_TEST("poll only", .ranks = RANKS, .body = only_polls),
        JOB_TEST("cancelled", .ranks = RANKS, .body = cancelled),
    };
    return JOB_MAIN(tests, argc, argv);
}
