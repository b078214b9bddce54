/* test_ends.c - how an operation ends badly, in the agreed order and in program order: five faults, and in each what the
 * ranks are told, how long after its deadline or the fault, and what else of their contexts goes on, meanwhile and
 * afterwards.  A cell prints a row of the table that DEVICE.md has ("How it ends, in both orders"). */
#include "sum.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 3, SOUND = 2, ODD = 2 /* the rank that it befalls; the first two are sound */ };
enum {
    DEADLINE_MS = JOB_SANITIZED ? 10000 : 4000, /* what goes on meanwhile is done well within it */
    HALFWAY_MS = JOB_SANITIZED ? 400 : 100      /* for what is begun to be under way */
};
enum { BEGAN, HAPPENED, SETTLED, OTHER_SETTLED }; /* results */
enum { UNDER_WAY, REPORTED };                     /* marks */

/* What a lost device has is not given back: the leak sanitizer asks. */
__attribute__((visibility("default"))) int
__lsan_is_turned_off(void);    /* NOLINT(bugprone-reserved-identifier) */
int __lsan_is_turned_off(void) /* NOLINT(bugprone-reserved-identifier) */
{
    return device_is_lost();
}

typedef enum odd_end {
    LIVES,     /* afterwards it is as good as the others */
    NO_DEVICE, /* and has host memory alone */
    DEAD
} odd_end;

typedef struct fault {
    const char *name;
    /* What each rank does with the group; NULL: nothing. */
    weft_request *(*begin)(job_rank *me, weft_group *group, operands o);
    void (*happen)(job_rank *me); /* while that is under way */
    weft_status status;
    const char *words[3];
    bool at_deadline; /* nothing tells of it sooner */
    odd_end odd;
} fault;

typedef struct cell {
    const fault *fault;
    const char *order; /* WEFT_DEVICE_ORDER */
    bool aside;        /* another group's operation on the devices comes to its end meanwhile */
} cell;

/* ---- the faults ---- */

static weft_request *one_means_less(job_rank *me, weft_group *group, operands o)
{
    weft_request *req = NULL;
    const size_t count = me->rank == ODD ? COUNT / 2 : COUNT;
    job_results(me, me->rank)[HAPPENED] = job_now_ns();
    CHECK_OK(weft_all_reduce(group, o.in, o.out, count, WEFT_INT32, WEFT_SUM, NULL, &req));
    return req;
}

static weft_request *one_does_not(job_rank *me, weft_group *group, operands o)
{
    return me->rank == ODD ? NULL : begin_sum(group, o, NULL);
}

static weft_request *one_hangs(job_rank *me, weft_group *group, operands o)
{
    if (me->rank == ODD) device()->emu_script("ncclGroupEnd@1=hang");
    return begin_sum(group, o, NULL);
}

/* The first rank's launch hangs until it is aborted, so what the odd one has launched is under way when its device dies. */
static weft_request *one_waits_for_a_launch(job_rank *me, weft_group *group, operands o)
{
    if (me->rank == 0) device()->emu_script("ncclGroupEnd@1=hang");
    weft_request *req = begin_sum(group, o, NULL);
    if (me->rank != 0) job_mark(me, UNDER_WAY);
    if (me->rank != ODD)
        job_await(me, UNDER_WAY, RANKS - 1); /* the launch that hangs is this one, not the next */
    return req;
}

static void is_killed(job_rank *me)
{
    if (me->rank == ODD) job_sleep_ms(JOB_LIMIT_MS);
    job_mark(me, UNDER_WAY);
    if (me->rank != 0) return;
    job_await(me, UNDER_WAY, SOUND);
    job_sleep_ms(HALFWAY_MS);
    job_results(me, ODD)[HAPPENED] = job_now_ns();
    job_kill(me, ODD);
}

