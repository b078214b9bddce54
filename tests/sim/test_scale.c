/* test_scale.c - schedules of many hosts: data at hundreds of ranks, and what a network would take at thousands.
 *
 * SCALE_LARGE=1: data at 1,000 ranks, and the tables of README.md, printed, with 16,384 ranks: that takes minutes and
 * gigabytes. */
#include "sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { LARGE = 16384 };

/* In microseconds: 100 Gbit/s and 15 us between hosts, half a microsecond and 10 GB/s within. */
static const sim_network fabric = {.latency = 0.5,
                                   .per_byte = 1e-4,
                                   .far_latency = 15,
                                   .far_per_byte = 0.8e-4,
                                   .copy_per_byte = 1e-4,
                                   .reduce_per_byte = 1e-4};

static weft__selection selection_for(const sim_group *g, const char *algorithm)
{
    weft__group_params params = {.hosts = (uint32_t)sim_hosts(g)};
    weft__selection s;
    char list[128];
    if (algorithm) {
        snprintf(list, sizeof list, "%s:%s", weft__kind_name(g->c.kind), algorithm);
        assert_int_equal(weft__choices_force(&params.choices, "WEFT_ALGORITHM", list), WEFT_OK);
    }
    weft__selection_make(&s, &params, g->c.size, false);
    return s;
}

/* algorithm NULL: what is chosen. */
static sim_result play_cut(sim_case c, const char *algorithm, const sim_network *network,
                           weft__cutting cutting)
{
    sim_group *g = sim_group_make(c);
    weft__selection s = selection_for(g, algorithm);
    sim_result result;
    s.cutting = cutting;
    result = sim_run(g, &s, network);
    if (!c.bare) sim_group_check(g);
    sim_group_free(g);
    return result;
}

static sim_result play(sim_case c, const char *algorithm, const sim_network *network)
{
    return play_cut(c, algorithm, network, (weft__cutting){WEFT__WHOLE_STEPS, WEFT__BLOCK_STEPS});
}

static bool is_played(weft__kind kind)
{
    unsigned traits = weft__kind_traits(kind);
    return traits & WEFT__COLLECTIVE && !(traits & WEFT__GATHERED);
}

/* ---- data ---- */

static void each_algorithm(sim_case c)
{
    play(c, NULL, NULL);
    for (int i = 0; i < WEFT__CANDIDATES; i++)
        if (weft__candidates[i].kind == c.kind && weft__candidates[i].way == WEFT__MESSAGES)
            play(c, weft__candidates[i].name, NULL);
}

/* Random integers stand for symbols: a sum that is right has each rank's number once.  An element at least for each block
 * that a buffer is cut into. */
static void each_kind(bool uneven, sim_case c)
{
    for (int k = 0; k < WEFT__OP_KINDS; k++) {
        unsigned traits = weft__kind_traits((weft__kind)k);
        c.kind = (weft__kind)k;
        if (!is_played(c.kind) || !(traits & WEFT__UNEVEN) == uneven) continue;
        c.count = uneven ? 2 : 1;
        if (!(traits & (WEFT__IN_BLOCKS | WEFT__OUT_BLOCKS))) c.count = (size_t)c.size + 3;
        if (c.kind == WEFT__OP_BARRIER) c.count = 0;
        for (int layout = SIM_PACKED; layout <= SIM_DEALT; layout++) {
            c.layout = (sim_layout)layout;
            c.seed = 2 * (uint64_t)k + (uint64_t)layout;
            each_algorithm(c);
        }
    }
}

static bool is_large(void)
{
    return getenv("SCALE_LARGE") != NULL;
}

static void test_data(void **state)
{
    const int size = is_large() ? 1000 : 104;
    (void)state;
    each_kind(false, (sim_case){.dtype = WEFT_INT32, .size = size, .each = 8, .root = size / 3});
}

/* Lengths are asked for pair by pair: of fewer ranks. */
static void test_uneven_data(void **state)
{
    (void)state;
    each_kind(true, (sim_case){.dtype = WEFT_INT32, .size = 120, .each = 8, .root = 61});
}

