/* test_leave.c - leaving is not collective: by finalize, abort, exit, and what a forked child may do. */
#include "job.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { AT_EXIT_MS = 2000 }; /* for which contexts still open at exit are finalized */

static void leave_now(job_rank *me, int64_t timeout_ms)
{
    CHECK_OK(weft_finalize(me->ctx, timeout_ms));
    me->ctx = NULL;
    me->world = NULL;
}

/* ---- who still needs the one that left
 * ------------------------------------------------------------------- */

static void needed(job_rank *me)
{
    int32_t in = 1, out = 0, value = 0;
    weft_request *reduce = NULL, *receive = NULL, *send = NULL;
    unsigned char *large = job_alloc(me, 4 << 20);
    weft_group *other = NULL;
    if (me->rank != 1) {
        static const int pair[] = {0, 2};
        CHECK_OK(weft_new_group(me->world, pair, 2, NULL, &other, NULL));
        CHECK_OK(weft_all_reduce(me->world, &in, &out, 1, WEFT_INT32, WEFT_SUM, NULL, &reduce));
        CHECK_OK(weft_irecv(me->world, &value, 1, WEFT_INT32, 1, 0, NULL, &receive));
        CHECK_OK(weft_isend(me->world, large, 4 << 20, WEFT_UINT8, 1, 0, NULL, &send));
    }
    job_meet(me);
    if (me->rank == 1) {
        leave_now(me, JOB_WAIT_MS); /* what the others want of it does not keep it */
        return;
    }
    weft_request *reqs[] = {reduce, receive, send};
    for (int i = 0; i < 3; i++) {
        WAIT_STATUS(WEFT_ERR_PEER, reqs[i]);
        CHECK_TEXT(weft_request_message(reqs[i]), "rank 1 has left");
        weft_release(reqs[i]);
    }
    CHECK(weft_barrier(me->world, NULL, NULL) < 0);
    CHECK_STATUS(WEFT_ERR_PEER, weft_irecv(me->world, &value, 1, WEFT_INT32, 1, 1, NULL, NULL));
    CHECK_TEXT(weft_last_error(), "rank 1 has left");
    job_sum_works(other);
}

/* A group's first collective, to which one member has not come yet, and another one will not. */
static void left_before_it_met(job_rank *me)
{
    enum { WAITS, HAS_HEARD };
    const int all[] = {0, 1, 2};
    weft_group *group = NULL;
    weft_request *req = NULL;
    CHECK_OK(weft_new_group(me->world, all, 3, NULL, &group, NULL));
    if (me->rank == 1) {
        CHECK_OK(weft_barrier(group, NULL, &req));
        CHECK(!weft_is_completed(req));
        job_mark(me, WAITS);
        WAIT_STATUS(WEFT_ERR_PEER, req);
        CHECK_TEXT(weft_request_message(req), "rank 2 has left");
        weft_release(req);
        job_mark(me, HAS_HEARD);
    } else {
        job_await(me, WAITS, 1);
        if (me->rank == 2) leave_now(me, JOB_WAIT_MS);
        job_await(me, HAS_HEARD, 1);
    }
}

/* Every rank leaves as soon as its own part is done; nobody is cut short by that. */
static void each_in_its_time(job_rank *me)
{
    enum { COUNT = 300000 };
    int32_t *buf = job_alloc(me, COUNT * sizeof *buf);
    for (int i = 0; i < COUNT; i++) buf[i] = me->rank == 0 ? i : -1;
    if (me->rank == me->size - 1) {
        job_sleep_ms(100);
    }
    CHECK_OK(weft_broadcast(me->world, buf, COUNT, WEFT_INT32, 0, NULL, NULL));
    for (int i = 0; i < COUNT; i++) CHECK_INT(buf[i], i);
}

/* ---- messages that were sent before leaving
 * ------------------------------------------------------------------ */

enum { MESSAGES = 12, LARGE = 1 << 20 };

static void send_all(job_rank *me)
{
    for (int i = 0; i < MESSAGES; i++) {
        size_t n = i % 3 ? 500 : LARGE;
        unsigned char *buf = job_alloc(me, n);
        weft_request *req = NULL;
        memset(buf, i + 1, n);
        CHECK_OK(weft_isend(me->world, buf, n, WEFT_UINT8, 0, i, NULL, &req));
        weft_release(req);
    }
}

