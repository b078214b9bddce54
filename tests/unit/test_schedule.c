/* test_schedule.c - appending, sealing and printing steps; running out of memory. */
#include "schedule.h"
#include "select.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static float buffer[64];

/* What is chosen where nobody has asked for anything, or for these algorithms. */
static weft__schedule *make(const weft__op *op, int rank, int size, const char *algorithms)
{
    weft__group_params params = {.rounds = 0};
    weft__selection selection;
    assert_int_equal(weft__choices_force(&params.choices, "WEFT_ALGORITHM", algorithms), WEFT_OK);
    weft__selection_make(&selection, &params, size, false);
    return weft__schedule_make(op, rank, size, NULL, weft__select(op, size, &selection));
}

static weft__op op_of(weft__kind kind, size_t count)
{
    return (weft__op){.kind = kind,
                      .dtype = WEFT_FLOAT32,
                      .memory = WEFT_MEMORY_HOST,
                      .count = count,
                      .in = buffer,
                      .out = buffer + 32,
                      .scale = 1};
}

/* Every follower has exactly its predecessors counted, and all steps can be done in the order of the list. */
static void test_sealed(void **state)
{
    (void)state;
    for (int size = 1; size <= 9; size++)
        for (int rank = 0; rank < size; rank++) {
            weft__op op = op_of(WEFT__OP_ALL_REDUCE, 50000);
            weft__schedule *s = make(&op, rank, size, "");
            int *found = calloc((size_t)s->n, sizeof *found);
            assert_non_null(found);
            for (int i = 0; i < s->n; i++)
                for (int k = 0; k < s->steps[i].next_count; k++) {
                    int next = s->next[s->steps[i].first_next + k];
                    assert_in_range(next, i + 1, s->n - 1);
                    found[next]++;
                }
            for (int i = 0; i < s->n; i++) assert_int_equal(found[i], s->steps[i].waits);
            free(found);
            weft__schedule_free(s);
        }
}

static void test_print(void **state)
{
    weft__op op = op_of(WEFT__OP_ALL_REDUCE, 3);
    weft__schedule *s;
    char text[1024] = "";
    FILE *memory = fmemopen(text, sizeof text, "w");
    (void)state;
    op.reduction = WEFT_AVG;
    s = make(&op, 1, 2, "");
    weft__schedule_print(s, memory);
    fclose(memory);
    assert_string_equal(text, "recursive_doubling, rank 1 of 2, 64 bytes of tmp\n"
                              "0: send 3 to 0 tag 1 in+0\n"
                              "1: recv 3 from 0 tag 1 -> tmp+0\n"
                              "2: reduce 3 tmp+0 op in+0 -> out+0 scaled by 0.5 (after 0, 1)\n");
    weft__schedule_free(s);
}

/* A group of one copies, scaled where the reduction is. */
static void test_local(void **state)
{
    weft__op op = op_of(WEFT__OP_REDUCE, 5);
    weft__schedule *s;
    (void)state;
    op.reduction = WEFT_PREMUL_SUM;
    op.scale = 3;
    s = make(&op, 0, 1, "");
    assert_int_equal(s->n, 1);
    assert_int_equal(s->steps[0].kind, WEFT__STEP_COPY);
    assert_true(s->steps[0].scale == 3);
    weft__schedule_free(s);
}

/* More room than there are addresses is told as ERR_MEMORY, by no one else than the caller of make. */
static void test_no_memory(void **state)
{
    weft__op op = op_of(WEFT__OP_REDUCE, SIZE_MAX / 8);
    (void)state;
    assert_null(make(&op, 0, 9, "reduce:binomial_tree"));
    assert_non_null(strstr(weft_last_error(), "schedule"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sealed),
        cmocka_unit_test(test_print),
        cmocka_unit_test(test_local),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests_name("schedule", tests, NULL, NULL);
}
