/* test_nccl_collectives.c - every operation with every type and reduction, and what comes out of it, on ranks
 * that are processes and ranks that are threads. */
#include "nccl_ranks.h"

#include <math.h>
#include <stdlib.h>

#define SMALL_FLOATS (NCCL_VERSION_CODE >= 22400)
#define BFLOAT16     ((ncclDataType_t)9) /* old headers do not name it in C */

typedef struct value_type {
    ncclDataType_t type;
    size_t bytes;
    double values;  /* inputs are 0, 1, ... below this: their sums and products are exact */
    double allowed; /* error of an average, of its largest input */
    int wraps;      /* bits after which sums and products do */
} value_type;

static const value_type types[] = {
    {ncclInt8, 1, 5, 1, 8},         {ncclUint8, 1, 5, 1, 8},        {ncclInt32, 4, 100, 1, 0},
    {ncclUint32, 4, 100, 1, 0},     {ncclInt64, 8, 100, 1, 0},      {ncclUint64, 8, 100, 1, 0},
    {ncclFloat16, 2, 4, 1e-2, 0},   {ncclFloat32, 4, 4, 1e-5, 0},   {ncclFloat64, 8, 4, 1e-12, 0},
    {BFLOAT16, 2, 3, 1e-1, 0},
#if SMALL_FLOATS
    {ncclFloat8e4m3, 1, 2, 0.4, 0}, {ncclFloat8e5m2, 1, 2, 0.6, 0},
#endif
};
enum { TYPES = sizeof types / sizeof *types, COUNTS = 3 };
static const size_t counts[COUNTS] = {1, 37, 5001};

/* Bits of a small non-negative number as a float of so many bits of mantissa. */
static uint32_t float_bits(double value, int mantissa, int bias)
{
    int exponent;
    double digits = frexp(value, &exponent); /* value = digits * 2^exponent, digits from 0.5 to 1 */

    if (value == 0) return 0;
    return ((uint32_t)(exponent - 1 + bias) << mantissa) + (uint32_t)ldexp(digits * 2 - 1, mantissa);
}

static double float_value(uint32_t bits, int mantissa, int bias)
{
    uint32_t exponent = bits >> mantissa, digits = bits & ((1u << mantissa) - 1);

    return exponent ? ldexp(1 + ldexp(digits, -mantissa), (int)exponent - bias)
                    : ldexp(digits, 1 - bias - mantissa);
}

static void put(const value_type *t, void *at, size_t i, double value)
{
    uint32_t bits = 0;

    switch ((int)t->type) {
    case ncclInt8:
    case ncclUint8: ((uint8_t *)at)[i] = (uint8_t)value; return;
    case ncclInt32:
    case ncclUint32: ((uint32_t *)at)[i] = (uint32_t)value; return;
    case ncclInt64:
    case ncclUint64: ((uint64_t *)at)[i] = (uint64_t)value; return;
    case ncclFloat32: ((float *)at)[i] = (float)value; return;
    case ncclFloat64: ((double *)at)[i] = value; return;
    case ncclFloat16: bits = float_bits(value, 10, 15); break;
    case BFLOAT16: bits = float_bits(value, 7, 127); break;
    case 10: bits = float_bits(value, 3, 7); break;
    case 11: bits = float_bits(value, 2, 15); break;
    }
    if (t->bytes == 2)
        ((uint16_t *)at)[i] = (uint16_t)bits;
    else
        ((uint8_t *)at)[i] = (uint8_t)bits;
}

static double get(const value_type *t, const void *at, size_t i)
{
    switch ((int)t->type) {
    case ncclInt8: return ((const int8_t *)at)[i];
    case ncclUint8: return ((const uint8_t *)at)[i];
    case ncclInt32: return ((const int32_t *)at)[i];
    case ncclUint32: return ((const uint32_t *)at)[i];
    case ncclInt64: return (double)((const int64_t *)at)[i];
    case ncclUint64: return (double)((const uint64_t *)at)[i];
    case ncclFloat32: return (double)((const float *)at)[i];
    case ncclFloat64: return ((const double *)at)[i];
    case ncclFloat16: return float_value(((const uint16_t *)at)[i], 10, 15);
    case BFLOAT16: return float_value(((const uint16_t *)at)[i], 7, 127);
    case 10: return float_value(((const uint8_t *)at)[i], 3, 7);
    case 11: return float_value(((const uint8_t *)at)[i], 2, 15);
    }
    return NAN;
}

