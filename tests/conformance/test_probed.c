/* test_probed.c - messages of unknown size: found by a probe, held, received by their
 * own receive or let go. */
#include "device.h"

#include <stdlib.h>
#include <string.h>

enum { SHORT_MS = 100 * JOB_SLOWER, SMALL = 40, LARGE = 3 << 20 };

/* Type and memory came to it out of its reserved words. */
_Static_assert(sizeof(void *) != 8 || sizeof(weft_request_info) == 160, "weft_request_info keeps its size");

static unsigned char pattern_at(size_t i, int number)
{
    return (unsigned char)((size_t)number * 31 + i * 7 + (i >> 8));
}

/* A buffer of n bytes that are told apart by a number. */
static unsigned char *filled(job_rank *me, size_t n, int number)
{
    unsigned char *buffer = job_buffer(me, n + 1), *bytes = job_alloc(me, n + 1);
    for (size_t i = 0; i < n; i++) bytes[i] = pattern_at(i, number);
    job_put(buffer, bytes, n);
    return buffer;
}

static bool is_filled(job_rank *me, const unsigned char *buffer, size_t n, int number)
{
    unsigned char *bytes = job_alloc(me, n + 1);
    job_get(bytes, buffer, n);
    for (size_t i = 0; i < n; i++)
        if (bytes[i] != pattern_at(i, number)) return false;
    return true;
}

/* Its number is its tag; where it lies is told by the call, since it may be of no bytes. */
static weft_request *send_one(job_rank *me, size_t n, int peer, int tag)
{
    const weft_call call = {.memory = job_memory()};
    weft_request *req = NULL;
    CHECK_OK(weft_isend(me->world, filled(me, n, tag), n, WEFT_UINT8, peer, tag, &call, &req));
    return req;
}

static weft_request *probe(weft_group *group, int peer, int tag)
{
    weft_request *req = NULL;
    CHECK_OK(weft_probe(group, peer, tag, NULL, &req));
    CHECK(req);
    return req;
}

static void has_found(weft_request *found, int peer, int tag, size_t n)
{
    WAIT_STATUS(WEFT_OK, found);
    weft_request_info info = job_info(found);
    CHECK_INT(info.peer, peer);
    CHECK_INT(info.tag, tag);
    CHECK_INT(info.bytes, n);
    CHECK_INT(info.received_bytes, 0);
    CHECK_INT(info.dtype, WEFT_UINT8);
    CHECK_INT(info.memory, job_memory());
}

/* As its user would: room for what was found, and no more. */
static void receive_found(job_rank *me, weft_request *found, int peer, int tag, size_t n)
{
    const weft_call call = {.memory = job_memory()};
    unsigned char *buffer = job_buffer(me, n + 1);
    weft_request *req = NULL;
    has_found(found, peer, tag, n);
    CHECK_OK(weft_receive_probed(found, buffer, n, WEFT_UINT8, &call, &req));
    WAIT_STATUS(WEFT_OK, req);
    weft_request_info info = job_info(req);
    CHECK_INT(info.peer, peer);
    CHECK_INT(info.tag, tag);
    CHECK_INT(info.received_bytes, n);
    CHECK(!strcmp(info.operation, "irecv"));
    CHECK(is_filled(me, buffer, n, tag));
    weft_release(req);
}

static void receive_plainly(job_rank *me, int peer, int tag, int number, size_t n)
{
    unsigned char *buffer = job_buffer(me, n + 1);
    weft_request *req = NULL;
    CHECK_OK(weft_irecv(me->world, buffer, n, WEFT_UINT8, peer, tag, NULL, &req));
    WAIT_STATUS(WEFT_OK, req);
    CHECK_INT(job_info(req).received_bytes, n);
    CHECK_INT(job_info(req).tag, number);
    CHECK(is_filled(me, buffer, n, number));
    weft_release(req);
}

/* ---- finding and receiving
 * ------------------------------------------------------------------------------ */

static const size_t sizes[] = {0, 8, SMALL, 5000, 60000, LARGE};
enum { SIZES = sizeof sizes / sizeof *sizes };

