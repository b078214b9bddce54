/* test_rank_order.c - WEFT_REDUCE=rank_order: reductions have the bits of one sum from rank 0 to the last,
 * rounded once, over any transport, in groups of any size, whatever the count.
 *
 * Operands differ much in size, so that almost every other order of additions, and every rounding on the way,
 * gives other bits. */
#include "oracle.h"

#include "job.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 8, MOST = 20011 };

typedef struct number { /* one real number of a type */
    weft_dtype type;    /* as which the oracle encodes it */
    int mantissa_bits, least_exponent, spread;
    bool complex;
} number;

static const number numbers[DTYPES] = {
    [WEFT_FLOAT8_E4M3] = {WEFT_FLOAT8_E4M3, 3, -6, 3, false},
    [WEFT_FLOAT8_E5M2] = {WEFT_FLOAT8_E5M2, 2, -14, 6, false},
    [WEFT_FLOAT16] = {WEFT_FLOAT16, 10, -14, 8, false},
    [WEFT_BFLOAT16] = {WEFT_BFLOAT16, 7, -126, 12, false},
    [WEFT_FLOAT32] = {WEFT_FLOAT32, 23, -126, 8, false},
    [WEFT_FLOAT64] = {WEFT_FLOAT64, 52, -1022, 8, false},
    [WEFT_COMPLEX64] = {WEFT_FLOAT32, 23, -126, 8, true},
    [WEFT_COMPLEX128] = {WEFT_FLOAT64, 52, -1022, 8, true},
};

typedef struct task {
    weft_dtype dtype;
    weft_op op;
    size_t count; /* numbers that go in on each rank: complex elements are two */
    int size;
    uint64_t seed;
} task;

static double operand(const task *t, int rank, size_t index)
{
    const number *n = &numbers[t->dtype];
    uint64_t state = t->seed * 1000003 + (uint64_t)rank * 7919 * 65536 + index, word = job_random(&state);
    double fraction =
        ldexp((double)(word >> 12 & ((UINT64_C(1) << n->mantissa_bits) - 1)), -n->mantissa_bits);
    int spread = t->op == WEFT_PROD ? 0 : n->spread;
    int exponent = (int)(word % (uint64_t)(2 * spread + 1)) - spread;
    return ldexp(word >> 8 & 1 ? -1 - fraction : 1 + fraction, exponent);
}

/* To the nearest number of the type, of two the even one. */
static double rounded(const task *t, double value)
{
    const number *n = &numbers[t->dtype];
    int exponent = value != 0 ? ilogb(value) : 0;
    if (exponent < n->least_exponent) exponent = n->least_exponent;
    double unit = ldexp(1, exponent - n->mantissa_bits);
    return nearbyint(value / unit) * unit;
}

static double scale_of(int rank)
{
    return 0.3 + rank % 3;
}

static double expected(const task *t, size_t index)
{
    bool wide = numbers[t->dtype].mantissa_bits == 52;
    double sum = 0;
    for (int r = 0; r < t->size; r++) {
        double next = operand(t, r, index);
        if (t->op == WEFT_PREMUL_SUM)
            next = rounded(t, wide ? next * scale_of(r) : (float)(next * scale_of(r)));
        if (r == 0)
            sum = next;
        else if (wide)
            sum = t->op == WEFT_PROD ? sum * next : sum + next;
        else
            sum = t->op == WEFT_PROD ? (float)sum * (float)next : (float)sum + (float)next;
    }
    if (t->op == WEFT_AVG) sum = wide ? sum * (1.0 / t->size) : (float)(sum * (1.0 / t->size));
    return rounded(t, sum);
}

static size_t bytes_of(const task *t)
{
    return weft_dtype_size(numbers[t->dtype].type);
}

static void fill(const task *t, int rank, char *in)
{
    for (size_t i = 0; i < t->count; i++)
        oracle_encode(numbers[t->dtype].type, operand(t, rank, i), in + i * bytes_of(t));
}

static void check(const task *t, const char *what, size_t first, size_t n, const char *out)
{
    for (size_t i = 0; i < n; i++) {
        double want = expected(t, first + i);
        double got = oracle_decode(numbers[t->dtype].type, out + i * bytes_of(t));
        if (got != want)
            job_fail(__FILE__, __LINE__, "%s, type %d, op %d, %d ranks: %zu of %zu is %.17g, expected %.17g",
                     what, (int)t->dtype, (int)t->op, t->size, first + i, t->count, got, want);
    }
}

