/* test_blocks.c - uneven blocks: copies, what is refused, what overlaps, what ranks compare. */
#include "blocks.h"

#include "op.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SIZE = 3 };

static int32_t memory[64];

/* As rank 1 of three, root 1 where there is one. */
static weft__op of_kind(weft__kind kind, weft__uneven given)
{
    weft__op op = {.kind = kind,
                   .dtype = WEFT_INT32,
                   .memory = WEFT_MEMORY_HOST,
                   .root = 1,
                   .count = 2,
                   .in = memory,
                   .out = memory + 32,
                   .uneven = weft__uneven_copy(&given, SIZE)};
    assert_non_null(op.uneven);
    return op;
}

static void refused(weft__op op, const char *words)
{
    assert_int_equal(weft__op_check(&op, 1, SIZE), WEFT_ERR_ARGUMENT);
    if (!strstr(weft_last_error(), words)) fail_msg("\"%s\" does not say \"%s\"", weft_last_error(), words);
    free(op.uneven);
}

static void test_copy(void **state)
{
    size_t counts[] = {4, 0, 3}, displs[] = {9, 1, 5};
    weft__uneven given = {.in = {counts, displs, 0}, .out = {counts, NULL, 0}};
    weft__uneven *copy = weft__uneven_copy(&given, SIZE), *none;
    (void)state;
    assert_non_null(copy);
    memset(counts, 7, sizeof counts);
    memset(displs, 7, sizeof displs);
    assert_int_equal(copy->in.total, 7);
    assert_int_equal(copy->in.counts[2], 3);
    assert_int_equal(copy->in.displs[0], 9);
    assert_int_equal(copy->out.displs[1], 4); /* packed */
    assert_int_equal(copy->out.displs[2], 4);
    free(copy);
    none = weft__uneven_copy(&(weft__uneven){.agreed = 0}, SIZE);
    assert_non_null(none);
    assert_null(none->in.counts);
    assert_null(none->out.counts);
    free(none);
}

static void test_where(void **state)
{
    const size_t counts[] = {4, 2, 3}, displs[] = {9, 1, 5};
    weft__op op = of_kind(WEFT__OP_GATHER_V, (weft__uneven){.out = {counts, displs, 0}});
    char text[100];
    (void)state;
    assert_int_equal(weft__op_check(&op, 1, SIZE), WEFT_OK);
    assert_int_equal(weft__op_out_block(&op, 2).start, 5);
    assert_int_equal(weft__op_out_block(&op, 2).length, 3);
    assert_int_equal(weft__op_in_block(&op, 2).start, 0);
    assert_int_equal(weft__op_in_block(&op, 2).length, 2);
    assert_int_equal(weft__op_out_elements(&op, 1, SIZE), 9);
    assert_int_equal(weft__op_out_elements(&op, 0, SIZE), 0);
    weft__op_text(&op, 1, SIZE, text, sizeof text);
    assert_string_equal(text, "gather_v (36 B int32)");
    free(op.uneven);
}

