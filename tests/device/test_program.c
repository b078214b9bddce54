/* test_program.c - program order (WEFT_DEVICE_ORDER=program, which this program is run with): that the host runs ahead,
 * and how what hangs, is late or differs ends. */
#include "sum.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <weft/cuda.h>

enum { AHEAD = 50 };

/* NCCL connects in the first one of a size, which is the progress thread's. */
static void warm_up(job_rank *me, weft_group *group, operands o)
{
    weft_request *req = begin_sum(group, o, NULL);
    WAIT_OK(req);
    job_meet(me);
}

static int threads_now(void)
{
    DIR *tasks = opendir("/proc/self/task");
    int n = 0;
    CHECK(tasks);
    while (readdir(tasks)) n++;
    closedir(tasks);
    return n;
}

/* Ranks are processes of their own here. */
static uint64_t calls(const char *function)
{
    return device()->emu_calls(function);
}

/* The other rank is late; this one's operations are with the device when their calls are back, and streams are ordered
 * after them, all without waiting for it. */
static void the_host_runs_ahead(job_rank *me)
{
    operands o = take_operands(me);
    weft_call call = {.stream = device_stream(0)};
    weft_request *reqs[AHEAD];
    warm_up(me, me->world, o);
    if (me->rank == 0) {
        uint64_t before = device_is_emulated() ? calls("ncclAllReduce") : 0;
        uint64_t apart = device_is_emulated() ? calls("background") : 0;
        int threads = threads_now();
        for (int i = 0; i < AHEAD; i++) {
            reqs[i] = begin_sum(me->world, o, &call);
            if (device_is_emulated()) CHECK_INT(calls("ncclAllReduce"), before + (unsigned)i + 1);
            CHECK_OK(weft_stream_wait(reqs[i], device_stream(0)));
        }
        CHECK_INT(weft_test(reqs[0]), WEFT_PENDING); /* all of them queued before the first is done */
        CHECK(threads_now() <= threads);             /* one of its making may end yet */
        if (device_is_emulated()) CHECK_INT(calls("background"), apart);
        job_mark(me, 0);
    } else {
        job_await(me, 0, 1);
        for (int i = 0; i < AHEAD; i++) reqs[i] = begin_sum(me->world, o, &call);
    }
    for (int i = 0; i < AHEAD; i++) WAIT_OK(reqs[i]);
    check_sum(me->size, o.out);
    job_meet(me);
}

/* ---- the order over several communicators ---- */

/* One that takes longer to make on one rank: what follows on another one waits there, as its kernel would hold up the
 * device for one that other ranks have launched first. */
static void while_a_communicator_is_made(job_rank *me)
{
    operands a = take_operands(me), b = take_operands(me);
    warm_up(me, me->world, b);
    weft_group *group = job_group(me, me->size, "new", 0);
    if (me->rank == 0 && device_is_emulated()) device()->emu_script("making@*=delay:300");
    weft_request *first = begin_sum(group, a, NULL), *second;
    if (me->rank == 1)
        CHECK_OK(weft_stream_wait(first, device_stream(1))); /* here it has been launched first */
    second = begin_sum(me->world, b, NULL);
    WAIT_OK(second);
    WAIT_OK(first);
    if (me->rank == 0 && device_is_emulated()) device()->emu_script(NULL);
    check_sum(me->size, a.out);
    check_sum(me->size, b.out);
    first = begin_sum(group, a, NULL);
    CHECK_OK(weft_stream_wait(first, device_stream(0)));
    WAIT_OK(first);
    CHECK_OK(weft_group_free(group));
    job_meet(me);
}

/* ---- ranks that order their groups differently ---- */

/* The groups break one after the other, so on the second one all ranks may have begun and ended the operation before a rank is
 * told that it has broken.  What ends well is right. */