/* By a call of the program's own, as after an illegal address in one of its kernels. */
static void device_dies(job_rank *me)
{
    if (me->rank != ODD) return;
    job_sleep_ms(HALFWAY_MS);
    device_may_be_lost();
    device()->emu_script("cudaStreamSynchronize@1=error:700!");
    job_results(me, ODD)[HAPPENED] = job_now_ns();
    CHECK(device()->cudaStreamSynchronize(device_stream(0)) != 0);
}

static const fault mismatch = {
    "mismatch", one_means_less, NULL, WEFT_ERR_MISMATCH, {"operation #2", "64 int32", "32 int32"},
    false,      LIVES};
static const fault late = {
    "late rank", one_does_not, NULL, WEFT_ERR_TIMEOUT, {"has not joined; its last was all_reduce #1"},
    true,        LIVES};
static const fault death = {"death", one_does_not, is_killed, WEFT_ERR_PEER, {"has died"}, false, DEAD};
static const fault sticky = {"sticky error",
                             one_waits_for_a_launch,
                             device_dies,
                             WEFT_ERR_SYSTEM,
                             {"an illegal memory access was encountered"},
                             false,
                             NO_DEVICE};
static const fault hung = {
    "hung launch", one_hangs, NULL, WEFT_ERR_TIMEOUT, {"has not come back from issuing it"}, true, LIVES};

/* ---- what else of the context lives ---- */

static void device_sum_works(weft_group *group, operands o)
{
    weft_request *req = begin_sum(group, o, NULL);
    WAIT_OK(req);
    check_sum(weft_group_size(group), o.out);
}

static void host_works(job_rank *me, weft_group *group)
{
    for (int i = 0; i < 3; i++) job_host_sum_works(group);
    if (me->rank < SOUND) job_message_works(group, 0, 1, 3);
}

/* While it is under way.  In program order the device has launched it by then, and carries out nothing behind it before its
 * end. */
static weft_request *goes_on_meanwhile(job_rank *me, weft_group *pair, weft_request *req, operands o)
{
    const cell *c = me->arg;
    weft_request *other = begin_sum(pair, o, NULL);
    job_host_sum_works(pair);
    if (c->fault->at_deadline) CHECK_INT(weft_test(req), WEFT_PENDING);
    if (!c->aside) return other;
    CHECK_OK(weft_wait(other, job_wait_ms()));
    CHECK_INT(weft_test(req), WEFT_PENDING);
    return other;
}

static void lives_afterwards(job_rank *me, weft_group *other, weft_group *pair, operands o)
{
    const cell *c = me->arg;
    if (c->fault->odd != DEAD) {
        job_meet(me);
        host_works(me, other);
        job_host_sum_works(me->world);
    }
    if (c->fault->odd == LIVES) device_sum_works(other, o);
    if (!pair) return;
    host_works(me, pair);
    device_sum_works(pair, o);
}

/* ---- a cell ---- */

static double ms_between(int64_t from, int64_t to)
{
    return (double)(to - from) / 1e6;
}

/* From when on it is to end: its first rank's deadline, or the fault.  A mismatch is there once the odd rank and one of the
 * others have begun. */
static int64_t due(job_rank *me)
{
    const cell *c = me->arg;
    int64_t odd = job_results(me, ODD)[HAPPENED], sound = INT64_MAX;
    if (c->fault->at_deadline) return job_earliest(me, BEGAN) + DEADLINE_MS * INT64_C(1000000);
    for (int r = 0; r < SOUND; r++) {
        int64_t other = job_results(me, r)[HAPPENED];
        if (other && other < sound) sound = other;
    }
    return sound < INT64_MAX && sound > odd ? sound : odd;
}

static void check_told(job_rank *me, weft_request *req)
{
    const fault *f = ((const cell *)me->arg)->fault;
    weft_request_info info;
    WAIT_STATUS(f->status, req);
    info = job_info(req);
    CHECK_PERIOD(due(me), info.settled_ns, 0, job_late_ms());
    for (int i = 0; i < 3 && f->words[i]; i++) CHECK_TEXT(weft_request_message(req), f->words[i]);
    if (me->rank != ODD) CHECK(job_names(weft_request_message(req), ODD));
    job_results(me, me->rank)[SETTLED] = info.settled_ns;
    weft_release(req);
}