/* Before the message is there and afterwards, of that rank or of any, with that tag or any. */
static void every_size(job_rank *me)
{
    for (int i = 0; i < 8 * SIZES; i++) {
        size_t n = sizes[i / 8];
        bool early = i & 1, any_rank = i & 2, any_tag = i & 4;
        weft_request *req = NULL;
        if (me->rank == 0) {
            if (!early) job_meet(me);
            req = send_one(me, n, 1, i);
            if (early) job_meet(me);
            WAIT_OK(req);
            job_meet(me);
            continue;
        }
        if (early) job_meet(me);
        req = probe(me->world, any_rank ? WEFT_ANY_RANK : 0, any_tag ? WEFT_ANY_TAG : i);
        if (!early) {
            CHECK_INT(weft_test(req), WEFT_PENDING);
            job_meet(me);
        }
        receive_found(me, req, 0, i, n);
        weft_release(req);
        job_meet(me);
    }
}

/* The first message goes to the receive that was posted first, the second to the probe, the third to the one
 * behind. */
static void in_order_with_receives(job_rank *me)
{
    for (int early = 0; early < 2; early++) {
        weft_request *reqs[3] = {NULL};
        if (me->rank == 0) {
            if (!early) job_meet(me);
            for (int i = 0; i < 3; i++) reqs[i] = send_one(me, sizes[2 + i], 1, i);
            if (early) job_meet(me);
            for (int i = 0; i < 3; i++) WAIT_OK(reqs[i]);
            job_meet(me);
            continue;
        }
        unsigned char *first = job_buffer(me, LARGE), *third = job_buffer(me, LARGE);
        if (early) job_meet(me);
        CHECK_OK(weft_irecv(me->world, first, LARGE, WEFT_UINT8, 0, WEFT_ANY_TAG, NULL, &reqs[0]));
        reqs[1] = probe(me->world, WEFT_ANY_RANK, WEFT_ANY_TAG);
        CHECK_OK(weft_irecv(me->world, third, LARGE, WEFT_UINT8, 0, WEFT_ANY_TAG, NULL, &reqs[2]));
        if (!early) job_meet(me);
        WAIT_STATUS(WEFT_OK, reqs[2]);
        CHECK_INT(job_info(reqs[2]).tag, 2);
        CHECK(is_filled(me, third, sizes[4], 2));
        WAIT_STATUS(WEFT_OK, reqs[0]);
        CHECK(is_filled(me, first, sizes[2], 0));
        receive_found(me, reqs[1], 0, 1, sizes[3]);
        for (int i = 0; i < 3; i++) weft_release(reqs[i]);
        job_meet(me);
    }
}

static void to_itself(job_rank *me)
{
    for (int i = 0; i < 2 * SIZES; i++) {
        weft_request *found = NULL, *sent;
        if (i & 1) found = probe(me->world, WEFT_ANY_RANK, i);
        sent = send_one(me, sizes[i / 2], me->rank, i);
        if (!found) found = probe(me->world, me->rank, WEFT_ANY_TAG);
        receive_found(me, found, me->rank, i, sizes[i / 2]);
        WAIT_OK(sent);
        weft_release(found);
    }
}

/* Received out of order while collectives go on; nothing is told to the senders of what is held. */
static void many_at_once(job_rank *me)
{
    enum { EACH = 30 };
    weft_request *reqs[EACH * (JOB_RANKS_MAX - 1)] = {NULL};
    int n = EACH * (me->size - 1);
    for (int i = 0; i < EACH && me->rank; i++) reqs[i] = send_one(me, sizes[i % SIZES], 0, i);
    for (int i = 0; i < n && !me->rank; i++) {
        reqs[i] = probe(me->world, WEFT_ANY_RANK, WEFT_ANY_TAG);
        WAIT_STATUS(WEFT_OK, reqs[i]);
    }
    for (int i = 0; i < 10; i++) job_sum_works(me->world);
    if (me->rank) {
        for (int i = 0; i < EACH; i++) WAIT_OK(reqs[i]);
        return;
    }
    int next[JOB_RANKS_MAX] = {0};
    for (int i = 0; i < n; i++) CHECK_INT(job_info(reqs[i]).tag, next[job_info(reqs[i]).peer]++);
    for (int i = n; i-- > 0;) {
        weft_request_info info = job_info(reqs[i]);
        receive_found(me, reqs[i], info.peer, info.tag, sizes[info.tag % SIZES]);
        weft_release(reqs[i]);
    }
}

/* ---- looking without waiting
 * ----------------------------------------------------------------------------- */

