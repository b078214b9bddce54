/* test_probed.c - what a probe waits for or holds when its sender gives up or dies, and when its group or its
 * context ends. */
#include "device.h"

#include <signal.h>
#include <string.h>

enum { SHORT_MS = 100 * JOB_SLOWER, SMALL = 40, LARGE = 3 << 20, RANKS = 4, VICTIM = 3, ALIVE = 3 };

static weft_request *probe(weft_group *group, int peer, int tag)
{
    weft_request *req = NULL;
    CHECK_OK(weft_probe(group, peer, tag, NULL, &req));
    CHECK(req);
    return req;
}

/* Sent with that tag, of bytes that all are the tag. */
static weft_request *send_one(job_rank *me, size_t n, int peer, int tag)
{
    unsigned char *buffer = job_buffer(me, n), *bytes = job_alloc(me, n);
    weft_request *req = NULL;
    memset(bytes, tag, n);
    job_put(buffer, bytes, n);
    CHECK_OK(weft_isend(me->world, buffer, n, WEFT_UINT8, peer, tag, NULL, &req));
    return req;
}

static void receive_found(job_rank *me, weft_request *found, int tag, size_t n)
{
    unsigned char *buffer = job_buffer(me, n), *bytes = job_alloc(me, n);
    WAIT_STATUS(WEFT_OK, found);
    CHECK_INT(job_info(found).bytes, n);
    CHECK_OK(weft_receive_probed(found, buffer, n, WEFT_UINT8, NULL, NULL));
    job_get(bytes, buffer, n);
    for (size_t i = 0; i < n; i++) CHECK(bytes[i] == tag);
}

enum { IS_FOUND }; /* result of a rank */

static void send_briefly(job_rank *me, void *buffer, int tag, int64_t ms)
{
    const weft_call brief = {.timeout_ms = ms};
    weft_request *req = NULL;
    CHECK_OK(weft_isend(me->world, buffer, LARGE, WEFT_UINT8, 1, tag, &brief, &req));
    WAIT_STATUS(WEFT_ERR_TIMEOUT, req);
    weft_release(req);
}

/* Returns the tag of one that rank 1 has found, in *found, before its sender's time was over: on a busy machine that may
 * need longer than a moment. */
static int find_before_it_is_given_up(job_rank *me, void *buffer, weft_request **found)
{
    int tag = 2;
    for (int64_t ms = SHORT_MS;; ms *= 3, tag++) {
        CHECK(ms < JOB_WAIT_MS);
        if (me->rank == 0)
            send_briefly(me, buffer, tag, ms);
        else
            *found = probe(me->world, 0, tag);
        job_meet(me);
        if (me->rank == 1) job_results(me, 1)[IS_FOUND] = job_info(*found).status == WEFT_OK;
        job_meet(me);
        if (job_results(me, 1)[IS_FOUND]) return tag;
        if (me->rank == 0) continue;
        weft_cancel(*found);
        weft_wait(*found, JOB_WAIT_MS);
        weft_release(*found);
    }
}

/* Its sender's time runs out while it is held. */
static void given_up(job_rank *me)
{
    void *buffer = job_buffer(me, LARGE);
    weft_request *req = NULL, *found = NULL, *next = NULL;
    const int tag = find_before_it_is_given_up(me, buffer, &found);
    if (me->rank == 0) {
        req = send_one(me, SMALL, 1, tag);
        WAIT_OK(req);
        return;
    }
    WAIT_STATUS(WEFT_OK, found);
    CHECK_INT(job_info(found).bytes, LARGE);
    next = probe(me->world, 0, tag);
    WAIT_STATUS(WEFT_OK, next); /* so the word that the first was given up is here too */
    CHECK_OK(weft_receive_probed(found, buffer, LARGE, WEFT_UINT8, NULL, &req));
    WAIT_STATUS(WEFT_ERR_CANCELLED, req);
    CHECK_TEXT(weft_request_message(req), "gave the message up");
    weft_release(req);
    receive_found(me, next, tag, SMALL);
    weft_release(next);
    weft_release(found);
}

