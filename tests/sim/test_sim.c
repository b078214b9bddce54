/* test_sim.c - all collectives, as schedules and as rounds, in simulated groups; their traces and times.
 *
 * WEFT_GOLDEN=write rewrites tests/sim/golden instead of comparing with it. */
#include "rounds_sim.h"
#include "sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SMALL_BYTES  256 /* so that all forms are seen with few elements */
#define MIDDLE_BYTES 1024

/* Every collective of ops/op.h, those that also go by rounds first.  Of those that are an all_gather of what
 * ranks tell of themselves split_group stands for all. */
static weft__kind collectives[WEFT__OP_KINDS];
static size_t collective_count, even_count;

static void list_collectives(bool uneven)
{
    for (int k = 0; k < WEFT__OP_KINDS; k++) {
        weft__kind kind = (weft__kind)k;
        unsigned traits = weft__kind_traits(kind);
        if (!(traits & WEFT__COLLECTIVE) || !(traits & WEFT__UNEVEN) == uneven) continue;
        if (!(traits & WEFT__GATHERED) || kind == WEFT__OP_SPLIT_GROUP)
            collectives[collective_count++] = kind;
    }
}

/* What is for small sizes ends at SMALL_BYTES, and what is for 1 MiB at MIDDLE_BYTES. */
static weft__selection small_selection(int size, int hosts, bool rank_order)
{
    const weft__group_params params = {.rank_order = rank_order, .hosts = (uint32_t)hosts};
    weft__selection s;
    weft__selection_make(&s, &params, size, false);
    for (int i = 0; i < WEFT__CANDIDATES; i++)
        if (s.serves[i] && weft__candidates[i].limit.reach != WEFT__REACH_UP_TO_EACH &&
            s.upto[i] > SMALL_BYTES && s.upto[i] != WEFT__UPTO_ANY)
            s.upto[i] = s.upto[i] < 1 << 20 ? SMALL_BYTES : MIDDLE_BYTES;
    return s;
}

static void run_with(sim_case c, const weft__selection *selection)
{
    sim_group *g = sim_group_make(c);
    sim_run(g, selection, NULL);
    sim_group_check(g);
    sim_group_free(g);
}

static void run_small(sim_case c, bool rank_order)
{
    sim_group *g = sim_group_make(c);
    weft__selection s = small_selection(c.size, sim_hosts(g), rank_order);
    sim_run(g, &s, NULL);
    sim_group_check(g);
    sim_group_free(g);
}

static void run_schedule(sim_case c)
{
    run_small(c, false);
}

static void run_ordered(sim_case c)
{
    run_small(c, true);
}

/* As WEFT_ALGORITHM would have it. */
static weft__selection forced_selection(weft__kind kind, const char *algorithm, int size)
{
    weft__group_params params = {.rounds = 0};
    weft__selection s;
    char list[128];
    snprintf(list, sizeof list, "%s:%s", weft__kind_name(kind), algorithm);
    assert_int_equal(weft__choices_force(&params.choices, "WEFT_ALGORITHM", list), WEFT_OK);
    weft__selection_make(&s, &params, size, false);
    return s;
}

/* Every algorithm of that kind, in turn, whatever the size. */
static void run_forced(sim_case c)
{
    for (int i = 0; i < WEFT__CANDIDATES; i++) {
        const weft__candidate *candidate = &weft__candidates[i];
        weft__selection s;
        if (candidate->kind != c.kind || candidate->way != WEFT__MESSAGES) continue;
        s = forced_selection(c.kind, candidate->name, c.size);
        run_with(c, &s);
    }
}

/* ---- every kind at every size ---- */

typedef void each_fn(sim_case c);

/* Types, reductions, roots and both ways of placing buffers for one kind, size and count. */
static void variants(weft__kind kind, int size, size_t count, each_fn *each)
{
    static const weft_op reductions[] = {WEFT_SUM, WEFT_MIN, WEFT_AVG, WEFT_PREMUL_SUM};
    unsigned traits = weft__kind_traits(kind);
    int roots[] = {0, size / 2, size - 1};
    for (int r = 0; r < (traits & WEFT__ROOTED ? 3 : 1); r++)
        for (int o = 0; o < (traits & WEFT__REDUCES ? 4 : 1); o++)
            for (int in_place = 0; in_place < 2; in_place++) {
                sim_case c = {.kind = kind,
                              .dtype = WEFT_INT32,
                              .reduction = reductions[o],
                              .size = size,
                              .root = roots[r],
                              .count = count,
                              .in_place = in_place};
                c.seed = (uint64_t)size * 1000 + count * 31 + (uint64_t)(r * 8 + o * 2 + in_place);
                if (kind == WEFT__OP_SPLIT_GROUP) c.dtype = WEFT_UINT8;
                if (r && roots[r] == roots[r - 1]) continue;
                if (o >= 2) c.dtype = WEFT_FLOAT32;
                each(c);
                c.repeats = true;
                if (kind == WEFT__OP_BROADCAST) each(c);
            }
}

