/* test_cancel.c - a collective cancelled, a group aborted: told to all members with the first cause; an
 * exchange cancelled on both sides. */
#include "job.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { RANKS = 3 };

static void check_broken(weft_group *group, const char *cause)
{
    CHECK(job_await_break(group, JOB_LATE_MS) < 0);
    CHECK_STATUS(WEFT_ERR_BROKEN, weft_barrier(group, NULL, NULL));
    CHECK_TEXT(weft_last_error(), cause);
}

/* Rank 2 does not join, so nobody can have earned anything. */
static void pending(job_rank *me)
{
    int32_t in = 1, out = 0;
    weft_group *group = job_group(me, RANKS, "cancelled", 0), *other = job_group(me, RANKS, "other", 0);
    weft_request *first = NULL, *later = NULL;
    if (me->rank != 2) {
        CHECK_OK(weft_all_reduce(group, &in, &out, 1, WEFT_INT32, WEFT_SUM, NULL, &first));
        CHECK_OK(weft_barrier(group, NULL, &later));
        job_mark(me, 0);
        if (me->rank == 0) {
            job_await(me, 0, 2);
            weft_cancel(first);
        }
        WAIT_STATUS(WEFT_ERR_CANCELLED, first);
        CHECK_TEXT(weft_request_message(first), "all_reduce");
        WAIT_STATUS(WEFT_ERR_BROKEN, later);
        weft_release(first);
        weft_release(later);
    }
    check_broken(group, "all_reduce");
    job_sum_works(other);
    job_sum_works(me->world);
    job_message_works(group, 0, 1, 1);
}

/* All take part and one cancels: it settles once, and whoever has earned it keeps it. */
static void race(job_rank *me)
{
    enum { ROUNDS = 25, COUNT = 50000 };
    int32_t *in = job_alloc(me, COUNT * sizeof *in), *out = job_alloc(me, COUNT * sizeof *out);
    for (int i = 0; i < COUNT; i++) in[i] = i;
    for (int round = 0; round < ROUNDS; round++) {
        weft_group *group = job_group(me, RANKS, "raced", 0);
        weft_request *req = NULL;
        weft_status status = weft_all_reduce(group, in, out, COUNT, WEFT_INT32, WEFT_SUM, NULL, &req);
        CHECK(status == WEFT_OK ||
              (status == WEFT_ERR_BROKEN && me->rank != 0)); /* the cancel may be first */
        for (volatile int spin = 0; spin < round * 2000 && me->rank == 0; spin++) continue;
        if (me->rank == 0) {
            weft_cancel(req);
        }
        if (status == WEFT_OK) {
            status = weft_wait(req, JOB_WAIT_MS);
            CHECK(status == WEFT_OK || status == WEFT_ERR_CANCELLED);
        }
        CHECK(status != WEFT_OK || out[COUNT - 1] == RANKS * (COUNT - 1));
        job_results(me, me->rank)[round] = status;
        job_meet(me);
        bool broken = job_results(me, 0)[round] != WEFT_OK;
        CHECK(broken || status == WEFT_OK); /* nobody fails unless the one that cancelled did */
        CHECK(!broken || job_await_break(group, JOB_LATE_MS) < 0);
        weft_release(req);
        CHECK_OK(weft_group_free(group));
    }
    job_sum_works(me->world);
}

/* More messages at once than the two gave up: each has a record of its own. */
static void exchange_many(job_rank *me)
{
    enum { MANY = 8 };
    int32_t in[MANY], out[MANY];
    weft_request *reqs[2 * MANY];
    int peer = 1 - me->rank;
    for (int i = 0; i < MANY; i++) {
        in[i] = me->rank * 100 + i;
        CHECK_OK(weft_irecv(me->world, &out[i], 1, WEFT_INT32, peer, i, NULL, &reqs[i]));
    }
    for (int i = 0; i < MANY; i++)
        CHECK_OK(weft_isend(me->world, &in[i], 1, WEFT_INT32, peer, i, NULL, &reqs[MANY + i]));
    for (int i = 0; i < 2 * MANY; i++) WAIT_OK(reqs[i]);
    for (int i = 0; i < MANY; i++) CHECK_INT(out[i], peer * 100 + i);
}

/* Rank 1 gives up when its message has gone: rank 0 receives that, but nobody takes what it sends, and then
 * it gives up as well. */
static void half_exchanged(job_rank *me)
{
    enum { COUNT = 300000, LOOK_MS = 50 };
    int32_t *in = job_alloc(me, COUNT * sizeof *in), *out = job_alloc(me, COUNT * sizeof *out);
    weft_request *req = NULL;
    job_acquaint(me);
    for (int rank = 1; rank >= 0; rank--) {
        if (me->rank == rank) {
            CHECK_OK(weft_send_recv(me->world, in, out, rank ? 1 : COUNT, WEFT_INT32, 1 - rank, NULL, &req));
            CHECK_INT(weft_wait(req, rank ? 0 : LOOK_MS), WEFT_PENDING);
            weft_cancel(req);
            WAIT_STATUS(WEFT_ERR_CANCELLED, req);
            weft_release(req);
        }
        job_meet(me);
    }
    if (me->rank < 2) exchange_many(me);
    job_sum_works(me->world);
}