static void check_ends_apart(const job_rank *me, weft_request *req, const int32_t *out)
{
    weft_status status = weft_wait(req, job_wait_ms());
    CHECK(status == WEFT_ERR_MISMATCH || status == WEFT_OK);
    if (status == WEFT_OK) check_sum(me->size, out);
}

/* One begins with what the others do second; each waits for its first one before it goes on. */
static void begin_in_turn(job_rank *me, weft_group *const groups[2], const operands o[2], bool waits)
{
    enum { ODD = 1 };
    weft_request *reqs[2] = {NULL};
    int64_t began = job_now_ns();
    for (int i = 0; i < 2; i++) {
        int which = me->rank == ODD ? !i : i;
        weft_status status = weft_all_reduce(groups[which], o[which].in, o[which].out, COUNT, WEFT_INT32,
                                             WEFT_SUM, NULL, &reqs[i]);
        CHECK(status == WEFT_OK || status == WEFT_ERR_BROKEN);
        if (waits && status == WEFT_OK) check_ends_apart(me, reqs[i], o[which].out);
    }
    for (int i = 0; i < 2; i++) {
        CHECK_INT(job_await_break(groups[i], job_late_ms()), WEFT_ERR_MISMATCH);
        CHECK_TEXT(weft_last_error(), "ranks differ in the order of their groups");
        CHECK_TEXT(weft_last_error(), "on group one");
        CHECK_TEXT(weft_last_error(), "on group another");
        CHECK(job_names(weft_last_error(), ODD));
        if (!reqs[i]) continue;
        CHECK(weft_wait(reqs[i], job_wait_ms()) != WEFT_PENDING);
        weft_release(reqs[i]);
    }
    CHECK_PERIOD(began, job_now_ns(), 0, job_late_ms());
}

static void ordered_differently(job_rank *me)
{
    const operands o[2] = {take_operands(me), take_operands(me)};
    for (int waits = 0; waits < 2; waits++) {
        weft_group *groups[2] = {job_group(me, me->size, "one", 0), job_group(me, me->size, "another", 0)};
        if (waits)
            for (int i = 0; i < 2; i++) warm_up(me, groups[i], o[i]);
        begin_in_turn(me, groups, o, waits);
        for (int i = 0; i < 2; i++) CHECK_OK(weft_group_free(groups[i]));
        job_meet(me);
        warm_up(me, me->world, o[0]);
    }
}

/* ---- a circle ---- */

/* Each of three ranks is in two of three groups of two: with the next one, and with the one before it. */
static void make_circle(job_rank *me, weft_order order, weft_group *groups[2])
{
    weft_request *reqs[2] = {NULL};
    for (int i = 0; i < 2; i++) {
        const int other = (me->rank + 1 + i) % me->size, low = other < me->rank ? other : me->rank;
        const int ranks[] = {low, other + me->rank - low};
        const weft_call call = {.label = "in a circle", .timeout_ms = job_wait_ms(), .order = order};
        CHECK_OK(weft_new_group(me->world, ranks, 2, &call, &groups[i], &reqs[i]));
    }
    for (int i = 0; i < 2; i++) WAIT_OK(reqs[i]);
}

static void check_sum_of_two(const job_rank *me, int other, const int32_t *out)
{
    int32_t image[COUNT];
    job_get(image, out, bytes);
    for (int i = 0; i < COUNT; i++) CHECK_INT(image[i], 2 * i + me->rank + other);
}

/* Each begins with the next one, so no order of theirs has all that the ranks have: one that they agree on. */
static void a_circle_agreed(job_rank *me)
{
    const operands o[2] = {take_operands(me), take_operands(me)};
    weft_group *groups[2];
    make_circle(me, WEFT_ORDER_AGREED, groups);
    for (int round = 0; round < 20; round++) {
        weft_request *reqs[2];
        for (int i = 0; i < 2; i++) reqs[i] = begin_sum(groups[i], o[i], NULL);
        for (int i = 0; i < 2; i++) WAIT_OK(reqs[i]);
        for (int i = 0; i < 2; i++) check_sum_of_two(me, (me->rank + 1 + i) % me->size, o[i].out);
    }
    for (int i = 0; i < 2; i++) CHECK_OK(weft_group_free(groups[i]));
    job_meet(me);
}