static void test_schedules(void **state)
{
    static const size_t counts[] = {0, 1, 3, 65, 2, 7, 33, 61, 131, 1027};
    (void)state;
    for (size_t k = 0; k < collective_count; k++)
        for (int size = 1; size <= 17; size++)
            for (size_t i = 0; i < (size < 6 ? sizeof counts / sizeof counts[0] : 4); i++)
                variants(collectives[k], size, counts[i], run_schedule);
}

/* Reductions in rank order. */
static void test_rank_order(void **state)
{
    static const size_t counts[] = {0, 1, 33, 131};
    (void)state;
    for (size_t k = 0; k < collective_count; k++)
        for (int size = 1; size <= 17 && weft__kind_traits(collectives[k]) & WEFT__REDUCES; size++)
            for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
                if (size < 6 || counts[i] < 100) variants(collectives[k], size, counts[i], run_ordered);
}

/* Whether what is to go in blocks does, and comes to the same. */
static void run_in_blocks(sim_case c)
{
    static const char *const cut[] = {"ring", "pairwise", "ring_gather", "direct"};
    for (int i = 0; i < WEFT__CANDIDATES; i++) {
        const weft__candidate *candidate = &weft__candidates[i];
        const bool reduces = weft__kind_traits(c.kind) & WEFT__REDUCES;
        for (size_t k = 0; k < sizeof cut / sizeof *cut && candidate->kind == c.kind; k++) {
            weft__selection s;
            sim_group *g;
            sim_result result;
            if (candidate->way != WEFT__MESSAGES || strcmp(candidate->name, cut[k])) continue;
            g = sim_group_make(c);
            s = forced_selection(c.kind, candidate->name, c.size);
            s.cutting = (weft__cutting){4, 2};
            result = sim_run(g, &s, NULL);
            assert_int_equal(result.in_blocks, !reduces || strcmp(cut[k], "direct"));
            sim_group_check(g);
            sim_group_free(g);
        }
    }
}

static void run_in_blocks_over_hosts(sim_case c)
{
    for (int layout = SIM_ONE_HOST; layout < SIM_LAYOUTS; layout++) {
        c.layout = (sim_layout)layout;
        run_in_blocks(c);
    }
}

static void test_blocks(void **state)
{
    static const size_t counts[] = {131, 1};
    (void)state;
    for (size_t k = 0; k < collective_count; k++)
        for (int size = 5; size <= 11; size++)
            for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
                variants(collectives[k], size, counts[i], run_in_blocks_over_hosts);
}

static void test_forced(void **state)
{
    static const size_t counts[] = {0, 1, 131};
    (void)state;
    for (size_t k = 0; k < collective_count; k++)
        for (int size = 1; size <= 7; size++)
            for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
                variants(collectives[k], size, counts[i], run_forced);
}

/* ---- several hosts ---- */

/* What is chosen there, and every algorithm by name. */
static void run_over_hosts(sim_case c)
{
    for (int layout = SIM_ONE_HOST + 1; layout < SIM_LAYOUTS; layout++) {
        c.layout = (sim_layout)layout;
        run_schedule(c);
        if (c.size <= 5) run_forced(c);
        if (weft__kind_traits(c.kind) & WEFT__REDUCES && c.size <= 6) run_ordered(c);
    }
}

static void test_hosts(void **state)
{
    static const size_t counts[] = {1, 131, 0, 7, 65};
    (void)state;
    for (size_t k = 0; k < collective_count; k++)
        for (int size = 2; size <= 9; size++)
            for (size_t i = 0; i < (size < 5 ? sizeof counts / sizeof counts[0] : 2); i++)
                variants(collectives[k], size, counts[i], run_over_hosts);
}