/* From a length on another rank is in charge of each block, or there is a copy of all (doubling.c). */
static void test_long_blocks(void **state)
{
    static const struct {
        weft__kind kind;
        const char *algorithm;
        weft_op reduction;
    } rows[] = {{WEFT__OP_ALL_GATHER, "recursive_doubling", WEFT_SUM},
                {WEFT__OP_REDUCE_SCATTER, "recursive_halving", WEFT_SUM},
                {WEFT__OP_REDUCE_SCATTER, "recursive_halving", WEFT_AVG},
                {WEFT__OP_REDUCE_SCATTER, "recursive_halving", WEFT_PREMUL_SUM}};
    static const int sizes[] = {17, 20, 22, 28, 29, 32, 64}; /* with no pair, some, and many; by arcs */
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
            for (int layout = SIM_ALONE; layout <= SIM_DEALT; layout++)
                for (int in_place = 0; in_place < 2; in_place++)
                    play((sim_case){.kind = rows[i].kind,
                                    .dtype = rows[i].reduction == WEFT_SUM ? WEFT_INT32 : WEFT_FLOAT32,
                                    .reduction = rows[i].reduction,
                                    .size = sizes[k],
                                    .each = 4,
                                    .count = 64,
                                    .in_place = in_place,
                                    .layout = (sim_layout)layout,
                                    .seed = (uint64_t)sizes[k]},
                         rows[i].algorithm, NULL);
}

/* ---- one host for all ---- */

/* What a rank of a ring or of pairwise exchanges does depends on its place in its host alone. */
static void test_one_host_for_all(void **state)
{
    static const struct {
        weft__kind kind;
        const char *algorithm;
        size_t count; /* which the ranks divide */
    } rows[] = {{WEFT__OP_ALL_REDUCE, "ring", 1 << 22},
                {WEFT__OP_ALL_REDUCE, "ring", 1024},
                {WEFT__OP_ALL_GATHER, "ring", 16},
                {WEFT__OP_REDUCE_SCATTER, "ring", 1024},
                {WEFT__OP_ALL_TO_ALL, "pairwise", 64}};
    const int size = is_large() ? 1024 : 256;
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sim_case c = {.kind = rows[i].kind,
                      .dtype = WEFT_FLOAT32,
                      .size = size,
                      .each = 8,
                      .count = rows[i].count,
                      .layout = SIM_PACKED,
                      .bare = true};
        sim_result all = play(c, rows[i].algorithm, &fabric), one;
        c.one = true;
        one = play(c, rows[i].algorithm, &fabric);
        assert_int_equal(one.link_bytes, all.link_bytes);
        assert_int_equal(one.steps * (size / c.each), all.steps);
        if (one.time < 0.99 * all.time || one.time > 1.01 * all.time)
            fail_msg("%s: %g us where one host is played, %g where all are", sim_case_text(c), one.time,
                     all.time);
    }
}

/* ---- blocks ---- */

/* They take as long as the whole, and send the same. */
static void test_blocks(void **state)
{
    static const struct {
        weft__kind kind;
        const char *algorithm;
        size_t count;
    } rows[] = {{WEFT__OP_ALL_REDUCE, "ring", 1 << 22}, {WEFT__OP_ALL_REDUCE, "ring", 1000},
                {WEFT__OP_ALL_GATHER, "ring", 1000},    {WEFT__OP_REDUCE_SCATTER, "ring", 1000},
                {WEFT__OP_ALL_TO_ALL, "pairwise", 100}, {WEFT__OP_REDUCE, "ring_gather", 1 << 20},
                {WEFT__OP_GATHER, "direct", 1000},      {WEFT__OP_SCATTER, "direct", 1000}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const sim_case c = {.kind = rows[i].kind,
                            .dtype = WEFT_FLOAT32,
                            .size = 256,
                            .each = 8,
                            .count = rows[i].count,
                            .layout = SIM_PACKED,
                            .bare = true};
        sim_result whole = play_cut(c, rows[i].algorithm, &fabric, (weft__cutting){0, 0}),
                   cut = play_cut(c, rows[i].algorithm, &fabric, (weft__cutting){128, 64});
        assert_false(whole.in_blocks);
        assert_true(cut.in_blocks);
        assert_int_equal(cut.link_bytes, whole.link_bytes);
        assert_int_equal(cut.steps, whole.steps);
        if (cut.time > 1.01 * whole.time)
            fail_msg("%s: %g us in blocks, %g as a whole", sim_case_text(c), cut.time, whole.time);
    }
}

/* ---- times ---- */

