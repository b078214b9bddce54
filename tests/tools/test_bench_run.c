/* test_bench_run.c - weft-bench tells right results from wrong ones: each operation is done here by plain
 * loops over the buffers of pretended ranks, and then one element is spoilt. */
#include "bench_cases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

enum { RANKS_MAX = 5, BYTES = 10000 };

struct ranks {
    int n;
    struct bench_job jobs[RANKS_MAX];
    struct bench_run runs[RANKS_MAX];
};

static void make(struct ranks *all, int n, const struct bench_case *what, weft_dtype dtype)
{
    struct bench_point point = {.what = what, .dtype = dtype, .op = WEFT_SUM, .bytes = BYTES};
    size_t room = bench_run_room(BYTES, n);
    all->n = n;
    for (int r = 0; r < n; r++) {
        struct bench_buffers buffers = {.in = malloc(room), .out = malloc(room)};
        all->jobs[r] = (struct bench_job){.rank = r, .ranks = n};
        assert_true(bench_run_make(&all->runs[r], &all->jobs[r], &point, &buffers));
    }
}

static void drop(struct ranks *all)
{
    for (int r = 0; r < all->n; r++) {
        free(all->runs[r].buffers.in);
        free(all->runs[r].buffers.out);
        bench_run_free(&all->runs[r]);
    }
}

static void fill(struct ranks *all, int seed)
{
    for (int r = 0; r < all->n; r++) bench_run_fill(&all->runs[r], seed);
}

static unsigned char *at(const struct bench_run *run, void *buf, size_t element)
{
    return (unsigned char *)buf + element * run->pattern.element;
}

/* n elements of `from`'s input to `to`'s output. */
static void move(struct ranks *all, int from, size_t first, int to, size_t place, size_t n)
{
    struct bench_run *a = &all->runs[from], *b = &all->runs[to];
    memcpy(at(b, b->to, place), at(a, a->from, first), n * a->pattern.element);
}

/* 32-bit integers wrap. */
static void sum(struct ranks *all, int to, size_t first, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t total = 0, one;
        for (int r = 0; r < all->n; r++) {
            memcpy(&one, at(&all->runs[r], all->runs[r].from, first + i), sizeof(one));
            total += one;
        }
        memcpy(at(&all->runs[to], all->runs[to].to, i), &total, sizeof(total));
    }
}

static void perform_on(struct ranks *all, int me)
{
    struct bench_run *run = &all->runs[me];
    int root = run->root, peer = bench_run_peer(run);
    size_t mine = run->counts[me], from = run->displs[me];
    switch (run->point.what->expect) {
    case BENCH_EXPECT_NONE: return;
    case BENCH_EXPECT_ROOT: move(all, root, 0, me, 0, run->total); return;
    case BENCH_EXPECT_PEER:
    case BENCH_EXPECT_BELOW:
        if (peer >= 0) move(all, peer, 0, me, 0, run->total);
        return;
    case BENCH_EXPECT_REDUCED: sum(all, me, 0, run->total); return;
    case BENCH_EXPECT_MY_PART: sum(all, me, from, mine); return;
    case BENCH_EXPECT_SCATTERED: move(all, root, all->runs[root].displs[me], me, 0, mine); return;
    case BENCH_EXPECT_GATHERED:
        for (int b = 0; b < all->n; b++) move(all, b, 0, me, run->displs[b], run->counts[b]);
        return;
    case BENCH_EXPECT_EXCHANGED:
        for (int b = 0; b < all->n; b++) {
            assert_int_equal(run->counts[b], all->runs[b].counts[me]);
            move(all, b, all->runs[b].displs[me], me, run->displs[b], run->counts[b]);
        }
    }
}

static size_t wrong(struct ranks *all, int seed)
{
    size_t sum_of = 0;
    for (int r = 0; r < all->n; r++) sum_of += bench_run_wrong(&all->runs[r], seed);
    return sum_of;
}