/* Everything in flight on every member, messages too; only rank 1 calls it. */
static void aborted(job_rank *me)
{
    int32_t in = 1, out = 0, value = 0;
    weft_group *group = job_group(me, RANKS, "aborted", 0), *other = job_group(me, RANKS, "other", 0);
    weft_request *reduce = NULL, *receive = NULL;
    CHECK_OK(weft_irecv(group, &value, 1, WEFT_INT32, (me->rank + 1) % RANKS, 4, NULL, &receive));
    if (me->rank != 2) {
        CHECK_OK(weft_all_reduce(group, &in, &out, 1, WEFT_INT32, WEFT_SUM, NULL, &reduce));
    }
    job_meet(me);
    if (me->rank == 1) {
        CHECK_OK(weft_group_abort(group, "the loss is not a number"));
    }
    WAIT_STATUS(WEFT_ERR_CANCELLED, receive);
    CHECK_TEXT(weft_request_message(receive), "rank 1 aborted the group: the loss is not a number");
    if (reduce) {
        WAIT_STATUS(WEFT_ERR_CANCELLED, reduce);
        CHECK_TEXT(weft_request_message(reduce), "rank 1 aborted the group: the loss is not a number");
    }
    weft_release(receive);
    weft_release(reduce);
    check_broken(group, "the loss is not a number");
    job_sum_works(other);
    job_sum_works(me->world);
}

/* Who aborts a group, frees it and leaves at once: the others are told of the abort
 * and not of its leaving. */
static void aborted_and_left(job_rank *me)
{
    for (int leaver = me->size - 1; leaver > 0; leaver--) {
        int32_t in = 1, out = 0, value = 0;
        weft_group *group = me->rank <= leaver ? job_group(me, leaver + 1, "aborted", 0) : NULL;
        weft_request *reduce = NULL, *receive = NULL;
        if (me->rank < leaver) {
            CHECK_OK(weft_irecv(group, &value, 1, WEFT_INT32, leaver, 4, NULL, &receive));
            CHECK_OK(weft_all_reduce(group, &in, &out, 1, WEFT_INT32, WEFT_SUM, NULL, &reduce));
        }
        job_meet(me);
        if (me->rank == leaver) {
            CHECK_OK(weft_group_abort(group, "no way on"));
            CHECK_OK(weft_group_free(group));
            CHECK_OK(weft_finalize(me->ctx, JOB_WAIT_MS));
            me->ctx = NULL;
        } else if (me->rank < leaver) {
            char cause[64];
            snprintf(cause, sizeof cause, "rank %d aborted the group: no way on", leaver);
            WAIT_STATUS(WEFT_ERR_CANCELLED, reduce);
            CHECK_TEXT(weft_request_message(reduce), cause);
            WAIT_STATUS(WEFT_ERR_CANCELLED, receive);
            CHECK_STATUS(WEFT_ERR_CANCELLED, weft_group_status(group));
            weft_release(reduce);
            weft_release(receive);
        }
        job_meet(me);
    }
}

typedef struct keeper {
    weft_context *ctx;
    _Atomic bool over;
} keeper;

static void *keep_engine(void *arg)
{
    keeper *k = arg;
    int32_t out = 0;
    while (!atomic_load(&k->over)) {
        weft_request *req = NULL;
        if (weft_irecv(weft_world(k->ctx), &out, 1, WEFT_INT32, WEFT_ANY_RANK, 77, NULL, &req) == WEFT_OK)
            weft_wait(req, 1);
        weft_cancel(req);
        weft_wait(req, JOB_WAIT_MS);
        weft_release(req);
    }
    return NULL;
}

/* Receives from rank 1, and exchanges in place, one after the other, until the group shows that it is broken. */
static void receive_until_aborted(weft_group *group)
{
    enum { MOST = 4000 };
    static weft_request *reqs[MOST];
    static int32_t value[MOST];
    int n = 0;
    while (n < MOST && weft_group_status(group) == WEFT_OK) {
        if (n % 4)
            CHECK_OK(weft_irecv(group, &value[n], 1, WEFT_INT32, 1, 4, NULL, &reqs[n]));
        else
            CHECK_OK(weft_send_recv(group, &value[n], &value[n], 1, WEFT_INT32, 1, NULL, &reqs[n]));
        n++;
    }
    if (n) { /* the last one may have come after the abort, and goes on then */
        weft_cancel(reqs[--n]);
        weft_wait(reqs[n], JOB_WAIT_MS);
        weft_release(reqs[n]);
    }
    for (int i = 0; i < n; i++) {
        WAIT_STATUS(WEFT_ERR_CANCELLED, reqs[i]);
        weft_release(reqs[i]);
    }
}

