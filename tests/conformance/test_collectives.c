/* test_collectives.c - every collective gives what weft.h says, between processes.
 *
 * All types and reductions at 2 and 3 ranks; kinds, counts, roots and in place in pairwise combinations at
 * 1, 2, 4, 5 and 8; large ones; many in flight; groups interleaved. */
#include "collective.h"
#include "device.h"

#include <string.h>

/* ---- types and reductions ------------------------------------------------------------------------------ */

/* An odd count that fills whole vectors of every width and leaves a tail. */
enum { TYPED_COUNT = 261 };

static void refused(job_rank *me, const collective *what)
{
    running r;
    weft_status status = collective_submit(&r, me->world, what, NULL);
    if (status == WEFT_OK) {
        collective_drop(&r);
    }
    CHECK_INT(status, WEFT_ERR_UNSUPPORTED);
    CHECK(strlen(weft_last_error()) > 0);
}

static bool is_float8(weft_dtype dtype)
{
    return dtype == WEFT_FLOAT8_E4M3 || dtype == WEFT_FLOAT8_E5M2;
}

static void types_and_reductions(job_rank *me)
{
    static const collective_kind kinds[] = {ALL_REDUCE, REDUCE, REDUCE_SCATTER, REDUCE_SCATTER_V};
    uint64_t seed = 1;
    for (size_t k = 0; k < 4; k++) {
        for (int dtype = 0; dtype < DTYPES; dtype++) {
            for (int op = 0; op < OPS; op++, seed++) {
                collective what = {.kind = kinds[k],
                                   .dtype = (weft_dtype)dtype,
                                   .op = (weft_op)op,
                                   .count = TYPED_COUNT,
                                   .root = (int)(seed % (uint64_t)me->size),
                                   .in_place = seed % 2,
                                   .seed = seed};
                if (collective_supports(what.dtype, what.op)) {
                    collective_run(me->world, &what);
                } else if (!job_on_device() || !is_float8(what.dtype)) { /* which depend on the device */
                    refused(me, &what);
                }
            }
        }
    }
}

/* Data that is only moved arrives whatever its type. */
static void moved_types(job_rank *me)
{
    for (int kind = 0; kind < BARRIER; kind++) {
        for (int dtype = 0; dtype < DTYPES; dtype++) {
            collective what = {.kind = (collective_kind)kind,
                               .dtype = (weft_dtype)dtype,
                               .op = WEFT_SUM,
                               .count = 31,
                               .root = dtype % me->size,
                               .seed = (uint64_t)(kind * DTYPES + dtype)};
            if (!collective_reduces(what.kind)) {
                collective_run(me->world, &what);
            }
        }
    }
}

static void nan_wins(job_rank *me)
{
    if (job_on_device()) {
        return; /* there it is as NCCL has it */
    }
    static const weft_dtype types[] = {WEFT_FLOAT8_E4M3, WEFT_FLOAT8_E5M2, WEFT_FLOAT16,
                                       WEFT_BFLOAT16,    WEFT_FLOAT32,     WEFT_FLOAT64};
    static const weft_op ops[] = {WEFT_SUM, WEFT_PROD, WEFT_MIN, WEFT_MAX};
    for (size_t t = 0; t < 6; t++) {
        for (size_t o = 0; o < 4; o++) {
            /* Element i is not a number on rank i alone; element `size` is one everywhere. */
            unsigned char in[128] = {0}, out[128] = {0};
            size_t bytes = weft_dtype_size(types[t]);
            for (int i = 0; i <= me->size; i++) {
                oracle_encode(types[t], i == me->rank ? (double)__builtin_nan("") : 1.0,
                              in + (size_t)i * bytes);
            }
            CHECK_OK(weft_all_reduce(me->world, in, out, (size_t)me->size + 1, types[t], ops[o], NULL, NULL));
            for (int i = 0; i <= me->size; i++) {
                double got = oracle_decode(types[t], out + (size_t)i * bytes);
                CHECK_INT(got != got, i < me->size);
            }
        }
    }
}

/* ---- kinds, counts, roots, places
 * ------------------------------------------------------------------------ */

static const size_t counts[] = {0, 1, 5, 1000, JOB_SANITIZED ? 30011 : 100003};
enum { COUNTS = sizeof counts / sizeof *counts };

/* Small elements for large counts keep eight ranks within a modest memory. */
static weft_dtype some_type(size_t count, uint64_t n)
{
    static const weft_dtype any[] = {WEFT_FLOAT32, WEFT_INT64,    WEFT_UINT8, WEFT_FLOAT16,
                                     WEFT_FLOAT64, WEFT_BFLOAT16, WEFT_INT32};
    static const weft_dtype small[] = {WEFT_UINT8, WEFT_INT16, WEFT_FLOAT32, WEFT_BFLOAT16};
    return count > 10000 ? small[n % 4] : any[n % 7];
}

