/* test_messages.c - messages between devices when a rank dies, or a stream stands still in the middle. */
#include "device.h"

#include <string.h>
#include <weft/cuda.h>

enum { SHORT_MS = 300 * JOB_SLOWER, LARGE = 4 << 20 };

static void send_to(job_rank *me, const void *buf, int peer, int tag, weft_request **req)
{
    CHECK_OK(weft_isend(me->world, buf, LARGE, WEFT_UINT8, peer, tag, NULL, req));
}

static void receive_from(job_rank *me, void *buf, int peer, int tag, weft_request **req)
{
    CHECK_OK(weft_irecv(me->world, buf, LARGE, WEFT_UINT8, peer, tag, NULL, req));
}

/* Ends, and within the time that a death may take. */
static void ends_in_death(weft_request *req, int64_t died_ns)
{
    WAIT_STATUS(WEFT_ERR_PEER, req);
    CHECK_TEXT(weft_request_message(req), "rank 1");
    CHECK_INT(job_info(req).peer, 1);
    CHECK_PERIOD(died_ns, job_info(req).settled_ns, 0, JOB_LATE_MS);
    weft_release(req);
}

/* Rank 1 is killed while messages go to and from it all the time; rank 2 looks on. */
static void death(job_rank *me)
{
    enum { ROUNDS = JOB_SANITIZED ? 10 : 40, DYING = 1 };
    void *out = job_buffer(me, LARGE), *in = job_buffer(me, LARGE), *other = job_buffer(me, LARGE);
    weft_request *reqs[4] = {NULL};
    if (me->rank == 1) {
        for (;;) {
            send_to(me, out, 0, 0, &reqs[0]);
            receive_from(me, in, 0, 1, &reqs[1]);
            WAIT_OK(reqs[0]);
            WAIT_OK(reqs[1]);
            job_mark(me, 0);
        }
    }
    for (int i = 0;; i++) {
        weft_status status = WEFT_OK;
        if (me->rank != 0) break;
        receive_from(me, in, 1, 0, &reqs[0]);
        send_to(me, out, 1, 1, &reqs[1]);
        if (i == ROUNDS) {
            int64_t died_ns = job_now_ns();
            receive_from(me, other, 1, 2, &reqs[2]); /* that it would never send */
            send_to(me, out, 1, 3, &reqs[3]);        /* that it would never receive */
            job_mark(me, DYING);
            job_kill(me, 1);
            for (int k = 0; k < 2; k++) {
                status = weft_wait(reqs[k], JOB_WAIT_MS); /* may have been done just before */
                CHECK(status == WEFT_OK || status == WEFT_ERR_PEER);
                weft_release(reqs[k]);
            }
            ends_in_death(reqs[2], died_ns);
            ends_in_death(reqs[3], died_ns);
            break;
        }
        WAIT_OK(reqs[0]);
        WAIT_OK(reqs[1]);
    }
    job_await(me, DYING, 1);
    CHECK_STATUS(WEFT_ERR_PEER, job_await_break(me->world, JOB_WAIT_MS));
}

/* The receiver's stream stands still: the message is with both devices, and does not move. */
static void death_in_the_middle(job_rank *me)
{
    void *buf = job_buffer(me, LARGE);
    weft_request *req = NULL;
    if (me->rank == 1) {
        weft_call call = {.stream = device_stream(1)};
        send_to(me, buf, 0, 0, &req); /* the communicator is there */
        WAIT_OK(req);
        device_delay(device_stream(1), 10 * 1000 * 1000);
        CHECK_OK(weft_irecv(me->world, buf, LARGE, WEFT_UINT8, 0, 1, &call, &req));
        job_mark(me, 0);
        WAIT_OK(req);
        return;
    }
    receive_from(me, buf, 1, 0, &req);
    WAIT_OK(req);
    send_to(me, buf, 1, 1, &req);
    job_await(me, 0, 1);
    job_sleep_ms(SHORT_MS);
    CHECK_INT(weft_test(req), WEFT_PENDING);
    int64_t died_ns = job_now_ns();
    job_kill(me, 1);
    ends_in_death(req, died_ns);
    CHECK_STATUS(WEFT_ERR_PEER, job_await_break(me->world, JOB_WAIT_MS));
}

/* In the middle of a message, who waits runs out of time or cancels: both sides end, buffers are free. */
static void ended_in_the_middle(job_rank *me)
{
    bool cancels = me->arg != NULL;
    void *buf = job_buffer(me, LARGE);
    weft_request *req = NULL;
    weft_group *group = job_group(me, 2, "pair", 0);
    if (me->rank == 1) {
        weft_call call = {.stream = device_stream(1)};
        device_delay(device_stream(1), 3 * SHORT_MS * 1000);
        CHECK_OK(weft_irecv(group, buf, LARGE, WEFT_UINT8, 0, 1, &call, &req));
        job_mark(me, 0);
        WAIT_STATUS(WEFT_ERR_BROKEN, req);
        CHECK_TEXT(weft_request_message(req), "rank 0");
    } else {
        weft_call call = {.timeout_ms = cancels ? 0 : SHORT_MS};
        job_await(me, 0, 1);
        CHECK_OK(weft_isend(group, buf, LARGE, WEFT_UINT8, 1, 1, &call, &req));
        if (cancels) {
            job_sleep_ms(SHORT_MS);
            weft_cancel(req);
        }
        WAIT_STATUS(cancels ? WEFT_ERR_CANCELLED : WEFT_ERR_TIMEOUT, req);
    }
    CHECK(!job_info(req).buffers_held);
    weft_release(req);
    CHECK(job_await_break(group, JOB_LATE_MS) != WEFT_OK);
    job_sum_works(me->world);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("a death among messages", .ranks = 3, .body = death, .processes = true, .killed = 2),
        JOB_TEST("a death in the middle of one", .ranks = 2, .body = death_in_the_middle, .processes = true,
                 .killed = 2),
        JOB_TEST("time runs out in the middle", .ranks = 2, .body = ended_in_the_middle),
        JOB_TEST("cancelled in the middle", .ranks = 2, .body = ended_in_the_middle, .arg = "cancels"),
    };
    return JOB_MAIN(tests, argc, argv);
}
