/* test_completion_fd.c - the completion descriptor under the worst timing: a write to it that takes its time,
 * and looks at requests before, during and after it.
 *
 * This program's own write and read stand before those of libc, for the library too. */
#include "job.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

static _Atomic int descriptor = -1;
static atomic_int slow_writes, in_write, go_on; /* the first slow_writes writes stop until go_on */
static atomic_int slow_reads, in_read, read_on;
static atomic_int slow_returns, in_return, return_on; /* of writes that are done */

static void stop_at(atomic_int *left, atomic_int *inside, const atomic_int *until)
{
    if (atomic_fetch_sub(left, 1) <= 0) {
        atomic_fetch_add(left, 1);
        return;
    }
    atomic_store(inside, 1);
    for (int i = 0; !atomic_load(until) && i < JOB_WAIT_MS; i++) job_sleep_ms(1);
    atomic_store(inside, 0);
}

EXPORTED ssize_t write(int fd, const void *buf, size_t n)
{
    if (fd >= 0 && fd == atomic_load(&descriptor)) stop_at(&slow_writes, &in_write, &go_on);
    ssize_t written = syscall(SYS_write, fd, buf, n);
    if (fd >= 0 && fd == atomic_load(&descriptor)) stop_at(&slow_returns, &in_return, &return_on);
    return written;
}

EXPORTED ssize_t read(int fd, void *buf, size_t nbytes)
{
    if (fd >= 0 && fd == atomic_load(&descriptor)) stop_at(&slow_reads, &in_read, &read_on);
    return syscall(SYS_read, fd, buf, nbytes);
}

static int readable(int timeout_ms)
{
    struct pollfd what = {.fd = atomic_load(&descriptor), .events = POLLIN};
    return poll(&what, 1, timeout_ms);
}

static void await(const atomic_int *flag)
{
    for (int i = 0; !atomic_load(flag) && i < JOB_WAIT_MS; i++) job_sleep_ms(1);
    CHECK(atomic_load(flag));
}

/* Tags 0 and 1 are received by this rank from itself. */
static void open_receives(job_rank *me, int32_t *values, weft_request *reqs[2])
{
    atomic_store(&descriptor, weft_completion_fd(me->ctx));
    CHECK(atomic_load(&descriptor) >= 0);
    for (int tag = 0; tag < 2; tag++)
        CHECK_OK(weft_irecv(me->world, &values[tag], 1, WEFT_INT32, 0, tag, NULL, &reqs[tag]));
    for (int i = 0; i < 2; i++) CHECK_INT(weft_test(reqs[i]), WEFT_PENDING);
    while (readable(0)) CHECK_INT(weft_test(reqs[0]), WEFT_PENDING);
}

static void send_a_tag(job_rank *me, int tag)
{
    const int32_t value = 1;
    CHECK_OK(weft_isend(me->world, &value, 1, WEFT_INT32, 0, tag, NULL, NULL));
}

static void settle_slowly(job_rank *me, int thread, void *arg)
{
    weft_request **reqs = arg;
    (void)me;
    if (thread == 0) {
        weft_cancel(reqs[0]); /* nothing else settles */
        return;
    }
    await(&in_write);
    /* It has settled and is being told.  Whoever looks now sees it; the write comes after that look. */
    CHECK_INT(weft_test(reqs[0]), WEFT_ERR_CANCELLED);
    atomic_store(&go_on, 1);
}

/* A look in the middle of the write: the descriptor may be readable once more, and then not for ever. */
static void looked_at_while_written(job_rank *me)
{
    int32_t values[2];
    weft_request *reqs[2];
    open_receives(me, values, reqs);
    atomic_store(&slow_writes, 1);
    job_threads(me, 2, settle_slowly, reqs);
    for (int looks = 0; readable(0); looks++) {
        CHECK(looks < 3);
        CHECK_INT(weft_test(reqs[1]), WEFT_PENDING);
    }
    send_a_tag(me, 1);
    CHECK_INT(readable(JOB_WAIT_MS), 1);
    CHECK_INT(weft_test(reqs[1]), WEFT_OK);
    for (int i = 0; i < 2; i++) weft_release(reqs[i]);
}

static void clear_slowly(job_rank *me, int thread, void *arg)
{
    weft_request **reqs = arg;
    if (thread == 0) {
        weft_test(reqs[0]); /* stops inside its read of the descriptor */
        return;
    }
    await(&in_read);
    send_a_tag(me, 1);
    atomic_store(&read_on, 1);
}

/* A settling in the middle of the clearing: the look that clears may be past it, so the next poll is told. */
static void settled_while_cleared(job_rank *me)
{
    int32_t values[2];
    weft_request *reqs[2];
    open_receives(me, values, reqs);
    send_a_tag(me, 0);
    CHECK_INT(readable(JOB_WAIT_MS), 1);
    atomic_store(&slow_reads, 1);
    job_threads(me, 2, clear_slowly, reqs);
    CHECK_INT(readable(JOB_WAIT_MS), 1);
    CHECK_INT(weft_test(reqs[1]), WEFT_OK);
    CHECK_INT(readable(0), 0);
    for (int i = 0; i < 2; i++) WAIT_OK(reqs[i]);
}

static void write_and_be_read(job_rank *me, int thread, void *arg)
{
    weft_request **reqs = arg;
    (void)me;
    if (thread == 0) {
        weft_cancel(reqs[0]);
        return;
    }
    await(&in_return);
    CHECK_INT(readable(0), 1);
    CHECK_INT(weft_test(reqs[0]), WEFT_ERR_CANCELLED); /* reads what its writer does not know yet is there */
    CHECK_INT(readable(0), 0);
    atomic_store(&return_on, 1);
}

/* A look between a write and its writer's next step: nothing of what was written is left. */
static void looked_at_when_just_written(job_rank *me)
{
    int32_t values[2];
    weft_request *reqs[2];
    open_receives(me, values, reqs);
    atomic_store(&slow_returns, 1);
    job_threads(me, 2, write_and_be_read, reqs);
    CHECK_INT(readable(0), 0);
    send_a_tag(me, 1);
    CHECK_INT(readable(JOB_WAIT_MS), 1);
    CHECK_INT(weft_test(reqs[1]), WEFT_OK);
    CHECK_INT(readable(0), 0);
    for (int i = 0; i < 2; i++) weft_release(reqs[i]);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("looked at while it is written", .ranks = 1, .body = looked_at_while_written),
        JOB_TEST("looked at when it has just been written", .ranks = 1, .body = looked_at_when_just_written),
        JOB_TEST("settled while it is cleared", .ranks = 1, .body = settled_while_cleared),
    };
    return JOB_MAIN(tests, argc, argv);
}