/* Pieces and stripes, and more of them than there is room for at once, need real lengths. */
static void test_large_over_hosts(void **state)
{
    static const struct {
        weft__kind kind;
        size_t count;
    } rows[] = {{WEFT__OP_ALL_REDUCE, 2200001},   {WEFT__OP_REDUCE_SCATTER, 90001},
                {WEFT__OP_ALL_GATHER, 150001},    {WEFT__OP_ALL_GATHER_V, 150001},
                {WEFT__OP_REDUCE_SCATTER_V, 901}, {WEFT__OP_BROADCAST, 600001}};
    (void)state;
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++)
        for (int layout = SIM_BLOCKS; layout < SIM_LAYOUTS; layout++)
            for (int in_place = 0; in_place < 2; in_place++) {
                sim_case c = {.kind = rows[k].kind,
                              .dtype = WEFT_FLOAT32,
                              .size = layout == SIM_ALONE ? 3 : 5,
                              .root = 1,
                              .count = rows[k].count,
                              .in_place = in_place,
                              .layout = (sim_layout)layout,
                              .seed = 5};
                run_schedule(c);
            }
}

/* Which are so long that an all_reduce of unlike hosts goes by lanes of arcs. */
static void test_lanes_of_arcs(void **state)
{
    static const weft_op reductions[] = {WEFT_SUM, WEFT_AVG, WEFT_PREMUL_SUM};
    (void)state;
    for (int size = 3; size <= 11; size++) {
        const weft__selection s = forced_selection(WEFT__OP_ALL_REDUCE, "recursive_halving", size);
        for (int layout = SIM_ONE_HOST + 1; layout < SIM_LAYOUTS; layout++)
            for (int i = 0; i < 6; i++)
                run_with((sim_case){.kind = WEFT__OP_ALL_REDUCE,
                                    .dtype = i / 2 ? WEFT_FLOAT32 : WEFT_INT32,
                                    .reduction = reductions[i / 2],
                                    .size = size,
                                    .count = 16001,
                                    .in_place = i % 2,
                                    .layout = (sim_layout)layout,
                                    .seed = (uint64_t)size},
                         &s);
    }
}

/* Hosts hear of each other all the same: what ranks disagree about is told then, too. */
static void test_no_elements(void **state)
{
    const sim_case c = {.kind = WEFT__OP_ALL_REDUCE, .dtype = WEFT_INT32, .size = 3, .layout = SIM_ALONE};
    const weft__selection s = forced_selection(WEFT__OP_ALL_REDUCE, "recursive_halving", c.size);
    sim_group *g = sim_group_make(c);
    (void)state;
    assert_true(sim_run(g, &s, NULL).steps > 0);
    sim_group_free(g);
}

/* A broadcast by halves goes in up to eight stripes of a megabyte. */
static void test_stripes_by_halves(void **state)
{
    static const struct {
        int size;
        size_t count;
    } rows[] = {{5, 2200001}, {6, 600001}, {7, 600001}, {17, 600001}};
    (void)state;
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        weft__selection s = forced_selection(WEFT__OP_BROADCAST, "scatter_doubling", rows[k].size);
        for (int layout = SIM_ONE_HOST; layout < SIM_LAYOUTS; layout++)
            run_with((sim_case){.kind = WEFT__OP_BROADCAST,
                                .dtype = WEFT_FLOAT32,
                                .size = rows[k].size,
                                .root = layout % 2 ? rows[k].size - 1 : 1,
                                .count = rows[k].count,
                                .layout = (sim_layout)layout,
                                .seed = 5},
                     &s);
    }
}

static void test_orders(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++)
        for (size_t k = 0; k < collective_count; k++)
            for (int size = 2; size <= 7; size++) {
                sim_case c = {.kind = collectives[k],
                              .dtype = WEFT_FLOAT32,
                              .size = size,
                              .root = size / 2,
                              .count = seed % 2 ? 5 : 200,
                              .in_place = seed % 4 < 2,
                              .seed = seed};
                if (c.kind == WEFT__OP_SPLIT_GROUP) c.dtype = WEFT_UINT8;
                run_schedule(c);
            }
}