/* MPI's Iprobe: it looks once, and leaves everything as it was. */
static bool is_there(weft_group *group, int peer, int tag, weft_request_info *info)
{
    weft_request *req = probe(group, peer, tag);
    weft_status status = weft_test(req);
    CHECK(status == WEFT_OK || status == WEFT_PENDING);
    if (status == WEFT_OK) *info = job_info(req);
    weft_cancel(req);
    weft_release(req);
    return status == WEFT_OK;
}

static void looked_for(job_rank *me)
{
    for (int i = 0; i < SIZES; i++) {
        weft_request_info info;
        weft_request *req = NULL;
        if (me->rank == 0) {
            job_meet(me);
            req = send_one(me, sizes[i], 1, i);
            WAIT_OK(req);
            job_meet(me);
            continue;
        }
        for (int k = 0; k < 10; k++) CHECK(!is_there(me->world, 0, i, &info));
        job_meet(me);
        int64_t until = job_now_ns() + JOB_WAIT_MS * INT64_C(1000000);
        while (!is_there(me->world, 0, i, &info)) CHECK(job_now_ns() < until);
        CHECK_INT(info.bytes, sizes[i]);
        CHECK(!is_there(me->world, 0, i + 100, &info));
        receive_plainly(me, 0, i, i, sizes[i]);
        CHECK(!is_there(me->world, 0, i, &info));
        job_meet(me);
    }
}

/* ---- letting go ---------------------------------------------------------------------------------------- */

/* The first of three is held and let go: it is the first again. */
static void back_in_its_place(job_rank *me)
{
    for (int i = 0; i < 4; i++) {
        bool released = i & 1, large = i & 2;
        const size_t first = large ? LARGE : SMALL;
        weft_request *reqs[3] = {NULL};
        if (me->rank == 0) {
            for (int k = 0; k < 3; k++) reqs[k] = send_one(me, k ? 100 : first, 1, k);
            for (int k = 0; k < 3; k++) WAIT_OK(reqs[k]);
            job_meet(me);
            continue;
        }
        for (int k = 0; k < 2; k++) {
            reqs[k] = probe(me->world, 0, WEFT_ANY_TAG);
            WAIT_STATUS(WEFT_OK, reqs[k]);
            CHECK_INT(job_info(reqs[k]).tag, k);
        }
        if (!released) weft_cancel(reqs[0]);
        CHECK_INT(weft_test(reqs[0]), WEFT_OK); /* what it has told stays */
        CHECK_INT(job_info(reqs[0]).bytes, first);
        if (!released)
            CHECK_STATUS(WEFT_ERR_STATE, weft_receive_probed(reqs[0], NULL, 0, WEFT_UINT8, NULL, NULL));
        weft_release(reqs[0]);
        receive_plainly(me, 0, WEFT_ANY_TAG, 0, first);
        receive_plainly(me, WEFT_ANY_RANK, WEFT_ANY_TAG, 2, 100);
        receive_found(me, reqs[1], 0, 1, 100);
        weft_release(reqs[1]);
        job_meet(me);
    }
}

/* Who has come meanwhile, a receive or another probe, gets it. */
static void let_go_to_who_waits(job_rank *me)
{
    for (int i = 0; i < 2; i++) {
        size_t n = i ? LARGE : SMALL;
        weft_request *reqs[3] = {NULL}, *sent;
        if (me->rank == 0) {
            sent = send_one(me, n, 1, 5);
            WAIT_OK(sent);
            job_meet(me);
            continue;
        }
        unsigned char *buffer = job_buffer(me, n);
        reqs[0] = probe(me->world, 0, 5);
        has_found(reqs[0], 0, 5, n);
        reqs[1] = probe(me->world, WEFT_ANY_RANK, 5);
        CHECK_OK(weft_irecv(me->world, buffer, n, WEFT_UINT8, 0, 5, NULL, &reqs[2]));
        CHECK_INT(weft_test(reqs[1]), WEFT_PENDING);
        weft_cancel(reqs[0]);
        has_found(reqs[1], 0, 5, n);
        CHECK_INT(weft_test(reqs[2]), WEFT_PENDING);
        weft_release(reqs[1]);
        WAIT_STATUS(WEFT_OK, reqs[2]);
        CHECK(is_filled(me, buffer, n, 5));
        weft_release(reqs[0]);
        weft_release(reqs[2]);
        job_meet(me);
    }
}