/* ---- the end of groups and contexts -------------------------------------------------------------------- */

/* A probe's message outlives its group's handle, and what breaks the group. */
static void group_goes(job_rank *me)
{
    for (int i = 0; i < 4; i++) {
        size_t n = i & 1 ? LARGE : SMALL;
        bool breaks = i & 2;
        const weft_call call = {.memory = WEFT_MEMORY_HOST};
        unsigned char *buffer = job_alloc(me, LARGE);
        weft_group *group = job_group(me, 2, "passing", 0), *next = NULL;
        weft_request *req = NULL;
        if (me->rank == 0) {
            CHECK_OK(weft_isend(group, buffer, n, WEFT_UINT8, 1, 0, &call, &req));
        } else {
            req = probe(group, 0, 0);
            WAIT_STATUS(WEFT_OK, req);
        }
        if (breaks) {
            CHECK_OK(weft_shrink_group(group, NULL, &next, NULL));
            CHECK_INT(weft_group_size(next), 2);
            CHECK(weft_group_status(group) < 0);
        }
        CHECK_OK(weft_group_free(group));
        job_meet(me);
        if (me->rank == 1) {
            weft_request *receive = NULL;
            CHECK_INT(job_info(req).bytes, n);
            CHECK_OK(weft_receive_probed(req, buffer, n, WEFT_UINT8, &call, &receive));
            WAIT_STATUS(WEFT_OK, receive);
            CHECK_INT(job_info(receive).received_bytes, n);
            weft_release(receive);
        }
        WAIT_OK(req);
        if (next) job_sum_works(next);
        if (next) CHECK_OK(weft_group_free(next));
    }
}

/* Leaving does not wait for what is held, and frees it; a sender that still needs this rank hears that it has
 * left. */
static void context_goes(job_rank *me)
{
    job_join(me);
    unsigned char *buffer = job_alloc(me, LARGE);
    const weft_call call = {.memory = WEFT_MEMORY_HOST};
    weft_request *small = NULL, *large = NULL, *pending = NULL;
    if (me->rank == 0) {
        CHECK_OK(weft_isend(me->world, buffer, SMALL, WEFT_UINT8, 1, 0, &call, &small));
        CHECK_OK(weft_isend(me->world, buffer, LARGE, WEFT_UINT8, 1, 0, &call, &large));
        WAIT_OK(small);
        WAIT_STATUS(WEFT_ERR_PEER, large);
        CHECK_TEXT(weft_request_message(large), "has left");
        weft_release(large);
        job_leave(me);
        return;
    }
    for (int i = 0; i < 2; i++) {
        weft_request *held = probe(me->world, 0, 0); /* never given back */
        WAIT_STATUS(WEFT_OK, held);
    }
    pending = probe(me->world, 0, 0);
    CHECK_INT(weft_finalize(me->ctx, SHORT_MS), WEFT_PENDING); /* one that has found nothing is waited for */
    weft_cancel(pending);
    CHECK_OK(weft_finalize(me->ctx, JOB_WAIT_MS));
    me->ctx = NULL;
}

/* ---- deaths
 * ---------------------------------------------------------------------------------------------- */

/* What the dead had sent whole is received, in host memory; what it had announced is not; and a probe that
 * waits for it ends. */
