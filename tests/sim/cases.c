/* cases.c - data of simulated collectives and the plain, slow way to know their results. */
#include "cases.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    snprintf(text, sizeof text, "%s of %zu %s (%s) on %d ranks, root %d%s, seed %llu",
             weft__kind_name(c.kind), c.count, weft__dtype_name(c.dtype), weft__reduction_name(c.reduction),
             c.size, c.root, c.in_place ? ", in place" : "", (unsigned long long)c.seed);
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

static double reduction_of(sim_case c, size_t index)
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

static double expected(sim_case c, int rank, size_t i)
{
    size_t block = i / c.count, within = i % c.count, own = (size_t)rank * c.count + i;
    switch (c.kind) {
    case WEFT__OP_BROADCAST: return input(c, c.root, i);
    case WEFT__OP_REDUCE:
    case WEFT__OP_ALL_REDUCE: return reduction_of(c, i);
    case WEFT__OP_REDUCE_SCATTER: return reduction_of(c, own);
    case WEFT__OP_SCATTER: return input(c, c.root, own);
    case WEFT__OP_ALL_TO_ALL: return input(c, (int)block, (size_t)rank * c.count + within);
    default: return input(c, (int)block, within);
    }
}

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

/* Where in and out stand: apart in the two areas, or in the first in the form that the kind allows. */
static void place_buffers(const sim_group *g, weft__op *op, int rank)
{
    size_t block = (size_t)rank * op->count * weft_dtype_size(op->dtype);
    unsigned char *first = g->memory[rank];
    op->in = first;
    op->out = g->c.in_place || op->kind == WEFT__OP_BROADCAST ? first : first + g->area_bytes;
    if (!g->c.in_place) return;
    if (op->kind == WEFT__OP_ALL_GATHER || op->kind == WEFT__OP_GATHER || op->kind == WEFT__OP_SPLIT_GROUP)
        op->in = first + block;
    if (op->kind == WEFT__OP_REDUCE_SCATTER || op->kind == WEFT__OP_SCATTER) op->out = first + block;
}

sim_group *sim_group_make(sim_case c)
{
    sim_group *g = calloc(1, sizeof *g);
    assert_non_null(g);
    g->c = c;
    g->area_bytes = (c.count * (size_t)c.size * weft_dtype_size(c.dtype) + GUARD_BYTES + 63) / 64 * 64;
    g->ops = calloc((size_t)c.size, sizeof *g->ops);
    g->memory = calloc((size_t)c.size, sizeof *g->memory);
    assert_true(g->ops && g->memory);
    for (int r = 0; r < c.size; r++) {
        weft__op *op = &g->ops[r];
        g->memory[r] = malloc(2 * g->area_bytes);
        assert_non_null(g->memory[r]);
        memset(g->memory[r], GUARD, 2 * g->area_bytes);
        *op = (weft__op){.kind = c.kind,
                         .dtype = c.dtype,
                         .reduction = c.reduction,
                         .root = c.root,
                         .memory = WEFT_MEMORY_HOST,
                         .count = c.count,
                         .scale = premul_of(r)};
        place_buffers(g, op, r);
        void *in = g->memory[r] + ((const unsigned char *)op->in - g->memory[r]);
        assert_int_equal(weft__op_check(op, r, c.size), WEFT_OK);
        for (size_t i = 0; i < weft__op_in_elements(op, r, c.size); i++)
            write_element(c, in, i, input(c, r, i));
    }
    return g;
}

static void check_output(const sim_group *g, int rank)
{
    sim_case c = g->c;
    const weft__op *op = &g->ops[rank];
    for (size_t i = 0; i < weft__op_out_elements(op, rank, c.size); i++) {
        double want = expected(c, rank, i), got = read_element(c, op->out, i);
        bool right = c.dtype == WEFT_FLOAT32 ? fabs(got - want) <= 1e-5 * c.size : got == want;
        if (!right) fail_msg("%s: rank %d has %g at %zu, expected %g", sim_case_text(c), rank, got, i, want);
    }
}

/* Every byte that is neither output nor input keeps what was there; inputs keep their values. */
static void check_untouched(const sim_group *g, int rank)
{
    sim_case c = g->c;
    const weft__op *op = &g->ops[rank];
    size_t element = weft_dtype_size(c.dtype);
    const unsigned char *in = op->in, *out = op->out, *end;
    size_t in_bytes = weft__op_in_elements(op, rank, c.size) * element;
    size_t out_bytes = weft__op_out_elements(op, rank, c.size) * element;
    end = g->memory[rank] + 2 * g->area_bytes;
    for (const unsigned char *at = g->memory[rank]; at < end; at++) {
        if (out_bytes && at >= out && at < out + out_bytes) continue;
        if (in_bytes && at >= in && at < in + in_bytes) {
            size_t i = (size_t)(at - in) / element;
            if (read_element(c, in, i) != input(c, rank, i))
                fail_msg("%s: input %zu of rank %d was written", sim_case_text(c), i, rank);
        } else if (*at != GUARD) {
            fail_msg("%s: byte %zu of rank %d was written", sim_case_text(c), (size_t)(at - g->memory[rank]),
                     rank);
        }
    }
}

void sim_group_check(const sim_group *g)
{
    size_t bytes = g->c.count * weft_dtype_size(g->c.dtype);
    for (int r = 0; r < g->c.size; r++) {
        check_output(g, r);
        check_untouched(g, r);
        if (g->c.kind == WEFT__OP_ALL_REDUCE && bytes && memcmp(g->ops[0].out, g->ops[r].out, bytes) != 0)
            fail_msg("%s: ranks 0 and %d have different bits", sim_case_text(g->c), r);
    }
}

void sim_group_free(sim_group *g)
{
    for (int r = 0; r < g->c.size; r++) free(g->memory[r]);
    free(g->memory);
    free(g->ops);
    free(g);
}