/* One that nobody has a handle of holds nothing: the message is there for the next. */
static void released_at_once(job_rank *me)
{
    weft_request *req = NULL;
    if (me->rank == 0) {
        job_meet(me);
        req = send_one(me, SMALL, 1, 1);
        WAIT_OK(req);
        return;
    }
    req = probe(me->world, 0, 1);
    weft_release(req);
    job_meet(me);
    receive_plainly(me, 0, 1, 1, SMALL);
}

/* Without a request the call waits, and leaves the message free. */
static void as_a_call_that_waits(job_rank *me)
{
    weft_request *req = NULL;
    if (me->rank == 0) {
        job_meet(me);
        req = send_one(me, LARGE, 1, 1);
        WAIT_OK(req);
        req = send_one(me, SMALL, 1, 2);
        WAIT_OK(req);
        return;
    }
    unsigned char *buffer = job_buffer(me, SMALL);
    job_meet(me);
    CHECK_OK(weft_probe(me->world, 0, 1, NULL, NULL));
    CHECK_OK(weft_probe(me->world, WEFT_ANY_RANK, 1, NULL, NULL));
    receive_plainly(me, 0, 1, 1, LARGE);
    req = probe(me->world, 0, 2);
    WAIT_STATUS(WEFT_OK, req);
    CHECK_OK(weft_receive_probed(req, buffer, SMALL, WEFT_UINT8, NULL, NULL));
    CHECK(is_filled(me, buffer, SMALL, 2));
    weft_release(req);
}

/* ---- callbacks and threads
 * ------------------------------------------------------------------------------- */

typedef struct inside {
    job_rank *me;
    unsigned char *buffer;
    size_t bytes;
    weft_request *receive;
    weft_status status, waiting;
    _Atomic bool ran;
} inside;

/* Makes room for what was found, on the progress thread, and receives it. */
static void receives(weft_request *req, weft_status status, void *arg)
{
    inside *in = arg;
    const weft_call call = {.stream = WEFT_NO_STREAM}; /* this thread's default stream is of any device */
    weft_request_info info;
    weft_request_get_info(req, &info);
    in->bytes = info.bytes;
    in->waiting = weft_receive_probed(req, in->buffer, info.bytes, WEFT_UINT8, NULL, NULL);
    in->status =
        status ? status : weft_receive_probed(req, in->buffer, info.bytes, WEFT_UINT8, &call, &in->receive);
    atomic_store(&in->ran, true);
}

static void in_a_callback(job_rank *me)
{
    for (int i = 0; i < 2; i++) {
        size_t n = i ? LARGE : SMALL;
        weft_request *req = NULL;
        if (me->rank == 0) {
            req = send_one(me, n, 1, 9);
            WAIT_OK(req);
            continue;
        }
        inside in = {.me = me, .buffer = job_buffer(me, LARGE)};
        const weft_call call = {.done = receives, .arg = &in};
        CHECK_OK(weft_probe(me->world, 0, 9, &call, &req));
        WAIT_OK(req); /* released: its message has gone to the receive */
        CHECK(atomic_load(&in.ran));
        CHECK_INT(in.waiting, WEFT_ERR_STATE);
        CHECK_OK(in.status);
        WAIT_OK(in.receive);
        CHECK_INT(in.bytes, n);
        CHECK(is_filled(me, in.buffer, n, 9));
    }
}

enum { THREADS = 4, EACH_THREAD = 60 };

typedef struct taken {
    job_rank *me;
    _Atomic int of[THREADS * EACH_THREAD]; /* times each message was received */
} taken;

/* What matched probes are for: threads that take whatever comes do not take each other's. */
static void takes(job_rank *me, int thread, void *arg)
{
    taken *t = arg;
    unsigned char *host = malloc(60000), *buffer = job_on_device() ? device_take(DEVICE_MEMORY, 60000) : host;
    CHECK(host);
    for (int i = 0; i < EACH_THREAD; i++) {
        weft_request *found = probe(me->world, WEFT_ANY_RANK, WEFT_ANY_TAG), *req = NULL;
        WAIT_STATUS(WEFT_OK, found);
        weft_request_info info = job_info(found);
        CHECK_INT(info.bytes, sizes[1 + info.tag % 4]);
        if ((i + thread) % 5 == 0) { /* leaves it to whoever comes */
            weft_release(found);
            i--;
            thread++;
            continue;
        }
        CHECK_OK(weft_receive_probed(found, buffer, info.bytes, WEFT_UINT8, NULL, &req));
        weft_release(found);
        WAIT_OK(req);
        job_get(host, buffer, info.bytes);
        for (size_t k = 0; k < info.bytes; k++) CHECK(host[k] == pattern_at(k, info.tag));
        atomic_fetch_add(&t->of[info.tag], 1);
    }
    if (buffer != host) device_give(buffer);
    free(host);
}