static void receive_all(job_rank *me)
{
    unsigned char *buf = job_alloc(me, LARGE);
    for (int i = MESSAGES; i-- > 0;) {
        size_t n = i % 3 ? 500 : LARGE;
        CHECK_OK(weft_irecv(me->world, buf, n, WEFT_UINT8, 1, i, NULL, NULL));
        CHECK(buf[0] == i + 1 && buf[n - 1] == i + 1);
    }
}

static void sent_before(job_rank *me)
{
    if (me->rank == 1) {
        send_all(me);
        leave_now(me, JOB_WAIT_MS);
        return;
    }
    job_sleep_ms(500); /* the sender is leaving by now */
    receive_all(me);
}

/* ---- finalize that has to wait, abort
 * ------------------------------------------------------------------------ */

static void finalize_again(job_rank *me)
{
    int32_t value = 9, got = 0;
    weft_request *req = NULL;
    if (me->rank == 1) {
        job_await(me, 0, 1);
        CHECK_OK(weft_isend(me->world, &value, 1, WEFT_INT32, 0, 0, NULL, NULL));
        return;
    }
    CHECK_OK(weft_irecv(me->world, &got, 1, WEFT_INT32, 1, 0, NULL, &req));
    int64_t before = job_now_ns();
    CHECK_INT(weft_finalize(me->ctx, 200), WEFT_PENDING);
    CHECK_PERIOD(before, job_now_ns(), 200, 200 + JOB_LATE_MS);
    CHECK_TEXT(weft_last_error(), "1 request has not settled");
    CHECK_TEXT(weft_last_error(), "irecv #1 on group world");
    CHECK_NAMES(weft_last_error(), 1U << 1, me->size);
    CHECK(weft_barrier(me->world, NULL, NULL) < 0); /* no new work */
    CHECK_INT(weft_test(req), WEFT_PENDING);        /* but the old goes on */
    job_mark(me, 0);
    leave_now(me, JOB_WAIT_MS);
    CHECK_INT(got, 9);
}

/* A collective that others have not come to: who is missing is named. */
static void finalize_names_missing(job_rank *me)
{
    weft_request *req = NULL;
    job_acquaint(me);
    if (me->rank == 0) {
        CHECK_OK(weft_barrier(me->world, NULL, &req));
        job_await(me, 0, 1);
        CHECK_INT(weft_finalize(me->ctx, JOB_SHORT_MS), WEFT_PENDING);
        CHECK_TEXT(weft_last_error(), "barrier #1 on group world");
        CHECK_NAMES(weft_last_error(), 1U << 2, me->size);
        job_mark(me, 1);
        leave_now(me, JOB_WAIT_MS);
        return;
    }
    if (me->rank == 1) {
        CHECK_OK(weft_barrier(me->world, NULL, &req));
        job_mark(me, 0);
    }
    job_await(me, 1, 1);
    if (me->rank == 2) CHECK_OK(weft_barrier(me->world, NULL, &req));
    WAIT_OK(req);
}

/* What was sent lies with a rank that does not run: it is named. */
static void finalize_names_stopped(job_rank *me)
{
    int32_t value = 9;
    if (me->rank == 1) {
        job_message_works(me->world, 0, 1, 1);
        job_mark(me, 0);
        job_await(me, 1, 1);
        CHECK_OK(weft_irecv(me->world, &value, 1, WEFT_INT32, 0, 2, NULL, NULL));
        return;
    }
    if (me->rank != 0) return;
    job_message_works(me->world, 0, 1, 1);
    job_await(me, 0, 1);
    job_stop(me, 1);
    CHECK_OK(weft_isend(me->world, &value, 1, WEFT_INT32, 1, 2, NULL, NULL));
    CHECK_INT(weft_finalize(me->ctx, JOB_SHORT_MS), WEFT_PENDING);
    CHECK_NAMES(weft_last_error(), 1U << 1, me->size);
    CHECK_TEXT(weft_last_error(), "has not taken what was sent to it");
    CHECK_INT(kill(job_pid(me, 1), SIGCONT), 0);
    job_mark(me, 1);
    leave_now(me, JOB_WAIT_MS);
}

static void await_end(pid_t pid)
{
    struct pollfd end = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};
    CHECK(end.fd >= 0);
    CHECK_INT(poll(&end, 1, JOB_WAIT_MS), 1);
    close(end.fd);
}

/* Whoever has taken the goodbye of a rank that still waits for another one leaves too, and that is no death.  By TCP it
 * would have to wait for the stopped one too, over which it watches then. */