/* Lanes of the ring and segments of the chain need real lengths: of all, or of each block. */
static void test_large(void **state)
{
    static const struct {
        weft__kind kind;
        size_t count;
    } rows[] = {{WEFT__OP_ALL_REDUCE, 270001}, {WEFT__OP_REDUCE, 270001},
                {WEFT__OP_BROADCAST, 600001},  {WEFT__OP_REDUCE_SCATTER, 70001},
                {WEFT__OP_ALL_GATHER, 70001},  {WEFT__OP_REDUCE_SCATTER_V, 70001},
                {WEFT__OP_ALL_GATHER_V, 70001}};
    (void)state;
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++)
        for (int size = 2; size <= 4; size += 2)
            for (int in_place = 0; in_place < 2; in_place++) {
                sim_case c = {.kind = rows[k].kind,
                              .dtype = WEFT_FLOAT32,
                              .size = size,
                              .root = 1,
                              .count = rows[k].count,
                              .in_place = in_place,
                              .seed = 5};
                run_schedule(c);
            }
}

static void test_thousand_ranks(void **state)
{
    static const weft__kind kinds[] = {WEFT__OP_BARRIER, WEFT__OP_BROADCAST, WEFT__OP_ALL_REDUCE,
                                       WEFT__OP_REDUCE};
    (void)state;
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        sim_case c = {
            .kind = kinds[k], .dtype = WEFT_INT32, .size = 1000, .root = 617, .count = 1, .seed = 3};
        run_schedule(c);
    }
}

/* ---- rounds ---- */

static void run_rounds(sim_case c)
{
    /* 64 bytes a rank is the least that a slot has; then everything comes in chunks. */
    size_t small = 64 * (size_t)c.size, slots[] = {4096, small, small, small, small};
    /* None shares its buffers, some do, all do. */
    const uint64_t some = c.seed * 0x9e3779b97f4a7c15, shares[] = {0, some, UINT64_MAX, some, UINT64_MAX};
    /* One chunk at most is read by all; none is; all are; those that all share. */
    const uint64_t all_read[] = {4096, 0, UINT64_MAX, 1, 1};
    for (int i = 0; i < 5; i++) {
        sim_group *groups[3];
        for (int g = 0; g < 3; g++) {
            sim_case next = c;
            next.seed += (uint64_t)g;
            groups[g] = sim_group_make(next);
        }
        sim_rounds(groups, 3, slots[i], (weft__rounds_rule){.all_read_bytes = all_read[i]}, c.seed,
                   shares[i]);
        for (int g = 0; g < 3; g++) {
            sim_group_check(groups[g]);
            sim_group_free(groups[g]);
        }
    }
}

static void test_rounds(void **state)
{
    static const size_t counts[] = {0, 1, 2, 3, 7, 33, 131, 1027};
    (void)state;
    for (size_t k = 0; k < even_count; k++)
        for (int size = 1; size <= 9; size++)
            for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
                if (size < 5 || counts[i] < 100) variants(collectives[k], size, counts[i], run_rounds);
}

/* Blocks that all can read where they lie go several chunks at a time; of one rank that cannot, not. */
static void test_large_all_reduce(void **state)
{
    static const struct {
        int size;
        bool in_place;
        uint64_t shares;
    } cases[] = {{2, false, UINT64_MAX}, {3, true, UINT64_MAX}, {2, true, 1}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sim_case c = {.kind = WEFT__OP_ALL_REDUCE,
                      .dtype = WEFT_INT32,
                      .size = cases[i].size,
                      .count = WEFT__STREAM_BYTES / sizeof(int32_t) + 333,
                      .in_place = cases[i].in_place,
                      .seed = i};
        sim_group *group = sim_group_make(c);
        sim_rounds(&group, 1, 256 * 1024, (weft__rounds_rule){.all_read_bytes = 65536}, c.seed,
                   cases[i].shares);
        sim_group_check(group);
        sim_group_free(group);
    }
}

/* Pure: no buffer of that size is needed to ask. */
static void test_streams(void **state)
{
    (void)state;
    for (size_t k = 0; k < even_count; k++)
        for (int large = 0; large < 2; large++) {
            const bool blocks = weft__kind_traits(collectives[k]) & (WEFT__IN_BLOCKS | WEFT__OUT_BLOCKS);
            const size_t whole = WEFT__STREAM_BYTES / sizeof(float) / (blocks ? 2 : 1);
            weft__op op = {.kind = collectives[k],
                           .dtype = WEFT_FLOAT32,
                           .count = whole - !large,
                           .scale = 1};
            weft__rounds plan;
            if (op.kind == WEFT__OP_BARRIER) continue;
            weft__rounds_plan(&plan, &op, 0, 2, 65536, &(weft__rounds_rule){.all_read_bytes = 65536});
            for (uint64_t i = 0; i < plan.count; i++) {
                weft__round r;
                weft__rounds_at(&plan, &op, i, &r);
                if (r.take == WEFT__TAKE_NOTHING) continue;
                /* A reduced slice is read again, by whoever publishes it. */
                assert_int_equal(r.streams, large && !(plan.two_phase && r.take == WEFT__TAKE_REDUCE));
            }
        }
}