/* In the ranks' own order each waits for the next, on devices that carry out one at a time, unless one of them happens to come
 * to its second one first.  That ends at the deadline, and what else there is works. */
static void a_circle(job_rank *me)
{
    const operands o[2] = {take_operands(me), take_operands(me)};
    weft_group *groups[2];
    weft_request *reqs[2];
    make_circle(me, WEFT_ORDER_PROGRAM, groups);
    int64_t began = job_now_ns();
    for (int i = 0; i < 2; i++) {
        CHECK_OK(weft_group_set_timeout(groups[i], job_short_ms()));
        reqs[i] = begin_sum(groups[i], o[i], NULL);
    }
    for (int i = 0; i < 2; i++) {
        weft_status status = weft_wait(reqs[i], job_wait_ms());
        CHECK(status == WEFT_OK || status == WEFT_ERR_TIMEOUT);
        weft_release(reqs[i]);
    }
    CHECK_PERIOD(began, job_now_ns(), 0, job_short_ms() + job_late_ms());
    for (int i = 0; i < 2; i++) CHECK_OK(weft_group_free(groups[i]));
    job_meet(me);
    warm_up(me, me->world, o[0]);
    check_sum(me->size, o[0].out);
    job_meet(me);
}

/* The ranks' first operations there: where a device has room for several kernels such a circle comes to its end, and no call
 * waits to connect, while what is to come first on another rank stands behind it. */
static void a_circle_of_first_uses(job_rank *me)
{
    enum { LARGE = 1 << 16, ROUNDS = 2 };
    if (!device_is_emulated()) return;
    job_setenv(me, "CUDA_EMULATION_KERNELS", "3");
    job_join(me);
    weft_group *groups[2];
    weft_request *reqs[2];
    int32_t *in = job_buffer(me, LARGE * sizeof *in), *out[2];
    for (int i = 0; i < 2; i++) out[i] = job_buffer(me, LARGE * sizeof *in);
    job_put(in, &me->rank, sizeof me->rank);
    make_circle(me, WEFT_ORDER_PROGRAM, groups);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < 2; i++)
            CHECK_OK(weft_all_reduce(groups[i], in, out[i], round ? LARGE : COUNT, WEFT_INT32, WEFT_SUM, NULL,
                                     &reqs[i]));
        for (int i = 0; i < 2; i++) WAIT_OK(reqs[i]);
    }
    for (int i = 0; i < 2; i++) {
        int32_t sum;
        job_get(&sum, out[i], sizeof sum);
        CHECK_INT(sum, me->rank + (me->rank + 1 + i) % me->size);
        CHECK_OK(weft_group_free(groups[i]));
    }
    job_meet(me);
}

/* Split off one in program order: it has a part of its own, and takes its parent's turn only for that. */
static void of_a_split(job_rank *me)
{
    operands o = take_operands(me);
    weft_group *half = NULL;
    weft_request *req;
    warm_up(me, me->world, o);
    for (int later = 0; later < 2; later++) {
        CHECK_OK(weft_split_group(me->world, 0, -me->rank, NULL, &half, NULL));
        /* Its communicator is there before its first operation, for which one rank comes last: all that waits for begins at once. */
        if (later) job_sleep_ms(me->rank == 0 ? 400 : 200);
        for (int i = 0; i < 3; i++) {
            req = begin_sum(half, o, NULL);
            CHECK_OK(weft_stream_wait(req, device_stream(0)));
            WAIT_OK(req);
            check_sum(me->size, o.out);
        }
        CHECK_OK(weft_group_free(half));
    }
    warm_up(me, me->world, o);
}