static void leaves_behind(job_rank *me)
{
    int32_t value = 9;
    job_setenv(me, "WEFT_TRANSPORT", "shm");
    job_join(me);
    if (me->rank == 2) {
        job_message_works(me->world, 0, 2, 1);
        job_mark(me, 0);
        CHECK_OK(weft_irecv(me->world, &value, 1, WEFT_INT32, 0, 2, NULL, NULL));
        return;
    }
    if (me->rank == 1) {
        job_await(me, 1, 1);
        CHECK_STATUS(WEFT_ERR_PEER, weft_irecv(me->world, &value, 1, WEFT_INT32, 0, 3, NULL, NULL));
        leave_now(me, JOB_WAIT_MS);
        return;
    }
    job_message_works(me->world, 0, 2, 1);
    job_await(me, 0, 1);
    job_stop(me, 2);
    CHECK_OK(weft_isend(me->world, &value, 1, WEFT_INT32, 2, 2, NULL, NULL));
    CHECK_INT(weft_finalize(me->ctx, JOB_SHORT_MS), WEFT_PENDING);
    job_mark(me, 1);
    await_end(job_pid(me, 1));
    CHECK_INT(weft_finalize(me->ctx, JOB_SHORT_MS), WEFT_PENDING);
    CHECK_OK(weft_group_status(me->world));
    CHECK_INT(kill(job_pid(me, 2), SIGCONT), 0);
    leave_now(me, JOB_WAIT_MS);
}

static void note_status(weft_request *req, weft_status status, void *arg)
{
    (void)req;
    *(weft_status *)arg = status;
}

/* From any rank: this rank itself may still send, until it leaves; then nobody can, and it does not wait. */
static void from_anyone_alone(job_rank *me)
{
    int32_t value = 5, got = 0;
    weft_status last = WEFT_PENDING;
    weft_call call = {.done = note_status, .arg = &last, .timeout_ms = WEFT_FOREVER};
    weft_request *req = NULL;
    if (me->rank == 1) {
        job_message_works(me->world, 1, 0, 1);
        leave_now(me, JOB_WAIT_MS);
        job_mark(me, 0);
        return;
    }
    job_message_works(me->world, 1, 0, 1);
    CHECK_OK(weft_irecv(me->world, &got, 1, WEFT_INT32, WEFT_ANY_RANK, 3, NULL, &req));
    job_await(me, 0, 1);
    CHECK_STATUS(WEFT_ERR_PEER, weft_isend(me->world, &value, 1, WEFT_INT32, 1, 3, NULL, NULL));
    CHECK_INT(weft_test(req), WEFT_PENDING);
    CHECK_OK(weft_isend(me->world, &value, 1, WEFT_INT32, 0, 3, NULL, NULL));
    WAIT_OK(req);
    CHECK_INT(got, value);
    CHECK_OK(weft_irecv(me->world, &got, 1, WEFT_INT32, WEFT_ANY_RANK, 3, &call, &req));
    leave_now(me, JOB_LATE_MS);
    CHECK_INT(last, WEFT_ERR_PEER);
}

static void aborts(job_rank *me)
{
    int32_t in = 1, out = 0, value = 0;
    weft_request *reduce = NULL, *receive = NULL;
    CHECK_OK(weft_irecv(me->world, &value, 1, WEFT_INT32, (me->rank + 1) % 3, 0, NULL, &receive));
    if (me->rank < 2) {
        CHECK_OK(weft_all_reduce(me->world, &in, &out, 1, WEFT_INT32, WEFT_SUM, NULL, &reduce));
    }
    job_meet(me);
    if (me->rank == 1) {
        int64_t before = job_now_ns();
        weft_abort(me->ctx, "out of coffee");
        CHECK_PERIOD(before, job_now_ns(), 0, JOB_LATE_MS);
        me->ctx = NULL;
        job_meet(me);
        return;
    }
    if (me->rank == 0) {
        weft_status status = weft_wait(reduce, JOB_WAIT_MS); /* cancelled by rank 1, which then left */
        CHECK(status == WEFT_ERR_PEER || status == WEFT_ERR_CANCELLED);
        CHECK(job_names(weft_request_message(reduce), 1));
        WAIT_STATUS(WEFT_ERR_PEER, receive);
        weft_release(reduce);
    } else {
        weft_cancel(receive); /* from rank 0, which lives */
        WAIT_STATUS(WEFT_ERR_CANCELLED, receive);
    }
    weft_release(receive);
    job_meet(me);
    job_message_works(me->world, 0, 2, 1);
}

