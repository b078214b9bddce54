/* test_put_off.c - in program order (WEFT_DEVICE_ORDER=program, which this program is run with), on one host: what a rank leaves to
 * the next pass of progress, its agreement or an operation as a whole, keeps its place before what comes behind it
 * (runtime/device/agreement.h, program.h). */
#include "p2p.h"
#include "sum.h"

#include <stdatomic.h>
#include <weft/cuda.h>

enum { LATE_MS = 100, ROUNDS = 20 };
enum { ARRIVES_MS = 20 }; /* what was sent is there */
enum { SOON_MS = 10000, TRIES = 20 };
enum { SEEN }; /* marks: rank 0 has seen that its operations are under way, one per round */

/* ---- how often this process looks for messages, which each pass of progress does once (the linker puts this in the place of the
 * library's) ---- */

static atomic_long passes;

int __real_weft__p2p_poll(weft__p2p *p2p);
int __wrap_weft__p2p_poll(weft__p2p *p2p);

int __wrap_weft__p2p_poll(weft__p2p *p2p)
{
    atomic_fetch_add(&passes, 1);
    return __real_weft__p2p_poll(p2p);
}

/* A pass of progress takes the engine from who submits, and finds nothing mostly while all that is under way is with devices. */
static void nobody_waits(job_rank *me)
{
    enum { PASS_NS = 20000, SOME = 20 }; /* those of deep sleep, and for what came before */
    operands o = take_operands(me);
    weft_request *req = begin_sum(me->world, o, NULL); /* in which NCCL connects */
    WAIT_OK(req);
    for (int round = 0; round < ROUNDS; round++) {
        job_meet(me);
        if (me->rank == 0) {
            int64_t since = job_now_ns();
            long before;
            req = begin_sum(me->world, o, NULL);
            before = atomic_load(&passes);
            job_sleep_ms(LATE_MS / 10);
            CHECK(atomic_load(&passes) - before <= SOME + (job_now_ns() - since) / PASS_NS);
            job_mark(me, SEEN);
        } else {
            job_await(me, SEEN, round + 1);
            req = begin_sum(me->world, o, NULL);
        }
        WAIT_OK(req);
    }
    job_meet(me);
}

/* On the host plane the group's operations begin by number on each rank, also where one has put off what an operation on its
 * device leaves there and the other has not. */
static void one_in_host_memory_behind_it(job_rank *me)
{
    enum { SETTLES_MS = 20 };
    const weft_call soon = {.timeout_ms = SOON_MS};
    operands o = {job_buffer(me, bytes), job_buffer(me, bytes)};
    weft_request *first = begin_sum(me->world, o, NULL); /* in which NCCL connects */
    WAIT_OK(first);
    for (int round = 0; round < ROUNDS; round++) {
        int32_t in = me->rank + round, out = -1;
        weft_request *req = begin_sum(me->world, o, NULL);
        if (me->rank == round % 2) job_sleep_ms(SETTLES_MS);
        CHECK_OK(weft_all_reduce(me->world, &in, &out, 1, WEFT_INT32, WEFT_SUM, &soon, NULL));
        CHECK_INT(out, 2 * round + 1);
        WAIT_OK(req);
    }
    job_meet(me);
}

static atomic_bool called;

static void take_long(weft_request *req, weft_status status, void *arg)
{
    (void)req, (void)status, (void)arg;
    atomic_store(&called, true);
    job_sleep_ms(LATE_MS);
}

/* This rank's progress thread is in a callback for LATE_MS from here on. */
static void keep_thread(job_rank *me)
{
    const weft_call call = {.done = take_long};
    char byte = 1;
    weft_request *req = NULL;
    atomic_store(&called, false);
    CHECK_OK(weft_isend(me->world, &byte, 1, WEFT_INT8, 1, 0, &call, &req));
    while (!atomic_load(&called)) job_sleep_ms(1);
    weft_release(req);
}

/* What NCCL connects for, as it is the first with its type, is the progress thread's to issue, which is kept from it on one rank.
 * What is submitted behind it could be issued in its call there too, and would stand before it on that rank alone. */
static void one_behind_what_is_not_issued(job_rank *me)
{
    operands known = {job_buffer(me, bytes), job_buffer(me, bytes)};
    void *in = job_buffer(me, bytes), *out = job_buffer(me, bytes);
    char byte = 0;
    weft_request *req = begin_sum(me->world, known, NULL), *first = NULL;
    WAIT_OK(req);
    if (me->rank == 0)
        keep_thread(me);
    else
        CHECK_OK(weft_irecv(me->world, &byte, 1, WEFT_INT8, 0, 0, NULL, NULL));
    CHECK_OK(weft_all_reduce(me->world, in, out, COUNT, WEFT_FLOAT32, WEFT_SUM, NULL, &first));
    if (me->rank == 1) job_sleep_ms(LATE_MS / 2); /* there it is issued by then */
    req = begin_sum(me->world, known, NULL);
    WAIT_OK(first);
    WAIT_OK(req);
    job_meet(me);
}

/* This rank comes last to the group's first collective, so that the members know each other's slots in shared memory as it begins.
 * It was put off, and so was another one behind it. */