/* Asked for by the calls that make groups, in a job whose order is agreed; those of one rank are not enough. */
static void one_group(job_rank *me)
{
    const weft_call asks = {.order = WEFT_ORDER_PROGRAM}, asks_not = {.order = WEFT_ORDER_AGREED};
    const int ranks[] = {0, 1, 2};
    weft_call wrong = {.order = (weft_order)7};
    weft_group *groups[3] = {NULL}, *none = NULL;
    job_setenv(me, "WEFT_DEVICE_ORDER", NULL);
    job_join(me);
    operands o = take_operands(me);
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_new_group(me->world, ranks, me->size, &wrong, &none, NULL));
    CHECK_OK(weft_new_group(me->world, ranks, me->size, &asks, &groups[0], NULL));
    CHECK_OK(weft_split_group(me->world, 0, me->rank, &asks, &groups[1], NULL));
    CHECK_OK(weft_new_group(me->world, ranks, me->size, me->rank == 1 ? &asks_not : &asks, &groups[2], NULL));
    for (int g = 0; g < 3; g++) {
        uint64_t before = device_is_emulated() ? calls("ncclCommSplit") : 0;
        warm_up(me, groups[g], o);
        if (device_is_emulated()) CHECK_INT(calls("ncclCommSplit") - before, g < 2);
        check_sum(me->size, o.out);
        CHECK_OK(weft_group_free(groups[g]));
    }
    job_leave(me);
}

/* Ranks that do not all ask for it: the order is agreed, and nothing is split for callers. */
static void one_disagrees(job_rank *me)
{
    if (me->rank == 1) job_setenv(me, "WEFT_DEVICE_ORDER", "agreed");
    job_join(me);
    operands o = take_operands(me);
    warm_up(me, me->world, o);
    if (device_is_emulated()) CHECK_INT(calls("ncclCommSplit"), 0);
    job_leave(me);
}

/* ---- what may block ---- */

static void note_call(weft_request *req, weft_status status, void *arg)
{
    (void)req;
    (void)status;
    atomic_store((atomic_int *)arg, 1);
}

/* NCCL hangs as it connects for a first operation: the library goes on, and so do its callbacks. */
static void a_first_use_that_hangs(job_rank *me)
{
    enum { ODD = 1 };
    atomic_int called = 0;
    operands o = take_operands(me);
    const weft_call calls_back = {.done = note_call, .arg = &called};
    const weft_call patient = {.timeout_ms = WEFT_FOREVER}; /* what would let it go */
    weft_group *group = job_group(me, me->size, "connects", 0);
    weft_request *first, *host = NULL;
    if (!device_is_emulated()) return;
    warm_up(me, me->world, o);
    CHECK_OK(
        weft_barrier(group, &(weft_call){.memory = WEFT_MEMORY_CUDA}, NULL)); /* its communicator is there */
    job_meet(me);
    if (me->rank == ODD) device()->emu_script("ncclGroupEnd@1=hang");
    first = begin_sum(group, o, &patient);
    if (me->rank == ODD)
        for (int ms = 0; !device()->emu_hanging() && ms < job_wait_ms(); ms++) job_sleep_ms(1);
    job_meet(me);
    CHECK_OK(weft_barrier(me->world, &calls_back, &host));
    for (int ms = 0; !atomic_load(&called) && ms < job_wait_ms(); ms++) job_sleep_ms(1); /* nobody drives */
    CHECK(atomic_load(&called));
    WAIT_OK(host);
    CHECK_INT(weft_test(first), WEFT_PENDING);
    job_meet(me);
    if (me->rank == 0) weft_cancel(first);
    CHECK(weft_wait(first, job_wait_ms()) < 0);
    weft_release(first);
    CHECK(job_await_break(group, job_late_ms()) < 0);
    if (me->rank == ODD) device()->emu_script(NULL);
    job_meet(me);
    CHECK_OK(weft_group_free(group));
}