/* Different operations one after the other share the slots. */
static void test_mixed_rounds(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        sim_group *groups[WEFT__OP_KINDS];
        int size = 2 + (int)(seed % 6);
        for (size_t k = 0; k < even_count; k++) {
            sim_case c = {.kind = collectives[(k * 7 + seed) % even_count],
                          .dtype = WEFT_INT32,
                          .size = size,
                          .root = (int)(k % (size_t)size),
                          .count = k * 37,
                          .in_place = seed % 2,
                          .seed = seed + k};
            if (c.kind == WEFT__OP_SPLIT_GROUP) c.dtype = WEFT_UINT8;
            groups[k] = sim_group_make(c);
        }
        sim_rounds(groups, (int)even_count, 64 * (size_t)size,
                   (weft__rounds_rule){.all_read_bytes = 64 * (size_t)size}, seed, seed * 0x9e3779b97f4a7c15);
        for (size_t k = 0; k < even_count; k++) {
            sim_group_check(groups[k]);
            sim_group_free(groups[k]);
        }
    }
}

/* ---- virtual time: an algorithm takes as long as its source says ---- */

static double time_with(sim_case c, sim_network network)
{
    static const weft__group_params params = {.rounds = 0};
    weft__selection selection;
    sim_group *g;
    double time;
    c.dtype = WEFT_FLOAT32;
    c.seed = 1;
    g = sim_group_make(c);
    weft__selection_make(&selection, &params, c.size, false);
    time = sim_run(g, &selection, &network).time;
    sim_group_check(g);
    sim_group_free(g);
    return time;
}

static double time_of(weft__kind kind, int size, size_t count, sim_network network)
{
    return time_with((sim_case){.kind = kind, .size = size, .count = count}, network);
}

static void assert_between(double least, double value, double most)
{
    if (value < least || value > most) fail_msg("%g is not between %g and %g", value, least, most);
}

static void test_time(void **state)
{
    const sim_network messages = {.latency = 1}, bytes = {.per_byte = 1};
    const double S = 4 * 1000000, R = 4 * 100000, B = 4 * 20000; /* buffers, a block of one */
    (void)state;
    /* Small: messages one after another. */
    assert_between(10, time_of(WEFT__OP_BARRIER, 1000, 0, messages), 10);
    assert_between(4, time_of(WEFT__OP_BARRIER, 16, 0, messages), 4);
    assert_between(4, time_of(WEFT__OP_ALL_REDUCE, 16, 8, messages), 4);
    assert_between(4, time_of(WEFT__OP_REDUCE_SCATTER, 16, 8, messages), 4);
    assert_between(8, time_of(WEFT__OP_ALL_REDUCE, 16, 100000, messages), 8);
    assert_between(4, time_of(WEFT__OP_ALL_TO_ALL, 16, 8, messages), 4);
    /* The message before the doubling delays one half, the one after it only the rank it goes to. */
    assert_between(5, time_of(WEFT__OP_ALL_REDUCE, 17, 8, messages), 5);
    assert_between(4, time_of(WEFT__OP_BROADCAST, 16, 8, messages), 4);
    /* And a token. */
    assert_between(4,
                   time_with((sim_case){.kind = WEFT__OP_BROADCAST, .size = 16, .count = 8, .repeats = true},
                             messages),
                   5);
    assert_between(4, time_of(WEFT__OP_ALL_GATHER, 16, 8, messages), 4);
    assert_between(4, time_of(WEFT__OP_GATHER, 16, 8, messages), 4);
    /* Large: bytes that one rank sends. */
    assert_between(2 * R * 7 / 8, time_of(WEFT__OP_ALL_REDUCE, 8, 100000, bytes), 2 * R * 7 / 8 * 1.01);
    assert_between(B * 7, time_of(WEFT__OP_ALL_GATHER, 8, 20000, bytes), B * 7 * 1.01);
    assert_between(B * 7, time_of(WEFT__OP_REDUCE_SCATTER, 8, 20000, bytes), B * 7 * 1.01);
    assert_between(B * 7, time_of(WEFT__OP_ALL_TO_ALL, 8, 20000, bytes), B * 8);
    assert_between(S, time_of(WEFT__OP_BROADCAST, 4, 1000000, bytes), S * 1.2);
    assert_between(2 * R * 7 / 8, time_of(WEFT__OP_REDUCE, 8, 100000, bytes), 2 * R);
}