/* What rank has at i; the kind of reduction keeps its results exact. */
static double input(const value_type *t, int op, int rank, size_t i)
{
    double mixed = fmod((double)(i * 7 + (size_t)rank * 3), t->values);

    if (op == ncclProd) return (rank + (int)i) % 3 ? 1 : 2;
    return mixed;
}

static double wrap(const value_type *t, double value)
{
    if (t->type == ncclInt8) return (int8_t)(uint8_t)(uint64_t)value;
    if (t->type == ncclUint8) return (uint8_t)(uint64_t)value;
    return value;
}

static double expected(const value_type *t, int op, int ranks, size_t i)
{
    double result = input(t, op, 0, i);

    for (int r = 1; r < ranks; r++) {
        double next = input(t, op, r, i);
        switch (op) {
        case ncclProd: result *= next; break;
        case ncclMax: result = fmax(result, next); break;
        case ncclMin: result = fmin(result, next); break;
        default: result += next;
        }
    }
    return op == ncclAvg ? result / ranks : wrap(t, result);
}

typedef struct job_env {
    job_rank *me;
    ncclComm_t comm;
    cudaStream_t stream;
    void *send, *recv, *host; /* room for the largest count times the ranks */
    size_t bytes;
} job_env;

static void fill(const job_env *e, const value_type *t, int op, size_t count)
{
    for (size_t i = 0; i < count; i++) put(t, e->host, i, input(t, op, e->me->rank, i));
    CUDA(cudaMemcpyAsync(e->send, e->host, count * t->bytes, cudaMemcpyHostToDevice, e->stream));
    CUDA(cudaMemsetAsync(e->recv, 0x11, e->bytes, e->stream));
    CUDA(cudaStreamSynchronize(e->stream));
}

/* count results from recv against those of the elements from `first` on. */
static void compare(const job_env *e, const value_type *t, int op, size_t first, size_t count)
{
    to_host(e->host, e->recv, count * t->bytes, e->stream);
    for (size_t i = 0; i < count; i++) {
        double want = expected(t, op, e->me->size, first + i), got = get(t, e->host, i);
        double allowed = op == ncclAvg ? t->allowed * t->values : 0;
        if (!(fabs(got - want) <= allowed))
            job_fail(__FILE__, __LINE__, "type %d, op %d, element %zu of %zu: %g, expected %g", (int)t->type,
                     op, first + i, count, got, want);
    }
}

static void reductions_of(const job_env *e, const value_type *t, int kind, size_t count)
{
    ncclRedOp_t op = (ncclRedOp_t)kind;
    size_t ranks = (size_t)e->me->size, rank = (size_t)e->me->rank;
    int root = e->me->size - 1;

    fill(e, t, kind, count);
    NCCL(ncclAllReduce(e->send, e->recv, count, t->type, op, e->comm, e->stream));
    compare(e, t, kind, 0, count);
    NCCL(ncclAllReduce(e->send, e->send, count, t->type, op, e->comm, e->stream)); /* in place */
    CUDA(cudaMemcpyAsync(e->recv, e->send, count * t->bytes, cudaMemcpyDeviceToDevice, e->stream));
    compare(e, t, kind, 0, count);

    fill(e, t, kind, count);
    NCCL(ncclReduce(e->send, e->recv, count, t->type, op, root, e->comm, e->stream));
    CUDA(cudaStreamSynchronize(e->stream));
    if (e->me->rank == root) compare(e, t, kind, 0, count);

    fill(e, t, kind, count * ranks);
    NCCL(ncclReduceScatter(e->send, e->recv, count, t->type, op, e->comm, e->stream));
    compare(e, t, kind, count * rank, count);
}