static void two_put_off_in_a_new_group(job_rank *me)
{
    const int last = 0;
    const weft_call soon = {.timeout_ms = SOON_MS};
    operands o = take_operands(me), other = take_operands(me);
    weft_group *group;
    weft_request *first, *second;
    char byte = 0;
    CHECK_OK(weft_new_group(me->world, (const int[]){0, 1}, 2, NULL, &group, NULL));
    if (me->rank == last) {
        job_await(me, SEEN, 1);
        job_sleep_ms(ARRIVES_MS);
        keep_thread(me);
    }
    first = begin_sum(group, o, &soon);
    if (me->rank != last) {
        job_mark(me, SEEN);
        CHECK_OK(weft_irecv(me->world, &byte, 1, WEFT_INT8, last, 0, NULL, NULL));
    }
    second = begin_sum(group, other, &soon);
    WAIT_OK(first);
    WAIT_OK(second);
    check_sum(me->size, o.out);
    check_sum(me->size, other.out);
    job_meet(me);
    CHECK_OK(weft_group_free(group));
}

static weft_status begin_in_host_memory(weft_group *group, weft_request **req)
{
    static int32_t in, out;
    return weft_all_reduce(group, &in, &out, 1, WEFT_INT32, WEFT_SUM, NULL, req);
}

static weft_status begin_captured(weft_group *group, operands o, weft_request **req)
{
    enum { GLOBAL = 0 };
    const weft_call call = {.stream = device_stream(1)};
    weft_status status;
    void *graph = NULL;
    DEVICE_OK(device()->cudaStreamBeginCapture(call.stream, GLOBAL));
    status = weft_all_reduce(group, o.in, o.out, COUNT, WEFT_INT32, WEFT_SUM, &call, req);
    DEVICE_OK(device()->cudaStreamEndCapture(call.stream, &graph));
    DEVICE_OK(device()->cudaGraphDestroy(graph));
    return status;
}

/* False: the watchdog, which drives while the progress thread is kept, has let go what was put off before another one was begun. */
static bool breaks_as_the_next_begins(job_rank *me, weft_group *group, operands o, bool captured)
{
    operands other = take_operands(me);
    weft_request *first, *next = NULL;
    weft_status status;
    keep_thread(me);
    first = begin_sum(group, o, NULL);
    status = captured ? begin_captured(group, other, &next) : begin_in_host_memory(group, &next);
    CHECK_INT(weft_group_status(group), WEFT_ERR_MISMATCH);
    WAIT_STATUS(WEFT_ERR_MISMATCH, first);
    weft_release(first);
    if (status == WEFT_ERR_BROKEN) return false;
    CHECK_INT(status, WEFT_OK);
    WAIT_STATUS(WEFT_ERR_MISMATCH, next);
    weft_release(next);
    return true;
}

/* The other rank does something else, which what was put off finds as it begins; the group breaks over it.  That is as the next one
 * begins, which so comes to a broken group: it ends as that does, and is not started. */
static bool behind_what_breaks_the_group(job_rank *me, bool captured)
{
    static const size_t counts[] = {1, 2};
    int32_t in[2] = {0}, out[3] = {0};
    operands o = take_operands(me);
    weft_group *group;
    weft_request *first;
    char byte = 0;
    job_meet(me);
    CHECK_OK(weft_new_group(me->world, (const int[]){0, 1}, 2, NULL, &group, NULL));
    first = begin_sum(group, o, NULL); /* in which NCCL connects */
    WAIT_OK(first);
    if (me->rank == 1) { /* its blocks are uneven, so it goes by messages */
        CHECK_OK(weft_all_gather_v(group, in, counts[1], out, counts, NULL, WEFT_INT32, NULL, &first));
        CHECK_OK(weft_isend(me->world, &byte, 1, WEFT_INT8, 0, 0, NULL, NULL));
        CHECK_OK(weft_irecv(me->world, &byte, 1, WEFT_INT8, 0, 0, NULL, NULL));
        WAIT_STATUS(WEFT_ERR_MISMATCH, first);
        weft_release(first);
    } else {
        CHECK_OK(
            weft_irecv(me->world, &byte, 1, WEFT_INT8, 1, 0, NULL, NULL)); /* behind the other one's frame */
        *job_results(me, 0) = breaks_as_the_next_begins(me, group, o, captured);
    }
    job_meet(me);
    CHECK_OK(weft_group_free(group));
    return *job_results(me, 0);
}

static void one_in_host_memory_behind_a_break(job_rank *me)
{
    for (int tries = 1; !behind_what_breaks_the_group(me, false); tries++) CHECK(tries < TRIES);
}

static void one_captured_behind_a_break(job_rank *me)
{
    for (int tries = 1; !behind_what_breaks_the_group(me, true); tries++) CHECK(tries < TRIES);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("nobody waits", .ranks = 2, .processes = true, .body = nobody_waits),
        JOB_TEST("one in host memory behind it", .ranks = 2, .processes = true,
                 .body = one_in_host_memory_behind_it),
        JOB_TEST("one behind what is not issued", .ranks = 2, .processes = true,
                 .body = one_behind_what_is_not_issued),
        JOB_TEST("two put off in a new group", .ranks = 2, .processes = true,
                 .body = two_put_off_in_a_new_group),
        JOB_TEST("one in host memory behind a break", .ranks = 2, .processes = true,
                 .body = one_in_host_memory_behind_a_break),
        JOB_TEST("one captured behind a break", .ranks = 2, .processes = true,
                 .body = one_captured_behind_a_break),
    };
    return JOB_MAIN(tests, argc, argv);
}