/* Who learns that the ranks disagree leaves at once: the others are told of the disagreement, not of that. */
static void disagrees_and_leaves(job_rank *me)
{
    int32_t in = 1, out = 0;
    weft_request *req = NULL;
    weft_op op = me->rank == 1 ? WEFT_MAX : WEFT_SUM;
    weft_status status = weft_all_reduce(me->world, &in, &out, 1, WEFT_INT32, op, NULL, &req);
    if (status == WEFT_OK)
        WAIT_STATUS(WEFT_ERR_MISMATCH, req);
    else
        CHECK_INT(status, WEFT_ERR_BROKEN); /* it had been told before it called */
    CHECK_TEXT(weft_last_error(), "rank 1 passed all_reduce of 1 int32 (max)");
    leave_now(me, JOB_WAIT_MS);
}

/* ---- exit and fork
 * ---------------------------------------------------------------------------------------------- */

enum { EXITS_AT }; /* result of a rank */

static _Noreturn void exit_at(job_rank *me)
{
    job_results(me, me->rank)[EXITS_AT] = job_now_ns();
    exit(0);
}

/* The handler at exit leaves properly: what was sent arrives, who waits is told. */
static void exits(job_rank *me)
{
    static int32_t value = 5, got, never; /* outlive the body of the rank that exits */
    weft_request *req = NULL;
    job_message_works(me->world, 1, 0,
                      3); /* a handshake by a busy machine may take longer than the handler waits */
    if (me->rank == 1) {
        CHECK_OK(weft_isend(me->world, &value, 1, WEFT_INT32, 0, 1, NULL, &req));
        job_await(me, 0, 1);
        exit_at(me);
    }
    CHECK_OK(weft_irecv(me->world, &never, 1, WEFT_INT32, 1, 2, NULL, &req)); /* nobody sends that */
    job_mark(me, 0);
    job_sleep_ms(200); /* rank 1 is in its handler by now */
    CHECK_OK(weft_irecv(me->world, &got, 1, WEFT_INT32, 1, 1, NULL, NULL));
    CHECK_INT(got, value);
    WAIT_STATUS(WEFT_ERR_PEER, req);
    CHECK_PERIOD(job_results(me, 1)[EXITS_AT], job_info(req).settled_ns, 0, AT_EXIT_MS + JOB_LATE_MS);
    weft_release(req);
}

/* The job's own handler at exit, which runs after the library's: the parent need not know of the code. */
static void end_well(void)
{
    _exit(0);
}

/* A program that ends with another code has not left as agreed: who needs it is told of the code. */
static void exits_with_code(job_rank *me)
{
    static int32_t never;
    if (me->rank == 1) CHECK_INT(atexit(end_well), 0);
    job_join(me);
    job_message_works(me->world, 0, 1, 1);
    job_message_works(me->world, 1, 0, 2);
    if (me->rank == 1) exit(7);
    CHECK_STATUS(WEFT_ERR_PEER, weft_irecv(me->world, &never, 1, WEFT_INT32, 1, 3, NULL, NULL));
    CHECK_TEXT(weft_last_error(), "rank 1 has exited with code 7 without leaving the job");
}

/* With something that never ends the handler gives up after 2 s and the process ends all the same. */
static void exits_while_pending(job_rank *me)
{
    static int32_t never;
    weft_request *req = NULL;
    if (me->rank == 1) {
        CHECK_OK(weft_irecv(me->world, &never, 1, WEFT_INT32, 0, 7, NULL, &req));
        job_mark(me, 0);
        exit_at(me);
    }
    job_await(me, 0, 1);
    CHECK_STATUS(WEFT_ERR_PEER, weft_irecv(me->world, &never, 1, WEFT_INT32, 1, 2, NULL, NULL));
    CHECK_PERIOD(job_results(me, 1)[EXITS_AT], job_now_ns(), 0, AT_EXIT_MS + JOB_LATE_MS);
}

static void *waits_on(void *req)
{
    weft_wait(req, WEFT_FOREVER);
    return NULL;
}

static void *polls_on(void *req)
{
    for (;;) weft_test(req);
    return NULL;
}