static job_env open_env(job_rank *me)
{
    job_env e = {.me = me, .comm = new_comm(me), .stream = new_stream(me)};

    e.bytes = counts[COUNTS - 1] * sizeof(double) * (size_t)me->size;
    e.send = to_device(NULL, e.bytes);
    e.recv = to_device(NULL, e.bytes);
    e.host = malloc(e.bytes);
    CHECK(e.host);
    return e;
}

static void close_env(job_env *e)
{
    free(e->host);
    CUDA(cudaFree(e->send));
    CUDA(cudaFree(e->recv));
    CUDA(cudaStreamDestroy(e->stream));
    NCCL(ncclCommDestroy(e->comm));
}

static void all_reductions(job_rank *me)
{
    static const int ops[] = {ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg};
    bool fewer = me->size > 5 || JOB_SANITIZED; /* one count will do */
    job_env e = open_env(me);

    for (int t = 0; t < TYPES; t++)
        for (int op = 0; op < 5; op++)
            for (int c = fewer; c < COUNTS - fewer; c++) reductions_of(&e, &types[t], ops[op], counts[c]);
    close_env(&e);
}

/* ---- moves ------------------------------------------------------------------------------------------ */

static uint32_t word(int from, int to, size_t i)
{
    return (uint32_t)(from * 1000003 + to * 10007) + (uint32_t)i;
}

static void fill_words(const job_env *e, int blocks, size_t count)
{
    uint32_t *at = e->host;

    for (int b = 0; b < blocks; b++)
        for (size_t i = 0; i < count; i++) at[(size_t)b * count + i] = word(e->me->rank, b, i);
    CUDA(cudaMemcpyAsync(e->send, e->host, (size_t)blocks * count * 4, cudaMemcpyHostToDevice, e->stream));
    CUDA(cudaMemsetAsync(e->recv, 0x11, e->bytes, e->stream));
    CUDA(cudaStreamSynchronize(e->stream));
}

/* Block b of recv is block `block` of rank from + b. */
static void compare_words(const job_env *e, int from, int block, int blocks, size_t count)
{
    const uint32_t *at = e->host;

    to_host(e->host, e->recv, (size_t)blocks * count * 4, e->stream);
    for (int b = 0; b < blocks; b++)
        for (size_t i = 0; i < count; i++) CHECK_INT(at[(size_t)b * count + i], word(from + b, block, i));
}

static void moves_of(const job_env *e, size_t count)
{
    int ranks = e->me->size, rank = e->me->rank, root = ranks / 2;
    char *own = (char *)e->recv + (size_t)rank * count * 4;

    fill_words(e, 1, count);
    NCCL(ncclBroadcast(rank == root ? e->send : NULL, e->recv, count, ncclUint32, root, e->comm, e->stream));
    compare_words(e, root, 0, 1, count);
    if (rank == root) CUDA(cudaMemcpyAsync(e->recv, e->send, count * 4, cudaMemcpyDeviceToDevice, e->stream));
    NCCL(ncclBcast(e->recv, count, ncclUint32, root, e->comm, e->stream));
    compare_words(e, root, 0, 1, count);
    NCCL(ncclAllGather(e->send, e->recv, count, ncclUint32, e->comm, e->stream));
    compare_words(e, 0, 0, ranks, count);
    CUDA(cudaMemsetAsync(e->recv, 0x11, e->bytes, e->stream));
    CUDA(cudaMemcpyAsync(own, e->send, count * 4, cudaMemcpyDeviceToDevice, e->stream));
    NCCL(ncclAllGather(own, e->recv, count, ncclUint32, e->comm, e->stream)); /* in place */
    compare_words(e, 0, 0, ranks, count);
#if NCCL_VERSION_CODE >= 22800
    fill_words(e, ranks, count);
    NCCL(ncclAlltoAll(e->send, e->recv, count, ncclUint32, e->comm, e->stream));
    compare_words(e, 0, rank, ranks, count);
    NCCL(ncclGather(e->send, e->recv, count, ncclUint32, root, e->comm, e->stream));
    CUDA(cudaStreamSynchronize(e->stream));
    if (rank == root) compare_words(e, 0, 0, ranks, count);
    CUDA(cudaMemsetAsync(e->recv, 0x11, e->bytes, e->stream));
    NCCL(ncclScatter(e->send, e->recv, count, ncclUint32, root, e->comm, e->stream));
    compare_words(e, root, rank, 1, count);
#endif
}

