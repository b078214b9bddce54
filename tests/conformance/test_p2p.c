/* test_p2p.c - messages between two ranks: matching, order, sizes, and failures of one receive alone. */
#include "device.h"

#include <stdlib.h>
#include <string.h>

/* The pattern of a message: told apart by its number, checked to the last byte. */
static unsigned char pattern_at(size_t i, uint64_t number)
{
    return (unsigned char)(number * 31 + i * 7 + (i >> 8));
}

static void write_pattern(unsigned char *buffer, size_t n, uint64_t number)
{
    unsigned char *bytes = malloc(n + 1);
    CHECK(bytes);
    for (size_t i = 0; i < n; i++) bytes[i] = pattern_at(i, number);
    job_put(buffer, bytes, n);
    free(bytes);
}

static bool has_pattern(const unsigned char *buffer, size_t n, uint64_t number)
{
    unsigned char *bytes = malloc(n + 1);
    size_t same = 0;
    CHECK(bytes);
    job_get(bytes, buffer, n);
    while (same < n && bytes[same] == pattern_at(same, number)) same++;
    free(bytes);
    return same == n;
}

static unsigned char byte_at(const unsigned char *at)
{
    unsigned char byte = 0;
    job_get(&byte, at, 1);
    return byte;
}

static weft_request *send_bytes(job_rank *me, const void *buf, size_t n, int peer, int tag)
{
    weft_request *req = NULL;
    CHECK_OK(weft_isend(me->world, buf, n, WEFT_UINT8, peer, tag, NULL, &req));
    CHECK(req);
    return req;
}

static weft_request *receive_bytes(job_rank *me, void *buf, size_t n, int peer, int tag)
{
    weft_request *req = NULL;
    CHECK_OK(weft_irecv(me->world, buf, n, WEFT_UINT8, peer, tag, NULL, &req));
    CHECK(req);
    return req;
}

/* ---- matching --------------------------------------------------------------------------------------- */

enum { ROUNDS = 40, SHORT = 24 };

/* Per tag in the order of posting, whatever order the receiver takes the tags in. */
static void tags(job_rank *me)
{
    unsigned char(*buf)[SHORT] = job_buffer(me, sizeof(unsigned char[2 * ROUNDS][SHORT]));
    weft_request *reqs[2 * ROUNDS];
    for (int i = 0; i < 2 * ROUNDS; i++) {
        if (me->rank == 0) {
            int tag = i % 2 ? 5 : 1073741823; /* the largest tag there is */
            write_pattern(buf[i], SHORT, (uint64_t)i);
            reqs[i] = send_bytes(me, buf[i], SHORT, 1, tag);
        } else {
            int tag = i < ROUNDS ? 5 : 1073741823;
            reqs[i] = receive_bytes(me, buf[i], SHORT, 0, tag);
        }
    }
    CHECK_OK(weft_wait_all(reqs, 2 * ROUNDS, job_wait_ms()));
    for (int i = 0; i < 2 * ROUNDS; i++) {
        int sent = i < ROUNDS ? 2 * i + 1 : 2 * (i - ROUNDS);
        CHECK(has_pattern(buf[i], SHORT, (uint64_t)(me->rank ? sent : i)));
        weft_release(reqs[i]);
    }
}

static void any_rank(job_rank *me)
{
    enum { EACH = 10 };
    int next[2] = {0, 0};
    unsigned char *buf = job_buffer(me, SHORT);
    if (me->rank > 0) {
        for (int i = 0; i < EACH; i++) {
            write_pattern(buf, SHORT, (unsigned)(me->rank * 100 + i));
            weft_request *req = send_bytes(me, buf, SHORT, 0, 40 + me->rank);
            WAIT_OK(req);
        }
        return;
    }
    for (int i = 0; i < 2 * EACH; i++) {
        weft_request *req = receive_bytes(me, buf, SHORT, WEFT_ANY_RANK, WEFT_ANY_TAG);
        WAIT_STATUS(WEFT_OK, req);
        weft_request_info info = job_info(req);
        CHECK(info.peer == 1 || info.peer == 2);
        CHECK_INT(info.tag, 40 + info.peer);
        CHECK_INT(info.received_bytes, SHORT);
        CHECK(has_pattern(buf, SHORT, (uint64_t)(info.peer * 100 + next[info.peer - 1]++)));
        weft_release(req);
    }
    CHECK_INT(next[0], EACH);
}