/* What is submitted while another thread is in the engine begins later; and an abort in between ends it too. */
static void aborted_before_it_begins(job_rank *me)
{
    for (int round = 0; round < 60; round++) {
        weft_group *group = job_group(me, 2, "aborted", 0);
        keeper k = {.ctx = me->ctx};
        pthread_t thread = 0;
        if (me->rank == 0) CHECK(!pthread_create(&thread, NULL, keep_engine, &k));
        job_meet(me);
        if (me->rank == 0)
            receive_until_aborted(group);
        else
            CHECK_OK(weft_group_abort(group, "no way on"));
        atomic_store(&k.over, true);
        if (thread) pthread_join(thread, NULL);
        CHECK_OK(weft_group_free(group));
        job_meet(me);
    }
}

/* One that a death has broken: messages between those that live go on until somebody aborts it, on all of them. */
static void abort_when_broken(job_rank *me, bool leaves)
{
    enum { VICTIM = 3, WHO_ABORTS = 2, LOOK_MS = 50 };
    const int other = 1 - me->rank;
    int32_t early = 0, late = 0;
    weft_request *before = NULL, *after = NULL;
    weft_group *group = job_group(me, VICTIM + 1, "broken", 0);
    if (me->rank < 2) CHECK_OK(weft_irecv(group, &early, 1, WEFT_INT32, other, 4, NULL, &before));
    job_meet(me);
    if (me->rank == VICTIM) pause();
    if (me->rank == 0) job_kill(me, VICTIM);
    CHECK_INT(job_await_break(group, JOB_LATE_MS), WEFT_ERR_PEER);
    if (me->rank < 2) {
        job_message_works(group, 0, 1, 1);
        CHECK_OK(weft_irecv(group, &late, 1, WEFT_INT32, other, 5, NULL, &after));
        CHECK_INT(weft_wait(before, LOOK_MS), WEFT_PENDING);
    }
    job_mark(me, 0);
    job_await(me, 0, VICTIM);
    if (me->rank == WHO_ABORTS) CHECK_OK(weft_group_abort(group, "its data is gone"));
    if (me->rank < 2) {
        WAIT_STATUS(WEFT_ERR_CANCELLED, before);
        CHECK_TEXT(weft_request_message(before), "rank 2 aborted the group: its data is gone");
        WAIT_STATUS(WEFT_ERR_CANCELLED, after);
        CHECK_TEXT(weft_request_message(after), "irecv");
        weft_release(before);
        weft_release(after);
        job_mark(me, 1);
    }
    CHECK_STATUS(WEFT_ERR_PEER, weft_group_status(group)); /* the first cause stays */
    if (me->rank != WHO_ABORTS) return;
    if (!leaves) job_await(me, 1, 2);
    CHECK_OK(weft_group_free(group));
}

static void aborted_when_broken(job_rank *me)
{
    abort_when_broken(me, false);
}

/* Nobody waits: the others hear of it though it leaves. */
static void aborted_when_broken_and_left(job_rank *me)
{
    abort_when_broken(me, true);
}

/* A group that is being made can be aborted, and a cancelled making has failed for all. */
static void making(job_rank *me)
{
    static const int ranks[] = {0, 1, 2};
    for (int round = 0; round < 2; round++) {
        weft_group *group = NULL;
        weft_request *req = NULL;
        if (me->rank != 2) {
            CHECK_OK(weft_new_group(me->world, ranks, RANKS, NULL, &group, &req));
            job_mark(me, round);
            if (me->rank == 0) {
                job_await(me, round, 2);
            }
            if (me->rank == 0 && round == 0) {
                weft_cancel(req);
            } else if (me->rank == 0) {
                CHECK_OK(weft_group_abort(group, "never mind"));
            }
            weft_status status = weft_wait(req, JOB_WAIT_MS);
            CHECK(status < 0 && (status == WEFT_ERR_CANCELLED || me->rank == 1 || round == 1));
            CHECK(weft_group_status(group) < 0);
            CHECK_OK(weft_group_free(group));
            weft_release(req);
        }
        job_meet(me);
    }
    job_sum_works(me->world);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("a pending collective", .ranks = RANKS, .body = pending),
        JOB_TEST("a race", .ranks = RANKS, .body = race),
        JOB_TEST("half an exchange", .ranks = RANKS, .body = half_exchanged),
        JOB_TEST("group_abort", .ranks = RANKS, .body = aborted),
        JOB_TEST("group_abort and leaving", .ranks = 4, .body = aborted_and_left),
        JOB_TEST("group_abort when a death has broken it", .ranks = 4, .body = aborted_when_broken,
                 .processes = true, .killed = 1U << 3),
        JOB_TEST("group_abort when a death has broken it, and leaving", .ranks = 4,
                 .body = aborted_when_broken_and_left, .processes = true, .killed = 1U << 3),
        JOB_TEST("an abort before it begins", .ranks = 2, .body = aborted_before_it_begins),
        JOB_TEST("a group being made", .ranks = RANKS, .body = making),
    };
    return JOB_MAIN(tests, argc, argv);
}