static void all_moves(job_rank *me)
{
    job_env e = open_env(me);

    for (int c = 0; c < COUNTS; c++) moves_of(&e, counts[c]);
    close_env(&e);
}

/* More than a ring between two ranks holds, several times. */
static void large_ones(job_rank *me)
{
    enum { COUNT = 300001 };
    ncclComm_t comm = new_comm(me);
    cudaStream_t stream = new_stream(me);
    float *host = malloc(COUNT * sizeof *host);
    float *device;

    CHECK(host);
    for (int i = 0; i < COUNT; i++) host[i] = (float)((i + me->rank) % 5);
    device = to_device(host, COUNT * sizeof *host);
    NCCL(ncclAllReduce(device, device, COUNT, ncclFloat32, ncclSum, comm, stream));
    to_host(host, device, COUNT * sizeof *host, stream);
    for (int i = 0; i < COUNT; i++) {
        int want = 0;
        for (int r = 0; r < me->size; r++) want += (i + r) % 5;
        CHECK_INT(host[i], want);
    }
    free(host);
    CUDA(cudaFree(device));
    CUDA(cudaStreamDestroy(stream));
    NCCL(ncclCommDestroy(comm));
}

/* ---- finer points ----------------------------------------------------------------------------------- */

/* Chunk c is summed from rank c + 1 on, around to rank c: seen where the order makes a difference. */
static void the_order_is_the_rings(job_rank *me)
{
    ncclComm_t comm = new_comm(me);
    cudaStream_t stream = new_stream(me);
    float values[8], results[8];
    int ranks = me->size;

    for (int r = 0; r < ranks; r++) values[r] = r % 2 ? 1e8f : (float)(r + 1) * -3.3f;
    for (int i = 0; i < ranks; i++) results[i] = values[me->rank];
    float *device = to_device(results, sizeof results);
    NCCL(ncclAllReduce(device, device, (size_t)ranks, ncclFloat32, ncclSum, comm, stream));
    to_host(results, device, sizeof results, stream);
    for (int c = 0; c < ranks; c++) {
        float sum = values[(c + 1) % ranks];
        for (int i = 2; i <= ranks; i++) sum = values[(c + i) % ranks] + sum;
        CHECK(sum == results[c]);
    }
    CUDA(cudaFree(device));
    CUDA(cudaStreamDestroy(stream));
    NCCL(ncclCommDestroy(comm));
}

static void inputs_are_multiplied_before(job_rank *me)
{
    ncclComm_t comm = new_comm(me);
    cudaStream_t stream = new_stream(me);
    float input_value = (float)(me->rank + 1), factor = 0.5f, result;
    float *device = to_device(&input_value, sizeof input_value), *out = to_device(NULL, sizeof *out);
    float *where = to_device(&factor, sizeof factor);
    ncclRedOp_t now, later;
    int want = me->size * (me->size + 1) / 2;

    NCCL(ncclRedOpCreatePreMulSum(&now, &factor, ncclFloat32, ncclScalarHostImmediate, comm));
    NCCL(ncclRedOpCreatePreMulSum(&later, where, ncclFloat32, ncclScalarDevice, comm));
    factor = 99;
    NCCL(ncclAllReduce(device, out, 1, ncclFloat32, now, comm, stream));
    NCCL_IS(ncclAllReduce(device, out, 1, ncclFloat64, now, comm, stream), ncclInvalidArgument);
    NCCL(ncclRedOpDestroy(now, comm)); /* at once: the call has it */
    to_host(&result, out, sizeof result, stream);
    CHECK(result == (float)want * 0.5f);
    NCCL_IS(ncclRedOpDestroy(now, comm), ncclInvalidArgument);

    factor = 2;
    CUDA(cudaMemcpy(where, &factor, sizeof factor, cudaMemcpyHostToDevice)); /* read when the kernel runs */
    NCCL(ncclAllReduce(device, out, 1, ncclFloat32, later, comm, stream));
    to_host(&result, out, sizeof result, stream);
    CHECK(result == (float)want * 2);
    NCCL(ncclRedOpDestroy(later, comm));
    CUDA(cudaFree(device));
    CUDA(cudaFree(out));
    CUDA(cudaFree(where));
    CUDA(cudaStreamDestroy(stream));
    NCCL(ncclCommDestroy(comm));
}