static void any_rank_with_tag(job_rank *me)
{
    int32_t *value = job_buffer(me, sizeof *value);
    if (me->rank > 0) {
        job_put_int(value, me->rank);
        CHECK_OK(weft_isend(me->world, value, 1, WEFT_INT32, 0, me->rank, NULL, NULL));
        return;
    }
    for (int tag = 2; tag >= 1; tag--) {
        weft_request *req = NULL;
        CHECK_OK(weft_irecv(me->world, value, 1, WEFT_INT32, WEFT_ANY_RANK, tag, NULL, &req));
        WAIT_STATUS(WEFT_OK, req);
        CHECK_INT(job_info(req).peer, tag);
        CHECK_INT(job_get_int(value), tag);
        weft_release(req);
    }
}

/* The receive that was posted first takes the message, also when a later one is more exact. */
static void first_posted_receive(job_rank *me)
{
    int32_t *values = job_buffer(me, 2 * sizeof *values), *got = job_buffer(me, 2 * sizeof *got);
    job_put_int(&values[0], 1);
    job_put_int(&values[1], 2);
    if (me->rank == 0) {
        weft_request *any = NULL, *exact = NULL;
        CHECK_OK(weft_irecv(me->world, &got[0], 1, WEFT_INT32, 1, WEFT_ANY_TAG, NULL, &any));
        CHECK_OK(weft_irecv(me->world, &got[1], 1, WEFT_INT32, 1, 9, NULL, &exact));
        job_meet(me);
        WAIT_OK(any);
        WAIT_OK(exact);
        CHECK_INT(job_get_int(&got[0]), 1);
        CHECK_INT(job_get_int(&got[1]), 2);
    } else {
        job_meet(me);
        CHECK_OK(weft_isend(me->world, &values[0], 1, WEFT_INT32, 0, 9, NULL, NULL));
        CHECK_OK(weft_isend(me->world, &values[1], 1, WEFT_INT32, 0, 9, NULL, NULL));
    }
}

static void self(job_rank *me)
{
    static const size_t sizes[] = {0, 1, 1000, 3 << 20};
    for (size_t i = 0; i < 4; i++) {
        for (int receive_first = 0; receive_first < 2; receive_first++) {
            unsigned char *out = job_buffer(me, sizes[i] + 1), *in = job_buffer(me, sizes[i] + 1);
            weft_request *receive = NULL, *send = NULL;
            write_pattern(out, sizes[i], i);
            if (receive_first) {
                receive = receive_bytes(me, in, sizes[i], me->rank, 3);
            }
            send = send_bytes(me, out, sizes[i], me->rank, 3);
            if (!receive_first) {
                receive = receive_bytes(me, in, sizes[i], WEFT_ANY_RANK, WEFT_ANY_TAG);
            }
            WAIT_STATUS(WEFT_OK, receive);
            CHECK_INT(job_info(receive).peer, me->rank);
            WAIT_OK(receive);
            WAIT_OK(send);
            CHECK(has_pattern(in, sizes[i], i));
        }
    }
}