/* ---- golden traces ---- */

static void print_case(FILE *to, sim_case c, const weft__selection *selection)
{
    sim_group *g;
    c.dtype = WEFT_FLOAT32;
    c.root = c.size / 2;
    c.seed = 1;
    g = sim_group_make(c);
    for (int r = 0; r < c.size; r++) {
        weft__schedule *s =
            weft__schedule_make(&g->ops[r], r, c.size, g->seats, weft__select(&g->ops[r], c.size, selection));
        assert_non_null(s);
        weft__schedule_print(s, to);
        weft__schedule_free(s);
    }
    sim_group_free(g);
}

static void compare_golden(const char *name, const char *text, size_t bytes)
{
    char path[512], *stored = malloc(bytes + 2);
    const char *mode = getenv("WEFT_GOLDEN");
    bool writes = mode && strcmp(mode, "write") == 0;
    size_t got;
    FILE *file;
    assert_non_null(stored);
    snprintf(path, sizeof path, TEST_SOURCE_DIR "/sim/golden/%s.txt", name);
    file = fopen(path, writes ? "w" : "r");
    if (!file) fail_msg("cannot open %s", path);
    if (writes) {
        assert_int_equal(fwrite(text, 1, bytes, file), bytes);
    } else {
        got = fread(stored, 1, bytes + 1, file);
        stored[got] = 0;
        assert_string_equal(text, stored);
    }
    fclose(file);
    free(stored);
}

static void golden_with(const char *name, sim_case c, weft__selection selection)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *memory = open_memstream(&text, &bytes);
    assert_non_null(memory);
    print_case(memory, c, &selection);
    fclose(memory);
    compare_golden(name, text, bytes);
    free(text);
}

static void golden(const char *name, weft__kind kind, int size, size_t count, weft_op reduction)
{
    golden_with(name, (sim_case){.kind = kind, .size = size, .count = count, .reduction = reduction},
                small_selection(size, 1, false));
}

static void golden_ordered(const char *name, weft__kind kind, int size, size_t count, weft_op reduction)
{
    golden_with(name, (sim_case){.kind = kind, .size = size, .count = count, .reduction = reduction},
                small_selection(size, 1, true));
}

/* For those that are chosen for large sizes only, or by nothing but their name. */
static void golden_by_name(const char *name, weft__kind kind, const char *algorithm, int size, size_t count)
{
    golden_with(name, (sim_case){.kind = kind, .size = size, .count = count},
                forced_selection(kind, algorithm, size));
}

/* Ranks dealt in turn to three hosts. */
static void golden_over_hosts(const char *name, weft__kind kind, const char *algorithm, int size,
                              size_t count)
{
    golden_with(name, (sim_case){.kind = kind, .size = size, .count = count, .layout = SIM_ROUND_ROBIN},
                forced_selection(kind, algorithm, size));
}