/* ---- how it ends badly ---- */

enum { CAUSE_MS = 1000 }; /* for so long the library looks for the rank that is behind an error of NCCL's */
enum { BEGAN, TOLD };     /* results */

static void others_live(job_rank *me, operands o)
{
    job_host_sum_works(me->world);
    weft_request *req = begin_sum(me->world, o, NULL);
    WAIT_OK(req);
    check_sum(me->size, o.out);
}

static void check_told(weft_request *req, unsigned named, int size)
{
    weft_request_info info;
    WAIT_STATUS(WEFT_ERR_TIMEOUT, req);
    info = job_info(req);
    CHECK_PERIOD(info.submitted_ns, info.settled_ns, 0, job_short_ms() + job_late_ms());
    CHECK_NAMES(weft_request_message(req), named, size);
}

/* The launch hangs inside the call of one rank: at the deadline that rank is named, its caller is let out, and what else
 * there is lives on. */
static void a_launch_that_hangs(job_rank *me)
{
    enum { ODD = 1 };
    if (!device_is_emulated()) return;
    operands o = take_operands(me);
    weft_group *group = job_group(me, me->size, "doomed", 0);
    warm_up(me, me->world, o);
    warm_up(me, group, o);
    CHECK_OK(weft_group_set_timeout(group, job_short_ms()));
    job_meet(me);
    if (me->rank == ODD) device()->emu_script("ncclGroupEnd@1=hang");
    int64_t began = job_results(me, me->rank)[BEGAN] = job_now_ns();
    weft_request *req = begin_sum(group, o, NULL);
    CHECK_PERIOD(began, job_now_ns(), 0, job_short_ms() + job_late_ms());
    if (me->rank == ODD) CHECK_PERIOD(job_earliest(me, BEGAN), job_now_ns(), job_short_ms(), INT32_MAX);
    check_told(req, 1U << ODD, me->size);
    CHECK_TEXT(weft_request_message(req), "has not come back from issuing it");
    weft_release(req);
    CHECK(job_await_break(group, job_late_ms()) < 0);
    if (me->rank == ODD) {
        CHECK(calls("ncclCommRevoke") > 0);
        device()->emu_script(NULL);
    }
    job_meet(me);
    others_live(me, o);
    job_meet(me);
}

/* A launch fails before the other ranks have come: what was to be agreed on with them goes with it, and its record is
 * free for other operations. */
static void a_launch_that_fails(job_rank *me)
{
    enum { FAILS = 0 };
    if (!device_is_emulated()) return;
    operands o = take_operands(me);
    weft_group *group = job_group(me, me->size, "failing", 0);
    warm_up(me, me->world, o);
    warm_up(me, group, o);
    job_meet(me);
    if (me->rank == FAILS) {
        device()->emu_script("ncclGroupEnd@1=error:3");
        weft_request *req = begin_sum(group, o, NULL);
        WAIT_STATUS(WEFT_ERR_SYSTEM, req);
        CHECK_TEXT(weft_request_message(req), "ncclGroupEnd");
        weft_release(req);
        device()->emu_script(NULL);
    }
    CHECK(job_await_break(group, job_late_ms()) < 0);
    for (int i = 0; i < 3; i++) others_live(me, o);
    job_meet(me);
}

/* Its kernels have begun elsewhere: they are cut, and the late rank is named. */
static void a_late_rank(job_rank *me)
{
    enum { ODD = 1 };
    operands o = take_operands(me);
    weft_group *group = job_group(me, me->size, "timed", 0);
    warm_up(me, me->world, o);
    warm_up(me, group, o);
    CHECK_OK(weft_group_set_timeout(group, job_short_ms()));
    job_meet(me);
    if (me->rank != ODD) {
        weft_request *reqs[3];
        for (int i = 0; i < 3; i++) reqs[i] = begin_sum(group, o, NULL);
        CHECK_OK(weft_stream_wait(reqs[2], device_stream(0)));
        check_told(reqs[0], 1U << ODD, me->size);
        for (int i = 0; i < 3; i++) {
            CHECK(weft_wait(reqs[i], job_wait_ms()) < 0);
            weft_release(reqs[i]);
        }
        device_sync(device_stream(0)); /* it goes on */
    }
    job_meet(me);
    CHECK(job_await_break(group, job_late_ms()) < 0);
    others_live(me, o);
    job_meet(me);
}