/* How many ranks would notice their output spoilt: by one bit of its last element. */
static size_t spoil(struct ranks *all)
{
    size_t noticed = 0;
    for (int r = 0; r < all->n; r++) {
        struct bench_run *run = &all->runs[r];
        size_t n = run->point.what->out == BENCH_MINE ? run->counts[r] : run->total;
        size_t before = bench_run_wrong(run, 0);
        unsigned char *last;
        if (n == 0) continue;
        last = at(run, run->to, n) - 1;
        *last ^= 0x10;
        assert_in_range(bench_run_wrong(run, 0) - before, 0, 1);
        noticed += bench_run_wrong(run, 0) - before;
        *last ^= 0x10;
    }
    return noticed;
}

static size_t who_notices(const struct bench_case *what, int n)
{
    size_t pairs = (size_t)n / 2;
    switch (what->expect) {
    case BENCH_EXPECT_NONE: return 0;
    case BENCH_EXPECT_ROOT: return (size_t)n - 1;
    case BENCH_EXPECT_PEER: return pairs * 2;
    case BENCH_EXPECT_BELOW: return pairs;
    default: return what->at_root ? 1 : (size_t)n;
    }
}

static void case_on(const struct bench_case *what, int n)
{
    struct ranks all;
    make(&all, n, what, WEFT_UINT32);
    for (int turn = 0; turn < 2; turn++) {
        fill(&all, 0);
        if (who_notices(what, n)) assert_true(wrong(&all, 0) > 0); /* nothing has arrived yet */
        for (int r = 0; r < n; r++) perform_on(&all, r);
        assert_int_equal(wrong(&all, 0), 0);
        if (who_notices(what, n)) assert_true(wrong(&all, 1) > 0); /* as left from the sample before */
        assert_int_equal(spoil(&all), who_notices(what, n));
        for (int r = 0; r < n; r++) bench_run_next(&all.runs[r]);
    }
    drop(&all);
}

static void test_right_and_wrong(void **state)
{
    (void)state;
    for (int n = 2; n <= RANKS_MAX; n++) {
        for (int i = 0; i < bench_cases_n; i++) case_on(&bench_cases[i], n);
        case_on(&bench_rate_case, n);
    }
}

/* Every type: what is moved, byte by byte. */
static void test_types(void **state)
{
    (void)state;
    for (int dtype = 0; dtype <= WEFT_BOOL; dtype++) {
        struct bench_pattern p;
        size_t n = 3 * BENCH_PERIOD + 5, bytes = weft_dtype_size((weft_dtype)dtype);
        unsigned char *buf = malloc(n * bytes);
        assert_true(bench_pattern_make(&p, (weft_dtype)dtype, WEFT_MAX, 2));
        bench_pattern_fill(&p, 1, 1, 7, n, buf);
        assert_int_equal(bench_pattern_wrong(&p, 1, 1, 7, n, buf), 0);
        for (size_t i = 0; i < n; i += n / 4) {
            buf[i * bytes] ^= 1;
            assert_int_equal(bench_pattern_wrong(&p, 1, 1, 7, n, buf), 1);
            buf[i * bytes] ^= 1;
        }
        assert_true(bench_pattern_wrong(&p, 1, 1, 8, n, buf) > 0); /* moved by one */
        bench_pattern_free(&p);
        free(buf);
    }
}

/* The oracle's first whole period stands for later ones; a difference is counted element by element. */
static void test_reduction(void **state)
{
    enum { N = 3 * BENCH_PERIOD };
    static double in[2][N], out[N];
    struct bench_pattern p;
    (void)state;
    assert_true(bench_pattern_make(&p, WEFT_FLOAT64, WEFT_AVG, 2));
    for (int r = 0; r < 2; r++) bench_pattern_fill(&p, 0, r, 0, N, in[r]);
    for (int i = 0; i < N; i++) out[i] = (in[0][i] + in[1][i]) / 2;
    assert_int_equal(bench_pattern_wrong(&p, 0, BENCH_REDUCED, 0, N, out), 0);
    assert_true(p.reduced_known[0]);
    out[1] += 1;
    out[N - 1] += 1;
    assert_int_equal(bench_pattern_wrong(&p, 0, BENCH_REDUCED, 0, N, out), 2);
    bench_pattern_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_right_and_wrong),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_reduction),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