typedef struct layout {
    const char *name;
    int size, each;
    sim_layout deal;
} layout;

static const layout layouts[] = {
    {"1,024 ranks, 128 hosts of 8", 1024, 8, SIM_PACKED},
    {"1,024 ranks, 128 hosts of 8, dealt in turn", 1024, 8, SIM_DEALT},
    {"16,384 ranks, 2,048 hosts of 8", LARGE, 8, SIM_PACKED},
    {"16,384 ranks, 64 hosts of 256", LARGE, 256, SIM_PACKED},
};

/* Bytes that the busiest link carries one way at least.  S: the larger buffer of a rank. */
static double least_bytes(weft__kind kind, const layout *l, double S)
{
    double hosts = (double)l->size / l->each, others = (hosts - 1) / hosts;
    switch (kind) {
    case WEFT__OP_BARRIER: return 0;
    case WEFT__OP_ALL_REDUCE: return 2 * others * S;
    case WEFT__OP_ALL_GATHER:
    case WEFT__OP_REDUCE_SCATTER:
    case WEFT__OP_GATHER:
    case WEFT__OP_SCATTER: return others * S;
    case WEFT__OP_ALL_TO_ALL: return others * S * l->each;
    default: return S;
    }
}

static double log2_up(int n)
{
    int steps = 0;
    while (1 << steps < n) steps++;
    return steps;
}

/* No network like this one is faster: the link's bytes, and hosts that hear of each other. */
static double least_time(weft__kind kind, const layout *l, double S)
{
    double bytes = least_bytes(kind, l, S) * fabric.far_per_byte;
    double hops = kind == WEFT__OP_GATHER || kind == WEFT__OP_SCATTER || kind == WEFT__OP_ALL_TO_ALL
                      ? 1
                      : log2_up(l->size / l->each);
    return bytes > hops * fabric.far_latency ? bytes : hops * fabric.far_latency;
}

static sim_case case_of(weft__kind kind, const layout *l, size_t bytes)
{
    unsigned traits = weft__kind_traits(kind);
    bool blocks = traits & (WEFT__IN_BLOCKS | WEFT__OUT_BLOCKS);
    return (sim_case){.kind = kind,
                      .dtype = WEFT_FLOAT32,
                      .size = l->size,
                      .each = l->each,
                      .root = 0,
                      .count = bytes / 4 / (blocks ? (size_t)l->size : 1),
                      .layout = l->deal,
                      .bare = true};
}

/* Steps in proportion to the ranks, and alike on all hosts: one host is played.  Of rooted ones a rank has many, and all are. */
static bool one_is_enough(const sim_case *c, const char *algorithm)
{
    return c->layout == SIM_PACKED && (!strcmp(algorithm, "ring") || !strcmp(algorithm, "pairwise"));
}

static const char *chosen(sim_case c)
{
    sim_group *g;
    weft__selection s;
    const char *name;
    c.one = c.layout == SIM_PACKED; /* for choosing one is enough always */
    g = sim_group_make(c);
    s = selection_for(g, NULL);
    name = weft__select(&g->ops[0], c.size, &s).name;
    sim_group_free(g);
    return name;
}

static sim_result play_chosen(sim_case c)
{
    const char *name = chosen(c);
    c.one = one_is_enough(&c, name);
    return play(c, NULL, &fabric);
}

static void print_row(sim_case c, const layout *l, size_t bytes, const sim_result *r)
{
    double least = least_bytes(c.kind, l, (double)bytes), time = least_time(c.kind, l, (double)bytes);
    printf("| %s | %zu | %s | %.1f | %.1f | ", weft__kind_name(c.kind), bytes, r->algorithm, r->time, time);
    if (least > 0)
        printf("%.2f", (double)r->link_bytes / least);
    else
        printf("-");
    printf(" | %.1f |\n", (double)r->schedule_bytes / 1024);
    fflush(stdout);
}

static const weft__kind timed[] = {WEFT__OP_BARRIER,    WEFT__OP_BROADCAST,  WEFT__OP_REDUCE,
                                   WEFT__OP_ALL_REDUCE, WEFT__OP_ALL_GATHER, WEFT__OP_REDUCE_SCATTER,
                                   WEFT__OP_ALL_TO_ALL, WEFT__OP_GATHER,     WEFT__OP_SCATTER};