static void nothing_is_fine(job_rank *me)
{
    ncclComm_t comm = new_comm(me);
    cudaStream_t stream = new_stream(me);

    NCCL(ncclAllReduce(NULL, NULL, 0, ncclFloat32, ncclSum, comm, stream));
    NCCL(ncclBroadcast(NULL, NULL, 0, ncclFloat32, 0, comm, stream));
    NCCL(ncclGroupStart());
    NCCL(ncclSend(NULL, 0, ncclFloat32, (me->rank + 1) % me->size, comm, stream));
    NCCL(ncclRecv(NULL, 0, ncclFloat32, (me->rank + me->size - 1) % me->size, comm, stream));
    NCCL(ncclGroupEnd());
    CUDA(cudaStreamSynchronize(stream));
    CUDA(cudaStreamDestroy(stream));
    NCCL(ncclCommDestroy(comm));
}

/* A buffer is read when its kernel runs, not when it is given. */
static void the_stream_decides_when(job_rank *me)
{
    ncclComm_t comm = new_comm(me);
    cudaStream_t stream = new_stream(me);
    int value = me->rank + 1;
    int *device = to_device(NULL, sizeof value);

    CUDA(cudaMemcpyAsync(device, &value, sizeof value, cudaMemcpyHostToDevice, stream));
    NCCL(ncclAllReduce(device, device, 1, ncclInt32, ncclSum, comm, stream));
    NCCL(ncclAllReduce(device, device, 1, ncclInt32, ncclSum, comm, stream));
    to_host(&value, device, sizeof value, stream);
    CHECK_INT(value, me->size * me->size * (me->size + 1) / 2);
    CUDA(cudaFree(device));
    CUDA(cudaStreamDestroy(stream));
    NCCL(ncclCommDestroy(comm));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("one rank reduces", .ranks = 1, .bare = true, .body = all_reductions),
        JOB_TEST("two ranks reduce", .ranks = 2, .bare = true, .body = all_reductions),
        JOB_TEST("three ranks reduce", .ranks = 3, .bare = true, .body = all_reductions),
        JOB_TEST("five threads reduce", .ranks = 5, .bare = true, .threads = true, .body = all_reductions),
        JOB_TEST("eight ranks reduce", .ranks = 8, .bare = true, .body = all_reductions),
        JOB_TEST("one rank moves", .ranks = 1, .bare = true, .body = all_moves),
        JOB_TEST("two ranks move", .ranks = 2, .bare = true, .body = all_moves),
        JOB_TEST("four threads move", .ranks = 4, .bare = true, .threads = true, .body = all_moves),
        JOB_TEST("seven ranks move", .ranks = 7, .bare = true, .body = all_moves),
        JOB_TEST("large ones", .ranks = 3, .bare = true, .body = large_ones),
        JOB_TEST("the order is the ring's", .ranks = 6, .bare = true, .body = the_order_is_the_rings),
        JOB_TEST("inputs are multiplied before", .ranks = 3, .bare = true,
                 .body = inputs_are_multiplied_before),
        JOB_TEST("nothing is fine", .ranks = 2, .bare = true, .body = nothing_is_fine),
        JOB_TEST("the stream decides when", .ranks = 4, .bare = true, .body = the_stream_decides_when),
    };

    return JOB_MAIN(tests, argc, argv);
}