static void death(job_rank *me)
{
    static unsigned char buffer[LARGE];
    const weft_call call = {.memory = WEFT_MEMORY_HOST};
    weft_request *whole, *announced, *free_again, *waiting, *req = NULL;
    weft_group *survivors = NULL;
    if (me->rank == VICTIM) {
        for (int i = 0; i < ALIVE; i++) {
            CHECK_OK(weft_isend(me->world, buffer, SMALL, WEFT_UINT8, i, 1, &call, &req));
            CHECK_OK(weft_isend(me->world, buffer, LARGE, WEFT_UINT8, i, 2, &call, &req));
            CHECK_OK(weft_isend(me->world, buffer, LARGE, WEFT_UINT8, i, 3, &call, &req));
        }
        job_sleep_ms(JOB_LIMIT_MS);
        return;
    }
    whole = probe(me->world, VICTIM, 1);
    announced = probe(me->world, WEFT_ANY_RANK, 2);
    free_again = probe(me->world, VICTIM, 3);
    waiting = probe(me->world, VICTIM, 4);
    WAIT_STATUS(WEFT_OK, whole);
    WAIT_STATUS(WEFT_OK, announced);
    WAIT_STATUS(WEFT_OK, free_again);
    CHECK_INT(weft_test(waiting), WEFT_PENDING);
    job_mark(me, 0);
    if (me->rank == 0) {
        job_await(me, 0, ALIVE);
        job_kill(me, VICTIM);
    }
    WAIT_STATUS(WEFT_ERR_PEER, waiting);
    CHECK_NAMES(weft_request_message(waiting), 1U << VICTIM, RANKS);
    CHECK_INT(job_info(waiting).peer, VICTIM);
    CHECK(job_await_break(me->world, JOB_LATE_MS) < 0);
    CHECK_OK(weft_shrink_group(me->world, NULL, &survivors, NULL));
    CHECK_INT(weft_group_size(survivors), ALIVE);
    memset(buffer, 1, SMALL);
    CHECK_OK(weft_receive_probed(whole, buffer, SMALL, WEFT_UINT8, &call, NULL));
    for (int i = 0; i < SMALL; i++) CHECK(buffer[i] == 0);
    CHECK_OK(weft_receive_probed(announced, buffer, LARGE, WEFT_UINT8, &call, &req));
    WAIT_STATUS(WEFT_ERR_PEER, req);
    CHECK_NAMES(weft_request_message(req), 1U << VICTIM, RANKS);
    CHECK_INT(job_info(req).peer, VICTIM);
    weft_release(req);
    weft_release(free_again);
    CHECK_STATUS(WEFT_ERR_PEER, weft_probe(me->world, VICTIM, 3, NULL, NULL));
    job_sum_works(survivors);
    weft_release(whole);
    weft_release(announced);
    weft_release(waiting);
    job_mark(me, 1);
    job_await(me, 1, ALIVE);
}

/* In device memory: what was held ends with its sender. */
static void death_on_devices(job_rank *me)
{
    weft_request *found, *req = NULL;
    if (!job_on_device()) {
        if (me->rank == 1) raise(SIGKILL);
        return;
    }
    if (me->rank == 1) {
        req = send_one(me, SMALL, 0, 1);
        job_sleep_ms(JOB_LIMIT_MS);
        return;
    }
    found = probe(me->world, 1, 1);
    WAIT_STATUS(WEFT_OK, found);
    CHECK_INT(job_info(found).memory, job_memory());
    void *buffer = job_buffer(me, SMALL);
    job_kill(me, 1);
    CHECK(job_await_break(me->world, JOB_LATE_MS) < 0);
    CHECK_STATUS(WEFT_ERR_BROKEN, weft_receive_probed(found, buffer, SMALL, WEFT_UINT8, NULL, &req));
    weft_release(found);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("given up", .ranks = 2, .body = given_up),
        JOB_TEST("a group that goes", .ranks = 2, .body = group_goes),
        JOB_TEST("a context that goes", .ranks = 2, .body = context_goes, .bare = true),
        JOB_TEST("a death", .ranks = RANKS, .body = death, .processes = true, .killed = 1U << VICTIM),
        JOB_TEST("a death on devices", .ranks = 2, .body = death_on_devices, .processes = true, .killed = 2),
    };
    return JOB_MAIN(tests, argc, argv);
}