static void test_refused(void **state)
{
    const size_t counts[] = {2, 2, 2}, apart[] = {8, 2, 4}, hit[] = {5, 2, 4}, far[] = {0, SIZE_MAX, 4};
    const size_t huge[] = {PTRDIFF_MAX / 4, 2, 1}, many[] = {SIZE_MAX, 2, SIZE_MAX}, other[] = {2, 3, 2};
    (void)state;
    refused(of_kind(WEFT__OP_ALL_GATHER_V, (weft__uneven){.agreed = 0}), "counts is NULL");
    refused(of_kind(WEFT__OP_ALL_GATHER_V, (weft__uneven){.out = {counts, hit, 0}}),
            "rank 2 (elements 4 to 5) and rank 0 (5 to 6) overlap in out");
    refused(of_kind(WEFT__OP_ALL_GATHER_V, (weft__uneven){.out = {counts, far, 0}}), "rank 1's block in out");
    refused(of_kind(WEFT__OP_ALL_GATHER_V, (weft__uneven){.out = {huge, NULL, 0}}), "rank 1's block");
    refused(of_kind(WEFT__OP_ALL_GATHER_V, (weft__uneven){.out = {many, NULL, 0}}), "rank 0's block");
    refused(of_kind(WEFT__OP_SCATTER_V, (weft__uneven){.in = {huge, apart, 0}}), "rank 0's block in in");
    refused(of_kind(WEFT__OP_SCATTER_V, (weft__uneven){.in = {other, apart, 0}}),
            "count is 2 and counts[1] is 3");
    refused(of_kind(WEFT__OP_ALL_TO_ALL_V, (weft__uneven){.in = {counts, NULL, 0}, .out = {other, NULL, 0}}),
            "in_counts[1] is 2 and out_counts[1] is 3");
    weft__op op = of_kind(WEFT__OP_ALL_GATHER_V, (weft__uneven){.out = {counts, apart, 0}});
    op.in = (int32_t *)op.out + 3; /* half of its own block, half of the next */
    refused(op, "overlap");
    op = of_kind(WEFT__OP_ALL_TO_ALL_V, (weft__uneven){.in = {counts, apart, 0}, .out = {counts, apart, 0}});
    op.out = memory;
    refused(op, "expected separate buffers");
}

static void accepted(weft__op op)
{
    if (weft__op_check(&op, 1, SIZE) != WEFT_OK) fail_msg("%s", weft_last_error());
    free(op.uneven);
}

static void test_accepted(void **state)
{
    const size_t counts[] = {2, 2, 2}, apart[] = {8, 2, 4}, hit[] = {5, 2, 4}, even[] = {0, 4, 8},
                 odd[] = {2, 6, 10};
    weft__op op;
    (void)state;
    accepted(of_kind(WEFT__OP_SCATTER_V, (weft__uneven){.in = {counts, hit, 0}})); /* an input */
    op = of_kind(WEFT__OP_ALL_GATHER_V, (weft__uneven){.out = {counts, apart, 0}});
    op.in = (int32_t *)op.out + 2; /* in place */
    accepted(op);
    op = of_kind(WEFT__OP_ALL_GATHER_V, (weft__uneven){.out = {counts, apart, 0}});
    op.in = (int32_t *)op.out + 6; /* in a gap */
    accepted(op);
    op = of_kind(WEFT__OP_ALL_TO_ALL_V, (weft__uneven){.in = {counts, even, 0}, .out = {counts, odd, 0}});
    op.out = memory; /* one in the gaps of the other */
    accepted(op);
    op = of_kind(WEFT__OP_REDUCE_SCATTER_V, (weft__uneven){.in = {counts, NULL, 0}});
    op.out = memory + 2;
    accepted(op);
}

static const char *signed_text(weft__kind kind, const size_t *counts)
{
    static char text[2][100];
    static int next;
    weft__op op = of_kind(kind, (weft__uneven){.out = {counts, NULL, 0}});
    assert_int_equal(weft__op_check(&op, 1, SIZE), WEFT_OK);
    next = !next;
    weft__signature_text(weft__op_sign(&op), text[next], sizeof text[next]);
    free(op.uneven);
    return text[next];
}

static void test_agreement(void **state)
{
    const size_t counts[] = {1, 2, 3}, others[] = {3, 2, 1};
    (void)state;
    assert_string_equal(signed_text(WEFT__OP_ALL_GATHER_V, counts),
                        signed_text(WEFT__OP_ALL_GATHER_V, counts));
    assert_string_not_equal(signed_text(WEFT__OP_ALL_GATHER_V, counts),
                            signed_text(WEFT__OP_ALL_GATHER_V, others));
    assert_non_null(strstr(signed_text(WEFT__OP_ALL_GATHER_V, counts), "all_gather_v of 6 int32 in blocks "));
    /* Only the root knows them. */
    assert_string_equal(signed_text(WEFT__OP_GATHER_V, counts), "gather_v of int32 to root 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copy),     cmocka_unit_test(test_where),     cmocka_unit_test(test_refused),
        cmocka_unit_test(test_accepted), cmocka_unit_test(test_agreement),
    };
    return cmocka_run_group_tests_name("blocks", tests, NULL, NULL);
}