static collective some_collective(int size, int kind, int root, size_t count, bool in_place, uint64_t n)
{
    static const weft_op ops[] = {WEFT_SUM, WEFT_MAX, WEFT_MIN, WEFT_PROD};
    collective what = {.kind = (collective_kind)kind,
                       .dtype = some_type(count, n),
                       .op = ops[n % 4],
                       .count = count,
                       .root = root % size,
                       .in_place = in_place,
                       .seed = n * 64 + (uint64_t)size};
    if (collective_reduces(what.kind) && !collective_supports(what.dtype, what.op)) {
        what.dtype = WEFT_UINT8;
    }
    return what;
}

static void kinds_and_counts(job_rank *me)
{
    uint64_t n = 0;
    for (int kind = 0; kind < COLLECTIVE_KINDS; kind++) {
        for (size_t c = 0; c < COUNTS; c++) {
            for (int in_place = 0; in_place < 2; in_place++, n++) {
                collective what = some_collective(me->size, kind, (int)(n % 13), counts[c], in_place, n);
                collective_run(me->world, &what);
            }
        }
    }
}

static void kinds_and_roots(job_rank *me)
{
    uint64_t n = 1000;
    for (int kind = 0; kind < COLLECTIVE_KINDS; kind++) {
        for (int root = 0; root < me->size && collective_has_root((collective_kind)kind); root++) {
            for (int in_place = 0; in_place < 2; in_place++, n++) {
                collective what = some_collective(me->size, kind, root, counts[n % COUNTS], in_place, n);
                collective_run(me->world, &what);
            }
        }
    }
}

static void combinations(job_rank *me)
{
    kinds_and_counts(me);
    kinds_and_roots(me);
}

static void large(job_rank *me)
{
    size_t elements = JOB_SANITIZED || job_on_device() ? 1 << 20 : 4 << 20; /* of float32 */
    for (int kind = 0; kind < BARRIER; kind++) {
        collective what = {.kind = (collective_kind)kind,
                           .dtype = WEFT_FLOAT32,
                           .op = WEFT_SUM,
                           .count = elements,
                           .root = 1,
                           .seed = 7};
        if (kind == REDUCE_SCATTER || kind >= ALL_GATHER) {
            what.count /= (size_t)me->size; /* so many in the larger buffer */
        }
        collective_run(me->world, &what);
    }
}

/* ---- several at once
 * --------------------------------------------------------------------------------------- */

enum { IN_FLIGHT = 24 };

static void waited_in_reverse(job_rank *me)
{
    running flying[IN_FLIGHT];
    for (int i = 0; i < IN_FLIGHT; i++) {
        collective what =
            some_collective(me->size, i % COLLECTIVE_KINDS, i, counts[i % 4] * 7, i % 2, (uint64_t)i + 2000);
        collective_start(&flying[i], me->world, &what);
    }
    for (int i = IN_FLIGHT; i-- > 0;) collective_finish(&flying[i]);
}

/* More than any table of slots holds, and of more shapes than a group keeps, small enough to be posted before
 * anyone waits. */
static void many_in_flight(job_rank *me)
{
    enum { MANY = 250, SHAPES = 40 };
    running *flying = job_alloc(me, MANY * sizeof *flying);
    for (size_t wave = 0; wave < 2; wave++) {
        for (int i = 0; i < MANY; i++) {
            collective what = {.kind = ALL_REDUCE,
                               .dtype = WEFT_INT32,
                               .op = WEFT_SUM,
                               .count = wave * SHAPES + (size_t)i % SHAPES,
                               .seed = (uint64_t)i};
            collective_start(&flying[i], me->world, &what);
        }
        for (int i = 0; i < MANY; i++) collective_finish(&flying[i]);
    }
}

/* Two groups are independent: the ranks submit to them in different order (on a device, in the same). */
static void groups_interleaved(job_rank *me)
{
    int own = job_on_device() ? 0 : me->rank;
    weft_group *groups[2] = {me->world, job_group(me, me->size, "second", 0)};
    for (int round = 0; round < 20; round++) {
        running flying[2];
        for (int i = 0; i < 2; i++) {
            int g = (i + own + round) % 2;
            collective what =
                some_collective(me->size, (round + g) % COLLECTIVE_KINDS, round, counts[(round + g) % 4],
                                false, (uint64_t)(round * 2 + g) + 3000);
            collective_start(&flying[g], groups[g], &what);
        }
        for (int i = 0; i < 2; i++) collective_finish(&flying[(i + round) % 2]);
    }
}

