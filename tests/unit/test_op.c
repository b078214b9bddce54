/* test_op.c - checks, sizes, signatures and texts of operations. */
#include "op.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static float buffer[256];

static weft__op all_reduce(void)
{
    return (weft__op){.kind = WEFT__OP_ALL_REDUCE,
                      .dtype = WEFT_FLOAT32,
                      .memory = WEFT_MEMORY_HOST,
                      .count = 8,
                      .in = buffer,
                      .out = buffer + 100,
                      .scale = 7,
                      .root = 9,
                      .peer = 9,
                      .tag = 9};
}

static weft__op of_kind(weft__kind kind)
{
    weft__op op = {.kind = kind,
                   .dtype = WEFT_FLOAT32,
                   .memory = WEFT_MEMORY_HOST,
                   .count = 8,
                   .in = buffer,
                   .out = buffer + 100};
    return op;
}

/* Checked as rank 1 of 4. */
static void refused(weft__op op, weft_status status, const char *words)
{
    weft_status got = weft__op_check(&op, 1, 4);
    if (got != status) fail_msg("%s instead of %s", weft_status_name(got), weft_status_name(status));
    if (!strstr(weft_last_error(), words)) fail_msg("\"%s\" does not say \"%s\"", weft_last_error(), words);
}

static void accepted(weft__op op)
{
    if (weft__op_check(&op, 1, 4) != WEFT_OK) fail_msg("%s", weft_last_error());
}

static uint64_t seed = 1;
static unsigned draw(unsigned n)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(seed >> 33) % n;
}

/* Mostly right, now and then with something at its edge or past it. */
static weft__op some_op(void)
{
    static const size_t counts[] = {1, 2, 25, 0, SIZE_MAX / 16, SIZE_MAX, (size_t)1 << 32};
    weft__op op = {.kind = (weft__kind)draw(WEFT__OP_MEM_ALLOC), .memory = WEFT_MEMORY_HOST, .scale = 1};
    if (draw(2)) op.kind = draw(2) ? WEFT__OP_ISEND : WEFT__OP_IRECV;
    op.dtype = (weft_dtype)draw(WEFT_BOOL + 2);
    op.reduction = draw(2) ? WEFT_SUM : (weft_op)draw(WEFT_PREMUL_SUM + 2);
    op.count = counts[draw(2) ? draw(3) : draw(7)];
    op.in = draw(4) ? buffer : draw(2) ? buffer + 4 * draw(30) : NULL;
    op.out = draw(4) ? buffer + 400 * draw(2) : draw(2) ? buffer + 4 * draw(30) : NULL;
    if (op.kind == WEFT__OP_ISEND && draw(8)) op.out = NULL;
    if (op.kind == WEFT__OP_IRECV && draw(8)) op.in = NULL;
    op.peer = op.kind >= WEFT__OP_ISEND || !draw(8) ? (int)draw(6) - 1 : 0;
    op.tag = op.kind >= WEFT__OP_ISEND || !draw(8) ? draw(8) ? (int)draw(4) - 1 : 1 << 30 : 0;
    if (!draw(16)) op.root = (int)draw(4);
    if (!draw(16)) op.scale = 2;
    if (!draw(16)) op.memory = (weft_memory)draw(5);
    return op;
}

/* The short look accepts nothing that the close one would refuse or change: with a size that the short look
 * leaves to the close one, and with one that it takes. */
static void test_plainly_right(void **state)
{
    int plain = 0, wrong = 0;
    (void)state;
    for (int i = 0; i < 300000; i++) {
        weft__op op = some_op(), before = op;
        bool short_look = weft__op_plainly_right(&op, 4);
        weft_status status = weft__op_look_closely(&op, 1, 4);
        plain += short_look;
        wrong += status != WEFT_OK;
        if (!short_look) continue;
        if (status != WEFT_OK) fail_msg("accepted, but: %s", weft_last_error());
        assert_memory_equal(&op, &before, sizeof op);
    }
    assert_true(plain > 10000 && wrong > 10000);
}