static void by_several_threads(job_rank *me)
{
    enum { ALL = THREADS * EACH_THREAD };
    if (me->rank == 0) {
        weft_request *reqs[ALL];
        for (int i = 0; i < ALL; i++) reqs[i] = send_one(me, sizes[1 + i % 4], 1, i);
        for (int i = 0; i < ALL; i++) WAIT_OK(reqs[i]);
        return;
    }
    taken *t = job_alloc(me, sizeof *t);
    job_threads(me, THREADS, takes, t);
    for (int i = 0; i < ALL; i++) CHECK_INT(t->of[i], 1);
}

/* ---- failing ------------------------------------------------------------------------------------------- */

static void nothing_comes(job_rank *me)
{
    const weft_call brief = {.timeout_ms = SHORT_MS};
    weft_request *req = NULL;
    if (me->rank == 0) {
        CHECK_STATUS(WEFT_ERR_TIMEOUT, weft_probe(me->world, 1, 3, &brief, NULL));
        CHECK_OK(weft_probe(me->world, 1, 3, &brief, &req));
        WAIT_STATUS(WEFT_ERR_TIMEOUT, req);
        CHECK_TEXT(weft_request_message(req), "probe #2 on group world (from rank 1)");
        CHECK_TEXT(weft_request_message(req), "has not sent a message that fits");
        CHECK_STATUS(WEFT_ERR_STATE, weft_receive_probed(req, NULL, 0, WEFT_UINT8, NULL, NULL));
        CHECK_TEXT(weft_last_error(), "has found no message: probe #2");
        weft_release(req);
        req = probe(me->world, WEFT_ANY_RANK, 3);
        CHECK_STATUS(WEFT_ERR_STATE, weft_receive_probed(req, NULL, 0, WEFT_UINT8, NULL, NULL));
        CHECK_TEXT(weft_last_error(), "no message yet");
        CHECK_TEXT(weft_request_message(req), "from any rank");
        weft_cancel(req);
        WAIT_STATUS(WEFT_ERR_CANCELLED, req);
        weft_release(req);
    }
    CHECK_OK(weft_group_status(me->world));
    job_sum_works(me->world);
}

/* Refused calls make no request, and the message stays with its probe. */
static void refused(job_rank *me)
{
    weft_request *req = NULL, *found, *other = NULL;
    weft_batch *batch = NULL;
    const weft_call bad = {.timeout_ms = -7};
    weft_call joins = {0};
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_probe(NULL, 0, 0, NULL, &req));
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_probe(me->world, 1, 0, NULL, &req));
    CHECK_TEXT(weft_last_error(), "probe: peer is 1, expected a rank of the group (0 to 0) or WEFT_ANY_RANK");
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_probe(me->world, -2, 0, NULL, &req));
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_probe(me->world, 0, -2, NULL, &req));
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_probe(me->world, 0, 0, &bad, &req));
    for (int i = 0; i < 2; i++) {
        CHECK_OK(weft_batch_begin(me->world, &batch));
        joins.batch = batch;
        if (i)
            CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_receive_probed(NULL, NULL, 0, WEFT_UINT8, &joins, NULL));
        else
            CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_probe(me->world, 0, 0, &joins, NULL));
        CHECK_TEXT(weft_last_error(), "join no batch");
        CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_batch_end(batch, NULL, NULL));
    }
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_receive_probed(NULL, NULL, 0, WEFT_UINT8, NULL, &req));
    CHECK_OK(weft_barrier(me->world, NULL, &other));
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_receive_probed(other, NULL, 0, WEFT_UINT8, NULL, &req));
    CHECK_TEXT(weft_last_error(), "barrier");
    WAIT_OK(other);
    other = send_one(me, SMALL, 0, 4);
    found = probe(me->world, 0, 4);
    has_found(found, 0, 4, SMALL);
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_receive_probed(found, NULL, SMALL, WEFT_UINT8, NULL, &req));
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_receive_probed(found, NULL, 0, (weft_dtype)99, NULL, &req));
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_receive_probed(found, NULL, 0, WEFT_UINT8, &bad, &req));
    CHECK(!req);
    receive_found(me, found, 0, 4, SMALL);
    CHECK_STATUS(WEFT_ERR_STATE, weft_receive_probed(found, NULL, 0, WEFT_UINT8, NULL, &req));
    CHECK_TEXT(weft_last_error(), "has been received");
    weft_cancel(found);
    WAIT_OK(other);
    WAIT_OK(found);
    CHECK(!req);
}