/* What was begun after it on the group's communicator ends with it. */
static void a_cancel(job_rank *me)
{
    enum { ODD = 1 };
    operands o = take_operands(me);
    weft_group *group = job_group(me, me->size, "cut", 0);
    warm_up(me, me->world, o);
    warm_up(me, group, o);
    job_meet(me);
    weft_request *reqs[3] = {NULL};
    for (int i = 0; i < 3 && me->rank != ODD; i++) reqs[i] = begin_sum(group, o, NULL);
    job_meet(me);
    if (me->rank == 0) weft_cancel(reqs[0]);
    for (int i = 0; i < 3 && me->rank != ODD; i++) {
        WAIT_STATUS(i ? WEFT_ERR_BROKEN : WEFT_ERR_CANCELLED, reqs[i]);
        weft_release(reqs[i]);
    }
    job_meet(me);
    CHECK(job_await_break(group, job_late_ms()) < 0);
    others_live(me, o);
    job_meet(me);
}

/* In the middle of a stream of operations whose kernels wait for the dead. */
static void killed(job_rank *me)
{
    enum { DEAD = 2 };
    weft_group *pair = me->rank == DEAD ? NULL : job_group(me, 2, "pair", 0);
    weft_status status = WEFT_OK;
    operands o = take_operands(me);
    for (int i = 0; status == WEFT_OK; i++) {
        if (i == 10 && me->rank == 0) {
            job_results(me, DEAD)[BEGAN] = job_now_ns();
            job_kill(me, DEAD);
        }
        status = weft_all_reduce(me->world, o.in, o.out, COUNT, WEFT_INT32, WEFT_SUM, NULL, NULL);
    }
    CHECK(status == WEFT_ERR_PEER || status == WEFT_ERR_BROKEN);
    CHECK_PERIOD(job_results(me, DEAD)[BEGAN], job_now_ns(), 0, job_late_ms());
    CHECK(job_names(weft_last_error(), DEAD));
    job_host_sum_works(pair);
    CHECK_OK(weft_all_reduce(pair, o.in, o.out, COUNT, WEFT_INT32, WEFT_SUM, NULL, NULL));
}

static int64_t *seen_ns; /* shared: how long it took the first rank to see it */

/* The thread naps then, as long as the device has something to do, and sees who dies at the end of each. */
static void killed_while_nobody_waits(job_rank *me)
{
    enum { DEAD = 2 };
    operands o = take_operands(me);
    weft_request *req = NULL;
    warm_up(me, me->world, o);
    if (me->rank == DEAD) job_sleep_ms(JOB_LIMIT_MS);
    CHECK_OK(weft_all_reduce(me->world, o.in, o.out, COUNT, WEFT_INT32, WEFT_SUM, NULL, &req));
    job_mark(me, 0);
    job_await(me, 0, me->size - 1);
    job_sleep_ms(200);
    int64_t since = job_now_ns();
    if (me->rank == 0) job_kill(me, DEAD);
    CHECK_STATUS(WEFT_ERR_PEER, job_await_break(me->world, job_late_ms()));
    if (me->rank == 0) *seen_ns = job_now_ns() - since;
    WAIT_STATUS(WEFT_ERR_PEER, req);
    weft_release(req);
}