static void test_canonical(void **state)
{
    weft__op op = all_reduce();
    (void)state;
    assert_int_equal(weft__op_check(&op, 1, 4), WEFT_OK);
    assert_int_equal(op.root, 0);
    assert_int_equal(op.peer, 0);
    assert_int_equal(op.tag, 0);
    assert_true(op.scale == 1);
    op = of_kind(WEFT__OP_BARRIER);
    assert_int_equal(weft__op_check(&op, 1, 4), WEFT_OK);
    assert_true(op.count == 0 && !op.in && !op.out && op.dtype == 0);
    op = of_kind(WEFT__OP_REDUCE);
    op.in = op.out = buffer;
    assert_int_equal(weft__op_check(&op, 1, 4), WEFT_OK); /* not the root: out is not used */
    assert_null(op.out);
    op = of_kind(WEFT__OP_SPLIT_GROUP);
    assert_int_equal(weft__op_check(&op, 1, 4), WEFT_OK);
    assert_int_equal(op.dtype, WEFT_UINT8);
}

static void test_ranges(void **state)
{
    weft__op op = all_reduce();
    (void)state;
    op.dtype = (weft_dtype)17;
    refused(op, WEFT_ERR_ARGUMENT, "dtype is 17");
    op.dtype = (weft_dtype)-1;
    refused(op, WEFT_ERR_ARGUMENT, "dtype is -1");
    op = all_reduce();
    op.reduction = (weft_op)-3;
    refused(op, WEFT_ERR_ARGUMENT, "op is -3");
    op.reduction = (weft_op)9;
    refused(op, WEFT_ERR_ARGUMENT, "op is 9");
    op = all_reduce();
    op.memory = (weft_memory)4;
    refused(op, WEFT_ERR_ARGUMENT, "memory is 4");
    op = of_kind(WEFT__OP_GATHER);
    op.root = 4;
    refused(op, WEFT_ERR_ARGUMENT, "root is 4, expected a rank of the group (0 to 3)");
    op.root = -1;
    refused(op, WEFT_ERR_ARGUMENT, "root is -1");
    op = all_reduce();
    op.count = SIZE_MAX / 16 + 1;
    refused(op, WEFT_ERR_ARGUMENT, "count is");
}

static void test_partners(void **state)
{
    weft__op op = of_kind(WEFT__OP_ISEND);
    (void)state;
    op.tag = (1 << 30) - 1;
    op.peer = 1;
    accepted(op);
    op.tag++;
    refused(op, WEFT_ERR_ARGUMENT, "tag is 1073741824");
    op.tag = WEFT_ANY_TAG;
    refused(op, WEFT_ERR_ARGUMENT, "tag is -1");
    op.tag = 0;
    op.peer = WEFT_ANY_RANK;
    refused(op, WEFT_ERR_ARGUMENT, "peer is -1");
    op.kind = WEFT__OP_IRECV;
    op.tag = WEFT_ANY_TAG;
    accepted(op);
    op.tag = -2;
    refused(op, WEFT_ERR_ARGUMENT, "or WEFT_ANY_TAG");
    op.peer = 4;
    refused(op, WEFT_ERR_ARGUMENT, "or WEFT_ANY_RANK");
    op = of_kind(WEFT__OP_SEND_RECV);
    op.tag = -5; /* has none */
    accepted(op);
    op.out = buffer;
    op.in = buffer;
    accepted(op);
}

static void test_reductions(void **state)
{
    weft__op op = all_reduce();
    (void)state;
    op.reduction = WEFT_BAND;
    refused(op, WEFT_ERR_UNSUPPORTED, "band does not exist on float32");
    op.dtype = WEFT_INT32;
    accepted(op);
    op.reduction = WEFT_AVG;
    refused(op, WEFT_ERR_UNSUPPORTED, "avg does not exist on int32");
    op.dtype = WEFT_COMPLEX64;
    accepted(op);
    op.reduction = WEFT_MAX;
    refused(op, WEFT_ERR_UNSUPPORTED, "max does not exist on complex64");
    op.dtype = WEFT_BOOL;
    accepted(op);
    op.reduction = WEFT_SUM;
    refused(op, WEFT_ERR_UNSUPPORTED, "sum does not exist on bool");
    op = all_reduce();
    op.reduction = WEFT_PREMUL_SUM;
    accepted(op);
    op.scale = 0;
    refused(op, WEFT_ERR_ARGUMENT, "scale is 0");
    op.scale = NAN;
    refused(op, WEFT_ERR_ARGUMENT, "finite");
    op.scale = INFINITY;
    refused(op, WEFT_ERR_ARGUMENT, "scale is inf");
}