/* The last column but one: when the first rank's operation on another group, begun behind it, was done. */
static void print_row(job_rank *me)
{
    static const char *const left[] = {[LIVES] = "all", [NO_DEVICE] = "host memory", [DEAD] = "none"};
    const cell *c = me->arg;
    const int64_t *mine = job_results(me, 0);
    int64_t first = INT64_MAX, last = 0;
    for (int r = 0; r < RANKS; r++) {
        int64_t settled = job_results(me, r)[SETTLED];
        if (!settled) continue;
        if (settled < first) first = settled;
        if (settled > last) last = settled;
    }
    printf("| %s | %s | %.1f to %.1f ms after the %s | %.1f ms | %s |\n", c->fault->name, c->order,
           ms_between(due(me), first), ms_between(due(me), last),
           c->fault->at_deadline ? "deadline" : "fault", ms_between(mine[SETTLED], mine[OTHER_SETTLED]),
           left[c->fault->odd]);
}

static void comes_to_its_end(job_rank *me, weft_request *other)
{
    WAIT_STATUS(WEFT_OK, other);
    job_results(me, me->rank)[OTHER_SETTLED] = job_info(other).settled_ns;
    weft_release(other);
}

static void befalls(job_rank *me, weft_group *doomed, weft_group *pair, operands o, operands p)
{
    const fault *f = ((const cell *)me->arg)->fault;
    weft_request *req, *other = NULL;
    job_results(me, me->rank)[BEGAN] = job_now_ns();
    req = f->begin(me, doomed, o);
    if (pair) other = goes_on_meanwhile(me, pair, req, p);
    if (f->happen) f->happen(me);
    if (req) check_told(me, req);
    if (other) comes_to_its_end(me, other);
    CHECK(job_await_break(doomed, DEADLINE_MS + job_late_ms()) < 0);
    device()->emu_script(NULL);
}

static void ends(job_rank *me)
{
    const cell *c = me->arg;
    if (!device_is_emulated()) return;
    job_setenv(me, "WEFT_DEVICE_ORDER", c->order);
    job_setenv(me, "CUDA_EMULATION_MISUSE", "report"); /* kernels that differ are told there, too */
    job_join(me);
    weft_group *doomed = job_group(me, RANKS, "doomed", 0), *sound = job_group(me, RANKS, "sound", 0),
               *pair = me->rank < SOUND ? job_group(me, SOUND, "pair", 0) : NULL;
    operands o = take_operands(me), p = take_operands(me);
    device_sum_works(doomed, o);
    device_sum_works(sound, o);
    if (pair) device_sum_works(pair, o);
    job_acquaint(me);
    CHECK_OK(weft_group_set_timeout(doomed, DEADLINE_MS));
    job_meet(me);
    befalls(me, doomed, pair, o, p);
    lives_afterwards(me, sound, pair, o);
    job_mark(me, REPORTED);
    job_await(me, REPORTED, c->fault->odd == DEAD ? SOUND : RANKS);
    if (me->rank == 0) print_row(me);
    job_leave(me);
}

#define CELL(fault, order, aside, ...)                                                         \
    JOB_TEST(#fault ", " order, .ranks = RANKS, .processes = true, .bare = true, .body = ends, \
             .arg = &(const cell){&(fault), order, aside}, __VA_ARGS__)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        CELL(mismatch, "agreed", false, .killed = 0),     CELL(mismatch, "program", false, .killed = 0),
        CELL(late, "agreed", true, .killed = 0),          CELL(late, "program", false, .killed = 0),
        CELL(death, "agreed", true, .killed = 1U << ODD), CELL(death, "program", false, .killed = 1U << ODD),
        CELL(sticky, "agreed", false, .killed = 0),       CELL(sticky, "program", false, .killed = 0),
        CELL(hung, "agreed", false, .killed = 0),         CELL(hung, "program", false, .killed = 0),
    };
    return JOB_MAIN(tests, argc, argv);
}