/* Without it that takes most of a second each time; a busy machine makes that of one as well, but not of all. */
static void sees_a_death_soon(void **state)
{
    enum { TRIES = 5, SEEN_MS = 750 * JOB_SLOWER };
    int64_t best = INT64_MAX;
    seen_ns = mmap(NULL, sizeof *seen_ns, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(seen_ns != MAP_FAILED);
    for (int try = 0; try < TRIES && best > SEEN_MS * INT64_C(1000000); try++) {
        job_run(*state);
        if (*seen_ns < best) best = *seen_ns;
    }
    munmap(seen_ns, sizeof *seen_ns);
    assert_true(best <= SEEN_MS * INT64_C(1000000));
}

/* Ranks that mean something else may have launched it by then, all of them, which the emulation tells. */
static void a_mismatch(job_rank *me)
{
    job_setenv(me, "CUDA_EMULATION_MISUSE", "report");
    job_join(me);
    operands o = take_operands(me);
    weft_group *group = job_group(me, me->size, "divided", 0);
    weft_request *req = NULL;
    warm_up(me, group, o);
    warm_up(me, me->world, o);
    CHECK_OK(
        weft_all_reduce(group, o.in, o.out, me->rank ? COUNT : COUNT / 2, WEFT_INT32, WEFT_SUM, NULL, &req));
    WAIT_STATUS(WEFT_ERR_MISMATCH, req);
    weft_release(req);
    others_live(me, o);
    job_leave(me);
}

/* Whether the cause was told; NCCL's own words instead only when it was too late for it. */
static bool tells_the_cause(job_rank *me, weft_group *group, operands o)
{
    weft_request *req = NULL;
    bool told = false;
    device()->emu_script("ncclAllReduce@1=error:6");
    job_results(me, me->rank)[BEGAN] = job_now_ns();
    weft_status status = weft_all_reduce(group, o.in, o.out, COUNT, WEFT_INT32, WEFT_SUM, NULL, &req);
    job_mark(me, 0);
    if (status == WEFT_OK) {
        CHECK(weft_wait(req, job_wait_ms()) < 0);
        told = strstr(weft_request_message(req), "enough of it");
        if (!told) CHECK_PERIOD(job_earliest(me, BEGAN), job_info(req).settled_ns, CAUSE_MS, INT32_MAX);
        weft_release(req);
    }
    device()->emu_script(NULL);
    return told;
}

/* NCCL tells an error in the call, which another rank is behind: what that rank says is told, and nothing in its place.  Where
 * the machine leaves that rank no time to say it, all of them try again. */
static void an_error_and_its_cause(job_rank *me)
{
    enum { ODD = 1, TRIES = 5 };
    operands o = take_operands(me);
    bool all = false;
    if (!device_is_emulated()) return;
    warm_up(me, me->world, o);
    for (int try = 1; try <= TRIES && !all; try++) {
        weft_group *group = job_group(me, me->size, "erring", 0);
        warm_up(me, group, o);
        job_results(me, me->rank)[TOLD] = me->rank == ODD || tells_the_cause(me, group, o);
        if (me->rank == ODD) {
            job_await(me, 0, try * (me->size - 1));
            CHECK_OK(weft_group_abort(group, "enough of it"));
        }
        job_meet(me);
        all = true;
        for (int rank = 0; rank < me->size; rank++) all = all && job_results(me, rank)[TOLD];
        others_live(me, o);
        CHECK_OK(weft_group_free(group));
    }
    CHECK(all);
}

/* Nobody is: then NCCL's own words are told, a while later. */
static void an_error_without(job_rank *me)
{
    operands o = take_operands(me);
    weft_group *group = job_group(me, me->size, "erring", 0);
    weft_request *req;
    if (!device_is_emulated()) return;
    warm_up(me, me->world, o);
    warm_up(me, group, o);
    int64_t began = job_now_ns();
    if (me->rank == 0) device()->emu_script("ncclAllReduce@1=error:6");
    req = begin_sum(group, o, NULL);
    CHECK(weft_wait(req, job_wait_ms()) < 0);
    if (me->rank == 0) {
        CHECK_TEXT(weft_request_message(req), "ncclAllReduce: NCCL says");
        CHECK_PERIOD(began, job_now_ns(), CAUSE_MS - 1, CAUSE_MS + job_late_ms());
        device()->emu_script(NULL);
    }
    weft_release(req);
    job_meet(me);
    others_live(me, o);
    CHECK_OK(weft_group_free(group));
}

/* A group keeps its order when it shrinks. */
static void shrunk(job_rank *me)
{
    const weft_call asks = {.order = WEFT_ORDER_PROGRAM}, asks_not = {.order = WEFT_ORDER_AGREED};
    const int ranks[] = {0, 1, 2};
    job_setenv(me, "WEFT_DEVICE_ORDER", NULL);
    job_join(me);
    operands o = take_operands(me);
    for (int agreed = 0; agreed < 2; agreed++) {
        weft_group *group = NULL, *left = NULL;
        uint64_t before = device_is_emulated() ? calls("ncclCommSplit") : 0;
        CHECK_OK(weft_new_group(me->world, ranks, me->size, &asks, &group, NULL));
        CHECK_OK(weft_shrink_group(group, agreed && me->rank == 1 ? &asks_not : NULL, &left, NULL));
        warm_up(me, left, o);
        if (device_is_emulated()) CHECK_INT(calls("ncclCommSplit") - before, !agreed);
        CHECK_OK(weft_group_free(left));
        CHECK_OK(weft_group_free(group));
        job_meet(me);
    }
    job_leave(me);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("the host runs ahead", .ranks = 2, .processes = true, .body = the_host_runs_ahead),
        JOB_TEST("while a communicator is made", .ranks = 3, .processes = true,
                 .body = while_a_communicator_is_made),
        JOB_TEST("ordered differently", .ranks = 3, .processes = true, .body = ordered_differently),
        JOB_TEST("a circle, agreed", .ranks = 3, .processes = true, .body = a_circle_agreed),
        JOB_TEST("a circle", .ranks = 3, .processes = true, .body = a_circle),
        JOB_TEST("a circle of first uses", .ranks = 3, .processes = true, .bare = true,
                 .body = a_circle_of_first_uses),
        JOB_TEST("of a split", .ranks = 3, .body = of_a_split),
        JOB_TEST("one group", .ranks = 3, .processes = true, .bare = true, .body = one_group),
        JOB_TEST("one disagrees", .ranks = 3, .processes = true, .bare = true, .body = one_disagrees),
        JOB_TEST("shrunk", .ranks = 3, .processes = true, .bare = true, .body = shrunk),
        JOB_TEST("a first use that hangs", .ranks = 3, .processes = true, .body = a_first_use_that_hangs),
        JOB_TEST("an error and its cause", .ranks = 3, .processes = true, .body = an_error_and_its_cause),
        JOB_TEST("an error without", .ranks = 2, .processes = true, .body = an_error_without),
        JOB_TEST("a launch that hangs", .ranks = 3, .processes = true, .body = a_launch_that_hangs),
        JOB_TEST("a launch that fails", .ranks = 3, .processes = true, .body = a_launch_that_fails),
        JOB_TEST("a late rank", .ranks = 3, .body = a_late_rank),
        JOB_TEST("a cancel", .ranks = 3, .body = a_cancel),
        JOB_TEST("killed amid operations", .ranks = 3, .killed = 1u << 2, .body = killed),
        {"killed while nobody waits", sees_a_death_soon, NULL, NULL,
         &(job_plan){.ranks = 3, .killed = 1u << 2, .body = killed_while_nobody_waits}},
        JOB_TEST("a mismatch", .ranks = 2, .processes = true, .bare = true, .body = a_mismatch),
    };
    return JOB_MAIN(tests, argc, argv);
}