/* Every reducing operation, in place and not. */
static void reduce_all_ways(job_rank *me, weft_group *g, task t, bool in_place)
{
    CHECK(t.size > 0);
    int rank = weft_group_rank(g), root = t.size / 2;
    size_t parts = numbers[t.dtype].complex ? 2 : 1, each = t.count / parts / (size_t)t.size * parts;
    size_t counts[RANKS], before = 0;
    char *in = job_alloc(me, MOST * 8), *out = in_place ? in : job_alloc(me, MOST * 8);
    weft_call call = {.scale = scale_of(rank)};
    t.count = each * (size_t)t.size;
    fill(&t, rank, in);
    CHECK_OK(weft_all_reduce(g, in, out, t.count / parts, t.dtype, t.op, &call, NULL));
    check(&t, "all_reduce", 0, t.count, out);
    fill(&t, rank, in);
    CHECK_OK(weft_reduce(g, in, out, t.count / parts, t.dtype, t.op, root, &call, NULL));
    if (rank == root) check(&t, "reduce", 0, t.count, out);
    fill(&t, rank, in);
    char *mine = in_place ? in + (size_t)rank * each * bytes_of(&t) : out;
    CHECK_OK(weft_reduce_scatter(g, in, mine, each / parts, t.dtype, t.op, &call, NULL));
    check(&t, "reduce_scatter", (size_t)rank * each, each, mine);
    fill(&t, rank, in);
    for (int r = 0; r < t.size; r++) { /* the first rank gets twice as much, the last nothing */
        counts[r] = each / parts * (r == t.size - 1 ? t.size == 1 : 1 + (r == 0));
        if (r < rank) before += counts[r] * parts;
    }
    mine = in_place ? in + before * bytes_of(&t) : out;
    CHECK_OK(weft_reduce_scatter_v(g, in, mine, counts, t.dtype, t.op, &call, NULL));
    check(&t, "reduce_scatter_v", before, counts[rank] * parts, mine);
}

/* Whether the oracle and the table above weft_op agree is for test_collectives to see. */
static bool exists(int dtype, int op)
{
    bool orders = op == WEFT_SUM || op == WEFT_PROD || op == WEFT_AVG || op == WEFT_PREMUL_SUM;
    return orders && numbers[dtype].mantissa_bits && oracle_supports((weft_dtype)dtype, (weft_op)op);
}

static void every_type(job_rank *me)
{
    static const size_t counts[] = {16, 1009, 3, MOST};
    uint64_t n = 0;
    for (int size = 1; size <= RANKS; size++) {
        weft_group *group = me->rank < size ? job_group(me, size, "ordered", 0) : NULL;
        for (int dtype = 0; dtype < DTYPES; dtype++) {
            for (int op = 0; op < OPS; op++) {
                if (!exists(dtype, op)) continue;
                task t = {(weft_dtype)dtype, (weft_op)op, counts[n % 4], size, n};
                if (t.count == MOST && (size != 3 || op != WEFT_SUM)) t.count = 300;
                if (group)
                    reduce_all_ways(me, group, t, n++ % 2);
                else
                    n++;
            }
        }
    }
}

/* Large enough for messages to go by shares, for several chunks of a slot. */
static void large(job_rank *me)
{
    static const weft_dtype types[] = {WEFT_FLOAT16, WEFT_FLOAT32, WEFT_COMPLEX128};
    for (int i = 0; i < 3; i++) {
        task t = {types[i], i ? WEFT_SUM : WEFT_AVG, MOST, me->size, 77};
        reduce_all_ways(me, me->world, t, i % 2);
    }
}

/* If one member asks for it, all do; in groups made of others' too. */
static void one_asks(job_rank *me)
{
    weft_group *split = NULL;
    if (me->rank == 2)
        job_setenv(me, "WEFT_REDUCE", "rank_order");
    else
        job_setenv(me, "WEFT_REDUCE", NULL);
    job_join(me);
    task t = {WEFT_FLOAT16, WEFT_SUM, MOST, me->size, 5};
    reduce_all_ways(me, me->world, t, false);
    CHECK_OK(weft_split_group(me->world, me->rank > 0, 0, NULL, &split, NULL));
    if (me->rank > 0) {
        t.size--;
        reduce_all_ways(me, split, t, true);
    }
    CHECK_OK(weft_group_free(split));
    job_leave(me);
}

static void refused(job_rank *me)
{
    job_setenv(me, "WEFT_REDUCE", "fastest");
    weft_context *ctx = NULL;
    weft_config config = {.rank = me->rank, .world_size = me->size};
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_init(&config, &ctx));
    CHECK_TEXT(weft_last_error(), "WEFT_REDUCE is \"fastest\": expected rank_order");
}

int main(int argc, char **argv)
{
    setenv("WEFT_REDUCE", "rank_order", 1);
    const struct CMUnitTest tests[] = {
        JOB_TEST("every type", .ranks = RANKS, .body = every_type),
        JOB_TEST("large", .ranks = 4, .body = large),
        JOB_TEST("one asks", .ranks = 4, .body = one_asks, .bare = true, .processes = true),
        JOB_TEST("refused", .ranks = 1, .body = refused, .bare = true, .processes = true),
    };
    return JOB_MAIN(tests, argc, argv);
}