static void test_null(void **state)
{
    weft__op op = all_reduce();
    (void)state;
    op.in = NULL;
    refused(op, WEFT_ERR_ARGUMENT, "in is NULL, expected 32 bytes");
    op = all_reduce();
    op.out = NULL;
    refused(op, WEFT_ERR_ARGUMENT, "out is NULL");
    op.in = NULL;
    op.count = 0;
    accepted(op);
    op = of_kind(WEFT__OP_SCATTER);
    op.in = NULL; /* rank 1 is not the root */
    accepted(op);
    op.root = 1;
    refused(op, WEFT_ERR_ARGUMENT, "in is NULL, expected 128 bytes");
    op = of_kind(WEFT__OP_BROADCAST);
    op.in = op.out = NULL;
    refused(op, WEFT_ERR_ARGUMENT, "buf is NULL");
    op = of_kind(WEFT__OP_IRECV);
    op.in = NULL;
    accepted(op);
    op.out = NULL;
    refused(op, WEFT_ERR_ARGUMENT, "buf is NULL");
}

static void test_overlap(void **state)
{
    static const weft__kind same[] = {WEFT__OP_ALL_REDUCE, WEFT__OP_ALL_TO_ALL, WEFT__OP_SEND_RECV};
    weft__op op;
    (void)state;
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        op = of_kind(same[i]);
        op.in = op.out = buffer;
        accepted(op);
        op.out = buffer + 1;
        refused(op, WEFT_ERR_ARGUMENT, "overlap");
    }
    op = of_kind(WEFT__OP_ALL_TO_ALL);
    op.in = op.out = buffer;
    op.memory = WEFT_MEMORY_CUDA;
    refused(op, WEFT_ERR_ARGUMENT, "in host memory");
    op = of_kind(WEFT__OP_ALL_GATHER);
    op.out = buffer;
    op.in = buffer + 8;
    accepted(op);
    op.in = buffer + 16;
    refused(op, WEFT_ERR_ARGUMENT, "in == out + rank * count");
    op.in = buffer + 32;
    accepted(op); /* just behind out */
    op = of_kind(WEFT__OP_REDUCE_SCATTER);
    op.out = buffer + 8;
    accepted(op);
    op.out = buffer;
    refused(op, WEFT_ERR_ARGUMENT, "out == in + rank * count");
    op = of_kind(WEFT__OP_SCATTER);
    op.root = 1;
    op.out = buffer + 8;
    accepted(op);
    op.out = buffer + 24;
    refused(op, WEFT_ERR_ARGUMENT, "out == in + root * count");
}

static void test_sizes(void **state)
{
    weft__op op = of_kind(WEFT__OP_ALL_GATHER);
    (void)state;
    assert_int_equal(weft__op_in_elements(&op, 1, 4), 8);
    assert_int_equal(weft__op_out_elements(&op, 1, 4), 32);
    assert_int_equal(weft__op_bytes(&op, 1, 4), 128);
    op.kind = WEFT__OP_GATHER;
    assert_int_equal(weft__op_out_elements(&op, 1, 4), 0);
    assert_int_equal(weft__op_out_elements(&op, 0, 4), 32);
    op.kind = WEFT__OP_BROADCAST;
    assert_int_equal(weft__op_in_elements(&op, 0, 4), 8);
    assert_int_equal(weft__op_in_elements(&op, 1, 4), 0);
    assert_int_equal(weft__op_bytes(&op, 1, 4), 32);
    op.kind = WEFT__OP_BARRIER;
    assert_int_equal(weft__op_bytes(&op, 1, 4), 0);
    assert_int_equal(weft_dtype_size(WEFT_COMPLEX128), 16);
    assert_int_equal(weft_dtype_size((weft_dtype)-1), 0);
}