static void send_recv(job_rank *me)
{
    static const size_t sizes[] = {0, 1, 1000, 700001};
    for (size_t i = 0; i < 4; i++) {
        for (int in_place = 0; in_place < (job_on_device() ? 1 : 2); in_place++) {
            for (int peer = 0; peer < 2; peer++) { /* a peer of both, then each with itself */
                int partner = peer ? me->rank : 1 - me->rank;
                unsigned char *in = job_buffer(me, sizes[i] + 1);
                unsigned char *out = in_place ? in : job_buffer(me, sizes[i] + 1);
                weft_request *req = NULL;
                write_pattern(in, sizes[i], (uint64_t)me->rank);
                CHECK_OK(weft_send_recv(me->world, in, out, sizes[i], WEFT_UINT8, partner, NULL, &req));
                WAIT_STATUS(WEFT_OK, req);
                CHECK_INT(job_info(req).peer, partner);
                CHECK_INT(job_info(req).received_bytes, sizes[i]);
                CHECK(has_pattern(out, sizes[i], (uint64_t)partner));
                CHECK(in_place || has_pattern(in, sizes[i], (uint64_t)me->rank));
                WAIT_OK(req);
            }
        }
    }
}

/* send_recv has a tag space of its own: a receive of any tag does not take its message. */
static void send_recv_is_apart(job_rank *me)
{
    int32_t *in = job_buffer(me, sizeof *in), *out = job_buffer(me, sizeof *out);
    int32_t *message = job_buffer(me, sizeof *message), *got = job_buffer(me, sizeof *got);
    int peer = 1 - me->rank;
    weft_request *any = NULL;
    job_put_int(in, me->rank + 10);
    job_put_int(message, me->rank + 20);
    CHECK_OK(weft_irecv(me->world, got, 1, WEFT_INT32, WEFT_ANY_RANK, WEFT_ANY_TAG, NULL, &any));
    CHECK_OK(weft_send_recv(me->world, in, out, 1, WEFT_INT32, peer, NULL, NULL));
    CHECK_INT(job_get_int(out), peer + 10);
    CHECK_INT(weft_test(any), WEFT_PENDING);
    job_meet(me);
    CHECK_OK(weft_isend(me->world, message, 1, WEFT_INT32, peer, 0, NULL, NULL));
    WAIT_OK(any);
    CHECK_INT(job_get_int(got), peer + 20);
}

/* ---- lengths and types
 * ---------------------------------------------------------------------------------- */

static void zero_bytes(job_rank *me)
{
    weft_request *req = NULL;
    weft_call call = {.memory = job_memory()};
    if (me->rank == 0) {
        CHECK_OK(weft_isend(me->world, NULL, 0, WEFT_FLOAT64, 1, 0, &call, &req));
    } else {
        CHECK_OK(weft_irecv(me->world, NULL, 0, WEFT_FLOAT64, 0, 0, &call, &req));
    }
    WAIT_STATUS(WEFT_OK, req);
    CHECK_INT(job_info(req).received_bytes, 0);
    WAIT_OK(req);
}

static void shorter(job_rank *me)
{
    static const size_t sizes[] = {0, 100, 2 << 20};
    enum { ROOM = 4 << 20 };
    unsigned char *buf = job_buffer(me, ROOM), *blank = job_alloc(me, ROOM);
    memset(blank, 0xee, ROOM);
    for (int i = 0; i < 3; i++) {
        weft_request *req = NULL;
        if (me->rank == 0) {
            write_pattern(buf, sizes[i], (uint64_t)i);
            req = send_bytes(me, buf, sizes[i], 1, i);
            WAIT_OK(req);
        } else {
            job_put(buf, blank, ROOM);
            req = receive_bytes(me, buf, ROOM, 0, i);
            WAIT_STATUS(WEFT_OK, req);
            CHECK_INT(job_info(req).received_bytes, sizes[i]);
            CHECK(has_pattern(buf, sizes[i], (uint64_t)i));
            CHECK_INT(byte_at(buf + sizes[i]), 0xee);
            WAIT_OK(req);
        }
    }
}