/* Threads that are inside calls, or call on and on, when their process exits: they find all in place. */
static void exits_under_threads(job_rank *me)
{
    static int32_t never;
    static weft_request *req;
    pthread_t thread;
    if (me->rank == 1) {
        CHECK_OK(weft_irecv(me->world, &never, 1, WEFT_INT32, 0, 7, NULL, &req));
        CHECK_INT(pthread_create(&thread, NULL, waits_on, req), 0);
        CHECK_INT(pthread_detach(thread), 0);
        CHECK_INT(pthread_create(&thread, NULL, polls_on, req), 0);
        CHECK_INT(pthread_detach(thread), 0);
        job_sleep_ms(20);
        exit(0);
    }
    CHECK_STATUS(WEFT_ERR_PEER, weft_irecv(me->world, &never, 1, WEFT_INT32, 1, 2, NULL, NULL));
}

/* In the child: 0 if every call was refused and nothing hangs. */
static int use_in_child(job_rank *me)
{
    int32_t value = 0;
    weft_request *req = NULL;
    return (weft_barrier(me->world, NULL, NULL) != WEFT_ERR_STATE) |
           (weft_isend(me->world, &value, 1, WEFT_INT32, 0, 0, NULL, &req) != WEFT_ERR_STATE) << 1 |
           (weft_all_reduce(me->world, &value, &value, 1, WEFT_INT32, WEFT_SUM, NULL, &req) != WEFT_ERR_STATE)
               << 2 |
           (weft_finalize(me->ctx, 1000) != WEFT_ERR_STATE) << 3 | (weft_current() != NULL) << 4;
}

static void forks(job_rank *me)
{
    int status = -1;
    job_sum_works(me->world);
    pid_t child = fork();
    if (child == 0) {
        int code = use_in_child(me);
        if (me->arg && !JOB_SANITIZED) {
            exit(code); /* with the handlers at exit (a leak checker's too: it would not know the threads) */
        }
        _exit(code);
    }
    CHECK(child > 0);
    CHECK_INT(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status));
    CHECK_INT(WEXITSTATUS(status), 0);
    job_sum_works(me->world);
    job_message_works(me->world, 0, 1, 1);
}

/* ---- two contexts in one process
 * ---------------------------------------------------------------------------------- */

static void two_contexts(job_rank *me)
{
    char url[64];
    weft_config config = job_config(me, url, 1);
    weft_context *second = NULL;
    job_join(me);
    CHECK_OK(weft_init(&config, &second));
    CHECK(second != me->ctx && weft_current() == me->ctx);
    for (int i = 0; i < 3; i++) {
        job_sum_works(me->world);
        job_sum_works(weft_world(second));
    }
    leave_now(me, JOB_WAIT_MS);
    CHECK(weft_current() == second);
    job_sum_works(weft_world(second));
    CHECK_OK(weft_finalize(second, JOB_WAIT_MS));
    CHECK(!weft_current());
}

/* What ends, forks or lists the contexts of its process. */
#define APART(sentence, ...) JOB_TEST(sentence, .ranks = 2, .processes = true, __VA_ARGS__)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("needed by others", .ranks = 3, .body = needed),
        JOB_TEST("who will not come to a group's first collective", .ranks = 3, .body = left_before_it_met),
        JOB_TEST("each in its time", .ranks = 4, .body = each_in_its_time),
        JOB_TEST("messages sent before", .ranks = 2, .body = sent_before),
        JOB_TEST("finalize again", .ranks = 2, .body = finalize_again),
        JOB_TEST("finalize names who is missing", .ranks = 3, .body = finalize_names_missing),
        JOB_TEST("finalize names who is stopped", .ranks = 3, .processes = true,
                 .body = finalize_names_stopped),
        JOB_TEST("finalize outlasts others", .ranks = 3, .processes = true, .body = leaves_behind,
                 .bare = true),
        JOB_TEST("a receive from anyone, alone", .ranks = 2, .body = from_anyone_alone),
        JOB_TEST("abort", .ranks = 3, .body = aborts),
        JOB_TEST("disagreement", .ranks = 4, .body = disagrees_and_leaves),
        APART("exit", .body = exits),
        APART("exit with a code", .body = exits_with_code, .bare = true),
        APART("exit while pending", .body = exits_while_pending),
        APART("exit under threads", .body = exits_under_threads),
        APART("fork", .body = forks),
        APART("fork and exit", .body = forks, .arg = "exit"),
        APART("two contexts", .body = two_contexts, .bare = true),
    };
    return JOB_MAIN(tests, argc, argv);
}