static const char *signed_text(weft__op op)
{
    static char text[200];
    if (weft__op_check(&op, 1, 4) != WEFT_OK) fail_msg("%s", weft_last_error());
    weft__signature_text(weft__op_sign(&op), text, sizeof text);
    return text;
}

static void test_signatures(void **state)
{
    weft__op a = all_reduce(), b = all_reduce();
    char text[16];
    (void)state;
    a.count = 100;
    assert_string_equal(signed_text(a), "all_reduce of 100 float32 (sum)");
    b = of_kind(WEFT__OP_BROADCAST);
    b.dtype = WEFT_INT8;
    b.count = 7;
    b.root = 2;
    b.out = buffer;
    assert_string_equal(signed_text(b), "broadcast of 7 int8 from root 2");
    assert_string_equal(signed_text(of_kind(WEFT__OP_BARRIER)), "barrier");
    assert_string_equal(signed_text(of_kind(WEFT__OP_REDUCE)), "reduce of 8 float32 (sum) to root 0");
    a.memory = WEFT_MEMORY_CUDA;
    assert_string_equal(signed_text(a), "all_reduce of 100 float32 (sum) in device memory");
    assert_false(weft__same_signature(weft__op_sign(&a), weft__op_sign(&b)));
    b = a;
    b.scale = 3;
    assert_true(weft__same_signature(weft__op_sign(&a), weft__op_sign(&b)));
    b.count++;
    assert_false(weft__same_signature(weft__op_sign(&a), weft__op_sign(&b)));
    for (unsigned i = 0; i < 5000; i++) { /* whatever a peer sends */
        weft__signature s = {{0x9e3779b97f4a7c15U * i, UINT64_MAX}};
        memset(text, 'x', sizeof text);
        weft__signature_text(s, text, sizeof text - 1);
        assert_true(memchr(text, 0, sizeof text - 1) && text[sizeof text - 1] == 'x');
    }
}

static void test_texts(void **state)
{
    char text[100];
    weft__op op = all_reduce();
    (void)state;
    op.count = 1 << 20;
    weft__op_text(&op, 1, 4, text, sizeof text);
    assert_string_equal(text, "all_reduce (4 MiB float32)");
    op.count = 384;
    weft__op_text(&op, 1, 4, text, sizeof text);
    assert_string_equal(text, "all_reduce (1.5 KiB float32)");
    op.kind = WEFT__OP_IRECV;
    op.peer = WEFT_ANY_RANK;
    op.count = 1;
    weft__op_text(&op, 1, 4, text, sizeof text);
    assert_string_equal(text, "irecv (4 B float32 from any rank)");
    op.kind = WEFT__OP_BARRIER;
    weft__op_text(&op, 1, 4, text, 5);
    assert_string_equal(text, "barr");
    assert_string_equal(weft__kind_name((weft__kind)99), "(unknown operation)");
    assert_string_equal(weft__dtype_name(WEFT_FLOAT8_E4M3), "float8_e4m3");
    assert_string_equal(weft__reduction_name(WEFT_PREMUL_SUM), "premul_sum");
    assert_int_equal(weft__kind_traits(WEFT__OP_REDUCE) & (WEFT__IN_SHAPE - 1),
                     WEFT__COLLECTIVE | WEFT__ROOTED | WEFT__REDUCES);
    assert_int_equal(weft__in_shape(weft__kind_traits(WEFT__OP_REDUCE)), WEFT__COUNT);
    assert_int_equal(weft__out_shape(weft__kind_traits(WEFT__OP_REDUCE)), WEFT__ROOT_COUNT);
    assert_int_equal(weft__place_shape(weft__kind_traits(WEFT__OP_REDUCE)), WEFT__SAME);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plainly_right), cmocka_unit_test(test_canonical),
        cmocka_unit_test(test_ranges),        cmocka_unit_test(test_partners),
        cmocka_unit_test(test_reductions),    cmocka_unit_test(test_null),
        cmocka_unit_test(test_overlap),       cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_signatures),    cmocka_unit_test(test_texts),
    };
    return cmocka_run_group_tests_name("op", tests, NULL, NULL);
}