static void print_table(const layout *l)
{
    static const size_t sizes[] = {65536, 1 << 20, 16 << 20, 256 << 20};
    printf("\n**%s**\n\n| operation | bytes | chosen | us | least | bytes / least | KiB "
           "|\n|---|---|---|---|---|---|---|\n",
           l->name);
    for (size_t k = 0; k < sizeof timed / sizeof *timed; k++)
        for (size_t b = 0; b < sizeof sizes / sizeof *sizes; b++) {
            sim_case c = case_of(timed[k], l, sizes[b]);
            if (timed[k] == WEFT__OP_BARRIER && b) continue;
            sim_result r = play_chosen(c);
            print_row(c, l, timed[k] == WEFT__OP_BARRIER ? 0 : sizes[b], &r);
        }
}

static void test_tables(void **state)
{
    (void)state;
    for (size_t i = 0; is_large() && i < sizeof layouts / sizeof *layouts; i++) print_table(&layouts[i]);
}

/* A schedule has kilobytes, however many ranks there are: where its steps are as many, and where its copies would be. */
static void test_kilobytes(void **state)
{
    static const struct {
        weft__kind kind;
        size_t bytes;
        const char *algorithm;
    } rows[] = {{WEFT__OP_ALL_GATHER, 256 << 20, "ring"}, {WEFT__OP_ALL_TO_ALL, 65536, "bruck"}};
    const layout *l = &layouts[2];
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sim_case c = case_of(rows[i].kind, l, rows[i].bytes);
        c.one = true;
        sim_result r = play(c, NULL, &fabric);
        assert_string_equal(r.algorithm, rows[i].algorithm);
        if (r.schedule_bytes > 65536)
            fail_msg("%s: %zu bytes of schedule at a rank", sim_case_text(c), r.schedule_bytes);
        if (rows[i].kind != WEFT__OP_ALL_GATHER) continue;
        assert_int_equal(r.steps, l->each * (2 * (l->size - 1) + 1));
        assert_true((double)r.link_bytes <= 1.01 * least_bytes(c.kind, l, (double)rows[i].bytes));
    }
}

/* What is chosen for middle sizes sends no more over a link than it has to, twice where halves are dealt out and
 * gathered, or for each level of a tree. */
static void test_links(void **state)
{
    static const struct {
        weft__kind kind;
        size_t bytes;
        double most; /* of what it has to */
    } rows[] = {{WEFT__OP_ALL_GATHER, 65536, 1.01},   {WEFT__OP_REDUCE_SCATTER, 65536, 1.01},
                {WEFT__OP_ALL_GATHER, 1 << 20, 1.01}, {WEFT__OP_REDUCE_SCATTER, 1 << 20, 1.01},
                {WEFT__OP_ALL_REDUCE, 65536, 1.01},   {WEFT__OP_ALL_REDUCE, 4 << 20, 1.01},
                {WEFT__OP_GATHER, 1 << 20, 1.01},     {WEFT__OP_SCATTER, 1 << 20, 1.01},
                {WEFT__OP_BROADCAST, 65536, 7},       {WEFT__OP_REDUCE, 65536, 7},
                {WEFT__OP_BROADCAST, 16 << 20, 2},    {WEFT__OP_REDUCE, 4 << 20, 2}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int l = 0; l < 2; l++) {
            sim_case c = case_of(rows[i].kind, &layouts[l], rows[i].bytes);
            sim_result r = play_chosen(c);
            double least = least_bytes(c.kind, &layouts[l], (double)rows[i].bytes);
            if ((double)r.link_bytes > rows[i].most * least)
                fail_msg("%s: %zu bytes over a link, %g times what it has to", sim_case_text(c), r.link_bytes,
                         (double)r.link_bytes / least);
        }
}

