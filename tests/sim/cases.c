/* cases.c - data of simulated collectives and the plain, slow way to know their results. */
#include "cases.h"

#include "lengths.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#define GUARD_BYTES 64
#define GUARD       0xa5

uint64_t sim_next(sim_random *r)
{
    uint64_t z = r->state += 0x9e3779b97f4a7c15U;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9U;
    z = (z ^ z >> 27) * 0x94d049bb133111ebU;
    return z ^ z >> 31;
}

int sim_below(sim_random *r, int limit)
{
    return (int)(sim_next(r) % (uint64_t)limit);
}

const char *sim_case_text(sim_case c)
{
    static char text[256];
    snprintf(text, sizeof text, "%s of %zu %s (%s) on %d ranks, root %d%s%s, layout %d, seed %llu",
             weft__kind_name(c.kind), c.count, weft__dtype_name(c.dtype), weft__reduction_name(c.reduction),
             c.size, c.root, c.in_place ? ", in place" : "", c.repeats ? ", like one before" : "",
             (int)c.layout, (unsigned long long)c.seed);
    return text;
}

static double premul_of(int rank)
{
    return 0.5 + rank % 3;
}

/* Element `index` of what `rank` puts in. */
static double input(sim_case c, int rank, size_t index)
{
    sim_random r = {c.seed * 1000003 + (uint64_t)rank * 7919 + index};
    uint64_t bits = sim_next(&r);
    if (c.dtype == WEFT_FLOAT32) return (float)((double)(bits >> 40) * 0x1p-23 - 1);
    if (c.dtype == WEFT_INT32) return (int32_t)(bits >> 32);
    return (uint8_t)bits;
}

static double wrapped(double value) /* a sum of int32 */
{
    return (int32_t)(uint32_t)(uint64_t)(int64_t)value;
}

static double reduction_at(sim_case c, size_t index)
{
    double result = input(c, 0, index) * (c.reduction == WEFT_PREMUL_SUM ? premul_of(0) : 1);
    for (int q = 1; q < c.size; q++) {
        double next = input(c, q, index);
        if (c.reduction == WEFT_MIN)
            result = next < result ? next : result;
        else
            result += next * (c.reduction == WEFT_PREMUL_SUM ? premul_of(q) : 1);
        if (c.dtype == WEFT_INT32) result = wrapped(result);
    }
    return c.reduction == WEFT_AVG ? result / c.size : result;
}

/* ---- blocks ---- */

static bool is_uneven(sim_case c)
{
    return weft__kind_traits(c.kind) & WEFT__UNEVEN;
}

/* Elements that go from one rank to another, where blocks do. */
static size_t length(sim_case c, int from, int to)
{
    unsigned traits = weft__kind_traits(c.kind);
    if (!is_uneven(c)) return c.count;
    return length_between(c.seed, c.count, traits & WEFT__OUT_BLOCKS ? from : 0,
                          traits & WEFT__IN_BLOCKS ? to : 0);
}

/* The blocks of one buffer; of a buffer that is one block, that. */
static void blocks_of(sim_case c, int rank, bool output, size_t *counts, size_t *displs)
{
    bool many = weft__kind_traits(c.kind) & (output ? WEFT__OUT_BLOCKS : WEFT__IN_BLOCKS);
    size_t end = 0;
    for (int k = 0; k < (many ? c.size : 1); k++) {
        counts[k] = output ? length(c, k, rank) : length(c, rank, k);
        displs[k] = end;
        end += counts[k];
    }
    if (many && is_uneven(c) && c.kind != WEFT__OP_REDUCE_SCATTER_V)
        spread_blocks(c.seed + output, c.size, counts, displs);
}

/* What `from` has for `to` begins here, counted through its blocks. */
static size_t first_for(sim_case c, int from, int to)
{
    size_t first = 0;
    bool many = weft__kind_traits(c.kind) & WEFT__IN_BLOCKS;
    if (!is_uneven(c)) return many ? (size_t)to * c.count : 0;
    for (int k = 0; many && k < to; k++) first += length(c, from, k);
    return first;
}