/* A buffer that a rank does not use, or of no elements, may be NULL. */
static void unused_buffers(job_rank *me)
{
    int32_t *in = job_buffer(me, sizeof *in), *out = job_buffer(me, sizeof *out);
    weft_call call = {.memory = job_memory()};
    job_put_int(in, me->rank + 1);
    CHECK_OK(weft_all_reduce(me->world, NULL, NULL, 0, WEFT_INT32, WEFT_SUM, &call, NULL));
    CHECK_OK(weft_all_to_all(me->world, NULL, NULL, 0, WEFT_INT32, &call, NULL));
    CHECK_OK(weft_broadcast(me->world, NULL, 0, WEFT_INT32, 0, &call, NULL));
    CHECK_OK(weft_reduce(me->world, in, me->rank ? NULL : out, 1, WEFT_INT32, WEFT_SUM, 0, NULL, NULL));
    CHECK_INT(job_get_int(out), me->rank ? 0 : me->size * (me->size + 1) / 2);
    CHECK_OK(weft_all_reduce(me->world, NULL, NULL, 0, WEFT_INT32, WEFT_SUM, NULL, NULL)); /* host memory */
}

/* All ranks get the same bits, also where the order of additions matters. */
static void same_bits(job_rank *me)
{
    enum { COUNT = 4099 };
    size_t bytes = COUNT * sizeof(float);
    float *in = job_buffer(me, bytes), *out = job_buffer(me, bytes), *first = job_buffer(me, bytes);
    float *own = job_alloc(me, bytes), *other = job_alloc(me, bytes);
    uint64_t state = (uint64_t)me->rank + 99;
    for (int i = 0; i < COUNT; i++) own[i] = (float)(job_random(&state) >> 40) * 1e-3F - 8000.0F;
    job_put(in, own, bytes);
    for (int round = 0; round < 2; round++) {
        CHECK_OK(weft_all_reduce(me->world, in, out, COUNT, WEFT_FLOAT32, WEFT_SUM, NULL, NULL));
        job_get(own, out, bytes);
        job_put(first, own, bytes);
        CHECK_OK(weft_broadcast(me->world, first, COUNT, WEFT_FLOAT32, round, NULL, NULL));
        job_get(other, first, bytes);
        CHECK_INT(memcmp(own, other, bytes), 0);
    }
}

/* Whether a rank does it in place is its own affair; small blocks, which algorithms may gather. */
static void in_place_on_some(job_rank *me)
{
    static const size_t elements[] = {1, 5, 3000};
    if (job_memory() > WEFT_MEMORY_HOST) return; /* where this operation is not in place */
    for (size_t c = 0; c < 3; c++)
        for (int round = 0; round < 4; round++) {
            size_t n = elements[c];
            const size_t bytes = n * (size_t)me->size * sizeof(int32_t);
            int32_t *own = job_alloc(me, bytes), *in = job_buffer(me, bytes), *out = job_buffer(me, bytes);
            if ((me->rank + round) % 2 == 0) out = in; /* no other has it */
            for (int to = 0; to < me->size; to++)
                for (size_t i = 0; i < n; i++) own[(size_t)to * n + i] = me->rank * 100 + to + (int)i;
            job_put(in, own, bytes);
            CHECK_OK(weft_all_to_all(me->world, in, out, n, WEFT_INT32, NULL, NULL));
            job_get(own, out, bytes);
            for (int from = 0; from < me->size; from++)
                for (size_t i = 0; i < n; i++)
                    CHECK_INT(own[(size_t)from * n + i], from * 100 + me->rank + (int)i);
        }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("types and reductions, 1 rank", .ranks = 1, .body = types_and_reductions),
        JOB_TEST("types and reductions, 2 ranks", .ranks = 2, .body = types_and_reductions),
        JOB_TEST("types and reductions, 3 ranks", .ranks = 3, .body = types_and_reductions),
        JOB_TEST("moved types, 3 ranks", .ranks = 3, .body = moved_types),
        JOB_TEST("nan wins", .ranks = 3, .body = nan_wins),
        JOB_TEST("combinations, 1 rank", .ranks = 1, .body = combinations),
        JOB_TEST("combinations, 2 ranks", .ranks = 2, .body = combinations),
        JOB_TEST("combinations, 4 ranks", .ranks = 4, .body = combinations),
        JOB_TEST("combinations, 5 ranks", .ranks = 5, .body = combinations),
        JOB_TEST("kinds and counts, 8 ranks", .ranks = 8, .body = kinds_and_counts),
        JOB_TEST("kinds and roots, 8 ranks", .ranks = 8, .body = kinds_and_roots),
        JOB_TEST("large, 2 ranks", .ranks = 2, .body = large),
        JOB_TEST("large, 3 ranks", .ranks = 3, .body = large),
        JOB_TEST("waited in reverse", .ranks = 3, .body = waited_in_reverse),
        JOB_TEST("many in flight", .ranks = 3, .body = many_in_flight),
        JOB_TEST("groups interleaved", .ranks = 4, .body = groups_interleaved),
        JOB_TEST("unused buffers", .ranks = 3, .body = unused_buffers),
        JOB_TEST("in place on some ranks", .ranks = 9, .body = in_place_on_some),
        JOB_TEST("same bits", .ranks = 5, .body = same_bits),
    };
    return JOB_MAIN(tests, argc, argv);
}