/* What is wrong with the receive ends it alone, as any other. */
static void wrong_room(job_rank *me)
{
    for (int i = 0; i < 4; i++) {
        size_t n = i & 1 ? LARGE : 400;
        bool typed = i & 2;
        weft_request *req = NULL, *found;
        if (me->rank == 0) {
            req = send_one(me, n, 1, 1);
            WAIT_OK(req);
        } else {
            void *buffer = job_buffer(me, n);
            found = probe(me->world, 0, 1);
            has_found(found, 0, 1, n);
            CHECK_OK(weft_receive_probed(found, buffer, typed ? n / 4 : n - 1,
                                         typed ? WEFT_INT32 : WEFT_UINT8, NULL, &req));
            WAIT_STATUS(typed ? WEFT_ERR_MISMATCH : WEFT_ERR_TRUNCATED, req);
            CHECK_INT(job_info(req).received_bytes, typed ? 0 : n);
            weft_release(req);
            weft_release(found);
        }
        job_message_works(me->world, 0, 1, 1);
        CHECK_OK(weft_group_status(me->world));
    }
}

/* ---- the two kinds of memory
 * ---------------------------------------------------------------------------- */

/* On devices: a probe finds what is in either, and tells; a receive in the other one is a mismatch. */
static void kinds_of_memory(job_rank *me)
{
    const weft_memory kinds[] = {WEFT_MEMORY_HOST, job_memory()};
    for (int i = 0; i < 4 && job_on_device(); i++) {
        weft_memory sent = kinds[i & 1], wanted = kinds[i >> 1];
        const weft_call sends = {.memory = sent}, receives_in = {.memory = wanted};
        void *here = job_alloc(me, SMALL), *there = job_buffer(me, SMALL);
        weft_request *req = NULL;
        if (me->rank == 0) {
            CHECK_OK(weft_isend(me->world, sent == WEFT_MEMORY_HOST ? here : there, SMALL, WEFT_UINT8, 1, i,
                                &sends, &req));
            WAIT_OK(req);
            continue;
        }
        weft_request *found = NULL;
        CHECK_OK(weft_probe(me->world, 0, i, &receives_in, &found)); /* call->memory says nothing here */
        WAIT_STATUS(WEFT_OK, found);
        CHECK_INT(job_info(found).memory, sent);
        CHECK_OK(weft_receive_probed(found, wanted == WEFT_MEMORY_HOST ? here : there, SMALL, WEFT_UINT8,
                                     &receives_in, &req));
        WAIT_STATUS(sent == wanted ? WEFT_OK : WEFT_ERR_MISMATCH, req);
        weft_release(req);
        weft_release(found);
    }
    job_message_works(me->world, 0, 1, 50);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("every size", .ranks = 2, .body = every_size),
        JOB_TEST("in order with receives", .ranks = 2, .body = in_order_with_receives),
        JOB_TEST("to itself", .ranks = 1, .body = to_itself),
        JOB_TEST("many at once", .ranks = 4, .body = many_at_once),
        JOB_TEST("looked for", .ranks = 2, .body = looked_for),
        JOB_TEST("back in its place", .ranks = 2, .body = back_in_its_place),
        JOB_TEST("let go to who waits", .ranks = 2, .body = let_go_to_who_waits),
        JOB_TEST("released at once", .ranks = 2, .body = released_at_once),
        JOB_TEST("as a call that waits", .ranks = 2, .body = as_a_call_that_waits),
        JOB_TEST("in a callback", .ranks = 2, .body = in_a_callback),
        JOB_TEST("by several threads", .ranks = 2, .body = by_several_threads),
        JOB_TEST("nothing comes", .ranks = 2, .body = nothing_comes),
        JOB_TEST("refused", .ranks = 1, .body = refused),
        JOB_TEST("wrong room", .ranks = 2, .body = wrong_room),
        JOB_TEST("kinds of memory", .ranks = 2, .body = kinds_of_memory),
    };
    return JOB_MAIN(tests, argc, argv);
}