typedef void element_fn(const sim_group *g, int rank, int block, size_t index, size_t at);

/* Every element of a buffer: in which block, its index among those of its source, where in the buffer. */
static void each_element(const sim_group *g, int rank, bool output, element_fn *fn)
{
    const weft__op *op = &g->ops[rank];
    size_t *counts = calloc(2 * (size_t)g->c.size, sizeof *counts), *displs = counts + g->c.size;
    size_t left = (output ? weft__op_out_elements : weft__op_in_elements)(op, rank, g->c.size);
    assert_non_null(counts);
    blocks_of(g->c, rank, output, counts, displs);
    for (int k = 0; left > 0; k++) {
        size_t first = output ? first_for(g->c, k, rank) : first_for(g->c, rank, k);
        for (size_t i = 0; i < counts[k]; i++, left--) fn(g, rank, k, first + i, displs[k] + i);
    }
    free(counts);
}

static size_t elements_most(sim_case c)
{
    bool blocks = weft__kind_traits(c.kind) & (WEFT__IN_BLOCKS | WEFT__OUT_BLOCKS);
    return (is_uneven(c) ? 2 * c.count + 2 : c.count) * (blocks ? (size_t)c.size : 1);
}

static double reduction_of(const sim_group *g, size_t index)
{
    if (!g->is_reduced[index]) g->reduced[index] = reduction_at(g->c, index);
    g->is_reduced[index] = true;
    return g->reduced[index];
}

static double expected(const sim_group *g, int block, size_t index)
{
    const sim_case c = g->c;
    switch (c.kind) {
    case WEFT__OP_BROADCAST:
    case WEFT__OP_SCATTER:
    case WEFT__OP_SCATTER_V: return input(c, c.root, index);
    case WEFT__OP_REDUCE:
    case WEFT__OP_ALL_REDUCE:
    case WEFT__OP_REDUCE_SCATTER:
    case WEFT__OP_REDUCE_SCATTER_V: return reduction_of(g, index);
    default: return input(c, block, index);
    }
}

/* ---- elements ---- */

static void write_element(sim_case c, void *buffer, size_t i, double value)
{
    if (c.dtype == WEFT_FLOAT32)
        ((float *)buffer)[i] = (float)value;
    else if (c.dtype == WEFT_INT32)
        ((int32_t *)buffer)[i] = (int32_t)value;
    else
        ((uint8_t *)buffer)[i] = (uint8_t)value;
}

static double read_element(sim_case c, const void *buffer, size_t i)
{
    if (c.dtype == WEFT_FLOAT32) return (double)((const float *)buffer)[i];
    if (c.dtype == WEFT_INT32) return ((const int32_t *)buffer)[i];
    return ((const uint8_t *)buffer)[i];
}

/* The number that GUARD in each of its bytes is. */
static double guard_element(sim_case c)
{
    unsigned char guard[8];
    memset(guard, GUARD, sizeof guard);
    return read_element(c, guard, 0);
}

/* Where in and out stand: apart in the two areas, or in the first in the form that the kind allows. */
static void place_buffers(const sim_group *g, weft__op *op, int rank)
{
    unsigned traits = weft__kind_traits(op->kind);
    bool many_in = traits & WEFT__IN_BLOCKS, many_out = traits & WEFT__OUT_BLOCKS;
    bool in_place = g->c.in_place && weft__place_shape(traits) != WEFT__APART;
    bool root = !(traits & WEFT__ROOTED) || rank == op->root; /* else one of the two is not used */
    unsigned char *first = g->memory[rank];
    size_t element = weft_dtype_size(op->dtype);
    op->in = first;
    op->out = in_place || op->kind == WEFT__OP_BROADCAST ? first : first + g->area_bytes;
    if (!in_place || !root) return;
    if (many_out && !many_in) op->in = first + weft__op_out_block(op, rank).start * element;
    if (many_in && !many_out) op->out = first + weft__op_in_block(op, rank).start * element;
}