/* What fails is that receive alone: the send is told nothing and the next message arrives. */
static void truncated(job_rank *me)
{
    static const size_t sizes[] = {100, 60000, 2 << 20};
    enum { ROOM = 50 };
    for (int i = 0; i < 6; i++) {
        size_t size = sizes[i % 3];
        unsigned char *buf = job_buffer(me, size);
        bool late = i >= 3; /* the message is there before its receive is posted */
        weft_request *req = NULL;
        if (me->rank == 0) {
            req = send_bytes(me, buf, size, 1, 7);
            job_meet(me);
            WAIT_OK(req);
        } else {
            unsigned char *room = job_buffer(me, ROOM + 1);
            job_put(room + ROOM, &(unsigned char){0xee}, 1);
            if (late) {
                job_meet(me);
            }
            req = receive_bytes(me, room, ROOM, 0, 7);
            if (!late) {
                job_meet(me);
            }
            WAIT_STATUS(WEFT_ERR_TRUNCATED, req);
            CHECK_INT(job_info(req).received_bytes, size); /* so much room is needed */
            CHECK_INT(byte_at(room + ROOM), 0xee);
            weft_release(req);
        }
        job_message_works(me->world, 0, 1, 7);
        CHECK_OK(weft_group_status(me->world));
    }
}

static void wrong_type(job_rank *me)
{
    enum { COUNT = 200000 };
    int32_t *buf = job_buffer(me, COUNT * sizeof *buf);
    for (int i = 0; i < 2; i++) {
        size_t count = i ? COUNT : 3;
        weft_request *req = NULL;
        if (me->rank == 0) {
            CHECK_OK(weft_isend(me->world, buf, count, WEFT_INT32, 1, 2, NULL, &req));
            WAIT_OK(req);
        } else {
            CHECK_OK(weft_irecv(me->world, buf, count, WEFT_FLOAT32, 0, 2, NULL, &req));
            WAIT_STATUS(WEFT_ERR_MISMATCH, req);
            CHECK_TEXT(weft_request_message(req), "int32");
            CHECK_TEXT(weft_request_message(req), "float32");
            weft_release(req);
        }
        job_message_works(me->world, 0, 1, 2);
        CHECK_OK(weft_group_status(me->world));
    }
    job_sum_works(me->world);
}

/* ---- much at once
 * ---------------------------------------------------------------------------------------- */

static void large_both_ways(job_rank *me)
{
    enum { BYTES = 8 << 20 };
    unsigned char *out = job_buffer(me, BYTES), *in = job_buffer(me, BYTES);
    int peer = 1 - me->rank;
    for (int i = 0; i < 2; i++) { /* the receive first, then the send first */
        weft_request *reqs[2];
        write_pattern(out, BYTES, (unsigned)(me->rank + i));
        if (i == 0) {
            reqs[0] = receive_bytes(me, in, BYTES, peer, 0);
        }
        reqs[1] = send_bytes(me, out, BYTES, peer, 0);
        if (i == 1) {
            reqs[0] = receive_bytes(me, in, BYTES, peer, 0);
        }
        CHECK_OK(weft_wait_all(reqs, 2, job_wait_ms()));
        CHECK(has_pattern(in, BYTES, (uint64_t)(peer + i)));
        weft_release(reqs[0]);
        weft_release(reqs[1]);
    }
}

/* Messages that nobody receives yet, large and small, hold no collective back. */
static void unreceived(job_rank *me)
{
    enum { MESSAGES = 48, LARGE = 1 << 20, SMALL = 900 };
    static const size_t sizes[] = {LARGE, SMALL, 40000};
    unsigned char *buf[MESSAGES];
    weft_request *reqs[MESSAGES];
    for (int i = 0; i < MESSAGES; i++) {
        size_t size = sizes[i % 3];
        buf[i] = job_buffer(me, size);
        if (me->rank == 0) {
            write_pattern(buf[i], size, (uint64_t)i);
            reqs[i] = send_bytes(me, buf[i], size, 1, i % 2);
        }
    }
    for (int i = 0; i < 50; i++) job_sum_works(me->world);
    CHECK_OK(weft_barrier(me->world, NULL, NULL));
    for (int i = 0; i < MESSAGES && me->rank == 1; i++) {
        int take = i < MESSAGES / 2 ? 2 * i + 1 : 2 * (i - MESSAGES / 2); /* tag 1 first, then tag 0 */
        reqs[take] = receive_bytes(me, buf[take], sizes[take % 3], 0, take % 2);
    }
    CHECK_OK(weft_wait_all(reqs, MESSAGES, job_wait_ms()));
    for (int i = 0; i < MESSAGES; i++) {
        CHECK(has_pattern(buf[i], sizes[i % 3], (uint64_t)i));
        weft_release(reqs[i]);
    }
}

