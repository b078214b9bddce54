/* test_types.c - every type with every reduction on device memory: right by the oracle where it is taken, refused in the
 * call on every rank where it is not, by a sentence that names both; and whatever its type, what only moves is moved. */
#include "collective.h"
#include "device.h"

#include <stdio.h>
#include <string.h>

enum { COUNT = 37, RANKS = 3 };

static const char *const reductions[] = {"sum",  "prod", "min",  "max",       "avg",
                                         "band", "bor",  "bxor", "premul_sum"};
static const char *const types[] = {"int8",    "uint8",   "int16",       "uint16",      "int32",   "uint32",
                                    "int64",   "uint64",  "float8_e4m3", "float8_e5m2", "float16", "bfloat16",
                                    "float32", "float64", "complex64",   "complex128",  "bool"};

static bool is_eight_bits(int dtype)
{
    return dtype == WEFT_FLOAT8_E4M3 || dtype == WEFT_FLOAT8_E5M2;
}

static weft_status begin(job_rank *me, collective_kind kind, void *in, void *out, weft_dtype dtype,
                         weft_op op, weft_request **req)
{
    const size_t counts[RANKS] = {1, 1, 1};
    const weft_call call = {.stream = WEFT_NO_STREAM, .scale = op == WEFT_PREMUL_SUM ? 2 : 0};
    switch (kind) {
    case REDUCE: return weft_reduce(me->world, in, out, 1, dtype, op, 0, &call, req);
    case ALL_REDUCE: return weft_all_reduce(me->world, in, out, 1, dtype, op, &call, req);
    case REDUCE_SCATTER: return weft_reduce_scatter(me->world, in, out, 1, dtype, op, &call, req);
    default: return weft_reduce_scatter_v(me->world, in, out, counts, dtype, op, &call, req);
    }
}

static void is_refused(job_rank *me, collective_kind kind, int dtype, int op)
{
    char *in = job_buffer(me, 16 * RANKS), *out = job_buffer(me, 16 * RANKS);
    weft_request *req = NULL;
    CHECK_STATUS(WEFT_ERR_UNSUPPORTED, begin(me, kind, in, out, (weft_dtype)dtype, (weft_op)op, &req));
    CHECK(!req);
    CHECK_TEXT(weft_last_error(), reductions[op]);
    CHECK_TEXT(weft_last_error(), types[dtype]);
}

static void every_pair(job_rank *me)
{
    static const collective_kind kinds[] = {ALL_REDUCE, REDUCE, REDUCE_SCATTER, REDUCE_SCATTER_V};
    int taken = 0, refused = 0;
    for (int dtype = 0; dtype <= WEFT_BOOL; dtype++)
        for (int op = 0; op <= WEFT_PREMUL_SUM && !is_eight_bits(dtype); op++)
            for (int kind = 0; kind < 4; kind++) {
                bool can = collective_supports((weft_dtype)dtype, (weft_op)op);
                const collective what = {.kind = kinds[kind],
                                         .dtype = (weft_dtype)dtype,
                                         .op = (weft_op)op,
                                         .count = COUNT,
                                         .seed = (uint64_t)(dtype * 100 + op * 10 + kind)};
                if (can)
                    collective_run(me->world, &what);
                else
                    is_refused(me, kinds[kind], dtype, op);
                taken += can;
                refused += !can;
            }
    /* 6 integers have 5, 4 floats 6, 2 complex types 2, and bool 4, of 15 types with 9. */
    CHECK_INT(taken, 4 * (6 * 5 + 4 * 6 + 2 * 2 + 4));
    CHECK_INT(refused, 4 * 15 * 9 - taken);
}

/* Bytes that are neither 0 nor 1 are true, and stay so. */
static void odd_truths(job_rank *me)
{
    static const unsigned char truths[] = {0, 1, 2, 0x80, 0xff};
    enum { ALL = 125 };
    unsigned char image[ALL], *in = job_buffer(me, ALL), *out = job_buffer(me, ALL);
    for (int which = 0; which < 2; which++) {
        for (int i = 0; i < ALL; i++)
            image[i] = truths[(me->rank == 0 ? i : me->rank == 1 ? i / 5 : i / 25) % 5];
        job_put(in, image, ALL);
        CHECK_OK(weft_all_reduce(me->world, in, out, ALL, WEFT_BOOL, which ? WEFT_BOR : WEFT_BAND,
                                 &(weft_call){.stream = WEFT_NO_STREAM}, NULL));
        job_get(image, out, ALL);
        for (int i = 0; i < ALL; i++) {
            bool all = i % 5 && i / 5 % 5 && i / 25, any = i;
            CHECK_INT(image[i] != 0, which ? any : all);
        }
    }
}

static void every_move(job_rank *me)
{
    for (int dtype = 0; dtype <= WEFT_BOOL; dtype++)
        for (int kind = 0; kind < BARRIER; kind++) {
            const collective what = {.kind = (collective_kind)kind,
                                     .dtype = (weft_dtype)dtype,
                                     .count = COUNT,
                                     .root = dtype % RANKS,
                                     .seed = (uint64_t)(dtype * 100 + kind)};
            if (!collective_reduces((collective_kind)kind)) collective_run(me->world, &what);
        }
}

/* In a ring, bits as they come. */
static void every_message(job_rank *me)
{
    int next = (me->rank + 1) % me->size, before = (me->rank + me->size - 1) % me->size;
    for (int dtype = 0; dtype <= WEFT_BOOL; dtype++) {
        size_t bytes = COUNT * weft_dtype_size((weft_dtype)dtype);
        unsigned char image[COUNT * 16], *in = job_buffer(me, bytes), *out = job_buffer(me, bytes);
        weft_request *send, *receive;
        for (size_t i = 0; i < bytes; i++) image[i] = (unsigned char)(i * 37 + (size_t)me->rank * 101);
        job_put(in, image, bytes);
        CHECK_OK(weft_irecv(me->world, out, COUNT, (weft_dtype)dtype, before, dtype, NULL, &receive));
        CHECK_OK(weft_isend(me->world, in, COUNT, (weft_dtype)dtype, next, dtype, NULL, &send));
        WAIT_OK(send);
        WAIT_OK(receive);
        weft_release(send);
        weft_release(receive);
        job_get(image, out, bytes);
        for (size_t i = 0; i < bytes; i++)
            CHECK_INT(image[i], (unsigned char)(i * 37 + (size_t)before * 101));
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("every type with every reduction", .ranks = RANKS, .body = every_pair),
        JOB_TEST("bytes that are neither true nor false", .ranks = RANKS, .body = odd_truths),
        JOB_TEST("every type moves", .ranks = RANKS, .body = every_move),
        JOB_TEST("every type in messages", .ranks = RANKS, .body = every_message),
    };
    return JOB_MAIN(tests, argc, argv);
}