/* Addresses that nobody may touch, enough for any buffer. */
static void place_nowhere(weft__op *op)
{
    static unsigned char *nowhere;
    const size_t bytes = (size_t)1 << 36;
    if (!nowhere)
        nowhere = mmap(NULL, 2 * bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(nowhere != MAP_FAILED);
    op->in = nowhere;
    op->out = op->kind == WEFT__OP_BROADCAST ? nowhere : nowhere + bytes;
}

static weft__uneven *uneven_of(sim_case c, int rank)
{
    size_t *numbers = calloc(4 * (size_t)c.size, sizeof *numbers), n = (size_t)c.size;
    unsigned traits = weft__kind_traits(c.kind);
    weft__uneven given = {.agreed = 0}, *copy;
    bool reads = !(traits & WEFT__ROOTED) || rank == c.root;
    assert_non_null(numbers);
    blocks_of(c, rank, false, numbers, numbers + n);
    blocks_of(c, rank, true, numbers + 2 * n, numbers + 3 * n);
    if (traits & WEFT__IN_BLOCKS && reads) given.in = (weft__blocks){numbers, numbers + n, 0};
    if (traits & WEFT__OUT_BLOCKS && reads) given.out = (weft__blocks){numbers + 2 * n, numbers + 3 * n, 0};
    copy = weft__uneven_copy(&given, c.size);
    assert_non_null(copy);
    free(numbers);
    return copy;
}

static void set_input(const sim_group *g, int rank, int block, size_t index, size_t at)
{
    (void)block;
    void *in = g->memory[rank] + ((const unsigned char *)g->ops[rank].in - g->memory[rank]);
    write_element(g->c, in, at, input(g->c, rank, index));
}

static void make_op(sim_group *g, int rank)
{
    sim_case c = g->c;
    weft__op *op = &g->ops[rank];
    *op = (weft__op){.kind = c.kind,
                     .dtype = c.dtype,
                     .reduction = c.reduction,
                     .root = c.root,
                     .memory = WEFT_MEMORY_HOST,
                     .count = c.count,
                     .scale = premul_of(rank)};
    if (is_uneven(c)) {
        op->uneven = uneven_of(c, rank);
        op->count =
            weft__kind_traits(c.kind) & WEFT__OUT_BLOCKS ? length(c, rank, 0) : length(c, c.root, rank);
    }
    if (c.bare)
        place_nowhere(op);
    else
        place_buffers(g, op, rank);
    assert_int_equal(weft__op_check(op, rank, c.size), WEFT_OK);
    op->repeats = c.repeats;
    if (!c.bare) each_element(g, rank, false, set_input);
}

/* ---- hosts ---- */

static int host_of(sim_case c, int rank)
{
    int host = 0, mixed = rank * 5 % c.size; /* of sizes that 5 divides, not so mixed */
    switch (c.layout) {
    case SIM_BLOCKS: return rank >= (c.size + 1) / 2;
    case SIM_ROUND_ROBIN: return rank % 3;
    case SIM_ALONE: return rank;
    case SIM_PACKED: return rank / c.each;
    case SIM_DEALT: return rank % (c.size / c.each);
    case SIM_UNEVEN:
        if (c.size % 5 == 0) mixed = rank;
        while (mixed > host) mixed -= ++host;
        return host;
    default: return 0;
    }
}

static weft__seats *seats_of(sim_case c)
{
    int *host = calloc((size_t)c.size, sizeof *host);
    weft__seats *seats;
    assert_non_null(host);
    for (int r = 0; r < c.size; r++) host[r] = host_of(c, r);
    assert_int_equal(weft__seats_make(&seats, host, c.size + 3, c.size), WEFT_OK);
    free(host);
    return seats;
}

int sim_hosts(const sim_group *g)
{
    return g->seats ? g->seats->hosts : 1;
}

static void make_memory(sim_group *g)
{
    g->area_bytes = (elements_most(g->c) * weft_dtype_size(g->c.dtype) + GUARD_BYTES + 63) / 64 * 64;
    g->memory = calloc((size_t)g->c.size, sizeof *g->memory);
    g->reduced = calloc(elements_most(g->c) + 1, sizeof *g->reduced);
    g->is_reduced = calloc(elements_most(g->c) + 1, sizeof *g->is_reduced);
    assert_true(g->memory && g->reduced && g->is_reduced);
    for (int r = 0; r < g->c.size; r++) {
        g->memory[r] = malloc(2 * g->area_bytes);
        assert_non_null(g->memory[r]);
        memset(g->memory[r], GUARD, 2 * g->area_bytes);
    }
}

sim_group *sim_group_make(sim_case c)
{
    sim_group *g = calloc(1, sizeof *g);
    assert_non_null(g);
    assert_true(!c.one || (c.bare && c.layout == SIM_PACKED && c.size % c.each == 0));
    g->c = c;
    g->seats = seats_of(c);
    g->played = c.one ? c.each : c.size;
    g->ops = calloc((size_t)c.size, sizeof *g->ops);
    assert_non_null(g->ops);
    if (!c.bare) make_memory(g);
    for (int r = 0; r < g->played; r++) make_op(g, r);
    return g;
}

/* ---- judging ---- */

static void check_element(const sim_group *g, int rank, int block, size_t index, size_t at)
{
    sim_case c = g->c;
    double want = expected(g, block, index), got = read_element(c, g->ops[rank].out, at);
    bool right = c.dtype == WEFT_FLOAT32 ? fabs(got - want) <= 1e-5 * c.size : got == want;
    if (!right)
        fail_msg("%s: rank %d has %g at %zu, in block %d, expected %g", sim_case_text(c), rank, got, at,
                 block, want);
}

/* In a copy of a rank's memory outputs are made what memory was before, and inputs that nobody may write are
 * compared. */
static void erase_output(const sim_group *g, int rank, int block, size_t index, size_t at)
{
    unsigned char *out = g->memory[rank] + ((const unsigned char *)g->ops[rank].out - g->memory[rank]);
    (void)block;
    (void)index;
    write_element(g->c, out, at, guard_element(g->c));
}

static void erase_input(const sim_group *g, int rank, int block, size_t index, size_t at)
{
    unsigned char *in = g->memory[rank] + ((const unsigned char *)g->ops[rank].in - g->memory[rank]);
    const double is = read_element(g->c, in, at);
    (void)block;
    /* In place it may have been an output as well. */
    if (is != input(g->c, rank, index) && !(g->c.in_place && is == guard_element(g->c)))
        fail_msg("%s: input %zu of rank %d was written", sim_case_text(g->c), at, rank);
    write_element(g->c, in, at, guard_element(g->c));
}

/* Every byte that is neither output nor input keeps what was there; inputs keep their values.  The last look:
 * it erases both. */
static void check_untouched(const sim_group *g, int rank)
{
    const unsigned char *memory = g->memory[rank];
    each_element(g, rank, true, erase_output);
    each_element(g, rank, false, erase_input);
    if (memory[0] == GUARD && memcmp(memory, memory + 1, 2 * g->area_bytes - 1) == 0) return;
    for (size_t i = 0; i < 2 * g->area_bytes; i++)
        if (memory[i] != GUARD) fail_msg("%s: byte %zu of rank %d was written", sim_case_text(g->c), i, rank);
}

void sim_group_check(const sim_group *g)
{
    size_t bytes = g->c.count * weft_dtype_size(g->c.dtype);
    for (int r = 0; r < g->c.size; r++)
        if (g->c.kind != WEFT__OP_ALL_REDUCE || r == 0)
            each_element(g, r, true, check_element);
        else if (bytes && memcmp(g->ops[0].out, g->ops[r].out, bytes) != 0)
            fail_msg("%s: ranks 0 and %d have different bits", sim_case_text(g->c), r);
    for (int r = 0; r < g->c.size; r++) check_untouched(g, r);
}

void sim_group_free(sim_group *g)
{
    for (int r = 0; r < g->c.size; r++) {
        free(g->ops[r].uneven);
        if (g->memory) free(g->memory[r]);
    }
    weft__seats_free(g->seats);
    free(g->memory);
    free(g->reduced);
    free(g->is_reduced);
    free(g->ops);
    free(g);
}