static void flood(job_rank *me)
{
    enum { BYTES = 100 };
    /* Each of those between emulated devices is a dozen hand-offs between threads; with 80 others ready to run on
     * two processors that is 0.3 s. */
    const size_t messages = job_on_device() ? 60 : 3000;
    unsigned char *buf = job_buffer(me, messages * BYTES);
    weft_request **reqs = job_alloc(me, messages * sizeof *reqs);
    for (size_t i = 0; i < messages; i++) {
        unsigned char *at = buf + i * BYTES;
        if (me->rank == 0) {
            write_pattern(at, BYTES, i);
            reqs[i] = send_bytes(me, at, BYTES, 1, 0);
        } else if (i == 0) {
            job_sleep_ms(50); /* let them pile up */
        }
        if (me->rank == 1) {
            reqs[i] = receive_bytes(me, at, BYTES, WEFT_ANY_RANK, WEFT_ANY_TAG);
        }
    }
    CHECK_OK(weft_wait_all(reqs, messages, job_wait_ms()));
    for (size_t i = 0; i < messages; i++) CHECK(has_pattern(buf + i * BYTES, BYTES, i));
}

/* Everyone with everyone, all posted before anything is waited for. */
static void crossing(job_rank *me)
{
    enum { BYTES = 30000 };
    weft_request *reqs[2 * JOB_RANKS_MAX];
    unsigned char *in[JOB_RANKS_MAX];
    size_t n = 0;
    for (int peer = 0; peer < me->size; peer++) {
        unsigned char *out = job_buffer(me, BYTES);
        write_pattern(out, BYTES, (unsigned)(me->rank * 16 + peer));
        in[peer] = job_buffer(me, BYTES);
        reqs[n++] = send_bytes(me, out, BYTES, peer, me->rank);
        reqs[n++] = receive_bytes(me, in[peer], BYTES, peer, WEFT_ANY_TAG);
    }
    CHECK_OK(weft_wait_all(reqs, n, job_wait_ms()));
    for (int peer = 0; peer < me->size; peer++) {
        CHECK_INT(job_info(reqs[2 * peer + 1]).tag, peer);
        CHECK(has_pattern(in[peer], BYTES, (uint64_t)(peer * 16 + me->rank)));
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("order per tag", .ranks = 2, .body = tags),
        JOB_TEST("any rank and any tag", .ranks = 3, .body = any_rank),
        JOB_TEST("any rank with a tag", .ranks = 3, .body = any_rank_with_tag),
        JOB_TEST("the first posted receive matches", .ranks = 2, .body = first_posted_receive),
        JOB_TEST("self", .ranks = 1, .body = self),
        JOB_TEST("send_recv", .ranks = 2, .body = send_recv),
        JOB_TEST("send_recv is apart from tags", .ranks = 2, .body = send_recv_is_apart),
        JOB_TEST("zero bytes", .ranks = 2, .body = zero_bytes),
        JOB_TEST("a shorter message", .ranks = 2, .body = shorter),
        JOB_TEST("a longer message", .ranks = 2, .body = truncated),
        JOB_TEST("another type", .ranks = 2, .body = wrong_type),
        JOB_TEST("large both ways", .ranks = 2, .body = large_both_ways),
        JOB_TEST("unreceived messages hold nothing back", .ranks = 2, .body = unreceived),
        JOB_TEST("flood", .ranks = 2, .body = flood),
        JOB_TEST("everyone with everyone", .ranks = 5, .body = crossing),
    };
    return JOB_MAIN(tests, argc, argv);
}