/* Where ranks are no power of two nobody sends all bytes once more; broadcast and reduce deal out what they gather. */
static void test_any_number(void **state)
{
    static const layout any[] = {{"", 17, 1, SIM_PACKED},   {"", 136, 8, SIM_PACKED},
                                 {"", 136, 8, SIM_DEALT},   {"", 102, 6, SIM_PACKED},
                                 {"", 999, 3, SIM_DEALT},   {"", 1000, 1, SIM_PACKED},
                                 {"", 1000, 8, SIM_PACKED}, {"", 135, 8, SIM_PACKED},
                                 {"", 141, 8, SIM_DEALT},   {"", 993, 8, SIM_PACKED}};
    static const struct {
        weft__kind kind;
        const char *algorithm;
        double most; /* of what it has to */
    } rows[] = {{WEFT__OP_ALL_REDUCE, "recursive_halving", 1.1},
                {WEFT__OP_ALL_GATHER, "recursive_doubling", 1.1},
                {WEFT__OP_REDUCE_SCATTER, "recursive_halving", 1.1},
                {WEFT__OP_BROADCAST, "scatter_doubling", 2.1},
                {WEFT__OP_REDUCE, "halving_gather", 2.1}};
    int wrong = 0;
    (void)state;
    for (size_t i = 0; i < sizeof any / sizeof *any; i++)
        for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
            const size_t bytes = 8192 * (size_t)any[i].size;
            sim_case c = case_of(rows[k].kind, &any[i], bytes);
            if (any[i].size % any[i].each && c.kind != WEFT__OP_ALL_REDUCE)
                continue; /* some hear it all from a pair's other one */
            sim_result r = play(c, rows[k].algorithm, &fabric);
            double times = (double)r.link_bytes / least_bytes(c.kind, &any[i], (double)bytes);
            if (getenv("SCALE_TABLE") || times > rows[k].most)
                printf("%s, %d on a host: %g us, %.2f times over a link what it has to\n", sim_case_text(c),
                       any[i].each, r.time, times);
            wrong += times > rows[k].most;
        }
    if (wrong) fail_msg("%d collectives send too many bytes over a link", wrong);
}

/* Many ranks of one host that exchange messages: what is chosen takes hardly longer than any that is chosen elsewhere. */
static void test_one_host(void **state)
{
    static const sim_network tcp = {.latency = 5,
                                    .per_byte = 2e-4,
                                    .copy_per_byte = 1e-4,
                                    .reduce_per_byte = 1e-4};
    static const weft__kind kinds[] = {WEFT__OP_ALL_REDUCE, WEFT__OP_REDUCE_SCATTER, WEFT__OP_ALL_GATHER,
                                       WEFT__OP_BROADCAST, WEFT__OP_REDUCE};
    static const size_t sizes[] = {131072, 1 << 20, 4 << 20};
    const layout one = {"", 128, 128, SIM_ONE_HOST};
    int wrong = 0;
    (void)state;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (size_t b = 0; b < sizeof sizes / sizeof *sizes; b++) {
            const sim_case c = case_of(kinds[k], &one, sizes[b]);
            const sim_result r = play(c, NULL, &tcp);
            for (int i = 0; i < WEFT__CANDIDATES; i++) {
                const weft__candidate *other = &weft__candidates[i];
                double time;
                if (other->kind != c.kind || other->way != WEFT__MESSAGES ||
                    other->limit.reach == WEFT__REACH_NEVER)
                    continue;
                time = play(c, other->name, &tcp).time;
                if (r.time <= 1.25 * time) continue;
                printf("%s: %g us by %s, %g by %s\n", sim_case_text(c), r.time, r.algorithm, time,
                       other->name);
                wrong++;
            }
        }
    if (wrong) fail_msg("%d are slower than others", wrong);
}

/* Few bytes take as many messages between hosts one after another as there are halvings of the ranks, and one more where
 * that is told. */
static void test_steps(void **state)
{
    const layout *l = &layouts[0];
    const double most = (log2_up(l->size) + 1) * (fabric.far_latency + 1);
    (void)state;
    for (size_t k = 0; k < sizeof timed / sizeof *timed; k++) {
        sim_case c = case_of(timed[k], l, timed[k] == WEFT__OP_BARRIER ? 0 : 4096);
        sim_result r = play_chosen(c);
        if (r.time > most) fail_msg("%s takes %g us: expected %g at most", sim_case_text(c), r.time, most);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_data),        cmocka_unit_test(test_uneven_data),
        cmocka_unit_test(test_long_blocks), cmocka_unit_test(test_one_host_for_all),
        cmocka_unit_test(test_blocks),      cmocka_unit_test(test_kilobytes),
        cmocka_unit_test(test_links),       cmocka_unit_test(test_steps),
        cmocka_unit_test(test_any_number),  cmocka_unit_test(test_one_host),
        cmocka_unit_test(test_tables),
    };
    return cmocka_run_group_tests_name("scale", tests, NULL, NULL);
}