static void test_golden(void **state)
{
    (void)state;
    golden("all_reduce_small_5", WEFT__OP_ALL_REDUCE, 5, 3, WEFT_SUM);
    golden("all_reduce_middle_5", WEFT__OP_ALL_REDUCE, 5, 101, WEFT_AVG);
    golden("all_reduce_large_4", WEFT__OP_ALL_REDUCE, 4, 301, WEFT_AVG);
    golden("broadcast_small_5", WEFT__OP_BROADCAST, 5, 3, WEFT_SUM);
    golden("broadcast_large_4", WEFT__OP_BROADCAST, 4, 101, WEFT_SUM);
    golden("reduce_small_5", WEFT__OP_REDUCE, 5, 3, WEFT_PREMUL_SUM);
    golden("gather_small_5", WEFT__OP_GATHER, 5, 3, WEFT_SUM);
    golden("all_gather_small_5", WEFT__OP_ALL_GATHER, 5, 3, WEFT_SUM);
    golden("all_gather_middle_5", WEFT__OP_ALL_GATHER, 5, 33, WEFT_SUM);
    golden("all_to_all_small_5", WEFT__OP_ALL_TO_ALL, 5, 3, WEFT_SUM);
    golden("all_to_all_large_4", WEFT__OP_ALL_TO_ALL, 4, 33, WEFT_SUM);
    golden("reduce_scatter_small_5", WEFT__OP_REDUCE_SCATTER, 5, 3, WEFT_SUM);
    golden("reduce_scatter_large_4", WEFT__OP_REDUCE_SCATTER, 4, 101, WEFT_SUM);
    golden("all_gather_v_small_4", WEFT__OP_ALL_GATHER_V, 4, 3, WEFT_SUM);
    golden("all_gather_v_large_4", WEFT__OP_ALL_GATHER_V, 4, 101, WEFT_SUM);
    golden("gather_v_4", WEFT__OP_GATHER_V, 4, 3, WEFT_SUM);
    golden("scatter_v_4", WEFT__OP_SCATTER_V, 4, 3, WEFT_SUM);
    golden("reduce_scatter_v_small_4", WEFT__OP_REDUCE_SCATTER_V, 4, 3, WEFT_SUM);
    golden("all_to_all_v_4", WEFT__OP_ALL_TO_ALL_V, 4, 3, WEFT_SUM);
    golden_ordered("all_reduce_ordered_small_4", WEFT__OP_ALL_REDUCE, 4, 3, WEFT_PREMUL_SUM);
    golden_ordered("all_reduce_ordered_large_4", WEFT__OP_ALL_REDUCE, 4, 101, WEFT_AVG);
    golden_ordered("reduce_ordered_large_4", WEFT__OP_REDUCE, 4, 101, WEFT_SUM);
    golden_with("broadcast_repeats_5",
                (sim_case){.kind = WEFT__OP_BROADCAST, .size = 5, .count = 3, .repeats = true},
                small_selection(5, 1, false));
    golden_by_name("broadcast_chain_4", WEFT__OP_BROADCAST, "chain", 4, 8);
    golden_by_name("broadcast_doubling_5", WEFT__OP_BROADCAST, "scatter_doubling", 5, 8);
    golden_by_name("reduce_halving_5", WEFT__OP_REDUCE, "halving_gather", 5, 8);
    golden_over_hosts("gather_tree_hosts_5", WEFT__OP_GATHER, "binomial_tree", 5, 3);
    golden_by_name("all_gather_pairwise_4", WEFT__OP_ALL_GATHER, "pairwise", 4, 3);
    golden_over_hosts("all_reduce_lanes_5", WEFT__OP_ALL_REDUCE, "lanes", 5, 13);
    golden_over_hosts("all_reduce_nearest_5", WEFT__OP_ALL_REDUCE, "recursive_halving", 5, 13);
    golden_over_hosts("all_reduce_by_lanes_5", WEFT__OP_ALL_REDUCE, "recursive_halving", 5, 1025);
    golden_over_hosts("all_gather_lanes_5", WEFT__OP_ALL_GATHER, "lanes", 5, 3);
    golden_over_hosts("reduce_scatter_lanes_5", WEFT__OP_REDUCE_SCATTER, "lanes", 5, 3);
    golden_over_hosts("reduce_tree_hosts_5", WEFT__OP_REDUCE, "binomial_tree", 5, 3);
    golden("barrier_5", WEFT__OP_BARRIER, 5, 0, WEFT_SUM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_schedules),
        cmocka_unit_test(test_orders),
        cmocka_unit_test(test_large),
        cmocka_unit_test(test_thousand_ranks),
        cmocka_unit_test(test_rounds),
        cmocka_unit_test(test_mixed_rounds),
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_large_all_reduce),
        cmocka_unit_test(test_time),
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_rank_order),
        cmocka_unit_test(test_forced),
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_large_over_hosts),
        cmocka_unit_test(test_lanes_of_arcs),
        cmocka_unit_test(test_no_elements),
        cmocka_unit_test(test_stripes_by_halves),
    };
    list_collectives(false);
    even_count = collective_count;
    list_collectives(true);
    return cmocka_run_group_tests_name("sim", tests, NULL, NULL);
}
