/* test_schedule.c - appending, sealing and printing steps; blocks; running out of memory. */
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
static weft__schedule *make_cut(const weft__op *op, int rank, int size, const char *algorithms,
                                weft__cutting cutting)
{
    weft__group_params params = {.rounds = 0};
    weft__selection selection;
    assert_int_equal(weft__choices_force(&params.choices, "WEFT_ALGORITHM", algorithms), WEFT_OK);
    weft__selection_make(&selection, &params, size, false);
    selection.cutting = cutting;
    return weft__schedule_make(op, rank, size, NULL, weft__select(op, size, &selection));
}

static weft__schedule *make(const weft__op *op, int rank, int size, const char *algorithms)
{
    return make_cut(op, rank, size, algorithms, (weft__cutting){0, 0});
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

/* ---- blocks ---- */

enum { BLOCK = 5, STEPS_MOST = 512 };

static uint64_t drawn;
static int below(int limit)
{
    drawn = drawn * 6364136223846793005U + 1442695040888963407U;
    return limit > 0 ? (int)((drawn >> 33) % (uint64_t)limit) : 0;
}

/* A schedule that goes by in blocks, and the same one whole, where the agreement stands at the end and not at the beginning. */
typedef struct pair {
    weft__schedule *whole, *cut;
    int agreement;         /* its steps */
    bool done[STEPS_MOST]; /* by number in the whole */
    int waits[2 * BLOCK];  /* as who runs it counts them */
} pair;

static int in_whole(const pair *p, int id)
{
    return id < p->agreement ? p->whole->n - p->agreement + id : id - p->agreement;
}

static int agreement_of(weft__kind kind, int size)
{
    int rounds = 0;
    while (1 << rounds < size) rounds++;
    return weft__kind_traits(kind) & WEFT__ROOTED ? 2 * rounds : 0;
}

static int waits_in_whole(const pair *p, int id)
{
    const weft__schedule *s = p->whole;
    int n = 0;
    for (int i = 0; i < id; i++)
        for (int k = 0; k < s->steps[i].next_count; k++)
            n += s->next[s->steps[i].first_next + k] == id && !p->done[i];
    return n;
}

/* From where the older block begins, or a later one. */
static void check_steps(const pair *p, int from)
{
    const weft__schedule *s = p->cut;
    for (int id = from; id < s->from + 2 * BLOCK && id < s->total; id++) {
        const int there = in_whole(p, id);
        const weft__step *a = &p->whole->steps[there], *b = &s->steps[id % (2 * BLOCK)];
        assert_int_equal(a->kind, b->kind);
        assert_int_equal(a->peer, b->peer);
        assert_int_equal(a->tag, b->tag);
        assert_int_equal(a->a.area, b->a.area);
        assert_int_equal(a->a.offset, b->a.offset);
        assert_int_equal(a->b.offset, b->b.offset);
        assert_int_equal(a->out.area, b->out.area);
        assert_int_equal(a->out.offset, b->out.offset);
        assert_int_equal(a->count, b->count);
        assert_true(a->scale == b->scale);
        if (!p->done[there]) assert_int_equal(p->waits[id % (2 * BLOCK)], waits_in_whole(p, there));
    }
}

/* The number of one that may be done. */
static int draw_ready(const pair *p)
{
    const weft__schedule *s = p->cut;
    int ready[2 * BLOCK] = {0}, n = 0;
    for (int id = s->from; id < s->from + 2 * BLOCK && id < s->total; id++)
        if (p->waits[id % (2 * BLOCK)] == 0) ready[n++] = id;
    assert_true(n > 0);
    return ready[below(n)];
}

static void do_step(pair *p, int id)
{
    const weft__step *step = &p->cut->steps[id % (2 * BLOCK)];
    p->done[in_whole(p, id)] = true;
    p->waits[id % (2 * BLOCK)] = WEFT__STEP_DONE;
    for (int k = 0; k < step->next_count; k++) p->waits[p->cut->next[step->first_next + k]]--;
}

/* In an order drawn by chance each block comes when the one two before it is done, as it stands in the whole. */
static void go_through(const weft__op *op, int rank, int size, const char *algorithms)
{
    pair p = {.whole = make(op, rank, size, algorithms),
              .cut = make_cut(op, rank, size, algorithms, (weft__cutting){2 * BLOCK, BLOCK})};
    p.agreement = agreement_of(op->kind, size);
    assert_int_equal(p.cut->block, BLOCK);
    assert_int_equal(p.cut->n, 2 * BLOCK);
    assert_int_equal(p.cut->total, p.whole->n);
    assert_int_equal(p.cut->tmp_bytes, p.whole->tmp_bytes);
    assert_in_range(p.whole->n, 2 * BLOCK, STEPS_MOST);
    for (int i = 0; i < p.cut->n; i++) p.waits[i] = p.cut->steps[i].waits;
    check_steps(&p, 0);
    for (int left = p.cut->total; left > 0; left--) {
        do_step(&p, draw_ready(&p));
        while (weft__block_is_done(p.cut, p.waits)) {
            int from = p.cut->from + BLOCK;
            weft__opened opened = weft__schedule_advance(p.cut, op, p.waits);
            int rest = p.cut->total - from - BLOCK;
            assert_int_equal(p.cut->from, from);
            assert_int_equal(opened.first, (from + BLOCK) % (2 * BLOCK));
            assert_int_equal(opened.count, rest < BLOCK ? rest : BLOCK);
            check_steps(&p, from);
        }
    }
    weft__schedule_free(p.whole);
    weft__schedule_free(p.cut);
}

static void test_blocks(void **state)
{
    static const struct {
        weft__kind kind;
        weft_op reduction;
        const char *algorithms;
    } rows[] = {{WEFT__OP_ALL_REDUCE, WEFT_SUM, "all_reduce:ring"},
                {WEFT__OP_ALL_REDUCE, WEFT_PREMUL_SUM, "all_reduce:ring"},
                {WEFT__OP_REDUCE_SCATTER, WEFT_AVG, "reduce_scatter:ring"},
                {WEFT__OP_ALL_GATHER, WEFT_SUM, "all_gather:ring"},
                {WEFT__OP_ALL_GATHER, WEFT_SUM, "all_gather:pairwise"},
                {WEFT__OP_REDUCE, WEFT_SUM, "reduce:ring_gather"},
                {WEFT__OP_ALL_TO_ALL, WEFT_SUM, "all_to_all:pairwise"},
                {WEFT__OP_GATHER, WEFT_SUM, "gather:direct"},
                {WEFT__OP_SCATTER, WEFT_SUM, "scatter:direct"}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int size = 12; size <= 60; size += 7) {
            weft__op op = op_of(rows[i].kind, 100);
            op.reduction = rows[i].reduction;
            op.root = size / 2;
            go_through(&op, op.root, size, rows[i].algorithms);
            if (weft__kind_traits(op.kind) & WEFT__OUT_BLOCKS && op.kind != WEFT__OP_ALL_TO_ALL) continue;
            op.out = buffer; /* in place */
            go_through(&op, op.root, size, rows[i].algorithms);
        }
}

/* In blocks it takes as much memory among many as among few; up to a number of steps it stays whole, and where stripes go
 * round beside each other. */
static void test_when_cut(void **state)
{
    const weft__cutting cutting = {WEFT__WHOLE_STEPS, WEFT__BLOCK_STEPS};
    static const struct {
        int size;
        size_t count;
        bool cut;
    } rows[] = {{WEFT__WHOLE_STEPS / 5 + 1, 1000000, false},
                {WEFT__WHOLE_STEPS / 5 + 2, 1000000, true},
                {16384, 1 << 26, true},
                {1 << 20, 1 << 20, true},
                {1024, 1 << 28, false}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft__op op = op_of(WEFT__OP_ALL_REDUCE, rows[i].count);
        weft__schedule *s = make_cut(&op, 1, rows[i].size, "all_reduce:ring", cutting);
        assert_int_equal(s->block, rows[i].cut ? WEFT__BLOCK_STEPS : 0);
        assert_true(s->total >= 5 * (rows[i].size - 1));
        if (rows[i].cut)
            assert_int_equal(s->n, 2 * WEFT__BLOCK_STEPS);
        else
            assert_int_equal(s->n, s->total);
        weft__schedule_free(s);
    }
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
        cmocka_unit_test(test_sealed), cmocka_unit_test(test_print),    cmocka_unit_test(test_local),
        cmocka_unit_test(test_blocks), cmocka_unit_test(test_when_cut), cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests_name("schedule", tests, NULL, NULL);
}
